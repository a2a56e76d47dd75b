# SPDX-License-Identifier: MIT
"""Computes GPT-2's decoder again, without sharing code with the program: forward, backward by differentiating the formulas
number by number, AdamW, in Python's float64 from the same data and initial values (--save).

Compares the losses of every step, the last parameters and the first gradients, except of the biases of keys: their
gradient is 0 but for rounding, which AdamW blows up. A gradient of the program is what a step of SGD takes off, at a
rate so large that the values it is taken off do not round it.

Usage: test_gpt.py LOCKSTEP FOLDER
"""
import json
import math
import os
import random
import struct
import subprocess
import sys

PROGRAM, FOLDER = sys.argv[1:3]
L, H, C, T, V = 2, 2, 4, 3, 5
SAMPLES, BATCH, STEPS = 4, 2, 3
RATE, BETA1, BETA2, EPS, DECAY = 0.01, 0.9, 0.95, 1e-8, 0.1
LARGE_RATE = 1000
LOSS_TOLERANCE, PARAMETER_TOLERANCE = 1e-6, 2e-5  # relative; of what a tensor has moved
GRADIENT_TOLERANCE = 1e-5  # of a tensor


def read(path):
    """{name: (shape, numbers)} of a safetensors file."""
    with open(path, "rb") as stream:
        raw = stream.read()
    size = struct.unpack_from("<Q", raw)[0]
    return {
        name: (entry["shape"], struct.unpack_from(
            f"<{(entry['data_offsets'][1] - entry['data_offsets'][0]) // 4}f", raw, 8 + size + entry["data_offsets"][0]))
        for name, entry in json.loads(raw[8 : 8 + size]).items() if name != "__metadata__"
    }


def write(path, tensors):
    """Writes {name: (shape, numbers)}."""
    header, body = {}, b""
    for name, (shape, numbers) in tensors.items():
        data = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + body)


class Number:
    """A number that knows what it was made of: [(number, derivative)]."""

    __slots__ = ("value", "of", "gradient")

    def __init__(self, value, of=()):
        self.value, self.of, self.gradient = value, of, 0.0

    def __add__(self, other):
        other = other if isinstance(other, Number) else Number(other)
        return Number(self.value + other.value, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        other = other if isinstance(other, Number) else Number(other)
        return Number(self.value * other.value, ((self, other.value), (other, self.value)))

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other):
        return self + other * -1.0

    def apply(self, value, derivative):
        """A function of it."""
        return Number(value, ((self, derivative),))

    def exp(self):
        """e to its power."""
        return self.apply(math.exp(self.value), math.exp(self.value))

    def power(self, n):
        """Its n-th power."""
        return self.apply(self.value**n, n * self.value ** (n - 1))

    def backward(self):
        """Adds its derivative to the gradient of everything that it was made of."""
        order, seen, stack = [], set(), [(self, False)]
        while stack:
            number, done = stack.pop()
            if done:
                order.append(number)
            elif id(number) not in seen:
                seen.add(id(number))
                stack.append((number, True))
                stack += [(part, False) for part, _ in number.of]
        self.gradient = 1.0
        for number in reversed(order):
            for part, derivative in number.of:
                part.gradient += derivative * number.gradient


def dot(a, b):
    return sum((x * y for x, y in zip(a, b)), Number(0.0))


def linear(x, weight, bias):
    """weight: [in][out]"""
    return [dot(x, [row[o] for row in weight]) + bias[o] for o in range(len(bias))]


def norm(x, weight, bias):
    mean = sum(x, Number(0.0)) * (1 / C)
    off = [v - mean for v in x]
    rate = (dot(off, off) * (1 / C) + 1e-5).power(-0.5)
    return [v * rate * w + b for v, w, b in zip(off, weight, bias)]


def gelu(x):
    u = (x + 0.044715 * x.power(3)) * math.sqrt(2 / math.pi)
    t = math.tanh(u.value)
    return 0.5 * x * (u.apply(t, 1 - t * t) + 1.0)


def softmax(scores):
    parts = [s.exp() for s in scores]
    total = sum(parts, Number(0.0)).power(-1)
    return [p * total for p in parts]


def attention(rows):
    """rows: q, k, v of each position."""
    d, out = C // H, [[] for _ in rows]
    for h in range(H):
        q, k, v = ([r[part * C + h * d : part * C + (h + 1) * d] for r in rows] for part in range(3))
        for p, query in enumerate(q):
            share = softmax([dot(query, key) * (1 / math.sqrt(d)) for key in k[: p + 1]])
            out[p] += [dot(share, [value[i] for value in v[: p + 1]]) for i in range(d)]
    return out


def loss_of(weights, tokens, targets):
    """The sum of a sample's losses over its positions."""
    x = [[a + b for a, b in zip(weights["wte.weight"][t], weights["wpe.weight"][p])] for p, t in enumerate(tokens)]
    for i in range(L):
        def get(name, block=i):
            return weights[f"h.{block}.{name}.weight"], weights[f"h.{block}.{name}.bias"]
        y = attention([linear(norm(r, *get("ln_1")), *get("attn.c_attn")) for r in x])
        x = [[a + b for a, b in zip(r, linear(z, *get("attn.c_proj")))] for r, z in zip(x, y)]
        y = [[gelu(v) for v in linear(norm(r, *get("ln_2")), *get("mlp.c_fc"))] for r in x]
        x = [[a + b for a, b in zip(r, linear(z, *get("mlp.c_proj")))] for r, z in zip(x, y)]
    total = Number(0.0)
    for row, target in zip(x, targets):
        row = norm(row, weights["ln_f.weight"], weights["ln_f.bias"])
        share = softmax([dot(row, token) for token in weights["wte.weight"]])[target]
        total = total + share.apply(-math.log(share.value), -1 / share.value)
    return total


