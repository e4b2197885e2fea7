#!/usr/bin/env python3
"""check_sizes.py: reports functions and classes that are too large, and the largest files.

A file is one idea, of any length. A function may have 60 lines, a class 15 data members (names that end in _), a plain struct 15 fields (other
names). A larger one needs a comment with the reason:

  // size: one table, entry by entry; parts of it would have to be read together

The comment is above the function, class or struct, or on the lines from there to its `{`. Prints the ten longest files, the ten longest functions,
the ten classes with the most members and the ten structs with the most fields. Configurations and pages are
not checked.
"""
import ast
import bisect
import re
import sys

import tree

FUNCTION, MEMBERS, FIELDS = 60, 15, 15
ENDINGS = (".hpp", ".cpp", ".inl", ".cu", ".cuh", ".py", ".sh", ".js", ".cmake", "CMakeLists.txt")
CPP = (".hpp", ".cpp", ".inl", ".cu", ".cuh")
REASON = re.compile(r"(?://|#).*\bsize: \S.{9,}")

TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|[{}();:,=<>\[\]]|\S")
CLASS = re.compile(r"(?:^| )(?:class|struct|union) (?:alignas \(\) |\[ \[ .*? \] \] )?((?:\w+ :: )*\w+)(?= final| :(?! :)| <|$)")


def without_templates(words):
    """Returns the words without leading `template <...>`."""
    out, i = [], 0
    while i < len(words):
        if words[i] == "template" and i + 1 < len(words) and words[i + 1] == "<":
            depth, i = 0, i + 1
            while i < len(words):
                depth += (words[i] == "<") - (words[i] == ">")
                i += 1
                if depth == 0:
                    break
            continue
        out.append(words[i])
        i += 1
    return out


def flat(words):
    """Returns the words outside parentheses; each outermost pair becomes '()'."""
    out, depth = [], 0
    for w in words:
        if w == "(":
            if depth == 0:
                out.append("()")
            depth += 1
        elif w == ")":
            depth -= 1
        elif depth == 0:
            out.append(w)
    return out


def without_arguments(words):
    """Returns the words outside of `<...>` after a name; `a < b` in an initial value stays if it has no `>`."""
    out, i = [], 0
    while i < len(words):
        if words[i] == "<" and out and re.fullmatch(r"\w+", out[-1]) and out[-1] != "operator":
            depth, end = 0, i
            while end < len(words):
                depth += (words[end] == "<") - (words[end] == ">")
                if depth == 0:
                    break
                end += 1
            if depth == 0:
                i = end + 1
                continue
        out.append(words[i])
        i += 1
    return out


def kind_of(words):
    """Returns what a `{` after these words opens: ('namespace' | 'class' | 'function' | 'list' | 'other', name)."""
    words = without_templates(words)
    if "namespace" in words[:3] or words == ["extern"]:
        return "namespace", " ".join(words)
    outside = flat(words)
    if "enum" in outside:
        return "other", ""
    if found := CLASS.search(" ".join(outside)):
        return "class", found.group(1).replace(" ", "")
    outside = flat(without_arguments(words))
    if "()" not in outside:
        return "other", ""
    call = outside.index("()")
    if "operator" in outside:
        at = outside.index("operator")
        if at < call or call == at + 1:
            return "function", "operator" + "".join(outside[at + 1:][:2]).replace("()", "", 1)
    if "=" in outside[:call]:
        return "other", ""
    # A constructor's member initialisers: `: a_{1}, b_(2) {`.
    if ":" in outside[call:] and re.fullmatch(r"\w+|>", words[-1]):
        return "list", ""
    name, i = [], call - 1
    while i >= 0 and (not name or name[0] == "::" or outside[i] in ("::", "~")) and re.fullmatch(r"\w+|::|~", outside[i]):
        name.insert(0, outside[i])
        i -= 1
    text = "".join(name).lstrip(":")
    if text in ("TEST", "TEST_F", "TEST_P", "TYPED_TEST"):
        begin = words.index("(")
        text += "(" + "".join(words[begin + 1:words.index(")")]) + ")"
    return "function", text or "?"


