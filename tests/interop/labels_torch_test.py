#!/usr/bin/env python3
"""Targets, class weights, ids and validation splits of a job: labels_torch_test.py TROUPE. Weights of trained nets are those of PyTorch's losses and SGD,
whatever the number of workers; mistakes name the layer and the source."""
import json
import os
import subprocess
import sys
import tempfile

import numpy
import torch
from tensors import load

TROUPE = sys.argv[1]
JOB = """
[job]
name = "labels"
seed = 3
precision = "f64"
[data]
{data}
{layers}
[train]
sampler = {{ kind = "sequential" }}
dynamics = {{ rule = "sgd", lr = 0.1 }}
finish = {{ steps = {steps} }}
[pipeline]
packets = {packets}
sub_solvers = {packets}
[topology]
workers_per_group = {workers}
"""
LINEAR = """
[[layer]]
name = "ip"
type = "linear"
inputs = ["data"]
outputs = {outputs}
[[layer]]
name = "loss"
type = "{loss}"
inputs = ["ip", "label"]
{more}
"""
rng = numpy.random.default_rng(5)


def run(folder, *words):
    return subprocess.run([TROUPE, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def write(folder, data, layers, packets=1, workers=1, steps=20):
    with open(os.path.join(folder, "job.toml"), "w") as f:
        f.write(JOB.format(data=data, layers=layers, packets=packets, workers=workers, steps=steps))


def trained(folder, *args, **more):
    write(folder, *args, **more)
    done = run(folder, "train", "job.toml", "--no-run", "--json", "--out", "net.safetensors")
    assert done.returncode == 0, done.stdout
    return load(os.path.join(folder, "net.safetensors"))[0]


def initial(folder):
    assert run(folder, "init", "job.toml", "--out", "begin.safetensors").returncode == 0
    return load(os.path.join(folder, "begin.safetensors"))[0]


def by_torch(begin, x, loss, steps=20):
    weight = torch.tensor(begin["ip.weight"], dtype=torch.float64, requires_grad=True)
    bias = torch.tensor(begin["ip.bias"], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([weight, bias], lr=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        loss(torch.tensor(x, dtype=torch.float64) @ weight.T + bias).backward()
        optimiser.step()
    return {"ip.weight": weight.detach().numpy(), "ip.bias": bias.detach().numpy()}


def same(a, b, why):
    for k in ("ip.weight", "ip.bias"):
        numpy.testing.assert_allclose(a[k], b[k].reshape(a[k].shape), rtol=1e-9, atol=1e-12, err_msg=why)


def targets(folder):
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    numpy.savez(os.path.join(folder, "t.npz"), x_train=x, y_train=y, x_test=x[:10], y_test=y[:10])
    with open(os.path.join(folder, "t.csv"), "w") as f:
        f.write("u,a,b,c,v\n")
        f.writelines(",".join(repr(float(n)) for n in (b[1], *a, b[0])) + "\n" for a, b in zip(x, y))
    npz, csv = 'source = "numpy"\npath = "t.npz"\nbatch = 40', 'source = "csv"\npath = "t.csv"\ntargets = ["v", "u"]\nbatch = 40'
    layers = LINEAR.format(outputs=2, loss="euclidean", more="")
    got = trained(folder, npz, layers)
    # Caffe's loss: half of the sum of squares, over the number of examples.
    want = by_torch(initial(folder), x, lambda out: torch.nn.functional.mse_loss(out, torch.tensor(y), reduction="sum") / (2 * len(x)))
    same(got, want, "numpy targets")
    same(trained(folder, csv, layers), want, "csv targets")
    same(trained(folder, npz, layers, packets=4, workers=2), want, "two workers")

    lines = run(folder, "predict", "job.toml", "--weights", "net.safetensors", "--test").stdout.splitlines()
    assert lines[0] == "input,index,target_0,target_1,output_0,output_1", lines[0]
    outputs = x[:10] @ got["ip.weight"].reshape(2, 3).T + got["ip.bias"]
    numpy.testing.assert_allclose([[float(n) for n in line.split(",")[2:]] for line in lines[1:11]], numpy.hstack([y[:10], outputs]), rtol=1e-5, atol=1e-6)
    done = json.loads(run(folder, "predict", "job.toml", "--weights", "net.safetensors", "--test", "--json").stdout.splitlines()[-1])
    assert abs(done["squared_error"] - ((outputs - y[:10]) ** 2).mean()) < 1e-6, done
    card = json.loads(run(folder, "data", "job.toml", "--json").stdout)
    numpy.testing.assert_allclose([c["mean"] for c in card["train"]["targets"]], y.mean(0), rtol=1e-6)
    assert card["label_shape"] == [2] and card["train"]["classes"] == []
    # The bf16 net has its targets in bf16, too; the loss is still near.
    assert run(folder, "train", "job.toml", "--no-run", "--set", 'job.precision="bf16"').returncode == 0

    write(folder, npz, LINEAR.format(outputs=2, loss="softmax_loss", more=""))
    text = run(folder, "check", "job.toml").stdout
    assert "layer 'loss': input 1 of a softmax_loss layer takes ids (i32), but 'label' (40x2) of source 'numpy' holds target values (f64)" in text, text
    numpy.savez(os.path.join(folder, "c.npz"), x_train=x, y_train=numpy.arange(40) % 2)
    write(folder, 'source = "numpy"\npath = "c.npz"\ntest_data = ""\nbatch = 40', LINEAR.format(outputs=1, loss="euclidean", more=""))
    text = run(folder, "check", "job.toml").stdout
    assert "'label' (40) of source 'numpy' holds class numbers (i32): label_kind = \"values\" makes targets of them" in text, text


def class_weights(folder):
    x, y = rng.normal(size=(60, 4)), rng.choice(3, 60, p=[0.6, 0.3, 0.1])
    numpy.savez(os.path.join(folder, "w.npz"), x_train=x, y_train=y)
    data = 'source = "numpy"\npath = "w.npz"\ntest_data = ""\nbatch = 60'
    counts = numpy.bincount(y, minlength=3)
    balanced = [float(60 / (3 * n)) for n in counts]
    for weights, smoothing in (([2.0, 0.5, 7.0], 0), ([2.0, 0.5, 7.0], 0.2), (balanced, 0)):
        more = f"class_weights = {weights}\nlabel_smoothing = {float(smoothing)}"
        got = trained(folder, data, LINEAR.format(outputs=3, loss="softmax_loss", more=more))
        begin = initial(folder)
        loss = torch.nn.CrossEntropyLoss(weight=torch.tensor(weights, dtype=torch.float64), label_smoothing=smoothing)
        same(got, by_torch(begin, x, lambda out: loss(out, torch.tensor(y))), f"weights {weights}, smoothing {smoothing}")
    word = trained(folder, data, LINEAR.format(outputs=3, loss="softmax_loss", more='class_weights = "balanced"'))
    same(word, got, "balanced")
    # With several packets the step's loss is the mean of the packets' losses, however many workers compute them.
    layers = LINEAR.format(outputs=3, loss="softmax_loss", more=more)
    loss = torch.nn.CrossEntropyLoss(weight=torch.tensor(balanced, dtype=torch.float64))
    parts = [torch.tensor(y[k:k + 15]) for k in range(0, 60, 15)]
    want = by_torch(begin, x, lambda out: sum(loss(out[15 * k:15 * k + 15], p) for k, p in enumerate(parts)) / 4)
    for workers in (1, 2):
        same(trained(folder, data, layers, packets=4, workers=workers), want, f"4 packets, {workers} workers")
    # The loss of an evaluation is the weighted mean over all of its examples, whatever its batches.
    split = 'source = "numpy"\npath = "e.npz"\nbatch = 10'
    marked = numpy.where(numpy.arange(60) % 7 == 3, -1, y)
    for labels in (y, marked):
        numpy.savez(os.path.join(folder, "e.npz"), x_train=x, y_train=y, x_test=x, y_test=labels)
        got = trained(folder, split, layers + '[[layer]]\nname = "accuracy"\ntype = "accuracy"\ninputs = ["ip", "label"]\n', steps=3)
        out = torch.tensor(x) @ torch.tensor(got["ip.weight"].reshape(3, 4)).T + torch.tensor(got["ip.bias"].reshape(1, 3))
        loss = torch.nn.CrossEntropyLoss(weight=torch.tensor(balanced, dtype=torch.float64), ignore_index=-1)(out, torch.tensor(labels)).item()
        right = (out.argmax(1).numpy() == labels)[labels >= 0].mean()
        for batch in (1, 8, 60):
            done = run(folder, "test", "job.toml", "--json", "--weights", "net.safetensors", "--set", f"eval.batch={batch}")
            seen = [json.loads(line) for line in done.stdout.splitlines() if '"eval"' in line]
            assert len(seen) == 1, done.stdout
            numpy.testing.assert_allclose([seen[0]["loss"], seen[0]["accuracy"]], [loss, right], rtol=1e-5, err_msg=f"eval.batch {batch}")
    write(folder, data, LINEAR.format(outputs=4, loss="softmax_loss", more='class_weights = "balanced"'))
    text = run(folder, "check", "job.toml").stdout
    assert "layer 'loss': expects as many logits as class_weights (3)" in text, text


def ignored(folder):
    """Labels that do not count, of numpy and csv: as CrossEntropyLoss(ignore_index) over the whole batch, also over several packets."""
    x, y = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    y[:3] = [0, 1, 2]
    y[rng.random(40) < 0.4] = -100
    y[10:20] = -100  # a whole packet
    y[3], y[25] = 255, 255
    numpy.savez(os.path.join(folder, "g.npz"), x_train=x, y_train=y)
    with open(os.path.join(folder, "g.csv"), "w") as f:
        f.write("a,b,c,y\n" + "".join(",".join(repr(float(n)) for n in a) + f",{b}\n" for a, b in zip(x, y)))
    sources = ('source = "numpy"\npath = "g.npz"\ntest_data = ""', 'source = "csv"\npath = "g.csv"\nlabel = "y"')
    target = torch.tensor(numpy.where(y == 255, -100, y))
    for weights in (None, [2.0, 0.5, 7.0]):
        more = 'mean = "batch"' + (f"\nclass_weights = {weights}" if weights else "")
        layers = LINEAR.format(outputs=3, loss="softmax_loss", more=more)
        loss = torch.nn.CrossEntropyLoss(weight=torch.tensor(weights, dtype=torch.float64) if weights else None, ignore_index=-100)
        for source in sources:
            hashes = set()
            for packets, workers in ((1, 1), (4, 1), (4, 2)):
                write(folder, f"{source}\nignore_label = 255\nbatch = 40", layers, packets, workers)
                done = run(folder, "train", "job.toml", "--no-run", "--json", "--out", "net.safetensors")
                assert done.returncode == 0, done.stdout
                got = load(os.path.join(folder, "net.safetensors"))[0]
                same(got, by_torch(initial(folder), x, lambda out: loss(out, target)), f"{packets} packets, {workers} workers, {weights}")
                hashes.add((packets, json.loads(done.stdout.splitlines()[-1])["weights_sha256"]))
            assert len(hashes) == 2, "the bits depend on the number of workers"
    write(folder, f"{sources[0]}\nignore_label = 255\nbatch = 40", LINEAR.format(outputs=3, loss="softmax_loss", more=""), packets=4)
    text = run(folder, "check", "job.toml").stdout
    assert "layer 'loss': some training labels do not count" in text, text


def ids(folder):
    x = rng.integers(0, 1000, (90, 4))
    x[0, 0] = 999
    numpy.savez(os.path.join(folder, "i.npz"), x_train=x.astype(numpy.int32), y_train=x.sum(1) % 3)
    words = '[[layer]]\nname = "words"\ntype = "embedding"\ninputs = ["data"]\nvocabulary = {}\noutputs = 2\n'
    layers = words + LINEAR.format(outputs=3, loss="softmax_loss", more="").replace('["data"]', '["words"]')
    data = 'source = "numpy"\npath = "i.npz"\nids = true\ntest_data = ""\nbatch = 30\nvalidation = 0.2'
    trained(folder, data, layers.format(1000))
    card = json.loads(run(folder, "data", "job.toml", "--json").stdout)
    assert card["vocabulary"] == 1000 and len(card["train"]["classes"]) == 3, card
    write(folder, data, layers.format(999))
    text = run(folder, "check", "job.toml").stdout
    assert "layer 'words': a vocabulary of 999, but the data has 1000 different ids" in text, text


def conditions(folder):
    """Conditions of evaluations are refused for data without test examples, and patience by loss ends a job without an accuracy."""
    x = rng.normal(size=(20, 2)).astype(numpy.float32)
    numpy.savez(os.path.join(folder, "p.npz"), x_train=x, y_train=x.sum(1))
    write(folder, 'source = "numpy"\npath = "p.npz"\ntest_data = ""\nbatch = 10', LINEAR.format(outputs=1, loss="euclidean", more=""))
    every = ["--set", "eval.every=2"]
    for key in ("train.finish={patience=3}", "train.finish={target_accuracy=0.9}", 'train.dynamics.schedule={kind="plateau"}'):
        done = run(folder, "check", "job.toml", *every, "--set", key)
        assert done.returncode == 2 and "needs evaluations, but source 'numpy' has no test data" in done.stdout, done.stdout
    stuck = ["--set", "train.finish={patience=3}", "--set", "train.dynamics.lr=0", "--set", "data.validation=0.2"]
    done = run(folder, "train", "job.toml", "--no-run", "--json", *every, *stuck, "--set", "data.batch=4")
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[-1])["steps"] == 8, done.stdout


def validation(folder):
    x = rng.normal(size=(100, 2)).astype(numpy.float32)
    numpy.savez(os.path.join(folder, "v.npz"), x_train=x, y_train=x.sum(1), x_test=x[:7], y_test=x[:7].sum(1))
    data = 'source = "numpy"\npath = "v.npz"\nbatch = 16\nvalidation = 0.2'
    layers = LINEAR.format(outputs=1, loss="euclidean", more="")
    write(folder, data, layers)
    rows = {}
    for part in ("with", "without"):
        more = [] if part == "with" else ["--set", "data.validation=0"]
        card = json.loads(run(folder, "data", "job.toml", "--json", *more).stdout)
        rows[part] = (card["train"]["examples"], card["test"]["examples"], card["validation"], card["shared"])
    assert rows == {"with": (80, 20, True, 0), "without": (100, 7, False, 7)}, rows
    same(trained(folder, data, layers, packets=4, workers=2), trained(folder, data, layers, packets=4), "the split depends on the workers")
    text = run(folder, "train", "job.toml", "--no-run", "--json").stdout
    evaluated = [json.loads(line) for line in text.splitlines() if '"eval"' in line]
    lines = run(folder, "predict", "job.toml", "--weights", "net.safetensors", "--test").stdout.splitlines()
    assert len(lines) >= 21 and evaluated, text
    write(folder, data.replace("0.2", "0.001"), layers)
    text = run(folder, "check", "job.toml").stdout
    assert "validation = 0.001 of 100 training examples leaves no example to evaluate on" in text, text


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in (targets, class_weights, ignored, ids, conditions, validation):
            test(folder)
    print("targets and class weights train as in PyTorch")


main()
