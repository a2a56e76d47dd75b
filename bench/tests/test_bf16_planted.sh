#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every planted bug of bf16 (impl/tests/hooks.txt) is detected, and nothing without one: by the gate, or, where candidate
# and judge have it both, by the model in Python (test_bf16_arithmetic.py). Each line of the table is a bug and a case.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
    echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
    exit 77
fi
cat >table <<'TABLE'
no_master --strategy single
rounded_stale --strategy single
rounded_stale --strategy mirrored --devices 2
copy_not_refreshed --strategy single
cut_not_rounded --strategy single
partial_rounded_in_exact --strategy single --reduce exact --micro-splits 2
places_sum_narrow --strategy tensor-parallel --devices 3
exchange_not_rounded --strategy local-sgd --local-sgd-every 2 --devices 2
TABLE

# detect BUG OPTIONS: sets $found, "" if nothing is wrong.
detect() {
    LOCKSTEP_PLANT=$1 lockstep verify --model mlp:8-6-4 --data synthetic:40 --batch 8 --steps 3 --warmup 0 --precision bf16 \
        --results none --format jsonl --quiet $2
    found=
    [ "$code" -eq 0 ] || found="gate: $(sed 's/.*"reason":"\([^"]*\).*/\1/' out | head -c 80)"
    [ -n "$found" ] || [ -z "$1" ] || found=$(LOCKSTEP_PLANT=$1 python3 -B "$library/test_bf16_arithmetic.py" "$LOCKSTEP" . 2>&1 |
        sed -n 's/^FAILED: /model: /p' | head -c 80 || true)
}

planted
finish
