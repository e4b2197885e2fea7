"""Executes examples/notebooks/*.ipynb, each in a folder of its own outside of the tree, and without variables of the
tests. A cell that raises fails the test."""
import glob
import os
import sys
import tempfile

import nbclient
import nbformat

from helpers import SOURCE


def main():
    os.environ.pop("TROUPE_SOURCE", None)  # kernels inherit it; users do not have it
    found = sorted(glob.glob(os.path.join(SOURCE, "examples/notebooks/*.ipynb")))
    for file in found:
        notebook = nbformat.read(file, as_version=4)
        if any(c.get("outputs") for c in notebook.cells):
            print(f"{file}: it has outputs: clear them before a commit")
            return 1
        with tempfile.TemporaryDirectory() as folder:
            nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
        shown = [o for c in notebook.cells for o in c.get("outputs", [])]
        if not any("image/svg+xml" in o.get("data", {}) for o in shown):
            print(f"{file}: the run shows no curve")
            return 1
        print(f"{file}: {len(notebook.cells)} cells, {len(shown)} outputs")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
