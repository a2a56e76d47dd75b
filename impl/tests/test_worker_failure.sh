#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A device's worker fails in the middle of a step (LOCKSTEP_FAIL, hooks.h): the run ends with status 3, one row
# of status "error" without figures, and one message that names the device and the operation that failed, not those
# that fail because of it. Nothing hangs; the sweep's other rows follow. Leaves out that no rank continues training
# (common/device/tests/test_device.c).
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset LOCKSTEP_PLANT LOCKSTEP_FUZZ LOCKSTEP_FAIL
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
  echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
  exit 77
fi
runs=0 cases=0
wrong() {
  echo "LOCKSTEP_FAIL=$LOCKSTEP_FAIL LOCKSTEP_FUZZ=${LOCKSTEP_FUZZ:-}: $1"
  head -n 5 "$dir/err"
  cut -c 1-900 "$dir/rows"
  exit 1
}
# run OPTIONS: exit status in $code, rows in $dir/rows.
run() {
  code=0
  timeout -k 5 600 "$LOCKSTEP" run --results none --progress no --format "${format:-jsonl}" --model mlp:784-16-10 \
    --data synthetic:200 --batch 20 --steps 60 --blocks 1 --warmup 5 --gate-steps "${gate:-3}" "$@" >"$dir/rows" 2>"$dir/err" || code=$?
  cat "$dir/rows" >>"$dir/every"
  runs=$((runs + 1))
}
# fails DEVICE:STEP[:OPERATION] ROWS OPTIONS: the failure ends each of ROWS cases as required.
fails() {
  local count=$2
  export LOCKSTEP_FAIL=$1
  shift 2
  run "$@"
  cases=$((cases + count))
  [ "$code" -eq 3 ] || wrong "status $code, not 3 (124, 137: it hangs): $*"
  python3 - "$LOCKSTEP_FAIL" "$dir/rows" "$dir/err" "$count" <<'PYTHON' >"$dir/why" 2>&1 || wrong "$(tail -n 1 "$dir/why"): $*"
import json, re, sys
device, step = re.match(r"(cpu:\d+):(\d+)", sys.argv[1]).groups()
rows = [json.loads(line) for line in open(sys.argv[2])]
assert len(rows) == int(sys.argv[4]), f"{len(rows)} rows"
said = rf"operation: {device} [a-z_.0-9]+: LOCKSTEP_FAIL: {device}: fails in step {step} [^\n]*$"
for row in rows:
    result = row["result"]
    assert result["status"] == "error" and "time" not in row, "not an error without figures"
    assert re.match(said, result["reason"]), "the message is another one: " + result["reason"]
assert open(sys.argv[3]).read() == "", "something is said on stderr as well"
PYTHON
}

# Every position in a step: the first operation, one in the middle, the last; also while ranks pause. The thread
# sanitizer's build does so on the last of 3 devices, captured, where threads wait in the same way; and once without.
captures=yes,no ways=2 counts="2 5" seeds="0 1 2 3" operations="0 3 999"
[[ $("$LOCKSTEP" --version) != *fsanitize=thread* ]] || captures=yes ways=1 counts=3 seeds=1 operations=3
[ $ways -eq 2 ] || fails cpu:2:30:5 2 --strategy mirrored --devices 3 --capture no --reduce fast,exact
for place in 30 30:5 30:999; do
  fails cpu:0:$place $((4 * ways)) --strategy single,towers,mirrored,independent --devices 1 --capture $captures
done
for devices in $counts; do # failing first, in the middle, last
  for device in $(printf '%s\n' 0 $((devices / 2)) $((devices - 1)) | uniq | tail -n $((ways * 2 - 1))); do
    fails cpu:$device:30:5 $((2 * ways)) --strategy towers --devices $devices --capture $captures --reduce fast,exact
    fails cpu:$device:31:999 $((2 * ways)) --strategy towers --devices $devices --capture $captures --reduce fast,exact --towers-staged yes
    fails cpu:$device:32:5 $((2 * ways)) --strategy mirrored --devices $devices --capture $captures --reduce fast,exact
    fails cpu:$device:33:5 "$ways" --strategy towers --devices $devices --capture $captures --colocate-gradients no
    fails cpu:$device:34:5 "$ways" --strategy independent --devices $devices --capture $captures
    fails cpu:$device:30:13 $((5 * ways)) --strategy mirrored --devices $devices --capture $captures \
      --allreduce flat,ring,tree,halving-doubling,direct --bucket-bytes 2KiB
  done
