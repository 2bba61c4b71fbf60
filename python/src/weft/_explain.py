"""What a prediction rests on, as PyG's Explanation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _program, _weights
from ._arrays import Array, placed
from ._errors import Refused
from ._graph import Graph
from ._scratch import Scratch

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation, HeteroExplanation


def explanation(
    directory: Path,
    source: list[str],
    graph: Graph | None,
    target: tuple[Any, int | None],
    settings: dict[str, Any],
) -> Explanation | HeteroExplanation:
    """The explanation of a vertex or of an edge by the program, of the graph that it is given."""
    _program.check_keywords("explain", settings, taken=("edge", "help", "json", "masks", "vertex"))
    vertex, edge = target
    if vertex is not None and edge is not None:
        raise Refused(
            f"explain: one prediction is explained, of vertex {vertex} or of edge {edge}; leave one of them "
            "out"
        )
    if edge is not None and not isinstance(edge, (int, np.integer)):
        raise Refused(
            f"edge={edge!r}: give one number: that of edge_index, or of tables the column edge of "
            "run.predict(columns=…)"
        )
    try:
        import torch
        from torch_geometric.explain import Explanation, HeteroExplanation
    except ImportError as error:
        raise ImportError(
            f"explain: {error.name} is not installed; pip install torch torch_geometric", name=error.name
        ) from None
    asked = [] if vertex is None else [f"--vertex={vertex}"]
    if edge is not None:
        asked.append(f"--edge={_stored(graph, edge)}")
    told, masks = _explained(directory, source, asked, settings)
    store = Path(told["store"])
    described = json.loads((store / "graph.json").read_text(encoding="utf-8"))
    typed = (store / "vertices").exists()
    made: Any = HeteroExplanation() if typed else Explanation()
    for kind in described["vertices"]:
        name = kind["type"]
        to = made[name] if typed else made
        x = _features(store / "vertices" / name if typed else store, kind)
        if x is None:
            to.num_nodes = kind["count"]
            continue
        whole = np.zeros_like(x)
        whole[masks[f"vertices.{name}.ids"]] = masks[f"vertices.{name}.mask"][:, : x.shape[1]]
        to.x, to.node_mask = torch.from_numpy(x), torch.from_numpy(whole)
    for relation in described["relations"]:
        ends = relation["source"], relation["name"], relation["target"]
        name = "__".join(ends)
        folder = store / "edges" / name if typed else store
        to = made[ends] if typed else made
        edges, order = _edges(folder), _order(graph, name if typed else "")
        whole = np.zeros(edges.shape[1], np.float32)
        whole[masks[f"edges.{name}.numbers"]] = masks[f"edges.{name}.mask"]
        to.edge_index = torch.from_numpy(np.ascontiguousarray(placed(edges.T, order).T))
        to.edge_mask = torch.from_numpy(placed(whole, order))
        for key, field in (("edge_weight", "edge_weight"), ("edge_features", "edge_attr")):
            if (file := folder / f"{key}.npy").exists():
                to[field] = torch.from_numpy(placed(np.load(file), order))
    if "edge" in told and edge is None:  # that of the vertex which is the likeliest
        number = told["edge"]["number"]
        order = None if graph is None or graph.labelled is None else _order(graph, graph.labelled)
        edge = number if order is None else int(order[number])
    made.index = torch.tensor([told["id"] if edge is None else edge])
    if "edge.mask" in masks:
        made.own_mask = torch.from_numpy(masks["edge.mask"])
    made.score, made.logit, made.of, made.without = (
        told["score"],
        told["logit"],
        told["of"],
        told.get("without"),
    )
    made._model_args = [] if typed else [key for key in _read_of_edges(directory) if key in made]
    return made


def _read_of_edges(directory: Path) -> list[str]:
    """What a model is given of edges besides their ends, by its keywords: of a module what this reads."""
    file = directory / "program.json"
    if not file.exists():  # PyG's models pass over what they do not read
        return ["edge_weight", "edge_attr"]
    read = {operation["op"] for operation in json.loads(file.read_text(encoding="utf-8"))["operations"]}
    return [key for op, key in (("edge_weight", "edge_weight"), ("edge_features", "edge_attr")) if op in read]


def _explained(
    directory: Path, source: list[str], target: list[str], settings: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """What the program prints, and its masks."""
    flags = [_program.flag(name, value) for name, value in settings.items() if value is not None]
    scratch = Scratch()
    try:
        file = scratch.path / "masks.safetensors"
        asked = ["explain", str(directory), *source, *target, f"--masks={file}", "--json", *flags]
        return json.loads(_program.run(asked)), _weights.read(file)
    finally:
        scratch.close()


def _stored(graph: Graph | None, edge: int) -> int:
    """The number in the store of an edge of what the graph was made of."""
    order = None if graph is None or graph.labelled is None else _order(graph, graph.labelled)
    return edge if order is None or not 0 <= edge < len(order) else int(np.flatnonzero(order == edge)[0])


def _features(folder: Path, vertex_type: dict[str, Any]) -> Array | None:
    """The features of a vertex type, dense; None: it has none."""
    if (folder / "features.npy").exists():
        return np.asarray(np.load(folder / "features.npy"), np.float32)
    if not (folder / "features_indptr.npy").exists():
        return None
    indptr, indices, values = (
        np.load(folder / f"features_{part}.npy") for part in ("indptr", "indices", "data")
    )
    x = np.zeros((vertex_type["count"], vertex_type["features"]["columns"]), np.float32)
    x[np.repeat(np.arange(len(x)), np.diff(indptr)), indices] = values
    return x


def _edges(folder: Path) -> Array:
    """The edges of a relation, 2 × E, in the order of the store."""
    indptr, indices = (np.load(folder / f"{part}.npy") for part in ("indptr", "indices"))
    return np.stack([indices.astype(np.int64), np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))])


def _order(graph: Graph | None, relation: str) -> Array | None:
    """The places of the store's edges among those that the graph was made of; None: they have their order."""
    try:
        return graph.edge_order(relation) if graph is not None else None
    except Refused:  # the graph has others
        return None
