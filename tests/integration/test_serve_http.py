# SPDX-License-Identifier: Apache-2.0
"""gradus-serve over HTTP: the answers are those of gRPC and of `gradus predict`, as JSON and as bytes; what is wrong has a
status and a reason; who may ask is as over gRPC; clients of others; and more requests at once than may wait."""

import http.client
import json
import os
import shutil
import ssl
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from cluster import gradus  # noqa: E402
from test_predict import FLOWERS, KINDS, flowers  # noqa: E402
from test_serve import Client, ServeTest, csv_text, floats, message, raw_texts, texts  # noqa: E402

JSON_BYTES = "Inference-Header-Content-Length"


def ask(service, path, body=None, headers=None, method=None, context=None):
    """Status, headers and body."""
    connection = (http.client.HTTPSConnection(service.http, timeout=120, context=context) if context else
                  http.client.HTTPConnection(service.http, timeout=120))
    try:
        body = json.dumps(body).encode() if isinstance(body, dict) else body
        connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


class HttpTest(ServeTest):
    def train_flowers(self, **sets):
        self.rows = flowers(40, 2)
        return self.train(FLOWERS, {"train.csv": csv_text(flowers(300, 1)), "test.csv": csv_text(self.rows)},
                          data__ignore="price", **sets)

    def inputs(self, count=40):
        numbers = [[float(row[n]) for n in ("size", "width")] for row in self.rows[:count]]
        return [{"name": "features", "datatype": "FP32", "shape": [count, 2], "data": numbers},
                {"name": "soil", "datatype": "BYTES", "shape": [count, 1], "data": [r["soil"] for r in self.rows[:count]]}]


