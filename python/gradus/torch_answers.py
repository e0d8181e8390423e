# SPDX-License-Identifier: Apache-2.0
"""What the loss() and metrics() of a task returned, and what is wrong with it: in words of theirs, before torch finds it."""

import inspect
import math
import numbers
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import numpy
import torch
from torch import nn

from gradus.errors import UseError

METRICS = {"accuracy": "correct", "rmse": "squared_error", "mae": "absolute_error"}  #: as Work.done() names them
Metrics = Mapping[str, Tuple[Any, int]]
NONE: Metrics = {}
ONE_NUMBER = "it is one number, a tensor of shape [] that was computed from the parameters: the sum of the losses of the batch's records"
PAIRS = "they are a dictionary of pairs (sum over the records, records): {\"accuracy\": (right answers, records)}, or {}"


def loss_of(function: Callable[..., Any], returned: Any, training: bool) -> Tuple[torch.Tensor, Any]:
    """The loss that a task's `function` returned, and the metrics that came with it. Errors: UseError."""
    loss, metrics = returned, NONE
    if isinstance(returned, tuple):
        if len(returned) != 2:
            raise wrong(function, f"loss() returned {said(returned)}; {ONE_NUMBER}, or a pair of it and metrics")
        loss, metrics = returned
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.is_complex():
        summed = " (reduction=\"sum\", or .sum())" if isinstance(loss, torch.Tensor) and loss.numel() > 1 else ""
        raise wrong(function, f"loss() returned {said(loss)}; {ONE_NUMBER}{summed}")
    if training and loss.grad_fn is None and not isinstance(loss, nn.Parameter):
        raise wrong(function, f"loss() returned {said(loss)} that was not computed from the parameters (it has no grad_fn); "
                    "nothing on the way to it may be .detach(), .item(), .data, a tensor of integers or below torch.no_grad()")
    return loss, metrics


def sums(name: str, function: Callable[..., Any], metrics: Any, examples: int) -> Dict[str, float]:
    """Metrics that the task's function of this name returned, as Work.done() takes them. Errors: UseError."""
    if not isinstance(metrics, Mapping):
        raise wrong(function, f"{name} returned {said(metrics)} as metrics; {PAIRS}")
    result = {}
    for metric, value in metrics.items():
        if metric not in METRICS:
            raise wrong(function, f"{name} names \"{metric}\"; known are {', '.join(METRICS)}")
        try:
            total, count = value
        except (TypeError, ValueError):
            raise wrong(function, f"{name} returned {said(value)} for \"{metric}\", which is not a pair (sum over the records, "
                        "records)") from None
        of, records = number_of(total), number_of(count)
        if of is None or records is None:
            what, part = ("sum", total) if of is None else ("number of records", count)
            raise wrong(function, f"{name} returned for \"{metric}\" a {what} that is {said(part)} and not one number")
        if records != examples:
            raise wrong(function, f"{name} counts {records:g} records of {examples} for \"{metric}\"")
        result[METRICS[metric]] = of
    return result


def number_of(value: Any) -> Optional[float]:
    if isinstance(value, (torch.Tensor, numpy.ndarray)):
        if math.prod(value.shape) != 1:
            return None
        value = value.item()
    return float(value) if isinstance(value, numbers.Real) else None


def said(value: Any) -> str:
    """Of what type and shape it is."""
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        return f"a tensor of {value.dtype} with shape {list(value.shape)}"
    if isinstance(value, numpy.ndarray):
        return f"an array of {value.dtype} with shape {list(value.shape)}"
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, (tuple, list)) else type(value).__name__


def wrong(function: Callable[..., Any], what: str) -> UseError:
    """With the place where the function is."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return UseError(what + (f" ({code.co_filename}, line {code.co_firstlineno})" if code is not None else ""))
