"""Graphs of PyTorch Geometric and DGL as the arguments of Graph. Neither library is imported."""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._arrays import Array, Ends, array, edges_of, is_of, is_sparse, sparse
from ._errors import Refused

log = logging.getLogger("weft")

_MASKS = ("train_mask", "val_mask", "test_mask")
_VERTEX = ("num_nodes", "x", "y", *_MASKS, "batch")
_LINKS = (
    *("train_edges", "val_edges", "test_edges", "val_negatives", "test_negatives"),
    *("val_negative_targets", "test_negative_targets"),
)
_EDGE_MASKS = tuple("edge_" + name for name in _MASKS)
_EDGE_LABELS = ("edge_y", "edge_label")
# The fields of which a list of graphs must have all or none.
_READ = {*_VERTEX, *_LINKS, *_EDGE_LABELS, *_EDGE_MASKS, "edge_index", "adj_t", "adj", "edge_weight", "edge_attr", "edge_type"} - {
    "num_nodes"
}


Target = str | tuple[str, str, str] | None


def fields(data: Any, target: Target = None, given: Collection[str] = ()) -> dict[str, Any]:
    """The arguments of Graph for a graph of another library.

    Args:
        data: the graph.
        target: the vertex type, or the relation, whose labels are learned, if several have some.
        given: arguments of Graph that have a value, in place of which nothing is missing.

    Raises:
        TypeError: it is no graph that is known.
    """
    if is_of(data, "torch_geometric", "Dataset"):
        data = [data[k] for k in range(len(data))]
    elif is_of(data, "dgl", "DGLDataset") and len(data) == 1:
        data = data[0]
    if isinstance(data, Sequence) and len(data) == 3 and all(map(is_part_of_split, data)):
        return _divided(data, target, given)
    if isinstance(data, Sequence) and not isinstance(data, str):
        data = _together(data)
    if is_of(data, "torch_geometric", "HeteroData"):
        return _hetero(data, target, given)
    if is_of(data, "dgl", "DGLGraph"):
        return _dgl(data, target, given)
    if is_of(data, "torch_geometric", "Data"):
        if target is not None:
            raise Refused(f"target={target!r}: the graph has one type of vertices; leave it out")
        return _data(data, given)
    what = "None" if data is None else f"{type(data).__module__}.{type(data).__name__}"
    raise TypeError(
        f"{what} is no graph: give a weft.Graph, a path, Data or HeteroData of PyTorch Geometric, or a DGLGraph"
    )


