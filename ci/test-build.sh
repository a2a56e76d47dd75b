#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs the tests that another build tree has (LOCKSTEP_TESTS_FOR in ci/cmake/Tests.cmake): ci/test-build.sh DIR
set -euo pipefail
dir=$1
[ -e "$dir/CTestTestfile.cmake" ] || {
  echo "skipped: $dir is not built; ci/test.sh builds it"
  exit 77
}
export ASAN_OPTIONS=detect_leaks=1:halt_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$(cd "$(dirname "$0")" && pwd)/tsan.supp
export TSAN_OPTIONS
ctest --test-dir "$dir" -j$((2 * $(nproc))) --output-on-failure --no-tests=error
