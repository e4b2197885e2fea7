#!/usr/bin/env python3
"""goodput.py [--failures N] [--nodes N] [--members N] [--json]: share of time spent training in a cluster whose nodes fail, in simulation.

Runs build/release/bin/bench_goodput (bench/goodput.cpp describes what is simulated event by event) for nodes with a mean time between failures
of 50,000 h and of 500 h: with checkpoints at Daly's optimal interval, at half and twice of it, and with recovery from live state, which continues
at the current step without the failed node. The estimate of Young and Daly for checkpoints (Daly 2006, "A higher order estimate of the optimum
checkpoint interval") is printed next to it:

  wall time = mu exp(R / mu) (exp((tau + delta) / mu) - 1) work / tau

mu: mean time between failures of the cluster; delta: time that training stops for a checkpoint; R: time that it stops after a failure and while a
node returns, as measured in the simulation; tau: time between checkpoints. Exit code 1 if a simulation with checkpoints is more than 5 % off.
"""
import argparse
import json
import math
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DELTA, STEP = 30.0, 1.0  # s


def interval(mu, delta):
    """Daly's optimal interval between checkpoints, seconds."""
    x = math.sqrt(delta / (2 * mu))
    return math.sqrt(2 * delta * mu) * (1 + x / 3 + x * x / 9) - delta if delta < 2 * mu else mu


def daly(mu, delta, tau, recovery):
    return tau / (mu * math.exp(recovery / mu) * (math.exp((tau + delta) / mu) - 1))


def simulate(binary, **keys):
    words = [f"{k}={v}" for k, v in keys.items()]
    done = subprocess.run([binary, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench_goodput {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--nodes", type=int, default=1024)
    p.add_argument("--members", type=int, help="simulate this many nodes with the same total failure rate; a plan's messages grow with the square of their number")
    p.add_argument("--failures", type=int, default=400)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--json", action="store_true")
    p.add_argument("--binary", default=os.path.join(TOP, "build/release/bin/bench_goodput"))
    a = p.parse_args()
    members = a.members or a.nodes
    rows, worst = [], 0.0
    for mtbf in (50000, 500):
        mu = mtbf * 3600 / (a.nodes - 1)
        best = interval(mu, DELTA)
        for live, share in ((0, 0.5), (0, 1), (0, 2), (1, 1), (1, 0)):
            every = round(best * share / STEP) * STEP  # 0: none
            got = simulate(a.binary, nodes=members, mtbf_h=mtbf * (members - 1) / (a.nodes - 1), every_s=every, checkpoint_s=DELTA, step_s=STEP, failures=a.failures,
                           live=live, seed=a.seed)
            stands = got["recovery_s"] + got["back_s"] * got["taken_back"] / max(got["failures"], 1)
            says = daly(mu, DELTA, every, stands) if not live else None
            off = abs(got["goodput"] - says) / says if says else None
            worst = max(worst, off or 0)
            rows.append({**got, "daly": says, "off": off})
            if a.json:
                print(json.dumps(rows[-1]), flush=True)
                continue
            name = ("live state, " if live else "") + (f"checkpoint every {every:.0f} s" if every else "no checkpoint")
            print(f"{mtbf:6d} h  {name:36s} goodput {got['goodput']:.4f}" + (f"  Daly {says:.4f}  {100 * off:.2f} % off" if says else " " * 28) +
                  f"  {got['failures']} failures in {got['days']:.1f} d, {got['steps_again']:.1f} steps repeated, stopped {got['recovery_s']:.2f} s", flush=True)
    return 1 if worst > 0.05 else 0


if __name__ == "__main__":
    sys.exit(main())
