#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What is printed about a strategy with a period: `spaced` of a build with hooks averages every 4 steps and has no
# option for it, so nothing can follow from a name. Its median step has no average in it; each rate, speed-up, ranking,
# document and comparison must go by the mean. Rows of local-sgd without the period are read as older versions wrote
# them. No time that was measured is judged. Leaves out pictures.
. "$SOURCE_DIR/bench/tests/lib.sh"
if [ ! -x "$LOCKSTEP" ] || ! "$LOCKSTEP" list strategies | grep -q ' spaced '; then
    echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
    exit 77
fi
small="--model mlp:20-8-3 --data synthetic:100 --batch 20"

lockstep_ok run $small --link latency=5ms --strategy mirrored,spaced --devices 2 --gate-steps 4 --steps 40 \
    --baseline yes --format jsonl --results kept.db
cp out new.jsonl
rows "rows have the period, and rates of the mean step" "[(r['case'].get('period'), r['time'].get('samples_per_s_of'))
    for r in rows if r['case']['strategy'] != 'single'] == [(None, None), (4, 'mean')] and all(
    r['time']['samples_per_s'] == r['time']['samples_per_s_mean'] and 'partial' not in r['result']['warnings'] and
    (r['case']['steps'] - r['time'].get('discarded', 0)) % 4 == 0 for r in rows if 'period' in r['case'])"
rows "speed-up and efficiency are those of the mean step" "all(abs(s['time']['speedup'] /
    (s['time']['samples_per_s_mean'] / b['time']['samples_per_s_mean']) - 1) < 1e-9 and
    abs(s['time']['efficiency'] * 2 / s['time']['speedup'] - 1) < 1e-9 and 'speedup_ci95' not in s['time']
    for s in rows for b in rows if s['case']['strategy'] == 'spaced' and b['case']['strategy'] == 'single')"

# The same rows with figures that are known: spaced has a median step of 1 ms, a mean one of 5 ms; mirrored has 2 ms.
# old.jsonl: as a version before wrote them, which knew only the option of local-sgd.
python3 - <<'EOF'
import copy, json
def timed(row, median, mean, name):
    row = copy.deepcopy(row)
    rate = 20e3 / mean
    row["id"] += "-" + name
    row["result"] = {"status": "ok"}
    row["time"] = {"step_ms": {"mean": mean, "median": median, "p10": median, "p90": mean, "p99": mean, "n": 40,
                               "ci95": [0.99 * median, 1.01 * median]}, "blocks": 20, "timed_s": 2.0,
                   "samples_per_s": rate, "samples_per_s_mean": rate,
                   "samples_per_s_mean_ci95": [0.99 * rate, 1.01 * rate], "speedup": 1 / mean, "efficiency": 0.5 / mean}
    row.pop("noise", None)
    return row
rows = {row["case"]["strategy"]: row for row in map(json.loads, open("new.jsonl"))}
def write(name, mean, strategy, old=False):
    spaced = timed(rows["spaced"], 1.0, mean, name)
    spaced["case"]["strategy"] = strategy
    if strategy == "local-sgd":
        spaced["case"]["local_sgd_every"] = 4
    if old:
        del spaced["case"]["period"]
        spaced["time"]["samples_per_s"] = 20e3
    else:
        spaced["time"]["samples_per_s_of"] = "mean"
    with open(name + ".jsonl", "w") as out:
        for row in timed(rows["mirrored"], 2.0, 2.0, name), spaced:
            print(json.dumps(row), file=out)
write("known", 5.0, "spaced")
write("slow", 10.0, "spaced")
write("old", 5.0, "local-sgd", old=True)
write("slower", 10.0, "local-sgd")
EOF

says() { expect "$1: of $name" grep -qE "$2" "${3:-joined}"; } # joined: without line breaks
for kind in known old; do
    [ $kind = known ] && name=spaced longer="a longer period" || name=local-sgd longer="--local-sgd-every 16"
    lockstep_ok results import $kind.jsonl --results $kind.db
    lockstep_ok results list --results $kind.db
    tr -s '\n ' ' ' <out >joined
    says "the table has the mean rate" " $name +1\.000 +1\.0% +4000 ok"
    says "its heading says so" "mean samples/s"
    says "and so does the ranking" "fastest by samples trained / time: mirrored; .*$name \(0\.40 times as fast\)"
    lockstep_ok results show last --results $kind.db
    tr -s '\n ' ' ' <out >joined
    says "a hint" "Try $longer: parameters are averaged less often"
    lockstep_ok results export --to google-benchmark --results $kind.db
    tr -s '\n ' ' ' <out >joined
    says "google-benchmark" "\"real_time\": 5000000\.0,.*\"items_per_second\": 4000\.0"
    lockstep_ok results export --to benchmark-action --results $kind.db
    tr -s '\n ' ' ' <out >joined
    says "benchmark-action" '"value": 5\.0,'
    lockstep_ok results export --to mlperf --results $kind.db
    says "mlperf" '"throughput":4000\.0' out
    lockstep_ok results diff last~1 last --results $kind.db
    tr -s '\n ' ' ' <out >joined
    says "a ratio" "time of a sample, .*: 0\.25 / 0\.1 ms = 2\.5"
    lockstep_ok report --results $kind.db --out $kind
    says "a report" "$name on 2 \| 1 \| 4,000 " $kind/report.md
done
lockstep_ok results show last --results known.db
expect "a row shows its period" grep -q 'averages every 4 steps' out
lockstep_ok results export --to csv --results known.db
rows_of() { python3 -c 'import csv, sys; print([r["case.period"] for r in csv.DictReader(open("out"))])'; }
expect "CSV has it" [ "$(rows_of)" = "['', '4']" ]
for kind in "known slow" "old slower"; do
    lockstep regress ${kind% *}.jsonl ${kind#* }.jsonl --format json
    expect "$kind: slower averages are noticed" grep -q '"verdict": "slower"' out
done

# A block counts whole periods, wherever it begins; what is no whole period has no speed-up.
lockstep_ok run $small --strategy spaced --devices 2 --warmup 3 --steps 27 --blocks 3 --baseline yes --format jsonl
rows "whole periods count, in as many blocks as asked" "all((r['case']['steps'], r['time']['discarded'] % 4,
    r['time']['step_ms']['n'] % 4, r['time']['blocks']) == (27, 3, 0, 3) and 'partial' not in r['result']['warnings']
    for r in rows if 'period' in r['case'])"
lockstep_ok run $small --strategy spaced --devices 2 --steps 3 --baseline yes --format jsonl
rows "fewer steps than a period have no speed-up" "all('speedup' not in r['time'] and 'efficiency' not in r['time'] and
    'partial' in r['result']['warnings'] for r in rows if 'period' in r['case'])"
lockstep_ok predict $small --strategy mirrored,spaced --devices 2 --platform flat:latency=5ms --durations flops=1e9 \
    --format jsonl
rows "predictions go by the mean, too" "[round(r['time']['samples_per_s'] * r['time']['step_ms'][w] - 20e3)
    for r, w in zip(rows, ('median', 'mean'))] == [0, 0] and rows[1]['time']['step_ms']['mean'] >
    2 * rows[1]['time']['step_ms']['median']"
finish
