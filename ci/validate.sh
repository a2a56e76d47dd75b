#!/bin/bash
# SPDX-License-Identifier: MIT
# Rows of results/validated.jsonl: what steps over links that sleep take on this machine, measured, and what is predicted.
# Usage: ci/validate.sh LOCKSTEP MACHINE [ROUNDS] >> results/validated.jsonl
# MACHINE names the machine, and what of it was used: "Intel Xeon, 2 cores, AVX2". The machine must be idle: of the rounds
# (1) a case's latest row counts that does not say `noisy`; a case that was noisy in all is left out.
set -eu
lockstep=$1 machine=$2 rounds=${3:-1}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
measure() {
    "$lockstep" run --gate-steps 0 --eval-samples 0 --warmup 5 --steps 40 --blocks 4 --quiet --waterfall no --data synthetic:2000 \
        --results none --format jsonl "$@" >> "$folder/measured.jsonl"
}
links="--link latency=200us,bandwidth=1GB/s --link latency=2ms,bandwidth=100MB/s"
one="--link latency=1ms,bandwidth=500MB/s"
for ((round = 0; round < rounds; round++)); do
    measure --model mlp --strategy mirrored --allreduce ring,halving-doubling --devices 2,4,8 $links
    measure --model mlp --strategy towers,zero,ps --devices 2,4,8 $links
    measure --model mlp:784-512-512-512-512-10 --strategy pipeline --devices 2,4 $one --batch 512
    measure --model mlp --strategy hybrid --hybrid-inner pipeline --hybrid-replicas 2 --devices 4 $one
    measure --model gpt:2-2-64-64-256 --strategy mirrored,tensor-parallel --devices 2,4 --batch 8 $one
    measure --model gpt:4-4-64-64-256 --strategy mirrored,tensor-parallel,pipeline,zero --devices 4 --batch 8 $one
    measure --model lstm-stack:2 --strategy mirrored,pipeline --devices 2 --batch 32 $one
done
jq -c 'select(.result.warnings | index("noisy") | not)' "$folder/measured.jsonl" > "$folder/calm.jsonl"
"$lockstep" results import "$folder/calm.jsonl" --results "$folder/rows.db" >&2
"$lockstep" predict --validate --results "$folder/rows.db" --format jsonl |
    jq -c --arg machine "$machine" 'select(.case) | {machine: $machine, model: .case.model, strategy: .case.strategy,
        devices: (.case.devices | length), allreduce: .case.allreduce, link: .case.link, shared, busy,
        predicted_ms: (.predicted_ms * 1000 | round / 1000), measured_ms: (.measured_ms * 1000 | round / 1000)}'
