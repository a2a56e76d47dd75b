#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Gradient accumulation: digests of all strategies by pieces and exchange, in exact mode those of single; in fast mode
# the oracle's bits, and relations between strategies whose orders agree; activations of one piece; bytes by formulas
# that are written here; refusals. An epoch's last batch leaves pieces, and a replica, empty.
. "$SOURCE_DIR/bench/tests/lib.sh"
small="--model mlp:20-16-10 --data synthetic:109 --batch 36 --epochs 2 --warmup 0 --blocks 1 --waterfall no
    --eval-samples 32 --results none --format jsonl --verbose"
gpt="--model gpt:2-2-16-16-40 --data synthetic:40 --batch 16 --steps 3 --warmup 0 --blocks 1 --waterfall no
    --eval-samples 16 --results none --format jsonl --verbose"
P=506 # parameters of mlp:20-16-10

# reference ARGS..: keeps the digest of single in exact mode.
reference() {
    lockstep_ok run "$@" --strategy single --reduce exact
    single=$(python3 -c "import json; print(json.loads(open('out').readline())['equivalence']['digest'])")
}

few=5 some=5 shares=2 counts=5 even=4 groups=4
! thorough || few=2,5 some=3,5 shares=1,2,3 counts=2,5 even=2,4 groups=6
reference $small
for devices in "single --devices 1" "towers,mirrored,zero,ps --devices 3" "model-parallel --devices 2"; do
    agree "exact $devices" $small --reduce exact --gradient-accumulation-steps $few --strategy $devices
    rows "exact $devices: digest of single" "all(r['equivalence']['digest'] == '$single' for r in rows)"
done
agree "exact, ranks" $small --reduce exact --gradient-accumulation-steps 3 --strategy mirrored,zero --ranks 3
rows "exact, ranks: digest of single" "all(r['equivalence']['digest'] == '$single' for r in rows)"
rows "without the waterfall nothing else is timed" "not any('exact_cost' in r['time'] or 'waterfall' in r for r in rows)"

accumulate="--gradient-accumulation-exchange each --gradient-accumulation-steps"
agree "exact, each" $small --reduce exact $accumulate 5 --strategy mirrored,zero --devices 1,3
rows "exact, each: digest of single" "all(r['equivalence']['digest'] == '$single' for r in rows)"
for how in "hybrid --hybrid-inner zero --devices 4" "zero --devices 3"; do
    agree "exact shares $how" $small --reduce exact --bucket-bytes 0 --gradient-accumulation-steps 3 --strategy $how \
        --zero-stage 2,3 --zero-accumulation depth,breadth
    rows "exact shares $how: digest of single" "all(r['equivalence']['digest'] == '$single' for r in rows)"
    thorough || break
done
agree "exact, groups" $small --reduce exact $accumulate 2 --strategy hybrid --hybrid-inner zero --devices $groups
rows "exact, groups: digest of single" "all(r['equivalence']['digest'] == '$single' for r in rows)"

divided="--strategy hybrid --devices 4 --hybrid-inner"
split="$divided tensor-parallel --hybrid-outer zero"
reference $small --micro-splits 4
while read -r how; do
    agree "exact, each, $how" $small --reduce exact --micro-splits 4 --bucket-bytes 0 $accumulate 3 $how
    rows "exact, each, $how: digest of single" "all(r['equivalence']['digest'] == '$single' for r in rows)"
    thorough || break
done <<END
$split --zero-stage 2,3
$divided model-parallel,tensor-parallel --hybrid-outer mirrored,zero
END

agree "single" $small --strategy single --gradient-accumulation-steps 1,3
rows "single: activations of a third of the batch, gradients at most twice" "[(d['activations'], d['gradients'] // 4)
    for r in rows for d in r['memory']['devices']] == [(36 * 292, $P), (12 * 292, 2 * $P)]"
keep pieces
agree "towers" $small --strategy towers,mirrored --devices 3
rows "single in A pieces has the bits of towers on A devices" "rows[0]['equivalence']['digest'] ==
    old('pieces')[1]['equivalence']['digest']"
