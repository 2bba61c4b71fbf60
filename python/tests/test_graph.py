"""Graphs in memory reach the program as files of them do: the stores have equal bytes."""

from __future__ import annotations

import copy
import json
import os
import pickle
import types
from pathlib import Path

import numpy as np
import pytest
from processes import weft as command

import weft
from weft import _arrays, _fields


def files(store):
    """The bytes of a store by file, without where it was made of."""
    found = {}
    for root, _, names in os.walk(store):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, store)] = file.read()
    description = json.loads(found["graph.json"])
    assert description.pop("provenance").startswith("npz ")
    found["graph.json"] = json.dumps(description)
    return found


def same(graph, arrays, *flags):
    """Compares the store of a graph with that of an archive of arrays."""
    np.savez("graph.npz", **arrays)
    command("import", "npz", "graph.npz", "store", *flags)
    assert files(graph.store) == files("store")


class Data:
    """Stands in for that of PyTorch Geometric, of which the name and module are looked at."""

    __module__ = "torch_geometric.data.data"

    def __init__(self, **fields):
        self.fields = fields

    def to_dict(self):
        return dict(self.fields)


def test_fields(arrays):
    random = np.random.default_rng(2)
    arrays |= {"edge_weight": random.random(300), "edge_attr": random.random((300, 2)).astype(np.float32)}
    same(weft.Graph(**arrays), arrays)


@pytest.mark.parametrize(
    "turn",
    [
        lambda e: e.astype(np.int32),
        lambda e: np.ascontiguousarray(e.T).T,
        lambda e: (e[0], e[1].astype(np.int32)),
        lambda e: e.tolist(),
        lambda e: np.repeat(e, 2, 1)[:, ::2],
    ],
    ids=["int32", "transposed", "pair", "list", "strided"],
)
def test_edges_as_they_lie(arrays, turn):
    same(weft.Graph(**arrays | {"edge_index": turn(arrays["edge_index"])}), arrays)


def test_labels_of_other_kinds(arrays):
    several = (np.arange(180).reshape(60, 3) % 2).astype(np.uint8)
    values = np.linspace(0, 1, 60) + 0.25
    splits = {
        name: np.stack([arrays[name], arrays[name]], 1) for name in ("train_mask", "val_mask", "test_mask")
    }
    for y in (several, values):
        os.system("rm -rf store")
        same(weft.Graph(**arrays | splits | {"y": y}), arrays | splits | {"y": y})


def test_changes(arrays):
    for name in ("train_mask", "val_mask", "test_mask"):
        del arrays[name]
    flags = ("--symmetrize", "--self-loops", "--split=random:50/25/25", "--splits=2", "--seed=3")
    same(
        weft.Graph(**arrays, symmetrize=True, self_loops=True, split="random:50/25/25", splits=2, seed=3),
        arrays,
        *flags,
    )


def matrix(form, shape, **arrays):
    """A sparse matrix as SciPy has it, of which NumPy is enough."""
    kind = type(f"{form}_matrix", (dict,), {"__module__": f"scipy.sparse._{form}"})  # as its dok_matrix is
    made = kind()
    made.format, made.shape, made.ndim = form, shape, 2
    for name, value in arrays.items():
        setattr(made, name, value)
    return made


def test_adjacency(arrays, monkeypatch):
    monkeypatch.setattr(_arrays, "_BLOCK", 7)  # rows are written in many blocks
    order = np.argsort(arrays["edge_index"][0], kind="stable")
    sources, targets = arrays["edge_index"][:, order]
    bounds = np.searchsorted(sources, np.arange(61))
    weights = np.random.default_rng(3).random(300).astype(np.float32)
    listed = arrays | {"edge_index": np.stack([sources, targets])}
    del arrays["edge_index"]
    adj = matrix("csr", (60, 60), indptr=bounds, indices=targets.astype(np.int32), data=weights)
    same(weft.Graph(adj=adj, **arrays), listed | {"edge_weight": weights})
    os.system("rm -rf store")
    adj = matrix("coo", (60, 60), row=sources, col=targets, data=np.ones(300))
    same(weft.Graph(adj=adj, **arrays), listed)
    os.system("rm -rf store")
    same(weft.Graph(adj=adj), {"edge_index": listed["edge_index"], "num_nodes": 60})
    os.system("rm -rf store")
    there = np.arange(300) % 7 > 0  # a stored False is an edge of weight 0
    adj = matrix("coo", (60, 60), row=sources, col=targets, data=there)
    same(weft.Graph(adj=adj, **arrays), listed | {"edge_weight": there.astype(np.float32)})
    with pytest.raises(weft.Refused, match="^adj: is a matrix of 60 × 61: it must be square$"):
        weft.Graph(adj=matrix("coo", (60, 61), row=sources, col=targets, data=np.ones(300)))


