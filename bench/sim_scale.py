#!/usr/bin/env python3
"""Time and memory of `troupe sim` by number of nodes.

usage: bench/sim_scale.py [--bin build/release/bin/troupe] [--nodes 100,300,1000,3000,10000] [--steps 5] [--runs 1] [--case NAME...]
                          [--out PAGE]

Simulates GoogLeNet in 4 buckets without maths, with reducers and modes whose messages grow with the number of nodes, and shows for each the time and
the peak memory of the whole process, the events, and the growth from one number of nodes to the next divided by the growth of the nodes: 1 is linear.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from environment import ROOT, publish

CASES = [
    ("bsp, tree", ["train.exchange.reducer=tree"]),
    ("bsp, one server", []),
    ("bsp, hierarchical to one server", ["train.exchange.reducer=hierarchical", "train.exchange.between=server"]),
    ("ssp, one server", ["train.sync.mode=ssp", "train.sync.staleness=2"]),
    ("easgd, one server", ["train.sync.mode=easgd", "train.sync.tau=2"]),
    ("downpour, one server", ["train.sync.mode=downpour", "topology.worker_groups=2"]),
]


def simulate(binary, nodes, steps, settings):
    words = [binary, "sim", os.path.join(ROOT, "configs/jobs/googlenet.toml"), "--nodes", str(nodes), "--maths", "none", "--buckets", "4", "--steps",
             str(steps), "--json"]
    for s in settings:
        words += ["--set", s]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.monotonic()
        child = subprocess.Popen(words, stdout=out, stderr=err)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.monotonic() - begin
        out.seek(0), err.seek(0)
        said, wrong = out.read().decode(), err.read().decode()
    if status != 0:
        sys.exit(f"{' '.join(words)}: {said[-1000:]}{wrong[-1000:]}")
    done = json.loads(said.splitlines()[-1])
    return {"nodes": nodes, "wall": wall, "cpu": used.ru_utime + used.ru_stime, "loop": done["seconds"], "memory": used.ru_maxrss / 1024,
            "events": done["events"], "trace": done["trace_sha256"]}


def measured(binary, nodes, steps, settings, runs):
    all_runs = sorted((simulate(binary, nodes, steps, settings) for _ in range(runs)), key=lambda r: r["cpu"])
    if len({r["trace"] for r in all_runs}) != 1:
        sys.exit("the same seed gave different traces")
    middle = all_runs[len(all_runs) // 2]
    return {**middle, "wall": statistics.median(r["wall"] for r in all_runs)}


def growth(row, before, key):
    """The growth of a figure divided by the growth of the nodes."""
    return f"{row[key] / before[key] / (row['nodes'] / before['nodes']):.2f}" if before else ""


def line(name, row, before):
    return (f"| {name} | {row['nodes']:,} | {row['wall']:.2f} | {row['cpu']:.2f} | {row['loop']:.2f} | {row['memory']:,.0f} | {row['events']:,} | "
            f"{growth(row, before, 'cpu')} | {growth(row, before, 'memory')} | {growth(row, before, 'events')} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--nodes", default="100,300,1000,3000,10000")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--runs", type=int, default=1)
    p.add_argument("--case", action="append", choices=[name for name, _ in CASES])
    p.add_argument("--out")
    a = p.parse_args()
    lines, largest, begin = [], None, os.getloadavg()[0]
    for name, settings in CASES:
        if a.case and name not in a.case:
            continue
        before = None
        for nodes in (int(n) for n in a.nodes.split(",")):
            row = measured(a.bin, nodes, a.steps, settings, a.runs)
            lines.append(line(name, row, before))
            print(lines[-1], flush=True)
            before = row
        if largest is None:
            largest = row
    if a.out:
        publish(TEXT.format(date=datetime.date.today(), lines="\n".join(lines), steps=a.steps, runs=a.runs, begin=begin, first=a.nodes.split(",")[0], **largest),
                a.out, a.bin)


TEXT = """# Simulations of up to 10,000 nodes, {date}

**Question.** How do time and memory of `troupe sim` grow with the number of nodes?
**Answer.** With the nodes: {nodes:,} nodes with a tree of reducers take {wall:.1f} s and {memory:,.0f} MB for {steps} steps.
**Command.** `bench/sim_scale.py --steps {steps} --runs {runs} --out PAGE`. Load average {begin:.1f} at the start: other
programs ran on the machine, so processor time counts and not wall time.

GoogLeNet in 4 buckets, `--maths none`, one worker a node, star with the default network, {steps} steps, median of {runs} runs. "Whole" and
"processor" are the time of the process; "loop" is the time of the events, without the preparation of the plan. The last three columns are the growth
of processor time, memory and events since the line above, divided by the growth of the nodes: 1 is linear.

| mode, reducer | nodes | whole, s | processor, s | loop, s | peak memory, MB | events | time | memory | events |
|---|---|---|---|---|---|---|---|---|---|
{lines}

**What it does not show.** Configurations whose messages grow with the square of the nodes: `sharded` and `ring` (a shard on every node exchanges with
every worker, or passes every node), and mode `gossip` (each worker notifies all others at the end). The simulator delivers each of these messages.
The queue holds at most 16,777,216 events at once; `troupe sim` ends with an error beyond that.
"""

if __name__ == "__main__":
    main()
