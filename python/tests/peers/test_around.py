"""What PyTorch's users put around a module is put around a compiled one: it works as around the module
itself, or is refused by name."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCNConv

import weft

V, E, WIDTH, CLASSES = 60, 300, 6, 3

torch.manual_seed(2)
ENDS, X, Y = torch.randint(0, V, (2, E)), torch.randn(V, WIDTH), torch.randint(0, CLASSES, (V,))
GRAPH = weft.Graph(edge_index=ENDS, x=X)


class Two(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = GCNConv(WIDTH, 8), nn.BatchNorm1d(8), GCNConv(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(torch.tanh(self.norm(self.first(x, edge_index))), edge_index)


class Plain(nn.Module):  # type: ignore[misc]
    """The module itself, called as what weft.compile makes of it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor = X) -> Tensor:
        return self.module(x, ENDS)


TWO = Two()
FIRST = copy.deepcopy(TWO.state_dict())
NET: Any = None


@pytest.fixture(autouse=True)
def _begin() -> None:
    """Other tests may have killed the program."""
    global NET
    TWO.load_state_dict(FIRST)
    TWO.zero_grad()
    NET = weft.compile(TWO, GRAPH, parallel="graph=2")


# -- what works: a loss of a net and of features


def compiled(net: nn.Module, x: Tensor) -> Tensor:
    return F.cross_entropy(torch.compile(net, backend="eager")(x), Y)


def compiled_step(net: nn.Module, x: Tensor) -> Tensor:
    @torch.compile(backend="eager")  # type: ignore[misc]
    def loss() -> Tensor:
        return F.cross_entropy(net(2 * x), Y)

    return loss()


def scaled(net: nn.Module, x: Tensor) -> Tensor:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    return scaler.scale(F.cross_entropy(net(x), Y)) / scaler.get_scale()


def replicated(net: nn.Module, x: Tensor) -> Tensor:
    return F.cross_entropy(nn.DataParallel(net)(x), Y)  # no cards: it calls the module


def distributed(net: nn.Module, x: Tensor) -> Tensor:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        return F.cross_entropy(nn.parallel.DistributedDataParallel(net)(x), Y)
    finally:
        torch.distributed.destroy_process_group()


def checkpointed(net: nn.Module, x: Tensor) -> Tensor:
    return F.cross_entropy(checkpoint(net, x, use_reentrant=False), Y)


def checkpointed_again(net: nn.Module, x: Tensor) -> Tensor:
    return F.cross_entropy(checkpoint(net, x, use_reentrant=True), Y)


def on_cpu(net: nn.Module, x: Tensor) -> Tensor:
    with torch.autograd.graph.save_on_cpu():
        return F.cross_entropy(net(x), Y)


def sequence(net: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), net, nn.Linear(CLASSES, 1))(x).pow(2).mean()


def as_it_is(net: nn.Module, x: Tensor) -> Tensor:
    return F.cross_entropy(net.to(torch.float32).cpu().float().requires_grad_(True)(x), Y)


def replaced(net: nn.Module, x: Tensor) -> Tensor:
    (net.module if isinstance(net, Plain) else net).last.bias = nn.Parameter(torch.arange(CLASSES).float())
    return F.cross_entropy(net(x), Y)


@pytest.mark.parametrize(
    "around",
    [
        compiled,
        compiled_step,
        scaled,
        replicated,
        distributed,
        checkpointed,
        checkpointed_again,
        on_cpu,
        sequence,
        as_it_is,
        replaced,
    ],
)
def test_works(around: Any) -> None:
    module = copy.deepcopy(TWO)
    theirs, ours = X.clone().requires_grad_(), X.clone().requires_grad_()
    expected, found = around(Plain(module), theirs), around(NET, ours)
    assert torch.allclose(found, expected, atol=1e-6)
    expected.backward()
    found.backward()
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-6)
    for (name, p), q in zip(TWO.named_parameters(), module.parameters()):
        assert torch.allclose(p.grad, q.grad, rtol=1e-4, atol=1e-5), name
    for (name, p), q in zip(TWO.named_buffers(), module.buffers()):
        assert torch.allclose(p, q, atol=1e-6), name


