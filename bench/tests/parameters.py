# SPDX-License-Identifier: MIT
"""Reads a parameter file (safetensors) in tests, without numpy: for Python with bench/tests in PYTHONPATH."""
import json, struct


def tensors(path):
    """{name: the float32 values, as a tuple}."""
    raw = open(path, "rb").read()
    first = 8 + struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:first])
    header.pop("__metadata__", None)
    spans = {name: [first + offset for offset in tensor["data_offsets"]] for name, tensor in header.items()}
    return {name: struct.unpack_from(f"<{(end - begin) // 4}f", raw, begin) for name, (begin, end) in spans.items()}
