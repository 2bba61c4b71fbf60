"""Training loops around compiled modules over several vertex types, beside float64, as test_loops has
them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from loop_models import MESHES, Two, assert_alike, made, refused, settings
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GCNConv, HeteroConv, RGCNConv, SAGEConv, to_hetero_with_bases

import weft

COUNTS = {"grid": 60, "mesh": 20, "station": 9}
RELATIONS = {("grid", "to", "mesh"): 150, ("mesh", "near", "mesh"): 80, ("mesh", "back", "grid"): 140}
UP, NEAR, BACK = RELATIONS
CLASSES = 3

torch.manual_seed(1)
X = {"grid": torch.randn(60, 5), "mesh": torch.randn(20, 3)}
Y = torch.randint(0, CLASSES, (60,))
ENDS = {
    key: torch.stack([torch.randint(0, COUNTS[vertex_type] - 1, (n,)) for vertex_type in (key[0], key[2])])
    for key, n in RELATIONS.items()
}
ATTR = {key: torch.randn(n, 2) for key, n in RELATIONS.items()}
GRAPH = weft.Graph(ENDS, X, edge_attr=ATTR)
DATA = HeteroData()
for name, features in X.items():
    DATA[name].x = features
for key, ends in ENDS.items():
    DATA[key].edge_index = ends


def in_double(tensors: dict[Any, Tensor]) -> dict[Any, Tensor]:
    return {key: tensor.double() for key, tensor in tensors.items()}


class Convs(nn.Module):  # type: ignore[misc]
    """A convolution for each relation, as RGCN's, and a batch norm of each type."""

    def __init__(self) -> None:
        super().__init__()
        widths = {name: tensor.shape[1] for name, tensor in X.items()}
        self.first = HeteroConv({key: SAGEConv((widths[key[0]], widths[key[2]]), 8) for key in RELATIONS})
        self.norms = nn.ModuleDict({name: nn.BatchNorm1d(8) for name in widths})
        self.last = HeteroConv({key: SAGEConv((8, 8), CLASSES) for key in RELATIONS}, aggr="mean")
        self.never = nn.Linear(2, 2)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> Any:
        h = self.first(x_dict, edge_index_dict)
        h = {name: self.norms[name](rows).tanh() for name, rows in h.items()}
        return self.last(h, edge_index_dict) | {"mean": h["mesh"].mean(0)}


class Weather(nn.Module):  # type: ignore[misc]
    """Encode, process, decode, as GraphCast: from the grid to a mesh, on the mesh, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.grid, self.mesh, self.out = nn.Linear(5, 8), nn.Linear(3, 8), nn.Linear(8, 5)
        self.edges = nn.ModuleList([nn.Linear(8 + 8 + 2, 8) for _ in range(4)])
        self.rows = nn.ModuleList([nn.Linear(16, 8) for _ in range(4)])
        self.norm = nn.LayerNorm(8)

    def step(self, k: int, source: Tensor, target: Tensor, ends: Tensor, attr: Tensor) -> Tensor:
        m = torch.tanh(self.edges[k](torch.cat([source[ends[0]], target[ends[1]], attr], 1)))
        into = torch.zeros_like(target).index_add(0, ends[1], m)
        return target + self.norm(self.rows[k](torch.cat([target, into], 1)))

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_attr_dict: Any) -> dict[str, Tensor]:
        grid, mesh = torch.tanh(self.grid(x_dict["grid"])), torch.tanh(self.mesh(x_dict["mesh"]))
        mesh = self.step(0, grid, mesh, edge_index_dict[UP], edge_attr_dict[UP])
        for k in (1, 2):
            mesh = self.step(k, mesh, mesh, edge_index_dict[NEAR], edge_attr_dict[NEAR])
        grid = self.step(3, mesh, grid, edge_index_dict[BACK], edge_attr_dict[BACK])
        return {"grid": x_dict["grid"] + 0.1 * self.out(grid)}


class Joined(nn.Module):  # type: ignore[misc]
    """Over the rows of all types, one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = SAGEConv((8, 8), 8), SAGEConv((8, 8), 5, aggr="max")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.first(x, edge_index).tanh(), edge_index)


