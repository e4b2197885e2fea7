"""Jobs on a virtual cluster: the same roles as on a real one, with virtual time and seeded faults."""
from __future__ import annotations

import os
from typing import Any, Iterator, Mapping, Sequence

from . import _troupe
from .job import Job, Path, overrides_of
from .training import Event


class Simulation:
    """An iterator of events, each with `time`, the virtual seconds.

    job      a Job, a job file or a scenario file
    nodes    number of nodes, with one worker each; or `cluster`, a cluster file
    network, faults   files as for `troupe sim`
    seed     of the simulation; the job has its own
    maths    "none": only messages and bytes, without training
    load_plugins   of a scenario: load the plugins that its job names, which runs their code

    >>> job = Job(data={"source": "synthetic", "shape": [8], "classes": 3, "examples": 100, "test_examples": 30, "batch": 20},
    ...           layer=[{"name": "scores", "type": "linear", "inputs": ["data"], "outputs": 3},
    ...                  {"name": "loss", "type": "softmax_loss", "inputs": ["scores", "label"]}],
    ...           train={"dynamics": {"rule": "sgd", "lr": 0.1}, "finish": {"steps": 3}})
    >>> [event.step for event in Simulation(job, nodes=4) if event.event == "step"]
    [1, 2, 3]
    """

    def __init__(self, job: Job | Path, *, nodes: int = 0, cluster: Path | None = None, network: Path | None = None,
                 faults: Path | None = None, seed: int = -1, maths: str = "", steps: int = 0, buckets: int = -1,
                 overrides: Mapping[str, Any] | Sequence[str] | None = None, load_plugins: bool = False) -> None:
        layers: list[Any] = []
        arrays: dict[str, Any] = {}
        if isinstance(job, Job):
            given, layers, arrays = dict(job._given), job._layers, job._arrays
            if overrides:
                raise TypeError("overrides belong to a job file; give them to Job(...) instead")
        else:
            given = {"file": os.fspath(job), "text": None, "overrides": overrides_of(overrides), "load_plugins": load_plugins}
        given.update(nodes=nodes, cluster=os.fspath(cluster or ""), network=os.fspath(network or ""), faults=os.fspath(faults or ""),
                     seed=seed, maths=maths, steps=steps, buckets=buckets)
        self._core = _troupe.Simulation(given, layers, arrays)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return Event(self._core.next())

    def run(self) -> list[Event]:
        """All further events."""
        return list(self)

    @property
    def seconds(self) -> float:
        """Virtual seconds so far."""
        return self._core.seconds

    @property
    def nodes(self) -> list[str]:
        return self._core.nodes

    @property
    def weights(self) -> dict[str, _troupe.Tensor]:
        """The final weights by name; empty before the end, and without maths."""
        return self._core.weights

    @property
    def weights_sha256(self) -> str:
        return self._core.weights_sha256

    @property
    def trace_sha256(self) -> str:
        """The hash of all that has happened: equal for equal jobs, models and seeds."""
        return self._core.trace_sha256