def test_sparse_features(arrays):
    x = matrix("csr", (60, 9), indptr=np.arange(61), indices=np.arange(60) % 9, data=np.arange(60) / 2)
    parts = {"x_data": x.data, "x_indices": x.indices, "x_indptr": x.indptr, "x_shape": np.array([60, 9])}
    del arrays["x"]
    same(weft.Graph(x=x, **arrays), arrays | parts)
    by_rows = _arrays.rows_of(
        _arrays.Coordinates(np.array([2, 0, 2]), np.array([5, 6, 7]), np.array([1.0, 2, 3]), (4, 9))
    )
    assert (
        by_rows.bounds.tolist() == [0, 1, 1, 3, 3]
        and by_rows.columns.tolist() == [6, 5, 7]
        and by_rows.values.tolist() == [2, 1, 3]
    )


def test_types(arrays):
    writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
    random = np.random.default_rng(4)
    edges = {
        writes: np.stack([random.integers(0, 9, 100), random.integers(0, 60, 100)]),
        cites: arrays["edge_index"],
    }
    weights = random.random(100)
    masks = {name: {"paper": arrays[name]} for name in ("train_mask", "val_mask", "test_mask")}
    graph = weft.Graph(
        edge_index=edges,
        x={"author": np.eye(9), "paper": arrays["x"]},
        y={"paper": arrays["y"]},
        edge_weight={writes: weights},
        **masks,
    )
    assert repr(graph) == "Graph(2 vertex types, 2 relations, 400 edges)"
    listed = {"vertex_types": np.array(["author", "paper"]), "edge_types": np.array([writes, cites])}
    listed |= {
        f"vertices/paper/{name}": arrays[name] for name in ("x", "y", "train_mask", "val_mask", "test_mask")
    }
    listed |= {"vertices/author/x": np.eye(9), "edges/author__writes__paper/edge_weight": weights}
    listed |= {f"edges/{'__'.join(name)}/edge_index": ids for name, ids in edges.items()}
    same(graph, listed)
    with pytest.raises(TypeError, match="^x: must be a dict by type, as the edges are$"):
        weft.Graph(edge_index=edges, x=np.eye(9))


def test_names_of_types(arrays):
    """Types and relations may have names that are none of folders: an IRI, a path, a dot in front."""
    paper, cites = (
        "http://schema.org/Paper",
        ("http://schema.org/Paper", "../cites", "http://schema.org/Paper"),
    )
    writes = (".author", "writes/edits", paper)
    graph = weft.Graph(
        edge_index={cites: arrays["edge_index"], writes: [[0, 1], [5, 7]]},
        num_nodes={".author": 4},
        x={paper: arrays["x"]},
        y={paper: arrays["y"]},
    )
    facts = json.loads((graph.store / "graph.json").read_text())
    assert [t["type"] for t in facts["vertices"]] == [paper, ".author"]
    assert [r["name"] for r in facts["relations"]] == ["../cites", "writes/edits"]
    assert np.load(
        graph.store / "edges" / "%2Eauthor__writes%2Fedits__http:%2F%2Fschema.org%2FPaper" / "indices.npy"
    ).tolist() == [0, 1]


def test_names_of_classes(arrays):
    names = np.array(["red", "green", "blue"], object)[arrays["y"]]
    names[4] = None
    graph = weft.Graph(edge_index=arrays["edge_index"], y=names)
    ids = 2 - np.array([0, 1, 2])[arrays["y"]]  # blue, green, red
    ids[4] = -1
    assert graph.classes.tolist() == ["blue", "green", "red"]
    assert np.load(graph.store / "labels.npy").tolist() == ids.tolist()
    assert json.loads((graph.store / "class_names.json").read_text()) == ["blue", "green", "red"]


