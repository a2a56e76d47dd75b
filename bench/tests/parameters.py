# SPDX-License-Identifier: MIT
"""Reads and writes parameter files (safetensors) in tests, without numpy: for Python with bench/tests in PYTHONPATH."""
import json, struct


def tensors(path):
    """{name: the float32 values, as a tuple}."""
    raw = open(path, "rb").read()
    first = 8 + struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:first])
    header.pop("__metadata__", None)
    spans = {name: [first + offset for offset in tensor["data_offsets"]] for name, tensor in header.items()}
    return {name: struct.unpack_from(f"<{(end - begin) // 4}f", raw, begin) for name, (begin, end) in spans.items()}


def write(path, tensors):
    """Writes {name: (dtype, shape, bytes)}, in this order."""
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
