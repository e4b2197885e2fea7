#!/usr/bin/env python3
"""Compares each layer type that is imported from Caffe and its relatives with numbers. For each case a small net of that layer, with
random weights in a .caffemodel that is written here, is imported, and `troupe predict --layer` prints its output for random inputs.
The reference is NumPy: loops and formulas by the definition of the layer in Caffe's documentation and sources, in double precision.

usage: caffe_layers_test.py TROUPE_BINARY
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from caffe_bytes import caffemodel

EXAMPLES = 3


# --- definitions of the layers


def window(extent, kernel, stride, pad, up):
    """Number of windows along an axis. A last window that begins in the padding behind the image is dropped."""
    room = extent + 2 * pad - kernel
    out = (-(-room // stride) if up else room // stride) + 1
    return out - 1 if up and pad and (out - 1) * stride >= extent + pad else out


def pooled(x, average, kernel, stride=(1, 1), pad=(0, 0), up=True, count_padding=True):
    n, c, h, w = x.shape
    y = np.zeros((n, c, window(h, kernel[0], stride[0], pad[0], up), window(w, kernel[1], stride[1], pad[1], up)))
    for i, j in np.ndindex(y.shape[2:]):
        top, left = i * stride[0] - pad[0], j * stride[1] - pad[1]
        bottom, right = min(top + kernel[0], h + pad[0]), min(left + kernel[1], w + pad[1])
        size = (bottom - top) * (right - left)
        cut = x[:, :, max(top, 0):min(bottom, h), max(left, 0):min(right, w)].reshape(n, c, -1)
        y[:, :, i, j] = cut.sum(2) / (size if count_padding else cut.shape[2]) if average else cut.max(2)
    return y


def unpooled(values, x, size):
    """Values go to the places of the maxima of x over windows that do not overlap."""
    y = np.zeros_like(x)
    for n, c, i, j in np.ndindex(values.shape):
        cut = x[n, c, i * size:(i + 1) * size, j * size:(j + 1) * size]
        k, l = np.unravel_index(cut.argmax(), cut.shape)
        y[n, c, i * size + k, j * size + l] = values[n, c, i, j]
    return y


def reorganised(x, s):
    """Reorg of YOLO, which takes the numbers for an image of C / s^2 channels and s times the extents."""
    n, c, h, w = x.shape
    few = c // (s * s)
    wide, y = x.reshape(n, few, h * s, w * s), np.zeros_like(x)
    for k, i, j in np.ndindex(c, h, w):
        y[:, k, i, j] = wide[:, k % few, i * s + k // few // s, j * s + k // few % s]
    return y.reshape(n, c * s * s, h // s, w // s)


def convolved(x, weight, bias=None, stride=(1, 1), pad=(0, 0), dilation=(1, 1), groups=1):
    n, c, h, w = x.shape
    outputs, per_group, kh, kw = weight.shape
    padded = np.zeros((n, c, h + 2 * pad[0], w + 2 * pad[1]))
    padded[:, :, pad[0]:pad[0] + h, pad[1]:pad[1] + w] = x
    y = np.zeros((n, outputs, (padded.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1,
                  (padded.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1))
    for o, i, j in np.ndindex(y.shape[1:]):
        first = o // (outputs // groups) * per_group
        for k, l in np.ndindex(kh, kw):
            pixel = padded[:, first:first + per_group, i * stride[0] + k * dilation[0], j * stride[1] + l * dilation[1]]
            y[:, o, i, j] += pixel @ weight[o, :, k, l]
    return y if bias is None else y + channels(bias)


def deconvolved(x, weight, bias=None, stride=(1, 1), pad=(0, 0), groups=1):
    """Each pixel adds its multiple of the kernel to the result, of which `pad` is cut off. Weights [inputs, outputs / groups, kh, kw]."""
    n, c, h, w = x.shape
    _, per_group, kh, kw = weight.shape
    full = np.zeros((n, per_group * groups, (h - 1) * stride[0] + kh, (w - 1) * stride[1] + kw))
    for q, i, j in np.ndindex(c, h, w):
        first = q // (c // groups) * per_group
        full[:, first:first + per_group, i * stride[0]:i * stride[0] + kh, j * stride[1]:j * stride[1] + kw] += \
            x[:, q, i, j][:, None, None, None] * weight[q]
    y = full[:, :, pad[0]:full.shape[2] - pad[0], pad[1]:full.shape[3] - pad[1]]
    return y if bias is None else y + channels(bias)


def interpolated(x, height, width):
    """Interp: corner pixels stay in place; between pixels along both axes linearly."""
    h, w = x.shape[2:]
    y = np.zeros(x.shape[:2] + (height, width))
    for i, j in np.ndindex(height, width):
        a, b = i * (h - 1) / (height - 1) if height > 1 else 0, j * (w - 1) / (width - 1) if width > 1 else 0
        top, left = int(a), int(b)
        bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
        a, b = a - top, b - left
        y[:, :, i, j] = ((1 - a) * ((1 - b) * x[:, :, top, left] + b * x[:, :, top, right]) + a *
                         ((1 - b) * x[:, :, bottom, left] + b * x[:, :, bottom, right]))
    return y


def channels(v):
    return np.asarray(v).reshape(1, -1, 1, 1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def normalised(x, mean, variance, eps):
    return (x - channels(mean)) / np.sqrt(channels(variance) + eps)


def lrn(x, size, alpha, beta, k=1.0):
    y = np.zeros_like(x)
    for c in range(x.shape[1]):
        some = x[:, max(c - size // 2, 0):c + size // 2 + 1]
        y[:, c] = x[:, c] / (k + alpha / size * (some**2).sum(1))**beta
    return y


def lrn_within(x, size, alpha, beta):
    """The mean of squares counts the padding; k is not read, the constant is 1."""
    pad = size // 2
    mean = pooled(x * x, True, (size, size), pad=(pad, pad), up=True)
    # Windows that reach beyond the padding do not exist here: the stride is 1.
    return x / (1 + alpha * mean)**beta


def unit(x, eps):
    return x / np.sqrt((x * x).sum(1, keepdims=True) + eps)


# --- the cases


class Case:
    """`layers`: (name, type, bottoms, tops, fields). The last top is compared. Weights by name of the layer."""
    def __init__(self, title, layers, reference, shape=(4, 6, 5), weights=None, scale=1.0):
        self.title, self.layers, self.reference = title, layers, reference
        self.shape, self.weights, self.scale = shape, weights or {}, scale


def one(title, kind, fields, reference, **more):
    return Case(title, [("x", kind, ["data"], ["x"], fields)], reference, **more)


# size: a table of cases
def cases(rng):
    real = lambda *dims: rng.standard_normal(dims).astype(np.float32)
    positive = lambda *dims: rng.uniform(0.5, 2, dims).astype(np.float32)
    gate = [("g", "Pooling", ["data"], ["g"], "pooling_param { pool: AVE global_pooling: true }"), ("s", "Sigmoid", ["g"], ["s"], "")]
    gates = lambda x: sigmoid(x.mean((2, 3), keepdims=True))
    w3, b3 = real(3, 4, 3, 2), real(3)
    mean, var, slope, shift = real(4), positive(4), real(4), real(4)
    factor = np.array([999.98], np.float32)
    yield one("ReLU", "ReLU", "relu_param { negative_slope: 0.2 }", lambda x: np.where(x > 0, x, 0.2 * x))
    yield one("ReLU6", "ReLU6", "", lambda x: np.clip(x, 0, 6), scale=6)
    yield one("ELU", "ELU", "elu_param { alpha: 0.7 }", lambda x: np.where(x > 0, x, 0.7 * (np.exp(np.minimum(x, 0)) - 1)))
    yield one("SeLu", "SeLu", "", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(np.minimum(x, 0)) - 1)))
    yield one("Swish", "Swish", "", lambda x: x * sigmoid(x))
    yield one("Sigmoid", "Sigmoid", "", sigmoid)
    yield one("TanH", "TanH", "", np.tanh)
    yield one("Power, a scale", "Power", "power_param { scale: -0.3 }", lambda x: -0.3 * x)
    yield one("Power, a shift", "Power", "power_param { scale: 2 shift: -1.5 }", lambda x: 2 * x - 1.5)
    yield one("PReLU", "PReLU", "", lambda x: np.where(x > 0, x, channels(slope) * x), weights={"x": [slope]})
    yield one("PReLU, shared", "PReLU", "prelu_param { channel_shared: true }", lambda x: np.where(x > 0, x, slope[0] * x),
              weights={"x": [slope[:1].reshape(())]})
    yield one("Softmax", "Softmax", "", softmax)
    yield one("Softmax, axis 2", "Softmax", "softmax_param { axis: 2 }", lambda x: softmax(x, 2))
    yield one("Softmax, the last axis", "Softmax", "softmax_param { axis: -1 }", lambda x: softmax(x, 3))
    yield one("Dropout", "Dropout", "dropout_param { dropout_ratio: 0.4 }", lambda x: x)

    yield one("Convolution", "Convolution",
              "convolution_param { num_output: 3 kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 2 dilation: 1 dilation: 2 }",
              lambda x: convolved(x, w3, b3, (2, 1), (1, 2), (1, 2)), weights={"x": [w3, b3]})
    group = real(6, 2, 3, 3)
    yield one("Convolution, groups", "Convolution", "convolution_param { num_output: 6 kernel_size: 3 group: 2 bias_term: false }",
              lambda x: convolved(x, group, groups=2), weights={"x": [group]})
    depth, bias = real(4, 1, 3, 3), real(4)
    for kind, more in (("ConvolutionDepthwise", ""), ("DepthwiseConvolution", "group: 4")):
        yield one(kind, kind, f"convolution_param {{ num_output: 4 kernel_size: 3 pad: 1 stride: 2 {more} }}",
                  lambda x: convolved(x, depth, bias, (2, 2), (1, 1), groups=4), weights={"x": [depth, bias]})
    up, up_bias = real(4, 3, 4, 3), real(3)
    yield one("Deconvolution", "Deconvolution",
              "convolution_param { num_output: 3 kernel_h: 4 kernel_w: 3 stride: 2 pad: 1 }",
              lambda x: deconvolved(x, up, up_bias, (2, 2), (1, 1)), weights={"x": [up, up_bias]})
    up_groups = real(4, 1, 4, 4)
    yield one("Deconvolution, groups", "Deconvolution",
              "convolution_param { num_output: 4 group: 4 kernel_size: 4 stride: 2 pad: 1 bias_term: false }",
              lambda x: deconvolved(x, up_groups, None, (2, 2), (1, 1), 4), weights={"x": [up_groups]})
    linear, linear_bias = real(7, 120), real(7)
    yield one("InnerProduct", "InnerProduct", "inner_product_param { num_output: 7 }",
              lambda x: x.reshape(len(x), -1) @ linear.T.astype(float) + linear_bias, weights={"x": [linear, linear_bias]}, scale=30)
    yield one("InnerProduct, transposed", "InnerProduct", "inner_product_param { num_output: 7 transpose: true bias_term: false }",
              lambda x: x.reshape(len(x), -1) @ linear.T.astype(float), weights={"x": [linear.T.copy()]}, scale=30)
    of_rows = real(3, 5)
    yield one("InnerProduct, axis 3", "InnerProduct", "inner_product_param { num_output: 3 axis: 3 bias_term: false }",
              lambda x: x @ of_rows.T.astype(float), weights={"x": [of_rows]}, scale=5)

    for title, fields, args in (("MAX", "kernel_size: 3 stride: 2", (False, (3, 3), (2, 2))),
                                ("MAX, padding", "kernel_size: 3 stride: 2 pad: 1", (False, (3, 3), (2, 2), (1, 1))),
                                ("MAX, by axis", "kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 1",
                                 (False, (2, 3), (2, 1), (0, 1))),
                                ("MAX, round_mode", "kernel_size: 3 stride: 2 round_mode: FLOOR", (False, (3, 3), (2, 2), (0, 0), False)),
                                ("MAX, ceil_mode", "kernel_size: 2 stride: 2 ceil_mode: false", (False, (2, 2), (2, 2), (0, 0), False)),
                                ("AVE", "pool: AVE kernel_size: 3 stride: 2", (True, (3, 3), (2, 2))),
                                ("AVE, padding", "pool: AVE kernel_size: 3 stride: 2 pad: 1", (True, (3, 3), (2, 2), (1, 1))),
                                ("AVE, of pixels", "pool: AVE kernel_size: 3 stride: 2 pad: 1 avg_include_pad: false",
                                 (True, (3, 3), (2, 2), (1, 1), True, False)), ("AVE, global", "pool: AVE global_pooling: true", (True, (6, 5))),
                                ("MAX, global", "global_pooling: true", (False, (6, 5)))):
        yield one("Pooling, " + title, "Pooling", f"pooling_param {{ {fields} }}", lambda x, a=args: pooled(x, *a))

    yield one("LRN", "LRN", "lrn_param { local_size: 3 alpha: 0.7 beta: 0.6 k: 2 }", lambda x: lrn(x, 3, 0.7, 0.6, 2))
    yield one("LRN, within", "LRN", "lrn_param { local_size: 3 alpha: 0.7 beta: 0.6 norm_region: WITHIN_CHANNEL }",
              lambda x: lrn_within(x, 3, 0.7, 0.6))
    yield one("Normalize", "Normalize", "norm_param { across_spatial: false channel_shared: false scale_filler { value: 20 } }",
              lambda x: unit(x, 1e-10) * channels(slope), weights={"x": [slope]})
    yield one("Normalize, shared", "Normalize", "norm_param { across_spatial: false eps: 0.01 }", lambda x: unit(x, 0.01) * float(slope[1]),
              weights={"x": [slope[1:2]]})
    yield one("BatchNorm", "BatchNorm", "batch_norm_param { eps: 0.001 }", lambda x: normalised(x, mean / factor, var / factor, 1e-3),
              weights={"x": [mean, var, factor]}, scale=30)
    yield one("BatchNorm, scale_bias", "BatchNorm", "batch_norm_param { scale_bias: true eps: 0.001 }",
              lambda x: normalised(x, mean, var, 1e-3) * channels(slope) + channels(shift),
              weights={"x": [mean, var, np.ones(1, np.float32), slope, shift]}, scale=3)
    yield Case("BatchNorm and Scale", [("n", "BatchNorm", ["data"], ["n"], ""), ("x", "Scale", ["n"], ["n"], "scale_param { bias_term: true }")],
               lambda x: normalised(x, mean, var, 1e-5) * channels(slope) + channels(shift),
               weights={"n": [mean, var, np.ones(1, np.float32)], "x": [slope, shift]}, scale=3)
    yield one("BN", "BN", "bn_param { frozen: true }", lambda x: normalised(x, mean, var, 1e-5) * channels(slope) + channels(shift),
              weights={"x": [v.reshape(1, 4, 1, 1) for v in (slope, shift, mean, var)]}, scale=3)
    yield one("BN, inference", "BN", "bn_param { bn_mode: INFERENCE }", lambda x: x * channels(slope) + channels(shift),
              weights={"x": [v.reshape(1, 4, 1, 1) for v in (slope, shift)]})
    yield one("Scale", "Scale", "scale_param { bias_term: true }", lambda x: x * channels(slope) + channels(shift), weights={"x": [slope, shift]})
    yield one("Bias", "Bias", "", lambda x: x + channels(shift), weights={"x": [shift]})

    yield Case("Axpy", gate + [("x", "Axpy", ["s", "data", "g2"], ["x"], "")], lambda x: gates(x) * x + np.tanh(x))
    yield Case("Scale by an input", gate + [("x", "Scale", ["data", "s"], ["x"], "scale_param { axis: 0 }")], lambda x: gates(x) * x)
    pair = [("t", "TanH", ["data"], ["t"], "")]
    for title, fields, of in (("SUM", "", lambda x, t: x + t), ("SUM, coefficients", "coeff: 0.5 coeff: -2", lambda x, t: 0.5 * x - 2 * t),
                              ("PROD", "operation: PROD", lambda x, t: x * t), ("MAX", "operation: MAX", np.maximum)):
        yield Case("Eltwise, " + title, pair + [("x", "Eltwise", ["data", "t"], ["x"], f"eltwise_param {{ {fields} }}")],
                   lambda x, f=of: f(x, np.tanh(x)))
    for axis, numpy_axis in (("", 1), ("concat_param { axis: 2 }", 2), ("concat_param { axis: -1 }", 3), ("concat_param { concat_dim: 3 }", 3)):
        yield Case("Concat " + axis, pair + [("x", "Concat", ["data", "t"], ["x"], axis)],
                   lambda x, a=numpy_axis: np.concatenate([x, np.tanh(x)], a))
    joined = lambda x, axis, at: np.concatenate(np.split(x, at, axis)[::-1], axis)
    for title, fields, axis, at in (("equal", "", 1, [2]), ("points", "slice_param { slice_point: 1 }", 1, [1]),
                                    ("axis 2", "slice_param { axis: 2 slice_point: 4 }", 2, [4]),
                                    ("axis -1", "slice_param { axis: -1 slice_point: 2 }", 3, [2]),
                                    ("slice_dim", "slice_param { slice_dim: 2 }", 2, [3])):
        yield Case("Slice, " + title, [("p", "Slice", ["data"], ["p", "q"], fields),
                                       ("x", "Concat", ["q", "p"], ["x"], f"concat_param {{ axis: {axis} }}")],
                   lambda x, a=axis, b=at: joined(x, a, b))
    yield Case("Split", [("p", "Split", ["data"], ["p", "q"], ""), ("t", "TanH", ["p"], ["t"], ""),
                         ("x", "Eltwise", ["t", "q"], ["x"], "")], lambda x: np.tanh(x) + x)
    yield Case("Crop", [("p", "Pooling", ["data"], ["p"], "pooling_param { kernel_size: 3 stride: 1 }"),
                        ("x", "Crop", ["data", "p"], ["x"], "crop_param { axis: 2 offset: 2 offset: 1 }")], lambda x: x[:, :, 2:6, 1:4])
    yield one("Permute", "Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", lambda x: x.transpose(0, 2, 3, 1))
    yield one("Reshape", "Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 5 } }", lambda x: x.reshape(len(x), 2, 12, 5))
    yield one("Reshape, axis 1", "Reshape", "reshape_param { axis: 1 shape { dim: 8 dim: -1 } }", lambda x: x.reshape(len(x), 8, 15))
    yield one("Flatten", "Flatten", "", lambda x: x.reshape(len(x), -1))
    yield one("Interp", "Interp", "interp_param { height: 9 width: 13 }", lambda x: interpolated(x, 9, 13))
    yield one("Interp, smaller", "Interp", "interp_param { height: 3 width: 4 }", lambda x: interpolated(x, 3, 4))
    yield one("Upsample", "Upsample", "upsample_param { scale: 3 }", lambda x: x.repeat(3, 2).repeat(3, 3))
    for title, fields, extents in (("zoom", "zoom_factor: 2", (11, 9)), ("shrink", "shrink_factor: 2", (3, 3)),
                                   ("shrink and zoom", "shrink_factor: 2 zoom_factor: 3 height: 8 width: 8", (7, 7))):
        yield one("Interp, " + title, "Interp", f"interp_param {{ {fields} }}", lambda x, e=extents: interpolated(x, *e))
    yield one("ShuffleChannel", "ShuffleChannel", "shuffle_channel_param { group: 2 }", lambda x: x[:, [0, 2, 1, 3]])
    yield one("Reorg", "Reorg", "reorg_param { stride: 2 }", lambda x: reorganised(x, 2), shape=(8, 6, 4))
    yield Case("Upsample, by maxima", [("p", "Pooling", ["data"], ["p", "m"], "pooling_param { kernel_size: 2 stride: 2 }"),
                                       ("t", "TanH", ["p"], ["t"], ""), ("x", "Upsample", ["t", "m"], ["x"], "upsample_param { scale: 2 upsample_h: 6 upsample_w: 5 }")],
               lambda x: unpooled(np.tanh(pooled(x, False, (2, 2), (2, 2))), x, 2))


# --- comparison


def text_of(case):
    """The net: the case's layers, and an InnerProduct and Softmax that read the last top."""
    shape = " ".join(f"dim: {d}" for d in (EXAMPLES, ) + case.shape)
    text = f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {shape} }} }} }}\n'
    if any("g2" in bottoms for _, _, bottoms, _, _ in case.layers):
        text += 'layer { name: "g2" type: "TanH" bottom: "data" top: "g2" }\n'
    for name, kind, bottoms, tops, fields in case.layers:
        blobs = " ".join([f'bottom: "{b}"' for b in bottoms] + [f'top: "{t}"' for t in tops])
        text += f'layer {{ name: "{name}" type: "{kind}" {blobs} {fields} }}\n'
    last = case.layers[-1][3][-1]
    text += f'layer {{ name: "fc" type: "InnerProduct" bottom: "{last}" top: "fc" inner_product_param {{ num_output: 2 }} }}\n'
    return text + 'layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }\n'


