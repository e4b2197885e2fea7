#!/usr/bin/env python3
"""Records the machine and the libraries of a measurement, and writes its page.

usage: bench/environment.py [--bin build/release/bin] [--no-peer]
           prints the section "Environment" for a page that is written by hand
       bench/environment.py --mark FILE...
           adds a note that OPENBLAS_CORETYPE was not recorded to pages that name PyTorch or OpenBLAS and have no such section

OPENBLAS_CORETYPE makes OpenBLAS use the kernels of the processor that it names. Set to an older processor than the machine's, it slows PyTorch, and
a ratio to PyTorch is too high. So PyTorch is tried with the variables as they are set and without OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE. Kernels
whose products are wrong (bench/peer_kernel.py) are not used. Troupe runs with the variables as they are set; bench/compare.py times it without them too.
"""
import argparse
import collections
import datetime
import functools
import json
import os
import platform
import re
import subprocess
import sys

os.environ.setdefault("TROUPE_RUNS", "off")  # benchmarks make no run folders

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PYTHON = "/usr/bin/python3"  # which has Debian's torch
SELECTS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
VARIABLES = re.compile(r"(OPENBLAS|GOTO|OMP|GOMP|KMP|MKL|MALLOC)_")
HEADING = "## Environment"
MARK = ("> OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE were not recorded when this page was written: OpenBLAS, PyTorch's included, may have used kernels of an "
        "older processor.")

# name: for tables and pages; variables: the values of SELECTS that it runs with.
Kernel = collections.namedtuple("Kernel", "name variables")


def kernels(environ):
    """The kernels to try with PyTorch: the variables as they are, and, if one of SELECTS is set, without them."""
    found = {n: environ[n] for n in SELECTS if n in environ}
    return [Kernel("as set", found), Kernel("unset", {})] if found else [Kernel("as set", {})]


def with_kernel(kernel):
    return {**{n: v for n, v in os.environ.items() if n not in SELECTS}, **kernel.variables}


def peer_env(threads, kernel=None, tuned=True):
    """PyTorch's variables: BLAS threads as torch threads, glibc's malloc kept from returning memory to the kernel (`tuned`), and a kernel, by
    default the best one."""
    kernel = kernel or best_kernel()
    env = with_kernel(kernel)
    env.update(OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    if tuned:
        env.update(MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="4294967296", MALLOC_TOP_PAD_=str(256 << 20))
    return env


asked = {}  # kernel's name -> report of peer_kernel.py; filled only by scripts with a peer


def ask_peer(kernel):
    """The report of bench/peer_kernel.py. If its process fails (SIGILL: a kernel for another CPU), its products count as wrong."""
    r = subprocess.run([PYTHON, os.path.join(HERE, "peer_kernel.py")], env=peer_env(2, kernel), capture_output=True, text=True)
    if r.returncode == 0:
        return json.loads(r.stdout)
    why = f"the check ended with {r.returncode}; {r.stderr.strip().rpartition(chr(10))[2]}"
    return {"torch": "", "library": "", "corename": "", "products": 0, "wrong": [why], "sgemm_gflops": [0, 0]}


def peer_reports():
    """[(kernel, report of bench/peer_kernel.py)], determined once."""
    for kernel in kernels(os.environ):
        if kernel.name not in asked:
            asked[kernel.name] = ask_peer(kernel)
            wrong = asked[kernel.name]["wrong"]
            if wrong:
                print(f"PyTorch, {told(kernel)}: not used, {len(wrong)} checks failed: {wrong[0]}", file=sys.stderr)
    return [(kernel, asked[kernel.name]) for kernel in kernels(os.environ)]


def sound(reports):
    """The kernels whose products are right; exits if there is none."""
    good = [kernel for kernel, said in reports if not said["wrong"]]
    if not good:
        sys.exit("PyTorch's products are wrong with every kernel: nothing can be compared")
    return good


def best_of(reports):
    """The kernel with right products and the fastest sgemm on one thread."""
    rate = {kernel.name: said["sgemm_gflops"][0] for kernel, said in reports}
    return max(sound(reports), key=lambda kernel: rate[kernel.name])


@functools.cache
def best_kernel():
    return best_of(peer_reports())


def cpu_fields(text):
    """/proc/cpuinfo's first processor."""
    return {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in text.split("\n\n")[0].splitlines())}


def machine():
    with open("/proc/cpuinfo") as f:
        cpu = cpu_fields(f.read())
    flags = cpu.get("flags", "").split()
    version = f" (family {cpu['cpu family']}, model {cpu['model']})" if "cpu family" in cpu else ""
    isa = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "SSE"
    system = platform.freedesktop_os_release() if os.path.exists("/etc/os-release") else {}
    return f"{cpu.get('model name', platform.machine())}{version}, {os.cpu_count()} cores, {isa}, {system.get('ID', '?').title()} {system.get('VERSION_ID', '?')}"


def variables(environ):
    return ", ".join(f"{n}={v}" for n, v in sorted(environ.items()) if VARIABLES.match(n)) or "none of OPENBLAS_*, OMP_*, MALLOC_* set"


