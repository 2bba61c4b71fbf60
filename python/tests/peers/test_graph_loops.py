"""Loops over many graphs, by nets without one, beside PyTorch in float64. WEFT_LOOPS=all has each on all
meshes."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from graph_models import (
    GRAPHS,
    Mesh,
    Molecules,
    OfHeteroData,
    Plain,
    Typed,
    TypedGraphs,
    drawn,
    typed,
)
from loop_models import assert_alike, settings
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import k_hop_subgraph, subgraph

import weft

To = Callable[[Tensor], Tensor]
Loop = Callable[[Any, To], Iterator[Tensor]]


def meshes(net: Any, to: To) -> Iterator[Tensor]:
    """Graphs of other sizes in turn, by position and by name."""
    for d in GRAPHS[:5] * 2:
        yield F.mse_loss(net(to(d.x), edge_index=d.edge_index, edge_attr=to(d.edge_attr)), to(d.y))


def shuffled(net: Any, to: To) -> Iterator[Tensor]:
    """A DataLoader with workers, whose tensors are in their shared memory, in another order in each epoch."""
    g = torch.Generator().manual_seed(5)
    loader = DataLoader(GRAPHS, batch_size=2, shuffle=True, generator=g, num_workers=2)
    for _ in range(3):
        for d in loader:
            yield F.mse_loss(net(to(d.x), d.edge_index, to(d.edge_attr)), to(d.y))


def alternating(net: Any, to: To) -> Iterator[Tensor]:
    """Graphs to train on, and one to validate on."""
    for step in range(9):
        d = GRAPHS[step % 3]
        yield F.mse_loss(net.train()(to(d.x), d.edge_index, to(d.edge_attr)), to(d.y))
        with torch.no_grad():
            d = GRAPHS[3]
            yield F.mse_loss(net.eval()(to(d.x), d.edge_index, to(d.edge_attr)), to(d.y))


def near(positions: Tensor, radius: float) -> Tensor:
    """Edges between points that are less than a radius apart."""
    close = torch.cdist(positions, positions) < radius
    return close.fill_diagonal_(False).nonzero().T


def between(positions: Tensor, ends: Tensor) -> Tensor:
    """Features of edges: the vector from end to end, and the square of its length."""
    apart = positions[ends[0]] - positions[ends[1]]
    return torch.cat([apart, apart.square().sum(1, keepdim=True)], 1)


def rollout(net: Any, to: To) -> Iterator[Tensor]:
    """Four steps from noisy positions, each on the radius graph of those before, and one backward pass."""
    g = torch.Generator().manual_seed(1)
    for d in GRAPHS[1:4] * 3:
        positions = to(d.pos + 0.01 * torch.randn(d.pos.shape, generator=g))
        velocities, total = to(0.1 * d.y), 0.0
        for step in range(4):
            ends = near(positions.detach(), 0.3)
            x = torch.cat([positions, velocities, to(d.x[:, :1])], 1)
            velocities = velocities + 0.1 * net(x, ends, between(positions, ends))
            positions = positions + 0.1 * velocities
            total = total + F.mse_loss(positions, to(d.pos) + 0.1 * step)
        yield total


def written(net: Any, to: To) -> Iterator[Tensor]:
    """The same tensor of edges, which is written between calls by PyTorch and by NumPy."""
    d = GRAPHS[3].clone()
    for step in range(10):
        yield F.mse_loss(net(to(d.x), d.edge_index, to(d.edge_attr)), to(d.y))
        if step % 2:
            d.edge_index.copy_(d.edge_index.roll(1, 1))
        else:
            d.edge_index.numpy()[0] = (d.edge_index.numpy()[0] + 1) % d.num_nodes


def sampled(net: Any, to: To) -> Iterator[Tensor]:
    """Batches of vertices with their neighbourhoods, each a graph of its own, as a NeighborLoader makes."""
    d = GRAPHS[5]
    for first in [*range(0, d.num_nodes, 7)] * 2:
        seeds = torch.arange(first, min(first + 7, d.num_nodes))
        vertices, ends, at, _ = k_hop_subgraph(
            seeds, 2, d.edge_index, relabel_nodes=True, num_nodes=d.num_nodes
        )
        yield F.mse_loss(net(to(d.x[vertices]), ends)[at], to(d.y[seeds]))


def clusters(net: Any, to: To) -> Iterator[Tensor]:
    """Pairs of a graph's clusters with the edges in and between them, as a ClusterLoader makes."""
    d, g = drawn(60, 7), torch.Generator().manual_seed(2)
    parts = d.pos[:, 0].argsort().chunk(6)
    for _ in range(3):
        for pair in torch.randperm(6, generator=g).view(3, 2):
            vertices = torch.cat([parts[k] for k in pair]).sort().values
            ends, attr = subgraph(vertices, d.edge_index, d.edge_attr, True, d.num_nodes)
            yield F.mse_loss(net(to(d.x[vertices]), ends, to(attr)), to(d.y[vertices]))


