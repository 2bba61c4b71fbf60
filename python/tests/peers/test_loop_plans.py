"""The memory and the messages of a loop: as they are planned, measured, limited and traced."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from loop_models import CLASSES, ENDS, GRAPHS, WIDTH, Two, V, X, Y, made, settings
from torch import nn
from torch_geometric.nn import GCNConv, SAGEConv

import weft
from weft import _calls, _model


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

    memory, sent = net.memory(), net.messages()
    assert memory["graph_bytes"] == run["graph_bytes"]
    for peak, peaks, most in zip(memory["peak_tensor_bytes"], memory["peaks"], run["peak_tensor_bytes"]):
        assert sum(peaks[:-1]) == peak <= most, "without the graph's structure, and no loss and optimizer"
    assert memory["kinds"][:2] == ["features", "parameters"]
    assert memory["peaks"][0][2] == 0, "there is no optimizer"
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
    net = weft.compile(
        module, weft.Graph(edge_index=torch.cat([ends, ends.flip(0)], 1), x=x), parallel=mesh, **of_graph
    )
    counts = {"vertices": 8e3, "edges": 60_000, "features": WIDTH}
    planned = weft.plan(**counts, model=module, parallel=mesh, passes=2, gradients="x")
    for _ in range(3):
        features = (
            x.expand(2, -1, -1).clone().requires_grad_() if "samples" in mesh else x.clone().requires_grad_()
        )
        first, second = (net(features, samples="samples" in mesh) for _ in range(2))
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
    for asked, why in {
        "edges": "counts tell what a loop takes",
        "edge_attr": "edge_attr: the graph has none",
    }.items():
        with pytest.raises(weft.Refused, match=why):
            weft.plan(**counts, model=module, parallel=mesh, inputs=asked)
    with pytest.raises(TypeError, match="vertices: is .8k.: give a number"):
        weft.plan(vertices="8k", edges=10, model=module, passes=1)
    with pytest.raises(
        TypeError, match="edges: give the graph of the loop, or its counts: vertices, edges, features"
    ):
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
    """Passes with other layers in evaluation, or with gradients of edges, are of other models, and in one
    trace."""
    net = weft.compile(made("batch"), GRAPHS["plain"], parallel="graph=2")
    norm = next(layer for layer in net.modules() if isinstance(layer, nn.BatchNorm1d))
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
    norm = next(layer for layer in net.modules() if isinstance(layer, nn.BatchNorm1d))
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
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        check=True,
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
    found = re.search(
        r"; partitions=(\d+), offload=DIR fits, with \S+ kB of memory for a worker$", str(refusal.value)
    )
    assert found, str(refusal.value)
    net = weft.compile(module, graph, memory_limit=f"{limit}B", partitions=int(found[1]), offload=True)
    net().sum().backward()
    with pytest.raises(
        weft.Refused, match=r"or try offload=DIR and more partitions, by which [^;]* workers$"
    ):
        weft.compile(module, graph, memory_limit="20kB", recompute="none")


def test_frozen_layers_divide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of a net and of its copies are opened with the number of one divided graph, which others do not
    have."""
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
        for copy_of_net in (net, copy.deepcopy(net)):
            copy_of_net.module.norm.train(not frozen)
            assert copy_of_net().shape == (V, 8)
    weft.compile(module, GRAPHS["plain"], parallel="graph=2")
    shared, other = numbers[0], numbers[-1]
    assert numbers.count(shared) == 2 and other not in (0, shared), "for both sets of layers"
