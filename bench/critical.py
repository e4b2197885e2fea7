#!/usr/bin/env python3
"""Does `troupe critical` name a planted cause, and is its prediction right? On four daemons on this machine.

usage: bench/critical.py [--bin build/release/bin] [--rounds 3] [--steps 120] [--out FILE]

One part of one node takes 80 ms more in every step: the backward pass of a layer, the loader, the shard, or the node's connections (`inject
delay`, 40 ms a message). A run is traced, and `troupe critical` says which part bounds the step, and how long a step would take if it were
twice as fast. Then the same job runs with half of the planted time, and its steps are measured. Needs the plugin bench/planted.cpp:
ninja -C build/release bench_planted
"""
import argparse
import datetime
import json
import os
import random
import statistics
import subprocess
import tempfile
import time

from environment import ROOT, machine, publish
from stragglers import PART, cluster, events

NODES = 4
MS = {"layer": 80, "source": 80, "rule": 80, "link": 40}
FIRST = 20  # steps before this one are not measured


def step_ms(child):
    """Milliseconds of a step, from the times at which they are reported."""
    times = []
    for e in events(child):
        if e["event"] == "step" and e["step"] >= FIRST:
            times.append(time.time())
        elif e["event"] == "error":
            raise RuntimeError(e)
    child.wait()
    return 1e3 * (times[-1] - times[0]) / (len(times) - 1)


def run(c, part, node, ms, steps, more=()):
    seconds = 5 + int(steps * 0.3)
    began = time.time()
    c.plant(part, node, ms, seconds)
    time.sleep(3 if part == "link" else 0)  # until the delay has begun
    took = step_ms(c.train(steps, more))
    c.heal(part, node, max(0, seconds + 1 - (time.time() - began)))
    return took


def is_right(name, part, node):
    """Whether this candidate of `critical` is the planted part, or the group of all roles of its kind."""
    return name in {"layer": (f"worker{node - 1}/slow", f"worker{node - 1}/ip1+slow", f"worker{node - 1}"),
                    "source": (f"worker{node - 1}/loader", f"worker{node - 1}"), "rule": (f"shard{node - 1}",), "link": (f"links of n{node}",)}[part]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=120)
    p.add_argument("--out")
    a = p.parse_args()
    draw = random.Random(1)
    rows, right, errors = [], 0, []
    with tempfile.TemporaryDirectory() as folder:
        c = cluster(a.bin, folder, NODES)
        trace = os.path.join(folder, "trace.pftrace")
        try:
            for _ in range(a.rounds):
                for part in PART:
                    node = draw.randrange(2, NODES + 1)
                    full = run(c, part, node, MS[part], a.steps, ["--trace", trace])
                    said = subprocess.run([c.program("troupe"), "critical", trace, "--json"], stdout=subprocess.PIPE, text=True, check=True)
                    causes = json.loads(said.stdout)["causes"]
                    bound = causes[0]
                    half = run(c, part, node, MS[part] // 2, a.steps)
                    good = is_right(bound["name"], part, node)
                    right += good
                    errors.append(1e3 * bound["halved_step_seconds"] / half - 1)
                    rows.append(f"| {PART[part]} of n{node} | {full:.1f} | {bound['name']} | {1e3 * bound['halved_step_seconds']:.1f} | {half:.1f} | {100 * errors[-1]:+.1f} % |")
                    print(rows[-1], flush=True)
        finally:
            c.end()
    text = [f"# Does `troupe critical` find what bounds a step? {datetime.date.today()}", "",
            "**Question.** One part of one of four nodes is slow. Does `critical` name it from a trace, and is its prediction of a step right, with "
            "that part twice as fast?", "",
            f"**Answer.** {right} of {len(rows)} were named. Predictions differ from the run with half of the planted time by "
            f"{100 * statistics.median(abs(e) for e in errors):.1f} % (median; at most {100 * max(abs(e) for e in errors):.1f} %).", "",
            f"**Command.** `bench/critical.py --rounds {a.rounds} --steps {a.steps}`. **Where.** {machine()}.", "",
            "| slow part | step, ms | named | predicted, ms | measured with half, ms | difference |", "|---|---|---|---|---|---|", *rows, "",
            "**What it does not show.** The planted time is a sleep: a part that computes competes with the others for memory and clock. "
            "Causes that take less than the rest of a step were not planted."]
    text = "\n".join(text) + "\n"
    print(text)
    if a.out:
        publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
