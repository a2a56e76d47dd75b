# SPDX-License-Identifier: MIT
"""Compares lockstep with PyTorch, TensorFlow and JAX: same values, same data, one core each.

`agree`: the losses of the first 20 steps, five seeds; for each model and peer the largest relative
difference of a seed's steps has a median over the seeds of at most 2e-5 and never exceeds 2e-2.
Peers on two cores are held against `mirrored` on two devices, the others against `single`.
`time`: rounds in which lockstep and every peer train in turn from the same initial values; a
round's figure is the median, the table shows the median over the rounds. Peers: means of blocks of
steps, with one wait at the end of a block. lockstep: single steps; the ratio of the means of whole
rounds stands beside it, because a mean of a block holds its slow steps and a median does not.
Exit status: 0 all well; 1 losses disagree; 3 something is missing or broken.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile

import models
import runners

MEDIAN_BOUND = 2e-5
LARGEST_BOUND = 2e-2
CORES_HELP = "one or two core numbers with a comma: the first for what needs one (the last two)"
# model, batch, learning rate (None: the model's; those of cifar10 and resnet make a rounding
# difference several times as large each step)
AGREE_CASES = (
    ("mlp:784-128-10", 256, None), ("poly", 100, None), ("cnn", 256, None), ("cifar10", 128, 1e-3),
    ("twin-lstm:64", 64, None), ("lstm-stack:2", 64, None), ("resnet:20", 128, 1e-4),
)
# model, batch, peers' timed steps, peers' block and warm-up, lockstep's timed steps
TIME_CASES = (
    ("mlp:784-128-10", 256, 1000, 20, 1000),
    ("mlp:784-128-10", 32, 3000, 100, 3000),
    ("mlp:784-1024-1024-10", 256, 60, 20, 60),
    ("mlp:784-1024-1024-10", 32, 300, 20, 300),
    ("poly", 100, 20000, 1000, 200000),
    ("cnn", 256, 100, 20, 500),
    ("cifar10", 128, 10, 2, 20),
    ("twin-lstm:64", 64, 20, 2, 40),
    ("lstm-stack:4", 64, 10, 2, 20),
    ("resnet:20", 128, 10, 2, 20),
)
PAIRED_KINDS = ("mlp", "poly")  # that the peers on two cores know
TEXT_KINDS = ("twin-lstm", "lstm-stack")  # timed on lockstep's own text, bytes made one-hot



def say(text):
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


class Comparison:
    """The processes and files of one comparison."""

    def __init__(self, path, cores, peers, directory):
        self.lockstep = runners.Lockstep(path, cores[:1])
        self.pair = runners.Lockstep(path, cores[:2])
        self.peers = peers
        self.directory = pathlib.Path(directory)

    def initial(self, model, seed):
        """Path of lockstep's initial values."""
        path = self.directory / f"{model.replace(':', '-')}-{seed}.safetensors"
        if not path.exists():
            self.lockstep.save_initial(model, seed, path, self.files(model))
        return str(path)

    def data(self, model):
        """Path of the model's data; None where that is Fashion-MNIST."""
        kind, _ = models.parse_model(model)
        path = self.directory / f"{kind}.data.safetensors"
        if kind in models.SAMPLES and not path.exists():
            models.write_data(kind, path)
        return str(path) if path.exists() else None

    def files(self, model):
        """lockstep's option for the data."""
        return ["--data", f"file:{self.data(model)}"] if self.data(model) else []

    def options(self, model, init):
        """lockstep's options for the values and the data."""
        return ["--load", init, *self.files(model)]

    def timed_files(self, model):
        """lockstep's option for the data that it is timed on."""
        return [] if models.parse_model(model)[0] in TEXT_KINDS else self.files(model)

    def takers(self, model):
        """The peers that know the model."""
        paired = models.parse_model(model)[0] in PAIRED_KINDS
        return [peer for peer in self.peers if paired or peer.name not in runners.PAIRS]

    def losses(self, case, init):
        """lockstep's first losses as {False: of `single`, True: of `mirrored` on two devices}."""
        model, batch, rate = case
        files = self.options(model, init) + (["--lr", rate] if rate else [])
        places = {False: (self.lockstep, "single", 1), True: (self.pair, "mirrored", 2)}
        return {
            paired: lockstep.losses(
                model, batch, models.BATCHES, files, ("--strategy", strategy, "--devices", devices)
            )
            for paired, (lockstep, strategy, devices) in places.items()
            if paired in {peer.name in runners.PAIRS for peer in self.takers(model)}
        }

    def build(self, model, batch, init, rate=None):
        """Prepares every peer that knows the model for a case."""
        given = {"lr": rate} if rate else {}
        for peer in self.takers(model):
            peer.ask(op="build", model=model, batch=batch, init=init, data=self.data(model), **given)


def chosen(cases, kinds):
    """The cases of these kinds of models; all where None."""
    return [case for case in cases if not kinds or models.parse_model(case[0])[0] in kinds]


