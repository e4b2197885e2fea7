#!/usr/bin/env python3
"""mutate.py: the work of scripts/mutate, whose head says what it does."""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time

import mutations
import tree

HOME = os.path.join(tree.TOP, "build", "mutate")
COPY = os.path.join(HOME, "tree")
BUILD = os.path.join(COPY, "build", "release")
NEAR = ("test_runtime", "test_sim")
ENOUGH = 0.9


def git(*words, cwd=None):
    return subprocess.run(["git", *words], cwd=cwd or tree.TOP, check=True, text=True, capture_output=True).stdout.strip()


def prepare():
    """The worktree at HEAD, clean; returns the commit."""
    head = git("rev-parse", "HEAD")
    if not os.path.exists(os.path.join(COPY, ".git")):
        os.makedirs(HOME, exist_ok=True)
        git("worktree", "prune")
        git("worktree", "add", "--detach", COPY, head)
    git("checkout", "-q", "--detach", "-f", head, cwd=COPY)
    return head


def build(*targets):
    words = ["scripts/build", "release"] + [w for t in targets for w in ("--target", t)]
    with open(os.path.join(HOME, "build.log"), "w") as f:
        return subprocess.run(words, cwd=COPY, stdout=f, stderr=subprocess.STDOUT).returncode == 0


def end(processes):
    for p in processes:
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def start(words, log, shard=None):
    env = dict(os.environ)
    if shard:
        env["GTEST_SHARD_INDEX"], env["GTEST_TOTAL_SHARDS"] = str(shard[0]), str(shard[1])
    with open(log, "w") as f:
        return subprocess.Popen(words, cwd=BUILD, env=env, stdout=f, stderr=subprocess.STDOUT, start_new_session=True)


def wait_for(processes, deadline):
    """None when all end well, else the index of the first that does not; -1 when time is up. The others are ended."""
    try:
        while True:
            codes = [p.poll() for p in processes]
            bad = next((i for i, c in enumerate(codes) if c not in (None, 0)), None)
            if bad is not None or None not in codes:
                return bad
            if time.monotonic() > deadline:
                return -1
            time.sleep(0.05)
    finally:
        end(processes)


def read(path):
    with open(path, errors="replace") as f:
        return f.read()


def run_near(program, jobs, deadline):
    """None when the program's tests pass, else what failed."""
    logs = [os.path.join(HOME, f"{program}.{i}.log") for i in range(jobs)]
    words = [os.path.join(BUILD, "bin", program), "--gtest_fail_fast", "--gtest_brief=1"]
    bad = wait_for([start(words, logs[i], (i, jobs)) for i in range(jobs)], deadline)
    if bad is None:
        return None
    if bad < 0:
        return program + ": time is up"
    failed = re.search(r"^\[  FAILED  \] (\S+?),? ", read(logs[bad]) + " ", re.M)
    return failed.group(1) if failed else program + ": crashed"


def far_tests():
    """Numbers of the tests that are labelled quick or ci and are none of NEAR's."""
    shown = subprocess.run(["ctest", "--show-only=json-v1", "-L", "^(quick|ci)$"], cwd=BUILD, check=True, capture_output=True, text=True)
    every = subprocess.run(["ctest", "--show-only=json-v1"], cwd=BUILD, check=True, capture_output=True, text=True)
    number = {t["name"]: i + 1 for i, t in enumerate(json.loads(every.stdout)["tests"])}
    return [number[t["name"]] for t in json.loads(shown.stdout)["tests"] if os.path.basename(t.get("command", [""])[0]) not in NEAR]


def run_far(jobs, deadline):
    log, numbers = os.path.join(HOME, "ctest.log"), far_tests()
    words = ["ctest", "--stop-on-failure", "--timeout", "300", "--parallel", str(jobs), "-I", "0,0,0," + ",".join(map(str, numbers))]
    bad = wait_for([start(words, log)], deadline)
    if bad is None:
        return None
    failed = re.search(r"^\s*\d+ - (\S+) \(", read(log), re.M)
    return failed.group(1) if failed else "ctest: time is up" if bad < 0 else "ctest: failed"


def judge(args):
    """('not compiled' | 'killed' | 'survived', by whom)."""
    if not build(*NEAR):
        return "not compiled", ""
    deadline = time.monotonic() + args.limit
    for program in NEAR:
        if by := run_near(program, args.jobs, deadline):
            return "killed", by
    if args.near:
        return "survived", ""
    if not build():
        return "not compiled", ""
    by = run_far(args.jobs, deadline)
    return ("killed", by) if by else ("survived", "")


def tests_pass_without(head, args):
    """Before anything is blamed on a mistake. Remembered by commit."""
    mark, what = os.path.join(HOME, "passes"), head + (" near" if args.near else " all")
    if os.path.exists(mark) and read(mark) in (what, head + " all"):
        return True
    outcome, by = judge(args)
    if outcome != "survived":
        print(f"mutate: without a mistake: {outcome} {by} (build/mutate/*.log)")
        return False
    with open(mark, "w") as f:
        f.write(what)
    return True


def words_of(m):
    return f"{m.file}:{m.line}: {m.kind}: '{m.before}' -> '{m.after}'"


def try_one(m, args):
    path, begin = os.path.join(COPY, m.file), time.monotonic()
    original = read(path)
    try:
        with open(path, "w") as f:
            f.write(mutations.applied(original, m))
        outcome, by = judge(args)
    finally:
        with open(path, "w") as f:
            f.write(original)
    seconds = round(time.monotonic() - begin)
    print(f"{outcome:12} {words_of(m)} ({'by ' + by + ', ' if by else ''}{seconds} s)", flush=True)
    return {**m._asdict(), "outcome": outcome, "by": by, "seconds": seconds}


def main():
    parser = argparse.ArgumentParser(prog="mutate")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--near", action="store_true")
    parser.add_argument("--limit", type=float, default=1800)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    head = prepare()
    tree.TOP = COPY  # whatever is read from here on is HEAD's
    if not tests_pass_without(head, args):
        return 2
    log = []
    for m in mutations.draw(args.count, args.seed):
        log.append(try_one(m, args))
        with open(os.path.join(HOME, "log.json"), "w") as f:
            json.dump({"commit": head, "seed": args.seed, "mistakes": log}, f, indent=1)
    survivors = [l for l in log if l["outcome"] == "survived"]
    compiled = [l for l in log if l["outcome"] != "not compiled"]
    for l in survivors:
        print("survived: " + words_of(mutations.mutation(*[l[k] for k in mutations.mutation._fields])))
    killed = len(compiled) - len(survivors)
    print(f"{killed} killed, {len(survivors)} survived, {len(log) - len(compiled)} not compiled")
    return 0 if killed >= ENOUGH * len(compiled) else 1


if __name__ == "__main__":
    sys.exit(main())
