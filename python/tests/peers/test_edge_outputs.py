"""Modules whose forward returns rows of edges: the outputs of a compiled module and their gradients beside
PyTorch in float64, on every mesh."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv

import weft

V, E, FEATURES, OF_EDGES, WIDTH = 60, 400, 5, 3, 8

torch.manual_seed(8)
ENDS = torch.randint(0, V - 2, (2, E))  # directed; the last vertices have no edges
ENDS[:, 5:9] = ENDS[:, :4]  # which stand there twice
ENDS[0, 20:32] = ENDS[1, 20:32]  # self loops
ENDS[:, 32:34] = ENDS[:, 30:32]  # of which two twice
X, ATTR = torch.randn(V, FEATURES), torch.randn(E, OF_EDGES)
GRAPH = weft.Graph(edge_index=ENDS, x=X, edge_attr=ATTR)
MESHES = ("graph=1", "graph=2", "tensor=2", "graph=2,tensor=2", "partitions=2", "offload")


def settings(mesh: str) -> dict[str, Any]:
    if mesh == "offload":
        return {"partitions": 2, "offload": True}
    name, _, count = mesh.partition("=")
    return {name: count} if name == "partitions" else {"parallel": mesh}


def mlp(inputs: int, outputs: int = WIDTH) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.SiLU(), nn.Linear(WIDTH, outputs))


def summed(rows: Tensor, index: Tensor, vertices: int) -> Tensor:
    return rows.new_zeros(vertices, rows.shape[1]).index_add_(0, index, rows)


class Latents(nn.Module):  # type: ignore[misc]
    """MeshGraphNet (Pfaff et al. 2021, equation 2), with what it knows of edges."""

    def __init__(self, end: str = "target") -> None:
        super().__init__()
        self.at = int(end == "target")
        self.encode, self.encode_edges = mlp(FEATURES), mlp(OF_EDGES)
        self.edge, self.vertex = (nn.ModuleList(mlp(n * WIDTH) for _ in range(3)) for n in (3, 2))
        self.decode, self.decode_edges = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Any:
        h, e = self.encode(x), self.encode_edges(edge_attr)
        states = {}
        for k, (edge, vertex) in enumerate(zip(self.edge, self.vertex)):
            e = e + edge(torch.cat([e, h[edge_index[0]], h[edge_index[1]]], 1))
            h = h + vertex(torch.cat([h, summed(e, edge_index[self.at], h.size(0))], 1))
            states[f"state {k}"] = e
        return self.decode(h), {"edges": self.decode_edges(e), **states}


class Scores(nn.Module):  # type: ignore[misc]
    """A score of each edge, and nothing of vertices, as of a decoder of links."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = GCNConv(FEATURES, WIDTH), GCNConv(WIDTH, WIDTH)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.last(F.relu(self.first(x, edge_index)), edge_index)
        return (h[edge_index[0]] * h[edge_index[1]]).sum(1)


class Several(nn.Module):  # type: ignore[misc]
    """Outputs of edges, of vertices and of the graph, of several dimensions; edges' features, and ends, as
    they are."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.update = nn.Linear(FEATURES, 6), nn.Linear(2 * 6 + OF_EDGES, 6)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Any:
        h = torch.tanh(self.first(x))
        e = torch.tanh(self.update(torch.cat([h[edge_index[0]], h[edge_index[1]], edge_attr], 1)))
        h = summed(e, edge_index[1], x.size(0))
        return e.view(-1, 2, 3), h.mean(0), edge_attr, h[edge_index[0]], h, F.dropout(e, 0.0, self.training)


class Gated(nn.Module):  # type: ignore[misc]
    """GatedGCN with batch norms over edges (Dwivedi et al. 2023, equations 9 to 12), with the edges' last
    state."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.encode_edges = nn.Linear(FEATURES, WIDTH), nn.Linear(OF_EDGES, WIDTH)
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(5)) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Any:
        h, e, (source, target) = self.encode(x), self.encode_edges(edge_attr), edge_index
        for (a, b, c, u, v), norm in zip(self.layers, self.norms):
            e = e + F.relu(norm(a(h)[target] + b(h)[source] + c(e)))
            gate = torch.sigmoid(e)
            mean = summed(gate * v(h)[source], target, x.size(0)) / (summed(gate, target, x.size(0)) + 1e-6)
            h = h + F.relu(u(h) + mean)
        return h, e


