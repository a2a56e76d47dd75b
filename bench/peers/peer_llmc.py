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
# llm.c's functions and three more; its main is left out. The program decays all variables; here only those of two axes,
# and before the update, which is the same.
SOURCE = r"""
#define TESTING
#include "train_gpt2.c"

/* The model of a checkpoint file in llm.c's form. */
GPT2 *llmc_open(const char *path)
{
    GPT2 *model = mallocCheck(sizeof *model);
    gpt2_build_from_checkpoint(model, path);
    return model;
}

void llmc_close(GPT2 *model)
{
    gpt2_free(model);
    free(model);
}

/* Trains step `t`, counted from 1, as its main does; returns the loss. x, y: [B,T]. */
float llmc_step(GPT2 *model, int *x, int *y, size_t B, size_t T, int t, float rate, float beta1,
                float beta2, float eps, float decay)
{
    static const int of_two_axes[NUM_PARAMETER_TENSORS] = {
        [0] = 1, [1] = 1, [4] = 1, [6] = 1, [10] = 1, [12] = 1};
    gpt2_forward(model, x, y, B, T);
    gpt2_zero_grad(model);
    gpt2_backward(model);
    float *weight = model->params_memory;
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++)
        for (size_t end = model->param_sizes[i]; end; end--, weight++)
            if (of_two_axes[i])
                *weight *= 1 - rate * decay;
    gpt2_update(model, rate, beta1, beta2, eps, 0, t);
    return model->mean_loss;
}
"""
MAGIC, VERSION, HEADER = 20240326, 3, 256  # of a checkpoint of float32


def compile_library(folder, march, target):
    """Makes a shared library of SOURCE; returns llm.c's commit and the compiler."""
    compiler = shutil.which("clang") or "cc"
    source = target.with_suffix(".c")
    source.write_text(SOURCE, encoding="ascii")
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
