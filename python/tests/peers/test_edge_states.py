"""Modules with states on edges, which pass through layers: they train as in PyTorch in float64, on every
mesh."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import weft

V, E, FEATURES, OF_EDGES, CLASSES, WIDTH, EPOCHS = 120, 700, 6, 3, 4, 8, 5


def mlp(inputs):
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH))


def summed(rows, index, vertices):
    return rows.new_zeros(vertices, rows.shape[1]).index_add_(0, index, rows)


class Processor(nn.Module):
    """A block of MeshGraphNet (Pfaff et al. 2021, equation 2)."""

    features = True

    def __init__(self):
        super().__init__()
        self.edge, self.vertex = mlp(3 * WIDTH), mlp(2 * WIDTH)

    def forward(self, h, e, ends):
        e = e + self.edge(torch.cat([e, h[ends[0]], h[ends[1]]], 1))
        return h + self.vertex(torch.cat([h, summed(e, ends[1], h.size(0))], 1)), e


class Gated(nn.Module):
    """A layer of GatedGCN, with batch norms over vertices and edges (Dwivedi et al. 2023, equations 9 to
    12)."""

    features = True

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.u, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(5))
        self.of_vertices, self.of_edges = nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH)

    def forward(self, h, e, ends):
        source, target = ends
        e = e + F.relu(self.of_edges(self.a(h)[target] + self.b(h)[source] + self.c(e)))
        gate = torch.sigmoid(e)
        mean = summed(gate * self.v(h)[source], target, h.size(0)) / (summed(gate, target, h.size(0)) + 1e-6)
        return h + F.relu(self.of_vertices(self.u(h) + mean)), e


class BothEnds(Processor):
    """Rows of edges that are summed at their sources, too, which are therefore not kept."""

    features = False  # which are aggregated at targets alone

    def forward(self, h, e, ends):
        h, e = super().forward(h, e, ends)
        return h + torch.tanh(summed(e, ends[0], h.size(0))), e


class Net(nn.Module):
    def __init__(self, block, blocks=2):
        super().__init__()
        self.vertex, self.edge, self.out = mlp(FEATURES), mlp(OF_EDGES), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList(block() for _ in range(blocks))

    def forward(self, x, edge_index, edge_attr):
        h, e = (
            self.vertex(x),
            self.edge(edge_attr if self.blocks[0].features else x[edge_index[0], :OF_EDGES]),
        )
        for block in self.blocks:
            h, e = block(h, e, edge_index)
        return self.out(h)


@pytest.fixture(scope="module")
def arrays():
    torch.manual_seed(7)
    return {
        "edge_index": torch.randint(V - 4, (2, E)),
        "x": torch.randn(V, FEATURES),
        "y": torch.randint(CLASSES, (V,)),
        "edge_attr": torch.randn(E, OF_EDGES),
        "train_mask": torch.rand(V) < 0.6,
    }


def losses_of(module, arrays):
    """The losses of PyTorch in float64, which trains the module."""
    x, attr, train = arrays["x"].double(), arrays["edge_attr"].double(), arrays["train_mask"]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x, arrays["edge_index"], attr)[train], arrays["y"][train])
        loss.backward()
        optimizer.step()
        yield loss.item()


@pytest.mark.parametrize(
    ("block", "meshes"),
    [
        (Processor, ["graph=3", "graph=2,tensor=2", "pipeline=2"]),
        (Gated, ["graph=2", "tensor=3", "tensor=2,pipeline=2"]),
        (BothEnds, ["graph=2"]),
    ],
)
def test_states(block, meshes, arrays, tmp_path):
    torch.manual_seed(1)
    module = Net(block)
    exact = copy.deepcopy(module).double()
    losses = list(losses_of(exact, arrays))
    for mesh in meshes:
        run = weft.train(
            weft.Graph(**arrays),
            model=copy.deepcopy(module),
            parallel=mesh,
            epochs=EPOCHS,
            optimizer="sgd",
            lr=0.05,
            progress=False,
            out=tmp_path / mesh,
            **({"chunks": 1} if "pipeline" in mesh else {}),
        )
        assert run.history["loss"] == pytest.approx(losses, rel=1e-5), mesh
        state = run.module().state_dict()
        for name, value in exact.state_dict().items():  # running statistics, too
            torch.testing.assert_close(
                state[name].double(),
                value.double(),
                rtol=1e-5,
                atol=1e-5,
                msg=lambda text, at=f"{mesh} {name}": f"{at}: {text}",
            )


@pytest.mark.parametrize(("block", "every"), [(Processor, 2), (Processor, "none"), (Gated, "none")])
def test_states_computed_again(block, every, arrays, tmp_path):
    """Layers compute states of edges again that are not kept: in training, and in a compiled net. What a
    batch norm of edges reads is kept all the same."""
    torch.manual_seed(1)
    module, graph = Net(block, 4), weft.Graph(**arrays)
    exact = copy.deepcopy(module).double()
    losses = list(losses_of(copy.deepcopy(exact), arrays))
    settings = {"parallel": "graph=2", "keep_edge_states": every}
    run = weft.train(
        graph,
        model=copy.deepcopy(module),
        epochs=EPOCHS,
        optimizer="sgd",
        lr=0.05,
        progress=False,
        out=tmp_path / "run",
        **settings,
    )
    assert run.history["loss"] == pytest.approx(losses, rel=1e-6 if block is Processor else 1e-5)
    if block is Gated:
        return
    net = weft.compile(copy.deepcopy(module), graph, **settings)
    x = arrays["x"].clone().requires_grad_()
    want = arrays["x"].double().requires_grad_()
    net(x).square().sum().backward()
    exact(want, arrays["edge_index"], arrays["edge_attr"].double()).square().sum().backward()
    torch.testing.assert_close(x.grad.double(), want.grad, rtol=1e-5, atol=1e-5)
    planned = weft.plan(graph, model=module, passes=1, **settings)
    assert planned["keep_edge_states"] == str(every)


class OfEdges(Net):
    def forward(self, x, edge_index, edge_attr):
        return self.blocks[0](self.vertex(x), self.edge(edge_attr), edge_index)[1]


def test_rows_of_edges_are_no_output_of_train(arrays):
    graph = weft.Graph(**arrays)
    with pytest.raises(
        weft.Refused, match="^model: forward returns something else than one tensor of vertices"
    ):
        weft.train(graph, model=OfEdges(Processor), epochs=1, progress=False)


def test_states_on_disk(arrays, tmp_path):
    """Rows of edges rest like other matrices, and recomputation changes no bit."""
    torch.manual_seed(1)
    module, graph = Net(Processor), weft.Graph(**arrays)
    settings = {"epochs": 3, "progress": False}
    whole = weft.train(
        graph, model=copy.deepcopy(module), parallel="graph=3", out=tmp_path / "whole", **settings
    )
    turns = weft.train(
        graph,
        model=copy.deepcopy(module),
        partitions=3,
        offload=tmp_path / "disk",
        memory_limit="3600kB",
        out=tmp_path / "turns",
        **settings,
    )
    again = weft.train(
        graph,
        model=copy.deepcopy(module),
        parallel="graph=3",
        recompute="blocks",
        out=tmp_path / "again",
        **settings,
    )
    assert whole.logits.tobytes() == turns.logits.tobytes() == again.logits.tobytes()
