#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The parts of the timed steps, read by the devices, sum to the steps' times by their records, which are separate
# readings: in threads and processes, for every strategy, including tails. Tolerance: 1% of the step; with backup
# workers, which may lag behind the step's end, 10%. Leaves out which part is which (test_delays.sh).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
options="--gate-steps 0 --warmup 5 --results none --format jsonl --quiet"

data="--data synthetic:1100"

# accounted TOLERANCE OF: checks the rows of the last command, of which OF are expected
accounted() {
    rows "parts sum to the steps" "len(rows) == $2 and all(abs(x['time']['residual']) <= $1 and
        abs(x['time']['profiled_ms'] / x['time']['step_ms']['mean'] - 1) <= $1 and
        abs(sum(x['waterfall'].values()) / x['time']['step_ms']['mean'] - 1) < 1e-6 for x in rows)"
    rows "of all timed steps that count" "all(x['time']['accounted'] == x['time']['step_ms']['n'] for x in rows)"
    python3 -c 'import json
for r in map(json.loads, open("out")):
    print(r["case"]["strategy"], r["case"]["ranks"], "%+.3f%%" % (100 * r["time"]["residual"]))'
}
# shellcheck disable=SC2086
{
    lockstep_ok run $options $data --steps 60 --strategy single,independent,local-sgd,towers,mirrored,ps,model-parallel,pipeline --devices 1,2
    accounted 0.01 15
    lockstep_ok run $options $data --steps 60 --strategy hybrid --devices 4
    accounted 0.01 1
    lockstep_ok run $options $data --steps 60 --strategy ps --devices 2 --ps-mode ssp,async
    accounted 0.01 2
    lockstep_ok run $options $data --steps 60 --strategy ps --devices 3 --ps-backup-workers 1
    accounted 0.1 1
    lockstep_ok run ${options/--warmup 5/--warmup 0} $data --steps 60 --strategy mirrored --devices 2
    accounted 0.01 1
    lockstep_ok run $options $data --epochs 12 --strategy mirrored,towers --devices 2
    accounted 0.01 2
    lockstep_ok run $options $data --steps 60 --model mlp:784-512-10 --strategy mirrored --reduce exact --ranks 2
    accounted 0.01 1
    if ! without_ranks && ! sanitized thread; then
        for strategy in mirrored ps pipeline; do
            ASAN_OPTIONS=detect_leaks=0 "$launcher" 2 \
                "$LOCKSTEP" run $options $data --steps 30 --strategy $strategy >out 2>err ||
                wrong "$strategy on two ranks"
            accounted 0.01 1
        done
    fi
    # Where noting operations would take more than 1% of the step (test_trial_values), extra steps are accounted: here,
    # unless the machine is slow.
    lockstep_ok run $options --model poly --steps 200
    rows "of a short step, others" "r['time'].get('accounted', 0) in (0, r['time']['step_ms']['n']) and
        r['time']['profiled_ms'] > 0 and
        abs(sum(r['waterfall'].values()) / r['time']['step_ms']['mean'] - 1) < 1e-6"
    lockstep_ok run $options $data --steps 60 --strategy mirrored --devices 2 --waterfall no
    rows "none" "not {'waterfall', 'gap', 'device_load'} & set(r) and not {'accounted', 'residual'} & set(r['time'])"
}
finish
