#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every strategy that is meant to be equal is: bits of `single` in exact mode, of its oracle in fast mode, for all
# devices, batches, models and variable devices that fit. No tolerance.
set -euo pipefail
thorough() { [ -n "${LOCKSTEP_THOROUGH:-}" ]; } # as in bench/tests/lib.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "$1"; exit 1; }
bad() { # rows that are not ok, truncated
  grep -v ',ok,' "$dir/rows" | cut -c 1-700 | head -n 4 || true
  head -n 5 "$dir/err"
}
# verify COUNT OPTIONS: there are COUNT rows, all ok.
verify() {
  local want=$1 got
  shift
  "$LOCKSTEP" verify "$@" --results none --format csv >"$dir/rows" 2>"$dir/err" || {
    bad
    fail "verify failed: $*"
  }
  got=$(grep -c ',ok,' "$dir/rows")
  [ "$got" -eq "$want" ] || { bad; fail "$got rows are ok, not $want: $*"; }
}
# Of the device counts the largest do not fit 7 samples. Thorough: (6 + 6 + 4) x 2 models x 2 modes; test_matrix_slow has
# more.
few="--devices 3,8 --batch 100,7" cases=3
! thorough || { few="--devices 1,2,3,5,8,16 --batch 256,100,7" cases=16; }
few="$few --model mlp:784-16-10,poly --data synthetic:1000 --steps 6 --warmup 0"
all=flat,ring,tree,halving-doubling,direct,owners
# shellcheck disable=SC2086
verify $((4 * cases)) --strategy towers $few --reduce exact,fast
# Mirrored: the same x 6 algorithms in fast mode, and canonical in exact mode.
# shellcheck disable=SC2086
verify $((12 * cases)) --strategy mirrored $few --allreduce $all
# shellcheck disable=SC2086
verify $((2 * cases)) --strategy mirrored $few --reduce exact
tails=(--strategy mirrored --batch 64 --model mlp:784-16-16-10 --data synthetic:129 --epochs 3 --reduce fast,exact)
verify 3 "${tails[@]}" --devices 5 --bucket-bytes 0,2KiB --capture no
! thorough || verify 16 "${tails[@]}" --devices 3,5 --bucket-bytes auto,0,2KiB --capture no,yes
# zero: shares of all buckets, uneven and (poly's three elements) empty, in all stages and both modes. What pairs of
# options do; test_zero_slow has every model and number of devices.
zero=(--strategy zero --zero-stage 1,2,3 --data synthetic:1000 --steps 6 --warmup 0 --optimizer adam)
verify 6 "${zero[@]}" --devices 5 --batch 100 --model mlp:784-16-10,poly --reduce exact --bucket-bytes 0
verify 12 "${zero[@]}" --devices 3 --batch 100 --model mlp:784-16-10 --bucket-bytes 0 \
  --allreduce ring,direct,halving-doubling,owners
if thorough; then
  verify 12 "${zero[@]}" --devices 2,16 --batch 100 --model mlp:784-16-10,poly --reduce exact --bucket-bytes 0
  verify 12 "${zero[@]}" --devices 1,3 --batch 7 --model mlp:784-16-10,poly --reduce exact --bucket-bytes auto
  verify 9 "${zero[@]}" --devices 1,2,5 --batch 7 --model poly --bucket-bytes 0 --allreduce ring
fi
apart=(--cpu-devices 3 --cores-per-device 2 --batch 64 --data synthetic:129 --epochs 2 --reduce fast,exact)
verify 6 --strategy zero --zero-stage 1,2,3 "${apart[@]}" --devices 3 --model mlp:784-16-16-10 --bucket-bytes auto
verify 8 --strategy zero --zero-stage 3 --zero-windows 2,3 "${apart[@]}" --devices 2 --model mlp:784-16-16-10 \
  --bucket-bytes 0 --capture no,yes
verify 2 --strategy zero --zero-stage 3 --zero-reshard no "${apart[@]}" --devices 2 --model mlp:784-16-10 \
  --bucket-bytes 0
