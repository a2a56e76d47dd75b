# SPDX-License-Identifier: MIT
"""Computes the arithmetic that the command-line page defines again, without sharing code with the
program: perceptron, polynomial and shared LSTM, forward and backward, the four optimizers, in
Python's float64 from the same data and initial values (from --save).

Compares the losses of every step and the final parameters; also the initial values with their
limits, pixels / 255, the batches of steps and of epochs in file order, exact and fast mode, test
accuracy. Leaves out shuffled orders (not reproducible by another program) and speed.

Usage: test_arithmetic.py LOCKSTEP FOLDER
"""
import gzip
import json
import math
import os
import random
import struct
import subprocess
import sys

LOSS_TOLERANCE = 1e-5       # of a step's loss, relative
PARAMETER_TOLERANCE = 2e-5  # of a tensor: ||a - b|| / ||b||
EXACT_TOLERANCE = 1e-5      # exact against fast mode, losses, relative

PROGRAM, FOLDER = sys.argv[1:3]
failures = []
checks = 0


def expect(condition, what):
    global checks
    checks += 1
    if not condition:
        failures.append(what)
        print("FAILED:", what)


# ---- Files ------------------------------------------------------------------------------------

def path_of(name):
    return os.path.join(FOLDER, name)


def flat(values):
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


def shape_of(values):
    return [len(values)] + shape_of(values[0]) if isinstance(values, list) else []


def write_tensors(name, tensors):
    """A safetensors file of float32 tensors, given as nested lists."""
    header, body = {}, b""
    for key, values in tensors.items():
        numbers = flat(values)
        data = struct.pack("<%df" % len(numbers), *numbers)
        header[key] = {"dtype": "F32", "shape": shape_of(values),
                       "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path_of(name), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + body)


def nest(numbers, shape):
    if len(shape) <= 1:
        return numbers
    size = len(numbers) // shape[0]
    return [nest(numbers[i * size:(i + 1) * size], shape[1:]) for i in range(shape[0])]


def read_tensors(name):
    with open(path_of(name), "rb") as file:
        data = file.read()
    size = struct.unpack_from("<Q", data)[0]
    tensors = {}
    for key, entry in json.loads(data[8:8 + size]).items():
        if key == "__metadata__":
            continue
        expect(entry["dtype"] == "F32", f"{name}: {key} is {entry['dtype']}")
        begin, end = entry["data_offsets"]
        numbers = list(struct.unpack("<%df" % ((end - begin) // 4), data[8 + size + begin:8 + size
                + end]))
        expect(len(numbers) == math.prod(entry["shape"]), f"{name}: {key} does not fill its shape")
        tensors[key] = nest(numbers, entry["shape"])
    return tensors


def write_idx(name, values, compressed):
    """Bytes as an IDX file: a list (labels) or a list of images, lists of rows."""
    shape = shape_of(values)
    data = struct.pack(">BBBB", 0, 0, 8, len(shape)) + struct.pack(">%dI" % len(shape), *shape)
    data += bytes(flat(values))
    with open(path_of(name), "wb") as out:
        out.write(gzip.compress(data) if compressed else data)


# ---- The program ------------------------------------------------------------------------------

def run(*options):
    """One row of `lockstep run`."""
    command = [PROGRAM, "run", "--results", "none", "--format", "jsonl", *map(str, options)]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=50)
    if done.returncode != 0:
        said = done.stderr or done.stdout
        sys.exit(f"FAILED: {' '.join(command)}: status {done.returncode}: {said}")
    with open(os.path.join(FOLDER, "every.rows"), "a", encoding="utf-8") as rows:
        rows.write(done.stdout)
    return json.loads(done.stdout)


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


# ---- The model of it --------------------------------------------------------------------------

