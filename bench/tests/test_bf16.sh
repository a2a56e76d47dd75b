#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --precision bf16: in exact mode every layout has the digest of single; memory and bytes are those of formulas
# written here; refusals. Further layouts only if thorough.
. "$SOURCE_DIR/bench/tests/lib.sh"
quick="--precision bf16 --steps 2 --warmup 0 --blocks 1 --waterfall no --eval-samples 8 --cpu-devices 4 --results none \
--format jsonl"
gpt="--model gpt:4-2-8-8-24 --data synthetic:44 --batch 8 $quick"
mlp="--model mlp:12-9-8-3 --data synthetic:44 --batch 8 $quick"

# same WHAT ARGS..: all rows pass the gate, with bytes and memory by formula, and have the digest of single.
same() {
    agree "$@"
    rows "$1: the digest of single" "{r['equivalence']['digest'] for r in rows} == {'$single'}"
}
digest() { single=$(python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())["equivalence"]["digest"])' <out); }

lockstep_ok run $gpt --reduce exact --strategy single
digest
rows "18 bytes a parameter" "(lambda d, p: d['parameters'] == 2 * p and d['optimizer'] == 12 * p)(
    rows[0]['memory']['devices'][0], rows[0]['case']['parameters'])"
same "layouts" $gpt --reduce exact --strategy mirrored,pipeline --devices 2
same "shares" $gpt --reduce exact --strategy zero --zero-stage 1,3 --devices 2
rows "shares: 6 + 12 / n and 18 / n bytes a parameter, 6 on the wire" "all(
    [d['parameters'], d['optimizer'], r['traffic']['bytes_sent']] == [2 * p if stage == 1 else p, 6 * p, 6 * p]
    for r, stage in zip(rows, (1, 3)) for d in r['memory']['devices'] for p in [r['case']['parameters']])"

# A joiner gets half of the masters and of two slots, in stage 1 all copies, too.
same "shares of fewer" $gpt --reduce exact --strategy zero --zero-stage 1,3 --devices 2 --elastic join=1:1
rows "shares of fewer: what moves" "all(
    p - 3 <= (e['moved_bytes'] - (2 * p if stage == 1 else 0)) / 6 <= p + 3
    for r, stage in zip(rows, (1, 3)) for e, p in [(r['elastic'], r['case']['parameters'])])"
# Who stays gets the other half, in every stage: 4 (1 + Z) bytes an element.
same "shares of one" $gpt --reduce exact --strategy zero --zero-stage 1 --devices 2 --elastic leave=1:1
rows "shares of one: what moves" "abs(rows[0]['elastic']['moved_bytes'] / 6 - rows[0]['case']['parameters']) <= 3"

# Slices of layers give float32 partial sums; replicas that average, or have an outer optimizer, do so with masters.
lockstep_ok run $gpt --reduce exact --strategy single --micro-splits 2
digest
same "slices" $gpt --reduce exact --strategy tensor-parallel --micro-splits 2 --devices 2 --recompute none,full
same "slices, shares of one" $gpt --reduce exact --strategy hybrid --hybrid-inner tensor-parallel --micro-splits 2 --devices 4 \
    --hybrid-outer zero --elastic leave=1:1
# Fast: a place's part of a sum is rounded, and so is the sum. Blocks, embedding, head: two bytes; losses: three floats.
agree "places" $gpt --strategy tensor-parallel --tensor-parallel-sequence no,yes --devices 2
rows "places: bytes" "(r['traffic']['bytes_sent'], r['case']['allreduce']) == (
    16 * 4 * 8 * 8 * 8 + 2 * 4 * 8 * 8 * 8 + 12 * 2 * 8 * 8, 'owners')"
lockstep run $gpt --strategy tensor-parallel --devices 2 --allreduce ring
expect "a ring is refused" grep -q "with --precision bf16, .ring. would round a sum more than once in a layer that several devices share" err
agree "outer" $gpt --strategy local-sgd --local-sgd-every 2 --local-sgd-outer nesterov --local-sgd-wire float32,bf16 --devices 2
rows "outer: masters, two slots, theta and v; what travels" "all(
    [d['parameters'], d['optimizer'], r['traffic']['bytes_sent'] - p * width] == [2 * p, 20 * p, 0]
    for r, width in zip(rows, (4, 2)) for d in r['memory']['devices'] for p in [r['case']['parameters']])"

