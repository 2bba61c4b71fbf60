"""Calls of a compiled module with some of the edges, or with weights and features of edges, beside PyTorch in
float64."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from loop_models import assert_alike, made, settings
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GraphConv, GraphNorm, MessagePassing, NNConv, SAGEConv

import weft

V, E, WIDTH, CLASSES = 70, 400, 8, 3

torch.manual_seed(6)
ENDS = torch.randint(0, V - 1, (2, E))  # the last vertex has no edges
ENDS[:, 5:9] = ENDS[:, :4]  # which stand there twice
ENDS[0, 20:32] = ENDS[1, 20:32]  # self loops
ENDS[:, 32:34] = ENDS[:, 30:32]  # of which two twice
X, Y = torch.randn(V, WIDTH), torch.randint(0, CLASSES, (V,))
WEIGHT, ATTR = torch.rand(E) + 0.5, torch.randn(E, 2)
GRAPHS = {
    "plain": weft.Graph(edge_index=ENDS, x=X),
    "weights": weft.Graph(edge_index=ENDS, x=X, edge_weight=WEIGHT),
    "attributes": weft.Graph(edge_index=ENDS, x=X, edge_attr=ATTR),
}
MESHES = ("graph=1", "graph=3", "tensor=2", "graph=2,tensor=2", "pipeline=2", "partitions=3")


class Two(nn.Module):  # type: ignore[misc]
    def __init__(self, first: nn.Module, last: nn.Module) -> None:
        super().__init__()
        self.first, self.last = first, last

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x, edge_index)), edge_index)


class Weighted(Two):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        h = torch.tanh(self.first(x, edge_index, edge_weight))
        return self.last(h, edge_index, edge_weight)


class Featured(Two):
    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x, edge_index, edge_attr)), edge_index, edge_attr)


class Gated(MessagePassing):  # type: ignore[misc]
    def __init__(self, width: int, out: int) -> None:
        super().__init__(aggr="mean")
        self.gate = nn.Linear(2 * width, out)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(torch.cat([x_i, x_j], 1)))


class Kernel(nn.Module):  # type: ignore[misc]
    """Integrals over neighbours, by one kernel in all rounds: a matrix of an edge, which an MLP makes of its
    features."""

    def __init__(self, width: int = 4, rounds: int = 2) -> None:
        super().__init__()
        self.lift, self.project, self.rounds = nn.Linear(WIDTH, width), nn.Linear(width, 1), rounds
        kernel = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, width * width))
        self.integral = NNConv(width, width, kernel, aggr="mean")

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        v = self.lift(x)
        for _ in range(self.rounds):
            v = torch.relu(self.integral(v, edge_index, edge_attr))
        return self.project(v)


MODULES = {
    "kernel": Kernel,
    "gcn": lambda: Two(GCNConv(WIDTH, 8), GCNConv(8, CLASSES)),
    "sage": lambda: Two(SAGEConv(WIDTH, 8), SAGEConv(8, CLASSES, aggr="max")),
    "gat": lambda: Two(GATConv(WIDTH, 4, heads=2), GATConv(8, CLASSES)),
    "gated": lambda: Two(Gated(WIDTH, 8), Gated(8, CLASSES)),
    "weighted": lambda: Weighted(GCNConv(WIDTH, 8), GraphConv(8, CLASSES)),
    "featured": lambda: Featured(GATConv(WIDTH, 4, heads=2, edge_dim=2), GATConv(8, CLASSES, edge_dim=2)),
}


class Whole(nn.Module):  # type: ignore[misc]
    """What weft.compile gives, as PyTorch computes it in float64 on the edges that there are."""

    def __init__(self, module: nn.Module, own: Tensor | None) -> None:
        super().__init__()
        self.module, self.own = module, own

    def forward(
        self,
        x: Tensor | None = None,
        *,
        edges: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        edge_input = (
            edge_weight if edge_weight is not None else edge_attr if edge_attr is not None else self.own
        )
        kept = torch.ones(E, dtype=torch.bool) if edges is None else edges
        more = [] if edge_input is None else [edge_input.double()[kept]]
        x = X.double() if x is None else x
        return self.module(x, ENDS[:, kept], *more)  # type: ignore[no-any-return]


# -- loops


def views(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """GRACE: each of two views drops edges and features; one backward pass through both."""
    optimizer, g = torch.optim.SGD(net.parameters(), 0.1), torch.Generator().manual_seed(2)
    for _ in range(3):
        optimizer.zero_grad()
        seen = []
        for p in (0.3, 0.5):
            shown = x * (torch.rand(1, WIDTH, generator=g) >= 0.2).to(x)
            seen.append(F.normalize(net(shown, edges=torch.rand(E, generator=g) >= p)))
        loss = F.cross_entropy(seen[0] @ seen[1].T / 0.5, torch.arange(V))
        loss.backward()
        optimizer.step()
        yield loss


def bootstrapped(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """BGRL: a student and a teacher, each with a view of its own."""
    teacher, g = copy.deepcopy(net), torch.Generator().manual_seed(3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        first, second = (torch.rand(E, generator=g) >= p for p in (0.2, 0.4))
        with torch.no_grad():
            target = teacher(edges=second)
        loss = -F.cosine_similarity(net(edges=first), target).mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(teacher.parameters(), net.parameters()):
                ours.mul_(0.9).add_(0.1 * theirs)
        yield loss


def explained(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """GNNExplainer: masks of edges and of features that keep what the frozen net predicts."""
    net.eval()
    for p in net.parameters():
        p.requires_grad_(False)
    with torch.no_grad():
        predicted = net(edge_weight=torch.ones(E).to(x)).argmax(1)
    mask = nn.Parameter(0.1 * torch.randn(E, generator=torch.Generator().manual_seed(4)).to(x))
    features = nn.Parameter(torch.zeros(1, WIDTH).to(x))
    optimizer = torch.optim.SGD([mask, features], 0.5)
    for _ in range(3):
        optimizer.zero_grad()
        shown = torch.sigmoid(mask)
        out = net(x * torch.sigmoid(features), edge_weight=shown)
        loss = F.cross_entropy(out[:9], predicted[:9]) + 0.01 * shown.sum()
        loss.backward()
        optimizer.step()
        yield loss
    yield mask.norm()
    yield from mask[::7]


def learned(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Weights of edges are learned beside the net, and some edges are dropped in each step."""
    weight, g = nn.Parameter(WEIGHT.clone().to(x)), torch.Generator().manual_seed(5)
    optimizer = torch.optim.SGD([*net.parameters(), weight], 0.2)
    for _ in range(3):
        optimizer.zero_grad()
        kept = torch.rand(E, generator=g) < 0.7
        loss = F.cross_entropy(net(edge_weight=weight, edges=kept), Y)
        loss.backward()
        assert not weight.grad[~kept].any()
        optimizer.step()
        yield loss
    yield from weight[::7]


