#!/usr/bin/env python3
"""The exchange alone: time of a barrier, an all_reduce and an elastic step through one daemon on loopback, for two processes.

usage: bench/exchange.py [--bin build/release] [--rounds 200] [--out docs/measurements/exchange.md]

Each of two processes makes `rounds` calls of each kind and takes the median; the slower of the two counts. `GB/s` are bytes that a
rank sends and receives (twice the buffer), divided by that time. The machine must be idle.
"""
import argparse
import array
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from environment import ROOT, machine, publish

sys.path.insert(0, os.path.join(ROOT, "examples", "own_loop"))
import run  # noqa: E402
from troupe_exchange import Session  # noqa: E402

SIZES = (0, 1_000, 60_000, 1_000_000, 10_000_000)  # float32 values; 0: a barrier


def rank(address, certs, number, rounds):
    out = {}
    for method, call in (("average", "all_reduce"), ("easgd", "exchange")):
        with Session(address, certs, method, number, 2, averaging_method=method, alpha=0.5 if method == "easgd" else 0.0) as s:
            for n in SIZES:
                values = array.array("f", bytes(4 * max(n, 1)))
                step = s.barrier if n == 0 else lambda: getattr(s, call)(f"w{n}", values)
                times = []
                for _ in range(max(5, rounds // (1 + n // 100_000))):
                    t = time.perf_counter()
                    step()
                    times.append(time.perf_counter() - t)
                out[f"{'barrier' if n == 0 else call} {n}"] = statistics.median(times)
                s.barrier()
    print(json.dumps(out))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--out")
    parser.add_argument("--rank", nargs=3, metavar=("ADDRESS", "CERTS", "RANK"))
    args = parser.parse_args()
    if args.rank:
        return rank(args.rank[0], args.rank[1], int(args.rank[2]), args.rounds)
    os.environ.setdefault("TROUPE_EXCHANGE_LIBRARY", os.path.join(args.bin, "lib", "libtroupe_exchange.so"))
    with tempfile.TemporaryDirectory() as folder:
        daemon, address, certs = run.start_daemon(os.path.join(args.bin, "bin"), folder)
        try:
            ranks = [subprocess.Popen([sys.executable, __file__, "--rounds", str(args.rounds), "--rank", address, certs, str(r)],
                                      stdout=subprocess.PIPE, text=True) for r in range(2)]
            said = [json.loads(r.communicate(timeout=600)[0]) for r in ranks]
        finally:
            daemon.terminate()
            daemon.wait(30)
    slowest = {key: max(s[key] for s in said) for key in said[0]}
    largest = {c: max((k for k in slowest if k.startswith(c + " ")), key=lambda k: int(k.split()[1])) for c in ("all_reduce", "exchange")}
    rate = {c: 8 * int(k.split()[1]) / slowest[k] / 1e9 for c, k in largest.items()}
    rows = [f"# The exchange alone, {datetime.date.today()}\n\n**Question.** What does a call of libtroupe_exchange cost?\n"
            f"**Answer.** A barrier {1e3 * slowest['barrier 0']:.2f} ms; {rate['all_reduce']:.2f} GB/s per rank for a large all_reduce, "
            f"{rate['exchange']:.2f} for a large elastic step: every byte passes through the daemon, under TLS, and is added there.\n"
            f"**Command.** `bench/exchange.py`. **Where.** {machine()}, otherwise idle. Two processes, one daemon, loopback, mutual TLS; "
            "medians.\n", "| call | float32 values | ms | GB/s of a rank, both ways |", "|---|---|---|---|"]
    for key in said[0]:
        call, n = key.split()
        both_ways = "" if n == "0" else f"{8 * int(n) / slowest[key] / 1e9:.2f}"
        rows.append(f"| {call} | {int(n):,} | {1e3 * slowest[key]:.3f} | {both_ways} |")
    rows.append("\n**What it does not show.** More than two processes; several machines; a daemon that hosts roles at the same time.")
    text = "\n".join(rows) + "\n"
    publish(text, args.out, args.bin)


if __name__ == "__main__":
    main()
