#!/usr/bin/env python3
"""Parses and runs the commands in README.md and docs/*.md. usage: commands_test.py BUILD/bin

Every command in a fenced block is parsed by the real program, and its input files must exist: in the tree, made by an earlier line of the page, or
in reader.py, which makes the files that pages take for granted. Commands that are cheap, or become cheap with the words in RUN, also run, each page in
a folder of its own. ONLY_PARSED has the others. Lines of the REPL are parsed by `troupe repl --check`, commands in the text by --parse-only.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

import blocks
import reader

INSTALLED = "/usr/share/troupe/"  # where packages have the files of the tree
STEPS = ["--set", "train.finish.steps=2"]
# Commands that run, with words that make them cheap. Later words override earlier ones.
RUN = {
    **{name: [] for name in ("new", "check", "fmt", "plan", "layers", "modes", "reference", "runs", "plot", "sql", "init", "data", "pack", "init-cluster", "certs",
                             "device_query", "test", "predict", "sample", "import", "export")},
    "train": STEPS,
    "sim": [],
}
# (page, beginning of the command): why it is only parsed.
ONLY_PARSED = {
    ("", "troupe resume"): "there is no unfinished run",
    ("", "troupe attach"): "needs daemons",
    ("", "trouped"): "runs with --check",
    ("", "troupe repl"): "its commands are parsed",
    ("docs/clusters.md", "troupe train"): "needs daemons",
    ("docs/ecosystem.md", "troupe train"): "opens a fixed port",
    ("docs/page.md", "troupe train"): "serves a page",
    ("", "troupe diagnose"): "needs a run in progress",
    ("", "troupe doctor"): "its result depends on the machine",
    ("", "troupe critical"): "needs a trace of more steps",
    ("", "troupe serve"): "serves until it is stopped",
    ("", "troupe replay"): "needs a recorded run of more steps",
    ("docs/traces.md", "troupe train configs/jobs/lenet_fashion.toml --cluster"): "needs daemons",
    ("docs/gpu.md", "TROUPE_GPU_LIBRARY"): "needs the library of the virtual GPU",
    ("docs/write-a-layer.md", "troupe check-layer"): "needs a plugin; interop.new_layer runs it",
    ("docs/write-a-mode.md", "troupe sim"): "needs a plugin; the test of the example runs it",
    ("docs/simulation.md", "troupe sim --replay"): "needs the folder of a failed job",
    ("docs/runs.md", "troupe runs rm"): "asks the user",
    ("docs/packages.md", "troupe"): "needs the packages; tests/packages/bare_debian runs it",
}
# (page, beginning): words that replace those of RUN, because the command as it is takes seconds.
CHEAPER = {
    ("docs/simulation.md", "troupe sim configs/jobs/googlenet.toml"): ["--steps", "1", "--nodes", "32"],
    ("docs/simulation.md", "troupe sim configs/sim/firecaffe"): ["--steps", "1"],
    ("docs/traces.md", "troupe sim"): ["--steps", "1"],
}
# (page, its command by number): the file that the page says has a mistake, and its text. The exit code is 2.
FAILS = {("docs/data.md", 2): ("iris.csv", reader.iris_rows("word"))}
# Commands that make what a page takes for granted: runs 6 and 7, and weights.
def runs_6_and_7(job):
    return ["mkdir -p runs/5-older", *2 * [f"troupe train configs/jobs/{job}.toml --set train.finish.steps=2"], "rm -r runs/5-older"]


BEFORE = {
    "docs/runs.md": runs_6_and_7("lenet_synthetic"),
    "docs/ecosystem.md": runs_6_and_7("lenet_synthetic"),
    "docs/predict.md": [*runs_6_and_7("lenet_fashion"), "cp iris.toml job.toml", "cp iris.csv table.csv", "troupe init job.toml --out net.safetensors",
                        "troupe init configs/jobs/lenet_fashion.toml --out lenet.safetensors"],
    "docs/models.md": ["troupe init configs/jobs/lenet_fashion.toml --out lenet.safetensors", "cp lenet.safetensors torch.safetensors",
                       "cp lenet.names names.txt"],
    "docs/recurrent.md": ["troupe init configs/jobs/char_rnn_lstm.toml --set data.path=input.txt --out net.safetensors"],
}
# Commands whose output does not depend on the machine: it has every line that the page shows, except those with "...".
SAME_EVERYWHERE = {"layers", "modes", "check", "pack", "plan"}
OUTPUTS = {"--out", "--trace", "--checkpoint", "--post-mortem"}
FILE = re.compile(r"[\w./-]+\.(?:toml|safetensors|csv|png|txt|so|pack)$")
PLACEHOLDERS = {"NUMBER": "1", "PORT": "9101", "N": "2", "K": "2", "S": "1", "STEP": "3", "DIR": "folder", "PROGRAM": "troupe"}


def with_options(words, more):
    """Returns `words` with the options `more` in place of those with the same name; --set may be repeated."""
    for option in more[::2]:
        if option != "--set" and option in words:
            at = words.index(option)
            words = words[:at] + words[at + 2 :]
    return [*words, *more]


class tester:
    def __init__(self, programs):
        self.programs = programs
        self.count = collections.Counter()
        self.why = collections.Counter()
        self.problems = []

    def call(self, words, folder, text=None):
        environment = {**os.environ, "TROUPE_RUNS": "runs", "NO_COLOR": "1"}
        return subprocess.run([os.path.join(self.programs, words[0]), *words[1:]], cwd=folder, env=environment, input=text, text=True,
                              capture_output=True, timeout=120)

    def expect(self, where, text, run, code=0):
        if run.returncode != code:
            said = (run.stderr or run.stdout).strip().split("\n")
            self.problems.append(f"{where}: {text}: exit code {run.returncode}: {said[-1]}")
        return run.returncode == code

    def parse(self, c, folder):
        if c.words[0] == "trouped":  # its own validation, with the certificates that an earlier command of the page, or this, makes
            self.call(["troupe", "init-cluster", "--cluster", c.words[c.words.index("--cluster") + 1]], folder)
            return self.expect(c.where, c.text, self.call([*c.words, "--check"], folder))
        if c.words[1] == "repl":
            return self.expect(c.where, c.text, self.call(["troupe", "repl", "--check", *c.words[2:]], folder, ""))
        return self.expect(c.where, c.text, self.call(["troupe", "--parse-only", *c.words[1:]], folder))

    def check_files(self, c, folder, made):
        for before, word in zip(c.words, c.words[1:]):
            if FILE.match(word) and before not in OUTPUTS and word not in made and not os.path.exists(os.path.join(folder, word.removeprefix(INSTALLED))):
                self.problems.append(f"{c.where}: {word}: no such file in the tree, of an earlier line or of the reader")
            if before in OUTPUTS:
                made.add(word)

    def test_command(self, c, folder, made, mistake):
        self.check_files(c, folder, made)
        if not self.parse(c, folder):
            return
        key = lambda table: next((k for k in table if k[0] in ("", c.page) and c.text.startswith(k[1])), None)
        reason = ONLY_PARSED.get(key(ONLY_PARSED))
        if reason:
            self.count["parsed"] += 1
            self.why[reason] += 1
            return
        if c.words[1] not in RUN:
            self.problems.append(f"{c.where}: {c.text}: RUN or ONLY_PARSED of commands_test.py must have this command")
            return
        if mistake:
            sound = os.path.join(folder, mistake[0])
            os.rename(sound, sound + ".sound")
            reader.write(sound, mistake[1])
        run = self.call(with_options(c.words, CHEAPER.get(key(CHEAPER), RUN[c.words[1]])), folder)
        if mistake:
            os.rename(sound + ".sound", sound)
        if self.expect(c.where, c.text, run, 2 if mistake else 0):
            self.count["run"] += 1
        if c.words[1] in SAME_EVERYWHERE:
            self.compare(c, run.stdout + run.stderr)

    def compare(self, c, output):
        bare = lambda line: " ".join(re.sub(r"  # .*$", "", line).split())  # a page may have a comment, and narrower columns
        printed = {bare(line) for line in output.split("\n")}
        for line in c.shown:
            if "..." not in line and bare(line) not in printed:
                self.problems.append(f"{c.where}: {c.text}: does not print {line!r}")
            self.count["lines of output"] += "..." not in line

    def prepare(self, page, folder):
        reader.make_files(folder)
        for line in BEFORE.get(page, []):
            words = line.split()
            if words[0] == "troupe":
                self.expect(page, line, self.call(words, folder))
            else:
                subprocess.run(words, cwd=folder, check=True)

    def test_page(self, page):
        with tempfile.TemporaryDirectory() as folder:
            self.prepare(page, folder)
            made, number = set(), 0
            for b in blocks.blocks(reader.TOP, page):
                for c in blocks.commands(b):
                    number += 1
                    self.test_command(c, folder, made, FAILS.get((page, number)))
                for where, line in blocks.repl_lines(b):
                    if self.expect(where, line, self.call(["troupe", "repl", "--check"], folder, line + "\n")):
                        self.count["REPL lines"] += 1
            self.test_text(page, folder)

    def test_text(self, page, folder):
        for where, text in blocks.inline_commands(reader.TOP, page):
            if re.search(r"[\[\]{}|]|\.\.\.|COMMAND|^trouped|--cluster$", text):
                self.count["general forms in the text"] += 1
                continue
            words = [PLACEHOLDERS.get(w, w) for w in blocks.command_of(where, text).words]
            words = ["troupe", "repl", "--check", *words[2:]] if words[1] == "repl" else ["troupe", "--parse-only", *words[1:]]
            run = self.call(words, folder, "")
            incomplete = "is required" in run.stderr or "requires" in run.stderr  # "`troupe train --cluster FILE` reads it"
            if incomplete or self.expect(where, text, run):
                self.count["in the text"] += 1


def main():
    t = tester(sys.argv[1])
    for page in blocks.pages(reader.TOP):
        t.test_page(page)
    print("\n".join(t.problems))
    print(", ".join(f"{n} {what}" for what, n in t.count.items()))
    print("only parsed: " + ", ".join(f"{n} {why}" for why, n in t.why.items()))
    return 1 if t.problems or t.count["run"] < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
