"""The list of operations that a program is, whose types are those of weft's package program. `_lowering`
builds it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ._values import Ends, Fill, Flat, Rows, Set, Unlowerable, Value, base_of, in_words, of_pairs


class Builder:
    """The list of operations. Equal operations are one, and where an operation changes nothing there is
    none."""

    def __init__(self) -> None:
        self.operations: list[dict[str, Any]] = []
        self.shapes: list[Value] = []
        self.known: dict[Any, Value] = {}
        self.where: dict[str, str] = {}  # path and line of what is being lowered
        self.ends = {"": ("", "")}  # the vertex types of the sources and targets of each relation
        self.batches = set[str]()  # the relations from vertices to their graphs of a batch

    def emit(
        self,
        op: str,
        inputs: Sequence[Value],
        rows: Rows,
        shape: Iterable[int],
        axis: int = 0,
        /,
        **attributes: Any,
    ) -> Value:
        if op == "detach" and self.operation_of(inputs[0])["op"] == "detach":
            return inputs[0]
        shape = whole = tuple(int(n) for n in shape)
        base = base_of(rows)
        if isinstance(rows, Flat):
            whole = (rows.count, *shape)
            attributes = _deeper(op, attributes, rows.count)
        key = (op, tuple(v.op for v in inputs), repr(attributes), base)
        if key not in self.known or op in ("dropout", "uniform"):
            attributes = {k: _json(v) if isinstance(v, float) else v for k, v in attributes.items()}
            entry = {"op": op} | ({"in": [v.op for v in inputs]} if inputs else {}) | attributes
            self.operations.append(entry | {k: v for k, v in self.where.items() if v and k not in entry})
            self.shapes.append(Value(len(self.operations) - 1, base, whole))
            self.known[key] = self.shapes[-1]
        return Value(self.known[key].op, rows, shape, axis if rows is not None else 0)

    def operation_of(self, value: Value) -> dict[str, Any]:
        return self.operations[value.op]

    def inputs(self, value: Value) -> list[Value]:
        return [self.shapes[k] for k in self.operation_of(value).get("in", ())]

    def constant(self, number: Tensor | float) -> Value:
        numbers = torch.as_tensor(number, dtype=torch.float64)
        flat = numbers.flatten().tolist()
        if len(flat) > 1_000_000:
            raise Unlowerable(f"a constant of {len(flat):,} numbers: make it a parameter or a buffer")
        values = [_json(v) for v in (flat[:1] if len(set(flat)) == 1 else flat)]
        return self.emit("constant", (), None, numbers.shape, shape=list(numbers.shape), values=values)

    def number(self, value: Any) -> float | None:
        """The number that a constant of one value is."""
        if isinstance(value, Value):
            entry = self.operation_of(self.bare(value))
            value = entry["values"][0] if entry["op"] == "constant" and len(entry["values"]) == 1 else None
            return None if value is None else float(value)
        value = value.number if isinstance(value, Fill) else value
        return float(value) if isinstance(value, (int, float)) else None

    def ones(self, rows: Rows) -> Value:
        if isinstance(rows, Flat):
            own = self.reshape(self.ones(rows.rows), (1,))
            return replace(self.expand(own, (rows.count,)), rows=rows, shape=())
        base = base_of(rows)
        if base.kind == "vertices":
            return self.emit("ones", (), rows, (), rows="vertices", **base.named)
        return self.emit("ones", (), rows, (), rows="edges", loops=base.kind, **base.named)

    def at(self, rows: Rows, end: str) -> Set:
        """The vertices at an end of edges."""
        return Set("vertices", self.ends[base_of(rows).type_name][end == "target"])

    def full(self, fill: Fill) -> Value:
        value = self.ones(fill.rows)
        if fill.number != 1:
            value = self.pointwise("mul", value, self.constant(fill.number))
        return replace(self.expand(self.reshape(value, (1,) * len(fill.shape)), fill.shape), axis=fill.axis)

    def reshape(self, x: Value, shape: Iterable[int], axis: int | None = None) -> Value:
        shape, axis = tuple(shape), x.axis if axis is None else axis
        if math.prod(shape) != math.prod(x.shape):
            raise Unlowerable("a view mixes vertices or edges with columns")
        while self.operation_of(x)["op"] == "reshape":
            x = replace(x, op=self.inputs(x)[0].op)
        if self.shapes[x.op].shape == ((x.rows.count, *shape) if isinstance(x.rows, Flat) else shape):
            return replace(x, shape=shape, axis=axis if x.rows is not None else 0)
        return self.emit("reshape", [x], x.rows, shape, axis, shape=list(shape))

    def broadcast(self, x: Value, like: Value) -> Value:
        """x with the rows and as many dimensions as another value, to which it is broadcast."""
        if x.rows is None:
            x = self.reshape(x, (1,) * (like.dim - len(x.shape)) + x.shape)
        return self.filled(x, [like])

    def regrouped(self, x: Value, rows: Rows, shape: tuple[int, ...], axis: int) -> Value:
        """A view each of whose rows is several rows of x, or one of the parts of a row."""
        if isinstance(x.rows, Flat):  # the first dimension of a row comes to where PyTorch has the rows
            count, before = x.rows.count, x.axis
            x = Value(x.op, x.rows.rows, (count, *x.shape))
            x = self.permute(x, [*range(1, before + 1), 0, *range(before + 1, len(x.shape))], before)
        if isinstance(rows, Flat):
            first = math.prod(shape[:axis])
            x = self.reshape(x, (first, rows.count, math.prod(shape) // first), 1)
            x = self.reshape(self.permute(x, [1, 0, 2], 0), (rows.count, *shape))
            return Value(x.op, rows, shape, axis)
        return self.reshape(x, shape, axis)

    def expand(self, x: Value, shape: tuple[int, ...]) -> Value:
        return x if x.shape == shape else self.emit("expand", [x], x.rows, shape, x.axis, shape=list(shape))

    def dropped(self, x: Value, at: int) -> Value:
        """Without a dimension of size 1."""
        return self.reshape(x, x.shape[:at] + x.shape[at + 1 :], x.axis - (at < x.axis))

    def permute(self, x: Value, order: Sequence[int], axis: int | None = None) -> Value:
        axis = x.axis if axis is None else axis
        if list(order) == sorted(order):
            return replace(x, axis=axis)
        return self.emit("permute", [x], x.rows, [x.shape[d] for d in order], axis, dims=list(order))

    def slice(self, x: Value, dim: int, start: int, stop: int, step: int = 1) -> Value:
        if (start, stop, step) == (0, x.shape[dim], 1):
            return x
        shape = (*x.shape[:dim], len(range(start, stop, step)), *x.shape[dim + 1 :])
        return self.emit("slice", [x], x.rows, shape, x.axis, dim=dim, start=start, stop=stop, step=step)

    def cat(self, parts: Sequence[Value], dim: int) -> Value:
        parts = [self.filled(p, parts) for p in parts if p.shape[dim]]
        first = parts[0]
        if len(parts) == 1:
            return first
        shape = (*first.shape[:dim], sum(p.shape[dim] for p in parts), *first.shape[dim + 1 :])
        return self.emit("cat", parts, first.rows, shape, first.axis, dim=dim)

    def filled(self, x: Value, others: Sequence[Value]) -> Value:
        """x on the rows of the others. If it has no rows, it is the same in each."""
        rows = next(((o.rows, o.axis) for o in others if o.rows is not None), (None, 0))
        if x.rows is not None or rows[0] is None:
            return x
        if len(x.shape) > len(others[0].shape):
            x = self.reshape(x, x.shape[: rows[1]] + x.shape[rows[1] + 1 :])
        ones = self.reshape(self.ones(rows[0]), (1,) * len(x.shape))
        return self.emit("mul", [ones, x], rows[0], x.shape, rows[1])

    def pointwise(self, name: str, *operands: Value, **attributes: Any) -> Value:
        """An operation element by element, with PyTorch's broadcasting of rows and columns."""
        rows = {v.rows for v in operands if v.rows is not None}
        if len(rows) > 1:
            which = " and of ".join(sorted(in_words(r) for r in rows))
            raise Unlowerable(f"rows of {which} meet in one operation: move rows along edges by propagate")
        if not rows:
            shape = torch.broadcast_shapes(*(v.shape for v in operands))
            return self.simple(name, operands, None, shape, 0, attributes)
        right = {len(v.shape) - v.axis for v in operands if v.rows is not None}
        if len(right) > 1:
            raise Unlowerable(of_pairs(rows))
        (right_of,), inputs = right, []
        single = [v for v in operands if self.same_everywhere(v)]
        if single and len([v for v in operands if v.rows is not None]) > len(single):
            operands = tuple(self.same_everywhere(v) or v for v in operands)
        for v in operands:
            at = len(v.shape) - right_of - 1
            if v.rows is None and at >= 0:  # PyTorch's dimension of rows, of size 1 here
                v = self.reshape(v, v.shape[:at] + v.shape[at + 1 :])
            inputs.append(v)
        shape = torch.broadcast_shapes(*(v.shape for v in inputs))
        return self.simple(name, inputs, next(iter(rows)), shape, len(shape) - right_of, attributes)

    def same_everywhere(self, x: Value) -> Value | None:
        """The value that filled has put in each row; None: x has others."""
        if x.rows is None or not self.is_a(x, "mul") or not self.is_a(self.bare(self.inputs(x)[0]), "ones"):
            return None
        one = self.inputs(x)[1]
        if one.rows is not None or one.shape != x.shape:
            return None
        return self.reshape(one, (*x.shape[: x.axis], 1, *x.shape[x.axis :]))

    def simple(
        self,
        name: str,
        operands: Sequence[Value],
        rows: Rows,
        shape: Sequence[int],
        axis: int,
        attributes: dict[str, Any],
    ) -> Value:
        """The operation, unless it changes nothing, or is the last of several that a program has as one."""
        x, shape = operands[0], tuple(shape)
        numbers = [self.number(v) for v in operands] if len(operands) == 2 else []
        for k in (1, 0) if numbers else ():
            other, does = operands[1 - k], (name, numbers[k])
            if other.rows == rows and (does in _NEUTRAL or (k == 1 and does in _NEUTRAL_LAST)):
                other = self.reshape(other, (1,) * (len(shape) - len(other.shape)) + other.shape)
                return replace(self.expand(other, shape), axis=axis)
        if name == "pow" and numbers[1] in _POWERS and x.shape == shape:
            return self.emit(_POWERS[numbers[1]], [x], rows, shape, axis)
        if name == "div" and x.shape == shape and (known := self.quotient(x, operands[1])):
            return self.emit(known[0], [known[1]], rows, shape, axis, **known[2])
        return self.emit(name, operands, rows, shape, axis, **attributes)

    def quotient(self, x: Value, y: Value) -> tuple[str, Value, dict[str, Any]] | None:
        """The operation that a quotient is, if it is the softmax over the edges of each vertex, or their
        mean."""
        is_a, below = self.is_a, self.inputs
        y = self.bare(y)
        if (
            is_a(x, "scatter", reduce="sum")
            and self.operation_of(y)["op"] in ("clamp", "maximum")
            and "max" not in self.operation_of(y)
        ):
            least = self.operation_of(y).get("min") if is_a(y, "clamp") else self.number(below(y)[1])
            count, summed, end = self.bare(below(y)[0]), below(x)[0], self.operation_of(x)["end"]
            if least == 1 and is_a(count, "scatter", reduce="sum", end=end):
                if is_a(self.bare(below(count)[0]), "ones", loops=summed.rows.kind, **summed.rows.named):
                    return "scatter", summed, {"end": end, "reduce": "mean"}
        if is_a(x, "exp") and is_a(y, "gather") and is_a(below(x)[0], "sub"):
            total, (score, most) = below(y)[0], below(below(x)[0])
            if is_a(total, "add") and (small := self.number(below(total)[1])) is not None and small <= 1e-12:
                total = below(total)[0]
            if is_a(total, "scatter", reduce="sum") and below(total)[0].op == x.op:
                high = below(most)[0] if is_a(most, "gather") else most
                raw = below(high)[0] if is_a(high, "scatter", reduce="max") else high
                raw = below(raw)[0] if is_a(raw, "detach") else raw
                ends = {self.operation_of(v).get("end") for v in (y, total, most, high)}
                if raw.op == score.op and len(ends) == 1:
                    return "edge_softmax", score, {"end": ends.pop()}
        return None

    def is_a(self, x: Value, op: str, **attributes: Any) -> bool:
        return self.operation_of(x)["op"] == op and all(
            self.operation_of(x).get(k) == v for k, v in attributes.items()
        )

    def bare(self, x: Value) -> Value:
        """The value below reshapes and expansions of its columns."""
        while self.operation_of(x)["op"] in ("reshape", "expand"):
            x = self.inputs(x)[0]
        return x

    def reduce(self, name: str, x: Value, dims: Sequence[int], keep: bool, **attributes: Any) -> Value:
        """A reduction over dimensions of a row."""
        if not dims:
            return x
        kept = [1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims]
        axis = x.axis if keep else x.axis - sum(d < x.axis for d in dims)
        if (parts := self.stacked(x, dims)) and (name in ("sum", "mean") or "first" in attributes):
            out = parts[0]
            for p in parts[1:]:
                if name in ("sum", "mean"):
                    out = self.pointwise("add", out, p)
                else:
                    most = self.pointwise({"max": "ge", "min": "le"}[name], out, p)
                    most = self.pointwise("or", most, self.pointwise("ne", out, out))
                    out = self.pointwise("where", most, out, p)
            if name == "mean":
                out = self.pointwise("mul", out, self.constant(1 / len(parts)))
            return self.reshape(out, kept, axis)
        return self.emit(name, [x], x.rows, kept, axis, dims=sorted(dims), keep=keep, **attributes)

    def stacked(self, x: Value, dims: Sequence[int]) -> list[Value]:
        """The values that torch.stack has joined in a dimension; []: it has joined none."""
        operation = self.operation_of(x)
        if operation["op"] != "cat" or isinstance(x.rows, Flat) or list(dims) != [operation["dim"]]:
            return []
        parts = self.inputs(x)
        return [
            replace(p, rows=x.rows, axis=x.axis)
            for p in parts
            if all(q.shape[operation["dim"]] == 1 for q in parts)
        ]

    def gather(self, x: Value, ends: Ends) -> Value:
        if x.rows != self.at(ends.rows, ends.end):
            what = "a table with a row for each vertex" if x.rows is None else f"rows of {in_words(x.rows)}"
            raise Unlowerable(
                f"{what} is read by the ends of edges: only rows of vertices are; concatenate it to x "
                "beforehand"
            )
        base = base_of(ends.rows)
        rows = self.emit(
            "gather", [x], ends.rows, x.shape, x.axis, end=ends.end, loops=base.kind, **base.named
        )
        if base.type_name in self.batches and ends.end == "target":  # each vertex has one edge, to its graph
            return self.scatter(rows, "source", "sum")
        return rows

    def scatter(self, x: Value, end: str, reduce: str) -> Value:
        """Aggregates rows of edges to the vertices at an end. Rows that a mask has not chosen count as
        nothing."""
        chosen, axis = x.rows, x.axis
        x = replace(x, rows=base_of(x.rows), axis=0)
        if isinstance(chosen, tuple):
            mask = replace(self.shapes[chosen[1]], axis=0)
            mask = self.reshape(mask, mask.shape + (1,) * (len(x.shape) - len(mask.shape)))
            none = {"max": -3e38, "min": 3e38, "mul": 1}.get(reduce, 0)
            x = self.pointwise("where", mask, x, self.constant(none))
            out = self.scatter(x, end, "sum" if reduce == "mean" else reduce)
            if reduce in ("max", "min", "mean"):
                count = self.scatter(mask, end, "sum")
                if reduce == "mean":
                    return replace(self.pointwise("div", out, self.clamp(count, 1, None)), axis=axis)
                out = self.pointwise(
                    "where", self.pointwise("gt", count, self.constant(0)), out, self.constant(0)
                )
            return replace(out, axis=axis)
        return self.emit("scatter", [x], self.at(x.rows, end), x.shape, axis, end=end, reduce=reduce)

    def root(self, x: Value) -> Value:
        """The square root of a norm or of a standard deviation: PyTorch's have no gradient where they are
        0."""
        return self.unless_0(x, lambda x: self.pointwise("sqrt", x))

    def unless_0(self, x: Value, function: Callable[[Value], Value]) -> Value:
        """A function of x, and 0 without a gradient where x is 0."""
        zero = self.pointwise("eq", x, self.constant(0))
        made = function(self.pointwise("where", zero, self.constant(1), x))
        return self.pointwise("where", zero, self.constant(0), made)

    def clamp(self, x: Value, low: float | None, high: float | None) -> Value:
        limits = {k: float(v) for k, v in (("min", low), ("max", high)) if v is not None}
        return self.pointwise("clamp", x, **limits)


_NEUTRAL, _NEUTRAL_LAST = {("mul", 1), ("add", 0)}, {("div", 1), ("sub", 0), ("pow", 1)}


def _json(number: float) -> float | str:
    """A number as a program has it: JSON has no numbers that are not finite."""
    return number if math.isfinite(number) else str(number)


def _deeper(op: str, attributes: dict[str, Any], count: int) -> dict[str, Any]:
    """The attributes of an operation on rows that have another first dimension, of that size."""
    made = dict(attributes)
    if "dims" in made:
        made["dims"] = [0] * (op == "permute") + [d + 1 for d in made["dims"]]
    if "dim" in made:
        made["dim"] += 1
    if "shape" in made:
        made["shape"] = [count, *made["shape"]]
    return made


_POWERS = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