def relative(ours, theirs):
    """Largest relative difference of two lists of losses."""
    if len(ours) != len(theirs):
        raise runners.RunError(f"{len(ours)} losses against {len(theirs)}")
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def agree(comparison, seeds, kinds):
    """Differences per model, peer and seed, with the verdict."""
    results = []
    for model, batch, rate in chosen(AGREE_CASES, kinds):
        say(f"agree: {model}, batch {batch}, {seeds} seeds")
        comparison.build(model, batch, comparison.initial(model, 1), rate)
        differences = {peer.name: [] for peer in comparison.takers(model)}
        for seed in range(1, seeds + 1):
            init = comparison.initial(model, seed)
            ours = comparison.losses((model, batch, rate), init)
            for peer in comparison.takers(model):
                peer.ask(op="load", init=init)
                theirs = peer.ask(op="losses")["losses"]
                differences[peer.name].append(relative(ours[peer.name in runners.PAIRS], theirs))
        for name, values in differences.items():
            results.append(judge(model, batch, name, values))
    return results


def judge(model, batch, peer, values):
    """One line of the agreement table."""
    median, largest = statistics.median(values), max(values)
    passed = median <= MEDIAN_BOUND and largest <= LARGEST_BOUND  # false for NaN
    return {
        "model": model, "batch": batch, "peer": peer, "largest_per_seed": values,
        "median": median, "largest": largest, "pass": passed,
    }


def time_case(comparison, case, rounds):
    """One configuration: rounds in which everyone takes a turn."""
    model, batch, steps, block, own_steps = case
    init = comparison.initial(model, 1)
    comparison.build(model, batch, init)
    whole = block % models.BATCHES == 0  # peers of one call take whole rounds of the batches
    timed = [p.name for p in comparison.peers if whole or p.name not in runners.ONE_CALL]
    medians = {name: [] for name in ["lockstep", *timed]}
    means = {name: [] for name in medians}
    floors = []
    for turn in range(rounds):
        say(f"time: {model}, batch {batch}, round {turn + 1} of {rounds}")
        own = comparison.lockstep.time(
            model, batch, (own_steps, block), ["--load", init, *comparison.timed_files(model)]
        )
        medians["lockstep"].append(own["median"])
        means["lockstep"].append(own["mean"])
        floors.append(comparison.lockstep.floor(model, batch, comparison.timed_files(model)))
        for peer in comparison.peers:
            if peer.name not in medians:
                continue
            blocks = peer.ask(op="time", steps=steps, warmup=block, block=block)["step_ms"]
            medians[peer.name].append(statistics.median(blocks))
            means[peer.name].append(statistics.mean(blocks))
    floor = {"floor_ms": statistics.median(floors), "rounds_floor_ms": floors}
    return {"model": model, "batch": batch, **floor, **summary(medians, means)}


def summary(medians, means):
    """Medians over the rounds, ratios to lockstep, the fastest peer that is called every step."""
    step = {name: statistics.median(values) for name, values in medians.items()}
    mean = {name: statistics.median(values) for name, values in means.items()}
    ratio = {name: value / step["lockstep"] for name, value in step.items()}
    mean_ratio = {name: value / mean["lockstep"] for name, value in mean.items()}
    called = [name for name in step if name not in ("lockstep", *runners.ONE_CALL)]
    return {
        "step_ms": step, "ratio": ratio, "mean_ratio": mean_ratio,
        "fastest_peer": min(called, key=step.get, default=None),
        "rounds_median_ms": medians, "rounds_mean_ms": means,
    }


