# SPDX-License-Identifier: Apache-2.0
"""Fashion-MNIST, learnt by a convolutional network with batch normalisation and dropout in PyTorch.

    gradus run examples/pytorch/fashion_mnist.yaml --worker "python3 examples/pytorch/fashion_mnist.py DIRECTORY"

DIRECTORY has the four IDX files (train-images-idx3-ubyte.gz ...)."""

import argparse

import torch.nn.functional as F
from torch import nn

import gradus.torch as gt
import idx


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.second, self.second_norm = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.dropout, self.last = nn.Dropout(0.25), nn.Linear(32 * 7 * 7, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first_norm(self.first(x))), 2)
        x = F.max_pool2d(F.relu(self.second_norm(self.second(x))), 2)
        return self.last(self.dropout(x.flatten(1)))


class FashionMnist(gt.Task):
    def __init__(self, directory):
        self.directory = directory

    def model(self):
        return Net()

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
    parser.add_argument("directory", help="of the four IDX files")
    parser.add_argument("--master", help="host:port; default: as gradus-worker finds it")
    parser.add_argument("--threads", type=int, default=1, help="of torch; they decide bits")
    arguments = parser.parse_args()
    gt.worker(FashionMnist(arguments.directory), master=arguments.master, threads=arguments.threads)
