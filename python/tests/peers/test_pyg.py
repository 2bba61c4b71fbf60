"""weft.train on graphs of PyTorch Geometric: the results are those of the file that torch.save writes, to the
bit."""

import numpy as np
import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.utils import add_remaining_self_loops, to_undirected

import weft
from weft._arrays import array

V, CLASSES = 30, 3


def masks(count, rng, splits=()):
    part = torch.randint(3, (count, *splits), generator=rng)
    return {name: part == i for i, name in enumerate(("train_mask", "val_mask", "test_mask"))}


def graph(**other):
    """A directed graph with isolated vertices, equal edges and self loops. other replaces its fields."""
    rng = torch.Generator().manual_seed(1)
    edges = torch.randint(1, V - 1, (2, 80), generator=rng)
    edges = torch.cat([edges, edges[:, :3]], 1)
    data = Data(
        x=torch.rand(V, 5, generator=rng),
        edge_index=edges,
        y=torch.randint(CLASSES, (V,), generator=rng),
        **masks(V, rng),
    )
    for name, value in other.items():
        data[name] = value
    return data


def numbers(*shape, seed=2):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def transposed():
    """The edges as the matrix by target that PyG makes without torch_sparse."""
    return T.ToSparseTensor(attr=None)(graph())


def of_values():
    data = T.ToSparseTensor(attr="edge_weight")(graph(edge_weight=numbers(83) + 0.5))
    assert not torch.equal(data.adj_t.values(), torch.ones(83))
    return data


def listed():
    """Labels and a split of listed vertices, as PyG's Entities has them."""
    data = graph(
        train_idx=torch.tensor([4, 9, 2, 7]),
        train_y=torch.tensor([0, 2, 1, 1]),
        test_idx=torch.tensor([5, 1]),
        test_y=torch.tensor([2, 0]),
        num_nodes=V,
    )
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        del data[name]
    return data


def one_test():
    """Four splits, which share the test vertices."""
    test = torch.arange(V) % 3 == 0
    several = masks(V, torch.Generator().manual_seed(5), (4,))
    return {name: mask & ~test[:, None] for name, mask in several.items() if name != "test_mask"} | {
        "test_mask": test
    }


def without(*names, **other):
    data = graph(**other)
    for name in names:
        del data[name]
    return data


