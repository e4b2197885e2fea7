#!/usr/bin/env python3
"""Tests that commands_test.py and toml_test.py report mistakes in pages, with their lines. usage: mistakes_test.py BUILD/bin"""
import os
import sys
import tempfile

import blocks
import commands_test
import reader
import toml_test

PAGE = """# Page

```
$ troupe check none.toml
$ troupe train job.toml --epochs 3
epoch 1  loss 0.1
$ troupe layers no_such_layer   # a comment
$ troupe layers relu
inputs:  1   # a comment
beta  1.0
```

Text: `troupe trian job.toml`, `troupe COMMAND --help`, `troupe train JOB [--cluster FILE]`.

```
troupe> status
a reply
troupe> mov ip1 n2
```
```toml job
[pipeline]
packages = 2
```
```toml job=none
```
```toml jop
```
"""
WANTED = ["docs/page.md:4: none.toml: no such file", "docs/page.md:5: troupe train job.toml --epochs 3: exit code 2", "did you mean '--set train.finish.epochs=3'?",
          "docs/page.md:7: troupe layers no_such_layer", "docs/page.md:8: troupe layers relu: does not print 'beta  1.0'", "docs/page.md:13: troupe trian job.toml: exit code 2", "docs/page.md:18: mov ip1 n2: exit code 2"]


def main():
    with tempfile.TemporaryDirectory() as top:
        os.symlink(os.path.join(reader.TOP, "configs"), os.path.join(top, "configs"))
        os.makedirs(os.path.join(top, "examples"))
        os.makedirs(os.path.join(top, "docs"))
        reader.write(os.path.join(top, "docs/page.md"), PAGE)
        reader.TOP = top
        tester = commands_test.tester(sys.argv[1])
        tester.test_page("docs/page.md")
        said = "\n".join(tester.problems)
        for w in WANTED:
            assert w in said, f"{said!r} lacks {w!r}"
        assert tester.count["REPL lines"] == 1, tester.count
        assert len(tester.problems) == 7, said
        found = [b for b in blocks.blocks(top, "docs/page.md") if b.info.startswith("toml")]
        assert [b.line for b in found] == [21, 25, 27], found
        for b, why in zip(found, ("did you mean 'packets'?", "there is no configs/jobs/none.toml", "is not a mark")):
            problem = toml_test.test_block(b, os.path.join(sys.argv[1], "troupe"), top)[1]
            assert problem and why in problem, problem


main()
