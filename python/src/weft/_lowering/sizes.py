"""What the sizes in an exported graph count: vertices, edges with or without self loops, or rows that a mask
chose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy

from .._errors import Refused
from .._operations import Builder
from .._values import WITH_LOOPS, Flat, Number, Rows, Unlowerable, kind_of, of_pairs


class Sizes(Builder):
    """The node that is being lowered, and what its sizes count."""

    def __init__(self, rows: dict[sympy.Expr, Rows], source_line: Callable[[Any], str]) -> None:
        super().__init__()
        self.rows = rows  # what the symbol of a size counts
        self.joined: dict[sympy.Expr, tuple[Rows, ...]] = {}  # the sets that a size counts together
        self.sizes: dict[sympy.Expr, int] = {}  # numbers of rows that masks of the module choose
        self.node: Any = None
        self.source_line = source_line  # the line of source of a node, in front of a reason

    @property
    def name(self) -> str:
        """The operation's name, also of the one that writes in place."""
        name: str = self.node.target._schema.name.split("::")[1]
        return name if name.endswith("__") else name.removesuffix("_")

    def no(self, why: str) -> Refused:
        return Refused(f"model: {self.source_line(self.node)}{why}")

    def layout(self, node: Any = None) -> tuple[Rows, tuple[int, ...], int]:
        """Rows, shape and axis by the sizes that PyTorch has found."""
        made = (node or self.node).meta["val"]
        sizes = [self.size(n) for n in (made[0] if isinstance(made, (list, tuple)) else made).shape]
        free = [d for d, n in enumerate(sizes) if not isinstance(n, int) and n.node.expr.free_symbols]
        shape = tuple(int(n) for d, n in enumerate(sizes) if d not in free)
        if not free:
            return None, shape, 0
        if len(free) > 1:
            raise Unlowerable(of_pairs(self.rows.get(sizes[d].node.expr) for d in free))
        return self.counted(sizes[free[0]]), shape, free[0]

    def size(self, n: Any) -> Any:
        """A size of PyTorch's, as a number if it is known."""
        known = None if isinstance(n, int) or not self.sizes else n.node.expr.subs(self.sizes)
        return int(known) if known is not None and known.is_number else n

    def counted(self, size: Any) -> Rows:
        """The rows of which a size is the number."""
        expression = sympy.expand(size.expression if isinstance(size, Number) else size.node.expr)
        count, each = expression.as_content_primitive()
        if expression not in self.rows and each in self.rows and count.is_Integer:
            return Flat(self.rows[each], int(count))
        if expression not in self.rows:
            raise Unlowerable(
                "a size depends on values or joins several edge sets: weft has all vertices, and all edges "
                "with or without self loops"
            )
        return self.rows[expression]

    def count(self, size: Any, rows: Rows) -> Rows:
        """Notes what a size counts that depends on values."""
        self.rows[size.node.expr] = rows
        if kind_of(rows) in WITH_LOOPS:
            vertices = self.size_of(self.at(rows, "target"))
            self.rows[sympy.expand(size.node.expr + vertices)] = replace(rows, kind=WITH_LOOPS[rows.kind])
        return rows

    def size_of(self, rows: Rows) -> sympy.Expr:
        """How many rows there are, as a size."""
        return next(e for e, r in self.rows.items() if r == rows and e.is_Symbol)