class NAType:
    """Stands in for that of pandas.NA, of which even the comparison has no truth value."""

    __module__ = "pandas._libs.missing"

    def __eq__(self, _):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


@pytest.mark.parametrize("none", [None, np.nan, NAType()], ids=["None", "NaN", "NA"])
def test_labels_with_gaps(arrays, none):
    texts = np.array(["b", none, "a"], object)
    assert _arrays.array(texts, "y").tolist() == ["b", None, "a"]
    assert _arrays.array(np.array([2, none, 10], object), "y", gap=-1).tolist() == [2, -1, 10]
    column = type(
        "Series", (), {"dtype": np.dtype(np.int64), "to_numpy": lambda self: np.array([2, np.nan, 10])}
    )()  # pandas' Int64
    assert _arrays.array(column, "y", gap=-1).tolist() == [2, -1, 10] and np.isnan(
        _arrays.array(column, "x")[1]
    )
    x = _arrays.array(np.array([[2, none], [True, 0.5]], object), "x")
    assert x.dtype == np.float64 and np.isnan(x[0, 1]) and x[1].tolist() == [1, 0.5]
    ids = arrays["y"].astype(object)
    ids[3] = none
    graph = weft.Graph(edge_index=arrays["edge_index"], y=ids)
    assert (
        graph.classes is None
        and np.load(graph.store / "labels.npy").tolist()
        == np.where(np.arange(60) == 3, -1, arrays["y"]).tolist()
    )
    names = np.array(["r", "g", "b"], object)[arrays["y"]]
    names[3] = none
    assert weft.Graph(edge_index=arrays["edge_index"], y=names).classes.tolist() == ["b", "g", "r"]


def test_masked(arrays):
    """A masked label is none; elsewhere what is masked is refused."""
    mask, m = np.arange(60) % 20 == 7, np.ma.array
    for y, read in (
        (arrays["y"], np.where(mask, -1, arrays["y"])),
        (arrays["y"].astype(np.uint8), np.where(mask, -1, arrays["y"])),
        (np.array(["b", "c", "a"])[arrays["y"]], np.where(mask, -1, np.array([1, 2, 0])[arrays["y"]])),
        (arrays["x"][:, 0], np.where(mask, np.nan, arrays["x"][:, 0])[:, None]),
    ):
        graph = weft.Graph(edge_index=arrays["edge_index"], y=m(y, mask=mask))
        np.testing.assert_array_equal(np.load(graph.store / "labels.npy"), read)
    same(weft.Graph(**{name: m(value) for name, value in arrays.items()}), arrays)  # nothing is masked
    ends = np.arange(300) == 7
    for name, value, count in (
        ("x", m(arrays["x"], mask=mask[:, None].repeat(5, 1)), 15),
        ("x", [m(row, mask=k == 7) for k, row in enumerate(arrays["x"])], 5),
        ("y", m(np.eye(60, 3, dtype=int), mask=np.eye(60, 3)), 3),
        ("train_mask", m(arrays["train_mask"], mask=mask), 3),
        ("edge_index", m(arrays["edge_index"], mask=[ends, ends]), 2),
        ("edge_index", (arrays["edge_index"][0], m(arrays["edge_index"][1], mask=ends)), 1),
        ("edge_weight", m(np.ones(300), mask=ends), 1),
    ):
        are = "value is" if count == 1 else "values are"
        with pytest.raises(weft.Refused) as error:
            weft.Graph(**arrays | {name: value})
        way = "leave out what has none, or give one for each, as by .filled(0)"
        assert str(error.value) == f"{name}: {count} {are} masked: {way}"


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        (
            lambda y: (y + 1) * 10,
            "the largest class id is 30, .* the 31 classes from 0 on, and only 3 of them",
        ),
        (lambda y: y + 1, "the largest class id is 3, .*; number these from 0 to 2, as numpy.unique"),
        (lambda y: np.eye(3, dtype=int)[y], "each vertex has just one of the 3 labels"),
    ],
)
def test_doubtful_labels(arrays, change, warning):
    with pytest.warns(UserWarning, match=f"^{warning}") as warned:
        _ = weft.Graph(edge_index=arrays["edge_index"], y=change(arrays["y"])).store
    assert len(warned) == 1 and warned[0].filename == __file__


