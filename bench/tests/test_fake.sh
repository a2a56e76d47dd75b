#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The program on fake GPUs (common/device/fake; preset fake): synchronous strategies have the bits of `single`, with
# NCCL's sums they are bounded. test_fake_slow.sh has all strategies, models and more orders.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
small="--model mlp:784-16-10 --batch 32 --data synthetic:320 --steps 2 --warmup 1"

lockstep_ok devices
expect "eight GPUs, of which no figure is a GPU's" eval '[ "$(grep -c "^gpu:[0-7] .*no figure of it" out)" -eq 8 ]'
# shellcheck disable=SC2086
LS_FAKE_SEED=2 lockstep_ok verify $small --strategy mirrored --reduce exact --devices gpu:0+gpu:1
expect "the bits of single" grep -q '^mirrored, exact: .* the bits of single' out
# shellcheck disable=SC2086
lockstep_ok verify $small --strategy mirrored --comm nccl --devices gpu:0+gpu:1 --verbose
# shellcheck disable=SC2086
lockstep_ok verify $small --devices gpu:0 --precision bf16 # its kinks are compared on the host
lockstep_ok verify --model gpt:1-2-16-8-32 --data synthetic:8 --batch 2 --steps 1 --warmup 0 --devices gpu:0 --precision bf16 \
    --results none --format jsonl
expect "products are too small, attention is not" grep -q '"bf16": *"cuBLASLt 1[0-9.]* (attention)"' out
# shellcheck disable=SC2086
XDG_CACHE_HOME=$work/roofs lockstep_ok run $small --devices gpu:0 --results none --format jsonl
expect "a roof is of the library that is loaded" grep -q '|cuBLASLt 1[0-9.]*|float32|' roofs/lockstep/roofs.json

finish
