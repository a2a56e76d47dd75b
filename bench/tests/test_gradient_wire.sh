#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --gradient-wire bf16: bytes and messages by formulas written here; the bits by a model of its own
# (test_gradient_wire.py); ranks; what implies it, and refusals. Further layouts, and those without, only if thorough.
. "$SOURCE_DIR/bench/tests/lib.sh"
quick="--steps 2 --warmup 0 --blocks 1 --waterfall no --eval-samples 8 --cpu-devices 6 --results none --format jsonl"
gpt="--model gpt:2-2-8-8-40 --data synthetic:96 --batch 24 $quick"
mlp="--model mlp:12-9-8-3 --data synthetic:96 --batch 24 $quick"
both="--gradient-wire float32,bf16"
some="--gradient-wire bf16" shares=3 exchanges=each
! thorough || some=$both shares=1,3 exchanges=last,each

# Bytes a step of a row, as multiples of P elements: B of a gradient that travels, C of a parameter.
cat >bytes.py <<'E2'
def wanted(c):
    n, a, p = len(c["devices"]), c.get("gradient_accumulation_steps", 1), c["parameters"]
    b = 2 if c["gradient_wire"] == "bf16" else 4
    copy = 2 if c["precision"] == "bf16" else 4
    each, stage = a if c.get("gradient_accumulation_exchange") == "each" else 1, c.get("zero_stage")
    if c["strategy"] == "mirrored":
        return 2 * (n - 1) * b * p * each
    if c["strategy"] == "zero":  # all buckets fit into the windows: one gather a piece
        return (n - 1) * p * (b * each + copy * (each if stage == 3 else 1))
    d, m = c["hybrid_replicas"], n // c["hybrid_replicas"]  # groups of shares, and between them
    return d * (m - 1) * (b + copy) * p + 2 * (d - 1) * b * p
E2
by_formula="(lambda f: [(r['case'], r['traffic']['bytes_sent'], f(r['case'])) for r in rows
    if r['traffic']['bytes_sent'] != f(r['case'])] or True)((exec(open('bytes.py').read(), globals()), wanted)[1]) is True"

agree "mirrored" $mlp $both --strategy mirrored --devices 2,3
rows "mirrored: bytes" "$by_formula"
rows "messages as without" 'len({r["traffic"]["messages_sent"] for r in rows if len(r["case"]["devices"]) == 2}) == 1'
rows "implied" '{r["case"]["allreduce"] for r in rows if r["case"]["gradient_wire"] == "bf16"} == {"owners"}'
rows "16 bits a number in scratch, 4 P of gradients" 'all(d["types"]["bf16"] == d["communication"] > 0 and
    d["gradients"] == 4 * r["case"]["parameters"] for r in rows if r["case"]["gradient_wire"] == "bf16" for d in r["memory"]["devices"])'
agree "zero" $mlp $some --strategy zero --zero-stage 1,2,3 --devices 3
rows "zero: bytes" "$by_formula"
agree "zero, bf16" $gpt $some --strategy zero --zero-stage $shares --devices 3 --precision bf16
rows "zero, bf16: bytes" "$by_formula"
agree "groups" $mlp $some --strategy hybrid --hybrid-inner zero --zero-stage $shares --devices 4
rows "groups: bytes" "$by_formula"
agree "pieces" $mlp $some --strategy mirrored,zero --devices 3 --gradient-accumulation-steps 2 \
    --gradient-accumulation-exchange $exchanges
rows "pieces: bytes" "$by_formula"
agree "ranks" $mlp --strategy mirrored,zero --ranks 3 --devices 1 --gradient-wire bf16 --link latency=10us,bandwidth=1GB/s
keep ranks
agree "devices" $mlp --strategy mirrored,zero --devices 3 --gradient-wire bf16
rows "ranks and devices: the same bits" '[r["equivalence"]["digest"] for r in rows] ==
    [r["equivalence"]["digest"] for r in old("ranks")]'
if thorough; then
    agree "five" $mlp $both --strategy mirrored --devices 5
    agree "groups of three" $mlp $both --strategy hybrid --hybrid-inner zero --zero-stage 1,3 --devices 6
    agree "members come and go" ${mlp/steps 2/steps 6} --strategy mirrored,zero --devices 3 --elastic leave=2:2,join=2:4 \
        --gradient-wire bf16
    agree "places" $gpt $both --strategy hybrid --hybrid-inner pipeline --hybrid-outer mirrored,zero --devices 4 --clip 0.1
    rows "places: half the bytes between replicas" 'all(2 * (a["traffic"]["bytes_sent"] - b["traffic"]["bytes_sent"]) ==
        (2 if a["case"]["hybrid_outer"] == "mirrored" else 1) * 4 * a["case"]["parameters"] for a in rows for b in rows
        if [r["case"]["gradient_wire"] for r in (a, b)] == ["float32", "bf16"] and
        a["case"]["hybrid_outer"] == b["case"]["hybrid_outer"])'
    # A sum of nearly opposite addends is far from the whole batch's once these are rounded, and is no fault.
    agree "opposite addends" --model twin-lstm --data text --batch 12 ${quick/samples 8/samples 0} --strategy mirrored \
        --devices 5 --gradient-wire bf16
    agree "buckets" ${gpt/--steps 2/--epochs 1} --gradient-wire bf16 --strategy mirrored,zero --devices 3,6 --bucket-bytes 0,1KiB
    rows "buckets: bytes" "$by_formula"
    agree "split layers" $gpt $both --strategy hybrid --hybrid-inner tensor-parallel --hybrid-outer mirrored,zero --devices 4
    agree "micro-batches" $gpt $both --strategy hybrid --hybrid-inner pipeline --hybrid-outer zero --zero-stage 2,3 --devices 4
    for model in cnn cifar10 resnet:8 "gpt:2-2-8-8-40" "lstm-stack:2"; do
        agree "$model" --model $model --data synthetic:48 --batch 12 ${quick/--eval-samples 8/} --strategy mirrored --devices 1,5 \
            --gradient-wire bf16
    done
fi
rm -f bytes.py

expect "the bits of the definition" python3 -B "$library/test_gradient_wire.py" "$LOCKSTEP" .

# refuse WHAT WORD OPTIONS..: with status 2 and one line that has the word.
refuse() {
    lockstep run --data synthetic:96 $quick --gradient-wire bf16 "${@:3}"
    expect "$1: status 2" test "$code" -eq 2
    expect "$1: refused" one_line "$2"
}
refuse "exact" "--gradient-wire: .*--reduce fast" --strategy mirrored --devices 2 --reduce exact
refuse "a ring rounds at each hop" "--allreduce: .ring. .*owners" --strategy zero --devices 2 --allreduce ring
refuse "partial sums of positions" "--gradient-wire: .*positions" --model gpt:2-2-8-8-40 --strategy hybrid --hybrid-inner \
    context-parallel --devices 4
refuse "nothing is reduced" "--gradient-wire: applies to no case" --strategy single,pipeline --devices 2
lockstep_ok predict --model mlp --strategy mirrored --devices 4 --platform flat:latency=10us,bandwidth=1Gbit/s \
    --durations flops=1e10 $both --format jsonl
rows "predicted bytes" '[r["traffic"]["bytes_sent"] for r in rows] == [2 * 3 * b * r["case"]["parameters"] for b in (4, 2)]'
lockstep_ok advise --model mlp --strategy mirrored,zero --devices 2 --platform flat:latency=10us,bandwidth=1Gbit/s \
    --durations flops=1e10 --gradient-wire bf16 --format json
expect "advised" grep -q -- '--gradient-wire bf16' out
finish
