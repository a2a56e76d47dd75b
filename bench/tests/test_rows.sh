#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Rows of every strategy, and of cases that fail or stop, against bench/row.schema.json; and the CSV of the same rows,
# cell by cell, against its list of columns, which are the schema's. Leaves out rows of several processes and of
# `micro` (their tests validate them against the schema).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

kept="--warmup 1 --cpu-devices 4 --results rows.db --format jsonl"
small="--model mlp:784-16-10 --data synthetic:200 --batch 60 $kept"
strategies=$("$LOCKSTEP" list strategies | awk '/^ +[a-z]/ {print $1}')
expect "there are strategies" [ "$(wc -w <<<"$strategies")" -ge 8 ]
for strategy in $strategies; do
    devices=2
    [ "$strategy" != single ] || devices=1
    [ "$strategy" != hybrid ] || devices=4
    sized=$small
    [ "$strategy" != context-parallel ] || sized=${small/mlp:784-16-10/gpt:1-2-8-8-32}
    lockstep run $sized --strategy "$strategy" --devices $devices --steps 4 --baseline yes
    expect "$strategy: status 0" [ "$code" -eq 0 ]
    rows "$strategy has a row" "'$strategy' in [x['case']['strategy'] for x in rows]"
done
lockstep run $small --strategy ps --devices 2 --ps-mode sync,async,ssp --epochs 2 --verbose --capture no
expect "modes of ps: status 0" [ "$code" -eq 0 ]
rows "modes of ps" "len(rows) == 3"
rows "asynchronous workers' samples are all in one rate" "[x['time']['samples_per_s'] ==
    x['time']['samples_per_s_mean'] for x in rows if x['case']['ps_mode'] != 'sync'] == [True, True]"
rows "which the row says" "[x['time'].get('samples_per_s_of') for x in rows if x['case']['ps_mode'] != 'sync'] ==
    ['mean', 'mean']"
lockstep_ok run $small --strategy local-sgd --devices 2 --local-sgd-every 1,2 --steps 4
rows "rows have their period, and a longer one's rate is that of the mean step" "
    [(x['case']['period'], x['time'].get('samples_per_s_of')) for x in rows] == [(1, None), (2, 'mean')] and
    abs(rows[0]['time']['samples_per_s'] * rows[0]['time']['step_ms']['median'] - 60e3) < 1 and
    abs(rows[1]['time']['samples_per_s'] * rows[1]['time']['step_ms']['mean'] - 60e3) < 1"
lockstep_ok run $small --strategy ps --devices 3 --ps-backup-workers 1 --steps 5
rows "with backup workers steps are synchronous, and compared with nothing" "'steps' not in r['equivalence'] and
    abs(r['time']['samples_per_s'] * r['time']['step_ms']['median'] - 60e3) < 1"
lockstep_ok run $small --strategy mirrored --devices 2 --reduce exact,fast --steps 4 --label 'a "b", c'
MALLOC_ARENA_MAX=8 lockstep_ok verify $small --strategy mirrored --devices 2 --link latency=1us --steps 3
lockstep_ok run $small --steps 20 --target loss=0.3 --lr 0.01
lockstep_ok run --model resnet:8 --data synthetic:40 --batch 8 --steps 2 --warmup 0 --gate-steps 1 \
    --strategy mirrored --devices 2 --sync-bn yes --results rows.db --format jsonl
lockstep_ok verify $small --strategy towers --devices 2 --steps 3
lockstep run $small --strategy mirrored --devices 2 --steps 4 --inject bitflip=1:2
expect "a flipped bit: status 1" [ "$code" -eq 1 ]
lockstep run --model poly --optimizer sgd --lr 1e6 --steps 50 --verbose --results rows.db --format jsonl
expect "a diverged case: status 1" [ "$code" -eq 1 ]
# An overflow in the first gradient is no difference where both sides have it: the case has diverged.
python3 - <<'P'
import json, random, struct
random.seed(1)
x, y = [random.uniform(-3e38, 3e38) for _ in range(480)], [float(random.randrange(4)) for _ in range(60)]
head = json.dumps({"x0": {"dtype": "F32", "shape": [60, 8], "data_offsets": [0, 1920]},
                   "y": {"dtype": "F32", "shape": [60], "data_offsets": [1920, 2160]}}).encode()
