#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What ends a run early: SIGINT, kill -9, divergence, a full stdout, a full disk. Finished rows are not lost, the exit
# status says what happened, and no figure of an unfinished measurement looks finished. Leaves out ranks that are
# processes (test_faults.sh). One case of each kind, all only if thorough.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

mount_at=
started=
cleanup_more() {
    [ -z "$started" ] || kill -9 "$started" 2>/dev/null || true
    [ -z "$mount_at" ] || umount "$mount_at" 2>/dev/null || true
}

# Starts a command in the background.
begin() {
    command_line=$*
    : >out
    : >err
    "$LOCKSTEP" "$@" >out 2>err </dev/null &
    started=$!
}

# end SIGNAL: sends it and waits at most a minute; stores the exit status in $code and the milliseconds in $took.
end() {
    local start=$EPOCHREALTIME
    kill -"$1" "$started" 2>/dev/null || wrong "it ended before the signal"
    timeout 60 tail --pid="$started" -s 0.05 -f /dev/null || kill -9 "$started"
    code=0
    wait "$started" || code=$?
    started=
    took=$(((${EPOCHREALTIME/[.,]/} - ${start/[.,]/}) / 1000))
}

two_rows() { # waits until two cases of a sweep are printed
    local waited=0
    until [ "$(wc -l <out)" -ge 2 ] || [ "$((waited += 1))" -gt 2400 ]; do sleep 0.05; done
}

trains() { # waits until the first case trains, as the progress shows
    local waited=0
    until grep -q ', \(timing\|warm-up\), ' err || [ "$((waited += 1))" -gt 1200 ]; do sleep 0.05; done
}

# ---- SIGINT -----------------------------------------------------------------------------------

poly="--model poly --format jsonl --steps 100000000"
for options in "--warmup 100000000" "--capture no --gate-steps 0" "" "--reduce exact" "--blocks 1"; do
    [ "$options" != "--reduce exact" ] || thorough || break
    rm -f int.db
    begin run $poly $options --results int.db --progress yes
    trains
    end INT
    expect "ends soon (took $took ms)" [ "$took" -lt 50000 ]
    expect "status 130" [ "$code" -eq 130 ]
    rows "the row is printed, and says that it was interrupted and after how many steps" \
        "len(rows) == 1 and r['result']['status'] == 'interrupted' and
         'interrupt' in r['result']['reason'] and
         any(c.isdigit() for c in r['result']['reason'])"
    rows "figures are of the steps done" "r['case']['steps_asked'] == 100000000 and (0 < r['time']['step_ms']['n'] +
        r['time'].get('discarded', 0) == r['case']['steps'] < 100000000 if 'time' in r else r['case']['steps'] == 0)"
    keep printed
    lockstep_ok results list --format jsonl --results int.db
    rows "the row is kept" "rows == old('printed')"
done
begin run --model mlp:784-256-256-10 --data synthetic:2000 --steps 100000000 --format jsonl \
    --results none --progress yes
