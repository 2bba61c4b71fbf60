"""Modules over graphs of several types: they train as in PyTorch on every mesh that divides such graphs."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from convolutions import EPOCHS, MESHES, OPTIMIZERS, RATES
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GCNConv,
    GraphConv,
    HANConv,
    HeteroConv,
    HeteroDictLinear,
    HGTConv,
    Linear,
    RGCNConv,
    SAGEConv,
    TransformerConv,
    to_hetero,
    to_hetero_with_bases,
)

import weft

COUNTS = {"paper": 60, "author": 25, "venue": 7}
RELATIONS = {
    ("author", "writes", "paper"): 140,
    ("paper", "rev_writes", "author"): 120,
    ("paper", "cites", "paper"): 200,
    ("venue", "prints", "paper"): 60,
    ("paper", "appears", "venue"): 50,
}
WRITES, BACK, CITES, PRINTS, APPEARS = RELATIONS
BRIEF = {"epochs": EPOCHS, "progress": False, "checkpoint_every": 0}


@pytest.fixture(scope="module")
def data():
    """Papers and authors have features, venues have none; the last vertices are isolated, and edges stand
    twice."""
    torch.manual_seed(1)
    made = HeteroData()
    y = torch.randint(3, (COUNTS["paper"],))
    made["paper"].x, made["paper"].y = torch.randn(60, 6) + F.one_hot(y, 3).repeat(1, 2), y
    made["author"].x = torch.randn(25, 4)
    made["venue"].num_nodes = 7
    part = torch.rand(60)
    made["paper"].train_mask, made["paper"].val_mask = part < 0.6, part >= 0.6
    for key, n in RELATIONS.items():
        edges = torch.stack(
            [torch.randint(COUNTS[vertex_type] - 1, (n,)) for vertex_type in (key[0], key[2])]
        )
        edges[:, :5] = edges[:, 5:10]
        made[key].edge_index = edges
    made[CITES].edge_index[1, :9] = made[CITES].edge_index[0, :9]
    made[PRINTS].edge_weight = torch.rand(60) + 0.5
    made[APPEARS].edge_attr = torch.randn(50, 3)
    return made


class Convs(nn.Module):
    """A convolution of its own for each relation, and an embedding of what has no features."""

    def __init__(self):
        super().__init__()
        self.venues = nn.Embedding(COUNTS["venue"], 5)
        self.first = HeteroConv(
            {
                WRITES: SAGEConv((4, 6), 8),
                BACK: GATConv((6, 4), 4, heads=2, add_self_loops=False),
                CITES: GCNConv(6, 8),
                APPEARS: TransformerConv((6, 5), 8, edge_dim=3),
            },
        )
        self.last = HeteroConv(
            {
                WRITES: GATv2Conv((8, 8), 8, add_self_loops=False),
                CITES: SAGEConv(8, 8, aggr="max"),
                PRINTS: GraphConv((8, 8), 8),
            },
            aggr="mean",
        )
        self.out = Linear(-1, 3)

    def forward(self, x_dict, edge_index_dict, edge_attr_dict, edge_weight_dict):
        x = {**x_dict, "venue": self.venues.weight}
        x = {
            key: h.tanh() for key, h in self.first(x, edge_index_dict, edge_attr_dict=edge_attr_dict).items()
        }
        x = self.last(x, edge_index_dict, edge_weight_dict=edge_weight_dict)
        return {key: self.out(h) for key, h in x.items()}


class OfData(nn.Module):
    """Over the graph itself, whose vertices are numbered; types that share a layer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.ModuleDict({name: nn.Embedding(n, 8) for name, n in COUNTS.items()})
        self.into = HeteroDictLinear({"paper": 6, "author": 4}, 8)
        self.conv, self.norm, self.out = SAGEConv(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, data):
        into = self.into(data.x_dict)
        x = {name: embedding(data[name].n_id) + into.get(name, 0) for name, embedding in self.embed.items()}
        h = x["paper"]
        for key in (WRITES, CITES, PRINTS):
            h = h + self.conv((x[key[0]], x["paper"]), data[key].edge_index).relu()
        return self.out(self.norm(h))


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 3)

    def forward(self, x, edge_index):
        return self.last(F.relu(self.first(x, edge_index)), edge_index)


