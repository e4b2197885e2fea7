#!/usr/bin/env python3
"""Trains LeNet in Troupe and in PyTorch from equal weights on equal data: fp32 equal to 1e-5 over steps 1-10, f64 to 1e-9 over steps 1-100.

usage: lenet_torch_test.py TROUPE_BINARY JOB_FILE
As docs/determinism.md explains, fp32 training is chaotic, so the fp32 bound applies to the first ten steps only.
"""
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tensors

DATA = "/usr/share/datasets/fashion-mnist"
BATCH = 64
LR, MOMENTUM, DECAY = 0.01, 0.9, 5e-4


def idx(name):
    with gzip.open(os.path.join(DATA, name), "rb") as f:
        raw = f.read()
    rank = raw[3]
    dims = struct.unpack(">" + "I" * rank, raw[4 : 4 + 4 * rank])
    return np.frombuffer(raw[4 + 4 * rank :], np.uint8).reshape(dims)


def troupe(binary, *args):
    r = subprocess.run([binary, *args], capture_output=True, text=True, timeout=300)
    if r.returncode != 0:
        sys.exit(f"{' '.join([binary, *args])}\nended with {r.returncode}\n{r.stdout[-2000:]}\n{r.stderr[-2000:]}")
    return [json.loads(line) for line in r.stdout.splitlines()]


def forward(w, x):
    x = F.max_pool2d(F.conv2d(x, w["conv1.weight"], w["conv1.bias"]), 2, 2)
    x = F.max_pool2d(F.conv2d(x, w["conv2.weight"], w["conv2.bias"]), 2, 2)
    x = F.relu(F.linear(x.flatten(1), w["ip1.weight"], w["ip1.bias"]))
    return F.linear(x, w["ip2.weight"], w["ip2.bias"])


def train_torch(weights, images, labels, steps, dtype, keep):
    w = {k: torch.tensor(v, dtype=dtype, requires_grad=True) for k, v in weights.items()}
    # Like in the job file, biases learn at twice the rate (Caffe's LeNet).
    groups = [{"params": [v], "lr": LR * (2 if k.endswith(".bias") else 1)} for k, v in w.items()]
    opt = torch.optim.SGD(groups, lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    kept = {}
    for step in range(1, steps + 1):
        at = slice((step - 1) * BATCH, step * BATCH)
        # The source scales by 1/255 in the precision of the run.
        x = torch.tensor(images[at], dtype=dtype).mul_(torch.tensor(1.0 / 255.0, dtype=dtype)).view(-1, 1, 28, 28)
        opt.zero_grad()
        F.cross_entropy(forward(w, x), torch.tensor(labels[at], dtype=torch.long)).backward()
        opt.step()
        if step in keep:
            kept[step] = {k: v.detach().numpy().copy() for k, v in w.items()}
    return kept


def compare(binary, job, precision, steps, bound):
    dtype = torch.float64 if precision == "f64" else torch.float32
    settings = [
        "--json",
        "--set", f"job.precision={precision}",
        "--set", 'train.sampler={kind="sequential"}',
        "--set", f'train.dynamics={{rule="momentum", lr={LR}, momentum={MOMENTUM}, decay={DECAY}, schedule={{kind="fixed"}}}}',
        "--set", f"data.batch={BATCH}",
        "--set", "pipeline.packets=4",
        "--set", "eval.every=0",
    ]
    worst = 0.0
    with tempfile.TemporaryDirectory() as tmp:
        first = os.path.join(tmp, "first.safetensors")
        troupe(binary, "init", job, "--out", first, *settings)
        weights, _ = tensors.load(first)
        images, labels = idx("train-images-idx3-ubyte.gz"), idx("train-labels-idx1-ubyte.gz")
        torch.set_num_threads(1)
        ours_at = train_torch(weights, images, labels, max(steps), dtype, set(steps))
        for n in steps:
            out = os.path.join(tmp, f"{n}.safetensors")
            troupe(binary, "train", job, "--out", out, *settings, "--set", f"train.finish={{steps={n}}}")
            got, _ = tensors.load(out)
            assert set(got) == set(weights), (sorted(got), sorted(weights))
            for name, value in got.items():
                assert not np.array_equal(value, weights[name]), f"{name} is unchanged by training"
                d = tensors.relative(value, ours_at[n][name])
                worst = max(worst, d)
                if not d <= bound:
                    sys.exit(f"{precision} step {n} {name}: relative difference {d:.3e} > {bound:.0e}")
    print(f"{precision}: steps {steps}, worst relative difference {worst:.3e} <= {bound:.0e}")


if __name__ == "__main__":
    compare(sys.argv[1], sys.argv[2], "fp32", list(range(1, 11)), 1e-5)
    compare(sys.argv[1], sys.argv[2], "f64", [1, 2, 5, 10, 20, 50, 100], 1e-9)
