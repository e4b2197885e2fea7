#!/usr/bin/env python3
"""A torch training loop in two processes of one thread each: DistributedDataParallel over Gloo, and the same with Troupe's hook instead of Gloo's
all_reduce (examples/own_loop/troupe_exchange.py, ddp_hook); and the loop in one process. They alternate.

usage: bench/ddp_hook.py [--bin build/release] [--rounds 5] [--net lenet,mlp,alexnet] [--ranks 2] [--out docs/measurements/ddp_hook.md]

Every process has the batch size of the single process. A step's time is the median of the slower rank's steps after the tenth; the median over the rounds
counts. Both train from one seed, and their final weights are compared.
"""
import argparse
import datetime
import os
import statistics
import sys
import tempfile

from compare import NETS
from environment import ROOT, machine, publish
from two_processes import torch_said

sys.path.insert(0, os.path.join(ROOT, "examples", "own_loop"))
import run  # noqa: E402


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--net", default="lenet,mlp,alexnet")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--out")
    a = p.parse_args()
    a.bin = os.path.abspath(a.bin)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        daemon, address, certs = run.start_daemon(os.path.join(a.bin, "bin"), folder)
        hook = {"TROUPE_EXCHANGE_LIBRARY": os.path.join(a.bin, "lib", "libtroupe_exchange.so.0"), "EXCHANGE_ADDRESS": address, "EXCHANGE_TLS": certs}
        for net in a.net.split(","):
            got, same = {"one": [], "gloo": [], "hook": []}, True
            for i in range(a.rounds):
                got["one"].append(torch_said(net, 1)["ms"])
                gloo, ours = torch_said(net, a.ranks), torch_said(net, a.ranks, {**hook, "EXCHANGE_SESSION": f"{net}{i}"})
                got["gloo"].append(gloo["ms"])
                got["hook"].append(ours["ms"])
                same = same and gloo["sha256"] == ours["sha256"]
            m = {k: statistics.median(v) for k, v in got.items()}
            rows.append(f"| {NETS[net][0]} | {m['one']:.2f} | {m['gloo']:.2f} | {m['one'] / m['gloo']:.3f} | {m['hook']:.2f} | **{m['one'] / m['hook']:.3f}** "
                        f"| **{m['gloo'] / m['hook']:.3f}** | {'the same bits' if same else 'not the same bits'} |")
            print(rows[-1], got, flush=True)
        daemon.kill()
        daemon.wait()
    head = "| net, a process's batch | one | DDP, Gloo | efficiency | DDP, our hook | efficiency | Gloo's time over ours | weights |\n|" + "---|" * 8
    text = (f"{datetime.date.today()}. `bench/ddp_hook.py --rounds {a.rounds} --ranks {a.ranks}`. {machine()}. Milliseconds a step, medians of "
            f"{a.rounds} rounds in turn.\n\n{head}\n" + "\n".join(rows) + "\n")
    publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
