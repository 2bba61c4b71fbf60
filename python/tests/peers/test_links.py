"""The graphs of RandomLinkSplit are one with their split of edges: that of a file with the lists, to the
bit."""

import copy

import numpy as np
import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric import seed_everything
from torch_geometric.data import Data, HeteroData

import weft


def graph():
    rng = torch.Generator().manual_seed(1)
    edges = torch.randint(40, (2, 200), generator=rng)
    return Data(
        x=torch.rand(40, 5, generator=rng), edge_index=edges, y=torch.randint(3, (40,), generator=rng)
    )


def split(data, **settings):
    seed_everything(3)
    return T.RandomLinkSplit(**settings)(data)


def stored(data, relation=""):
    graph = weft.Graph.of(data)
    folder = graph.store / relation
    return {path.stem: np.load(path) for path in folder.glob("*_*s.npy")}


def edges(part, label):
    there = (
        part.edge_label_index[:, part.edge_label == label] if "edge_label" in part else part.edge_label_index
    )
    return there.t().numpy()


@pytest.mark.parametrize(
    "settings",
    [{}, {"is_undirected": True}, {"add_negative_train_samples": False}, {"neg_sampling_ratio": 0.0}],
)
def test_as_the_file(same, settings):
    data = T.ToUndirected()(graph()) if "is_undirected" in settings else graph()
    parts = train, val, test = split(data, **settings)

    def save(path):
        one = Data(x=train.x, edge_index=train.edge_index, y=train.y, train_edges=edges(train, 1))
        one.val_edges, one.test_edges = edges(val, 1), edges(test, 1)
        if settings.get("neg_sampling_ratio") != 0:
            one.val_negatives, one.test_negatives = edges(val, 0), edges(test, 0)
        torch.save({name: torch.as_tensor(value) for name, value in one.to_dict().items()}, path)

    run = same(list(parts), "pyg", save, model="gcn", task="link")
    links = run.summary["links"]
    assert [links[f"{part}_edges"] for part in ("train", "val", "test")] == [
        len(edges(part, 1)) for part in parts
    ]
    assert (
        weft.train(parts, model="gcn", task="link", epochs=3, hidden=8, checkpoint_every=0).summary["losses"]
        == run.summary["losses"]
    )


def test_split_labels():
    whole, apart = stored(split(graph())), stored(split(graph(), split_labels=True))
    assert (
        whole.keys()
        == apart.keys()
        == {"train_edges", "val_edges", "test_edges", "val_negatives", "test_negatives"}
    )
    for name in whole:
        assert (whole[name] == apart[name]).all()


def test_types():
    data = HeteroData()
    data["user"].num_nodes, data["film"].x = 30, torch.rand(20, 4)
    index = torch.randperm(600, generator=torch.Generator().manual_seed(1))[:90]
    data["user", "rates", "film"].edge_index = torch.stack([index // 20, index % 20])
    data["film", "like", "film"].edge_index = torch.tensor([[0, 1, 2], [2, 0, 1]])
    rates = ("user", "rates", "film")
    parts = split(T.ToUndirected()(data), edge_types=[rates], rev_edge_types=[("film", "rev_rates", "user")])
    lists = stored(parts, "edges/user__rates__film")
    for name, part in zip(("train", "val", "test"), parts):
        assert (lists[f"{name}_edges"] == edges(part[rates], 1)).all()
        assert name == "train" or (lists[f"{name}_negatives"] == edges(part[rates], 0)).all()
    assert stored(parts, "edges/film__like__film") == {}
    run = weft.train(parts, model="sage", task="link", node_embedding=4, link_relation=rates, epochs=1)
    assert (run.summary["links"]["val_edges"], run.summary["links"]["test_edges"]) == (9, 18)


def test_one_part():
    """One of the three has no split of its own. As a graph to predict in, or with lists, it is one."""
    train, val, test = split(graph())
    for data in (train, weft.Graph.of(train)):
        with pytest.raises(
            weft.Refused,
            match="^edge_label_index: is that of one part of a split: give the three, as "
            r'weft.train\(\[train, val, test\], task="link"\)$',
        ):
            weft.train(data, model="gcn", task="link")
    lists = {"train_edges": edges(train, 1), "val_edges": edges(val, 1), "test_edges": edges(test, 1)}
    divided = weft.Graph.of(train, **lists)
    assert {name: array.tolist() for name, array in stored(divided).items()} == {
        name: array.tolist() for name, array in lists.items()
    }
    run = weft.train(divided, model="gcn", task="link", epochs=1)
    assert run.embeddings(train).shape == (40, 64)
    graph_of = weft.Graph.of(train, y=np.arange(40) % 2)
    assert np.load(graph_of.store / "labels.npy").tolist() == [0, 1] * 20
    other = copy.copy(test)
    other.x, other.y = test.x[:39], test.y[:39]
    with pytest.raises(
        weft.Refused,
        match="^edge_label_index: the parts of a split have the same vertices, and these 40, 40, 39$",
    ):
        weft.Graph.of([train, val, other])
