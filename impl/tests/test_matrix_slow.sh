#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The full matrix on the models as users run them: {single, towers, mirrored with 5 algorithms} x devices {1..8, 16} x
# {mlp, poly} x batches {256, 100, 7}, exact and fast, all cells that fit. No tolerance except the gate's.
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
