# SPDX-License-Identifier: MIT
"""The models in JAX: losses of the parameters laid out by models.inputs_first, of mlp and poly as
in the files. LSTM steps are a scan, some unrolled in each turn."""

import jax
import jax.numpy as jnp
import numpy as np

import models

UNROLL = 10


def layout(case):
    """The batches as the losses take them."""
    if case.kind in ("cnn", *models.SIDES):
        return [(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), y) for x, y in case.batches]
    if case.kind in ("twin-lstm", "lstm-stack"):
        return [(models.steps_first(x), y) for x, y in case.batches]
    return case.batches


def values_of(case, values):
    """The parameters as the losses take them."""
    return values if case.kind in ("mlp", "poly") else models.inputs_first(case.kind, values)


def cross_entropy(logits, y):
    """The mean over the batch, in float32."""
    logits = logits.astype(jnp.float32)
    picked = jnp.take_along_axis(logits, y[:, None], axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=1) - picked)


def poly(weights, x, y):
    """Mean squared error."""
    return jnp.mean(jnp.square((x @ weights[0].T)[:, 0] - y))


def mlp(weights, x, y):
    """Dense layers, weights [out, in]."""
    last = len(weights) - 2
    for i in range(0, len(weights), 2):
        x = x @ weights[i].T + weights[i + 1]
        x = jax.nn.relu(x) if i < last else x
    return cross_entropy(x, y)


def convolve(x, weight, padding, stride=1):
    """[B,H,W,C] and [height,width,in,out]."""
    names = ("NHWC", "HWIO", "NHWC")
    strides = (stride, stride)
    return jax.lax.conv_general_dilated(x, weight, strides, padding, dimension_numbers=names)


def cnn(weights, x, y):
    """Bias and ReLU after the pool, which is the same and less."""
    x = jnp.max(convolve(x, weights[0], "VALID"), axis=(1, 2))
    return cross_entropy(jax.nn.relu(x + weights[1]) @ weights[2] + weights[3], y)


def cifar10(weights, x, y):
    """The two-convolution tutorial model; LRN's sum over channels is a product with a band."""
    band = jnp.asarray(models.LRN_ALPHA * models.channels_band(64))

    def normalise(x):
        root = jax.lax.rsqrt(1 + (x * x) @ band)
        return x * root * jnp.sqrt(root)

    def pool(x):
        window = (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, *window)

    x = normalise(pool(jax.nn.relu(convolve(x, weights[0], "SAME") + weights[1])))
    x = pool(normalise(jax.nn.relu(convolve(x, weights[2], "SAME") + weights[3])))
    x = x.reshape(-1, 2304)
    for i in (4, 6):
        x = jax.nn.relu(x @ weights[i] + weights[i + 1])
    decay = sum(jnp.sum(jnp.square(weights[i].astype(jnp.float32))) for i in (4, 6))
    loss = cross_entropy(x @ weights[8] + weights[9], y)
    return loss + models.CIFAR_DECAY / 2 * decay


def resnet(weights, x, y):
    """Two convolutions a block; each unit's weights are the convolution's, the normalisation's."""

    def unit(x, i, stride=1):
        weight, scale, offset = weights[3 * i : 3 * i + 3]
        narrow = convolve(x, weight, ((1, 1), (1, 1)), stride)
        x = narrow.astype(jnp.float32)
        mean = jnp.mean(x, (0, 1, 2))
        variance = jnp.mean(jnp.square(x), (0, 1, 2)) - jnp.square(mean)
        scale = scale * jax.lax.rsqrt(variance + models.BN_EPSILON)
        return ((x - mean) * scale + offset).astype(narrow.dtype)

    x = jax.nn.relu(unit(x, 0))
    for i in range(1, (len(weights) - 2) // 3, 2):
        more = weights[3 * i].shape[3] - x.shape[3]
        stride = 2 if more else 1
        z = unit(jax.nn.relu(unit(x, i, stride)), i + 1)
        x = jnp.pad(x[:, ::stride, ::stride], ((0, 0), (0, 0), (0, 0), (0, more)))
        x = jax.nn.relu(z + x)
    decay = sum(jnp.sum(jnp.square(w.astype(jnp.float32))) for w in weights if w.ndim > 1)
    logits = jnp.mean(x, (1, 2)) @ weights[-2] + weights[-1]
    return cross_entropy(logits, y) + models.RESNET_DECAY / 2 * decay


def lstm(weight_ih, weight_hh, bias, x):
    """All states and the last of [T,B,I]."""
    z_of_inputs = x @ weight_ih + bias
    zero = jnp.zeros((x.shape[1], weight_hh.shape[0]), x.dtype)

    def step(state, z):
        h, c = state
        i, f, g, o = jnp.split(z + h @ weight_hh, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (last, _), states = jax.lax.scan(step, (zero, zero), z_of_inputs, unroll=UNROLL)
    return states, last


def logistic(weights, last, y):
    """Dense 1 and the mean logistic loss."""
    z = (last @ weights[0] + weights[1])[:, 0]
    return jnp.mean(jnp.maximum(z, 0) - y * z + jnp.log1p(jnp.exp(-jnp.abs(z))))


def twin_lstm(weights, x, y):
    """Both windows in one batch."""
    _, last = lstm(*weights[:3], x)
    return logistic(weights[3:], jnp.concatenate(jnp.split(last, 2), axis=1), y)


def lstm_stack(weights, x, y):
    """One LSTM after the other."""
    last = None
    for i in range(0, len(weights) - 2, 3):
        x, last = lstm(*weights[i : i + 3], x)
    return logistic(weights[-2:], last, y)


def norm(x, weight, bias):
    """Layer normalisation of the last axis, in float32."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, -1, keepdims=True)
    variance = jnp.mean(jnp.square(wide - mean), -1, keepdims=True)
    return ((wide - mean) * jax.lax.rsqrt(variance + models.BN_EPSILON) * weight + bias).astype(x.dtype)


def gpt(heads):
    """The loss of a decoder with so many heads, which its weights do not tell."""

    def attention(qkv):
        q, k, v = (part.reshape(*part.shape[:2], heads, -1) for part in jnp.split(qkv, 3, -1))
        return jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(*qkv.shape[:2], -1)

    def loss(weights, x, y):
        wte, wpe = weights[:2]
        x = wte[x] + wpe
        for i in range(2, len(weights) - 2, 12):
            w = weights[i : i + 12]
            x = x + attention(norm(x, *w[0:2]) @ w[2] + w[3]) @ w[4] + w[5]
            inner = jax.nn.gelu(norm(x, *w[6:8]) @ w[8] + w[9], approximate=True)
            x = x + inner @ w[10] + w[11]
        logits = norm(x, *weights[-2:]) @ wte.T
        return cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))

    return loss


def narrowed(value):
    """In bfloat16, unless it is of whole numbers."""
    return value.astype(jnp.bfloat16) if jnp.issubdtype(value.dtype, jnp.floating) else value


def loss_of(case, bf16=False):
    """The loss of a case's model; bf16: of copies in bfloat16 of float32 weights."""
    loss = gpt(case.sizes[1]) if case.kind == "gpt" else LOSSES[case.kind]
    return (lambda weights, x, y: loss([*map(narrowed, weights)], narrowed(x), y)) if bf16 else loss


LOSSES = {
    "mlp": mlp, "poly": poly, "cnn": cnn, "cifar10": cifar10, "twin-lstm": twin_lstm,
    "lstm-stack": lstm_stack, "resnet": resnet,
}
