# SPDX-License-Identifier: MIT
# Local SGD. Averaging after each step equals `single` up to rounding; replicas that average every H steps drift in
# between; parameters are sent once in H steps, by the all-reduce's formula; captured or not, in threads and as ranks,
# the result is the same. Tolerance: 1e-4 of the loss after 12 steps of plain SGD.
. "$SOURCE_DIR/bench/tests/lib.sh"

model="--model mlp:12-9-8-3 --data synthetic:96 --batch 24 --steps 12 --warmup 0 --optimizer sgd --lr 0.1"
quiet="--results none --format jsonl --cpu-devices 3"

lockstep_ok run --strategy single --devices 1 $model $quiet
keep single
lockstep_ok run --strategy local-sgd --local-sgd-every 1,3,5,100 --devices 3 --bucket-bytes 0 --capture yes,no $model $quiet
rows "no equality is claimed, but every replica is as replayed" 'len(rows) == 8 and
    all(r["equivalence"]["grade"] == "none" for r in rows) and all(r["equivalence"]["pass"] for r in rows) and
    all(r["equivalence"]["oracle"] == "same bits" for r in rows) and {r["equivalence"]["steps"] for r in rows} == {10, 11}'
rows "every 1: single" 'all(
    abs(r["train"]["loss_last"] / old("single")[0]["train"]["loss_last"] - 1) < 1e-4
    for r in rows if r["case"]["local_sgd_every"] == 1)'
rows "less often: another loss" 'len({r["train"]["loss_last"] for r in rows}) == 4'
rows "captured or not: the same" 'all(len({r["train"]["loss_last"] for r in rows
    if r["case"]["local_sgd_every"] == h}) == 1 for h in (1, 3, 5, 100))'
# 12 steps: bytes of one all-reduce of the parameters, times the periods, divided by the steps.
rows "sent once a period" 'all(
    (r.get("traffic") or {"bytes_sent": 0})["bytes_sent"] ==
    -(-next(x for x in rows if x["case"]["local_sgd_every"] == 1)["traffic"]["bytes_formula"]
      * (12 // r["case"]["local_sgd_every"]) // 12) for r in rows)'
keep threads
lockstep_ok run --strategy local-sgd --local-sgd-every 3 --ranks 3 --devices 1 --bucket-bytes 0 $model $quiet
rows "ranks: as replayed" 'r["equivalence"]["oracle"] == "same bits"'
rows "ranks: the same" 'rows[0]["train"]["loss_last"] == next(
    r["train"]["loss_last"] for r in old("threads") if r["case"]["local_sgd_every"] == 3)'
# An epoch's last batch has one sample: two replicas have none, and stay as they are.
lockstep_ok run --strategy local-sgd,independent --devices 3 --model poly --data synthetic:41 --batch 20 --epochs 2 $quiet
rows "without samples: as replayed" 'len(rows) == 2 and all(r["equivalence"]["oracle"] == "same bits" for r in rows)'
lockstep run --strategy local-sgd --reduce exact --devices 3 $model $quiet
expect "exact is refused" [ "$code" -ne 0 ]
one_line "local-sgd"
lockstep run --strategy mirrored --local-sgd-every 3 --devices 3 $model $quiet
one_line "--local-sgd-every"
finish
