"""Hints for names of other programs: troupe.fit is called troupe.train here."""
from __future__ import annotations

from typing import NoReturn, Sequence

from . import _troupe


def no_attribute(owner: str, name: str, known: Sequence[str], functions: Sequence[str] = ()) -> NoReturn:
    """Raises AttributeError. `functions`: those of the module that take the owner as their first argument."""
    for function in [name, *_troupe.words_for(name)]:
        if function in functions:
            raise AttributeError(f"{owner} has no attribute {name!r}; write troupe.{function}({owner.lower()}, ...)", name=name)
    raise AttributeError(f"{owner} has no attribute {name!r}{_troupe.did_you_mean(name, list(known))}", name=name)
