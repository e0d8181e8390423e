# SPDX-License-Identifier: Apache-2.0
"""libgradus-client.so.1: all its functions on a real cluster, its errors, and the example, built with plain cc."""

import json
import os
import signal
import struct
import subprocess
import unittest

from cluster import BIN, ENDLESS, SOURCE, TIMEOUT, ClusterTest, gradus, sanitizer_report

TOOL = os.environ["GRADUS_CLIENT_TOOL"]
OK, INVALID, UNREACHABLE, NOT_FOUND, DENIED, STATE, FAILED, STOPPED = 0, -1, -2, -3, -4, -5, -6, -7


def tensors(path):
    """{name: (dims, sum)} of a safetensors file of floats."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            out[name] = (t["shape"], sum(struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])))
    return out


class ClientLibrary(ClusterTest):
    def tool(self, *args, master=None, expect=OK, **env):
        done = subprocess.run([TOOL, master or self.master.address, *args], capture_output=True, text=True, timeout=TIMEOUT,
                              env={**os.environ, **env})
        self.assertEqual(sanitizer_report(done.stderr), "")
        if expect == OK:
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout
        self.assertTrue(done.stderr.startswith(f"{expect}: "), (args, done.stdout, done.stderr))
        return done.stderr

    def submit(self, *args, **sets):
        items = [item for item in self.job(**sets) if item != "--set"]
        return self.tool("submit", *args, SOURCE + "/examples/digits.yaml", *items).strip()

    def test_a_job_from_its_submission_to_its_values(self):
        self.master, _, _ = self.start_cluster(ps=2, workers=1, slow_down=1)
        job = self.submit(cluster__ps=2, cluster__partitions=2)
        self.assertEqual(job, "digits-1")
        lines = self.tool("watch", job).splitlines()
        last = lines[-1].split()
        self.assertEqual(last[:4], [job, "SUCCEEDED", "5", "64/64"])
        self.assertGreater(float(next(w for w in last if w.startswith("test.accuracy=")).split("=")[1]), 0.5)
        self.assertTrue(any(w.startswith("train.loss=") for w in last))
        self.assertEqual(len(lines), len(set(lines)), "the same was shown twice")
        self.assertEqual(self.tool("job", job).split()[:3], last[:3])
        self.assertEqual(self.tool("wait", job), "")
        out = os.path.join(self.dir, "out.safetensors")
        self.assertEqual(gradus("export", job, out, "--bare", "--master", self.master.address).returncode, 0)
        values = {}
        for line in self.tool("values", job).splitlines():
            name, rest = line.split(" ", 1)
            dims, rest = rest.split(" = ")
            count, rest = rest.split(" at ")
            step, total = rest.split(": ")
            self.assertEqual(step, "64")
            values[name] = ([int(d) for d in dims.split()], int(count), float(total))
        exported = tensors(out)
        self.assertEqual(set(values), set(exported))
        for name, (dims, total) in exported.items():
            self.assertEqual(values[name][0], dims)
            self.assertAlmostEqual(values[name][2], total, delta=1e-6 * values[name][1])

    def test_changes_of_a_job(self):
        self.master, _, _ = self.start_cluster(ps=1, workers=1)
        job = self.submit(training__epochs=ENDLESS)
        self.wait_for("a step", lambda: self.master.job(job)["steps"] > 0)
        self.tool("set", job, "priority=5", f"training.epochs={ENDLESS - 1}")
        self.assertEqual(self.status(self.master, job)["priority"], 5)
        self.assertIn("model.loss", self.tool("set", job, "model.loss=mean_squared_error", expect=INVALID))
        self.tool("pause", job)
        self.wait_for("the pause", lambda: self.master.job(job)["state"] == "PAUSED")
        self.tool("resume", job)
        self.wait_for("it to go on", lambda: self.master.job(job)["state"] == "RUNNING")
        self.assertEqual(len(self.tool("list").splitlines()), 1)
        self.assertEqual(self.tool("list", "nobody"), "")
        self.assertIn("RUNNING", self.tool("watch", job, expect=STOPPED, CLIENT_TOOL_ENOUGH="0") and self.tool("job", job))
        self.tool("cancel", job)
        self.wait_for("its end", lambda: self.master.job(job)["state"] == "CANCELLED")
        self.tool("stop", job)
        self.tool("values", job, expect=STOPPED, CLIENT_TOOL_ENOUGH="1")
        self.tool("pause", job, expect=STATE)
        self.tool("resume", job)
        self.wait_for("it to go on", lambda: self.master.job(job)["state"] == "RUNNING")

    def test_a_master_that_is_away_for_a_moment(self):
        self.master, _, _ = self.start_cluster(ps=1, workers=1)
        job = self.submit(training__epochs=ENDLESS)
        self.wait_for("a step", lambda: self.master.job(job)["steps"] > 0)
        watching = subprocess.Popen([TOOL, self.master.address, "watch", job], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(watching)
        self.assertIn("RUNNING", watching.stdout.readline())
        address = self.master.address
        self.master.stop(signal.SIGKILL)
        self.services.remove(self.master)
        self.master = self.start("master", f"--state-dir={self.dir}/cluster", f"--listen={address}")
        self.wait_for("the job", lambda: self.master.job(job) is not None)
        self.tool("stop", job)
        self.assertEqual(watching.wait(120), 0, watching.stderr.read())

    def test_errors(self):
        self.master = self.start("master", f"--state-dir={self.dir}/state")
        self.assertIn("no-such-1", self.tool("job", "no-such-1", expect=NOT_FOUND))
        self.tool("cancel", "no-such-1", expect=NOT_FOUND)
        self.tool("watch", "no-such-1", expect=NOT_FOUND)
        self.assertIn("no job is named", self.tool("job", expect=INVALID))
        self.assertIn("text", self.tool("empty", expect=INVALID))
        wrong = os.path.join(self.dir, "wrong.yaml")
        with open(wrong, "w", encoding="utf-8") as f:
            f.write("name: wrong\nmodel: {layers: [dense: {units: 2, colour: red}]}\n")
        text = self.tool("submit", wrong, expect=INVALID)
        self.assertIn("wrong.yaml:2:", text)
        self.assertIn("colour", text)
        job = self.submit(cluster__workers=7)
        self.assertIn("no checkpoint", self.tool("values", job, expect=NOT_FOUND))
        items = [item for item in self.job() if item != "--set"]
        again = [self.tool("once", "mine", SOURCE + "/examples/digits.yaml", *items).strip() for _ in range(2)]
        self.assertEqual(again[0], again[1])
        self.assertNotEqual(again[0], job)
        self.tool("list", master="127.0.0.1:1", expect=UNREACHABLE, CLIENT_TOOL_MS="3000")
        self.tool("list", master="no address:at all", expect=INVALID)
        self.assertIn("/nowhere.pem", self.tool("list", expect=INVALID, GRADUS_TLS_CA="/nowhere.pem"))
        self.assertIn(job, self.tool("list", master="-", GRADUS_MASTER=self.master.address))

    def test_tls_and_roles(self):
        tls = os.path.join(self.dir, "tls")
        self.assertEqual(gradus("certificates", "init", tls, "--hosts", "node.gradus").returncode, 0)

        def as_role(role):
            return {"GRADUS_TLS_CERT": f"{tls}/{role}.crt", "GRADUS_TLS_KEY": f"{tls}/{role}.key", "GRADUS_TLS_CA": f"{tls}/ca.crt",
                    "GRADUS_TLS_NAME": "node.gradus"}

        self.master = self.start("master", f"--state-dir={self.dir}/state",
                                 *(f"--{k.removeprefix('GRADUS_').lower().replace('_', '-')}={v}" for k, v in as_role("node").items()))
        self.assertEqual(self.tool("list", **as_role("viewer")), "")
        self.assertIn("viewer", self.tool("submit", SOURCE + "/examples/digits.yaml", expect=DENIED, **as_role("viewer")))
        self.assertIn("TLS", self.tool("list", expect=UNREACHABLE, CLIENT_TOOL_MS="3000"))

    @unittest.skipIf(os.environ["GRADUS_TEST_SLOWER"] != "1", "the library has a sanitizer, which plain programs have not")
    def test_the_example(self):
        """Built out of tree, with one header and one library."""
        subprocess.run(["make", "-C", SOURCE + "/examples/client", f"GRADUS_INCLUDE={SOURCE}/include",
                        f"GRADUS_LIB={os.path.dirname(BIN)}/lib", "CFLAGS=-O2 -Wall -Wextra -Werror", f"OUT={self.dir}"],
                       check=True, capture_output=True)
        self.master, _, _ = self.start_cluster(slow_down=1)
        items = [item for item in self.job() if item != "--set"]
        done = subprocess.run([self.dir + "/train", SOURCE + "/examples/digits.yaml", *items], capture_output=True, text=True,
                              timeout=TIMEOUT, env={**os.environ, "GRADUS_MASTER": self.master.address})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("SUCCEEDED", done.stdout)
        self.assertRegex(done.stdout, r"dense_1\.kernel +\d+ numbers, norm \d+\.\d+\n")
        symbols = subprocess.run(["nm", "-D", "--defined-only", os.path.dirname(BIN) + "/lib/libgradus-client.so.1"],
                                 capture_output=True, text=True, check=True).stdout.split("\n")
        shown = {line.split()[-1].split("@")[0] for line in symbols if " T " in line}
        self.assertEqual(shown, {f"gradus_client_{name}" for name in (
            "open close error abi submit job list watch cancel pause resume resume_set set values").split()})


if __name__ == "__main__":
    unittest.main(verbosity=2)
