# SPDX-License-Identifier: Apache-2.0
"""What is shown of a job that is followed, in each kind of place, and where each is chosen."""

import io
import os
import sys
import types
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")]
try:
    import numpy  # noqa: the package wants it
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

import gradus
from gradus import progress


def status(state="RUNNING", steps=0, evaluations=0, **more):
    rows = [{"step": 10 * (i + 1), "epoch": i + 1, "train": {"loss": 0.5}, "test": {"loss": 0.25, "accuracy": 0.75}}
            for i in range(evaluations)]
    return {"job": "a-1", "state": state, "steps": steps, "steps_total": 20, "epochs": steps / 10, "epochs_total": 2,
            "evaluations": rows, "metrics": {"train": {"loss": 0.125}}, "examples_per_second": 12345.6, "eta_seconds": 1.75,
            **more}


class Terminal(io.StringIO):
    def isatty(self):
        return True


STATES = [status("STARTING", activity="reads the data"), status(steps=5), status(steps=10, evaluations=1),
          status("SUCCEEDED", steps=20, evaluations=2)]
FIRST = "epoch 1.00  step 10  train  loss 0.5000  test  loss 0.2500  accuracy 0.7500"


class Shown(unittest.TestCase):
    def test_lines_of_a_file(self):
        out = io.StringIO()
        place = progress.for_place(out)
        for s in STATES:
            place.show(s)
        place.close()
        lines = out.getvalue().splitlines()
        self.assertEqual(lines[0].split("  ")[:3], ["a-1", "STARTING", "reads the data"])
        self.assertTrue(lines[1].startswith("a-1  RUNNING  epoch 0.50/2  step 5/20  loss 0.1250  12,346 examples/s  1.8 s left"))
        self.assertEqual(lines[2], FIRST)
        self.assertEqual(lines[3], FIRST.replace("1.00  step 10", "2.00  step 20"))
        self.assertTrue(lines[4].startswith("a-1  SUCCEEDED"))
        self.assertEqual(len(lines), 5)

    def test_evaluations_that_are_made_again(self):
        out = io.StringIO()
        place = progress.Lines(out)
        for n in (2, 1, 2):  # it went back to a checkpoint between
            place.show(status(evaluations=n))
        self.assertEqual(out.getvalue().count("step 20"), 2)
        self.assertEqual(out.getvalue().count(FIRST), 1)

    def test_a_line_of_a_terminal(self):
        out, before = Terminal(), os.environ.get("COLUMNS")
        os.environ["COLUMNS"] = "60"
        try:
            place = progress.for_place(out)
            for s in STATES:
                place.show(s)
            place.close()
        finally:
            os.environ.pop("COLUMNS")
            if before is not None:
                os.environ["COLUMNS"] = before
        text = out.getvalue()
        self.assertIn(f"\r\x1b[K{FIRST}\n", text)
        self.assertEqual(text.count("\n"), 3)  # two evaluations, and the end
        moving = [line for line in text.replace("\n", "\r").split("\r") if "a-1" in line]
        self.assertEqual(len(moving), 4)
        for line in moving:  # whole parts of it, within the columns
            self.assertLessEqual(len(line.replace("\x1b[K", "")), 59)
        self.assertIn("step 5/20", moving[1])
        self.assertNotIn("left", moving[0])

    def test_an_output_of_a_notebook(self):
        shown = []

        class Handle:
            def update(self, bundle, raw):
                shown.append((bundle, raw))

        def display(bundle, raw, display_id):
            self.assertTrue(display_id)
            shown.append((bundle, raw))
            return Handle()

        ipython = types.ModuleType("IPython")
        ipython.display = types.ModuleType("IPython.display")
        ipython.display.display = display
        shell = types.SimpleNamespace()
        ipython.get_ipython = lambda: shell
        modules = {"IPython": ipython, "IPython.display": ipython.display}
        before = {name: sys.modules.get(name) for name in modules}
        sys.modules.update(modules)
        try:
            self.assertNotIsInstance(progress.for_place(), progress.Notebook)  # IPython in a terminal
            shell.kernel = object()
            self.assertIsInstance(progress.for_place(io.StringIO()), progress.Lines)
            place = progress.for_place()
            self.assertIsInstance(place, progress.Notebook)
            for s in STATES:
                place.show(s)
            place.close()
        finally:
            for name, module in before.items():
                sys.modules.pop(name)
                if module is not None:
                    sys.modules[name] = module
        self.assertEqual([raw for _, raw in shown], [True] * 4)
        self.assertEqual(shown[2][0]["text/plain"].splitlines()[0], FIRST)
        self.assertEqual(len(shown[3][0]["text/plain"].splitlines()), 3)

    def test_words(self):
        self.assertEqual([progress.duration(s) for s in (0.04, 59.9, 243, 8100)], ["0.0 s", "59.9 s", "4 min 03 s", "2 h 15 min"])
        self.assertEqual(progress.fitting(["a-1  RUNNING", "step 1/2"], 8), "a-1  RU…")
        self.assertEqual(progress.fitting(["a-1", "a reason that is too long", "step 1/2"], 14), "a-1  step 1/2")

    def test_follow(self):
        class Client(gradus.Client):
            def __init__(self):  # no command
                self.left = list(STATES)

            def status(self, job):
                return self.left.pop(0)

        out = io.StringIO()
        self.assertEqual(Client().follow("a-1", out, 0)["state"], "SUCCEEDED")
        self.assertEqual(len(out.getvalue().splitlines()), 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
