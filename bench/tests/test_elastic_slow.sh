#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Elastic replicas, the table of histories: models, layouts and ways to compute, each with replicas that leave, join and
# die in turns; in fast mode with the oracle's bits, in exact mode with the digest of single. A run over 4, 3, 4 replicas
# and its picture.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

base="--results none --format jsonl --eval-samples 0 --warmup 1 --steps 9"
mlp="--model mlp:20-16-8-3 --data synthetic:70 --batch 16 --lr-schedule cosine --clip 0.5"
gpt="--model gpt:2-2-16-16-32 --data synthetic:64 --batch 16 --dropout 0.1 --lengths ragged"
cifar="--model cifar10 --data synthetic:32 --batch 8"
resnet="--model resnet:8 --data synthetic:32 --batch 8 --sync-bn yes"
cat >table <<'T'
mlp gpt cifar resnet | --strategy mirrored --devices 4 --elastic leave=3:2,join=3:5,leave=0:7
mlp gpt cifar | --strategy zero --devices 3 --elastic join=0:2,leave=1:4,join=1:8
mlp gpt | --strategy zero --zero-stage 2 --devices 4 --elastic leave=1:1,leave=2:3,join=1:6 --gradient-accumulation-steps 2
mlp gpt cifar | --strategy zero --zero-stage 3 --devices 3 --elastic leave=2:3,join=2:6 --recompute full
mlp gpt | --strategy mirrored --devices 4 --elastic leave=0:3 --inject kill=2:3 --on-failure shrink
mlp gpt | --strategy mirrored --ranks 2 --devices 2 --inject kill=0:9 --on-failure shrink
mlp gpt | --strategy hybrid --hybrid-inner pipeline --hybrid-replicas 3 --pipeline-microbatches 2 --devices 6 --elastic leave=1:2,join=1:5
mlp gpt | --strategy hybrid --hybrid-inner pipeline --hybrid-outer zero --zero-stage 3 --hybrid-replicas 2 --pipeline-microbatches 2 --devices 4 --elastic leave=1:2,join=1:5
mlp gpt | --strategy hybrid --hybrid-inner zero --zero-stage 2 --hybrid-replicas 3 --devices 6 --elastic leave=0:4,join=0:6
mlp | --strategy mirrored --devices 3 --elastic leave=0:4,join=0:6 --precision bf16
mlp | --strategy hybrid --hybrid-inner model-parallel --hybrid-replicas 2 --ranks 2 --devices 2 --inject kill=1:4 --on-failure shrink
T
while IFS='|' read -r models options; do
    for model in $models; do
        for reduce in fast exact; do
            lockstep_ok verify $base ${!model} $options --reduce $reduce
            rows "$reduce: $model: $options" "r['result']['status'] == 'ok' and r['equivalence']['oracle'] == 'same bits'
                and r['equivalence']['steps'] >= 10 and ('$reduce' == 'fast'
                    or r['equivalence']['digest'] == r['equivalence']['reference_digest'])"
        done
    done
done <table

lockstep_ok run ${base/steps 9/steps 60} $mlp --strategy mirrored --devices 4 --elastic leave=3:20,join=3:40 --verbose
rows "a time and a loss of each step" 'len(r["time"]["steps_ms"]) == len(r["train"]["losses"]) == 60'
cp out rows.jsonl
lockstep report --results rows.jsonl --out page
expect "a picture of step time and loss" test "$(grep -c '^"\(ms of a step\|loss\)",' page/elastic.csv)" -eq 120
expect "and of 4, 3, 4 replicas" test "$(sed -n 's/^"replicas",[0-9]*,\([0-9]*\)[.,].*/\1/p' page/elastic.csv | uniq -c | tr -s ' \n' ' ')" = " 19 4 20 3 21 4 "
finish
