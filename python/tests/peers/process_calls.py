"""Calls of two processes that differ: both refuse them by the same line, and then go on."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from typing import Any

import torch
from process_models import ENDS, WIDTH, Two, V, X
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

import weft

AGAIN = ": the processes make the same calls in the same order"


def refused(call: Callable[[], Any], line: str) -> None:
    """Fails unless a call is refused by a line, of which … stands for anything."""
    try:
        call()
    except weft.Refused as err:
        message = str(err)
    else:
        message = "nothing"
    pattern = ".*".join(map(re.escape, line.split("…")))
    assert re.fullmatch(pattern, message) and len(message) < 400, f"{message!r} is not {line!r}"


class Scaled(nn.Module):
    """A layer with constants: a number, whole numbers, and a buffer."""

    def __init__(self, scale: float = 2.0, shift: int = 1, slope: float = 0.5) -> None:
        super().__init__()
        self.layer, self.scale, self.shift = nn.Linear(WIDTH, 3), scale, torch.tensor([shift, 2, 3])
        self.register_buffer("slope", torch.full((3,), slope))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.layer(x) * self.scale + self.shift
        return torch.zeros_like(h).index_add(0, edge_index[1], h[edge_index[0]]) * self.slope


class Untraced(nn.Module):
    """What no trace has: a choice by a row."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x if x[0, 0] > 0 else -x


