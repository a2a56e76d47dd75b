#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The verbs of `lockstep results` on rows with known figures: filters and order, show, diff, trend, exports read by
# other programs, import, prune, and refusals. Leaves out what `run` writes (test_results) and the database itself
# (unit.test_results_db).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# Ten commits of two rows each, mirrored and single: from the sixth on mirrored takes 20% longer.
"$LOCKSTEP" run --model poly --steps 3 --warmup 1 --strategy mirrored --devices 2 --format jsonl \
    --results real.db >real.jsonl 2>err || wrong "a row to begin with"
python3 - <<'P'
import copy, json
row = json.loads(open("real.jsonl").readline())
with open("made.jsonl", "w") as out:
    for i in range(20):
        r = copy.deepcopy(row)
        commit, mirrored = i // 2, i % 2 == 0
        r["id"] = f"202611{commit + 1:02d}T100000Z-{'ab' if mirrored else 'cd'}{i:010d}"
        r["timestamp"] = f"2026-11-{commit + 1:02d}T10:00:{i:02d}Z"
        r["case"]["strategy"] = "mirrored" if mirrored else "single"
        r["case"]["devices"] = ["cpu:0", "cpu:1"] if mirrored else ["cpu:0"]
        r["label"] = f'number {i}, "of" 20|'
        m = (10 if commit < 5 else 12) * (1 + 0.004 * (i % 4 // 2)) if mirrored else 15.0
        r["time"]["step_ms"].update(median=m, ci95=[m * 0.99, m * 1.02], n=50)
        r["provenance"]["commit"] = f"{commit:x}" * 40
        r["provenance"]["dirty"] = False
        r["result"] = {"status": "ok"}
        r["waterfall"] = {"compute_ms": 2.0, "comm_exposed_ms": 6.0, "wait_ms": 2.0}
        r.pop("device_load", None) # of the real run, which depends on the machine's load
        if i == 3:
            del r["time"], r["waterfall"]
            r["result"] = {"status": "error", "reason": "too little memory"}
        out.write(json.dumps(r) + "\n")
P
first=20261101T100000Z-ab0000000000
last=20261110T100000Z-cd0000000019

# ---- Import -----------------------------------------------------------------------------------

export_to() { lockstep_ok results export --results made.db "$@"; }
lockstep_ok results import made.jsonl --results made.db
expect "import says how many" grep -qx '20 rows imported, 0 were there already' out
lockstep_ok results import made.jsonl --results made.db
expect "a second time all are there" grep -qx '0 rows imported, 20 were there already' out
head -n 5 made.jsonl >some.jsonl
lockstep_ok results import some.jsonl --results some.db
lockstep_ok results import made.db --results some.db
expect "import of a database" grep -qx '15 rows imported, 5 were there already' out
lockstep_ok results list --format jsonl --results some.db
rows "its rows are the file's" \
    "sorted(json.dumps(x, sort_keys=True) for x in rows) ==
     sorted(json.dumps(json.loads(l), sort_keys=True) for l in open('made.jsonl'))"
printf '%s' "$(head -n 2 made.jsonl)" >ends.jsonl
lockstep_ok results import ends.jsonl --results ends.db
expect "a last line without line feed is a row" grep -qx '2 rows imported, 0 were there already' out
head -c $(($(head -n 1 ends.jsonl | wc -c) + 300)) ends.jsonl >cut.jsonl
lockstep results import cut.jsonl --results cut.db
expect "the beginning of one is refused: status 3" [ "$code" -eq 3 ]
expect "by its line" one_line "cut.jsonl: line 2: this line is not valid JSON"
{ head -n 3 made.jsonl; echo '{"schema":1}'; } >broken.jsonl
lockstep results import broken.jsonl --results broken.db
expect "a line that is no row: status 3" [ "$code" -eq 3 ]
expect "it is named" one_line "broken.jsonl: line 4: this line has no id"
lockstep results list --results broken.db
expect "and none of the others is taken" one_line "no rows"
lockstep results import . --results some.db
expect "a folder is one" one_line "import: .: this is a folder"
lockstep results import nothing.jsonl --results some.db
expect "a file that is not there: status 3" [ "$code" -eq 3 ]
lockstep results import some.db --results some.db
expect "a file into itself: status 2" [ "$code" -eq 2 ]
ln some.db linked.db
before=$(cksum <some.db)
for command in "results export --to jsonl --out linked.db" "run --model poly --steps 1 --save linked.db" \
    "run --model poly --steps 1 --strategy ps --ps-mode async --devices 2 --ps-record linked.db"; do
    lockstep $command --results some.db
    expect "another file in the database's place: status 2" [ "$code" -eq 2 ]
    expect "one line says so" one_line 'linked.db.* rows'
    expect "and the database is as it was" [ "$before" = "$(cksum <some.db)" ]
done

# ---- Selection --------------------------------------------------------------------------------

list() { lockstep_ok results list --results made.db --format jsonl "$@"; }
list --where strategy=mirrored
rows "one condition" "len(rows) == 10 and {x['case']['strategy'] for x in rows} == {'mirrored'}"
list --where 'case.strategy=mirrored,time.step_ms.median>11'
rows "two conditions" "len(rows) == 5 and all(x['time']['step_ms']['median'] > 11 for x in rows)"
list --where 'strategy!=mirrored,status=ok'
rows "not equal" "len(rows) == 9"
list --where 'median<13,label~number 1'
rows "less, and part of a text" "[x['id'][-2:] for x in rows] == ['10', '12', '14', '16', '18']"
list --where 'label~number 1'
rows "part of a text" "len(rows) == 11"
list --where 'devices=cpu:0+cpu:1' --last 2
rows "the last of those that fit" "[x['id'][:8] for x in rows] == ['20261109', '20261110']"
list --since 2026-11-09
rows "since a day" "len(rows) == 4"
list --since 1000w
rows "since an age" "len(rows) == 20"
list --sort -median
rows "sorted downwards, those without a value last" "[x.get('time', {}).get('step_ms', {}).get(
    'median', -1) for x in rows] == sorted((x.get('time', {}).get('step_ms', {}).get('median', -1)
    for x in rows), reverse=True) and len(rows) == 20"