Y = graph().y
MISSING = torch.where(torch.arange(V) % 5 == 0, torch.nan, Y.float())
DATA = {
    "plain": (graph(), {}),
    "weights": (graph(edge_weight=numbers(83)), {"model": "gcn"}),
    "edge features": (graph(edge_attr=numbers(83, 4)), {"model": "gine"}),
    "edge features of a vector": (
        graph(edge_attr=numbers(83)),
        {"model": "gatv2", "use_edge_features": True},
    ),
    "edge features and weights": (graph(edge_attr=numbers(83, 2), edge_weight=numbers(83)), {"model": "gcn"}),
    "splits": (graph(**masks(V, torch.Generator().manual_seed(5), (4,))), {"split": 2}),
    "splits with one test": (graph(**one_test()), {"split": 3}),
    "masks of numbers": (
        graph(**{name: mask.byte() for name, mask in masks(V, torch.Generator().manual_seed(6)).items()}),
        {},
    ),
    "training alone": (without("val_mask", "test_mask"), {}),
    "labels of a column": (graph(y=Y[:, None]), {}),
    "labels of floats": (
        graph(
            y=MISSING,
            **{
                name: mask & ~MISSING.isnan()
                for name, mask in masks(V, torch.Generator().manual_seed(7)).items()
            },
        ),
        {},
    ),
    "labels of bytes": (graph(y=Y.to(torch.uint8)), {}),
    "several labels": (graph(y=(numbers(V, 4) > 0.5).float()), {}),
    "several labels of integers": (graph(y=(numbers(V, 4) > 0.5).long()), {}),
    "values": (graph(y=numbers(V) * 10), {}),
    "values of columns": (graph(y=numbers(V, 2) * 10), {}),
    **(
        {
            "matrix by target": (transposed(), {}),
            "weights in a matrix": (of_values(), {"model": "gcn"}),
        }
        if torch.__version__ >= "2"  # before, torch.save writes a csr matrix in a form that is not read
        else {}
    ),
    "matrix by source": (
        without("edge_index", adj=torch.sparse_coo_tensor(graph().edge_index, torch.ones(83), (V, V))),
        {},
    ),
    "EdgeIndex": (graph(edge_index=EdgeIndex(graph().edge_index, sparse_size=(V, V))), {}),
    "32-bit ids": (graph(edge_index=graph().edge_index.int()), {}),
    "edges in another layout": (graph(edge_index=graph().edge_index.t().contiguous().t()), {}),
    "types of edges": (graph(edge_type=torch.arange(83) % 4 * 2), {"model": "rgcn"}),
    "types of edges with features": (
        graph(edge_type=torch.arange(83) % 2, edge_attr=numbers(83, 3)),
        {"model": "gine"},
    ),
    "no features": (without("x", num_nodes=V), {"model": "gcn", "node_embedding": 4}),
    "lists of vertices": (listed(), {}),
    "sparse features by rows": (graph(x=(numbers(V, 5) * (numbers(V, 5, seed=3) > 0.7)).to_sparse_csr()), {}),
    "sparse features of a list": (
        graph(x=(numbers(V, 5) * (numbers(V, 5, seed=3) > 0.7)).to_sparse_coo()),
        {},
    ),
    "features mostly zero": (graph(x=numbers(V, 40) * (numbers(V, 40, seed=3) > 0.9)), {}),
    **{
        f"features of {kind}": (graph(x=(numbers(V, 5) * 8).to(kind)), {})
        for kind in (
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int64,
            torch.int32,
            torch.uint8,
            torch.bool,
        )
    },
    "features with a gradient": (graph(x=numbers(V, 5).requires_grad_()), {}),
    "what is left out": (graph(pos=numbers(V, 2), name="a graph", year=torch.arange(V)), {}),
    "a batch": (Batch.from_data_list([graph(), graph(x=numbers(V, 5))]), {}),
    "links": (
        without(
            "y",
            "train_mask",
            "val_mask",
            "test_mask",
            train_edges=graph().edge_index[:, :60].t(),
            val_edges=graph().edge_index[:, 60:70].t(),
            test_edges=graph().edge_index[:, 70:80].t(),
        ),
        {"task": "link", "model": "gcn"},
    ),
    "links and edges that are none": (
        without(
            "y",
            "train_mask",
            "val_mask",
            "test_mask",
            train_edges=graph().edge_index[:, :60].t(),
            val_edges=graph().edge_index[:, 60:70].t(),
            test_edges=graph().edge_index[:, 70:80].t(),
            val_negatives=torch.tensor([[1, 2], [3, 4], [5, 1]]),
            test_negatives=torch.tensor([[2, 1], [4, 3], [7, 8]]),
        ),
        {"task": "link", "model": "gcn"},
    ),
}


@pytest.mark.parametrize("name", DATA)
def test_data(same, name):
    data, settings = DATA[name]
    before = data.to_dict()
    run = same(data, "pyg", lambda path: torch.save(data, path), **settings)
    assert len(run.logits) == data.num_nodes
    assert data.to_dict().keys() == before.keys()


