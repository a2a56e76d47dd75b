#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --precision bf16, further layouts: schedules, recomputation, pieces, images (test_bf16.sh).
. "$SOURCE_DIR/bench/tests/lib.sh"
quick="--precision bf16 --steps 2 --warmup 0 --blocks 1 --waterfall no --eval-samples 8 --cpu-devices 4 --results none \
--format jsonl"
gpt="--model gpt:4-2-8-8-24 --data synthetic:44 --batch 8 $quick"

# same WHAT ARGS..: all rows pass the gate, with bytes and memory by formula, and have the digest of single.
same() {
    agree "$@"
    rows "$1: the digest of single" "{r['equivalence']['digest'] for r in rows} == {'$single'}"
}
digest() { single=$(python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())["equivalence"]["digest"])' <out); }

lockstep_ok run $gpt --reduce exact --strategy single
digest
same "replicas, stages" $gpt --reduce exact --strategy mirrored,model-parallel,pipeline --devices 1,2,3
same "shares" $gpt --reduce exact --strategy zero --zero-stage 1,2,3 --devices 2,3
same "shares, repeated" $gpt --reduce exact --strategy zero --zero-stage 3 --recompute full --devices 3
same "hybrid" $gpt --reduce exact --strategy hybrid --devices 4 --hybrid-inner pipeline,zero
same "hybrid, shares" $gpt --reduce exact --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero \
    --zero-stage 1,3
same "schedules" $gpt --reduce exact --strategy pipeline --pipeline-schedule 1f1b,interleaved,zb-h1 --devices 2
same "recomputation" $gpt --reduce exact --strategy single,mirrored,pipeline --recompute mlp,full --devices 1
same "pieces" $gpt --reduce exact --strategy mirrored --gradient-accumulation-steps 2 --devices 1,2
for model in "cifar10 --batch 4" "resnet:8 --batch 16 --sync-bn yes"; do
    lockstep_ok run --model $model --data synthetic:20 $quick --reduce exact --strategy single
    digest
    same "$model" --model $model --data synthetic:20 $quick --reduce exact --strategy mirrored --devices 2
done
finish
