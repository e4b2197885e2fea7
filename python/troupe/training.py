"""Training in this process, with callbacks."""
from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence

from . import _troupe
from .job import Job, Path, as_job
from .history import RunInfo, run as find_run


class Run:
    """A job in training, for callbacks (`event.run`) and other threads. Commands take effect at the next step."""

    def __init__(self, core: _troupe.Run) -> None:
        self._core = core

    @property
    def folder(self) -> str | None:
        """The run folder, or None."""
        return self._core.folder

    @property
    def page_url(self) -> str | None:
        return self._core.page_url

    def stop(self) -> None:
        """Ends the job with a checkpoint."""
        self._core.stop()

    def pause(self) -> None:
        self._core.pause()

    def resume(self) -> None:
        self._core.resume()

    def checkpoint(self) -> None:
        self._core.checkpoint()

    def evaluate(self) -> None:
        self._core.evaluate()

    def set(self, key: str, value: float) -> None:
        """Sets a number of the job: set("train.dynamics.lr", 0.001)."""
        self._core.set(key, value)

    def mode(self, name: str, **options: Any) -> None:
        """Changes the synchronisation mode: mode("ssp", staleness=3)."""
        self._core.mode(name, [(k, str(v)) for k, v in options.items()])


class Event(dict[str, Any]):
    """An event of a job (docs/events.schema.json): a dict whose keys are attributes, too. `run`: the job in training."""

    run: Run | None = None

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a {self.get('event')} event has no {name!r}; it has {', '.join(self)}") from None


Callback = Callable[[Event], Any]


class Result:
    """The end of a job.

    steps           completed steps
    stopped         it was stopped before its end
    weights         the final weights by name: views of Troupe's memory (numpy(), DLPack); empty if it was stopped
    weights_sha256  their hash, as `troupe train` prints it
    accuracy, loss  of the last evaluation; None if there was none
    run             the run folder's RunInfo, or None
    """

    def __init__(self, end: dict[str, Any], evaluation: Event | None, folder: str | None) -> None:
        self.steps: int = end["steps"]
        self.stopped: bool = end["stopped"]
        self.weights: dict[str, _troupe.Tensor] = end["weights"]
        self.weights_sha256: str = end["weights_sha256"]
        self.accuracy: float | None = evaluation.get("accuracy") if evaluation else None
        self.loss: float | None = evaluation.get("loss") if evaluation else None
        self.run: RunInfo | None = find_run(folder) if folder else None

    def save(self, file: Path) -> None:
        """Writes the weights as safetensors."""
        _troupe.write_safetensors(os.fspath(file), self.weights)

    def __repr__(self) -> str:
        accuracy = "" if self.accuracy is None else f", accuracy {self.accuracy:.4f}"
        return f"Result({self.steps} steps{accuracy})"


class _Dispatcher:
    """Calls the user's callbacks with the events of a job."""

    def __init__(self, on_step: Callback | None, on_eval: Callback | None, on_event: Callback | None) -> None:
        self._on = {"step": on_step, "eval": on_eval}
        self._on_event = on_event
        self.run: Run | None = None
        self.evaluation: Event | None = None

    def __call__(self, values: dict[str, Any]) -> None:
        event = Event(values)
        event.run = self.run
        kind = values["event"]
        if kind == "eval":
            self.evaluation = event
        own = self._on.get(kind)
        if own is not None:
            own(event)
        if self._on_event is not None:
            self._on_event(event)


def _runs_folder(run_dir: Path | None | bool) -> str:
    if run_dir is False:
        return ""
    return _troupe.default_runs_folder() if run_dir is None or run_dir is True else os.fspath(run_dir)


def train(job: Job | Path, *, overrides: Mapping[str, Any] | Sequence[str] | None = None, on_step: Callback | None = None,
          on_eval: Callback | None = None, on_event: Callback | None = None, weights: Path | Mapping[str, Any] | None = None,
          resume: Path | None = None, threads: int = 0, run_dir: Path | None | bool = None, trace: Path | None = None,
          page: str | int | None = None) -> Result:
    """Trains a job in this process, as `troupe train`, and returns its end.

    on_step, on_eval, on_event   called on this thread with each step, each evaluation, every event. They may use `event.run`. An
                   exception stops the job with a checkpoint and is raised then; so does Ctrl-C. SIGTERM and SIGHUP, unless
                   the program handles them, stop the job with a checkpoint and raise SystemExit (143, 129)
    weights        the weights to begin with: a file, or arrays by name
    resume         a checkpoint to continue from, or a folder of them
    threads        of the runtime; 0: one per core
    run_dir        folder of runs; None: $TROUPE_RUNS or runs/; False: no run folder
    trace          file for a trace of the run
    page           port, or HOST:PORT, of a page to watch and steer the run in a browser

    Raises JobError for mistakes in the job, TrainingError if the run fails.
    """
    if weights is not None and resume is not None:
        raise TypeError("give weights or resume, not both")
    core = as_job(job, overrides)._fresh()
    core.prepare_to_train()
    if resume is not None:
        core.resume(os.fspath(resume))
    elif isinstance(weights, Mapping):
        core.begin_with_arrays(dict(weights))
    elif weights is not None:
        core.begin_with_file(os.fspath(weights))
    options = {"threads": threads, "runs": _runs_folder(run_dir), "trace": os.fspath(trace or ""), "page": "" if page is None else str(page)}
    running = _troupe.Run(core, options)
    call = _Dispatcher(on_step, on_eval, on_event)
    call.run = Run(running)
    end = running.train(call)
    return Result(end, call.evaluation, running.folder)

