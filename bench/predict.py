#!/usr/bin/env python3
"""Predictions of LeNet by libtroupe_predict and by PyTorch, in one run: the latency of one example and the throughput of batches of 64.

usage: bench/predict.py [--build build/release] [--rounds 7] [--seconds 2] [--cifar FOLDER] [--out FILE]

Both are called from Python (Troupe by ctypes) with the same images and weights, on 1 and 2 threads. The peer is the best of eager mode, a frozen
trace and optimize_for_inference, in inference mode, with each kernel of OpenBLAS that bench/environment.py accepts. All alternate; a round gives
each its median and 99th percentile, and the result is the median over the rounds. The outputs must agree.
The second table has the accuracy of nets with smaller weights on the test images: LeNet, and with --cifar FOLDER, which has train/CLASS/*.png and
test/CLASS/*.png, Caffe's CIFAR10-full.
"""
import argparse
import ctypes
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from environment import PYTHON, ROOT, kernels, machine, peer_env, peer_reports, publish, told, with_kernel

LENET = os.path.join(ROOT, "configs/jobs/lenet_fashion.toml")
CIFAR = os.path.join(ROOT, "configs/jobs/cifar10_images.toml")
FASHION = "/usr/share/datasets/fashion-mnist"
TYPES = ("f32", "bf16", "int8")


def images(n):
    import numpy
    with open(os.path.join(FASHION, "t10k-images-idx3-ubyte"), "rb") if os.path.exists(os.path.join(FASHION, "t10k-images-idx3-ubyte")) else \
            __import__("gzip").open(os.path.join(FASHION, "t10k-images-idx3-ubyte.gz")) as f:
        return numpy.frombuffer(f.read(16 + n * 784)[16:], numpy.uint8).reshape(n, 1, 28, 28).astype(numpy.float32) / 255


