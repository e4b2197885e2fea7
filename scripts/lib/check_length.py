#!/usr/bin/env python3
"""check_length.py: no source file over 600 lines; a word about those over 400."""
import sys

import tree

WARN, LIMIT = 400, 600
ENDINGS = (".hpp", ".cpp", ".inl", ".cu", ".cuh", ".py", ".sh", ".js", ".cmake", "CMakeLists.txt")


def main():
    names = [n for n in tree.files() if n.endswith(ENDINGS) or n.startswith("scripts/")]
    lengths = sorted(((tree.text(n).count("\n"), n) for n in names), reverse=True)
    for lines, name in lengths:
        if lines > WARN:
            print(f"{name}: {lines} lines{', over ' + str(LIMIT) if lines > LIMIT else ''}")
    over = sum(lines > LIMIT for lines, _ in lengths)
    print(f"{len(names)} files, longest {lengths[0][0] if lengths else 0}, {sum(l > WARN for l, _ in lengths)} over {WARN}, {over} over {LIMIT}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
