"""Training loops around a compiled module in bfloat16, and on a card that is the processor, beside
float64."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from loop_models import CLASSES, GRAPHS, Two, Whole, X, assert_alike, made, settings
from test_loops import (
    as_pytorch,
    bootstrapped,
    closures,
    distilled,
    masked,
    plain,
    rollout,
    saliency,
    scheduled,
    views,
)
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

import weft
from weft import _calls

IN_BFLOAT16 = [
    *((plain, "batch", "graph=3"), (scheduled, "gcn", "tensor=2"), (views, "gat", "graph=2,tensor=2")),
    *((rollout, "mesh", "partitions=3"), (masked, "gin", "pipeline=2"), (distilled, "appnp", "graph=3")),
]


@pytest.mark.parametrize("loop, name, mesh", IN_BFLOAT16, ids=lambda value: getattr(value, "__name__", value))
def test_in_bfloat16(loop: Any, name: str, mesh: str) -> None:
    """Numbers of vertices have 8 bits: losses, and by how much weights and statistics move, are those of
    float64 to that."""
    module = made(name)
    exact = copy.deepcopy(module).double()
    before = [tensor.clone() for tensor in exact.state_dict().values()]
    theirs = [float(value.detach()) for value in loop(Whole(exact, name == "mesh"), X.double())]
    graph = GRAPHS["attributes" if name == "mesh" else "plain"]
    ours = [
        float(value.detach())
        for value in loop(weft.compile(module, graph, precision="bf16", **settings(mesh)), X)
    ]
    assert ours == pytest.approx(theirs, rel=0.01)
    for (path, tensor), was, becomes in zip(module.state_dict().items(), before, exact.state_dict().values()):
        moved = float((becomes - was).double().norm())
        assert float((tensor.double() - becomes).norm()) <= 0.05 * moved + 1e-5, path


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
    *(
        (bootstrapped, "batch", "graph=2,tensor=2"),
        (saliency, "gated", "pipeline=2"),
        (closures, "gin", "partitions=3"),
    ),
]


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("loop, name, mesh", ON_CARD, ids=lambda value: getattr(value, "__name__", value))
def test_on_card(loop: Any, name: str, mesh: str) -> None:
    as_pytorch(loop, name, device="cuda", **settings(mesh))


def steps(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Passes of several kinds: of the graph's features and of others, with their gradient, and without
    any."""
    y, optimizer = torch.arange(len(x)) % CLASSES, torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    for step in range(4):
        optimizer.zero_grad()
        features = (x * step).requires_grad_()
        loss = F.cross_entropy(net(features) if step % 2 else net(), y)
        loss.backward()
        optimizer.step()
        yield loss
        if step % 2:
            yield features.grad.norm()
        with torch.no_grad():
            yield net(x + step).norm()


@pytest.mark.usefixtures("card")
def test_rests_below_card() -> None:
    """With less memory than passes need, matrices of partitions leave the card for the host's memory, and
    come back."""
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
