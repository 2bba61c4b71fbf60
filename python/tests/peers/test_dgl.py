"""weft.train on graphs of DGL: the results are those of the file that save_graphs writes, to the bit."""

import warnings

import dgl
import numpy as np
import pytest
import torch

import weft

V, CLASSES = 30, 3


def rng(seed):
    return torch.Generator().manual_seed(seed)


def masks(count, seed, splits=()):
    part = torch.randint(3, (count, *splits), generator=rng(seed))
    return {name: part == i for i, name in enumerate(("train_mask", "val_mask", "test_mask"))}


def graph(edges=None, **other):
    """A directed graph with isolated vertices and equal edges. other replaces data of the vertices; None
    leaves them out."""
    edges = torch.randint(1, V - 1, (2, 80), generator=rng(1)) if edges is None else edges
    g = dgl.graph((edges[0], edges[1]), num_nodes=V)
    data = {
        "feat": torch.rand(V, 5, generator=rng(2)),
        "label": torch.randint(CLASSES, (V,), generator=rng(3)),
        **masks(V, 4),
    } | other
    for name, value in data.items():
        if value is not None:
            g.ndata[name] = value
    return g


def with_edges(g, **fields):
    for name, value in fields.items():
        g.edata[name] = value
    return g


def numbers(*shape, seed=5):
    return torch.rand(*shape, generator=rng(seed))


def several_forms():
    """A graph whose edges are not in the order of their ids in the matrix that DGL keeps."""
    g = with_edges(graph(), feat=numbers(80, 4))
    g.create_formats_()
    return g.formats("csc")


DATA = {
    "plain": (graph(), {}),
    "32-bit ids": (graph().int(), {}),
    "edge features": (with_edges(graph(), feat=numbers(80, 4)), {"model": "gine"}),
    "edge features in another order": (several_forms(), {"model": "gine"}),
    "splits": (graph(**masks(V, 6, (3,))), {"split": 2}),
    "features called features": (graph(feat=None, features=numbers(V, 7)), {}),
    "labels called labels": (graph(label=None, labels=torch.arange(V) % 4), {}),
    "features of three dimensions": (graph(feat=numbers(V, 2, 3)), {}),
    "features of float64": (graph(feat=numbers(V, 5).double()), {}),
    "labels of floats": (graph(label=(torch.arange(V) % 3).float()), {}),
    "labels of a column": (graph(label=(torch.arange(V) % 3)[:, None]), {}),
    "several labels": (graph(label=(numbers(V, 4) > 0.5).float()), {}),
    "values": (graph(label=numbers(V) * 10), {}),
    "masks of bytes": (graph(**{name: mask.byte() for name, mask in masks(V, 7).items()}), {}),
    "no features": (graph(feat=None), {"model": "gcn", "node_embedding": 4}),
    "self loops": (dgl.add_self_loop(graph()), {"model": "gat"}),
    "both directions": (dgl.to_bidirected(graph(), copy_ndata=True), {"model": "sage"}),
    "what is left out": (graph(year=torch.arange(V)), {}),
    "reordered": (dgl.reorder_graph(graph(), node_permute_algo="rcmk", store_ids=False), {}),
}


@pytest.mark.parametrize("name", DATA)
def test_graph(same, name):
    g, settings = DATA[name]
    run = same(g, "dgl", lambda path: dgl.save_graphs(str(path), [g]), **settings)
    assert len(run.logits) == V


def test_weights(same):
    """Weights are given as an array, as a flag of the import names them."""
    g = with_edges(graph(), w=numbers(80) + 0.5)
    arrays = weft.Graph(
        edge_index=g.edges(),
        x=g.ndata["feat"],
        y=g.ndata["label"],
        edge_weight=g.edata["w"],
        **{name: g.ndata[name] for name in ("train_mask", "val_mask", "test_mask")},
    )
    run = same(
        arrays,
        "dgl",
        lambda path: dgl.save_graphs(str(path), [g]),
        flags=["--edge-weights", "w"],
        model="gcn",
    )
    assert run.summary["graph"]["weighted"]


def links():
    g = graph(label=None, train_mask=None, val_mask=None, test_mask=None)
    return with_edges(g, **masks(80, 8))


