"""Samples on several groups of workers of one process, beside PyTorch in float64, which takes one after the
other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv

import weft

V, E, WIDTH = 70, 400, 6

torch.manual_seed(4)
ENDS = torch.randint(0, V, (2, E))
XS = torch.randn(4, V, WIDTH)
WEIGHTS = torch.rand(E) + 0.1
GRAPH = weft.Graph(edge_index=ENDS, x=XS[0], edge_weight=WEIGHTS)


class Net(nn.Module):  # type: ignore[misc]
    """A learned row of each vertex, a batch norm, dropout, and an output of the graph."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.table, self.dropout = nn.Parameter(torch.randn(V, 3)), dropout
        self.first, self.norm, self.last = GCNConv(WIDTH + 3, 8), nn.BatchNorm1d(8), SAGEConv(8, WIDTH)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.norm(self.first(torch.cat([x, self.table], 1), edge_index, edge_weight)))
        h = F.dropout(h, self.dropout, self.training)
        return self.last(h, edge_index), h.mean(0)


class Alone(nn.Module):  # type: ignore[misc]
    """A pass of each sample, one after the other."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, xs: Tensor, edge_weight: Tensor, samples: bool) -> Any:
        return tuple(map(torch.stack, zip(*(self.module(x, ENDS, edge_weight) for x in xs))))


def loop(net: nn.Module, xs: Tensor) -> tuple[list[float], dict[str, Tensor]]:
    """A rollout of all samples, whose weights of edges are learned, too; what it measures and learns."""
    weight = nn.Parameter(WEIGHTS.to(xs, copy=True))
    optimizer = torch.optim.SGD([*net.parameters(), weight], lr=0.02, momentum=0.9)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        h, loss = xs, torch.zeros(()).to(xs)
        for step in range(2):
            change, mean = net(h, edge_weight=weight, samples=True)
            h = h + 0.1 * change
            parts = (h - xs.roll(1, 1)).square().mean((1, 2)) + mean.square().sum(1)
            loss = (
                loss + (parts * torch.arange(1, 5)).sum() if step else loss + parts[1]
            )  # the others read none
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    state = {name.removeprefix("module."): tensor.clone() for name, tensor in net.state_dict().items()}
    return found, state | {"weight": weight.detach()}


@pytest.mark.parametrize("mesh", ["samples=2", "graph=2,samples=2", "samples=2,tensor=2", "samples=4"])
def test_beside_pytorch(mesh: str) -> None:
    """Losses, weights and running statistics are those of PyTorch, and have the same bits again."""
    torch.manual_seed(1)
    module = Net()
    losses, state = loop(Alone(copy.deepcopy(module).double()), XS.double())
    runs = [loop(weft.compile(copy.deepcopy(module), GRAPH, parallel=mesh, threads=1), XS) for _ in range(2)]
    assert runs[0][0] == pytest.approx(losses, rel=1e-5)
    for name, tensor in state.items():
        now = runs[0][1][name]
        assert torch.equal(now, runs[1][1][name]), name
        assert float((now - tensor).double().norm() / tensor.double().norm().clamp(min=1e-3)) < 1e-5, name


def test_dropout() -> None:
    """Sample s has the masks of pass s, on however many groups."""
    torch.manual_seed(1)
    module, outputs = Net(0.5), []
    for mesh in ("graph=2", "graph=2,samples=2", "samples=4"):
        net = weft.compile(copy.deepcopy(module), GRAPH, parallel=mesh)
        assert (net.group, net.groups, net.rank, net.workers) == (
            0,
            int(mesh[-1]) if "s" in mesh else 1,
            0,
            1,
        )
        torch.manual_seed(7)
        outputs.append(net(XS, samples=True)[0].detach())
        outputs.append(net.eval()(XS, rows=torch.tensor([3, 1]), samples=True)[0].detach())
    for k, output in enumerate(outputs):
        assert torch.allclose(output, outputs[k % 2], atol=1e-6)
    assert outputs[3].shape == (4, 2, WIDTH) and not torch.allclose(outputs[0][0], outputs[0][1], atol=0.1)


def test_planned() -> None:
    """Memory is planned to the byte, and so are the messages of all groups, with the sums of gradients."""
    net = weft.compile(Net(), GRAPH, parallel="graph=2,samples=2")
    planned = weft.plan(GRAPH, model=net, passes=2, gradients="x")
    for _ in range(3):
        xs = XS[:2].clone().requires_grad_()
        a, b = net(xs, samples=True), net(xs, samples=True)
        (a[0].sum() + b[1].sum()).backward()
        del a, b
    took, sent = net.memory(), net.messages()["communication"]
    for key in ("peak_tensor_bytes", "graph_bytes", "kinds", "peaks"):
        assert planned[key] == took[key], key
    assert len(took["peaks"]) == 4 and planned["communication"] == sent and sent["gradient"]["bytes"] > 0
    half = weft.plan(GRAPH, model=net, passes=2, gradients="x", parallel="graph=2")
    assert half["communication"]["halo"]["bytes"] * 2 == sent["halo"]["bytes"]


def test_refused() -> None:
    """A call takes as many samples as there are groups, or several times as many; weft.train takes none."""
    net = weft.compile(Net(), GRAPH, parallel="graph=2,samples=2")
    for call in (lambda: net(), lambda: net(XS[0]), lambda: net(XS[:3], samples=True)):
        with pytest.raises(weft.Refused, match="a multiple of 2"):
            call()
    with pytest.raises(weft.Refused, match="partitions take turns where one group takes all samples"):
        weft.compile(Net(), GRAPH, parallel="graph=2,samples=2", partitions=4)
    with pytest.raises(weft.Refused, match="leave samples out"):
        weft.train(weft.Graph(edge_index=ENDS, x=XS[0], y=torch.arange(V) % 3), parallel="graph=2,samples=2")
