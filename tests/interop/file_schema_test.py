"""The schemas of job and cluster files against `troupe check`, with an independent validator (Debian's python3-jsonschema).

    file_schema_test.py TROUPE SOURCE_FOLDER

Every file of configs/jobs and configs/clusters is valid. Then keys are added and values are replaced at random: what `troupe check` accepts is valid,
and what it refuses for an unknown key or the kind of a value is not.
"""
import copy
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import tomllib

import jsonschema

ROUNDS = 14  # mutations per file
REFUSED_FOR_FORM = re.compile(
    r"unknown key|unknown option|must be (an? |true or false|between|at least|finite|one of)|unknown (layer type|source|sampler|mode|schedule"
    r"|update rule|reducer|partition|precision|fuse|weights|wire|phase)|are written as|is missing|contains an? |which no option accepts"
)
VALUES = [7, -3, 0.5, "word", True, [], [1, 2], ["a"], [1.5], {}, {"zzqq": 1}, "{width}", "10min", 10**9]


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    return repr(value)


def tables_of(value):
    """All tables in the value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for v in value:
            yield from tables_of(v)


def mutated(document, rng):
    document = copy.deepcopy(document)
    table = rng.choice([t for t in tables_of(document)])
    if rng.random() < 0.3 or not table:
        table[rng.choice(["zzqq", "lr", "name", "kernel", "repeat", "width"])] = rng.choice(VALUES)
    else:
        table[rng.choice(list(table))] = rng.choice(VALUES)
    return document


class checker:
    def __init__(self, troupe, folder):
        self.troupe, self.path = troupe, os.path.join(folder, "mutated.toml")
        self.accepted = self.refused = self.others = 0
        self.problems = []

    def schema(self, what):
        out = subprocess.run([self.troupe, "reference", "schema", what], capture_output=True, text=True, check=True).stdout
        schema = json.loads(out)
        jsonschema.Draft7Validator.check_schema(schema)
        return jsonschema.Draft7Validator(schema)

    def compare(self, validator, document, what):
        with open(self.path, "w", encoding="utf-8") as f:
            f.writelines(f"{json.dumps(k)} = {toml(v)}\n" for k, v in document.items())
        words = [self.troupe, "check"] + (["--resolved"] if what == "job" else []) + [self.path]
        run = subprocess.run(words, capture_output=True, text=True)
        errors = list(validator.iter_errors(document))
        if run.returncode == 0:
            self.accepted += 1
            if errors:
                self.problems.append(f"{what}: accepted by troupe, refused by the schema: {errors[0].message[:300]}")
        elif REFUSED_FOR_FORM.search(run.stderr):
            self.refused += 1
            if not errors and "(in block" not in run.stderr:  # the schema does not compute what a parameter becomes
                self.problems.append(f"{what}: accepted by the schema, refused by troupe: {run.stderr[:300]}")
        else:
            self.others += 1


def main():
    troupe, source = sys.argv[1:]
    rng = random.Random(11)
    files = 0
    with tempfile.TemporaryDirectory() as folder:
        c = checker(troupe, folder)
        for what, pattern in (("job", "configs/jobs/*.toml"), ("cluster", "configs/clusters/*.toml")):
            validator = c.schema(what)
            for name in sorted(glob.glob(os.path.join(source, pattern))):
                files += 1
                with open(name, "rb") as f:
                    document = tomllib.load(f)
                for error in validator.iter_errors(document):
                    c.problems.append(f"{name}: {error.json_path}: {error.message[:300]}")
                for _ in range(ROUNDS):
                    c.compare(validator, mutated(document, rng), what)
    for p in c.problems:
        print(p)
    print(f"{files} files; of the mutated ones {c.accepted} are accepted, {c.refused} refused for their form, {c.others} for their meaning")
    assert files > 30 and c.accepted > 20 and c.refused > 150, "too few cases"
    return 1 if c.problems else 0


if __name__ == "__main__":
    sys.exit(main())
