"""Loops of several processes, beside those of one process of PyTorch in float64.

    mpirun -n 2 python processes.py graph=2 NAME…  a line for each loop, or those named: its name, and how far figures,
                                                   weights and running statistics are apart; "bits" if a second run
                                                   has the bits of the first
    mpirun -n 2 python processes.py --unlike MESH  rank 1 makes another call than rank 0
    mpirun -n 2 python processes.py --planned      how the memory of a loop that is given features of edges is planned
    mpirun -n 2 python processes.py --checkpoint FILE graph=2
                                                   losses and norms of weights of steps after a checkpoint, which is
                                                   written if it is not there, else read
    mpirun -n 2 python processes.py --sends STEPS  what passes send as planned, and other rows that net.rows fetches,
                                                   after so many steps
    mpirun -n 2 python processes.py --raises       rank 1 raises an exception, while rank 0 waits for it
"""

from __future__ import annotations

import copy
import inspect
import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from together import OfGroup, Together
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, HeteroConv, SAGEConv

import weft

V, E, WIDTH, CLASSES = 211, 1500, 12, 4

torch.manual_seed(5)
Y = torch.randint(0, CLASSES, (V,))
ENDS = torch.randint(0, V, (2, E))
X = torch.randn(V, WIDTH)
TRAIN = torch.rand(V) < 0.6

#: Vertex types, of which the first one's are those above.
UP, NEAR, BACK = ("grid", "up", "mesh"), ("mesh", "near", "mesh"), ("mesh", "back", "grid")
COUNTS = {"grid": V, "mesh": 47}
TYPED_ENDS = {
    key: torch.stack([torch.randint(0, COUNTS[of], (n,)) for of in (key[0], key[2])])
    for key, n in ((UP, 600), (NEAR, 240), (BACK, 630))
}
TYPED_ATTR = {key: torch.randn(of.shape[1], 2) for key, of in TYPED_ENDS.items()}
TYPED_X = {"grid": X, "mesh": torch.randn(COUNTS["mesh"], 3)}

#: What modules are given on a graph, by the names of their arguments.
PLAIN = {"x": X, "edge_index": ENDS, "edge_attr": torch.randn(E, 3)}
WEIGHTED = {"x": X, "edge_index": ENDS, "edge_weight": torch.rand(E) + 0.1}
TYPED = {"x_dict": TYPED_X, "edge_index_dict": TYPED_ENDS, "edge_attr_dict": TYPED_ATTR}


class Two(nn.Module):
    """Two convolutions with batch norm, and the mean of the hidden layer if asked."""

    def __init__(self, first: nn.Module, last: nn.Module, mean: bool = False):
        super().__init__()
        self.first, self.last, self.norm, self.mean = first, last, nn.BatchNorm1d(16), mean

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        h = F.relu(self.norm(self.first(x, edge_index)))
        z = self.last(h, edge_index)
        return (z, h.mean(0)) if self.mean else z


class Weighted(nn.Module):
    """Two convolutions with weights of edges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = GCNConv(WIDTH, 16), GCNConv(16, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x, edge_index, edge_weight)), edge_index, edge_weight)


class Attention(nn.Module):
    """GATv2 with features of edges, and dropout of rows and of attention if asked."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = GATv2Conv(WIDTH, 8, heads=2, edge_dim=3, dropout=dropout)
        self.last, self.norm, self.dropout = GATv2Conv(16, CLASSES, edge_dim=3), nn.LayerNorm(16), dropout

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        h = self.norm(self.first(F.dropout(x, self.dropout, self.training), edge_index, edge_attr)).tanh()
        return self.last(F.dropout(h, self.dropout, self.training), edge_index, edge_attr)


