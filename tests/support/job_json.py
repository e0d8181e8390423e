# SPDX-License-Identifier: Apache-2.0
"""What `gradus --json` prints of messages, as users of the Python package see it (python/gradus/messages.py), which is read here
without what else the package needs."""

import importlib.util
import json
import os

_spec = importlib.util.spec_from_file_location(
    "gradus_messages", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/gradus/messages.py"))
_messages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_messages)


def _nine_digits(metrics):
    """Sums in another order, on other workers, differ in the last digits."""
    return {name: value if isinstance(value, list) else float(f"{value:.9g}") for name, value in metrics.items()}


def _job(message):
    job = _messages.job(message)
    for of in [job.get("metrics", {}), *job.get("evaluations", [])]:
        of.update({part: _nine_digits(of[part]) for part in ("train", "test") if part in of})
    return job


def read_message(text):
    """Any message; of nodes, tables, ..."""
    return _messages.natural(json.loads(text))


def read_job(text):
    """One job, its metrics with nine digits, or the object with errors of a command that has failed."""
    message = json.loads(text)
    return message if "errors" in message else _job(message)


def read_watched(text):
    """What `gradus watch --json` printed: its events, each with its name, and the job as it ended (none: the command failed)."""
    events = [_messages.natural(json.loads(line)) for line in text.splitlines()]
    last = json.loads(text.splitlines()[-1])
    return events, _job(last["job"]) if last["event"] == "end" else None


def read_jobs(text):
    """Those of `gradus list`, with where they are."""
    return [_job(job) for job in json.loads(text)["jobs"]]


def records_applied(ledger):
    """Records of all epochs; the last batch of an epoch may be short."""
    batches = -(-ledger["records"] // ledger["batch_records"])
    in_last_split = (batches - 1) % ledger["split_batches"] + 1
    missing = batches * ledger["batch_records"] - ledger["records"] if ledger["done"][-1] == in_last_split else 0
    return ledger["epoch"] * ledger["records"] + sum(ledger["done"]) * ledger["batch_records"] - missing
