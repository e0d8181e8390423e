#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the oracle of rules.py with PyTorch's optimizers, for the rules that both have.

    tests/golden/compare_torch.py

Needs PyTorch (Debian: python3-torch). Both run 1,000 updates in float64 on the same gradients with
a learning rate that changes; differences are relative to the largest size an element had. Not part
of the tests: the rules themselves are compared with the oracle there.
"""

import sys

import numpy as np
import torch

import rules

STEPS = 1000
SHAPE = (7, 5)

# rule: PyTorch's class, hyperparameters of the rule, arguments of PyTorch, allowed difference
# NAdam of PyTorch 1.13 multiplies μ(t) twice into the product of the next step, which matters
# in the first hundred updates; it keeps the product in float32.
SAME = 1e-12
OPTIMIZERS = [
    ("sgd", torch.optim.SGD, {}, {}, SAME),
    ("momentum", torch.optim.SGD, {}, {"momentum": 0.9}, SAME),
    ("nesterov", torch.optim.SGD, {}, {"momentum": 0.9, "nesterov": True}, SAME),
    ("adagrad", torch.optim.Adagrad, {}, {"eps": 1e-10}, SAME),
    (
        "adagrad",
        torch.optim.Adagrad,
        {"initial_accumulator": 0.1, "epsilon": 1e-7},
        {"initial_accumulator_value": 0.1, "eps": 1e-7},
        SAME,
    ),
    ("adadelta", torch.optim.Adadelta, {}, {"rho": 0.95, "eps": 1e-6}, SAME),
    ("rmsprop", torch.optim.RMSprop, {}, {"alpha": 0.9, "eps": 1e-8}, SAME),
    (
        "rmsprop",
        torch.optim.RMSprop,
        {"momentum": 0.9, "decay": 0.99},
        {"momentum": 0.9, "alpha": 0.99, "eps": 1e-8},
        SAME,
    ),
    (
        "centered_rmsprop",
        torch.optim.RMSprop,
        {"momentum": 0.5},
        {"centered": True, "momentum": 0.5, "alpha": 0.9, "eps": 1e-4},
        SAME,
    ),
    ("adam", torch.optim.Adam, {}, {}, SAME),
    ("adam", torch.optim.Adam, {"beta1": 0.5, "beta2": 0.9}, {"betas": (0.5, 0.9)}, SAME),
    ("amsgrad", torch.optim.Adam, {}, {"amsgrad": True}, SAME),
    ("adamw", torch.optim.AdamW, {}, {"weight_decay": 0.01}, SAME),
    ("adamw", torch.optim.AdamW, {"weight_decay": 0.5}, {"weight_decay": 0.5}, SAME),
    ("adamax", torch.optim.Adamax, {}, {}, SAME),
    ("nadam", torch.optim.NAdam, {}, {}, 1e-2 if torch.__version__.startswith("1.") else 1e-6),
    # PyTorch adds epsilon before the correction of √v.
    ("radam", torch.optim.RAdam, {}, {}, 1e-6),
]


def difference(name, optimizer, settings, arguments):
    function, defaults = rules.RULES[name]
    hyper = {**defaults, **settings}
    size = SHAPE[0] * SHAPE[1]
    initial = np.array([rules.draw(9, 0, i) for i in range(size)]).reshape(SHAPE)
    ours = rules.State(0, initial)
    parameter = torch.nn.Parameter(torch.tensor(initial, dtype=torch.float64))
    theirs = optimizer([parameter], lr=hyper["learning_rate"], **arguments)
    largest = np.abs(initial)
    worst = 0.0
    for step in range(STEPS):
        g = np.array([rules.draw(1, step, i) for i in range(size)]).reshape(SHAPE)
        lr = hyper["learning_rate"] * rules.lr_scale(step)
        function(ours, g, step + 1, hyper, lr)
        theirs.param_groups[0]["lr"] = lr
        parameter.grad = torch.tensor(g)
        theirs.step()
        w = parameter.detach().numpy()
        largest = np.maximum(largest, np.abs(w))
        worst = max(worst, float(np.max(np.abs(w - ours.w) / largest)))
    return worst


def main():
    failed = 0
    print(f"PyTorch {torch.__version__}, {STEPS} updates")
    for name, optimizer, settings, arguments, allowed in OPTIMIZERS:
        worst = difference(name, optimizer, settings, arguments)
        failed += not worst <= allowed
        text = " ".join(f"{k}={rules.text_of(v)}" for k, v in settings.items())
        verdict = "" if worst <= allowed else f"  more than {allowed:.0e}"
        print(f"{name:17} {optimizer.__name__:9} {text:40} {worst:.1e}{verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
