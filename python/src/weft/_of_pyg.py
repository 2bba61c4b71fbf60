"""Data and HeteroData of PyTorch Geometric, lists of them, and splits of edges, as the arguments of Graph."""

from __future__ import annotations

import copy
import sys
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ._arrays import Array, Ends, array, chosen, edges_of, is_of, is_sparse, sparse
from ._errors import Refused
from ._fields import (
    EDGE_LABELS,
    EDGE_MASKS,
    LINKS,
    MASKS,
    VERTEX,
    Target,
    check_target,
    first_labelled,
    log,
    say_left,
    warn,
    warn_of_weights,
    whole,
)

# The fields of which a list of graphs must have all or none.
_READ = {
    *VERTEX,
    *LINKS,
    *EDGE_LABELS,
    *EDGE_MASKS,
    "edge_index",
    "adj_t",
    "adj",
    "edge_weight",
    "edge_attr",
    "edge_type",
} - {"num_nodes"}


def together(graphs: Sequence[Any]) -> Any:
    """The graph of a list, or a batch of several, which have the same fields of those that are read."""
    if not graphs:
        raise Refused("the list of graphs is empty: give at least one graph")
    kinds = {name for name in ("Data", "HeteroData") if is_of(graphs[0], "torch_geometric", name)}
    for k, one in enumerate(graphs):
        if not any(is_of(one, "torch_geometric", name) for name in kinds):
            raise TypeError(
                f"graph {k} of the list is {type(one).__module__}.{type(one).__name__}: give Data alone, or "
                "HeteroData alone, of PyTorch Geometric; of DGL's graphs dgl.batch(graphs)"
            )
    if len(graphs) == 1:
        return graphs[0]
    fields = [_held(one) for one in graphs]
    some = fields[0].union(*fields) - fields[0].intersection(*fields)
    for key, edge_type in sorted(some, key=str):
        if key in _READ:
            there = [(key, edge_type) in has for has in fields]
            raise Refused(
                f"{key}{edge_type}: graph {there.index(False)} of {len(graphs)} has none, and graph "
                f"{there.index(True)} has; give it to all graphs or to none"
            )
    left = sorted({key for key, _ in some})
    if left:
        log.info("left out: %s of some graphs", ", ".join(left))
    try:
        return sys.modules["torch_geometric.data"].Batch.from_data_list(list(graphs), exclude_keys=left)
    except RuntimeError as err:
        raise Refused(
            f"the graphs of the list do not fit together: {str(err).splitlines()[0]}; give all the same "
            "features"
        ) from None


def _held(graph: Any) -> set[tuple[str, str]]:
    """What a graph has: the fields, and of which type, as " of paper"."""
    if not is_of(graph, "torch_geometric", "HeteroData"):
        return {(key, "") for key, value in graph.to_dict().items() if value is not None}
    names = [
        *((name, name) for name in graph.node_types),
        *((name, "__".join(name)) for name in graph.edge_types),
    ]
    return {
        (key, f" of {shown}")
        for name, shown in names
        for key, value in graph[name].items()
        if value is not None
    }


def of_one(data: Any, target: Target, overrides: Collection[str]) -> dict[str, Any]:
    """Of Data, or of HeteroData."""
    if is_of(data, "torch_geometric", "HeteroData"):
        return _hetero(data, target, overrides)
    if target is not None:
        raise Refused(f"target={target!r}: the graph has one type of vertices; leave it out")
    return _data(data, overrides)


def _data(data: Any, overrides: Collection[str]) -> dict[str, Any]:
    store = {key: value for key, value in data.to_dict().items() if value is not None}
    if "y" not in store and any(key in store for key in EDGE_LABELS):
        for key in MASKS:  # of what has labels
            if key in store:
                store.setdefault("edge_" + key, store.pop(key))
    vertices = _vertices(store, "")
    edges = _edges(store, "", "data", overrides)
    kinds = store.pop("edge_type", None)
    say_left(store, "")
    if kinds is None:
        return vertices | edges
    return _by_type(vertices, edges, array(kinds, "edge_type"))


