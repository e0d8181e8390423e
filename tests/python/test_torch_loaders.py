# SPDX-License-Identifier: Apache-2.0
"""gradus.torch with processes that read records: the same batches however many there are, and what becomes of their mistakes."""

import os
import signal
import sys
import tempfile
import time
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"), os.path.dirname(__file__)]
try:
    import torch
    from torch import nn
    import torch.nn.functional as F
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(77)

import numpy

import gradus.torch as gt
from fake_worker import FakeWorker, ProgramFailed, told


class Distorted(gt.Task):
    """Records of their number and of chance, if wanted; some do harm. Who reads one leaves its process id."""

    def __init__(self, directory, chance=0.0, harm=lambda number: None):
        self.directory, self.chance, self.harm = directory, chance, harm

    def model(self):
        return nn.Linear(4, 3)

    def dataset(self, part):
        return self

    def __len__(self):
        return 50

    def __getitem__(self, number):
        with open(os.path.join(self.directory, str(os.getpid())), "w", encoding="utf-8"):
            pass
        self.harm(number)
        x = torch.arange(4) * float(number) / 50 + self.chance * (torch.rand(4) + float(numpy.random.rand()))
        return {"x": x, "y": (number % 3, "not a tensor")}

    def loss(self, model, batch):
        return F.cross_entropy(model(batch["x"]), batch["y"][0], reduction="sum")


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


class Loading(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def gradients(self, loaders, chance, numbers=(7, 7, 1, 49, 20)):
        with FakeWorker(lambda: gt.worker(Distorted(self.directory, chance), loaders=loaders)) as f:
            f.job()
            f.start()
            result = [f.gradient(list(numbers), seed=seed) for seed in (5, 5, 6)]
            evaluated = f.evaluate(range(50)).loss_sum
        return [(r.loss_sum, g["weight"].tobytes()) for r, g in result], evaluated

    def test_batches_are_the_same(self):
        self.assertEqual(self.gradients(0, 0), self.gradients(3, 0))

    def test_chance_is_of_the_batch_and_the_place_in_it(self):
        one, three, eight = (self.gradients(n, 1.0) for n in (1, 3, 8))
        self.assertEqual(one, three)
        self.assertEqual(one, eight)
        (first, again, other), _ = one
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_records_are_read_by_as_many_processes_which_end(self):
        self.gradients(4, 0)
        pids = [int(name) for name in os.listdir(self.directory)]
        self.assertEqual(len(pids), 4)
        end = time.monotonic() + 60
        while not all(gone(p) for p in pids) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertTrue(all(gone(p) for p in pids))

    def harmful(self, harm, says):
        with FakeWorker(lambda: gt.worker(Distorted(self.directory, 0, harm), loaders=2)) as f:
            f.job()
            f.start()
            with self.assertRaises(ProgramFailed) as failed:
                f.gradient([1, 2, 3, 13, 4])
            for words in says:
                self.assertIn(words, told(str(failed.exception)))
            self.assertNotIn("torch_loaders.py\"", str(failed.exception).replace("test_torch_loaders.py", ""))
            result, _ = f.gradient([1, 2, 3, 4])  # the next batch is read as ever
            self.assertEqual(result.examples, 4)

    def test_a_record_that_raises(self):
        def harm(number):
            if number == 13:
                raise ValueError("a file that is no picture")
        self.harmful(harm, ["record 13 of the dataset cannot be read", "ValueError: a file that is no picture", "in harm"])

        def verbose(number):
            if number == 13:
                raise ValueError("no picture: " + "x" * 3000)
        self.harmful(verbose, ["record 13 of the dataset cannot be read", "ValueError: no picture: ", "in verbose"])

    def test_a_process_that_dies(self):
        def harm(number):
            if number == 13:
                os.kill(os.getpid(), signal.SIGSEGV)
        self.harmful(harm, ["a process that reads records (loaders=2) ended", "SIGSEGV"])

    def test_a_record_that_cannot_be_sent(self):
        class Unsent(Distorted):
            def __getitem__(self, number):
                return super().__getitem__(number) if number != 13 else {"x": (lambda: 0)}
        with FakeWorker(lambda: gt.worker(Unsent(self.directory), loaders=2)) as f:
            f.job()
            f.start()
            with self.assertRaisesRegex(ProgramFailed, "cannot be sent to another process"):
                f.gradient([1, 13])
            self.assertEqual(f.gradient([1, 2])[0].examples, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