class Joined(nn.Module):
    """Layers that to_hetero_with_bases calls on the rows of all types, one after another."""

    def __init__(self):
        super().__init__()
        self.into, self.first = nn.Linear(8, 8), SAGEConv((8, 8), 8)
        self.most, self.last = SAGEConv((8, 8), 8, aggr="max"), SAGEConv((8, 8), 8, aggr="softmax")
        self.out = nn.Linear(8, 3)

    def forward(self, x, edge_index):
        x = F.relu(self.first(self.into(x).tanh(), edge_index))
        return self.out(self.last(self.most(x, edge_index), edge_index))


class WithNorm(Joined):
    """A batch norm over the vertices of all types."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x, edge_index):
        return self.out(self.norm(self.first(x, edge_index)))


class Attention(nn.Module):
    """Attention along each relation, and then over the relations."""

    def __init__(self):
        super().__init__()
        self.into, self.out = HeteroDictLinear({"paper": 6, "author": 4}, 8), nn.Linear(8, 3)
        self.conv = HANConv(8, 8, (["paper", "author"], [WRITES, BACK, CITES]), heads=2)

    def forward(self, x_dict, edge_index_dict):
        h = self.conv(self.into(x_dict), {key: edge_index_dict[key] for key in (WRITES, BACK, CITES)})
        return {"paper": self.out(h["paper"])}


MODULES = {
    "HeteroConv": Convs,
    "to_hetero": lambda: to_hetero(Plain(), (["paper", "author"], [WRITES, BACK, CITES])),
    "to_hetero_with_bases": lambda: to_hetero_with_bases(
        Joined(), (["paper", "author"], [WRITES, BACK, CITES]), num_bases=2, in_channels={"x": 8}
    ),
    "HeteroData": OfData,
    "HANConv": Attention,
}


def called(module, data):
    if isinstance(module, OfData):
        data = data.clone()
        for name, n in COUNTS.items():
            data[name].n_id = torch.arange(n)
        return module(data)
    of_edges = isinstance(module, Convs)
    more = [data.edge_attr_dict, data.edge_weight_dict] if of_edges else []
    logits = module(data.x_dict, data.edge_index_dict, *more)
    return logits["paper"]


def made(name, data):
    torch.manual_seed(2)
    module = MODULES[name]()
    with torch.no_grad():
        called(module.eval(), data)  # lazy layers take their sizes
    return module


def in_double(data):
    return data.clone().apply(lambda t: t.double() if t.is_floating_point() else t)


def losses_of(module, data, optimizer):
    module, data, losses = copy.deepcopy(module).double().train(), in_double(data), []
    steps, mask = OPTIMIZERS[optimizer](module.parameters(), lr=RATES[optimizer]), data["paper"].train_mask
    for _ in range(EPOCHS):
        steps.zero_grad()
        loss = F.cross_entropy(called(module, data)[mask], data["paper"].y[mask])
        loss.backward()
        steps.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize(
    ("name", "optimizer"), [*((name, "adam") for name in MODULES), (next(iter(MODULES)), "sgd")]
)
def test_trains_as_pytorch(name, optimizer, data):
    """The losses are PyTorch's on each mesh, and the module comes back with the weights of the run."""
    module = made(name, data)
    wanted = losses_of(module, data, optimizer)
    for mesh, settings in MESHES.items():
        settings = BRIEF | settings | {"optimizer": optimizer, "lr": RATES[optimizer], "out": f"run-{mesh}"}
        if optimizer == "sgd" and mesh not in ("one worker", "graph=3"):
            continue
        if mesh == "pipeline=2" and isinstance(module, OfData):
            with pytest.raises(weft.Refused, match="each stage has a layer"):
                weft.train(data, model=module, **settings)
            continue
        run = weft.train(data, model=module, **settings)
        np.testing.assert_allclose(run.history["loss"], wanted, rtol=1e-5, err_msg=mesh)
        with torch.no_grad():
            logits = called(run.module().eval(), data)
        np.testing.assert_allclose(logits.numpy(), run.logits, atol=1e-4, err_msg=mesh)


def test_relations_of_one_type(data):
    """Relations between vertices of one type are divided by a pipeline, too."""
    papers, keys = data["paper"], [("paper", name, "paper") for name in ("cites", "likes")]
    edges = dict(zip(keys, (data[CITES].edge_index, data[CITES].edge_index[:, :70].flip(0))))
    masks = {name: {"paper": papers[name]} for name in ("train_mask", "val_mask")}
    graph = weft.Graph(edges, {"paper": papers.x}, {"paper": papers.y}, **masks)
    torch.manual_seed(2)
    module = to_hetero(Plain(), (["paper"], keys))
    with torch.no_grad():
        module({"paper": papers.x}, edges)
    one, two = (
        weft.train(graph, model=module, out=f"{mesh}", optimizer="sgd", **BRIEF | MESHES[mesh])
        for mesh in ("one worker", "pipeline=2")
    )
    np.testing.assert_allclose(two.history["loss"], one.history["loss"], rtol=1e-6)


