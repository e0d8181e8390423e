# SPDX-License-Identifier: Apache-2.0
"""Messages as `gradus --json` and the master's /api/v1 write them, as values of Python: names_with_underscores, whole numbers of
64 bits, which JSON has as strings, as int, "NaN" as float, and metrics as {name: value}."""

import math
import re
from typing import Any, Dict, Mapping

# The fields of 64 bits, and those that are fractions, of all messages that are shown (jobs.proto); no string that looks like a
# number has one of these names.
WHOLE = frozenset(
    "admitted adoptions apply_us backup_behind bad_records bytes bytes_max compute_us copied_rows copies_bytes copies_bytes_max count dropped "
    "duplicates epoch evicted examples finished_ms generation heartbeat_age_ms joined_ms kept_step key last left_out load_us "
    "max_staleness pid preemptions ps_memory queue_position read records recoveries refused resumes rows speculated staleness "
    "started_ms state_bytes state_sent step steps steps_total stop_passed submitted_ms takeovers time_ms updated value_bytes version wait_us wire_us without".split())
FRACTIONS = frozenset("epoch epochs_total eta_seconds examples_per_second lambda seconds speculate test_confusion value".split())
METRICS = ("train", "test")


def natural(value: Any, name: str = "") -> Any:
    """A message, or the value of the field of that name."""
    if isinstance(value, Mapping):
        fields = {re.sub("[A-Z]", lambda m: "_" + m.group().lower(), key): v for key, v in value.items()}
        return {key: natural(v, key) for key, v in fields.items()}
    if isinstance(value, list):
        values = [natural(v, name) for v in value]
        return {m["name"]: m["value"] for m in values} if name in METRICS else values
    if isinstance(value, str) and name in WHOLE and re.fullmatch("-?[0-9]+", value):
        return int(value)
    if isinstance(value, str) and name in FRACTIONS:
        return float(value)
    return value


def job(message: Mapping[str, Any]) -> Dict[str, Any]:
    """A Job, with its id as `job`, how far it is as `steps` and `epochs`, and all its metrics, with the confusion matrix as a list
    of rows, in `metrics`."""
    fields: Dict[str, Any] = natural(message)
    for name, shown in (("id", "job"), ("step", "steps"), ("epoch", "epochs")):
        if name in fields:
            fields[shown] = fields.pop(name)
    metrics = {name: fields.pop(name) for name in METRICS if name in fields}
    cells = fields.pop("test_confusion", [])
    if cells:
        classes = math.isqrt(len(cells))
        metrics["test"]["confusion_matrix"] = [cells[i:i + classes] for i in range(0, len(cells), classes)]
    if metrics:
        fields["metrics"] = metrics
    return fields
