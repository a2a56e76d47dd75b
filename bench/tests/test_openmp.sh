#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# OpenMP's variables in the environment, as job scripts export them: each run has the digest and the cores of one with
# a clean environment, prints its row alone, and says in the row what was set aside. Exact. Needs two cores.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
for name in $(env | sed -nE 's/^(G?OMP_[^=]*|KMP_[^=]*)=.*/\1/p'); do unset "$name"; done
cores=$(nproc) # which asks OMP_NUM_THREADS, too
[ "$cores" -ge 2 ] || { echo "skipped: a team needs two cores"; exit 77; }
train=(run --model mlp --data synthetic:64 --batch 16 --steps 3 --warmup 0 --gate-steps 0 --results none --format jsonl)
two=(--cores-per-device 2)

lockstep_ok "${train[@]}" "${two[@]}"
rows "nothing was set aside" "len(rows) == 1 and 'set_aside' not in r['provenance']"
keep clean

# with VARIABLE...: trains with these variables.
with() {
    export "$@"
    lockstep_ok "${train[@]}" "${two[@]}"
    rows "$*: the same digest and cores, said in the row" "len(rows) == 1 and
        digest('clean') == r['equivalence']['digest'] and all(r['provenance'][k] == old('clean')[0]['provenance'][k]
        for k in ('cores', 'cores_allowed')) and [v.split('=')[0] for v in sorted(r['provenance']['set_aside'])] == sorted('${*%%=*}'.split())"
    unset "${@%%=*}"
}

# What did damage.
with OMP_THREAD_LIMIT=1
with OMP_MAX_ACTIVE_LEVELS=0 OMP_STACKSIZE=16k
with OMP_PROC_BIND=true
with 'OMP_PLACES={0}' GOMP_STACKSIZE=16 OMP_DISPLAY_ENV=verbose
with GOMP_CPU_AFFINITY=0
# What other programs read, together; what is malformed.
with OMP_NUM_THREADS=16 OMP_PROC_BIND=spread OMP_PLACES=cores OMP_DYNAMIC=true OMP_NESTED=true OMP_SCHEDULE=dynamic,1 \
    OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0 OMP_CANCELLATION=true OMP_DISPLAY_AFFINITY=true KMP_AFFINITY=compact \
    OMP_TARGET_OFFLOAD=mandatory GOMP_DEBUG=1 OMP_TEAMS_THREAD_LIMIT=1
with OMP_NUM_THREADS=4,2 OMP_WAIT_POLICY=active GOMP_SPINCOUNT=infinite OMP_STACKSIZE=1T GOMP_CPU_AFFINITY=1500
with OMP_NUM_THREADS=x OMP_PROC_BIND=x OMP_PLACES=x OMP_STACKSIZE=x OMP_NUM_TEAMS=0 OMP_ALLOCATOR=x OMP_THREAD_LIMIT=-1 \
    OMP_SCHEDULE= OMP_MAX_TASK_PRIORITY=-1 $'OMP_TOOL=\xff'

# Other commands; two devices have a core each.
export OMP_PROC_BIND=true OMP_NUM_THREADS=16 OMP_THREAD_LIMIT=1
lockstep_ok devices
expect "devices has all cores" grep -q "^cores .* $cores of them" "$work/out"
lockstep_ok "${train[@]}" --strategy mirrored --devices 2
rows "devices share no core" "len({tuple(c) for c in r['provenance']['cores']}) == 2 and
    not r['provenance']['oversubscribed']"
unset OMP_PROC_BIND OMP_NUM_THREADS OMP_THREAD_LIMIT

# Limits of the process.
(ulimit -s 64 && lockstep "${train[@]}" && printf '%s\n' "$code") >"$work/small"
expect "a small stack is refused" [ "$(cat "$work/small")" = 3 ]
expect "in a line" one_line "ulimit -s"

finish
