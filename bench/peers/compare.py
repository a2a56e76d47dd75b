# SPDX-License-Identifier: MIT
"""Compares lockstep with PyTorch, TensorFlow, JAX and llm.c: same values, same data, same statistic.

`agree`: the losses of the first 20 steps, five seeds; for each model and peer the largest relative difference of a
seed's steps has a median over the seeds of at most 2e-5 (gpt: 1e-5) and never exceeds 2e-2. Peers on two cores are
compared with `mirrored` on two devices, the others with `single`. `time`, `scaling`, `processes`: rounds in which all
programs train in turn from the same initial values (measure.py), saved in --file, where an interrupted session
continues; `all` is the three of them, then the tables. `tables` prints the tables of a file in Markdown; both write
the rows of its `scaling` in the form of `lockstep run`, for lockstep report, beside it: lockstep's as NAME.jsonl,
everyone's as NAME-scaling.jsonl. Exit status: 0 all well; 1 losses disagree, or a peer failed; 3 something is missing
or broken.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import sys
import tempfile

import agree
import measure
import models
import rounds as book
import runners
import tables

PARTS = ("scaling", "processes", "time")  # the longest last
PAIRED_KINDS = ("mlp", "poly")  # that the peers on two cores know
TEXT_KINDS = ("twin-lstm", "lstm-stack")  # timed on lockstep's own text, bytes made one-hot
CORES_HELP = "one or two core numbers with a comma: the first for what needs one (the last two)"
RESULTS = pathlib.Path(__file__).resolve().parents[2] / "results"


class Comparison:
    """The processes and files of one comparison."""

    def __init__(self, path, cores, peers, directory, place=("--devices", "cpu:0"), fashion=()):
        self.place = place  # where lockstep makes initial values
        self.fashion = list(fashion)  # its option for Fashion-MNIST, where that is not in the default folder
        self.lockstep = runners.Lockstep(path, cores[:1])
        self.pair = runners.Lockstep(path, cores[:2])
        self.peers = peers
        self.directory = pathlib.Path(directory)

    def initial(self, model, seed):
        """Path of lockstep's initial values."""
        path = self.directory / f"{model.replace(':', '-')}-{seed}.safetensors"
        if not path.exists():
            self.lockstep.save_initial(model, seed, path, self.files(model) or self.fashion, self.place)
        return str(path)

    def data(self, model):
        """Path of the model's data; None for Fashion-MNIST."""
        kind, sizes = models.parse_model(model)
        of = model.replace(":", "-") if kind == "gpt" else kind  # its sizes say which tokens
        path = self.directory / f"{of}.data.safetensors"
        if kind in models.SAMPLES and not path.exists():
            models.write_data(kind, sizes, path)
        return str(path) if path.exists() else None

    def files(self, model):
        """lockstep's option for the data."""
        return ["--data", f"file:{self.data(model)}"] if self.data(model) else []

    def options(self, model, init):
        """lockstep's options for the values and the data."""
        return ["--load", init, *self.files(model)]

    def timed_files(self, model):
        """lockstep's option for the data used for timing."""
        return [] if models.parse_model(model)[0] in TEXT_KINDS else self.files(model)

    def takers(self, model, given=()):
        """The peers that know the model, and clipping and schedules where they are given."""
        kind, _ = models.parse_model(model)
        return [
            peer for peer in self.peers
            if ("precision" in given) == (peer.name in runners.BF16_PEERS)
            and (kind in PAIRED_KINDS or peer.name not in runners.PAIRS)
            and kind in runners.ONLY_KINDS.get(peer.name, models.TRAINING)
            and ("clip" not in given or peer.name.startswith(runners.CLIPPERS))
            and (not set(given) & set(models.SCHEDULED) or peer.name.startswith("torch"))
        ]

    def build(self, peer, model, batch, given=None):
        """Prepares a peer for a case."""
        peer.ask(op="build", model=model, batch=batch, init=self.initial(model, 1),
                 data=self.data(model), **(given or {}))