class Answers(HttpTest):
    def test_answers(self):
        result = self.train_flowers()
        service, client = self.serve(result)
        expected = self.predict(result, self.dir + "/test.csv")
        wanted = [float(e["p_" + kind]) for e in expected for kind in KINDS]
        model = "/v2/models/" + result["job"]

        for path in (model, f"{model}/versions/{self.version(service)}"):
            status, headers, body = ask(service, path + "/infer", {"inputs": self.inputs(), "id": "7"})
            self.assertEqual(status, 200, body)
            answer = json.loads(body)
            self.assertEqual((answer["model_name"], answer["model_version"], answer["id"]),
                             (result["job"], self.version(service), "7"))
            probabilities, classes = answer["outputs"]
            self.assertEqual((probabilities["name"], probabilities["datatype"], probabilities["shape"]),
                             ("probabilities", "FP32", [40, 3]))
            self.assert_near(probabilities["data"], wanted)
            self.assertEqual(classes["data"], [e["class"] for e in expected])
        self.binary(service, model, expected, wanted)
        self.descriptions(service, client, model)
        self.wrong(service, model)
        self.with_curl(service, model, expected)

    def version(self, service):
        return json.loads(ask(service, "/v2/models/flowers-1")[2])["versions"][0]

    def binary(self, service, model, expected, wanted):
        """Triton's extension: bytes behind the JSON, in requests and answers."""
        inputs = self.inputs()
        tensors = [struct.pack("<80f", *(x for row in inputs[0]["data"] for x in row)), raw_texts(inputs[1]["data"])]
        for one, tensor in zip(inputs, tensors):
            del one["data"]
            one["parameters"] = {"binary_data_size": len(tensor)}
        head = json.dumps({"inputs": inputs, "outputs": [{"name": "class", "parameters": {"binary_data": True}},
                                                         {"name": "probabilities", "parameters": {"binary_data": True}}]})
        status, headers, body = ask(service, model + "/infer", head.encode() + b"".join(tensors), {JSON_BYTES: str(len(head))})
        self.assertEqual(status, 200, body)
        n = int(headers[JSON_BYTES])
        outputs = json.loads(body[:n])["outputs"]
        sizes = [o["parameters"]["binary_data_size"] for o in outputs]
        self.assertEqual(sum(sizes), len(body) - n)
        self.assertEqual(texts(body[n:n + sizes[0]]), [e["class"] for e in expected])
        self.assert_near(floats(body[n + sizes[0]:]), wanted)
        status, _, body = ask(service, model + "/infer", head.encode() + b"".join(tensors), {JSON_BYTES: "many"})
        self.assertEqual((status, json.loads(body)["error"]), (400, JSON_BYTES + ": a number of bytes is expected"))

    def descriptions(self, service, client, model):
        for page in ("/v2/health/live", "/v2/health/ready", model + "/ready"):
            self.assertEqual(ask(service, page)[0], 200, page)
        self.assertEqual(ask(service, "/v2/models/other/ready")[0], 503)
        self.assertEqual(json.loads(ask(service, "/v2")[2])["name"], "gradus-serve")
        found = json.loads(ask(service, model)[2])
        self.assertEqual([(t["name"], t["datatype"], t["shape"]) for t in found["inputs"]],
                         [("features", "FP32", [-1, 2]), ("soil", "BYTES", [-1, 1])])
        config = json.loads(ask(service, model + "/config")[2])
        self.assertEqual((config["max_batch_size"], config["input"][0]["data_type"], config["output"][0]["dims"]),
                         (64, "TYPE_FP32", [3]))
        self.assertEqual(client.call("ModelConfig", message("ModelConfigRequest", name="flowers-1")).config.max_batch_size, 64)

    def wrong(self, service, model):
        good = self.inputs(1)

        def refused(status, part, path, body=None, **more):
            found, _, text = ask(service, path, body, **more)
            self.assertEqual(found, status, text)
            self.assertIn(part, json.loads(text)["error"])
        refused(404, 'model "other" is not served here', "/v2/models/other/infer", {"inputs": good})
        refused(404, 'version "77"', model + "/versions/77/infer", {"inputs": good})
        refused(404, "no such page", "/v2/models")
        refused(404, "no such page", model + "/versions//infer", {"inputs": good})
        refused(405, "only POST", model + "/infer")
        refused(405, "only GET", model, {})
        refused(400, "JSON, line 1", model + "/infer", b"nonsense")
        refused(400, 'input "features": 3 elements in data, expected 2 by its shape', model + "/infer",
                {"inputs": [dict(good[0], data=[1, 2, 3]), good[1]]})
        refused(400, "its shape is [1, 3], expected [records, 2]", model + "/infer",
                {"inputs": [dict(good[0], shape=[1, 3], data=[1, 2, 3]), good[1]]})
        refused(400, "number 1 of record 0 is no number", model + "/infer", {"inputs": [dict(good[0], data=[1, None]), good[1]]})
        refused(400, 'its datatype is "FP64", expected FP32', model + "/infer",
                {"inputs": [dict(good[0], datatype="FP64"), good[1]]})
        refused(400, 'output "score": the model has none of that name', model + "/infer",
                {"inputs": good, "outputs": [{"name": "score"}]})
        self.assertEqual(ask(service, model + "/infer", {"inputs": good})[0], 200)  # and it lives

    def with_curl(self, service, model, expected):
        if shutil.which("curl") is None:
            return
        done = subprocess.run(["curl", "-sS", f"http://{service.http}{model}/infer", "-d", json.dumps({"inputs": self.inputs(1)})],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(json.loads(done.stdout)["outputs"][1]["data"], [expected[0]["class"]], done.stderr)

    def test_a_body_that_is_too_large(self):
        service, _ = self.serve(self.train_flowers(), "--message-bytes-max=64KiB", "--inflight-bytes-max=128KiB")
        status, _, body = ask(service, "/v2/models/flowers-1/infer", b"x" * 65537)
        self.assertEqual((status, json.loads(body)["error"]), (429, "the body has more than 65536 bytes"))


class Access(HttpTest):
    def test_who_may_ask(self):
        keys = self.dir + "/keys"
        self.assertEqual(gradus("certificates", "init", keys, "--hosts", "node.gradus").returncode, 0)
        tokens = os.path.join(self.dir, "tokens")
        drawn = gradus("token", "new", "--role", "viewer", "--name", "ann", "--tokens", tokens)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        token = {"Authorization": "Bearer " + drawn.stdout.split()[0]}
        tls = (f"--tls-cert={keys}/node.crt", f"--tls-key={keys}/node.key", f"--tls-ca={keys}/ca.crt", "--tls-client=optional",
               f"--tokens={tokens}")
        service = self.start("serve", f"--checkpoint={self.dir}/none", "--follow", *tls)

        def context(name=None):
            c = ssl.create_default_context(cafile=keys + "/ca.crt")
            c.check_hostname = False
            if name:
                c.load_cert_chain(f"{keys}/{name}.crt", f"{keys}/{name}.key")
            return c
        infer = ("/v2/models/a/infer", {"inputs": []})
        self.assertEqual(ask(service, "/v2/health/live", context=context())[0], 200)  # everybody
        status, _, body = ask(service, *infer, context=context())
        self.assertEqual(status, 401, body)
        self.assertIn("or of a token", json.loads(body)["error"])
        self.assertEqual(ask(service, *infer, context=context("viewer"))[0], 503)  # may, but there is no model yet
        self.assertEqual(ask(service, *infer, headers=token, context=context())[0], 503)
        self.assertEqual(ask(service, *infer, headers={"Authorization": "Bearer nonsense"}, context=context())[0], 401)
        plain = self.start("serve", f"--checkpoint={self.dir}/none", "--follow", "--http-plain", *tls)
        self.assertEqual(ask(plain, *infer)[0], 401)
        self.assertEqual(ask(plain, *infer, headers=token)[0], 503)


class Crowd(HttpTest):
    def test_a_thousand_at_once(self):
        """Each has an answer or is told to come again; afterwards all is as before."""
        service, client = self.serve(self.train_flowers(), "--waiting-max=100", "--batch-delay-us=200000", "--batch-max=64")
        row = self.rows[0]
        q = client.request([("features", "FP32", [1, 2], {}), ("soil", "BYTES", [1, 1], {})],
                           [struct.pack("<2f", float(row["size"]), float(row["width"])), raw_texts([row["soil"]])])
        call = client.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer",
                                          request_serializer=lambda m: m.SerializeToString(), response_deserializer=bytes)
        found = [f.code().name for f in [call.future(q, timeout=300) for _ in range(1000)]]
        self.assertLessEqual(set(found), {"OK", "RESOURCE_EXHAUSTED"})  # a busy client may not send so many at once
        self.assertGreaterEqual(found.count("OK"), 100)
        self.assertEqual(client.failure(q)[0], "OK")
        seen = self.metrics(service)
        self.assertEqual((seen["serve_requests_total"], seen["serve_waiting"]), (1001, 0))
        self.assertEqual(seen["serve_failures_total"], found.count("RESOURCE_EXHAUSTED"))


