#!/usr/bin/env python3
"""Many daemons on one machine: time to the first step, idle load, and how soon a returning member is used.

usage: bench/many_daemons.py [--bin build/release/bin] [--daemons N]... [--idle 20] [--job configs/jobs/lenet_synthetic.toml] [--set KEY=VALUE]...
                             [--limit 120] [--quick] [--keep DIR] [--table]

Starts N daemons (default 64) on loopback, all at once, with a worker on each. Prints
  up           seconds from the first start until every daemon has joined the coordinator's
  idle         CPU time of the coordinator's daemon, of a member (median) and of all daemons, in percent of a core, over --idle seconds without a job
  first step   seconds from the submission, and with `up`, until the client has the first step of a job with N workers
  time-outs    lines with handshake_timeout in all logs, and daemons that have ended
  returns      seconds until a step of a plan that uses a member again that was killed and restarted: from its start, and from its join
  memory       resident memory of the coordinator's daemon, of a member (median) and of all daemons
--quick leaves out the idle phase and the return. --table ends with a table and the environment, for docs/measurements/many_daemons.md.
"""
import argparse
import json
import os
import queue
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

from environment import ROOT, machine, record
from lost_worker import free_ports

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024


class cluster:
    def __init__(self, binaries, folder, n):
        self.binaries, self.folder, self.n = binaries, folder, n
        self.file = os.path.join(folder, "cluster.toml")
        with open(self.file, "w") as f:
            f.write('[cluster]\nname = "many"\n[cluster.tls]\ndir = "certs"\n')
            for i, port in enumerate(free_ports(n)):
                roles = '"coordinator", "worker", "server", "data"' if i == 0 else '"worker", "server"'
                f.write(f'[[node]]\nname = "n{i + 1}"\naddress = "127.0.0.1:{port}"\nroles = [{roles}]\n')
        self.troupe("init-cluster")
        self.begun = time.time()
        self.daemons = [self.start(i) for i in range(n)]

    def troupe(self, *words, **how):
        return subprocess.run([os.path.join(self.binaries, "troupe"), words[0], "--cluster", self.file, *words[1:]], check=True,
                              stdout=subprocess.PIPE, text=True, **how).stdout

    def start(self, i):
        with open(os.path.join(self.folder, f"n{i + 1}.log"), "a") as log:
            return subprocess.Popen([os.path.join(self.binaries, "trouped"), "--cluster", self.file, "--node", f"n{i + 1}"],
                                    stdout=log, stderr=log)

    def log(self, i):
        with open(os.path.join(self.folder, f"n{i + 1}.log"), errors="replace") as f:
            return f.read()

    def wait_joined(self, limit):
        while time.time() - self.begun < limit:
            if self.log(0).count(" has joined, ") >= self.n:
                return time.time() - self.begun
            time.sleep(0.1)
        return None

    def ended(self):
        return [(f"n{i + 1}", d.returncode) for i, d in enumerate(self.daemons) if d.poll() is not None]

    def count(self, words):
        return sum(self.log(i).count(words) for i in range(self.n))

    def close(self):
        for d in self.daemons:
            d.kill()
            d.wait()


class client:
    """A job, and its events with the times of their arrival."""

    def __init__(self, c, job, settings):
        self.p = subprocess.Popen([os.path.join(c.binaries, "troupe"), "train", job, "--cluster", c.file, "--json",
                                   *(w for s in settings for w in ("--set", s))], stdout=subprocess.PIPE, text=True)
        self.events, self.begun = queue.Queue(), time.time()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.p.stdout:
            self.events.put((time.time(), json.loads(line)))

    def wait(self, kinds, limit):
        end = time.time() + limit
        while True:
            try:
                when, e = self.events.get(timeout=max(0.0, end - time.time()))
            except queue.Empty:
                return None
            if e["event"] == "error":
                raise RuntimeError(json.dumps(e))
            if e["event"] in kinds:
                return when, e

    def close(self):
        self.p.kill()
        self.p.wait()


def idle_load(c, seconds):
    """Percent of a core over that time: of the coordinator's daemon, the median member, and all."""
    before = [cpu_seconds(d.pid) for d in c.daemons]
    begun = time.time()
    time.sleep(seconds)
    took = time.time() - begun
    share = [100 * (cpu_seconds(d.pid) - b) / took for d, b in zip(c.daemons, before)]
    return share[0], statistics.median(share[1:]), sum(share)


