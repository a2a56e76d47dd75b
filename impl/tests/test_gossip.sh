# SPDX-License-Identifier: MIT
# Gossip. Each replica has the bits of its replay, and sends its parameters to each neighbour, in threads and as ranks.
# On two and three devices all are neighbours, so it is local SGD with averages after each step; on five they differ.
# Tolerance: 1e-5 of the loss after 12 steps of plain SGD.
. "$SOURCE_DIR/bench/tests/lib.sh"

model="--model mlp:12-9-8-3 --data synthetic:96 --batch 24 --steps 12 --warmup 0 --optimizer sgd --lr 0.1"
quiet="--results none --format jsonl --cpu-devices 5 --blocks 1"

lockstep_ok run --strategy local-sgd --local-sgd-every 1 --devices 2,3,5 $model $quiet
keep local
lockstep_ok run --strategy gossip --devices 1,2,3,5 $model $quiet
rows "no equality is claimed, but every replica is as replayed" 'len(rows) == 4 and
    all(r["equivalence"]["grade"] == "none" for r in rows) and
    all(r["equivalence"]["oracle"] == "same bits" for r in rows)'
rows "sent: parameters (9 x 13 + 8 x 10 + 3 x 9 elements) to each neighbour" '[(r.get("traffic") or {"bytes_sent": 0})
    ["bytes_sent"] for r in rows] == [4 * 224 * messages for messages in (0, 2, 6, 10)]'
rows "all are neighbours, or not" '[abs(a["train"]["loss_last"] / b["train"]["loss_last"] - 1) < 1e-5
    for a, b in zip(rows[1:], old("local"))] == [True, True, False]'
keep threads
lockstep_ok run --strategy gossip --ranks 5 --devices 1 --capture yes,no $model $quiet
rows "ranks: as replayed, and the same" 'all(r["equivalence"]["oracle"] == "same bits" and
    r["train"]["loss_last"] == old("threads")[3]["train"]["loss_last"] for r in rows) and len(rows) == 2'
# An epoch's last batch has one sample: two replicas have none, and still average.
lockstep_ok run --strategy gossip --devices 3 --model poly --data synthetic:41 --batch 20 --epochs 2 $quiet
rows "without samples: as replayed" 'r["equivalence"]["oracle"] == "same bits"'
lockstep_ok verify --strategy gossip --devices 2 --model poly --steps 2 --warmup 0 --results none --quiet
expect "verify ends in what has the bits of what" \
    grep -q '^gossip, none: after each of 2 steps every replica has the bits of its replay,' out
if ! without_ranks; then
    "$launcher" 3 "$LOCKSTEP" verify --strategy gossip --devices 1,2 $model --results none --format jsonl >out 2>err ||
        wrong "mpirun: $(head -c 300 err)"
    rows "processes: as replayed" 'len(rows) == 2 and all(r["equivalence"]["oracle"] == "same bits" for r in rows)'
fi
finish
