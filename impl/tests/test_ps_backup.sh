#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Backup workers of parameter servers: a step's gradient is the mean over the samples used, whichever workers computed
# them; late ones are dropped and nobody waits for them, as the order of service shows (no clock is used). Tolerance:
# losses of equal samples within 1e-4, since float32 sums differ in order. Leaves out bits (test_ps_replay.sh),
# processes (bench/tests/test_ps_mpi.sh), random pauses (test_ps_schedules.sh).
set -euo pipefail
. "$(cd "$(dirname "$0")/../.." && pwd)/bench/tests/lib.sh"
small="--model mlp:784-16-10 --data synthetic:230 --batch 100 --epochs 2 --warmup 0 --results none --format jsonl"
run="--model mlp:784-16-10 --data synthetic:500 --batch 60 --warmup 0 --results none --format jsonl"

lockstep_ok verify --strategy ps --devices 2,5 --ps-backup-workers 1 --capture yes,no $small
rows "nothing is compared, and the row says why" "len(rows) == 4 and all(x['result']['status'] == 'ok' and
    x['equivalence']['grade'] == 'none' and x['equivalence']['pass'] and x['equivalence']['oracle'] ==
    'not compared: timing decides which gradients a step has, and in which order' for x in rows)"
lockstep_ok run --strategy ps --ranks 4 --ps-backup-workers 0,1 --steps 10 $run
rows "without backup workers all is as before" "sorted((x['case']['ps_backup_workers'], x['equivalence']['grade'],
    'dropped' in x) for x in rows) == [(0, 'bounded', False), (1, 'none', True)]"

# Equal samples: the mean over any of them is the same, and a wrong divisor shows.
python3 - <<'P'
import json, struct
n = 21
header = json.dumps({"x0": {"dtype": "F32", "shape": [n, 1], "data_offsets": [0, 4 * n]},
                     "y": {"dtype": "F32", "shape": [n], "data_offsets": [4 * n, 8 * n]}}).encode()
with open("alike.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header + struct.pack(f"<{2 * n}f", *[0.5] * n, *[2.0] * n))
P
lockstep_ok run --strategy ps --devices 5 --ps-backup-workers 0,1,2,4 --model poly --data file:alike.safetensors --batch 8 \
    --epochs 4 --warmup 0 --optimizer sgd --lr 0.1 --verbose --results none --format jsonl
rows "the mean over the samples used, also of a smaller batch" "len(rows) == 4 and len(r['train']['losses']) == 12 and
    r['train']['losses'][-1] < 0.2 * r['train']['losses'][0] and all(abs(a / b - 1) < 1e-4 for x in rows
    for a, b in zip(x['train']['losses'], r['train']['losses']))"

# One worker sleeps for as long as the others need for many steps: they continue without it.
lockstep_ok run --strategy ps --ranks 4 --ps-servers 1 --ps-backup-workers 1 --inject delay=3:400ms --steps 40 --blocks 2 \
    --ps-record order $run
rows "as many updates as steps, each of two gradients of three" "r['train']['loss_last'] < r['train']['loss_first'] and
    sum(r['lead']['histogram']) == sum(r['staleness']['histogram']) == 80 and r['lead']['max'] == r['staleness']['max'] == 0"
rows "traffic of what was served, memory by the formula" "all(r['traffic'][k + '_sent'] == r['traffic'][k + '_formula'] > 0
    for k in ['bytes', 'messages']) and all(d[k] == d['formula'][k] for d in r['memory']['devices'] for k in d['formula'])"
served() { grep -c "^0 $1 $2$" order || true; }
expect "all drops are the slow worker's, which the row counts" [ "$(grep -c drop order)" -eq "$(served drop 2)" ]
rows "the row counts them" "r['dropped'] == $(served drop 2) >= 2"
expect "the others work for every step" [ "$(served push 0)/$(served push 1)" = 40/40 ]
expect "the slow one passes over what it is too late for" [ "$(served pull 2)" -eq "$(served drop 2)" ]
expect "which is most steps" [ "$(served pull 2)" -lt 20 ]
# Two servers, two backup workers, and a warm-up, whose dropped gradients are not counted.
lockstep_ok run --strategy ps --ranks 6 --ps-servers 2 --ps-backup-workers 2 --inject delay=5:400ms --ps-record order \
    ${run/--warmup 0/--warmup 4} --steps 8 --blocks 1
expect "each server updates as often as there are steps" \
    [ "$(grep -c '^0 push' order)/$(grep -c '^1 push' order)" = 24/24 ]
rows "drops of timed steps alone" "0 < r['dropped'] < $(grep -c drop order)"

refuse() { # refuse TEXT ARGUMENTS...
    local text=$1
    shift
    lockstep run --strategy ps --model poly --results none "$@"
    expect "refused with status 2" [ "$code" -eq 2 ]
    expect "in one line" one_line "$text"
}
refuse '--ps-backup-workers: the backups (3) must be fewer than the workers (3)' --devices 3 --ps-backup-workers 3
refuse '--ps-backup-workers: the backups (3) must be fewer than the workers (3)' --ranks 5 --ps-servers 2 --ps-backup-workers 3
refuse '--ps-backup-workers: .*--reduce fast' --devices 3 --ps-backup-workers 1 --reduce exact
refuse '--ps-backup-workers: applies to no case.*--ps-mode sync' --devices 3 --ps-backup-workers 1 --ps-mode async
refuse '--ps-backup-workers: applies to no case.*--ps-mode sync' --devices 3 --ps-backup-workers 1 --ps-mode ssp
refuse 'bitflip=1:2: no step of this case is compared' --devices 3 --ps-backup-workers 1 --inject bitflip=1:2
refuse '--ps-record: applies to no case' --devices 3 --ps-backup-workers 0 --ps-record order
# If messages have their own queue, a gradient is announced when it exists, not before: one worker is 200 ms late in
# each step, and none of its gradients is among the first.
lockstep_ok run --strategy ps --devices 3 --cpu-devices 3 --ps-backup-workers 1 --link latency=20us \
    --inject delay=2:200ms --model mlp:784-32-10 --data synthetic:500 --batch 60 --steps 6 --warmup 0 --gate-steps 0 \
    --results none --format jsonl --ps-record order
expect "the late worker's gradients are late" [ "$(grep -c ' push 2' order)/$(grep -c ' push 0' order)" = 0/6 ]
finish