def bases() -> nn.Module:
    net = to_hetero_with_bases(Joined(), (list(X), list(RELATIONS)), num_bases=2, in_channels={"x": 8})
    with torch.no_grad():
        net(X, ENDS)  # lazy layers take their sizes
    return net


class Whole(nn.Module):  # type: ignore[misc]
    """What weft.compile gives, as PyTorch computes it in float64."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: dict[str, Tensor] | None = None) -> Any:
        attr = (in_double(ATTR),) if isinstance(self.module, Weather) else ()
        return self.module(in_double(X) | (x or {}), ENDS, *attr)


def plain(net: nn.Module, _: dict[str, Tensor]) -> Iterator[Tensor]:
    """Of the outputs one, two or three have a part in the loss: what takes none has no gradient."""
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    for step in range(3):
        optimizer.zero_grad()
        made = net()
        loss = F.cross_entropy(made["grid"], Y)
        if step > 0:
            loss = loss + made["mesh"].pow(2).mean()
        if step > 1:
            loss = loss + made["mean"].sum()
        loss.backward()
        yield torch.tensor(float(sum(p.grad is None for p in net.parameters())))
        optimizer.step()
        yield loss
    net.eval()
    with torch.no_grad():
        yield net()["grid"].norm()


def rollout(net: nn.Module, x: dict[str, Tensor]) -> Iterator[Tensor]:
    """Three steps of the grid, on a mesh that stays, and one backward pass through all."""
    optimizer, target = torch.optim.Adam(net.parameters(), 0.002, eps=1e-3), x["grid"].roll(1, 1)
    for _ in range(2):
        optimizer.zero_grad()
        h, loss = x["grid"], torch.zeros(()).to(target)
        for _ in range(3):
            h = net({"grid": h})["grid"]
            loss = loss + F.mse_loss(h, target)
        loss.backward()
        optimizer.step()
        yield loss


def saliency(net: nn.Module, x: dict[str, Tensor]) -> Iterator[Tensor]:
    """Gradients in the features of each type, which are leaves and which a layer of the loop has made."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in x.items()}
    scale = torch.full((3,), 0.5).to(x["mesh"]).requires_grad_()
    made = net({"grid": leaves["grid"], "mesh": leaves["mesh"] * scale})
    made["grid"][:7].logsumexp(1).sum().backward()
    for tensor in (leaves["grid"].grad, leaves["mesh"].grad, scale.grad):
        yield tensor.norm()
        yield tensor.reshape(-1)[2]


def taught(net: nn.Module, x: dict[str, Tensor]) -> Iterator[Tensor]:
    """A deep copy is the teacher of another view."""
    teacher, optimizer = copy.deepcopy(net), torch.optim.SGD(net.parameters(), 0.05)
    for step in range(2):
        optimizer.zero_grad()
        with torch.no_grad():
            target = teacher({"mesh": x["mesh"] * step})
        made = net()
        loss = sum(1 - F.cosine_similarity(made[name], target[name]).mean() for name in ("grid", "mesh"))
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(teacher.parameters(), net.parameters()):
                ours.mul_(0.9).add_(0.1 * theirs)
        yield loss


MODULES = {"convs": Convs, "weather": Weather, "bases": bases}
ALL = [
    *((plain, "convs", mesh) for mesh in MESHES),
    *((rollout, "weather", mesh) for mesh in MESHES),
    *((saliency, "convs", "graph=3"), (saliency, "weather", "tensor=2"), (taught, "convs", "graph=3")),
    *((saliency, "bases", "graph=3"), (taught, "bases", "partitions=3")),
    *((saliency, "convs", "partitions=3"), (taught, "convs", "graph=2,tensor=2")),
]


@pytest.mark.parametrize("loop, name, mesh", ALL, ids=lambda value: getattr(value, "__name__", value))
def test_as_pytorch(loop: Any, name: str, mesh: str) -> None:
    module = made(name, MODULES)
    exact = copy.deepcopy(module).double()
    theirs = [float(value.detach()) for value in loop(Whole(exact), in_double(X))]
    net = weft.compile(module, GRAPH if name == "weather" else DATA, **settings(mesh))
    ours = [float(value.detach()) for value in loop(net, X)]
    assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    assert_alike(module, exact)


