#!/usr/bin/env python3
"""Implements scripts/mutate; see its usage text."""
import argparse
import concurrent.futures
import json
import os
import queue
import re
import signal
import subprocess
import sys
import time

import mutations
import tree

HOME = os.path.join(tree.TOP, "build", "mutate")
# The programs whose tests are near a folder, with arguments. Those of the control plane start no daemon.
CONTROL = "controller*:control_*:member*:trust*:journal*:fitting*:operation*:answer_pieces*:pieces*:job_numbers*:job_folder_names*:*controller_node_states*"
NEAR = {"": (("test_runtime",), ("test_sim",)),
        "runtime/cluster/supervision/": (("test_actors", "--gtest_filter=*_watch*:straggler_sim*:peers_of*:slow_link*"),
                                         ("test_cluster", "--gtest_filter=" + CONTROL)),
        "runtime/cluster/view/": (("test_actors", "--gtest_filter=repl_*:job_progress*:injection*:gpu*"),
                                  ("test_cluster", "--gtest_filter=" + CONTROL)),
        "runtime/cluster/": (("test_cluster", "--gtest_filter=" + CONTROL), ("test_recovery",), ("test_runtime",))}
ENOUGH = 0.9


def git(*words, cwd=None):
    return subprocess.run(["git", *words], cwd=cwd or tree.TOP, check=True, text=True, capture_output=True).stdout.strip()


def read(path):
    with open(path, errors="replace") as f:
        return f.read()


