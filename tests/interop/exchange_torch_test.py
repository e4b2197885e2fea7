"""exchange_torch_test.py TROUPE_BIN EXAMPLES: two torch processes use a daemon's exchange. DistributedDataParallel with Troupe's hook gives the same bits as
with Gloo, and collective rounds on tensors of every type, synchronous or not, give the results that torch computes from the same values."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

STEPS, RANKS = 6, 2


def value(rank, n, dtype):
    import torch
    return ((torch.arange(n) * 7 + rank * 13) % 5 - 2).to(dtype)


def rounds(session, rank):
    import torch
    assert session.rank == rank and session.size == RANKS
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64):
        for n in (5, 300001):
            name, all_values = f"{dtype} {n}", [value(r, n, dtype) for r in range(RANKS)]
            stacked = torch.stack([v.to(torch.float64) for v in all_values])
            first, count = session.part(n)
            own = slice(first, first + count)
            for how, want in {"sum": stacked.sum(0), "min": stacked.min(0).values, "max": stacked.max(0).values, "product": stacked.prod(0)}.items():
                v = all_values[rank].clone()
                session.all_reduce(name, v, how)
                assert torch.equal(v, want.to(dtype)), (name, how)
                v = all_values[rank].clone()
                session.reduce_scatter(name, v, how, wait=False).wait()
                assert torch.equal(v[own], want.to(dtype)[own]), (name, how)
            v = all_values[rank].clone()
            session.all_gather(name, v)
            want = torch.cat([all_values[r][slice(session.part(n, r)[0], sum(session.part(n, r)))] for r in range(RANKS)])
            assert torch.equal(v, want), name
            v = all_values[rank].clone()
            request = session.broadcast(name, v, 1, wait=False)
            assert torch.equal(request.wait(), all_values[1]), name
            v = all_values[rank].clone()
            session.scatter(name, v, 1)
            assert torch.equal(v[own], all_values[1][own]), name
            session.gather(name, v, 0)
            assert rank != 0 or torch.equal(v, all_values[1]), name


def mean_is_refused(session):
    import torch
    from troupe_exchange import ExchangeError
    try:
        session.all_reduce("whole", torch.zeros(3, dtype=torch.int64), "mean")
    except ExchangeError as e:
        assert e.name == "bad_argument" and "integers have no mean" in str(e), e
    else:
        raise AssertionError("a mean of integers")


def trained(session, rank):
    """The hash of the weights after some steps, with Troupe's hook or, without a session, with Gloo. Some of the buckets are small enough for the daemon."""
    import torch
    import torch.nn as nn
    from troupe_exchange import ddp_hook
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(40, 700), nn.ReLU(), nn.Linear(700, 300), nn.ReLU(), nn.Linear(300, 10))
    model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.5, gradient_as_bucket_view=True)
    if session:
        model.register_comm_hook(session, ddp_hook)
    rule = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(10 + rank)
    losses = []
    for _ in range(STEPS):
        x = torch.randn(32, 40)
        rule.zero_grad()
        loss = nn.functional.cross_entropy(model(x), (x[:, :10]).argmax(1))
        loss.backward()
        rule.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0], losses
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest()


def rank_main(rank, address, certs, store):
    import torch
    import torch.distributed as dist
    from troupe_exchange import Session
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    with Session(address, certs, "test", rank, RANKS, timeout=60) as session:
        rounds(session, rank)
        mean_is_refused(session)
        print(json.dumps({"hook": trained(session, rank), "gloo": trained(None, rank)}))
    dist.destroy_process_group()


def main():
    if sys.argv[1] == "--rank":
        sys.path.insert(0, sys.argv[6])
        return rank_main(int(sys.argv[2]), *sys.argv[3:6])
    binaries, examples = sys.argv[1:]
    sys.path.insert(0, examples)
    import run
    with tempfile.TemporaryDirectory() as folder:
        daemon, address, certs = run.start_daemon(binaries, folder)
        env = dict(os.environ, TROUPE_EXCHANGE_LIBRARY=os.path.join(binaries, "..", "lib", "libtroupe_exchange.so.0"), PYTHONDONTWRITEBYTECODE="1")
        ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--rank", str(r), address, certs, os.path.join(folder, "store"), examples],
                                  stdout=subprocess.PIPE, text=True, env=env) for r in range(RANKS)]
        try:
            said = [r.communicate(timeout=240)[0] for r in ranks]
        finally:
            for r in ranks:
                r.kill()
            daemon.terminate()
            daemon.wait(30)
    assert all(r.returncode == 0 for r in ranks), [r.returncode for r in ranks]
    hashes = {h for s in said for h in json.loads(s.splitlines()[-1]).values()}
    print(f"weights after {STEPS} steps: {hashes}")
    assert len(hashes) == 1, "the weights differ"


main()
