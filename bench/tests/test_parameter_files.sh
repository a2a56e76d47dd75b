#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --load of files made here: tensors of float32 and bf16, mixed and in shards, give the float32 values, bit by bit, which
# --save writes; values that are not finite are refused by tensor and element.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# mlp:3-2-2; every second tensor as bf16, of values beside what training has: subnormal, -0, the largest
PYTHONPATH=$library python3 - <<'END'
import json, random, struct
from parameters import write
draw = random.Random(1)
shapes = {"dense0.weight": [2, 3], "dense0.bias": [2], "dense1.weight": [2, 2], "dense1.bias": [2]}
odd = [0x0001, 0x8000, 0xff7f, 0x3f81]
wide, mixed, narrow = {}, {}, {}
for i, (name, shape) in enumerate(shapes.items()):
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    bits = (odd + [draw.randrange(0x3c00, 0x4000) for _ in range(9)])[:count]
    narrow[name] = ("BF16", shape, struct.pack(f"<{count}H", *bits))
    wide[name] = ("F32", shape, struct.pack(f"<{count}I", *(b << 16 for b in bits)))
    mixed[name] = (wide, narrow)[i % 2][name]
write("wide.st", wide)
write("mixed.st", mixed)
write("narrow.st", narrow)
one, two = (dict(list(mixed.items())[at::2]) for at in (0, 1))
write("one.st", one)
write("two.st", two)
open("index.json", "w").write(json.dumps({"weight_map": {n: f"{'one' if n in one else 'two'}.st" for n in mixed}}))
for name, bits in ("infinite", 0x7f80), ("nan", 0xffc1):
    values = bytearray(narrow["dense1.weight"][2])
    values[4:6] = struct.pack("<H", bits)
    write(f"{name}.st", narrow | {"dense1.weight": ("BF16", [2, 2], bytes(values))})
for name, bits in ("largest", 0x7f7f7fff), ("larger", 0x7f7f8000): # in float32: R is the largest bf16, or infinite
    values = bytearray(wide["dense1.weight"][2])
    values[8:12] = struct.pack("<I", bits)
    write(f"{name}.st", wide | {"dense1.weight": ("F32", [2, 2], bytes(values))})
write("half.st", narrow | {"dense1.bias": ("F16", [2], bytes(4))})
END
none="--model mlp:3-2-2 --data synthetic:8 --batch 4 --steps 0 --warmup 0 --results none --format jsonl"
for file in wide.st mixed.st narrow.st index.json; do
    lockstep_ok run $none --load $file --save saved.st
    expect "$file: the same bits" env PYTHONPATH="$library" python3 -c '
import sys, struct
from parameters import tensors
bits = lambda path: {n: struct.pack(f"{len(v)}f", *v) for n, v in tensors(path).items()}
sys.exit(bits("saved.st") != bits("wide.st"))'
    [ $file != wide.st ] || keep wide
    rows "$file: its digest" "r['equivalence']['digest'] == old('wide')[0]['equivalence']['digest']"
done
lockstep_ok run ${none/--steps 0/--steps 3} --load mixed.st
lockstep_ok run $none --load larger.st
lockstep_ok run $none --load largest.st --precision bf16
refused() { # refused FILE WORDS OPTIONS
    lockstep run $none --load "$1" "${@:3}"
    expect "$1: missing" [ "$code" -eq 3 ]
    expect "$1: one line" one_line "$2"
}
refused infinite.st "infinite.st: dense1.weight: element 2 is infinite or not a number"
refused nan.st "nan.st: dense1.weight: element 2 is infinite or not a number"
refused half.st "half.st: tensor 'dense1.bias': this tensor's dtype is 'F16', but only F32 and BF16 can be read"
refused larger.st "larger.st: dense1.weight: element 2 is 3.3961.*--precision bf16" --precision bf16
refused larger.st "larger.st: dense1.weight: element 2 is 3.3961.*--precision bf16" --precision float32,bf16
finish
