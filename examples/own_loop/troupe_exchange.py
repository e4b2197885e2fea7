"""troupe_exchange.py: Python bindings of libtroupe_exchange, through ctypes. Copy this file next to your training script.

Values are torch tensors on the CPU or objects with a writable buffer (array.array, numpy): contiguous float32, float64, int32, int64
or (tensors) bfloat16. They are changed in place. Calls release the GIL while they wait, and raise ExchangeError after their timeout.

    with Session("127.0.0.1:7701", "certs", "run", rank, size, averaging_method="easgd", alpha=0.5) as s:
        s.broadcast("weights", w)
        s.exchange("weights", w)

With `wait=False` a call returns a Request at once, whose wait() returns the values:

        r = s.all_reduce("gradient", g, "mean", wait=False)
        ...
        r.wait()

`model.register_comm_hook(session, ddp_hook)` makes DistributedDataParallel average its gradients through a session, bucket by bucket
and in parallel with backward.
"""
import ctypes
import os
import queue
import threading

AVERAGING_METHODS = {"average": 0, "easgd": 1, "easgd_sync": 2, "asgd": 3}
REDUCTIONS = {"sum": 0, "mean": 1, "min": 2, "max": 3, "product": 4}
CALLS = {"exchange": 0, "all_reduce": 1, "broadcast": 2, "centre": 3, "reduce_scatter": 5, "all_gather": 6, "gather": 7, "scatter": 8}
TENSORS = {"torch.float32": 0, "torch.float64": 1, "torch.bfloat16": 2, "torch.int32": 3, "torch.int64": 4}


class ExchangeError(Exception):
    """An error of the exchange. `name` is a stable error code ("timeout", "peer_lost"), the text a sentence."""

    def __init__(self, name, text):
        super().__init__(text)
        self.name = name


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("address", ctypes.c_char_p), ("tls_dir", ctypes.c_char_p),
                ("session", ctypes.c_char_p), ("rank", ctypes.c_int32), ("size", ctypes.c_int32), ("averaging_method", ctypes.c_int32),
                ("alpha", ctypes.c_double), ("timeout_ms", ctypes.c_int32)]


