# SPDX-License-Identifier: MIT
"""gpt against GPT2LMHeadModel of the package transformers, in double precision: each reads what the other wrote, and
loss and gradients are the same. A gradient of ours is what a step of SGD takes off, at a rate so large that the values
it is taken off do not round it. The gradient of keys' biases is 0 but for rounding; it is left out.

Usage: transformers_gpt.py LOCKSTEP FOLDER
"""
import json
import pathlib
import subprocess
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
L, H, C, T, V = 2, 2, 64, 64, 256
SAMPLES, RATE = 4, 1000
LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 3e-5


def lockstep(*options):
    """Its row."""
    command = [PROGRAM, "run", "--model", f"gpt:{L}-{H}-{C}-{T}-{V}", "--data", f"file:{FOLDER}/tokens.safetensors",
               "--shuffle", "no", "--batch", SAMPLES, "--warmup", 0, "--gate-steps", 0, "--results", "none",
               "--format", "jsonl", *options]
    return json.loads(subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE).stdout)


def compare(what, model, file, x, y):
    """What differs between a model and ours with the values of a file, as lines."""
    to = FOLDER / "after.safetensors"
    row = lockstep("--steps", 1, "--verbose", "--optimizer", "sgd", "--lr", RATE, "--load", file, "--save", to)
    after = load_file(to)
    model = model.double().eval()
    loss = torch.nn.functional.cross_entropy(model(input_ids=x).logits.flatten(0, 1), y.flatten())
    loss.backward()
    off = abs(row["train"]["loss_first"] / loss.item() - 1)
    failed = [f"{what}: loss {row['train']['loss_first']}, not {loss.item()}"] if not off <= LOSS_TOLERANCE else []
    worst, count = 0, 0
    for name, parameter in model.transformer.named_parameters():
        ours, theirs = (parameter.detach() - after[name]) / RATE, parameter.grad
        if name.endswith("c_attn.bias"):
            ours, theirs = (torch.cat([part[:C], part[2 * C:]]) for part in (ours, theirs))
        error = ((ours - theirs).norm() / theirs.norm()).item()
        worst, count = max(worst, error), count + 1
        failed += [f"{what}: the gradient of {name} is off by {error:.1e}"] if not error <= GRADIENT_TOLERANCE else []
    print(f"{what}: loss off by {off:.1e}, {count} gradients by at most {worst:.1e}")
    return failed + ([f"{what}: {count} of {len(after)} tensors"] if count != len(after) else [])


def main():
    """Returns the exit status."""
    torch.manual_seed(3)
    x, y = torch.randint(V, (2, SAMPLES, T))
    save_file({"x0": x.float(), "y": y.float()}, FOLDER / "tokens.safetensors")
    config = transformers.GPT2Config(
        vocab_size=V, n_positions=T, n_embd=C, n_layer=L, n_head=H, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=None, eos_token_id=None, initializer_range=0.2)
    ours, theirs = FOLDER / "ours", FOLDER / "theirs"
    config.save_pretrained(ours)
    lockstep("--steps", 30, "--save", ours / "model.safetensors")  # trained, so that no bias is 0
    model, report = transformers.GPT2LMHeadModel.from_pretrained(ours, output_loading_info=True)
    failed = [f"transformers reads ours: {what}: {names}" for what, names in report.items() if names]
    failed += compare("ours", model, ours / "model.safetensors", x, y)
    model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(theirs)
    failed += compare("theirs", model, theirs / "model.safetensors", x, y)
    for line in failed:
        print("FAILED:", line)
    return int(bool(failed))


sys.exit(main())
