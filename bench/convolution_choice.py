#!/usr/bin/env python3
"""Measures what each own convolution algorithm gains on a whole step of the nets of configs/jobs.

usage: bench/convolution_choice.py [--bin build/release/bin] [--nets lenet_fashion,alexnet] [--rounds 2] [--out FILE]

Steps are measured, in turn, with the algorithms that `auto` chooses; with these, where all passes by one own algorithm have another algorithm, the one with
the fastest step; and with one algorithm of the libraries (BLAS, oneDNN) for all passes. A pass that does not support an algorithm keeps `auto`'s.

Large nets run with small batches. One thread. About 40 minutes.
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
from environment import folder_of, machine, publish  # noqa: E402

# net: examples per step
NETS = {"lenet_fashion": 64, "cifar10_full": 100, "resnet20": 128, "alexnet": 32, "nin": 32, "googlenet": 32, "resnet50": 16, "vgg16": 8}
OWN = ["direct", "winograd", "winograd4", "bf16x3"]
LIBRARIES = ["lowering1", "lowering2", "lowering3", "onednn"]  # the lowerings multiply by BLAS
KEY = {"forward": "algorithm", "data": "algorithm_data", "weights": "algorithm_weights"}


def timed(a, net, settings, steps=3):
    """The event of `troupe time`; None if a layer refuses a setting."""
    r = subprocess.run([os.path.join(folder_of(a.bin), "troupe"), "time", os.path.join(ROOT, "configs/jobs", net + ".toml"), "--json", "--threads", "1",
                        "--steps", str(steps), *(w for s in [f"data.batch={NETS[net]}", *settings] for w in ("--set", s))],
                       cwd=ROOT, capture_output=True, text=True)
    if r.returncode == 2 and "algorithm" in r.stderr:
        return None
    if r.returncode != 0:
        sys.exit(f"{net}: {r.stderr}{r.stdout}")
    return json.loads(r.stdout.splitlines()[-1])


def passes_in(event):
    """{(layer, pass): its algorithm}. A layer that is fused with others has the name of all; the convolution is the first."""
    return {(layer["name"].partition("+")[0], name): p["algorithm"] for layer in event["layers"] for name, p in layer.get("convolution", {}).items()}


def settings_for(a, net, passes, algorithm):
    """Gives the algorithm to those of the passes that support it."""
    def wanted(some):
        return [f"layer.{layer}.{KEY[name]}={algorithm}" for layer, name in some]

    if timed(a, net, wanted(passes), 2):
        return wanted(passes)
    return wanted([p for p in passes if timed(a, net, wanted([p]), 2)])


def variants(a, net):
    """{name of a variant: list of settings, of which the fastest counts}"""
    rule = passes_in(timed(a, net, [], 2))
    found = {"rule": [[]]}
    for x in OWN:
        if passes := [p for p, used in rule.items() if used == x]:  # an algorithm that the rule does not use needs no steps
            found["no " + x] = [s for y in OWN + LIBRARIES if y != x and (s := settings_for(a, net, passes, y))]
    found["libraries"] = [settings_for(a, net, list(rule), y) for y in LIBRARIES]
    return found


def measure(a):
    """{net: {name of a variant: ms of a step}}: the smallest of all rounds, in turn."""
    sets = {net: variants(a, net) for net in a.nets.split(",")}
    steps = {net: dict.fromkeys(sets[net], float("inf")) for net in sets}
    for _ in range(a.rounds):
        for net in sets:
            for name, several in sets[net].items():
                steps[net][name] = min(steps[net][name], *(timed(a, net, settings)["plain_ms"] for settings in several))
    return steps


def page(a, steps):
    names = [x for x in ["no " + o for o in OWN] + ["libraries"] if any(x in of for of in steps.values())]
    rows = ""
    for net, of in steps.items():
        rows += f"| {net} | {NETS[net]} | {of['rule']:.1f} ms | " + " | ".join(f"{of[x] / of['rule']:.3f}" if x in of else "not used" for x in names) + " |\n"
    worth = [x for x in OWN if any(of.get("no " + x, 0) >= 1.1 * of["rule"] for of in steps.values())]
    missing = [x for x in OWN if "no " + x not in names]
    return f"""# Gain of the own convolution algorithms on whole steps, {datetime.date.today()}

**Question.** Which of Troupe's own convolution algorithms make a step of a net of configs/jobs at least 10 % faster?
**Answer.** {", ".join(f"`{x}`" for x in worth) or "None"} of the algorithms that `auto` uses here.

**Command.** `bench/convolution_choice.py --rounds {a.rounds}`
**Where.** {machine()}. fp32, one thread; of each step the best of {a.rounds} rounds.

Time of a step relative to the rule's. "no X": the passes that the rule gives to X have one other algorithm, the best for the step, oneDNN included.
"libraries": all passes have one of the lowerings with BLAS, or oneDNN.

| net | batch | rule | {' | '.join(names)} |
|---|---|---|{'---|' * len(names)}
{rows}
**What it does not show.** Two threads; the libraries' own layouts from layer to layer, which make oneDNN faster than here.{' This processor cannot run, or the rule does not use, `' + '`, `'.join(missing) + '`.' if missing else ''}
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin")
    p.add_argument("--nets", default=",".join(NETS))
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--out")
    a = p.parse_args()
    publish(page(a, measure(a)), a.out, a.bin)


if __name__ == "__main__":
    main()
