"""The JSON of events against docs/events.schema.json, with an independent validator (Debian's python3-jsonschema).

    event_schema_test.py TROUPE SCHEMA

Trains a small job, and checks every line of `troupe train --json`, of the run folder's events.jsonl, and of `watch` in a REPL.
"""
import json
import os
import subprocess
import sys
import tempfile

import jsonschema

JOB = """
[job]
name = "tiny"
seed = 3
[data]
source = "synthetic"
examples = 256
test_examples = 64
shape = [1, 8, 8]
classes = 4
batch = 16
[train]
sync = { mode = "ssp", staleness = 1 }
dynamics = { rule = "sgd", lr = 0.05 }
finish = { steps = 60 }
[eval]
every = 20
[checkpoint]
every = 30
[topology]
workers_per_group = 2
[pipeline]
packets = 2
[[layer]]
name = "ip"
type = "linear"
inputs = ["data"]
outputs = 4
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip", "label"]
[[layer]]
name = "accuracy"
type = "accuracy"
inputs = ["ip", "label"]
"""


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line]


def main():
    troupe, schema_file = (os.path.abspath(p) for p in sys.argv[1:3])
    with open(schema_file, encoding="utf-8") as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, "job.toml")
        with open(job, "w", encoding="utf-8") as f:
            f.write(JOB)

        def run(*args):
            env = dict(os.environ, TROUPE_RUNS=os.path.join(folder, "runs"))
            return subprocess.run([troupe, *args], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout

        events = lines(run("train", job, "--json"))
        (recorded,) = [os.path.join(root, "events.jsonl") for root, _, files in os.walk(folder) if "events.jsonl" in files]
        with open(recorded, encoding="utf-8") as f:
            events += lines(f.read())
        events += [e for e in lines(run("repl", "--json", "-c", "submit job.toml; watch loss 3")) if e.get("event") == "step"]
    for e in events:
        validator.validate(e)
    seen = {e["event"] for e in events}
    wanted = {"step", "eval", "checkpoint", "done"}
    assert wanted <= seen, f"no event {wanted - seen}"
    for wrong in ({"event": "sung", "step": 1}, {"event": "paused", "step": -1}, {"event": "paused", "step": 1, "why": "x"}):
        assert not validator.is_valid(wrong), wrong
    print(f"{len(events)} events of {len(seen)} kinds fit the schema")


main()
