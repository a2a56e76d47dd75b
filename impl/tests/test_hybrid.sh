# SPDX-License-Identifier: MIT
# Replicas of a divided model: bits of `single` in exact mode and of the oracle in fast mode, for every number of
# replicas and places that fits, both splits, uneven slices and an epoch's smaller last batch. Traffic and memory
# follow the formulas; a flipped bit on any device is detected; impossible divisions are refused. No tolerance.
. "$SOURCE_DIR/bench/tests/lib.sh"

small="--results none --warmup 0 --format jsonl --cpu-devices 8"
mlp="--model mlp:784-32-24-16-10 --data synthetic:75"
same='all(r["result"]["status"] == "ok" and r["equivalence"]["oracle"] == "same bits" for r in rows)'

# Devices for 1 to 4 replicas; combinations that do not fit are skipped, with a line each. 6 or (thorough) 11 pairs fit; in
# exact mode each replica's shards are divided into 3 micro-batches.
devices=4,6 pairs=6
! thorough || devices=2,4,6,8 pairs=11
lockstep verify --strategy hybrid --devices $devices --hybrid-replicas 1,2,3,4 $mlp --batch 29 --epochs 1 \
    --hybrid-inner model-parallel,pipeline --pipeline-microbatches 3 --reduce fast,exact $small
expect "the matrix is equal" [ "$code" -eq 0 ]
rows "$pairs pairs, two splits, two modes" "len(rows) == 4 * $pairs and $same"
rows "exact mode: one digest" \
    'len({r["equivalence"]["digest"] for r in rows if r["case"]["reduce"] == "exact"}) == 1'
keep matrix
lockstep_ok verify --strategy single --devices 1 $mlp --batch 29 --epochs 1 --reduce exact $small
rows "that of single" 'r["equivalence"]["digest"] == next(
    x for x in old("matrix") if x["case"]["reduce"] == "exact")["equivalence"]["digest"]'
# All-reduce overlapped with backward or not, any buckets, any algorithm, captured or not.
for cores in 2 1; do
    lockstep_ok verify --strategy hybrid --devices 4 --cores-per-device $cores $mlp --batch 30 --steps 3 --hybrid-inner \
        model-parallel,pipeline --pipeline-schedule 1f1b --capture yes,no --bucket-bytes 0,2KiB \
        --allreduce ring,tree,direct $small
    rows "buckets with $cores cores" "len(rows) == 24 and $same"
    thorough || break
done
for model in "lstm-stack:3 --batch 10" "cnn --batch 13" "cifar10 --batch 5" "twin-lstm:9 --batch 10"; do
    lockstep verify --strategy hybrid --devices 4 --hybrid-inner model-parallel,pipeline --model $model \
        --pipeline-microbatches 2 --data synthetic:23 --epochs 1 --reduce fast,exact $small
    expect "$model is equal" [ "$code" -eq 0 ]
    rows "$model" "len(rows) == 4 and $same"
    thorough || [[ $model != cnn* ]] || break
done
# Layers that are split: what all places of a replica have is reduced in one order on each, though slices are uneven
# (unless buckets end beside it, ln_1 would be cut on one place of a replica only).
lockstep verify --strategy hybrid --hybrid-inner tensor-parallel --devices 8 --hybrid-replicas 4 --model gpt:1-3-12-8-32 \
    --data synthetic:23 --batch 7 --epochs 1 --allreduce ring $small
rows "split layers" "len(rows) == 1 and $same and r['case']['micro_splits'] == 2"
# Even slices: buckets as large as asked for; of a ring of 2 each of 4 members sends 2 messages a bucket, 16 variables.
lockstep_ok run --strategy hybrid --hybrid-inner tensor-parallel --devices 4 --model gpt:1-2-8-8-32 --data synthetic:16 \
    --batch 8 --steps 2 --allreduce ring --bucket-bytes 0,1GiB $small
rows "buckets of split layers" "len(rows) == 2 and $same and all(r['traffic']['messages_sent'] ==
    r['traffic']['messages_formula'] for r in rows) and
    rows[0]['traffic']['messages_sent'] - rows[1]['traffic']['messages_sent'] == 4 * 2 * (16 - 1)"
lockstep_ok verify --strategy hybrid --hybrid-inner tensor-parallel --hybrid-stages 2 --devices 8 --model gpt:2-2-8-8-32 \
    --data synthetic:23 --batch 8 --epochs 1 --pipeline-microbatches 2 --reduce fast,exact --micro-splits 2 $small
rows "three axes" "len(rows) == 2 and $same"
# Replicas that are divided and share the update; more of it: test_compositions_slow.sh.
lockstep_ok verify --strategy hybrid --hybrid-outer zero --hybrid-inner pipeline,tensor-parallel --devices 4 --batch 8 \
    --model gpt:1-2-4-8-32 --data synthetic:18 --steps 2 --clip 0.05 --reduce fast,exact --micro-splits 2 $small
