"""Nets without a graph, which are called with each graph as their modules are, beside PyTorch in float64."""

from __future__ import annotations

import copy
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from graph_models import (
    ATTRIBUTES,
    GRAPHS,
    WIDTH,
    Branches,
    Mesh,
    Molecules,
    OfData,
    Plain,
    Sized,
    Typed,
    Weighted,
    drawn,
)
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_add_pool, global_mean_pool

import weft
from weft import _calls


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


@pytest.mark.parametrize("mesh", ["graph=1", "tensor=2", "graph=3"])
@pytest.mark.parametrize("kind", [Mesh, Molecules])
def test_plans(kind: type[nn.Module], mesh: str) -> None:
    """By the counts of a graph the plan is what passes on it take, up to 2 %, and what they share with the
    program to the byte: before the first call and after it."""
    program, graphs = _calls.program(), [drawn(60 + 9 * k % 40, k) for k in range(50)]
    d = Batch.from_data_list(graphs) if kind is Molecules else drawn(4000, 1)
    batch = {"batch": d.batch} if kind is Molecules else {}
    net = weft.compile(kind(), parallel=mesh, **{"partition": "random"} if mesh == "graph=3" else {})
    counts = {"vertices": d.num_nodes, "edges": d.num_edges} | ({"graphs": 50.0} if batch else {})
    columns = {"features": WIDTH, "features_of_edges": ATTRIBUTES}
    plan = weft.plan(**counts, **columns, model=net, passes=2, gradients="x")
    gc.collect()
    program.give_back()
    before = program.most = program.mapped
    for _ in range(3):
        x = d.x.clone().requires_grad_()
        first, second = (net(x, d.edge_index, d.edge_attr, **batch) for _ in range(2))
        (first.mean() + second.square().mean()).backward()
        del first, second
    took = net.memory()
    assert plan["shared_bytes"] == took["shared_bytes"] - before
    for key in ("peak_tensor_bytes", "graph_bytes"):
        rel = 0.02 if key == "peak_tensor_bytes" else 0.2
        assert max(plan[key]) == pytest.approx(max(took[key]), rel=rel), key
    assert plan == weft.plan(**counts, model=net, passes=2, gradients="x")


def test_plans_as_called() -> None:
    """Weights and numbers are planned as the last call gave them, and workers without a vertex, too."""
    d, tiny = drawn(20, 2), {"vertices": 2, "edges": 1024, "features": WIDTH}
    net = weft.compile(Weighted(), parallel="graph=3", graph_cache="1MiB")
    before = weft.plan(**tiny, model=net)
    net(d.x, d.edge_index, torch.rand(d.num_edges))
    after = weft.plan(**tiny, model=net)
    assert after["shared_bytes"] - before["shared_bytes"] == 4 * 1024, "of weights"
    assert len(before["peak_tensor_bytes"]) == len(after["peak_tensor_bytes"]) == 3
    net = weft.compile(Branches(), parallel="graph=2")
    once = weft.plan(**tiny, model=net)
    net(d.x, d.edge_index, depth=3)
    assert sum(weft.plan(**tiny, model=net)["peak_tensor_bytes"]) > sum(once["peak_tensor_bytes"])


@pytest.mark.parametrize(
    "kind,counts,reason",
    [
        (Mesh, {}, "edge_attr: the graph has none: .*; counts have features_of_edges"),
        (Plain, {"features": 0}, "x: the graph has no features: .*; counts have features"),
        (Mesh, {"vertices": 0}, "vertices: is 0: give 1 to 2,147,483,647"),
        (Mesh, {"edges": 0.5}, "edges: is 0.5: give 0 to"),
        (Mesh, {"graphs": 2}, "graphs: forward takes no batch: leave it out"),
        (Mesh, {"halo_rows": 0.1}, "halo_rows: the graph of a net that has none is planned as a random one"),
        (Sized, {}, "graphs: forward takes batch: give how many graphs it has"),
        (Sized, {"graphs": 100}, "graphs: is 100: give 1 to 9"),
        (Typed, {}, "x_dict: counts are of one vertex type: plan a graph"),
    ],
)
def test_refused_plans(kind: type[nn.Module], counts: dict[str, Any], reason: str) -> None:
    net = weft.compile(kind())
    with pytest.raises(weft.Refused, match=reason):
        weft.plan(**{"vertices": 9, "edges": 20, "features": WIDTH} | counts, model=net)


def test_plans_of_other_nets() -> None:
    """A net without a graph is planned on one that is there, before any call, and a net that has a graph by
    counts, but without a batch."""
    d, module = GRAPHS[0], Plain()
    graph = weft.Graph(edge_index=d.edge_index, x=d.x)
    net = weft.compile(module, graph)
    assert weft.plan(graph, model=weft.compile(module)) == weft.plan(graph, model=net)
    with pytest.raises(
        weft.Refused, match="graphs: calls of a net that was compiled without a graph have them"
    ):
        weft.plan(vertices=9, edges=20, features=WIDTH, graphs=2, model=net)


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


def test_refused_counts() -> None:
    """Fewer outputs on a small graph than on larger ones, or more."""

    class Some(Plain):
        def __init__(self, few: int, many: int) -> None:
            super().__init__()
            self.few, self.many = few, many

        def forward(self, x: Tensor, edge_index: Tensor) -> Any:  # type: ignore[override]
            h = super().forward(x, edge_index)
            return tuple(h * (k + 1) for k in range(self.few if x.size(0) == 1 else self.many))

    for few, many in ((1, 2), (2, 1)):
        net = weft.compile(Some(few, many))
        with pytest.raises(weft.Refused, match="on a graph of this size .* forward takes another course"):
            net(torch.randn(1, WIDTH), torch.tensor([[0], [0]]))
        assert len(net(GRAPHS[0].x, GRAPHS[0].edge_index)) == many


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
