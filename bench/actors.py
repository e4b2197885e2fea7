#!/usr/bin/env python3
"""Cost of running a job as actors, and gain of a second sub-solver on a second core.

usage: bench/actors.py [--bin build/release/bin/troupe] [--rounds 5] [--out docs/measurements/actors.md]

Cost: `troupe time` runs the job through its actors on one thread, and the same layers, packets, sums and update in a plain loop, in
alternating blocks of one process. Gain: `troupe train` on two threads with one and with two sub-solvers, alternating.
"""
import argparse
import datetime
import json
import os
import resource
import statistics
import subprocess

from environment import ROOT, machine, publish


def lines(binary, *args):
    r = subprocess.run([binary, *args, "--json"], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in r.stdout.splitlines()]


def cost(binary, job, steps, rounds, settings):
    more = [word for s in settings for word in ("--set", s)]
    runs = [next(e for e in lines(binary, "time", job, "--steps", str(steps), *more) if e["event"] == "time") for _ in range(rounds)]
    ratio = sorted(100 * (e["actors_ms"] / e["plain_ms"] - 1) for e in runs)
    return [statistics.median(e["plain_ms"] for e in runs), statistics.median(e["actors_ms"] for e in runs), statistics.median(ratio),
            ratio[0], ratio[-1], runs[0]["packets"]]


def step_ms(binary, job, packets, solvers):
    events = lines(binary, "train", job, "--threads", "2", "--set", "train.finish={steps=400}", "--set", "eval.every=0",
                   "--set", f"pipeline.packets={packets}", "--set", f"pipeline.sub_solvers={solvers}")
    return statistics.median(1000 * e["step_seconds"] for e in events[20:] if e["event"] == "step")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--out")
    a = p.parse_args()
    jobs = os.path.join(ROOT, "configs/jobs")
    text = f"""# What the actors cost, {datetime.date.today()}

**Question.** What does a job lose by running as actors, and what does a second sub-solver gain?
**Command.** `bench/actors.py`. **Where.** {machine()}, otherwise idle. Medians of {a.rounds} runs.

One thread, the actors against a plain loop over the same layers and packets:

| job | packets | plain loop, ms | actors, ms | cost, % | min | max |
|---|---|---|---|---|---|---|
"""
    for title, job, steps, *settings in (("LeNet b64", "lenet_fashion.toml", 150), ("CIFAR10-full b100", "cifar10_full.toml", 60),
                                         ("AlexNet b32", "alexnet.toml", 10, "data.batch=32", "pipeline.packets=1")):
        plain, actors, middle, least, most, packets = cost(a.bin, os.path.join(jobs, job), steps, a.rounds, settings)
        text += f"| {title} | {packets} | {plain:.2f} | {actors:.2f} | {middle:+.1f} | {least:+.1f} | {most:+.1f} |\n"
    text += "\nLeNet, two threads, ms per step:\n\n| packets | one sub-solver | two | gain | min | max |\n|---|---|---|---|---|---|\n"
    for packets in (2, 4):
        pairs = [(step_ms(a.bin, os.path.join(jobs, "lenet_fashion.toml"), packets, 1),
                  step_ms(a.bin, os.path.join(jobs, "lenet_fashion.toml"), packets, 2)) for _ in range(a.rounds)]
        gain = sorted(x / y for x, y in pairs)
        text += (f"| {packets} | {statistics.median(x for x, _ in pairs):.2f} | {statistics.median(y for _, y in pairs):.2f} | "
                 f"{statistics.median(gain):.2f} | {gain[0]:.2f} | {gain[-1]:.2f} |\n")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    text += f"\nPeak resident memory of the largest run (Fashion-MNIST in memory): {peak:.0f} MB.\n"
    publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
