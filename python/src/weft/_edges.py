"""What a call of a net gives in place of the graph's edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ._errors import Refused
from ._graph import Graph
from ._pass import Input
from ._trace import Relation, Schema

#: What a call gives of edges, as inputs of a pass and operations of programs name it: a mask is no operation's.
_INPUTS = {"edges": "edges", "edge_weight": "edge_weight", "edge_attr": "edge_features"}


@dataclass(frozen=True)
class Lacking:
    """What every call of a model gives of a relation's edges, as the graph has none."""

    type: int  # the number of the relation
    features: int  # columns; 0: none
    weights: bool


@dataclass(frozen=True)
class Reads:
    """What a model reads of edges besides what the graph has."""

    lacking: tuple[Lacking, ...] = ()
    #: The operations whose gradients are asked for, with the names of relations.
    differentiable: frozenset[tuple[str, str]] = frozenset()

    def schema(self, of: Schema) -> Schema:
        """The schema of a graph that has what is lacking."""
        relations = list(of.relations.items())
        for one in self.lacking:
            name, relation = relations[one.type]
            features = one.features or relation.features
            relation = replace(relation, features=features, weighted=relation.weighted or one.weights)
            relations[one.type] = name, relation
        return replace(of, relations=dict(relations))

    def marked(self, program: Mapping[str, Any]) -> dict[str, Any]:
        """A program with the operations marked whose gradients are asked for."""
        operations = [
            {**o, "differentiable": True} if (o["op"], o.get("of", "")) in self.differentiable else o
            for o in program["operations"]
        ]
        return {**program, "operations": operations}


#: What a model reads that takes the edges as the graph has them.
AS_IT_IS = Reads()


class Edges:
    """The edges of a graph, in place of which calls give others."""

    def __init__(self, graph: Graph | None, schema: Schema) -> None:
        self._graph = graph
        self._relations = list(schema.relations.items())
        self._orders: dict[int, Tensor | None] = {}

    def inputs(self, **given: Any) -> list[Input]:
        """What is given by the names of a net's arguments, as inputs whose rows are in the order of the store."""
        found = []
        for name, value in given.items():
            for number, rows in self._by_relation(name, value):
                rows = self._checked(name, rows, self._relations[number][1])
                order = self._order(number)
                rows = rows if order is None else rows[order.to(rows.device)]
                found.append(Input(_INPUTS[name], number, rows))
        return found

    def reads(self, inputs: list[Input]) -> Reads:
        """What a model reads that is called with these."""
        lacking: dict[int, Lacking] = {}
        differentiable = set()
        for of in inputs:
            if of.of == "edges":
                continue
            name, relation = self._relations[of.type]
            known = lacking.get(of.type, Lacking(of.type, 0, False))
            if of.of == "edge_weight" and not relation.weighted:
                lacking[of.type] = replace(known, weights=True)
            if of.of == "edge_features" and not relation.features:
                lacking[of.type] = replace(known, features=of.values.shape[1])
            if torch.is_grad_enabled() and of.values.requires_grad:
                differentiable.add((of.of, name))
        return Reads(tuple(lacking[number] for number in sorted(lacking)), frozenset(differentiable))

    def check_read(self, program: Mapping[str, Any], inputs: list[Input]) -> None:
        """Refuses what a program does not read."""
        read = {(o["op"], o.get("of", "")) for o in program["operations"]}
        for of in inputs:
            if of.of != "edges" and (of.of, self._relations[of.type][0]) not in read:
                name = next(name for name, what in _INPUTS.items() if what == of.of)
                raise Refused(f"{name}: forward does not read it: leave it out")

    def _by_relation(self, name: str, value: Any) -> Iterator[tuple[int, Any]]:
        if value is None:
            return
        if not isinstance(value, Mapping):
            if len(self._relations) > 1:
                raise Refused(f"{name}: the graph has several relations: give a dict by (source, name, target)")
            yield 0, value
            return
        keys = [relation.key for _, relation in self._relations]
        for key, rows in value.items():
            if key not in keys:
                raise Refused(f"{name}: there is no relation {key!r}: the graph has {', '.join(map(str, keys))}")
            yield keys.index(key), rows

    def _checked(self, name: str, rows: Any, relation: Relation) -> Tensor:
        edges, columns = relation.edges, relation.features
        kind = f"{rows.dtype} {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
        tensor = isinstance(rows, Tensor) and rows.dim() > 0 and len(rows) == edges
        if name == "edges":
            if not tensor or rows.dtype != torch.bool or rows.dim() != 1:
                raise Refused(f"edges: is {kind}: give a tensor of {edges} booleans, one for each edge")
            return rows
        tensor = tensor and rows.is_floating_point()
        if name == "edge_weight":
            if not tensor or rows.dim() != 1:
                raise Refused(f"edge_weight: is {kind}: give a tensor of {edges} floats, one for each edge")
            return rows
        if tensor and rows.dim() == 1:
            rows = rows[:, None]
        if not tensor or rows.dim() != 2 or rows.shape[1] != (columns or rows.shape[1]) or not rows.shape[1]:
            raise Refused(f"edge_attr: is {kind}: give floats of {edges} edges × {columns or 'any'} features")
        return rows

    def _order(self, number: int) -> Tensor | None:
        """Where the edges of the store stand among those of the graph; None: they have the same order."""
        if number not in self._orders:
            order = self._graph.edge_order(self._relations[number][0]) if self._graph is not None else None
            self._orders[number] = None if order is None else torch.from_numpy(order)
        return self._orders[number]