@pytest.mark.parametrize("splits", [1, 2])
def test_masks(arrays, splits):
    masks = {
        name: np.stack([arrays[name]] * splits, 1).squeeze()
        for name in ("train_mask", "val_mask", "test_mask")
    }
    graph = weft.Graph(**arrays | masks)
    for name, mask in masks.items():
        assert (getattr(graph, name) == mask).all() and getattr(graph, name).shape == mask.shape
    drawn = weft.Graph(edge_index=arrays["edge_index"], y=arrays["y"], split="random:60/20/20", splits=splits)
    ids = np.atleast_2d(np.load(drawn.store / "val.npy"))
    assert [np.flatnonzero(mask).tolist() for mask in np.atleast_2d(drawn.val_mask.T)] == ids.tolist()
    by_type = {name: {"b": arrays[name]} for name in ("x", "y", *masks)}
    typed = weft.Graph(edge_index={("a", "to", "b"): [[0, 1], [2, 3]]}, num_nodes={"a": 2}, **by_type)
    assert (typed.test_mask == arrays["test_mask"]).all()


@pytest.mark.parametrize("splits", [1, 2])
def test_masks_of_one_part(arrays, splits):
    """The other parts of each split are empty."""
    train = np.stack([arrays["train_mask"], arrays["val_mask"]], 1)[:, :splits].squeeze()
    graph = weft.Graph(edge_index=arrays["edge_index"], y=arrays["y"], train_mask=train)
    assert (graph.train_mask == train).all() and not graph.val_mask.any() and not graph.test_mask.any()


def test_masks_in_place_of_a_split(arrays):
    split = "random:50/25/25"
    with pytest.raises(
        weft.Refused,
        match=(
            "^split: train_mask and val_mask and test_mask divide the vertices; give masks, or split, and "
            "not both$"
        ),
    ):
        weft.Graph(**arrays, split=split)
    for masked in (weft.Graph(**arrays, split="given"), weft.Graph.of(Data(**arrays), split="given")):
        assert (masked.train_mask == arrays["train_mask"]).all()
    assert (
        weft.Graph.of(Data(**arrays), split=split).train_mask.sum() == 30
    )  # asked for in place of the data's


def test_written_once(arrays, monkeypatch):
    """Threads that need the store at once wait for the one that writes it."""
    graph, made = weft.Graph(**arrays), []

    def write():
        made.append(graph._lock.locked())
        return types.SimpleNamespace(path=Path("here"))

    monkeypatch.setattr(graph, "_import", write)
    assert graph.store == graph.store == Path("here/graph") and made == [True]
    assert graph._files == {}  # the arrays are not kept


def test_stays_in_its_process(arrays):
    graph = weft.Graph(**arrays)
    assert copy.deepcopy(graph) is graph and copy.copy(graph) is graph
    with pytest.raises(
        TypeError, match="^a Graph belongs to its process, and is not pickled: pickle its arrays"
    ):
        pickle.dumps(graph)
    with pytest.raises(
        TypeError,
        match=r"^a Graph is no array of rows, .*; weft\.sweep selects by validation vertices: found = ",
    ):
        np.asarray(graph)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"edge_index": np.zeros((5, 2), int)},
            r"^edge_index: has shape \(5, 2\): it must be 2 × E, sources above targets; give edge_index.T$",
        ),
        ({"edge_index": 5}, r"^edge_index: has shape \(\): it must be 2 × E"),
        (
            {"edge_index": (k for k in range(3))},
            "^edge_index: is no array of numbers or texts: it holds generator",
        ),
        (
            {"edge_index": np.array([["a"], ["b"]], object)},
            r"^edge_index: holds texts: give numbers .*pandas\.factorize .*get_indexer\(ends\)$",
        ),
        ({"edge_index": (["a"], ["b"])}, "^edge_index: holds texts: give numbers of vertices from 0"),
        (
            {"y": np.array([1, "a"] * 30, object)},
            "^y: is no array of numbers or texts: it holds int and str; give one kind",
        ),
        (
            {"edge_index": np.zeros((3, 4), int)},
            r'^array "edge_index": has shape \[3 4\]: it must be 2 × E, source and target$',
        ),
        (
            {"x": np.full((60, 2), np.nan)},
            r'^array "x": feature 0 of vertex 0 is NaN: replace values that are not finite$',
        ),
        (
            {"val_mask": np.ones(60, bool)},
            r'^array "val_mask": vertex \d+ is also in train_mask: leave it in one of them$',
        ),
        (
            {"y": np.array([0] + 59 * [-1])},
            r'^array "train_mask": vertex \d+ has no label: leave it out of the split, or give it a label$',
        ),
        ({"y": np.zeros(59, int)}, r'^array "x": has 60 rows, and "y" has 59$'),
        ({"edge_index": [[0, 60], [1, 2]]}, r"edge 1 \(60→2\) leaves the range of 60 vertices"),
        ({"x": "text"}, r"^x: has the type <U4: give numbers$"),
        ({"y": [[1, 2], [3]]}, r"^y: is no array"),
        (
            {"edge_index": ([0, 1], [1])},
            (
                r"^edge_index: \(2,\) sources of int64 and \(1,\) targets of int64: "
                "give as many integers of each$"
            ),
        ),
        (
            {"train_mask": None, "val_mask": None, "test_mask": None, "split": "half"},
            r'^split "half" is unknown; it is one of given, ',
        ),
    ],
)
def test_refused(arrays, change, line):
    with pytest.raises(weft.Refused, match=line):
        print(weft.Graph(**arrays | change).store)


