#!/usr/bin/env python3
"""Time and memory of `troupe sim` by number of nodes.

usage: bench/sim_scale.py [--bin build/release/bin/troupe] [--nodes 100,300,1000,3000,10000] [--steps 5] [--runs 1] [--case NAME...]
                          [--out PAGE]
       bench/sim_scale.py --daemons N [--steps 1000] [--runs 3] [--out docs/measurements/sim_daemons.md]

Simulates GoogLeNet in 4 buckets without maths, with reducers and modes whose messages grow with the number of nodes, and shows for each the time and
the peak memory of the whole process, the events, and the growth from one number of nodes to the next divided by the growth of the nodes: 1 is linear.

--daemons simulates LeNet with a whole daemon on each node, a tree of reducers and one bucket: 20 failures an hour, and one node that is killed
after 10 s and back 10 s later.
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


FAULTS = [  # of daemons: name, faults file
    ("20 failures an hour",
     '[[fault]]\nkind = "kill"\nevery = {{ kind = "exponential", mean = "{mean}s" }}\nuntil = "1000h"\nrestart_after = "30s"\n'),
    ("a node dies and is back", '[[fault]]\nkind = "kill"\nnodes = [{node}]\nfrom = "10s"\nrestart_after = "10s"\n'),
]


def simulate(binary, nodes, steps, settings):
    words = [binary, "sim", os.path.join(ROOT, "configs/jobs/googlenet.toml"), "--nodes", str(nodes), "--maths", "none", "--buckets", "4", "--steps",
             str(steps), "--json"]
    for s in settings:
        words += ["--set", s]
    return run(words)


def simulate_daemons(binary, nodes, steps, faults):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as f:
        f.write(faults.format(mean=180 * nodes, node=nodes // 2))
        f.flush()
        return run([binary, "sim", os.path.join(ROOT, "configs/jobs/lenet_fashion.toml"), "--nodes", str(nodes), "--maths", "none", "--buckets", "1",
                    "--steps", str(steps), "--json", "--set", f"data.batch={4 * nodes}", "--set", "train.exchange.reducer=tree", "--faults", f.name])


def run(words):
    nodes = int(words[words.index("--nodes") + 1])
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
            "events": done["events"], "trace": done.get("trace_sha256", done["virtual_seconds"]), "recoveries": done.get("recoveries", 0)}


def measured(binary, nodes, steps, settings, runs, how=simulate):
    all_runs = sorted((how(binary, nodes, steps, settings) for _ in range(runs)), key=lambda r: r["cpu"])
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
    p.add_argument("--steps", type=int, help="default: 5; with --daemons 1000")
    p.add_argument("--runs", type=int, default=1)
    p.add_argument("--case", action="append", choices=[name for name, _ in CASES])
    p.add_argument("--daemons", type=int)
    p.add_argument("--out")
    a = p.parse_args()
    if a.daemons:
        return main_daemons(a)
    a.steps = a.steps or 5
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


def main_daemons(a):
    rows, steps = [], a.steps or 1000
    for name, faults in FAULTS:
        r = measured(a.bin, a.daemons, steps, faults, a.runs, simulate_daemons)
        rows.append(f"| {name} | {r['recoveries']} | {r['wall']:.1f} | {r['loop']:.1f} | {r['events']:,} | {r['events'] / r['loop']:,.0f} | "
                    f"{r['memory']:,.0f} |")
        print(rows[-1], flush=True)
    if a.out:
        publish(DAEMONS.format(date=datetime.date.today(), nodes=a.daemons, steps=steps, runs=a.runs, lines="\n".join(rows)), a.out, a.bin)


DAEMONS = """# {nodes:,} simulated daemons, {date}

**Question.** How long does `troupe sim` take for {steps:,} steps of LeNet on {nodes:,} daemons that fail?
**Command.** `bench/sim_scale.py --daemons {nodes} --steps {steps} --runs {runs} --out PAGE`, one core; median of {runs} runs.

No maths, one bucket, a tree of reducers, {nodes:,} workers.

| faults | recoveries | whole, s | loop, s | events | events a second | peak memory, MB |
|---|---|---|---|---|---|---|
{lines}

Before the first step each daemon connects with each other one. A recovery makes a plan for all nodes, and the return of the node another one.
"""

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
