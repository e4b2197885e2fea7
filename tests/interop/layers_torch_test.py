#!/usr/bin/env python3
"""Compares every layer's outputs and gradients with PyTorch, in fp32, to 1e-5 relative.

usage: layers_torch_test.py LAYER_DUMP_BINARY [bf16]
bf16: convolution and linear with bf16 activations, compared with PyTorch in fp32 on the same values.
The dump has every layer type of the registry, with all its cases and random ones; a type without an oracle below fails the test.
"""
import glob
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tensors

HALF = sys.argv[2:] == ["bf16"]
BOUND = 2**-8 if HALF else 1e-5  # bf16: the results are rounded, and compared with those of f32 maths


class Options:
    def __init__(self, meta):
        self.raw = {k[4:]: v for k, v in meta.items() if k.startswith("opt.")}

    def int(self, k):
        return int(self.raw[k])

    def real(self, k):
        return float(self.raw[k])

    def text(self, k):
        return self.raw[k]

    def flag(self, k):
        return self.raw[k] == "true"

    def ints(self, k):
        return [int(x) for x in self.raw[k].split(",") if x]

    def reals(self, k):
        return [float(x) for x in self.raw[k].split(",") if x]

    def pair(self, k, fallback=None):
        """Height and width of an option by axis; `kernel` also as kernel_h and kernel_w, if they are not 0."""
        both = self.ints(k) if k in self.raw else [fallback]
        h = int(self.raw.get(k + "_h", 0)) or both[0]
        w = int(self.raw.get(k + "_w", 0)) or both[-1]
        return h, w


def as_image(layer):
    """[N, C, L] as images of height 1, with options of one number: PyTorch's functions of two axes are called with 1 for the first."""
    def of_either(o, x, w):
        if x[0].dim() == 4:
            return layer(o, x, w)
        one = Options({})
        one.raw = {k: f"{0 if k in ('pad', 'output_pad') else 1},{v}" if k in ("kernel", "stride", "pad", "output_pad", "dilation") else v
                   for k, v in o.raw.items() if k not in ("kernel_h", "kernel_w")}
        w = [v.unsqueeze(2) if v.dim() == 3 else v for v in w]
        return layer(one, [v.unsqueeze(2) for v in x], w).squeeze(2)
    return of_either


def convolution(o, x, w):
    bias = w[1] if len(w) > 1 else None
    return F.conv2d(x[0], w[0], bias, o.pair("stride", 1), o.pair("pad", 0), o.pair("dilation", 1), o.int("groups"))


