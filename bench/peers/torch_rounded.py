# SPDX-License-Identifier: MIT
"""bfloat16 where `lockstep --precision bf16` has it, in float32 arithmetic: outputs of nodes, gradients with respect to
their inputs, the copies of parameters and a batch's real inputs are rounded to nearest even; gradients of parameters,
sums and the optimizer's state are not. One difference: gradients of several uses of an output are added, then rounded
once.
"""

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class Round(torch.autograd.Function):
    """Rounds a value, and the gradient that comes back."""

    @staticmethod
    def forward(_, x):
        return x.bfloat16().float()

    @staticmethod
    def backward(_, gradient):
        return gradient.bfloat16().float()


class Copy(torch.autograd.Function):
    """Rounds a parameter, and not its gradient."""

    @staticmethod
    def forward(_, x):
        return x.bfloat16().float()

    @staticmethod
    def backward(_, gradient):
        return gradient


NODES = {
    functional.linear, torch.addmm, torch.conv2d, functional.conv2d, functional.layer_norm, functional.gelu,
    functional.scaled_dot_product_attention, functional.embedding, torch.Tensor.add, torch.Tensor.__add__,
}


class Rounding(TorchFunctionMode):
    """Rounds what a node's function returns."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return Round.apply(out) if func in NODES else out


def make_forward(loss, module):
    """loss(x, y) with rounding; of the model's part alone, since a loss is not rounded."""

    def forward(x, y):
        copies = {name: Copy.apply(p) for name, p in module.named_parameters()}
        x = Round.apply(x) if x.is_floating_point() else x
        with Rounding():
            z = torch.func.functional_call(module, copies, (x,), tie_weights=True)
        return loss(z, y)

    return forward
