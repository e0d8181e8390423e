# SPDX-License-Identifier: Apache-2.0
"""A worker program of the tests with sparse tables: clicks of users on items with NumPy, on records of its own or of the job's
data. It misbehaves as numpy_program.py does, and in ways that only tables have (--what)."""

import argparse
import os
import sys
import time

import numpy

import gradus

TRAIN, TEST, USERS, ITEMS, BASKET = 2000, 500, 300, 150, 3
KEY = numpy.uint64(0x9E3779B97F4A7C15)  # keys are spread over 64 bits
DIMS = {"users": 4, "items": 2}


def ids(records, part):
    """Keys of the user, [n], and of the items, [n, BASKET], of which some come twice; and the label."""
    numbers = numpy.random.RandomState(part)
    users = numbers.randint(0, USERS, TRAIN)[records].astype("uint64")
    items = numbers.randint(0, ITEMS, (TRAIN, BASKET))[records].astype("uint64")
    even = (items % 2 == 0).sum(1) * 2 > BASKET
    clicked = (users % 2 == 0) ^ even
    return users * KEY, items * KEY, clicked.astype("float32")


def of_data(work):
    """The same from the job's data, with the sparse fields 0 (one user) and 1 (different items)."""
    users, items = work.fields["0"], work.fields["1"]
    assert work.targets is not None and (numpy.diff(users.offsets) == 1).all()
    count = work.records.size
    lists = [items.keys[items.offsets[i]:items.offsets[i + 1]] for i in range(count)]
    return users.keys[users.offsets[0]:users.offsets[count]], numpy.stack(lists), work.targets


def compute(work, labels):
    u = work.rows["users"][work.index["users"]]
    v = work.rows["items"][work.index["items"]].reshape(len(labels), -1, DIMS["items"])
    mixed, scale, bias = work.parameters["mixed"], work.parameters["scale"], work.parameters["bias"]
    pooled = v.sum(1)
    left = (u[:, :, None] * mixed[None]).sum(1)  # [n, 2]; without BLAS
    logit = (left * pooled).sum(1) + (u * scale[None]).sum(1) + bias
    p = 1 / (1 + numpy.exp(-logit))
    loss = numpy.maximum(logit, 0) - logit * labels + numpy.log1p(numpy.exp(-numpy.abs(logit)))
    if work.row_gradients is not None:
        d = (p - labels)[:, None]
        work.gradients["mixed"][:] = (u[:, :, None] * (d * pooled)[:, None, :]).sum(0)
        work.gradients["scale"][:] = (u * d).sum(0)
        work.gradients["bias"][...] = d.sum()
        du = d * (mixed[None] * pooled[:, None, :]).sum(2) + d * scale[None]
        dv = numpy.repeat((d * left)[:, None, :], v.shape[1], 1).reshape(-1, DIMS["items"])
        assert not work.row_gradients["users"].any() and not work.row_gradients["items"].any()
        numpy.add.at(work.row_gradients["users"], work.index["users"], du.astype("float32"))
        numpy.add.at(work.row_gradients["items"], work.index["items"], dv.astype("float32"))
    return loss.sum(dtype="float64"), ((p > 0.5) == labels).sum()


def once(options):
    try:
        os.close(os.open(options.once, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def keys(options, work, users, items):
    answer = {"users": users, "items": items}
    if options.what == "keys-raise" and work.of == gradus.GRADIENT and options.seen > 30:
        raise ValueError("these keys have a mistake in them")
    if options.what == "keys-float" and options.seen > 30:
        answer["users"] = users.astype("float64")
    if options.what == "keys-exit" and options.seen == 31 and once(options):
        sys.exit(3)
    options.seen += 1
    work.look_up(answer)


def serve(options, work):
    users, items, labels = of_data(work) if work.fields else ids(work.records, {gradus.EVALUATION: 2}.get(work.of or work.kind, 1))
    if work.kind == gradus.KEYS:
        keys(options, work, users, items)
        return
    if work.kind == gradus.GRADIENT:
        time.sleep(options.sleep_ms / 1000)
    assert (work.keys["users"][work.index["users"]] == users).all()
    assert (work.keys["items"][work.index["items"]] == items.reshape(-1)).all()
    loss, right = compute(work, labels)
    if options.what == "nan" and work.kind == gradus.GRADIENT and work.step == 7:
        work.row_gradients["items"][0, 1] = float("nan")
    work.done(loss, correct=right)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pids")
    parser.add_argument("--sleep-ms", type=float, default=0)
    parser.add_argument("--what", choices=("keys-raise", "keys-float", "keys-exit", "nan", "dims", "forgets"))
    parser.add_argument("--once", help="file that says that it was done")
    parser.add_argument("--data", action="store_true")
    options = parser.parse_args()
    options.seen = 0
    with open(os.path.join(options.pids, str(os.getpid())), "w", encoding="utf-8"):
        pass
    tables = {"items": DIMS["items"], "users": 8 if options.what == "dims" else DIMS["users"]}  # not in the job's order
    if options.what == "forgets":
        del tables["users"]
    numbers = {} if options.data else {"train_records": TRAIN, "test_records": TEST}
    with gradus.Worker("tables") as worker:
        for work in worker:
            try:
                if work.kind == gradus.JOB:
                    mixed = numpy.random.RandomState(work.job.seed).randn(4, 2).astype("float32")
                    work.describe({"mixed": mixed, "scale": numpy.full(4, 0.5, "float32"), "bias": numpy.zeros((), "float32")},
                                  tables=tables, **numbers)
                elif work.kind != gradus.JOB_END:
                    serve(options, work)
            except (ValueError, gradus.UseError) as e:
                work.fail(e)


if __name__ == "__main__":
    main()
