#!/usr/bin/env python3
"""The reconstruction error of SINGA's stack of Boltzmann machines and of the autoencoder that it seeds, on Fashion-MNIST.

usage: rbm_autoencoder.py [--bin FILE] [--steps N] [--fine N] [--write]

One machine after the other by contrastive divergence (--steps each, SINGA: 6000), then the autoencoder by backpropagation (--fine, SINGA:
12200) from their weights, and for comparison from random ones. --write: docs/measurements/rbm_autoencoder.md and its plot.
"""
import argparse
import json
import os
import platform
import subprocess
import tempfile
import time

from chart import svg
from environment import ROOT, machine, publish


def run(troupe, job, out, every, steps, sets=(), weights=None):
    """[(step, {metric: value})] of the evaluations, and seconds."""
    words = [troupe, "train", os.path.join(ROOT, "configs/jobs", job + ".toml"), "--json", "--out", out]
    for s in [f"train.finish.steps={steps}", f"eval.every={every}", *sets]:
        words += ["--set", s]
    if weights:
        words += ["--weights", weights]
    begun = time.time()
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [(e["step"], e) for e in events if e.get("event") == "eval"], time.time() - begun


def curve(troupe, steps, fine):
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        weights = None
        for machine in range(1, 5):
            frozen = [f"layer.rbm{k}.lr_scale=0" for k in range(1, 5) if k != machine]
            out = os.path.join(folder, f"{machine}.safetensors")
            evals, seconds = run(troupe, "rbm_stack", out, max(1, steps // 10), steps, frozen, weights)
            rows[f"machine {machine}"] = [(s, e[f"error{machine}"]) for s, e in evals], seconds
            weights = out
        begin = os.path.join(folder, "begin.safetensors")
        subprocess.run([troupe, "unroll", weights, "--out", begin], check=True, stdout=subprocess.DEVNULL)
        for name, first in (("autoencoder, seeded", begin), ("autoencoder, random", None)):
            evals, seconds = run(troupe, "rbm_autoencoder", os.path.join(folder, "a.safetensors"), max(1, fine // 10), fine, (), first)
            rows[name] = [(s, e["error"]) for s, e in evals], seconds
    return rows


def plot(rows, folder):
    machines = {n: [(s, v / points[0][1]) for s, v in points] for n, (points, _) in rows.items() if n.startswith("machine")}
    svg(machines, os.path.join(folder, "rbm_stack.svg"), "step", "test error, share of the first evaluation's", 0, 1.1)
    fine = {n: points for n, (points, _) in rows.items() if n.startswith("auto")}
    svg(fine, os.path.join(folder, "rbm_autoencoder.svg"), "step", "squared error of a test image", 0,
        1.05 * max(v for points in fine.values() for _, v in points))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--steps", type=int, default=6000)
    p.add_argument("--fine", type=int, default=12200)
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    rows = curve(a.bin, a.steps, a.fine)
    lines = ["| what | first evaluation | last | after steps | seconds |", "|---|---|---|---|---|"]
    for name, (points, seconds) in rows.items():
        lines.append(f"| {name} | {points[0][1]:.3f} (step {points[0][0]}) | {points[-1][1]:.3f} | {points[-1][0]:,} | {seconds:.0f} |")
    table = "\n".join(lines)
    print(table)
    if not a.write:
        return
    folder = os.path.join(ROOT, "docs/measurements")
    plot(rows, folder)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    seeded, random = rows["autoencoder, seeded"][0][-1][1], rows["autoencoder, random"][0][-1][1]
    publish(f"""# Does a stack of Boltzmann machines seed an autoencoder?

Question: does the reconstruction error fall through SINGA's recipe (machines by contrastive divergence, unrolled, then
backpropagation)? Answer: to {seeded:.2f} squared error a test image of Fashion-MNIST with 30 numbers for an image; from random weights the
same steps reach {random:.2f}.

Command: `bench/rbm_autoencoder.py --steps {a.steps} --fine {a.fine} --write`.

Where: {time.strftime('%Y-%m-%d')}, {machine()}, {platform.platform()}, commit {commit}. f32, batch 100, two packets.

{table}

The error of a machine is the squared difference between its input and its reconstruction, summed over its visible units, mean over
the test examples; the inputs of machines above the first are probabilities. The autoencoder's is over the 784 pixels in [0, 1].

![machines](rbm_stack.svg)
![autoencoders](rbm_autoencoder.svg)

What it does not show: MNIST, which the papers use (it is not among Debian's packages); other learning rates; more than one seed.
""", os.path.join(folder, "rbm_autoencoder.md"), a.bin)


if __name__ == "__main__":
    main()