rows "zero outside" "len(rows) == 4 and $same and len({r['equivalence']['digest'] for r in rows
    if r['case']['reduce'] == 'exact'}) == 1"
# Sequences that are divided; a replica has no sample of the last batch.
lockstep_ok verify --strategy hybrid --hybrid-inner context-parallel --devices 4 --model gpt:1-2-8-9-32 \
    --data synthetic:7 --batch 6 --epochs 1 --allreduce ring $small
rows "divided sequences" "len(rows) == 1 and $same"
# Four devices that are ranks of one process.
lockstep_ok verify --strategy hybrid --ranks 2 --devices 2 $mlp --batch 30 --steps 3 --reduce fast,exact $small
rows "ranks" "len(rows) == 2 and $same and r['case']['ranks'] == 2"

# zero in groups of devices (HSDP): a layer uses another's variables, shares are uneven, and some devices have no sample
# of the last batch. More of it: test_zero_slow.sh.
zero="--strategy hybrid --hybrid-inner zero"
few="--model gpt:1-2-4-8-32 --data synthetic:18 --batch 15 --epochs 1"
lockstep_ok verify $zero --zero-stage 2,3 --devices 6 --hybrid-replicas 3 --bucket-bytes 0 --reduce fast,exact \
    $few $small
rows "zero in groups" "len(rows) == 4 and $same"
keep zero
lockstep_ok verify --strategy single --reduce exact $few $small
rows "those of single" '{x["equivalence"]["digest"] for x in old("zero") if x["case"]["reduce"] == "exact"} ==
    {r["equivalence"]["digest"]}'
lockstep_ok run $zero --zero-stage 3 --devices 6 --hybrid-replicas 2 --cores-per-device 2 --model mlp:784-24-10 \
    --data synthetic:60 --batch 31 --steps 2 --gate-steps 0 --allreduce ring --bucket-bytes 0 --clip 0.1 $small
# Bytes of D groups of M: of P elements gradients, and parameters twice, but for two buckets; sums of squares of
# 22 blocks, 19 of them of the first variable; and of shares between groups.
rows "zero: traffic by hand" 'all(r["traffic"]["bytes_sent"] == r["traffic"]["bytes_formula"] ==
    2 * (3 - 1) * (8 * P + 4 * (P - 250) + 8 * 22) + 2 * (2 - 1) * 4 * P and
    r["traffic"]["messages_sent"] == r["traffic"]["messages_formula"] for P in [r["case"]["parameters"]])'
rows "zero: ledger" 'all(d[use] == bytes for d in r["memory"]["devices"] for use, bytes in d["formula"].items())'
lockstep verify $zero --devices 4 --model mlp:784-16-10 --data synthetic:75 --batch 30 --steps 4 \
    --inject bitflip=3:2 $small
expect "zero: a flipped bit in the second group fails" [ "$code" -eq 1 ]
rows "zero: at its step" '"step 2" in r["result"]["reason"]'

# dense0 on place 0 of each replica, the rest on place 1: 32 values per sample are sent, and 32 gradients back.
lockstep_ok run --strategy hybrid --devices 6 --hybrid-replicas 3 --hybrid-inner model-parallel,pipeline \
    --pipeline-microbatches 2 --model mlp:784-32-24-10 --data synthetic:75 --batch 31 --steps 4 --allreduce ring \
    --bucket-bytes 0 $small
rows "fields" 'len(rows) == 2 and all(r["case"]["hybrid_replicas"] == 3 and r["case"]["strategy"] == "hybrid"
    and r["case"]["batch_per_device"] == [10, 10, 10, 10, 11, 11]
    and r["case"]["model_parallel_place"].startswith("dense0=cpu:0,relu0=cpu:0,dense1=cpu:1") for r in rows)'
rows "fields of a pipeline are there where one is" 'sorted((r["case"]["hybrid_inner"],
    r["case"].get("pipeline_microbatches"), r["case"].get("pipeline_schedule")) for r in rows) ==
    [("model-parallel", None, None), ("pipeline", 2, "gpipe")]'
# A ring of 3 sends 4 times the reduced bytes, in 12 messages per variable; 6 variables.
rows "traffic by hand" 'all(r["traffic"] == {
    "bytes_sent": 2 * 31 * 32 * 4 + 4 * 4 * r["case"]["parameters"], "messages_sent": m,
    "bytes_formula": 2 * 31 * 32 * 4 + 4 * 4 * r["case"]["parameters"], "messages_formula": m}
    for r in rows for m in [2 * 3 * r["case"].get("pipeline_microbatches", 1) + 12 * 6])'