def optimizer(kind, lr, mu=0.9, beta1=0.9, beta2=0.999, rho=0.9):
    """A function of parameters and gradients (flat lists) that updates the parameters."""
    first, second, steps = [], [], [0]

    def update(w, g):
        if not first:
            first.extend([0.0] * len(w))
            second.extend([0.0] * len(w))
        steps[0] += 1
        for i, gi in enumerate(g):
            if kind == "sgd":
                w[i] -= lr * gi
            elif kind == "momentum":
                first[i] = mu * first[i] + gi
                w[i] -= lr * first[i]
            elif kind == "rmsprop":
                second[i] = rho * second[i] + (1 - rho) * gi * gi
                w[i] -= lr * gi / (math.sqrt(second[i]) + 1e-7)
            else:
                first[i] = beta1 * first[i] + (1 - beta1) * gi
                second[i] = beta2 * second[i] + (1 - beta2) * gi * gi
                mhat = first[i] / (1 - beta1 ** steps[0])
                vhat = second[i] / (1 - beta2 ** steps[0])
                w[i] -= lr * mhat / (math.sqrt(vhat) + 1e-8)
    return update


def sizes_of(tensors):
    layers = sum(key.endswith(".weight") for key in tensors)
    return [len(tensors["dense0.weight"][0])] + [len(tensors[f"dense{k}.weight"]) for k in
            range(layers)]


def join(tensors):
    """Layer after layer: the weights [out,in], the biases."""
    w = []
    for k in range(len(sizes_of(tensors)) - 1):
        w += flat(tensors[f"dense{k}.weight"]) + flat(tensors[f"dense{k}.bias"])
    return w


def outputs(w, sizes, x):
    """Each layer's output for one sample, after the sample itself."""
    values, at = [x], 0
    for k, (inputs, units) in enumerate(zip(sizes, sizes[1:])):
        y = []
        for o in range(units):
            row = w[at + o * inputs:at + (o + 1) * inputs]
            y.append(sum(a * b for a, b in zip(row, values[-1])) + w[at + units * inputs + o])
        at += units * (inputs + 1)
        values.append([max(v, 0.0) for v in y] if k < len(sizes) - 2 else y)
    return values


def perceptron_step(w, sizes, batch):
    """Mean softmax cross-entropy over (x, label) pairs, and its gradient."""
    gradient, loss = [0.0] * len(w), 0.0
    for x, label in batch:
        values = outputs(w, sizes, x)
        top = max(values[-1])
        total = sum(math.exp(v - top) for v in values[-1])
        loss += math.log(total) + top - values[-1][label]
        delta = [math.exp(v - top) / total - (o == label) for o, v in enumerate(values[-1])]
        at = len(w)
        for k in range(len(sizes) - 2, -1, -1):
            inputs, units = sizes[k], sizes[k + 1]
            at -= units * (inputs + 1)
            below = [0.0] * inputs
            for o in range(units):
                if delta[o] == 0:
                    continue
                base = at + o * inputs
                for i, v in enumerate(values[k]):
                    gradient[base + i] += delta[o] * v
                    below[i] += delta[o] * w[base + i]
                gradient[at + units * inputs + o] += delta[o]
            delta = [b if v > 0 else 0.0 for b, v in zip(below, values[k])]
    return loss / len(batch), [g / len(batch) for g in gradient]


def polynomial_step(w, _, batch):
    """Mean of (w . (x^2, x, 1) - y)^2 over (x, y) pairs, and its gradient."""
    gradient, loss = [0.0] * 3, 0.0
    for x, y in batch:
        features = (x * x, x, 1.0)
        error = sum(a * b for a, b in zip(w, features)) - y
        loss += error * error
        for i in range(3):
            gradient[i] += 2 * error * features[i]
    return loss / len(batch), [g / len(batch) for g in gradient]


