#!/usr/bin/env python3
"""docs/house.py [--check]: draws docs/rooms.svg and docs/step_times.svg; --check compares them with what it would draw.

The rooms are drawn from runtime/CMakeLists.txt, FLOORS of scripts/lib/check_arrows.py and the folders of the tree, the bars from the table
of a measurement page. The same input gives the same bytes.
"""
import os
import re
import sys
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scripts", "lib"))
import check_arrows  # noqa: E402
from step_page import newest_page, read_rows  # noqa: E402

FONT = "'DejaVu Sans','Segoe UI',Helvetica,Arial,sans-serif"

# Where each room of runtime/ is drawn: its column. Its row and its arrows follow from runtime/CMakeLists.txt.
COLUMNS = {"plain": 2, "job": 2, "sync": 0, "record": 4.4, "reduce": 0, "cost": 1, "stage": 2, "loader": 3, "coordinator": 4, "plan": 2,
           "model": 2, "data": 5.5, "replay": -1, "spec": 2, "sim": -1, "trace": -2, "critical": -2, "messages": 0, "base": 2, "checksum": 1, "memory": 5.5,
           "exchange/hub": 6.35, "access": -2, "cluster/view": -1, "cluster": -1.7, "cluster/supervision": -0.3,
           "cluster/controller": -1}
UTILITIES = ("base", "access", "checksum", "memory")  # arrows to these are drawn lightly
PANELS = {"apps": "#f3e3d3", "actors": "#f6d9c4", "runtime/node": "#e8dcc0", "runtime": "#d3e3ea", "ops": "#d8e8d3"}
INK, PALE = "#444", "#9db3bd"


def text(x, y, words, size=13, anchor="start", colour="#222", weight="normal", italic=False):
    style = ' font-style="italic"' if italic else ""
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}"{style}>'
            f"{escape(words)}</text>")


