#!/usr/bin/env python3
"""Pipelines in the simulator: utilisation of the stages, effect of a slow stage, and saturation of multi-node Caffe's FC node.

usage: bench/pipeline.py [--bin build/release/bin/troupe] [--out docs/measurements/pipeline.md]

Virtual time: the numbers do not depend on this machine. Everything is taken from traces (`troupe sim --trace`), between the first and the
last fifth of the steps: a node is busy while a task of any kind runs on its core.
1. Four equal stages on four nodes (configs/sim/pipeline_*.toml). Fails if the slowest stage is busy for less than 0.9 of the time with
   `stash` and 8 packets in flight, or with `drain` and 32.
2. The same with steps of other sizes, and with one stage ten times as slow.
3. AlexNet, N nodes for the convolutions, one for fc6 to the loss, one parameter server (BVLC/caffe#3441).
"""
import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile

from environment import ROOT, publish


class run:
    """One simulation: seconds per step, and the busy share of each node."""

    def __init__(self, binary, scenario, steps, sets=()):
        words = [binary, "sim", scenario, "--json", "--steps", str(steps)]
        for s in sets:
            words += ["--set", s]
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace.json")
            r = subprocess.run([*words, "--trace", trace], capture_output=True, text=True)
            if r.returncode != 0:
                sys.exit(r.stdout[-2000:] + r.stderr)
            events = [json.loads(line) for line in r.stdout.splitlines()]
            with open(trace) as f:
                spans = json.load(f)["traceEvents"]
        ends = [e["virtual_seconds"] for e in events if e["event"] == "step"]
        n = len(ends)
        skip = max(1, n // 5)
        begin, end = ends[skip - 1], ends[n - skip - 1]
        self.step = (end - begin) / (n - 2 * skip)
        self.names = {s["pid"]: s["args"]["name"] for s in spans if s["ph"] == "M" and s["name"] == "process_name"}
        self.busy = {name: 0.0 for name in self.names.values()}
        for s in spans:
            if s["ph"] != "X":
                continue
            at, last = s["ts"] * 1e-6, (s["ts"] + s["dur"]) * 1e-6
            self.busy[self.names[s["pid"]]] += max(0.0, min(last, end) - max(at, begin)) / (end - begin)
        self.batch = next(e["batch"] for e in events if e["event"] == "done")

    @property
    def slowest(self):
        return max(self.busy.values())


def config(name):
    return os.path.join(ROOT, "configs/sim", name)


def percent(x):
    return f"{100 * x:.1f} %"


def chain(binary, out):
    out.append("## Four equal stages on four nodes\n")
    out.append("A fully connected layer of 512 x 512 on each node, packets of 256 examples, 100 GFLOP/s, one core, 10 Gbit/s. "
               "1 / (slowest stage) is 100 % of the busiest node's time: forward, backward, sums and updates; the bubble is the rest.\n")
    out.append("| weights | packets a step | in flight | step | busiest stage busy | bubble | least busy stage |")
    out.append("|---|---|---|---|---|---|---|")
    failed, got = [], []

    def row(scenario, rule, packets, sub_solvers, required):
        sets = [f"pipeline.weights={rule}", f"pipeline.packets={packets}", f"pipeline.sub_solvers={sub_solvers}",
                f"data.batch={256 * packets}"]
        r = run(binary, config(scenario), max(25, 400 // packets), sets)
        warm_up = 0 if rule == "drain" else -(-3 // packets)
        flight = min(sub_solvers * (warm_up + 1), packets * (warm_up + 1))
        out.append(f"| {rule} | {packets} | {flight} | {1000 * r.step:.2f} ms | {percent(r.slowest)} | {percent(max(0.0, 1 - r.slowest))} | "
                   f"{percent(min(r.busy.values()))} |")
        got.append(r.slowest)
        if required and r.slowest < required:
            failed.append(f"{rule}, {packets} packets: {r.slowest:.3f} < {required}")

    row("pipeline_stash.toml", "stash", 8, 4, 0.9)
    row("pipeline_drain.toml", "drain", 32, 32, 0.9)
    for rule, packets, sub_solvers in [("stash", 1, 1), ("stash", 2, 2), ("stash", 4, 4), ("stash", 16, 4), ("latest", 8, 4),
                                       ("drain", 8, 8), ("drain", 4, 4)]:
        row("pipeline_stash.toml", rule, packets, sub_solvers, 0)
    slow = run(binary, config("pipeline_slow.toml"), 25)
    out.append("")
    out.append(f"The third stage ten times as slow (`pipeline_slow.toml`): it is busy for {percent(slow.busy['n3'])} of the time, the "
               f"others for {percent(max(v for k, v in slow.busy.items() if k != 'n3'))} at most. No queue exceeds its credit and "
               "memory stays flat: `weight_rules.a_slow_stage_*` in tests/sim.\n")
    return failed, got[0], got[1]


def alexnet_job(folder):
    """The job file of AlexNet with all layers from fc6 on at their own node."""
    found = [p for p in (os.path.join(ROOT, "configs/jobs/alexnet.toml"), config("alexnet.toml")) if os.path.exists(p)]
    with open(found[0]) as f:
        text = f.read()
    placed = text.replace('name = "fc6"\n', 'name = "fc6"\npartition = "none"\nplace = "fc"\n')
    assert placed != text
    path = os.path.join(folder, "alexnet_fc.toml")
    with open(path, "w") as f:
        f.write(placed)
    return path


def alexnet(binary, folder, conv, rule, speed):
    scenario = os.path.join(folder, "scenario.toml")
    sets = [f"data.batch={256 * conv}", f"pipeline.packets={conv}", f"pipeline.weights={rule}", "pipeline.fuse=auto",
            "topology.colocated=false"]
    with open(scenario, "w") as f:
        f.write(f"""[run]
job = "{alexnet_job(folder)}"
nodes = {conv}
maths = "none"
set = {json.dumps(sets)}
[network]
fabric = "star"
bandwidth = "1.25GB/s"
latency = "10us"
[compute]
flops_per_second = 1e12
bytes_per_second = "50GB/s"
cores = 1
[[compute.slow]]
node = {conv + 2}
factor = {1 / speed}
""")
    return run(binary, scenario, 20)


def fc_node(binary, out):
    out.append("## One FC node for many conv nodes (PR 3441)\n")
    out.append("AlexNet, sub-batch 256 on every conv node, which is one packet; fc6, fc7, fc8 and the loss on one node; convolutions' weights "
               "on a parameter server of its own. Nodes of 1 TFLOP/s and 10 Gbit/s: an assumption. 92 % of AlexNet's arithmetic is convolution "
               "(1.33 of 1.45 GFLOP forward an example), so an FC node balances 11 conv nodes that are as fast as it is, and 19 when it is 1.7 "
               "times as fast; both are simulated. Large matrix products do come closer to a machine's peak than convolutions.\n")
    counts = [1, 2, 4, 8, 10, 11, 12, 16, 19, 22, 26, 32]
    saturated = {}
    with tempfile.TemporaryDirectory() as folder:
        for rule, speed in [("stash", 1.0), ("stash", 1.7), ("drain", 1.0), ("drain", 1.7)]:
            out.append(f"### weights = \"{rule}\", FC node {speed:g} times as fast as a conv node\n")
            out.append("| conv nodes | examples/s | of N x one | FC node busy | conv nodes busy |")
            out.append("|---|---|---|---|---|")
            one, best, rows = 0.0, 0.0, []
            for n in counts:
                r = alexnet(binary, folder, n, rule, speed)
                rate = r.batch / r.step
                one = one or rate
                rows.append((n, rate))
                best = max(best, rate)
                conv = sum(r.busy[f"n{k + 1}"] for k in range(n)) / n
                out.append(f"| {n} | {rate:.0f} | {percent(rate / (n * one))} | {percent(r.busy['fc'])} | {percent(conv)} |")
            full = next(n for n, rate in rows if rate >= 0.95 * best)
            if rule == "stash":
                saturated[speed] = full
            out.append("")
            most = f"95 % of the maximum ({best:.0f} examples/s)"
            if full == counts[-1]:
                out.append(f"No saturation up to {full} conv nodes: {most} only then. With `drain` the FC node waits for convolutions and "
                           "they for it, in turns.\n")
            else:
                out.append(f"{most} is reached with {full} conv nodes: then the FC node is saturated.\n")
    return saturated


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--out", default=os.path.join(ROOT, "docs/measurements/pipeline.md"))
    a = p.parse_args()
    body = []
    failed, stash, drain = chain(a.bin, body)
    full = fc_node(a.bin, body)
    out = ["# Pipelines, simulated\n",
           "How busy does a pipeline keep its stages, and how many conv nodes can one FC node serve? Four equal stages are busy for "
           f"{percent(stash)} of the time with `stash` and 8 packets in flight, for {percent(drain)} with `drain` and 32; AlexNet's FC node "
           f"is saturated at {full[1.0]} conv nodes as fast as itself, at {full[1.7]} when it is 1.7 times as fast.\n",
           f"`bench/pipeline.py`, {datetime.date.today()}. Virtual time and no maths: the same on every machine, once per row (the same seed "
           "gives the same run).\n",
           *body,
           "## What it does not show\n",
           "Real nodes: speeds are the same for all layers and constant, links are shared first come, first served, and a message costs no "
           "processor time. A stage starts tasks in order of arrival; backward has no priority over forward. Priority was tried (no forward "
           "begins while two, or one, of the stage's tasks wait or run): 4 packets a step went from 87.2 to 88.9 % (87.9 %), `drain` with 32 from 90.9 to "
           "90.6 %, the others did not change, and it was left out. 4 packets are limited by the warm-up in whole steps: versions are of steps, so the first stage may "
           "begin step t + 1 only when all of step t - 1 has come back, and then has 4 packets in flight, not 8.\n"]
    text = "\n".join(out).rstrip() + "\n"
    publish(text, a.out, a.bin)
    for line in failed:
        print("FAILED:", line)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
