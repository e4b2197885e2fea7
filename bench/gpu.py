#!/usr/bin/env python3
"""Troupe on gpu:0 against PyTorch on the same GPU in one run: forward + backward + update. scripts/gpu_check runs it.

usage: bench/gpu.py [--bin build/release/bin/troupe] [--python PYTHON] [--nets lenet,...] [--rounds 3] [--seconds 4] [--out docs/measurements/gpu.md]
       bench/gpu.py --tiny    a few steps of small batches, also on the virtual GPU (TROUPE_GPU_LIBRARY): proves that the script runs to its end,
                              and prints no speed

--python: an interpreter whose PyTorch has CUDA; by default python3 or Debian's. The peer runs with cudnn.benchmark, without TF32 in fp32 (Troupe uses none), in NCHW
and channels-last, eager and by torch.compile; Troupe with one packet and with two. The best candidate of each side counts. Exit code 3: no GPU.
"""
import argparse
import collections
import datetime
import os
import statistics
import subprocess
import sys

import gpu_page
import gpu_probe
from environment import HERE, PYTHON, ROOT, publish

Net = collections.namedtuple("Net", "title job batch precision shape classes")
NETS = {
    "lenet": Net("LeNet b64", "lenet_fashion.toml", 64, "fp32", [1, 28, 28], 10),
    "alexnet": Net("AlexNet b256", "alexnet.toml", 256, "fp32", [3, 227, 227], 1000),
    "resnet50": Net("ResNet-50 b128 bf16", "resnet50.toml", 128, "bf16", [3, 224, 224], 1000),
    "googlenet": Net("GoogLeNet b128", "googlenet.toml", 128, "fp32", [3, 224, 224], 1000),
}
TINY = "lenet"  # the net of --tiny: others take minutes on the virtual GPU
LAYOUTS, HOWS, PACKETS = ("nchw", "channels_last"), ("eager", "compile"), (1, 2)
SHARES = (16, 32)  # one batch on GPU and CPU: packets of a step, of which the CPU has one
SLOWER = 1.15  # a candidate that is this much slower than the best one of its side in the first round is not measured again
WARM = 5       # steps of `troupe train` that are not counted


def settings(net, tiny):
    """Of a job: synthetic data, which every machine has, only a batch of it for the evaluation at the end, and a rate at which no net diverges."""
    batch = 2 if tiny else net.batch
    return [f'data={{source="synthetic",shape={net.shape},classes={net.classes},examples=100000,test_examples={batch},batch={batch}}}',
            f'job.precision="{net.precision}"', "eval.every=0", "train.dynamics.lr=0.0001"]


def words_of(a, net, command, devices, more):
    listed = "job.devices=[" + ",".join(f'"{d}"' for d in devices) + "]"
    given = [listed, *settings(net, a.tiny), *more]
    return [a.bin, command, os.path.join(ROOT, "configs/jobs", net.job), "--json", *(w for s in given for w in ("--set", s))]


def packets(n):
    return [f"pipeline.packets={n}", f"pipeline.sub_solvers={min(n, 2)}"]


def layers_of(a, net):
    """The event of `troupe time`: operations of each layer, and the time to load a batch."""
    r = [*words_of(a, net, "time", ["gpu:0"], packets(1)), "--threads", "2", "--steps", "2" if a.tiny else "10"]
    events, _ = gpu_probe.watched(r, lambda e: False, None)
    return next(e for e in events if e["event"] == "time")


def train(a, net, devices, more, steps):
    """(ms per step, idle time in percent or None) of a job."""
    words = words_of(a, net, "train", devices, [*more, f'train.finish={{steps={steps + WARM}}}'])
    events, idle = gpu_probe.watched([*words, "--post-mortem", "none"], lambda e: e["event"] == "step" and e["step"] == WARM, a.bus)
    times = [e["step_seconds"] for e in events if e["event"] == "step" and e["step"] > WARM]
    return 1000 * statistics.median(times), idle


def torch_versions(python, tiny):
    """[version, CUDA's, cuDNN's] of an interpreter's PyTorch; [] if it has none, or none that sees the GPU."""
    ask = "import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version(), torch.cuda.is_available())"
    try:
        said = subprocess.run([python, "-c", ask], capture_output=True, text=True).stdout.split()
    except OSError:
        said = []
    return said[:3] if said and (tiny or said[3] == "True") else []


def peer(a, name, net, layout, how):
    """The peer's last event, with "idle"."""
    if not a.python:
        return {"event": "skipped", "why": "no interpreter has a PyTorch that sees a GPU (--python names one)"}
    words = [a.python, os.path.join(HERE, "torch_gpu.py"), name, str(2 if a.tiny else net.batch), net.precision, layout, how]
    words += ["0.1", "--device", "cpu"] if a.tiny else [str(a.seconds)]
    events, idle = gpu_probe.watched(words, lambda e: e["event"] == "steady", a.bus)
    return {**events[-1], "idle": idle}


