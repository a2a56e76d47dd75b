#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The five formats and the results database: what is printed is what is kept, `results list` and
# `show` read it back, and a file that is not ours, is newer or cannot be written is refused and
# stays as it was. Leaves out: interrupted and killed runs (test_interrupt).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

poly="--model poly --steps 3 --warmup 1"
label='a "b", c
d|e;f'

# ---- Formats ----------------------------------------------------------------------------------

for format in table jsonl json csv md; do
    lockstep_ok run $poly --seed 1,2 --format $format --label "$label" --results formats.db
    cp out "$format.out"
done
lockstep_ok run $poly --seed 1,2 --results none
expect "table is the default" grep -q '^model' out
checks=$((checks + 1))
why=$(python3 - 'a "b", c
d|e;f' 2>&1 <<'P'
import csv, json, sys
label = sys.argv[1]
lines = [json.loads(line) for line in open("jsonl.out")]
array = json.load(open("json.out"))
assert len(lines) == len(array) == 2, "two rows"
def names(value, at=""):
    if isinstance(value, dict):
        return sorted(n for k, v in value.items() for n in names(v, f"{at}.{k}"))
    return [at + ("[]" if isinstance(value, list) else "")]
assert [names(r) for r in lines] == [names(r) for r in array], "json and jsonl have other fields"
for row in lines + array:
    assert row["label"] == label, f"the label is {row['label']!r}"
table = list(csv.DictReader(open("csv.out", newline="")))
assert len(table) == 2, f"csv has {len(table)} rows"
for row in table:
    assert row["label"] == label, f"the label in csv is {row['label']!r}"
    for name in ("schema", "id", "case.model", "case.seed", "case.batch_global", "result.status",
                 "time.step_ms.median", "time.samples_per_s", "train.loss_last",
                 "equivalence.digest",
                 "memory.rss_peak", "provenance.commit"):
        assert row[name], f"csv has no {name}"
    assert row["traffic.bytes_sent"] == "" if "traffic.bytes_sent" in row else True
by_seed = {str(r["case"]["seed"]): r for r in lines}
for row in table:
    printed = by_seed[row["case.seed"]]["equivalence"]["digest"]
    assert row["equivalence.digest"] == printed, "other digests in csv"
text = open("md.out").read().splitlines()
assert len(text) == 4 and all(l.startswith("|") and l.endswith("|") for l in
        text), "md is no table of two rows"
assert len({l.count("|") for l in text}) == 1, "the columns of md differ in number"
text = open("table.out").read().splitlines()
assert len(text) == 3, "table is not a head and two lines"
P
) || { wrong "formats"; printf '%s\n' "$why" | tail -1; }

# ---- What is kept -----------------------------------------------------------------------------

lockstep_ok run $poly --seed 1,2 --format jsonl
keep printed
expect "results/lockstep.db is the default" [ -s results/lockstep.db ]
lockstep_ok results list --format jsonl
rows "what is listed is what was printed" \
    "sorted(rows, key=lambda x: x['id']) == sorted(old('printed'), key=lambda x: x['id'])"
id=$(python3 -c 'import json; print(json.loads(open("printed.kept").readline())["id"])')
lockstep_ok results show "$id" --format jsonl
rows "show gives one of them" "rows == [old('printed')[0]]"
for format in table json csv md; do
    lockstep_ok results show "$id" --format $format
    expect "show as $format" grep -q 'poly' out
    lockstep_ok results list --format $format
    expect "list as $format" grep -q 'poly' out
