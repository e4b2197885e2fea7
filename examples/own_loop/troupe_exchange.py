"""troupe_exchange.py: libtroupe_exchange from Python, through ctypes; copy it beside your training script.

Values are torch tensors on the CPU or anything with a writable buffer (array.array, numpy): contiguous float32 or float64. They are
changed in place. Calls release the GIL while they wait, and raise ExchangeError within their timeout.

    with Session("127.0.0.1:7701", "certs", "run", rank, size, law="easgd", alpha=0.5) as s:
        s.broadcast("weights", w)
        s.exchange("weights", w)
"""
import ctypes
import os

LAWS = {"average": 0, "easgd": 1, "easgd_sync": 2}
REDUCTIONS = {"sum": 0, "mean": 1}


class ExchangeError(Exception):
    """What went wrong: `name` is a stable word ("timeout", "peer_lost"), the text a sentence."""

    def __init__(self, name, text):
        super().__init__(text)
        self.name = name


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("address", ctypes.c_char_p), ("tls_dir", ctypes.c_char_p),
                ("session", ctypes.c_char_p), ("rank", ctypes.c_int32), ("size", ctypes.c_int32), ("law", ctypes.c_int32),
                ("alpha", ctypes.c_double), ("timeout_ms", ctypes.c_int32)]


def _load(path):
    lib = ctypes.CDLL(path or os.environ.get("TROUPE_EXCHANGE_LIBRARY") or "libtroupe_exchange.so.0")
    handle, name, i32, u64, values = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_uint64, ctypes.c_void_p
    for function, arguments in {
            "open": [ctypes.POINTER(_Options), ctypes.POINTER(handle)],
            "register": [handle, name, i32, u64, i32, ctypes.POINTER(i32)],
            "exchange": [handle, i32, values, u64, i32],
            "centre": [handle, i32, values, u64, i32],
            "all_reduce": [handle, i32, values, u64, i32, i32],
            "broadcast": [handle, i32, values, u64, i32, i32],
            "barrier": [handle, i32],
            "lock": [handle, name, i32],
            "unlock": [handle, name, i32],
            "share": [handle, name, i32, u64, values, i32, ctypes.POINTER(i32)],
            "shared_read": [handle, i32, values, u64, i32, i32],
            "shared_write": [handle, i32, values, u64, i32, i32],
            "shared_add": [handle, i32, values, u64, ctypes.c_double, i32, i32],
            "close": [handle]}.items():
        f = getattr(lib, "troupe_exchange_" + function)
        f.argtypes, f.restype = arguments, ctypes.c_int
    lib.troupe_exchange_error_name.restype = lib.troupe_exchange_error_text.restype = ctypes.c_char_p
    return lib


def _memory(values):
    """(address, count, type) of contiguous float values."""
    if hasattr(values, "data_ptr"):
        if values.device.type != "cpu" or not values.is_contiguous():
            raise TypeError("a tensor must be contiguous and on the CPU")
        kinds = {"torch.float32": 0, "torch.float64": 1}
        if str(values.dtype) not in kinds:
            raise TypeError(f"{values.dtype} is neither float32 nor float64")
        return values.data_ptr(), values.numel(), kinds[str(values.dtype)]
    view = memoryview(values)
    if view.readonly or not view.c_contiguous or view.format not in ("f", "d"):
        raise TypeError("values must be writable, contiguous, and float32 or float64")
    return ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B"))), view.nbytes // view.itemsize, "fd".index(view.format)


class Session:
    """One rank's session. Buffers are registered by name when they are first used."""

    def __init__(self, address, tls_dir, session, rank, size, law="average", alpha=0.0, timeout=30.0, library=None):
        self._lib, self._handle, self._buffers, self.timeout = _load(library), ctypes.c_void_p(), {}, timeout
        self._shared = {}
        options = _Options(ctypes.sizeof(_Options), os.fsencode(address), os.fsencode(tls_dir), session.encode(), rank, size,
                           LAWS[law], alpha, self._milliseconds(None))
        self._check(self._lib.troupe_exchange_open(ctypes.byref(options), ctypes.byref(self._handle)))

    def exchange(self, name, values, timeout=None):
        self._on_buffer(self._lib.troupe_exchange_exchange, name, values, timeout)

    def centre(self, name, values, timeout=None):
        self._on_buffer(self._lib.troupe_exchange_centre, name, values, timeout)

    def all_reduce(self, name, values, reduction="sum", timeout=None):
        self._on_buffer(self._lib.troupe_exchange_all_reduce, name, values, timeout, REDUCTIONS[reduction])

    def broadcast(self, name, values, root=0, timeout=None):
        self._on_buffer(self._lib.troupe_exchange_broadcast, name, values, timeout, root)

    def barrier(self, timeout=None):
        self._check(self._lib.troupe_exchange_barrier(self._open(), self._milliseconds(timeout)))

    def lock(self, name, timeout=None):
        self._check(self._lib.troupe_exchange_lock(self._open(), name.encode(), self._milliseconds(timeout)))

    def unlock(self, name, timeout=None):
        self._check(self._lib.troupe_exchange_unlock(self._open(), name.encode(), self._milliseconds(timeout)))

    def share(self, name, values, timeout=None):
        """An array in memory that the ranks on the daemon's machine share; it begins with the first one's `values`."""
        address, count, kind = _memory(values)
        number = ctypes.c_int32()
        self._check(self._lib.troupe_exchange_share(self._open(), name.encode(), kind, count, address, self._milliseconds(timeout),
                                                    ctypes.byref(number)))
        self._shared[name] = number.value, kind

    def shared_read(self, name, values, lock=False, timeout=None):
        self._on_shared(self._lib.troupe_exchange_shared_read, name, values, lock, timeout)

    def shared_write(self, name, values, lock=False, timeout=None):
        self._on_shared(self._lib.troupe_exchange_shared_write, name, values, lock, timeout)

    def shared_add(self, name, values, scale=1.0, lock=False, timeout=None):
        """array += scale * values"""
        self._on_shared(self._lib.troupe_exchange_shared_add, name, values, lock, timeout, scale)

    def close(self):
        handle, self._handle = self._handle, ctypes.c_void_p()
        self._check(self._lib.troupe_exchange_close(handle))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _open(self):
        if not self._handle:
            raise ExchangeError("closed", "this session is closed")
        return self._handle

    def _on_buffer(self, call, name, values, timeout, *argument):
        address, count, kind = _memory(values)
        limit = self._milliseconds(timeout)
        if name not in self._buffers:
            number = ctypes.c_int32()
            self._check(self._lib.troupe_exchange_register(self._open(), name.encode(), kind, count, limit, ctypes.byref(number)))
            self._buffers[name] = number.value, kind
        number, registered = self._buffers[name]
        if kind != registered:
            raise TypeError(f"buffer '{name}' has been registered with another type")
        self._check(call(self._open(), number, address, count, *argument, limit))

    def _on_shared(self, call, name, values, lock, timeout, *argument):
        address, count, kind = _memory(values)
        if name not in self._shared:
            raise KeyError(f"array '{name}' has not been shared")
        number, shared = self._shared[name]
        if kind != shared:
            raise TypeError(f"array '{name}' has been shared with another type")
        self._check(call(self._open(), number, address, count, *argument, int(lock), self._milliseconds(timeout)))

    def _milliseconds(self, timeout):
        return max(1, round(1000 * (self.timeout if timeout is None else timeout)))

    def _check(self, code):
        if code:
            raise ExchangeError(self._lib.troupe_exchange_error_name(code).decode(), self._lib.troupe_exchange_error_text().decode())
