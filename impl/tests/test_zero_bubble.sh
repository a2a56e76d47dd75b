#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Pipelines whose backward pass is a data pass and a weight pass: the digest of single (exact), that of gpipe (fast), the
# order of passes and the memory by formulas written here, refusals. All schedules and shapes only if thorough.
. "$SOURCE_DIR/bench/tests/lib.sh"
quick="--steps 2 --warmup 0 --blocks 1 --waterfall no --eval-samples 8 --cpu-devices 6 --results none --format jsonl"
mlp="--model mlp:12-9-8-7-3 --data synthetic:44 --batch 16 $quick"
all="--pipeline-schedule gpipe,1f1b,zb-h1,zb-h2"
some="--pipeline-schedule gpipe,zb-h2" stages=3 shapes=6:2:3 models="cnn lstm-stack:2"
! thorough || some=$all stages=2,3 shapes="8:2:2 6:3:2 6:2:3" models="$models twin-lstm:2"

# table WHAT ARGS..: in fast mode the digest of gpipe, in exact mode that of single.
table() {
    agree "$1: single" "${@:2}" --strategy single --reduce exact
    keep single
    agree "$1: exact" "${@:2}" --reduce exact $all --strategy pipeline --devices $stages
    rows "$1: digest of single" "{r['equivalence']['digest'] for r in rows} == {digest('single')}"
    agree "$1: fast" "${@:2}" $all --strategy pipeline --devices $stages
    rows "$1: digest of gpipe" "all(len({r['equivalence']['digest'] for r in rows if len(r['case']['devices']) == p}) == 1
        for p in ($stages,))"
}

table mlp $mlp
lockstep_ok run ${mlp/--waterfall no/} $all --strategy pipeline --devices 3 --gate-steps 0
rows "weight passes that wait" "all(r['pipeline'].get('weights_waiting') == {'zb-h1': [1, 2, 3], 'zb-h2': [1, 3, 4]}.get(
    r['case']['pipeline_schedule']) for r in rows)"
rows "in flight" "all(r['pipeline']['in_flight'] == [min(4, {'gpipe': 4, '1f1b': p - i, 'zb-h1': p - i,
    'zb-h2': 2 * (p - i) - 1}[r['case'].get('pipeline_schedule', 'gpipe')]) for i in range(p)]
    for r in rows for p in [3])"
agree "hybrid" $mlp --reduce exact $some --strategy hybrid --hybrid-inner pipeline --devices 4 --hybrid-outer mirrored,zero
rows "hybrid: digest of single" "{r['equivalence']['digest'] for r in rows} == {digest('single')}"
# ZeRO 2 and 3: units with layers of both kinds, which are summed once, behind the weight passes; what windows still hold.
staged="--strategy hybrid --hybrid-inner pipeline --hybrid-outer zero --zero-stage 2,3"
agree "shares" $mlp --bucket-bytes 0 --reduce exact,fast $some $staged --hybrid-replicas 3 --devices 6
rows "shares: digests of single and gpipe" "{r['equivalence']['digest'] for r in rows if r['case']['reduce'] == 'exact'} == {digest('single')}
    and len({r['equivalence']['digest'] for r in rows}) == 2"
cat >form.py <<'END'
def moved(row, sizes, D, m, B):
    """Bytes a step with a unit for each variable and W = 2: of outputs and their gradients at borders, and of shares."""
    case = row["case"]
    stage_of = [int(place[-1]) for place in case["model_parallel_place"].split(",") if place.startswith("dense")]
    p = stage_of[-1] + 1
    bytes = 2 * 4 * B * sum(sizes[l + 1] for l in range(len(stage_of) - 1) if stage_of[l] != stage_of[l + 1])
    for i in range(p):
        units = [u for l in range(len(stage_of)) if stage_of[l] == i for u in (sizes[l] * sizes[l + 1], sizes[l + 1])]
        ahead = min(m, {"1f1b": p - i - 1, "zb-h1": p - i - 1, "zb-h2": 2 * (p - i) - 2}.get(case.get("pipeline_schedule"), m))
        order = "F" * ahead + "FD" * (m - ahead) + "D" * ahead
        for t, unit in enumerate(units):
            # a data pass gathers all but the last W of the forward pass, and of these, behind another data pass, all but the first W
            again = m if t < len(units) - 2 else behind_data(order) if t > 1 else 0
            bytes += 4 * (D - 1) * unit * (m + 1 if case["zero_stage"] == 2 else 2 * m + again)
    return bytes
