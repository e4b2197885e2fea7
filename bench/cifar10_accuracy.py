#!/usr/bin/env python3
"""Caffe's CIFAR10-full to the end of a schedule scaled to 5,000 steps, by Troupe and by PyTorch with the same recipe: test accuracies, by seed.

usage: cifar10_accuracy.py FOLDER [--bin FILE] [--seeds 3] [--steps 5000] [--threads 2] [--out FILE.md]

FOLDER: train/CLASS/*.png and test/CLASS/*.png. Both use the same net, fillers, shuffled epochs, momentum, decay and factors by layer, with
different random numbers. Exit code 1 if Troupe's mean is more than 2.5 points below PyTorch's.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from environment import ROOT, machine, publish
from torch_step import Cifar


def load(folder):
    classes = sorted(os.listdir(folder))
    files = [(f, k) for k, c in enumerate(classes) for f in sorted(glob.glob(os.path.join(folder, c, "*")))]
    x = np.stack([np.asarray(Image.open(f).convert("RGB"), dtype=np.float32).transpose(2, 0, 1) for f, _ in files])
    x -= np.array([125.3, 123.0, 113.9], dtype=np.float32)[:, None, None]
    return torch.tensor(x), torch.tensor([k for _, k in files])


def drops(steps):
    """The steps at which the rate drops: Caffe's 60,000 and 65,000 of 70,000, scaled to `steps`."""
    return round(steps * 6 / 7), round(steps * 6.5 / 7)


def by_torch(data, seed, steps):
    torch.manual_seed(seed)
    (x, y), (tx, ty) = data
    net = Cifar()
    for layer, std in ((net.c1, 1e-4), (net.c2, 1e-2), (net.c3, 1e-2), (net.f, 1e-2)):
        torch.nn.init.normal_(layer.weight, std=std)
        torch.nn.init.zeros_(layer.bias)
    group = lambda p, lr=1.0, decay=1.0: {"params": [p], "lr": 0.001 * lr, "weight_decay": 0.004 * decay}
    opt = torch.optim.SGD([group(net.c1.weight), group(net.c1.bias, 2), group(net.c2.weight), group(net.c2.bias, 2),
                           group(net.c3.weight), group(net.c3.bias), group(net.f.weight, 1, 250), group(net.f.bias, 2, 0)],
                          lr=0.001, momentum=0.9)
    order, at = torch.randperm(len(x)), 0
    for step in range(steps):
        if step in drops(steps):
            for g in opt.param_groups:
                g["lr"] *= 0.1
        if at + 100 > len(x):
            order, at = torch.randperm(len(x)), 0
        pick = order[at : at + 100]
        at += 100
        opt.zero_grad()
        F.cross_entropy(net(x[pick]), y[pick]).backward()
        opt.step()
    with torch.no_grad():
        right = sum((net(tx[i : i + 500]).argmax(1) == ty[i : i + 500]).sum().item() for i in range(0, len(tx), 500))
    return right / len(tx)


def by_troupe(binary, folder, seed, steps):
    first, second = drops(steps)
    words = [binary, "train", os.path.join(ROOT, "configs/jobs/cifar10_images.toml"), "--json"]
    for s in (f'data.path="{folder}"', f"job.seed={seed}", f"train.finish.steps={steps}", "eval.every=0",
              f'train.dynamics.schedule={{kind="fixed_step",at=[{first},{second}],factor=0.1}}'):
        words += ["--set", s]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])["test_accuracy"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--steps", type=int, default=5000)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--out")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    data = [load(os.path.join(a.folder, part)) for part in ("train", "test")]
    rows = []
    for seed in range(1, a.seeds + 1):
        t = time.time()
        ours = by_troupe(a.bin, os.path.abspath(a.folder), seed, a.steps)
        between = time.time()
        rows.append((seed, ours, between - t, by_torch(data, seed, a.steps), time.time() - between))
        print("seed %d: Troupe %.4f (%.0f s), torch %.4f (%.0f s)" % rows[-1], flush=True)
    ours, theirs = (sum(r[k] for r in rows) / len(rows) for k in (1, 3))
    text = f"means: Troupe {ours:.4f}, torch {theirs:.4f}, {100 * (ours - theirs):+.2f} points"
    print(text)
    if a.out:
        publish(f"""# Does CIFAR10-full learn as well as in PyTorch?

Question: do {a.steps:,} steps of Caffe's CIFAR10-full reach the accuracy of PyTorch with the same recipe? Answer: {text}, over {a.seeds} seeds.

Command: `bench/cifar10_accuracy.py FOLDER --steps {a.steps} --seeds {a.seeds}` with {len(data[0][0]):,} images to train on and {len(data[1][0]):,} to test.

Where: {time.strftime('%Y-%m-%d')}, {machine()}, torch {torch.__version__}.

| seed | Troupe | torch |
|---|---|---|
""" + "".join(f"| {r[0]} | {r[1]:.4f} | {r[3]:.4f} |\n" for r in rows) + """
What it does not show: speed (the machine was not idle); the whole of CIFAR-10, or Caffe's 70,000 steps.
""", a.out, a.bin)
    return 0 if ours >= theirs - 0.025 else 1


if __name__ == "__main__":
    sys.exit(main())
