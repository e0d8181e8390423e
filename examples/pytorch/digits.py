# SPDX-License-Identifier: Apache-2.0
"""Digits that Gradus draws, learnt by a small network in PyTorch.

    gradus generate digits --out digits
    gradus run examples/pytorch/digits.yaml --worker "python3 examples/pytorch/digits.py digits"

or, beside a master that runs, on each host that is to compute: python3 examples/pytorch/digits.py digits --master HOST:PORT"""

import argparse

import torch.nn.functional as F
from torch import nn

import gradus.torch as gt
import idx


class Digits(gt.Task):
    def __init__(self, directory):
        self.directory = directory

    def model(self):
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def dataset(self, part):
        return idx.dataset(self.directory, part)

    def loss(self, model, batch):
        images, labels = batch
        return F.cross_entropy(model(images), labels, reduction="sum")

    def metrics(self, model, batch):
        images, labels = batch
        return {"accuracy": ((model(images).argmax(1) == labels).sum(), len(labels))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", help="of the files that `gradus generate digits` has written")
    parser.add_argument("--master", help="host:port; default: as gradus-worker finds it")
    arguments = parser.parse_args()
    gt.worker(Digits(arguments.directory), master=arguments.master)
