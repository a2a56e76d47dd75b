# SPDX-License-Identifier: MIT
"""Shared by the three peers: cases, data, initial values, the worker loop.

A peer is a process that reads JSON requests on stdin, one per line, and answers each with one JSON line on stdout, so
that it starts (and compiles) once and then takes turns with the others:

    {"op": "build", "model": "mlp:784-128-10", "batch": 256, "init": FILE, "data": FILE or null,
     "lr": RATE, "optimizer": NAME (the model's),
     "clip": NORM (none), and what SCHEDULED names (PyTorch only)} -> {"ok": true}
    {"op": "load", "init": FILE}                 -> {"ok": true}       other initial values
    {"op": "losses"}                             -> {"losses": [...]}  of the first `steps` of build, or BATCHES
    {"op": "time", "steps": n, "warmup": w, "block": k} -> {"step_ms": [one mean per block],
                                                         "huge_bytes": memory on huge pages}
    {"op": "info"}                               -> {"name": ..., "version": ...}

`losses` and `time` start again from the initial values. A framework supplies build(case) ->
(step, reset, read): step(x, y) trains case.stride steps (1 unless build sets it) and returns their
losses in the framework's own form, without waiting; reset(values) puts back values and optimizer
state; read(losses) waits and returns a list of floats. n, w and k are multiples of the stride.
Left out: gathering, shuffling and evaluation; BATCHES prepared batches are float arrays.
"""

import json
import os
import pathlib
import sys
import time
import traceback

import models


class Case:
    """One configuration: the model's kind and sizes, the batch, its first values and its data."""

    def __init__(self, request):
        self.kind, self.sizes = models.parse_model(request["model"])
        self.batch = request["batch"]
        optimizer, rate = models.TRAINING[self.kind]
        self.optimizer = request.get("optimizer", optimizer)
        self.lr = request.get("lr", rate)
        self.clip = request.get("clip")
        self.pieces = request.get("gradient-accumulation-steps", 1)
        self.lr_warmup, self.min_lr = request.get("lr-warmup-steps"), request.get("min-lr")  # None: constant
        self.steps = request.get("steps", models.BATCHES)
        self.values = models.load_values(request["init"], self.kind, self.sizes)
        self.stride = 1
        self.batches = models.make_batches(self.kind, self.batch, request.get("data"))


class Trainer:
    """Runs a framework's step over the batches of a case, in a cycle."""

    def __init__(self, case, build):
        self.case = case
        self.step, self.reset, self.read = build(case)
        self.at = 0

    def restart(self):
        """Returns to step 0 with the case's initial values."""
        self.reset(self.case.values)
        self.at = 0

    def run(self, steps):
        """Trains `steps` steps, waits for the last, returns the losses of the last call."""
        if steps % self.case.stride != 0:
            raise ValueError(f"steps: {steps}: not a multiple of {self.case.stride}, one call's")
        batches, step, at, losses = self.case.batches, self.step, self.at, None
        for _ in range(steps // self.case.stride):
            losses = step(*batches[at])
            at += 1
            if at == len(batches):
                at = 0
        self.at = at
        return self.read(losses)

    def losses(self):
        """The loss of each of the case's first steps, before its update."""
        self.restart()
        stride = self.case.stride
        return [loss for _ in range(self.case.steps // stride) for loss in self.run(stride)]

    def time(self, steps, warmup, block):
        """Mean step time in ms of each block of `block` steps; one wait at the end of a block."""
        self.restart()
        self.run(warmup)
        means = []
        for _ in range(steps // block):
            start = time.perf_counter_ns()
            self.run(block)
            means.append((time.perf_counter_ns() - start) / block / 1e6)
        return means


def answer(request, trainer, build, info):
    """Serves one request; returns the trainer to keep and the reply."""
    op = request["op"]
    if op == "info":
        return trainer, info()
    if op == "build":
        return Trainer(Case(request), build), {"ok": True}
    if op == "load":
        case = trainer.case
        case.values = models.load_values(request["init"], case.kind, case.sizes)
        return trainer, {"ok": True}
    if op == "losses":
        return trainer, {"losses": trainer.losses()}
    blocks = trainer.time(request["steps"], request["warmup"], request["block"])
    return trainer, {"step_ms": blocks, "huge_bytes": huge_bytes()}


def huge_bytes():
    """This process's memory on huge pages; 0 if the system does not tell."""
    try:
        lines = pathlib.Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("AnonHugePages:"))


def shard(case, rank, ranks):
    """Reduces every batch of the case to one replica's part."""
    if case.batch % ranks != 0:
        raise ValueError(f"batch: {case.batch}: not a multiple of {ranks} replicas")
    own = slice(rank * case.batch // ranks, (rank + 1) * case.batch // ranks)
    case.batches = [(x[own], y[own]) for x, y in case.batches]


def serve(build, info, relay=lambda line: None):
    """Answers requests until stdin ends. What a framework prints goes to stderr.

    relay gets every request first, for a peer that works in several processes.
    """
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    trainer = None
    for line in sys.stdin:
        relay(line)
        request = json.loads(line)
        if request["op"] == "build":
            trainer = None
        try:
            trainer, reply = answer(request, trainer, build, info)
        except Exception as error:  # the parent decides; the reply says what failed
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)
