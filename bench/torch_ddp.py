"""One rank of DistributedDataParallel over Gloo, timed: the peer of bench/two_processes.py. Prints one JSON line. With WORLD_SIZE=1: the plain net.

usage: RANK=r WORLD_SIZE=n MASTER_ADDR=.. MASTER_PORT=.. torch_ddp.py NET STEPS
"""
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

from torch_step import NETS


def main():
    name, steps = sys.argv[1], max(20, int(sys.argv[2]))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    make, batch, shape, lr, decay = NETS[name]
    net, x, y = make(), torch.randn(batch, *shape), torch.randint(0, 10, (batch,))
    rule = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=decay)
    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
    times = []
    for _ in range(steps):
        t = time.perf_counter()
        rule.zero_grad(set_to_none=False)
        F.cross_entropy(net(x), y).backward()
        rule.step()
        times.append(time.perf_counter() - t)
    print(json.dumps({"ms": 1000 * statistics.median(times[10:])}))


if __name__ == "__main__":
    main()
