# SPDX-License-Identifier: MIT
"""Computes the training of a perceptron in bf16 again, to the letter of the command-line page, without sharing code with
the program: batch inputs, outputs after bias and ReLU, gradients of inputs and the copies that layers read are rounded;
the gradients of variables, the optimizer and its masters are not.

Close: sums in Python's float64, of numbers so far from where a rounding turns that no order of float32 sums turns it;
losses and parameters. Numbers suit only if each rounding that is left out, or added, would show. Exact: numbers of so few
bits that every float32 sum is exact, and softmax 0 or 1: the bits of the parameters, also where an output has several uses.

Usage: test_bf16_arithmetic.py LOCKSTEP FOLDER
"""
import json
import math
import os
import random
import struct
import subprocess
import sys

from parameters import tensors, write

PROGRAM, FOLDER = sys.argv[1:3]
MARGIN = 3e-6      # of the sum of a value's terms: what float32 sums may be off by, and more
CLOSE = 2e-5       # of what a tensor has moved; of a loss 1e-6
VISIBLE = 10       # times CLOSE: what a rounding less, or more, must change
checks = 0


def expect(condition, what):
    global checks
    checks += 1
    if not condition:
        sys.exit(f"FAILED: {what}")


class Unfit(Exception):
    """Of numbers drawn: a rounding is too near to its turn, or a sum is not exact."""


# ---- Rounding ---------------------------------------------------------------------------------

def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def neighbours(x):
    """The bf16 values below and above a number, by its exponent: 8 bits of significand."""
    step = math.ldexp(1, max(math.frexp(x)[1], -125) - 8)
    low = math.floor(x / step) * step
    return low, low + step, step


def nearest(x):
    """To nearest, of two equally near ones the even one."""
    if x == 0:
        return x
    low, high, step = neighbours(x)
    if x - low == high - x:
        return low if low / step % 2 == 0 else high
    return low if x - low < high - x else high


# ---- Two ways to compute ----------------------------------------------------------------------

class Close:
    """Sums in float64, roundings where they cannot turn."""

    def __init__(self, left_out=None, added=None):
        self.left_out, self.added = left_out, added

    def total(self, terms):
        terms = list(terms)
        return math.fsum(terms), math.fsum(map(abs, terms))

    slices, parts = 1, total

    def single(self, x):
        return float32(x)

    def round(self, kind, x, size):
        if kind == self.left_out or x == 0:
            return x
        low, high, _ = neighbours(x)
        if self.left_out is None and self.added is None and abs(x - (low + high) / 2) < MARGIN * max(size, abs(x)):
            raise Unfit
        return nearest(x)

    def gradient(self, x):
        return nearest(x) if self.added == "gradients" else x

    def unsure(self, x):
        return abs(x) < 1e-4

    def round_use(self, x, size):
        return self.round("gradients of inputs", x, size)

    def sum_of_uses(self, uses):
        assert len(uses) == 1
        return uses[0]

    def softmax(self, logits):
        terms = [math.exp(z - max(logits)) for z in logits]
        return [t / math.fsum(terms) for t in terms], lambda label: math.log(math.fsum(terms)) + max(logits) - logits[label]


