#!/usr/bin/env python3
"""check_arrows.py: checks every #include against the layers of the architecture (docs/ARCHITECTURE.md).

  ops <- runtime <- runtime/node and runtime/exchange (all but its hub) <- actors <- apps <- tests, bench, examples
Inside runtime/ the allowed directions are those that runtime/CMakeLists.txt declares. Inside actors/
files include only lower FLOORS. runtime/exchange may include only the files BARE of ops, and ops/tree
includes no file of the tree. NEVER lists further includes that a folder must not have. Third-party
libraries are included only in the folders of LIBRARIES. Threads, clocks and OpenMP in pure code are
found by the patterns WORDS.
"""
import os
import re
import sys

import tree

LEVELS = [("ops/", 0), ("runtime/exchange/hub/", 1), ("runtime/exchange/", 2), ("runtime/node/", 2), ("runtime/", 1), ("actors/", 3), ("apps/", 4), ("tests/", 5), ("bench/", 5), ("python/", 4), ("examples/", 5)]

# Library headers, and the folders that may include them.
FREE = ("tests/", "bench/", "examples/")
LIBRARIES = [
    (re.compile(r"caf/"), "CAF", ("actors/",)),
    (re.compile(r"toml(\+\+|plusplus)?/|toml\.hpp$"), "TOML++", ("runtime/node/",)),
    (re.compile(r"boost/"), "Boost", ("runtime/node/",)),
    (re.compile(r"openssl/"), "OpenSSL", ("runtime/node/",)),
    (re.compile(r"cu(da|blas|dnn)\w*\.h$"), "CUDA", ("ops/cuda/",)),
    (re.compile(r"prometheus/"), "prometheus-cpp", ("actors/metrics/",)),
    (re.compile(r"sqlite3\.h$"), "SQLite", ("runtime/node/runs/",)),
    (re.compile(r"png\.h$|jpeglib\.h$|jerror\.h$"), "libpng and libjpeg", ("runtime/node/images/",)),
    (re.compile(r"pybind11/|dlpack/"), "pybind11 and DLPack", ("python/module/",)),
    (re.compile(r"^zip\.h$"), "libzip", ("runtime/node/formats/",)),
    (re.compile(r"lmdb\.h$"), "LMDB", ()),
    (re.compile(r"protozero/"), "protozero", ("runtime/node/formats/", "runtime/node/models/")),
]

# By folder: files that it must not include although its layer would allow it (docs/ARCHITECTURE.md, "Rooms").
AGREEMENT = ("runtime/sync/", "runtime/reduce/")
PIPELINE = ("runtime/coordinator/", "runtime/stage/", "runtime/loader/")
JOBS = ("runtime/spec/", "runtime/model/", "runtime/plan/", "runtime/cost/", "runtime/job/")
NEVER = {
    "ops/layers/": ("ops/cpu/", "ops/onednn/", "ops/cuda"),
    "ops/rules/": ("ops/cpu/", "ops/onednn/", "ops/cuda"),
    "runtime/node/net/": ("runtime/messages/", "runtime/role.hpp", "runtime/node/config/") + JOBS,
    "runtime/node/http/": ("ops/layers/", "runtime/messages/", "runtime/role.hpp", "runtime/node/config/") + JOBS,
    "runtime/node/machine/": AGREEMENT + PIPELINE + JOBS + ("runtime/messages/", "runtime/role.hpp", "runtime/node/config/"),
    "runtime/node/pki/": ("ops/", "runtime/node/config/") + JOBS,
    "runtime/node/config/": AGREEMENT + PIPELINE + ("runtime/messages/",),
    "runtime/node/executor/": AGREEMENT + ("runtime/node/net/", "runtime/node/http/"),
    "runtime/cluster/": AGREEMENT,
    "runtime/access/": ("runtime/cluster/",),
    "runtime/exchange/": ("runtime/messages/", "actors/") + JOBS,
    "runtime/exchange/hub/": ("runtime/node/", "runtime/exchange/client/", "runtime/exchange/library/", "runtime/exchange/shared/"),
    "runtime/exchange/shared/": ("ops/", "runtime/exchange/client/", "runtime/exchange/library/"),
    "runtime/exchange/client/": ("ops/", "runtime/exchange/library/"),
    "actors/shell/": AGREEMENT + PIPELINE + ("runtime/node/config/", "actors/control/", "actors/repl/"),
    "actors/supervision/": AGREEMENT + PIPELINE + JOBS,
    "actors/metrics/": AGREEMENT + PIPELINE + ("actors/control/", "actors/repl/"),
    "actors/control/": AGREEMENT,
    "actors/repl/": AGREEMENT + ("runtime/messages/dataflow.hpp", "runtime/messages/param.hpp"),
    "actors/page/": AGREEMENT + PIPELINE + ("runtime/messages/dataflow.hpp", "runtime/messages/param.hpp"),
    "apps/": AGREEMENT,
}

# The rooms of actors/: each may include those on lower floors. Rooms on one floor do not include each other.
FLOORS = {"actors/shell/": 0, "actors/supervision/": 1, "actors/post_mortem/": 2, "actors/metrics/": 3, "actors/control/client/": 4,
          "actors/control/host/": 7, "actors/control/": 3, "actors/embedded": 3, "actors/state_folder.": 3,
          "actors/repl/": 5, "actors/page/": 6, "actors/daemon_pages.": 8, "actors/daemon.": 9}

# Parts of ops that consist only of headers with pure arithmetic. runtime/exchange, which is loaded into users' processes, may include them.
BARE = ("ops/tree/", "ops/bf16.hpp")

