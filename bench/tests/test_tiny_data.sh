#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Data near the smallest normal number, 1.2e-38, which devices flush below: right kernels pass the gate, whose bounds
# (2e-2 relative: kernels against plain C, slices against the whole batch; 1e-5: a library's sums) ask for what
# arithmetic can hold. Wrong ones (planted: impl/tests/hooks.txt) do not pass, on such data either.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
unset LOCKSTEP_PLANT LOCKSTEP_FUZZ LOCKSTEP_FAIL
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
    echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
    exit 77
fi
python3 - <<'P'
import json, random, struct
random.seed(3)
samples, width = 48, 24
def write(name, x):
    y = [float(random.randrange(10)) for _ in range(samples)]
    write_arrays(name, {"x0": ([samples, width], x), "y": ([samples], y)})
def write_arrays(name, arrays):
    head, body = {}, b""
    for key, (shape, values) in arrays.items():
        part = struct.pack(f"<{len(values)}f", *values)
        head[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(part)]}
        body += part
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + body)
sizes = ["1.2e-38", "1e-37", "1e-36", "1e-35", "1e-20"]
for size in sizes:
    write(f"same-{size}", [float(size)] * (samples * width))
    write(f"mixed-{size}", [float(size) * random.uniform(-1, 1) for _ in range(samples * width)])
# Every other sample is an ordinary one: the tiny ones' signs at the ReLU still reach the gradient of its bias.
write("every-other", [random.uniform(-1, 1) * (1e-37 if i // width % 2 else 1) for i in range(samples * width)])
write_arrays("zeros", {"dense0.weight": ([10, width], [0.0] * 10 * width), "dense0.bias": ([10], [0.0] * 10)})
P
files=$(printf ',file:%s' same-* mixed-* every-other)
options="--batch 16 --steps 2 --warmup 0 --results none --format jsonl"
models=mlp:24-16-10 reduce=fast count=11
! thorough || models=mlp:24-10,mlp:24-16-10 reduce=fast,exact count=44
lockstep_ok run --strategy mirrored --devices 3 --model $models --data "${files#,}" --reduce $reduce $options
rows "what is right passes, within the bounds" "len(rows) == $count and r['result']['status'] == 'ok' and
    r['equivalence']['kernels'] <= 2e-2 and (r['equivalence'].get('gradient_rel') or 0) <= 2e-2"
rows "some were too small as they are, and the row says so" \
    "any(', lifted: ' in x['equivalence']['kernels_compared'] for x in rows)"
rows "ordinary ones are compared as they are" "all(', lifted: ' not in x['equivalence']['kernels_compared']
    for x in rows if '1e-20' in x['case']['data'])"

# Sums of replicas below the smallest normal number are flushed by the oracle as well: weights of 0 show each bit.
for strategy in "mirrored --allreduce ring" towers ps "local-sgd --local-sgd-every 1"; do
    # shellcheck disable=SC2086
    lockstep_ok verify --strategy $strategy --devices 3 --model mlp:24-10 --data file:mixed-1e-36 --load zeros \
        --optimizer sgd --lr 1e6 ${options/steps 2/steps 3}
    rows "$strategy: the order alone decides" "r['equivalence']['oracle'] == 'same bits'"
done
for bug in mask_left_out local_scale; do
    export LOCKSTEP_PLANT=$bug
    lockstep run --strategy mirrored --devices 2 --model mlp:24-16-10 \
        --data file:mixed-1e-37,file:same-1e-36,file:mixed-1e-20 $options
    rows "$bug is found" "len(rows) == 3 and r['result']['status'] == 'failed'"
done
finish
