"""Products of matrices, and of rows with weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from .._lowering import Lowering, lowers
from .._values import Rows, Unlowerable, Value, kind_of, of_pairs


@lowers("linear")
def _linear(to: Lowering, input: Any, weight: Any, bias: Any = None) -> Any:
    x, w = to.value(input), to.value(weight)
    if w.rows is not None or (x.rows is not None and x.axis == x.dim - 1):
        return to.expanded(to.node)
    b = [] if bias is None else [to.value(bias)]
    return to.emit("linear", [x, w, *b], x.rows, (*x.shape[:-1], w.shape[0]), x.axis)


@lowers("mm", "bmm", "matmul", "mv", "dot")
def _matmul(to: Lowering, **named: Any) -> Any:
    return _product(to, *map(to.value, named.values()))


@lowers("addmm", "baddbmm", "addmv")
def _addmm(to: Lowering, self: Any, beta: Any = 1, alpha: Any = 1, **factors: Any) -> Any:
    out, b = _product(to, *map(to.value, factors.values())), to.value(self)
    if to.operation_of(out)["op"] == "linear" and (alpha, beta, b.rows, b.shape) == (
        1,
        1,
        None,
        out.shape[-1:],
    ):
        return to.emit("linear", [*to.inputs(out), b], out.rows, out.shape, out.axis)
    out = out if alpha == 1 else to.pointwise("mul", out, to.constant(alpha))
    return out if beta == 0 else to.pointwise("add", out, to.pointwise("mul", b, to.constant(beta)))


def _product(to: Lowering, x: Value, y: Value) -> Value:
    """x @ y. The rows' dimension may be a leading one, or one of the product's own."""
    one, two = x.dim == 1, y.dim == 1
    out = _matrices(to, _matrix(to, x, 0) if one else x, _matrix(to, y, 1) if two else y)
    for at in [out.dim - 1] * two + [out.dim - 2] * one:
        out = to.dropped(out, at - (out.rows is not None and at > out.axis))
    return out


def _matrix(to: Lowering, x: Value, at: int) -> Value:
    """A vector with one more dimension."""
    return to.reshape(x, (1,) if x.rows is not None else (*x.shape[:at], 1, *x.shape[at:]), axis=1 - at)


def _matrices(to: Lowering, x: Value, y: Value) -> Value:
    # where the rows' dimension is, from the right: 1 is the last dimension, 0 is none
    at_x, at_y = (v.dim - v.axis if v.rows is not None else 0 for v in (x, y))
    if at_x == 2 and not at_y:  # (…, V, k) @ (…, k, m)
        if len(y.shape) == 2:
            return _by_weight(to, x, y)
        row = to.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
        out = _rowwise(to, row, y, x.rows, 0)
        return to.reshape(out, (*out.shape[:-2], out.shape[-1]), len(out.shape) - 2)
    if at_y == 1 and not at_x:  # (…, a, k) @ (…, k, V): the transposed product
        out = _matrices(to, replace(y, axis=y.axis - 1), _swapped(to, x))
        return replace(out, axis=out.axis + 1)
    if at_x == 1 and at_y == 2:  # a sum over rows
        if x.rows != y.rows or kind_of(x.rows) != "vertices":
            raise Unlowerable("a product sums over edges")
        a = to.reshape(x, (*x.shape, 1))
        b = to.reshape(y, (*y.shape[:-1], 1, y.shape[-1]))
        pairs = to.pointwise("mul", replace(a, axis=0), replace(b, axis=0))
        return to.emit("row_sum", [pairs], None, pairs.shape)
    if at_x in (1, 2) or at_y in (1, 2):
        raise Unlowerable(
            "a product meets each pair of vertices, which takes memory and time of their square: attend over "
            "edges, by propagate"
        )
    if not at_x and at_y:  # parameters @ rows
        return _swapped(to, _matrices(to, _swapped(to, y), _swapped(to, x)))
    if at_x and not at_y and len(y.shape) >= at_x:
        y = to.dropped(y, len(y.shape) - at_x)
    elif at_x != at_y and at_y:
        raise Unlowerable(of_pairs((x.rows, y.rows)))
    return _rowwise(to, x, y, x.rows, at_x - 1 if at_x else 0)


def _rowwise(to: Lowering, x: Value, y: Value, rows: Rows, right: int) -> Value:
    if y.rows is None and len(y.shape) == 2:
        return replace(_by_weight(to, x, y), axis=len(x.shape) - right)
    shape = (*torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
    return to.emit("matmul", [x, y], rows, shape, len(shape) - right)


def _by_weight(to: Lowering, x: Value, w: Value) -> Value:
    """A product with one matrix. It is the operation linear if the matrix is transposed."""
    transposed = to.operation_of(w)["op"] == "permute" and to.operation_of(w)["dims"] == [1, 0]
    op, w_of = ("linear", to.inputs(w)[0]) if transposed else ("matmul", w)
    return to.emit(op, [x, w_of], x.rows, (*x.shape[:-1], w.shape[1]), x.axis)


def _swapped(to: Lowering, x: Value) -> Value:
    """x with its last two dimensions swapped, neither of which is the rows'."""
    n = len(x.shape)
    return to.permute(x, [*range(n - 2), n - 1, n - 2])
