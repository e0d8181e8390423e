# SPDX-License-Identifier: Apache-2.0
"""Mutual TLS between real processes: a cluster trains, whoever does not belong to it is refused with a sentence that
says why, and certificates and CA are replaced under a running job."""

import http.client
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import unittest
import warnings

sys.path.insert(0, os.path.dirname(__file__))
from cluster import BIN, ENDLESS, SLOWER, SLOW_DOWN, SOURCE, ClusterTest, gradus, read_job  # noqa: E402

STRANGERS = 1000


def make(directory, *args):
    done = gradus("certificates", "init", directory, *args)
    assert done.returncode == 0, done.stderr
    return directory


def flags(directory, role, ca="ca"):
    return [f"--tls-cert={directory}/{role}.crt", f"--tls-key={directory}/{role}.key",
            f"--tls-ca={directory}/{ca}.crt"]


def endpoint(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


def make_expired(directory, role):
    """A certificate of the directory's CA that has ended a day ago, for the key of role."""
    request = f"{directory}/{role}.csr"
    openssl("req", "-new", "-key", f"{directory}/{role}.key", "-subj", "/CN=late", "-out", request)
    extensions = f"{directory}/extensions"
    with open(extensions, "w") as f:
        f.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", request, "-CA", f"{directory}/ca.crt", "-CAkey", f"{directory}/ca.key",
            "-days", "-1", "-extfile", extensions, "-out", f"{directory}/{role}.new")
    os.rename(f"{directory}/{role}.new", f"{directory}/{role}.crt")