class Embedded(nn.Module):
    """A learned row of each vertex, beside its features."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(V, 6))
        self.first, self.last = SAGEConv(WIDTH + 6, 16), GCNConv(16, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.first(torch.cat([x, self.table], 1), edge_index).tanh(), edge_index)


class Convs(nn.Module):
    """A convolution for each relation, and a batch norm of each type."""

    def __init__(self) -> None:
        super().__init__()
        widths = {name: of.shape[1] for name, of in TYPED_X.items()}
        self.first = HeteroConv({key: SAGEConv((widths[key[0]], widths[key[2]]), 8) for key in TYPED_ENDS})
        self.norms = nn.ModuleDict({name: nn.BatchNorm1d(8) for name in widths})
        self.last = HeteroConv({key: SAGEConv((8, 8), CLASSES) for key in TYPED_ENDS}, aggr="mean")

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> Any:
        h = self.first(x_dict, edge_index_dict)
        return self.last({name: self.norms[name](of).tanh() for name, of in h.items()}, edge_index_dict)


class Weather(nn.Module):
    """Encode, process, decode: from the grid to a mesh, on the mesh, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.grid, self.mesh, self.out = nn.Linear(WIDTH, 8), nn.Linear(3, 8), nn.Linear(8, WIDTH)
        self.edges = nn.ModuleList([nn.Linear(8 + 8 + 2, 8) for _ in range(3)])
        self.rows = nn.ModuleList([nn.Linear(16, 8) for _ in range(3)])
        self.norm = nn.LayerNorm(8)

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_attr_dict: Any) -> dict[str, Tensor]:
        h = {"grid": torch.tanh(self.grid(x_dict["grid"])), "mesh": torch.tanh(self.mesh(x_dict["mesh"]))}
        for key, edge, row in zip((UP, NEAR, BACK), self.edges, self.rows):
            source, target, ends = h[key[0]], h[key[2]], edge_index_dict[key]
            m = torch.tanh(edge(torch.cat([source[ends[0]], target[ends[1]], edge_attr_dict[key]], 1)))
            into = torch.zeros_like(target).index_add(0, ends[1], m)
            h[key[2]] = target + self.norm(row(torch.cat([target, into], 1)))
        return {"grid": x_dict["grid"] + 0.1 * self.out(h["grid"])}


