#!/usr/bin/env python3
"""Benchmarks every convolution algorithm on the layers of the nets, and the products of their linear layers: runs bench_convolution and
bench_linear and writes docs/measurements/convolution.md.

usage: bench/convolution.py [--build build/release] [--rounds 3] [--seconds 0.1] [--peak 207] [--out docs/measurements/convolution.md]

`--peak` is the fp32 peak of one core, in GFLOP/s. Layers are compared with the best product of large matrices
(sgemm) of the same run. The defaults take about two minutes. lowering2 and lowering3 of AlexNet's conv1 are left out:
lowering3 takes over 20 s per call. Nothing is written if the machine is busy.
"""
import argparse
import datetime
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
from environment import machine, publish  # noqa: E402

ALGORITHMS = ["auto", "lowering1", "lowering2", "lowering3", "direct", "winograd", "winograd4", "onednn", "bf16x3", "bf16"]
LAYERS = ["lenet_conv1", "lenet_conv2", "cifar_conv1", "cifar_conv2", "cifar_conv3", "alexnet_conv1", "alexnet_conv2", "alexnet_conv3",
          "alexnet_conv4", "alexnet_conv5", "resnet20_16", "resnet20_16_32", "resnet20_32", "resnet20_64"]


def rows_of(binary, seconds, layer, algorithm):
    text = subprocess.run([binary, str(seconds), layer, algorithm], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        m = re.match(r"(\S+) +(\S+) +([\d.]+) +([\d.]+) +([\d.]+) ", line)
        if m and m[1] == layer:
            yield m[2], [float(m[i]) for i in (3, 4, 5)]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    p.add_argument("--seconds", type=float, default=0.1)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--peak", type=float, default=207)
    p.add_argument("--out")
    return p.parse_args()


def measure(a):
    """The best of all rounds for every layer and algorithm and for every product, since other work on the machine varies."""
    found, linear = {}, {}

    def keep(where, key, got):
        where[key] = [max(x, y) for x, y in zip(where.get(key, got), got)]

    for _ in range(a.rounds):
        for layer in LAYERS:
            for name in ALGORITHMS:
                if layer == "alexnet_conv1" and name in ("lowering2", "lowering3"):
                    continue
                for algorithm, got in rows_of(os.path.join(a.build, "bin/bench_convolution"), a.seconds, layer, name):
                    keep(found, (layer, algorithm), got)
        text = subprocess.run([os.path.join(a.build, "bin/bench_linear"), str(a.seconds)], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines()[1:]:
            name, *v = line.replace("/", " ").split()
            keep(linear, name, [float(x) for x in v])
    return found, linear


def page(a, load, found, linear):
    table = [f"| {l} | {n} | " + " | ".join(f"{v:.0f}" for v in got) + " |" for (l, n), got in found.items()]
    floor = max(linear.pop("sgemm")[:6])  # in fp32: by the device, by OpenBLAS
    best = [f"| {l} | " + " | ".join(f"{v:.0f}, {100 * v / floor:.0f} %" for v in got) + " |" for (l, n), got in found.items() if n == "auto"]
    products = [f"| {n} | " + " | ".join(f"{v[i]:.0f} ({v[i + 3]:.0f}), {v[i + 6]:.0f}" for i in range(3)) + " |" for n, v in linear.items()]
    autos = [v for (l, n), got in found.items() if n == "auto" for v in got]
    return f"""# Convolution and linear layers, kernel by kernel, {datetime.date.today()}

**Question.** How fast are the convolution algorithms on the layers of the nets, and how far is `auto` from the peak of a core?
**Answer.** `auto` reaches {min(autos):.0f} to {max(autos):.0f} GFLOP/s (median {statistics.median(autos):.0f}); the best product of large
matrices (sgemm, 1024 x 1024 x 1024) reaches {floor:.0f} and a core's multiply-adds {a.peak:.0f}.

**Command.** `bench/convolution.py --rounds {a.rounds} --seconds {a.seconds}` after building `bench_convolution` and `bench_linear`.
**Where.** {machine()}. fp32, one thread; each figure is the best of {a.rounds} rounds of {a.seconds} s. Load average {load:.1f} at
the start, {os.getloadavg()[0]:.1f} at the end (of which 1 is its own).

GFLOP/s count the operations of the plain sum; winograd needs fewer and may exceed the peak. `data` of a first layer is not needed in training.

| layer | algorithm | forward | data | weights |
|---|---|---|---|---|
""" + "\n".join(table) + f"""

`auto`, GFLOP/s and share of sgemm's {floor:.0f}:

| layer | forward | data | weights |
|---|---|---|---|
""" + "\n".join(best) + """

Products of linear layers, GFLOP/s, in brackets by OpenBLAS alone, then of bf16 activations:

| layer | forward | data | weights |
|---|---|---|---|
""" + "\n".join(products) + """

**What it does not show.** Two threads; the effect of other layers on the caches (`troupe time` includes it); machines without AVX-512, where `auto`
is lowering1 throughout. oneDNN's rows (of a build that has it) include bringing NCHW into its layouts and back.
"""


def main():
    a = arguments()
    load = os.getloadavg()[0]
    if a.out and load > 0.5:  # with other work on the machine, figures halved and the order of the algorithms changed
        sys.exit(f"load average {load:.1f}: the machine is not idle, nothing is written")
    found, linear = measure(a)
    text = page(a, load, found, linear)
    publish(text, a.out, a.build)


if __name__ == "__main__":
    main()
