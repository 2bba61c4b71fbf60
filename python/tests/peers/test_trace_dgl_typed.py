"""Modules over heterographs of DGL: they train as in PyTorch on every mesh that divides such graphs."""

import copy

import dgl
import dgl.function as fn
import dgl.nn as d
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from convolutions import EPOCHS, MESHES, OPTIMIZERS, RATES
from torch import nn

import weft

COUNTS = {"author": 25, "field": 7, "paper": 60, "venue": 7}
RELATIONS = {
    ("author", "writes", "paper"): 140,
    ("paper", "rev_writes", "author"): 120,
    ("paper", "cites", "paper"): 200,
    ("field", "of", "paper"): 60,
    ("paper", "has", "field"): 50,
    ("venue", "prints", "paper"): 70,
}
NAMES = sorted(name for _, name, _ in RELATIONS)
WIDTH, CLASSES = 6, 3
BRIEF = {"epochs": EPOCHS, "progress": False, "checkpoint_every": 0}


@pytest.fixture(scope="module")
def graph():
    """Papers have features, the others none; the last vertices are isolated, and edges stand twice."""
    torch.manual_seed(1)
    ends = {
        key: tuple(torch.randint(COUNTS[vertex_type] - 1, (n,)) for vertex_type in key[::2])
        for key, n in RELATIONS.items()
    }
    for source, target in ends.values():
        source[:5], target[:5] = source[5:10], target[5:10]
    made, y, part = dgl.heterograph(ends, COUNTS), torch.randint(CLASSES, (60,)), torch.rand(60)
    x = torch.randn(60, WIDTH) + F.one_hot(y, CLASSES).repeat(1, 2)
    made.nodes["paper"].data.update(
        {"feat": x, "label": y, "train_mask": part < 0.6, "val_mask": part >= 0.6}
    )
    made.edges["cites"].data["feat"] = torch.randn(200, WIDTH)
    return made


class Relational(nn.Module):
    """A convolution for each relation, which gets its weights from here, and one of the vertex itself."""

    def __init__(self, width, out, act, bases):
        super().__init__()
        self.conv = d.HeteroGraphConv(
            {name: d.GraphConv(width, out, norm="right", weight=False, bias=False) for name in NAMES}
        )
        self.bases = d.WeightBasis((width, out), 2, len(NAMES)) if bases else None
        self.linears = nn.ModuleDict(
            {} if bases else {name: nn.Linear(width, out, bias=False) for name in NAMES}
        )
        self.loops, self.act = nn.ModuleDict({name: nn.Linear(width, out) for name in COUNTS}), act

    def forward(self, g, inputs):
        with g.local_var().local_scope():
            kwargs_by_relation = {name: {"weight": lin.weight.T} for name, lin in self.linears.items()}
            if self.bases:
                kwargs_by_relation = {
                    name: {"weight": w.squeeze(0)}
                    for name, w in zip(NAMES, torch.split(self.bases(), 1, dim=0))
                }
            own = {name: h[: g.number_of_dst_nodes(name)] for name, h in inputs.items()}
            made = self.conv(g, inputs, mod_kwargs=kwargs_by_relation)
        return {name: self.act(h + self.loops[name](own[name])) for name, h in made.items()}


class RGCN(nn.Module):
    """As SAR's rgcn-hetero: layers over a graph, or a block for each, and tables of what has no features."""

    def __init__(self, _):
        super().__init__()
        self.embed = d.HeteroEmbedding({name: n for name, n in COUNTS.items() if name != "paper"}, WIDTH)
        self.layers = nn.ModuleList(
            [Relational(WIDTH, 8, F.relu, False), Relational(8, CLASSES, nn.Identity(), False)]
        )

    def forward(self, graph, h):
        h = {**h, **self.embed({name: graph.srcnodes(name) for name in graph.srctypes if name != "paper"})}
        for layer in self.layers:
            h = layer(graph, h)
        return h


class Entities(nn.Module):
    """As DGL's entity_classify: holds its graph, of which no vertex has features, and weights by bases."""

    def __init__(self, g):
        super().__init__()
        self.g, self.embeds = (
            g,
            nn.ParameterDict(
                {name: nn.Parameter(torch.randn(g.num_nodes(name), WIDTH)) for name in g.ntypes}
            ),
        )
        self.layers = nn.ModuleList(
            [Relational(WIDTH, 8, F.relu, True), Relational(8, CLASSES, nn.Identity(), True)]
        )

    def forward(self, h=None, blocks=None):
        h = self.embeds if h is None else h
        for layer, block in zip(self.layers, blocks or [self.g] * 2):
            h = layer(block, h)
        return h


