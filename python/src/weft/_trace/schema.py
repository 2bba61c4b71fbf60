"""The types of a graph, and the names of what forward is given of it. A caller of `trace` makes a Schema;
Given names the tensors of Called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .._values import Set


@dataclass(frozen=True)
class Given:
    """What forward is given of a graph: x, edge_index, edge_attr, edge_weight, the number of each vertex's
    graph (batch), the numbers of vertices (n_id), or a table: a parameter of the module with a row for each
    vertex. A loss is given logits and labels."""

    what: str
    type_name: str = ""  # the vertex type, or the relation
    name: str = ""  # of the parameter

    @property
    def rows(self) -> Set:
        return Set("stored" if self.what.startswith("edge") else "vertices", self.type_name)

    @property
    def varies(self) -> int:
        """The dimension of its tensor that has the rows."""
        return int(self.what == "edge_index")


@dataclass(frozen=True)
class Constant:
    """A number or flag that forward is called with. Those that compare equal, as 1 and True, are others."""

    name: str  # of the argument
    kind: str
    text: str
    value: Any = field(compare=False)

    @classmethod
    def from_value(cls, name: str, value: Any) -> Constant:
        return cls(name, type(value).__name__, repr(value), value)


#: An argument of forward that is the number of graphs in a batch.
GRAPHS = "the number of graphs in the batch"


@dataclass(frozen=True)
class Schema:
    """The types of a graph: columns of features by type, and what is known of edges by relation."""

    features: dict[str, int]  # 0: none
    vertices: dict[str, int]  # 0: any number
    relations: dict[str, Relation]
    graphs: int = 1  # that are stored as one
    isolated: int = 0  # vertices without edges
    plain: bool = False  # forward takes tensors, and not dicts, though types have names
    constants: tuple[Constant, ...] = ()

    def __hash__(self) -> int:
        return hash((*self.features.items(), *self.relations.items(), self.plain, self.constants))

    @property
    def typed(self) -> bool:
        """Whether forward takes dicts by type."""
        return "" not in self.features and not self.plain

    @property
    def batches(self) -> dict[str, str]:
        """The relation from the vertices of a type to the graphs of a batch, by the type's name."""
        return {relation.source: name for name, relation in self.relations.items() if relation.batch}

    def is_of_graphs(self, name: str) -> bool:
        """Whether the vertices of a type are the graphs of a batch."""
        return any(relation.batch and relation.target == name for relation in self.relations.values())

    def of_any_size(self) -> Schema:
        """The same types with any numbers of vertices and edges."""
        return replace(
            self,
            vertices=dict.fromkeys(self.vertices, 0),
            relations={name: replace(relation, edges=0) for name, relation in self.relations.items()},
        )

    @classmethod
    def from_counts(cls, counts: Mapping[str, Any]) -> Schema:
        """Of a graph as the program inspects it."""
        graphs, isolated = int(counts.get("graphs") or 1), int(counts.get("isolated_vertices") or 0)
        if "types" not in counts:
            edge_features, edges = (int(counts.get(key) or 0) for key in ("edge_features", "edges"))
            relation = Relation("", "", None, edge_features, bool(counts.get("weighted")), edges)
            first, second = ({"": int(counts.get(key) or 0)} for key in ("features", "vertices"))
            return cls(first, second, {"": relation}, graphs, isolated)
        relations = {}
        for r in counts["relations"]:
            key = r["source"], r["name"], r["target"]
            relation = Relation(
                key[0], key[2], key, r["edge_features"], r["weighted"], int(r.get("edges") or 0)
            )
            relations["__".join(key)] = relation
        features, vertices = (
            {t["type"]: t[field] for t in counts["types"]} for field in ("features", "vertices")
        )
        return cls(features, vertices, relations, graphs, isolated)


@dataclass(frozen=True)
class Relation:
    """The edges from one type to another. key: as dicts of PyG name it."""

    source: str
    target: str
    key: Any
    features: int = 0
    weighted: bool = False
    edges: int = 0  # 0: any number
    batch: bool = False  # each vertex of the source has one edge, to its graph among those of a batch