def timed(call, seconds, batch):
    """[median, 99th percentile] of a call in microseconds, and examples per second over all calls."""
    for _ in range(20):
        call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        t = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - t) / 1000)
    times.sort()
    return {"median": statistics.median(times), "p99": times[min(len(times) - 1, len(times) * 99 // 100)], "rate": batch * 1e6 * len(times) / sum(times)}


def troupe_side(a):
    import numpy
    lib = ctypes.CDLL(os.path.join(a.build, "lib/libtroupe_predict.so.0"))
    lib.troupe_predict_error_text.restype = ctypes.c_char_p

    class Options(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t), ("threads", ctypes.c_uint), ("layer", ctypes.c_char_p)]

    net, options = ctypes.c_void_p(), Options(ctypes.sizeof(Options), a.threads, None)
    if lib.troupe_predict_open(a.net.encode(), ctypes.byref(options), ctypes.byref(net)) != 0:
        sys.exit(lib.troupe_predict_error_text())
    x, y = images(a.batch), numpy.zeros((a.batch, 10), numpy.float32)
    words = net, x.ctypes.data_as(ctypes.c_void_p), 0, ctypes.c_int64(a.batch), y.ctypes.data_as(ctypes.c_void_p)
    said = timed(lambda: lib.troupe_predict_run(*words), a.seconds, a.batch)
    return {"troupe": said, "first": y[0].tolist()}


def torch_side(a):
    import numpy
    import torch
    from torch import nn
    sys.path.insert(0, os.path.join(a.build, "python"))
    torch.set_num_threads(a.threads)
    net = nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(),
                        nn.Linear(500, 10)).eval()
    weights = numpy.load(a.weights)
    for k, name in ((0, "conv1"), (2, "conv2"), (5, "ip1"), (7, "ip2")):
        net[k].weight.data = torch.from_numpy(weights[name + ".weight"]).reshape(net[k].weight.shape)
        net[k].bias.data = torch.from_numpy(weights[name + ".bias"])
    x = torch.from_numpy(images(a.batch))
    with torch.no_grad():
        forms = {"eager": net, "frozen": torch.jit.freeze(torch.jit.trace(net, x)), "optimised": torch.jit.optimize_for_inference(torch.jit.trace(net, x))}
    said = {}
    with torch.inference_mode():
        first = net(x)[0].tolist()
        for name, form in forms.items():
            said[name] = timed(lambda: form(x), a.seconds, a.batch)
    return {**said, "first": first}


def one(a, side, threads, batch, env):
    words = [PYTHON, os.path.abspath(__file__), "--side", side, "--build", a.build, "--net", a.net, "--weights", a.weights, "--threads", str(threads),
             "--batch", str(batch), "--seconds", str(a.seconds)]
    r = subprocess.run(words, capture_output=True, text=True, env=env)
    if r.returncode != 0:
        sys.exit(r.stdout[-1000:] + r.stderr[-3000:])
    return json.loads(r.stdout.splitlines()[-1])


def speed(a):
    """Rows of the table, and the kernels that PyTorch's best figures were taken with."""
    rows, used = [], set()
    for batch in (1, 64):
        for threads in (1, 2):
            ours, peers = [], {}
            for _ in range(a.rounds):
                said = one(a, "troupe", threads, batch, with_kernel(kernels(os.environ)[0]))
                ours.append(said["troupe"])
                for kernel, report in peer_reports():
                    if report["wrong"]:
                        continue
                    theirs = one(a, "torch", threads, batch, peer_env(threads, kernel))
                    if max(abs(p - q) for p, q in zip(said["first"], theirs.pop("first"))) > 1e-3:
                        sys.exit(f"the outputs differ: {said['first']}")
                    for form, values in theirs.items():
                        peers.setdefault((kernel.name, form), []).append(values)
            middle = lambda list_, key: statistics.median(v[key] for v in list_)
            what = ("p99", "rate")[batch > 1]
            best = (min if batch == 1 else max)(peers, key=lambda p: middle(peers[p], what))
            used.add(best[0])
            by_name = {k.name: k for k in kernels(os.environ)}
            ratio = middle(peers[best], "p99") / middle(ours, "p99") if batch == 1 else middle(ours, "rate") / middle(peers[best], "rate")
            show = (lambda v: f"{middle(v, 'median'):.0f} / {middle(v, 'p99'):.0f} us") if batch == 1 else (lambda v: f"{middle(v, 'rate'):,.0f} /s")
            rows.append(f"| {batch} | {threads} | {show(ours)} | {show(peers[best])} | {best[1]}, {told(by_name[best[0]])} | {ratio:.2f} |")
            print(rows[-1], flush=True)
    return rows, used


def accuracies(a, folder):
    """Accuracy of each type of weights on the test data, by `troupe predict` of the exported net."""
    rows = []
    jobs = [("LeNet, Fashion-MNIST", LENET, a.weights_file, os.path.join(FASHION, "t10k-images-idx3-ubyte"), os.path.join(FASHION, "t10k-labels-idx1-ubyte"))]
    if a.cifar:
        jobs.append(cifar_job(a, folder))
    for title, job, weights, data, labels in jobs:
        found = {}
        for kept in TYPES:
            net = os.path.join(folder, f"{os.path.basename(job)}.{kept}.troupe")
            run(a, "export", job, "--weights", weights, "--weights-type", kept, "--out", net)
            found[kept] = (accuracy_of(a, net, data, labels), os.path.getsize(net))
        rows.append(f"| {title} | " + " | ".join(f"{found[k][0]:.4f} ({found[k][1] / 1e6:.2f} MB)" for k in TYPES) + " |")
        print(rows[-1], flush=True)
    return rows


def run(a, *words):
    r = subprocess.run([os.path.join(a.build, "bin/troupe"), *words], capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(r.stdout[-1000:] + r.stderr[-2000:])
    return r.stdout


def accuracy_of(a, net, data, labels):
    import gzip
    import numpy
    path = lambda p: p if os.path.exists(p) else p + ".gz"
    opened = (gzip.open if path(labels).endswith(".gz") else open)(path(labels), "rb")
    if labels.endswith(".npy"):
        truth = numpy.load(labels)
    else:
        with opened as f:
            truth = numpy.frombuffer(f.read()[8:], numpy.uint8)
    lines = run(a, "predict", net, path(data)).splitlines()
    column = lines[0].split(",").index("class")
    return float((numpy.array([int(line.split(",")[column]) for line in lines[1:]]) == truth).mean())


def cifar_job(a, folder):
    """Caffe's CIFAR10-full, trained for 1,000 steps on images of a folder, and its test images."""
    import numpy
    from PIL import Image
    data, weights = os.path.join(folder, "x_test.npy"), os.path.join(folder, "cifar.safetensors")
    classes = sorted(os.listdir(os.path.join(a.cifar, "test")))
    found = [(os.path.join(a.cifar, "test", name, f), k) for k, name in enumerate(classes) for f in sorted(os.listdir(os.path.join(a.cifar, "test", name)))]
    numpy.save(data, numpy.stack([numpy.asarray(Image.open(f).convert("RGB")).transpose(2, 0, 1) for f, _ in found]))
    numpy.save(os.path.join(folder, "y_test.npy"), numpy.array([k for _, k in found]))
    job = os.path.join(folder, "cifar.toml")
    with open(CIFAR) as f:
        text = f.read()
    with open(job, "w") as f:
        f.write(re.sub(r'^path = ".*"', f'path = "{os.path.abspath(a.cifar)}"', text, flags=re.M))
    run(a, "train", job, "--no-run", "--set", "train.finish={steps=1000}", "--out", weights)
    return "CIFAR10-full", job, weights, data, os.path.join(folder, "y_test.npy")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--cifar", metavar="FOLDER")
    p.add_argument("--out")
    for hidden in ("side", "net", "weights"):
        p.add_argument(f"--{hidden}", help=argparse.SUPPRESS)
    for hidden in ("threads", "batch"):
        p.add_argument(f"--{hidden}", type=int, help=argparse.SUPPRESS)
    a = p.parse_args()
    a.build = os.path.abspath(a.build)
    if a.side:
        print(json.dumps(troupe_side(a) if a.side == "troupe" else torch_side(a)))
        return
    with tempfile.TemporaryDirectory() as folder:
        import numpy
        sys.path.insert(0, os.path.join(a.build, "python"))
        import troupe
        a.weights_file, a.weights, a.net = (os.path.join(folder, n) for n in ("w.safetensors", "w.npz", "lenet.troupe"))
        run(a, "train", LENET, "--no-run", "--set", "train.finish={epochs=3}", "--out", a.weights_file)
        numpy.savez(a.weights, **{n: w.numpy() for n, w in troupe.read_safetensors(a.weights_file).items()})
        run(a, "export", LENET, "--weights", a.weights_file, "--out", a.net)
        accurate = accuracies(a, folder)
        rows, used = speed(a)
    ratios = [float(r.split("|")[-2]) for r in rows]
    text = "\n".join([
        f"# Predictions, {datetime.date.today()}", "",
        "**Question.** How fast is libtroupe_predict beside PyTorch, and what do smaller weights cost?",
        f"**Answer.** At least {min(ratios):.2f} times as fast in every row.", "",
        f"**Command.** `bench/predict.py --rounds {a.rounds} --seconds {a.seconds:g}{' --cifar FOLDER' if a.cifar else ''}`",
        f"**Where.** {machine()}. LeNet, fp32; medians over the rounds; of PyTorch the best of eager, frozen and optimised.", "",
        "| batch | threads | Troupe | PyTorch | its form | ratio |", "|---|---|---|---|---|---|", *rows, "",
        "Batch 1: median / 99th percentile of a call, ratio of the 99th percentiles. Batch 64: examples per second.", "",
        "Accuracy on the test images, and the size of the net file:", "",
        "| net | f32 | bf16 | int8 |", "|---|---|---|---|", *accurate, "",
        "**What it does not show.** Weights are smaller in the file only: they become f32 when it is opened. PyTorch's JIT needs one trace per batch size.", ""])
    publish(text, a.out, os.path.join(a.build, "bin"), used=[k for k in kernels(os.environ) if k.name in used])


if __name__ == "__main__":
    main()
