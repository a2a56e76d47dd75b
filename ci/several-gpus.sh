#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checklist for whoever has two GPUs: each command, its exit status, and a line that it must print. Rehearsed on fake
# GPUs (test_fake_nccl_mpi); not yet run on two GPUs.
#
#   ci/several-gpus.sh [PROGRAM]        build/lockstep; mpirun comes from PATH, or from MPIRUN
#
# Prints "ok" or "WRONG" for each, with the command; exit status 1 if one is wrong. Figures to look at: copies over
# NVLink reach more than 100 GB/s from 64 MiB on, over PCIe 20 to 50; the bus bandwidth of `--comm nccl` is that of
# nccl-tests; at the end, `eff` is above 0.8. Where something differs: NCCL_DEBUG=INFO; --capture no tells whether the
# graph is at fault; nvidia-smi topo -m has the links. Two nodes: ci/slurm/gpu-nodes.sbatch.
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "${1:-$here/build/lockstep}")
small="--model mlp:784-16-10 --batch 32 --data synthetic:320 --results none"
short="$small --steps 3 --warmup 0 --strategy mirrored"
sizes=${LOCKSTEP_SIZES:-64KiB,1MiB,64MiB}
wrong=0

# check STATUS PATTERN COMMAND...
check() {
  local status=$1 pattern=$2 code=0 said
  shift 2
  said=$(timeout -k 2 300 "$@" 2>&1 </dev/null) || code=$?
  if [ "$code" -eq "$status" ] && grep -Eq -- "$pattern" <<<"$said"; then
    echo "ok     ${*/#$here\//}"
  else
    wrong=1
    echo "WRONG  ${*/#$here\//}: status $code, $status expected; expected: $pattern"
  fi
  grep -E '^ *[0-9]+ [a-z]+.* [0-9.]+ |^copy|average|eff|ok$' <<<"$said" | head -n 4 | sed 's/^/         /'
}
two() { check "$1" "$2" bash "$here/bench/tests/mpirun.sh" 2 "$program" "${@:3}"; }

# shellcheck disable=SC2086
{
  check 0 '^gpu:1 ' "$program" devices
  check 0 '^copy +from gpu:1 .* 0$' "$program" micro copy --devices gpu:0+gpu:1 --sizes $sizes
  check 0 'average bus bandwidth' "$program" micro allreduce --comm device --devices 2 --sizes $sizes
  check 0 '^ *[0-9]+ library .* 0$' "$program" micro allreduce --comm nccl --devices 2 --sizes $sizes
  check 0 '^exact .* 0 exact +ok' "$program" verify $short --devices gpu:0+gpu:1 --reduce exact,fast
  check 0 ' bounded ok$' "$program" verify $short --devices gpu:0+gpu:1 --comm nccl
  two 0 ' bounded ok$' verify $short --devices 1
  two 0 ' bounded ok$' verify $short --devices 1 --gradient-accumulation-steps 2 --gradient-accumulation-exchange each
  two 0 '^2 +gpu:1 communication +all-reduce, elements 0 to [0-9]+ +1 +1 ' run $short --devices 1 --print-step
  two 3 '--comm nccl' verify $small --strategy zero --devices 1
  two 137 'rank 1 ' run $small --strategy mirrored --steps 300 --gate-steps 2 --devices 1 --inject kill=1:20 --timeout 5s
  [ -n "${LOCKSTEP_SIZES:-}" ] || for comm in device nccl; do
    check 0 'eff' "$program" run --model gpt:12-12-768-1024-50257 --batch 8 --data synthetic:64 --strategy mirrored \
      --devices 2 --comm $comm --reduce fast --baseline yes --results none
  done
}
exit "$wrong"
