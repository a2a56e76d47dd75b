# SPDX-License-Identifier: MIT
"""What the three peers share: cases, data, initial values, the worker loop.

A peer is a process that reads one JSON request a line on stdin and answers with one JSON line on
stdout, so that it starts (and compiles) once and then takes turns with the others:

    {"op": "build", "model": "mlp:784-128-10", "batch": 256, "init": FILE, "data": FILE or null}
                                                 -> {"ok": true}
    {"op": "load", "init": FILE}                 -> {"ok": true}       other initial values
    {"op": "losses"}                             -> {"losses": [...]}  of the first BATCHES steps
    {"op": "time", "steps": n, "warmup": w, "block": k} -> {"step_ms": [one mean per block]}
    {"op": "info"}                               -> {"name": ..., "version": ...}

`losses` and `time` start again from the initial values. A framework supplies build(case) ->
(step, reset, read): step(x, y) trains case.stride steps (1 unless build sets it) and returns their
losses in the framework's own form, without waiting; reset(values) puts back values and optimizer
state; read(losses) waits and returns a list of floats. n, w and k are multiples of the stride.
Left out: gathering, shuffling and evaluation; BATCHES batches lie ready as float arrays.
"""

import gzip
import json
import os
import struct
import sys
import time
import traceback

import numpy as np
from safetensors.numpy import load_file, save_file

ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
LEARNING_RATE = {"mlp": 1e-3, "poly": 0.1}
FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
POLY_SAMPLES = 10000
BATCHES = 20


class Case:
    """One configuration: the model's kind and sizes, the batch, its first values and its data."""

    def __init__(self, request):
        self.kind, self.sizes = parse_model(request["model"])
        self.batch = request["batch"]
        self.lr = LEARNING_RATE[self.kind]
        self.values = load_values(request["init"], self.kind, self.sizes)
        self.stride = 1
        self.batches = make_batches(self.kind, self.batch, request.get("data"))


def parse_model(text):
    """'mlp', 'mlp:784-300-10' or 'poly' -> (kind, sizes)."""
    kind, _, sizes = text.partition(":")
    if kind not in LEARNING_RATE:
        raise ValueError(f"model: {text}: unknown; valid: mlp[:SIZES], poly")
    if kind == "poly":
        return kind, [3, 1]
    return kind, [int(n) for n in (sizes or "784-128-10").split("-")]


def load_values(path, kind, sizes):
    """The parameters of a safetensors file as numpy arrays, in the order of the layers."""
    tensors = load_file(path)
    values = []
    for index, (fan_in, fan_out) in enumerate(zip(sizes[:-1], sizes[1:])):
        values.append(take(tensors, f"dense{index}.weight", (fan_out, fan_in)))
        if kind == "mlp":
            values.append(take(tensors, f"dense{index}.bias", (fan_out,)))
    if tensors:
        raise ValueError(f"init: {path}: unexpected tensors {sorted(tensors)}")
    return values


def take(tensors, name, shape):
    """Removes one float32 tensor of the given shape from the dictionary and returns it."""
    tensor = tensors.pop(name)
    if tensor.shape != shape or tensor.dtype != np.float32:
        raise ValueError(f"init: {name}: {tensor.dtype}{tensor.shape}, expected float32{shape}")
    return tensor


def read_idx(path):
    """A gzipped IDX file of unsigned bytes as a numpy array."""
    with gzip.open(path, "rb") as stream:
        content = stream.read()
    zero, kind, rank = struct.unpack_from(">HBB", content)
    if zero != 0 or kind != 8:
        raise ValueError(f"data: {path}: not an IDX file of bytes")
    shape = struct.unpack_from(f">{rank}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def make_batches(kind, batch, data):
    """The first BATCHES batches in file order: step t takes samples t*B to t*B+B-1."""
    count = BATCHES * batch
    if kind == "poly":
        tensors = load_file(data)
        x, y = poly_features(tensors["x0"]), tensors["y"]
    else:
        x = read_idx(f"{FASHION_MNIST}/train-images-idx3-ubyte.gz")[:count]
        x = x.reshape(count, -1).astype(np.float32) / np.float32(255)
        y = read_idx(f"{FASHION_MNIST}/train-labels-idx1-ubyte.gz").astype(np.int32)
    return [(x[i : i + batch], y[i : i + batch]) for i in range(0, count, batch)]


def poly_features(x):
    """[N,1] -> [N,3]: (x^2, x, 1)."""
    return np.ascontiguousarray(np.concatenate([x * x, x, np.ones_like(x)], axis=1))


def write_poly_data(path):
    """x0 [N,1] uniform in [-10, 10] and y [N] = 5 x^2 + 3, for the peers and for lockstep."""
    x = np.random.default_rng(1).uniform(-10, 10, POLY_SAMPLES).astype(np.float32)
    y = np.float32(5) * x * x + np.float32(3)
    save_file({"x0": x.reshape(-1, 1), "y": y}, path)


class Trainer:
    """Runs a framework's step over the batches of a case, again from the first after the last."""

    def __init__(self, case, build):
        self.case = case
        self.step, self.reset, self.read = build(case)
        self.at = 0

    def restart(self):
        """Back to step 0 with the case's initial values."""
        self.reset(self.case.values)
        self.at = 0

    def run(self, steps):
        """Trains `steps` steps, waits for the last, returns the losses of the last call."""
        batches, step, at, losses = self.case.batches, self.step, self.at, None
        for _ in range(steps // self.case.stride):
            losses = step(*batches[at])
            at += 1
            if at == len(batches):
                at = 0
        self.at = at
        return self.read(losses)

    def losses(self):
        """The loss of each of the first BATCHES steps, before its update."""
        self.restart()
        stride = self.case.stride
        return [loss for _ in range(BATCHES // stride) for loss in self.run(stride)]

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
        case.values = load_values(request["init"], case.kind, case.sizes)
        return trainer, {"ok": True}
    if op == "losses":
        return trainer, {"losses": trainer.losses()}
    return trainer, {"step_ms": trainer.time(request["steps"], request["warmup"], request["block"])}


def shard(case, rank, ranks):
    """Leaves one replica's part of every batch in the case."""
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
