"""What a call of a net gives in place of what the graph has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ._errors import Refused
from ._graph import Graph
from ._structure import Structure
from ._trace import Schema


@dataclass(frozen=True)
class Input:
    """What a pass reads in place of what the graph has."""

    field: str  # what it is in the protocol: features, edges, edge_weight or edge_features
    type: int  # the number of the vertex type, or of the relation
    values: Tensor  # a row for each vertex or edge, in the order of a call, or of the store


@dataclass(frozen=True)
class Lacking:
    """What every pass of a model is given of a vertex type or a relation, as the graph has none."""

    kind: str  # vertices or edges
    type: int  # the number of the vertex type, or of the relation
    features: int = 0  # columns; 0: none
    weights: bool = False

    def request(self) -> dict[str, Any]:
        """As it is in the protocol."""
        return {"of": self.kind, "type": self.type, "features": self.features, "weights": self.weights}


@dataclass(frozen=True)
class Reads:
    """What a model reads besides what the graph has."""

    lacking: tuple[Lacking, ...] = ()
    #: The operations on edges whose gradients are asked for, with the names of relations.
    differentiable: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def from_inputs(cls, schema: Schema, inputs: Iterable[Input]) -> Reads:
        """What a model reads whose passes are given these inputs."""
        columns, relations = list(schema.features.values()), list(schema.relations.items())
        lacking: dict[tuple[str, int], Lacking] = {}
        differentiable = set()
        for entry in inputs:
            if entry.field == "features":
                if not columns[entry.type]:
                    one = Lacking("vertices", entry.type, entry.values.shape[1])
                    lacking["vertices", entry.type] = one
            elif entry.field != "edges":
                name, relation = relations[entry.type]
                one = lacking.get(("edges", entry.type), Lacking("edges", entry.type))
                if entry.field == "edge_weight" and not relation.weighted:
                    lacking["edges", entry.type] = replace(one, weights=True)
                if entry.field == "edge_features" and not relation.features:
                    lacking["edges", entry.type] = replace(one, features=entry.values.shape[1])
                if torch.is_grad_enabled() and entry.values.requires_grad:
                    differentiable.add((entry.field, name))
        return cls(tuple(lacking[key] for key in sorted(lacking)), frozenset(differentiable))

    def schema(self, schema: Schema) -> Schema:
        """The schema of a graph that has what is lacking."""
        features, relations = dict(schema.features), dict(schema.relations)
        for one in self.lacking:
            name = list(features if one.kind == "vertices" else relations)[one.type]
            if one.kind == "vertices":
                features[name] = one.features
                continue
            had = relations[name]
            relations[name] = replace(
                had, features=one.features or had.features, weighted=one.weights or had.weighted
            )
        return replace(schema, features=features, relations=relations)

    def marked(self, program: Mapping[str, Any]) -> dict[str, Any]:
        """A program with the operations marked whose gradients are asked for."""
        operations = [
            {**o, "differentiable": True} if (o["op"], o.get("of", "")) in self.differentiable else o
            for o in program["operations"]
        ]
        return {**program, "operations": operations}


class Features:
    """The features of a graph's vertices, in place of which calls give others."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._types = list(schema.features)
        self._columns: dict[int, int] = {}
        self._vertices = dict(schema.vertices)  # whose rows a call gives
        self._chosen: Mapping[int, Tensor] | None = None

    def give(self, vertices: Sequence[int]) -> None:
        """Has calls give the rows of so many vertices of each type: those of a process among several."""
        self._vertices = dict(zip(self._types, vertices))

    def choose(self, vertices: Mapping[int, Tensor]) -> None:
        """Has passes take these of the rows of all vertices of each type, which calls give."""
        self._chosen = vertices

    def in_store(self, entry: Input) -> Input:
        """The features of what a call gives that a pass takes."""
        if self._chosen is None:
            return entry
        return replace(entry, values=entry.values[self._chosen[entry.type].to(entry.values.device)])

    def inputs(self, x: Any, samples: bool) -> list[list[Input]]:
        """What each pass of a call is given: a call has one pass, or one for each sample."""
        features = self._by_type(x)
        passes = list(self._samples(features)) if samples else [features]
        for name, values in passes[0].items():  # samples are of one shape
            self._check(name, values)
        return [
            [Input("features", self._types.index(name), values) for name, values in one.items()]
            for one in passes
        ]

    def keep(self, reads: Reads) -> None:
        """Has all later calls give as many columns of features that the graph lacks."""
        self._columns.update({one.type: one.features for one in reads.lacking if one.kind == "vertices"})

    def _by_type(self, x: Any) -> dict[str, Any]:
        if x is None:
            return {}
        if not isinstance(x, Mapping):
            if len(self._types) > 1:
                raise Refused(
                    f"x: is one {type(x).__name__}, and the graph has several vertex types: give a dict by "
                    f"{', '.join(self._types)}"
                )
            return {self._types[0]: x}
        if self._types == [""]:
            raise Refused("x: is a dict, and the graph has one vertex type: give a tensor")
        if other := [name for name in x if name not in self._types]:
            raise Refused(f"x: there is no vertex type {other[0]!r}: there are {', '.join(self._types)}")
        return dict(x)

    def _samples(self, features: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The features of each sample, by vertex type."""
        for name, x in features.items():
            if not isinstance(x, Tensor) or x.dim() != 3 or len(x) == 0:
                raise Refused(
                    f"samples: {self._called(name)} is S × V × F, a matrix of features for each sample, and "
                    f"{_kind_of(x)} was given"
                )
        if len({len(x) for x in features.values()}) != 1:
            counts = ", ".join(f"{len(x)} of {self._called(name)}" for name, x in features.items())
            raise Refused(f"samples: there are {counts or 'none'}: give as many of each vertex type")
        for rows in zip(*features.values()):
            yield dict(zip(features, rows))

    def _check(self, name: str, x: Any) -> None:
        vertices, own = self._vertices[name], self._schema.features[name]
        columns = own or self._columns.get(self._types.index(name))
        fits = isinstance(x, Tensor) and x.is_floating_point() and x.dim() == 2 and len(x) == vertices
        fits = fits and not x.is_meta and x.layout == torch.strided
        if not fits or x.shape[1] != columns and (columns or not x.shape[1]):
            raise Refused(
                f"{self._called(name)}: is {_kind_of(x)}: give floats of {vertices} vertices × "
                f"{columns or 'their'} features" + ("" if own or not columns else ", as the first call did")
            )

    def _called(self, name: str) -> str:
        return f"x[{name!r}]" if len(self._types) > 1 else "x"


def _kind_of(x: Any) -> str:
    if not isinstance(x, Tensor):
        return type(x).__name__
    return f"{x.dtype} {tuple(x.shape)} on {x.device}, {x.layout}"


#: The arguments of a net that are of edges, and what they are as inputs. Operations read all but the mask.
_OF_EDGES = {"edges": "edges", "edge_weight": "edge_weight", "edge_attr": "edge_features"}


class Edges:
    """The edges of a graph, in place of which calls give others."""

    def __init__(self, graph: Graph | Structure | None, schema: Schema) -> None:
        self._graph = graph
        self._relations = list(schema.relations.items())
        self._orders: dict[int, Tensor | None] = {}
        self._places: dict[int, Tensor] = {}
        self._ids: dict[int, Tensor] = {}
        self._numbers: Callable[[int], Tensor] | None = None
        self._chosen = False

    def give(self, numbers: Callable[[int], Tensor]) -> None:
        """Has calls give the values of some edges of each relation: those of a process among several.

        numbers: their numbers in the store, ascending.
        """
        self._numbers = numbers
        self._orders.clear()

    def choose(self, numbers: Mapping[int, Tensor]) -> None:
        """Has passes take these of the values of all edges of each relation, which calls give."""
        self.give(numbers.__getitem__)
        self._chosen = True

    def in_store(self, entry: Input) -> Input:
        """The values of what a call gives that a pass takes, in the order of the store."""
        rows, order = entry.values, self._order(entry.type)
        if self._chosen:
            rows = rows[self._ids[entry.type].to(rows.device)]
        return replace(entry, values=rows if order is None else rows[order.to(rows.device)])

    def ids(self) -> dict[tuple[str, str, str], Tensor]:
        """The edges whose values calls give, by relation: ids, ascending."""
        found = {}
        for number, (_, relation) in enumerate(self._relations):
            if not relation.batch:
                self._order(number)
                found[relation.key] = self._ids[number]
        return found

    def in_order(
        self, made: Sequence[Tensor], blocks: Iterable[Mapping[str, Any]], inputs: Iterable[Input]
    ) -> list[Tensor]:
        """The outputs of a pass, of which those of edges have the rows of its edges, in the order of the
        graph."""
        kept = {entry.type: entry.values for entry in inputs if entry.field == "edges"}
        found = []
        for output, block in zip(made, blocks):
            number = block["type"]
            if block["edges"] and (number in kept or self._order(number) is not None):
                places = self._places_of(number)
                if number in kept:
                    places = places[kept[number].to(places.device)[places]]
                output = output[places.to(output.device)]
            found.append(output)
        return found

    def _places_of(self, number: int) -> Tensor:
        """Where the edges of the graph stand in the store."""
        if number not in self._places:
            order = self._order(number)
            own = len(self._ids[number])
            self._places[number] = torch.arange(own) if order is None else torch.argsort(order)
        return self._places[number]

    def inputs(self, **arguments: Any) -> list[Input]:
        """What is given by the names of a net's arguments."""
        found = []
        for name, value in arguments.items():
            for number, rows in self._by_relation(name, value):
                found.append(Input(_OF_EDGES[name], number, self._checked(name, rows, number)))
        return found

    def check_read(self, program: Mapping[str, Any], inputs: list[Input]) -> None:
        """Refuses what a program does not read."""
        for entry in inputs:
            if entry.field != "edges" and not self._is_read(program, entry):
                name = next(name for name, what in _OF_EDGES.items() if what == entry.field)
                raise Refused(f"{name}: forward does not read it: leave it out")

    def those_read(self, program: Mapping[str, Any], inputs: list[Input]) -> list[Input]:
        """Those of inputs of all relations that a program reads; it refuses what it reads of none."""
        read = [entry for entry in inputs if entry.field == "edges" or self._is_read(program, entry)]
        self.check_read(
            program, [entry for entry in inputs if entry.field not in {one.field for one in read}]
        )
        return read

    def _is_read(self, program: Mapping[str, Any], entry: Input) -> bool:
        wanted = entry.field, self._relations[entry.type][0]
        return any((o["op"], o.get("of", "")) == wanted for o in program["operations"])

    def _by_relation(self, name: str, value: Any) -> Iterator[tuple[int, Any]]:
        if value is None:
            return
        if not isinstance(value, Mapping):
            if len(self._relations) > 1:
                raise Refused(
                    f"{name}: the graph has several relations: give a dict by (source, name, target)"
                )
            yield 0, value
            return
        keys = [relation.key for _, relation in self._relations]
        for key, rows in value.items():
            if key not in keys:
                raise Refused(
                    f"{name}: there is no relation {key!r}: the graph has {', '.join(map(str, keys))}"
                )
            yield keys.index(key), rows

    def _checked(self, name: str, rows: Any, number: int) -> Tensor:
        edges, columns = self._count(number), self._relations[number][1].features
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

    def _count(self, number: int) -> int:
        """Of how many edges a call gives values."""
        if self._numbers is None or self._chosen:
            return self._relations[number][1].edges
        self._order(number)
        return len(self._ids[number])

    def _order(self, number: int) -> Tensor | None:
        """Where the edges of the store, of which calls give values, stand among those of the graph; None:
        they have the same order."""
        if number not in self._orders:
            found = self._graph.edge_order(self._relations[number][0]) if self._graph is not None else None
            order = None if found is None else torch.from_numpy(found)
            if self._numbers is None:
                self._ids[number] = torch.arange(self._relations[number][1].edges)
            else:
                numbers = self._numbers(number)
                self._ids[number], places = torch.sort(numbers if order is None else order[numbers])
                order = None if order is None else torch.argsort(places)
            self._orders[number] = order
        return self._orders[number]
