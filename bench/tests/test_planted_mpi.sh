#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Under mpirun, with the library's all-reduce, whose order is unknown: the gate finds planted bugs
# (impl/tests/hooks.txt), one of which only affects steps that are enqueued at once. A rank that cannot reopen its
# devices for a block ends the case on all ranks, which report it and run the next case. Uses the program of
# build-tsan, which has both hooks and MPI; thread sanitizer reports are off, since Open MPI is not instrumented.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
    echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS and MPI; ci/test.sh builds it (preset tsan)"
    exit 77
fi
! without_ranks || exit 77
export TSAN_OPTIONS=report_bugs=0
export PMIX_MCA_gds=hash # Open MPI 5's other one maps memory at addresses that ThreadSanitizer uses

while IFS='|' read -r bug reason; do
    command_line="(2 ranks, LOCKSTEP_PLANT=$bug)"
    code=0
    LOCKSTEP_PLANT=$bug "$launcher" 2 "$LOCKSTEP" verify --strategy mirrored --allreduce library \
        --model mlp:784-16-16-10 --data synthetic:1000 --batch 100 --steps 8 --warmup 0 --results none \
        --format jsonl >out 2>all </dev/null || code=$?
    collect_rows
    ours all >err
    if [ -z "$bug" ]; then
        expect "nothing is planted: status 0" [ "$code" -eq 0 ]
    else
        expect "$bug: status not 0" [ "$code" -ne 0 ]
        rows "$bug is found" "r['result']['status'] == 'failed' and r['result']['reason'].startswith('$reason')"
    fi
done <<'BUGS'
|
state_not_mirrored|in one run of 4 steps: the reduced gradient of step 3 differs
bucket_early|step 0: the reduced gradient differs
applied_twice|step: 
BUGS

# reopening RANK NUMBER OPTIONS...: runs two cases in which session NUMBER that this rank opens for training fails.
reopening() {
    local rank=$1 number=$2
    shift 2
    command_line="(3 ranks, rank $rank with LOCKSTEP_FAIL=open:$number) $*"
    code=0
    local run=("$LOCKSTEP" run --model mlp:784-12-10 --batch 12 --data synthetic:200 --steps 23 --blocks 4
        --gate-steps 0 --seed 1,2 --results none --format jsonl "$@") each=() r
    for r in 0 1 2; do
        [ "$r" -eq 0 ] || each+=(:)
        [ "$r" -ne "$rank" ] || each+=(env "LOCKSTEP_FAIL=open:$number")
        each+=("${run[@]}")
    done
    timeout -k 5 300 "$launcher" 3 "${each[@]}" >out 2>all </dev/null || code=$?
    collect_rows
    ours all >err
    expect "status 3, and nothing beside the rows" [ "$code/$(wc -l <err)" = 3/0 ]
    rows "one row a case, of which one failed" "sorted(x['result']['status'] for x in rows) == ['error', 'ok']"
    rows "which says where and why, and keeps no figure" "all(re.search(
        r'^$([ "$rank" = 0 ] || echo "rank $rank on .*: ")LOCKSTEP_FAIL: open: fails', x['result']['reason']) and
        not {'time', 'waterfall', 'memory', 'traffic'} & set(x) for x in rows if x['result']['status'] == 'error')"
}
reopening 1 2 --strategy mirrored
if thorough; then
    reopening 2 5 --strategy pipeline
    reopening 0 3 --strategy ps --ps-mode async
fi
finish
