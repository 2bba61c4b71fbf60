"""Nets without a graph, which are called with each graph as their modules are, beside PyTorch in float64."""

from __future__ import annotations

import copy
import gc
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from loop_models import assert_alike, settings
from torch import Tensor, nn
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GCNConv,
    GINEConv,
    GraphNorm,
    HeteroConv,
    InstanceNorm,
    LayerNorm,
    SAGEConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import k_hop_subgraph, scatter, softmax

import weft

WIDTH, ATTRIBUTES = 5, 3
MESHES = ("graph=1", "graph=3", "tensor=2", "graph=2,tensor=2", "partitions=3")


def drawn(vertices: int, seed: int, edges: int = 3) -> Data:
    """A graph of random edges, with self loops and edges that are there twice; the last vertex has none."""
    g = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, max(1, vertices - 1), (2, edges * vertices if vertices > 1 else 0), generator=g)
    ends = torch.cat([ends, ends[:, :2]], 1)
    x = torch.randn(vertices, WIDTH, generator=g)
    return Data(
        x=x,
        edge_index=ends,
        edge_attr=torch.randn(ends.shape[1], ATTRIBUTES, generator=g),
        pos=torch.rand(vertices, 2, generator=g),
        y=torch.tanh(x[:, :2] + x[:, 2:4].roll(1, 0)),
        target=x.mean().reshape(1, 1),
    )


GRAPHS = [drawn(9 + 17 * k % 40, k) for k in range(6)]


