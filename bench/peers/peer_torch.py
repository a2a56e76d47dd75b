# SPDX-License-Identifier: MIT
"""The training step in PyTorch, on one CPU thread unless --threads says more.

Variants: `tuned` (fused optimizer, denormals flushed), `default` (the optimizer as it comes),
`compile` (tuned, loss and gradients through torch.compile) and `float64` (double throughout: what
the others are rounded from).
"""

import argparse

import torch

import common
import torch_models


def make_build(variant, wrap=lambda model: model):
    """The build function of one variant, see common.py; wrap makes a model a replica of several."""

    def build(case):
        case.batches = torch_models.to_tensors(case)
        model = torch_models.make_model(case)
        parameters = [p for p in model.parameters() if p.requires_grad]
        fast = True if variant in ("tuned", "compile") else None
        optimizer = torch_models.make_optimizer(case, parameters, fast)
        forward = torch_models.make_forward(case, wrap(model), model)
        if variant == "compile":
            forward = torch.compile(forward)

        def step(x, y):
            loss = forward(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        def reset(values):
            with torch.no_grad():
                for parameter, value in zip(parameters, values, strict=True):
                    parameter.copy_(torch.from_numpy(value))
                for state in optimizer.state.values():
                    for tensor in state.values():
                        if tensor is not None:
                            tensor.zero_()

        return step, reset, lambda loss: [loss.item()]

    return build


def prepare(variant, threads):
    """Sets the threads and denormals of this process; returns what `info` answers."""
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    flushed = variant in ("tuned", "compile") and torch.set_flush_denormal(True)
    if variant == "float64":
        torch.set_default_dtype(torch.float64)
    return {"name": "PyTorch", "version": torch.__version__, "denormals_flushed": flushed}


def main():
    """Serves one variant on stdin and stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    variants = ("tuned", "default", "compile", "float64")
    parser.add_argument("--variant", choices=variants, default="tuned")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    info = prepare(arguments.variant, arguments.threads)
    common.serve(make_build(arguments.variant), lambda: info)


if __name__ == "__main__":
    main()