trains
end INT
expect "mlp ends soon (took $took ms)" [ "$took" -lt 50000 ]
expect "mlp: status 130" [ "$code" -eq 130 ]
# Evaluation, which would take minutes. The times are kept.
evaluated="run --model gpt:4-4-128-256 --batch 2 --data synthetic:60000 --steps 2 --warmup 1 --gate-steps 0 --format jsonl"
for options in "INT --eval-samples all" "TERM --eval-samples all --strategy mirrored --devices 2" \
    "HUP --eval-samples 2500 --strategy zero --zero-stage 3 --devices 2"; do
    rm -f int.db
    begin $evaluated ${options#* } --results int.db --progress yes
    waited=0
    until grep -q ', evaluating, ' err || [ "$((waited += 1))" -gt 1200 ]; do sleep 0.05; done
    end "${options%% *}"
    expect "evaluation ends soon after ${options%% *} (took $took ms)" [ "$took" -lt 50000 ]
    expect "evaluation: status 130" [ "$code" -eq 130 ]
    rows "evaluation: the row has its times and no accuracy" \
        "len(rows) == 1 and r['result']['status'] == 'interrupted' and 'evaluation' in r['result']['reason'] and
         r['time']['step_ms']['n'] == 2 and not {'accuracy', 'evaluated'} & set(r['train'])"
    keep printed
    lockstep_ok results list --format jsonl --results int.db
    rows "evaluation: the row is kept" "rows == old('printed')"
done
begin micro gemm --results none
until_caught "$started"
end INT
expect "micro: status 130" [ "$code" -eq 130 ]
# The gate of a later case: in the middle of a step, which may take seconds.
printf '%s\n' 'cases:' '- {model: poly, steps: 5}' \
    '- {model: "gpt:4-4-256-256-4096", batch: 4, data: "synthetic:64", steps: 3, strategy: mirrored, devices: 2}' >two.yaml
for verb in run verify; do
    begin $verb --plan two.yaml --results none --format jsonl --progress yes
    waited=0
    until grep -q 'case 2/2.*, checking, ' err || [ "$((waited += 1))" -gt 1200 ]; do sleep 0.05; done
    end TERM
    expect "$verb: a later case's gate ends soon (took $took ms)" [ "$took" -lt 50000 ]
    expect "$verb: status 130" [ "$code" -eq 130 ]
    expect "$verb: the first case has its row" [ "$(wc -l <out)" -eq 1 ]
    expect "$verb: no device is said to have failed" [ "$(grep -c 'device failed' err)" -eq 0 ]
done
begin verify $poly --results none
until_caught "$started"
end INT
expect "verify ends soon (took $took ms)" [ "$took" -lt 50000 ]
expect "verify: status 130" [ "$code" -eq 130 ]
begin run $poly --gate-steps 100000000 --results none
until_caught "$started"
end INT
expect "the gate ends soon (took $took ms)" [ "$took" -lt 50000 ]
expect "the gate: status 130" [ "$code" -eq 130 ]
# A second signal ends a run that is stuck: devices that hang, long before their timeout.
stuck="--model mlp:784-32-10 --data synthetic:100 --batch 10 --strategy mirrored --devices 2"
stuck+=" --steps 100 --warmup 0 --gate-steps 0 --timeout 60min --results none"
for options in "--inject hang=1:0" "--link bandwidth=1kB/s,latency=10s" "--inject hang=1:0 --link latency=1us" \
    "--inject delay=1:100s"; do
    [ "$options" != "--inject hang=1:0 --link latency=1us" ] || thorough || break
    begin run $stuck $options --progress yes
    trains
    sleep 0.2
    kill -INT "$started" 2>/dev/null || true
    sleep 0.5
    if ! kill -0 "$started" 2>/dev/null; then
        wrong "it ended at the first signal: it was not stuck"
        continue
    fi
    end INT
    expect "a second signal ends it at once (took $took ms)" [ "$took" -lt 50000 ]
    expect "a second signal: status 130" [ "$code" -eq 130 ]
done
# What keeps nothing half done ends at the first signal, here while a model of 124 million parameters is opened.
for options in "--gate-steps=0 TERM" "--gate-steps=1 HUP" "--gate-steps=0 INT" "--gate-steps=1 USR1"; do
    [ "$options" != "--gate-steps=0 INT" ] || thorough || break
    read -r option signal <<<"$options"
    begin run --model gpt:12-12-768-1024-50257 --data synthetic:100 --batch 1 "$option" --results none
    until_caught "$started"
    sleep 0.3
    end "$signal"
    expect "$option ends at the first $signal (took $took ms)" [ "$took" -lt 50000 ]
    expect "$option: status 130 after $signal" [ "$code" -eq 130 ]
done
# While cases are checked: what passed is a row.
rm -f int.db
begin run --model poly,resnet:8 --data synthetic:64 --batch 32 --gate-steps 2000 --steps 100000 --format jsonl \
    --results int.db --progress yes
waited=0
until grep -q 'case 2/2 .*, checking' err || [ "$((waited += 1))" -gt 1200 ]; do sleep 0.05; done
end INT
expect "a sweep being checked: status 130" [ "$code" -eq 130 ]
rows "a sweep being checked: the gate that passed is kept, without a time" \
    "[x['case']['model'] for x in rows] == ['poly'] and r['result']['status'] == 'interrupted' and
     r['equivalence']['pass'] and 'time' not in r"
expect "and a line says what is kept" grep -q 'interrupted: 1, without a result: 1; results are kept in int.db' err
sweep="run --model poly --steps 100000 --blocks 1 --gate-steps 0 --format jsonl"
sweep+=" --seed $(seq -s, 1 200)"
rm -f int.db
begin $sweep --results int.db
two_rows
end INT
expect "a sweep ends soon (took $took ms)" [ "$took" -lt 50000 ]
expect "a sweep: status 130" [ "$code" -eq 130 ]
rows "a sweep: finished cases are ok, no other is, and not all ran" \
    "2 <= sum(x['result']['status'] == 'ok' for x in rows) < 200 and
     all(x['result']['status'] == 'ok' or 'interrupt' in x['result']['reason'] for x in rows)"
keep printed
lockstep_ok results list --format jsonl --results int.db
rows "a sweep: what is printed is kept" "all(x in rows for x in old('printed'))"
# A terminal that is gone, and what batch systems send: the rows of the group are kept, unless that is ignored.
for signal in HUP USR1 XCPU; do
    rm -f int.db
    begin $sweep --results int.db --progress yes
    two_rows
    end "$signal"
    expect "$signal: status 130" [ "$code" -eq 130 ]
    rows "$signal: what was measured is kept" "sum(x['result']['status'] == 'ok' for x in rows) >= 2"
done
trap '' HUP
begin run --model poly --steps 300000 --gate-steps 0 --format jsonl --results none
trap - HUP
until_caught "$started"
end HUP
expect "an ignored SIGHUP stays ignored" [ "$code" -eq 0 ]

# ---- kill -9 ----------------------------------------------------------------------------------

begin $sweep --results kill.db
two_rows
end 9 2>/dev/null
expect "killed" [ "$code" -eq 137 ]
sed -i '/}$/!d' out # drops a half-written line
keep killed
lockstep_ok results list --format jsonl --results kill.db
rows "finished rows survive kill -9, those printed among them" \
    "len(rows) >= 2 and all(x in rows for x in old('killed'))"
rows "and none is half of one" "all(x['result']['status'] == 'ok' for x in rows)"
cp out before.kept
printf 'inject: [none%s, "kill=0:15"]\n' "$(printf ', "delay=1:%dus"' 1 2 3 4 5 6 7)" >plan.yaml
lockstep run --model poly --strategy mirrored --devices 2 --steps 20 --blocks 1 --plan plan.yaml --results inject.db
expect "the only rank is the process, which is killed" [ "$code" -eq 137 ]
lockstep_ok results list --format jsonl --results inject.db
rows "the rows of the group before are kept" "len(rows) == 8 and r['result']['status'] == 'ok'"
lockstep run --model poly --strategy mirrored,ps --ranks 2 --steps 20 --inject kill=1:15 --format jsonl --results none
expect "one of several ranks in a process is killed alone: status 3" [ "$code" -eq 3 ]
rows "each row names the rank and the step" "len(rows) == 2 and all(x['result']['status'] == 'error' and
    'rank: 1: ' in x['result']['reason'] and 'step 15' in x['result']['reason'] and 'time' not in x for x in rows)"
