"""Runs the examples in the package's docstrings and in docs/python.md, in a folder of their own."""
import doctest
import importlib
import os
import pkgutil
import sys
import tempfile

import troupe
from helpers import SOURCE


def main():
    os.chdir(tempfile.mkdtemp())
    failed = tried = 0
    for found in pkgutil.iter_modules(troupe.__path__):
        if found.name != "_troupe":
            r = doctest.testmod(importlib.import_module(f"troupe.{found.name}"))
            failed, tried = failed + r.failed, tried + r.attempted
    for page in ("python.md", "models.md"):
        r = doctest.testfile(os.path.join(SOURCE, "docs", page), module_relative=False, optionflags=doctest.ELLIPSIS)
        failed, tried = failed + r.failed, tried + r.attempted
    print(f"{tried} examples, {failed} failed")
    return 1 if failed or tried < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
