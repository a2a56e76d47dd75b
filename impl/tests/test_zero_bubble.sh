#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Pipelines whose backward pass is a data pass and a weight pass: the digest of single (exact), that of gpipe (fast), the
# order of passes and the memory by formulas written here, refusals.
. "$SOURCE_DIR/bench/tests/lib.sh"
quick="--steps 2 --warmup 0 --blocks 1 --waterfall no --eval-samples 8 --cpu-devices 4 --results none --format jsonl"
mlp="--model mlp:12-9-8-7-3 --data synthetic:44 --batch 16 $quick"
all="--pipeline-schedule gpipe,1f1b,zb-h1,zb-h2"

# table WHAT ARGS..: in fast mode the digest of gpipe, in exact mode that of single.
table() {
    agree "$1: single" "${@:2}" --strategy single --reduce exact
    keep single
    agree "$1: exact" "${@:2}" --reduce exact $all --strategy pipeline --devices 2,3
    rows "$1: digest of single" "{r['equivalence']['digest'] for r in rows} == {digest('single')}"
    agree "$1: fast" "${@:2}" $all --strategy pipeline --devices 2,3
    rows "$1: digest of gpipe" "all(len({r['equivalence']['digest'] for r in rows if len(r['case']['devices']) == p}) == 1
        for p in (2, 3))"
}

table mlp $mlp
lockstep_ok run ${mlp/--waterfall no/} $all --strategy pipeline --devices 3 --gate-steps 0
rows "in flight" "all(r['pipeline']['in_flight'] == [min(4, {'gpipe': 4, '1f1b': p - i, 'zb-h1': p - i,
    'zb-h2': 2 * (p - i) - 1}[r['case'].get('pipeline_schedule', 'gpipe')]) for i in range(p)]
    for r in rows for p in [3])"
agree "hybrid" $mlp --reduce exact $all --strategy hybrid --hybrid-inner pipeline --devices 4 --hybrid-outer mirrored,zero
rows "hybrid: digest of single" "{r['equivalence']['digest'] for r in rows} == {digest('single')}"

# The listing: stage i of 2 runs the weight pass of micro-batch j - i (zb-h2: j - 2i) behind the data pass of j.
for schedule in zb-h1:F0D0F1D1W0F2D2W1F3D3W2W3 zb-h2:F0D0F1D1F2D2W0F3D3W1W2W3; do
    lockstep_ok run $mlp --strategy pipeline --devices 2 --pipeline-schedule ${schedule%:*} --print-step
    expect "${schedule%:*}: stage 1" [ "$(sed -n 's/backward //; s/.*cpu:1 compute  \([dfw]\)[a-z]*, dense3, micro-batch \([0-9]\).*/\1\2/p' out |
        tr 'dfw\n' 'DFW\0' | tr -d '\0')" = "${schedule#*:}" ]
done

lockstep run $mlp --strategy hybrid --hybrid-inner tensor-parallel --hybrid-stages 2 --devices 4 --pipeline-schedule zb-h1
expect "split layers" grep -q 'zb-h1 cannot be used with split layers' err
lockstep run --model resnet:8 --data synthetic:16 --batch 8 $quick --strategy pipeline --devices 2 --sync-bn yes \
    --pipeline-schedule zb-h2
expect "statistics of the whole batch" grep -q 'zb-h2 cannot be used with --sync-bn yes' err
finish
