"""Loops of several processes, beside those of one process of PyTorch in float64.

    mpirun -n 2 python processes.py graph=2 NAME…  a line for each loop, or those named: its name, and how far figures,
                                                   weights and running statistics are apart
    mpirun -n 2 python processes.py --unlike       rank 1 makes another call than rank 0
    mpirun -n 2 python processes.py --raises       rank 1 raises an exception, while rank 0 waits for it
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

import weft

V, E, WIDTH, CLASSES = 211, 1500, 12, 4

torch.manual_seed(5)
Y = torch.randint(0, CLASSES, (V,))
ENDS = torch.randint(0, V, (2, E))
X = torch.randn(V, WIDTH)
TRAIN = torch.rand(V) < 0.6


class Two(nn.Module):
    """Two convolutions with batch norm, and the mean of the hidden layer if asked."""

    def __init__(self, first: nn.Module, last: nn.Module, mean: bool = False):
        super().__init__()
        self.first, self.last, self.norm, self.mean = first, last, nn.BatchNorm1d(16), mean

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        h = F.relu(self.norm(self.first(x, edge_index)))
        z = self.last(h, edge_index)
        return (z, h.mean(0)) if self.mean else z


class Alone:
    """What a net is, of one process of PyTorch."""

    rank, workers, vertices = 0, 1, torch.arange(V)

    def __init__(self, module: nn.Module):
        self.module = module

    def __call__(self, x: Tensor | None = None) -> Any:
        return self.module(X.double() if x is None else x, ENDS)

    def sum(self, of: Tensor) -> Tensor:
        return of

    def rows(self, of: Tensor, vertices: Tensor) -> Tensor:
        return of[vertices]

    def gather(self, of: Tensor) -> Tensor:
        return of

    def sum_gradients(self, parameters: list[Tensor]) -> None:
        pass


def of_labels(net: Any, z: Tensor) -> Tensor:
    """The mean over all training vertices: this process's part."""
    here = TRAIN[net.vertices]
    return F.cross_entropy(z[here], Y[net.vertices][here], reduction="sum") / int(TRAIN.sum())


def plain(net: Any, parameters: list[Tensor], x: Tensor) -> Iterator[Tensor]:
    """Clipping by the norm of all gradients, which every process has."""
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        loss = of_labels(net, net())
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        yield net.sum(loss.detach())


def around(net: Any, parameters: list[Tensor], x: Tensor) -> Iterator[Tensor]:
    """Between an encoder and a decoder, whose gradients are each process's own."""
    torch.manual_seed(7)
    into, out = nn.Linear(WIDTH, WIDTH).to(x), nn.Linear(CLASSES, CLASSES).to(x)
    own = [*into.parameters(), *out.parameters()]
    optimizer = torch.optim.Adam([*parameters, *own], lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss = of_labels(net, out(net(torch.tanh(into(x)))))
        loss.backward()
        net.sum_gradients(own)
        optimizer.step()
        yield net.sum(loss.detach())
    yield into.weight.detach().norm()


def rollout(net: Any, parameters: list[Tensor], x: Tensor) -> Iterator[Tensor]:
    """Three passes before one backward pass."""
    optimizer = torch.optim.SGD(parameters, lr=0.02)
    for _ in range(3):
        optimizer.zero_grad()
        h, loss = x, torch.zeros(()).to(x)
        for _ in range(3):
            h = h + 0.1 * net(h)
            loss = loss + (h - x.roll(1, 1)).square().sum() / (V * WIDTH)
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())


def pairs(net: Any, parameters: list[Tensor], x: Tensor) -> Iterator[Tensor]:
    """Scores of pairs, whose rows are of any process."""
    optimizer, drawn = torch.optim.Adagrad(parameters, lr=0.05), torch.Generator().manual_seed(1)
    for _ in range(4):
        optimizer.zero_grad()
        z, ends = net(), torch.randint(0, V, (2, 120), generator=drawn)
        mine = ends[:, net.rank :: net.workers]
        loss = F.softplus(-(net.rows(z, mine[0]) * net.rows(z, mine[1])).sum(1)).sum() / 120
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())
    yield net.gather(net()).detach().norm()


def whole(net: Any, parameters: list[Tensor], x: Tensor) -> Iterator[Tensor]:
    """An output of the whole graph, which stands on every process, and a mean over all rows of the output."""
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        z, hidden = net()
        mean = net.sum(z.sum(0)) / V
        loss = of_labels(net, z) + (z - mean).square().sum() / V + hidden.square().sum() / net.workers
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())


LOOPS = {
    "plain": (plain, lambda: Two(SAGEConv(WIDTH, 16), GCNConv(16, CLASSES))),
    "around": (around, lambda: Two(GATConv(WIDTH, 8, heads=2), GCNConv(16, CLASSES))),
    "rollout": (rollout, lambda: Two(GCNConv(WIDTH, 16), SAGEConv(16, WIDTH))),
    "pairs": (pairs, lambda: Two(GATConv(WIDTH, 8, heads=2), GCNConv(16, 8))),
    "whole": (whole, lambda: Two(GCNConv(WIDTH, 16), GCNConv(16, CLASSES), mean=True)),
}


def apart(ours: list[float], theirs: list[float]) -> float:
    return max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(ours, theirs, strict=True))


def run(name: str, mesh: str) -> None:
    loop, make = LOOPS[name]
    torch.manual_seed(3)
    module = make()
    exact = copy.deepcopy(module).double()
    theirs = [float(of) for of in loop(Alone(exact), list(exact.parameters()), X.double())]
    net = weft.compile(module, weft.Graph(edge_index=ENDS, x=X), parallel=mesh)
    ours = [float(of) for of in loop(net, list(net.parameters()), X[net.vertices])]
    figures = [apart(ours, theirs)]
    for now, right in ((module.parameters(), exact.parameters()), (module.buffers(), exact.buffers())):
        pairs = [(p.double(), q) for p, q in zip(now, right) if q.is_floating_point()]
        # a bias before a norm has no gradient but rounding
        pairs = [(p, q) for p, q in pairs if q.grad is None or q.grad.norm() > 1e-10]
        figures.append(max(float((p - q).norm() / q.norm().clamp(min=1e-3)) for p, q in pairs))
    if net.rank == 0:
        print(name, mesh, *(f"{of:.1e}" for of in figures), flush=True)


def net_of_rank(mesh: str) -> Any:
    """A net whose processes begin with other parameters and buffers, each by its rank."""
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    torch.manual_seed(rank)
    module = Two(GCNConv(WIDTH, 16), GCNConv(16, CLASSES))
    module.norm.num_batches_tracked.fill_(2**40 + 1 + rank)
    module.norm.running_mean.fill_(rank)
    return weft.compile(module, weft.Graph(edge_index=ENDS, x=X), parallel=mesh)


def main() -> None:
    what, mesh = sys.argv[1], "graph=2"
    if what == "--unlike":
        net = net_of_rank(mesh)
        state = [of.detach().clone() for of in net.state_dict().values()]
        summed, norm = [net.sum(of) for of in state], net.module.norm
        same = all(torch.equal(now, of * 2) for now, of in zip(summed, state))
        same = same and int(norm.num_batches_tracked) == 2**40 + 1 and not norm.running_mean.any()
        print(f"the first one's: {same}", flush=True)
        if net.rank == 1:
            net.sum(torch.zeros(1))
        net()
    elif what == "--raises":
        net = net_of_rank(mesh)
        if net.rank == 1:
            raise ValueError("of rank 1")
        net()
    else:
        for name in sys.argv[2:] or LOOPS:
            run(name, what)


if __name__ == "__main__":
    main()
