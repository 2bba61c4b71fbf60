"""Modules of PyTorch as models: they train as in PyTorch, and come back with their weights."""

import copy
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import EGConv, GCNConv, GraphConv, MessagePassing

import weft
from weft._copies import copied

V, FEATURES, CLASSES = 90, 6, 3
BRIEF = {"epochs": 6, "optimizer": "sgd", "lr": 0.05, "progress": False, "checkpoint_every": 0}


class Largest(MessagePassing):
    """The largest of tanh(W·(x_j − x_i) + U·e)."""

    def __init__(self, width, out, edge):
        super().__init__(aggr="max")
        self.lin, self.edge = nn.Linear(width, out), nn.Linear(edge, out, bias=False)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=x, edge_attr=edge_attr)

    def message(self, x_i, x_j, edge_attr):
        return torch.tanh(self.lin(x_j - x_i) + self.edge(edge_attr))


class Net(nn.Module):
    """A convolution of one's own, a layer that is called twice under two names, and what no operation
    reads."""

    def __init__(self, width=8):
        super().__init__()
        self.into, self.out = Largest(FEATURES, width, 2), nn.Linear(width, CLASSES)
        self.convs = nn.ModuleList([GCNConv(width, width)] * 2)
        self.norm = nn.BatchNorm1d(width)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("steps", torch.tensor([3, 4]))
        self.register_buffer("mask", torch.tensor([True, False]))

    def forward(self, x, edge_index, edge_attr=None):
        h = self.norm(self.into(x, edge_index, edge_attr))
        for conv in self.convs:
            h = h + F.relu(conv(h, edge_index))
        return self.out(h)


@pytest.fixture(scope="module")
def arrays():
    random = torch.Generator().manual_seed(3)
    y = torch.randint(CLASSES, (V,), generator=random)
    part = torch.rand(V, generator=random)
    return {
        "edge_index": torch.randint(V - 3, (2, 400), generator=random),
        "x": torch.randn(V, FEATURES, generator=random) + F.one_hot(y, CLASSES).repeat(1, 2),
        "y": y,
        "edge_attr": torch.randn(400, 2, generator=random),
        "train_mask": part < 0.6,
        "val_mask": (part >= 0.6) & (part < 0.8),
    }


@pytest.fixture(scope="module")
def graph(arrays):
    return weft.Graph(**arrays)


def made(**kwargs):
    torch.manual_seed(4)
    return Net(**kwargs)


def losses_of(module, arrays, make, epochs):
    """The losses of PyTorch in float64."""
    module = copy.deepcopy(module).double().train()
    optimizer, losses = make(module), []
    for _ in range(epochs):
        optimizer.zero_grad()
        logits = module(arrays["x"].double(), arrays["edge_index"], arrays["edge_attr"].double())
        loss = F.cross_entropy(logits[arrays["train_mask"]], arrays["y"][arrays["train_mask"]])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def logits_of(module, arrays):
    with torch.no_grad():
        return copy.deepcopy(module).eval()(arrays["x"], arrays["edge_index"], arrays["edge_attr"]).numpy()


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=0.05)


@pytest.mark.parametrize("parallel", [None, "graph=3", "tensor=2", "pipeline=2,chunks"])
def test_trains_as_pytorch(arrays, graph, parallel):
    """The losses are PyTorch's, the module stays as it is, and comes back with the weights of the run."""
    module = made()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    settings = BRIEF | (
        {"parallel": "pipeline=2", "chunks": 1}
        if parallel and "chunks" in parallel
        else {"parallel": parallel}
    )
    try:
        run = weft.train(graph, model=module, out="run", **settings)
    except weft.Refused as why:
        assert parallel == "tensor=2" and "graph=" in str(why), why
        return
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    np.testing.assert_allclose(run.history["loss"], losses_of(module, arrays, sgd, 6), rtol=1e-5)
    trained = run.module()
    np.testing.assert_allclose(logits_of(trained, arrays), run.logits, atol=1e-4)
    assert list(trained.state_dict()) == list(before)
    assert {name for name, value in trained.state_dict().items() if torch.equal(value, before[name])} == {
        *("unused.weight", "unused.bias", "steps", "mask")
    }