if thorough; then
    lockstep_ok run $gpt --reduce exact --strategy single --micro-splits 2
    digest
    same "slices, replicas, stages" $gpt --reduce exact --strategy hybrid --hybrid-inner tensor-parallel --micro-splits 2 \
        --devices 4 --hybrid-replicas 1,2 --hybrid-stages 2
    same "slices, shares" $gpt --reduce exact --strategy hybrid --hybrid-inner tensor-parallel --micro-splits 2 --devices 4 \
        --hybrid-outer zero --zero-stage 1,3
    agree "places" $gpt --strategy tensor-parallel --devices 2 --gradient-accumulation-steps 1,2 --recompute none,full
    agree "places, replicas" $gpt --strategy hybrid --hybrid-inner tensor-parallel --devices 4 --hybrid-outer mirrored,zero \
        --tensor-parallel-sequence no,yes
    agree "places, stages" $gpt --strategy hybrid --hybrid-inner tensor-parallel --devices 4 --hybrid-replicas 1 \
        --hybrid-stages 2
    agree "averages" $gpt --strategy local-sgd --local-sgd-every 1 --devices 2,3
    agree "fragments" $gpt --strategy local-sgd --local-sgd-every 2 --local-sgd-outer sgd --local-sgd-fragments 2 --devices 3
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
    lockstep_ok run --model resnet:8 --batch 16 --sync-bn yes --data synthetic:20 $quick --reduce exact --strategy single
    digest
    same "resnet" --model resnet:8 --batch 16 --sync-bn yes --data synthetic:20 $quick --reduce exact \
        --strategy mirrored,zero --zero-stage 1,3 --devices 2
fi

# A border of 9 values, then 8: two bytes each, there and back, of 8 samples; gradients of variables are float32.
lockstep_ok run $mlp --reduce exact --strategy single
digest
same "mlp" $mlp --reduce exact --strategy mirrored,pipeline --devices 3
rows "mlp: bytes" "[r['traffic']['bytes_sent'] for r in rows if r['case']['strategy'] == 'pipeline'] == [2 * 2 * 8 * 17]"

# Weight decay, in the loss, too, is of masters, of which each device has a share. Rounding flips a unit of these 4
# samples between shards and the whole batch (0.12 of the gradient), which the gate compares again in float32.
cifar="--model cifar10 --data synthetic:54 --batch 4 --seed 3 $quick --reduce exact"
lockstep_ok run $cifar --strategy single
digest
loss=$(python3 -c 'import json, sys; print(repr(json.loads(sys.stdin.readline())["train"]["loss_last"]))' <out)
few="zero --zero-stage 3" places=2
! thorough || few="mirrored,zero --zero-stage 1,3" places=2,3
same "weight decay" $cifar --strategy $few --devices 2
rows "weight decay: the loss" "{r['train']['loss_last'] for r in rows} == {$loss}"

# Products of stored values, where oneDNN has fast ones: the same digest on all layouts; without them, other bits.
large="--model mlp:72-96-64-10 --data synthetic:44 --batch 12 $quick --reduce exact"
by_float32="{r['provenance']['kernels']['bf16'] for r in rows} == {'by float32'}"
XDG_CACHE_HOME=$work/roofs lockstep_ok run $large --strategy single
digest
rows "the roof is that of these products" "[(f'{rate * 1e-9:.6g}', '|cpu bf16|' in key) for key, rate in
    json.load(open('roofs/lockstep/roofs.json')).items()] == [
    (f\"{r['time']['roof_gflops']:.6g}\", 'bf16_product' in r['provenance']['kernels']) for r in rows]"
rows "which products" "all(k['bf16'] == ('by float32' if 'bf16_product' not in k else '%s (%s)' % (
    k['library'].split(' (')[0], k['bf16_product'])) for k in [rows[0]['provenance']['kernels']])"
same "products of stored values" $large --strategy mirrored,pipeline,zero --devices $places
isa=AVX512_CORE
! grep -q avx512_fp16 /proc/cpuinfo || isa=AVX512_CORE_BF16 # slower than float32's
ONEDNN_MAX_CPU_ISA=$isa lockstep_ok run $large --strategy single
rows "no products of stored values" "$by_float32"

# Masters are saved, and rounding them anew gives the same copies.
lockstep_ok run ${mlp/--steps 2/--steps 4} --strategy single --save masters.safetensors
lockstep_ok run $mlp --load masters.safetensors --strategy single

lockstep run --model poly --precision bf16
expect "no kernels" grep -q "no bf16 kernels for the layer polynomial" err
for strategy in ps towers gossip; do
    lockstep run $gpt --strategy $strategy --devices 2
    expect "$strategy is refused" eval '[ "$code" -eq 2 ] && grep -q "does not work with --strategy '$strategy'" err'
done
lockstep run $gpt --strategy hybrid --devices 4 --hybrid-inner context-parallel
expect "positions are refused" grep -q "does not work with --hybrid-inner context-parallel" err
finish
