#!/usr/bin/env python3
"""An epoch of LeNet on Fashion-MNIST, loading included: Troupe (configs/jobs/lenet_fashion.toml) through its actors against tuned PyTorch.

usage: bench/epoch.py [--bin build/release/bin/troupe] [--rounds 3] [--out docs/measurements/epoch.md]

The peer keeps the whole set in memory as bytes, shuffles it, and makes a batch by indexing and scaling, which is faster than a DataLoader;
tuned as in bench/compare.py, the better of NCHW and channels-last. Troupe runs with packets = threads = sub-solvers; its time is that of a run of
two epochs less that of a run of one, so that start-up does not count on either side. Both train and neither evaluates. Batch 64 and momentum as in the job.
"""
import argparse
import datetime
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
DATA = "/usr/share/datasets/fashion-mnist"  # where Debian's package has it


def torch_epoch(threads, layout):
    import numpy
    import torch
    import torch.nn.functional as F

    from torch_step import LeNet
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    read = lambda name, skip: torch.from_numpy(numpy.frombuffer(gzip.open(os.path.join(DATA, name)).read(), numpy.uint8, offset=skip).copy())
    images = read("train-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
    labels = read("train-labels-idx1-ubyte.gz", 8).long()
    form = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    net = LeNet().to(memory_format=form)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)

    def steps(n):
        order = torch.randperm(len(labels))
        for i in range(n):
            rows = order[64 * i:64 * i + 64]
            x = images[rows].float().mul_(1 / 256).contiguous(memory_format=form)
            opt.zero_grad(set_to_none=False)
            F.cross_entropy(net(x), labels[rows]).backward()
            opt.step()

    steps(20)
    begin = time.perf_counter()
    steps(len(labels) // 64)
    print(json.dumps({"s": time.perf_counter() - begin, "steps": len(labels) // 64}))


def peer(threads, layout, kernel):
    from environment import PYTHON, peer_env
    r = subprocess.run([PYTHON, os.path.abspath(__file__), "--torch", str(threads), "--layout", layout], env=peer_env(threads, kernel), capture_output=True,
                       text=True, check=True)
    return json.loads(r.stdout)


def run_s(binary, threads, steps):
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        r = subprocess.run([binary, "train", os.path.join(ROOT, "configs/jobs/lenet_fashion.toml"), "--json", "--set", f"pipeline.packets={threads}",
                            "--set", f"pipeline.sub_solvers={threads}", "--set", f"train.finish={{steps={steps}}}", "--set", "eval.every=0"],
                           capture_output=True, text=True, cwd=folder)
        if r.returncode != 0:
            sys.exit(r.stdout + r.stderr)
        return time.perf_counter() - begin


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.abspath(os.path.join(ROOT, "build/release/bin/troupe")))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--torch", type=int, help=argparse.SUPPRESS)
    p.add_argument("--layout", help=argparse.SUPPRESS)
    p.add_argument("--out")
    a = p.parse_args()
    if a.torch:
        return torch_epoch(a.torch, a.layout)
    from environment import machine, peer_reports, publish, sound
    from step_page import LAYOUTS, ratio_text, row, table
    kernels, rows = sound(peer_reports()), {}
    for threads in (1, 2):
        times = {}
        for _ in range(a.rounds):
            for k in kernels:
                for layout in LAYOUTS:
                    one = peer(threads, layout, k)
                    times.setdefault(("torch", k.name, layout), []).append(one["s"])
            ours = run_s(a.bin, threads, 2 * one["steps"]) - run_s(a.bin, threads, one["steps"])
            times.setdefault(("Troupe", "as set", "actors"), []).append(ours)
        rows["epoch of Fashion-MNIST, s", threads] = row(times)
        print(table(rows)[-1], flush=True)
    ratios = [r["ratio"] for r in rows.values()]
    as_set = " and ".join(ratio_text(r["ratio_as_set"]) for r in rows.values())
    print(f"Epoch, one thread and two: PyTorch / Troupe {ratios[0]:.2f} and {ratios[1]:.2f}, {as_set} with the variables as set")
    text = f"""# An epoch of Fashion-MNIST with LeNet, {datetime.date.today()}

**Question.** How fast is an epoch, loading included, compared with tuned PyTorch?
**Answer.** {ratios[0]:.2f} times as fast with one thread, {ratios[1]:.2f} with two.

**Command.** `bench/epoch.py --rounds {a.rounds}`. **Where.** {machine()}. Batch 64, fp32, medians.

""" + "\n".join(table(rows)) + """

**What it does not show.** The peer's data is in memory and is indexed in the training thread: workers of a DataLoader would take the cores that
train. Evaluation; more threads.
"""
    publish(text, a.out, a.bin, kernels)


if __name__ == "__main__":
    main()
