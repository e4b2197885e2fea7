#!/usr/bin/env python3
"""Imports random models of PyTorch that torch.onnx.export writes, in operator sets 11 to 16: onnx_torch_test.py ONNX_DUMP TROUPE.

Also small nets of known families, rewritten to operator set 18 with their weights in a file beside the model, as PyTorch's exporter does today.
Predictions of the imported job equal PyTorch's to 1e-5 of the largest. `--seed N` draws other models, `--keep FOLDER` keeps the files.
"""
import os
import random
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tensors

MODELS = 90
EXAMPLES = 3
ARGS = sys.argv[1:]
SEED = int(ARGS[ARGS.index("--seed") + 1]) if "--seed" in ARGS else 1
KEEP = ARGS[ARGS.index("--keep") + 1] if "--keep" in ARGS else None
DUMP, TROUPE = ARGS[:2]
# Operators that the models must have.
OPERATORS = set("""Add AveragePool BatchNormalization Clip Concat Conv ConvTranspose Div Elu Erf Flatten GRU Gather Gemm GlobalAveragePool HardSigmoid HardSwish InstanceNormalization LSTM LeakyRelu
    LogSoftmax MatMul Max MaxPool Mul Neg PRelu Pad Pow RNN ReduceMean Relu Reshape Resize Shape Sigmoid Slice Softmax Squeeze Sub Tanh Transpose
    Unsqueeze Where""".split())
WORDS = 9  # ids, and at least as many outputs


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return torch.relu(x + self.inner(x))


class Branches(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x)], 1)


class Function(nn.Module):
    def __init__(self, f, about=""):
        super().__init__()
        self.f, self.about = f, about

    def extra_repr(self):
        return self.about

    def forward(self, x):
        return self.f(x)


class Recurrent(nn.Module):
    """The outputs of all steps, or the last one."""

    def __init__(self, net, take):
        super().__init__()
        self.net, self.take = net, take

    def forward(self, x):
        y, state = self.net(x)
        if self.take == "all":
            return y
        if self.take == "last":
            return y[:, -1]
        return (state[0] if isinstance(state, tuple) else state)[-1]


