# SPDX-License-Identifier: MIT
"""Compares lockstep with PyTorch and JAX on a GPU: same values, same data, in turns.

For each case, rounds in which lockstep and every peer train from the same initial values; everyone's
figure is that of rounds.py, the median over the blocks of all rounds. float32, TF32 off, JAX at
precision `highest`. The losses of the first steps must agree within LARGEST_BOUND. A peer that fails is named with its last line, and the
others go on. `--device cpu` rehearses it.
Exit status: 0 all well; 1 losses disagree, or a peer failed; 3 lockstep failed; 77 there is neither
framework here.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import sys
import tempfile

import models
import rounds as book
import runners

LARGEST_BOUND = 2e-2
# model, batch, steps of a block; warm-up is as long
CASES = (("mlp:784-4096-4096-10", 8192, 10), ("mlp:784-128-10", 256, 1000))
REHEARSAL = (("mlp:784-16-10", 32, 20),)


def peers_here(device):
    """The peers whose framework is here."""
    gpu = tuple(runners.GPU_PEERS)
    names = gpu if device == "cuda" else ("torch", "jax")
    return [n for n in names if importlib.util.find_spec(n.split("-", maxsplit=1)[0])]


class Turns:
    """Everyone's figures of one case; failed peers are left out of what follows."""

    def __init__(self, lockstep, options, case, directory):
        self.lockstep, self.options = lockstep, options
        self.model, self.batch, self.steps = case
        self.init = str(pathlib.Path(directory) / "init.safetensors")
        self.blocks, self.errors, self.differences = {}, {}, {}

    def attempt(self, peer, call):
        """Calls; where the peer fails, notes why, and it takes no more part."""
        if peer.name in self.errors:
            return None
        try:
            return call(peer)
        except (runners.RunError, ValueError) as error:
            self.errors[peer.name] = str(error).strip().splitlines()[-1][:200]
            runners.say(f"{peer.name}: {self.errors[peer.name]}")
            return None

    def prepare(self, peers):
        """Builds every peer on lockstep's first values and compares the first losses."""
        self.lockstep.run(
            self.model, "--steps", 0, "--warmup", 0, "--save", self.init, *self.options[1:],
            place=self.options[0],
        )
        own = self.lockstep.losses(
            self.model, self.batch, models.BATCHES, ["--load", self.init, *self.options[1:]],
            self.options[0],
        )
        whole = min(models.BATCHES, 60000 // self.batch)
        for peer in peers:
            runners.say(f"{peer.name}: {self.model}")
            self.attempt(peer, lambda p: p.ask(
                op="build", model=self.model, batch=self.batch, init=self.init, data=None))
            losses = self.attempt(peer, lambda p: p.ask(op="losses")["losses"])
            if losses:
                pairs = list(zip(own, losses))[:whole]
                self.differences[peer.name] = max(abs(a - b) / abs(b) for a, b in pairs)

    def take(self, peers):
        """One round."""
        self.note("lockstep", self.lockstep.blocks(
            self.model, self.batch, self.steps, ["--load", self.init, *self.options[1:]],
            self.options[0],
        ))
        for peer in peers:
            blocks = self.attempt(peer, lambda p: p.ask(
                op="time", steps=book.BLOCKS * self.steps, warmup=self.steps, block=self.steps,
            )["step_ms"])
            if blocks:
                self.note(peer.name, blocks)

    def note(self, name, blocks):
        """The blocks of one round."""
        self.blocks.setdefault(name, []).append(blocks)

    def result(self):
        """The figures, and the fastest peer over lockstep."""
        step = {name: book.figure(sum(rounds, [])) for name, rounds in self.blocks.items()}
        peers = [name for name in step if name != "lockstep"]
        fastest = min(peers, key=step.get, default=None)
        return {
            "model": self.model, "batch": self.batch, "step_ms": step, "fastest": fastest,
            "ratio": step[fastest] / step["lockstep"] if fastest else None,
            "differences": self.differences, "errors": self.errors, "blocks_ms": self.blocks,
        }


def compare(arguments, directory):
    """The results of all cases."""
    lockstep = runners.Lockstep(arguments.lockstep, ())
    place = ("--devices", "1")
    options = (place, "--data", f"fashion-mnist:{models.FASHION_MNIST}", "--memory", "growth")
    names = peers_here(arguments.device)
    peers = [runners.Peer(name, (), directory) for name in names]
    results = []
    for case in CASES if arguments.device == "cuda" else REHEARSAL:
        turns = Turns(lockstep, options, case, directory)
        turns.prepare(peers)
        for turn in range(arguments.rounds):
            runners.say(f"{case[0]}: round {turn + 1} of {arguments.rounds}")
            turns.take(peers)
        results.append(turns.result())
    for peer in peers:
        peer.close()
    return results


def is_well(result):
    """Whether no peer failed, and all losses agree."""
    return not result["errors"] and all(d <= LARGEST_BOUND for d in result["differences"].values())


def main():
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lockstep", default="build/lockstep", help="the program (%(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    arguments = parser.parse_args()
    if not peers_here(arguments.device):
        print("neither PyTorch nor JAX in this python3")
        return 77
    if not os.path.isdir(models.FASHION_MNIST):
        print(f"no Fashion-MNIST in {models.FASHION_MNIST}; LOCKSTEP_FASHION_MNIST names its folder")
        return 77
    with tempfile.TemporaryDirectory(prefix="lockstep-peers-") as directory:
        try:
            results = compare(arguments, directory)
        except (runners.RunError, OSError, KeyError) as error:
            print(f"{type(error).__name__}: {error}")
            return 3
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for result in results:
        print(json.dumps({key: result[key] for key in ("model", "step_ms", "ratio", "errors")}))
    return 0 if all(map(is_well, results)) else 1


if __name__ == "__main__":
    sys.exit(main())
