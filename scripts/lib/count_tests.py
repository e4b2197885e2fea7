#!/usr/bin/env python3
"""count_tests.py [--ci | --strict] [--cpuinfo FILE] [--also NAME=pass|fail|skip]... FILE...

Adds up the results of ctest's JUnit files and prints `N passed, N failed` (and `, N skipped` if any) as its last line.
Before it stand the failed tests, each with lines of what it printed.
With --ci a skipped test counts as failed, unless its name says that it needs something that CI machines lack, or that this
processor lacks by the flags in FILE (default /proc/cpuinfo).
With --strict every skipped test counts as failed.
"""
import argparse
import sys
import xml.etree.ElementTree as tree

MAY_SKIP = ("GPU", "SHARED_DATA", "NO_TIME")
PRINTED_LINES, PRINTED_TESTS = 30, 10  # how much of what failed tests printed is printed again
OF_PROCESSOR = {"amx_bf16": ("amx_test.", "bf16x3.")}  # processor flag: prefixes of the names of tests that need it


def may_skip(name, cpuinfo):
    lacking = (begins for flag, begins in OF_PROCESSOR.items() if flag not in cpuinfo.split())
    return any(word in name for word in MAY_SKIP) or any(name.startswith(begins) for begins in lacking)


def outcomes(path):
    """Yields (name, 'pass' | 'fail' | 'skip', why, what it printed) for each test case of one file."""
    for case in tree.parse(path).getroot().iter("testcase"):
        name, failure, skipped = case.get("name"), case.find("failure"), case.find("skipped")
        if case.get("status") == "disabled":
            yield name, "skip", "disabled", ""
        elif skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            yield name, "skip", "skipped", ""
        elif case.get("status") == "run" and failure is None:
            yield name, "pass", "", ""
        else:
            note = failure if failure is not None else skipped
            why = note.get("message", "") if note is not None else "not run"
            yield name, "fail", why, case.findtext("system-out") or ""


def telling(printed):
    """The lines of a failed test that say most: from GoogleTest's first failure on, or else the end."""
    lines = printed.splitlines()
    first = next((i for i, line in enumerate(lines) if line.endswith(": Failure")), len(lines) - PRINTED_LINES)
    return lines[max(first, 0):][:PRINTED_LINES]


def skipped_lines(names):
    """One line for each skipped test, or for a suite of which many are skipped."""
    suites = {}
    for name in names:
        suites.setdefault(name.partition(".")[0], []).append(name)
    for suite, tests in suites.items():
        yield from (f"skipped {name}" for name in tests) if len(tests) <= 3 else [f"skipped {suite}.* ({len(tests)} tests)"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ci", action="store_true")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--cpuinfo", default="/proc/cpuinfo")
    parser.add_argument("--also", action="append", default=[])
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()

    results = [(n, o, "", "") for n, o in (pair.rsplit("=", 1) for pair in args.also)]
    for path in args.files:
        try:
            found = list(outcomes(path))
        except (OSError, tree.ParseError) as e:
            found = [(path, "fail", f"cannot read the results: {e}", "")]
        results += found or [(path, "fail", "the file has no tests", "")]

    try:
        with open(args.cpuinfo) as f:
            cpuinfo = f.read()
    except OSError:
        cpuinfo = ""
    count, skips = {"pass": 0, "fail": 0, "skip": 0}, []
    for name, outcome, why, printed in results:
        excused = args.ci and may_skip(name, cpuinfo)
        if outcome == "skip" and (args.ci or args.strict) and not excused:
            outcome, why = "fail", f"{why}, which counts as a failure here"
        count[outcome] += 1
        if outcome == "fail":
            print(f"FAILED  {name}  {why}".rstrip())
            if count["fail"] <= PRINTED_TESTS:
                print("".join(f"    {line[:400]}\n" for line in telling(printed)), end="")
        elif outcome == "skip":
            skips.append(name)
    print("".join(line + "\n" for line in skipped_lines(skips)), end="")
    skipped = f", {count['skip']} skipped" if count["skip"] else ""
    print(f"{count['pass']} passed, {count['fail']} failed{skipped}")
    return 1 if count["fail"] or not count["pass"] else 0


if __name__ == "__main__":
    sys.exit(main())
