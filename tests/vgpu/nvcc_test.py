#!/usr/bin/env python3
"""nvcc_test.py built FOLDER FILE... | compile NVCC OPTIONS OUT ARCHITECTURES FILE...

Reads what ptxas prints of the kernels in FILES: no kernel spills registers, and a multiprocessor has the registers for a
block of the largest size that Troupe launches.
  built    what cmake/ptxas_log.py kept of the build in FOLDER
  compile  compiles the files with nvcc for ARCHITECTURES, as "80,90", with the build's OPTIONS, in one argument
"""
import concurrent.futures
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REGISTERS, THREADS = 65536, 256  # of a multiprocessor; of the largest block that kernels are launched with


def read(name, text):
    """Returns the number of kernels and a list of mistakes."""
    mistakes, kernels, kernel = [], 0, ""
    for line in text.splitlines():
        if entry := re.search(r"Compiling entry function '(\S+)' for '(\S+)'", line):
            kernel, kernels = f"{name}: {entry[1]} on {entry[2]}", kernels + 1
        if (spill := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line)) and (spill[1], spill[2]) != ("0", "0"):
            mistakes.append(f"{kernel} spills registers")
        if (used := re.search(r"Used (\d+) registers", line)) and int(used[1]) * THREADS > REGISTERS:
            mistakes.append(f"{kernel} needs {used[1]} registers per thread; {THREADS} threads do not fit")
    return kernels, mistakes if kernels else [f"{name}: ptxas has printed nothing of a kernel"]


def built(folder, name):
    try:
        with open(os.path.join(folder, os.path.basename(name) + ".o.ptxas")) as f:
            return read(name, f.read())
    except OSError as e:
        return 0, [f"{name} is not built: {e}"]


def compiled(nvcc, options, out, architectures, name):
    code = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    code.append(f"-gencode=arch=compute_{architectures[-1]},code=compute_{architectures[-1]}")  # PTX for later ones
    target = os.path.join(out, os.path.basename(name) + ".o")
    run = subprocess.run([nvcc, "-std=c++20", "-O3", "-I" + TOP, *options.split(), *code, "-c", name, "-o", target], text=True, capture_output=True)
    return read(name, run.stderr) if run.returncode == 0 else (0, [f"{name}: {run.stdout}{run.stderr}"])


def main():
    if sys.argv[1] == "built":
        names = sys.argv[3:]
        results = [built(sys.argv[2], n) for n in names]
    else:
        nvcc, options, out, architectures, names = sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5].split(","), sys.argv[6:]
        os.makedirs(out, exist_ok=True)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda n: compiled(nvcc, options, out, architectures, n), names))
    for _, mistakes in results:
        for m in mistakes:
            print(m)
    print(f"{len(names)} files, {sum(k for k, _ in results)} kernels, {sum(len(m) for _, m in results)} mistakes")
    return 1 if any(m for _, m in results) or not names else 0


if __name__ == "__main__":
    sys.exit(main())