def twin_loss(w, sizes, batch):
    """Mean logistic loss of twin-lstm: gates i, f, g, o; encodings of x0, then of x1."""
    parts, at = {}, 0
    for key, shape in sizes:
        parts[key] = nest(w[at:at + math.prod(shape)], shape)
        at += math.prod(shape)
    input_weights, state_weights = parts["lstm0.weight_ih"], parts["lstm0.weight_hh"]
    units = len(state_weights[0])
    sigmoid = lambda x: 1 / (1 + math.exp(-x))

    def encode(sequence):
        h, c = [0.0] * units, [0.0] * units
        for x in sequence:
            gates = [b + sum(map(float.__mul__, u, x)) + sum(map(float.__mul__, v, h))
                     for u, v, b in zip(input_weights, state_weights, parts["lstm0.bias"])]
            for k in range(units):
                i, f, g, o = gates[k::units]
                c[k] = sigmoid(f) * c[k] + sigmoid(i) * math.tanh(g)
                gates[k] = sigmoid(o) * math.tanh(c[k])
            h = gates[:units]
        return h
    total = 0
    for (first, second), y in batch:
        both = encode(first) + encode(second)
        z = sum(map(float.__mul__, parts["dense0.weight"][0], both)) + parts["dense0.bias"][0]
        total += math.log1p(math.exp(-z)) + (1 - y) * z
    return total / len(batch)


def twin_step(w, sizes, batch):
    """Its loss, and its gradient by central differences."""
    gradient = []
    for i, value in enumerate(w):
        ends = [twin_loss(w[:i] + [value + d] + w[i + 1:], sizes, batch) for d in (1e-5, -1e-5)]
        gradient.append((ends[0] - ends[1]) / 2e-5)
    return twin_loss(w, sizes, batch), gradient


def batches_of_steps(samples, size, steps):
    return [[samples[(t * size + i) % len(samples)] for i in range(size)] for t in range(steps)]


def batches_of_epochs(samples, size, epochs):
    return [samples[i:i + size] for _ in range(epochs) for i in range(0, len(samples), size)]


def train(step, w, sizes, batches, update):
    losses = []
    for batch in batches:
        loss, gradient = step(w, sizes, batch)
        losses.append(loss)
        update(w, gradient)
    return losses


def compare(what, row, saved, losses, w):
    got = row["train"]["losses"]
    expect(len(got) == len(losses), f"{what}: {len(got)} losses, {len(losses)} steps")
    worst = max(abs(a - b) / abs(b) for a, b in zip(got, losses))
    at = max(range(len(got)), key=lambda t: abs(got[t] - losses[t]) / abs(losses[t]))
    expect(worst <= LOSS_TOLERANCE,
           f"{what}: loss of step {at} is {got[at]!r}, float64 says {losses[at]!r}")
    expect(row["train"]["loss_first"] == got[0] and row["train"]["loss_last"] == got[-1],
           f"{what}: loss_first and loss_last are not the first and last of losses")
    difference = math.dist(saved, w) / math.hypot(*w)
    expect(difference <= PARAMETER_TOLERANCE, f"{what}: parameters are {difference:.2g} off")


# ---- The tests --------------------------------------------------------------------------------

OPTIMIZERS = [("sgd", 0.2, {}), ("momentum:0.9", 0.05, {}), ("momentum:mu=0.5", 0.05, {"mu": 0.5}),
              ("adam", 0.01, {}), ("adam:beta1=0.8,beta2=0.99,eps=1e-8", 0.01, {"beta1": 0.8,
                      "beta2": 0.99}),
              ("rmsprop", 0.01, {}), ("rmsprop:rho=0.8", 0.01, {"rho": 0.8})]