def _together(graphs: Sequence[Any]) -> Any:
    """The graph of a list, or a batch of several, which have the same fields of those that are read."""
    if not graphs:
        raise Refused("the list of graphs is empty: give at least one graph")
    kinds = {name for name in ("Data", "HeteroData") if is_of(graphs[0], "torch_geometric", name)}
    for k, one in enumerate(graphs):
        if not any(is_of(one, "torch_geometric", name) for name in kinds):
            raise TypeError(
                f"graph {k} of the list is {type(one).__module__}.{type(one).__name__}: give Data alone, or HeteroData alone, of PyTorch Geometric; of DGL's graphs dgl.batch(graphs)"
            )
    if len(graphs) == 1:
        return graphs[0]
    held = [_held(one) for one in graphs]
    some = held[0].union(*held) - held[0].intersection(*held)
    for key, of in sorted(some, key=str):
        if key in _READ:
            there = [(key, of) in has for has in held]
            raise Refused(
                f"{key}{of}: graph {there.index(False)} of {len(graphs)} has none, and graph {there.index(True)} has; give it to all graphs or to none"
            )
    left = sorted({key for key, _ in some})
    if left:
        log.info("left out: %s of some graphs", ", ".join(left))
    try:
        return sys.modules["torch_geometric.data"].Batch.from_data_list(list(graphs), exclude_keys=left)
    except RuntimeError as err:
        raise Refused(
            f"the graphs of the list do not fit together: {str(err).splitlines()[0]}; give all the same features"
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


def _data(data: Any, given: Collection[str]) -> dict[str, Any]:
    store = {key: value for key, value in data.to_dict().items() if value is not None}
    if "y" not in store and any(key in store for key in _EDGE_LABELS):
        for key in _MASKS:  # of what has labels
            if key in store:
                store.setdefault("edge_" + key, store.pop(key))
    vertices = _vertices(store, "")
    edges = _edges(store, "", "data", given)
    kinds = store.pop("edge_type", None)
    _say_left(store, "")
    if kinds is None:
        return vertices | edges
    return _by_type(vertices, edges, array(kinds, "edge_type"))


def is_part_of_split(data: Any) -> bool:
    """Whether a graph is one of the three that ``RandomLinkSplit`` of PyTorch Geometric makes."""
    return is_of(data, "torch_geometric", "Data", "HeteroData") and any(
        map(_labelled, _edge_stores(data).values())
    )


def labels_parallel_edges(data: Any) -> bool:
    """Whether a graph of PyTorch Geometric has all edges of ``edge_label_index``, so that some stand there twice."""
    for store in _edge_stores(data).values():
        if "edge_label_index" in store and "edge_index" in store:
            wanted, there = _numbered(array(store["edge_label_index"], "edge_label_index"), array(store["edge_index"], "edge_index"))
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


def _divided(parts: Sequence[Any], target: Target, given: Collection[str]) -> dict[str, Any]:
    """The first of three graphs of the same vertices, with the edges that each has to predict."""
    counts = [part.num_nodes for part in parts]
    if len(set(counts)) > 1:
        raise Refused(
            f"edge_label_index: the parts of a split have the same vertices, and these {', '.join(map(str, counts))}"
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
        of = first if name is None else first[name]
        for key in (prefix + key for prefix in ("", "pos_", "neg_") for key in _LABELS):
            if key in of:
                del of[key]
    made = fields(first, target, given)
    return made | (
        links
        if is_of(first, "torch_geometric", "HeteroData")
        else {key: of[None] for key, of in links.items()}
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
    if any(key in edges for key in _LINKS):
        raise Refused(
            "train_edges: a split of edges does not say which edge_type each edge has: give a HeteroData, with lists for each relation"
        )
    index = edges.pop("edge_index")
    if isinstance(index, Ends) or index.ndim != 2 or kinds.shape != index.shape[1:]:
        raise Refused("edge_type: must be a number for each column of edge_index")
    made: dict[str, Any] = {key: {"vertex": value} for key, value in vertices.items()} | {"edge_index": {}}
    for kind in np.unique(kinds):
        name, of = ("vertex", str(kind), "vertex"), kinds == kind
        made["edge_index"][name] = index[:, of]
        for key, value in edges.items():
            made.setdefault(key, {})[name] = value[of]
    return made


def _hetero(data: Any, target: Target, given: Collection[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    types = list(data.node_types)
    _check_target(target, types, data.edge_types)
    for name in types:
        store = {key: value for key, value in data[name].items() if value is not None}
        if target not in (None, name):
            store.pop("y", None)
        for key, value in _vertices(store, name).items():
            made.setdefault(key, {})[name] = value
        _say_left(store, name)
    for name in data.edge_types:
        store = {key: value for key, value in data[name].items() if value is not None}
        if target not in (None, name):
            for key in _EDGE_LABELS:
                store.pop(key, None)
        for key, value in _edges(store, "__".join(name), f"data[{name}]", given).items():
            made.setdefault(key, {})[name] = value
        _say_left(store, "__".join(name))
    return _first_labelled(made, types)


def _check_target(target: Target, types: Collection[Any], relations: Collection[Any]) -> None:
    if target is not None and target not in types and target not in relations:
        raise Refused(f"target={target!r}: its types are {', '.join(types)}, and its relations {', '.join(map(str, relations))}")


def _first_labelled(made: dict[str, Any], types: list[str]) -> dict[str, Any]:
    """The arguments, with a number of vertices first that names the types in their order, and refused
    labels."""
    labelled = list(made.get("y", {}))
    if len(labelled) > 1:
        raise Refused(
            f"the types {', '.join(labelled)} have labels (y): choose one by weft.Graph.of(data, target=…)"
        )
    relations = list(made.get("edge_y", {}))
    if len(relations) > 1:
        raise Refused(
            f"the relations {' and '.join(map(str, relations))} have labels of edges: choose one by weft.Graph.of(data, target=…)"
        )
    for key in _MASKS:  # splits are of the type with labels
        if key in made:
            made[key] = {name: mask for name, mask in made[key].items() if name in (labelled or types[:1])}
    return {"num_nodes": dict.fromkeys(types) | made.pop("num_nodes", {})} | made


def _vertices(store: dict[str, Any], name: str) -> dict[str, Any]:
    """Takes what vertices have out of a store."""
    made = {key: store.pop(key) for key in _VERTEX if key in store}
    store.pop("ptr", None)  # says what batch says
    vertices = len(made["batch"]) if "batch" in made else None
    if "y" in made:
        labels = array(made["y"], "y")
        rows = _count({key: value for key, value in made.items() if key != "y"}) or 0
        if labels.ndim == 0 or len(labels) < rows and (vertices is not None or len(labels) == 1):
            raise Refused(
                f"y{' of ' + name if name else ''}: has a label for each graph and not for each vertex ({labels.size} for {rows or 'all'}): graph classification is not what weft does; give labels of vertices, or y=None"
            )
        made["y"] = whole(labels)
    count = _count(made)
    if not any(key in made for key in _MASKS) and "train_idx" in store:
        _listed(store, made, count)
    return made


def _count(made: dict[str, Any]) -> int | None:
    for key in ("num_nodes", "y", "x", "batch"):
        if key in made:
            return int(made[key]) if key == "num_nodes" else int(made[key].shape[0])
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
        ids = array(store.pop(f"{part}_idx"), f"{part}_idx")
        mask = np.zeros(count, bool)
        mask[ids] = True
        made[f"{part}_mask"] = mask
        if "y" not in made and f"{part}_y" in store:
            labels[ids] = array(store.pop(f"{part}_y"), f"{part}_y")
    if "y" not in made and (labels >= 0).any():
        made["y"] = labels


def whole(y: Array) -> Array:
    """Class ids that are floats, as integers with −1 for NaN; any other labels as they are."""
    if y.dtype.kind != "f" or y.ndim == 2 and y.shape[1] != 1 or y.ndim not in (1, 2):
        return y
    there = ~np.isnan(y)
    if not ((y == np.trunc(y)) & (y >= -1) & (y < len(y)) | ~there).all():
        return y
    log.info("y: floats, all of them whole numbers: read as class ids")
    return np.where(there, y, -1).astype(np.int64)


def _edges(store: dict[str, Any], name: str, said: str, given: Collection[str]) -> dict[str, Any]:
    """Takes what edges have out of a store. said is how a user calls it."""
    made = {key: store.pop(key) for key in _LINKS if key in store}
    for key in ("edge_index", "adj_t", "adj"):
        if key not in store:
            continue
        value = store.pop(key)
        if not is_sparse(value):
            made["edge_index"] = array(value, key)
            made |= {key: store.pop(key) for key in ("edge_weight", "edge_attr") if key in store}
            _take_labels(store, made, given)
            _warn_of_weights(store, {*made, *given}, (made["edge_index"].shape or (0,))[-1], said)
            return made
        matrix = sparse(value, key)
        made["edge_index"] = edges_of(matrix, by_target=key == "adj_t")
        if matrix.values is not None:
            made["edge_weight"] = matrix.values
        for other in ("edge_weight", "edge_attr", *_EDGE_LABELS):
            if other in store and other not in given:
                _warn(
                    f"{said}.{other}: left out, as the order of its edges beside {key} is not known; give edge_index in place of {key}"
                )
        return made
    raise Refused(f"{name or 'the graph'}: has no edges (edge_index, adj_t or adj)")


def _take_labels(store: dict[str, Any], made: dict[str, Any], given: Collection[str]) -> None:
    """Takes labels of edges, and the masks of these, out of a store."""
    edges = np.atleast_2d(made["edge_index"])
    label = next((store.pop(key) for key in _EDGE_LABELS if key in store), None)
    at = None if "edge_label_index" not in store else _places(array(store["edge_label_index"], "edge_label_index"), edges)

    def of_edges(rows: Any, name: str, none: Any) -> Array:
        of = array(rows, name)
        if at is None or len(of) != len(at):
            return of
        if none == -1:  # which truth values and numbers without a sign do not have
            of = of.astype(np.int64)
        whole = np.full((edges.shape[1], *of.shape[1:]), none, of.dtype)
        whole[at] = of
        return whole

    if label is not None and "edge_y" not in given:
        labels = array(label, "edge_label")
        if "edge_label_index" in store and (at is None or (labels == labels[:1]).all()):
            return  # of others than the edges, or as RandomLinkSplit has them without negative edges
        store.pop("edge_label_index", None)
        made["edge_y"] = of_edges(labels, "edge_label", np.nan if labels.dtype.kind == "f" else -1)
    if "edge_y" in made or "edge_y" in given:
        for key in _MASKS:
            name = next((name for name in ("edge_" + key, key) if name in store), None)
            if name is not None:
                made["edge_" + key] = of_edges(store.pop(name), name, False)


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


def _say_left(store: Mapping[str, Any], name: str) -> None:
    if store:
        log.info("left out: %s%s", ", ".join(map(str, store)), f" of {name}" if name else "")


def _warn_of_weights(store: Mapping[str, Any], has: Collection[str], edges: int, said: str) -> None:
    """Warns of what is left out and may be weights or features of edges, if there are none."""
    for key, value in store.items():
        shape = tuple(value.shape) if _is_float(value) else ()
        if shape[:1] != (edges,):
            continue
        wanted = "edge_weight" if len(shape) == 1 or shape[1:] == (1,) else "edge_attr"
        if wanted not in has:
            _warn(
                f"{said}[{key!r}]: left out; if it counts, give it as {wanted}: weft.Graph.of(data, {wanted}=…)"
            )


def _is_float(value: Any) -> bool:
    return "float" in str(getattr(value, "dtype", ""))


def _warn(text: str) -> None:
    """Warns at the line of the user that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and Path(frame.f_code.co_filename).parent == Path(__file__).parent:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def _dgl(graph: Any, target: Target, given: Collection[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    types, relations = list(graph.ntypes), list(graph.canonical_etypes)
    _check_target(target, types, relations)
    for name in types:
        data = dict(graph.nodes[name].data)
        _put(made, "num_nodes", name, graph.num_nodes(name))
        if (graphs := getattr(graph, "batch_size", 1)) > 1:  # dgl.batch has made it
            _put(
                made, "batch", name, np.repeat(np.arange(graphs), array(graph.batch_num_nodes(name), "batch"))
            )
        _put(made, "x", name, _flat(_take(data, "feat", "features")))
        labels = _take(data, "label", "labels")
        if labels is not None and target in (None, name):
            _put(made, "y", name, whole(array(labels, "label")))
        for key in _MASKS:
            _put(made, key, name, data.pop(key, None))
        features = [key for key, value in data.items() if _is_float(value) and len(value.shape) > 1]
        if features and "x" not in given and name not in made.get("x", {}):
            of = "ndata" if len(types) == 1 else f"nodes[{name!r}].data"
            _warn(
                f"{of}[{features[0]!r}]: left out; if it is the features, give it as x: weft.Graph.of(data, x=…)"
            )
        _say_left(data, name)
    links = "y" not in made  # where vertices have no labels, masks of edges are a split
    lists: dict[Any, _Edges] = {}
    for relation in relations:
        data = dict(graph.edges[relation].data)
        lists[relation] = edges = _Edges(*_ends(graph, relation))
        _put(made, "edge_attr", relation, _flat(_take(data, "feat", "features")))
        labels = _take(data, "label", "labels")
        if labels is not None and target in (None, relation):
            _put(made, "edge_y", relation, array(labels, "label"))
        if relation in made.get("edge_y", {}) or "edge_y" in given:
            for key in _MASKS:
                _put(made, "edge_" + key, relation, data.pop(key, None))
        elif links and any(key in data for key in _MASKS):
            edges.divide(data)
        has = {"edge_attr"} if relation in made.get("edge_attr", {}) else set()
        of = "edata" if len(relations) == 1 else f"edges[{relation}].data"
        _warn_of_weights(data, {*has, *given}, len(edges.source), of)
        _say_left(data, "__".join(relation))
    for relation, edges in lists.items():
        for end, name, start in (back for back in lists if back[1] == "rev_" + relation[1] and edges.split):
            if (start, end) == (relation[0], relation[2]):
                lists[end, name, start].hold_reverses(edges)
    for relation, edges in lists.items():
        _put(made, "edge_index", relation, Ends(edges.source[edges.rest], edges.target[edges.rest]))
        for key, part in edges.split.items():
            _put(made, key, relation, part)
        if relation in made.get("edge_attr", {}):
            made["edge_attr"][relation] = made["edge_attr"][relation][edges.rest]
    if len(types) == 1 and len(relations) == 1:
        return {key: next(iter(by_type.values())) for key, by_type in made.items()}
    return _first_labelled(made, types)


class _Edges:
    """The edges of a relation of DGL, and which of them carry messages."""

    def __init__(self, source: Array, target: Array):
        self.source, self.target = source, target
        self.rest: Any = slice(None)  # those that are not held out
        self.split: dict[str, Array] = {}

    def divide(self, data: dict[str, Any]) -> None:
        """Takes the masks of edges out of the data: those to predict, and others that are held out for their
        sake."""
        held, seen = (np.zeros(len(self.source), bool) for _ in range(2))
        for part in ("train", "val", "test"):
            mask = self._mask(data, f"{part}_mask")
            if (mask & seen).any():
                raise Refused(f"{part}_mask: edge {int((mask & seen).argmax())} is in another mask, too")
            seen |= mask
            self.split[f"{part}_edges"] = np.stack([self.source[mask], self.target[mask]], 1)
            if part != "train":
                held |= mask
        for name in ("valid_edge_mask", "test_edge_mask"):
            held |= self._mask(data, name)
        self.rest = ~held

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


def _put(made: dict[str, Any], key: str, name: Any, value: Any) -> None:
    if value is not None:
        made.setdefault(key, {})[name] = value


def _take(data: dict[str, Any], *names: str) -> Any:
    for name in names:
        if name in data:
            return data.pop(name)
    return None


def _flat(rows: Any) -> Any:
    """Rows of any dimensions as a matrix."""
    if rows is None:
        return None
    made = array(rows, "feat")
    return made.reshape(len(made), -1) if made.ndim > 2 else made
