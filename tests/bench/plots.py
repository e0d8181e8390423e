# SPDX-License-Identifier: Apache-2.0
"""Plots of the benchmarks as SVG, drawn by matplotlib, which is loaded only when somebody asks for a plot.

The same numbers give the same file: no date, and ids that do not change from run to run."""

import argparse

# Colours of Okabe and Ito (https://jfly.uni-koeln.de/color/), which people with any kind of colour vision can tell
# apart; without their yellow, which is too pale for a line on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
# Eight markers and seven colours: two lines of one colour have different markers.
MARKERS = "osD^vPX*"
STYLE = {"svg.hashsalt": "gradus", "svg.fonttype": "path", "font.size": 9, "axes.titlesize": 10,
         "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
         "grid.color": "#dddddd", "grid.linewidth": 0.8, "legend.frameon": False, "legend.fontsize": 8,
         "figure.constrained_layout.w_pad": 0.1, "figure.constrained_layout.h_pad": 0.1}
METADATA = {"Date": None, "Creator": None}  # left out: they differ from run to run and from release to release
COLUMNS, PANEL_INCHES = 2, (5.2, 3.0)
BAR_INCHES = 0.4


def library():
    """matplotlib. Errors: ModuleNotFoundError."""
    import matplotlib.figure
    import matplotlib.style
    return matplotlib


def add_option(parser, what):
    """Give @parser the option --plot, for a file that shows @what. A missing matplotlib is an error of the command line,
    so that nobody measures for minutes first."""
    def path(text):
        try:
            library()
        except ModuleNotFoundError:
            raise argparse.ArgumentTypeError("python3-matplotlib is needed for --plot") from None
        return text

    parser.add_argument("--plot", metavar="FILE", type=path, help=f"{what}, as SVG (needs python3-matplotlib)")


def draw(path, title, inches, paint):
    """Write the figure that @paint puts into an empty one to @path."""
    matplotlib = library()
    with matplotlib.style.context(["default", STYLE]):  # not what a file of the user says
        figure = matplotlib.figure.Figure(figsize=inches, layout="constrained")
        figure.suptitle(title)
        paint(figure)
        figure.savefig(path, format="svg", metadata={"Title": title, **METADATA})


def lines(path, title, panels, x_label, y_label, tick_text, legend_title):
    """@panels: {heading: {line: [(x, y), ...]}}, each heading a diagram of its own. The scale of x is
    logarithmic, with @tick_text(x) under each x. A dashed line marks y = 1: as good as what it is compared with."""
    rows = -(-len(panels) // COLUMNS)
    columns = min(COLUMNS, len(panels))

    def paint(figure):
        for i, (heading, named) in enumerate(panels.items()):
            axes = figure.add_subplot(rows, columns, i + 1, title=heading, xlabel=x_label, ylabel=y_label)
            for j, (name, points) in enumerate(named.items()):
                axes.plot(*zip(*points), label=name, color=COLOURS[j % len(COLOURS)], marker=MARKERS[j % len(MARKERS)],
                          markersize=4, linewidth=1.5)
            axes.axhline(1, color="#555555", linewidth=1, linestyle="--")
            xs = sorted({x for points in named.values() for x, _ in points})
            axes.set_xscale("log", base=2)
            axes.set_xticks(xs, [tick_text(x) for x in xs], rotation=30, ha="right", rotation_mode="anchor")
            axes.set_xticks([], minor=True)
            axes.set_ylim(bottom=0)
            axes.grid(True)
            axes.legend(title=legend_title, loc="upper left", bbox_to_anchor=(1, 1))

    draw(path, title, (PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + 0.4), paint)


def bars(path, title, values, x_label, marks):
    """A bar for each of @values, (name, value), the first on top. @marks: (x, text), lines across all bars."""
    def paint(figure):
        axes = figure.add_subplot(xlabel=x_label)
        names, lengths = zip(*values)
        at = range(len(values))
        axes.bar_label(axes.barh(at, lengths, height=0.6, color=COLOURS[0]), fmt="%.2f", padding=5, zorder=3,
                       bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
        axes.set_yticks(at, names)
        axes.invert_yaxis()
        for (x, text), colour, dash in zip(marks, (COLOURS[-1], COLOURS[1]), ("-", "--")):
            axes.axvline(x, label=text, color=colour, linestyle=dash, linewidth=1.2)
        axes.margins(x=0.1)
        axes.grid(True, axis="x")
        axes.tick_params(axis="y", length=0)
        axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.16), ncol=len(marks))

    draw(path, title, (7.4, BAR_INCHES * len(values) + 1.6), paint)