verify 6 --strategy zero --zero-stage 1,2,3 --comm device --devices 3 --batch 64 --model mlp:784-16-10 \
  --data synthetic:129 --epochs 2 --bucket-bytes 0 --reduce fast,exact
# tensor-parallel: slices, uneven, of layers and heads; test_tensor_parallel_slow has more of all.
split=(--batch 20 --data synthetic:50 --epochs 2)
verify 3 --strategy single,tensor-parallel --devices 1,3 --model mlp:784-18-16-10 "${split[@]}" --reduce exact \
  --micro-splits 5
verify 2 --strategy tensor-parallel --devices 3 --model gpt:1-3-12-8-32 "${split[@]}" --reduce fast,exact --micro-splits 3 \
  --clip 0.05
# Batch statistics beside split layers are those of the whole batch, on each place.
cat >"$dir/bn.yaml" <<'Y'
{data: cifar10, input: [2, 6, 6], layers: [channels_last, conv: {units: 3, window: 3, bias: no}, bn, relu, channels_first,
 dense: 6, relu, dense: 10, softmax_cross_entropy]}
Y
# A layer that stands between two in a row, of which it takes nothing.
cat >"$dir/gap.yaml" <<'Y'
{data: mnist, input: [20], layers: [dense: {units: 6, name: a}, dense: {units: 6, from: input0, name: other},
 relu: {from: a}, dense: 6, add: other, dense: 6, relu, dense: 10, softmax_cross_entropy]}
Y
verify 4 --strategy tensor-parallel,hybrid --hybrid-inner tensor-parallel --devices 4 \
  --model "graph:$dir/bn.yaml,graph:$dir/gap.yaml" --batch 6 --data synthetic:12 --epochs 1
# context-parallel: heads and positions, uneven; test_context_parallel_slow has more.
verify 2 --strategy context-parallel --devices 2,3 --model gpt:1-4-8-9-32 --batch 5 --data synthetic:12 --epochs 1 \
  --clip 0.05
# All-reduces on their own queue (several cores per device), buckets of all sizes, captured or not.
overlap=(--strategy mirrored --cpu-devices 3 --cores-per-device 2 --batch 64 --model mlp:784-16-16-10 --data synthetic:129
  --epochs 2 --bucket-bytes auto,0,2KiB --capture no,yes)
verify 6 "${overlap[@]}" --devices 3 --allreduce ring
! thorough || verify 36 "${overlap[@]}" --devices 2,3 --allreduce ring,direct,tree
verify 4 --strategy mirrored --devices 2,3 --cpu-devices 3 --cores-per-device 2 --batch 64 --model mlp:784-16-10 \
  --data synthetic:129 --epochs 2 --reduce exact --capture no,yes
# All replicas in one program, with queues ordered by events as on GPUs; sums on the replicas' queues, or their own.
together="--strategy mirrored --comm device --cpu-devices 5 --batch 64 --model mlp:784-16-10 --data synthetic:129 --epochs 2"
# shellcheck disable=SC2086
verify 6 $together --cores-per-device 2 --devices 5 --bucket-bytes 0 --allreduce $all
for cores in 1 2; do
  # shellcheck disable=SC2086
  verify 1 $together --cores-per-device $cores --devices 5 --allreduce ring --bucket-bytes 0
  # shellcheck disable=SC2086
  verify 1 $together --cores-per-device $cores --devices 5 --reduce exact
  thorough || continue
  # shellcheck disable=SC2086
  verify 4 $together --cores-per-device $cores --devices 2,5 --reduce exact --capture no,yes
  # shellcheck disable=SC2086
  verify 48 $together --cores-per-device $cores --devices 2,5 --bucket-bytes auto,0 --capture no,yes --allreduce $all
done
verify 4 --strategy mirrored --comm device --devices 3 --batch 64 --model mlp:784-16-10 --data synthetic:129 \
  --link latency=20us --allreduce auto,ring,tree,flat --steps 6
# Traffic of joint ranks whose steps are enqueued one by one; the last block has an epoch's smaller batch alone.
"$LOCKSTEP" run --strategy mirrored,hybrid --hybrid-inner zero --devices 4 --comm device --capture no --batch 29 \
  --model mlp:784-16-10 --data synthetic:75 --epochs 1 --warmup 0 --results none --format csv >"$dir/rows" 2>"$dir/err" ||
  { bad; fail "joint ranks, not captured"; }
