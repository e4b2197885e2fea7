"""One rank of DistributedDataParallel over Gloo, timed: the peer of bench/two_processes.py. Prints one JSON line. With WORLD_SIZE=1: the plain net. With
EXCHANGE_ADDRESS, EXCHANGE_TLS and EXCHANGE_SESSION: gradients go through Troupe's hook (bench/ddp_hook.py).

usage: RANK=r WORLD_SIZE=n MASTER_ADDR=.. MASTER_PORT=.. torch_ddp.py NET STEPS
"""
import hashlib
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
    session = None
    if "EXCHANGE_ADDRESS" in os.environ:
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples", "own_loop"))
        from troupe_exchange import Session, ddp_hook
        session = Session(os.environ["EXCHANGE_ADDRESS"], os.environ["EXCHANGE_TLS"], os.environ["EXCHANGE_SESSION"], int(os.environ["RANK"]),
                          int(os.environ["WORLD_SIZE"]))
        net.register_comm_hook(session, ddp_hook)
    times = []
    for _ in range(steps):
        t = time.perf_counter()
        rule.zero_grad(set_to_none=False)
        F.cross_entropy(net(x), y).backward()
        rule.step()
        times.append(time.perf_counter() - t)
    weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest()
    print(json.dumps({"ms": 1000 * statistics.median(times[10:]), "sha256": weights}))
    if session:
        session.close()


if __name__ == "__main__":
    main()
