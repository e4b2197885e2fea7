#!/usr/bin/env python3
"""Measures what recording a run costs, and how fast `troupe replay` is: LeNet with and without `--record`, in turn.

usage: bench/replay.py [--bin build/release/bin] [--rounds 7] [--steps 2000] [--out FILE]

Every round begins with the other one. The cost is the median over the rounds of with / without, pair by pair. The replay, which uses one thread, must have the
weights of the run.
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


def troupe(a, *words):
    """The last event of the command."""
    r = subprocess.run([os.path.join(folder_of(a.bin), "troupe"), *words, "--json"], capture_output=True, text=True, cwd=ROOT)
    if r.returncode != 0:
        sys.exit(r.stdout[-2000:] + r.stderr)
    return json.loads(r.stdout.splitlines()[-1])


def train(a, threads, runs, record):
    """Milliseconds of a step."""
    settings = (f"train.finish.steps={a.steps}", "eval.every=0", f"pipeline.packets={threads}", f"pipeline.sub_solvers={threads}")
    words = ["train", JOB, "--run-dir", runs, "--threads", str(threads), *(w for s in settings for w in ("--set", s))]
    return troupe(a, *words, *(["--record"] if record else []))["seconds"] / a.steps * 1000


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--steps", type=int, default=2000)
    p.add_argument("--out")
    a = p.parse_args()
    rows, worst = "", 0
    for threads in (1, 2):
        ms, ratios = {False: [], True: []}, []
        with tempfile.TemporaryDirectory() as runs:
            for k in range(a.rounds):
                for record in (False, True) if k % 2 == 0 else (True, False):
                    ms[record].append(train(a, threads, runs, record))
                ratios.append(ms[True][-1] / ms[False][-1])
            train(a, threads, runs, True)
            newest = max(os.listdir(runs), key=lambda name: int(name.split("-")[0]) if name[0].isdigit() else 0)
            size = os.path.getsize(os.path.join(runs, newest, "recording/plan-0-from-step-0/messages.stream")) / a.steps
            began = datetime.datetime.now()
            again = troupe(a, "replay", newest, "--run-dir", runs)
            replay = (datetime.datetime.now() - began).total_seconds() / a.steps * 1000
            if not again["same_weights"]:
                sys.exit("the replay has other weights")
        ratio = statistics.median(ratios)
        worst = max(worst, ratio)
        plain = statistics.median(ms[False])
        rows += f"| {threads} | {plain:.3f} | {statistics.median(ms[True]):.3f} | {ratio:.3f} | {min(ratios):.3f} to {max(ratios):.3f} | {again['messages'] / a.steps:.0f} | {size / 1024:.2f} | {replay:.3f} | {replay / plain:.2f} |\n"
        print(rows.splitlines()[-1], flush=True)
    publish(f"""# Cost of a recording, and speed of a replay, {datetime.date.today()}

**Question.** How much longer does a step of LeNet take while it is recorded, and how long does `troupe replay` take for it?
**Answer.** {worst:.3f} times as long at most. A replay, on one thread, has the weights of the run.

**Command.** `bench/replay.py --rounds {a.rounds} --steps {a.steps}`
**Where.** {machine()}. fp32, batch 64; ms per step, medians of the runs; the ratio is the median of the pairs.

| threads | not recorded | recorded | recorded / not | range | messages per step | KiB per step | replay | replay / not recorded |
|---|---|---|---|---|---|---|---|---|
{rows}
**What it does not show.** The log of the last 4 MiB of messages in memory is always kept, also without a recording.
""", a.out, a.bin)


if __name__ == "__main__":
    main()
