"""Errors of Troupe."""
from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """A mistake in a job file; line 0: it has no place in the file."""

    file: str
    line: int
    column: int
    message: str


class JobError(ValueError):
    """A job, a file that it names or an argument is wrong. `mistakes` lists every mistake with its place."""

    def __init__(self, text: str, mistakes: list[tuple[str, int, int, str]] | None = None) -> None:
        super().__init__(text)
        self.mistakes = [Mistake(*m) for m in mistakes or [("", 0, 0, text)]]


class TrainingError(RuntimeError):
    """A run has failed. `where`: the role or node. `post_mortem`: the folder for `troupe sim --replay`, if there is one."""

    def __init__(self, text: str, where: str = "", post_mortem: str = "") -> None:
        super().__init__(text)
        self.where = where
        self.post_mortem = post_mortem
