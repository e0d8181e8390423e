#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every update rule has to compute, in float64, written from the papers.

    tests/golden/rules.py > tests/golden/rules.h
    tests/golden/rules.py --check tests/golden/rules.h    # the file says what would be written now

An oracle for tests/unit/rule/test_golden.c: it shares no code with common/rule, keeps the papers'
own state (three slots for ftml, a carried product for nadam), and is told only the
hyperparameters. Gradients are a function of step and element that the test computes too: ordinary
ones, zeros, denormals, huge ones, rare ones and ones that fade away. Each rule makes 1,000 updates
of two variables; their values after 1, 100 and 1,000 are printed, and the largest size that each
had on the way, to which errors are relative.
"""

import contextlib
import io
import math
import re
import sys

import numpy as np

STEPS = 1000
SHOWN = (1, 100, 1000)
SHAPES = ((5, 5), (3, 3))
SCALE = 0.5
MASK = (1 << 64) - 1


def mixed(x):
    """The finalizer of SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def draw(stream, step, index):
    """A multiple of 2^-23 in [-1, 1): exact in float32."""
    return ((mixed(stream << 40 | step << 20 | index) >> 40) - (1 << 23)) / (1 << 23)


HUGE = 55  # powers of two
# The compensation of dc_asgd is of third order in the gradient: beyond some size it diverges.
HUGE_OF = {"dc_asgd": 2}


