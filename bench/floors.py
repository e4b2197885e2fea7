#!/usr/bin/env python3
"""Compares every layer of the nets with its floor on this machine: the time that its operations take at the rate of the best product of large
matrices (sgemm), or its bytes at the rate of memory, whichever is longer.

usage: bench/floors.py [--bin build/release/bin/troupe] [--nets lenet,cifar10_full,...] [--rounds 3] [--out docs/measurements/floors.md]

Times are those of `troupe time` (plain loop, one thread, one packet), for every layer the minimum of the rounds. Bytes are those that a layer must
read and write once: inputs, parameters and outputs forward; gradients, saved tensors, parameters and their gradients backward. Layers
computed as one count as one. sgemm and memory are measured in the same run (PyTorch's BLAS, one thread: 1024 x 1024 x 1024; z = a x + y over 256 MiB).
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
from compare import troupe_time  # noqa: E402
from environment import PYTHON, machine, peer_env, publish  # noqa: E402

NETS = {
    "lenet": ("LeNet b64", "lenet_fashion.toml", []),
    "cifar10_full": ("CIFAR10-full b100", "cifar10_full.toml", []),
    "mlp": ("MLP 784-1024-1024-10 b128", "mlp_fashion.toml", []),
    "alexnet": ("AlexNet b32", "alexnet.toml", ["data.batch=32"]),
    "resnet20": ("ResNet-20 b128", "resnet20.toml", []),
}

PEAKS = """
import json, time, torch
torch.set_num_threads(1)
a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
x, y, z = (torch.randn(1 << 25) for _ in range(3))
def best(n, f):
    least = 1e9
    for _ in range(n):
        t = time.perf_counter(); f(); least = min(least, time.perf_counter() - t)
    return least
print(json.dumps({"flops": 2 * 1024**3 / best(30, lambda: torch.mm(a, b)), "bytes": 3 * 4 * (1 << 25) / best(10, lambda: torch.add(y, x, alpha=2.0, out=z))}))
"""


def peaks():
    r = subprocess.run([PYTHON, "-c", PEAKS], env=peer_env(1), capture_output=True, text=True, check=True)
    return json.loads(r.stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--nets", default=",".join(NETS))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--out")
    a = p.parse_args()
    peak = peaks()
    whole, parts = [], []
    for net in a.nets.split(","):
        title, job, settings = NETS[net]
        least, work, rest = {}, {}, {}
        for _ in range(a.rounds):
            t = troupe_time(a.bin, job, 1, 12 if net in ("alexnet", "resnet20") else 60, settings)
            for l in t["layers"]:
                for side in ("forward", "backward"):
                    key = (l["name"], side)
                    least[key] = min(least.get(key, 1e9), l[side + "_ms"])
                    work[key] = (l[side + "_flops"], l[side + "_bytes"])
            rest["update_ms"] = min(rest.get("update_ms", 1e9), t["update_ms"])
        floor = {k: (1000 * f / peak["flops"], 1000 * b / peak["bytes"]) for k, (f, b) in work.items()}
        lines = [f"## {title}", "", "| layer | forward ms | floor | times | backward ms | floor | times |", "|---|---|---|---|---|---|---|"]
        for name in dict.fromkeys(n for n, _ in least):
            cells = []
            for side in ("forward", "backward"):
                flops, moved = floor[name, side]
                most = max(flops, moved)
                if least[name, side] < 0.0005 or most == 0:
                    cells.append(f"{least[name, side]:.3f} | - | -" if least[name, side] >= 0.0005 else "- | - | -")
                else:
                    cells.append(f"{least[name, side]:.3f} | {most:.3f} {'sgemm' if flops > moved else 'memory'} | {least[name, side] / most:.2f}")
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        parts.append("\n".join(lines))
        time, bound = sum(least.values()), sum(max(f) for f in floor.values())
        whole.append(f"| {title} | {time:.2f} | {bound:.2f} | {time / bound:.2f} | {rest['update_ms']:.3f} |")
        print(whole[-1], flush=True)
    text = f"""# Layers and their floors, {datetime.date.today()}

**Question.** How far is every layer from the shortest time that this machine allows?
**Answer.** Time over floor, summed over the layers of a net, forward and backward:

| net | layers ms | floor ms | times | update ms |
|---|---|---|---|---|
""" + "\n".join(whole) + f"""

**Command.** `bench/floors.py --rounds {a.rounds}`. **Where.** {machine()}; fp32, one thread, one packet. The floor of a layer is the longer of its
operations at sgemm's {peak["flops"] / 1e9:.0f} GFLOP/s and its bytes at memory's {peak["bytes"] / 1e9:.1f} GB/s, both measured in the same run.

""" + "\n\n".join(parts) + """

**What it does not show.** Below 1: winograd needs fewer operations than the plain sum that is counted, Troupe's kernels exceed OpenBLAS' rate, and
activations that are still in a cache move faster than memory. Two threads. Operations of layers without matrix products are not counted.
"""
    publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