class OfTypes(nn.Module):
    """Over all edges and their types, some of which a layer leaves out, and one of which no edge has."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.some = RGCNConv(6, 8, 5), RGCNConv(8, 3, 5, num_bases=2), SAGEConv(8, 8)

    def forward(self, x, edge_index, edge_type):
        h = self.first(x, edge_index, edge_type).tanh()
        h = h + self.some(h, edge_index[:, edge_type != 3])
        return self.last(h, edge_index, edge_type)


def test_types_of_edges_are_numbers(data):
    """A module over edge_type, as RGCN's are, on relations whose names are numbers."""
    papers, edges = data["paper"], data[CITES].edge_index
    kinds = torch.tensor([0, 1, 3])[torch.arange(edges.shape[1]) % 3]  # none is 2 or 4
    graph = Data(
        papers.x, edges, y=papers.y, edge_type=kinds, train_mask=papers.train_mask, val_mask=papers.val_mask
    )
    torch.manual_seed(2)
    module = OfTypes()
    own, wanted = copy.deepcopy(module).double(), []
    steps = torch.optim.SGD(own.parameters(), lr=0.05)
    for _ in range(3):
        steps.zero_grad()
        loss = F.cross_entropy(
            own(papers.x.double(), edges, kinds)[papers.train_mask], papers.y[papers.train_mask]
        )
        loss.backward()
        steps.step()
        wanted.append(float(loss.detach()))
    for mesh in ("one worker", "graph=3"):
        settings = BRIEF | MESHES[mesh] | {"epochs": 3, "optimizer": "sgd", "lr": 0.05, "out": f"run-{mesh}"}
        run = weft.train(graph, model=module, **settings)
        np.testing.assert_allclose(run.history["loss"], wanted, rtol=1e-5, err_msg=mesh)


def test_goes_on(data):
    """A run is resumed to the bit, and predicts, evaluates and is planned as those of other models."""
    module, settings = made("HeteroConv", data), {"epochs": 4, "progress": False}
    run = weft.train(data, model=module, out="run", **settings)
    part = weft.train(data, model=module, out="part", **settings | {"epochs": 2, "checkpoint_every": 1})
    resumed = weft.train(data, resume=part, **settings)
    assert resumed.history["loss"].tolist() == run.history["loss"].tolist()
    np.testing.assert_array_equal(run.predict(vertices=[3, 1]), run.predictions[[3, 1]])
    assert run.evaluate()["val"]["accuracy"] == pytest.approx(run.summary["val"])
    (planned,) = (m for m in weft.plan(data, workers=2, model=module)["meshes"] if m["parallel"] == "graph=2")
    two = weft.train(data, model=module, out="two", parallel="graph=2", **settings)
    assert planned["peak_tensor_bytes"] == max(two.summary["peak_tensor_bytes"])


def test_refuses(data):
    """What returns nothing for the type with the labels, or is over DGL, which is not there."""
    module = made("HeteroConv", data)
    module.graph = HGTConv({"paper": 6, "author": 4}, 4, (["paper", "author"], [WRITES, BACK, CITES]))
    module.forward = lambda x_dict, edge_index_dict: module.graph(x_dict, {WRITES: edge_index_dict[WRITES]})
    with pytest.raises(
        weft.Refused, match="sorts them by type, as HGTConv and HeteroLinear do: take HANConv"
    ):
        weft.train(data, model=module, **BRIEF)
    module.forward = lambda x_dict, edge_index_dict: {"author": x_dict["author"]}
    with pytest.raises(
        weft.Refused, match="forward returns nothing for paper, whose vertices have the labels"
    ):
        weft.train(data, model=module, **BRIEF)
    module = to_hetero_with_bases(WithNorm(), (["paper", "author"], [WRITES, BACK, CITES]), 1, {"x": 8})
    with pytest.raises(
        weft.Refused, match="a batch norm over rows of several sets at once: give each set one"
    ):
        weft.train(data, model=module, **BRIEF)
    module = made("HeteroConv", data)
    module.forward = lambda graph, x: x
    with pytest.raises(weft.Refused, match="No module named 'dgl'"):
        weft.train(data, model=module, **BRIEF)
