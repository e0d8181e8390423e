# SPDX-License-Identifier: Apache-2.0
"""Embeddings with sparse=True, whose rows lie in tables of the job (`model.tables`) and not in the model: which modules they
are, which keys a batch looks up in them, and what they compute from the rows that come with it."""

import contextlib
from functools import partial
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from gradus.errors import UseError
from gradus.worker import Job, Work


class Embeddings:
    """The nn.Embedding and nn.EmbeddingBag of a model with sparse=True. They have no weight any more: a forward of theirs
    reads the rows of the batch that is computed.

    Errors: UseError a module has no table of its size in the job, or an option that rows of a table cannot have."""

    def __init__(self, model: nn.Module, names: Mapping[str, str], job: Job):
        modules = {name: module for name, module in model.named_modules()
                   if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse}
        unknown = set(names) - set(modules)
        if unknown:
            raise UseError(f"tables() names \"{min(unknown)}\", which is no nn.Embedding or nn.EmbeddingBag of the model with "
                           "sparse=True")
        self.tables: Dict[str, int] = {}  # name: dim, of those that are used
        self._said: Optional[Dict[str, List[numpy.ndarray]]] = None  # keys so far, while they are recorded
        self._work: Optional[Work] = None
        self._rows: Dict[str, torch.Tensor] = {}
        self._at: Dict[str, int] = {}
        for name, module in modules.items():
            table = names.get(name, name)
            check_module(name, module, table, job)
            self.tables[table] = module.embedding_dim
        check_untied(model, modules)
        for name, module in modules.items():
            module.register_parameter("weight", None)  # its memory goes: the table has the rows
            module.forward = partial(self._embed if isinstance(module, nn.Embedding) else self._bag,  # type: ignore[assignment]
                                     module, names.get(name, name))

    # ---- keys ----

    @contextlib.contextmanager
    def recording(self) -> Iterator[Dict[str, List[numpy.ndarray]]]:
        """Inside, forwards note their keys by table, and rows are zeros."""
        self._said = {table: [] for table in self.tables}
        try:
            yield self._said
        finally:
            self._said = None

    # ---- rows ----

    @contextlib.contextmanager
    def rows_of(self, work: Work) -> Iterator[None]:
        """Inside, forwards read the rows of this batch, whose gradients become the work's in the end."""
        training = work.row_gradients is not None
        self._work = work
        self._at = dict.fromkeys(self.tables, 0)
        self._rows = {table: tensor_of(work.rows[table]).requires_grad_(training) for table in self.tables}
        try:
            yield
            for table, rows in self._rows.items() if work.row_gradients is not None else ():
                if rows.grad is not None and rows.numel() > 0:
                    tensor_of(work.row_gradients[table]).copy_(rows.grad)  # type: ignore[index]
        finally:
            self._work = None
            self._rows = {}

    def _index(self, table: str, keys: numpy.ndarray) -> torch.Tensor:
        """Which row each key has. They come in the order in which they were said, unless the task said others."""
        assert self._work is not None
        known, at = self._work.keys[table], self._at[table]
        index = self._work.index[table][at:at + keys.size]
        self._at[table] = at + keys.size
        if index.size < keys.size or not numpy.array_equal(known[index], keys):
            index = numpy.searchsorted(known, keys)
            found = index < known.size
            found[found] = known[index[found]] == keys[found]
            if not found.all():
                raise UseError(f"the batch looks up key {keys[~found][0]} in table \"{table}\", which it did not when its keys "
                               "were asked for: they have to be a function of the batch and its random numbers alone "
                               "(and keys() has to name all of them)")
        return torch.from_numpy(index.astype(numpy.int64))

    def _look_up(self, table: str, ids: torch.Tensor, padding: Optional[int]) -> Tuple[torch.Tensor, Optional[int]]:
        """The row of each id, for F.embedding() with self._table(), and which row is that of the padding."""
        flat = ids.detach().reshape(-1).to(torch.int64).numpy().view(numpy.uint64)
        kept = None if padding is None else flat != numpy.uint64(padding & 0xffffffffffffffff)
        index = self._index(table, flat if kept is None else flat[kept])
        if kept is None:
            return index.view(ids.shape), None
        place = self._rows[table].shape[0]  # one more row, of zeros
        full = torch.full((flat.size,), place, dtype=torch.int64)
        full[torch.from_numpy(kept)] = index
        return full.view(ids.shape), place

    def _note(self, table: str, ids: torch.Tensor, padding: Optional[int]) -> None:
        assert self._said is not None
        flat = ids.detach().reshape(-1).to(torch.int64).numpy().view(numpy.uint64)
        self._said[table].append(flat.copy() if padding is None else flat[flat != numpy.uint64(padding & 0xffffffffffffffff)])

    def _table(self, table: str, padded: bool) -> torch.Tensor:
        rows = self._rows[table]
        return torch.cat([rows, rows.new_zeros(1, rows.shape[1])]) if padded or rows.shape[0] == 0 else rows

    def _check_inside(self, table: str) -> None:
        if self._said is None and self._work is None:
            raise UseError(f"the rows of table \"{table}\" are there in loss() and metrics() alone")

    def _embed(self, module: nn.Embedding, table: str, input: torch.Tensor) -> torch.Tensor:
        self._check_inside(table)
        if self._said is not None:
            self._note(table, input, module.padding_idx)
            return torch.zeros(*input.shape, module.embedding_dim)
        index, padding = self._look_up(table, input, module.padding_idx)
        return F.embedding(index, self._table(table, padding is not None), padding)

    def _bag(self, module: nn.EmbeddingBag, table: str, input: torch.Tensor, offsets: Optional[torch.Tensor] = None,
             per_sample_weights: Optional[torch.Tensor] = None) -> torch.Tensor:
        self._check_inside(table)
        if self._said is not None:
            self._note(table, input, module.padding_idx)
            bags = input.shape[0] if offsets is None else offsets.shape[0] - int(module.include_last_offset)
            return torch.zeros(bags, module.embedding_dim)
        index, padding = self._look_up(table, input, module.padding_idx)
        return F.embedding_bag(index, self._table(table, padding is not None), offsets, mode=module.mode,
                               per_sample_weights=per_sample_weights, include_last_offset=module.include_last_offset,
                               padding_idx=padding)