class Mesh(nn.Module):  # type: ignore[misc]
    """Messages of both ends and of the edge's features, with a residual."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(WIDTH, width), nn.Linear(width, 2)
        self.message, self.norm = nn.Linear(2 * width + ATTRIBUTES, width), nn.LayerNorm(width)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        h, (source, target) = self.encode(x), edge_index
        for _ in range(2):
            m = F.silu(self.message(torch.cat([h[source], h[target], edge_attr], 1)))
            h = h + self.norm(torch.zeros_like(h).index_add(0, target, m))
        return self.decode(h)


class Plain(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = GCNConv(WIDTH, 8), SAGEConv(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x, edge_index)), edge_index)


class OfData(Plain):
    def forward(self, data: Data) -> Tensor:  # type: ignore[override]
        return super().forward(data.x, data.edge_index)


class Weighted(Plain):
    def forward(self, x: Tensor, adj_t: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.last(torch.tanh(self.first(x, adj_t, edge_weight)), adj_t)


class Branches(Plain):
    """Numbers and flags choose what is computed."""

    def forward(
        self, x: Tensor, edge_index: Tensor, depth: int = 1, scale: float = 1.0, last: bool = True
    ) -> Tensor:
        h = x
        for _ in range(depth):
            h = torch.tanh(self.first(h, edge_index))[:, :WIDTH]
        h = torch.cat([h, h[:, : 8 - WIDTH]], 1) * scale
        return self.last(h, edge_index) if last else h


class Molecules(nn.Module):  # type: ignore[misc]
    """Layers, norms of each graph, attention over its vertices, and poolings."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first = GINEConv(nn.Linear(WIDTH, width), edge_dim=ATTRIBUTES)
        self.norms = nn.ModuleList([GraphNorm(width), InstanceNorm(width), LayerNorm(width, mode="graph")])
        self.score, self.out = nn.Linear(width, 1), nn.Linear(4 * width, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Any:
        h = self.first(x, edge_index, edge_attr)
        for norm in self.norms:
            h = h + torch.tanh(norm(h, batch))
        share = softmax(self.score(h), batch)
        pooled = [
            global_mean_pool(h, batch),
            global_max_pool(h, batch),
            scatter(share * h, batch, dim=0, reduce="sum"),
            global_add_pool(h.sigmoid(), batch) / 10,
        ]
        return self.out(torch.cat(pooled, 1))


class Sized(nn.Module):  # type: ignore[misc]
    """Pools of as many graphs as the call says."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int) -> tuple[Tensor, Tensor]:
        pooled = self.out(global_mean_pool(x, batch, batch_size))
        return pooled, x[:, :2] - pooled[batch]


class Typed(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        kinds = {
            ("a", "to", "b"): SAGEConv((WIDTH, WIDTH), 6),
            ("b", "back", "a"): SAGEConv((WIDTH, WIDTH), 6),
        }
        self.conv, self.out = HeteroConv(kinds), nn.Linear(6, 2)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> dict[str, Tensor]:
        return {name: self.out(F.relu(h)) for name, h in self.conv(x_dict, edge_index_dict).items()}


class TypedGraphs(Typed):
    """The graphs of a batch, of the vertices of both types."""

    def forward(  # type: ignore[override]
        self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor], batch_dict: dict[str, Tensor]
    ) -> Tensor:
        h = super().forward(x_dict, edge_index_dict)
        return global_mean_pool(h["a"], batch_dict["a"]) + global_add_pool(h["b"], batch_dict["b"])


def typed(k: int) -> HeteroData:
    d, made = GRAPHS[k], HeteroData()
    made["a"].x, made["b"].x = d.x, d.x[: d.num_nodes // 2]
    into = d.edge_index[:, d.edge_index[1] < d.num_nodes // 2]
    made["a", "to", "b"].edge_index, made["b", "back", "a"].edge_index = into, into.flip(0)
    return made


To = Callable[[Tensor], Tensor]
Loop = Callable[[Any, To], Iterator[Tensor]]


def meshes(net: Any, to: To) -> Iterator[Tensor]:
    """Graphs of other sizes in turn, by position and by name."""
    for d in GRAPHS[:4] * 2:
        yield F.mse_loss(net(to(d.x), edge_index=d.edge_index, edge_attr=to(d.edge_attr)), to(d.y))


def shuffled(net: Any, to: To) -> Iterator[Tensor]:
    """A DataLoader that makes new tensors, in another order in each epoch."""
    g = torch.Generator().manual_seed(5)
    loader = DataLoader(GRAPHS, batch_size=2, shuffle=True, generator=g)
    for _ in range(3):
        for d in loader:
            yield F.mse_loss(net(to(d.x), d.edge_index, to(d.edge_attr)), to(d.y))


def alternating(net: Any, to: To) -> Iterator[Tensor]:
    """A graph to train on and one to validate on."""
    for _ in range(3):
        yield F.mse_loss(
            net.train()(to(GRAPHS[0].x), GRAPHS[0].edge_index, to(GRAPHS[0].edge_attr)), to(GRAPHS[0].y)
        )
        with torch.no_grad():
            d = GRAPHS[1]
            yield F.mse_loss(net.eval()(to(d.x), d.edge_index, to(d.edge_attr)), to(d.y))


def rollout(net: Any, to: To) -> Iterator[Tensor]:
    """Edges anew in each step, of the positions of the step before, with noise, and one backward pass."""
    d, g = GRAPHS[2], torch.Generator().manual_seed(1)
    for _ in range(2):
        x, total = to(d.x) + 0.01 * to(torch.randn(d.x.shape, generator=g)), 0.0
        for step in range(4):
            near = torch.cdist(x.detach().double(), x.detach().double()).topk(4, largest=False).indices[:, 1:]
            ends = torch.stack([near.reshape(-1), torch.arange(len(x)).repeat_interleave(3)])
            x = x + 0.1 * F.pad(net(x, ends), (0, WIDTH - 2))
            total = total + F.mse_loss(x, to(d.x) + 0.1 * step)
        yield total


def written(net: Any, to: To) -> Iterator[Tensor]:
    """The same tensor of edges, which is written between calls by PyTorch and by NumPy."""
    d = GRAPHS[3].clone()
    for step in range(4):
        yield F.mse_loss(net(to(d.x), d.edge_index, to(d.edge_attr)), to(d.y))
        if step % 2:
            d.edge_index.copy_(d.edge_index.roll(1, 1))
        else:
            d.edge_index.numpy()[0] = (d.edge_index.numpy()[0] + 1) % d.num_nodes


def sampled(net: Any, to: To) -> Iterator[Tensor]:
    """Batches of vertices with their neighbourhoods, each a graph of its own, as a NeighborLoader makes."""
    d = GRAPHS[5]
    for first in range(0, d.num_nodes, 7):
        seeds = torch.arange(first, min(first + 7, d.num_nodes))
        vertices, ends, at, _ = k_hop_subgraph(
            seeds, 2, d.edge_index, relabel_nodes=True, num_nodes=d.num_nodes
        )
        yield F.mse_loss(net(to(d.x[vertices]), ends)[at], to(d.y[seeds]))


def molecules(net: Any, to: To) -> Iterator[Tensor]:
    """Batches of graphs, among them one without edges."""
    for d in DataLoader([*GRAPHS, drawn(1, 8), drawn(4, 9, edges=0)], batch_size=4):
        yield F.mse_loss(net(to(d.x), d.edge_index, to(d.edge_attr), d.batch), to(d.target))


def types(net: Any, to: To) -> Iterator[Tensor]:
    for k in range(4):
        d = typed(k)
        made = net({name: to(x) for name, x in d.x_dict.items()}, d.edge_index_dict)
        yield sum(F.mse_loss(made[name], to(GRAPHS[k].y[: len(made[name])])) for name in ("a", "b"))


def batches_of_types(net: Any, to: To) -> Iterator[Tensor]:
    for k in (0, 2):
        d = Batch.from_data_list([typed(k), typed(k + 1), typed(k + 2)])
        made = net({name: to(x) for name, x in d.x_dict.items()}, d.edge_index_dict, d.batch_dict)
        yield made.square().mean()


LOOPS: list[tuple[Loop, type[nn.Module]]] = [
    (meshes, Mesh),
    (shuffled, Mesh),
    (alternating, Mesh),
    (rollout, Plain),
    (written, Mesh),
    (sampled, Plain),
    (molecules, Molecules),
    (types, Typed),
    (batches_of_types, TypedGraphs),
]


def steps(loop: Loop, net: Any, parameters: list[Tensor], to: To) -> list[float]:
    """The losses of a loop, each of which makes a step if it has a gradient."""
    optimizer, found = torch.optim.SGD(parameters, lr=0.01), []
    for loss in loop(net, to):
        found.append(float(loss.detach()))
        if loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return found


@pytest.mark.parametrize("loop,kind", LOOPS, ids=lambda one: getattr(one, "__name__", None))
def test_loops(loop: Loop, kind: type[nn.Module]) -> None:
    torch.manual_seed(3)
    module = kind()
    exact = copy.deepcopy(module).double()
    theirs = steps(loop, exact, list(exact.parameters()), lambda t: t.double())
    for mesh in MESHES:
        own = copy.deepcopy(module)
        net = weft.compile(own, **settings(mesh))
        ours = steps(loop, net, list(net.parameters()), lambda t: t)
        assert ours == pytest.approx(theirs, rel=2e-5), mesh
        assert_alike(own, exact)


def beside(module: nn.Module, *arguments: Any, **named: Any) -> tuple[Any, Any]:
    """What a net returns that is called as its module, and what PyTorch does in float64."""
    double = [t.double() if isinstance(t, Tensor) and t.is_floating_point() else t for t in arguments]
    exact = copy.deepcopy(module).double()(*double, **named)
    return weft.compile(module, threads=1)(*arguments, **named), exact


def assert_close(ours: Any, theirs: Any) -> None:
    for made, exact in zip(
        *(one if isinstance(one, tuple) else (one,) for one in (ours, theirs)), strict=True
    ):
        assert made.shape == exact.shape
        assert torch.allclose(made.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("depth", [1, 2])
def test_constants(depth: int, last: bool) -> None:
    """Numbers and flags go to forward, by position or by name; others make another trace."""
    d, module = GRAPHS[0], Branches()
    assert_close(*beside(module, d.x, d.edge_index, depth, last=last))
    net = weft.compile(module)
    for scale in (1.0, 0.5, 1.0):
        assert_close(
            net(d.x, d.edge_index, depth, scale), module.double()(d.x.double(), d.edge_index, depth, scale)
        )
        module.float()


def test_data() -> None:
    """A module that takes a Data is called with one, or with a Batch."""
    torch.manual_seed(1)
    module, several = OfData(), Batch.from_data_list(GRAPHS[:3])
    net = weft.compile(module)
    for d in (GRAPHS[0], several):
        assert_close(net(d), Plain.forward(copy.deepcopy(module).double(), d.x.double(), d.edge_index))


def test_sparse() -> None:
    """adj_t has a row for each target, and values that are weights."""
    d, module = GRAPHS[1], Weighted()
    weight = torch.rand(d.num_edges) + 0.5
    unique = torch.sparse_coo_tensor(d.edge_index.flip(0), weight, (d.num_nodes, d.num_nodes)).coalesce()
    exact = copy.deepcopy(module).double()
    theirs = exact(d.x.double(), unique.indices().flip(0), unique.values().double())
    assert_close(weft.compile(module)(d.x, unique), theirs)
    assert_close(weft.compile(module)(d.x, unique.to_sparse_csr()), theirs)
    assert_close(
        weft.compile(module)(d.x, d.edge_index.int(), weight),
        exact(d.x.double(), d.edge_index, weight.double()),
    )


@pytest.mark.parametrize("mesh", ["graph=1", "graph=3", "tensor=2"])
def test_sizes(mesh: str) -> None:
    """As many graphs as the call says, of which the first and the last are empty, in no order."""
    module, net = Sized(), None
    net = weft.compile(module, parallel=mesh)
    for size, numbers in ((4, [2, 1, 1, 2, 1, 2, 2]), (6, [3, 3, 1, 0, 3, 1, 0]), (1, [0] * 7)):
        x, batch, ends = torch.randn(7, WIDTH), torch.tensor(numbers), torch.tensor([[0, 1], [1, 2]])
        assert_close(net(x, ends, batch, size), module.double()(x.double(), ends, batch, size))
        module.float()


def test_gradients() -> None:
    """Of features and of edges' features; and of positions through a loss of the caller's."""
    d, module = GRAPHS[2], Mesh()
    net, found = weft.compile(module), []
    for to, call in ((lambda t: t.double(), copy.deepcopy(module).double()), (lambda t: t, net)):
        x, attr = (to(t).clone().requires_grad_() for t in (d.x, d.edge_attr))
        made = call(x, d.edge_index, attr)
        found.append(torch.autograd.grad((made * to(d.y)).sum() + attr.square().sum(), (x, attr)))
    for exact, ours in zip(*found):
        assert torch.allclose(ours.double(), exact, rtol=1e-4, atol=1e-5)


def test_masks_rows_samples() -> None:
    """edges=, rows= and samples= are of the graph of the call."""
    d, module = GRAPHS[3], Mesh()
    net, mask = weft.compile(module), torch.rand(d.num_edges) < 0.6
    exact = copy.deepcopy(module).double()
    theirs = exact(d.x.double(), d.edge_index[:, mask], d.edge_attr[mask].double())
    assert_close(net(d.x, d.edge_index, d.edge_attr, edges=mask), theirs)
    whole = exact(d.x.double(), d.edge_index, d.edge_attr.double())
    assert_close(net(d.x, d.edge_index, d.edge_attr, rows=torch.tensor([3, 1])), whole[[3, 1]])
    both = net(torch.stack([d.x, 2 * d.x]), d.edge_index, d.edge_attr, samples=True)
    assert_close(both[0], whole)
    assert_close(both[1], exact(2 * d.x.double(), d.edge_index, d.edge_attr.double()))


def test_order_stays() -> None:
    """The order of a graph's edges is that of its first call, also if the caller writes to them later."""
    d, module = GRAPHS[4], Plain()
    net, exact, ends = weft.compile(module), copy.deepcopy(module).double(), d.edge_index.clone()
    net(d.x, ends)
    ends.copy_(ends.flip(1))
    mask = torch.arange(d.num_edges) % 3 > 0
    assert_close(net(d.x, d.edge_index, edges=mask), exact(d.x.double(), d.edge_index[:, mask]))


COURSES: list[Callable[[Tensor, Tensor, Tensor], Tensor]] = [
    lambda h, e, b: h * (2.0 if int(b.max()) + 1 > 3 else 1.0),
    lambda h, e, b: h * (2.0 if b.max().item() == 0 else 1.0),
    lambda h, e, b: h * min(int(b.max()) + 1, 3),
    lambda h, e, b: h * (2.0 if h.size(0) > 5 else 1.0),
    lambda h, e, b: h * (2.0 if h.size(0) == 1 else 1.0),
    lambda h, e, b: h * (2.0 if e.numel() == 0 else 1.0),
    lambda h, e, b: h * (2.0 if e.size(1) > 4 else 1.0),
    lambda h, e, b: global_add_pool(h, b) * (2.0 if global_add_pool(h, b).size(0) == 1 else 1.0),
]


class Course(nn.Module):  # type: ignore[misc]
    """Takes another course on small graphs."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.linear, self.number = nn.Linear(WIDTH, 2), number

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return COURSES[self.number](self.linear(x), edge_index, batch)


@pytest.mark.parametrize("number", range(len(COURSES)))
def test_courses(number: int) -> None:
    """A forward that branches on a size returns what PyTorch does for it, or is refused: never another
    course's numbers."""
    module = Course(number)
    try:
        net = weft.compile(module)
        large = drawn(60, 1, edges=2)
        net(large.x, large.edge_index, torch.arange(60) % 9)
    except weft.Refused:
        return  # when it is traced
    wrong = 0
    for vertices, edges, graphs in ((4, 3, 2), (1, 0, 1), (5, 4, 5), (6, 0, 3), (3, 5, 1)):
        x, ends = torch.randn(vertices, WIDTH), torch.randint(0, vertices, (2, edges))
        batch = torch.arange(vertices) % graphs
        theirs = copy.deepcopy(module).double()(x.double(), ends, batch)
        try:
            assert_close(net(x, ends, batch), theirs)
        except weft.Refused as error:
            assert "on a graph of this size" in str(error)
            wrong += 1
    assert wrong


def test_constants_alike() -> None:
    """1, True and 1.0 are equal, and other arguments; nan is one."""

    class Kinds(Plain):
        def forward(self, x: Tensor, edge_index: Tensor, k: Any = 1) -> Tensor:  # type: ignore[override]
            times = {bool: 2, int: 1, float: 3}[type(k)]
            return super().forward(x, edge_index) * (times if k == k else 5)

    d, module = GRAPHS[0], Kinds()
    net, exact = weft.compile(module), copy.deepcopy(module).double()
    for k in (1, True, 1.0, float("nan"), float("nan"), 1):
        assert_close(net(d.x, d.edge_index, k), exact(d.x.double(), d.edge_index, k))
    assert len(net._graphs.shared.traced) == 4


def test_empty_and_tiny() -> None:
    """Graphs without vertices, and of fewer vertices than workers."""
    module = Mesh()
    net, exact = weft.compile(module, parallel="graph=3"), copy.deepcopy(module).double()
    for vertices in (0, 1, 2, 3, 4):
        x, ends = torch.randn(vertices, WIDTH), torch.randint(0, max(1, vertices), (2, min(vertices, 2)))
        attr = torch.randn(ends.shape[1], ATTRIBUTES)
        made = net(x, ends, attr)
        assert_close(made, exact(x.double(), ends, attr.double()))
        made.sum().backward()


def test_threads() -> None:
    """First calls of several threads trace one after the other."""
    net, found = weft.compile(Mesh(), threads=1), {}

    def call(k: int) -> None:
        d = GRAPHS[k]
        found[k] = net(d.x, d.edge_index, d.edge_attr)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, made in found.items():
        d = GRAPHS[k]
        assert torch.allclose(made, net.module(d.x, d.edge_index, d.edge_attr), atol=1e-5)
    assert len(found) == 3


def test_loop_over_graphs() -> None:
    """A forward that goes through the graphs of a batch is refused soon."""

    class Each(Plain):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:  # type: ignore[override]
            h = super().forward(x, edge_index)
            return torch.stack([h[batch == k].sum(0) for k in range(int(batch.max()) + 1)])

    d = Batch.from_data_list(GRAPHS[:2])
    with pytest.raises(weft.Refused):
        weft.compile(Each())(d.x, d.edge_index, d.batch)


def test_graphs_of_data() -> None:
    """A Batch says how many graphs it has, of which the last may be empty."""

    class Pooled(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, 2)

        def forward(self, data: Batch) -> Tensor:
            return self.linear(global_mean_pool(data.x, data.batch, data.num_graphs))

    module, empty = Pooled(), Data(x=torch.zeros(0, WIDTH), edge_index=torch.zeros(2, 0, dtype=torch.long))
    plain = [Data(x=d.x, edge_index=d.edge_index) for d in GRAPHS[:2]]
    net = weft.compile(module)
    for several in ([*plain, empty], plain, [empty, plain[0]]):
        d = Batch.from_data_list(several)
        theirs = module.linear(global_mean_pool(d.x, d.batch, d.num_graphs))
        assert torch.allclose(net(d), theirs, atol=1e-5)


def test_own_graph() -> None:
    """A net that has a graph is called with it, and with others."""
    d, e, module = GRAPHS[0], GRAPHS[1], Plain()
    net = weft.compile(module, weft.Graph(edge_index=d.edge_index, x=d.x))
    exact = copy.deepcopy(module).double()
    for _ in range(2):
        assert_close(net(), exact(d.x.double(), d.edge_index))
        assert_close(net(e.x, e.edge_index), exact(e.x.double(), e.edge_index))
        assert_close(net(x=2 * d.x), exact(2 * d.x.double(), d.edge_index))


def test_properties() -> None:
    d = GRAPHS[0]
    net = weft.compile(Mesh())
    assert repr(net).startswith("Net(\n  of any graph")
    with pytest.raises(weft.Refused, match="no call has given one yet: call it first"):
        _ = net.vertices
    net(d.x, d.edge_index, d.edge_attr)
    assert net.vertices.tolist() == list(range(d.num_nodes))
    assert net.edges.tolist() == list(range(d.num_edges))
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.module.decode.bias += 1
    made, moved = (one(d.x, d.edge_index, d.edge_attr) for one in (net, other))
    assert torch.allclose(moved, made + 1, atol=1e-6)


def resident() -> float:
    from weft import _calls

    with open(f"/proc/{_calls.program().process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def test_many_graphs() -> None:
    """Many graphs leave no memory and no descriptor behind."""
    net = weft.compile(Mesh(), threads=1, graph_cache="16MiB")
    for k in range(400):
        d = drawn(3 + k % 60, k)
        net(d.x, d.edge_index, d.edge_attr).square().mean().backward()
        if k == 100:
            gc.collect()
            before = resident(), len(os.listdir("/proc/self/fd"))
    gc.collect()
    assert len(net._graphs.kept) <= 26  # of .6 MiB
    assert resident() - before[0] < 30
    assert len(os.listdir("/proc/self/fd")) <= before[1] + 1


def test_room() -> None:
    """The graph that was used least recently makes room; one alone stays, however large it is."""
    graphs = [drawn(20, k) for k in range(4)]
    size = 0

    def call(net: Any, *numbers: int) -> list[Any]:
        for k in numbers:
            net(graphs[k].x, graphs[k].edge_index, graphs[k].edge_attr)
        return list(net._graphs.kept.values())

    net = weft.compile(Mesh())
    size = net._graphs.size_of(call(net, 0)[0])
    net = weft.compile(Mesh(), graph_cache=2 * size)
    first, second = call(net, 0, 1)
    assert call(net, 0) == [second, first]
    assert first in call(net, 2) and second not in call(net, 0)
    assert len(call(weft.compile(Mesh(), graph_cache=0), 0, 1, 1)) == 1


@pytest.mark.parametrize(
    "call,reason",
    [
        (
            lambda n, d: n(d.x, d.edge_index + 2, d.edge_attr),
            "edge_index: the (source|target) of edge .* is vertex 9, and there are 9",
        ),
        (lambda n, d: n(d.x, -d.edge_index, d.edge_attr), "edge_index: the source of edge .* begin at 0"),
        (lambda n, d: n(d.x, d.edge_index.float(), d.edge_attr), "edge_index: is torch.float32 .*2 × E"),
        (lambda n, d: n(d.x, d.edge_index.T, d.edge_attr), "edge_index: is torch.int64 .*2 × E"),
        (lambda n, d: n(d.x, d.edge_index, d.edge_attr[1:]), "edge_attr: is .*: give floats of 29 edges"),
        (lambda n, d: n(d.x[0], d.edge_index, d.edge_attr), "x: is .*: give a tensor of vertices × features"),
        (lambda n, d: n(d.x[:, 1:], d.edge_index, d.edge_attr), "forward|encode.*(reduction dim|mat1)"),
        (lambda n, d: n({"a": d.x}, d.edge_index, d.edge_attr), "x: give x and edge_index both"),
        (lambda n, d: n(d.x), "missing a required argument: 'edge_index'"),
        (lambda n, d: n(), "missing a required argument: 'x'"),
        (lambda n, d: n(d.x, d.edge_index, d.edge_attr, z=1), "unexpected keyword argument 'z'"),
    ],
)
def test_refusals(call: Any, reason: str) -> None:
    net = weft.compile(Mesh())
    with pytest.raises((weft.Refused, TypeError), match=reason):
        call(net, GRAPHS[0])
    d = GRAPHS[0]
    net(d.x, d.edge_index, d.edge_attr)  # it has not ended


def test_refused_batches() -> None:
    d, net = Batch.from_data_list(GRAPHS[:2]), weft.compile(Molecules())
    for batch, reason in (
        (d.batch - 1, "batch: has the number -1: graphs are numbered from 0"),
        (d.batch[1:], "batch: is torch.int64 .*: give the number of each vertex's graph, 35"),
        (d.batch.float(), "batch: is torch.float32"),
    ):
        with pytest.raises(weft.Refused, match=reason):
            net(d.x, d.edge_index, d.edge_attr, batch)


def test_refused_settings() -> None:
    with pytest.raises(weft.Refused, match="parallel: a pipeline is of one graph"):
        weft.compile(Mesh(), parallel="pipeline=2")
    with pytest.raises(
        weft.Refused, match="graph_cache: is 'much': give a number of bytes, or one as \"64MiB\""
    ):
        weft.compile(Mesh(), graph_cache="much")
    with pytest.raises(weft.Refused, match="halo"):
        weft.compile(Mesh(), halo="late")


def test_refused_tensors() -> None:
    """Tensors that weft cannot tell rows of."""

    class Positions(Plain):
        def forward(self, x: Tensor, edge_index: Tensor, shift: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(x + shift, edge_index)

    d = GRAPHS[0]
    with pytest.raises(weft.Refused, match="shift: is a Tensor that is neither x, edge_index, edge_attr"):
        weft.compile(Positions())(d.x, d.edge_index, d.x)


def test_refused_sizes() -> None:
    """Fewer graphs than batch numbers, as PyTorch refuses them."""
    with pytest.raises(weft.Refused, match="batch: has the number 2, and there are 2 graphs"):
        weft.compile(Sized())(torch.randn(3, WIDTH), torch.tensor([[0], [1]]), torch.arange(3), 2)
