#!/usr/bin/env python3
"""Measures what a loop in Python with callbacks costs: LeNet by `troupe train`, and by troupe.train() with callbacks, in turn.

usage: bench/python_loop.py [--build build/release] [--rounds 7] [--steps 1500] [--out FILE]

Both write a run folder, whose run.json has the seconds of training. The callbacks are called with every step and evaluation; they keep all losses and
a moving average. Every round begins with the other one. The result is the median over the rounds of Python / command, pair by pair, so that a drift of
the machine's speed has no effect. The weights must be equal.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

from environment import PYTHON, ROOT, machine, publish

JOB = os.path.join(ROOT, "configs/jobs/lenet_fashion.toml")
LOOP = """
import json, sys
import troupe

losses, average = [], 0.0

def on_step(event):
    global average
    losses.append((event.step, event.loss, event.lr))
    average = 0.98 * average + 0.02 * event.loss

troupe.train(sys.argv[1], overrides=json.loads(sys.argv[2]), threads=int(sys.argv[3]), run_dir=sys.argv[4], on_step=on_step,
             on_eval=lambda event: losses.append((event.step, event.accuracy)))
assert len(losses) >= int(sys.argv[5]), len(losses)
"""


def one_run(a, python, threads):
    """Milliseconds of a step, and the hash of the weights."""
    settings = {"train.finish.steps": a.steps, "eval.every": 500, "pipeline.packets": threads, "pipeline.sub_solvers": threads}
    with tempfile.TemporaryDirectory() as runs:
        if python:
            words = [PYTHON, "-c", LOOP, JOB, json.dumps(settings), str(threads), runs, str(a.steps)]
        else:
            words = [os.path.join(a.build, "bin/troupe"), "train", JOB, "--threads", str(threads), "--run-dir", runs]
            for key, value in settings.items():
                words += ["--set", f"{key}={value}"]
        r = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": os.path.join(a.build, "python")})
        if r.returncode != 0:
            sys.exit(r.stdout[-2000:] + r.stderr)
        with open(os.path.join(runs, next(n for n in os.listdir(runs) if n.startswith("1-")), "run.json")) as f:
            facts = json.load(f)
    return facts["seconds"] / a.steps * 1000, facts["weights_sha256"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--steps", type=int, default=1500)
    p.add_argument("--out")
    a = p.parse_args()
    a.build = os.path.abspath(a.build)
    rows, worst = "", 0
    for threads in (1, 2):
        ms, ratios, hashes = {False: [], True: []}, [], set()
        for k in range(a.rounds):
            for python in (False, True) if k % 2 == 0 else (True, False):
                took, weights = one_run(a, python, threads)
                ms[python].append(took)
                hashes.add(weights)
            ratios.append(ms[True][-1] / ms[False][-1])
        if len(hashes) != 1:
            sys.exit(f"the weights differ: {hashes}")
        ratio = statistics.median(ratios)
        worst = max(worst, ratio)
        row = (f"| {threads} | {statistics.median(ms[False]):.3f} | {statistics.median(ms[True]):.3f} | {ratio:.3f} | "
               f"{min(ratios):.3f} to {max(ratios):.3f} | yes |\n")
        rows += row
        print(row, end="", flush=True)
    text = (f"# Cost of a loop in Python, {datetime.date.today()}\n\n"
            "**Question.** How much longer does a step of LeNet take with callbacks of Python than by `troupe train`?\n"
            f"**Answer.** {worst:.3f} times as long.\n\n"
            f"**Command.** `bench/python_loop.py --rounds {a.rounds} --steps {a.steps}`\n"
            f"**Where.** {machine()}. fp32, batch 64; ms per step, medians of the runs; the ratio is the median of the pairs.\n\n"
            "| threads | `troupe train` | `troupe.train()` with callbacks | Python / command | range | equal weights |\n|---|---|---|---|---|---|\n" + rows +
            "\n**What it does not show.** The start of Python and the import of the package (0.2 s) are not part of the steps.\n")
    if a.out:
        publish(text, a.out, os.path.join(a.build, "bin"))


if __name__ == "__main__":
    main()
