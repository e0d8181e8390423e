# SPDX-License-Identifier: Apache-2.0
"""Processes that read the records of a dataset side by side, for datasets whose records take time: images to decode, to distort.

Each is forked from the program and so has its datasets; they end with it, whatever happens. What a record is depends on the batch's
seed and its place in the batch alone, not on how many processes there are."""

import ctypes
import multiprocessing
import os
import pickle
import signal
import warnings
from multiprocessing.connection import Connection
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

import numpy
import torch

from gradus import failures
from gradus.errors import UseError

PR_SET_PDEATHSIG = 1
MASK = (1 << 64) - 1


class Array(NamedTuple):
    """A tensor on its way: torch's own way takes a descriptor and a socket for each."""

    values: numpy.ndarray


class Loader(NamedTuple):
    process: Any
    connection: Connection


class Loaders:
    """`count` processes, started when they are first needed and again after one has died."""

    def __init__(self, datasets: Mapping[str, Any], count: int, seed_all: Callable[[int], None]):
        self.datasets = dict(datasets)
        self.count = count
        self.seed_all = seed_all
        self.loaders: List[Loader] = []

    def records(self, part: str, numbers: Sequence[int], seed: int) -> List[Any]:
        """Records of a part, in the order of their numbers.

        Errors: UseError one of them could not be read, with its traceback, or a process ended."""
        if not self.loaders:
            self._start()
        size = -(-len(numbers) // self.count)
        asked = []
        records: List[Any] = []
        failed = ""
        try:
            for i, loader in enumerate(self.loaders):
                chosen = numbers[i * size:(i + 1) * size]
                if chosen:
                    loader.connection.send((part, chosen, seed, i * size))
                    asked.append(loader)
            for loader in asked:  # all of them, or the next batch gets what is left of this one
                read, text = pickle.loads(loader.connection.recv_bytes())
                failed = failed or text
                records += read
        except (EOFError, OSError):
            ends = self._ends()
            self.close()
            raise UseError(f"a process that reads records (loaders={self.count}) ended{ends}") from None
        except BaseException:
            self.close()
            raise
        if failed:
            raise UseError(failed)
        return [unpacked(r) for r in records]

    def close(self) -> None:
        """End the processes, which have nothing to lose."""
        for loader in self.loaders:
            loader.connection.close()
            loader.process.kill()
        for loader in self.loaders:
            loader.process.join()
        self.loaders = []

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        for _ in range(self.count):
            here, there = context.Pipe()
            others = [loader.connection for loader in self.loaders] + [here]
            process = context.Process(target=serve, args=(there, others, os.getpid(), self.datasets, self.seed_all), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: libgradus has one, which sleeps
                process.start()
            there.close()
            self.loaders.append(Loader(process, here))

    def _ends(self) -> str:
        for loader in self.loaders:
            loader.process.join(1)
            code = loader.process.exitcode
            if code is not None:
                return f": {signal.Signals(-code).name}" if code < 0 else f": exit code {code}"
        return ""


def serve(connection: Connection, others: Sequence[Connection], parent: int, datasets: Dict[str, Any],
          seed_all: Callable[[int], None]) -> None:
    """The life of such a process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in others:
        other.close()
    torch.set_num_threads(1)
    while os.getppid() == parent:
        try:
            part, numbers, seed, first = connection.recv()
        except EOFError:
            return
        connection.send_bytes(pickle.dumps(read(datasets[part], numbers, seed, first, seed_all), protocol=5))


def read(dataset: Any, numbers: Sequence[int], seed: int, first: int, seed_all: Callable[[int], None]) -> Any:
    """(records, what went wrong with one of them)."""
    records = []
    for place, number in enumerate(numbers, first):
        try:
            seed_all(seed_of(seed, place))
            records.append(packed(dataset[number]))
        except Exception as e:
            what = f"record {number} of the dataset cannot be read:"
            return [], f"{what}\n{failures.reason(e, failures.TOLD_BYTES - len(what) - 1)}"
    try:
        pickle.dumps(records)
    except Exception as e:
        return [], f"a record of the dataset cannot be sent to another process: {e}"
    return records, ""


def seed_of(seed: int, place: int) -> int:
    """Of the record at a place of a batch."""
    mixed = (seed + (place + 1) * 0x9e3779b97f4a7c15) & MASK
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93 & MASK
    return mixed ^ mixed >> 32


def packed(record: Any) -> Any:
    if isinstance(record, torch.Tensor):
        t = record.detach()
        return t if t.dtype == torch.bfloat16 or t.device.type != "cpu" else Array(t.contiguous().numpy())
    return rebuilt(record, packed)


def unpacked(record: Any) -> Any:
    return torch.from_numpy(record.values) if isinstance(record, Array) else rebuilt(record, unpacked)


def rebuilt(record: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(record, tuple):
        parts = [change(r) for r in record]
        return type(record)(*parts) if hasattr(record, "_fields") else tuple(parts)
    if isinstance(record, list):
        return [change(r) for r in record]
    return {k: change(v) for k, v in record.items()} if isinstance(record, dict) else record