REFUSED = {
    "weights of a column": (
        graph(edge_weight=numbers(83, 1)),
        '"edge_weight": has shape [83 1]: it must be one number for each of 83 edges',
    ),
    "ids of other vertices": (
        graph(edge_index=graph().edge_index + 20),
        "edge 0 (42→36) leaves the range of 30 vertices",
    ),
    "a vertex in two masks": (graph(val_mask=graph().train_mask), "is also in"),
    "features of other vertices": (graph(x=numbers(V + 1, 5)), '"x"'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    """What an import of the file refuses is refused in the same words."""
    data, words = REFUSED[name]
    torch.save(data, tmp_path / "file")
    with pytest.raises(weft.Refused) as e:
        weft.train(tmp_path / "file", progress=False)
    assert words in str(e.value)
    with pytest.raises(weft.Refused) as e:
        weft.train(data, progress=False)
    assert words in str(e.value)


@pytest.mark.parametrize(
    "tensors, words",
    [
        ({"x": torch.zeros(4, 2, device="meta")}, "x: a tensor on the device meta has no values"),
        (
            {"adj": torch.eye(4).to_sparse_bsr((2, 2))},
            "adj: a matrix of blocks, torch.sparse_bsr, is not read",
        ),
        ({"x": torch.eye(4).to_sparse_bsc((2, 2))}, "x: a matrix of blocks, torch.sparse_bsc, is not read"),
    ],
)
def test_tensors_without_arrays(tensors, words):
    with pytest.raises(weft.Refused, match=f"^{words}; give "):
        weft.Graph(**{"edge_index": torch.tensor([[0, 1], [1, 2]])} | tensors if "x" in tensors else tensors)


def test_negative_view():
    """A view that PyTorch negates when it is read has its values."""
    z = torch.complex(numbers(4, 2), numbers(4, 2))
    view = z.conj().imag
    assert view.is_neg() and (array(view, "x") == -z.imag.numpy()).all()


def test_several_graphs(same):
    """A list of graphs is one graph, as a batch is."""
    graphs = [graph(), graph(x=numbers(V, 5)), graph(y=torch.arange(V) % 3)]
    run = same(graphs, "pyg", lambda path: torch.save(graphs, path))
    assert len(run.logits) == 3 * V
    assert (
        run.summary["losses"]
        == weft.train(
            Batch.from_data_list(graphs), progress=False, out=run.directory.parent / "b", epochs=3, hidden=8
        ).summary["losses"]
    )


UNLIKE = {
    "train_mask: graph 1 of 2 has none, and graph 0 has; give it to all graphs or to none": [
        graph(),
        without("train_mask"),
    ],
    "edge_weight: graph 0 of 2 has none, and graph 1 has": [graph(), graph(edge_weight=numbers(83))],
    "x: graph 2 of 3 has none, and graph 0 has": [graph(), graph(), without("x", num_nodes=V)],
    "the graphs of the list do not fit together: Sizes of tensors must match": [
        graph(),
        graph(x=numbers(V, 6)),
    ],
    "y: has a label for each graph and not for each vertex (2 for 60)": [
        graph(y=torch.tensor([k])) for k in (0, 1)
    ],
}


@pytest.mark.parametrize("line", UNLIKE)
def test_unlike_graphs(line):
    """Graphs of a list that do not fit together are refused by the field that one lacks."""
    with pytest.raises(weft.Refused) as e:
        weft.train(UNLIKE[line], progress=False)
    assert str(e.value).startswith(line) and "\n" not in str(e.value)


def test_fields_of_some_graphs(tmp_path):
    """What is not read may be in some graphs of a list alone."""
    settings = {"epochs": 2, "hidden": 8, "progress": False}
    plain = weft.train([graph(), graph()], out=tmp_path / "plain", **settings)
    named = weft.train([graph(name="a", pos=numbers(V, 2)), graph()], out=tmp_path / "named", **settings)
    assert named.logits.tobytes() == plain.logits.tobytes()


def test_order_of_vertices(same):
    """Row v of the logits is vertex v of the data: another order of the vertices gives the same rows in that
    order."""
    data = graph()
    run = same(data, "pyg", lambda path: torch.save(data, path), model="sage", dropout=0)
    order = torch.randperm(V, generator=torch.Generator().manual_seed(3))
    at = torch.argsort(order)  # where each vertex is now
    moved = Data(
        x=data.x[order],
        edge_index=at[data.edge_index],
        y=data.y[order],
        **{name: data[name][order] for name in ("train_mask", "val_mask", "test_mask")},
    )
    again = weft.train(
        moved, model="sage", dropout=0, epochs=3, hidden=8, out=run.directory.parent / "moved", progress=False
    )
    np.testing.assert_allclose(again.logits, run.logits[order], atol=1e-4)


def hetero(labelled="paper", **other):
    rng = torch.Generator().manual_seed(4)
    data = HeteroData()
    for i, (name, count) in enumerate({"author": 20, "paper": V, "venue": 4}.items()):
        data[name].x = torch.rand(count, 5 + i, generator=rng)
    count = data[labelled].num_nodes
    data[labelled].y = torch.randint(CLASSES, (count,), generator=rng)
    for name, mask in masks(count, rng, other.get("splits", ())).items():
        data[labelled][name] = mask
    for a, name, b in (
        ("author", "writes", "paper"),
        ("paper", "by", "author"),
        ("paper", "cites", "paper"),
        ("venue", "prints", "paper"),
        ("paper", "in", "venue"),
    ):
        data[a, name, b].edge_index = torch.stack(
            [torch.randint(data[t].num_nodes, (50,), generator=rng) for t in (a, b)]
        )
    return data


def with_edges(**fields):
    data = hetero()
    for r in data.edge_types:
        for name, value in fields.items():
            data[r][name] = value
    return data


def bare():
    data = hetero()
    data["venue"].num_nodes = 4
    del data["venue"].x
    return data


def alone():
    """One type of vertices, and one relation."""
    data = HeteroData()
    for name, value in graph().to_dict().items():
        if name == "edge_index":
            data["paper", "cites", "paper"].edge_index = value
        else:
            data["paper"][name] = value
    return data


def links():
    data = hetero()
    edges = data["author", "writes", "paper"].edge_index
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        del data["paper"][name]
    for name, part in (
        ("train_edges", edges[:, :30]),
        ("val_edges", edges[:, 30:40]),
        ("test_edges", edges[:, 40:]),
    ):
        data["author", "writes", "paper"][name] = part.t()
    return data


HETERO = {
    "types": (hetero(), {}),
    "labels of the last type": (hetero("venue"), {}),
    "rgcn": (hetero(), {"model": "rgcn", "bases": 2}),
    "splits": (hetero(splits=(3,)), {"split": 1}),
    "weights": (with_edges(edge_weight=numbers(50)), {"model": "rgcn"}),
    "edge features": (with_edges(edge_attr=numbers(50, 4)), {"model": "gatv2", "use_edge_features": True}),
    "a type without features": (bare(), {"model": "rgcn"}),
    "matrices by target": (T.ToSparseTensor()(hetero()), {}),
    "one type": (alone(), {"model": "gcn"}),
    "links": (links(), {"task": "link"}),
}


@pytest.mark.parametrize("name", HETERO)
def test_hetero(same, name):
    data, settings = HETERO[name]
    run = same(data, "pyg", lambda path: torch.save(data, path), **settings)
    if settings.get("task") != "link":
        labelled = next(t for t in data.node_types if "y" in data[t])
        assert len(run.logits) == data[labelled].num_nodes


def test_target(same, tmp_path):
    """Of several types with labels one is chosen."""
    data = hetero()
    data["venue"].y = torch.tensor([0, 1, 0, 1])
    for name, mask in masks(4, torch.Generator().manual_seed(9)).items():
        data["venue"][name] = mask
    run = same(
        weft.Graph.of(data, target="venue"),
        "pyg",
        lambda path: torch.save(data, path),
        flags=["--target", "venue"],
    )
    assert run.logits.shape == (4, 2)
    with pytest.raises(weft.Refused, match="paper, venue have labels"):
        weft.train(data, progress=False)


class Whole(InMemoryDataset):
    """A data set of given graphs."""

    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def test_dataset(same, tmp_path):
    """What a data set of PyG gives."""
    from torch_geometric.datasets import FakeDataset, FakeHeteroDataset

    torch.manual_seed(0)
    one = T.RandomNodeSplit(num_val=0.2, num_test=0.2)(
        FakeDataset(num_graphs=1, avg_num_nodes=40, task="node", num_channels=6)[0]
    )
    run = same(one, "pyg", lambda path: torch.save(one, path))
    again = weft.train(Whole([one]), epochs=3, hidden=8, out=tmp_path / "whole", progress=False)
    assert again.logits.tobytes() == run.logits.tobytes()
    several = weft.train(Whole([one, one]), epochs=1, out=tmp_path / "several", progress=False)
    assert len(several.logits) == 2 * one.num_nodes
    types = FakeHeteroDataset(num_graphs=1, avg_num_nodes=20)[0]
    (labelled,) = (t for t in types.node_types if "y" in types[t])
    types = T.RandomNodeSplit(num_val=0.2, num_test=0.2)(types)
    run = weft.train(types, model="rgcn", epochs=2, out=tmp_path / "types", progress=False)
    assert len(run.logits) == types[labelled].num_nodes


def test_back_to_pyg(tmp_path):
    """The model of a run on a graph in memory computes the run's logits on that graph."""
    for data, settings in (
        (graph(edge_weight=numbers(83)), {"model": "gcn"}),
        (graph(edge_attr=numbers(83, 4)), {"model": "gine"}),
        (hetero(), {"model": "sage"}),
        (hetero(), {"model": "rgcn"}),
    ):
        run = weft.train(
            data,
            **settings,
            epochs=3,
            hidden=8,
            out=tmp_path / f"{settings['model']}{id(data)}",
            progress=False,
        )
        model = run.to_pyg()
        with torch.no_grad():
            if isinstance(data, HeteroData):
                z = model(data.x_dict, data.edge_index_dict)
            else:
                z = model(data.x, data.edge_index, data.edge_weight, data.edge_attr)
        np.testing.assert_allclose(z.numpy(), run.logits, atol=1e-5)


def test_changed_edges(tmp_path):
    """The edges that a change of the graph makes are those of PyG's functions."""
    edges = graph().edge_index
    data = graph(edge_index=edges[:, edges[0] != edges[1]])
    for k, (changes, edges) in enumerate(
        (
            ({"symmetrize": True}, to_undirected(data.edge_index, num_nodes=V)),
            ({"self_loops": True}, add_remaining_self_loops(data.edge_index, num_nodes=V)[0]),
        )
    ):
        run = weft.train(
            weft.Graph.of(data, **changes),
            model="sage",
            aggregation="sum",
            epochs=2,
            hidden=8,
            out=tmp_path / f"{k}",
            progress=False,
        )
        assert run.summary["graph"]["edges"] == edges.shape[1] > data.num_edges
        np.testing.assert_allclose(
            run.to_pyg()(data.x, edges).detach().numpy(), run.logits, atol=1e-5, rtol=1e-5
        )


def test_weights_of_pyg(tmp_path):
    """A run that begins with the weights of a model has its logits before training."""
    from torch_geometric.nn.models import GCN

    torch.manual_seed(1)
    data, model = graph(), GCN(5, 8, num_layers=2, out_channels=3, norm="batch_norm")
    run = weft.train(
        data,
        model="gcn",
        norm="batch",
        hidden=8,
        epochs=1,
        lr=1e-30,
        init=model.state_dict(),
        out=tmp_path / "run",
        progress=False,
    )
    for name, value in run.to_pyg().state_dict().items():
        if (
            "running" not in name and "num_batches" not in name and name != "convs.0.bias"
        ):  # which the norm cancels
            torch.testing.assert_close(value, model.state_dict()[name], rtol=0, atol=1e-29)
