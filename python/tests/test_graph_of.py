"""Graphs of other libraries: Data of PyTorch Geometric, and graphs of DGL, as Graph.of reads them."""

from __future__ import annotations

import types
import warnings

import numpy as np
import pytest
from test_graph import Data, matrix

import weft
from weft import _convert


def test_data(arrays):
    fields = _convert.fields(Data(**arrays, name="mine", ptr=[0], edge_attr=None))
    assert fields.keys() == arrays.keys() and all((fields[name] == arrays[name]).all() for name in arrays)
    entities = _convert.fields(
        Data(
            edge_index=arrays["edge_index"],
            num_nodes=60,
            train_idx=[3, 1],
            train_y=[2, 0],
            test_idx=[5],
            test_y=[1],
        )
    )
    assert np.flatnonzero(entities["train_mask"]).tolist() == [1, 3] and np.flatnonzero(
        entities["test_mask"]
    ).tolist() == [5]
    assert entities["y"][:6].tolist() == [-1, 0, -1, 2, -1, 1]
    mask = np.arange(60) == 3
    masked = Data(edge_index=arrays["edge_index"], num_nodes=60, train_idx=mask, train_y=[2])
    assert (_convert.fields(masked)["train_mask"] == mask).all()
    for listed, why in (
        (
            {"train_idx": mask.astype(np.uint8)},
            "train_idx: holds uint8, a mask or numbers of vertices: give booleans, or",
        ),
        ({"train_idx": [3, 60]}, "train_idx: 60 is no number of 60 vertices, from 0"),
        ({"train_idx": [-1]}, "train_idx: -1 is no number of 60 vertices, from 0"),
        (
            {"train_idx": [0.5]},
            r"train_idx: has the shape \(1,\) of float64: give numbers of vertices, or 60 booleans",
        ),
        (
            {"train_idx": [1, 2], "train_y": [1]},
            r"train_y: has the shape \(1,\): give a label for each of the 2 of train_idx",
        ),
    ):
        with pytest.raises(weft.Refused, match=f"^{why}"):
            _convert.fields(Data(edge_index=arrays["edge_index"], num_nodes=60, **listed))
    for odd, why in (
        ({"num_nodes": [60, 1]}, r"num_nodes: is of int64 \(2,\): give the number of vertices"),
        ({"num_nodes": "a"}, r"num_nodes: is of <U1 \(\): give the number of vertices"),
        (
            {"edge_label": [1], "edge_label_index": 3},
            r"edge_label_index: is of int64 \(\): give 2 × N numbers of vertices",
        ),
        ({"edge_label": [1], "edge_label_index": [1, 2]}, r"edge_label_index: is of int64 \(2,\)"),
        ({"edge_label": [1], "edge_label_index": [["a"], ["b"]]}, r"edge_label_index: is of <U1 \(2, 1\)"),
    ):
        with pytest.raises(weft.Refused, match=f"^{why}"):
            _convert.fields(Data(edge_index=arrays["edge_index"], **odd))
    assert (
        _convert.fields(Data(edge_index=arrays["edge_index"], x=arrays["x"], batch=0))["batch"] == 0
    )  # the import refuses it
    by_type = _convert.fields(
        Data(
            edge_index=np.array([[0, 1, 2], [2, 1, 0]]),
            edge_type=np.array([7, 2, 7]),
            edge_weight=np.array([0.1, 0.2, 0.3]),
        )
    )
    relations = {name[1]: ids.tolist() for name, ids in by_type["edge_index"].items()}
    assert relations == {"2": [[1], [1]], "7": [[0, 2], [2, 0]]}
    assert by_type["edge_weight"]["vertex", "7", "vertex"].tolist() == [0.1, 0.3]