def run(*args):
    r = subprocess.run(args, capture_output=True, text=True, timeout=120)
    if r.returncode != 0:
        raise AssertionError(f"{' '.join(args)}\nended with {r.returncode}\n{r.stdout[-2000:]}\n{r.stderr[-2000:]}")
    return r.stdout


def compare(binary, folder, case, rng):
    path = lambda ending: os.path.join(folder, "net" + ending)
    x = (rng.standard_normal((EXAMPLES, ) + case.shape) * 2).astype(np.float32)
    want = case.reference(x.astype(float))
    weights = dict(case.weights, fc=[rng.standard_normal((2, want[0].size)).astype(np.float32), np.zeros(2, np.float32)])
    with open(path(".prototxt"), "w") as f:
        f.write(text_of(case))
    with open(path(".caffemodel"), "wb") as f:
        f.write(caffemodel(weights))
    np.save(path(".npy"), x)
    run(binary, "import", path(".prototxt"), path(".caffemodel"), "--out", path(".toml"))
    with open(path(".toml")) as f:
        names = [line.split('"')[1] for line in f if line.startswith("name = ")]
    # A Scale behind a BatchNorm is part of it.
    layer = "x" if "x" in names else "n"
    lines = run(binary, "predict", path(".toml"), "--weights", path(".safetensors"), path(".npy"), "--layer", layer, "--json").splitlines()
    got = np.array([e["outputs"] for e in map(json.loads, lines) if e["event"] == "prediction"])
    assert got.size == want.size, f"{case.title}: {got.shape} values, expected {want.shape}"
    error = np.abs(got.reshape(want.shape) - want).max() / case.scale
    assert error < 1e-5, f"{case.title}: error {error}"
    assert want.std() > 1e-3, f"{case.title}: the outputs say nothing"
    return error


def main():
    binary = sys.argv[1]
    rng = np.random.default_rng(1)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(np.random.default_rng(2)):
            try:
                print(f"ok: {case.title}, largest difference {compare(binary, folder, case, rng):.1e}")
            except AssertionError as e:
                wrong.append(str(e))
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
