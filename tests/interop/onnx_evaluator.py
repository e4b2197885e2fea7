"""Evaluates ONNX graphs with numpy, written from the documentation of the operators (the page Operators of onnx/onnx) alone.

Computes in float64. `run(model, data)` checks the model with onnx.checker and strict shape inference, evaluates it, and compares the extents of
every value with those that shape inference gives.
"""
import itertools
import math

import numpy as np
import onnx
from onnx import helper, numpy_helper

_erf = np.vectorize(math.erf, otypes=[np.float64])


def wide(a):
    return a.astype(np.float64) if a.dtype in (np.float32, np.float16) else a


def windows(x, kernel, strides, dilations, pads, fill):
    """Yields (index of the output pixel, window [N, C, KH, KW]) of an image with borders of `fill`."""
    (kh, kw), (sh, sw), (dh, dw) = kernel, strides, dilations
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    oh = (x.shape[2] - ((kh - 1) * dh + 1)) // sh + 1
    ow = (x.shape[3] - ((kw - 1) * dw + 1)) // sw + 1
    for i, j in itertools.product(range(oh), range(ow)):
        yield (oh, ow), (i, j), x[:, :, i * sh : i * sh + (kh - 1) * dh + 1 : dh, j * sw : j * sw + (kw - 1) * dw + 1 : dw]


