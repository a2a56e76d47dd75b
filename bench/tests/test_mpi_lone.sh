#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What one rank does alone while the others wait: it takes longer than --timeout and is alive (a long step,
# judges that open, the gate, `single` beside the case, evaluation); it fails, and all hear of it: the row
# says why, the next case runs, nobody is lost. Nothing here wants a fast machine: a slow one waits longer.
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"
nobody_lost() { ! grep -q 'silent\|waited [0-9.]* s for' "$work/all"; }

# ---- Alive -------------------------------------------------------------------------------------

# Rank 0's judges take every rank's slice one after the other, some seconds a step; nobody else works meanwhile.
ranks_ok 2 run --strategy mirrored --model resnet:20 --data synthetic:1024 --batch 512 --gate-steps 1 --warmup 0 --steps 1 \
    --timeout 1s --results none --format jsonl
expect "nobody is lost: judges" nobody_lost
rows "judges that take longer than the timeout" "r['result']['status'] == 'ok' and r['equivalence']['steps'] == 1"
# A job of many ranks, here of as many as two cores bear: 256 samples each.
ranks_ok 6 run --strategy mirrored --model mlp:784-1000-1000-10 --data synthetic:3072 --batch 1536 --gate-steps 4 --warmup 0 --steps 4 \
    --timeout 1s --results none --format jsonl
expect "nobody is lost: many ranks" nobody_lost
rows "many ranks" "r['result']['status'] == 'ok' and r['case']['ranks'] == 6"
# What `single` beside the case and the test set take, rank 0 alone.
ranks_ok 2 run --strategy mirrored --model resnet:8 --data synthetic:2048 --batch 512 --gate-steps 0 --warmup 0 --steps 2 --blocks 1 \
    --baseline yes --timeout 1s --results none --format jsonl
expect "nobody is lost: the baseline" nobody_lost
rows "the baseline" "[x['result']['status'] for x in rows] == ['ok', 'ok']"
finish
