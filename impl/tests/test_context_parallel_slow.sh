#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# context-parallel: the bits of its oracle on 2, 3 and 4 places, even and uneven, for each algorithm, in one process and
# over ranks; traffic as by formula, memory to the byte, and activations in proportion to the positions of a place.
# No tolerance.
. "$SOURCE_DIR/bench/tests/lib.sh"

context="--strategy context-parallel --warmup 0 --results none --format jsonl --cpu-devices 8"
good='all(r["result"]["status"] == "ok" and r["equivalence"]["grade"] == "bounded" for r in rows)'
counted='all(r["traffic"][k + "_sent"] == r["traffic"][k + "_formula"] for r in rows if "traffic" in r for k in ("bytes", "messages")) and
    all(d[use] == bytes for r in rows for d in r["memory"]["devices"] for use, bytes in d["formula"].items())'
# Even parts; 4 places of 9 heads and 33 positions: neither is divided evenly; 4 of 4 heads and 8 positions: blocks of one.
for model in gpt:2-12-24-24-64 gpt:2-9-18-33-40 gpt:1-4-8-8-32; do
    lockstep_ok run $context --model $model --data synthetic:25 --batch 10 --steps 4 --devices 1,2,3,4 --clip 0.05 \
        --allreduce ring,direct,tree,halving-doubling,flat
    rows "$model" "len(rows) == 20 and $good and $counted"
    rows "$model: a digest for each algorithm's order" "len({r['equivalence']['digest'] for r in rows
        if r['case']['devices'] == ['cpu:0', 'cpu:1']}) == 1"
    lockstep_ok run $context --model $model --data synthetic:25 --batch 10 --epochs 2 --devices 3 --bucket-bytes 0,auto \
        --optimizer sgd,adam
    rows "$model, an epoch's smaller batch" "len(rows) == 4 and $good and $counted"
    lockstep_ok run ${context/context-parallel/hybrid --hybrid-inner context-parallel} --model $model \
        --data synthetic:25 --batch 10 --epochs 1 --devices 4,8 --allreduce ring,direct
    rows "$model, two replicas" "len(rows) == 4 and $good and $counted"
done
# Bytes: two all-to-alls forward and two backward, of all but each place's own heads of its own positions; and a ring.
lockstep_ok run $context --model gpt:2-4-16-8-64 --data synthetic:25 --batch 10 --steps 2 --devices 4 --allreduce ring
rows "an all-to-all's bytes" "r['traffic']['bytes_sent'] == 2 * 8 * 4 * 10 * 8 * 16 * 3 // 4 + 2 * 3 * 4 * 7744"
rows "its messages" "r['traffic']['messages_sent'] == 2 * 4 * 4 * 3 + 2 * 3 * 4"
# Activations in proportion to the positions of a place: those of one device, and what is dealt and collected: q, k, v,
# the output and their gradients; but those of a place's own parts have one memory for both blocks.
lockstep_ok run $context --model gpt:2-4-32-1024-64 --data synthetic:8 --batch 2 --steps 1 --devices 1,2,4
rows "memory by positions" "len(rows) == 3 and $counted and all(d['activations'] * c ==
    rows[0]['memory']['devices'][0]['activations'] + (c > 1) * 4 * 2 * 1024 * 32 * (2 * 8 * (3 - 1 / c) - 4 / c)
    for r in rows for c in [len(r['case']['devices'])] for d in r['memory']['devices'])"
# Devices without shared memory, in one program, not captured, ranks of one process, several processes; a flipped bit.
few="--model gpt:2-3-12-14-32 --data synthetic:25 --batch 7 --epochs 2"
for how in "" "--link latency=20us,bandwidth=1GB/s" "--comm device" "--capture no" "--cores-per-device 2" "--ranks 3"; do
    devices=3
    [ "$how" != "--ranks 3" ] || devices=1
    lockstep_ok run $context $few --devices $devices $how --allreduce tree
    rows "$how" "len(rows) == 1 and $good and $counted"
    python3 -c "import json; r = json.load(open('out')); print(r['equivalence']['digest'], r['train']['accuracy'])" >>digests
done
without_ranks || for n in 2 3; do
    "$launcher" $n "$LOCKSTEP" run $context $few --allreduce tree >out 2>err || true
    rows "$n processes" "len(rows) == 1 and $good and $counted"
    [ $n -lt 3 ] || python3 -c "import json; r = json.load(open('out')); print(r['equivalence']['digest'], r['train']['accuracy'])" >>digests
done
without_ranks || {
    "$launcher" 2 "$LOCKSTEP" run ${context/context-parallel/hybrid --hybrid-inner context-parallel} $few --devices 2 >out 2>err || true
    rows "two replicas in two processes" "len(rows) == 1 and $good and $counted"
    "$launcher" 4 "$LOCKSTEP" run ${context/context-parallel/hybrid --hybrid-inner context-parallel} $few >out 2>err || true
    rows "two replicas in four processes" "len(rows) == 1 and $good and $counted"
}
expect "one digest and accuracy however it runs" [ "$(sort -u digests | wc -l)" -eq 1 ]
lockstep run $context $few --devices 3 --inject bitflip=0:1 --inject bitflip=2:1
rows "flipped bits" "len(rows) == 2 and all('step 1' in r['equivalence']['oracle'] for r in rows)"
# Files hold the whole model.
lockstep_ok run $context $few --devices 2 --save a.safetensors
lockstep_ok run $context $few --devices 3 --load a.safetensors --save b.safetensors
finish