def test_autocast() -> None:
    """A net has its own precision, whatever is around it; layers outside have theirs."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, after = NET(), nn.Linear(WIDTH, WIDTH)(X)
        inside = NET(after)
    assert out.dtype == inside.dtype == torch.float32 and after.dtype == torch.bfloat16
    assert torch.allclose(out, Plain(copy.deepcopy(TWO))(), atol=1e-5)
    inside.sum().backward()


def test_hooks() -> None:
    """Hooks on a net are called as those of a module; one on a layer is called when the module is traced."""

    def told(net: nn.Module) -> list[Any]:
        events = list[Any]()
        hooks = [
            net.register_forward_pre_hook(lambda m, x: events.append(len(x))),
            net.register_forward_hook(lambda m, x, out: 2 * out),
            net.register_full_backward_hook(
                lambda m, gx, gout: events.append((gx[0].sum().item(), gout[0].sum().item()))
            ),
        ]
        try:
            net(X.clone().requires_grad_()).pow(2).sum().backward()
        finally:
            for hook in hooks:
                hook.remove()
        return events

    ours, theirs = told(NET), told(Plain(copy.deepcopy(TWO)))
    assert (
        len(ours) == 2
        and ours[0] == theirs[0] == 1
        and ours[1] == pytest.approx(theirs[1], rel=1e-4, abs=1e-3)
    )
    for register in ("forward", "forward_pre", "full_backward"):
        for layer in (TWO.last, TWO):
            hook = getattr(layer, f"register_{register}_hook")(lambda *_: None)
            refused("its layers, or hooks on them, have changed", NET)
            hook.remove()
    module = Two()
    module.norm.register_forward_hook(lambda m, x, out: 3 * out)
    assert torch.allclose(weft.compile(module, GRAPH)(), module(X, ENDS), atol=1e-5)
    module.norm.register_full_backward_hook(lambda *_: None)
    for call in (
        weft.compile,
        lambda module, graph: weft.train(weft.Graph(edge_index=ENDS, x=X, y=Y), model=module),
    ):
        refused("norm has a hook of its backward pass", lambda call=call: call(module, GRAPH))


def test_parametrized() -> None:
    module = Two()
    module.first.lin = nn.Linear(WIDTH, 8, bias=False)  # older versions of PyG do not copy their own with one
    parametrizations.weight_norm(module.first.lin)
    net = weft.compile(module, GRAPH)
    with torch.no_grad():
        module.first.lin.parametrizations.weight.original0.mul_(1.5)
    found = torch.autograd.grad(net().pow(2).sum(), [*net.parameters()])
    expected = torch.autograd.grad(module(X, ENDS).pow(2).sum(), [*module.parameters()])
    for ours, theirs in zip(found, expected):
        assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    other = copy.deepcopy(NET)
    parametrize.register_parametrization(other.module.last.lin, "weight", nn.Tanh())
    refused("its layers, or hooks on them, have changed", other)


def test_defaults() -> None:
    """Precision and device that are PyTorch's defaults change no net."""

    @contextlib.contextmanager
    def default(set_: Any, value: Any, before: Any) -> Iterator[None]:
        set_(value)
        try:
            yield
        finally:
            set_(before)

    expected, dropping = NET().detach(), Dropping()
    for around in (
        default(torch.set_default_dtype, torch.float64, torch.float32),
        default(torch.set_default_device, "meta", None),
    ):
        TWO.load_state_dict(FIRST)
        with around:
            out, again = NET(), weft.compile(dropping, GRAPH)(X)
        assert torch.equal(out, expected) and out.dtype == torch.float32 and again.device.type == "cpu"


class Dropping(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv = copy.deepcopy(TWO.first)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return F.dropout(self.conv(x, edge_index), 0.5, self.training)


# -- what is refused


def refused(text: str, call: Any) -> None:
    with pytest.raises(weft.Refused, match=text) as error:
        call()
    assert "\n" not in str(error.value)


def other(change: Any) -> Any:
    return lambda: change(copy.deepcopy(NET))()


def dual() -> Tensor:
    with torch.autograd.forward_ad.dual_level():
        return NET(torch.autograd.forward_ad.make_dual(X, X))


def batched() -> Any:
    out = NET()
    return torch.autograd.grad(out, [*NET.parameters()], torch.stack([out, out]), is_grads_batched=True)


class Checkpointed(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(checkpoint(self.norm, self.first(x, edge_index), use_reentrant=False), edge_index)


REFUSED = {
    "vmap": ("torch.func: ", lambda: torch.func.vmap(NET)(X.expand(2, V, WIDTH))),
    "grad": ("torch.func: ", lambda: torch.func.grad(lambda x: NET(x).sum())(X)),
    "jvp": ("torch.func: ", lambda: torch.func.jvp(NET, (X,), (X,))),
    "jacrev": ("torch.func: ", lambda: torch.func.jacrev(lambda x: NET(x).sum(0))(X)),
    "dual": ("torch.autograd.forward_ad: ", dual),
    "batched": ("is_grads_batched=True: ", batched),
    "hessian": ("create_graph", lambda: torch.autograd.functional.hessian(lambda x: NET(x).pow(2).sum(), X)),
    "jit.trace": ("torch.jit.trace: .* not exported", lambda: torch.jit.trace(NET, (X,))),
    "jit.script": ("torch.jit.script: .* not exported", lambda: torch.jit.script(NET)),
    "export": ("torch.export .* not exported", lambda: torch.export.export(NET, (X,), strict=False)),
    "replicas": ("DataParallel: ", lambda: NET._replicate_for_data_parallel()),
    "double": ("first.lin.weight: is torch.float64", other(nn.Module.double)),
    "half": ("first.lin.weight: is torch.float16", other(nn.Module.half)),
    "bfloat16": ("first.lin.weight: is torch.bfloat16", other(nn.Module.bfloat16)),
    "meta": ("first.lin.weight: is torch.float32 .* on meta", other(lambda net: net.to("meta"))),
    "double module": ("first.lin.weight: is torch.float64", lambda: weft.compile(Two().double(), GRAPH)),
    "meta features": ("x: is .* on meta", lambda: NET(X.to("meta"))),
    "sparse features": ("x: is .* torch.sparse_coo", lambda: NET(X.to_sparse())),
    "new layer": ("its layers, or hooks", other(lambda net: net.add_module("more", nn.Linear(2, 2)) or net)),
    "checkpoint inside": (
        "norm.running_mean: below torch.utils.checkpoint",
        lambda: weft.compile(Checkpointed(), GRAPH),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, call = REFUSED[name]
    refused(text, call)
    assert NET(X).shape == (V, CLASSES)


def test_without_room(without_room: None, tmp_path: Path) -> None:
    """A module that cannot be written is one line."""
    module, graph = GCNConv(WIDTH, 1 << 13), weft.Graph(edge_index=ENDS, x=X)
    for call in (
        lambda: weft.compile(module, graph),
        lambda: weft.plan(graph, model=module, passes=1),
        lambda: weft.train(weft.Graph(edge_index=ENDS, x=X, y=Y, split="train"), model=module),
    ):
        with pytest.raises(weft.Failed) as error:
            call()
        why = (
            "the module cannot be written there: File too large; make room, or name another folder by TMPDIR"
        )
        assert str(error.value) == f"{tmp_path}: {why}"