def test_samples() -> None:
    """Each value of a dict has a matrix for each sample; types that the dict lacks have the graph's."""
    net = weft.compile(made("convs", MODULES), DATA, parallel="graph=2").eval()
    grids = torch.stack([X["grid"], X["grid"] * 2]).requires_grad_()
    batch = net({"grid": grids}, samples=True)
    for s in range(2):
        for name, output in net({"grid": grids[s].detach(), "mesh": X["mesh"]}).items():
            assert torch.equal(batch[name][s], output)
    (grad,) = torch.autograd.grad(batch["mesh"][1].sum(), grids)
    assert float(grad[1].abs().sum()) > 0 and float(grad[0].abs().sum()) == 0
    refused(
        weft.Refused,
        r"samples: there are 2 of x\['grid'\], 3 of x\['mesh'\]: give as many",
        lambda: net({"grid": grids, "mesh": torch.zeros(3, 20, 3)}, samples=True),
    )
    text = r"samples: x\['grid'\] is S × V × F, a matrix of features for each sample, and torch.float32 "
    text += r"\(60, 5\)"
    refused(weft.Refused, text, lambda: net(X, samples=True))
    refused(weft.Refused, "samples: there are none", lambda: net(samples=True))


def test_what_takes_no_part() -> None:
    """Features that an output does not depend on have no gradient, as in PyTorch; those that it is have
    theirs."""

    class Apart(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.line = SAGEConv((5, 3), 4), nn.Linear(5, 2)

        def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
            mesh = self.conv((x_dict["grid"], x_dict["mesh"]), edge_index_dict[UP])
            return mesh, {"grid": (self.line(x_dict["grid"]), x_dict["grid"])}, x_dict["mesh"]

    module = Apart()
    net = weft.compile(module, DATA, parallel="graph=2")
    x = {name: tensor.clone().requires_grad_() for name, tensor in X.items()}
    first, outputs, same = net(x)
    for ours, theirs in zip(
        (first, *outputs["grid"], same), ((t := module(x, ENDS))[0], *t[1]["grid"], t[2])
    ):
        assert torch.allclose(ours, theirs, atol=1e-6)
    for loss in (outputs["grid"][0].sum(), outputs["grid"][1].pow(2).sum()):
        grid, mesh = torch.autograd.grad(loss, [x["grid"], x["mesh"]], allow_unused=True, retain_graph=True)
        assert mesh is None and grid is not None
    (mesh,) = torch.autograd.grad(same.pow(2).sum(), x["mesh"])
    assert torch.allclose(mesh, 2 * x["mesh"])


def test_features_of_calls() -> None:
    """A graph without features takes those of the first call; others have as many columns."""
    torch.manual_seed(3)
    ends, x = torch.randint(0, 30, (2, 90)), torch.randn(30, 4)
    module = Two(GCNConv(4, 8), GCNConv(8, 2), nn.Identity())
    for graph in (weft.Graph(edge_index=ends, num_nodes=30), Data(edge_index=ends, num_nodes=30)):
        for mesh in ("graph=1", "graph=3", "tensor=2", "pipeline=2"):
            leaves = x.clone().requires_grad_()
            net = weft.compile(module, graph, parallel=mesh)
            refused(weft.Refused, r"x: the graph has no features: call net\(x\)", net)
            out = net(leaves)
            assert torch.allclose(out, module(x, ends), atol=1e-5)
            (ours,) = torch.autograd.grad(out.pow(2).sum(), leaves)
            (theirs,) = torch.autograd.grad(module(leaves, ends).pow(2).sum(), leaves)
            assert torch.allclose(ours, theirs, atol=1e-5)
            text = r"x: is torch.float32 \(30, 5\) on cpu, torch.strided: give floats of 30 vertices × 4 "
            text += "features, as the first call did"
            refused(weft.Refused, text, lambda net=net: net(torch.randn(30, 5)))
            refused(weft.Refused, r"x: the graph has no features: call net\(x\)", net)
    wide = weft.compile(GCNConv(7, 2), graph)
    refused(weft.Refused, r"return F.linear\(x, self.weight, self.bias\): RuntimeError", lambda: wide(x))


def test_features_of_one_type() -> None:
    """Of several types some have features, and calls give those of the others."""

    class From(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv = SAGEConv((5, 6), 4)

        def forward(self, x_dict: Any, edge_index_dict: Any) -> Tensor:
            return self.conv((x_dict["grid"], x_dict["mesh"]), edge_index_dict[UP])

    graph = weft.Graph({UP: ENDS[UP]}, {"grid": X["grid"]}, num_nodes={"grid": 60, "mesh": 20})
    module, mesh = From(), torch.randn(20, 6, requires_grad=True)
    net = weft.compile(module, graph, parallel="graph=2")
    expected = module({"grid": X["grid"], "mesh": mesh}, ENDS)
    assert torch.allclose(net({"mesh": mesh}), expected, atol=1e-6)
    (ours,) = torch.autograd.grad(net({"mesh": mesh})[:4].sum(), mesh)
    (theirs,) = torch.autograd.grad(expected[:4].sum(), mesh)
    assert torch.allclose(ours, theirs, atol=1e-6)
    refused(weft.Refused, "20 vertices × 6 features", lambda: net({"mesh": mesh[:, :5]}))


class OfTypes(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = RGCNConv(4, 8, 3), RGCNConv(8, 2, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return self.last(self.first(x, edge_index, edge_type).tanh(), edge_index, edge_type)


def test_types_of_edges() -> None:
    """A module over edge_type takes one tensor of features, on a pipeline, too."""
    torch.manual_seed(3)
    ends, kinds, x = torch.randint(0, 30, (2, 120)), torch.arange(120) % 3, torch.randn(30, 4)
    module = OfTypes()
    for mesh in ("graph=3", "tensor=2", "pipeline=2"):
        net = weft.compile(module, Data(torch.zeros(30, 4), ends, edge_type=kinds), parallel=mesh)
        assert torch.allclose(net(x), module(x, ends, kinds), atol=1e-5)


def test_refusals() -> None:
    module = made("convs", MODULES)
    net = weft.compile(module, DATA)
    for text, x in (
        ("x: is one Tensor, and the graph has several vertex types: give a dict by grid, mesh", X["grid"]),
        ("x: there is no vertex type 'gird': there are grid, mesh", {"gird": X["grid"]}),
        (
            (
                r"x\['mesh'\]: is torch.float32 \(20, 5\) on cpu, torch.strided: "
                "give floats of 20 vertices × 3 features"
            ),
            {"mesh": torch.ones(20, 5)},
        ),
        (
            r"x\['mesh'\]: is torch.float32 \(60, 3\) on cpu, torch.strided: give floats of 20",
            {"mesh": torch.ones(60, 3)},
        ),
        (
            r"x\['grid'\]: is torch.int64 \(60, 5\) on cpu, torch.strided: give floats",
            {"grid": X["grid"].long()},
        ),
        (r"x\['grid'\]: is NoneType: give floats of 60", {"grid": None}),
    ):
        refused(weft.Refused, text, lambda x=x: net(x))
    several = "rows: is one Tensor, and outputs are of several vertex types: give a dict by grid, mesh"
    refused(weft.Refused, several, lambda: net(rows=torch.tensor([1])))
    assert net()["grid"].shape == (60, 3)  # it is usable
    module.forward = lambda x_dict, edge_index_dict: x_dict["grid"][:5]
    refused(weft.Refused, "some of the vertices", lambda: weft.compile(module, DATA))


class Reads(nn.Module):
    """Reads the features of both types."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x_dict, edge_index_dict):
        source, target = edge_index_dict["a", "to", "b"]
        rows = self.lin(x_dict["b"])
        return {"b": rows + torch.zeros_like(rows).index_add_(0, target, x_dict["a"][source])}


def test_type_without_features_is_named():
    data = HeteroData()
    data["a"].x, data["b"].num_nodes = torch.randn(5, 2), 4
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1, 4, 2], [3, 0, 0, 1]])
    net = weft.compile(Reads(), data)
    for call in (net, lambda: weft.plan(data, model=net)):
        with pytest.raises(
            weft.Refused, match="features of the vertex type 'b', and the graph has none: give them"
        ):
            call()
    assert net({"b": torch.randn(4, 3)})["b"].shape == (4, 2)
