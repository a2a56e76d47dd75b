#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Models from files (--model graph:FILE), at length: those of datasets/models that list a registered model's layers
# have its bits; strategies, --resume, parameter files and predictions take them, and two texts of one path do not mix.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cp "$library"/../../datasets/models/*.yaml .
quick="--steps 2 --warmup 0 --blocks 1 --format jsonl --quiet --results"

# pair FILE MODEL OPTIONS...: both train to the same parameters.
pair() {
    local file=$1 model=$2
    shift 2
    # shellcheck disable=SC2086
    lockstep_ok run --model "graph:$file,$model" $quick none --gate-steps 0 "$@"
    rows "$file has the bits of $model" "len(rows) == 2 and len({x['equivalence']['digest'] for x in rows}) == 1 and
        len({(x['train']['loss_last'], x['case']['lr'], x['case']['batch_global'], x['case']['optimizer'])
            for x in rows}) == 1"
}
pair mlp.yaml mlp:784-128-10 --data synthetic:512
pair cnn.yaml cnn --data synthetic:256
pair gpt.yaml gpt:1-2-32-64-256 --data synthetic:64

# Two texts of one path are two cases.
sed 's/128/16/' mlp.yaml >own.yaml
small="--model graph:own.yaml --data synthetic:256 --batch 32"
# shellcheck disable=SC2086
lockstep_ok run $small --strategy mirrored,zero,ps,towers,local-sgd,pipeline,model-parallel,tensor-parallel --devices 2 \
    --micro-splits 2 --reduce exact,fast $quick rows.db
rows "every strategy passes the gate" "len(rows) >= 14 and all(x['result']['status'] == 'ok' for x in rows)"
# shellcheck disable=SC2086
lockstep_ok run $small --strategy mirrored --devices 2 $quick rows.db --resume
rows "a row of this text: --resume runs nothing" "rows == []"
sed -i 's/16/17/' own.yaml
# shellcheck disable=SC2086
lockstep_ok run $small --strategy mirrored --devices 2 $quick rows.db --resume
rows "of another text: it runs" "len(rows) == 1"
lockstep_ok report --results rows.db --out page
expect "both texts are on the page" [ "$(grep -c '^<details class=model><summary>model graph:own.yaml, text ' \
    page/index.html)" -eq 2 ]
expect "as they are" grep -qx '  - dense: 17' page/index.html
# shellcheck disable=SC2086
lockstep_ok run $small $quick none --save own.safetensors
# shellcheck disable=SC2086
lockstep_ok run $small $quick none --load own.safetensors --gate-steps 1
lockstep_ok predict --model graph:residual.yaml --strategy mirrored --devices 8 --durations flops=1e10 \
    --platform flat:latency=1us,bandwidth=1GB/s --results none --format jsonl --quiet
rows "predicted" "r['case']['model'] == 'graph:residual.yaml' and r['time']['step_ms']['median'] > 0"

# Options of batch statistics concern a file that has them.
# shellcheck disable=SC2086
lockstep run $small --sync-bn yes
expect "without batch statistics there is no --sync-bn" one_line "sync-bn: applies to no case"
cat >bn.yaml <<'Y'
{data: cifar10, input: [2, 8, 8], layers: [channels_last, conv: {units: 3, window: 3, pad: centred, bias: no}, bn,
 relu, global_mean_pool, dense: 10, softmax_cross_entropy]}
Y
# shellcheck disable=SC2086
lockstep_ok run --model graph:bn.yaml --data synthetic:64 --batch 8 --strategy mirrored --devices 2 --sync-bn yes \
    --reduce exact $quick none
rows "with them there is" "r['case']['sync_bn'] and r['equivalence']['grade'] == 'exact'"
finish
