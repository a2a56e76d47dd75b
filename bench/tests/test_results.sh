#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The five formats and the results database: what is printed is what is saved; `results list` and `show` read it back;
# a file that is foreign, newer or not writable is refused and unchanged. Leaves out interrupted and killed runs
# (test_interrupt).
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
lockstep_ok results list --results formats.db --format jsonl
keep formats
lockstep_ok run $poly --seed 1,2 --results none
expect "table is the default" grep -q '^model' out
lockstep_ok results export --to md --results formats.db
expect "a label is exported to Markdown" grep -qF '| a "b", c\\nd\|e;f | poly | single |' out
checks=$((checks + 1))
why=$(python3 - 'a "b", c
d|e;f' 2>&1 <<'P'
import csv, json, sys
label = sys.argv[1]
lines = [json.loads(line) for line in open("jsonl.out")]
array = json.load(open("json.out"))
assert len(lines) == len(array) == 2, "two rows"
kept = {row["id"]: row for row in map(json.loads, open("formats.kept"))}
for row in lines + array: # of two runs, not even the fields are the same: some are a matter of time
    assert row == kept[row["id"]], "a row is printed otherwise than it is kept"
for row in lines + array:
    assert row["label"] == label, f"the label is {row['label']!r}"
table = list(csv.DictReader(open("csv.out", newline="")))
assert len(table) == 2, f"csv has {len(table)} rows"
for row in table:
    assert row["label"] == label, f"the label in csv is {row['label']!r}"
    for name in ("schema", "id", "case.model", "case.seed", "case.batch_global", "result.status",
                 "time.step_ms.median", "time.samples_per_s", "train.loss_last",
                 "equivalence.digest",
                 "memory.devices.peak", "provenance.libraries.zlib", "provenance.commit"):
        assert row[name], f"csv has no {name}"
    assert row["traffic.bytes_sent"] == "" if "traffic.bytes_sent" in row else True
by_seed = {str(r["case"]["seed"]): r for r in lines}
for row in table:
    printed = by_seed[row["case.seed"]]["equivalence"]["digest"]
    assert row["equivalence.digest"] == printed, "other digests in csv"
text = open("md.out").read().splitlines()
assert len(text) == 4 and all(l.startswith("|") and l.endswith("|") for l in
        text), "md is no table of two rows"
assert len({l.replace("\\|", "").count("|") for l in text}) == 1, "the columns of md differ in number"
assert text[0].startswith("| label |") and all(l.startswith('| a "b", c\\\\nd\\|e;f |') for l in text[2:]), "no label in md"
text = open("table.out").read().splitlines()
head = next((i for i, l in enumerate(text) if l.split()[:3] == ["seed", "step", "ms"]), 0)
assert head, "table has no header with what differs"
assert [l.split()[0] for l in text[head + 1:head + 4]] == ["1", "2", "fastest:"], "table is not two lines in order"
assert head < 3 and text[0].startswith("model poly, "), "what both share does not stand above"
assert max(map(len, text)) <= 80, "a line is too long"
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
lockstep run $poly --results made/here.db
expect "a folder that is not there: status 3" [ "$code" -eq 3 ]
expect "a folder that is not there: refused before training" [ ! -s out ]
expect "a folder that is not there: named in one line" one_line "the folder 'made' of this file"
expect "a folder that is not there: not made" [ ! -e made ]
lockstep_ok verify $poly --results verify.db
lockstep_ok results list --results verify.db --format jsonl
rows "verify keeps rows" "len(rows) == 1 and 'time' not in r"

# Two processes write to one database at once.
"$LOCKSTEP" run $poly --seed 1,2,3,4 --results both.db >/dev/null 2>both.err &
other=$!
lockstep_ok run $poly --seed 5,6,7,8 --results both.db
wait $other || wrong "a second program on the same database: $(cat both.err)"
lockstep_ok results list --format jsonl --results both.db
rows "rows of both are there" "sorted(x['case']['seed'] for x in rows) == list(range(1, 9))"

# Three processes at once, repeatedly killed at random moments: every printed row is in the intact database. (Rows
# saved but not yet printed may be there, too.)
for round in 1 2 3 4; do
    jobs=()
    for job in 1 2 3; do
        seeds=$(seq -s, $((round * 1000 + job * 100)) $((round * 1000 + job * 100 + 60)))
        "$LOCKSTEP" run --model poly --steps 2 --warmup 0 --gate-steps 0 --blocks 1 --seed "$seeds" \
            --format jsonl --results killed.db >"killed-$round-$job.out" 2>/dev/null &
        jobs+=("$!")
    done
    for job in "${jobs[@]}"; do
        sleep "0.$((RANDOM % 60 + 20))"
        kill -KILL "$job" 2>/dev/null || true
        wait "$job" 2>/dev/null || true
    done
done
"$LOCKSTEP" run $poly --format jsonl --results killed.db >killed-last.out
lockstep_ok results list --format jsonl --results killed.db
checks=$((checks + 1))
why=$(python3 - 2>&1 <<'P'
import glob, json, sqlite3
kept = {json.loads(line)["id"] for line in open("out")}
printed = [line for name in glob.glob("killed-*.out") for line in open(name)]
ids = {json.loads(line)["id"] for line in printed if line.endswith("\n")}
assert ids <= kept, f"{len(ids - kept)} of {len(ids)} printed rows are lost"
assert sqlite3.connect("killed.db").execute("pragma integrity_check").fetchone() == ("ok",)
print(f"note: {len(ids)} rows were printed, {len(kept)} are kept")
P
) || { wrong "killed jobs"; printf '%s\n' "$why" | tail -1; }
printf '%s\n' "$why" | tail -1

# ---- File systems ------------------------------------------------------------------------------

# A file system that does not support locks, as a network file system may: reported at once, and nothing is left
# behind. (Not the same as a lock that another process holds.)
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    for error in ENOLCK ENOSYS; do
        for file in no-locks.db results/lockstep.db; do
            before=$(cksum <results/lockstep.db)
            code=0
            command_line="run --results $file, where a lock gives $error"
            timeout 50 strace -f -o /dev/null -e trace=fcntl -e inject=fcntl:error=$error \
                "$LOCKSTEP" run $poly --results $file >out 2>err </dev/null || code=$?
            expect "no locks: status 3" [ "$code" -eq 3 ]
            expect "no locks: said so" one_line "$file: this folder has no file locks"
            expect "no locks: refused before training" [ ! -s out ]
            expect "no locks: no file is left" [ ! -e no-locks.db ]
            expect "no locks: the file is as it was" [ "$before" = "$(cksum <results/lockstep.db)" ]
        done
    done
else
    echo "note: strace is not to be had here; file systems without locks are left out"
fi

# ---- What is refused --------------------------------------------------------------------------

untouched() { # WHAT FILE: run and list refuse it, its bytes do not change, and no other file appears
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
newer.execute("pragma user_version = 4") # 2 and 3 are of older programs
newer.commit()
newer.execute("pragma journal_mode = delete")
newer.close()
shutil.copy("results/lockstep.db", "theirs/view.db")
view = sqlite3.connect("theirs/view.db")
view.executescript("""drop table rows; create view rows as with recursive
    r(id, timestamp, status, model, strategy, label, row, rowid) as
    (select '1', '', '', '', '', '', '{}', 1 union all
     select id, timestamp, status, model, strategy, label, row, rowid + 1 from r)
    select * from r""")
view.close()
data = open("results/lockstep.db", "rb").read()
open("theirs/cut.db", "wb").write(data[:len(data) // 2])
open("theirs/bad.db", "wb").write(data[:100] + b"\xa5" * (len(data) - 100))
P
untouched "a text file" theirs/notes.txt
untouched "a file of zeros" theirs/zeros
untouched "a database of another program" theirs/other.db
untouched "a newer database" theirs/newer.db
untouched "a view without an end in place of the rows" theirs/view.db
for broken in theirs/cut.db theirs/bad.db; do
    lockstep run $poly --results $broken
    expect "a broken database: status 3" [ "$code" -eq 3 ]
    expect "a broken database: a line says so" grep -q "$broken" err out
done
# Without descriptors left, that is the reason: not who may write. What opens a file fails at one of these limits.
unopened=0
for limit in $(sanitized || echo 4 5); do # a sanitizer opens files, too
    for command in "run $poly --gate-steps 0 --results fds.db" "report --results formats.db --out fds"; do
        code=0
        (ulimit -n $limit && exec "$LOCKSTEP" $command) >out 2>err </dev/null || code=$?
        [ "$code" -ne 0 ] || continue
        unopened=$((unopened + 1))
        expect "limit $limit, $command: $(tail -n 1 err)" grep -Eqi 'too many open files|error 24' err
    done
done
expect "a limit of descriptors was met" eval 'sanitized || [ "$unopened" -gt 0 ]'
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
