#!/usr/bin/env python3
"""convergence.py [--epochs N] [--seeds N] [--out MD] [--modes NAME,...]: accuracy against virtual time with stragglers.

Runs configs/sim/convergence.toml (LeNet on Fashion-MNIST, 16 virtual workers, two slow nodes, real maths) in every mode and draws the
test accuracies over the simulator's clock. Nothing in it depends on how fast or busy this machine is: the same seed gives the same curve.
Writes MD and an SVG next to it.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

from chart import svg
from environment import publish

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TROUPE = os.environ.get("TROUPE", os.path.join(TOP, "build/release/bin/troupe"))
SCENARIO = os.path.join(TOP, "configs/sim/convergence.toml")
STEPS_PER_EPOCH = 234  # 60,000 / 256
WORKERS = 16

# Settings of each mode. Its rate is the best of RATES after half an epoch of seed 1 (the document lists every rate and its accuracy).
# Plain SGD: with momentum, stale gradients diverge at the rates that are good for bsp.
RATES = [0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005]
GROUPS = ["topology.worker_groups=16", "topology.workers_per_group=1"]
MODES = {
    "bsp": [],
    "ssp 1": ["train.sync.mode=ssp", "train.sync.staleness=1"],
    "ssp 3": ["train.sync.mode=ssp", "train.sync.staleness=3"],
    "ssp 10": ["train.sync.mode=ssp", "train.sync.staleness=10"],
    "downpour": GROUPS + ["train.sync.mode=downpour"],
    "easgd": ["train.sync.mode=easgd", "train.sync.tau=10", "train.sync.alpha=auto"],
}


def run(name, settings, steps, seed, rate):
    command = [TROUPE, "sim", SCENARIO, "--json", "--steps", str(steps), "--seed", str(seed), "--set", f"job.seed={seed}",
               "--set", "train.finish.who=any", "--set", "train.dynamics.momentum=0", "--set", f"train.dynamics.lr={rate}"]
    for s in settings:
        command += ["--set", s]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode == 1 and "not finite" in out.stdout:
        return [], {}
    if out.returncode != 0:
        sys.exit(f"{name}: exit {out.returncode}\n{out.stdout[-800:]}{out.stderr[-800:]}")
    curve, done = [], {}
    for line in out.stdout.splitlines():
        e = json.loads(line)
        if e["event"] == "eval":
            curve.append((e["virtual_seconds"], e["accuracy"]))
        if e["event"] == "done":
            done = e
    return curve, done


def first_above(curve, bar):
    return next((t for t, a in curve if a >= bar), None)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--epochs", type=float, default=3)
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--modes")
    p.add_argument("--out")
    a = p.parse_args()
    steps = int(a.epochs * STEPS_PER_EPOCH)
    names = a.modes.split(",") if a.modes else list(MODES)
    rows, curves, tried = [], {}, []
    for name in names:
        found = {}
        for rate in RATES:
            curve, _ = run(name, MODES[name], STEPS_PER_EPOCH // 2, 1, rate)
            found[rate] = curve[-1][1] if curve else 0.0
        rate = max(found, key=found.get)
        tried.append((name, *(f"{found[r]:.3f}" if found[r] else "diverged" for r in RATES)))
        print("  ".join(map(str, tried[-1])), flush=True)
        for seed in range(1, a.seeds + 1):
            curve, done = run(name, MODES[name], steps, seed, rate)
            if seed == 1:
                curves[name] = curve
            if not curve:
                rows.append((name, seed, rate, "-", "-", "diverged", "-", "-", "-"))
                continue
            best = max(acc for _, acc in curve)
            fmt = lambda t: "-" if t is None else f"{t:.1f}"
            row = (name, seed, rate, fmt(first_above(curve, 0.80)), fmt(first_above(curve, 0.85)), f"{best:.4f}", f"{curve[-1][1]:.4f}",
                   f"{done['virtual_seconds']:.1f}", done["trace_sha256"][:12])
            rows.append(row)
            print("  ".join(map(str, row)), flush=True)
    if not a.out:
        return
    svg(curves, os.path.splitext(a.out)[0] + ".svg", "virtual seconds", "test accuracy", 0.6, 0.92)
    table = ["| mode | seed | rate | s to 0.80 | s to 0.85 | best | last | s in all | trace |", "|---|---|---|---|---|---|---|---|---|"]
    table += ["| " + " | ".join(map(str, r)) + " |" for r in rows]
    table += ["", "Accuracy after half an epoch at each rate:", "", "| mode | " + " | ".join(map(str, RATES)) + " |", "|---" * (len(RATES) + 1) + "|"]
    table += ["| " + " | ".join(t) + " |" for t in tried]
    mark = "<!-- table -->"
    text = open(a.out).read() if os.path.exists(a.out) else f"# Convergence with stragglers, {datetime.date.today()}\n\n{mark}\n{mark}\n"
    before, _, after = text.split(mark)
    publish(before + mark + "\n" + "\n".join(table) + "\n" + mark + after, a.out)


if __name__ == "__main__":
    main()
