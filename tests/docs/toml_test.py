#!/usr/bin/env python3
"""Validates the TOML in README.md and docs/*.md with `troupe check`. usage: toml_test.py BUILD/bin

The words behind a fence say what a block is (docs/CONTRIBUTING.md):
  toml                      a whole file
  toml job=NAME             a part of configs/jobs/NAME.toml (job alone: of lenet_synthetic.toml)
  toml cluster=NAME         a part of configs/clusters/NAME.toml (cluster alone: of local3.toml)
  toml job:TABLE            keys of that table of a job file; also with =NAME, and for cluster files
  toml job=NAME@CLUSTER     a part of a job of configs/clusters/CLUSTER.toml, whose nodes it names
  toml syntax               needs a plugin, a GPU or files: only its syntax is tested
A part is put into its file: a table with `source`, `rule` or `mode` replaces the file's table, other keys replace single keys, and a [[layer]] or
[[node]] those of the entry of its name, or of the first one if it has no name.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib

import blocks
import reader

MARK = re.compile(r"toml(?: (job|cluster)(?:=(\w+))?(?::([\w.]+))?(?:@(\w+))?| (syntax))?$")
DEFAULTS = {"job": "lenet_synthetic", "cluster": "local3"}
WHOLE = ("source", "rule", "mode")  # a table with one of these has keys that depend on its value


def inline(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(inline(v) for v in value) + "]"
    return json.dumps(value)


def as_toml(tables):
    """Returns the text of a file: its keys, its tables, and its lists of tables; what is in these, inline."""
    lists = {k: v for k, v in tables.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
    plain = {k: v for k, v in tables.items() if not isinstance(v, dict) and k not in lists}
    text = "".join(f"{k} = {inline(v)}\n" for k, v in plain.items())
    entries = [(f"[{k}]", v) for k, v in tables.items() if isinstance(v, dict)] + [(f"[[{k}]]", v) for k, all_ in lists.items() for v in all_]
    return text + "".join(head + "\n" + "".join(f"{k} = {inline(v)}\n" for k, v in table.items()) for head, table in entries)


def merge(base, part):
    for key, value in part.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict) and not any(k in value for k in WHOLE):
            merge(base[key], value)
        elif isinstance(value, list) and value and isinstance(value[0], dict) and key in base:
            for entry in value:
                same = [e for e in base[key] if e.get("name") == entry.get("name", base[key][0].get("name"))]
                if same:
                    merge(same[0], entry)
                else:
                    base[key].append(entry)
        else:
            base[key] = value


def base_file(kind, name):
    if name == "iris":
        return tomllib.loads(reader.IRIS)
    with open(os.path.join(reader.TOP, "configs", kind + "s", (name or DEFAULTS[kind]) + ".toml"), "rb") as f:
        return tomllib.load(f)


def put_in_file(kind, name, table, part):
    """Returns the whole file that has `part`."""
    whole = base_file(kind, name)
    for key in reversed(table.split(".")) if table else []:
        part = {key: [part] if isinstance(whole.get(key), list) else part}
    merge(whole, part)
    return whole


def test_block(b, program, folder):
    """Returns (kind of the block, problem or None)."""
    mark = MARK.match(b.info)
    if not mark:
        return "unknown", f"`{b.info}` is not a mark of tests/docs/toml_test.py"
    kind, name, table, cluster, syntax = mark.groups()
    text = "\n".join(b.lines) + "\n"
    try:
        part = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        return "unknown", str(e)
    if syntax:
        return "only parsed", None
    base = os.path.join("configs", (kind or "job") + "s", (name or DEFAULTS.get(kind, "")) + ".toml")
    if kind and name != "iris" and not os.path.exists(os.path.join(folder, base)):
        return "unknown", f"there is no {base}"
    reader.write(os.path.join(folder, "block.toml"), as_toml(put_in_file(kind, name, table, part)) if kind else text)
    words = ["plan", "block.toml", "--cluster", f"configs/clusters/{cluster}.toml"] if cluster else ["check", "block.toml"]
    run = subprocess.run([program, *words], cwd=folder, text=True, capture_output=True, timeout=60)
    return ("parts" if kind else "whole files"), run.stderr.strip() or run.stdout.strip() if run.returncode else None


def main():
    program = os.path.join(sys.argv[1], "troupe")
    count, problems = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        reader.make_files(folder)
        for page in blocks.pages(reader.TOP):
            for b in blocks.blocks(reader.TOP, page):
                if not b.info.startswith("toml"):
                    continue
                kind, problem = test_block(b, program, folder)
                count[kind] += 1
                if problem:
                    problems.append(f"{b.where(0)}: {problem}")
    print("\n".join(problems))
    print("TOML: " + ", ".join(f"{n} {kind}" for kind, n in count.items()))
    return 1 if problems or not count["parts"] else 0


if __name__ == "__main__":
    sys.exit(main())
