#!/usr/bin/env python3
"""Measures what open pages cost training.

usage: bench/page_cost.py [--bin build/release/bin] [--pages 50] [--rounds 5] [--steps 60000] [--out FILE]

Trains LeNet on synthetic data with `troupe train --page`, in turns without and with N open pages (default 50): connections to the
WebSocket that read all messages, from a process of its own, as browsers do. Prints the medians of examples/s and their difference; the
page should cost less than 1 %. That needs an idle machine; the processor time of the page's thread, as a share of that of the whole
process, is also printed and hardly depends on other load. The readers use a processor, too: their time is printed as well.
"""
import argparse
import base64
import datetime
import json
import os
import re
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from environment import machine, publish

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def opened(port, token):
    s = socket.create_connection(("127.0.0.1", port))
    key = base64.b64encode(os.urandom(16)).decode()
    s.sendall((f"GET /api/feed HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
               f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += s.recv(4096)
    if b" 101 " not in head.split(b"\r\n")[0]:
        sys.exit(f"page_cost: no WebSocket: {head[:200]!r}")
    return s


def read_all(port, token, pages):
    """Opens the pages and reads until the server ends; in a child process. Prints the bytes read."""
    chosen = selectors.DefaultSelector()
    for _ in range(pages):
        chosen.register(opened(port, token), selectors.EVENT_READ)
    print("open", flush=True)
    count = 0
    while chosen.get_map():
        for key, _ in chosen.select():
            try:
                data = key.fileobj.recv(1 << 16)
            except OSError:
                data = b""
            count += len(data)
            if not data:
                chosen.unregister(key.fileobj)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"bytes": count, "cpu_s": used.ru_utime + used.ru_stime}), flush=True)


def seconds_of_threads(pid):
    """Returns (processor time of the page's thread, that of all threads, ended ones too) of a process so far."""
    def read(file):
        with open(file) as f:
            name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
        return name, sum(int(x) for x in rest.split()[11:13]) / os.sysconf("SC_CLK_TCK")

    threads = [read(f"/proc/{pid}/task/{thread}/stat") for thread in os.listdir(f"/proc/{pid}/task")]
    return sum(used for name, used in threads if name == "http"), read(f"/proc/{pid}/stat")[1]


def train(binary, pages, steps, folder):
    """Returns examples/s of one training, the share of the page's thread in percent, and what its readers report."""
    command = [binary, "train", os.path.join(TOP, "configs/jobs/lenet_synthetic.toml"), "--page", "0", "--run-dir", folder, "--set",
               f"train.finish.steps={steps}", "--set", "eval.every=0"]
    p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    port = token = reader = None
    text, used = "", [(0, 1)]

    def look():
        while p.poll() is None:
            try:
                used.append(seconds_of_threads(p.pid))
            except OSError:  # a thread or the process has ended meanwhile
                pass
            time.sleep(0.2)

    threading.Thread(target=look, daemon=True).start()
    for line in p.stdout:
        text += line
        if m := re.search(r"http://127\.0\.0\.1:(\d+)/", line):
            port = int(m[1])
        if m := re.search(r"token is in (\S+)", line):
            token = open(m[1]).read().strip()
        if port and token and pages and reader is None:
            reader = subprocess.Popen([sys.executable, __file__, "--read", str(port), token, str(pages)], stdout=subprocess.PIPE, text=True)
            reader.stdout.readline()
    if p.wait() != 0:
        sys.exit(f"page_cost: training failed:\n{text}")
    newest = max((os.path.join(folder, d) for d in os.listdir(folder) if d[0].isdigit()), key=os.path.getmtime)
    info = json.load(open(os.path.join(newest, "run.json")))
    share = 100 * used[-1][0] / max(used[-1][1], 1e-9)
    return info["steps"] * info["batch"] / info["seconds"], share, json.loads(reader.stdout.read()) if reader else None


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--read":
        return read_all(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(TOP, "build/release/bin"))
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60000)
    parser.add_argument("--out")
    a = parser.parse_args()
    rates, shares = {0: [], a.pages: []}, []
    with tempfile.TemporaryDirectory() as folder:
        for n in range(a.rounds):
            for pages in (0, a.pages) if n % 2 == 0 else (a.pages, 0):
                rate, share, read = train(os.path.join(a.bin, "troupe"), pages, a.steps, folder)
                rates[pages].append(rate)
                if read:
                    shares.append(share)
                print(f"{pages:3} pages  {rate:9.0f} examples/s  page's thread {share:.2f} %"
                      + (f"  readers: {read['bytes'] / 1e6:.1f} MB, {read['cpu_s']:.2f} s of a processor" if read else ""), flush=True)
    publish(page(a, rates, shares), a.out, a.bin)
    return 0


def page(a, rates, shares):
    without, with_pages = statistics.median(rates[0]), statistics.median(rates[a.pages])
    rows = "".join(f"| {n + 1} | {rates[0][n]:,.0f} | {rates[a.pages][n]:,.0f} | {shares[n]:.2f} % |\n" for n in range(len(shares)))
    return f"""# Cost of open pages, {datetime.date.today()}

**Question.** How much slower is training while {a.pages} pages are open in browsers?
**Answer.** By {100 * (1 - with_pages / without):.2f} % of {without:,.0f} examples/s, by the medians; the runs vary by {100 * (max(rates[0]) / min(rates[0]) - 1):.0f} %. The page's thread had {statistics.median(shares):.2f} % of the processor time.

**Command.** `bench/page_cost.py --pages {a.pages} --rounds {a.rounds} --steps {a.steps}`
**Where.** {machine()}. LeNet on synthetic data; the readers of the pages run on the same machine, in a process of their own.

| round | no page, examples/s | {a.pages} pages | page's thread |
|---|---|---|---|
{rows}
**What it does not show.** Browsers that draw: the readers take all messages and drop them.
"""


if __name__ == "__main__":
    sys.exit(main())
