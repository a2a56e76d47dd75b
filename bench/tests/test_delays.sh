#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A delay of known size is found in the part of the step that it belongs to, of the row's waterfall and of a trace's.
# Delays are some 100 times what the step takes by itself, and parts are judged as shares of the step, so that how
# fast the machine is decides nothing. Tolerance: a third of the share, for others may be on the cores; on an idle
# machine TOLERANCE=0.1 holds.
set -euo pipefail
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_SLOW='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
    echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
    exit 77
fi
. "$(dirname "$0")/lib.sh"

small="--model mlp:784-4-10 --data synthetic:64 --batch 8 --cpu-devices 3 --quiet --warmup 1"

# found SLOW SHARES OPTIONS: SHARES a Python dictionary of the parts that are not 0, in any unit.
found() {
    export LOCKSTEP_SLOW=$1
    local shares=$2
    shift 2
    echo "${LOCKSTEP_SLOW#none:1ms} $*"
    # shellcheck disable=SC2086
    lockstep_ok run $small --steps 3 --gate-steps 0 --results none --format jsonl "$@"
    # shellcheck disable=SC2086
    LOCKSTEP_SLOW=$LOCKSTEP_SLOW lockstep_ok trace $small --trace-steps 2 --out trace.json "$@"
    expect "$LOCKSTEP_SLOW $* is found as $shares" python3 - "$work" "$shares" <<'P'
import json, os, sys
wanted, tolerance = eval(sys.argv[2]), float(os.environ.get("TOLERANCE", 1 / 3))
rows = [json.loads(line) for line in open(sys.argv[1] + "/every.rows")]
trace = json.load(open("trace.json"))["otherData"]
for what, parts in ("the row", rows[-1]["waterfall"]), ("the trace", trace["waterfall"]):
    whole = sum(parts.values())
    print(f"  {what}:", ", ".join(f"{name[:-3]} {part:.2f} ms" for name, part in parts.items() if part > 0.01 * whole))
    for name, share in wanted.items():
        share /= sum(wanted.values())
        is_share = parts.get(name + "_ms", 0) / whole
        assert abs(is_share - share) <= tolerance * share, f"{what}: {name} is {is_share:.3f}, not {share:.3f}: {parts}"
P
}

link="--link latency=20ms"
two="--strategy mirrored --devices 2 --allreduce ring --bucket-bytes 1MiB"
# shellcheck disable=SC2086
{
    found dense_forward:10ms '{"compute": 1}' --strategy single
    found gather:10ms '{"copy": 1}' --strategy single
    found optimizer:20ms '{"optimizer": 1}' --strategy single
    found gather:10ms '{"copy": 1}' $two
    found exchange:20ms '{"comm_exposed": 1}' $two
    found none:1ms '{"wait": 1}' $two --inject delay=1:40ms
    found none:1ms '{"wait": 1}' --strategy ps --devices 3 --inject delay=1:40ms
    found none:1ms '{"comm_exposed": 1}' $two $link
    found none:1ms '{"wait": 80, "comm_exposed": 40}' $two $link --inject delay=1:80ms # 2 rounds of 20 ms
    found none:1ms '{"copy": 1}' --strategy towers --devices 2 $link
    found none:1ms '{"copy": 1}' --strategy model-parallel --devices 2 $link
    found none:1ms '{"comm_exposed": 1}' --strategy ps --devices 1 --variable-device cpu:2 $link
    # On two stages of a micro-batch each computes for 20 ms while the other waits, so half is of each
    found dense_forward:20ms '{"compute": 1, "wait": 1}' --strategy model-parallel --devices 2
}
finish
