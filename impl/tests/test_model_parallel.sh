#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A model divided over devices gives the bits of `single` in both modes; traffic and memory follow the formulas;
# placements are balanced, as named, or refused. No tolerance.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "$1"; exit 1; }
# verify COUNT OPTIONS: there are COUNT rows, all bitwise equal.
verify() {
  local want=$1 got
  shift
  "$LOCKSTEP" verify --strategy model-parallel "$@" --results none --format csv >"$dir/rows" 2>"$dir/err" || {
    grep -v ',ok,' "$dir/rows" | cut -c 1-900 | head -n 3
    head -n 5 "$dir/err"
    fail "verify failed: $*"
  }
  got=$(grep -c ',ok,.*same bits' "$dir/rows")
  [ "$got" -eq "$want" ] || { head -n 5 "$dir/err"; fail "$got rows are ok, not $want: $*"; }
}
# test_matrix_slow has all combinations.
verify 8 --devices 3,5 --batch 100,7 --model mlp:784-16-12-10 --data synthetic:230 --reduce exact,fast \
  --epochs 2 --warmup 0 --optimizer adam
verify 8 --devices 2,3 --batch 7 --model mlp:784-16-12-10 --data synthetic:230 --reduce exact,fast \
  --epochs 2 --warmup 0 --capture no --optimizer momentum:0.9,sgd
# Odd sizes: the offsets of a part's variables differ from the whole model's.
verify 12 --devices 3 --batch 61,7 --model mlp:785-33-17-11,mlp:3-5-7-11,mlp:1-1-2 --data synthetic:230 --reduce exact,fast --steps 3
verify 4 --devices 1,2 --model poly --reduce exact,fast --steps 5
# The slices of a loss know whose logits they are, also where these come from another device.
verify 3 --devices 2,4,8 --model gpt:1-2-6-3-257 --data synthetic:30 --batch 5 --steps 3 --reduce exact --micro-splits 2
for plan in dense0=cpu:0,dense1=cpu:1,dense2=cpu:2 dense0=cpu:2,dense1=cpu:0,dense2=cpu:1 \
  dense0=cpu:0,relu0=cpu:1,dense1=cpu:0,dense2=cpu:2 dense0=cpu:1,relu1=cpu:0,softmax_cross_entropy0=cpu:2; do
  verify 2 --devices cpu:0+cpu:1+cpu:2 --cpu-devices 3 --model mlp:784-16-12-10 --data synthetic:230 --batch 60 \
    --reduce exact,fast --steps 6 --model-parallel-place "$plan"
done
# The same from a file.
printf '# the first layer elsewhere\ndense0 = cpu:1\n\ndense1=cpu:0, relu1=cpu:0 # and what follows\n' >"$dir/plan"
verify 1 --devices 2 --model mlp:784-16-12-10 --data synthetic:230 --batch 60 --steps 3 --model-parallel-place "$dir/plan"
"$LOCKSTEP" run --strategy model-parallel --devices 2 --model mlp:784-16-12-10 --data synthetic:60 --batch 60 --steps 1 --results none \
  --format jsonl --model-parallel-place "$dir/plan" | grep -q '"dense0=cpu:1,relu0=cpu:1,dense1=cpu:0,relu1=cpu:0' || fail "the file's plan is not the row's"
# The gate detects a flipped bit on any device.
for device in 0 1; do
  "$LOCKSTEP" verify --strategy model-parallel --devices 2 --model mlp:784-16-10 --data synthetic:230 --batch 60 --steps 5 \
    --reduce exact,fast --inject bitflip=$device:2 --results none --format csv >"$dir/rows" && fail "a flipped bit is not found"
  [ "$(grep -c ',failed,.*step 2' "$dir/rows")" -eq 2 ] || fail "not found at step 2: $(cut -c 1-600 "$dir/rows")"
done
# Saved parameters and accuracy are those of single.
for run in "single --devices 1" "model-parallel --devices 2"; do
  # shellcheck disable=SC2086
  "$LOCKSTEP" run --strategy $run --model mlp:784-16-12-10 --data synthetic:500 --batch 50 --epochs 2 --results none \
    --format jsonl --save "$dir/${run%% *}.safetensors" >"$dir/${run%% *}.json"
