# SPDX-License-Identifier: Apache-2.0
"""Who may do what, on real processes: every method has a row in the table of roles, whoever lacks a role is told so by name,
and what is refused is counted and written down."""

import datetime
import json
import os
import re
import ssl
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

import grpc

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from cluster import SOURCE, ClusterTest, gradus, read_message  # noqa: E402
from rpc_python import Protos  # noqa: E402

PROTOS = Protos(os.environ["GRADUS_DESCRIPTORS"])
REFLECTION = "grpc.reflection.v1.ServerReflection"


def message(kind, /, **fields):
    return PROTOS["gradus.v1." + kind](**fields)


def flags(directory, name):
    return [f"--tls-cert={directory}/{name}.crt", f"--tls-key={directory}/{name}.key", f"--tls-ca={directory}/ca.crt"]


def read(path):
    with open(path, "rb") as f:
        return f.read()


class AccessTest(ClusterTest):
    def certificates(self, *args):
        done = gradus("certificates", *args)
        self.assertEqual(done.returncode, 0, done.stderr)

    def secure_channel(self, service, name):
        return grpc.secure_channel(service.address, grpc.ssl_channel_credentials(
            *(read(f"{self.keys}/{file}") for file in ("ca.crt", name + ".key", name + ".crt"))))

    def call(self, channel, method, response, request, metadata=()):
        """("OK", the answer), or the code and the words of the refusal."""
        try:
            return "OK", channel.unary_unary(
                "/gradus.v1." + method, request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=PROTOS["gradus.v1." + response].FromString)(request, timeout=20, metadata=metadata)
        except grpc.RpcError as e:
            return e.code().name, e.details()

    def refusals(self, service):
        context = ssl.create_default_context(cafile=self.keys + "/ca.crt")
        context.load_cert_chain(self.keys + "/viewer.crt", self.keys + "/viewer.key")
        page = urllib.request.urlopen(f"https://{service.http}/metrics", timeout=120, context=context).read().decode()
        return {lack: int(n) for lack, n in re.findall(r'^gradus_access_refusals_total\{lack="(\w+)"\} (\d+)', page, re.M)}

    def records(self, path):
        with open(path) as f:
            return [json.loads(line) for line in f]