class Convs(nn.Module):
    """Convolutions of several kinds, of whose results the largest, the mean or all count."""

    def __init__(self, _):
        super().__init__()
        self.tables = nn.ModuleDict(
            {name: nn.Embedding(n, WIDTH) for name, n in COUNTS.items() if name != "paper"}
        )
        makes = {
            "writes": lambda width: d.SAGEConv(width, 8, "pool"),
            "rev_writes": lambda width: d.GATConv(width, 4, 2),
            "cites": lambda width: d.GraphConv(width, 8, norm="both"),
            "of": lambda width: d.SAGEConv((width, width), 8, "mean"),
            "has": lambda width: d.GraphConv(width, 8, norm="none"),
            "prints": lambda width: d.GraphConv(width, 8, norm="left"),
        }
        self.first, self.second, self.last = (
            d.HeteroGraphConv({name: make(width) for name, make in makes.items() if name in names}, aggregate)
            for width, names, aggregate in (
                (WIDTH, NAMES, "max"),
                (8, NAMES, "mean"),
                (8, ("writes", "cites", "of", "prints"), "stack"),
            )
        )
        self.out = nn.Linear(32, CLASSES)

    def forward(self, graph, features):
        h = dict(features)
        for name, table in self.tables.items():
            h[name] = table(graph.nodes(name))
        for layer in (self.first, self.second):
            h = {name: rows.flatten(1).tanh() for name, rows in layer(graph, h).items()} | {
                "venue": h["venue"]
            }
            h["venue"] = F.pad(h["venue"], (0, 8 - h["venue"].shape[1]))
        last = graph.edge_type_subgraph(["writes", "cites", "of", "prints"])
        return {"paper": self.out(self.last(last, h)["paper"].flatten(1))}


class Messages(nn.Module):
    """Messages of its own along each relation, and what vertices get along several in one."""

    def __init__(self, _):
        super().__init__()
        self.tables = nn.ParameterDict(
            {name: nn.Parameter(torch.randn(n, WIDTH)) for name, n in COUNTS.items() if name != "paper"}
        )
        self.into = nn.ModuleDict({name: nn.Linear(WIDTH, 8) for name in COUNTS})
        self.edge, self.score, self.out = nn.Linear(WIDTH, 8), nn.Linear(8, 1), nn.Linear(40, CLASSES)

    def forward(self, graph, h):
        papers = []
        with graph.local_scope():
            graph.ndata["h"] = {
                name: lin(h[name] if name in h else self.tables[name]) for name, lin in self.into.items()
            }
            for cross in ("max", "min", "mean", lambda values: sum(values) * 0.5):
                kind = {"min": fn.min, "mean": fn.sum}.get(cross, fn.max)
                graph.multi_update_all(
                    {name: (fn.copy_u("h", "m"), kind("m", "z")) for name in NAMES},
                    cross,
                    lambda nodes: {"z": nodes.data["z"].tanh()},
                )
                papers.append(graph.nodes["paper"].data["z"])
            cites = graph["paper", "cites", "paper"]
            cites.edata["a"] = self.score(self.edge(graph.edges["cites"].data["feat"]).tanh())
            graph.apply_edges(fn.e_mul_u("a", "h", "b"), etype="cites")
            graph.apply_edges(lambda edges: {"b": edges.src["h"] - edges.dst["h"]}, etype="writes")
            graph.edges["of"].data["b"] = graph["of"].srcdata["h"][graph.edges(etype="of")[0]]
            graph.multi_update_all(
                {name: (fn.copy_e("b", "m"), fn.sum("m", "y")) for name in ("writes", "of", "cites")}, "stack"
            )
            stacked = graph.nodes["paper"].data["y"] * torch.tensor([1.0, 0.5, 0.25]).view(
                1, 3, 1
            )  # in the order of the graph
            graph.nodes["paper"].data["y"] = stacked.sum(1) / (
                1 + graph.in_degrees(etype="cites").view(-1, 1)
            )
            graph.update_all(fn.copy_u("h", "m"), fn.sum("m", "x"))
            graph.update_all(
                lambda edges: {"m": edges.src["h"]},
                lambda nodes: {"w": nodes.mailbox["m"].mean(1).exp()},
                etype="of",
            )
            assert set(graph.ndata["x"]) == {"author", "field", "paper"} and "venue" not in graph.dstdata["x"]
            weights = dgl.nn.functional.edge_softmax(cites, cites.edata["a"])
            own = dgl.reverse(dgl.add_self_loop(graph, etype="cites"))
            own.update_all(fn.copy_u("x", "m"), fn.mean("m", "x"), etype="cites")
            own.update_all(fn.copy_u("x", "m"), fn.max("m", "h"), etype="has")
            papers[2] = papers[2] + graph.ndata["w"]["paper"]
            papers[3] = papers[3] + dgl.ops.u_mul_e_sum(cites, graph.nodes["paper"].data["y"], weights)
            rows = torch.cat([*papers, own.ndata["x"]["paper"] - own.nodes["paper"].data["h"]], 1)
        return self.out(rows / graph.num_edges("cites") * graph.num_nodes("paper"))