class OtherClients(HttpTest):
    def test_tritonclient(self):
        try:
            import numpy
            import tritonclient.grpc
            import tritonclient.http
        except ImportError:
            self.skipTest("tritonclient is not installed (pip install tritonclient[all])")
        result = self.train_flowers()
        service, _ = self.serve(result)
        expected = self.predict(result, self.dir + "/test.csv")
        numbers = numpy.array(self.inputs()[0]["data"], numpy.float32)
        soils = numpy.array([[r["soil"].encode()] for r in self.rows], object)
        for module, address in ((tritonclient.grpc, service.address), (tritonclient.http, service.http)):
            client = module.InferenceServerClient(address)
            self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready(result["job"]))
            client.get_server_metadata()
            client.get_model_metadata(result["job"])
            client.get_model_config(result["job"])

            def tensors(datatype, values):
                both = module.InferInput("features", [40, 2], datatype), module.InferInput("soil", [40, 1], "BYTES")
                both[0].set_data_from_numpy(values)
                both[1].set_data_from_numpy(soils)
                return both
            answer = client.infer(result["job"], tensors("FP32", numbers))
            self.assertEqual([c.decode() if isinstance(c, bytes) else c for c in answer.as_numpy("class")[:, 0]],
                             [e["class"] for e in expected])
            with self.assertRaisesRegex(Exception, 'its datatype is "FP64", expected FP32'):
                client.infer(result["job"], tensors("FP64", numbers.astype(numpy.float64)))
            client.close()


if __name__ == "__main__":
    unittest.main()
