# SPDX-License-Identifier: Apache-2.0
"""Rows of the benchmarks: medians, a table, JSON, a plot.

A row is {bench, bytes, clients, unit, median, min, max, raw, ratio}; raw: the same over a plain socket (or the limit
that the bench names) in the same run; ratio: ours beside raw, 1 or more is better, whatever the unit."""

import json
import math
import statistics

KINDS = (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30))


def size(n):
    text = str(n)
    for name, unit in KINDS:
        if n >= unit:
            text = f"{n / unit:g} {name}"
    return text


def row(bench, n, clients, unit, ours, raws, less_is_better=False):
    """@ours and @raws were taken in turn: the ratio is the median of the ratios of neighbours."""
    pairs = [(b / a if less_is_better else a / b) for a, b in zip(ours, raws) if a > 0 and b > 0]
    return {
        "bench": bench, "bytes": n, "clients": clients, "unit": unit,
        "median": statistics.median(ours), "min": min(ours), "max": max(ours),
        "raw": statistics.median(raws) if raws else None,
        "ratio": statistics.median(pairs) if pairs else None,
    }


def number(value):
    if value is None:
        return "-"
    if value == 0 or 1e-2 <= abs(value) < 1e6:
        return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"
    return f"{value:.2e}"


HEADS = ("bench", "bytes", "clients", "unit", "median", "min", "max", "raw", "ratio")


def print_head():
    print(f"{HEADS[0]:<26} {HEADS[1]:>9} {HEADS[2]:>7} {HEADS[3]:>9}"
          + "".join(f" {h:>9}" for h in HEADS[4:]), flush=True)


def print_row(r):
    print(f"{r['bench']:<26} {size(r['bytes']):>9} {r['clients']:>7} {r['unit']:>9}"
          + "".join(f" {number(r[h]):>9}" for h in HEADS[4:]), flush=True)


def write_json(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(rows, f, indent=1)
        f.write("\n")


# ---- the plot: ratio over size, one line per bench ----

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 420, 60, 50, 30, 210
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8d6a9f", "#b8860b", "#444444", "#008b8b", "#a0522d")


def lines_of(rows):
    lines = {}
    for r in rows:
        if r["ratio"] is not None and r["bytes"] > 0:
            lines.setdefault(f"{r['bench']}, {r['clients']}", []).append((r["bytes"], r["ratio"]))
    return {name: sorted(points) for name, points in lines.items() if len(points) > 1}


def plot(rows):
    lines = lines_of(rows)
    if not lines:
        return ""
    xs = [math.log2(n) for points in lines.values() for n, _ in points]
    top = max(1.25, 1.1 * max(y for points in lines.values() for _, y in points))
    low, high = min(xs), max(max(xs), min(xs) + 1)

    def x_of(n):
        return LEFT + (math.log2(n) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y_of(ratio):
        return HEIGHT - BOTTOM - ratio / top * (HEIGHT - BOTTOM - TOP)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="13">Gradus beside the plain socket, same bytes, same run '
           '(1: as fast)</text>']
    for n in sorted({n for points in lines.values() for n, _ in points}):
        out.append(f'<text x="{x_of(n):.0f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{size(n)}</text>')
    step = 0.25 if top < 3 else 0.5
    for i in range(int(top / step) + 1):
        y = y_of(i * step)
        colour = "#888" if i * step == 1 else "#ddd"
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{i * step:g}</text>')
    for i, (name, points) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x_of(n):.1f},{y_of(r):.1f}" for n, r in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = TOP + 16 * i + 10
        out.append(f'<text x="{WIDTH - RIGHT + 12}" y="{y}" fill="{colour}">{name}</text>')
    out.append("</svg>\n")
    return "\n".join(out)