agree "replicated" $small --strategy towers,mirrored,zero,ps --devices 3 --gradient-accumulation-steps 4
rows "replicated: one order, one digest" "len({r['equivalence']['digest'] for r in rows}) == 1"
agree "full batches" --model mlp:20-16-10 --data synthetic:108 --batch 36 --steps 2 --warmup 0 --blocks 1 --waterfall no \
    --eval-samples 0 --results none --format jsonl --verbose --strategy towers,mirrored,zero --devices 3 \
    --gradient-accumulation-steps 4
rows "full batches: bytes of A = 1" "[r['traffic']['bytes_sent'] for r in rows] == [4 * 4 * $P] * 3"
rows "full batches: row keys" "[(r['case']['gradient_accumulation_steps'],
    r['case'].get('gradient_accumulation_exchange')) for r in rows] == [(4, None), (4, 'last'), (4, 'last')]"

# Bytes of a step by the forms of the study, in a ring of 3 (of HSDP: 2 groups of 2): times 4 P.
full="--model mlp:20-16-10 --data synthetic:108 --batch 36 --steps 2 --warmup 0 --blocks 1 --waterfall no --eval-samples 0
    --results none --format jsonl --verbose --allreduce ring --gradient-accumulation-steps 4"
while IFS='|' read -r form how; do
    agree "$how" $full $how
    rows "$how: bytes" "[r['traffic']['bytes_sent'] for r in rows] == [4 * $P * n for n in $form]"
    rows "$how: gradients" "all(d['gradients'] <= 2 * 4 * $P for r in rows for d in r['memory']['devices'])"
    rows "$how: activations of a piece" "all(d['activations'] == d['formula']['activations'] and
        d['activations'] in (292 * 3, 292 * 9, 292 * 12) for r in rows for d in r['memory']['devices'])"
    keep "fast$((++kept))"
done <<END
[4, 4 * 4]|--strategy mirrored --devices 3 --gradient-accumulation-exchange auto,each
[4, 5 * 2]|--strategy zero --devices 3 --gradient-accumulation-exchange last,each
[5 * 2, 4]|--strategy zero --zero-stage 2 --devices 3 --zero-accumulation depth,breadth
[16, 5 * 2]|--strategy zero --zero-stage 3 --devices 3 --zero-reshard yes,no
[2 * 2 + 2, 5 * 2 + 2]|--strategy hybrid --hybrid-inner zero --devices 4 --gradient-accumulation-exchange last,each
END
agree "abreast" ${full/steps 4/steps 1,5} --strategy zero --zero-stage 2,3 --devices 3 --zero-accumulation breadth
rows "abreast: memory of one piece" "len(rows) == 4 and all(len({json.dumps([d[k] for d in r['memory']['devices'] for k in
    ('parameters', 'gradients', 'optimizer', 'activations', 'communication')]) for r in rows
    if r['case']['zero_stage'] == stage}) == 1 for stage in (2, 3))"
agree "abreast, gpt" $gpt --strategy zero --zero-stage 2 --devices 2 --gradient-accumulation-steps 1,4 --zero-accumulation breadth
rows "abreast: operations of all pieces share one scratch" "(lambda one, four: 0 < four < 1.5 * one)(
    *(r['memory']['devices'][0]['workspace'] for r in rows))"
# Divided replicas, 2: besides, 16 outputs and their gradients cross, or 10 are summed; of a join all have the bias.
for how in "model-parallel 0 16" "tensor-parallel 10 10"; do
    read -r inner twice crossing <<<"$how"
    agree "$inner" $full $divided $inner --hybrid-outer mirrored,zero --gradient-accumulation-exchange last,each
    rows "$inner: bytes" "[r['traffic']['bytes_sent'] - 36 * $crossing * 8 for r in rows] == [
        4 * ($P + $twice) * n for n in (2, 4 * 2, 2, 5)]"
    keep "$inner"
