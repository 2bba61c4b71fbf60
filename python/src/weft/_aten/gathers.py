"""Rows that are read: of vertices by the ends of edges, of edges by a mask, of a small table by numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .._lowering import Lowering, lowers
from .._values import (
    WITHOUT_LOOPS,
    Chosen,
    Edges,
    Ends,
    Fill,
    Loops,
    Rows,
    Unlowerable,
    Value,
    Vertices,
    in_words,
    kind_of,
)
from .columns import BY_POSITION


@lowers("index_select")
def _index_select(to: Lowering, self: Any, dim: int, index: Any) -> Any:
    return _index(to, self, [None] * (dim % len(to.node.args[0].meta["val"].shape)) + [index])


@lowers("index")
def _index(to: Lowering, self: Any, indices: list[Any]) -> Any:
    indexed = [(d, i) for d, i in enumerate(indices) if i is not None]
    if (
        len(indexed) == 2
        and isinstance(indexed[0][1], Vertices)
        and indexed[0][0] == 0
        and isinstance(indexed[1][1], Value)
    ):
        ids = to.reshape(indexed[1][1], (*indexed[1][1].shape, 1))  # x[torch.arange(V), ids]
        picked = _gather(to, self, 1, ids)
        return to.reshape(picked, picked.shape[:-1])
    if len(indexed) != 1:
        raise Unlowerable("several indices at once: take the columns one after another")
    ((dim, index),) = indexed
    if isinstance(self, (Edges, Ends)):
        return _edges_of(to, self, dim, index)
    if isinstance(index, (Chosen, Loops)) or (isinstance(index, Value) and to.is_mask(index, indices)):
        return _chosen(to, self, index.mask if isinstance(index, Chosen) else index)
    if isinstance(self, Fill):
        return Fill(self.number, *to.layout())
    x = to.value(self)
    if isinstance(index, Fill) and x.rows is None and dim == 0:  # one group of all vertices
        row = to.slice(x, 0, int(index.number), int(index.number) + 1)
        return to.filled(to.dropped(row, 0), [Value(0, *to.layout())])
    if isinstance(index, (Ends, Vertices)):
        if x.rows is None or dim != x.axis:
            raise Unlowerable(
                "a table with a row for each vertex is read by their numbers: concatenate it to x beforehand"
            )
        if isinstance(index, Ends):
            return to.gather(x, index)
        if x.rows != index.rows:
            raise Unlowerable(f"rows of {in_words(x.rows)} are read by the numbers of {in_words(index.rows)}")
        return x
    if isinstance(index, Tensor):
        places, at = places_of(index), to.column(x, dim, BY_POSITION)
        if index.dtype == torch.bool:
            size = to.node.meta["val"].shape[dim]
            to.sizes |= {} if isinstance(size, int) else {size.node.expr: len(places)}
        return to.cat([to.slice(x, at, int(k) % x.shape[at], int(k) % x.shape[at] + 1) for k in places], at)
    return _lookup(to, x, dim, to.value(index))


def places_of(index: Tensor) -> Tensor:
    """The places that a tensor of the module names, by numbers or by a mask."""
    places = index.nonzero().flatten() if index.dtype == torch.bool else index
    if index.dim() != 1:
        raise Unlowerable(BY_POSITION)
    return places


def _edges_of(to: Lowering, self: Any, dim: int, index: Any) -> Any:
    if (
        isinstance(self, Edges)
        and dim == 0
        and isinstance(index, Tensor)
        and sorted(index.tolist()) == [0, 1]
    ):
        return replace(self, reverse=self.reverse != (index.tolist() == [1, 0]))
    mask = index.mask if isinstance(index, Chosen) else index
    rows: Rows
    if isinstance(mask, Loops):
        if mask.rows != self.rows:
            raise Unlowerable("a mask of other edges")
        rows = (
            replace(mask.rows, kind=WITHOUT_LOOPS[mask.rows.kind]) if mask.inverse else (self.rows, "loops")
        )
    elif isinstance(mask, Value) and mask.rows == self.rows:
        rows = (self.rows, mask.op)
    else:
        raise Unlowerable(
            "some of the edges are taken by their position: choose edges by a mask of their values"
        )
    return replace(self, rows=to.count(to.node.meta["val"].shape[-1], rows))


def _chosen(to: Lowering, x: Any, mask: Any) -> Any:
    """Rows that a mask chooses."""
    if isinstance(mask, Value):
        rows: Rows = (mask.rows, mask.op)
    elif mask.inverse:
        rows = replace(mask.rows, kind=WITHOUT_LOOPS[mask.rows.kind])
    else:
        rows = to.at(mask.rows, "target") if mask.rows.kind == "one" else (mask.rows, "loops")
    to.count(next(n for n in to.node.meta["val"].shape if not isinstance(n, int)), rows)
    if isinstance(x, Fill):
        return Fill(x.number, rows, x.shape, x.axis)
    x = to.value(x)
    if x.rows != mask.rows or x.axis:
        raise Unlowerable(f"a mask of {in_words(mask.rows)} chooses among {in_words(x.rows)}")
    operation = to.operation_of(x)
    if kind_of(rows) == "vertices":  # each vertex has one loop
        if operation["op"] == "gather":
            return to.inputs(x)[0]
        loops = to.reshape(to.value(mask), (1,) * len(x.shape))
        return to.scatter(to.pointwise("mul", loops, x), "target", "sum")
    if isinstance(mask, Value) or not mask.inverse or mask.rows.kind == "removed":
        return replace(x, rows=rows)  # only loop_values reads stored loops
    if mask.rows.kind == "stored":
        return to.emit("without_loops", [x], rows, x.shape)
    if operation["op"] != "with_loops":
        raise Unlowerable(
            "self loops are removed from values of edges that had them added: remove them first"
        )
    x = to.inputs(x)[0]
    return x if mask.rows.kind == "one" else to.emit("without_loops", [x], rows, x.shape)


def _lookup(to: Lowering, table: Value, dim: int, index: Value) -> Value:
    """Rows of a small table, by numbers that features hold. The table is multiplied by rows of 0 and 1."""
    if table.rows is not None or dim != 0:
        raise Unlowerable("rows are read by numbers that are computed: only edge_index says which rows meet")
    count, rest = table.shape[0], table.shape[1:]
    if count > 4096:
        raise Unlowerable(
            f"an embedding of {count:,} rows: weft has those of at most 4096; give the embedding's rows as "
            "features"
        )
    which = _one_hot(to, index, count)
    flat = to.reshape(table, (count, math.prod(rest)))
    out = to.emit("matmul", [which, flat], index.rows, (*index.shape, math.prod(rest)), index.axis)
    return to.reshape(out, (*index.shape, *rest))


@lowers("embedding")
def _embedding(
    to: Lowering, weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, **_: Any
) -> Any:
    if scale_grad_by_freq:
        raise Unlowerable("scale_grad_by_freq divides a row's gradient by how often it is read: leave it out")
    if isinstance(weight, Value) and kind_of(weight.rows) == "vertices":
        if padding_idx >= 0:
            raise Unlowerable(
                "an embedding of all vertices has a padding_idx, of which no gradient is: leave it out"
            )
        if isinstance(indices, Tensor):
            raise Unlowerable(
                "an embedding of all vertices is read by numbers that the module holds: take its weight"
            )
        return _index(to, weight, [indices])
    if isinstance(indices, (Ends, Vertices)):
        raise Unlowerable("an embedding has a row for each vertex: give these as features, x")
    table, at = to.value(weight), padding_idx
    if at >= 0:  # a row without a gradient
        row = to.slice(table, 0, at, at + 1)
        row = to.emit("detach", [row], None, row.shape)
        table = to.cat([to.slice(table, 0, 0, at), row, to.slice(table, 0, at + 1, table.shape[0])], 0)
    return _lookup(to, table, 0, to.value(indices))


@lowers("one_hot")
def _one_hot(to: Lowering, self: Any, num_classes: int) -> Any:
    if num_classes < 0:
        raise Unlowerable("one_hot without num_classes depends on the values: give num_classes")
    ids = to.value(self)
    return which(to, to.reshape(ids, (*ids.shape, 1)), num_classes)


def which(to: Lowering, ids: Value, count: int) -> Value:
    """1 in the column that each row names."""
    return to.pointwise("eq", ids, to.constant(torch.arange(count)))


@lowers("gather")
def _gather(to: Lowering, self: Any, dim: int, index: Any, **_: Any) -> Any:
    if isinstance(index, Ends):
        return _index_select(to, self, dim, index)
    x, ids = to.value(self), to.value(index)
    if x.rows is None and x.dim == 1:
        return _lookup(to, x, 0, ids)
    computed = "values are picked by numbers that are computed: write a comparison and torch.where"
    at = to.column(x, dim, computed)
    if at != len(x.shape) - 1 or ids.shape[at] != 1:
        raise Unlowerable(computed)
    return to.reduce("sum", to.pointwise("where", which(to, ids, x.shape[at]), x, to.constant(0)), [at], True)


@lowers("nonzero", "nonzero_numpy")
def _nonzero(to: Lowering, self: Any) -> Any:
    if isinstance(self, Value) and self.rows is not None and self.shape == ():
        found = to.node.meta["val"]
        sizes = (found[0] if isinstance(found, (list, tuple)) else found).shape
        to.count(next(n for n in sizes if not isinstance(n, int)), (self.rows, self.op))
    elif not isinstance(self, Loops):
        raise Unlowerable("positions depend on the values: write a comparison and torch.where")
    return Chosen(self)
