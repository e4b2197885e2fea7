#!/usr/bin/env python3
"""Time of a job's step by kind of layer: of one build of Troupe, or of two alternating (before and after a change), on one machine in one run.

usage: bench/layers.py configs/jobs/resnet20.toml [--bin build/release/bin/troupe] [--against OTHER] [--threads 1] [--steps 6] [--rounds 3]
                       [--set KEY=VALUE ...] [--each]

Times are those of `troupe time` (its plain loop, one thread), ms per step: for every layer the minimum of the rounds, since other work on the
machine only adds time; layers that a build computes as one ("bn1+relu1") count as the first of them. --each lists single layers too.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def kinds_of(job):
    """Layer name -> type, from the job's file."""
    text = open(job).read()
    return dict(re.findall(r'\[\[layer\]\]\s*name = "([^"]+)"\s*type = "([^"]+)"', text))


def time_of(binary, job, a):
    more = [word for s in a.set for word in ("--set", s)]
    r = subprocess.run([binary, "time", job, "--json", "--threads", str(a.threads), "--steps", str(a.steps),
                        "--set", f"pipeline.packets={a.threads}", "--set", f"pipeline.sub_solvers={a.threads}", *more],
                       capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(r.stdout + r.stderr)
    return next(e for e in map(json.loads, r.stdout.splitlines()) if e["event"] == "time")


class build:
    def __init__(self, binary):
        self.binary, self.layers, self.whole = binary, {}, {}

    def add(self, t):
        for l in t["layers"]:
            old = self.layers.get(l["name"], (1e9, 1e9))
            self.layers[l["name"]] = (min(old[0], l["forward_ms"]), min(old[1], l["backward_ms"]))
        for key in ("plain_ms", "actors_ms"):
            self.whole[key] = min(self.whole.get(key, 1e9), t[key])

    def by_kind(self, kinds):
        sums = collections.defaultdict(lambda: [0.0, 0.0])
        for name, (forward, backward) in self.layers.items():
            sums[kinds.get(name.split("+")[0], "?")][0] += forward
            sums[kinds.get(name.split("+")[0], "?")][1] += backward
        return sums


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("job")
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--against")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--set", action="append", default=[])
    p.add_argument("--each", action="store_true")
    a = p.parse_args()
    builds = [build(b) for b in ([a.against] if a.against else []) + [a.bin]]
    for _ in range(a.rounds):
        for b in builds:
            b.add(time_of(b.binary, a.job, a))
    kinds = kinds_of(a.job)
    head = " | ".join(f"{'before' if a.against and b is builds[0] else 'now'}: forward | backward" for b in builds)
    print(f"| kind of layer | {head} |\n|---|{'---|---|' * len(builds)}")
    sums = [b.by_kind(kinds) for b in builds]
    for kind in sorted(set().union(*sums), key=lambda k: -sum(sums[0][k])):
        print(f"| {kind} | " + " | ".join(f"{s[kind][0]:.2f} | {s[kind][1]:.2f}" for s in sums) + " |")
    for key, what in (("plain_ms", "a step, plain loop"), ("actors_ms", "a step, actors")):
        print(f"| {what} | " + " | ".join(f"{b.whole[key]:.1f} | " for b in builds) + " |")
    if a.each:
        for b in builds:
            print(f"\n{b.binary}\n")
            for name, (forward, backward) in b.layers.items():
                print(f"| {name} | {forward:.3f} | {backward:.3f} |")


if __name__ == "__main__":
    main()