done
agree "split zero" $full $split --zero-stage 2,3 --zero-accumulation depth,breadth
rows "split zero: bytes" "[r['traffic']['bytes_sent'] - 36 * 10 * 8 for r in rows] == [
    4 * ($P + 10) * n for n in (5, 2, 4 * 2, 2)]"
rows "split zero: one order each, and one all" "[r['equivalence']['digest'] for r in rows] == 2 * [
    old('tensor-parallel')[k]['equivalence']['digest'] for k in (1, 0)]"
rows "one order: each of mirrored, zero 1, 2, 3" "len({r['equivalence']['digest'] for r in (old('fast1')[1],
    old('fast2')[1], old('fast3')[0], old('fast4')[0], old('fast4')[1])}) == 1"
rows "one order: last, breadth" "len({r['equivalence']['digest'] for r in (old('fast1')[0], old('fast2')[0],
    old('fast3')[1])}) == 1"
agree "exchanged on ranks" $full --strategy mirrored,zero --ranks 3 --gradient-accumulation-exchange each
rows "ranks: digest of threads" "all(r['equivalence']['digest'] == old('fast1')[1]['equivalence']['digest'] for r in rows)"
agree "tails" $small --bucket-bytes 0 $accumulate 5 --strategy mirrored,zero --devices 3
agree "shares of split layers" $small --gradient-accumulation-steps $some --bucket-bytes 0 $split --zero-stage $shares \
    --zero-accumulation depth,breadth
agree "alone" $small --strategy local-sgd,gossip,independent --devices 3 --gradient-accumulation-steps 4
agree "positions" $gpt --strategy context-parallel --devices 2 --gradient-accumulation-steps 4
axes="--strategy hybrid --hybrid-inner context-parallel,model-parallel,tensor-parallel --gradient-accumulation-steps 3"
agree "replicas of gpt" $gpt $axes --devices 4 --gradient-accumulation-exchange each
if thorough; then
    agree "tails of shares" $small --bucket-bytes 0 --gradient-accumulation-steps 5 --strategy zero --zero-stage 2,3 \
        --devices 3 --zero-accumulation depth,breadth
    agree "groups" $small --bucket-bytes 0 $accumulate 2 --strategy hybrid --hybrid-inner zero --devices 4 --zero-stage 1,2,3
    agree "ps async" $small --strategy ps --ps-mode async --devices 3 --gradient-accumulation-steps 4
    agree "split" $small --strategy tensor-parallel,model-parallel --devices 2 --gradient-accumulation-steps 4
    agree "hybrid" $small --strategy hybrid --hybrid-inner zero,model-parallel,tensor-parallel --devices 4 \
        --gradient-accumulation-steps 4
    agree "replicas of gpt, last" $gpt $axes --devices 4
    agree "replicas of gpt, ranks" $gpt $axes --ranks 4 --devices 1 --gradient-accumulation-exchange each
fi

# Micro-batches of a pipeline's stages are pieces of zero's stages 2 and 3: scatters in each, gathers in each pass that
# does not find a bucket in its window. Units: 2 a layer, 4 on the first stage, 6 on the second, of which 2 are whole.
staged="--strategy hybrid --hybrid-inner pipeline --hybrid-outer zero --bucket-bytes 0"
deep="--model mlp:12-9-8-7-6-3 --data synthetic:45 --batch 14 --epochs 2 --warmup 0 --blocks 1 --waterfall no
    --eval-samples 16 --results none --format jsonl --verbose"
python3 - "$counts" >moved <<'END'
import sys
units = [108, 9, 72, 8], [56, 7, 42, 6, 18, 3]
def moved(m, replicas, stage, schedule, reshard=True):
    all = 0
    for s, sizes in enumerate(units):
        behind = 1 if schedule == "gpipe" else m - (1 - s)  # backward passes behind a forward pass
        again = m * sum(sizes[:-2]) + (m - behind) * sum(sizes[-2:])
        all += m * sum(sizes) + (m * sum(sizes) + again if stage == 3 and reshard else sum(sizes))
    return 4 * (replicas - 1) * all + 2 * 4 * 8 * 14  # and what crosses
