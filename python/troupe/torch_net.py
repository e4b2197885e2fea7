"""What from_torch makes of a module (torch_nets.py)."""
from __future__ import annotations

from typing import Any, Mapping

import numpy
import torch
from torch import nn

from .job import Job
from .torch_layers import Options


class TorchNet:
    """A module as layers of a job.

    layers   tables for `layer` of a job, without a loss
    output   the layer whose output the module returns
    weights  arrays by Troupe's names
    names    pairs (PyTorch's name, Troupe's)
    outputs  number of values of an output: for a softmax_loss, of classes
    """

    def __init__(self) -> None:
        self.layers: list[Options] = []
        self.output = ""
        self.weights: dict[str, numpy.ndarray[Any, Any]] = {}
        self.names: list[tuple[str, str]] = []
        self.outputs = 0

    def job(self, *, data: Mapping[str, Any], train: Mapping[str, Any], loss: str = "softmax_loss", arrays: Mapping[str, Any] | None = None,
            **tables: Any) -> Job:
        """A job with this net, a loss of the module's output, and for softmax_loss the accuracy."""
        layers = [*self.layers, {"name": "loss", "type": loss, "inputs": [self.output, "label"]}]
        if loss == "softmax_loss":
            layers.append({"name": "accuracy", "type": "accuracy", "inputs": [self.output, "label"]})
        return Job(data=dict(data), layer=layers, train=dict(train), arrays=arrays, **tables)

    def load(self, module: nn.Module, weights: Mapping[str, Any]) -> None:
        """Copies weights of Troupe into the module."""
        state = module.state_dict()
        with torch.no_grad():
            for theirs, ours in self.names:
                state[theirs].copy_(torch.from_numpy(numpy.array(weights[ours])))

    def names_text(self) -> str:
        """The list of names for `troupe import` and `troupe export`."""
        return "".join(f"{theirs} {ours}\n" for theirs, ours in self.names)
