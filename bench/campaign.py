#!/usr/bin/env python3
"""Sends commands of two clients to a job on three daemons while a node fails, and looks whether each command has one outcome that fits the job.

usage: bench/campaign.py [--bin build/release/bin] [--seed 1] [--combinations 200]

Each combination draws a fault (none; node n3 killed, stopped by SIGSTOP for 1 to 8 s, or without messages for as long; the coordinator's daemon
killed or stopped), a command for each client, and the moment of each: before the fault, with it or after it. Daemons that were killed start
again. A command must end with one line within 100 s. Then the job's state must fit: paused after `pause` and no `resume`, over after `stop` or
`kill`, with the learning rate, the mode and the nodes that were asked for. Prints a row for each combination and a last line with the counts
of combinations, outcomes and violations. Exits with 1 if there are violations.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

from environment import ROOT
from lost_worker import free_ports

NODES = 3
PATIENCE_S = 100  # a client that waits for its outcome gives up after 180 s, and a recovery takes 10 s
SETTLES_S = 60
COMMANDS = ("pause", "pause", "resume", "set train.dynamics.lr 0.0{digit}", "mode ssp staleness={digit}", "move scores {node}", "drain {node}",
            "add-node {node}", "checkpoint", "eval", "stop", "kill")
FAULTS = ("none", "kill n3", "stop n3", "drop n3", "kill n1", "stop n1")
JOB = """
[job]
name = "campaign"
[data]
source = "synthetic"
shape = [8]
classes = 4
examples = 4096
test_examples = 64
batch = 48
[[layer]]
name = "scores"
type = "linear"
inputs = ["data"]
outputs = 4
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["scores", "label"]
[train]
dynamics = { rule = "sgd", lr = 0.001 }
sync = { mode = "bsp" }
finish = { steps = 100000000 }
[topology]
workers_per_group = 3
servers_per_group = 2
[pipeline]
packets = 3
[eval]
every = 1000000
[checkpoint]
every = 200
"""


class cluster:
    def __init__(self, binaries, folder):
        self.binaries, self.folder = binaries, folder
        self.file, self.job = os.path.join(folder, "cluster.toml"), os.path.join(folder, "job.toml")
        with open(self.job, "w") as f:
            f.write(JOB)
        with open(self.file, "w") as f:
            f.write('[cluster]\nname = "campaign"\ninject = true\n[cluster.tls]\ndir = "certs"\n')
            for i, port in enumerate(free_ports(NODES)):
                roles = '"coordinator", "worker", "server", "data"' if i == 0 else '"worker", "server"'
                f.write(f'[[node]]\nname = "n{i + 1}"\naddress = "127.0.0.1:{port}"\nroles = [{roles}]\n')
        subprocess.run([self.program("troupe"), "init-cluster", "--cluster", self.file], check=True, stdout=subprocess.DEVNULL)
        self.daemons = {}
        self.start_all()

    def program(self, name):
        return os.path.join(self.binaries, name)

    def start_all(self):
        for i in range(1, NODES + 1):
            name = f"n{i}"
            if name in self.daemons and self.daemons[name].poll() is None:
                continue
            log = open(os.path.join(self.folder, name + ".log"), "a")
            self.daemons[name] = subprocess.Popen([self.program("trouped"), "--cluster", self.file, "--node", name, "--state",
                                                   os.path.join(self.folder, "state-" + name)], stdout=subprocess.PIPE, stderr=log, text=True)
            if not self.daemons[name].stdout.readline():
                raise RuntimeError(f"the daemon of {name} did not start")

    def ask(self, line, *options, timeout=PATIENCE_S):
        try:
            return subprocess.run([self.program("troupe"), "repl", "--cluster", self.file, *options, "-c", line], capture_output=True, text=True,
                                  timeout=timeout)
        except subprocess.TimeoutExpired:
            return None

    def rows(self, line, key):
        got = self.ask(line, "--json", timeout=20)
        if got is None or got.returncode != 0:
            return []
        return json.loads(got.stdout.strip().splitlines()[-1]).get(key, [])

    def job_row(self, number):
        return next((j for j in self.rows("jobs", "jobs") if j["job"] == number), None)

    def end(self):
        for d in self.daemons.values():
            d.send_signal(signal.SIGCONT)
            d.kill()
            d.wait()


def wait_for(what, seconds):
    until = time.time() + seconds
    while time.time() < until:
        found = what()
        if found:
            return found
        time.sleep(0.2)
    return None


def strike(c, fault, seconds):
    """Causes the fault, and ends it."""
    what, _, node = fault.partition(" ")
    if what == "kill":
        c.daemons[node].kill()
        c.daemons[node].wait()
        time.sleep(seconds / 4)
        c.start_all()
    if what == "stop":
        c.daemons[node].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        c.daemons[node].send_signal(signal.SIGCONT)
    if what == "drop":
        c.ask(f"inject drop {node} for {seconds:.0f}s", timeout=20)
        time.sleep(seconds)


def mismatch(c, number, sent):
    """What does not fit between the outcomes and the job. Empty: nothing."""
    done = [line.split() for line, reply in sent if reply is not None and reply.returncode == 0]
    words = [w[0] for w in done]
    tried = [line.split()[0] for line, _ in sent]

    def fits(j):
        if j is None:
            return False
        if "kill" in words or "stop" in words:
            return j["state"] in ("failed", "stopped")
        if "kill" in tried or "stop" in tried:  # without an outcome: it may have been carried out
            return True
        if j.get("doing") or j["state"] not in ("running", "paused"):
            return False
        if "resume" not in tried and ("pause" in words) != (j["state"] == "paused") and ("pause" in words or "pause" not in tried):
            return False
        if "pause" not in tried and j["state"] != "running":
            return False
        modes = [" ".join(w[1:]) for w in done if w[0] == "mode"]
        if modes and j.get("mode") not in modes and tried.count("mode") == len(modes):
            return False
        return True

    if wait_for(lambda: fits(c.job_row(number)), SETTLES_S):
        drained = [w[1] for w in done if w[0] == "drain"]
        used = {n["name"] for n in c.rows("nodes", "nodes") if "at_stake" in n}
        back = {line.split()[1] for line, _ in sent if line.startswith("add-node")}
        wrong = [n for n in drained if n in used and n not in back]
        return f"the job uses {', '.join(wrong)}" if wrong else ""
    j = c.job_row(number)
    return f"the job is {json.dumps(j and {k: j.get(k) for k in ('state', 'doing', 'mode', 'message')})}"


def combination(c, draw):
    fault, seconds = draw.choice(FAULTS), draw.uniform(1, 8)
    fill = {"digit": draw.randrange(1, 5), "node": f"n{draw.randrange(2, NODES + 1)}"}
    lines = [draw.choice(COMMANDS).format(**fill) for _ in range(2)]
    moments = [draw.choice((0, 0.5, 0.7, 1.5, 3)) for _ in range(2)]  # the fault begins at 0.5 s
    made = c.ask(f"submit {c.job}", "--json", timeout=60)
    if made is None or made.returncode != 0:
        raise RuntimeError(f"the job was refused: {made and made.stdout}")
    number = json.loads(made.stdout.splitlines()[0])["job"]
    if not wait_for(lambda: (j := c.job_row(number)) and j["state"] == "running" and j["step"] > 0, 30):
        return fault, seconds, list(zip(lines, moments)), [], "the job did not start"
    replies = [None, None]

    def client(i):
        time.sleep(moments[i])
        replies[i] = c.ask(lines[i])

    threads = [threading.Thread(target=client, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    time.sleep(0.5)
    strike(c, fault, seconds)
    for t in threads:
        t.join()
    wrong = ""
    for line, r in zip(lines, replies):
        if r is None:
            wrong = f"no outcome of '{line}'"
        elif len([x for x in (r.stdout + r.stderr).splitlines() if not x.startswith("waiting for job")]) != 1:
            wrong = f"'{line}' has not one outcome: {r.stdout}{r.stderr}"
        elif "has not executed the command yet" in r.stdout + r.stderr:
            wrong = f"no outcome of '{line}' in time"
        elif r.returncode != 0 and "n1" not in fault and "was lost" in r.stdout + r.stderr:
            wrong = f"'{line}' lost its daemon"
    wrong = wrong or mismatch(c, number, list(zip(lines, replies)))
    c.ask(f"kill {number}", timeout=30)
    wait_for(lambda: (j := c.job_row(number)) and j["state"] in ("done", "failed", "stopped", "preempted"), 30)
    c.start_all()
    wait_for(lambda: sum(n["state"] == "up" for n in c.rows("nodes", "nodes")) == NODES, 30)
    return fault, seconds, list(zip(lines, moments)), replies, wrong


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--combinations", type=int, default=200)
    a = p.parse_args()
    draw, outcomes, violations = random.Random(a.seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        c = cluster(a.bin, folder)
        try:
            for n in range(a.combinations):
                fault, seconds, sent, replies, wrong = combination(c, draw)
                outcomes += sum(r is not None for r in replies)
                violations += bool(wrong)
                said = ["no outcome" if r is None else ("" if r.returncode == 0 else "failed: ") + (r.stdout + r.stderr).strip().replace("\n", "; ")
                        for r in replies]
                parts = [f"{line} at {at} s -> {text}" for (line, at), text in zip(sent, said or ["", ""])]
                print(f"| {n + 1} | {fault} {seconds:.1f} s | {' | '.join(parts)} | {wrong or 'fits'} |", flush=True)
        finally:
            c.end()
    print(f"{a.combinations} combinations, {outcomes} outcomes, {violations} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
