"""Jobs on a cluster of daemons."""
from __future__ import annotations

import os
from typing import Any

from . import _troupe
from .job import Job, Path, as_job
from .training import Callback, _Dispatcher


class ClusterJob:
    """A job of a cluster, by its number."""

    def __init__(self, cluster: Path, number: int, state: str = "accepted") -> None:
        self.cluster = os.fspath(cluster)
        self.number = number
        self.state = state

    def follow(self, *, on_step: Callback | None = None, on_eval: Callback | None = None, on_event: Callback | None = None,
               out: Path | None = None) -> ClusterJob:
        """Follows the job until it is over. Ctrl-C ends the call; the job continues. `out`: file for its weights."""
        end = _call(self.cluster, {"number": self.number, "out": os.fspath(out or "")}, _Dispatcher(on_step, on_eval, on_event))
        self.state = end["state"]
        return self

    def fetch(self, out: Path) -> str:
        """Writes the weights of a job that is over; returns their hash."""
        return _troupe.fetch_from_cluster(self.cluster, self.number, os.fspath(out))

    def __repr__(self) -> str:
        return f"ClusterJob({self.number}, {self.state})"


def _call(cluster: str, values: dict[str, Any], call: _Dispatcher | None) -> dict[str, Any]:
    given = {"cluster": cluster, "number": 0, "follow": True, "out": "", "weights": "", "resume": "", **values}
    return _troupe.run_on_cluster(given, call)


def submit(job: Job | Path, cluster: Path, *, weights: Path | None = None, resume: Path | None = None, overrides: Any = None) -> ClusterJob:
    """Submits a job to the cluster of a cluster file; returns as soon as it is accepted. The nodes read the job's data themselves, so
    its arrays and layers cannot be of this process.
    """
    made = as_job(job, overrides)
    if made._arrays or made._layers:
        raise TypeError("the nodes of a cluster have neither the arrays nor the layers of this process: use files and plugins")
    if weights is not None and resume is not None:
        raise TypeError("give weights or resume, not both")
    values = {**made._given, "follow": False, "weights": os.fspath(weights or ""), "resume": os.fspath(resume or "")}
    return ClusterJob(cluster, _call(os.fspath(cluster), values, None)["number"])


def attach(number: int, cluster: Path) -> ClusterJob:
    """A job that was submitted earlier."""
    return ClusterJob(cluster, number)
