#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every strategy and model on fake GPUs (common/device/fake), whole and logical, captured and not, with and without
# peers, in the orders of three seeds. Another seed: FAKE_SEEDS="7 8".
set -euo pipefail
. "$(dirname "$0")/lib.sh"
steps="--steps 2 --warmup 1"
mlp="--model mlp:784-16-10 --batch 32 --data synthetic:320 $steps"
whole=gpu:0+gpu:1+gpu:2+gpu:3
parts=gpu:0/0+gpu:0/1+gpu:0/2+gpu:0/3

equal() { # equal OPTION...: the gate passes
    lockstep verify "$@"
    expect "it is equal (order $LS_FAKE_SEED)" [ "$code" -eq 0 ]
}
# shellcheck disable=SC2086
for LS_FAKE_SEED in ${FAKE_SEEDS:-1 2 3}; do
    export LS_FAKE_SEED
    for devices in "--devices $whole" "--logical-gpus 4 --devices $parts"; do
        for strategy in mirrored zero "ps --variable-device /gpu:0"; do
            equal $mlp $devices --reduce exact --strategy $strategy
        done
        for strategy in towers local-sgd gossip independent pipeline; do
            equal $mlp $devices --strategy $strategy
        done
        equal $mlp $devices --strategy mirrored --bucket-bytes 0 --capture no
    done
    equal $mlp --devices $whole --strategy mirrored --comm nccl
    LS_FAKE_PEERS=no equal $mlp --devices gpu:0+gpu:1+gpu:2 --strategy mirrored --reduce exact
done
export LS_FAKE_SEED=4
two="--devices gpu:0+gpu:1 --strategy mirrored"
# shellcheck disable=SC2086
{
    equal --model poly $steps --devices $whole --strategy mirrored --reduce exact
    equal --model cnn --batch 8 --data synthetic:64 $steps $two
    equal --model cifar10 --batch 4 --data synthetic:16 $steps $two --convolution own
    equal --model cifar10 --batch 4 --data synthetic:16 $steps $two --convolution cudnn
    equal --model resnet:8 --batch 4 --data synthetic:16 $steps $two
    equal --model twin-lstm:8 --batch 4 --data synthetic:16 $steps --devices gpu:0+gpu:1 --strategy model-parallel
    equal --model resnet:8 --batch 4 --data synthetic:16 $steps --devices $whole --strategy hybrid
    # Weight passes, and shares that windows hold: behind them the sums of what they make final.
    equal --model mlp:784-16-12-10-10 --batch 32 --data synthetic:320 $steps --devices $whole --strategy hybrid \
        --hybrid-inner pipeline --hybrid-outer zero --zero-stage 2,3 --pipeline-schedule zb-h1,zb-h2 --reduce exact,fast
    equal --model gpt:2-3-12-9-32 --batch 4 --data synthetic:16 $steps --devices gpu:0+gpu:1+gpu:2 --strategy context-parallel
}
finish
