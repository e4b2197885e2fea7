#!/usr/bin/env python3
"""Troupe through its actors against tuned PyTorch on the same machine in one run: forward + backward + update, fp32.

usage: bench/compare.py [--bin build/release/bin/troupe] [--rounds 3] [--seconds 4] [--out docs/measurements/FILE.md]

The peer is PyTorch as a careful user would run it: the better of NCHW and channels-last, as many BLAS threads as torch threads, and
glibc's malloc kept from returning memory to the kernel between steps. Both sides run in turn, round after round; what is printed
are medians over the rounds and the ratio of the two. Troupe's packets = threads = sub-solvers, and its time includes loading and
everything the actors do.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
NETS = {
    "lenet": ("LeNet b64", "lenet_fashion.toml"),
    "cifar10_full": ("CIFAR10-full b100", "cifar10_full.toml"),
    "mlp": ("MLP 784-1024-1024-10 b128", "mlp_fashion.toml"),
    "alexnet": ("AlexNet b32", "alexnet.toml", "data.batch=32"),
    "resnet20": ("ResNet-20 b128", "resnet20.toml"),
}
# With several threads AlexNet's linear layers, 59 of its 61 million weights, are split by feature between as many workers of the one process and take
# the packets of a step as one (Krizhevsky 2014, scheme (a); docs/partitioning.md): each weight is read once a step by one core, where packets would
# have every core read all of them and their gradients added.
SPLIT = {"alexnet": tuple(f"layer.{l}.{what}" for l in ("fc6", "fc7", "fc8") for what in ("partition=feature", "gather=true"))}
SLOW = ("alexnet", "resnet20")  # a few steps of these take as long as a hundred of others


def torch_ms(net, threads, layout, seconds, precision="fp32"):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
               MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="4294967296", MALLOC_TOP_PAD_=str(256 << 20))
    r = subprocess.run(["/usr/bin/python3", os.path.join(HERE, "torch_step.py"), net, str(threads), layout, str(seconds), precision],
                       env=env, capture_output=True, text=True, check=True)
    return json.loads(r.stdout)["ms"]


def troupe_time(binary, job, threads, steps, settings):
    more = [word for s in settings for word in ("--set", s)]
    r = subprocess.run([binary, "time", os.path.join(ROOT, "configs/jobs", job), "--json", "--threads", str(threads), "--steps", str(steps),
                        "--set", f"pipeline.packets={threads}", "--set", f"pipeline.sub_solvers={threads}", *more],
                       capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(r.stdout + r.stderr)
    return next(e for e in map(json.loads, r.stdout.splitlines()) if e["event"] == "time")


def settings_of(net, threads):
    split = SPLIT.get(net, ()) if threads > 1 else ()
    return [*NETS[net][2:], *split, *([f"topology.workers_per_group={threads}"] if split else [])]


def publish(text, out):
    """To the file `out`, or to stdout."""
    if out:
        with open(out, "w") as f:
            f.write(text)
    else:
        print("\n" + text)


def machine():
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    flags = next((l for l in open("/proc/cpuinfo") if l.startswith("flags")), "")
    return f"{model}, {os.cpu_count()} cores, {'AVX-512' if 'avx512f' in flags else 'AVX2' if 'avx2' in flags else 'SSE'}"


def torch_version():
    return subprocess.run(["/usr/bin/python3", "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=4)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--nets", default=",".join(NETS))
    p.add_argument("--out")
    a = p.parse_args()
    ratios, alone = {}, {}
    lines = [f"{machine()}. One run of `bench/compare.py`, {a.rounds} rounds, medians; ms per step (forward, backward, update; fp32).", "",
             "| net | threads | torch NCHW | torch channels-last | Troupe, plain loop | Troupe, actors | torch / Troupe |", "|---|---|---|---|---|---|---|"]
    for net in a.nets.split(","):
        title, job = NETS[net][:2]
        for threads in (1, 2):
            got = {"nchw": [], "channels_last": [], "plain": [], "actors": []}
            for _ in range(a.rounds):
                for layout in ("nchw", "channels_last"):
                    got[layout].append(torch_ms(net, threads, layout, a.seconds))
                t = troupe_time(a.bin, job, threads, min(a.steps, 24) if net in SLOW else a.steps, settings_of(net, threads))
                got["plain"].append(t["plain_ms"])
                got["actors"].append(t["actors_ms"])
            m = {k: statistics.median(v) for k, v in got.items()}
            best = min(m["nchw"], m["channels_last"])
            ratios.setdefault(title, []).append(f"{best / m['actors']:.2f}")
            lines.append(f"| {title} | {threads} | {m['nchw']:.2f} | {m['channels_last']:.2f} | {m['plain']:.2f} | {m['actors']:.2f} | "
                         f"{best / m['actors']:.2f} |")
            alone.setdefault(title, []).append(m["actors"])
            print(lines[-1], flush=True)
    head = [f"# Troupe against PyTorch, {datetime.date.today()}", "",
            "**Question.** How fast is a training step through Troupe's actors beside tuned PyTorch, with one thread and with two?",
            "**Answer.** " + "; ".join(f"{title} {' and '.join(r)} times as fast" for title, r in ratios.items()) + ".",
            "Two cores against one, through the actors: " + ", ".join(f"{title} {t[0] / t[1]:.2f}" for title, t in alone.items()) + ".", ""]
    text = "\n".join(head + lines) + "\n\nThe plain loop always runs on one thread, with the same packets. With two threads AlexNet's fc6, fc7 and fc8 are\n" \
        "split by feature between two workers of the process and take both packets as one (`--set topology.workers_per_group=2\n" \
        "--set layer.fc6.partition=feature --set layer.fc6.gather=true`).\n\n" \
        "**What it does not show.** Troupe's time includes loading and everything its actors do; PyTorch's step works on one batch that\n" \
        "stays in memory. More than two threads, other machines, larger nets, bf16 (`bench/bf16.py`): not tried.\n"
    if a.out:
        with open(a.out, "w") as f:
            f.write(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