# Epochs whose last batch is smaller than the number of devices; variables elsewhere; no capture.
verify 8 --strategy towers --cpu-devices 2 --devices 5,cpu:1 --batch 64 --model poly --data synthetic:131 --epochs 3 \
  --variable-device /cpu:0,/cpu:1 --reduce exact,fast --capture no
# Variables prefetched range by range; backward on the variable device; both.
towers=(--strategy towers --cpu-devices 2 --batch 100,7 --model mlp:784-16-10 --data synthetic:230 --reduce exact,fast
  --epochs 2 --warmup 0)
verify 8 "${towers[@]}" --devices 3 --towers-staged yes --colocate-gradients no,yes
if thorough; then
  verify 48 "${towers[@]}" --devices 2,3,cpu:1 --towers-staged yes,no --colocate-gradients no --capture yes,no
  verify 12 "${towers[@]}" --devices 2,3,cpu:1 --towers-staged yes
fi
# A tail in which a replica's slice is larger than its full one: 1 of 8 samples, but 2 of 7.
verify 4 --strategy towers,mirrored --devices 5 --batch 8 --model poly --data synthetic:15 --epochs 2 \
  --warmup 0 --reduce fast,exact
# One digest for all of them in exact mode.
for strategy in "single --devices 1" "towers --devices 2" "towers --devices 5" "mirrored --devices 3" \
  "zero --devices 3 --zero-stage 2" "zero --devices 3 --zero-stage 3" "tensor-parallel --devices 1"; do
  # shellcheck disable=SC2086
  "$LOCKSTEP" run --strategy $strategy --model mlp:784-16-10 --data synthetic:500 --reduce exact --epochs 2 \
    --batch 100 --results none --format jsonl | grep -oE '"digest": *"[0-9a-f]+"' | head -n 1
done | sort -u >"$dir/digests"
[ "$(wc -l <"$dir/digests")" -eq 1 ] || { cat "$dir/digests"; fail "exact mode has several digests"; }
# The reference is computed once for cases with equally many steps; cases with fewer or more steps can fail.
verify 6 --strategy towers,mirrored --devices 2 --model mlp:784-16-10 --data synthetic:500 --batch 100 --reduce exact \
  --steps 6,12,3 --warmup 0
for steps in 12 6 3; do
  "$LOCKSTEP" verify --strategy single --model mlp:784-16-10 --data synthetic:500 --batch 100 --reduce exact \
    --steps $steps --warmup 0 --results none --format jsonl | grep -oE '"reference_digest": *"[0-9a-f]+"'
done | sort -u >"$dir/alone"
"$LOCKSTEP" verify --strategy towers,mirrored --devices 2 --model mlp:784-16-10 --data synthetic:500 --batch 100 \
  --reduce exact --steps 6,12,3 --warmup 0 --results none --format jsonl |
  grep -oE '"reference_digest": *"[0-9a-f]+"' | sort -u | diff - "$dir/alone" || fail "a kept reference differs from a fresh one"
"$LOCKSTEP" verify --strategy towers,mirrored --devices 2,3 --model mlp:784-16-10 --data synthetic:500 --reduce exact,fast \
  --steps 8 --inject bitflip=1:4 --results none --format csv >"$dir/rows" && fail "flipped bits are not found"
[ "$(grep -c ',failed,.*step 4' "$dir/rows")" -eq 8 ] || { bad; fail "not all of 8 cases find the bit at step 4"; }
# Traffic of every algorithm equals its formula, and the communicators' counts.
"$LOCKSTEP" run --strategy mirrored --devices 3 --batch 60 --data synthetic:500 --steps 12 --results none \
  --allreduce flat,ring,tree,halving-doubling,direct,owners --format jsonl >"$dir/rows"
