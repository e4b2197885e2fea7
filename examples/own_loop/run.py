#!/usr/bin/env python3
"""run.py TROUPE_BIN bsp|easgd|hogwild|hogwild-lock f|d COMMAND...: starts a daemon with new certificates, runs COMMAND as two
processes, and checks the results of training. f or d: type of the weights in the files that COMMAND writes (float32, float64).
Exits with 77 if COMMAND does, because it lacks a library."""
import array
import json
import math
import os
import socket
import subprocess
import sys
import tempfile

ACCURACY = 0.95  # required with hogwild, if the model reports it


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_daemon(binaries, folder):
    address = f"127.0.0.1:{free_port()}"
    cluster = os.path.join(folder, "cluster.toml")
    with open(cluster, "w") as f:
        f.write('[cluster]\nname = "local"\n[cluster.tls]\ndir = "certs"\n[[node]]\nname = "n1"\n'
                f'address = "{address}"\nroles = ["coordinator", "worker", "server", "data"]\n')
    subprocess.run([os.path.join(binaries, "troupe"), "init-cluster", "--cluster", cluster], check=True, stdout=subprocess.DEVNULL)
    log = open(os.path.join(folder, "log"), "w")
    daemon = subprocess.Popen([os.path.join(binaries, "trouped"), "--cluster", cluster, "--node", "n1"], stdout=subprocess.PIPE,
                              stderr=log, text=True)
    assert daemon.stdout.readline().startswith("ready"), "the daemon did not start"
    return daemon, address, os.path.join(folder, "certs")


def run(command, address, certs, size, mode, kind, folder):
    """Runs all ranks. Returns the JSON object that each rank printed, and its weights."""
    mode, _, lock = mode.partition("-")
    options = ["--" + lock] if lock else []
    outs = [os.path.join(folder, f"weights{rank}") for rank in range(size)]
    ranks = [subprocess.Popen([*command, address, certs, str(rank), str(size), mode, outs[rank], *options], stdout=subprocess.PIPE, text=True)
             for rank in range(size)]
    try:
        said = [r.communicate(timeout=240)[0] for r in ranks]
    finally:
        for r in ranks:
            r.kill()
    if any(r.returncode == 77 for r in ranks):
        sys.exit(77)
    assert all(r.returncode == 0 for r in ranks), [r.returncode for r in ranks]
    weights = []
    for name in outs:
        weights.append(array.array(kind))
        with open(name, "rb") as f:
            weights[-1].frombytes(f.read())
    return [json.loads(s) for s in said], weights


def distance(a, b):
    """Distance of two vectors, relative to their length."""
    return math.dist(a, b) / math.sqrt(math.hypot(*a) * math.hypot(*b))


def main():
    binaries, mode, kind, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        daemon, address, certs = start_daemon(binaries, folder)
        try:
            said, weights = run(command, address, certs, 2, mode, kind, folder)
            alone = run(command, address, certs, 1, mode, kind, folder)[1][0] if kind == "d" and mode == "bsp" else None
        finally:
            daemon.terminate()
            daemon.wait(30)
    for s in said:
        print(json.dumps(s))
    apart = distance(*weights)
    print(f"weights of the two ranks: {len(weights[0])} values, relative distance {apart:.3g}")
    for s in said:
        assert s["last_loss"] < 0.3 * s["first_loss"], "the loss did not fall"
        assert s["centre_loss"] < 0.3 * s["first_loss"], "the loss of the centre did not fall"
    if mode.startswith("hogwild"):
        assert weights[0].tobytes() == weights[1].tobytes(), "hogwild: the ranks' weights differ"
        assert all(s.get("accuracy", 1) >= ACCURACY for s in said), f"hogwild: accuracy below {ACCURACY}"
    elif mode == "bsp":
        assert weights[0].tobytes() == weights[1].tobytes(), "bsp: the ranks differ"
    else:
        assert 0 < apart < 0.3, "easgd: the ranks' weights are equal or too far apart"  # without exchanges: 1.1 and more
    if alone is not None:
        print(f"one process with all points: relative distance {distance(weights[0], alone):.3g}")
        assert distance(weights[0], alone) < 1e-6, "bsp: the weights of two ranks differ from those of one process"


if __name__ == "__main__":
    main()
