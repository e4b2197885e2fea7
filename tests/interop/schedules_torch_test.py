#!/usr/bin/env python3
"""Compares every schedule with torch.optim.lr_scheduler over 60 steps: bare, with a warm-up and with a warm-up as a prefix.

usage: schedules_torch_test.py SCHEDULE_DUMP
With `prefix`, the peer is SequentialLR of LinearLR and the schedule. Without, it is the product of LinearLR's factor and the schedule's
rate at the same step, which is what torch's ChainedScheduler computes for schedules that multiply the rate.
Bound: relative difference 1e-12.
"""
import math
import subprocess
import sys
import warnings

import torch
from torch.optim import lr_scheduler as lrs

warnings.filterwarnings("ignore", category=UserWarning)  # of SequentialLR about the order of its own calls
BASE, FROM, WARM = 0.5, 0.1, 10


SCHEDULES = {
    "fixed": lambda opt: lrs.ConstantLR(opt, factor=1.0),
    "plateau": lambda opt: lrs.ConstantLR(opt, factor=1.0),  # without evaluations
    "step": lambda opt: lrs.StepLR(opt, 7, 0.5),
    "fixed_step": lambda opt: lrs.MultiStepLR(opt, [5, 20, 21], 0.3),
    "linear": lambda opt: lrs.LinearLR(opt, 1.0, 0.05 / BASE, 30),
    "exponential": lambda opt: lrs.ExponentialLR(opt, 0.9),
    "inverse": lambda opt: lrs.LambdaLR(opt, lambda t: (1 + 0.1 * t) ** -0.75),
    "inverse_t": lambda opt: lrs.LambdaLR(opt, lambda t: 1 / (1 + t / 12)),
    "poly": lambda opt: lrs.PolynomialLR(opt, 40, 2.0),
    "cosine": lambda opt: lrs.CosineAnnealingLR(opt, 40, 0.02),
    "cosine_restarts": lambda opt: lrs.CosineAnnealingWarmRestarts(opt, 6, 2, 0.02),
}


def optimizer():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=BASE)


def rates_of(opt, schedule, count):
    rates = []
    for _ in range(count):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    return rates


def bare(name, count):
    opt = optimizer()
    return rates_of(opt, SCHEDULES[name](opt), count)


def prefixed(name, count):
    opt = optimizer()
    warm = lrs.LinearLR(opt, FROM, 1.0, WARM)
    return rates_of(opt, lrs.SequentialLR(opt, [warm, SCHEDULES[name](opt)], [WARM]), count)


def chained(name, count):
    opt = optimizer()
    factor = [r / BASE for r in rates_of(opt, lrs.LinearLR(opt, FROM, 1.0, WARM), count)]
    return [a * b for a, b in zip(factor, bare(name, count))]


def main(binary):
    lines = [line.split() for line in subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()]
    exist, seen, worst = {l[0] for l in lines if l[1] == "exists"}, set(), 0.0
    for name, kind, *rest in (l for l in lines if l[1] != "exists"):
        seen.add(name)
        got = [float(v) for v in rest]
        # Torch's recursive cosine is exact only until it ends, at step 40 of the schedule.
        count = {"bare": 41, "warm": 41, "prefix": 41 + WARM}[kind] if name == "cosine" else len(got)
        want = {"bare": bare, "warm": chained, "prefix": prefixed}[kind](name, count)
        if name == "cosine":
            assert all(v == 0.02 for v in got[count:]), f"{name} {kind}: does not stay at its end"
        for t, (g, w) in enumerate(zip(got, want)):
            d = abs(g - w) / max(abs(w), 1e-12)
            worst = max(worst, d)
            if not d <= 1e-12:
                sys.exit(f"{name} {kind}: step {t} has rate {g!r}, torch {w!r}")
    if seen != exist or seen != set(SCHEDULES):
        sys.exit(f"schedules without a case: {sorted(exist ^ seen | seen ^ set(SCHEDULES))}")
    print(f"{len(seen)} schedules agree with torch {torch.__version__}, worst relative difference {worst:.1e}")


if __name__ == "__main__":
    main(sys.argv[1])
