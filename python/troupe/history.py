"""Runs that have trained, as data."""
from __future__ import annotations

import csv
import json
import os
from pathlib import Path as FilePath
from typing import Any, Iterator

from . import _troupe

Path = str | os.PathLike[str]


class RunInfo:
    """A run folder. The fields of its run.json are attributes: name, state, steps, accuracy, best_accuracy, seed, ..."""

    def __init__(self, folder: Path) -> None:
        self.folder = FilePath(folder)
        self._facts: dict[str, Any] = json.loads(_troupe.read_run(os.fspath(folder)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._facts:
            raise AttributeError(f"a run has no {name!r}; it has {', '.join(self.__dict__.get('_facts', {}))}")
        return self._facts[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._facts]

    def curve(self, metric: str = "loss") -> tuple[list[int], list[float]]:
        """Steps and values of a column of metrics.csv: loss, lr, examples_per_s, accuracy, test_loss, time, epoch."""
        rows: dict[int, float] = {}
        with open(self.folder / "metrics.csv", newline="") as file:
            reader = csv.DictReader(file)
            if metric not in (reader.fieldnames or []):
                raise KeyError(f"there is no metric {metric!r}; there are {', '.join(reader.fieldnames or [])}")
            last = -1
            for row in reader:
                step = int(row["step"])
                if step < last:  # the run was resumed from an earlier step
                    rows = {s: v for s, v in rows.items() if s < step}
                last = step
                if row[metric]:
                    rows[step] = float(row[metric])
        return list(rows), list(rows.values())

    def events(self) -> Iterator[dict[str, Any]]:
        """The events of the run but steps, in order."""
        with open(self.folder / "events.jsonl", encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    yield json.loads(line)

    def weights(self, which: str = "best") -> dict[str, _troupe.Tensor]:
        """The weights by name: "best" or "last"."""
        return _troupe.read_safetensors(os.fspath(self.weights_file(which)))

    def weights_file(self, which: str = "best") -> FilePath:
        if which not in ("best", "last"):
            raise ValueError(f"weights are 'best' or 'last', not {which!r}")
        return self.folder / f"{which}.safetensors"

    @property
    def job_file(self) -> FilePath:
        return self.folder / "job.toml"

    def _repr_svg_(self) -> str | None:
        """The curves of loss and accuracy, which notebooks show."""
        file = self.folder / "curve.svg"
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def __repr__(self) -> str:
        return f"RunInfo({self.folder.name}: {self.state}, {self.steps} steps)"


def _folder(runs: Path | None) -> str:
    return os.fspath(runs) if runs is not None else _troupe.default_runs_folder() or "runs"


def runs(folder: Path | None = None) -> list[RunInfo]:
    """The runs of a folder ($TROUPE_RUNS or runs/), by number."""
    return [RunInfo(f) for f in _troupe.run_folders(_folder(folder))]


def run(word: Path | int, folder: Path | None = None) -> RunInfo:
    """A run by its number, its folder, its job's name (the newest), or "last"."""
    return RunInfo(_troupe.find_run(_folder(folder), str(word) if isinstance(word, int) else os.fspath(word)))
