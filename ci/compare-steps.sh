#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ci/compare-steps.sh [--base COMMIT|PROGRAM] [--quick] [--only REGEX] [--jobs N] [--list] [PROGRAM] Runs the same
# cases, called cells, with another commit's program and PROGRAM (build/lockstep): shows that a change that should not
# change results does not. The base is built in a git worktree under build/compare and kept there; results are not
# kept, since digests depend on the processor. ci/compare_steps.py and ci/compare_cells.py say what is run and
# compared, and what is not. Exit status: 0 all equal, 1 some differ, 2 usage, 3 the base cannot be built.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."
usage() { sed -n '3,9s/^# //p' ci/compare-steps.sh >&2; exit 2; }
base=64aad30 # the last commit before steps were described as data
program=build/lockstep
options=()
while [ $# -gt 0 ]; do
  case $1 in
  --base | --only | --jobs)
    [ $# -ge 2 ] || usage
    if [ "$1" = --base ]; then base=$2; else options+=("$1" "$2"); fi
    shift 2
    ;;
  --quick | --list) options+=("$1") && shift ;;
  -*) usage ;;
  /*) program=$1 && shift ;;
  *) program=$from/$1 && shift ;;
  esac
done
[ -x "$program" ] || { echo "ci/compare-steps.sh: $program: there is no such program; build it with cmake --preset release && cmake --build --preset release" >&2; exit 2; }
mkdir -p build/compare
if [ -f "$from/$base" ] && [ -x "$from/$base" ]; then
  before=$from/$base
elif [ -f "$base" ] && [ -x "$base" ]; then # an absolute path
  before=$base
else
  commit=$(git rev-parse --verify --quiet "$base^{commit}") || { echo "ci/compare-steps.sh: $base: there is no such commit; name another with --base" >&2; exit 2; }
  tree=build/compare/$commit
  before=$tree/build/lockstep
  [ -e "$tree/CMakeLists.txt" ] || { git worktree prune && git worktree add --force --detach "$tree" "$commit"; } >&2
  launcher=()
  ! command -v ccache >/dev/null || launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  (
    cd "$tree"
    [ -e build/build.ninja ] || cmake --preset release -DLOCKSTEP_TESTS=OFF "${launcher[@]}"
    nice cmake --build --preset release --target lockstep
  ) >build/compare/build.log 2>&1 || { tail -n 20 build/compare/build.log >&2; echo "ci/compare-steps.sh: $base: this commit cannot be built; the lines above say why" >&2; exit 3; }
fi
exec python3 -B ci/compare_steps.py "${options[@]}" "$before" "$program"