THREADS = re.compile(r"std::j?thread\b|std::async\b|\bpthread_create\b|#[ \t]*include[ \t]*<thread>")
CLOCKS = re.compile(r"\b(?:system|steady|high_resolution)_clock\b(?!::(?:time_point|duration))|std::(?:mutex|shared_mutex|condition_variable|random_device)\b|\bsleep_for\b")
DECIDES = ("runtime/messages/", "runtime/spec/", "runtime/model/", "runtime/plan/", "runtime/cost/", "runtime/sync/", "runtime/reduce/", "runtime/sim/",
           "runtime/exchange/hub/", "runtime/cluster/controller/", "runtime/cluster/supervision/", "runtime/role.hpp") + PIPELINE
# ops/cuda has a thread per GPU that watches events.
OPS = tuple("ops/" + n for n in os.listdir(os.path.join(tree.TOP, "ops")) if n != "cuda")
WORDS = [
    (re.compile(r"#[ \t]*pragma[ \t]+omp"), "OpenMP must not be used: parallelism comes from packets", ("ops/", "runtime/", "actors/", "apps/")),
    # ops/onednn only limits the library's OpenMP to one thread.
    (re.compile(r"<omp\.h>|\bomp_(?!set_num_threads\(1\))\w+\("), "OpenMP must not be used: parallelism comes from packets",
     ("ops/cpu/", "ops/layers/", "ops/cuda/", "runtime/", "actors/", "apps/")),
    (THREADS, "pure code must not use threads", OPS + DECIDES),
    (CLOCKS, "pure code must not use clocks, locks or random devices", DECIDES),
]


def level(name):
    return next((l for prefix, l in LEVELS if name.startswith(prefix)), None)


def runtime_libraries():
    """Returns ({library: its folders}, {library: libraries that it links}) from runtime/CMakeLists.txt; folder '.' is runtime/ itself."""
    dirs, deps = {}, {}
    for name, body in re.findall(r"troupe_box\(\s*(\w+)([^)]*)\)", tree.text("runtime/CMakeLists.txt")):
        words = {"DIRS": [], "DEPS": [], "PRIVATE": [], "ALONE": []}
        key = "DIRS"
        for word in body.split():
            if word in words:
                key = word
            else:
                words[key].append(word)
        dirs[name], deps[name] = words["DIRS"], words["DEPS"] + words["PRIVATE"]
    return dirs, deps


def runtime_boxes():
    """Returns {folder: folders that it may include} from runtime/CMakeLists.txt."""
    dirs, deps = runtime_libraries()
    allowed = {}
    for name in dirs:
        reached, todo = set(), [name]
        while todo:
            n = todo.pop()
            if n in dirs and n not in reached:
                reached.add(n)
                todo += deps[n]
        for d in dirs[name]:
            allowed[d] = {e for n in reached for e in dirs[n]}
    return allowed


def actors_room(name):
    return next((room for room in FLOORS if name.startswith(room)), None)


def runtime_folder(name):
    """Returns the file's folder below runtime/, e.g. 'plan' or 'exchange/hub'; '.' is runtime/ itself."""
    return "/".join(name.split("/")[1:-1]) or "."


def main():
    problems, boxes, count = [], runtime_boxes(), 0
    for name in tree.sources():
        mine = level(name)
        for line, kind, what in tree.includes(name):
            count += 1
            where = f"{name}:{line}"
            for pattern, library, homes in LIBRARIES:
                if pattern.match(what) and not name.startswith(homes + FREE):
                    problems.append(f"{where}: {library} may be included only in {', '.join(homes)}: {what}")
            if kind == "<":
                if level(what) is not None and tree.resolve("", what):
                    problems.append(f"{where}: include \"{what}\" with quotes, it is a file of the tree")
                continue
            target = tree.resolve(name, what)
            if target is None:
                if not (what.startswith("generated/") or what.endswith(".pb.h")):
                    problems.append(f"{where}: \"{what}\" is not in the tree; include system headers with <>")
                continue
            if name.startswith("ops/tree/") or (name.startswith("runtime/exchange/") and target.startswith("ops/") and not target.startswith(BARE)):
                problems.append(f"{where}: this file is loaded into users' processes and must not include {target}")
            for room, foreign in NEVER.items():
                if name.startswith(room) and target.startswith(foreign):
                    problems.append(f"{where}: {room} must not include {target} (docs/ARCHITECTURE.md)")
            theirs = level(target)
            if mine is None or theirs is None:
                continue
            if theirs > mine:
                problems.append(f"{where}: {name.split('/')[0]} must not include {target}, a higher layer")
            elif mine == theirs == 3:
                a, b = actors_room(name), actors_room(target)
                if a is None or b is None:
                    problems.append(f"{where}: {name if a is None else target} is in no room of actors/; add its room to FLOORS")
                elif a != b and FLOORS[b] >= FLOORS[a]:
                    problems.append(f"{where}: {a} must not include {target}, which is not on a lower floor (FLOORS)")
            elif mine == theirs == 1:
                a, b = runtime_folder(name), runtime_folder(target)
                if a == "sim" and b in ("sync", "reduce"):
                    problems.append(f"{where}: runtime/sim must not depend on a mode or reducer: {target}")
                elif a in boxes and b not in boxes[a]:
                    problems.append(f"{where}: runtime/{a} does not depend on runtime/{b} (runtime/CMakeLists.txt): {target}")
        for pattern, why, homes in WORDS:
            if name.startswith(homes) and not name.startswith("runtime/node/"):
                source = tree.code(name)
                for m in pattern.finditer(source):
                    problems.append(f"{name}:{source.count(chr(10), 0, m.start()) + 1}: {why}: {m.group(0).strip()}")
    print("\n".join(problems[:60]))
    print(f"{count} includes, {len(problems)} wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
