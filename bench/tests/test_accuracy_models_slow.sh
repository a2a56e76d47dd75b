# SPDX-License-Identifier: MIT
# What training reaches above chance: cnn on Fashion-MNIST (chance 0.1) after 12 epochs, as seed
# program 8 has it; twin-lstm on the made-up windows (chance 0.5) after one epoch of 60,000. Seen:
# 0.6465 and 0.817. The licences' text is no test of learning: the last sixth of so few files says
# little of what the first five teach (0.52 on it, while the loss goes on falling).
. "$SOURCE_DIR/bench/tests/lib.sh"

long() { "$LOCKSTEP" run "$@" --gate-steps 0 --results none --format jsonl >"$work/out" 2>"$work/err" || wrong "lockstep run $*"; }

long --model cnn --epochs 12 --seed 1,2
rows "cnn" 'len(rows) == 2 and all(r["train"]["accuracy"] >= 0.6 for r in rows)'
long --model twin-lstm --data synthetic --epochs 1
rows "twin-lstm" 'len(rows) == 1 and all(r["train"]["accuracy"] >= 0.75 for r in rows)'
finish
