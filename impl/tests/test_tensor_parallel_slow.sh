#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tensor-parallel: in exact mode the digest, losses, accuracy and norm of `single` with as many slices, on 1, 2, 3, 5 and
# 8 devices, and on 2 and 3 ranks; in fast mode the bits of its oracle for each algorithm; traffic as by formula, memory
# to the byte; parameters are saved and loaded as those of the whole model. No tolerance.
. "$SOURCE_DIR/bench/tests/lib.sh"

small="--steps 4 --warmup 0 --gate-steps 2 --results none --format jsonl --cpu-devices 8"
told='[[r["train"][k] for k in ("loss_first", "loss_last", "accuracy", "gradient_norm") if k in r["train"]] + [r["equivalence"]["digest"]] for r in rows]'
counted='all(r["traffic"][k + "_sent"] == r["traffic"][k + "_formula"] for r in rows if "traffic" in r
    for k in ("bytes", "messages")) and all(d[use] == bytes for r in rows for d in r["memory"]["devices"]
    for use, bytes in d["formula"].items())'
cells=0
# same WHAT COUNT: the last command has so many rows, all like that of the last `like`.
same() {
    cells=$((cells + $2))
    rows "$1" "len(rows) == $2 and all(r['result']['status'] == 'ok' for r in rows)"
    rows "$1: as on one device" "$told == [$(cat like)] * $2"
    rows "$1: counted as by formula" "$counted"
}
like() { # OPTIONS: what the rows must be like
    lockstep_ok run $small "$@"
    python3 -c "import json,sys; rows = [json.loads(l) for l in open('out')]; print($told[0])" >like
}
split="--strategy tensor-parallel"
for model in "mlp:784-19-16-17-10 --data synthetic:100 --batch 30 --optimizer adam" \
    "gpt:2-9-18-8-33 --data synthetic:25 --batch 10 --clip 0.05"; do
    options="--model $model --reduce exact"
    for slices in 3 8; do
        like --strategy single $options --micro-splits $slices
        lockstep run $small $options $split --micro-splits $slices --devices 1,2,3
        same "$options, $slices slices" 3
        [ $slices -lt 8 ] || {
            lockstep run $small $options $split --micro-splits $slices --devices 5,8
            same "$options, $slices slices" 2
        }
        lockstep run $small $options --strategy mirrored,pipeline,model-parallel --micro-splits $slices --devices 3
        same "$options, other strategies" 3
        lockstep run $small $options --strategy hybrid --hybrid-inner tensor-parallel --micro-splits $slices --devices 6 \
            --hybrid-replicas 2,3
        same "$options, hybrid" 2
        lockstep run $small $options --strategy hybrid --hybrid-inner tensor-parallel --micro-splits $slices --devices 4,8 \
            --hybrid-stages 2 --pipeline-microbatches 3 --pipeline-schedule 1f1b
        same "$options, three axes" 2
        without_ranks || for n in 2 3; do
            "$launcher" $n "$LOCKSTEP" run $small $options $split --micro-splits $slices >out 2>err || true
            same "$options, $slices slices, $n ranks" 1
        done
    done
    lockstep run $small --model $model --strategy hybrid --hybrid-inner tensor-parallel --devices 6 --hybrid-replicas 2,3 \
        --allreduce ring,direct --bucket-bytes 0,1KiB
    rows "fast: $model, hybrid" "len(rows) == 8 and all(r['result']['status'] == 'ok' for r in rows)"
    rows "fast: $model, hybrid: counted as by formula" "$counted"
    lockstep run $small --model $model --strategy hybrid --hybrid-inner tensor-parallel --devices 4,8 --hybrid-stages 2 \
        --pipeline-schedule gpipe,1f1b --allreduce ring
    rows "fast: $model, three axes" "len(rows) == 4 and all(r['result']['status'] == 'ok' for r in rows)"
    rows "fast: $model, three axes: counted as by formula" "$counted"
    lockstep run $small --model $model $split --devices 3,5 --allreduce ring,direct,tree,halving-doubling,flat
    rows "fast: $model" "len(rows) == 10 and all(r['result']['status'] == 'ok' for r in rows)"
    rows "fast: $model: counted as by formula" "$counted"
    cells=$((cells + 22))
