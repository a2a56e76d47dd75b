#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A trace in Perfetto's trace processor (PyPI `perfetto`, which fetches its program when first used; or that program's
# path in TRACE_PROCESSOR): SQL over its slices gives the file's own waterfall. Tolerance: 1% of the step. Skipped
# where there is none: the machines that this was written on had none, so it has not run yet.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

cat >open.py <<'P'
import os
import sys
from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
path = os.environ.get("TRACE_PROCESSOR")
processor = TraceProcessor(trace=sys.argv[1], config=TraceProcessorConfig(bin_path=path) if path else None)
P
lockstep_ok trace --model mlp:784-16-10 --data synthetic:500 --strategy mirrored --devices 2 --quiet --out trace.json
python3 open.py trace.json >/dev/null 2>&1 || { echo "skipped: no trace processor (PyPI perfetto) here"; exit 77; }
cat open.py - >sums.py <<'P'
import json
other = json.load(open("trace.json"))["otherData"]
queues = " or ".join(f"(pid = {q['pid']} and tid = {q['tid']})" for q in other["main_queues"])
sums = {r.category: r.ns for r in processor.query(f"""select slice.category, sum(slice.dur) as ns from slice
    join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
    where {queues} group by slice.category""")}
each = 1e6 * other["steps"] * len(other["main_queues"])
sums["compute"] = sums.get("compute", 0) + sums.pop("backward", 0)
for category, name in ("compute", "compute_ms"), ("communication", "comm_exposed_ms"), ("wait", "wait_ms"), \
        ("copy", "copy_ms"), ("optimizer", "optimizer_ms"):
    said, found = other["waterfall"].get(name, 0), sums.get(category, 0) / each
    assert abs(said - found) <= 0.01 * other["step_ms"], f"{name}: {said} ms in the file, {found} by SQL"
flows = sum(1 for e in json.load(open("trace.json"))["traceEvents"] if e["ph"] == "s")
assert [r.n for r in processor.query("select count(*) as n from flow")] == [flows], "messages"
P
expect "SQL gives the file's own sums" python3 sums.py trace.json
finish
