#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Steps whose operations are enqueued one by one (--capture no) and exceed a queue's initial size: each strategy that
# waits between devices, each all-reduce, tails, links and exact mode train to the end and pass the gate. Leaves out
# ranks that are processes, and GPUs.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# Some 70 variables, each in its own bucket: a replica's step has more than 300 operations.
deep="--model resnet:20 --data synthetic:16 --batch 4"
small="--capture no --format jsonl --results none --timeout 10s --gate-steps 1 --warmup 0 --steps 2"

trains() { # trains COUNT OPTIONS...: COUNT cases
    local count=$1
    shift
    lockstep_ok run $small "$@"
    rows "all train, uncaptured, and pass" "len(rows) == $count and
        all(x['result']['status'] == 'ok' and not x['case']['capture'] and
            x['equivalence'].get('pass', True) for x in rows)"
}
trains 2 $deep --strategy mirrored --devices 2 --bucket-bytes 0 --allreduce auto,tree
! thorough || trains 5 $deep --strategy mirrored --devices 2 --bucket-bytes 0 \
    --allreduce flat,ring,halving-doubling,direct,hierarchical
trains 1 $deep --strategy mirrored --ranks 2 --devices 2 --bucket-bytes 0
trains 1 $deep --strategy mirrored --devices 3 --comm device --bucket-bytes 0
trains 1 $deep --strategy mirrored --devices 2 --bucket-bytes 0 --link latency=1us
trains 3 $deep --strategy towers,independent,ps --devices 2
trains 1 $deep --strategy ps --ranks 4 --ps-servers 2 --link latency=1us
trains 2 $deep --strategy model-parallel,pipeline --devices 2
trains 1 $deep --strategy hybrid --devices 4 --bucket-bytes 0
! thorough || trains 1 --model resnet:110 --data synthetic:16 --batch 4 --strategy mirrored --devices 2
# Shards of one sample each; long steps after short ones, and short after long.
shards="--model mlp:12-6-6-6-3 --data synthetic:100 --batch 64 --micro-shards 64 --reduce exact"
trains 2 $shards --strategy mirrored,ps --devices 2
small=${small/--steps 2/--epochs 3}
trains 2 $shards --strategy mirrored,towers --devices 2
small=${small/--epochs 3/--steps 40}
for mode in "async" "ssp --ps-staleness 1" "sync --ps-backup-workers 1"; do # workers that wait for others' steps
    trains 1 --model poly --strategy ps --ranks 4 --ps-mode $mode
done
finish