def encoded(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """An encoder of edges outside of the net; the graph backward twice."""
    torch.manual_seed(8)
    encoder = nn.Linear(2, 2).to(x)
    optimizer = torch.optim.SGD([*net.parameters(), *encoder.parameters()], 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        out = net(x, edge_attr=torch.tanh(encoder(ATTR.to(x))))
        F.cross_entropy(out, Y).backward(retain_graph=True)
        net(x, edge_attr=ATTR.to(x).roll(1, 0)).pow(2).mean().backward()
        out.pow(2).mean().backward()
        optimizer.step()
        yield encoder.weight.grad.norm()
        yield net(x).norm()  # with the graph's features


def operator(net: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Graph kernel network, of Li et al. 2020: an operator from a coefficient to a solution on one mesh of
    points. Its kernel reads the coordinates and the coefficient of both ends of an edge; the loss is relative
    L2 of each sample."""
    g = torch.Generator().manual_seed(9)
    at, samples = torch.rand(V, 2, generator=g).to(x), torch.rand(3, V, 1, generator=g).to(x)
    optimizer = torch.optim.Adam(net.parameters(), 0.001, weight_decay=5e-4, eps=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.8)
    for _ in range(2):
        for sample in samples:
            optimizer.zero_grad()
            solution = (at.sum(1, keepdim=True) * sample).sin()
            kernel = torch.cat([at[ENDS[0]], at[ENDS[1]], sample[ENDS[0]], sample[ENDS[1]]], 1)
            out = net(torch.cat([at, sample, x[:, 3:]], 1), edge_attr=kernel)
            loss = (out - solution).norm() / solution.norm()
            loss.backward()
            optimizer.step()
            yield loss
        scheduler.step()


ALL = [
    *((operator, "kernel", mesh) for mesh in ("graph=3", "tensor=2", "graph=2,tensor=2", "partitions=3")),
    *((views, name, mesh) for name, mesh in zip(("gcn", "sage", "gat", "gated", "gcn", "sage"), MESHES)),
    *((bootstrapped, name, mesh) for name, mesh in zip(("gated", "gat", "gcn", "sage"), MESHES[1:5])),
    *((explained, "weighted", mesh) for mesh in MESHES),
    *((learned, "weighted", mesh) for mesh in MESHES[1:5]),
    *((encoded, "featured", mesh) for mesh in MESHES),
]


@pytest.mark.parametrize("loop, name, mesh", ALL, ids=lambda value: getattr(value, "__name__", value))
def test_as_pytorch(loop: Any, name: str, mesh: str) -> None:
    module = made(name, MODULES)
    exact = copy.deepcopy(module).double()
    graph = {explained: "plain", learned: "weights", encoded: "attributes"}.get(loop, "plain")
    own = {"weights": WEIGHT, "attributes": ATTR}.get(graph)
    theirs = [float(value.detach()) for value in loop(Whole(exact, own), X.double())]
    net = weft.compile(module, GRAPHS[graph], **settings(mesh))
    ours = [float(value.detach()) for value in loop(net, X)]
    assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    assert_alike(module, exact)


@pytest.mark.parametrize("mesh", ["graph=2", "tensor=2", "pipeline=2"])
def test_bfloat16(mesh: str) -> None:
    """Features of edges in bfloat16, of which self loops have a mean for each vertex."""
    module = made("featured", MODULES)
    exact, kept = copy.deepcopy(module).double(), torch.arange(E) % 3 > 0
    ours, theirs = ATTR.clone().requires_grad_(), ATTR.double().requires_grad_()
    out = weft.compile(module, GRAPHS["plain"], parallel=mesh, precision="bf16")(edge_attr=ours, edges=kept)
    expected = exact(X.double(), ENDS[:, kept], theirs[kept])
    out.pow(2).sum().backward(), expected.pow(2).sum().backward()
    for a, b in ((out, expected), (ours.grad, theirs.grad)):
        assert float((a - b).norm()) < 0.03 * float(b.norm())


@pytest.mark.parametrize("vertices", [1, 6])
def test_no_edges(vertices: int) -> None:
    """A graph may have no edges, and one vertex."""
    none, x = torch.zeros(2, 0, dtype=torch.long), X[:vertices]
    graph, kept = weft.Graph(edge_index=none, x=x), torch.zeros(0, dtype=torch.bool)
    gives = {
        "gcn": {},
        "weighted": {"edge_weight": torch.zeros(0)},
        "featured": {"edge_attr": torch.zeros(0, 2)},
    }
    for name, inputs in gives.items():
        module = made(name, MODULES)
        out = weft.compile(module, graph)(edges=kept, **inputs)
        assert torch.allclose(out, module(x, none, *inputs.values()), atol=1e-5)
        own = weft.compile(module, weft.Graph(edge_index=none, x=x, **inputs))()
        assert torch.equal(own, out), "the graph's own"


def test_planned_with_what_the_graph_lacks() -> None:
    """Features of edges that forward needs: how many there are is known after a call."""
    net = weft.compile(made("featured", MODULES), GRAPHS["plain"], parallel="graph=2")
    with pytest.raises(weft.Refused, match="edge_attr: .* call the net with them, and plan the net"):
        weft.plan(GRAPHS["plain"], model=net)
    net(edge_attr=ATTR).sum().backward()
    planned, took = weft.plan(GRAPHS["plain"], model=net), net.memory()
    for key in ("peak_tensor_bytes", "graph_bytes", "kinds", "peaks"):
        assert planned[key] == took[key], key


def test_orders() -> None:
    """Edges have the order of edge_index, of a matrix, and of a store; after other changes they are
    refused."""
    module = made("gcn", MODULES).eval()
    kept = torch.rand(E, generator=torch.Generator().manual_seed(1)) < 0.5
    with torch.no_grad():
        expected = module(X, ENDS[:, kept])
        pair = weft.Graph(edge_index=(ENDS[0].numpy(), ENDS[1].numpy()), x=X)
        matrix = sp.coo_matrix(([1.0] * E, (ENDS[0].numpy(), ENDS[1].numpy())), (V, V))
        for graph in (GRAPHS["plain"], pair, weft.Graph(adj=matrix, x=X)):
            assert torch.allclose(weft.compile(module, graph)(edges=kept), expected, atol=1e-5)
        sorted_ = kept[torch.argsort(ENDS[1] * V + ENDS[0], stable=True)]
        store = str(GRAPHS["plain"].store)
        assert torch.allclose(weft.compile(module, store)(edges=sorted_), expected, atol=1e-5)
        both = weft.Graph(edge_index=ENDS, x=X, symmetrize=True)
        edges = len(np.load(both.store / "indices.npy"))
        with pytest.raises(weft.Refused, match="its edges are not those of edge_index"):
            weft.compile(module, both)(edges=torch.ones(edges, dtype=torch.bool))


def test_samples_and_none() -> None:
    """Samples share the edges; a pass may have none, or all; one without a gradient keeps nothing."""
    module = made("gcn", MODULES)
    net = weft.compile(module, GRAPHS["plain"], parallel="graph=2")
    kept = torch.rand(E, generator=torch.Generator().manual_seed(1)) < 0.5
    out = net(torch.stack([X, 2 * X]), edges=kept, samples=True)
    assert torch.allclose(out[1], module(2 * X, ENDS[:, kept]), atol=1e-5)
    for none in (torch.zeros(E, dtype=torch.bool), torch.ones(E, dtype=torch.bool)):
        assert torch.allclose(net(edges=none), module(X, ENDS[:, none]), atol=1e-5)


def test_usage_of_given_edges() -> None:
    """Memory and messages are those of the passes that calls gave what the graph lacks."""
    net = weft.compile(made("weighted", MODULES), GRAPHS["plain"], parallel="graph=2")
    net(edge_weight=torch.rand(E, requires_grad=True)).sum().backward()
    assert min(net.memory()["peak_tensor_bytes"]) > 0 and min(net.messages()["sent_bytes"]) > 0


class Normed(nn.Module):  # type: ignore[misc]
    """A norm of all vertices, or of each, and two outputs."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.first, self.norm, self.last = SAGEConv(WIDTH, 8), norm, GCNConv(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.norm(self.first(x, edge_index)))
        return self.last(h, edge_index), h


@pytest.mark.parametrize("mesh", MESHES)
def test_rows(mesh: str) -> None:
    """Rows that are asked for are those of all rows: in an inference, in training, with gradients and in a
    batch."""
    torch.manual_seed(1)
    index = torch.cat([torch.randint(-V, V, (20,)), torch.tensor([V - 1, 3, 3])])
    for norm in (nn.BatchNorm1d(8), GraphNorm(8)):
        module = Normed(norm)
        net = weft.compile(module, GRAPHS["plain"], **settings(mesh))
        net(X + 1)  # which moves the running statistics
        exact = copy.deepcopy(module).double()
        for mode in (True, False):
            net.train(mode), exact.train(mode)
            for rows in (index, torch.arange(V) % 5 == 0, torch.tensor([], dtype=torch.long)):
                net.zero_grad(), exact.zero_grad()
                pairs = ((net(rows=rows), net), ([made[rows] for made in exact(X.double(), ENDS)], exact))
                for (logits, hidden), _ in pairs:
                    (logits.pow(2).sum() + hidden.sin().sum()).backward()
                for ours, theirs in zip(pairs[0][0], pairs[1][0]):
                    assert torch.allclose(ours.double(), theirs, atol=1e-5)
                for p, q in zip(net.parameters(), exact.parameters()):
                    assert torch.allclose(p.grad.double(), q.grad, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            for rows in (index, index[:1], index[:0]):
                for ours, theirs in zip(net(rows=rows), exact(X.double(), ENDS)):
                    assert torch.allclose(ours.double(), theirs[rows], atol=1e-5)
    kept = torch.arange(E) % 3 > 0
    with torch.no_grad():
        assert torch.allclose(
            net(rows=index, edges=kept)[0], exact(X.double(), ENDS[:, kept])[0][index].float(), atol=1e-5
        )
        assert torch.allclose(
            net(2 * X, rows=index)[0], exact(2 * X.double(), ENDS)[0][index].float(), atol=1e-5
        )


@pytest.mark.parametrize(
    "name, graph", [("weighted", "plain"), ("featured", "plain"), ("featured", "attributes")]
)
def test_planned(name: str, graph: str) -> None:
    """The memory of passes with edges of their own, and with what is given of edges, is planned to the byte;
    the limit that a plan needs is room for them, and less is none."""
    argument = "edge_weight" if name == "weighted" else "edge_attr"
    rows = WEIGHT if name == "weighted" else ATTR

    def step(net: Any) -> None:
        inputs = {argument: rows.clone().requires_grad_(), "edges": torch.ones(E, dtype=torch.bool)}
        a, b = (net(X, **inputs) for _ in range(2))
        (a.sum() + b.pow(2).sum()).backward()

    module, mesh = made(name, MODULES), {"parallel": "graph=2", "recompute": "none"}
    net = weft.compile(module, GRAPHS[graph], **mesh)
    step(net)  # which says how many features the edges have
    planned = weft.plan(GRAPHS[graph], model=net, passes=2, inputs=["x", "edges"], gradients=argument)
    step(net)
    took = net.memory()
    for key in ("peak_tensor_bytes", "graph_bytes"):
        assert planned[key] == took[key], key
    one = weft.plan(GRAPHS[graph], model=net, inputs=["x", "edges"], gradients=argument)
    assert one["shared_bytes"] < planned["shared_bytes"]
    needs = max(map(sum, zip(planned["peak_tensor_bytes"], planned["graph_bytes"])))
    step(weft.compile(module, GRAPHS[graph], memory_limit=f"{needs}B", **mesh))
    small = weft.compile(module, GRAPHS[graph], memory_limit=f"{needs - 1}B", **mesh)
    with pytest.raises(weft.Refused, match="would need .* while 1 pass lives"):
        step(small)


def test_not_planned() -> None:
    plain = weft.compile(made("gcn", MODULES), GRAPHS["plain"])
    for asked, why in (
        ({"inputs": "y"}, "inputs: 'y' is none: there are x, edges, edge_weight, edge_attr"),
        ({"gradients": ["x", "edges"]}, "gradients: 'edges' is none: there are x, edge_weight, edge_attr"),
        ({"inputs": "edge_weight"}, "edge_weight: forward does not read it: leave it out"),
        ({"inputs": "edge_attr"}, "edge_attr: the graph has none: call the net with them, and plan the net"),
        ({"passes": 0}, "passes: 0 is no number"),
    ):
        with pytest.raises(weft.Refused, match=why):
            weft.plan(GRAPHS["plain"], model=plain, **asked)  # type: ignore[arg-type]


def test_refused() -> None:
    plain = weft.compile(made("gcn", MODULES), GRAPHS["plain"])
    weighted = weft.compile(made("weighted", MODULES), GRAPHS["weights"])
    featured = weft.compile(
        made("featured", MODULES), GRAPHS["plain"]
    )  # which calls give the features of edges
    attributes = weft.compile(made("featured", MODULES), GRAPHS["attributes"])
    for net, inputs, why in (
        (plain, {"edges": torch.ones(E)}, f"edges: is torch.float32 .{E},.: give a tensor of {E} booleans"),
        (
            plain,
            {"edges": torch.ones(E - 1, dtype=torch.bool)},
            f"edges: is torch.bool .{E - 1},.: give a tensor of {E} booleans",
        ),
        (plain, {"edges": [True] * E}, f"edges: is list: give a tensor of {E} booleans, one for each edge"),
        (plain, {"edges": {("a", "b", "c"): torch.ones(E, dtype=torch.bool)}}, "edges: there is no relation"),
        (plain, {"edge_weight": torch.ones(E)}, "edge_weight: forward does not read it: leave it out"),
        (plain, {"edge_attr": torch.ones(E, 2)}, "edge_attr: forward does not read it: leave it out"),
        (
            weighted,
            {"edge_weight": torch.ones(E, 1)},
            f"edge_weight: is torch.float32 .{E}, 1.: give a tensor of {E} floats",
        ),
        (weighted, {"edge_weight": torch.ones(E, dtype=torch.long)}, "edge_weight: is torch.int64"),
        (featured, {}, "forward takes edge_attr, which the graph lacks: give edge_attr"),
        (
            plain,
            {"rows": torch.ones(3)},
            f"rows: is torch.float32 .3,.: give a tensor of vertex ids, or of {V} booleans",
        ),
        (
            plain,
            {"rows": torch.ones(3, dtype=torch.bool)},
            f"rows: is torch.bool .3,.: give a tensor of {V} booleans",
        ),
        (plain, {"rows": torch.tensor([0, V])}, f"rows: are from 0 to {V}, and vertex ids from 0 to {V - 1}"),
        (
            plain,
            {"rows": torch.ones(V, dtype=torch.uint8)},
            f"rows: is torch.uint8 .{V},., a mask or ids: give a mask as .bool",
        ),
        (
            plain,
            {"rows": torch.tensor([0, 1], dtype=torch.uint8)},
            "give a mask as .bool.., and ids as .long..$",
        ),
        (
            plain,
            {"rows": torch.ones(V, dtype=torch.int8)},
            f"rows: is torch.int8 .{V},., a mask or ids: give a mask as .bool",
        ),
        (
            plain,
            {"rows": torch.tensor([0, 1], dtype=torch.int16)},
            "rows: is torch.int16 .2,., a mask or ids: give a mask",
        ),
        (
            plain,
            {"edges": torch.ones(E, dtype=torch.uint8)},
            f"edges: is torch.uint8 .{E},.: give a tensor of {E} booleans",
        ),
        (plain, {"rows": 3}, "rows: is int: give a tensor of vertex ids"),
        (attributes, {"edge_attr": torch.ones(E, 3)}, f"give floats of {E} edges × 2 features"),
    ):
        with pytest.raises(weft.Refused, match=why):
            net(**inputs)  # type: ignore[arg-type]
    for kind in (torch.uint8, torch.bool):
        with pytest.raises(
            weft.Refused, match=f"rows: vertices are {kind} .{V},.: give a list of vertex ids"
        ):
            plain.rows(plain().detach(), torch.ones(V, dtype=kind))
    assert torch.allclose(plain(X, ENDS), plain(), atol=1e-6)  # another graph, of the same edges
    with pytest.raises(TypeError, match="too many positional arguments"):
        plain(X, ENDS, ATTR)
    assert featured(edge_attr=torch.ones(E, 2)).shape == (V, CLASSES)
