#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `lockstep trace` of several processes: one file, one clock, messages from process to process; held against what it
# says of itself as in test_trace.sh (tolerance: 1% of the step, clocks as far as they are said to be known).
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"

mlp="--model mlp:784-16-10 --data synthetic:500 --batch 60 --quiet"

# traced RANKS MESSAGES OPTIONS: MESSAGES of a step; "-": not counted
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
# shellcheck disable=SC2086
ranks 2 trace $mlp --strategy mirrored --devices 1,2 --out trace.json
expect "exit status 2" [ "$code" -eq 2 ]
expect "one line" one_line "one value"
finish