lockstep_ok run --model poly --steps 2 --results kill.db
lockstep_ok results list --format jsonl --results kill.db
rows "and the database takes more" "len(rows) == len(old('before')) + 1"

# ---- Divergence -------------------------------------------------------------------------------

for model in "poly" "mlp:20-8-3 --data synthetic:100 --batch 10"; do
    rm -f nan.db
    lockstep run --model $model --optimizer sgd --lr 1e6 --steps 200 --format jsonl --results nan.db
    if [ "$model" = poly ]; then
        expect "a diverged run is status 1" [ "$code" -eq 1 ]
        rows "the row fails, says at which step and has no time" \
            "len(rows) == 1 and r['result']['status'] == 'failed' and 'time' not in r and
             'step' in r['result']['reason'] and any(c.isdigit() for c in r['result']['reason'])"
    fi
    checks=$((checks + 1))
    grep -qE '(NaN|Infinity)' out && wrong "a row is no JSON: NaN or Infinity in it"
    keep printed
    lockstep_ok results list --format jsonl --results nan.db
    rows "the row is kept" "rows == old('printed')"
done
lockstep run --model poly --optimizer sgd --lr 1e6,1e-9 --steps 20 --format jsonl --results none
expect "one of two diverged: status 1" [ "$code" -eq 1 ]
rows "the other is ok" "sorted(x['result']['status'] for x in rows) == ['failed', 'ok']"
lockstep verify --model poly --optimizer sgd --lr 1e6,1e-9 --steps 20 --format jsonl --results none
expect "so it is in verify: two NaN have the same bits" [ "$code" -eq 1 ]
rows "and the row says at which step" "sorted((x['result']['status'], 'the loss is' in
    x['result'].get('reason', '')) for x in rows) == [('failed', True), ('ok', False)]"