class Attention(nn.Module):  # type: ignore[misc]
    """The coefficients of attention beside what they weigh."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GATConv(FEATURES, 4, heads=2, add_self_loops=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        z, (_, coefficients) = self.conv(x, edge_index, return_attention_weights=True)
        return {"z": z, "coefficients": coefficients}


MODULES = {
    "latents": Latents,
    "scores": Scores,
    "several": Several,
    "gated": Gated,
    "attention": Attention,
}


def flat(made: Any) -> list[Tensor]:
    return torch.utils._pytree.tree_leaves(made)  # type: ignore[no-any-return]


def loss_of(made: Any) -> Tensor:
    """A loss in which each number has another weight."""
    return sum(
        (tensor * torch.cos(torch.arange(tensor.numel()).view(tensor.shape))).sum() for tensor in flat(made)
    )


def assert_near(ours: Any, theirs: Any) -> None:
    """Each is to 1e-5 of its norm, or of a tenth of the largest: a bias before a batch norm has a gradient of
    0."""
    least = max(float(tensor.norm()) for tensor in flat(theirs)) / 10
    for tensor, exact in zip(flat(ours), flat(theirs), strict=True):
        assert tensor.shape == exact.shape and tensor.dtype == torch.float32
        assert float((tensor.double() - exact).norm()) <= 1e-5 * max(least, float(exact.norm()))


def takes_attr(module: nn.Module) -> bool:
    return (
        "edge_attr" in type(module).forward.__code__.co_varnames[: type(module).forward.__code__.co_argcount]
    )


STAGES = [
    (mesh, name) for mesh in ("pipeline=2", "graph=2,pipeline=2") for name in ("latents", "scores", "gated")
]


@pytest.mark.parametrize(("mesh", "name"), [(mesh, name) for mesh in MESHES for name in MODULES] + STAGES)
def test_as_pytorch(name: str, mesh: str) -> None:
    torch.manual_seed(2)
    module = MODULES[name]()
    exact = copy.deepcopy(module).double()
    net = weft.compile(module, GRAPH, **settings(mesh))
    for kept in (None, torch.rand(E) > 0.3):
        kinds = (torch.float32, torch.float64)
        ours, theirs = ({"x": X.clone().to(dtype), "edge_attr": ATTR.clone().to(dtype)} for dtype in kinds)
        for inputs in (ours, theirs):
            if not takes_attr(module):
                del inputs["edge_attr"]
            for tensor in inputs.values():
                tensor.requires_grad_()
        if kept is None:
            want = exact(edge_index=ENDS, **theirs)
            made = net(**ours)
        else:
            some = {key: tensor[kept] if key == "edge_attr" else tensor for key, tensor in theirs.items()}
            want = exact(edge_index=ENDS[:, kept], **some)
            made = net(edges=kept, **ours)
        assert_near(made, want)
        for loss in (loss_of(made), loss_of(want)):
            loss.backward()
        assert_near([tensor.grad for tensor in ours.values()], [tensor.grad for tensor in theirs.values()])
        assert_near([p.grad for p in module.parameters()], [p.grad for p in exact.parameters()])
        module.zero_grad()
        exact.zero_grad()


class Typed(nn.Module):  # type: ignore[misc]
    """Messages along two relations, whose last states are returned as a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.ModuleDict({kind: nn.Linear(FEATURES, WIDTH) for kind in ("a", "b")})
        self.edge = nn.ModuleDict({name: nn.Linear(3 * WIDTH, WIDTH) for name in ("up", "back")})
        self.features = nn.Linear(OF_EDGES, WIDTH)

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_attr_dict: Any) -> Any:
        h = {kind: torch.tanh(self.lift[kind](x)) for kind, x in x_dict.items()}
        e = {key: self.features(features) for key, features in edge_attr_dict.items()}
        for _ in range(2):
            into = {kind: torch.zeros_like(rows) for kind, rows in h.items()}
            for (source, name, target), ends in edge_index_dict.items():
                both = [e[source, name, target], h[source][ends[0]], h[target][ends[1]]]
                e[source, name, target] = torch.tanh(self.edge[name](torch.cat(both, 1)))
                into[target] = into[target].index_add(0, ends[1], e[source, name, target])
            h = {kind: h[kind] + rows for kind, rows in into.items()}
        return {"edges": e, "vertices": h["b"]}


TO, BACK = ("a", "up", "b"), ("b", "back", "a")
ENDS_OF = {TO: torch.stack([torch.randint(0, 40, (300,)), torch.randint(0, 25, (300,))])}
ENDS_OF[BACK] = ENDS_OF[TO].flip(0)[:, torch.randperm(300)[:120]]
X_OF = {"a": torch.randn(41, FEATURES), "b": torch.randn(26, FEATURES)}
ATTR_OF = {key: torch.randn(ends.shape[1], OF_EDGES) for key, ends in ENDS_OF.items()}
TYPED = weft.Graph(ENDS_OF, X_OF, edge_attr=ATTR_OF)


