# SPDX-License-Identifier: MIT
# Learning-rate schedules: rows have the rates of the contract's formulas, which Python computes (tolerance: 1e-14 of
# the highest); they are what updates apply; in exact mode every strategy has the digest of `single` with each schedule;
# what leaves a schedule no room is refused.
. "$SOURCE_DIR/bench/tests/lib.sh"

small="--model mlp:12-9-8-3 --data synthetic:96 --batch 24 --cpu-devices 4 --results none --format jsonl"
formula='
def rate(c, t, n):
    peak, w, low = c["lr"], c.get("lr_warmup_steps", 0), c.get("min_lr")
    if t < w: return peak * (t + 1) / w
    if "lr_schedule" not in c: return peak # constant
    x, d = min(1, (t - w) / (n - w)), c.get("lr_wsd_decay_steps")
    return {"linear": peak + (low - peak) * x, "cosine": low + (peak - low) * (1 + math.cos(math.pi * x)) / 2,
            "wsd": d and peak + (low - peak) * min(1, max(0, (t - n + d) / d))}[c["lr_schedule"]]
'
cat >rates.py <<PYTHON
import json, math, sys
$formula
for line in open("out"):
    r = json.loads(line)
    c, n = r["case"], r["case"].get("lr_decay_steps", 0)
    right = [rate(c, c["warmup"] + i, n) for i in range(c["steps"])]
    assert len(r["train"]["lrs"]) == len(right), c
    assert all(abs(a - b) <= 1e-14 * c["lr"] for a, b in zip(r["train"]["lrs"], right)), (c, r["train"]["lrs"], right)
    assert r["train"]["lr_last"] == r["train"]["lrs"][-1]
    assert ("min_lr" in c) == (n > 0) == ("lr_schedule" in c)
PYTHON
lockstep_ok run $small --steps 37 --warmup 3 --lr 0.013 --lr-schedule constant,linear,cosine,wsd --lr-warmup-steps 0,1,7 \
    --min-lr 0,0.0017 --verbose
expect "the rates are those of the formulas" python3 rates.py
keep rates
lockstep_ok run $small --steps 37 --warmup 3 --lr 0.013
rows "constant is the model's own: the same case" 'r["case"] in [x["case"] for x in old("rates")]'
cp rates.kept out
rows "the end is the run's, a tenth of it wsd's" 'len(rows) == 21 and {r["case"].get("lr_decay_steps") for r in rows} == {None, 40} and
    {r["case"].get("lr_wsd_decay_steps") for r in rows} == {None, 4}'
lockstep_ok run $small --steps 50 --lr 0.5 --lr-schedule linear,cosine,wsd --lr-decay-steps 31 --lr-warmup-steps 30 --verbose
expect "an end before the run's" python3 rates.py
rows "after it the rate stays" 'r["train"]["lrs"][-20:] == [0] * 20 and r["case"].get("lr_wsd_decay_steps", 1) == 1'
lockstep_ok run $small --epochs 3 --lr-schedule wsd --lr-wsd-decay-steps 5 --verbose
expect "epochs" python3 rates.py
rows "all epochs' steps" 'r["case"]["lr_decay_steps"] == 12'
lockstep_ok run $small --steps 5 --warmup 0,4 --gate-steps 3 --lr-schedule cosine
rows "cases of other lengths have a reference of their own" '[x["equivalence"]["pass"] for x in rows] == [True] * 2'

# What updates apply: half the rate in the first of two steps of warm-up; wsd is constant before it falls.
for optimizer in sgd momentum adam adamw rmsprop; do
    lockstep_ok run $small --warmup 0 --steps 1 --optimizer $optimizer --lr 0.5 --lr-warmup-steps 2 --lr-schedule linear \
        --lr-decay-steps 9
    keep half
    lockstep_ok run $small --warmup 0 --steps 1 --optimizer $optimizer --lr 0.25
    rows "$optimizer: half the rate" 'r["equivalence"]["digest"] == old("half")[0]["equivalence"]["digest"]'
