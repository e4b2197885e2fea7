"""Nets of PyTorch in Troupe and back, against PyTorch itself."""
import collections
import unittest

import numpy
import torch
from torch import nn

import troupe
from helpers import LENET, InFolder, cli
from torch_random_nets import RandomNet, RandomSequenceNet, RandomSeriesNet
from troupe import torch_nets

F = nn.functional
TRAIN = {"dynamics": {"rule": "sgd", "lr": 0.1}, "finish": {"steps": 1}}


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
