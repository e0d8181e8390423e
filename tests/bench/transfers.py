# SPDX-License-Identifier: Apache-2.0
"""A parameter server and its clients, and plain sockets beside them, measured in turn."""

import json
import os
import subprocess
import tempfile

import machine

READY_SECONDS = 60


class Certificates:
    """Of a CA of their own, for as long as this program lives; the variables that name them."""

    def __init__(self, bin_dir):
        self.dir = tempfile.TemporaryDirectory(prefix="gradus-bench-")
        subprocess.run([os.path.join(bin_dir, "gradus"), "certificates", "init", self.dir.name], check=True,
                       stdout=subprocess.DEVNULL)
        names = {"CERT": "node.crt", "KEY": "node.key", "CA": "ca.crt"}
        self.environment = {f"GRADUS_TLS_{name}": os.path.join(self.dir.name, file) for name, file in names.items()}


class Program:
    """A program that says "ready", then takes commands on stdin and answers each with a line of JSON."""

    def __init__(self, *command, environment=None):
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, **(environment or {})})
        self.name = os.path.basename(str(command[0]))
        ready, *self.said = self.process.stdout.readline().split() or [""]
        if ready != "ready":
            raise RuntimeError(f"{self.name}: exit code {self.process.wait()}")

    def begin(self, kind, seconds):
        self.process.stdin.write(f"{kind} {seconds}\n")
        self.process.stdin.flush()

    def end(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}: exit code {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Server:
    """A gradus-ps without a cluster: nobody answers at its master's address, and it serves all the same."""

    def __init__(self, bin_dir, socket, *more, environment=None):
        local = "off" if socket in ("tcp", "tls") else "auto"
        shared = "--shared-memory" if socket == "memory" else "--no-shared-memory"
        self.dir = tempfile.TemporaryDirectory(prefix="gradus-bench-")
        with open(os.path.join(self.dir.name, "log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [os.path.join(bin_dir, "gradus-ps"), "--master", "127.0.0.1:1", "--checkpoint-dir", self.dir.name,
                 "--local-sockets", local, shared, "--exit-with-parent", *more], stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, **(environment or {})})
        line = self.process.stdout.readline().split()
        self.said = dict(word.split("=", 1) for word in line[2:])
        self.pid = self.process.pid

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.dir.cleanup()


class Crowd:
    """Many clients, of one process, of one server over TCP; @dead of them never read; or one step of all after the other."""

    def __init__(self, bin_dir, size, count, dead=0, sync=False):
        self.size = size
        self.server = Server(bin_dir, "tcp")
        self.clients = Program(os.path.join(bin_dir, "bench_clients"), self.server.said["grpc"], size, count, dead,
                               *(["sync"] if sync else []))

    def run(self, word, seconds):
        return together([self.clients], word, seconds)[1][0]

    def cost(self, seconds):
        """CPU seconds of the server for a GB of both ways."""
        before = machine.thread_seconds(self.server.pid)
        answer = self.run("exchange", seconds)
        return (machine.thread_seconds(self.server.pid) - before) / (answer["ops"] * self.size * 2e-9)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.clients.close()
        self.server.close()


class Link:
    """A client and a server with a network between them."""

    def __init__(self, bin_dir, size, delay_us, mb_per_second, wire="fp32"):
        self.server = Server(bin_dir, "tcp")
        port = self.server.said["grpc"].rsplit(":", 1)[1]
        self.link = Program(os.path.join(bin_dir, "bench_link"), port, delay_us, mb_per_second)
        self.client = Program(os.path.join(bin_dir, "bench_transfer"), f"127.0.0.1:{self.link.said[0]}", size, "sgd",
                              0, 1, wire)

    def rate(self, kind, seconds):
        return together([self.client], kind, seconds)[0]

    def close(self):
        self.client.close()
        self.link.close()
        self.server.close()


def together(programs, kind, seconds):
    """One round of all of @programs at the same time: operations per second of all, and the single answers."""
    for p in programs:
        p.begin(kind, seconds)
    answers = [p.end() for p in programs]
    return sum(a["ops"] / a["seconds"] for a in answers), answers


class Pair:
    """@count clients of one server over @socket ("memory": what a Unix-domain socket agrees on; "tls": TCP), and as many plain
    sockets."""

    def __init__(self, bin_dir, socket, size, count, rule="sgd", *server, wire="fp32"):
        self.certificates = Certificates(bin_dir) if socket == "tls" else None
        environment = self.certificates.environment if self.certificates else None
        self.server = Server(bin_dir, socket, *server, environment=environment)
        self.size = size
        target = self.server.said["grpc"]
        self.ours = [Program(os.path.join(bin_dir, "bench_transfer"), target, size, rule, i, count, wire,
                             environment=environment) for i in range(count)]
        self.raw = [Program(os.path.join(bin_dir, "bench_raw"), "tcp" if socket in ("tcp", "tls") else "unix", size)
                    for _ in range(count)]

    def warm(self, kind, seconds):
        together(self.ours, kind, seconds)
        together(self.raw, kind, seconds / 2)

    def round(self, kind, seconds):
        """Ours and the plain sockets, one after the other: (rate, answers, CPU seconds of all) of both."""
        before = machine.cpu_seconds(self.server.pid)
        rate, answers = together(self.ours, kind, seconds)
        cpu = machine.cpu_seconds(self.server.pid) - before + sum(a["cpu"] for a in answers)
        raw_rate, raw_answers = together(self.raw, kind, seconds)
        return (rate, answers, cpu), (raw_rate, raw_answers, sum(a["cpu"] for a in raw_answers))

    def close(self):
        for p in self.ours + self.raw:
            p.close()
        self.server.close()
