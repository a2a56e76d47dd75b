#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What one rank does alone while the others wait. It may take longer than --timeout as long as it is alive: a long
# step, opening judges, the gate, `single` for comparison, evaluation. If it fails, all are notified: the row says
# why, the next case runs, no rank is lost. No part requires a fast machine: a slow one just waits longer.
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"
nobody_lost() { ! grep -q 'silent\|waited [0-9.]* s for' "$work/all"; }

# ---- Alive -------------------------------------------------------------------------------------

# Rank 0's judges compute every rank's slice one after another, some seconds per step, while no other rank works.
ranks_ok 2 run --strategy mirrored --model resnet:20 --data synthetic:512 --batch 256 --gate-steps 1 --warmup 0 --steps 1 \
    --timeout 1s --results none --format jsonl
expect "nobody is lost: judges" nobody_lost
rows "judges that take longer than the timeout" "r['result']['status'] == 'ok' and r['equivalence']['steps'] == 1"
# A job of many ranks, as many as two cores allow.
if thorough; then
    ranks_ok 6 run --strategy mirrored --model resnet:8 --data synthetic:192 --batch 192 --gate-steps 2 --warmup 0 --steps 2 \
        --timeout 1s --results none --format jsonl
    expect "nobody is lost: many ranks" nobody_lost
    rows "many ranks" "r['result']['status'] == 'ok' and r['case']['ranks'] == 6"
fi
# The judges' memory on rank 0 is that of a few models, whatever the number of ranks: each slice is summed once
# computed. 21.3 MiB of parameters; the fullest rank's peak.
for n in 2 6; do
    ranks_ok $n run --strategy mirrored --allreduce ring --model mlp:784-2000-2000-10 --data synthetic:60 --batch 12 --gate-steps 1 \
        --warmup 0 --steps 1 --results none --format jsonl
    keep peak$n
done
rows "four ranks more take no two models more" "old('peak6')[0]['memory']['rss_peak'] - old('peak2')[0]['memory']['rss_peak'] <
    2 * 4 * r['case']['parameters'] and r['equivalence']['oracle'] == 'same bits'"
# Rank 0 alone runs `single` for comparison, and the test set.
ranks_ok 2 run --strategy mirrored --model resnet:8 --data synthetic:512 --batch 256 --gate-steps 0 --warmup 0 --steps 2 --blocks 1 \
    --baseline yes --timeout 1s --results none --format jsonl
expect "nobody is lost: the baseline" nobody_lost
rows "the baseline" "[x['result']['status'] for x in rows] == ['ok', 'ok']"

# ---- Failed ------------------------------------------------------------------------------------

small="--model mlp:784-16-10 --data synthetic:500 --batch 60 --steps 20 --results none --format jsonl --timeout 5s"
# A file that cannot be written is refused before training.
ranks 2 run --strategy ps --ps-mode async --ps-record "$work/nowhere/x" $small
expect "status 3" [ "$code" -eq 3 ]
expect "said once" one_line 'ps-record: .*nowhere/x: cannot be written: No such file'
expect "no row" [ ! -s out ]
touch there && ln -s there link
for file in link there new; do
    ranks_ok 2 run --strategy ps --ps-mode async --ps-record "$work/$file" $small
    expect "$file is written" grep -q '^0 push' "$work/$file"
    thorough || break
done
# What can be known of a full disk is refused before training, too.
if [ -e /dev/full ]; then
    ranks 2 run --strategy ps --ps-mode async --ps-record /dev/full --baseline yes $small
    expect "status 3" [ "$code" -eq 3 ]
    expect "nobody is lost: a full disk" nobody_lost
    expect "a full disk" one_line 'ps-record: /dev/full: cannot be written: No space'
fi
# The gate's memory on rank 0 is not part of the case: above some limit everything fits; below it the row says what
# does not, and no rank is lost.
"$LOCKSTEP" devices --format json >devices.json
fitted=0
limits="4 24"
! thorough || limits="4 6 8 10 12 16 24"
for k in $limits; do
    fraction=$(python3 -c "import json; print('%.8f' % ($k * 262144 / json.load(open('devices.json'))['devices'][0]['capacity']))")
    ranks 2 run --strategy ps --ps-mode async --memory "fraction=$fraction" --data synthetic:500 --steps 5 --warmup 0 \
        --results none --format jsonl --timeout 5s
    expect "nobody is lost: memory" nobody_lost
    rows "what fits, and what does not" "r['result']['status'] == 'ok' or
        r['result']['status'] == 'error' and 'memory: ' in r['result']['reason']"
    [ "$code" -ne 0 ] || { fitted=$k; break; }
done
expect "it fits from somewhere on" [ "$fitted" -gt 0 ]
finish
