# SPDX-License-Identifier: MIT
"""Judges and summarizes the measurements of ci/gpu.sh; uses only Python's standard library.

    gpu_summary.py [--rehearse] KEPT PART...  Markdown on stdout: the most important first, then by
    part
    gpu_summary.py --digests FILE             exact rows of one model and batch must have one digest
    gpu_summary.py --compare A B              two parameter files must agree within COMPARE_BOUND

Exit status: 0 success; 1 the check failed. A figure that misses its target is reported, but is not
a failure. Runs no measurements itself.
"""

import json
import math
import pathlib
import re
import statistics
import struct
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench/peers"))
import tensors  # noqa: E402  the same files

# Largest ||a - b|| / ||b|| of a tensor after 20 steps of plain SGD: the rounding difference of two
# reduction orders, which SGD does not amplify.
COMPARE_BOUND = 1e-4


def read_rows(path):
    """The complete rows of a JSON-lines file; none if there is no such file."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


# ---- Checks that parts ask for --------------------------------------------------------------------


def read_tensors(path):
    """{name: floats} of a safetensors file of float32."""
    return {name: struct.unpack(f"<{len(data) // 4}f", data) for name, (_, data) in tensors.read(path).items()}


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
    """Key of the exact rows that must have the same bits."""
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
    """A Markdown table; empty without lines."""
    if not lines:
        return []
    cells = [head, ["---"] * len(head), *lines]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in cells] + [""]


def states(out, parts):
    """{part: (state, seconds, why)}, without parts that were not requested."""
    found = {}
    for part in parts:
        path = out / f"{part}.state"
        if path.exists():
            found[part] = path.read_text(encoding="utf-8").rstrip("\n").split("\t")
    return found


def passed_before(out, part):
    """The earlier commits that have passed a part."""
    paths = sorted(out.glob(f"earlier/*/{part}.state"), key=lambda path: path.stat().st_mtime)
    return " ".join(path.parent.name for path in paths if path.read_text(encoding="utf-8").startswith("ok"))


def log_lines(out, part, pattern):
    """The lines of a part's log that match."""
    path = out / f"{part}.log"
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return [line for line in text.splitlines() if re.search(pattern, line)]


def machine_section(out):
    """The machine, and the libraries of the build."""
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
    """The large model's step relative to its products and to all of its parts, each timed alone."""
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
    """One line of the table of targets."""
    return [what, f"{value:.4g}", f"at most {most:g}", "reached" if value <= most else "MISSED"]


def convolutions(row):
    """The implementation of a GPU's convolutions: ", convolution auto: conv_forward's"; "" without
    a choice."""
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


def smoke_section(out):
    """The first figure of each model."""
    lines = [[row.get("label", ""), row["case"]["model"] + convolutions(row), row["case"]["batch_global"],
              f"{step_ms(row):.4g}", f"{row['time']['mfu']:.2f}" if "mfu" in row["time"] else "",
              row.get("equivalence", {}).get("grade", ""), row["provenance"].get("kernels", {}).get("library", "")]
             for row in read_rows(out / "smoke.jsonl") if step_ms(row)]
    head = ["label", "model", "batch", "step ms", "mfu", "grade", "library"]
    return ["## First figures (smoke): 20 steps each, other work beside them", "", *table(head, lines)] if lines else []


def features_section(out):
    """What has come since figures were last taken."""
    lines = [[row.get("label", ""), ", ".join([row["case"]["model"], row["case"]["strategy"]]), row["case"]["reduce"],
              row.get("equivalence", {}).get("grade", ""), row["result"].get("reason", row["result"]["status"])]
             for row in read_rows(out / "features.jsonl")]
    head = ["feature", "case", "reduce", "grade", "verdict"]
    return ["## Features", "", *table(head, lines)] if lines else []


