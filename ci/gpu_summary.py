# SPDX-License-Identifier: MIT
"""Judges and sums up what ci/gpu.sh measured; Python's standard library alone.

    gpu_summary.py [--rehearse] OUT PART...   Markdown on stdout: parts, machine, equality, figures
    gpu_summary.py --digests FILE             exact rows of one model and batch must have one digest
    gpu_summary.py --compare A B              two parameter files must agree within COMPARE_BOUND

Exit status: 0 all well; 1 the check failed. A figure that misses its target is reported as a miss
and is no failure. Left out: running anything.
"""

import json
import math
import pathlib
import re
import struct
import sys

# Largest ||a - b|| / ||b|| of a tensor after 20 steps of plain SGD: roundings of two orders of
# summation, which SGD does not enlarge.
COMPARE_BOUND = 1e-4


def read_rows(path):
    """The rows of a JSON-lines file; none where there is no such file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


# ---- Checks that parts ask for --------------------------------------------------------------------


def read_tensors(path):
    """{name: floats} of a safetensors file of float32."""
    content = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[name] = struct.unpack(f"<{(end - begin) // 4}f", content[begin:end])
    return tensors


def compare(path_a, path_b):
    """Whether the two files have the same tensors, close to each other."""
    a, b = read_tensors(path_a), read_tensors(path_b)
    if a.keys() != b.keys() or any(len(a[name]) != len(b[name]) for name in a):
        print("the files do not have the same tensors")
        return False
    worst = 0.0
    for name, values in a.items():
        distance = math.sqrt(sum((x - y) ** 2 for x, y in zip(values, b[name])))
        size = math.sqrt(sum(y * y for y in b[name]))
        relative = distance / size if size else distance
        print(f"{name}: {relative:.2e}")
        worst = max(worst, relative) if relative == relative else math.inf
    print(f"largest relative difference {worst:.2e}, bound {COMPARE_BOUND:.0e}")
    return worst <= COMPARE_BOUND


def group_of(row):
    """What exact rows with the same bits have in common."""
    case = row["case"]
    keys = ("model", "data", "batch_global", "steps", "seed", "optimizer", "lr", "micro_shards", "convolution")
    return tuple(str(case.get(key)) for key in keys)


def digests(path):
    """Whether all exact rows of a group have one digest; prints each group."""
    groups = {}
    for row in read_rows(pathlib.Path(path)):
        digest = row.get("equivalence", {}).get("digest")
        if row["case"]["reduce"] == "exact" and digest:
            groups.setdefault(group_of(row), []).append((digest, row["case"]))
    same = bool(groups)
    for group, found in groups.items():
        values = {digest for digest, _ in found}
        print(f"{group[0]}: {len(found)} exact rows, {len(values)} digest(s)")
        same = same and len(values) == 1
    if not groups:
        print("no exact rows")
    return same


# ---- The summary ----------------------------------------------------------------------------------


def table(head, lines):
    """A Markdown table; nothing where it has no lines."""
    if not lines:
        return []
    cells = [head, ["---"] * len(head), *lines]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in cells] + [""]


def states(out, parts):
    """{part: (state, seconds, why)}; those that were not asked for are absent."""
    found = {}
    for part in parts:
        path = out / f"{part}.state"
        if path.exists():
            found[part] = path.read_text(encoding="utf-8").rstrip("\n").split("\t")
    return found


def log_lines(out, part, pattern):
    """The lines of a part's log that match."""
    path = out / f"{part}.log"
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return [line for line in text.splitlines() if re.search(pattern, line)]


def machine_section(out):
    """What it ran on and what the program was built with."""
    built = log_lines(out, "devices", r"^  (commit|CUDA|cuBLAS|cuDNN|NCCL|OpenMPI|oneDNN) ")
    loaded = {row["provenance"].get("kernels", {}).get("library") for row in read_rows(out / "verify.jsonl")}
    used = [f"used: {library}" for library in sorted(loaded - {None, ""})]
    return ["## Machine", "", "```", *log_lines(out, "machine", r"."), *built, *used, "```", ""]


