"""ATen's operations in those of a program: a function each, of operands by the names of ATen's schema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ._lowering import Lowering, bounds, lowers
from ._operations import (
    WITH_LOOPS,
    WITHOUT_LOOPS,
    Chosen,
    Edges,
    Ends,
    Fill,
    Loops,
    Number,
    Rows,
    Unlowerable,
    Value,
    Vertices,
    base_of,
    in_words,
)


@lowers("add", "sub", "rsub")
def _sum(to: Lowering, self: Any, other: Any, alpha: Any = 1) -> Any:
    name = to.name
    other = other if alpha == 1 else to.elementwise("mul", other, alpha)
    return to.elementwise("sub", other, self) if name == "rsub" else to.elementwise(name, self, other)


@lowers("mul", "multiply", "eq", "pow", "true_divide")
def _binary(to: Lowering, self: Any, other: Any = None, exponent: Any = None) -> Any:
    name = to.name
    return to.elementwise(
        {"multiply": "mul", "true_divide": "div"}.get(name, name), self, exponent if other is None else other
    )


@lowers("div", "divide", "floor_divide")
def _div(to: Lowering, self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "trunc":
        raise Unlowerable("a quotient is truncated: write torch.floor")
    result = to.elementwise("div", self, other)
    floor = rounding_mode == "floor" or "floor" in to.name
    return to.elementwise("floor", result) if floor else result


@lowers("square")
def _square(to: Lowering, self: Any) -> Any:
    return to.elementwise("square", self)


@lowers("where")
def _where(to: Lowering, condition: Any, self: Any, other: Any) -> Any:
    return to.elementwise("where", condition, self, other)


@lowers("masked_fill")
def _masked_fill(to: Lowering, self: Any, mask: Any, value: Any) -> Any:
    return to.elementwise("where", mask, value, self)


@lowers("clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "relu6")
def _clamp(
    to: Lowering, self: Any, min: Any = None, max: Any = None, min_val: Any = None, max_val: Any = None
) -> Any:
    low, high = (min_val if min is None else min), (max_val if max is None else max)
    if to.name == "relu6":
        low, high = 0, 6
    for name, limit in (("maximum", low), ("minimum", high)):
        if isinstance(limit, (Value, Fill, Number, Tensor)):
            self = to.elementwise(name, self, limit)
    limits = {k: float(v) for k, v in (("min", low), ("max", high)) if isinstance(v, (int, float))}
    return to.elementwise("clamp", self, **limits) if limits else self


@lowers("leaky_relu")
def _leaky_relu(to: Lowering, self: Any, negative_slope: float) -> Any:
    return to.elementwise("leaky_relu", self, slope=negative_slope)


@lowers("elu", "celu")
def _elu(to: Lowering, self: Any, alpha: float, scale: float = 1, input_scale: float = 1) -> Any:
    if (scale, input_scale) != (1, 1):
        if abs(scale - 1.0507009873554805) > 1e-6 or input_scale != 1:
            return to.expanded(to.node)
        return to.elementwise("selu", self)
    return to.elementwise("elu" if "celu" not in to.name else "celu", self, alpha=float(alpha))


@lowers("gelu")
def _gelu(to: Lowering, self: Any, approximate: str) -> Any:
    return to.elementwise("gelu", self, approximate=approximate)


@lowers("softplus")
def _softplus(to: Lowering, self: Any, beta: float, threshold: float) -> Any:
    return to.elementwise("softplus", self, beta=float(beta), threshold=float(threshold))


@lowers("prelu", "_prelu_kernel")
def _prelu(to: Lowering, self: Any, weight: Any) -> Any:
    x, weight = to.value(self), to.value(weight)
    if weight.shape != () and x.dim > 2 and weight.shape != (1,):
        weight = to.reshape(weight, (*weight.shape, *(1,) * (x.dim - 2)))
    return to.pointwise("where", to.pointwise("gt", x, to.constant(0)), x, to.pointwise("mul", weight, x))


@lowers("mish")
def _mish(to: Lowering, self: Any) -> Any:
    return to.elementwise("mul", self, to.elementwise("tanh", to.elementwise("softplus", self)))


@lowers("isinf", "isnan", "isfinite")
def _is(to: Lowering, self: Any) -> Any:
    name, size = to.name, to.elementwise("abs", self)
    if name == "isinf":
        return to.elementwise("eq", size, math.inf)
    return to.elementwise("ne", self, self) if name == "isnan" else to.elementwise("lt", size, math.inf)


@lowers("log2", "log10")
def _log(to: Lowering, self: Any) -> Any:
    return to.elementwise("mul", to.elementwise("log", self), 1 / math.log(2 if "log2" in to.name else 10))


@lowers("detach", "alias", "clone", "contiguous", "to", "_to_copy", "type_as", "lift_fresh_copy")
def _same(to: Lowering, self: Any, **more: Any) -> Any:
    name, of = to.name, to.node.args[0].meta["val"].dtype
    if name == "detach" and isinstance(self, Value):
        return to.emit("detach", [self], self.rows, self.shape, self.axis)
    if isinstance(self, Value) and of.is_floating_point:
        kind = to.node.meta["val"].dtype
        if kind == torch.bool:
            return to.elementwise("ne", self, 0)
        if not kind.is_floating_point:  # towards zero
            return to.elementwise(
                "mul", to.elementwise("sign", self), to.elementwise("floor", to.elementwise("abs", self))
            )
    return self


@lowers("copy")
def _copy(to: Lowering, self: Any, src: Any, **_: Any) -> Any:
    rows, shape, axis = to.layout()
    if isinstance(src, Fill):
        return Fill(src.number, rows, shape, axis)
    x = to.filled(to.value(src), [Value(0, rows, shape, axis)])
    return to.expand(to.reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape, axis), shape)


@lowers("dropout", "native_dropout")
def _dropout(to: Lowering, input: Any, p: float, train: bool) -> Any:
    x, path = to.value(input), to.where["path"]
    if train and p:
        if x.rows is None or isinstance(x.rows, tuple):
            raise Unlowerable(
                "dropout of parameters, or of rows that a mask chose: apply it to rows of vertices or of edges"
            )
        to.dropouts[path] = to.dropouts.get(path, 0) + 1
        name = path if to.dropouts[path] == 1 else f"{path}#{to.dropouts[path]}"
        x = to.emit("dropout", [x], x.rows, x.shape, x.axis, p=float(p), path=name)
    return [x, None] if isinstance(to.node.meta["val"], (list, tuple)) else x


# -- sizes and constants


@lowers("zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like",
         "full_like", "empty_like", "empty_permuted", "scalar_tensor", "fill", "zero")  # fmt: skip
def _filled(
    to: Lowering, self: Any = None, fill_value: Any = None, value: Any = None, s: Any = None, **_: Any
) -> Any:
    name = to.name
    number = next((v for v in (fill_value, value, s) if v is not None), 1 if "ones" in name else 0)
    rows, shape, axis = to.layout()
    if isinstance(number, (Value, Number)):
        like = Value(0, rows, shape, axis)
        return to.expand(
            to.filled(to.reshape(to.value(number), (1,) * (len(shape) + (rows is not None))), [like]), shape
        )
    if rows is None:
        return torch.full(shape, number, dtype=to.node.meta["val"].dtype)
    return Fill(float(number), rows, shape, axis)


@lowers("arange")
def _arange(to: Lowering, end: Any, start: Any = 0, step: Any = 1, **_: Any) -> Any:
    if (
        start == 0
        and step == 1
        and isinstance(end, Number)
        and to.counted(end) == "vertices"
        and len(end.expression.args) == 0
    ):
        return Vertices()
    raise Unlowerable("a range that is not of all vertices: give num_nodes=x.size(0)")


@lowers("sym_size", "sym_numel", "sym_stride")
def _sym_size(to: Lowering, **_: Any) -> Any:
    return to.node.meta["val"]


# -- parts of tensors


@lowers("select")
def _select(to: Lowering, self: Any, dim: int, index: int) -> Any:
    if isinstance(self, Edges):
        if dim % 2 or not isinstance(index, int):
            raise Unlowerable("one edge is taken from edge_index")
        return Ends(self.rows, ("source", "target")[(index % 2) != self.reverse])
    if isinstance(self, Vertices):
        return Vertices()
    if isinstance(self, Fill):
        return Fill(self.number, *to.layout())
    x = to.value(self)
    dim %= x.dim
    if x.rows is not None and dim == x.axis:
        raise Unlowerable("one vertex or edge is taken by its position: weft's vertices have no order")
    at = dim - (x.rows is not None and dim > x.axis)
    index %= x.shape[at]
    part = to.slice(x, at, index, index + 1)
    return to.reshape(
        part, part.shape[:at] + part.shape[at + 1 :], x.axis - (x.rows is not None and dim < x.axis)
    )


@lowers("slice")
def _slice(to: Lowering, self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if to.whole(to.node) and step == 1:
        return self
    if isinstance(self, Fill):
        return Fill(self.number, *to.layout())
    if isinstance(self, (Edges, Ends, Vertices)):
        raise Unlowerable("some of the edges are taken by their position: weft's edges have no order")
    x = to.value(self)
    dim %= x.dim
    if x.rows is not None and dim == x.axis:
        raise Unlowerable(
            "some of the vertices or edges are taken by their position: weft's rows have no order"
        )
    at = dim - (x.rows is not None and dim > x.axis)
    return to.slice(x, at, *bounds([start, end], x.shape[at]), step)


@lowers("split", "split_with_sizes", "chunk", "unbind", "unsafe_split", "unsafe_chunk", "tensor_split")
def _split(to: Lowering, self: Any, dim: int = 0, **_: Any) -> Any:
    name = to.name
    if isinstance(self, (Edges, Vertices)) and name == "unbind":
        return (
            [_select(to, self, 0, k) for k in (0, 1)] if isinstance(self, Edges) else [Vertices(), Vertices()]
        )
    x, at = to.value(self), 0
    dim %= x.dim
    if x.rows is not None and dim == x.axis:
        raise Unlowerable("vertices or edges are split by their position: weft's rows have no order")
    at = dim - (x.rows is not None and dim > x.axis)
    parts, start = [], 0
    for tensor in to.node.meta["val"]:
        size = 1 if name == "unbind" else int(tensor.shape[dim])
        part = to.slice(x, at, start, start + size)
        if name == "unbind":
            part = to.reshape(
                part, part.shape[:at] + part.shape[at + 1 :], x.axis - (x.rows is not None and dim < x.axis)
            )
        parts.append(part)
        start += size
    return parts


@lowers("cat", "concat", "stack")
def _cat(to: Lowering, tensors: list[Any], dim: int = 0) -> Any:
    stack = to.name.endswith("stack")
    if any(isinstance(t, (Edges, Ends, Vertices)) for t in tensors):
        return _joined(to, tensors, dim % 2, stack)
    rows, shape, axis = to.layout()
    dim %= len(shape) + (rows is not None)
    if rows is not None and dim == axis and not stack:
        return _with_loops(to, tensors, rows)
    if all(isinstance(t, Fill) and t.number == tensors[0].number for t in tensors):
        return Fill(tensors[0].number, rows, shape, axis)
    parts = [to.value(t) for t in tensors if not (isinstance(t, Tensor) and t.shape == (0,))]
    at = dim - (rows is not None and dim > axis)
    like = next((p for p in parts if p.rows is not None), parts[0])
    parts = [to.filled(p, [like]) for p in parts]
    if stack:
        parts = [to.reshape(p, (*p.shape[:at], 1, *p.shape[at:]), axis) for p in parts]
    return to.cat(parts, at)


def _joined(to: Lowering, parts: list[Any], dim: int, stack: bool) -> Any:
    """edge_index of other edges: with loops, or from its two rows."""
    if all(isinstance(p, Ends) for p in parts) and len(parts) == 2 and dim == 0:
        a, b = parts
        if a.rows == b.rows and a.end != b.end:
            return Edges(a.rows, reverse=a.end == "target")
    if all(isinstance(p, Vertices) for p in parts) and dim == 0:
        return Vertices(pairs=True)
    if (
        len(parts) == 2
        and isinstance(parts[0], (Edges, Ends))
        and isinstance(parts[1], Vertices)
        and not stack
    ):
        if parts[0].rows not in WITH_LOOPS:
            raise Unlowerable("self loops are added to edges that have them: add them once")
        return replace(parts[0], rows=to.counted(to.node.meta["val"].shape[-1]))
    if any(isinstance(p, (Edges, Ends)) for p in parts[1:]):
        raise Unlowerable(
            "edges are joined with others, as of both directions: make the graph undirected before, by to_undirected, or call the layer twice"
        )
    raise Unlowerable(
        "edge_index is joined with other numbers: weft adds self loops only, add_self_loops(edge_index, num_nodes=x.size(0))"
    )


def _with_loops(to: Lowering, tensors: list[Any], rows: Rows) -> Any:
    """Values of edges, and of the self loops that follow them."""
    if len(tensors) != 2 or rows not in ("one", "added"):
        raise Unlowerable(
            "rows of vertices or edges are joined one after another: concatenate columns (dim=-1)"
        )
    edges, loops = tensors
    if isinstance(edges, Fill) and isinstance(loops, Fill) and edges.number == loops.number:
        return Fill(edges.number, *to.layout())
    edges, loops = to.value(edges), to.value(loops)
    if edges.axis:
        raise Unlowerable(
            "values of self loops are joined to those of edges in another dimension than the first"
        )
    return to.emit("with_loops", [edges, loops], rows, edges.shape)


@lowers("flip")
def _flip(to: Lowering, self: Any, dims: list[int]) -> Any:
    if isinstance(self, Edges) and [d % 2 for d in dims] == [0]:
        return replace(self, reverse=not self.reverse)
    x = to.value(self)
    rows, columns = to.dims(x, dims)
    if rows:
        raise Unlowerable("the order of vertices or edges is reversed: weft's rows have no order")
    return to.emit("flip", [x], x.rows, x.shape, x.axis, dims=sorted(columns))


@lowers("repeat")
def _repeat(to: Lowering, self: Any, repeats: list[Any]) -> Any:
    if isinstance(self, Vertices):
        return Vertices(pairs=True)
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


# -- along edges


@lowers("index_select")
def _index_select(to: Lowering, self: Any, dim: int, index: Any) -> Any:
    return _index(to, self, [None] * (dim % len(to.node.args[0].meta["val"].shape)) + [index])


@lowers("index")
def _index(to: Lowering, self: Any, indices: list[Any]) -> Any:
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(given) != 1:
        raise Unlowerable("several indices at once: take the columns one after another")
    (dim, index), = given  # fmt: skip
    if isinstance(self, (Edges, Ends)):
        return _edges_of(to, self, dim, index)
    if isinstance(index, (Chosen, Loops)) or (isinstance(index, Value) and to.is_mask(index, indices)):
        return _chosen(to, self, index.mask if isinstance(index, Chosen) else index)
    if isinstance(self, Fill):
        return Fill(self.number, *to.layout())
    x = to.value(self)
    if isinstance(index, Fill) and x.rows is None and dim == 0:  # one group of all vertices
        row = to.slice(x, 0, int(index.number), int(index.number) + 1)
        return to.filled(to.reshape(row, row.shape[1:]), [Value(0, *to.layout())])
    if isinstance(index, (Ends, Vertices)):
        if x.rows is None or dim != x.axis:
            raise Unlowerable(
                "a table with a row for each vertex is read by their numbers: concatenate it to x beforehand"
            )
        return x if isinstance(index, Vertices) else to.gather(x, index)
    if isinstance(index, Tensor):
        at = dim - (x.rows is not None and dim > x.axis)
        if index.dtype == torch.bool:
            index = index.nonzero().flatten()
        if (x.rows is not None and dim == x.axis) or index.dim() != 1:
            raise Unlowerable(
                "some of the vertices or edges are taken by their position: weft's rows have no order"
            )
        return to.cat([to.slice(x, at, int(k) % x.shape[at], int(k) % x.shape[at] + 1) for k in index], at)
    return _lookup(to, x, dim, to.value(index))


def _edges_of(to: Lowering, self: Any, dim: int, index: Any) -> Any:
    if (
        isinstance(self, Edges)
        and dim == 0
        and isinstance(index, Tensor)
        and index.tolist() in ([1, 0], [0, 1])
    ):
        return replace(self, reverse=self.reverse != (index.tolist() == [1, 0]))
    if isinstance(index, Chosen):
        index = index.mask
    if isinstance(index, Loops):
        if index.rows != self.rows:
            raise Unlowerable("a mask of other edges")
        rows = WITHOUT_LOOPS[self.rows] if index.inverse else ("loops", self.rows)
    elif isinstance(index, Value) and index.rows == self.rows:
        rows = (self.rows, index.op)
    else:
        raise Unlowerable(
            "some of the edges are taken by their position: choose edges by a mask of their values"
        )
    return replace(self, rows=to.count(to.node.meta["val"].shape[-1], rows))


def _chosen(to: Lowering, self: Any, mask: Any) -> Any:
    """Rows that a mask chooses."""
    x, size = self, next(n for n in to.node.meta["val"].shape if not isinstance(n, int))
    if isinstance(mask, Loops):
        whole = mask.rows in ("one", "added") and not mask.inverse
        rows = to.count(
            size,
            "vertices"
            if mask.rows == "one" and whole
            else WITHOUT_LOOPS[mask.rows]
            if mask.inverse
            else ("loops", mask.rows),
        )
    else:
        rows = to.count(size, (mask.rows, mask.op))
    if isinstance(x, Fill):
        return Fill(x.number, rows, x.shape, x.axis)
    x = to.value(x)
    if x.rows != mask.rows or x.axis:
        raise Unlowerable(f"a mask of {in_words(mask.rows)} chooses among {in_words(x.rows)}")
    of = to.of(x)
    if isinstance(mask, Value):
        return replace(x, rows=rows)
    if not mask.inverse and mask.rows == "one":  # each vertex has one loop
        if of["op"] == "gather":
            return to.inputs(x)[0]
        return to.scatter(
            to.pointwise("mul", to.reshape(to.value(mask), (1,) * len(x.shape)), x), "target", "sum"
        )
    if not mask.inverse or mask.rows == "removed":
        return replace(x, rows=rows)  # only loop_values reads stored loops
    if mask.rows != "stored" and of["op"] == "with_loops":
        x = to.inputs(x)[0]
    elif mask.rows != "stored":
        raise Unlowerable(
            "self loops are removed from values of edges that had them added: remove them first"
        )
    return x if mask.rows == "one" else to.emit("without_loops", [x], "removed", x.shape)


def _lookup(to: Lowering, table: Value, dim: int, index: Value) -> Value:
    """Rows of a small table by numbers that features hold: a product with 0 and 1."""
    if table.rows is not None or dim != 0:
        raise Unlowerable("rows are read by numbers that are computed: only edge_index says which rows meet")
    count, rest = table.shape[0], table.shape[1:]
    if count > 4096:
        raise Unlowerable(
            f"an embedding of {count:,} rows: weft has those of at most 4096; give the embedding's rows as features"
        )
    ids = to.reshape(index, (*index.shape, 1))
    which = to.pointwise("eq", ids, to.constant(torch.arange(count)))
    flat = to.reshape(table, (count, math.prod(rest)))
    out = to.emit("matmul", [which, flat], index.rows, (*index.shape, math.prod(rest)), index.axis)
    return to.reshape(out, (*index.shape, *rest))


@lowers("embedding")
def _embedding(to: Lowering, weight: Any, indices: Any, **_: Any) -> Any:
    if isinstance(indices, (Ends, Vertices)):
        raise Unlowerable("an embedding has a row for each vertex: give these as features, x")
    return _lookup(to, to.value(weight), 0, to.value(indices))


@lowers("gather")
def _gather(to: Lowering, self: Any, dim: int, index: Any, **_: Any) -> Any:
    if isinstance(index, Ends):
        return _index_select(to, self, dim, index)
    x, ids = to.value(self), to.value(index)
    at = dim % x.dim - (x.rows is not None and dim % x.dim > x.axis)
    if (x.rows is not None and dim % x.dim == x.axis) or at != len(x.shape) - 1 or ids.shape[at] != 1:
        raise Unlowerable(
            "values are picked by numbers that are computed: write a comparison and torch.where"
        )
    which = to.pointwise("eq", ids, to.constant(torch.arange(x.shape[at])))
    return to.reduce("sum", to.pointwise("mul", which, x), [at], True)


@lowers("one_hot")
def _one_hot(to: Lowering, self: Any, num_classes: int) -> Any:
    if num_classes < 0:
        raise Unlowerable("one_hot without num_classes depends on the values: give num_classes")
    ids = to.value(self)
    return to.pointwise("eq", to.reshape(ids, (*ids.shape, 1)), to.constant(torch.arange(num_classes)))


@lowers("nonzero", "nonzero_numpy")
def _nonzero(to: Lowering, self: Any) -> Any:
    if isinstance(self, Value) and self.rows is not None and self.shape == ():
        to.count(next(n for n in _sizes(to.node.meta["val"]) if not isinstance(n, int)), (self.rows, self.op))
        chosen = Chosen(self)
    elif isinstance(self, Loops):
        chosen = Chosen(self)
    else:
        raise Unlowerable("positions depend on the values: write a comparison and torch.where")
    return [chosen] if isinstance(to.node.meta["val"], (list, tuple)) else chosen


@lowers("scatter_add", "index_add", "scatter_reduce", "index_reduce", "scatter")
def _scatter(to: Lowering, self: Any, dim: int, index: Any, src: Any = None, source: Any = None, reduce: str = "sum",
             include_self: bool = True, alpha: Any = 1, value: Any = None) -> Any:  # fmt: skip
    src = next((v for v in (src, source, value) if v is not None), None)
    name = to.name
    if name == "scatter" and not isinstance(index, Ends) and reduce == "sum":
        return _put_columns(to, self, dim, index, src)
    if not isinstance(index, Ends):
        sizes = to.layout()[1]
        if (
            isinstance(index, Fill)
            and index.rows == "vertices"
            and dim == 0
            and sizes[0] == 1
            and reduce in ("sum", "mean", "amax", "amin")
        ):
            x = to.value(src)  # one group of all vertices
            name = {"amax": "max", "amin": "min"}.get(reduce, reduce)
            out = to.reshape(to.emit("row_" + name, [x], None, x.shape), sizes)
            return to.elementwise("add", out, self) if reduce == "sum" else out
        if isinstance(index, Vertices):
            raise Unlowerable("vertices are added to by their numbers: add the rows")
        raise Unlowerable(
            "rows are added up by numbers that are computed, as in a pooling of vertices: only the ends of edges say which vertices meet"
        )
    if alpha != 1:
        src = to.elementwise("mul", src, alpha)
    src = to.value(src)
    reduce = {"amax": "max", "amin": "min", "prod": "mul", "add": "sum", "multiply": "mul"}.get(
        reduce, reduce
    )
    if src.rows != index.rows or to.layout()[0] != "vertices":
        raise Unlowerable(
            f"rows of {in_words(src.rows)} are aggregated to {in_words(to.layout()[0])}: edges aggregate to vertices"
        )
    if name == "scatter":
        raise Unlowerable("rows are written over each other: aggregate them by scatter_add or scatter_reduce")
    out = to.scatter(src, index.end, reduce)
    start = to.number(self)
    empty = 1.0 if reduce == "mul" else 0.0
    if reduce in ("sum", "mul") and (include_self or start != empty):
        if not include_self:
            raise Unlowerable(f"{name} with include_self=False: start from {empty:g}")
        return to.elementwise({"sum": "add", "mul": "mul"}[reduce], out, self)
    if start != empty:  # vertices without edges keep what they had
        count = to.scatter(to.reshape(to.ones(index.rows), (1,) * len(src.shape)), index.end, "sum")
        some = to.pointwise("gt", replace(count, axis=out.axis), to.constant(0))
        out = to.elementwise("where", some, out, self)
    if include_self and reduce == "mean":
        raise Unlowerable("scatter_reduce by mean with include_self=True: give include_self=False")
    return to.elementwise({"max": "maximum", "min": "minimum"}[reduce], out, self) if include_self else out


def _put_columns(to: Lowering, self: Any, dim: int, index: Any, number: Any) -> Any:
    """A number at a column that each row names, as one_hot writes it."""
    ids, x = to.value(index), self
    if dim % x.dim == x.axis or ids.shape != (1,) or isinstance(number, (Value, Fill)):
        raise Unlowerable(
            "values are written at positions that are computed: write a comparison and torch.where"
        )
    which = to.pointwise("eq", ids, to.constant(torch.arange(x.shape[-1])))
    return to.elementwise("where", which, number, x)


@lowers("index_put", "_unsafe_index_put", "index_copy", "_index_put_impl")
def _index_put(to: Lowering, self: Any, indices: Any = None, values: Any = None, accumulate: bool = False,
               dim: int = 0, index: Any = None, source: Any = None, **_: Any) -> Any:  # fmt: skip
    indices = [index] if indices is None else [i for i in indices if i is not None]
    values, at = source if values is None else values, indices[0]
    if len(indices) > 1:
        raise Unlowerable("several indices at once are written: write torch.where")
    if isinstance(at, Ends) and accumulate:
        return to.elementwise("add", to.scatter(to.value(values), at.end, "sum"), self)
    if isinstance(at, Ends) and at.rows == ("loops", "stored"):  # PyG's add_remaining_self_loops
        if isinstance(values, Fill) and isinstance(self, Fill) and values.number == self.number:
            return self
        old, new = to.value(self), to.value(values)
        return to.emit("loop_values", [replace(new, rows="stored"), old], "vertices", old.shape)
    mask = at.mask if isinstance(at, Chosen) else at
    if isinstance(mask, Loops) and mask.rows == "one" and not mask.inverse:
        x, new = to.value(self), to.value(values)
        new = to.gather(new, Ends("one", "target")) if new.rows == "vertices" else new
        return to.pointwise(
            "where",
            to.reshape(to.value(mask), (1,) * len(x.shape)),
            to.pointwise("add", x, new) if accumulate else new,
            x,
        )
    if isinstance(mask, Value) and mask.rows is not None:
        x, new = to.value(self), to.value(values)
        mask = to.reshape(mask, mask.shape + (1,) * (len(x.shape) - len(mask.shape)))
        if new.rows is not None:
            new = replace(new, rows=base_of(new.rows))
        return to.pointwise("where", mask, to.pointwise("add", x, new) if accumulate else new, x)
    raise Unlowerable(
        "rows are written by numbers that are computed: aggregate by scatter_add, or choose by torch.where"
    )


# -- sums over columns and rows


@lowers("sum", "mean")
def _over(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    return to.over(to.value(self), dim, keepdim, to.name)


@lowers("amax", "amin", "max", "min", "logsumexp", "any", "all")
def _most(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
    name = {"amax": "max", "amin": "min", "any": "max", "all": "min"}.get(given := to.name, given)
    if other is not None:
        return to.elementwise({"max": "maximum", "min": "minimum"}[given], self, other)
    if isinstance(self, Ends) and given == "max":
        return self
    x = to.value(self)
    rows, columns = to.dims(x, dim)
    if rows and name == "logsumexp":
        raise Unlowerable("logsumexp over all vertices or edges: take sums or means over them")
    if rows:
        out = to.emit(
            "row_" + name,
            [to.reduce(name, x, columns, True)],
            None,
            [1 if d in columns else n for d, n in enumerate(x.shape)],
        )
        return to.reshape(out, to.layout()[1])
    out = to.reduce(name, x, columns, keepdim)
    return [out, None] if isinstance(to.node.meta["val"], (list, tuple)) else out


@lowers("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax")
def _softmax(to: Lowering, self: Any, dim: int, **_: Any) -> Any:
    x = to.value(self)
    rows, columns = to.dims(x, dim)
    if rows:
        raise Unlowerable(
            "softmax over all vertices or edges at once: softmax over the edges of a vertex is torch_geometric.utils.softmax(src, index)"
        )
    name = "log_softmax" if "log" in to.name else "softmax"
    return to.emit(name, [x], x.rows, x.shape, x.axis, dim=columns[0])


@lowers("var", "std", "var_mean")
def _variance(
    to: Lowering,
    self: Any,
    dim: Any = None,
    correction: Any = None,
    keepdim: bool = False,
    unbiased: bool = True,
) -> Any:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    x, name = to.value(self), to.name
    node = to.node
    if name == "var_mean":
        return to.expanded(node)
    out = to.variance(x, dim, keepdim, float(unbiased) if correction is None else float(correction))
    return to.root(out) if name == "std" else out


@lowers("norm", "linalg_vector_norm")
def _norm(
    to: Lowering, self: Any, p: Any = 2, ord: Any = None, dim: Any = None, keepdim: bool = False, **_: Any
) -> Any:
    x, p = to.value(self), 2 if p is None and ord is None else float(p if ord is None else ord)
    if p == 2:
        return to.root(to.over(to.pointwise("square", x), dim, keepdim, "sum"))
    size = to.pointwise("abs", x)
    if p == 1:
        return to.over(size, dim, keepdim, "sum")
    if math.isinf(p):
        return to.reduce("max" if p > 0 else "min", size, to.dims(x, dim)[1], keepdim)
    return to.pointwise(
        "pow", to.over(to.pointwise("pow", size, to.constant(p)), dim, keepdim, "sum"), to.constant(1 / p)
    )


@lowers("prod")
def _prod(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    x = to.value(self)
    rows, columns = to.dims(x, dim)
    if rows or len(columns) != 1:
        raise Unlowerable("a product over all vertices or edges")
    at = columns[0]
    parts = [to.slice(x, at, k, k + 1) for k in range(x.shape[at])]
    out = parts[0]
    for p in parts[1:]:
        out = to.pointwise("mul", out, p)
    return out if keepdim else to.reshape(out, to.layout()[1], to.layout()[2])


# -- products


@lowers("linear")
def _linear(to: Lowering, input: Any, weight: Any, bias: Any = None) -> Any:
    x, w = to.value(input), to.value(weight)
    if w.rows is not None or (x.rows is not None and x.axis == x.dim - 1):
        return to.expanded(to.node)
    b = [] if bias is None else [to.value(bias)]
    return to.emit("linear", [x, w, *b], x.rows, (*x.shape[:-1], w.shape[0]), x.axis)


@lowers("mm", "bmm", "matmul", "mv", "dot")
def _matmul(
    to: Lowering, self: Any, mat2: Any = None, other: Any = None, vec: Any = None, tensor: Any = None
) -> Any:
    return _product(
        to, to.value(self), to.value(next(v for v in (mat2, other, vec, tensor) if v is not None))
    )


@lowers("addmm", "baddbmm", "addmv")
def _addmm(to: Lowering, self: Any, mat1: Any = None, mat2: Any = None, batch1: Any = None, batch2: Any = None, mat: Any = None,
           vec: Any = None, beta: Any = 1, alpha: Any = 1) -> Any:  # fmt: skip
    x = next(v for v in (mat1, batch1, mat) if v is not None)
    y = next(v for v in (mat2, batch2, vec) if v is not None)
    out, b = _product(to, to.value(x), to.value(y)), to.value(self)
    if to.of(out)["op"] == "linear" and (alpha, beta, b.rows, b.shape) == (1, 1, None, out.shape[-1:]):
        return to.emit("linear", [*to.inputs(out), b], out.rows, out.shape, out.axis)
    out = out if alpha == 1 else to.pointwise("mul", out, to.constant(alpha))
    return out if beta == 0 else to.pointwise("add", out, to.pointwise("mul", b, to.constant(beta)))


def _product(to: Lowering, x: Value, y: Value) -> Value:
    """x @ y, wherever the rows' dimension stands: among the leading ones, or one of the product's own."""
    one, two = x.dim == 1, y.dim == 1
    x = _unsqueezed(to, x, 0) if one else x
    y = _unsqueezed(to, y, 1) if two else y
    out = _matrices(to, x, y)
    out = _squeezed(to, out, out.dim - 1) if two else out
    return _squeezed(to, out, out.dim - (1 if two else 2)) if one else out


def _matrices(to: Lowering, x: Value, y: Value) -> Value:
    at_x, at_y = (
        v.dim - v.axis if v.rows is not None else 0 for v in (x, y)
    )  # from the right: 1 is the last dimension
    if at_x == 2 and not at_y:  # (…, V, k) @ (…, k, m)
        if len(y.shape) == 2:
            return _by_weight(to, x, y)
        row = to.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
        out = _rowwise(to, row, y, x.rows, 0)
        return to.reshape(out, (*out.shape[:-2], out.shape[-1]), len(out.shape) - 2)
    if at_y == 1 and not at_x:  # (…, a, k) @ (…, k, V): the transposed product
        other = _swapped(to, x)
        out = _matrices(to, _moved(to, y), other)
        return replace(out, axis=out.axis + 1)
    if at_x == 1 and at_y == 2:  # a sum over rows
        if x.rows != y.rows or x.rows != "vertices":
            raise Unlowerable("a product sums over edges")
        a = to.reshape(x, (*x.shape, 1))
        b = to.reshape(y, (*y.shape[:-1], 1, y.shape[-1]))
        pairs = to.pointwise("mul", replace(a, axis=0), replace(b, axis=0))
        return to.emit("row_sum", [pairs], None, pairs.shape)
    if at_x in (1, 2) or at_y in (1, 2):
        raise Unlowerable(
            "a product meets each pair of vertices, which takes memory and time of their square: attend over edges, by propagate"
        )
    if not at_x and at_y:  # parameters @ rows
        return _swapped(to, _matrices(to, _swapped(to, y), _swapped(to, x)))
    if at_x and not at_y and len(y.shape) >= at_x:
        d = len(y.shape) - at_x
        y = to.reshape(y, y.shape[:d] + y.shape[d + 1 :])
    elif at_x != at_y and at_y:
        raise Unlowerable(
            "each pair of vertices meets: a function of all pairs takes memory and time of their square"
        )
    return _rowwise(to, x, y, x.rows, at_x - 1 if at_x else 0)


def _rowwise(to: Lowering, x: Value, y: Value, rows: Rows, right: int) -> Value:
    if y.rows is None and len(y.shape) == 2:
        return replace(_by_weight(to, x, y), axis=len(x.shape) - right)
    shape = (*torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
    return to.emit("matmul", [x, y], rows, shape, len(shape) - right)


def _by_weight(to: Lowering, x: Value, w: Value) -> Value:
    """A product with one matrix: linear, if it is a transposed one."""
    of = to.of(w)
    if of["op"] == "permute" and of["dims"] == [1, 0]:
        return to.emit("linear", [x, to.inputs(w)[0]], x.rows, (*x.shape[:-1], w.shape[1]), x.axis)
    return to.emit("matmul", [x, w], x.rows, (*x.shape[:-1], w.shape[1]), x.axis)


def _swapped(to: Lowering, x: Value) -> Value:
    """The last two dimensions, neither of which is the rows', change places."""
    n = len(x.shape)
    return to.permute(x, [*range(n - 2), n - 1, n - 2])


