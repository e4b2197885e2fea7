#!/usr/bin/env python3
"""test_only.py: lists functions of the headers of ops, runtime and actors that only tests call.

By names: a function is listed if its name occurs in the sources of ops, runtime, actors, apps, bench and examples only where
it is declared and defined, and in tests at least once. Overloads and members of one name count together, so the list is a
lower bound. Plugins' entry points and what EXPLAINED names are left out.
"""
import collections
import re
import sys

import tree

PRODUCTION = ("ops/", "runtime/", "actors/", "apps/", "bench/", "examples/")
CODE = (".hpp", ".cpp", ".inl", ".cuh", ".cu")
DECLARED = re.compile(r"^[ \t]*(?:template <[^>]*>\s*)?(?:\[\[nodiscard\]\] )?(?:virtual |static |inline |constexpr |friend |explicit )*"
                      r"(?!return\b|else\b)(?:[A-Za-z][\w:<>,&*\[\] ]*?[ &*>])(\w+)\(", re.M)
WORD = re.compile(r"[A-Za-z_]\w+")
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "catch", "operator", "assert", "main", "TEST", "defined"}

# Name -> why it stays although only tests call it.
EXPLAINED = {
    "check_layer_type": "public: authors of layers test theirs with it (docs/write-a-layer.md)",
    "read_job_file": "public: programs that embed Troupe read a job file with it",
    "strangers": "observes a bound on memory",
    "open_streams": "observes a bound on memory",
    "unacknowledged": "observes a bound on memory",
    "max_versions": "observes a bound on memory",
}


def words_of(names):
    count = collections.Counter()
    for name in names:
        count.update(WORD.findall(re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', "", tree.text(name))))
    return count


def main():
    names = tree.files(*CODE)
    production = [n for n in names if n.startswith(PRODUCTION)]
    used = words_of(production)
    tested = words_of(n for n in names if n.startswith("tests/"))
    listed = 0
    for header in (n for n in production if n.endswith(".hpp") and n.startswith(("ops/", "runtime/", "actors/"))):
        text = re.sub(r"//[^\n]*", "", tree.text(header))
        for name in sorted(set(DECLARED.findall(text)) - KEYWORDS):
            if name in EXPLAINED or tested[name] == 0:
                continue
            declared = DECLARED.findall(text).count(name)
            defined = sum(len(re.findall(rf"^[A-Za-z](?![^\n]*\breturn {name})[^\n=;]*[ &*:]{name}\(", tree.text(n), re.M)) for n in production
                          if n.endswith((".cpp", ".inl")) and name in tree.text(n)) if used[name] <= 4 else 0
            if used[name] <= declared + defined:
                print(f"{header}: {name} ({tested[name]} times in tests)")
                listed += 1
    print(f"{listed} functions that only tests call")
    return 0


if __name__ == "__main__":
    sys.exit(main())
