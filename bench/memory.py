#!/usr/bin/env python3
"""Peak memory of training, Troupe through its actors against PyTorch: forward + backward + update with momentum, fp32, same batch.

usage: bench/memory.py [--bin build/release/bin/troupe] [--nets alexnet,...] [--out docs/measurements/memory.md]

Every run is a separate process; its peak resident memory counts (VmHWM, as reported by wait4), libraries included. The peer is
bench/torch_step.py, with the defaults of glibc's malloc and with the settings under which it is fastest (bench/compare.py), NCHW and
channels-last; Troupe is compared with the smallest of them. The page also has the memory of the tensors alone, as `troupe plan` predicts it.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

import compare
from environment import HERE, PYTHON, ROOT, machine, peer_env, publish

STEPS = 4


def peak_mb(command, env):
    """Runs a command. Returns its peak resident memory in MB (10^6 bytes) and its output."""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
        text = p.stdout.read()
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{text}")
    return usage.ru_maxrss * 1024 / 1e6, text


def torch_mb(net, threads, layout, tuned):
    script = os.path.join(HERE, "torch_step.py")
    return peak_mb([PYTHON, script, net, str(threads), layout, "1"], peer_env(threads, tuned=tuned))[0]


def settings_of(net, packets, more):
    _, _, *settings = compare.NETS[net]
    settings += [f"pipeline.packets={packets}", f"pipeline.sub_solvers={packets}", "eval.every=0", f"train.finish={{steps={STEPS}}}"]
    if net in compare.SLOW:  # synthetic data, all of which the last evaluation reads
        settings += ["data.examples=512", "data.test_examples=128"]
    return [word for s in settings + more for word in ("--set", s)]


def troupe_mb(binary, net, packets, more=()):
    job = os.path.join(ROOT, "configs/jobs", compare.NETS[net][1])
    words = settings_of(net, packets, list(more))
    mb, _ = peak_mb([binary, "train", job, "--json", *words], dict(os.environ))
    _, text = peak_mb([binary, "plan", job, "--json", *words], dict(os.environ))
    plan = next(e for e in map(json.loads, text.splitlines()) if e["event"] == "plan")
    return mb, sum(plan["memory"].values()) / 1e6


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--nets", default="alexnet,resnet20,cifar10_full,lenet,mlp")
    p.add_argument("--out")
    a = p.parse_args()
    ratios = {}
    lines = [f"{machine()}. One run of `bench/memory.py`: peak resident memory of a process, MB (10^6 bytes); {STEPS} steps of forward, "
             "backward and update with momentum, fp32.", "",
             "| net | packets = threads | PyTorch, best | PyTorch, settings of bench/compare.py | Troupe, actors | of it tensors (`troupe plan`) | Troupe / PyTorch |",
             "|---|---|---|---|---|---|---|"]
    for net in a.nets.split(","):
        for threads in (1, 2):
            plain = {layout: torch_mb(net, threads, layout, False) for layout in ("nchw", "channels_last")}
            tuned = min(torch_mb(net, threads, layout, True) for layout in plain)
            best = min(tuned, *plain.values())
            mb, planned = troupe_mb(a.bin, net, threads)
            lines.append(f"| {compare.NETS[net][0]} | {threads} | {best:.0f} | {tuned:.0f} | {mb:.0f} | {planned:.0f} | {mb / best:.2f} |")
            ratios.setdefault(compare.NETS[net][0], []).append(f"{mb / best:.2f}")
            print(lines[-1], flush=True)
    head = [f"# Peak memory against PyTorch, {datetime.date.today()}", "",
            "**Question.** How much memory does training take at its peak, compared with PyTorch, with one packet and with two?",
            "**Answer.** Relative to the smallest of PyTorch: " + "; ".join(f"{net} {' and '.join(r)}" for net, r in ratios.items()) + ".", ""]
    text = "\n".join(head + lines) + "\n\n**What it does not show.** PyTorch's process includes Python and all of the library (about 200 MB before the\n" \
        "first tensor); Troupe's includes its data. Two packets are two half batches whose activations are in memory at the same time.\n"
    publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