def tensor_of(array: numpy.ndarray) -> torch.Tensor:
    """A tensor of an array's memory, which may be read-only. Torch would warn of that."""
    from gradus.torch import from_address
    return from_address(array) if array.size else torch.zeros(array.shape)


def check_module(name: str, module: Any, table: str, job: Job) -> None:
    what = f"{name or 'the model'}: an embedding with sparse=True has its rows in a table of the job"
    if table not in job.tables:
        has = ", ".join(f'"{t}"' for t in job.tables)
        raise UseError(f"{what}, which declares {'those named ' + has if has else 'none'} and not \"{table}\"; add it "
                       f"(model.tables: [{{name: {table}, dim: {module.embedding_dim}}}]), name another one in Task.tables(), or "
                       "make it a variable with sparse=False")
    if job.tables[table] != module.embedding_dim:
        raise UseError(f"{what}: those of \"{table}\" have dim {job.tables[table]}, and embedding_dim is {module.embedding_dim}")
    for option in "max_norm", "scale_grad_by_freq":
        if getattr(module, option):
            raise UseError(f"{what}, and {option} is not possible there (model.tables: clip_norm)")
    if getattr(module, "mode", "sum") == "max":
        raise UseError(f"{what}; mode is sum or mean there, not max")


def check_untied(model: nn.Module, modules: Mapping[str, Any]) -> None:
    """No other module has the weight of one of these."""
    weights = {id(module.weight): name for name, module in modules.items()}
    for name, module in model.named_modules():
        for parameter in module._parameters.values() if name not in modules else ():
            if id(parameter) in weights:
                raise UseError(f"{weights[id(parameter)]}: an embedding with sparse=True has no weight that {name or 'the model'} "
                               "could share: its rows lie in a table of the job")
