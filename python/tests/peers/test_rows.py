"""Rows of outputs: those of all vertices, and their gradients, of which the message-flow graph alone is
computed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from loop_models import refused
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, HeteroConv, MessagePassing, SAGEConv

import weft

# A strip: what two layers read of a few vertices is little.
V, E, WIDTH = 400, 2400, 6
torch.manual_seed(5)
TARGET = torch.arange(E) % V
ENDS = torch.stack([(TARGET + torch.randint(-4, 5, (E,))).clamp(0, V - 1), TARGET])
X, WEIGHT, ATTR = torch.randn(V, WIDTH), torch.rand(E) + 0.5, torch.randn(E, 2)
INDEX = torch.tensor([7, 200, 201, -3, 7, 60])


class Layers(nn.Module):  # type: ignore[misc]
    """Two convolutions, between which there is dropout."""

    def __init__(self, first: nn.Module, last: nn.Module, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.last, self.norm = first, last, norm or nn.Identity()

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        h = F.dropout(F.relu(self.norm(self.first(x, edge_index))), 0.4, self.training)
        return self.last(h, edge_index), h


class Knowledge(nn.Module):  # type: ignore[misc]
    """The rows of all layers side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(WIDTH, WIDTH) for _ in range(3)])
        self.out = nn.Linear(4 * WIDTH, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rows = [x]
        for conv in self.convs:
            rows.append(torch.tanh(conv(rows[-1], edge_index)))
        return self.out(torch.cat(rows, 1))


class Degrees(nn.Module):  # type: ignore[misc]
    """Means by its own degrees: where a vertex had no edges, as none here, they were no numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, 8), nn.Linear(8, 3)

    def mean(self, x: Tensor, ends: Tensor) -> Tensor:
        degree = torch.zeros(x.size(0)).index_add(0, ends[1], torch.ones(ends.size(1)))
        into = torch.zeros_like(x).index_add(0, ends[1], x[ends[0]]).abs()
        return (into / degree[:, None]).sqrt()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.mean(self.first(self.mean(x, edge_index)), edge_index))


class Attributed(MessagePassing):  # type: ignore[misc]
    def __init__(self, width: int, out: int) -> None:
        super().__init__(aggr="max")
        self.lin = nn.Linear(2 * width + 2, out)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x, attr=edge_attr)

    def message(self, x_i: Tensor, x_j: Tensor, attr: Tensor) -> Tensor:
        return F.dropout(torch.tanh(self.lin(torch.cat([x_i, x_j, attr], 1))), 0.3, self.training)


class Messages(nn.Module):  # type: ignore[misc]
    """Functions of edges, with dropout, and a learned row for each vertex."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Attributed(WIDTH + 2, 8), Attributed(8, 3)
        self.own = nn.Embedding(V, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        x = torch.cat([x, self.own.weight], 1)
        return self.last(self.first(x, edge_index, edge_attr), edge_index, edge_attr)


class Backward(nn.Module):  # type: ignore[misc]
    """Along the edges, and against them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = SAGEConv(WIDTH, 8), GCNConv(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.first(x, edge_index).relu(), edge_index.flip(0))


MODULES: dict[str, Any] = {
    "gcn": lambda: Layers(GCNConv(WIDTH, 8), GCNConv(8, 3), nn.LayerNorm(8)),
    "sage": lambda: Layers(SAGEConv(WIDTH, 8), SAGEConv(8, 3, aggr="max")),
    "gat": lambda: Layers(GATConv(WIDTH, 4, heads=2, dropout=0.3), GATConv(8, 3)),
    "knowledge": Knowledge,
    "degrees": Degrees,
    "messages": Messages,
    "backward": Backward,
}


def gradients(net: nn.Module, made: Any, x: Tensor) -> list[Tensor]:
    made = made if isinstance(made, tuple) else (made,)
    loss = sum((tensor * torch.linspace(1, 2, tensor.numel()).view_as(tensor)).sin().sum() for tensor in made)
    return list(torch.autograd.grad(loss, [x, *net.parameters()], allow_unused=True))


def edge_columns(net: Any) -> int:
    return int(sum(net.messages()["edge_columns"]))


@pytest.mark.parametrize("mesh", ["graph=1", "graph=3"])
@pytest.mark.parametrize("name", MODULES)
def test_rows(name: str, mesh: str) -> None:
    """Rows, and gradients of parameters and of x, are those of all rows, with their dropout: work and memory
    are less."""
    torch.manual_seed(1)
    module = MODULES[name]()
    edge_inputs = (
        {"edge_attr": ATTR} if name == "messages" else {"edge_weight": WEIGHT} if name == "gcn" else {}
    )
    net = weft.compile(module, weft.Graph(edge_index=ENDS, x=X, **edge_inputs), parallel=mesh, threads=1)
    for training in (True, False):
        net.train(training)
        x, found = X.clone().requires_grad_(), []
        for rows in (INDEX, None):
            torch.manual_seed(3)
            made = net(x, rows=rows) if rows is not None else net(x)
            if rows is None:
                made = tuple(tensor[INDEX] for tensor in made) if isinstance(made, tuple) else made[INDEX]
            found.append((made, gradients(net, made, x), edge_columns(net)))
        (made, grads, work), (theirs, all_grads, all_work) = found
        for ours, other in zip(
            *((outputs if isinstance(outputs, tuple) else (outputs,)) for outputs in (made, theirs))
        ):
            assert torch.isfinite(other).all() and torch.allclose(ours, other, atol=1e-6)
        for ours, other in zip(grads, all_grads):
            assert torch.isfinite(other).all() and torch.allclose(ours, other, rtol=1e-5, atol=2e-6)
        assert work < all_work / 4


def test_usual_passes_between() -> None:
    """Passes of some rows and of all live together, may be run backward again, and leave no memory behind."""
    net = weft.compile(Knowledge(), weft.Graph(edge_index=ENDS, x=X), parallel="graph=2", threads=1)

    def live() -> int:
        net(rows=INDEX[:1])  # what was dropped is gone then
        return int(sum(net.memory()["live_bytes"]))

    parameter = net.out.weight
    torch.autograd.grad(net().sum(), parameter)
    before = live()
    want = [torch.autograd.grad(net()[rows].pow(2).sum(), parameter)[0] for rows in (INDEX, INDEX[:2])]
    passes = [net(rows=INDEX), net(), net(rows=INDEX[:2]), net(rows=INDEX)]
    parameter.data += 1  # each pass keeps its own
    net(rows=INDEX)
    for output, theirs, keep in ((0, want[0], True), (2, want[1], False), (0, want[0], False)):
        grad = torch.autograd.grad(passes[output].pow(2).sum(), parameter, retain_graph=keep)[0]
        assert torch.allclose(grad, theirs, rtol=1e-5, atol=1e-6)
    torch.autograd.grad(passes[1].sum(), parameter)
    del passes
    assert live() == before
    samples = net(torch.stack([X, 2 * X]), rows=INDEX, samples=True)
    assert torch.allclose(samples[1], net(2 * X)[INDEX], atol=1e-6)


def test_memory() -> None:
    """A pass of few rows takes less than one of all."""

    def peak(rows: Tensor | None) -> int:
        net = weft.compile(Knowledge(), weft.Graph(edge_index=ENDS, x=X), threads=1)
        net(rows=rows).sum().backward()
        return int(net.memory()["peak_tensor_bytes"][0])

    assert peak(INDEX) < peak(None)


class Kinds(nn.Module):  # type: ignore[misc]
    """Of readers and of what they read, both of which are returned."""

    def __init__(self) -> None:
        super().__init__()
        keys = [("of", "by", "reader"), ("reader", "near", "reader"), ("reader", "reads", "of")]
        self.first = HeteroConv({key: SAGEConv((WIDTH, WIDTH), 8) for key in keys})
        self.last = HeteroConv({key: SAGEConv((8, 8), 3) for key in keys})
        self.own = nn.ModuleDict({name: nn.Linear(WIDTH, 3) for name in ("reader", "of")})

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> dict[str, Tensor]:
        h = {
            name: F.dropout(rows_of_type.relu(), 0.4, self.training)
            for name, rows_of_type in self.first(x_dict, edge_index_dict).items()
        }
        return {
            name: rows_of_type + self.own[name](x_dict[name])
            for name, rows_of_type in self.last(h, edge_index_dict).items()
        }


@pytest.mark.parametrize("mesh", ["graph=1", "graph=3", "tensor=2"])
def test_types(mesh: str) -> None:
    """Of several types rows are a dict; a type that it lacks has all rows."""
    torch.manual_seed(1)
    ends = {
        ("of", "by", "reader"): ENDS,
        ("reader", "near", "reader"): ENDS,
        ("reader", "reads", "of"): ENDS.flip(0),
    }
    net = weft.compile(Kinds(), weft.Graph(ends, {"reader": X, "of": X.flip(0)}), parallel=mesh, threads=1)
    x = {name: features.clone().requires_grad_() for name, features in (("reader", X), ("of", X + 1))}
    for rows in ({"reader": INDEX, "of": INDEX[:2]}, {"of": INDEX}):
        found = []
        for some in (rows, None):
            torch.manual_seed(3)
            made = net(x, rows=some)
            if some is None:
                made = {name: tensor[rows[name]] if name in rows else tensor for name, tensor in made.items()}
            loss = sum(
                (tensor * torch.linspace(1, 2, tensor.numel()).view_as(tensor)).sin().sum()
                for tensor in made.values()
            )
            grads = torch.autograd.grad(loss, [*x.values(), *net.parameters()], allow_unused=True)
            found.append(([*made.values()], grads, edge_columns(net)))
        for kind in (0, 1):
            for ours, theirs in zip(found[0][kind], found[1][kind]):
                assert (ours is None) == (theirs is None)
                assert ours is None or torch.allclose(ours, theirs, rtol=1e-5, atol=2e-6)
        less = mesh != "tensor=2" and len(rows) == 2
        assert found[0][2] < found[1][2] / 4 if less else found[0][2] == found[1][2]
    for text, some in (
        ("rows: is one Tensor, and outputs are of several vertex types: give a dict by", INDEX),
        ("rows: 'x' is no vertex type of an output: these are", {"x": INDEX}),
        (
            f"rows: reader: are from 0 to {V}, and vertex ids from 0 to {V - 1}",
            {"reader": torch.tensor([0, V])},
        ),
    ):
        refused(weft.Refused, text, lambda some=some: net(rows=some))
