#!/usr/bin/env python3
"""Bytes of the busiest node per step with each reducer, and the choice of `auto`, for 2 to 1,024 nodes: counted from plans, nothing runs.

usage: bench/reducers.py [--bin build/release/bin/troupe] [--job configs/jobs/singa_allreduce.toml] [--nodes 2,4,8,...] [--each 1] [--out FILE]

  --each  workers on a node

Bytes are those of the busier direction of the busiest node, in units of the job's parameters (W).
"""
import argparse
import datetime
import json
import os
import subprocess
import tempfile

from environment import ROOT, publish

REDUCERS = ["server", "sharded", "ring", "tree", "hierarchical", "auto"]


def cluster_file(folder, nodes):
    path = os.path.join(folder, f"{nodes}.toml")
    with open(path, "w") as f:
        f.write('[cluster]\nname = "counted"\n[cluster.tls]\ndir = "certs"\n')
        for n in range(1, nodes + 1):
            roles = '["coordinator", "worker", "server", "data"]' if n == 1 else '["worker", "server", "data"]'
            f.write(f'[[node]]\nname = "n{n}"\naddress = "10.{n // 250}.{n % 250}.1:7700"\nroles = {roles}\n')
    return path


def plan(a, cluster, workers, reducer):
    run = subprocess.run([a.bin, "plan", a.job, "--json", "--cluster", cluster, "--set", f"topology={{workers_per_group={workers}}}", "--set",
                          f"pipeline.packets={workers}", "--set", f"data.batch={workers}", "--set", "eval.every=0", "--set",
                          f'train.exchange={{reducer="{reducer}"}}'], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{reducer}, {workers} workers: {run.stderr or run.stdout}")
    return json.loads(run.stdout.splitlines()[0])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--job", default=os.path.join(ROOT, "configs/jobs/singa_allreduce.toml"))
    p.add_argument("--nodes", default="2,4,8,16,32,64,128,256,512,1024")
    p.add_argument("--each", type=int, default=1)
    p.add_argument("--out")
    a = p.parse_args()
    lines = [f"| nodes | {' | '.join(REDUCERS[:-1])} | auto |", "|---" * (len(REDUCERS) + 1) + "|"]
    with tempfile.TemporaryDirectory() as folder:
        for nodes in map(int, a.nodes.split(",")):
            cluster, cells = cluster_file(folder, nodes), []
            w = None
            for reducer in REDUCERS:
                o = plan(a, cluster, nodes * a.each, reducer)
                w = w or 4 * o["parameters"]
                busiest = max([0, *o["bytes_per_step"].values(), *o["bytes_received_per_step"].values()])
                cells.append(o["reducer"] if reducer == "auto" else f"{busiest / w:.2f}")
            lines.append(f"| {nodes} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    text = (f"{datetime.date.today()}. `bench/reducers.py --job {os.path.relpath(a.job, ROOT)} --each {a.each}`, counted from plans. "
            f"Bytes of the busiest node's busier direction in a step, over the parameters' bytes.\n\n" + "\n".join(lines) + "\n")
    publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
