# SPDX-License-Identifier: MIT
# Every model with images or sequences, with every strategy that is meant to be equal: bits of `single` in exact mode,
# of the oracle in fast mode; with uneven slices and an epoch's smaller last batch. The memory ledger agrees with its
# formula; a broken gradient is detected. No tolerance.
. "$SOURCE_DIR/bench/tests/lib.sh"

small="--results none --warmup 0"
# Three devices: test_equal_rows has one, two and four. Unless thorough: each strategy with cnn, the other models whole and
# divided. With the address sanitizer, ten times as slow, also smaller, and against the oracle.
sanitized= devices=3 reduces=fast,exact images=31 samples=45 few=17 some=25
! sanitized || { sanitized=yes; devices=3; reduces=fast; images=10; samples=14; few=14; some=14; }
for model in "cnn --batch $images --data synthetic:$samples" "cifar10 --batch 7 --data synthetic:$few" \
    "twin-lstm:9 --batch 10 --data synthetic:$some" "lstm-stack:2 --batch 10 --data synthetic:$some" \
    "gpt:2-2-64-64 --batch 10 --data synthetic:$some"; do
    thorough || [ -z "$sanitized" ] || [[ ! $model =~ ^(cifar|twin) ]] || continue
    for strategy in "single --devices 1" "towers --devices $devices" "mirrored --devices $devices" \
        "zero --devices $devices --zero-stage 3 --bucket-bytes 0" "towers --devices 2 --colocate-gradients no" "model-parallel --devices $devices" \
        "pipeline --devices 2 --pipeline-microbatches 2"; do
        thorough || [[ $model == cnn* || $strategy =~ ^(mirrored|model) ]] || continue
        lockstep_ok verify --model $model --strategy $strategy --cpu-devices 3 \
            --reduce $reduces --epochs 1 $small --format jsonl
        rows "$model $strategy" 'rows and all(r["result"]["status"] == "ok" and
            r["equivalence"]["pass"] and r["equivalence"]["steps"] > 1 for r in rows)'
    done
    [ -z "$sanitized" ] || continue
    lockstep_ok run --model $model --strategy mirrored --devices 2 --cpu-devices 3 \
        --reduce fast,exact --steps 2 --gate-steps 0 $small --format jsonl
    rows "ledger of $model" 'all(d[use] == bytes for r in rows for d in r["memory"]["devices"]
        for use, bytes in d["formula"].items())'
    lockstep verify --model $model --strategy mirrored --devices 2 --cpu-devices 3 \
        --steps 2 --inject bitflip=1:1 $small
    expect "a flipped bit in $model is found" [ "$code" -eq 1 ]
done

# Batch normalisation: in fast mode each replica or micro-batch has its own statistics, and only the oracle judges; a
# model on one replica equals `single`. All replicas have equal moving statistics.
for strategy in "single --devices 1" "towers --devices 2,3" "mirrored --devices 2,3" \
    "mirrored --devices 3 --allreduce ring --bucket-bytes 0" "model-parallel --devices 2" \
    "towers --devices 2 --colocate-gradients no" "pipeline --devices 2 --pipeline-microbatches 3" \
    "pipeline --devices 3 --pipeline-microbatches 4 --pipeline-schedule 1f1b"; do
    thorough || [[ $strategy =~ 1f1b$ || -z $sanitized && $strategy =~ (^single|ring) ]] || continue
    lockstep_ok verify --model resnet:8 --data synthetic:21 --batch 8 --strategy $strategy \
        --cpu-devices 3 --epochs 1 $small --format jsonl
    rows "resnet:8 $strategy" 'rows and all(r["result"]["status"] == "ok" and
        r["equivalence"]["pass"] and r["equivalence"]["steps"] == 3 for r in rows)'
done
[ -z "$sanitized" ] || { finish; exit 0; }

# The reported loss includes weight decay of eight variables, which places sum separately: all digits must agree.
# Large filters make it most of the loss; normalisation cancels their scale.
decayed="--model resnet:8 --data synthetic:21 --batch 8 --gate-steps 0 $small"
lockstep_ok run $decayed --strategy single --steps 0 --save small.st
python3 - <<'END'
import json, struct
raw = bytearray(open("small.st", "rb").read())
first = 8 + struct.unpack("<Q", raw[:8])[0]
for name, tensor in json.loads(raw[8:first]).items():
    if name.startswith("conv"):
        begin, end = (first + offset for offset in tensor["data_offsets"])
        values = struct.unpack_from(f"<{(end - begin) // 4}f", raw, begin)
        struct.pack_into(f"<{len(values)}f", raw, begin, *(100 * v for v in values))
