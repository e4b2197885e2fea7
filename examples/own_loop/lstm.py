#!/usr/bin/env python3
"""lstm.py ADDRESS TLS_DIR RANK SIZE bsp|easgd|hogwild OUT [--lock]: a PyTorch LSTM that learns to continue waves, in several processes.

The loop is plain PyTorch; two lines of it call Troupe:
  bsp     every step: all_reduce of each gradient. Every rank has the same weights, bit for bit.
  easgd   every 10 steps: an elastic step of each parameter with alpha 0.5 (Platoon's setting).
  hogwild every step: read each parameter from shared memory, and add the optimizer's update to it. With --lock, no update is lost.
Every rank draws its own waves. Writes its weights to OUT (raw float32) and one line of JSON to stdout. Exit code 77: PyTorch is not
installed.
"""
import json
import sys

from troupe_exchange import Session

try:
    import torch
except ImportError:
    print("lstm.py: PyTorch is not installed", file=sys.stderr)
    sys.exit(77)

STEPS, TAU, ALPHA, BATCH, LENGTH, HIDDEN = 300, 10, 0.5, 16, 24, 16


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(1, HIDDEN, batch_first=True)
        self.out = torch.nn.Linear(HIDDEN, 1)

    def forward(self, x):
        return self.out(self.lstm(x)[0])


def waves(generator, batch):
    """Sine waves of random phase and pitch, with shape [batch, LENGTH + 1, 1]."""
    phase = torch.rand(batch, 1, generator=generator) * 6.2832
    pitch = 0.3 + 0.4 * torch.rand(batch, 1, generator=generator)
    return torch.sin(phase + pitch * torch.arange(LENGTH + 1)).unsqueeze(2)


def loss_of(model, batch):
    return torch.nn.functional.mse_loss(model(batch[:, :-1]), batch[:, 1:])


def main():
    address, tls_dir, rank, size, mode, out = sys.argv[1:7]
    rank, size, elastic, hogwild, lock = int(rank), int(size), mode == "easgd", mode == "hogwild", "--lock" in sys.argv[7:]
    torch.set_num_threads(1)  # the ranks share this machine
    torch.manual_seed(rank)
    generator = torch.Generator().manual_seed(100 + rank)
    unseen = waves(torch.Generator().manual_seed(99), 64)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    parameters = dict(model.named_parameters())
    options = {"averaging_method": "easgd", "alpha": ALPHA} if elastic else {}
    with Session(address, tls_dir, "lstm-" + mode, rank, size, **options) as session:
        with torch.no_grad():
            if hogwild:
                for name, p in parameters.items():
                    session.share(name, p)  # the array starts with the first rank's weights
                    session.shared_read(name, p)
                session.barrier()
            elif elastic:
                session.barrier()  # ranks start with different weights, which the exchange pulls together
            else:
                for name, p in parameters.items():
                    session.broadcast(name, p)
            first = loss_of(model, unseen).item()
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            if hogwild:
                with torch.no_grad():
                    for name, p in parameters.items():
                        session.shared_read(name, p, lock)
                before = [p.detach().clone() for p in parameters.values()]
            loss_of(model, waves(generator, BATCH)).backward()
            if mode == "bsp":
                for name, p in parameters.items():
                    session.all_reduce(name, p.grad, "mean")
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if hogwild:
                with torch.no_grad():
                    for (name, p), b in zip(parameters.items(), before):
                        session.shared_add(name, p - b, 1 / size, lock)
            if elastic and step % TAU == 0:
                with torch.no_grad():
                    for name, p in parameters.items():
                        session.exchange(name, p)
        session.barrier()
        with torch.no_grad():
            if hogwild:
                for name, p in parameters.items():
                    session.shared_read(name, p, lock)
            last = loss_of(model, unseen).item()
            with open(out, "wb") as f:
                for p in parameters.values():
                    f.write(p.numpy().tobytes())
            if elastic:
                for name, p in parameters.items():
                    session.centre(name, p)
            centre = loss_of(model, unseen).item()
        session.barrier()
    print(json.dumps({"rank": rank, "first_loss": first, "last_loss": last, "centre_loss": centre}))


if __name__ == "__main__":
    main()
