#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Mutation test of the steps of two ranks, both edited in the same way (mutate.py); unless thorough, one of three edits.
# Tolerance: 1 of 1,000 edits may survive. Uses a build with both hooks and MPI (preset tsan), with its own reports off.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export TSAN_OPTIONS=report_bugs=0
export PMIX_MCA_gds=hash # Open MPI 5's other one maps memory at addresses that ThreadSanitizer uses
launcher=$SOURCE_DIR/bench/tests/mpirun.sh
"$launcher" --kind >"$dir/kind" || { status=$?; cat "$dir/kind"; exit "$status"; } # 77: with the reason
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_EDIT='?' "$LOCKSTEP" --version >/dev/null 2>&1 ||
  "$LOCKSTEP" --version | grep -q 'OpenMPI *not in this build'; then
  echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS and MPI; ci/test.sh builds it (preset tsan)"
  exit 77
fi
cat >"$dir/configurations" <<T
--strategy mirrored --model poly --data synthetic:50 --batch 20 --steps 2 --timeout 5s
T
[ -n "${LOCKSTEP_THOROUGH:-}" ] || set -- --one-of 3 "$@"
python3 "$SOURCE_DIR/impl/tests/mutate.py" "$LOCKSTEP" "$dir/configurations" --ranks "$launcher 2" "$@"
