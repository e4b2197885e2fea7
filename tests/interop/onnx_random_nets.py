"""Draws job files of random nets from the layer types that have an equivalent in ONNX."""
import math

import numpy as np


def toml(v):
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, str):
        return '"' + v + '"'
    if isinstance(v, list):
        return "[" + ", ".join(toml(e) for e in v) + "]"
    return repr(v)


def pooled(size, kernel, stride, pad, ceil):
    n = (size + 2 * pad - kernel + (stride - 1 if ceil else 0)) // stride + 1
    return n - 1 if ceil and (n - 1) * stride >= size + pad else n


class Net:
    """Draws layers. `last` is the tensor that the next one reads, `shape` its extents without the batch."""

    def __init__(self, rng):
        self.rng, self.layers, self.types = rng, [], []
        kind = rng.choice(["image", "image", "image", "vector", "sequence", "ids"])
        self.ids = kind == "ids"
        if kind == "image":
            self.shape = [rng.randint(1, 5), rng.randint(1, 9), rng.randint(1, 9)]
        elif kind == "vector":
            self.shape = [rng.randint(1, 12)]
        elif kind == "sequence":
            self.shape = [rng.randint(1, 5)] + [rng.randint(1, 4) for _ in range(rng.choice([1, 1, 2]))]
        else:
            self.shape = [rng.randint(1, 5)]
        self.data, self.last = list(self.shape), "data"
        if self.ids:
            self.vocabulary = rng.randint(2, 9)
            outputs = rng.randint(1, 6)
            self.add("embedding", self.shape + [outputs], vocabulary=self.vocabulary, outputs=outputs)
        for _ in range(rng.randint(1, 6)):
            self.step()
        weighted = {"linear", "convolution", "deconvolution", "sequence_convolution", "embedding", "lstm", "gru", "rnn"}
        if len(self.shape) != 1 or self.shape[0] < 2 or not weighted & set(self.types) or self.types[-1] == "softmax" or rng.random() < 0.3:
            outputs = rng.randint(2, 6)
            self.add("linear", [outputs], outputs=outputs, bias=rng.random() < 0.7)
        if self.ids:  # a source has as many ids as classes
            self.add("linear", [9], outputs=9)

    def add(self, type_, shape, inputs=None, /, **options):
        name = f"{type_}{len(self.layers)}"
        self.layers.append((name, type_, inputs or [self.last], options))
        self.types.append(type_)
        self.last, self.shape = name, list(shape)
        return name

    def step(self):
        rng = self.rng
        makers = [self.element, self.element, self.norm, self.joined, self.part, self.moved]
        if len(self.shape) >= 2:
            makers += [self.product]
        if len(self.shape) == 2 and np.prod(self.shape) <= 200:
            makers += [self.attention]
        if len(self.shape) == 3:
            makers += [self.convolution, self.convolution, self.deconvolution, self.pool, self.pool, self.pool, self.pad, self.upsample, self.lrn]
        if len(self.shape) == 2:  # [channels, length], or [steps, values]
            makers += [self.convolution, self.deconvolution, self.pool, self.pad, self.sequence_convolution, self.sequence_convolution]
        if len(self.shape) in (2, 3) and np.prod(self.shape) <= 200:
            makers += [self.recurrent]
        rng.choice(makers)()
        if rng.random() < 0.08:
            self.add("flatten", [int(np.prod(self.shape))])
        if len(self.shape) >= 2 and rng.random() < 0.15 or np.prod(self.shape) > 2000:
            axis = rng.randint(1, len(self.shape)) if np.prod(self.shape) <= 2000 else 1
            outputs = rng.randint(1, 9)
            self.add("linear", self.shape[: axis - 1] + [outputs], outputs=outputs, axis=axis, bias=rng.random() < 0.6)

    def element(self):
        rng = self.rng
        kinds = ["relu", "leaky", "elu", "sigmoid", "tanh", "gelu", "prelu", "dropout", "bias", "scale", "silu", "relu6"]
        kind = rng.choice(kinds + ["hard_sigmoid", "hard_swish", "channel_scale"])
        if kind == "channel_scale":
            self.scaled_channels()
        elif kind == "relu6":
            self.add(kind, self.shape, max=rng.choice([6.0, 0.5]))
        elif kind == "hard_sigmoid":
            self.add(kind, self.shape, slope=rng.choice([0.2, 1 / 6]))
        elif kind == "leaky":
            self.add("relu", self.shape, slope=rng.choice([0.1, 0.25, 1.5]))
        elif kind == "elu":
            self.add("elu", self.shape, alpha=rng.choice([1.0, 0.3]))
        elif kind == "gelu":
            self.add("gelu", self.shape, approximate=rng.choice(["none", "tanh"]))
        elif kind == "prelu":
            self.add("prelu", self.shape, shared=rng.random() < 0.3)
        elif kind == "scale":
            self.add("scale", self.shape, bias=rng.random() < 0.5)
        elif kind == "dropout":
            self.add("dropout", self.shape, ratio=rng.choice([0.5, 0.3]))
        else:
            self.add(kind, self.shape)

    def scaled_channels(self):
        """The channels by the sigmoids of their first values."""
        before, shape = self.last, list(self.shape)
        if before == "data":
            before = self.add("tanh", shape)
        ones = [1] * (len(shape) - 1)
        if ones:
            self.add("crop", shape[:1] + ones, axis=2, size=ones)
            if self.rng.random() < 0.5:
                self.add("flatten", shape[:1])
        gates = self.add("sigmoid", self.shape)
        self.add("channel_scale", shape, [before, gates])

    def norm(self):
        rng = self.rng
        kind = rng.choice(["batch_norm", "layer_norm", "softmax", "group_norm", "instance_norm"])
        pixels = math.prod(self.shape[1:])
        groupings = [g for g in range(1, self.shape[0] + 1) if self.shape[0] % g == 0 and self.shape[0] // g * pixels > 1]
        if (kind == "instance_norm" and pixels < 2) or (kind == "group_norm" and not groupings):
            kind = "softmax"  # one value has no variance, which these layers refuse
        if kind == "batch_norm":
            self.add(kind, self.shape, affine=rng.random() < 0.6, epsilon=rng.choice([1e-5, 0.1]), momentum=rng.choice([0.1, 0.25]))
        elif kind == "layer_norm":
            self.add(kind, self.shape, affine=rng.random() < 0.6, axis=rng.randint(1, len(self.shape)), epsilon=rng.choice([1e-3, 0.1]))
        elif kind == "group_norm":
            self.add(kind, self.shape, groups=rng.choice(groupings), affine=rng.random() < 0.6, epsilon=rng.choice([1e-3, 0.1]))
        elif kind == "instance_norm":
            self.add(kind, self.shape, affine=rng.random() < 0.6, epsilon=rng.choice([1e-3, 0.1]))
        else:
            axis = rng.randint(1, len(self.shape))
            square = len(self.shape) >= 2 and self.shape[-1] == self.shape[-2]
            self.add(kind, self.shape, axis=len(self.shape) if square else axis, causal=square)

    def moved(self):
        """A permute, or a reshape to the factors of the values."""
        rng, rank = self.rng, len(self.shape)
        if rank > 1 and rng.random() < 0.6:
            order = rng.sample(range(1, rank + 1), rank)
            self.add("permute", [self.shape[a - 1] for a in order], order=order)
            return
        left, shape = int(np.prod(self.shape)), []
        while left > 1 and len(shape) < 3:
            shape.append(rng.choice([k for k in range(1, left + 1) if left % k == 0]))
            left //= shape[-1]
        shape.append(left)
        given = list(shape)
        if rng.random() < 0.5:
            given[rng.randrange(len(given))] = -1
        self.add("reshape", shape, shape=given)

    def product(self):
        """The matrices of the last two axes with themselves or with another layer's."""
        rng, before = self.rng, self.last
        if before == "data":
            before = self.add("tanh", self.shape)
        *front, m, k = self.shape
        first = rng.random() < 0.5
        if rng.random() < 0.5:
            self.element()
        rows = k if first else m
        self.add("matmul", front + [rows, rows], [before, self.last], transpose_a=first, transpose_b=not first, scale=rng.choice([1.0, 0.25]))
        if rng.random() < 0.5:
            self.add("softmax", self.shape, axis=len(self.shape), causal=rng.random() < 0.7)

    def attention(self):
        """Heads of steps [T, D]."""
        rng = self.rng
        steps, heads, size = self.shape[0], rng.randint(1, 3), rng.randint(1, 3)
        self.add("linear", [steps, 3 * heads * size], outputs=3 * heads * size, axis=2)
        self.add("reshape", [steps, 3, heads, size], shape=[-1, 3, heads, size])
        self.add("permute", [3, heads, steps, size], order=[2, 3, 1, 4])
        parts = self.add("slice", [1, heads, steps, size], parts=3)
        self.add("matmul", [1, heads, steps, steps], [parts, parts + ".1"], transpose_b=True, scale=0.5)
        weights = self.add("softmax", self.shape, axis=4, causal=rng.random() < 0.7)
        self.add("matmul", [1, heads, steps, size], [weights, parts + ".2"])
        self.add("permute", [steps, 1, heads, size], order=[3, 1, 2, 4])
        self.add("reshape", [steps, heads * size], shape=[steps, -1])

    def joined(self):
        rng = self.rng
        before = self.last
        if before == "data":
            before = self.add("tanh", self.shape)
        kind = rng.choice(["sum", "coeffs", "prod", "max", "concat", "split", "one"])
        if kind == "one":
            self.add("eltwise", self.shape, operation=rng.choice(["prod", "max", "sum"]))
            return
        if kind == "split":
            copies = rng.randint(1, 3)
            name = self.add("split", self.shape, copies=copies)
            self.add("eltwise", self.shape, [name] + [f"{name}.{k}" for k in range(1, copies)])
            return
        shape = list(self.shape)
        self.element()
        inputs = [before, self.last] + ([before] if rng.random() < 0.3 else [])
        if kind == "concat":
            axis = rng.randint(1, len(shape))
            shape[axis - 1] *= len(inputs)
            self.add("concat", shape, inputs, axis=axis)
        elif kind == "coeffs":
            self.add("eltwise", shape, inputs, coeffs=[rng.choice([1.0, -0.5, 2.5]) for _ in inputs])
        else:
            self.add("eltwise", shape, inputs, operation=kind)

    def part(self):
        rng = self.rng
        axis = rng.randint(1, len(self.shape))
        extent = self.shape[axis - 1]
        if rng.random() < 0.5:
            sizes = [rng.randint(1, e) for e in self.shape[axis - 1 :]]
            offsets = [rng.randint(0, e - s) for e, s in zip(self.shape[axis - 1 :], sizes)]
            if self.last != "data" and rng.random() < 0.3:
                before, shape = self.last, self.shape
                small = self.add("crop", self.shape[: axis - 1] + sizes, axis=axis, size=sizes, offsets=offsets)
                like = self.add("crop", self.shape, [before, small], axis=axis, offsets=offsets)
                self.add("eltwise", self.shape, [small, like])
                return
            self.add("crop", self.shape[: axis - 1] + sizes, axis=axis, size=sizes, offsets=offsets)
        elif extent > 1:
            whole = list(self.shape)
            parts = [k for k in range(2, min(extent, 64) + 1) if extent % k == 0]  # inputs of a concat
            if parts and rng.random() < 0.5:
                parts = rng.choice(parts)
                name = self.add("slice", self.shape, axis=axis, parts=parts)
                count = parts
            else:
                points = sorted(rng.sample(range(1, extent), rng.randint(1, min(3, extent - 1))))
                name = self.add("slice", self.shape, axis=axis, points=points)
                count = len(points) + 1
            pieces = [name] + [f"{name}.{k}" for k in range(1, count)]
            rng.shuffle(pieces)
            self.add("concat", whole, pieces, axis=axis)

    def by_axis(self, axes, draw):
        """A number for each axis; half of the pairs are of equal numbers."""
        first = draw(0)
        return [first] * len(axes) if self.rng.random() < 0.5 else [draw(a) for a in range(len(axes))]

    def written(self, values):
        """A number, or a pair [height, width]."""
        return values[0] if len(set(values)) == 1 else values

    def convolution(self):
        rng = self.rng
        c, axes = self.shape[0], self.shape[1:]
        pad, stride = self.by_axis(axes, lambda a: rng.randint(0, 2)), self.by_axis(axes, lambda a: rng.randint(1, 3))
        kernel = [rng.randint(1, max(1, min(4, n + 2 * p))) for n, p in zip(axes, pad)]
        dilation = [rng.choice([1, 1, 2]) for _ in axes]
        dilation = [1 if d * (k - 1) + 1 > n + 2 * p else d for d, k, n, p in zip(dilation, kernel, axes, pad)]
        groups = rng.choice([g for g in range(1, c + 1) if c % g == 0])
        outputs = groups * rng.randint(1, 3)
        out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(axes, pad, dilation, kernel, stride)]
        self.add("convolution", [outputs] + out, outputs=outputs, kernel=self.written(kernel), pad=self.written(pad), stride=self.written(stride),
                 dilation=self.written(dilation), groups=groups, bias=rng.random() < 0.7)

    def deconvolution(self):
        rng = self.rng
        c, axes = self.shape[0], self.shape[1:]
        stride, dilation = self.by_axis(axes, lambda a: rng.randint(1, 3)), self.by_axis(axes, lambda a: rng.choice([1, 1, 2]))
        kernel, extra = self.by_axis(axes, lambda a: rng.randint(1, 4)), [rng.randint(0, s - 1) for s in stride]
        full = [(n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in zip(axes, stride, dilation, kernel, extra)]
        pad = [rng.randint(0, 1) if n > 2 else 0 for n in full]
        groups = rng.choice([g for g in range(1, c + 1) if c % g == 0])
        outputs = groups * rng.randint(1, 2)
        self.add("deconvolution", [outputs] + [n - 2 * p for n, p in zip(full, pad)], outputs=outputs, kernel=self.written(kernel),
                 pad=self.written(pad), stride=self.written(stride), dilation=self.written(dilation), groups=groups,
                 output_pad=self.written(extra), bias=rng.random() < 0.7)

    def sequence_convolution(self):
        rng = self.rng
        steps, width = self.shape
        pad, stride, dilation = rng.choice([0, 1, 2, "same", "causal", "causal"]), rng.randint(1, 2), rng.randint(1, 2)
        whole = steps if isinstance(pad, str) else steps + 2 * pad
        kernel = rng.randint(1, 4)
        if not isinstance(pad, str) and dilation * (kernel - 1) + 1 > whole:
            kernel = 1
        out = (whole - 1) // stride + 1 if isinstance(pad, str) else (whole - dilation * (kernel - 1) - 1) // stride + 1
        groups = rng.choice([g for g in range(1, width + 1) if width % g == 0])
        outputs = groups * rng.randint(1, 3)
        self.add("sequence_convolution", [out, outputs], outputs=outputs, kernel=kernel, stride=stride, dilation=dilation, pad=pad, groups=groups,
                 bias=rng.random() < 0.7)

    def pool(self):
        rng = self.rng
        c, axes = self.shape[0], self.shape[1:]
        kind = rng.choice(["max_pool", "avg_pool"])
        if rng.random() < 0.2:
            self.add(kind, [c] + [1] * len(axes))
            return
        ceil = rng.random() < 0.7
        kernel, stride = [rng.randint(1, min(4, n)) for n in axes], self.by_axis(axes, lambda a: rng.randint(1, 4))
        pad = [rng.randint(0, k - 1) for k in kernel]
        options = {"count_padding": rng.random() < 0.6} if kind == "avg_pool" else {}
        self.add(kind, [c] + [pooled(n, k, s, p, ceil) for n, k, s, p in zip(axes, kernel, stride, pad)], kernel=self.written(kernel),
                 stride=self.written(stride), pad=self.written(pad), rounding="ceil" if ceil else "floor", **options)

    def pad(self):
        rng = self.rng
        mode = rng.choice(["zero", "edge", "reflect"])
        side = lambda n: rng.randint(0, min(3, n - 1) if mode == "reflect" else 3)
        if len(self.shape) == 2:
            left, right = side(self.shape[1]), side(self.shape[1])
            self.add("pad", [self.shape[0], self.shape[1] + left + right], mode=mode, left=left, right=right)
            return
        c, h, w = self.shape
        top, bottom, left, right = side(h), side(h), side(w), side(w)
        self.add("pad", [c, h + top + bottom, w + left + right], mode=mode, top=top, bottom=bottom, left=left, right=right)

    def upsample(self):
        rng = self.rng
        c, h, w = self.shape
        options = {"mode": rng.choice(["nearest", "bilinear"])}
        if options["mode"] == "bilinear":
            options["align_corners"] = rng.random() < 0.5
        if rng.random() < 0.5:
            factor = rng.randint(1, 3)
            self.add("upsample", [c, h * factor, w * factor], factor=factor, **options)
        else:
            height, width = rng.randint(1, 12), rng.randint(1, 12)
            self.add("upsample", [c, height, width], height=height, width=width, **options)

    def lrn(self):
        rng = self.rng
        self.add("lrn", self.shape, size=rng.choice([1, 3, 5]), alpha=rng.choice([1.0, 0.01]), beta=rng.choice([0.75, 0.5]), k=rng.choice([1.0, 2.0]),
                 region=rng.choice(["across_channels", "within_channel"]))

    def recurrent(self):
        rng = self.rng
        kind, units = rng.choice(["lstm", "gru", "rnn"]), rng.randint(1, 6)
        options = {"units": units, "bias": rng.random() < 0.7}
        if kind == "rnn":
            options["activation"] = rng.choice(["tanh", "relu"])
        self.add(kind, [self.shape[0], units], **options)

    def text(self):
        lines = ["[job]", 'name = "net"', "[data]", 'source = "numpy"', 'path = "data.npz"', "batch = 4", f"ids = {toml(self.ids)}"]
        for name, type_, inputs, options in self.layers + [("loss", "softmax_loss", [self.last, "label"], {})]:
            lines += ["[[layer]]", f'name = "{name}"', f'type = "{type_}"', f"inputs = {toml(inputs)}"]
            lines += [f"{k} = {toml(v)}" for k, v in options.items()]
        lines += ["[train]", 'sync = { mode = "bsp" }', 'dynamics = { rule = "sgd", lr = 0.01 }', "finish = { epochs = 1 }"]
        return "\n".join(lines) + "\n"

    def examples(self, rng, count):
        if not self.ids:
            return rng.standard_normal([count] + self.data).astype(np.float32)
        return rng.integers(0, self.vocabulary, [count] + self.data).astype(np.int32)
