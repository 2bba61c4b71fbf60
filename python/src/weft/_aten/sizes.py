"""Sizes, ranges, and tensors of one number."""

from __future__ import annotations

from typing import Any

import torch

from .._lowering import Lowering, lowers
from .._values import Fill, Number, Unlowerable, Value, Vertices, kind_of


@lowers(
    *"zeros ones full empty new_zeros new_ones new_full new_empty zeros_like ones_like full_like".split(),
    *"empty_like empty_permuted scalar_tensor fill zero".split(),
)
def _filled(to: Lowering, **named: Any) -> Any:
    fills = (named.get(k) for k in ("fill_value", "value", "s"))
    number = next((v for v in fills if v is not None), 1 if "ones" in to.name else 0)
    rows, shape, axis = to.layout()
    if isinstance(number, (Value, Number)):
        one = to.reshape(to.value(number), (1,) * (len(shape) + (rows is not None)))
        return to.expand(to.filled(one, [Value(0, rows, shape, axis)]), shape)
    if rows is None:
        return torch.full(shape, number, dtype=to.node.meta["val"].dtype)
    return Fill(float(number), rows, shape, axis)


@lowers("arange")
def _arange(to: Lowering, end: Any, start: Any = 0, step: Any = 1, **_: Any) -> Any:
    if (start, step) == (0, 1) and isinstance(end, Number) and not end.expression.args:
        if kind_of(rows := to.counted(end)) == "vertices":
            return Vertices(rows)
    raise Unlowerable("a range that is not of all vertices: give num_nodes=x.size(0)")


@lowers("sym_size", "sym_numel", "sym_stride")
def _sym_size(to: Lowering, **_: Any) -> Any:
    return to.node.meta["val"]