def verify_section(out):
    """Rows by model and strategy, and what was refused."""
    groups = {}
    for row in read_rows(out / "verify.jsonl"):
        case = row["case"]
        key = (case["model"], case["strategy"] + convolutions(row), case["reduce"], "yes" if case["capture"] else "no")
        groups.setdefault(key, []).append(row)
    lines = []
    for key, rows in groups.items():
        counts = ", ".join(str(len(row["case"]["devices"])) for row in rows)
        bad = [row["result"].get("reason", "") for row in rows if row["result"]["status"] != "ok"]
        grades = sorted({row.get("equivalence", {}).get("grade", "") for row in rows})
        well = "not compared" if grades == ["none"] else "equal"
        lines.append([*key, counts, ", ".join(grades), "; ".join(bad) if bad else well])
    head = ["model", "strategy", "reduce", "captured", "devices", "grade", "verdict"]
    result = ["## Equality", "", *table(head, lines)]
    result += [f"- {line}" for line in log_lines(out, "verify", r"exact rows")]
    result += [f"- GPU against CPU: {line}" for line in log_lines(out, "compare", r"^largest")]
    refused = out / "refused.txt"
    if refused.exists() and refused.stat().st_size:
        text = list(dict.fromkeys(refused.read_text(encoding="utf-8").splitlines()))
        result += ["", "Refused (no failure):", "", *(f"- {line}" for line in text[:80])]
    return [*result, ""]


def step_ms(row):
    """The median step, or None."""
    return row.get("time", {}).get("step_ms", {}).get("median")


def floor_lines(out, large_ms):
    """The large model's step against its products and all of its parts, each timed alone."""
    rows = [row["micro"] for row in read_rows(out / "floor.jsonl")]
    products = sum(row["time_us"] for row in rows if row["op"] == "gemm") * 1e-3
    roof = sum(row["time_us"] for row in rows if row["op"] == "roof") * 1e-3
    floor = sum(row["time_us"] for row in rows if row["op"] == "floor") * 1e-3
    if not products or not large_ms:
        return []
    lines = []
    if roof: # of GPUs
        lines = [verdict("large step / its products by cuBLASLt's first choice, any order (roof)",
                         large_ms / roof, 1.25)]
    return lines + [
        ["large step / its products, as the step has them", f"{large_ms / products:.3f}", "", ""],
        ["large step / sum of all its parts", f"{large_ms / floor:.3f}", "", ""],
    ]


def verdict(what, value, most):
    """A line of the targets."""
    return [what, f"{value:.4g}", f"at most {most:g}", "reached" if value <= most else "MISSED"]


def convolutions(row):
    """Which way a GPU's convolutions went: ", cudnn_fused"; "" where there is no choice."""
    kernels = row["provenance"].get("kernels", {})
    asked = row["case"].get("convolution")
    return f", convolution {asked}: {kernels.get('conv_forward', 'none')}" if asked else ""


def bench_section(out):
    """The benchmark table and the targets."""
    rows = [row for row in read_rows(out / "bench.jsonl") if step_ms(row)]
    lines, targets, large = [], [], None
    for row in rows:
        case, time = row["case"], row["time"]
        captured = "yes" if case["capture"] else "no"
        lines.append([
            row.get("label", ""), case["model"], case["strategy"] + convolutions(row), len(case["devices"]),
            case["batch_global"], captured, f"{step_ms(row):.4g}", f"{time['samples_per_s']:.4g}",
            f"{time['mfu']:.2f}" if "mfu" in time else "", row.get("program", {}).get("nodes", ""),
            f"{time['build_ms']:.3g}" if "build_ms" in time else "", f"{time['host_us']:.3g}" if "host_us" in time else "",
        ])
        if row.get("label") == "large":
            large = step_ms(row)
        if row.get("label") == "small" and case["capture"]:
            targets.append(verdict("small step, us", step_ms(row) * 1e3, 60))
            if "host_us" in time:
                targets.append(verdict("host per replayed step, us", time["host_us"], 10))
    head = ["label", "model", "strategy", "devices", "batch", "captured", "step ms", "samples/s",
            "mfu", "nodes", "build ms", "host us"]
    return [
        "## Figures", "", *table(head, lines),
        *table(["target", "measured", "wanted", "verdict"], floor_lines(out, large) + targets),
    ]


