"""Reads safetensors files with numpy only, independently of Troupe's code, from the format's description."""
import json
import struct

import numpy as np

TYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "U8": np.uint8}


def load(path):
    with open(path, "rb") as f:
        raw = f.read()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    body = raw[8 + length :]
    meta = header.pop("__metadata__", {})
    out = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        out[name] = np.frombuffer(body[begin:end], dtype=TYPES[t["dtype"]]).reshape(t["shape"])
    return out, meta


def relative(a, b):
    """Largest difference, relative to the largest magnitude in both tensors."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape, (a.shape, b.shape)
    if a.size == 0:
        return 0.0
    assert np.isfinite(a).all() and np.isfinite(b).all()
    scale = max(np.abs(a).max(), np.abs(b).max(), 1e-30)
    return float(np.abs(a - b).max() / scale)
