"""What forward returns: tensors of vertices, of edges or of the graph, in tuples and dicts. `Called` joins
them, so that a program has one output of each type; who calls the compiled module takes them apart again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from .._errors import Refused


class Outputs:
    """What forward returns: one tensor, or several in tuples and dicts.

    They are joined to one tensor of each vertex type, and then of each relation, with their columns beside
    each other. If all are of edges, a tensor of the whole graph stands behind them.
    """

    def __init__(self, frozen: Iterable[str] = ()) -> None:
        self.frozen = frozen  # the paths of layers that stay in evaluation
        self.tree: Any = None
        self.shapes: list[tuple[int, ...]] = []  # of a row of each tensor
        self.whole: list[bool] = []  # it has no rows of vertices: it is of the whole graph
        self.types: list[str] = []  # whose rows each has; of the whole graph: beside which it stands
        self.edges: list[bool] = []  # its type is a relation
        self.kinds: list[str] = []  # all vertex types
        self.relations: list[str] = []  # all relations

    def __deepcopy__(self, _: Any) -> Outputs:
        return self  # copies of a module tell the same one

    def returned(self, made: Sequence[Tensor]) -> Any:
        """The tensors as forward returns them."""
        return tree_unflatten(made[: self.tree.num_leaves], self.tree)

    def joined(self, made: Any, counts: Mapping[str, Any], edges: Mapping[str, Any]) -> list[Tensor]:
        """The tensors beside each other, by type. counts: of vertices, by type, and edges, by relation."""
        leaves, self.tree = tree_flatten(made)
        if not leaves or not all(
            isinstance(tensor, Tensor) and tensor.is_floating_point() for tensor in leaves
        ):
            kinds = ", ".join(
                str(tensor.dtype) if isinstance(tensor, Tensor) else type(tensor).__name__
                for tensor in leaves
            )
            raise Refused(
                f"model: forward returns {kinds or 'nothing'}: return tensors of floats, or tuples or dicts "
                "of them"
            )
        if any(
            isinstance(count, torch.SymInt) for count in counts.values()
        ):  # it is traced; a call with numbers returns the same
            self.whole = [
                tensor.dim() == 0 or not isinstance(tensor.shape[0], torch.SymInt) for tensor in leaves
            ]
            found = [
                None if whole else _type_of(tensor.shape[0], counts, edges)
                for tensor, whole in zip(leaves, self.whole)
            ]
            first = next((kind for kind, edge in filter(None, found) if not edge), next(iter(counts)))
            self.types, self.edges = map(
                list, zip(*((first, False) if row_type is None else row_type for row_type in found))
            )
            self.kinds, self.relations = list(counts), list(edges)
            if all(self.edges):
                self.whole, self.edges, self.types = (
                    [*self.whole, True],
                    [*self.edges, False],
                    [*self.types, first],
                )
        if len(self.types) > len(leaves):
            leaves.append(leaves[0].new_ones(1))
        shapes = [tensor.shape if whole else tensor.shape[1:] for tensor, whole in zip(leaves, self.whole)]
        if any(not isinstance(n, int) for shape in shapes for n in shape):
            raise Refused(_SOME)
        self.shapes = [tuple(shape) for shape in shapes]
        if len(leaves) == 1 and not self.whole[0] and len(self.shapes[0]) == 1:
            return [leaves[0]]
        parts: dict[tuple[str, bool], list[Tensor]] = {joint: [] for joint in self.joints()}
        for tensor, kind, edge, whole, shape in zip(leaves, self.types, self.edges, self.whole, self.shapes):
            count = (edges if edge else counts)[kind]
            tensor = tensor.reshape(1 if whole else count, math.prod(shape))
            parts[kind, edge].append(tensor.expand(count, math.prod(shape)) if whole else tensor)
        return [torch.cat(columns, 1) if len(columns) > 1 else columns[0] for columns in parts.values()]

    def joints(self) -> list[tuple[str, bool]]:
        """What joined tensors have rows of, in their order: types, and whether they are relations."""
        every = [*((kind, False) for kind in self.kinds), *((name, True) for name in self.relations)]
        there = set(zip(self.types, self.edges))
        return [joint for joint in every if joint in there]


_SOME = (
    "model: forward returns some of the vertices or of the edges, or edges with loops that it has added: "
    "return a row for each vertex or each edge, or one for the graph"
)


def _type_of(rows: Any, counts: Mapping[str, Any], edges: Mapping[str, Any]) -> tuple[str, bool]:
    """The vertex type or the relation that a number of rows in a traced module is of, and whether it is a
    relation."""
    for every, are_edges in ((counts, False), (edges, True)):
        for kind, count in every.items():
            if isinstance(count, torch.SymInt) and rows.node.expr == count.node.expr:
                return kind, are_edges
    raise Refused(_SOME)