def check_perceptron(rng):
    """mlp:6-5-4-3 on 23 samples of a file, B = 5: steps that wrap around, epochs, both modes."""
    labels = [rng.randrange(3) for _ in range(23)]
    inputs = [[float32(rng.uniform(-1, 1) + 0.5 * y) for _ in range(6)] for y in labels]
    write_tensors("samples.safetensors", {"x0": inputs, "y": [float(y) for y in labels]})
    samples = list(zip(inputs, labels))
    common = ["--model", "mlp:6-5-4-3", "--data", "file:samples.safetensors", "--batch", 5,
              "--shuffle", "no", "--warmup", 0, "--verbose"]
    for n, (name, lr, values) in enumerate(OPTIMIZERS):
        options = [*common, "--optimizer", name, "--lr", lr, "--seed", n + 1]
        run(*common, "--seed", n + 1, "--steps", 0, "--save", "initial")
        initial = read_tensors("initial")
        sizes = sizes_of(initial)
        expect(sizes == [6, 5, 4, 3], f"mlp:6-5-4-3 is saved with sizes {sizes}")
        fast = run(*options, "--steps", 20, "--save", "fast")
        w = join(initial)
        update = optimizer(name.split(":")[0], lr, **values)
        losses = train(perceptron_step, w, sizes, batches_of_steps(samples, 5, 20), update)
        compare(f"mlp, {name}", fast, join(read_tensors("fast")), losses, w)
        exact = run(*options, "--steps", 20, "--save", "exact", "--reduce", "exact",
                "--micro-shards", 3)
        compare(f"mlp, {name}, exact", exact, join(read_tensors("exact")), losses, w)
        expect(all(abs(a - b) <= EXACT_TOLERANCE * abs(b)
                   for a, b in zip(exact["train"]["losses"], fast["train"]["losses"])),
               f"mlp, {name}: exact and fast mode differ by more than rounding")
        # Three epochs of five batches, the last of three samples, divided by three.
        uneven = run(*options, "--epochs", 3, "--save", "uneven")
        expect(uneven["case"]["steps"] == 15,
                f"mlp, {name}: 3 epochs are {uneven['case']['steps']} steps")
        w = join(initial)
        update = optimizer(name.split(":")[0], lr, **values)
        losses = train(perceptron_step, w, sizes, batches_of_epochs(samples, 5, 3), update)
        compare(f"mlp, {name}, epochs", uneven, join(read_tensors("uneven")), losses, w)
        if n == 0:
            exact = run(*options, "--epochs", 3, "--save", "exact", "--reduce", "exact")
            compare("mlp, exact, epochs", exact, join(read_tensors("exact")), losses, w)
    # Warm-up steps train, too: the timed losses are those after them.
    whole = run(*common, "--steps", 12)["train"]
    rest = run(*[o if o != 0 else 7 for o in common], "--steps", 5)["train"]
    expect(rest["losses"] == whole["losses"][7:],
            "losses after a warm-up are not those of the same steps")
    expect(rest["loss_first"] == whole["losses"][0],
            "loss_first is not that of the first step trained")
    # A batch larger than N repeats samples.
    run(*common, "--steps", 0, "--save", "initial")
    big = [o if o != 5 else 50 for o in common]
    row = run(*big, "--steps", 4, "--optimizer", "sgd", "--lr", 0.1, "--save", "big")
    w = join(read_tensors("initial"))
    losses = train(perceptron_step, w, [6, 5, 4, 3], batches_of_steps(samples, 50, 4),
            optimizer("sgd", 0.1))
    compare("mlp, a batch above N", row, join(read_tensors("big")), losses, w)


def check_polynomial(rng):
    """poly on 17 samples of a file, B = 4, from the values of Python's own parameter file."""
    x = [float32(rng.uniform(-2, 2)) for _ in range(17)]
    y = [float32(5 * v * v + 3 + rng.uniform(-0.1, 0.1)) for v in x]
    write_tensors("curve.safetensors", {"x0": [[v] for v in x], "y": y})
    write_tensors("start.safetensors", {"dense0.weight": [[0.5, -0.25, 0.125]]})
    samples = list(zip(x, y))
    common = ["--model", "poly", "--data", "file:curve.safetensors", "--batch", 4, "--shuffle",
            "no",
              "--warmup", 0, "--verbose", "--load", "start.safetensors", "--save", "end"]
    for name, lr, values in OPTIMIZERS:
        for reduce in ("fast", "exact"):
            for length, batches in ((("--steps", 20), batches_of_steps(samples, 4, 20)),
                                    (("--epochs", 4), batches_of_epochs(samples, 4, 4))):
                lr = min(lr, 0.02)
                row = run(*common, *length, "--optimizer", name, "--lr", lr, "--reduce", reduce)
                w = [0.5, -0.25, 0.125]
                losses = train(polynomial_step, w, None, batches, optimizer(name.split(":")[0], lr,
                        **values))
                end = read_tensors("end")
                expect(shape_of(end["dense0.weight"]) == [1, 3], "poly's weight is not [1,3]")
                compare(f"poly, {name}, {reduce}, {length[0]}", row, flat(end["dense0.weight"]),
                        losses, w)


