"""One PyTorch training step, timed: the peer of bench/compare.py. Runs in a separate process, so that thread counts and the
allocator can be set; prints one JSON line.

usage: torch_step.py NET THREADS LAYOUT SECONDS [PRECISION]
    NET: a key of NETS    LAYOUT: nchw | channels_last    PRECISION: fp32 (default) | bf16, by autocast
"""
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.f1, self.f2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(self.c1(x), 2, 2)
        x = F.max_pool2d(self.c2(x), 2, 2)
        return self.f2(F.relu(self.f1(x.flatten(1))))


class Within(nn.Module):
    """Local response normalisation within a channel (Caffe's CIFAR10-full)."""

    def forward(self, x):
        return x * (1 + 5e-5 * F.avg_pool2d(x * x, 3, 1, 1)) ** -0.75


class Cifar(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.c3 = nn.Conv2d(3, 32, 5, padding=2), nn.Conv2d(32, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
        self.norm, self.f = Within(), nn.Linear(1024, 10)

    def forward(self, x):
        x = self.norm(F.relu(F.max_pool2d(self.c1(x), 3, 2, ceil_mode=True)))
        x = self.norm(F.avg_pool2d(F.relu(self.c2(x)), 3, 2, ceil_mode=True))
        x = F.avg_pool2d(F.relu(self.c3(x)), 3, 2, ceil_mode=True)
        return self.f(x.flatten(1))


def conv(inputs, outputs, kernel, **more):
    return nn.Conv2d(inputs, outputs, kernel, **more), nn.ReLU(inplace=True)


class AlexNet(nn.Module):
    """BVLC's, in two groups: normalisation before pooling."""

    def __init__(self):
        super().__init__()
        norm, pool = lambda: nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0), lambda: nn.MaxPool2d(3, 2)
        self.body = nn.Sequential(
            *conv(3, 96, 11, stride=4), norm(), pool(), *conv(96, 256, 5, padding=2, groups=2), norm(), pool(),
            *conv(256, 384, 3, padding=1), *conv(384, 384, 3, padding=1, groups=2), *conv(384, 256, 3, padding=1, groups=2), pool())
        self.head = nn.Sequential(nn.Linear(9216, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True),
                                  nn.Dropout(), nn.Linear(4096, 1000))

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.c2, self.b2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.stride, self.more = stride, outputs - inputs

    def forward(self, x):
        y = self.b2(self.c2(F.relu(self.b1(self.c1(x)))))
        if self.stride > 1:  # option A of the paper: every second pixel, and channels of zeros
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))
        return F.relu(x + y)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        body, inputs = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)], 16
        for outputs, stride in ((16, 1), (16, 1), (16, 1), (32, 2), (32, 1), (32, 1), (64, 2), (64, 1), (64, 1)):
            body.append(Block(inputs, outputs, stride))
            inputs = outputs
        self.body, self.head = nn.Sequential(*body), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


NETS = {
    "alexnet": (AlexNet, 32, (3, 227, 227), 0.01, 5e-4),
    "resnet20": (ResNet20, 128, (3, 32, 32), 0.1, 1e-4),
    "lenet": (LeNet, 64, (1, 28, 28), 0.01, 5e-4),
    "cifar10_full": (Cifar, 100, (3, 32, 32), 0.001, 4e-3),
    "mlp": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)),
            128, (1, 28, 28), 0.01, 5e-4),
}


def main():
    name, threads, layout, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    half = len(sys.argv) > 5 and sys.argv[5] == "bf16"
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    make, batch, shape, lr, decay = NETS[name]
    net, x, y = make(), torch.randn(batch, *shape), torch.randint(0, 10, (batch,))
    if layout == "channels_last":
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=decay)
    times, end = [], None
    while end is None or time.perf_counter() < end or len(times) < 3:
        t = time.perf_counter()
        opt.zero_grad(set_to_none=False)
        with torch.cpu.amp.autocast(enabled=half, dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t)
        if end is None and (len(times) >= 5 or len(times) >= 2 and times[-1] > 0.3):  # warm
            times, end = [], time.perf_counter() + seconds
    print(json.dumps({"ms": 1000 * statistics.median(times), "steps": len(times), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
