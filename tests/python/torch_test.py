"""Nets of PyTorch in Troupe and back, against PyTorch itself."""
import collections
import math
import os
import random
import sys
import unittest

import numpy
import torch
from torch import nn

import troupe
from helpers import LENET, InFolder, cli
from troupe import torch_nets

F = nn.functional
TRAIN = {"dynamics": {"rule": "sgd", "lr": 0.1}, "finish": {"steps": 1}}


class RandomNet(nn.Module):
    """A net of images that a seed draws: a chain with branches, of all kinds of layers."""

    def __init__(self, seed, drawn):
        super().__init__()
        self.draw = random.Random(seed)
        self.drawn = drawn
        channels, size = self.draw.choice([1, 3, 4]), self.draw.choice([8, 9, 12])
        self.example = (channels, size, size)
        shape = self.example
        self.steps = []
        for _ in range(self.draw.randint(2, 6)):
            shape = self.grow(shape)
        self.features = shape[0] * shape[1] * shape[2]
        self.head = nn.Linear(self.features, 5, bias=self.draw.random() < 0.8)

    def keep(self, module):
        name = f"m{len(self.steps)}"
        self.add_module(name, module)
        return name

    def by_axis(self, numbers):
        """A pair for height and width; half of them are of equal numbers."""
        first = self.draw.choice(numbers)
        return first, first if self.draw.random() < 0.5 else self.draw.choice(numbers)

    def grow(self, shape):  # size: one branch for each kind of layer
        d, (c, h, w) = self.draw, shape
        kinds = ["conv", "deconv", "batch_norm", "layer_norm", "lrn", "activation", "function", "prelu", "dropout", "add", "cat", "pad",
                 "upsample", "softmax", "chunk", "same", "group_norm", "instance_norm", "permute", "reshape", "matmul"] + (["max_pool", "avg_pool", "adaptive"] if min(h, w) >= 4 else [])
        kind = d.choice(kinds)
        self.drawn[kind] += 1
        if kind == "conv":
            groups = d.choice([g for g in (1, 2) if c % g == 0])
            k, s, p, dil = self.by_axis([1, 3]), self.by_axis([1, 2]), list(self.by_axis([0, 1])), self.by_axis([1, 1, 2])
            for a, extent in enumerate((h, w)):
                if extent + 2 * p[a] <= dil[a] * (k[a] - 1) + 1:
                    p[a] = dil[a]
            same = s == (1, 1) and d.random() < 0.2
            module = nn.Conv2d(c, 2 * d.randint(1, 4), k, s, "same" if same else tuple(p), dil, groups, bias=d.random() < 0.7)
        elif kind == "deconv":
            stride = self.by_axis([1, 2])
            module = nn.ConvTranspose2d(c, d.randint(1, 5), self.by_axis([3, 4]), stride, self.by_axis([0, 1]),
                                        tuple(d.randint(0, n - 1) for n in stride), bias=d.random() < 0.7, dilation=self.by_axis([1, 2]))
        elif kind == "batch_norm":
            module = nn.BatchNorm2d(c, affine=d.random() < 0.7)
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
        elif kind == "layer_norm":
            module = nn.LayerNorm([c, h, w], elementwise_affine=d.random() < 0.5)
        elif kind == "lrn":
            module = nn.LocalResponseNorm(d.choice([3, 5]), alpha=0.5, beta=0.6, k=1.5)
        elif kind == "activation":
            module = d.choice([nn.ReLU(), nn.LeakyReLU(0.1), nn.ELU(0.7), nn.GELU(), nn.GELU(approximate="tanh"), nn.Sigmoid(), nn.Tanh(), nn.Identity()])
        elif kind == "function":
            f = d.choice([F.relu, torch.tanh, torch.sigmoid, F.gelu, F.elu])
            self.steps.append(lambda x: f(x))
            return shape
        elif kind == "prelu":
            module = nn.PReLU(d.choice([1, c]))
        elif kind == "dropout":
            module = nn.Dropout(0.3)
        elif kind == "softmax":
            module = nn.Softmax(dim=d.choice([1, 2, -1]))
        elif kind == "group_norm" and h * w > 1:
            module = nn.GroupNorm(d.choice([g for g in range(1, c + 1) if c % g == 0]), c, 1e-3, affine=d.random() < 0.6)
        elif kind == "instance_norm" and h * w > 1:
            module = nn.InstanceNorm2d(c, 1e-3, affine=d.random() < 0.6)
        elif kind in ("permute", "reshape", "matmul"):
            return self.move(kind, shape)
        elif kind == "pad" and min(h, w) > 2:
            module = d.choice([nn.ZeroPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d])((1, 0, 2, 1))
        elif kind == "upsample":
            if h > 20:
                return shape
            module = d.choice([nn.Upsample(scale_factor=2), nn.Upsample(size=(h + 3, w + 1), mode="bilinear", align_corners=d.random() < 0.5)])
        elif kind == "max_pool":
            module = nn.MaxPool2d(self.by_axis([2, 3]), self.by_axis([1, 2]), self.by_axis([0, 1]), ceil_mode=d.random() < 0.5)
        elif kind == "avg_pool":
            module = nn.AvgPool2d(self.by_axis([2, 3]), self.by_axis([1, 2]), self.by_axis([0, 1]), ceil_mode=d.random() < 0.5,
                                  count_include_pad=d.random() < 0.5)
        elif kind == "adaptive":
            module = nn.AdaptiveAvgPool2d(tuple(d.choice([n for n in (1, 1, 2, 4) if extent % n == 0]) for extent in (h, w)))
        elif kind in ("add", "cat"):
            a, b = self.keep(nn.Conv2d(c, 4, 1)), None
            self.add_module(a + "b", nn.Conv2d(c, 4, 1))
            join = d.choice([lambda x, y: x + y, torch.mul, torch.sub, torch.maximum]) if kind == "add" else (lambda x, y: torch.cat([x, y], 1))
            self.steps.append(lambda x: join(getattr(self, a)(x), getattr(self, a + "b")(x)))
            return (4 if kind == "add" else 8, h, w)
        elif kind == "chunk":
            if c % 2:
                return shape

            def halves(x):
                parts = torch.chunk(x, 2, 1)
                return parts[0] * parts[1]

            self.steps.append(halves)
            return (c // 2, h, w)
        else:
            return shape
        name = self.keep(module)
        self.steps.append(lambda x: getattr(self, name)(x))
        with torch.no_grad():
            return tuple(module.eval()(torch.zeros(1, c, h, w)).shape[1:])

    def move(self, kind, shape):
        d, (c, h, w) = self.draw, shape
        if kind == "permute":
            order = d.choice([(0, 2, 3, 1), (0, 1, 3, 2), (0, 3, 1, 2)])
            self.steps.append(d.choice([lambda x: x.permute(*order), lambda x: torch.permute(x, order)]) if order != (0, 1, 3, 2) else
                              d.choice([lambda x: x.transpose(-1, -2), lambda x: torch.transpose(x, 3, 2)]))
            return tuple(shape[k - 1] for k in order[1:])
        if kind == "reshape":
            self.steps.append(d.choice([lambda x: x.reshape(-1, h, c, w), lambda x: x.contiguous().view(x.size(0), h, c, -1), lambda x:
                                        x.flatten(2).unsqueeze(2)]))
            with torch.no_grad():
                return tuple(self.steps[-1](torch.zeros(1, c, h, w)).shape[1:])
        self.steps.append(d.choice([lambda x: x @ x.transpose(2, 3), lambda x: torch.matmul(x * 0.5, x.permute(0, 1, 3, 2)),
                                    lambda x: torch.bmm(x.flatten(1, 2), x.flatten(1, 2).transpose(1, 2)).unsqueeze(1) / math.sqrt(w)]))
        with torch.no_grad():
            made = tuple(self.steps[-1](torch.zeros(1, c, h, w)).shape[1:])
        self.steps.append(lambda x: torch.softmax(x, -1))
        return made

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return self.head(torch.flatten(x, 1))


class Attention(nn.Module):
    """Heads of attention between all steps, or causal."""

    def __init__(self, width, heads, mask="none", most=1):
        super().__init__()
        self.mask = mask
        later = torch.ones(most, most).triu(1)
        self.register_buffer("later", later.view(1, 1, most, most) if mask == "condition" else torch.zeros(most, most).masked_fill(later == 1, -torch.inf),
                             persistent=False)
        self.width, self.heads = width, heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.size(0), x.size(1), x.size(2)
        parts = self.qkv(x).split(self.width, dim=2)
        q, k, v = (parts[i].view(n, t, self.heads, width // self.heads).transpose(1, 2) for i in range(3))
        scores = q @ k.transpose(-2, -1) * k.size(-1) ** -0.5
        if self.mask == "condition":
            scores = scores.masked_fill(self.later == 1, float("-inf"))
        elif self.mask == "added":
            scores = scores + self.later
        y = F.softmax(scores, dim=-1) @ v
        return x + self.out(y.transpose(1, 2).contiguous().view(n, t, width))


class RandomSeriesNet(nn.Module):
    """A net of series [N, C, L]: convolutions and pooling of one axis."""

    def __init__(self, seed, drawn):
        super().__init__()
        d = random.Random(seed)
        channels, length = d.randint(1, 4), d.randint(8, 20)
        self.example = (channels, length)
        steps = []
        for _ in range(d.randint(1, 4)):
            outputs, k, s, p = d.randint(1, 5), d.randint(2, 3), d.randint(1, 2), d.randint(0, 1)
            kind = d.choice(["Conv1d", "Conv1d", "ConvTranspose1d", "MaxPool1d", "AvgPool1d", "AdaptiveAvgPool1d", "BatchNorm1d", "pad"])
            if length < 6 and kind != "ConvTranspose1d":
                kind = "BatchNorm1d"
            if kind == "Conv1d":
                groups = d.choice([g for g in (1, 2, 3) if channels % g == 0])
                padding = "same" if k == 3 and s == 1 and d.random() < 0.3 else p
                steps.append(nn.Conv1d(channels, outputs * groups, k, s, padding, d.randint(1, 2), groups, d.random() < 0.7))
            elif kind == "ConvTranspose1d":
                steps.append(nn.ConvTranspose1d(channels, outputs, k, s, p, d.randint(0, s - 1), 1, d.random() < 0.7))
            elif kind == "pad":
                steps.append(d.choice([nn.ReflectionPad1d((1, 2)), nn.ReplicationPad1d((0, 2)), nn.ConstantPad1d((2, 0), 0.0)]))
            elif kind == "MaxPool1d":
                steps.append(nn.MaxPool1d(k, s, p, ceil_mode=d.random() < 0.5))
            elif kind == "AvgPool1d":
                steps.append(nn.AvgPool1d(k, s, p, d.random() < 0.5, d.random() < 0.5))
            elif kind == "AdaptiveAvgPool1d":
                steps.append(nn.AdaptiveAvgPool1d(d.choice([n for n in (1, 2, 3, 4) if length % n == 0])))
            else:
                steps.append(nn.BatchNorm1d(channels))
            drawn[kind] += 1
            with torch.no_grad():
                channels, length = nn.Sequential(*steps).eval()(torch.zeros(1, *self.example)).shape[1:]
            steps.append(d.choice([nn.ReLU(), nn.Tanh(), nn.PReLU(channels)]))
        self.body = nn.Sequential(*steps)
        self.head = nn.Linear(channels * length, 4)

    def forward(self, x):
        return self.head(torch.flatten(self.body(x), 1))


class RandomSequenceNet(nn.Module):
    """Ids through an embedding, recurrent layers, and a head for the last step or for all."""

    def __init__(self, seed, drawn):
        super().__init__()
        d = random.Random(seed)
        self.length, units = d.randint(2, 6), d.randint(2, 7)
        self.table = nn.Embedding(11, 5)
        kind = d.choice([nn.LSTM, nn.GRU, nn.RNN])
        more = {"nonlinearity": d.choice(["tanh", "relu"])} if kind is nn.RNN else {}
        self.cell = kind(5, units, num_layers=d.randint(1, 2), batch_first=True, bias=d.random() < 0.7, **more)
        self.mix = Attention(units, d.choice([h for h in range(1, units + 1) if units % h == 0]), d.choice(["none", "condition", "added"]), self.length) if d.random() < 0.5 else nn.Identity()
        self.norm = nn.LayerNorm(units)
        self.head = nn.Linear(units, 4)
        self.last = d.random() < 0.5
        drawn[kind.__name__] += 1

    def forward(self, x):
        y = self.norm(self.mix(self.cell(self.table(x))[0]))
        return self.head(y[:, -1] if self.last else y)


def outputs_of(net, module, examples, ids=False):
    data = {"source": "arrays", "batch": 4, "labels": ""}
    layers = [*net.layers, {"name": "loss", "type": "euclidean", "inputs": [net.output, net.output]}]
    job = troupe.Job(arrays={"x_train": examples}, data={**data, "ids": True} if ids else data, layer=layers, train=TRAIN)
    return troupe.Predictor(job, net.weights, layer=net.output)(examples)


class TorchNets(InFolder):
    def compare(self, module, examples, ids=False):
        module.eval()
        net = troupe.from_torch(module, torch.from_numpy(examples[:1]))
        with torch.no_grad():
            wanted = module(torch.from_numpy(examples)).numpy()
        got = outputs_of(net, module, examples, ids).reshape(wanted.shape)
        numpy.testing.assert_allclose(got, wanted, atol=1e-5 * max(1, abs(wanted).max()))
        return net

    def test_random_nets_compute_what_torch_computes(self):
        drawn = collections.Counter()
        for seed in range(200):
            with self.subTest(seed=seed):
                torch.manual_seed(seed)
                module = RandomNet(seed, drawn)
                examples = numpy.random.default_rng(seed).normal(size=(4, *module.example)).astype(numpy.float32)
                net = self.compare(module, examples)
                self.go_back(module, net)
        self.assertGreaterEqual(min(drawn.values()), 5, drawn)
        self.assertGreaterEqual(len(drawn), 24)

    def go_back(self, module, net):
        """Troupe's weights in a module that has forgotten its own: the same bits."""
        before = {n: v.clone() for n, v in module.state_dict().items()}
        with torch.no_grad():
            for v in module.state_dict().values():
                v.zero_()
        net.load(module, net.weights)
        for n, v in module.state_dict().items():
            if not n.endswith("num_batches_tracked"):
                self.assertTrue(torch.equal(v, before[n]), n)

    def test_random_series_nets_compute_what_torch_computes(self):
        drawn = collections.Counter()
        for seed in range(80):
            with self.subTest(seed=seed):
                torch.manual_seed(seed)
                module = RandomSeriesNet(seed, drawn)
                examples = numpy.random.default_rng(seed).normal(size=(4, *module.example)).astype(numpy.float32)
                self.go_back(module, self.compare(module, examples))
        self.assertEqual(len(drawn), 7)
        self.assertGreaterEqual(min(drawn.values()), 5, drawn)

    def test_random_sequence_nets_compute_what_torch_computes(self):
        drawn = collections.Counter()
        for seed in range(60):
            with self.subTest(seed=seed):
                torch.manual_seed(seed)
                module = RandomSequenceNet(seed, drawn)
                examples = numpy.random.default_rng(seed).integers(0, 11, (4, module.length)).astype(numpy.int32)
                self.go_back(module, self.compare(module, examples, ids=True))
        self.assertEqual(len(drawn), 3)

    def test_trains_as_torch_trains(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(8, 16)
                self.b = nn.Linear(16, 3)

            def forward(self, x):
                return self.b(torch.relu(self.a(x)))

        draw = numpy.random.default_rng(1)
        x, y = draw.normal(size=(40, 8)).astype(numpy.float32), draw.integers(0, 3, 40)
        module = Net()
        net = troupe.from_torch(module, torch.zeros(1, 8))
        job = net.job(data={"source": "arrays", "batch": 10}, arrays={"x_train": x, "y_train": y},
                      train={"sampler": {"kind": "sequential"}, "dynamics": {"rule": "sgd", "lr": 0.1}, "finish": {"steps": 12}})
        result = troupe.train(job, weights=net.weights, run_dir=False)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for step in range(12):
            at = slice(step % 4 * 10, step % 4 * 10 + 10)
            optimizer.zero_grad()
            F.cross_entropy(module(torch.from_numpy(x[at])), torch.from_numpy(y[at])).backward()
            optimizer.step()
        for theirs, ours in net.names:
            numpy.testing.assert_allclose(result.weights[ours].numpy(), module.state_dict()[theirs].numpy(), atol=1e-5)
        net.load(module, result.weights)
        numpy.testing.assert_array_equal(module.a.weight.detach().numpy(), result.weights["a.weight"].numpy())

    def test_shared_parameters_train_as_in_torch(self):
        class Shared(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(5, 6)
                self.fc = nn.Linear(6, 6)
                self.out = nn.Linear(6, 5)
                self.out.weight = self.embed.weight

            def forward(self, x):
                x = torch.tanh(self.fc(torch.flatten(self.embed(x), 1)))
                return self.out(self.fc(x))

        torch.manual_seed(5)
        module = Shared()
        module.eval()
        ids = torch.zeros(1, 1, dtype=torch.int64)
        net = troupe.from_torch(module, ids)
        self.assertEqual({x["name"]: x["share"] for x in net.layers if "share" in x}, {"fc_1": "fc", "out": "embed.weight"})
        self.assertEqual(sorted(net.weights), ["embed.weight", "fc.bias", "fc.weight", "out.bias"])
        draw = numpy.random.default_rng(2)
        x, y = draw.integers(0, 5, (40, 1)).astype(numpy.int32), draw.integers(0, 5, 40)
        job = net.job(data={"source": "arrays", "batch": 10, "ids": True}, arrays={"x_train": x, "y_train": y},
                      train={"sampler": {"kind": "sequential"}, "dynamics": {"rule": "momentum", "lr": 0.1, "momentum": 0.9},
                             "average": {"kind": "ema", "decay": 0.8}, "finish": {"steps": 12}},
                      pipeline={"packets": 2})
        result = troupe.train(job, weights=net.weights, run_dir=False)
        module.train()
        average = torch.optim.swa_utils.AveragedModel(module, avg_fn=lambda a, w, n: 0.8 * a + 0.2 * w)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for step in range(12):
            at = slice(step % 4 * 10, step % 4 * 10 + 10)
            optimizer.zero_grad()
            F.cross_entropy(module(torch.from_numpy(x[at]).long()), torch.from_numpy(y[at])).backward()
            optimizer.step()
            average.update_parameters(module)
        for theirs, ours in net.names:
            numpy.testing.assert_allclose(result.weights[ours].numpy(), average.module.state_dict()[theirs].numpy(), atol=1e-5)

    def test_errors_name_the_node(self):
        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.bn = nn.BatchNorm1d(4)

            def forward(self, x):
                return self.bn(self.bn(x))

        class Broadcast(nn.Module):
            def forward(self, x):
                return x + 1

        class Masked(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mask", torch.ones(8, 8, dtype=torch.bool).triu(2))

            def forward(self, x):
                return torch.softmax(x.masked_fill(self.mask, -torch.inf), -1)

        class Swapped(nn.Module):
            def forward(self, x):
                return x.transpose(0, 1)

        class Product(nn.Module):
            def forward(self, x):
                return x @ torch.chunk(x, 3, 1)[0]

        image, row = torch.zeros(1, 3, 8, 8), torch.zeros(1, 4)
        for module, example, words in [
                (Twice(), row, r"node 'bn_1' \(call_module bn, BatchNorm1d\): the module is called twice"),
                (Broadcast(), row, r"node 'add' .*constants and broadcasting"),
                (nn.Sequential(nn.Conv2d(3, 2, (3, 2), padding="same")), image,
                 r"node '_0' \(call_module 0, Conv2d\): padding 'same' of a kernel \(3, 2\) .*differs before and behind"),
                (nn.Sequential(nn.MaxPool2d(2, dilation=(1, 2))), image, r"MaxPool2d\): the dilation of pooling is not supported"),
                (nn.Sequential(nn.AdaptiveAvgPool2d((3, 2))), image, r"AdaptiveAvgPool2d\): makes \(3, 2\) of \(8, 8\)"),
                (nn.Sequential(nn.Softplus()), image, r"Softplus\): Troupe has no such layer"),
                (nn.Sequential(nn.InstanceNorm2d(3, track_running_stats=True)), image, r"InstanceNorm2d\): running statistics"),
                (Masked(), image, r"node 'masked_fill' .*only masks of the columns behind the diagonal"),
                (nn.Sequential(nn.Softmax(dim=0)), image, r"Softmax\): needs a dim other than that of the examples"),
                (Swapped(), image, r"node 'transpose' .*the axis of the examples \(dim 0\) must stay in front"),
                (Product(), image, r"node 'matmul' .*a product of \(1, 3, 8, 8\) and \(1, 1, 8, 8\): .*without broadcasting"),
                (nn.Sequential(nn.LSTM(4, 2, bidirectional=True, batch_first=True)), torch.zeros(1, 3, 4), "bidirectional")]:
            with self.assertRaisesRegex(troupe.JobError, words):
                troupe.from_torch(module, example)

    def test_the_mode_of_the_module_stays(self):
        module = nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5)).train()
        troupe.from_torch(module, torch.zeros(1, 4))
        self.assertTrue(module.training)


class Programs(InFolder):
    """The program, and `troupe import` and `troupe export` with its list of names."""

    def test_a_module_goes_through_files_and_back(self):
        self.write("model.py", "from torch import nn\ndef net():\n    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))\n")
        self.assertEqual(torch_nets.main([self.path("model.py") + ":net", "--example", "1,8,8", "--out", self.path("net.toml")]), 0)
        cli("troupe", "check", self.path("net.toml"))
        weights = troupe.read_safetensors(self.path("net.safetensors"))
        self.assertEqual(sorted(weights), ["_0.bias", "_0.weight", "_3.bias", "_3.weight"])
        names = ["--names", self.path("net.names")]
        cli("troupe", "export", self.path("net.toml"), "--weights", self.path("net.safetensors"), *names, "--out", self.path("torch.safetensors"))
        exported = troupe.read_safetensors(self.path("torch.safetensors"))
        self.assertEqual(sorted(exported), ["0.bias", "0.weight", "3.bias", "3.weight"])
        cli("troupe", "import", self.path("torch.safetensors"), *names, "--out", self.path("back.safetensors"))
        back = troupe.read_safetensors(self.path("back.safetensors"))
        for n, w in weights.items():
            self.assertEqual(back[n].numpy().tobytes(), w.numpy().tobytes())

    def test_mistakes_are_named(self):
        self.assertEqual(torch_nets.main([self.path("none.py") + ":net", "--example", "1", "--out", self.path("x.toml")]), 2)
        troupe.write_safetensors(self.path("w.safetensors"), {"a.weight": numpy.zeros((2, 2), numpy.float32)})
        for text, words in [("b.weight conv.weight\n", "there is no tensor 'b.weight'"), ("a.weight\n", "names.txt:1:1: a line has two names"),
                            ("a.weight x\na.weight y\n", "names.txt:2:1: 'a.weight' is already on a line above")]:
            names = self.write("names.txt", text)
            with self.assertRaisesRegex(AssertionError, words):
                cli("troupe", "import", self.path("w.safetensors"), "--names", names, "--out", self.path("o.safetensors"))
        with self.assertRaisesRegex(AssertionError, "name a file that ends in .safetensors"):
            cli("troupe", "import", self.path("w.safetensors"), "--out", self.path("o.toml"))
        with self.assertRaisesRegex(AssertionError, "the job has no parameter 'x.weight'"):
            troupe.write_safetensors(self.path("l.safetensors"), troupe.Job(LENET).initial_weights())
            cli("troupe", "export", LENET, "--weights", self.path("l.safetensors"), "--names", self.write("n.txt", "a x.weight\n"), "--out",
                self.path("o.safetensors"))


if __name__ == "__main__":
    unittest.main()