cat "$dir/rows" >>"$dir/every"
python3 - "$dir/rows" <<'P'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) == 6
for row in rows:
    traffic = row["traffic"]
    assert traffic["bytes_sent"] == traffic["bytes_formula"] > 0, row["case"]["allreduce"]
    assert traffic["messages_sent"] == traffic["messages_formula"] > 0, row["case"]["allreduce"]
    for device in row["memory"]["devices"]:
        for name, bytes in device["formula"].items():
            assert device[name] == bytes, (row["case"]["allreduce"], name, device[name], bytes)
ring = next(row for row in rows if row["case"]["allreduce"] == "ring")
assert ring["traffic"]["bytes_sent"] == 2 * 2 * 4 * ring["case"]["parameters"]
P
# zero has the bits of mirrored, and its bytes, but for the gathers of stage 3 before backward; and by shares what its
# stage says, with whole buckets in windows; after five blocks, too.
while read -r blocks model; do
  # shellcheck disable=SC2086
  for strategy in mirrored "zero --zero-stage 1,2,3"; do
    "$LOCKSTEP" run --strategy $strategy --devices 3 --batch 30 --data synthetic:120 --steps 8 --warmup 2 \
      --results none --allreduce ring --bucket-bytes 0 --blocks $blocks --format jsonl --verbose --model $model 2>"$dir/err"
  done >"$dir/rows"
  cat "$dir/rows" >>"$dir/every"
  python3 - "$dir/rows" <<'P' || fail "zero differs from mirrored: $model"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) == 4 and all(row["result"]["status"] == "ok" for row in rows), [row["result"] for row in rows]
assert len({json.dumps(row["train"]) for row in rows}) == 1, [row["train"] for row in rows]
mirrored, zero = rows[0], rows[1:]
assert [row["case"]["zero_stage"] for row in zero] == [1, 2, 3] and "zero_stage" not in mirrored["case"]
buckets = (12544, 16, 160, 10) if mirrored["case"]["model"].startswith("mlp") else \
  (4800, 64, 102400, 64, 884736, 384, 73728, 192, 1920, 10)
elements, n, windows = sum(buckets), 3, sum(max(buckets[w::2]) for w in range(2))
assert elements == mirrored["case"]["parameters"], mirrored["case"]["parameters"]
for row in zero:
    stage, traffic = row["case"]["zero_stage"], row["traffic"]
    again = (elements - sum(buckets[-2:])) * (stage == 3)
    assert traffic["bytes_sent"] == traffic["bytes_formula"] == 4 * (n - 1) * (2 * elements + again), (stage, traffic)
    assert traffic["messages_sent"] == traffic["messages_formula"] == mirrored["traffic"]["messages_sent"] + \
      (n - 1) * n * (len(buckets) - 2) * (stage == 3), (stage, traffic)
    for q, (device, whole) in enumerate(zip(row["memory"]["devices"], mirrored["memory"]["devices"])):
        share = sum((q + 1) * p // n - q * p // n for p in buckets)
        want = {use: whole[use] // elements * share for use in ("optimizer", "gradients", "parameters")[:stage]}
        want["communication"] = whole.get("communication", 0) + 4 * windows * (stage - 1)
        for use in ("optimizer", "gradients", "parameters", "communication"):
            bytes = want.get(use, whole.get(use, 0))
            assert device.get(use, 0) == device["formula"].get(use, 0) == bytes, (stage, q, use, device, bytes)
        assert want["optimizer"] > 0
P
done <<'T'
1 mlp:784-16-10 --optimizer adam
5 mlp:784-16-10 --optimizer adam
5 cifar10 --gate-steps 1
T
# Traffic equals the formula, and memory the allocator's count.
"$LOCKSTEP" run --strategy towers --devices 4 --batch 64 --data synthetic:500 --results none --format jsonl \
  --towers-staged no,yes --colocate-gradients yes,no >"$dir/rows"
python3 - "$dir/rows" <<'P'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) == 4
for row in rows:
    case, traffic, elements = row["case"], row["traffic"], row["case"]["parameters"]
    # Four ranges if staged; backward reads x, the hidden layer and the logits' gradient.
    fetches = 4 if case["towers_staged"] else 1
    back = (1, 4 * elements) if case["colocate_gradients"] else (3, 4 * 16 * (784 + 128 + 10))
    assert traffic["messages_sent"] == traffic["messages_formula"] == 3 * (fetches + back[0]), (case, traffic)
    assert traffic["bytes_sent"] == traffic["bytes_formula"] == 3 * (4 * elements + back[1]), (case, traffic)
    for device in row["memory"]["devices"]:
        for name, bytes in device["formula"].items():
            assert device[name] == bytes, (case, device["device"], name, device[name], bytes)
    assert case["batch_per_device"] == [16] * 4 and row["provenance"]["oversubscribed"] is True
P
# Where a step's time goes: the parts sum to the mean step, and parts that do not occur are absent.
"$LOCKSTEP" run --strategy towers,mirrored --devices 2 --batch 64 --data synthetic:500 --results none --format jsonl >"$dir/rows"
cat "$dir/rows" >>"$dir/every"
"$LOCKSTEP" run --strategy mirrored --devices 2 --cpu-devices 2 --cores-per-device 2 --batch 64 --data synthetic:500 \
  --results none --format jsonl >>"$dir/rows"
cat "$dir/rows" >>"$dir/every"
python3 - "$dir/rows" <<'P'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) == 3 and rows[2]["case"]["overlap"]
for row in rows:
    parts, towers = row["waterfall"], row["case"]["strategy"] == "towers"
    assert abs(sum(parts.values()) / row["time"]["step_ms"]["mean"] - 1) < 1e-9, parts
    assert min(parts.values()) > 0 and parts["wait_ms"] > 0 and parts["compute_ms"] > 0, parts
    assert parts["copy_ms"] > 0 and ("comm_exposed_ms" in parts) != towers, parts
