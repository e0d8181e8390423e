# SPDX-License-Identifier: Apache-2.0
"""A worker program of the tests: embeddings of PyTorch in sparse tables, each kind of module and option, on records of its own.
--what says what is wrong with the task."""

import argparse

import numpy
import torch
from torch import nn

import gradus.torch as gt

COUNT = {"train": 600, "test": 120}


class Model(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.users = nn.Embedding(1, 3, sparse=True, padding_idx=0)
        self.items = nn.EmbeddingBag(1, 3, mode="mean", sparse=True)
        self.others = nn.EmbeddingBag(1, 3, mode="sum", sparse=True, include_last_offset=True)  # the items' table, too
        self.top = nn.Linear(9, 1)
        self.drop = nn.Dropout(0.1)
        if what == "dim":
            self.users = nn.Embedding(1, 4, sparse=True)
        elif what == "norm":
            self.users = nn.Embedding(1, 3, sparse=True, max_norm=1.0)
        elif what == "max":
            self.items = nn.EmbeddingBag(1, 3, mode="max", sparse=True)
        elif what == "tied":
            self.again = nn.Linear(3, 1, bias=False)
            self.again.weight = self.users.weight

    def forward(self, users, baskets):
        lists = baskets.reshape(-1)
        offsets = torch.arange(0, lists.numel() + 1, baskets.shape[1])
        weights = torch.linspace(0.5, 1.5, lists.numel())
        parts = [self.users(users), self.items(baskets), self.others(lists, offsets, per_sample_weights=weights)]
        return self.top(self.drop(torch.cat(parts, 1))).squeeze(1)


class Task(gt.Task):
    def __init__(self, what):
        self.what = what

    def model(self):
        return Model(self.what)

    def tables(self, model):
        if self.what == "module":
            return {"nobody": "items"}
        return {"others": "nowhere" if self.what == "table" else "items"}

    def dataset(self, part):
        numbers = numpy.random.RandomState(len(part))
        users = numbers.randint(0, 40, COUNT[part])  # 0 is the padding
        baskets = numbers.randint(-20, 20, (users.size, 3))  # keys are 64 bits, whatever their sign
        clicked = (users % 2 == 0) ^ (baskets[:, 0] > 0)
        return torch.utils.data.TensorDataset(*map(torch.from_numpy, (users, baskets, clicked.astype("float32"))))

    def keys(self, model, batch):
        users, baskets, _ = batch
        if self.what == "keys":
            return {"users": users[users > 0], "items": baskets}
        if self.what == "few-keys":
            return {"users": users[users > 0], "items": baskets[:, :2]}
        return None

    def loss(self, model, batch):
        users, baskets, clicked = batch
        return nn.functional.binary_cross_entropy_with_logits(model(users, baskets), clicked, reduction="sum")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--what", default="")
    gt.worker(Task(parser.parse_args().what))
