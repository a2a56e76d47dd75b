# SPDX-License-Identifier: MIT
"""The training step in PyTorch, on one CPU thread unless --threads says more, or on a GPU.

Variants: `tuned` (fused optimizer, denormals flushed), `default` (the default optimizer),
`compile` (tuned, loss and gradients through torch.compile, on a GPU with CUDA graphs), `float64`
(double throughout: the reference for rounding) and `graph` (on a GPU: tuned, the whole step
captured as one CUDA graph). In bfloat16: `autocast`, `compile-autocast`, and `rounded`
(torch_rounded.py). TF32 is off.
"""

import argparse

import torch
from torch.nn import functional

import common
import torch_models
import torch_rounded


def capture(train, case):
    """The step as one CUDA graph with its own buffers, to which each batch is copied."""
    x, y = (part.clone() for part in case.batches[0])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # allocations of the first steps must not be captured
        for _ in range(3):
            train(x, y)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train(x, y)

    def step(new_x, new_y):
        x.copy_(new_x)
        y.copy_(new_y)
        graph.replay()
        return loss

    return step


def backward(pieces, forward, optimizer, x, y):
    """The batch's loss and gradients, piece by piece: each piece's mean is divided by their number."""
    if pieces == 1:
        loss = forward(x, y)
        optimizer.zero_grad()
        loss.backward()
        return loss
    optimizer.zero_grad()
    total = 0
    for part_x, part_y in zip(x.chunk(pieces), y.chunk(pieces), strict=True):
        loss = forward(part_x, part_y) / pieces
        loss.backward()
        total += loss.detach()
    return total


def make_build(variant, wrap=lambda model: model, device="cpu"):
    """The build function of one variant, see common.py; wrap makes a model a replica of several."""

    def build(case):
        case.batches = torch_models.to_tensors(case, device)
        model = torch_models.make_model(case).to(device)
        parameters = [p for p in model.parameters() if p.requires_grad]
        fast = None if variant in ("default", "float64") else True
        optimizer = torch_models.make_optimizer(case, parameters, fast)
        if variant == "graph":
            for group in optimizer.param_groups:
                group["capturable"] = True
        forward = torch_models.make_forward(case, wrap(model), model)
        if variant == "rounded":
            forward = torch_rounded.make_forward(lambda z, y: functional.cross_entropy(z, y.flatten()), model)
        if variant.endswith("autocast"):
            forward = torch.autocast(device, torch.bfloat16)(forward)
        if variant.startswith("compile"):
            forward = torch.compile(forward, mode="reduce-overhead" if device == "cuda" else None)

        schedule = None

        def train(x, y):
            if variant.startswith("compile") and device == "cuda":
                torch.compiler.cudagraph_mark_step_begin()
            loss = backward(case.pieces, forward, optimizer, x, y)
            if case.clip:
                torch.nn.utils.clip_grad_norm_(parameters, case.clip)
            optimizer.step()
            if schedule:
                schedule.step()
            return loss

        def reset(values):
            nonlocal schedule
            schedule = torch_models.make_schedule(case, optimizer) if case.lr_warmup else None
            with torch.no_grad():
                for parameter, value in zip(parameters, values, strict=True):
                    parameter.copy_(torch.from_numpy(value))
                for state in optimizer.state.values():
                    for tensor in state.values():
                        if tensor is not None:
                            tensor.zero_()

        step = capture(train, case) if variant == "graph" else train
        return step, reset, lambda loss: [loss.item()]

    return build


def prepare(variant, threads):
    """Sets the threads and denormals of this process; returns what `info` answers."""
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_interop_threads(1)
    flushed = variant not in ("default", "float64") and torch.set_flush_denormal(True)
    if variant == "float64":
        torch.set_default_dtype(torch.float64)
    return {"name": "PyTorch", "version": torch.__version__, "denormals_flushed": flushed,
            "isa": torch.backends.cpu.get_cpu_capability()}


def main():
    """Serves one variant on stdin and stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    variants = ("tuned", "default", "compile", "float64", "graph", "rounded", "autocast", "compile-autocast")
    parser.add_argument("--variant", choices=variants, default="tuned")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    info = prepare(arguments.variant, arguments.threads)
    common.serve(make_build(arguments.variant, device=arguments.device), lambda: info)


if __name__ == "__main__":
    main()
