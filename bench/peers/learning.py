# SPDX-License-Identifier: MIT
"""The losses of gpt on the text of Debian's licences, Lockstep's beside PyTorch's: the same windows in the same order,
from the same initial values.

Usage: learning.py --lockstep PROGRAM --out ROWS.jsonl [--model MODEL] [--batch N] [--steps N] [--precision bf16]

Writes both as rows of `lockstep run --verbose`, for `lockstep report` (loss-steps.svg), and prints the mean of each
hundred steps. Exit status 1: that of the last hundred differs by more than 1%.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import numpy as np

import common
import models
import peer_torch
import runners

TEXTS = pathlib.Path("/usr/share/common-licenses")
MEAN = 100  # steps
BOUND = 0.01
VARIANTS = {"float32": "tuned", "bf16": "autocast"}  # of peer_torch.py


def write_windows(path, positions, batch):
    """Whole batches of windows of the texts' bytes; the targets are one byte further on."""
    files = {file.resolve(): None for file in sorted(TEXTS.iterdir())}
    text = np.frombuffer(b"".join(file.read_bytes() for file in files), np.uint8).astype(np.float32)
    count = (len(text) - 1) // positions // batch * batch
    end = count * positions
    models.save_file({"x0": text[:end].reshape(count, -1), "y": text[1 : end + 1].reshape(count, -1)}, path)


def train_torch(request, steps, variant):
    """The losses of as many steps, and what PyTorch says of itself."""
    info = peer_torch.prepare(variant, 1)
    models.BATCHES = steps  # at most; the file has fewer
    return common.Trainer(common.Case(request), peer_torch.make_build(variant)).losses(), info


def save_rows(path, row, losses, info, directory):
    """Lockstep's row, of its losses alone, and PyTorch's, like it; without the folder of the files."""
    common_part = {name: row[name] for name in ("schema", "timestamp", "command", "label")}
    own = common_part | {name: row[name] for name in ("id", "case", "result", "train", "provenance")}
    theirs = common_part | {
        "id": f"{row['id']}-torch", "case": row["case"] | {"strategy": "torch"}, "result": {"status": "ok"},
        "train": {"loss_first": losses[0], "loss_last": losses[-1], "losses": losses},
        "peer": {"what": "PyTorch", **info},
        "provenance": {name: row["provenance"][name] for name in ("commit", "dirty") if name in row["provenance"]},
    }
    for part in (own, theirs):
        part["train"]["losses"] = [float(f"{loss:.7g}") for loss in part["train"]["losses"]]
    text = "".join(json.dumps(part) + "\n" for part in (own, theirs))
    pathlib.Path(path).write_text(text.replace(f"{directory}/", ""), encoding="utf-8")


def main():
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="build/lockstep")
    parser.add_argument("--out", required=True)
    parser.add_argument("--model", default="gpt:4-4-128-128-256")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--precision", choices=VARIANTS, default="float32")
    arguments = parser.parse_args()
    model, batch, steps = arguments.model, arguments.batch, arguments.steps
    lockstep = runners.Lockstep(arguments.lockstep, ())
    with tempfile.TemporaryDirectory(prefix="lockstep-learning-") as directory:
        data, init = f"{directory}/text.safetensors", f"{directory}/init.safetensors"
        write_windows(data, models.parse_model(model)[1][3], batch)
        files = ["--data", f"file:{data}", "--precision", arguments.precision]
        lockstep.save_initial(model, 1, init, files)
        row = lockstep.run(model, "--batch", batch, "--steps", steps, "--warmup", 0, "--blocks", 1, "--verbose",
                           "--label", "learning", "--load", init, *files)
        theirs, info = train_torch({"model": model, "batch": batch, "init": init, "data": data}, steps,
                                   VARIANTS[arguments.precision])
    ours = row["train"]["losses"]
    save_rows(arguments.out, row, theirs, info, directory)
    difference = 0
    for end in range(MEAN, steps + 1, MEAN):
        means = [statistics.mean(losses[end - MEAN : end]) for losses in (ours, theirs)]
        difference = means[0] / means[1] - 1
        print(f"steps {end - MEAN} to {end - 1}: Lockstep {means[0]:.5f}, PyTorch {means[1]:.5f}, {difference:+.2%}")
    return int(abs(difference) > BOUND)


if __name__ == "__main__":
    sys.exit(main())
