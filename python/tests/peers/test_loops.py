"""Training loops of PyTorch around a compiled module, beside the same around the module itself in float64.

Each loop yields what it measures. It is written for any net that is called as weft.compile's are.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import endings
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GATConv, GCNConv, GINConv, MessagePassing, SAGEConv

import weft
from weft import _calls, _model, _module, _progress, _tracings

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


# -- modules


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


# -- loops: of a net, and of the features in its precision


def plain(net: nn.Module, _: Tensor) -> Iterator[Tensor]:
    """Cross-entropy, SGD with momentum and clipping."""
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(net()[TRAIN], Y[TRAIN])
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        yield loss


def scheduled(net: nn.Module, _: Tensor) -> Iterator[Tensor]:
    """AdamW by groups of parameters, with a scheduler, and a smoothed loss."""
    groups = [{"params": [p], "weight_decay": 0.01 * (p.dim() > 1)} for p in net.parameters()]
    optimizer = torch.optim.AdamW(groups, 0.003, eps=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(net()[TRAIN], Y[TRAIN], label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss


def pairs(net: nn.Module, _: Tensor) -> Iterator[Tensor]:
    """GAE: edges beside pairs that are drawn anew in each step."""
    optimizer, g = torch.optim.Adagrad(net.parameters(), 0.02, eps=1e-3), torch.Generator().manual_seed(1)
    for _ in range(3):
        optimizer.zero_grad()
        z = net()
        ends = torch.cat([ENDS[:, :100], torch.randint(0, V, (2, 100), generator=g)], 1)
        score = (z[ends[0]] * z[ends[1]]).sum(1)
        loss = F.binary_cross_entropy_with_logits(score, (torch.arange(200) < 100).to(z))
        loss.backward()
        optimizer.step()
        yield loss


def views(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """GRACE: two passes with other features before one backward pass."""
    optimizer, g = torch.optim.RMSprop(net.parameters(), 0.001, eps=1e-3), torch.Generator().manual_seed(2)
    for _ in range(3):
        optimizer.zero_grad()
        a, b = (F.normalize(net(x * (torch.rand(1, WIDTH, generator=g) < 0.7).to(x))) for _ in range(2))
        loss = F.cross_entropy(a @ b.T / 0.5, torch.arange(V)) + F.cross_entropy(
            b @ a.T / 0.5, torch.arange(V)
        )
        loss.backward()
        optimizer.step()
        yield loss


def infomax(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """DGI: embeddings beside those of permuted features, scored by a summary and a weight of the loop's."""
    weight = nn.Parameter(torch.eye(WIDTH).to(x))
    optimizer, g = torch.optim.SGD([*net.parameters(), weight], 0.05), torch.Generator().manual_seed(3)
    for _ in range(3):
        optimizer.zero_grad()
        real, false = net(), net(x[torch.randperm(V, generator=g)])
        summary = weight @ torch.sigmoid(real.mean(0))
        loss = -F.logsigmoid(real @ summary).mean() - F.logsigmoid(-(false @ summary)).mean()
        loss.backward()
        optimizer.step()
        yield loss
    yield weight.norm()


def bootstrapped(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """BGRL: a teacher follows its student, and has no gradient."""
    teacher, head = copy.deepcopy(net), nn.Linear(WIDTH, WIDTH, bias=False).to(x)
    nn.init.eye_(head.weight)
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], 0.05)
    for step in range(3):
        optimizer.zero_grad()
        with torch.no_grad():
            target = teacher(x.roll(step, 1))
        loss = -F.cosine_similarity(head(net()), target).mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(teacher.parameters(), net.parameters()):
                ours.mul_(0.9).add_(0.1 * theirs)
        yield loss


