#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Models in PyTorch, trained by Gradus's workers or by PyTorch alone: what bench_programs.py compares.

Usage: torch_tasks.py mlp|resnet|dlrm DATA                             a worker's program
       torch_tasks.py mlp|resnet|dlrm DATA --alone BATCH EPOCHS SEED   without Gradus; prints JSON: examples_per_second, accuracy

mlp: 784-256-128-10; DATA is a directory of four IDX files. resnet: three stages of one residual block of 16, 32 and 64 channels, with
batch normalisation; DATA is a directory of train*.bin and test*.bin, also .bin.gz, records like CIFAR-10's (a label, 3 x 32 x 32
bytes). dlrm: 13 numbers through two layers, 26 fields through one embedding bag, products of all pairs, three layers; it draws its
records itself."""

import glob
import gzip
import json
import os
import random
import sys
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(SOURCE, "examples", "pytorch"), os.path.join(SOURCE, "python")]
import gradus.torch as gt  # noqa: E402
import idx  # noqa: E402

LEARNING_RATE = 0.05  # of job.yaml in bench_programs.py, too


class Block(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.first = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.shortcut = nn.Conv2d(before, channels, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.second_norm(self.second(F.relu(self.first_norm(self.first(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        return self.last(self.blocks(F.relu(self.norm(self.stem(x)))).mean((2, 3)))


class Classes(gt.Task):
    """Ten classes; cross entropy."""

    def __init__(self, directory):
        self.directory = directory

    def loss(self, model, batch):
        x, y = batch
        return F.cross_entropy(model(x), y, reduction="sum")

    def metrics(self, model, batch):
        x, y = batch
        return {"accuracy": ((model(x).argmax(1) == y).sum(), len(y))}


class Mlp(Classes):
    def model(self):
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))

    def dataset(self, part):
        return idx.dataset(self.directory, part)


class Pictures(Classes):
    def model(self):
        return ResNet()

    def dataset(self, part):
        (path,) = glob.glob(os.path.join(self.directory, part + "*.bin*"))
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
            records = numpy.frombuffer(f.read(), numpy.uint8).reshape(-1, 1 + 3072)
        pixels = records[:, 1:].astype("float32").reshape(-1, 3, 32, 32) / 255 - 0.5
        return TensorDataset(torch.from_numpy(pixels), torch.from_numpy(records[:, 0].astype("int64")))


FIELDS, FIELD_ROWS, NUMBERS, DIM = 26, 40000, 13, 16


class Dlrm(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(NUMBERS, 64), nn.ReLU(), nn.Linear(64, DIM), nn.ReLU())
        self.rows = nn.EmbeddingBag(rows, DIM, mode="sum", sparse=True)  # of a list for each field of a record: of one id, here
        pairs = torch.tril_indices(FIELDS + 1, FIELDS + 1, -1)
        self.first, self.second = pairs[0], pairs[1]
        self.top = nn.Sequential(nn.Linear(DIM + len(self.first), 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, numbers, ids):
        x = self.bottom(numbers)
        rows = self.rows(ids.view(-1), torch.arange(ids.numel())).view(-1, FIELDS, DIM)
        all_of = torch.cat([x.unsqueeze(1), rows], 1)
        products = torch.bmm(all_of, all_of.transpose(1, 2))[:, self.first, self.second]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


class Clicks(gt.Task):
    """Ids by Zipf's law; who clicks is decided by some of them and by the numbers."""

    def __init__(self, alone):
        self.count = FIELDS * FIELD_ROWS if alone else 1  # in a table rows are made when they are seen

    def model(self):
        model = Dlrm(self.count)
        with torch.no_grad():
            model.rows.weight.uniform_(-0.05, 0.05)  # as init_spread of the table
        return model

    def dataset(self, part):
        draw = numpy.random.RandomState(1 if part == "train" else 2)
        count = 102400 if part == "train" else 2048
        ids = draw.zipf(1.2, (count, FIELDS)) % FIELD_ROWS
        numbers = draw.randn(count, NUMBERS).astype("float32")
        clicked = (ids[:, :4] % 2 * 2 - 1).sum(1) + 2 * numbers[:, 0] + draw.randn(count) > 0
        ids += numpy.arange(FIELDS) * FIELD_ROWS
        return TensorDataset(*map(torch.from_numpy, (numbers, ids, clicked.astype("float32"))))

    def keys(self, model, batch):
        return {"rows": batch[1]}

    def loss(self, model, batch):
        numbers, ids, clicked = batch
        return F.binary_cross_entropy_with_logits(model(numbers, ids), clicked, reduction="sum")

    def metrics(self, model, batch):
        numbers, ids, clicked = batch
        return {"accuracy": (((model(numbers, ids) > 0) == (clicked > 0)).sum(), len(clicked))}


TASKS = {"mlp": lambda data, alone: Mlp(data), "resnet": lambda data, alone: Pictures(data), "dlrm": lambda data, alone: Clicks(alone)}


def alone(task, batch, epochs, seed):
    """What a user writes without a cluster: one thread, SGD, each epoch in an order of its own, its last batch what is left."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random.seed(seed)
    model, train, test = task.model(), task.dataset("train").tensors, task.dataset("test").tensors
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    examples, begin = 0, time.perf_counter()
    for _ in range(epochs):
        order = torch.randperm(len(train[0]))
        for at in range(0, len(order), batch):
            chosen = order[at:at + batch]
            optimizer.zero_grad(set_to_none=True)
            loss = task.loss(model, [t[chosen] for t in train]) / len(chosen)
            loss.backward()
            optimizer.step()
            loss.item()  # as somebody who watches it
            examples += len(chosen)
    seconds = time.perf_counter() - begin
    model.eval()
    with torch.no_grad():
        right, count = task.metrics(model, test)["accuracy"]
    print(json.dumps({"examples_per_second": examples / seconds, "accuracy": float(right) / count}))


def main():
    task = TASKS[sys.argv[1]](sys.argv[2], len(sys.argv) > 3)
    if len(sys.argv) > 3:
        alone(task, *(int(word) for word in sys.argv[4:7]))
    else:
        if "BENCH_KERNELS" in os.environ:
            with open(os.environ["BENCH_KERNELS"], "w") as f:
                f.write(os.environ.get("OPENBLAS_CORETYPE", ""))
        gt.worker(task)


if __name__ == "__main__":
    main()
