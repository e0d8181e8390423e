# SPDX-License-Identifier: Apache-2.0
"""The worker that started this process, seen from Python: jobs to describe and batches to compute, as NumPy arrays.

    with gradus.Worker("logistic") as worker:
        for work in worker:
            if work.kind == gradus.JOB:
                work.describe({"w": numpy.zeros((784, 10), "float32")}, train_records=60000, test_records=10000)
            elif work.kind in (gradus.GRADIENT, gradus.EVALUATION):
                ...  # work.records, work.parameters["w"], work.gradients["w"][:] = ...
                work.done(loss_sum, correct=right)

A job that declares sparse tables asks for keys first:

            elif work.kind == gradus.KEYS:
                work.look_up({"items": ids[work.records]})       # with the batch come their rows:
            elif work.kind == gradus.GRADIENT:
                x = work.rows["items"][work.index["items"]]      # one for each key that was said
                numpy.add.at(work.row_gradients["items"], work.index["items"], gradient_of_x)

A gradient has to be a function of the parameters, the records and the numbers of the work alone; then training in sync mode
gives the same bits for any number of workers and servers."""

import ctypes
import math
import os
import sys
from types import MappingProxyType
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple, Union

import numpy

from gradus import failures
from gradus import library as _l
from gradus.errors import UseError

JOB = 1  #: to be answered by Work.describe()
GRADIENT = 2  #: by Work.done()
EVALUATION = 3  #: by Work.done(); there are no gradients, and nothing may be random
JOB_END = 4  #: no answer: what was made for the job may go
KEYS = 5  #: by Work.look_up(); only of jobs with tables

_SOCKET = "GRADUS_PROGRAM_SOCKET"


def started_by_worker() -> bool:
    """Whether a worker has started this process, so that Worker() can speak with it."""
    return bool(os.environ.get(_SOCKET))


class Job(NamedTuple):
    """The job that asks for a model of this program."""

    id: str
    program: str  #: model.program of the job
    text: str  #: the job file, as YAML
    seed: int  #: training.seed
    batch_records: int  #: no batch has more
    evaluation_records: int  #: the most of one evaluation
    tables: Mapping[str, int] = {}  #: the sparse tables that it declares (model.tables): how many floats a row has


class Field(NamedTuple):
    """A sparse field of the job's `data`: the list of record i is keys[offsets[i]:offsets[i + 1]], each key once, rising."""

    offsets: numpy.ndarray  #: uint64 [records + 1]
    keys: numpy.ndarray  #: uint64
    weights: Optional[numpy.ndarray]  #: float32, of the same keys; None: all are 1


def _array(address: int, count: int, dtype: Any, shape: Tuple[int, ...], writable: bool) -> numpy.ndarray:
    """The memory at an address as an array, which does not own it."""
    if count == 0:
        return numpy.zeros(shape, dtype)
    raw = (ctypes.c_char * (count * numpy.dtype(dtype).itemsize)).from_address(address)
    array = numpy.frombuffer(raw, dtype=dtype, count=count).reshape(shape)
    if not writable:
        array.flags.writeable = False
    return array


