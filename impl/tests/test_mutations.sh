#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Mutation test of steps (mutate.py): tasks dropped, doubled or swapped with the next one, waits dropped, in some steps
# of each strategy; one of ONE_OF edits, since a check that fails to find what it should does so of many;
# test_mutations_slow makes all of them, and more. Tolerance: 1 of 1,000 edits may survive; each is printed.
set -euo pipefail
: "${ONE_OF:=16}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_EDIT='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
  echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
  exit 77
fi
small="--model mlp:12-4-3 --data synthetic:50 --batch 20 --epochs 2"
longer="--model mlp:12-4-3 --data synthetic:50 --batch 20 --epochs 3" # has a step after the last one of each kind
poly="--model poly --data synthetic:40 --batch 20 --epochs 2"
often="--model poly --data synthetic:40 --batch 20 --epochs 40" # workers are late in some step, with random pauses
cat >"$dir/configurations" <<T
--strategy single --devices 1 $small
--strategy independent --devices 2 --model poly --data synthetic:50 --batch 20 --epochs 2
--strategy mirrored --devices 2 $small
--strategy mirrored --devices 2 --cpu-devices 2 --cores-per-device 2 --bucket-bytes 0 $small
--strategy zero --zero-stage 3 --devices 2 --cpu-devices 2 --cores-per-device 2 --bucket-bytes 0 --optimizer adam $longer
--strategy towers --devices 2 $small
--strategy pipeline --devices 2 --pipeline-microbatches 2 $small
--strategy model-parallel --devices 2 $small
--strategy hybrid --devices 4 $small
--strategy towers --devices 2 --towers-staged yes --model twin-lstm:3 --data synthetic:20 --batch 10 --steps 2 --optimizer adam
--strategy local-sgd --devices 2 --local-sgd-every 2 $longer
--strategy ps --devices 2 $small
--strategy ps --devices 2 --ps-mode async $poly
--strategy ps --devices 2 --ps-mode ssp $poly
--strategy ps --devices 3 --ps-backup-workers 1 $often
T
python3 "$SOURCE_DIR/impl/tests/mutate.py" "$LOCKSTEP" "$dir/configurations" --replay "$REPLAY" --one-of "$ONE_OF" "$@"
