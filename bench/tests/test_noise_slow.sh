#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Noise on purpose: a process that takes the case's core is noticed, also where two devices share it, and where ranks
# have cores of their own; quotas of the process's control group and of that one's parent are named. Each disturbance
# takes half of a core or more (the quota is a tenth of one); rows must say at least a tenth. Leaves out that quiet rows
# have no warning, since other programs may run here (the measured rate: bench/timing.md). Skips without the counters.
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"
[ "$(cut -d' ' -f3 /proc/self/schedstat 2>/dev/null || echo 0)" -gt 0 ] ||
    { echo "skipped: this kernel does not count how long threads wait for a core"; exit 77; }
case="--model mlp:784-64-10 --data synthetic:2048 --batch 64 --steps 4000 --blocks 20 --gate-steps 0 --results none
    --format jsonl"
mapfile -t cores < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')

busy=
group=
cleanup_more() {
    [ -z "$busy" ] || kill "$busy" 2>/dev/null || true
    [ -z "$group" ] || rmdir "$group/inner" "$group" 2>/dev/null || true
}
disturb() { # disturb CORE
    taskset -c "$1" timeout --foreground 120 sh -c 'while :; do :; done' &
    busy=$!
}
calm() {
    kill "$busy"
    wait "$busy" || true
    busy=
}
warned='"noisy" in r["result"]["warnings"] and [n for n in r["result"]["notes"] if n.startswith("noisy: ")]'

# ---- Others on the core -----------------------------------------------------------------------

taskset -pc "${cores[0]}" $$ >taskset.log
disturb "${cores[0]}"
lockstep_ok run $case
rows "others took the core" "r['noise']['others'] > 0.1 and r['noise']['cores'] == [${cores[0]}]"
rows "and are named, with what works" "$warned[0].startswith('noisy: other programs used core ${cores[0]} for ') and
    'taskset' in r['result']['notes'][0]"
lockstep_ok run $case --strategy mirrored --devices 2
rows "also where devices share it" "$warned and r['provenance']['oversubscribed'] and r['noise']['others'] > 0.1"
calm
taskset -pc "$(IFS=,; echo "${cores[*]}")" $$ >taskset.log
if [ "${#cores[@]}" -ge 2 ]; then
    disturb "${cores[1]}"
    taskset -pc "${cores[0]},${cores[1]}" $$ >taskset.log
    MPIRUN_FLAGS="--bind-to core" ranks_ok 2 run ${case/4000/1000} --strategy mirrored
    rows "a rank's core" "r['noise']['others'] > 0.1 and
        r['noise']['cores'] == [(${cores[0]}, ${cores[1]})[r['noise']['of_rank']]]"
    rows "is named with its rank" "$warned and
        ' core {0[0]} of rank {1} for '.format(r['noise']['cores'], r['noise']['of_rank']) in r['result']['notes'][0]"
    calm
    taskset -pc "$(IFS=,; echo "${cores[*]}")" $$ >taskset.log
fi

# ---- Quotas -----------------------------------------------------------------------------------

# Finds the folder of this process's group, of version 1 or 2, with the file that sets a quota.
find_group() {
    local path point
    path=$(awk -F: '$2 ~ /(^|,)cpu(,|$)/ {print $3}' /proc/self/cgroup)
    point=$(awk '/ - cgroup / && $NF ~ /(^|,)cpu(,|$)/ {print $5; exit}' /proc/self/mountinfo)
    file=cpu.cfs_quota_us
    if [ -z "$path$point" ]; then
        path=$(sed -n 's/^0:://p' /proc/self/cgroup)
        point=$(awk '/ - cgroup2 / {print $5; exit}' /proc/self/mountinfo)
        file=cpu.max
    fi
    group=$point${path%/}/lockstep-noise-$$
}
file=
find_group
if mkdir "$group" 2>/dev/null && mkdir "$group/inner" && [ -w "$group/inner/$file" ]; then
    printf '#!/bin/sh\necho $$ >"%s/cgroup.procs"\nexec "%s" "$@"\n' "$group/inner" "$LOCKSTEP" >held
    chmod +x held
    for limited in "$group" "$group/inner"; do
        echo 10000 >"$limited/$file"
        LOCKSTEP=$work/held lockstep_ok run ${case/4000/1000}
        rows "the quota of ${limited#"$group"}/ held it back" "r['noise']['throttled'] > 0.1"
        rows "and is named" "$warned[0].startswith('noisy: a control group') or
            r['noise']['others'] > r['noise']['throttled']"
        [ "$file" = cpu.max ] && echo max >"$limited/$file" || echo -1 >"$limited/$file"
    done
else
    echo "left out: quotas: $group: cannot be made here, or has no quotas"
fi
finish