def put(source, target):
    """What an operator does: the new file is there at once, and whole."""
    shutil.copy(source, target + ".new")
    os.rename(target + ".new", target)


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def is_closed(s):
    """By the other side."""
    s.setblocking(False)
    try:
        return s.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class Tls(ClusterTest):
    model = {}

    def setUp(self):
        super().setUp()
        self.keys = make(self.dir + "/keys")
        self.client = flags(self.keys, "admin")

    def start_tls_cluster(self, keys=None, ps=1, workers=1):
        keys = keys or self.keys
        state = os.path.join(self.dir, "cluster")
        tls = flags(keys, "node")
        master = self.start("master", f"--state-dir={state}", *tls)
        for _ in range(ps):
            self.start("ps", f"--master={master.address}", f"--checkpoint-dir={state}/checkpoints", *tls)
        for _ in range(workers):  # by TCP: a Unix-domain socket has no TLS
            self.start("worker", f"--master={master.address}", "--local-sockets=off", f"--slow-down={SLOW_DOWN}", *tls)
        return master

    def submit(self, master, *extra, **sets):
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.client,
                      *self.job(**sets), *extra)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def job_status(self, master, job="digits-1"):
        done = gradus("status", job, "--json", "--master", master.address, *self.client)
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_job(done.stdout)

    def refused(self, address, args, *words, code=4):
        """`gradus nodes` ends with this code and these words, and says nothing else."""
        command = ("nodes", "--master", address, *args)
        done = self.in_vain(*command, words=words) if code == 4 else gradus(*command)
        self.assertEqual(done.returncode, code, done.stderr)
        text = " ".join(done.stderr.split())
        for word in words:
            self.assertIn(word, text)
        self.assertNotIn("event=grpc", done.stderr)
        return text

    def serial(self, address):
        """Of the certificate that a server shows now."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(endpoint(address), 60) as plain:
            with context.wrap_socket(plain) as s:
                return s.getpeercert(binary_form=True)

    # ---- it works ----

    def test_digits_to_the_end(self):
        master = self.start_tls_cluster(ps=2, workers=2)
        out = self.submit(master, "--watch", "--json", cluster__workers=2, cluster__ps=2, training__replicas=2,
                          training__epochs=6)
        result = read_job(out)
        self.assertEqual(result["state"], "SUCCEEDED")
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.85)
        plain = self.run_job(cluster__workers=2, cluster__ps=2, training__replicas=2, training__epochs=6)
        self.assertEqual(result["metrics"]["test"], plain["metrics"]["test"])

    def test_servers_among_each_other(self):
        """A shard follows the other one's server through TLS, and takes over."""
        master = self.start_tls_cluster(ps=2)
        self.submit(master, cluster__ps=2, cluster__standby="follower", training__epochs=ENDLESS)
        self.wait_for("steps", lambda: self.job_status(master)["steps"] > 0)
        victim = next(s for s in self.services if s is not master)
        victim.stop(signal.SIGKILL)
        self.wait_for("the takeover", lambda: self.job_status(master).get("takeovers") == 1)
        steps = self.job_status(master)["steps"]
        status = self.wait_for("more steps", lambda: (lambda s: s if s["steps"] > steps else None)(self.job_status(master)))
        self.assertEqual(status.get("recoveries", 0), 0)

    def test_versions(self):
        master = self.start_tls_cluster(ps=0, workers=0)
        for version, works in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
                               (ssl.TLSVersion.TLSv1_3, True)):
            context = ssl.create_default_context(cafile=self.keys + "/ca.crt")
            context.load_cert_chain(self.keys + "/admin.crt", self.keys + "/admin.key")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                context.minimum_version = ssl.TLSVersion.TLSv1
                context.maximum_version = version
                context.minimum_version = version
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.set_alpn_protocols(["h2"])
            with socket.create_connection(endpoint(master.address), 60) as plain:
                try:
                    with context.wrap_socket(plain, server_hostname="localhost") as s:
                        self.assertTrue(s.recv(9))
                        worked = True
                except (ssl.SSLError, OSError):
                    worked = False
            self.assertEqual(worked, works, version)

    def test_run_is_plain_whatever_the_environment_says(self):
        names = {"CERT": "admin.crt", "KEY": "admin.key", "CA": "ca.crt"}
        os.environ.update({f"GRADUS_TLS_{name}": f"{self.keys}/{file}" for name, file in names.items()})
        try:
            self.assertEqual(self.run_job()["state"], "SUCCEEDED")
        finally:
            for name in names:
                del os.environ[f"GRADUS_TLS_{name}"]

    # ---- what does not work says why ----

    def test_who_is_refused(self):
        master = self.start_tls_cluster(ps=0, workers=0)
        at = master.address
        self.refused(at, [], f"no connection to {at}: it speaks TLS, and this side was given no --tls-cert")
        other = make(self.dir + "/other")
        self.refused(at, flags(other, "admin"), "its certificate was issued by Gradus CA", "is no CA of",
                     other + "/ca.crt")
        with open(self.dir + "/both.crt", "w") as f:
            for keys in (self.keys, other):
                with open(keys + "/ca.crt") as ca:
                    f.write(ca.read())
        put(self.dir + "/both.crt", other + "/ca.crt")
        self.refused(at, flags(other, "admin"), "it does not take our certificate", other + "/admin.crt",
                     "issued by Gradus CA")
        self.refused(at, self.client + ["--tls-name=ps.example"],
                     "its certificate is for localhost, 127.0.0.1, ::1 and not for ps.example")
        # A client's certificate is none of a server.
        for name in ("crt", "key"):
            put(f"{self.keys}/admin.{name}", f"{self.keys}/node.{name}")
        self.wait_for("the other certificate", lambda: "is not one of a node" in gradus(
            "nodes", "--master", at, *self.client).stderr.replace("\n  ", " ").replace("\n", " "), 30)

    def test_without_certificate(self):
        """A client that believes the right CA and shows nothing."""
        master = self.start_tls_cluster(ps=0, workers=0)
        context = ssl.create_default_context(cafile=self.keys + "/ca.crt")
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(endpoint(master.address), 60) as plain:
            with self.assertRaises((ssl.SSLError, OSError)):
                with context.wrap_socket(plain, server_hostname="localhost") as s:
                    if not s.recv(9):
                        raise OSError("closed")

    def test_expired(self):
        master = self.start_tls_cluster(ps=0, workers=0)
        make_expired(self.keys, "admin")
        self.refused(master.address, self.client, "TLS: ", "admin.crt: the certificate of late expired on 20", code=2)
        fresh = gradus("certificates", "renew", self.keys)
        self.assertEqual(fresh.returncode, 0, fresh.stderr)
        make_expired(self.keys, "node")
        with open(self.keys + "/node.crt") as f:
            expired = ssl.PEM_cert_to_DER_cert(f.read())
        self.wait_for("the other certificate", lambda: self.serial(master.address) == expired, 30)
        self.refused(master.address, self.client, "its certificate expired on 20")
        # And a node does not start with one.
        done = subprocess.run([BIN + "/gradus-worker", "--master", master.address, *flags(self.keys, "node")],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2)
        self.assertIn("node.crt: the certificate of late expired on 20", done.stderr)

    def test_plain_master(self):
        master = self.start("master", f"--state-dir={self.dir}/plain")
        self.refused(master.address, self.client, "it speaks no TLS, and the files of TLS (--tls-ca …) are given")
        # Some give up in the moment in which gRPC tries once more: they do not crash on their way out.
        in_vain = [subprocess.Popen([BIN + "/gradus", "nodes", "--master", master.address, *self.client], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, env={**os.environ, "GRADUS_TIMEOUT": "1s"}) for _ in range(30)]
        self.assertEqual({process.wait(timeout=300) for process in in_vain}, {4})

    def test_a_node_says_so_too(self):
        plain = self.start("master", f"--state-dir={self.dir}/plain")
        master = self.start_tls_cluster(ps=0, workers=0)
        for address, args, words in (
                (plain.address, flags(self.keys, "node"), "it speaks no TLS"),
                (master.address, [], "it speaks TLS, and this side was given no"),
                (master.address, flags(make(self.dir + "/other"), "node"), "which is no CA of")):
            worker = self.start("worker", f"--master={address}", *args)
            log = worker.log.name

            def said():
                with open(log) as f:
                    return words in f.read()
            self.wait_for(words, said, 30)
            worker.stop()

    def test_probes_are_quiet(self):
        """TLS to a port without it, and the reverse: the client is told; a health check finds out by itself, and nobody is warned of it."""
        plain = self.start("master", f"--state-dir={self.dir}/plain")
        master = self.start_tls_cluster(ps=0, workers=0)
        self.refused(plain.address, self.client, "it speaks no TLS, and the files of TLS (--tls-ca …) are given")
        self.refused(master.address, [], "it speaks TLS, and this side was given no --tls-cert")
        with self.assertRaises((ssl.SSLError, OSError)):
            self.https(plain.http, "/healthz")
        self.assertEqual(self.plain_http(master.http, "/healthz"), (400, "this port speaks HTTPS\n"))
        for service in (plain, master) * 5:
            self.assertEqual(self.probe(service.http).returncode, 0)
        for service in (plain, master):
            service.stop()
            with open(service.log.name) as f:
                self.assertEqual([line for line in f if re.search(r"level=(warn|error)|\b[WE][0-9]{4} ", line)], [])

    def test_flags(self):
        some = flags(self.keys, "node")
        for missing in some:
            name = missing.split("=")[0]
            rest = [flag for flag in some if flag != missing]
            for program in ("gradus-master", "gradus-ps", "gradus-worker"):
                done = subprocess.run([f"{BIN}/{program}", *rest], capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"{name} is missing: --tls-cert, --tls-key and --tls-ca are given together", done.stderr)
            self.refused("127.0.0.1:1", rest, f"{name} is missing", code=2)
        done = subprocess.run([BIN + "/gradus-ps", "--tls-name=x"], capture_output=True, text=True, timeout=120)
        self.assertIn("--tls-name is given without", done.stderr)
        self.refused("127.0.0.1:1", [some[0], some[1], "--tls-ca=/nowhere"], "/nowhere", "No such file", code=2)

    # ---- replaced under a running job ----

    def running(self, **sets):
        master = self.start_tls_cluster()
        self.submit(master, training__epochs=ENDLESS, training__evaluate_every="100 epochs", **sets)
        self.wait_for("steps", lambda: self.job_status(master)["steps"] > 0)
        return master

    def goes_on(self, master):
        """The job makes steps, and nothing that it has was lost."""
        steps = self.job_status(master)["steps"]
        self.wait_for("more steps", lambda: self.job_status(master)["steps"] > steps + 10)
        status = self.job_status(master)
        self.assertEqual((status["state"], status["recoveries"], status["generation"]), ("RUNNING", 0, 1))

    def believes(self, service, keys):
        """Whether it takes a certificate of the CA of @keys."""
        context = ssl.create_default_context(cafile=self.keys + "/ca.crt")
        context.load_cert_chain(keys + "/node.crt", keys + "/node.key")
        context.set_alpn_protocols(["h2"])
        try:
            with socket.create_connection(endpoint(service.address), 60) as plain:
                with context.wrap_socket(plain, server_hostname="localhost") as s:
                    return bool(s.recv(9))
        except OSError:
            return False

    def everybody_shows_another(self, before):
        def all_do():
            try:
                return all(self.serial(s.address) != before for s in self.services)
            except OSError:  # a server that is busy ends handshakes
                return False
        self.wait_for("the new certificates", all_do, 30)

    def test_certificates_are_replaced(self):
        master = self.running()
        before = self.serial(master.address)
        done = gradus("certificates", "renew", self.keys)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.everybody_shows_another(before)
        self.goes_on(master)

    def test_ca_is_replaced(self):
        master = self.running()
        old = self.dir + "/old"
        shutil.copytree(self.keys, old)
        new = make(self.dir + "/new")
        # Both are believed; then the new one's certificates are shown; then the new one alone is believed.
        with open(self.dir + "/both.crt", "w") as f:
            for directory in (old, new):
                with open(directory + "/ca.crt") as ca:
                    f.write(ca.read())
        put(self.dir + "/both.crt", self.keys + "/ca.crt")
        self.wait_for("the new CA to be believed", lambda: all(self.believes(s, new) for s in self.services))
        before = self.serial(master.address)
        for role in ("node", "admin"):
            for kind in ("key", "crt"):
                put(f"{new}/{role}.{kind}", f"{self.keys}/{role}.{kind}")
        self.everybody_shows_another(before)
        self.goes_on(master)
        put(new + "/ca.crt", self.keys + "/ca.crt")
        self.wait_for("the old CA to be forgotten", lambda: not any(self.believes(s, old) for s in self.services))
        self.goes_on(master)
        put(self.dir + "/both.crt", old + "/ca.crt")
        self.refused(master.address, flags(old, "admin"), "it does not take our certificate")
        # New connections among the nodes, too.
        self.start("worker", f"--master={master.address}", "--local-sockets=off", *flags(self.keys, "node"))

    # ---- the HTTP port ----

    def https(self, address, path, role=None, keys=None, version=None):
        """(status, page) over TLS with the certificate of a role, or without one."""
        context = ssl.create_default_context(cafile=self.keys + "/ca.crt")
        if role:
            context.load_cert_chain(f"{keys or self.keys}/{role}.crt", f"{keys or self.keys}/{role}.key")
        if version:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                context.minimum_version = context.maximum_version = version
            context.set_ciphers("ALL:@SECLEVEL=0")
        connection = http.client.HTTPSConnection(*endpoint(address), timeout=30, context=context)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def plain_http(self, address, path):
        connection = http.client.HTTPConnection(*endpoint(address), timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def probe(self, address):
        return subprocess.run([BIN + "/gradus-ps", "--probe", address], capture_output=True, text=True, timeout=120)

    def test_http_port(self):
        self.start_tls_cluster()
        other = make(self.dir + "/other")
        for service in self.services:
            at = service.http
            # A service that says it is ready listens; a node joins the master after that.
            self.wait_for("a node that the master knows", lambda: self.https(at, "/readyz")[0] == 200)
            for path in ("/livez", "/readyz", "/startupz", "/healthz"):
                self.assertEqual(self.https(at, path), (200, "ok\n"))
                self.assertEqual(self.https(at, path, "submitter"), (200, "ok\n"))
            for role in ("submitter", "node"):
                status, page = self.https(at, "/metrics", role)
                self.assertEqual(status, 200)
                self.assertIn("gradus_process_", page)
            self.assertEqual(self.https(at, "/metrics"), (
                403, "no client certificate was shown; /metrics is for holders of a certificate of this cluster\n"))
            status, page = self.https(at, "/metrics", "submitter", other)
            self.assertEqual(status, 403)
            self.assertIn("the certificate of Gradus submitter is not believed: ", page)
            self.assertEqual(self.plain_http(at, "/metrics"), (400, "this port speaks HTTPS\n"))
            done = self.probe(at)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        at = self.services[0].http
        with self.assertRaises((ssl.SSLError, OSError)):
            self.https(at, "/healthz", version=ssl.TLSVersion.TLSv1_1)
        self.assertEqual(self.https(at, "/healthz", version=ssl.TLSVersion.TLSv1_2)[0], 200)

    def test_http_port_takes_new_files(self):
        at = self.start_tls_cluster(ps=0, workers=0).http
        before = self.serial(at)
        self.assertEqual(gradus("certificates", "renew", self.keys).returncode, 0)
        self.wait_for("the new certificate", lambda: self.serial(at) != before, 30)
        self.assertEqual(self.https(at, "/metrics", "submitter")[0], 200)

    def test_http_port_without_tls(self):
        state = os.path.join(self.dir, "cluster")
        master = self.start("master", f"--state-dir={state}", "--http-plain", *flags(self.keys, "node"))
        self.assertEqual(self.plain_http(master.http, "/metrics")[0], 200)
        self.assertEqual(self.probe(master.http).returncode, 0)
        with self.assertRaises(ssl.SSLError):
            self.https(master.http, "/healthz")
        self.assertEqual(self.probe(master.http).returncode, 0)

    def test_http_port_and_clients_that_never_finish(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        master = self.start_tls_cluster(ps=0, workers=0)
        before = resident_kib(master.process.pid)
        held = []
        try:
            for number in range(STRANGERS):
                s = socket.create_connection(endpoint(master.http), 60)
                try:
                    s.sendall((b"", b"\x16\x03\x01", b"GET", b"\x16\x03\x01\x02\x00\x01")[number % 4])
                except OSError:
                    pass
                held.append(s)
            # Who probes asks again: it may come while those before it are still on their way out.
            self.wait_for("the probe", lambda: self.probe(master.http).returncode == 0)
            grown = resident_kib(master.process.pid) - before
            # A sanitizer keeps what was freed for a while: 12 times as much as there is without one.
            self.assertLess(grown, 20 * 1024 * (6 if SLOWER > 1 else 1))
            held[-4].settimeout(60 * SLOWER)  # says nothing
            try:
                self.assertEqual(held[-4].recv(1), b"")
            except ConnectionResetError:
                pass
        finally:
            for s in held:
                s.close()

    # ---- who does not finish ----

    def test_handshakes_that_never_end(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        master = self.start_tls_cluster(ps=0, workers=0)
        pid = master.process.pid
        before = resident_kib(pid)
        for attempt in range(3):
            held = []
            try:
                for number in range(STRANGERS):
                    s = socket.create_connection(endpoint(master.address), 60)
                    if number % 2:
                        s.sendall(b"\x16\x03\x01")  # the beginning of a hello
                    held.append(s)
                start = time.monotonic()
                self.wait_for("an answer", lambda: gradus(
                    "nodes", "--master", master.address, *self.client).returncode == 0, 60)
                took = time.monotonic() - start
                grown = resident_kib(pid) - before
                beside = sum(not is_closed(s) for s in held)
                print(f"{STRANGERS} handshakes that never end: {grown / STRANGERS:.1f} KiB each; a client waits "
                      f"{took:.2f} s, beside {beside}", file=sys.stderr)
                self.assertLess(grown, 100 * STRANGERS * SLOWER)
                # They are sent away in the end.
                held[0].settimeout(60 * SLOWER)
                try:
                    self.assertEqual(held[0].recv(1), b"")
                except ConnectionResetError:
                    pass
            finally:
                for s in held:
                    s.close()
            # The client did not wait for their end, after 10 s. A machine that stands still for so long looks the same.
            if beside > STRANGERS / 2:
                return
        self.fail("a client waits until handshakes of others are given up")


if __name__ == "__main__":
    unittest.main(verbosity=2)
