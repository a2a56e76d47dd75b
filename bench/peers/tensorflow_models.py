# SPDX-License-Identifier: MIT
"""The models in TensorFlow: losses of the parameters laid out by models.inputs_first.

Tuned: images [B,height,width,channels]; windows with the step first and both of twin-lstm in one
batch; the LSTM's steps unrolled behind one product of all inputs.
"""

import numpy as np
import tensorflow as tf

import models


def layout(case):
    """The batches as the losses take them."""
    if case.kind in ("cnn", *models.SIDES):
        return [(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), y) for x, y in case.batches]
    if case.kind in ("twin-lstm", "lstm-stack"):
        return [(np.ascontiguousarray(steps_first(x)), y) for x, y in case.batches]
    return case.batches


def steps_first(x):
    """[B,T,I] or [2,B,T,I] -> [T,B,I] or [T,2B,I]"""
    return x.reshape(-1, *x.shape[-2:]).transpose(1, 0, 2)


def cross_entropy(logits, y):
    """The mean over the batch."""
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


def lstm(weight_ih, weight_hh, bias, x):
    """All states of [T,B,I], unrolled."""
    steps, rows, inputs = x.shape
    z_of_inputs = tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, inputs]), weight_ih), bias)
    units = weight_hh.shape[0]
    h = c = None
    states = []
    for z in tf.unstack(tf.reshape(z_of_inputs, [steps, rows, 4 * units])):
        z = z if h is None else z + tf.matmul(h, weight_hh)
        i, f, g, o = tf.split(z, 4, 1)
        new = tf.sigmoid(i) * tf.tanh(g)
        c = new if c is None else tf.sigmoid(f) * c + new
        h = tf.sigmoid(o) * tf.tanh(c)
        states.append(h)
    return states


def logistic(weights, last, y):
    """Dense 1 and the mean logistic loss."""
    z = tf.squeeze(tf.matmul(last, weights[0]) + weights[1], 1)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=z))


def twin_lstm(weights, x, y):
    """Both windows in one batch."""
    last = tf.concat(tf.split(lstm(*weights[:3], x)[-1], 2), 1)
    return logistic(weights[3:], last, y)


def lstm_stack(weights, x, y):
    """One LSTM after the other."""
    states = None
    for i in range(0, len(weights) - 2, 3):
        states = lstm(*weights[i : i + 3], x if states is None else tf.stack(states))
    return logistic(weights[-2:], states[-1], y)


LOSSES = {
    "mlp": mlp, "poly": poly, "cnn": cnn, "cifar10": cifar10, "twin-lstm": twin_lstm,
    "lstm-stack": lstm_stack, "resnet": resnet,
}
