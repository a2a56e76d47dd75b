# SPDX-License-Identifier: MIT
# --clip as a user sees it: a step of SGD moves the parameters by lr times the gradient, so the norm of what moved, tied
# variables once, is the norm of the row; with --clip it is the limit (test_clip_slow.sh: the gate). Exact mode: the norm
# and the parameters have the bits of `single` in every strategy; zero has those of mirrored; sums of squares that are
# exchanged are counted.
# Tolerance: 2e-5 of norms that are computed from float32 parameters; none for bits.
. "$SOURCE_DIR/bench/tests/lib.sh"

cat >norm.py <<'END'
import json, math, sys
from parameters import tensors

before, free, clipped = map(tensors, sys.argv[1:4])
norm = json.load(open(sys.argv[4]))["train"]["gradient_norm"]
moved = [math.sqrt(sum((a - b) ** 2 for n in before for a, b in zip(before[n], after[n]))) / 1000
         for after in (free, clipped)]
assert abs(moved[0] - norm) < 2e-5 * norm, (moved, norm)
assert norm > 0.4 and abs(moved[1] - 0.25) < 2e-5 * 0.25, (moved, norm)
END

few="--warmup 0 --results none --waterfall no --format jsonl"
gpt="--model gpt:2-2-8-8-40 --data synthetic:64 --batch 6 $few --gate-steps 0"
lockstep_ok run $gpt --steps 0 --save before.st
for clip in none 0.25; do
    lockstep_ok run $gpt --steps 1 --optimizer sgd --lr 1000 --clip "$clip" --save "$clip.st"
done
cp out row.json
checks=$((checks + 1))
PYTHONPATH=$library python3 -B norm.py before.st none.st 0.25.st row.json || wrong "the norm of the row is not that of the gradient"

# Every strategy: --clip 0.05 is below the norm in each step.
exact="--reduce exact --micro-shards 6 --steps 3 --clip 0.05"
lockstep_ok run $gpt $exact --strategy single
keep single
lockstep_ok run $gpt $exact --strategy mirrored,zero,pipeline,ps --cpu-devices 3 --devices 3
rows "not the bits of single" "len(rows) == 4 and all(
    x['train']['gradient_norm'] == old('single')[0]['train']['gradient_norm'] > 0.05
    and x['equivalence']['digest'] == old('single')[0]['equivalence']['digest']
    and x['case']['clip'] == 0.05 for x in rows)"
# Gradients and parameters by shares.
lockstep_ok run $gpt $exact --strategy zero --zero-stage 3 --bucket-bytes 1KiB --cpu-devices 3 --devices 3
rows "zero, stage 3" "r['train']['gradient_norm'] == old('single')[0]['train']['gradient_norm']
    and r['equivalence']['digest'] == old('single')[0]['equivalence']['digest']
    and r['traffic']['bytes_sent'] == r['traffic']['bytes_formula']"
# With another order of sums: zero is mirrored, and what it adds to the traffic are the blocks' sums, 8 bytes each.
fast="--steps 3 --clip 0.05 --devices 3 --cpu-devices 3 --allreduce ring"
lockstep_ok run $gpt $fast --strategy mirrored,zero
rows "zero is not mirrored" "rows[0]['train']['gradient_norm'] == rows[1]['train']['gradient_norm']
    and rows[0]['equivalence']['digest'] == rows[1]['equivalence']['digest']"
rows "traffic of the norm" "all(x['traffic']['bytes_sent'] == x['traffic']['bytes_formula'] for x in rows)
    and rows[1]['traffic']['bytes_sent'] - rows[0]['traffic']['bytes_sent'] == 2 * 8 * (1 + 1 + 2 * 12 + 2)"
# Of replicas with a norm each, it is that of the first with samples in the last step, whose one sample the last replica
# has; nothing has moved.
lockstep_ok run --model gpt:2-2-8-8-40 --data synthetic:7 --batch 6 $few --gate-steps 0 --epochs 1 --optimizer sgd --lr 1e-30 --clip 1 \
    --devices 3 --cpu-devices 3 --strategy independent,local-sgd,gossip,ps --ps-mode sync,async --baseline
rows "the norm of an epoch's last sample" "len(rows) == 6 and all(
    abs(x['train']['gradient_norm'] / r['train']['gradient_norm'] - 1) < 2e-5 for x in rows)"
lockstep run $gpt --clip 0
expect "--clip 0" one_line "option: --clip: '0' is not valid"
lockstep run $gpt --clip 1 --strategy ps --ranks 4 --ps-backup-workers 1
expect "backup workers" one_line "option: --ps-backup-workers"
finish
