#!/usr/bin/env python3
"""Plants 200 ms in one part of a job on eight daemons, and looks whether the job's alerts name that part.

usage: bench/stragglers.py [--bin build/release/bin] [--rounds 3] [--undisturbed 10000] [--out FILE]

Eight daemons on this machine, each with a worker, its loader and a shard, train a small network. In each round a part of one node is slow
from some step on: the backward pass of a layer, the loader, the shard, or the node's connections (`inject delay`). Printed are the slow steps
until the alert and what it says. Then --undisturbed steps without a slow part: no alert should come. Needs the plugin bench/planted.cpp:
ninja -C build/release bench_planted
"""
import argparse
import datetime
import hashlib
import json
import os
import random
import subprocess
import tempfile
import time

from environment import ROOT, machine, publish
from lost_worker import free_ports

NODES = 8
DELAY_S = 30  # an injected delay ends by itself
PART = {"layer": "the backward pass of a layer", "source": "a loader", "rule": "a shard", "link": "a node's connections"}
JOB = """
plugins = ["{plugin}"]
[job]
name = "stragglers"
[data]
source = "planted"
shape = [64]
classes = 4
examples = 4096
test_examples = 64
batch = 64
[[layer]]
name = "ip1"
type = "linear"
inputs = ["data"]
outputs = 64
[[layer]]
name = "slow"
type = "planted"
inputs = ["ip1"]
[[layer]]
name = "ip2"
type = "linear"
inputs = ["slow"]
outputs = 4
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip2", "label"]
[train]
dynamics = {{ rule = "planted", lr = 0.001 }}
sync = {{ mode = "bsp" }}
finish = {{ steps = {steps} }}
[topology]
workers_per_group = {nodes}
servers_per_group = {nodes}
max_block = 2048
[pipeline]
packets = {nodes}
sub_solvers = 1
[eval]
every = 0
"""


class cluster:
    def __init__(self, binaries, folder, nodes=NODES):
        self.binaries, self.folder, self.nodes = binaries, folder, nodes
        self.file = os.path.join(folder, "cluster.toml")
        self.plugin = os.path.join(os.path.dirname(os.path.abspath(binaries)), "lib/plugins/libbench_planted.so")
        with open(self.plugin, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        with open(self.file, "w") as f:
            f.write(f'plugins = "{self.plugin}#sha256={digest}"\n[cluster]\nname = "bench"\ninject = true\n[cluster.tls]\ndir = "certs"\n')
            for i, port in enumerate(free_ports(nodes)):
                roles = '"coordinator", "worker", "server", "data"' if i == 0 else '"worker", "server"'
                f.write(f'[[node]]\nname = "n{i + 1}"\naddress = "127.0.0.1:{port}"\nroles = [{roles}]\n')
        subprocess.run([self.program("troupe"), "init-cluster", "--cluster", self.file], check=True, stdout=subprocess.DEVNULL)
        self.daemons = []
        for i in range(1, nodes + 1):
            os.mkdir(self.planted(i))
            self.daemons.append(subprocess.Popen(
                [self.program("trouped"), "--cluster", self.file, "--node", f"n{i}", "--state", os.path.join(folder, f"state{i}")],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ, TROUPE_PLANTED=self.planted(i))))
        for d in self.daemons:
            if not d.stdout.readline():
                raise RuntimeError("a daemon did not start")

    def program(self, name):
        return os.path.join(self.binaries, name)

    def planted(self, node):
        return os.path.join(self.folder, f"planted{node}")

    def steer(self, command):
        return subprocess.run([self.program("troupe"), "repl", "--cluster", self.file, "-c", command], stdout=subprocess.DEVNULL).returncode

    def plant(self, part, node, ms=200, seconds=DELAY_S):
        if part == "link":
            if self.steer(f"inject delay n{node} by {ms}ms for {seconds}s") != 0:
                raise RuntimeError("the delay was not injected")
            return
        file = os.path.join(self.planted(node), part)
        with open(file + ".new", "w") as f:
            f.write(f"{ms}\n")
        os.rename(file + ".new", file)

    def heal(self, part, node, seconds=DELAY_S):
        if part == "link":
            time.sleep(seconds)
        else:
            os.remove(os.path.join(self.planted(node), part))

    def train(self, steps, more=()):
        job = os.path.join(self.folder, "job.toml")
        with open(job, "w") as f:
            f.write(JOB.format(plugin=self.plugin, steps=steps, nodes=self.nodes))
        return subprocess.Popen([self.program("troupe"), "train", job, "--cluster", self.file, "--json", *more], stdout=subprocess.PIPE, text=True)

    def end(self):
        for d in self.daemons:
            d.kill()
            d.wait()


def events(child):
    for line in child.stdout:
        yield json.loads(line)


def is_straggler(e):
    return e["event"] == "alert" and " takes " in e["message"]


def named(c, part, node, before):
    """Slow steps until the first alert about this node, that alert, and all other alerts. A plant takes a moment to begin, so only steps that
    take more than half of the planted time count."""
    child, slow, planted, others = c.train(100000), 0, False, []
    last = time.time()
    try:
        for e in events(child):
            if e["event"] == "step":
                slow += planted and time.time() - last > 0.1
                last = time.time()
                if not planted and e["step"] >= before:
                    c.plant(part, node)
                    planted = True
                if slow > 60:
                    return None, "", others
            elif is_straggler(e):
                if planted and f"n{node}" in e["message"].replace(",", " ").split():
                    return slow, e["message"], others
                others.append(e["message"])
        raise RuntimeError(f"the job ended before the plant was named: {e}")
    finally:
        if planted:
            c.heal(part, node)
        c.steer("stop")
        child.stdout.read()
        child.wait()


def undisturbed(c, steps):
    child = c.train(steps)
    alerts, began = [], time.time()
    for e in events(child):
        if is_straggler(e):
            alerts.append(e["message"])
    child.wait()
    return alerts, time.time() - began


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--undisturbed", type=int, default=10000)
    p.add_argument("--out")
    a = p.parse_args()
    draw = random.Random(1)
    rows, others = [], []
    with tempfile.TemporaryDirectory() as folder:
        c = cluster(a.bin, folder)
        try:
            for _ in range(a.rounds):
                for part in PART:
                    node = draw.randrange(2, NODES + 1)
                    took, message, more = named(c, part, node, draw.randrange(100, 200))
                    others += more
                    rows.append(f"| {PART[part]} | n{node} | {'none in 60' if took is None else took} | {message} |")
                    print(rows[-1], flush=True)
            alerts, seconds = undisturbed(c, a.undisturbed)
        finally:
            c.end()
    text = [f"# Does an alert name the slow part? {datetime.date.today()}", "",
            "**Question.** One part of one of eight nodes takes 200 ms more in every step. Does the job's alert name it, and after how many steps?", "",
            f"**Answer.** {sum('none in' not in r for r in rows)} of {len(rows)} were named. Alerts that name something else, in these {len(rows)} runs: "
            f"{len(others)}. Alerts in {a.undisturbed} undisturbed steps ({seconds:.0f} s): {len(alerts)}.", "",
            f"**Command.** `bench/stragglers.py --rounds {a.rounds} --undisturbed {a.undisturbed}`. **Where.** {machine()}.", "",
            "| slow part | node | slow steps until the alert | alert |", "|---|---|---|---|", *rows, "",
            "**What it does not show.** Delays of less than 200 ms; other jobs on the nodes; machines apart, whose connections differ.", ""]
    text += [f"- {m}" for m in others + alerts]
    text = "\n".join(text) + "\n"
    print(text)
    if a.out:
        publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
