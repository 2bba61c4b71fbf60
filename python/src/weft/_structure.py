"""Graphs of which a net is told in a call: numbers of vertices, and edges, without features."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _calls
from ._arrays import Array
from ._errors import Refused
from ._trace import Relation, Schema

VERTEX, EDGE = "vertex", "edge"  # the names in a graph that has one type and gives it no name


@dataclass(frozen=True, eq=False)
class Structure:
    """The vertices and edges of a graph, or of a batch of graphs.

    Args:
        vertices: how many there are of each type. A graph of one type without names has that of "".
        edges: of each relation, (source type, name, target type), 2 × E numbers of vertices.
        batch: of types of vertices, to which graph of the batch each belongs.
        size: how many graphs the batch has, of which the last may be empty; None: as batch says.
        by: what divides the vertices, of each type: positions, floats of V × D, or partitions, V whole
            numbers. Empty: the program decides.
    """

    vertices: Mapping[str, int]
    edges: Mapping[Any, Tensor]
    batch: Mapping[str, Tensor]
    size: int | None = None
    by: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def from_counts(cls, vertices: int, edges: int, graphs: int | None) -> Structure:
        """A random graph, whose vertices are those of as many graphs of a batch; None: there is no batch."""
        ends = torch.randint(vertices, (2, edges), generator=torch.Generator().manual_seed(0))
        batch = {"": torch.arange(vertices) * graphs // vertices} if graphs else {}
        return cls({"": vertices}, {("", EDGE, ""): ends}, batch)

    def check(self) -> None:
        """Refuses edges that name vertices which are not there, and numbers of graphs that are none."""
        for key, ends in self.edges.items():
            limits = self.vertices[key[0]], self.vertices[key[2]]
            _check(f"edge_index[{key!r}]" if self.typed else "edge_index", ends, limits)
        if self.size is not None and self.size < self.numbered:
            raise Refused(
                f"batch: has the number {self.numbered - 1}, and there are {self.size} graphs, numbered "
                "from 0"
            )

    @property
    def typed(self) -> bool:
        """Whether forward takes dicts by type."""
        return "" not in self.vertices

    @property
    def graphs(self) -> str:
        """The name of the type whose vertices are the graphs of the batch."""
        name = "graph"
        while name in self.vertices:
            name += "s"
        return name

    @property
    def schema(self) -> Schema:
        """The types, with counts. Features are lacking: each call gives them."""
        relations, features = {}, {self.named(name): 0 for name in self.vertices}
        vertices = {self.named(name): count for name, count in self.vertices.items()}
        for key, ends in self.edges.items():
            relations[self.relation(key)] = Relation(
                self.named(key[0]), self.named(key[2]), self.key(key), edges=ends.shape[1]
            )
        if self.batch:
            features[self.graphs], vertices[self.graphs] = 0, self.count
            for name, numbers in self.batch.items():
                key = self.named(name), "batch", self.graphs
                relations["__".join(key)] = Relation(key[0], key[2], key, edges=len(numbers), batch=True)
        return Schema(features, vertices, relations, plain=not self.typed)

    @property
    def count(self) -> int:
        """The number of graphs in the batch, as PyTorch Geometric counts them."""
        return self.numbered if self.size is None else self.size

    @property
    def numbered(self) -> int:
        """One more than the largest number of a graph."""
        return max((int(numbers.max()) + 1 for numbers in self.batch.values() if len(numbers)), default=0)

    def named(self, name: str) -> str:
        """A type's name in the program: where there is a batch, all types have one."""
        return VERTEX if self.batch and not name else name

    def relation(self, key: Any) -> str:
        """A relation's name in the program."""
        return "__".join(self.key(key) or ())

    def key(self, key: Any) -> tuple[str, str, str] | None:
        """A relation's key in the program; None: types have no names."""
        source = self.named(key[0])
        return (source, key[1], self.named(key[2])) if source else None

    def edges_by_relation(self, mask: Any) -> Any:
        """What a call gives of edges of a graph without names, by the program's names."""
        return mask if mask is None or self.typed or not self.batch else {(VERTEX, EDGE, VERTEX): mask}

    def rows_by_type(self, rows: Any) -> Any:
        """The vertices whose rows a call asks for, by the program's names."""
        return rows if rows is None or self.typed or not self.batch else {VERTEX: rows}

    def copied(self) -> Structure:
        """The same with edges in tensors of its own."""
        edges = {key: ends.clone() for key, ends in self.edges.items()}
        batch = {name: numbers.clone() for name, numbers in self.batch.items()}
        by = {name: values.clone() for name, values in self.by.items()}
        return Structure(self.vertices, edges, batch, self.size, by)

    def fingerprint(self) -> bytes:
        """A number that two graphs have in common only if they are the same. Those that differ in positions
        alone are."""
        found = hashlib.blake2b(digest_size=16)
        parts = {} if self.positions else self.by
        for what in (self.vertices, self.edges, self.batch, {"": self.size or 0}, parts):
            for name, value in what.items():
                found.update(repr((name, value if isinstance(value, int) else tuple(value.shape))).encode())
                if isinstance(value, Tensor):
                    found.update(value.contiguous().numpy().view(np.uint8).reshape(-1))
        return found.digest()

    @property
    def positions(self) -> bool:
        """Whether positions divide the vertices."""
        return any(values.is_floating_point() for values in self.by.values())

    def edge_order(self, relation: str = "") -> Array | None:
        """Where the edges by target and then by source stand in ``edge_index``; None: in the same order."""
        ends = next(ends for key, ends in self.edges.items() if self.relation(key) == relation)
        source, target = ends.numpy()
        order: Array = np.lexsort((source, target))
        return None if (order == np.arange(len(order))).all() else order

    @property
    def bytes(self) -> int:
        """About how many bytes a divided graph takes while it waits for its next call."""
        edges: int = sum(ends.shape[1] for ends in self.edges.values()) + sum(map(len, self.batch.values()))
        by: int = sum(values.nbytes for values in self.by.values())
        return _BYTES + 32 * (edges + sum(self.vertices.values())) + by

    def request(self, program: _calls.Program) -> tuple[dict[str, Any], list[_calls.Memory]]:
        """The graph as it is in the protocol, and the memory in which its edges stand."""
        schema, memories, relations = self.schema, [], []
        for source, name, target, ends in self._lists():
            memory = program.memory(max(1, ends.numel()))
            torch.from_numpy(memory.numbers.view(np.int32))[: ends.numel()].copy_(ends.reshape(-1))
            memories.append(memory)
            relations.append(
                {"source": source, "name": name, "target": target, "edges": ends.shape[1]}
                | {"memory": memory.number, "batch": target == self.graphs and bool(self.batch)}
            )
        types = [{"name": name, "vertices": count} for name, count in schema.vertices.items()]
        graph: dict[str, Any] = {"types": types, "relations": relations}
        if self.by:
            values = torch.cat([self.by[name].reshape(-1) for name in self.vertices])
            memory = program.memory(max(1, len(values)))
            memories.append(memory)
            into = memory.numbers if self.positions else memory.numbers.view(np.int32)
            torch.from_numpy(into)[: len(values)].copy_(values)
            graph["points" if self.positions else "parts"] = memory.number
            if self.positions:
                graph["dimensions"] = next(iter(self.by.values())).shape[1]
        return graph, memories

    def _lists(self) -> Iterator[tuple[str, str, str, Tensor]]:
        for key, ends in self.edges.items():
            yield *(self.key(key) or ("", "", "")), ends
        for name, numbers in self.batch.items():
            yield self.named(name), "batch", self.graphs, torch.stack([torch.arange(len(numbers)), numbers])


_BYTES = 640 << 10  # of a divided graph, beside its vertices and edges


def _check(name: str, ends: Tensor, limits: tuple[int, int]) -> None:
    """Refuses edges that name vertices which are not there."""
    if not ends.numel():
        return
    for end, numbers, count in zip(("source", "target"), ends, limits):
        low, high = (int(one) for one in torch.aminmax(numbers))
        if low < 0 or high >= count:
            wrong = ((numbers < 0) | (numbers >= count)).nonzero()[0].item()
            raise Refused(
                f"{name}: the {end} of edge {wrong} is vertex {int(numbers[wrong])}, and there are {count:,} "
                "vertices, whose numbers begin at 0"
            )
