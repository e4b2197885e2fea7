#!/usr/bin/python3
"""site.py [--out DIR] [--check]: makes a static site of README.md, CHANGELOG.md and docs/, for a browser without a server.

  --out DIR   the folder of the site (default: build/site); begin with index.html
  --check     writes nothing; reports links whose file or heading does not exist, and pages that the navigation lacks

Pages keep their relative paths (docs/data.md becomes docs/data.html), and anchors follow GitHub's rules, so that a link works in both places.
A link to another file of the tree leads to a page with its text. Needs python3-mistune (scripts/setup --check).
"""
import argparse
import html
import json
import os
import re
import shutil
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts", "lib"))
import tree  # noqa: E402

try:
    import mistune
except ImportError:
    sys.exit("site.py: needs python3-mistune (scripts/setup --check)")

# The navigation. A page of docs/measurements is in the last group.
GROUPS = [
    ("Start", ["README.md", "docs/commands.md", "docs/packages.md", "docs/GLOSSARY.md", "CHANGELOG.md"]),
    ("Train", ["docs/job-file.md", "docs/job-language.md", "docs/data.md", "docs/layers.md", "docs/dynamics.md", "docs/recurrent.md", "docs/predict.md", "docs/models.md", "docs/runs.md",
               "docs/precision.md", "docs/memory.md", "docs/gpu.md", "docs/determinism.md"]),
    ("Watch", ["docs/page.md", "docs/traces.md", "docs/replay.md", "docs/stragglers.md", "docs/doctor.md", "docs/ecosystem.md"]),
    ("Run a cluster", ["docs/clusters.md", "docs/cluster-file.md", "docs/security.md", "docs/failures.md", "docs/moving.md",
                       "docs/partitioning.md", "docs/promises.md", "docs/simulation.md"]),
    ("Extend", ["docs/write-a-layer.md", "docs/write-a-mode.md", "docs/python.md", "docs/own-loop.md", "docs/protocols.md", "docs/wire.md"]),
    ("Read the code", ["docs/ARCHITECTURE.md", "docs/CONTRIBUTING.md"]),
]
MEASUREMENTS = "docs/measurements/"
ASSETS = ["style.css", "site.js"]
IMAGES = (".svg", ".png")
# Words that a search never needs; the index has the other words of each section once.
COMMON = set("a an and are as at be by can for from has have if in is it its not of on or that the their they this to was with".split())


def text_of(fragment):
    return html.unescape(re.sub(r"<[^>]*>", "", fragment))


def anchor_of(title):
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


class renderer(mistune.HTMLRenderer):
    """Makes HTML, and notes headings and links. `where`: returns what a link's target is called in the site."""

    def __init__(self, where):
        super().__init__(escape=True)
        self.where = where
        self.headings = []  # (level, anchor, title)
        self.links = []
        self.seen = {}

    def heading(self, text, level):
        title = text_of(text)
        anchor = anchor_of(title)
        again = self.seen.get(anchor, 0)
        self.seen[anchor] = again + 1
        if again:
            anchor = f"{anchor}-{again}"
        self.headings.append((level, anchor, title))
        return f'<h{level} id="{anchor}">{text}<a class="here" href="#{anchor}" aria-label="Link to this heading">#</a></h{level}>\n'

    def link(self, link, text=None, title=None):
        self.links.append(link)
        outside = ' rel="noreferrer"' if is_url(link) else ""
        return f'<a href="{html.escape(self.where(link))}"{outside}>{text or html.escape(link)}</a>'

    def image(self, src, alt="", title=None):
        self.links.append(src)
        return f'<img src="{html.escape(src)}" alt="{html.escape(alt)}" loading="lazy">'

    def block_code(self, code, info=None):
        language = (info or "").split()[0] if (info or "").strip() else ""
        text = html.escape(code)
        if language in ("", "sh", "toml"):
            text = re.sub(r"^((?:\$|troupe&gt;) .*)$", r"<b>\1</b>", text, flags=re.M)
            text = re.sub(r"(^|(?<=\s))(# [^\n]*?)(</b>)?$", r"\3<i>\2</i>", text, flags=re.M)
        kind = f' class="language-{html.escape(language)}"' if language else ""
        return f'<pre tabindex="0"><code{kind}>{text}</code></pre>\n'

    def table(self, text):
        return f'<div class="table" tabindex="0"><table>\n{text}</table></div>\n'