def test_labels_of_graphs(arrays):
    """Graph classification is refused, and an empty list."""
    batch = {"x": arrays["x"], "batch": np.arange(60) // 30}
    for y in (np.array([1, 0]), np.array([[0.5, 1], [2, 3]])):
        with pytest.raises(weft.Refused) as e:
            _convert.fields(Data(edge_index=arrays["edge_index"], y=y, **batch))
        assert str(e.value) == (
            f"y: has a label for each graph and not for each vertex ({y.size} for 60): graph classification "
            "is not what weft does; give labels of vertices, or y=None"
        )
    with pytest.raises(
        weft.Refused, match=r"^y: has a label for each graph and not for each vertex \(1 for 60\)"
    ):
        _convert.fields(Data(edge_index=arrays["edge_index"], x=arrays["x"], y=np.array([1])))
    assert _convert.fields(Data(edge_index=arrays["edge_index"], **batch)).keys() == {
        "x",
        "batch",
        "edge_index",
    }
    with pytest.raises(weft.Refused, match="^the list of graphs is empty: give at least one graph$"):
        weft.train([])
    with pytest.raises(
        TypeError,
        match=(
            "^graph 1 of the list is builtins.int: give Data alone, or HeteroData alone, of PyTorch "
            "Geometric; "
        ),
    ):
        weft.train([Data(), 3])


def test_norm_of_several_graphs(arrays):
    """A norm over all vertices would mix graphs that PyG's would not."""
    edges = arrays["edge_index"] % 30 + 30 * (np.arange(300) % 2)
    graph = weft.Graph(**arrays | {"edge_index": edges}, batch=np.arange(60) // 30)
    with pytest.raises(
        weft.Refused,
        match=(
            "norm pair: its statistics are those of one graph, and the store has 2 graphs; take batch or "
            "layer"
        ),
    ):
        weft.train(graph, norm="pair", progress=False)


def test_what_may_count_is_said(arrays):
    """A warning names what is left out and may be weights or features, at the line of the caller."""
    random = np.random.default_rng(1)
    edges = {"edge_index": arrays["edge_index"]}
    for more, line in (
        (
            {"w": random.random(300)},
            "data['w']: left out; if it counts, give it as edge_weight: weft.Graph.of(data, edge_weight=…)",
        ),
        (
            {"h": random.random((300, 2))},
            "data['h']: left out; if it counts, give it as edge_attr: weft.Graph.of(data, edge_attr=…)",
        ),
    ):
        with pytest.warns(UserWarning) as told:
            weft.Graph.of(Data(**edges, **more, year=np.arange(300), pos=random.random((60, 2))))
        assert [(str(w.message), w.filename) for w in told] == [(line, __file__)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.Graph.of(
            Data(
                **edges,
                edge_weight=random.random(300),
                w=random.random(300),
                year=np.arange(300),
                pos=random.random((60, 2)),
            )
        )
    square = matrix("csr", (60, 60), indptr=np.arange(61), indices=np.arange(60), data=np.ones(60))
    with pytest.warns(UserWarning) as told:
        made = _convert.fields(Data(adj_t=square, edge_attr=random.random((60, 2))))
    assert [str(w.message) for w in told] == [
        (
            "data.edge_attr: left out, as the order of its edges beside adj_t is not known; give edge_index "
            "in place of adj_t"
        )
    ]
    assert made.keys() == {"edge_index"}
    graph = DGLGraph()
    relation = DGLGraph.canonical_etypes[1]
    graph.edges[relation].data["w"] = np.array([0.5, 1, 2, 3])
    graph.nodes["paper"].data["h"] = np.ones((2, 3))
    with pytest.warns(UserWarning) as told:
        _convert.fields(graph)
    assert [str(w.message) for w in told] == [
        "nodes['paper'].data['h']: left out; if it is the features, give it as x: weft.Graph.of(data, x=…)",
        (
            f"edges[{relation}].data['w']: left out; if it counts, give it as edge_weight: "
            "weft.Graph.of(data, edge_weight=…)"
        ),
    ]


class DGLGraph:
    """Stands in for that of DGL."""

    __module__ = "dgl.heterograph"
    ntypes = ("author", "paper")
    canonical_etypes = (("author", "writes", "paper"), ("paper", "rev_writes", "author"))

    def __init__(self):
        writes = {
            "train_mask": [1, 0, 0, 0],
            "val_mask": [0, 1, 0, 0],
            "test_mask": [0, 0, 1, 0],
            "valid_edge_mask": [0, 0, 0, 1],
            "feat": [5, 6, 7, 8],
        }
        data = {
            "author": {"feat": np.eye(3)},
            "paper": {},
            self.canonical_etypes[0]: writes,
            self.canonical_etypes[1]: {},
        }
        self.nodes = self.edges = type(
            "view",
            (),
            {"__getitem__": lambda _, name: types.SimpleNamespace(data=data[name]), "__call__": self.ends},
        )()

    def num_nodes(self, name):
        return {"author": 3, "paper": 2}[name]

    def formats(self):
        return {"created": ["coo"]}

    def ends(self, etype, form, order):
        assert (form, order) == ("uv", "eid")
        ends = np.array([0, 1, 2, 1]), np.array([0, 0, 1, 1])
        return ends if etype == self.canonical_etypes[0] else ends[::-1]


def test_split_of_edges_of_dgl():
    """Held out edges carry no messages, nor do their reverses."""
    made = _convert.fields(DGLGraph())
    writes, back = DGLGraph.canonical_etypes
    assert (
        list(made["num_nodes"].items()) == [("author", 3), ("paper", 2)]
        and made["x"]["author"].tolist() == np.eye(3).tolist()
    )
    ends = {
        name: (edges.source.tolist(), edges.target.tolist()) for name, edges in made["edge_index"].items()
    }
    assert ends == {writes: ([0], [0]), back: ([0, 1], [0, 1])}
    assert {
        key: made[key][writes].tolist() for key in ("train_edges", "val_edges", "test_edges", "edge_attr")
    } == {
        "train_edges": [[0, 0]],
        "val_edges": [[1, 0]],
        "test_edges": [[2, 1]],
        "edge_attr": [5],
    }
    assert made.keys() == {
        "num_nodes",
        "x",
        "edge_index",
        "edge_attr",
        "train_edges",
        "val_edges",
        "test_edges",
    }
    graph = DGLGraph()
    graph.edges[writes].data["val_mask"] = [1, 1, 0, 0]
    with pytest.raises(weft.Refused, match="^val_mask: edge 0 is in another mask, too$"):
        _convert.fields(graph)
