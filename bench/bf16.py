#!/usr/bin/env python3
"""AlexNet with `precision = "bf16"` through Troupe's actors, against Troupe in fp32, PyTorch in fp32, and PyTorch with bf16 autocast.

usage: bench/bf16.py [--bin build/release/bin/troupe] [--rounds 5] [--seconds 6] [--steps 10] [--nets alexnet] [--out docs/measurements/bf16.md]

As in bench/compare.py: forward + backward + update, both sides alternating, medians and ratios of one run; for PyTorch the better of NCHW
and channels-last. PyTorch's autocast keeps weights and their gradients in fp32 and computes products in bf16, as Troupe does.
"""
import argparse
import datetime
import os
import statistics

from compare import NETS, settings_of, torch_ms, torch_version, troupe_time
from environment import ROOT, machine, publish

LAYOUTS = ("nchw", "channels_last")


def measure(binary, net, threads, rounds, seconds, steps):
    """Times by candidate, ms: {"torch fp32 nchw": [...], ..., "fp32": [...], "bf16": [...]}"""
    job = NETS[net][1]
    got = {}
    for _ in range(rounds):
        for precision in ("fp32", "bf16"):
            for layout in LAYOUTS:
                got.setdefault(f"torch {precision} {layout}", []).append(torch_ms(net, threads, layout, seconds, precision))
            t = troupe_time(binary, job, threads, steps, [*settings_of(net, threads), f"job.precision={precision}"])
            got.setdefault(precision, []).append(t["actors_ms"])
    return got


def told(times):
    return f"{statistics.median(times):.0f} ({min(times):.0f} to {max(times):.0f})"


def page(a, rows):
    first = rows[0]
    lines = [f"# bf16 against fp32, {datetime.date.today()}", "",
             "**Question.** What does `precision = \"bf16\"` gain on AlexNet (batch 32), compared with PyTorch in fp32 and with bf16 autocast?",
             f"**Answer.** With one thread a step through the actors takes {first['ours']:.2f} of the time of Troupe's own in fp32; it is "
             f"{first['fp32']:.2f} times as fast as PyTorch in fp32, and {first['bf16']:.2f} times as fast as PyTorch with bf16 autocast.", "",
             "**Command.** `python3 bench/bf16.py --out docs/measurements/bf16.md`", "",
             f"**Where.** {machine()}; PyTorch {torch_version()}, BLAS threads as torch threads, malloc kept from returning memory. ms per step "
             f"(forward, backward, update): medians of {a.rounds} rounds in which the candidates take turns, with the smallest and the largest. For "
             "PyTorch the better of NCHW and channels-last.", "",
             "| net | threads | torch fp32 | torch bf16 | Troupe fp32 | Troupe bf16 | torch fp32 / Troupe bf16 | torch bf16 / Troupe bf16 | "
             "Troupe fp32 / bf16 |", "|---|---|---|---|---|---|---|---|---|"]
    lines += [r["line"] for r in rows]
    return "\n".join(lines) + """

Tests check the results: `tests/ops/bf16_test.cpp`, `check_layer`, and the losses in
`tests/actors/embedded_same_bits_test.cpp` ([precision.md](../precision.md)).

**What it does not show.** How well a net learns in bf16 over many epochs; more than two threads, other nets and machines (without AMX there is
little to gain but memory). Troupe's time includes loading and everything its actors do; PyTorch's step works on one batch that stays in memory.
PyTorch's autocast keeps normalisation and pooling in the type of their input, and casts the weights again in every step.
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=6, help="seconds of PyTorch per candidate and round")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--threads", default="1,2")
    p.add_argument("--nets", default="alexnet")
    p.add_argument("--out")
    a = p.parse_args()
    rows = []
    for net in a.nets.split(","):
        for threads in map(int, a.threads.split(",")):
            got = measure(a.bin, net, threads, a.rounds, a.seconds, a.steps)
            best = {p: min((got[f"torch {p} {layout}"] for layout in LAYOUTS), key=statistics.median) for p in ("fp32", "bf16")}
            m = statistics.median
            ours = m(got["bf16"])
            rows.append({"ours": ours / m(got["fp32"]), "fp32": m(best["fp32"]) / ours, "bf16": m(best["bf16"]) / ours})
            rows[-1]["line"] = (f"| {NETS[net][0]} | {threads} | {told(best['fp32'])} | {told(best['bf16'])} | {told(got['fp32'])} | "
                                f"{told(got['bf16'])} | {rows[-1]['fp32']:.2f} | {rows[-1]['bf16']:.2f} | {m(got['fp32']) / ours:.2f} |")
            print(rows[-1]["line"], flush=True)
    publish(page(a, rows), a.out, a.bin)


if __name__ == "__main__":
    main()