class Work:
    """Something to do. Its arrays are the worker's memory: good until it is answered, never copied.

    kind: JOB, KEYS, GRADIENT, EVALUATION or JOB_END. Of GRADIENT and EVALUATION (KEYS has the records and their data alone,
    and no step; `of` says whether GRADIENT or EVALUATION will come with them):
    parameters: {name: float32 array}, to be read only. gradients: likewise, each to be overwritten with the sum over the
    records of d loss / d variable (of a statistic: its new value times the examples); None in an evaluation.
    records: int64 [count], numbers of train or, in evaluations, test records. epoch, step, replica: as the cluster counts.
    seed: of whatever is random in this batch. features: float32 [count, ...], targets: float32 [count] and classes:
    int32 [count], of the job's `data`; None when the program reads records of its own, classes also for real labels.
    fields: {name: Field}, sparse fields of the job's `data`.
    Of tables, {name: array}: keys: uint64 [n] different ones, rising; rows: float32 [n, dim], to be read only; index: uint32
    [as many as look_up() was given], the row of each, in the order in which they were given; row_gradients: float32 [n, dim],
    zeros, to which d loss / d row of all records is added; None in an evaluation."""

    # Defaults, which most works keep: a batch sets what it has.
    parameters: Optional[Dict[str, numpy.ndarray]] = None
    gradients: Optional[Dict[str, numpy.ndarray]] = None
    records: Optional[numpy.ndarray] = None
    epoch = step = replica = seed = of = 0
    features: Optional[numpy.ndarray] = None
    targets: Optional[numpy.ndarray] = None
    classes: Optional[numpy.ndarray] = None
    fields: Mapping[str, Field] = MappingProxyType({})
    keys: Mapping[str, numpy.ndarray] = MappingProxyType({})
    rows: Mapping[str, numpy.ndarray] = MappingProxyType({})
    index: Mapping[str, numpy.ndarray] = MappingProxyType({})
    row_gradients: Optional[Dict[str, numpy.ndarray]] = None

    def __init__(self, worker: "Worker", kind: int):
        self.kind = kind
        self.job: Optional[Job] = worker.job
        self.answered = kind == JOB_END
        self._worker = worker

    def describe(self, variables: Mapping[str, Any], *, statistics: Optional[Mapping[str, Any]] = None,
                 train_records: int = 0, test_records: int = 0, fingerprint: int = 0,
                 tables: Optional[Mapping[str, int]] = None) -> None:
        """Answer a JOB: variables that are trained and statistics (means of what batches say, like running means), each with
        its initial value: anything that is a float32 array, the same bits on every worker. Records are those that the program
        reads by number; 0 of both: those of the job's `data` come with each batch. The fingerprint (64 bits) has to be the
        same on every worker. Tables, {name: floats of a row}, are those that the job declares, all of them (`job.tables`).
        Errors: UseError says which variable is wrong, or how the tables differ, and nothing was answered."""
        self._worker._describe(self, variables, statistics or {}, train_records, test_records, fingerprint, tables or {})

    def look_up(self, keys: Mapping[str, Any]) -> None:
        """Answer KEYS: of each table an array of integers from 0 to 2^64 - 1, of any shape, in any order, each as often as
        records have it (admission counts that). What is not named is not looked up. Errors: UseError, LostError."""
        self._worker._look_up(self, keys)

    def done(self, loss: float, examples: Optional[int] = None, *, correct: float = math.nan, squared_error: float = math.nan,
             absolute_error: float = math.nan) -> None:
        """Answer a GRADIENT or EVALUATION with sums over its records; examples (all records unless said) is what gradients
        are divided by. A metric that is not said is not shown. Errors: UseError, LostError."""
        worker = self._worker
        result = worker._result
        result.examples = self.records.size if examples is None else examples  # type: ignore[union-attr]
        result.loss_sum = loss
        result.correct = correct
        result.squared_error_sum = squared_error
        result.absolute_error_sum = absolute_error
        worker._answered(self, worker._done(worker._handle, worker._result_at))

    def fail(self, reason: Union[str, BaseException]) -> None:
        """Say that it cannot be done: an exception with its traceback, or words. It goes to the log and to the job's status;
        a batch is tried again a few times, then the job fails. Of a long traceback the innermost frame of the program's own and
        the message are sure to be in the status. Errors: UseError, LostError."""
        if isinstance(reason, BaseException):
            reason = failures.reason(reason)
        worker = self._worker
        text = reason.encode("utf-8", "replace").replace(b"\0", b"?")
        worker._answered(self, worker._library.gradus_worker_fail(worker._handle, text))


