# SPDX-License-Identifier: Apache-2.0
"""Rows of the benchmarks: medians, a table, JSON, a plot.

A row is {bench, bytes, clients, unit, median, min, max, raw, ratio}; raw: the same over a plain socket (or the limit
that the bench names) in the same run; ratio: ours beside raw, 1 or more is better, whatever the unit."""

import json
import statistics

import plots

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


def panels_of(rows):
    """{what and unit: {how and clients: [(bytes, ratio), ...]}} of all that was measured for two sizes or more."""
    panels = {}
    for r in rows:
        if r["ratio"] is not None and r["bytes"] > 0:
            what, _, how = r["bench"].partition(" ")
            lines = panels.setdefault(f"{what} (measured in {r['unit']})", {})
            lines.setdefault(f"{how or what}, {r['clients']}", []).append((r["bytes"], r["ratio"]))
    panels = {heading: {name: sorted(points) for name, points in lines.items() if len(points) > 1}
              for heading, lines in panels.items()}
    return {heading: lines for heading, lines in panels.items() if lines}


def plot(path, rows):
    """Ratios over sizes, a diagram for each kind of bench and unit. False: there is nothing to draw."""
    panels = panels_of(rows)
    if panels:
        plots.lines(path, "Gradus beside the limit of the machine (1: as good)", panels,
                    "size of the values", "ratio to the limit", size, "which, clients")
    return bool(panels)