def test_links(same):
    """Masks of edges are a split of the edges, where vertices have no labels."""
    g = links()
    run = same(g, "dgl", lambda path: dgl.save_graphs(str(path), [g]), task="link", model="gcn")
    counts = run.summary["links"]
    assert [counts[f"{part}_edges"] for part in ("train", "val", "test")] == [
        int(g.edata[f"{part}_mask"].sum()) for part in ("train", "val", "test")
    ]


def both_ways():
    """Each edge and its reverse, of which masks hold out some: an edge and its reverse may be in different
    ones."""
    edges = torch.randint(1, V - 1, (2, 60), generator=rng(12))
    return with_edges(
        graph(
            torch.cat([edges, edges.flip(0)], 1), label=None, train_mask=None, val_mask=None, test_mask=None
        ),
        **masks(120, 13),
    )


def held_out():
    """A heterograph whose masks hold out edges of one relation, with another one in the opposite
    direction."""
    g = hetero()
    for name in ("label", "train_mask", "val_mask", "test_mask"):
        del g.nodes["paper"].data[name]
    for name, mask in masks(50, 14).items():
        g.edges["writes"].data[name] = mask
    return g


@pytest.mark.parametrize(
    "made, settings", [(both_ways, {"model": "gcn"}), (held_out, {}), (held_out, {"model": "rgcn"})]
)
def test_held_out(same, made, settings):
    """Edges that are held out carry no messages, as in the import."""
    g = made()
    same(g, "dgl", lambda path: dgl.save_graphs(str(path), [g]), task="link", **settings)


def hetero(labelled="paper", widths=(5, 6, 7), edge_columns=0):
    counts = {"author": 20, "paper": V, "venue": 4}
    ends = (
        ("author", "writes", "paper"),
        ("paper", "by", "author"),
        ("paper", "cites", "paper"),
        ("venue", "prints", "paper"),
        ("paper", "in", "venue"),
    )
    edges = {
        (a, name, b): (
            torch.randint(counts[a], (50,), generator=rng(k)),
            torch.randint(counts[b], (50,), generator=rng(k + 50)),
        )
        for k, (a, name, b) in enumerate(ends)
    }
    g = dgl.heterograph(edges, num_nodes_dict=counts)
    for k, (name, width) in enumerate(zip(counts, widths)):
        if width:
            g.nodes[name].data["feat"] = torch.rand(counts[name], width, generator=rng(k + 10))
    g.nodes[labelled].data["label"] = torch.randint(CLASSES, (counts[labelled],), generator=rng(20))
    for name, mask in masks(counts[labelled], 21).items():
        g.nodes[labelled].data[name] = mask
    for k, name in enumerate(g.canonical_etypes if edge_columns else ()):
        g.edges[name].data["feat"] = torch.rand(50, edge_columns, generator=rng(k + 30))
    return g


HETERO = {
    "types": (hetero(), {}),
    "labels of the last type": (hetero("venue"), {}),
    "rgcn": (hetero(), {"model": "rgcn", "bases": 2}),
    "edge features": (hetero(edge_columns=4), {"model": "gatv2", "use_edge_features": True}),
    "a type without features": (hetero(widths=(5, 6, 0)), {"model": "rgcn"}),
    "no features": (hetero(widths=(0, 0, 0)), {"model": "rgcn"}),
}


@pytest.mark.parametrize("name", HETERO)
def test_heterograph(same, name):
    g, settings = HETERO[name]
    run = same(g, "dgl", lambda path: dgl.save_graphs(str(path), [g]), **settings)
    (labelled,) = (t for t in g.ntypes if "label" in g.nodes[t].data)
    assert len(run.logits) == g.num_nodes(labelled)


def test_order_of_vertices(same, tmp_path):
    """Row v of the logits is vertex v of the graph."""
    g = graph()
    run = same(g, "dgl", lambda path: dgl.save_graphs(str(path), [g]), dropout=0)
    order = torch.randperm(V, generator=rng(9))
    moved = weft.train(
        dgl.node_subgraph(g, order), epochs=3, hidden=8, dropout=0, out=tmp_path / "moved", progress=False
    )
    np.testing.assert_allclose(moved.logits, run.logits[order], atol=1e-4)


