"""Reductions over columns, and over all vertices or edges: sums, means, extremes, norms, softmax and
losses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from .._lowering import Lowering, lowers, named
from .._values import Ends, Flat, Rows, Unlowerable, Value, base_of, in_words, kind_of

REDUCTIONS = named("amax:max amin:min any:max all:min prod:mul add:sum multiply:mul")


@lowers("sum", "mean")
def _over(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    return over(to, to.value(self), dim, keepdim, to.name)


@lowers("amax", "amin", "max", "min", "logsumexp", "any", "all")
def _most(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
    if other is not None:
        return to.elementwise(to.name + "imum", self, other)
    if isinstance(self, Ends) and to.name == "max":
        return self
    x, name = to.value(self), REDUCTIONS.get(to.name, to.name)
    if to.name in ("any", "all"):
        x = to.pointwise("ne", x, to.constant(0))
    rows, columns = to.dims(x, dim)
    if not rows:
        first = {"first": True} if to.name in ("max", "min") and dim is not None else {}
        return to.reduce(name, x, columns, keepdim, **first)
    if name == "logsumexp":
        raise Unlowerable("logsumexp over all vertices or edges: take sums or means over them")
    part = to.reduce(name, x, columns, True)
    return to.reshape(to.emit("row_" + name, [part], None, part.shape), to.layout()[1])


@lowers("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax")
def _softmax(to: Lowering, self: Any, dim: int, **_: Any) -> Any:
    x = to.value(self)
    at = to.column(
        x,
        dim,
        "softmax over all vertices or edges at once: softmax over the edges of a vertex is "
        "torch_geometric.utils.softmax(src, index)",
    )
    return to.emit("log_softmax" if "log" in to.name else "softmax", [x], x.rows, x.shape, x.axis, dim=at)


@lowers("var", "std", "var_mean", "std_mean")
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
    out = _variance_of(
        to, to.value(self), dim, keepdim, float(unbiased if correction is None else correction)
    )
    out = to.root(out) if to.name.startswith("std") else out
    return [out, over(to, to.value(self), dim, keepdim, "mean")] if to.name.endswith("mean") else out


@lowers("norm", "linalg_vector_norm")
def _norm(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, **order: Any) -> Any:
    x, p = to.value(self), float(next((v for v in order.values() if v is not None), 2))
    if p == 2:
        return to.root(over(to, to.pointwise("square", x), dim, keepdim, "sum"))
    if p == 0:
        return over(to, to.pointwise("ne", x, to.constant(0)), dim, keepdim, "sum")
    size = to.pointwise("abs", x)
    if math.isinf(p):
        most = to.reduce("max" if p > 0 else "min", size, to.dims(x, dim)[1], keepdim)
        known = to.pointwise("eq", most, most)  # NaN gives no gradient
        return to.pointwise("where", known, most, to.emit("detach", [most], most.rows, most.shape, most.axis))

    def power(size: Any) -> Any:
        return to.pointwise("pow", size, to.constant(p))

    total = over(to, power(size) if p > 1 else to.unless_0(size, power), dim, keepdim, "sum")
    return to.unless_0(total, lambda total: to.pointwise("pow", total, to.constant(1 / p)))


@lowers("prod")
def _prod(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    x = to.value(self)
    rows, columns = to.dims(x, dim)
    if rows or len(columns) != 1:
        raise Unlowerable("a product over all vertices or edges")
    (at,) = columns
    out, *rest = (to.slice(x, at, k, k + 1) for k in range(x.shape[at]))
    for part in rest:
        out = to.pointwise("mul", out, part)
    return out if keepdim else to.reshape(out, to.layout()[1], to.layout()[2])


@lowers("smooth_l1_loss", "huber_loss")
def _smooth(
    to: Lowering, self: Any, target: Any, reduction: int = 1, beta: float = 1.0, delta: float = 0.0
) -> Any:
    """½d² within a bound, and linear beyond. smooth_l1_loss divides it by the bound."""
    do, bound = to.elementwise, delta or beta
    d = do("sub", self, target)
    if not bound:
        raise Unlowerable("a bound of 0: write l1_loss")
    inside = do("lt", do("abs", d), bound)
    near = do("where", inside, d, 0.0)  # beyond, its square is too large
    made = do(
        "where",
        inside,
        do("mul", do("square", near), 0.5),
        do("mul", do("sub", do("abs", d), bound / 2), bound),
    )
    made = made if delta else do("div", made, bound)
    return over(to, to.value(made), None, False, {1: "mean", 2: "sum"}[reduction]) if reduction else made


def over(to: Lowering, x: Value, dims: Any, keep: bool, name: str) -> Value:
    """A reduction by sum or mean, over rows too."""
    rows, columns = to.dims(x, dims)
    if not rows:
        return to.reduce(name, x, columns, keep)
    if isinstance(x.rows, Flat):
        x, columns = Value(x.op, x.rows.rows, (x.rows.count, *x.shape)), [0, *(d + 1 for d in columns)]
    if isinstance(x.rows, tuple):
        if base_of(x.rows).kind == "vertices":
            return _over_some(to, x, columns, name)
        raise Unlowerable(f"a {name} over {in_words(x.rows)}: multiply by the mask, and sum")
    if x.rows.kind == "vertices":
        x = to.reduce(name, x, columns, True)
        x = to.emit("row_" + name, [x], None, x.shape)
    else:
        count = _count_of(to, x.rows)
        x = to.scatter(to.reduce(name, x, columns, True), "target", "sum")
        x = to.emit("row_sum", [x], None, x.shape)
        x = to.pointwise("div", x, count) if name == "mean" else x
    return to.reshape(x, to.layout()[1])


def _over_some(to: Lowering, x: Value, columns: list[int], name: str) -> Value:
    """A sum or mean over the vertices that a mask chose."""
    mask = replace(to.shapes[x.rows[1]], axis=0)
    x = replace(to.reduce(name, x, columns, True), rows=base_of(x.rows), axis=0)
    each = to.reshape(mask, (1,) * len(x.shape))
    total = to.pointwise("where", each, x, to.constant(0))
    out = to.emit("row_sum", [total], None, x.shape)
    if name == "mean":
        out = to.pointwise("div", out, to.emit("row_sum", [each], None, each.shape))
    return to.reshape(out, to.layout()[1])


def _count_of(to: Lowering, rows: Rows) -> Value:
    if isinstance(rows, Flat):
        return to.pointwise("mul", _count_of(to, rows.rows), to.constant(rows.count))
    return to.computed(next(e for e, r in to.rows.items() if r == rows))


def _variance_of(to: Lowering, x: Value, dims: Any, keep: bool, correction: float) -> Value:
    """The variance over columns, and over rows. correction is subtracted from the count."""
    rows, columns = to.dims(x, dims)
    centre = kept(to, x, rows, columns, x)
    centre = to.emit(
        "detach", [centre], centre.rows, centre.shape, centre.axis
    )  # deviations sum to 0, and so does its gradient
    squares = to.pointwise("square", to.pointwise("sub", x, centre))
    out = kept(to, squares, rows, columns, x)
    if correction:
        count: Value = to.constant(math.prod(x.shape[d] for d in columns))
        if rows:
            count = to.pointwise("mul", count, _count_of(to, x.rows))
        rest = to.pointwise("sub", count, to.constant(correction))
        out = to.pointwise("mul", out, to.pointwise("div", count, rest))
    return to.reshape(out, *to.layout()[1:])


def kept(to: Lowering, x: Value, rows: bool, columns: list[int], like: Value) -> Value:
    """The mean over columns, and over rows. Its dimensions stay, so that it broadcasts to x."""
    x = to.reduce("mean", x, columns, True)
    if not rows:
        return x
    if isinstance(x.rows, Flat):
        x = to.reduce("mean", Value(x.op, x.rows.rows, (x.rows.count, *x.shape)), [0], False)
    if kind_of(x.rows) != "vertices":
        raise Unlowerable("a variance over edges: aggregate to vertices first")
    out = to.emit("row_mean", [x], None, x.shape)
    return to.reshape(out, (*x.shape[: like.axis], 1, *x.shape[like.axis :]))