class WithLoops(nn.Module):
    """EGConv without symnorm, which adds loops of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.last = (
            EGConv(FEATURES, n, ["sum", "max", "std"], 2, 2) for n in (FEATURES, 2 * CLASSES)
        )
        self.out = nn.Linear(2 * CLASSES, CLASSES)

    def forward(self, x, edge_index, edge_attr):
        return self.out(self.last(self.first(x, edge_index).tanh(), edge_index))


@pytest.mark.parametrize("parallel", [None, "graph=3"])
def test_loops_of_a_layer(arrays, parallel):
    """They are those of all vertices if none is without edges, with those that the graph has; else it is
    refused."""
    torch.manual_seed(4)
    module, every = WithLoops(), torch.arange(V)
    with pytest.raises(
        weft.Refused, match="first: EGConv without symnorm adds loops .* give it add_self_loops=False"
    ):
        weft.train(weft.Graph(**arrays), model=module, **BRIEF)
    ends = torch.cat([arrays["edge_index"][:, V:], torch.stack([every, every.roll(1)])], 1)
    whole = arrays | {"edge_index": ends}
    assert (ends[0] == ends[1]).any()
    run = weft.train(weft.Graph(**whole), model=module, out="run", **BRIEF | {"parallel": parallel})
    np.testing.assert_allclose(run.history["loss"], losses_of(module, whole, sgd, 6), rtol=1e-5)


class OfMatrix(nn.Module):
    """Over adj_t, whose values are weights."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.out = GCNConv(FEATURES, 8), GraphConv(8, 8), nn.Linear(8, CLASSES)

    def forward(self, x, adj_t):
        return self.out(self.last(self.first(x, adj_t).tanh(), adj_t))


class OfData(OfMatrix):
    def forward(self, data):
        return super().forward(data.x, data.adj_t)


class SparseTensor:
    """In the place of torch_sparse's, which is not installed here: what of its interface weft reads."""

    def __init__(self, matrix):
        self.matrix = matrix

    def csr(self):
        return self.matrix.crow_indices(), self.matrix.col_indices(), self.matrix.values()

    def sizes(self):
        return list(self.matrix.shape)


SparseTensor.__module__ = "torch_sparse.tensor"


@pytest.mark.parametrize("kind", [OfMatrix, OfData])
@pytest.mark.parametrize("weighted", [True, False])
def test_adj_t(arrays, kind, weighted):
    """A module over adj_t trains as in PyTorch, on a Data that holds it and on one with edge_index."""
    ends = arrays["edge_index"]
    ends = ends[:, ends[0] != ends[1]].unique(
        dim=1
    )  # PyTorch's matrices join equal edges, and keep loops beside GCNConv's
    named = {name: arrays[name] for name in ("x", "y", "train_mask", "val_mask")}
    more = (
        {"edge_weight": torch.rand(ends.shape[1], generator=torch.Generator().manual_seed(2)) + 0.5}
        if weighted
        else {}
    )
    listed = Data(edge_index=ends, **named, **more)
    data = T.ToSparseTensor(attr="edge_weight", layout=torch.sparse_csr)(listed.clone())
    torch.manual_seed(4)
    module = kind()
    exact, wanted = copy.deepcopy(module).double(), []
    adj = data.adj_t.double().to_sparse_coo()
    optimizer, x = sgd(exact), data.x.double()
    for _ in range(6):
        optimizer.zero_grad()
        logits = exact(*([x, adj] if kind is OfMatrix else [Data(x=x, adj_t=adj)]))
        loss = F.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        wanted.append(float(loss.detach()))
    sparse = Data(adj_t=SparseTensor(data.adj_t), **named)
    for number, data_form in enumerate((listed, data, sparse)):
        run = weft.train(data_form, model=module, out=f"run-{number}", **BRIEF)
        np.testing.assert_allclose(run.history["loss"], wanted, rtol=1e-5)
    net = weft.compile(module, sparse)
    logits = exact(*([x, adj] if kind is OfMatrix else [Data(x=x, adj_t=adj)]))
    net.load_state_dict(exact.float().state_dict())
    np.testing.assert_allclose(net.eval()().detach().numpy(), logits.detach().numpy(), atol=1e-4)


class MayTakeMatrix(OfMatrix):
    """A parameter that begins with adj, and is not given."""

    def forward(self, x, edge_index, adj=None, adjust=False):
        return super().forward(x, edge_index if adj is None and not adjust else adj)


def test_adj_is_not_given(arrays, graph):
    torch.manual_seed(4)
    module = MayTakeMatrix()
    run, own = (
        weft.train(graph, model=model, out=out, **BRIEF)
        for model, out in ((module, "run"), (of_edges(module), "own"))
    )
    assert (run.logits == own.logits).all()


def of_edges(module):
    """The same over edge_index alone."""

    class OfEdges(OfMatrix):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index)

    made = OfEdges()
    made.load_state_dict(module.state_dict())
    return made


