#!/usr/bin/env python3
"""Imports models of one operator, in the forms that models of several years have: onnx_operators_test.py ONNX_DUMP.

Predictions of the imported job equal those of an evaluator (onnx_evaluator.py) to 1e-5 of the largest. Forms that Troupe cannot express are
refused with the text that the case has.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_evaluator
import tensors

DUMP = sys.argv[1]
RANDOM = np.random.default_rng(1)
IMAGE, SEQUENCE = [2, 5, 6], [3, 4]


def f(*dims):
    return RANDOM.standard_normal(dims).astype(np.float32)


def i(*values):
    return np.array(values, np.int64)


CASES = []


def case(op, opset, inputs=(), shape=IMAGE, refused=None, outputs=1, read=0, **attributes):
    """`inputs`: initializers behind x. `read`: which output the net reads."""
    CASES.append((op, opset, list(inputs), shape, refused, outputs, read, attributes))


for auto_pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
    for stride in (1, 2, 3):
        case("Conv", 11, [f(3, 2, 3, 2), f(3)], auto_pad=auto_pad, strides=[stride, stride])
        case("AveragePool", 11, kernel_shape=[2, 2], auto_pad=auto_pad, strides=[stride, stride], count_include_pad=1)
    case("ConvTranspose", 11, [f(2, 3, 3, 3)], auto_pad=auto_pad, strides=[2, 2])
    case("MaxPool", 10, kernel_shape=[3, 3], auto_pad=auto_pad, strides=[1, 1])
case("MaxPool", 8, shape=[2, 6, 8], kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2])
case("MaxPool", 8, shape=[2, 6, 8], kernel_shape=[3, 3], auto_pad="SAME_LOWER", strides=[2, 2])
case("Conv", 7, [f(3, 2, 3, 2)], pads=[1, 0, 2, 1], dilations=[2, 2], kernel_shape=[3, 2])
case("Conv", 11, [f(4, 1, 3, 3), f(4)], group=2, pads=[1, 1, 1, 1])
case("Conv", 11, [f(4, 2, 3)], shape=[2, 8])
case("Conv", 11, [f(4, 1, 3), f(4)], shape=[2, 9], group=2, strides=[2], pads=[1, 1], dilations=[2])
case("Conv", 11, [f(4, 2, 3)], shape=[2, 8], pads=[2, 0])
case("Conv", 11, [f(4, 2, 3)], shape=[2, 8], auto_pad="SAME_LOWER", strides=[2])
case("Conv", 11, [f(4, 2, 3)], refused="its weights are 4x2x3, but its input is")
case("Conv", 11, [f(3, 2, 2, 3), f(3)], strides=[1, 3], pads=[0, 2, 0, 2], dilations=[2, 1])
case("Conv", 11, [f(3, 2, 3, 2)], strides=[2, 1], pads=[1, 0, 1, 1])
case("Conv", 11, [f(3, 2, 2, 2)], strides=[1], refused="attribute 'strides' has 1 numbers")
case("Conv", 11, [f(3, 2, 2, 2)], pads=[1, 1], refused="attribute 'pads' has 2 numbers")
case("Conv", 11, [f(3, 2, 1, 1, 1)], shape=[2, 3, 3, 3], refused="only series (N, C, length) and images")
case("ConvTranspose", 11, [f(2, 3, 3)], shape=[2, 6], strides=[2], output_padding=[1], pads=[1, 1])
case("ConvTranspose", 11, [f(2, 3, 4)], shape=[2, 6], strides=[2], output_shape=[11])
case("ConvTranspose", 11, [f(2, 3, 2, 3)], strides=[3, 2], pads=[0, 1, 0, 1], output_padding=[2, 0], dilations=[1, 2])
case("ConvTranspose", 11, [f(2, 3, 3, 2)], strides=[2, 1], output_padding=[1, 0], pads=[1, 0, 0, 0])
case("MaxPool", 12, shape=[2, 9], kernel_shape=[3], strides=[2], pads=[1, 1])
case("MaxPool", 12, shape=[2, 9], kernel_shape=[2], strides=[2], ceil_mode=1)
case("AveragePool", 11, shape=[2, 9], kernel_shape=[3], strides=[2], pads=[1, 1], count_include_pad=1)
case("AveragePool", 11, shape=[2, 9], kernel_shape=[4], strides=[3])
case("AveragePool", 11, kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 0])
case("AveragePool", 11, shape=[1, 7, 8], kernel_shape=[2, 3], strides=[2, 3], pads=[0, 1, 0, 1], count_include_pad=1)
case("GlobalMaxPool", 7, shape=[2, 9])
case("GlobalAveragePool", 7, shape=[2, 9])
case("ConvTranspose", 11, [f(2, 3, 3, 3), f(3)], strides=[2, 2], pads=[1, 0, 0, 1], output_padding=[1, 1])
case("ConvTranspose", 11, [f(2, 3, 3, 3)], strides=[2, 2], output_shape=[10, 12])
case("ConvTranspose", 11, [f(2, 1, 2, 2)], strides=[3, 3], group=2, output_padding=[2, 2])
for ceil in (0, 1):
    for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]):
        for stride in (1, 2, 3):
            case("MaxPool", 12, shape=[1, 7, 8], kernel_shape=[3, 3], strides=[stride, stride], pads=pads, ceil_mode=ceil)
            case("AveragePool", 11, shape=[1, 7, 8], kernel_shape=[3, 3], strides=[stride, stride], pads=pads, ceil_mode=ceil)
            if not ceil:
                case("AveragePool", 11, shape=[1, 7, 8], kernel_shape=[3, 3], strides=[stride, stride], pads=pads, count_include_pad=1)
CASES = [c for c in CASES if not (c[0] in ("MaxPool", "AveragePool") and c[7].get("pads") == [0, 0, 1, 1] and c[7].get("ceil_mode"))]
case("MaxPool", 12, kernel_shape=[2, 2], dilations=[2, 2], refused="dilations are not supported")
case("MaxPool", 12, kernel_shape=[2, 2], strides=[1, 2])
case("MaxPool", 12, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
case("GlobalMaxPool", 7)
case("GlobalAveragePool", 7)
case("ReduceMean", 11, axes=[-2, -1], keepdims=0)
case("ReduceMean", 11, axes=[2, 3])
case("ReduceMean", 11, axes=[1], refused="only means over height and width")
case("ReduceMean", 11, shape=[3, 4], axes=[-1], keepdims=0)
case("ReduceMean", 11, shape=[3, 4], axes=[1], keepdims=0)
case("ReduceMean", 11, shape=[3, 4], axes=[1])
case("Gemm", 7, [f(4, 3), f(3)], shape=[4], alpha=0.5, beta=2.0)
case("Gemm", 11, [f(3, 4), f(1, 3)], shape=[4], transB=1)
case("Gemm", 11, [f(3, 4), f(1)], shape=[4], transB=1)
case("MatMul", 9, [f(4, 3)], shape=SEQUENCE)
case("MatMul", 9, [f(6, 3)])
case("MatMul", 9, [f(2, 4, 3)], shape=[2, 3, 4], refused="only a matrix is supported")
case("BatchNormalization", 7, [f(2), f(2), f(2), abs(f(2)) + 0.5], epsilon=0.01, momentum=0.8)
case("BatchNormalization", 15, [f(4), f(4), f(4), abs(f(4)) + 0.5], shape=[4])
case("LayerNormalization", 17, [f(4), f(4)], shape=SEQUENCE)
case("LayerNormalization", 17, [f(2, 5, 6)], axis=1, epsilon=0.1)
case("LRN", 7, shape=[5, 2, 2], size=3, alpha=0.5, beta=0.6, bias=1.5)
case("LRN", 7, shape=[5, 2, 2], size=2, refused="'size' must be odd")
case("Softmax", 11, shape=[4])
case("Softmax", 11, shape=[4], axis=-1)
case("Softmax", 13, axis=1)
case("Softmax", 13)
case("Softmax", 13, axis=2)
case("Softmax", 13, axis=0, refused="a softmax over the examples")
case("Softmax", 11, axis=2, refused="together, as before operator set 13")
case("InstanceNormalization", 7, [f(2), f(2)], epsilon=0.1)
case("InstanceNormalization", 13, [f(3), f(3)], shape=SEQUENCE)
case("InstanceNormalization", 13, [f(4), f(4)], shape=[4], refused="has no pixels")
case("Transpose", 13, perm=[0, 3, 1, 2])
case("Transpose", 13, perm=[0, 1, 3, 2])
case("Softmax", 11, shape=[4, 1, 1], axis=1)
case("PRelu", 9, [f(2, 1, 1)])
case("PRelu", 9, [f(1)])
case("PRelu", 9, [f(2, 5, 6)], refused="one, or one by channel")
case("LeakyRelu", 7)
case("Elu", 7)
case("Clip", 9, min=0.0, max=0.5)
case("Clip", 13, [np.float32(-0.25), np.float32(0.5)])
case("Clip", 13, [np.float32(-0.25)])
case("Clip", 9, max=0.5)
case("HardSigmoid", 7)
case("HardSigmoid", 13, alpha=1 / 6, beta=0.5)
case("HardSigmoid", 13, beta=0.25, refused="its beta must be 0.5")
case("HardSwish", 14)
case("Dropout", 7, ratio=0.25)
case("Dropout", 12, [np.float32(0.25)])
case("Dropout", 13, [np.float32(0.25), np.array(True)], refused="training mode")
for op in ("Add", "Sub", "Mul", "Div"):
    case(op, 7, [np.float32(0.5)])
    case(op, 7, [f(1, 2, 1, 1) + 3])
    case(op, 13, [f(2, 1, 1) + 3])
    case(op, 13, [f(6) + 3])
    case(op, 13, [f(5, 1) + 3])
    case(op, 13, [f(2, 5, 6)], refused=None if op in ("Add", "Mul") else "one value, or one by channel")
case("Flatten", 9)
case("Flatten", 9, axis=2, refused="only 1, which keeps the batch")
case("Reshape", 7, [i(0, -1)])
case("Reshape", 13, [i(-1, 60)])
case("Reshape", 13, [i(0, 2, 30)])
case("Reshape", 13, [i(0, 3, -1, 4)])
case("Reshape", 13, [i(0, 5, 0, 2)], shape=[2, 5, 6], refused="has another number of values")
case("Reshape", 13, [i(0, 6, 0, 2)])
case("Reshape", 13, [i(2, -1)], refused="a reshape from")
case("Squeeze", 11, shape=[4, 1, 1], axes=[2, 3])
case("Squeeze", 13, [i(-1, -2)], shape=[4, 1, 1])
case("Concat", 7, [], axis=1)
case("Split", 9, shape=[6, 2, 2], outputs=3, read=1, axis=1)
case("Split", 11, shape=[6, 2, 2], outputs=2, read=1, axis=1, split=[2, 4])
case("Split", 13, [i(1, 5)], shape=[6, 2, 2], outputs=2, read=0, axis=1)
case("Slice", 9, starts=[1, 2], ends=[4, 100], axes=[2, 3])
case("Slice", 9, starts=[1], ends=[2**63 - 1], axes=[2])
case("Slice", 10, [i(0, -3), i(100, -1), i(1, 3)])
case("Slice", 13, [i(1), i(5), i(2), i(2)], refused="only steps of 1")
case("Slice", 13, [i(0), i(1), i(0)], refused="a part of the batch")
case("Pad", 7, pads=[0, 0, 1, 2, 0, 0, 0, 3])
case("Pad", 7, pads=[0, 0, 1, 2, 0, 0, 0, 3], mode="reflect")
case("Pad", 13, [i(0, 0, 1, 2, 0, 0, 0, 3)], mode="edge")
case("Pad", 13, [i(0, 0, 1, 0, 0, 0, 0, 0), np.float32(1)], refused="another value than 0")
case("Pad", 13, [i(0, 1, 0, 0, 0, 0, 0, 0)], refused="only a border around images")
case("Pad", 7, shape=[2, 6], pads=[0, 0, 2, 0, 0, 1], mode="reflect")
case("Pad", 13, [i(0, 0, 3, 0, 0, 0)], shape=[2, 6])
case("Upsample", 7, scales=[1.0, 1.0, 2.0, 3.0])
case("Upsample", 9, [np.array([1, 1, 2, 2], np.float32)], mode="nearest")
case("Upsample", 9, [np.array([1, 1, 2, 2], np.float32)], mode="linear", refused="mode 'linear' with coordinates 'asymmetric'")
case("Resize", 10, [np.array([1, 1, 2, 2], np.float32)])
NO_ROI, NO_SCALES = np.zeros(0, np.float32), np.zeros(0, np.float32)
for mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
    case("Resize", 11, [NO_ROI, np.array([1, 1, 1, 1], np.float32)], nearest_mode=mode)
for scale in (2, 3):
    case("Resize", 11, [NO_ROI, np.array([1, 1, scale, scale], np.float32)], nearest_mode="round_prefer_floor")
    case("Resize", 13, [NO_ROI, np.array([1, 1, scale, 1], np.float32)], mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    case("Resize", 13, [NO_ROI, np.array([1, 1, 1, scale], np.float32)], mode="linear", coordinate_transformation_mode="align_corners")
case("Resize", 11, [NO_ROI, np.array([1, 1, 3, 3], np.float32)], coordinate_transformation_mode="asymmetric", refused="with coordinates 'asymmetric'")
case("Resize", 13, [NO_ROI, np.array([1, 1, 0.5, 0.4], np.float32)], mode="linear", refused="for these extents")
case("Resize", 13, [NO_ROI, np.array([1, 1, 0.5, 0.25], np.float32)], shape=[2, 6, 8], mode="linear")
case("Resize", 13, [NO_ROI, np.array([1, 1, 2, 2], np.float32)], mode="cubic", refused="mode 'cubic'")
case("Gather", 11, [i(2, 3, 4)], axis=2)
case("Gather", 11, [np.array(-1, np.int64)], shape=SEQUENCE, axis=1)
case("Gather", 11, [i(0, 3)], axis=2, refused="its indices are not consecutive")
case("Identity", 7)
case("Hardmax", 13, refused="this operator is not supported")


def build(folder, k):
    op, opset, inputs, shape, _, outputs, read, attributes = CASES[k]
    x = f(3, *shape)
    initializers = [numpy_helper.from_array(np.asarray(v), f"c{n}") for n, v in enumerate(inputs)]
    names = [f"o{n}" for n in range(outputs)]
    given = ["x"] + [t.name for t in initializers]
    node = helper.make_node(op, given, names, name=f"the_{op}", **attributes)
    opsets = [helper.make_opsetid("", opset)]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"] + shape)
    # What the operator computes is flattened and read by a linear layer.
    try:
        width = int(np.prod(onnx_evaluator.evaluate(model_of([node], info, out, initializers, opsets), x)[names[read]].shape[1:]))
    except (AssertionError, KeyError, TypeError, ValueError):  # only of operators that Troupe refuses
        assert CASES[k][4], f"{op} of operator set {opset} cannot be evaluated"
        width = 1
    initializers += [numpy_helper.from_array(f(3, width), "w"), numpy_helper.from_array(f(3), "b")]
    nodes = [node, helper.make_node("Flatten", [names[read]], ["flat"], axis=1), helper.make_node("Gemm", ["flat", "w", "b"], ["y"], transB=1)]
    model = model_of(nodes, info, out, initializers, opsets)
    os.makedirs(folder)
    onnx.save(model, os.path.join(folder, "net.onnx"))
    zeros = np.zeros(6, np.int64)
    np.savez(os.path.join(folder, "data.npz"), x_train=np.concatenate([x, x]), y_train=zeros, x_test=x, y_test=zeros[3:])
    return model, x


def model_of(nodes, info, out, initializers, opsets):
    return helper.make_model(helper.make_graph(nodes, "one", [info], [out], initializers), opset_imports=opsets)


def why_wrong(folder, k, model, x):
    refused = CASES[k][4]
    error = os.path.join(folder, "error.txt")
    if os.path.exists(error):
        text = open(error).read()
        return None if refused and refused in text and f"'the_{CASES[k][0]}'" in text else text
    if refused:
        return f"was not refused with: {refused}"
    out, _ = tensors.load(os.path.join(folder, "out.safetensors"))
    worst = tensors.relative(out["again"], onnx_evaluator.evaluate(model, x)["y"].reshape(-1))
    return None if worst <= 1e-5 else f"differs by {worst:.2e}"


def main():
    with tempfile.TemporaryDirectory() as top:
        folders = [os.path.join(top, f"case{k}") for k in range(len(CASES))]
        built = [build(folder, k) for k, folder in enumerate(folders)]
        with open(os.path.join(top, "list"), "w") as listed:
            listed.writelines(folder + "\n" for folder in folders)
        subprocess.run([DUMP, os.path.join(top, "list")], check=True, timeout=300)
        wrong = [(k, why) for k, folder in enumerate(folders) if (why := why_wrong(folder, k, *built[k]))]
    for k, why in wrong:
        print(f"{CASES[k][0]} of operator set {CASES[k][1]}, {CASES[k][7]}: {why}")
    print(f"{len(CASES)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
