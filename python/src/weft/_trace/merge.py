"""One program of two: of what forward does in training, and in evaluation. `trace` calls it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._errors import Refused
from .._lowering import Lowering
from .._values import Value

_DIFFERS = (
    "forward does other operations in evaluation than in training, with a norm or rows that the other has not"
)


class _Merged:
    """One program of what forward does in training and in evaluation.

    Where they differ, the program computes both values, and the operation training chooses one. Dropout reads
    the same value in both.
    """

    def __init__(self, to: Lowering, evaluated: Lowering) -> None:
        self.to, self.evaluated = to, evaluated
        self.known: dict[tuple[int, int], Value | None] = {}
        self.added: dict[int, Value] = {}  # operations of evaluation in the program

    def merged_value(self, a: int, b: int) -> Value | None:
        """The value of both; None: they have other rows or shapes."""
        if (a, b) not in self.known:
            self.known[a, b] = self.made(a, b)
        return self.known[a, b]

    def made(self, a: int, b: int) -> Value | None:
        one, two = self.to.operations[a], self.evaluated.operations[b]
        if two["op"] == "dropout":
            raise Refused(
                f"model: {two.get('line', '')}: dropout stays on in evaluation: write F.dropout(x, p, "
                "training=self.training)"
            )
        if one["op"] == "dropout":
            inner = self.merged_value(one["in"][0], b)
            return inner and self.again(a, [inner])
        read, other = one.get("in", ()), two.get("in", ())
        if _attributes(one) == _attributes(two) and len(read) == len(other):
            inputs = [self.merged_value(x, y) for x, y in zip(read, other)]
            if all(value is not None for value in inputs):
                return self.again(a, inputs)
        x, y = self.to.shapes[a], self.evaluated.shapes[b]
        if (x.rows, x.shape) != (y.rows, y.shape):
            return None
        if self.has_norm(self.to, a) != self.has_norm(self.evaluated, b):
            raise Refused(f"model: {one.get('line', '')}: {_DIFFERS}")
        self.to.where = {key: one[key] for key in ("path", "line") if key in one}
        training = self.to.emit("training", (), None, ())
        return self.to.emit("where", [training, x, self.add(b)], x.rows, x.shape)

    def again(self, a: int, inputs: Sequence[Any]) -> Value:
        """An operation of the program on these values."""
        one, shape = self.to.operations[a], self.to.shapes[a]
        if [value.op for value in inputs] == list(one.get("in", ())):
            return shape
        self.to.where = {key: one[key] for key in ("path", "line") if key in one}
        return self.to.emit(
            one["op"], inputs, shape.rows, shape.shape, **dict(_attributes(one, "op", "path")), **_drawn(one)
        )

    def add(self, b: int) -> Value:
        """An operation of evaluation."""
        if b not in self.added:
            two, shape = self.evaluated.operations[b], self.evaluated.shapes[b]
            inputs = [self.add(op) for op in two.get("in", ())]
            self.to.where = {key: two[key] for key in ("path", "line") if key in two}
            self.added[b] = self.to.emit(
                two["op"],
                inputs,
                shape.rows,
                shape.shape,
                **dict(_attributes(two, "op", "path")),
                **_drawn(two),
            )
        return self.added[b]

    @staticmethod
    def has_norm(lowering: Lowering, op: int) -> set[str]:
        """The batch norms that a value depends on."""
        left, seen, found = [op], set[int](), set[str]()
        while left:
            if (k := left.pop()) not in seen:
                seen.add(k)
                found |= (
                    {lowering.operations[k].get("mean", "")}
                    if lowering.operations[k]["op"] == "batch_norm"
                    else set()
                )
                left += lowering.operations[k].get("in", ())
        return found


def _attributes(operation: Mapping[str, Any], *without: str) -> dict[str, Any]:
    return {k: v for k, v in operation.items() if k not in ("in", "path", "line", *without)}


def _drawn(operation: Mapping[str, Any]) -> dict[str, str]:
    """The path of an operation that draws random numbers, which are named by it."""
    return {"path": operation["path"]} if operation["op"] in ("dropout", "uniform") else {}


def merged(trained: tuple[Lowering, list[Value]], evaluated: tuple[Lowering, list[Value]]) -> list[Value]:
    """The outputs of a program of both, which is the one that forward is traced to in training."""
    both, limit = _Merged(trained[0], evaluated[0]), sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 10 * max(len(to.operations) for to, _ in (trained, evaluated)))
    try:
        made = [both.merged_value(x.op, y.op) for x, y in zip(trained[1], evaluated[1])]
    finally:
        sys.setrecursionlimit(limit)
    if None in made:
        raise Refused(f"model: {_DIFFERS}")
    return [replace(x, op=value.op) for x, value in zip(trained[1], made) if value is not None]
