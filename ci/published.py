#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Predicts the published figures of reports/published.yaml: see published.sh."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

LOCKSTEP = sys.argv[1]
TIMES = "stretch", "message_ms", "split_ms"  # what is fitted of a pipeline
ROOT = Path(__file__).resolve().parent.parent


def read_published():
    """The entries of the file: each is a line of JSON."""
    setups, rows = {}, []
    for line in (ROOT / "reports/published.yaml").read_text().splitlines():
        if not line.startswith("  - "):
            continue
        entry = json.loads(line[4:])
        if "id" in entry:
            rows.append(entry)
            continue
        setups[entry["setup"]] = entry
        for level in ("host", "net"):
            latency = entry[level][0]
            entry[level][0] = float(latency[:-2]) * {"us": 1e-6, "ms": 1e-3}[latency[-2:]]
    return setups, rows


# ---- Models: layers as (name, parameters, multiply-adds of a sample), in forward order ----------


class Convolutions:
    """Layers of a network for images, as they are added. Batch norms count with their convolutions."""

    def __init__(self, size, channels, norm):
        self.size, self.channels, self.norm, self.layers = size, channels, norm, []

    def conv(self, out, height, width=None, stride=1, pad=True, inputs=None, size=None):
        width = width or height
        inputs, size = inputs or self.channels, size or self.size
        size = -(-size // stride) if pad else (size - max(height, width)) // stride + 1
        weights = inputs * out * height * width
        extra = 2 * out if self.norm else out
        self.layers.append((f"conv{len(self.layers)}", weights + extra, weights * size * size))
        self.channels, self.size = out, size
        return size

    def pool(self, stride, window=0):
        self.size = (self.size - window) // stride + 1 if window else self.size // stride

    def dense(self, inputs, out):
        self.layers.append((f"fc{len(self.layers)}", inputs * out + out, inputs * out))


def vgg16():
    m = Convolutions(224, 3, False)
    for channels, times in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(times):
            m.conv(channels, 3)
        m.pool(2)
    m.dense(512 * 7 * 7, 4096)
    m.dense(4096, 4096)
    m.dense(4096, 1000)
    return m.layers


def alexnet():  # as tf_cnn_benchmarks has it
    m = Convolutions(224, 3, False)
    m.conv(64, 11, stride=4)
    m.pool(2, 3)
    m.conv(192, 5)
    m.pool(2, 3)
    m.conv(384, 3)
    m.conv(384, 3)
    m.conv(256, 3)
    m.pool(2, 3)
    m.dense(256 * 6 * 6, 4096)
    m.dense(4096, 4096)
    m.dense(4096, 1000)
    return m.layers


def resnet(blocks):
    m = Convolutions(224, 3, True)
    m.conv(64, 7, stride=2)
    m.pool(2)
    for stage, times in enumerate(blocks):
        width = 64 << stage
        for block in range(times):
            stride = 2 if stage and not block else 1
            size, inputs = m.size, m.channels
            m.conv(width, 1)
            m.conv(width, 3, stride=stride)
            m.conv(4 * width, 1)
            if not block:
                m.conv(4 * width, 1, stride=stride, inputs=inputs, size=size)
    m.dense(2048, 1000)
    return m.layers


def branches(m, *lists):
    """Branches of an Inception block: each a list of (channels, height, width[, stride, pad])."""
    size, inputs, outs = m.size, m.channels, []
    for convolutions in lists:
        m.size, m.channels = size, inputs
        for shape in convolutions:
            m.conv(*shape[:3], *(shape[3:]))
        outs.append((m.channels, m.size))
    return size, inputs, outs


def inception3():
    m = Convolutions(299, 3, True)
    m.conv(32, 3, stride=2, pad=False)
    m.conv(32, 3, pad=False)
    m.conv(64, 3)
    m.pool(2, 3)
    m.conv(80, 1)
    m.conv(192, 3, pad=False)
    m.pool(2, 3)

    def block(more, *lists):
        _, inputs, outs = branches(m, *lists)
        m.channels = sum(c for c, _ in outs) + (inputs if more else 0)

    for pool in (32, 64, 64):
        block(False, [(64, 1, 1)], [(48, 1, 1), (64, 5, 5)], [(64, 1, 1), (96, 3, 3), (96, 3, 3)], [(pool, 1, 1)])
    block(True, [(64, 1, 1), (96, 3, 3), (96, 3, 3, 2, False)], [(384, 3, 3, 2, False)])
    for c in (128, 160, 160, 192):
        block(False, [(192, 1, 1)], [(c, 1, 1), (c, 1, 7), (192, 7, 1)],
              [(c, 1, 1), (c, 7, 1), (c, 1, 7), (c, 7, 1), (192, 1, 7)], [(192, 1, 1)])
    block(True, [(192, 1, 1), (320, 3, 3, 2, False)],
          [(192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3, 2, False)])
    for _ in range(2):
        size, inputs = m.size, m.channels
        m.conv(320, 1, inputs=inputs)
        m.conv(384, 1, inputs=inputs)
        m.conv(384, 1, 3, inputs=384)
        m.conv(384, 3, 1, inputs=384)
        m.conv(448, 1, inputs=inputs)
        m.conv(384, 3, inputs=448)
        m.conv(384, 1, 3, inputs=384)
        m.conv(384, 3, 1, inputs=384)
        m.conv(192, 1, inputs=inputs)
        m.size, m.channels = size, 320 + 768 + 768 + 192
    m.dense(2048, 1000)
    return m.layers


def bert_base():
    block, tokens = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768, 128
    layers = [("embeddings", (30522 + 512 + 2) * 768 + 2 * 768, 0)]
    layers += [(f"block{i}", block, tokens * 12 * 768 * 768 + 2 * tokens * tokens * 768) for i in range(12)]
    return layers + [("pooler", 768 * 768 + 768, 768 * 768)]


def llama8b():
    width, inner, keys = 4096, 14336, 1024
    block = 2 * width * width + 2 * width * keys + 3 * width * inner
    layers = [("embedding", 128256 * width, 0)]
    layers += [(f"block{i}", block + 2 * width, block + 8192 * width) for i in range(32)]
    return layers + [("head", 128256 * width + width, 128256 * width)]


def blocks(count, params):
    return [(f"block{i}", round(params / count), 1) for i in range(count)]


MODELS = {"vgg16": vgg16, "alexnet": alexnet, "inception3": inception3, "bert-base": bert_base, "llama8b": llama8b,
          "resnet50": lambda: resnet((3, 4, 6, 3)), "resnet101": lambda: resnet((3, 4, 23, 3)),
          "resnet152": lambda: resnet((3, 8, 36, 3)),
          "transformer48": lambda: [(f"block{i}", 1000, 1) for i in range(48)],
          "chinchilla150m": lambda: blocks(12, 150e6), "chinchilla1b": lambda: blocks(24, 1e9),
          "chinchilla10b": lambda: blocks(48, 10e9), "chinchilla100b": lambda: blocks(108, 100e9)}


def write_profile(folder, setup, row):
    """The model with the published step of one GPU, a third of it forward, split by FLOPs. `wait_ms` of the setup comes
    before the gradient that is last."""
    layers = MODELS[row["model"]]()
    step_ms, work = 1e3 * row["batch"] / row["single"], sum(flops for _, _, flops in layers)
    path = folder / f"{row['id']}.yaml"
    lines = [f"name: {row['model']}", f"batch: {row['batch']}", "source: times split by FLOPs"]
    lines += [f"element_bytes: {setup['element_bytes']}"] if "element_bytes" in setup else []
    lines += ["layers:"]
    wait_ms = setup.get("wait_ms", 0)
    for name, params, flops in layers:
        forward = step_ms * flops / work / 3
        params = round(params * setup.get("elements", 1))
        lines.append(f"  - {{name: {name}, params: {params}, forward: {forward:.9f}ms, "
                     f"backward: {2 * forward + wait_ms:.9f}ms, activations: 0}}")
        wait_ms = 0
    path.write_text("\n".join(lines) + "\n")
    return path


# ---- Predictions --------------------------------------------------------------------------------


def run(setup, n, model, options):
    """The row that `predict` prints. A device stands for `gpus` of n, whose speed is the row's `single`."""
    levels = ",".join(f"{name}={setup[name][0] * 1e6:.6f}us@{setup[name][1] / 1e9:.9f}GB/s" for name in ("host", "net"))
    command = [LOCKSTEP, "predict", *model, "--devices", str(n // setup.get("gpus", 1)), "--devices-per-host",
               str(setup["per_host"]), "--platform", f"two-level:{levels}", *options, "--steps",
               str(setup.get("steps", 3)), "--warmup", str(setup.get("warmup", 2)), "--draws", "1", "--format", "jsonl",
               "--results", "none"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def predict(folder, setup, row, n=None, options=""):
    """Samples a second."""
    n = n or row["n"]
    if most := setup.get("rings", {}).get(str(row.get("tensor", n))):
        setup = setup | {"host": [setup["host"][0], min(setup["host"][1], most)]}
    if not row["model"].startswith("gpt:"):
        model = ["--model", f"profile:{write_profile(folder, setup, row)}"]
        found = run(setup, n, model, [*options.split(), *row.get("options", setup["options"]).split(), "--strategy",
                                      row.get("strategy", setup["strategy"])])
        return found["time"]["samples_per_s_mean" if "strategy" in row else "samples_per_s"]
    # messages of a model are of 4 bytes an element, and forward's sums of a tensor are made twice if it is recomputed
    wide = setup | {level: [setup[level][0], setup[level][1] * 4 / setup["element_bytes"]] for level in ("host", "net")}
    for level, fewest in (("host", 2), ("net", setup["per_host"] + 1)):
        if setup.get("recomputed") and row["tensor"] >= fewest:
            wide[level][1] /= 1.5
    model = ["--model", row["model"], "--batch", str(row["batch"]), "--durations", f"flops={setup['rate'][1]:.9g}"]
    found = run(wide, n, model, [*setup["options"].split(), *(options or row["options"]).split()])
    return found["time"]["samples_per_s"]


def staged(folder, setup, row):
    """Of a pipeline of equal stages whose passes take the row's `ms` (forward, data, weights; then a message's latency),
    times the setup's stretch: the idle share of the stage with the longest span, or samples a second and stage. A chunk's
    pass takes `message_ms` more, less what the passes of a stage of one chunk hold of it; a weight pass of its own takes
    `split_ms` more."""
    profile, trace = folder / "staged.yaml", folder / "staged.json"
    m, chunks = row["microbatches"], setup["chunks"] if row["schedule"] == "interleaved" else 1
    more = setup.get("message_ms", [0, 0])[1] * (1 - 1 / chunks)
    split = setup.get("split_ms", [0, 0])[1] if row["schedule"].startswith("zb") else 0
    forward, data, weights = (m * setup.get("stretch", [0, 1])[1] * ms / chunks for ms in row["ms"][:3])
    weights += m * split
    layer = (f"params: 1, forward: {forward + m * more:.9f}ms, backward: {data + m * more + weights:.9f}ms, weights: "
             f"{weights:.9f}ms, activations: 1")
    profile.write_text(f"name: stages\nbatch: {m}\nsource: published\nlayers:\n" +
                       "".join(f"  - {{name: part{i}, {layer}}}\n" for i in range(setup["stages"] * chunks)))
    found = run(setup | {"host": [row["ms"][3] * 1e-3, setup["host"][1]]}, setup["stages"] * setup.get("gpus", 1), ["--model", f"profile:{profile}"],
                ["--strategy", "pipeline", "--scaling", "strong", "--pipeline-microbatches", str(m), "--pipeline-schedule",
                 row["schedule"], *(["--pipeline-chunks", str(chunks)] if chunks > 1 else []), "--trace", str(trace)])
    if row.get("unit") != "idle":
        return row["batch"] * found["time"]["samples_per_s"] / m / setup["stages"]
    spans = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event.get("cat") in ("compute", "backward") and event["dur"]:
            first, last, work = spans.get(event["tid"], (event["ts"], 0, 0))
            spans[event["tid"]] = (min(first, event["ts"]), max(last, event["ts"] + event["dur"]), work + event["dur"])
    first, last, work = max(spans.values(), key=lambda span: span[1] - span[0])
    return 1 - work / (last - first)


def fullest(setup, row):
    """GiB of weights, gradients and optimizer on the fullest device, at the source's bytes a parameter."""
    model = ["--model", row["model"], "--batch", "64", "--durations", "flops=1e15"]
    found = run(setup, row["n"], model, [*setup["options"].split(), *row["options"].split()])
    parameters = max(device["formula"]["parameters"] for device in found["memory"]["devices"]) / 4
    return parameters * setup["bytes_per_parameter"] / 2**30


def busy(folder, setup, row, gbits):
    """Percent of the time in which a device computes, on a network of so many Gbit/s."""
    rate = predict(folder, setup | {"net": [setup["net"][0], gbits * 1e9 / 8]}, row)
    every = row.get("every", 1)
    return 100 * every / (every - 1 + row["n"] * row["single"] / rate)


def needed(folder, setup, row):
    """The first Gbit/s of the source's grid (first, ratio, count) with which devices compute `use` percent of the time."""
    first, ratio, count = setup["grid"]
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if busy(folder, setup, row, first * ratio**middle) < row["use"] else (low, middle)
    return first * ratio**low


def flops_of(model):
    """Of a sample of `gpt:`, as Narayanan et al. 2021 count them, equation 3."""
    layers, _, width, tokens, words = (int(x) for x in model[4:].split("-"))
    return 96 * tokens * layers * width**2 * (1 + tokens / 6 / width + words / 16 / layers / width)


def figure(folder, setup, row):
    """What was published, predicted."""
    if "stages" in setup:
        return staged(folder, setup, row) * (flops_of(row["model"]) / setup["gpus"] / 1e12 if "model" in row else 1)
    if row.get("unit") == "GiB":
        return fullest(setup, row)
    if row.get("unit") == "Gbit/s":
        return needed(folder, setup, row)
    if row.get("unit") == "hours":
        return 100 * row["hours"] / busy(folder, setup, row, row["gbits"])
    if row.get("unit") == "bytes":  # how many times fewer than of mirrored
        model = ["--model", f"profile:{write_profile(folder, setup, row)}"]
        sent = [run(setup, row["n"], model, ["--strategy", *of.split()])["traffic"]["bytes_sent"]
                for of in ("mirrored", f"{row['strategy']} {row['options']}")]
        return sent[0] / sent[1]
    rate = predict(folder, setup, row)
    if row.get("unit") == "percent":
        single = row["single"] if "single" in row else predict(folder, setup, row, 1, "--strategy single")
        return 100 * rate / row["n"] / single
    if row.get("unit") == "TFLOP/s":  # a GPU's
        return rate * flops_of(row["model"]) / row["n"] / 1e12
    return rate / predict(folder, setup, row, row["base"]) if "base" in row else rate


def fit(folder, setup, rows):
    """Sets what calibrating rows determine, by bisection from 1% to 100 times what is given: `host` or `net`, a
    bandwidth; `net latency`; `rate`, FLOPs a second; of a pipeline, TIMES. A row that what is given meets to 1% determines
    nothing."""
    for level, name, n in setup["fit"]:
        row = next(r for r in rows if r["id"] == name and r["n"] == n)
        of, which = setup[level.split()[0]], 0 if level.endswith("latency") else 1
        given = of[which]
        if abs(figure(folder, setup, row) / row["published"] - 1) < 0.01:
            setup.setdefault("fitted", []).append((level, given, given))
            continue
        low, high = given / 100, given * 100
        for _ in range(setup.get("halvings", 16)):
            of[which] = (low * high) ** 0.5
            if (figure(folder, setup, row) < row["published"]) == (which == 1 and level not in TIMES):
                low = of[which]
            else:
                high = of[which]
        setup.setdefault("fitted", []).append((level, of[which], given))


def main():
    setups, published = read_published()
    chosen = sys.argv[2:]
    rows = [r for r in published if not chosen or any(r["id"].startswith(c) for c in chosen)]
    errors, by_setup, table, held = [], {}, [], 0
    with tempfile.TemporaryDirectory() as folder:
        for setup in setups.values():
            of = [r for r in rows if r["setup"] == setup["setup"]]
            if of:
                fit(Path(folder), setup, published)
            for row in of:
                predicted = figure(Path(folder), setup, row)
                print(json.dumps({"id": row["id"], "n": row["n"], "role": row["role"], "published": row["published"],
                                  "predicted": round(predicted, 4)}), flush=True)
                points = row.get("unit") == "percent"
                error = predicted - row["published"] if points else 100 * (predicted / row["published"] - 1)
                within = setup["within"][row["id"].split("-")[0]]
                table.append((row, predicted, error, within, setup))
                if row["role"] == "test":
                    errors.append(abs(100 * (predicted / row["published"] - 1)))
                    by_setup.setdefault(setup["setup"], []).append(errors[-1])
                    held += abs(error) <= within
    print(f"\n{'row':<22}{'n':>4} {'role':<10}{'published':>11}{'predicted':>11}{'error':>8}  within", file=sys.stderr)
    for row, predicted, error, within, _ in table:
        test = row["role"] == "test"
        print(f"{row['id']:<22}{row['n']:>4} {row['role']:<10}{row['published']:>11.5g}{predicted:>11.5g}{error:>+8.1f}"
              f"  {'' if not test else 'yes' if abs(error) <= within else 'no'}{f' ({within})' if test else ''}",
              file=sys.stderr)
    for setup in {id(s): s for *_, s in table}.values():
        for level, value, given in setup.get("fitted", []):
            scale, unit = ((1e6, "us") if "latency" in level else (1, "") if level in TIMES else
                           (1e-9, "GFLOP/s" if level == "rate" else "GB/s"))
            print(f"{setup['setup']}: {level} {scale * value:.4g} {unit}, given {scale * given:.4g}", file=sys.stderr)
    if errors:
        print(f"{len(errors)} tests: mean error {sum(errors) / len(errors):.2f}%, median {median(errors):.2f}%, largest "
              f"{max(errors):.2f}%; {held} within what was asked", file=sys.stderr)
    for setup, some in by_setup.items():
        print(f"  {setup}: {len(some)} tests, mean {sum(some) / len(some):.2f}%", file=sys.stderr)


if __name__ == "__main__":
    main()
