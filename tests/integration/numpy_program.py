# SPDX-License-Identifier: Apache-2.0
"""A worker program of the tests: softmax regression with NumPy, on records of its own, that is slow, fails, hangs or dies when
it is told to. Each process writes its number into a file of its own in the directory PIDS."""

import argparse
import os
import signal
import sys
import time

import numpy

import gradus

TRAIN, TEST, FEATURES, CLASSES = 2000, 500, 12, 3


def records(count, seed):
    numbers = numpy.random.RandomState(seed)
    x = numbers.randn(count, FEATURES).astype("float32")
    return x, (x @ numpy.random.RandomState(0).randn(FEATURES, CLASSES).astype("float32")).argmax(1)


def compute(work, x, y):
    weights, bias = work.parameters["weights"], work.parameters["bias"]
    logits = (x[:, None, :] * weights.T[None]).sum(2) + bias  # without BLAS: the same bits for any number of its threads
    logits -= logits.max(1, keepdims=True)
    p = numpy.exp(logits)
    p /= p.sum(1, keepdims=True)
    rows = numpy.arange(len(y))
    loss, right = -numpy.log(p[rows, y]).sum(), (p.argmax(1) == y).sum()
    if work.gradients is not None:
        p[rows, y] -= 1
        work.gradients["weights"][:] = (x[:, :, None] * p[:, None, :]).sum(0)
        work.gradients["bias"][:] = p.sum(0)
        work.gradients["seen.mean"][:] = x.mean(0) * numpy.float32(len(y))
    work.done(loss, correct=right)


def misbehave(options, work):
    if work.kind == gradus.EVALUATION and options.what == "raise-evaluating":
        raise ValueError("these test records have a mistake in them")
    if work.kind != gradus.GRADIENT:
        return
    time.sleep(options.sleep_ms / 1000)
    if work.step == options.at and options.what == "raise":
        raise ValueError("this batch has a mistake in it")
    if work.step == options.at and options.once:
        try:
            os.close(os.open(options.once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if options.what == "hang":
            time.sleep(3600)
        elif options.what == "exit":
            sys.exit(3)
        elif options.what == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pids")
    parser.add_argument("--sleep-ms", type=float, default=0)
    parser.add_argument("--what", choices=("raise", "raise-evaluating", "hang", "exit", "crash", "spin", "begin"))
    parser.add_argument("--at", type=int, default=5)
    parser.add_argument("--once", help="file that says that it was done")
    options = parser.parse_args()
    with open(os.path.join(options.pids, str(os.getpid())), "w", encoding="utf-8"):
        pass
    parts = {gradus.GRADIENT: records(TRAIN, 1), gradus.EVALUATION: records(TEST, 2)}
    with gradus.Worker("numpy") as worker:
        for work in worker:
            if work.kind == gradus.JOB:
                bias = numpy.full(CLASSES, options.what == "begin", "float32")
                work.describe({"weights": numpy.zeros((FEATURES, CLASSES), "float32"), "bias": bias},
                              statistics={"seen.mean": numpy.zeros(FEATURES, "float32")}, train_records=TRAIN, test_records=TEST)
            elif work.kind in parts:
                try:
                    misbehave(options, work)
                    x, y = parts[work.kind]
                    compute(work, x[work.records], y[work.records])
                except ValueError as e:
                    work.fail(e)


if __name__ == "__main__":
    main()
