"""One worker of bench/lost_worker.py's peer: the perceptron 784-1024-1024-10, data-parallel over Gloo, under torch's elastic launcher.

A checkpoint every EVERY steps by rank 0, into DIR/checkpoint.pt; a worker that starts continues from it, as in torch's own example of elastic training.
Rank 0 writes "STEP TIME" of each step to DIR/steps, every rank writes its process id to DIR/rank-N.

usage (by the launcher): torch_elastic_worker.py DIR BATCH STEPS EVERY
"""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def main():
    folder, batch, steps, every = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    with open(os.path.join(folder, f"rank-{rank}"), "w") as f:
        f.write(str(os.getpid()))
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    rule = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    first, kept = 0, os.path.join(folder, "checkpoint.pt")
    if os.path.exists(kept):
        state = torch.load(kept)
        net.load_state_dict(state["net"])
        rule.load_state_dict(state["rule"])
        first = state["step"]
    net = nn.parallel.DistributedDataParallel(net)
    x, y = torch.rand(4096, 784), torch.randint(0, 10, (4096,))
    mine = batch // ranks
    with open(os.path.join(folder, "steps"), "a", buffering=1) as told:
        for step in range(first, steps):
            at = (step * batch + rank * mine) % (4096 - mine)
            rule.zero_grad()
            F.cross_entropy(net(x[at:at + mine]), y[at:at + mine]).backward()
            rule.step()
            if rank == 0:
                told.write(f"{step + 1} {time.time()}\n")
                if (step + 1) % every == 0:
                    torch.save({"net": net.module.state_dict(), "rule": rule.state_dict(), "step": step + 1}, kept + ".new")
                    os.replace(kept + ".new", kept)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
