#!/usr/bin/env python3
"""Recoveries of daemons beside what `troupe sim` predicts for them.

usage: bench/recovery.py [--bin build/release/bin] [--nodes 3,4] [--rounds 5] [--case NAME]... [--schedule MINUTES]
                         [--out docs/measurements/recovery.md]

A perceptron is trained on daemons of this machine. After some steps a node fails:

  worker        a node with a worker is killed with SIGKILL, and stays away
  shard         so is a node with a shard of the parameters; there is a checkpoint
  replica       so is one, and the other node has a replica of the shard
  coordinator   the coordinator's daemon is killed and started again
  stop          a node with a worker is stopped (SIGSTOP) for 8 s
  cut           all messages from and to a node with a worker are dropped for 8 s

`troupe sim` runs the same job on the same cluster file with what `troupe doctor --cluster` has measured, and the same fault at as many moments.
Daemons that share cores have a part of a core each in the simulation. Printed are the medians of each phase, in milliseconds, and the ratio of
the predicted time to the measured one. The phases are those of the event `recovered`. noticed: from the fault (of a killed process: its end) until
the coordinator's daemon notices it. first step: from then on, when all roles are replaced, until the client has a step. The whole: from the fault
until that step. The simulation of `coordinator` has two measured times: until the daemon has started again, and that of `troupe check`, which reads
the data.

--schedule trains for so long (20 without another number, 0: not at all) on three daemons of which one is killed every 40 s and starts again 10 s
later, the coordinator's every fourth time. Goodput: the steps that count, at the mean time of a step between failures, as a part of the time.
"""
import argparse
import datetime
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from environment import ROOT, machine, publish
from lost_worker import free_ports
from many_daemons import client

JOB = os.path.join(ROOT, "configs/jobs/mlp_fashion.toml")
STEPS, EVERY, AWAY = 100000, 50, 8
PHASES = ("noticed", "planned", "ready", "state", "replaced", "first step")
NOT_MODELLED = """
**What it does not show.** The time that a daemon needs to start and to read the data is measured, not predicted (coordinator). On one machine all
daemons compute on the same cores, so that messages wait for tasks of other nodes (`ready`, `state`), which a simulation of several machines does
not have. After the loss of a shard the first steps touch new shared memory, whose page faults the simulator does not count (`first step`).
"""
CASES = ("worker", "shard", "replica", "coordinator", "stop", "cut")


