# SPDX-License-Identifier: Apache-2.0
"""An etcd of one process, which can be killed and started again at its address, and a way to it that can be cut."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading

PROGRAM = shutil.which("etcd")


class HeldPort:
    """A port that no other process gets while nobody listens there: bound and never listened on (tests/support/held_port.h)."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]

    def close(self):
        self.socket.close()


class Way:
    """A port that leads to another one, until it is cut: then bytes go nowhere, and no connection ends, as when a network is gone."""

    def __init__(self, address):
        host, port = address.split(":")
        self.to = host, int(port)
        self.whole = threading.Event()
        self.whole.set()
        self.sockets = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                here = self.server.accept()[0]
                self.sockets.append(here)
                if self.whole.is_set():
                    there = socket.create_connection(self.to)
                    self.sockets.append(there)
                    for a, b in ((here, there), (there, here)):
                        threading.Thread(target=self.carry, args=(a, b), daemon=True).start()
        except OSError:
            pass  # closed

    def carry(self, source, to):
        try:
            while data := source.recv(65536):
                if self.whole.is_set():
                    to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed

    def cut(self):
        self.whole.clear()

    def close(self):
        for s in (self.server, *self.sockets):
            s.close()


class Etcd:
    def __init__(self, *args):
        """args: more of its arguments; with TLS, its addresses are https."""
        self.args = args
        self.dir = tempfile.mkdtemp(prefix="gradus-test-etcd-")
        self.scheme = "https" if args else "http"
        self.client, self.peer = HeldPort(), HeldPort()
        self.process = None
        self.start()

    def start(self):
        client, peer = f"{self.scheme}://{self.client.address}", f"http://{self.peer.address}"
        with open(os.path.join(self.dir, "log"), "a") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", PROGRAM, "--data-dir", self.dir + "/data", "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}", *self.args],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def url(self, prefix="gradus"):
        return f"etcd://{self.client.address}/{prefix}"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.client.close()
        self.peer.close()
        shutil.rmtree(self.dir, ignore_errors=True)
