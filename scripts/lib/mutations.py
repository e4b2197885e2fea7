"""Mutations of C++ sources for mutation testing: finds the places where one can be made, and draws them at random."""
import bisect
import collections
import random
import re

import check_sizes
import tree

FOLDERS = ("runtime/model/", "runtime/plan/", "runtime/cost/", "runtime/loader/", "runtime/stage/", "runtime/coordinator/",
           "runtime/sync/", "runtime/reduce/", "runtime/cluster/")

# begin, end: offsets in the file's text, in characters, not bytes.
mutation = collections.namedtuple("mutation", "file line kind begin end before after")

TURNED = {"<": ["<=", ">="], ">": [">=", "<="], "<=": ["<", ">"], ">=": [">", "<"], "==": ["!="], "!=": ["=="]}
OPPOSITE = {"&&": "||", "||": "&&", "+": "-", "-": "+", "true": "false", "false": "true", "std::min": "std::max", "std::max": "std::min",
            "any_of": "all_of", "all_of": "any_of", "first": "second", "second": "first", "break": "continue"}

STATEMENT = re.compile(r"^ +(?!return\b|const\b|auto\b|static\b|using\b|break\b|continue\b|throw\b|delete\b|co_)"
                       r"(?:[\w.:*&]|->|\[[^\[\];]*\]|\([^();]*\))+(?: (?:[-+*/|&]?=) [^;]*|\([^;]*\)|\+\+|--);$", re.M)
DECLARED = re.compile(r"(?<![\w:])((?:const )?(?:std::)?[a-z][\w:]*(?:<[^<>;(){}]*>)?(?: ?[&*])?) ([a-z]\w*(?:(?: = [^,;(){}]+)?, [a-z]\w*)*)(?=[;,){]| =)")
KEYWORDS = {"return", "else", "case", "using", "namespace", "typename", "new", "delete", "goto", "throw", "struct", "class", "enum", "public", "operator", "if"}


def bodies(name):
    """Yields the text between the braces of each function, as (begin, end) in the file's text."""
    source = tree.bare(name)
    starts = [0] + [m.end() for m in re.finditer("\n", source)] + [len(source)]
    for size, _, _, brace in check_sizes.cpp_file(name).functions:
        begin = source.find("{", starts[brace - 1])
        yield begin + 1, starts[min(brace + size - 1, len(starts) - 1)]


def names_of_one_type(text):
    """Returns {name: other names that are declared with the same type in this text}."""
    by_type = collections.defaultdict(set)
    for m in DECLARED.finditer(text):
        kind = m.group(1).replace("const ", "").rstrip(" &*")
        if kind in KEYWORDS or kind == "auto":
            continue
        for one in m.group(2).split(", "):
            by_type[kind].add(one.split(" = ")[0])
    others = collections.defaultdict(set)
    for names in by_type.values():
        for n in names:
            others[n] |= names - {n}
    return {n: sorted(o) for n, o in others.items() if o}


def members():
    """Returns the same for the members of each class and struct in the headers of FOLDERS."""
    others = collections.defaultdict(set)
    for name in tree.headers():
        if name.startswith(FOLDERS):
            for block in re.findall(r"\{([^{}]*)\}", tree.bare(name)):
                for n, o in names_of_one_type(block).items():
                    others[n] |= {x for x in o if x.endswith("_") == n.endswith("_")}
    return {n: sorted(o) for n, o in others.items() if o}


def places(source, begin, end, shared):
    """Yields (kind, begin, end, choices) for every mistake that can be made in this body; a choice replaces the text."""
    body = source[begin:end]
    at = lambda m, group=0: (begin + m.start(group), begin + m.end(group))
    for m in re.finditer(r" (<=|>=|==|!=|<|>) ", body):
        yield ("comparison", *at(m, 1), TURNED[m.group(1)])
    for m in re.finditer(r" (&&|\|\||\+|-) (?=[\w(!*])", body):
        yield ("operator", *at(m, 1), [OPPOSITE[m.group(1)]])
    for m in re.finditer(r"\b(true|false|std::min|std::max|any_of|all_of|break(?=;))\b|(?<=[.>])(first|second)\b", body):
        yield ("word", *at(m), [OPPOSITE[m.group(0)]])
    for m in re.finditer(r"(?<=[( ])!(?=[\w(])", body):
        yield ("negation", *at(m), [""])
    for m in re.finditer(r"(?<![\w.])(\d+)(?=u?\b)(?![\w.]*\.)", body):
        n = int(m.group(1))
        yield ("off by one", *at(m, 1), [str(n + 1)] + ([str(n - 1)] if n > 0 else []))
    for m in STATEMENT.finditer(body):
        text = m.group(0)
        if text.count("(") == text.count(")") and text.count("{") == text.count("}"):
            b = begin + m.start() + len(text) - len(text.lstrip())
            yield ("statement dropped", b, begin + m.end(), [";"])
    local = names_of_one_type(body)
    for m in re.finditer(r"(?<![\w.>:])([a-z]\w*)\b(?! ?[({]|::| \w)", body):
        if m.group(1) in local:
            yield ("wrong variable", *at(m, 1), local[m.group(1)])
    for m in re.finditer(r"(?:(?<=\.)|(?<=->))([a-z]\w*)\b(?! ?\()|\b([a-z]\w*_)\b", body):
        if m.group(0) in shared:
            yield ("wrong member", *at(m), shared[m.group(0)])


def draw(count, seed, folder=""):
    """Returns `count` different mistakes in this folder. Draws first the kind, then the place, then the new text."""
    by_kind, shared = collections.defaultdict(list), members()
    for name in tree.files(".cpp"):
        if name.startswith(FOLDERS) and name.startswith(folder):
            source = tree.bare(name)
            for begin, end in bodies(name):
                for kind, b, e, choices in places(source, begin, end, shared):
                    by_kind[kind].append((name, b, e, choices))
    lot, made, taken = random.Random(seed), [], set()
    while len(made) < count and any(by_kind.values()):
        kind = lot.choice(sorted(k for k in by_kind if by_kind[k]))
        name, b, e, choices = by_kind[kind].pop(lot.randrange(len(by_kind[kind])))
        after, text = lot.choice(choices), tree.text(name)
        if (name, b, e, after) in taken:
            continue
        taken.add((name, b, e, after))
        starts = [0] + [m.end() for m in re.finditer("\n", text)]
        made.append(mutation(name, bisect.bisect_right(starts, b), kind, b, e, text[b:e], after))
    return made


def applied(text, m):
    return text[:m.begin] + m.after + text[m.end:]