def machine(arguments, comparison):
    """The machine and the versions."""
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": book.cpu_text(), "cores": arguments.cores, "load_average": os.getloadavg(),
        "python": platform.python_version(), "lockstep": comparison.lockstep.version(),
        **({"isa": arguments.isa} if arguments.isa else {}),
        "peers": {peer.name: peer.ask(op="info") for peer in comparison.peers},
    }


def parse_cores(parser, text):
    """The one or two core numbers of --cores; by default the last usable ones."""
    if text is None:
        return sorted(os.sched_getaffinity(0), reverse=True)[:2]
    cores = [int(part) for part in text.split(",") if part.isdecimal()]
    if not 1 <= len(set(cores)) == text.count(",") + 1 <= 2:
        parser.error(f"--cores: {text}: expected one or two core numbers, like 0,1")
    return cores


def make_parser():
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("agree", *PARTS, "all", "tables"))
    parser.add_argument("--lockstep", default="build/lockstep", help="the program (%(default)s)")
    parser.add_argument(
        "--peers", help="comma-separated; agree, time: of "
        f"{', '.join((*runners.PEERS, *runners.BF16_PEERS))}; agree also: {', '.join(runners.PAIRS)}, "
        f"{', '.join(runners.JUDGES)} ({', '.join(runners.TIMED)}; agree also the judge and, "
        f"where there are two cores, {', '.join(runners.MAIN_PAIRS)})",
    )
    parser.add_argument(
        "--models", help=f"of agree and time, comma-separated, of {', '.join(models.TRAINING)} (all)"
    )
    parser.add_argument("--llmc", metavar="FOLDER", help="a clone of github.com/karpathy/llm.c, for the peer llmc")
    parser.add_argument("--cores", help=CORES_HELP)
    parser.add_argument("--rounds", type=int, default=measure.ROUNDS, help="(%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of agree (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="agree: also write the differences")
    parser.add_argument(
        "--isa", choices=tuple(runners.ISAS), help="keeps all programs to this instruction set (the processor's)",
    )
    parser.add_argument(
        "--file", metavar="NAME-rounds.jsonl",
        help="keeps the rounds; those that are there are not run again "
        f"({RESULTS}/<processor>-rounds.jsonl, with --isa <processor>-<isa>-rounds.jsonl)",
    )
    return parser


def check_llmc(parser, arguments):
    """llm.c is compared only where its folder is given; says so where it is not."""
    folder = arguments.llmc and pathlib.Path(arguments.llmc)
    if folder and not (folder / "train_gpt2.c").is_file():
        parser.error(f"--llmc: {folder}: no train_gpt2.c in it; give a clone of github.com/karpathy/llm.c")
    if not folder and "llmc" in (arguments.peers or ()):
        parser.error("--peers: llmc: needs --llmc FOLDER, a clone of github.com/karpathy/llm.c")
    wanted = arguments.what in ("agree", "time", "all") and (not arguments.models or "gpt" in arguments.models)
    if not folder and not arguments.peers and wanted:
        runners.say("llmc: skipped: no --llmc FOLDER, a clone of github.com/karpathy/llm.c")


def parse_arguments():
    """The command line."""
    parser = make_parser()
    arguments = parser.parse_args()
    arguments.cores = parse_cores(parser, arguments.cores)
    here = "-".join(filter(None, (book.processor(), arguments.isa)))
    arguments.file = arguments.file or str(RESULTS / f"{here}-rounds.jsonl")
    os.environ |= runners.ISAS.get(arguments.isa, {})  # all programs inherit it
    valid = (*runners.PEERS, *runners.BF16_PEERS)
    if arguments.what == "agree":
        valid += tuple(runners.PAIRS) + tuple(runners.JUDGES)
    arguments.peers = arguments.peers.split(",") if arguments.peers else None
    arguments.models = arguments.models.split(",") if arguments.models else None
    strangers = set(arguments.models or ()) - set(models.TRAINING)
    if strangers:
        parser.error(f"--models: {min(strangers)}: unknown; valid: {', '.join(models.TRAINING)}")
    unknown = [name for name in arguments.peers or () if name not in valid]
    if unknown:
        parser.error(f"--peers: {unknown[0]}: unknown here; valid: {', '.join(valid)}")
    check_llmc(parser, arguments)
    pairs = arguments.what in ("scaling", "processes", "all") or set(
        arguments.peers or ()) & set(runners.PAIRS)
    if len(arguments.cores) < 2 and pairs:
        parser.error("--cores: two cores are needed")
    if not arguments.file.endswith("-rounds.jsonl"):
        parser.error(f"--file: {arguments.file}: expected NAME-rounds.jsonl")
    if arguments.rounds < 1 or arguments.seeds < 1:
        parser.error("--rounds, --seeds: must be at least 1")
    return arguments


def peers_of(part, arguments):
    """The names of a part's peers."""
    timed = tuple(name for name in runners.TIMED if name != "llmc" or arguments.llmc)
    if part == "agree":
        pairs = runners.MAIN_PAIRS if len(arguments.cores) > 1 else ()
        return arguments.peers or (*timed, *runners.BF16_PEERS, *runners.JUDGES, *pairs)
    if part == "time":
        return arguments.peers or (*timed, *runners.BF16_TIMED)
    return (*runners.MAIN_PEERS, *runners.PAIRS) if part == "scaling" else ()


@contextlib.contextmanager
def open_comparison(arguments, names):
    """A comparison that ends its peers when closed. arguments: lockstep, cores."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="lockstep-peers-"))
        peers = []
        for name in names:
            cores = arguments.cores[:runners.cores_of(name)]
            peers.append(runners.Peer(name, cores, directory, arguments.llmc))
            stack.callback(peers[-1].close)
        yield Comparison(arguments.lockstep, arguments.cores, peers, directory)


def run_agree(arguments):
    """Returns the exit status."""
    with open_comparison(arguments, peers_of("agree", arguments)) as comparison:
        result = {"machine": machine(arguments, comparison)}
        result["agree"] = agree.agree(comparison, arguments.seeds, arguments.models)
    print(agree.table(result["agree"]), flush=True)
    if arguments.json:
        text = json.dumps(result, indent=1)
        pathlib.Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    return 0 if all(r["pass"] for r in result["agree"]) else 1


def run_parts(arguments, parts):
    """Measures the turns that the file lacks."""
    rounds = book.Rounds(arguments.file)
    for part in parts:
        with open_comparison(arguments, peers_of(part, arguments)) as comparison:
            rounds.begin({"part": part, **machine(arguments, comparison)})
            measurement = measure.Measurement(comparison, rounds, arguments.rounds)
            if part == "time":
                measurement.time(arguments.models)
            elif part == "scaling":
                measurement.scaling()
            else:
                measurement.processes()


def run_tables(arguments):
    """Prints the file's tables. Returns the exit status."""
    rounds = book.Rounds(arguments.file)
    if not rounds.turns:
        raise book.FileError(f"{arguments.file}: no rounds; `ci/peers.sh all --file FILE` measures them")
    print(tables.everything(rounds))
    rows = tables.rows(rounds)
    own = [row for row in rows if "peer" not in row]
    for ending, kept in (("-scaling.jsonl", rows), (".jsonl", own)):
        if kept:
            path = arguments.file.removesuffix("-rounds.jsonl") + ending
            text = "".join(json.dumps(row) + "\n" for row in kept)
            pathlib.Path(path).write_text(text, encoding="utf-8")
    return 1 if rounds.failed() else 0


def main():
    """Returns the exit status."""
    arguments = parse_arguments()
    if arguments.what != "tables" and not os.access(arguments.lockstep, os.X_OK):
        runners.say(f"compare.py: --lockstep: {arguments.lockstep}: not a program; build lockstep first")
        return 3
    try:
        if arguments.what == "agree":
            return run_agree(arguments)
        if arguments.what != "tables":
            run_parts(arguments, PARTS if arguments.what == "all" else (arguments.what,))
        return run_tables(arguments)
    except (runners.RunError, book.FileError, OSError, KeyError, ValueError) as error:
        runners.say(f"compare.py: {type(error).__name__}: {error}")
        return 3


if __name__ == "__main__":
    sys.exit(main())
