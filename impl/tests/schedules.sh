# SPDX-License-Identifier: MIT
# The bits do not depend on thread scheduling: a small matrix of every strategy is equal while queue threads, event
# records, waits and ranks' operations pause at random (LOCKSTEP_FUZZ, hooks.h), for one seed after another.
# Sourced by the tests with few and with many seeds, not run. No tolerance except the gate's.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset LOCKSTEP_PLANT LOCKSTEP_FUZZ LOCKSTEP_FAIL
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
  echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
  exit 77
fi

# verify ROWS OPTIONS: there are ROWS rows, all of them equal.
verify() {
  local want=$1 got code=0
  shift
  timeout -k 5 600 "$LOCKSTEP" verify "$@" --warmup 0 --results none --format csv >"$dir/rows" 2>"$dir/err" || code=$?
  got=$(grep -c ',ok,' "$dir/rows" || true)
  [ "$code" -eq 0 ] && [ "$got" -eq "$want" ] && { equal=$((equal + got)); return; }
  grep -v ',ok,' "$dir/rows" | cut -c 1-700 | head -n 4 || true
  head -n 20 "$dir/err"
  echo "LOCKSTEP_FUZZ=$LOCKSTEP_FUZZ: status $code, $got rows are equal, not $want: $*"
  exit 1
}

# schedules FIRST LAST: the matrix under each seed; under the thread sanitizer, which is slow, one size of buckets.
schedules() {
  local buckets=0,2KiB mirrored=22 tied=8 devices=2,3 towers=16
  [[ $("$LOCKSTEP" --version) != *fsanitize=thread* ]] || buckets=0 mirrored=12 tied=4 devices=3 towers=8
  local small=(--data synthetic:200 --steps 4 --batch 50)
  equal=0
  for ((seed = $1; seed <= $2; seed++)); do
    export LOCKSTEP_FUZZ=$seed
    verify 2 --strategy single --model mlp:784-16-10 "${small[@]}" --reduce fast,exact
    verify $towers --strategy towers --devices $devices --model mlp:784-16-10 "${small[@]}" --reduce fast,exact \
      --towers-staged no,yes --colocate-gradients yes,no
    verify 4 --strategy towers --devices 2,cpu:1 --model poly "${small[@]}" --reduce fast,exact --capture no
    verify $mirrored --strategy mirrored --devices 3 --model mlp:784-16-10 "${small[@]}" --bucket-bytes $buckets \
      --allreduce flat,ring,tree,halving-doubling,direct,canonical --reduce fast,exact --capture yes,no
    verify $tied --strategy mirrored --devices 3 --cpu-devices 3 --cores-per-device 2 --model tied "${small[@]}" \
      --bucket-bytes $buckets --allreduce ring,direct --capture yes,no
    verify 4 --strategy zero --zero-stage 3 --devices 3 --cpu-devices 3 --cores-per-device 2 --model mlp:784-16-10 "${small[@]}" \
        --bucket-bytes 0 --reduce fast,exact --capture yes,no
    verify 8 --strategy ps --ranks 4 --model mlp:784-16-10 "${small[@]}" --ps-servers 1,2 --ps-colocate yes,no --reduce fast,exact
    verify 4 --strategy ps --devices 3 --cpu-devices 3 --cores-per-device 2 --model tied "${small[@]}" --reduce fast,exact --capture yes,no
    verify 4 --strategy towers,mirrored --devices 5 --model poly --data synthetic:23 --batch 8 --epochs 2 --reduce fast,exact
    verify 4 --strategy model-parallel --devices 2 --model tied "${small[@]}" --reduce fast,exact --capture yes,no \
      --model-parallel-place dense0=cpu:0,dense1/a=cpu:0,dense1/b=cpu:1,dense2=cpu:1
    verify 8 --strategy pipeline --devices 3 --model mlp:784-16-12-10 "${small[@]}" --reduce fast,exact \
      --pipeline-schedule gpipe,1f1b --capture yes,no
    verify 8 --strategy hybrid --devices 4 --model mlp:784-16-12-10 "${small[@]}" --reduce fast,exact \
      --hybrid-inner model-parallel,pipeline --capture yes,no
  done
  echo "$equal cases are equal under seeds $1 to $2"
}
