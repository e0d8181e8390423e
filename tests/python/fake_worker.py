# SPDX-License-Identifier: Apache-2.0
"""A worker as a program meets it, in Python: the messages of common/program/program_message.h over a socket pair.

The program runs in a thread of the same process; nobody needs a cluster."""

import ctypes
import fcntl
import mmap
import os
import socket
import threading
from ctypes import Structure, Union, c_char, c_double, c_uint16, c_uint32, c_uint64

import numpy

MAGIC, VERSION = 0x47724450, 1
(HELLO, JOB, DESCRIBE, START, ARRAY, GRADIENT, EVALUATION, DONE, FAILED, JOB_END) = range(1, 11)
ALIGN = 16  # floats
PARAMETERS, GRADIENTS, BATCH = 0, 1, 2
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2


class Variable(Structure):
    _fields_ = [("name", c_char * 128), ("dims", c_uint64 * 4), ("rank", c_uint32), ("kind", c_uint32)]


class Hello(Structure):
    _fields_ = [("abi", c_uint32), ("name", c_char * 128)]


class Job(Structure):
    _fields_ = [("id", c_char * 129), ("program", c_char * 129), ("text_bytes", c_uint64), ("table_count", c_uint64), ("seed", c_uint64),
                ("batch_records", c_uint32), ("evaluation_records", c_uint32)]


class Description(Structure):
    _fields_ = [("variable_count", c_uint64), ("table_count", c_uint64), ("memory_bytes", c_uint64), ("train_records", c_uint64),
                ("test_records", c_uint64), ("fingerprint", c_uint64)]


class Start(Structure):
    _fields_ = [("feature_dims", c_uint64 * 4), ("feature_rank", c_uint32), ("has_data", c_uint32), ("has_classes", c_uint32),
                ("field_count", c_uint32), ("has_weights", c_uint32)]


class Array(Structure):
    _fields_ = [("array", c_uint32), ("bytes", c_uint64)]


class WorkMessage(Structure):
    _fields_ = [("parameters", c_uint32), ("gradients", c_uint32), ("batch", c_uint32), ("replica", c_uint32),
                ("records_at", c_uint64), ("features_at", c_uint64), ("targets_at", c_uint64), ("classes_at", c_uint64),
                ("count", c_uint64), ("epoch", c_uint64), ("step", c_uint64), ("seed", c_uint64),
                ("offsets_at", c_uint64), ("keys_at", c_uint64), ("weights_at", c_uint64), ("list_keys", c_uint64),
                ("rows", c_uint32), ("row_gradients", c_uint32), ("of", c_uint32)]


class Result(Structure):
    _fields_ = [("examples", c_uint64), ("loss_sum", c_double), ("correct", c_double), ("squared_error_sum", c_double),
                ("absolute_error_sum", c_double)]


class Failed(Structure):
    _fields_ = [("text", c_char * 3840)]


class Body(Union):
    _fields_ = [("hello", Hello), ("job", Job), ("description", Description), ("start", Start), ("array", Array),
                ("work", WorkMessage), ("result", Result), ("failed", Failed)]


class Message(Structure):
    _anonymous_ = ("body",)
    _fields_ = [("magic", c_uint32), ("version", c_uint16), ("kind", c_uint16), ("number", c_uint64), ("body", Body)]