def is_part_of_split(data: Any) -> bool:
    """Whether a graph is one of the three that ``RandomLinkSplit`` of PyTorch Geometric makes."""
    return is_of(data, "torch_geometric", "Data", "HeteroData") and any(
        map(_labelled, _edge_stores(data).values())
    )


def labels_parallel_edges(data: Any) -> bool:
    """Whether a graph of PyTorch Geometric has all edges of ``edge_label_index``, so that some stand there
    twice."""
    for store in _edge_stores(data).values():
        if "edge_label_index" in store and "edge_index" in store:
            wanted, there = _numbered(
                array(store["edge_label_index"], "edge_label_index"), array(store["edge_index"], "edge_index")
            )
            return bool(np.isin(wanted, there).all())
    return False


def _edge_stores(data: Any) -> dict[Any, Any]:
    """What edges have, by the relation; None: the only one."""
    if is_of(data, "torch_geometric", "HeteroData"):
        return {name: data[name] for name in data.edge_types}
    return {None: data.to_dict()}


_LABELS = ("edge_label", "edge_label_index")


def _labelled(store: Any) -> bool:
    return any(prefix + "edge_label_index" in store for prefix in ("", "pos_"))


def divided(parts: Sequence[Any], target: Target, overrides: Collection[str]) -> dict[str, Any]:
    """The first of three graphs of the same vertices, with the edges that each has to predict."""
    counts = [part.num_nodes for part in parts]
    if len(set(counts)) > 1:
        raise Refused(
            "edge_label_index: the parts of a split have the same vertices, and these "
            f"{', '.join(map(str, counts))}"
        )
    first = copy.copy(parts[0])
    links: dict[str, dict[Any, Array]] = {}
    for name, store in _edge_stores(parts[0]).items():
        if not _labelled(store):
            continue
        lists = [_positive_and_negative(_edge_stores(part)[name]) for part in parts]
        for part, (positive, _) in zip(("train", "val", "test"), lists):
            links.setdefault(f"{part}_edges", {})[name] = positive
        if any(len(negative) for _, negative in lists[1:]):
            for part, (_, negative) in zip(("val", "test"), lists[1:]):
                links.setdefault(f"{part}_negatives", {})[name] = negative
        edge_store = first if name is None else first[name]
        for key in (prefix + key for prefix in ("", "pos_", "neg_") for key in _LABELS):
            if key in edge_store:
                del edge_store[key]
    made = of_one(first, target, overrides)
    return made | (
        links
        if is_of(first, "torch_geometric", "HeteroData")
        else {key: pairs[None] for key, pairs in links.items()}
    )


def _positive_and_negative(store: Any) -> tuple[Array, Array]:
    """The edges to predict, N × 2, and those that are not there."""
    none = np.zeros((0, 2), np.int64)
    if "pos_edge_label_index" in store:
        negative = (
            array(store["neg_edge_label_index"], "neg_edge_label_index").T
            if "neg_edge_label_index" in store
            else none
        )
        return array(store["pos_edge_label_index"], "pos_edge_label_index").T, negative
    pairs = array(store["edge_label_index"], "edge_label_index").T
    if "edge_label" not in store:
        return pairs, none
    there = array(store["edge_label"], "edge_label") > 0
    return pairs[there], pairs[~there]


