# SPDX-License-Identifier: Apache-2.0
"""The way back: what a job has trained, in PyTorch again. Reads what `gradus export` writes as safetensors."""

import json
import math
import os
import struct
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Sequence, Tuple, Union

import torch
from torch import nn

from gradus.errors import UseError

HEADER_BYTES_MAX = 100000000
BYTES = {"F32": 4, "U64": 8}
RANK_MAX = 4  # of variables
FROZEN = "(what the job has not trained stays as it is where requires_grad is False)"


class Stored(NamedTuple):
    """A tensor in a file."""

    dtype: str
    shape: List[int]
    begin: int  #: of its bytes in the file
    bytes: int


class Place(NamedTuple):
    """A tensor of a module, with all names that it has there: more than one if weights are tied or a module comes twice."""

    names: List[str]
    tensor: torch.Tensor
    trained: bool


def load(module: nn.Module, file: Union[str, "os.PathLike[str]"]) -> None:
    """Put the values that a job has trained into a module, in place: parameters, and running statistics of BatchNorm.

    module: as `model()` of the task makes it. What the job has not trained stays as it is there: parameters with requires_grad
    False, other buffers. Tied weights stay tied, and every tensor keeps its shape, type and device.
    file: what `gradus export JOB FILE.safetensors` has written.
    Errors: UseError it is no such file, or names and shapes are not those of the module, with all that differs; nothing was
    changed then. OSError it cannot be read."""
    if not isinstance(module, nn.Module):
        raise UseError(f"load() is given an nn.Module and a file, not {type(module).__name__}")
    with open(file, "rb") as f:
        stored = read_header(f, os.fspath(file))
        pairs, wrong = fit(list(places(module)), stored)
        if wrong:
            raise UseError("\n  ".join([f"{os.fspath(file)} does not fit the module, which stays as it is:", *wrong]))
        for place, name in pairs:
            values = read_values(f, stored[name], torch.float32).view(place.tensor.shape)
            with torch.no_grad():
                place.tensor.copy_(values)


def rows(file: Union[str, "os.PathLike[str]"], table: str) -> Tuple[torch.Tensor, torch.Tensor]:
    """The rows of a sparse table in what `gradus export` has written: (int64 [n], the 64 bits of their keys, ascending; float32
    [n, dim], the row of each).

    Errors: UseError there is no such table, or it is no such file. OSError it cannot be read."""
    with open(file, "rb") as f:
        stored = read_header(f, os.fspath(file))
        names = tables_of(stored)
        if table not in names:
            raise UseError(f"{os.fspath(file)} has no table \"{table}\", {'but ' + quoted(names) if names else 'nor any other'}")
        keys, values = stored[table + ".keys"], stored[table + ".values"]
        ascending, order = read_values(f, keys, torch.int64).sort()
        return ascending, read_values(f, values, torch.float32).view(values.shape)[order]


def tables_of(stored: Dict[str, Stored]) -> List[str]:
    """Tables are two tensors each, T.keys and T.values."""
    names = [name[:-len(".keys")] for name, s in stored.items() if name.endswith(".keys") and s.dtype == "U64" and len(s.shape) == 1]
    return [name for name in names if name + ".values" in stored and stored[name + ".values"].dtype == "F32"
            and stored[name + ".values"].shape[:-1] == stored[name + ".keys"].shape]


def quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def joined(shape: Sequence[int]) -> Tuple[int, ...]:
    """The shape of the variable of a tensor: those of a 3-D convolution's kernel are joined at the end."""
    return tuple(shape) if len(shape) <= RANK_MAX else (*shape[:RANK_MAX - 1], math.prod(shape[RANK_MAX - 1:]))


def places(module: nn.Module) -> Iterator[Place]:
    """The parameters and buffers of a module, each once."""
    found: Dict[int, Place] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name, tensor in [*part._parameters.items(), *part._buffers.items()]:
            if tensor is not None:
                trained = isinstance(tensor, nn.Parameter) and tensor.requires_grad
                found.setdefault(id(tensor), Place([], tensor, trained)).names.append(f"{prefix}.{name}" if prefix else name)
    return iter(found.values())


