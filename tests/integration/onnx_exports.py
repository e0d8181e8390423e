# SPDX-License-Identifier: Apache-2.0
"""Trained models as ONNX files: written by `gradus export`, checked by ONNX's own package, computed in NumPy and, where it
is installed, by ONNX Runtime, and compared with `gradus predict`."""

import csv
import json
import os
import sys

from cluster import ClusterTest, gradus
from test_predict import read_csv

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

TOLERANCE = 1e-5


def metadata(model):
    return {p.key: p.value for p in model.metadata_props}


class Exports(ClusterTest):
    model = {}

    def train(self, text, rows=None, **sets):
        file = os.path.join(self.dir, "job.yaml")
        with open(file, "w") as f:
            f.write(text)
        for name, part in (rows or {}).items():
            with open(os.path.join(self.dir, name), "w", newline="") as f:
                if isinstance(part, str):
                    f.write(part)
                else:
                    out = csv.DictWriter(f, list(part[0]))
                    out.writeheader()
                    out.writerows(part)
        return self.run_job(file=file, data__dir=self.dir, **sets)

    def export(self, result, *more, name="model.onnx"):
        path = os.path.join(self.dir, name)
        done = gradus("export", "--from", result["checkpoint"], path, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        self.assertEqual(inferred.graph.output[0].type.tensor_type.shape.dim[0].dim_param, "batch")
        self.assertEqual((model.ir_version, model.producer_name), (8, "gradus"))
        self.assertEqual(metadata(model)["gradus.job"], result["job"])
        self.assertEqual(metadata(model)["gradus.step"], str(result["steps"]))
        return path, model

    def predict(self, result, data):
        out = os.path.join(self.dir, "answers.csv")
        done = gradus("predict", result["checkpoint"], "--data", data, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_csv(out)

    def compare(self, exported, inputs, answers):
        """Both ways of computing the file against lines of `gradus predict`; absolute, or of values their spread."""
        path, model = exported
        classes = metadata(model).get("gradus.classes")
        columns = ["p_" + name for name in json.loads(classes)] if classes else ["value"]
        expected = np.array([[float(a[c]) for c in columns] for a in answers])
        output = model.graph.output[0].name
        self.assertEqual(output, "probabilities" if classes else "value")
        self.assertEqual({i.name for i in model.graph.input}, set(inputs))
        ways = {"NumPy": onnx_numpy.run(model, inputs)[output]}
        if onnxruntime is not None:
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            ways["ONNX Runtime"] = session.run([output], inputs)[0]
            half = {name: x[:len(x) // 2] for name, x in inputs.items()}
            self.assertEqual(len(session.run([output], half)[0]), len(expected) // 2)
        for how, got in ways.items():
            self.assertEqual(got.shape, expected.shape)
            difference = np.abs(got - expected).max() / (1 if classes else expected.std())
            print(f"{self.id().rsplit('.', 1)[1]}: {how}: {difference:.2e}")
            self.assertLess(difference, TOLERANCE)

    def refused(self, result, code, part, *args, name="refused.onnx"):
        done = gradus("export", "--from", result["checkpoint"], os.path.join(self.dir, name), *args)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(part, " ".join(done.stderr.split()))
        self.assertFalse(os.path.exists(os.path.join(self.dir, name)))
