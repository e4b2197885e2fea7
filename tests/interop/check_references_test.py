#!/usr/bin/env python3
"""Tests what scripts/lib/check_references.py accepts and reports. usage: check_references_test.py scripts/lib"""
import os
import shutil
import subprocess
import sys
import tempfile

SOUND = {
    "docs/a.md": "# A page\n\n## Its part, twice\n\nSee [b](b.md#there) and [below](#its-part-twice); `bench/x.py --out FILE.md`.\n",
    "docs/b.md": "# There\n```\n[not a link](nowhere.md)\n```\n".replace("nowhere.md", "nowhere"),
    "docs/promises.md": "# P\n\n| # | promise | state | figure |\n|---|---|---|---|\n| 1 | it holds | kept | 5 s |\n| 2 | later | not yet | 1 s |\n",
    "runtime/role.hpp": "// docs/a.md says why.\n",
    "tests/one_test.cpp": "TEST(suite, holds) {}\n",
    "tests/promises.txt": "# tests\n1 suite.holds  # the first\n",
}


def said(changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**SOUND, **changes}.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        os.makedirs(os.path.join(folder, "scripts/lib"))
        for name in ("tree.py", "promises.py", "check_references.py"):
            shutil.copy(os.path.join(sys.argv[1], name), os.path.join(folder, "scripts/lib"))
        subprocess.run(["git", "init", "-q", folder], check=True)
        r = subprocess.run([sys.executable, "-B", os.path.join(folder, "scripts/lib/check_references.py")], capture_output=True, text=True)
        assert (r.returncode == 0) == ("\n" not in r.stdout.strip()), r
        return r.stdout.strip() + r.stderr


def expect(changes, *wanted):
    made = said(changes)
    for w in wanted:
        assert w in made, f"{made!r} lacks {w!r}"


expect({}, "9 files, 0 broken references")
elsewhere = "PROTO" + "COLS"
expect({"runtime/role.hpp": f"// Fixed\n// brackets ({elsewhere} 7).\n"}, f"runtime/role.hpp:2: names a document that is not in the tree: {elsewhere}")
expect({"runtime/role.hpp": "// see docs/c" + ".md\n"}, "runtime/role.hpp:1: names a page that is not in the tree: docs/c" + ".md")
expect({"docs/b.md": "# There\n`runtime/role` and `runtime/rule.hpp`\n"}, "docs/b.md:2: there is no runtime/rule.hpp")
expect({"tests/one_test.cpp": "TEST(suite, other) {}\n"}, "tests/promises.txt:2: there is no test suite.holds")
expect({"tests/promises.txt": "1 suite.holds suite.other\n"}, "tests/promises.txt:1: there is no test suite.other")
expect({"tests/promises.txt": "1 suite.holds\n3 suite.holds\n"}, "tests/promises.txt:2: docs/promises.md has no promise 3")
expect({"tests/promises.txt": "1\none suite.holds\n"}, "tests/promises.txt:1: is not of the form", "tests/promises.txt:2: is not of the form")
expect({"tests/promises.txt": "# none\n"}, "docs/promises.md: promise 1 is kept, but tests/promises.txt has no test for it")
table = "| # | promise | state | figure |\n|---|---|---|---|\n"
expect({"docs/promises.md": table + "| 1 | it holds | mostly | 5 s |\n"}, "docs/promises.md: promise 1 has the state 'mostly', must be one of")
expect({"docs/promises.md": "# P\n"}, "docs/promises.md: has no table of promises")
