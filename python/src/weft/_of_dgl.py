"""A DGLGraph as the arguments of Graph, or as what a call of a net gives."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ._arrays import Array, Ends, array
from ._errors import Refused
from ._fields import (
    MASKS,
    Target,
    check_target,
    first_labelled,
    is_float,
    put,
    say_left,
    take,
    warn,
    warn_of_weights,
    whole,
)


def of_dgl(graph: Any, target: Target, overrides: Collection[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    types, relations = list(graph.ntypes), list(graph.canonical_etypes)
    check_target(target, types, relations)
    for name in types:
        data = dict(graph.nodes[name].data)
        put(made, "num_nodes", name, graph.num_nodes(name))
        if (graphs := getattr(graph, "batch_size", 1)) > 1:  # dgl.batch has made it
            put(
                made, "batch", name, np.repeat(np.arange(graphs), array(graph.batch_num_nodes(name), "batch"))
            )
        put(made, "x", name, _flat(take(data, "feat", "features")))
        labels = take(data, "label", "labels")
        if labels is not None and target in (None, name):
            put(made, "y", name, whole(array(labels, "label")))
        for key in MASKS:
            put(made, key, name, data.pop(key, None))
        features = [key for key, value in data.items() if is_float(value) and len(value.shape) > 1]
        if features and "x" not in overrides and name not in made.get("x", {}):
            frame = "ndata" if len(types) == 1 else f"nodes[{name!r}].data"
            warn(
                f"{frame}[{features[0]!r}]: left out; if it is the features, give it as x: "
                "weft.Graph.of(data, x=…)"
            )
        say_left(data, name)
    links = "y" not in made  # where vertices have no labels, masks of edges are a split
    lists: dict[Any, _Edges] = {}
    for relation in relations:
        data = dict(graph.edges[relation].data)
        lists[relation] = edges = _Edges(*_ends(graph, relation))
        put(made, "edge_attr", relation, _flat(take(data, "feat", "features")))
        labels = take(data, "label", "labels")
        if labels is not None and target in (None, relation):
            put(made, "edge_y", relation, array(labels, "label"))
        if relation in made.get("edge_y", {}) or "edge_y" in overrides:
            for key in MASKS:
                put(made, "edge_" + key, relation, data.pop(key, None))
        elif links and any(key in data for key in MASKS):
            edges.divide(data)
        has = {"edge_attr"} if relation in made.get("edge_attr", {}) else set()
        frame = "edata" if len(relations) == 1 else f"edges[{relation}].data"
        warn_of_weights(data, {*has, *overrides}, len(edges.source), frame)
        say_left(data, "__".join(relation))
    for relation, edges in lists.items():
        for end, name, start in (back for back in lists if back[1] == "rev_" + relation[1] and edges.split):
            if (start, end) == (relation[0], relation[2]):
                lists[end, name, start].hold_reverses(edges)
    for relation, edges in lists.items():
        put(made, "edge_index", relation, Ends(edges.source[edges.rest], edges.target[edges.rest]))
        for key, part in edges.split.items():
            put(made, key, relation, part)
        if relation in made.get("edge_attr", {}):
            made["edge_attr"][relation] = made["edge_attr"][relation][edges.rest]
    if len(types) == 1 and len(relations) == 1:
        return {key: next(iter(by_type.values())) for key, by_type in made.items()}
    return first_labelled(made, types)


#: The fields of a graph that a forward is given, by what they are.
FIELDS = {"x": "feat", "edge_attr": "feat", "edge_weight": "weight"}


def given_of(graph: Any) -> tuple[dict[str, Any], int | None]:
    """What a call gives a forward by a DGLGraph: numbers of vertices, edges, the graph of each vertex in a
    batch, and fields. And how many graphs a batch has."""
    import torch

    if graph.is_block:
        raise Refused(
            "graph: is a block, whose targets are others than its sources: call the net with a graph"
        )
    one, types, relations = graph.is_homogeneous, list(graph.ntypes), list(graph.canonical_etypes)
    made: dict[str, dict[Any, Any]] = {
        "edge_index": {
            key: torch.from_numpy(np.stack(_ends(graph, key)).astype(np.int64)) for key in relations
        }
    }
    if graph.batch_size > 1:
        numbers = torch.arange(graph.batch_size)
        made["batch"] = {
            name: numbers.repeat_interleave(graph.batch_num_nodes(name).cpu().long()) for name in types
        }
    for what, field in FIELDS.items():
        frames = graph.nodes if what == "x" else graph.edges
        rows = {key: frames[key].data.get(field) for key in (types if what == "x" else relations)}
        dims = 1 if what == "edge_weight" else 2
        rows = {key: value for key, value in rows.items() if is_float(value) and value.dim() == dims}
        if rows:
            made[what] = rows
    vertices = {"" if one else name: graph.num_nodes(name) for name in types}
    given = {what: next(iter(rows.values())) for what, rows in made.items()} if one else made
    return {**given, "vertices": vertices}, graph.batch_size if "batch" in given else None


class _Edges:
    """The edges of a relation of DGL, and which of them carry messages."""

    def __init__(self, source: Array, target: Array):
        self.source, self.target = source, target
        self.rest: Any = slice(None)  # those that are not held out
        self.split: dict[str, Array] = {}

    def divide(self, data: dict[str, Any]) -> None:
        """Takes the masks of edges out of the data: those to predict, and others that are held out for their
        sake."""
        any_mask, seen = (np.zeros(len(self.source), bool) for _ in range(2))
        for part in ("train", "val", "test"):
            mask = self._mask(data, f"{part}_mask")
            if (mask & seen).any():
                raise Refused(f"{part}_mask: edge {int((mask & seen).argmax())} is in another mask, too")
            seen |= mask
            self.split[f"{part}_edges"] = np.stack([self.source[mask], self.target[mask]], 1)
            if part != "train":
                any_mask |= mask
        for name in ("valid_edge_mask", "test_edge_mask"):
            any_mask |= self._mask(data, name)
        self.rest = ~any_mask

    def _mask(self, data: dict[str, Any], name: str) -> Array:
        if name not in data:
            return np.zeros(len(self.source), bool)
        return array(data.pop(name), name).astype(bool)

    def hold_reverses(self, forward: _Edges) -> None:
        """Holds out the reverses of the edges that are held out of another relation."""
        pairs = np.concatenate([forward.split["val_edges"], forward.split["test_edges"]]).astype(np.int64)
        out = (pairs[:, 1] << 32) + pairs[:, 0]
        own = (self.source.astype(np.int64) << 32) + self.target
        self.rest = ~np.isin(own, out) if isinstance(self.rest, slice) else self.rest & ~np.isin(own, out)


def _ends(graph: Any, relation: Any) -> tuple[Array, Array]:
    """The sources and the targets of a graph of DGL, in the order of its edges' data."""
    if any("coo" in names for names in graph.formats().values()):
        source, target = (array(end, "edges") for end in graph.edges(etype=relation, form="uv", order="eid"))
        return source, target
    source, target, ids = (
        array(part, "edges") for part in graph.edges(etype=relation, form="all", order="srcdst")
    )
    order = np.argsort(ids)
    return source[order], target[order]


def _flat(rows: Any) -> Any:
    """Rows of any dimensions as a matrix."""
    if rows is None:
        return None
    made = array(rows, "feat")
    return made.reshape(len(made), -1) if made.ndim > 2 else made