def window_attributes(a, extents):
    """Kernel, strides, dilations and pads of an image of these extents."""
    kernel, strides, dilations = a["kernel_shape"], a.get("strides", [1, 1]), a.get("dilations", [1, 1])
    pads = list(a.get("pads", [0, 0, 0, 0]))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    kind = a.get("auto_pad", b"NOTSET")
    if kind in (b"SAME_UPPER", b"SAME_LOWER"):
        for k in range(2):
            total = max(0, (-(-extents[k] // strides[k]) - 1) * strides[k] + reach[k] - extents[k])
            pads[k], pads[k + 2] = (total // 2, total - total // 2) if kind == b"SAME_UPPER" else (total - total // 2, total // 2)
    if a.get("ceil_mode", 0):  # padding behind, for windows that begin inside the image or the padding before it
        for k in range(2):
            out = -(-(extents[k] + pads[k] + pads[k + 2] - reach[k]) // strides[k]) + 1
            if (out - 1) * strides[k] >= extents[k] + pads[k]:
                out -= 1
            pads[k + 2] = max(0, (out - 1) * strides[k] + reach[k] - extents[k] - pads[k])
    return kernel, strides, dilations, pads


def of_either(f):
    """An operator of images also for [N, C, L], images of height 1."""

    def operator(a, x, *rest):
        if x.ndim == 4:
            return f(a, x, *rest)
        first = {"kernel_shape": [1], "strides": [1], "dilations": [1], "output_padding": [0], "output_shape": [1]}
        wide = {k: first.get(k, []) + list(v) if k in first else v for k, v in a.items()}
        if "pads" in a:
            wide["pads"] = [0, a["pads"][0], 0, a["pads"][1]]
        rest = [v[:, :, None] if v is not None and v.ndim == 3 else v for v in rest]
        return f(wide, x[:, :, None], *rest)[:, :, 0]

    return operator


@of_either
def conv(a, x, w, b=None):
    kernel, strides, dilations, pads = window_attributes({"kernel_shape": w.shape[2:], **a}, x.shape[2:])
    assert list(w.shape[2:]) == list(kernel)
    groups = a.get("group", 1)
    n, m, per = x.shape[0], w.shape[0], w.shape[0] // groups
    y = None
    for (oh, ow), (i, j), win in windows(x, kernel, strides, dilations, pads, 0.0):
        if y is None:
            y = np.zeros((n, m, oh, ow))
        for g in range(groups):
            part = win[:, g * w.shape[1] : (g + 1) * w.shape[1]]
            y[:, g * per : (g + 1) * per, i, j] = np.tensordot(part, w[g * per : (g + 1) * per], axes=([1, 2, 3], [1, 2, 3]))
    return y if b is None else y + b.reshape(1, -1, 1, 1)


@of_either
def conv_transpose(a, x, w, b=None):
    """Every input pixel adds its weights to the output, from which the padding is cut."""
    kind = a.get("auto_pad", b"NOTSET")
    (kh, kw), (sh, sw), (dh, dw), (top, left, bottom, right) = window_attributes({"kernel_shape": w.shape[2:], **a, "auto_pad": b"NOTSET"}, x.shape[2:])
    groups, (eh, ew) = a.get("group", 1), a.get("output_padding", [0, 0])
    n, c, h, wide_ = x.shape
    per = w.shape[1]
    full = np.zeros((n, per * groups, (h - 1) * sh + eh + (kh - 1) * dh + 1, (wide_ - 1) * sw + ew + (kw - 1) * dw + 1))
    for g, i, j in itertools.product(range(groups), range(h), range(wide_)):
        channels = slice(g * c // groups, (g + 1) * c // groups)
        add = np.tensordot(x[:, channels, i, j], w[channels], axes=([1], [0]))
        full[:, g * per : (g + 1) * per, i * sh : i * sh + (kh - 1) * dh + 1 : dh, j * sw : j * sw + (kw - 1) * dw + 1 : dw] += add
    if "output_shape" in a or kind in (b"SAME_UPPER", b"SAME_LOWER"):
        out = a.get("output_shape", [h * sh, wide_ * sw])
        total = [full.shape[2] - out[-2], full.shape[3] - out[-1]]
        half = [t // 2 for t in total] if kind == b"SAME_UPPER" else [t - t // 2 for t in total]
        (top, left), (bottom, right) = half, [t - f for t, f in zip(total, half)]
    y = full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right]
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def pool(a, x, reduce, fill):
    kernel, strides, dilations, pads = window_attributes(a, x.shape[2:])
    y = None
    for (oh, ow), (i, j), win in windows(x, kernel, strides, dilations, pads, fill):
        if y is None:
            y = np.zeros(x.shape[:2] + (oh, ow))
        y[:, :, i, j] = reduce(win)
    return y


@of_either
def max_pool(a, x):
    return pool(a, x, lambda w: w.max(axis=(2, 3)), -np.inf)


@of_either
def average_pool(a, x):
    if a.get("count_include_pad", 0):
        return pool(a, x, lambda w: w.mean(axis=(2, 3)), 0.0)
    return pool(a, x, lambda w: np.nanmean(w, axis=(2, 3)), np.nan)  # padding is not a number, and does not count


def gemm(a, x, w, c=0.0):
    x = x.T if a.get("transA", 0) else x
    w = w.T if a.get("transB", 0) else w
    return a.get("alpha", 1.0) * x @ w + a.get("beta", 1.0) * c


def softmax(a, x):
    if a["opset"] < 13:  # over all axes from `axis` on together
        axis = a.get("axis", 1)
        rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
        return softmax({"opset": 13}, rows).reshape(x.shape)
    e = np.exp(x - x.max(axis=a.get("axis", -1), keepdims=True))
    return e / e.sum(axis=a.get("axis", -1), keepdims=True)


def lrn(a, x):
    size = a["size"]
    square_sum = np.zeros_like(x)
    for c in range(x.shape[1]):
        first, last = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + -(-(size - 1) // 2))
        square_sum[:, c] = (x[:, first : last + 1] ** 2).sum(axis=1)
    return x / (a.get("bias", 1.0) + a.get("alpha", 1e-4) / size * square_sum) ** a.get("beta", 0.75)


def batch_normalization(a, x, scale, b, mean, var):
    assert not a.get("training_mode", 0)
    by_channel = lambda v: v.reshape([1, -1] + [1] * (x.ndim - 2))
    return (x - by_channel(mean)) / np.sqrt(by_channel(var) + a.get("epsilon", 1e-5)) * by_channel(scale) + by_channel(b)


def instance_normalization(a, x, scale, b):
    by_channel = lambda v: v.reshape([1, -1] + [1] * (x.ndim - 2))
    d = x - x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)
    variance = (d * d).mean(axis=tuple(range(2, x.ndim)), keepdims=True)
    return d / np.sqrt(variance + a.get("epsilon", 1e-5)) * by_channel(scale) + by_channel(b)


def layer_normalization(a, x, scale, b=0.0):
    axes = tuple(range(a.get("axis", -1) % x.ndim, x.ndim))
    d = x - x.mean(axis=axes, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=axes, keepdims=True) + a.get("epsilon", 1e-5)) * scale + b


def reshape(a, x, shape):
    assert not a.get("allowzero", 0)
    return x.reshape([x.shape[k] if e == 0 else e for k, e in enumerate(shape)])


def flatten(a, x):
    axis = a.get("axis", 1)
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def squeeze(a, x, axes=None):
    axes = a.get("axes", axes)
    return np.squeeze(x, None if axes is None else tuple(int(k) for k in axes))


def unsqueeze(a, x, axes=None):
    axes = a.get("axes", axes)
    for k in sorted(int(k) % (x.ndim + len(axes)) for k in axes):
        x = np.expand_dims(x, k)
    return x


def split(a, x, sizes=None):
    sizes = a.get("split", sizes)
    return np.split(x, a["outputs"] if sizes is None else np.cumsum(sizes)[:-1], axis=a.get("axis", 0))


def slices(a, x, starts=None, ends=None, axes=None, steps=None):
    starts, ends, axes = a.get("starts", starts), a.get("ends", ends), a.get("axes", axes)
    at = [slice(None)] * x.ndim
    for k, axis in enumerate(range(len(starts)) if axes is None else axes):
        at[axis] = slice(starts[k], ends[k], 1 if steps is None else steps[k])
    return x[tuple(at)]


def pad(a, x, pads=None, value=None):
    pads, value = a.get("pads", pads), a.get("value", 0.0 if value is None else value)
    sides = list(zip(pads[: x.ndim], pads[x.ndim :]))
    mode = a.get("mode", b"constant")
    if mode == b"constant":
        return np.pad(x, sides, constant_values=value)
    return np.pad(x, sides, mode={b"reflect": "reflect", b"edge": "edge"}[mode])


def place_in_input(mode, j, scale, extent, resized):
    """x_original of the documentation."""
    if mode == b"asymmetric":
        return j / scale
    if mode == b"align_corners":  # 0 / 0 for one pixel, whose weights do not matter if the input has one pixel too
        assert resized > 1 or extent == 1
        return j * (extent - 1) / (resized - 1) if resized > 1 else 0.0
    if mode == b"pytorch_half_pixel" and resized == 1:
        return 0.0
    assert mode in (b"half_pixel", b"pytorch_half_pixel"), mode
    return (j + 0.5) / scale - 0.5


def upsample(a, x, scales=None):
    """Of operator sets before 11: pixels are repeated."""
    assert a.get("mode", b"nearest") == b"nearest"
    places = {"mode": b"nearest", "coordinate_transformation_mode": b"asymmetric", "nearest_mode": b"floor"}
    return resize(places, x, None, a.get("scales", scales))


def rounded(mode, place):
    """The pixel of nearest_mode."""
    half = abs(place % 1 - 0.5) < 1e-9
    return {b"floor": math.floor(place), b"ceil": math.ceil(place), b"round_prefer_floor": math.floor(place) if half else round(place),
            b"round_prefer_ceil": math.ceil(place) if half else round(place)}[mode]


def resize(a, x, roi, scales=None, sizes=None):
    if a.get("opset", 13) < 11:
        return upsample(a, x, roi)  # the second input is the scales
    if sizes is not None:
        scales = [s / e for s, e in zip(sizes, x.shape)]
    mode, places = a.get("mode", b"nearest"), a.get("coordinate_transformation_mode", b"half_pixel")
    assert len(scales) == x.ndim
    for axis, scale in enumerate(scales):
        if scale == 1.0:
            continue
        extent = x.shape[axis]
        resized = int(math.floor(extent * float(scale) + 1e-9))
        at = [place_in_input(places, j, float(scale), extent, resized) for j in range(resized)]
        take = lambda index: np.take(x, np.clip(index, 0, extent - 1), axis=axis)
        if mode == b"nearest":
            x = take(np.array([rounded(a.get("nearest_mode", b"round_prefer_floor"), p + (1e-9 if sizes is not None else 0)) for p in at]))
            continue
        assert mode == b"linear"
        low = np.floor(at).astype(int)
        share = (np.array(at) - low).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
        x = take(low) * (1 - share) + take(low + 1) * share
    return x


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def gates(b, count):
    """[Wb, Rb] of the gates."""
    parts = np.split(b, 2 * count)
    return parts[:count], parts[count:]


def lstm(a, x, w, r, b=None):
    assert a.get("direction", b"forward") == b"forward" and not a.get("layout", 0) and w.shape[0] == 1
    h = c = np.zeros((x.shape[1], a["hidden_size"]))
    (wi, wo, wf, wc), (ri, ro, rf, rc) = np.split(w[0], 4), np.split(r[0], 4)
    (bi, bo, bf, bc), (ci, co, cf, cc) = gates(b[0] if b is not None else np.zeros(8 * h.shape[1]), 4)
    y = []
    for t in x:
        i = sigmoid(t @ wi.T + h @ ri.T + bi + ci)
        f = sigmoid(t @ wf.T + h @ rf.T + bf + cf)
        g = np.tanh(t @ wc.T + h @ rc.T + bc + cc)
        c = f * c + i * g
        h = sigmoid(t @ wo.T + h @ ro.T + bo + co) * np.tanh(c)
        y.append(h)
    return np.stack(y)[:, None]


def gru(a, x, w, r, b=None):
    assert a.get("direction", b"forward") == b"forward" and not a.get("layout", 0) and w.shape[0] == 1
    h = np.zeros((x.shape[1], a["hidden_size"]))
    (wz, wr, wh), (rz, rr, rh) = np.split(w[0], 3), np.split(r[0], 3)
    (bz, br, bh), (cz, cr, ch) = gates(b[0] if b is not None else np.zeros(6 * h.shape[1]), 3)
    y = []
    for t in x:
        z = sigmoid(t @ wz.T + h @ rz.T + bz + cz)
        reset = sigmoid(t @ wr.T + h @ rr.T + br + cr)
        if a.get("linear_before_reset", 0):
            g = np.tanh(t @ wh.T + reset * (h @ rh.T + ch) + bh)
        else:
            g = np.tanh(t @ wh.T + (reset * h) @ rh.T + ch + bh)
        h = (1 - z) * g + z * h
        y.append(h)
    return np.stack(y)[:, None]


def rnn(a, x, w, r, b=None):
    assert a.get("direction", b"forward") == b"forward" and not a.get("layout", 0) and w.shape[0] == 1
    f = {b"Tanh": np.tanh, b"Relu": lambda v: np.maximum(v, 0)}[a.get("activations", [b"Tanh"])[0]]
    h = np.zeros((x.shape[1], a["hidden_size"]))
    (bi,), (ci,) = gates(b[0] if b is not None else np.zeros(2 * h.shape[1]), 1)
    y = []
    for t in x:
        h = f(t @ w[0].T + h @ r[0].T + bi + ci)
        y.append(h)
    return np.stack(y)[:, None]


OPERATORS = {
    "Add": lambda a, x, y: x + y,
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Clip": lambda a, x, low=None, high=None: np.clip(x, a.get("min", -np.inf if low is None else low), a.get("max", np.inf if high is None else high)),
    "Concat": lambda a, *x: np.concatenate(x, a["axis"]),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Div": lambda a, x, y: x / y,
    "Dropout": lambda a, x, ratio=None, training=False: x,
    "Elu": lambda a, x: np.where(x < 0, a.get("alpha", 1.0) * (np.exp(np.minimum(x, 0)) - 1), x),
    "Erf": lambda a, x: _erf(x),
    "Flatten": flatten,
    "GRU": gru,
    "Gather": lambda a, x, i: np.take(x, i, axis=a.get("axis", 0)),
    "Gemm": gemm,
    "GlobalAveragePool": lambda a, x: x.mean(axis=tuple(range(2, x.ndim)), keepdims=True),
    "GlobalMaxPool": lambda a, x: x.max(axis=tuple(range(2, x.ndim)), keepdims=True),
    "HardSigmoid": lambda a, x: np.clip(a.get("alpha", 0.2) * x + a.get("beta", 0.5), 0, 1),
    "HardSwish": lambda a, x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Identity": lambda a, x: x,
    "InstanceNormalization": instance_normalization,
    "LRN": lrn,
    "LSTM": lstm,
    "LayerNormalization": layer_normalization,
    "LeakyRelu": lambda a, x: np.where(x < 0, a.get("alpha", 0.01) * x, x),
    "Less": lambda a, x, y: x < y,
    "MatMul": lambda a, x, y: x @ y,
    "Max": lambda a, *x: np.maximum.reduce(np.broadcast_arrays(*x)),
    "MaxPool": max_pool,
    "Mul": lambda a, x, y: x * y,
    "PRelu": lambda a, x, slope: np.where(x < 0, slope * x, x),
    "Pad": pad,
    "Pow": lambda a, x, y: x**y,
    "RNN": rnn,
    "ReduceMean": lambda a, x: x.mean(axis=tuple(a["axes"]), keepdims=bool(a.get("keepdims", 1))),
    "Relu": lambda a, x: np.maximum(x, 0),
    "Reshape": reshape,
    "Resize": resize,
    "Sigmoid": lambda a, x: sigmoid(x),
    "Slice": slices,
    "Softmax": softmax,
    "Split": split,
    "Squeeze": squeeze,
    "Sub": lambda a, x, y: x - y,
    "Sum": lambda a, *x: sum(x),
    "Tanh": lambda a, x: np.tanh(x),
    "Transpose": lambda a, x: np.transpose(x, a.get("perm")),
    "Unsqueeze": unsqueeze,
    "Upsample": upsample,
    "Where": lambda a, c, x, y: np.where(c, x, y),
}


def evaluate(model, data):
    """Returns every value of the graph by name."""
    graph = model.graph
    values = {t.name: wide(numpy_helper.to_array(t)) for t in graph.initializer}
    (inner,) = [i.name for i in graph.input if i.name not in values]
    values[inner] = wide(data)
    values[""] = None
    (opset,) = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    for node in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        attributes |= {"opset": opset, "outputs": len(node.output)}
        result = OPERATORS[node.op_type](attributes, *[values[i] for i in node.input])
        for name, v in zip(node.output, result if isinstance(result, list) else [result]):
            values[name] = v
    return values


def check(model):
    """The model of the checker and strict shape inference. Raises an exception if they find a mistake."""
    onnx.checker.check_model(model, full_check=True)
    return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)


def run(model, data):
    inferred = check(model)
    values = evaluate(model, data)
    for info in list(inferred.graph.value_info) + list(inferred.graph.output):
        shape = info.type.tensor_type.shape
        assert len(shape.dim) == values[info.name].ndim, info.name
        for d, extent in zip(shape.dim, values[info.name].shape):
            assert not d.HasField("dim_value") or d.dim_value == extent, (info.name, d.dim_value, extent)
    return [values[o.name] for o in model.graph.output]
