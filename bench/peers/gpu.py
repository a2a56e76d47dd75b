# SPDX-License-Identifier: MIT
"""Compares lockstep with PyTorch and JAX on a GPU: same values, same data, in turns.

For each case, runs rounds in which lockstep and every peer train from the same initial values; each turn is saved in
--file (rounds.py) when it ends, and is not repeated. Before a case's
first round all peers build it at once, and the losses of the first steps are compared, at the rates
of agree.py: they must agree within LARGEST_BOUND. float32, TF32 off, JAX at precision `highest`. A program that
fails, or needs longer than PATIENCE, is named with its last line, and the others continue; a peer's compiler that needs
longer is a gap, no failure. `--precision bf16`: beside torch.autocast, the models that Lockstep
stores in bfloat16. `--build` only builds each case in each peer, so that their caches have it.
`--device cpu` rehearses it.
Exit status: 0 success; 1 losses disagree, or a program failed; 3 broken; 77 neither framework is installed.
"""

import argparse
import datetime
import importlib.util
import os
import pathlib
import statistics
import sys
import tempfile
import time

import agree
import compare
import models
import rounds as book
import runners

LARGEST_BOUND = 2e-2
PATIENCE = 120  # seconds: torch.compile of a large model, while others run
# model, batch, steps of a block; the warm-up is as long. The most important first.
CASES = (
    ("mlp:784-128-10", 256, 1000), ("resnet:20", 128, 30), ("cifar10", 128, 100), ("gpt:12-12-768-1024-50257", 4, 4),
    ("twin-lstm:64", 64, 20), ("mlp:784-4096-4096-10", 8192, 5), ("gpt:6-6-384-256-256", 64, 10), ("cnn", 256, 300),
    ("lstm-stack:4", 64, 10),
)
BF16_CASES = (
    ("gpt:12-12-768-1024-50257", 4, 4), ("gpt:12-12-768-1024-50257", 16, 2), ("mlp:784-4096-4096-10", 8192, 5),
    ("gpt:6-6-384-256-256", 64, 10), ("resnet:20", 128, 30), ("cifar10", 128, 100), ("mlp:784-128-10", 256, 1000),
    ("cnn", 256, 300),
)
LARGE = ("gpt:12-12-768-1024-50257",)  # of which five at a time do not fit beside the peers
REHEARSAL = (("mlp:784-16-10", 32, 20), ("cnn", 16, 2), ("gpt:1-2-16-16-32", 2, 2))
RATES = {models.parse_model(model)[0]: given.get("lr") for model, _, given in agree.CASES if "clip" not in given}


def cases_of(arguments):
    """The cases to compare."""
    return REHEARSAL if arguments.device == "cpu" else BF16_CASES if arguments.precision == "bf16" else CASES


def known(arguments):
    """{option: the names that it may list}"""
    narrow = arguments.precision == "bf16"
    rehearsed = ("torch-autocast", "jax-bf16") if narrow else ("torch", "jax")  # what compiles takes minutes here
    peers = {"cuda": (runners.GPU_PEERS, runners.BF16_GPU_PEERS)[narrow], "cpu": rehearsed}[arguments.device]
    return {"peers": tuple(peers),
            "models": tuple(dict.fromkeys(case[0] for case in cases_of(arguments)))}


def wanted(arguments, option):
    """The names that an option lists; without it, all."""
    return (getattr(arguments, option) or ",".join(known(arguments)[option])).split(",")


def peers_here(arguments):
    """The wanted peers whose framework is installed."""
    return [n for n in wanted(arguments, "peers") if importlib.util.find_spec(n.split("-", maxsplit=1)[0])]


