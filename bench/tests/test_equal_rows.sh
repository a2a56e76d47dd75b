# SPDX-License-Identifier: MIT
# Equal digests imply equal results: for every model and strategy, cases that end with the same parameters have the
# same losses and accuracy; in exact mode, all strategies that are meant to be equal have the same parameters. With
# shards of 1 and 2 samples; in fast mode with an epoch's smaller last batch. No tolerance, except 1e-12 for losses in
# fast mode, whose order of summation depends on the devices.
. "$SOURCE_DIR/bench/tests/lib.sh"

# A model that is not listed here runs in its default size.
small() {
    case $1 in
        mlp) echo mlp:784-12-10 ;;
        twin-lstm) echo twin-lstm:6 ;;
        lstm-stack) echo lstm-stack:2 ;;
        resnet) echo resnet:8 ;;
        gpt) echo gpt:2-2-16-8-32 ;;
        *) echo "$1" ;;
    esac
}
names() { "$LOCKSTEP" list "$1" | sed -n 's/^  \([a-z][a-z0-9-]*\)  .*/\1/p'; }
strategies=$(names strategies | paste -sd,)
models=$(names models | grep -v '^graph$') # which is a file's
expect "strategies are listed" [ "$(tr ',' '\n' <<<"$strategies" | wc -l)" -ge 8 ]
expect "models are listed" [ "$(wc -w <<<"$models")" -ge 7 ]

# together OPTIONS: skips cases that their strategy cannot run, and prints a line for each.
together() {
    lockstep run --strategy "$strategies" --cpu-devices 4 --batch 6 --warmup 1 --gate-steps 1 --blocks 1 \
        --verbose --format jsonl --results none "$@"
    expect "all is well" [ "$code" -eq 0 ]
    rows "equal digests, equal figures" 'len(rows) > 3 and all(a["train"].get("accuracy") == b["train"].get("accuracy")
        and all(math.isclose(x, y, rel_tol=0 if a["case"]["reduce"] == "exact" else 1e-12)
            for x, y in zip(*[[t["loss_first"], t["loss_last"], *t["losses"]] for t in (a["train"], b["train"])], strict=True))
        for a in rows for b in rows if a["equivalence"]["digest"] == b["equivalence"]["digest"])'
    rows "something was tested, and trained" 'all(r["train"]["losses"] and
        ("accuracy" in r["train"]) == (r["case"]["model"] != "poly") for r in rows)'
}

exact="--data synthetic:100 --steps 2 --reduce exact --micro-shards 4"
for model in $models; do
    thorough || [[ $model =~ ^(poly|cnn|gpt|resnet)$ ]] || continue
    case $model in
        resnet) # statistics of the whole batch need replicas that synchronize
            together --model "$(small resnet)" --devices 1,2 --sync-bn yes $exact
            least=4
            ;;
        *)
            together --model "$(small "$model")" --devices 1,4 $exact
            least=8
            ;;
    esac
    [ "$model" != poly ] || least=7 # one node: nothing to divide
    rows "exact: one digest of $model" "len({r['equivalence']['digest'] for r in rows
        if r['equivalence']['grade'] == 'exact'}) == 1 and
        sum(r['equivalence']['grade'] == 'exact' for r in rows) >= $least"
    thorough || [[ $model =~ ^(poly|gpt)$ ]] || continue
    together --model "$(small "$model")" --devices 1,2 --data synthetic:27 --epochs 1
    rows "fast: some digests of $model are equal" 'len({r["equivalence"]["digest"] for r in rows}) < len(rows)'
done
finish
