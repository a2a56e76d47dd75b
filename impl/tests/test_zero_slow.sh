#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# All stages of zero: in exact mode the digest, losses and accuracy of `single`, in fast mode those of `mirrored` with
# the same algorithm and buckets, for every model, on 1, 2, 3, 5 and 8 devices and on 2 and 3 ranks; in groups of devices
# (hybrid), in exact mode the same, in fast mode the bits of the oracle. Traffic as by formula, and memory to the byte.
# No tolerance.
. "$SOURCE_DIR/bench/tests/lib.sh"

small="--steps 4 --warmup 0 --gate-steps 2 --results none --format jsonl"
told='[[r["train"][k] for k in ("loss_first", "loss_last", "accuracy") if k in r["train"]] + [r["equivalence"]["digest"]] for r in rows]'
counted='all(r["traffic"][k + "_sent"] == r["traffic"][k + "_formula"] for r in rows if "traffic" in r
    for k in ("bytes", "messages")) and all(d[use] == bytes for r in rows for d in r["memory"]["devices"]
    for use, bytes in d["formula"].items())'
groups="--strategy hybrid --hybrid-inner zero"
cells=0
# same WHAT COUNT: the last command has so many rows, all like the first of `like.kept`.
same() {
    cells=$((cells + $2))
    rows "$1" "len(rows) == $2 and all(r['result']['status'] == 'ok' for r in rows)"
    rows "$1: as without shares" "$told == [$(cat like)] * $2"
    rows "$1: counted as by formula" "$counted"
}
like() { # OPTIONS: what the rows of zero must be like
    lockstep_ok run $small "$@"
    python3 -c "import json,sys; rows = [json.loads(l) for l in open('out')]; print($told[0])" >like
}
for model in "mlp:784-16-16-10 --data synthetic:100 --batch 30 --optimizer adam" \
    "poly --data synthetic:100 --batch 30" "cnn --data synthetic:20 --batch 10" \
    "cifar10 --data synthetic:24 --batch 12" "twin-lstm:9 --data synthetic:25 --batch 10" \
    "lstm-stack:2 --data synthetic:25 --batch 10" "gpt:2-2-16-8-64 --data synthetic:25 --batch 10" \
    "resnet:8 --data synthetic:21 --batch 8 --sync-bn yes"; do
    for buckets in 0 20KiB; do
        options="--model $model --bucket-bytes $buckets"
        like --strategy single --model $model --reduce exact
        for stage in 1 2 3; do
            lockstep run $small $options --reduce exact --strategy zero --zero-stage $stage --devices 1,2,3,5,8
            same "$options exact, stage $stage" 5
            without_ranks || [ $buckets = 0 ] || for n in 2 3; do
                "$launcher" $n "$LOCKSTEP" run $small $options --reduce exact --strategy zero --zero-stage $stage \
                    >out 2>err || true
                same "$options exact, stage $stage, $n ranks" 1
            done
            lockstep run $small $options --reduce exact $groups --zero-stage $stage --devices 4,6 --hybrid-replicas 2,3
            same "$options exact, stage $stage, groups" 3
            without_ranks || [ $buckets = 0 ] || {
                "$launcher" 4 "$LOCKSTEP" run $small $options --reduce exact $groups --zero-stage $stage >out 2>err || true
                same "$options exact, stage $stage, groups of ranks" 1
            }
        done
        for devices in 1 2 3 5 8; do
            like --strategy mirrored $options --allreduce ring --devices $devices
            lockstep run $small $options --allreduce ring --strategy zero --zero-stage 1,2,3 --devices $devices
            same "$options fast, $devices devices" 3
        done
        lockstep run $small $options --allreduce ring,direct,halving-doubling $groups --zero-stage 1,2,3 --devices 6 \
            --hybrid-replicas 2,3
        rows "$options fast, groups" "len(rows) == 18 and all(r['equivalence']['oracle'] == 'same bits' for r in rows)"
        rows "$options fast, groups: counted as by formula" "$counted"
        cells=$((cells + 18))
    done
done
echo "$cells cells"
finish