def is_url(target):
    return re.match(r"[a-z][a-z+.-]*:", target) is not None


def resolved(name, target):
    """Returns the file of the tree to which a link of the page `name` leads, and the heading."""
    path, _, anchor = target.partition("#")
    return (os.path.normpath(os.path.join(os.path.dirname(name), urllib.parse.unquote(path))) if path else name), anchor


class page:
    def __init__(self, name, pages):
        self.name = name
        made = renderer(lambda target: self.target(target, pages))
        self.body = mistune.create_markdown(renderer=made, plugins=["table", "strikethrough"])(tree.text(name))
        self.headings, self.links = made.headings, made.links
        self.title = next((title for _, _, title in self.headings), os.path.basename(name))
        self.file = site_name(name, pages)

    def target(self, target, pages):
        if is_url(target) or target.startswith("#"):
            return target
        to, anchor = resolved(self.name, target)
        here = os.path.dirname(site_name(self.name, pages))
        return os.path.relpath(site_name(to, pages), here or ".") + ("#" + anchor if anchor else "")

    def sections(self):
        """Returns (anchor, title, text) of each heading with the text below it."""
        parts = re.split(r'<h[1-6] id="([^"]*)">(.*?)</h[1-6]>', self.body, flags=re.S)
        for anchor, title, body in zip(parts[1::3], parts[2::3], parts[3::3]):
            yield anchor, text_of(title).removesuffix("#"), " ".join(text_of(body).split())


def site_name(name, pages):
    """Returns the path in the site of a file or folder of the tree."""
    if name == "README.md":
        return "index.html"
    if name in pages:
        return name[: -len(".md")] + ".html"
    return name if name.endswith(IMAGES) else name + ".html"


def page_names():
    return [n for n in tree.files(".md") if n in ("README.md", "CHANGELOG.md") or n.startswith("docs/")]


def groups(names):
    measured = sorted(n for n in names if n.startswith(MEASUREMENTS) and n != MEASUREMENTS + "README.md")
    return GROUPS + [("Measurements", [MEASUREMENTS + "README.md", *measured])]


def lines_of_links(name, links):
    """Returns the line of each link, in the order of the page."""
    body, at, lines = tree.text(name), 0, []
    for link in links:
        found = body.find(link, at)
        found = body.find(link) if found < 0 else found
        lines.append(body.count("\n", 0, max(found, 0)) + 1)
        at = found + len(link) if found >= 0 else at
    return lines


def problems(pages):
    listed = {n for _, names in groups(pages) for n in names}
    for name in sorted(set(pages) ^ listed):
        yield f"{name}:1: is not a page" if name in listed else f"{name}:1: is in no group of docs/site.py"
    for p in pages.values():
        for line, link in zip(lines_of_links(p.name, p.links), p.links):
            if is_url(link):
                continue
            to, anchor = resolved(p.name, link)
            if not os.path.exists(os.path.join(tree.TOP, to)):
                yield f"{p.name}:{line}: the link's target does not exist: {link}"
            elif anchor and to in pages and anchor not in {a for _, a, _ in pages[to].headings}:
                yield f"{p.name}:{line}: {to} has no heading for #{anchor}"


def navigation(current, pages):
    here = os.path.dirname(current.file)
    rows = []
    for title, names in groups(pages):
        links = []
        for n in names:
            mark = ' aria-current="page"' if n == current.name else ""
            short = html.escape(pages[n].title.split(":")[0])
            links.append(f'<li><a href="{os.path.relpath(pages[n].file, here or ".")}"{mark}>{short}</a></li>')
        # The measurements are many: open only on their own pages.
        shown = " open" if title != "Measurements" or current.name.startswith(MEASUREMENTS) else ""
        rows.append(f"<details{shown}><summary>{title}</summary><ul>{''.join(links)}</ul></details>")
    return "\n".join(rows)


