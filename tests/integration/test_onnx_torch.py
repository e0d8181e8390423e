# SPDX-License-Identifier: Apache-2.0
"""Models that PyTorch exports as ONNX files are trained here as PyTorch trains them: after some steps of plain gradient descent on
the same batches the variables are the same, within what another order of sums changes."""

import gzip
import importlib.util
import json
import os
import struct
import unittest
import warnings

from cluster import ClusterTest, gradus, read_job

TORCH = importlib.util.find_spec("torch") is not None
if TORCH:
    import torch
    import torch.nn.functional as F
    from torch import nn

STEPS, LEARNING_RATE, RECORDS = 4, 0.1, 512
TOLERANCE = 1e-4  # of the largest change of a variable; and of the loss
JOB = """name: exported
data:
  train: {file: images, labels: labels}
  test: {file: images, labels: labels}
model: {onnx: net.onnx, loss: softmax_cross_entropy, metrics: [accuracy]}
update: {rule: sgd, learning_rate: %g}
training: {mode: sync, batch_size: %d, replicas: 1, epochs: %d, evaluate_every: never}
cluster: {workers: 1, ps: 2, partitions: 2}
""" % (LEARNING_RATE, RECORDS, STEPS)


def idx(data, dims):
    return struct.pack(f">HBB{len(dims)}I", 0, 8, len(dims), *dims) + data


def tensors_of(path):
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(length)), f.read()
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(bytearray(data[slice(*entry["data_offsets"])]), dtype=torch.float32).reshape(entry["shape"])
            for name, entry in header.items()}


if TORCH:
    class Residual(nn.Module):
        """Convolutions with batch normalisation, of which one is jumped over, and pools."""

        def __init__(self):
            super().__init__()
            self.stem, self.norm = nn.Conv2d(1, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6)
            self.conv, self.norm2 = nn.Conv2d(6, 6, 3, 1, 1, groups=2), nn.BatchNorm2d(6)
            self.last = nn.Linear(6, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 2)
            x = F.relu(self.norm2(self.conv(x)) + x)
            return self.last(F.adaptive_avg_pool2d(F.avg_pool2d(x, 3, 2, 1), 1).flatten(1))

    class Attention(nn.Module):
        """The rows of a picture as words: positions, self-attention of two heads, layer norms, GELU."""

        def __init__(self):
            super().__init__()
            self.enter, self.places = nn.Linear(28, 16), nn.Parameter(torch.randn(28, 16) / 4)
            self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
            self.norm, self.norm2, self.last = nn.LayerNorm(16), nn.LayerNorm(16), nn.Linear(16, 10)
            self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

        def heads(self, x):
            return x.reshape(-1, 28, 2, 8).transpose(1, 2)

        def forward(self, x):
            x = self.enter(x.squeeze(1)) + self.places
            q, k, v = (self.heads(part(x)) for part in (self.query, self.key, self.value))
            seen = torch.softmax(q @ k.transpose(2, 3) / 8 ** 0.5, -1) @ v
            x = self.norm(x + seen.transpose(1, 2).reshape(-1, 28, 16))
            return self.last(self.norm2(x + self.down(F.gelu(self.up(x)))).mean(1))


@unittest.skipUnless(TORCH, "PyTorch is not installed")
class Exported(ClusterTest):
    model = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torch.set_num_threads(1)
        with gzip.open(cls.shared + "/digits/train-images-idx3-ubyte.gz") as f:
            pixels = f.read()[16:16 + RECORDS * 784]
        with gzip.open(cls.shared + "/digits/train-labels-idx1-ubyte.gz") as f:
            labels = f.read()[8:8 + RECORDS]
        cls.data = os.path.join(cls.shared, "data")
        os.mkdir(cls.data)
        for name, data in ("images", idx(pixels, (RECORDS, 28, 28))), ("labels", idx(labels, (RECORDS,))):
            with open(os.path.join(cls.data, name), "wb") as f:
                f.write(data)
        cls.x = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).reshape(RECORDS, 1, 28, 28).float() / 255
        cls.y = torch.frombuffer(bytearray(labels), dtype=torch.uint8).long()

    def train_here(self, net, opset):
        """Exported as docs/onnx.md says."""
        with warnings.catch_warnings():  # of its tracing
            warnings.simplefilter("ignore")
            torch.onnx.export(net, self.x[:2], os.path.join(self.data, "net.onnx"), opset_version=opset,
                              do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING, input_names=["x"],
                              output_names=["logits"], dynamic_axes={"x": {0: "N"}, "logits": {0: "N"}})
        file = os.path.join(self.dir, "job.yaml")
        with open(file, "w", encoding="ascii") as f:
            f.write(JOB)
        done = gradus("run", file, "--json", "--state-dir", self.dir + "/state", "--set", f"data.dir={self.data}")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.export("exported-1")
        return tensors_of(os.path.join(self.dir, "state-exported-1.safetensors")), read_job(done.stdout)

    def train_there(self, net):
        net.train()
        for _ in range(STEPS):
            net.zero_grad()
            F.cross_entropy(net(self.x), self.y).backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= LEARNING_RATE * p.grad
        net.eval()
        with torch.no_grad():
            return float(F.cross_entropy(net(self.x), self.y))

    def compare(self, net, opset):
        begin = {name: p.detach().clone() for name, p in net.named_parameters()}
        here, result = self.train_here(net, opset)
        loss = self.train_there(net)
        allowed = TOLERANCE * max(float((p - begin[name]).abs().max()) for name, p in net.named_parameters())
        self.assertGreater(allowed, 1e-7)  # it has learnt something
        there = {name: t for name, t in net.state_dict().items() if t.dtype == torch.float32}
        for name, t in there.items():
            # The exporter renames weights that it transposes; which is which its values say.
            keys = [name] if name in here else [key for key in here if "::" in key and here[key].shape == t.T.shape]
            self.assertTrue(keys, f"{name} is not among {list(here)}")
            off = {float((here[key] - (t if key == name else t.T)).abs().max()): key for key in keys}
            self.assertLessEqual(min(off), allowed, name)
            del here[off[min(off)]]
        self.assertEqual(here, {})
        self.assertAlmostEqual(result["metrics"]["test"]["loss"], loss, delta=TOLERANCE)

    def test_linear_layers(self):
        torch.manual_seed(1)
        self.compare(nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ELU(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)), 13)

    def test_convolutions_with_statistics(self):
        torch.manual_seed(2)
        self.compare(Residual(), 17)

    def test_attention(self):
        for opset in 13, 17:
            torch.manual_seed(3)
            self.compare(Attention(), opset)


if __name__ == "__main__":
    unittest.main(verbosity=2)
