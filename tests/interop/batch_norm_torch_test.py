#!/usr/bin/env python3
"""Exchanges weights of a net with batch_norm between Troupe and PyTorch: a module loads Troupe's file (load_state_dict, strict), and Troupe
loads the module's state_dict, num_batches_tracked included, and tests to the same loss and accuracy.

usage: batch_norm_torch_test.py TROUPE_BINARY
"""
import collections
import json
import os
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tensors

JOB = """
[job]
name = "normal"
seed = 3
[data]
source = "synthetic"
shape = [2, 6, 6]
classes = 3
examples = 60
test_examples = 30
batch = 12
[[layer]]
name = "conv1"
type = "convolution"
inputs = ["data"]
outputs = 4
kernel = 3
[[layer]]
name = "bn1"
type = "batch_norm"
inputs = ["conv1"]
[[layer]]
name = "ip1"
type = "linear"
inputs = ["bn1"]
outputs = 3
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip1", "label"]
[[layer]]
name = "accuracy"
type = "accuracy"
inputs = ["ip1", "label"]
phase = "test"
[train]
dynamics = { rule = "momentum", lr = 0.05, momentum = 0.9 }
finish = { steps = 10 }
[pipeline]
packets = 2
"""


def module():
    return torch.nn.Sequential(collections.OrderedDict(
        conv1=torch.nn.Conv2d(2, 4, 3), bn1=torch.nn.BatchNorm2d(4), flat=torch.nn.Flatten(), ip1=torch.nn.Linear(64, 3)))


def save(path, state):
    """Writes a state_dict like the safetensors package."""
    header, body = {}, b""
    for name, t in state.items():
        raw = t.numpy().tobytes()
        kind = {torch.float32: "F32", torch.int64: "I64"}[t.dtype]
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def troupe(*args):
    r = subprocess.run(args, capture_output=True, text=True, timeout=120)
    if r.returncode != 0:
        sys.exit(f"{' '.join(args)}\nended with {r.returncode}\n{r.stdout[-2000:]}\n{r.stderr[-2000:]}")
    return [json.loads(line) for line in r.stdout.splitlines()]


def tested(binary, job, weights):
    (told,) = [e for e in troupe(binary, "test", job, "--weights", weights, "--json") if e["event"] == "eval"]
    return told["loss"], told["accuracy"]


def main():
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as tmp:
        job, ours, theirs = (os.path.join(tmp, n) for n in ("job.toml", "ours.safetensors", "theirs.safetensors"))
        with open(job, "w") as f:
            f.write(JOB)
        troupe(binary, "train", job, "--out", ours, "--json")
        weights, _ = tensors.load(ours)
        net = module()
        net.load_state_dict({k: torch.tensor(np.array(v)) for k, v in weights.items()}, strict=True)
        state = net.state_dict()
        assert set(state) - set(weights) == {"bn1.num_batches_tracked"}, set(state) ^ set(weights)
        assert not torch.equal(state["bn1.running_mean"], torch.zeros(4)), "the running statistics are still zero"
        save(theirs, state)
        assert tested(binary, job, ours) == tested(binary, job, theirs)
    print("ok: loaded by PyTorch (strict) and by Troupe")


if __name__ == "__main__":
    main()
