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
                    try:
                        there = socket.create_connection(self.to)
                    except OSError:  # nobody listens there yet
                        here.close()
                        continue
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


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def fields(*values):
    """A message whose fields 1, 2 … are these: texts, messages, or numbers."""
    out = b""
    for number, value in enumerate(values, 1):
        data = value.encode() if isinstance(value, str) else value
        out += varint(number << 3) + varint(value) if isinstance(value, int) else varint(number << 3 | 2) + varint(len(data)) + data
    return out


def numbers_of(message):
    """Of a message that has nothing but numbers, by their fields."""
    found, at = {}, 0
    while at < len(message):
        field, at, value, shift = message[at] >> 3, at + 1, 0, 0
        while message[at] > 127:
            value, shift, at = value | (message[at] & 127) << shift, shift + 7, at + 1
        found[field], at = value | message[at] << shift, at + 1
    return found


class Etcd:
    def __init__(self, *args):
        """args: more of its arguments; with TLS, its addresses are https."""
        self.args = args
        self.dir = tempfile.mkdtemp(prefix="gradus-test-etcd-")
        self.scheme = "https" if "--cert-file" in args else "http"
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

    def ask(self, method, body=b"", token=None):
        """A call that masters do not make, by its bytes: the answer's."""
        import grpc
        with grpc.insecure_channel(self.client.address, [("grpc.enable_http_proxy", 0)]) as channel:
            return channel.unary_unary("/etcdserverpb." + method)(
                body, timeout=60, wait_for_ready=True, metadata=[("token", token)] if token else None)

    def ask_for_users(self, user, password, prefix):
        """From now on it asks everybody who he is; @user may read and write below @prefix, which ends with a slash."""
        for name, secret, role in (("root", "of root", "root"), (user, password, "masters")):
            self.ask("Auth/UserAdd", fields(name, secret))
            self.ask("Auth/RoleAdd", fields(role))
            self.ask("Auth/UserGrantRole", fields(name, role))
        self.ask("Auth/RoleGrantPermission", fields("masters", fields(2, prefix, prefix[:-1] + "0")))
        self.ask("Auth/AuthEnable")

    def set_password(self, user, password):
        """Its tokens are over then."""
        answer = self.ask("Auth/Authenticate", fields("root", "of root"))
        token = answer[answer.rindex(b"\x12") + 2:].decode()  # the last field
        self.ask("Auth/UserChangePassword", fields(user, password), token)

    def fill(self, prefix):
        """Writes until it has no room; the words in which it says so."""
        import grpc
        try:
            for i in range(1000):
                self.ask("KV/Put", fields(f"{prefix}{i:03}", b"x" * 1000000))
        except grpc.RpcError as e:
            return e.details()
        raise AssertionError("it takes everything")

    def make_room(self, prefix):
        """What docs/operations.md says to do."""
        self.ask("KV/DeleteRange", fields(prefix, prefix[:-1] + "0"))
        answer = self.ask("KV/Range", fields(prefix))
        header = numbers_of(answer[2:2 + answer[1]])  # 2: the member, 3: the revision
        self.ask("KV/Compact", fields(header[3], 1))
        self.ask("Maintenance/Defragment")
        self.ask("Maintenance/Alarm", fields(2, header[2], 1))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.client.close()
        self.peer.close()
        shutil.rmtree(self.dir, ignore_errors=True)
