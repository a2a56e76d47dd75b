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
TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$(cd "$(dirname "$0")" && pwd)/tsan.supp
export TSAN_OPTIONS
# What a sanitizer can find lies in the library and the strategies, not in option parsing again, nor
# in bugs that are planted, nor in large matrices of what a smaller test runs, too (hybrid has both
# kinds of divided models). Only the thread sanitizer's build has hooks of its own.
skip='^check|test_planted|test_micro|test_refusals|test_results|test_arithmetic|test_options|test_install|test_gpu_rehearsal'
skip+='|test_interrupt|test_links|test_reports|test_weight_decay|test_slurm|test_accuracy|test_syscalls|test_readme|test_fetch|test_rows|test_equal_rows|seed08|test_pipeline|test_model_parallel'
case $dir in
*tsan) skip+='|test_models|test_uncaptured|test_strategies|test_hybrid|test_ps$|test_run$|test_weight_decay|test_average|kernels|_layers|winograd|seed03|seed17' ;; # where threads meet: test_schedules has all strategies
*clang) skip+='|integration|example|test_schedules|test_worker_failure|test_comm|emulated' ;; # another compiler: units that compute
# Of the address sanitizer: those that wait, for threads; ps: its other tests, seed05; strategies: all
# are in test_models, with the larger models.
*) skip+='|test_schedules|test_ps_schedules|test_worker_failure|test_faults_devices|test_ps$|test_strategies|test_uncaptured|test_no_mpi|seed17' ;;
esac
ctest --test-dir "$dir" -j$((2 * $(nproc) + 1)) --output-on-failure --no-tests=error -L 'unit|integration|example' -LE 'slow|peers' -E "$skip"
