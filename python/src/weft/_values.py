"""What a tensor of forward is while it is lowered: a value of the program, or what is known of edges,
vertices and sizes without one. `_lowering` and `_aten` pass these on, and `_operations` makes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sympy

# What is said of a module that asks which of several graphs a vertex is of.
SEVERAL = (
    "model: {}, and the data are several graphs: weft gives no forward the number of each vertex's graph, so "
    "that norms and pooling would be over all graphs together: normalise by nn.LayerNorm or nn.BatchNorm1d, "
    "or train on one graph"
)


@dataclass(frozen=True)
class Set:
    """Rows: all vertices, or all edges with what is done about self loops."""

    kind: str  # "vertices", or "stored", "removed", "one" and "added" of edges
    type_name: str = ""  # the vertex type, or the relation

    @property
    def named(self) -> dict[str, str]:
        """The attribute of an operation that names them."""
        return {"of": self.type_name} if self.type_name else {}


Rows = Any  # None, a Set, one with the operation that chooses among its rows, or Flat


@dataclass(frozen=True)
class Value:
    """The value of an operation. shape is that of a row, and axis says where PyTorch has the rows'
    dimension."""

    op: int
    rows: Rows
    shape: tuple[int, ...]
    axis: int = 0

    @property
    def dim(self) -> int:
        return len(self.shape) + (self.rows is not None)


@dataclass(frozen=True)
class Fill:
    """One number in every element of rows. It is an operation only where one is needed."""

    number: float
    rows: Rows
    shape: tuple[int, ...]
    axis: int = 0

    dim = Value.dim


@dataclass(frozen=True)
class Flat:
    """The rows of a view that makes (rows · count, …) of (rows, count, …). In the operations of a program
    count is the first dimension of a row."""

    rows: Rows
    count: int


@dataclass(frozen=True)
class Edges:
    """An edge_index. Reversed edges swap the ends. first: as of Ends, of the sources and of the targets."""

    rows: Rows
    reverse: bool = False
    first: tuple[sympy.Expr, sympy.Expr] = (sympy.Integer(0), sympy.Integer(0))


@dataclass(frozen=True)
class Ends:
    """The numbers of the vertices at one end of edges, in any shape that broadcasts one number per edge.

    first: the number of the first vertex of their type, where several types are numbered one after another.
    """

    rows: Rows
    end: str
    first: sympy.Expr = sympy.Integer(0)


@dataclass(frozen=True)
class Vertices:
    """The numbers of all vertices in order. pairs: they stand in two rows, as the edge_index of self
    loops."""

    rows: Rows
    pairs: bool = False


@dataclass(frozen=True)
class Loops:
    """Which edges of a set are self loops (or, inverse, are not)."""

    rows: Rows
    inverse: bool


@dataclass(frozen=True)
class Chosen:
    """The places where a mask is true."""

    mask: Value | Loops


@dataclass(frozen=True)
class Parts:
    """What the rows of several sets have, one set after another. Sets are edges, vertices as their self
    loops, or vertices of several types."""

    parts: tuple[Any, ...]
    size: sympy.Expr

    @property
    def rows(self) -> tuple[Rows, ...]:
        return tuple(getattr(p, "rows", None) for p in self.parts)


@dataclass(frozen=True)
class Number:
    """A number that depends on the graph, as the count of vertices."""

    expression: sympy.Expr


_PAIRS = "each pair of vertices meets: a function of all pairs takes memory and time of their square"
_EDGE_PAIRS = (
    "each pair of edges meets, E × E: edge_attr has a row for each edge and at least one column, E × 1 where "
    "it is given as E: write edge_attr.view(-1, 1)"
)
WITHOUT_LOOPS = {"stored": "removed", "removed": "removed", "one": "removed", "added": "removed"}
WITH_LOOPS = {"removed": "one", "stored": "added"}


class Unlowerable(Exception):
    """What cannot be lowered, and what to write in its place."""


def base_of(rows: Rows) -> Any:
    rows = rows.rows if isinstance(rows, Flat) else rows
    return rows[0] if isinstance(rows, tuple) else rows


def kind_of(rows: Rows) -> str | None:
    """The kind of all rows of a set; None: of some, or none."""
    return rows.kind if isinstance(rows, Set) else None


def of_pairs(every: Iterable[Rows]) -> str:
    """Why no rows meet each other."""
    return _EDGE_PAIRS if all(kind_of(rows) not in ("vertices", None) for rows in every) else _PAIRS


def in_words(rows: Rows) -> str:
    if isinstance(rows, Flat):
        return f"{in_words(rows.rows)} × {rows.count}"
    if isinstance(rows, tuple):
        return f"some {in_words(rows[0])}"
    if rows is None:
        return "parameters"
    suffix = f" of {rows.type_name}" if rows.type_name else ""
    if rows.kind in ("vertices", "stored"):
        return ("vertices" if rows.kind == "vertices" else "edges") + suffix
    return f"edges{suffix} (self loops {rows.kind})"
