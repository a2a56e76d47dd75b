# SPDX-License-Identifier: MIT
"""The measurements, in rounds in which all programs take turns (rounds.py has the statistic).

`time`: the models on one core, with every peer that supports them. `scaling`: lockstep's strategies and the peers on
one core and two, for each global batch. `processes`: replicas and workers as
threads of one process and as processes of one host.
"""

import time

import models
import rounds as book
import runners

ROUNDS = 5
# model, batch, steps of a block; warm-up is as long
TIME_CASES = (
    ("mlp:784-128-10", 256, 100),
    ("mlp:784-128-10", 32, 300),
    ("mlp:784-1024-1024-10", 256, 10),
    ("mlp:784-1024-1024-10", 32, 30),
    ("poly", 100, 5000),
    ("cnn", 256, 20),
    ("cifar10", 128, 2),
    ("twin-lstm:64", 64, 3),
    ("lstm-stack:4", 64, 3),
    ("resnet:20", 128, 2),
    ("gpt:4-4-128-128-256", 16, 5),
    ("gpt:6-6-384-256-256", 8, 2),
)
BF16_KINDS = ("mlp", "gpt")  # also timed in bfloat16, where peers have it
SCALED = "mlp:784-128-10"
BATCHES = (512, 256)  # of the whole step
WEAK_BATCH = 256  # of a core
STEPS, LONG_STEPS = 100, 300  # of a block of `scaling`; of `processes`, some of which have no common step
STRATEGIES = ("single", "towers", "mirrored", "independent")
# name: (processes, 0 for threads; cores; global batch; options). A worker's batch is WEAK_BATCH.
PLACES = {
    "mirrored, threads": (0, 2, 512, ("--strategy", "mirrored", "--devices", 2)),
    "mirrored, processes": (2, 2, 512, ("--strategy", "mirrored")),
    "ps sync 1+1, processes": (2, 2, 256, ("--strategy", "ps")),
    "ps async 2+1, threads": (
        0, 2, 512, ("--strategy", "ps", "--devices", 2, "--ps-mode", "async")),
    "ps async 2+1, processes": (3, 2, 512, ("--strategy", "ps", "--ps-mode", "async")),
}


