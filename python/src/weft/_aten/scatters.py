"""Rows that are aggregated to the vertices at an end of edges, and values that are written at known
places."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from .._lowering import Lowering, lowers
from .._values import Chosen, Ends, Fill, Loops, Unlowerable, Value, Vertices, base_of, in_words, kind_of
from .columns import BY_POSITION
from .gathers import places_of, which
from .reductions import REDUCTIONS


@lowers("scatter_add", "index_add", "scatter_reduce", "index_reduce", "scatter")
def _scatter(
    to: Lowering,
    self: Any,
    dim: int,
    index: Any,
    *,
    reduce: str = "sum",
    include_self: bool = True,
    alpha: Any = 1,
    **inputs: Any,
) -> Any:
    (src,) = inputs.values()
    src = src if alpha == 1 else to.elementwise("mul", src, alpha)
    if isinstance(index, Vertices) and to.name != "scatter":
        return _with_self(to, src, self, REDUCTIONS.get(reduce, reduce), include_self)
    if not isinstance(index, Ends):
        if to.name == "scatter" and reduce == "sum":
            return _put_columns(to, self, dim, index, src)
        return _grouped(to, self, dim, index, src, reduce, include_self)
    src = to.value(src)
    reduce = REDUCTIONS.get(reduce, reduce)
    if base_of(index.rows).type_name in to.batches and src.rows == to.at(index.rows, "source"):
        src = to.gather(src, Ends(index.rows, "source"))
    if src.rows != index.rows or to.layout()[0] != to.at(index.rows, index.end):
        raise Unlowerable(
            f"rows of {in_words(src.rows)} are aggregated to {in_words(to.layout()[0])}: edges aggregate to "
            "vertices"
        )
    if to.name == "scatter":
        raise Unlowerable("rows are written over each other: aggregate them by scatter_add or scatter_reduce")
    out, start, empty = to.scatter(src, index.end, reduce), to.number(self), 1.0 if reduce == "mul" else 0.0
    if reduce in ("sum", "mul"):
        if start == empty and not include_self:
            return out
        if not include_self:
            raise Unlowerable(f"{to.name} with include_self=False: start from {empty:g}")
    elif start != empty:  # vertices without edges keep what they had
        count = to.scatter(to.reshape(to.ones(index.rows), (1,) * len(src.shape)), index.end, "sum")
        some = to.pointwise("gt", replace(count, axis=out.axis), to.constant(0))
        out = to.elementwise("where", some, out, self)
    return _with_self(to, out, self, reduce, include_self)


def _with_self(to: Lowering, out: Any, self: Any, reduce: str, include_self: bool) -> Any:
    """An aggregation of rows with what they are written into."""
    if not include_self:
        return out
    if reduce == "mean":
        raise Unlowerable("scatter_reduce by mean with include_self=True: give include_self=False")
    return to.elementwise({"sum": "add", "mul": "mul", "max": "maximum", "min": "minimum"}[reduce], out, self)


def _grouped(to: Lowering, self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """An aggregation of all vertices, as one group."""
    sizes, reduce = to.layout()[1], REDUCTIONS.get(reduce, reduce)
    one = isinstance(index, Fill) and (kind_of(index.rows), dim, sizes[:1]) == ("vertices", 0, (1,))
    if one and reduce in ("sum", "mean", "max", "min"):
        x = to.value(src)
        out = to.reshape(to.emit("row_" + reduce, [x], None, x.shape), sizes)
        return _with_self(to, out, self, reduce, include_self)
    raise Unlowerable(
        "rows are added up by numbers that are computed, as in a pooling of vertices: only the ends of edges "
        "say which vertices meet"
    )


def _put_columns(to: Lowering, self: Any, dim: int, index: Any, number: Any) -> Any:
    """Writes a number into the column that each row names, as one_hot does."""
    ids = to.value(index)
    if dim % self.dim == self.axis or ids.shape != (1,) or isinstance(number, (Value, Fill)):
        raise Unlowerable(
            "values are written at positions that are computed: write a comparison and torch.where"
        )
    return to.elementwise("where", which(to, ids, self.shape[-1]), number, self)


def _put_places(to: Lowering, x: Value, dim: int, places: Tensor, values: Any, accumulate: bool) -> Value:
    """Writes columns at known places, each of them once."""
    at, places = to.column(x, dim, BY_POSITION), places_of(places)
    known = [int(k) % x.shape[at] for k in places]
    if len(set(known)) < len(known):
        raise Unlowerable("a column is written twice: write each once")
    made = to.expand(to.broadcast(to.value(values), x), (*x.shape[:at], len(known), *x.shape[at + 1 :]))
    columns = [to.slice(x, at, k, k + 1) for k in range(x.shape[at])]
    for n, k in enumerate(known):
        new = to.slice(made, at, n, n + 1)
        columns[k] = to.pointwise("add", columns[k], new) if accumulate else new
    return to.cat(columns, at)


@lowers("index_put", "_unsafe_index_put", "index_copy", "_index_put_impl")
def _index_put(
    to: Lowering,
    self: Any,
    indices: Any = None,
    values: Any = None,
    accumulate: bool = False,
    dim: int = 0,
    index: Any = None,
    source: Any = None,
    **_: Any,
) -> Any:
    indices = [None] * dim + [index] if indices is None else indices
    dim, indices = (
        next(d for d, i in enumerate(indices) if i is not None),
        [i for i in indices if i is not None],
    )
    values, at = source if values is None else values, indices[0]
    if len(indices) > 1:
        raise Unlowerable("several indices at once are written: write torch.where")
    if isinstance(at, Tensor):
        return _put_places(to, to.value(self), dim, at, values, accumulate)
    if isinstance(at, Ends) and accumulate:
        return to.elementwise("add", to.scatter(to.value(values), at.end, "sum"), self)
    if (
        isinstance(at, Ends) and isinstance(at.rows, tuple) and at.rows[1] == "loops"
    ):  # PyG's add_remaining_self_loops
        if isinstance(values, Fill) and isinstance(self, Fill) and values.number == self.number:
            return self
        old, new = to.value(self), to.value(values)
        return to.emit(
            "loop_values", [replace(new, rows=at.rows[0]), old], to.at(at.rows, "target"), old.shape
        )
    mask = at.mask if isinstance(at, Chosen) else at
    loops = isinstance(mask, Loops) and kind_of(mask.rows) == "one" and not mask.inverse
    if not loops and not (isinstance(mask, Value) and mask.rows is not None):
        raise Unlowerable(
            "rows are written by numbers that are computed: aggregate by scatter_add, or choose by "
            "torch.where"
        )
    x, new = to.value(self), to.value(values)
    if loops and kind_of(new.rows) == "vertices":
        new = to.gather(new, Ends(mask.rows, "target"))
    elif new.rows is not None:
        new = replace(new, rows=base_of(new.rows))
    mask = to.value(mask)
    mask = to.reshape(mask, mask.shape + (1,) * (len(x.shape) - len(mask.shape)))
    return to.pointwise("where", mask, to.pointwise("add", x, new) if accumulate else new, x)
