#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Mutation test of steps of every kind (mutate.py): all edits of test_mutations; models, exact mode, algorithms, pieces,
# communicators, placements. Tolerance: 1 of 1,000 edits may survive; each is printed.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_EDIT='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
  echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
  exit 77
fi
ONE_OF=1 bash "$SOURCE_DIR/impl/tests/test_mutations.sh" "$@"
small="--model mlp:12-4-3 --data synthetic:50 --batch 20 --epochs 2"
longer="--model mlp:12-4-3 --data synthetic:50 --batch 20 --epochs 3" # has a step after the last one of each kind
often="--model mlp:12-4-3 --data synthetic:50 --batch 20 --epochs 40" # workers are late in some step, with random pauses
bits="--optimizer sgd --lr 1" # another order of a sum has other parameters
apart="--cpu-devices 4 --cores-per-device 2" # all-reduces get their own lanes
cat >"$dir/configurations" <<T
--strategy single --devices 1 --model cnn --data synthetic:20 --batch 10 --steps 2 --optimizer adam
--strategy single --devices 1 --reduce exact --micro-shards 4 $small
--strategy independent --devices 3 --model mlp:12-4-3 --data synthetic:50 --batch 20 --epochs 2
--strategy mirrored --devices 3 --reduce exact --micro-shards 5 $small
--strategy mirrored --devices 3 --reduce exact --micro-shards 5 $apart $small
--strategy mirrored --devices 3 --allreduce ring $small
--strategy mirrored --devices 4 --allreduce tree --bucket-bytes 0 $apart $small
--strategy mirrored --devices 2 --allreduce flat $apart --bucket-bytes 0 --model tied --data synthetic:50 --batch 20 --steps 2 --optimizer adam
--strategy mirrored --devices 2 --comm device $apart $small
--strategy zero --devices 3 --reduce exact --micro-shards 5 --bucket-bytes 0 $apart $longer
--strategy zero --devices 3 --allreduce ring --optimizer adam $longer
--strategy zero --devices 2 $apart --bucket-bytes 0 --optimizer adam $longer
--strategy zero --zero-stage 2 --devices 3 --reduce exact --micro-shards 5 --bucket-bytes 0 $apart $longer
--strategy zero --zero-stage 3 --devices 3 --reduce exact --micro-shards 5 --bucket-bytes 0 $longer
--strategy zero --zero-stage 3 --devices 2 $apart --bucket-bytes 0 --model tied --data synthetic:50 --batch 20 --epochs 2 --optimizer adam
--strategy zero --zero-stage 3 --zero-reshard no --devices 2 $apart --bucket-bytes 0 $longer
--strategy hybrid --hybrid-inner zero --zero-stage 3 --devices 4 --reduce exact --micro-shards 5 $apart --bucket-bytes 0 $longer
--strategy mirrored --devices 2 --model twin-lstm:3 --data synthetic:20 --batch 10 --steps 2 --optimizer adam
--strategy mirrored --devices 2 --model resnet:8 --sync-bn yes --batch 9 --data synthetic:36 --steps 2 --optimizer adam
--strategy towers --devices 3 --cpu-devices 4 --variable-device cpu:3 $small
--strategy towers --devices 3 --towers-staged yes $small
--strategy towers --devices 3 --reduce exact --micro-shards 5 $small
--strategy towers --devices 3 --colocate-gradients no $small
--strategy towers --devices 2 --colocate-gradients no --reduce exact --micro-shards 3 --model poly --data synthetic:50 --batch 20 --steps 5 --optimizer adam
--strategy towers --devices 2 --model cifar10 --data synthetic:60 --batch 8 --steps 2 --optimizer adam
--strategy model-parallel --devices 2 $small
--strategy model-parallel --devices 2 --model twin-lstm:3 --data synthetic:20 --batch 10 --steps 2 --optimizer adam
--strategy pipeline --devices 3 --pipeline-schedule 1f1b $small
--strategy tensor-parallel --devices 3 $longer
--strategy context-parallel --devices 2 --model gpt:1-2-4-8-32 --data synthetic:18 --batch 8 --epochs 2
--strategy hybrid --devices 4 --cpu-devices 4 --hybrid-replicas 1 --hybrid-inner tensor-parallel --hybrid-stages 2 --model mlp:12-4-4-4-3 --data synthetic:50 --batch 20 --epochs 2
--strategy hybrid --hybrid-outer zero --devices 4 --cpu-devices 4 --hybrid-inner tensor-parallel --zero-stage 3 --bucket-bytes 0 $longer
--strategy hybrid --hybrid-outer zero --devices 4 --cpu-devices 4 --hybrid-inner pipeline --pipeline-microbatches 2 $longer
--strategy tensor-parallel --devices 2 --reduce exact --micro-shards 4 --micro-splits 3 $small
--strategy hybrid --devices 4 --cpu-devices 4 $small
--strategy hybrid --devices 4 --cpu-devices 4 --hybrid-inner pipeline --pipeline-microbatches 2 --reduce exact --micro-shards 4 $small
--strategy ps --devices 2 $small
--strategy ps --devices 2 $apart --reduce exact $bits $small
--strategy ps --ranks 4 --ps-servers 2 $small
--strategy local-sgd --devices 3 --local-sgd-every 2 --allreduce ring $longer
--strategy gossip --devices 3 $longer
--strategy local-sgd --devices 2 --local-sgd-every 2 --bucket-bytes 0 $apart $longer
--strategy ps --ranks 4 --ps-servers 2 --ps-mode async $small
--strategy ps --devices 2 --ps-mode ssp $apart $small
--strategy ps --ranks 5 --ps-servers 2 --ps-backup-workers 1 $often
T
python3 "$SOURCE_DIR/impl/tests/mutate.py" "$LOCKSTEP" "$dir/configurations" --replay "$REPLAY" --doubt "$@"
