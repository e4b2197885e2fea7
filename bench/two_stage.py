#!/usr/bin/env python3
"""A balanced net as two stages in two processes, one core each, against the same net on one core.

usage: bench/two_stage.py [--bin build/release/bin] [--steps 40] [--rounds 5] [--weights stash] [--out docs/measurements/two_stage.md]

configs/jobs/two_stage.toml runs on the two daemons of configs/clusters/local2.toml (in a temporary folder, on free ports), and with
its `place` lines taken out in one process with one thread, at the number of packets that is fastest there. They alternate, `rounds` times;
steps per second after the first five.
"""
import argparse
import contextlib
import datetime
import json
import os
import re
import socket
import statistics
import subprocess
import tempfile
import time

from environment import ROOT, machine, publish

JOB = os.path.join(ROOT, "configs/jobs/two_stage.toml")
CLUSTER = os.path.join(ROOT, "configs/clusters/local2.toml")


def rate(command):
    """Steps per second between the sixth step and the last. Steps of a pipeline overlap, so single times mean little."""
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    times, last = [], ""
    for line in run.stdout:
        last = line
        if json.loads(line)["event"] == "step":
            times.append(time.perf_counter())
    if run.wait() != 0 or len(times) < 10:
        raise SystemExit(f"{' '.join(command)}: {last}")
    return (len(times) - 6) / (times[-1] - times[5])


@contextlib.contextmanager
def daemons(binaries, folder):
    with open(CLUSTER) as f:
        text = f.read()
    probes = [socket.socket() for _ in range(2)]  # kept open, so that no other process gets these ports
    for s in probes:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the daemons do, which can then listen there
        s.bind(("127.0.0.1", 0))
    ports = iter([s.getsockname()[1] for s in probes])
    text = re.sub(r"127\.0\.0\.1:\d+", lambda _: f"127.0.0.1:{next(ports)}", text)
    path = os.path.join(folder, "cluster.toml")
    with open(path, "w") as f:
        f.write(text)
    subprocess.run([f"{binaries}/troupe", "init-cluster", "--cluster", path], check=True, stdout=subprocess.DEVNULL)
    nodes = [subprocess.Popen([f"{binaries}/trouped", "--cluster", path, "--node", n], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
             for n in ("n1", "n2")]
    try:
        for address in re.findall(r"127\.0\.0\.1:(\d+)", text):
            deadline = time.monotonic() + 30
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(address)), 1):
                    break
                if time.monotonic() > deadline:
                    raise SystemExit("the daemons did not come up")
                time.sleep(0.05)
        yield path
    finally:
        for n in nodes:
            n.terminate()
        for n in nodes:
            n.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--weights", default="stash")
    p.add_argument("--packets", default="8", help="packets of the pipeline")
    p.add_argument("--out")
    a = p.parse_args()
    finish = ["--set", f"train.finish={{steps={a.steps}}}", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        whole = os.path.join(folder, "whole.toml")
        with open(JOB) as f, open(whole, "w") as out:
            out.write(re.sub(r'\nplace = "[^"]*"', "", f.read()))
        one = lambda packets: rate([f"{a.bin}/troupe", "train", whole, "--threads", "1", "--set", f"pipeline.packets={packets}",
                                    "--set", "pipeline.sub_solvers=1", "--set", "pipeline.weights=drain", *finish])
        best = max((1, 2, 4, 8), key=one)
        with daemons(a.bin, folder) as cluster:
            two = lambda: rate([f"{a.bin}/troupe", "train", JOB, "--cluster", cluster, "--set", f"pipeline.weights={a.weights}",
                                "--set", f"pipeline.packets={a.packets}", *finish])
            pairs = [(one(best), two()) for _ in range(a.rounds)]
    gains = sorted(y / x for x, y in pairs)
    text = f"""# Two stages in two processes, {datetime.date.today()}

**Question.** How much faster is a balanced net as a pipeline of two stages (`{a.weights}`, {a.packets} packets a step) on two cores than on one?
**Command.** `bench/two_stage.py --weights {a.weights} --packets {a.packets}`. **Where.** {machine()}. Medians of {a.rounds} runs of {a.steps} steps, in turn.

| one core ({best} packets), steps/s | two stages, two processes | gain | min | max |
|---|---|---|---|---|
| {statistics.median(x for x, _ in pairs):.2f} | {statistics.median(y for _, y in pairs):.2f} | {statistics.median(gains):.2f} | {gains[0]:.2f} | {gains[-1]:.2f} |
"""
    publish(text, a.out, a.bin)


if __name__ == "__main__":
    main()