done
lockstep_ok results list
expect "list names the ids" grep -q "$id" out
lockstep results show no-such-id
expect "an id that is not there is status 3" [ "$code" -eq 3 ]
expect "in one line" [ "$(wc -l <err)" -eq 1 ]
lockstep_ok results list --format jsonl --results formats.db
rows "each run of any format is kept" "len(rows) == 10"
lockstep run --model poly --format jsonl --results one.db --lr 1e6 --optimizer sgd --steps 50
expect "a diverged case is status 1" [ "$code" -eq 1 ]
lockstep_ok results list --format jsonl --results one.db
rows "a failed row is kept" "[x['result']['status'] for x in rows] == ['failed']"
lockstep_ok run $poly --results none
lockstep_ok run $poly --results made/here.db
expect "the folder of a database is made" [ -s made/here.db ]
lockstep_ok verify $poly --results verify.db
lockstep_ok results list --results verify.db --format jsonl
rows "verify keeps rows" "len(rows) == 1 and 'time' not in r"

# Two at once on one database.
"$LOCKSTEP" run $poly --seed 1,2,3,4 --results both.db >/dev/null 2>both.err &
other=$!
lockstep_ok run $poly --seed 5,6,7,8 --results both.db
wait $other || wrong "a second program on the same database: $(cat both.err)"
lockstep_ok results list --format jsonl --results both.db
rows "rows of both are there" "sorted(x['case']['seed'] for x in rows) == list(range(1, 9))"

# ---- What is refused --------------------------------------------------------------------------

untouched() { # WHAT FILE: run and list refuse it, and it keeps its bytes; no file appears beside it
    local before after
    before=$(cksum <"$2"; ls -A "$(dirname "$2")")
    for command in "run $poly" "verify $poly" "results list" "results show 1"; do
        lockstep $command --results "$2"
        expect "$1: status 3" [ "$code" -eq 3 ]
        expect "$1: one line that names the file" one_line "$2"
        expect "$1: nothing on stdout" [ ! -s out ]
    done
    after=$(cksum <"$2"; ls -A "$(dirname "$2")")
    expect "$1: the file is as it was" [ "$before" = "$after" ]
}
mkdir theirs
echo 'notes, not a database' >theirs/notes.txt
head -c 5000 /dev/zero >theirs/zeros
python3 - <<'P'
import shutil, sqlite3
other = sqlite3.connect("theirs/other.db")
other.execute("create table rows (id text, row text)")
other.execute("insert into rows values ('1', 'x')")
other.commit()
other.close()
shutil.copy("results/lockstep.db", "theirs/newer.db")
newer = sqlite3.connect("theirs/newer.db")
version = newer.execute("pragma user_version").fetchone()[0]
newer.execute(f"pragma user_version = {version + 1}")
newer.commit()
newer.execute("pragma journal_mode = delete")
newer.close()
data = open("results/lockstep.db", "rb").read()
open("theirs/cut.db", "wb").write(data[:len(data) // 2])
open("theirs/bad.db", "wb").write(data[:100] + b"\xa5" * (len(data) - 100))
P
untouched "a text file" theirs/notes.txt
untouched "a file of zeros" theirs/zeros
untouched "a database of another program" theirs/other.db
untouched "a newer database" theirs/newer.db
for broken in theirs/cut.db theirs/bad.db; do
    lockstep run $poly --results $broken
    expect "a broken database: status 3" [ "$code" -eq 3 ]
    expect "a broken database: a line says so" grep -q "$broken" err out
done
lockstep results list --results nowhere.db
expect "no database: status 3" [ "$code" -eq 3 ]
expect "reading makes none" [ ! -e nowhere.db ]
lockstep run $poly --results /proc/lockstep.db
expect "an unwritable place: status 3" [ "$code" -eq 3 ]
expect "an unwritable place: refused before training" [ ! -s out ]
cp results/lockstep.db locked.db
chmod 444 locked.db
if [ "$(id -u)" -ne 0 ]; then
    before=$(cksum <locked.db)
    lockstep run $poly --results locked.db
    expect "a read-only file: status 3" [ "$code" -eq 3 ]
    expect "a read-only file: as it was" [ "$before" = "$(cksum <locked.db)" ]
else
    echo "note: root may write a read-only file; that part is skipped"
fi

finish
