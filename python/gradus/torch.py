# SPDX-License-Identifier: Apache-2.0
"""PyTorch models for Gradus: say what the model, its records and its loss are; the cluster does the rest.

    import gradus.torch as gt, torch.nn.functional as F

    class Digits(gt.Task):
        def model(self):
            return Net()
        def dataset(self, part):
            return MyDataset(part)
        def loss(self, model, batch):
            x, y = batch
            return F.cross_entropy(model(x), y, reduction="sum")

    if __name__ == "__main__":
        gt.worker(Digits(), master="host:7000")

Which records a batch has is the cluster's business, and so is the optimizer: `update` of the job. Parameters are the worker's
memory, seen by the model's own; only gradients are copied."""

import contextlib
import ctypes
import faulthandler
import hashlib
import os
import random
import shlex
import sys
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple, Union

import numpy
import torch
from torch import nn

from gradus import library as _l
from gradus.errors import NoWorkerError, UseError
from gradus.torch_answers import Metrics, loss_of, sums
from gradus.torch_load import joined
from gradus.torch_load import load as load
from gradus.torch_load import rows as rows
from gradus.torch_loaders import Loaders
from gradus.torch_tables import Embeddings
from gradus.worker import EVALUATION, GRADIENT, JOB, KEYS, Field, Job, Work, Worker, started_by_worker

LOOK_EVERY = 64  # batches: then all parameters of the model are looked for
NOTHING = contextlib.nullcontext()
DTYPES = {numpy.dtype(name).char: getattr(torch, name) for name in ("float32", "int32", "int64")}


class Lists(NamedTuple):
    """A sparse field of a batch of the job's `data`, as nn.EmbeddingBag takes it: bag(lists.ids, lists.offsets)."""

    ids: torch.Tensor  #: int64, the 64 bits of the keys of all records, one after the other
    offsets: torch.Tensor  #: int64 [n], where the list of each record begins
    weights: Optional[torch.Tensor]  #: float32, of the same keys; None: all are 1


class Task:
    """What is to be trained. Everything has to be a function of its arguments, `self.job` and the random numbers of torch,
    numpy and random, which are seeded for each batch: then every worker computes the same."""

    job: Job  #: id, program, text (the YAML), seed, batch_records; set before model() is called

    def model(self) -> nn.Module:
        """The model with its initial values: 32-bit floats, on the processor. torch is seeded by the job."""
        raise UseError("a task has a model(self), which returns a torch.nn.Module")

    def dataset(self, part: str) -> Optional[Any]:
        """The records of part "train" or "test", by number: `len(d)` and `d[i]`. None for both: those of the job's `data`,
        and batches are (features float32 [n, ...], labels: int64 [n] classes or float32 [n]), where they have sparse fields
        (features, labels, {name: Lists}). None for "test" alone: there are none."""
        return None

    def loss(self, model: nn.Module, batch: Any) -> Union[torch.Tensor, Tuple[torch.Tensor, Metrics]]:
        """The SUM of the losses of a batch's records, a tensor of one element; with metrics() of the same batch, if wanted."""
        raise UseError("a task has a loss(self, model, batch), which returns the sum over the records")

    def metrics(self, model: nn.Module, batch: Any) -> Metrics:
        """Of an evaluation: {"accuracy": (right answers, records), "rmse": (sum of squared errors, records), "mae": (sum of
        absolute errors, records)}, those that the job names."""
        return {}

    def collate(self, records: Sequence[Any]) -> Any:
        """A batch of records of dataset(): stacked, as torch's DataLoader does."""
        return torch.utils.data.default_collate(list(records))

    def tables(self, model: nn.Module) -> Mapping[str, str]:
        """Which table of the job (`model.tables`) has the rows of a module: {name of an nn.Embedding or nn.EmbeddingBag with
        sparse=True: name of the table}. Those that are not named here have the table of their own name."""
        return {}

    def keys(self, model: nn.Module, batch: Any) -> Optional[Mapping[str, Any]]:
        """What a batch looks up in tables, before it has the rows: {table: integers}. None: loss(), and in evaluations
        metrics(), are run for it, once more without gradients and with rows of zeros; a task that says it spares that."""
        return None

    def statistics(self, model: nn.Module) -> Iterable[str]:
        """Names of the buffers that training changes, each as a mean over batches: the running statistics of BatchNorm."""
        for name, module in model.named_modules():
            if isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats:
                if module.momentum is None:
                    raise UseError(f"{name}: BatchNorm with momentum=None averages over all batches that this process has "
                                   "seen, which depends on who computes what; give it a momentum")
                for buffer in "running_mean", "running_var":
                    if getattr(module, buffer) is not None:
                        yield f"{name}.{buffer}" if name else buffer