def masked(net: Any, to: To) -> Iterator[Tensor]:
    """Some edges of each graph, others in each epoch."""
    g = torch.Generator().manual_seed(4)
    for d in GRAPHS[:5] * 2:
        edges = torch.rand(d.num_edges, generator=g) < 0.7
        yield F.mse_loss(net(to(d.x), d.edge_index, to(d.edge_attr), edges=edges), to(d.y))


def molecules(net: Any, to: To) -> Iterator[Tensor]:
    """Batches of graphs."""
    for _ in range(3):
        for d in DataLoader(GRAPHS, batch_size=2):
            yield 0.1 * F.mse_loss(net(to(d.x), d.edge_index, to(d.edge_attr), d.batch), to(d.target))


def tiny(net: Any, to: To) -> Iterator[Tensor]:
    """Graphs of one vertex, without edges, and without vertices, alone or in a batch."""
    lone, bare, empty = drawn(1, 8), drawn(4, 9, edges=0), drawn(0, 10)
    empty.target = torch.ones(1, 1)
    for several in ([lone], [bare], [empty, GRAPHS[0]], [lone, empty, bare], [GRAPHS[1], empty, lone]) * 2:
        d = Batch.from_data_list(several)
        yield F.mse_loss(net(to(d.x), d.edge_index, to(d.edge_attr), d.batch), to(d.target))


def moved(net: Any, to: To) -> Iterator[Tensor]:
    """Positions fall along the gradients of an energy, and the net learns at each of them."""
    for d in GRAPHS[:2]:
        positions = to(d.pos).clone().requires_grad_()
        for _ in range(5):
            x = torch.cat([positions, to(d.x[:, 2:])], 1)
            yield net(x, d.edge_index, between(positions, d.edge_index)).square().mean()
            force, positions.grad = positions.grad, None
            yield force.norm()
            with torch.no_grad():
                positions -= 0.1 * force


def types(net: Any, to: To) -> Iterator[Tensor]:
    """Several types of vertices, by dicts."""
    for k in [0, 1, 2, 3] * 2:
        d = typed(k)
        made = net({name: to(x) for name, x in d.x_dict.items()}, d.edge_index_dict)
        yield sum(F.mse_loss(made[name], to(GRAPHS[k].y[: len(made[name])])) for name in ("a", "b"))


def hetero(net: Any, to: To) -> Iterator[Tensor]:
    """HeteroData of other sizes, of which a batch is one."""
    for d in [*DataLoader([typed(k) for k in range(6)], batch_size=2), typed(0), typed(1)] * 2:
        d = d.clone()
        for name in ("a", "b"):
            d[name].x = to(d[name].x)
        yield sum(rows.square().mean() for rows in net(d).values())


