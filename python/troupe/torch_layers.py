"""Layers of PyTorch as layers of Troupe: for torch_nets."""
from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch import nn
from torch.fx.node import Node
from torch.fx.passes.shape_prop import ShapeProp

Options = dict[str, Any]
Translated = tuple[str, Options] | None  # a layer's type and options; None: nothing to compute


class Values(ShapeProp):
    """Also keeps numbers, such as extents, and the values that do not depend on the input."""

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, (int, float)):
            n.meta["number"] = value
        if n.op == "get_attr" or (n.op.startswith("call_f") or n.op == "call_method") and n.all_input_nodes and all(
                "constant" in i.meta or "number" in i.meta for i in n.all_input_nodes):
            n.meta["constant"] = value
        return value


def number_of(value: Any) -> float | None:
    if isinstance(value, Node):
        value = value.meta.get("number")
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def masks_later(scores: tuple[int, ...], mask: torch.Tensor, low: Any = None) -> bool:
    """True if the mask hides the columns behind the diagonal of the scores' matrices. Without `low` it is added to them."""
    if len(scores) < 3 or scores[-1] != scores[-2] or mask.dim() < 2 or tuple(mask.shape) != (1,) * (mask.dim() - 2) + scores[-2:]:
        return False
    later = torch.ones(scores[-2:], dtype=torch.bool).triu(1)
    square = mask.reshape(scores[-2:])
    if mask.dtype != torch.bool:
        return low is None and bool((square[later] <= -1e4).all()) and bool((square[~later] == 0).all())
    return isinstance(low, (int, float)) and low <= -1e4 and torch.equal(square, later)


def _square(value: Any, what: str) -> int:
    if isinstance(value, (tuple, list)):
        if len(set(value)) != 1:
            raise ValueError(f"{what} {tuple(value)} differs by axis; Troupe's layer has one for both")
        return int(value[0])
    return int(value)


def _by_axis(value: Any) -> int | list[int]:
    """One number, or [height, width]."""
    numbers = list(value) if isinstance(value, (tuple, list)) else [value]
    return int(numbers[0]) if len(set(numbers)) == 1 else [int(n) for n in numbers]


def _window(o: Options) -> Options:
    """Kernel, stride and pad of a pooling layer."""
    if _by_axis(o.get("dilation", 1)) != 1:
        raise ValueError("the dilation of pooling is not supported")
    return {"kernel": _by_axis(o["kernel_size"]), "stride": _by_axis(o.get("stride") or o["kernel_size"]), "pad": _by_axis(o.get("padding", 0)),
            "rounding": "ceil" if o.get("ceil_mode") else "floor"}


