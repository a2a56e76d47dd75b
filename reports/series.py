#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns rows of `lockstep run --format jsonl` into the data of one picture.

    series.py scaling FILE...    samples per second on one core and on two, by strategy
    series.py growth FILE...     size and build time of the step's program, by number of towers
    series.py training FILE...   accuracy on the test set after so many steps, by model
    series.py pipeline FILE...   idle share and activations of a pipeline, by micro-batches
    series.py stragglers FILE...  time to a target and of a step, by delay of one of ps's workers

Tab-separated on stdout; the first line is `#`, the picture's title, the columns' names in the
second. Rows of several files are one set; of two rows of one case the later counts. Peers (rows
with `peer`, bench/peers) are told apart from strategies by it. Bad input is one line on stderr.
"""

import json
import statistics
import sys

STRATEGIES = ("single", "towers", "mirrored", "independent")  # in the picture's order


class InputError(Exception):
    """The rows do not make this picture; the text says which, why, and what would."""


def read_rows(paths):
    """The rows that are ok, of all files, in order."""
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                where = f"{path}:{number}"
                try:
                    row = json.loads(line)
                    ok = row["result"]["status"] == "ok" and bool(row["case"]["strategy"])
                except (ValueError, KeyError, TypeError):
                    raise InputError(
                        f"{where}: not a row; expected lines of lockstep run --format jsonl"
                    ) from None
                rows += [row] if ok else []
    return rows


def cores(row):
    """How many cores a row's devices held."""
    return sum(row["provenance"]["cores_per_device"])


def title_of(row):
    """The strategy, or the peer's short name."""
    return row["peer"]["what"] if "peer" in row else row["case"]["strategy"]


def pick_batch(rows):
    """The model and the largest global batch that ran on two cores; lockstep's default mode."""
    pairs = {
        (row["case"]["batch_global"], row["case"]["model"])
        for row in rows if cores(row) == 2
    }
    if not pairs:
        raise InputError("no row on two cores with an efficiency; use --devices 1,2 --baseline yes")
    return max(pairs)


def scaling(rows):
    """name, one core's and two cores' samples/s (middle, low, high), efficiency; - where none."""
    rows = [
        row for row in rows
        if row["case"].get("scaling") == "strong" and "efficiency" in row.get("time", {})
        and row["case"].get("reduce", "fast") == "fast" and cores(row) <= 2
    ]
    batch, model = pick_batch(rows)
    table = {}
    for row in rows:
        if (row["case"]["batch_global"], row["case"]["model"]) == (batch, model):
            table[row["case"]["strategy"], cores(row)] = row
    lines = []
    for name in sorted({name for name, _ in table}, key=order):
        two, one = table.get((name, 2)), table.get((name, 1))
        if two and "peer" in two:
            one = table.get((two["peer"]["one_core"], 1))
        elif not two and name != "single":
            continue  # a peer's one-core program, which stands beside its others
        efficiency = f"{two['time']['efficiency']:.4f}" if two else "-"
        lines.append([title_of(two or one), *rates(one, batch), *rates(two, batch), efficiency])
    row = table[next(key for key in table if key[1] == 2)]
    peers = sorted({f"{r['peer']['name']} {r['peer']['version'].split('+')[0]}"
                    for r in table.values() if "peer" in r})
    title = [f"{model}, global batch {batch}, {machine(row)}", ", ".join(peers)]
    names = ["name", "one", "one_low", "one_high", "two", "two_low", "two_high", "efficiency"]
    return title, names, lines


def order(name):
    """Strategies first, in their own order, then peers by name."""
    return (STRATEGIES.index(name) if name in STRATEGIES else len(STRATEGIES), name)


def rates(row, batch):
    """Samples/s of the median step and of the 90th and 10th percentile."""
    if row is None:
        return ["-"] * 3
    step_ms = row["time"]["step_ms"]
    return [f"{batch / step_ms[field] * 1e3:.0f}" for field in ("median", "p90", "p10")]