def worker(task: Task, master: Optional[str] = None, *, threads: int = 1, deterministic: bool = True,
           loaders: int = 0) -> None:
    """Compute for a cluster until it is over.

    In a process that a worker has started this serves it. Otherwise the process becomes `gradus-worker --master MASTER`
    (None: as GRADUS_MASTER or its own default says), found in GRADUS_BIN or on PATH, which starts this same command line as
    its program. threads and deterministic algorithms decide bits: all workers should say the same.
    loaders: processes that read a batch's records side by side (0: this process reads them), for datasets that decode or distort.
    torch, numpy and random are seeded for each record then, so how many there are decides nothing, but whether there are any does.
    Errors: UseError that is no task; NoWorkerError there is no gradus-worker; LostError the worker was killed in a job."""
    if not isinstance(task, Task):
        got = f"the class {task.__name__}: {task.__name__}(...)" if isinstance(task, type) else type(task).__name__
        raise UseError(f"worker() takes an object of a class derived from gradus.torch.Task, and got {got}")
    if not started_by_worker():
        become_worker(master)
    if not faulthandler.is_enabled() and sys.stderr is not None:
        try:
            faulthandler.enable()  # writing to parameters in place is a fault: say where
        except (ValueError, OSError, AttributeError):
            pass  # what stands for stderr has no descriptor
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    with Worker(type(task).__name__) as connection:
        serve(task, connection, loaders)


def become_worker(master: Optional[str]) -> NoReturn:
    """Start gradus-worker in place of this process, with this command line as its program."""
    path = _l.find_command("gradus-worker")
    if path is None:
        where = os.environ.get("GRADUS_BIN")
        raise NoWorkerError("this process was not started by a worker, and there is no gradus-worker "
                            + (f"in {where} (GRADUS_BIN)" if where else "on PATH; set GRADUS_BIN to its directory")
                            + "; or start it with gradus run JOB.yaml --worker \"COMMAND\"")
    arguments = list(getattr(sys, "orig_argv", [sys.executable, *sys.argv])[1:])
    command = shlex.join([sys.executable, *arguments])
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(path, [path, *(["--master", master] if master is not None else []), "--program", command])


def serve(task: Task, connection: Worker, loaders: int = 0) -> None:
    """Answer what comes over a connection until the worker ends. An exception of the task fails what was asked, with its
    traceback, and the next work is waited for."""
    trainer: Optional[Trainer] = None
    for work in connection:
        try:
            if work.kind == JOB:
                if trainer is not None:
                    trainer.close()
                    trainer = None
                trainer = Trainer(task, work, loaders)
            elif work.kind == KEYS and trainer is not None:
                trainer.keys(work)
            elif work.kind == GRADIENT and trainer is not None:
                trainer.gradient(work)
            elif work.kind == EVALUATION and trainer is not None:
                trainer.evaluate(work)
            else:
                trainer = None
        except Exception as e:
            if work.answered:
                raise
            work.fail(e)


def seed_all(seed: int) -> None:
    """Seed what datasets and layers draw from. (torch.manual_seed() would keep a stack for each call, for GPUs.)"""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed((seed ^ seed >> 32) & 0xffffffff)


