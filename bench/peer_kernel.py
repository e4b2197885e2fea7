"""Prints one JSON line: the OpenBLAS that PyTorch has loaded in this process, whether its products are right, and the speed of sgemm.
bench/environment.py runs it once for each set of variables (OPENBLAS_CORETYPE as set, and unset).

usage: peer_kernel.py [ROUNDS]
"""
import ctypes
import json
import os
import sys
import time

import numpy

# (m, n, k): single elements, odd sizes, the products of the nets' linear layers, sizes larger than a block of any kernel.
SIZES = ((1, 1, 1), (2, 3, 5), (7, 13, 31), (17, 33, 65), (100, 1, 1000), (127, 129, 255), (256, 256, 256), (511, 1023, 129), (64, 500, 800),
         (128, 1024, 784), (1000, 1000, 1000), (1025, 1031, 1033), (32, 1001, 9217))


def tolerance(kind, k):
    """A sum of k products of standard normal numbers: rounding gives up to about 2 eps k, a missing or doubled product about 1."""
    return 8 * float(numpy.finfo(kind).eps) * (k + 4)


def compare(name, got, exact, bound, report):
    """Records the largest error relative to the bound, and `name` if the bound is exceeded (or a value is NaN)."""
    worst = float(numpy.abs(got - exact).max()) / bound
    report["worst"] = max(report["worst"], worst) if worst == worst else float("inf")
    if not worst <= 1:
        report["wrong"].append(f"{name}: error {worst * bound:.2g}, allowed {bound:.2g}")


def check(product, sizes=SIZES, kinds=("float32", "float64"), threads=(1, 2)):
    """product(a, b, c, threads) -> a b, plus c if c is given. Every size, both types, a and b as they are and transposed, with and
    without an addend, against sums in float64 that no BLAS computes. -> {"products", "worst": largest error / bound, "wrong": [text]}"""
    random, report = numpy.random.default_rng(1), {"products": 0, "worst": 0.0, "wrong": []}
    for m, n, k in sizes:
        a, b, c = (random.standard_normal(s).astype("float32") for s in ((m, k), (n, k), (m, n)))
        exact = numpy.einsum("ik,jk->ij", a.astype("float64"), b.astype("float64"), optimize=False)
        for kind in kinds:
            x, y, z = (v.astype(kind) for v in (a, b, c))
            for which in range(8):
                left = numpy.ascontiguousarray(x.T).T if which & 1 else x
                right = y.T if which & 2 else numpy.ascontiguousarray(y.T)
                for t in threads:
                    name = (f"{'sgemm' if kind == 'float32' else 'dgemm'} {m} x {n} x {k}{', a transposed' * (which & 1)}"
                            f"{', b transposed' * (which >> 1 & 1)}{', added' * (which >> 2)}, {t} thread{'s' * (t > 1)}")
                    got = product(left, right, z if which & 4 else None, t)
                    compare(name, got, exact + c if which & 4 else exact, tolerance(kind, k), report)
                    report["products"] += 1
    return report


def by_torch(a, b, c, threads):
    import torch
    torch.set_num_threads(threads)
    a, b = torch.from_numpy(a), torch.from_numpy(b)
    return (torch.mm(a, b) if c is None else torch.addmm(torch.from_numpy(c), a, b)).numpy()


def loaded():
    """{"library", "corename", "config"} of the OpenBLAS that is mapped into this process; the names are empty if there is none."""
    with open("/proc/self/maps") as f:
        files = sorted({line.split()[-1] for line in f if "openblas" in os.path.basename(line.split()[-1])})
    for path in files:
        library, said = ctypes.CDLL(path), {"library": path}
        for key in ("corename", "config"):
            function = getattr(library, "openblas_get_" + key, None)
            if function is None:
                break
            function.restype = ctypes.c_char_p
            said[key] = function().decode()
        else:
            return {**said, "other_libraries": [p for p in files if p != path]}
    return {"library": "", "corename": "", "config": "", "other_libraries": files}


def sgemm_gflops(threads, rounds):
    import torch
    torch.set_num_threads(threads)
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    least = 1e9
    for _ in range(rounds):
        t = time.perf_counter()
        torch.mm(a, b)
        least = min(least, time.perf_counter() - t)
    return 2e-9 * 1024**3 / least


def main():
    import torch
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    report = check(by_torch)
    print(json.dumps({"torch": torch.__version__, **loaded(), **report, "sgemm_gflops": [sgemm_gflops(t, rounds) for t in (1, 2)]}))


if __name__ == "__main__":
    main()