lockstep verify --model poly --optimizer sgd --lr 1e6 --warmup 0 --steps 4 --format jsonl --results none
expect "parameters that are not finite after the last step: status 1" [ "$code" -eq 1 ]
rows "which the row names" "'dense0.weight' in r['result']['reason']"

# ---- Nowhere to write -------------------------------------------------------------------------

if [ -c /dev/full ]; then
    for command in "run --model poly --steps 3 --results none" \
        "run --model poly --steps 3 --results full.db --format jsonl" \
        "run --model poly --steps 3 --results none --format json" \
        "list" "devices" "--help" "--version" "run --help" \
        "results list --results full.db"; do
        command_line="$command >/dev/full"
        code=0
        timeout 50 "$LOCKSTEP" $command >/dev/full 2>err || code=$?
        expect "a full stdout is not status 0" [ "$code" -ne 0 ]
        expect "and one line says so" one_line
        case $command in
        run*full.db*) expect "where the rows are" one_line '`lockstep results list --results full.db` shows the rows' ;;
        *) expect "nothing of rows that are kept" [ "$(grep -c 'are kept' err)" -eq 0 ] ;;
        esac
    done
    lockstep_ok results list --format jsonl --results full.db
    rows "the row was kept before it was printed" "len(rows) == 1"
    if [ "$(id -u)" -eq 0 ] || [ -w /dev/full ]; then
        code=0
        command_line="run --save /dev/full"
        timeout 50 "$LOCKSTEP" run --model poly --steps 3 --results none --save /dev/full >out \
            2>err || code=$?
        expect "a parameter file that cannot be written is not status 0" [ "$code" -ne 0 ]
    fi
fi
# A reader that has gone is no error, as with other programs: no line, and the status of SIGPIPE, 128 + 13.
exec 7> >(:)
wait $!
lockstep_ok run --model poly --steps 3 --seed 1,2 --results unread.db --format jsonl
flat=flat:bandwidth=1GB/s
while read -r command; do
    command_line="$command | :"
    code=0
    timeout 50 "$LOCKSTEP" $command >&7 2>err || code=$?
    expect "a reader that has gone: status 141" [ "$code" -eq 141 ]
    expect "a reader that has gone: not a word" [ ! -s err ]
