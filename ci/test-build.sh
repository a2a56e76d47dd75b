#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs the tests that another build tree has (LOCKSTEP_TESTS_FOR in ci/cmake/Tests.cmake): ci/test-build.sh DIR [--slow]
#   --slow   those labelled slow, instead of all others
set -euo pipefail
dir=$1
tier=-LE
case "${2:-}" in
'') ;;
--slow) tier=-L ;;
*) echo "usage: ci/test-build.sh DIR [--slow] (DIR: a build folder with tests; --slow: only the slow tests)" >&2; exit 2 ;;
esac
[ -e "$dir/CTestTestfile.cmake" ] || {
  echo "skipped: $dir is not built; ci/test.sh builds it"
  exit 77
}
export ASAN_OPTIONS=detect_leaks=1:halt_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$(cd "$(dirname "$0")" && pwd)/tsan.supp
export TSAN_OPTIONS
if grep -q '^LOCKSTEP_TESTS_FOR:STRING=bare$' "$dir/CMakeCache.txt"; then # as on a machine without these programs
  programs=$(mktemp -d)
  trap 'rm -rf "$programs"' EXIT
  IFS=: read -ra folders <<<"/usr/bin:$PATH"
  for folder in "${folders[@]}"; do ln -s "$folder"/* "$programs" 2>/dev/null || true; done # the first of a name stays
  rm -f "$programs"/{gnuplot,mpi,orte,nvcc,ncu,nvidia-smi}*
  export PATH=$programs LOCKSTEP_HIDDEN="gnuplot mpirun nvcc"
fi
ctest --test-dir "$dir" -j$((2 * $(nproc))) $tier slow --output-on-failure --no-tests=error
