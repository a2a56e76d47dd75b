#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `lockstep regress`: verdicts, exit statuses and reports on fake programs (scripts whose rows have known times and
# noise, so that nothing depends on this machine), on results files, and on the real program. Leaves out error rates
# (test_ratio_test), bisection and the scripts of CI (test_regress_git).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

"$LOCKSTEP" run --model poly --steps 20 --warmup 1 --strategy mirrored --devices 2 --format jsonl \
    --results none >real.jsonl 2>err || wrong "a row to begin with"

# program NAME TIME [PYTHON [SHELL]]: a fake program whose rows take about TIME us; the Python code changes the row
# `r`, the shell code runs before it prints.
cat >make.py <<'P'
import json, sys
name, change = sys.argv[1:]
r = json.loads(open("real.jsonl").readline())
r["id"] = "@ID@"
r["time"]["step_ms"].update(median=123456789.5, ci95=[1.0, 1.02])
rows = [r]
exec(change)
text = "\n".join(json.dumps(x) for x in rows)
open(name + ".row", "w").write(text.replace("123456789.5", "@MS@") + "\n")
P
program() {
    python3 make.py "$1" "${3:-}"
    cat >"$1" <<P
#!/bin/bash
${4:-}
n=\$(cat $work/$1.count 2>/dev/null || echo 0)
echo \$((n + 1)) >$work/$1.count
ms=0.\$(printf %06d \$(($2 + $2 * ((n * 7 + ${5:-0}) % 11) / ${6:-2000})))
row=\$(<$work/$1.row)
row=\${row//@MS@/\$ms}
echo "\${row//@ID@/$1-\$n-\$RANDOM\$RANDOM}"
P
    chmod +x "$1"
}
compare() { lockstep regress "./$1" "./$2" --format json --results none --quiet \
    --max-time "${limit:-200s}" "${@:3}"; }
# verdict STATUS VERDICT: of the only case, and overall
verdict() {
    expect "exit status $1" [ "$code" -eq "$1" ]
    document "$2" "d['verdict'] == '$2' and c['verdict'] == '$2'"
}
document() { # WHAT EXPRESSION over the document d and its first case c
    checks=$((checks + 1))
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1])); c = d["cases"][0]
sys.exit(0 if eval("(" + sys.argv[2] + ")") else "not so: " + json.dumps(d)[:900])' "$work/out" "$2" || wrong "$1"
}

# ---- Verdicts ---------------------------------------------------------------------------------

program base 200000
program equal 200000
program slow 220000 "" "" 3
program fast 180000
program little 202000 "" "" 5
program near 196200 "" "" 2 100
compare base equal
verdict 0 same
document "its figures" "abs(c['ratio'] - 1) < 0.01 and c['ci95'][0] <= c['ratio'] <= c['ci95'][1]
    and c['blocks'] >= 10 and abs(c['base_ms'] - 0.2) < 0.002 and c['worse'] == []
    and c['case']['strategy'] == 'mirrored'"
compare base slow
verdict 1 slower
document "the ratio is that of the times" "abs(c['ratio'] - 1.1) < 0.01 and c['ci95'][0] > 1.03"
document "a clear case ends early" "d['seconds'] < 190 and c['blocks'] < 2000"
compare base fast
verdict 0 faster
compare base little
verdict 0 same
compare base little --threshold 0.5%
verdict 1 slower
limit=2s compare base near
verdict 4 "cannot tell"
compare base slow --where strategy=single
expect "nothing fits --where: status 3" [ "$code" -eq 3 ]
expect "nothing fits --where: a line" one_line 'nothing can be compared, since no row matches --where'

# ---- Worse besides ----------------------------------------------------------------------------

program bytes 200000 'r["traffic"]["bytes_sent"] += 8'
program nodes 200000 'r["program"]["nodes"] += 1; r["memory"]["devices"][0]["peak"] += 8'
program memory 200000 'r["memory"]["devices"][1]["formula"]["workspace"] += 64'
program gate 200000 'r["result"] = {"status": "failed", "reason": "gate: other bits"}; del r["time"]'
program broken 200000 'r["result"] = {"status": "error", "reason": "no memory"}; del r["time"]'
for name in bytes memory; do
    compare base $name
    expect "more $name: status 1" [ "$code" -eq 1 ]
    document "more $name is worse" "d['verdict'] == 'worse' and c['verdict'] == 'same' and
        c['worse'][0]['key'] == {'bytes': 'traffic.bytes_sent', 'memory': 'memory.formula'}['$name']"
