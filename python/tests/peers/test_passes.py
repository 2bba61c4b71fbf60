"""What a call of a compiled module gives: outputs, draws, samples and statistics, in several processes and
threads."""

from __future__ import annotations

import copy
import gc
import os
import threading
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from loop_models import CLASSES, ENDS, GRAPHS, MODULES, WIDTH, V, X, made, refused
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

import weft
from weft import _calls


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
    for mesh, outputs in found.items():
        assert torch.allclose(torch.stack(outputs), torch.stack(found["graph=1"]), atol=1e-5), mesh
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


def test_other_processes() -> None:
    """Where each process of a group computes all of the graph, the first call says so, once."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    net = weft.compile(made("gcn"), GRAPHS["plain"])
    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        with pytest.warns(
            UserWarning, match="each of the 2 processes .* take one process .devices=1 in Lightning"
        ):
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
    """update_bn takes the mean of all batches, and a schedule changes the momentum: as PyTorch, whose
    statistics these are."""
    net = weft.compile(made("batch"), GRAPHS["plain"], parallel="graph=2")
    exact = Called(copy.deepcopy(net.module).double())
    for module in (net, exact):
        norm = next(layer for layer in module.modules() if isinstance(layer, nn.BatchNorm1d))
        torch.optim.swa_utils.update_bn([X, 2 * X, X - 1], module)
        assert (norm.momentum, int(norm.num_batches_tracked)) == (0.1, 3)
        with torch.no_grad():
            for norm.momentum in (0.4, 0.2, None, 0.05):
                module(X)
    for (name, expected), (_, found) in zip(exact.named_buffers(), net.named_buffers()):
        torch.testing.assert_close(found.to(expected.dtype), expected, rtol=1e-5, atol=1e-6, msg=name)
    assert len(net._divided.models) == 2, "a schedule leaves no model for each momentum"


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
    for thread in (*threads, None):
        if thread is not None:
            thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 30