def returns(c, job, which, limit):
    """Kills a member and starts it again. (from its start, from its join) until a step with it."""
    c.daemons[which].kill()
    c.daemons[which].wait()
    lost, _ = job.wait({"recovered"}, limit)
    if not job.wait({"step"}, limit):
        raise RuntimeError("no step after the failure")
    joined_before = c.log(0).count(f"node n{which + 1} has joined")
    begun = time.time()
    c.daemons[which] = c.start(which)
    joined = None
    while joined is None:
        if c.log(0).count(f"node n{which + 1} has joined") > joined_before:
            joined = time.time()
        elif time.time() - begun > limit:
            raise RuntimeError("the member did not join again")
        else:
            time.sleep(0.01)
    if not job.wait({"moved"}, limit):
        raise RuntimeError("the member is not used again")
    used, _ = job.wait({"step"}, limit)
    return used - begun, used - joined


def measure(a, n, folder):
    found = {}
    c = cluster(a.bin, folder, n)
    job = None
    try:
        found["up"] = c.wait_joined(a.limit)
        print(f"up: {found['up']}", flush=True)
        if found["up"] is None:
            return found
        if not a.quick:
            time.sleep(5)
            found["idle"] = idle_load(c, a.idle)
            print(f"idle: coordinator {found['idle'][0]:.2f} %, member {found['idle'][1]:.2f} %, all {found['idle'][2]:.1f} %", flush=True)
        settings = [f"topology.workers_per_group={n}", f"pipeline.packets={n}", "pipeline.sub_solvers=1", f"data.batch={2 * n}",
                    "train.finish={steps=1000000}", "train.dynamics.lr=1e-5", "eval.every=0"]
        submitted = time.time()
        job = client(c, os.path.join(ROOT, a.job), settings + a.set)
        first = job.wait({"step"}, a.limit)
        found["first"] = first and (first[0] - submitted, found["up"] + first[0] - submitted)
        print(f"first step: {found['first']}", flush=True)
        found["memory"] = [resident_mib(d.pid) for d in c.daemons if d.poll() is None]
        if first and not a.quick:
            found["returns"] = returns(c, job, n // 2, a.limit)
            print(f"returns: {found['returns'][0]:.2f} s after its start, {found['returns'][1]:.2f} s after its join", flush=True)
        return found
    finally:
        found["timeouts"], found["ended"] = c.count("handshake_timeout"), c.ended()
        print(f"time-outs: {found['timeouts']}, ended: {found['ended']}", flush=True)
        if found.get("memory"):
            m = found["memory"]
            print(f"memory: coordinator {m[0]:.0f} MiB, member {statistics.median(m[1:]):.0f} MiB, all {sum(m):.0f} MiB", flush=True)
        if job:
            job.close()
        c.close()


def row(n, found):
    def text(values, form):
        return " / ".join(form.format(v) for v in values) if values else "-"
    m = found.get("memory")
    memory = (m[0], statistics.median(m[1:]), sum(m)) if m else None
    up = "-" if found["up"] is None else f"{found['up']:.1f}"
    return (f"| {n} | {up} | {text(found.get('first'), '{:.1f}')} | {found['timeouts']} | {len(found['ended'])} | "
            f"{text(found.get('idle'), '{:.2f}')} | {text(found.get('returns'), '{:.2f}')} | {text(memory, '{:.0f}')} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    p.add_argument("--daemons", type=int, action="append")
    p.add_argument("--idle", type=float, default=20)
    p.add_argument("--job", default="configs/jobs/lenet_synthetic.toml")
    p.add_argument("--set", action="append", default=[])
    p.add_argument("--limit", type=float, default=120)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--keep")
    p.add_argument("--table", action="store_true")
    a = p.parse_args()
    rows = []
    for n in a.daemons or [64]:
        print(f"{n} daemons, load average {os.getloadavg()[0]:.1f}", flush=True)
        with tempfile.TemporaryDirectory() as temporary:
            folder = a.keep or temporary
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            rows.append(row(n, measure(a, n, folder)))
    if a.table:
        print("\n| daemons | up, s | first step, s after the submission / with `up` | time-outs | ended | "
              "idle, % of a core: coordinator / member / all | returns, s after its start / its join | MiB: coordinator / member / all |")
        print("|---|---|---|---|---|---|---|---|")
        print("\n".join(rows) + "\n\n" + record(a.bin))


if __name__ == "__main__":
    main()
