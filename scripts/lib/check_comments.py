#!/usr/bin/env python3
"""check_comments.py [--fix]: checks the width of C++ comments, and that the files that they name exist.

  width  a whole-line comment ends at column 100 or before. --fix wraps paragraphs and list items that are too long;
         tables and formulas (lines indented within the comment) are only reported
  files  a file that a comment names (store.hpp, sync/table.cpp) is in the tree
"""
import os
import re
import sys
import textwrap

import tree

WIDTH = 100
CPP = (".hpp", ".cpp", ".inl", ".cu", ".cuh")
COMMENT = re.compile(r"^( *)//( ?)(.*)$")
ITEM = re.compile(r"^ *(?:[*-]|\d+\.|[a-z]\)) +")
LABEL = re.compile(r"^[A-Z][a-z]+(?: [a-z]+)?: +")
COLUMNS = re.compile(r"\S {3,}\S")
FILE = re.compile(r"(?<![\w./<*-])((?:[\w-]+/)*[\w-]+\.(?:hpp|cpp|inl|cuh|cu|py|sh))\b(?!\()")
PLACEHOLDER = re.compile(r"NAME|FILE")


def starts_paragraph(text):
    return not text or text.startswith(("  ", "size: ")) or ITEM.match(text) or LABEL.match(text) or is_table(text)


def is_table(text):
    return COLUMNS.search(text) and not LABEL.match(text) and not ITEM.match(text)


def wrapped(indent, lines):
    """Returns the lines (texts after `// `) of one paragraph, wrapped. The lines of a list item or of "Messages in:" after the first are indented."""
    head = ITEM.match(lines[0]) or LABEL.match(lines[0])
    hangs = head and (ITEM.match(lines[0]) or lines[0].startswith("Messages") or any(t.startswith(" ") for t in lines[1:]))
    return textwrap.wrap(lines[0][head.end():] + "".join(" " + t.strip() for t in lines[1:]) if head else " ".join(t.strip() for t in lines),
                         WIDTH - len(indent) - 3, initial_indent=head.group(0) if head else "",
                         subsequent_indent=" " * head.end() if hangs else "", break_long_words=False, break_on_hyphens=False)


def continues(first, text):
    """Returns whether a comment line belongs to the paragraph that begins with `first`."""
    head = ITEM.match(first) or LABEL.match(first)
    if head and text.startswith(" " * head.end()) and text[head.end():head.end() + 1].strip():
        return True
    return not starts_paragraph(text) and not ITEM.match(first)


def fixed(lines):
    """Returns the file's lines with paragraphs that are too wide wrapped."""
    out, i = [], 0
    while i < len(lines):
        m = COMMENT.match(lines[i])
        i += 1
        if not m or not m.group(3):
            out.append(lines[i - 1])
            continue
        indent, text = m.group(1), m.group(3)
        paragraph = [text]
        while i < len(lines) and (n := COMMENT.match(lines[i])) and n.group(1) == indent and continues(text, n.group(3)):
            paragraph.append(n.group(3))
            i += 1
        if any(len(indent) + 3 + len(t) > WIDTH for t in paragraph) and not is_table(text) and (not text.startswith("  ") or ITEM.match(text)):
            paragraph = wrapped(indent, paragraph)
            out += [f"{indent}// {t}" for t in paragraph]
        else:
            out += lines[i - len(paragraph):i]
    return out


def comments(body):
    """Yields (line number, column, text) of every // comment. A // in a string literal is not a comment."""
    for number, line in enumerate(body.split("\n"), 1):
        stripped = re.sub(r'"(?:[^"\\]|\\.)*"', lambda m: '"' + "_" * (len(m.group(0)) - 2) + '"', line)
        at = stripped.find("//")
        if at >= 0:
            yield number, at, line[at + 2:]


def main():
    fix = "--fix" in sys.argv[1:]
    names = tree.files(*CPP)
    known = set()
    for name in tree.files(""):
        parts = name.split("/")
        known.update("/".join(parts[i:]) for i in range(len(parts)))
    findings = []
    for name in names:
        body = tree.text(name)
        if fix:
            changed = "\n".join(fixed(body.split("\n")))
            if changed != body:
                with open(os.path.join(tree.TOP, name), "w", encoding="utf-8") as f:
                    f.write(changed)
                body = changed
        for number, line in enumerate(body.split("\n"), 1):
            if len(line) > WIDTH and COMMENT.match(line):
                findings.append(f"{name}:{number}: this comment has {len(line)} columns, the maximum is {WIDTH} (--fix wraps paragraphs)")
        for number, _, text in comments(body):
            for m in FILE.finditer(text):
                path = m.group(1)
                if path not in known and not PLACEHOLDER.search(path):
                    findings.append(f"{name}:{number}: there is no file {path}")
    for finding in findings:
        print(finding)
    print(f"{len(names)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
