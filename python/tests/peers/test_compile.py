"""What weft.compile takes and refuses, and what it says while it works."""

from __future__ import annotations

import copy
import functools
import io
import pickle
import re
import sys
import threading
from typing import Any

import pytest
import torch
from loop_models import ENDS, GRAPHS, WIDTH, X, Y, made, refused
from torch import Tensor, nn
from torch_geometric.nn import LGConv

import weft
from weft import _calls, _module, _progress, _tracings, _watch


def test_help_has_all_settings() -> None:
    text = weft.compile.__doc__ or ""
    assert not [name for name in weft._compile.SETTINGS if not re.search(rf"``[^`]*\b{name}\b", text)]


@pytest.mark.parametrize("graph", [GRAPHS["plain"], weft.Graph(edge_index=ENDS, num_nodes=len(X))])
def test_settings_are_checked_when_it_is_compiled(graph: weft.Graph) -> None:
    """Also where the first call opens the graph. The line is as that of weft.train."""
    for wrong, message in {
        "parallel": 'parallel vertices=2: the mesh has no axis "vertices"',
        "halo": "halo vertices=2: unknown halo; it is one of rows",
        "partitions": "partitions vertices=2: ",
        "memory_limit": "memory_limit vertices=2: ",
    }.items():
        with pytest.raises(weft.Refused, match="^" + message):
            weft.compile(made("gcn"), graph, **{wrong: "vertices=2"})
    net = weft.compile(made("gcn"), graph, halo="cover", parallel="graph=2")
    with pytest.raises(weft.Refused, match="samples: is 4: give True, with x of S × V × F, or False"):
        net(X, samples=4)


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
            self.unshown.extend(late[ask])
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

    def shown_by(call: Any, message: str, **figures: list[str]) -> Any:
        late.clear()
        late.update(figures)
        lines.clear()
        came.clear()
        made = call()
        assert message in "".join(lines) if message else not lines
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
        monkeypatch.setattr(_progress, "is_watched", lambda stream=terminal: stream)
        asked += ["a line"] * (terminal and progress)
        for call in (weft.train, functools.partial(weft.sweep, grid={"lr": [0.1]})):
            begun.clear()
            one = functools.partial(call, graph, model=made("gcn"), progress=progress)
            refused(weft.Refused, "it was read", one)
            assert ("weft: reading Two, 0 s\n" in capsys.readouterr().err) == bool(asked)


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
    refused(
        weft.Refused, r"x: is .*float32 \(3, 8\) on cpu.*: give floats of 90 vertices × 8", lambda: net(X[:3])
    )
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
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.lin, self.function = nn.Linear(WIDTH, WIDTH), function

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.function(self.lin(x), edge_index)


class Light(nn.Module):  # type: ignore[misc]
    """LightGCN's rounds, which have no parameter, of rows that others learn."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = LGConv(), LGConv()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x, edge_index)
        return (x + h + self.last(h, edge_index)) / 3


@pytest.mark.parametrize("mesh", ["graph=1", "graph=2", "tensor=2", "pipeline=2"])
@pytest.mark.parametrize("has_features", [True, False])
def test_without_parameters(mesh: str, has_features: bool) -> None:
    """Rows and their gradients are those of float64, and the memory is planned."""
    graph = GRAPHS["plain"] if has_features else weft.Graph(edge_index=ENDS, num_nodes=len(X))
    module, x, exact = Light(), X.clone().requires_grad_(), X.double().requires_grad_()
    net, inputs = weft.compile(module, graph, parallel=mesh), {} if has_features else {"x": X}
    assert not net(**inputs).requires_grad and not [*net.parameters()]
    # D^-1/2 A D^-1/2 of the in-degrees, as LGConv has it
    degrees = torch.bincount(ENDS[1], minlength=len(X)).double()
    scale = torch.where(degrees > 0, degrees, torch.inf) ** -0.5
    matrix = torch.zeros(len(X), len(X), dtype=torch.float64)
    matrix.index_put_((ENDS[1], ENDS[0]), scale[ENDS[1]] * scale[ENDS[0]], accumulate=True)
    made, theirs = net(x), (exact + matrix @ exact + matrix @ (matrix @ exact)) / 3
    weights = torch.linspace(1, 2, X.numel()).view_as(X)
    (made * weights).sum().backward()
    (theirs * weights).sum().backward()
    assert torch.allclose(made.double(), theirs, atol=1e-6) and torch.allclose(
        x.grad.double(), exact.grad, atol=1e-5
    )
    planned = weft.plan(graph, model=net, gradients="x")
    assert planned["peak_tensor_bytes"] == net.memory()["peak_tensor_bytes"]


class Irrep(tuple[int, int]):
    """As that of e3nn, which has no length."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError


def test_containers_without_a_length() -> None:
    """A module may hold objects whose classes do not tell their length: what they hold is seen to change."""
    module, irrep = Returns(lambda x, e: x), Irrep((1, 2))
    module.irreps = [irrep, {"of": irrep}]
    assert torch.equal(weft.compile(module, GRAPHS["plain"])().detach(), module.lin(X).detach())
    assert (
        _watch.state_of(irrep, {}) == _watch.state_of(Irrep((1, 2)), {}) != _watch.state_of(Irrep((1, 3)), {})
    )


def test_what_has_no_copy() -> None:
    """What a module holds that cannot be copied is named by its error, also where that has no text."""

    class Alone:
        def __deepcopy__(self, _: Any) -> Any:
            raise NotImplementedError

    module = Returns(lambda x, e: x)
    module.alone = Alone()
    refused(
        weft.Refused,
        "^model: the module cannot be copied: NotImplementedError$",
        lambda: weft.compile(module, GRAPHS["plain"]),
    )
