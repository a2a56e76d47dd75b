# SPDX-License-Identifier: MIT
# Dropout: in exact mode every strategy has the digest of `single`, fast mode the bits of its oracle; a step drops anew,
# and so does another seed; evaluation drops nothing; memory is that of its formula, traffic that without dropout.
. "$SOURCE_DIR/bench/tests/lib.sh"

mlp="--model mlp:12-9-8-3 --data synthetic:96 --batch 24 --cpu-devices 4 --results none --format jsonl --dropout 0.3"
gpt="--model gpt:2-2-8-8-40 --data synthetic:60 --batch 12 --cpu-devices 4 --results none --format jsonl --dropout 0.2"
same='len({r["equivalence"]["digest"] for r in rows}) == 1 and r["equivalence"]["oracle"] == "same bits"'
alike mlp "$mlp --steps 3" "--strategy single" "--strategy towers,mirrored --devices 3" "--strategy zero --zero-stage 1,2,3 --devices 2" \
    "--strategy ps --ranks 3" "--strategy pipeline --devices 3" "--strategy hybrid --hybrid-inner pipeline,zero --devices 4" \
    "--strategy mirrored --devices 2 --gradient-accumulation-steps 3"
alike "mlp in slices" "${mlp/12-9-8-3/12-9-7-8-3} --steps 3 --micro-splits 3" "--strategy single" "--strategy tensor-parallel --devices 1,2,3" \
    "--strategy hybrid --hybrid-inner tensor-parallel --devices 4" "--strategy tensor-parallel --devices 2 --recompute full"
alike gpt "$gpt --steps 3" "--strategy single" "--strategy pipeline --devices 3" "--strategy mirrored --ranks 2"
alike "gpt in slices" "$gpt --steps 3 --micro-splits 2" "--strategy single" "--strategy tensor-parallel --devices 2" \
    "--strategy hybrid --hybrid-inner tensor-parallel --devices 4"
lockstep_ok verify $gpt --strategy tensor-parallel,pipeline,zero,context-parallel --devices 2 --steps 3 --warmup 0
rows "fast: the oracle's bits" 'len(rows) == 4 and r["equivalence"]["oracle"] == "same bits" and r["case"]["dropout"] == 0.2'

# Places that have some of a sample's positions or columns drop what the whole sample would: the loss differs by rounding.
uneven="--model gpt:2-3-12-11-40 --data synthetic:60 --batch 7 --cpu-devices 4 --results none --format jsonl --dropout 0.4 --steps 6
    --warmup 0 --optimizer sgd"
lockstep_ok run $uneven --strategy single
keep whole
lockstep_ok run $uneven --devices 3 --strategy context-parallel,tensor-parallel
cat out >every
lockstep_ok run $uneven --devices 3 --strategy tensor-parallel --tensor-parallel-sequence yes --gradient-accumulation-steps 1,2
cat every >>out
rm every
rows "parts drop as the whole" 'len(rows) == 4 and all(abs(r["train"]["loss_last"] / old("whole")[0]["train"]["loss_last"] - 1) < 1e-5 and
    r["equivalence"]["oracle"] == "same bits" for r in rows)'

# A rate of next to nothing leaves the parameters, and with one sample in the data only the mask differs from step to step.
still="--model mlp:12-9-8-3 --data synthetic:1 --batch 1 --results none --format jsonl --optimizer sgd --lr 1e-30 --steps 6 --verbose"
lockstep_ok run $still --dropout 0.5
rows "each step drops anew" 'len(set(r["train"]["losses"])) > 2'
keep dropped
lockstep_ok run $still
rows "without it losses are alike" 'len(set(r["train"]["losses"])) == 1 and "dropout" not in r["case"] and
    r["train"]["accuracy"] == old("dropped")[0]["train"]["accuracy"]'
lockstep_ok run $gpt --strategy mirrored --devices 2 --steps 5
rows "memory by formula" 'all(d["formula"][use] == d[use] for d in r["memory"]["devices"]
    for use in ("parameters", "gradients", "optimizer", "activations", "communication"))'
keep with
lockstep_ok run ${gpt% --dropout*} --strategy mirrored --devices 2 --steps 5
rows "traffic as without" 'r["traffic"] == old("with")[0]["traffic"]'
lockstep_ok predict --model gpt:2-2-8-8-40 --strategy mirrored --devices 2 --platform flat:bandwidth=1GB/s --durations flops=1e10 \
    --dropout 0.1 --results none --format jsonl
rows "predicted" 'r["case"]["dropout"] == 0.1'

refuse() {
    local word=$1
    shift
    lockstep run --results none --steps 3 "$@"
    expect "$*: refused" [ "$code" -eq 2 ]
    one_line "$word"
}
refuse "mlp or gpt" --model cnn --dropout 0.1
refuse "--dropout" --model mlp --dropout 1
refuse "--dropout" --model mlp --dropout -0.1
finish
