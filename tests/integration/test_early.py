# SPDX-License-Identifier: Apache-2.0
"""Computations begin while their parameters are still coming: answers that end in the middle change nothing."""

import os
import re
import signal
import socket
import threading
import time
import urllib.request

from faults import Digits, FaultTest, main

MIB = 1 << 20
JOB = """
name: wide
data:
  train: {file: train-images-idx3-ubyte.gz, labels: train-labels-idx1-ubyte.gz}
  test: {file: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz}
model:
  layers:
    - flatten
    - dense: {units: 1024, activation: relu}
    - dense: {units: 1024, activation: relu}
    - dense: {units: 512, activation: relu}
    - dense: {units: 10}
  loss: softmax_cross_entropy
  metrics: [accuracy]
update: {rule: sgd, learning_rate: 0.05}
training: {mode: sync, batch_size: 40, epochs: 2, replicas: 2}
cluster: {workers: 1, ps: 1, partitions: 1}
"""  # 9 MiB of parameters, in messages of 1 MiB


class Proxy:
    """A way to a server on which something happens once so many bytes of its answers have passed."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.target = None
        self.lock = threading.Lock()
        self.troubles = []  # (bytes since the last one on a connection, what happens to the connection)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        host, port = self.target.rsplit(":", 1)
        try:
            server = socket.create_connection((host, int(port)), timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        requests = threading.Thread(target=self.pump, args=(client, server, False), daemon=True)
        requests.start()
        self.pump(server, client, True)
        requests.join()
        client.close()
        server.close()

    def due(self, count):
        with self.lock:
            return self.troubles.pop(0)[1] if self.troubles and count >= self.troubles[0][0] else None

    def pump(self, source, to, answers):
        count = 0
        try:
            while data := source.recv(1 << 16):
                to.sendall(data)
                count += len(data)
                happens = self.due(count) if answers else None
                if happens:
                    count = 0
                    happens(source, to)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def cut(source, to):
    """The connection ends."""
    raise OSError


def stall(source, to):
    """It stands still for longer than a worker waits in the middle of an answer."""
    time.sleep(1.5)


class Early(Digits, FaultTest):
    model = {}
    sizes = {}
    epochs = 2
    accuracy = 0.5
    reference = []

    def setUp(self):
        super().setUp()
        self.proxies = []
        self.file = os.path.join(self.dir, "wide.yaml")
        with open(self.file, "w") as f:
            f.write(JOB)

    def tearDown(self):
        super().tearDown()
        for proxy in self.proxies:
            proxy.close()

    def cluster(self, workers, ps=1):
        self.proxies = [Proxy() for _ in range(ps)]
        self.ps_count = 0
        super().cluster(workers, ps)

    def start_ps(self):
        proxy = self.proxies[self.ps_count % len(self.proxies)]
        self.ps_count += 1
        ps = self.start("ps", f"--master={self.master.address}", f"--advertise={proxy.address}",
                        f"--checkpoint-dir={self.state_dir}/checkpoints", "--local-sockets=off")
        proxy.target = ps.address
        return ps

    def start_worker(self):
        return self.start("worker", f"--master={self.master.address}", "--local-sockets=off")

    def given_up(self):
        total = 0
        for worker in self.workers:
            page = urllib.request.urlopen(f"http://{worker.http}/metrics", timeout=120).read().decode()
            total += float(re.search(r"^gradus_worker_batches_given_up_total (\S+)", page, re.M).group(1))
        return total

    def expected(self):
        if not Early.reference:
            result = self.quiet("plain", training__replicas=2)
            Early.reference.append(self.bits(result["job"], "plain"))
        return Early.reference[0]

    def trouble(self):
        """In the middle of answers, in different places."""
        for proxy in self.proxies:
            at = (12.3, 5.2, 13.7, 21.1, 7.9, 6.4, 17.8, 13.3, 16.2, 10.6, 8.6, 15.1)
            proxy.troubles = [(int(mib * MIB), stall if i % 6 == 4 else cut) for i, mib in enumerate(at)]

    def train(self, workers, ps=1, **sets):
        self.cluster(workers, ps)
        self.trouble()
        job = self.submit(cluster__workers=workers, cluster__ps=ps, cluster__partitions=ps, **sets)
        status = self.wait_end(job)
        self.assertEqual((status["recoveries"], status["generation"]), (0, 1))
        self.assertEqual([proxy.troubles for proxy in self.proxies], [[]] * ps)
        self.assertGreater(self.given_up(), 0)
        self.assert_each_record_once(status)
        return job

    def test_sync(self):
        self.assertEqual(self.bits(self.train(1)), self.expected())

    def test_sync_of_two(self):
        self.assertEqual(self.bits(self.train(2, 2)), self.expected())

    def test_async(self):
        self.train(1, training__mode="async")

    def test_a_server_killed_in_the_middle_of_answers(self):
        self.cluster(1)
        killed = []

        def kill(source, to):
            os.kill(self.servers[0].process.pid, signal.SIGKILL)
            killed.append(True)
            raise OSError

        proxy = self.proxies[0]
        proxy.troubles = [(int(mib * MIB), kill) for mib in (31.2, 57.9, 83.5)]
        job = self.submit(training__checkpoint_every="2 steps")
        for i in range(3):
            self.wait_for("the server to be killed", lambda: len(killed) > i)
            self.servers[0].stop(signal.SIGKILL)
            self.servers[0] = self.start_ps()
        status = self.wait_end(job)
        self.assertGreaterEqual(status["recoveries"], 3)
        self.assertEqual(self.bits(job), self.expected())


if __name__ == "__main__":
    main()
