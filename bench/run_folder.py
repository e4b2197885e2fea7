#!/usr/bin/env python3
"""Measures what a run folder costs: metrics, database, TensorBoard files, REPL socket, /metrics with a scrape a second.

usage: bench/run_folder.py [--bin build/release/bin/troupe] [--rounds 9] [--steps 3000] [--threads 2] [--out docs/measurements/FILE.md]

Trains LeNet (batch 64) with and without a run folder, in turn; every round begins with the other one. The result is the median over the
rounds of with / without, pair by pair, so that a drift of the machine's speed has no effect.
"""
import argparse
import datetime
import glob
import json
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import urllib.request

from environment import ROOT, machine, publish


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_share(pid):
    """Share of the process's CPU time that its threads take which neither run actors nor are the main thread, which prints events."""
    seconds = {}
    for task in glob.glob(f"/proc/{pid}/task/*"):
        with open(f"{task}/comm", encoding="utf-8") as name, open(f"{task}/schedstat", encoding="utf-8") as stat:
            aside = not name.read().startswith("caf.") and os.path.basename(task) != str(pid)
            seconds[aside] = seconds.get(aside, 0) + int(stat.read().split()[0])
    return seconds.get(True, 0) / sum(seconds.values())


def scrape(port, over, pid, shares):
    while not over.wait(1):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read()
            shares.append(cpu_share(pid))
        except OSError:  # the run has ended
            return


def step_ms(binary, steps, threads, folder, shares):
    """Milliseconds per step of one run; `folder`: of runs, None for no run folder and no metrics. Appends to `shares` the last cpu_share()."""
    words = [binary, "train", os.path.join(ROOT, "configs/jobs/lenet_fashion.toml"), "--json", "--threads", str(threads)]
    for setting in (f"train.finish.steps={steps}", "eval.every=0", f"pipeline.packets={threads}", f"pipeline.sub_solvers={threads}"):
        words += ["--set", setting]
    over, port, seen = threading.Event(), free_port(), []
    words += ["--no-run"] if folder is None else ["--run-dir", folder, "--metrics", str(port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as p:
        lines = [p.stdout.readline()]  # training has begun
        scraper = threading.Thread(target=scrape, args=(port, over, p.pid, seen))
        if folder is not None:
            scraper.start()
        lines += p.stdout.readlines()
        over.set()
    if folder is not None:
        scraper.join()
        shares += seen[-1:]
    if p.returncode != 0:
        raise SystemExit("".join(lines[-5:]))
    return json.loads(lines[-1])["seconds"] / steps * 1000


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--steps", type=int, default=3000)
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--out")
    a = p.parse_args()
    lines, most = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for threads in a.threads:
            ms, ratios, shares = {None: [], folder: []}, [], []
            for k in range(a.rounds):
                for where in (None, folder) if k % 2 == 0 else (folder, None):
                    ms[where].append(step_ms(a.bin, a.steps, threads, where, shares))
                ratios.append(ms[folder][-1] / ms[None][-1])
            ratio = statistics.median(ratios)
            most = max(most, statistics.median(shares))
            lines.append(f"| {threads} | {statistics.median(ms[None]):.3f} | {statistics.median(ms[folder]):.3f} | {ratio:.3f} | "
                         f"{min(ratios):.3f} to {max(ratios):.3f} | {statistics.median(shares):.2%} |")
            print(lines[-1], flush=True)
    text = "\n".join([
        f"# Cost of a run folder, {datetime.date.today()}", "",
        "**Question.** How much slower is a step of LeNet with a run folder (metrics, database, TensorBoard files, REPL socket) and /metrics?",
        f"**Answer.** Its threads take {most:.2%} of the CPU time. The step times of equal runs differ by more than that: see the range.", "",
        f"{machine()}. One run of `bench/run_folder.py`: {a.rounds} pairs in turn, {a.steps} steps each, batch 64; medians.", "",
        "| threads | ms per step without | with | with / without | range of the rounds | CPU time of its threads |", "|---|---|---|---|---|---|", *lines, "",
        "The CPU time is that of all threads but the main one and those of the actors: they write the folder, answer the REPL and /metrics, and",
        "sample the roles for the summary. Histograms are tasks of actors, about 12 ns per parameter and 500 steps.", ""])
    publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
