#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A planted delay of known size appears, within 10% of its size, in the right part of the step: in the row's waterfall
# and in a trace's. Late wake-ups count as waiting, so a busy machine hardly matters; waiting may be longer by as much
# as the step exceeds its delays. Up to ten tries, for machines whose cores are busy.
set -euo pipefail
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_SLOW='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
    echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
    exit 77
fi
. "$(dirname "$0")/lib.sh"

small="--model mlp:784-4-10 --data synthetic:64 --batch 8 --cpu-devices 3 --quiet --warmup 1"

# found SLOW PARTS OPTIONS: PARTS is a Python dictionary of ms per step, the mean over the devices.
found() {
    export LOCKSTEP_SLOW=$1
    local parts=$2
    shift 2
    echo "${LOCKSTEP_SLOW#none:1ms} $*"
    for _ in {1..10}; do
        # shellcheck disable=SC2086
        lockstep_ok run $small --steps 3 --gate-steps 0 --results none --format jsonl "$@"
        # shellcheck disable=SC2086
        lockstep_ok trace $small --trace-steps 2 --out trace.json "$@"
        ! judge "$parts" || break
    done
    expect "$LOCKSTEP_SLOW $* is found as $parts" [ "$(tail -n 1 judged)" = right ]
}

judge() {
    python3 - "$work" "$1" <<'P' >judged 2>&1 || true
import json, sys
wanted, tolerance = eval(sys.argv[2]), 0.1
rows = [json.loads(line) for line in open(sys.argv[1] + "/every.rows")]
trace = json.load(open("trace.json"))["otherData"]
for what, parts in ("the row", rows[-1]["waterfall"]), ("the trace", trace["waterfall"]):
    whole = sum(parts.values())
    print(f"  {what}:", ", ".join(f"{name[:-3]} {part:.2f} ms" for name, part in parts.items() if part > 0.01 * whole))
    for name, ms in wanted.items():
        late = whole - sum(wanted.values()) if name == "wait" else 0
        its = parts.get(name + "_ms", 0)
        assert (1 - tolerance) * ms <= its <= (1 + tolerance) * ms + late, f"{what}: {name} is {its:.3f}, not {ms} ms: {parts}"
print("right")
P
    sed '$d' judged
    [ "$(tail -n 1 judged)" = right ]
}

link="--link latency=20ms"
two="--strategy mirrored --devices 2 --allreduce ring --bucket-bytes 1MiB"
# shellcheck disable=SC2086
{
    found dense_forward:10ms '{"compute": 20}' --strategy single # two layers
    found gather:10ms '{"copy": 20}' --strategy single # samples and labels
    found optimizer:20ms '{"optimizer": 20}' --strategy single
    found gather:10ms '{"copy": 20}' $two
    found exchange:20ms '{"comm_exposed": 40}' $two # two rounds
    found none:1ms '{"wait": 40}' $two --inject delay=1:40ms
    found none:1ms '{"wait": 40}' --strategy ps --devices 3 --inject delay=1:40ms
    found none:1ms '{"comm_exposed": 40}' $two $link
    found none:1ms '{"wait": 80, "comm_exposed": 40}' $two $link --inject delay=1:80ms
    found none:1ms '{"copy": 40}' --strategy towers --devices 2 $link # variables to a tower, its gradient back
    found none:1ms '{"copy": 40}' --strategy model-parallel --devices 2 $link
    found none:1ms '{"comm_exposed": 40}' --strategy ps --devices 1 --variable-device cpu:2 $link
    # Two stages, one micro-batch: each computes for 20 ms while the other waits
    found dense_forward:20ms '{"compute": 20, "wait": 20}' --strategy model-parallel --devices 2
}
finish
