#!/usr/bin/env python3
"""A net with shared parameters against PyTorch, in f64: a character model whose output layer is its embedding's table, and layers that use
one linear layer's weights. Trains some steps from equal weights with momentum and an average of the weights, as nn.Parameter and
torch.optim.swa_utils do it.

usage: share_torch_test.py TROUPE_BINARY
"""
import json
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tensors

STEPS, WIDTH, LENGTH, BATCH = 7, 6, 5, 8
JOB = """
[job]
name = "tied"
seed = 3
precision = "f64"
[data]
source = "text"
path = "TEXT"
sequence = 5
test_fraction = 0.2
batch = 8
[[layer]]
name = "embed"
type = "embedding"
inputs = ["data"]
vocabulary = VOCABULARY
outputs = 6
[[layer]]
name = "fc"
type = "linear"
inputs = ["embed"]
outputs = 6
axis = 2
[[layer]]
name = "bend"
type = "tanh"
inputs = ["fc"]
[[layer]]
name = "again"
type = "linear"
inputs = ["bend"]
outputs = 6
axis = 2
share = "fc"
[[layer]]
name = "scores"
type = "linear"
inputs = ["again"]
outputs = VOCABULARY
axis = 2
share = "embed.weight"
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["scores", "label"]
[train]
dynamics = { rule = "momentum", lr = 0.3, momentum = 0.9 }
sampler = { kind = "sequential" }
finish = { steps = 7 }
AVERAGE
"""


class Net(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, WIDTH)
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.scores = nn.Linear(WIDTH, vocabulary)
        self.scores.weight = self.embed.weight

    def forward(self, x):
        return self.scores(self.fc(torch.tanh(self.fc(self.embed(x)))))


def troupe(*args):
    r = subprocess.run(args, capture_output=True, text=True, timeout=120)
    if r.returncode != 0:
        sys.exit(f"{' '.join(args)}\nended with {r.returncode}\n{r.stdout[-2000:]}\n{r.stderr[-2000:]}")
    return [json.loads(line) for line in r.stdout.splitlines()]


def compare(binary, tmp, text, average, update):
    """Both trained from the same weights; the largest difference. `update`: of the average in torch, None: none."""
    vocabulary = len(set(text))
    job, first, last = (os.path.join(tmp, n) for n in ("job.toml", "first.safetensors", "last.safetensors"))
    with open(os.path.join(tmp, "text"), "w") as f:
        f.write(text)
    with open(job, "w") as f:
        f.write(JOB.replace("TEXT", os.path.join(tmp, "text")).replace("VOCABULARY", str(vocabulary)).replace("AVERAGE", average))
    troupe(binary, "init", job, "--out", first, "--json")
    told = troupe(binary, "train", job, "--weights", first, "--out", last, "--json")
    begin, _ = tensors.load(first)
    ours, _ = tensors.load(last)
    assert sorted(ours) == ["embed.weight", "fc.bias", "fc.weight", "scores.bias"], sorted(ours)
    net = Net(vocabulary).double()
    state = net.state_dict()
    with torch.no_grad():
        for name, value in begin.items():
            state[name].copy_(torch.tensor(np.array(value)))
    mean = torch.optim.swa_utils.AveragedModel(net, avg_fn=update[1]) if update else None
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
    ids = [sorted(set(text)).index(c) for c in text]
    losses = [e["loss"] for e in told if e["event"] == "step"]
    for step in range(STEPS):
        rows = [ids[(step * BATCH + i) * LENGTH:(step * BATCH + i) * LENGTH + LENGTH + 1] for i in range(BATCH)]
        x, y = torch.tensor([r[:-1] for r in rows]), torch.tensor([r[1:] for r in rows])
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        assert abs(loss.item() - losses[step]) < 1e-9, (step, loss.item(), losses[step])
        optimizer.step()
        if mean is not None and step >= update[0]:
            mean.update_parameters(net)
    theirs = (mean.module if mean is not None else net).state_dict()
    return max(float(np.abs(np.array(ours[n]) - theirs[n].numpy()).max()) for n in ours)


def main():
    binary = sys.argv[1]
    draw = np.random.default_rng(4)
    text = "".join(draw.choice(list("abcdefg"), 900))
    ema = 'average = { kind = "ema", decay = 0.7 }'
    swa = 'average = { kind = "swa", start = 3 }'
    with tempfile.TemporaryDirectory() as tmp:
        for average, update in [("", None), (ema, (0, lambda a, w, n: 0.7 * a + 0.3 * w)), (swa, (3, lambda a, w, n: a + (w - a) / (n + 1)))]:
            off = compare(binary, tmp, text, average, update)
            assert off < 1e-12, (average, off)
    print("ok: shared parameters and averages as in PyTorch")


if __name__ == "__main__":
    main()
