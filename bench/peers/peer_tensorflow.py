# SPDX-License-Identifier: MIT
"""The training step in TensorFlow as one tf.function, on one CPU thread unless --threads says
more.

Variants: `graph` (tf.function), `xla` (tf.function with jit_compile=True) and `fused` (graph, LSTMs by
TensorFlow's own kernel). `bf16`, `xla-bf16`: weights and activations in bfloat16, float32 masters.
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
import models  # noqa: E402
import tensorflow_models  # noqa: E402

def one_minus_power(base, t):
    """1 - base^t without cancellation."""
    return -tf.math.expm1(t * tf.constant(math.log(base), tf.float32))


def adam_kernel(lr, t, triples, gradients, values=models.ADAM):
    """TensorFlow's fused Adam kernel, epsilon and rate chosen for Kingma and Ba's algorithm 1.

    The kernel computes its rate from the powers it is given; passing 0 for both leaves it at lr.
    It rounds beta to float32 before it subtracts it from 1, so the corrections use that beta.
    """
    beta1, beta2, eps = values["beta1"], values["beta2"], values["eps"]
    root = tf.sqrt(one_minus_power(float(np.float32(beta2)), t))
    rate = lr * root / one_minus_power(float(np.float32(beta1)), t)
    for (weight, m, v), gradient in zip(triples, gradients):
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle, m=m.handle, v=v.handle, beta1_power=0.0, beta2_power=0.0,
            lr=rate, beta1=beta1, beta2=beta2, epsilon=eps * root, grad=gradient,
        )


def adam_plain(lr, t, triples, gradients, values=models.ADAM):
    """Adam from element-wise operations, which XLA joins into one loop per variable."""
    beta1, beta2, eps = values["beta1"], values["beta2"], values["eps"]
    rate = lr / one_minus_power(beta1, t)
    inverse = 1 / tf.sqrt(one_minus_power(beta2, t))
    for (weight, m, v), gradient in zip(triples, gradients):
        m.assign(beta1 * m + (1 - beta1) * gradient)
        v.assign(beta2 * v + (1 - beta2) * gradient * gradient)
        weight.assign_sub(rate * m / (tf.sqrt(v) * inverse + eps))


def rmsprop(lr, triples, gradients):
    """RMSprop from element-wise operations."""
    rho, eps = models.RMSPROP["rho"], models.RMSPROP["eps"]
    for (weight, v, _), gradient in zip(triples, gradients):
        square = v.assign(rho * v + (1 - rho) * gradient * gradient)
        weight.assign_sub(lr * gradient / (tf.sqrt(square) + eps))


def momentum(lr, triples, gradients):
    """TensorFlow's own kernel."""
    for (weight, m, _), gradient in zip(triples, gradients):
        tf.raw_ops.ResourceApplyMomentum(
            var=weight.handle, accum=m.handle, lr=lr, grad=gradient, momentum=models.MOMENTUM
        )


def update(case, variant, t, triples, gradients):
    """The case's optimizer."""
    if case.optimizer == "sgd":
        for (weight, _, _), gradient in zip(triples, gradients):
            weight.assign_sub(case.lr * gradient)
    elif case.optimizer == "rmsprop":
        rmsprop(case.lr, triples, gradients)
    elif case.optimizer == "momentum":
        momentum(case.lr, triples, gradients)
    else:
        adam = adam_plain if variant.startswith("xla") else adam_kernel
        if case.optimizer == "adamw":  # the kernels do not read the weight, so its decay may come first
            for weight, _, _ in triples:
                if len(weight.shape) > 1:
                    weight.assign_sub(case.lr * models.ADAMW["decay"] * weight)
        adam(case.lr, t, triples, gradients, models.ADAMW if case.optimizer == "adamw" else models.ADAM)


def make_build(variant):
    """The build function of one variant, see common.py."""

    def build(case):
        batches = tensorflow_models.layout(case)
        case.batches = [(tf.constant(x), tf.constant(y)) for x, y in batches]
        weights = [tf.Variable(value) for value in models.inputs_first(case.kind, case.values)]
        triples = [
            (w, tf.Variable(tf.zeros_like(w)), tf.Variable(tf.zeros_like(w))) for w in weights
        ]
        count = tf.Variable(0.0)
        loss_of = tensorflow_models.loss_of(case, variant)

        @tf.function(jit_compile=variant.startswith("xla"))
        def step(x, y):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(weights)
                values = [w.read_value() for w in weights]
                loss = loss_of(values, x, y)
            gradients = tape.gradient(loss, weights)
            update(case, variant, count.assign_add(1.0), triples, gradients)
            return loss

        def reset(values):
            count.assign(0.0)
            for (weight, m, v), value in zip(triples, models.inputs_first(case.kind, values)):
                weight.assign(value)
                m.assign(tf.zeros_like(m))
                v.assign(tf.zeros_like(v))

        return step.get_concrete_function(*case.batches[0]), reset, lambda loss: [float(loss)]

    return build


def main():
    """Serves one variant on stdin and stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("graph", "xla", "fused", "bf16", "xla-bf16"), default="graph")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    common.serve(
        make_build(arguments.variant), lambda: {"name": "TensorFlow", "version": tf.__version__}
    )


if __name__ == "__main__":
    main()
