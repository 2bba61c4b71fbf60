"""Dropout, and operations that draw random numbers for each element of rows."""

from __future__ import annotations

import math
from typing import Any

from .._lowering import DRAWS, DRAWS_NO_ROWS, Lowering, lowers
from .._values import Fill, Unlowerable, Value


@lowers("dropout", "native_dropout")
def _dropout(to: Lowering, p: float, train: bool, **inputs: Any) -> Any:
    (x,), path = map(to.value, inputs.values()), to.where["path"]
    if train and p:
        if x.rows is None or isinstance(x.rows, tuple):
            raise Unlowerable(
                "dropout of parameters, or of rows that a mask chose: apply it to rows of vertices or of "
                "edges"
            )
        x = to.emit("dropout", [x], x.rows, x.shape, x.axis, p=float(p), path=to.unique(path))
    return x


def _uniform(to: Lowering) -> Value:
    """A number of [0, 1) for each element of what a node makes."""
    rows, shape, axis = to.layout()
    if not to.draws or rows is None or isinstance(rows, tuple):
        raise Unlowerable(f"{to.name} {DRAWS_NO_ROWS}")
    ones = to.full(Fill(1.0, rows, shape, axis))
    return to.emit("uniform", [ones], rows, shape, axis, path=to.unique(to.where["path"]))


def _normal(to: Lowering) -> Any:
    """Normal numbers, each made of two uniform ones, by Box and Muller (1958)."""
    do = to.elementwise
    length = do("sqrt", do("mul", do("log1p", do("neg", _uniform(to))), -2.0))
    return do("mul", length, do("cos", do("mul", _uniform(to), 2 * math.pi)))


@lowers(*DRAWS)
def _draw(to: Lowering, /, self: Any = None, generator: Any = None, **operands: Any) -> Any:
    do = to.elementwise
    if generator is not None:
        raise Unlowerable(
            f"{to.name} draws random numbers of a generator of its own: weft has one, which follows "
            "torch.manual_seed"
        )
    if to.name == "bernoulli":
        p = operands.get("p")
        return do("lt", _uniform(to), self if p is None else p)
    if to.name.startswith("normal"):
        mean, std = (operands.get("mean", self), operands.get("std", 1.0))
        return do("add", do("mul", _normal(to), std), mean)
    if to.name.startswith("randn"):
        return _normal(to)
    if to.name == "exponential":
        return do("div", do("neg", do("log1p", do("neg", _uniform(to)))), operands.get("lambd", 1.0))
    low, high = operands.get("from", operands.get("low", 0.0)), operands.get("to", operands.get("high", 1.0))
    made = _uniform(to) if (low, high) == (0.0, 1.0) else do("add", do("mul", _uniform(to), high - low), low)
    return do("floor", made) if to.name.startswith("randint") else made
