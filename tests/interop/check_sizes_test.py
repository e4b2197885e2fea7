#!/usr/bin/env python3
"""Tests what scripts/lib/check_sizes.py measures and which `size:` comments it accepts. usage: check_sizes_test.py scripts/lib"""
import os
import shutil
import subprocess
import sys
import tempfile


def said(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        lib = os.path.join(folder, "scripts/lib")
        os.makedirs(lib)
        for program in ("tree.py", "check_sizes.py"):
            shutil.copy(os.path.join(sys.argv[1], program), lib)
        subprocess.run(["git", "init", "-q", folder], check=True)
        r = subprocess.run([sys.executable, os.path.join(lib, "check_sizes.py")], capture_output=True, text=True)
        assert (r.returncode == 0) == (", 0 mistakes" in r.stdout), r
        return r.stdout + r.stderr


def expect(files, *wanted):
    made = said(files)
    for w in wanted:
        assert w in made, f"{made!r} lacks {w!r}"


def function(lines, head="void f(int a = {}) {", above=""):
    return above + head + "\n" + "  g();\n" * (lines - 2) + "}\n"


def members(n, above=""):
    return above + "template <class T>\nclass box : public base<T> {\n public:\n  box() : m0_{1}, m1_(2) {}\n  void f(int x_) { int y_; }\n" + \
        "".join(f"  std::map<int, int> m{i}_{{}}, n{i}_ = 1;\n" for i in range(n // 2)) + "  int odd_;\n" * (n % 2) + "  int limit;\n};\n"


def fields(n, above=""):
    return above + "struct facts {\n  static constexpr int none = 0;\n  enum class kind : int { a, b } which = kind::a;\n  int f(int x) const;\n" + \
        "  std::function<void(int, int)> call = {};\n  std::map<int, std::string> m, n{};\n" + "".join(f"  bool b{i} = false;\n" for i in range(n - 4)) + "};\n"


ONE = "runtime/a.cpp"
reason = "// size: it is made for this test\n"
expect({ONE: function(60)}, "60 lines  runtime/a.cpp:1: f", "0 mistakes")
expect({ONE: function(61)}, "runtime/a.cpp:1: f: 61 lines, over 60, without a `size:` comment", "1 mistakes")
expect({ONE: function(61, above=reason)}, "0 mistakes")
expect({ONE: function(61, above="// size: no\n")}, "1 mistakes")  # too short to be a reason
expect({ONE: reason + "\nint n;\n" + function(61)}, "runtime/a.cpp:4: f: 61 lines")  # the comment is not directly above the function
expect({ONE: function(61, "box<T>::box() noexcept : m_{1}, n_(2) {")}, "runtime/a.cpp:1: box::box: 61 lines")
expect({ONE: function(61, "TEST(suite, name) {")}, "runtime/a.cpp:1: TEST(suite,name): 61 lines")
expect({ONE: "namespace x {\nstruct s {\n" + function(61, "bool operator==(const s&) const {") + "};\n}\n"}, "runtime/a.cpp:3: s::operator==: 61 lines")
expect({ONE: "MACRO(one, 2)\n" + function(61)}, "runtime/a.cpp:2: f: 61 lines")
expect({ONE: "struct answer f() {\n" + "  g();\n" * 60 + "}\n"}, "runtime/a.cpp:1: f: 62 lines")
expect({ONE: "#define OPEN {\nconst char* s = \"{{{\";  // {\nconst char* r = R\"x({)x\";\n" + function(60)}, "0 mistakes")
expect({ONE: "void f() {\n"}, "runtime/a.cpp: unbalanced braces")
expect({ONE: members(15)}, "15 members  runtime/a.cpp:2: box", "0 mistakes")
expect({ONE: members(16)}, "runtime/a.cpp:2: box: 16 members, over 15")
expect({ONE: members(16, reason)}, "0 mistakes")
expect({ONE: fields(15)}, "15 fields  runtime/a.cpp:1: facts", "0 mistakes")
expect({ONE: fields(16)}, "runtime/a.cpp:1: facts: 16 fields, over 15")
expect({ONE: fields(16, reason)}, "0 mistakes")
expect({ONE: "int n;\n" * 4000}, "4000 lines  runtime/a.cpp", "0 mistakes")
expect({"configs/a.toml": "n = 1\n" * 2000, "docs/FILE.md": "a\n" * 2000}, "0 mistakes")
expect({"bench/a.py": "def main():\n" + "    pass\n" * 61}, "bench/a.py:1: main: 62 lines")
