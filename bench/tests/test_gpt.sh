#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# gpt: its arithmetic against an independent float64 model (test_gpt.py); all strategies have one digest in exact mode;
# its data (text, tokens, file), its parameter files with the forms that Hugging Face's have, and what is refused.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

python3 -B "$library/test_gpt.py" "$LOCKSTEP" "$work"

quick="--warmup 0 --results none --format jsonl"
small="--model gpt:2-2-64-64 --data synthetic:24 --batch 6 --steps 2 $quick"
lockstep run $small --reduce exact --devices 1,2,3 --cpu-devices 3 --gate-steps 2 --blocks 1 \
    --strategy single,towers,mirrored,ps,model-parallel,pipeline
expect "all strategies run" [ "$code" -eq 0 ]
rows "one digest" 'len(rows) == 16 and len({r["equivalence"]["digest"] for r in rows}) == 1 and
    all(r["equivalence"]["grade"] == "exact" for r in rows)'
cp out rows.jsonl
lockstep_ok report --results rows.jsonl --out page
expect "the report is of it" grep -q '^gpt:2-2-64-64-256, global batch 6' page/report.md
expect "and has all cases" [ "$(grep -c '^"median' page/step-times.csv)" -eq 16 ]
lockstep_ok regress rows.jsonl rows.jsonl
expect "each case is compared with itself" [ "$(grep -c '^gpt:2-2-64-64-256 .* same ' out)" -eq 16 ]
lockstep_ok run $small --strategy pipeline,local-sgd --devices 3 --cpu-devices 3 --gate-steps 2
rows "same bits as the oracle" 'len(rows) == 2 and all(r["equivalence"]["oracle"] == "same bits" for r in rows)'

# ---- Data ------------------------------------------------------------------------------------------------------
python3 - <<'END'
import json, math, struct
def write(path, tensors):
    header, body = {}, b""
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
def floats(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)
def file(path, x, y, shape=[2, 3]):
    write(path, {"x0": ("F32", shape, floats(*x)), "y": ("F32", shape, floats(*y))})
good = (0, 1, 2, 3, 4, 3)
file("good.st", good, good)
file("beyond.st", (0, 1, 2, 3, 5, 3), good)
file("below.st", (0, 1, -1, 3, 4, 3), good)
file("half.st", good, (0, 1, 0.5, 3, 4, 3))
file("nan.st", (0, 1, 2, math.nan, 4, 3), good)
file("other.st", good, good, [3, 2])
import os
for name, numbers, more in ("right", range(5), b""), ("odd", range(5), b"\0"), ("short", range(1), b""), ("high", (0, 1, 7), b""):
    os.mkdir(name)
    for part in "train", "val":
        open(f"{name}/{part}.bin", "wb").write(struct.pack(f"<{4 * len(numbers)}H", *4 * list(numbers)) + more)
# tokens of other widths; and of 16 bits, every second one 0 and a pattern, or all but one 0
for name, form, numbers in ("wide", "I", 16 * [0, 1, 2, 3]), ("wider", "q", 16 * [0, 1, 2, 3]), ("pattern", "H", 32 * [1, 0, 3, 0]), ("zeros", "H", 99 * [0] + [1]):
    os.mkdir(name)
    for part in "train", "val":
        open(f"{name}/{part}.bin", "wb").write(struct.pack(f"<{len(numbers)}{form}", *numbers))
END
tiny="--model gpt:1-1-4-3-5 --batch 2 --steps 1 $quick"
lockstep_ok run $tiny --data file:good.st
rows "a file has no accuracy" 'len(rows) == 1 and "accuracy" not in rows[0]["train"]'
lockstep_ok run $tiny --data tokens:pattern,tokens:zeros
lockstep_ok run $tiny --data tokens:right
rows "tokens have one" '0 <= rows[0]["train"]["accuracy"] <= 1'
mkdir text && seq 400 >text/a && seq 400 -1 1 >text/b
lockstep_ok run --model gpt:1-1-4-3 --batch 2 --steps 1 $quick --data text:text
rows "and so has text" '0 <= rows[0]["train"]["accuracy"] <= 1'

refused() { # refused STATUS WORDS ARGUMENTS...
    local status=$1 words=$2
    shift 2
    lockstep run $quick --steps 1 "$@"
    expect "exit status $code, $status wanted, for $*" [ "$code" -eq "$status" ]
    expect "one line with '$words' for $*" bash -c '[ "$(wc -l <err)" -eq 1 ] && grep -q -e "$1" err' _ "$words"
}
tiny="--model gpt:1-1-4-3-5 --batch 2"
refused 3 "beyond.st.*'x0'.*5 at \[1, 1\]" $tiny --data file:beyond.st
refused 3 "below.st.*'x0'.*-1 at \[0, 2\]" $tiny --data file:below.st
refused 3 "half.st.*'y'.*0.5 at \[0, 2\]" $tiny --data file:half.st
refused 3 "nan.st.*'x0'.*nan at \[1, 0\]" $tiny --data file:nan.st
refused 3 "other.st.*\[3,2\].*\[N,3\]" $tiny --data file:other.st
refused 3 'odd/.*bin.*odd' $tiny --data tokens:odd
refused 3 'high/.*bin.*token 7 in window 0 at position 2 ' $tiny --data tokens:high
refused 3 'wide/train.bin.*128 tokens.*32 bits each.*uint32' $tiny --data tokens:wide
refused 3 'wider/train.bin.*64 bits each.*uint64' $tiny --data tokens:wider
refused 3 'short/.*bin.*too few' --model gpt:1-1-4-8-5 --batch 2 --data tokens:short
refused 3 'nowhere' $tiny --data tokens:nowhere
refused 2 'directory' $tiny --data tokens
refused 2 '256' $tiny --data text:text
refused 2 'gpt' --model mlp:3-2 --data tokens:right
refused 2 '3 heads do not divide.*8' --model gpt:1-3-8
for sizes in 1-1 1-1-4-3-5-6 0-1-4 1-1-x '' 1-1-4-; do
    refused 2 'blocks-heads-width' --model "gpt:$sizes"
done

# ---- Parameter files -------------------------------------------------------------------------------------------
lockstep_ok run $tiny --data file:good.st $quick --steps 0 --save plain.safetensors
python3 - <<'END'
import json, struct
raw = open("plain.safetensors", "rb").read()
size = struct.unpack_from("<Q", raw)[0]
header, body = json.loads(raw[8 : 8 + size]), raw[8 + size :]
assert header.get("__metadata__", {"format": "pt"}) == {"format": "pt"}, header
def write(path, change):
    tensors = {name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for name, t in header.items() if name != "__metadata__"}
    new, data = {}, b""
    for name, (kind, shape, content) in change(tensors).items():
        new[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(new).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
mask = {"transformer.h.0.attn.bias": ("BOOL", [1, 3], b"\1\0\1"), "h.0.attn.masked_bias": ("F16", [], b"\0\0")}
prefixed = lambda t: {"transformer." + n: v for n, v in t.items()}
write("published.st", lambda t: mask | prefixed(t) | {"lm_head.weight": t["wte.weight"]})
write("within.st", lambda t: prefixed(t | {"lm_head.weight": t["wte.weight"]}))
write("heads.st", lambda t: t | {n + "lm_head.weight": t["wte.weight"] for n in ("", "transformer.")})
write("untied.st", lambda t: t | {"lm_head.weight": ("F32", [5, 4], bytes(80))})
write("twice.st", lambda t: t | {"transformer.wpe.weight": t["wpe.weight"]})
write("turned.st", lambda t: t | {"h.0.attn.c_attn.weight": ("F32", [12, 4], t["h.0.attn.c_attn.weight"][2])})
write("longer.st", lambda t: t | {"wpe.weight": ("F32", [4, 4], bytes(64))})
write("deeper.st", lambda t: t | {n.replace("h.0.", "h.1."): v for n, v in t.items()})
write("missing.st", lambda t: {n: v for n, v in t.items() if n != "ln_f.bias"})
END
for file in published within; do
    lockstep_ok run $tiny --data file:good.st $quick --steps 0 --load $file.st --save again.safetensors
    expect "a published file is the same model" cmp plain.safetensors again.safetensors
done
refused 3 'heads.st: lm_head.weight.*with the prefix' $tiny --data file:good.st --load heads.st
refused 3 'untied.st.*lm_head.weight' $tiny --data file:good.st --load untied.st
refused 3 'twice.st: wpe.weight.*with the prefix' $tiny --data file:good.st --load twice.st
refused 3 'turned.st: h.0.attn.c_attn.weight.*\[12,4\].*\[4,12\]' $tiny --data file:good.st --load turned.st
refused 3 'longer.st: wpe.weight.*\[4,4\].*\[3,4\]' $tiny --data file:good.st --load longer.st
refused 3 'missing.st: ln_f.bias' $tiny --data file:good.st --load missing.st
refused 3 'deeper.st.*h.1.ln_1.weight' $tiny --data file:good.st --load deeper.st
refused 3 'plain.*: h.1.ln_1.weight.*missing.*\[4\]' --model gpt:2-1-4-3-5 --batch 2 --data file:good.st --load plain.safetensors
refused 3 'plain.*: wte.weight.*\[5,4\].*\[7,4\]' --model gpt:1-1-4-3-7 --batch 2 --data file:good.st --load plain.safetensors
refused 3 'plain.*: wte.weight.*\[5,4\].*\[5,8\]' --model gpt:1-1-8-3-5 --batch 2 --data file:good.st --load plain.safetensors
finish
