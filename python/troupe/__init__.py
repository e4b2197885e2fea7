"""Troupe trains neural networks with actors.

    import troupe

    result = troupe.train("job.toml", on_eval=lambda e: print(e.step, e.accuracy))
    result.weights["conv1.weight"].numpy()            # a view, without a copy

See docs/python.md.
"""
from typing import TYPE_CHECKING, Any

from ._troupe import Tensor, read_safetensors, version as __version__, write_safetensors
from .cluster import ClusterJob, attach, submit
from .errors import JobError, Mistake, TrainingError
from .history import RunInfo, run, runs
from .job import Job, LayerInfo
from .layer import Layer, Pass, check_layer
from .names import no_attribute
from .predicting import Predictor, predict
from .simulation import Simulation
from .training import Event, Result, Run, train

__all__ = ["ClusterJob", "Event", "Job", "JobError", "Layer", "LayerInfo", "Mistake", "Pass", "Predictor", "Result", "Run", "RunInfo",
           "Simulation", "Tensor", "TrainingError", "__version__", "attach", "check_layer", "from_torch", "predict", "read_safetensors", "run", "runs",
           "submit", "train", "write_safetensors"]

if TYPE_CHECKING:
    import torch
    from .torch_net import TorchNet


if not TYPE_CHECKING:  # a checker of types reports names that do not exist itself

    def __getattr__(name):
        if name.startswith("_"):
            raise AttributeError(f"module 'troupe' has no attribute {name!r}", name=name)
        no_attribute("troupe", name, __all__)


def from_torch(module: "torch.nn.Module", example: "torch.Tensor") -> "TorchNet":
    """A module of PyTorch as layers of a job (troupe/torch_nets.py). Imports torch."""
    from importlib import import_module
    translate: Any = import_module("troupe.torch_nets").from_torch
    net: "TorchNet" = translate(module, example)
    return net