def memory(size):
    """Sealed anonymous memory: its descriptor and its bytes."""
    fd = os.memfd_create("fake-worker", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
    return fd, mmap.mmap(fd, size)


class Described:
    """What a program said of its model."""

    def __init__(self, message, raw):
        rows = (Variable * message.description.variable_count).from_buffer_copy(raw)
        at = (ctypes.sizeof(rows) + 63) // 64 * 64
        floats = numpy.frombuffer(raw, numpy.float32, offset=at)
        self.train_records, self.test_records = message.description.train_records, message.description.test_records
        self.fingerprint = message.description.fingerprint
        self.names, self.shapes, self.kinds, self.at, self.values = [], {}, {}, {}, {}
        position = 0
        for row in rows:
            name, shape = row.name.decode(), tuple(row.dims[:row.rank])
            size = int(numpy.prod(shape, dtype=numpy.int64))
            self.names.append(name)
            self.shapes[name], self.kinds[name], self.at[name] = shape, row.kind, position
            self.values[name] = floats[position:position + size].reshape(shape).copy()
            position += (size + ALIGN - 1) // ALIGN * ALIGN
        self.floats = position


def told(text):
    """What the status of a job has of it: as many whole lines from the end as 600 bytes are, at least the last."""
    lines, kept = text.encode().rstrip().split(b"\n"), b""
    while lines and (not kept or len(lines[-1]) + 1 + len(kept) <= 600):
        kept = lines.pop() + (b"\n" + kept if kept else b"")
    return kept[:600].decode("utf-8", "ignore")


class ProgramFailed(Exception):
    """The program answered FAILED, with this text."""


class FakeWorker:
    """Starts `program` (a function without arguments) in a thread, with its end of the socket in the environment."""

    def __init__(self, program):
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        os.environ["GRADUS_PROGRAM_SOCKET"] = str(other.detach())
        self.number, self.raised, self.arrays = 0, None, {}
        self.thread = threading.Thread(target=self._run, args=(program,))
        self.thread.start()
        try:
            self.hello = self.receive(HELLO)
        except Exception:
            self.thread.join()
            raise self.raised if self.raised is not None else RuntimeError("the program said nothing")

    def _run(self, program):
        try:
            program()
        except BaseException as e:  # noqa: a test looks at it
            self.raised = e

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.end(kind is not None)

    def end(self, quiet=False):
        """End the job, hang up, and wait for the program; what it raised is raised here."""
        try:
            self.end_job()
        except OSError:
            pass  # it is gone, or the socket is closed
        self.socket.close()
        self.thread.join(60)
        for _, mapped in self.arrays.values():
            mapped.clear()
        os.environ.pop("GRADUS_PROGRAM_SOCKET", None)
        if self.raised is not None and not quiet:
            raise self.raised

    def send(self, kind, fd=None, number=None, **body):
        message = Message(MAGIC, VERSION, kind, self.number if number is None else number)
        for field, value in body.items():
            setattr(message, field, value)
        fds = [] if fd is None else [fd]
        socket.send_fds(self.socket, [bytes(message)], fds)

    def receive(self, *kinds):
        data, fds, _, _ = socket.recv_fds(self.socket, ctypes.sizeof(Message), 1)
        if not data:
            self.thread.join(60)
            raise self.raised if self.raised is not None else RuntimeError("the program is gone")
        message = Message.from_buffer_copy(data)
        message.fd = fds[0] if fds else None
        if message.kind == FAILED and FAILED not in kinds:
            raise ProgramFailed(message.failed.text.decode())
        assert message.kind in kinds and message.number == self.number, (message.kind, message.number)
        return message

    def job(self, program="mine", seed=7, batch_records=64, evaluation_records=256, text="name: mine\n"):
        """Announce a job; returns what the program describes."""
        fd, mapped = memory(len(text))
        mapped[:] = text.encode()
        self.number += 1
        self.send(JOB, fd, job=Job(b"mine-1", program.encode(), len(text), 0, seed, batch_records, evaluation_records))
        os.close(fd)
        message = self.receive(DESCRIBE)
        raw = mmap.mmap(message.fd, message.description.memory_bytes, prot=mmap.PROT_READ)
        os.close(message.fd)
        self.described = Described(message, raw[:])
        return self.described

    def array(self, number, size):
        fd, mapped = memory(size)
        self.send(ARRAY, fd, array=Array(number, size))
        os.close(fd)
        self.arrays[number] = (size, {"bytes": mapped})
        return mapped

    def start(self, feature_dims=(), has_data=False, has_classes=False):
        self.number += 1
        self.send(START, start=Start((c_uint64 * 4)(*feature_dims), len(feature_dims), has_data, has_classes))
        self.receive(DONE)
        for number in PARAMETERS, GRADIENTS:
            self.array(number, max(self.described.floats * 4, 64))
        self.array(BATCH, 1 << 20)
        self.set_parameters(self.described.values)

    def _view(self, number, name):
        d = self.described
        size = int(numpy.prod(d.shapes[name], dtype=numpy.int64))
        whole = numpy.frombuffer(self.arrays[number][1]["bytes"], numpy.float32)
        return whole[d.at[name]:d.at[name] + size].reshape(d.shapes[name])

    def set_parameters(self, values):
        for name in self.described.names:
            self._view(PARAMETERS, name)[...] = values[name]

    def ask(self, kind, records, features=None, targets=None, classes=None, seed=5, step=0, epoch=0, replica=0):
        batch = self.arrays[BATCH][1]["bytes"]
        at = {"records": 0, "features": 65536, "targets": 16384, "classes": 32768}
        for name, values, dtype in (("records", records, "u8"), ("features", features, "f4"), ("targets", targets, "f4"),
                                    ("classes", classes, "i4")):
            if values is not None:
                raw = numpy.ascontiguousarray(values, dtype).tobytes()
                batch[at[name]:at[name] + len(raw)] = raw
        self.number += 1
        self.send(kind, work=WorkMessage(PARAMETERS, GRADIENTS, BATCH, replica, at["records"], at["features"],
                                         at["targets"], at["classes"], len(records), epoch, step, seed))
        return self.receive(DONE).result

    def gradient(self, records, **more):
        """The result of a batch, and its gradients (copied)."""
        result = self.ask(GRADIENT, records, **more)
        return result, {name: self._view(GRADIENTS, name).copy() for name in self.described.names}

    def evaluate(self, records, **more):
        return self.ask(EVALUATION, records, **more)

    def end_job(self):
        self.send(JOB_END, number=0)
