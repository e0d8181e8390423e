# SPDX-License-Identifier: Apache-2.0
"""Writes small ONNX files: the protobuf encoding by hand, as there may be no package for it."""

import math
import random
import struct

FLOAT, INT64 = 1, 7


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    out = block(1, name)
    if isinstance(value, float):
        return out + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return out + block(4, value) + number(20, 3)
    return out + b"".join(number(8, v) for v in value) + number(20, 7)


def node(kind, inputs, outputs, **attributes):
    out = b"".join(block(1, i) for i in inputs) + b"".join(block(2, o) for o in outputs)
    out += block(3, f"{kind}_{outputs[0]}") + block(4, kind)
    return out + b"".join(block(5, attribute(k, v)) for k, v in attributes.items())


def tensor(name, dims, values, kind=FLOAT):
    out = b"".join(number(1, d) for d in dims) + number(2, kind) + block(8, name)
    return out + block(9, struct.pack(f"<{len(values)}{'f' if kind == FLOAT else 'q'}", *values))


def external(name, dims, file, offset, length):
    """A tensor whose bytes are in another file."""
    out = b"".join(number(1, d) for d in dims) + number(2, FLOAT) + block(8, name)
    for key, value in (("location", file), ("offset", str(offset)), ("length", str(length))):
        out += block(13, block(1, key) + block(2, value))
    return out + number(14, 1)


def value(name, dims=None, kind=FLOAT):
    """dims: numbers, or names of what is open."""
    shape = b"".join(block(1, number(1, d) if isinstance(d, int) else block(2, d)) for d in dims or [])
    return block(1, name) + block(2, block(1, number(1, kind) + (block(2, shape) if dims else b"")))


def model(nodes, initializers, inputs, outputs, opset=17):
    graph = b"".join(block(1, n) for n in nodes) + block(2, "net")
    graph += b"".join(block(5, i) for i in initializers)
    graph += b"".join(block(11, i) for i in inputs) + b"".join(block(12, o) for o in outputs)
    return number(1, 8) + block(2, "tests") + block(7, graph) + block(8, block(1, "") + number(2, opset))


def drawn(seed, dims):
    """Initial values, as PyTorch draws them for a linear layer."""
    draw, bound = random.Random(seed), 1 / math.sqrt(dims[-1])
    return [draw.uniform(-bound, bound) for _ in range(math.prod(dims))]


def mlp(widths=(784, 64, 10), dropout=0.0, softmax=False):
    """Linear layers with relus between them, as exported by PyTorch."""
    nodes, initializers, last = [node("Flatten", ["image"], ["flat"])], [], "flat"
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        w, bias, out = f"fc{i}.weight", f"fc{i}.bias", f"fc{i}"
        initializers += [tensor(w, (b, a), drawn(i, (b, a))), tensor(bias, (b,), [0.0] * b)]
        nodes.append(node("Gemm", [last, w, bias], [out], transB=1))
        last = out
        if i + 2 < len(widths):
            nodes.append(node("Relu", [last], [f"relu{i}"]))
            last = f"relu{i}"
            if dropout > 0:
                initializers.append(tensor(f"ratio{i}", (), [dropout]))
                nodes.append(node("Dropout", [last, f"ratio{i}"], [f"drop{i}"]))
                last = f"drop{i}"
    if softmax:
        nodes.append(node("Softmax", [last], ["probabilities"]))
        last = "probabilities"
    return model(nodes, initializers, [value("image", ["N", 1, 28, 28])], [value(last, ["N", widths[-1]])])


def embedding(rows=20, fields=2, dim=4, classes=2):
    """Rows of one table, by whole numbers."""
    initializers = [tensor("rows.weight", (rows, dim), drawn(1, (rows, dim))),
                    tensor("fc.weight", (classes, fields * dim), drawn(2, (classes, fields * dim))), tensor("fc.bias", (classes,), [0.0] * classes)]
    nodes = [node("Gather", ["rows.weight", "ids"], ["e"], axis=0), node("Flatten", ["e"], ["flat"]),
             node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], transB=1)]
    return model(nodes, initializers, [value("ids", ["N", fields], INT64)], [value("logits", ["N", classes])])


def cnn(channels=(8, 16)):
    """Convolutions with batch normalisation and pools."""
    nodes, initializers, last, before, size = [], [], "image", 1, 28
    for i, c in enumerate(channels):
        initializers += [tensor(f"conv{i}.weight", (c, before, 3, 3), drawn(i, (c, before * 9)))]
        initializers += [tensor(f"bn{i}.{k}", (c,), [v] * c) for k, v in
                         (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0))]
        nodes += [
            node("Conv", [last, f"conv{i}.weight"], [f"c{i}"], pads=[1, 1, 1, 1]),
            node("BatchNormalization", [f"c{i}"] + [f"bn{i}.{k}" for k in
                                                    ("weight", "bias", "running_mean", "running_var")], [f"n{i}"]),
            node("Relu", [f"n{i}"], [f"r{i}"]),
            node("MaxPool", [f"r{i}"], [f"p{i}"], kernel_shape=[2, 2], strides=[2, 2])]
        last, before, size = f"p{i}", c, size // 2
    count = before * size * size
    initializers += [tensor("fc.weight", (10, count), drawn(9, (10, count))), tensor("fc.bias", (10,), [0.0] * 10),
                     tensor("flat", (2,), [0, -1], INT64)]
    nodes += [node("Reshape", [last, "flat"], ["f"]), node("Gemm", ["f", "fc.weight", "fc.bias"], ["logits"], transB=1)]
    return model(nodes, initializers, [value("image", ["N", 1, 28, 28])], [value("logits", ["N", 10])])
