# SPDX-License-Identifier: MIT
"""The training step in TensorFlow's MirroredStrategy on two logical CPU devices.

Every replica is peer_tensorflow.py's step on its half of the batch; its gradients are summed over
the replicas before the Adam kernel updates its own copy of the variables.
"""

import argparse

import peer_tensorflow
import tensorflow as tf

import common
import tensorflow_models

REPLICAS = 2


def open_strategy():
    """Two devices of one core, the gradients added on the first: the fastest of those tried."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(REPLICAS)
    devices = [tf.config.LogicalDeviceConfiguration()] * REPLICAS
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, devices)
    return tf.distribute.MirroredStrategy(
        [f"CPU:{index}" for index in range(REPLICAS)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


def split(strategy, values):
    """One batch's array as a value per replica that lies on its device."""

    def part(context):
        rows = len(values) // REPLICAS
        return tf.constant(values[context.replica_id_in_sync_group * rows :][:rows])

    return strategy.experimental_distribute_values_from_function(part)


def make_replica_step(case, triples, count):
    """(x, y) -> this replica's share of the loss; one step of its copy of the variables."""
    weights = [weight for weight, _, _ in triples]
    loss_of = tensorflow_models.loss_of(case)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(weights, x, y) / REPLICAS
        gradients = tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, tape.gradient(loss, weights)
        )
        tf.raw_ops.AssignAddVariableOp(resource=count.handle, value=1.0)
        t = tf.raw_ops.ReadVariableOp(resource=count.handle, dtype=tf.float32)
        peer_tensorflow.adam_kernel(case.lr, t, triples, gradients)
        return loss

    return step


def make_build(strategy):
    """The build function, see common.py."""

    def build(case):
        if case.batch % REPLICAS != 0:
            raise ValueError(f"batch: {case.batch}: not a multiple of {REPLICAS} replicas")
        case.batches = [(split(strategy, x), split(strategy, y)) for x, y in case.batches]
        with strategy.scope():
            triples = [
                tuple(tf.Variable(value) for value in (w.T, tf.zeros_like(w.T), tf.zeros_like(w.T)))
                for w in case.values
            ]
            count = tf.Variable(0.0)
        replica_step = make_replica_step(case, triples, count)

        @tf.function
        def step(x, y):
            return strategy.run(replica_step, args=(x, y))

        def reset(values):
            count.assign(0.0)
            for (weight, m, v), value in zip(triples, values):
                weight.assign(value.T)
                m.assign(tf.zeros_like(value.T))
                v.assign(tf.zeros_like(value.T))

        def read(loss):
            return [sum(float(part) for part in strategy.experimental_local_results(loss))]

        return step.get_concrete_function(*case.batches[0]), reset, read

    return build


def main():
    """Serves on stdin and stdout."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    strategy = open_strategy()
    common.serve(
        make_build(strategy), lambda: {"name": "TensorFlow", "version": tf.__version__}
    )


if __name__ == "__main__":
    main()
