#!/usr/bin/env python3
"""The sources `numpy` and `lmdb` on files that NumPy and py-lmdb write: data_files_test.py TROUPE. Fashion-MNIST trains to the same weights, bit for
bit, from arrays, from a database as Caffe makes it, and from its own files; mistakes are named."""
import gzip
import json
import os
import subprocess
import sys
import tempfile

import lmdb
import numpy

TROUPE = sys.argv[1]
FASHION = "/usr/share/datasets/fashion-mnist"
TRAIN, TEST = 1000, 200
JOB = """
[job]
name = "arrays"
seed = 3
[data]
batch = 50
{data}
[[layer]]
name = "conv1"
type = "convolution"
inputs = ["data"]
outputs = 4
kernel = 5
stride = 2
[[layer]]
name = "ip1"
type = "linear"
inputs = ["conv1"]
outputs = 10
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip1", "label"]
[[layer]]
name = "accuracy"
type = "accuracy"
inputs = ["ip1", "label"]
phase = "test"
[train]
dynamics = {{ rule = "sgd", lr = 0.05 }}
sync = {{ mode = "bsp" }}
finish = {{ epochs = 2 }}
"""


def fashion(name, offset, count):
    with gzip.open(os.path.join(FASHION, name)) as f:
        raw = f.read()
    values = numpy.frombuffer(raw, numpy.uint8, offset=offset)
    return values.reshape(-1, 28, 28)[:count] if offset == 16 else values[:count]


def idx(folder, name, array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(head + array.tobytes())


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def database(path, images, labels):
    """As Caffe's convert_mnist_data: a Datum under each number with eight digits."""
    with lmdb.open(path, map_size=1 << 26) as env, env.begin(write=True) as txn:
        for i, (image, label) in enumerate(zip(images, labels)):
            data = image.tobytes()
            datum = b"\x08\x01\x10" + varint(28) + b"\x18" + varint(28) + b"\x22" + varint(len(data)) + data + b"\x28" + varint(int(label))
            txn.put(f"{i:08}".encode(), datum)


def run(folder, data):
    job = os.path.join(folder, "job.toml")
    with open(job, "w") as f:
        f.write(JOB.format(data=data))
    return subprocess.run([TROUPE, "train", job, "--json", "--no-run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def trained(folder, data):
    done = run(folder, data)
    assert done.returncode == 0, done.stdout
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return events[-1]["weights_sha256"], [e["accuracy"] for e in events if e["event"] == "eval"]


def refused(folder, data, text):
    done = run(folder, data)
    assert done.returncode == 2 and text in done.stdout, f"{text!r} is not in {done.stdout!r} ({done.returncode})"


def main():
    x_train, y_train = fashion("train-images-idx3-ubyte.gz", 16, TRAIN), fashion("train-labels-idx1-ubyte.gz", 8, TRAIN)
    x_test, y_test = fashion("t10k-images-idx3-ubyte.gz", 16, TEST), fashion("t10k-labels-idx1-ubyte.gz", 8, TEST)
    arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
    with tempfile.TemporaryDirectory() as folder:
        def at(name):
            return os.path.join(folder, name)
        for name, array in [("train-images-idx3-ubyte", x_train), ("train-labels-idx1-ubyte", y_train), ("t10k-images-idx3-ubyte", x_test),
                            ("t10k-labels-idx1-ubyte", y_test)]:
            idx(folder, name, array)
        own = trained(folder, f'source = "idx"\npath = "{folder}"')

        numpy.savez(at("plain.npz"), **arrays)
        numpy.savez_compressed(at("small.npz"), **{k: v.astype(numpy.int64) if k[0] == "y" else v for k, v in arrays.items()})
        os.mkdir(at("arrays"))
        for name, array in arrays.items():
            numpy.save(at(f"arrays/{name}.npy"), array.astype(numpy.int16) if name[0] == "x" else array)
        keys = f"shape = [1, 28, 28]\nscale = {1 / 255!r}"
        for path in ("plain.npz", "small.npz", "arrays"):
            assert trained(folder, f'source = "numpy"\npath = "{at(path)}"\n{keys}') == own, f"{path} has other weights"

        database(at("train_lmdb"), x_train, y_train)
        database(at("test_lmdb"), x_test, y_test)
        for path in ("train_lmdb", "train_lmdb/data.mdb"):
            data = f'source = "lmdb"\npath = "{at(path)}"\ntest_path = "{at("test_lmdb")}"\nscale = [{1 / 255!r}]'
            assert trained(folder, data) == own, f"{path} has other weights"

        # Floats that are scaled already, rounded as the source rounds them, give the same weights.
        scaled = {k: (v / 255.0).astype(numpy.float32) if k[0] == "x" else v for k, v in arrays.items()}
        numpy.savez(at("floats.npz"), **scaled)
        assert trained(folder, f'source = "numpy"\npath = "{at("floats.npz")}"\nshape = [1, 28, 28]')[1] == own[1]

        numpy.savez(at("other.npz"), images=x_train[:, :20], kinds=y_train.astype(numpy.float32), few=y_train[:9], short=x_test[:, :, :9], big=x_train.T)
        with open(at("plain.npz"), "rb") as f:
            whole = f.read()
        with open(at("cut.npz"), "wb") as f:
            f.write(whole[: len(whole) // 2])
        source = 'source = "numpy"\n'
        refused(folder, f'{source}path = "{at("nowhere.npz")}"', "nowhere.npz")
        refused(folder, f'{source}path = "{at("cut.npz")}"', "no .npz file")
        refused(folder, f'{source}path = "{at("other.npz")}"', "there is no array 'x_train'; the file has 'images', 'kinds', 'few', 'short', 'big'")
        other = f'{source}path = "{at("other.npz")}"\ndata = "images"\ntest_data = ""\n'
        refused(folder, f'{other}labels = "kinds"', "labels are class numbers, not floats")
        refused(folder, f'{other}labels = "few"', "9 labels, but")
        refused(folder, f'{other}labels = "../x"', "without a folder")
        refused(folder, f'{source}path = "{at("other.npz")}"\ndata = "big"', "Fortran order")
        refused(folder, f'{source}path = "{at("plain.npz")}"\nshape = [3, 28, 28]', "does not form an example")
        refused(folder, f'{source}path = "{at("plain.npz")}"\nclasses = 5', "the largest label is 9")
    print("the same weights from .npz, compressed .npz, .npy, LMDB and IDX")


main()