done
compare bytes base
expect "fewer bytes: status 0" [ "$code" -eq 0 ]
compare base nodes
expect "more nodes are no failure" [ "$code" -eq 0 ]
document "but are told" "{x['key'] for x in c['differences']} == {'program.nodes', 'memory.devices.peak'}"
compare base nodes --fail-on nodes
expect "unless asked for: status 1" [ "$code" -eq 1 ]
compare base nodes --fail-on memory.devices.peak=99%
expect "within what is allowed: status 0" [ "$code" -eq 0 ]
program grown 200000 'r["provenance"]["binary_bytes"] += 9; r["memory"]["devices"][1]["allocations"] += 1'
compare base grown --fail-on binary_bytes,allocations
expect "a larger program, more allocations on any device: status 1" [ "$code" -eq 1 ]
document "both are named" "{x['key'] for x in c['worse']} == {'provenance.binary_bytes', 'memory.devices.allocations'}"
compare grown base --fail-on binary_bytes,allocations
expect "fewer are well" [ "$code" -eq 0 ]
compare base grown --fail-on accuracy
expect "a key that no row has passes nothing: status 2" [ "$code" -eq 2 ]
expect "a key that no row has is named" one_line 'train.accuracy: no row that is compared has this key'
compare base gate
expect "a gate that fails: status 1" [ "$code" -eq 1 ]
document "it is named" "c['worse'][0]['key'] == 'result.status' and 'other bits' in c['worse'][0]['reason']"
program later-gate 200000 "" "[ ! -s $work/later-gate.count ] || [ \$(<$work/later-gate.count) -lt 4 ] ||
    { cat $work/gate.row; exit 1; }"
rm -f base.count
compare base later-gate
expect "one that fails later on: status 1" [ "$code" -eq 1 ]
expect "no block is run once errors decided every case" [ "$(<base.count)" -le 6 ]
document "it is named, too" "[x['key'] for x in c['worse']] == ['result.status']"
rm later-gate.count
for pair in "gate base" "gate gate" "base broken" "later-gate base"; do
    compare $pair
    expect "$pair: never a pass" [ "$code" -eq 3 ]
    expect "$pair: a line" one_line 'poly mirrored: is '
done

# ---- Programs that do not run -----------------------------------------------------------------

program killed 200000 "" 'kill -9 $$'
program rubbish 200000 "" 'echo hello; exit 0'
program silent 200000 "" 'exit 0'
program old 200000 "" 'echo "lockstep: option: --model: unknown option" >&2; exit 2'
program later 200000 "" "[ ! -s $work/later.count ] || [ \$(<$work/later.count) -lt 4 ] || kill -11 \$\$"
program much 200000 "" 'head -c 70M /dev/zero; sleep 60'
program leaves 200000 "" 'sleep 4 &'
printf 'no program\n' >text
lockstep regress ./base real.jsonl
expect "a program and a file: status 2" [ "$code" -eq 2 ]
expect "each by its name" one_line 'regress: ./base: this is a program, but real.jsonl is a results file'
while IFS='|' read -r word pair; do
    compare $pair --model poly
    expect "$pair: status 3" [ "$code" -eq 3 ]
    expect "$pair: one line that has '$word'" one_line "$word"
    expect "$pair: nothing on stdout" [ ! -s out ]
done <<'END'
./killed: this program was ended by signal 9|base killed
./killed: this program was ended by signal 9|killed base
printed a line that is not a result row|base rubbish
its last message is: (none)|silent base
too old for one); remove the refused option; its last message is: option: --model: unknown|old base
./old: this program refuses the options; remove the refused option; its last message is: option|base old
./old: this program refuses the options; remove the refused option; its last message is: option|old old
./much: this program printed more than 64 MiB|base much
cannot be started|base nothing
cannot be started|text base
./later: this program was ended by signal 11|base later
END
lockstep regress base ./base --model poly
expect "a program of this folder without its path: ./ is named" one_line 'base: no program of this name is in the PATH; use ./base '
program fails 200000 "" "[ ! -s $work/fails.count ] || [ \$(<$work/fails.count) -lt 4 ] || trap 'exit 3' EXIT"
compare base fails
expect "a block whose rows are well, and whose status is not: status 3" [ "$code" -eq 3 ]
expect "a block whose status is not 0 is named" one_line './fails: this program ended with exit status 3'
program two 200000 'rows = [r, json.loads(json.dumps(r))]; rows[1]["case"]["model"] = "mlp"; rows[1]["id"] = "@ID@x"'
for pair in "two base" "base two"; do
    compare $pair
    expect "$pair: a case that is missing: status 3" [ "$code" -eq 3 ]
    expect "$pair: it is named" one_line 'mlp mirrored: is missing in'
