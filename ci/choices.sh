#!/bin/bash
# SPDX-License-Identifier: MIT
# What `advise` chooses for GPTs on a platform like nodes of 8 H200, a JSON line for each size and number of devices;
# reports/choices.py draws it. Usage: ci/choices.sh LOCKSTEP > results/choices.jsonl. Takes half a minute a line.
# Durations are a guess: 400 TFLOP/s, some 40% of an H200's peak in bfloat16 (NVIDIA's data sheet: 989).
set -euo pipefail
lockstep=$1
what="64 windows of 2,048 tokens a step, bfloat16, 400 TFLOP/s a device (a guess); nodes of 8 with 450 GB/s, 50 GB/s between them, 141 GB a device"
for model in 125M=12-12-768 350M=24-16-1024 1.3B=24-32-2048; do
    for devices in 1 8 64; do
        { "$lockstep" advise --model "gpt:${model#*=}-2048-50257" --devices "$devices" --devices-per-host 8 --batch 64 \
            --platform two-level:host=1us@450GB/s,net=5us@50GB/s --precision bf16 --memory-limit 141GB \
            --data synthetic:4096 --durations flops=4e14 --results none --format json || true; } |
            jq -sc --arg size "${model%%=*}" --argjson devices "$devices" --arg what "$what" '{size: $size,
                devices: $devices, what: $what} + (.[0].ranking[0] // {} | if .case then {step_ms: (64000 / .samples_per_s),
                samples_per_s, ci95, memory, bound_by, options, case: (.case | del(.devices, .batch_per_device))} else {} end)'
    done
done
