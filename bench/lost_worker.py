#!/usr/bin/env python3
"""Cost of a killed worker: Troupe's daemons against torch's elastic launcher, alternating on the same machine.

usage: bench/lost_worker.py [--bin build/release/bin] [--rounds 5] [--workers 4] [--every 50] [--out docs/measurements/lost_worker.md]

Both train the perceptron 784-1024-1024-10 at batch 128 with a checkpoint every EVERY steps, and one of their workers (never the first) is
killed with SIGKILL in the middle between two checkpoints. Lost training: the time from the kill until the last step before it has been
repeated, or, if none is repeated, until the next step. Steps again: the steps that were repeated.
"""
import argparse
import datetime
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from environment import PYTHON, ROOT, machine, peer_env, publish

STEPS = 100000


def lost_and_again(steps, killed):
    """(lost training in seconds, repeated steps, seconds per step). steps: [(step, time)] in order of arrival."""
    before = [s for s, t in steps if t <= killed]
    after = [(s, t) for s, t in steps if t > killed]
    # Steps from before the failure may be reported after it: training restarts where the count decreases.
    last = max(before)
    falls = next((i for i in range(1, len(after)) if after[i][0] <= after[i - 1][0]), None)
    if falls is not None:
        last = max(last, after[falls - 1][0])
        after = after[falls:]
    elif after and after[0][0] > last + 1:
        raise RuntimeError(f"steps are missing: {last} then {after[0][0]}")
    first = after[0][0]
    back = next(t for s, t in after if s > last)
    return back - killed, max(0, last - first + 1), pace(steps, killed)


def pace(steps, killed):
    """Seconds per step before the kill."""
    times = [t for s, t in steps if t <= killed][-40:]
    return (times[-1] - times[0]) / (len(times) - 1)


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def troupe(binaries, workers, every):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "cluster.toml")
        with open(file, "w") as f:
            f.write('[cluster]\nname = "bench"\n[cluster.tls]\ndir = "certs"\n')
            for i, port in enumerate(free_ports(workers)):
                roles = '"coordinator", "worker", "server", "data"' if i == 0 else '"worker"'
                f.write(f'[[node]]\nname = "n{i + 1}"\naddress = "127.0.0.1:{port}"\nroles = [{roles}]\n')
        subprocess.run([os.path.join(binaries, "troupe"), "init-cluster", "--cluster", file], check=True, stdout=subprocess.DEVNULL)
        daemons = [subprocess.Popen([os.path.join(binaries, "trouped"), "--cluster", file, "--node", f"n{i + 1}"],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for i in range(workers)]
        client = None
        try:
            for d in daemons:
                d.stdout.readline()
            words = [f"topology.workers_per_group={workers}", f"pipeline.packets={workers}", "pipeline.sub_solvers=1",
                     f"train.finish.steps={STEPS}", "train.finish.epochs=1000", "eval.every=0", f"checkpoint.every={every}"]
            client = subprocess.Popen([os.path.join(binaries, "troupe"), "train", os.path.join(ROOT, "configs/jobs/mlp_fashion.toml"),
                                       "--cluster", file, "--json", *(w for s in words for w in ("--set", s))],
                                      stdout=subprocess.PIPE, text=True, bufsize=1)
            steps, killed, recovered = [], None, None
            for line in client.stdout:
                now, e = time.time(), json.loads(line)
                if e["event"] in ("error", "done"):
                    raise RuntimeError(line)
                if e["event"] == "recovered":
                    recovered = (len(steps), e["steps_again"])
                if e["event"] != "step":
                    continue
                steps.append((e["step"], now))
                if killed is None and e["step"] >= 3 * every + every // 2:
                    daemons[2].kill()
                    killed = time.time()
                if recovered and len(steps) > recovered[0] + 30:
                    break
            # Repeated steps are not always reported again.
            told, again = recovered
            last = max(s for s, t in steps[:told])
            back = next(t for s, t in steps[told:] if s > last)
            return back - killed, again, pace(steps, killed)
        finally:
            for p in [client, *daemons]:
                if p:
                    p.kill()
                    p.wait()


def torch(workers, every):
    with tempfile.TemporaryDirectory() as folder:
        worker = os.path.join(ROOT, "bench/torch_elastic_worker.py")
        launcher = subprocess.Popen([PYTHON, "-m", "torch.distributed.run", "--standalone", "--max_restarts=3",
                                     # torch 1.13 cannot read its own default of these two under Python 3.11
                                     "--redirects=1", "--tee=1", f"--log_dir={folder}/logs",
                                     f"--nproc_per_node={workers}", worker, folder, "128", str(STEPS), str(every)],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                    env=peer_env(1))
        path, killed, deadline = os.path.join(folder, "steps"), None, time.time() + 180
        try:
            while time.time() < deadline:
                time.sleep(0.005)
                if not os.path.exists(path):
                    continue
                with open(path) as f:
                    steps = [(int(s), float(t)) for s, t in re.findall(r"^(\d+) ([\d.]+)$", f.read(), re.M)]
                if not steps:
                    continue
                if killed is None and steps[-1][0] >= 3 * every + every // 2:
                    with open(os.path.join(folder, "rank-2")) as f:
                        os.kill(int(f.read()), signal.SIGKILL)
                    killed = time.time()
                if killed and steps[-1][1] > killed + 1 and steps[-1][0] > max(s for s, t in steps if t <= killed) + 5:
                    return lost_and_again(steps, killed)
            raise RuntimeError("torch did not continue within 180 s")
        finally:
            os.killpg(launcher.pid, signal.SIGKILL)
            launcher.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--every", type=int, default=50)
    p.add_argument("--out")
    a = p.parse_args()
    if shutil.which("python3") is None:
        sys.exit("python3 with torch is required")
    runs = {"Troupe": [], "torch": []}
    for i in range(a.rounds):
        for who, measure in (("Troupe", lambda: troupe(a.bin, a.workers, a.every)), ("torch", lambda: torch(a.workers, a.every))):
            took, again, each = measure()
            runs[who].append((took, again, each))
            print(f"round {i + 1}, {who}: {took:.2f} s until training was back at its step, {again} steps repeated, {1000 * each:.1f} ms each",
                  flush=True)
    middle = {who: [statistics.median(r[k] for r in list_) for k in range(3)] for who, list_ in runs.items()}
    text = f"""# What a killed worker costs, {datetime.date.today()}

**Question.** Of {a.workers} workers that train a perceptron one is killed with SIGKILL: how long until training is back at the step that it had reached?
**Command.** `bench/lost_worker.py`. **Where.** {machine()}, otherwise idle. Medians of {a.rounds} runs with minimum and maximum; alternating.

| | lost training, s | min | max | steps again | a step, ms |
|---|---|---|---|---|---|
"""
    for who, list_ in runs.items():
        took = [r[0] for r in list_]
        text += (f"| {who} | {middle[who][0]:.2f} | {min(took):.2f} | {max(took):.2f} | {middle[who][1]:.0f} | "
                 f"{1000 * middle[who][2]:.1f} |\n")
    text += (f"\nTroupe's to torch's: {middle['Troupe'][0] / middle['torch'][0]:.3f}. Both keep a checkpoint every {a.every} steps; torch continues from it, Troupe from the state of its shard.\n"
             "torch's launcher notices the death by polling, ends all other workers and restarts all of them: interpreter, imports, process\n"
             "group. Troupe's other daemons keep running; their roles restart in a plan without the dead node.\n")
    publish(text, a.out and os.path.join(ROOT, a.out), a.bin)


if __name__ == "__main__":
    main()
