# SPDX-License-Identifier: Apache-2.0
"""gradus.torch.load(): exported values in a module again, and what it says of files and modules that do not fit."""

import json
import os
import struct
import sys
import tempfile
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")]
try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(77)

import numpy

import gradus
import gradus.torch as gt

FROZEN = "(what the job has not trained stays as it is where requires_grad is False)"
DTYPES = {"float32": "F32", "float64": "F64", "uint64": "U64"}


class Net(nn.Module):
    """A kernel of five dimensions, a scalar, statistics, weights that are tied and some that are not trained."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(1, 2, (2, 3, 4))
        self.norm = nn.BatchNorm3d(2)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.words = nn.Embedding(5, 3)
        self.frozen = nn.Linear(3, 3).requires_grad_(False)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.words.weight
        self.register_buffer("places", torch.arange(3.0))


def arrays(*without, **others):
    """What an export of a job with a Net has."""
    shapes = {"conv.weight": (2, 1, 2, 12), "conv.bias": (2,), "norm.weight": (2,), "norm.bias": (2,), "norm.running_mean": (2,),
              "norm.running_var": (2,), "scale": (), "words.weight": (5, 3)}
    draw = numpy.random.RandomState(1)
    made = {name: draw.standard_normal(shape).astype("float32") if shape else numpy.float32(7) for name, shape in shapes.items()}
    return {name: a for name, a in {**made, **{k.replace("__", "."): v for k, v in others.items()}}.items() if name not in without}


class Load(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = os.path.join(directory.name, "model.safetensors")

    def write(self, values, meta=None):
        values = {name.replace("__", "."): a for name, a in values.items()}
        header, data = {"__metadata__": meta} if meta else {}, b""
        for name, a in sorted(values.items()):
            a = numpy.asarray(a)
            header[name] = {"dtype": DTYPES[a.dtype.name], "shape": list(a.shape), "data_offsets": [len(data), len(data) + a.nbytes]}
            data += a.tobytes()
        text = json.dumps(header).encode()
        self.write_bytes(struct.pack("<Q", len(text)) + text + data)
        return values

    def write_bytes(self, data):
        with open(self.file, "wb") as f:
            f.write(data)

    def assert_refused(self, module, *lines):
        """With these lines, and nothing was changed."""
        before = {name: t.clone() for name, t in module.state_dict().items()}
        with self.assertRaises(gradus.UseError) as caught:
            gt.load(module, self.file)
        self.assertEqual(str(caught.exception).splitlines(),
                         [f"{self.file} does not fit the module, which stays as it is:", *("  " + line for line in lines)])
        for name, t in module.state_dict().items():
            self.assertTrue(torch.equal(t, before[name]), name)

    # ---- what fits ----

    def test_values_come_back_by_name(self):
        values = self.write(arrays(), {"gradus.job": "net-1"})
        net = Net()
        before = {name: (t, t.clone(), t.data_ptr()) for name, t in net.state_dict(keep_vars=True).items()}
        self.assertIsNone(gt.load(net, self.file))
        for name, t in net.state_dict(keep_vars=True).items():
            self.assertEqual(t.data_ptr(), before[name][2], name)  # in place
            if name in values:
                self.assertTrue(numpy.array_equal(t.detach().numpy().reshape(-1), values[name].reshape(-1)), name)
            elif name != "out.weight":
                self.assertTrue(torch.equal(t, before[name][1]), name)
        self.assertIs(net.out.weight, net.words.weight)
        self.assertEqual(net.conv.weight.shape, (2, 1, 2, 3, 4))
        self.assertEqual(net.scale.item(), 7)
        self.assertEqual([net.out.weight.requires_grad, net.frozen.weight.requires_grad], [True, False])
        self.assertTrue(net.training)

    def test_a_path_and_a_module_of_another_type(self):
        values = self.write(arrays())
        net = Net().double()
        from pathlib import Path
        gt.load(net, Path(self.file))
        self.assertEqual(net.conv.bias.dtype, torch.float64)
        self.assertTrue(numpy.array_equal(net.conv.bias.detach().numpy(), values["conv.bias"].astype("float64")))

    def test_a_module_that_is_not_trained_any_more(self):
        """What was trained is in the file, whatever requires_grad says where it is used."""
        values = self.write(arrays())
        net = Net().requires_grad_(False)
        gt.load(net, self.file)
        self.assertTrue(numpy.array_equal(net.norm.bias.numpy(), values["norm.bias"]))

    def test_tied_weights_by_their_other_name(self):
        """A module that makes its layers in another order calls them after another one."""
        values = arrays("words.weight")
        self.write({**values, "out.weight": arrays()["words.weight"]})
        net = Net()
        gt.load(net, self.file)
        self.assertTrue(numpy.array_equal(net.words.weight.detach().numpy(), arrays()["words.weight"]))

    def test_statistics_that_the_job_did_not_have(self):
        """Task.statistics() may name fewer: constants of the job stay what the module makes of them."""
        self.write(arrays("norm.running_mean", "norm.running_var"))
        net = Net()
        gt.load(net, self.file)
        self.assertEqual(net.norm.running_var.tolist(), [1, 1])

    def test_a_module_inside_a_module(self):
        values = self.write({"0.weight": numpy.ones((2, 3), "float32"), "0.bias": numpy.zeros(2, "float32")})
        layer = nn.Linear(3, 2)
        gt.load(nn.Sequential(layer, nn.ReLU(), layer), self.file)
        self.assertTrue(numpy.array_equal(layer.weight.detach().numpy(), values["0.weight"]))

    # ---- tables ----

    def write_table(self, **others):
        """With one whose keys have all 64 bits, in the order of an export."""
        keys = numpy.array([2, 3, 1 << 62, (1 << 64) - 5], "uint64")
        return self.write({"users.keys": keys, "users.values": numpy.arange(8, dtype="float32").reshape(4, 2), **others})

    def test_rows_of_tables(self):
        self.write_table()
        keys, values = gt.rows(self.file, "users")
        self.assertEqual(keys.tolist(), [-5, 2, 3, 1 << 62])
        self.assertEqual((keys.dtype, values.dtype), (torch.int64, torch.float32))
        self.assertEqual(values.tolist(), [[6, 7], [0, 1], [2, 3], [4, 5]])
        self.write({"none.keys": numpy.zeros(0, "uint64"), "none.values": numpy.zeros((0, 3), "float32")})
        self.assertEqual([list(t.shape) for t in gt.rows(self.file, "none")], [[0], [0, 3]])

    def test_rows_that_are_not_there(self):
        self.write_table()
        with self.assertRaisesRegex(gradus.UseError, r"model.safetensors has no table \"items\", but \"users\"$"):
            gt.rows(self.file, "items")
        self.write(arrays())
        with self.assertRaisesRegex(gradus.UseError, r"model.safetensors has no table \"items\", nor any other$"):
            gt.rows(self.file, "items")

    def test_a_module_whose_embeddings_have_their_rows(self):
        """They are not trained there, so load() leaves them, and the table to those who read it."""
        self.write_table(top__weight=numpy.ones((1, 2), "float32"))
        model = nn.ModuleDict({"users": nn.Embedding.from_pretrained(gt.rows(self.file, "users")[1]), "top": nn.Linear(2, 1, bias=False)})
        gt.load(model, self.file)
        self.assertEqual(model["top"].weight.tolist(), [[1, 1]])
        self.assertEqual(model["users"].weight[0].tolist(), [6, 7])

    def test_a_module_whose_embeddings_lack_their_rows(self):
        self.write_table(top__weight=numpy.ones((1, 2), "float32"))
        model = nn.ModuleDict({"users": nn.Embedding(1, 2, sparse=True), "top": nn.Linear(2, 1, bias=False)})
        self.assert_refused(model, "users.weight: [1, 2] in the module, not in the file", FROZEN,
                            "(the file has tables, \"users\": gradus.torch.rows() reads them)")

    # ---- what does not ----

    def test_all_that_does_not_fit_is_said_at_once(self):
        self.write(arrays("conv.bias", "scale", words__weight=numpy.zeros((4, 3), "float32"),
                          conv__weight=numpy.zeros((2, 1, 3, 8), "float32"), head=numpy.zeros(2, "float32"),
                          norm__running_var=numpy.zeros(3, "float32")))
        self.assert_refused(Net(), "scale: [] in the module, not in the file",
                            "conv.weight: [2, 1, 2, 3, 4] in the module, [2, 1, 3, 8] in the file",
                            "conv.bias: [2] in the module, not in the file",
                            "norm.running_var: [2] in the module, [3] in the file",
                            "words.weight, out.weight: [5, 3] in the module, [4, 3] in the file",
                            "head: [2] in the file, not in the module", FROZEN)

    def test_a_parameter_that_was_frozen_in_the_job_alone(self):
        self.write(arrays())
        net = Net()
        net.frozen.weight.requires_grad_(True)
        self.assert_refused(net, "frozen.weight: [3, 3] in the module, not in the file", FROZEN)

    def test_weights_that_are_tied_here_and_were_not_there(self):
        self.write(arrays(out__weight=numpy.zeros((5, 3), "float32")))
        self.assert_refused(Net(), "words.weight, out.weight: tied in the module, 2 variables in the file")

    def test_weights_that_were_tied_there_and_are_not_here(self):
        self.write(arrays())
        net = Net()
        net.out.weight = nn.Parameter(torch.zeros(5, 3))
        self.assert_refused(net, "out.weight: [5, 3] in the module, not in the file", FROZEN)

    def test_values_of_another_type(self):
        self.write(arrays(scale=numpy.float64(1)))
        self.assert_refused(Net(), "scale: F64 in the file, where gradus export writes F32")

    def test_tensors_without_memory(self):
        self.write({"weight": numpy.zeros((2, 3), "float32"), "bias": numpy.zeros(2, "float32")})
        with self.assertRaisesRegex(gradus.UseError, r"\n  weight: no shape yet in the module: run it once\n  bias: no shape"):
            gt.load(nn.LazyLinear(2), self.file)
        with self.assertRaisesRegex(gradus.UseError, r"\n  weight: on the device meta in the module, without values\n"):
            gt.load(nn.Linear(3, 2, device="meta"), self.file)

    def test_no_file_and_no_module(self):
        with self.assertRaises(FileNotFoundError):
            gt.load(Net(), self.file)
        self.write(arrays())
        with self.assertRaisesRegex(gradus.UseError, r"^load\(\) is given an nn.Module and a file, not OrderedDict$"):
            gt.load(Net().state_dict(), self.file)

    def test_files_of_another_kind(self):
        for data in b"", b"\x08\0\0\0", b"\x08\x01\x12\x07pytorch" * 9, struct.pack("<Q", 1 << 40) + b"{}", struct.pack("<Q", 2) + b"[]", \
                struct.pack("<Q", 4) + b"\xff\xff{}", struct.pack("<Q", 100000) + b"[" * 100000:
            self.write_bytes(data)
            with self.assertRaisesRegex(gradus.UseError, r"model.safetensors is no safetensors file, as gradus export JOB "
                                        r"FILE.safetensors writes it$"):
                gt.load(Net(), self.file)

    def test_damaged_files(self):
        self.write(arrays())
        with open(self.file, "rb") as f:
            whole = f.read()
        self.write_bytes(whole[:-4])
        with self.assertRaisesRegex(gradus.UseError, r"model.safetensors is damaged: words.weight ends at \d+, and there are \d+ bytes"):
            gt.load(Net(), self.file)
        for wrong in ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
                      {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}, {"dtype": "F32", "data_offsets": [0, 4]}, 3,
                      {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}):
            text = json.dumps({"scale": wrong}).encode()
            self.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * 4)
            with self.assertRaisesRegex(gradus.UseError, r"model.safetensors is damaged: "):
                gt.load(Net(), self.file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
