# SPDX-License-Identifier: Apache-2.0
"""gradus-serve beside a job that runs: versions come from its parameter servers and have the bits of the checkpoint of the
same step, no request fails while they change, and the last one is served when the job, a server or the master is gone."""

import base64
import csv
import hashlib
import hmac
import json
import os
import re
import signal
import struct
import subprocess
import threading
import unittest
import urllib.request

import grpc
from cluster import BIN, ENDLESS, SOURCE, ClusterTest, gradus
from test_serve import PROTOS, Client, floats, message

RECORDS = 8


class Asking:
    """Threads that ask for the same records until they are stopped: the answers of each version, and what failed."""

    def __init__(self, client, inputs, count=2):
        self.answers, self.failures, self.stopped = {}, [], threading.Event()
        self.client, self.inputs, self.lock = client, inputs, threading.Lock()
        self.threads = [threading.Thread(target=self.run) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.stopped.is_set():
            try:
                answer = self.client.infer(*self.inputs)
            except grpc.RpcError as e:
                self.failures.append(f"{e.code().name}: {e.details()}")
                continue
            with self.lock:
                self.answers.setdefault(int(answer.model_version), set()).add(answer.raw_output_contents[0])

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


class LiveTest(ClusterTest):
    model = {}

    def follow(self, master, job, *args):
        service = self.start("serve", f"--master={master.address}", f"--job={job}", "--follow", "--follow-every-ms=50", "--threads=2", *args)
        client = Client(service, job)
        self.addCleanup(client.close)
        return service, client

    def meter(self, service, name):
        with urllib.request.urlopen(f"http://{service.http}/metrics", timeout=30) as page:
            return float(re.search(rf"^gradus_{name} (\S+)$", page.read().decode(), re.M).group(1))

    def ready(self, client):
        return client.call("ServerReady", message("ServerReadyRequest")).ready

    def steps_of(self, job):
        root = f"{self.dir}/cluster/checkpoints/{job}"
        return {int(name[5:]): f"{root}/{name}" for name in os.listdir(root) if re.fullmatch(r"step-\d+", name)} if os.path.isdir(root) else {}

    def end(self, master, job):
        done = gradus("cancel", job, "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_for("the end", lambda: master.job(job)["state"] == "CANCELLED", 120)


class ServeLiveTest(LiveTest):
    def setUp(self):
        super().setUp()
        with open(self.dir + "/records.json", "w") as f:
            for n in range(RECORDS):
                f.write(json.dumps({"features": [(n * 7 + k) % 256 for k in range(784)]}) + "\n")
        pixels = [(n * 7 + k) % 256 for n in range(RECORDS) for k in range(784)]
        self.inputs = ([("features", "FP32", [RECORDS, 784], {})], [struct.pack(f"<{len(pixels)}f", *pixels)], ["probabilities"])

    def submit(self, master, ps=1, workers=1, **more):
        sets = {"data.dir": self.shared + "/digits", "training.epochs": ENDLESS, "training.checkpoints_keep": 1000, "cluster.ps": ps,
                "cluster.workers": workers, "training.replicas": workers}
        sets.update({key.replace("__", "."): value for key, value in more.items()})
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address,
                      *(item for key, value in sets.items() for item in ("--set", f"{key}={value}")))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def probabilities(self, checkpoint):
        done = gradus("predict", checkpoint, "--data", self.dir + "/records.json", "--data-format", "json", "--format", "csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [[float(row[f"p_{k}"]) for k in range(10)] for row in csv.DictReader(done.stdout.splitlines())]

    def test_versions_of_a_running_job(self):
        self.follow_to_the_end()

    def test_moving_averages(self):
        """Of a job that is evaluated with its moving average, versions have that, as predict takes it from checkpoints."""
        self.follow_to_the_end(update__average="0.9", update__evaluate_average="true")

    def follow_to_the_end(self, **more):
        master, _, _ = self.start_cluster(ps=2, workers=1)
        job = self.submit(master, ps=2, training__checkpoint_every=1, **more)
        service, client = self.follow(master, job)
        self.wait_for("a version", lambda: self.ready(client), 120)
        asking = Asking(client, self.inputs)
        self.wait_for("versions with a checkpoint", lambda: len(set(asking.answers) & set(self.steps_of(job))) >= 3, 120)
        self.end(master, job)
        last = self.meter(service, "serve_version")
        self.wait_for("the end to be noticed", lambda: self.meter(service, "serve_following") == 0, 120)
        known = len(asking.answers)
        asking.stop()
        self.assertEqual(asking.failures, [])
        self.assertGreater(known, 3)
        for step, said in asking.answers.items():
            self.assertEqual(len(said), 1, f"version {step} has several answers")
        common = sorted(set(asking.answers) & set(self.steps_of(job)))[:5]
        for step in common:
            answered = floats(next(iter(asking.answers[step])))
            for row, expected in zip(range(RECORDS), self.probabilities(self.steps_of(job)[step]), strict=True):
                # nine digits tell every float from every other
                self.assertEqual([f"{x:.9g}" for x in answered[10 * row:10 * row + 10]], [f"{x:.9g}" for x in expected])
        self.assertTrue(self.ready(client))
        answer = client.infer(*self.inputs)
        self.assertGreaterEqual(int(answer.model_version), last)
        self.assertGreater(self.meter(service, "serve_version_age_seconds"), 0)

    def test_what_dies_is_not_missed(self):
        master, servers, _ = self.start_cluster(ps=2, workers=1)
        job = self.submit(master, ps=2, training__checkpoint_every=5)
        service, client = self.follow(master, job)
        self.wait_for("a version", lambda: self.ready(client), 120)
        self.wait_for("a checkpoint", lambda: self.steps_of(job), 120)
        asking = Asking(client, self.inputs)
        servers[1].stop(signal.SIGKILL)
        self.wait_for("the loss to be noticed", lambda: self.meter(service, "serve_following") == 0, 120)
        self.start("ps", f"--master={master.address}", f"--checkpoint-dir={self.dir}/cluster/checkpoints")
        self.wait_for("the job to go on, and its versions", lambda: self.meter(service, "serve_following") == 1, 120)
        swaps = self.meter(service, "serve_swaps_total")
        self.wait_for("a newer version", lambda: self.meter(service, "serve_swaps_total") > swaps, 120)
        master.stop(signal.SIGKILL)
        self.wait_for("the loss of the master to be noticed", lambda: self.meter(service, "serve_following") == 0, 120)
        asking.stop()
        self.assertEqual(asking.failures, [])
        self.assertTrue(self.ready(client))
        self.assertEqual(client.infer(*self.inputs).model_name, job)

    def test_a_reader_reads_and_nothing_else(self):
        """The key that the master gives to readers is good for reading versions of this opening, and changes nothing."""
        master, servers, _ = self.start_cluster()
        job = self.submit(master)
        self.wait_for("the job to run", lambda: master.job(job)["state"] == "RUNNING" and master.job(job)["steps"] > 0, 120)
        with grpc.insecure_channel(master.address) as channel:
            told = self.call(channel, "Jobs/Follow", "FollowResponse", job=job)
        self.assertIn("name: digits", told.text)
        key = hmac.new(told.secret, b"gradus-shard-key" + struct.pack("<QI", told.shards[0].opening, 0) + job.encode(), hashlib.sha256)
        header = (("gradus-shard-key", base64.urlsafe_b64encode(key.digest()).rstrip(b"=").decode()),)
        shard = PROTOS["gradus.v1.ShardRef"](job=job, generation=told.generation, opening=told.shards[0].opening)
        pull, push = PROTOS["gradus.v1.Pull"](), PROTOS["gradus.v1.Push"](step=10**6, replica_end=1)

        def read(header, **what):
            return self.call(channel, "ParameterServer/Read", "ReadResponse", header, shard=shard, pin_id="mine", pin_ms=60000, **what)
        with grpc.insecure_channel(servers[0].address) as channel:
            version = read(header, pin=PROTOS["gradus.v1.ReadPin"]()).version
            first = read(header, values=PROTOS["gradus.v1.ReadValues"](first=10, count=3))
            self.assertEqual((first.version, len(first.values)), (version, 12))
            self.wait_for("newer versions", lambda: master.job(job)["steps"] > version + 3, 120)
            again = read(header, values=PROTOS["gradus.v1.ReadValues"](first=10))
            self.assertEqual((again.version, again.values[:12]), (version, first.values))
            self.assertEqual(len(again.values), 4 * (784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10 - 10))
            self.assertGreater(read(header, end=True).version, version + 3)
            for what, code, said in (
                    ({"values": PROTOS["gradus.v1.ReadValues"]()}, "NOT_FOUND", "no reader's pin is called 'mine', or it has ended"),
                    ({"pin": PROTOS["gradus.v1.ReadPin"](exact=True, version=version)}, "OUT_OF_RANGE", "which is gone"),
                    ({"pin": PROTOS["gradus.v1.ReadPin"](average=True)}, "FAILED_PRECONDITION", "the job has no moving average"),
                    ({"values": PROTOS["gradus.v1.ReadValues"](average=True)}, "FAILED_PRECONDITION", "was pinned without its moving average"),
                    ({}, "INVALID_ARGUMENT", "a Read of nothing")):
                with self.assertRaises(grpc.RpcError) as refused:
                    read(header, **what)
                self.assertEqual(refused.exception.code().name, code)
                self.assertIn(said, refused.exception.details())
            with self.assertRaises(grpc.RpcError) as refused:
                read((), pin=PROTOS["gradus.v1.ReadPin"]())
            self.assertEqual(refused.exception.code().name, "UNAUTHENTICATED")
            with self.assertRaises(grpc.RpcError) as refused:
                self.call(channel, "ParameterServer/Pull", "PullResponse", header, shard=shard, worker="reader/", pull=pull)
            self.assertEqual(refused.exception.code().name, "PERMISSION_DENIED")
            with self.assertRaises(grpc.RpcError) as refused:
                self.call(channel, "ParameterServer/Fill", "FillResponse", header, shard=shard, worker="reader/")
            self.assertEqual(refused.exception.code().name, "PERMISSION_DENIED")
            self.assertIn("may read (ParameterServer.Read), and nothing else", refused.exception.details())
            training = PROTOS["gradus.v1.Training"](push=push)
            request = PROTOS["gradus.v1.ExchangeRequest"](exchange=1, shard=shard, worker="reader/", training=training)
            (answer,) = channel.stream_stream(
                "/gradus.v1.ParameterServer/Exchange", request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=PROTOS["gradus.v1.ExchangeResponse"].FromString)(iter([request]), timeout=60, metadata=header)
            self.assertEqual(answer.code, grpc.StatusCode.PERMISSION_DENIED.value[0])
            self.assertIn("may read (ParameterServer.Read), and nothing else", answer.message)
            with self.assertRaises(grpc.RpcError) as refused:
                self.call(channel, "ParameterServer/Pull", "PullResponse", header, shard=shard, worker="worker-1", pull=pull)
            self.assertEqual(refused.exception.code().name, "UNAUTHENTICATED")
        self.end(master, job)

    def call(self, channel, method, response, metadata=(), **fields):
        request = PROTOS["gradus.v1." + method.rsplit("/", 1)[1] + "Request"](**fields)
        return channel.unary_unary("/gradus.v1." + method, request_serializer=lambda m: m.SerializeToString(),
                                   response_deserializer=PROTOS["gradus.v1." + response].FromString)(request, timeout=60, metadata=metadata)

    def test_the_role_of_a_viewer_is_enough(self):
        keys = self.dir + "/keys"
        self.assertEqual(gradus("certificates", "init", keys).returncode, 0)

        def flags(name):
            return f"--tls-cert={keys}/{name}.crt", f"--tls-key={keys}/{name}.key", f"--tls-ca={keys}/ca.crt"
        master = self.start("master", f"--state-dir={self.dir}/secure", *flags("node"))
        for kind in ("ps", "worker"):
            self.start(kind, f"--master={master.address}", "--local-sockets=off", *flags("node"))
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, "--set", f"data.dir={self.shared}/digits",
                      "--set", f"training.epochs={ENDLESS}", "--set", "cluster.ps=1", "--set", "cluster.workers=1", "--set",
                      "training.replicas=1", *flags("submitter"))
        self.assertEqual(done.returncode, 0, done.stderr)
        service = self.start("serve", f"--master={master.address}", f"--job={done.stdout.strip()}", "--follow", "--follow-every-ms=50", *flags("viewer"))

        def said():
            with open(service.log.name) as f:
                return re.search(r"\bserving\b.*version=\d", f.read())
        self.wait_for("a version", said, 120)

    def test_what_cannot_be_followed_is_told(self):
        master = self.start("master", f"--state-dir={self.dir}/cluster")
        for args, said in ((("--job=digits-1",), "--master follows a job that runs"), (("--checkpoint=x", "--follow"), "--master follows a job that runs")):
            done = subprocess.run([BIN + "/gradus-serve", f"--master={master.address}", *args], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)

    def test_a_program_of_workers_is_refused(self):
        """The reason is told, and the job goes on."""
        directory = SOURCE + "/examples/worker-program"
        subprocess.run(["make", "-C", directory, f"GRADUS_INCLUDE={SOURCE}/include", f"GRADUS_LIB={os.path.dirname(BIN)}/lib",
                        f"OUT={self.dir}", self.dir + "/logistic"], check=True, capture_output=True)
        master = self.start("master", f"--state-dir={self.dir}/cluster")
        self.start("ps", f"--master={master.address}", f"--checkpoint-dir={self.dir}/cluster/checkpoints")
        self.start("worker", f"--master={master.address}", f"--program={self.dir}/logistic")
        done = gradus("submit", directory + "/logistic.yaml", "--master", master.address, "--set", f"training.epochs={ENDLESS}",
                      "--set", "cluster.workers=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.wait_for("the job to run", lambda: master.job(job)["state"] == "RUNNING" and master.job(job)["steps"] > 0, 120)
        service, client = self.follow(master, job)

        def said():
            with open(service.log.name) as f:
                return f"the model of job {job} is a program of its workers, which alone computes it" in f.read()
        self.wait_for("the reason", said, 120)
        self.assertFalse(self.ready(client))
        self.assertEqual(self.meter(service, "serve_following"), 0)
        steps = master.job(job)["steps"]
        self.wait_for("the job to go on", lambda: master.job(job)["steps"] > steps, 120)
        self.end(master, job)

    def test_who_waits_for_a_job(self):
        master, _, _ = self.start_cluster()
        service, client = self.follow(master, "digits-1")
        self.assertFalse(self.ready(client))
        self.assertEqual(self.submit(master), "digits-1")
        self.wait_for("a version", lambda: self.ready(client), 120)
        self.assertEqual(client.call("ModelMetadata", message("ModelMetadataRequest", name="digits-1")).name, "digits-1")
        self.end(master, "digits-1")


if __name__ == "__main__":
    unittest.main()
