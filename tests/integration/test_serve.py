# SPDX-License-Identifier: Apache-2.0
"""gradus-serve: the answers are those of `gradus predict`, whatever the request looks like; what is wrong with one is said
and harms no other; newer checkpoints are served without a gap; the end waits for what is going on."""

import concurrent.futures
import csv
import gzip
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

import grpc

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from cluster import BIN, SOURCE, ClusterTest, gradus  # noqa: E402
from rpc_python import Protos  # noqa: E402
from test_predict import FLOWERS, HOUSES, KINDS, flowers  # noqa: E402
from test_tables import JOB as JOB_OF_TABLES, click_lines  # noqa: E402

PROTOS = Protos(os.environ["GRADUS_DESCRIPTORS"])
METHOD = "/inference.GRPCInferenceService/"


def message(kind, /, **fields):
    return PROTOS["inference." + kind](**fields)


class Client:
    def __init__(self, service, name="", channel=None):
        self.name = name
        self.channel = channel or grpc.insecure_channel(service.address)

    def close(self):
        self.channel.close()

    def call(self, method, request, timeout=30):
        return self.channel.unary_unary(
            METHOD + method, request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=PROTOS[f"inference.{method}Response"].FromString)(request, timeout=timeout)

    def failure(self, request, method="ModelInfer"):
        try:
            self.call(method, request)
        except grpc.RpcError as e:
            return e.code().name, e.details()
        return "OK", ""

    def infer(self, inputs, raw=(), outputs=(), **more):
        return self.call("ModelInfer", self.request(inputs, raw, outputs, **more))

    def request(self, inputs, raw=(), outputs=(), **more):
        q = message("ModelInferRequest", model_name=more.pop("name", self.name), raw_input_contents=raw, **more)
        for name, datatype, shape, contents in inputs:
            t = q.inputs.add(name=name, datatype=datatype, shape=shape)
            for kind, values in contents.items():
                getattr(t.contents, kind).extend(values)
        for name in outputs:
            q.outputs.add(name=name)
        return q


def texts(raw):
    out, at = [], 0
    while at < len(raw):
        (n,) = struct.unpack_from("<I", raw, at)
        out.append(raw[at + 4:at + 4 + n].decode())
        at += 4 + n
    return out


def floats(raw):
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


def raw_texts(words):
    return b"".join(struct.pack("<I", len(w.encode())) + w.encode() for w in words)


class ServeTest(ClusterTest):
    model = {}

    def train(self, text, files, **sets):
        file = os.path.join(self.dir, "job.yaml")
        with open(file, "w") as f:
            f.write(text)
        for name, content in files.items():
            with open(os.path.join(self.dir, name), "w", newline="") as f:
                f.write(content)
        return self.run_job(file=file, data__dir=self.dir, training__epochs=4, **sets)

    def serve(self, result, *args):
        service = self.start("serve", f"--checkpoint={result['checkpoint']}", *args)
        client = Client(service, result["job"])
        self.addCleanup(client.close)
        return service, client

    def predict(self, result, data, *more):
        out = os.path.join(self.dir, "answers.csv")
        done = gradus("predict", result["checkpoint"], "--data", data, "--out", out, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, newline="") as f:
            return list(csv.DictReader(f))

    def assert_near(self, a, b, tolerance=2e-6):
        self.assertEqual(len(a), len(b))
        for x, y in zip(a, b):
            self.assertLessEqual(abs(x - y), tolerance * max(1, abs(y)))

    def metrics(self, service):
        page = urllib.request.urlopen(f"http://{service.http}/metrics", timeout=120).read().decode()
        return {name: float(value) for name, value in re.findall(r"^gradus_(serve_\w+) (\S+)$", page, re.M)}


def csv_text(rows):
    names = list(rows[0])
    lines = [",".join(names)] + [",".join('"' + row[n].replace('"', '""') + '"' for n in names) for row in rows]
    return "\n".join(lines) + "\n"