done <<END
list
devices
devices --format json
--help
--version
run --help
help predict
results list --results unread.db
results show last --results unread.db
results diff last~1 last --results unread.db
results trend median --results unread.db
results export --to jsonl --results unread.db
results export --to mlperf --results unread.db
report --results unread.db --out unread
regress unread.db unread.db --format json
run --model poly --dry-run --quiet
run --model poly --print-step
run --model poly --steps 3 --seed 1,2,3 --results none
run --model poly --steps 3 --seed 3,4,5 --results unread.db
predict --model poly --strategy mirrored --devices 2,3 --platform $flat --results none
predict --model poly --strategy mirrored --devices 2,3 --platform $flat --results unread.db
predict --platform list
advise --model poly --devices 2 --platform $flat --results none --quiet
micro copy --sizes 1KiB,2KiB --results unread.db
END
exec 7>&-
lockstep_ok results list --format jsonl --results unread.db
rows "a sweep that nobody reads keeps its rows" "(sum('prediction' in r for r in rows), sum(r.get('case',
    {}).get('seed', 0) > 2 for r in rows), sum('micro' in r for r in rows) > 1) == (2, 3, True)"
# With stdout closed, the next file to be opened must not get its number and then the rows.
command_line="run --save closed >&-"
code=0
timeout 50 "$LOCKSTEP" run --model poly --steps 3 --results closed.db --save closed >&- 2>err || code=$?
expect "a closed stdout is not status 0" [ "$code" -ne 0 ]
lockstep_ok run --model poly --steps 0 --warmup 0 --results none --load closed
lockstep_ok results list --format jsonl --results closed.db
rows "the row is kept" "len(rows) == 1"
code=0
command_line="run --results limited.db, with ulimit -f 1"
(ulimit -f 1 && exec "$LOCKSTEP" run --model poly --steps 2 --results limited.db) >out 2>err || code=$?
expect "a file that may not grow: status 3" [ "$code" -eq 3 ]
expect "a file that may not grow: one line says so" one_line 'limited.db: .* at most 1024 bytes (ulimit -f)'
mkdir small
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=256k tmpfs small 2>/dev/null; then
    mount_at=$work/small
    lockstep_ok run --model poly --steps 3 --results small/r.db --format jsonl
    keep first
    head -c 1000000 /dev/zero >small/filler 2>/dev/null || true
    lockstep run --model poly --steps 3 --seed 1,2,3,4,5,6,7,8 --results small/r.db --format jsonl
    expect "a full disk is status 3" [ "$code" -eq 3 ]
    expect "and one line names the database" one_line small/r.db
    rows "each case is printed, and those that are not kept say so, with their figures" "len(rows) == 8 and
        'error' in [x['result']['status'] for x in rows] and all(x['result']['status'] == 'ok' or
        'disk is full' in x['result']['reason'] for x in rows) and all(
        x['time']['step_ms']['median'] > 0 for x in rows)"
    lockstep run --model mlp:784-300-10 --data synthetic:50 --steps 1 --results none --save \
        small/parameters
    expect "parameters on a full disk: status 3" [ "$code" -eq 3 ]
    expect "and no half of a file stays under their name" [ ! -s small/parameters ]
    rm -f small/filler
    lockstep_ok results list --results small/r.db --format jsonl
    rows "the database has the row from before" "old('first')[0] in rows"
    lockstep_ok run --model poly --steps 3 --results small/r.db
    mount -o remount,ro "$mount_at"
    lockstep run --model poly --steps 3 --results small/r.db
    expect "a read-only file system: status 3" [ "$code" -eq 3 ]
    expect "a read-only file system: one line" one_line small/r.db
    expect "a read-only file system: before training" [ ! -s out ]
    lockstep run --model poly --steps 3 --results none --save small/parameters
    expect "parameters on a read-only file system: status 3" [ "$code" -eq 3 ]
else
    echo "note: no small file system can be mounted here; the full disk is skipped"
fi

finish