def page(width, height, title, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="{FONT}" role="img"><title>{escape(title)}</title>')
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>"]) + "\n"


def box(x, y, wide, name, size=11.5, tall=26):
    """A room, centred at (x, y)."""
    return [f'<rect x="{x - wide / 2:g}" y="{y - tall / 2:g}" width="{wide:g}" height="{tall}" rx="4" fill="white" stroke="#6b5b4b" stroke-opacity="0.6"/>',
            text(x, y + 4, name, size, "middle")]


def panel(y, tall, name, what):
    return [f'<rect x="10" y="{y}" width="960" height="{tall}" rx="6" fill="{PANELS[name]}"/>', text(22, y + 19, name, 14, weight="bold"),
            text(32 + 8.6 * len(name), y + 19, what, 11, colour="#555")]


def sources_in(folder, but=()):
    """Folders below `folder` that hold sources, by name."""
    top = os.path.join(os.path.dirname(HERE), folder)
    has = lambda d: os.path.isdir(os.path.join(top, d)) and any(f.endswith((".hpp", ".cpp", ".h")) for f in os.listdir(os.path.join(top, d)))
    return [d for d in sorted(os.listdir(top)) if d not in but and has(d)]


def in_a_row(y, names):
    step = 940 / len(names)
    return [part for i, name in enumerate(names) for part in box(20 + step * (i + 0.5), y, min(step - 12, 150), name)]


def actors_by_floor():
    """[(floor, rooms)] from the highest floor down."""
    floors = {}
    for room, floor in check_arrows.FLOORS.items():
        floors.setdefault(floor, []).append(room.removeprefix("actors/").rstrip("/."))
    return sorted(floors.items(), reverse=True)


def runtime_arrows():
    """({room: row}, [(from, to)]): rows count from the bottom; arrows that follow from others are left out."""
    dirs, deps = check_arrows.runtime_libraries()
    name = lambda library: "messages" if "messages" in dirs[library] else dirs[library][0]
    direct = {name(lib): {name(d) for d in deps[lib] if d in dirs} for lib in dirs}
    rows, reached = {}, {}

    def visit(room):
        if room not in rows:
            for d in direct[room]:
                visit(d)
            rows[room] = max((rows[d] + 1 for d in direct[room]), default=0)
            reached[room] = direct[room].union(*(reached[d] for d in direct[room]))

    for room in direct:
        visit(room)
    arrows = [(a, b) for a in direct for b in sorted(direct[a]) if not any(b in reached[c] for c in direct[a])]
    if rows.keys() != COLUMNS.keys():
        sys.exit(f"docs/house.py: COLUMNS does not match the rooms of runtime/CMakeLists.txt: {sorted(rows.keys() ^ COLUMNS.keys())}")
    return rows, arrows


def pure_rooms(top, tall):
    rows, arrows = runtime_arrows()
    step = (tall - 74) / max(rows.values())
    at = {room: (270 + 102 * COLUMNS[room], top + tall - 30 - step * rows[room]) for room in rows}
    lines, boxes = [], []
    for a, b in sorted(arrows, key=lambda arrow: arrow[1] not in UTILITIES):
        (x1, y1), (x2, y2) = at[a], at[b]
        pale = b in UTILITIES
        lines.append(f'<line x1="{x1:g}" y1="{y1 + 13:g}" x2="{x2:g}" y2="{y2 - 14:g}" stroke="{PALE if pale else INK}" '
                     f'stroke-width="{1 if pale else 1.3}" marker-end="url(#{"pale" if pale else "tip"})"/>')
    for room, (x, y) in at.items():
        boxes += box(x, y, max(92, 6.5 * len(room) + 8), room)
    return lines + boxes


def rooms():
    marker = '<marker id="{}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L10 5 L0 10 Z" fill="{}"/></marker>'
    parts = ["<defs>" + marker.format("tip", INK) + marker.format("pale", PALE) + "</defs>"]
    y = 10
    parts += panel(y, 64, "apps", "the programs: command line, output") + in_a_row(y + 44, ["troupe", "trouped"])
    y += 74
    floors = actors_by_floor()
    tallest = max(len(names) for _, names in floors)
    tall = 36 + 32 * tallest
    parts += panel(y, tall, "actors", "threads, actors of the control plane, REPL: a room may include the rooms in the columns to its right")
    for i, (_, names) in enumerate(floors):
        for k, name in enumerate(names):
            parts += box(20 + 940 / len(floors) * (i + 0.5), y + 46 + 32 * k, 99, name, 10.5)
    y += tall + 10
    node = sources_in("runtime/node") + [f"exchange/{d}" for d in sources_in("runtime/exchange", but=("hub",))]
    parts += panel(y, 64, "runtime/node", "and runtime/exchange: files, sockets, third-party libraries") + in_a_row(y + 44, node)
    y += 74
    parts += panel(y, 560, "runtime", "no thread, clock or socket: an arrow is a library that the room links (left out where it follows from others)")
    parts += pure_rooms(y, 560)
    y += 570
    ops = [d for d in sources_in("ops") if not d.endswith("_none")]
    parts += panel(y, 64, "ops", "tensors, devices, layers, update rules: a library of its own") + in_a_row(y + 44, ops)
    return page(980, y + 74, "The rooms of Troupe: apps, actors, runtime/node, runtime and ops; each panel may include the panels below it", parts)


def measured():
    """[(net, torch, Troupe)] on two threads, the date of the page and its machine."""
    name, lines = newest_page()
    date = re.search(r"^# .*, (\d{4}-\d\d-\d\d)$", lines, re.M)
    where = re.search(r"^\*\*Where\.\*\* (.*?)\.(?: |$)", lines, re.M)
    rows = [(net, *ms) for (net, threads), ms in read_rows(lines).items() if threads == 2]
    if not (date and where and rows):
        sys.exit(f"docs/measurements/{name}: a date in the title, **Where.** and rows of two threads wanted")
    return rows, date.group(1), where.group(1)


def bars():
    rows, date, where = measured()
    width, left, full, step = 790, 220, 430, 46
    parts = [text(20, 30, "ms per training step, as a part of PyTorch's time: lower is better", 15, weight="bold"),
             text(20, 50, f"forward, backward and update in fp32, two threads; tuned PyTorch 1.13; {where}, {date}", 10.5, colour="#555")]
    y = 70
    for net, torch, ours in rows:
        parts.append(text(left - 12, y + 22, net, 12, "end"))
        parts.append(f'<rect x="{left}" y="{y}" width="{full}" height="15" fill="#c9c4bd"/>')
        parts.append(text(left + full + 8, y + 12, f"{torch:.1f} ms  PyTorch", 11, colour="#555"))
        parts.append(f'<rect x="{left}" y="{y + 16}" width="{full * ours / torch:.1f}" height="15" fill="#b5563c"/>')
        parts.append(text(round(left + full * ours / torch + 8, 1), y + 28, f"{ours:.1f} ms  Troupe", 11, weight="bold"))
        y += step
    return page(width, y + 8, "Milliseconds per training step of Troupe and of tuned PyTorch; lower is better", parts)


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__.strip())
    stale = []
    for name, drawn in (("rooms.svg", rooms()), ("step_times.svg", bars())):
        path = os.path.join(HERE, name)
        if check:
            if not os.path.exists(path) or open(path, encoding="utf-8").read() != drawn:
                stale.append(name)
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(drawn)
    if stale:
        sys.exit(f"{', '.join(stale)}: not what docs/house.py draws (run it)")


if __name__ == "__main__":
    main()
