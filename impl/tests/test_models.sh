# SPDX-License-Identifier: MIT
# Every model with images or sequences, every strategy that is meant to be equal: the bits of
# `single` in exact mode, of the oracle in fast mode; with uneven slices and an epoch's last,
# smaller batch. The ledger agrees with its formula; a broken gradient is found.
. "$SOURCE_DIR/bench/tests/lib.sh"

small="--results none --warmup 0"
for model in "cnn --batch 31" "cifar10 --batch 7" "twin-lstm:9 --batch 10" \
    "lstm-stack:2 --batch 10"; do
    for strategy in "single --devices 1" "towers --devices 2,3" "mirrored --devices 2,3" \
        "towers --devices 2 --colocate-gradients no" "model-parallel --devices 2,3" \
        "pipeline --devices 2 --pipeline-microbatches 2"; do
        # Its two branches share variables, which stages cannot.
        [[ "$model $strategy" != twin-lstm*pipeline* ]] || continue
        lockstep_ok verify --model $model --data synthetic:45 --strategy $strategy --cpu-devices 3 \
            --reduce fast,exact --epochs 1 $small --format jsonl
        rows "$model $strategy" 'rows and all(r["result"]["status"] == "ok" and
            r["equivalence"]["pass"] and r["equivalence"]["steps"] > 1 for r in rows)'
    done
    lockstep_ok run --model $model --data synthetic:45 --strategy mirrored --devices 2 --cpu-devices 3 \
        --reduce fast,exact --steps 2 --gate-steps 0 $small --format jsonl
    rows "ledger of $model" 'all(d[use] == bytes for r in rows for d in r["memory"]["devices"]
        for use, bytes in d["formula"].items())'
    lockstep verify --model $model --data synthetic:45 --strategy mirrored --devices 2 --cpu-devices 3 \
        --steps 2 --inject bitflip=1:1 $small
    expect "a flipped bit in $model is found" [ "$code" -eq 1 ]
done

# Crops are drawn by a sample's place in the endless sequence, so they are the same on every device.
mkdir cifar
for file in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    for label in 1 5 7; do
        printf "\\0$label"
        head -c 3072 /dev/urandom
    done >"cifar/$file.bin"
done
for augment in yes no; do
    lockstep_ok verify --model cifar10 --data cifar10:cifar --augment $augment --batch 7 --epochs 2 \
        --strategy mirrored --devices 1,2,3 --cpu-devices 3 --reduce exact $small --format jsonl
    rows "crops, --augment $augment" 'rows and len({r["equivalence"]["digest"] for r in rows}) == 1
        and all(r["equivalence"]["pass"] and r["case"]["augment"] == ("yes" == "'$augment'")
        for r in rows)'
    keep "crops.$augment"
done
rows "crops are drawn" 'digest("crops.yes") != digest("crops.no")'
finish
