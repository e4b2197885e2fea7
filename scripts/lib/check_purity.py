#!/usr/bin/env python3
"""check_purity.py [BUILD]: the pure libraries and what links only them carry no CAF, Boost, TOML++ or OpenSSL, ask nm and readelf.

And kernels compiled for a newer instruction set emit no inline function, which the linker could prefer to the portable copy.
"""
import glob
import os
import re
import subprocess
import sys

import tree

IMPURE_LIBRARIES = ("libtroupe_node.a", "libtroupe_actors.a")
PURE_PROGRAMS = ("test_ops", "test_runtime", "test_sim")
SYMBOL = re.compile(r"\b(?:caf|boost|toml)::|\b(?:SSL|EVP|BIO|X509|CRYPTO)_\w+$")
ISA_WEAK = re.compile(r":kernels_(?!baseline)\w+\.cpp\.o:.* [WVu] ")
NEEDED = re.compile(r"\[(lib(?:caf|ssl|crypto|boost)[^\]]*)\]")


def short(line):
    return line.split("/")[-1].strip()[:160]


def main():
    build = os.path.join(tree.TOP, sys.argv[1] if len(sys.argv) > 1 else "build/release")
    libraries = [l for l in sorted(glob.glob(build + "/lib/libtroupe_*.a")) if os.path.basename(l) not in IMPURE_LIBRARIES]
    programs = [p for p in (os.path.join(build, "bin", n) for n in PURE_PROGRAMS) if os.path.isfile(p)]
    if not libraries:
        print(f"skipped: {os.path.relpath(build, tree.TOP)} has no libraries yet")
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
    print("\n".join(problems))
    print(f"{len(libraries)} libraries, {len(programs)} programs, {len(problems)} impure")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