done
program loses 200000 'rows = [r, json.loads(json.dumps(r))]; rows[1]["case"]["model"] = "mlp"; rows[1]["id"] = "@ID@x"' \
    "[ ! -s $work/loses.count ] || [ \$(<$work/loses.count) -lt 3 ] || { sed -n 's/@MS@/0.2/;s/@ID@/'\$RANDOM/p $work/base.row; exit 0; }"
compare two loses
expect "a case that later blocks lose: status 3" [ "$code" -eq 3 ]
expect "a case that later blocks lose is named" one_line 'mlp mirrored: is missing in ./loses'
compare two two
document "two cases have names" "[x['name'] for x in d['cases']] == ['poly mirrored', 'mlp mirrored']"
compare base leaves
verdict 0 same # background processes of a program are not waited for
program newer 200000 'r["case"]["new_option"] = "default"'
compare base newer
verdict 0 same
compare base equal --out /dev/full
expect "a full disk: status 3" [ "$code" -eq 3 ]
cp real.jsonl mine.jsonl
lockstep regress mine.jsonl real.jsonl --format md --out mine.jsonl
expect "no verdict in place of what is compared" [ "$code" -eq 2 ]
one_line "--out"
expect "the rows are still there" cmp -s mine.jsonl real.jsonl
mkfifo pipe
cat pipe >piped &
lockstep regress real.jsonl real.jsonl --format md --out pipe
wait $!
expect "a pipe is written, and stays one" [ -p pipe -a "$(head -c 13 piped)" = "**Performance" ]
echo before >kept.md
lockstep regress ./killed ./base --format md --out kept.md --results none --quiet
expect "a report that is not made leaves the one before" [ "$(cat kept.md)" = before ]
lockstep regress ./base ./equal --quiet --results no/where.db
expect "rows that cannot be kept: status 3" [ "$code" -eq 3 ]

# ---- Reports ----------------------------------------------------------------------------------

lockstep regress ./base ./slow --results kept.db --quiet --max-time 200s
expect "table: a line of the case" grep -qE '^poly mirrored +slower +1\.[01]' out
expect "table: the verdict" grep -qE '^slower: 1 case: 1 worse; threshold 3%' out
lockstep results list --results kept.db --format jsonl
rows "rows of both are kept" "{x['label'] for x in rows} == {'regress base', 'regress new'} and
    len(rows) >= 22 and len({x['id'] for x in rows}) == len(rows)"
: >every.rows # of programs that do not exist
for form in md junit github; do
    lockstep regress real.jsonl real.jsonl --format $form --out same.$form
    lockstep regress ./base ./slow --results none --quiet --max-time 200s --format $form \
        --out slow.$form
    expect "$form: status" [ "$code" -eq 1 ]
done
expect "Markdown: the verdict first" grep -qE '^\*\*Performance: slower\*\*' <(head -n 1 slow.md)
expect "Markdown: a table" grep -qE '^\| poly mirrored \| slower \|' slow.md
expect "GitHub: an error" grep -qE '^::error title=lockstep regress::poly mirrored: slower.*95%25' slow.github
expect "GitHub: a notice" grep -qE '^::notice title=.*same' same.github
expect "JUnit is read by a parser" python3 - <<'P'
import xml.etree.ElementTree as tree
for name, failures in ("slow", 1), ("same", 0):
    suite = tree.parse(name + ".junit").getroot().find("testsuite")
    assert suite.get("tests") == "1" and suite.get("failures") == str(failures), name
    assert suite.get("errors") == suite.get("skipped") == "0"
    case = suite.find("testcase")
    assert case.get("name") == "poly mirrored" and len(case.findall("failure")) == failures
P

# ---- Results files ----------------------------------------------------------------------------

