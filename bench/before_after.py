#!/usr/bin/env python3
"""Compares the step times of two builds of Troupe in one session.

usage: bench/before_after.py BEFORE [--bin build/release/bin/troupe] [--rounds 5] [--nets NAME,NAME...] [--out docs/measurements/FILE.md]

BEFORE is the `troupe` of another checkout. The two alternate, and every round begins with the other one. The result
is the median over the rounds of after / before, pair by pair, so that a drift of the machine's speed has no effect.
"""
import argparse
import datetime
import os
import statistics

from compare import NETS, SLOW, settings_of, troupe_time
from environment import ROOT, machine, publish


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("before")
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--nets", default=",".join(NETS))
    p.add_argument("--out")
    a = p.parse_args()
    lines, worst = [], 0
    for net in a.nets.split(","):
        title, job = NETS[net][:2]
        for threads in (1, 2):
            ms, ratios = {"before": [], "after": []}, []
            for k in range(3 if net in SLOW else a.rounds):
                order = [("before", a.before), ("after", a.bin)]
                for name, binary in order if k % 2 == 0 else reversed(order):
                    steps = min(a.steps, 12) if net in SLOW else a.steps
                    ms[name].append(troupe_time(binary, job, threads, steps, settings_of(net, threads))["actors_ms"])
                ratios.append(ms["after"][-1] / ms["before"][-1])
            ratio = statistics.median(ratios)
            worst = max(worst, ratio)
            lines.append(f"| {title} | {threads} | {statistics.median(ms['before']):.2f} | {statistics.median(ms['after']):.2f} | {ratio:.3f} | "
                         f"{min(ratios):.3f} to {max(ratios):.3f} |")
            print(lines[-1], flush=True)
    text = "\n".join([
        f"# Before and after, {datetime.date.today()}", "", "**Question.** Is a training step through the actors slower than it was?",
        f"**Answer.** In the slowest row a step takes {worst:.3f} times as long as before.", "",
        f"{machine()}. One run of `bench/before_after.py`; ms per step (forward, backward, update; fp32); medians.", "",
        "| net | threads | before | after | after / before | range of the rounds |", "|---|---|---|---|---|---|", *lines, ""])
    if a.out:
        publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
