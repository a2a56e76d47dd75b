# SPDX-License-Identifier: MIT
# Blocks: devices are reopened for each block, yet the result is that of one uninterrupted run: parameters, losses,
# accuracy, traffic, memory and the servers' counts, for every strategy, fast and exact. Includes an epoch's smaller
# last batch, batch statistics, and moving averages and periods that cross a block boundary. No tolerance.
. "$SOURCE_DIR/bench/tests/lib.sh"

# same OPTIONS: the rows of one block and of five must be equal except for their times.
same() {
    lockstep_run 1 "$@"
    cp out one
    lockstep_run 5 "$@"
    cat one out >both
    expect "rows of one block and of five are equal: $*" python3 - <<'EOF'
import json
rows = [json.loads(line) for line in open("both")]
half = len(rows) // 2
assert half and len(rows) == 2 * half, len(rows)
for a, b in zip(rows[:half], rows[half:]):
    case = a["case"]
    assert (case.pop("blocks"), b["case"].pop("blocks")) == (1, 5)
    assert case == b["case"], (case, b["case"])
    assert (a["time"]["blocks"], b["time"]["blocks"]) == (1, 5)
    assert "reopen_ms" in b["time"] and "reopen_ms" not in a["time"]
    by_arrival = case.get("ps_mode") in ("async", "ssp")
    alike = ["memory"] if by_arrival else ["train", "equivalence", "traffic", "memory", "program"]
    for group in alike + ["lead", "staleness"] * (not by_arrival):
        x, y = (dict(r.get(group) or {}) for r in (a, b))
        for key in ("rss_peak", "kernels"):
            x.pop(key, None), y.pop(key, None)
        assert x == y, f"{case['strategy']}: {group}: {x} and {y}"
    if by_arrival:
        for group in ("lead", "staleness"):
            assert sum(a[group]["histogram"]) == sum(b[group]["histogram"]), (a[group], b[group])
        assert b["lead"]["max"] <= b["lead"].get("bound", 10**9), b["lead"]
    for x, y in zip(a.get("server_load", []), b.get("server_load", [])):
        assert x.get("steps") == y.get("steps") and x["bytes"] == y["bytes"], (x, y)
EOF
}
lockstep_run() {
    local blocks=$1
    shift
    lockstep run --blocks "$blocks" --format jsonl --results none --verbose --gate-steps 0 --cpu-devices 4 "$@"
    expect "all is well: $*" [ "$code" -eq 0 ]
}

small="--model mlp:784-12-10 --batch 12 --warmup 2 --data synthetic:200"
# The thread sanitizer's build: what has all kinds of steps.
sanitized thread || same --strategy all $small --devices 2 --steps 23
sanitized thread || same --strategy all $small --devices 2 --epochs 2 --reduce exact
same --strategy all $small --devices 2 --epochs 2
same --strategy ps $small --devices 2 --steps 23 --ps-mode async,ssp
same --strategy ps $small --steps 23 --ranks 3 --ps-servers 1 --ps-mode sync,async
same --strategy mirrored $small --ranks 2 --steps 23
# 5 blocks of 2 or 3 steps, periods of 4
same --strategy local-sgd --local-sgd-every 4 $small --devices 2 --steps 13
# moving averages, weight decay and a falling rate; batch statistics of each replica: no other threads
if ! sanitized thread; then
    same --strategy mirrored,zero --model cifar10 --data synthetic:32 --batch 4 --steps 5 --warmup 1 --devices 2
    same --strategy mirrored --model resnet:8 --data synthetic:24 --batch 4 --steps 5 --warmup 1 --devices 2
fi
same --strategy single --optimizer momentum,rmsprop,sgd --lr 0.0001 --model poly --steps 50

# Blocks are added until the interval is narrow, at least 20, or until time is up, which the row states.
lockstep_run 4 --model mlp --data synthetic:500 --steps 40 --until-precision 50% --max-time 100s
rows "blocks are added" 'r["time"]["blocks"] >= 20 and r["time"]["step_ms"]["n"] + r["time"].get("discarded", 0) > 40
    and "imprecise" not in r["result"].get("warnings", [])'
rows "the row has the steps that were trained, and those asked for" 'r["case"]["steps"] == len(r["train"]["losses"]) ==
    r["time"]["step_ms"]["n"] + r["time"].get("discarded", 0) and r["case"]["steps_asked"] == 40 and
    r["case"]["until_precision"] == 0.5'
lockstep_run 2 --model poly --steps 8000 --until-precision 0.01% --max-time 1ms --strategy single,mirrored --devices 1
rows "the time was over" 'len(rows) == 2 and all(x["time"]["blocks"] == 2 and "imprecise" in x["result"]["warnings"]
    and any(n.startswith("imprecise: ") for n in x["result"]["notes"]) for x in rows)'
for wrong in "--until-precision 1" "--until-precision 0%" "--until-precision -1%" "--until-precision 60%" \
    "--until-precision nan%" "--until-precision 1% --epochs 1" "--until-precision 1% --save f" "--max-time 3s" \
    "--until-precision 1% --strategy ps --ps-mode async --devices 2 --ps-record f" \
    "--until-precision 1% --max-time soon"; do
    lockstep run --results none $wrong
    one_line "--"
    expect "status 2: $wrong" [ "$code" -eq 2 ]
done

# More than 8 cases are groups, one after the other. Rows say which, and each has a baseline of its own.
lockstep_run 2 --model mlp:20-8-3 --data synthetic:100 --batch 16 --steps 10 --strategy towers,mirrored --devices 2 \
    --lr 0.1,0.2,0.3,0.4 --baseline
rows "two groups" "len(rows) == 16 and [x['time']['group'] for x in rows] == [1] * 8 + [2] * 8 and
    all(x['time']['groups'] == 2 for x in rows)"
rows "speed-up is over single of the same group" "all(abs(x['time']['speedup'] * x['time']['step_ms']['median'] /
    y['time']['step_ms']['median'] - 1) < 1e-9 and x['time']['speedup_ci95'][0] <= x['time']['speedup'] for x in rows
    for y in rows if (y['case']['strategy'], y['case']['lr'], y['time']['group']) ==
    ('single', x['case']['lr'], x['time']['group']))"
finish