def test_embeddings(arrays, graph):
    """A layer's embeddings are what it returns in PyTorch; without a name, what the last layer is given."""
    run = weft.train(graph, model=made(), out="run", **BRIEF)
    trained, seen = run.module(), {}
    trained.eval()
    for name, layer in trained.named_modules():
        layer.register_forward_hook(lambda _, inputs, out, name=name: seen.update({name: (inputs[0], out)}))
    trained(arrays["x"], arrays["edge_index"], arrays["edge_attr"])
    for name in ("into", "norm"):
        np.testing.assert_allclose(run.embeddings(of=name), seen[name][1].detach().numpy(), atol=1e-4)
    np.testing.assert_allclose(run.embeddings(), seen["out"][0].detach().numpy(), atol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"normalize_features": "row"},
        {"normalize_features": "standard"},
        {"precision": "bf16"},
        {"parallel": "pipeline=2", "chunks": 1},
    ],
)
def test_embeddings_of_the_run(arrays, graph, changes):
    """A part of a module is computed as the run computes the whole, and on a mesh that suits the whole
    alone."""
    run = weft.train(graph, model=made(), **BRIEF, **changes)
    np.testing.assert_allclose(run.embeddings(of="out"), run.logits, atol=1e-6)
    assert run.embeddings(of="into").shape == (V, 8)


def test_comes_back(arrays, graph):
    """A run that was loaded has its weights for another module that is made like it, and a training goes
    on."""
    run = weft.train(graph, model=made(), out="run", **BRIEF)
    loaded = pickle.loads(pickle.dumps(run))
    again = loaded.module(Net())
    for name, value in run.module().state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    stored = {name: torch.from_numpy(value) for name, value in run.state_dict().items()}
    assert set(run.module().state_dict()) - set(stored) == {"mask"}  # files of weights have no truth values
    with pytest.raises(weft.Refused, match=r"run\.module\(Net\(…\)\)"):
        loaded.module()
    with pytest.raises(weft.Refused, match="made like the one that was trained"):
        loaded.module(Net(width=9))
    assert run.settings["model"] == run.summary["model"] == "Net"
    assert json.loads((run.directory / "program.json").read_text())["class"] == "Net"
    longer = weft.train(graph, model=again, out="longer", **BRIEF)
    assert longer.history["loss"][0] == pytest.approx(losses_of(run.module(), arrays, sgd, 1)[0], rel=1e-5)
    resumed = weft.train(graph, out="some", model=made(), **BRIEF | {"checkpoint_every": 1, "epochs": 3})
    resumed = weft.train(graph, resume=resumed, epochs=6, progress=False)
    assert resumed.history["loss"].tolist() == run.history["loss"].tolist()
    np.testing.assert_array_equal(logits_of(resumed.module(), arrays), logits_of(run.module(), arrays))


def test_everywhere(arrays, graph):
    """Whatever takes a model takes a module."""
    settings = {"epochs": 2, "progress": False}
    assert weft.show_plan(graph, model=made()).startswith("Net, ")
    assert weft.plan(graph, workers=2, model=made())["meshes"]
    runs = weft.sweep(graph, grid={"lr": [0.1, 0.2]}, model=made(), out="sweep", **settings)
    assert {type(run.module()) for run in runs} == {Net}
    assert {
        type(run.module()) for run in weft.train(graph, model=made(), seeds=2, out="seeds", **settings)
    } == {Net}
    fitted = weft.NodeClassifier(model=made(), epochs=2, out="fitted").fit(graph)
    assert "model='Net'" in repr(fitted)
    predicted = fitted.predict(weft.Graph(arrays["edge_index"], arrays["x"], edge_attr=arrays["edge_attr"]))
    np.testing.assert_array_equal(predicted, fitted.run_.predictions)
    np.testing.assert_array_equal(fitted.run_.predict(vertices=[3, 1]), predicted[[3, 1]])
    assert fitted.run_.evaluate()["val"]["accuracy"] == pytest.approx(fitted.run_.summary["val"])


class Tables(nn.Module):
    def __init__(self):
        super().__init__()
        self.of_vertices, self.of_edges, self.out = (
            nn.Embedding(4, 8),
            nn.Embedding(2, 8),
            nn.Linear(8, CLASSES),
        )

    def forward(self, x, edge_index, edge_attr):
        messages = self.of_vertices(x[:, 0].long())[edge_index[0]] * self.of_edges(edge_attr[:, 0].long())
        return self.out(x.new_zeros(x.size(0), 8).index_add(0, edge_index[1], messages))