done
python3 -B "$(dirname "$0")/../../bench/tests/check_rows.py" "$dir/single.json" "$dir/model-parallel.json"
cmp "$dir/single.safetensors" "$dir/model-parallel.safetensors"
python3 - "$dir/single.json" "$dir/model-parallel.json" <<'P'
import json, sys
single, divided = (json.load(open(name)) for name in sys.argv[1:])
assert single["train"] == divided["train"], (single["train"], divided["train"])
case, traffic = divided["case"], divided["traffic"]
assert case["batch_per_device"] == [50, 50]
# dense0 is most of the work: 16 activations per sample are sent, and their gradients back.
assert case["model_parallel_place"].startswith("dense0=cpu:0,relu0=cpu:0,dense1=cpu:1"), case
assert traffic["bytes_sent"] == traffic["bytes_formula"] == 2 * 50 * 16 * 4, traffic
assert traffic["messages_sent"] == traffic["messages_formula"] == 2, traffic
parameters = [device["parameters"] for device in divided["memory"]["devices"]]
assert parameters == [4 * (784 * 16 + 16), 4 * (16 * 12 + 12 + 12 * 10 + 10)], parameters
for device in divided["memory"]["devices"]:
    for name, size in device["formula"].items():
        assert device[name] == size, (device["device"], name, device[name], size)
P
# A model too large for one device runs when divided: memory is 1.3 times what a part needs.
big() { # STRATEGY DEVICES MEMORY FORMAT
  "$LOCKSTEP" run --strategy "$1" --devices "$2" --cpu-devices 2 --model mlp:784-1500-1500-10 --data synthetic:100 \
    --batch 20 --steps 2 --memory "$3" --results none --format "$4"
}
part=$(big model-parallel 2 growth jsonl | python3 -c '
import json, subprocess, sys
peak = max(d["peak"] for d in json.load(sys.stdin)["memory"]["devices"])
devices = subprocess.check_output([sys.argv[1], "devices", "--cpu-devices", "2", "--format", "json"])
print(1.3 * peak / json.loads(devices)["devices"][0]["capacity"])' "$LOCKSTEP")
big single 1 "fraction=$part" csv >"$dir/rows" && fail "the whole model fits"
grep -q 'bytes are needed, but --memory' "$dir/rows" || fail "not refused for memory: $(tail -n 1 "$dir/rows" | cut -c 1-400)"
big model-parallel 2 "fraction=$part" csv | grep -q ',ok,' || fail "the split model does not fit"
# The row contains the whole placement of a deep network.
"$LOCKSTEP" run --strategy model-parallel --devices 2 --model resnet:110 --data synthetic:10 --batch 2 --steps 0 --warmup 0 \
  --results none --format jsonl | grep -q 'softmax_cross_entropy0=cpu:1"' || fail "a long plan is cut"
# Refusals: one line, exit status 2.
refused() {
  local words=$1 code=0
  shift
  "$LOCKSTEP" run --model mlp:784-16-10 --data synthetic:100 --results none "$@" >"$dir/out" 2>"$dir/err" || code=$?
  [ "$code" -eq 2 ] && [ "$(wc -l <"$dir/err")" -eq 1 ] && grep -q "$words" "$dir/err" || fail "refused with $code: $(cat "$dir/err") for $*"
}
refused 'dense0, relu0, dense1' --strategy model-parallel --devices 2 --model-parallel-place dense7=cpu:0,dense1=cpu:1
refused 'cpu:0, cpu:1' --strategy model-parallel --devices 2 --model-parallel-place dense0=cpu:0,dense1=cpu:3
refused 'placed twice' --strategy model-parallel --devices 2 --model-parallel-place dense0=cpu:0,dense0=cpu:1
refused 'has no layer' --strategy model-parallel --devices 2 --model-parallel-place dense0=cpu:0,dense1=cpu:0
refused "has no '='" --strategy model-parallel --devices 2 --model-parallel-place dense0
refused '4 layers' --strategy model-parallel --devices 5
echo 'dense0=cpu:0,dense1' >"$dir/plan"
refused 'dense1: this is not LAYER=DEVICE: a part is missing' --strategy model-parallel --devices 2 --model-parallel-place "$dir/plan"
refused 'is not a file' --strategy model-parallel --devices 2 --model-parallel-place "$dir/none"
refused 'Is a directory' --strategy model-parallel --devices 2 --model-parallel-place "$dir"
printf '# nothing\n\n' >"$dir/plan"
refused 'places no layer' --strategy model-parallel --devices 2 --model-parallel-place "$dir/plan"
yes dense0=cpu:0 | head -c 70000 >"$dir/plan" || true
refused 'this file is too long' --strategy model-parallel --devices 2 --model-parallel-place "$dir/plan"
refused 'model-parallel' --strategy towers --devices 2 --model-parallel-place dense0=cpu:0
