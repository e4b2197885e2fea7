"""The fenced blocks of the pages: commands, lines of the REPL, and TOML. For the tests of this folder."""
import glob
import os
import re
import shlex
from dataclasses import dataclass, field

PROGRAM = re.compile(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?troupe(?:d)? ")
REPL = "troupe> "
ENDS = {"|", ">", "<", "&&", ";", "2>"}


@dataclass
class block:
    page: str
    line: int  # of its first line
    info: str  # the words behind the fence
    lines: list

    def where(self, at):
        return f"{self.page}:{self.line + at}"


@dataclass
class command:
    where: str
    text: str
    words: list  # without environment, comment, pipes and redirections; words[0] is troupe or trouped
    shown: list = field(default_factory=list)  # the lines of output that the page shows

    @property
    def page(self):
        return self.where.split(":")[0]


def pages(top):
    """Returns the pages whose blocks are tested, relative to the top of the tree."""
    return ["README.md"] + sorted(os.path.relpath(f, top) for f in glob.glob(os.path.join(top, "docs", "*.md")))


def blocks(top, page):
    found, fence = [], None
    with open(os.path.join(top, page), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            mark = re.match(r"\s*```(.*)$", line)
            if mark and fence is None:
                fence = block(page, number + 1, mark.group(1).strip(), [])
            elif mark:
                found.append(fence)
                fence = None
            elif fence is not None:
                fence.lines.append(line)
    return found


def command_of(where, line):
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        del words[0]
    end = next((i for i, w in enumerate(words) if w in ENDS), len(words))
    words = words[:end]
    words[0] = os.path.basename(words[0])
    return command(where, line, words)


def commands(b):
    """Returns the commands of a block. If one line has the prompt "$ ", lines without it are output."""
    if b.info not in ("", "sh", "console"):
        return []
    prompted = any(line.startswith("$ ") for line in b.lines)
    found = []
    for at, line in enumerate(b.lines):
        if prompted and not line.startswith("$ "):
            if found:
                found[-1].shown.append(line)
            continue
        line = line.removeprefix("$ ")
        if PROGRAM.match(line) and not line.startswith(REPL):
            found.append(command_of(b.where(at), line))
    return found


def repl_lines(b):
    """Returns (where, line) of the lines behind the REPL's prompt."""
    return [(b.where(at), line.removeprefix(REPL)) for at, line in enumerate(b.lines) if line.startswith(REPL)]


def inline_commands(top, page):
    """Returns (where, text) of the `troupe ...` in the text of a page, outside fenced blocks."""
    found, fenced = [], False
    with open(os.path.join(top, page), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced:
                found += [(f"{page}:{number}", m) for m in re.findall(r"`(trouped? [^`]+)`", line)]
    return found