def batches_of_types(net: Any, to: To) -> Iterator[Tensor]:
    """Graphs of a batch, of the vertices of two types."""
    for k in [0, 1, 2] * 3:
        d = Batch.from_data_list([typed(k), typed(k + 1), typed(k + 2)])
        made = net({name: to(x) for name, x in d.x_dict.items()}, d.edge_index_dict, d.batch_dict)
        yield 0.01 * made.square().mean()


def fitted(net: Any, to: To) -> Iterator[Tensor]:
    """Lightning's Trainer, which makes the steps, and validates after each epoch."""
    from lightning import LightningModule, Trainer

    losses = []

    class Fitted(LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def training_step(self, d: Data, _: int) -> Tensor:
            loss = F.mse_loss(self.net(to(d.x), d.edge_index, to(d.edge_attr)), to(d.y))
            losses.append(loss.detach())
            return loss

        validation_step = training_step

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    loaders = (DataLoader(GRAPHS[part], batch_size=2) for part in (slice(4), slice(4, 6)))
    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    Trainer(max_epochs=5, accelerator="cpu", **dict.fromkeys(off, False)).fit(Fitted(), *loaders)
    yield from losses


class Masked(nn.Module):  # type: ignore[misc]
    """What a net does with edges=, of a module of x, edge_index and edge_attr."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *arguments: Any, edges: Tensor | None = None, **named: Any) -> Any:
        if edges is None:
            return self.module(*arguments, **named)
        x, ends, attr = arguments
        return self.module(x, ends[:, edges], attr[edges])


# Each with the meshes of a brief run.
LOOPS: list[tuple[Loop, type[nn.Module], str]] = [
    (meshes, Mesh, "graph=1 graph=2,tensor=2 offload"),
    (shuffled, Mesh, "graph=3 tensor=2"),
    (alternating, Mesh, "graph=3 offload"),
    (rollout, Mesh, "graph=3 graph=2,tensor=2"),
    (written, Mesh, "graph=1 graph=3"),
    (sampled, Plain, "graph=1 graph=3 tensor=2"),
    (clusters, Mesh, "graph=2,tensor=2 offload"),
    (masked, Mesh, "graph=3 tensor=2"),
    (molecules, Molecules, "graph=1 graph=3 tensor=2 graph=2,tensor=2 offload"),
    (tiny, Molecules, "graph=3 tensor=2"),
    (moved, Mesh, "graph=3 offload"),
    (types, Typed, "graph=1 graph=3 tensor=2"),
    (hetero, OfHeteroData, "graph=2,tensor=2 offload"),
    (batches_of_types, TypedGraphs, "graph=1 graph=3"),
]
if find_spec("lightning"):
    LOOPS.append((fitted, Mesh, "graph=3 tensor=2"))

MESHES = "graph=1 graph=3 tensor=2 graph=2,tensor=2 offload"
MADE: dict[type[nn.Module], nn.Module] = {}  # which are traced once


def steps(loop: Loop, net: Any, to: To) -> list[float]:
    """The losses of a loop, each of which makes a step if it has a gradient."""
    optimizer, found = torch.optim.SGD(net.parameters(), lr=0.01), []
    optimizer.zero_grad()
    for loss in loop(net, to):
        found.append(float(loss.detach()))
        if loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return found


@pytest.mark.parametrize("loop,kind,brief", LOOPS, ids=lambda one: getattr(one, "__name__", None))
def test_loops(loop: Loop, kind: type[nn.Module], brief: str) -> None:
    torch.manual_seed(3)
    exact, module = kind().double(), MADE.setdefault(kind, kind())
    begun = copy.deepcopy(exact.state_dict())
    theirs = steps(loop, Masked(exact), lambda t: t.double())
    for mesh in (MESHES if os.environ.get("WEFT_LOOPS") == "all" else brief).split():
        module.load_state_dict(begun)
        ours = steps(loop, weft.compile(module, **settings(mesh)), lambda t: t)
        assert ours == pytest.approx(theirs, rel=2e-5), mesh
        assert_alike(module, exact)