def fit(wanted: List[Place], stored: Dict[str, Stored]) -> Tuple[List[Tuple[Place, str]], List[str]]:
    """(which tensor of the file each place gets, all that does not fit)."""
    pairs: List[Tuple[Place, str]] = []
    wrong: List[str] = []
    tables, hints = tables_of(stored), []
    for place in wanted:
        of, why = [name for name in place.names if name in stored], ""
        if of:
            why = differs(place, [stored[name] for name in of])
            pairs.append((place, of[0]))
        elif place.trained:
            why = f"{shape_of(place)}, not in the file"
            hints = [FROZEN] + [f"(the file has tables, {quoted(tables)}: gradus.torch.rows() reads them)"] * bool(tables)
        if why:
            wrong.append(f"{', '.join(place.names)}: {why}")
    known = {name for place in wanted for name in place.names}.union(*([t + ".keys", t + ".values"] for t in tables))
    wrong += [f"{name}: {s.shape} in the file, not in the module" for name, s in stored.items() if name not in known]
    return pairs, wrong + hints


def shape_of(place: Place) -> str:
    lazy = nn.parameter.is_lazy(place.tensor)
    return "no shape yet in the module" if lazy else f"{list(place.tensor.shape)} in the module"


def differs(place: Place, of: List[Stored]) -> str:
    """Why a tensor cannot take what the file has of its names; "": it can."""
    if len(of) > 1:
        return f"tied in the module, {len(of)} variables in the file"
    if of[0].dtype != "F32":
        return f"{of[0].dtype} in the file, where gradus export writes F32"
    if nn.parameter.is_lazy(place.tensor):
        return f"{shape_of(place)}: run it once"
    if place.tensor.device.type == "meta":
        return "on the device meta in the module, without values"
    if tuple(of[0].shape) not in (tuple(place.tensor.shape), joined(place.tensor.shape)):
        return f"{shape_of(place)}, {of[0].shape} in the file"
    return ""


# ---- the file ----

def read_header(f: BinaryIO, file: str) -> Dict[str, Stored]:
    """What a safetensors file has: 8 bytes with the length of a JSON object, this object, and the bytes of the tensors."""
    end = f.seek(0, os.SEEK_END)
    f.seek(0)
    length = struct.unpack("<Q", f.read(8))[0] if end >= 8 else end
    try:
        entries = json.loads(f.read(length)) if length <= min(end - 8, HEADER_BYTES_MAX) else None
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, dict):
        raise UseError(f"{file} is no safetensors file, as gradus export JOB FILE.safetensors writes it")
    entries.pop("__metadata__", None)
    try:
        return {name: entry_of(name, entry, 8 + length, end) for name, entry in entries.items()}
    except ValueError as e:
        raise UseError(f"{file} is damaged: {e}") from None


def entry_of(name: str, entry: Any, data: int, end: int) -> Stored:
    """Errors: ValueError it cannot be."""
    try:
        shape, (first, last) = [int(n) for n in entry["shape"]], (int(n) for n in entry["data_offsets"])
        stored = Stored(str(entry["dtype"]), shape, data + first, last - first)
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"{name} has no dtype, shape and data_offsets") from None
    each = BYTES.get(stored.dtype)  # of others nothing is read
    if min(shape, default=0) < 0 or not 0 <= first <= last or each is not None and stored.bytes != each * math.prod(shape):
        raise ValueError(f"{name} is {stored.dtype} {shape} in {stored.bytes} bytes")
    if data + last > end:
        raise ValueError(f"{name} ends at {data + last}, and there are {end} bytes")
    return stored


def read_values(f: BinaryIO, stored: Stored, dtype: torch.dtype) -> torch.Tensor:
    """As they lie in memory, one after the other."""
    values = bytearray(stored.bytes)
    f.seek(stored.begin)
    if f.readinto(values) != len(values):  # type: ignore[attr-defined]
        raise EOFError("the file has become shorter while it was read")
    return torch.frombuffer(values, dtype=dtype) if values else torch.zeros(0, dtype=dtype)
