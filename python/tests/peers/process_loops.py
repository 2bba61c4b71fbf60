"""Loops over several processes: LOOPS, with the module, the graph and what is asked of each."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from process_models import (
    CLASSES,
    COUNTS,
    NEAR,
    PLAIN,
    TRAIN,
    TYPED,
    TYPED_ATTR,
    UP,
    WEIGHTED,
    WIDTH,
    Attention,
    Convs,
    E,
    Embedded,
    Flows,
    Two,
    Upwards,
    V,
    Weather,
    Weighted,
    X,
    Y,
)
from together import OfGroup
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

Again = Callable[[nn.Module], Any]  # compiles another module on the graph


def of_process(net: Any) -> slice:
    """Every how many of a list, and from which on, are this process's, if those of a group share it."""
    count = net.workers // net.groups
    return slice(net.rank % count, None, count)


def sample_of(group: int, x: Any) -> Any:
    """The features that a group takes."""
    if isinstance(x, Mapping):
        return {name: sample_of(group, tensor) for name, tensor in x.items()}
    return x * (1 + group / 2)


def of_labels(net: Any, z: Tensor, some: Tensor = TRAIN) -> Tensor:
    """The mean over all training vertices, or some others: this process's part."""
    local = net.vertices["grid"] if isinstance(net.vertices, dict) else net.vertices
    here = some[local]
    return F.cross_entropy(z[here], Y[local][here], reduction="sum") / int(some.sum())


