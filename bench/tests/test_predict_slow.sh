#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How near predictions come to `run --link`, and how large they can be. Links sleep, so that several devices with a slow
# network are measured on few cores. Prints the errors and times; they pass or fail nothing, since other programs
# may be at work. Checks that a prediction with measured durations is made for every strategy, that rows find their
# measured ones, that calibration files are read back to the same bits, and that 1,024 and 4,096 devices fit in memory.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

strategies=independent,towers,mirrored,zero,local-sgd,gossip,model-parallel,ps,hybrid,pipeline
case="--strategy $strategies --devices 2,4 --batch 256"
link=latency=2ms,bandwidth=20MB/s
# shellcheck disable=SC2086
lockstep run $case --link $link --steps 30 --warmup 2 --blocks 1 --gate-steps 0 --waterfall no --results v.db \
    --format jsonl
rows "every case is measured" "len(rows) == 20"
# shellcheck disable=SC2086
lockstep predict --validate $case --platform flat:$link --results v.db
cat out
expect "every measured row is predicted" grep -q '^20 rows validated' out

# shellcheck disable=SC2086
lockstep_ok predict --calibrate --out d.json --quiet --strategy mirrored --devices 4 --platform flat:$link
for i in 1 2; do
    lockstep_ok predict --durations d.json --strategy mirrored --devices 4 --platform flat:$link --results none \
        --format jsonl
    keep same$i
done
rows "the same durations, the same bits" "old('same1')[0]['time'] == old('same2')[0]['time'] and
    r['prediction']['draws'] == 32"

for devices in 64 256 1024 4096; do
    start=$(date +%s%N)
    (/usr/bin/time -f "%M" "$LOCKSTEP" predict --strategy mirrored --devices $devices --batch 8192 --bucket-bytes 0 \
        --allreduce ring --durations flops=1e10 --draws 1 --platform flat:latency=10us,bandwidth=1GB/s \
        --results none --format jsonl 2>peak) >out
    echo "$devices devices: $((($(date +%s%N) - start) / 1000000)) ms, $(($(tail -1 peak) / 1024)) MiB"
    rows "$devices devices" "len(r['case']['devices']) == $devices and r['time']['step_ms']['median'] > 0"
    expect "in less than 2 GiB" [ "$(tail -1 peak)" -lt $((2 << 20)) ]
done

finish
