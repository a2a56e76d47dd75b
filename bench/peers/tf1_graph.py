# SPDX-License-Identifier: MIT
"""Counts the nodes of TensorFlow 1's graph of one training step, by number of towers.

The graph is built as TensorFlow 1 builds it (tf.compat.v1): one placeholder split over the towers,
shared variables, each tower's gradients, their sum, one Adam update. Counted are the nodes that the
update needs, which is what a session runs: no initial values, no savers. Prints one row per line, in the form of
`lockstep run`. Nothing is trained or timed.
"""

import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf  # noqa: E402  (the environment is read at import)

v1 = tf.compat.v1
MODEL, SIZES, BATCH = "mlp:784-128-10", (784, 128, 10), 256
TOWERS = (1, 2, 4, 8, 16, 32, 64)


def tower_loss(weights, x, y, towers):
    """One tower's share of the mean loss over the whole batch."""
    for i in range(0, len(weights), 2):
        x = v1.nn.bias_add(v1.matmul(x, weights[i]), weights[i + 1])
        x = v1.nn.relu(x) if i < len(weights) - 2 else x
    loss = v1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
    return v1.reduce_mean(loss) / towers


def step_nodes(towers):
    """Nodes of the graph of one step."""
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [BATCH, SIZES[0]])
        y = v1.placeholder(tf.int32, [BATCH])
        weights = []
        for fan_in, fan_out in zip(SIZES[:-1], SIZES[1:]):
            weights.append(v1.get_variable(f"weight{len(weights)}", [fan_in, fan_out]))
            weights.append(v1.get_variable(f"bias{len(weights)}", [fan_out]))
        adam = v1.train.AdamOptimizer(1e-3)
        parts = zip(v1.split(x, towers), v1.split(y, towers))
        pairs = []
        for index, (part_x, part_y) in enumerate(parts):
            with v1.device(f"/cpu:{index}"):
                loss = tower_loss(weights, part_x, part_y, towers)
                pairs.append(adam.compute_gradients(loss, weights))
        sums = [(v1.add_n([g for g, _ in same]), same[0][1]) for same in zip(*pairs)]
        update = adam.apply_gradients(sums)
    step = v1.graph_util.extract_sub_graph(graph.as_graph_def(), [update.name])
    return len(step.node)


def main():
    """Prints the rows."""
    for towers in TOWERS:
        devices = [f"cpu:{index}" for index in range(towers)]
        row = {
            "schema": 1, "label": "growth",
            "case": {
                "model": MODEL, "strategy": "towers", "devices": devices, "batch_global": BATCH,
            },
            "result": {"status": "ok"},
            "program": {"nodes": step_nodes(towers)},
            "peer": {"what": "TensorFlow 1 graph", "name": "TensorFlow", "version": tf.__version__},
        }
        print(json.dumps(row))


if __name__ == "__main__":
    main()
