#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The full matrix on the models as users run them: {single, towers, mirrored with 5 algorithms} x devices {1..8, 16} x
# {mlp, poly} x batches {256, 100, 7}, exact and fast, all cells that fit; pipelines and divided models in all
# combinations of what test_pipeline and test_model_parallel vary. No tolerance except the gate's.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$LOCKSTEP" verify --strategy single,towers,mirrored --allreduce auto,flat,ring,tree,halving-doubling,direct \
  --devices 1,2,3,4,5,6,7,8,16 --model mlp,poly --batch 256,100,7 --reduce exact,fast --steps 10 --warmup 0 \
  --results none --format csv >"$dir/rows" 2>"$dir/left-out" || {
  grep -v ',ok,' "$dir/rows" | cut -c 1-700 | head
  exit 1
}
rows=$(grep -c ',ok,' "$dir/rows")
echo "$rows cells are equal; $(wc -l <"$dir/left-out") do not fit"
# single 2 x 3 x 2; towers and mirrored exact 50 each; fast: towers 50, mirrored 6 x 50.
[ "$rows" -eq 462 ]
# divided COUNT OPTIONS: there are COUNT rows, all bitwise equal.
divided() {
  "$LOCKSTEP" verify "${@:2}" --epochs 2 --warmup 0 --reduce fast,exact --capture yes,no --results none --format csv >"$dir/rows"
  [ "$(grep -c ',ok,.*same bits' "$dir/rows")" -eq "$1" ]
}
divided 144 --strategy pipeline --model mlp:784-32-24-16-10 --data synthetic:300 --devices 2,3,4 --batch 64,9 \
  --pipeline-microbatches 1,4,9 --pipeline-schedule gpipe,1f1b
divided 96 --strategy model-parallel --model mlp:784-16-12-10 --data synthetic:230 --devices 1,2,3,5 --batch 100,7 \
  --optimizer adam,momentum:0.9,sgd
