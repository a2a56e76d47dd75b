#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds this commit's program with planted slowdowns: ci/plant-slowdowns.sh FOLDER [PERCENT [NAME...]] FOLDER gets
# `base`, and (all, or those named) programs slower by about PERCENT (5) of a step of `mlp`: `kernel` (in the
# softmax), `host` (where batches are gathered), `communication` (in the direct all-reduce, which `mirrored` uses on
# two devices); and `flag`, the same sources without optimization (-O0). For ci/calibrate-regress.sh. Needs what a
# build needs, and some minutes.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: ci/plant-slowdowns.sh FOLDER [PERCENT [NAME...]] (FOLDER: where the slowed programs are written; PERCENT: how much slower; NAME: which slowdowns: kernel, host, communication or flag)" >&2; exit 2; }
sources=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
percent=${2:-5}
names=" ${*:3} "
[ $# -gt 2 ] || names=" kernel host communication flag "
launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
fi
tree=$(mktemp -d)
export CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=yes # its path differs each time
trap 'rm -rf "$tree"' EXIT
git clone -q --local "$sources" "$tree/lockstep"
cd "$tree/lockstep"
make_program() { # NAME [CMAKE OPTION]...
  local name=$1
  shift
  if ! { cmake --preset release -DLOCKSTEP_TESTS=OFF "${launcher[@]}" "$@" &&
    cmake --build --preset release --target lockstep; } >"$tree/log" 2>&1; then
    tail -n 30 "$tree/log" >&2
    exit 3
  fi
  cp build/lockstep "$folder/$name"
}
wanted() { [[ $names == *" $1 "* ]]; }
step() { # PERCENT of a step, in nanoseconds
  "$folder/base" run --data synthetic:6000 --steps 300 --gate-steps 0 --results none --format jsonl "$@" |
    python3 -c 'import json, sys
print(int(json.loads(sys.stdin.readline())["time"]["step_ms"]["median"] * 1e4 * float(sys.argv[1])))' "$percent"
}
# plant NAME FILE FUNCTION OPTION...: busy-waits at the function's beginning for PERCENT of a step with these options.
plant() {
  wanted "$1" || return 0
  local ns
  ns=$(step "${@:4}")
  awk -v head="^static ls_status $3\\\\(" -v ns="$ns" '
    /^#include/ && !done { print "#include \"common/base/clock.h\""; done = 1 }
    { print }
    $0 ~ head { inside = 1 }
    inside && /^{/ {
      printf "    for (const uint64_t until = ls_clock_ns() + %d; ls_clock_ns() < until;)\n        ;\n", ns
      inside = 0; planted = 1
    }
    END { exit !planted }' "$2" >"$tree/planted" ||
    { echo "ci/plant-slowdowns.sh: $2 does not have the text $3 any more; correct the table in this script" >&2; exit 3; }
  cp "$tree/planted" "$2"
  make_program "$1"
  git checkout -q "$2"
}
make_program base
plant kernel common/kernel/cpu/elements/cpu_batch.c run_softmax --model mlp
plant host common/kernel/cpu/elements/cpu_batch.c run_indices --model mlp
[ "$(nproc)" -lt 2 ] || plant communication common/comm/comm_thread_direct.c run_direct \
  --model mlp --batch 512 --strategy mirrored --devices 2
if wanted flag; then
  sed -i 's/^set(CMAKE_C_FLAGS_RELEASE "-O3")$/set(CMAKE_C_FLAGS_RELEASE "-O0")/' CMakeLists.txt
  make_program flag
  ! cmp -s "$folder/flag" "$folder/base" || { echo "ci/plant-slowdowns.sh: the program compiled with -O0 is identical to the program compiled with -O3, so it is not slower; check the compiler's options" >&2; exit 3; }
fi
ls "$folder"