done
# Norms and residuals by blocks of positions, uneven ones, too; alone, over ranks, between replicas.
gpt="--model gpt:2-9-18-8-33 --data synthetic:25 --batch 10 --tensor-parallel-sequence yes"
lockstep run $small $gpt $split --devices 2,3,5,8 --allreduce ring,direct,halving-doubling --clip 0.05
rows "positions" "len(rows) == 12 and all(r['result']['status'] == 'ok' for r in rows)"
rows "positions: counted as by formula" "$counted"
lockstep_ok run $small $gpt $split --devices 5 --allreduce ring
rows "positions: a ring's bytes" "r['traffic']['bytes_sent'] == (32 * 2 + 16) * 4 * 10 * 8 * 18 + 12 * 5 * 4 * 10 * 8 + 8 * 4 * (6 * 2 + 2) * 18"
for how in "--comm device" "--link latency=20us,bandwidth=1GB/s --capture no"; do
    lockstep run $small $gpt $split --devices 3 $how
    rows "positions: $how" "len(rows) == 1 and r['result']['status'] == 'ok'"
    rows "positions: $how: counted as by formula" "$counted"
done
lockstep run --epochs 2 --warmup 0 --results none --format jsonl --cpu-devices 3 $gpt $split --devices 3
rows "positions: tail" "len(rows) == 1 and r['result']['status'] == 'ok'"
lockstep run $small $gpt --strategy hybrid --hybrid-inner tensor-parallel --devices 6 --hybrid-replicas 2,3 --allreduce ring
rows "positions: hybrid" "len(rows) == 2 and all(r['result']['status'] == 'ok' for r in rows)"
without_ranks || {
    "$launcher" 3 "$LOCKSTEP" run $small $gpt $split --allreduce ring >out 2>err || true
    rows "positions: 3 ranks" "len(rows) == 1 and r['result']['status'] == 'ok'"
}
# Weight decay, whose part of the loss is summed by slices, and moving averages.
decays="--model cifar10 --data synthetic:24 --batch 12"
like --strategy single $decays --reduce exact --micro-splits 5
lockstep run $small $decays --reduce exact --micro-splits 5 --strategy tensor-parallel,pipeline --devices 3
same "$decays" 2
lockstep run $small $decays --strategy tensor-parallel --devices 3 --clip 0.5
rows "fast: $decays" "len(rows) == 1 and r['result']['status'] == 'ok'"
# An epoch's smaller batch; devices without shared memory, or in one program; not captured; a flipped bit.
mlp="--model mlp:784-19-16-17-10 --data synthetic:50 --batch 20 --warmup 0 --results none --format jsonl --cpu-devices 3"
for how in "" "--link latency=20us,bandwidth=1GB/s" "--comm device" "--capture no" "--ranks 3"; do
    devices=3
    [ "$how" != "--ranks 3" ] || devices=1
    lockstep run $mlp --epochs 2 $split --devices $devices --reduce fast,exact --micro-splits 4 $how
    rows "tail: $how" "len(rows) == 2 and all(r['result']['status'] == 'ok' for r in rows)"
done
lockstep run $mlp --steps 3 $split --devices 3 --reduce fast,exact --micro-splits 4 --inject bitflip=0:1 --inject bitflip=2:1
rows "flipped bits" "len(rows) == 4 and all('step 1' in r['equivalence']['oracle'] for r in rows)"
# A ring's bytes: 2 sums of each block forward, and 2 backward; one of the embedding's outputs, one of the head's
# inputs' gradients, and the loss's three numbers of each position and place.
lockstep_ok run --model gpt:2-4-16-8-64 --data synthetic:25 --batch 10 $small $split --devices 4 --allreduce ring
rows "a ring's bytes" "r['traffic']['bytes_sent'] == (32 * 2 + 8 + 8) * 3 * 10 * 8 * 16 + 12 * 4 * 3 * 10 * 8"
# Files hold the whole model, whatever the slices.
lockstep_ok run $mlp --steps 4 $split --devices 3 --reduce exact --micro-splits 4 --save a.safetensors
lockstep_ok run $mlp --steps 4 --strategy single --reduce exact --micro-splits 4 --save b.safetensors
expect "another file than one device's" cmp a.safetensors b.safetensors
for strategy in single tensor-parallel; do
    lockstep_ok run $mlp --steps 2 --strategy $strategy --reduce exact --micro-splits 4 --load a.safetensors
    cp out "$strategy"
done
rows "loaded otherwise" "[json.loads(open(f).read())['equivalence']['digest'] for f in ('single', 'tensor-parallel')][0] == r['equivalence']['digest']"
echo "$cells cells"
finish
