#!/usr/bin/env python3
"""Effect of the batch size on accuracy at equal epochs, and of scaling the rate with it: LeNet on Fashion-MNIST.

usage: bench/batch_size.py [--bin build/release/bin/troupe] [--epochs 2] [--batches 32,64,...,1024] [--seeds 1] [--out FILE.md] [--svg FILE.svg]

FireCaffe (Iandola et al. 2016, section 4.1) raises the batch to lengthen the work between two exchanges, and the rate with it. Here a
batch runs with the rate of the base batch ("none"), with that times the ratio of the batches ("linear"), with that times the root of
the ratio ("sqrt"), and with "linear" after a warm-up over the first tenth of the steps (Goyal et al. 2017). In all runs the rate
decreases linearly to zero. A run whose loss is no longer finite counts as diverged.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from environment import ROOT, machine, publish

EXAMPLES = 60000
JOB = os.path.join(ROOT, "configs/jobs/lenet_fashion.toml")
KINDS = ("none", "sqrt", "linear", "linear, warm-up")


def train(binary, batch, kind, a, seed):
    """Test accuracy of one run; None if it diverged."""
    per_epoch = EXAMPLES // batch
    steps = per_epoch * a.epochs
    warmup = f", warmup = {{ steps = {max(1, steps // 10)}, from = 0.1 }}" if "warm" in kind else ""
    dynamics = (f'{{ rule = "momentum", momentum = 0.9, decay = 5e-4, lr = {a.lr}, base_batch = {a.base}, lr_scale = "{kind.split(",")[0]}", '
                f'schedule = {{ kind = "poly", steps = {steps}{warmup} }} }}')
    sets = {"train.dynamics": dynamics, "train.finish": f"{{ steps = {steps} }}", "data.batch": batch, "job.seed": seed, "eval.every": 0,
            "eval.batch": 100, "pipeline.packets": 2, "pipeline.sub_solvers": 2}
    command = [binary, "train", JOB, "--json"]
    for k, v in sets.items():
        command += ["--set", f"{k}={v}"]
    r = subprocess.run(command, capture_output=True, text=True)
    events = [json.loads(line) for line in r.stdout.splitlines()]
    last = events[-1] if events else {}
    if last.get("event") == "done":
        return last["test_accuracy"]
    if any("not finite" in str(e) for e in events) or "not finite" in r.stderr:
        return None
    sys.exit(" ".join(command) + "\n" + r.stdout[-2000:] + r.stderr)


def svg(results, batches, path):
    """Draws accuracy over the batch, one line per kind; a diverged run interrupts the line."""
    wide, high, left, top = 640, 400, 60, 20
    known = [v for row in results.values() for v in row.values() if v is not None]
    low, most = min(known) - 0.01, max(known) + 0.01
    x = lambda i: left + i * (wide - left - 20) / max(1, len(batches) - 1)
    y = lambda v: top + (most - v) / (most - low) * (high - top - 50)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif" font-size="12">',
           f'<rect width="{wide}" height="{high}" fill="white"/>']
    for i, b in enumerate(batches):
        out.append(f'<text x="{x(i):.1f}" y="{high - 30}" text-anchor="middle">{b}</text>')
    for k in range(6):
        v = low + k * (most - low) / 5
        out.append(f'<line x1="{left}" x2="{wide - 20}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.3f}</text>')
    out.append(f'<text x="{wide / 2}" y="{high - 10}" text-anchor="middle">batch</text>')
    for (kind, colour) in zip(KINDS, ("#444", "#06c", "#c30", "#090")):
        run = []
        for i, b in enumerate(batches + [None]):
            v = results[b][kind] if b is not None else None
            if v is not None:
                run.append(f"{x(i):.1f},{y(v):.1f}")
                out.append(f'<circle cx="{x(i):.1f}" cy="{y(v):.1f}" r="3" fill="{colour}"/>')
            elif run:
                out.append(f'<polyline points="{" ".join(run)}" fill="none" stroke="{colour}" stroke-width="2"/>')
                run = []
        at = top + 200 + 16 * KINDS.index(kind)
        out.append(f'<line x1="{left + 10}" x2="{left + 34}" y1="{at}" y2="{at}" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{left + 40}" y="{at + 4}">{kind}</text>')
    with open(path, "w") as f:
        f.write("\n".join(out + ["</svg>", ""]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batches", default="32,64,128,256,512,1024")
    p.add_argument("--base", type=int, default=64, help="the batch that the rate was chosen for")
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--seeds", type=int, default=1, help="runs of each cell; the median is shown")
    p.add_argument("--out")
    p.add_argument("--svg")
    a = p.parse_args()
    batches = [int(b) for b in a.batches.split(",")]
    lines = [f"{machine()}; {datetime.date.today()}. `bench/batch_size.py --epochs {a.epochs} --batches {a.batches} --base {a.base} --lr {a.lr} "
             f"--seeds {a.seeds}`. Test accuracy; median (smallest to largest) of {a.seeds} seed(s).", "",
             "| batch | steps | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 2) + "|"]
    print("\n".join(lines), flush=True)
    results = {}
    for batch in batches:
        cells, results[batch] = [], {}
        for kind in KINDS:
            if batch == a.base and kind in ("sqrt", "linear"):  # the same run as "none"
                results[batch][kind] = results[batch]["none"]
                cells.append(cells[0])
                continue
            got = [train(a.bin, batch, kind, a, seed) for seed in range(1, a.seeds + 1)]
            values = sorted(v for v in got if v is not None)
            if len(values) < len(got):
                results[batch][kind] = None
                cells.append("diverged" if not values else f"{len(got) - len(values)} of {len(got)} diverged")
                continue
            results[batch][kind] = statistics.median(values)
            cells.append(f"{statistics.median(values):.4f}" + (f" ({values[0]:.4f} to {values[-1]:.4f})" if len(values) > 1 else ""))
        lines.append(f"| {batch} | {EXAMPLES // batch * a.epochs} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if a.out:
        publish("\n".join(lines) + "\n", a.out, a.bin)
    if a.svg:
        svg(results, batches, a.svg)


if __name__ == "__main__":
    main()
