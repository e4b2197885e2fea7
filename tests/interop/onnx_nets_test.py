#!/usr/bin/env python3
"""Random nets of all layer types that have an equivalent in ONNX: onnx_nets_test.py ONNX_DUMP TROUPE.

Each net is exported with random weights. An evaluator of ONNX (onnx_evaluator.py), Troupe, and Troupe after an import of the exported file give
the same scores, to 1e-5 of the largest. `--seed N` draws other nets, `--keep FOLDER` keeps the files.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_evaluator
import tensors
from onnx_random_nets import Net

NETS = 240
EXAMPLES = 3
ARGS = sys.argv[1:]
SEED = int(ARGS[ARGS.index("--seed") + 1]) if "--seed" in ARGS else 1
KEEP = ARGS[ARGS.index("--keep") + 1] if "--keep" in ARGS else None
DUMP, TROUPE = ARGS[:2]

# Types that ONNX has no equivalent of, or that are losses and metrics.
NOT_EXPORTED = {"accuracy", "euclidean", "hinge", "rbm", "sigmoid_cross_entropy", "softmax_loss", "squared_error", "unpool"}


def draw(folder, seed):
    net = Net(random.Random(seed))
    os.makedirs(folder)
    x = net.examples(np.random.default_rng(seed), EXAMPLES)
    train = np.concatenate([x, x])
    labels = np.zeros(2 * len(x), np.int64)
    if net.ids:
        labels[0] = net.vocabulary - 1  # a source has as many ids as classes
    np.savez(os.path.join(folder, "data.npz"), x_train=train, y_train=labels, x_test=x, y_test=labels[len(x) :])
    with open(os.path.join(folder, "job.toml"), "w") as f:
        f.write(net.text())
    return net, x


def compare(folder, net, x):
    error = os.path.join(folder, "error.txt")
    if os.path.exists(error):
        return open(error).read() + "\n" + net.text()
    out, _ = tensors.load(os.path.join(folder, "out.safetensors"))
    (scores,) = onnx_evaluator.run(onnx.load(os.path.join(folder, "net.onnx")), x.astype(np.int64) if net.ids else x)
    if np.abs(scores).max() < 1e-6:  # of a constant image that is normalised, only rounding errors remain
        compare.zero += 1
        return None
    worst = tensors.relative(out["scores"], scores.reshape(-1))
    again = tensors.relative(out["again"], out["scores"])
    if worst > 1e-5 or again > 1e-6:
        return f"differs by {worst:.2e} from the evaluator, by {again:.2e} after the import\n{net.text()}"
    compare.exact += again == 0.0
    return None


compare.exact = compare.zero = 0


def check_padding(nets):
    """A negative id is padding: its row is zero, and not the last row of the table."""
    folder, net, x = next(n for n in nets if n[1].ids)
    ids = np.full(x.shape, -1, np.int64)
    rows = onnx_evaluator.evaluate(onnx.load(os.path.join(folder, "net.onnx")), ids)["embedding0"]
    assert rows.shape[:2] == x.shape and not rows.any()


COMMANDS_JOB = """
[job]
name = "commands"
[data]
source = "synthetic"
shape = [1, 12, 12]
classes = 4
[[layer]]
name = "conv1"
type = "convolution"
inputs = ["data"]
outputs = 3
kernel = 3
[[layer]]
name = "pool1"
type = "max_pool"
inputs = ["conv1"]
kernel = 3
stride = 2
[[layer]]
name = "ip1"
type = "linear"
inputs = ["pool1"]
outputs = 4
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip1", "label"]
[train]
sync = { mode = "bsp" }
dynamics = { rule = "sgd", lr = 0.01 }
finish = { epochs = 1 }
"""


def check_commands(folder):
    """`troupe export`, `troupe import` and `troupe predict` agree with the evaluator."""
    os.makedirs(folder)
    path = lambda name: os.path.join(folder, name)

    def troupe(*words, code=0):
        r = subprocess.run([TROUPE, *words], capture_output=True, text=True, timeout=60)
        assert r.returncode == code, (words, r.stdout, r.stderr)
        return r.stdout + r.stderr

    with open(path("job.toml"), "w") as f:
        f.write(COMMANDS_JOB)
    with open(path("names.txt"), "w") as f:
        f.write("theirs ip1.weight\n")
    troupe("init", path("job.toml"), "--out", path("begin.safetensors"))
    troupe("export", path("job.toml"), "--weights", path("begin.safetensors"), "--out", path("net.onnx"), "--names", path("names.txt"))
    model = onnx.load(path("net.onnx"))
    assert {t.name for t in model.graph.initializer} == {"conv1.weight", "conv1.bias", "theirs", "ip1.bias"}
    said = troupe("import", path("net.onnx"), "--out", path("made.toml"))
    assert "made.toml" in said and "4 tensors from onnx" in said and "replace its source" in said, said
    troupe("check", path("made.toml"))
    x = np.random.default_rng(1).standard_normal([5, 1, 12, 12]).astype(np.float32)
    np.save(path("x.npy"), x)
    rows = troupe("predict", path("made.toml"), "--weights", path("made.safetensors"), path("x.npy"), "--all", "--json")
    predicted = [o["outputs"] for o in map(json.loads, rows.splitlines()) if "outputs" in o]
    (scores,) = onnx_evaluator.run(model, x)
    assert tensors.relative(predicted, onnx_evaluator.softmax({"opset": 13}, scores)) < 1e-5
    refused = troupe("import", path("job.toml"), "--format", "onnx", "--out", path("none.toml"), code=2)
    assert "it is no ONNX model" in refused and not os.path.exists(path("none.toml")), refused


def exported_types():
    """The layer types of the registry."""
    listed = subprocess.run([TROUPE, "layers", "--json"], check=True, capture_output=True, text=True).stdout
    names = set()
    for line in listed.splitlines():
        o = json.loads(line)
        names |= {o["name"]} if "name" in o else {l["name"] for l in o.get("layers", [])}
    return names - NOT_EXPORTED


def main():
    with tempfile.TemporaryDirectory() as scratch:
        top = KEEP or scratch
        nets = []
        for k in range(NETS):
            folder = os.path.join(top, f"net{k}")
            nets.append((folder, *draw(folder, 1000 * SEED + k)))
        with open(os.path.join(top, "list"), "w") as f:
            f.writelines(folder + "\n" for folder, _, _ in nets)
        subprocess.run([DUMP, os.path.join(top, "list")], check=True, timeout=300)
        check_padding(nets)
        check_commands(os.path.join(top, "commands"))
        wrong = [(folder, why) for folder, net, x in nets if (why := compare(folder, net, x))]
    for folder, why in wrong[:5]:
        print(f"{os.path.basename(folder)}: {why}")
    drawn = {t for _, net, _ in nets for t in net.types}
    missing = exported_types() - drawn
    assert not missing, f"no net has a layer of type {sorted(missing)}"
    assert compare.zero <= 3, "nearly all scores of too many nets are zero"
    print(f"{NETS} nets of {len(drawn)} layer types, {compare.exact} the same bits after the import, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