class Trainer:
    """A task's model in one job: describes it, and computes gradients and evaluations in the worker's memory."""

    def __init__(self, task: Task, work: Work, loaders: int = 0):
        assert work.job is not None
        task.job = work.job
        self.task = task
        seed_all(work.job.seed)
        self.model = task.model()
        if not isinstance(self.model, nn.Module):
            raise UseError(f"model() returned {type(self.model).__name__}, which is no torch.nn.Module")
        self.embeddings = Embeddings(self.model, task.tables(self.model), work.job)
        self.trained: Dict[str, nn.Parameter] = {}
        constants: Dict[str, torch.Tensor] = {}  # frozen parameters, and buffers
        for name, p in self.model.named_parameters():  # tied weights come once
            check_tensor("parameter", name, p)
            (self.trained if p.requires_grad else constants)[name] = p
        if not self.trained:
            raise UseError("the model has no parameter that requires a gradient")
        self.frozen = dict(constants)
        self.statistics, self.constants = self._buffers(constants)
        self.datasets = {part: self._dataset(part) for part in ("train", "test")}
        self.loaders = Loaders(self.datasets, loaders, seed_all) if loaders > 0 else None
        work.describe({name: flat_rank(p) for name, p in self.trained.items()},
                      statistics={name: flat_rank(b) for name, b in self.statistics.items()},
                      train_records=self._length("train"), test_records=self._length("test"),
                      fingerprint=fingerprint(constants), tables=self.embeddings.tables)
        self.parameters = dict(self.model.named_parameters())
        self.batches = 0
        self.indexed = {part: type(d) is torch.utils.data.TensorDataset and type(task).collate is Task.collate
                        for part, d in self.datasets.items()}
        self.into: Dict[int, List[Tuple[str, nn.Parameter, torch.Tensor]]] = {}  # by the id of a work's gradients
        self.numbers: Dict[int, Tuple[numpy.ndarray, torch.Tensor]] = {}  # by the id of a work's records
        self.places: List[Tuple[str, nn.Parameter, int, torch.Size]] = []  # of what is bound
        self.tensors: Dict[int, Dict[str, torch.Tensor]] = {}
        self.bound: Optional[Dict[str, torch.Tensor]] = None
        self.training: Optional[bool] = None

    def close(self) -> None:
        """End the processes that read its records."""
        if self.loaders is not None:
            self.loaders.close()

    # ---- what the job has ----

    def _buffers(self, constants: Dict[str, torch.Tensor]) -> Tuple[Dict[str, torch.Tensor], List[Tuple[str, Any, int]]]:
        """The statistics, and the buffers and @constants that nobody may change, each with the count of its changes."""
        names = set(self.task.statistics(self.model))
        buffers = dict(self.model.named_buffers())
        unknown = names - set(buffers)
        if unknown:
            raise UseError(f"statistics() names \"{min(unknown)}\", which is no buffer of the model")
        fixed = [(f"parameter {name}", p, p._version) for name, p in constants.items()]
        for name, b in buffers.items():
            if name in names:
                check_tensor("statistic", name, b)
            elif not name.endswith("num_batches_tracked"):
                fixed.append((f"buffer {name}", b, b._version))
                constants[name] = b
        return {name: buffers[name] for name in buffers if name in names}, fixed

    def _dataset(self, part: str) -> Optional[Any]:
        data = self.task.dataset(part)
        if data is not None and not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            raise UseError(f"dataset(\"{part}\") has no len() or no [i]: the cluster names records by number, so a dataset "
                           "is map-style, not iterable")
        return data

    def _length(self, part: str) -> int:
        data = self.datasets[part]
        return 0 if data is None else len(data)

    # ---- batches ----

    def keys(self, work: Work) -> None:
        """Answer KEYS: what the batch looks up is seen by computing it with rows of zeros."""
        part = "train" if work.of == GRADIENT else "test"
        self._set_training(part == "train")
        seed_all(work.seed)
        batch = self._batch(work, part)
        keys = self.task.keys(self.model, batch)
        if keys is not None:
            work.look_up({table: torch.as_tensor(ids).to(torch.int64).numpy().view(numpy.uint64) for table, ids in keys.items()})
            return
        with torch.no_grad(), self.embeddings.recording() as said:
            self.task.loss(self.model, batch)
            if part == "test":
                self.task.metrics(self.model, batch)
        work.look_up({table: numpy.concatenate(ids) if ids else () for table, ids in said.items()})

    def gradient(self, work: Work) -> None:
        """Answer a GRADIENT."""
        assert work.parameters is not None and work.gradients is not None and work.records is not None
        self._bind(work, True)
        for p in self.trained.values():
            p.grad = None
        seed_all(work.seed)
        batch = self._batch(work, "train")
        with self.embeddings.rows_of(work) if self.embeddings.tables else NOTHING:
            returned = self.task.loss(self.model, batch)
            if not any(p.requires_grad for p in self.trained.values()):
                self._check_parameters()  # which says why the loss has no gradient
            loss, metrics = loss_of(self.task.loss, returned, True)
            loss.backward()  # type: ignore[no-untyped-call]
        self._check_bound()
        gradients = self._tensors(work.gradients)
        into = self.into.get(id(work.gradients))
        if into is None:
            into = self.into[id(work.gradients)] = [(name, p, gradients[name]) for name, p in self.trained.items()]
        unused = False
        for name, p, to in into:
            gradient = p.grad
            if gradient is None:
                to.zero_()
                unused = True
            elif gradient.is_sparse:
                raise UseError(f"the gradient of {name} is sparse; gradients are dense here")
            else:
                to.copy_(gradient)
        if unused or self.batches % LOOK_EVERY == 0 or any(p.requires_grad for p in self.frozen.values()):
            self._check_parameters()
        self.batches += 1
        examples = work.records.size
        for name, b in self.statistics.items():
            torch.mul(b, examples, out=gradients[name])
        work.done(loss.item(), examples, **sums("loss()", self.task.loss, metrics, examples))

    def evaluate(self, work: Work) -> None:
        """Answer an EVALUATION."""
        assert work.records is not None
        self._bind(work, False)
        seed_all(work.seed)
        batch = self._batch(work, "test")
        with torch.no_grad(), self.embeddings.rows_of(work):
            loss, metrics = loss_of(self.task.loss, self.task.loss(self.model, batch), False)
            more = self.task.metrics(self.model, batch)
        self._check_bound()
        examples = work.records.size
        work.done(loss.item(), examples, **{**sums("loss()", self.task.loss, metrics, examples),
                                            **sums("metrics()", self.task.metrics, more, examples)})

    def _batch(self, work: Work, part: str) -> Any:
        assert work.records is not None
        data = self.datasets[part]
        if data is None:
            if work.features is None:
                raise UseError(f"dataset(\"{part}\") is None, and the job has no `data`")
            labels = work.targets if work.classes is None else work.classes
            assert labels is not None
            x = from_address(work.features) if work.features.size else torch.zeros(work.features.shape)
            y = from_address(labels) if work.classes is None else from_address(labels).long()
            return (x, y, {name: lists(f) for name, f in work.fields.items()}) if work.fields else (x, y)
        if self.indexed[part]:
            chosen = self._numbers(work.records)
            return [t[chosen] for t in data.tensors]  # what collate() would come to
        numbers = work.records.tolist()
        if self.loaders is not None:
            return self.task.collate(self.loaders.records(part, numbers, work.seed))
        return self.task.collate([data[i] for i in numbers])

    def _numbers(self, records: numpy.ndarray) -> torch.Tensor:
        """A batch's records as a tensor of the same memory; the same few arrays come again."""
        known = self.numbers.get(id(records))
        if known is None:
            known = self.numbers[id(records)] = (records, from_address(records))  # the array is alive as long as its id is
        return known[1]

    def _tensors(self, arrays: Dict[str, numpy.ndarray]) -> Dict[str, torch.Tensor]:
        """The arrays as tensors of the model's shapes, made once for each memory."""
        tensors = self.tensors.get(id(arrays))
        if tensors is None:
            own = {**self.trained, **self.statistics}
            tensors = {name: from_address(a).view(own[name].shape) for name, a in arrays.items()}
            self.tensors[id(arrays)] = tensors
            tensors[""] = arrays  # type: ignore[assignment] # alive as long as its id is
        return tensors

    def _bind(self, work: Work, training: bool) -> None:
        """Make the worker's memory the model's parameters, and a copy of it the statistics."""
        assert work.parameters is not None
        tensors = self._tensors(work.parameters)
        if tensors is not self.bound:
            for name, p in self.trained.items():
                p.data = tensors[name]
            self.bound = tensors
            self.places = [(name, p, tensors[name].data_ptr(), tensors[name].shape) for name, p in self.trained.items()]
        for name, b in self.statistics.items():
            with torch.no_grad():
                b.copy_(tensors[name])
        self._set_training(training)

    def _set_training(self, training: bool) -> None:
        if self.training is not training:
            self.model.train(training)
            self.training = training

    def _check_bound(self) -> None:
        """The model's parameters still are the worker's memory, and its other buffers what they were."""
        assert self.bound is not None
        for name, p, address, shape in self.places:
            if p.data_ptr() != address or p.shape != shape or p.dtype is not torch.float32:
                self.bound = None
                kind = f"is now {p.dtype}, {list(p.shape)}" if p.dtype != torch.float32 or p.shape != shape \
                    else "was given other memory"
                raise UseError(f"parameter {name} {kind}: a model keeps its parameters (no .double(), .to() or .data = while "
                               "it is trained)")
        for name, constant, version in self.constants:
            if constant._version != version:
                what = "only statistics may: name it in Task.statistics(), if a mean over batches is what it is" \
                    if name.startswith("buffer") else "one that requires no gradient stays what model() made of it"
                raise UseError(f"{name} was changed by the model, and {what}")

    def _check_parameters(self) -> None:
        """They are those that were described: another one in its place would be computed with, and never trained. So would one that
        requires a gradient from now on, and one that no longer does would stand still."""
        now = dict(self.model.named_parameters())
        for name in {**self.parameters, **now}:
            if now.get(name) is not self.parameters.get(name):
                what = "is gone" if name not in now else "is new" if name not in self.parameters \
                    else f"is another one now, {list(now[name].shape)}"
                raise UseError(f"parameter {name} {what}: the modules of a model stay what model() made of them while it is "
                               "trained")
            if now[name].requires_grad is not (name in self.trained):
                what = "requires no gradient any more: which parameters are trained was told" if name in self.trained \
                    else "requires a gradient now, and is a constant: which parameters are trained was told"
                raise UseError(f"parameter {name} {what} when the job began; set requires_grad in model(), or let the job keep one "
                               "as it is (update.variables: frozen: true)")


