# SPDX-License-Identifier: MIT
# --clip with the gate, in every strategy: several servers, divided replicas, replicas that update alone, asynchronous
# servers, moving statistics, an epoch's smaller batch, uncaptured steps, ranks of MPI. No tolerance: bits and bytes.
. "$SOURCE_DIR/bench/tests/lib_mpi.sh"
few="--warmup 0 --results none --waterfall no --format jsonl"
gpt="--model gpt:2-2-8-8-40 --data synthetic:64 --batch 6 $few"
exact="--reduce exact --micro-shards 6 --steps 3 --clip 0.05"
same="r['train']['gradient_norm'] == old('single')[0]['train']['gradient_norm'] and r['equivalence']['pass']
    and r['equivalence']['digest'] == old('single')[0]['equivalence']['digest']
    and r['traffic']['bytes_sent'] == r['traffic']['bytes_formula']
    and r['traffic']['messages_sent'] == r['traffic']['messages_formula']"
lockstep_ok run $gpt $exact --strategy single
keep single
for case in "mirrored --devices 3" "towers --devices 2 --towers-staged yes" "towers --devices 3 --colocate-gradients no" \
    "zero --devices 4 --bucket-bytes 1KiB" "zero --devices 2 --capture no" "pipeline --devices 3" \
    "pipeline --devices 2 --pipeline-schedule 1f1b" "model-parallel --devices 3" "hybrid --devices 4" \
    "hybrid --devices 6 --hybrid-replicas 2 --hybrid-inner pipeline --pipeline-microbatches 2" \
    "ps --devices 3" "ps --ranks 5 --ps-servers 3" "ps --ranks 3 --ps-servers 2 --ps-colocate yes" \
    "ps --ranks 4 --ps-servers 2 --ps-shard variable"; do
    lockstep_ok run $gpt $exact --cpu-devices 6 --strategy $case
    rows "$case: not the bits of single" "$same"
done
for case in "mirrored" "zero" "ps --ps-servers 2"; do
    ranks_ok 3 run $gpt $exact --strategy $case
    rows "ranks, $case: not the bits of single" "$same"
done
for stage in 1 2 3; do
    for buckets in 1KiB 0; do
        zero="--strategy zero --zero-stage $stage --bucket-bytes $buckets"
        lockstep run $gpt $exact $zero --cpu-devices 5 --devices 2,3,5
        rows "$zero: not the bits of single" "len(rows) == 3 and all($same for r in rows)"
        lockstep run $gpt --steps 3 --clip 0.05 --cpu-devices 5 --devices 2,3,5 --allreduce ring $zero
        rows "$zero, fast" "len(rows) == 3 and all(r['equivalence']['pass']
            and r['traffic']['bytes_sent'] == r['traffic']['bytes_formula'] for r in rows)"
    done
    ranks_ok 2 run $gpt $exact --strategy zero --zero-stage $stage
    rows "ranks, zero, stage $stage: not the bits of single" "$same"
done
for case in "pipeline" "hybrid --devices 2" "model-parallel"; do
    ranks_ok 2 run $gpt $exact --strategy $case
    rows "ranks, $case: not the bits of single" "$same"
done
for algorithm in ring halving-doubling direct; do
    lockstep_ok run $gpt --steps 3 --clip 0.05 --devices 3 --cpu-devices 3 --allreduce $algorithm --strategy mirrored,zero
    rows "$algorithm: zero is not mirrored" "rows[0]['train']['gradient_norm'] == rows[1]['train']['gradient_norm']
        and rows[0]['equivalence']['digest'] == rows[1]['equivalence']['digest']
        and all(x['equivalence']['pass'] for x in rows)"
done
lockstep_ok run $gpt --epochs 1 --clip 0.05 --devices 3 --cpu-devices 3 --strategy mirrored,zero,local-sgd,gossip
rows "an epoch's smaller batch" "all(x['equivalence']['pass'] for x in rows)"
# Replicas whose gradient is applied alone, each with a norm of its own.
lockstep_ok run $gpt --steps 3 --clip 0.05 --devices 2 --cpu-devices 2 --strategy local-sgd,gossip,independent
rows "replicas alone" "all(x['equivalence']['pass'] and x['train']['gradient_norm'] > 0.05 for x in rows)"
lockstep_ok run $gpt --steps 3 --clip 0.05 --ranks 4 --ps-servers 2 --strategy ps --ps-mode async,ssp
rows "asynchronous servers" "all(x['train']['gradient_norm'] > 0.05 for x in rows)"
# L2 decay is part of the gradient, and moving statistics are none of it.
lockstep_ok run --model resnet:8 --data synthetic:24 --batch 6 $few --steps 2 --clip 0.05 --strategy zero \
    --devices 2 --cpu-devices 2 --reduce exact --sync-bn yes
rows "moving statistics" "r['equivalence']['pass']"
finish
