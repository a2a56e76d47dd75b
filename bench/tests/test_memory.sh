#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Memory is predicted: for every strategy, in one process and in several, --dry-run prints per device and use the
# bytes that a row of the same case then counts. A case that does not fit is refused before training, with what each
# device needs and its largest use; a case that fits the limit exactly runs. No tolerance.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
small="--steps 2 --warmup 0 --results none --format jsonl --gate-steps 0"
mlp="--model mlp:784-32-10 --data synthetic:600 --batch 60"
told="[[dict((k, d[k]) for k in d['formula'] if k != 'peak') for d in r['memory']['devices']] for r in rows]"

compare() { # WHAT: the prediction kept as `told` equals the rows of the last command
    rows "$1: told as counted" "len(rows) == len(old('told')) > 0 and
        [[(d.pop('device'), d)[1] for d in r['estimate']['memory_devices']] for r in old('told')] == $told"
    rows "$1: by name of the device" "[[d['device'] for d in r['memory']['devices']] for r in rows] ==
        [[d['device'] for d in r['estimate']['memory_devices']] for r in old('told')]"
}

case_of() { # OPTIONS: predicts, then runs
    lockstep run $small "$@" --dry-run
    expect "dry run: status 0" [ "$code" -eq 0 ]
    cp out told.kept
    lockstep run $small "$@"
    expect "run: status 0" [ "$code" -eq 0 ]
    compare "$*"
}
case_of $mlp --strategy single
case_of $mlp --strategy independent,local-sgd,gossip,mirrored,zero,towers,ps,pipeline --devices 2,3
case_of $mlp --strategy mirrored,towers --devices 3 --reduce exact
case_of $mlp --strategy zero --zero-stage 1,3 --devices 3 --reduce exact --bucket-bytes 0
case_of $mlp --strategy towers --devices 2 --variable-device cpu:2 --cpu-devices 3
case_of $mlp --strategy towers --devices 2 --towers-staged yes --optimizer sgd,momentum,adam
case_of $mlp --strategy ps --ranks 4 --ps-servers 2 --ps-mode sync,async
case_of $mlp --strategy hybrid --devices 4 --hybrid-inner pipeline
case_of $mlp --strategy mirrored --allreduce ring,tree,halving-doubling --devices 3 --link latency=1us,bandwidth=10GB/s
case_of --strategy model-parallel --devices 2 --model twin-lstm:8 --data synthetic:60 --batch 20
case_of --strategy mirrored --devices 2 --model cnn --data synthetic:60 --batch 20

if ! without_ranks; then
    for options in "$mlp --strategy mirrored,zero,pipeline" "$mlp --strategy ps --ps-servers 1"; do
        "$launcher" 3 "$LOCKSTEP" run $small $options --dry-run >out 2>err || wrong "dry run: $options"
        cp out told.kept
        "$launcher" 3 "$LOCKSTEP" run $small $options >out 2>err || wrong "run: $options"
        compare "3 ranks, $options"
    done
fi

# ---- What does not fit ---------------------------------------------------------------------------

small=${small/ --gate-steps 0/} # with the gate, which runs first
# refused LARGEST OPTIONS: an error row before training that names the largest use first.
refused() {
    local largest=$1
    shift
    lockstep run $small "$@"
    expect "status 3" [ "$code" -eq 3 ]
    rows "an error without training" "all(r['result']['status'] == 'error' and 'time' not in r and 'train' not in r for r in rows)"
    rows "what it needs, $largest first" "all(re.search(
        r'^memory: cpu:\d: \d+ bytes are needed, but --memory fraction=\S+ allows only \d+ bytes; memory of the case by device: cpu:\S+: [0-9.]+ [KMG]iB( each)? .$largest [0-9.]+ '
        r'.*; use .*, or --memory growth$', r['result']['reason']) for r in rows)"
}
refused optimizer --model mlp:784-32-10 --data synthetic:60 --batch 4 --strategy single,mirrored,towers --devices 1 --memory fraction=0.00001
refused activations --model mlp:784-32-10 --strategy mirrored --devices 2 --memory fraction=0.0001 --batch 6000 --data synthetic:6000
refused parameters --model mlp --data synthetic:60 --strategy ps --ranks 3 --memory fraction=0.000001 --optimizer sgd --batch 6
# What mirrored cannot hold trains by shares, in the same memory: 8 MB of 9.2.
deep="--model mlp:784-256-256-256-256-256-256-10 --data synthetic:60 --batch 12 --bucket-bytes 200KiB --devices 2"
refused optimizer $deep --strategy mirrored --memory fraction=0.0001
fraction=$(sed -n 's/.*--memory fraction=[^ ]* allows only \([0-9]*\) bytes; .*/\1/p' out | awk '{ printf "%.8f", 8e6 / $1 * 0.0001 }')
refused optimizer $deep --strategy mirrored --memory fraction=$fraction
lockstep run $small $deep --strategy zero --zero-stage 3 --memory fraction=$fraction
rows "stage 3 trains where mirrored is refused" "[r['result']['status'] for r in rows] == ['ok']"
# The gate's judge holds the whole model: of 150 MiB a device the shares of four fit, and their judge does not.
"$LOCKSTEP" devices --cpu-devices 1 --format json >devices.json
cpus=$(python3 -c "import json; print(json.load(open('devices.json'))['devices'][0]['capacity'] // (150 << 20))")
lockstep run $small --model mlp:784-16384-10 --data synthetic:60 --batch 4 --strategy zero --zero-stage 3 --devices 4 --cpu-devices "$cpus"
expect "too large a judge: status 3" [ "$code" -eq 3 ]
rows "what the judge needs" "re.search(r'^memory: cpu:0: \d+ bytes are needed, but --memory growth allows only \d+ bytes; memory of the '
    r'check against the reference by device: cpu:0: [0-9.]+ [MG]iB .optimizer .*; use .*, or --gate-steps 0$', r['result']['reason'])"