open("large.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<540f", *x, *y))
P
overflow="--model mlp:8-16-4 --data file:large.safetensors --batch 12 --steps 2 --devices 2 --results none --quiet"
# shellcheck disable=SC2086
lockstep verify $overflow --strategy all --reduce fast,exact --format jsonl
expect "an overflow: status 1" [ "$code" -eq 1 ]
rows "where both sides overflow they are equal, and diverged" "len(rows) >= 16 and len({x['case']['strategy']
    for x in rows if x['equivalence']['grade'] != 'none'}) >= 6 and all(x['result']['status'] == 'failed' and
    x['equivalence']['pass'] and x['result']['reason'] == 'diverged: the loss is NaN at step 0; use a smaller --lr, or --clip' for x in rows)"
# shellcheck disable=SC2086
lockstep verify $overflow --strategy mirrored,zero,gossip
expect "no table prints -nan" eval '! grep -iq "[- ]nan\b" <(grep -v "loss is NaN" out)'
lockstep run $small --memory fraction=0.0000001 --steps 2
rows "too little memory is a row" "r['result']['status'] == 'error'"
lockstep_ok run --model mlp:784-16-10 --data synthetic:200 --batch 60 --steps 3 --strategy mirrored --devices 2 \
    --link latency=2ms,none --results none
expect "what differs has a column, before what follows from it" grep -q '^link  *step ms' out
expect "and two links are two questions: none is named the fastest" eval '! grep -q ^fastest out'

"$LOCKSTEP" results list --results rows.db --format csv >rows.csv
lockstep_ok results list --results rows.db --format jsonl
checks=$((checks + 1))
why=$(python3 - "$library/../row.schema.json" "$("$LOCKSTEP" run --help)" 2>&1 <<'P'
import csv, json, re, sys
schema = json.load(open(sys.argv[1]))

def paths(part, at=""):
    """Of all that the schema names and that holds no more names."""
    if "$ref" in part:
        part = schema["definitions"][part["$ref"].split("/")[-1]]
    if "properties" in part:
        return [p for k, v in part["properties"].items() for p in paths(v, f"{at}.{k}" if at else k)]
    return paths(part["items"], at) if part.get("type") == "array" else [at]

def text(value, inner=False):
    if isinstance(value, list):
        return ("," if inner else "+").join(
            text(v, True).replace("e+", "e") for v in value)
    return {None: "", True: "true", False: "false"}.get(value) if value is None or \
        isinstance(value, bool) else value if isinstance(value, str) else json.dumps(value)

def cells(value, at=""):
    """The row as its columns have it."""
    if isinstance(value, dict):
        found = {}
        for name, member in value.items():
            path = f"{at}.{name}" if at else name
            if path == "memory.devices":
                member = max(member, key=lambda device: device["peak"])
            if path == "provenance.environment":
                member = "+".join(f"{k}={v}" for k, v in member.items())
            found.update(cells(member, path))
        return found
    if isinstance(value, list) and value and isinstance(value[0], dict):
        each = [cells(member, at) for member in value]
        return {k: [e[k] for e in each if k in e] for e in each for k in e}
    return {at: value}

table = list(csv.reader(open("rows.csv", newline="")))
head = table[0]
assert len(set(head)) == len(head), f"twice: {sorted({c for c in head if head.count(c) > 1})}"
known = [path for path in paths(schema) if not path.startswith("peer.")] # of other programs' rows
declared = {"case." + name.replace("-", "_") for name in re.findall(r"^  --([a-z-]+)", sys.argv[2], re.M)}
others = set(head) ^ set(known)  # the options that strategies, models and data sets declare
assert set(known) < set(head) and others <= declared and len(others) > 15, f"columns and schema differ: {others}"
rows = [json.loads(line) for line in open("out")]
assert len(rows) == len(table) - 1 > 20, "other rows in csv"
wrong = set()
for row, line in zip(rows, table[1:]):
    assert len(line) == len(head)
    found = dict(zip(head, line))
    for path, value in cells(row).items():
        if path not in found:
            wrong.add(f"{path} has no column")
            continue
        cell, want = found.pop(path), text(value)
        same = cell == want
        if not same and not isinstance(value, (str, list)):
            same = cell != "" and float(cell) == value
        elif not same and isinstance(value, list):
            parts, wants = (s.replace(",", "+").split("+") for s in (cell, want))
            same = len(parts) == len(wants) and all(
                a == b or a and b and float(a) == float(b) for a, b in zip(parts, wants))
        if not same:
            wrong.add(f"{path}: {cell!r}, not {want!r}")
        if cell.startswith(("[", "{")):
            wrong.add(f"{path} is JSON: {cell!r}")
    wrong |= {f"{path} is {cell!r}, and the row has none" for path, cell in found.items() if cell}
assert not wrong, "; ".join(sorted(wrong)[:10])
P
) || { wrong "csv"; printf '%s\n' "$why" | tail -1; }

