#!/usr/bin/env python3
"""all_reduce (sum) of float32 between processes of one machine: libtroupe_exchange from Python, torch's Gloo from Python, and OpenMPI from C, alternating.

usage: bench/collectives.py [--bin build/release] [--ranks 2,4] [--megabytes 1,16,64,240] [--rounds 7] [--out docs/measurements/collectives.md]

It needs python3-torch, openmpi-bin and libopenmpi-dev. A call's time is that of the slowest rank, from a barrier on. The result is the median over the
rounds of the median over a round's calls. Every implementation has its values in private memory, as in a training loop. OpenMPI chooses its transport
within a machine (shared memory).
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

from environment import ROOT, machine, publish
from lost_worker import free_ports

sys.path.insert(0, os.path.join(ROOT, "examples", "own_loop"))
import run  # noqa: E402

CALLS = 5


def counts(a):
    return [round(float(m) * 1e6 / 4) for m in a.megabytes.split(",")]


def rank_of_ours(address, certs, rank, ranks, session, sizes):
    import time

    import torch
    from troupe_exchange import Session
    torch.set_num_threads(1)
    out = {}
    with Session(address, certs, session, rank, ranks) as s:
        for n in sizes:
            values = torch.arange(n, dtype=torch.float32) % 7
            want = ranks * (torch.arange(n, dtype=torch.float32) % 7)
            times = []
            for i in range(CALLS + 2):
                values.copy_(torch.arange(n, dtype=torch.float32) % 7)
                s.barrier()
                t = time.perf_counter()
                s.all_reduce(f"v{n}", values, "sum")
                times.append(time.perf_counter() - t)
            assert torch.equal(values, want), "the sum is wrong"
            out[n] = times[2:]
    print(json.dumps(out))


def rank_of_gloo(rank, ranks, port, sizes):
    import time

    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    out = {}
    for n in sizes:
        values, times = torch.arange(n, dtype=torch.float32) % 7, []
        for i in range(CALLS + 2):
            values.copy_(torch.arange(n, dtype=torch.float32) % 7)
            dist.barrier()
            t = time.perf_counter()
            dist.all_reduce(values)
            times.append(time.perf_counter() - t)
        out[n] = times[2:]
    print(json.dumps(out))


def slowest(commands, env=None):
    """Medians over calls of the slowest rank's time, by count."""
    processes = [subprocess.Popen(c, stdout=subprocess.PIPE, text=True, env=env) for c in commands]
    said = [p.communicate()[0] for p in processes]
    if any(p.returncode for p in processes):
        sys.exit("a rank failed: " + " ".join(commands[0]))
    all_ranks = [json.loads(s) for s in said]
    return {int(n): statistics.median(max(r[n][i] for r in all_ranks) for i in range(CALLS)) for n in all_ranks[0]}


def mpi(program, ranks, sizes):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    r = subprocess.run(["mpirun", "--oversubscribe", "-np", str(ranks), program, str(CALLS), *map(str, sizes)], capture_output=True, text=True, env=env)
    if r.returncode:
        sys.exit(r.stderr)
    out = {}
    for line in r.stdout.splitlines():
        n, t = line.split()
        out.setdefault(int(n), []).append(float(t))
    return {n: statistics.median(t) for n, t in out.items()}


def measure(a, ranks, program, address, certs):
    sizes, got = counts(a), {"troupe": [], "gloo": [], "openmpi": []}
    me = ["/usr/bin/python3", os.path.abspath(__file__), "--rank"]
    env = dict(os.environ, TROUPE_EXCHANGE_LIBRARY=os.path.join(a.bin, "lib", "libtroupe_exchange.so.0"), OMP_NUM_THREADS="1")
    for i in range(a.rounds):
        got["troupe"].append(slowest([[*me, json.dumps(["ours", address, certs, r, ranks, f"s{ranks}.{i}", sizes])] for r in range(ranks)], env))
        port = free_ports(1)[0]
        got["gloo"].append(slowest([[*me, json.dumps(["gloo", r, ranks, port, sizes])] for r in range(ranks)], env))
        got["openmpi"].append(mpi(program, ranks, sizes))
    rows = []
    for n in sizes:
        t = {k: 1000 * statistics.median(r[n] for r in v) for k, v in got.items()}
        rows.append(f"| {ranks} | {4 * n / 1e6:g} | {t['troupe']:.2f} | {t['openmpi']:.2f} | **{t['openmpi'] / t['troupe']:.2f}** | {t['gloo']:.2f} | **{t['gloo'] / t['troupe']:.1f}** |")
        print(rows[-1], flush=True)
    return rows


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--rank":
        kind, *rest = json.loads(sys.argv[2])
        return (rank_of_ours if kind == "ours" else rank_of_gloo)(*rest)
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release"))
    p.add_argument("--ranks", default="2,4")
    p.add_argument("--megabytes", default="1,16,64,240")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--out")
    a = p.parse_args()
    a.bin = os.path.abspath(a.bin)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "mpi")
        subprocess.run(["mpicc", "-O3", os.path.join(ROOT, "bench/collectives_mpi.c"), "-o", program], check=True)
        daemon, address, certs = run.start_daemon(os.path.join(a.bin, "bin"), folder)
        try:
            for ranks in map(int, a.ranks.split(",")):
                rows += measure(a, ranks, program, address, certs)
        finally:
            daemon.kill()
            daemon.wait()
    text = (f"{datetime.date.today()}. `bench/collectives.py --rounds {a.rounds}`. {machine()}. Milliseconds, medians of {a.rounds} rounds in turn.\n\n"
            "| processes | MB | Troupe | OpenMPI | its time over ours | Gloo | its time over ours |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n")
    publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