def behind_data(order):
    return sum(a + b == "DD" for a, b in zip(order, order[1:]))
END
for shape in $shapes; do
    IFS=: read -r m p D <<<"$shape"
    lockstep_ok run --model mlp:12-9-8-7-6-5-3 --data synthetic:48 --batch 24 --bucket-bytes 0 $quick $all $staged --gate-steps 1 \
        --allreduce ring --devices $((p * D)) --hybrid-replicas "$D" --pipeline-microbatches "$m"
    rows "shares: bytes, m = $m, p = $p" "(lambda g: exec(open('$PWD/form.py').read(), g) or
        all(r['traffic']['bytes_sent'] == g['moved'](r, (12, 9, 8, 7, 6, 5, 3), $D, $m, 24) for r in rows))({})"
done
agree "a smaller last batch, ranks, the norm" ${mlp/--steps 2/--epochs 1} --clip 0.1 --reduce exact,fast --ranks 2 --devices 1 \
    --strategy pipeline $some
rows "ranks: one digest" "all(len({r['equivalence']['digest'] for r in rows if r['case']['reduce'] == mode}) == 1
    for mode in ('exact', 'fast'))"

# Layers of other kinds; the head's variable is the embedding's, on another stage; what weight passes read is kept.
gpt="--model gpt:4-2-8-8-24 --data synthetic:44 --batch 8 --dropout 0.2 --pipeline-schedule gpipe,zb-h2 $quick"
agree "gpt" $gpt --reduce exact --recompute none,full --strategy pipeline --devices 2
rows "gpt: one digest" "len({r['equivalence']['digest'] for r in rows}) == 1"
rows "gpt: recomputation saves memory" "all(a['memory']['devices'][i]['activations'] > b['memory']['devices'][i]['activations']
    for i in (0, 1) for a in rows for b in rows if a['case']['pipeline_schedule'] == b['case']['pipeline_schedule'] and
    (a['case'].get('recompute', 'none'), b['case'].get('recompute')) == ('none', 'full'))"
keep single
agree "gpt: units of both kinds" $gpt --reduce exact $staged --devices 4
rows "gpt: units of both kinds: digest of single" "{r['equivalence']['digest'] for r in rows} == {digest('single')}"
for model in $models; do
    agree "$model" --model $model --data synthetic:4 --batch 2 $quick --pipeline-microbatches 2 --reduce exact --strategy pipeline --devices 2 \
        --pipeline-schedule gpipe,zb-h1,zb-h2
    rows "$model: one digest" "len({r['equivalence']['digest'] for r in rows}) == 1"
done
agree "clipping" $gpt --clip 0.01 --strategy pipeline --devices 2
rows "clipping: digest of gpipe" "len({r['equivalence']['digest'] for r in rows}) == 1"

# predict: equal stages without network cost take what the closed forms say.
for weights in 3 9; do
    { printf 'name: even\nbatch: 12\nsource: test\nlayers:\n'
      printf -- '  - {name: l%s, params: 9, forward: 48ms, backward: '$((60 + 12 * weights))'ms, weights: '$((12 * weights))'ms}\n' 0 1 2
    } >even.yaml
    lockstep_ok predict --model profile:even.yaml --strategy pipeline --devices 3 --pipeline-microbatches 12 $all --results none \
        --platform flat:latency=0us,bandwidth=1e9GB/s --format jsonl
    rows "predicted, W = $weights" "all(abs(r['time']['step_ms']['median'] / (12 * (9 + $weights) + 2 * max({'gpipe': (9 + $weights,),
        '1f1b': (9 + $weights,), 'zb-h1': (4, 5, 9 - $weights), 'zb-h2': (4, 1, 9 - 2 * $weights)}[r['case']['pipeline_schedule']])) - 1)
        < 1e-6 for r in rows)"
