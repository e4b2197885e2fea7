"""Writes .caffemodel files byte by byte: the wire format of Protocol Buffers, with the numbers of caffe.proto."""


def varint(v):
    out = b""
    while v >= 128:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def blob(array, old=False):
    raw = field(5, array.astype("<f4").tobytes())
    if not old:
        return field(7, field(1, b"".join(varint(d) for d in array.shape))) + raw
    dims = [1] * (4 - array.ndim) + list(array.shape)
    return b"".join(varint(n << 3) + varint(d) for n, d in zip((1, 2, 3, 4), dims)) + raw


def caffemodel(layers, old=False):
    """Layers as LayerParameter (100: name 1, blobs 7), or as V1LayerParameter (2: name 4, blobs 6)."""
    number, name_at, blobs_at = (2, 4, 6) if old else (100, 1, 7)
    return b"".join(
        field(number, field(name_at, name.encode()) + b"".join(field(blobs_at, blob(a, old)) for a in arrays))
        for name, arrays in layers.items())
