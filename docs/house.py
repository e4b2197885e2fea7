#!/usr/bin/env python3
"""docs/house.py [--check]: draws docs/house.svg and docs/step_times.svg; --check only says whether they are what it would draw.

The house is drawn from the list below, the bars from the table of a measurement page. The same input gives the same bytes.
"""
import os
import re
import sys
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))
from step_page import newest_page, read_rows  # noqa: E402

FONT = "'DejaVu Sans','Segoe UI',Helvetica,Arial,sans-serif"

# Storeys from the roof down: folder, what it is, colour, rooms (name, what is in it, width).
HOUSE = [
    ("apps", "what a person types", "#f3e3d3", [("troupe", "train · plan · sim · repl · layers · modes · time", 3), ("trouped", "the daemon, one a node", 2)]),
    ("actors", "threads: one actor a role", "#f6d9c4", [("shell", "hosts roles", 1), ("control", "members, jobs, moves", 1.4), ("repl", "look inside, steer", 1.3)]),
    ("runtime/node", "files, sockets, libraries", "#e8dcc0",
     [("config", "job, cluster", 1), ("net", "TLS, frames", 1), ("pki", "certificates", 1.05), ("images", "PNG, JPEG", 0.95), ("exchange", "C interface", 1.05), ("shared", "memory", 0.8)]),
    ("runtime", "whatever decides: pure roles", "#d3e3ea",
     [("graph", "the plan", 1), ("pipeline", "stages", 1), ("sync", "modes", 0.9), ("reduce", "fixed trees", 1.1), ("data", "sources", 0.9), ("record", "checkpoints", 1.15), ("sim", "the world", 1)]),
    ("ops", "maths: a library of its own", "#d8e8d3", [("layers", "one file each", 1.2), ("rules", "sgd, adam, ...", 1.2), ("device", "CPU kernels", 1.1), ("tensor", "memory", 0.9), ("check_layer", "proves them", 1.25)]),
]


def text(x, y, words, size=13, anchor="start", colour="#222", weight="normal", italic=False):
    style = ' font-style="italic"' if italic else ""
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}"{style}>'
            f"{escape(words)}</text>")


def page(width, height, title, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="{FONT}" role="img"><title>{escape(title)}</title>')
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>"]) + "\n"


def house():
    width, left, right, top, storey = 940, 190, 790, 92, 78
    wall = "#6b5b4b"
    bottom = top + storey * len(HOUSE)
    parts = [f'<path d="M{left - 26} {top} L{(left + right) / 2} 14 L{right + 26} {top} Z" fill="#b5563c" stroke="{wall}" stroke-width="2"/>',
             text((left + right) / 2, top - 22, "Troupe", 26, "middle", "white", "bold")]
    for i, (name, what, colour, rooms) in enumerate(HOUSE):
        y = top + storey * i
        parts.append(f'<rect x="{left}" y="{y}" width="{right - left}" height="{storey}" fill="{colour}" stroke="{wall}" stroke-width="2"/>')
        parts.append(text(left - 18, y + 34, name, 16, "end", weight="bold"))
        parts.append(text(left - 18, y + 54, what, 10.5, "end", "#555"))
        x, share = left + 10, (right - left - 10) / sum(r[2] for r in rooms)
        for room, inside, w in rooms:
            wide = share * w - 10
            parts.append(f'<rect x="{x:.1f}" y="{y + 14}" width="{wide:.1f}" height="{storey - 28}" rx="4" fill="white" fill-opacity="0.75" stroke="{wall}" stroke-opacity="0.45"/>')
            parts.append(text(round(x + wide / 2, 1), y + 36, room, 13.5, "middle", weight="bold"))
            parts.append(text(round(x + wide / 2, 1), y + 53, inside, 10.5, "middle", "#444"))
            x += wide + 10
    parts.append(f'<line x1="60" x2="880" y1="{bottom + 1}" y2="{bottom + 1}" stroke="{wall}" stroke-width="3"/>')
    # Includes point down.
    parts.append('<defs><marker id="tip" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="9" markerHeight="9" orient="auto"><path d="M0 0 L10 5 L0 10 Z" fill="#555"/></marker></defs>')
    parts.append(f'<line x1="812" x2="812" y1="{top + 20}" y2="{bottom - 14}" stroke="#555" stroke-width="2" marker-end="url(#tip)"/>')
    parts.append(text(824, top + 34, "arrows point", 11, colour="#555"))
    parts.append(text(824, top + 49, "down, never up", 11, colour="#555"))
    # The pure storeys.
    a, b = top + 3 * storey + 8, bottom - 8
    parts.append(f'<path d="M826 {a} h8 V{b} h-8" fill="none" stroke="#2f6f8f" stroke-width="2"/>')
    for k, line in enumerate(["pure: no", "thread, clock", "or socket;", "the same in", "production, in", "simulation", "and in tests"]):
        parts.append(text(842, a + 30 + 17 * k, line, 11.5, colour="#2f6f8f"))
    return page(width, bottom + 20, "The house of Troupe: apps, actors, runtime/node, runtime and ops, from the roof down", parts)


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
    for name, drawn in (("house.svg", house()), ("step_times.svg", bars())):
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
