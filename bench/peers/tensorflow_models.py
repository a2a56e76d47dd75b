# SPDX-License-Identifier: MIT
"""The models in TensorFlow: losses of the parameters laid out by models.inputs_first.

Tuned: images [B,height,width,channels]; windows with the step first and both of twin-lstm in one
batch; the LSTM by variant: all steps unrolled behind one product of all inputs, which XLA does not
compile in minutes; for XLA a loop with UNROLL steps a turn; TensorFlow's fused kernel.
"""

import functools

import numpy as np
import tensorflow as tf

import models

UNROLL = 10


def layout(case):
    """The batches as the losses take them."""
    if case.kind in ("cnn", *models.SIDES):
        return [(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), y) for x, y in case.batches]
    if case.kind in ("twin-lstm", "lstm-stack"):
        return [(models.steps_first(x), y) for x, y in case.batches]
    return case.batches


def cross_entropy(logits, y):
    """The mean over the batch, in float32."""
    logits = tf.cast(logits, tf.float32)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def perceptron(weights, x):
    """Dense layers with ReLU between."""
    last = len(weights) - 2
    for i in range(0, len(weights), 2):
        x = tf.nn.bias_add(tf.matmul(x, weights[i]), weights[i + 1])
        x = tf.nn.relu(x) if i < last else x
    return x


def poly(weights, x, y):
    """Mean squared error."""
    return tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(x, weights[0]), 1) - y))


def mlp(weights, x, y):
    """Dense layers."""
    return cross_entropy(perceptron(weights, x), y)


def cnn(weights, x, y):
    """Bias and ReLU after the pool, which is the same and less."""
    x = tf.nn.conv2d(x, weights[0], 1, "VALID")
    x = tf.reshape(tf.nn.max_pool2d(x, 26, 26, "VALID"), [-1, 32])
    return cross_entropy(perceptron(weights[2:], tf.nn.relu(x + weights[1])), y)


def cifar10(weights, x, y):
    """The two-convolution tutorial model."""

    def normalise(x):
        return tf.nn.local_response_normalization(x, models.LRN_RADIUS, 1, models.LRN_ALPHA, 0.75)

    def convolve(x, weight, bias):
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weight, 1, "SAME"), bias))

    x = normalise(tf.nn.max_pool2d(convolve(x, *weights[:2]), 3, 2, "SAME"))
    x = tf.nn.max_pool2d(normalise(convolve(x, *weights[2:4])), 3, 2, "SAME")
    loss = cross_entropy(perceptron(weights[4:], tf.reshape(x, [-1, 2304])), y)
    decay = tf.nn.l2_loss(weights[4]) + tf.nn.l2_loss(weights[6])
    return loss + models.CIFAR_DECAY * decay


def resnet(weights, x, y):
    """Two convolutions a block; each unit's weights are the convolution's, the normalisation's."""

    def unit(x, i, stride=1):
        weight, scale, offset = weights[3 * i : 3 * i + 3]
        around = "SAME" if stride == 1 else [[0, 0], [1, 1], [1, 1], [0, 0]]
        x = tf.nn.conv2d(x, weight, stride, around)
        return tf.compat.v1.nn.fused_batch_norm(x, scale, offset, epsilon=models.BN_EPSILON)[0]

    x = tf.nn.relu(unit(x, 0))
    for i in range(1, (len(weights) - 2) // 3, 2):
        more = weights[3 * i].shape[3] - x.shape[3]
        stride = 2 if more else 1
        z = unit(tf.nn.relu(unit(x, i, stride)), i + 1)
        if more:
            x = tf.pad(x[:, ::stride, ::stride], [[0, 0], [0, 0], [0, 0], [0, more]])
        x = tf.nn.relu(z + x)
    decay = tf.add_n([tf.nn.l2_loss(w) for w in weights if len(w.shape) > 1])
    logits = tf.matmul(tf.reduce_mean(x, [1, 2]), weights[-2]) + weights[-1]
    return cross_entropy(logits, y) + models.RESNET_DECAY * decay


def cell(z, h, c, weight_hh):
    """One step of an LSTM -> h, c; before the first they are None, which is 0."""
    i, f, g, o = tf.split(z if h is None else z + tf.matmul(h, weight_hh), 4, 1)
    new = tf.sigmoid(i) * tf.tanh(g)
    c = new if c is None else tf.sigmoid(f) * c + new
    return tf.sigmoid(o) * tf.tanh(c), c


def input_products(weight_ih, bias, x):
    """[T,B,I] -> [T,B,4H]"""
    steps, rows, inputs = x.shape
    z = tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, inputs]), weight_ih), bias)
    return tf.reshape(z, [steps, rows, weight_ih.shape[1]])


def lstm_unrolled(weight_ih, weight_hh, bias, x):
    """All states of [T,B,I], as a list."""
    h = c = None
    states = []
    for z in tf.unstack(input_products(weight_ih, bias, x)):
        h, c = cell(z, h, c, weight_hh)
        states.append(h)
    return states