def folder_of(binaries):
    """The folder of Troupe's programs, from a script's --bin: that folder, a program in it, or the build."""
    path = os.path.abspath(binaries or os.path.join(ROOT, "build/release/bin"))
    if os.path.isdir(os.path.join(path, "bin")):
        return os.path.join(path, "bin")
    return path if os.path.isdir(path) else os.path.dirname(path)


def troupe_report(binaries=None, kernel=None):
    """The report of bench_environment; None if it is not built. kernel: by default the variables as they are set."""
    program = os.path.join(folder_of(binaries), "bench_environment")
    if not os.path.exists(program):
        return None
    said = json.loads(subprocess.run([program], env=with_kernel(kernel or kernels(os.environ)[0]), capture_output=True, text=True, check=True).stdout)
    return {**said, "library": os.path.realpath(said["library"])}


def checked_for_troupe(said, ours):
    """Returns true if the check in PyTorch's process (`said`) is valid for Troupe (`ours`): the same library and the same kernels."""
    return bool(ours) and not said["wrong"] and (said["library"], said["corename"]) == (ours["library"], ours["corename"])


def kernels_of_troupe(reports, binaries):
    """The kernels that Troupe is timed with: those whose products were checked; if there are none, the variables as set."""
    return [k for k, said in reports if checked_for_troupe(said, troupe_report(binaries, k))] or [reports[0][0]]


def two(rates):
    return f"{rates[0]:.0f} / {rates[1]:.0f}"


def blas(said):
    if not said["corename"]:
        return "no OpenBLAS found in the process"
    return f"kernel {said['corename']}; {said['config']}; `{said['library']}`"


def told(kernel):
    return "variables as set" if kernel.name == "as set" else f"{' and '.join(SELECTS)} unset"


def section(when, commit, load, environ, ours, peers, used, more=()):
    """The section of a page. ours: [(kernel, troupe_report())]; peers: peer_reports(), [] without a peer; used: the kernels that PyTorch's
    figures were taken with; more: further rows, (name, text)."""
    rows = [("taken", f"{when}, commit {commit}, load average {load:.1f} at the end"), ("processor", machine()), ("variables", variables(environ)), *more]
    if ours:
        rows.append((f"peak of multiply-adds ({ours[0][1]['fma_instructions']}), 1 / 2 threads", f"{two(ours[0][1]['fma_gflops'])} GFLOP/s"))
    for kernel, said in ours:
        rows.append((f"OpenBLAS of Troupe, {told(kernel)}", f"{blas(said)}; sgemm {two(said['sgemm_gflops'])} GFLOP/s; `{said['numerics']}`"))
    if not ours:
        rows.append(("OpenBLAS of Troupe, peak of multiply-adds", "not recorded: bench_environment was not built"))
    for kernel, said in peers:
        checked = (f"{len(said['wrong'])} of {said['products']} products wrong, **not used**: {said['wrong'][0]}" if said["wrong"] else
                   f"{said['products']} products right" + ("" if kernel in used else ", not used: the other is faster"))
        rows.append((f"OpenBLAS of PyTorch {said['torch']}, {told(kernel)}", f"{blas(said)}; sgemm {two(said['sgemm_gflops'])} GFLOP/s; {checked}"))
    return f"{HEADING}\n\n| | |\n|---|---|\n" + "".join(f"| {a} | {b} |\n" for a, b in rows)


def record(binaries=None, used=None, ours=None, more=()):
    """The section for the current state. used: kernels of PyTorch, by default the best one; ours: of Troupe, by default the variables as set;
    more: further rows."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    load = os.getloadavg()[0]
    peers = peer_reports() if asked else []
    reports = [(k, troupe_report(binaries, k)) for k in ours or kernels(os.environ)[:1]]
    return section(datetime.date.today(), commit or "unknown", load, os.environ, [(k, said) for k, said in reports if said], peers,
                   used or ([best_kernel()] if peers else []), more)


def with_section(text, new):
    """The page with this section at its end; it replaces an existing one."""
    return re.sub(rf"\n{HEADING}\n\n(\|.*\n)*", "", text).rstrip() + "\n\n" + new


def publish(text, out, binaries=None, used=None, ours=None, more=()):
    """Writes the page with its environment to stdout and, if given, to the file `out`."""
    text = with_section(text, record(binaries, used, ours, more))
    if out:
        with open(out, "w", encoding="utf-8") as f:
            f.write(text)
    print("\n" + text)


def marked(text):
    """The page with MARK below its title if it names PyTorch or OpenBLAS and has no environment section."""
    if f"\n{HEADING}\n" in text or MARK in text or not re.search(r"torch|openblas|sgemm", text, re.IGNORECASE):
        return text
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{MARK}\n\n{rest.lstrip()}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin")
    p.add_argument("--no-peer", action="store_true")
    p.add_argument("--mark", nargs="+", metavar="FILE")
    a = p.parse_args()
    for path in a.mark or []:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if marked(text) != text:
            print(path)
            with open(path, "w", encoding="utf-8") as f:
                f.write(marked(text))
    if not a.mark:
        if not a.no_peer:
            peer_reports()
        print(record(a.bin), end="")


if __name__ == "__main__":
    main()
