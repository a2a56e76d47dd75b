# SPDX-License-Identifier: MIT
"""The models that the peers train: parameters, optimizer, data. Independent of any framework.

Parameters are a list of numpy arrays in the order of SHAPES, named and laid out as in the files of
`lockstep run --save`. Data other than Fashion-MNIST is generated here, written once as safetensors and read by
lockstep (--data file:PATH) and by the peers.
"""

import gzip
import os
import struct

try:
    import numpy as np
except ImportError:  # the tables of a file of rounds need no arrays
    np = None

import tensors as files

FASHION_MNIST = os.environ.get("LOCKSTEP_FASHION_MNIST", "/usr/share/datasets/fashion-mnist")
BATCHES = 20  # at most; fewer where the file has fewer samples, and then again from the first
STEPS, BYTES, STACK_UNITS = 140, 256, 64  # of the LSTM models
LRN_RADIUS, LRN_ALPHA = 4, 0.001 / 9
CIFAR_DECAY, RESNET_DECAY = 0.004, 1e-4
BN_EPSILON = 1e-5
# optimizer, learning rate
TRAINING = {
    "mlp": ("adam", 1e-3), "poly": ("adam", 0.1), "cnn": ("adam", 1e-3), "cifar10": ("sgd", 0.1),
    "twin-lstm": ("rmsprop", 1e-3), "lstm-stack": ("rmsprop", 1e-3), "resnet": ("momentum", 0.1),
    "gpt": ("adamw", 6e-4),
}
ADAMW = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "decay": 0.1}  # decay of what has two axes
ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
RMSPROP = {"rho": 0.9, "eps": 1e-7}
MOMENTUM = 0.9
# options of lockstep for what PyTorch alone does here; the schedule is cosine, to the last step
SCHEDULED = ("gradient-accumulation-steps", "lr-schedule", "lr-warmup-steps", "min-lr", "steps")
SAMPLES = {"poly": 10000, "cifar10": 2560, "twin-lstm": 256, "lstm-stack": 256, "resnet": 2560,
           "gpt": 320}
GPT = "4-4-128-128-256"  # blocks, heads, width, positions, tokens
SIDES = {"cifar10": 24, "resnet": 32}  # of the images that are made here


def parse_model(text):
    """'mlp', 'mlp:784-300-10', 'poly', 'twin-lstm:64', ... -> (kind, sizes)."""
    kind, _, sizes = text.partition(":")
    if kind not in TRAINING:
        raise ValueError(f"model: {text}: unknown; valid: {', '.join(TRAINING)}")
    default = {
        "mlp": "784-128-10", "poly": "3-1", "twin-lstm": "64", "lstm-stack": "4", "resnet": "20",
        "gpt": GPT,
    }
    numbers = [int(n) for n in (sizes or default.get(kind, "0")).split("-")]
    if kind == "gpt":
        numbers += [int(n) for n in GPT.split("-")][len(numbers):]
    return kind, numbers


def chosen(cases, kinds):
    """The cases (whose first item is a model) of these kinds; all if None."""
    return [case for case in cases if not kinds or parse_model(case[0])[0] in kinds]


def dense(index, fan_in, fan_out, bias=True):
    """Names and shapes of a dense layer."""
    weight = (f"dense{index}.weight", (fan_out, fan_in))
    return [weight, (f"dense{index}.bias", (fan_out,))] if bias else [weight]


def conv(index, channels, units, side, bias=True):
    """Names and shapes of a convolution."""
    weight = (f"conv{index}.weight", (units, channels, side, side))
    return [weight, (f"conv{index}.bias", (units,))] if bias else [weight]


