# SPDX-License-Identifier: Apache-2.0
"""IDX files (MNIST's format, also gzipped) as tensors."""

import gzip
import os
import struct

import numpy
import torch
from torch.utils.data import TensorDataset

FILES = {"train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
         "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")}


def read(path):
    """The bytes of one file, in its shape; `path` or `path`.gz."""
    name = path if os.path.exists(path) else path + ".gz"
    with (gzip.open if name.endswith(".gz") else open)(name, "rb") as f:
        _, kind, rank = struct.unpack(">HBB", f.read(4))
        if kind != 8:
            raise ValueError(f"{name} has elements of type {kind:#x}; these scripts read bytes (0x08)")
        shape = struct.unpack(f">{rank}I", f.read(4 * rank))
        return numpy.frombuffer(f.read(), numpy.uint8).reshape(shape)


def dataset(directory, part):
    """Images from 0 to 1 as float32 [n, 1, rows, columns], and the numbers of their classes."""
    images, labels = (read(os.path.join(directory, name)) for name in FILES[part])
    return TensorDataset(torch.from_numpy(images.astype("float32") / 255).unsqueeze(1), torch.from_numpy(labels.astype("int64")))