def check_twin(rng):
    """twin-lstm:2 on a file's own sequences of 3 steps of 4 values, 7 samples, B = 3."""
    samples = [([[[float32(rng.gauss(0, 1)) for _ in range(4)] for _ in range(3)]
                 for _ in range(2)], i % 2) for i in range(7)]
    write_tensors("twins.safetensors", {"x0": [x[0] for x, _ in samples],
                                        "x1": [x[1] for x, _ in samples],
                                        "y": [y for _, y in samples]})
    common = ["--model", "twin-lstm:2", "--data", "file:twins.safetensors", "--batch", 3,
              "--shuffle", "no", "--warmup", 0, "--verbose"]
    run(*common, "--steps", 0, "--save", "start")
    start = read_tensors("start")
    sizes = [(key, shape_of(values)) for key, values in start.items()]
    values_of = lambda tensors: [x for key, _ in sizes for x in flat(tensors[key])]
    for length, batches in ((("--steps", 6), batches_of_steps(samples, 3, 6)),
                            (("--epochs", 2), batches_of_epochs(samples, 3, 2))):
        row = run(*common, *length, "--optimizer", "sgd", "--lr", 0.3, "--load", "start",
                  "--save", "end")
        w = values_of(start)
        losses = train(twin_step, w, sizes, batches, optimizer("sgd", 0.3))
        compare(f"twin-lstm, {length[0]}", row, values_of(read_tensors("end")), losses, w)


def check_images(rng):
    """mnist:DIR made here, plain and gz: pixels / 255 and the accuracy on the test set."""
    def images(count):
        return [[[rng.randrange(256) if rng.random() < 0.3 else 0 for _ in range(28)] for _ in
                range(28)]
                for _ in range(count)]

    training, test = images(12), images(9)
    labels, test_labels = [rng.randrange(10) for _ in training], [rng.randrange(10) for _ in test]
    for folder, compressed in (("plain", False), ("packed", True)):
        os.mkdir(path_of(folder))
        end = ".gz" if compressed else ""
        write_idx(f"{folder}/train-images-idx3-ubyte{end}", training, compressed)
        write_idx(f"{folder}/train-labels-idx1-ubyte{end}", labels, compressed)
        write_idx(f"{folder}/t10k-images-idx3-ubyte{end}", test, compressed)
        write_idx(f"{folder}/t10k-labels-idx1-ubyte{end}", test_labels, compressed)
    common = ["--model", "mlp:784-4-10", "--batch", 4, "--shuffle", "no", "--warmup", 0,
            "--verbose"]
    run(*common, "--data", "mnist:plain", "--steps", 0, "--save", "initial")
    initial = read_tensors("initial")
    sizes = sizes_of(initial)
    pixels = [[float32(p / 255) for p in flat(image)] for image in training]
    w = join(initial)
    row = run(*common, "--data", "mnist:plain", "--steps", 8, "--save", "end")
    losses = train(perceptron_step, w, sizes, batches_of_steps(list(zip(pixels, labels)), 4, 8),
                   optimizer("adam", 0.001))
    end = join(read_tensors("end"))
    compare("mnist:DIR", row, end, losses, w)
    right = 0
    for image, label in zip(test, test_labels):
        scores = outputs(end, sizes, [float32(p / 255) for p in flat(image)])[-1]
        right += scores.index(max(scores)) == label
    expect(abs(row["train"]["accuracy"] - right / len(test)) < 1e-6,
           f"accuracy is {row['train']['accuracy']}, {right} of {len(test)} are right")
    packed = run(*common, "--data", "mnist:packed", "--steps", 8)
    expect(packed["equivalence"]["digest"] == row["equivalence"]["digest"],
            "gz files give other bits than plain ones")


