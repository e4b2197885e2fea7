"""What the tests of the Python package share."""
import os
import subprocess
import tempfile
import unittest

import numpy

import troupe

SOURCE = os.environ["TROUPE_SOURCE"]
BIN = os.environ["TROUPE_BIN"]
LENET = os.path.join(SOURCE, "configs/jobs/lenet_fashion.toml")


def small_tables(**finish):
    """The tables of a job that learns three classes in a moment."""
    return {
        "job": {"name": "small", "seed": 3},
        "data": {"source": "synthetic", "shape": [8], "classes": 3, "examples": 200, "test_examples": 50, "batch": 20, "noise": 0.2},
        "layer": [{"name": "hidden", "type": "linear", "inputs": ["data"], "outputs": 16, "weight_filler": {"kind": "msra"}},
                  {"name": "act", "type": "relu", "inputs": ["hidden"]},
                  {"name": "scores", "type": "linear", "inputs": ["act"], "outputs": 3, "weight_filler": {"kind": "msra"}},
                  {"name": "loss", "type": "softmax_loss", "inputs": ["scores", "label"]},
                  {"name": "accuracy", "type": "accuracy", "inputs": ["scores", "label"]}],
        "train": {"dynamics": {"rule": "sgd", "lr": 0.1}, "finish": finish or {"steps": 20}},
        "eval": {"every": 5},
    }


def small_job(**finish):
    return troupe.Job(**small_tables(**finish))


def small_arrays(n=120, seed=5):
    """Examples of three classes that a linear net separates, and their labels."""
    draw = numpy.random.default_rng(seed)
    y = draw.integers(0, 3, n)
    x = (draw.normal(size=(n, 8)) * 0.3 + numpy.eye(3, 8)[y] * 2).astype(numpy.float32)
    return x, y


def cli(*words, cwd=None):
    """What a program of Troupe prints."""
    run = subprocess.run([os.path.join(BIN, words[0]), *words[1:]], capture_output=True, text=True, cwd=cwd, timeout=250)
    if run.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


class InFolder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)