class Turns:
    """One case: the programs that take turns, and the file of turns."""

    def __init__(self, comparison, rounds, case, arguments):
        self.comparison, self.rounds, self.count = comparison, rounds, arguments.rounds
        self.precision = ("--precision", arguments.precision)
        self.model, self.batch, self.steps = case
        self.differences, self.failed, self.rates = {}, set(), {}

    def key(self, name):
        """The key of a turn."""
        return ("gpu", self.model, self.batch, name, 1)

    def lacks(self, name):
        """The missing rounds."""
        return [turn for turn in range(1, self.count + 1) if not self.rounds.has(self.key(name), turn)]

    def attempt(self, name, turn, call):
        """Calls; a failure is recorded, and the program takes no further part."""
        try:
            return call()
        except runners.RunError as error:
            why = str(error).strip().splitlines()[-1][-300:]
            runners.say(f"{name}: {why}")
            self.rounds.fail(self.key(name), turn, why)
            self.failed.add(name)
            return None

    def all_at_once(self, peers, **request):
        """[(peer, reply)] of those that did not fail."""
        for peer in peers:
            peer.send(**request)
        end = time.monotonic() + PATIENCE

        def left():
            return max(1, end - time.monotonic())

        replies = [(p, self.attempt(p.name, 1, lambda p=p: p.receive(left()))) for p in peers]
        return [(peer, reply) for peer, reply in replies if reply]

    def options(self):
        """lockstep's options for values, data and memory."""
        files = self.comparison.files(self.model) or self.comparison.fashion
        rate = RATES.get(models.parse_model(self.model)[0])
        return ["--load", self.comparison.initial(self.model, 1), "--memory", "growth", *self.precision, *files,
                *(("--lr", rate) if rate else ())]

    def prepare(self, peers):
        """Builds the case in every peer on lockstep's first values, and compares the first losses.
        Returns the programs that take turns: none without such values."""
        init = self.attempt("lockstep", 1, lambda: self.comparison.initial(self.model, 1))
        if not init:
            return []
        rate = RATES.get(models.parse_model(self.model)[0])
        request = {"model": self.model, "batch": self.batch, "data": self.comparison.data(self.model),
                   "init": init, **({"lr": rate} if rate else {})}
        ready = [peer for peer, _ in self.all_at_once(peers, op="build", **request)]
        own = self.attempt("lockstep", 1, lambda: self.comparison.lockstep.losses(
            self.model, self.batch, models.BATCHES, self.options(), ("--devices", "1")))
        # of Fashion-MNIST a peer has whole batches, and then again from the first
        whole = models.BATCHES if request["data"] else min(models.BATCHES, max(1, 60000 // self.batch))
        for peer, reply in self.all_at_once(ready, op="losses"):
            if own:
                self.differences[peer.name] = agree.relative(own[:whole], reply["losses"][:whole])
        return [peer for peer in ready if self.lacks(peer.name)]

    def take(self, name, turn, call):
        """A turn. call() -> blocks in ms."""
        blocks = self.attempt(name, turn, call) if turn in self.lacks(name) else None
        if blocks:
            more = {"difference": self.differences[name]} if name in self.differences else {}
            more |= self.rates if name == "lockstep" else {}
            self.rounds.add(self.key(name), turn, blocks, steps=self.steps, **more)

    def run(self, peers):
        """Runs the missing rounds of the case."""
        peers = [peer for peer in peers if self.lacks(peer.name)]
        if not peers and not self.lacks("lockstep"):
            return
        runners.say(f"{self.model}, batch {self.batch}")
        peers = self.prepare(peers)
        for turn in range(1, self.count + 1):
            self.take("lockstep", turn, self.timed_lockstep)
            for peer in peers:
                self.take(peer.name, turn, lambda p=peer: self.timed(p))

    def timed_lockstep(self):
        """lockstep's turn; notes its rate, and what that is of its roof."""
        rows = self.comparison.lockstep.block_rows(
            self.model, self.batch, self.steps, self.options(), ("--devices", "1"), apart=self.model in LARGE)
        times = [row["time"] for row in rows if "mfu" in row["time"]]
        if times:
            self.rates = {"mfu": statistics.median(time["mfu"] for time in times),
                          "gflops": statistics.median(time["mfu"] * time["roof_gflops"] for time in times)}
        return [runners.mean_step(row) for row in rows]

    def timed(self, peer):
        """A peer's turn."""
        peer.send(op="time", steps=book.BLOCKS * self.steps, warmup=self.steps, block=self.steps)
        return peer.receive(PATIENCE)["step_ms"]


class Peers:
    """The peers of all cases; one that failed in a case starts the next as a new process."""

    def __init__(self, names, directory):
        self.directory = directory
        self.peers = [runners.Peer(name, (), directory) for name in names]

    def info(self):
        """{name: description}; programs that cannot tell it take no part."""
        infos = {}
        for peer in self.peers:
            peer.send(op="info")
        for peer in list(self.peers):
            try:
                infos[peer.name] = peer.receive(2 * PATIENCE)
            except runners.RunError as error:
                runners.say(str(error))
                self.peers.remove(peer)
        return infos

    def renew(self, failed):
        """Those of these names."""
        for index, peer in enumerate(self.peers):
            if peer.name in failed:
                peer.close()
                self.peers[index] = runners.Peer(peer.name, (), self.directory)

    def close(self):
        """Ends all."""
        for peer in self.peers:
            peer.close()


def measure(arguments, directory):
    """Runs the turns that the file lacks; returns the rounds."""
    path = pathlib.Path(arguments.file)
    peers = Peers(peers_here(arguments), directory)
    comparison = compare.Comparison(arguments.lockstep, (), peers.peers, directory, ("--devices", "1"),
                                    ("--data", f"fashion-mnist:{models.FASHION_MNIST}"))
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    here = {"part": "gpu", "time": now, "cpu": book.cpu_text(), "peers": peers.info(),
            "lockstep": comparison.lockstep.version()}
    try:
        rounds = book.Rounds(path)
        rounds.begin(here)
    except book.FileError as error:  # of another program or machine: kept, and begun anew
        runners.say(str(error))
        os.replace(path, f"{path}.before")
        rounds = book.Rounds(path)
        rounds.begin(here)
    for case in cases_of(arguments):
        if case[0] not in wanted(arguments, "models"):
            continue
        turns = Turns(comparison, rounds, case, arguments)
        if arguments.build:
            turns.prepare(peers.peers)
        else:
            turns.run(peers.peers)
        peers.renew(turns.failed)
    peers.close()
    return rounds


def disagree(rounds):
    """[(key, difference)] of losses too far from lockstep's."""
    lines = [(key, line) for key, turns in rounds.turns.items() for line in turns.values()]
    return [(key, line["difference"]) for key, line in lines
            if not line.get("difference", 0) <= LARGEST_BOUND]  # true for NaN


def main():
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lockstep", default="build/lockstep", help="the program (%(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    parser.add_argument("--peers", help=f"comma-separated, of {', '.join((*runners.GPU_PEERS, *runners.BF16_GPU_PEERS))} (all)")
    parser.add_argument("--models", help=f"comma-separated, of {', '.join(case[0] for case in CASES)} (all)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds (%(default)s)")
    parser.add_argument("--build", action="store_true", help="only build the cases in the peers")
    parser.add_argument("--file", required=True, help="keeps the turns; those there are not taken again")
    arguments = parser.parse_args()
    for option, names in known(arguments).items():
        for name in wanted(arguments, option):
            if name not in names:
                parser.error(f"--{option}: {name}: unknown; they are {', '.join(names)}")
    if not peers_here(arguments):
        print("neither PyTorch nor JAX in this python3")
        return 77
    if not os.path.isdir(models.FASHION_MNIST):
        print(f"no Fashion-MNIST in {models.FASHION_MNIST}; LOCKSTEP_FASHION_MNIST names its folder")
        return 77
    with tempfile.TemporaryDirectory(prefix="lockstep-peers-") as directory:
        try:
            rounds = measure(arguments, directory)
        except (runners.RunError, book.FileError, OSError, KeyError, ValueError) as error:
            print(f"{type(error).__name__}: {error}")
            return 3
    failed = [(key[3], f"{' '.join(map(str, key[1:4]))}: {why}") for key, why in rounds.failed()]
    gaps = [line for name, line in failed if runners.LATE in line and name != "lockstep"]
    wrong = [line for name, line in failed if line not in gaps]
    print("\n".join(f"gap: {line}" for line in gaps), end="\n" if gaps else "")
    wrong += [f"{' '.join(map(str, key[1:4]))}: losses differ by {far:.1e}" for key, far in disagree(rounds)]
    print("\n".join(wrong or ["all turns taken, losses agree"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
