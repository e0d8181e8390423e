# SPDX-License-Identifier: Apache-2.0
"""libgradus.so.1 by ctypes: the structs and functions of include/gradus/worker.h, and where the library is."""

import ctypes
import os
import shutil
from ctypes import (CDLL, POINTER, Structure, c_char_p, c_double, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p)
from typing import Iterator, Optional

from gradus.errors import Error, LostError, MemoryExhaustedError, NoWorkerError, UseError, VersionError

ABI = 1
SONAME = "libgradus.so.1"
ERRORS = {-1: UseError, -2: NoWorkerError, -3: VersionError, -4: MemoryExhaustedError, -5: LostError}


class Variable(Structure):
    _fields_ = [("name", c_char_p), ("dims", POINTER(c_uint64)), ("rank", c_size_t), ("kind", c_int),
                ("initial", POINTER(c_float))]


class Table(Structure):
    _fields_ = [("name", c_char_p), ("dim", c_uint64)]


class JobStruct(Structure):
    _fields_ = [("id", c_char_p), ("program", c_char_p), ("text", c_char_p), ("seed", c_uint64),
                ("batch_records", c_uint32), ("evaluation_records", c_uint32), ("tables", POINTER(Table)),
                ("table_count", c_size_t)]


class Description(Structure):
    _fields_ = [("size", c_size_t), ("variables", POINTER(Variable)), ("variable_count", c_size_t),
                ("train_records", c_uint64), ("test_records", c_uint64), ("fingerprint", c_uint64),
                ("tables", POINTER(Table)), ("table_count", c_size_t)]


class Rows(Structure):
    _fields_ = [("dim", c_uint64), ("count", c_size_t), ("keys", c_void_p), ("values", c_void_p), ("gradients", c_void_p),
                ("index_count", c_size_t), ("index", c_void_p)]


class FieldStruct(Structure):
    _fields_ = [("name", c_char_p), ("offsets", c_void_p), ("keys", c_void_p), ("weights", c_void_p)]


class Keys(Structure):
    _fields_ = [("keys", c_void_p), ("count", c_size_t)]


class WorkStruct(Structure):
    # Arrays are addresses here: numbers are made views in gradus.worker.
    _fields_ = [("kind", c_int), ("job", POINTER(JobStruct)), ("parameters", c_void_p), ("gradients", c_void_p),
                ("records", c_void_p), ("count", c_size_t), ("epoch", c_uint64), ("step", c_uint64), ("replica", c_uint32),
                ("seed", c_uint64), ("features", c_void_p), ("feature_count", c_uint64),
                ("feature_dims", POINTER(c_uint64)), ("feature_rank", c_size_t), ("targets", c_void_p),
                ("classes", c_void_p), ("fields", POINTER(FieldStruct)), ("field_count", c_size_t),
                ("rows", POINTER(Rows)), ("of", c_int)]


class Result(Structure):
    _fields_ = [("size", c_size_t), ("examples", c_uint64), ("loss_sum", c_double), ("correct", c_double),
                ("squared_error_sum", c_double), ("absolute_error_sum", c_double)]


FUNCTIONS = {
    "gradus_worker_open": (c_int, [c_char_p, POINTER(c_void_p)]),
    "gradus_worker_close": (None, [c_void_p]),
    "gradus_worker_next": (c_int, [c_void_p, POINTER(WorkStruct)]),
    "gradus_worker_describe": (c_int, [c_void_p, POINTER(Description)]),
    "gradus_worker_keys": (c_int, [c_void_p, POINTER(Keys), c_size_t]),
    "gradus_worker_done": (c_int, [c_void_p, POINTER(Result)]),
    "gradus_worker_fail": (c_int, [c_void_p, c_char_p]),
    "gradus_worker_error": (c_char_p, [c_void_p]),
    "gradus_worker_abi": (c_uint32, []),
}


def places() -> Iterator[str]:
    """Where the library may be: what GRADUS_LIBRARY says, beside this file, beside the commands, where the system looks."""
    given = os.environ.get("GRADUS_LIBRARY")
    if given:
        yield given
        return
    yield os.path.join(os.path.dirname(os.path.abspath(__file__)), SONAME)
    worker = find_command("gradus-worker")
    if worker is not None:
        top = os.path.dirname(os.path.dirname(os.path.realpath(worker)))
        for directory in ("lib", f"lib/{os.uname().machine}-linux-gnu", "lib64"):
            yield os.path.join(top, directory, SONAME)
    yield SONAME


def find_command(name: str) -> Optional[str]:
    """The path of one of Gradus's commands: in the directory that GRADUS_BIN names, else on PATH. None: there is none."""
    directory = os.environ.get("GRADUS_BIN")
    if directory:
        path = os.path.join(directory, name)
        return path if os.access(path, os.X_OK) else None
    return shutil.which(name)


_loaded: Optional[CDLL] = None


def library() -> CDLL:
    """The library, loaded once. Errors: NoWorkerError it is not found; VersionError."""
    global _loaded
    if _loaded is None:
        _loaded = load()
    return _loaded


def load() -> CDLL:
    found, said = None, []
    for path in places():
        if path != SONAME and not os.path.exists(path):
            said.append(f"{path}: no such file")
            continue
        try:
            found = CDLL(path)
            break
        except OSError as e:
            said.append(str(e))
    if found is None:
        raise NoWorkerError(f"{SONAME} is not found; install Gradus, or set GRADUS_BIN to the directory of its commands or "
                            f"GRADUS_LIBRARY to the file ({'; '.join(said)})")
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(found, name, None)
        if function is None:
            raise VersionError(f"{SONAME} has no {name}: it is of another version")
        function.restype, function.argtypes = result, arguments
    if found.gradus_worker_abi() != ABI:
        raise VersionError(f"{SONAME} has version {found.gradus_worker_abi()} of the interface; this package knows {ABI}")
    return found


def error(status: int, handle: Optional[int]) -> Error:
    """The exception for what a function returned."""
    text = library().gradus_worker_error(handle).decode("utf-8", "replace")
    return ERRORS.get(status, Error)(text)
