#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Under mpirun, with the library's all-reduce, whose sums have an order of their own: the gate finds planted
# bugs (common/base/hooks.h), one of them only in steps that are put together. By the program of build-tsan,
# which has both hooks and MPI; its own reports are off, since Open MPI is not instrumented.
set -euo pipefail
launcher=$(cd "$(dirname "$0")" && pwd)/mpirun.sh
. "$(dirname "$0")/lib.sh"
command -v mpirun >/dev/null || { echo "skipped: mpirun is not installed (openmpi-bin)"; exit 77; }
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>&1 ||
    "$LOCKSTEP" --version | grep -q 'OpenMPI *not in this build'; then
    echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS and MPI; ci/test.sh builds it (preset tsan)"
    exit 77
fi
export TSAN_OPTIONS=report_bugs=0

while IFS='|' read -r bug reason; do
    command_line="(2 ranks, LOCKSTEP_PLANT=$bug)"
    code=0
    LOCKSTEP_PLANT=$bug "$launcher" 2 "$LOCKSTEP" verify --strategy mirrored --allreduce library \
        --model mlp:784-16-16-10 --data synthetic:1000 --batch 100 --steps 8 --warmup 0 --results none \
        --format jsonl >out 2>all </dev/null || code=$?
    collect_rows
    grep '^lockstep: ' all >err || true
    if [ -z "$bug" ]; then
        expect "nothing is planted: status 0" [ "$code" -eq 0 ]
    else
        expect "$bug: status not 0" [ "$code" -ne 0 ]
        rows "$bug is found" "r['result']['status'] == 'failed' and r['result']['reason'].startswith('$reason')"
    fi
done <<'BUGS'
|
state_not_mirrored|4 steps at once: the reduced gradient of step 3 differs
bucket_early|step 0: the reduced gradient differs
applied_twice|step: 
BUGS
finish
