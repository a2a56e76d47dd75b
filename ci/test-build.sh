#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs the unit and integration tests and the examples of another build tree: ci/test-build.sh DIR
set -euo pipefail
dir=$1
[ -e "$dir/CTestTestfile.cmake" ] || {
  echo "skipped: $dir is not built; ci/test.sh builds it"
  exit 77
}
export ASAN_OPTIONS=detect_leaks=1:halt_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
# What a sanitizer can find lies in the library and the strategies, not in option parsing again.
skip='^check|micro_comm|test_refusals|test_results|test_arithmetic|test_options|test_install'
ctest --test-dir "$dir" --output-on-failure --no-tests=error -L 'unit|integration|example' -LE 'slow|peers' -E "$skip"