def test_tables(arrays):
    """Numbers that features hold choose rows of tables."""
    arrays = arrays | {
        "x": torch.arange(V).view(-1, 1).float() % 4,
        "edge_attr": (arrays["edge_attr"] > 0).float(),
    }
    torch.manual_seed(4)
    module = Tables()
    run = weft.train(weft.Graph(**arrays), model=module, **BRIEF)
    np.testing.assert_allclose(run.history["loss"], losses_of(module, arrays, sgd, 6), rtol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: torch.optim.SGD(
            [
                {"params": m.into.parameters(), "lr": 0.1, "weight_decay": 0.01},
                {"params": m.out.parameters()},
            ],
            lr=0.02,
            momentum=0.9,
        ),
        lambda m: torch.optim.Adam(m.parameters(), lr=0.02, betas=(0.9, 0.99), weight_decay=0.1),
        lambda m: torch.optim.AdamW(
            [{"params": m.out.parameters()}, {"params": m.norm.parameters(), "lr": 0}], lr=0.05
        ),
    ],
)
def test_optimizers(arrays, graph, make):
    """An optimizer of torch.optim says the rate and the decay of each parameter; those that it lacks stay."""
    module = made()
    module.into.requires_grad_(True)
    run = weft.train(graph, model=module, **BRIEF | {"optimizer": make(module), "lr": None})
    np.testing.assert_allclose(run.history["loss"], losses_of(module, arrays, make, 6), rtol=2e-5)


def test_fixed(arrays, graph):
    """Parameters without requires_grad stay as they are, with weight decay, too."""
    module = made()
    module.into.requires_grad_(False)
    run = weft.train(graph, model=module, weight_decay=0.1, **BRIEF)
    np.testing.assert_allclose(
        run.history["loss"],
        losses_of(module, arrays, lambda m: torch.optim.SGD(m.parameters(), lr=0.05, weight_decay=0.1), 6),
        rtol=1e-5,
    )
    trained = run.module()
    assert torch.equal(trained.into.lin.weight, module.into.lin.weight)
    assert not trained.into.lin.weight.requires_grad and trained.out.weight.requires_grad


class Compiled(Net):
    """A forward, a layer and a function that torch.compile made."""

    def __init__(self):
        super().__init__()
        self.into, self.out = torch.compile(self.into), torch.compile(self.out, dynamic=True, fullgraph=True)

    forward = torch.compile(Net.forward)


def test_compiled(arrays, graph):
    expected = losses_of(made(), arrays, sgd, 6)
    torch.manual_seed(4)
    of_parts, in_place = Compiled(), made()
    in_place.norm.compile()
    for module in (torch.compile(made()), of_parts, in_place):
        run = weft.train(graph, model=module, loss=torch.compile(lambda z, y: F.cross_entropy(z, y)), **BRIEF)
        np.testing.assert_allclose(run.history["loss"], expected, rtol=1e-5)
        assert list(run.module().state_dict()) == list(module.state_dict())
    twice = torch.compile(torch.compile(made()))  # a function, which has no state_dict
    assert not isinstance(twice, nn.Module)
    run = weft.train(graph, model=twice, **BRIEF)
    np.testing.assert_allclose(run.history["loss"], expected, rtol=1e-5)


