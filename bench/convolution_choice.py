#!/usr/bin/env python3
"""Measures what each own convolution algorithm gains on a whole step of the nets of configs/jobs, beside BLAS and oneDNN.

usage: bench/convolution_choice.py [--bin build/release/bin] [--nets lenet_fashion,alexnet] [--rounds 3] [--out FILE]

1. `troupe time JOB` with convolution = "measured" times every algorithm for each pass of each convolution. From these times follows how much longer a
   step is without an algorithm: for each of its passes, the difference to the fastest of the others. The algorithm that gains least on every net is
   removed; then the gains of the others are computed again, since two algorithms can replace each other. This ends when each gains 10 % on a net.
2. The steps with all algorithms, with those that remain, and with the libraries only are measured, in turn.

Large nets run with small batches. One thread. About 20 minutes.
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
LIBRARIES = ["lowering1", "lowering2", "lowering3", "onednn"]  # products by BLAS, and oneDNN
BAR = 0.1


def timed(a, net, settings):
    """The event of `troupe time`."""
    with tempfile.TemporaryDirectory() as cache:  # without earlier times
        r = subprocess.run([os.path.join(folder_of(a.bin), "troupe"), "time", os.path.join(ROOT, "configs/jobs", net + ".toml"), "--json", "--threads", "1",
                            "--steps", "3", *(w for s in [f"data.batch={NETS[net]}", *settings] for w in ("--set", s))],
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


def gains(found, own):
    """{algorithm: {net: gain}}, each beside the others of `own` and the libraries."""
    return {x: {net: step_ms(found, net, [o for o in own if o != x] + LIBRARIES) / step_ms(found, net, own + LIBRARIES) - 1 for net in found} for x in own}


def table(found, own):
    g = gains(found, own)
    text = f"| net | {' | '.join(own)} |\n|---|{'---|' * len(own)}\n"
    return text + "".join(f"| {net} | {' | '.join(f'{100 * g[x][net]:.1f} %' for x in own)} |\n" for net in found)


def page(a, found):
    known = [x for x in OWN if any(x in times for _, _, passes in found.values() for times in passes.values())]
    text, own = "", known
    while own:
        text += f"\n{table(found, own)}"
        most = {x: max(g.values()) for x, g in gains(found, own).items()}
        least = min(own, key=lambda x: most[x])
        if most[least] >= BAR:
            break
        text += f"\n`{least}` gains at most {100 * most[least]:.1f} %. Without it:\n"
        own = [x for x in own if x != least]
    missing = [x for x in OWN if x not in known]
    steps = measure_steps(a, found, [known + LIBRARIES, own + LIBRARIES, LIBRARIES])
    rows = "".join(f"| {net} | {NETS[net]} | {w[0]:.1f} | {w[1]:.1f} | {w[2]:.1f} | {w[1] / w[0]:.3f} | {w[2] / w[1]:.3f} |\n" for net, w in steps.items())
    return f"""# Gain of the own convolution algorithms on whole steps, {datetime.date.today()}

**Question.** Which of Troupe's own convolution algorithms make a net of configs/jobs at least {100 * BAR:.0f} % faster than the others, BLAS and oneDNN?
**Answer.** {", ".join(f"`{x}`" for x in own) or "none"}; not {", ".join(f"`{x}`" for x in known if x not in own) or "any other"}.

**Command.** `bench/convolution_choice.py --rounds {a.rounds}`
**Where.** {machine()}. fp32, one thread; of each pass and step the best of {a.rounds} rounds.

A step measured, ms: each pass by the fastest algorithm of a set.

| net | batch | all | {", ".join(f"`{x}`" for x in own) or "none"} and libraries | libraries only | kept / all | libraries / kept |
|---|---|---|---|---|---|---|
{rows}
How much longer a step is without an algorithm, from the times of its passes:
{text}
**What it does not show.** Two threads; the libraries' own layouts from layer to layer, which make oneDNN faster than here.{' This processor cannot run `' + '`, `'.join(missing) + '`.' if missing else ''}
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin")
    p.add_argument("--nets", default=",".join(NETS))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--out")
    a = p.parse_args()
    publish(page(a, measure_passes(a)), a.out, a.bin)


if __name__ == "__main__":
    main()