# ---- What the schema finds --------------------------------------------------------------------

checks=$((checks + 1))
why=$(python3 - "$library/check_rows.py" 2>&1 <<'P'
import copy, json, subprocess, sys
row = next(r for r in map(json.loads, open("out")) if "time" in r and "memory" in r)

def judged(change, word):
    other = copy.deepcopy(row)
    change(other)
    open("one.rows", "w").write(json.dumps(other) + "\n")
    done = subprocess.run(["python3", "-B", sys.argv[1], "one.rows"], capture_output=True, text=True)
    assert done.returncode == (1 if word else 0) and word in done.stdout, f"{word}: {done}"

judged(lambda r: None, "")
judged(lambda r: r.update(novel=1), "novel")
judged(lambda r: r["case"].update(novel=[1]), "[1]")
judged(lambda r: r["memory"]["devices"][0].update(novel=1), "novel")
judged(lambda r: r["provenance"]["kernels"].update(novel="c"), "novel")
judged(lambda r: r["case"].update(lr=None), "None")
judged(lambda r: r["case"].update(steps="4"), "'4'")
judged(lambda r: r["time"].pop("samples_per_s_mean"), "samples_per_s_mean")
judged(lambda r: r["result"].update(status="fine"), "fine")
judged(lambda r: r.pop("case"), "case")
judged(lambda r: r["equivalence"].update(kernels=0.001), "")
P
) || { wrong "the schema finds nothing"; printf '%s\n' "$why" | tail -1; }

# ---- A model from a file: its path, its text, and the bits of the registered model it lists ----

cp "$library/../../datasets/models/mlp.yaml" own.yaml
lockstep_ok run --model graph:own.yaml,mlp:784-128-10 --strategy mirrored --devices 2 --reduce exact \
    --data synthetic:64 --batch 16 --steps 2 --warmup 0 --blocks 1 --format jsonl --results none
rows "the same bits" "len(rows) == 2 and len({x['equivalence']['digest'] for x in rows}) == 1 and
    all(x['equivalence']['grade'] == 'exact' for x in rows) and
    len({(x['case']['lr'], x['case']['optimizer'], x['train']['loss_last']) for x in rows}) == 1"
rows "a row has the path, the text, and its hash" "r['case']['model'] == 'graph:own.yaml' and
    r['case']['model_text'] == open('own.yaml').read() and len(r['case']['model_digest']) == 16 and
    'model_text' not in rows[1]['case']"
finish