list --sort median --last 3
rows "sorted upwards, of the last" \
    "[x['time']['step_ms']['median'] for x in rows] == sorted(x['time']['step_ms']['median'] for x in
     rows) and {x['id'][:8] for x in rows} == {'20261109', '20261110'}"
list --columns strategy,time.step_ms.median,memory.devices.peak
rows "columns of JSON" \
    "len(rows) == 20 and set(rows[0]) == {'case', 'time', 'memory'} and len(rows[0]['case']) == 1"
lockstep_ok results list --results made.db --format csv --columns id,strategy,median
expect "columns of CSV" [ "$(head -n 1 out)" = id,case.strategy,time.step_ms.median ]
lockstep_ok results list --results made.db --columns strategy,median,accuracy --last 1
expect "columns of a table" grep -qE '^strategy +median' out
lockstep_ok results list --results made.db
expect "a table has ids" grep -q "^$first" out
expect "and intervals" grep -qE '^id .* step ms +± ' out
expect "rows of several commands are not ranked" eval '! grep -q "^fastest" out'
expect "no line of a table is longer than 80" [ "$(sed '/^  /d' out | wc -L)" -le 80 ]
expect "a row that is not ok says why" grep -q 'too little memory' out
lockstep run --model poly --data synthetic:500 --steps 20 --batch 50,100 --strategy mirrored,towers --devices 2 \
    --results ranked.db
lockstep_ok results list --results ranked.db
expect "an option that differs has a column" grep -qE '^id .* batch +.*step ms' out
expect "rows of one command: the fastest of each batch is named" [ "$(grep -cE '^fastest of batch (50|100): ' out)" -eq 2 ]
lockstep results list --results made.db --where strategy=towers
expect "no row fits: status 0, and a line says so" [ "$code" -eq 0 ]
expect "no row fits: on stderr" one_line "no rows match"

# Numbers are compared exactly: beyond 2^53 a double holds every second one only.
python3 - <<'P'
import json
row = json.loads(open("made.jsonl").readline())
numbers = [(2**53, 0.3), (2**53 + 1, 0.30000000000000004), (2**53 + 2, 0.001), (2**63 - 1, 1.0)]
with open("numbers.jsonl", "w") as out:
    for i, (seed, lr) in enumerate(numbers):
        row["id"] = f"n{i}"
        row["case"].update(seed=seed, lr=lr)
        out.write(json.dumps(row) + "\n")
P
lockstep_ok results import numbers.jsonl --results numbers.db
while IFS='|' read -r where ids; do
    lockstep_ok results list --results numbers.db --format jsonl --where "$where"
    rows "$where: $ids" "[x['id'] for x in rows] == '$ids'.split()"
done <<'END'
case.seed=9007199254740993|n1
case.seed>9007199254740992,case.seed<9223372036854775807|n1 n2
case.seed!=9007199254740993|n0 n2 n3
case.seed>=9223372036854775807|n3
case.seed=9007199254740992.0|n0
lr=.3|n0
lr=3e-1|n0
lr>0.3|n1 n3
lr=1e-3|n2
lr=1|n3
END
COLUMNS=100 lockstep_ok results list --results numbers.db
expect "what the id says goes before an option" eval 'grep -qE "^id .* lr +seed " out && grep -q "^no room for: time" out'
lockstep_ok results list --results numbers.db --format jsonl --sort -case.seed
rows "sorted exactly" "[x['id'] for x in rows] == ['n3', 'n2', 'n1', 'n0']"
lockstep_ok results diff n0 n1 --results numbers.db
expect "diff shows both" grep -qE '^case.seed +9007199254740992 +9007199254740993' out
sed -n 's/"lr": 1.0/"lr": 1/; s/"n3"/"n4"/; $p' numbers.jsonl >whole.jsonl
lockstep_ok results import whole.jsonl --results numbers.db
lockstep_ok results diff n3 n4 --results numbers.db
expect "1 is 1.0" eval '! grep -qE "^case|^not one" out'
for seed in 18446744073709551615 9007199254740995; do
    lockstep_ok results prune --where case.seed=$seed --yes --results numbers.db
    expect "no row has $seed" grep -qx '0 rows deleted' out
