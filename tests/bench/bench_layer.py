#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the Python layer of worker programs costs for each batch, in microseconds of its thread's processor time: everything between
a batch that came and its answer that is neither waiting in the C library nor the user's own computation.

Usage: GRADUS_BIN=DIR bench_layer.py [--batches 3000]
Prints JSON, medians: gradus.Worker with 50 variables, and gradus.torch with a module of six tensors (where PyTorch is installed)."""

import argparse
import json
import os
import statistics
import sys
import time

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "python"), os.path.join(HERE, "..", "..", "python")]
import gradus  # noqa: E402
from fake_worker import GRADIENT, FakeWorker  # noqa: E402

now = time.thread_time


class Watch:
    """Adds up the time that functions take which it wraps; takes it away from the time between two batches."""

    def __init__(self):
        self.inside, self.begin, self.spent = 0.0, now(), []

    def wrap(self, function):
        def timed(*arguments, **named):
            begin = now()
            try:
                return function(*arguments, **named)
            finally:
                self.inside += now() - begin
        return timed

    def lap(self):
        self.spent.append(now() - self.begin - self.inside)
        self.inside, self.begin = 0.0, now()

    def median_us(self):
        laps = self.spent[len(self.spent) // 10:]  # without what is made once
        return 1e6 * statistics.median(laps)

    def without(self, wrapped):
        """Less what a lap with so many wrapped functions costs by itself: reading the clock takes a microsecond or several."""
        empty = Watch()
        nothing = empty.wrap(lambda: None)
        for _ in range(2000):
            for _ in range(wrapped):
                nothing()
            empty.lap()
        return self.median_us() - empty.median_us()


def numpy_program(watch):
    with gradus.Worker() as worker:
        worker._next, worker._done = watch.wrap(worker._next), watch.wrap(worker._done)
        for work in worker:
            if work.kind == gradus.JOB:
                work.describe({f"v{i}": numpy.zeros(3, "f4") for i in range(50)}, train_records=1000)
            elif work.kind == gradus.GRADIENT:
                for name in work.gradients:
                    work.parameters[name]
                work.done(1.0, correct=3)
            watch.lap()


def torch_program(watch):
    import torch
    from torch import nn
    import gradus.torch as gt
    torch.set_num_threads(1)

    class Task(gt.Task):
        def model(self):
            return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2))

        def dataset(self, part):
            return range(1000)

        @watch.wrap
        def collate(self, records):  # reading records is not of the layer
            return [torch.zeros(len(records), 8)]

        @watch.wrap
        def loss(self, model, batch):
            loss = model(batch[0]).sum()
            loss.backward = watch.wrap(loss.backward)
            return loss

    with gradus.Worker() as worker:
        worker._next, worker._done = watch.wrap(worker._next), watch.wrap(worker._done)
        iterate = worker.next

        def laps():
            watch.lap()
            return iterate()
        worker.next = laps
        gt.serve(Task(), worker)


def measure(program, batches, wrapped):
    watches = []

    def run():
        watches.append(Watch())
        program(watches[0])
    with FakeWorker(run) as f:
        f.job()
        f.start()
        for _ in range(batches):
            f.ask(GRADIENT, range(64))
    return watches[0].without(wrapped)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=3000)
    args = parser.parse_args()
    figures = {"gradus.Worker, 50 variables": measure(numpy_program, args.batches, 2)}
    try:
        import torch  # noqa: F401
        figures["gradus.torch, 6 parameters"] = measure(torch_program, args.batches, 5)
    except ImportError:
        pass
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
