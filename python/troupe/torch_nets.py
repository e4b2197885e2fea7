"""Nets of PyTorch as jobs: traces a module with torch.fx, and takes its weights over, in both directions.

    net = troupe.from_torch(module, torch.zeros(1, 1, 28, 28))
    job = net.job(data={"source": "idx", "path": "/usr/share/datasets/fashion-mnist", "batch": 64},
                  train={"dynamics": {"rule": "momentum", "lr": 0.02}, "finish": {"epochs": 3}})
    result = troupe.train(job, weights=net.weights)
    net.load(module, result.weights)

As a program: python3 -m troupe.torch_nets FILE.py:NAME --example 1,28,28 --out net.toml
"""
from __future__ import annotations

import argparse
import importlib.util
import operator
import os
import sys
from typing import Any, Callable, Mapping

import tomli_w
import torch
from torch import nn
from torch.fx import symbolic_trace  # type: ignore[attr-defined]
from torch.fx.node import Node

from . import _troupe
from .errors import JobError
from .torch_layers import MODULES, Options, Translated, Values, masks_later, number_of, permute, reshape
from .torch_net import TorchNet

F = nn.functional


class _Tracer:
    """Translates the nodes of a traced module, in their order."""

    def __init__(self, module: nn.Module, example: torch.Tensor) -> None:
        self.net = TorchNet()
        self.graph = symbolic_trace(module)
        self.modules = dict(self.graph.named_modules())
        self.kept: dict[int, str] = {}  # parameters by id: the layer and name in Troupe
        self.at: dict[Node, str] = {}  # name of the tensor that holds a node's value
        self.causal: dict[Node, Node] = {}  # scores without the mask, by the node that masks them
        with torch.no_grad():
            Values(self.graph).propagate(example)

    def run(self) -> TorchNet:
        for node in self.graph.graph.nodes:
            try:
                self.take(node)
            except (ValueError, KeyError, TypeError) as e:
                what = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.target)
                kind = f", {type(self.modules[node.target]).__name__}" if node.op == "call_module" else ""
                raise JobError(f"node '{node.name}' ({node.op} {what}{kind}): {e}") from None
        return self.net

    def take(self, node: Node) -> None:
        if "constant" in node.meta and not isinstance(node.meta["constant"], nn.Parameter):
            return  # of a mask, which reads its value
        if node.op == "placeholder":
            if "data" in self.at.values():
                raise ValueError("a second input is not supported")
            self.at[node] = "data"
        elif node.op == "output":
            value = node.args[0]
            if not isinstance(value, Node):
                raise ValueError("the module must return one tensor")
            self.net.output = self.at[value]
            self.net.outputs = self.shape(value)[-1]
        elif node.op == "call_module":
            self.call_module(node, str(node.target), self.modules[str(node.target)])
        elif node.op in ("call_function", "call_method"):
            if "tensor_meta" in node.meta:  # otherwise extents, which the shapes of tensors have already
                self.call_function(node)
        else:
            raise ValueError("parameters outside of modules are not supported")

    # --- values

    def shape(self, node: Any) -> tuple[int, ...]:
        return tuple(node.meta["tensor_meta"].shape)

    def add(self, node: Node, kind: str, inputs: list[Any], suffix: str = "", **options: Any) -> str:
        name = node.name + suffix
        self.net.layers.append({"name": name, "type": kind, "inputs": [i if isinstance(i, str) else self.tensor(i) for i in inputs], **options})
        self.at[node] = name
        return name

    def tensor(self, node: Any) -> str:
        if node in self.causal:
            raise ValueError("reads masked columns, which only a softmax over the last dim may read")
        if node not in self.at:
            raise ValueError("reads a constant, which is not supported here")
        return self.at[node]

    def keep(self, layer: str, path: str, module: nn.Module, rename: Mapping[str, str] | None = None) -> None:
        """Takes the parameters and buffers of `module` as those of `layer`, which shares those that an earlier layer has."""
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        shared: list[str] = []
        taken = 0
        for name, value in own:
            ours = (rename or {}).get(name, name)
            if name == "num_batches_tracked" or (rename is not None and name not in rename):
                continue
            taken += 1
            first = self.kept.setdefault(id(value), f"{layer}.{ours}")
            if first != f"{layer}.{ours}":
                if not isinstance(value, nn.Parameter):
                    raise ValueError("the module is called twice, but its running statistics cannot be shared")
                if not first.endswith("." + ours):
                    raise ValueError(f"its '{name}' is also parameter '{first}', which has another name: they cannot be shared")
                shared.append(first)
                continue
            self.net.names.append((f"{path}.{name}", f"{layer}.{ours}"))
            self.net.weights[f"{layer}.{ours}"] = value.detach().to(torch.float32).numpy().copy()
        if shared:
            owners = {s.rpartition(".")[0] for s in shared}
            if len(owners) > 1 or len(shared) not in (1, taken):
                raise ValueError("it shares some of its parameters with several layers, or two of three or more: not supported")
            share = owners.pop() if len(shared) == taken else shared[0]
            next(x for x in self.net.layers if x["name"] == layer)["share"] = share

    # --- modules

    def call_module(self, node: Node, path: str, m: nn.Module) -> None:
        has_state = any(True for _ in m.parameters()) or any(True for _ in m.buffers())
        x: Any = node.args[0]
        if isinstance(m, (nn.LSTM, nn.GRU, nn.RNN)):
            return self.recurrent(node, path, m)
        for kinds, translate in MODULES:
            if isinstance(m, kinds):
                self.layer_of(node, translate(m, self.shape(x)))
                if has_state:
                    self.keep(self.at[node], path, m, {"weight": "slope"} if isinstance(m, nn.PReLU) else None)
                return
        raise ValueError("Troupe has no such layer, or no translation of it")

    def recurrent(self, node: Node, path: str, m: Any) -> None:
        if not m.batch_first or m.bidirectional or m.dropout or getattr(m, "proj_size", 0):
            raise ValueError("only batch_first=True without bidirectional, dropout and proj_size is supported")
        if len(node.args) > 1 or node.kwargs:
            raise ValueError("an initial state is not supported: it is zeros")
        kind = {nn.LSTM: "lstm", nn.GRU: "gru", nn.RNN: "rnn"}[type(m)]
        more = {} if kind != "rnn" else {"activation": m.nonlinearity}
        at: Any = node.args[0]
        for k in range(m.num_layers):
            at = self.add(node, kind, [at], "" if m.num_layers == 1 else f"_l{k}", units=m.hidden_size, bias=m.bias, **more)
            parts = [f"{p}_{g}" for p in ("weight", "bias") if p == "weight" or m.bias for g in ("ih", "hh")]
            self.keep(at, path, m, {f"{p}_l{k}": p for p in parts})

    # --- functions

    def call_function(self, node: Node) -> None:
        key = node.target if node.op == "call_function" else getattr(torch.Tensor, str(node.target), node.target)
        for functions, translate in _FUNCTIONS:
            if key in functions:
                return translate(self, node)
        raise ValueError("this function has no translation")

    def same(self, node: Node) -> None:
        self.at[node] = self.tensor(node.args[0])

    def layer_of(self, node: Node, made: Translated) -> None:
        """Adds a layer that reads the node's first argument."""
        x: Any = node.args[0]
        if x in self.causal and made == ("softmax", {"axis": len(self.shape(x)) - 1}):
            x, made = self.causal[x], ("softmax", {**made[1], "causal": True})
        if made is None:
            return self.same(node)
        self.add(node, made[0], [x], **made[1])

    def reshape(self, node: Node) -> None:
        self.layer_of(node, reshape(self.shape(node.args[0]), self.shape(node)))

    def permute(self, node: Node) -> None:
        x: Any = node.args[0]
        dims: Any = node.kwargs.get("dims", node.args[1] if len(node.args) == 2 else node.args[1:])
        self.layer_of(node, permute(tuple(d % len(self.shape(x)) for d in dims)))

    def transpose(self, node: Node) -> None:
        x: Any = node.args[0]
        order = list(range(len(self.shape(x))))
        given: Any = [*node.args[1:], *node.kwargs.values()]
        i, k = (d % len(order) for d in given)
        order[i], order[k] = k, i
        self.layer_of(node, permute(tuple(order)))

    def matmul(self, node: Node) -> None:
        a, b = [*node.args, *node.kwargs.values()][:2]
        if a not in self.at or b not in self.at:
            raise ValueError("needs two tensors that depend on the input")
        s, t = self.shape(a), self.shape(b)
        if len(s) < 3 or len(s) != len(t) or s[:-2] != t[:-2]:
            raise ValueError(f"a product of {s} and {t}: needs matrices of each example, without broadcasting")
        self.add(node, "matmul", [a, b])

    def product(self, node: Node) -> None:
        a, b = node.args[:2] if number_of(node.args[0]) is None else node.args[1::-1]
        factor = number_of(b)
        if factor is None:
            return self.together(node, "prod")
        self.add(node, "eltwise", [a], coeffs=[float(factor)])

    def quotient(self, node: Node) -> None:
        divisor = number_of(node.args[1])
        if not divisor or node.kwargs:
            raise ValueError("needs a number other than 0 as its divisor")
        self.add(node, "eltwise", [node.args[0]], coeffs=[1.0 / divisor])

    def together(self, node: Node, operation: str, coeffs: list[float] | None = None) -> None:
        a, b = node.args[:2]
        if operation == "sum" and coeffs is None and self.mask(node):
            return
        tensors = [v for v in (a, b) if isinstance(v, Node) and v in self.at]
        if len(tensors) < 2 or self.shape(a) != self.shape(b):
            raise ValueError("needs two tensors of one shape; constants and broadcasting are not supported")
        if node.kwargs.get("alpha", 1) != 1:
            raise ValueError("alpha is not supported")
        more: Options = {"coeffs": coeffs} if coeffs else {}
        self.add(node, "eltwise", [a, b], operation=operation, **more)

    def concat(self, node: Node) -> None:
        parts: Any = node.args[0]
        dim: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
        axis = dim % len(self.shape(parts[0]))
        if axis == 0:
            raise ValueError("joins examples (dim 0)")
        self.add(node, "concat", list(parts), axis=axis)

    def pieces(self, node: Node, by_size: bool) -> None:
        x: Any = node.args[0]
        n = number_of(node.args[1]) if len(node.args) > 1 else None
        dim: Any = node.kwargs.get("dim", node.args[2] if len(node.args) > 2 else 0)
        axis = dim % len(self.shape(x))
        if axis == 0 or not isinstance(n, int) or self.shape(x)[axis] % n:
            raise ValueError("only equal parts of an axis other than the examples' are supported")
        self.add(node, "slice", [x], axis=axis, parts=self.shape(x)[axis] // n if by_size else n)

    def item(self, node: Node) -> None:
        x: Any = node.args[0]
        index: Any = node.args[1]
        if isinstance(index, int):  # of a tuple: a recurrent layer's (outputs, state), or parts
            if x.op == "call_module":
                if index != 0:
                    raise ValueError("the final state of a recurrent layer is not supported")
                return self.same(node)
            self.at[node] = self.at[x] if index == 0 else f"{self.at[x]}.{index}"
            return
        shape = self.shape(x)
        if not (isinstance(index, tuple) and len(index) == 2 and index[0] == slice(None) and isinstance(index[1], int) and len(shape) == 3):
            raise ValueError("only x[:, i] of a sequence is supported")
        at = self.add(node, "crop", [x], "_step", axis=1, size=[1, shape[2]], offsets=[index[1] % shape[1], 0])
        self.add(node, "flatten", [at])

    def mean(self, node: Node) -> None:
        x: Any = node.args[0]
        dims: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        keep = node.kwargs.get("keepdim", node.args[2] if len(node.args) > 2 else False)
        if len(self.shape(x)) != 4 or dims is None or sorted(d % 4 for d in dims) != [2, 3]:
            raise ValueError("only the mean over the pixels of images is supported")
        at = self.add(node, "avg_pool", [x], "" if keep else "_pixels", kernel=0)
        if not keep:
            self.add(node, "flatten", [at])

    def mask(self, node: Node) -> bool:
        """True if the node masks the columns behind the diagonal: masked_fill, or a sum with a constant."""
        x, mask = node.args[:2]
        constant = mask.meta.get("constant") if isinstance(mask, Node) else None
        if not isinstance(x, Node) or not isinstance(constant, torch.Tensor) or not masks_later(self.shape(x), constant, *node.args[2:]):
            return False
        self.causal[node] = x
        return True

    def masked_fill(self, node: Node) -> None:
        if not self.mask(node):
            raise ValueError("only masks of the columns behind the diagonal of square matrices, with -inf, are supported")

    def layer_function(self, node: Node, module: Callable[..., nn.Module]) -> None:
        """A function that is the module of its further arguments."""
        for kinds, translate in MODULES:
            m = module(*node.args[1:], **{k: v for k, v in node.kwargs.items() if k not in ("inplace", "training", "input")})
            if isinstance(m, kinds):
                return self.layer_of(node, translate(m, self.shape(node.args[0])))


_LAYER_FUNCTIONS: list[tuple[set[Any], Callable[..., nn.Module]]] = [
    ({F.relu, torch.relu, torch.Tensor.relu, F.relu_, torch.relu_}, nn.ReLU),
    ({F.leaky_relu}, nn.LeakyReLU),
    ({F.relu6}, nn.ReLU6),
    ({F.silu}, nn.SiLU),
    ({F.hardswish}, nn.Hardswish),
    ({F.hardsigmoid}, nn.Hardsigmoid),
    ({F.elu}, nn.ELU),
    ({F.gelu}, nn.GELU),
    ({torch.sigmoid, torch.Tensor.sigmoid, F.sigmoid}, nn.Sigmoid),
    ({torch.tanh, torch.Tensor.tanh, F.tanh}, nn.Tanh),
    ({F.softmax, torch.softmax, torch.Tensor.softmax}, lambda dim=None, **_: nn.Softmax(dim)),
    ({F.dropout}, nn.Dropout),
    ({F.max_pool2d, torch.max_pool2d}, nn.MaxPool2d),
    ({F.avg_pool2d}, nn.AvgPool2d),
    ({F.adaptive_avg_pool2d}, nn.AdaptiveAvgPool2d),
]

_FUNCTIONS: list[tuple[set[Any], Callable[[_Tracer, Node], None]]] = [
    *((functions, lambda t, n, m=module: t.layer_function(n, m)) for functions, module in _LAYER_FUNCTIONS),
    ({torch.flatten, torch.Tensor.flatten, torch.Tensor.view, torch.Tensor.reshape, torch.reshape, torch.unsqueeze, torch.Tensor.unsqueeze,
      torch.squeeze, torch.Tensor.squeeze, torch.Tensor.unflatten}, _Tracer.reshape),
    ({torch.permute, torch.Tensor.permute}, _Tracer.permute),
    ({torch.transpose, torch.Tensor.transpose, torch.swapaxes, torch.Tensor.swapaxes}, _Tracer.transpose),
    ({operator.matmul, torch.matmul, torch.Tensor.matmul, torch.bmm, torch.Tensor.bmm}, _Tracer.matmul),
    ({operator.add, operator.iadd, torch.add, torch.Tensor.add, torch.Tensor.add_}, lambda t, n: t.together(n, "sum")),
    ({operator.sub, torch.sub, torch.Tensor.sub}, lambda t, n: t.together(n, "sum", [1.0, -1.0])),
    ({operator.mul, operator.imul, torch.mul, torch.Tensor.mul}, _Tracer.product),
    ({operator.truediv, torch.div, torch.Tensor.div}, _Tracer.quotient),
    ({torch.maximum, torch.Tensor.maximum}, lambda t, n: t.together(n, "max")),
    ({torch.masked_fill, torch.Tensor.masked_fill}, _Tracer.masked_fill),
    ({torch.cat, torch.concat}, _Tracer.concat),
    ({torch.chunk, torch.Tensor.chunk}, lambda t, n: t.pieces(n, by_size=False)),
    ({torch.split, torch.Tensor.split}, lambda t, n: t.pieces(n, by_size=True)),
    ({operator.getitem}, _Tracer.item),
    ({torch.mean, torch.Tensor.mean}, _Tracer.mean),
    ({torch.Tensor.contiguous}, _Tracer.same),
]


def from_torch(module: nn.Module, example: torch.Tensor) -> TorchNet:
    """Translates a module. `example`: an input, examples first. The module is traced in its test phase; its dropout and batch
    normalisation train in Troupe as they do in PyTorch. Raises JobError, which names the node that has no translation.
    """
    training = module.training
    module.eval()
    try:
        return _Tracer(module, example).run()
    finally:
        module.train(training)


def _module_named(place: str) -> nn.Module:
    file, _, name = place.rpartition(":")
    spec = importlib.util.spec_from_file_location("_model", file)
    if not file or spec is None or spec.loader is None or not os.path.isfile(file):
        raise JobError(f"{place}: expected FILE.py:NAME of a module, or of a class or function that makes one")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    if not hasattr(loaded, name):
        raise JobError(f"{file}: there is no {name!r} in it")
    found = getattr(loaded, name)
    return found if isinstance(found, nn.Module) else found()  # type: ignore[no-any-return]


def main(words: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(prog="python3 -m troupe.torch_nets", description="Writes a module of PyTorch as a job file, with its weights.")
    p.add_argument("module", metavar="FILE.py:NAME")
    p.add_argument("--example", required=True, metavar="1,28,28", help="shape of one example, without the examples' axis")
    p.add_argument("--ids", action="store_true", help="examples are ids, for an embedding")
    p.add_argument("--out", required=True, metavar="JOB.toml", help="job file to write; weights and list of names go beside it")
    a = p.parse_args(words)
    try:
        shape = [1, *(int(n) for n in a.example.split(","))]
        module = _module_named(a.module)
        net = from_torch(module, torch.zeros(shape, dtype=torch.int64 if a.ids else torch.float32))
        # The data and the training are examples, for the user to replace.
        job = {"data": {"source": "synthetic", "shape": shape[1:], "classes": net.outputs, "batch": 64},
               "layer": [*net.layers, {"name": "loss", "type": "softmax_loss", "inputs": [net.output, "label"]}],
               "train": {"dynamics": {"rule": "momentum", "lr": 0.01}, "finish": {"epochs": 1}}}
        base = os.path.splitext(a.out)[0]
        with open(a.out, "w", encoding="utf-8") as f:
            f.write("# Made by troupe.torch_nets. Replace [data] and [train] by your own.\n" + tomli_w.dumps(job))
        with open(base + ".names", "w", encoding="utf-8") as f:
            f.write(net.names_text())
        _troupe.write_safetensors(base + ".safetensors", net.weights)
    except (JobError, OSError, ValueError) as e:
        print(f"torch_nets: {e}", file=sys.stderr)
        return 2
    print(f"{a.out}, {base}.safetensors, {base}.names: {len(net.layers)} layers, {len(net.weights)} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