done
lockstep_ok results prune --where case.seed=9007199254740993 --yes --results numbers.db
expect "one row has this seed" grep -qx '1 rows deleted' out
lockstep_ok results list --where case.seed=9007199254740992 --results numbers.db --format jsonl
rows "and not its neighbour" "[x['id'] for x in rows] == ['n0']"

# ---- Show and diff ----------------------------------------------------------------------------

lockstep_ok results show 20261101T100000Z-ab --results made.db
expect "what bounds it comes first" eval "head -n 1 out | grep -q '^Bound by communication: 60% of the mean step'"
expect "at most 45 lines of 80 columns" [ "$(wc -l <out)" -le 45 -a "$(sed '/^[BET]/d' out | wc -L)" -le 80 ]
expect "the figures that tell most" grep -q '^step  *median 10.00 ms' out
lockstep_ok results show 20261101T100000Z-ab --all --results made.db
expect "show has all groups" [ "$(grep -cE '^(case|result|time|waterfall|provenance)$' out)" -eq 5 ]
expect "show has figures" grep -qE '^  step_ms.median +10.0$' out
expect "what bounds it" grep -q '^Bound by communication: 60% of the mean step (6 of 10 ms; median step 10 ms)' out
lockstep_ok results show 20261101T100000Z-ab --results made.db --format jsonl
python3 -c 'import json
r = json.loads(open("out").readline()); r["result"]["notes"] = ["noisy: others had core 0; taskset"]; print(json.dumps(r))' >loud.jsonl
lockstep_ok results import loud.jsonl --results loud.db
lockstep_ok results show last --results loud.db
expect "noise comes before the step" eval "grep -A 2 '^Noise first: others had core 0\.' out | grep -q '^Bound by'"
python3 - <<'P'
import json
row = json.loads(open("real.jsonl").readline())
row["case"].update(strategy="pipeline", batch_global=64, batch_per_device=[64, 64], pipeline_schedule="gpipe")
row["result"], row["noise"] = {"status": "ok"}, {}
row.pop("device_load", None)
row["waterfall"] = {"compute_ms": 4.0, "wait_ms": 6.0}
row["pipeline"] = {"bubble": 0.6, "bubble_formula": 0.5, "bubble_equal": 0.2, "bubble_stage": 0.4, "slowest_stage": 1.9}
with open("tried.jsonl", "w") as out:
    for i, (pieces, ms, mfu) in enumerate([(8, 10, 0.01), (4, 11, 0.01), (16, 12, 0.01), (16, 13, 0.01), (2, 14, 0.5)]):
        row.update(id=f"t{i}", timestamp=f"2026-11-20T10:00:0{i}Z")
        row["case"]["pipeline_microbatches"], row["time"]["mfu"] = pieces, mfu
        row["time"]["step_ms"].update(mean=ms, median=ms, ci95=[ms * 0.99, ms * 1.01], n=50)
        out.write(json.dumps(row) + "\n")
P
lockstep_ok results import tried.jsonl --results tried.db
lockstep_ok results show t0 --results tried.db
expect "what took longer in these rows is not suggested" eval "tr '\n' ' ' <out | tr -s ' ' |
    grep -q 'Not --pipeline-microbatches 4, .* it took 1.10 times as long a sample in row t1\. '"
expect "what idle time comes from" eval "tr '\n' ' ' <out | tr -s ' ' | grep -q 'pipeline idle 60%: 20% with equal \
stages, 30% since the slowest works 1.90 times the mean, 10% waiting for cores and messages, \
40% between the first and last pass of the longest stage, 10% more until all stages have updated '"
lockstep_ok results show t3 --results tried.db
expect "what did not is" grep -q '^Try --pipeline-microbatches 4\.' out
lockstep_ok results show t4 --results tried.db
expect "unequal stages explain the schedule's share alone" grep -q '^Bound by unequal stages: 30% of the mean step' out
for name in last last~1 last~19; do
    lockstep_ok results show $name --results made.db --format jsonl
    keep "$name"
done
rows "last~19 is the first" "r['id'] == '$first' and old('last')[0]['id'] == '$last'"
rows "last~1 is the one before" "old('last~1')[0]['id'].endswith('-ab0000000018')"
cp made.db labelled.db
lockstep_ok results label --results labelled.db -- last '--any, text'
lockstep_ok results list --where 'label=--any\, text' --results labelled.db --format jsonl
rows "a label may begin with dashes and have a comma" "[r['label'] for r in rows] == ['--any, text']"
lockstep_ok results label last last~1 'two "of" them' --results labelled.db
lockstep_ok results list --where 'label=two "of" them' --results labelled.db --format jsonl
rows "two rows have the label, and nothing else is changed" "[{**x, 'label': None} for x in rows] ==
    [{**x, 'label': None} for x in old('last~1') + old('last')] and {x['label'] for x in rows} == {'two \"of\" them'}"
lockstep results label last nonsuch new --results labelled.db
expect "an unknown id: status 3, and no row is changed" \
    [ "$code/$("$LOCKSTEP" results list --where label=new --results labelled.db 2>&1 | grep -c '^2026')" = 3/0 ]