make() { # FILE PYTHON over a row r and its number i of five
    python3 -c 'import json, sys
first = open("real.jsonl").readline()
for i in range(5):
    r = json.loads(first)
    r["id"] = sys.argv[1] + str(i)
    m = 0.2 * (1 + 0.002 * (i % 3))
    r["time"]["step_ms"].update(median=m, ci95=[m * 0.99, m * 1.01])
    exec(sys.argv[2])
    print(json.dumps(r))' "$1" "$2" >"$1.jsonl"
}
make f 'pass'
make f_same 'pass'
make f_slow 'r["time"]["step_ms"]["median"] *= 1.2'
make f_fast 'r["time"]["step_ms"]["median"] /= 1.2'
make f_noisy 'r["time"]["step_ms"]["median"] *= 1.04 + 0.05 * i'
make f_two 'r["time"]["step_ms"]["median"] *= 1 + 0.01 * i; r["result"]["notes"] = ["noisy: other programs used core 1 for 40% of it; taskset"]'
make f_far 'r["time"]["step_ms"]["median"] *= 1 + 1.2 * i'
make f_pair 'r["time"]["step_ms"]["median"] *= 1.002 + 0.01 * i'
sed -i '4,$d' f_two.jsonl f_pair.jsonl
sed -i 2q f_far.jsonl
make f_class 'r["provenance"]["cpu"] = "another"'
make f_cores 'r["provenance"]["cores_allowed"] = 99'
make f_schema 'r["schema"] = 2'
make f_other 'r["case"]["batch_global"] += 1'
make f_none 'del r["time"]'
make f_noname 'del r["case"]["strategy"]; r["case"]["batch_global"] += 1'
make f_unnamed 'del r["case"]["model"]; r["case"]["batch_global"] += 1'
make f_bytes 'r["traffic"]["bytes_sent"] += 4'
make f_both 'r["traffic"]["bytes_sent"] += 4; r["traffic"]["messages_sent"] += 1'
make f_intended 'r["label"] = "intended traffic.messages_sent, traffic.bytes_sent: larger buckets"'
make f_nodes 'r["program"]["nodes"] += 1'
make f_meant 'r["label"] = "intended nodes: one more fence"'
make f_repeat 'if i == 3: r["result"] = {"status": "failed", "reason": "gate: other bits"}; del r["time"]'
make f_stopped 'if i == 0: r["result"] = {"status": "interrupted", "reason": "by hand"}; del r["time"]'
printf '%s' "$(cat f.jsonl)" >f_ends.jsonl
head -c -20 f.jsonl >f_cut.jsonl
make f_mixed 'if i == 4: r["provenance"]["cpu"] = "another"'
make f_later 'if i == 3: r["traffic"]["bytes_sent"] += 4'
make f_more 'r["traffic"]["bytes_sent"] += 5 * (i == 4)'
make f_room 'if i == 4: r["memory"]["devices"][1]["formula"]["workspace"] += 64'
make f_most 'r["memory"]["devices"][0]["formula"]["workspace"] = 2**63 - 1'
make f_least 'r["traffic"]["bytes_sent"] = -2**63'
make f_text 'if i == 2: r["program"]["uncaptured"] = "a task"'
make f_quick 'r["time"].update(speedup=1.5, speedup_ci95=[1.4, 1.6])'
make f_quicker 'r["time"].update(speedup=1.8, speedup_ci95=[1.7, 1.9])'
make f_gate 'if i == 2: r["equivalence"]["pass"] = False'
make f_huge 'r["traffic"]["bytes_sent"] = 2**60'
make f_huger 'r["traffic"]["bytes_sent"] = 2**60 + (i == 1)'
make f_isa 'del r["provenance"]["library_isa"]'
make f_isa2 'r["provenance"]["library_isa"] = "SSE41"'
make f_set 'r["provenance"]["environment"] = {"DNNL_MAX_CPU_ISA": "SSE41"}'
make f_peer 'if i == 4: r["peer"] = {"what": "another program"}'
make f_real 'r["case"]["lr"] = 1.0'
make f_whole 'r["case"]["lr"] = 1'
cp real.jsonl one.jsonl
"$LOCKSTEP" results import f.jsonl --results f.db >out
while IFS='|' read -r status word pair; do
    lockstep regress $pair
    expect "$pair: status $status" [ "$code" -eq "$status" ]
    expect "$pair: '$word'" grep -q "$word" out err