def candidates(found, keys):
    """Those of the next round. found: {key: [(ms, idle)]}"""
    medians = {k: gpu_page.middle(found[k]) for k in keys if k in found}
    return [k for k in keys if not found or k in medians and medians[k] <= SLOWER * min(medians.values())]


def one_round(a, name, net, got):
    """Adds (ms, idle) of each candidate: got["troupe"][packets], got["torch"][layout, how]; got["notes"]: candidates that cannot run."""
    for n in candidates(got["troupe"], PACKETS[:1] if a.tiny else PACKETS):
        steps = 2 if a.tiny else max(20, int(1000 * a.seconds / got["time"]["actors_ms"]))
        got["troupe"][n].append(train(a, net, ["gpu:0"], packets(n), steps))
    keys = [(layout, how) for layout in LAYOUTS for how in HOWS]
    for layout, how in candidates(got["torch"], keys[:1] if a.tiny else keys):
        e = peer(a, name, net, layout, how)
        if e["event"] == "skipped":
            got["notes"].add(f"PyTorch, {how}: {e['why']}")
        else:
            got["torch"][layout, how].append((e["ms"], e["idle"]))


def measure(a, name):
    net = NETS[name]
    got = {"troupe": collections.defaultdict(list), "torch": collections.defaultdict(list), "notes": set(), "time": layers_of(a, net)}
    for i in range(a.rounds):
        one_round(a, name, net, got)
        print(f"{net.title}: round {i + 1} of {a.rounds} is over", flush=True)
    got["precision"] = net.precision
    got["flops"] = sum(l["forward_flops"] + l["backward_flops"] for l in got["time"]["layers"])
    return got


def together(a, net):
    """[(what, ms)]: a net on the GPU, on the CPU, and on both with fixed shares and with those that the coordinator finds."""
    def on(devices, n, steps, *more):
        return train(a, net, devices, [*packets(2 if a.tiny else n), *more], 2 if a.tiny else steps)[0]

    both, two = ["gpu:0", "cpu:0"], "topology.workers_per_group=2"
    gpu, cpu = on(both[:1], 1, 20), on(both[1:], 16, 2)
    rows = [("GPU alone, one packet", gpu), ("GPU alone, 32 packets", on(both[:1], 32, 20)), ("CPU alone, 16 packets", cpu)]
    for n in SHARES:
        share = 1 / (2 if a.tiny else n)
        rows.append((f"GPU and CPU, 1/{n} on the CPU", on(both, n, 20, two, f"layer.conv1.fraction=[{1 - share},{share}]")))
    speeds = f"job.tflops=[{1000 / gpu},{1000 / cpu}]"
    rows.append(('GPU and CPU, fraction = "auto", 64 packets', on(both, 64, 60, two, 'layer.conv1.fraction="auto"', speeds)))
    return rows


def everything(a, names):
    """({title: what measure() returns}, (title, rows of together()), [failures]): a net that fails does not stop the others."""
    got, both, failures = {}, None, []
    for name in names:
        try:
            got[NETS[name].title] = measure(a, name)
            if name == (TINY if a.tiny else "alexnet"):
                both = NETS[name].title, together(a, NETS[name])
        except RuntimeError as e:
            failures.append(f"{NETS[name].title}: {e}")
            print(failures[-1], file=sys.stderr, flush=True)
    return got, both, failures


def environment_of(a, card):
    """Rows of the section "Environment": [(name, text)]"""
    said = torch_versions(a.python, a.tiny) if a.python else []
    return [("GPU", f"{card['name']}, {card['memory_total'] / 2**30:.0f} GiB, driver {card.get('driver', 'unknown')}"),
            ("libraries of Troupe", f"CUDA {card['cuda']}, cuBLAS {card['cublas']}, cuDNN {card['cudnn']}; `{card['numerics_id']}`"),
            ("PyTorch", "{}, CUDA {}, cuDNN {}".format(*said) if said else "not measured")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin/troupe"))
    p.add_argument("--python")
    p.add_argument("--nets")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=4, help="per candidate and round")
    p.add_argument("--out")
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    card = gpu_probe.card(a.bin)
    if not card:
        print("troupe device_query finds no GPU", file=sys.stderr)
        sys.exit(3)
    if card["name"] == "virtual GPU" and not a.tiny:
        sys.exit("TROUPE_GPU_LIBRARY names the virtual GPU, which has no speed: use --tiny")
    if a.tiny:
        a.rounds, a.bus = 1, None
    else:
        a.bus = card["pci_bus"]
    a.python = next((p for p in ([a.python] if a.python else ["python3", PYTHON]) if torch_versions(p, a.tiny)), None)
    names = a.nets.split(",") if a.nets else [TINY] if a.tiny else list(NETS)
    got, both, failures = everything(a, names)
    text = gpu_page.page(datetime.date.today(), None if a.tiny else card, got, both, failures, a)
    if a.tiny:
        print("\n" + text)
    else:
        publish(text, a.out, a.bin, more=environment_of(a, card))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
