# SPDX-License-Identifier: Apache-2.0
"""Layers of every kind, with every value of their parameters, as ONNX files: the checker and the shape inference of ONNX's
own package accept them, and NumPy, and ONNX Runtime where it is installed, compute from them what our runner does."""

import collections
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    import onnx_numpy
except ImportError as error:
    print(f"skipped: {error} (Debian: python3-onnx)")
    sys.exit(0)
try:
    import onnxruntime
except ImportError:
    onnxruntime = None

WRITER = sys.argv.pop(1)
TOLERANCE = 1e-5


def read_inputs(model, stem):
    inputs = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        kind = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.INT64: np.int64}[tensor.elem_type]
        dims = [d.dim_value for d in tensor.shape.dim[1:]]
        records = 5
        array = np.fromfile(f"{stem}.{value.name}", dtype=kind)
        dims = [d if d > 0 else array.size // records for d in dims]
        inputs[value.name] = array.reshape([records] + dims)
    return inputs


class Layers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Every file is synced, which is for nothing here.
        cls.directory = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        subprocess.run([WRITER, cls.directory.name], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(cls.directory.name, "cases.txt"), encoding="utf-8") as f:
            cls.cases = [line.rstrip("\n").split("\t") for line in f]

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def written(self):
        for number, what, how in self.cases:
            if how == "written":
                yield os.path.join(self.directory.name, number), what

    def test_every_kind_is_written(self):
        written = collections.Counter()
        for _, what, how in self.cases:
            kind = what.split(" ", 1)[0]
            if how == "written":
                written[kind] += 1
            else:  # it says nothing of ONNX
                self.assertIn(f"{kind} cannot be written as ONNX; ", how)
        self.assertGreater(len(written), 20)
        self.assertGreaterEqual(set(written), {"embedding", "linear", "fm"})

    def test_checker_and_shapes(self):
        for stem, what in self.written():
            with self.subTest(what):
                onnx.checker.check_model(f"{stem}.onnx", full_check=True)
                model = onnx.load(f"{stem}.onnx")
                self.assertEqual((model.ir_version, model.opset_import[0].version), (8, 17))
                inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
                self.assertEqual([d.dim_param or d.dim_value for d in inferred.graph.output[0].type.tensor_type.shape.dim],
                                 ["batch", 3])
                names = [t.name for t in model.graph.initializer] + [n.output[0] for n in model.graph.node]
                self.assertEqual(len(names), len(set(names)))

    def test_values_in_numpy(self):
        worst = collections.Counter()
        for stem, what in self.written():
            with self.subTest(what):
                model = onnx.load(f"{stem}.onnx")
                answers = onnx_numpy.run(model, read_inputs(model, stem))["probabilities"]
                expected = np.fromfile(f"{stem}.y", dtype=np.float32).reshape(answers.shape)
                self.assertTrue(np.isfinite(expected).all())
                kind = what.split(" ", 1)[0]
                worst[kind] = max(worst[kind], float(np.abs(answers - expected).max()))
                self.assertLess(np.abs(answers - expected).max(), TOLERANCE)
        print("NumPy, largest difference by kind:", dict(worst))

    @unittest.skipIf(onnxruntime is None, "onnxruntime is not installed")
    def test_values_in_onnx_runtime(self):
        worst = collections.Counter()
        for stem, what in self.written():
            with self.subTest(what):
                session = onnxruntime.InferenceSession(f"{stem}.onnx", providers=["CPUExecutionProvider"])
                model = onnx.load(f"{stem}.onnx")
                given = {i.name for i in session.get_inputs()}
                answers = session.run(None, {k: v for k, v in read_inputs(model, stem).items() if k in given})[0]
                expected = np.fromfile(f"{stem}.y", dtype=np.float32).reshape(answers.shape)
                kind = what.split(" ", 1)[0]
                worst[kind] = max(worst[kind], float(np.abs(answers - expected).max()))
                self.assertLess(np.abs(answers - expected).max(), TOLERANCE)
        print("ONNX Runtime, largest difference by kind:", dict(worst))

    def test_large_constants_of_a_file_of_their_own(self):
        found = 0
        for stem, what in self.written():
            with self.subTest(what):
                model = onnx.load(f"{stem}.onnx", load_external_data=False)
                outside = [t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
                found += len(outside)
                for t in outside:
                    where = {e.key: e.value for e in t.external_data}
                    self.assertEqual(where["location"], os.path.basename(stem) + ".onnx.data")
                    self.assertEqual(int(where["offset"]) % 4096, 0)
                    self.assertGreaterEqual(int(where["length"]), 1024)
        self.assertGreater(found, 4)


if __name__ == "__main__":
    unittest.main()