P
# The gate detects one flipped bit in any device's gradient, and such a row has no timing.
for strategy in "single --devices 1 --inject bitflip=0:3" "towers --devices 3 --inject bitflip=0:0" \
  "towers --devices 3 --inject bitflip=2:5" "mirrored --devices 3 --inject bitflip=1:9" \
  "mirrored --devices 2 --reduce exact --inject bitflip=1:4" "zero --devices 3 --zero-stage 2 --inject bitflip=1:9" \
  "zero --devices 2 --zero-stage 3 --bucket-bytes 0 --reduce exact --inject bitflip=1:4" \
  "towers --devices 3 --colocate-gradients no --inject bitflip=2:5" \
  "towers --devices 3 --colocate-gradients no --reduce exact --capture no --inject bitflip=1:2"; do
  code=0
  # shellcheck disable=SC2086
  "$LOCKSTEP" run --strategy $strategy --batch 60 --data synthetic:500 --results none --format jsonl >"$dir/rows" 2>/dev/null || code=$?
  cat "$dir/rows" >>"$dir/every"
  [ "$code" -eq 1 ] || fail "status $code, not 1: $strategy"
  python3 - "$dir/rows" <<'P' || fail "the gate missed it: $strategy"
import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    step = row["case"]["inject"].split(":")[1]
    assert row["result"]["status"] == "failed" and "time" not in row, row["result"]
    assert row["result"]["reason"].startswith(f"step {step}: "), row["result"]
    assert row["equivalence"]["pass"] is False
P
done
# A baseline has its own row, and efficiency is speed-up divided by the number of devices.
"$LOCKSTEP" run --strategy mirrored,towers --devices 2 --batch 60 --data synthetic:500 --steps 20 --baseline yes \
  --results none --format jsonl >"$dir/rows"
cat "$dir/rows" >>"$dir/every"
python3 - "$dir/rows" <<'P' || fail "baselines are wrong"
import json, sys
rows = {row["case"]["strategy"]: row for row in map(json.loads, open(sys.argv[1]))}
assert sorted(rows) == ["mirrored", "single", "towers"], rows.keys()
median = {name: row["time"]["step_ms"]["median"] for name, row in rows.items()}
for name, row in rows.items():
    speedup, devices = row["time"]["speedup"], len(row["case"]["devices"])
    assert abs(speedup - median["single"] / median[name]) < 1e-9 * speedup, (name, speedup)
    assert abs(row["time"]["efficiency"] - speedup / devices) < 1e-12, name