class Exact:
    """All numbers are float32, and all sums exact in any order. `uses`: how the gradients of an output's uses are added
    instead: they are rounded, and added in the order of backward passes, each sum rounded. `slices`: of a pair of dense
    layers, a place has some outputs of the first and inputs of the second; what it gives to a sum is rounded, and so is
    the sum, to which the bias is added."""

    def __init__(self, uses=None, slices=1):
        self.uses, self.slices = uses, slices

    def parts(self, terms):
        """The sum of terms of which each slice has some."""
        terms, n = list(terms), self.slices
        cuts = [s * len(terms) // n for s in range(n + 1)]
        total, size = self.total(nearest(self.single(self.total(terms[a:b])[0])) for a, b in zip(cuts, cuts[1:]))
        return nearest(self.single(total)), size

    def total(self, terms):
        terms = [t for t in terms if t]
        finest = min((t.as_integer_ratio() for t in terms), key=lambda r: (r[0] & -r[0]) / r[1], default=(1, 1))
        finest = (finest[0] & -finest[0]) / finest[1]
        size = math.fsum(map(abs, terms))
        if size / finest >= 2 ** 24:
            raise Unfit
        return math.fsum(terms), size

    def single(self, x):
        if float32(x) != x:
            raise Unfit
        return x

    def round(self, kind, x, size):
        return nearest(self.single(x))

    def round_use(self, x, size):
        return self.single(x) if self.uses == "rounded in sums alone" else nearest(self.single(x))

    def gradient(self, x):
        return x

    def unsure(self, x):
        return False

    def sum_of_uses(self, uses):
        if self.uses == "rounded once":
            return [nearest(math.fsum(parts)) for parts in zip(*uses)]
        first, *others = reversed(uses) if self.uses == "in the order of forward passes" else uses
        first = [nearest(x) for x in first]
        for other in others:
            first = [nearest(self.single(a + b)) for a, b in zip(first, other)]
        return first

    def softmax(self, logits):
        most = max(logits)
        if sum(z > most - 120 for z in logits) > 1:
            raise Unfit
        return [float(z == most) for z in logits], lambda label: most - logits[label]


# ---- A model ----------------------------------------------------------------------------------

# A layer: (kind, the layers that it takes, by number, 0 is the batch). Variables: weight [outputs][inputs], bias.
def perceptron(layers):
    """Dense layers with ReLU between them."""
    return [(("dense", "relu")[n % 2], (n,)) for n in range(2 * layers - 1)]


RESIDUAL = [("dense", (0,)), ("relu", (1,)), ("dense", (2,)), ("add", (3, 2)), ("dense", (4,)), ("add", (5, 2)), ("dense", (6,))]


def optimizer(kind, lr, how):
    """Updates (master, gradient, its slots, number of the step), as the page defines it."""
    name, _, value = kind.partition(":")

    def update(w, g, slots, step):
        if name == "sgd":
            return how.single(w - how.single(lr * g))
        if name == "momentum":
            slots[0] = how.single(how.single(float(value) * slots[0]) + g)
            return how.single(w - how.single(lr * slots[0]))
        beta1, beta2 = (0.9, 0.999) if name == "adam" else (0.9, 0.95)
        slots[0] = beta1 * slots[0] + (1 - beta1) * g
        slots[1] = beta2 * slots[1] + (1 - beta2) * g * g
        change = slots[0] / (1 - beta1 ** step) / (math.sqrt(slots[1] / (1 - beta2 ** step)) + 1e-8)
        return how.single(w - lr * (change + (0.1 * w if name == "adamw" and len(slots) > 2 else 0)))
    return update


def forward(how, layers, copies, inputs):
    """All layers' outputs, after the batch's inputs."""
    values, dense = [[how.round("inputs", x, 0) for x in inputs]], 0
    for kind, of in layers:
        x = values[of[0]]
        if kind == "dense":
            y = []
            for row, b in zip(*copies[dense]):
                split = how.slices > 1 and dense % 2
                total, size = (how.parts if split else how.total)(w * v for w, v in zip(row, x))
                y.append(how.round("outputs", how.single(total + b), size))
            dense += 1
        elif kind == "relu":
            if any(how.unsure(v) for v in x):
                raise Unfit
            y = [max(v, 0.0) for v in x]
        else:
            y = [how.round("outputs", how.single(v + w), abs(v) + abs(w)) for v, w in zip(x, values[of[1]])]
        values.append(y)
    return values


def backward(how, layers, copies, values, last):
    """The gradients of all layers' outputs, from that of the last one."""
    uses = [[] for _ in values]
    uses[-1] = [last]
    gradients, dense = [None] * len(values), len(copies)
    for n in range(len(layers), 0, -1):
        kind, of = layers[n - 1]
        dy = gradients[n] = how.sum_of_uses(uses[n])
        if kind == "dense":
            dense -= 1
            total = how.parts if how.slices > 1 and dense % 2 == 0 else how.total
            sums = (total(d * row[j] for d, row in zip(dy, copies[dense][0])) for j in range(len(values[of[0]])))
            uses[of[0]].append([how.round_use(*sum_) for sum_ in sums] if of[0] else None)
        elif kind == "relu":
            uses[of[0]].append([d if y > 0 else 0.0 for d, y in zip(dy, values[n])])
        else:
            for k in of:
                uses[k].append(dy)
    return gradients


def clipped(how, gradients, most):
    """The gradients, scaled down to a norm of at most this."""
    factor = min(1, most / (math.sqrt(math.fsum(g * g for g in gradients)) + 1e-6)) if most else 1
    return [how.single(how.single(factor) * g) for g in gradients] if factor < 1 else gradients


def train(how, layers, master, samples, batch, steps, kind, lr, most=0):
    """Losses, and the masters after the last step, of [(weight, bias)] and [(inputs, label)]."""
    master = [([row[:] for row in weight], bias[:]) for weight, bias in master]
    slots = [([[[0.0, 0.0, "matrix"] for _ in row] for row in weight], [[0.0, 0.0] for _ in bias])
             for weight, bias in master]
    dense = [(n + 1, of[0]) for n, (layer, of) in enumerate(layers) if layer == "dense"]
    update, losses = optimizer(kind, lr, how), []
    for step in range(steps):
        copies = [([[how.round("copies", w, 0) for w in row] for row in weight],
                   [how.round("copies", b, 0) for b in bias]) for weight, bias in master]
        passes, loss = [], 0.0
        for i in range(batch):
            inputs, label = samples[(step * batch + i) % len(samples)]
            values = forward(how, layers, copies, inputs)
            shares, negative_log = how.softmax(values[-1])
            loss += negative_log(label)
            last = [how.round("gradients of inputs", how.single((p - (c == label)) / batch), 1 / batch)
                    for c, p in enumerate(shares)]
            passes.append((values, backward(how, layers, copies, values, last)))
        losses.append(loss / batch)
        sums = [how.gradient(how.total(terms)[0]) for (output, of), (weight, bias) in zip(dense, master)
                for terms in [*([d[output][o] * v[of][j] for v, d in passes] for o in range(len(weight))
                                for j in range(len(weight[o]))),
                              *([d[output][o] for _, d in passes] for o in range(len(bias)))]]
        sums = iter(clipped(how, sums, most))
        for (weight, bias), (ours, biases) in zip(master, slots):
            for row, slot in zip(weight, ours):
                row[:] = [update(w, next(sums), slot[j], step + 1) for j, w in enumerate(row)]
            bias[:] = [update(w, next(sums), biases[o], step + 1) for o, w in enumerate(bias)]
    return losses, master


# ---- The program ------------------------------------------------------------------------------

def flat(part):
    return [x for p in part for x in (flat(p) if isinstance(p, list) else [p])]


def run(model, sizes, master, samples, batch, steps, kind, lr, *options):
    """Its row, and its parameters after the last step."""
    at = lambda name: os.path.join(FOLDER, name)
    floats = lambda values: struct.pack(f"<{len(values)}f", *values)
    write(at("first.st"), {f"dense{k}.{name}": ("F32", [len(part)] + ([len(part[0])] if name == "weight" else []),
                                                floats(flat(part)))
                           for k, pair in enumerate(master) for name, part in zip(("weight", "bias"), pair)})
    write(at("data.st"), {"x0": ("F32", [len(samples), sizes[0]], floats(flat([x for x, _ in samples]))),
                          "y": ("F32", [len(samples)], floats([float(y) for _, y in samples]))})
    command = [PROGRAM, "run", "--model", model, "--data", "file:" + at("data.st"), "--shuffle", "no", "--batch", batch,
               "--steps", steps, "--warmup", 0, "--optimizer", kind, "--lr", repr(lr), "--precision", "bf16", "--load",
               at("first.st"), "--save", at("last.st"), "--results", "none", "--format", "jsonl", "--verbose",
               "--eval-samples", 0, *options]
    done = subprocess.run(list(map(str, command)), cwd=FOLDER, capture_output=True, text=True, timeout=100)
    if done.returncode:
        sys.exit(f"FAILED: {command}: status {done.returncode}: {done.stderr or done.stdout}")
    with open(at("every.rows"), "a", encoding="utf-8") as rows:
        rows.write(done.stdout)
    row = json.loads(done.stdout)
    expect(row["equivalence"]["copies"] == "same bits", f"copies: {row['equivalence']['copies']}")
    expect(row["equivalence"]["precision"] <= 0.05, f"precision: {row['equivalence']['precision']}")
    expect(row["provenance"]["kernels"]["bf16"] == "by float32", "products are of float32")
    for device in row["memory"]["devices"] if not options else []:
        narrow = device["parameters"] + device["activations"] - 4 * batch  # but labels
        expect(device["types"]["bf16"] == narrow, f"{device['types']} is not {narrow} bytes of bf16")
    return row, tensors(at("last.st"))


def named(master):
    return {f"dense{k}.{name}": flat(part) for k, pair in enumerate(master) for name, part in zip(("weight", "bias"), pair)}


def apart(a, b, first):
    """The largest distance of a tensor, over what it has moved."""
    norm = lambda x, y: math.sqrt(math.fsum((p - q) ** 2 for p, q in zip(x, y)))
    return max(norm(a[n], b[n]) / norm(b[n], first[n]) for n in b)


def first_fit(draw, suits, how, layers, *rest):
    """The first numbers that suit, and what comes of them."""
    for seed in range(20000):
        master, samples = draw(random.Random(seed))
        try:
            losses, last = train(how, layers, master, samples, *rest)
            if suits(master, samples, last):
                return master, samples, losses, last
        except Unfit:
            continue
    sys.exit("FAILED: no numbers suit")


# ---- Close ------------------------------------------------------------------------------------

def close(kind, lr, sizes, count, batch, steps, most=0):
    def draw(numbers):
        value = lambda size: float32(numbers.uniform(-size, size))
        return ([([[value(1.2 / math.sqrt(n)) for _ in range(n)] for _ in range(m)], [value(0.3) for _ in range(m)])
                 for n, m in zip(sizes, sizes[1:])],
                [([value(1) for _ in range(sizes[0])], numbers.randrange(sizes[-1])) for _ in range(count)])

    layers, rest = perceptron(len(sizes) - 1), (batch, steps, kind, lr, most)
    def seen(master, samples, last):
        """Whether each rounding less, or more, shows."""
        other = [Close(left_out) for left_out in ("inputs", "outputs", "gradients of inputs", "copies")]
        return all(apart(named(train(how, layers, master, samples, *rest)[1]), named(last), named(master)) >
                   VISIBLE * CLOSE for how in other + [Close(added="gradients")])

    master, samples, losses, last = first_fit(draw, seen, Close(), layers, *rest)
    row, saved = run("mlp:" + "-".join(map(str, sizes)), sizes, master, samples, *rest[:4],
                     *(("--clip", most) if most else ()))
    first, wanted = named(master), named(last)
    off = apart(saved, wanted, first)
    expect(off < CLOSE, f"{kind}: parameters are {off:.1e} of their way apart")
    for step, (got, want) in enumerate(zip(row["train"]["losses"], losses)):
        expect(abs(got - want) < 1e-6 * want, f"{kind}: loss {got} of step {step} is not {want}")


# ---- Exact ------------------------------------------------------------------------------------

def exact(model, layers, kind, lr, sizes, count, batch, steps, others=(), layouts=(), how=Exact()):
    """`sizes`: of the batch and of dense layers, all of one size but the last. `others`: other ways to compute, which must
    show. `layouts`: options of strategies; with another `how`, the first has it, too."""
    def draw(numbers):
        value = lambda most, one: numbers.randint(-most, most) * one
        return ([([[value(700, 1 / 32) for _ in range(n)] for _ in range(m)], [value(700, 1 / 4) for _ in range(m)])
                 for n, m in zip(sizes, sizes[1:])],
                [([value(600, 1 / 64) for _ in range(sizes[0])], numbers.randrange(sizes[-1])) for _ in range(count)])

    rest = (batch, steps, kind, lr)
    different = lambda master, samples, last: all(
        named(train(other, layers, master, samples, *rest)[1]) != named(last) for other in others)
    master, samples, losses, last = first_fit(draw, different, how, layers, *rest)
    row, saved = run(model, sizes, master, samples, *rest, *(layouts[0].split() if how.slices > 1 else ()))
    for name, values in named(last).items():
        for e, (got, want) in enumerate(zip(saved[name], values)):
            expect(bits(got) == bits(want), f"{model}, {kind}: {name}, element {e} is {got}, not {want}")
    expect(row["train"]["losses"] == losses, f"{model}, {kind}: losses {row['train']['losses']}, not {losses}")
    for layout in layouts:  # where sums are exact their order does not matter
        _, other = run(model, sizes, master, samples, *rest, *layout.split())
        expect(other == saved, f"{model}, {kind}: {layout} has other parameters")


def main():
    for given, rounded in (257.0, 256.0), (259.0, 260.0), (383.0, 384.0), (-0.1, -0.10009765625), (2.0 ** -133,) * 2:
        expect(nearest(given) == rounded, f"rounds {given} to {nearest(given)}")
    for kind, lr in ("sgd", 0.5), ("momentum:0.9", 0.25), ("adam", 0.01), ("adamw", 0.01):
        close(kind, lr, (5, 6, 4), 7, 3, 3)
    close("sgd", 0.5, (4, 5, 4, 3), 5, 2, 3)
    close("sgd", 0.5, (5, 6, 4), 7, 3, 3, 0.25)
    for kind, lr in ("sgd", 1 / 8), ("momentum:0.5", 1 / 4):
        exact("mlp:3-3-3", perceptron(2), kind, lr, (3, 3, 3), 5, 2, 3, layouts=[
            "--strategy single --reduce exact", "--strategy mirrored --devices 2", "--strategy zero --devices 2 --zero-stage 3",
            "--strategy zero --devices 2 --zero-stage 1 --reduce exact",
            "--strategy pipeline --devices 2 --pipeline-microbatches 2"])
    with open(os.path.join(FOLDER, "residual.yaml"), "w", encoding="utf-8") as text:
        text.write("data: synthetic\ninput: [3]\nlayers:\n- dense: 3\n- relu\n- dense: 3\n- add: relu0\n- dense: 3\n- add: relu0\n- dense: 3\n"
                   "- softmax_cross_entropy\n")
    exact("graph:residual.yaml", RESIDUAL, "sgd", 1 / 64, (3, 3, 3, 3, 3), 5, 2, 2,
          [Exact("rounded once"), Exact("in the order of forward passes"), Exact("rounded in sums alone")])
    # Slices of layers: float32 partial sums give the bits of whole layers; in fast mode a place's are rounded.
    four = ("mlp:4-4-4-4-3", perceptron(4), "sgd", 1 / 64, (4, 4, 4, 4, 3), 5, 2, 2)
    exact(*four, others=[Exact(slices=2)], layouts=[
        "--strategy single --reduce exact --micro-splits 2",
        "--strategy tensor-parallel --devices 2 --reduce exact --micro-splits 4"])
    exact(*four, others=[Exact()], layouts=["--strategy tensor-parallel --devices 2"], how=Exact(slices=2))
    print(f"{checks} checks passed")


if __name__ == "__main__":
    main()
