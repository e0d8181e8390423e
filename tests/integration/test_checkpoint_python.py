# SPDX-License-Identifier: Apache-2.0
"""Reads what checkpoint_writer wrote with a reader that shares no code with ours, and checks every value.

Usage: test_checkpoint_python.py CHECKPOINT_WRITER
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

import numpy

SHAPES = {"dense_1.kernel": (13, 7), "dense_1.bias": (7,), 'convé "1".kernel': (5, 2, 3, 2), "scale": ()}


def read(path):
    """The format as its documentation says: length, header, data."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length).decode("utf-8"))
        data = file.read()
    assert (8 + length) % 8 == 0, "data not aligned"
    metadata = header.pop("__metadata__", {})
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        assert first == end and entry["dtype"] == "F32", name
        tensors[name] = numpy.frombuffer(data[first:last], "<f4").reshape(entry["shape"])
        end = last
    assert end == len(data), "bytes after the last tensor"
    assert list(tensors) == sorted(tensors, key=lambda name: name.encode()), "not sorted"
    return metadata, tensors


def expected(variable, column):
    count = int(numpy.prod(SHAPES[variable], dtype=int))
    flat = numpy.arange(count, dtype="<f4") / 8 + list(SHAPES).index(variable) * 1000 + column * 100
    return flat.astype("<f4").reshape(SHAPES[variable])


def check_export(path):
    metadata, tensors = read(path)
    assert metadata == {} and set(tensors) == set(SHAPES)
    for name, values in tensors.items():
        assert numpy.array_equal(values, expected(name, 0)), name


def check_shards(path):
    with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    assert manifest["text"] == 'name: "quoted"\n' and manifest["step"] == 40
    seen = {}
    for number, shard in enumerate(manifest["shards"]):
        name = os.path.join(path, shard["file"])
        assert os.path.getsize(name) == shard["bytes"]
        metadata, tensors = read(name)
        assert (metadata["shard"], metadata["shards"]) == (str(number), "2")
        assert json.loads(metadata["ledger"])["records"] == 1000
        for tensor, values in tensors.items():
            variable, first, last, slot = re.fullmatch(r"(.*)\[(\d+):(\d+)\](?:#(.*))?", tensor).groups()
            column = ["", *manifest["slots"]].index(slot or "")
            whole = expected(variable, column)
            part = whole[int(first):int(last)] if whole.shape else whole
            assert numpy.array_equal(values, part), tensor
            seen[variable, column] = seen.get((variable, column), 0) + values.size
    for variable in SHAPES:
        for column in range(1 + len(manifest["slots"])):
            assert seen[variable, column] == expected(variable, column).size, (variable, column)


def main():
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.argv[1], directory], check=True)
        check_export(os.path.join(directory, "export.safetensors"))
        check_shards(os.path.join(directory, "step-000000040"))


main()
