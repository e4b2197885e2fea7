"""Random modules of PyTorch, for torch_test.py."""
import math
import random

import torch
from torch import nn

F = nn.functional


class RandomNet(nn.Module):
    """A net of images that a seed draws: a chain with branches, of all kinds of layers."""

    def __init__(self, seed, drawn):
        super().__init__()
        self.draw = random.Random(seed)
        self.drawn = drawn
        channels, size = self.draw.choice([1, 3, 4]), self.draw.choice([8, 9, 12])
        self.example = (channels, size, size)
        shape = self.example
        self.steps = []
        for _ in range(self.draw.randint(2, 6)):
            shape = self.grow(shape)
        self.features = shape[0] * shape[1] * shape[2]
        self.head = nn.Linear(self.features, 5, bias=self.draw.random() < 0.8)

    def keep(self, module):
        name = f"m{len(self.steps)}"
        self.add_module(name, module)
        return name

    def by_axis(self, numbers):
        """A pair for height and width; half of them are of equal numbers."""
        first = self.draw.choice(numbers)
        return first, first if self.draw.random() < 0.5 else self.draw.choice(numbers)

    def grow(self, shape):  # size: one branch for each kind of layer
        d, (c, h, w) = self.draw, shape
        kinds = ["conv", "deconv", "batch_norm", "layer_norm", "lrn", "activation", "function", "prelu", "dropout", "add", "cat", "pad",
                 "upsample", "softmax", "chunk", "same", "group_norm", "instance_norm", "permute", "reshape", "matmul"] + (["max_pool", "avg_pool", "adaptive"] if min(h, w) >= 4 else [])
        kind = d.choice(kinds)
        self.drawn[kind] += 1
        if kind == "conv":
            groups = d.choice([g for g in (1, 2) if c % g == 0])
            k, s, p, dil = self.by_axis([1, 3]), self.by_axis([1, 2]), list(self.by_axis([0, 1])), self.by_axis([1, 1, 2])
            for a, extent in enumerate((h, w)):
                if extent + 2 * p[a] <= dil[a] * (k[a] - 1) + 1:
                    p[a] = dil[a]
            same = s == (1, 1) and d.random() < 0.2
            module = nn.Conv2d(c, 2 * d.randint(1, 4), k, s, "same" if same else tuple(p), dil, groups, bias=d.random() < 0.7)
        elif kind == "deconv":
            stride = self.by_axis([1, 2])
            module = nn.ConvTranspose2d(c, d.randint(1, 5), self.by_axis([3, 4]), stride, self.by_axis([0, 1]),
                                        tuple(d.randint(0, n - 1) for n in stride), bias=d.random() < 0.7, dilation=self.by_axis([1, 2]))
        elif kind == "batch_norm":
            module = nn.BatchNorm2d(c, affine=d.random() < 0.7)
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
        elif kind == "layer_norm":
            module = nn.LayerNorm([c, h, w], elementwise_affine=d.random() < 0.5)
        elif kind == "lrn":
            module = nn.LocalResponseNorm(d.choice([3, 5]), alpha=0.5, beta=0.6, k=1.5)
        elif kind == "activation":
            module = d.choice([nn.ReLU(), nn.LeakyReLU(0.1), nn.ELU(0.7), nn.GELU(), nn.GELU(approximate="tanh"), nn.Sigmoid(), nn.Tanh(), nn.Identity()])
        elif kind == "function":
            f = d.choice([F.relu, torch.tanh, torch.sigmoid, F.gelu, F.elu])
            self.steps.append(lambda x: f(x))
            return shape
        elif kind == "prelu":
            module = nn.PReLU(d.choice([1, c]))
        elif kind == "dropout":
            module = nn.Dropout(0.3)
        elif kind == "softmax":
            module = nn.Softmax(dim=d.choice([1, 2, -1]))
        elif kind == "group_norm" and h * w > 1:
            module = nn.GroupNorm(d.choice([g for g in range(1, c + 1) if c % g == 0]), c, 1e-3, affine=d.random() < 0.6)
        elif kind == "instance_norm" and h * w > 1:
            module = nn.InstanceNorm2d(c, 1e-3, affine=d.random() < 0.6)
        elif kind in ("permute", "reshape", "matmul"):
            return self.move(kind, shape)
        elif kind == "pad" and min(h, w) > 2:
            module = d.choice([nn.ZeroPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d])((1, 0, 2, 1))
        elif kind == "upsample":
            if h > 20:
                return shape
            module = d.choice([nn.Upsample(scale_factor=2), nn.Upsample(size=(h + 3, w + 1), mode="bilinear", align_corners=d.random() < 0.5)])
        elif kind == "max_pool":
            module = nn.MaxPool2d(self.by_axis([2, 3]), self.by_axis([1, 2]), self.by_axis([0, 1]), ceil_mode=d.random() < 0.5)
        elif kind == "avg_pool":
            module = nn.AvgPool2d(self.by_axis([2, 3]), self.by_axis([1, 2]), self.by_axis([0, 1]), ceil_mode=d.random() < 0.5,
                                  count_include_pad=d.random() < 0.5)
        elif kind == "adaptive":
            module = nn.AdaptiveAvgPool2d(tuple(d.choice([n for n in (1, 1, 2, 4) if extent % n == 0]) for extent in (h, w)))
        elif kind in ("add", "cat"):
            a, b = self.keep(nn.Conv2d(c, 4, 1)), None
            self.add_module(a + "b", nn.Conv2d(c, 4, 1))
            join = d.choice([lambda x, y: x + y, torch.mul, torch.sub, torch.maximum]) if kind == "add" else (lambda x, y: torch.cat([x, y], 1))
            self.steps.append(lambda x: join(getattr(self, a)(x), getattr(self, a + "b")(x)))
            return (4 if kind == "add" else 8, h, w)
        elif kind == "chunk":
            if c % 2:
                return shape

            def halves(x):
                parts = torch.chunk(x, 2, 1)
                return parts[0] * parts[1]

            self.steps.append(halves)
            return (c // 2, h, w)
        else:
            return shape
        name = self.keep(module)
        self.steps.append(lambda x: getattr(self, name)(x))
        with torch.no_grad():
            return tuple(module.eval()(torch.zeros(1, c, h, w)).shape[1:])

    def move(self, kind, shape):
        d, (c, h, w) = self.draw, shape
        if kind == "permute":
            order = d.choice([(0, 2, 3, 1), (0, 1, 3, 2), (0, 3, 1, 2)])
            self.steps.append(d.choice([lambda x: x.permute(*order), lambda x: torch.permute(x, order)]) if order != (0, 1, 3, 2) else
                              d.choice([lambda x: x.transpose(-1, -2), lambda x: torch.transpose(x, 3, 2)]))
            return tuple(shape[k - 1] for k in order[1:])
        if kind == "reshape":
            self.steps.append(d.choice([lambda x: x.reshape(-1, h, c, w), lambda x: x.contiguous().view(x.size(0), h, c, -1), lambda x:
                                        x.flatten(2).unsqueeze(2)]))
            with torch.no_grad():
                return tuple(self.steps[-1](torch.zeros(1, c, h, w)).shape[1:])
        self.steps.append(d.choice([lambda x: x @ x.transpose(2, 3), lambda x: torch.matmul(x * 0.5, x.permute(0, 1, 3, 2)),
                                    lambda x: torch.bmm(x.flatten(1, 2), x.flatten(1, 2).transpose(1, 2)).unsqueeze(1) / math.sqrt(w)]))
        with torch.no_grad():
            made = tuple(self.steps[-1](torch.zeros(1, c, h, w)).shape[1:])
        self.steps.append(lambda x: torch.softmax(x, -1))
        return made

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return self.head(torch.flatten(x, 1))


class Attention(nn.Module):
    """Heads of attention between all steps, or causal."""

    def __init__(self, width, heads, mask="none", most=1):
        super().__init__()
        self.mask = mask
        later = torch.ones(most, most).triu(1)
        self.register_buffer("later", later.view(1, 1, most, most) if mask == "condition" else torch.zeros(most, most).masked_fill(later == 1, -torch.inf),
                             persistent=False)
        self.width, self.heads = width, heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.size(0), x.size(1), x.size(2)
        parts = self.qkv(x).split(self.width, dim=2)
        q, k, v = (parts[i].view(n, t, self.heads, width // self.heads).transpose(1, 2) for i in range(3))
        scores = q @ k.transpose(-2, -1) * k.size(-1) ** -0.5
        if self.mask == "condition":
            scores = scores.masked_fill(self.later == 1, float("-inf"))
        elif self.mask == "added":
            scores = scores + self.later
        y = F.softmax(scores, dim=-1) @ v
        return x + self.out(y.transpose(1, 2).contiguous().view(n, t, width))


class RandomSeriesNet(nn.Module):
    """A net of series [N, C, L]: convolutions and pooling of one axis."""

    def __init__(self, seed, drawn):
        super().__init__()
        d = random.Random(seed)
        channels, length = d.randint(1, 4), d.randint(8, 20)
        self.example = (channels, length)
        steps = []
        for _ in range(d.randint(1, 4)):
            outputs, k, s, p = d.randint(1, 5), d.randint(2, 3), d.randint(1, 2), d.randint(0, 1)
            kind = d.choice(["Conv1d", "Conv1d", "ConvTranspose1d", "MaxPool1d", "AvgPool1d", "AdaptiveAvgPool1d", "BatchNorm1d", "pad"])
            if length < 6 and kind != "ConvTranspose1d":
                kind = "BatchNorm1d"
            if kind == "Conv1d":
                groups = d.choice([g for g in (1, 2, 3) if channels % g == 0])
                padding = "same" if k == 3 and s == 1 and d.random() < 0.3 else p
                steps.append(nn.Conv1d(channels, outputs * groups, k, s, padding, d.randint(1, 2), groups, d.random() < 0.7))
            elif kind == "ConvTranspose1d":
                steps.append(nn.ConvTranspose1d(channels, outputs, k, s, p, d.randint(0, s - 1), 1, d.random() < 0.7))
            elif kind == "pad":
                steps.append(d.choice([nn.ReflectionPad1d((1, 2)), nn.ReplicationPad1d((0, 2)), nn.ConstantPad1d((2, 0), 0.0)]))
            elif kind == "MaxPool1d":
                steps.append(nn.MaxPool1d(k, s, p, ceil_mode=d.random() < 0.5))
            elif kind == "AvgPool1d":
                steps.append(nn.AvgPool1d(k, s, p, d.random() < 0.5, d.random() < 0.5))
            elif kind == "AdaptiveAvgPool1d":
                steps.append(nn.AdaptiveAvgPool1d(d.choice([n for n in (1, 2, 3, 4) if length % n == 0])))
            else:
                steps.append(nn.BatchNorm1d(channels))
            drawn[kind] += 1
            with torch.no_grad():
                channels, length = nn.Sequential(*steps).eval()(torch.zeros(1, *self.example)).shape[1:]
            steps.append(d.choice([nn.ReLU(), nn.Tanh(), nn.PReLU(channels)]))
        self.body = nn.Sequential(*steps)
        self.head = nn.Linear(channels * length, 4)

    def forward(self, x):
        return self.head(torch.flatten(self.body(x), 1))


class RandomSequenceNet(nn.Module):
    """Ids through an embedding, recurrent layers, and a head for the last step or for all."""

    def __init__(self, seed, drawn):
        super().__init__()
        d = random.Random(seed)
        self.length, units = d.randint(2, 6), d.randint(2, 7)
        self.table = nn.Embedding(11, 5)
        kind = d.choice([nn.LSTM, nn.GRU, nn.RNN])
        more = {"nonlinearity": d.choice(["tanh", "relu"])} if kind is nn.RNN else {}
        self.cell = kind(5, units, num_layers=d.randint(1, 2), batch_first=True, bias=d.random() < 0.7, **more)
        self.mix = Attention(units, d.choice([h for h in range(1, units + 1) if units % h == 0]), d.choice(["none", "condition", "added"]), self.length) if d.random() < 0.5 else nn.Identity()
        self.norm = nn.LayerNorm(units)
        self.head = nn.Linear(units, 4)
        self.last = d.random() < 0.5
        drawn[kind.__name__] += 1

    def forward(self, x):
        y = self.norm(self.mix(self.cell(self.table(x))[0]))
        return self.head(y[:, -1] if self.last else y)
