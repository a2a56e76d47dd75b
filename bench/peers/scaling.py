# SPDX-License-Identifier: MIT
"""One core and two: lockstep's strategies beside what PyTorch, TensorFlow and JAX make of two cores.

First the agreement of the data-parallel peers (compare.py). Then rounds in which everyone trains in
turn, at each global batch, on one core and on two; a round's figure is the median, the table and
the rows show the median over the rounds. A peer's speed-up is over the same framework on one core,
lockstep's over `single`. Weak scaling compares the same figures otherwise: two cores at twice the
batch of one. --jsonl writes one row a line, in the form of `lockstep run`; peers' have `peer`, too.
Exit status: 0 all well; 1 losses disagree; 3 something is missing or broken.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

import compare
import runners

MODEL = "mlp:784-128-10"
BATCHES = (512, 256)  # of the whole step
WEAK_BATCH = 256  # of a core
STEPS, WARMUP, BLOCK = 500, 20, 20  # of everyone, each round
STRATEGIES = ("single", "towers", "mirrored", "independent")
PERCENTILES = ("median", "p10", "p90", "mean")


class Figures:
    """{(name, cores, batch): {"median": [one a round], "p10": ..., "p90": ..., "mean": ...}}."""

    def __init__(self):
        self.rounds = {}

    def add(self, key, step_ms):
        """One round's figure."""
        rounds = self.rounds.setdefault(key, {name: [] for name in PERCENTILES})
        for name in PERCENTILES:
            rounds[name].append(step_ms[name])

    def median(self, key, name="median"):
        """The median over the rounds, in ms."""
        return statistics.median(self.rounds[key][name])


def distribution(blocks):
    """step_ms of a peer's blocks."""
    tenths = statistics.quantiles(blocks, n=10, method="inclusive")
    return {
        "median": statistics.median(blocks), "mean": statistics.mean(blocks),
        "p10": tenths[0], "p90": tenths[-1],
    }


def measure(comparison, batch, figures):
    """One round at one batch: lockstep's cases take turns, then the peers do."""
    init = comparison.initial(MODEL, 1)
    rows = comparison.pair.rows(
        MODEL, "--strategy", ",".join(STRATEGIES), "--devices", "1,2", "--batch", batch,
        "--steps", STEPS, "--warmup", WARMUP, "--baseline", "yes", "--load", init,
    )
    for row in rows:
        case = row["case"]
        figures.add((case["strategy"], len(case["devices"]), batch), row["time"]["step_ms"])
    comparison.build(MODEL, batch, init)
    for peer in comparison.peers:
        blocks = peer.ask(op="time", steps=STEPS, warmup=WARMUP, block=BLOCK)["step_ms"]
        cores = 2 if peer.name in runners.PAIRS else 1
        figures.add((peer.name, cores, batch), distribution(blocks))
    return rows[0]["provenance"]


def one_core(name):
    """What a name's speed-up is over: `single`, or the framework's one-core program."""
    return "single" if name in STRATEGIES else name.split("-")[0]