@pytest.mark.parametrize("mesh", [*MESHES, "pipeline=2"])
def test_relations(mesh: str) -> None:
    torch.manual_seed(2)
    module = Typed()
    exact = copy.deepcopy(module).double()
    net = weft.compile(module, TYPED, **settings(mesh))
    kept = torch.rand(300) > 0.5

    def copied(tensors: dict[Any, Tensor], dtype: torch.dtype) -> dict[Any, Tensor]:
        return {key: x.clone().to(dtype).requires_grad_() for key, x in tensors.items()}

    kinds = (torch.float32, torch.float64)
    ours, theirs = ({"x": copied(X_OF, dtype), "e": copied(ATTR_OF, dtype)} for dtype in kinds)
    made = net(ours["x"], edges={TO: kept}, edge_attr=ours["e"])
    attr = {key: tensor[kept] if key == TO else tensor for key, tensor in theirs["e"].items()}
    want = exact(
        theirs["x"], {key: ends[:, kept] if key == TO else ends for key, ends in ENDS_OF.items()}, attr
    )
    assert set(made["edges"]) == {TO, BACK}
    assert_near(made, want)
    for loss in (loss_of(made), loss_of(want)):
        loss.backward()
    for name in ("x", "e"):
        assert_near(
            [tensor.grad for tensor in ours[name].values()], [tensor.grad for tensor in theirs[name].values()]
        )
    assert_near([p.grad for p in module.parameters()], [p.grad for p in exact.parameters()])


@pytest.mark.parametrize("mesh", ["graph=2", "tensor=2", "pipeline=2"])
def test_aggregated_at_sources(mesh: str) -> None:
    """States of edges that are summed at the edges' sources are returned, too."""
    torch.manual_seed(2)

    class Reversed(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lift = nn.Linear(FEATURES, WIDTH)
            self.edge = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(2))
            self.decode = nn.Linear(WIDTH, 2)

        def forward(self, x: Tensor, edge_index: Tensor) -> Any:
            h = self.lift(x)
            e = h[edge_index[0]] - h[edge_index[1]]
            for edge in self.edge:
                e = torch.tanh(edge(torch.cat([e, h[edge_index[1]]], 1)))
                h = h + summed(e, edge_index[0], x.size(0))
            return h, self.decode(e)

    module = Reversed()
    exact = copy.deepcopy(module).double()
    net = weft.compile(module, GRAPH, parallel=mesh)
    made, want = net(), exact(X.double(), ENDS)
    assert_near(made, want)
    for loss in (loss_of(made), loss_of(want)):
        loss.backward()
    assert_near([p.grad for p in module.parameters()], [p.grad for p in exact.parameters()])


def test_rows_and_samples() -> None:
    """rows choose among vertices alone; samples are stacked; the store's order is that of a graph without
    another."""
    torch.manual_seed(2)
    net = weft.compile(Latents(), GRAPH, parallel="graph=2").eval()
    with torch.no_grad():
        vertices, edges = net()
        some, same = net(rows=torch.tensor([7, 3]))
        assert torch.equal(some, vertices[[7, 3]]) and torch.equal(same["edges"], edges["edges"])
        both, of_both = net(torch.stack([X, -X]), samples=True)
        assert both.shape == (2, V, 2) and torch.allclose(of_both["edges"][0], edges["edges"], atol=1e-6)
        order = GRAPH.edge_order()
        of_file = weft.compile(net.module, GRAPH.store, parallel="graph=2").eval()()[1]["edges"]
        assert torch.equal(of_file, edges["edges"][torch.from_numpy(order)])
    scores = weft.compile(Scores(), GRAPH)
    with pytest.raises(weft.Refused, match=r"^rows: forward returns no rows of vertices: leave it out$"):
        scores(rows=torch.tensor([1]))


def test_planned() -> None:
    """The plan of a loop is its memory, on a mesh whose workers have other edges."""
    torch.manual_seed(2)
    net = weft.compile(Latents(), GRAPH, parallel="graph=2")
    planned = weft.plan(GRAPH, model=net, passes=1, gradients=["x", "edge_attr"])
    for _ in range(2):
        loss_of(net(X.clone().requires_grad_(), edge_attr=ATTR.clone().requires_grad_())).backward()
    assert net.memory()["peak_tensor_bytes"] == planned["peak_tensor_bytes"]


class WithLoops(Scores):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        from torch_geometric.utils import add_self_loops

        ends, _ = add_self_loops(edge_index, num_nodes=x.size(0))
        h = self.first(x, edge_index)
        return h[ends[0]] * h[ends[1]]


@pytest.mark.parametrize("refused", ["loops", "train"])
def test_refuses(refused: str) -> None:
    words = {
        "loops": "edges with loops that it has added: return a row for each vertex or each edge",
        "train": "something else than one tensor of vertices × classes",
    }
    with pytest.raises(weft.Refused, match=words[refused]) as why:
        if refused == "train":
            labelled = weft.Graph(edge_index=ENDS, x=X, y=torch.zeros(V, dtype=torch.long))
            weft.train(labelled, model=Scores(), epochs=1)
        else:
            weft.compile(WithLoops(), GRAPH)
    assert "\n" not in str(why.value)
