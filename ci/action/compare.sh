#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares the program of another repository, in whose work tree it is called, with its base's: compare.sh BASE_COMMIT
# OUT. OUT gets the reports of ci/regress.sh, whose variables LOCKSTEP_BUILD, LOCKSTEP_PROGRAM and LOCKSTEP_REGRESS are
# to be set, and a page of the rows. LOCKSTEP: an installed lockstep; else the one that is built beside this script.
# Exit status: that of ci/regress.sh --ci.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: compare.sh BASE_COMMIT FOLDER (FOLDER gets the reports)" >&2; exit 2; }
here=$(cd "$(dirname "$0")/../.." && pwd)
: "${LOCKSTEP_BUILD:?the command that builds the program}" "${LOCKSTEP_PROGRAM:?the path of the program}"
export LOCKSTEP_BUILD LOCKSTEP_PROGRAM
export LOCKSTEP=${LOCKSTEP:-$here/build/lockstep}
named=$LOCKSTEP
LOCKSTEP=$(command -v "$named") || {
    echo "compare.sh: $named: there is no such program; set LOCKSTEP to an installed lockstep, or build this repository's" >&2
    exit 3
}
LOCKSTEP_TREE=$(git rev-parse --show-toplevel)
export LOCKSTEP_TREE
status=0
"$here/ci/regress.sh" --ci "$1" "$2" || status=$?
cd "$LOCKSTEP_TREE"
[ ! -f "$2/rows.db" ] || "$LOCKSTEP" report --results "$2/rows.db" --out "$2/rows" || true
exit "$status"