lockstep results show last~20 --results made.db
expect "before the first: status 3" [ "$code" -eq 3 ]
lockstep results show 202611 --results made.db
expect "the beginning of several ids: status 2" [ "$code" -eq 2 ]

lockstep_ok results diff "$first" last --results made.db
expect "diff has a key" grep -qE '^case.strategy +mirrored +single' out
expect "diff has no key that is the same" [ "$(grep -c '^case.model' out || true)" -eq 0 ]
expect "of those that matter, the others are counted" eval '! grep -q "^id " out && grep -qE "^[0-9]+ more keys differ; --all" out'
lockstep_ok results diff "$first" last --results made.db --all
expect "--all shows them" eval 'grep -q "^id " out && ! grep -q "more keys differ" out'
expect "diff has the ratio" grep -q 'B / A, median step: 15 / 10 ms = 1.5.*: B is slower$' out
expect "and says that it is not of one case" grep -qx 'not one case: case.strategy, case.devices' out
lockstep_ok results diff last "$first" --results made.db
expect "and which is faster" grep -q ': B is faster$' out
lockstep_ok results diff last~19 last --results made.db --format jsonl
rows "the interval of the ratio" "(lambda x: x['key'] == 'ratio' and abs(x['ratio'] - 1.5) < 1e-12 and
    abs(math.log(x['ratio'] / x['ci95'][0]) - math.hypot(math.log(1 / 0.99), math.log(1.02))) < 1e-9
    and abs(math.log(x['ci95'][1] / x['ratio']) - math.hypot(math.log(1.02), math.log(1 / 0.99))) <
    1e-9)(rows[-1])"
lockstep_ok results diff last~16 last~18 --results made.db # without a time; with one
expect "no ratio without times" grep -q 'no ratio of times' out
lockstep_ok results diff last~1 last~3 --results made.db
expect "near ones are the same" grep -q ' interval .*: same$' out
expect "of one case on one machine nothing else is said" eval '! grep -q "^not one" out'

# Members of maps are keys of their own, and of objects in lists.
for n in 1 2; do
    echo '{"schema": 1, "id": "k'$n'", "timestamp": "2026-11-20T10:00:0'$n'Z", "case": {"model": "mlp"}, "memory": {"devices":
        [{"device": "cpu:0", "peak": '$n', "workspace": '$n'}]}, "provenance": {"environment": {"X": "'$n'", "Y": "1"}}}' |
        tr -d '\n'; echo
done >keys.jsonl
lockstep_ok results import keys.jsonl --results keys.db
lockstep_ok results diff k1 k2 --results keys.db
expect "diff has them, less what tells nothing by itself" \
    [ "$(sed '/more keys/q' out | cut -d' ' -f1 | paste -sd' ')" = "key memory.devices.0.peak provenance.environment.X 3" ]
lockstep_ok results diff k1 k2 --results keys.db --all
expect "--all has all" \
    [ "$(sed '/^$/q' out | cut -d' ' -f1 | paste -sd' ')" = \
    "key id timestamp memory.devices.0.peak memory.devices.0.workspace provenance.environment.X " ]

# A list that is empty is the empty text, and first in order; without one a row is last. Alike where lists have all of
# a row and where they have a part of it.
python3 - <<'P'
import json
row = json.loads(open("made.jsonl").readline())
with open("words.jsonl", "w") as out:
    for i, words in enumerate([["noisy"], [], None, ["drift"]]):
        row.update(id=f"w{i}", timestamp=f"2026-11-20T10:00:0{i}Z")
        row["result"] = {"status": "ok"} if words is None else {"status": "ok", "warnings": words}
        out.write(json.dumps(row) + "\n")
P
lockstep_ok results import words.jsonl --results words.db
for where in 'id!=x' 'step_ms.mean>0'; do
    lockstep_ok results list --results words.db --sort warnings --where "$where" --format jsonl
    rows "an empty list is the first in order" "[r['id'] for r in rows] == ['w1', 'w3', 'w0', 'w2']"
done

# One step has no interval: absent, and of width 0 in rows of older versions. Steps that are not alike have no rate
# of the median.
python3 - <<'P'
import json
a, b, tail = [json.loads(line) for line in open("made.jsonl")][:3]
for one in (a, b):
    one["time"]["step_ms"].update(ci95=[one["time"]["step_ms"]["median"]] * 2, n=1)
del b["time"]["step_ms"]["ci95"]
a["provenance"]["later"], b["provenance"]["later"] = 1, 2 # of a newer program
b["case"]["optimizer"] = [{"a": None}] # of another program
for name, one, other in (("parameters", 1, 2), ("variable_device_asked", "gpu:0", "gpu:1")):
    a["case"][name], b["case"][name] = one, other # which follow from options
tail["time"].update(samples_per_s=3e3, samples_per_s_mean=3e3, samples_per_s_of="mean",
                    samples_per_s_mean_ci95=[2.9e3, 3.1e3])
