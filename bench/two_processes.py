#!/usr/bin/env python3
"""Data-parallel training in two processes of one thread each, against one process of one thread: Troupe's daemons, over shared memory and over TCP
with TLS, and torch's DistributedDataParallel over Gloo, alternating on the same machine.

usage: bench/two_processes.py [--bin build/release/bin] [--rounds 5] [--net lenet,mlp,alexnet] [--reducer server] [--out docs/measurements/two_processes.md]

Every worker has the batch size of the single process, so without losses a step takes as long; the efficiency is the quotient of the two times.
Troupe's step time is the difference of a short and a long job, by their own clocks. torch's is the median of the steps after the tenth.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

from compare import NETS
from environment import PYTHON, ROOT, machine, peer_env, publish
from lost_worker import free_ports

STEPS = {"lenet": (100, 600), "mlp": (50, 250), "alexnet": (4, 14)}
BATCH = {"lenet": 64, "mlp": 128, "alexnet": 32}


class Cluster:
    """Two daemons, a worker and a shard on each."""

    def __init__(self, binaries, shared_memory, workers):
        self.binaries, self.folder = binaries, tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "cluster.toml")
        with open(self.file, "w") as f:
            f.write(f'[cluster]\nname = "bench"\nshared_memory = {str(shared_memory).lower()}\n[cluster.tls]\ndir = "certs"\n')
            for i, port in enumerate(free_ports(workers)):
                roles = '"coordinator", "worker", "server", "data"' if i == 0 else '"worker", "server", "data"'
                f.write(f'[[node]]\nname = "n{i + 1}"\naddress = "127.0.0.1:{port}"\ndevices = ["cpu:0"]\nroles = [{roles}]\n')
        subprocess.run([os.path.join(binaries, "troupe"), "init-cluster", "--cluster", self.file], check=True, stdout=subprocess.DEVNULL)
        self.daemons = [subprocess.Popen([os.path.join(binaries, "trouped"), "--cluster", self.file, "--node", f"n{i + 1}"],
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for i in range(workers)]
        for d in self.daemons:
            d.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for d in self.daemons:
            d.kill()
            d.wait()
        self.folder.cleanup()

    def seconds(self, net, steps, workers, reducer):
        words = [f"topology.workers_per_group={workers}", f"topology.servers_per_group={workers}", f"pipeline.packets={workers}",
                 "pipeline.sub_solvers=1", f"train.finish.steps={steps}", "train.finish.epochs=1000", "eval.every=0", 'eval.sampler={kind="sample", examples=64}', 'eval.batch=32',
                 f"data.batch={workers * BATCH[net]}", f'train.exchange={{reducer="{reducer}"}}']
        r = subprocess.run([os.path.join(self.binaries, "troupe"), "train", os.path.join(ROOT, "configs/jobs", NETS[net][1]), "--cluster",
                            self.file, "--json", *(w for s in words for w in ("--set", s))], stdout=subprocess.PIPE, text=True)
        done = next((e for e in map(json.loads, r.stdout.splitlines()) if e["event"] == "done"), None)
        if r.returncode != 0 or not done:
            sys.exit(r.stdout[-2000:])
        return done["seconds"]

    def step_ms(self, net, workers, reducer):
        few, many = STEPS[net]
        return 1000 * (self.seconds(net, many, workers, reducer) - self.seconds(net, few, workers, reducer)) / (many - few)


def torch_said(net, ranks, more=None):
    """The output of the slowest rank of bench/torch_ddp.py."""
    env = {**peer_env(1), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0])}
    all_ranks = [subprocess.Popen([PYTHON, os.path.join(ROOT, "bench/torch_ddp.py"), net, str(STEPS[net][1])],
                                  env={**env, **(more or {}), "RANK": str(r), "WORLD_SIZE": str(ranks)}, stdout=subprocess.PIPE, text=True) for r in range(ranks)]
    said = [p.communicate()[0] for p in all_ranks]
    if any(p.returncode for p in all_ranks):
        sys.exit("torch failed")
    return max(map(json.loads, said), key=lambda s: s["ms"])


def torch_ms(net, ranks):
    return torch_said(net, ranks)["ms"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--net", default="lenet,mlp,alexnet")
    p.add_argument("--reducer", default="server")
    p.add_argument("--out")
    a = p.parse_args()
    rows = []
    with Cluster(a.bin, True, 1) as one, Cluster(a.bin, True, 2) as shared, Cluster(a.bin, False, 2) as tcp:
        for net in a.net.split(","):
            got = {k: [] for k in ("one", "shm", "tcp", "torch one", "ddp")}
            for _ in range(a.rounds):
                got["one"].append(one.step_ms(net, 1, "server"))
                got["shm"].append(shared.step_ms(net, 2, a.reducer))
                got["tcp"].append(tcp.step_ms(net, 2, a.reducer))
                got["torch one"].append(torch_ms(net, 1))
                got["ddp"].append(torch_ms(net, 2))
            m = {k: statistics.median(v) for k, v in got.items()}
            rows.append(f"| {NETS[net][0]} | {m['one']:.2f} | {m['shm']:.2f} | **{m['one'] / m['shm']:.3f}** | {m['tcp']:.2f} | {m['one'] / m['tcp']:.3f} "
                        f"| {m['torch one']:.2f} | {m['ddp']:.2f} | {m['torch one'] / m['ddp']:.3f} |")
            print(rows[-1], got, flush=True)
    head = ("| net, a worker's batch | one | shm | efficiency | tcp | efficiency | torch, one | DDP | efficiency |\n|" + "---|" * 9)
    text = (f"{datetime.date.today()}. `bench/two_processes.py --rounds {a.rounds} --reducer {a.reducer}`. {machine()}. Milliseconds a step, medians of "
            f"{a.rounds} rounds in turn.\n\n{head}\n" + "\n".join(rows) + "\n")
    publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