def gradient_of(variable, step, index, huge):
    x = draw(1 + variable, step, index)
    if variable == 1:
        return x if index % 3 == 0 else x * 2.0**huge
    kind = (index + index // 5) % 5
    if kind == 1:
        return 0.0
    if kind == 2:
        return x * 2.0**-126  # times SCALE all denormal
    if kind == 3:
        return x if step % 10 == 3 else 0.0
    if kind == 4:
        return x * 2.0 ** -(step // 8)
    return x


def flushed(x):
    """Programs count denormal floats as zero (common/base/float_mode.h): the sign of one is 0."""
    return np.where(np.abs(x) < 2.0**-126, 0.0, x)


def gradients(step, huge):
    """As float32 numbers times SCALE, rounded like those that the rules see."""
    out = []
    for v, shape in enumerate(SHAPES):
        g = [gradient_of(v, step, i, huge) for i in range(shape[0] * shape[1])]
        g = np.array(g, dtype=np.float64).astype(np.float32) * np.float32(SCALE)
        out.append(flushed(g.astype(np.float64)).reshape(shape))
    return out


def initial_values():
    return [
        np.array([draw(9, v, i) for i in range(s[0] * s[1])], dtype=np.float64).reshape(s)
        for v, s in enumerate(SHAPES)
    ]


def lr_scale(step):
    return (1.0, 0.5, 1.25)[step % 3]


def delay(step):
    return min(step, step % 4)


class State:
    """One variable under one rule: w and whatever the rule keeps."""

    def __init__(self, number, w):
        self.number = number
        self.w = w.copy()
        self.kept = {}
        self.past = []  # (w, kept) before each of the last updates

    def get(self, name, initial=0.0, shape=None):
        if name not in self.kept:
            self.kept[name] = np.full(self.w.shape if shape is None else shape, float(initial))
        return self.kept[name]

    def set(self, name, value):
        self.kept[name] = value
        return value

    def read(self, step):
        """What the worker that pushes at @step had read."""
        return self.past[-1 - delay(step)]


RULES = {}


def rule(**defaults):
    def wrap(function):
        RULES[function.__name__] = (function, defaults)
        return function

    return wrap


def ema(s, name, beta, x, initial=0.0):
    return s.set(name, beta * s.get(name, initial) + (1 - beta) * x)


def flushed_mean(beta, mean, x):
    """Where signs are all that counts."""
    return flushed(flushed(beta * mean) + flushed((1 - beta) * x))


@rule(learning_rate=0.01)
def sgd(s, g, t, h, lr):
    s.w -= lr * g


@rule(learning_rate=0.01, momentum=0.9, nesterov=False)
def momentum(s, g, t, h, lr):
    m = s.set("m", h["momentum"] * s.get("m") + g)
    s.w -= lr * (g + h["momentum"] * m if h["nesterov"] else m)


@rule(learning_rate=0.01, momentum=0.9)
def nesterov(s, g, t, h, lr):
    m = s.set("m", h["momentum"] * s.get("m") + g)
    s.w -= lr * (g + h["momentum"] * m)


@rule(learning_rate=0.01, initial_accumulator=0.0, epsilon=1e-10)
def adagrad(s, g, t, h, lr):
    n = s.set("n", s.get("n", h["initial_accumulator"]) + g * g)
    s.w -= lr * g / (np.sqrt(n) + h["epsilon"])


@rule(learning_rate=0.01, initial_accumulator=0.1, decay_steps=100000, decay_rate=0.9)
def adagrad_decay(s, g, t, h, lr):
    n = s.get("n", h["initial_accumulator"])
    if t > 1 and (t - 1) % h["decay_steps"] == 0:
        n = np.maximum(h["decay_rate"] * n, h["initial_accumulator"])
    n = s.set("n", n + g * g)
    s.w -= lr * g / np.sqrt(n)


@rule(learning_rate=0.01, initial_accumulator=0.0, epsilon=1e-8)
def rowwise_adagrad(s, g, t, h, lr):
    rows = (s.w.shape[0], 1)
    n = s.get("n", h["initial_accumulator"], rows) + np.mean(g * g, axis=1, keepdims=True)
    s.set("n", n)
    s.w -= lr * g / (np.sqrt(n) + h["epsilon"])


@rule(learning_rate=1.0, decay=0.95, epsilon=1e-6)
def adadelta(s, g, t, h, lr):
    v = ema(s, "v", h["decay"], g * g)
    u = np.sqrt(s.get("d") + h["epsilon"]) / np.sqrt(v + h["epsilon"]) * g
    ema(s, "d", h["decay"], u * u)
    s.w -= lr * u


@rule(learning_rate=0.001, decay=0.9, momentum=0.0, epsilon=1e-8)
def rmsprop(s, g, t, h, lr):
    v = ema(s, "v", h["decay"], g * g)
    m = s.set("m", h["momentum"] * s.get("m") + g / (np.sqrt(v) + h["epsilon"]))
    s.w -= lr * m


@rule(learning_rate=0.001, decay=0.9, momentum=0.0, epsilon=1e-4)
def centered_rmsprop(s, g, t, h, lr):
    v = ema(s, "v", h["decay"], g * g)
    a = ema(s, "a", h["decay"], g)
    deviation = np.sqrt(np.maximum(v - a * a, 0))
    m = s.set("m", h["momentum"] * s.get("m") + g / (deviation + h["epsilon"]))
    s.w -= lr * m


def adam_means(s, g, t, h):
    m = ema(s, "m", h["beta1"], g)
    v = ema(s, "v", h["beta2"], g * g)
    return m / (1 - h["beta1"] ** t), v / (1 - h["beta2"] ** t)


@rule(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8)
def adam(s, g, t, h, lr):
    m, v = adam_means(s, g, t, h)
    s.w -= lr * m / (np.sqrt(v) + h["epsilon"])


@rule(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8)
def amsgrad(s, g, t, h, lr):
    m, _ = adam_means(s, g, t, h)
    x = s.set("x", np.maximum(s.get("x"), s.get("v")))
    s.w -= lr * m / (np.sqrt(x / (1 - h["beta2"] ** t)) + h["epsilon"])


@rule(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01)
def adamw(s, g, t, h, lr):
    m, v = adam_means(s, g, t, h)
    s.w -= lr * (m / (np.sqrt(v) + h["epsilon"]) + h["weight_decay"] * s.w)


@rule(learning_rate=0.002, beta1=0.9, beta2=0.999, epsilon=1e-8)
def adamax(s, g, t, h, lr):
    m = ema(s, "m", h["beta1"], g)
    u = s.set("u", np.maximum(h["beta2"] * s.get("u"), np.abs(g) + h["epsilon"]))
    s.w -= lr / (1 - h["beta1"] ** t) * m / u


@rule(learning_rate=0.002, beta1=0.9, beta2=0.999, epsilon=1e-8, momentum_decay=0.004)
def nadam(s, g, t, h, lr):
    def mu(i):
        return h["beta1"] * (1 - 0.5 * 0.96 ** (i * h["momentum_decay"]))

    product = s.set("product", s.get("product", 1, ()) * mu(t))
    m = ema(s, "m", h["beta1"], g)
    v = ema(s, "v", h["beta2"], g * g) / (1 - h["beta2"] ** t)
    d = np.sqrt(v) + h["epsilon"]
    s.w -= lr * (1 - mu(t)) / (1 - product) * g / d
    s.w -= lr * mu(t + 1) / (1 - product * mu(t + 1)) * m / d


@rule(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, threshold=5.0)
def radam(s, g, t, h, lr):
    m, v = adam_means(s, g, t, h)
    whole = 2 / (1 - h["beta2"]) - 1
    rho = whole - 2 * t * h["beta2"] ** t / (1 - h["beta2"] ** t)
    if rho > h["threshold"]:
        r = math.sqrt((rho - 4) * (rho - 2) * whole / ((whole - 4) * (whole - 2) * rho))
        s.w -= lr * r * m / (np.sqrt(v) + h["epsilon"])
    else:
        s.w -= lr * m


@rule(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-16)
def adabelief(s, g, t, h, lr):
    m = ema(s, "m", h["beta1"], g)
    v = ema(s, "s", h["beta2"], (g - m) ** 2) + h["epsilon"]
    s.set("s", v)
    m, v = m / (1 - h["beta1"] ** t), v / (1 - h["beta2"] ** t)
    s.w -= lr * m / (np.sqrt(v) + h["epsilon"])


@rule(learning_rate=0.01, beta1=0.9, beta2=0.999, epsilon=1e-3, bias_correction=False)
def yogi(s, g, t, h, lr):
    m = ema(s, "m", h["beta1"], g)
    v = s.get("v", 1e-6)
    v = s.set("v", v - (1 - h["beta2"]) * np.sign(v - g * g) * g * g)
    if h["bias_correction"]:
        m, v = m / (1 - h["beta1"] ** t), v / (1 - h["beta2"] ** t)
    s.w -= lr * m / (np.sqrt(v) + h["epsilon"])


@rule(learning_rate=0.0001, beta1=0.9, beta2=0.99, weight_decay=0.0)
def lion(s, g, t, h, lr):
    u = np.sign(flushed_mean(h["beta1"], s.get("m"), g))
    s.set("m", flushed_mean(h["beta2"], s.get("m"), g))
    s.w -= lr * (u + h["weight_decay"] * s.w)


@rule(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, weight_decay=0.01)
def lamb(s, g, t, h, lr):
    m, v = adam_means(s, g, t, h)
    u = m / (np.sqrt(v) + h["epsilon"]) + h["weight_decay"] * s.w
    size_w, size_u = np.linalg.norm(s.w), np.linalg.norm(u)
    s.w -= lr * (size_w / size_u if size_w > 0 and size_u > 0 else 1) * u


@rule(learning_rate=0.1, momentum=0.9, trust=0.001, weight_decay=1e-4, epsilon=1e-8)
def lars(s, g, t, h, lr):
    size_w, size_g = np.linalg.norm(s.w), np.linalg.norm(g)
    r = 1.0
    if size_w > 0 and size_g > 0:
        r = h["trust"] * size_w / (size_g + h["weight_decay"] * size_w + h["epsilon"])
    m = s.set("m", h["momentum"] * s.get("m") + lr * r * (g + h["weight_decay"] * s.w))
    s.w -= m


@rule(
    learning_rate=0.01, beta1=0.95, beta2=0.98, epsilon=1e-8, weight_decay=0.0, grad_averaging=False
)
def novograd(s, g, t, h, lr):
    size = np.sum(g * g)
    v = size if t == 1 else h["beta2"] * s.get("v", 0, ()) + (1 - h["beta2"]) * size
    s.set("v", v)
    d = g / (np.sqrt(v) + h["epsilon"]) + h["weight_decay"] * s.w
    if h["grad_averaging"]:
        d = (1 - h["beta1"]) * d
    m = s.set("m", h["beta1"] * s.get("m") + d)
    s.w -= lr * m


def rms(x):
    return math.sqrt(np.mean(x * x))


@rule(learning_rate=0.01, decay_power=0.8, epsilon1=1e-30, epsilon2=0.001, clip=1.0)
def adafactor(s, g, t, h, lr):
    beta = 1 - t ** -h["decay_power"]
    square = g * g + h["epsilon1"]
    # The paper keeps sums of rows and columns; here means, which leave R·C / mean(R) the same.
    row = s.get("row", 0, (s.w.shape[0], 1))
    column = s.get("column", 0, (1, s.w.shape[1]))
    row = s.set("row", beta * row + (1 - beta) * np.mean(square, axis=1, keepdims=True))
    column = s.set("column", beta * column + (1 - beta) * np.mean(square, axis=0, keepdims=True))
    u = g / np.sqrt(row / np.mean(row)) / np.sqrt(column)
    u = u / max(1.0, rms(u) / h["clip"])
    s.w -= max(h["epsilon2"], rms(s.w)) * min(lr, 1 / math.sqrt(t)) * u


@rule(
    form="tensorflow",
    learning_rate=0.1,
    learning_rate_power=-0.5,
    initial_accumulator=0.1,
    beta=0.0,
    l1=0.0,
    l2=0.0,
)
def ftrl(s, g, t, h, lr):
    p = -h["learning_rate_power"]
    n = s.get("n", h["initial_accumulator"])
    new = n + g * g
    z = s.set("z", s.get("z") + g - (new**p - n**p) / lr * s.w)
    s.set("n", new)
    below = (h["beta"] + new**p) / lr + (2 if h["form"] == "tensorflow" else 1) * h["l2"]
    below = np.where(below == 0, 1, below)
    s.w[:] = np.where(np.abs(z) <= h["l1"], 0, (np.sign(z) * h["l1"] - z) / below)


@rule(learning_rate=0.0025, beta1=0.6, beta2=0.999, epsilon=1e-8)
def ftml(s, g, t, h, lr):
    v = ema(s, "v", h["beta2"], g * g)
    root = np.sqrt(v / (1 - h["beta2"] ** t))
    d = (1 - h["beta1"] ** t) / lr * (root + h["epsilon"])
    sigma = d - h["beta1"] * s.get("d")
    z = s.set("z", h["beta1"] * s.get("z") + (1 - h["beta1"]) * g - sigma * s.w)
    s.set("d", d)
    s.w[:] = -z / d


def shrunk(x, by):
    return np.sign(x) * np.maximum(np.abs(x) - by, 0)


@rule(learning_rate=0.01, l1=0.0, l2=0.0)
def proximal_sgd(s, g, t, h, lr):
    s.w[:] = shrunk(s.w - lr * g, lr * h["l1"]) / (1 + lr * h["l2"])


@rule(learning_rate=0.01, initial_accumulator=0.1, l1=0.0, l2=0.0)
def proximal_adagrad(s, g, t, h, lr):
    n = s.set("n", s.get("n", h["initial_accumulator"]) + g * g)
    r = lr / np.sqrt(n)
    s.w[:] = shrunk(s.w - r * g, r * h["l1"]) / (1 + r * h["l2"])


@rule(learning_rate=0.01, momentum=0.9)
def signum(s, g, t, h, lr):
    s.w -= lr * np.sign(s.set("m", flushed_mean(h["momentum"], s.get("m"), g)))


def philox(key, counter):
    """Philox4x32-10 of one counter."""
    c, k = [counter & 0xFFFFFFFF, counter >> 32, 0, 0], [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def keyed(key, number):
    return mixed(mixed(key) ^ number)


def key_of(seed, name):
    key = mixed(seed)
    for byte in name.encode():
        key = keyed(key, byte)
    return key


def normals(key, count):
    """64 elements from 16 counters: element e has word pair e // 32 and the radius and angle of it
    by cosine or sine; within these, counter e % 16."""
    out = []
    for e in range(count):
        group, place = divmod(e, 64)
        words = philox(key, group * 16 + place % 16)
        pair = place // 32
        u = ((words[2 * pair] >> 9) + 0.5) / 2**23
        angle = 2 * math.pi * (words[2 * pair + 1] >> 8) / 2**24
        radius = math.sqrt(-2 * math.log(u))
        out.append(radius * (math.cos(angle) if place // 16 % 2 == 0 else math.sin(angle)))
    return np.array(out)


@rule(learning_rate=0.01, examples=1.0, temperature=1.0, seed=1)
def sgld(s, g, t, h, lr):
    key = keyed(keyed(key_of(h["seed"], "sgld"), t - 1), s.number)
    noise = normals(key, g.size).reshape(g.shape)
    s.w -= lr / 2 * h["examples"] * g - math.sqrt(lr * h["temperature"]) * noise


@rule(learning_rate=0.1, **{"lambda": 0.04})
def dc_asgd(s, g, t, h, lr):
    read = s.read(t - 1)[0]
    s.w -= lr * (g + h["lambda"] * g * g * (s.w - read))


@rule(learning_rate=0.01, initial_accumulator=1.0)
def adaptive_revision(s, g, t, h, lr):
    total = s.get("sum")
    b = total - s.read(t - 1)[1].get("sum", np.zeros_like(total))
    z, x = s.get("z", h["initial_accumulator"]), s.get("x", h["initial_accumulator"])
    before = lr / np.sqrt(x)
    z = s.set("z", z + g * g + 2 * g * b)
    x = s.set("x", np.maximum(x, z))
    after = lr / np.sqrt(x)
    s.w += -after * g + (before - after) * b
    s.set("sum", total + g)


@rule(scale=1.0)
def sum(s, g, t, h, lr):
    s.w += h["scale"] * g


@rule(rate=1.0)
def average(s, g, t, h, lr):
    s.w += h["rate"] * (g - s.w)


# (rule, hyperparameters other than the defaults)
CASES = [(name, {}) for name in RULES] + [
    ("sgd", {"learning_rate": 0.5}),
    ("momentum", {"nesterov": True, "momentum": 0.5}),
    ("adagrad", {"initial_accumulator": 0.1, "epsilon": 1e-7}),
    ("adagrad_decay", {"decay_steps": 7, "decay_rate": 0.5}),
    ("rmsprop", {"momentum": 0.9, "decay": 0.99}),
    ("centered_rmsprop", {"momentum": 0.9, "decay": 0.95}),
    ("adam", {"learning_rate": 0.1, "beta1": 0.5, "beta2": 0.9, "epsilon": 0.01}),
    ("adamw", {"weight_decay": 0.5, "learning_rate": 0.01}),
    ("yogi", {"bias_correction": True}),
    ("lion", {"weight_decay": 1, "learning_rate": 0.001}),
    ("lamb", {"weight_decay": 0, "learning_rate": 0.01}),
    ("lars", {"trust": 0.02, "weight_decay": 0.01}),
    ("novograd", {"grad_averaging": True, "weight_decay": 0.001}),
    ("adafactor", {"clip": 0.5, "decay_power": 0.5, "learning_rate": 0.1}),
    ("ftrl", {"form": "mcmahan", "initial_accumulator": 0, "beta": 1, "l1": 0.5, "l2": 1}),
    ("ftrl", {"l1": 0.1, "l2": 0.1, "learning_rate": 0.5}),
    ("ftrl", {"learning_rate_power": -0.3}),
    ("proximal_sgd", {"l1": 0.1, "l2": 0.2}),
    ("proximal_adagrad", {"l1": 0.1, "l2": 0.2}),
    ("signum", {"momentum": 0}),
    ("sgld", {"temperature": 0.01, "examples": 10, "seed": 5}),
    ("average", {"rate": 0.01}),
    ("sum", {"scale": -0.01}),
]


def run(name, settings, all_gradients):
    """{step: values}, and the largest size of each."""
    function, hyper = RULES[name][0], {**RULES[name][1], **settings}
    states = [State(v, w) for v, w in enumerate(initial_values())]
    largest = [np.abs(s.w) for s in states]
    shown = {}
    for step, gs in enumerate(all_gradients):
        lr = hyper.get("learning_rate", 0) * lr_scale(step)
        for i, (s, g) in enumerate(zip(states, gs)):
            s.past = s.past[-3:] + [(s.w.copy(), dict(s.kept))]
            function(s, g, step + 1, hyper, lr)
            largest[i] = np.maximum(largest[i], np.abs(s.w))
        if step + 1 in SHOWN:
            shown[step + 1] = np.concatenate([s.w.ravel() for s in states])
    return shown, np.concatenate([x.ravel() for x in largest])


def text_of(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def print_numbers(values):
    line = "     {"
    for i, v in enumerate(values):
        word = f"{v:.9g}" + ("}," if i + 1 == len(values) else ", ")
        if len(line) + len(word) > 99:
            print(line.rstrip())
            line = "      "
        line += word
    print(line)


def write():
    count = 0
    for rows, columns in SHAPES:
        count += rows * columns
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Written by tests/golden/rules.py; see there. */")
    print("#ifndef GRADUS_TESTS_GOLDEN_RULES_H\n#define GRADUS_TESTS_GOLDEN_RULES_H\n")
    print(f"#define GOLDEN_ELEMENTS {count}\n#define GOLDEN_SHOWN {len(SHOWN)}\n")
    shown = ", ".join(str(s) for s in SHOWN)
    print(f"static const unsigned golden_steps[GOLDEN_SHOWN] = {{{shown}}};\n")
    print("struct golden {\n    const char *rule;\n    const char *settings;")
    print("    double values[GOLDEN_SHOWN][GOLDEN_ELEMENTS];")
    print("    double largest[GOLDEN_ELEMENTS];\n")
    print("    int huge; /* power of two of the huge gradients */\n};\n")
    print("/* clang-format off */\nstatic const struct golden golden[] = {")
    all_gradients = {
        huge: [gradients(step, huge) for step in range(STEPS)]
        for huge in (HUGE, *HUGE_OF.values())
    }
    for name, settings in CASES:
        huge = HUGE_OF.get(name, HUGE)
        values, largest = run(name, settings, all_gradients[huge])
        text = " ".join(f"{k}={text_of(v)}" for k, v in settings.items())
        print(f'    {{"{name}", "{text}",\n    {{')
        for step in SHOWN:
            print_numbers(values[step])
        print("    },")
        print_numbers(largest)
        print(f"     {huge}}},")
    print("};\n/* clang-format on */\n\n#endif")


def same(a, b):
    """Equal words, or numbers whose last digits may come from another libm."""
    try:
        return a == b or abs(float(a) - float(b)) <= 1e-8 * abs(float(a))
    except ValueError:
        return False


def check(path):
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        write()
    with open(path, encoding="utf-8") as file:
        found = re.split(r"[\s,{}]+", file.read())
    wanted = re.split(r"[\s,{}]+", written.getvalue())
    for i, (a, b) in enumerate(zip(wanted, found)):
        if not same(a, b):
            return f"word {i} is {b}, now it would be {a}"
    return None if len(wanted) == len(found) else f"{len(found)} words, now {len(wanted)}"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        wrong = check(sys.argv[2])
        if wrong is not None:
            sys.exit(f"{sys.argv[2]}: {wrong}; write it again with tests/golden/rules.py")
    elif len(sys.argv) == 1:
        write()
    else:
        sys.exit("usage: rules.py [--check FILE]")


if __name__ == "__main__":
    main()