MODULES = {
    "SAR's rgcn-hetero": RGCN,
    "entity_classify": Entities,
    "HeteroGraphConv": Convs,
    "messages": Messages,
}
WITH_ADAM = {
    "SAR's rgcn-hetero": MESHES,
    "entity_classify": ["tensor=2"],
    "HeteroGraphConv": ["--offload"],
    "messages": ["graph=3"],
}


def called(module, graph):
    if isinstance(module, Entities):
        module.g = graph
        return module()["paper"]
    made = module(graph, {"paper": graph.nodes["paper"].data["feat"]})
    return made if isinstance(made, torch.Tensor) else made["paper"]


def made(name, graph):
    """The module, and the graph that it is for."""
    if name == "entity_classify":
        graph = graph.local_var()
        del graph.nodes["paper"].data["feat"]
    torch.manual_seed(2)
    return MODULES[name](graph), graph


def losses_of(module, graph, optimizer, call=called):
    """Those of PyTorch in float64."""
    module, losses, graph = copy.deepcopy(module).double(), [], graph.local_var()
    for frame in (graph.nodes["paper"].data, *(graph.edges[key].data for key in graph.canonical_etypes)):
        frame.update({name: value.double() for name, value in frame.items() if name == "feat"})
    mask, y = (graph.nodes["paper"].data[name] for name in ("train_mask", "label"))
    steps = OPTIMIZERS[optimizer](module.parameters(), lr=RATES[optimizer])
    for _ in range(EPOCHS):
        steps.zero_grad()
        loss = F.cross_entropy(call(module, graph)[mask], y[mask])
        loss.backward()
        steps.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODULES)
def test_trains_as_pytorch(name, optimizer, graph, tmp_path):
    """The losses are PyTorch's on each mesh, and the module comes back with the weights of the run."""
    module, graph = made(name, graph)
    wanted = losses_of(module, graph, optimizer)
    for mesh in WITH_ADAM[name] if optimizer == "adam" else ["one worker"]:
        settings = (
            BRIEF | MESHES[mesh] | {"optimizer": optimizer, "lr": RATES[optimizer], "out": tmp_path / mesh}
        )
        run = weft.train(graph, model=module, **settings)
        np.testing.assert_allclose(run.history["loss"], wanted, rtol=1e-5, err_msg=mesh)
        with torch.no_grad():
            logits = called(run.module().eval(), graph)
        np.testing.assert_allclose(logits.numpy(), run.logits, atol=1e-4, err_msg=mesh)


class OfTypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = d.RelGraphConv(WIDTH, CLASSES, 2)

    def forward(self, g, x, etypes):
        return self.conv(g, x, etypes)


def test_types_of_edges(graph, tmp_path):
    """A module over the types of edges gets those of all relations of one type of vertices, as of
    to_homogeneous."""
    source, target = graph.edges(etype="cites")
    one = dgl.heterograph(
        {("paper", "a", "paper"): (source, target), ("paper", "b", "paper"): (target, source)}, {"paper": 60}
    )
    one.nodes["paper"].data.update(graph.nodes["paper"].data)
    whole, module = dgl.to_homogeneous(one), OfTypes()
    wanted = losses_of(
        module,
        one,
        "sgd",
        lambda module, g: module(whole, g.nodes["paper"].data["feat"], whole.edata[dgl.ETYPE]),
    )
    run = weft.train(one, model=module, optimizer="sgd", lr=RATES["sgd"], out=tmp_path / "run", **BRIEF)
    np.testing.assert_allclose(run.history["loss"], wanted, rtol=1e-5)


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.out = function, nn.Linear(WIDTH, CLASSES)

    def forward(self, hg, h):
        self.function(hg)
        return self.out(h["paper"])


ONE = "the graph has 6 relations, and this takes one: name it"
REFUSALS = {
    "softmax over relations": (
        lambda g: dgl.nn.functional.edge_softmax(g, dict.fromkeys(g.canonical_etypes, torch.ones(1))),
        ONE,
    ),
    "degrees over relations": (lambda g: g.in_degrees(), ONE),
    "functions of Python over relations": (
        lambda g: g.update_all(lambda edges: edges.src, lambda nodes: nodes.mailbox),
        ONE,
    ),
    "no relation": (lambda g: g["knows"], "the graph has 0 relations 'knows'"),
    "fields": (
        lambda g: g.nodes["author"].data["year"],
        "the field 'year' of the graph is set outside of forward",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses(name, graph):
    function, words = REFUSALS[name]
    with pytest.raises(weft.Refused, match=words):
        weft.train(graph, model=Call(function), **BRIEF)