class Attention(nn.Module):
    """Heads of attention, masked by a number that is added, by a condition, or not at all."""

    def __init__(self, width, heads, steps, mask):
        super().__init__()
        self.heads, self.mask = heads, mask
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        later = torch.ones(steps, steps, dtype=torch.bool).triu(1)
        self.register_buffer("later", torch.zeros(steps, steps).masked_fill(later, -torch.inf) if mask == "added" else later)

    def extra_repr(self):
        return f"mask {self.mask}"

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.view(n, t, self.heads, width // self.heads).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=2))
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        if self.mask == "added":
            scores = scores + self.later
        elif self.mask == "condition":
            scores = scores.masked_fill(self.later, -torch.inf)
        y = torch.softmax(scores, -1) @ v
        return x + self.out(y.transpose(1, 2).reshape(n, t, width))


class Positions(nn.Module):
    def __init__(self, steps, width):
        super().__init__()
        self.places = nn.Parameter(torch.zeros(1, steps, width))

    def forward(self, x):
        return x + self.places


class Words(nn.Module):
    def __init__(self, net, outputs):
        super().__init__()
        self.table, self.net = nn.Embedding(WORDS, outputs), net

    def forward(self, ids):
        return self.net(self.table(ids))


def by_axis(rng, least, most):
    """Two numbers, half of the time equal ones."""
    first = rng.randint(least, most)
    return (first, first) if rng.random() < 0.5 else (first, rng.randint(least, most))


def activation(rng, channels):
    return rng.choice([
        nn.ReLU(), nn.LeakyReLU(0.1), nn.ELU(0.7), nn.Sigmoid(), nn.Tanh(), nn.GELU(), nn.GELU(approximate="tanh"), nn.PReLU(channels),
        nn.PReLU(), nn.Dropout(0.3), nn.Identity(), nn.BatchNorm2d(channels), Function(lambda x: x * 2.5),
        Function(lambda x: x + 0.5), Function(lambda x: 1.5 - x), Function(lambda x: x / 4), Function(lambda x: torch.sigmoid(x) * x),
        Function(lambda x: torch.maximum(x, -x * 0.5)), nn.Softmax(1),
    ])


def image_step(rng, channels, shape):
    """A module that reads [N, channels, *shape], which is large enough."""
    h, w = shape
    outputs = rng.randint(1, 4)
    kind = rng.choice(["conv", "conv", "depthwise", "transpose", "max", "avg", "pad", "up", "residual", "branches", "crop", "chunk", "scale", "group",
                       "instance", "permute", "reshape"])
    if kind == "conv":
        k, d, p, s = by_axis(rng, 1, 3), by_axis(rng, 1, 2), by_axis(rng, 0, 2), by_axis(rng, 1, 2)
        k = tuple(1 if d_ * (k_ - 1) + 1 > n + 2 * p_ else k_ for k_, d_, p_, n in zip(k, d, p, shape))
        groups = rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
        return nn.Conv2d(channels, outputs * groups, k, s, p, d, groups, rng.random() < 0.7)
    if kind == "depthwise":
        return nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
    if kind == "transpose":
        stride = by_axis(rng, 1, 3)
        return nn.ConvTranspose2d(channels, outputs, by_axis(rng, 2, 4), stride, tuple(rng.randint(0, min(1, s - 1)) for s in stride),
                                  tuple(rng.randint(0, s - 1) for s in stride), 1, rng.random() < 0.7)
    if kind in ("max", "avg"):
        k = rng.randint(2, 3)
        if k > min(h, w):
            return nn.AdaptiveAvgPool2d(1) if kind == "avg" else nn.AdaptiveMaxPool2d(1)
        stride, pad, ceil = by_axis(rng, 1, 3), by_axis(rng, 0, k // 2), rng.random() < 0.5
        k = (k, rng.randint(2, k))
        pad = (pad[0], min(pad[1], k[1] // 2))
        if kind == "max":
            return nn.MaxPool2d(k, stride, pad, ceil_mode=ceil)
        # With padding, PyTorch exports a border and a pooling that rounds up, which is larger than its own result.
        return nn.AvgPool2d(k, stride, pad, ceil and pad == (0, 0), rng.random() < 0.5)
    if kind == "pad":
        sides = [rng.randint(0, min(2, n - 1)) for n in (w, w, h, h)]
        return rng.choice([nn.ZeroPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d])(tuple(sides))
    if kind == "up":
        if rng.random() < 0.5:
            return nn.Upsample(scale_factor=rng.randint(2, 3), mode="nearest")
        return nn.Upsample(scale_factor=2, mode="bilinear", align_corners=rng.random() < 0.5)
    if kind == "residual":
        return Residual(nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 1)))
    if kind == "branches":
        return Branches(nn.Conv2d(channels, outputs, 1), nn.MaxPool2d(3, 1, 1))
    if kind == "crop":
        return Function(lambda x: x[:, :, : max(1, h - 1), -max(1, w - 1) :])
    if kind == "group" and h * w > 1:
        return nn.GroupNorm(rng.choice([g for g in range(1, channels + 1) if channels % g == 0]), channels, 1e-3, rng.random() < 0.7)
    if kind == "instance" and h * w > 1:
        return nn.InstanceNorm2d(channels, 1e-3, affine=rng.random() < 0.5)
    if kind == "permute":
        order = rng.choice([(0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 1, 2)])
        return Function(lambda x: x.permute(order).contiguous(), f"permute {order}")
    if kind == "reshape":
        return Function(lambda x: x.reshape(x.shape[0], h, channels, w), "reshape")
    if kind == "chunk" and channels % 2 == 0:
        return Function(lambda x: torch.chunk(x, 2, 1)[0] * torch.sigmoid(torch.chunk(x, 2, 1)[1]))
    return nn.BatchNorm2d(channels)


def image_model(rng):
    shape = [rng.randint(1, 4), rng.randint(4, 10), rng.randint(4, 10)]
    x = torch.zeros(2, *shape)
    steps = []
    for _ in range(rng.randint(1, 5)):
        steps.append(image_step(rng, x.shape[1], x.shape[2:]).eval())
        x = steps[-1](x)
        steps.append(activation(rng, x.shape[1]).eval())
    if rng.random() < 0.4:
        steps += [nn.AdaptiveAvgPool2d(1)]
        x = steps[-1](x)
    steps.append(rng.choice([nn.Flatten(), Function(lambda t: torch.flatten(t, 1)), Function(lambda t: t.view(t.size(0), -1)), Function(lambda t: t.reshape(t.shape[0], -1))]))
    width = int(np.prod(x.shape[1:]))
    if rng.random() < 0.5:
        steps += [nn.Linear(width, 7), rng.choice([nn.ReLU(), nn.GELU(), nn.BatchNorm1d(7), nn.LayerNorm(7), nn.Dropout()])]
        width = 7
    return nn.Sequential(*steps, nn.Linear(width, 5, bias=rng.random() < 0.7)), shape


def series_model(rng):
    """Convolutions and pooling of one axis."""
    shape = [rng.randint(1, 4), rng.randint(8, 16)]
    x, steps = torch.zeros(2, *shape), []
    for _ in range(rng.randint(1, 4)):
        channels, length = x.shape[1:]
        kind, k, s = rng.choice(["conv", "conv", "transpose", "max", "avg", "norm"]), rng.randint(1, 3), rng.randint(1, 2)
        if kind == "conv" and length > 4:
            groups = rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
            steps.append(nn.Conv1d(channels, groups * rng.randint(1, 3), k, s, rng.randint(0, 2), rng.randint(1, 2), groups, rng.random() < 0.7))
        elif kind == "transpose":
            steps.append(nn.ConvTranspose1d(channels, rng.randint(1, 3), k + 1, s, rng.randint(0, 1), rng.randint(0, s - 1)))
        elif kind == "max" and length > 3:
            steps.append(nn.MaxPool1d(k, s, rng.randint(0, k // 2), ceil_mode=rng.random() < 0.5))
        elif kind == "avg" and length > 3:
            steps.append(nn.AvgPool1d(k, s, 0, rng.random() < 0.5, rng.random() < 0.5))
        else:
            steps.append(nn.BatchNorm1d(channels))
        x = steps[-1].eval()(x)
        steps.append(rng.choice([nn.ReLU(), nn.Tanh(), nn.PReLU(x.shape[1])]))
    if rng.random() < 0.3:
        steps.append(nn.AdaptiveAvgPool1d(1))
        x = steps[-1](x)
    return nn.Sequential(*steps, nn.Flatten(), nn.Linear(int(np.prod(x.shape[1:])), 5)), shape


def sequence_net(rng, width, length):
    steps = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(["linear", "norm", "act", "lstm", "gru", "rnn", "attention", "attention", "conv", "conv"])
        if kind == "attention":
            if rng.random() < 0.5:
                steps.append(Positions(length, width))
            heads = rng.choice([h for h in range(1, width + 1) if width % h == 0])
            steps.append(Attention(width, heads, length, rng.choice(["added", "condition", "none"])))
            continue
        units = rng.randint(1, 6)
        if kind == "linear":
            steps.append(nn.Linear(width, units, bias=rng.random() < 0.7))
            width = units
        elif kind == "conv":  # over the steps: transposed before and after it
            k, d = rng.randint(1, 3), rng.randint(1, 2)
            pad = rng.randint(d * (k - 1), d * (k - 1) + 1)
            turn = Function(lambda t: t.transpose(1, 2))
            steps += [turn, nn.Conv1d(width, units, k, 1, pad, d, bias=rng.random() < 0.7), nn.Tanh(), turn]
            width, length = units, length + 2 * pad - d * (k - 1)
        elif kind == "norm":
            steps.append(nn.LayerNorm(width, 1e-3, rng.random() < 0.7))
        elif kind == "act":
            steps.append(rng.choice([nn.GELU(), nn.ReLU(), nn.Tanh(), nn.GELU(approximate="tanh")]))
        else:
            make = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[kind]
            more = {"nonlinearity": rng.choice(["tanh", "relu"])} if kind == "rnn" else {}
            steps.append(Recurrent(make(width, units, rng.randint(1, 2), batch_first=True, bias=rng.random() < 0.7, **more), "all"))
            width = units
    take = rng.choice(["all", "last", "state"])
    steps.append(Recurrent(rng.choice([nn.LSTM, nn.GRU])(width, 4, batch_first=True), take))
    if take == "all":
        steps += [rng.choice([nn.Flatten(), Function(lambda t: t[:, -1]), Function(lambda t: t[:, 0, :])])]
    return steps


def sequence_model(rng):
    steps_, width = rng.randint(2, 5), rng.randint(1, 5)
    net = sequence_net(rng, width, steps_)
    flat = nn.Sequential(*net).eval()(torch.zeros(2, steps_, width)).shape[1]
    return nn.Sequential(*net, nn.Linear(flat, 4)), [steps_, width]


def word_model(rng):
    steps_, width = rng.randint(2, 5), rng.randint(1, 5)
    net = sequence_net(rng, width, steps_)
    flat = nn.Sequential(*net).eval()(torch.zeros(2, steps_, width)).shape[1]
    return Words(nn.Sequential(*net, nn.Linear(flat, WORDS)), width), [steps_]


def vector_model(rng):
    width, steps = rng.randint(2, 9), []
    given = width
    for _ in range(rng.randint(1, 4)):
        steps.append(nn.Linear(width, 6, bias=rng.random() < 0.7))
        width = 6
        steps.append(rng.choice([nn.ReLU(), nn.GELU(), nn.BatchNorm1d(6), nn.LayerNorm(6), nn.Dropout(), nn.Softmax(-1), nn.Tanh(), Residual(nn.Linear(6, 6))]))
    return nn.Sequential(*steps, nn.Linear(width, 4)), [given]


def randomise(model, rng):
    with torch.no_grad():
        for name, t in list(model.named_parameters()) + list(model.named_buffers()):
            if t.is_floating_point() and not name.endswith("later"):  # a mask
                t.add_(torch.from_numpy(rng.standard_normal(tuple(t.shape)).astype(np.float32)) * 0.1)
                if name.endswith("running_var"):
                    t.abs_().add_(0.1)


def block(given, made, kernel=3, stride=1, groups=1, act=nn.ReLU6):
    return nn.Sequential(nn.Conv2d(given, made, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(made), act())


class Excite(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels, gate):
        super().__init__()
        self.fewer, self.more, self.gate = nn.Conv2d(channels, 2, 1), nn.Conv2d(2, channels, 1), gate()

    def forward(self, x):
        return x * self.gate(self.more(torch.relu(self.fewer(nn.functional.adaptive_avg_pool2d(x, 1)))))


class LastState(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.scores = nn.LSTM(5, 7, batch_first=True), nn.Linear(7, 4)

    def forward(self, x):
        return self.scores(self.lstm(x)[0][:, -1])


class Block(nn.Module):
    """A block of a transformer, normalised before its two halves."""

    def __init__(self, width, heads, steps, mask, approximate):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, steps, mask)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(approximate=approximate), nn.Linear(2 * width, width))

    def forward(self, x):
        x = self.attention(self.before(x))
        return x + self.mlp(self.after(x))


class Bare(nn.Module):
    """A layer norm written out, with a weight and without a bias."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        d = x - x.mean(-1, keepdim=True)
        return d / torch.sqrt((d * d).mean(-1, keepdim=True) + 1e-5) * self.weight


def transformer(mask, approximate, last):
    return nn.Sequential(Positions(5, 12), Block(12, 3, 5, mask, approximate), Block(12, 3, 5, mask, approximate), last,
                         Function(lambda x: x.mean(1)), nn.Linear(12, 4))


def encoder_layer(batch_first, norm_first=False, activation="relu"):
    return nn.TransformerEncoderLayer(12, 3, 24, 0.1, activation, batch_first=batch_first, norm_first=norm_first)


class SelfAttention(nn.Module):
    """nn.MultiheadAttention, whose batch is one axis with the heads."""

    def __init__(self, **more):
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 3, batch_first=True, **more)

    def forward(self, x):
        return x + self.attention(x, x, x, need_weights=False)[0]


class Encoder(nn.Module):
    """nn.TransformerEncoder, perhaps with a mask, over [N, T, values] or over [T, N, values] with positions."""

    def __init__(self, layer, masked, batch_first):
        super().__init__()
        self.layers, self.batch_first = nn.TransformerEncoder(layer, 2, nn.LayerNorm(12), enable_nested_tensor=False), batch_first
        self.register_buffer("later", nn.Transformer.generate_square_subsequent_mask(5) if masked else None)
        self.places = nn.Parameter(torch.zeros(1, 5, 12) if batch_first else torch.zeros(5, 1, 12))

    def forward(self, x):
        if self.batch_first:
            return self.layers(x + self.places, self.later)
        return self.layers(x.transpose(0, 1) + self.places, self.later).transpose(0, 1)


class FirstStep(nn.Module):
    """The state of the first step of layers that have the steps in front."""

    def __init__(self, layer, take):
        super().__init__()
        self.layer, self.take = layer, take

    def forward(self, x):
        y = self.layer(x.transpose(0, 1))
        return y[0] if self.take == "first" else y.mean(0)


class PackedAttention(nn.Module):
    """nn.MultiheadAttention as PyTorch 2 writes it: one projection, whose parts an axis of 3 tells apart, and heads in a view.

    `rows`: the key is turned in [N heads, T, values], as torch.onnx.export(dynamo=True) writes it.
    """

    def __init__(self, mask, rows):
        super().__init__()
        self.project, self.out, self.rows = nn.Linear(12, 36), nn.Linear(12, 12), rows
        self.register_buffer("later", torch.full((5, 5), -torch.inf).triu(1) if mask else None)

    def forward(self, x):
        n = x.shape[0]
        steps = x.transpose(0, 1)
        parts = self.project(steps).view(5, n, 3, 12).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        q, k, v = (parts[i].reshape(5, n * 3, 4).transpose(0, 1).reshape(n, 3, 5, 4) for i in range(3))
        turned = k.reshape(-1, 5, 4).transpose(1, 2).reshape(n, 3, 4, 5) if self.rows else k.transpose(-2, -1)
        scores = (q * 0.7071) @ (turned * 0.7071)
        if self.later is not None:
            scores = scores + self.later
        y = (torch.softmax(scores, -1) @ v).permute(2, 0, 1, 3).reshape(n * 5, 12)
        return x + self.out(y).view(5, n, 12).transpose(0, 1)


class Rows(nn.Module):
    """A perceptron and a norm over the rows [N T, values], as models of GPT-2 have it."""

    def __init__(self):
        super().__init__()
        self.more, self.fewer, self.norm = nn.Linear(12, 24), nn.Linear(24, 12, bias=False), nn.LayerNorm(12)

    def forward(self, x):
        rows = x.reshape(-1, 12)
        return (rows + self.norm(self.fewer(torch.relu(self.more(rows))))).view(x.shape)


def sequence_families():
    head = [Function(lambda x: x.mean(1)), nn.Linear(12, 4)]
    inner = {
        "multihead": [SelfAttention()],
        "multihead_no_bias": [SelfAttention(bias=False)],
        "encoder_layer": [encoder_layer(True)],
        "encoder_layer_gelu": [encoder_layer(True, True, "gelu")],
        "encoder_stack": [Encoder(encoder_layer(True), False, True)],
        "encoder_causal": [Encoder(encoder_layer(True), True, True)],
        "encoder_steps_first": [Encoder(encoder_layer(False), True, False)],
        "packed": [PackedAttention(False, False)],
        "packed_causal": [PackedAttention(True, False)],
        "packed_rows": [PackedAttention(True, True)],
        "rows": [Rows()],
    }
    made = {name: (nn.Sequential(*net, *head), [5, 12]) for name, net in inner.items()}
    made["first_step"] = (nn.Sequential(FirstStep(encoder_layer(False), "first"), nn.Linear(12, 4)), [5, 12])
    made["mean_step"] = (nn.Sequential(FirstStep(encoder_layer(False, True), "mean"), nn.Linear(12, 4)), [5, 12])
    return made


def head(channels):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 4)]


# Nets of known families, small: {name: (module, extents of an example)}.
def families():
    inverted = Residual(nn.Sequential(block(8, 24, 1), block(24, 24, 3, groups=24), nn.Conv2d(24, 8, 1, bias=False), nn.BatchNorm2d(8)))
    hard = nn.Sequential(block(3, 8, act=nn.Hardswish), block(8, 8, 5, 2, 8, nn.Hardswish), Excite(8, nn.Hardsigmoid), *head(8))
    return {
        "resnet": (nn.Sequential(block(3, 8, act=nn.ReLU), Residual(block(8, 8, act=nn.ReLU)), nn.MaxPool2d(3, 2, 1), *head(8)), [3, 12, 12]),
        "mobilenet_v2": (nn.Sequential(block(3, 8, 3, 2), inverted, *head(8)), [3, 12, 12]),
        "mobilenet_v3": (hard, [3, 12, 12]),
        "squeeze_excite": (nn.Sequential(nn.Conv2d(3, 6, 3), Excite(6, nn.Sigmoid), nn.SiLU(), *head(6)), [3, 9, 8]),
        "vgg": (nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 10), nn.ReLU(), nn.Dropout(), nn.Linear(10, 4)), [3, 8, 8]),
        "lstm": (LastState(), [6, 5]),
        "clip": (nn.Sequential(nn.Linear(7, 9), nn.Hardtanh(-0.5, 0.25), nn.Linear(9, 4)), [7]),
        "one_number": (nn.Sequential(Function(lambda x: (x * 2.0).unsqueeze(1)), nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 4)), []),
        "gpt": (transformer("condition", "tanh", nn.LayerNorm(12)), [5, 12]),
        "gpt_added": (transformer("added", "none", Bare(12)), [5, 12]),
        "encoder": (transformer("none", "none", nn.LayerNorm(12)), [5, 12]),
        **sequence_families(),
    }


def rewrite(path):
    """Operator set 18, which gives axes of a mean as an input, and weights in a file beside."""
    model = onnx.load(path)
    assert not {n.op_type for n in model.graph.node} & {"Resize", "Pad"}
    for n in model.graph.node:
        assert n.op_type != "Split" or len(n.input) == 2
        if n.op_type == "ReduceMean":
            axes = next(a for a in n.attribute if a.name == "axes")
            model.graph.initializer.append(helper.make_tensor(n.output[0] + "_axes", TensorProto.INT64, [len(axes.ints)], axes.ints))
            n.input.append(n.output[0] + "_axes")
            n.attribute.remove(axes)
    for o in model.opset_import:
        o.version = 18
    model.ir_version = 8
    onnx.save_model(model, path, save_as_external_data=True, all_tensors_to_one_file=True, location="net.onnx.data", size_threshold=0)


def draw_family(folder, model, shape, opset=15, batch=None):
    """`batch`: its extent in the file; absent: dynamic."""
    numbers = np.random.default_rng(SEED)
    model.eval()
    randomise(model, numbers)
    x = numbers.standard_normal([EXAMPLES] + shape).astype(np.float32)
    os.makedirs(folder)
    labels, rows = np.zeros(6, np.int64), x.reshape([EXAMPLES] + (shape or [1]))
    np.savez(os.path.join(folder, "data.npz"), x_train=np.concatenate([rows, rows]), y_train=labels, x_test=rows, y_test=labels[3:])
    path = os.path.join(folder, "net.onnx")
    with torch.no_grad():
        scores = model(torch.from_numpy(x)).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (torch.from_numpy(x[:batch]),), path, opset_version=opset, input_names=["input"], output_names=["output"],
                          dynamic_axes=None if batch else {"input": {0: "batch"}})
    if opset == 15:
        rewrite(path)
    return f"operator set {18 if opset == 15 else opset}, batch {batch or 'dynamic'}\n{model}", scores


def draw(folder, k):
    """Draws again if PyTorch refuses to export the model, as an instance norm of a computed number of channels."""
    for again in range(20):
        try:
            return draw_once(folder, k + MODELS * again)
        except torch.onnx.errors.SymbolicValueError:
            continue
    raise AssertionError(f"PyTorch exports none of the models {k}, {k + MODELS}, ...")


def draw_once(folder, k):
    rng = random.Random(1000 * SEED + k)
    torch.manual_seed(1000 * SEED + k)
    numbers = np.random.default_rng(1000 * SEED + k)
    kind = rng.choice([image_model, image_model, image_model, sequence_model, word_model, vector_model, series_model])
    model, shape = kind(rng)
    model.eval()
    randomise(model, numbers)
    ids = kind is word_model
    x = numbers.integers(0, WORDS, [EXAMPLES] + shape) if ids else numbers.standard_normal([EXAMPLES] + shape).astype(np.float32)
    end = rng.choice(["scores", "scores", "softmax", "log_softmax"])
    whole = nn.Sequential(model, {"scores": nn.Identity(), "softmax": nn.Softmax(1), "log_softmax": nn.LogSoftmax(1)}[end]).eval()
    os.makedirs(folder, exist_ok=True)
    labels = np.zeros(6, np.int64)
    if ids:
        labels[0] = WORDS - 1  # a source has as many ids as classes
    np.savez(os.path.join(folder, "data.npz"), x_train=np.concatenate([x, x]), y_train=labels, x_test=x, y_test=labels[3:])
    opset = rng.randint(11, 16)
    dynamic = rng.random() < 0.7  # the batch; otherwise its extent is in the file
    given = torch.from_numpy(x)
    with torch.no_grad():
        scores = model(given).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(whole, (given,), os.path.join(folder, "net.onnx"), opset_version=opset, input_names=["input"], output_names=["output"],
                          dynamic_axes={"input": {0: "batch"}} if dynamic else None, do_constant_folding=rng.random() < 0.7)
    return f"operator set {opset}, batch {'dynamic' if dynamic else 'fixed'}\n{whole}", scores


def main():
    with tempfile.TemporaryDirectory() as scratch:
        top = KEEP or scratch
        models = [(os.path.join(top, f"net{k}"), *draw(os.path.join(top, f"net{k}"), k)) for k in range(MODELS)]
        torch.manual_seed(SEED)
        models += [(os.path.join(top, name), *draw_family(os.path.join(top, name), *net)) for name, net in families().items()]
        def more(suffix, names, **how):
            return [(os.path.join(top, name + suffix), *draw_family(os.path.join(top, name + suffix), *net, **how))
                    for name, net in families().items() if name in names]

        transformers = ["gpt", "gpt_added", "encoder", "encoder_layer", "encoder_steps_first", "rows"]
        models += more("_17", transformers, opset=17)  # with LayerNormalization as an operator
        models += more("_batch1", [*transformers, *sequence_families()], opset=14, batch=1)
        models += more("_batch3", ["gpt", "multihead", "packed_rows", "rows"], opset=14, batch=3)
        with open(os.path.join(top, "list"), "w") as f:
            f.writelines(folder + "\n" for folder, _, _ in models)
        subprocess.run([DUMP, os.path.join(top, "list")], check=True, timeout=300)
        wrong = []
        for folder, about, scores in models:
            error = os.path.join(folder, "error.txt")
            if os.path.exists(error):
                wrong.append((folder, open(error).read(), about))
                continue
            out, _ = tensors.load(os.path.join(folder, "out.safetensors"))
            worst = tensors.relative(out["again"], scores.reshape(-1))
            if worst > 1e-5:
                wrong.append((folder, f"differs by {worst:.2e}", about))
        found = {n.op_type for folder, _, _ in models for n in onnx.load(os.path.join(folder, "net.onnx")).graph.node}
    for folder, why, about in wrong[:5]:
        print(f"{os.path.basename(folder)}: {why}\n{about}")
    assert OPERATORS <= found, f"no model has {sorted(OPERATORS - found)}"
    print(f"{len(models)} models of {len(found)} operators, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
