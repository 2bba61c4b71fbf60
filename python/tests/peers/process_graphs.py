"""Nets without a graph over several processes, beside PyTorch in float64.

mpirun -n 2 python process_graphs.py MESH      a line for each loop: its name, and how far losses, gradients
                                               and weights are apart
mpirun -n 2 python process_graphs.py --unlike  the ranks call with other graphs: what both say
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from graph_models import GRAPHS, WIDTH, Mesh, Molecules, Plain, Typed, drawn, typed
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import global_add_pool, global_mean_pool

import weft


class Edges(nn.Module):
    """A value of each edge, and one of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.mesh, self.last = Mesh(), nn.Linear(4, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> tuple[Tensor, Tensor]:
        h = self.mesh(x, edge_index, edge_attr)
        return self.last(torch.cat([h[edge_index[0]], h[edge_index[1]]], 1)), h.mean(0)


class Heads(nn.Module):
    """Two values of each graph, one of each vertex, and one of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.mesh, self.first, self.last = Mesh(), nn.Linear(2, 1), nn.Linear(2, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> tuple[Tensor, ...]:
        h = self.mesh(x, edge_index, edge_attr)
        return self.first(global_mean_pool(h, batch)), self.last(global_add_pool(h, batch) / 20), h, h.mean(0)


class Alone:
    """What a net has of all processes, of a module that computes all by itself."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.vertices, self.edges, self.workers, self.rank = (
            module,
            slice(None),
            slice(None),
            1,
            0,
        )

    def __call__(self, *arguments: Any, edges: Tensor | None = None, **named: Any) -> Any:
        named.pop("pos", None)
        if edges is not None:
            arguments = arguments[0], arguments[1][:, edges], arguments[2][edges]
        return self.module(*arguments, **named)

    def sum(self, values: Tensor) -> Tensor:
        return values

    def rows(self, values: Tensor, vertices: Tensor) -> Tensor:
        return values[vertices]

    def gather(self, values: Tensor) -> Tensor:
        return values.detach()


def meshes(net: Any, to: Callable[[Tensor], Tensor]) -> Iterator[Any]:
    """Graphs of several sizes, twice, with gradients of features of vertices and edges. One has fewer
    vertices than there are processes."""
    for d in [*GRAPHS[:3], drawn(1, 5), drawn(2, 6), *GRAPHS[:2], drawn(300, 7, 8)]:
        x, attr = to(d.x).requires_grad_(), to(d.edge_attr).requires_grad_()
        out = net(x, d.edge_index, attr, pos=d.pos)
        loss = (out - to(d.y)[net.vertices]).square().sum() / d.y.numel()
        loss.backward()
        rows, edges = (net.sum(one.grad).double() for one in (x, attr))
        yield (
            net.sum(loss.detach()),
            *(torch.cos(torch.arange(len(one))).double() @ one[:, 0] for one in (rows, edges)),
        )


def molecules(net: Any, to: Callable[[Tensor], Tensor]) -> Iterator[Any]:
    """What pools return stands on each process, and a loss of it counts once for each."""
    for k in range(3):
        d = Batch.from_data_list(GRAPHS[k : k + 3])
        out = net(to(d.x), d.edge_index, to(d.edge_attr), d.batch, pos=d.pos)
        loss = F.mse_loss(out, to(d.target)) / net.workers
        loss.backward()
        yield loss.detach() * net.workers, out.detach().sum()


def heads(net: Any, to: Callable[[Tensor], Tensor]) -> Iterator[Any]:
    """Outputs of the graphs, of vertices and of the whole, of which the loss of each process reads others."""
    for k in range(3):
        d = Batch.from_data_list(GRAPHS[k : k + 3])
        first, last, h, whole = net(to(d.x), d.edge_index, to(d.edge_attr), d.batch)
        parts = [first.square().mean(), last.sin().mean() + whole.square().sum()]
        loss = h.square().sum() * (k > 0) / d.num_nodes
        for number, part in enumerate(parts):
            if net.workers == 1 or net.rank == number:
                loss = loss + part
        loss.backward()
        yield net.sum(loss.detach()), first.detach().sum()


def rollout(net: Any, to: Callable[[Tensor], Tensor]) -> Iterator[Any]:
    """Edges anew in each step, of what the step before returned, of which each process has its rows."""
    d = GRAPHS[3]
    for _ in range(2):
        state, loss = to(d.x), torch.zeros(())
        for step in range(3):
            near = (
                torch.cdist(state.detach().double(), state.detach().double()).topk(4, largest=False).indices
            )
            ends = torch.stack([near[:, 1:].reshape(-1), torch.arange(len(state)).repeat_interleave(3)])
            h = net(state, ends, pos=d.pos)
            target = to(d.y)[net.vertices]
            loss = loss + (h - target * (step + 1) / 3).square().sum() / d.y.numel()
            h = torch.cat([h, to(d.x)[net.vertices][:, 2:]], 1)
            state = net.rows(h, torch.arange(d.num_nodes))
        loss.backward()
        yield net.sum(loss.detach()), net.gather(h)[:, :2].norm()


