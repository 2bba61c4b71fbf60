"""Operands as values: numbers, constants and sizes, and operations on these element by element. Functions of
`_aten` and views take their operands from here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import Tensor, nn

from .._values import Edges, Ends, Fill, Loops, Number, Rows, Unlowerable, Value, Vertices, kind_of
from .sizes import Sizes
from .table import named


class Values(Sizes):
    """Operands as values of a program."""

    def __init__(self, rows: dict[sympy.Expr, Rows], source_line: Callable[[Any], str]) -> None:
        super().__init__(rows, source_line)
        self.numbers: dict[
            sympy.Expr, Value
        ] = {}  # numbers of Python that tensors' values are, by their symbols

    def value(self, x: Any) -> Value:
        """An operand as a value."""
        if isinstance(x, Value):
            return x
        if isinstance(x, Fill):
            return self.full(x)
        if isinstance(x, (Tensor, int, float, bool)):
            return self.constant(x)
        if isinstance(x, Number):
            return self.computed(x.expression)
        if isinstance(x, Loops):
            if kind_of(x.rows) not in ("one", "removed"):
                raise Unlowerable(
                    "stored self loops are told from other edges: remove them first, by remove_self_loops"
                )
            own = self.ones(self.at(x.rows, "target"))
            is_loop = self.full(Fill(0, replace(x.rows, kind="removed"), ()))
            if x.rows.kind == "one":
                is_loop = self.emit("with_loops", [is_loop, own], x.rows, ())
            return self.pointwise("not", is_loop) if x.inverse else is_loop
        if isinstance(x, Edges):
            raise Unlowerable(
                "edge_index, 2 × E, is used as values: make a matrix of it in forward, by "
                "torch.sparse_coo_tensor(edge_index, edge_weight, (n, n)) with n = x.size(0), or call "
                "propagate"
            )
        if isinstance(x, (Ends, Vertices)):
            raise Unlowerable(
                "numbers of vertices are used as values: only rows of vertices are read by them"
            )
        raise Unlowerable(f"{type(x).__name__} is not a value")

    def computed(self, e: sympy.Expr) -> Value:
        """A number of Python that depends on sizes."""
        if e in self.numbers:
            return self.numbers[e]
        if e.is_Number:
            return self.constant(float(e))
        rows = self.rows.get(sympy.expand(e))
        if rows is not None:
            if rows.kind == "vertices":
                return self.emit("vertices", (), None, (), **rows.named)
            return self.emit("row_sum", [self.scatter(self.ones(rows), "target", "sum")], None, ())
        parts = [self.computed(a) for a in e.args]
        if type(e).__name__ == "ToFloat":
            return parts[0]
        name = _OF_NUMBERS.get(type(e).__name__)
        if name is None or not parts:
            raise Unlowerable(
                f"a number is computed from sizes by {type(e).__name__}: use sums, products and quotients"
            )
        result = parts[0]
        for p in parts[1:]:
            result = self.pointwise(name, result, p)
        return self.pointwise("floor", result) if type(e).__name__ == "FloorDiv" else result

    def elementwise(self, name: str, *operands: Any, **attributes: Any) -> Any:
        if name in ("eq", "ne") and len(operands) == 2 and all(isinstance(v, Vertices) for v in operands):
            raise Unlowerable(
                "self loops are told from edges of several sets: add them after what looks for them"
            )
        if name in ("eq", "ne") and len(operands) == 2 and all(isinstance(v, Ends) for v in operands):
            if operands[0].rows != operands[1].rows or operands[0].end == operands[1].end:
                raise Unlowerable("the ends of different edges are compared")
            return Loops(operands[0].rows, inverse=name == "ne")
        if name == "not" and isinstance(operands[0], Loops):
            return replace(operands[0], inverse=not operands[0].inverse)
        filled = any(isinstance(v, Fill) for v in operands)
        numbers = [v.number if isinstance(v, Fill) else v for v in operands]
        if filled and all(
            isinstance(v, (int, float)) or isinstance(v, Tensor) and v.numel() == 1 for v in numbers
        ):
            done = _NUMBER.get(name) or getattr(torch, name)
            arguments = {
                {"slope": "negative_slope"}.get(k, k): v for k, v in attributes.items() if k != "strict"
            }
            number = done(*(torch.tensor(float(v), dtype=torch.float64) for v in numbers), **arguments)
            return Fill(float(number), *self.layout())
        rows = next((v.rows for v in operands if isinstance(v, Value) and v.rows is not None), None)
        values = []
        for v in operands:  # a number in every row is a constant, where another operand has the rows
            alone = isinstance(v, Fill) and rows == v.rows
            values.append(
                self.constant(torch.full((1,) * len(v.shape), v.number)) if alone else self.value(v)
            )
        result = self.pointwise(name, *values, **attributes)
        if filled and isinstance(self.node.meta.get("val"), Tensor):
            result = self.expand(result, self.layout()[1])
        return result

    def dims(self, x: Value, dims: Any) -> tuple[bool, list[int]]:
        """Whether the rows' dimension is among PyTorch's dims, and which dimensions of a row the others
        are."""
        dims = range(x.dim) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        dims = [d % max(x.dim, 1) for d in dims] if x.dim else []
        if x.rows is None:
            return False, dims
        return x.axis in dims, [d - (d > x.axis) for d in dims if d != x.axis]

    def columns(self, x: Value, dims: Any, why: str) -> list[int]:
        """The dimensions of a row that PyTorch's dims are. Refuses the rows' dimension, and says why."""
        rows, columns = self.dims(x, dims)
        if rows:
            raise Unlowerable(why)
        return columns

    def column(self, x: Value, dim: int, why: str) -> int:
        return self.columns(x, [dim], why)[0]


_OF_NUMBERS = named(
    "Add:add Mul:mul Pow:pow PowByNatural:pow FloatPow:pow FloatTrueDiv:div IntTrueDiv:div FloorDiv:div "
    "Max:maximum Min:minimum"
)
_NUMBER = {
    name: getattr(nn.functional, name) for name in "leaky_relu elu gelu softplus silu logsigmoid".split()
}
_NUMBER |= {name: getattr(torch, "logical_" + name) for name in ("and", "or", "not")}
_NUMBER["where"] = lambda c, x, y: x if c else y
