#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Recomputation: every strategy has the digest and the loss of --recompute none, and in exact mode those of single;
# memory and bytes are those of formulas written here; the listing names what is repeated; refusals.
. "$SOURCE_DIR/bench/tests/lib.sh"
quick="--steps 2 --warmup 0 --blocks 1 --waterfall no --eval-samples 8 --cpu-devices 4 --results none --format jsonl"
gpt="--model gpt:4-2-8-8-24 --data synthetic:44 --batch 8 $quick"
mlp="--model mlp:12-9-8-3 --data synthetic:44 --batch 8 $quick"
all="--recompute none,mlp,full,2,3"
layers="--recompute none,full,2"

# table WHAT ARGS..: rows that differ in recomputation alone have one digest and one loss.
table() {
    agree "$@"
    rows "$1: digest and loss of none" "(lambda case: all(a['equivalence']['digest'] == b['equivalence']['digest'] and
        a['train']['loss_first'] == b['train']['loss_first'] for a in rows for b in rows if case(a) == case(b)
        and a['case'].get('ps_mode') != 'async'))(lambda r: {k: v for k, v in r['case'].items() if k != 'recompute'})"
}

# Blocks of b sequences: each keeps K bytes, an input 4 b T C; the last unit is not repeated.
table single $gpt $all --strategy single
rows "single: activations by formula" "(lambda kept, x, K, mlp: kept == [kept[0] - saved for saved in (0, 3 * mlp,
    3 * (K - x), 2 * K - x, K - x)] or kept)([r['memory']['devices'][0]['activations'] for r in rows], 4 * 8 * 8 * 8,
    72 * 8 * 8 * 8 + 4 * 8 * 8 * (2 + 4), 24 * 8 * 8 * 8)"
keep single
table "exact, dropout" $gpt $all --reduce exact --dropout 0.2 --strategy single
keep exact
for pieces in 2 1; do
    [ $pieces = 2 ] || thorough || break
    table "exact, dropout, $pieces pieces" $gpt --recompute full,2 --reduce exact --dropout 0.2 \
        --gradient-accumulation-steps $pieces --strategy towers,mirrored,zero,ps --devices 3
    rows "exact, dropout, $pieces pieces: digest of single" "{r['equivalence']['digest'] for r in rows} == {digest('exact')}"
done
table "ragged lengths" $gpt $layers --lengths ragged --strategy mirrored --devices 2
! thorough || table "own means" $gpt --recompute none,full --strategy local-sgd,gossip,independent,ps --ps-mode async --devices 2

# Zero: the gather for backward serves the repeated pass. A unit of N blocks needs more windows at once.
table "zero" $gpt --recompute none,mlp,full --strategy zero --zero-stage 2,3 --devices 2 --gradient-accumulation-steps 1,2
rows "zero: no byte more" "all(len({r['traffic']['bytes_sent'] for r in rows if (r['case'].get('zero_stage'),
    r['case'].get('gradient_accumulation_steps')) == (s, a)}) == 1 for s in (2, 3) for a in (None, 2))"
lockstep run $gpt --strategy zero --zero-stage 3 --devices 2 --bucket-bytes 0 --zero-windows 4
expect "zero: a block's 12 variables, one at a time" [ "$code" -eq 0 ]
lockstep run $gpt --strategy zero --zero-stage 3 --devices 2 --bucket-bytes 0 --zero-windows 11 --recompute full
expect "zero: a repeated block needs 12 windows" grep -q 'needs 12 buckets of parameters at once' err
! thorough || table "hybrid" $gpt $layers --strategy hybrid --hybrid-inner zero --zero-stage 3 --devices 4

# Divided replicas; pieces of stages are repeated also where a unit is a stage's last.
table "stages" $gpt --recompute full,2 --strategy model-parallel,pipeline --devices 2 --pipeline-schedule gpipe,1f1b,interleaved \
    --reduce exact --dropout 0.2
rows "stages: digest of single" "{r['equivalence']['digest'] for r in rows} == {digest('exact')}"
table "slices" $gpt $all --strategy tensor-parallel --devices 2
rows "slices: 2 j - 1 sums for each repeated unit of j blocks" "[r['traffic']['bytes_sent'] -
    rows[0]['traffic']['bytes_sent'] for r in rows] == [8 * 8 * 8 * 8 * sums for sums in (0, 0, 3, 3, 5)]"