class cpp_file:
    """The functions, classes and structs of one file at namespace and class scope, as (size, name, first line, line of the brace)."""

    def __init__(self, name):
        source = tree.bare(name)
        starts = [0] + [m.end() for m in re.finditer("\n", source)]
        self.functions, self.classes, self.structs, self.balanced = [], [], [], True
        scopes = [("namespace", "", [], 0, 0)]  # kind, name, members, first line, line of the brace
        words, first, parens, skip = [], 0, 0, 0
        for m in TOKEN.finditer(source):
            word, line = m.group(0), bisect.bisect_right(starts, m.start())
            if not words:
                first = line
            if skip:  # inside a body or a list of values
                skip += (word == "{") - (word == "}")
                if skip == 0:
                    kind, called, begin, brace = inside
                    if kind == "function":
                        self.functions.append((line - brace + 1, self.path(scopes, called), begin, brace))
                        words = []
                    else:
                        words.append("}")
                continue
            if words and parens == 0 and words[-1] == ")" and word not in "{;:-" and re.fullmatch(r"[A-Z][A-Z0-9_]+", words[0]):
                words, first = [], line  # a macro that ends without a semicolon
            parens += (word == "(") - (word == ")")
            if parens > 0 and word in "{};":
                if word == "{":
                    skip, inside = 1, ("other", "", first, line)
                continue
            if word == "{":
                kind, called = kind_of(words) if words else ("other", "")
                if kind in ("namespace", "class"):
                    scopes.append((kind, called, [], first, line))
                    words = []
                else:
                    skip, inside = 1, (kind, called, first, line)
            elif word == "}":
                if len(scopes) == 1:
                    self.balanced = False
                    return
                kind, called, members, begin, brace = scopes.pop()
                if kind == "class":
                    size = sum(m.endswith("_") for m in members)
                    self.classes.append((size, self.path(scopes, called), begin, brace))
                    self.structs.append((len(members) - size, self.path(scopes, called), begin, brace))
                words = []
            elif word == ";":
                if scopes[-1][0] == "class":
                    scopes[-1][2].extend(self.members(words))
                words = []
            elif word == ":" and words in (["public"], ["private"], ["protected"]):
                words = []
            else:
                words.append(word)
        self.balanced = len(scopes) == 1 and not skip

    @staticmethod
    def path(scopes, called):
        return "::".join([s[1] for s in scopes if s[0] == "class"] + [called])

    @staticmethod
    def members(words):
        """Returns the names of the data members that a declaration in a class declares."""
        outside = flat(without_arguments(without_templates(words)))
        if not outside or outside[0] in ("using", "friend", "typedef", "static", "static_assert", "constexpr"):
            return []
        if outside[0] == "enum":  # `enum class kind : type {...} name;`
            outside = ["enum"] + outside[outside.index("}") + 1:] if "}" in outside else []
        if "()" in outside:
            before = outside[:outside.index("()")]
            if "=" not in before and "}" not in before and not any(w.endswith("_") for w in before):
                return []
        names, value, at = [], False, 1
        for at, word in enumerate(outside):
            next = outside[at + 1] if at + 1 < len(outside) else ";"
            if not value and at > 0 and re.fullmatch(r"[A-Za-z_]\w*", word) and next in (";", ",", "=", "}", "[", ":", "()"):
                if outside[at - 1] != "::" and next != "()" or word.endswith("_"):
                    names.append(word)
            value = word == "=" or value and word != ","
        return names


def python_functions(name):
    try:
        parsed = ast.parse(tree.text(name))
    except SyntaxError:
        return []
    nodes = [n for n in ast.walk(parsed) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [(n.end_lineno - n.lineno + 1, n.name, n.lineno, n.lineno) for n in nodes]


def has_reason(lines, first, brace):
    """Returns whether the comment above line `first`, or a line from there to line `brace`, has a reason (lines count from 1)."""
    above = first - 1
    while above > 0 and re.match(r"\s*(//|#|template)", lines[above - 1]):
        above -= 1
    return any(REASON.search(l) for l in lines[above:brace])


def measure(names):
    """Returns files as (size, name), functions, classes and structs as (size, place, has a reason), and the files with unbalanced braces."""
    files, functions, classes, structs, odd = [], [], [], [], []
    for name in names:
        lines = tree.text(name).split("\n")
        files.append((len(lines) - 1, name))
        put = lambda into, found: into.extend((n, f"{name}:{brace}: {what}", has_reason(lines, first, brace)) for n, what, first, brace in found)
        if name.endswith(CPP):
            parsed = cpp_file(name)
            put(functions, parsed.functions)
            put(classes, parsed.classes)
            put(structs, parsed.structs)
            if not parsed.balanced:
                odd.append(name)
        elif name.endswith(".py"):
            put(functions, python_functions(name))
    return files, functions, classes, structs, odd


def print_largest(what, found, unit):
    print(f"the largest {what}:")
    for size, place, *_ in sorted(found, reverse=True)[:10]:
        print(f"  {size:5} {unit}  {place}")


def main():
    names = [n for n in tree.files() if n.endswith(ENDINGS) or n.startswith("scripts/")]
    files, functions, classes, structs, odd = measure(names)
    print_largest("files", files, "lines")
    problems = []
    for what, found, limit, unit in (("functions", functions, FUNCTION, "lines"), ("classes", classes, MEMBERS, "members"),
                                     ("structs", structs, FIELDS, "fields")):
        print_largest(what, found, unit)
        problems += [f"{place}: {size} {unit}, over {limit}, without a `size:` comment"
                     for size, place, excused in sorted(found, reverse=True) if size > limit and not excused]
    problems += [f"{n}: unbalanced braces, not measured" for n in odd]
    print("\n".join(problems))
    print(f"{len(files)} files, {len(functions)} functions, {len(classes)} classes, {len(problems)} mistakes")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
