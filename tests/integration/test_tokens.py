# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens between real processes: a cluster whose nodes and people show tokens trains, whoever shows a wrong one is told
why, and files of tokens and keys are taken while everything runs."""

import base64
import datetime
import json
import os
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from cluster import BIN, ENDLESS, SLOW_DOWN, SOURCE, gradus, read_job  # noqa: E402
from test_access import AccessTest  # noqa: E402


def openssl(*args, data=None):
    return subprocess.run(["openssl", *args], check=True, capture_output=True, input=data).stdout


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def put(path, text):
    """What an operator does: the new file is there at once, and whole."""
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def read(path):
    with open(path) as f:
        return f.read()


class Key:
    """A signing key of somebody who issues JSON web tokens."""

    def __init__(self, path, name):
        self.path, self.name = path, name
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", path)

    def public(self):
        return openssl("pkey", "-in", self.path, "-pubout").decode()

    def jwk(self):
        modulus = openssl("rsa", "-in", self.path, "-noout", "-modulus").decode().strip().split("=")[1]
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.name, "n": base64url(bytes.fromhex(modulus)), "e": "AQAB"}

    def sign(self, header=None, **claims):
        now = int(time.time())
        claims = {"sub": "ann", "exp": now + 600, "iat": now, "nbf": now, **claims}
        claims = {k: v for k, v in claims.items() if v is not None}
        text = ".".join(base64url(json.dumps(part).encode()) for part in (header or {"alg": "RS256", "kid": self.name}, claims))
        return text + "." + base64url(openssl("dgst", "-sha256", "-sign", self.path, data=text.encode()))


class Tokens(AccessTest):
    def setUp(self):
        super().setUp()
        self.keys = self.dir + "/keys"
        self.certificates("init", self.keys)
        self.ca = f"--tls-ca={self.keys}/ca.crt"
        self.list = self.dir + "/tokens"
        self.audit = self.dir + "/audit.json"
        self.drawn = []
        put(self.list, "# nobody yet\n")

    def tearDown(self):
        secrets = [t for t in self.drawn if t]
        told = [path for directory, _, names in os.walk(self.dir) for path in (os.path.join(directory, n) for n in names)
                if path.endswith((".log", ".json", "/tokens")) and any(t in read(path) for t in secrets)]
        super().tearDown()
        self.assertEqual(told, [], "a token was written down")

    def token(self, role, name, *args):
        """A new one of the list."""
        done = gradus("token", "new", "--role", role, "--name", name, "--tokens", self.list, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.drawn.append(done.stdout.strip())
        return self.drawn[-1]

    def test_a_second_token_of_a_name_is_told(self):
        self.assertEqual(gradus("token", "new", "--role", "viewer", "--name", "ann", "--tokens", self.list).stderr, "")
        second = gradus("token", "new", "--role", "viewer", "--name", "ann", "--tokens", self.list)
        self.assertEqual(second.returncode, 0)
        self.assertEqual(second.stderr, f"gradus: tokens of ann in {self.list}: 2, of which each counts until its line is taken out\n")

    def server_certificate(self):
        """One without any role: its holder can serve, and is nobody."""
        base = self.keys + "/server"
        with open(base + ".ext", "w") as f:
            f.write("subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", base + ".key", "-subj",
                "/CN=server", "-out", base + ".csr")
        openssl("x509", "-req", "-in", base + ".csr", "-CA", self.keys + "/ca.crt", "-CAkey", self.keys + "/ca.key", "-days", "1",
                "-extfile", base + ".ext", "-out", base + ".crt")
        return self.tls("server")

    def tls(self, name):
        return [f"--tls-cert={self.keys}/{name}.crt", f"--tls-key={self.keys}/{name}.key", self.ca]

    def master(self, *args):
        return self.start("master", f"--state-dir={self.dir}/state", f"--audit-log={self.audit}", *self.tls("node"),
                          "--tls-client=optional", *args)

    def ask(self, service, token, *command):
        """With a token and no certificate."""
        where = self.dir + "/given"
        put(where, token + "\n")
        return gradus(*(command or ("nodes",)), "--master", service.address, self.ca, "--token-file", where)

    def refused(self, done, *words):
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        text = " ".join(done.stderr.split())
        for word in words:
            self.assertIn(word, text)

    def logged(self, service, words):
        return words in read(service.log.name)

    # ---- lists ----

    def test_nodes_and_people_with_tokens(self):
        server = self.server_certificate()
        own = self.dir + "/node-token"
        first = self.token("node", "workers")
        put(own, first + "\n")
        common = [*server, "--tls-client=optional", f"--tokens={self.list}", f"--token-file={own}", "--local-sockets=off"]
        master = self.start("master", f"--state-dir={self.dir}/state", f"--audit-log={self.audit}", *common)
        at = f"--master={master.address}"
        self.start("ps", at, f"--checkpoint-dir={self.dir}/state/checkpoints", *common)
        worker = self.start("worker", at, f"--slow-down={SLOW_DOWN}", *common)
        ann, bob = self.token("submitter", "ann"), self.token("submitter", "bob")
        self.wait_for("the tokens to be known", lambda: self.ask(master, bob).returncode == 0)  # the last one
        submit = ("submit", SOURCE + "/examples/digits.yaml", *self.job(training__epochs=ENDLESS))
        job = self.ask(master, ann, *submit)
        self.assertEqual(job.returncode, 0, job.stderr)
        job = job.stdout.strip()
        self.wait_for("the first steps", lambda: read_job(self.ask(master, ann, "status", job, "--json").stdout)["steps"] > 0)
        self.refused(self.ask(master, bob, "cancel", job), "bob (submitter, by token) may not cancel job " + job + ", which was submitted "
                     "by ann")
        # The nodes get another token, and the first one ends, while the job runs.
        second = self.token("node", "workers")
        put(own, second + "\n")
        lines = read(self.list).splitlines(True)
        put(self.list, "".join(line for line in lines if line != lines[1]))
        self.refused_later(master, first)
        steps = read_job(self.ask(master, ann, "status", job, "--json").stdout)["steps"]
        self.wait_for("more steps", lambda: read_job(self.ask(master, ann, "status", job, "--json").stdout)["steps"] > steps + 20)
        self.assertEqual(self.ask(master, ann, "cancel", job).returncode, 0)
        done = self.ask(master, ann, "watch", job)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIsNone(worker.process.poll())
        self.assertEqual([(r["action"], r["who"], r["by"]) for r in self.records(self.audit) if r["outcome"] == "done"],
                         [("submit", "ann", "token"), ("cancel", "ann", "token")])

    def refused_later(self, service, token):
        self.wait_for("the token to be refused", lambda: "not in the file of --tokens" in
                      " ".join(self.ask(service, token).stderr.split()), 30)

    def test_who_is_refused(self):
        viewer, late = self.token("viewer", "bob"), self.token("admin", "eve")
        yesterday = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        put(self.list, re.sub(r"(eve .*) expires=\S+", r"\1 expires=" + yesterday, read(self.list)))
        master = self.master(f"--tokens={self.list}")
        done = self.ask(master, viewer)
        self.assertEqual(done.returncode, 0, done.stderr)
        submit = ("submit", SOURCE + "/examples/digits.yaml", *self.job())
        self.refused(self.ask(master, viewer, *submit), "bob (viewer, by token) may not call gradus.v1.Jobs/Submit, which takes "
                     "submitter or admin")
        self.refused(self.ask(master, late), "the token of eve expired on " + yesterday)
        self.refused(self.ask(master, viewer[:-1] + ("A" if viewer[-1] != "A" else "B")), "not in the file of --tokens")
        self.refused(self.ask(master, "gradus_"), "has 7 bytes")
        done = gradus("nodes", "--master", master.address, self.ca)
        self.refused(done, "gradus.v1.Jobs/Nodes takes", "neither a certificate nor a token")
        # A token says more than the certificate beside it.
        with open(self.dir + "/given", "w") as f:
            f.write(viewer)
        self.refused(gradus(*submit, "--master", master.address, *self.tls("admin"), "--token-file", self.dir + "/given"),
                     "bob (viewer, by token) may not call")
        self.assertEqual(gradus("nodes", "--master", master.address, *self.tls("viewer")).returncode, 0)
        lacks = self.refusals(master)
        self.assertEqual((lacks["token"], lacks["role"], lacks["identity"]), (3, 2, 1))
        records = [r for r in self.records(self.audit) if r["outcome"] == "refused"]
        self.assertEqual([(r["who"], r["by"]) for r in records if r["action"].endswith("Nodes")],
                         [("eve", "token"), ("", "token"), ("", "token"), ("", "nothing")])

    def test_the_file_changes(self):
        master = self.master(f"--tokens={self.list}")
        ann = self.token("viewer", "ann")
        self.wait_for("the new token", lambda: self.ask(master, ann).returncode == 0, 30)
        good = read(self.list)
        put(self.list, good + "bob king sha256:00\n")
        self.wait_for("the warning", lambda: self.ask(master, ann).returncode == 0 and self.logged(
            master, f"--tokens: {self.list}:3: king is no role"), 30)
        put(self.list, "")
        self.refused_later(master, ann)

    def test_certificates_are_asked_for_by_default(self):
        viewer = self.token("viewer", "bob")
        master = self.start("master", f"--state-dir={self.dir}/state", *self.tls("node"), f"--tokens={self.list}")
        with open(self.dir + "/given", "w") as f:
            f.write(viewer)
        self.in_vain("nodes", "--master", master.address, self.ca, "--token-file", self.dir + "/given",
                     words=["it asks for a certificate, and this side was given no --tls-cert"])
        self.assertEqual(gradus("nodes", "--master", master.address, *self.tls("node"), "--token-file", self.dir + "/given").returncode, 0)

    def test_without_tls(self):
        """Within one machine tokens go without TLS; to others they do not go."""
        viewer = self.token("viewer", "bob")
        master = self.start("master", f"--state-dir={self.dir}/state", f"--tokens={self.list}")
        self.assertFalse(self.logged(master, "event=access_open"))
        at = ("--master", master.address)
        os.environ["GRADUS_TOKEN"] = viewer
        try:
            self.assertEqual(gradus("nodes", *at).returncode, 0)
            self.refused(gradus("submit", SOURCE + "/examples/digits.yaml", *self.job(), *at), "bob (viewer, by token) may not call")
            done = gradus("nodes", "--master", "192.0.2.1:7000")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("a token is not sent to 192.0.2.1:7000 without TLS", " ".join(done.stderr.split()))
            done = subprocess.run([BIN + "/gradus-worker", "--print-config"], capture_output=True, text=True)
            self.assertNotIn(viewer, done.stdout + done.stderr)
            self.assertEqual(done.returncode, 0)
            done = gradus("nodes", *at, "--token-file", self.list)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("both --token-file and GRADUS_TOKEN are given", done.stderr)
        finally:
            del os.environ["GRADUS_TOKEN"]
        self.refused(gradus("nodes", *at), "neither a certificate nor a token")
        done = gradus("nodes", *at, "--token-file", self.dir + "/nothing")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn(self.dir + "/nothing", done.stderr)
        self.assertEqual(gradus("nodes", *at, "--token=x").returncode, 2)
        for args, words in ((["--listen=0.0.0.0:0", "--insecure", f"--tokens={self.list}"], "whoever listens on the way"),
                            (["--tokens=/nowhere"], "/nowhere"), (["--jwt-issuer=x"], "without --jwt-keys"),
                            ([f"--jwt-keys={self.list}"], "neither a JSON web key set nor a public key")):
            done = subprocess.run([BIN + "/gradus-master", f"--state-dir={self.dir}/other", *args], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, " ".join(done.stderr.split()))

    # ---- JSON web tokens ----

    def test_signed_tokens(self):
        key, other = Key(self.dir + "/one.pem", "one"), Key(self.dir + "/two.pem", "two")
        keys = self.dir + "/jwks.json"
        put(keys, json.dumps({"keys": [key.jwk()]}))
        master = self.master(f"--jwt-keys={keys}", "--jwt-issuer=https://id.example", "--jwt-audience=gradus")
        now = int(time.time())

        def signed(by=key, header=None, **claims):
            claims = {"iss": "https://id.example", "aud": "gradus", "gradus_role": "viewer", **claims}
            self.drawn.append(by.sign(header, **claims))
            return self.ask(master, self.drawn[-1])
        done = signed()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(signed(gradus_role=["gradus-admin"]).returncode, 0)
        self.refused(signed(gradus_role="cook"), "ann (no role, by token) may not call gradus.v1.Jobs/Nodes")
        self.refused(signed(other), "no key has the id two")
        self.refused(signed(other, {"alg": "RS256", "kid": "one"}), "its signature is not that of any key")
        self.refused(signed(header={"alg": "HS256", "kid": "one"}), "it is signed by HS256, and RS256")
        self.refused(signed(header={"alg": "none"}), "it is signed by none")
        self.refused(signed(iss="https://other"), "it was issued by https://other and not by https://id.example")
        self.refused(signed(aud="billing"), "it is not for gradus (aud)")
        self.refused(signed(exp=None), "it says not when it expires")
        # Clocks differ by a minute.
        self.assertEqual(signed(exp=int(time.time()) - 5).returncode, 0)
        self.assertEqual(signed(nbf=now + 40, iat=now + 40).returncode, 0)
        self.refused(signed(exp=now - 61), "the token of ann is not taken: it expired on ")
        self.refused(signed(nbf=now + 600), "it is not valid before", "is the clock of this machine right?")
        # Another key is believed without a restart, and the first one no more.
        put(keys, json.dumps({"keys": [other.jwk()]}))
        self.wait_for("the other key", lambda: signed(other).returncode == 0, 30)
        self.refused(signed(), "no key has the id one")
        put(keys, other.public())
        self.wait_for("the key in PEM form", lambda: signed(other, {"alg": "RS256"}).returncode == 0, 30)
        self.assertGreater(self.refusals(master)["token"], 8)


if __name__ == "__main__":
    unittest.main(verbosity=2)