def test_unknown_keyword(arrays):
    with pytest.raises(TypeError, match=r"^unknown keyword symetrize: did you mean symmetrize\?$"):
        weft.Graph(**arrays, symetrize=True)
    with pytest.raises(TypeError, match=r"^unknown keyword X: did you mean x\?$"):
        weft.Graph(edge_index=[[0], [1]], X=arrays["x"])
    with pytest.raises(TypeError, match=r"^unknown keyword zzzzzz: help\(weft.Graph\) lists them$"):
        weft.Graph(**arrays, zzzzzz=1)
    with pytest.raises(TypeError, match="^unknown keyword largest_component: it is not for Python$"):
        weft.Graph(**arrays, largest_component=True)
    with pytest.raises(TypeError, match=r"^builtins.dict is no graph: give a weft.Graph, a path, "):
        weft.train({"x": 1})


@pytest.mark.parametrize(
    ("y", "read"),
    [
        ([1.0, np.nan, 0.0], [1, -1, 0]),
        ([0.5, 1.0, 0.0], [0.5, 1, 0]),
        ([3.0, 1, 0], [3, 1, 0]),
        ([[1.0, 0]], [[1, 0]]),
    ],
)
def test_labels_that_are_floats(y, read):
    made = _fields.whole(np.array(y))
    assert made.tolist() == read and (made.dtype.kind == "i") == (read == [1, -1, 0])


def test_objects():
    assert _arrays.array(np.array([[1, 2.5]], object), "x").tolist() == [[1, 2.5]]
    assert _arrays.array(np.array([1, True], object), "x").dtype == np.int64
    assert _arrays.array(np.array([np.float32(1.5), np.int8(2)], object), "x").tolist() == [1.5, 2]
    with pytest.raises(
        weft.Refused, match="^x: is no array of numbers or texts: it holds dict; give one kind"
    ):
        _arrays.array(np.array([{}], object), "x")


def test_tensors():
    tensor = type(
        "Tensor",
        (),
        {
            "__module__": "torch",
            "dtype": "torch.float32",
            "layout": "torch.strided",
            "is_meta": False,
            "is_quantized": False,
        },
    )
    tensor.detach = tensor.cpu = tensor.resolve_conj = tensor.resolve_neg = lambda self: self
    tensor.numpy = lambda self: np.array([1.5])
    assert _arrays.array(tensor(), "x").tolist() == [1.5]
    tensor.dtype, tensor.float = (
        "torch.bfloat16",
        lambda self: types.SimpleNamespace(numpy=lambda: np.array([2.5])),
    )
    assert _arrays.array(tensor(), "x").tolist() == [2.5]
    tensor.is_quantized = True
    with pytest.raises(
        weft.Refused, match=r"^x: a tensor of torch.bfloat16 is quantized; give tensor.dequantize\(\)$"
    ):
        _arrays.array(tensor(), "x")
