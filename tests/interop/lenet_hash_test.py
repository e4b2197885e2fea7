#!/usr/bin/env python3
"""LeNet on Fashion-MNIST, 200 steps, packets = 4: the same weights hash for every number of workers, shards and sub-solvers, fused or
not, embedded, on three daemons over TCP, and in a second run.

usage: lenet_hash_test.py TROUPE TROUPED JOB_FILE [--all]
Without --all every value of every setting appears, but not every combination of them.
"""
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile

troupe, trouped, job = sys.argv[1:4]
EVERY = "--all" in sys.argv
STEPS = ["--set", "train.finish={steps=200}", "--set", "eval.every=0", "--set", "pipeline.packets=4"]


def settings(workers, shards, solvers, fuse):
    return STEPS + ["--set", f"topology.workers_per_group={workers}", "--set", f"topology.servers_per_group={shards}",
                    "--set", f"pipeline.sub_solvers={solvers}", "--set", f"pipeline.fuse={fuse}"]


def train(*extra):
    r = subprocess.run([troupe, "train", job, "--json", *extra], capture_output=True, text=True, timeout=240)
    if r.returncode != 0:
        sys.exit(f"troupe train {' '.join(extra)} ended with {r.returncode}\n{r.stdout[-1500:]}\n{r.stderr[-1500:]}")
    done = json.loads(r.stdout.splitlines()[-1])
    assert done["event"] == "done" and done["steps"] == 200, done
    return done


held = []  # sockets bound to the ports until this process ends; after a close the kernel could give the port to another process


def free_ports(n):
    for _ in range(n):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # daemons set it too, so they can listen on the bound port
        s.bind(("127.0.0.1", 0))
        held.append(s)
    return [s.getsockname()[1] for s in held[-n:]]


def on_daemons():
    """Three daemons on loopback; a worker and a shard on each."""
    with tempfile.TemporaryDirectory() as tmp:
        file = os.path.join(tmp, "cluster.toml")
        with open(file, "w") as f:
            f.write('[cluster]\nname = "hash"\n[cluster.tls]\ndir = "certs"\n')
            for i, port in enumerate(free_ports(3)):
                f.write(f'[[node]]\nname = "n{i + 1}"\naddress = "127.0.0.1:{port}"\n')
        subprocess.run([troupe, "init-cluster", "--cluster", file], check=True, stdout=subprocess.DEVNULL)
        daemons = []
        try:
            for i in range(3):
                log = open(os.path.join(tmp, f"n{i + 1}.log"), "w")
                d = subprocess.Popen([trouped, "--cluster", file, "--node", f"n{i + 1}"], stdout=subprocess.PIPE, stderr=log, text=True)
                daemons.append(d)
                line = d.stdout.readline()
                assert line.startswith("ready"), line
            return train("--cluster", file, *settings(3, 3, 2, "none"))
        finally:
            for d in daemons:
                d.terminate()
            for d in daemons:
                d.wait(30)


def main():
    want = train(*settings(1, 1, 1, "none"))["weights_sha256"]
    if EVERY:
        grid = list(itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2), ("none", "auto")))
    else:
        grid = [(1, 1, 1, "none"), (2, 3, 2, "none"), (3, 2, 1, "auto"), (4, 3, 2, "auto"), (1, 2, 2, "auto"), (4, 1, 1, "none")]
    for one in grid:
        got = train(*settings(*one))["weights_sha256"]
        print("workers, shards, sub_solvers, fuse =", one, got, flush=True)
        assert got == want, f"{one}: {got} is not {want}"
    done = on_daemons()
    print("three daemons:", done["weights_sha256"], "tcp bytes", done.get("tcp_bytes"))
    assert done["weights_sha256"] == want, done
    assert done["tcp_bytes"] > 1_000_000, done
    print(f"{len(grid) + 2} runs, one hash: {want}")


main()
