# SPDX-License-Identifier: Apache-2.0
"""The operators of ONNX that Gradus writes, by their definitions (set 17), in NumPy: slow, and of nobody else's making."""

import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOATS = np.float32


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def windows(x, a, fill):
    """All windows of [batch, channels, height, width]: [batch, channels, out height, out width, kernel height, kernel width]."""
    kernel, stride, pads = a["kernel_shape"], a["strides"], a["pads"]
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])], constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(2, 3))
    return seen[:, :, ::stride[0], ::stride[1]]


def convolve(a, x, w, b=None):
    y = np.einsum("nchwij,fcij->nfhw", windows(x, a, 0), w)
    return y if b is None else y + b[:, None, None]


def average(a, x):
    assert a.get("count_include_pad", 0) == 0
    return np.nanmean(windows(x, a, np.nan), axis=(4, 5))


def normalise_batch(a, x, scale, bias, mean, variance):
    shape = (-1,) + (1,) * (x.ndim - 2)
    scale, bias, mean, variance = (v.reshape(shape) for v in (scale, bias, mean, variance))
    return (x - mean) / np.sqrt(variance + FLOATS(a["epsilon"])) * scale + bias


def normalise_layer(a, x, scale, bias):
    assert a["axis"] == -1
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + FLOATS(a["epsilon"])) * scale + bias


def softmax(a, x):
    e = np.exp(x - x.max(axis=a.get("axis", -1), keepdims=True))
    return e / e.sum(axis=a.get("axis", -1), keepdims=True)


def unsqueeze(a, x, axes):
    for axis in sorted(axes):
        x = np.expand_dims(x, int(axis))
    return x


def reshape(a, x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


def gather(a, x, indices):
    axis = a.get("axis", 0)
    assert indices.min(initial=0) >= 0
    return np.take(x, indices, axis=axis)  # a place that is not there is an error, as it is in ONNX


def cast(a, x):
    kinds = {TensorProto.FLOAT: np.float32, TensorProto.INT64: np.int64, TensorProto.UINT64: np.uint64, TensorProto.BOOL: np.bool_}
    return x.astype(kinds[a["to"]])


def encode_labels(a, x):
    keys = [k.decode() for k in a["keys_strings"]] if "keys_strings" in a else a["keys_int64s"]
    places = dict(zip(keys, a["values_int64s"]))
    assert len(places) == len(keys) == len(a["values_int64s"])
    return np.array([places.get(key, a["default_int64"]) for key in x.ravel().tolist()], np.int64).reshape(x.shape)


def shift_right(a, x, by):
    assert a["direction"] == b"RIGHT" and x.dtype == by.dtype == np.uint64
    return x >> by


def expand(a, x, shape):
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))).copy()


def gather_nd(a, x, indices):
    return x[tuple(indices.T)]


def scatter_nd(a, x, indices, updates):
    y = x.copy()
    y[tuple(indices.T)] = updates
    return y


def scatter_elements(a, x, indices, updates):
    assert a["axis"] == 1 and a["reduction"] == b"add" and indices.shape == updates.shape
    y = x.copy()
    np.add.at(y, (np.arange(len(x))[:, None], indices), updates)
    return y


def split(a, x, sizes):
    return np.split(x, np.cumsum(sizes)[:-1], axis=a["axis"])


OPERATORS = {
    "Abs": lambda a, x: np.abs(x),
    "Add": lambda a, x, y: x + y,
    "And": lambda a, x, y: x & y,
    "ArgMax": lambda a, x: np.expand_dims(np.argmax(x, axis=a["axis"]), a["axis"]),
    "AveragePool": average,
    "BatchNormalization": normalise_batch,
    "BitShift": shift_right,
    "Cast": cast,
    "Concat": lambda a, *xs: np.concatenate(xs, axis=a["axis"]),
    "Conv": convolve,
    "Cos": lambda a, x: np.cos(x),
    "Div": lambda a, x, y: x / y,
    "Dropout": lambda a, x, *_: x,
    "Equal": lambda a, x, y: x == y,
    "Erf": lambda a, x: np.vectorize(math.erf, otypes=[FLOATS])(x),
    "Expand": expand,
    "Flatten": lambda a, x: x.reshape(x.shape[0], -1),
    "Gather": gather,
    "GatherElements": lambda a, x, indices: np.take_along_axis(x, indices, axis=a["axis"]),
    "GatherND": gather_nd,
    "Gemm": lambda a, x, y, z: x @ (y.T if a.get("transB") else y) + z,
    "GreaterOrEqual": lambda a, x, y: x >= y,
    "Identity": lambda a, x: x,
    "IsNaN": lambda a, x: np.isnan(x),
    "LayerNormalization": normalise_layer,
    "Less": lambda a, x, y: x < y,
    "LabelEncoder": encode_labels,
    "Log": lambda a, x: np.log(x),
    "MatMul": lambda a, x, y: x @ y,
    "Max": lambda a, x, y: np.maximum(x, y),
    "MaxPool": lambda a, x: windows(x, a, -np.inf).max(axis=(4, 5)),
    "Min": lambda a, x, y: np.minimum(x, y),
    "Mod": lambda a, x, y: np.mod(x, y),
    "Mul": lambda a, x, y: x * y,
    "NonZero": lambda a, x: np.array(np.nonzero(x), np.int64),
    "Not": lambda a, x: ~x,
    "Pad": lambda a, x, pads: np.pad(x, list(zip(pads[:x.ndim], pads[x.ndim:]))),
    "ReduceSum": lambda a, x, axes: x.sum(axis=tuple(axes), keepdims=bool(a["keepdims"])),
    "Relu": lambda a, x: np.maximum(x, 0),
    "LeakyRelu": lambda a, x: np.where(x < 0, FLOATS(a.get("alpha", 0.01)) * x, x),
    "Elu": lambda a, x: np.where(x < 0, FLOATS(a.get("alpha", 1.0)) * np.expm1(x), x),
    "Softplus": lambda a, x: np.logaddexp(x, FLOATS(0)),
    "Reshape": reshape,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Shape": lambda a, x: np.array(x.shape[a["start"]:a["end"]], np.int64),
    "Sigmoid": lambda a, x: 1 / (1 + np.exp(-x)),
    "Sign": lambda a, x: np.sign(x),
    "Softmax": softmax,
    "Split": split,
    "Sqrt": lambda a, x: np.sqrt(x),
    "Squeeze": lambda a, x, axes: np.squeeze(x, axis=tuple(axes)),
    "Sub": lambda a, x, y: x - y,
    "Tanh": lambda a, x: np.tanh(x),
    "Transpose": lambda a, x: x.transpose(a["perm"]),
    "Unsqueeze": unsqueeze,
    "Where": lambda a, c, x, y: np.where(c, x, y),
}


def run(model, inputs, directory=""):
    """The outputs of @model, a ModelProto whose elements are at hand, by name. Types are those of the inputs: no double."""
    values = {t.name: numpy_helper.to_array(t, base_dir=directory) for t in model.graph.initializer}
    values.update(inputs)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for node in model.graph.node:
            made = OPERATORS[node.op_type](attributes(node), *(values[name] for name in node.input))
            for name, y in zip(node.output, made if isinstance(made, list) else [made], strict=True):
                values[name] = np.asarray(y, dtype=FLOATS if y.dtype == np.float64 else y.dtype)
    return {o.name: values[o.name] for o in model.graph.output}
