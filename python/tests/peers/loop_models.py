"""The graph and the modules of the loops that are compared with PyTorch in float64, and how they are
compared."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GATConv, GCNConv, GINConv, MessagePassing, SAGEConv

import weft

V, E, WIDTH, CLASSES = 90, 500, 8, 3
torch.manual_seed(5)
Y = torch.randint(0, CLASSES, (V,))
ENDS = torch.randint(0, V - 1, (2, E))  # the last vertex has no edges
X = torch.randn(V, WIDTH) + F.one_hot(Y, 4).repeat(1, 2)
ATTR = torch.randn(E, 2)
TRAIN = torch.rand(V) < 0.6
DATA = Data(x=X, edge_index=ENDS, y=Y)
GRAPHS = {
    "plain": weft.Graph(edge_index=ENDS, x=X),  # without labels and split
    "attributes": weft.Graph(edge_index=ENDS, x=X, edge_attr=ATTR),
}


class Gated(MessagePassing):  # type: ignore[misc]
    def __init__(self, width: int, out: int) -> None:
        super().__init__(aggr="add")
        self.root, self.gate = nn.Linear(width, out), nn.Linear(2 * width, out)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.root(x) + self.propagate(edge_index, x=x)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(torch.cat([x_i, x_j], 1)))


class Two(nn.Module):  # type: ignore[misc]
    def __init__(self, first: nn.Module, last: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.first, self.norm, self.last = first, norm, last

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(torch.tanh(self.norm(self.first(x, edge_index))), edge_index)


class Several(nn.Module):  # type: ignore[misc]
    """Logits, embeddings of two heads, and a mean over the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.never = GCNConv(WIDTH, 8), GCNConv(8, CLASSES), nn.Linear(2, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> dict[str, Any]:
        h = torch.tanh(self.first(x, edge_index))
        return {"logits": self.last(h, edge_index), "of": (h.view(-1, 2, 4), h.mean(0))}


class Mesh(nn.Module):  # type: ignore[misc]
    """Encode, process, decode, as MeshGraphNet: states on vertices, and edges with attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH)
        self.edge, self.vertex, self.norm = nn.Linear(8 + 8 + 2, 8), nn.Linear(16, 8), nn.LayerNorm(8)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        h, (source, target) = torch.tanh(self.encode(x)), edge_index
        for _ in range(2):
            m = torch.tanh(self.edge(torch.cat([h[source], h[target], edge_attr], 1)))
            into = torch.zeros_like(h).index_add(0, target, m)
            h = h + self.norm(self.vertex(torch.cat([h, into], 1)))
        return x + 0.1 * self.decode(h)


class Deep(nn.Module):  # type: ignore[misc]
    """Three convolutions: a stage has each."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([GCNConv(WIDTH, WIDTH), GATConv(WIDTH, 4, heads=2), SAGEConv(8, WIDTH)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(WIDTH) for _ in self.layers])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms):
            x = torch.tanh(norm(layer(x, edge_index)))
        return x


class Propagated(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.mlp, self.rounds = (
            nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, WIDTH)),
            APPNP(3, 0.2),
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.rounds(self.mlp(x), edge_index)


def gin(width: int, out: int) -> nn.Module:
    return GINConv(nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, out)), train_eps=True)


MODULES = {
    "gcn": lambda: Two(GCNConv(WIDTH, 8), GCNConv(8, WIDTH), nn.LayerNorm(8)),
    "batch": lambda: Two(SAGEConv(WIDTH, 8, bias=False), SAGEConv(8, WIDTH), nn.BatchNorm1d(8)),
    "gat": lambda: Two(GATConv(WIDTH, 4, heads=2), GATConv(8, WIDTH), nn.Identity()),
    "gated": lambda: Two(Gated(WIDTH, 8), Gated(8, WIDTH), nn.LayerNorm(8)),
    "gin": lambda: Two(gin(WIDTH, 8), gin(8, WIDTH), nn.Identity()),
    "several": Several,
    "mesh": Mesh,
    "appnp": Propagated,
    "deep": Deep,
}


class Whole(nn.Module):  # type: ignore[misc]
    """What weft.compile gives, as PyTorch computes it in float64."""

    def __init__(self, module: nn.Module, attr: bool) -> None:
        super().__init__()
        self.module, self.attr = module, attr

    def forward(self, x: Tensor | None = None) -> Any:
        attr = (ATTR.double(),) if self.attr else ()
        return self.module(X.double() if x is None else x, ENDS, *attr)


MESHES = ("graph=1", "graph=3", "tensor=2", "graph=2,tensor=2", "pipeline=2", "partitions=3")
MADE: dict[Any, nn.Module] = {}


def made(name: str, modules: Any = MODULES) -> nn.Module:
    """A module as it was when it was made, which is traced once for each graph."""
    make = modules[name]
    if make not in MADE:
        torch.manual_seed(3)
        MADE[make] = make()
        MADE[make].first_state = copy.deepcopy(MADE[make].state_dict())
    module = MADE[make]
    module.load_state_dict(module.first_state)
    module.zero_grad()
    for p in module.parameters():
        p.requires_grad_()
    return module.train()


def settings(mesh: str) -> dict[str, Any]:
    name, _, count = mesh.partition("=")
    if mesh == "offload":
        return {"partitions": 3, "offload": True}
    return {name: count} if name == "partitions" else {"parallel": mesh}


def assert_alike(module: nn.Module, exact: nn.Module) -> None:
    """Parameters and buffers are those of float64, and the same have gradients."""
    for (path, p), q in zip(module.named_parameters(), exact.parameters()):
        assert (p.grad is None) == (q.grad is None), path
        assert float((p.detach().double() - q.detach()).norm()) <= 1e-5 * max(
            float(q.detach().norm()), 0.1
        ), path
    for (path, p), q in zip(module.named_buffers(), exact.buffers()):
        assert torch.allclose(p.double(), q.double(), rtol=1e-5, atol=1e-6), path


def refused(kind: type[BaseException], text: str, call: Any) -> None:
    with pytest.raises(kind, match=text):
        call()