class Table(AccessTest):
    def methods(self, address):
        """What a running server says of itself."""
        with grpc.insecure_channel(address) as channel:
            def ask(**request):
                answers = channel.stream_stream(
                    f"/{REFLECTION}/ServerReflectionInfo", request_serializer=lambda m: m.SerializeToString(),
                    response_deserializer=PROTOS["grpc.reflection.v1.ServerReflectionResponse"].FromString)(
                        iter([PROTOS["grpc.reflection.v1.ServerReflectionRequest"](**request)]), timeout=60)
                return next(answers)
            found = set()
            for service in ask(list_services="").list_services_response.service:
                answer = ask(file_containing_symbol=service.name)
                from google.protobuf import descriptor_pb2
                # v1alpha is served with the messages of v1, and may have no file of its own.
                for packed in answer.file_descriptor_response.file_descriptor_proto:
                    file = descriptor_pb2.FileDescriptorProto.FromString(packed)
                    for s in file.service:
                        if f"{file.package}.{s.name}" == service.name:
                            found.update(f"{service.name}/{m.name}" for m in s.method)
                self.assertTrue(any(m.startswith(service.name + "/") for m in found), service.name)
            return found

    def test_every_method_has_a_row(self):
        done = gradus("roles", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        table = {row["method"]: row for row in json.loads(done.stdout)}
        master, servers, workers = self.start_cluster()
        served = {kind: self.methods(service.address)
                  for kind, service in (("master", master), ("ps", servers[0]), ("worker", workers[0]),
                                        ("serve", self.start("serve", f"--checkpoint={self.dir}", "--follow")))}
        self.assertIn("gradus.v1.Jobs/Submit", served["master"])
        self.assertIn("gradus.v1.ParameterServer/Exchange", served["ps"])
        self.assertIn("gradus.v1.Worker/StartJob", served["worker"])
        self.assertIn("inference.GRPCInferenceService/ModelInfer", served["serve"])
        every = set().union(*served.values(), {"GET /metrics", "GET /"})  # of the HTTP ports
        self.assertEqual(every - set(table), set(), "methods without a row in common/auth/auth_table.c")
        self.assertEqual(set(table) - every, set(), "rows of methods that nobody serves")
        # The role of an admin is enough for all, and nobody else's for what is a node's.
        for method, row in table.items():
            self.assertIn("admin", row["roles"])
            if method == "gradus.v1.ParameterServer/Read":  # with the key that Jobs.Follow gives to readers
                self.assertEqual(row["roles"], ["node", "viewer", "submitter", "admin"])
            elif method.startswith(("gradus.v1.Cluster", "gradus.v1.ParameterServer", "gradus.v1.Worker")):
                self.assertEqual(row["roles"], ["node", "admin"], method)

    def test_without_tls_all_are_admins_and_the_log_says_so(self):
        master, _, _ = self.start_cluster(ps=0, workers=0)
        with open(master.log.name) as f:
            self.assertIn("event=access_open", f.read())
        self.assertEqual(gradus("nodes", "--master", master.address).returncode, 0)


class Certificates(AccessTest):
    def setUp(self):
        super().setUp()
        self.keys = self.dir + "/keys"
        self.certificates("init", self.keys)
        self.audit = self.dir + "/audit.json"

    def master(self):
        return self.start("master", f"--state-dir={self.dir}/state", f"--audit-log={self.audit}", *flags(self.keys, "node"))

    def run_as(self, name, *args):
        return gradus(*args, *flags(self.keys, name))

    def refused(self, done, *words):
        self.assertEqual(done.returncode, 1, done.stderr)
        text = " ".join(done.stderr.split())
        for word in words:
            self.assertIn(word, text)

    def test_each_role_may_what_the_table_says(self):
        master = self.master()
        at = ("--master", master.address)
        submit = ("submit", SOURCE + "/examples/digits.yaml", *at, *self.job())
        self.refused(self.run_as("viewer", *submit), "Gradus viewer (viewer, by certificate) may not call "
                     "gradus.v1.Jobs/Submit, which takes submitter or admin")
        self.refused(self.run_as("node", *submit), "Gradus node (node, by certificate) may not call")
        done = self.run_as("submitter", *submit)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        for role in ("viewer", "submitter", "admin", "node"):
            self.assertEqual(self.run_as(role, "status", job, *at).returncode, 0, role)
        self.refused(self.run_as("viewer", "cancel", job, *at), "may not call gradus.v1.Jobs/Cancel")
        # People's certificates join nothing.
        with self.secure_channel(master, "submitter") as channel:
            code, words = self.call(channel, "Cluster/Join", "JoinResponse", message("JoinRequest", role=2, incarnation=5))
        self.assertEqual(code, "PERMISSION_DENIED")
        self.assertIn("Gradus submitter (submitter, by certificate) may not call gradus.v1.Cluster/Join, "
                      "which takes node or admin", words)
        # What was refused is counted and written down.
        self.assertEqual(self.refusals(master)["role"], 4)
        records = [r for r in self.records(self.audit) if r["outcome"] == "refused"]
        self.assertEqual([(r["action"], r["who"], r["role"], r["by"]) for r in records], [
            ("gradus.v1.Jobs/Submit", "Gradus viewer", "viewer", "certificate"),
            ("gradus.v1.Jobs/Submit", "Gradus node", "node", "certificate"),
            ("gradus.v1.Jobs/Cancel", "Gradus viewer", "viewer", "certificate"),
            ("gradus.v1.Cluster/Join", "Gradus submitter", "submitter", "certificate")])
        self.assertTrue(records[0]["peer"].startswith("ipv4:127.0.0.1:"))
        self.assertRegex(records[0]["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_submitters_change_their_own_jobs(self):
        for name, role in (("ann", "submitter"), ("bob", "submitter"), ("eve", "admin")):
            self.certificates("issue", self.keys, "--role", role, "--name", name)
        master = self.master()
        at = ["--master", master.address]
        done = self.run_as("ann", "submit", SOURCE + "/examples/digits.yaml", *at, *self.job())
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        whose = f"job {job}, which was submitted by ann; that takes who submitted it, or admin"
        self.refused(self.run_as("bob", "cancel", job, *at), "bob (submitter, by certificate) may not cancel " + whose)
        self.refused(self.run_as("bob", "set", job, "training.epochs=9", *at), "may not set " + whose)
        for method, kind in (("Checkpoint", "GetJobRequest"), ("Trace", "TraceJobRequest")):
            with self.secure_channel(master, "bob") as channel:
                fields = {"steps": 1, "timeout_ms": 1000} if method == "Trace" else {}
                code, words = self.call(channel, "Jobs/" + method, "Job", message(kind, job=job, **fields))
            self.assertEqual(code, "PERMISSION_DENIED", words)
        self.assertEqual(self.run_as("bob", "status", job, *at).returncode, 0)
        self.assertEqual(self.refusals(master)["owner"], 4)
        # Also after a restart of the master.
        master.stop()
        master = self.master()
        at = ["--master", master.address]
        self.refused(self.run_as("bob", "cancel", job, *at), "may not cancel " + whose)
        done = self.run_as("ann", "set", job, "training.epochs=3", *at)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_as("eve", "cancel", job, *at)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.run_as("bob", "cancel", "nothing-1", *at).returncode, 5)
        self.assertEqual([(r["action"], r["who"], r["job"]) for r in self.records(self.audit) if r["outcome"] == "done"],
                         [("submit", "ann", job), ("set", "ann", job), ("cancel", "eve", job)])

    def test_one_submitter_does_not_take_all_room(self):
        for name, role in (("ann", "submitter"), ("bob", "submitter"), ("eve", "admin")):
            self.certificates("issue", self.keys, "--role", role, "--name", name)
        master = self.start("master", f"--state-dir={self.dir}/state", "--owner-jobs-max=2", *flags(self.keys, "node"))
        submit = ("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job())
        jobs = [self.run_as("ann", *submit).stdout.strip() for _ in range(2)]
        self.refused(self.run_as("ann", *submit), "2 jobs of ann wait or run already, which is as many as one submitter")
        for name in ("bob", "eve", "eve", "eve"):
            self.assertEqual(self.run_as(name, *submit).returncode, 0)
        done = self.run_as("ann", "cancel", jobs[0], "--now", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.run_as("ann", *submit).returncode, 0)

    def test_a_role_in_the_subject_and_none(self):
        for name, subject in (("unit", "/CN=unit/OU=gradus-viewer"), ("none", "/CN=none")):
            base = f"{self.keys}/{name}"
            with open(base + ".ext", "w") as f:
                f.write("extendedKeyUsage=clientAuth\n")
            for args in (("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                          base + ".key", "-subj", subject, "-out", base + ".csr"),
                         ("x509", "-req", "-in", base + ".csr", "-CA", self.keys + "/ca.crt", "-CAkey", self.keys + "/ca.key",
                          "-days", "1", "-extfile", base + ".ext", "-out", base + ".crt")):
                subprocess.run(["openssl", *args], check=True, capture_output=True)
        master = self.master()
        self.assertEqual(self.run_as("unit", "nodes", "--master", master.address).returncode, 0)
        self.refused(self.run_as("none", "nodes", "--master", master.address),
                     "none (no role, by certificate) may not call gradus.v1.Jobs/Nodes")

        def get(name, page):
            context = ssl.create_default_context(cafile=self.keys + "/ca.crt")
            context.load_cert_chain(f"{self.keys}/{name}.crt", f"{self.keys}/{name}.key")
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                                 urllib.request.HTTPSHandler(context=context))
            try:
                with opener.open(f"https://{master.http}{page}", timeout=120) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as e:
                with e:
                    return e.code, e.read().decode()
        for name in ("unit", "viewer", "node", "submitter", "admin"):
            self.assertEqual(get(name, "/metrics")[0], 200, name)
            self.assertEqual(get(name, "/api/v1/nodes"), (200, '{"nodes":[]}\n'), name)
        self.assertIn("<title>Gradus</title>", get("none", "/")[1])
        status, text = get("none", "/api/v1/jobs")
        self.assertEqual(status, 403)
        self.assertIn("none (no role, by certificate) may not call gradus.v1.Jobs/List", text)
        self.assertEqual(get("none", "/metrics"), (403, "none (no role, by certificate) may not call GET /metrics, which takes "
                                                "node or viewer or submitter or admin\n"))

    def test_a_node_cannot_be_another_one(self):
        for name in ("worker-1", "worker-2"):
            self.certificates("issue", self.keys, "--role", "node", "--name", name)
        master = self.master()
        one = self.start("worker", f"--master={master.address}", "--local-sockets=off", *flags(self.keys, "worker-1"))

        def nodes():
            done = self.run_as("viewer", "nodes", "--json", "--master", master.address)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [n["id"] for n in read_message(done.stdout)["nodes"]]
        self.wait_for("the worker, under the name of its certificate", lambda: nodes() == ["worker-1"])
        two = self.start("worker", f"--master={master.address}", "--local-sockets=off", "--name=worker-1",
                         *flags(self.keys, "worker-2"))
        words = "worker-2 (node, by certificate) is node worker-2 by its certificate, and may not speak as node worker-1"

        def said():
            with open(two.log.name) as f:
                return words in f.read()
        self.wait_for("the refusal in the log of the node", said)
        # Nor does it help to know the other's incarnation.
        with self.secure_channel(master, "worker-2") as channel:
            code, told = self.call(channel, "Cluster/Leave", "LeaveResponse",
                                   message("LeaveRequest", node=message("NodeRef", id="worker-1", incarnation=1)))
        self.assertEqual((code, told), ("PERMISSION_DENIED", words))
        self.assertEqual(nodes(), ["worker-1"])
        self.assertGreaterEqual(self.refusals(master)["node"], 2)
        self.assertTrue(any(r["action"] == "gradus.v1.Cluster/Leave" and r["who"] == "worker-2" for r in self.records(self.audit)))
        self.assertEqual(one.process.poll(), None)

    def test_refusals_do_not_fill_a_disk(self):
        master = self.master()
        with self.secure_channel(master, "viewer") as channel:
            cancel = channel.unary_unary("/gradus.v1.Jobs/Cancel", request_serializer=lambda m: m.SerializeToString())
            # All at once: a busy machine that takes one after the other may need so long that all may be written.
            calls = [cancel.future(message("CancelRequest", job="x"), timeout=60) for _ in range(300)]
            self.assertEqual({call.code().name for call in calls}, {"PERMISSION_DENIED"})
            time.sleep(1.1)
            self.call(channel, "Jobs/Cancel", "Job", message("CancelRequest", job="x"))
        records = self.records(self.audit)
        self.assertEqual(self.refusals(master)["role"], 301)
        self.assertEqual(sum(1 + int(r.get("unwritten", 0)) for r in records), 301)
        # 20 in each second that one of them fell into, and two of these may meet.
        when = [datetime.datetime.fromisoformat(r["time"]) for r in records]
        for first, last in zip(when, when[45:]):
            self.assertGreater(last - first, datetime.timedelta(seconds=1))

    def test_the_audit_log_is_rotated(self):
        master = self.master()
        submit = ("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job())
        self.refused(self.run_as("viewer", *submit), "may not call")
        os.rename(self.audit, self.audit + ".1")
        self.refused(self.run_as("viewer", *submit), "may not call")
        self.assertEqual((len(self.records(self.audit + ".1")), len(self.records(self.audit))), (1, 1))
        self.assertEqual(os.stat(self.audit).st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main(verbosity=2)
