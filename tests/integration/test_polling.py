# SPDX-License-Identifier: Apache-2.0
"""--poll-us: what nodes say of it, that it changes no bits, and that who has nothing to do uses no processor."""

import os
import time
import unittest
import urllib.request

from cluster import ENDLESS, SLOW_DOWN, SOURCE, ClusterTest, gradus

DIGITS = SOURCE + "/examples/digits.yaml"
IDLE_SECONDS = 4.0
IDLE_SHARE = 0.05  # of a core: far above what it is (docs/performance.md), far below one that polls
TICKS = os.sysconf("SC_CLK_TCK")


def metrics(service):
    with urllib.request.urlopen(f"http://{service.http}/metrics", timeout=120) as page:
        lines = [line for line in page.read().decode().splitlines() if line.startswith("gradus_rpc_")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def cpu_seconds(service):
    with open(f"/proc/{service.process.pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Polling(ClusterTest):
    def cluster(self, poll_us):
        state = os.path.join(self.dir, f"cluster-{poll_us}")
        master = self.start("master", f"--state-dir={state}")
        common = [f"--master={master.address}", f"--poll-us={poll_us}"]
        ps = self.start("ps", f"--checkpoint-dir={state}/checkpoints", *common)
        worker = self.start("worker", f"--slow-down={SLOW_DOWN}", *common)
        return master, ps, worker

    def train(self, master, **sets):
        for command in (["submit", DIGITS, *self.job(**sets)], ["watch", "digits-1"]):
            done = gradus(*command, "--master", master.address)
            self.assertEqual(done.returncode, 0, done.stderr)

    def exported(self, master, poll_us):
        out = os.path.join(self.dir, f"{poll_us}.safetensors")
        done = gradus("export", "digits-1", out, "--bare", "--state-dir", os.path.join(self.dir, f"cluster-{poll_us}"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, "rb") as f:
            return f.read()

    def test_it_changes_no_bits_and_shows(self):
        results = []
        for poll_us in (0, 300):
            master, ps, worker = self.cluster(poll_us)
            self.train(master)
            results.append(self.exported(master, poll_us))
            for node in (ps, worker):
                m = metrics(node)
                polled = m['gradus_rpc_waits_total{how="polled"}'] + m['gradus_rpc_waits_total{how="polled_in_vain"}']
                self.assertEqual(polled > 0, poll_us > 0, m)
                self.assertEqual(m["gradus_rpc_polling_seconds_total"] > 0, poll_us > 0, m)
            self.assertEqual(m['gradus_rpc_waiters{why="preempted"}'], 0)
        self.assertEqual(results[0], results[1])

    def test_who_has_nothing_to_do_polls_for_nothing(self):
        master, ps, worker = self.cluster("auto")
        done = gradus("submit", DIGITS, "--master", master.address, *self.job(training__epochs=ENDLESS))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_for("steps", lambda: self.status(master, "digits-1")["steps"] > 20)
        for node in (ps, worker):  # of the server the worker, by its socket, and the reverse
            self.wait_for("a neighbour", lambda n=node: metrics(n)["gradus_rpc_polling_neighbours"] == 1)
        self.assertEqual(gradus("pause", "digits-1", "--master", master.address).returncode, 0)
        self.wait_for("the pause", lambda: self.status(master, "digits-1")["state"] == "PAUSED")
        # The job is paused before its worker has closed all of its connections.
        for node in (ps, worker):
            self.wait_for("no neighbour", lambda n=node: metrics(n)["gradus_rpc_polling_neighbours"] == 0)
        before = {s: cpu_seconds(s) for s in (master, ps, worker)}
        begin = time.monotonic()
        self.wait_for("the time to pass", lambda: time.monotonic() - begin > IDLE_SECONDS)
        for service, used in before.items():
            self.assertLess(cpu_seconds(service) - used, IDLE_SHARE * IDLE_SECONDS)

    def test_what_it_may_be(self):
        for kind in ("ps", "worker"):
            with self.assertRaisesRegex(AssertionError, 'poll_us: "soon": expected auto, or microseconds between 0 and'):
                self.start(kind, "--poll-us=soon")


if __name__ == "__main__":
    unittest.main(verbosity=2)
