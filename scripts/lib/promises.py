"""Reads the table of docs/promises.md and the tests in tests/promises.txt. Used by scripts/promises and check_references.py."""
import re

PAGE = "docs/promises.md"
TESTS = "tests/promises.txt"
STATES = ("kept", "in part", "not yet")
NAME = re.compile(r"\w+\.\w+")


def rows(page):
    """Yields (number, promise, state) for each row of the table."""
    for line in page.splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) > 4 and cells[1].isdigit():
            yield int(cells[1]), cells[2], cells[3]


def tests(text):
    """Yields (line, number, test names) for each entry `NUMBER SUITE.TEST [SUITE.TEST...]`; number is None if it is malformed."""
    for line, entry in enumerate(text.splitlines(), 1):
        words = entry.partition("#")[0].split()
        if not words:
            continue
        sound = words[0].isdigit() and len(words) > 1 and all(NAME.fullmatch(w) for w in words[1:])
        yield line, int(words[0]) if sound else None, words[1:]
