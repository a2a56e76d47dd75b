#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `lockstep trace` as a user sees it: files of every strategy are consistent with their own totals (check_trace.py;
# tolerance: 1% of the step) and with closed forms of messages; refusals. Leaves out several processes
# (test_trace_mpi.sh), and whether parts are right (test_delays.sh, with planted delays).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

mlp="--model mlp:784-16-10 --data synthetic:500 --batch 60 --cpu-devices 4 --quiet"

# traced MESSAGES OPTIONS: MESSAGES per step; "-": not counted
traced() {
    local messages=$1
    shift
    rm -f trace.json
    # shellcheck disable=SC2086
    lockstep_ok trace $mlp "$@" --out trace.json
    [ "$messages" != - ] || messages=
    # shellcheck disable=SC2086
    expect "the trace" python3 "$library/check_trace.py" trace.json $messages
}

# As a row counts: ring 2 (n - 1) per variable; direct one per nonempty slice; towers a fetch and a send each.
traced 0 --strategy single
traced 4 --strategy mirrored --devices 2 --allreduce direct --bucket-bytes 1MiB
traced 12 --strategy mirrored --devices 3 --allreduce ring --bucket-bytes 1MiB --cores-per-device 2 --trace-steps 5
traced - --strategy mirrored --devices 3 --reduce exact
traced 0 --strategy independent --devices 2
traced 2 --strategy towers --devices 2
traced 2 --strategy towers --devices 2 --capture no
traced - --strategy local-sgd --devices 2 --local-sgd-every 2
traced - --strategy ps --devices 2
traced - --strategy ps --devices 2 --ps-mode async
traced - --strategy ps --devices 3 --ps-backup-workers 1
traced 2 --strategy model-parallel --devices 2
traced 8 --strategy pipeline --devices 2
traced - --strategy hybrid --devices 4
traced - --strategy mirrored --devices 4 --ranks 2
expect "ranks that are threads are processes of the file" python3 -c "
import json
events = json.load(open('trace.json'))['traceEvents']
assert {e['pid'] for e in events if e['ph'] == 'X'} == {0, 1}"

# ---- Args, and what the file says of the case --------------------------------------------------

# shellcheck disable=SC2086
lockstep_ok trace $mlp --strategy mirrored --devices 2 --trace-steps 2 --out trace.json
expect "layers, kinds, steps, the case" python3 - <<'P'
import json
trace = json.load(open("trace.json"))
slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
layers = {(e["cat"], e["args"]["layer"]) for e in slices}
assert {("compute", "dense0"), ("backward", "dense1"), ("optimizer", "dense0 to dense1")} <= layers, layers
assert any(e["args"]["flops"] == 2 * 30 * 784 * 16 for e in slices), "flops of the first product"
steps = {e["args"]["step"] for e in slices if e["cat"] == "compute"} # a device may be a step ahead or behind
assert {1, 2} <= steps <= {0, 1, 2, 3}, steps
other = trace["otherData"]
assert other["steps"] == 2 and other["case"]["strategy"] == "mirrored" and other["untraced_step_ms"] > 0
assert other["clocks"] == [{"rank": 0, "offset_us": 0, "error_us": 0}]
P

# shellcheck disable=SC2086
lockstep trace ${mlp/--quiet/} --strategy pipeline --devices 2 --pipeline-microbatches 3 --out staged.json
expect "how long each stage is idle" grep -qE '^lockstep: idle: cpu:0 [0-9]+%, cpu:1 [0-9]+%; if all stages took equal time, each would be idle for 25%$' err
expect "stage, micro-batch, partner" python3 - <<'P'
import json
args = [(e["cat"], e["name"], e["args"]) for e in json.load(open("staged.json"))["traceEvents"] if e["ph"] == "X"]
passes = {(a["layer"], a["stage"], a["microbatch"]) for c, _, a in args if a["layer"].startswith("dense") and c == "backward"}
assert passes == {(f"dense{s}", s, m) for s in (0, 1) for m in (0, 1, 2)}, passes
sent = {(a["stage"], a["microbatch"], a["partner"]) for c, n, a in args if "partner" in a and n == "copy.send"}
assert sent == {(s, m, f"cpu:{1 - s}") for s in (0, 1) for m in (0, 1, 2)}, sent
assert not any("microbatch" in a for c, _, a in args if c == "optimizer")
P

# The checker detects errors: a slice that overlaps the next, a missing end of a message, a part that is too large, a
# slice of the critical path that is twice as long.
for edit in 'x[0]["dur"] = x[1]["ts"] - x[0]["ts"] + 1' 'events.remove(ends[0])' 'other["waterfall"]["wait_ms"] += 1' \
    'other["critical_path"]["length_ms"] *= 2' 'other["step_ms"] *= 0.9'; do
    python3 - "$edit" <<'P'
import json, sys
trace = json.load(open("trace.json"))
events, other = trace["traceEvents"], trace["otherData"]
x = [e for e in events if e["ph"] == "X"]
ends = [e for e in events if e["ph"] == "s"]
exec(sys.argv[1])
json.dump(trace, open("wrong.json", "w"))
P
    expect "the checker finds $edit" bash -c '! python3 "$1" wrong.json >/dev/null 2>&1' _ "$library/check_trace.py"
done

# ---- Refusals ----------------------------------------------------------------------------------

refused() {
    local word=$1
    shift
    # shellcheck disable=SC2086
    lockstep trace $mlp "$@"
    expect "exit status 2 or 3" [ "$code" -eq 2 -o "$code" -eq 3 ]
    expect "one line with $word" one_line "$word"
}
# An incomplete file is removed if it cannot be finished; an interrupted trace writes none.
command_line="trace, with a limit on the size of files"
code=0
# shellcheck disable=SC2086
# TMPDIR: ThreadSanitizer would write a file of its own there, which the limit cuts, and map it.
(ulimit -f 4; TMPDIR=none exec "$LOCKSTEP" trace $mlp --strategy single --out half.json) >out 2>err || code=$?
expect "exit status 3" [ "$code" -eq 3 ]
expect "one line" one_line "half.json: cannot be written: File too large"
expect "no half of a trace" [ ! -e half.json ]
command_line="trace, interrupted"
code=0
# shellcheck disable=SC2086
"$LOCKSTEP" trace $mlp --strategy mirrored --devices 2 --inject delay=1:60ms --warmup 0 --trace-steps 500 \
    --out half.json >out 2>err </dev/null &
until_caught $!
sleep 0.2
kill -INT $! && wait $! || code=$?
expect "exit status 130" [ "$code" -eq 130 ]
expect "no trace of it" [ ! -e half.json ]

refused --out --strategy single
refused "one value" --strategy mirrored --devices 1,2 --out trace.json
lockstep trace --model poly --strategy single,mirrored --devices 1,2 --out trace.json # single cannot run on 2
expect "one line, also where a case is left out" one_line "the options make 3 cases"
refused "delay=RANK:TIME" --inject kill=0:3 --out trace.json
refused "No such file" --out missing/trace.json
refused "1 to 1000" --trace-steps 0 --out trace.json
expect "nothing is kept of them" [ ! -e missing ]

finish
