"""The files that the pages take for granted: those of their reader. For the tests of this folder."""
import os
import shutil
import struct
import zlib

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

IRIS = """[job]
name = "iris"
[data]
source = "csv"
path = "iris.csv"
label = "species"
test_fraction = 0.2
batch = 16
[[layer]]
name = "fc"
type = "linear"
inputs = ["data"]
outputs = 3
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["fc", "label"]
[train]
finish = { steps = 7 }
"""


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def image(path, size, channels):
    """Writes a PNG file."""
    part = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + bytes(x * y % 256 for x in range(size) for _ in range(channels)) for y in range(size))
    head = struct.pack(">IIBBBBB", size, size, 8, 2 if channels == 3 else 0, 0, 0, 0)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))


def iris_rows(word=""):
    """Returns 150 examples; `word` replaces a number in line 5."""
    rows = [f"{k % 7}.5,{k % 5},{k % 3},{k},{k % 3}" for k in range(150)]
    if word:
        rows[3] = f"3.5,3,0,3,{word}"
    return "\n".join(["sepal_length,sepal_width,petal_length,petal_width,species", *rows]) + "\n"


def make_files(folder):
    at = lambda *parts: os.path.join(folder, *parts)
    copy = lambda name, to: shutil.copy(os.path.join(TOP, "configs", name), at(to))
    for name in ("job.toml", "local_sgd.toml"):
        copy("jobs/lenet_synthetic.toml", name)
    for name in ("cluster.toml", "FILE"):
        copy("clusters/local3.toml", name)
    write(at("lenet.names"), "conv1.weight conv1.weight\n")
    write(at("iris.toml"), IRIS)
    write(at("iris.csv"), iris_rows())
    write(at("input.txt"), "ROMEO: To be, or not to be, that is the question.\n" * 5000)
    write(at("metrics.token"), "0123456789abcdef0123456789abcdef\n")
    os.chmod(at("metrics.token"), 0o600)
    os.makedirs(at("build", "swish"))
    write(at("build", "swish", "libswish.so"), "")  # commands that load it are only parsed
    os.makedirs(at("more_photos"))
    for name in ("image.png", "photo.png", "more_photos/a.png"):
        image(at(name), 28, 1)
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            os.makedirs(at("cifar10", part, name))
            for k in range(60):
                image(at("cifar10", part, name, f"{k}.png"), 32, 3)
    for name in ("configs", "examples"):
        os.symlink(os.path.join(TOP, name), at(name))
