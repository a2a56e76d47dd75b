# SPDX-License-Identifier: MIT
"""Reads a checkpoint with nothing of the program: the manifest as JSON, safetensors files by struct and json. Checks
that files and manifest say the same, and that the parts of each tensor have each element once; prints the names of its
tensors. With a safetensors file as second argument: the parameters must have its bits."""
import array
import json
import os
import re
import struct
import sys


def tensors_of(path):
    """{name: (shape, bytes)} of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0 and 8 + length <= len(data), f"{path}: a header of {length} bytes"
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    out, reached = {}, 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        count = 1
        for size in entry["shape"]:
            count *= size
        assert entry["dtype"] == "F32" and end - begin == 4 * count and begin == reached, f"{path}: {name}"
        reached = end
        out[name] = (entry["shape"], data[8 + length + begin:8 + length + end])
    assert 8 + length + reached == len(data), f"{path}: {len(data)} bytes"
    return out


def read(folder):
    """{name: (shape, bytes)} of whole tensors."""
    with open(f"{folder}/manifest.json", encoding="utf-8") as file:
        manifest = json.load(file)
    assert manifest["format"] == "lockstep-checkpoint" and manifest["version"] == 1
    assert os.path.basename(folder) == f"step-{manifest['step']:08d}"
    assert sorted(os.listdir(folder)) == sorted(["manifest.json", *manifest["files"]])
    assert sorted(manifest["files"]) == [f"shard-{i:05d}.safetensors" for i in range(len(manifest["files"]))]
    assert re.fullmatch("[0-9a-f]{32}", manifest["digest"])
    found, whole = {}, {}
    for name, entry in manifest["files"].items():
        assert os.path.getsize(f"{folder}/{name}") == entry["bytes"] and re.fullmatch("[0-9a-f]{32}", entry["digest"])
        found[name] = tensors_of(f"{folder}/{name}")
    for name, tensor in manifest["tensors"].items():
        count = 1
        for size in tensor["shape"]:
            count *= size
        values, reached = b"", 0
        for part in sorted(tensor["parts"], key=lambda p: p["offset"]):
            assert part["offset"] == reached, f"{name}: element {reached}"
            alone = part["count"] == count
            shape, data = found[part["file"]].pop(name if alone else f"{name}@{part['offset']}")
            assert shape == (tensor["shape"] if alone else [part["count"]]), f"{name}: {shape}"
            assert len(data) == 4 * part["count"]
            values += data
            reached += part["count"]
        assert reached == count, f"{name}: {reached} of {count} elements"
        assert all(abs(v) < float("inf") for v in array.array("f", values)), name
        whole[name] = (tensor["shape"], values)
    assert not any(found.values()), found
    return whole


state = read(sys.argv[1])
if len(sys.argv) > 2:
    saved = tensors_of(sys.argv[2])
    parameters = {name[len("param/"):]: value for name, value in state.items() if name.startswith("param/")}
    assert parameters == saved, "the parameters are not those of --save"
print(" ".join(sorted(state)))
