#!/usr/bin/env python3
"""Predictions of a net file: by `troupe predict`, from C, over HTTP and of a daemon, against each other. usage: predict_test.py PROGRAM-OF-C BUILD/bin SOURCE

A LeNet of Fashion-MNIST is exported with each type of weights. The files go to a folder without the job's data.
"""
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import numpy

PROGRAM, BIN, SOURCE = sys.argv[1:4]
LENET = os.path.join(SOURCE, "configs/jobs/lenet_fashion.toml")


def run(*words, code=0):
    r = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert r.returncode == code, f"{words}: exit code {r.returncode}\n{r.stdout[-500:]}{r.stderr[-1500:]}"
    return r.stdout if code == 0 else r.stdout + r.stderr


def troupe(*words, code=0):
    return run(os.path.join(BIN, "troupe"), *words, code=code)


def table(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    return numpy.array([[float(r[f"probability_{k}"]) for k in range(10)] for r in rows])


def from_c(net, x, threads):
    with tempfile.NamedTemporaryFile() as f:
        f.write(numpy.ascontiguousarray(x).tobytes())
        f.flush()
        text = run(PROGRAM, net, f.name, str(len(x)), "u8" if x.dtype == numpy.uint8 else "f32", str(threads))
    return numpy.array([[float(v) for v in line.split()] for line in text.splitlines()])


def cluster_file(more):
    with open("cluster.toml", "w") as f:
        f.write(f"""[cluster]
name = "c"
tls = {{ dir = "tls" }}
[[node]]
name = "n1"
address = "127.0.0.1:0"
{more}
""")
    return "cluster.toml"


def from_a_daemon(net, path, check):
    """The same of a daemon, whose line "ready" has the address. Then files that it refuses."""
    file = cluster_file(f'predict = ["{net}"]\npredict_address = "127.0.0.1:0"')
    troupe("init-cluster", "--cluster", file)
    words = [os.path.join(BIN, "trouped"), "--cluster", file, "--node", "n1", "--state", "state"]
    over_http(words, lambda line: (re.search(r" predict (\S+)", line) or [None, None])[1], path, check)
    for more, said in ((f'predict = ["{net}"]', "it needs predict_address"), ('predict_address = "127.0.0.1:0"', "it needs predict, a list of net files"),
                       ('predict = ["w.safetensors"]\npredict_address = "127.0.0.1:0"', "bad net file 'w.safetensors'"),
                       ('predict = ["none.troupe"]\npredict_address = "127.0.0.1:0"', "none.troupe"),
                       (f'predict = ["{net}"]\npredict_address = "10.1.2.3:8080"', "set predict_token to a file with a bearer token")):
        cluster_file(more)
        printed = run(*words, code=2)
        assert said in printed, (said, printed)


def over_http(words, url_in, path, check):
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as p:
        try:
            url = None
            while url is None:
                line = p.stdout.readline()
                assert line, "it ended"
                url = url_in(line)
            with open(path, "rb") as f:
                body = f.read()
            with urllib.request.urlopen(urllib.request.Request(url + "?all=1", data=body), timeout=30) as r:
                check(json.load(r)["predictions"])
            try:
                urllib.request.urlopen(urllib.request.Request(url, data=b"{}"), timeout=30)
                raise AssertionError("a wrong body was accepted")
            except urllib.error.HTTPError as e:
                assert e.code == 400 and "examples" in json.load(e)["error"]
        finally:
            p.send_signal(signal.SIGTERM)
            assert p.wait(30) == 0, p.returncode


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        troupe("train", LENET, "--no-run", "--set", "train.finish={steps=100}", "--out", "w.safetensors")
        images = numpy.random.default_rng(1).integers(0, 256, (70, 28, 28), dtype=numpy.uint8)
        numpy.save("images.npy", images)
        direct = table(troupe("predict", LENET, "--weights", "w.safetensors", "--all", "images.npy"))
        for kept, tolerance in (("f32", 1e-5), ("bf16", 0.05), ("int8", 0.1)):
            net = f"lenet_{kept}.troupe"
            troupe("export", LENET, "--weights", "w.safetensors", "--weights-type", kept, "--out", net)
            by_command = table(troupe("predict", net, "--all", "images.npy"))
            assert abs(by_command - direct).max() <= tolerance, (kept, abs(by_command - direct).max())
            for threads in (1, 3):
                assert abs(from_c(net, images, threads) - by_command).max() < 1e-5
            assert abs(from_c(net, images.astype(numpy.float32) / 255, 2) - by_command).max() < 1e-5

        def check(predictions):
            assert abs(numpy.array([p["outputs"] for p in predictions]) - direct).max() < 1e-5
            assert [p["class"] for p in predictions] == direct.argmax(axis=1).tolist()

        words = [os.path.join(BIN, "troupe"), "serve", "lenet_f32.troupe", "--address", "127.0.0.1:0", "--json"]
        over_http(words, lambda line: json.loads(line)["url"], "images.npy", check)
        from_a_daemon("lenet_f32.troupe", "images.npy", check)
        said = troupe("predict", "lenet_f32.troupe", "--set", "job.seed=2", "images.npy", code=2)
        assert "a net file has its own weights" in said, said
        said = troupe("serve", "w.safetensors", code=2)
        assert "is not a net file" in said, said
        said = troupe("export", LENET, "--weights", "w.safetensors", "--out", "net.xyz", code=2)
        assert re.search(r"net.xyz: is not a model that Troupe knows", said), said
    print("ok: the same predictions by the command, from C, over HTTP and of a daemon")


if __name__ == "__main__":
    main()
