"""Softmax aggregation of PyG: modules train as in PyTorch in float64, on every mesh, with steep scores and
vertices without edges."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import DeepGCNLayer, GENConv, MessagePassing, SAGEConv
from torch_geometric.nn.aggr import SoftmaxAggregation
from torch_geometric.utils import scatter, softmax

import weft

V, E, FEATURES, OF_EDGES, CLASSES, WIDTH, EPOCHS = 90, 420, 6, 3, 3, 8, 5
ALONE = 3  # vertices without edges, which are the last ones


class Aggregated(MessagePassing):
    """The rows of the sources as they are, by softmax aggregation."""

    def __init__(self, **settings):
        super().__init__(aggr=SoftmaxAggregation(**settings))

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)


class Net(nn.Module):
    """Layers between two products."""

    def __init__(self, *layers):
        super().__init__()
        self.into, self.layers, self.out = (
            nn.Linear(FEATURES, WIDTH),
            nn.ModuleList(layers),
            nn.Linear(WIDTH, CLASSES),
        )

    def over(self, x, *edges):
        h = self.into(x)
        for layer in self.layers:
            h = layer(h, *edges)
        return self.out(h)

    def forward(self, x, edge_index):
        return self.over(x, edge_index)


class OfEdges(Net):
    def forward(self, x, edge_index, edge_attr):
        return self.over(x, edge_index, edge_attr)


class Steep(nn.Module):
    """Scores between −500 and 500: the features are between −1 and 1. They are not trained, but the inverse
    temperature is."""

    def __init__(self, t, **settings):
        super().__init__()
        self.aggregated, self.out = Aggregated(t=t, **settings), nn.Linear(FEATURES, CLASSES)

    def forward(self, x, edge_index):
        return self.out(self.aggregated(x, edge_index))


class OfMeans(nn.Module):
    """Three columns, whose inverse temperatures are means over all vertices."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(FEATURES, 3), nn.Linear(3, CLASSES)

    def forward(self, x, edge_index):
        h, n, (source, target) = self.into(x), x.size(0), edge_index
        scores = (h * h.mean(0).exp())[source]
        return self.out(scatter(softmax(scores, target, num_nodes=n) * h[source], target, 0, n))


def gen(**settings):
    return GENConv(WIDTH, WIDTH, norm="layer", **settings)


def deeper(**settings):
    return DeepGCNLayer(gen(**settings), nn.LayerNorm(WIDTH), nn.ReLU(), block="res+")


MODULES = {
    "GENConv": lambda: Net(gen(), gen()),
    "GENConv, t learned": lambda: Net(gen(t=6.0, learn_t=True), gen(t=-0.2, learn_t=True)),
    "GENConv of edges": lambda: OfEdges(gen(edge_dim=OF_EDGES), gen(edge_dim=OF_EDGES, t=3.0, learn_t=True)),
    "GENConv, semi-gradient": lambda: Net(gen(aggr="softmax_sg"), gen(aggr="softmax_sg", t=3.0)),
    "DeepGCNLayer": lambda: Net(gen(), deeper(), deeper(t=2.0, learn_t=True)),
    "t of each column": lambda: Net(
        *(SAGEConv(WIDTH, WIDTH, aggr=SoftmaxAggregation(t, True, channels=WIDTH)) for t in (3.0, -3.0))
    ),
    "steep": lambda: Steep(500.0),
    "steep, learned": lambda: Steep(500.0, learn=True),
    "steep, of each column": lambda: Steep(-500.0, learn=True, channels=FEATURES),
    "t of means": OfMeans,
}

MESHES = None, "graph=3", "tensor=2", "pipeline=2"
ONE_LAYER = "steep", "t of means"
CASES = [(name, mesh) for name in MODULES for mesh in MESHES[: 3 if name.startswith(ONE_LAYER) else 4]]
# some workers have no column
CASES += [
    ("steep, of each column", "tensor=7"),
    ("t of means", "tensor=4"),
    ("t of means", "graph=2,tensor=4"),
]


@pytest.fixture(scope="module")
def arrays():
    random = torch.Generator().manual_seed(3)
    parts = torch.randperm(V, generator=random) % 3
    return {
        "edge_index": torch.randint(V - ALONE, (2, E), generator=random),
        "x": torch.rand(V, FEATURES, generator=random) * 2 - 1,
        "y": torch.randint(CLASSES, (V,), generator=random),
        "edge_attr": torch.randn(E, OF_EDGES, generator=random),
        "train_mask": parts < 2,
    }


@pytest.fixture(scope="module")
def graph(arrays):
    return weft.Graph(**arrays)


def made(name):
    torch.manual_seed(5)
    module = MODULES[name]()
    for parameter in module.parameters():  # those of each column begin as others
        if parameter.dim() == 1 and parameter.abs().min() > 2:
            nn.init.uniform_(parameter, *sorted((float(parameter[0]), float(parameter[0]) / 2)))
    return module


def stepped(module, arrays, lr):
    """PyTorch's losses in float64, and the module after them."""
    module = copy.deepcopy(module).double().train()
    inputs = [arrays["x"].double(), arrays["edge_index"]]
    if isinstance(module, OfEdges):
        inputs.append(arrays["edge_attr"].double())
    optimizer, losses = torch.optim.SGD(module.parameters(), lr), []
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(*inputs)[arrays["train_mask"]], arrays["y"][arrays["train_mask"]])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, module, module.eval()(*inputs).detach()


@pytest.mark.parametrize(("name", "parallel"), CASES)
def test_trains_as_pytorch(name, parallel, arrays, graph, tmp_path):
    module = made(name)
    lr = 0.5
    losses, trained, logits = stepped(module, arrays, lr)
    settings = {"epochs": EPOCHS, "optimizer": "sgd", "lr": lr, "checkpoint_every": 0, "progress": False}
    if parallel == "pipeline=2":
        settings["chunks"] = 1
    run = weft.train(graph, model=module, parallel=parallel, out=tmp_path / "run", **settings)
    steep = name.startswith("steep")
    np.testing.assert_allclose(run.history["loss"], losses, rtol=1e-4 if steep else 1e-5)
    np.testing.assert_allclose(run.logits, logits, atol=1e-3 if steep else 1e-4)
    for (name, got), want in zip(run.module().named_parameters(), trained.parameters(), strict=True):
        np.testing.assert_allclose(got.detach(), want.detach(), rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("name", ["steep", "steep, learned"])
def test_without_edges(name, arrays, graph, tmp_path):
    """The aggregation of no edges is 0."""
    run = weft.train(graph, model=made(name), epochs=2, out=tmp_path / "run", progress=False)
    bias = run.module().out.bias.detach().numpy()
    np.testing.assert_allclose(run.logits[-ALONE:], np.tile(bias, (ALONE, 1)), atol=1e-6)
