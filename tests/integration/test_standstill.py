# SPDX-License-Identifier: Apache-2.0
"""A parameter server that stands still is waited for: its job goes on where it was."""

import os
import signal
import subprocess

from cluster import BIN, SLOWER, gradus, read_message
from faults import Digits, FaultTest, main

SILENCE_MS = 3000 * SLOWER  # of a worker, until it is given up


class Standstill(Digits, FaultTest):
    job_keys = {"training__replicas": 4, "cluster__workers": 2, "cluster__ps": 2, "cluster__partitions": 2}

    def cluster_of(self, *more):
        self.state_dir = self.dir + "/cluster"
        self.master_args = (f"--state-dir={self.state_dir}", f"--heartbeat-timeout-ms={SILENCE_MS}", *more)
        self.master = self.start("master", *self.master_args)
        self.servers = [self.start_ps() for _ in range(2)]
        self.workers = [self.start_worker() for _ in range(2)]

    def nodes(self):
        return read_message(gradus("nodes", "--json", "--master", self.master.address).stdout)["nodes"]

    def age_ms(self, service):
        return next(n["heartbeat_age_ms"] for n in self.nodes() if n["alive"] and n["address"] == service.address)

    def freeze(self, service):
        """It gets no processor, for longer than a worker would be waited for."""
        service.process.send_signal(signal.SIGSTOP)
        self.wait_for("silence", lambda: self.age_ms(service) > SILENCE_MS + 1000)

    def waits_for(self, job, service):
        words = f"{self.node_of(service)} has been silent for "
        status = self.wait_for("what it waits for", lambda: (
            lambda s: s if words in s["activity"] else None)(self.status(self.master, job)))
        self.assertIn("; it is waited for until 10:00", status["activity"])
        listed = gradus("list", "--master", self.master.address).stdout
        self.assertIn(words, listed)

    def goes_on(self, mode, **sets):
        self.cluster_of("--ps-timeout-ms=10m")
        job = self.start_job(**{**self.job_keys, "training__mode": mode, **sets})
        for part, service in ((0.1, self.servers[0]), (0.4, self.servers[1])):
            self.wait_done(job, part)
            self.freeze(service)
            self.waits_for(job, service)
            before = self.now(job)["steps"]
            service.process.send_signal(signal.SIGCONT)
            self.wait_for("the next steps", lambda: self.now(job)["steps"] > before)
        status = self.wait_end(job)
        self.assertEqual(status["recoveries"], 0)
        self.assertNotRegex(self.log_of(self.master), r"event=node_lost node=\S+ role=ps")
        return job, status

    def test_sync(self):
        job, status = self.goes_on("sync")
        quiet = self.quiet("plain", training__replicas=4, training__epochs=int(status["epochs"]))
        self.assertEqual(self.bits(job), self.bits(quiet["job"], "plain"))

    def test_async(self):
        _, status = self.goes_on("async")
        self.assert_each_record_once(status)

    def test_it_is_given_up_in_the_end(self):
        self.cluster_of(f"--ps-timeout-ms={3 * SILENCE_MS}")
        job = self.start_job(**self.job_keys)
        self.wait_done(job, 0.1)
        name = self.node_of(self.servers[0])
        self.servers[0].process.send_signal(signal.SIGSTOP)
        self.wait_for("the recovery", lambda: self.now(job)["recoveries"] == 1)
        self.assertIn(f"parameter server {name} was lost (no heartbeat for ", self.log_of(self.master))
        self.servers[0].process.send_signal(signal.SIGCONT)  # it joins again
        self.wait_end(job)

    def test_it_is_dropped_by_request(self):
        self.cluster_of("--ps-timeout-ms=1h")
        job = self.start_job(**self.job_keys)
        self.wait_done(job, 0.1)
        name = self.node_of(self.servers[0])
        self.freeze(self.servers[0])
        self.assertEqual(self.now(job)["recoveries"], 0)
        self.assertEqual(gradus("drop", "ps-99", "--master", self.master.address).returncode, 5)
        done = gradus("drop", name, "--master", self.master.address)
        self.assertEqual((done.returncode, done.stdout), (0, f"node {name} is given up\n"), done.stderr)
        self.wait_for("the recovery", lambda: self.now(job)["recoveries"] == 1)
        self.assertIn(f"parameter server {name} was lost (it is gone for good, by request)", self.log_of(self.master))
        self.servers[0].process.send_signal(signal.SIGCONT)  # it lives all the same
        self.wait_for("its return, under its name", lambda: any(
            n["alive"] and n["address"] == self.servers[0].address and n["id"] == name for n in self.nodes()))
        self.wait_end(job)

    def test_heartbeats_that_are_too_rare_are_refused(self):
        done = subprocess.run([os.path.join(BIN, "gradus-master"), "--heartbeat-interval-ms=1500",
                               "--heartbeat-timeout-ms=3000"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2)
        self.assertIn("heartbeat_interval_ms 1500 must be less than half of heartbeat_timeout_ms", done.stderr)


if __name__ == "__main__":
    main()