def flat(values):
    return [v for row in values for v in (row if isinstance(row, list) else [row])]


def train(initial, samples):
    """Losses, the last parameters as {name: numbers}, and the first gradients."""
    weights = {}
    for name, (shape, numbers) in initial.items():
        numbers = [Number(v) for v in numbers]
        weights[name] = numbers if len(shape) == 1 else [
            numbers[i : i + shape[1]] for i in range(0, len(numbers), shape[1])]
    state = {name: [[0.0, 0.0] for _ in flat(w)] for name, w in weights.items()}
    losses, gradients = [], None
    for step in range(1, STEPS + 1):
        chosen = [samples[((step - 1) * BATCH + i) % SAMPLES] for i in range(BATCH)]
        loss = sum((loss_of(weights, *s) for s in chosen), Number(0.0)) * (1 / (BATCH * T))
        loss.backward()
        losses.append(loss.value)
        gradients = gradients or {name: [n.gradient for n in flat(w)] for name, w in weights.items()}
        for name, w in weights.items():
            decay = DECAY if isinstance(w[0], list) else 0.0
            for number, s in zip(flat(w), state[name]):
                s[0] = BETA1 * s[0] + (1 - BETA1) * number.gradient
                s[1] = BETA2 * s[1] + (1 - BETA2) * number.gradient**2
                first, second = s[0] / (1 - BETA1**step), s[1] / (1 - BETA2**step)
                number.value -= RATE * (first / (math.sqrt(second) + EPS) + decay * number.value)
                number.gradient = 0.0
    return losses, {name: [n.value for n in flat(w)] for name, w in weights.items()}, gradients


def far(name, pairs):
    """||a - b|| / ||b|| of a tensor's pairs of numbers, without the biases of keys."""
    keys = range(C, 2 * C) if name.endswith("c_attn.bias") else ()
    kept = [pair for i, pair in enumerate(pairs) if i not in keys]
    return math.sqrt(sum((a - b) ** 2 for a, b in kept)) / math.sqrt(sum(b**2 for _, b in kept))


def main():
    """Compares both; the exit status says whether they agree."""
    os.chdir(FOLDER)
    random.seed(3)
    tokens = [[random.randrange(V) for _ in range(T + 1)] for _ in range(SAMPLES)]
    samples = [(t[:-1], t[1:]) for t in tokens]
    write("tokens.safetensors", {
        "x0": ([SAMPLES, T], [t for x, _ in samples for t in x]), "y": ([SAMPLES, T], [t for _, y in samples for t in y])})
    command = [PROGRAM, "run", "--model", f"gpt:{L}-{H}-{C}-{T}-{V}", "--data", "file:tokens.safetensors", "--shuffle", "no",
               "--batch", str(BATCH), "--warmup", "0", "--gate-steps", "0", "--results", "none", "--format", "jsonl"]
    subprocess.run([*command, "--steps", "0", "--save", "small.safetensors"], check=True, stdout=subprocess.DEVNULL)
    initial = read("small.safetensors")
    shapes = {name: shape for name, (shape, _) in initial.items()}
    assert shapes["wte.weight"] == [V, C] and shapes["h.1.attn.c_attn.weight"] == [C, 3 * C], shapes
    assert shapes["h.0.mlp.c_proj.weight"] == [4 * C, C] and len(shapes) == 2 + 12 * L + 2, shapes
    larger = {name: (shape, [20 * v if len(shape) > 1 else v for v in numbers]) for name, (shape, numbers) in initial.items()}
    write("first.safetensors", larger)
    done = subprocess.run([*command, "--steps", str(STEPS), "--lr", str(RATE), "--verbose", "--load", "first.safetensors",
                           "--save", "last.safetensors"], check=True, stdout=subprocess.PIPE)
    ours = json.loads(done.stdout)["train"]["losses"]
    larger = read("first.safetensors")
    subprocess.run([*command, "--steps", "1", "--optimizer", "sgd", "--lr", str(LARGE_RATE), "--load", "first.safetensors",
                    "--save", "off.safetensors"], check=True, stdout=subprocess.DEVNULL)
    losses, last, gradients = train(larger, samples)
    failed = [f"losses {ours} and {losses}"] if any(
        abs(a - b) > LOSS_TOLERANCE * b for a, b in zip(ours, losses, strict=True)) else []
    taken = read("off.safetensors")
    for name, (_, numbers) in read("last.safetensors").items():
        first = larger[name][1]
        off = far(name, [(a - c, b - c) for a, b, c in zip(numbers, last[name], first)])
        failed += [f"{name} is off by {off:.1e}"] if off > PARAMETER_TOLERANCE else []
        off = far(name, [((c - a) / LARGE_RATE, b) for a, b, c in zip(taken[name][1], gradients[name], first)])
        failed += [f"the gradient of {name} is off by {off:.1e}"] if not off <= GRADIENT_TOLERANCE else []
    for line in failed:
        print("FAILED:", line)
    print(f"{STEPS} losses, {len(last)} tensors and their gradients compared")
    sys.exit(bool(failed))


main()
