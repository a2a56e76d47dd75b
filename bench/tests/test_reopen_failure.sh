#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A block whose devices cannot be reopened (LOCKSTEP_FAIL=open:N, hooks.h), or that fails in a later step: the
# case has a single row of status "error" with the reason and without figures; other cases of the sweep have theirs;
# the exit status is 3, and only rows are printed. Leaves out missing device memory (test_memory.sh).
set -euo pipefail
unset LOCKSTEP_PLANT LOCKSTEP_FUZZ LOCKSTEP_FAIL
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
    echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
    exit 77
fi
. "$SOURCE_DIR/bench/tests/lib.sh"

# fails WHERE REASON OPTIONS...: one of two cases fails so, in its second block or later.
fails() {
    local where=$1 reason=$2
    shift 2
    rm -f r.db
    LOCKSTEP_FAIL=$where lockstep run --model mlp:784-12-10 --batch 12 --data synthetic:200 --steps 23 --blocks 4 \
        --gate-steps 0 --seed 1,2 --results r.db --format jsonl "$@"
    expect "status 3" [ "$code" -eq 3 ]
    expect "nothing beside the rows" [ ! -s err ]
    rows "one row a case, of which one failed ($where)" \
        "sorted(x['result']['status'] for x in rows) == ['error', 'ok']"
    rows "which says why, and keeps no figure" "all(re.search(r'$reason', x['result']['reason']) and
        not {'time', 'waterfall', 'memory', 'traffic'} & set(x) for x in rows if x['result']['status'] == 'error')"
    keep printed
    lockstep_ok results list --format jsonl --results r.db
    rows "the rows are kept" "rows == old('printed')"
}
for options in "" "--strategy mirrored --devices 2" "--strategy ps --ranks 3 --ps-mode async"; do
    fails open:2 '^LOCKSTEP_FAIL: open: fails' $options
    fails open:7 '^LOCKSTEP_FAIL: open: fails' $options
done
fails open:2 '^LOCKSTEP_FAIL: open: fails' --until-precision 50%

# The device fails in the first steps after opening, which are warm-up in both cases: only one case ends.
LOCKSTEP_FAIL=cpu:0:5 lockstep run --model poly --steps 20 --warmup 2 --blocks 2 --gate-steps 0 --results none --format jsonl
expect "status 3: a step that fails" [ "$code" -eq 3 ]
rows "a case that fails in a step keeps no memory either, for nobody has looked" \
    "len(rows) == 1 and r['result']['status'] == 'error' and not {'time', 'memory'} & set(r)"
finish
