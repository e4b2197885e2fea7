#!/usr/bin/env python3
"""Runs scripts/lib/mutate.py and mutations.py on a small tree whose tests detect mutations of one function and not of the other.
usage: mutate_test.py scripts/lib"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
import mutations
import tree

SEEN = "int seen(int n) {\n  int sum = 0;\n  for (int i = 0; i < n; ++i) sum += i;\n  return sum;\n}\n"
UNSEEN = "bool unseen(int a, int b) {\n  // a < b && b < a, \"1\"\n  call(a);\n  return a == b || a > 7;\n}\n"
# The build fails if a 7 became an 8; the tests pass if seen() is unchanged.
BUILD = """#!/bin/bash
! grep -q '> 8' runtime/sync/b.cpp || exit 1
mkdir -p build/release/bin
for t in test_runtime test_sim; do
  printf '#!/bin/bash\\ncmp -s %s/kept %s/runtime/plan/a.cpp || { echo "[  FAILED  ] sums.%s, where"; exit 1; }\\n' $PWD $PWD $t >build/release/bin/$t
  chmod +x build/release/bin/$t
done
"""


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=folder, check=True, capture_output=True)


def make(folder, kept=SEEN):
    files = {"runtime/plan/a.cpp": SEEN, "runtime/sync/b.cpp": UNSEEN, "runtime/data/c.cpp": SEEN, "kept": kept, "scripts/build": BUILD, ".gitignore": "/build/\n"}
    for name, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    os.chmod(os.path.join(folder, "scripts/build"), 0o755)
    shutil.copytree(sys.argv[1], os.path.join(folder, "scripts/lib"), ignore=shutil.ignore_patterns("__pycache__"))
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")


def run(folder, *words):
    r = subprocess.run([sys.executable, os.path.join(folder, "scripts/lib/mutate.py"), "--near", *words], cwd=folder, capture_output=True, text=True)
    log = os.path.join(folder, "build/mutate/log.json")
    if not os.path.exists(log):
        return r, []
    with open(log) as f:
        return r, json.load(f)["mistakes"]


with tempfile.TemporaryDirectory() as folder:
    make(folder)
    tree.TOP = folder
    every = mutations.draw(1000, 1)
    assert every == mutations.draw(1000, 1) and every[:5] == mutations.draw(5, 1) and every[:5] != mutations.draw(5, 2)
    kinds = {(m.kind, m.before) for m in every}
    for wanted in (("comparison", "<"), ("comparison", "=="), ("operator", "||"), ("off by one", "7"), ("off by one", "0"), ("statement dropped", "call(a);"),
                   ("wrong variable", "sum")):
        assert wanted in kinds, (wanted, kinds)
    assert {m.file for m in every} == {"runtime/plan/a.cpp", "runtime/sync/b.cpp"}, every  # runtime/data is not among the mutated folders
    assert all(m.line > 1 for m in every) and not [m for m in every if m.file.endswith("b.cpp") and m.line == 2], "mutated a function head, comment or string"
    for m in every:
        before = tree.text(m.file)
        assert before[m.begin:m.end] == m.before and mutations.applied(before, m) != before

    r, log = run(folder, "1000", "--seed", "1")
    assert r.returncode == 1 and len(log) == len(every), r
    for l in log:
        if l["file"] == "runtime/plan/a.cpp":
            assert (l["outcome"], l["by"]) == ("killed", "sums.test_runtime"), l
        else:
            assert l["outcome"] == ("not compiled" if l["after"] == "8" else "survived"), l
    count = {o: sum(l["outcome"] == o for l in log) for o in ("killed", "survived", "not compiled")}
    assert min(count.values()) > 0 and r.stdout.endswith("{killed} killed, {survived} survived, {0} not compiled\n".format(count["not compiled"], **count)), r
    assert r.stdout.count("\nsurvived: ") == count["survived"]
    with open(os.path.join(folder, "build/mutate/tree0/runtime/plan/a.cpp")) as f:
        assert f.read() == SEEN  # the file is restored

    # Without the other file, all mutations are detected.
    git(folder, "rm", "-q", "runtime/sync/b.cpp")
    git(folder, "commit", "-qm", "seen alone")
    r, log = run(folder, "4")
    assert r.returncode == 0 and [l["outcome"] for l in log] == ["killed"] * 4, r

with tempfile.TemporaryDirectory() as folder:
    make(folder, kept="something else")
    r, log = run(folder, "4")
    assert r.returncode == 2 and not log and "without a mistake: killed sums.test_runtime" in r.stdout, r
