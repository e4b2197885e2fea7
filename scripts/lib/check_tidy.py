#!/usr/bin/env python3
"""check_tidy.py [--all] [--base COMMIT] [--build DIR] [--jobs N] [--seconds N]

Runs clang-tidy on the .cpp files that changed since the base (see tree.changed), and for each changed header on one file that
includes it. Skips files that were clean before and are unchanged. Reports the files for which
the time was too short. Files that clang 14 cannot parse although g++ can are counted, but do not fail.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time

import tree


def choose(compiled, names):
    """Returns the compiled files to check for a set of changed names."""
    picked = {n for n in compiled if n in names}
    for header in sorted(n for n in names if n.endswith(".hpp")):
        users = [c for c in compiled if header in tree.closure(c)]
        if users and not picked.intersection(users):
            picked.add(min(users, key=lambda c: (len(tree.closure(c)), c)))
    return sorted(picked)


def file_by_file(build):
    """Returns the build folder; for a unity build another one that is only configured, with the command to compile each file."""
    with open(os.path.join(tree.TOP, build, "CMakeCache.txt")) as f:
        if not re.search(r"^TROUPE_UNITY:\w+=(ON|TRUE|1)$", f.read(), re.M):
            return build
    there = os.path.join("build", "check", "file_by_file")
    subprocess.run(["cmake", "--preset", os.path.basename(build), "-B", there, "-DTROUPE_UNITY=OFF"], cwd=tree.TOP, check=True, capture_output=True)
    return there


def tidy(name, build, deadline):
    left = deadline - time.monotonic()
    if left < 5:
        return "late", ""
    try:
        run = subprocess.run(["clang-tidy", "--quiet", "-p", build, "--extra-arg=-Wno-error", "--extra-arg=-Wno-unknown-warning-option", name],
                             cwd=tree.TOP, text=True, capture_output=True, timeout=left)
    except subprocess.TimeoutExpired:
        return "late", ""
    if "[clang-diagnostic-error]" in run.stdout:
        return "unparsed", run.stdout
    return ("bad" if re.search(r": (?:warning|error): .*\[", run.stdout) else "fine"), run.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--base")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=600)
    args = parser.parse_args()

    if not tree.compiled(args.build):
        print(f"skipped: {args.build} is not configured; build first")
        return 1 if os.environ.get("CI") == "true" else 0
    args.build = file_by_file(args.build)
    compiled = sorted(tree.compiled(args.build))
    names = None if args.all else tree.changed(args.base)
    picked = compiled if names is None else choose(compiled, names)

    good = tree.found_good("tidy")
    marks = {n: tree.fingerprint(n, tree.text(".clang-tidy")) for n in picked}
    todo = [n for n in picked if (n, marks[n]) not in good]
    deadline = time.monotonic() + args.seconds
    count = {"fine": 0, "bad": 0, "unparsed": 0, "late": 0}
    said = set()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, (outcome, output) in zip(todo, pool.map(lambda n: tidy(n, args.build, deadline), todo)):
            count[outcome] += 1
            if outcome == "fine":
                good.add(name, marks[name])
            elif outcome == "bad":
                for line in output.splitlines():  # a finding in a header appears for every file that includes it
                    if re.search(r": (?:warning|error): .*\[", line) and line not in said:
                        said.add(line)
                        print(line.replace(tree.TOP + "/", ""))
            elif outcome == "unparsed":
                print(f"clang cannot parse {name}: " + next(l for l in output.splitlines() if "clang-diagnostic-error" in l).replace(tree.TOP + "/", ""))
    good.save()
    print(f"{len(picked)} files, {len(todo)} checked, {count['bad']} with findings, {count['unparsed']} not parsed by clang, "
          f"{count['late']} skipped for lack of time")
    return 1 if count["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
