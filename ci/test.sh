#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what is missing, builds, and runs the tests through CTest: ci/test.sh [--all]
#   --all    also the tests labelled slow and peers
# Builds: build (gcc), build-clang, build-asan, build-tsan, build-hooks, which has no MPI and CUDA, and build-fake where
# CUDA's headers are; warnings are errors in all of them. The tests of the other builds are tests of `build` (label
# sanitizer).
set -euo pipefail
cd "$(dirname "$0")/.."
exclude=(-LE 'slow|peers')
packages=test
for argument in "$@"; do
  case "$argument" in
  --all) exclude=() packages=all ;;
  *) echo "usage: ci/test.sh [--all]" >&2; exit 2 ;;
  esac
done
ci/install.sh "$packages"
launcher=()
if command -v ccache >/dev/null; then # two of the builds have the same GPU kernels
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=yes
fi
options=(-DLOCKSTEP_TESTS=ON -DLOCKSTEP_WERROR=ON -DCMAKE_CUDA_ARCHITECTURES=80)
presets=(release clang asan tsan hooks)
if command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then presets+=(fake); fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
for preset in "${presets[@]}"; do # all at once: configuring one uses one core
  cmake --preset "$preset" "${options[@]}" "${launcher[@]}" >"$logs/$preset" 2>&1 || touch "$logs/$preset.failed" &
done
wait
echo "configured: $SECONDS s"
for preset in "${presets[@]}"; do
  started=$SECONDS
  targets=() # of builds that find no further warnings only what their tests need
  case "$preset" in asan | tsan | hooks | fake) [ "$packages" = all ] || targets=(--target fast) ;; esac
  if [ -e "$logs/$preset.failed" ] || ! cmake --build --preset "$preset" "${targets[@]}" >>"$logs/$preset" 2>&1; then
    tail -n 60 "$logs/$preset" >&2
    exit 1
  fi
  echo "built: $preset, $((SECONDS - started)) s"
done
# Debian's python3 has what the tests need, and starts faster than another that may be in front of it.
[ "$(command -v python3)" -ef /usr/bin/python3 ] || PATH=/usr/bin:$PATH
ctest --test-dir build -j$((5 * $(nproc) + 1)) --output-on-failure --no-tests=error "${exclude[@]}"
