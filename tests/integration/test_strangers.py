# SPDX-License-Identifier: Apache-2.0
"""Whoever else reaches the ports of real processes: slow, idle and foreign clients change nothing."""

import json
import os
import re
import signal
import socket
import sys
import threading
import time
import unittest
import urllib.request

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from cluster import ENDLESS, SLOW_DOWN, ClusterTest, Service, gradus  # noqa: E402
from rpc_python import Protos  # noqa: E402

PROTOS = Protos(os.environ["GRADUS_DESCRIPTORS"])

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"


def endpoint(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    raise AssertionError("no VmRSS")


def ends(sock):
    """True when the other side has closed it."""
    sock.setblocking(False)
    try:
        while sock.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


class Strangers(ClusterTest):
    def master(self):
        service = Service("master", "--state-dir", self.dir + "/state", log=self.dir + "/master.log")
        self.services.append(service)
        return service

    def healthz(self, service, timeout):
        with urllib.request.urlopen(f"http://{service.http}/healthz", timeout=timeout) as answer:
            self.assertEqual(answer.status, 200)

    def test_a_byte_a_second_keeps_nobody_out(self):
        master = self.master()
        request = b"GET /healthz HTTP/1.1\r\nHost: " + b"x" * 100
        over = threading.Event()

        def drip(sockets):
            for byte in request:
                for s in sockets:
                    try:
                        s.send(bytes([byte]))
                    except OSError:
                        pass
                if over.wait(1):
                    return

        def answered_beside():
            """200 of them, and a probe: is it answered while they are there? A request may take 10 s, then they are not."""
            sockets = [socket.create_connection(endpoint(master.http)) for _ in range(200)]
            thread = threading.Thread(target=drip, args=(sockets,))
            thread.start()
            try:
                time.sleep(0.5)
                for _ in range(8):
                    self.healthz(master, 60)
                    if all([ends(s) for s in sockets]):
                        return False
                    time.sleep(0.5)
                # However long they go on: a request has a deadline.
                self.wait_for("the end of all of them", lambda: all([ends(s) for s in sockets]))
                return True
            finally:
                over.set()
                thread.join()
                over.clear()
                for s in sockets:
                    s.close()
        # A machine that stands still for so long looks like a probe that waits for them, but not three times.
        self.assertTrue(any(answered_beside() for _ in range(3)))
        self.healthz(master, 60)

    @unittest.skipIf(os.environ.get("GRADUS_TEST_SLOWER", "1") != "1", "a sanitizer's memory is its own")
    def test_idle_connections_are_cheap(self):
        master = self.master()
        self.healthz(master, 60)
        before = resident_kib(master.process.pid)
        sockets = []
        for _ in range(300):
            s = socket.create_connection(endpoint(master.address), 60)
            s.sendall(PREFACE)
            sockets.append(s)
        for s in sockets:  # all were let in, and have an answer
            self.assertTrue(s.recv(9))
        self.assertEqual(len([s for s in sockets if not ends(s)]), 300)
        grown = resident_kib(master.process.pid) - before
        print(f"300 idle connections take {grown} KiB")
        self.assertLess(grown, 24 << 10)  # 80 KiB each
        for s in sockets:
            s.close()
        self.healthz(master, 60)


def message(kind, /, **fields):
    return PROTOS["gradus.v1." + kind](**fields)


class FenceTest(ClusterTest):
    """A cluster with a job that runs, and somebody who knows all addresses, names and generations."""

    master_args = ()

    def node(self, kind, *args):
        n = len(self.services)
        service = Service(kind, *args, log=f"{self.dir}/{kind}-{n}.log")
        self.services.append(service)
        return service

    def setUp(self):
        super().setUp()
        checkpoints = self.dir + "/checkpoints"
        self.master = self.node("master", "--state-dir", self.dir + "/state", "--checkpoint-dir", checkpoints,
                                *self.master_args)
        of = ("--master", self.master.address)
        self.ps = self.node("ps", *of, "--checkpoint-dir", checkpoints)
        self.workers = [self.node("worker", *of, f"--slow-down={SLOW_DOWN}") for _ in range(2)]

    def call(self, address, service, method, response, request):
        with grpc.insecure_channel(address) as channel:
            try:
                channel.unary_unary(
                    f"/gradus.v1.{service}/{method}",
                    request_serializer=lambda m: m.SerializeToString(),
                    response_deserializer=PROTOS["gradus.v1." + response].FromString,
                )(request, timeout=20)
                return "OK", ""
            except grpc.RpcError as e:
                return e.code().name, e.details()

    def ask_ps(self, method, response, **fields):
        request = {"Unpin": "PinRequest", "Checkpoint": "CheckpointShardRequest"}.get(method, method + "Request")
        return self.call(self.ps.address, "ParameterServer", method, response, message(request, **fields))

    def push_to_ps(self, shard, push):
        request = message("ExchangeRequest", exchange=1, shard=shard, worker="worker-1", training=message("Training", push=push))
        with grpc.insecure_channel(self.ps.address) as channel:
            (answer,) = channel.stream_stream(
                "/gradus.v1.ParameterServer/Exchange", request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=PROTOS["gradus.v1.ExchangeResponse"].FromString)(iter([request]), timeout=20)
        return answer

    def status(self, job):
        return self.master.job(job)

    def submit(self, **sets):
        args = [a for k, v in sets.items() for a in ("--set", f"{k.replace('__', '.')}={v}")]
        done = gradus("submit", os.environ["GRADUS_SOURCE_DIR"] + "/examples/digits.yaml", "--set",
                      f"data.dir={self.shared}/digits", "--set", "cluster.ps=1", "--set", "training.replicas=2",
                      "--set", "training.checkpoint_every=50", *args, "--master", self.master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()[0] if done.stdout.strip() else done.stderr.split()[1]

    def wait(self, job, what):
        def seen():
            status = self.status(job)
            return status if what(status) else None
        return self.wait_for("what the job is to be", seen)

    def finish(self, job):
        """Let it end soon; how it ended."""
        self.end_job(self.master.client(), job, [w.process.pid for w in self.workers], 1)
        return self.wait(job, lambda s: s["state"] not in ("RUNNING", "RECOVERING"))


class Fences(FenceTest):
    master_args = ("--heartbeat-interval-ms=20000",)  # a node that stands still for a moment is not late

    def test_nobody_else_moves_a_job(self):
        job = self.submit(training__epochs=ENDLESS)
        now = self.wait(job, lambda s: s["state"] == "RUNNING" and s["steps"] > 10)
        generation = now["generation"]
        for secret in (b"", b"x" * 16):
            for high in (generation, 999, 2**64 - 1):
                shard = message("ShardRef", job=job, generation=high, secret=secret)
                for method, response in (("SetMembership", "ShardState"), ("CloseShard", "CloseShardResponse"),
                                         ("Pin", "ShardState"), ("Unpin", "ShardState")):
                    code, said = self.ask_ps(method, response, shard=shard)
                    self.assertEqual(code, "UNAUTHENTICATED", (method, said))
                    self.assertIn("not asked by the master", said)
                code, said = self.ask_ps("OpenShard", "ShardState", shard=shard)
                self.assertEqual(code, "ABORTED", said)
                for worker in self.workers:
                    for method in ("Assign", "StopJob", "Evaluate"):
                        named = {} if method == "StopJob" else {"generation": high}
                        request = message(method + "Request", job=job, secret=secret, start=high, **named)
                        code, said = self.call(worker.address, "Worker", method, method + "Response", request)
                        self.assertEqual(code, "UNAUTHENTICATED", (method, said))
                    request = message("InspectDataRequest", job="digits-9", secret=secret)
                    code, said = self.call(worker.address, "Worker", "InspectData", "DataInfo", request)
                    self.assertEqual(code, "ABORTED", said)
        # A worker of another cluster, whose server was at this address.
        for opening in (0, 1):
            shard = message("ShardRef", job=job, generation=generation, opening=opening)
            push = message("Push", step=self.status(job)["steps"], replica_end=1, examples=1)
            code, said = self.ask_ps("Pull", "PullResponse", shard=shard, worker="worker-1", pull=message("Pull"))
            self.assertEqual(code, "ABORTED", said)
            self.assertIn("another cluster", said)
            answer = self.push_to_ps(shard, push)
            self.assertEqual(answer.code, grpc.StatusCode.ABORTED.value[0], answer.message)
            self.assertIn("another cluster", answer.message)
        self.assertEqual(self.status(job)["generation"], generation)
        end = self.finish(job)
        self.assertEqual((end["state"], end["recoveries"]), ("SUCCEEDED", 0), end)

    def test_a_live_node_keeps_its_address(self):
        job = self.submit(training__epochs=ENDLESS)
        self.wait(job, lambda s: s["state"] == "RUNNING")
        version = json.loads(gradus("version", "--json").stdout)["version"]
        for role, service in ((1, self.ps), (2, self.workers[0])):
            for _ in range(20):
                named = {"role": role, "incarnation": 77, "name": "evil", "version": version, "address": service.address}
                code, said = self.call(self.master.address, "Cluster", "Join", "JoinResponse", message("JoinRequest", **named))
                self.assertEqual(code, "FAILED_PRECONDITION", said)  # it does not say which protocol it speaks
                named["protocol"] = int(re.search(r"this master is .* and speaks (\d+)", said).group(1))
                code, said = self.call(self.master.address, "Cluster", "Join", "JoinResponse", message("JoinRequest", **named))
                self.assertEqual(code, "ALREADY_EXISTS", said)
                self.assertRegex(said, "evil wants the address .* of (ps|worker)-1, which is alive")
                time.sleep(0.1)
        end = self.finish(job)
        self.assertEqual((end["state"], end["recoveries"]), ("SUCCEEDED", 0), end)


class StartedAgain(FenceTest):
    def test_killed_and_started_again_at_the_same_address(self):
        job = self.submit(training__epochs=ENDLESS)
        self.wait(job, lambda s: s["state"] == "RUNNING" and s["steps"] > 60)
        of = ("--master", self.master.address, "--checkpoint-dir", self.dir + "/checkpoints")
        for _ in range(3):
            address = self.ps.address
            before = self.status(job)
            self.ps.stop(signal.SIGKILL)
            killed = time.monotonic()
            self.ps = Service("ps", *of, log=f"{self.dir}/ps-again-{killed}.log", listen=address)
            self.services.append(self.ps)
            started = time.monotonic()
            now = self.wait(job, lambda s: s["recoveries"] > before["recoveries"] and s["state"] == "RUNNING")
            print(f"process {started - killed:.2f} s, runs again after {time.monotonic() - killed:.2f} s")
            self.wait(job, lambda s: s["steps"] > now["steps"])
        end = self.finish(job)
        self.assertEqual(end["state"], "SUCCEEDED", end)


if __name__ == "__main__":
    unittest.main()
