# SPDX-License-Identifier: MIT
"""The training step in PyTorch, on one CPU thread unless --threads says more.

Variants: `tuned` (fused Adam, denormals flushed) and `default` (torch.optim.Adam as it comes).
"""

import argparse

import torch

import common


def make_model(case):
    """nn.Sequential of Linear and ReLU; for poly one Linear without bias over the features."""
    layers = []
    for fan_in, fan_out in zip(case.sizes[:-1], case.sizes[1:]):
        layers += [torch.nn.Linear(fan_in, fan_out, bias=case.kind == "mlp"), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def make_forward(case, model):
    """(x, y) -> mean loss over the batch."""
    if case.kind == "poly":
        return lambda x, y: torch.nn.functional.mse_loss(model(x).squeeze(1), y)
    return lambda x, y: torch.nn.functional.cross_entropy(model(x), y)


def to_tensors(case):
    """The batches as tensors; labels are int64, which cross_entropy asks for."""
    kind = torch.int64 if case.kind == "mlp" else torch.float32
    return [(torch.from_numpy(x), torch.from_numpy(y).to(kind)) for x, y in case.batches]


def make_build(variant, wrap=lambda model: model):
    """The build function of one variant, see common.py; wrap makes a model a replica of several."""

    def build(case):
        case.batches = to_tensors(case)
        model = make_model(case)
        parameters = list(model.parameters())
        fused = True if variant == "tuned" else None
        betas = (common.ADAM["beta1"], common.ADAM["beta2"])
        adam = torch.optim.Adam(
            parameters, lr=case.lr, betas=betas, eps=common.ADAM["eps"], fused=fused
        )
        forward = make_forward(case, wrap(model))

        def step(x, y):
            loss = forward(x, y)
            adam.zero_grad()
            loss.backward()
            adam.step()
            return loss

        def reset(values):
            with torch.no_grad():
                for parameter, value in zip(parameters, values):
                    parameter.copy_(torch.from_numpy(value))
                for state in adam.state.values():
                    for tensor in state.values():
                        tensor.zero_()

        return step, reset, lambda loss: [loss.item()]

    return build


def prepare(variant, threads):
    """Sets the threads and denormals of this process; returns what `info` answers."""
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    flushed = variant == "tuned" and torch.set_flush_denormal(True)
    return {"name": "PyTorch", "version": torch.__version__, "denormals_flushed": flushed}


def main():
    """Serves one variant on stdin and stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("tuned", "default"), default="tuned")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    info = prepare(arguments.variant, arguments.threads)
    common.serve(make_build(arguments.variant), lambda: info)


if __name__ == "__main__":
    main()
