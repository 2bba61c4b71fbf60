"""Modules on sparse features: these stay sparse, and the modules train as in PyTorch in float64, on every
mesh."""

import copy

import pytest
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GCNConv, GINConv, SAGEConv, SGConv, TAGConv

import weft

V, E, WORDS, CLASSES, WIDTH, EPOCHS = 800, 2500, 1500, 4, 8, 3
DENSE = 4 * V * WORDS  # bytes of the features' dense form


class Convolutions(nn.Module):
    """Two convolutions."""

    def __init__(self, conv):
        super().__init__()
        self.convs = nn.ModuleList([conv(WORDS, WIDTH), conv(WIDTH, CLASSES)])

    def forward(self, x, edge_index):
        first, second = self.convs
        return second(F.relu(first(x, edge_index)), edge_index)


def means(x, edge_index):
    ones = x.new_ones(edge_index.size(1), 1)
    degrees = x.new_zeros(x.size(0), 1).index_add(0, edge_index[1], ones).clamp(min=1)
    return torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]]) / degrees


class Again(nn.Module):
    """Both layers read the features, the first beside their neighbours' means."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2 * WORDS, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.skip = nn.Linear(WORDS, CLASSES)

    def forward(self, x, edge_index):
        h = torch.tanh(self.first(torch.cat([x, means(x, edge_index)], 1)))
        return self.second(means(h, edge_index)) + self.skip(x)


class Normed(nn.Module):
    """A norm of the features, which needs their dense form."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv, self.skip = nn.LayerNorm(WORDS), SAGEConv(WORDS, WIDTH), nn.Linear(WORDS, WIDTH)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edge_index):
        return self.last(F.relu(self.conv(self.norm(x), edge_index) + self.skip(x)))


MODULES = {
    "GCN": lambda: Convolutions(GCNConv),
    "SAGE": lambda: Convolutions(SAGEConv),
    "GIN": lambda: Convolutions(
        lambda inputs, outputs: GINConv(
            nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs)),
            eps=0.25,
            train_eps=True,
        )
    ),
    "SGC": lambda: SGConv(WORDS, CLASSES, K=2),
    "TAG": lambda: Convolutions(lambda a, b: TAGConv(a, b, K=3)),
    "read again": Again,
    "norm": Normed,
}


@pytest.fixture(scope="module")
def arrays():
    torch.manual_seed(7)
    x = torch.rand(V, WORDS) * (torch.rand(V, WORDS) < 0.01)
    return {
        "edge_index": torch.randint(V - 4, (2, E)),
        "x": scipy.sparse.csr_matrix(x.numpy()),
        "y": torch.randint(CLASSES, (V,)),
        "train_mask": torch.rand(V) < 0.6,
    }


def exactly(module, arrays):
    """The losses of PyTorch in float64, which trains the module."""
    x, train = torch.from_numpy(arrays["x"].toarray()).double(), arrays["train_mask"]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x, arrays["edge_index"])[train], arrays["y"][train])
        loss.backward()
        optimizer.step()
        yield loss.item()


def trained(arrays, model, out, **settings):
    return weft.train(
        weft.Graph(**arrays),
        model=model,
        optimizer="sgd",
        lr=0.1,
        epochs=EPOCHS,
        out=out,
        progress=False,
        **settings,
    )


MESHES = [{"parallel": "graph=2"}, {"parallel": "tensor=2"}, {"parallel": "pipeline=2", "chunks": 1}]


@pytest.mark.parametrize("name", MODULES)
def test_exact(name, arrays, tmp_path):
    torch.manual_seed(1)
    module = MODULES[name]()
    exact = copy.deepcopy(module).double()
    losses = list(exactly(exact, arrays))
    meshes = MESHES if name in ("GCN", "read again") else MESHES[:1]
    for number, settings in enumerate(
        [*meshes, {"partitions": 2, "offload": tmp_path / "disk", "threads": 1}]
    ):
        run = trained(arrays, copy.deepcopy(module), tmp_path / str(number), **settings)
        assert run.history["loss"] == pytest.approx(losses, rel=1e-5), settings
        state = run.module().state_dict()
        for key, value in exact.state_dict().items():
            torch.testing.assert_close(state[key].double(), value, rtol=1e-4, atol=1e-6)
        if name != "norm":
            assert max(run.summary["peak_tensor_bytes"]) < DENSE, settings


@pytest.mark.parametrize(("name", "model"), [("GCN", "gcn"), ("SAGE", "sage")])
def test_bits(name, model, arrays, tmp_path):
    """A module has the bits of the model that weft knows by name."""
    settings = {"layers": 2, "hidden": WIDTH, "dropout": 0}
    start = trained(arrays, model, tmp_path / "start", **settings)
    module = MODULES[name]()
    module.load_state_dict({key: torch.from_numpy(value) for key, value in start.state_dict().items()})
    own = trained(arrays, module, tmp_path / "own")
    named = trained(
        arrays, model, tmp_path / "named", init=tmp_path / "start" / "model.safetensors", **settings
    )
    assert own.history["loss"].tolist() == named.history["loss"].tolist()
    assert own.logits.tobytes() == named.logits.tobytes()


def test_compiled(arrays):
    """A loop of one's own reads the features of the graph, and those of an argument, which are dense."""
    torch.manual_seed(1)
    module, graph = MODULES["GCN"](), weft.Graph(**arrays)
    exact, x = copy.deepcopy(module).double(), torch.from_numpy(arrays["x"].toarray())
    net = weft.compile(module, graph)
    for inputs in ((), (x,)):
        net.zero_grad()
        exact.zero_grad()
        out, want = net(*inputs), exact(x.double(), arrays["edge_index"])
        torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-6)
        out.square().sum().backward()
        want.square().sum().backward()
        for ours, theirs in zip(module.parameters(), exact.parameters(), strict=True):
            torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["GCN", "norm"])
def test_explains(name, arrays):
    """A line names the operation that needs the dense form."""
    text = weft.show_plan(weft.Graph(**arrays), model=MODULES[name]())
    assert ("features: are sparse, and dense for layer_norm of norm (test_sparse.py:" in text) == (
        name == "norm"
    )
    assert text.count("are sparse") == (name == "norm")
