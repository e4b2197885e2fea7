#!/usr/bin/env python3
"""Tests where scripts/lib/curve.awk draws its points. usage: curve_test.py curve.awk"""
import subprocess
import sys


def draw(points, columns=20, rows=5):
    text = "".join(f"{x} {y}\n" for x, y in points)
    command = ["awk", "-v", "title=loss", "-v", f"columns={columns}", "-v", f"rows={rows}", "-f", sys.argv[1]]
    r = subprocess.run(command, input=text, capture_output=True, text=True)
    assert r.returncode == 0, r
    return r.stdout.splitlines()


def grid(lines):
    return [line.split("|", 1)[1] for line in lines if "|" in line]


# A falling line goes from the upper left corner to the lower right one; the axis shows the largest and the smallest mean.
falling = draw([(i, 19 - i) for i in range(20)])
assert falling[0].strip() == "loss" and falling[1].startswith(" 19.000 |*") and falling[5].startswith("  0.000 |"), falling
rows = grid(falling)
assert rows[0][0] == "*" and rows[-1].rstrip()[-1] == "*" and len(rows[-1]) == 20, rows
assert falling[-1].split() == ["step", "0", "19"], falling

# Each column is the mean of its points.
assert draw([(0, 1), (0, 3), (9, 5)], columns=2, rows=3)[1:4] == ["  5.000 | *", "        |", "  2.000 |*"]

# Constant values, one point and no points are accepted.
assert grid(draw([(0, 1), (5, 1)], rows=3))[-1].count("*") == 2
assert draw([(0, 1)]) == [] and draw([]) == []
print("ok")
