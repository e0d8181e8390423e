# SPDX-License-Identifier: Apache-2.0
"""Plots of the benchmarks: what is drawn, that the same numbers give the same file, and what is said without matplotlib."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BENCH = os.path.join(os.environ["GRADUS_SOURCE_DIR"], "tests", "bench")
sys.path.insert(0, BENCH)
import bench_straggler  # noqa: E402
import report  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20


def rows(bench, clients, unit, ratios):
    return [{"bench": bench, "bytes": size, "clients": clients, "unit": unit, "ratio": r} for size, r in ratios.items()]


ROWS = (rows("exchange tcp", 1, "GB/s", {4 * MIB: 0.9, 4 * KIB: 0.5}) + rows("exchange tcp", 2, "GB/s", {4 * KIB: 1, MIB: 2})
        + rows("exchange CPU tcp", 1, "CPU s/GB", {MIB: 0.7, 4 * MIB: 0.8})
        # Without a second size, a limit, or a size at all.
        + rows("latency p50 tcp", 1, "us", {4 * KIB: 0.5}) + rows("push tcp", 1, "GB/s", {4 * KIB: None, MIB: 1})
        + rows("training memory", 1, "ex/s", {0: 1.1}))
MODES = [{"mode": "sync", "slow_worker": False, "ratio": 1}, {"mode": "sync", "slow_worker": True, "ratio": 3.53},
         {"mode": "async", "slow_worker": True, "ratio": 0.79}, {"mode": "bounded", "slow_worker": True, "ratio": None}]


class Panels(unittest.TestCase):
    def test_one_for_each_kind_and_unit(self):
        self.assertEqual(report.panels_of(ROWS), {
            "exchange (measured in GB/s)": {"tcp, 1": [(4 * KIB, 0.5), (4 * MIB, 0.9)], "tcp, 2": [(4 * KIB, 1), (MIB, 2)]},
            "exchange (measured in CPU s/GB)": {"CPU tcp, 1": [(MIB, 0.7), (4 * MIB, 0.8)]}})

    def test_nothing_to_draw_needs_no_library(self):
        self.assertFalse(report.plot("/nonexistent/plot.svg", ROWS[-3:]))
        self.assertFalse(bench_straggler.plot("/nonexistent/plot.svg", MODES[:1], 5))


class WithoutMatplotlib(unittest.TestCase):
    def test_it_is_named_before_anything_is_measured(self):
        for program in ("bench.py", "bench_straggler.py"):
            path = os.path.join(BENCH, program)
            absent = "import runpy, sys; sys.modules['matplotlib'] = None; sys.argv = sys.argv[1:]; " \
                     "runpy.run_path(sys.argv[0], run_name='__main__')"
            done = subprocess.run([sys.executable, "-B", "-c", absent, path, "/nonexistent", "--plot", "plot.svg"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("python3-matplotlib is needed for --plot", done.stderr)


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "python3-matplotlib is not installed (script/bootstrap plots)")
class Drawn(unittest.TestCase):
    def drawn(self, draw):
        """The file that draw(path) writes, twice the same, and the texts in it."""
        files = []
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "plot.svg")
            for _ in range(2):
                self.assertTrue(draw(path))
                with open(path, encoding="utf-8") as f:
                    files.append(f.read())
        self.assertEqual(files[0], files[1])
        xml.etree.ElementTree.fromstring(files[0])
        self.assertNotIn("dc:date", files[0])
        return re.findall("<!-- (.*?) -->", files[0])  # each text is in a comment beside its glyphs

    def test_ratios_over_sizes(self):
        texts = self.drawn(lambda path: report.plot(path, ROWS))
        for text in ("exchange (measured in GB/s)", "exchange (measured in CPU s/GB)", "tcp, 1", "CPU tcp, 1", "4 KiB", "4 MiB"):
            self.assertIn(text, texts)
        self.assertFalse([t for t in texts if "latency" in t or "push" in t or "training" in t])

    def test_bars_of_modes(self):
        texts = self.drawn(lambda path: bench_straggler.plot(path, MODES, 5))
        for text in ("sync", "3.53", "async", "0.79", "1: no slow worker", "1.25: the same work on the speed that is left"):
            self.assertIn(text, texts)
        self.assertNotIn("bounded", texts)


if __name__ == "__main__":
    unittest.main(verbosity=2)
