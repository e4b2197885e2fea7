#!/usr/bin/env python3
"""Two cores against one: a training step through the actors with one thread and with two, alternating, pair by pair.

usage: bench/two_cores.py [--bin build/release/bin/troupe] [--nets alexnet,cifar10_full] [--rounds 5]

bench/compare.py measures one thread first and two threads minutes later; changes of the machine in between change their ratio by several per cent.
Here the two follow each other within a minute, and the median of the pairs' ratios counts.
"""
import argparse
import os
import statistics

from compare import NETS, SLOW, settings_of, troupe_time
from environment import ROOT, machine


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--nets", default="alexnet,cifar10_full")
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    print(f"{machine()}. ms a step, through the actors.\n\n| net | one thread | two threads | ratio of each pair | median |\n|---|---|---|---|---|")
    for net in a.nets.split(","):
        pairs = []
        for _ in range(a.rounds):
            pairs.append([troupe_time(a.bin, NETS[net][1], threads, 20 if net in SLOW else 150, settings_of(net, threads))["actors_ms"]
                          for threads in (1, 2)])
        ratios = [one / two for one, two in pairs]
        one, two = (statistics.median(x) for x in zip(*pairs))
        print(f"| {NETS[net][0]} | {one:.1f} | {two:.1f} | {', '.join(f'{r:.2f}' for r in ratios)} | {statistics.median(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    main()