print([moved(m, 2, stage, schedule, reshard) for schedule in ("gpipe", "1f1b") for m in map(int, sys.argv[1].split(","))
    for stage, reshard in ((2, 1), (3, 1), (3, 0))])
END
# interleaved, a layer each: a backward pass finds both units only behind a pass of its chunk.
python3 - "$even" >interleaved <<'END'
import sys
def moved(m, stage, reshard=True, p=2, V=2, chunks=(((108, 9), (56, 7)), ((72, 8), (42, 6)))):
    all = 0
    for i, sizes in enumerate(chunks):
        ahead, passes = min(m * V, 2 * (p - i - 1) + (V - 1) * p), []
        chunk = [k % (p * V) // p for k in range(m * V)]
        for k in range(m * V):
            passes += [("F", c) for c in (chunk[:ahead] if k == 0 else [])] + [("F", c) for c in chunk[ahead + k:][:1]]
            passes.append(("B", V - 1 - chunk[k]))
        for c, units in enumerate(sizes):
            lost = sum(now == ("B", c) and before[1] != c for before, now in zip(passes, passes[1:]))
            all += m * sum(units) + ((m + lost) * sum(units) if stage == 3 and reshard else sum(units))
    return 4 * all + 2 * 4 * 14 * (9 + 8 + 7)
print([moved(m, stage, reshard) for m in map(int, sys.argv[1].split(",")) for stage, reshard in ((2, 1), (3, 1), (3, 0))])
END
lockstep_ok run ${deep/epochs 2/steps 2} --allreduce ring $staged --devices 4 --pipeline-microbatches $counts \
    --pipeline-schedule gpipe,1f1b --zero-stage 2,3 --zero-reshard yes,no
rows "stages: bytes" "sorted(r['traffic']['bytes_sent'] for r in rows) == sorted($(cat moved))"
keep stages
lockstep_ok run ${deep/ mlp:* --batch 14 --epochs 2/ mlp:12-9-8-7-6 --data synthetic:45 --batch 14 --steps 2} --allreduce ring \
    $staged --devices 4 --pipeline-microbatches $even --pipeline-schedule interleaved --zero-stage 2,3 --zero-reshard yes,no
rows "interleaved: bytes" "sorted(r['traffic']['bytes_sent'] for r in rows) == sorted($(cat interleaved))"
cp stages.kept out
rows "stages: oracle, and one digest an m" "all(r['equivalence']['oracle'] == 'same bits' for r in rows) and
    len({(r['case']['pipeline_microbatches'], r['equivalence']['digest']) for r in rows}) == len(($counts,))"
rows "stages: shares of gradients and parameters" "all(sum(d[k] for d in r['memory']['devices']) == 4 * 329 *
    (1 if k == 'gradients' or r['case']['zero_stage'] == 3 else 2) for r in rows for k in ('gradients', 'parameters'))"
reference $deep
for how in "--devices 4 --pipeline-microbatches 3" "--devices 4 --pipeline-microbatches 1" "--devices 6 --hybrid-replicas 3 --pipeline-microbatches 4" \
    "--ranks 4 --devices 1 --pipeline-microbatches 3 --capture no"; do
    agree "exact stages $how" $deep --reduce exact $staged --zero-stage 2,3 --pipeline-schedule gpipe,1f1b $how
    rows "exact stages $how: digest of single" "all(r['equivalence']['digest'] == '$single' for r in rows)"
    agree "stages $how" $deep $staged --zero-stage 2,3 --pipeline-schedule gpipe,1f1b $how
    thorough || break
done
for how in "--devices 4 --pipeline-microbatches 4" "--devices 6 --hybrid-replicas 3 --pipeline-microbatches 2 --pipeline-chunks 2" \
    "--ranks 4 --devices 1 --pipeline-microbatches 4 --capture no"; do
    agree "exact interleaved $how" $deep --reduce exact $staged --zero-stage 2,3 --pipeline-schedule interleaved $how
    rows "exact interleaved $how: digest of single" "all(r['equivalence']['digest'] == '$single' for r in rows)"
    thorough || break
