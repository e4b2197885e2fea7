"""Predictions of a trained net."""
from __future__ import annotations

import os
from typing import Any, Mapping

import numpy

from . import _troupe
from .history import RunInfo
from .job import Job, Path, as_job

Array = numpy.ndarray[Any, numpy.dtype[Any]]


class Predictor:
    """A trained net, ready for arrays. Colour pictures are [n, 3, height, width], their planes in the order `channel_order`.

    job      a Job, a job file, or a RunInfo: then with the run's best weights
    weights  a file, or arrays by name
    layer    whose first output to compute instead of the prediction
    load_plugins   of a RunInfo: load the plugins that its job.toml names, which runs their code
    """

    def __init__(self, job: Job | Path | RunInfo, weights: Path | Mapping[str, Any] | None = None, *, layer: str = "",
                 load_plugins: bool = False) -> None:
        if isinstance(job, RunInfo):
            weights = job.weights_file() if weights is None else weights
            job = Job(job.job_file, load_plugins=load_plugins)
        if weights is None:
            raise TypeError("give weights: a file, or arrays by name")
        made = as_job(job)
        core = made._fresh()
        if isinstance(weights, Mapping):
            core.begin_with_arrays(dict(weights))
        else:
            core.begin_with_file(os.fspath(weights))
        self._core = _troupe.Predictor(core, layer)
        self.class_names = made.class_names
        self.channel_order = made.channel_order

    def __call__(self, examples: Any, *, raw: bool = False) -> Array:
        """What the net computes: [examples, width], or [examples, positions, width] for sequences. Integers and bytes are scaled as
        in training; floats are values after that scaling, unless `raw` is set.
        """
        return self._core.run(examples, raw)

    def probabilities(self, examples: Any, *, raw: bool = False) -> Array:
        """The probability of each class. Raises TypeError if the net's output has none."""
        values = self(examples, raw=raw)
        if self._core.meaning == "softmax":
            e = numpy.exp(values - values.max(axis=-1, keepdims=True))
            shares: Array = e / e.sum(axis=-1, keepdims=True)
            return shares
        if self._core.meaning == "sigmoid":
            each: Array = 1 / (1 + numpy.exp(-values))
            return each
        raise TypeError("the net's output has no probabilities: its loss is neither softmax_loss nor sigmoid_cross_entropy")

    def classes(self, examples: Any, *, raw: bool = False) -> Array:
        """The most probable class of each example. Raises TypeError if the net predicts numbers."""
        if self._core.classes == 0:
            raise TypeError("the net predicts numbers, not classes")
        values = self(examples, raw=raw)
        if values.shape[-1] == 1 and self._core.meaning != "softmax":
            values = numpy.stack([-values[..., 0], values[..., 0]], axis=-1)  # class 1 if the score is above 0
        classes: Array = values.argmax(axis=-1)
        return classes


def predict(job: Job | Path | RunInfo, examples: Any, weights: Path | Mapping[str, Any] | None = None, *, raw: bool = False,
            load_plugins: bool = False) -> Array:
    """The net's outputs for examples. For several calls make a Predictor once."""
    return Predictor(job, weights, load_plugins=load_plugins)(examples, raw=raw)