def _moved(to: Lowering, x: Value) -> Value:
    """(…, k, V) as (…, V, k)."""
    return replace(x, axis=x.axis - 1)


def _unsqueezed(to: Lowering, x: Value, at: int) -> Value:
    if x.rows is None:
        return to.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))
    return to.reshape(x, (1,), axis=1 if at == 0 else 0)


def _squeezed(to: Lowering, x: Value, dim: int) -> Value:
    at = dim - (x.rows is not None and dim > x.axis)
    return to.reshape(x, x.shape[:at] + x.shape[at + 1 :], x.axis - (x.rows is not None and dim < x.axis))


@lowers("gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(to: Lowering, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """The equations of torch.nn.GRUCell, LSTMCell and RNNCell."""
    name, (h, *more) = (
        to.name,
        hx if isinstance(hx, (list, tuple)) else [hx],
    )

    def parts(x: Any, w: Any, b: Any) -> list[Value]:
        y, count = _linear(to, x, w, b), {"gru": 3, "lst": 4, "rnn": 1}[name[:3]]
        wide = y.shape[-1] // count
        return [to.slice(y, len(y.shape) - 1, k * wide, (k + 1) * wide) for k in range(count)]

    def do(op: str, *values: Value) -> Value:
        return to.pointwise(op, *values)

    state = to.filled(to.value(h), [to.value(input)])
    a, b = parts(input, w_ih, b_ih), parts(state, w_hh, b_hh)
    if name == "gru_cell":
        reset, update = (do("sigmoid", do("add", a[k], b[k])) for k in (0, 1))
        new = do("tanh", do("add", a[2], do("mul", reset, b[2])))
        return do("add", new, do("mul", update, do("sub", state, new)))
    gates = [do("add", *g) for g in zip(a, b)]
    if name != "lstm_cell":
        return do(name.split("_")[1], gates[0])
    i, f, o = (do("sigmoid", gates[k]) for k in (0, 1, 3))
    cell = do("add", do("mul", f, to.filled(to.value(more[0]), [state])), do("mul", i, do("tanh", gates[2])))
    return [do("mul", o, do("tanh", cell)), cell]


# -- norms


@lowers(
    "batch_norm",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit",
    "native_batch_norm",
    "cudnn_batch_norm",
)
def _batch_norm(to: Lowering, input: Any, weight: Any, bias: Any, running_mean: Any = None, running_var: Any = None,
                training: bool = True, momentum: float | None = 0.1, eps: float = 1e-5, **_: Any) -> Any:  # fmt: skip
    x = to.value(input)
    names = [
        None if v is None else to.of(v).get("name", "") for v in (weight, bias, running_mean, running_var)
    ]
    stored = names[2] is not None
    live = training or (not to.training and names[2] not in to.frozen)
    if stored and live:
        if x.rows != "vertices" or x.axis or len(x.shape) != 1:
            raise Unlowerable(
                "batch norm of other rows than those of vertices: normalise after the aggregation, or by nn.LayerNorm"
            )
        counter = str(names[2]).removesuffix("running_mean") + "num_batches_tracked"
        given = dict(zip(("weight", "bias", "mean", "variance", "batches"), (*names, counter)))
        result = to.emit(
            "batch_norm",
            [x],
            "vertices",
            x.shape,
            eps=eps,
            momentum=momentum,
            **{k: v for k, v in given.items() if v},
        )
    else:
        to.frozen |= {str(names[2])} if stored else set()
        result = _normalised(to, x, 1, weight, bias, eps, running_mean if stored else None, running_var)
    return [result, None, None, None, None] if isinstance(to.node.meta["val"], (list, tuple)) else result


@lowers("instance_norm")
def _instance_norm(to: Lowering, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool,
                   momentum: float, eps: float, **_: Any) -> Any:  # fmt: skip
    if running_mean is not None:
        raise Unlowerable("instance norm with running statistics: give track_running_stats=False")
    return _normalised(to, to.value(input), 1, weight, bias, eps, None, None)


def _normalised(
    to: Lowering, x: Value, channel: int, weight: Any, bias: Any, eps: float, mean: Any, variance: Any
) -> Value:
    """By the mean and variance of each channel, or given ones."""
    shape = [1] * x.dim

    def spread(v: Any) -> Value:
        shape[channel] = v.shape[0]
        return to.reshape(v, shape)

    if mean is None:
        over = [d for d in range(x.dim) if d != channel and (d != 0 or x.dim == 2 or x.axis == 0)]
        rows, columns = to.dims(x, over)
        mean = to.kept(x, rows, columns, x)
        variance = to.kept(to.pointwise("square", to.pointwise("sub", x, mean)), rows, columns, x)
    else:
        mean, variance = spread(mean), spread(variance)
    out = to.pointwise("sub", x, mean)
    out = to.pointwise("mul", out, to.pointwise("rsqrt", to.pointwise("add", variance, to.constant(eps))))
    out = out if weight is None else to.pointwise("mul", out, spread(weight))
    return out if bias is None else to.pointwise("add", out, spread(bias))


@lowers("group_norm")
def _group_norm(
    to: Lowering, input: Any, num_groups: int, weight: Any, bias: Any, eps: float, **_: Any
) -> Any:
    x = to.value(input)
    if x.rows is None or x.axis:
        raise Unlowerable("group norm over the vertices: use GraphNorm, or normalise the last dimensions")
    parts = to.reshape(x, (num_groups, x.shape[0] // num_groups * math.prod(x.shape[1:])))
    out = to.reshape(to.emit("layer_norm", [parts], x.rows, parts.shape, dims=[1], eps=eps), x.shape)
    for name, v in (("mul", weight), ("add", bias)):
        out = (
            out
            if v is None
            else to.pointwise(name, out, to.reshape(v, (*v.shape, *(1,) * (len(x.shape) - 1))))
        )
    return out


@lowers("layer_norm", "native_layer_norm")
def _layer_norm(
    to: Lowering,
    input: Any,
    normalized_shape: list[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    **_: Any,
) -> Any:
    x = to.value(input)
    last = len(normalized_shape)
    if x.rows is not None and x.axis >= x.dim - last:
        raise Unlowerable("layer norm over the vertices: use GraphNorm, or normalise the last dimensions")
    more = [to.value(v) for v in (weight, bias) if v is not None]
    if bias is not None and weight is None:
        raise Unlowerable("layer norm with a bias and no weight")
    dims = list(range(len(x.shape) - last, len(x.shape)))
    out = to.emit("layer_norm", [x, *more], x.rows, x.shape, x.axis, dims=dims, eps=eps)
    return [out, None, None] if isinstance(to.node.meta["val"], (list, tuple)) else out


def _sizes(meta: Any) -> Sequence[Any]:
    return (meta[0] if isinstance(meta, (list, tuple)) else meta).shape  # type: ignore[no-any-return]
