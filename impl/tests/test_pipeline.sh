#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A pipeline gives the bits of `single` in exact mode and of its oracle in fast mode, with both schedules, for batches
# that do not divide evenly; traffic, memory and refusals are right. No tolerance.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "$1"; exit 1; }
model="--model mlp:784-32-24-16-10 --data synthetic:300"
# verify COUNT OPTIONS: there are COUNT rows, all bitwise equal. test_matrix_slow has all combinations.
verify() {
  local want=$1
  shift
  # shellcheck disable=SC2086
  "$LOCKSTEP" verify --strategy pipeline $model --epochs 2 --warmup 0 --reduce fast,exact --pipeline-schedule gpipe,1f1b \
    --results none --format csv "$@" >"$dir/rows" || {
    grep -v ',ok,' "$dir/rows" | cut -c 1-900 | head -n 3
    fail "verify failed: $*"
  }
  [ "$(grep -c ',ok,.*same bits' "$dir/rows")" -eq "$want" ] || fail "$(grep -c ',ok,' "$dir/rows") rows are ok, not $want: $*"
}
verify 12 --devices 4 --batch 64 --pipeline-microbatches 1,4,9
verify 8 --devices 3 --batch 9 --pipeline-microbatches 9 --capture yes,no
# Interleaved: chunks of a stage have nets of their own; 300 samples leave a batch of fewer micro-batches than stages.
deep="--model mlp:784-32-28-24-20-18-16-14-12-10 --data synthetic:195"
# shellcheck disable=SC2086
"$LOCKSTEP" run --strategy pipeline $deep --epochs 2 --warmup 0 --batch 64 --reduce fast,exact --pipeline-microbatches 6 \
  --pipeline-schedule gpipe,interleaved --pipeline-chunks 2,3 --devices 2,3 --results none --format jsonl >"$dir/rows"
"$LOCKSTEP" verify --strategy pipeline --model twin-lstm:9 --data synthetic:60 --batch 20 --steps 3 --reduce exact --devices 2 \
  --pipeline-schedule gpipe,interleaved --results none --format jsonl >>"$dir/rows"
"$LOCKSTEP" verify --strategy hybrid --hybrid-inner pipeline --hybrid-outer mirrored,zero --model gpt:2-2-16-8-64 --data synthetic:60 \
  --batch 16 --steps 3 --reduce fast,exact --devices 4 --pipeline-schedule gpipe,interleaved --results none --format jsonl >>"$dir/rows"
python3 - "$dir/rows" <<'P'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) == 12 + 2 + 8, len(rows)
digests = {}
for row in rows:
    case, traffic = row["case"], row.get("traffic") # verify: the gate has compared it
    assert row["result"]["status"] == "ok" and row["equivalence"]["oracle"] == "same bits", row["equivalence"]
    for name in ("messages", "bytes") if traffic else ():
        assert traffic[name + "_sent"] == traffic[name + "_formula"], traffic
    for device in row["memory"]["devices"] if traffic else ():
        for name, size in device["formula"].items():
            assert device[name] == size, (name, device)
    if traffic and len(case["devices"]) == 2 and case.get("pipeline_chunks") == 2:
        assert row["pipeline"]["in_flight"] == [5, 3] and abs(row["pipeline"]["bubble_equal"] - 1 / 13) < 1e-9, row["pipeline"]
    if traffic:
        parts = len(case["devices"]) * case.get("pipeline_chunks", 1)
        pieces = 6 if case["reduce"] == "fast" else 16
        assert traffic["messages_sent"] == 2 * pieces * (parts - 1), (case, traffic)
    if case["reduce"] == "exact" or case["strategy"] == "pipeline": # no schedule is part of a case's identity
        digests.setdefault((case["model"], case["reduce"]), set()).add(row["equivalence"]["digest"])
assert all(len(found) == 1 for found in digests.values()), digests
P
# Odd sizes: the offsets of a stage's variables differ from the whole model's.
"$LOCKSTEP" verify --strategy pipeline --data synthetic:230 --devices 2,3 --batch 61,7 --steps 3 --reduce fast,exact \
  --model mlp:785-33-17-11,mlp:3-5-7-11 --pipeline-microbatches 3 --results none --format csv >"$dir/rows" || fail "odd sizes fail"
[ "$(grep -c ',ok,.*same bits' "$dir/rows")" -eq 16 ] || fail "odd sizes: $(grep -c ',ok,' "$dir/rows") rows are ok, not 16"
# The gate detects a flipped bit on either stage.
for stage in 0 1; do
  # shellcheck disable=SC2086
  "$LOCKSTEP" verify --strategy pipeline $model --devices 2 --batch 60 --steps 5 --reduce exact,fast --inject bitflip=$stage:2 \
    --results none --format csv >"$dir/rows" && fail "a flipped bit is not found"
  [ "$(grep -c ',failed,.*step 2' "$dir/rows")" -eq 2 ] || fail "not found at step 2: $(cut -c 1-600 "$dir/rows")"