done
# A message lands while the part still has no memory for the micro-batch: its latency costs the first ones only.
for m in 12 24; do
    lockstep_ok predict --model profile:even.yaml --strategy pipeline --devices 3 --scaling strong --batch $m --pipeline-microbatches $m \
        --pipeline-schedule zb-h1,zb-h2 --results none --platform flat:latency=1ms,bandwidth=1e9GB/s --format jsonl
    [ $m = 24 ] || keep fewer
done
rows "a micro-batch more takes its passes alone" "all(abs((r['time']['step_ms']['median'] - old('fewer')[i]['time']['step_ms']['median']) / 12 / 18 - 1)
    < 1e-6 for i, r in enumerate(rows))"
# The picture of a step: a box for each pass of 3 stages over 12 micro-batches, the stages' backgrounds, the legend's four and the page.
# Chunks differ in colour.
boxes() { python3 -B "$SOURCE_DIR/reports/timeline.py" step step=step.json >step.svg && grep -c '<rect' step.svg; }
lockstep_ok predict --model profile:even.yaml --strategy pipeline --devices 3 --pipeline-microbatches 12 --pipeline-schedule zb-h1 --results none \
    --platform flat:latency=1us,bandwidth=1e9GB/s --steps 1 --trace step.json
expect "predicted: a picture" [ "$(boxes)" -eq $((3 * 3 * 12 + 3 + 5)) ]
lockstep_ok trace $(sed 's/--steps.*--waterfall no --eval-samples 8/--steps 4/; s/--format jsonl//' <<<"$mlp") --strategy pipeline --devices 3 \
    --pipeline-schedule zb-h2 --trace-steps 1 --out step.json --quiet
expect "measured: a picture" [ "$(boxes)" -eq $((3 * 3 * 4 + 3 + 5)) ]
lockstep_ok trace --model mlp:12-9-8-7-3 --data synthetic:44 --batch 16 --strategy pipeline --devices 2 --cpu-devices 2 \
    --pipeline-schedule interleaved --trace-steps 1 --out step.json --quiet
boxes >/dev/null
expect "measured: two shades of forward and backward" [ "$(grep -o 'fill="#[0-9a-f]*"' step.svg | sort -u | wc -l)" -eq 5 ]
printf 'name: bad\nbatch: 1\nsource: test\nlayers:\n  - {name: a, params: 9, forward: 1ms, backward: 1ms, weights: 2ms}\n' >bad.yaml
lockstep predict --model profile:bad.yaml --strategy single
expect "a weight pass longer than the backward pass" grep -q "is longer than .backward:" err

# The listing: stage i of 2 runs the weight pass of micro-batch j - i (zb-h2: j - 2i) behind the data pass of j.
for schedule in zb-h1:F0D0F1D1W0F2D2W1F3D3W2W3 zb-h2:F0D0F1D1F2D2W0F3D3W1W2W3; do
    lockstep_ok run $mlp --strategy pipeline --devices 2 --pipeline-schedule ${schedule%:*} --print-step
    expect "${schedule%:*}: stage 1" [ "$(sed -n 's/backward //; s/.*cpu:1 compute  \([dfw]\)[a-z]*, dense3, micro-batch \([0-9]\).*/\1\2/p' out |
        tr 'dfw\n' 'DFW\0' | tr -d '\0')" = "${schedule#*:}" ]
done

lockstep run $mlp --strategy hybrid --hybrid-inner tensor-parallel --hybrid-stages 2 --devices 4 --pipeline-schedule zb-h1
expect "split layers" grep -q "zb-h1. cannot be used with --hybrid-stages" err
lockstep run --model resnet:8 --data synthetic:16 --batch 8 $quick --strategy pipeline --devices 2 --sync-bn yes \
    --pipeline-schedule zb-h2
expect "statistics of the whole batch" grep -q '.zb-h2. cannot be used with --sync-bn yes' err
finish