def contents(current):
    rows = [(level, anchor, title) for level, anchor, title in current.headings[1:] if level <= 3]
    if len(rows) > 60:
        rows = [r for r in rows if r[0] <= 2]
    if len(rows) < 2:
        return ""
    links = "".join(f'<li class="level{level}"><a href="#{anchor}">{html.escape(title)}</a></li>' for level, anchor, title in rows)
    return f'<nav class="contents" aria-label="On this page"><h2>On this page</h2><ul>{links}</ul></nav>'


LAYOUT = """<!doctype html>
<html lang="en" data-top="{top}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{top}style.css">
<script src="{top}site.js"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the text</a>
<header>
<a class="brand" href="{top}index.html">Troupe</a>
<div class="search"><input id="search" type="search" placeholder="Search  /" aria-label="Search" autocomplete="off"><ul id="found" hidden></ul></div>
<button id="theme" type="button" aria-label="Light or dark">◐</button>
<button id="menu" type="button" aria-label="Pages" aria-expanded="false">☰</button>
</header>
<div class="columns">
<nav class="pages" aria-label="Pages">
{navigation}
</nav>
<main id="main">
{body}
<footer>{source}</footer>
</main>
{contents}
</div>
</body>
</html>
"""


def write(out, name, text):
    path = os.path.join(out, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def laid_out(shown, pages, source):
    top = "../" * shown.file.count("/")
    title = shown.title if shown.name == "README.md" else shown.title + " · Troupe"
    return LAYOUT.format(top=top, title=html.escape(title), navigation=navigation(shown, pages), body=shown.body, contents=contents(shown),
                         source=html.escape(source))


class listing:
    """A page with the text of a file, or the files of a folder."""

    headings = ()

    def __init__(self, name, pages):
        self.name, self.file = name, site_name(name, pages)
        title = html.escape(name)
        self.title = name
        files = [n for n in tree.files() if n.startswith(name + "/")]
        if files:
            here = os.path.dirname(self.file)
            rows = "".join(f'<li><a href="{os.path.relpath(site_name(n, pages), here or ".")}">{html.escape(n)}</a></li>' for n in files)
            self.body, self.files = f"<h1>{title}</h1><ul>{rows}</ul>", files
        else:
            self.body, self.files = f'<h1>{title}</h1><pre tabindex="0"><code>{html.escape(tree.text(name))}</code></pre>', []


def linked_files(pages):
    """Returns the files and folders of the tree that the pages link to, without pages and images; the files of a folder, too."""
    todo = [resolved(p.name, link)[0] for p in pages.values() for link in p.links if not is_url(link)]
    found = {}
    while todo:
        name = todo.pop()
        if name not in pages and name not in found and not name.endswith(IMAGES):
            found[name] = listing(name, pages)
            todo += found[name].files
    return found.values()


def index(pages):
    rows = []
    for p in pages.values():
        for anchor, title, text in p.sections():
            words = sorted(set(re.findall(r"[\w.-]*\w", (title + " " + text).lower())) - COMMON)
            rows.append([p.file, anchor, p.title, title, text[:140], " ".join(words)])
    return "window.searchIndex = " + json.dumps(rows, ensure_ascii=False, separators=(",", ":")) + ";\n"


def make(out, pages):
    for p in pages.values():
        write(out, p.file, laid_out(p, pages, p.name))
    for f in linked_files(pages):
        write(out, f.file, laid_out(f, pages, f.name))
    for name in tree.files(*IMAGES):
        if name.startswith("docs/"):
            os.makedirs(os.path.join(out, os.path.dirname(name)), exist_ok=True)
            shutil.copy(os.path.join(tree.TOP, name), os.path.join(out, name))
    for name in ASSETS:
        shutil.copy(os.path.join(tree.TOP, "docs/site", name), os.path.join(out, name))
    write(out, "search-index.js", index(pages))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", default=os.path.join(tree.TOP, "build", "site"))
    options.add_argument("--check", action="store_true")
    given = options.parse_args()
    names = page_names()
    pages = {n: page(n, names) for n in names}
    found = list(problems(pages))
    if found:
        print("\n".join(found[:60]))
    links = sum(len(p.links) for p in pages.values())
    print(f"{len(pages)} pages, {links} links, {len(found)} problems")
    if not found and not given.check:
        make(given.out, pages)
        print(os.path.join(given.out, "index.html"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