done
# Nor is one lost where the largest gradient is that of a shared variable's copy, which has been sent.
"$LOCKSTEP" verify --strategy pipeline,model-parallel --model gpt:2-2-8-6-9 --data synthetic:30 --devices 2 --batch 12 --steps 1 \
  --warmup 0 --optimizer sgd --inject bitflip=1:0 --results none --format csv >"$dir/rows" && fail "a flipped bit is lost"
[ "$(grep -c ',failed,.*step 0' "$dir/rows")" -eq 2 ] || fail "a flipped bit is lost: $(cut -c 1-600 "$dir/rows")"
# shellcheck disable=SC2086
"$LOCKSTEP" run --strategy pipeline $model --devices 3 --batch 64 --steps 20 --pipeline-microbatches 8 \
  --pipeline-schedule gpipe,1f1b --results none --format jsonl >"$dir/rows"
python3 -B "$(dirname "$0")/../../bench/tests/check_rows.py" "$dir/rows"
python3 - "$dir/rows" <<'P'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
held = {}
for row in rows:
    case, traffic = row["case"], row["traffic"]
    assert case["pipeline_microbatches"] == 8 and case["batch_per_device"] == [64] * 3
    # dense0 is a stage, dense1 another, the rest the third: 32 and 24 values per sample are sent, and as many back.
    assert traffic["messages_sent"] == traffic["messages_formula"] == 2 * 2 * 8, traffic
    assert traffic["bytes_sent"] == traffic["bytes_formula"] == 2 * 64 * 4 * (32 + 24), (case, traffic)
    for device in row["memory"]["devices"]:
        for name, size in device["formula"].items():
            assert device[name] == size, (case["pipeline_schedule"], device["device"], name, device[name], size)
    held[case["pipeline_schedule"]] = [device["activations"] for device in row["memory"]["devices"]]
    bubble = row["pipeline"]
    assert 0 <= bubble["bubble"] < 1 and 0 <= bubble["bubble_formula"] < 1, bubble
    assert abs(bubble["bubble_equal"] - 2 / 10) < 1e-9 and 1 <= bubble["slowest_stage"] <= 3, bubble
# 8 micro-batches in flight in every stage, or 3, 2 and 1 of them.
assert [8 * x for x in held["1f1b"]] == [n * x for n, x in zip((3, 2, 1), held["gpipe"])], held
P
refused() {
  local words=$1 code=0
  shift
  [[ " $* " == *" --model "* ]] || set -- $model "$@"
  "$LOCKSTEP" run --strategy pipeline --results none "$@" >"$dir/out" 2>"$dir/err" || code=$?
  [ "$code" -eq 2 ] && [ "$(wc -l <"$dir/err")" -eq 1 ] && grep -q -e "$words" "$dir/err" || fail "refused with $code: $(cat "$dir/err") for $*"
}
refused 'shards of a batch; use at most 16' --devices 2 --reduce exact --pipeline-microbatches 17
refused 'samples of a batch; use at most 6' --devices 2 --batch 6 --pipeline-microbatches 7
refused 'the 8 layers' --devices 9
refused 'are not a multiple of the 2 stages.* use --pipeline-microbatches 4 or 6' --devices 2 --pipeline-schedule interleaved --pipeline-microbatches 5
refused 'too few layers for 16 parts on 2 stages; use --pipeline-chunks 4' --devices 2 --pipeline-schedule interleaved --pipeline-chunks 8
refused 'a whole number from 2 to 64' --devices 2 --pipeline-schedule interleaved --pipeline-chunks 1
refused 'applies to no case' --devices 2 --pipeline-schedule 1f1b --pipeline-chunks 2
refused '1f1b' --devices 2 --pipeline-schedule forward
refused 'pipeline-microbatches' --devices 2 --pipeline-microbatches 0
# A sweep skips such cases, with a line each.
"$LOCKSTEP" verify --strategy pipeline --data synthetic:60 --batch 20 --steps 2 --devices 2,9 --model mlp:784-16-10,twin-lstm:9 \
  --pipeline-microbatches 2,21 --results none --format csv >"$dir/rows" 2>"$dir/err" || fail "a sweep fails: $(cat "$dir/err")"
[ "$(grep -c ',ok,.*same bits' "$dir/rows")" -eq 2 ] && [ "$(grep -c '^lockstep: left out: ' "$dir/err")" -eq 6 ] || fail "$(cat "$dir/err")"
# Stages that are ranks of one process.
"$LOCKSTEP" verify --strategy pipeline,model-parallel --data synthetic:60 --batch 20 --steps 3 --ranks 2 --devices 1 --model mlp:784-16-10 \
  --reduce fast,exact --results none --format csv >"$dir/rows"
[ "$(grep -c ',ok,.*same bits' "$dir/rows")" -eq 4 ] || fail "ranks: $(cut -c 1-600 "$dir/rows")"