done
reference ${gpt/16-16/16-8} --micro-splits 2
agree "three axes" ${gpt/16-16/16-8} --reduce exact --micro-splits 2 --strategy hybrid --hybrid-inner tensor-parallel --hybrid-stages 2 \
    --hybrid-outer zero --zero-stage ${shares/1,2/2} --pipeline-microbatches 3 --pipeline-schedule 1f1b --devices 8 --bucket-bytes 0
rows "three axes: digest of single" "all(r['equivalence']['digest'] == '$single' for r in rows)"
! thorough || agree "layers and branches" $gpt ${staged/pipeline/model-parallel} --zero-stage 2,3 --devices 4 --gradient-accumulation-steps 3 \
    --zero-accumulation depth,breadth

# With one piece the exchange changes nothing: one case; in a table each row has its number of pieces.
lockstep_ok run $small --strategy mirrored --devices 2 --gradient-accumulation-steps 1,2 \
    --gradient-accumulation-exchange last,each
rows "one piece: one case" "[r['case'].get('gradient_accumulation_exchange') for r in rows] == [None, 'last', 'each']"
lockstep_ok run $small --strategy zero --devices 2 --zero-accumulation depth,breadth
rows "one piece: in each stage" "len(rows) == 1 and 'zero_accumulation' not in r['case']"
lockstep_ok run ${small% --format*} --strategy mirrored --devices 2 --gradient-accumulation-steps 1,2
expect "a table has the number of pieces" [ "$(grep -Ec '^ +[12] +[0-9.]+ ' out)" = 2 ]
expect "and the line below" grep -Eq 'gradient-accumulation-steps 1' out

lockstep run $small --strategy mirrored,towers,zero,ps --devices 3 --gradient-accumulation-steps 4 \
    --inject bitflip=1:1
expect "status 1" [ "$code" = 1 ]
rows "a flipped bit: found behind all pieces" "len(rows) == 4 and all(r['result']['status'] == 'failed' for r in rows)"

# refused WORDS ARGS..
refused() {
    lockstep run "${@:2}"
    expect "status 2" [ "$code" = 2 ]
    expect "says: $1" one_line "$1"
}
refused "--pipeline-microbatches 4" $small --strategy pipeline --devices 2 --gradient-accumulation-steps 4
refused "--pipeline-microbatches 4" $small --strategy hybrid --hybrid-inner pipeline --devices 4 \
    --gradient-accumulation-steps 4
refused "at most 12" $small --strategy mirrored --devices 3 --gradient-accumulation-steps 13
refused "at most 5" $small --strategy mirrored --devices 3 --reduce exact --gradient-accumulation-steps 6
refused "'last' needs complete gradients on every device, but with --zero-stage 2 or 3 a device keeps only its share" $small --strategy zero --zero-stage 2 --devices 3 \
    --gradient-accumulation-steps 2 --gradient-accumulation-exchange last
refused "use fewer pieces, or --zero-accumulation depth" --model mlp:20-16-10 --batch 390 --data synthetic:400 \
    --strategy zero --zero-stage 2 --devices 3 --gradient-accumulation-steps 129 --zero-accumulation breadth
refused "more partial sums of the loss than the 127 that" --model mlp:20-16-10 --batch 128 --data synthetic:400 --reduce exact --micro-shards 128 \
    --strategy mirrored $accumulate 128
refused "--zero-stage 2 or 3" $small --strategy zero --devices 2 --gradient-accumulation-steps 2 --zero-accumulation breadth
refused "mirrored, zero or hybrid" $small --strategy towers --gradient-accumulation-exchange each
lockstep run --model resnet:8 --data synthetic:32 --batch 8 --sync-bn yes --gradient-accumulation-steps 2 --results none
expect "status 2" [ "$code" = 2 ]
expect "statistics of the whole batch" one_line "--gradient-accumulation-steps 1"
finish