def make_row(figures, key, scaling, common_fields):
    """A row of `lockstep run`'s form; the peer is named beside it."""
    name, cores, batch = key
    threads = name.endswith("-threads")
    devices = 1 if threads else cores
    base = batch // cores if scaling == "weak" else batch
    step_ms = {field: figures.median(key, field) for field in PERCENTILES}
    speedup = figures.median((one_core(name), 1, base)) / step_ms["median"] * batch / base
    row = {
        "schema": 1, **{field: common_fields[field] for field in ("timestamp", "command", "label")},
        "case": {
            "model": MODEL, "strategy": name, "batch_global": batch,
            "devices": [f"cpu:{index}" for index in range(devices)],
            "batch_per_device": [batch // devices] * devices, "scaling": scaling,
        },
        "result": {"status": "ok"},
        "time": {
            "step_ms": {**step_ms, "rounds": figures.rounds[key]["median"]},
            "samples_per_s": batch / step_ms["mean"] * 1e3,
            "speedup": speedup, "efficiency": speedup / cores,
        },
        "provenance": {
            **common_fields["provenance"], "cores_per_device": [cores // devices] * devices,
        },
    }
    if name not in STRATEGIES:
        what = (runners.PEERS | runners.PAIRS)[name][2]
        row["peer"] = {"what": what, "one_core": one_core(name), **common_fields["peers"][name]}
    return row


def make_rows(figures, common_fields):
    """Strong at every batch, on one core and two; weak at WEAK_BATCH a core."""
    rows = [make_row(figures, key, "strong", common_fields) for key in figures.rounds]
    for name, cores, batch in figures.rounds:
        if cores == 2 and batch == 2 * WEAK_BATCH:
            rows.append(make_row(figures, (name, cores, batch), "weak", common_fields))
    return rows


def table(rows, figures):
    """Markdown of what runs on two cores; last, how far lockstep's `mirrored` is ahead."""
    head = [
        "strategy or peer", "scaling", "global batch", "1 core: ms", "2 cores: ms", "samples/s",
        "speed-up", "efficiency", "mirrored is",
    ]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        if sum(row["provenance"]["cores_per_device"]) == 1:
            continue
        name, time = row["case"]["strategy"], row["time"]
        batch, scaling = row["case"]["batch_global"], row["case"]["scaling"]
        base = batch // 2 if scaling == "weak" else batch
        mirrored = batch / figures.median(("mirrored", 2, batch), "mean") * 1e3
        lines.append(
            f"| {name} | {scaling} | {batch} | {figures.median((one_core(name), 1, base)):.4g} "
            f"| {time['step_ms']['median']:.4g} | {time['samples_per_s']:.0f} "
            f"| {time['speedup']:.2f} | {time['efficiency']:.2f} "
            f"| {mirrored / time['samples_per_s']:.2f}x |"
        )
    return "\n".join(lines)


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lockstep", default="build/lockstep", help="the program (%(default)s)")
    parser.add_argument("--cores", help=compare.CORES_HELP)
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="of the agreement (%(default)s)")
    parser.add_argument("--label", default="scaling", help="text kept in the rows (%(default)s)")
    parser.add_argument("--jsonl", metavar="FILE", help="also write the rows as JSON lines")
    arguments = parser.parse_args()
    arguments.cores = compare.parse_cores(parser, arguments.cores)
    if len(arguments.cores) < 2:
        parser.error("--cores: two cores are needed")
    if arguments.rounds < 1 or arguments.seeds < 1:
        parser.error("--rounds, --seeds: must be at least 1")
    return arguments


def scale(arguments, comparison):
    """Measures; prints the table; writes the rows."""
    figures = Figures()
    load = os.getloadavg()
    for turn in range(arguments.rounds):
        for batch in BATCHES:
            compare.say(f"scaling: batch {batch}, round {turn + 1} of {arguments.rounds}")
            provenance = measure(comparison, batch, figures)
    machine = compare.machine(arguments.cores, comparison)
    kept = ("commit", "dirty", "version", "compiler", "libraries", "cpu", "isa", "os")
    common_fields = {
        "timestamp": machine["time"], "command": "ci/peers.sh scaling", "label": arguments.label,
        "peers": machine["peers"],
        "provenance": {
            **{name: provenance[name] for name in kept}, "python": machine["python"],
            "load_average": load[0], "rounds": arguments.rounds, "steps_per_round": STEPS,
        },
    }
    rows = make_rows(figures, common_fields)
    print(table(rows, figures), end="\n\n")
    print("Medians over the rounds; samples/s by means. Last, samples/s of mirrored over the row's.")
    if arguments.jsonl:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        pathlib.Path(arguments.jsonl).write_text(text, encoding="utf-8")


def main():
    """Returns the exit status."""
    arguments = parse_arguments()
    if not os.access(arguments.lockstep, os.X_OK):
        compare.say(f"scaling.py: --lockstep: {arguments.lockstep}: not a program; build it first")
        return 3
    try:
        arguments.peers = runners.MAIN_PAIRS
        with compare.open_comparison(arguments) as comparison:
            agreement = compare.agree(comparison, arguments.seeds)
            print(compare.agree_table(agreement), end="\n\n", flush=True)
        arguments.peers = (*runners.MAIN_PEERS, *runners.PAIRS)
        with compare.open_comparison(arguments) as comparison:
            scale(arguments, comparison)
    except (runners.RunError, OSError, KeyError, ValueError) as error:
        compare.say(f"scaling.py: {type(error).__name__}: {error}")
        return 3
    return 0 if all(result["pass"] for result in agreement) else 1


if __name__ == "__main__":
    sys.exit(main())
