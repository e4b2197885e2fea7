"""Jobs: from a file, or from Python objects with the names of the TOML keys."""
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence, Type

import tomli_w

from . import _troupe
from .layer import Layer
from .names import no_attribute

Path = str | os.PathLike[str]
Arrays = Mapping[str, Any]


class LayerInfo(NamedTuple):
    """A layer of a job's net. `outputs`: shapes of one packet, examples first. `parameters`: names."""

    name: str
    type: str
    outputs: list[tuple[int, ...]]
    parameters: list[str]


def _inline(value: Any) -> str:
    """Returns a value of TOML on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else tomli_w.dumps({"v": value}).strip()[len("v = "):]


def override(key: str, value: Any) -> str:
    """Returns `key=value` as --set takes it."""
    return f"{key}={_inline(value)}"


def overrides_of(given: Mapping[str, Any] | Sequence[str] | None) -> list[str]:
    if isinstance(given, str):
        raise TypeError("overrides are a dict {key: value} or a list of 'key=value'")
    return [override(k, v) for k, v in given.items()] if isinstance(given, Mapping) else list(given or [])


class Job:
    """A job: data, net and training.

    source     a job file; or None, and the job's tables as keywords (`job`, `data`, `layer`, `train`, `eval`, `pipeline`, ...),
               each as in a job file: a dict, and for `layer` a list of dicts
    overrides  values by key, as --set: {"train.dynamics.lr": 0.02}
    arrays     arrays by name, for `source = "arrays"` in [data]; without names there: x_train, y_train, x_test, y_test
    layers     classes of layers that the job uses (troupe.Layer)
    load_plugins   False: refuse a job that names plugins, which are code

    >>> job = Job(data={"source": "synthetic", "shape": [8], "classes": 3, "examples": 100, "test_examples": 30, "batch": 10},
    ...           layer=[{"name": "scores", "type": "linear", "inputs": ["data"], "outputs": 3},
    ...                  {"name": "loss", "type": "softmax_loss", "inputs": ["scores", "label"]}],
    ...           train={"dynamics": {"rule": "sgd", "lr": 0.1}, "finish": {"epochs": 1}})
    >>> job.parameters
    {'scores.weight': (3, 8), 'scores.bias': (3,)}

    Raises JobError, with the place of every mistake.
    """

    def __init__(self, source: Path | None = None, *, overrides: Mapping[str, Any] | Sequence[str] | None = None,
                 arrays: Arrays | None = None, layers: Sequence[Type[Layer]] = (), load_plugins: bool = True, **tables: Any) -> None:
        if (source is None) == (not tables):
            raise TypeError("give a job file, or the job's tables as keywords (data=..., layer=..., train=...), not both")
        self._arrays = dict(arrays or {})
        self._layers = list(layers)
        self._given: dict[str, Any] = {
            "file": "<job>" if source is None else os.fspath(source),
            "text": tomli_w.dumps(self._complete(tables)) if source is None else None,
            "overrides": overrides_of(overrides),
            "load_plugins": load_plugins,
        }
        self._checked: _troupe.PreparedJob | None = None
        self._prepared()

    def _complete(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """The tables with a name for the job. A job of arrays without test examples, or without labels, says so."""
        data = dict(tables.get("data", {}))
        if data.get("source") == "arrays":
            if "x_test" not in self._arrays and "test_data" not in data:
                data["test_data"] = ""
            if "y_train" not in self._arrays and "labels" not in data:
                data["labels"] = ""
        return {**tables, "job": {"name": "job", **tables.get("job", {})}, "data": data}

    def _fresh(self) -> _troupe.PreparedJob:
        """Prepares the job again: a run consumes what it is given."""
        return _troupe.PreparedJob(self._given, self._layers, self._arrays)

    def _prepared(self) -> _troupe.PreparedJob:
        if self._checked is None:
            self._checked = self._fresh()
        return self._checked

    @property
    def name(self) -> str:
        return self._prepared().name

    @property
    def layers(self) -> list[LayerInfo]:
        """The layers in the order of computation."""
        return [LayerInfo(*row) for row in self._prepared().layers]

    @property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters by name."""
        return self._prepared().parameters

    @property
    def toml(self) -> str:
        """The job as a job file, with every key."""
        return self._prepared().toml

    @property
    def example(self) -> tuple[int, ...]:
        """The shape of one example of the data."""
        return self._prepared().example

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of training and test examples."""
        return self._prepared().sizes

    @property
    def classes(self) -> int:
        """The number of classes; 0: the data has no labels, or targets."""
        return self._prepared().classes

    @property
    def targets(self) -> bool:
        """Whether the labels are values to predict (regression) instead of classes."""
        return self._prepared().targets

    @property
    def vocabulary(self) -> int:
        """The number of ids in the data; 0: the data has no ids, or their number is not known."""
        return self._prepared().vocabulary

    @property
    def channel_order(self) -> str:
        """The order of the planes of colour pictures that the net takes: "rgb" or "bgr"."""
        return self._prepared().channel_order

    @property
    def class_names(self) -> list[str]:
        return self._prepared().class_names

    @property
    def last_step(self) -> int:
        """The number of steps that the job makes at most; 0: no limit."""
        return self._prepared().last_step

    @property
    def steps_per_epoch(self) -> int:
        return self._prepared().steps_per_epoch

    def initial_weights(self) -> dict[str, _troupe.Tensor]:
        """The weights with which training begins, by name."""
        return self._prepared().initial_weights()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(f"Job has no attribute {name!r}", name=name)
            no_attribute("Job", name, [k for k in dir(type(self)) if not k.startswith("_")], ("train", "predict"))

    def __repr__(self) -> str:
        return f"Job({self.name!r}, {len(self.layers)} layers)"


def as_job(job: Job | Path, overrides: Mapping[str, Any] | Sequence[str] | None = None) -> Job:
    if isinstance(job, Job):
        if overrides:
            raise TypeError("overrides belong to a job file; give them to Job(...) instead")
        return job
    return Job(job, overrides=overrides)