class Measurement:
    """One session: the programs that take turns, and the file of turns."""

    def __init__(self, comparison, rounds, count):
        self.comparison, self.rounds, self.count = comparison, rounds, count

    def turn(self, key, turn, call):
        """Runs a turn unless the file has it. call() -> (blocks in ms, more for the file). A peer that fails is
        recorded and left out; lockstep must not fail."""
        if self.rounds.has(key, turn):
            return
        runners.say(f"{key[0]}: {key[1]}, batch {key[2]}, round {turn} of {self.count}: {key[3]}")
        start = time.monotonic()
        try:
            blocks, more = call()
        except runners.PeerError as error:
            why = str(error).strip().splitlines()[-1][:200]
            runners.say(f"{key[3]}: {why}")
            self.rounds.fail(key, turn, why)
            return
        self.rounds.add(key, turn, blocks, seconds=round(time.monotonic() - start, 2), **more)

    def timed_peer(self, peer, built, model, batch, steps):
        """A peer's turn; built: the (peer, model, batch) that its process holds."""
        if built.get(peer.name) != (model, batch):
            self.comparison.build(peer, model, batch)
            built[peer.name] = (model, batch)
        reply = peer.ask(op="time", steps=book.BLOCKS * steps, warmup=steps, block=steps)
        return reply["step_ms"], {"steps": steps, "huge_bytes": reply["huge_bytes"]}

    # ---- One core ---------------------------------------------------------------------------

    def time(self, kinds=None):
        """All models on one core."""
        for model, batch, steps in models.chosen(TIME_CASES, kinds):
            built = {}
            for turn in range(1, self.count + 1):
                self.time_round((model, batch, steps), turn, built)

    def time_round(self, case, turn, built):
        """One round of one model."""
        model, batch, steps = case
        comparison, lockstep = self.comparison, self.comparison.lockstep
        files = comparison.timed_files(model)

        def own(*more):
            options = ["--load", comparison.initial(model, 1), *files, *more]
            return lockstep.blocks(model, batch, steps, options), {"steps": steps}

        def floor():
            return [lockstep.floor(model, batch, files)], {}

        self.turn(("time", model, batch, "lockstep", 1), turn, own)
        if turn % 2:  # takes as long as a turn of several, and is steadier
            self.turn(("time", model, batch, "floor", 1), turn, floor)
        narrow = comparison.takers(model, {"precision": "bf16"}) if model.startswith(BF16_KINDS) else []
        if narrow:
            self.turn(("time", model, batch, "lockstep-bf16", 1), turn, lambda: own("--precision", "bf16"))
        for peer in comparison.takers(model) + narrow:
            key = ("time", model, batch, peer.name, 1)
            if steps % runners.STRIDES.get(peer.name, 1) or out_of_reach(self.rounds, key, turn):
                continue
            self.turn(key, turn, lambda p=peer: self.timed_peer(p, built, model, batch, steps))

    # ---- One core and two -------------------------------------------------------------------

    def scaling(self):
        """Strategies and peers on one core and two, at every batch."""
        built = {}
        for turn in range(1, self.count + 1):
            for batch in BATCHES:
                self.strategies(batch, turn)
                for peer in self.comparison.peers:
                    key = ("scaling", SCALED, batch, peer.name, runners.cores_of(peer.name))
                    self.turn(
                        key, turn,
                        lambda p=peer, b=batch: self.timed_peer(p, built, SCALED, b, STEPS),
                    )

    def strategies(self, batch, turn):
        """lockstep's strategies on one device and two take turns in one command, with the gate."""
        places = [(name, cores) for name in STRATEGIES for cores in (1, 2)]
        keys = {(n, c): ("scaling", SCALED, batch, n, c) for n, c in places if (n, c) != ("single", 2)}
        if all(self.rounds.has(key, turn) for key in keys.values()):
            return
        runners.say(f"scaling: {SCALED}, batch {batch}, round {turn} of {self.count}: lockstep")
        options = ["--load", self.comparison.initial(SCALED, 1)]
        found = self.comparison.pair.block_rows(
            SCALED, batch, STEPS, options,
            ("--strategy", ",".join(STRATEGIES), "--devices", "1,2"), gated=True,
        )
        for (name, cores), key in keys.items():
            rows = [r for r in found if (r["case"]["strategy"], len(r["case"]["devices"])) == (name, cores)]
            if not self.rounds.has(key, turn):
                self.rounds.add(key, turn, [runners.mean_step(row) for row in rows], steps=STEPS,
                                provenance=rows[0]["provenance"])

    # ---- Threads and processes --------------------------------------------------------------

    def processes(self):
        """Replicas and workers as threads and as processes, compared with one core."""
        for turn in range(1, self.count + 1):
            for batch in BATCHES:
                self.place("single", batch, turn, (0, 1, batch, ()))
            for name, place in PLACES.items():
                self.place(name, place[2], turn, place)

    def place(self, name, batch, turn, place):
        """A turn with one placement of replicas or workers."""
        processes, cores, _, options = place
        values = ["--load", self.comparison.initial(SCALED, 1)]

        def own():
            rows = self.comparison.pair.block_rows(
                SCALED, batch, LONG_STEPS, values, options, gated=True, processes=processes)
            return [runners.mean_step(row) for row in rows], {"steps": LONG_STEPS}

        self.turn(("processes", SCALED, batch, name, cores), turn, own)


def out_of_reach(rounds, key, turn):
    """Whether a peer was too slow in round 1 to run again."""
    if turn == 1:
        return False
    others = [k for k in rounds.keys("time") if k[:3] == key[:3] and k[3] not in ("lockstep", "floor")]
    first = {k: book.figure(rounds.turns[k].get(1, {}).get("blocks_ms")) for k in others}
    known = [ms for ms in first.values() if ms == ms]
    return bool(known) and first.get(key, 0) > book.OUT_OF_REACH * min(known)
