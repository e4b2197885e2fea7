#!/usr/bin/env python3
"""run.py TROUPE_BIN JOB PLUGIN: starts three daemons with new certificates, which load PLUGIN, trains JOB on them with its own
reducer and with reducer "server", and checks that both runs end with the weights of the embedded job."""
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile

NODES = 3


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def cluster_text(plugin):
    with open(plugin, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()  # daemons only load a plugin with this hash
    text = f'plugins = ["{plugin}#sha256={digest}"]\n[cluster]\nname = "reducers"\n[cluster.tls]\ndir = "certs"\n'
    for i, port in enumerate(free_ports(NODES)):
        roles = ["worker", "server"] + (["coordinator", "data"] if i == 0 else [])
        text += f'[[node]]\nname = "n{i + 1}"\naddress = "127.0.0.1:{port}"\nroles = {json.dumps(roles)}\n'
    return text


def start_daemons(binaries, cluster, folder):
    daemons = []
    for i in range(NODES):
        log = open(os.path.join(folder, f"log{i + 1}"), "w")
        daemons.append(subprocess.Popen([os.path.join(binaries, "trouped"), "--cluster", cluster, "--node", f"n{i + 1}", "--state",
                                         os.path.join(folder, f"state{i + 1}")], stdout=subprocess.PIPE, stderr=log, text=True))
    for d in daemons:
        assert d.stdout.readline().startswith("ready"), "a daemon did not start"
    return daemons


def hash_of(binaries, job, *options):
    """The hash of the weights that the job ends with."""
    done = subprocess.run([os.path.join(binaries, "troupe"), "train", job, "--json", *options], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    found = [e["weights_sha256"] for e in map(json.loads, done.stdout.splitlines()) if "weights_sha256" in e]
    assert len(found) == 1, done.stdout
    return found[0]


def main():
    binaries, job, plugin = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        cluster = os.path.join(folder, "cluster.toml")
        with open(cluster, "w") as f:
            f.write(cluster_text(os.path.abspath(plugin)))
        subprocess.run([os.path.join(binaries, "troupe"), "init-cluster", "--cluster", cluster], check=True, stdout=subprocess.DEVNULL)
        daemons = start_daemons(binaries, cluster, folder)
        try:
            own = hash_of(binaries, job, "--cluster", cluster)
            server = hash_of(binaries, job, "--cluster", cluster, "--set", 'train.exchange={reducer="server"}')
        finally:
            for d in daemons:
                d.terminate()
            for d in daemons:
                d.wait(30)
    embedded = hash_of(binaries, job)
    print(f"two_level on daemons {own}\nserver on daemons    {server}\nembedded             {embedded}")
    assert own == server == embedded, "the weights differ"


if __name__ == "__main__":
    main()