lockstep run $small $mlp --strategy mirrored --devices 2 --memory fraction=0.00001 --dry-run
expect "a dry run: status 3" [ "$code" -eq 3 ]
expect "and the same words" grep -q '^lockstep: case 1: memory: cpu:0: .* memory of the case by device: cpu:0+cpu:1: .* each (' err

# ---- Nothing of a model's size is allocated or drawn before it is known to fit -------------------

huge="--model mlp:784-400000-400000-10 --data synthetic:60 --batch 4 --results none" # 2.3 TiB; to draw it takes an hour
for command in "run $huge" "verify $huge" "run $huge --dry-run" "trace $huge --out t.json"; do
    command_line=$command code=0
    timeout 60 "$LOCKSTEP" $command >out 2>err </dev/null || code=$?
    expect "$command: refused at once" [ "$code" -eq 3 ]
    expect "and why" grep -q 'memory: cpu:0: [0-9]* bytes are needed, but .* 2\.[0-9] TiB\|2[0-9]* GiB' out err
done
code=0
timeout 60 "$LOCKSTEP" run $huge --print-step >out 2>err || code=$?
expect "its step is listed" eval '[ "$code" -eq 0 ] && grep -q " cpu:0 compute .*update" out'
if ! without_ranks >/dev/null; then
    timeout 60 "$launcher" 2 "$LOCKSTEP" run $huge --strategy mirrored --format jsonl >out 2>err </dev/null || true
    expect "of several processes, too" grep -q 'memory: cpu:0: [0-9]* bytes are needed, but ' out
fi
lockstep run --data synthetic:100000000 --model mlp:50000-10 --results none
expect "a data set that fits nowhere is not made" eval '[ "$code" -eq 3 ] && one_line "data: synthetic:100000000: the data set needs "'

# ---- What the process takes at its peak is counted before it starts -----------------------------

# What the system counted, against estimate.process.peak: at most that, and at least 0.6 of it.
model="--model mlp:784-1280-1280-10 --data synthetic:64 --batch 12 --steps 2 --warmup 0 --results none --format jsonl"
cat >measure.py <<'P'
import json, os, subprocess, sys
program, options = sys.argv[1], sys.argv[2].split()
for case in sys.argv[3:]:
    command = [program, "run"] + options + case.split()
    told = json.loads(subprocess.run(command + ["--dry-run"], capture_output=True).stdout)["estimate"]["process"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    share = usage.ru_maxrss * 1024 / told["peak"]
    if status or not 0.6 <= share <= 1 or told["peak"] != sum(told.values()) - told["peak"] - told["limit"]:
        print("%s: status %d, took %.2f of %s" % (case, status, share, told))
P
if ! sanitized; then
    expect "no process takes more than was counted, nor far less" eval '[ -z "$(python3 measure.py "$LOCKSTEP" "$model" \
        "--strategy single" "--strategy mirrored --devices 2" "--strategy zero --zero-stage 3 --devices 3" \
        "--strategy pipeline --devices 2" "--strategy ps --ranks 3" "--strategy hybrid --devices 4" \
        "--strategy local-sgd --devices 2" | tee measured)" ]'
    [ ! -s measured ] || cat measured
fi

# In a control group: what fits runs to its end, what does not is refused in a line, and nothing is killed.
group=
for folder in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    limit=$folder/lockstep-$$/memory.limit_in_bytes
    [ "$folder" != /sys/fs/cgroup ] || limit=$folder/lockstep-$$/memory.max
    mkdir "$folder/lockstep-$$" 2>/dev/null || continue
    group=$folder/lockstep-$$
    { [ -f "$limit" ] && echo 300M >"$limit"; } 2>/dev/null && break
    rmdir "$group"
    group=
done
cleanup_more() { [ -z "$group" ] || rmdir "$group"; }
limited() { # BYTES OPTIONS
    echo "$1" >"$limit"
    shift
    command_line="in a control group: $*" code=0
    bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" timeout 60 "$LOCKSTEP" "$@" >out 2>err </dev/null || code=$?
}
if [ -n "$group" ] && ! sanitized; then
    limited 300M run --steps 3 --model mlp:784-2048-2048-10 --data synthetic:256 --results none --format jsonl --cpu-devices 1
    collect_rows
    expect "300 MB are too few: status 3" [ "$code" -eq 3 ]
    rows "and what would do" "re.match('memory: this machine: the case needs .* control group is 300.0 MiB; try --gate-steps 0 ', r['result']['reason'])"
    limited 300M run $model --cpu-devices 1 --dry-run
    peak=$(python3 -c 'import json; print(json.load(open("out"))["estimate"]["process"]["peak"])')
    limited $((peak * 98 / 100)) run $model --cpu-devices 1
    expect "just below the sum: refused" [ "$code" -eq 3 ]
    limited $((peak * 102 / 100)) run $model --cpu-devices 1
    expect "just above it: runs to its end" [ "$code" -eq 0 ]
else
    echo "not in a control group: none can be made here, or a sanitizer takes more"
fi
finish