class copy:
    """A worktree of HEAD with its own build, in which one mistake at a time is made."""

    def __init__(self, number, head):
        self.top = os.path.join(HOME, f"tree{number}")
        self.logs = os.path.join(HOME, f"log{number}")
        self.built = os.path.join(self.top, "build", "release")
        os.makedirs(self.logs, exist_ok=True)
        if not os.path.exists(os.path.join(self.top, ".git")):
            git("worktree", "prune")
            git("worktree", "add", "--detach", self.top, head)
        git("checkout", "-q", "--detach", "-f", head, cwd=self.top)

    def run(self, words, log, cwd, deadline):
        """Runs a command; returns its exit code, or None if the deadline passes. Kills all processes that it started."""
        with open(os.path.join(self.logs, log), "w") as f:
            p = subprocess.Popen(words, cwd=cwd, stdout=f, stderr=subprocess.STDOUT, start_new_session=True,
                                 env={**os.environ, "TROUPE_RUNS": "off"})  # as ctest runs them
        try:
            return p.wait(timeout=max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()

    def build(self, *targets):
        words = ["scripts/build", "release"] + [w for t in targets for w in ("--target", t)]
        return self.run(words, "build.log", self.top, time.monotonic() + 7200) == 0

    def run_near(self, program, *words, deadline):
        """Returns None if the program's tests pass, else what failed."""
        log = program + ".log"
        code = self.run([os.path.join(self.built, "bin", program), "--gtest_fail_fast", "--gtest_brief=1", *words], log, self.built, deadline)
        if code == 0:
            return None
        if code is None:
            return program + ": time limit exceeded"
        failed = re.search(r"^\[  FAILED  \] (\S+?),? ", read(os.path.join(self.logs, log)) + " ", re.M)
        return failed.group(1) if failed else program + ": crashed"

    def tests(self, *choice):
        words = ["ctest", "--show-only=json-v1", *choice]
        return json.loads(subprocess.run(words, cwd=self.built, check=True, capture_output=True, text=True).stdout)["tests"]

    def far_tests(self, near):
        """Returns the numbers of the tests that are labelled quick or ci and are not in these programs."""
        number = {t["name"]: i + 1 for i, t in enumerate(self.tests())}
        chosen = self.tests("-L", "^(quick|ci)$")
        return [number[t["name"]] for t in chosen if os.path.basename(t.get("command", [""])[0]) not in near]

    def run_far(self, near, deadline):
        words = ["ctest", "--stop-on-failure", "--timeout", "300", "-I", "0,0,0," + ",".join(map(str, self.far_tests(near)))]
        code = self.run(words, "ctest.log", self.built, deadline)
        if code == 0:
            return None
        failed = re.search(r"^\s*\d+ - (\S+) \(", read(os.path.join(self.logs, "ctest.log")), re.M)
        return failed.group(1) if failed else "ctest: time limit exceeded" if code is None else "ctest: failed"

    def judge(self, args, file=""):
        """Builds and tests the copy; returns ('not compiled' | 'killed' | 'survived', the test that failed)."""
        near = next(programs for folder, programs in sorted(NEAR.items(), reverse=True) if (file or args.folder).startswith(folder))
        if not self.build(*(program for program, *_ in near)):
            return "not compiled", ""
        deadline = time.monotonic() + args.limit
        for program in near:
            if by := self.run_near(*program, deadline=deadline):
                return "killed", by
        if args.near:
            return "survived", ""
        if not self.build():
            return "not compiled", ""
        by = self.run_far([program for program, *words in near if not words], deadline)
        return ("killed", by) if by else ("survived", "")

    def try_one(self, m, args):
        path, begin = os.path.join(self.top, m.file), time.monotonic()
        original = read(path)
        try:
            with open(path, "w") as f:
                f.write(mutations.applied(original, m))
            outcome, by = self.judge(args, m.file)
        finally:
            with open(path, "w") as f:
                f.write(original)
        seconds = round(time.monotonic() - begin)
        print(f"{outcome:12} {words_of(m)} ({'by ' + by + ', ' if by else ''}{seconds} s)", flush=True)
        return {**m._asdict(), "outcome": outcome, "by": by, "seconds": seconds}


def words_of(m):
    return f"{m.file}:{m.line}: {m.kind}: '{m.before}' -> '{m.after}'"


def tests_pass_without(one, head, args):
    """Checks that the tests pass without a mistake. Remembers the result by commit."""
    mark, what = os.path.join(HOME, "passes"), head + (" near " + args.folder if args.near else " all")
    if os.path.exists(mark) and read(mark) in (what, head + " all"):
        return True
    outcome, by = one.judge(args)
    if outcome != "survived":
        print(f"mutate: without a mistake: {outcome} {by} ({one.logs})")
        return False
    with open(mark, "w") as f:
        f.write(what)
    return True


def try_all(mistakes, copies, args, keep):
    """Tries each mistake in a free copy. Calls keep() with the outcomes so far, in the order in which the mistakes were drawn."""
    free, log = queue.SimpleQueue(), [None] * len(mistakes)
    for c in copies:
        free.put(c)

    def one(i):
        c = free.get()
        try:
            log[i] = c.try_one(mistakes[i], args)
        finally:
            free.put(c)

    with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, i) for i in range(len(mistakes))]):
            done.result()
            keep([l for l in log if l])
    return log


def main():
    parser = argparse.ArgumentParser(prog="mutate")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in", dest="folder", default="")
    parser.add_argument("--near", action="store_true")
    parser.add_argument("--limit", type=float, default=1800)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    head = git("rev-parse", "HEAD")
    os.makedirs(HOME, exist_ok=True)
    copies = [copy(i, head) for i in range(args.jobs)]
    tree.TOP = copies[0].top  # from here on all files are read from HEAD
    if not tests_pass_without(copies[0], head, args):
        return 2

    def keep(log):
        with open(os.path.join(HOME, "log.json"), "w") as f:
            json.dump({"commit": head, "seed": args.seed, "mistakes": log}, f, indent=1)

    log = try_all(list(mutations.draw(args.count, args.seed, args.folder)), copies, args, keep)
    survivors = [l for l in log if l["outcome"] == "survived"]
    compiled = [l for l in log if l["outcome"] != "not compiled"]
    for l in survivors:
        print("survived: " + words_of(mutations.mutation(*[l[k] for k in mutations.mutation._fields])))
    killed = len(compiled) - len(survivors)
    print(f"{killed} killed, {len(survivors)} survived, {len(log) - len(compiled)} not compiled")
    return 0 if killed >= ENOUGH * len(compiled) else 1


if __name__ == "__main__":
    sys.exit(main())
