"""Joined edges: edge_index of its two rows, edges with self loops behind them, and the edges of several sets.
`columns` calls these for torch.cat and torch.stack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .._lowering import Lowering, free_sizes
from .._values import WITH_LOOPS, Edges, Ends, Fill, Parts, Unlowerable, Value, Vertices, kind_of


def pair(ends: list[Any]) -> Any:
    """edge_index from its two rows."""
    if all(isinstance(e, Vertices) for e in ends):
        return replace(ends[0], pairs=True)
    if (
        [type(e) for e in ends] == [Ends, Ends]
        and ends[0].rows == ends[1].rows
        and ends[0].end != ends[1].end
    ):
        reverse = ends[0].end == "target"
        source, target = ends[::-1] if reverse else ends
        return Edges(ends[0].rows, reverse, (source.first, target.first))
    return None


def with_vertices(to: Lowering, parts: list[Any]) -> Any:
    """Edges, and a self loop for each vertex after them."""
    known = len(parts) == 2 and isinstance(parts[0], (Edges, Ends)) and isinstance(parts[1], Vertices)
    if not known or kind_of(parts[0].rows) not in WITH_LOOPS or _shifted(parts[0]):
        return None
    return replace(parts[0], rows=to.counted(to.node.meta["val"].shape[-1]))


def _shifted(ends: Edges | Ends) -> bool:
    return any(ends.first) if isinstance(ends, Edges) else bool(ends.first)


def with_loops(to: Lowering, tensors: list[Any]) -> Any:
    """Values of edges, and of the self loops that follow them."""
    (size,) = free_sizes(to.node)
    if (
        kind_of(to.rows.get(size)) not in ("one", "added")
        or len(tensors) != 2
        or isinstance(tensors[0], Parts)
    ):
        return None
    edges, loops = tensors
    if isinstance(edges, Fill) and isinstance(loops, Fill) and edges.number == loops.number:
        return Fill(edges.number, *to.layout())
    edges, loops = to.value(edges), to.value(loops)
    if edges.axis:
        raise Unlowerable(
            "values of self loops are joined to those of edges in another dimension than the first"
        )
    return to.emit("with_loops", [edges, loops], to.rows[size], edges.shape)


def joined(to: Lowering, parts: list[Any]) -> Parts:
    """Edges of several sets joined, as those of both directions; or rows of such edges."""
    sizes = free_sizes(to.node)
    flat: list[Any] = []
    for p in parts:
        flat += p.parts if isinstance(p, Parts) else [p]
    ends = [isinstance(p, (Edges, Ends, Vertices)) for p in flat]
    if len(sizes) != 1 or not (
        all(ends) or all(isinstance(p, (Value, Fill)) and p.rows is not None for p in flat)
    ):
        raise Unlowerable("edge_index is joined with other numbers than those of edges and self loops")
    made = Parts(tuple(flat), sizes[0])
    if any(ends):
        to.joined[made.size] = made.rows
    elif all(kind_of(rows) == "vertices" for rows in made.rows) and len(set(made.rows)) == len(made.rows):
        to.joined.setdefault(made.size, made.rows)
    return made