done
# The last operation that others wait for: no later one could wake them.
for operation in 10 11 12 13; do
  fails cpu:0:64:$operation 1 --strategy mirrored --devices 3 --allreduce flat
done
# The variable device, without a tower.
for operation in 0 999; do
  fails cpu:4:30:$operation "$ways" --strategy towers --devices 3 --variable-device /cpu:4 --cpu-devices 5 --capture $captures
done
# A divided model: a member that waits for activations is woken.
for device in 0 1; do
  for operation in $operations; do
    fails cpu:$device:30:$operation "$ways" --strategy model-parallel --devices 2 --capture $captures
    fails cpu:$device:31:$operation $((4 * ways)) --strategy pipeline --devices 2 --capture $captures \
      --pipeline-schedule gpipe,1f1b --reduce fast,exact
  done
done
# All-reduces on their own queues; an epoch's end; random pauses.
for seed in $seeds; do # 0: no pauses
  export LOCKSTEP_FUZZ=${seed#0}
  fails cpu:1:30:8 "$ways" --strategy mirrored --devices 3 --cpu-devices 3 --cores-per-device 2 --bucket-bytes 0 --capture $captures
  fails cpu:2:30:5 $((4 * ways)) --strategy mirrored,towers --devices 3 --reduce fast,exact --capture $captures
  unset LOCKSTEP_FUZZ
done
# While the gate compares; judges run on the first device, so the candidate's second one fails.
gate=10
fails cpu:1:1 1 --strategy mirrored --devices 2
fails cpu:0:0:3 1 --strategy towers --devices 2
unset gate
# The rest of a sweep runs, and the message is one line of the table.
export LOCKSTEP_FAIL=cpu:2:30
run --strategy towers,mirrored --devices 2,3
[ "$code" -eq 3 ] || wrong "status $code, not 3"
[ "$(grep -c '"status": *"ok"' "$dir/rows")/$(grep -c '"status": *"error"' "$dir/rows")" = 2/2 ] || wrong "not 2 rows ok, 2 of errors"
format=table
run --strategy mirrored --devices 3
[ "$(grep -c 'LOCKSTEP_FAIL: cpu:2' "$dir/rows")/$(wc -l <"$dir/err")" = 1/0 ] || wrong "not one message in the table"
format=
# A device that is lost for good ends the sweep: cases under way get rows of status "error", the rest is counted in
# one line.
export LOCKSTEP_FAIL=cpu:0:30!
run --strategy single --seed 1,2,3
[ "$code/$(grep -c '"status": *"error"' "$dir/rows")/$(wc -l <"$dir/rows")/$(wc -l <"$dir/err")" = 3/3/3/0 ] ||
  wrong "status $code; three rows of status error, and no more, were wanted"
[ "$(grep -c '"reason": *"operation: cpu:0 ' "$dir/rows")/$(grep -c '"reason": *"run: not finished: a device failed earlier in this process, .* failure: operation: cpu:0 ' \
  "$dir/rows")" = 1/2 ] || wrong "one case fails, two are not finished"
export LOCKSTEP_FAIL=cpu:0:1!
run --strategy single --seed 1,2,3
[ "$code/$(wc -l <"$dir/rows")" = 3/1 ] || wrong "status $code, and one row, of the case whose gate the device failed, were wanted"
[ "$(cat "$dir/err")" = "lockstep: run: 2 of 3 cases are not run, since a device failed and this process cannot use that device any more; start lockstep run again for these cases" ] ||
  wrong "the cases that were not run are not told"
unset LOCKSTEP_FAIL
echo "$runs runs of $cases cases and more end as they should"
python3 -B "$(dirname "$0")/../../bench/tests/check_rows.py" "$dir/every"
