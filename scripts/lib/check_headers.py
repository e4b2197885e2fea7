#!/usr/bin/env python3
"""check_headers.py [--all] [--base COMMIT] [--build DIR] [--jobs N] [--seconds N]

Checks that each header has `#pragma once` and that each header that changed since the base (see tree.changed), or that includes
such a header, compiles by itself, with the tree's warnings. --all: every header.
Skips headers that passed before and are unchanged, and headers that are the first include of a source in
DIR: the build of that source proves the same. After N seconds (default 600) headers that did not change are left out. Headers with device code are for nvcc (tests/vgpu/nvcc_test.py).
"""
import argparse
import concurrent.futures
import glob
import os
import subprocess
import sys
import time

import tree

FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-fsyntax-only", "-I" + tree.TOP]
CUDA = glob.glob(os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include"))
SYSTEM = [f for d in glob.glob("/usr/include/*/openblas-openmp") + glob.glob("/usr/include/python3.*") + CUDA for f in ("-isystem", d)]


def compile_alone(name):
    run = subprocess.run(["g++", *FLAGS, *SYSTEM, "-x", "c++", "-"], input=f'#include "{name}"\n', text=True, capture_output=True, cwd=tree.TOP)
    return run.returncode == 0, run.stderr


def includes_cuda(name):
    return any(what.startswith("cuda") for n in tree.closure(name) for _, _, what in tree.includes(n))


def proven_by(build):
    """Returns the headers that are the first include of a source of the build."""
    return {what for n in tree.compiled(build) for _, _, what in list(tree.includes(n))[:1]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--base")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=600)
    args = parser.parse_args()
    version = subprocess.run(["g++", "-dumpfullversion"], text=True, capture_output=True).stdout
    good = tree.found_good("headers")
    names = [n for n in tree.headers() if n.endswith(".hpp") and "ops/cuda/kernel_language.hpp" not in tree.closure(n) and (CUDA or not includes_cuda(n))]
    marks = {n: tree.fingerprint(n, version, FLAGS, SYSTEM) for n in names}
    proven = proven_by(args.build)
    differ = None if args.all else tree.changed(args.base)
    concerned = names if differ is None else [n for n in names if not differ.isdisjoint(tree.closure(n))]
    changed = set(names) if differ is None else differ
    todo = sorted((n for n in concerned if n not in proven and (n, marks[n]) not in good), key=lambda n: n not in changed)
    deadline, late = time.monotonic() + args.seconds, 0
    failed = [n for n in names if "#pragma once" not in tree.text(n)]
    for name in failed:
        print(f"{name} has no #pragma once")
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        in_time = lambda n: compile_alone(n) if n in changed or time.monotonic() < deadline else (None, "")
        for name, (fine, message) in zip(todo, pool.map(in_time, todo)):
            if fine is None:
                late += 1
            elif fine:
                good.add(name, marks[name])
            else:
                failed.append(name)
                print(f"{name} does not compile by itself:\n{message[:1500]}")
    good.save()
    heavy = sum(any(what.startswith("caf/") for n in tree.closure(h) for _, _, what in tree.includes(n)) for h in names)
    print(f"{len(names)} headers, {len(concerned)} changed, {len(todo) - late} compiled, {late} left out for lack of time, {len(proven.intersection(names))} proven by the build, {heavy} include CAF, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
