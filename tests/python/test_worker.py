# SPDX-License-Identifier: Apache-2.0
"""gradus.Worker with a worker of the tests': arrays are the worker's memory, every error is an exception with its words."""

import os
import subprocess
import sys
import time
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"), os.path.dirname(__file__)]
try:
    import numpy
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

import gradus
from fake_worker import GRADIENT, FakeWorker, ProgramFailed, told

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
# Of the Python layer for each batch, without what it waits for (10 to 30 us of a processor).
NAIVE_MAX = 5  # times what it takes to make its views anew; 0.6 where nothing else runs


def model():
    return {"w": numpy.arange(6, dtype="f4").reshape(2, 3), "b": numpy.array(2, "f4")}


def serve(on_batch, **description):
    """A program that describes model() and hands batches to `on_batch`."""
    def program():
        with gradus.Worker("tests") as worker:
            for work in worker:
                if work.kind == gradus.JOB:
                    work.describe(model(), train_records=10, **description)
                elif work.kind != gradus.JOB_END:
                    on_batch(work)
    return program


class Conversations(unittest.TestCase):
    def test_a_job(self):
        seen = []

        def on_batch(work):
            seen.append((work.kind, work.records.tolist(), work.epoch, work.step, work.replica, work.seed, work.job.program,
                         work.features, work.targets, work.classes))
            if work.kind == gradus.GRADIENT:
                work.gradients["w"][:] = work.parameters["w"] * 2
                work.gradients["b"][...] = work.records.sum()
                work.gradients["mean"][:] = 7
                work.done(numpy.float32(0.5), 3, correct=numpy.int64(2), squared_error=4, absolute_error=5)
            else:
                assert work.gradients is None
                work.done(1.25)
        with FakeWorker(serve(on_batch, statistics={"mean": numpy.ones(17, "f4")}, fingerprint=2**64 - 1)) as f:
            self.assertEqual(f.hello.hello.name, b"tests")
            d = f.job(program="mine")
            self.assertEqual((d.names, d.kinds), (["w", "b", "mean"], {"w": 0, "b": 0, "mean": 1}))
            self.assertEqual(d.shapes, {"w": (2, 3), "b": (), "mean": (17,)})
            self.assertEqual((d.train_records, d.test_records, d.fingerprint), (10, 0, 2**64 - 1))
            numpy.testing.assert_array_equal(d.values["w"], model()["w"])
            f.start()
            result, gradients = f.gradient([1, 2, 2**40], epoch=3, step=4, replica=5, seed=2**64 - 1)
            self.assertEqual([result.examples, result.loss_sum, result.correct, result.squared_error_sum,
                              result.absolute_error_sum], [3, 0.5, 2, 4, 5])
            numpy.testing.assert_array_equal(gradients["w"], model()["w"] * 2)
            self.assertEqual((gradients["b"], gradients["mean"][16]), (numpy.float32(3 + 2**40), 7))
            result = f.evaluate([9])
            self.assertEqual([result.examples, result.loss_sum], [1, 1.25])
            self.assertTrue(numpy.isnan([result.correct, result.squared_error_sum, result.absolute_error_sum]).all())  # not said
        self.assertEqual(seen, [(gradus.GRADIENT, [1, 2, 2**40], 3, 4, 5, 2**64 - 1, "mine", None, None, None),
                                (gradus.EVALUATION, [9], 0, 0, 0, 5, "mine", None, None, None)])

    def test_records_of_the_job(self):
        seen = []

        def on_batch(work):
            seen.append((work.features.copy(), work.targets.copy(), None if work.classes is None else work.classes.copy()))
            self.assertEqual([a.dtype.name for a in (work.features, work.targets)], ["float32"] * 2)
            work.done(0)
        for classes in [3, 1], None:
            with FakeWorker(serve(on_batch)) as f:
                f.job()
                f.start((2, 2), True, classes is not None)
                f.gradient([0, 1], features=numpy.arange(8), targets=[0.5, 1.5], classes=classes)
        for features, targets, _ in seen:
            numpy.testing.assert_array_equal(features, numpy.arange(8).reshape(2, 2, 2))
            numpy.testing.assert_array_equal(targets, [0.5, 1.5])
        self.assertEqual((seen[0][2].tolist(), seen[0][2].dtype.name, seen[1][2]), ([3, 1], "int32", None))

    def test_arrays_are_the_workers_memory(self):
        views = []

        def on_batch(work):
            views.append((work.parameters["w"], work.gradients["w"]))
            with self.assertRaises(ValueError):  # numpy: read-only
                work.parameters["w"][0, 0] = 1
            for array in work.records, work.parameters["b"]:
                self.assertFalse(array.flags.writeable or array.flags.owndata)
            work.done(0)
        with FakeWorker(serve(on_batch)) as f:
            d = f.job()
            f.start()
            f.gradient([1])
            f.set_parameters({n: v + 1 for n, v in d.values.items()})
            f.gradient([1])
        self.assertIs(views[0][0], views[1][0])  # made once
        self.assertIs(views[0][1], views[1][1])

    def test_an_exception_in_the_loop_is_reported(self):
        def on_batch(work):
            raise KeyError("lost key")
        f = FakeWorker(serve(on_batch))
        f.job()
        f.start()
        with self.assertRaisesRegex(ProgramFailed, "(?s)^Traceback.*test_worker.py.*KeyError: 'lost key'$"):
            f.gradient([1])
        with self.assertRaises(KeyError):
            f.end()

    def test_own_lines_and_the_message_are_told(self):
        """Of what calls the package wrongly, in a function with a long name, and of what says very much."""
        def with_a_name_that_is_rather_long_for_one_that_nobody_needs_to_know_but_who_wrote_it(work):
            work.look_up({"none": [1]})  # of a job without tables, in a line that says what is wrong with it at such a length that

        def on_batch(work):
            if work.records[0]:
                return with_a_name_that_is_rather_long_for_one_that_nobody_needs_to_know_but_who_wrote_it(work)
            raise ValueError("at first " + "é" * 2000 + " at last")
        for record, words in ((1, "(?s)test_worker.py.*with_a_name.*\n.*work.look_up.*\ngradus.*UseError: keys of \"none\""),
                              (0, "(?s)test_worker.py\", line [0-9]+, in on_batch\n.*\nValueError: at first é+ … é+ at last$")):
            f = FakeWorker(serve(on_batch))
            f.job()
            f.start()
            with self.assertRaises(ProgramFailed) as failed:
                f.gradient([record])
            f.end(quiet=True)
            self.assertRegex(told(str(failed.exception)), words)
            self.assertNotRegex(str(failed.exception), "gradus/worker.py")

    def test_reasons(self):
        def on_batch(work):
            work.fail("not today\0" if work.records[0] else ValueError("é"))
        with FakeWorker(serve(on_batch)) as f:
            f.job()
            f.start()
            with self.assertRaisesRegex(ProgramFailed, "^not today[?]$"):
                f.gradient([1])
            with self.assertRaisesRegex(ProgramFailed, "^ValueError: é$"):
                f.gradient([0])

    def test_a_worker_that_dies(self):
        ended = []

        def program():
            with gradus.Worker() as worker:
                ended.extend(worker)  # between jobs: that is how it ends
        f = FakeWorker(program)
        f.socket.close()
        f.thread.join(60)
        self.assertEqual((ended, f.raised), ([], None))
        f = FakeWorker(serve(lambda work: None))
        f.job()
        f.start()
        f.socket.close()
        f.thread.join(60)
        self.assertIsInstance(f.raised, gradus.LostError)

    def test_the_layer_is_quick(self):
        times, yardstick, raw = [], [], bytearray(64)

        def naive():
            """As many views as a batch has, made anew."""
            begin = time.thread_time()
            for i in range(100):
                numpy.frombuffer(raw, "f4", 3).reshape(3)
            yardstick.append(time.thread_time() - begin)

        def program():
            with gradus.Worker() as worker:
                real, done = worker._next, worker._done
                spent = 0.0

                def waits(*arguments):
                    nonlocal spent
                    begin = time.thread_time()
                    status = real(*arguments)
                    spent += time.thread_time() - begin
                    return status

                def answers(*arguments):
                    nonlocal spent
                    begin = time.thread_time()
                    status = done(*arguments)
                    spent += time.thread_time() - begin
                    return status
                worker._next, worker._done = waits, answers
                begin = time.thread_time()
                for work in worker:
                    if work.kind == gradus.JOB:
                        work.describe({f"v{i}": numpy.zeros(3, "f4") for i in range(50)})
                    elif work.kind == gradus.GRADIENT:
                        for name, gradient in work.gradients.items():
                            work.parameters[name]
                        work.done(1.0, correct=3)
                    now = time.thread_time()
                    times.append(now - begin - spent)
                    naive()  # beside each: whatever the machine does, it does to both
                    begin, spent = time.thread_time(), 0.0
        with FakeWorker(program) as f:
            f.job()
            f.start((28, 28), True, True)
            for _ in range(300):
                f.ask(GRADIENT, range(64))
        layer, views = (sorted(t)[len(t) // 2] for t in (times, yardstick))
        print(f"medians: the Python layer {layer * 1e6:.1f} us a batch, 100 views {views * 1e6:.1f} us")
        self.assertLess(layer, NAIVE_MAX * views)


class Mistakes(unittest.TestCase):
    def wrong(self, call, words):
        """`call(work)` with a JOB raises UseError with `words`, and the job can be described all the same."""
        raised = []

        def program():
            with gradus.Worker() as worker:
                for work in worker:
                    if work.kind == gradus.JOB:
                        try:
                            call(work)
                        except gradus.UseError as e:
                            raised.append(str(e))
                        work.describe(model())
        with FakeWorker(program) as f:
            f.job()
        self.assertEqual(len(raised), 1, words)
        self.assertRegex(raised[0], words)

    def test_descriptions(self):
        nan = numpy.array([1, numpy.nan], "f4")
        self.wrong(lambda w: w.describe({"w": numpy.zeros(3)}), 'variable "w" is an array of float64: variables are of float32')
        self.wrong(lambda w: w.describe({"w": nan}), 'variable 0 \\("w"\\): initial value 1 is not a number')
        self.wrong(lambda w: w.describe({}), "a model has 1 to 4096 variables")
        self.wrong(lambda w: w.describe({"a b": nan[:1]}), "printing ASCII")
        self.wrong(lambda w: w.describe({"w": nan[:1]}, statistics={"w": nan[:1]}), '"w" is among the variables and')
        self.wrong(lambda w: w.describe({"w": nan[:1]}, test_records=3), "3 test records and no train records")
        self.wrong(lambda w: w.describe({"w": numpy.zeros((1,) * 5, "f4")}), "more than 4 dimensions")
        self.wrong(lambda w: w.done(1, 1), "a job is answered by gradus_worker_describe")
        self.wrong(lambda w: w._worker.next(), "the last work was not answered")

    def test_an_array_in_another_order(self):
        def program():
            with gradus.Worker() as worker:
                for work in worker:
                    if work.kind == gradus.JOB:
                        work.describe({"w": numpy.arange(6, dtype="f4").reshape(3, 2).T, "s": numpy.arange(8, dtype="f4")[::2]})
        with FakeWorker(program) as f:
            d = f.job()
            self.assertEqual(d.values["w"].tolist(), [[0, 2, 4], [1, 3, 5]])
            self.assertEqual(d.values["s"].tolist(), [0, 2, 4, 6])

    def test_answers_twice(self):
        def on_batch(work):
            work.done(1)
            with self.assertRaisesRegex(gradus.UseError, "no batch waits for an answer"):
                work.done(1)
            with self.assertRaisesRegex(gradus.UseError, "nothing waits"):
                work.fail("x")
            with self.assertRaisesRegex(gradus.UseError, "this process has opened its worker already"):
                gradus.Worker()
        with FakeWorker(serve(on_batch)) as f:
            f.job()
            f.start()
            f.gradient([1])

    def test_closed(self):
        def program():
            worker = gradus.Worker()
            worker.close()
            worker.close()
            with self.assertRaisesRegex(gradus.UseError, "closed"):
                worker.next()
        FakeWorker(program).end(quiet=True)

    def test_no_worker(self):
        os.environ.pop("GRADUS_PROGRAM_SOCKET", None)
        self.assertFalse(gradus.started_by_worker())
        with self.assertRaisesRegex(gradus.NoWorkerError, "gradus-worker --program"):
            gradus.Worker()

    def test_no_library(self):
        script = f"import sys; sys.path.insert(0, {PYTHON!r})\nimport gradus\ntry:\n gradus.Worker()\n"
        script += "except gradus.Error as e: print(type(e).__name__, e)"
        for environment, words in (({"GRADUS_LIBRARY": "/nowhere/lib.so"}, "NoWorkerError .*/nowhere/lib.so: no such file"),
                                   ({"GRADUS_LIBRARY": PYTHON + "/pyproject.toml"}, "NoWorkerError .*invalid ELF header"),
                                   ({"GRADUS_LIBRARY": "libc.so.6"}, "NoWorkerError .*no such file"),
                                   ({"GRADUS_BIN": "/nowhere"}, "NoWorkerError .*install Gradus, or set GRADUS_BIN")):
            base = {k: v for k, v in os.environ.items() if not k.startswith("GRADUS")}
            done = subprocess.run([sys.executable, "-c", script], env={**base, **environment}, capture_output=True, text=True)
            self.assertRegex(done.stdout, words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
