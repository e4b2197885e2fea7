#!/usr/bin/env python3
"""Measures what a trace costs: LeNet with and without `--trace`, in turn.

usage: bench/trace_cost.py [--bin build/release/bin] [--rounds 7] [--steps 2000] [--out FILE]

Every round begins with the other one. The result is the median over the rounds of with / without, pair by pair, so that a drift of the machine's speed
has no effect.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

from environment import ROOT, folder_of, machine, publish

JOB = os.path.join(ROOT, "configs/jobs/lenet_fashion.toml")


def ms_of_a_step(a, threads, trace):
    """Milliseconds of a step, and the bytes of the trace for a step."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "run.pftrace")
        words = [os.path.join(folder_of(a.bin), "troupe"), "train", JOB, "--json", "--no-run", "--threads", str(threads)]
        for setting in (f"train.finish.steps={a.steps}", "eval.every=0", f"pipeline.packets={threads}", f"pipeline.sub_solvers={threads}"):
            words += ["--set", setting]
        r = subprocess.run(words + (["--trace", file] if trace else []), capture_output=True, text=True, cwd=ROOT)
        if r.returncode != 0:
            sys.exit(r.stdout[-2000:] + r.stderr)
        return json.loads(r.stdout.splitlines()[-1])["seconds"] / a.steps * 1000, os.path.getsize(file) / a.steps if trace else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--steps", type=int, default=2000)
    p.add_argument("--out")
    a = p.parse_args()
    rows, worst = "", 0
    for threads in (1, 2):
        ms, ratios, size = {False: [], True: []}, [], 0
        for k in range(a.rounds):
            for trace in (False, True) if k % 2 == 0 else (True, False):
                took, each = ms_of_a_step(a, threads, trace)
                ms[trace].append(took)
                size = max(size, each)
            ratios.append(ms[True][-1] / ms[False][-1])
        ratio = statistics.median(ratios)
        worst = max(worst, ratio)
        rows += f"| {threads} | {statistics.median(ms[False]):.3f} | {statistics.median(ms[True]):.3f} | {ratio:.3f} | {min(ratios):.3f} to {max(ratios):.3f} | {size / 1024:.1f} |\n"
        print(rows.splitlines()[-1], flush=True)
    publish(f"""# Cost of a trace, {datetime.date.today()}

**Question.** How much longer does a step of LeNet take while a trace is written?
**Answer.** {worst:.3f} times as long.

**Command.** `bench/trace_cost.py --rounds {a.rounds} --steps {a.steps}`
**Where.** {machine()}. fp32, batch 64; ms per step, medians of the runs; the ratio is the median of the pairs.

| threads | without a trace | with | with / without | range | KiB of trace per step |
|---|---|---|---|---|---|
{rows}
**What it does not show.** The record in memory is always kept, also without a trace; `bench/before_after.py` compares it with an older build.
""", a.out, a.bin)


if __name__ == "__main__":
    main()
