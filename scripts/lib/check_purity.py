#!/usr/bin/env python3
"""check_purity.py [BUILD]: checks with nm and readelf that the pure libraries, and programs that link only them, contain no CAF, Boost,
TOML++, OpenSSL, libpng or libjpeg.

Also checks that libtroupe_predict needs no library of data sources or TLS, that libtroupe_exchange needs no
CAF, BLAS or OpenMP and exports only its C interface, and that kernels compiled for a newer instruction set emit
no inline functions, because the linker could choose those instead of the portable copies.
"""
import glob
import os
import re
import subprocess
import sys

import tree

IMPURE_LIBRARIES = ("libtroupe_node.a", "libtroupe_config.a", "libtroupe_images.a", "libtroupe_net.a", "libtroupe_http.a", "libtroupe_runs.a", "libtroupe_actors.a")
PREDICT = "libtroupe_predict.so"
EXCHANGE = "libtroupe_exchange.so"  # is loaded into users' processes, so it has no CAF, no ops and no symbols that could collide
PURE_PROGRAMS = ("test_ops", "test_runtime", "test_sim")
SYMBOL = re.compile(r"\b(?:caf|boost|toml)::|\b(?:SSL|EVP|BIO|X509|CRYPTO|png|jpeg)_\w+$")
ISA_WEAK = re.compile(r":kernels_(?!baseline)\w+\.cpp\.o:.* [WVu] ")
NEEDED = re.compile(r"\[(lib(?:caf|ssl|crypto|boost|png|jpeg|lmdb)[^\]]*)\]")


def short(line):
    return line.split("/")[-1].strip()[:160]


def main():
    build = os.path.join(tree.TOP, sys.argv[1] if len(sys.argv) > 1 else "build/release")
    libraries = [l for l in sorted(glob.glob(build + "/lib/libtroupe_*.a")) if os.path.basename(l) not in IMPURE_LIBRARIES and "/libtroupe_test_" not in l]
    programs = [p for p in (os.path.join(build, "bin", n) for n in PURE_PROGRAMS) if os.path.isfile(p)]
    if not libraries:
        print(f"skipped: {os.path.relpath(build, tree.TOP)} has no libraries; build first")
        return 1 if os.environ.get("CI") == "true" else 0
    problems = []
    for path in libraries:
        names = subprocess.run(["nm", "-A", "-C", path], text=True, capture_output=True).stdout.splitlines()
        bad = [n for n in names if SYMBOL.search(n)]
        if bad:
            problems.append(f"{os.path.basename(path)}: {len(bad)} foreign symbols, first: {short(bad[0])}")
        bad = [n for n in names if ISA_WEAK.search(n)]
        if bad:
            problems.append(f"{os.path.basename(path)}: {len(bad)} inline functions in instruction-set kernels, first: {short(bad[0])}")
    for path in programs:
        needed = subprocess.run(["readelf", "-d", path], text=True, capture_output=True).stdout
        problems += [f"{os.path.basename(path)}: needs {lib}" for lib in NEEDED.findall(needed)]
    predict = os.path.join(build, "lib", PREDICT)
    if os.path.isfile(predict):
        needed = subprocess.run(["readelf", "-d", predict], text=True, capture_output=True).stdout
        problems += [f"{PREDICT}: needs {lib}" for lib in re.findall(r"\[(lib(?:caf|boost|ssl|crypto|png|jpeg|zip|lmdb)[^\]]*)\]", needed)]
    exchange = os.path.join(build, "lib", EXCHANGE)
    if os.path.isfile(exchange):
        needed = subprocess.run(["readelf", "-d", exchange], text=True, capture_output=True).stdout
        problems += [f"{EXCHANGE}: needs {lib}" for lib in re.findall(r"\[(lib(?:caf|boost|openblas|blas|gomp)[^\]]*)\]", needed)]
        inside = subprocess.run(["nm", "-C", exchange], text=True, capture_output=True).stdout
        problems += [f"{EXCHANGE}: contains {short(n)}" for n in inside.splitlines() if re.search(r"\b(?:caf|toml)::|\b(?:cblas|omp)_", n)]
        shown = subprocess.run(["nm", "-D", "--defined-only", exchange], text=True, capture_output=True).stdout
        problems += [f"{EXCHANGE}: exports {short(n)}" for n in shown.splitlines() if not re.search(r" (?:T troupe_exchange_|A )", n)]
    print("\n".join(problems))
    print(f"{len(libraries)} libraries, {len(programs)} programs, {len(problems)} impure")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
