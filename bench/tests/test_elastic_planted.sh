#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every planted bug of changes of members (impl/tests/hooks.txt) is detected by the gate of `verify`, and in fast mode by
# that of `run` whose first steps do not reach the change; and nothing without one. Each line of the table is a bug and the case that shows it. Prints what detected it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
    echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
    exit 77
fi
mlp="--model mlp:20-16-8-3 --data synthetic:70 --batch 16 --lr-schedule cosine"
cat >table <<'TABLE'
divisor_of_old_n --strategy mirrored --devices 4 --elastic leave=3:2
samples_repeated --strategy mirrored --devices 4 --elastic leave=3:2
samples_skipped --strategy mirrored --devices 4 --elastic leave=3:2
joiner_without_slots --strategy mirrored --devices 4 --elastic leave=3:2,join=3:4
joiner_one_step_behind --strategy mirrored --devices 4 --elastic leave=3:2,join=3:4
void_step_counted --strategy mirrored --devices 4 --inject kill=1:3 --on-failure shrink
half_reduced_kept --strategy mirrored --devices 4 --inject kill=1:3 --on-failure shrink
old_share_updated --strategy zero --devices 4 --elastic leave=3:2
average_not_moved --strategy zero --devices 2 --elastic leave=1:2 --model cifar10
TABLE

# judge COMMAND..: adds to $found what its gate says; in $missed whether a gate says nothing.
judge() {
    lockstep "$@"
    case $code in
        0) missed=yes ;;
        1 | 3) found+=$(sed 's/.*"reason":"\([^"]*\).*/\1/' out | head -c 60) ;;
        *) found+="$code: $(head -c 60 err)" ;;
    esac
}

# detect NAME OPTIONS: sets $found, "" if one of two gates passes the case; if none is planted, what either says.
detect() {
    local options="$mlp $2 --results none --format jsonl --warmup 0 --steps 6" shards=16
    [[ $2 != *cifar10* ]] || { options="--data synthetic:32 --batch 8 ${options#"$mlp"}" shards=2; }
    found= missed=no
    # shellcheck disable=SC2086
    {
        LOCKSTEP_PLANT=$1 judge verify --reduce exact --micro-shards $shards $options
        LOCKSTEP_PLANT=$1 judge run --gate-steps 1 --blocks 1 --waterfall no $options
    }
    [ -z "$1" ] || [ $missed = no ] || found=
}

planted
finish
