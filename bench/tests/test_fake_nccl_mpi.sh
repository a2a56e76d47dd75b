#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# NCCL between processes, on fake GPUs (preset fake): every process calls the same collectives in the same order, and the
# step is single's within the bound. ci/several-gpus.sh, a checklist for real ones, finds nothing wrong. Leaves out several hosts.
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"
small="--model mlp:784-16-10 --batch 32 --data synthetic:320 --results none"
export LS_FAKE_NCCL_LOG=$work/order

# Removes and names what processes that have ended left.
sweep() {
    local folder process
    for folder in /dev/shm/lockstep-nccl-*; do
        process=${folder#*nccl-}
        [ ! -d "$folder" ] || kill -0 "${process%-*}" 2>/dev/null || { rm -rf "$folder" && echo "$folder"; }
    done
}
sweep >/dev/null

# shellcheck disable=SC2086
for more in "--bucket-bytes 4KiB" "--gradient-accumulation-steps 2 --gradient-accumulation-exchange each"; do
    rm -f order.*
    ranks_ok 2 verify $small --steps 2 --warmup 1 --strategy mirrored --devices 1 $more
    expect "equal within the bound" grep -Eq ' 3 .* bounded ok$' out
    expect "both ranks call the same, in one order" cmp order.0 order.1
    expect "more than one collective a step" [ "$(wc -l <order.0)" -ge 6 ]
done
# shellcheck disable=SC2086
ranks_ok 2 run $small --steps 2 --strategy mirrored --devices 1 --print-step
expect "each rank's step sums gradients behind its backward pass" [ "$(grep -cE \
    '^2 +gpu:[01] communication +all-reduce, elements 0 to [0-9]+ +1 +1 ' out)" -eq 2 ]
expect "nothing is left behind" [ -z "$(sweep)" ]
code=0
command_line="(ci/several-gpus.sh)"
LOCKSTEP_SIZES=4KiB LS_FAKE_GPUS=2 "$SOURCE_DIR/ci/several-gpus.sh" "$LOCKSTEP" >out 2>err || code=$?
expect "the checklist is right" eval '[ $code -eq 0 ] && [ "$(grep -c "^ok " out)" -eq 11 ]'
sweep >/dev/null # of the rank that the checklist kills
finish
