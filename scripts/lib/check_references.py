#!/usr/bin/env python3
"""check_references.py: finds references to pages, files and tests that do not exist. docs/site.py checks the links of pages.

  documents  every page (NAME.md) that a file names is in the tree; planning notes outside the tree are not named
  files      every path in `backticks` in a page exists, relative to the top of the tree (`a/b` may also be a/b.hpp or a/b.cpp)
  tests      every test in tests/promises.txt exists, every number there is in the table of docs/promises.md, every state in the
             table is valid, and every promise with the state kept or in part has a test
"""
import os
import re
import sys

import promises
import tree

SKIP = (".svg", ".png", ".jpg", ".pack", ".safetensors", "check_references_test.py", "site_test.py")
# Names of planning notes. Their relevant parts are in docs/.
ELSEWHERE = re.compile(r"\b(?:" + "|".join(["PROTO" + "COLS", "PROM" + "ISES", "DE" + "SIGN", "LOW" + "COMM"]) + r")\b")
PAGE = re.compile(r"[\w./-]*\b[\w-]+\.md\b")
PLACEHOLDERS = {"NAME.md", "FILE.md"}  # in usage texts

PATH = re.compile(r"`((?:actors|apps|bench|cmake|configs|docs|examples|ops|runtime|scripts|tests)/[\w./-]*)`")


def lost_paths(name):
    body = tree.text(name)
    for m in PATH.finditer(body):
        path = os.path.join(tree.TOP, m.group(1))
        if "NAME" not in path and not any(os.path.exists(path + ending) for ending in ("", ".hpp", ".cpp")):
            yield f"{name}:{body.count(chr(10), 0, m.start()) + 1}: there is no {m.group(1)}"


def lost_tests():
    existing = {".".join(m) for n in tree.files("_test.cpp") for m in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", tree.text(n), re.M)}
    states = {number: state for number, _, state in promises.rows(tree.text(promises.PAGE))}
    if not states:
        yield f"{promises.PAGE}: has no table of promises"
    tested = set()
    for line, number, names in promises.tests(tree.text(promises.TESTS)):
        where = f"{promises.TESTS}:{line}"
        if number is None:
            yield f"{where}: is not of the form NUMBER SUITE.TEST [SUITE.TEST...]"
            continue
        if number not in states:
            yield f"{where}: {promises.PAGE} has no promise {number}"
        for name in names:
            if name not in existing:
                yield f"{where}: there is no test {name}"
        tested.add(number)
    for number, state in states.items():
        if state not in promises.STATES:
            yield f"{promises.PAGE}: promise {number} has the state '{state}', must be one of: {', '.join(promises.STATES)}"
        elif state != "not yet" and number not in tested:
            yield f"{promises.PAGE}: promise {number} is {state}, but {promises.TESTS} has no test for it"


def main():
    names = [n for n in tree.files() if not n.endswith(SKIP)]
    pages = {os.path.basename(n) for n in names if n.endswith(".md")}
    problems = []
    for name in names:
        text = tree.text(name)
        for m in ELSEWHERE.finditer(text):
            problems.append(f"{name}:{text.count(chr(10), 0, m.start()) + 1}: names a document that is not in the tree: {m.group(0)}")
        for m in PAGE.finditer(text):
            if os.path.basename(m.group(0)) not in pages | PLACEHOLDERS:
                problems.append(f"{name}:{text.count(chr(10), 0, m.start()) + 1}: names a page that is not in the tree: {m.group(0)}")
        if name.endswith(".md"):
            problems += lost_paths(name)
    problems += lost_tests()
    print("\n".join(problems[:60]))
    print(f"{len(names)} files, {len(problems)} broken references")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