class Whole(dgl.data.DGLDataset):
    """A data set of one graph."""

    def __init__(self, g):
        self.graph = g
        super().__init__("whole")

    def process(self):
        pass

    def __getitem__(self, k):
        return [self.graph][k]

    def __len__(self):
        return 1


def test_dataset(tmp_path):
    """A data set of one graph is that graph."""
    g = graph()
    runs = [
        weft.train(data, epochs=2, out=tmp_path / f"{k}", progress=False)
        for k, data in enumerate((g, Whole(g)))
    ]
    assert runs[0].logits.tobytes() == runs[1].logits.tobytes()


def test_batch(tmp_path):
    """A batch of graphs is one graph, which knows its graphs."""
    run = weft.train(
        dgl.batch([graph(), graph(feat=numbers(V, 5))]), epochs=2, out=tmp_path / "batch", progress=False
    )
    assert len(run.logits) == 2 * V
    three = weft.Graph.of(dgl.batch([graph(), graph(), graph()]))
    assert np.load(three.store / "graph_ids.npy").tolist() == np.repeat([0, 1, 2], V).tolist()
    with pytest.raises(
        weft.Refused, match="norm graph: its statistics are those of one graph, and the store has 2 graphs"
    ):
        weft.train(dgl.batch([graph(), graph()]), norm="graph", progress=False)


def test_what_is_left_out(tmp_path):
    """Weights of edges, which DGL has under any name, are left out with a warning, and taken as
    edge_weight."""
    g = with_edges(graph(), w=numbers(80) + 0.5)
    settings = {"model": "gcn", "epochs": 3, "hidden": 8, "progress": False}
    with pytest.warns(UserWarning) as told:
        plain = weft.train(g, out=tmp_path / "plain", **settings)
    assert [(str(w.message), w.filename) for w in told] == [
        (
            "edata['w']: left out; if it counts, give it as edge_weight: weft.Graph.of(data, edge_weight=…)",
            __file__,
        )
    ]
    assert plain.summary["losses"] == weft.train(graph(), out=tmp_path / "none", **settings).summary["losses"]
    data = {"x": g.ndata["feat"], "y": g.ndata["label"], **masks(V, 4)}
    arrays = weft.Graph(edge_index=g.edges(), edge_weight=g.edata["w"], **data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weighted = weft.Graph.of(g, edge_weight=g.edata["w"])
    assert (
        repr(weft.Graph.of(g, edge_weight=g.edata["w"], x=numbers(V, 9)))
        == "Graph(30 vertices, 80 edges, 9 features)"
    )
    runs = [
        weft.train(source, out=tmp_path / str(k), **settings) for k, source in enumerate((weighted, arrays))
    ]
    assert runs[0].summary["losses"] == runs[1].summary["losses"] != plain.summary["losses"]


def test_labels_of_edges(tmp_path):
    """edata["label"] and its masks are edge_y and its masks, in the order of the edges' ids."""
    bare = graph(label=None, train_mask=None, val_mask=None, test_mask=None)
    divided = masks(80, 7)
    label = torch.randint(CLASSES, (80,), generator=rng(6))
    settings = {"task": "edge", "hidden": 8, "epochs": 3, "progress": False}
    want = weft.train(
        weft.Graph(
            edge_index=torch.stack(bare.edges()),
            x=bare.ndata["feat"],
            edge_y=label,
            **{"edge_" + name: mask for name, mask in divided.items()},
        ),
        **settings,
    )
    got = weft.train(with_edges(bare, label=label, **divided), **settings)
    assert (got.logits == want.logits).all() and got.summary["test"] == want.summary["test"]
    saved = tmp_path / "g.bin"
    dgl.save_graphs(str(saved), [with_edges(bare, label=label, **divided)])
    read = weft.train(saved, edge_label="label", out=tmp_path / "run", **settings)
    assert read.summary["losses"] == want.summary["losses"] and read.summary["test"] == want.summary["test"]
    assert (read.logits == np.load(want.directory / "predictions.npy")).all()
