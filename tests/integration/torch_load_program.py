# SPDX-License-Identifier: Apache-2.0
"""A worker program of the tests: a module of PyTorch with all that is not a plain variable of a job: a kernel of five dimensions,
running statistics, a scalar, weights that are tied and a layer that is not trained, whose values are drawn."""

import torch
import torch.nn.functional as F
from torch import nn

import gradus.torch as gt

COUNT = {"train": 400, "test": 150}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv3d(1, 6, (2, 3, 3)), nn.BatchNorm3d(6)
        self.fixed = nn.Linear(6, 6).requires_grad_(False)
        self.mix, self.again = nn.Linear(6, 6), nn.Linear(6, 6)
        self.again.weight = self.mix.weight
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x))).mean((2, 3, 4))
        return self.out(self.again(F.relu(self.mix(x + self.fixed(x)))) * self.scale)


class Clips(gt.Task):
    def model(self):
        return Net()

    def dataset(self, part):
        draw = torch.Generator().manual_seed(len(part))
        kinds = torch.randint(2, (COUNT[part],), generator=draw)
        clips = torch.randn(COUNT[part], 1, 3, 5, 5, generator=draw) * 3 + 2 * kinds.view(-1, 1, 1, 1, 1)
        return torch.utils.data.TensorDataset(clips, kinds)

    def loss(self, model, batch):
        x, y = batch
        return F.cross_entropy(model(x), y, reduction="sum")

    def metrics(self, model, batch):
        x, y = batch
        return {"accuracy": ((model(x).argmax(1) == y).sum(), len(y))}


if __name__ == "__main__":
    gt.worker(Clips())
