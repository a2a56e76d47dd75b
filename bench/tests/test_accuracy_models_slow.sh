# SPDX-License-Identifier: MIT
# What training achieves above chance: cnn on Fashion-MNIST (chance 0.1) after 12 epochs, as in seed program 8;
# twin-lstm on synthetic windows (chance 0.5) after one epoch of 60,000. Measured: 0.6465 and 0.817. The text of
# licences is not used: with so few files, the first five sixths do not predict the last (0.52 there, while the
# training loss still falls).
. "$SOURCE_DIR/bench/tests/lib.sh"

long() { "$LOCKSTEP" run "$@" --gate-steps 0 --results none --format jsonl >"$work/out" 2>"$work/err" || wrong "lockstep run $*"; }

long --model cnn --epochs 12 --seed 1,2
rows "cnn" 'len(rows) == 2 and all(r["train"]["accuracy"] >= 0.6 for r in rows)'
long --model twin-lstm --data synthetic --epochs 1
rows "twin-lstm" 'len(rows) == 1 and all(r["train"]["accuracy"] >= 0.75 for r in rows)'
finish
