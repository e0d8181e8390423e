# SPDX-License-Identifier: Apache-2.0
"""The way back: what a job has trained, in a module of PyTorch again. Reads what `gradus export` writes as safetensors."""

import json
import math
import os
import struct
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Sequence, Tuple, Union

import torch
from torch import nn

from gradus.errors import UseError

HEADER_BYTES_MAX = 100000000
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
    Errors: UseError it is no such file, or names and shapes are not those of the module, and all that differs; nothing was changed
    then. OSError it cannot be read."""
    if not isinstance(module, nn.Module):
        raise UseError(f"load() is given an nn.Module and a file, not {type(module).__name__}")
    with open(file, "rb") as f:
        stored = read_header(f, os.fspath(file))
        pairs, wrong = fit(list(places(module)), stored)
        if wrong:
            raise UseError("\n  ".join([f"{os.fspath(file)} does not fit the module, which stays as it is:", *wrong]))
        for place, name in pairs:
            values = read_values(f, stored[name]).view(place.tensor.shape)
            with torch.no_grad():
                place.tensor.copy_(values)


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
    missing = False
    for place in wanted:
        of = [name for name in place.names if name in stored]
        if of:
            why = differs(place, [stored[name] for name in of])
            pairs.append((place, of[0]))
        else:
            why = "not in the file" if place.trained else ""
            missing = missing or place.trained
            if why:
                why = f"{shape_of(place)}, {why}"
        if why:
            wrong.append(f"{', '.join(place.names)}: {why}")
    known = {name for place in wanted for name in place.names}
    wrong += [f"{name}: {s.shape} in the file, not in the module" for name, s in stored.items() if name not in known]
    return pairs, wrong + [FROZEN] * missing


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
    except ValueError:
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
        shape, (first, last) = [int(n) for n in entry["shape"]], entry["data_offsets"]
        stored = Stored(str(entry["dtype"]), shape, data + first, last - first)
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"{name} has no dtype, shape and data_offsets") from None
    elements = math.prod(shape)
    if min(shape, default=0) < 0 or first < 0 or (stored.dtype == "F32" and stored.bytes != 4 * elements):
        raise ValueError(f"{name} is {stored.dtype} {shape} in {stored.bytes} bytes")
    if data + last > end:
        raise ValueError(f"{name} ends at {data + last}, and there are {end} bytes")
    return stored


def read_values(f: BinaryIO, stored: Stored) -> torch.Tensor:
    """Of 32-bit floats, as they lie in memory."""
    values = bytearray(stored.bytes)
    f.seek(stored.begin)
    if f.readinto(values) != len(values):  # type: ignore[attr-defined]
        raise EOFError("the file has become shorter while it was read")
    return torch.frombuffer(values, dtype=torch.float32) if values else torch.zeros(0)