def masked(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """GraphMAE: features that a token hides are predicted."""
    token, g = nn.Parameter(torch.zeros(1, WIDTH).to(x)), torch.Generator().manual_seed(4)
    optimizer = torch.optim.SGD([*net.parameters(), token], 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        hidden = torch.rand(V, 1, generator=g) < 0.5
        rows = hidden[:, 0]
        made = net(torch.where(hidden, token, x))
        loss = (1 - F.cosine_similarity(made[rows], x[rows])).pow(2).mean()
        loss.backward()
        optimizer.step()
        yield loss
    yield token.norm()


def distilled(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """A student of a teacher in evaluation."""
    teacher = copy.deepcopy(net).eval()
    with torch.no_grad():
        for p in teacher.parameters():
            p.mul_(1.5)
        target = F.softmax(teacher() / 2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.kl_div(F.log_softmax(net() / 2, 1), target, reduction="batchmean")
        loss.backward()
        optimizer.step()
        yield loss


def cotrained(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Two nets: each learns from the vertices of which the other's loss is small."""
    other = copy.deepcopy(net)
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(0.5)
    optimizers = [torch.optim.SGD(of.parameters(), 0.1) for of in (net, other)]
    for _ in range(3):
        losses = [F.cross_entropy(of(), Y, reduction="none") for of in (net, other)]
        chosen = [loss.detach().argsort()[:60] for loss in losses]
        for optimizer, loss, of in zip(optimizers, losses, reversed(chosen)):
            optimizer.zero_grad()
            loss[of].mean().backward()
            optimizer.step()
            yield loss[of].sum()


def rollout(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Three steps of which each begins with what the one before gave, and one backward pass through all."""
    optimizer, target = torch.optim.Adam(net.parameters(), 0.002, eps=1e-3), x.roll(1, 1)
    for _ in range(3):
        optimizer.zero_grad()
        h, loss = x, torch.zeros(()).to(x)
        for _ in range(3):
            h = h + 0.1 * net(h)
            loss = loss + F.mse_loss(h, target)
        loss.backward()
        optimizer.step()
        yield loss


def inside(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Between an encoder and a decoder of the loop's, in two optimizers."""
    torch.manual_seed(7)
    into, out = nn.Linear(WIDTH, WIDTH).to(x), nn.Linear(WIDTH, 2).to(x)
    optimizers = [
        torch.optim.SGD(net.parameters(), 0.05),
        torch.optim.SGD([*into.parameters(), *out.parameters()], 0.02),
    ]
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = F.smooth_l1_loss(out(net(torch.tanh(into(x)))), x[:, :2])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        yield loss
    yield into.weight.norm()


def saliency(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Gradients by the features, in evaluation."""
    net.eval()
    x = x.clone().requires_grad_()
    net(x)[:20].logsumexp(1).sum().backward()
    yield x.grad.norm()
    yield x.grad[5].abs().max()
    (by,) = torch.autograd.grad(net(x)[3, 1], x)
    yield by.norm()


def closures(net: nn.Module, _: Tensor) -> Iterator[Tensor]:
    """L-BFGS, which asks for several passes in a step."""
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.2, max_iter=3)
    for _ in range(2):

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(net()[TRAIN], Y[TRAIN])
            loss.backward()
            return loss

        yield optimizer.step(closure)


def frozen(net: nn.Module, _: Tensor) -> Iterator[Tensor]:
    """Parameters are frozen between two steps, and one is loaded."""
    optimizer = torch.optim.SGD(net.parameters(), 0.05, weight_decay=0.1)
    first = next(iter(net.parameters()))
    for step in range(4):
        first.requires_grad_(step % 2 == 0)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net()[TRAIN], Y[TRAIN])
        loss.backward()
        assert (first.grad is None) == (step % 2 == 1)
        optimizer.step()
        yield loss
        if step == 1:
            net.load_state_dict({name: 0.9 * of for name, of in net.state_dict().items()})


def kept_statistics(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Two backward passes through a graph in evaluation, between which the running statistics move."""
    out = net.eval()(x)
    net.train()(x)
    norms = []
    for _ in range(2):
        out.pow(2).mean().backward(retain_graph=True)
        norms.append(sum(p.grad.norm() for p in net.parameters() if p.grad is not None))  # type: ignore[misc]
    yield norms[1] / norms[0]


def kept(net: nn.Module, _: Tensor) -> Iterator[Tensor]:
    """Two backward passes through one graph, and a net whose values torch.func gives."""
    out = net()
    for of in (out.pow(2).mean(), out.sigmoid().sum()):
        of.backward(retain_graph=True)
        yield sum(p.grad.norm() for p in net.parameters())  # type: ignore[misc]
    given = {name: (2 * p.detach()).requires_grad_() for name, p in net.named_parameters()}
    torch.func.functional_call(net, given, ()).sum().backward()
    yield sum(p.grad.norm() for p in given.values())  # type: ignore[misc]


def later(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """A pass is run backward with the parameters of its forward pass, after another pass with others."""
    first = net(x)
    values = [p.detach().clone() for p in net.parameters()]
    doubled = {name: 2 * p.detach() for name, p in net.named_parameters()}
    yield torch.func.functional_call(net, doubled, (x,)).norm()
    yield net(x).norm()
    first.pow(2).sum().backward()
    yield sum(p.grad.norm() for p in net.parameters())  # type: ignore[misc]
    assert all(torch.equal(p, value) for p, value in zip(net.parameters(), values))


def averaged(net: nn.Module, _: Tensor) -> Iterator[Tensor]:
    """An average of the weights of all steps, evaluated without a gradient."""
    average = torch.optim.swa_utils.AveragedModel(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(), Y).backward()
        optimizer.step()
        average.update_parameters(net)
    with torch.inference_mode():
        yield average().norm()
    net.eval()
    with torch.no_grad():
        yield net().norm()
    net.train()
    with torch.no_grad():  # which takes the batch's statistics, and moves the running ones
        yield net().norm()


def stays(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """A batch norm stays in evaluation for some of the steps: its running statistics are read, and stay."""
    norm = next(of for of in net.modules() if isinstance(of, nn.BatchNorm1d))
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    for step in range(4):
        net.train()
        if step % 2:
            norm.eval()
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x + step), Y)
        loss.backward()
        optimizer.step()
        yield loss
    net.eval()
    yield net().norm()


def several(net: nn.Module, _: Tensor) -> Iterator[Tensor]:
    """Outputs in a dict, of which one has no part in a loss: what it alone depends on has no gradient."""
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    for step in range(3):
        optimizer.zero_grad()
        made = net()
        h, mean = made["of"]
        loss = h[:, 1].pow(2).mean() + (mean * torch.arange(8).to(mean)).sum()
        if step != 1:
            loss = loss + F.cross_entropy(made["logits"], Y)
        loss.backward()
        without = {part for name, p in net.named_parameters() if p.grad is None for part in name.split(".")}
        assert without & {"first", "last", "never"} == {"never"} | ({"last"} if step == 1 else set())
        optimizer.step()
        yield loss


MESHES = ("graph=1", "graph=3", "tensor=2", "graph=2,tensor=2", "pipeline=2", "partitions=3")
ALL = [
    *((kept_statistics, "batch", "graph=3"), (kept_statistics, "batch", "tensor=2")),
    *((stays, "batch", "graph=3"), (stays, "batch", "tensor=2")),
    *(
        (plain, module, mesh)
        for module, mesh in zip(MODULES, (*MESHES, *MESHES))
        if module not in ("several", "mesh", "deep")
    ),
    *((plain, "batch", mesh) for mesh in MESHES if mesh != "graph=3"),
    *(
        (scheduled, "gcn", "graph=3"),
        (scheduled, "gin", "tensor=2"),
        (pairs, "gat", "graph=3"),
        (pairs, "gated", "pipeline=2"),
    ),
    *((views, "gated", "graph=2,tensor=2"), (views, "batch", "graph=3"), (views, "gcn", "partitions=3")),
    *((infomax, "gcn", "graph=3"), (infomax, "gat", "tensor=2"), (bootstrapped, "gcn", "tensor=2")),
    *((bootstrapped, "batch", "graph=3"), (masked, "gin", "graph=3"), (masked, "gat", "graph=1")),
    *(
        (distilled, "batch", "pipeline=2"),
        (distilled, "appnp", "graph=3"),
        (cotrained, "gcn", "graph=2,tensor=2"),
    ),
    *((rollout, "mesh", "graph=3"), (rollout, "mesh", "tensor=2"), (rollout, "gated", "partitions=3")),
    *((inside, "gcn", "pipeline=2"), (inside, "mesh", "graph=3"), (inside, "appnp", "tensor=2")),
    *(
        (saliency, "gat", "graph=3"),
        (saliency, "batch", "pipeline=2"),
        (saliency, "batch", "graph=2,tensor=2"),
    ),
    *(
        (closures, "gcn", "graph=3"),
        (closures, "gin", "graph=1"),
        (frozen, "gcn", "tensor=2"),
        (frozen, "gat", "pipeline=2"),
    ),
    *(
        (kept, "gat", "graph=3"),
        (kept, "gcn", "tensor=2"),
        (later, "gated", "graph=3"),
        (later, "gat", "tensor=2"),
    ),
    *((views, "gat", "pipeline=2"), (views, "batch", "graph=2,pipeline=2"), (views, "deep", "pipeline=3")),
    *((rollout, "deep", "pipeline=2"), (rollout, "deep", "pipeline=3"), (infomax, "gat", "pipeline=2")),
    *(
        (rollout, "gated", "graph=2,pipeline=2"),
        (bootstrapped, "batch", "pipeline=2"),
        (kept, "gat", "pipeline=2"),
    ),
    *(
        (later, "gat", "pipeline=2"),
        (later, "gated", "graph=2,pipeline=2"),
        (kept_statistics, "batch", "pipeline=2"),
    ),
    *((averaged, "batch", "graph=3"), (averaged, "batch", "pipeline=2"), (several, "several", "graph=1")),
    *((several, "several", "graph=3"), (several, "several", "tensor=2"), (several, "several", "pipeline=2")),
]
ALL += [(plain, "batch", "offload"), (views, "gcn", "offload"), (rollout, "mesh", "offload")]
MADE: dict[Any, nn.Module] = {}


def made(name: str, modules: Any = MODULES) -> nn.Module:
    """A module as it was when it was made, which is traced once for each graph."""
    of = modules[name]
    if of not in MADE:
        torch.manual_seed(3)
        MADE[of] = of()
        MADE[of].first_state = copy.deepcopy(MADE[of].state_dict())
    module = MADE[of]
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
        assert float((p.detach().double() - q.detach()).norm()) <= 1e-5 * max(float(q.detach().norm()), 0.1), path
    for (path, p), q in zip(module.named_buffers(), exact.buffers()):
        assert torch.allclose(p.double(), q.double(), rtol=1e-5, atol=1e-6), path


@pytest.mark.parametrize("loop, name, mesh", ALL, ids=lambda of: getattr(of, "__name__", of))
def test_as_pytorch(loop: Any, name: str, mesh: str) -> None:
    as_pytorch(loop, name, **settings(mesh))


def as_pytorch(loop: Any, name: str, **settings: Any) -> Any:
    """The net, after a loop of which all is that of float64."""
    module = made(name)
    exact = copy.deepcopy(module).double()
    theirs = [float(value.detach()) for value in loop(Whole(exact, name == "mesh"), X.double())]
    net = weft.compile(module, GRAPHS["attributes" if name == "mesh" else "plain"], **settings)
    ours = [float(value.detach()) for value in loop(net, X)]
    assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    assert_alike(module, exact)
    return net


# -- in bfloat16, and on a card

IN_BFLOAT16 = [
    *((plain, "batch", "graph=3"), (scheduled, "gcn", "tensor=2"), (views, "gat", "graph=2,tensor=2")),
    *((rollout, "mesh", "partitions=3"), (masked, "gin", "pipeline=2"), (distilled, "appnp", "graph=3")),
]


@pytest.mark.parametrize("loop, name, mesh", IN_BFLOAT16, ids=lambda of: getattr(of, "__name__", of))
def test_in_bfloat16(loop: Any, name: str, mesh: str) -> None:
    """Numbers of vertices have 8 bits: losses, and by how much weights and statistics move, are those of float64 to that."""
    module = made(name)
    exact = copy.deepcopy(module).double()
    before = [of.clone() for of in exact.state_dict().values()]
    theirs = [float(value.detach()) for value in loop(Whole(exact, name == "mesh"), X.double())]
    graph = GRAPHS["attributes" if name == "mesh" else "plain"]
    ours = [float(value.detach()) for value in loop(weft.compile(module, graph, precision="bf16", **settings(mesh)), X)]
    assert ours == pytest.approx(theirs, rel=0.01)
    for (path, of), was, becomes in zip(module.state_dict().items(), before, exact.state_dict().values()):
        moved = float((becomes - was).double().norm())
        assert float((of.double() - becomes).norm()) <= 0.05 * moved + 1e-5, path


CARD = Path(__file__).parents[3] / "bin" / "libcuda-on-cpu.so"


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The program has a card, which is the processor."""
    if not CARD.exists():
        pytest.skip("there is no bin/libcuda-on-cpu.so, which make compiles")
    monkeypatch.setenv("WEFT_CUDA", str(CARD))
    monkeypatch.setattr(_calls, "_one", None)
    yield
    _calls.program().leave()


ON_CARD = [
    *((plain, "batch", "graph=1"), (views, "gat", "graph=3"), (rollout, "mesh", "tensor=2")),
    *((bootstrapped, "batch", "graph=2,tensor=2"), (saliency, "gated", "pipeline=2"), (closures, "gin", "partitions=3")),
]


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("loop, name, mesh", ON_CARD, ids=lambda of: getattr(of, "__name__", of))
def test_on_card(loop: Any, name: str, mesh: str) -> None:
    as_pytorch(loop, name, device="cuda", **settings(mesh))


def steps(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Passes of several kinds: of the graph's features and of others, with their gradient, and without any."""
    y, optimizer = torch.arange(len(x)) % CLASSES, torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    for step in range(4):
        optimizer.zero_grad()
        given = (x * step).requires_grad_()
        loss = F.cross_entropy(net(given) if step % 2 else net(), y)
        loss.backward()
        optimizer.step()
        yield loss
        if step % 2:
            yield given.grad.norm()
        with torch.no_grad():
            yield net(x + step).norm()


@pytest.mark.usefixtures("card")
def test_rests_below_card() -> None:
    """With less memory than passes need, matrices of partitions leave the card for the host's memory, and come back."""
    torch.manual_seed(2)
    ends, x = torch.randint(0, 600, (2, 1800)), torch.randn(600, 64)
    module = Two(SAGEConv(64, 64), SAGEConv(64, CLASSES), nn.BatchNorm1d(64))
    graph, exact = weft.Graph(edge_index=ends, x=x), copy.deepcopy(module).double()
    where = {"device": "cuda", "partitions": 3, "offload": "ram"}
    one = weft.plan(graph, model=module, passes=1, gradients="x", **where)
    limit = 3 * (one["peak_tensor_bytes"][0] + one["graph_bytes"][0]) // 4
    net = weft.compile(module, graph, memory_limit=f"{limit}B", **where)
    theirs = steps(Given(exact, x.double(), ends), x.double())
    ours = [float(value.detach()) for value in steps(net, x)]
    assert ours == pytest.approx([float(value.detach()) for value in theirs], rel=1e-5)
    assert_alike(module, exact)
    card = net.memory()["device"]
    assert card["ram"]["written"] > 0 and card["ram"]["read"] > 0 and card["peak_bytes"] <= limit


class Given(nn.Module):  # type: ignore[misc]
    """A module on a graph, as PyTorch computes it."""

    def __init__(self, module: nn.Module, x: Tensor, ends: Tensor) -> None:
        super().__init__()
        self.module, self.x, self.ends = module, x, ends

    def forward(self, x: Tensor | None = None) -> Any:
        return self.module(self.x if x is None else x, self.ends)


# -- what happens when


class Dropped(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = GCNConv(WIDTH, 8), GCNConv(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(F.dropout(x, 0.5, self.training), edge_index)
        return F.dropout(self.last(F.dropout(h, 0.3, self.training), edge_index), 0.5, self.training)


MODULES["dropped"] = Dropped


def test_draws_as_torch() -> None:
    """Masks are of PyTorch's generator, the same on every mesh; without chance nothing is drawn."""
    module, found = made("dropped"), {}
    for mesh in ("graph=1", "graph=3", "tensor=2", "pipeline=2"):
        net = weft.compile(module, GRAPHS["plain"], parallel=mesh)
        found[mesh] = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            found[mesh] += [net().detach(), net().detach()]
        first, second, again, _, other, _ = found[mesh]
        assert torch.equal(first, again) and not torch.equal(first, second) and not torch.equal(first, other)
        before = torch.get_rng_state()
        with torch.no_grad():
            assert torch.equal(net.eval()(), net()) and torch.equal(torch.get_rng_state(), before)
        net.train()
    for mesh, of in found.items():
        assert torch.allclose(torch.stack(of), torch.stack(found["graph=1"]), atol=1e-5), mesh
    state = torch.get_rng_state()
    expected = net().detach()
    torch.set_rng_state(state)
    assert torch.equal(net().detach(), expected)


@pytest.mark.parametrize("mesh", ["graph=2", "pipeline=2"])
def test_samples(mesh: str) -> None:
    """Each of several samples on one graph has a pass of its own; the batch is one output."""
    net = weft.compile(made("several"), GRAPHS["plain"], parallel=mesh)
    xs = torch.stack([X, X * 2, X + 1]).requires_grad_()
    batch, alone = net(xs, samples=True), [net(x) for x in xs.detach()]
    assert batch["logits"].shape == (3, V, CLASSES) and batch["of"][1].shape == (3, 8)
    for s, one in enumerate(alone):
        assert torch.equal(batch["logits"][s], one["logits"]) and torch.equal(batch["of"][1][s], one["of"][1])
    (grad,) = torch.autograd.grad(batch["logits"][1].sum(), xs)
    assert float(grad[1].abs().sum()) > 0 and float(grad[[0, 2]].abs().sum()) == 0
    refused(weft.Refused, "samples: x is S × V × F", lambda: net(X, samples=True))


def test_outputs_own_their_memory() -> None:
    """No later pass writes into an output, and what is written into one changes no gradient."""
    net = weft.compile(made("gcn"), GRAPHS["plain"])
    first = net()
    value = first.detach().clone()
    others = [net(X * k) for k in range(3)]
    assert torch.equal(first, value)
    first.pow(2).sum().backward()
    expected = net.module.first.lin.weight.grad.clone()
    net.zero_grad()
    again = net()
    grad = 2 * again.detach()
    again.data.zero_()
    again.backward(grad)
    del others
    assert torch.equal(net.module.first.lin.weight.grad, expected)


def resident() -> int:
    return int(Path(f"/proc/{_calls.program().process.pid}/statm").read_text().split()[1]) * 4096


def test_passes_end_with_their_outputs() -> None:
    """Passes that nobody runs backward leave no memory, in the program or shared."""
    net = weft.compile(made("gated"), GRAPHS["plain"], parallel="graph=2")
    for _ in range(20):
        net(X)
    net()
    gc.collect()
    before, shared = resident(), len(os.listdir(f"/proc/{os.getpid()}/map_files")) if os.geteuid() == 0 else 0
    for _ in range(200):
        net(X)
    gc.collect()
    net()
    assert resident() < before + (8 << 20)
    if shared:
        assert len(os.listdir(f"/proc/{os.getpid()}/map_files")) < shared + 20


def test_memory_messages_and_trace(tmp_path: Path) -> None:
    """They are those of a run of the same module, and the trace has the passes of its block alone."""
    mesh = {"parallel": "graph=2,tensor=2"}
    module = Two(GCNConv(WIDTH, 8), GCNConv(8, CLASSES), nn.Identity())
    net = weft.compile(module, GRAPHS["plain"], **mesh)
    loss = F.cross_entropy(net(), Y)
    assert set(net.messages()["sent_bytes"]) == {0}, "nothing has run backward"
    loss.backward()
    with net.trace(tmp_path / "trace.json"):
        F.cross_entropy(net(), Y).backward()
    net().sum().backward()
    graph = weft.Graph(edge_index=ENDS, x=X, y=Y, split="random:60/20/20")
    run = weft.train(graph, model=module, epochs=2, out=tmp_path / "run", progress=False, **mesh).summary

    of, sent = net.memory(), net.messages()
    assert of["graph_bytes"] == run["graph_bytes"]
    for peak, peaks, most in zip(of["peak_tensor_bytes"], of["peaks"], run["peak_tensor_bytes"]):
        assert sum(peaks[:-1]) == peak <= most, "without the graph's structure, and no loss and optimizer"
    assert of["kinds"][:2] == ["features", "parameters"]
    assert of["peaks"][0][2] == 0, "there is no optimizer"
    assert sent["edge_columns"] == run["edge_columns"]
    for kind in ("halo", "layout", "gradient"):
        assert sent["communication"][kind] == run["communication"][kind] != {"bytes": 0, "messages": 0}
    rows = sum(sent["communication"][kind]["bytes"] for kind in ("halo", "layout"))
    assert sum(sent["layers"]["sent_bytes"].values()) == rows
    assert sum(sent["layers"]["edge_columns"].values()) == sum(sent["edge_columns"])
    assert all(path.startswith(("first", "last")) for path in sent["layers"]["sent_bytes"])

    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    passes = [event["name"] for event in events if event.get("name") in ("forward pass", "backward pass")]
    assert sorted(passes) == ["backward pass"] * 4 + ["forward pass"] * 4, "of each worker"
    assert any(event.get("name") == "spmm" for event in events)
    with pytest.raises(weft.Failed, match=r"none/of\.json"), net.trace(tmp_path / "none" / "of.json"):
        net()
    net()


@pytest.mark.parametrize("mesh", ["graph=1", "graph=3", "tensor=2", "partitions=3"])
def test_planned(mesh: str) -> None:
    """The memory of a loop is planned to the byte, with what Python shares with the program."""
    net = weft.compile(made("gcn"), GRAPHS["plain"], **settings(mesh))
    planned = weft.plan(GRAPHS["plain"], model=net, passes=2, gradients="x")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        x = X.clone().requires_grad_()
        (net(x).mean() + net(x).pow(2).mean()).backward()
        optimizer.step()
    took = net.memory()
    for key in ("peak_tensor_bytes", "graph_bytes", "kinds", "peaks"):
        assert planned[key] == took[key], key
    assert planned["communication"]["halo"] == net.messages()["communication"]["halo"]
    if mesh != "partitions=3":
        assert planned["sent_bytes"] == net.messages()["sent_bytes"]
    one = weft.plan(GRAPHS["plain"], model=net)
    assert sum(one["peak_tensor_bytes"]) < sum(planned["peak_tensor_bytes"])
    assert planned == weft.plan(
        GRAPHS["plain"], model=net.module, passes=2, gradients="x", **settings(mesh)
    ), "of the module"
    assert len(planned.get("process_shared_bytes", ())) == {"graph=3": 3, "tensor=2": 2}.get(mesh, 0)
    with pytest.raises(TypeError, match="workers: of a loop they are those of parallel"):
        weft.plan(GRAPHS["plain"], model=net, workers=2)


@pytest.mark.parametrize("mesh", ["graph=2", "tensor=2", "graph=2,samples=2"])
def test_planned_by_counts(mesh: str) -> None:
    """Memory and messages of a loop on a random graph are by its counts what they are on it, up to 2 %."""
    torch.manual_seed(7)
    ends, x = torch.randint(8000, (2, 30_000)), torch.randn(8000, WIDTH)
    module = Two(SAGEConv(WIDTH, 16), SAGEConv(16, CLASSES), nn.LayerNorm(16))
    of_graph = {"partition": "random"} if mesh.startswith("graph") else {}
    net = weft.compile(module, weft.Graph(edge_index=torch.cat([ends, ends.flip(0)], 1), x=x), parallel=mesh, **of_graph)
    counts = {"vertices": 8e3, "edges": 60_000, "features": WIDTH}
    planned = weft.plan(**counts, model=module, parallel=mesh, passes=2, gradients="x")
    for _ in range(3):
        given = x.expand(2, -1, -1).clone().requires_grad_() if "samples" in mesh else x.clone().requires_grad_()
        first, second = (net(given, samples="samples" in mesh) for _ in range(2))
        (first.mean() + second.square().mean()).backward()
        with torch.no_grad():
            module.first.lin_r.weight += 1
    took, sent = net.memory(), net.messages()
    assert planned["peak_tensor_bytes"] == pytest.approx(took["peak_tensor_bytes"], rel=0.02)
    assert planned["sent_bytes"] == pytest.approx(sent["sent_bytes"], rel=0.02)
    on_graph = weft.plan(net._divided.graph, model=net, passes=2, gradients="x")
    for key in ("shared_bytes", "process_shared_bytes"):
        assert planned[key] == on_graph[key], key
    assert sum(map(sum, planned["peaks"])) - sum(planned["peak_tensor_bytes"]) == sum(planned["graph_bytes"])
    for asked, why in {"edges": "counts tell what a loop takes", "edge_attr": "edge_attr: the graph has none"}.items():
        with pytest.raises(weft.Refused, match=why):
            weft.plan(**counts, model=module, parallel=mesh, inputs=asked)
    with pytest.raises(TypeError, match="vertices: is .8k.: give a number"):
        weft.plan(vertices="8k", edges=10, model=module, passes=1)
    with pytest.raises(TypeError, match="edges: give the graph of the loop, or its counts: vertices, edges, features"):
        weft.plan(vertices=8000, model=module, passes=1)


def test_planned_without_features() -> None:
    """Calls give the features: how many there are is known after the first one."""
    graph = weft.Graph(edge_index=ENDS, num_nodes=len(X))
    net = weft.compile(made("gcn"), graph, parallel="graph=2").eval()
    with pytest.raises(weft.Refused, match="x: the graph has no features: call the net with x, and plan"):
        weft.plan(graph, model=net, passes=2)
    net(X).sum().backward()
    planned = weft.plan(graph, model=net, passes=2)
    (net(X).sum() + net(2 * X).sum()).backward()
    took = net.memory()
    for key in ("peak_tensor_bytes", "graph_bytes", "kinds", "peaks"):
        assert planned[key] == took[key], key


def test_trace_of_all_variants(tmp_path: Path) -> None:
    """Passes with other layers in evaluation, or with gradients of edges, are of other models, and in one trace."""
    net = weft.compile(made("batch"), GRAPHS["plain"], parallel="graph=2")
    norm = next(of for of in net.modules() if isinstance(of, nn.BatchNorm1d))
    with net.trace(tmp_path / "trace.json"):
        net().sum().backward()
        norm.eval()
        net().sum().backward()
        norm.train()
        net().sum().backward()
    assert len(net._divided.models) == 2
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    starts = sorted(event["ts"] for event in events if event.get("name") == "forward pass")
    assert len(starts) == 3 * 2, "of each worker"
    ends = {kind: [event["id"] for event in events if event["ph"] == kind] for kind in "sf"}
    assert sorted(ends["s"]) == sorted(ends["f"]) and len(set(ends["s"])) == len(ends["s"]) > 0, "arrows"


def test_trace_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose pass has failed is in no trace; the others are."""
    net = weft.compile(made("batch"), GRAPHS["plain"])
    norm = next(of for of in net.modules() if isinstance(of, nn.BatchNorm1d))
    asked = _model.Model.ask

    def fail(model: Any, ask: str, *args: Any, **fields: Any) -> Any:
        if norm.training or ask not in ("forward", "trace"):
            return asked(model, ask, *args, **fields)
        raise weft.Failed("worker 0: no memory")

    monkeypatch.setattr(_model.Model, "ask", fail)
    norm.eval()
    with pytest.raises(weft.Failed), net.trace(tmp_path / "none.json"):
        net()
    norm.train()
    with net.trace(tmp_path / "trace.json"):
        net().sum().backward()
    assert "forward pass" in (tmp_path / "trace.json").read_text()


def test_other_processes() -> None:
    """Where each process of a group computes all of the graph, the first call says so, once."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    net = weft.compile(made("gcn"), GRAPHS["plain"])
    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        with pytest.warns(UserWarning, match="each of the 2 processes .* take one process .devices=1 in Lightning"):
            net()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            net()
    finally:
        torch.distributed.destroy_process_group()


class Called(nn.Module):  # type: ignore[misc]
    """A module that is called as a net is."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x.double(), ENDS)


def test_momenta_of_batch_norms() -> None:
    """update_bn takes the mean of all batches, and a schedule changes the momentum: as PyTorch, whose statistics
    these are."""
    net = weft.compile(made("batch"), GRAPHS["plain"], parallel="graph=2")
    exact = Called(copy.deepcopy(net.module).double())
    for module in (net, exact):
        norm = next(of for of in module.modules() if isinstance(of, nn.BatchNorm1d))
        torch.optim.swa_utils.update_bn([X, 2 * X, X - 1], module)
        assert (norm.momentum, int(norm.num_batches_tracked)) == (0.1, 3)
        with torch.no_grad():
            for norm.momentum in (0.4, 0.2, None, 0.05):
                module(X)
    for (name, expected), (_, found) in zip(exact.named_buffers(), net.named_buffers()):
        torch.testing.assert_close(found.to(expected.dtype), expected, rtol=1e-5, atol=1e-6, msg=name)
    assert len(net._divided.models) == 2, "a schedule leaves no model for each momentum"


def test_help_has_all_settings() -> None:
    text = weft.compile.__doc__ or ""
    assert not [name for name in weft._compile.SETTINGS if not re.search(rf"``[^`]*\b{name}\b", text)]


@pytest.mark.parametrize("graph", [GRAPHS["plain"], weft.Graph(edge_index=ENDS, num_nodes=len(X))])
def test_settings_are_checked_when_it_is_compiled(graph: weft.Graph) -> None:
    """Also where the first call opens the graph. The line is as that of weft.train."""
    for wrong, said in {
        "parallel": 'parallel vertices=2: the mesh has no axis "vertices"',
        "halo": "halo vertices=2: unknown halo; it is one of rows",
        "partitions": "partitions vertices=2: ",
        "memory_limit": "memory_limit vertices=2: ",
    }.items():
        with pytest.raises(weft.Refused, match="^" + said):
            weft.compile(made("gcn"), graph, **{wrong: "vertices=2"})
    net = weft.compile(made("gcn"), graph, halo="cover", parallel="graph=2")
    with pytest.raises(weft.Refused, match="samples: is 4: give True, with x of S × V × F, or False"):
        net(X, samples=4)


def test_shared_memory_is_planned() -> None:
    """In a process of its own, whose program maps no other memory."""
    text = """
        import torch, weft
        from torch_geometric.nn import GCNConv
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm, self.last = GCNConv(16, 64), torch.nn.BatchNorm1d(64), GCNConv(64, 6)
            def forward(self, x, edge_index):
                return self.last(self.norm(self.first(x, edge_index)), edge_index)
        graph = weft.Graph(edge_index=torch.randint(3000, (2, 9000)), x=torch.randn(3000, 16))
        net = weft.compile(Net(), graph)
        planned = weft.plan(graph, model=net, passes=2, gradients="x")["shared_bytes"]
        for _ in range(3):
            x = torch.randn(3000, 16, requires_grad=True)
            a = net(x)
            b = net(x)  # one of the outputs of the step before is garbage now
            (a.mean() + b.mean()).backward()
        print(planned, net.memory()["shared_bytes"])
    """
    shown = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(Path(weft.__file__).parents[1])},
    )
    planned, took = map(int, shown.stdout.split())
    assert planned == took


def test_memory_limit() -> None:
    graph, module = GRAPHS["plain"], made("gcn")
    two = weft.plan(graph, model=module, passes=2)
    way = "raise the limit to .*, or try offload=DIR and more partitions, by which"
    with pytest.raises(weft.Refused, match=rf"memory_limit 10kB: worker 0 would need .*; {way}"):
        weft.compile(module, graph, memory_limit="10kB")
    limit = two["peak_tensor_bytes"][0] + two["graph_bytes"][0]
    net = weft.compile(module, graph, memory_limit=f"{limit}B", recompute="none")
    for _ in range(2):
        first, second = net().sum(), net().sum()
        with pytest.raises(weft.Refused, match=r"while 2 passes live: call backward first"):
            net()
        first.backward()
        del second
    with torch.no_grad():
        net()


def test_memory_that_fits() -> None:
    """A refusal names the partitions with which a pass was found to fit, and no number where none was."""
    ring = torch.arange(2000)
    graph = weft.Graph(edge_index=torch.stack([ring, ring.roll(1)]), x=torch.randn(2000, WIDTH))
    module = made("gcn")
    one = weft.plan(graph, model=module, passes=1, recompute="none")
    limit = int(0.97 * (one["peak_tensor_bytes"][0] + one["graph_bytes"][0]))
    with pytest.raises(weft.Refused) as refusal:
        weft.compile(module, graph, memory_limit=f"{limit}B", recompute="none")
    found = re.search(r"; partitions=(\d+), offload=DIR fits, with \S+ kB of memory for a worker$", str(refusal.value))
    assert found, str(refusal.value)
    net = weft.compile(module, graph, memory_limit=f"{limit}B", partitions=int(found[1]), offload=True)
    net().sum().backward()
    with pytest.raises(weft.Refused, match=r"or try offload=DIR and more partitions, by which [^;]* workers$"):
        weft.compile(module, graph, memory_limit="20kB", recompute="none")


def test_frozen_layers_divide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of a net and of its copies are opened with the number of one divided graph, which others do not have."""
    numbers, ask = list[int](), _calls.Program._ask

    def noted(self: _calls.Program, asks: str, *args: Any, **fields: Any) -> Any:
        if asks == "open":
            numbers.append(fields["divided"])
        return ask(self, asks, *args, **fields)

    module = made("batch")
    weft.compile(module, GRAPHS["plain"])()  # it is compared with PyTorch
    monkeypatch.setattr(_calls.Program, "_ask", noted)
    net = weft.compile(module, GRAPHS["plain"], parallel="graph=2")
    for frozen in (False, True, False, True):
        for of in (net, copy.deepcopy(net)):
            of.module.norm.train(not frozen)
            assert of().shape == (V, 8)
    weft.compile(module, GRAPHS["plain"], parallel="graph=2")
    shared, other = numbers[0], numbers[-1]
    assert numbers.count(shared) == 2 and other not in (0, shared), "for both sets of layers"


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long says so: the lines of the program, or what it does and since when."""

    class Shown(io.StringIO):
        def write(self, text: str) -> int:
            lines.append(text)
            came.set()
            return len(text)

    def slow(self: _calls.Program, ask: str, *args: Any, **keywords: Any) -> Any:
        """Does what is asked when something is shown, if that takes long."""
        if ask in late:
            self.news.extend(late[ask])
            assert came.wait(60)
        return quick(self, ask, *args, **keywords)

    def slowly(*_: Any) -> Any:
        assert came.wait(60)
        raise weft.Refused("it was read")

    lines: list[str] = []
    came, quick = threading.Event(), _calls.Program._ask
    late: dict[str, list[str]] = {}
    monkeypatch.setattr(_calls.Program, "_ask", slow)
    monkeypatch.setattr(sys, "stderr", Shown())

    def shown_by(call: Any, says: str, **of: list[str]) -> Any:
        late.clear()
        late.update(of)
        lines.clear()
        came.clear()
        made = call()
        assert says in "".join(lines) if says else not lines
        return made

    graph = GRAPHS["plain"]
    monkeypatch.setattr(_progress, "SILENT", 1e6)
    shown_by(lambda: weft.compile(made("gcn"), graph)(), "")
    monkeypatch.setattr(_progress, "SILENT", 1e-3)
    shown_by(lambda: weft.compile(made("gcn"), graph), "weft: a of b done\n", open=["weft: a of b done"])
    net = shown_by(lambda: weft.compile(made("gcn"), graph), "weft: opening the graph, 0 s\n", open=[])
    shown_by(net, "weft: the first pass, 0 s\n", forward=[])
    shown_by(net, "")
    shown_by(lambda: weft.plan(graph, model=net), "weft: planning, 0 s\n", plan=[])
    monkeypatch.setattr(_tracings, "_traced", slowly)
    other = functools.partial(weft.compile, copy.deepcopy(made("gcn")), graph)
    shown_by(lambda: refused(weft.Refused, "it was read", other), "weft: reading Two, 0 s\n")


def test_progress_of_a_training(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """That a module is read is shown on a terminal, and not with progress=False."""
    graph, begun, asked = weft.Graph(edge_index=ENDS, x=X, y=Y), threading.Event(), list[str]()

    def slowly(*_: Any) -> Any:
        if asked:
            assert begun.wait(60)
        raise weft.Refused("it was read")

    show = _progress.show
    monkeypatch.setattr(_progress, "show", lambda line: (show(line), begun.set()))
    monkeypatch.setattr(_progress, "SILENT", 0)
    monkeypatch.setattr(_module, "_traced", slowly)
    for terminal, progress in ((True, False), (False, True), (True, True)):
        monkeypatch.setattr(_progress, "is_watched", lambda of=terminal: of)
        asked += ["a line"] * (terminal and progress)
        for call in (weft.train, functools.partial(weft.sweep, grid={"lr": [0.1]})):
            begun.clear()
            one = functools.partial(call, graph, model=made("gcn"), progress=progress)
            refused(weft.Refused, "it was read", one)
            assert ("weft: reading Two, 0 s\n" in capsys.readouterr().err) == bool(asked)


def refused(kind: type[BaseException], text: str, call: Any) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_refusals() -> None:
    graph, module = GRAPHS["plain"], made("batch")
    refused(TypeError, "epochs: it is of weft.train", lambda: weft.compile(module, graph, epochs=3))
    refused(TypeError, "did you mean parallel", lambda: weft.compile(module, graph, paralel="graph=2"))
    refused(
        weft.Refused,
        "700 partitions of 90 vertices",
        lambda: weft.compile(module, graph, parallel="graph=700"),
    )
    refused(weft.Refused, "str is no module", lambda: weft.compile("gcn", graph))
    net = weft.compile(module, graph)
    refused(weft.Refused, "no module to compile", lambda: weft.compile(net, graph))
    refused(weft.Refused, r"x: is .*float32 \(3, 8\) on cpu.*: give floats of 90 vertices × 8", lambda: net(X[:3]))
    refused(TypeError, "not pickled: pickle its state_dict", lambda: pickle.dumps(net))
    twice = functools.partial(torch.autograd.grad, net().sum(), [*net.parameters()], create_graph=True)
    refused(weft.Refused, "no second derivative", twice)
    loss = net().sum()
    with torch.no_grad():
        next(net.parameters()).mul_(2)
    refused(RuntimeError, "modified by an inplace operation", loss.backward)
    loss = net().sum()
    loss.backward()
    refused(RuntimeError, "backward through the graph a second time", loss.backward)
    net.eval()
    module.norm.train()
    refused(weft.Refused, "norm is in training, and the module in evaluation", net)
    net.train()
    module.norm.eps = 1e-3
    refused(weft.Refused, "its layers, or hooks on them, have changed", net)
    module.norm.eps = 1e-5
    refused(weft.Refused, "lin_l.weight: is torch.float64", net.double())
    net.float()
    refused(
        weft.Refused, "return tensors of floats", lambda: weft.compile(Returns(lambda x, e: (x, e)), graph)
    )
    refused(weft.Refused, "taken by their position", lambda: weft.compile(Returns(lambda x, e: x[:3]), graph))


class Returns(nn.Module):  # type: ignore[misc]
    def __init__(self, of: Any) -> None:
        super().__init__()
        self.lin, self.of = nn.Linear(WIDTH, WIDTH), of

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.of(self.lin(x), edge_index)


@pytest.mark.parametrize("mesh", ["graph=2", "pipeline=2"])
def test_interrupts(mesh: str) -> None:
    """An interrupt in a pass or its backward pass leaves the net as it was: no later pass reads or writes what
    that one has."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    module = made("batch")
    net, main = weft.compile(module, GRAPHS["plain"], parallel=mesh), threading.get_ident()
    parameters = [*net.parameters()]

    def results() -> list[Tensor]:
        module.load_state_dict(module.first_state)
        out = net(X)
        return [out.detach(), *torch.autograd.grad(out.sum(), parameters), module.norm.running_mean.clone()]

    expected, came = results(), 0
    for _ in range(8):
        timer = threading.Timer(0.02, lambda: signal.pthread_kill(main, signal.SIGINT))
        with contextlib.suppress(KeyboardInterrupt):
            timer.start()
            until = time.monotonic() + 10
            while time.monotonic() < until:  # Python ignores an interrupt in a finalizer
                results()
        came += time.monotonic() < until
        timer.join()
        gc.collect()
        for ours, theirs in zip(results(), expected):
            assert torch.equal(ours, theirs)
    assert came


def test_interrupt_of_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that is interrupted before the program is asked for it does not live on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    graph, module, main, unwound = GRAPHS["plain"], made("gcn"), threading.get_ident(), threading.Event()
    one = weft.plan(graph, model=module, gradients="x")
    limit = one["peak_tensor_bytes"][0] + one["graph_bytes"][0]
    net, quick = weft.compile(module, graph, memory_limit=f"{limit}B", recompute="none"), _calls.Program._ask
    interrupts = [signal.SIGINT]

    def later(self: _calls.Program, ask: str, *args: Any, **keywords: Any) -> Any:
        if ask == "forward" and interrupts:
            signal.pthread_kill(main, interrupts.pop())
            assert unwound.wait(60)
        return quick(self, ask, *args, **keywords)

    monkeypatch.setattr(_calls.Program, "_ask", later)
    with contextlib.suppress(KeyboardInterrupt):
        net(X)
    gc.collect()
    unwound.set()
    assert not interrupts
    net(X).sum().backward()  # which has no room beside another


def test_kills() -> None:
    """A program that is killed is said, and the next compile works."""
    module = made("gcn")
    net = weft.compile(module, GRAPHS["plain"])
    expected = net().detach()
    program = _calls.program()
    os.kill(program.process.pid, signal.SIGKILL)
    refused(weft.Failed, "ended by SIGKILL, as the system does where memory is short", net)
    refused(weft.Failed, "ended by SIGKILL", net)
    assert torch.equal(weft.compile(module, GRAPHS["plain"])().detach(), expected)
    assert _calls.program() is not program


@pytest.mark.parametrize("kind", ["interrupts", "program"])
def test_endings(kind: str) -> None:
    """At random moments: no process and no shared memory is left. `make endings` has many."""
    endings.run(kind, trials=3, seed=1)


class Scaled(nn.Module):  # type: ignore[misc]
    """With a buffer that is a row, one of whole numbers, and a tensor that is an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(WIDTH, CLASSES)
        self.register_buffer("scale", torch.full((1, WIDTH), 0.5))
        self.register_buffer("order", torch.arange(WIDTH).flip(0))
        self.weights = torch.arange(CLASSES).float()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv((x * self.scale)[:, self.order], edge_index) * self.weights


def test_buffers_and_constants() -> None:
    """Buffers of floats are read at each pass, of any shape. What the trace has read is compared, and traced
    anew."""
    torch.manual_seed(3)
    module = Scaled()
    net = weft.compile(module, GRAPHS["plain"])
    for change in (lambda: None, lambda: module.scale.mul_(3)):
        change()
        assert torch.allclose(net(), module(X, ENDS), atol=1e-5)
    module.order.copy_(torch.arange(WIDTH))
    refused(weft.Refused, "order has changed since it was compiled", net)
    net = weft.compile(module, GRAPHS["plain"])
    assert torch.allclose(net(), module(X, ENDS), atol=1e-5)
    module.weights.add_(1)
    refused(weft.Refused, "weights has changed since it was compiled", net)
    assert torch.allclose(weft.compile(module, GRAPHS["plain"])(), module(X, ENDS), atol=1e-5)


def test_chunks() -> None:
    """Chunks of a pipeline are exact in evaluation, and have one backward pass, in training."""
    module = made("gcn")
    net = weft.compile(module, GRAPHS["plain"], parallel="pipeline=2", chunks=3).eval()
    with torch.no_grad():
        assert torch.allclose(net(X * 2), module(X * 2, ENDS), atol=1e-5)
    refused(weft.Refused, "a pass in evaluation has its own: call it under torch.no_grad", net)
    out = net.train()()
    refused(weft.Refused, "chunks 3: chunks read .* take chunks 1", net)
    refused(weft.Refused, "not repeated", lambda: out.sum().backward(retain_graph=True))


def test_forks_and_threads() -> None:
    net = weft.compile(made("gcn"), GRAPHS["plain"])
    expected = net().detach()
    child = os.fork()
    if child == 0:
        try:
            net()
        except weft.Refused as error:
            os._exit(7 if "process that was forked" in str(error) else 1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    found: list[bool] = []

    def calls() -> None:
        for _ in range(10):
            out = net(X)
            torch.autograd.grad(out.sum(), [net.module.first.lin.weight])
            found.append(torch.allclose(out, expected, atol=1e-6))

    threads = [threading.Thread(target=calls) for _ in range(3)]
    for of in (*threads, None):
        if of is not None:
            of.start()
    for of in threads:
        of.join()
    assert found == [True] * 30


ENDS_WITH = """
import os, signal, sys
import torch, weft
from torch_geometric.nn import GCNConv
net = weft.compile(GCNConv(2, 2), weft.Graph(edge_index=[[0, 1], [1, 2]], x=torch.ones(3, 2)))
out = net()
print(weft._calls.program().process.pid, flush=True)
"""


@pytest.mark.parametrize(
    "end", ["pass", "raise ValueError", "os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"]
)
def test_nothing_is_left(end: str) -> None:
    """However Python ends, the program ends with it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ENDS_WITH + end],
        env=os.environ | {"PYTHONPATH": str(Path(weft.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    number = int(done.stdout)
    until = time.monotonic() + 30
    while is_running(number) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(number)


def is_running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
