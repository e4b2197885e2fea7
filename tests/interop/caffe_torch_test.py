#!/usr/bin/env python3
"""Compares imported nets of Caffe with PyTorch: a LeNet with ceil-mode pooling and LRN, a net with
BatchNorm, Scale, an average over clipped windows, Eltwise and Concat, and random nets of windows that differ by axis. The .caffemodel is written by caffe_bytes.py;
the reference is PyTorch's functions, called as Caffe's documentation and sources define its layers.

usage: caffe_torch_test.py TROUPE_BINARY
"""
import json
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import torch
import torch.nn.functional as F

from caffe_bytes import caffemodel

WINDOWS = 20

LENET = """
name: "LeNet"
input: "data" input_dim: 4 input_dim: 3 input_dim: 29 input_dim: 29
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 8 kernel_size: 5 pad: 2 stride: 1 } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "relu1" type: "ReLU" bottom: "pool1" top: "pool1" relu_param { negative_slope: 0.1 } }
layer { name: "norm1" type: "LRN" bottom: "pool1" top: "norm1" lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 k: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "norm1" top: "conv2"
  convolution_param { num_output: 12 kernel_h: 3 kernel_w: 5 pad_h: 1 pad_w: 2 group: 2 } }
layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2" pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "norm2" type: "LRN" bottom: "pool2" top: "norm2"
  lrn_param { local_size: 3 alpha: 0.4 beta: 0.6 k: 7 norm_region: WITHIN_CHANNEL } }
layer { name: "ip1" type: "InnerProduct" bottom: "norm2" top: "ip1" inner_product_param { num_output: 20 } }
layer { name: "slope" type: "PReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 10 transpose: true } }
layer { name: "prob" type: "Softmax" bottom: "ip2" top: "prob" }
"""