class Answers(ServeTest):
    def test_images(self):
        result = self.run_job(file=SOURCE + "/examples/digits.yaml")
        service, client = self.serve(result)
        path = self.shared + "/digits/t10k-images-idx3-ubyte.gz"
        expected = self.predict(result, path)
        with gzip.open(path) as f:
            pixels = f.read()[16:]
        values = [float(p) for p in pixels[:64 * 784]]
        raw = struct.pack(f"<{len(values)}f", *values)
        wanted = [float(e[f"p_{n}"]) for e in expected[:64] for n in range(10)]
        for shape in ([64, 28, 28], [64, 784]):
            answer = client.infer([("features", "FP32", shape, {})], [raw], id="seven")
            self.assertEqual((answer.model_name, answer.id, answer.model_version), (result["job"], "seven", "64"))
            self.assertEqual([(o.name, o.datatype, list(o.shape)) for o in answer.outputs],
                             [("probabilities", "FP32", [64, 10]), ("class", "BYTES", [64, 1])])
            self.assert_near(floats(answer.raw_output_contents[0]), wanted)
            self.assertEqual(texts(answer.raw_output_contents[1]), [e["class"] for e in expected[:64]])
        typed = client.infer([("features", "FP32", [3, 28, 28], {"fp32_contents": values[:3 * 784]})], outputs=["class"])
        self.assertEqual([o.name for o in typed.outputs], ["class"])
        self.assertEqual(texts(typed.raw_output_contents[0]), [e["class"] for e in expected[:3]])
        self.metadata(service, client, result)

    def metadata(self, service, client, result):
        self.assertTrue(client.call("ServerLive", message("ServerLiveRequest")).live)
        self.assertTrue(client.call("ServerReady", message("ServerReadyRequest")).ready)
        self.assertTrue(client.call("ModelReady", message("ModelReadyRequest", name=result["job"], version="64")).ready)
        self.assertFalse(client.call("ModelReady", message("ModelReadyRequest", name="other")).ready)
        self.assertEqual(client.call("ServerMetadata", message("ServerMetadataRequest")).name, "gradus-serve")
        model = client.call("ModelMetadata", message("ModelMetadataRequest", name=result["job"]))
        self.assertEqual(list(model.versions), ["64"])
        self.assertEqual([(t.name, t.datatype, list(t.shape)) for t in model.inputs],
                         [("features", "FP32", [-1, 28, 28])])
        self.assertEqual([(t.name, t.datatype, list(t.shape)) for t in model.outputs],
                         [("probabilities", "FP32", [-1, 10]), ("class", "BYTES", [-1, 1])])
        config = client.call("ModelConfig", message("ModelConfigRequest", name=result["job"])).config
        self.assertEqual((config.max_batch_size, [list(t.dims) for t in config.input], [list(t.dims) for t in config.output]),
                         (64, [[28, 28]], [[10], [1]]))
        seen = self.metrics(service)
        self.assertEqual((seen["serve_requests_total"], seen["serve_records_total"], seen["serve_version"]), (3, 131, 64))

    def test_categories_and_names(self):
        rows = flowers(300, 1)
        test = flowers(40, 2)
        result = self.train(FLOWERS, {"train.csv": csv_text(rows), "test.csv": csv_text(test)}, data__ignore="price")
        _, client = self.serve(result)
        expected = self.predict(result, self.dir + "/test.csv")
        numbers = [float(row[n]) for row in test for n in ("size", "width")]
        soils = [row["soil"] for row in test]
        answers = [
            client.infer([("features", "FP32", [40, 2], {}), ("soil", "BYTES", [40, 1], {})],
                         [struct.pack("<80f", *numbers), raw_texts(soils)]),
            client.infer([("soil", "BYTES", [40, 1], {"bytes_contents": [s.encode() for s in soils]}),
                          ("features", "FP32", [40, 2], {"fp32_contents": numbers})]),
        ]
        for answer in answers:
            self.assert_near(floats(answer.raw_output_contents[0]),
                             [float(e["p_" + kind]) for e in expected for kind in KINDS])
            self.assertEqual(texts(answer.raw_output_contents[1]), [e["class"] for e in expected])
        self.serve_file(result, answers[1])
        pair = [("features", "FP32", [1, 2], {}), ("soil", "BYTES", [1, 1], {})]
        for raw, part in (([b"\0" * 8, b"\4\0\0\0clay\0"], "are 1 elements"),
                          ([b"\0" * 8, b"\7\0\0\0clay"], "are 0 elements"),
                          ([b"\0" * 8, b""], "are 0 elements"),
                          ([b"\0" * 8, b"\2\0\0\0NA"], "the text of record 0 is missing"),
                          ([b"\0" * 8, b"\2\0\0\0a\0"], "has a NUL byte")):
            code, text = client.failure(client.request(pair, raw))
            self.assertEqual(code, "INVALID_ARGUMENT", text)
            self.assertIn(part, text)

    def serve_file(self, result, expected):
        """What was exported is served under the job's name and step, with the same bits."""
        file = self.dir + "/flowers.safetensors"
        self.assertEqual(gradus("export", "--from", result["checkpoint"], file).returncode, 0)
        _, client = self.serve(dict(result, checkpoint=file))
        test = flowers(40, 2)
        answer = client.infer([("soil", "BYTES", [40, 1], {"bytes_contents": [row["soil"].encode() for row in test]}),
                               ("features", "FP32", [40, 2],
                                {"fp32_contents": [float(row[n]) for row in test for n in ("size", "width")]})])
        self.assertEqual(answer, expected)
        done = subprocess.run([f"{BIN}/gradus-serve", f"--checkpoint={file}", "--follow"], capture_output=True, text=True,
                              timeout=120)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--follow looks for newer checkpoints in a directory", done.stderr)

    def test_values(self):
        rows, test = flowers(300, 1), flowers(40, 2)
        result = self.train(HOUSES, {"train.csv": csv_text(rows), "test.csv": csv_text(test)})
        _, client = self.serve(result, "--model-name=houses")
        client.name = "houses"
        expected = self.predict(result, self.dir + "/test.csv")
        numbers = [float(row[n]) for row in test for n in ("size", "width")]
        answer = client.infer([("features", "FP32", [40, 2], {})], [struct.pack("<80f", *numbers)])
        self.assertEqual(answer.outputs[0].name, "value")
        self.assert_near(floats(answer.raw_output_contents[0]), [float(e["value"]) for e in expected])

    def test_keys(self):
        """Lists of keys in tables; of each field as many as the request has for all of its records."""
        lines = [re.sub(r":0\.5\b", ":1", line) for line in click_lines(40, 2)]
        result = self.train(JOB_OF_TABLES, {"train": "".join(click_lines(600, 1)), "test": "".join(lines)})
        _, client = self.serve(result)
        expected = self.predict(result, self.dir + "/test")
        keys = [[int(word.split(":")[1]) for word in line.split()[1:]] for line in lines]
        for datatype, code, typed in (("UINT64", "Q", "uint64_contents"), ("INT64", "q", "int64_contents")):
            inputs = [(str(f), datatype, [40, 1], {}) for f in range(6)]
            raw = [struct.pack(f"<40{code}", *(k[f] for k in keys)) for f in range(6)]
            answers = [client.infer(inputs, raw),
                       client.infer([(str(f), datatype, [40, 1], {typed: [k[f] for k in keys]}) for f in range(6)])]
            for answer in answers:
                self.assert_near(floats(answer.raw_output_contents[0]),
                                 [float(e[p]) for e in expected for p in ("p_0", "p_1")], 1e-5)
        none = client.infer([(str(f), "UINT64", [1, 0], {}) for f in range(6)])  # empty lists
        self.assertEqual(list(none.outputs[0].shape), [1, 2])


