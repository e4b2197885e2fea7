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

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


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


def plot(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for name, (points, _) in rows.items():
        where = right if name.startswith("auto") else left
        first = points[0][1] if where is left else 1.0
        where.plot([s for s, _ in points], [v / first for _, v in points], marker="o", markersize=3, label=name)
    left.set_title("contrastive divergence"), right.set_title("backpropagation")
    left.set_ylabel("test error, share of the first evaluation's"), right.set_ylabel("test error, squared, per image")
    for a in (left, right):
        a.set_xlabel("step"), a.set_ylim(bottom=0), a.legend(fontsize=8), a.grid(alpha=0.3)
    fig.tight_layout()
    fig.savefig(path)


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
    plot(rows, os.path.join(folder, "rbm_autoencoder.svg"))
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.processor())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    seeded, random = rows["autoencoder, seeded"][0][-1][1], rows["autoencoder, random"][0][-1][1]
    with open(os.path.join(folder, "rbm_autoencoder.md"), "w") as f:
        f.write(f"""# Does a stack of Boltzmann machines seed an autoencoder?

Question: does the reconstruction error fall through SINGA's recipe (machines by contrastive divergence, unrolled, then
backpropagation)? Answer: to {seeded:.2f} squared error a test image of Fashion-MNIST with 30 numbers for an image; from random weights the
same steps reach {random:.2f}.

Command: `bench/rbm_autoencoder.py --steps {a.steps} --fine {a.fine} --write`.

Where: {time.strftime('%Y-%m-%d')}, {cpu}, {os.cpu_count()} cores, {platform.platform()}, commit {commit}. f32, batch 100, two packets.

{table}

The error of a machine is the squared difference between what it is given and its reconstruction, summed over its visible units, mean over
the test examples; machines above the first are given probabilities. The autoencoder's is over the 784 pixels in [0, 1].

![curves](rbm_autoencoder.svg)

What it does not show: MNIST, which the papers use (it is not among Debian's packages); other learning rates; more than one seed.
""")


if __name__ == "__main__":
    main()