def clocks_section(out):
    """What nvidia-smi logged twice per second: whether the GPU was slowed down."""
    path, gpus = out / "clocks.csv", {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 6 and fields[2].isdigit():
            gpus.setdefault(fields[1], []).append(fields)
    lines = []
    for gpu, samples in sorted(gpus.items()):
        reasons = {}
        for fields in samples:
            reasons[fields[4]] = reasons.get(fields[4], 0) + 1
        lines.append([gpu, len(samples)] + [
            f"{min(numbers):g} to {max(numbers):g}" if (numbers := [float(f[i]) for f in samples if is_number(f[i])]) else ""
            for i in (2, 3, 5)] + [", ".join(f"{reason}: {n}" for reason, n in sorted(reasons.items()))])
    head = ["GPU", "samples", "SM clock, MHz", "power, W", "temperature, C", "reasons that slow it down: samples"]
    return ["## Clocks (clocks.csv)", "", *table(head, lines)] if lines else []


def is_number(text):
    """Whether it is one; nvidia-smi writes [N/A] for what it does not know."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def peer_cases(out):
    """{(model, batch): {name: median ms of a step over all blocks, or why it failed}}, the largest
    difference of losses of each, and lockstep's rates of each. Of bf16 the model's name says so."""
    turns, differences, rates = {}, {}, {}
    for line in read_rows(out / "peers.jsonl") + [
            line | {"model": f"{line['model']}, bf16"} for line in read_rows(out / "peers-bf16.jsonl") if "model" in line]:
        if "machine" in line:
            continue
        case = (line["model"], line["batch"])
        names = turns.setdefault(case, {})
        if "error" in line:
            names[line["name"]] = line["error"]
        elif not isinstance(names.setdefault(line["name"], []), str):
            names[line["name"]] += line["blocks_ms"]
        differences[case] = max(differences.get(case, 0), line.get("difference", 0))
        if "gflops" in line:
            rates.setdefault(case, []).append((line["gflops"], line["mfu"]))
    figures = {case: {name: blocks if isinstance(blocks, str) else statistics.median(blocks)
                      for name, blocks in names.items()} for case, names in turns.items()}
    return figures, differences, rates


GPT2 = "gpt:12-12-768-1024-50257"
# model: the least ratio required of peers with this in their names; others are as measured
TARGETS = {GPT2: (1.7, "torch"), "cifar10": (1.3, ""), f"{GPT2}, bf16": (1, "torch-compile")}
# TFLOP/s of dense products in bfloat16, by the data sheets
BF16_PEAKS = {"H200": 989.5, "H100 80GB HBM3": 989.5, "A100": 312}


def bf16_peak(out):
    """The GPU's peak in TFLOP/s; None if it is not known."""
    names = " ".join(log_lines(out, "machine", r"^[0-9]+, .*MiB"))
    return next((peak for name, peak in BF16_PEAKS.items() if name in names), None)


def targets_section(out):
    """Lockstep beside the fastest peer, with what is wanted; a missed target is no failure."""
    figures, _, rates = peer_cases(out)
    lines = []
    for (model, batch), names in figures.items():
        well = {name: ms for name, ms in names.items() if not isinstance(ms, str)}
        own = well.pop("lockstep", None)
        if not own or not well:
            continue
        least, among = TARGETS.get(model, (None, ""))
        fastest = min(well, key=well.get)
        judged = [ms / own for name, ms in well.items() if among in name]
        verdict_words = "as measured" if least is None else "no such peer" if not judged else \
            "reached" if min(judged) >= least else f"MISSED: {min(judged):.2f}"
        rate, used = ([statistics.median(numbers) for numbers in zip(*rates[model, batch])]
                      if (model, batch) in rates else (None, None))
        if "bf16" in model and rate:  # by the sheet, as others say it
            used = rate / 1e3 / bf16_peak(out) if bf16_peak(out) else None
        lines.append([model, batch, f"{own:.4g}", f"{rate / 1e3:.3g}" if rate else "", f"{used:.2f}" if used else "",
                      fastest, f"{well[fastest] / own:.2f}",
                      f"{least} of {among or 'the fastest'}" if least else "", verdict_words])
    head = ["model", "batch", "step ms", "TFLOP/s", "MFU", "fastest peer", "its time / Lockstep's", "wanted", "verdict"]
    note = "MFU: of the roof that Lockstep has measured; in bf16 of the data sheet's peak."
    return ["## Targets", "", *table(head, lines), note, ""] if lines else []


def peers_section(out):
    """PyTorch and JAX in turns with lockstep, in the same run."""
    text = []
    figures, differences, _ = peer_cases(out)
    for (model, batch), names in figures.items():
        own = names.get("lockstep")
        lines = []
        for name, ms in names.items():
            if isinstance(ms, str):
                lines.append([name, "failed", ms])
            else:
                lines.append([name, f"{ms:.4g}", f"{ms / own:.2f}" if isinstance(own, float) else ""])
        text += [f"{model}, batch {batch}; losses differ by {differences[model, batch]:.1e} at most:", ""]
        text += table(["", "step ms", "over lockstep"], lines)
    return ["## Peers: TF32 off", "", *text] if text else []


# ---- Kernels: their times ---------------------------------------------------------------------------

END_OF_STEP = "finish_kernel"


def plain_name(mangled):
    """A C++ function's name, with its first template argument if that is a type."""

    def identifiers(rest, most):
        found = []
        while len(found) < most and (match := re.match(r"(\d+)(.*)", rest)):
            found.append(match[2][: int(match[1])])
            rest = match[2][int(match[1]) :]
        return found, rest

    nested = mangled.startswith("_ZN")
    names, rest = identifiers(mangled.removeprefix("_Z").removeprefix("N"), 9 if nested else 1)
    argument, _ = identifiers(rest[1:], 1) if rest.startswith("I") else ([], "")
    return ("::".join(names) + (f"<{argument[0]}>" if argument else ""))[:70] or mangled[:70]


def last_step(path):
    """[(start, ns, name, grid)] of the last whole step: a step's end is also timed alone."""
    kernels = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split(None, 5)
        if len(words) == 6:  # the last line may be cut
            kernels.append((int(words[0]), int(words[1]), plain_name(words[5]), words[2]))
    kernels.sort()
    ends = [i for i, kernel in enumerate(kernels) if kernel[2] == END_OF_STEP]
    steps = [kernels[start + 1 : end + 1] for start, end in zip(ends, ends[1:])]
    most = max(map(len, steps), default=0)
    return next((step for step in reversed(steps) if 2 * len(step) > most), [])


def kernels_section(out):
    """Where a step's time goes, by kernel."""
    text = []
    for path in sorted((out / "kernels").glob("*.txt")):
        step = last_step(path)
        if not step:
            continue
        busy, span = sum(k[1] for k in step), step[-1][0] + step[-1][1] - step[0][0]
        groups = {}
        for kernel in step:
            groups.setdefault(kernel[2], []).append(kernel[1])
        longest = sorted(groups.items(), key=lambda item: -sum(item[1]))
        lines = [[f"{path.stem}, all, in {span * 1e-3:.1f} us", len(step), f"{busy * 1e-3:.1f}", "100%"]]
        lines += [[name, len(ns), f"{sum(ns) * 1e-3:.1f}", f"{100 * sum(ns) / busy:.0f}%"]
                  for name, ns in longest[:12]]
        text += table(["", "launches", "us", "of the kernels"], lines)
    return ["## Kernels of one step (CUPTI)", "", *text] if text else []


def micro_section(out):
    """Single operations."""
    lines = []
    for row in read_rows(out / "roofs.jsonl") + read_rows(out / "micro.jsonl"):
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
        for device in row.get("memory", {}).get("devices", [])[:1]:  # replicas are alike
            lines.append([
                row["case"]["memory"], len(row["case"]["devices"]), device["device"], device["reserved"], device["peak"],
                device["formula"]["peak"], row["memory"].get("growth_per_step", ""),
            ])
    head = ["policy", "devices", "device", "reserved", "peak", "formula", "growth per step"]
    series = out / "memory.csv"
    used = [int(found) for found in re.findall(r", (\d+) MiB", series.read_text(encoding="utf-8"))] \
        if series.exists() else []
    note = []
    if used:
        note = [f"The driver's figure (memory.csv, {len(used)} samples): {min(used)} to {max(used)} MiB.", ""]
    return ["## Memory", "", *table(head, lines), *note] if lines else []


def ways_section(out):
    """The fastest implementation for each shape and direction, and wrong ones."""
    lines = log_lines(out / "tests", "test_gpu_conv_kernels", r"^convolution | fastest: | WRONG|OTHER BITS")
    return ["## Convolutions: fastest ways", "", "```", *lines, "```", ""] if lines else []


def guarded(section):
    """A section's lines; a failure here does not lose the rest."""
    try:
        return section()
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        return [f"Could not be summed up: {type(error).__name__}: {error}", ""]


def gate_lines(out):
    """The gate's findings, in a few lines."""
    rows = [row for name in ("verify", "features") for row in read_rows(out / f"{name}.jsonl") if row["result"]["status"]]
    bad = [row for row in rows if row["result"]["status"] != "ok"]
    if not rows:
        return ["Gate: not seen."]
    exact = [row for row in rows if row["case"]["reduce"] == "exact"]
    lines = [f"Gate: {len(rows) - len(bad)} of {len(rows)} cases equal ({len(exact)} of them exact), on 1 to "
             f"{max(len(row['case']['devices']) for row in rows)} devices."]
    for row in bad[:20]:
        case = row["case"]
        lines.append(f"Gate: **{row['result']['status']}**: {case['model']}, {case['strategy']}, {case['reduce']}, "
                     f"{len(case['devices'])} devices: {row['result'].get('reason', '')}")
    if len(bad) > 20:
        lines.append(f"Gate: and {len(bad) - 20} more.")
    return lines


def telling(out, found, rehearse):
    """The most important: verdicts, and what has not run."""
    lines = [line for line in guarded(lambda: gate_lines(out)) if line]
    lines += [f"GPU against CPU: {line}." for line in log_lines(out, "compare", r"^largest")]
    for part, state in found.items():
        if state[0] in ("failed", "cut"):
            lines.append(f"{part}: **{state[0]}**: {state[2] if len(state) > 2 else ''}")
        elif state[0] == "left-out":
            lines.append(f"{part}: unseen: {state[2]}")
    lines += log_lines(out, "tests", r"^test_[a-z_]+: (skipped|no end|exit)")
    for part in found:
        lines += log_lines(out, part, r"^(diagnosis of|finding:|gap:) ")[:6]
    if not rehearse and len(log_lines(out, "machine", r"^[0-9]+, .*MiB")) == 1:
        lines.append("Unseen on one GPU: copies between GPUs, NCCL between ranks, peer access.")
    return lines


def summary(out, parts, rehearse):
    """The lines of the summary."""
    found = states(out, parts)
    bad = [part for part, state in found.items() if state[0] in ("failed", "cut")]
    title = "# Rehearsal: nothing here is a GPU's" if rehearse else "# GPU run"
    missing = [part for part in parts if part not in found]
    lines = [[*[part, *found.get(part, ["not begun", ""]), ""][:4], passed_before(out, part)] for part in parts]
    sources = out / "sources"
    title += f", commit {sources.read_text(encoding='utf-8').strip()}" if sources.exists() else ""
    text = [
        title, "", f"{len(bad)} of {len(found)} parts failed or were cut"
        f"{'; not begun: ' + ', '.join(missing) if missing else ''}.", "",
        *(f"- {line}" for line in guarded(lambda: telling(out, found, rehearse))), "",
        *guarded(lambda: targets_section(out)),
        *table(["part", "state", "seconds", "why", "passed by"], lines),
    ]
    sections = (machine_section, smoke_section, features_section, clocks_section, verify_section, bench_section, peers_section, kernels_section,
                micro_section, memory_section)
    for section in sections:
        text += guarded(lambda of=section: of(out))
    text += guarded(lambda: ways_section(out))
    tests = log_lines(out, "tests", r"^test_[a-z_]+: ")
    if tests:
        text += ["## Tests", "", "```", *tests, "```", ""]
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