class Wrong(ServeTest):
    def test_what_is_wrong(self):
        rows = flowers(200, 1)
        result = self.train(FLOWERS.replace("  categorical: soil\n", ""),
                            {"train.csv": csv_text(rows), "test.csv": csv_text(rows[:20])}, data__ignore="price,soil")
        service, client = self.serve(result, "--batch-max=4")
        good = [("features", "FP32", [2, 2], {})]
        two = struct.pack("<4f", 1, 2, 3, 4)

        def typed(**contents):
            return [("features", "FP32", [2, 2], contents)]
        wrong = [
            ("NOT_FOUND", 'model "other" is not served here; "flowers-1" is', dict(inputs=good, raw=[two], name="other")),
            ("NOT_FOUND", 'version "7" of the model', dict(inputs=good, raw=[two], model_version="7")),
            ("INVALID_ARGUMENT", "15 bytes of raw contents, expected 16 (4 elements of 4 bytes)",
             dict(inputs=good, raw=[two[:15]])),
            ("INVALID_ARGUMENT", "0 elements in contents", dict(inputs=good)),
            ("INVALID_ARGUMENT", "has contents, and the request has raw_input_contents",
             dict(inputs=typed(fp32_contents=[1, 2, 3, 4]), raw=[two])),
            ("INVALID_ARGUMENT", "2 raw_input_contents for 1 inputs", dict(inputs=good, raw=[two, two])),
            ("INVALID_ARGUMENT", "3 elements in contents, 3 of them in fp32_contents; expected 4",
             dict(inputs=typed(fp32_contents=[1, 2, 3]))),
            ("INVALID_ARGUMENT", "5 elements in contents, 4 of them in fp32_contents",
             dict(inputs=typed(fp32_contents=[1, 2, 3, 4], int_contents=[1]))),
            ("INVALID_ARGUMENT", "4 elements in contents, 0 of them in fp32_contents",
             dict(inputs=typed(fp64_contents=[1, 2, 3, 4]))),
            ("INVALID_ARGUMENT", 'its datatype is "FP64", expected FP32',
             dict(inputs=[("features", "FP64", [2, 2], {})], raw=[two * 2])),
            ("INVALID_ARGUMENT", "its shape is [2, 3], expected [records, 2]",
             dict(inputs=[("features", "FP32", [2, 3], {})], raw=[two])),
            ("INVALID_ARGUMENT", "its shape is [], expected", dict(inputs=[("features", "FP32", [], {})], raw=[two])),
            ("INVALID_ARGUMENT", "its shape is [4], expected", dict(inputs=[("features", "FP32", [4], {})], raw=[two])),
            ("INVALID_ARGUMENT", "0 records, allowed are 1 to 4",
             dict(inputs=[("features", "FP32", [0, 2], {})], raw=[b""])),
            ("INVALID_ARGUMENT", "-1 records, allowed", dict(inputs=[("features", "FP32", [-1, 2], {})], raw=[two])),
            ("INVALID_ARGUMENT", "9223372036854775807 records, allowed",
             dict(inputs=[("features", "FP32", [2 ** 63 - 1, 2], {})], raw=[two])),
            ("INVALID_ARGUMENT", "5 records, allowed are 1 to 4 (--batch-max)",
             dict(inputs=[("features", "FP32", [5, 2], {})], raw=[two])),
            ("INVALID_ARGUMENT", 'input "pixels": the model has none of that name; it has features',
             dict(inputs=[("pixels", "FP32", [2, 2], {})], raw=[two])),
            ("INVALID_ARGUMENT", "is there twice", dict(inputs=good * 2, raw=[two, two])),
            ("INVALID_ARGUMENT", 'input "features" is missing', dict(inputs=[])),
            ("INVALID_ARGUMENT", 'output "score": the model has none of that name; it has probabilities, class',
             dict(inputs=good, raw=[two], outputs=["score"])),
            ("INVALID_ARGUMENT", "it is asked for twice", dict(inputs=good, raw=[two], outputs=["class", "class"])),
            ("INVALID_ARGUMENT", "number 1 of record 0 is no number", dict(inputs=good, raw=[struct.pack(
                "<4f", 1, float("nan"), 3, 4)])),
            ("INVALID_ARGUMENT", "number 0 of record 1 is infinite", dict(inputs=good, raw=[struct.pack(
                "<4f", 1, 2, float("-inf"), 4)])),
        ]
        for code, part, request in wrong:
            found, text = client.failure(client.request(**request))
            self.assertEqual(found, code, (part, text))
            self.assertIn(part, text)
        self.assertEqual(client.failure(client.request(good, [two]))[0], "OK")
        self.assertEqual(self.metrics(service)["serve_failures_total"], len(wrong))
        for method in ("ModelMetadata", "ModelConfig"):
            self.assertEqual(client.failure(message(method + "Request", name="other"), method)[0], "NOT_FOUND")

    def test_arguments(self):
        def refused(code, part, *args):
            done = subprocess.run([f"{BIN}/gradus-serve", *args], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(part, done.stderr)
        refused(2, "--checkpoint DIR or FILE is missing")
        refused(2, "exclude each other", "--checkpoint=/tmp", "--job=a")
        refused(2, "ftp", "--checkpoint=ftp://a/b")
        refused(1, "none", f"--checkpoint={self.dir}/none")


class Access(ServeTest):
    def channel(self, service, *files):
        def read(name):
            with open(f"{self.dir}/keys/{name}", "rb") as f:
                return f.read()
        channel = grpc.secure_channel(service.address, grpc.ssl_channel_credentials(*(read(name) for name in files)),
                                      (("grpc.ssl_target_name_override", "node.gradus"),))
        self.addCleanup(channel.close)
        return Client(None, "a", channel)

    def test_readers_may_ask_and_everybody_sees_whether_it_is_well(self):
        keys = self.dir + "/keys"
        self.assertEqual(gradus("certificates", "init", keys, "--hosts", "node.gradus").returncode, 0)
        tokens = os.path.join(self.dir, "tokens")  # none of them: who has no certificate is nobody
        with open(tokens, "w") as f:
            f.write("# nobody\n")
        service = self.start("serve", f"--checkpoint={self.dir}/none", "--follow", f"--tls-cert={keys}/node.crt",
                             f"--tls-key={keys}/node.key", f"--tls-ca={keys}/ca.crt", "--tls-client=optional",
                             f"--tokens={tokens}")
        viewer = self.channel(service, "ca.crt", "viewer.key", "viewer.crt")
        nobody = self.channel(service, "ca.crt")
        self.assertEqual(viewer.failure(viewer.request([]))[0], "UNAVAILABLE")  # there is no model yet
        for client in (viewer, nobody):
            self.assertTrue(client.call("ServerLive", message("ServerLiveRequest")).live)
        for method, request in (("ModelInfer", nobody.request([])), ("ModelMetadata", message("ModelMetadataRequest", name="a"))):
            code, text = nobody.failure(request, method)
            self.assertEqual(code, "UNAUTHENTICATED", text)
            self.assertIn(method, text)


class Load(ServeTest):
    def digits(self, **sets):
        return self.run_job(file=SOURCE + "/examples/digits.yaml", **sets)

    def infer_forever(self, service, name, stop, done, failed, records=1):
        client = Client(service, name)
        q = client.request([("features", "FP32", [records, 784], {})], [struct.pack("<784f", *range(784)) * records])
        try:
            while not stop.is_set():
                begin = time.monotonic()
                try:
                    done.append((client.call("ModelInfer", q).model_version, time.monotonic() - begin))
                except grpc.RpcError as e:
                    failed.append(e.details())
        finally:
            client.close()

    def under_load(self, service, name, body, threads=4):
        stop, done, failed = threading.Event(), [], []
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for _ in range(threads):
                pool.submit(self.infer_forever, service, name, stop, done, failed)
            try:
                self.wait_for("answers", lambda: len(done) > 50)
                body(done)
            finally:
                stop.set()
        return done, failed

    def test_requests_that_wait_are_computed_together(self):
        result = self.digits(training__epochs=1)
        service = self.start("serve", f"--checkpoint={result['checkpoint']}", "--batch-delay-us=300000", "--batch-max=4")
        _, failed = self.under_load(service, result["job"], lambda done: self.wait_for(
            "more answers", lambda: len(done) > 300), threads=8)
        self.assertEqual(failed, [])
        seen = self.metrics(service)
        self.assertGreater(seen["serve_requests_total"], 2 * seen["serve_batches_total"])

    def test_newer_checkpoints_are_served_without_a_gap(self):
        result = self.digits(training__checkpoint_every=16)
        root = os.path.dirname(result["checkpoint"])
        steps = sorted(name for name in os.listdir(root) if name.startswith("step-"))
        following = os.path.join(self.dir, "following", result["job"])
        os.makedirs(following)
        shutil.copy(root + "/owner", following + "/owner")
        service = self.start("serve", f"--checkpoint-dir={self.dir}/following", f"--job={result['job']}", "--follow",
                             "--follow-every-ms=100", "--threads=2")
        client = Client(service, result["job"])
        self.addCleanup(client.close)
        self.assertFalse(client.call("ServerReady", message("ServerReadyRequest")).ready)
        code, text = client.failure(client.request([]))
        self.assertEqual((code, text), ("UNAVAILABLE", "there is no checkpoint to serve yet"))

        def publish(step):
            shutil.copytree(f"{root}/{step}", f"{following}/{step}.new")
            os.rename(f"{following}/{step}.new", f"{following}/{step}")
            self.wait_for(step, lambda: self.metrics(service)["serve_version"] == int(step[5:]))
        publish(steps[0])
        self.assertTrue(client.call("ServerReady", message("ServerReadyRequest")).ready)

        for name in os.listdir(f"{root}/{steps[1]}"):  # one whose bytes are not those that were written
            os.makedirs(f"{following}/damaged", exist_ok=True)
            shutil.copy(f"{root}/{steps[1]}/{name}", f"{following}/damaged/{name}")
            if "shard" in name:
                with open(f"{following}/damaged/{name}", "r+b") as f:
                    f.seek(-4, os.SEEK_END)
                    f.write(b"oops")
        os.rename(following + "/damaged", f"{following}/{steps[1]}")
        self.wait_for("the damaged one to be seen", lambda: self.metrics(service)["serve_load_failures_total"] > 0)
        self.assertEqual(self.metrics(service)["serve_version"], int(steps[0][5:]))
        shutil.rmtree(f"{following}/{steps[1]}")

        def swap(done):
            for step in steps[1:]:
                publish(step)
                version = str(int(step[5:]))
                self.wait_for("answers of it", lambda: version in {v for v, _ in done[-50:]})
        done, failed = self.under_load(service, result["job"], swap)
        self.assertEqual(failed, [])
        self.assertEqual({version for version, _ in done}, {str(int(step[5:])) for step in steps})

    def test_the_end_waits_for_answers(self):
        result = self.digits(training__epochs=1)
        service = self.start("serve", f"--checkpoint={result['checkpoint']}", "--batch-delay-us=2000000")
        client = Client(service, result["job"])
        self.addCleanup(client.close)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.infer, [("features", "FP32", [1, 784], {})], [b"\0" * 3136])
            self.wait_for("the request to wait", lambda: self.metrics(service)["serve_waiting"] == 1 or waiting.done())
            service.process.send_signal(signal.SIGTERM)
            self.assertEqual(list(waiting.result(60).outputs[0].shape), [1, 10])
        self.assertEqual(service.process.wait(120), 0)  # a second signal would end it at once

    def test_more_than_may_wait_are_refused(self):
        result = self.digits(training__epochs=1)
        service = self.start("serve", f"--checkpoint={result['checkpoint']}", "--batch-delay-us=5000000", "--waiting-max=2")
        client = Client(service, result["job"])
        self.addCleanup(client.close)
        q = client.request([("features", "FP32", [1, 784], {})], [b"\0" * 3136])
        for _ in range(3):
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                found = [f.result() for f in [pool.submit(client.failure, q) for _ in range(3)]]
            if any(code != "OK" for code, _ in found):
                break  # else a machine stood still until the first two were answered
        self.assertEqual(sorted(code for code, _ in found), ["OK", "OK", "RESOURCE_EXHAUSTED"])
        self.assertIn("2 requests wait already", " ".join(text for _, text in found))


if __name__ == "__main__":
    unittest.main()