def resnet_units(layers):
    """[(channels in, channels out, stride)] of a residual network's convolutions; each has batch
    normalisation, and from the second on two are a block."""
    units = [(3, 16, 1)]
    for stage in range(3):
        for block in range((layers - 2) // 6):
            width, first = 16 << stage, stage > 0 and block == 0
            units += [(width // 2 if first else width, width, 2 if first else 1), (width, width, 1)]
    return units


def residual(layers):
    """Names and shapes of a residual network."""
    parts = []
    for i, (channels, units, _) in enumerate(resnet_units(layers)):
        parts += conv(i, channels, units, 3, False)
        parts += [(f"bn{i}.{name}", (units,)) for name in ("weight", "bias", "mean", "variance")]
    return parts + dense(0, 64, 10)


def lstm(index, inputs, units):
    """Names and shapes of an LSTM."""
    return [
        (f"lstm{index}.weight_ih", (4 * units, inputs)),
        (f"lstm{index}.weight_hh", (4 * units, units)), (f"lstm{index}.bias", (4 * units,)),
    ]


def decoder(blocks, width, positions, tokens):
    """Names and shapes of GPT-2's decoder, weights [in, out], as Hugging Face's files have them."""
    def norm(name):
        return [(f"{name}.weight", (width,)), (f"{name}.bias", (width,))]

    def projection(name, inputs, outputs):
        return [(f"{name}.weight", (inputs, outputs)), (f"{name}.bias", (outputs,))]

    parts = [("wte.weight", (tokens, width)), ("wpe.weight", (positions, width))]
    for i in range(blocks):
        parts += norm(f"h.{i}.ln_1") + projection(f"h.{i}.attn.c_attn", width, 3 * width)
        parts += projection(f"h.{i}.attn.c_proj", width, width)
        parts += norm(f"h.{i}.ln_2") + projection(f"h.{i}.mlp.c_fc", width, 4 * width)
        parts += projection(f"h.{i}.mlp.c_proj", 4 * width, width)
    return parts + norm("ln_f")


def shapes(kind, sizes):
    """[(name, shape)] of the parameters, moving statistics included."""
    if kind == "gpt":
        return decoder(sizes[0], *sizes[2:])
    if kind == "resnet":
        return residual(sizes[0])
    if kind in ("mlp", "poly"):
        layers = enumerate(zip(sizes[:-1], sizes[1:]))
        return [part for i, (a, b) in layers for part in dense(i, a, b, kind == "mlp")]
    if kind == "cnn":
        return conv(0, 1, 32, 3) + dense(0, 32, 10)
    if kind == "cifar10":
        dense_layers = dense(0, 2304, 384) + dense(1, 384, 192) + dense(2, 192, 10)
        return conv(0, 3, 64, 5) + conv(1, 64, 64, 5) + dense_layers
    if kind == "twin-lstm":
        return lstm(0, BYTES, sizes[0]) + dense(0, 2 * sizes[0], 1)
    stack = [lstm(i, STACK_UNITS if i else BYTES, STACK_UNITS) for i in range(sizes[0])]
    return sum(stack, []) + dense(0, STACK_UNITS, 1)


def load_file(path):
    """{name: array} of a file of tensors."""
    return {name: np.frombuffer(data, "<f4").reshape(shape).copy()
            for name, (shape, data) in files.read(path).items()}


def save_file(tensors, path):
    """Writes {name: array}, as float32."""
    files.write(path, {name: (value.shape, value.astype("<f4").tobytes())
                       for name, value in tensors.items()})


def load_values(path, kind, sizes):
    """The trained parameters of a safetensors file as numpy arrays. Moving statistics, which no
    loss depends on, are left out."""
    tensors = load_file(path)
    values = [(name, take(tensors, name, shape)) for name, shape in shapes(kind, sizes)]
    if tensors:
        raise ValueError(f"init: {path}: unexpected tensors {sorted(tensors)}")
    return [value for name, value in values if not name.endswith((".mean", ".variance"))]


def take(tensors, name, shape):
    """Removes one float32 tensor of the given shape from the dictionary and returns it."""
    tensor = tensors.pop(name)
    if tensor.shape != shape or tensor.dtype != np.float32:
        raise ValueError(f"init: {name}: {tensor.dtype}{tensor.shape}, expected float32{shape}")
    return tensor


def inputs_first(kind, values):
    """The values laid out for TensorFlow and JAX: dense and LSTM weights [in, out], convolutions
    [height, width, in, out], the inputs of a dense layer after an image channels last."""
    if kind == "gpt":  # as they are
        return values
    out = []
    for value in values:
        if kind == "cifar10" and value.shape == (384, 2304):
            value = value.reshape(384, 64, 6, 6).transpose(0, 2, 3, 1).reshape(384, 2304)
        out.append(value.transpose(2, 3, 1, 0) if value.ndim == 4 else value.T)
    return out


def steps_first(x):
    """Windows with the step first, those of two inputs in one batch: [B,T,I] or [2,B,T,I] ->
    [T,B,I] or [T,2B,I]"""
    return np.ascontiguousarray(x.reshape(-1, *x.shape[-2:]).transpose(1, 0, 2))


def channels_band(channels):
    """[channels, channels]: 1 where two channels are in each other's LRN, else 0."""
    at = np.arange(channels)
    return (np.abs(at[:, None] - at[None, :]) <= LRN_RADIUS).astype(np.float32)


# ---- Data ---------------------------------------------------------------------------------------


def read_idx(path):
    """A gzipped IDX file of unsigned bytes as a numpy array."""
    with gzip.open(path, "rb") as stream:
        content = stream.read()
    zero, kind, rank = struct.unpack_from(">HBB", content)
    if zero != 0 or kind != 8:
        raise ValueError(f"data: {path}: not an IDX file of bytes")
    shape = struct.unpack_from(f">{rank}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def read_images(count):
    """Fashion-MNIST's first images [count,28,28] and labels."""
    images = read_idx(f"{FASHION_MNIST}/train-images-idx3-ubyte.gz")[:count]
    labels = read_idx(f"{FASHION_MNIST}/train-labels-idx1-ubyte.gz")[:count]
    return images.astype(np.float32) / np.float32(255), labels.astype(np.int32)


def make_batches(kind, batch, data):
    """[(x, y)] in file order: step t takes samples t*B to t*B+B-1. x: mlp [B,784]; poly [B,3];
    images [B,channels,height,width]; twin-lstm [2,B,140,256]; lstm-stack [B,140,256]; gpt [B,T],
    int32, as y."""
    if kind in ("mlp", "cnn"):
        x, y = read_images(BATCHES * batch)
        whole = len(y) // batch * batch  # gpu.py's large batches
        x, y = x[:whole], y[:whole]
        x = x.reshape(len(x), -1) if kind == "mlp" else x[:, None]
    else:
        tensors = load_file(data)
        x, y = tensors["x0"], tensors["y"]
        x = poly_features(x) if kind == "poly" else x
        y = y.astype(np.int32) if kind in SIDES or kind == "gpt" else y
        x = x.astype(np.int32) if kind == "gpt" else x
    count = min(BATCHES, len(y) // batch)
    if count < BATCHES and count * batch != len(y):
        raise ValueError(f"data: {len(y)} samples are not a multiple of the batch {batch}")
    starts = [t * batch for t in range(count)]
    if kind == "twin-lstm":
        other = tensors["x1"]
        return [
            (np.stack([x[s : s + batch], other[s : s + batch]]), y[s : s + batch]) for s in starts
        ]
    return [(x[s : s + batch], y[s : s + batch]) for s in starts]


def poly_features(x):
    """[N,1] -> [N,3]: (x^2, x, 1)."""
    return np.ascontiguousarray(np.concatenate([x * x, x, np.ones_like(x)], axis=1))


def write_data(kind, sizes, path):
    """Samples of a model that Fashion-MNIST does not fit, for the peers and for lockstep."""
    random = np.random.default_rng(1)
    count = SAMPLES[kind]
    if kind == "poly":
        x = random.uniform(-10, 10, (count, 1)).astype(np.float32)
        tensors = {"x0": x, "y": (np.float32(5) * x * x + np.float32(3))[:, 0]}
    elif kind == "gpt":  # each token but a few is a function of the one before
        _, _, _, positions, tokens = sizes
        text = random.integers(0, tokens, (count, positions + 1))
        for t in range(positions):
            follows = random.random(count) < 0.75
            text[follows, t + 1] = (5 * text[follows, t] + 7) % tokens
        tensors = {"x0": text[:, :-1].astype(np.float32), "y": text[:, 1:].astype(np.float32)}
    elif kind in SIDES:
        image = (3, SIDES[kind], SIDES[kind])
        y = random.integers(0, 10, count)
        classes = random.standard_normal((10, *image), np.float32)
        x = random.standard_normal((count, *image), np.float32) + classes[y]
        x -= x.mean((1, 2, 3), keepdims=True)  # as lockstep makes CIFAR-10's images
        x /= x.std((1, 2, 3), keepdims=True)
        tensors = {"x0": x, "y": y.astype(np.float32)}
    else:
        tensors = text_windows(random, count, 2 if kind == "twin-lstm" else 1)
    save_file(tensors, path)


def text_windows(random, count, inputs):
    """One-hot windows of two languages, each a distribution of bytes. y: whether two windows are of
    one language, or which language a window is of."""
    languages = random.dirichlet(np.full(BYTES, 0.1), 2)
    which = random.integers(0, 2, (inputs, count))
    tensors = {}
    for i in range(inputs):
        text = np.stack([random.choice(BYTES, STEPS, p=languages[w]) for w in which[i]])
        tensors[f"x{i}"] = np.eye(BYTES, dtype=np.float32)[text]
    y = which[0] == which[1] if inputs == 2 else which[0] == 1
    return tensors | {"y": y.astype(np.float32)}