def peers_section(out):
    """PyTorch and JAX beside lockstep, in turns in the same run."""
    path = out / "peers.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    text = []
    for result in results:
        worst = max(result["differences"].values(), default=0)
        lines = [[name, f"{ms:.4g}", f"{ms / result['step_ms']['lockstep']:.2f}"]
                 for name, ms in result["step_ms"].items()]
        lines += [[name, "failed", why] for name, why in result["errors"].items()]
        text += [f"{result['model']}, batch {result['batch']}; losses differ by {worst:.1e} at most:", ""]
        text += table(["", "step ms", "over lockstep"], lines)
        if result["ratio"]:
            least = 1 if result["batch"] > 1000 else 2
            reached = "reached" if result["ratio"] >= least else "MISSED"
            text += [f"Fastest peer {result['fastest']}: {result['ratio']:.2f}, "
                     f"at least {least} wanted: {reached}.", ""]
    return ["## Peers: float32, TF32 off", "", *text] if text else []


def micro_section(out):
    """Single operations."""
    lines = []
    for row in read_rows(out / "micro.jsonl"):
        micro = row["micro"]
        lines.append([
            micro["op"],
            ", ".join(micro[name] for name in ("shape", "comm", "kernel") if name in micro and
                      (name == "shape" or "comm" in micro or micro["op"] == "layers")),
            micro.get("size_bytes", micro.get("count", "")),
            micro["ranks"],
            f"{micro['time_us']:.4g}", f"{micro['algbw_gbs']:.4g}" if "algbw_gbs" in micro else "",
            f"{micro['gflops']:.4g}" if "gflops" in micro else "",
            f"{micro['host_us']:.3g}" if "host_us" in micro else "", micro.get("wrong", ""),
        ])
    head = ["op", "what", "bytes, or how many", "ranks", "us", "GB/s", "GFLOP/s", "host us", "wrong"]
    return ["## Single operations", "", *table(head, lines)] if lines else []


def memory_section(out):
    """What devices held, by policy."""
    lines = []
    for row in read_rows(out / "memory.jsonl"):
        for device in row.get("memory", {}).get("devices", []):
            lines.append([
                row["case"]["memory"], device["device"], device["reserved"], device["peak"],
                device["formula"]["peak"], row["memory"].get("growth_per_step", ""),
            ])
    head = ["policy", "device", "reserved", "peak", "formula", "growth per step"]
    series = out / "memory.csv"
    used = [int(found) for found in re.findall(r", (\d+) MiB", series.read_text(encoding="utf-8"))] \
        if series.exists() else []
    note = []
    if used:
        note = [f"The driver's figure (memory.csv, {len(used)} samples): {min(used)} to {max(used)} MiB.", ""]
    return ["## Memory", "", *table(head, lines), *note] if lines else []


def summary(out, parts, rehearse):
    """The lines of the summary."""
    found = states(out, parts)
    bad = [part for part, state in found.items() if state[0] in ("failed", "cut")]
    title = "# Rehearsal on CPU devices: nothing here is a GPU's" if rehearse else "# GPU run"
    lines = [[part, *state, ""][:4] for part, state in found.items()]
    text = [
        title, "", f"{len(bad)} of {len(found)} parts failed or were cut.", "",
        *table(["part", "state", "seconds", "why"], lines),
    ]
    sections = (machine_section, verify_section, bench_section, peers_section, micro_section,
                memory_section)
    for section in sections:
        text += section(out)
    tests = log_lines(out, "tests", r"Test +#\d+:")
    if tests:
        text += ["## Tests (label gpu)", "", "```", *tests, "```", ""]
    return text


def main(arguments):
    """Returns the exit status."""
    if arguments[:1] == ["--compare"]:
        return 0 if compare(*arguments[1:3]) else 1
    if arguments[:1] == ["--digests"]:
        return 0 if digests(arguments[1]) else 1
    rehearse = arguments[:1] == ["--rehearse"]
    out, *parts = arguments[1:] if rehearse else arguments
    print("\n".join(summary(pathlib.Path(out), parts, rehearse)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
