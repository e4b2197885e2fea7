#!/usr/bin/env python3
"""Troupe through its actors against tuned PyTorch on the same machine in one run: forward + backward + update, fp32.

usage: bench/compare.py [--bin build/release/bin/troupe] [--nets lenet,mlp,...] [--rounds 3] [--seconds 2] [--out FILE.md | --publish]

The peer is tuned PyTorch: the better of NCHW and channels-last, as many BLAS threads as torch threads, glibc's malloc kept from returning
memory to the kernel between steps. Both sides run with OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE as set and, where one
of them is set, unset, after a check of the products (bench/environment.py). The best time of each side counts; the ratio of both with the variables
as set is printed too. Both sides alternate, round after round; the output has medians over the rounds and their ratio. Troupe runs with packets =
threads = sub-solvers, and its time includes loading and everything the actors do.

--publish writes the page step_times of docs/measurements and draws the picture of README.md from it. The machine must be idle.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys
import time

import environment
from environment import HERE, PYTHON, ROOT
from step_page import LOOPS, MEASUREMENTS, PAGES, candidates, newest_page, page, row, verdict

NETS = {
    "lenet": ("LeNet b64", "lenet_fashion.toml"),
    "cifar10_full": ("CIFAR10-full b100", "cifar10_full.toml"),
    "mlp": ("MLP 784-1024-1024-10 b128", "mlp_fashion.toml"),
    "alexnet": ("AlexNet b32", "alexnet.toml", "data.batch=32"),
    "resnet20": ("ResNet-20 b128", "resnet20.toml"),
}
# With several threads AlexNet's linear layers, 59 of its 61 million weights, are split by feature between as many workers of the process, which
# compute the packets of a step as one (Krizhevsky 2014, scheme (a); docs/partitioning.md). So one core reads each weight once per step. With packets
# every core would read all weights, and their gradients would be summed.
SPLIT = {"alexnet": tuple(f"layer.{l}.{what}" for l in ("fc6", "fc7", "fc8") for what in ("partition=feature", "gather=true"))}
SLOW = ("alexnet", "resnet20")  # a few steps of these take as long as a hundred of others


def torch_ms(net, threads, layout, seconds, precision="fp32", kernel=None):
    r = subprocess.run([PYTHON, os.path.join(HERE, "torch_step.py"), net, str(threads), layout, str(seconds), precision],
                       env=environment.peer_env(threads, kernel), capture_output=True, text=True, check=True)
    return json.loads(r.stdout)["ms"]


def troupe_time(binary, job, threads, steps, settings, kernel=None):
    more = [word for s in settings for word in ("--set", s)]
    r = subprocess.run([binary, "time", os.path.join(ROOT, "configs/jobs", job), "--json", "--threads", str(threads), "--steps", str(steps),
                        "--set", f"pipeline.packets={threads}", "--set", f"pipeline.sub_solvers={threads}", *more],
                       env=environment.with_kernel(kernel) if kernel else None, capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(r.stdout + r.stderr)
    return next(e for e in map(json.loads, r.stdout.splitlines()) if e["event"] == "time")


def settings_of(net, threads):
    split = SPLIT.get(net, ()) if threads > 1 else ()
    return [*NETS[net][2:], *split, *([f"topology.workers_per_group={threads}"] if split else [])]


def torch_version():
    return subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()


def one_round(a, net, threads, times, kernels, ours):
    """Adds one time of each candidate to `times`: {(side, kernel's name, layout or loop): [ms]}"""
    by_name = {k.name: k for k in kernels}
    for key in candidates(times, by_name):
        times.setdefault(key, []).append(torch_ms(net, threads, key[2], a.seconds, kernel=by_name[key[1]]))
    for k in ours:
        t = troupe_time(a.bin, NETS[net][1], threads, min(a.steps, 5) if net in SLOW else a.steps, settings_of(net, threads), k)
        for loop in LOOPS:
            times.setdefault(("Troupe", k.name, loop), []).append(t[loop + "_ms"])


def measure(a, nets, kernels, ours, begin):
    """{(net, threads): times}: all nets in turn, round after round; and the number of rounds."""
    got, longest = {(net, threads): {} for net in nets for threads in (1, 2)}, 0.0
    for i in range(a.rounds):
        start = time.monotonic()
        if i > 0 and a.minutes and start - begin + longest > 60 * a.minutes:
            print(f"{i} of {a.rounds} rounds: another one would end after {a.minutes} minutes", flush=True)
            return got, i
        for (net, threads), times in got.items():
            one_round(a, net, threads, times, kernels, ours)
            print(f"round {i + 1}, {verdict(NETS[net][0], threads, row(times))}", flush=True)
        longest = max(longest, time.monotonic() - start)
    return got, a.rounds


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--nets", default=",".join(NETS))
    p.add_argument("--minutes", type=float, default=11.5, help="begin no round that would end later; 0: no limit")
    p.add_argument("--out")
    p.add_argument("--publish", action="store_true", help=f"to docs/measurements/{PAGES[0]}, and draw docs/step_times.svg")
    a = p.parse_args()
    begin, load, nets = time.monotonic(), os.getloadavg()[0], a.nets.split(",")
    reports = environment.peer_reports()
    kernels, ours = environment.sound(reports), environment.kernels_of_troupe(reports, a.bin)
    got, rounds = measure(a, nets, kernels, ours, begin)
    rows = {(NETS[net][0], threads): row(times) for (net, threads), times in got.items()}
    command = f"`bench/compare.py --nets {a.nets}`, {rounds} rounds of {a.seconds:g} s of PyTorch and {a.steps} steps of Troupe."
    text = page(rows, datetime.date.today(), environment.machine(), command, load, newest_page())
    out = os.path.join(MEASUREMENTS, PAGES[0]) if a.publish else a.out
    environment.publish(text, out, a.bin, kernels, ours)
    for (title, threads), r in rows.items():
        print(verdict(title, threads, r))
    print(f"{time.monotonic() - begin:.0f} s")
    if a.publish:
        subprocess.run([sys.executable, os.path.join(ROOT, "docs/house.py")], check=True)


if __name__ == "__main__":
    main()
