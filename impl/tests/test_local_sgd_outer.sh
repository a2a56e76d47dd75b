# SPDX-License-Identifier: MIT
# Outer optimizers of local-sgd: every replica is as replayed; outer SGD of rate 1 is the average, with one step a
# period `mirrored`, and on one replica `single`, up to rounding; bytes and memory by formula. Tolerance: 1e-4 of the
# loss after 12 steps of plain SGD.
. "$SOURCE_DIR/bench/tests/lib.sh"

model="--model mlp:12-9-8-3 --data synthetic:96 --batch 24 --steps 12 --warmup 0 --optimizer sgd --lr 0.1"
quiet="--results none --format jsonl --cpu-devices 3"
local="run --strategy local-sgd $model $quiet"

lockstep_ok run --strategy single $model $quiet
keep single
lockstep_ok run --strategy mirrored --devices 3 $model $quiet
keep mirrored
lockstep_ok $local --devices 3 --local-sgd-every 1,6 --local-sgd-outer average,sgd,nesterov:lr=0.5
rows "every replica is as replayed" 'len(rows) == 6 and all(r["equivalence"]["oracle"] == "same bits" and
    r["equivalence"]["grade"] == "none" and r["equivalence"]["pass"] for r in rows)'
rows "outer SGD of rate 1 is the average" 'all(abs(a["train"]["loss_last"] / b["train"]["loss_last"] - 1) < 1e-4
    for a in rows for b in rows if a["case"]["local_sgd_every"] == b["case"]["local_sgd_every"] and
    {a["case"]["local_sgd_outer"], b["case"]["local_sgd_outer"]} == {"average", "sgd"})'
rows "each step: mirrored" 'all(abs(r["train"]["loss_last"] / old("mirrored")[0]["train"]["loss_last"] - 1) < 1e-4
    for r in rows if r["case"]["local_sgd_every"] == 1 and r["case"]["local_sgd_outer"] == "sgd")'
rows "momentum: another loss" 'len({round(r["train"]["loss_last"], 4) for r in rows}) == 4'
rows "outer parameters, and momentum, are optimizer state" 'all(d["optimizer"] == 4 * r["case"]["parameters"] *
    ["average", "sgd", "nesterov:lr=0.5"].index(r["case"]["local_sgd_outer"])
    for r in rows for d in r["memory"]["devices"])'
rows "bytes a period" 'all(r["traffic"]["bytes_sent"] == -(-4 * 4 * r["case"]["parameters"]
    // r["case"]["local_sgd_every"]) for r in rows)'
keep whole
lockstep_ok $local --devices 1 --local-sgd-every 3 --local-sgd-outer sgd:lr=1
rows "one replica: single" 'abs(rows[0]["train"]["loss_last"] / old("single")[0]["train"]["loss_last"] - 1) < 1e-4'
# Fragments: all kinds of steps, by buckets, captured or not, with blocks, and as ranks. Of 6 variables in 4 fragments,
# two have one.
lockstep_ok $local --devices 3 --local-sgd-every 4 --local-sgd-outer nesterov --local-sgd-fragments 2,4 \
    --bucket-bytes 0,25MiB --capture yes,no --allreduce ring
rows "fragments: as replayed" 'len(rows) == 8 and all(r["equivalence"]["oracle"] == "same bits" for r in rows)'
rows "fragments: however captured" 'all(len({r["train"]["loss_last"] for r in rows
    if (r["case"]["local_sgd_fragments"], r["case"]["bucket_bytes"] > 0) == (f, b)}) == 1 for f in (2, 4) for b in (0, 1))'
rows "fragments: as many bytes" 'all(r["traffic"]["bytes_sent"] == 4 * r["case"]["parameters"] for r in rows)'
rows "fragments: messages" 'all(r["traffic"]["messages_sent"] == 3 * r["case"]["local_sgd_fragments"]
    for r in rows if r["case"]["bucket_bytes"])'
keep fragments
lockstep_ok $local --ranks 3 --devices 1 --local-sgd-every 4 --local-sgd-outer nesterov --local-sgd-fragments 2 \
    --allreduce ring --blocks 3
rows "ranks, and blocks: the same" 'rows[0]["equivalence"]["oracle"] == "same bits" and
    rows[0]["train"]["loss_last"] in {r["train"]["loss_last"]
    for r in old("fragments") if r["case"]["bucket_bytes"] and r["case"]["local_sgd_fragments"] == 2}'
# Wires: bits as replayed, rounding included; error and bytes of a period by formula; 224 elements in 6 rows.
lockstep_ok $local --devices 1,3 --local-sgd-every 3 --local-sgd-outer nesterov --local-sgd-fragments 1,3 \
    --local-sgd-wire float32,bf16,int8