def agree_table(results):
    """Markdown of the agreement."""
    head = ["model", "batch", "peer", "median over seeds", "largest", "verdict"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for r in results:
        verdict = "agrees" if r["pass"] else "DISAGREES"
        lines.append(
            f"| {r['model']} | {r['batch']} | {r['peer']} | {r['median']:.1e} "
            f"| {r['largest']:.1e} | {verdict} |"
        )
    return "\n".join(lines)


def milliseconds(value):
    """Four significant digits."""
    return f"{value:.4g}"


def time_table(results):
    """Markdown of the step times: ms, and in brackets the ratio to lockstep; the floor is `lockstep micro floor`."""
    names = list(dict.fromkeys(name for r in results for name in r["step_ms"]))
    head = ["model", "batch", "floor", *names, "fastest peer / lockstep", "by means"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for r in results:
        own = r["step_ms"]["lockstep"]
        floor = f"{milliseconds(r['floor_ms'])} ({r['floor_ms'] / own:.2f})"
        cells = [r["model"], str(r["batch"]), floor, milliseconds(own)]
        for name in names[1:]:
            timed = name in r["ratio"]
            cell = f"{milliseconds(r['step_ms'][name])} ({r['ratio'][name]:.2f})" if timed else ""
            cells.append(cell)
        fastest = r["fastest_peer"]
        cells.append(f"{r['ratio'][fastest]:.2f} ({fastest})" if fastest else "")
        cells.append(f"{r['mean_ratio'][fastest]:.2f}" if fastest else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def machine(cores, comparison):
    """Where and with what this was measured."""
    info = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = [line.split(":")[1].strip() for line in info.splitlines() if "model name" in line]
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": names[0] if names else platform.machine(), "cores": cores,
        "load_average": os.getloadavg(), "python": platform.python_version(),
        "lockstep": comparison.lockstep.version(),
        "peers": {peer.name: peer.ask(op="info") for peer in comparison.peers},
    }


def parse_cores(parser, text):
    """The one or two core numbers of --cores; without it the last ones that may be used."""
    if text is None:
        return sorted(os.sched_getaffinity(0), reverse=True)[:2]
    cores = [int(part) for part in text.split(",") if part.isdecimal()]
    if not 1 <= len(set(cores)) == text.count(",") + 1 <= 2:
        parser.error(f"--cores: {text}: expected one or two core numbers, like 0,1")
    return cores


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("all", "agree", "time"), nargs="?", default="all")
    parser.add_argument("--lockstep", default="build/lockstep", help="the program (%(default)s)")
    parser.add_argument(
        "--peers", help=f"comma-separated, of {', '.join(runners.PEERS)} (all), agree alone also of "
        f"{', '.join(runners.PAIRS)} ({', '.join(runners.MAIN_PEERS + runners.MAIN_PAIRS)}, the "
        "latter where there are two cores)",
    )
    parser.add_argument(
        "--models", help=f"comma-separated, of {', '.join(models.TRAINING)} (all)"
    )
    parser.add_argument("--cores", help=CORES_HELP)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of time (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of agree (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write everything as JSON")
    arguments = parser.parse_args()
    arguments.cores = parse_cores(parser, arguments.cores)
    usual, valid = tuple(runners.PEERS), tuple(runners.PEERS)
    if arguments.what == "agree":
        valid += tuple(runners.PAIRS) + tuple(runners.JUDGES)
        usual = runners.MAIN_PEERS + tuple(runners.JUDGES)
        usual += runners.MAIN_PAIRS if len(arguments.cores) > 1 else ()
    arguments.peers = arguments.peers.split(",") if arguments.peers else usual
    arguments.models = arguments.models.split(",") if arguments.models else None
    strangers = set(arguments.models or ()) - set(models.TRAINING)
    if strangers:
        parser.error(f"--models: {min(strangers)}: unknown; valid: {', '.join(models.TRAINING)}")
    unknown = [name for name in arguments.peers if name not in valid]
    if unknown:
        parser.error(f"--peers: {unknown[0]}: unknown here; valid: {', '.join(valid)}")
    if len(arguments.cores) < 2 and set(arguments.peers) & set(runners.PAIRS):
        parser.error("--peers: those on two cores need two; give --cores two numbers")
    if arguments.rounds < 1 or arguments.seeds < 1:
        parser.error("--rounds, --seeds: must be at least 1")
    return arguments


def compare(arguments, comparison):
    """Runs what was asked for; prints the tables; returns everything for the JSON file."""
    result = {"machine": machine(arguments.cores, comparison)}
    if arguments.what != "time":
        result["agree"] = agree(comparison, arguments.seeds, arguments.models)
        print(agree_table(result["agree"]), end="\n\n", flush=True)
    if arguments.what != "agree":
        cases = chosen(TIME_CASES, arguments.models)
        result["time"] = [time_case(comparison, case, arguments.rounds) for case in cases]
        print(time_table(result["time"]), end="\n\n")
        print("Milliseconds per step, medians; in brackets the ratio to lockstep.")
    if arguments.json:
        text = json.dumps(result, indent=1)
        pathlib.Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    return result


@contextlib.contextmanager
def open_comparison(arguments):
    """A comparison whose peers end with it. arguments: lockstep, cores, peers."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="lockstep-peers-"))
        peers = []
        for name in arguments.peers:
            count = 2 if name in runners.PAIRS else 1
            peers.append(runners.Peer(name, arguments.cores[:count], directory))
            stack.callback(peers[-1].close)
        yield Comparison(arguments.lockstep, arguments.cores, peers, directory)


def main():
    """Returns the exit status."""
    arguments = parse_arguments()
    if not os.access(arguments.lockstep, os.X_OK):
        say(f"compare.py: --lockstep: {arguments.lockstep}: not a program; build lockstep first")
        return 3
    try:
        with open_comparison(arguments) as comparison:
            result = compare(arguments, comparison)
    except (runners.RunError, OSError, KeyError, ValueError) as error:
        say(f"compare.py: {type(error).__name__}: {error}")
        return 3
    return 0 if all(r["pass"] for r in result.get("agree", [])) else 1


if __name__ == "__main__":
    sys.exit(main())
