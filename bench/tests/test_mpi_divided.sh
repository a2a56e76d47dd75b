#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A model divided over processes: places of one replica on several ranks, several such replicas, or whole replicas per
# rank. The bits of `single` and of the oracle, including accuracy and saved parameters; traffic and memory by the
# formulas. Leaves out several hosts, and speed. No tolerance.
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"
mlp="--model mlp:784-32-24-16-10 --data synthetic:75 --batch 29 --epochs 1"
small="--results none --warmup 0 --format jsonl"
same='all(r["result"]["status"] == "ok" and r["equivalence"]["oracle"] == "same bits" for r in rows)'

# equal ROWS N ARGUMENTS...: ROWS rows, all with the same bits.
equal() {
    local count=$1
    shift
    ranks "$@"
    expect "status 0" [ "$code" -eq 0 ]
    rows "$count rows with the same bits" "len(rows) == $count and $same"
}
equal 6 2 verify --strategy pipeline,model-parallel --devices 1 $mlp --reduce fast,exact --pipeline-schedule gpipe,1f1b $small
! thorough || equal 4 3 verify --strategy pipeline,model-parallel --devices 2 $mlp --reduce fast,exact --pipeline-microbatches 3 \
    --capture no $small
# D replicas of M places, or groups of M devices, on 4 processes with 2 devices: 2 x 4, 4 x 2.
hybrid="--strategy hybrid --devices 2 --hybrid-inner model-parallel,pipeline,zero --zero-stage 3 --pipeline-microbatches 2 $mlp $small"
equal 3 4 verify $hybrid --hybrid-replicas 2 --reduce exact
! thorough || equal 12 4 verify $hybrid --hybrid-replicas 2,4 --reduce fast,exact
! thorough || equal 8 4 verify --strategy hybrid --devices 1 --hybrid-inner pipeline --hybrid-outer zero --zero-stage 2,3 \
    --pipeline-schedule zb-h1,zb-h2 $mlp --reduce fast,exact $small
# An all-reduce that depends on where its ranks are: places on a part of the processes, and on all.
equal 2 4 verify --strategy hybrid --devices 2 --hybrid-replicas 2,4 --allreduce hierarchical $mlp $small
# Shared variables and weight decay, divided over several processes.
equal 2 4 verify --strategy hybrid,model-parallel --devices 1 --model twin-lstm:8 --data synthetic:60 --batch 20 --steps 3 \
    --reduce exact $small
! thorough || equal 2 4 verify --strategy hybrid,model-parallel --devices 1 --model twin-lstm:8 --data synthetic:60 --batch 20 \
    --steps 3 $small
! thorough || equal 2 2 verify --strategy model-parallel --devices 1 --model cifar10 --data synthetic:23 --batch 6 --steps 2 \
    --reduce fast,exact $small

lockstep_ok run --strategy single $mlp --reduce exact --save single.safetensors $small
keep single
ranks 2 run --strategy pipeline --devices 1 $mlp --reduce exact --save pipeline.safetensors $small
rows "what it learns is single's" 'r["train"] == old("single")[0]["train"] and "accuracy" in r["train"]'
expect "saved parameters are single's" cmp single.safetensors pipeline.safetensors
# 32 values per sample are sent forward and back, in 4 micro-batches of each of the 16 shards.
rows "traffic by hand" 'r["traffic"] == {"bytes_sent": 2 * 29 * 32 * 4, "messages_sent": 2 * 16,
    "bytes_formula": 2 * 29 * 32 * 4, "messages_formula": 2 * 16}'
rows "places of both ranks" 'r["case"]["model_parallel_place"].startswith(
    "dense0=/task:0/cpu:0,relu0=/task:0/cpu:0,dense1=/task:1/cpu:0") and r["case"]["batch_per_device"] == [29, 29]'
rows "ledger" 'len(r["memory"]["devices"]) == 2 and all(d[use] == bytes for d in r["memory"]["devices"]
    for use, bytes in d["formula"].items())'
for device in 0 1; do
    ranks 2 verify --strategy pipeline --devices 1 --model mlp:784-16-10 --data synthetic:75 --batch 30 --steps 4 \
        --inject bitflip=$device:2 $small
    expect "a flipped bit on rank $device fails" [ "$code" -eq 1 ]
    rows "at its step" '"step 2" in r["result"]["reason"]'
done

# With whole replicas only rank 0 evaluates, for some seconds; the others receive its signs of life.
ranks 2 run --strategy hybrid --devices 2 --hybrid-replicas 2 --model mlp:8-8-2 --data synthetic:300000 --batch 2 --steps 2 \
    --gate-steps 0 --timeout 1500ms $small
expect "a long evaluation ends in status 0" [ "$code" -eq 0 ]
rows "and has its accuracy" 'r["result"]["status"] == "ok" and "accuracy" in r["train"]'

# All ranks learn at once that rank 0 could not save: the row is joined, and none waits for the timeout.
mkdir gone
(while ! grep -q 'node 0' all 2>/dev/null; do sleep 0.05; done; rm -r gone) &
ranks 2 run --strategy mirrored --devices 1 --model poly --steps 400 --inject delay=0:10ms --log-placement \
    --save gone/parameters.safetensors $small
wait
expect "parameters that cannot be saved end in status 3" [ "$code" -eq 3 ]
rows "the row says so, of both ranks" '"cannot be written" in r["result"]["reason"] and len(r["case"]["devices"]) == 2'

# A place that does not fit its rank's device: the other ranks learn it before they wait, and the sweep continues.
fraction=$("$LOCKSTEP" devices --format json | python3 -c '
import json, sys
print("%.12f" % (20e6 / json.load(sys.stdin)["devices"][0]["capacity"]))')
ranks 2 run --strategy pipeline,hybrid --hybrid-replicas 1 --devices 1 --model mlp:784-4000-10-10,mlp:784-16-10 --data synthetic:100 \
    --batch 20 --steps 2 --gate-steps 0 --memory fraction="$fraction" $small
expect "a place that does not fit ends in status 3" [ "$code" -eq 3 ]
rows "and the other model runs" 'sorted(r["result"]["status"] for r in rows) == ["error", "error", "ok", "ok"] and
    all("bytes are needed, but --memory" in r["result"]["reason"] for r in rows if r["result"]["status"] == "error")'

refused() { # refused WORDS N ARGUMENTS...
    local words=$1
    shift
    ranks "$@" --results none
    expect "status 2" [ "$code" -eq 2 ]
    expect "one line, of rank 0, that has $words" one_line "$words"
}
refused 'replicas of 3 devices.*processes of 2' 3 run --strategy hybrid --devices 2 --hybrid-replicas 2 --model mlp:784-16-10 \
    --data synthetic:50
refused 'model-parallel-place.*several' 2 run --strategy model-parallel --devices 1 --model-parallel-place dense0=cpu:0 \
    --model mlp:784-16-10 --data synthetic:50
refused '5 devices.*4 layers' 5 run --strategy pipeline --devices 1 --model mlp:784-16-10 --data synthetic:50
finish
