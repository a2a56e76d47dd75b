# SPDX-License-Identifier: MIT
"""The models as PyTorch modules; their trainable parameters are in the order of models.shapes.

Tuned: images channels last; windows with the step first; ReLU after the global max pool, which is the same and less; LRN's sum
over channels as a 1x1 convolution with a band of ones, and its power by roots; both windows of
twin-lstm in one batch; resnet's weight decay by the optimizer. PyTorch's LSTM has two biases, whose
sum is ours: the second stays 0.
"""

import torch
from torch import nn
from torch.nn import functional

import models


class Cnn(nn.Module):
    """28x28x1, convolution 3x3 to 32, global max pool, ReLU, dense 10."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 32, 3)
        self.dense = nn.Linear(32, 10)

    def forward(self, x):
        """[B,1,28,28] -> [B,10]"""
        return self.dense(functional.max_pool2d(self.conv(x), 26).flatten(1).relu())


class Cifar10(nn.Module):
    """The two-convolution tutorial model."""

    def __init__(self):
        super().__init__()
        self.conv0 = nn.Conv2d(3, 64, 5, padding=2)
        self.conv1 = nn.Conv2d(64, 64, 5, padding=2)
        self.dense0 = nn.Linear(2304, 384)
        self.dense1 = nn.Linear(384, 192)
        self.dense2 = nn.Linear(192, 10)
        band = torch.from_numpy(models.channels_band(64)).to(self.dense0.weight.dtype)
        self.register_buffer("band", (models.LRN_ALPHA * band)[:, :, None, None])
        self.register_buffer("one", torch.ones(64))

    def normalise(self, x):
        """LRN: x / s^(3/4)."""
        root = functional.conv2d(x * x, self.band, self.one).rsqrt()
        return x * (root * root.sqrt())

    def forward(self, x):
        """[B,3,24,24] -> [B,10]"""
        x = functional.max_pool2d(self.conv0(x).relu_(), 3, 2, ceil_mode=True)
        x = self.conv1(self.normalise(x)).relu_()
        x = functional.max_pool2d(self.normalise(x), 3, 2, ceil_mode=True)
        x = self.dense0(x.flatten(1)).relu_()
        return self.dense2(self.dense1(x).relu_())

    def decay(self):
        """The part of the loss that weight decay is."""
        squares = self.dense0.weight.square().sum() + self.dense1.weight.square().sum()
        return models.CIFAR_DECAY / 2 * squares


class Residual(nn.Module):
    """Convolutions with batch normalisation, two a block, and shortcuts padded with zero channels.
    Its weight decay is the optimizer's."""

    def __init__(self, layers):
        super().__init__()
        units = models.resnet_units(layers)
        self.units = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width, eps=models.BN_EPSILON),
            )
            for channels, width, stride in units
        )
        self.widths = [(stride, width - channels) for channels, width, stride in units]
        self.dense = nn.Linear(64, 10)

    def forward(self, x):
        """[B,3,32,32] -> [B,10]"""
        x = self.units[0](x).relu_()
        for i in range(1, len(self.units), 2):
            stride, more = self.widths[i]
            y = self.units[i + 1](self.units[i](x).relu_())
            if stride > 1:
                x = functional.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, more))
            x = y.add_(x).relu_()
        return self.dense(x.mean((2, 3)))

    def decay(self):
        """The part of the loss that weight decay is, which no gradient goes through."""
        with torch.no_grad():
            norms = torch._foreach_norm([p for p in self.parameters() if p.ndim > 1])
            return models.RESNET_DECAY / 2 * torch.stack(norms).square().sum()


class Recurrent(nn.Module):
    """LSTMs, the last state, dense 1; of two windows their states one after the other."""

    def __init__(self, sizes, windows):
        super().__init__()
        self.lstms = nn.ModuleList(nn.LSTM(inputs, units) for inputs, units in sizes)
        for lstm in self.lstms:
            lstm.bias_hh_l0.requires_grad_(False).zero_()
        self.windows = windows
        self.dense = nn.Linear(windows * sizes[-1][1], 1)

    def forward(self, x):
        """[T,B,I], of two windows [T,2B,I] -> [B]"""
        for lstm in self.lstms:
            x, (last, _) = lstm(x)
        last = torch.cat(last[0].chunk(self.windows), 1)
        return self.dense(last).squeeze(1)


