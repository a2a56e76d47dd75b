# SPDX-License-Identifier: MIT
"""Files of float32 tensors in the safetensors format, with the standard library only: what
`lockstep run --save` writes and --load and --data file: read. A tensor is (shape, bytes)."""

import json
import pathlib
import struct


def read(path):
    """{name: (shape, bytes)} of a file."""
    content = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    tensors = {}
    for name, entry in json.loads(content[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise ValueError(f"{path}: {name}: {entry['dtype']}, expected F32")
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = tuple(entry["shape"]), content[begin:end]
    return tensors


def write(path, tensors):
    """Writes {name: (shape, bytes)}."""
    header, at = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            stream.write(data)
