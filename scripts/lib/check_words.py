#!/usr/bin/env python3
"""check_words.py: whoever reads here finds what a line speaks of.

  documents  a file that names a page (NAME.md) names one of the tree; notes that are elsewhere are named nowhere
  links      a page's links lead to files of the tree, and to headings that are there
  files      a path in `backticks` of a page, from the top of the tree, is there (`a/b` stands for a/b.hpp and a/b.cpp)
  tests      docs/promises.md names tests that there are
"""
import os
import re
import sys

import tree

SKIP = (".svg", ".png", ".jpg", ".pack", ".safetensors", "check_words_test.py")
# Notes that the tree was planned with; what matters of them stands in docs/.
ELSEWHERE = re.compile(r"\b(?:" + "|".join(["PROTO" + "COLS", "PROM" + "ISES", "DE" + "SIGN", "LOW" + "COMM"]) + r")\b")
PAGE = re.compile(r"[\w./-]*\b[\w-]+\.md\b")
PLACEHOLDERS = {"NAME.md", "FILE.md"}  # of usage texts
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")

PATH = re.compile(r"`((?:actors|apps|bench|cmake|configs|docs|examples|ops|runtime|scripts|tests)/[\w./-]*)`")


def lost_paths(name):
    body = tree.text(name)
    for m in PATH.finditer(body):
        path = os.path.join(tree.TOP, m.group(1))
        if "NAME" not in path and not any(os.path.exists(path + ending) for ending in ("", ".hpp", ".cpp")):
            yield f"{name}:{body.count(chr(10), 0, m.start()) + 1}: there is no {m.group(1)}"


def headings(name):
    """Anchors of a page as GitHub makes them."""
    body = re.sub(r"^```.*?^```", "", tree.text(name), flags=re.S | re.M)
    anchors, seen = set(), {}
    for title in re.findall(r"^#+[ \t]+(.*)$", body, re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        again = seen.get(anchor, 0)
        seen[anchor] = again + 1
        anchors.add(anchor if again == 0 else f"{anchor}-{again}")
    return anchors


def bad_links(name):
    body = re.sub(r"^```.*?^```", lambda m: "\n" * m.group(0).count("\n"), tree.text(name), flags=re.S | re.M)
    for m in LINK.finditer(body):
        line, target = body.count("\n", 0, m.start()) + 1, m.group(1)
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        to = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not os.path.exists(os.path.join(tree.TOP, to)):
            yield f"{name}:{line}: the link leads nowhere: {target}"
        elif anchor and to.endswith(".md") and anchor not in headings(to):
            yield f"{name}:{line}: {to} has no heading for #{anchor}"


def lost_tests(name):
    text = tree.text(name)
    there = {".".join(m) for n in tree.files("_test.cpp") for m in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", tree.text(n), re.M)}
    for m in re.finditer(r"`([a-z_0-9]+\.[a-z_0-9]+)`", text):
        if m.group(1) not in there:
            yield f"{name}:{text.count(chr(10), 0, m.start()) + 1}: there is no test {m.group(1)}"


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
            problems += [*bad_links(name), *lost_paths(name)]
    problems += lost_tests("docs/promises.md")
    print("\n".join(problems[:60]))
    print(f"{len(names)} files, {len(problems)} names of what is not there")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
