#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `lockstep trace` of several processes: one file, one clock, messages between processes; consistent as in
# test_trace.sh. Tolerance: 1% of the step, plus the stated uncertainty of the clocks.
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"

mlp="--model mlp:784-16-10 --data synthetic:500 --batch 60 --quiet"

# traced RANKS MESSAGES OPTIONS: MESSAGES per step; "-": not counted
traced() {
    local n=$1 messages=$2
    shift 2
    rm -f trace.json
    # shellcheck disable=SC2086
    ranks_ok "$n" trace $mlp "$@" --out trace.json
    [ "$messages" != - ] || messages=
    # shellcheck disable=SC2086
    expect "the trace" python3 "$library/check_trace.py" trace.json $messages
}

traced 2 4 --strategy mirrored --allreduce direct --bucket-bytes 1MiB
traced 3 12 --strategy mirrored --allreduce ring --bucket-bytes 1MiB
traced 2 - --strategy ps --ps-colocate
traced 3 - --strategy ps --ps-mode ssp
traced 2 2 --strategy model-parallel
traced 2 - --strategy hybrid --devices 2 --hybrid-inner pipeline
expect "two processes, whose clocks are compared" python3 -c "
import json
trace = json.load(open('trace.json'))
assert {e['pid'] for e in trace['traceEvents'] if e['ph'] == 'X'} == {0, 1}
ends = {}
for e in trace['traceEvents']:
    if e['ph'] in 'sf':
        ends.setdefault(e['id'], set()).add(e['pid'])
assert {0, 1} in ends.values(), 'no message between them'
clocks = trace['otherData']['clocks']
assert [c['rank'] for c in clocks] == [0, 1] and clocks[1]['error_us'] > 0"
# Delays much longer than the step itself, and than a turn of other processes on the cores, as shares of it
# (tolerance: a third of each share): 2 rounds of 60 ms, one rank of 240 ms.
late="--strategy mirrored --allreduce ring --bucket-bytes 1MiB --link latency=60ms --inject delay=1:240ms"
shares="
import json
for parts in json.load(open('trace.json'))['otherData']['waterfall'], json.load(open('out'))['waterfall']:
    whole = sum(parts.values())
    assert abs(parts['wait_ms'] / whole - 2 / 3) < 2 / 9 and abs(parts['comm_exposed_ms'] / whole - 1 / 3) < 1 / 9, parts"
for _ in {1..5}; do # on a busy machine
    # shellcheck disable=SC2086
    ranks_ok 2 trace $mlp $late --warmup 1 --trace-steps 2 --out trace.json
    # shellcheck disable=SC2086
    ranks_ok 2 run $mlp $late --warmup 1 --steps 3 --gate-steps 0 --results none --format jsonl
    ! python3 -c "$shares" 2>shares || break
done
expect "a link is communication, a slow rank is waited for: $(tail -n 1 shares)" [ ! -s shares ]
# shellcheck disable=SC2086
ranks 2 trace $mlp --strategy mirrored --devices 1,2 --out trace.json
expect "exit status 2" [ "$code" -eq 2 ]
expect "one line" one_line "one value"
finish
