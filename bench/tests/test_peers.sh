#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares the losses of lockstep's first 20 steps with PyTorch, TensorFlow and JAX (bench/peers). LOCKSTEP: the
# program; SOURCE_DIR: the repository. Skipped (77) without virtual environment or data set.
set -eu

skip() {
    echo "skipped: $1"
    exit 77
}

venv=$SOURCE_DIR/.peers/venv
images=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz

[ -x "$venv/bin/python" ] ||
    skip "no virtual environment in .peers/venv; ci/peers.sh --install makes it"
"$venv/bin/python" -c 'import importlib.util as u, sys
sys.exit(not all(map(u.find_spec, ("torch", "tensorflow", "jax"))))' ||
    skip "the virtual environment lacks a peer; ci/peers.sh --install completes it"
[ -r "$images" ] || skip "no data set; install Debian's dataset-fashion-mnist"

exec "$venv/bin/python" -B "$SOURCE_DIR/bench/peers/compare.py" agree --lockstep "$LOCKSTEP"