class cluster:
    """Daemons with a worker each. n1 has the coordinator, the data and the only shard; for `shard` and `replica` n2 and n3 can have shards."""

    def __init__(self, binaries, folder, nodes, case):
        self.binaries, self.folder = binaries, folder
        self.file = os.path.join(folder, "cluster.toml")
        with open(self.file, "w") as f:
            f.write('[cluster]\nname = "bench"\ninject = true\n[cluster.tls]\ndir = "certs"\n')
            for i, port in enumerate(free_ports(nodes)):
                roles = ["worker"] + (["coordinator", "data"] if i == 0 else []) + (["server"] if i in servers(case) else [])
                f.write(f'[[node]]\nname = "n{i + 1}"\naddress = "127.0.0.1:{port}"\nroles = {json.dumps(roles)}\n')
        self.troupe("init-cluster")
        begun = time.time()
        subprocess.run([os.path.join(binaries, "troupe"), "check", JOB], check=True, stdout=subprocess.DEVNULL)
        self.reading = time.time() - begun  # seconds to read the job's data
        begun = time.time()
        self.daemons = [self.start(0)]
        self.daemons[0].stdout.readline()
        self.away = time.time() - begun  # seconds that a daemon needs to start
        self.daemons += [self.start(i) for i in range(1, nodes)]
        for d in self.daemons[1:]:
            d.stdout.readline()

    def troupe(self, *words):
        done = subprocess.run([os.path.join(self.binaries, "troupe"), words[0], "--cluster", self.file, *words[1:]], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"troupe {words[0]}: " + "".join(line for line in done.stdout.splitlines(True) if not line.startswith(("ok", " "))))
        return done.stdout

    def start(self, i):
        return subprocess.Popen([os.path.join(self.binaries, "trouped"), "--cluster", self.file, "--node", f"n{i + 1}"], cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def close(self):
        for d in self.daemons:
            d.kill()
            d.wait()


def measured_machine(c):
    """What `troupe doctor` measures, with the part of a core that each daemon has."""
    file = os.path.join(c.folder, "machine.toml")
    c.troupe("doctor", "--out", file)
    with open(file) as f:
        text = f.read()
    share = min(1.0, os.cpu_count() / len(c.daemons))
    return re.sub(r"^flops_per_second = (\S+)", lambda m: f"flops_per_second = {share * float(m.group(1)):.4g}", text, flags=re.M)


def servers(case):
    return (1, 2) if case in ("shard", "replica") else (0,)


def settings(nodes, case, steps):
    shards = 2 if case == "replica" else 1
    words = [f"topology.workers_per_group={nodes}", f"topology.servers_per_group={shards}", f"pipeline.packets={nodes}", "pipeline.sub_solvers=1",
             "data.batch=120", f"train.finish.steps={steps}", "train.finish.epochs=1000", "eval.every=0", f"checkpoint.every={EVERY}"]
    return words + (["topology.replicas=2"] if case == "replica" else [])


def target(nodes, case):
    return {"coordinator": 0, "shard": 1, "replica": 2}.get(case, nodes - 1)


def measured(c, nodes, case, number):
    """(phases in ms, steps again, seconds per step) of one failure of a running job."""
    job = client(c, JOB, settings(nodes, case, STEPS))
    try:
        steps = []
        # A different moment between two checkpoints in each round.
        while not steps or steps[-1][1] < 2 * EVERY + 10 + 6 * number:
            when, e = job.wait({"step"}, 60)
            steps.append((when, e["step"]))
        step = (steps[-1][0] - steps[10][0]) / (steps[-1][1] - steps[10][1])
        which, begun = target(nodes, case), time.time()
        if case == "cut":
            c.troupe("repl", "-c", f"inject drop n{which + 1} for {AWAY}s")
            begun = time.time() + 0.2  # the daemon begins 200 ms after it has answered
        elif case == "stop":
            c.daemons[which].send_signal(signal.SIGSTOP)
        else:
            c.daemons[which].kill()
            c.daemons[which].wait()
            begun = time.time()  # its connections are closed: before that the kernel frees its memory
        if case == "coordinator":  # which resumes its job: no event tells the phases
            c.daemons[which] = c.start(which)
            c.daemons[which].stdout.readline()
            c.away = time.time() - begun
            while e["step"] >= steps[-1][1]:
                stepped, e = job.wait({"step"}, 60)
            return {"whole": 1e3 * (stepped - begun)}, steps[-1][1] - e["step"] + 1, step
        heard, e = job.wait({"recovered"}, 60)
        stepped, _ = job.wait({"step"}, 60)
        phases = {"planned": e["planned_ms"], "ready": e["ready_ms"], "state": e["state_ms"], "replaced": e["replaced_ms"],
                  "first step": 1e3 * (stepped - heard), "noticed": 1e3 * (heard - begun) - e["ms"]}
        if case == "stop":
            c.daemons[which].send_signal(signal.SIGCONT)
        return phases, e["steps_again"], step
    finally:
        job.close()


def fault(kind, node, at, more=""):
    """A table of a faults file."""
    return f'[[fault]]\nkind = "{kind}"\nnodes = ["n{node + 1}"]\nfrom = "{at:.6f}s"\n{more}'


def simulated_events(c, model, faults, job_settings, seed=1):
    """The events of a simulation on the nodes of the cluster file, with the text of a faults file. The last one is `done`."""
    file = os.path.join(c.folder, "faults.toml")
    with open(file, "w") as f:
        f.write(faults)
    words = ["sim", JOB, "--cluster", c.file, "--network", model, "--faults", file, "--maths", "none",
             "--buckets", "0", "--seed", str(seed), "--json", *(w for s in job_settings for w in ("--set", s))]
    out = subprocess.run([os.path.join(c.binaries, "troupe"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    events = [json.loads(line) for line in out.stdout.splitlines()]
    if not events or events[-1]["event"] != "done":
        raise RuntimeError(out.stdout[-500:] + out.stderr[-500:])
    return events


def predicted(c, nodes, case, model, at, seed):
    """The same of a simulation, with a fault `at` seconds after the job began."""
    more = {"stop": f'time = "{AWAY}s"\n', "cut": f'until = "{at + AWAY:.6f}s"\nboth = true\n',
            "coordinator": f'restart_after = "{c.away + c.reading:.6f}s"\n'}
    kind = case if case in ("stop", "cut") else "kill"
    events = simulated_events(c, model, fault(kind, target(nodes, case), at, more.get(case, "")), settings(nodes, case, 20 * EVERY), seed)
    if case == "coordinator":
        killed = next(i for i, e in enumerate(events) if e["event"] == "fault")
        before = max(e["step"] for e in events[:killed] if e["event"] == "step")
        e = next(e for e in events[killed:] if e["event"] == "step" and e["step"] <= before)
        return {"whole": 1e3 * (e["virtual_seconds"] - at)}, before - e["step"] + 1, events[-1]["step_seconds_mean"]
    e = next(e for e in events if e["event"] == "recovered")
    p = {k: 1e3 * v for k, v in e["phases"].items()}
    state = p.pop("handed over", 0.0) + p.pop("loaded", 0.0)
    return ({"state": state, **p}, e["steps_again"], events[-1]["step_seconds_mean"])


def schedule(minutes):
    """[(seconds since the first step, number of the node, seconds until it starts again)]"""
    return [(40.0 * i, 0 if i % 4 == 0 else 1 + i % 2, 10.0) for i in range(1, int(60 * minutes / 40))]


def goodput(steps, seconds, each):
    return (steps - 1) * each / seconds


def measured_goodput(c, minutes):
    job = client(c, JOB, settings(3, "worker", STEPS))
    begun, each, last, recoveries, again = None, [], None, 0, 0
    todo = [(at, "kill", n) for at, n, _ in schedule(minutes)] + [(at + back, "start", n) for at, n, back in schedule(minutes)]
    todo.sort()
    try:
        while begun is None or time.time() < begun + 60 * minutes:
            now = time.time()
            if begun and todo and now >= begun + todo[0][0]:
                _, what, n = todo.pop(0)
                if what == "kill":
                    c.daemons[n].kill()
                    c.daemons[n].wait()
                    last = None
                else:
                    c.daemons[n] = c.start(n)
                continue
            got = job.wait({"step", "recovered", "moved"}, min(1.0, begun + todo[0][0] - now) if begun and todo else 60)
            if got is None:
                continue
            when, e = got
            if e["event"] == "step":
                begun = begun or when
                if last and e["step"] == last[1] + 1:
                    each.append(when - last[0])
                last = (when, e["step"])
            else:
                last = None
                recoveries += e["event"] == "recovered"
                again += e.get("steps_again", 0)
            reached, at = e["step"], when
        return goodput(reached, at - begun, statistics.mean(each)), recoveries, again, statistics.mean(each)
    finally:
        job.close()


def predicted_goodput(c, model, minutes, guess):
    """The same of a simulation, with as many steps as it makes in that time. `guess`: the goodput that it may have."""
    faults = "".join(fault("kill", n, at, f'restart_after = "{back + (c.away + c.reading if n == 0 else c.away):.6f}s"\n')
                     for at, n, back in schedule(minutes))
    step = simulated_events(c, model, fault("kill", 2, 1e6), settings(3, "worker", 200))[-1]["step_seconds_mean"]
    steps = int(60 * minutes * guess / step)
    for _ in range(4):
        events = simulated_events(c, model, faults, settings(3, "worker", steps))
        e, took = events[-1], events[-1]["virtual_seconds"]
        if abs(took - 60 * minutes) < 6:
            break
        steps = int(steps * 60 * minutes / took)
    return e["goodput"], e["recoveries"], e["steps_again"], e["step_seconds_mean"]


def compare_goodput(binaries, minutes):
    with tempfile.TemporaryDirectory() as folder:
        c = cluster(binaries, folder, 3, "worker")
        try:
            model = os.path.join(folder, "measured.toml")
            with open(model, "w") as f:
                f.write(measured_machine(c))
            m = measured_goodput(c, minutes)
        finally:
            c.close()
        s = predicted_goodput(c, model, minutes, m[0])
    return (f"{minutes:g} minutes with a killed daemon every 40 s: goodput {100 * m[0]:.1f} % measured ({m[1]} recoveries, {m[2]} steps again, "
            f"{1e3 * m[3]:.1f} ms a step), {100 * s[0]:.1f} % predicted ({s[1]} recoveries, {s[2]} steps again, {1e3 * s[3]:.1f} ms a step).")


def middle(runs):
    all_ = {k: statistics.median(r[0].get(k, 0.0) for r in runs) for k in PHASES}
    return {**all_, "whole": statistics.median(sum(r[0].values()) for r in runs), "steps again": statistics.median(r[1] for r in runs),
            "a step": 1e3 * statistics.median(r[2] for r in runs)}


def ratio(a, b):
    return f"{a / b:.2f}" if b > 0 and a > 0 else ""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    p.add_argument("--nodes", default="3,4")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--case", action="append", choices=CASES)
    p.add_argument("--schedule", type=float, default=20)
    p.add_argument("--out")
    a = p.parse_args()
    rows, within, all_ = [], 0, 0
    for nodes in (int(n) for n in a.nodes.split(",")):
        for case in a.case or CASES:
            real, simulated = [], []
            for number in range(a.rounds):
                with tempfile.TemporaryDirectory() as folder:
                    c = cluster(a.bin, folder, nodes, case)
                    try:
                        if number == 0:
                            model = measured_machine(c)
                        real.append(measured(c, nodes, case, number))
                    finally:
                        c.close()
                    file = os.path.join(folder, "measured.toml")
                    with open(file, "w") as f:
                        f.write(model)
                    predicted_pace = real[-1][2]
                    for _ in range(2):  # the fault comes after as many steps as in the measurement
                        simulated_run = predicted(c, nodes, case, file, predicted_pace * (2 * EVERY + 10 + 6 * number), number + 1)
                        predicted_pace = simulated_run[2]
                    simulated.append(simulated_run)
            m, s = middle(real), middle(simulated)
            for k in (*(() if case == "coordinator" else PHASES), "whole", "steps again", "a step"):
                rows.append(f"| {nodes} | {case} | {k} | {m[k]:.1f} | {s[k]:.1f} | {ratio(s[k], m[k])} |")
                print(rows[-1], flush=True)
                if k in PHASES and max(m[k], s[k]) >= 1:
                    all_ += 1
                    within += 1 if m[k] > 0 and 1 / 1.5 <= s[k] / m[k] <= 1.5 else 0
    print(f"{within} of {all_} phases of at least 1 ms are predicted within a factor of 1.5")
    whole = compare_goodput(a.bin, a.schedule) if a.schedule > 0 else ""
    print(whole)
    text = f"""# Recoveries, measured and predicted, {datetime.date.today()}

**Question.** How well does `troupe sim` predict the phases of a recovery of daemons?
**Answer.** {within} of {all_} phases of at least 1 ms within a factor of 1.5.
**Command.** `bench/recovery.py`. **Where.** {machine()}, otherwise idle. Medians of {a.rounds} runs, in milliseconds. All daemons share the machine.

| nodes | fails | phase | measured | predicted | ratio |
|---|---|---|---|---|---|
""" + "\n".join(rows) + f"\n\n{whole}\n" + NOT_MODELLED
    publish(text, a.out and os.path.join(ROOT, a.out), a.bin)


if __name__ == "__main__":
    sys.exit(main())
