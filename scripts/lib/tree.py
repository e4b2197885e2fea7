"""Functions for the checks: the tree's files, their code and includes, and a cache of files that passed a check."""
import functools
import hashlib
import json
import os
import re
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.path.join(TOP, "build", "check")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
QUOTED = re.compile(r'R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)


def files(*endings):
    """Returns the tracked and untracked files that git does not ignore and whose names end in one of `endings`; all if none is given."""
    listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=TOP, check=True, capture_output=True)
    names = sorted(set(listing.stdout.decode().split("\0")) - {""})
    return [n for n in names if (not endings or n.endswith(endings)) and os.path.isfile(os.path.join(TOP, n))]


def headers():
    return files(".hpp", ".cuh")


def sources():
    return files(".hpp", ".cpp", ".inl", ".cu", ".cuh")


def compiled(build):
    """Returns the tree's sources in the build's compile commands; empty if it is not configured."""
    try:
        with open(os.path.join(TOP, build, "compile_commands.json")) as f:
            names = {os.path.relpath(c["file"], TOP) for c in json.load(f)}
    except OSError:
        return set()
    return {n for n in names if n.endswith(".cpp") and not n.startswith(("..", "build/"))}


@functools.lru_cache(maxsize=None)
def text(name):
    try:
        with open(os.path.join(TOP, name), encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


@functools.lru_cache(maxsize=None)
def code(name):
    """Returns the file's text with comments blanked; lines stay."""
    blank = lambda m: m.group(0) if m.group(0)[0] in "\"'" else re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", blank, text(name), flags=re.S)


def bare(name):
    """Returns the file's text with comments, strings and directives blanked; lines and columns stay."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    return DIRECTIVE.sub(blank, QUOTED.sub(blank, text(name)))


def includes(name):
    """Returns (line, '<' or '"', path) for each include of a file."""
    source = code(name)
    return [(source.count("\n", 0, m.start()) + 1, m.group(1), m.group(2)) for m in INCLUDE.finditer(source)]


def resolve(name, what):
    """Returns the file of the tree that `#include "what"` in `name` refers to, or None."""
    for candidate in (what, os.path.normpath(os.path.join(os.path.dirname(name), what))):
        if os.path.isfile(os.path.join(TOP, candidate)):
            return candidate
    return None


@functools.lru_cache(maxsize=None)
def closure(name):
    """Returns the file and all files of the tree that it includes, directly or not."""
    seen, todo = set(), [name]
    while todo:
        n = todo.pop()
        if n in seen:
            continue
        seen.add(n)
        todo += [r for _, kind, what in includes(n) if kind == '"' and (r := resolve(n, what))]
    return frozenset(seen)


def changed(base=None):
    """Returns the files that differ from the base (origin/main if HEAD is ahead of it, else HEAD~1), or None if there is no base."""

    def git(*words):
        run = subprocess.run(["git", *words], cwd=TOP, text=True, capture_output=True)
        return run.stdout.split("\n") if run.returncode == 0 else None

    if base is None:
        main, head = git("merge-base", "HEAD", "origin/main"), git("rev-parse", "HEAD")
        base = main[0] if main and head and main[0] != head[0] else "HEAD~1"
    differ = git("diff", "--name-only", base)
    return None if differ is None else set(differ) | set(git("ls-files", "-o", "--exclude-standard") or [])


def fingerprint(name, *more):
    """Returns a hash that changes when the file, a file of the tree that it includes, or `more` changes."""
    h = hashlib.sha256(repr(more).encode())
    for n in sorted(closure(name)):
        h.update(n.encode() + b"\0" + text(n).encode() + b"\0")
    return h.hexdigest()


class found_good:
    """Fingerprints of files that passed a check, stored in build/check."""

    def __init__(self, check):
        self.path = os.path.join(CACHE, check + ".json")
        try:
            with open(self.path) as f:
                self.known = json.load(f)
        except (OSError, ValueError):
            self.known = {}

    def __contains__(self, pair):
        return self.known.get(pair[0]) == pair[1]

    def add(self, name, mark):
        self.known[name] = mark

    def save(self):
        os.makedirs(CACHE, exist_ok=True)
        with open(self.path + ".new", "w") as f:
            json.dump(self.known, f, indent=0, sort_keys=True)
        os.replace(self.path + ".new", self.path)
