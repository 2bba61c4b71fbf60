"""Training loops of PyTorch around a compiled module, beside the same around the module itself in float64.

Each loop yields what it measures. It is written for any net that is called as weft.compile's are.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from loop_models import (
    ENDS,
    GRAPHS,
    MESHES,
    MODULES,
    TRAIN,
    WIDTH,
    V,
    Whole,
    X,
    Y,
    assert_alike,
    made,
    settings,
)
from torch import Tensor, nn

import weft


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
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (net, other)]
    for _ in range(3):
        losses = [F.cross_entropy(model(), Y, reduction="none") for model in (net, other)]
        chosen = [loss.detach().argsort()[:60] for loss in losses]
        for optimizer, loss, rows in zip(optimizers, losses, reversed(chosen)):
            optimizer.zero_grad()
            loss[rows].mean().backward()
            optimizer.step()
            yield loss[rows].sum()


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
            net.load_state_dict({name: 0.9 * tensor for name, tensor in net.state_dict().items()})


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
    for loss in (out.pow(2).mean(), out.sigmoid().sum()):
        loss.backward(retain_graph=True)
        yield sum(p.grad.norm() for p in net.parameters())  # type: ignore[misc]
    parameters = {name: (2 * p.detach()).requires_grad_() for name, p in net.named_parameters()}
    torch.func.functional_call(net, parameters, ()).sum().backward()
    yield sum(p.grad.norm() for p in parameters.values())  # type: ignore[misc]


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
    norm = next(layer for layer in net.modules() if isinstance(layer, nn.BatchNorm1d))
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


@pytest.mark.parametrize("loop, name, mesh", ALL, ids=lambda value: getattr(value, "__name__", value))
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
