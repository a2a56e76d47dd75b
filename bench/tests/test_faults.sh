#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The fault matrix: of three ranks, one is killed, stopped, exits or hangs (--inject) during training. A cell is a
# strategy, a fault and a victim (server, chief or worker). However slow the machine: the job ends in time with a
# status that is not 0; each other rank says at most once what it waited for; at least one names the lost rank;
# earlier rows are printed and kept. Several cells run at a time, since they mostly wait. REPEATS=N runs each N times
# (test_faults_slow), with all four faults and all victims in every mode; otherwise all four only in the first mode, and
# elsewhere of one victim a fault that ends the rank and one that does not. Leaves out what depends on time (test_comm_mpi
# has it): which rank speaks first, whether a rank that a launcher ended is reported as gone or silent, the step in
# which each waited. Leaves out several hosts (test_netns.sh).
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"

ranks=3
step=30
: "${REPEATS:=1}"
at_once=4 # cells

# name: victims: options. With ps, rank 0 is the server, 1 the chief, 2 a worker.
cells="
mirrored: 1 0: --strategy mirrored --allreduce ring --devices 2
direct: 1 0: --strategy mirrored --allreduce direct
independent: 1 0: --strategy independent
ps sync: 2 0 1: --strategy ps
ps async: 2 0 1: --strategy ps --ps-mode async
ps ssp: 2 0 1: --strategy ps --ps-mode ssp
ps backup: 2 0 1: --strategy ps --ps-backup-workers 1
"
[ "$REPEATS" -gt 1 ] || cells="
mirrored: 1: --strategy mirrored --allreduce ring --devices 2
direct: 0: --strategy mirrored --allreduce direct
ps sync: 0 2: --strategy ps
ps async: 1: --strategy ps --ps-mode async
ps backup: 2: --strategy ps --ps-backup-workers 1
"

faults_of() { # NAME
    case $1/$REPEATS in mirrored/* | */[2-9]*) echo kill stop exit hang ;; *) echo kill hang ;; esac
}

# Runs the command of a cell: healthy cases, whose rows are printed when they end, then the case with the fault.
run_cell() { # run_cell FOLDER FAULT VICTIM OPTIONS...
    local folder=$1 fault=$2 victim=$3 status=0
    shift 3
    mkdir "$folder" "$folder/tmp" # mpirun's own files, which an ending run would remove from a starting one
    printf 'cases:\n- {seed: [1, 2, 3, 4, 5, 6, 7, 8], steps: 2, warmup: 0, gate-steps: 0}\n- {inject: "%s=%s:%s", steps: 60}\n' \
        "$fault" "$victim" $step >"$folder/plan.yaml"
    # 2 s without progress plus time to end, start and healthy cases: anything longer is a hang
    TMPDIR=$folder/tmp MPIRUN_SECONDS=300 "$launcher" $ranks "$LOCKSTEP" run "$@" --model mlp:784-16-10 --data synthetic:500 \
        --batch 60 --blocks 1 --format jsonl --results "$folder/r.db" --timeout 2s --progress no \
        --plan "$folder/plan.yaml" >"$folder/out" 2>"$folder/all" </dev/null || status=$?
    echo "$status" >"$folder/status"
}

judge_cell() { # judge_cell FOLDER FAULT VICTIM NAME
    local folder=$1 fault=$2 victim=$3 name=$4 rank before=$failures
    command_line="($name: $fault of rank $victim)"
    code=$(cat "$folder/status")
    ours "$folder/all" >err
    cp "$folder/out" out
    expect "status not 0, in time" [ "$code" -ne 0 -a "$code" -ne 124 ]
    for ((rank = 0; rank < ranks; rank++)); do
        expect "rank $rank says its part once at most" [ "$(grep -c \
            "^lockstep: rank $rank on [^ ]*: \(this rank was asked to end after it had \)\?waited [0-9.]* s for " err)" -le 1 ]
    done
    expect "the lost rank is named by another" eval "grep -v '^lockstep: rank $victim on [^ ]*: \(this rank was asked\|waited\)' err |
        grep -q '\brank $victim\b'"
    expect "nobody else is named as lost" eval "! grep '\(: silent: \|has ended$\)' err | grep -v '\brank $victim on [^ ]*\(: silent\| (pid [0-9]*) has ended$\)' | grep -q ."
    rows "the rows so far are printed" "[x['case']['seed'] for x in rows[:8]] == list(range(1, 9)) and
        all(x['result']['status'] == 'ok' and 'inject' not in x['case'] for x in rows[:8]) and
        all(x['result']['status'] == 'error' and x['case']['inject'] == '$fault=$victim:$step'
            for x in rows[8:])"
    "$LOCKSTEP" results list --results "$folder/r.db" --format jsonl >kept
    expect "and kept" cmp -s <(head -n 8 out) <(head -n 8 kept)
    [ "$failures" -eq "$before" ] || tail -n 30 "$folder/all" | sed 's/^/  all: /'
    rm -rf "$folder"
}

for ((turn = 0; turn < REPEATS; turn++)); do
    running=0
    number=0
    pids=()
    while IFS=: read -r name victims options; do
        [ -n "$name" ] || continue
        for fault in $(faults_of "$name"); do
            for victim in $victims; do
                run_cell "$work/cell$number" $fault $victim $options &
                pids+=($!)
                number=$((number + 1))
                running=$((running + 1))
                [ "$running" -lt $at_once ] || { wait -n; running=$((running - 1)); }
            done
        done
    done <<<"$cells"
    wait "${pids[@]}" # not for the judge of an earlier turn, too, which has no end
    number=0
    while IFS=: read -r name victims options; do
        [ -n "$name" ] || continue
        for fault in $(faults_of "$name"); do
            for victim in $victims; do
                judge_cell "$work/cell$number" $fault $victim "$name"
                number=$((number + 1))
            done
        done
    done <<<"$cells"
done
finish
