#!/usr/bin/env python3
"""The sources `numpy`, `lmdb` and `hdf5` on files that NumPy, py-lmdb and h5py write: data_files_test.py TROUPE. Fashion-MNIST trains to the same
weights, bit for bit, from arrays, from a database as Caffe makes it, from HDF5, and from its own files; mistakes are named."""
import gzip
import json
import os
import subprocess
import sys
import tempfile

import h5py
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


def hdf5(path, images, labels, **more):
    with h5py.File(path, "w") as f:
        f.create_dataset("data", data=images, **more)
        f.create_dataset("label", data=labels)


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


def refused_hdf5(folder, at, x, y):
    source = f'source = "hdf5"\nshape = [1, 28, 28]\n'
    def refuse(path, text, more=""):
        refused(folder, f'{source}path = "{at(path)}"\n{more}', text)
    refuse("nowhere.h5", "nowhere.h5: cannot open")
    refuse("train.h5", "train.h5: there is no dataset 'pixels'", 'data = "pixels"')
    with h5py.File(at("huge.h5"), "w") as f:
        f.create_dataset("data", (1 << 40, 28, 28), numpy.uint8, chunks=(1, 28, 28))  # no chunk is allocated
    refuse("huge.h5", "huge.h5: dataset 'data': it takes more memory than memory_mib allows (", 'labels = ""')
    with open(at("train.h5"), "rb") as f, open(at("cut.h5"), "wb") as g:
        g.write(f.read()[:5000])
    refuse("cut.h5", "cut.h5: it is no HDF5 file, or it is damaged")
    with open(at("bad.txt"), "w") as f:
        f.write("train.h5\nfew.h5\n")
    hdf5(at("few.h5"), x[:9, :20], y[:9])
    refuse("bad.txt", "few.h5: dataset 'data': its rows or the type of its numbers differ from those of the first file")
    hdf5(at("short.h5"), x, y[:9])
    refuse("short.h5", "9 labels, but")
    # Numbers that are in other files, which a node may have no right to read.
    with h5py.File(at("link.h5"), "w") as f:
        f["data"] = h5py.ExternalLink("train.h5", "data")
        f["label"] = y
    refuse("link.h5", "link.h5: dataset 'data': its numbers are in other files")
    with h5py.File(at("outside.h5"), "w") as f:
        f.create_dataset("data", (10, 28, 28), numpy.uint8, external=[(at("train.h5"), 0, 7840)])
    refuse("outside.h5", "outside.h5: dataset 'data': its numbers are in other files", 'labels = ""')
    with h5py.File(at("virtual.h5"), "w") as f:
        layout = h5py.VirtualLayout(shape=x.shape, dtype=x.dtype)
        layout[:] = h5py.VirtualSource(at("train.h5"), "data", shape=x.shape)
        f.create_virtual_dataset("data", layout)
    refuse("virtual.h5", "virtual.h5: dataset 'data': its numbers are in other files", 'labels = ""')
    with h5py.File(at("text.h5"), "w") as f:
        f["data"] = [b"a", b"b"]
    refuse("text.h5", "dataset 'data': it does not hold integers or floats", 'labels = ""')
    os.environ["TROUPE_HDF5_LIBRARY"] = at("no_library.so")
    refuse("train.h5", "the HDF5 library cannot be loaded: install the package libhdf5-103-1")
    del os.environ["TROUPE_HDF5_LIBRARY"]


def of_hdf5(folder, at, own, x_train, y_train, x_test, y_test):
    hdf5(at("train.h5"), x_train, y_train.astype(numpy.int32))
    hdf5(at("test.h5"), x_test, y_test.astype(numpy.int32))
    hdf5_keys = f"shape = [1, 28, 28]\nscale = {1 / 255!r}\n"
    test = f'test_path = "{at("test.h5")}"\n'
    assert trained(folder, f'source = "hdf5"\npath = "{at("train.h5")}"\n{test}{hdf5_keys}') == own, "HDF5 has other weights"
    # As Caffe's tools write them: a list of files, float labels [n, 1]; also compressed, big-endian chunks.
    hdf5(at("first.h5"), x_train[:333].astype(">i2"), y_train[:333, None].astype(numpy.float32), chunks=(10, 28, 28), compression="gzip")
    hdf5(at("second.h5"), x_train[333:].astype(numpy.int16), y_train[333:, None].astype(numpy.float32))
    hdf5(at("test_short.h5"), x_test.astype(numpy.int16), y_test[:, None].astype(numpy.float32))
    with open(at("train.txt"), "w") as f:
        f.write(f"first.h5\n\n  {at('second.h5')}\n")
    listed = f'source = "hdf5"\npath = "{at("train.txt")}"\ntest_path = "{at("test_short.h5")}"\n{hdf5_keys}'
    assert trained(folder, listed + 'label_kind = "classes"') == own, "a list of HDF5 files has other weights"
    refused(folder, listed, "input 1 of a softmax_loss layer takes ids (i32), but 'label' (50x1) of source 'hdf5' holds target values (f32): label_kind =")
    refused_hdf5(folder, at, x_train, y_train)


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

        of_hdf5(folder, at, own, x_train, y_train, x_test, y_test)

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
        refused(folder, f'{other}shape = [1, 20, 28]\nlabels = "kinds"', "of source 'numpy' holds target values (f32)")
        refused(folder, f'{other}labels = "few"', "9 labels, but")
        refused(folder, f'{other}labels = "../x"', "without a folder")
        refused(folder, f'{source}path = "{at("other.npz")}"\ndata = "big"', "Fortran order")
        refused(folder, f'{source}path = "{at("plain.npz")}"\nshape = [3, 28, 28]', "does not form an example")
        refused(folder, f'{source}path = "{at("plain.npz")}"\nclasses = 5', "the largest label is 9")
    print("the same weights from .npz, compressed .npz, .npy, LMDB, HDF5 and IDX")


main()