done
lockstep_ok verify $small --steps 6 --warmup 0 --lr-schedule wsd --lr-wsd-decay-steps 3 --lr-decay-steps 9
keep flat
lockstep_ok verify $small --steps 6 --warmup 0
rows "wsd: constant up to N - D" 'r["equivalence"]["digest"] == old("flat")[0]["equivalence"]["digest"]'
lockstep_ok verify $small --steps 7 --warmup 0
keep constant
lockstep_ok verify $small --steps 7 --warmup 0 --lr-schedule wsd --lr-wsd-decay-steps 4 --lr-decay-steps 9
rows "and then it falls" 'r["equivalence"]["digest"] != old("constant")[0]["equivalence"]["digest"]'

# One digest a column: strategy by schedule.
for strategy in "--strategy single" "--strategy towers,mirrored --devices 3" "--strategy zero --zero-stage 1,2,3 --devices 2" \
    "--strategy ps --ranks 3" "--strategy pipeline --devices 2" "--strategy hybrid --hybrid-inner pipeline,zero --devices 4"; do
    lockstep_ok verify $small $strategy --reduce exact --steps 9 --warmup 0 --lr-schedule linear,cosine,wsd --lr-warmup-steps 4
    cat out >>every
done
mv every out
rows "every strategy has the digest of single" 'len(rows) == 30 and len({r["equivalence"]["digest"] for r in rows}) == 3 and
    len({(r["case"]["lr_schedule"], r["equivalence"]["digest"]) for r in rows}) == 3 and r["equivalence"]["oracle"] == "same bits"'
# A worker of asynchronous servers has the rates of its own steps; every server's rate is checked after the last.
lockstep_ok verify $small --strategy ps --ps-mode async,ssp --devices 3 --steps 9 --lr-schedule cosine --lr-warmup-steps 4
rows "servers by arrival" 'len(rows) == 2 and r["equivalence"]["pass"]'
lockstep_ok run $small --strategy local-sgd,gossip,independent --devices 2 --steps 9 --lr-schedule linear --verbose
expect "replicas that update alone" python3 rates.py
lockstep_ok predict --model mlp --strategy mirrored --devices 2 --platform flat:bandwidth=1GB/s --durations flops=1e10 \
    --lr-schedule wsd --lr-warmup-steps 2000 --results none --format jsonl
rows "predicted" 'r["case"]["lr_schedule"] == "wsd" and r["case"]["lr_warmup_steps"] == 2000'

refuse() {
    local word=$1
    shift
    lockstep run $small --steps 37 --warmup 3 "$@"
    expect "$*: refused" [ "$code" -eq 2 ]
    one_line "$word"
}
refuse "constant, linear, cosine, wsd" --lr-schedule cosin
refuse "--min-lr" --lr 0.1 --lr-schedule cosine --min-lr 0.2
refuse "0.1000001 is above the learning rate, 0.1;" --lr 0.1 --lr-schedule cosine --min-lr 0.1000001
refuse "--lr-warmup-steps" --lr-schedule cosine --lr-warmup-steps 40
refuse "--lr-warmup-steps" --lr-schedule wsd --lr-warmup-steps 9 --lr-decay-steps 9
refuse "--lr-warmup-steps" --lr-warmup-steps 41
refuse "--lr-wsd-decay-steps" --lr-schedule wsd --lr-warmup-steps 4 --lr-wsd-decay-steps 37
refuse "--lr-decay-steps" --lr-schedule linear --until-precision 5%
refuse "--min-lr" --lr-schedule constant --min-lr 0
refuse "--lr-decay-steps" --lr-decay-steps 9
refuse "--lr-wsd-decay-steps" --lr-schedule cosine --lr-wsd-decay-steps 3
printf 'cases:\n  - model: poly\n    lr-schedule: linear\nbudget: 5s\n' >plan.yaml
lockstep run --plan plan.yaml --results none
expect "a budget fixes no number of steps" [ "$code" -eq 2 ]
one_line "--lr-decay-steps"
lockstep_ok run $small --steps 37 --warmup 3 --lr-warmup-steps 40
finish