def pool_extent(size, kernel, stride, pad, ceil):
    n = (size + 2 * pad - kernel + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (n - 1) * stride >= size + pad:
        n -= 1
    return n


def sequence_convolution(o, x, w):
    """F.conv1d on [N, D, T], padded before and behind."""
    kernel, stride, dilation, pad, steps = o.int("kernel"), o.int("stride"), o.int("dilation"), o.text("pad"), x[0].shape[1]
    reach = dilation * (kernel - 1)
    if pad == "causal":
        sides = reach, 0
    elif pad == "same":
        total = max(0, (-(-steps // stride) - 1) * stride + reach + 1 - steps)
        sides = total // 2, total - total // 2
    else:
        sides = int(pad), int(pad)
    y = F.conv1d(F.pad(x[0].transpose(1, 2), sides), w[0], w[1] if len(w) > 1 else None, stride, 0, dilation, o.int("groups"))
    return y.transpose(1, 2)


def pooled(o, x, kind):
    """Explicit windows: unfolds the plane, padded far enough for Caffe's rounding, and reduces each window."""
    kh, kw = o.pair("kernel")
    kh, kw = kh or x.shape[2], kw or x.shape[3]
    sh, sw = o.pair("stride", 1)
    ph, pw = o.pair("pad", 0)
    ceil = o.text("rounding") == "ceil"
    n, c, h, w = x.shape
    oh, ow = pool_extent(h, kh, sh, ph, ceil), pool_extent(w, kw, sw, pw, ceil)
    right = max(0, (oh - 1) * sh + kh - h - ph), max(0, (ow - 1) * sw + kw - w - pw)
    fill = float("-inf") if kind == "max" else 0.0
    padded = F.pad(x, (pw, right[1], ph, right[0]), value=fill)
    windows = padded.unfold(2, kh, sh).unfold(3, kw, sw)[:, :, :oh, :ow].reshape(n, c, oh, ow, kh * kw)
    if kind == "max":
        return windows.max(-1).values
    ones = torch.ones(1, 1, h, w)
    if o.flag("count_padding"):
        ones = F.pad(ones, (pw, pw, ph, ph), value=1.0)
        right = max(0, right[0] - ph), max(0, right[1] - pw)
        counted = F.pad(ones, (0, right[1], 0, right[0]))
    else:
        counted = F.pad(ones, (pw, right[1], ph, right[0]))
    counts = counted.unfold(2, kh, sh).unfold(3, kw, sw)[:, :, :oh, :ow].reshape(1, 1, oh, ow, kh * kw).sum(-1)
    return windows.sum(-1) / counts


def lrn(o, x, w):
    x = x[0]
    size, alpha, beta, k = o.int("size"), o.real("alpha"), o.real("beta"), o.real("k")
    if o.text("region") == "across_channels":
        return F.local_response_norm(x, size, alpha, beta, k)
    return x * (k + alpha * F.avg_pool2d(x * x, size, 1, size // 2, count_include_pad=True)) ** -beta


def eltwise(o, x, w):
    op = o.text("operation")
    if op == "sum":
        c = o.reals("coeffs") or [1.0] * len(x)
        return sum(a * b for a, b in zip(c, x))
    y = x[0]
    for b in x[1:]:
        y = y * b if op == "prod" else torch.maximum(y, b)
    return y


def slices(o, x, w):
    axis, points, size = o.int("axis"), o.ints("points"), x[0].shape[o.int("axis")]
    if not points:
        parts = o.int("parts")
        points = [size // parts * i for i in range(1, parts)]
    edges = [0] + points + [size]
    return [x[0].narrow(axis, a, b - a) for a, b in zip(edges, edges[1:])]


def softmax_loss(o, x, w):
    keep = x[1] >= 0
    weights = o.reals("class_weights")
    return F.cross_entropy(x[0].reshape(*x[1].shape, -1)[keep], x[1][keep].long(), label_smoothing=o.real("label_smoothing"),
                           weight=torch.tensor(weights, dtype=x[0].dtype) if weights else None)


def accuracy(o, x, w):
    label = x[1].long()
    best = x[0].reshape(*label.shape, -1).topk(o.int("top_k")).indices
    keep = label >= 0
    return (best == label[..., None]).any(-1)[keep].float().mean()


def recurrent(run, gates):
    """PyTorch's unidirectional recurrent layer, batch first, from a zero state."""
    def oracle(o, x, w):
        n, t = x[0].shape[:2]
        assert w[0].shape[0] == gates * o.int("units")
        zero = torch.zeros(1, n, o.int("units"))
        return run(o, (x[0].reshape(n, t, -1), zero, w, len(w) > 2, 1, 0.0, True, False, True))[0]
    return oracle


def per_channel(v, x):
    """Reshapes a vector of channels so that it broadcasts to x [N, C, ...]."""
    return v.reshape([1, -1] + [1] * (x.dim() - 2))


def embedding(o, x, w):
    return F.embedding(x[0].long(), w[0])


def crop(o, x, w):
    axis, size, offsets = o.int("axis"), o.ints("size"), o.ints("offsets")
    y = x[0]
    for k in range(axis, y.dim()):
        at = 0 if not offsets else offsets[0] if len(offsets) == 1 else offsets[k - axis]
        y = y.narrow(k, at, size[k - axis] if size else x[1].shape[k])
    return y


def pad(o, x, w):
    side = lambda k: o.int("pad") if o.int(k) < 0 else o.int(k)
    mode = {"zero": "constant", "edge": "replicate", "reflect": "reflect"}[o.text("mode")]
    return F.pad(x[0], tuple(side(k) for k in ("left", "right", "top", "bottom")[: 2 * (x[0].dim() - 2)]), mode=mode)


def upsample(o, x, w):
    size = (o.int("height"), o.int("width")) if o.int("height") else tuple(n * o.int("factor") for n in x[0].shape[2:])
    if o.text("mode") == "nearest":
        return F.interpolate(x[0], size=size, mode="nearest")
    return F.interpolate(x[0], size=size, mode="bilinear", align_corners=o.flag("align_corners"))


def deconvolution(o, x, w):
    bias = w[1] if len(w) > 1 else None
    return F.conv_transpose2d(x[0], w[0], bias, o.pair("stride", 1), o.pair("pad", 0), o.pair("output_pad", 0), o.int("groups"),
                              o.pair("dilation", 1))


def targets_of(x):
    """Targets from labels as Troupe reads them: one class per example, or binary."""
    if x[1].is_floating_point():
        return x[1].detach()
    rows = x[0].reshape(x[0].shape[0], -1)
    if rows.shape[1] == 1:
        return (x[1] > 0).to(x[0].dtype).reshape(x[0].shape)
    return F.one_hot(x[1].long(), rows.shape[1]).to(x[0].dtype).reshape(x[0].shape)


def sigmoid_cross_entropy(o, x, w):
    return F.binary_cross_entropy_with_logits(x[0], targets_of(x), reduction="sum") / x[0].shape[0]


def hinge(o, x, w):
    h = F.relu(1 + (1 - 2 * targets_of(x)) * x[0])
    return (h if o.text("norm") == "l1" else h * h).sum() / x[0].shape[0]


def layer_norm(o, x, w):
    return F.layer_norm(x[0], x[0].shape[o.int("axis"):], *(w if w else (None, None)), eps=o.real("epsilon"))


def group_norm(o, x, w, groups=None):
    return F.group_norm(x[0], groups or o.int("groups"), *(w if w else (None, None)), eps=o.real("epsilon"))


def matmul(o, x, w):
    a = x[0].transpose(-1, -2) if o.flag("transpose_a") else x[0]
    return o.real("scale") * (a @ (x[1].transpose(-1, -2) if o.flag("transpose_b") else x[1]))


def softmax(o, x, w):
    y = x[0]
    if o.flag("causal"):
        y = y.masked_fill(torch.ones(y.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return F.softmax(y, o.int("axis"))


def batch_norm(o, x, w, training=True, running=None):
    mean, var = running or (w[-2].clone().detach(), w[-1].clone().detach())
    affine = w[:2] if len(w) == 4 else (None, None)
    return F.batch_norm(x[0], mean, var, *affine, training, o.real("momentum"), o.real("epsilon"))


def check_running(o, t, x, w):
    """Checks the update of the running statistics by the packet's, and an evaluation with them. Returns the worst difference."""
    running = w[-2].clone().detach(), w[-1].clone().detach()
    worst = tensors.relative(t["tested.0"], batch_norm(o, x, w, False, running).detach().numpy())
    batch_norm(o, x, w, True, running)
    m = o.real("momentum")
    for k in range(2):
        old = w[len(w) - 2 + k].detach().numpy()
        worst = max(worst, tensors.relative((1 - m) * old + m * t[f"stat.{k}"], running[k].numpy()))
    return worst


def rbm(o, x, w, drawn, vk):
    """Free energies with the drawn units constant (outputs: loss, hidden, reconstruction)."""
    weight, c, b = w
    v0, vk = x[0].flatten(1), vk.flatten(1)
    gaussian = o.text("hidden") == "gaussian"

    def free(v):
        a = F.linear(v, weight, c)
        return (-v @ b - (a**2 / 2 if gaussian else F.softplus(a)).sum(1)).mean()

    rbm.energies = max(abs(free(v).item()) for v in (v0, vk))  # the loss is their difference
    a = F.linear(v0, weight, c)
    return free(v0) - free(vk), a if gaussian else torch.sigmoid(a), torch.sigmoid(drawn @ weight + b).reshape(x[0].shape)


def unpool(o, x, w):
    """The gradient of <values, max_pool(at)> with respect to `at`: linear in the values."""
    values, at = x[0], x[1].detach()
    with torch.enable_grad():
        at = at.clone().requires_grad_()
        return torch.autograd.grad(pooled(o, at, "max"), at, values, create_graph=True)[0]


ORACLES = {
    "rnn": recurrent(lambda o, a: (torch.rnn_relu if o.text("activation") == "relu" else torch.rnn_tanh)(*a), 1),
    "lstm": recurrent(lambda o, a: torch.lstm(a[0], (a[1], a[1]), *a[2:]), 4),
    "gru": recurrent(lambda o, a: torch.gru(*a), 3),
    "convolution": as_image(convolution),
    "sequence_convolution": sequence_convolution,
    "max_pool": as_image(lambda o, x, w: pooled(o, x[0], "max")),
    "avg_pool": as_image(lambda o, x, w: pooled(o, x[0], "avg")),
    "unpool": as_image(unpool),
    "relu": lambda o, x, w: F.leaky_relu(x[0], o.real("slope")),
    "linear": lambda o, x, w: F.linear(x[0].flatten(o.int("axis")), w[0], w[1] if len(w) > 1 else None),
    "flatten": lambda o, x, w: x[0].reshape(x[0].shape[0], -1),
    "lrn": lrn,
    "softmax_loss": softmax_loss,
    "accuracy": accuracy,
    "concat": lambda o, x, w: torch.cat(x, o.int("axis")),
    "slice": slices,
    "eltwise": eltwise,
    "embedding": embedding,
    "sigmoid": lambda o, x, w: torch.sigmoid(x[0]),
    "tanh": lambda o, x, w: torch.tanh(x[0]),
    "elu": lambda o, x, w: F.elu(x[0], o.real("alpha")),
    "gelu": lambda o, x, w: F.gelu(x[0], approximate=o.text("approximate")),
    "relu6": lambda o, x, w: F.hardtanh(x[0], 0.0, o.real("max")),
    "silu": lambda o, x, w: F.silu(x[0]),
    "hard_swish": lambda o, x, w: F.hardswish(x[0]),
    "hard_sigmoid": lambda o, x, w: torch.clamp(o.real("slope") * x[0] + 0.5, 0.0, 1.0),
    "channel_scale": lambda o, x, w: x[0] * x[1].reshape(x[0].shape[:2] + (1,) * (x[0].dim() - 2)),
    "prelu": lambda o, x, w: F.prelu(x[0], w[0]),
    "layer_norm": layer_norm,
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "instance_norm": lambda o, x, w: group_norm(o, x, w, x[0].shape[1]),
    "reshape": lambda o, x, w: x[0].reshape(x[0].shape[:1] + tuple(e or x[0].shape[k + 1] for k, e in enumerate(o.ints("shape")))),
    "permute": lambda o, x, w: x[0].permute(0, *o.ints("order")),
    "matmul": matmul,
    "softmax": softmax,
    "rbm": rbm,
    "squared_error": lambda o, x, w: ((x[0] - x[1]) ** 2).sum() / x[0].shape[0],
    "scale": lambda o, x, w: x[0] * per_channel(w[0], x[0]) + (per_channel(w[1], x[0]) if len(w) > 1 else 0),
    "bias": lambda o, x, w: x[0] + per_channel(w[0], x[0]),
    "split": lambda o, x, w: [x[0] * 1 for _ in range(o.int("copies"))],
    "crop": crop,
    "pad": pad,
    "upsample": upsample,
    "deconvolution": as_image(deconvolution),
    "sigmoid_cross_entropy": sigmoid_cross_entropy,
    "euclidean": lambda o, x, w: 0.5 * ((x[0] - x[1]) ** 2).sum() / x[0].shape[0],
    "hinge": hinge,
}


def check_dropout(o, t):
    ratio = o.real("ratio")
    kept = t["out.0"] != 0
    assert tensors.relative(t["out.0"][kept], t["in.0"][kept] / (1 - ratio)) <= BOUND
    assert tensors.relative(t["grad_in.0"], t["grad_out.0"] * kept / (1 - ratio)) <= BOUND


def check(path):
    t, meta = tensors.load(path)
    o, kind = Options(meta), meta["type"]
    if kind == "dropout":
        check_dropout(o, t)
        return 0.0
    typed = lambda v: v.bfloat16().float() if HALF and v.is_floating_point() else v
    many = lambda prefix: [typed(torch.tensor(t[k])) for k in sorted((k for k in t if k.startswith(prefix + ".")), key=lambda k: int(k.split(".")[1]))]
    x, w, g = many("in"), many("param"), many("grad_out")
    leaves = {f"grad_in.{i}": v for i, v in enumerate(x) if v.is_floating_point()}
    leaves.update({f"grad_param.{i}": v for i, v in enumerate(w)})
    for v in leaves.values():
        v.requires_grad_(True)
    y = ORACLES[kind](o, x, w, *many("extra"))
    y = list(y) if isinstance(y, (list, tuple)) else [y]
    worst = check_running(o, t, x, w) if kind == "batch_norm" else 0.0
    for i, v in enumerate(y):
        apart = abs(t["out.0"] - v.item()).max() / rbm.energies if kind == "rbm" and i == 0 else None
        worst = max(worst, tensors.relative(t[f"out.{i}"].reshape(v.shape), v.detach().float().numpy()) if apart is None else apart)
    if g:
        sum((a * b.reshape(a.shape)).sum() for a, b in zip(y, g)).backward()
        for name, v in leaves.items():
            if name not in t and v.grad is None:
                continue  # no gradient: targets, the size reference of crop
            if name not in t:
                sys.exit(f"{path}: Troupe wrote no {name}")
            grad = v.grad if v.grad is not None else torch.zeros_like(v)
            worst = max(worst, tensors.relative(t[name], grad.float().numpy()))
    if not worst <= BOUND:
        sys.exit(f"{os.path.basename(path)}: relative difference {worst:.3e} > {BOUND:.0e}  ({dict(o.raw)})")
    return worst


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run([sys.argv[1], tmp, "bf16" if HALF else "60"], check=True, stdout=subprocess.DEVNULL)
        worst = {}
        for path in sorted(glob.glob(os.path.join(tmp, "*.safetensors"))):
            kind = os.path.basename(path).split(".")[0]
            worst.setdefault(kind, []).append(check(path))
        missing = ({"convolution", "linear"} if HALF else set(ORACLES)) - set(worst)
        assert not missing, f"no cases for {sorted(missing)}"
        for kind, values in worst.items():
            print(f"{kind}: {len(values)} cases, worst relative difference {max(values):.2e}")
