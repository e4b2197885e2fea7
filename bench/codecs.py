#!/usr/bin/env python3
"""Cost of each gradient codec in accuracy, and the share of a worker's pushed bytes that remains.

usage: bench/codecs.py [--bin build/release/bin/troupe] [--job configs/jobs/lenet_fashion.toml] [--workers 2] [--epochs 3] [--set KEY=VALUE ...]
                       [--codecs none,fp16,...] [--out FILE]

Trains the job once per codec, embedded, with the given number of workers, and takes the last accuracy. Bytes: from one worker's node to the others, by the plan
of a cluster with a node for each worker and one for the shards, as a share of those of `none`. For `threshold` the plan has the maximum.
"""
import argparse
import datetime
import json
import os
import subprocess
import tempfile

from environment import machine, publish
from reducers import cluster_file

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODECS = ["none", "fp16", "bf16", "int8", "e3m0", "onebit", "topk", "threshold"]


def settings(a, codec):
    words = ["--set", f"topology={{workers_per_group={a.workers}}}", "--set", f"pipeline.packets={a.workers}", "--set", f"train.finish={{epochs={a.epochs}}}",
             "--set", f'train.exchange={{compress="{codec}"}}']
    for s in a.set or []:
        words += ["--set", s]
    return words


def output(a, command, codec, more):
    run = subprocess.run([a.bin, command, a.job, "--json", *settings(a, codec), *more], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{codec}: {run.stderr or run.stdout}")
    return [json.loads(line) for line in run.stdout.splitlines()]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--job", default=os.path.join(ROOT, "configs/jobs/lenet_fashion.toml"))
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--set", action="append")
    p.add_argument("--codecs", default=",".join(CODECS))
    p.add_argument("--out")
    a = p.parse_args()
    lines = ["| codec | accuracy | against none | bytes pushed |", "|---|---|---|---|"]
    plain_accuracy = plain_bytes = None
    with tempfile.TemporaryDirectory() as folder:
        cluster = cluster_file(folder, a.workers)
        for codec in a.codecs.split(","):
            plan = output(a, "plan", codec, ["--cluster", cluster])[0]
            pushed = plan["bytes_per_step"][f"n{a.workers}"]
            done = [e for e in output(a, "train", codec, []) if e.get("event") == "done"][-1]
            accuracy = done["test_accuracy"]
            plain_accuracy, plain_bytes = plain_accuracy or accuracy, plain_bytes or pushed
            lines.append(f"| {codec} | {accuracy:.4f} | {accuracy - plain_accuracy:+.4f} | {pushed / plain_bytes:.4f} |")
            print(lines[-1], flush=True)
    text = (f"{datetime.date.today()}, {machine()}. `bench/codecs.py --job "
            f"{os.path.relpath(a.job, ROOT)} --workers {a.workers} --epochs {a.epochs}{''.join(f' --set {s}' for s in a.set or [])}`\n\n" + "\n".join(lines) + "\n")
    if a.out:
        publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
