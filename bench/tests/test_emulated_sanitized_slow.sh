#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The emulated GPU kernels (gpu_emulate.h) under the address and undefined-behaviour sanitizers, with the orders of three
# seeds: alignment of vector accesses, reads out of bounds of shared arrays and of memory of the host. The kernels alone
# are instrumented; tests and libraries are those of the build in $BUILD (preset release, by Ninja, with CUDA).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-$(dirname "$LOCKSTEP")}
grep -qs gpu_emulated "$build/build.ninja" || { echo "skipped: $build: has no emulated kernels; CUDA is missing"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
flags=(-fsanitize=address,undefined -fno-sanitize-recover=all -fsanitize-sections=ls_shared -g1)
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
tests=(${TESTS:-test_sums_emulated test_kernels_emulated test_layer_kernels_emulated test_residual_kernels_emulated
  test_conv_kernels_emulated})
ninja -C "$build" "${tests[@]}" >"$dir/log" || { tail -n 20 "$dir/log"; exit 1; }
ninja -C "$build" -t commands "${tests[@]}" >"$dir/commands"
for name in gpu_emulated sums_emulated; do
  line=$(grep -m1 -- " -c [^ ]*/$name.cpp$" "$dir/commands") || continue
  line=$(sed -E "s#-Werror##; s# -o [^ ]+# -o $dir/$name.o#; s# -M[FT] [^ ]+##g; s# -MD##" <<<"$line")
  (cd "$build" && eval "$line ${flags[*]}")
done
for test in "${tests[@]}"; do
  line=$(grep -- " -o $test " "$dir/commands" | tail -n 1)
  line=$(sed -E "s# -o $test # -o $dir/$test ${flags[*]} #; s#[^ ]*/(gpu|sums)_emulated\.cpp\.o#$dir/\1_emulated.o#g" <<<"$line")
  (cd "$build" && eval "$line -lstdc++")
  for seed in ${SEEDS:-1 2 3}; do
    (cd "$build" && LS_FAKE_SEED=$seed "$dir/$test" >"$dir/out" 2>&1) ||
      { echo "$test: order $seed"; grep -vE '^\[ +(RUN|OK)' "$dir/out" | head -n 40; exit 1; }
  done
  echo "$test: nothing found"
done
