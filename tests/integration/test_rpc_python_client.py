# SPDX-License-Identifier: Apache-2.0
"""Python's grpcio calls our server: test_rpc_python_client.py SERVER ECHO.ds GRADUS.ds"""

import os
import subprocess
import sys
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from rpc_python import Protos  # noqa: E402

SERVER, *SETS = sys.argv[1:]
PROTOS = Protos(*SETS)
Item = PROTOS["gradus.test.Item"]
TIMEOUT = 20
BULK = bytes(i * 31 % 251 for i in range(300007))


class RpcTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.address = cls.process.stdout.readline().decode().strip()
        cls.channel = grpc.insecure_channel(
            cls.address, options=[("grpc.max_receive_message_length", -1)]
        )

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.process.stdin.close()
        cls.process.stdout.close()
        try:
            code = cls.process.wait(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            cls.process.kill()
            raise
        assert code == 0, f"the server ended with {code}"

    def stub(self, kind, path, request=Item, response=Item, raw=False):
        return getattr(self.channel, kind)(
            path,
            request_serializer=(lambda b: b) if raw else request.SerializeToString,
            response_deserializer=response.FromString,
        )

    def unary(self, request, **kwargs):
        return self.stub("unary_unary", "/gradus.test.Echo/Unary")(
            request, timeout=TIMEOUT, **kwargs
        )

    def error(self, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        return caught.exception

    def test_unary(self):
        request = Item(text="grüße", number=1 << 60, bulk=BULK)
        request.pairs.add(key="a", value=1)
        self.assertEqual(self.unary(request), request)

    def test_bulk_field_first(self):
        """Fields may come in any order, and the last of a field counts."""
        head = Item(text="late").SerializeToString()
        raw = Item(bulk=b"old" * 1000).SerializeToString() + Item(bulk=BULK).SerializeToString() + head
        reply = self.stub("unary_unary", "/gradus.test.Echo/Unary", raw=True)(raw, timeout=TIMEOUT)
        self.assertEqual(reply, Item(text="late", bulk=BULK))

    def test_compressed(self):
        """Refused before it is unpacked: 64 MiB of zeros are 64 KiB of gzip."""
        request = Item(text="z", bulk=bytes(64 << 20))
        e = self.error(lambda: self.unary(request, compression=grpc.Compression.Gzip))
        self.assertEqual(e.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_metadata(self):
        call = self.stub("unary_unary", "/gradus.test.Echo/Unary")
        reply, done = call.with_call(
            Item(text="metadata"), timeout=TIMEOUT, metadata=[("x-ask", "value")]
        )
        self.assertTrue(reply.text.startswith("value ipv4:127.0.0.1:"))
        self.assertLessEqual(reply.number, TIMEOUT * 1100)  # gRPC rounds it up on the wire
        self.assertIn(("x-head", "value"), done.initial_metadata())
        self.assertIn(("x-tail", "value"), done.trailing_metadata())

    def test_error_details(self):
        e = self.error(lambda: self.unary(Item(text="fail-detail")))
        self.assertEqual(e.code(), grpc.StatusCode.ABORTED)
        self.assertEqual(e.details(), "généré: generation 3 is over")
        packed = dict(e.trailing_metadata())["grpc-status-details-bin"]
        status = PROTOS["google.rpc.Status"].FromString(packed)
        self.assertEqual((status.code, status.message), (10, e.details()))
        pair = PROTOS["gradus.test.Pair"]()
        self.assertEqual(status.details[0].type_url, "type.googleapis.com/gradus.test.Pair")
        pair.ParseFromString(status.details[0].value)
        self.assertEqual((pair.key, pair.value), ("generation", 4))

    def test_bad_requests(self):
        unary = "/gradus.test.Echo/Unary"
        for raw in [b"\xff" * 10, b"\x0a\x7fshort", b"\x7b\x01\x02", b"\x7a\xff\xff\x7f", b"\x00",
                    b"\x08\x01", BULK]:
            with self.subTest(raw=raw[:10]):
                e = self.error(lambda: self.stub("unary_unary", unary, raw=True)(raw, timeout=TIMEOUT))
                self.assertEqual(e.code(), grpc.StatusCode.INVALID_ARGUMENT)
                self.assertTrue(e.details().startswith("request: "))
                stream = self.stub("stream_stream", "/gradus.test.Echo/Chat", raw=True)
                e = self.error(lambda: list(stream(iter([raw]), timeout=TIMEOUT)))
                self.assertEqual(e.code(), grpc.StatusCode.INVALID_ARGUMENT)
        nothing = self.stub("stream_unary", unary)
        e = self.error(lambda: nothing(iter([]), timeout=TIMEOUT))
        self.assertEqual(e.code(), grpc.StatusCode.INVALID_ARGUMENT)
        e = self.error(lambda: self.unary(Item(bulk=bytes(9 << 20))))
        self.assertEqual(e.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        for path in ["/gradus.test.Echo/Nothing", "/Nobody/Unary", "/", "/x"]:
            e = self.error(lambda: self.stub("unary_unary", path)(Item(), timeout=TIMEOUT))
            self.assertEqual(e.code(), grpc.StatusCode.UNIMPLEMENTED)
            self.assertIn(path, e.details())

    def test_deadline_and_cancel(self):
        call = self.stub("unary_unary", "/gradus.test.Echo/Unary")
        e = self.error(lambda: call(Item(text="hang"), timeout=0.1))
        self.assertEqual(e.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        future = call.future(Item(text="hang"), timeout=TIMEOUT)
        future.cancel()
        self.assertTrue(future.cancelled())

    def test_streams(self):
        count = self.stub("unary_stream", "/gradus.test.Echo/Count")
        numbers = [m.number for m in count(Item(number=500), timeout=TIMEOUT)]
        self.assertEqual(numbers, list(range(500)))
        total = self.stub("stream_unary", "/gradus.test.Echo/Sum")
        reply = total((Item(number=i) for i in range(500)), timeout=TIMEOUT)
        self.assertEqual(reply.number, sum(range(500)))
        chat = self.stub("stream_stream", "/gradus.test.Echo/Chat")
        items = [Item(number=i, bulk=BULK) for i in range(20)]
        self.assertEqual(list(chat(iter(items), timeout=TIMEOUT)), items)

    def test_health(self):
        request = PROTOS["grpc.health.v1.HealthCheckRequest"]
        response = PROTOS["grpc.health.v1.HealthCheckResponse"]
        check = self.stub("unary_unary", "/grpc.health.v1.Health/Check", request, response)
        for service in ["", "gradus.test.Echo"]:
            self.assertEqual(check(request(service=service), timeout=TIMEOUT).status, 1)
        e = self.error(lambda: check(request(service="nobody"), timeout=TIMEOUT))
        self.assertEqual(e.code(), grpc.StatusCode.NOT_FOUND)
        watch = self.stub("unary_stream", "/grpc.health.v1.Health/Watch", request, response)
        stream = watch(request(), timeout=TIMEOUT)
        self.assertEqual(next(stream).status, 1)
        stream.cancel()

    def test_reflection(self):
        for version in ["v1", "v1alpha"]:
            package = f"grpc.reflection.{version}."
            request = PROTOS[package + "ServerReflectionRequest"]
            response = PROTOS[package + "ServerReflectionResponse"]
            info = self.stub("stream_stream", f"/{package}ServerReflection/ServerReflectionInfo",
                             request, response)
            questions = [request(list_services=""), request(file_containing_symbol="gradus.test.Echo"),
                         request(file_containing_symbol="nobody")]
            services, file, error = info(iter(questions), timeout=TIMEOUT)
            names = [s.name for s in services.list_services_response.service]
            self.assertIn("gradus.test.Echo", names)
            self.assertIn("grpc.health.v1.Health", names)
            self.assertEqual(file.file_descriptor_response.file_descriptor_proto[0],
                             PROTOS.files["echo.proto"].SerializeToString())
            self.assertEqual(error.error_response.error_code, 5)
            self.assertEqual(error.original_request, questions[2])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
