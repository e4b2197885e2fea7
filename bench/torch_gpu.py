"""PyTorch training steps on a GPU, timed: the peer of bench/gpu.py, in a separate process. Prints JSON lines: {"event": "steady"} when the
steps that are timed begin, then {"event": "done", "ms", ...}, or {"event": "skipped", "why"}.

usage: torch_gpu.py NET BATCH PRECISION LAYOUT HOW SECONDS [--device cuda]
    NET: a key of NETS    PRECISION: fp32 (without TF32) | bf16, by autocast    LAYOUT: nchw | channels_last    HOW: eager | compile

A time is that of a block of steps between two waits for the GPU, divided by their number: the median of the blocks. The batch stays on the GPU.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

from torch_large import GoogLeNet, ResNet50
from torch_step import AlexNet, LeNet

NETS = {"lenet": (LeNet, (1, 28, 28), 10), "alexnet": (AlexNet, (3, 227, 227), 1000), "resnet50": (ResNet50, (3, 224, 224), 1000),
        "googlenet": (GoogLeNet, (3, 224, 224), 1000)}
BLOCKS = 5


def told(event, **values):
    print(json.dumps({"event": event, **values}), flush=True)


def loss_of(scores, y):
    if isinstance(scores, tuple):  # GoogLeNet's side heads
        return sum(weight * F.cross_entropy(s, y) for weight, s in zip((1, 0.3, 0.3), scores))
    return F.cross_entropy(scores, y)


class Training:
    def __init__(self, a):
        make, shape, classes = NETS[a.net]
        torch.manual_seed(1)
        self.gpu, self.half, self.device = a.device == "cuda", a.precision == "bf16", a.device
        net, x = make().to(a.device), torch.randn(a.batch, *shape, device=a.device)
        if a.layout == "channels_last":
            net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4)
        self.net = torch.compile(net) if a.how == "compile" else net
        self.x, self.y = x, torch.randint(0, classes, (a.batch,), device=a.device)

    def step(self):
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast(self.device, enabled=self.half, dtype=torch.bfloat16):
            loss = loss_of(self.net(self.x), self.y)
        loss.backward()
        self.optimiser.step()

    def wait(self):
        if self.gpu:
            torch.cuda.synchronize()

    def seconds_of(self, steps):
        self.wait()
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.wait()
        return time.perf_counter() - begin


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("net", choices=NETS)
    p.add_argument("batch", type=int)
    p.add_argument("precision", choices=("fp32", "bf16"))
    p.add_argument("layout", choices=("nchw", "channels_last"))
    p.add_argument("how", choices=("eager", "compile"))
    p.add_argument("seconds", type=float)
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    a = p.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        return told("skipped", why=f"PyTorch {torch.__version__} sees no GPU")
    if a.how == "compile" and not hasattr(torch, "compile"):
        return told("skipped", why=f"PyTorch {torch.__version__} has no torch.compile")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    training = Training(a)
    training.seconds_of(2)  # compiles, and tries cuDNN's algorithms
    each = training.seconds_of(3) / 3
    steps = max(1, int(a.seconds / BLOCKS / each))
    told("steady")
    times = [training.seconds_of(steps) / steps for _ in range(BLOCKS)]
    told("done", ms=1000 * statistics.median(times), least=1000 * min(times), most=1000 * max(times), steps=steps * BLOCKS,
         torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version())


if __name__ == "__main__":
    main()
