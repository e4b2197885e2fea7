#!/usr/bin/env python3
"""Cost of readiness for node failures when nothing fails: the same job on two daemons with and without it, alternating on one machine.

usage: bench/failure_cost.py [--bin build/release/bin] [--rounds 5] [--job configs/jobs/lenet_fashion.toml] [--steps 400] [--set KEY=VALUE]... [--out FILE]

  none       job.max_failures = 0: the first node failure ends the job, and shards keep nothing for recovery
  ready      the default: shards keep the previous version, with the states of the rule
  kept       the same, and a checkpoint once per minute at the pace of `none`
  often      the same, and a checkpoint every 20 steps: the difference per checkpoint is how long training stops for one
  replicas   ready, with topology.replicas = 2: every update is copied to the other node before workers receive it

Seconds per step over the whole job; medians, and ratios to `none` of the same round.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import tempfile

from environment import ROOT, machine, record
from lost_worker import free_ports


OFTEN = 20


def run(binaries, job, steps, words):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "cluster.toml")
        with open(file, "w") as f:
            f.write('[cluster]\nname = "bench"\n[cluster.tls]\ndir = "certs"\n')
            for i, port in enumerate(free_ports(2)):
                roles = '"coordinator", "worker", "server", "data"' if i == 0 else '"worker", "server", "data"'
                f.write(f'[[node]]\nname = "n{i + 1}"\naddress = "127.0.0.1:{port}"\nroles = [{roles}]\n')
        subprocess.run([os.path.join(binaries, "troupe"), "init-cluster", "--cluster", file], check=True, stdout=subprocess.DEVNULL)
        daemons = [subprocess.Popen([os.path.join(binaries, "trouped"), "--cluster", file, "--node", f"n{i + 1}"],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for i in range(2)]
        try:
            for d in daemons:
                d.stdout.readline()
            base = ["topology.workers_per_group=2", "topology.servers_per_group=2", f"train.finish.steps={steps}",
                    "train.finish.epochs=1000", "eval.every=0"]
            out = subprocess.run([os.path.join(binaries, "troupe"), "train", job, "--cluster", file, "--json",
                                  *(w for s in base + words for w in ("--set", s))], stdout=subprocess.PIPE, text=True)
            events = [json.loads(line) for line in out.stdout.splitlines()]
            if events[-1]["event"] != "done":
                raise RuntimeError(out.stdout.splitlines()[-1])
            return events[-1]["seconds"] / steps
        finally:
            for d in daemons:
                d.kill()
                d.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--job", default=os.path.join(ROOT, "configs/jobs/lenet_fashion.toml"))
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--set", action="append", default=[])
    p.add_argument("--out")
    a = p.parse_args()
    pace = run(a.bin, a.job, a.steps, a.set + ["job.max_failures=0"])
    every = max(1, round(60 / pace))
    kinds = {"none": ["job.max_failures=0"], "ready": [], "kept": [f"checkpoint.every={min(every, a.steps)}"],
             "often": [f"checkpoint.every={OFTEN}"], "replicas": ["topology.replicas=2"]}
    times = {k: [] for k in kinds}
    for _ in range(a.rounds):
        for kind, words in kinds.items():
            times[kind].append(run(a.bin, a.job, a.steps, a.set + words))
    text = [f"# What readiness for losses costs when nothing fails, {datetime.date.today()}", "",
            f"**Command.** `bench/failure_cost.py --job {os.path.relpath(a.job, ROOT)} --steps {a.steps} --rounds {a.rounds}`. "
            f"**Where.** {machine()}. Two daemons, a worker and a shard each; in turn.", "",
            "| | ms a step | to `none`, median | min | max |", "|---|---|---|---|---|"]
    for kind, list_ in times.items():
        ratios = [x / n for x, n in zip(list_, times["none"])]
        text.append(f"| {kind} | {statistics.median(list_) * 1000:.2f} | {statistics.median(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} |")
    stands = [(x - r) * OFTEN * 1000 for x, r in zip(times["often"], times["ready"])]
    text += ["", f"Training stops {statistics.median(stands):.1f} ms for a checkpoint (median; min {min(stands):.1f}, max {max(stands):.1f}), "
             "including the CPU time that writing the file takes."]
    text = "\n".join(text) + "\n"
    print(text)
    if a.out:
        with open(a.out, "a") as f:
            f.write(text + "\n" + record(a.bin) + "\n")


if __name__ == "__main__":
    main()
