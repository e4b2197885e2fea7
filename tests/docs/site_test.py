#!/usr/bin/env python3
"""Tests docs/site.py: what its check reports, and the site that it makes. usage: site_test.py SOURCES"""
import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = sys.argv[1]
SOUND = {
    "README.md": "# Top\n\n[a](docs/a.md#its-part-twice)\n",
    "docs/a.md": "# A page\n\n## Its part, twice\n\nSee [b](b.md#there-1), [code](../run.py) and [below](#its-part-twice).\n",
    "docs/b.md": "# There\n```\n[not a link](nowhere)\n```\n## There\n\n`code_name`: 5 & 6\n",
    "run.py": "a < b\n",
}
PAGES = [("Start", ["README.md", "docs/a.md", "docs/b.md"])]


def make_tree(folder, changes):
    for name, text in {**SOUND, **changes}.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    os.makedirs(os.path.join(folder, "scripts/lib"))
    shutil.copy(os.path.join(TOP, "scripts/lib/tree.py"), os.path.join(folder, "scripts/lib"))
    shutil.copytree(os.path.join(TOP, "docs/site"), os.path.join(folder, "docs/site"))
    with open(os.path.join(TOP, "docs/site.py"), encoding="utf-8") as f:
        program = f.read()
    program = re.sub(r"^GROUPS = \[\n.*?^\]", f"GROUPS = {PAGES!r}", program, flags=re.S | re.M)
    program = program.replace('[MEASUREMENTS + "README.md", *measured]', "measured")
    with open(os.path.join(folder, "docs/site.py"), "w", encoding="utf-8") as f:
        f.write(program)
    subprocess.run(["git", "init", "-q", folder], check=True)


def said(changes):
    with tempfile.TemporaryDirectory() as folder:
        make_tree(folder, changes)
        r = subprocess.run(["/usr/bin/python3", "-B", os.path.join(folder, "docs/site.py"), "--check"], capture_output=True, text=True)
        assert (r.returncode == 0) == r.stdout.endswith(" 0 problems\n"), r
        return r.stdout + r.stderr


def expect(changes, *wanted):
    made = said(changes)
    for w in wanted:
        assert w in made, f"{made!r} lacks {w!r}"


def test_check():
    expect({}, "3 pages, 4 links, 0 problems")
    expect({"docs/b.md": "# B\n"}, "docs/a.md:5: docs/b.md has no heading for #there-1")
    expect({"docs/b.md": "# There\n## There\n[x](../none.hpp)\n"}, "docs/b.md:3: the link's target does not exist: ../none.hpp")
    expect({"docs/b.md": "# There\n## There\n![x](none.png)\n"}, "docs/b.md:3: the link's target does not exist: none.png")
    expect({"docs/a.md": "# A page\n## Its part, twice\n[b](b.md#none) [b](b.md#there)\n\n[b](b.md#no)\n"},
           "docs/a.md:3: docs/b.md has no heading for #none", "docs/a.md:5: docs/b.md has no heading for #no\n")
    expect({"docs/c.md": "# C\n"}, "docs/c.md:1: is in no group of docs/site.py")


class reader(html.parser.HTMLParser):
    """Collects what a page refers to, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.references, self.loaded, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            assert attrs["id"] not in self.anchors, f"two elements have the id {attrs['id']}"
            self.anchors.add(attrs["id"])
        if tag == "a":
            self.references.append(attrs["href"])
        self.loaded += [attrs[k] for k in ("src",) if k in attrs] + ([attrs["href"]] if tag == "link" else [])


def test_site():
    """Every link of the real site leads to a file and an anchor, and no page loads anything from another host."""
    with tempfile.TemporaryDirectory() as out:
        r = subprocess.run(["/usr/bin/python3", "-B", os.path.join(TOP, "docs/site.py"), "--out", out], capture_output=True, text=True)
        assert r.returncode == 0, r.stdout + r.stderr
        read = {}
        for folder, _, names in os.walk(out):
            for name in names:
                if name.endswith(".html"):
                    with open(os.path.join(folder, name), encoding="utf-8") as f:
                        read[os.path.join(folder, name)] = reader(f.read())
        assert len(read) > 50, len(read)
        for path, page in read.items():
            for target in page.references + page.loaded:
                if target == "data:," or (re.match("[a-z]+:", target) and target in page.references):
                    continue
                file, _, anchor = target.partition("#")
                to = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
                assert os.path.isfile(to), f"{path}: {target}"
                assert not anchor or to not in read or anchor in read[to].anchors, f"{path}: {target}"
        with open(os.path.join(out, "search-index.js"), encoding="utf-8") as f:
            index = f.read()
        assert len(index) < 2_000_000, len(index)
        assert "sub_solvers" in index and "docs/job-file.html" in index


test_check()
test_site()