def kinds(net: Any, to: Callable[[Tensor], Tensor]) -> Iterator[Any]:
    """Several types of vertices."""
    for k in (3, 0, 2, 3):
        d = typed(k)
        x = {name: to(rows) for name, rows in d.x_dict.items()}
        out = net(x, d.edge_index_dict, pos={name: rows[:, :2] for name, rows in d.x_dict.items()})
        own = net.vertices if isinstance(net.vertices, dict) else dict.fromkeys(out, net.vertices)
        loss = sum((out[name] - x[name][own[name], :2]).square().mean(1).sum() for name in out)
        loss.backward()
        yield (net.sum(loss.detach()),)


def edges(net: Any, to: Callable[[Tensor], Tensor]) -> Iterator[Any]:
    """A mask of the edges of a call, and outputs of edges and of the graph."""
    for k, d in enumerate([*GRAPHS[:3], GRAPHS[0]]):
        kept = torch.arange(d.num_edges) % 3 != k % 3
        each, whole = net(to(d.x), d.edge_index, to(d.edge_attr), pos=d.pos)
        loss = each.square().sum() / d.num_edges + whole.square().sum() / net.workers
        loss.backward()
        yield net.sum(loss.detach()), net.sum(each.detach()[:, 0] @ to(d.edge_attr)[net.edges]).norm()
        with torch.no_grad():
            less, _ = net(to(d.x), d.edge_index, to(d.edge_attr), edges=kept, pos=d.pos)
            yield net.sum(less.sum()), net.sum(torch.tensor(len(less)))


LOOPS: dict[str, tuple[Callable[..., Any], type[nn.Module]]] = {
    "meshes": (meshes, Mesh),
    "molecules": (molecules, Molecules),
    "heads": (heads, Heads),
    "rollout": (rollout, Plain),
    "kinds": (kinds, Typed),
    "edges": (edges, Edges),
}


def figures(net: Any, parameters: list[Tensor], loop: Any, to: Callable[[Tensor], Tensor]) -> list[float]:
    """What a loop yields. Each time its optimizer takes a step."""
    optimizer, found = torch.optim.SGD(parameters, lr=0.03), []
    for made in loop(net, to):
        found += [float(one) for one in made]
        optimizer.step()
        optimizer.zero_grad()
    return found


def run(mesh: str) -> None:
    for name, (loop, make) in LOOPS.items():
        torch.manual_seed(3)
        module = make()
        exact = copy.deepcopy(module).double()
        by = {"partition_by": "pos"} if name in ("meshes", "kinds") else {}
        net = weft.compile(module, parallel=mesh, **by)
        call = net if by else WithoutPositions(net)
        ours = figures(call, list(net.parameters()), loop, lambda values: values.clone())
        theirs = figures(Alone(exact), list(exact.parameters()), loop, lambda values: values.double())
        apart = max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(ours, theirs, strict=True))
        both = [(p.double(), q) for p, q in zip(module.parameters(), exact.parameters())]
        ends = max(float((p - q).norm() / q.norm().clamp(min=1e-3)) for p, q in both if q.norm() > 0)
        if net.rank == 0:
            print(name, f"{apart:.1e}", f"{ends:.1e}", flush=True)


class WithoutPositions:
    """A net whose calls give no positions."""

    def __init__(self, net: Any) -> None:
        self.net = net

    def __getattr__(self, name: str) -> Any:
        return getattr(self.net, name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        named.pop("pos", None)
        return self.net(*arguments, **named)


def unlike() -> None:
    """Ranks that call with other graphs refuse that alike, and go on."""
    net = weft.compile(Plain(), parallel="graph=2")
    first, other, new = GRAPHS[:3]

    def says(d: Any) -> None:
        try:
            net(d.x, d.edge_index)
        except weft.Refused as err:
            print(f"rank {net.rank}: {err}", flush=True)

    says(first)
    says(other)
    says(other if net.rank else first)  # both are divided
    says(first)
    says(new if net.rank else first)  # one is new
    says(new if net.rank else drawn(30, 9))  # both are
    for d in (first, other, new):
        says(d)
    without = weft.compile(Plain(), weft.Graph(edge_index=other.edge_index), parallel="graph=2")
    try:
        without(torch.zeros(other.num_nodes - 1, WIDTH))
    except weft.Refused as err:
        print(f"rank {net.rank}: {err}", flush=True)
    wrong = first.clone()
    wrong.edge_index[0, 3] = 9  # which is not there
    says(wrong if net.rank else first)  # one rank refuses it by itself
    try:
        net(first.x) if net.rank else net(first.x, first.edge_index)
    except (weft.Refused, TypeError) as err:
        print(f"rank {net.rank}: {str(err).replace('a call of', '')}", flush=True)
    says(first)
    own = weft.compile(net.module, weft.Graph(x=first.x, edge_index=first.edge_index), parallel="graph=2")
    (own().sum() + own(other.x, other.edge_index).sum()).backward()
    assert net.sum(torch.ones(())) == 2 and len(net.vertices) in (4, 5), net.vertices
    out = net(first.x, first.edge_index)
    (out.sum() + net(other.x, other.edge_index).sum()).backward()
    if net.rank == 0:
        print("they go on", flush=True)


if sys.argv[1] == "--unlike":
    unlike()
else:
    run(sys.argv[1])