P
# A case with a fault has no fault in its baseline.
code=0
"$LOCKSTEP" run --strategy mirrored --devices 2 --batch 60 --data synthetic:500 --steps 5 --inject bitflip=1:2 \
  --baseline yes --results none --format jsonl >"$dir/rows" || code=$?
cat "$dir/rows" >>"$dir/every"
[ "$code" -eq 1 ] || fail "status $code, not 1: a fault and a baseline"
python3 - "$dir/rows" <<'P' || fail "a fault reaches the baseline"
import json, sys
rows = {row["case"]["strategy"]: row for row in map(json.loads, open(sys.argv[1]))}
assert rows["mirrored"]["result"]["status"] == "failed" and rows["single"]["result"]["status"] == "ok"
assert "inject" not in rows["single"]["case"], rows["single"]["case"]
P
# A device without samples in an epoch's last batch has no gradient to change: 2 samples on 3 devices.
for strategy in towers mirrored zero; do
  code=0
  "$LOCKSTEP" verify --strategy $strategy --devices 3 --model poly --data synthetic:50 --batch 48 --epochs 1 \
    --warmup 0 --inject bitflip=0:1 --results none >"$dir/rows" 2>"$dir/err" || code=$?
  [ "$code" -eq 2 ] && [ "$(wc -l <"$dir/err")" -eq 1 ] || { bad; fail "status $code, not 2: $strategy, a fault nowhere"; }
done
# A straggler among towers is slow wherever its backward pass runs.
"$LOCKSTEP" run --strategy towers --devices 3 --colocate-gradients yes,no --model poly --inject delay=1:3ms --steps 10 \
  --warmup 0 --results none --format jsonl >"$dir/rows"
cat "$dir/rows" >>"$dir/every"
python3 - "$dir/rows" <<'P' || fail "a delay that nobody waits for"
import json, sys
medians = {r["case"]["colocate_gradients"]: r["time"]["step_ms"]["median"] for r in map(json.loads, open(sys.argv[1]))}
assert len(medians) == 2 and min(medians.values()) >= 3, medians
P
# Traffic is counted in full steps: absent if there was none.
for steps in "--steps 0 --warmup 0" "--epochs 2 --warmup 2" "--epochs 2 --warmup 0"; do
  # shellcheck disable=SC2086
  "$LOCKSTEP" run --strategy towers,mirrored --devices 3 --model poly --data synthetic:50 --batch 100 $steps \
    --capture no,yes --results none --format jsonl >"$dir/rows"
cat "$dir/rows" >>"$dir/every"
  [ "$(grep -c '"status":"ok"' "$dir/rows")" -eq 4 ] || { bad; fail "not 4 rows are ok: $steps"; }
  grep -q '"traffic"' "$dir/rows" && fail "traffic of steps that were not taken: $steps"
done
# The table of verify identifies a row's case, and says how close it came.
"$LOCKSTEP" verify --strategy mirrored --devices 3 --batch 60 --data synthetic:500 --steps 3 --allreduce ring,tree \
  --results none >"$dir/rows"
python3 - "$dir/rows" <<'P' || fail "the table of verify is wrong"
import sys
lines = [line.rstrip("\n") for line in open(sys.argv[1])]
at = next(i for i, line in enumerate(lines) if line.startswith("allreduce "))
shared, rows, below = ", ".join(lines[:at]), [line.split() for line in lines[at + 1:at + 3]], lines[at + 3:]
assert shared.startswith("model mlp:784-128-10, data synthetic:500, strategy mirrored, devices 3 cpu,"), shared
assert lines[at].replace("max ulp", "ulp").split() == ["allreduce", "compared", "gradient", "drift", "ulp", "gate",
        "status"], lines[at]
assert [row[0] for row in rows] == ["ring", "tree"] and all(row[1] == "13" for row in rows), rows
assert all(0 < float(row[2]) < 1e-5 for row in rows), rows
assert below[0].startswith("mirrored, bounded: after each of 13 steps "), below
P
# All rows match their schema.
python3 -B "$(dirname "$0")/../../bench/tests/check_rows.py" "$dir/every"