done <<'END'
0|^same: 1 case|f.jsonl f_same.jsonl
0|^same: 1 case|f.db f_same.jsonl
0|^same: 1 case|one.jsonl real.jsonl
0|^same: 1 case|f.jsonl f_ends.jsonl
3|f_cut.jsonl: line 5: this line is not valid JSON|f.jsonl f_cut.jsonl
1|^slower: 1 case|f.jsonl f_slow.jsonl
0|^faster: 1 case|f.jsonl f_fast.jsonl
4|^cannot tell: 1 case|f.jsonl f_noisy.jsonl
4|cannot tell: [0-9.]* times the base (2 runs, medians|f_two.jsonl f_far.jsonl
1|worse: traffic.bytes_sent|f.jsonl f_bytes.jsonl
0|besides: traffic.bytes_sent|f_intended.jsonl f_bytes.jsonl
0|traffic.bytes_sent .*traffic.messages_sent|f_intended.jsonl f_both.jsonl
1|worse: program.nodes|f.jsonl f_nodes.jsonl --fail-on nodes
0|besides: program.nodes|f_meant.jsonl f_nodes.jsonl --fail-on nodes
1|ok -> failed: gate: other bits|f.jsonl f_repeat.jsonl
0|^same: 1 case|f.jsonl f_stopped.jsonl
0|^same: 1 case|f_stopped.jsonl f.jsonl
1|worse: traffic.bytes_sent|f.jsonl f_later.jsonl
1|worse: traffic.bytes_sent|f_later.jsonl f_more.jsonl
0|^same: 1 case|f_later.jsonl f_bytes.jsonl
0|besides: traffic.bytes_sent|f_more.jsonl f_later.jsonl
1|worse: memory.formula|f.jsonl f_room.jsonl
1|worse: memory.formula|f.jsonl f_most.jsonl
1|worse: traffic.bytes_sent|f_least.jsonl f.jsonl --fail-on traffic.bytes_sent=5%
0|besides: time.speedup_ci95|f_quick.jsonl f_quicker.jsonl --fail-on time.speedup_ci95
1|worse: time.speedup_ci95|f_quicker.jsonl f_quick.jsonl --fail-on time.speedup_ci95
1|worse: program.uncaptured|f.jsonl f_text.jsonl --fail-on uncaptured
0|^same: 1 case|f_text.jsonl f_text.jsonl --fail-on uncaptured
1|worse: result.status|f.jsonl f_gate.jsonl
1|worse: traffic.bytes_sent|f_huge.jsonl f_huger.jsonl
0|^same: 1 case|f_real.jsonl f_whole.jsonl
0|^same: 1 case|f.jsonl f_isa.jsonl
3|different kinds of machines: library_isa is .* in this file, but SSE41|f.jsonl f_isa2.jsonl
3|different kinds of machines: environment is none in this file, but DNNL_MAX_CPU_ISA=SSE41|f.jsonl f_set.jsonl
3|is missing in f.jsonl|f.jsonl f_peer.jsonl
3|different kinds of machines: cpu|f.jsonl f_mixed.jsonl
3|different kinds of machines: cpu|f.jsonl f_class.jsonl
3|different kinds of machines: cores_allowed|f.jsonl f_cores.jsonl
3|another row format|f.jsonl f_schema.jsonl
3|is missing in f.jsonl|f.jsonl f_other.jsonl
3|^poly  *error|f.jsonl f_noname.jsonl
3|^mirrored.* error|f.jsonl f_unnamed.jsonl
3|nothing was measured|f.jsonl f_none.jsonl
3|No such file|f.jsonl no.jsonl
2|this is a program, but|f.jsonl ./base
2|applies only to two programs|f.jsonl f_same.jsonl --steps 5
2|instructions: applies only to two programs|f.jsonl f_same.jsonl --instructions
2|1 of 2 arguments|f.jsonl
2|this is not a format; valid are: table, json, md|f.jsonl f.jsonl --format csv
2|give a percentage above 0|f.jsonl f.jsonl --threshold 0
2|unknown key|f.jsonl f.jsonl --fail-on nothing
2|is not valid; give KEY|f.jsonl f.jsonl --fail-on nodes=x
2|fails a case after N undecided comparisons|f.jsonl f.jsonl --fail-on undecided
2|reads the previous comparison.s report|f.jsonl f.jsonl --fail-on undecided=2
2|ci/bisect.sh GOOD BAD --build COMMAND|--bisect HEAD~1 HEAD --build true --model poly
2|this is not a format; valid are: table, jsonl|--calibrate 1 ./base --format github
2|is not valid; give a time|f.jsonl f.jsonl --max-time soon
2|cannot be used with lockstep regress|./base ./base --dry-run
2|but of lockstep results|f.jsonl f.jsonl --since 2d
2|not a number of comparisons|--calibrate 0 ./base
END
lockstep regress f.jsonl f_other.jsonl
expect "two cases that cannot be compared: one line" one_line 'is missing in f_other.jsonl; 1 more case cannot be compared'

lockstep regress f_pair.jsonl f_two.jsonl --format json
document "what hides it, and how many runs would tell" "c['noise'].startswith('other programs used core 1 for 40%') and
    0 < c['more_blocks'] < 40 and c['verdict'] == 'cannot tell'"
# What cannot be told again and again may fail: the report counts.
for try in 4 4 1 1; do
    lockstep regress f.jsonl f_noisy.jsonl --fail-on undecided=3,nodes --format json,md --out ci
    expect "undecided again: status $try" [ "$code" -eq $try ]
done
expect "the report says why" grep -q 'worse: undecided 3 .*comparisons in a row' ci.md
lockstep regress f.jsonl f_same.jsonl --fail-on undecided=3 --format json,md --out ci
lockstep regress f.jsonl f_noisy.jsonl --fail-on undecided=3 --format json,md --out ci
expect "one that tells begins anew" [ "$code" -eq 4 ]
echo '{"cases": [' >ci.json
lockstep regress f.jsonl f_noisy.jsonl --fail-on undecided=3 --format json,md --out ci
expect "a damaged report is not taken for none" [ "$code" -eq 3 ]
expect "in one line" one_line "ci.json: this file is not an earlier report"

# ---- The program itself -----------------------------------------------------------------------

lockstep regress "$LOCKSTEP" "$LOCKSTEP" --model poly --strategy single,mirrored --devices 1,2 --data \
    synthetic:1000 --max-time 3s --threshold 50% --format json --results own.db --quiet
expect "against itself: never worse" [ "$code" -eq 0 -o "$code" -eq 4 ]
document "three cases, by what differs" "len({x['name'] for x in d['cases']}) == len(d['cases']) > 1 and
    all(x['blocks'] >= 1 and x['worse'] == [] for x in d['cases'])"
lockstep regress "$LOCKSTEP" "$LOCKSTEP" --modle poly
expect "an option that nobody has: status 2" [ "$code" -eq 2 ]
lockstep regress "$LOCKSTEP" "$LOCKSTEP" --model nothing --results none
expect "a value that nobody has: status 3" [ "$code" -eq 3 ]
lockstep regress --calibrate 1 ./base --format json --results none --quiet --max-time 1s
expect "calibration counts" python3 -c 'import json
rows = json.load(open("out"))
assert [x["slowed_percent"] for x in rows] == [0, 1, 2, 3, 5, 10]
assert all(x["slower"] + x["same"] + x["faster"] + x["cannot tell"] == 1 for x in rows)
assert all(abs(x["ratio"] - 1 - x["slowed_percent"] / 100) < 0.01 for x in rows)'
lockstep regress --calibrate 2 ./base ./slow --format json --results none --quiet --max-time 200s
expect "of two programs, too" python3 -c 'import json
assert [x["slower"] for x in json.load(open("out"))] == [2] * 6'
rm later-gate.count
lockstep regress --calibrate 1 ./base ./later-gate --format json --results none --quiet --max-time 200s
expect "what fails its gate later on is not counted: status 3" [ "$code" -eq 3 ]
# Without valgrind, before anything runs.
printf '#!/bin/bash\n: >ran\n' >runs
chmod +x runs
code=0
env PATH="$work/none" "$LOCKSTEP" regress "$work/runs" "$work/runs" --instructions --results none >out 2>err || code=$?
expect "instructions cannot be counted: status 3" [ "$code" -eq 3 ]
expect "in one line" one_line 'option: --instructions: valgrind'
expect "and nothing has run" [ ! -e ran ]
code=0
env PATH="$work/none" "$LOCKSTEP" regress --instructions --results none >out 2>err || code=$?
expect "a wrong command line comes first: status 2" [ "$code" -eq 2 ]
env PATH="$work/none" "$LOCKSTEP" regress "$work/runs" "$work/runs" --instructions --warmup 1 --results none \
    >out 2>err || :
expect "where none are counted, valgrind is not asked for" eval '[ -e ran ] && ! grep -q valgrind err'
lockstep_ok regress --help
expect "the help has its options" [ "$(grep -cE '^  --(threshold|max-time|fail-on|calibrate|bisect) ' out)" -eq 5 ]

finish