def plain(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Clipping by the norm of all gradients, which every process has."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        loss = of_labels(net, net())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        yield net.sum(loss.detach())


def around(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Between an encoder and a decoder, whose gradients are each process's own."""
    torch.manual_seed(7)
    into, out = nn.Linear(WIDTH, WIDTH).to(x), nn.Linear(CLASSES, CLASSES).to(x)
    own = [*into.parameters(), *out.parameters()]
    optimizer = torch.optim.Adam([*net.parameters(), *own], lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss = of_labels(net, out(net(torch.tanh(into(x)))))
        loss.backward()
        net.sum_gradients(own)
        optimizer.step()
        yield net.sum(loss.detach())
    yield into.weight.detach().norm()


def rollout(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Three passes before one backward pass."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    for _ in range(3):
        optimizer.zero_grad()
        h, loss = x, torch.zeros(()).to(x)
        for _ in range(3):
            h = h + 0.1 * net(h)
            loss = loss + (h - x.roll(1, 1)).square().sum() / (V * WIDTH)
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())


def pairs(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Scores of pairs, whose rows are of any process."""
    optimizer, drawn = torch.optim.Adagrad(net.parameters(), lr=0.05), torch.Generator().manual_seed(1)
    for _ in range(4):
        optimizer.zero_grad()
        z, ends = net(), torch.randint(0, V, (2, 120), generator=drawn)
        local = ends[:, of_process(net)]
        loss = F.softplus(-(net.rows(z, local[0]) * net.rows(z, local[1])).sum(1)).sum() / 120
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())
    yield net.gather(net()).detach().norm()


def whole(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """An output of the whole graph, which stands on every process, and a mean over all rows of the output."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        z, hidden = net()
        mean = net.sum(z.sum(0), group=True) / V
        loss = of_labels(net, z) + (z - mean).square().sum() / V + hidden.square().sum() / net.workers
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())


def views(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Two views with other features each, whose rows are compared with those of all processes (GRACE)."""
    optimizer, drawn = torch.optim.RMSprop(net.parameters(), lr=0.005), torch.Generator().manual_seed(2)
    for _ in range(3):
        optimizer.zero_grad()
        a, b = (F.normalize(net(x * (torch.rand(1, WIDTH, generator=drawn) < 0.7))) for _ in range(2))
        some = torch.randperm(V, generator=drawn)[:60]
        local = of_process(net)
        scores = net.rows(a, some[local]) @ net.rows(b, some).T / 0.5
        loss = F.cross_entropy(scores, torch.arange(60)[local], reduction="sum") / 60
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())


def infomax(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Rows against a summary of the graph, and those of shuffled features (DGI)."""
    torch.manual_seed(9)
    scores = nn.Linear(CLASSES, CLASSES, bias=False).to(x)
    optimizer = torch.optim.Adam([*net.parameters(), *scores.parameters()], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        shuffled = X[torch.randperm(V, generator=torch.Generator().manual_seed(4))][net.vertices].to(x)
        true, false = net(), net(shuffled)
        summary = scores(torch.sigmoid(net.sum(true.sum(0), group=True) / V))
        loss = (F.softplus(-true @ summary).sum() + F.softplus(false @ summary).sum()) / V
        loss.backward()
        net.sum_gradients(scores.parameters())
        optimizer.step()
        yield net.sum(loss.detach())


def distilled(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """A teacher, which is a copy of the student that follows its weights (BGRL)."""
    torch.manual_seed(7)
    predictor = nn.Sequential(nn.Linear(CLASSES, 8), nn.PReLU(), nn.Linear(8, CLASSES)).to(x)
    teacher, drawn = copy.deepcopy(net).requires_grad_(False), torch.Generator().manual_seed(3)
    optimizer = torch.optim.AdamW([*net.parameters(), *predictor.parameters()], lr=0.01, weight_decay=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        shown = torch.rand(2, 1, WIDTH, generator=drawn) < 0.7
        with torch.no_grad():
            target = teacher(x * shown[1])
        loss = -F.cosine_similarity(predictor(net(x * shown[0])), target).sum() / V
        loss.backward()
        net.sum_gradients(predictor.parameters())
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(teacher.parameters(), net.parameters()):
                p.lerp_(q, 0.1)
        yield net.sum(loss.detach())
    yield torch.stack([p.norm() for p in teacher.parameters()]).norm()


def averaged(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """An average of weights, whose running statistics are those of one more pass."""
    mean = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.8))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        loss = of_labels(net, net(x))
        loss.backward()
        optimizer.step()
        mean.update_parameters(net)
        yield net.sum(loss.detach())
    update_bn([x], mean)
    mean.eval()
    with torch.no_grad():
        yield net.sum(of_labels(net, mean(x), ~TRAIN))


def cotrained(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Two nets of one graph, each of which learns what the other says."""
    torch.manual_seed(8)
    other = again(Two(SAGEConv(WIDTH, 16), SAGEConv(16, CLASSES)))
    optimizer = torch.optim.Adam([*net.parameters(), *other.parameters()], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        a, b = net(), other(x)
        apart = F.kl_div(F.log_softmax(a, 1), F.log_softmax(b, 1), reduction="sum", log_target=True)
        loss = of_labels(net, a) + of_labels(other, b) + apart / V
        loss.backward()
        optimizer.step()
        yield other.sum(loss.detach())
    yield torch.stack([p.detach().norm() for p in other.parameters()]).norm()


def wrapped(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Below DistributedDataParallel, whose mean of equal gradients they are."""
    outer = net
    if net.workers > 1 and not isinstance(net, OfGroup):
        if not torch.distributed.is_initialized():
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            file = Path(tempfile.gettempdir(), f"weft-processes-{os.getppid()}")
            place = {"rank": net.rank, "world_size": net.workers}
            torch.distributed.init_process_group("gloo", init_method=f"file://{file}", **place)
        outer = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(outer.parameters(), lr=0.05, nesterov=True, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        loss = of_labels(net, outer(x))
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())


def perturbed(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Features that move against the loss, each process's own (FLAG)."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        noise = torch.zeros_like(x, requires_grad=True)
        for _ in range(2):
            loss = of_labels(net, net(x + noise)) / 2
            loss.backward()
            norm = net.sum(noise.grad.square().sum()).sqrt()
            noise = (noise + 0.5 * noise.grad / norm).detach().requires_grad_()
        optimizer.step()
        yield net.sum(loss.detach())
        yield norm


def frozen(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """A frozen layer, a norm in evaluation, and a learning rate that falls by the loss of others."""
    net.module.first.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.5)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=0, threshold=0.05)
    for _ in range(4):
        net.train()
        net.module.norm.eval()
        optimizer.zero_grad()
        loss = of_labels(net, net())
        loss.backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            schedule.step(float(net.sum(of_labels(net, net(), ~TRAIN))))
        yield net.sum(loss.detach())
        yield torch.tensor(optimizer.param_groups[0]["lr"])
    net.train()


def searched(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """L-BFGS, whose closure returns the loss of all processes."""
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = of_labels(net, net())
        loss.backward()
        return net.sum(loss.detach())

    for _ in range(2):
        yield optimizer.step(closure)


def accumulated(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Gradients of two losses, of one pass that is retained, and of another pass."""
    optimizer = torch.optim.NAdam(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=4)
    some = TRAIN & (Y > 1)
    for _ in range(3):
        optimizer.zero_grad()
        z = net()
        first = of_labels(net, z)
        first.backward(retain_graph=True)
        of_labels(net, z, some).backward()
        of_labels(net, net(x), ~some).backward()
        nn.utils.clip_grad_value_(net.parameters(), 0.1)
        optimizer.step()
        schedule.step()
        yield net.sum(first.detach())


def checkpointed(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """A pass that the backward pass computes again, and gradients that autograd returns."""
    parameters = list(net.parameters())
    for _ in range(3):
        loss = of_labels(net, checkpoint(net, x, use_reentrant=False))
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, grad in zip(parameters, gradients):
                p -= 0.1 * grad
        yield net.sum(loss.detach())
        yield torch.stack([grad.norm() for grad in gradients]).norm()


def sampled(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Several samples of the features in a call."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        z = net(torch.stack([x, x.roll(1, 1), -x]), samples=True)
        loss = sum(of_labels(net, one) for one in z) / 3 + (z[0] - z[1]).square().sum() / V
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())


def resumed(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """The state of a net and of its optimizer goes on in another one."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for k in range(4):
        if k == 2:
            state, moments = copy.deepcopy(net.state_dict()), optimizer.state_dict()
            net = again(Two(SAGEConv(WIDTH, 16), GCNConv(16, CLASSES)))
            net.load_state_dict(state)
            optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
            optimizer.load_state_dict(moments)
        optimizer.zero_grad()
        loss = of_labels(net, net())
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())


def dropped(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Dropout has the masks of one process: those of the first one's generator."""
    torch.manual_seed(11 + 100 * net.rank)
    return plain(net, x, again)


def typed(net: Any, x: Any, again: Again) -> Iterator[Tensor]:
    """Losses of two vertex types."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for k in range(3):
        optimizer.zero_grad()
        z = net() if k else net(x)
        loss = of_labels(net, z["grid"]) + z["mesh"].square().sum() / COUNTS["mesh"]
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())
    yield net.gather(z["mesh"], type="mesh").detach().norm()


def weather(net: Any, x: Any, again: Again) -> Iterator[Tensor]:
    """A rollout of one vertex type (GraphCast)."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.002)
    for _ in range(3):
        optimizer.zero_grad()
        state, loss = {"grid": x["grid"]}, 0.0
        for step in range(1, 4):
            state = net(state)
            loss = loss + (state["grid"] - x["grid"].roll(step, 1)).square().sum() / (V * WIDTH)
        loss.backward()
        optimizer.step()
        yield net.sum(loss.detach())


def encoded(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Features of edges that an encoder makes, with some of the edges."""
    torch.manual_seed(7)
    into, drawn = nn.Linear(3, 3).to(x), torch.Generator().manual_seed(5)
    optimizer = torch.optim.Adam([*net.parameters(), *into.parameters()], lr=0.01)
    attr = PLAIN["edge_attr"][net.edges].to(x)
    for k in range(3):
        optimizer.zero_grad()
        inputs = {"edges": (torch.rand(E, generator=drawn) < 0.8)[net.edges]} if k else {}
        loss = of_labels(net, net(edge_attr=torch.tanh(into(attr)), **inputs))
        loss.backward()
        net.sum_gradients(into.parameters())
        optimizer.step()
        yield net.sum(loss.detach())
    yield into.weight.detach().norm()


def reweighted(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """Weights of edges that are learned, each by the process that has the edge."""
    weight = nn.Parameter(WEIGHTED["edge_weight"][net.edges].to(x))
    optimizer = torch.optim.SGD([*net.parameters(), weight], lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        made = net(edge_weight=weight)
        z, e = made if isinstance(made, tuple) else (made, None)
        loss = of_labels(net, z) + 0.1 * weight.square().sum() / E
        if e is not None:
            loss = loss + (e - torch.arange(E)[net.edges, None].to(x) / E).square().sum() / E
        loss.backward()
        yield net.sum(weight.grad.square().sum()).sqrt()
        optimizer.step()
        yield net.sum(loss.detach())
    yield net.sum(weight.detach() @ torch.arange(E)[net.edges].to(x))


def flows(net: Any, x: Tensor, again: Again) -> Iterator[Tensor]:
    """A loss of rows of edges, which are returned, and of their features, with some of the edges at last."""
    optimizer, some = torch.optim.SGD(net.parameters(), lr=0.02), torch.arange(E) % 3 > 0
    right = torch.sin(torch.arange(2 * E)).view(E, 2)
    for k in range(3):
        optimizer.zero_grad()
        attr = PLAIN["edge_attr"][net.edges].to(x).requires_grad_()
        kept = some[net.edges] if k == 2 else torch.ones(len(net.edges), dtype=torch.bool)
        z, e = net(x, edge_attr=attr, **({"edges": kept} if k == 2 else {}))
        loss = of_labels(net, z) + (e - right[net.edges][kept].to(x)).square().sum() / E
        loss.backward()
        yield net.sum(attr.grad.square().sum()).sqrt()
        optimizer.step()
        yield net.sum(loss.detach())


def relations(net: Any, x: Any, again: Again) -> Iterator[Tensor]:
    """Features of edges of two relations, of which one has some of the edges."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.002)
    tensor = next(iter(x.values()))
    for _ in range(3):
        optimizer.zero_grad()
        attr = {key: TYPED_ATTR[key][net.edges[key]].to(tensor).requires_grad_() for key in (UP, NEAR)}
        kept = {NEAR: (torch.arange(len(TYPED_ATTR[NEAR])) % 4 > 0)[net.edges[NEAR]]}
        state = net({"grid": x["grid"]}, edge_attr=attr, edges=kept)
        loss = (state["grid"] - x["grid"].roll(1, 1)).square().sum() / (V * WIDTH)
        loss.backward()
        for one in attr.values():
            yield net.sum(one.grad.square().sum()).sqrt()
        optimizer.step()
        yield net.sum(loss.detach())


def two(first: Any = SAGEConv, last: Any = GCNConv) -> Callable[[], nn.Module]:
    return lambda: Two(first(WIDTH, 16), last(16, CLASSES))


class Loop(NamedTuple):
    run: Any
    make: Callable[[], nn.Module]
    arrays: Mapping[str, Any] = PLAIN
    by_net: bool = False  # beside a net of one process, as PyTorch has other masks


LOOPS = {
    "plain": Loop(plain, two()),
    "around": Loop(around, lambda: Two(GATConv(WIDTH, 8, heads=2), GCNConv(16, CLASSES))),
    "rollout": Loop(rollout, lambda: Two(GCNConv(WIDTH, 16), SAGEConv(16, WIDTH))),
    "pairs": Loop(pairs, lambda: Two(GATConv(WIDTH, 8, heads=2), GCNConv(16, 8))),
    "whole": Loop(whole, lambda: Two(GCNConv(WIDTH, 16), GCNConv(16, CLASSES), mean=True)),
    "views": Loop(views, two(GCNConv, SAGEConv)),
    "infomax": Loop(infomax, two()),
    "distilled": Loop(distilled, two(GCNConv)),
    "averaged": Loop(averaged, two()),
    "cotrained": Loop(cotrained, two(GCNConv)),
    "wrapped": Loop(wrapped, two()),
    "perturbed": Loop(perturbed, two(GCNConv, SAGEConv)),
    "frozen": Loop(frozen, two()),
    "searched": Loop(searched, Weighted, WEIGHTED),
    "accumulated": Loop(accumulated, two()),
    "checkpointed": Loop(checkpointed, two(GCNConv)),
    "sampled": Loop(sampled, two()),
    "resumed": Loop(resumed, two()),
    "weighted": Loop(plain, Weighted, WEIGHTED),
    "attention": Loop(plain, Attention),
    "embedded": Loop(plain, Embedded),
    "dropped": Loop(dropped, lambda: Attention(0.4), by_net=True),
    "typed": Loop(typed, Convs, TYPED),
    "weather": Loop(weather, Weather, TYPED),
    "encoded": Loop(encoded, Attention),
    "reweighted": Loop(reweighted, Weighted, WEIGHTED),
    "upwards": Loop(reweighted, Upwards, WEIGHTED),
    "flows": Loop(flows, Flows),
    "relations": Loop(relations, Weather, TYPED),
}