def machine(row):
    """The processor and its vectors."""
    where = row["provenance"]
    return f"{where['cpu']} ({where['isa']})" if "isa" in where else where["cpu"]


def growth(rows):
    """name, towers, nodes in all and of one replica's program, bytes, build time in ms.

    Rows of one case that differ in the seed are one point; its build time is their median.
    """
    table = {}
    for row in rows:
        if "nodes" in row.get("program", {}):
            table.setdefault((title_of(row), len(row["case"]["devices"])), []).append(row)
    names = sorted({name for name, _ in table}, key=order)
    models = {row["case"]["model"] for same in table.values() for row in same}
    if len({towers for _, towers in table}) < 2 or len(models) != 1:
        raise InputError("not one model on several numbers of devices; use --devices 1,2,4,8")
    lines = []
    for name, towers in sorted(table, key=lambda key: (names.index(key[0]), key[1])):
        same = table[name, towers]
        program = same[-1]["program"]
        own = program["nodes"] // towers if name == "mirrored" else program["nodes"]
        times = [row["time"]["build_ms"] for row in same if "time" in row]
        lines.append([
            name, str(towers), str(program["nodes"]), str(own), str(program.get("bytes", "-")),
            f"{statistics.median(times):.6f}" if times else "-",
        ])
    peers = sorted({row["peer"]["what"] for same in table.values() for row in same if "peer" in row})
    title = [f"the program of one step, {models.pop()}", ", ".join(peers)]
    return title, ["name", "towers", "nodes", "nodes_of_a_replica", "bytes", "build_ms"], lines


def steps_of(row):
    """All steps trained."""
    return row["case"]["steps"] + row["case"]["warmup"]


def training(rows):
    """model, steps, accuracy: the middle, the lowest and the highest of the seeds."""
    table = {}
    for row in rows:
        if "accuracy" in row.get("train", {}):
            table.setdefault((row["case"]["model"], steps_of(row)), []).append(row)
    if not all(sum(model == name for model, _ in table) > 1 for name, _ in table) or not table:
        raise InputError("no model with accuracies after several numbers of steps; use --steps 10,100")
    lines = []
    for (model, steps), same in sorted(table.items()):
        values = [row["train"]["accuracy"] for row in same]
        figures = [f"{f(values):.6f}" for f in (statistics.median, min, max)]
        lines.append([model, str(steps), *figures])
    data = {row["case"]["model"]: row["case"]["data"] for same in table.values() for row in same}
    title = ["; ".join(f"{model} on {data[model]}" for model in sorted(data)), ""]
    return title, ["name", "steps", "accuracy", "low", "high"], lines


def pipeline(rows):
    """schedule, micro-batches, idle share: measured, of the schedule, of equal stages,
    (p - 1) / (m + p - 1); activations of the first stage and their formula, in bytes."""
    table = {
        (row["case"]["pipeline_schedule"], row["case"]["pipeline_microbatches"]): row
        for row in rows if "pipeline" in row
    }
    cases = {
        (row["case"]["model"], row["case"]["batch_global"], len(row["case"]["devices"]))
        for row in table.values()
    }
    if len({m for _, m in table}) < 2 or len(cases) != 1:
        raise InputError(
            "not one pipeline with several numbers of micro-batches; use --pipeline-microbatches 1,2,4"
        )
    lines = []
    for (schedule, microbatches), row in sorted(table.items()):
        bubble, first = row["pipeline"], row["memory"]["devices"][0]
        shares = [bubble[name] for name in ("bubble", "bubble_formula", "bubble_equal")]
        held = (first["activations"], first["formula"]["activations"])
        lines.append([
            schedule, str(microbatches), *(f"{share:.6f}" for share in shares), *map(str, held),
        ])
    model, batch, stages = cases.pop()
    title = [f"{model}, batch {batch}, {stages} stages, {machine(row)}", ""]
    names = ["name", "microbatches", "bubble", "formula", "equal", "activations", "activations_formula"]
    return title, names, lines


MODES = ("sync", "backup", "ssp", "async")  # in the picture's order