def _load(path):
    lib = ctypes.CDLL(path or os.environ.get("TROUPE_EXCHANGE_LIBRARY") or "libtroupe_exchange.so.0")
    handle, name, i32, u64, values = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_uint64, ctypes.c_void_p
    request = ctypes.c_int64
    for function, arguments in {
            "open": [ctypes.POINTER(_Options), ctypes.POINTER(handle)],
            "register": [handle, name, i32, u64, i32, ctypes.POINTER(i32)],
            "exchange": [handle, i32, values, u64, i32],
            "centre": [handle, i32, values, u64, i32],
            "all_reduce": [handle, i32, values, u64, i32, i32],
            "broadcast": [handle, i32, values, u64, i32, i32],
            "reduce_scatter": [handle, i32, values, u64, i32, i32],
            "all_gather": [handle, i32, values, u64, i32],
            "gather": [handle, i32, values, u64, i32, i32],
            "scatter": [handle, i32, values, u64, i32, i32],
            "rank": [handle],
            "part": [u64, i32, i32, ctypes.POINTER(u64), ctypes.POINTER(u64)],
            "start": [handle, i32, i32, values, u64, i32, i32, ctypes.POINTER(request)],
            "wait": [handle, request, i32],
            "test": [handle, request, ctypes.POINTER(i32)],
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
    """(address, count, type) of contiguous values."""
    if hasattr(values, "data_ptr"):
        if values.device.type != "cpu" or not values.is_contiguous():
            raise TypeError("a tensor must be contiguous and on the CPU")
        if str(values.dtype) not in TENSORS:
            raise TypeError(f"{values.dtype} is not supported; use one of {', '.join(TENSORS)}")
        return values.data_ptr(), values.numel(), TENSORS[str(values.dtype)]
    view = memoryview(values)
    kind = {"f": 0, "d": 1}.get(view.format)
    if view.format in ("i", "l", "q"):
        kind = {4: 3, 8: 4}.get(view.itemsize)
    if view.readonly or not view.c_contiguous or kind is None:
        raise TypeError("values must be writable, contiguous, and float32, float64, int32 or int64")
    return ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B"))), view.nbytes // view.itemsize, kind


class Request:
    """A call in progress. It holds a reference to the values until it is complete. Call wait() exactly once."""

    def __init__(self, session, number, values):
        self._session, self._number, self._values = session, number, values

    def done(self):
        is_done = ctypes.c_int32()
        self._session._check(self._session._lib.troupe_exchange_test(self._session._open(), self._number, ctypes.byref(is_done)))
        return bool(is_done.value)

    def wait(self, timeout=None):
        s = self._session
        s._check(s._lib.troupe_exchange_wait(s._open(), self._number, s._milliseconds(timeout)))
        values, self._values = self._values, None
        return values


class Session:
    """One rank's session. Buffers are registered by name when they are first used."""

    def __init__(self, address, tls_dir, session, rank, size, averaging_method="average", alpha=0.0, timeout=30.0, library=None):
        self._lib, self._handle, self._buffers, self.timeout = _load(library), ctypes.c_void_p(), {}, timeout
        self._shared, self.size, self._hook = {}, size, None
        options = _Options(ctypes.sizeof(_Options), os.fsencode(address), os.fsencode(tls_dir), session.encode(), rank, size,
                           AVERAGING_METHODS[averaging_method], alpha, self._milliseconds(None))
        self._check(self._lib.troupe_exchange_open(ctypes.byref(options), ctypes.byref(self._handle)))
        self.rank = self._lib.troupe_exchange_rank(self._handle)  # the assigned rank if `rank` was -1

    def part(self, count, rank=None):
        """Returns (first, number): a rank's part of a buffer of `count` values."""
        first, number = ctypes.c_uint64(), ctypes.c_uint64()
        self._check(self._lib.troupe_exchange_part(count, self.rank if rank is None else rank, self.size, ctypes.byref(first),
                                                   ctypes.byref(number)))
        return first.value, number.value

    def exchange(self, name, values, timeout=None, wait=True):
        return self._round("exchange", name, values, timeout, wait)

    def centre(self, name, values, timeout=None):
        self._on_buffer(self._lib.troupe_exchange_centre, name, values, timeout)

    def all_reduce(self, name, values, reduction="sum", timeout=None, wait=True):
        return self._round("all_reduce", name, values, timeout, wait, REDUCTIONS[reduction])

    def reduce_scatter(self, name, values, reduction="sum", timeout=None, wait=True):
        """Sets this rank's part() of `values` to the reduction over all ranks; the rest is unchanged."""
        return self._round("reduce_scatter", name, values, timeout, wait, REDUCTIONS[reduction])

    def all_gather(self, name, values, timeout=None, wait=True):
        """Sends this rank's part() of `values` and receives the parts of all other ranks."""
        return self._round("all_gather", name, values, timeout, wait)

    def gather(self, name, values, root=0, timeout=None, wait=True):
        return self._round("gather", name, values, timeout, wait, root)

    def scatter(self, name, values, root=0, timeout=None, wait=True):
        return self._round("scatter", name, values, timeout, wait, root)

    def broadcast(self, name, values, root=0, timeout=None, wait=True):
        return self._round("broadcast", name, values, timeout, wait, root)

    def barrier(self, timeout=None):
        self._check(self._lib.troupe_exchange_barrier(self._open(), self._milliseconds(timeout)))

    def lock(self, name, timeout=None):
        self._check(self._lib.troupe_exchange_lock(self._open(), name.encode(), self._milliseconds(timeout)))

    def unlock(self, name, timeout=None):
        self._check(self._lib.troupe_exchange_unlock(self._open(), name.encode(), self._milliseconds(timeout)))

    def share(self, name, values, timeout=None):
        """Creates an array that the ranks on the daemon's machine share, with the `values` of the first rank that calls this."""
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
        if self._hook:
            self._hook.close()
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

    def _round(self, call, name, values, timeout, wait, *argument):
        if wait:
            return self._on_buffer(getattr(self._lib, "troupe_exchange_" + call), name, values, timeout, *argument)
        number, address, count, limit = self._registered(name, values, timeout)
        request = ctypes.c_int64()
        self._check(self._lib.troupe_exchange_start(self._open(), CALLS[call], number, address, count, argument[0] if argument else 0,
                                                    limit, ctypes.byref(request)))
        return Request(self, request.value, values)

    def _on_buffer(self, call, name, values, timeout, *argument):
        number, address, count, limit = self._registered(name, values, timeout)
        self._check(call(self._open(), number, address, count, *argument, limit))

    def _registered(self, name, values, timeout):
        address, count, kind = _memory(values)
        limit = self._milliseconds(timeout)
        if name not in self._buffers:
            number = ctypes.c_int32()
            self._check(self._lib.troupe_exchange_register(self._open(), name.encode(), kind, count, limit, ctypes.byref(number)))
            self._buffers[name] = number.value, kind
        number, registered = self._buffers[name]
        if kind != registered:
            raise TypeError(f"buffer '{name}' is registered with another type")
        return number, address, count, limit

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


class _Hook:
    """Waits on its own thread for the requests of ddp_hook, in order, and completes the futures of DistributedDataParallel."""

    def __init__(self):
        self._rounds = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, request, future):
        self._rounds.put((request, future))

    def close(self):
        self._rounds.put(None)
        self._thread.join()

    def _run(self):
        for request, future in iter(self._rounds.get, None):
            try:
                future.set_result(request.wait(1e6))
            except Exception as e:  # raised again on the training thread
                future.set_exception(e)


def ddp_hook(session, bucket):
    """Averages a bucket of gradients over the session's ranks; for DistributedDataParallel.register_comm_hook(session, ddp_hook)."""
    import torch
    if session._hook is None:
        session._hook = _Hook()
    values, future = bucket.buffer(), torch.futures.Future()
    request = session.all_reduce(f"ddp {bucket.index()} {values.numel()} {values.dtype}", values, "mean", wait=False)
    session._hook.add(request, future)
    return future