class Projection(nn.Module):
    """y = x w + b, w [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        """[B,T,in] -> [B,T,out]"""
        return torch.addmm(self.bias, x.flatten(0, 1), self.weight).unflatten(0, x.shape[:2])


class Block(nn.Module):
    """A block of GPT-2's decoder, with PyTorch's fused attention."""

    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = Projection(width, 3 * width)
        self.c_proj = Projection(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = Projection(width, 4 * width)
        self.c_proj2 = Projection(4 * width, width)

    def forward(self, x):
        """[B,T,C] -> [B,T,C]"""
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).chunk(3, 2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).flatten(2))
        y = functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.c_proj2(y)


class Decoder(nn.Module):
    """GPT-2's decoder, whose head is the token embedding."""

    def __init__(self, blocks, heads, width, positions, tokens):
        super().__init__()
        self.wte = nn.Embedding(tokens, width)
        self.wpe = nn.Embedding(positions, width)
        self.h = nn.ModuleList(Block(heads, width) for _ in range(blocks))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        """[B,T] -> [B T,V]"""
        x = self.wte(x) + self.wpe.weight
        for block in self.h:
            x = block(x)
        return functional.linear(self.ln_f(x), self.wte.weight).flatten(0, 1)


def make_perceptron(case):
    """nn.Sequential of Linear and ReLU; for poly one Linear without bias over the features."""
    layers = []
    for fan_in, fan_out in zip(case.sizes[:-1], case.sizes[1:]):
        layers += [nn.Linear(fan_in, fan_out, bias=case.kind == "mlp"), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def make_model(case):
    """The case's module."""
    if case.kind == "cnn":
        return Cnn()
    if case.kind == "gpt":
        return Decoder(*case.sizes)
    if case.kind == "cifar10":
        return Cifar10().to(memory_format=torch.channels_last)
    if case.kind == "resnet":
        return Residual(case.sizes[0]).to(memory_format=torch.channels_last)
    if case.kind == "twin-lstm":
        return Recurrent([(models.BYTES, case.sizes[0])], 2)
    if case.kind == "lstm-stack":
        units = models.STACK_UNITS
        return Recurrent([(units if i else models.BYTES, units) for i in range(case.sizes[0])], 1)
    return make_perceptron(case)


def make_forward(case, model, module):
    """(x, y) -> mean loss over the batch; model may be module as a replica of several."""
    if case.kind == "poly":
        return lambda x, y: functional.mse_loss(model(x).squeeze(1), y)
    if case.kind.endswith("lstm") or case.kind == "lstm-stack":
        return lambda x, y: functional.binary_cross_entropy_with_logits(model(x), y)
    if case.kind in ("cifar10", "resnet"):
        return lambda x, y: functional.cross_entropy(model(x), y) + module.decay()
    return lambda x, y: functional.cross_entropy(model(x), y.flatten())


def to_tensors(case, device="cpu"):
    """The batches as tensors of PyTorch's default type; labels as the losses ask for."""
    tokens = case.kind == "gpt"
    real = torch.int64 if tokens else torch.get_default_dtype()
    kind = torch.int64 if tokens or case.kind in ("mlp", "cnn", "cifar10", "resnet") else real
    windows = case.kind in ("twin-lstm", "lstm-stack")
    batches = [(models.steps_first(x) if windows else x, y) for x, y in case.batches]
    tensors = [(torch.from_numpy(x).to(device, real), torch.from_numpy(y).to(device, kind)) for x, y in
               batches]
    if case.kind in ("cifar10", "resnet"):
        tensors = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in tensors]
    return tensors


def make_schedule(case, optimizer):
    """Linear warm-up, then cosine to the case's last step. From the first step, also of an optimizer used before."""
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] = case.lr
    rates, warmup = torch.optim.lr_scheduler, case.lr_warmup
    rise = rates.LinearLR(optimizer, 1 / warmup, total_iters=warmup - 1)
    fall = rates.CosineAnnealingLR(optimizer, case.steps - warmup, case.min_lr)
    return rates.SequentialLR(optimizer, [rise, fall], [warmup])


def make_optimizer(case, parameters, fast):
    """The case's optimizer; fast: one pass over all parameters."""
    if case.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=case.lr, fused=fast)
    if case.optimizer == "momentum":
        weights = {"params": [p for p in parameters if p.ndim > 1],
                   "weight_decay": models.RESNET_DECAY}
        others = {"params": [p for p in parameters if p.ndim == 1]}
        return torch.optim.SGD(
            [weights, others], lr=case.lr, momentum=models.MOMENTUM, fused=fast
        )
    if case.optimizer == "adamw":
        values = models.ADAMW
        decayed = {"params": [p for p in parameters if p.ndim > 1], "weight_decay": values["decay"]}
        others = {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0}
        return torch.optim.AdamW(
            [decayed, others], lr=case.lr, betas=(values["beta1"], values["beta2"]),
            eps=values["eps"], fused=fast
        )
    if case.optimizer == "rmsprop":
        values = models.RMSPROP
        return torch.optim.RMSprop(
            parameters, lr=case.lr, alpha=values["rho"], eps=values["eps"], foreach=fast
        )
    betas = (models.ADAM["beta1"], models.ADAM["beta2"])
    return torch.optim.Adam(parameters, lr=case.lr, betas=betas, eps=models.ADAM["eps"], fused=fast)