def _padding(m: Any) -> Any:
    """The padding as numbers. "same" of an even reach is the same on both sides."""
    if m.padding == "valid":
        return 0
    if m.padding == "same":
        reach = [d * (k - 1) for d, k in zip(m.dilation, m.kernel_size)]
        if any(r % 2 for r in reach):
            raise ValueError(f"padding 'same' of a kernel {m.kernel_size} with dilation {m.dilation} differs before and behind the image")
        return tuple(r // 2 for r in reach)
    return m.padding


def _conv(m: Any, shape: tuple[int, ...]) -> Translated:
    if m.padding_mode != "zeros":
        raise ValueError(f"padding with mode {m.padding_mode!r} is not supported: zeros are")
    options = {"outputs": m.out_channels, "kernel": _by_axis(m.kernel_size), "stride": _by_axis(m.stride), "pad": _by_axis(_padding(m)),
               "dilation": _by_axis(m.dilation), "groups": m.groups, "bias": m.bias is not None}
    if isinstance(m, (nn.ConvTranspose1d, nn.ConvTranspose2d)):
        return "deconvolution", {**options, "output_pad": _by_axis(m.output_padding)}
    return "convolution", options


def _linear(m: Any, shape: tuple[int, ...]) -> Translated:
    return "linear", {"outputs": m.out_features, "bias": m.bias is not None, "axis": len(shape) - 1}


def _batch_norm(m: Any, shape: tuple[int, ...]) -> Translated:
    if not m.track_running_stats or m.momentum is None:
        raise ValueError("needs running statistics with a momentum")
    return "batch_norm", {"epsilon": m.eps, "momentum": m.momentum, "affine": m.affine}


def _layer_norm(m: Any, shape: tuple[int, ...]) -> Translated:
    return "layer_norm", {"axis": len(shape) - len(m.normalized_shape), "epsilon": m.eps, "affine": m.elementwise_affine}


def _group_norm(m: Any, shape: tuple[int, ...]) -> Translated:
    return "group_norm", {"groups": m.num_groups, "epsilon": m.eps, "affine": m.affine}


def _instance_norm(m: Any, shape: tuple[int, ...]) -> Translated:
    if m.track_running_stats:
        raise ValueError("running statistics (track_running_stats) are not supported")
    return "instance_norm", {"epsilon": m.eps, "affine": m.affine}


def _max_pool(m: Any, shape: tuple[int, ...]) -> Translated:
    if m.return_indices:
        raise ValueError("return_indices is not supported")
    return "max_pool", _window(vars(m))


def _avg_pool(m: Any, shape: tuple[int, ...]) -> Translated:
    if getattr(m, "divisor_override", None):  # AvgPool1d has none
        raise ValueError("divisor_override is not supported")
    return "avg_pool", {**_window(vars(m)), "count_padding": m.count_include_pad}


def _adaptive(m: Any, shape: tuple[int, ...]) -> Translated:
    axes = shape[2:]
    size = m.output_size if isinstance(m.output_size, (tuple, list)) else (m.output_size, ) * len(axes)
    if all(n == 1 for n in size):
        return "avg_pool", {"kernel": 0}
    if any(n is None or extent % n for extent, n in zip(axes, size)):
        raise ValueError(f"makes {tuple(size)} of {axes}: only windows of one size are supported")
    step = _by_axis([extent // n for extent, n in zip(axes, size)])
    return "avg_pool", {"kernel": step, "stride": step}


def _pad(m: Any, shape: tuple[int, ...]) -> Translated:
    reflects, repeats = isinstance(m, (nn.ReflectionPad1d, nn.ReflectionPad2d)), isinstance(m, (nn.ReplicationPad1d, nn.ReplicationPad2d))
    if not reflects and not repeats and m.value != 0:
        raise ValueError(f"a border of {m.value} is not supported: zeros are")
    return "pad", {**dict(zip(("left", "right", "top", "bottom"), m.padding)), "mode": "reflect" if reflects else "edge" if repeats else "zero"}


def _upsample(m: Any, shape: tuple[int, ...]) -> Translated:
    if m.mode not in ("nearest", "bilinear"):
        raise ValueError(f"mode {m.mode!r} is not supported: nearest and bilinear are")
    options: Options = {"mode": m.mode, "align_corners": bool(m.align_corners)}
    if m.size is not None:
        h, w = m.size if isinstance(m.size, (tuple, list)) else (m.size, m.size)
        return "upsample", {**options, "height": h, "width": w}
    factor = _square(m.scale_factor, "scale_factor")
    if factor != m.scale_factor and (factor, factor) != m.scale_factor:
        raise ValueError("scale_factor must be a whole number")
    return "upsample", {**options, "factor": factor}


def _embedding(m: Any, shape: tuple[int, ...]) -> Translated:
    if m.max_norm is not None:
        raise ValueError("max_norm is not supported")
    padding = {} if m.padding_idx is None else {"padding_id": m.padding_idx}
    return "embedding", {"vocabulary": m.num_embeddings, "outputs": m.embedding_dim, **padding}


def _softmax(m: Any, shape: tuple[int, ...]) -> Translated:
    if m.dim is None or m.dim % len(shape) == 0:
        raise ValueError("needs a dim other than that of the examples")
    return "softmax", {"axis": m.dim % len(shape)}


def reshape(before: tuple[int, ...], after: tuple[int, ...]) -> Translated:
    if before == after:
        return None
    if len(after) < 2 or after[0] != before[0]:
        raise ValueError(f"reshapes {before} to {after}: only shapes that keep the axis of the examples are supported")
    return ("flatten", {}) if len(after) == 2 else ("reshape", {"shape": list(after[1:])})


def permute(order: tuple[int, ...]) -> Translated:
    """`order`: for each axis of the result, the axis of x."""
    if order[0] != 0:
        raise ValueError("the axis of the examples (dim 0) must stay in front")
    return ("permute", {"order": list(order[1:])}) if list(order) != sorted(order) else None


def _flatten(m: Any, shape: tuple[int, ...]) -> Translated:
    first, last = m.start_dim % len(shape), m.end_dim % len(shape)
    return reshape(shape, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


MODULES: list[tuple[Any, Callable[[Any, tuple[int, ...]], Translated]]] = [
    ((nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d), _conv),
    (nn.Linear, _linear),
    ((nn.BatchNorm1d, nn.BatchNorm2d), _batch_norm),
    (nn.LayerNorm, _layer_norm),
    (nn.GroupNorm, _group_norm),
    ((nn.InstanceNorm1d, nn.InstanceNorm2d), _instance_norm),
    ((nn.MaxPool1d, nn.MaxPool2d), _max_pool),
    ((nn.AvgPool1d, nn.AvgPool2d), _avg_pool),
    ((nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d), _adaptive),
    (nn.LocalResponseNorm, lambda m, s: ("lrn", {"size": m.size, "alpha": m.alpha, "beta": m.beta, "k": m.k})),
    (nn.ReLU, lambda m, s: ("relu", {})),
    (nn.LeakyReLU, lambda m, s: ("relu", {"slope": m.negative_slope})),
    (nn.PReLU, lambda m, s: ("prelu", {"shared": m.num_parameters == 1})),
    (nn.ReLU6, lambda m, s: ("relu6", {})),
    (nn.SiLU, lambda m, s: ("silu", {})),
    (nn.Hardswish, lambda m, s: ("hard_swish", {})),
    (nn.Hardsigmoid, lambda m, s: ("hard_sigmoid", {})),
    (nn.ELU, lambda m, s: ("elu", {"alpha": m.alpha})),
    (nn.GELU, lambda m, s: ("gelu", {"approximate": m.approximate})),
    (nn.Sigmoid, lambda m, s: ("sigmoid", {})),
    (nn.Tanh, lambda m, s: ("tanh", {})),
    (nn.Softmax, _softmax),
    (nn.Dropout, lambda m, s: ("dropout", {"ratio": m.p})),
    (nn.Identity, lambda m, s: None),
    (nn.Flatten, _flatten),
    (nn.Embedding, _embedding),
    ((nn.ConstantPad1d, nn.ConstantPad2d, nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReplicationPad1d, nn.ReplicationPad2d), _pad),
    (nn.Upsample, _upsample),
]