def lstm_loop(weight_ih, weight_hh, bias, x):
    """The same as a loop with UNROLL steps a turn."""
    z = input_products(weight_ih, bias, x)
    steps, rows, units = z.shape[0], z.shape[1], weight_hh.shape[0]

    def turn(state, zs):
        h, c, _ = state
        states = []
        for one in tf.unstack(zs):
            h, c = cell(one, h, c, weight_hh)
            states.append(h)
        return h, c, tf.stack(states)

    zero = tf.zeros([rows, units])
    first = (zero, zero, tf.zeros([UNROLL, rows, units]))
    states = tf.scan(turn, tf.reshape(z, [-1, UNROLL, rows, 4 * units]), first)[2]
    return tf.reshape(states, [steps, rows, units])


def lstm_fused(weight_ih, weight_hh, bias, x):
    """The same by TensorFlow's kernel. BlockLSTM has its gates in the order i, g, f, o. (The
    gradient of BlockLSTMV2 is that of BlockLSTM in TensorFlow 2.21, so it mistakes the gates.)"""

    def ordered(values):
        i, f, g, o = tf.split(values, 4, -1)
        return tf.concat([i, g, f, o], -1)

    units = weight_hh.shape[0]
    state, none = tf.zeros([x.shape[1], units]), tf.zeros([units])
    return tf.raw_ops.BlockLSTM(
        seq_len_max=tf.constant(x.shape[0], tf.int64), x=x, cs_prev=state, h_prev=state,
        w=ordered(tf.concat([weight_ih, weight_hh], 0)), wci=none, wcf=none, wco=none,
        b=ordered(bias), forget_bias=0.0, cell_clip=-1.0, use_peephole=False,
    ).h


LSTMS = {"graph": lstm_unrolled, "xla": lstm_loop, "fused": lstm_fused}


def logistic(weights, last, y):
    """Dense 1 and the mean logistic loss."""
    z = tf.squeeze(tf.matmul(last, weights[0]) + weights[1], 1)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=z))


def twin_lstm(lstm, weights, x, y):
    """Both windows in one batch."""
    last = tf.concat(tf.split(lstm(*weights[:3], x)[-1], 2), 1)
    return logistic(weights[3:], last, y)


def lstm_stack(lstm, weights, x, y):
    """One LSTM after the other."""
    for i in range(0, len(weights) - 2, 3):
        x = lstm(*weights[i : i + 3], tf.stack(x))
    return logistic(weights[-2:], x[-1], y)


def norm(x, weight, bias):
    """Layer normalisation of the last axis, in float32."""
    wide, weight, bias = (tf.cast(value, tf.float32) for value in (x, weight, bias))
    mean, variance = tf.nn.moments(wide, [-1], keepdims=True)
    return tf.cast((wide - mean) * (tf.math.rsqrt(variance + models.BN_EPSILON) * weight) + bias, x.dtype)


def attention(heads, qkv):
    """Causal attention of [B,T,3C]; TensorFlow has no fused one."""
    _, positions, width = qkv.shape
    size = width // 3 // heads
    parts = tf.transpose(tf.reshape(qkv, [-1, positions, 3, heads, size]), [2, 0, 3, 1, 4])
    q, k, v = tf.unstack(parts)
    later = np.triu(np.full((positions, positions), -np.inf, np.float32), 1)
    scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32)
    shares = tf.cast(tf.nn.softmax(scores * size**-0.5 + later), v.dtype)
    return tf.reshape(tf.transpose(tf.matmul(shares, v), [0, 2, 1, 3]), [-1, positions, width // 3])


def gpt(heads, weights, x, y):
    """GPT-2's decoder, its rows [B T,C] but in attention."""
    wte, wpe = weights[:2]
    positions, width = wpe.shape

    def dense(x, weight, bias):
        return tf.nn.bias_add(tf.matmul(x, weight), bias)

    x = tf.reshape(tf.gather(wte, x) + wpe, [-1, width])
    for i in range(2, len(weights) - 2, 12):
        w = weights[i : i + 12]
        qkv = dense(norm(x, *w[0:2]), *w[2:4])
        mixed = attention(heads, tf.reshape(qkv, [-1, positions, 3 * width]))
        x = x + dense(tf.reshape(mixed, [-1, width]), *w[4:6])
        x = x + dense(tf.nn.gelu(dense(norm(x, *w[6:8]), *w[8:10]), approximate=True), *w[10:12])
    logits = tf.matmul(norm(x, *weights[-2:]), wte, transpose_b=True)
    return cross_entropy(logits, tf.reshape(y, [-1]))


LOSSES = {"mlp": mlp, "poly": poly, "cnn": cnn, "cifar10": cifar10, "resnet": resnet}
RECURRENT = {"twin-lstm": twin_lstm, "lstm-stack": lstm_stack}


def narrowed(value):
    """In bfloat16, unless it is of whole numbers."""
    return tf.cast(value, tf.bfloat16) if value.dtype.is_floating else value


def loss_of(case, variant="graph"):
    """(weights, x, y) -> the loss of a case's model; bf16: of copies in bfloat16 of float32 weights."""
    if variant.endswith("bf16"):
        loss = loss_of(case)
        return lambda weights, x, y: loss([*map(narrowed, weights)], narrowed(x), y)
    if case.kind == "gpt":
        return functools.partial(gpt, case.sizes[1])
    if case.kind in LOSSES:
        return LOSSES[case.kind]
    return functools.partial(RECURRENT[case.kind], LSTMS[variant])