class OfCounts(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.conv = GCNConv(features, classes)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


def test_made_of_counts(arrays, graph):
    """A class or function makes the module of the graph's counts; a sweep names each by its class and
    number."""
    torch.manual_seed(1)
    net = OfCounts(FEATURES, CLASSES)
    run = weft.train(
        graph, model=lambda features, classes: net if (features, classes) == (6, 3) else None, **BRIEF
    )
    assert run.summary["losses"] == weft.train(graph, model=net, **BRIEF).summary["losses"]
    settings = BRIEF | {"epochs": 2, "progress": False, "seeds": 1}
    found = weft.sweep(
        graph,
        grid={"model": [OfCounts, net, "gcn"], "lr": [0.1, 0.01]},
        **{k: v for k, v in settings.items() if k != "lr"},
    )
    names = sorted(weft._module.class_of(one.directory) for one in found)
    assert names == ["", "", "OfCounts-1", "OfCounts-1", "OfCounts-2", "OfCounts-2"]
    for one in found:
        if weft._module.class_of(one.directory):
            weight = torch.from_numpy(one.state_dict()["conv.lin.weight"])
            assert torch.equal(one.module().conv.lin.weight, weight)
    assert weft.sweep(graph, grid={"lr": [0.1]}, model=OfCounts, epochs=1, progress=False)[
        0
    ].module().conv.lin.weight.shape == (3, 6)


def test_sweep_goes_on(graph):
    """An interrupted sweep of modules goes on: what has ended stays, and the rest is what it would have
    been."""

    def swept(bias=True, seed=4):
        def make(features, classes):
            torch.manual_seed(seed)
            return GCNConv(features, classes, bias=bias)

        loss = nn.CrossEntropyLoss(label_smoothing=0.1)
        weft.sweep(
            graph, {"model": [make], "lr": [0.2, 0.1, 0.05]}, out="out", loss=loss, epochs=2, progress=False
        )
        runs = [Path("out", f"run-000{k}") for k in range(3)]
        return [(run / "run.json").read_bytes() for run in runs], [
            weft.load(run).summary["losses"] for run in runs
        ]

    records, losses = swept()
    for k in 1, 2:
        shutil.rmtree(f"out/run-000{k}")
    again = swept()
    assert again[1] == losses and [a == b for a, b in zip(again[0], records)] == [True, False, False]
    for other, what in ({"bias": False}, "the program"), ({"seed": 5}, "the initial weights"):
        message = (
            f"^out out: the folder holds runs of this sweep before {what} of make-1 changed; .* name another "
            "folder$"
        )
        with pytest.raises(weft.Refused, match=message):
            swept(**other)


class Remembering(Net):
    def forward(self, x, edge_index, edge_attr=None):
        self.last = super().forward(x, edge_index, edge_attr)
        return self.last


def test_keeps_what_it_computed(arrays, graph):
    """A module that holds results of a call trains, and comes back."""
    module = Remembering()
    logits_of(module, arrays)
    module(arrays["x"], arrays["edge_index"], arrays["edge_attr"])
    wanted = losses_of(copied(module), arrays, sgd, 6)
    run = weft.train(graph, model=module, **BRIEF)
    np.testing.assert_allclose(run.history["loss"], wanted, rtol=1e-5)
    np.testing.assert_allclose(logits_of(run.module(), arrays), run.logits, atol=1e-4)


def fixed():
    return made().requires_grad_(False)


class Detached(Net):
    def forward(self, x, edge_index, edge_attr=None):
        return super().forward(x, edge_index, edge_attr).detach() * x.mean()


def hooked():
    module = made()
    module.out.weight.register_hook(lambda gradient: 2 * gradient)
    return module


NAMED = [
    *(
        "mlp",
        "gcn",
        "gcn jk=cat",
        "gcn decoupled=true",
        "gcn blocks=residual",
        "sage",
        "sage aggregation=max",
    ),
    *("sage norm=batch", "gat heads=2", "gatv2 heads=2"),
]


@pytest.mark.parametrize("named", NAMED)
def test_named(arrays, named):
    """A module of PyG is the model that weft knows by a name, to the bit."""
    model, *more = named.split()
    graph = weft.Graph(**{k: v for k, v in arrays.items() if k != "edge_attr"})
    settings = BRIEF | {"hidden": 8, "dropout": 0, "weight_decay": 0} | dict(m.split("=") for m in more)
    module = weft.train(graph, model=model, out="first", **settings).to_pyg()
    own = weft.train(graph, model=module, out="own", **BRIEF)
    again = weft.train(graph, model=model, init=module.state_dict(), out="named", **settings)
    assert own.history["loss"].tolist() == again.history["loss"].tolist()


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (Net, {}, r"model: Net is called with \(features, classes\), here \(6, 3\): too many"),
        (
            fixed,
            {},
            (
                "model: no parameter has a gradient: there is none, forward is under torch.no_grad, or all "
                "have requires_grad=False"
            ),
        ),
        (Detached, {}, "model: no parameter has a gradient"),
        (hooked, {}, "model: out.weight has a hook on its gradient: remove it"),
        (made, {"hidden": 64}, "hidden 64: is for models that weft knows by name, and not for the module"),
        (
            made,
            {"optimizer": lambda m: torch.optim.RMSprop(m.parameters())},
            "optimizer: RMSprop is none of torch.optim's SGD",
        ),
        (
            made,
            {"optimizer": lambda m: torch.optim.Adam(m.parameters(), amsgrad=True)},
            "amsgrad=True is not what weft has: give amsgrad=False",
        ),
        (
            made,
            {"optimizer": lambda m: torch.optim.SGD(made().parameters()), "lr": None},
            "has a parameter that is none of the model",
        ),
        (made, {"optimizer": sgd, "lr": 0.1}, "lr: the optimizer has its own"),
    ],
)
def test_refuses(graph, model, settings, message):
    model = model if model is Net else model()
    settings = {name: value(model) if callable(value) else value for name, value in settings.items()}
    with pytest.raises((weft.Refused, TypeError), match=message):
        weft.train(graph, model=model, **settings)
