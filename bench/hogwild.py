#!/usr/bin/env python3
"""Hogwild with two threads: is it as good as bsp, does it scale, and what does a relaxed addition cost?

usage: bench/hogwild.py [--bin build/release/bin] [--seeds 3] [--epochs 5] [--rounds 5] [--out docs/measurements/hogwild.md]

Accuracy: configs/jobs/lenet_modes.toml, two workers, bsp against hogwild with the settings that the file documents, alternating, seed by seed.
Scaling: time of 400 steps of the same work (batch 64, two packets) by one worker on one thread and by two on two, alternating; fuse and
all else are equal. Addition: bench_hogwild_add (ninja -C build/release bench_hogwild_add) adds 431,080 floats to shared memory with relaxed load and store
and with fetch_add.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess

from environment import ROOT, machine, publish

JOB = os.path.join(ROOT, "configs/jobs/lenet_modes.toml")
HOGWILD = ['train.sync={mode="hogwild"}', "train.dynamics.lr=0.01"]
TWO = "topology.workers_per_group=2"


def run(troupe, *sets, threads=2):
    words = [troupe, "train", JOB, "--json", "--threads", str(threads), "--checkpoint", os.devnull]
    for s in sets:
        words += ["--set", s]
    r = subprocess.run(words, capture_output=True, text=True)
    if r.returncode != 0:
        raise SystemExit(r.stdout[-500:] + r.stderr)
    return json.loads(r.stdout.splitlines()[-1])


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} | {min(values):.{digits}f} | {max(values):.{digits}f}"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--out")
    return p.parse_args()


def accuracies(a, troupe):
    """Test accuracies by mode, each by seed."""
    found = {"bsp": [], "hogwild": []}
    for seed in range(1, a.seeds + 1):
        common = [TWO, f"job.seed={seed}", f"train.finish={{epochs={a.epochs}}}"]
        found["bsp"].append(run(troupe, *common)["test_accuracy"])
        found["hogwild"].append(run(troupe, *common, *HOGWILD)["test_accuracy"])
    return found


def times(a, troupe):
    """Seconds of the same work by one worker and by two, alternating."""
    short = ["train.finish={steps=400}", 'eval.sampler={kind="sample",examples=64}', "pipeline.packets=2", *HOGWILD]
    one_s, two_s = [], []
    for _ in range(a.rounds):
        one_s.append(run(troupe, *short, "topology.workers_per_group=1", threads=1)["seconds"])
        two_s.append(run(troupe, *short, TWO, threads=2)["seconds"])
    return one_s, two_s


def page(a, load, accuracy, one_s, two_s, add):
    gap = 100 * (statistics.mean(accuracy["hogwild"]) - statistics.mean(accuracy["bsp"]))
    gain = [x / y for x, y in zip(one_s, two_s)]
    text = f"""# Hogwild, {datetime.date.today()}

**Question.** Is Hogwild with two threads as good as bsp, does it scale, and what does a relaxed addition cost against `fetch_add`?
**Answer.** {gap:+.2f} points of accuracy against bsp (mean of {a.seeds} seeds); {statistics.median(gain):.2f}x with two workers on two
cores; 431,080 parameters are added in {add['relaxed_ms']:.2f} ms relaxed, {add['fetch_add_ms']:.2f} ms with `fetch_add`.
**Command.** `bench/hogwild.py`. **Where.** {machine()}. Load average at the beginning: {load:.2f} (an idle machine has less than 0.5).

LeNet on Fashion-MNIST, {a.epochs} epochs, two workers, batch 64, test accuracy by seed:

| mode | {' | '.join(f'seed {s}' for s in range(1, a.seeds + 1))} | mean |
|---|{'---|' * a.seeds}---|
"""
    for mode, values in accuracy.items():
        text += f"| {mode} | {' | '.join(f'{v:.4f}' for v in values)} | {statistics.mean(values):.4f} |\n"
    text += f"""
400 steps of batch 64, seconds and gain; medians of {a.rounds} runs:

| | median | min | max |
|---|---|---|---|
| one worker, one thread | {spread(one_s, 2)} |
| two workers, two threads | {spread(two_s, 2)} |
| gain | {spread(gain, 2)} |

Adding 431,080 floats to shared memory, ms, one thread; medians of {add['rounds']} rounds:

| | median | min | max |
|---|---|---|---|
| relaxed load, add, store | {add['relaxed_ms']:.3f} | {add['relaxed_least_ms']:.3f} | {add['relaxed_most_ms']:.3f} |
| fetch_add | {add['fetch_add_ms']:.3f} | {add['fetch_add_least_ms']:.3f} | {add['fetch_add_most_ms']:.3f} |

**What it does not show.** More than two threads; sparse gradients, for which Hogwild was designed; several nodes.
"""
    return text


def main():
    a = arguments()
    troupe = os.path.join(a.bin, "troupe")
    load = os.getloadavg()[0]
    accuracy = accuracies(a, troupe)
    one_s, two_s = times(a, troupe)
    add = json.loads(subprocess.run([os.path.join(a.bin, "bench_hogwild_add")], capture_output=True, text=True, check=True).stdout)
    text = page(a, load, accuracy, one_s, two_s, add)
    publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
