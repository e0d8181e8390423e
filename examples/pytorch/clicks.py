# SPDX-License-Identifier: Apache-2.0
"""Clicks of users on items with PyTorch: embeddings with sparse=True, whose rows lie in sparse tables of the cluster.

    gradus run examples/pytorch/clicks.yaml --worker "python3 examples/pytorch/clicks.py"

On a cluster run it beside a gradus-worker, or as one: python3 clicks.py --master MASTER:7000"""

import argparse

import numpy
import torch
import torch.nn.functional as F
from torch import nn

import gradus.torch as gt

USERS, ITEMS = 1000, 300


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        # How a row begins, how many there may be and who gets one is said in the job (model.tables: users, items). The size
        # that PyTorch wants to hear, 1, means nothing here.
        self.users = nn.Embedding(1, 8, sparse=True)
        self.items = nn.EmbeddingBag(1, 8, mode="mean", sparse=True)
        self.top = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, users, baskets):
        return self.top(torch.cat([self.users(users), self.items(baskets)], 1)).squeeze(1)


class ClicksTask(gt.Task):
    def model(self):
        return Clicks()

    def dataset(self, part):
        """Users, three items that each of them saw together, and whether they clicked: when both are even, or both odd."""
        numbers = numpy.random.RandomState(1 if part == "train" else 2)
        users = numbers.randint(0, USERS, 20000 if part == "train" else 2000)
        baskets = numbers.randint(0, ITEMS, (users.size, 3))
        clicked = (users % 2 == 0) == ((baskets % 2 == 0).sum(1) > 1)
        return torch.utils.data.TensorDataset(*map(torch.from_numpy, (users, baskets, clicked.astype("float32"))))

    def keys(self, model, batch):
        """What a batch looks up. Without this the model would be run once more, to see it."""
        users, baskets, _ = batch
        return {"users": users, "items": baskets}

    def loss(self, model, batch):
        users, baskets, clicked = batch
        return F.binary_cross_entropy_with_logits(model(users, baskets), clicked, reduction="sum")

    def metrics(self, model, batch):
        users, baskets, clicked = batch
        return {"accuracy": (((model(users, baskets) > 0) == (clicked > 0)).sum(), len(clicked))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--master")
    gt.worker(ClicksTask(), master=parser.parse_args().master)
