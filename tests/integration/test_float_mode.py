# SPDX-License-Identifier: Apache-2.0
"""Every thread of every program of ours counts subnormal floats as zero (common/base/float_mode.h), those that libraries make,
too, or the same sums would have other bits in other threads; what a user wrote computes as it likes."""

import ctypes
import os
import platform
import shlex
import struct
import unittest

import test_programs
from cluster import BIN, ENDLESS, SLOW_DOWN, SOURCE, ClusterTest, children_of

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_GETREGSET, PTRACE_DETACH = 0x4206, 0x4207, 0x4204, 17
NT_PRFPREG, WALL = 2, 0x40000000
# Where the mode is among the registers, and its bits.
MODES = {"x86_64": (24, 0x8040), "aarch64": (516, 1 << 24)}


class Registers(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def ptrace(request, thread, what=None, data=None):
    if LIBC.ptrace(request, thread, what, data) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def flushes(thread):
    """Does it count subnormal floats as zero? It stands still for that moment."""
    at, bits = MODES[platform.machine()]
    registers = ctypes.create_string_buffer(4096)
    which = Registers(ctypes.addressof(registers), len(registers))
    ptrace(PTRACE_SEIZE, thread)
    ptrace(PTRACE_INTERRUPT, thread)
    os.waitpid(thread, WALL)
    try:
        ptrace(PTRACE_GETREGSET, thread, NT_PRFPREG, ctypes.addressof(which))
    finally:
        ptrace(PTRACE_DETACH, thread)
    return struct.unpack_from("<I", registers, at)[0] & bits == bits


def modes(process):
    """[name, whether it flushes] of the threads of a process, except those that end meanwhile."""
    found = []
    for thread in os.listdir(f"/proc/{process}/task"):
        try:
            with open(f"/proc/{process}/task/{thread}/comm", encoding="utf-8") as f:
                name = f.read().strip()
            found.append([name, flushes(int(thread))])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def why_not():
    """Nothing, if the threads of other processes can be looked at here."""
    if platform.machine() not in MODES:
        return "the mode is not known on " + platform.machine()
    child = os.fork()
    if child == 0:
        os.execlp("sleep", "sleep", "60")
    try:
        flushes(child)
    except OSError as e:
        return f"ptrace: {e}"
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    return ""


WHY_NOT = why_not()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Ours(ClusterTest):
    def assert_all(self, process, *names):
        found = modes(process)
        self.assertEqual([name for name, flushed in found if not flushed], [])
        self.assertEqual(set(names) - {name for name, _ in found}, set())

    def test_every_thread(self):
        run = self.start_run(training__epochs=ENDLESS, training__checkpoint_every="2 steps", cluster__blas_threads=2, slow_down=SLOW_DOWN)
        self.wait_run("state", 5)
        with open(os.path.join(self.dir, "state", "master.address"), encoding="ascii") as f:
            serve = self.start("serve", f"--master={f.read().strip()}", "--job=digits-1", "--follow", "--threads=2")
        self.assert_all(run.pid)
        for name, threads in (("gradus-master", ["master", "master-pool"]), ("gradus-ps", ["ps-files"]), ("gradus-worker", ["job"])):
            self.assertNotEqual(self.child(run, name), [])
            for process in self.child(run, name):
                self.assert_all(process, "rpc", "http", "signals", *threads)
        self.assert_all(serve.process.pid, "rpc", "http", "compute", "follow")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Theirs(test_programs.ProgramTest):
    def modes_beside(self, job, file, command):
        """Those of all threads that compute beside the worker of a `gradus run`."""
        run = self.start_run(job, file, ["--worker", command], training__epochs=ENDLESS)
        self.wait_run(job, 5, job)
        programs = [pid for worker in self.child(run, "gradus-worker") for pid in children_of(worker)]
        found = [flushed for pid in programs for _, flushed in modes(pid)]
        run.kill()
        return found

    def test_a_plug_in_computes_in_a_process_of_ours(self):
        command = shlex.join([os.path.join(BIN, "gradus-worker"), "compute", test_programs.InC.plug_in(self)])
        self.assertEqual(set(self.modes_beside("plane-1", SOURCE + "/examples/compute-plugin/plane.yaml", command)), {True})

    @unittest.skipUnless(test_programs.NUMPY, "NumPy is not installed")
    def test_a_program_is_the_users(self):
        self.assertEqual(set(self.modes_beside("mine-1", self.file, self.numpy())), {False})


if __name__ == "__main__":
    unittest.main(verbosity=2)