table "slices, exact, one device" $gpt $layers --strategy single --reduce exact --micro-splits 2
keep slices
table "slices, exact" $gpt --recompute full,3 --strategy tensor-parallel --devices 2 --reduce exact --micro-splits 2
rows "slices, exact: digest of single" "{r['equivalence']['digest'] for r in rows} == {digest('slices')}"
table "slices, sequence" $gpt $layers --strategy tensor-parallel --devices 2 --tensor-parallel-sequence yes
rows "sequence: the same sums" "[r['traffic']['bytes_sent'] - rows[0]['traffic']['bytes_sent'] for r in rows] == [
    8 * 8 * 8 * 8 * sums for sums in (0, 3, 3)]"
table "positions" $gpt $all --strategy context-parallel --devices 2
rows "positions: 8 j B T C for each repeated unit of j blocks" "[r['traffic']['bytes_sent'] -
    rows[0]['traffic']['bytes_sent'] for r in rows] == [8 * 8 * 8 * 8 * blocks for blocks in (0, 0, 3, 2, 3)]"
table "three axes" $gpt --recompute none,full --strategy hybrid --hybrid-inner tensor-parallel --hybrid-stages 2 --devices 4
# A sum of slices ends a stage, or a chunk, whose window no place may have its output in.
! thorough || table "slices in chunks" --model mlp:20-16-14-12-10 --data synthetic:37 --batch 8 $quick --recompute none,full --strategy hybrid \
    --hybrid-inner tensor-parallel --hybrid-replicas 1 --hybrid-stages 2 --devices 4 --reduce exact --micro-splits 2 \
    --pipeline-schedule interleaved --pipeline-microbatches 2
! thorough || table "slices, zero" $gpt $layers --strategy hybrid --hybrid-inner tensor-parallel --hybrid-outer zero --zero-stage 3 \
    --devices 4

# Other models: layers; batch statistics are taken once.
table "mlp" $mlp $layers --strategy mirrored,pipeline --devices 2 --dropout 0.3
table "resnet" --model resnet:8 --data synthetic:16 --batch 4 $quick --recompute none,full --strategy mirrored --devices 2 --sync-bn no,yes
rows "resnet: less memory" "all(a['memory']['devices'][0]['activations'] > b['memory']['devices'][0]['activations']
    for a in rows for b in rows if 'recompute' not in a['case'] and b['case'].get('recompute') == 'full'
    and a['case']['devices'] == b['case']['devices'])"
table "twin-lstm" --model twin-lstm:8 --data synthetic:16 --batch 2 $quick --recompute none,full --strategy single

lockstep_ok run $gpt --recompute full --strategy single --print-step
expect "listing: units" [ "$(grep -c 'forward again, h\.[0-2]\.ln_1 ' out)" -eq 3 ]
lockstep_ok run $gpt --recompute full --strategy pipeline --devices 2 --print-step
expect "listing: nodes" grep -q 'forward again, h.3.mlp.c_fc, micro-batch 1 ' out
lockstep_ok predict --model gpt:4-2-8-8-24 --batch 8 --recompute full --strategy mirrored --devices 2 \
    --platform flat:latency=10us,bandwidth=1GB/s --results none --format jsonl
rows "predicted" "r['case']['recompute'] == 'full'"

# refuse TEXT ARGS..
refuse() {
    lockstep run --data synthetic:44 --batch 8 $quick "${@:2}"
    expect "refused ${*:2}" [ "$code" -eq 2 ]
    expect "${*:2}: says why" grep -q -- "$1" err
    expect "${*:2}: one line" [ "$(wc -l <err)" -eq 1 ]
}
refuse "more than the model's number of blocks of layers, 4; use --recompute full" --model gpt:4-2-8-8-24 --recompute 5
refuse "2 or more" --model gpt:4-2-8-8-24 --recompute 1
refuse "2 or more" --model gpt:4-2-8-8-24 --recompute most
refuse "scores are never kept" --model gpt:4-2-8-8-24 --recompute selective
refuse "colocate-gradients yes" --model mlp --recompute full --strategy towers --colocate-gradients no
refuse "which the model does not have" --recompute mlp --model mlp:12-9-8-3
finish
