#!/usr/bin/env python3
"""The character LSTM (configs/jobs/char_rnn_lstm.toml: 2 x 256, 64 characters, batch 50, vocabulary 65) through Troupe's actors against
PyTorch's nn.LSTM on the same threads: forward, backward, clipping and update, fp32.

usage: bench/lstm.py [--bin build/release/bin/troupe] [--rounds 5] [--seconds 4] [--steps 40] [--least] [--out FILE.md]

The peer is tuned as in bench/compare.py (BLAS threads = torch threads, glibc's malloc kept from page faults) and computes the same as the
job: embedding, two layers, dropout, scores, cross entropy, SGD with momentum, the norm of the gradient clipped, state carried from step
to step. Both sides alternate; medians over steps, and of these the median over the rounds, or with
--least the minimum, for a shared machine.
The floor is the job's floating-point operations over the sgemm peak that PyTorch's BLAS reaches here, on the same threads.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
UNITS, STEPS, BATCH, WORDS, WIDTH = 256, 64, 50, 65, 64


def torch_step(threads, seconds):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    torch.set_num_threads(threads)
    torch.manual_seed(1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, WIDTH)
            self.lstm = nn.LSTM(WIDTH, UNITS, 2, batch_first=True)
            self.score = nn.Linear(UNITS, WORDS)

        def forward(self, x, state):
            y, state = self.lstm(self.embed(x), state)
            return self.score(F.dropout(y, 0.2)), state

    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.002, momentum=0.9)
    x, y = torch.randint(0, WORDS, (BATCH, STEPS)), torch.randint(0, WORDS, (BATCH, STEPS))
    state, times, end = None, [], None
    while end is None or time.perf_counter() < end:
        t = time.perf_counter()
        opt.zero_grad(set_to_none=False)
        out, state = net(x, state)
        state = tuple(s.detach() for s in state)
        F.cross_entropy(out.reshape(-1, WORDS), y.reshape(-1)).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        times.append(time.perf_counter() - t)
        if end is None and len(times) >= 3:
            times, end = [], time.perf_counter() + seconds
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    peak = 0.0
    for _ in range(20):
        t = time.perf_counter()
        torch.mm(a, b)
        peak = max(peak, 2 * 1024**3 / (time.perf_counter() - t))
    print(json.dumps({"median": 1000 * statistics.median(times), "least": 1000 * min(times), "peak": peak, "torch": torch.__version__}))


def peer(threads, seconds, kernel):
    from environment import PYTHON, peer_env
    r = subprocess.run([PYTHON, os.path.abspath(__file__), "--torch", str(threads), "--seconds", str(seconds)], env=peer_env(threads, kernel),
                       capture_output=True, text=True, check=True)
    return json.loads(r.stdout)


def troupe(binary, text, threads, steps):
    r = subprocess.run([binary, "time", os.path.join(ROOT, "configs/jobs/char_rnn_lstm.toml"), "--json", "--threads", str(threads), "--steps",
                        str(steps), "--set", f"data.path={text}", "--set", f"pipeline.packets={threads}", "--set",
                        f"pipeline.sub_solvers={threads}", "--set", "train.dynamics.rule=momentum"], capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(r.stdout + r.stderr)
    return next(e for e in map(json.loads, r.stdout.splitlines()) if e["event"] == "time")


def flops():
    """Operations of a step: forward, and twice as many backward, with the gradient of the first layer's input (the embedding needs it)."""
    rows = BATCH * STEPS
    return 3 * 2 * rows * (4 * UNITS * (WIDTH + UNITS) + 4 * UNITS * 2 * UNITS + UNITS * WORDS)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=4)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--least", action="store_true")
    p.add_argument("--torch", type=int, help=argparse.SUPPRESS)
    p.add_argument("--out")
    a = p.parse_args()
    if a.torch:
        return torch_step(a.torch, a.seconds)
    from environment import machine, peer_reports, publish, sound
    from step_page import ratio_text
    kernels = sound(peer_reports())
    over = min if a.least else statistics.median
    words = "".join(chr(48 + i * 7 % WORDS) for i in range(WORDS))
    lines = ["| threads | PyTorch ms | Troupe, plain loop ms | Troupe, actors ms | PyTorch / actors | variables as set | sgemm GFLOP/s | floor ms |",
             "|---|---|---|---|---|---|---|---|"]
    ratios, as_set = [], []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("".join(words[(i * i + i // 97) % WORDS] for i in range(200000)))
        text.flush()
        for threads in (1, 2):
            theirs, ours = {k.name: [] for k in kernels}, []
            for _ in range(a.rounds):
                for k in kernels:
                    theirs[k.name].append(peer(threads, a.seconds, k))
                ours.append(troupe(a.bin, text.name, threads, a.steps))
            each = {k: over(t["median"] for t in list_) for k, list_ in theirs.items()}
            them = min(each.values())
            plain, actors = over(t["plain_ms"] for t in ours), over(t["actors_ms"] for t in ours)
            peak = max(t["peak"] for list_ in theirs.values() for t in list_)
            as_set.append(each["as set"] / actors if "as set" in each else None)
            lines.append(f"| {threads} | {them:.1f} | {plain:.1f} | {actors:.1f} | {them / actors:.2f} | {ratio_text(as_set[-1])} | {peak / 1e9:.0f} | {1000 * flops() / peak:.1f} |")
            ratios.append(them / actors)
            print(lines[-1], flush=True)
            if threads == 1:
                for l in ours[-1]["layers"]:
                    print(f"  {l['name']}: {l['forward_ms']:.2f} + {l['backward_ms']:.2f}", file=sys.stderr)
    print(f"LSTM, one thread and two: PyTorch / Troupe {ratios[0]:.2f} and {ratios[1]:.2f}, {' and '.join(map(ratio_text, as_set))} with the variables as set")
    if a.out:
        what = "minima" if a.least else "medians"
        head = [f"# LSTM against PyTorch, {datetime.date.today()}", "",
                "**Question.** How fast is a training step of the character LSTM through Troupe's actors compared with tuned PyTorch?",
                f"**Answer.** {ratios[0]:.2f} times as fast with one thread, {ratios[1]:.2f} with two.", "",
                f"{machine()}. One run of `bench/lstm.py`, {a.rounds} rounds, {what}.", ""]
        publish("\n".join(head + lines) + "\n\n**What it does not show.** More than two threads, other lengths and widths; PyTorch's batch stays in memory.\n",
                a.out, a.bin, kernels)


if __name__ == "__main__":
    main()