RESIDUAL = """
name: "residual"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 3 dim: 12 dim: 11 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 bias_term: false } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "conv1" batch_norm_param { use_global_stats: true eps: 1e-4 } }
layer { name: "scale1" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
layer { name: "elu1" type: "ELU" bottom: "conv1" top: "conv1" elu_param { alpha: 0.7 } }
layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2" convolution_param { num_output: 6 kernel_size: 3 pad: 2 dilation: 2 } }
layer { name: "bn2" type: "BatchNorm" bottom: "conv2" top: "bn2" }
layer { name: "sum" type: "Eltwise" bottom: "conv1" bottom: "bn2" top: "sum" eltwise_param { operation: SUM coeff: 1 coeff: -0.5 } }
layer { name: "up" type: "Deconvolution" bottom: "sum" top: "up" convolution_param { num_output: 4 kernel_size: 4 stride: 2 pad: 1 } }
layer { name: "pool" type: "Pooling" bottom: "up" top: "pool" pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "cut" type: "Crop" bottom: "pool" bottom: "conv1" top: "cut" crop_param { axis: 2 offset: 0 offset: 0 } }
layer { name: "both" type: "Concat" bottom: "cut" bottom: "conv1" top: "both" }
layer { name: "global" type: "Pooling" bottom: "both" top: "global" pooling_param { pool: AVE global_pooling: true } }
layer { name: "fc" type: "InnerProduct" bottom: "global" top: "fc" inner_product_param { num_output: 5 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""


# --- Caffe's layers


def pooled(x, average, kernel, stride, pad=0):
    """Extents are rounded up; a last window that begins in the padding is dropped. The mean's divisor counts
    padding, but nothing beyond it."""
    (kh, kw), (sh, sw), (ph, pw) = (v if isinstance(v, tuple) else (v, v) for v in (kernel, stride, pad))

    def extent(n, kernel, stride, pad):
        out = -(-(n + 2 * pad - kernel) // stride) + 1
        return out - 1 if (ph or pw) and (out - 1) * stride >= n + pad else out

    h, w = x.shape[2:]
    y = torch.zeros(x.shape[0], x.shape[1], extent(h, kh, sh, ph), extent(w, kw, sw, pw), dtype=x.dtype)
    for i in range(y.shape[2]):
        for j in range(y.shape[3]):
            top, left = i * sh - ph, j * sw - pw
            bottom, right = min(top + kh, h + ph), min(left + kw, w + pw)
            size = (bottom - top) * (right - left)
            window = x[:, :, max(top, 0):min(bottom, h), max(left, 0):min(right, w)].flatten(2)
            y[:, :, i, j] = window.sum(2) / size if average else window.amax(2)
    return y


def lrn_across(x, size, alpha, beta, k):
    half = size // 2
    squares = F.pad(x * x, (0, 0, 0, 0, half, half))
    total = sum(squares[:, i:i + x.shape[1]] for i in range(size))
    return x * (k + alpha / size * total)**-beta


def lrn_within(x, size, alpha, beta):
    """k is not read: the constant is 1. The mean counts the padding."""
    return x * (1 + alpha * F.avg_pool2d(x * x, size, 1, size // 2, count_include_pad=True))**-beta


def lenet(x, w):
    x = F.conv2d(x, *w["conv1"], padding=2)
    x = F.leaky_relu(pooled(x, False, 2, 2), 0.1)
    x = lrn_across(x, 5, 0.5, 0.75, 2)
    x = F.conv2d(x, *w["conv2"], padding=(1, 2), groups=2)
    x = lrn_within(pooled(x, True, 3, 2, 1), 3, 0.4, 0.6)
    x = F.prelu(F.linear(x.flatten(1), *w["ip1"]), w["slope"][0])
    return F.linear(x, w["ip2"][0].T, w["ip2"][1])


def normalised(x, blobs, eps):
    mean, var, factor = blobs
    return F.batch_norm(x, mean / factor, var / factor, eps=eps)


def residual(x, w):
    scale, bias = (p.view(1, -1, 1, 1) for p in w["scale1"])
    a = F.elu(normalised(F.conv2d(x, *w["conv1"], padding=1), w["bn1"], 1e-4) * scale + bias, 0.7)
    b = normalised(F.conv2d(a, *w["conv2"], padding=2, dilation=2), w["bn2"], 1e-5)
    up = F.conv_transpose2d(a - 0.5 * b, *w["up"], stride=2, padding=1)
    cut = pooled(up, True, 3, 2)[:, :, :a.shape[2], :a.shape[3]]
    both = torch.cat([cut, a], 1).mean((2, 3))
    return F.linear(both, *w["fc"])


def random_windows(rng):
    """A net of convolutions and pooling whose windows differ by axis: its text, shapes of blobs, reference, and example."""
    draw = lambda least, most: (int(rng.integers(least, most + 1)), int(rng.integers(least, most + 1)))
    shape = (int(rng.integers(1, 4)), int(rng.integers(7, 14)), int(rng.integers(7, 14)))
    text, steps, shapes = f'name: "windows" input: "data" input_dim: 2 input_dim: {shape[0]} input_dim: {shape[1]} input_dim: {shape[2]}\n', [], {}
    x = torch.zeros(1, *shape)
    last = "data"
    for k in range(3):
        kernel, stride, dilation = draw(1, 4), draw(1, 2), draw(1, 2)
        kind = rng.choice(["Convolution", "Deconvolution", "Pooling"])
        kernel = tuple(1 if kind != "Deconvolution" and d * (n - 1) + 1 > e else n for n, d, e in zip(kernel, dilation, x.shape[2:]))
        if kind == "Pooling":
            stride = tuple(min(s, n) for s, n in zip(stride, kernel))
        pad = tuple(int(rng.integers(0, n)) for n in kernel)
        window = "".join(f" {name}_h: {v[0]} {name}_w: {v[1]}" for name, v in (("kernel", kernel), ("stride", stride), ("pad", pad)))
        name = f"layer{k}"
        if kind == "Pooling":
            average = bool(rng.integers(0, 2))
            more = f"pooling_param {{ pool: {'AVE' if average else 'MAX'}{window} }}"
            step = lambda x, w, a=(average, kernel, stride, pad): pooled(x, *a)
        else:
            outputs, channels = int(rng.integers(1, 4)), x.shape[1]
            more = f"convolution_param {{ num_output: {outputs}{window} dilation: {dilation[0]} dilation: {dilation[1]} }}"
            if kind == "Convolution":
                shapes[name] = [(outputs, channels) + kernel, (outputs, )]
                step = lambda x, w, n=name, a=(stride, pad, dilation): F.conv2d(x, *w[n], *a)
            else:
                full = [(e - 1) * s + d * (n - 1) + 1 for e, s, d, n in zip(x.shape[2:], stride, dilation, kernel)]
                if any(f <= 2 * p for f, p in zip(full, pad)):
                    continue
                shapes[name] = [(channels, outputs) + kernel, (outputs, )]
                step = lambda x, w, n=name, a=(stride, pad, 0, 1, dilation): F.conv_transpose2d(x, *w[n], *a)
        steps.append(step)
        x = step(x, {n: [torch.zeros(s) for s in all_] for n, all_ in shapes.items()})
        text += f'layer {{ name: "{name}" type: "{kind}" bottom: "{last}" top: "{name}" {more} }}\n'
        last = name
    shapes["fc"] = [(5, x[0].numel()), (5, )]
    text += f'layer {{ name: "fc" type: "InnerProduct" bottom: "{last}" top: "fc" inner_product_param {{ num_output: 5 }} }}\n'
    text += 'layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }\n'

    def features(x, w):
        for step in steps:
            x = step(x, w)
        return x.flatten(1)

    weights = weights_of(shapes, rng)
    sizes = features(torch.randn(9, *shape), {n: [torch.tensor(a) for a in all_] for n, all_ in weights.items()}).norm(dim=1)
    weights["fc"][0] *= 3 / float(sizes.mean())  # scores of about 1
    return text, weights, lambda x, w: F.linear(features(x, w), *w["fc"]), shape


def weights_of(shapes, rng):
    return {name: [rng.standard_normal(s).astype(np.float32) * (0.3 if len(s) > 1 else 1) for s in all_] for name, all_ in shapes.items()}


def troupe(*args):
    r = subprocess.run(args, capture_output=True, text=True, timeout=120)
    if r.returncode != 0:
        sys.exit(f"{' '.join(args)}\nended with {r.returncode}\n{r.stdout[-2000:]}\n{r.stderr[-2000:]}")
    return r.stdout


def compare(binary, folder, title, text, weights, reference, shape, old):
    rng = np.random.default_rng(3)
    path = lambda name: os.path.join(folder, title + name)
    with open(path(".prototxt"), "w") as f:
        f.write(text)
    with open(path(".caffemodel"), "wb") as f:
        f.write(caffemodel(weights, old))
    x = rng.standard_normal((7, ) + shape).astype(np.float32)
    np.save(path(".npy"), x)
    troupe(binary, "import", path(".prototxt"), path(".caffemodel"), "--out", path(".toml"))
    lines = troupe(binary, "predict", path(".toml"), "--weights", path(".safetensors"), path(".npy"), "--all", "--json").splitlines()
    got = np.array([e["outputs"] for e in map(json.loads, lines) if e["event"] == "prediction"])
    scores = reference(torch.tensor(x).double(), {n: [torch.tensor(a).double() for a in all_] for n, all_ in weights.items()})
    want = torch.softmax(scores, 1).numpy()
    error = np.abs(got - want).max()
    assert got.shape == want.shape and error < 1e-5, f"{title}: {got.shape}, error {error}"
    assert want.max(1).min() > 0.15 and want.std() > 0.05, f"{title}: the outputs say nothing: {want}"
    # Back to Caffe and from there again: the same weights.
    troupe(binary, "export", path(".toml"), "--weights", path(".safetensors"), "--out", path("_again.prototxt"))
    troupe(binary, "import", path("_again.caffemodel"), path("_again.prototxt"), "--out", path("_again.toml"))
    first, again = (open(path(n + ".safetensors"), "rb").read() for n in ("", "_again"))
    assert first == again, f"{title}: the weights differ after an export"
    print(f"ok: {title}, old form {old}, largest difference {error:.1e}")


def main():
    binary = sys.argv[1]
    rng = np.random.default_rng(1)
    of_lenet = weights_of({"conv1": [(8, 3, 5, 5), (8, )], "conv2": [(12, 4, 3, 5), (12, )], "ip1": [(20, 768), (20, )],
                           "slope": [(20, )], "ip2": [(20, 10), (10, )]}, rng)
    of_residual = weights_of({"conv1": [(6, 3, 3, 3)], "scale1": [(6, ), (6, )], "conv2": [(6, 6, 3, 3), (6, )],
                              "up": [(6, 4, 4, 4), (4, )], "fc": [(5, 10), (5, )]}, rng)
    for name in ("bn1", "bn2"):
        of_residual[name] = [rng.standard_normal(6).astype(np.float32), rng.uniform(1, 900, 6).astype(np.float32), np.array([999.98], np.float32)]
    with tempfile.TemporaryDirectory() as folder:
        for old in (False, True):
            compare(binary, folder, "lenet", LENET, of_lenet, lenet, (3, 29, 29), old)
        for k in range(WINDOWS):
            torch.manual_seed(k)
            text, weights, reference, shape = random_windows(np.random.default_rng(100 + k))
            compare(binary, folder, f"windows{k}", text, weights, reference, shape, False)
        compare(binary, folder, "residual", RESIDUAL, of_residual, residual, (3, 12, 11), False)


if __name__ == "__main__":
    main()