# ---- pieces ----

def lists(field: Field) -> Lists:
    first, last = int(field.offsets[0]), int(field.offsets[-1])
    ids = torch.from_numpy(field.keys[first:last].view(numpy.int64).copy())
    weights = None if field.weights is None else torch.from_numpy(field.weights[first:last].copy())
    return Lists(ids, torch.from_numpy((field.offsets[:-1] - field.offsets[0]).astype(numpy.int64)), weights)


def check_tensor(what: str, name: str, t: torch.Tensor) -> None:
    """Errors: UseError it is not 32-bit floats in the memory of the processor."""
    if nn.parameter.is_lazy(t):
        raise UseError(f"{what} {name} has no shape yet: run the model once in model(), as lazy modules want it")
    if t.dtype != torch.float32:
        raise UseError(f"{what} {name} is {t.dtype}: parameters are 32-bit floats (model.float())")
    if t.device.type != "cpu":
        raise UseError(f"{what} {name} is on {t.device}: models are on the processor (model.cpu())")


def flat_rank(t: torch.Tensor) -> numpy.ndarray:
    """A tensor's values, with at most four dimensions: those of a 3-D convolution's kernel are joined at the end."""
    a = t.detach().contiguous().numpy()
    return a.reshape(joined(a.shape))


def fingerprint(constants: Mapping[str, torch.Tensor]) -> int:
    """Of the values that are not trained, which every worker makes for itself: they have to be the same everywhere."""
    if not constants:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(constants):
        t = constants[name].detach().cpu().contiguous()
        digest.update(f"{name} {t.dtype} {list(t.shape)}\n".encode())
        digest.update(t.view(-1).numpy().tobytes() if t.numel() else b"")
    return int.from_bytes(digest.digest(), "little")


def from_address(array: numpy.ndarray) -> torch.Tensor:
    """A tensor of an array's memory. (torch warns of arrays that are read-only, and reads no others.)"""
    raw = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    return torch.frombuffer(raw, dtype=DTYPES[array.dtype.char]).view(array.shape)
