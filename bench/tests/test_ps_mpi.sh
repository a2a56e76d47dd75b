#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Parameter servers as processes under mpirun, 2 to 6 ranks: the bits of `single` and of the oracle; for servers in
# order of arrival, the bits of a sequential replay of their record; rows of all ranks; refusals printed once. No
# tolerance.
set -euo pipefail
. "$(dirname "$0")/lib_mpi.sh"
small="--model mlp:784-16-10 --data synthetic:230 --batch 100 --epochs 2 --warmup 1 --results none --format jsonl"

lockstep_ok verify --strategy single --reduce exact $small
keep single
# Every combination on three ranks, where two servers leave one worker; with more ranks, what several workers change.
while read -r n want more; do
    # shellcheck disable=SC2086
    ranks $n run --strategy ps $more --ps-colocate yes,no $small --blocks 1
    expect "$n ranks end well" [ "$code" -eq 0 ]
    rows "$n ranks: equal, exact with single's digest" "len(rows) == $want and all(x['result']['status'] == 'ok'
        and x['equivalence']['oracle'] == 'same bits' for x in rows) and {x['equivalence']['digest'] for x in rows
        if x['case']['reduce'] == 'exact'} == {digest('single')}"
    rows "$n ranks: the row has all of them" "all(x['case']['ranks'] == $n and x['case']['comm'] == 'mpi' and
        len(x['memory']['devices']) == $n and sum(x['case']['batch_per_device']) == 100 and
        all(d[k] == d['formula'][k] for d in x['memory']['devices'] for k in d['formula']) and
        x['traffic']['bytes_sent'] == x['traffic']['bytes_formula'] > 0 and
        x['traffic']['messages_sent'] == x['traffic']['messages_formula'] > 0 for x in rows)"
    [ $n -lt 4 ] || thorough || break
done <<'RANKS'
2 2 --ps-servers 1 --reduce exact
4 4 --ps-servers 2 --ps-shard variable --reduce fast,exact
4 4 --ps-servers 2 --ps-shard bytes --reduce fast,exact
3 16 --ps-servers 1,2 --ps-shard bytes,variable --reduce fast,exact
6 2 --ps-servers 2 --reduce exact
RANKS
ranks 3 run --strategy ps --data synthetic:500 --batch 60 --target accuracy=0.5 --epochs 3 --warmup 0 --results none \
    --format jsonl --gate-steps 0
rows "the chief evaluates, rank 0 writes" "r['train']['accuracy'] > 0.5 and r['train']['steps_to_target'] % 9 == 0"
ranks 2 run --strategy ps,mirrored --data synthetic:500 --batch 60 --steps 20 --blocks 1 --results none --format jsonl
rows "the waterfall is the workers', where rank 0 is none" "len(rows) == 2 and all(w['compute_ms'] > 0 and
    abs(sum(w.values()) / x['time']['step_ms']['mean'] - 1) < 1e-6 and ('optimizer_ms' in w) ==
    (x['case']['strategy'] == 'mirrored') for x in rows for w in [x['waterfall']])"
ranks 3 run --strategy ps --ps-mode sync,async --ps-colocate yes,no --data synthetic:500 --batch 60 --steps 20 --blocks 1 --results none \
    --format jsonl
rows "gradients are received once; the server's own worker's is copied" "len(rows) == 4 and all(
    (s['received_bytes'], s['copied_bytes']) == (2 * s['bytes'], s['bytes'] if x['case']['ps_colocate'] else 0)
    for x in rows for s in x['server_load'])"
for n in 5 3; do
    ranks $n run --strategy ps --ps-servers $((n / 2)) --ps-colocate yes,no --ps-backup-workers 1 $small --blocks 1
    expect "$n ranks end well" [ "$code" -eq 0 ]
    rows "$n ranks: backup workers" "len(rows) == 2 and all(x['result']['status'] == 'ok' and
        'which gradients' in x['equivalence']['oracle'] and x['equivalence']['grade'] == 'none' and
        x['traffic']['bytes_sent'] == x['traffic']['bytes_formula'] > 0 and 'dropped' in x for x in rows)"
    thorough || break
done
. "$SOURCE_DIR/bench/tests/ps_replay.sh"
again="--model mlp:784-16-10 --data synthetic:230 --batch 100 --epochs 2 --warmup 1 --blocks 1"
ranks=4 replay_all --ps-servers 2 --ps-mode async --ps-shard bytes $again
if thorough; then
    ranks=2 replay_all --ps-mode ssp --ps-colocate yes $again
    ranks=5 replay_all --ps-servers 2 --ps-backup-workers 1 --ps-colocate no $again
    ranks=2 replay_all --ps-mode async,ssp --ps-colocate no $again
    ranks=4 replay_all --ps-servers 2 --ps-mode async --ps-shard variable $again
    ranks=5 replay_all --ps-servers 2 --ps-backup-workers 1 --ps-colocate yes $again
fi
ranks 2 run --strategy ps --ps-servers 2 $small --blocks 1
expect "too few ranks for the servers: status 2" [ "$code" -eq 2 ]
expect "said once" one_line "2 servers.*2 ranks"
finish
