#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Of several devices of one process, or ranks that are threads, one hangs during training (--inject hang), for each
# strategy: the run ends with status 3, names the hanging device and what each other one waited for, and prints and
# keeps earlier rows. A device that is only slow is waited for. Leaves out ranks that are processes (test_faults.sh)
# and GPUs.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
export ASAN_OPTIONS=detect_leaks=0 # memory that a hanging thread uses cannot be freed

step=30
at_once=4
# names of the healthy devices: options. Device 1 hangs, or rank 1 with all of its devices.
cells="
0 2: --strategy mirrored --devices 3
0 2: --strategy mirrored --ranks 3 --allreduce ring
0 1: --strategy mirrored --ranks 2 --devices 2 --allreduce flat
0 2: --strategy mirrored --devices 3 --comm device
0 2: --strategy mirrored --devices 3 --capture no
0 1: --strategy independent --ranks 2 --devices 2
0 2: --strategy towers --devices 3
0 2: --strategy ps --devices 3
0 2: --strategy ps --ranks 3
0 2: --strategy ps --ranks 3 --ps-mode async
0 2 3: --strategy ps --ranks 4 --ps-servers 2 --ps-backup-workers 1
0: --strategy model-parallel --devices 2
0: --strategy pipeline --devices 2
0 2 3: --strategy hybrid --devices 4
0 2: --strategy mirrored --devices 3 --link latency=1us
0 2: --strategy ps --ranks 3 --link latency=100us --capture no
"
# The thread sanitizer would find the same in all cells: three suffice.
! sanitized thread || cells=$(grep -e '--devices 3 --comm' -e '--ps-servers' -e hybrid <<<"$cells")
small="--model mlp:784-16-10 --data synthetic:500 --batch 60 --format jsonl"

run_cell() { # run_cell FOLDER OPTIONS...: a healthy case, then one with the fault
    local folder=$1 status=0
    shift
    mkdir "$folder"
    printf 'inject: ["hang=1:%s", none]\n' $step >"$folder/plan.yaml"
    timeout -k 5 300 "$LOCKSTEP" run "$@" $small --steps 100 --blocks 1 --timeout 2s --progress no --results "$folder/r.db" \
        --plan "$folder/plan.yaml" >"$folder/out" 2>"$folder/err" </dev/null || status=$?
    echo "$status" >"$folder/status"
}

judge_cell() { # judge_cell FOLDER DEVICES OPTIONS
    local folder=$1 others=$2 options=$3 device who=device wait
    command_line="(hang=1:$step) $options"
    code=$(cat "$folder/status")
    cp "$folder/out" "$folder/err" .
    [[ $options != *--ranks* ]] || who='rank [01-9] on'
    wait="waited [0-9.]* s for .*\(of [0-9]* bytes, \(cpu:[0-9]\|all\)\|an event of cpu:[0-9]\|ps.serve\|ps.ask\), \(step 3[01]\|one of steps $step to [0-9]*\)"
    expect "status 3" [ "$code" -eq 3 ]
    expect "what hangs is named first" eval "head -n 1 err | grep -q \
        '^lockstep: $who cpu:[12]: silent: runs without progress in delay, last sign of life [0-9.]* s ago, .*$step.*; find what stops the device'"
    for device in $others; do
        expect "device $device: what it waited for" \
            grep -q "^lockstep: $who cpu:$device: \($wait\|did not wait for another device\)$" err
    done
    [[ $options == *independent* ]] || expect "some wait" grep -q "$wait" err
    rows "the row so far is printed" "[x['result']['status'] for x in rows] == ['error', 'ok'] and
        'inject' not in rows[1]['case'] and 'no progress for' in rows[0]['result']['reason']"
    "$LOCKSTEP" results list --results "$folder/r.db" --format jsonl >kept
    expect "and kept" cmp -s out kept
    rm -rf "$folder"
}

number=0
running=0
while IFS=: read -r others options; do
    [ -n "$others" ] || continue
    run_cell "$work/cell$number" $options &
    number=$((number + 1))
    running=$((running + 1))
    [ $running -lt $at_once ] || { wait -n; running=$((running - 1)); }
done <<<"$cells"
wait
number=0
while IFS=: read -r others options; do
    [ -n "$others" ] || continue
    judge_cell "$work/cell$number" "$others" "$options"
    number=$((number + 1))
done <<<"$cells"

# Slow steps that take longer than the timeout in total; then a single step that does.
lockstep_ok run --strategy mirrored --devices 2 $small --steps 9 --warmup 0 --inject delay=1:500ms --timeout 4s --results none
lockstep run --strategy mirrored --devices 2 $small --steps 2 --warmup 0 --inject delay=1:9s --timeout 1s --results none
expect "status 3" [ "$code" -eq 3 ]
expect "too slow for the timeout" grep -q '^lockstep: device cpu:1: silent: .* in delay' err

# A transfer that takes longer than the timeout is not a hang: its end is known.
lockstep_ok run --model mlp:64-8-3 --data synthetic:100 --batch 10 --strategy mirrored --devices 2 --steps 1 --warmup 0 --link bandwidth=1kB/s --timeout 500ms --results none

refused() { # refused WORD OPTIONS...
    local word=$1
    shift
    lockstep run $small --steps 9 --results none "$@"
    expect "status 2" [ "$code" -eq 2 ]
    expect "one line that has $word" one_line "$word"
}
refused 'the case has 2 devices' --strategy mirrored --devices 2 --inject hang=2:3
refused 'the case has 2 ranks' --strategy mirrored --ranks 2 --devices 2 --inject hang=2:3
refused 'several CPU devices' --inject hang=0:3
refused 'needs ranks that are separate processes; ' --strategy mirrored --ranks 2 --inject stop=1:3
refused '--timeout: applies to no case' --timeout 3s
finish