class Worker:
    """The worker that started this process, which has one. Iterating waits for works, until the worker ends.

    As a context manager it closes, and an exception inside (of the loop's body, say) is reported to the worker with its
    traceback before it goes on. Belongs to one thread. A process that is forked off has no worker.
    Errors: NoWorkerError, with advice; UseError it is open already."""

    def __init__(self, name: Optional[str] = None):
        self._library = _l.library()
        self._next = self._library.gradus_worker_next
        self._done = self._library.gradus_worker_done
        handle = ctypes.c_void_p()
        status = self._library.gradus_worker_open((name or os.path.basename(sys.argv[0] or "python")).encode(),
                                                  ctypes.byref(handle))
        if status != 0:
            raise _l.error(status, None)
        self._handle: Optional[int] = handle.value
        self._struct = _l.WorkStruct()
        self._struct_at = ctypes.byref(self._struct)
        self._result = _l.Result(size=ctypes.sizeof(_l.Result))
        self._result_at = ctypes.byref(self._result)
        self._open: Optional[Work] = None
        buffered = getattr(sys.stdout, "reconfigure", None)
        if buffered is not None:
            buffered(line_buffering=True)  # what is printed is in the worker's log, and in `gradus logs`, at once
        self.job: Optional[Job] = None  #: that is described or trained now
        self._shapes: Dict[str, Tuple[int, ...]] = {}
        self._views: Dict[Tuple[int, bool], Dict[str, numpy.ndarray]] = {}
        self._numbers: Dict[Tuple[int, int], numpy.ndarray] = {}  # records, by address and count
        self._tables: Dict[str, int] = {}  # as described, in the order of their rows

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, kind: Any, value: Optional[BaseException], trace: Any) -> None:
        try:
            if value is not None and self._open is not None and not self._open.answered and self._handle is not None:
                self._open.fail(value)
        except _l.Error:
            pass  # the exception that is on its way says more
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the worker and its memory: no array of a work may be used any more."""
        self._forget()
        handle, self._handle = self._handle, None
        self._library.gradus_worker_close(handle)

    def __iter__(self) -> Iterator[Work]:
        while True:
            work = self.next()
            if work is None:
                return
            yield work

    def next(self) -> Optional[Work]:
        """Wait for something to do; None: the worker has ended. Errors: UseError the last work was not answered; LostError."""
        if self._handle is None:
            raise UseError("the worker is closed")
        struct = self._struct
        status = self._next(self._handle, self._struct_at)
        if status != 0:
            raise _l.error(status, self._handle)
        kind = struct.kind
        if kind == 0:
            return None
        if kind == JOB:
            self._begin_job()
        elif kind == JOB_END:
            self._forget()
        work = Work(self, kind)
        if kind in (GRADIENT, EVALUATION, KEYS):
            self._fill(work, struct)
        elif kind == JOB_END:
            self.job = None
        self._open = work
        return work

    def _forget(self) -> None:
        """The views of memory that goes, or becomes another job's."""
        self._views.clear()
        self._numbers.clear()

    def _begin_job(self) -> None:
        job = self._struct.job.contents
        self._forget()
        self._shapes = {}
        self._tables = {}
        tables = {job.tables[i].name.decode(): job.tables[i].dim for i in range(job.table_count)}
        self.job = Job(job.id.decode(), job.program.decode(), job.text.decode("utf-8", "replace"), job.seed,
                       job.batch_records, job.evaluation_records, tables)

    def _fill(self, work: Work, struct: _l.WorkStruct) -> None:
        count = struct.count
        work.epoch, work.step, work.replica, work.seed = struct.epoch, struct.step, struct.replica, struct.seed
        work.of = struct.of
        if struct.parameters:
            work.parameters = self._variables(struct.parameters, False)
        if struct.gradients:
            work.gradients = self._variables(struct.gradients, True)
        at = struct.records
        records = self._numbers.get((at, count))
        if records is None:
            records = self._numbers[at, count] = _array(at, count, numpy.int64, (count,), False)
        work.records = records
        if struct.features:
            dims = tuple(struct.feature_dims[i] for i in range(struct.feature_rank))
            work.features = _array(struct.features, count * struct.feature_count, numpy.float32, (count, *dims), False)
            work.targets = _array(struct.targets, count, numpy.float32, (count,), False)
            if struct.classes:
                work.classes = _array(struct.classes, count, numpy.int32, (count,), False)
        if struct.field_count:
            work.fields = {f.name.decode(): _field(f, count) for f in struct.fields[:struct.field_count]}
        if struct.rows:
            self._fill_rows(work, struct)

    def _fill_rows(self, work: Work, struct: _l.WorkStruct) -> None:
        work.keys, work.index, work.rows = keys, index, values = {}, {}, {}
        if struct.gradients:
            work.row_gradients = {}
        for i, (name, dim) in enumerate(self._tables.items()):
            rows = struct.rows[i]
            shape = rows.count, dim
            keys[name] = _array(rows.keys, rows.count, numpy.uint64, (rows.count,), False)
            index[name] = _array(rows.index, rows.index_count, numpy.uint32, (rows.index_count,), False)
            values[name] = _array(rows.values, rows.count * dim, numpy.float32, shape, False)
            if work.row_gradients is not None:
                work.row_gradients[name] = _array(rows.gradients, rows.count * dim, numpy.float32, shape, True)

    def _look_up(self, work: Work, keys: Mapping[str, Any]) -> None:
        unknown = set(keys) - set(self._tables)
        if unknown:
            raise UseError(f"keys of \"{min(unknown)}\", which was not described as a table")
        given = (_l.Keys * max(len(self._tables), 1))()
        kept = []  # what the structs point at
        for i, name in enumerate(self._tables):
            array = _keys(name, keys.get(name, ()))
            kept.append(array)
            given[i] = _l.Keys(array.ctypes.data, array.size)
        self._answered(work, self._library.gradus_worker_keys(self._handle, given, len(self._tables)))

    def _variables(self, table: int, writable: bool) -> Dict[str, numpy.ndarray]:
        """Views of all variables of an array; the same few arrays come again, told apart by where the first variable is."""
        first = ctypes.c_void_p.from_address(table).value
        views = self._views.get((first, writable))  # type: ignore[arg-type]
        if views is None:
            addresses = (ctypes.c_void_p * len(self._shapes)).from_address(table)
            views = {name: _array(address, int(numpy.prod(shape, dtype=numpy.int64)), numpy.float32, shape, writable)
                     for address, (name, shape) in zip(addresses, self._shapes.items())}
            self._views[first, writable] = views  # type: ignore[index]
        return views

    def _describe(self, work: Work, variables: Mapping[str, Any], statistics: Mapping[str, Any], train_records: int,
                  test_records: int, fingerprint: int, tables: Mapping[str, int]) -> None:
        twice = set(variables) & set(statistics)
        if twice:
            raise UseError(f"\"{min(twice)}\" is among the variables and the statistics")
        count = len(variables) + len(statistics)
        rows = (_l.Variable * count)()
        shapes: Dict[str, Tuple[int, ...]] = {}
        kept = []  # what the rows point at
        for i, (name, value) in enumerate([*variables.items(), *statistics.items()]):
            # Not ascontiguousarray(), which makes scalars vectors.
            value = numpy.array(_float32(name, value), order="C")
            dims = (ctypes.c_uint64 * max(value.ndim, 1))(*value.shape)
            kept.append((value, dims))
            rows[i] = _l.Variable(name.encode(), dims, value.ndim, 0 if i < len(variables) else 1,
                                  value.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))
            shapes[name] = value.shape
        named = (_l.Table * max(len(tables), 1))(*(_l.Table(name.encode(), dim) for name, dim in tables.items()))
        description = _l.Description(ctypes.sizeof(_l.Description), rows, count, train_records, test_records,
                                     fingerprint & 0xffffffffffffffff, named, len(tables))
        status = self._library.gradus_worker_describe(self._handle, ctypes.byref(description))
        self._answered(work, status)
        self._shapes = shapes
        self._tables = dict(tables)

    def _answered(self, work: Work, status: int) -> None:
        if status != 0:
            raise _l.error(status, self._handle)
        work.answered = True


def _field(field: _l.FieldStruct, count: int) -> Field:
    offsets = _array(field.offsets, count + 1, numpy.uint64, (count + 1,), False)
    end = int(offsets[count])
    weights = _array(field.weights, end, numpy.float32, (end,), False) if field.weights else None
    return Field(offsets, _array(field.keys, end, numpy.uint64, (end,), False), weights)


def _keys(name: str, value: Any) -> numpy.ndarray:
    value = numpy.asarray(value)
    if value.size == 0:
        return numpy.zeros(0, numpy.uint64)
    if value.dtype.kind not in "iu" or (value.dtype.kind == "i" and int(value.min()) < 0):
        negative = ", and some are negative" if value.dtype.kind == "i" else ""
        raise UseError(f"keys of table \"{name}\" are {value.dtype}{negative}: keys are integers from 0 to 2^64 - 1")
    return numpy.ascontiguousarray(value, numpy.uint64).reshape(-1)


def _float32(name: str, value: Any) -> numpy.ndarray:
    value = numpy.asarray(value)
    if value.dtype != numpy.float32:
        raise UseError(f"variable \"{name}\" is an array of {value.dtype}: variables are of float32")
    return value