def _by_type(vertices: dict[str, Any], edges: dict[str, Any], kinds: Array) -> dict[str, Any]:
    """A relation for each type of edges that occurs, by its number."""
    if any(key in edges for key in LINKS):
        raise Refused(
            "train_edges: a split of edges does not say which edge_type each edge has: give a HeteroData, "
            "with lists for each relation"
        )
    index = edges.pop("edge_index")
    if isinstance(index, Ends) or index.ndim != 2 or kinds.shape != index.shape[1:]:
        raise Refused("edge_type: must be a number for each column of edge_index")
    made: dict[str, Any] = {key: {"vertex": value} for key, value in vertices.items()} | {"edge_index": {}}
    for kind in np.unique(kinds):
        name, mask = ("vertex", str(kind), "vertex"), kinds == kind
        made["edge_index"][name] = index[:, mask]
        for key, value in edges.items():
            made.setdefault(key, {})[name] = value[mask]
    return made


def _hetero(data: Any, target: Target, overrides: Collection[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    types = list(data.node_types)
    check_target(target, types, data.edge_types)
    for name in types:
        store = {key: value for key, value in data[name].items() if value is not None}
        if target not in (None, name):
            store.pop("y", None)
        for key, value in _vertices(store, name).items():
            made.setdefault(key, {})[name] = value
        say_left(store, name)
    for name in data.edge_types:
        store = {key: value for key, value in data[name].items() if value is not None}
        if target not in (None, name):
            for key in EDGE_LABELS:
                store.pop(key, None)
        for key, value in _edges(store, "__".join(name), f"data[{name}]", overrides).items():
            made.setdefault(key, {})[name] = value
        say_left(store, "__".join(name))
    return first_labelled(made, types)


def _vertices(store: dict[str, Any], name: str) -> dict[str, Any]:
    """Takes what vertices have out of a store."""
    made = {key: store.pop(key) for key in VERTEX if key in store}
    store.pop("ptr", None)  # says what batch says
    vertices = array(made["batch"], "batch").size if "batch" in made else None
    if "y" in made:
        labels = array(made["y"], "y")
        rows = _count({key: value for key, value in made.items() if key != "y"}) or 0
        if labels.ndim == 0 or len(labels) < rows and (vertices is not None or len(labels) == 1):
            raise Refused(
                f"y{' of ' + name if name else ''}: has a label for each graph and not for each vertex "
                f"({labels.size} for {rows or 'all'}): graph classification is not what weft does; give "
                "labels of vertices, or y=None"
            )
        made["y"] = whole(labels)
    count = _count(made)
    if not any(key in made for key in MASKS) and "train_idx" in store:
        _listed(store, made, count)
    return made


def _count(made: dict[str, Any]) -> int | None:
    if "num_nodes" in made:
        count = array(made["num_nodes"], "num_nodes")
        if count.size != 1 or count.dtype.kind not in "iu":
            raise Refused(f"num_nodes: is of {count.dtype} {count.shape}: give the number of vertices")
        return int(count.reshape(-1)[0])
    for key in ("y", "x", "batch"):
        if key in made:
            value = made[key]
            return int(value.shape[0]) if is_sparse(value) else len(np.atleast_1d(array(value, key)))
    return None


def _listed(store: dict[str, Any], made: dict[str, Any], count: int | None) -> None:
    """Masks, and labels where there are none, of lists of vertices, as Entities of PyTorch Geometric has
    them."""
    if count is None:
        raise Refused("train_idx: lists vertices of a graph without their number; give num_nodes")
    labels = np.full(count, -1, np.int64)
    for part in ("train", "val", "test"):
        if f"{part}_idx" not in store:
            continue
        ids = chosen(store.pop(f"{part}_idx"), f"{part}_idx", count, "vertices")
        mask = np.zeros(count, bool)
        mask[ids] = True
        made[f"{part}_mask"] = mask
        if "y" not in made and f"{part}_y" in store:
            label_rows = array(store.pop(f"{part}_y"), f"{part}_y")
            if label_rows.shape != ids.shape:
                raise Refused(
                    f"{part}_y: has the shape {label_rows.shape}: give a label for each of the {len(ids)} of "
                    f"{part}_idx"
                )
            labels[ids] = label_rows
    if "y" not in made and (labels >= 0).any():
        made["y"] = labels


def _edges(store: dict[str, Any], name: str, place: str, overrides: Collection[str]) -> dict[str, Any]:
    """Takes what edges have out of a store. said is how a user calls it."""
    made = {key: store.pop(key) for key in LINKS if key in store}
    for key in ("edge_index", "adj_t", "adj"):
        if key not in store:
            continue
        value = store.pop(key)
        if not is_sparse(value):
            made["edge_index"] = array(value, key)
            made |= {key: store.pop(key) for key in ("edge_weight", "edge_attr") if key in store}
            _take_labels(store, made, overrides)
            warn_of_weights(store, {*made, *overrides}, (made["edge_index"].shape or (0,))[-1], place)
            return made
        matrix = sparse(value, key)
        made["edge_index"] = edges_of(matrix, by_target=key == "adj_t")
        if matrix.values is not None:
            made["edge_weight"] = matrix.values
        for other in ("edge_weight", "edge_attr", *EDGE_LABELS):
            if other in store and other not in overrides:
                warn(
                    f"{place}.{other}: left out, as the order of its edges beside {key} is not known; give "
                    f"edge_index in place of {key}"
                )
        return made
    raise Refused(f"{name or 'the graph'}: has no edges (edge_index, adj_t or adj)")


def _take_labels(store: dict[str, Any], made: dict[str, Any], overrides: Collection[str]) -> None:
    """Takes labels of edges, and the masks of these, out of a store."""
    edges = np.atleast_2d(made["edge_index"])
    label = next((store.pop(key) for key in EDGE_LABELS if key in store), None)
    at = None if "edge_label_index" not in store else _places(_pairs(store["edge_label_index"]), edges)

    def of_edges(rows: Any, name: str, none: Any) -> Array:
        values = array(rows, name)
        if at is None or len(values) != len(at):
            return values
        if none == -1:  # which truth values and numbers without a sign do not have
            values = values.astype(np.int64)
        whole = np.full((edges.shape[1], *values.shape[1:]), none, values.dtype)
        whole[at] = values
        return whole

    if label is not None and "edge_y" not in overrides:
        labels = array(label, "edge_label")
        if "edge_label_index" in store and (at is None or (labels == labels[:1]).all()):
            return  # of others than the edges, or as RandomLinkSplit has them without negative edges
        store.pop("edge_label_index", None)
        made["edge_y"] = of_edges(labels, "edge_label", np.nan if labels.dtype.kind == "f" else -1)
    if "edge_y" in made or "edge_y" in overrides:
        for key in MASKS:
            name = next((name for name in ("edge_" + key, key) if name in store), None)
            if name is not None:
                made["edge_" + key] = of_edges(store.pop(name), name, False)


def _pairs(value: Any) -> Array:
    """The ends of the edges that edge_label_index names."""
    made = array(value, "edge_label_index")
    if made.ndim != 2 or len(made) != 2 or made.dtype.kind not in "iu":
        raise Refused(
            f"edge_label_index: is of {made.dtype} {made.shape}: give 2 × N numbers of vertices, as "
            "edge_index"
        )
    return made


def _places(some: Array, edges: Array) -> Array | None:
    """The places of some edges among all; None: one is not there, or stands there several times."""
    if some.shape == edges.shape and (some == edges).all():
        return np.arange(edges.shape[1])
    wanted, there = _numbered(some, edges)
    order = np.argsort(there, kind="stable")
    low, high = (np.searchsorted(there[order], wanted, side) for side in ("left", "right"))
    if (high - low != 1).any() or len(np.unique(wanted)) < len(wanted):
        return None
    return np.asarray(order[low])


def _numbered(some: Array, edges: Array) -> tuple[Array, Array]:
    """A number for each edge of two lists, 2 × E, by its ends."""
    rows = int(max(edges.max(initial=0), some.max(initial=0))) + 1
    first, second = (ends[0].astype(np.int64) * rows + ends[1] for ends in (some, edges))
    return first, second