class Heads(nn.Module):
    """Two outputs of other weights, and a learned row of each vertex."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(V, WIDTH))
        self.first, self.last = nn.Linear(WIDTH, 1, bias=False), nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        h = torch.zeros_like(x).index_add(0, edge_index[1], (x + self.table)[edge_index[0]])
        return self.first(h), self.last(h)


class Calls:
    """What a process of two calls: the ranks find, of what differs, the same line."""

    def __init__(self, net: Any, mesh: str) -> None:
        self.net, self.mesh, self.second = net, mesh, net.rank == 1
        self.graph = weft.Graph(x=X, edge_index=ENDS)
        self.other = Two(GCNConv(WIDTH, 16), GCNConv(16, 4))

    def compile(self, module: nn.Module | None = None, graph: Any = None, **settings: Any) -> Any:
        return weft.compile(module or self.other, graph or self.graph, **({"parallel": self.mesh} | settings))

    def works(self) -> None:
        """The net computes what it did, and both count alike."""
        self.net.eval()
        with torch.no_grad():
            now = self.net()
        self.net.train()
        if not hasattr(self, "right"):
            self.right = now
        assert torch.equal(now, self.right)
        assert int(self.net.sum(torch.tensor(self.net.rank))) == 1

    def of_state(self) -> None:
        """Parameters, buffers and counters of rank 1 differ."""
        state, forward = self.net.state_dict(), "rank 1 has other values than rank 0: the parameters …"
        for name in ("first.lin.weight", "last.bias", "norm.running_mean", "norm.num_batches_tracked"):
            begun = state[name].clone()
            if self.second:
                state[name].reshape(-1)[-1] += 1
            refused(self.net, f"{name}: {forward}")
            refused(self.net, f"{name}: {forward}")
            state[name].copy_(begun)
            self.works()
        names, begun = (
            ["first.lin.weight", "norm.weight"],
            {name: tensor.clone() for name, tensor in state.items()},
        )
        if self.second:
            for name in names:
                state[name].neg_()
        refused(self.net, f"{', '.join(names)}: {forward}")
        self.net.load_state_dict(begun)
        self.works()

    def of_passes(self) -> None:
        """One runs backward, trains, freezes a norm, or gives other arguments; rows are of no process."""
        net = self.net
        state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        z = net()
        if self.second:
            refused(
                net,
                "rank 1 calls forward in training with gradients, its call … of net 1, and rank 0 backward "
                f"of …{AGAIN}",
            )
        else:
            refused(
                z.sum().backward,
                f"rank 1 calls forward …, and rank 0 backward of call …, its call … of net 1{AGAIN}",
            )
        z.sum().backward()  # the pass is there
        net.load_state_dict(state)
        self.works()
        x = X[net.vertices]
        refused(
            lambda: net(x if self.second else None), f"rank 1 calls forward of features of type 0 in …{AGAIN}"
        )
        for vertex in (0, V - 1):  # whichever process has it
            refused(
                lambda vertex=vertex: net(rows=torch.tensor([vertex])),
                "rows: over processes outputs have the rows of this process, net.vertices: leave it out, and "
                "choose from the outputs",
            )
        net.train(not self.second)
        refused(
            net,
            f"rank 1 calls forward with gradients, … and rank 0 forward in training with gradients, …{AGAIN}",
        )
        net.train()
        if self.second:
            net.module.norm.eval()
        refused(
            net,
            "rank 1 calls the first pass of Two with norm in evaluation, and rank 0 forward in training with "
            f"gradients, its call … of net 1{AGAIN}",
        )
        net.module.norm.eval()
        net()  # which both have now
        net.module.norm.train(not self.second)
        refused(
            net,
            f"rank 1 calls forward …, its call … of net 2, and rank 0 forward …, its call … of net 1{AGAIN}",
        )
        net.module.norm.train()
        net.load_state_dict(state)
        self.works()

    def of_nets(self) -> None:
        """One compiles, or other modules, graphs or settings; nets end in another order; a plan is of one
        alone."""
        net, compiles = (
            self.net,
            f"weft.compile of Two, and rank 0 forward in training with gradients, its call … of net 1{AGAIN}",
        )
        refused(self.compile if self.second else net, f"rank 1 calls {compiles}")
        self.works()
        # One refuses alone: a setting, a module, or what is none.
        refused(lambda: self.compile(partition="none" if self.second else "auto"), "…partition none: …")
        self.works()
        refused(
            lambda: self.compile(Untraced() if self.second else None),
            "…model: process_calls.py:…: return x if …",
        )
        self.works()
        refused(
            lambda: self.compile(len if self.second else None),
            "…module: builtin_function_or_method is no module …",
        )
        self.works()
        compiled = "rank 1 compiles otherwise than rank 0: …"
        refused(
            lambda: self.compile(Two(GCNConv(WIDTH, 16), GCNConv(16, 4), mean=self.second)),
            f"module: {compiled}",
        )
        for constant in ({"scale": 3.0}, {"shift": 2}):
            arguments = constant if self.second else {}
            refused(lambda arguments=arguments: self.compile(Scaled(**arguments)), f"module: {compiled}")
        refused(
            lambda: self.compile(seed=7 + net.rank, halo="cover" if self.second else "rows"),
            f"halo, seed: {compiled}",
        )
        x = X.clone()
        x[3, 3] += net.rank
        graph = weft.Graph(x=x, edge_index=ENDS)
        refused(lambda: self.compile(graph=graph), "rank 1 opens another graph than rank 0: …")
        self.works()
        scaled = self.compile(Scaled(slope=1.0 + net.rank))  # rank 0's
        assert float(scaled.module.slope[0]) == 1
        scaled.module.slope += net.rank
        refused(scaled, "slope: rank 1 has other values than rank 0: …")
        nets = [self.compile(), self.compile()]
        a, b = nets[:: -1 if self.second else 1]
        refused(
            a,
            "rank 1 calls forward in training with gradients, its call … of net …, and rank 0 forward "
            f"…{AGAIN}",
        )
        del a
        nets.remove(b)
        gc.collect()  # of other nets
        self.works()
        del b, nets, scaled
        gc.collect()
        again = self.compile()
        again().sum().backward()
        if self.second:
            weft.plan(self.graph, model=net, passes=1)
        self.works()

    def of_sums(self) -> None:
        """Sums of other shapes, and of gradients of other parameters."""
        net = self.net
        shape = (3, 2) if self.second else (2, 3)
        refused(
            lambda: net.sum(torch.ones(shape)),
            "rank 1 calls sum of 3 × 2 numbers, its call … of net 1, and rank 0 sum of 2 × 3 numbers, its "
            f"call … of net 1{AGAIN}",
        )
        torch.manual_seed(1)
        layers = [nn.Linear(3, 3, bias=False) for _ in range(2)]
        parameters = [layer.weight for layer in layers]
        if self.second:
            refused(
                lambda: net.sum_gradients(parameters),
                f"rank 1 calls sum of gradients of 2 parameters, … and rank 0 …{AGAIN}",
            )
            parameters.reverse()
        else:
            refused(
                net,
                "rank 1 calls sum of gradients of 2 parameters, its call … of net 1, and rank 0 forward "
                f"…{AGAIN}",
            )
        refused(
            lambda: net.sum_gradients(parameters),
            "parameter 0, parameter 1: rank 1 has other values than rank 0: …",
        )
        parameters = [layer.weight for layer in layers]
        parameters[net.rank].grad = torch.full((3, 3), 2.0)
        repeated = [*parameters, *parameters]  # each counts once
        net.sum_gradients(repeated)
        assert all(torch.equal(parameter.grad, torch.full((3, 3), 2.0)) for parameter in parameters)
        both = nn.Parameter(torch.ones(2))
        both.grad = torch.tensor([1.0, 10.0]) * (1 + net.rank)
        net.sum_gradients([both, both])
        assert both.grad.tolist() == [3.0, 30.0]
        own = torch.ones(2, requires_grad=True)
        (net.sum(own, group=True) * (1 + net.rank)).sum().backward()
        assert own.grad.tolist() == [3.0 if net.groups == 1 else 1.0 + net.rank] * 2
        self.works()

    def of_losses(self) -> None:
        """Each process has a loss of another output: all have the gradients of both, also of rows of all
        vertices."""
        net = self.compile(Heads())
        h = torch.zeros_like(X).index_add(0, ENDS[1], 1 + X[ENDS[0]])
        owner = net.sum(torch.zeros(V).index_fill(0, net.vertices, float(net.rank))).long()
        into = torch.zeros(V, 2).index_add(0, ENDS[0], torch.eye(2)[owner[ENDS[1]]])
        if net.groups > 1:
            into[:] = torch.bincount(ENDS[0], minlength=V)[:, None]
        weights = [tensor.detach()[0] for tensor in (net.module.first.weight, net.module.last.weight)]
        for _ in range(2):  # in memory that is used again
            net.zero_grad()
            net()[net.rank].sum().backward()
            grads = [net.module.first.weight.grad[0], net.module.last.weight.grad[0]]
            for rank, grad in enumerate(grads):
                rows = net.vertices if rank == net.rank else torch.arange(0)
                torch.testing.assert_close(grad, net.sum(h[rows].sum(0)), rtol=1e-4, atol=1e-4)
            right = sum(into[:, rank, None] * weight for rank, weight in enumerate(weights))
            torch.testing.assert_close(net.module.table.grad, right, rtol=1e-4, atol=1e-4)


def check(net: Any, mesh: str) -> None:
    calls = Calls(net, mesh)
    calls.works()
    calls.of_state()
    calls.of_passes()
    if mesh.startswith("graph"):
        calls.of_nets()
    calls.of_sums()
    calls.of_losses()