def mode_of(case):
    """Place in MODES and name of a case of parameter servers."""
    if case["ps_mode"] == "sync" and case["ps_backup_workers"]:
        return MODES.index("backup"), f"sync, {case['ps_backup_workers']} backup"
    bound = f" {case['ps_staleness']}" if case["ps_mode"] == "ssp" else ""
    return MODES.index(case["ps_mode"]), case["ps_mode"] + bound


def delay_of(case):
    """Milliseconds that the slow worker sleeps each step."""
    return float(case["inject"].split(":")[1].removesuffix("ms")) if "inject" in case else 0.0


def slope_of(points):
    """Least squares: how much y grows with x."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    x_mean, y_mean = statistics.mean(xs), statistics.mean(ys)
    return (sum((x - x_mean) * (y - y_mean) for x, y in points)
            / sum((x - x_mean) ** 2 for x in xs))


def stragglers(rows):
    """name and slope of the mode, delay, seconds to the target (middle, low, high), ms a step.

    Rows of one case that differ in the seed are one point: medians, and the lowest and highest. Of
    a point that not all its rows reach the target at there is no time to it.
    """
    rows = [
        row for row in rows
        if row["case"]["strategy"] == "ps" and "target" in row["train"]
        and row["case"].get("inject", "delay").startswith("delay")
    ]
    table = {}
    for row in rows:
        table.setdefault(mode_of(row["case"]), {}).setdefault(delay_of(row["case"]), []).append(row)
    alike = {
        (row["case"]["model"], row["case"]["ranks"], json.dumps(row["train"]["target"]))
        for row in rows
    }
    if len(alike) != 1 or any(len(delays) < 2 for delays in table.values()):
        raise InputError("not parameter servers of one model and target with several delays; use "
                         "reports/stragglers.sh")
    lines = []
    for (_, name), delays in sorted(table.items()):
        steps = {delay: statistics.median(row["time"]["step_ms"]["median"] for row in same)
                 for delay, same in delays.items()}
        slope = round(slope_of(list(steps.items())), 2) + 0.0  # no -0.00
        label = f"{name} (slope {slope:.2f})"
        lines += [[], []] if lines else []
        for delay, same in sorted(delays.items()):
            seconds = [row["train"].get("seconds_to_target") for row in same]
            times = ["-"] * 3 if None in seconds else [
                f"{f(seconds):.6f}" for f in (statistics.median, min, max)]
            lines.append([label, f"{delay:g}", *times, f"{steps[delay]:.6f}"])
    case, target = rows[0]["case"], rows[0]["train"]["target"]
    workers = sum(1 for samples in case["batch_per_device"] if samples)
    title = [f"{case['model']}, {workers} workers, global batch {case['batch_global']}, "
             f"{machine(rows[0])}", f"{len(table)} " + " ".join(f"{k} {v:g}"
                                                                for k, v in target.items())]
    return title, ["name", "delay_ms", "seconds", "low", "high", "step_ms"], lines


PICTURES = {"scaling": scaling, "growth": growth, "training": training, "pipeline": pipeline,
            "stragglers": stragglers}


def main(arguments):
    """Returns the exit status."""
    if len(arguments) < 2 or arguments[0] not in PICTURES:
        print(f"usage: series.py {'|'.join(PICTURES)} FILE...", file=sys.stderr)
        return 2
    kind, paths = arguments[0], arguments[1:]
    try:
        title, names, lines = PICTURES[kind](read_rows(paths))
    except InputError as error:
        where = "" if str(error).startswith(tuple(paths)) else f"{' '.join(paths)}: "
        print(f"series.py: {kind}: {where}{error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"series.py: {kind}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 3
    except (KeyError, TypeError, ZeroDivisionError) as error:
        print(
            f"series.py: {kind}: {' '.join(paths)}: a row lacks {error}; expected lines of "
            "lockstep run --format jsonl", file=sys.stderr,
        )
        return 3
    for line in (["#", *title], ["#", *names], *lines):
        print("\t".join(line))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
