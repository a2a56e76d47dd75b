#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How near predictions come to `run --link`, and how large they can be. Links sleep, so that several devices with a slow
# network are measured on few cores. Prints the errors and times; they pass or fail nothing, since other programs may
# be at work. Checks that case, traffic and memory are those of run, that a prediction with measured durations is made
# for every strategy, that rows find their measured ones, and that 1,024 and 4,096 devices fit in memory.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# ---- The strategies' own steps ------------------------------------------------------------------

all="--model mlp:784-16-10 --data synthetic:500 --batch 60 --devices 3 --steps 3 --warmup 3 --strategy independent"
all+=",towers,mirrored,zero,local-sgd,gossip,model-parallel,pipeline,ps --local-sgd-every 3"
# shellcheck disable=SC2086
lockstep_ok run $all --gate-steps 0 --waterfall no --format jsonl --results v.db --link latency=1us
keep run
# shellcheck disable=SC2086
lockstep_ok predict --format jsonl --results none --draws 1 $all --durations flops=1e9 --platform flat:latency=1us
rows "cases, traffic and memory are those of run" "len(rows) == len(old('run')) and all(
    {k: v for k, v in x['case'].items() if k not in ('steps', 'warmup', 'blocks', 'comm', 'capture')} ==
    {k: v for k, v in y['case'].items() if k not in ('steps', 'warmup', 'blocks', 'comm', 'capture')} and
    x.get('traffic') == y.get('traffic') and
    [d['formula'] for d in x['memory']['devices']] == [d['formula'] for d in y['memory']['devices']]
    for x, y in zip(rows, old('run')))"

# shellcheck disable=SC2086
lockstep_ok predict $all --draws 1 --durations flops=1e9 --platform flat:latency=1us --results v.db --validate \
    --format jsonl
expect "each is validated by its measured row" [ "$(grep -c '"measured_ms"' out)" -eq 9 ]
expect "and there is a summary" grep -q '^{"summary":{"rows":9,' out
lockstep_ok results list --results v.db --where result.warnings~predicted --format jsonl
rows "and its row says that it was predicted" "len(rows) == 9 and all('prediction' in x for x in rows)"

# ---- Measured durations -------------------------------------------------------------------------

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

# A step that this machine would take minutes for, in a model of 800 MB a device: only its operations are run.
(ulimit -v 12000000 && "$LOCKSTEP" predict --model gpt:1-32-2048-2048-50257 --devices 2 --batch 2 --strategy mirrored \
    --platform flat:latency=10us,bandwidth=100GB/s --results none --format jsonl) >out
rows "a large step is measured one by one, and scaled" "'scaled' in r['result']['warnings'] and
    r['time']['step_ms']['median'] > 100"

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
