# SPDX-License-Identifier: MIT
"""The training step in TensorFlow as one tf.function, on one CPU thread unless --threads says
more.

Variants: `graph` (tf.function) and `xla` (tf.function with jit_compile=True).
Keras's Adam puts epsilon elsewhere, so Adam is written here. The graph variant uses TensorFlow's
own fused kernel: with epsilon' = epsilon sqrt(1 - beta2^t) its update
lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon') is lr mhat / (sqrt(vhat) + epsilon).
"""

import argparse
import math
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np  # noqa: E402  (the environment is read at import)
import tensorflow as tf  # noqa: E402

import common  # noqa: E402

BETA1, BETA2, EPS = common.ADAM["beta1"], common.ADAM["beta2"], common.ADAM["eps"]


def make_loss(case, weights):
    """(x, y) -> mean loss; weights are [in, out], so that no product transposes them forward."""
    if case.kind == "poly":
        return lambda x, y: tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(x, weights[0]), 1) - y))

    def loss(x, y):
        last = len(weights) - 2
        for i in range(0, len(weights), 2):
            x = tf.nn.bias_add(tf.matmul(x, weights[i]), weights[i + 1])
            x = tf.nn.relu(x) if i < last else x
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x))

    return loss


def one_minus_power(base, t):
    """1 - base^t without cancellation."""
    return -tf.math.expm1(t * tf.constant(math.log(base), tf.float32))


def adam_kernel(lr, t, triples, gradients):
    """TensorFlow's fused Adam kernel, epsilon and rate chosen for Kingma and Ba's algorithm 1.

    The kernel computes its rate from the powers it is given; passing 0 for both leaves it at lr.
    It rounds beta to float32 before it subtracts it from 1, so the corrections use that beta.
    """
    root = tf.sqrt(one_minus_power(float(np.float32(BETA2)), t))
    rate = lr * root / one_minus_power(float(np.float32(BETA1)), t)
    for (weight, m, v), gradient in zip(triples, gradients):
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle, m=m.handle, v=v.handle, beta1_power=0.0, beta2_power=0.0,
            lr=rate, beta1=BETA1, beta2=BETA2, epsilon=EPS * root, grad=gradient,
        )


def adam_plain(lr, t, triples, gradients):
    """Adam from element-wise operations, which XLA joins into one loop per variable."""
    rate = lr / one_minus_power(BETA1, t)
    inverse = 1 / tf.sqrt(one_minus_power(BETA2, t))
    for (weight, m, v), gradient in zip(triples, gradients):
        m.assign(BETA1 * m + (1 - BETA1) * gradient)
        v.assign(BETA2 * v + (1 - BETA2) * gradient * gradient)
        weight.assign_sub(rate * m / (tf.sqrt(v) * inverse + EPS))


def make_build(variant):
    """The build function of one variant, see common.py."""
    adam = adam_kernel if variant == "graph" else adam_plain

    def build(case):
        case.batches = [(tf.constant(x), tf.constant(y)) for x, y in case.batches]
        weights = [tf.Variable(value.T) for value in case.values]
        triples = [
            (w, tf.Variable(tf.zeros_like(w)), tf.Variable(tf.zeros_like(w))) for w in weights
        ]
        count = tf.Variable(0.0)
        loss_of = make_loss(case, weights)

        @tf.function(jit_compile=variant == "xla")
        def step(x, y):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(weights)
                loss = loss_of(x, y)
            gradients = tape.gradient(loss, weights)
            adam(case.lr, count.assign_add(1.0), triples, gradients)
            return loss

        def reset(values):
            count.assign(0.0)
            for (weight, m, v), value in zip(triples, values):
                weight.assign(value.T)
                m.assign(tf.zeros_like(m))
                v.assign(tf.zeros_like(v))

        return step.get_concrete_function(*case.batches[0]), reset, lambda loss: [float(loss)]

    return build


def main():
    """Serves one variant on stdin and stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("graph", "xla"), default="graph")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    common.serve(
        make_build(arguments.variant), lambda: {"name": "TensorFlow", "version": tf.__version__}
    )


if __name__ == "__main__":
    main()