rows "wires: as replayed, and equal" 'len(rows) == 12 and all(r["equivalence"]["oracle"] == "same bits" and
    r["exchange"]["replicas_equal"] and r["exchange"]["count"] == 4 * r["case"]["local_sgd_fragments"] for r in rows)'
rows "wires: error" 'all({"float32": e is None, "bf16": e and 0 < e <= 2 ** -8, "int8": e and 0.25 < e <= 0.5}[
    r["case"]["local_sgd_wire"]] for r in rows for e in [r["exchange"].get("wire_error")])'
rows "wires: bytes" 'all(r["traffic"]["bytes_sent"] == -(-4 * {"float32": 4 * 224, "bf16": 2 * 224, "int8": 224 + 4 * 6}[
    r["case"]["local_sgd_wire"]] // 3) for r in rows if len(r["case"]["devices"]) == 3)'
rows "wires: by owners" 'all(r["case"]["allreduce"] == "owners" for r in rows if r["case"]["local_sgd_wire"] != "float32")'
keep wires
lockstep_ok $local --ranks 3 --devices 1 --local-sgd-every 3 --local-sgd-outer nesterov --local-sgd-wire int8 --blocks 3
rows "wires: ranks, and blocks" 'rows[0]["equivalence"]["oracle"] == "same bits" and all(rows[0][a][b] == r[a][b]
    for r in old("wires") if r["case"]["local_sgd_wire"] == "int8" and r["case"]["local_sgd_fragments"] == 1 and
    len(r["case"]["devices"]) == 3 for a, b in (("train", "loss_last"), ("exchange", "wire_error"), ("exchange", "count")))'
# As many fragments as variables: each step exchanges one of 40.
lockstep_ok run --strategy local-sgd --devices 2 --local-sgd-every 40 --local-sgd-outer nesterov --local-sgd-fragments 40 \
    --model gpt:3-2-8-8-40 --data synthetic:96 --batch 12 --steps 40 --warmup 0 --gate-steps 2 $quiet
rows "a fragment a variable: as replayed" 'rows[0]["equivalence"]["oracle"] == "same bits" and
    rows[0]["exchange"]["count"] == 40 and rows[0]["equivalence"]["steps"] == 40 and
    rows[0]["traffic"]["bytes_sent"] == -(-2 * 4 * rows[0]["case"]["parameters"] // 40)'
# A fragment whose exchanges are behind the compared steps is compared apart.
lockstep_ok $local --devices 2 --local-sgd-every 24 --local-sgd-outer sgd --local-sgd-fragments 2 --gate-steps 4
rows "compared apart" 'rows[0]["equivalence"]["steps"] == 6'
lockstep_ok predict --strategy local-sgd --devices 3 --platform flat:latency=10us,bandwidth=1GB/s --durations flops=1e9 \
    --local-sgd-every 4 --local-sgd-outer nesterov --local-sgd-fragments 2 --local-sgd-wire float32,int8 --steps 12 --model mlp:12-9-8-3 \
    --data synthetic:96 --batch 24 --optimizer sgd --results none --format jsonl
rows "predicted: as many bytes, and memory" 'rows[0]["traffic"]["bytes_sent"] == 4 * rows[0]["case"]["parameters"] and
    rows[1]["traffic"]["bytes_sent"] == 224 + 4 * 6 and
    rows[0]["memory"]["devices"][0]["optimizer"] == 8 * rows[0]["case"]["parameters"]'

refuse() { # WHAT NAMES OPTIONS..: a line that names it, before any training
    local what="$1" names="$2"
    shift 2
    lockstep $local --devices 2 "$@"
    expect "$what: usage" [ "$code" -eq 2 ]
    one_line "$names"
}
refuse "no rate" "use lr above 0" --local-sgd-outer sgd:lr=0
refuse "momentum 1" "mu from 0 to below 1" --local-sgd-outer nesterov:mu=1
refuse "no such rule" "nesterov:lr=0.7,mu=0.9" --local-sgd-outer adam
refuse "momentum of sgd" "not valid" --local-sgd-outer sgd:mu=0.5
refuse "fragments of an average" "--local-sgd-fragments" --local-sgd-fragments 2
refuse "no divisor" "--local-sgd-every" --local-sgd-outer sgd --local-sgd-every 5 --local-sgd-fragments 2
refuse "more fragments than variables" "6 variables" --local-sgd-outer sgd --local-sgd-every 14 --local-sgd-fragments 7
refuse "a wire of an average" "--local-sgd-wire" --local-sgd-wire bf16
refuse "a ring rounds again" "owners" --local-sgd-outer sgd --local-sgd-wire int8 --allreduce ring
refuse "exact" "--reduce" --local-sgd-outer sgd --reduce exact
finish