rows "ledger" 'all(d[use] == bytes for r in rows for d in r["memory"]["devices"]
    for use, bytes in d["formula"].items())'
# A place without variables reduces nothing; the placement names the first replica's devices, the others follow.
lockstep_ok verify --strategy hybrid --devices cpu:0+cpu:1+cpu:2+cpu:3 $mlp --batch 30 --steps 3 --reduce fast,exact \
    --model-parallel-place dense0=cpu:1,relu0=cpu:0,dense1=cpu:1 $small
rows "a place without variables" "len(rows) == 2 and $same"
# In an epoch's last batch of 3, some replicas and their devices have no samples.
lockstep_ok verify --strategy hybrid --devices 8 --hybrid-replicas 4 --model mlp:784-16-10 --data synthetic:19 --batch 16 \
    --epochs 2 --hybrid-inner model-parallel,pipeline --reduce fast,exact $small
rows "an empty slice" "len(rows) == 4 and $same"

for device in 0 1 2 3; do
    lockstep verify --strategy hybrid --devices 4 $mlp --batch 30 --steps 4 --hybrid-inner model-parallel,pipeline \
        --reduce fast,exact --inject bitflip=$device:2 $small
    expect "a flipped bit on device $device fails" [ "$code" -eq 1 ]
    rows "at its step" 'len(rows) == 4 and all("step 2" in r["result"]["reason"] for r in rows)'
done

# Messages of uneven replicas land in memory for the largest piece, and for most pieces, of full and smaller batches.
deep="verify --model mlp:12-9-8-7-6-3 --strategy hybrid --hybrid-inner pipeline --results none --quiet --link latency=1us,bandwidth=10GB/s"
lockstep_ok $deep --data synthetic:300 --steps 4 --batch 64 --hybrid-replicas 3 --devices 6
lockstep_ok $deep --data synthetic:25 --epochs 2 --batch 13 --reduce exact --micro-shards 13 --hybrid-replicas 5 --devices 10 \
    --pipeline-microbatches 2
refused() {
    local words=$1
    shift
    [[ " $* " == *" --model "* ]] || set -- "$@" --model mlp:784-16-10
    lockstep run --strategy hybrid --data synthetic:50 --results none "$@"
    expect "refused: $*" [ "$code" -eq 2 ]
    expect "in one line, with $words" one_line "$words"
}
refused 'hybrid-replicas.*3 replicas.*devices .4. evenly; give a divisor of that number .1, 2, 4.' --devices 4 --hybrid-replicas 3
refused 'hybrid-replicas.*2 replicas.*devices .1. evenly' --devices 1
refused 'hybrid-replicas' --devices 2 --hybrid-replicas 0
refused 'hybrid-inner.*model-parallel' --devices 2 --hybrid-inner towers
refused 'hybrid-stages.*3 stages.*devices .4. evenly' --devices 8 --hybrid-inner tensor-parallel --hybrid-stages 3
refused 'hybrid-stages.*applies to no case' --devices 8 --hybrid-inner pipeline --hybrid-stages 2
refused '5 devices.*4 layers' --devices 10
refused 'batch.*3 is less than the number of replicas, 4' --devices 8 --hybrid-replicas 4 --batch 3
refused 'micro-shards.*2 is less than the number of replicas, 4' --devices 8 --hybrid-replicas 4 --reduce exact --micro-shards 2
refused '4 micro-batches.*3 samples of a replica; use at most 3' --devices 4 --batch 7 --hybrid-inner pipeline
refused '9 micro-batches.*8 shards of a replica; use at most 8' --devices 4 --hybrid-inner pipeline --reduce exact \
    --pipeline-microbatches 9
refused 'pipeline-microbatches.*applies to no case' --devices 4 --pipeline-microbatches 2
refused 'model-parallel-place.*applies to no case' --devices 4 --hybrid-inner pipeline --model-parallel-place dense0=cpu:0
refused 'dense9' --devices 4 --model-parallel-place dense9=cpu:0,dense1=cpu:1
refused 'cpu:2.*cpu:0, cpu:1' --devices 4 --model-parallel-place dense0=cpu:0,dense1=cpu:2
refused 'library' --devices 4 --allreduce library
refused 'tree.*cannot be divided' --devices 4 --hybrid-inner zero --allreduce tree
refused 'zero-stage.*applies to no case' --devices 4 --zero-stage 2
refused 'hybrid-outer.*applies to no case' --devices 4 --hybrid-inner zero --hybrid-outer zero
refused 'tree.*cannot be divided' --devices 4 --hybrid-inner pipeline --hybrid-outer zero --allreduce tree
refused 'ring.*which has its own all-reduce' --devices 4 --allreduce ring --reduce exact
finish