open("large.st", "wb").write(raw)
END
lockstep_ok run $decayed --load large.st --strategy single --steps 6 --verbose --format jsonl
keep decayed
rows "decay is most of the loss" 'min(r["train"]["losses"]) > 20'
for devices in 2 3; do
    lockstep_ok run $decayed --load large.st --strategy model-parallel --devices $devices --cpu-devices 3 \
        --steps 6 --verbose --format jsonl
    rows "losses of resnet:8 on $devices places" 'len(r["train"]["losses"]) == 6 and
        r["train"]["losses"] == old("decayed")[0]["train"]["losses"]'
done
# With --sync-bn statistics are of the global batch, and every strategy equals `single`: bitwise in exact mode. Uneven
# slices, a last batch smaller than the number of devices, no program, staged.
for strategy in "single --devices 1" "towers --devices 2,3" "mirrored --devices 2,3" \
    "towers --devices 3 --towers-staged yes" "mirrored --devices 1 --ranks 3"; do
    thorough || [[ $strategy =~ ^(single|mirrored) ]] || continue
    lockstep_ok verify --model resnet:8 --data synthetic:18 --batch 8 --strategy $strategy \
        --cpu-devices 3 --epochs 1 --sync-bn yes --reduce exact $small --format jsonl
    rows "resnet:8 --sync-bn --reduce exact, $strategy" 'rows and all(r["equivalence"]["pass"] and
        r["equivalence"]["grade"] == "exact" and r["case"]["sync_bn"] and
        r["equivalence"]["digest"] == r["equivalence"]["reference_digest"] for r in rows)'
    [[ $strategy != *ranks* ]] || continue
    lockstep_ok verify --model resnet:8 --data synthetic:18 --batch 8 --strategy $strategy \
        --cpu-devices 3 --epochs 1 --sync-bn yes $small --format jsonl
    rows "resnet:8 --sync-bn, $strategy" 'rows and all(r["equivalence"]["pass"] and
        r["equivalence"]["steps"] == 3 for r in rows)'
    [[ $strategy == single* ]] ||
        rows "the first gradient is single's" 'all(r["equivalence"]["gradient_rel"] < 2e-2
            for r in rows)'
done
lockstep_ok run --model resnet:8 --data synthetic:45 --batch 6 --strategy mirrored --devices 2 \
    --cpu-devices 3 --steps 2 --gate-steps 0 $small --sync-bn no,yes --format jsonl
rows "ledger of resnet:8" 'all(d[use] == bytes for r in rows for d in r["memory"]["devices"]
    for use, bytes in d["formula"].items())'
lockstep verify --model resnet:8 --data synthetic:45 --batch 6 --strategy mirrored --devices 2 \
    --cpu-devices 3 --steps 2 --inject bitflip=1:1 $small
expect "a flipped bit in resnet:8 is found" [ "$code" -eq 1 ]

# Data movement of a step: transposed images, weights converted to and from a library's layout (on some processors
# oneDNN uses the files' layout: hence lower and upper bounds), columns, shortcuts.
reorders() { # reorders MODEL LEAST MOST TIMES ARGUMENTS...: their number, TIMES as many in exact mode
    local model=$1 least=$2 most=$3 times=$4
    shift 4
    lockstep_ok run --model $model --data synthetic:45 --batch 12 --steps 1 --gate-steps 0 $small \
        --reduce fast,exact --micro-shards $times --format jsonl "$@"
    rows "reorders of $model" "(lambda fast, exact: $least <= fast['reorders'] <= $most and
        exact['reorders'] == $times * fast['reorders'] and fast['reordered_bytes'] > 0)(
        *[r['program'] for r in sorted(rows, key=lambda r: r['case']['reduce'] == 'exact')])"
}
reorders cnn 1 1 3                  # its filters
rows "bytes" 'all(r["program"]["reordered_bytes"] == 3 * 3 * 32 * 4 * (3 if r["case"]["reduce"] == "exact" else 1) for r in rows)'
reorders cifar10 3 11 2             # 3 images; weights: 2 forward, 2 to weights, 1 to data; tiles of 3
reorders twin-lstm:8 8 8 3          # of 2 branches: recurrent weights, last state; and back
reorders lstm-stack:3 6 6 1
# The input; 2 shortcuts and back; weights of 7 convolutions: 7, 7 and 6; tiles of 4 of them: 12.
reorders resnet:8 5 37 1 --sync-bn yes

# Crops depend on a sample's index in the endless sequence, so all devices draw the same.
mkdir cifar
python3 - <<'END' # the same at each run: of some data a rounding lets a pool choose another element
import random
noise = random.Random(1)
for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
    with open(f"cifar/{name}.bin", "wb") as file:
        for label in (1, 5, 7):
            file.write(bytes([label]) + noise.randbytes(3072))
END
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
