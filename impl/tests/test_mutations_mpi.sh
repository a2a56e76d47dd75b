#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Whatever is changed in the steps of two ranks alike is found (mutate.py). Tolerance: none survives but
# 2 in 100. With the program of a build that has hooks and MPI (preset tsan), whose own reports are not wanted here.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export TSAN_OPTIONS=report_bugs=0
if ! command -v mpirun >/dev/null || [ ! -x "$LOCKSTEP" ] || LOCKSTEP_EDIT='?' "$LOCKSTEP" --version >/dev/null 2>&1 ||
  "$LOCKSTEP" --version | grep -q 'OpenMPI *not in this build'; then
  echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS and MPI; ci/test.sh builds it (preset tsan)"
  exit 77
fi
cat >"$dir/configurations" <<T
--strategy mirrored --model poly --data synthetic:50 --batch 20 --steps 2 --timeout 5s
T
python3 "$SOURCE_DIR/impl/tests/mutate.py" "$LOCKSTEP" "$dir/configurations" --ranks "$SOURCE_DIR/bench/tests/mpirun.sh 2" "$@"
