#!/usr/bin/env python3
"""Measures what each own convolution algorithm, and the measured choice, gain on a whole step of the nets of configs/jobs.

usage: bench/convolution_choice.py [--bin build/release/bin] [--nets lenet_fashion,alexnet] [--rounds 3] [--out FILE]

1. `troupe time JOB` with convolution = "measured" times every algorithm for each pass of each convolution. From these times follows how much longer a
   step is without an algorithm: for each of its passes, the difference to the fastest of the others. Once beside BLAS and oneDNN, and once beside BLAS
   only, which is what convolution = "rule" chooses from, and what a build without oneDNN has.
2. From the same times: how much longer a step is with the algorithms that convolution = "rule" chooses.
3. As a check of 1: steps of the nets of --step-nets are measured with and without `direct` and all own algorithms, in turn.

Large nets run with small batches. One thread. About 30 minutes.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
from environment import folder_of, machine, publish  # noqa: E402

# net: examples per step
NETS = {"lenet_fashion": 64, "cifar10_full": 100, "resnet20": 128, "alexnet": 32, "nin": 32, "googlenet": 32, "resnet50": 16, "vgg16": 8}
OWN = ["direct", "winograd", "winograd4", "bf16x3"]
BLAS = ["lowering1", "lowering2", "lowering3"]  # products by BLAS
LIBRARIES = [*BLAS, "onednn"]


def timed(a, net, settings, steps=3):
    """The event of `troupe time`."""
    with tempfile.TemporaryDirectory() as cache:  # without earlier times
        r = subprocess.run([os.path.join(folder_of(a.bin), "troupe"), "time", os.path.join(ROOT, "configs/jobs", net + ".toml"), "--json", "--threads", "1",
                            "--steps", str(steps), *(w for s in [f"data.batch={NETS[net]}", *settings] for w in ("--set", s))],
                           env={**os.environ, "XDG_CACHE_HOME": cache}, cwd=ROOT, capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(f"{net}: {r.stderr}{r.stdout}")
    return json.loads(r.stdout.splitlines()[-1])


def passes_in(event):
    """{(layer, pass): {algorithm: ms}}. A layer that is fused with others has the name of all; the convolution is the first."""
    return {(layer["name"].partition("+")[0], name): p["candidates_ms"] for layer in event["layers"] for name, p in layer.get("convolution", {}).items()}


def fastest(times, names):
    return min((ms, name) for name, ms in times.items() if name in names)


def best(passes, names):
    return sum(fastest(times, names)[0] for times in passes.values())


def measure_passes(a):
    """{net: (ms of a step, packets, passes_in())}: the smallest times of all rounds."""
    found = {}
    for _ in range(a.rounds):
        for net in a.nets.split(","):
            e = timed(a, net, ["job.convolution=\"measured\""])
            passes = passes_in(e)
            step, _, before = found.get(net, (e["plain_ms"], 0, passes))
            found[net] = (min(step, e["plain_ms"]), e["packets"], {k: {n: min(ms, before[k][n]) for n, ms in t.items()} for k, t in passes.items()})
    return found


def choice(passes, names):
    """The settings that give each pass its fastest algorithm of `names`."""
    key = {"forward": "algorithm", "data": "algorithm_data", "weights": "algorithm_weights"}
    return [f"layer.{layer}.{key[name]}={fastest(times, names)[1]}" for (layer, name), times in passes.items()]


def measure_steps(a, found, sets):
    """{net: [ms of a step with each of the sets of algorithms]}: the smallest of all rounds, in turn."""
    steps = {net: [float("inf")] * len(sets) for net in found}
    for _ in range(a.rounds):
        for net, (_, _, passes) in found.items():
            for i, names in enumerate(sets):
                steps[net][i] = min(steps[net][i], timed(a, net, choice(passes, names))["plain_ms"])
    return steps


def step_ms(found, net, names):
    step, packets, passes = found[net]
    return step + packets * (best(passes, names) - best(passes, OWN + LIBRARIES))


def gain(found, net, among, without):
    """How much longer a step is without an algorithm, where the others of `among` remain."""
    return step_ms(found, net, [x for x in among if x != without]) / step_ms(found, net, among) - 1


def rule_loss(a, found, net):
    """How much longer a step is with the algorithms that convolution = "rule" chooses."""
    step, packets, passes = found[net]
    chosen = {(layer["name"].partition("+")[0], name): p["algorithm"] for layer in timed(a, net, [], 2)["layers"] for name, p in layer.get("convolution", {}).items()}
    return packets * sum(times[chosen[k]] - min(times.values()) for k, times in passes.items()) / step


def page(a, found):
    known = [x for x in OWN if any(x in times for _, _, passes in found.values() for times in passes.values())]
    missing = [x for x in OWN if x not in known]
    rows = ""
    for net in found:
        cells = [f"{100 * gain(found, net, known + among, x):.1f} %" for x in known for among in (LIBRARIES, BLAS)]
        rows += f"| {net} | {NETS[net]} | {' | '.join(cells)} | {100 * rule_loss(a, found, net):.1f} % |\n"
    heads = " | ".join(f"`{x}` beside {of}" for x in known for of in ("oneDNN", "BLAS"))
    worth = [x for x in known if any(gain(found, net, known + LIBRARIES, x) >= 0.1 for net in found)]
    nets = {net: found[net] for net in found if net in a.step_nets.split(",")}
    steps = measure_steps(a, nets, [known + LIBRARIES, [x for x in known if x != "direct"] + LIBRARIES, LIBRARIES])
    measured = "".join(f"| {net} | {w[0]:.1f} | {w[1]:.1f} | {w[2]:.1f} | {w[1] / w[0]:.3f} | {w[2] / w[0]:.3f} |\n" for net, w in steps.items())
    return f"""# Gain of the own convolution algorithms on whole steps, {datetime.date.today()}

**Question.** Which of Troupe's own convolution algorithms, and does the measured choice, make a step of a net of configs/jobs at least 10 % faster?
**Answer.** By the times of passes beside oneDNN: {", ".join(f"`{x}`" for x in worth) or "none"}. Steps may say otherwise; compare the last table.

**Command.** `bench/convolution_choice.py --rounds {a.rounds}`
**Where.** {machine()}. fp32, one thread; of each pass and step the best of {a.rounds} rounds.

How much longer a step is without an algorithm, from the times of its passes. Beside oneDNN: the other algorithms, BLAS and oneDNN remain. Beside BLAS: without
oneDNN, as `convolution = "rule"`. The last column: how much longer a step is with the rule than with the fastest algorithm of each pass.

| net | batch | {heads} | rule |
|---|---|{'---|' * (2 * len(known) + 1)}
{rows}
A step measured, ms, each pass by the fastest algorithm of a set:

| net | all | without `direct` | libraries only | without `direct` / all | libraries / all |
|---|---|---|---|---|---|
{measured}
**What it does not show.** Two threads; the libraries' own layouts from layer to layer, which make oneDNN faster than here.{' This processor cannot run `' + '`, `'.join(missing) + '`.' if missing else ''}
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin")
    p.add_argument("--nets", default=",".join(NETS))
    p.add_argument("--step-nets", default="lenet_fashion,cifar10_full,nin")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--out")
    a = p.parse_args()
    publish(page(a, measure_passes(a)), a.out, a.bin)


if __name__ == "__main__":
    main()