def check_division(rng):
    """x / 255 in float32, bitwise: images and a file of the same values give the same digest."""
    values = list(range(256)) * 4
    images = [[values[28 * r + c:28 * r + c + 1][0] if 28 * r + c < 784 else 0 for c in range(28)]
              for r in range(28)]
    training = [images, [row[::-1] for row in images[::-1]], [[255 - p for p in row] for row in
            images]]
    os.mkdir(path_of("ramp"))
    write_idx("ramp/train-images-idx3-ubyte", training, False)
    write_idx("ramp/train-labels-idx1-ubyte", [3, 1, 7], False)
    write_idx("ramp/t10k-images-idx3-ubyte", training[:1], False)
    write_idx("ramp/t10k-labels-idx1-ubyte", [3], False)
    write_tensors("ramp.safetensors", {"x0": [[float32(p / 255) for p in flat(image)] for image in
            training],
                                       "y": [3.0, 1.0, 7.0]})
    common = ["--model", "mlp:784-6-10", "--batch", 2, "--shuffle", "no", "--steps", 6]
    digests = {data: run(*common, "--data", data)["equivalence"]["digest"]
               for data in ("mnist:ramp", "file:ramp.safetensors")}
    expect(len(set(digests.values())) == 1, f"pixels are not x / 255 in float32: {digests}")


def check_initial_values():
    """Names, shapes, limits, biases; different by seed and by tensor."""
    seen = {}
    for seed in (1, 2):
        run("--model", "mlp:40-30-20-7", "--data", "synthetic:20", "--steps", 0, "--warmup", 0,
            "--seed", seed, "--save", "initial")
        tensors = read_tensors("initial")
        shapes = {key: shape_of(values) for key, values in tensors.items()}
        expect(shapes == {"dense0.weight": [30, 40], "dense0.bias": [30], "dense1.weight": [20, 30],
                          "dense1.bias": [20], "dense2.weight": [7, 20], "dense2.bias": [7]},
               f"names and shapes of mlp:40-30-20-7 are {shapes}")
        for key, values in tensors.items():
            numbers = flat(values)
            if key.endswith(".bias"):
                expect(not any(numbers), f"{key} is not zero")
                continue
            limit = math.sqrt(6 / sum(shape_of(values)))
            expect(max(map(abs, numbers)) <= limit * (1 + 1e-6), f"{key} passes its limit {limit}")
            expect(max(numbers) > 0.9 * limit and min(numbers) < -0.9 * limit,
                    f"{key} does not fill its limit")
            expect(abs(sum(numbers) / len(numbers)) < 5 * limit / math.sqrt(3 * len(numbers)),
                    f"{key} is not centred")
            variance = sum(x * x for x in numbers) / len(numbers)
            expect(abs(variance / (limit * limit / 3) - 1) < 5 / math.sqrt(len(numbers)),
                    f"{key} is not uniform")
            expect(len(set(numbers)) > 0.99 * len(numbers), f"{key} repeats values")
        seen[seed] = tensors
    expect(seen[1]["dense0.weight"] != seen[2]["dense0.weight"],
            "seeds 1 and 2 give the same values")
    first = flat(seen[1]["dense0.weight"])[:100], flat(seen[1]["dense1.weight"])[:100]
    ratio = [a / b for a, b in zip(*first)]
    expect(max(ratio) - min(ratio) > 1e-3, "two tensors have the same values but for their limits")
    run("--model", "poly", "--steps", 0, "--warmup", 0, "--save", "initial")
    tensors = read_tensors("initial")
    expect({key: shape_of(v) for key, v in tensors.items()} == {"dense0.weight": [1, 3]},
            "poly is not dense0.weight [1,3]")
    expect(max(map(abs, flat(tensors["dense0.weight"]))) <= math.sqrt(6 / 4) * (1 + 1e-6),
            "poly's w passes its limit")


rng = random.Random(7)
check_initial_values()
check_perceptron(rng)
check_polynomial(rng)
check_twin(rng)
check_images(rng)
check_division(rng)
if failures:
    sys.exit(f"{len(failures)} of {checks} checks failed")
print(f"{checks} checks passed")
