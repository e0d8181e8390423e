# SPDX-License-Identifier: Apache-2.0
"""Python's grpcio trains on a real parameter server: test_ps_python_client.py GRADUS-PS GRADUS.ds"""

import base64
import hashlib
import hmac
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from rpc_python import Protos  # noqa: E402

SERVER, DESCRIPTORS = sys.argv[1:3]
PROTOS = Protos(DESCRIPTORS)
TIMEOUT = 20
KEEPALIVE = 240  # it takes 15 s
COUNT = 20  # 4 x 4 weights and 4 biases
JOB = """\
name: python
data:
  train: {file: a.csv}
model:
  layers:
    - dense: {units: 4}
  loss: softmax_cross_entropy
update: {rule: sgd, learning_rate: 1}
training: {mode: %s, batch_size: 10}
cluster: {workers: 2}
"""


def message(name, **fields):
    return PROTOS["gradus.v1." + name](**fields)


def pack(values):
    return struct.pack("<%df" % len(values), *values)


def unpack(data):
    return list(struct.unpack("<%df" % (len(data) // 4), data))


class PsTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        # Nobody answers at the master's address: the server serves all the same.
        self.process = subprocess.Popen(
            [SERVER, "--master", "127.0.0.1:1", "--checkpoint-dir", self.dir.name],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        line = self.process.stdout.readline().decode().split()
        self.assertEqual(line[:2], ["gradus-ps", "ready"])
        addresses = dict(word.split("=", 1) for word in line[2:])
        self.http, self.grpc = addresses["http"], addresses["grpc"]
        self.channel = grpc.insecure_channel(addresses["grpc"])

    def tearDown(self):
        self.channel.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.stdout.close()
        try:
            self.assertEqual(self.process.wait(timeout=TIMEOUT), 0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.dir.cleanup()

    def call(self, method, response, **fields):
        request = fields.pop("request", method + "Request")
        return self.channel.unary_unary(
            "/gradus.v1.ParameterServer/" + method,
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=PROTOS["gradus.v1." + response].FromString,
        )(message(request, **fields), timeout=TIMEOUT, wait_for_ready=True)

    def ref(self, generation=1):
        return message("ShardRef", job="py-1", shard=0, generation=generation)

    def consistency(self, mode, replicas=2, aggregate=None):
        return message(
            "Consistency", mode=mode.upper(), replicas=replicas, aggregate=aggregate or replicas,
            push_every=1, pull_every=1,
        )  # fmt: skip

    def open(self, mode="sync", replicas=2):
        plan = message("Plan", shard_count=1)
        plan.variables.add(name="dense_1.kernel", dims=[4, 4])
        plan.variables.add(name="dense_1.bias", dims=[4])
        plan.partitions.add(variable=0, shard=0, row_first=0, row_count=4)
        plan.partitions.add(variable=1, shard=0, row_first=0, row_count=4)
        ledger = message("Ledger", records=50, batch_records=10, split_batches=2, done=[0, 0, 0])
        return self.call(
            "OpenShard", "ShardState", shard=self.ref(), text=JOB % mode, plan=plan,
            consistency=self.consistency(mode, replicas), ledger=ledger, workers=["w0", "w1"],
        )  # fmt: skip

    def exchange(self, requests):
        return self.channel.stream_stream(
            "/gradus.v1.ParameterServer/Exchange",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=PROTOS["gradus.v1.ExchangeResponse"].FromString,
        )(iter(requests), timeout=TIMEOUT)

    def push(self, values, pull=None, **push):
        (answer,) = self.exchange([message(
            "ExchangeRequest", exchange=1, shard=self.ref(), worker="w0", total=len(values), values=pack(values),
            training=message("Training", push=message("Push", **push), pull=pull),
        )])  # fmt: skip
        return answer

    def pull(self, **pull):
        reply = self.call(
            "Pull", "PullResponse", shard=self.ref(), worker="w0", pull=message("Pull", **pull)
        )
        return reply.version, unpack(reply.values)

    def test_only_the_jobs_workers(self):
        """Another client, with whatever certificate, that knows everything but the job's secret."""
        secret, opening = bytes(range(16)), 77
        ref = message("ShardRef", job="py-1", generation=1, opening=opening, secret=secret)
        plan = message("Plan", shard_count=1)
        plan.variables.add(name="dense_1.kernel", dims=[4, 4])
        plan.variables.add(name="dense_1.bias", dims=[4])
        plan.partitions.add(variable=0, shard=0, row_first=0, row_count=4)
        plan.partitions.add(variable=1, shard=0, row_first=0, row_count=4)
        self.call("OpenShard", "ShardState", shard=ref, text=JOB % "sync", plan=plan, consistency=self.consistency("sync", 1),
                  ledger=message("Ledger", records=50, batch_records=10, split_batches=2, done=[0, 0, 0]), workers=["w0"])
        ref = message("ShardRef", job="py-1", generation=1, opening=opening)

        def key(of=opening, worker=b"w0"):
            own = hmac.new(secret, b"gradus-worker-secret" + worker, hashlib.sha256).digest()[:16]
            text = b"gradus-shard-key" + struct.pack("<QI", of, 0) + b"py-1"
            return base64.urlsafe_b64encode(hmac.new(own, text, hashlib.sha256).digest()).rstrip(b"=").decode()

        def pull(*metadata):
            return self.channel.unary_unary(
                "/gradus.v1.ParameterServer/Pull", request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=PROTOS["gradus.v1.PullResponse"].FromString)(
                    message("PullRequest", shard=ref, worker="w0", pull=message("Pull")), timeout=TIMEOUT, metadata=metadata)
        for metadata, words in (((), "and there is none"), ((("gradus-shard-key", key(78)),), "this is not the key"),
                                ((("gradus-shard-key", key(worker=b"w1")),), "gives to its worker w0")):  # as another one
            with self.assertRaises(grpc.RpcError) as caught:
                pull(*metadata)
            self.assertEqual(caught.exception.code().name, "UNAUTHENTICATED")
            self.assertIn(words, caught.exception.details())
        self.assertEqual(pull(("gradus-shard-key", key())).version, 0)
        page = urllib.request.urlopen(f"http://{self.http}/metrics", timeout=TIMEOUT).read().decode()
        self.assertIn('gradus_access_refusals_total{lack="secret"} 3', page)

    def test_sync(self):
        state = self.open()
        self.assertEqual((state.generation, state.version, state.elements), (1, 0, COUNT))
        self.assertEqual(self.pull(), (0, [0.0] * COUNT))
        first = self.push([2.0] * COUNT, step=0, replica_first=0, replica_end=1, examples=2)
        self.assertEqual((first.trained.push, first.version), (1, 0))
        second = self.push([6.0] * COUNT, step=0, replica_first=1, replica_end=2, examples=2)
        self.assertEqual((second.trained.push, second.version), (2, 1))
        again = self.push([6.0] * COUNT, step=0, replica_first=1, replica_end=2, examples=2)
        self.assertEqual(again.trained.push, 3)
        self.assertEqual(self.pull(kind=1, version=1), (1, [-2.0] * COUNT))
        self.assertEqual(self.pull(kind=1, version=0), (0, [0.0] * COUNT))

    def test_async_with_progress(self):
        self.open("async")
        reply = self.push([1.0] * COUNT, epoch=0, split=1, batch=0, examples=1)
        self.assertEqual((reply.trained.push, reply.version), (2, 1))
        reply = self.push([1.0] * COUNT, pull=message("Pull", progress=True, split=1), epoch=0, split=1, batch=1, examples=1, base_version=1)
        self.assertEqual((reply.trained.push, reply.version, reply.trained.progress), (2, 2, 2))
        self.assertEqual(unpack(reply.values), [-2.0] * COUNT)
        refused = self.push([1.0] * COUNT, epoch=0, split=0, batch=1, examples=1)
        self.assertEqual(refused.code, grpc.StatusCode.OUT_OF_RANGE.value[0])
        self.assertIn("next is batch 0", refused.message)
        (stats,) = self.call("Stats", "StatsResponse").shards
        self.assertEqual((stats.job, stats.version, stats.pushes_applied), ("py-1", 2, 2))
        self.assertEqual((stats.examples, stats.pushes_dropped), (2, 0))
        self.assertEqual(list(stats.ledger.done), [0, 2, 0])

    def test_the_mode_changes(self):
        self.open("async")
        self.push([1.0] * COUNT, epoch=0, split=1, batch=0, examples=1)
        change = dict(
            shard=self.ref(2), workers=["w1"], consistency=self.consistency("sync", 3, 2), version=1,
            ledger=message("Ledger", records=50, batch_records=10, split_batches=2, done=[0, 0, 0]),
        )  # fmt: skip
        with self.assertRaises(grpc.RpcError) as caught:
            self.call("SetMembership", "ShardState", **change)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        change["ledger"].done[1] = 1
        state = self.call("SetMembership", "ShardState", **change)
        self.assertEqual((state.generation, state.version, state.examples), (2, 1, 1))
        answers = {}
        for m in self.exchange([
            message(
                "ExchangeRequest", exchange=r, shard=self.ref(2), worker="w1", total=COUNT,
                training=message("Training", push=message(
                    "Push", step=1, replica_first=r, replica_end=r + 1, examples=1)),
                values=pack([float(r)] * COUNT),
            )
            for r in (2, 0, 1)
        ]):  # fmt: skip
            answers[m.exchange] = m
        self.assertEqual([answers[r].trained.push for r in range(3)], [2, 4, 2])
        for m in answers.values():
            self.assertEqual((m.code, m.decision.step, m.decision.replicas), (0, 1, b"\x05"))

    def test_exchange(self):
        self.open()
        answers = []

        def requests():
            for replica in range(2):
                for offset in range(0, COUNT, 8):
                    part = [2.0] * min(8, COUNT - offset)
                    m = message(
                        "ExchangeRequest", exchange=replica, offset=offset, total=COUNT,
                        values=pack(part),
                    )  # fmt: skip
                    if offset == 0:
                        m.shard.CopyFrom(self.ref())
                        m.worker = "w0"
                        t = m.training
                        t.push.replica_first = replica
                        t.push.replica_end = replica + 1
                        t.push.examples = 2
                        t.pull.kind = 1
                        t.pull.version = 1
                    yield m

        for m in self.exchange(requests()):
            answers.append(m)
        self.assertEqual(sorted(m.exchange for m in answers), [0, 1])
        for m in answers:
            self.assertEqual((m.code, m.version, m.total), (0, 1, COUNT))
            self.assertEqual(unpack(m.values), [-1.0] * COUNT)

    def test_garbage_ends_the_call_and_not_the_server(self):
        self.open()
        for method in ("OpenShard", "Fill", "Pull", "Pin", "Checkpoint", "SetMembership"):
            with self.assertRaises(grpc.RpcError) as caught:
                self.channel.unary_unary("/gradus.v1.ParameterServer/" + method)(
                    b"\xff\xff\xff\xff\x07garbage", timeout=TIMEOUT
                )
            self.assertNotEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        with self.assertRaises(grpc.RpcError):
            list(
                self.channel.stream_stream("/gradus.v1.ParameterServer/Exchange")(
                    iter([b"\x0a\xff\xff\xff\x0f"]), timeout=TIMEOUT
                )
            )
        (refused,) = self.exchange([message("ExchangeRequest", exchange=1, shard=self.ref(), worker="w0", total=COUNT, values=b"abc",
                                            training=message("Training", push=message("Push", examples=1)))])
        self.assertIn("3 bytes of values at element 0", refused.message)
        self.assertEqual(self.pull()[0], 0)

    def test_checkpoint_and_metrics(self):
        self.open()
        self.call("Pin", "ShardState", shard=self.ref(), pin_id="p", slots=True)
        reply = self.call(
            "Checkpoint", "CheckpointShardResponse", request="CheckpointShardRequest",
            shard=self.ref(), pin_id="p", directory="py-1/step-000000000",
        )  # fmt: skip
        path = os.path.join(self.dir.name, "py-1/step-000000000", reply.file)
        self.assertEqual(os.path.getsize(path), reply.bytes)
        page = urllib.request.urlopen(f"http://{self.http}/metrics", timeout=TIMEOUT).read().decode()
        for line in ("gradus_ps_shards 1", "gradus_ps_snapshots 1"):
            self.assertIn(line, page)

    def test_a_client_that_stops_in_the_middle_of_a_gradient(self):
        """Its process lives, and answers nothing: keepalive ends the stream, and the memory is there again."""
        self.open("async")

        def held():
            page = urllib.request.urlopen(f"http://{self.http}/metrics", timeout=TIMEOUT).read().decode()
            return f"\ngradus_ps_gradient_bytes {4 * COUNT}\n" in page

        def wait_until(what, expected):
            until = time.monotonic() + KEEPALIVE
            while held() != expected:
                if time.monotonic() > until:
                    self.fail(f"waited {KEEPALIVE} s for {what}")
                time.sleep(0.1)

        client = subprocess.Popen([sys.executable, __file__, *sys.argv[1:3], self.grpc])
        try:
            wait_until("half a gradient", True)
            client.send_signal(signal.SIGSTOP)
            wait_until("the memory", False)
        finally:
            client.kill()
            client.wait()


def send_half(address):
    def requests():
        yield message(
            "ExchangeRequest", exchange=1, shard=message("ShardRef", job="py-1", generation=1), worker="w0",
            training=message("Training", push=message("Push", examples=1)), total=COUNT, values=pack([1.0] * (COUNT // 2)),
        )  # fmt: skip
        time.sleep(3600)

    with grpc.insecure_channel(address) as channel:
        list(channel.stream_stream(
            "/gradus.v1.ParameterServer/Exchange", request_serializer=lambda m: m.SerializeToString(),
        )(requests()))  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 3:
        send_half(sys.argv[3])
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