tail["time"]["step_ms"]["mean"] = tail["case"]["batch_global"] / 3 / 2 # half a batch in the mean
for name, rows in (("one", [a, b]), ("base", [a]), ("new", [dict(a, id="x", time=b["time"])]), ("tail", [a, tail])):
    with open(f"{name}.jsonl", "w") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)
P
lockstep_ok results import one.jsonl --results one.db
lockstep_ok results diff last~1 last --results one.db
expect "a key that this program does not know is shown" grep -qE '^provenance.later +1 +2' out
expect "what follows from options is not" eval '! grep -qE "^case\.(parameters|variable_device)" out'
expect "one step is neither slower nor faster" grep -q '= 1.5 (no interval: not both rows have one)$' out
lockstep_ok results export --to benchmark-action --results one.db
expect "a list in a name is its text" [ "$(grep -c '"name": ".*/a=/fast' out)" -eq 1 ]
expect "nor has it a range" [ "$(grep -c range out)" -eq 0 ]
lockstep regress base.jsonl new.jsonl --format json
expect "nor does one decide" eval '[ "$code" -eq 4 ] && grep -q "\"verdict\": \"cannot tell\"" out'
lockstep_ok results import tail.jsonl --results tail.db
lockstep_ok results export --to google-benchmark --results tail.db
expect "the time of steps that are not alike is their mean" \
    python3 -c 'import json; assert [round(x["real_time"] / 1e6, 3) for x in json.load(open("out"))["benchmarks"]][1] == 16.667'
lockstep_ok results diff last last~1 --results tail.db
expect "and their ratio is of samples" grep -q '^B / A, time of a sample, for steps are not alike: ' out

# ---- Trend ------------------------------------------------------------------------------------

lockstep_ok results trend median --where strategy=mirrored --results made.db --format jsonl
rows "trend is by commit, in order of time" "[x['commit'][0] for x in rows] == list('0123456789')"
rows "a change where it is" "[i for i, x in enumerate(rows) if x.get('change')] == [5]"
rows "by how much" "rows[5]['by'] == '+20.1%' and rows[5]['median'] == 12 * 1.004 and r['n'] == 1"
lockstep_ok results export --to jsonl --where strategy=mirrored --last 4 --out four.jsonl --results made.db
python3 - <<'P' >one.jsonl
import json
for line, median in zip(open("four.jsonl"), (4.0, 1.0, 3.0, 2.5)):
    row = json.loads(line)
    row["time"]["step_ms"]["median"] = median
    row["provenance"]["commit"] = "e" * 40
    print(json.dumps(row))
P
lockstep_ok results import one.jsonl --results four.db
lockstep_ok results trend median --results four.db --format jsonl
rows "the median of a commit's rows" "len(rows) == 1 and rows[0]['n'] == 4 and rows[0]['median'] == 2.75"
lockstep_ok results trend time.step_ms.median --where strategy=single --results made.db --format jsonl
rows "no change where there is none" "len(rows) == 9 and not any(x.get('change') for x in rows)"
lockstep_ok results trend median --where strategy=mirrored --results made.db
expect "as a table" grep -qE '^555555555555\.\. .*yes +\+20.1%$' out
draw() { lockstep results trend median --where strategy=mirrored --results made.db --out "$1"; }
if command -v gnuplot >/dev/null; then
    mkdir -p pictures
    for name in trend.svg pictures/trend.png trend.pdf; do
        draw $name
        expect "$name is drawn, and the table is printed" [ "$code" -eq 0 -a -s $name -a -s out ]
    done
    expect "a level is named by its first commit" grep -q '5555555 +20.1%' trend.svg
    expect "it says what it shows" grep -q '>time.step_ms.median moves 1 time in 10 commits<' trend.svg
    draw nowhere/trend.svg
    expect "a folder that is not there: status 3" [ "$code" -eq 3 ]
else
    echo "note: gnuplot is not here; no trend is drawn"
fi
draw trend.txt
expect "another ending: status 2" [ "$code" -eq 2 ]
lockstep_ok results trend median --results made.db --format jsonl
rows "several cases are series, each with its own changes" "len(rows) == 19 and
    [(x['series'], x['by']) for x in rows if x.get('change')] == [('strategy mirrored, devices cpu:0+cpu:1', '+20.1%')]"
lockstep results trend median --results made.db --out trend.svg
expect "a picture of several: status 2" [ "$code" -eq 2 ]
expect "a picture of several is refused" one_line "shows a single series, but the rows form 2"
lockstep results trend strategy --results made.db
expect "the trend of a text: status 2" [ "$code" -eq 2 ]

# Ten commits, of which the last five took twice as long: because of the commit, or of something else, which differs
# between their rows (`late`) and the first five's. Each kind has its own model.
cat >mix.py <<'P'
import copy, json, sys
def nothing(case, provenance, row, late): pass
def computer(case, provenance, row, late): provenance["host"] = "ab"[late]
def processor(case, provenance, row, late): provenance["cpu"] = "ab"[late]
def library(case, provenance, row, late):
    provenance["library_isa"] = ["AVX2", "SSE41"][late]
    if row["number"] == 0: # the oldest row does not say
        del provenance["library_isa"]
def variables(case, provenance, row, late):
    if late:
        provenance["environment"] = {"DNNL_MAX_CPU_ISA": "SSE41"}
def allowed(case, provenance, row, late): provenance["cores_allowed"] = 1 + late
def cores(case, provenance, row, late): provenance["cores_per_device"] = [1 + late] * 2
def ranks(case, provenance, row, late): provenance["ranks"] = [{"host": "ab"[late]}]
def optimizer(case, provenance, row, late): case["optimizer"] = ["sgd", "adam"][late]
def parts(case, provenance, row, late): case["pipeline_microbatches"] = 4 << late
def allreduce(case, provenance, row, late): case["allreduce"] = ["ring", "tree"][late]
def buckets(case, provenance, row, late): case["bucket_bytes"] = 1024 << late
def seed(case, provenance, row, late): case["seed"] = 2**53 + late
def fault(case, provenance, row, late):
    if late:
        case["inject"] = "delay=0:1ms"
def peer(case, provenance, row, late):
    if late:
        row["peer"] = {"what": "another"}
def compiler(case, provenance, row, late):
    provenance["compiler"], case["blocks"], case["lr"] = "ab"[late], 3 + late, [1, 1.0][late]
kinds = [v for v in list(globals().values()) if callable(v)]
first = json.loads(open("made.jsonl").readline())
if len(sys.argv) == 1:
    for number, (kind, i) in enumerate((kind, i) for kind in kinds for i in range(10)):
        r = copy.deepcopy(first)
        r["id"], r["timestamp"], r["number"] = f"mix-{number}", f"2026-11-{i + 1:02d}T10:00:00Z", i
        r["case"]["model"], r["provenance"]["commit"] = kind.__name__, f"{i:x}" * 40
        kind(r["case"], r["provenance"], r, i // 5)
        m = (10 + 0.01 * (i % 3)) * (1 + i // 5)
        r["time"]["step_ms"].update(median=m, ci95=[m * 0.99, m * 1.01])
        print(json.dumps(r))
    sys.exit()
rows = [json.loads(line) for line in open("out")]
for kind in kinds:
    mine = [r for r in rows if r.get("series", "").split(",")[0] == f"model {kind.__name__}"]
    found = len(mine), len({r["series"] for r in mine}), [r["by"] for r in mine if r.get("change")]
    wanted = (10, 1, ["+100.0%"]) if kind in (nothing, compiler) else (10, 2, [])
    if found != wanted:
        print(f"{kind.__name__}: {found} instead of {wanted}")
P
python3 mix.py >mix.jsonl
lockstep_ok results import mix.jsonl --results mix.db
lockstep results trend median --results mix.db --format jsonl
expect "what is not of one case and machine is another series" [ -z "$(python3 mix.py look | tee /dev/stderr)" ]
expect "what may be why is said" one_line "model compiler,.*: rows differ in provenance.compiler, not only in the commit"
: >every.rows # of rows that were made up
for form in google-benchmark benchmark-action; do
    lockstep results export --to $form --results mix.db --where model=computer
    expect "$form: what is not of one machine is said" one_line "rows that are exported under one name differ in provenance.host; choose comparable rows with --where"
    lockstep results export --to $form --results mix.db --where model=seed
    expect "$form: nor of one case" one_line "rows that are exported under one name differ in case.seed; choose comparable rows with --where"
done

# ---- Rows of micro ----------------------------------------------------------------------------

lockstep_ok micro allreduce --devices 2 --sizes 4KiB,8KiB --results mixed.db
lockstep regress mixed.db mixed.db
expect "regress has nothing to compare in them: status 3" [ "$code" -eq 3 ]
expect "which it says" one_line "has no row of a "
lockstep_ok results list --results mixed.db
expect "the list says what they are" grep -qE '^id .* op +shape +size +time us +status' out
expect "each of them" [ "$(grep -cE 'allreduce +(out of|in) place +(4096|8192) +[0-9.]+ ok$' out)" -eq 4 ]
lockstep_ok results trend micro.time_us --results mixed.db --format jsonl
rows "several sizes are series" "len(rows) == 4 == len({x['series'] for x in rows}) and 'size_bytes 4096' in r['series']"
one_of='op=allreduce,size_bytes=4096,shape~out'
lockstep_ok results trend micro.time_us --where "$one_of" --results mixed.db --format jsonl
rows "of one it is none" "len(rows) == 1 and r['n'] == 1"
lockstep_ok results show last --all --results mixed.db
expect "show has its groups" [ "$(grep -cE '^(micro|result|provenance)$' out)" -eq 3 ]
lockstep_ok results export --to csv --results mixed.db
expect "csv has them" [ "$(python3 -c 'import csv; print(*{r["micro.op"] + r["provenance.host"]
    for r in csv.DictReader(open("out"))})')" = "allreduce$(uname -n)" ]
lockstep_ok results import real.jsonl --results mixed.db
lockstep_ok results list --format md --results mixed.db
expect "a document has a table for each kind" [ "$(grep -c '^|---' out)" -eq 2 ]
expect "with the columns of that kind" grep -qxF '| id | time | op | shape | size | time us | status | reason |' out
lockstep_ok regress mixed.db real.db
expect "beside cases they are passed over" grep -q '^same: 1 case: 1 pass' out
lockstep_ok results export --to google-benchmark --results mixed.db
expect "as in the formats of steps" [ "$(grep -c '"run_name"' out)" -eq 1 ]

# ---- Export -----------------------------------------------------------------------------------

for form in jsonl csv md google-benchmark benchmark-action mlperf; do
    export_to --to $form --out "made.$form"
    expect "$form: nothing on stdout" [ ! -s out ]
    export_to --to $form
    expect "$form: the same on stdout" cmp -s out "made.$form"
done
cat >read.py <<'P'
import csv, json, sqlite3
made = [json.loads(line) for line in open("made.jsonl")]
timed = [r for r in made if "time" in r]
assert [json.loads(line) for line in open("made.jsonl")] == made
table = list(csv.DictReader(open("made.csv", newline="")))
assert [r["id"] for r in table] == [r["id"] for r in made] and table[3]["time.step_ms.median"] == ""
assert [r["label"] for r in table] == [r["label"] for r in made]
assert float(table[0]["time.step_ms.median"]) == 10.0
try:
    import pandas
    frame = pandas.read_csv("made.csv")
    assert frame.groupby("case.strategy")["time.step_ms.median"].median()["single"] == 15
    assert frame["timestamp"].astype("datetime64[ns, UTC]").is_monotonic_increasing
    print("note: pandas has read the CSV")
except ImportError:
    print("note: pandas is not here")
report = json.load(open("made.google-benchmark"))
assert set(report) == {"context", "benchmarks"} and report["context"]["host_name"]
assert len(report["benchmarks"]) == len(timed) == 19
for one, row in zip(report["benchmarks"], timed):
    scale = {"ns": 1e6, "us": 1e3, "ms": 1, "s": 1e-3}[one["time_unit"]]
    assert abs(one["real_time"] / scale - row["time"]["step_ms"]["median"]) < 1e-9
    assert one["run_type"] == "iteration" and one["iterations"] == 50 and one["cpu_time"] > 0
    alike = [x for x in report["benchmarks"] if x["name"] == one["name"]]
    assert one["repetitions"] == len(alike) and one["repetition_index"] == alike.index(one)
    assert one["name"] == one["run_name"] and row["case"]["strategy"] in one["name"]
action = json.load(open("made.benchmark-action"))
assert [one["value"] for one in action] == [r["time"]["step_ms"]["median"] for r in timed]
assert all(one["unit"] == "ms/step" and one["range"].startswith("±") for one in action)
events = [line.split(" ", 1) for line in open("made.mlperf")]
assert {mark for mark, _ in events} == {":::MLLOG"}
events = [json.loads(text) for _, text in events]
for event in events:
    assert set(event) == {"namespace", "time_ms", "event_type", "key", "value", "metadata"}
    assert event["event_type"] in ("POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END")
stops = [e["metadata"]["status"] for e in events if e["key"] == "run_stop"]
assert len(stops) == 20 and stops.count("aborted") == 1
assert sum(e["key"] == "run_start" for e in events) == 20
text = open("made.md").read().splitlines()
assert len(text) == 22 and all(line.startswith("|") and line.endswith("|") for line in text)
kept = sqlite3.connect("made.db").execute("select id, row from rows order by id").fetchall()
assert [json.loads(row) for _, row in kept] == sorted(made, key=lambda r: r["id"])
P
checks=$((checks + 1))
why=$(python3 read.py 2>&1) || { wrong "exports"; printf '%s\n' "$why" | tail -2; }
printf '%s\n' "$why" | tail -1
if [ -n "${GBENCH_TOOLS:-}" ]; then # folder with google/benchmark's compare.py, which needs scipy
    export_to --to google-benchmark --where strategy=mirrored --since 2026-11-06 --out new.json
    export_to --to google-benchmark --where 'strategy=mirrored,timestamp<2026-11-06' --out old.json
    expect "compare.py reads them" sh -c \
        "python3 '$GBENCH_TOOLS/compare.py' --no-color benchmarks old.json new.json >compared"
    expect "compare.py sees 20%" grep -qE 'mirrored.*\+0\.(19|20)' compared
else
    echo "note: GBENCH_TOOLS does not name the folder of compare.py; that part is left out"
fi
lockstep results export --to csv --out no/where.csv --results made.db
expect "a place that cannot be written: status 3" [ "$code" -eq 3 ]
expect "a place that cannot be written: named" one_line no/where.csv

# ---- Prune ------------------------------------------------------------------------------------

before=$(cksum <made.db)
lockstep_ok results prune --where 'strategy=single,median>14' --results made.db
expect "prune says how many" grep -qx '9 rows fit; --yes deletes them' out
expect "and deletes none" [ "$before" = "$(cksum <made.db)" ]
lockstep_ok results prune --where 'strategy=single,median>14' --yes --results made.db
expect "prune --yes says how many" grep -qx '9 rows deleted' out
list
rows "the others are there" "len(rows) == 11 and sum('time' not in x for x in rows) == 1"
lockstep results prune --where strategy=single --yes --results nowhere.db
expect "of a file that is not there: status 3" [ "$code" -eq 3 ]
expect "and makes none" [ ! -e nowhere.db ]

# ---- What is refused --------------------------------------------------------------------------

while IFS='|' read -r status word arguments; do
    eval "lockstep results $arguments --results made.db"
    expect "$arguments: status $status" [ "$code" -eq "$status" ]
    expect "$arguments: one line that has '$word'" one_line "$word"
    expect "$arguments: nothing on stdout" [ ! -s out ]
done <<'END'
2|valid are: list|
2|valid are: list|lists
2|0 of 1 arguments.*show ID|show
2|1 of 2 arguments.*diff A B|diff last
2|unexpected|list all
2|case.strategy|list --where stratgy=single
2|memory.devices.peak|list --where peak=3
2|is not a condition|list --where strategy
2|but 'fast' is not|list --where 'median>fast'
2|unknown key|list --sort nothing
2|unknown key|list --columns id,nothing
2|unknown key|trend nothing
2|neither an age|list --since yesterday
2|not a number of rows|list --last 0
2|this is not a format|list --format xml
2|--to NAME|export
2|this is not a format of export; valid are: jsonl|export --to excel
2|but of results export|list --to csv
2|but of results prune|list --yes
2|no condition says which rows|prune
2|no condition says which rows|prune --yes
2|is not an id|show last~x
3|no row of made.db has this id|show 1999
3|no row of made.db has this id|diff last 1999
END
command_line="results import /dev/zero, with ulimit -v 1000000"
code=0
if (ulimit -v 1000000 && exec "$LOCKSTEP" --version) >out 2>err; then # not with a sanitizer
    (ulimit -v 1000000 && exec timeout 100 "$LOCKSTEP" results import /dev/zero --results zero.db) >out 2>err || code=$?
    expect "a line without an end is refused" [ "$code" -eq 3 ]
    expect "and one line says so" one_line /dev/zero
else
    echo "note: the program does not start within 1 GB; a line without an end is skipped"
fi
# ---- Texts that a terminal would obey ---------------------------------------------------------

python3 - <<'P'
import json
row = json.loads(open("made.jsonl").readline())
bad = "a\x1b[2J\x1b]0;t\x07\r\b\u009b2J\u202eb\n=1+2"
row.update(id="bad", label=bad, command=bad)
row[bad] = row["case"][bad] = {bad: bad}
row["case"].update(strategy=bad, model=bad)
row["provenance"].update(host=bad, commit=bad)
row["result"] = {"status": "error", "reason": bad, "warnings": [bad]}
row["equivalence"]["oracle"] = bad
micro = {"schema": 1, "id": "bad micro", "timestamp": row["timestamp"],
         "micro": {"op": bad, "shape": "in place", "kernel": bad, "busbw_gbs": 1, "time_us": 1}}
open("bad.jsonl", "w").write(json.dumps(row) + "\n" + json.dumps(micro) + "\n")
P
lockstep_ok results import bad.jsonl --results bad.db
lockstep results import made.jsonl --results bad.db
name=$'file\e[2J\u202e'
harmless() { # no character that moves the cursor, of C1, or that turns text round
    ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae' out err
}
while read -r command; do # without a check of the rows, which no schema allows
    command_line="results $command"
    code=0
    "$LOCKSTEP" results $command --results bad.db >out 2>err || code=$?
    expect "status 0" [ "$code" -eq 0 ]
    expect "nothing that a terminal obeys" harmless
done <<'END'
list
list --format md
list --format csv
list --format jsonl
list --where label~a --columns label,strategy,provenance.host
show bad --columns label,command
diff bad last
trend time.step_ms.median
export --to md
export --to csv
export --to jsonl
export --to google-benchmark
export --to benchmark-action
export --to mlperf
END
lockstep_ok results show bad --results bad.db
expect "nor in short" harmless
lockstep_ok results show bad --all --results bad.db
expect "nor here" harmless
expect "it is shown" grep -qF 'a\x1b[2J\x1b]0;t\x07\r\x08\u009b2J\u202eb\n=1+2' out
lockstep_ok results list --where id=bad --format csv --columns label,id --results bad.db
expect "CSV keeps line ends, and what a spreadsheet computes" grep -qx '=1+2",bad' out
for command in "list --results $name" "show $name" "list --where label=$name" "list --columns $name" "$name" \
    "export --to $name" "trend $name --results bad.db" "import $name --results none.db"; do
    lockstep results $command
    expect "nor in what is said of options" harmless
    expect "in a line" one_line
done
if command -v gnuplot >/dev/null; then
    lockstep results trend time.step_ms.median --where id=bad --results bad.db --out '|touch pwned;.svg'
    expect "a picture's name is a file's" [ "$code" -eq 0 -a -s '|touch pwned;.svg' -a ! -e pwned ]
fi

lockstep_ok results --help
expect "the help has every verb" \
    [ "$(grep -cE '^  (list|show|diff|trend|export|import|prune) ' out)" -eq 7 ]
expect "and two examples" [ "$(grep -c '^  lockstep results ' out)" -eq 2 ]

finish
