# SPDX-License-Identifier: MIT
# Weight decay as a user sees it: images of zeros give the weights no gradient, so a step of SGD multiplies decaying
# weights by (1 - lr decay) and leaves others unchanged; the loss is ln 10 plus decay sum(w^2) / 2 of the values
# before. On several devices, decay counts once. Tolerance: 2 units in the last place of a float32 for weights, 1e-10
# of the loss.
. "$SOURCE_DIR/bench/tests/lib.sh"

cat >check.py <<'END'
import json, math, sys
from parameters import tensors

before, after = tensors(sys.argv[1]), tensors(sys.argv[2])
loss = json.load(open(sys.argv[3]))["train"]["loss_first"]
decaying = ("dense0.weight", "dense1.weight")
part = 0.004 / 2 * sum(w * w for name in decaying for w in before[name])
assert part > 1, part
assert abs(loss - math.log(10) - part) < 1e-10 * loss, (loss, math.log(10) + part)
for name, values in before.items():
    if not name.endswith("weight"):
        continue
    keep = 1 - 0.1 * 0.004 if name in decaying else 1
    for w, now in zip(values, after[name]):
        assert abs(now - w * keep) <= 2 ** -22 * abs(w), (name, w, now)
END

python3 - <<'END'
import json, struct
N, shape = 12, [12, 3, 24, 24]
images = bytes(4 * N * 3 * 24 * 24)
header = json.dumps({"x0": {"dtype": "F32", "shape": shape, "data_offsets": [0, len(images)]},
                     "y": {"dtype": "F32", "shape": [N],
                           "data_offsets": [len(images), len(images) + 4 * N]}}).encode()
labels = struct.pack("<%df" % N, *[i % 10 for i in range(N)])
open("zeros.st", "wb").write(struct.pack("<Q", len(header)) + header + images + labels)
END

model="--model cifar10 --data file:zeros.st --batch 12 --warmup 0 --results none"
lockstep_ok run $model --gate-steps 0 --steps 0 --save before.st
for case in "single --devices 1" "single --devices 1 --reduce exact" "towers --devices 3" \
    "mirrored --devices 3" "mirrored --devices 2 --bucket-bytes 4096" \
    "mirrored --devices 3 --reduce exact" "zero --devices 3 --zero-stage 3 --bucket-bytes 4096" "model-parallel --devices 3" \
    "pipeline --devices 2 --pipeline-microbatches 3" "pipeline --devices 3 --reduce exact"; do
    thorough || [[ $case =~ ^(towers|mirrored.*bytes|zero|pipeline.*exact) ]] || continue # one of a kind
    lockstep_ok run $model --cpu-devices 3 --strategy $case --steps 1 --save after.st --format jsonl
    cp "$work/out" row.json
    checks=$((checks + 1))
    PYTHONPATH=$library python3 -B check.py before.st after.st row.json || wrong "weight decay of --strategy $case"
done
# The learning rate drops to a tenth after 350 epochs, here of one step each: visible in the effect of decay.
python3 - <<'END'
import json, struct
images = bytes(4 * 3 * 24 * 24)
header = json.dumps({"x0": {"dtype": "F32", "shape": [1, 3, 24, 24], "data_offsets": [0, len(images)]},
                     "y": {"dtype": "F32", "shape": [1],
                           "data_offsets": [len(images), len(images) + 4]}}).encode()
open("one.st", "wb").write(struct.pack("<Q", len(header)) + header + images + struct.pack("<f", 3))
END
lockstep_ok run --model cifar10 --data file:one.st --batch 1 --warmup 0 --results none \
    --gate-steps 0 --epochs 360 --save late.st --format jsonl
cat >late.py <<'END'
import json, struct
def weight(path, name="dense0.weight"):
    raw = open(path, "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    begin, end = (8 + size + o for o in json.loads(raw[8:8 + size])[name]["data_offsets"])
    return struct.unpack("<%df" % ((end - begin) // 4), raw[begin:end])
want = (1 - 0.1 * 0.004) ** 350 * (1 - 0.01 * 0.004) ** 10
before, after = weight("before.st"), weight("late.st")
worst = max(abs(a / b - want) for a, b in zip(after, before) if abs(b) > 1e-4)
assert worst < 2e-4, (worst, want)
END
checks=$((checks + 1))
python3 late.py || wrong "learning rate after 350 epochs"
finish