class Flows(nn.Module):
    """States of edges, which are added up at one of their ends, and returned (MeshGraphNet)."""

    def __init__(self) -> None:
        super().__init__()
        width = 8
        self.encode, self.encode_edges = nn.Linear(WIDTH, width), nn.Linear(3, width)
        self.edge, self.vertex = nn.Linear(3 * width, width), nn.Linear(2 * width, width)
        self.decode, self.decode_edges = nn.Linear(width, CLASSES), nn.Linear(width, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Any:
        h, e = torch.tanh(self.encode(x)), self.encode_edges(edge_attr)
        for _ in range(2):
            e = e + torch.tanh(self.edge(torch.cat([e, h[edge_index[0]], h[edge_index[1]]], 1)))
            into = torch.zeros_like(h).index_add(0, edge_index[1], e)
            h = h + torch.tanh(self.vertex(torch.cat([h, into], 1)))
        return self.decode(h), self.decode_edges(e)


class Upwards(nn.Module):
    """Weighted values of edges that are added up at the edges' sources, and returned."""

    def __init__(self) -> None:
        super().__init__()
        self.edge, self.decode = nn.Linear(2 * WIDTH, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Any:
        e = torch.tanh(self.edge(torch.cat([x[edge_index[0]], x[edge_index[1]]], 1))) * edge_weight[:, None]
        h = x.new_zeros(x.size(0), 8).index_add(0, edge_index[0], e)
        return self.decode(h), e


def in_double(given: Any) -> Any:
    if isinstance(given, Mapping):
        return {name: in_double(of) for name, of in given.items()}
    return given.double() if given.is_floating_point() else given


class Alone(nn.Module):
    """What a net is, of one process of PyTorch."""

    rank, workers, group, groups = 0, 1, 0, 1

    def __init__(self, module: nn.Module, given: Mapping[str, Any]):
        super().__init__()
        taken = inspect.signature(module.forward).parameters
        given = {name: in_double(of) for name, of in given.items() if name in taken}
        self.module, self.x, self.beside = module, next(iter(given.values())), dict([*given.items()][1:])

    @property
    def vertices(self) -> Any:
        count = {name: torch.arange(len(of)) for name, of in self.x.items()} if isinstance(self.x, dict) else None
        return count or torch.arange(V)

    @property
    def edges(self) -> Any:
        ends = next(iter(self.beside.values()))
        if isinstance(ends, dict):
            return {key: torch.arange(of.shape[1]) for key, of in ends.items()}
        return torch.arange(ends.shape[1])

    def forward(self, x: Any = None, samples: bool = False, edges: Any = None, **given: Any) -> Any:
        if samples:
            return torch.stack([self(one) for one in x])
        if isinstance(x, dict):
            x = self.x | x
        beside = dict(self.beside)
        for name, of in given.items():
            beside |= {f"{name}_dict": beside[f"{name}_dict"] | of} if isinstance(of, dict) else {name: of}
        if isinstance(edges, dict):
            for name, of in beside.items():
                along = int(name == "edge_index_dict")
                beside[name] = of | {
                    key: of[key].index_select(along, mask.nonzero()[:, 0]) for key, mask in edges.items()
                }
        elif edges is not None:
            beside = {name: of[..., edges] if name == "edge_index" else of[edges] for name, of in beside.items()}
        return self.module(self.x if x is None else x, **beside)

    def sum(self, of: Tensor, group: bool = False) -> Tensor:
        return of

    def rows(self, of: Tensor, vertices: Tensor) -> Tensor:
        return of[vertices]

    def gather(self, of: Tensor, type: str | None = None) -> Tensor:
        return of

    def sum_gradients(self, parameters: list[Tensor]) -> None:
        pass


class Copies:
    """A net whose every call is a pass of each of several groups: their rows stand one below the other."""

    rank = 0

    def __init__(self, net: Any, groups: int):
        self.net, self.groups = net, groups
        self.parameters, self.sum = net.parameters, net.sum

    @property
    def vertices(self) -> Tensor:
        return torch.cat([self.net.vertices] * self.groups)

    def __call__(self) -> Tensor:
        return torch.cat([self.net() for _ in range(self.groups)])


Again = Callable[[nn.Module], Any]  # compiles another module on the graph


def of_process(net: Any) -> slice:
    """Every how many of a list, and from which on, are this process's, if those of a group share it."""
    count = net.workers // net.groups
    return slice(net.rank % count, None, count)


def sample_of(group: int, x: Any) -> Any:
    """The features that a group takes."""
    if isinstance(x, Mapping):
        return {name: sample_of(group, of) for name, of in x.items()}
    return x * (1 + group / 2)


def of_labels(net: Any, z: Tensor, some: Tensor = TRAIN) -> Tensor:
    """The mean over all training vertices, or some others: this process's part."""
    mine = net.vertices["grid"] if isinstance(net.vertices, dict) else net.vertices
    here = some[mine]
    return F.cross_entropy(z[here], Y[mine][here], reduction="sum") / int(some.sum())


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
        mine = ends[:, of_process(net)]
        loss = F.softplus(-(net.rows(z, mine[0]) * net.rows(z, mine[1])).sum(1)).sum() / 120
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
        mine = of_process(net)
        scores = net.rows(a, some[mine]) @ net.rows(b, some).T / 0.5
        loss = F.cross_entropy(scores, torch.arange(60)[mine], reduction="sum") / 60
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
        given = {"edges": (torch.rand(E, generator=drawn) < 0.8)[net.edges]} if k else {}
        loss = of_labels(net, net(edge_attr=torch.tanh(into(attr)), **given))
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
    of = next(iter(x.values()))
    for _ in range(3):
        optimizer.zero_grad()
        attr = {key: TYPED_ATTR[key][net.edges[key]].to(of).requires_grad_() for key in (UP, NEAR)}
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
    given: Mapping[str, Any] = PLAIN
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


def apart(ours: list[float], theirs: list[float]) -> float:
    return max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(ours, theirs, strict=True))


def graph_of(given: Mapping[str, Any], module: nn.Module) -> weft.Graph:
    """The graph with what the module takes."""
    taken = inspect.signature(module.forward).parameters
    return weft.Graph(**{name.removesuffix("_dict"): of for name, of in given.items() if name in taken})


def in_groups(of: Loop, module: nn.Module, groups: int) -> list[float]:
    """What a loop yields in PyTorch, in float64, with a module that it changes."""
    together = Together(groups)
    modules = [module, *(copy.deepcopy(module) for _ in range(groups - 1))]

    def group(number: int) -> list[float]:
        def net(module: nn.Module) -> Any:
            alone = Alone(module.double(), of.given)
            return alone if groups == 1 else OfGroup(alone, together, number)

        x = in_double(next(iter(of.given.values())))
        return [float(one) for one in of.run(net(modules[number]), sample_of(number, x), net)]

    with set_checkpoint_early_stop(False):  # each group computes a pass again as far as the others
        made: list[list[float]] = together.run(group)
    return made[0]


def run(name: str, mesh: str) -> None:
    of = LOOPS[name]
    torch.manual_seed(3)
    module = of.make()
    exact, begun = copy.deepcopy(module), copy.deepcopy(module.state_dict())
    groups = int(dict(axis.split("=") for axis in mesh.split(",")).get("samples", 1))
    if of.by_net:
        alone = Copies(weft.compile(exact, graph_of(of.given, exact)), groups)
        theirs = [float(one) for one in of.run(alone, next(iter(of.given.values())), None)]
    else:
        theirs = in_groups(of, exact.double(), groups)
    graph, runs = graph_of(of.given, module), []
    for _ in range(2):
        module.load_state_dict(begun)
        net = weft.compile(module, graph, parallel=mesh)
        x, rows = next(iter(of.given.values())), net.vertices
        mine = {kind: x[kind][ids] for kind, ids in rows.items()} if isinstance(rows, dict) else x[rows]
        mine = sample_of(net.group, mine)
        made = of.run(net, mine, lambda other: weft.compile(other, graph_of(of.given, other), parallel=mesh))
        ours = [float(one) for one in made]
        runs.append((ours, [one.detach().clone() for one in module.state_dict().values()]))
    (ours, state), (_, other) = runs
    same = runs[0][0] == runs[1][0] and all(torch.equal(a, b) for a, b in zip(state, other))
    figures = [apart(ours, theirs)]
    for now, right in ((module.parameters(), exact.parameters()), (module.buffers(), exact.buffers())):
        both = [(p.double(), q) for p, q in zip(now, right) if q.is_floating_point()]
        # a bias before a norm has no gradient but rounding
        both = [(p, q) for p, q in both if q.grad is None or q.grad.norm() > 1e-10]
        figures.append(max((float((p - q).norm() / q.norm().clamp(min=1e-3)) for p, q in both), default=0.0))
    if net.rank == 0:
        print(name, mesh, *(f"{one:.1e}" for one in figures), "bits" if same else "no", flush=True)


def net_of_rank(mesh: str, make: Callable[[], nn.Module]) -> Any:
    """A net whose processes begin with other parameters and generators, each by its rank."""
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")))
    torch.manual_seed(rank)
    module = make()
    if isinstance(module, Two):
        module.norm.num_batches_tracked.fill_(2**40 + 1 + rank)
        module.norm.running_mean.fill_(rank)
    return weft.compile(module, graph_of(WEIGHTED if isinstance(module, Weighted) else PLAIN, module), parallel=mesh)


def as_planned(net: Any, of: str = "x") -> str:
    """How the memory of a loop of two passes that are given features differs from its plan."""
    planned = weft.plan(graph_of(PLAIN, net.module), model=net, passes=2, gradients=of)
    rows = net.vertices if of == "x" else net.edges
    for _ in range(3):
        given = {of: PLAIN[of][rows].requires_grad_()}
        a = net(**given)
        b = net(**given)  # one of the outputs of the step before is garbage now
        sum(one.mean() for made in (a, b) for one in (made if isinstance(made, tuple) else (made,))).backward()
    took, keys = net.memory(), ("peak_tensor_bytes", "graph_bytes", "kinds", "peaks")
    unlike = [key for key in keys if took[key] != planned[key]]
    shared, most = took["shared_bytes"], planned["process_shared_bytes"][net.rank]
    near = 0 <= most - shared <= 4 * mmap.PAGESIZE  # small memory may be used twice
    return " ".join([*unlike, "as-planned" if near else f"{shared}-shared-bytes-planned-{most}"])


def go_on(file: Path, mesh: str) -> None:
    """Two steps that write a checkpoint, if it is not there, and two more."""
    net = net_of_rank(mesh, lambda: Attention(0.4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    falling = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    rows, first = net.vertices, 0
    if file.exists():
        first, state, moments, schedule, drawn = torch.load(file)
        net.load_state_dict(state)
        optimizer.load_state_dict(moments)
        falling.load_state_dict(schedule)
        torch.set_rng_state(drawn)
    for step in range(first, 4):
        if step == 2 and first == 0 and net.rank == 0:
            state = net.state_dict(), optimizer.state_dict(), falling.state_dict(), torch.get_rng_state()
            torch.save((step, *state), file)
        optimizer.zero_grad()
        loss = of_labels(net, net(X[rows]))
        loss.backward()
        optimizer.step()
        falling.step()
        figures = [float(net.sum(loss.detach())), *(float(p.detach().norm()) for p in net.parameters())]
        if step >= 2 and net.rank == 0:
            print(*map(float.hex, figures), flush=True)


def sends(steps: int) -> None:
    """Steps with a sum of CLASSES numbers, and with rows of CLASSES columns of other processes."""
    net = net_of_rank("graph=2", lambda: Weighted())
    planned = weft.plan(graph_of(WEIGHTED, net.module), model=net, passes=1)["communication"]
    ids = torch.arange(net.rank, V, 3)
    for _ in range(steps):
        z = net()
        mean = net.sum(z.sum(0)) / V
        ((z - mean).square().sum() + net.rows(z, ids).square().sum()).backward()
    fetched = int(net.sum(torch.tensor(len(set(ids.tolist()) - set(net.vertices.tolist())))))
    if net.rank == 0:
        print(planned["halo"]["bytes"], planned["gradient"]["bytes"], fetched, flush=True)


def main() -> None:
    what, mesh = sys.argv[1], "graph=2"
    if what == "--unlike":
        net = net_of_rank(sys.argv[2], two(GCNConv))
        state = {name: of.detach().clone() for name, of in net.state_dict().items()}
        planned = as_planned(net)
        same = int(state["norm.num_batches_tracked"]) == 2**40 + 1 and not state["norm.running_mean"].any()
        for of in state.values():
            same = torch.equal(net.sum(of), of * 2) and same
        print(f"the first one's: {same} {planned}", flush=True)
        if net.rank == 1:
            net.sum(torch.zeros(1))
        net()
    elif what == "--planned":
        print(as_planned(weft.compile(Flows(), graph_of(PLAIN, Flows()), parallel=mesh), "edge_attr"), flush=True)
    elif what == "--checkpoint":
        go_on(Path(sys.argv[2]), sys.argv[3])
    elif what == "--sends":
        sends(int(sys.argv[2]))
    elif what == "--raises":
        net = net_of_rank(mesh, two(GCNConv))
        if net.rank == 1:
            raise ValueError("of rank 1")
        net()
    else:
        for name in sys.argv[2:] or LOOPS:
            run(name, what)


if __name__ == "__main__":
    main()
