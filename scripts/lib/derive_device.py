#!/usr/bin/env python3
"""derive_device.py [--check]: writes ops/primitives.inl from the declarations in ops/device.hpp.

A device that stands before another one (bf16 by way of f32, lanes, counters) does the same with every primitive. It includes the list, in
which each primitive is a line TROUPE_PRIMITIVE(name, (parameters), (names), adds). A new primitive is declared once, in device.hpp.
"""
import os
import re
import sys

import tree

HEAD = """// Every primitive of ops/device.hpp, for devices that stand before another one: TROUPE_PRIMITIVE(name, (parameters), (names), adds), where `adds`
// says that what was in the output counts. Written by scripts/lib/derive_device.py; check.sh says when it is stale.
// clang-format off
"""


def calls():
    text = tree.text("ops/device.hpp")
    text = text[text.index("// --- memory"):text.index("// The CPU device")]
    found = re.findall(r"virtual void (\w+)\(([^;{]*?)\)( = 0)?;([^\n]*)", text, re.S)
    for name, parameters, _, comment in found:
        parameters = re.sub(r"\s+", " ", re.sub(r" = \w+", "", parameters))
        names = [p.split()[-1].lstrip("&") for p in parameters.split(", ")]
        yield f"TROUPE_PRIMITIVE({name}, ({parameters}), ({', '.join(names)}), {'true' if 'adds' in comment else 'false'})"


def main():
    all_of_them = list(calls())
    want = HEAD + "\n".join(all_of_them) + "\n"
    path = os.path.join(tree.TOP, "ops/primitives.inl")
    if "--check" not in sys.argv:
        with open(path, "w") as f:
            f.write(want)
    elif not os.path.exists(path) or open(path).read() != want:
        print("ops/primitives.inl is stale: run scripts/lib/derive_device.py")
        return 1
    print(f"{len(all_of_them)} primitives")
    return 0


if __name__ == "__main__":
    sys.exit(main())
