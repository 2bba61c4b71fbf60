"""Parts of a row's columns: selected, sliced, split, joined, padded, repeated and reversed. Rows have no
order, so none of these is along them, but for what `joins` makes of edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .._lowering import Lowering, bounds, lowers
from .._values import Edges, Ends, Fill, Unlowerable, Value, Vertices
from .joins import joined, pair, with_loops, with_vertices


@lowers("select")
def _select(to: Lowering, self: Any, dim: int, index: int) -> Any:
    if isinstance(self, Edges):
        if dim % 2 or not isinstance(index, int):
            raise Unlowerable("one edge is taken from edge_index")
        target = (index % 2) != self.reverse
        return Ends(self.rows, ("source", "target")[target], self.first[target])
    if isinstance(self, Vertices):
        return Vertices(self.rows)
    x = to.value(self)
    at = to.column(x, dim, "one vertex or edge is taken by its position: weft's vertices have no order")
    return to.dropped(to.slice(x, at, index % x.shape[at], index % x.shape[at] + 1), at)


@lowers("slice")
def _slice(to: Lowering, self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if to.whole(to.node) and step == 1:
        return self
    if isinstance(self, (Edges, Ends, Vertices)):
        raise Unlowerable("some of the edges are taken by their position: weft's edges have no order")
    x = to.value(self)
    at = to.column(x, dim, BY_POSITION)
    return to.slice(x, at, *bounds([start, end], x.shape[at]), step)


BY_POSITION = "some of the vertices or edges are taken by their position: weft's rows have no order"


@lowers("split", "split_with_sizes", "chunk", "unbind", "unsafe_split", "unsafe_chunk", "tensor_split")
def _split(to: Lowering, self: Any, dim: int = 0, **_: Any) -> Any:
    single = to.name == "unbind"
    if isinstance(self, (Edges, Vertices)) and single:
        return [_select(to, self, 0, k) for k in (0, 1)]
    x = to.value(self)
    at = to.column(x, dim, "vertices or edges are split by their position: weft's rows have no order")
    parts, stop = [], 0
    for tensor in to.node.meta["val"]:
        start, stop = stop, stop + (1 if single else int(tensor.shape[dim]))
        part = to.slice(x, at, start, stop)
        parts.append(to.dropped(part, at) if single else part)
    return parts


@lowers("cat", "concat", "stack")
def _cat(to: Lowering, tensors: list[Any], dim: int = 0) -> Any:
    stack = to.name.endswith("stack")
    dim %= len(to.node.meta["val"].shape)
    if len(tensors) == 1 and not stack:
        return tensors[0]
    along = not stack and not isinstance(to.node.meta["val"].shape[dim], int)
    if any(isinstance(t, (Edges, Ends, Vertices)) for t in tensors):
        made = with_vertices(to, tensors) if along else pair(tensors)
        return made or joined(to, tensors)
    if along:
        return with_loops(to, tensors) or joined(to, tensors)
    rows, shape, axis = to.layout()
    if all(isinstance(t, Fill) and t.number == tensors[0].number for t in tensors):
        return Fill(tensors[0].number, rows, shape, axis)
    parts = [to.value(t) for t in tensors if not (isinstance(t, Tensor) and t.shape == (0,))]
    at = dim - (rows is not None and dim > axis)
    like = next((p for p in parts if p.rows is not None), parts[0])
    parts = [to.filled(p, [like]) for p in parts]
    if stack:
        parts = [to.reshape(p, (*p.shape[:at], 1, *p.shape[at:]), axis) for p in parts]
    return to.cat(parts, at)


@lowers("flip")
def _flip(to: Lowering, self: Any, dims: list[int]) -> Any:
    if isinstance(self, Edges) and [d % 2 for d in dims] == [0]:
        return replace(self, reverse=not self.reverse)
    x = to.value(self)
    columns = to.columns(x, dims, "the order of vertices or edges is reversed: weft's rows have no order")
    return to.emit("flip", [x], x.rows, x.shape, x.axis, dims=sorted(columns))


@lowers("pad")
def _pad_by(
    to: Lowering, self: Any, pad: list[int], mode: str = "constant", value: float | None = None
) -> Any:
    if mode != "constant":
        raise Unlowerable(f"columns are added by {mode}: write torch.cat")
    return _pad(to, self, pad, value or 0.0)


@lowers("constant_pad_nd")
def _pad(to: Lowering, self: Any, pad: list[int], value: float = 0.0) -> Any:
    x = to.value(self)
    for k in range(len(pad) // 2):
        before, after = pad[2 * k : 2 * k + 2]
        if before or after:
            d = to.column(x, x.dim - 1 - k, "rows are added to those of vertices or edges: add columns")
            sizes = [(*x.shape[:d], max(0, n), *x.shape[d + 1 :]) for n in (before, after)]
            first, last = (to.constant(torch.full(size, value)) for size in sizes)
            x = to.cat([first, to.slice(x, d, max(0, -before), x.shape[d] - max(0, -after)), last], d)
    return x


@lowers("repeat")
def _repeat(to: Lowering, self: Any, repeats: list[Any]) -> Any:
    if isinstance(self, Vertices):
        return replace(self, pairs=True)
    x = to.value(self)
    rows, shape, axis = to.layout()
    if x.rows is None and rows is not None:
        x = to.filled(to.reshape(x, (1,) * (len(repeats) - x.dim) + x.shape), [Value(0, rows, shape, axis)])
        return to.expand(x, shape)
    times = [r for d, r in enumerate(repeats) if rows is None or d != axis]
    x = to.reshape(x, (1,) * (len(times) - len(x.shape)) + x.shape, axis)
    for d, n in enumerate(times):
        x = to.cat([x] * n, d)
    return x
