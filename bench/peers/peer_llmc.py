# SPDX-License-Identifier: MIT
"""The training step of gpt in llm.c's CPU program, train_gpt2.c, on one thread.

Usage: peer_llmc.py --folder FOLDER, a clone of github.com/karpathy/llm.c. It is compiled with the flags of its
Makefile, by clang where there is one (its default), without OpenMP, for this processor or LLMC_MARCH.
"""

import argparse
import ctypes
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

import numpy as np

import common
import models

FLAGS = ("-Ofast", "-Wno-unused-result", "-Wno-ignored-pragmas", "-Wno-unknown-attributes")
MAGIC, VERSION, HEADER = 20240326, 3, 256  # of a checkpoint of float32


def compile_library(folder, march, target):
    """llm.c's functions and llmc.c's as a shared library; returns its version and compiler."""
    compiler = shutil.which("clang") or "cc"
    source = pathlib.Path(__file__).with_name("llmc.c")
    kind = [f"-march={march}", "-shared", "-fPIC", f"-I{folder}"]
    subprocess.run([compiler, *FLAGS, *kind, "-o", target, source, "-lm"], check=True)
    command = ["git", "-C", folder, "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False)
    return commit.stdout.strip() or "unknown", compiler


def open_library(path):
    """The library with the types of its functions."""
    library = ctypes.CDLL(path)
    integers = ctypes.POINTER(ctypes.c_int)
    library.llmc_open.restype, library.llmc_open.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    library.llmc_close.restype, library.llmc_close.argtypes = None, [ctypes.c_void_p]
    library.llmc_step.restype = ctypes.c_float
    library.llmc_step.argtypes = [ctypes.c_void_p, integers, integers, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int,
                                  *[ctypes.c_float] * 5]
    return library


def write_checkpoint(path, sizes, values):
    """values: in the order of models.decoder. llm.c's matrices are [out, in], and those of all blocks lie together."""
    blocks, heads, width, positions, tokens = sizes
    parts = values[:2]
    for i in range(12):
        of_blocks = values[2 + i : -2 : 12]
        parts += [value.T if value.ndim > 1 else value for value in of_blocks]
    header = [MAGIC, VERSION, positions, tokens, blocks, heads, width, tokens]
    with open(path, "wb") as stream:
        stream.write(struct.pack(f"<{HEADER}i", *header, *[0] * (HEADER - len(header))))
        for value in [*parts, *values[-2:]]:
            stream.write(np.ascontiguousarray(value, "<f4").tobytes())


def make_build(library, directory):
    """The build function, see common.py."""
    path = pathlib.Path(directory) / "checkpoint.bin"
    model, done = None, 0

    def build(case):
        case.batches = [tuple(np.ascontiguousarray(part, np.intc) for part in batch) for batch in case.batches]
        numbers = [case.lr, *(models.ADAMW[name] for name in ("beta1", "beta2", "eps", "decay"))]

        def pointer(array):
            return array.ctypes.data_as(ctypes.POINTER(ctypes.c_int))

        def step(x, y):
            nonlocal done
            done += 1
            return library.llmc_step(model, pointer(x), pointer(y), *x.shape, done, *numbers)

        def reset(values):
            nonlocal model, done
            if model is not None:
                library.llmc_close(model)
            write_checkpoint(path, case.sizes, values)
            model, done = library.llmc_open(str(path).encode()), 0

        return step, reset, lambda loss: [loss]

    return build


def main():
    """Serves on stdin and stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    arguments = parser.parse_args()
    march = os.environ.get("LLMC_MARCH", "native")
    with tempfile.TemporaryDirectory(prefix="lockstep-llmc-") as directory:
        path = pathlib.Path(directory) / "llmc.so"
        commit, compiler = compile_library(arguments.folder, march, path)
        info = {"name": "llm.c", "version": commit, "compiler": compiler, "march": march}
        common.serve(make_build(open_library(path), directory), lambda: info)


if __name__ == "__main__":
    main()
