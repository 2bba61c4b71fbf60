"""Labels of edges as PyTorch Geometric has them are those of arrays."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch_geometric.data")

random = np.random.default_rng(5)
EDGES = np.unique(random.integers(0, 40, (2, 300)), axis=1)[:, random.permutation(250)]
COUNT = EDGES.shape[1]
X = random.normal(size=(40, 4)).astype(np.float32)
Y = (X[EDGES[0], 0] * X[EDGES[1], 0] > 0).astype(int)
PART = np.arange(COUNT) % 5
MASKS = {"train_mask": PART < 3, "val_mask": PART == 3, "test_mask": PART == 4}
RATES, BACK = ("user", "rates", "item"), ("item", "rev_rates", "user")


def logits(source, **settings):
    return weft.train(source, task="edge", hidden=8, epochs=4, progress=False, **settings).logits


@pytest.fixture
def arrays():
    """The logits of the same as arrays."""
    return logits(
        weft.Graph(edge_index=EDGES, x=X, edge_y=Y, **{"edge_" + name: mask for name, mask in MASKS.items()})
    )


def tensors(named):
    return {name: torch.tensor(value) for name, value in named.items()}


def homogeneous(**fields):
    return data.Data(x=torch.tensor(X), edge_index=torch.tensor(EDGES), **tensors(fields))


@pytest.mark.parametrize("label", ["edge_label", "edge_y"])
@pytest.mark.parametrize("mask", ["edge_", ""])
def test_data(arrays, label, mask):
    masks = {mask + name: mask_values for name, mask_values in MASKS.items()}
    assert (logits(homogeneous(**{label: Y}, **masks)) == arrays).all()


def test_edge_label_index(arrays):
    """Labels are of the edges that it names, in their order, and the other edges have none."""
    order = random.permutation(COUNT)
    masks = {name: mask[order] for name, mask in MASKS.items()}
    named = homogeneous(edge_label=Y[order].astype(float), edge_label_index=EDGES[:, order], **masks)
    assert (logits(named) == arrays).all()
    some = order[:200]
    partly = homogeneous(edge_label=Y[some], edge_label_index=EDGES[:, some])
    y = np.full(COUNT, -1)
    y[some] = Y[some]
    rule = "random:60/20/20"
    want = logits(weft.Graph(edge_index=EDGES, x=X, edge_y=y), split=rule)
    assert (logits(partly, split=rule) == want).all()
    for kind in (bool, np.uint8):  # which have no -1
        partly = homogeneous(edge_label=Y[some].astype(kind), edge_label_index=EDGES[:, some])
        assert (logits(partly, split=rule) == want).all()
    for index in (np.array([[39, 0], [39, 0]]), EDGES[:, :2] * 0):
        other = homogeneous(edge_label=np.array([0, 1]), edge_label_index=index)
        with pytest.raises(
            weft.Refused,
            match=(
                '^edge_label_index: has edges that edge_index lacks, and with task="edge" all edges pass '
                "messages"
            ),
        ):
            logits(other)
    parallel = data.Data(
        x=torch.tensor(X),
        edge_index=torch.tensor(np.hstack([EDGES, EDGES[:, :3]])),
        edge_label=torch.tensor(Y),
        edge_label_index=torch.tensor(EDGES),
    )
    for twice in (homogeneous(edge_label=np.array([0, 1]), edge_label_index=EDGES[:, [4, 4]]), parallel):
        with pytest.raises(
            weft.Refused,
            match=(
                "^edge_label_index: names an edge twice, or one that edge_index has several times, so that "
                "it is not known which"
            ),
        ):
            logits(twice)


def test_ratings():
    """Floats are values to predict, though all are whole: as those of an array, and integers are classes."""
    stars = random.integers(1, 6, COUNT)
    kinds = [homogeneous(edge_label=stars.astype(kind), **MASKS) for kind in (np.float32, np.int64)]
    runs = [weft.train(data, hidden=8, epochs=2, progress=False) for data in kinds]
    assert [run.summary["metric"] for run in runs] == ["rmse", "accuracy"]
    masks = {"edge_" + name: mask for name, mask in MASKS.items()}
    want = logits(weft.Graph(edge_index=EDGES, x=X, edge_y=stars.astype(np.float32), **masks))
    assert (logits(kinds[0]) == want).all()


def test_parts_of_a_split_of_links():
    """RandomLinkSplit holds edges out, which pass messages in weft: its parts are refused by name."""
    from torch_geometric.transforms import RandomLinkSplit

    parts = RandomLinkSplit(num_val=0.2, num_test=0.2)(homogeneous())
    with pytest.raises(weft.Refused, match="^edge_label_index: "):
        logits(parts[0])
    with pytest.raises(
        weft.Refused, match='^task="edge": the edges to predict are those of a split of links'
    ):
        logits(parts)


@pytest.mark.parametrize("label", ["edge_label", "edge_y"])
def test_hetero(label):
    x = {"user": X, "item": X[:, :3] + 1}
    edges = {RATES: EDGES, BACK: EDGES[::-1].copy()}
    want = logits(
        weft.Graph(
            x=x,
            edge_index=edges,
            edge_y={RATES: Y},
            **{"edge_" + name: {RATES: column} for name, column in MASKS.items()},
        )
    )
    graph = data.HeteroData()
    for name, rows in x.items():
        graph[name].x = torch.tensor(rows)
    for name, ends in edges.items():
        graph[name].edge_index = torch.tensor(ends)
    graph[RATES][label] = torch.tensor(Y)
    for name, mask in MASKS.items():
        graph[RATES][name] = torch.tensor(mask)
    assert (logits(graph) == want).all()
    graph[BACK][label] = torch.tensor(Y)
    with pytest.raises(weft.Refused, match="have labels of edges: choose one by weft.Graph.of"):
        logits(graph)
    assert (logits(weft.Graph.of(graph, target=RATES)) == want).all()
    with pytest.raises(weft.Refused, match="its relations "):
        weft.Graph.of(graph, target=("user", "rates", "user"))


# -- modules whose forward returns rows of edges

ATTR = random.normal(size=(COUNT, 2)).astype(np.float32)
MESHES: list[dict] = [
    {},
    {"parallel": "graph=3"},
    {"parallel": "tensor=2"},
    {"partitions": 3, "offload": True},
    {"parallel": "pipeline=2", "chunks": 1},
    {"parallel": "graph=2,pipeline=2", "chunks": 2},
]


class Net(torch.nn.Module):
    """Two convolutions, and a linear layer of both ends and the edge's features."""

    def __init__(self, features=4, outputs=2):
        super().__init__()
        conv = pytest.importorskip("torch_geometric.nn").SAGEConv
        self.first, self.second = conv(features, 8), conv(8, 8)
        self.last = torch.nn.Linear(18, outputs)

    def forward(self, x, edge_index, edge_attr):
        h = self.second(torch.relu(self.first(x, edge_index)), edge_index)
        return self.last(torch.cat([h[edge_index[0]], h[edge_index[1]], edge_attr], 1))


def own(y=Y):
    masks = {"edge_" + name: mask for name, mask in MASKS.items()}
    return weft.Graph(edge_index=EDGES, x=X, edge_attr=ATTR, edge_y=y, **masks)


def losses_of(net, y, loss, epochs):
    """Those of PyTorch in double precision."""
    net, losses = copy.deepcopy(net).double(), []
    optimizer, train = torch.optim.Adam(net.parameters(), lr=0.02), torch.tensor(MASKS["train_mask"])
    for _ in range(epochs):
        optimizer.zero_grad()
        made = loss(
            net(torch.tensor(X).double(), torch.tensor(EDGES), torch.tensor(ATTR).double())[train], y[train]
        )
        made.backward()
        optimizer.step()
        losses.append(made.item())
    return losses


def scored(y):
    """Values as standard scores of those that train."""
    some = y[MASKS["train_mask"]].astype(float)
    return torch.tensor((y - some.mean()) / some.std())[:, None]


@pytest.mark.parametrize("kind", ["classes", "several", "values"])
def test_own_module(kind):
    torch.manual_seed(1)
    values = (3 + X[EDGES[0], 1] + ATTR[:, 0] ** 2).astype(np.float32)
    y, target, loss = {
        "classes": (Y, torch.tensor(Y), torch.nn.functional.cross_entropy),
        "several": (
            np.stack([Y, 1 - Y], 1),
            torch.tensor(np.stack([Y, 1 - Y], 1)).double(),
            torch.nn.BCEWithLogitsLoss(),
        ),
        "values": (values, scored(values), torch.nn.functional.mse_loss),
    }[kind]
    net = Net(outputs=1 if kind == "values" else 2)
    want = losses_of(net, target, loss, 6)
    settings = {"task": "edge", "model": net, "lr": 0.02, "weight_decay": 0, "progress": False, "epochs": 6}
    for mesh in MESHES:
        run = weft.train(own(y), **settings, **mesh)
        assert run.summary["losses"] == pytest.approx(want, abs=1e-5), mesh
        with torch.no_grad():
            logits = run.module()(torch.tensor(X), torch.tensor(EDGES), torch.tensor(ATTR)).numpy()
        if kind == "values":
            some = values[MASKS["train_mask"]]
            logits = logits * some.std() + some.mean()
        assert run.logits == pytest.approx(logits, abs=1e-5), mesh
        assert (run.predict(output="logits") == run.logits).all(), mesh
    for mesh in ({}, MESHES[-1]):
        half = weft.train(own(y), **settings | mesh | {"epochs": 3})
        again = weft.train(own(y), resume=half.directory, epochs=6, progress=False)
        whole = weft.train(own(y), **settings, **mesh)
        assert again.summary["losses"] == whole.summary["losses"] and (again.logits == whole.logits).all()


@pytest.mark.parametrize(
    ("kind", "vertices"), [("classes", "several"), ("several", "classes"), ("values", "classes")]
)
def test_own_loss(kind, vertices):
    """It is traced for the labels of the edges, whatever those of the vertices are."""
    torch.manual_seed(1)
    f, values = torch.nn.functional, (3 + X[EDGES[0], 1] + ATTR[:, 0] ** 2).astype(np.float32)
    several = np.stack([Y, 1 - Y], 1)
    y, target, loss = {
        "classes": (Y, torch.tensor(Y), lambda z, y: f.cross_entropy(z, y, reduction="none") * (1 + y)),
        "several": (
            several,
            torch.tensor(several).double(),
            lambda z, y: f.binary_cross_entropy_with_logits(z, y, reduction="none") * (1 + y),
        ),
        "values": (values, scored(values), lambda z, y: torch.log(1 + (z - y) ** 2)),
    }[kind]
    net = Net(outputs=1 if kind == "values" else 2)
    of_vertices = {"several": random.integers(0, 2, (40, 3)), "classes": np.arange(40) % 3}[vertices]
    masks = {"edge_" + name: mask for name, mask in MASKS.items()}
    graph = weft.Graph(edge_index=EDGES, x=X, edge_attr=ATTR, y=of_vertices, edge_y=y, **masks)
    settings = {"lr": 0.02, "weight_decay": 0, "epochs": 6, "progress": False}
    want = losses_of(net, target, lambda z, y: loss(z, y).mean(), 6)
    for mesh in ({}, {"parallel": "graph=2"}):
        run = weft.train(graph, task="edge", model=net, loss=loss, **settings, **mesh)
        assert run.summary["losses"] == pytest.approx(want, abs=1e-5), mesh


def test_own_module_by_its_class():
    """A class is called with the classes of the edges."""
    run = weft.train(
        own(np.array(["a", "b", "c"])[np.arange(COUNT) % 3]), task="edge", model=Net, epochs=2, progress=False
    )
    assert run.logits.shape == (COUNT, 3) and run.classes.tolist() == ["a", "b", "c"]
    assert (
        run.evaluate()["test"]["accuracy"]
        == (run.predictions == np.arange(COUNT) % 3)[MASKS["test_mask"]].mean()
    )
    assert weft.plan(own(), workers=2, task="edge", model=Net)["meshes"]


class Bipartite(torch.nn.Module):
    """Rows of the edges of one of two relations."""

    def __init__(self, users=4, items=3):
        super().__init__()
        conv = pytest.importorskip("torch_geometric.nn").SAGEConv
        self.there, self.back = conv((users, items), 8), conv((8, users), 8)
        self.last = torch.nn.Linear(8, 1)

    def forward(self, x_dict, edge_index_dict):
        users, items = x_dict["user"], x_dict["item"]
        i = self.there((users, items), edge_index_dict[RATES]).relu()
        u = self.back((i, users), edge_index_dict[BACK]).relu()
        ends = edge_index_dict[RATES]
        return self.last(u[ends[0]] * i[ends[1]])


def test_own_module_of_several_types(tmp_path):
    torch.manual_seed(2)
    net, x = Bipartite(), {"user": X, "item": X[:, :3] + 1}
    edges = {RATES: EDGES, BACK: EDGES[::-1].copy()}
    stars = X[EDGES[0], 1] * X[EDGES[1], 2]
    masks = {"edge_" + name: {RATES: mask} for name, mask in MASKS.items()}
    graph = weft.Graph(x=x, edge_index=edges, edge_y={RATES: stars}, **masks)
    both = torch.tensor(X).double(), torch.tensor(x["item"]).double()

    class Called(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = copy.deepcopy(net)

        def forward(self, _x, _edges, _attr):
            return self.net(dict(zip(x, both)), {name: torch.tensor(ends) for name, ends in edges.items()})

    want = losses_of(Called(), scored(stars), torch.nn.functional.mse_loss, 5)
    for mesh in MESHES:
        run = weft.train(
            graph, task="edge", model=net, epochs=5, lr=0.02, weight_decay=0, progress=False, **mesh
        )
        assert run.summary["losses"] == pytest.approx(want, abs=1e-5), mesh
    assert run.logits.shape == (COUNT, 1)
    # the store's own edges, as new ones that pass no messages, and as one that is explained
    (tmp_path / "new.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in EDGES.T))
    again = run.predict(output="logits", add_edges=f"rates={tmp_path / 'new.csv'}")
    assert again == pytest.approx(run.logits, abs=1e-6)
    assert run.explain(edge=3).logit == pytest.approx(run.logits[3, 0], abs=1e-6)


class Weighted(Net):
    """Rows of edges that depend on their weights."""

    def forward(self, x, edge_index, edge_attr, edge_weight):
        return super().forward(x, edge_index, edge_attr) * edge_weight[:, None]


class Normed(Net):
    """Rows of edges with a norm over all of them."""

    def __init__(self, features=4, outputs=2):
        super().__init__(features, outputs)
        self.norm = torch.nn.BatchNorm1d(2)

    def forward(self, x, edge_index, edge_attr):
        return super().forward(x, edge_index, self.norm(edge_attr))


def test_edges_of_own_modules_alone(tmp_path):
    """Edges that pass no messages, by an own module: with weights; a norm over the edges is refused."""
    (tmp_path / "new.csv").write_text(
        "source,target,w,a,b\n" + "".join(f"{u},{v},2,{a},{b}\n" for (u, v), (a, b) in zip(EDGES.T, ATTR))
    )
    settings = {"task": "edge", "epochs": 2, "progress": False}
    masks = {"edge_" + name: mask for name, mask in MASKS.items()}
    weights = np.full(COUNT, 2, np.float32)
    graph = weft.Graph(edge_index=EDGES, x=X, edge_attr=ATTR, edge_weight=weights, edge_y=Y, **masks)
    run = weft.train(graph, model=Weighted(), **settings)
    new = {"add_edges": tmp_path / "new.csv", "edge_features": "a,b"}
    assert run.predict(output="logits", edge_weights="w", **new) == pytest.approx(run.logits, abs=1e-6)
    odds = np.diff(run.logits[5])[0]
    assert run.explain(edge=5, **{"class": "1"}).logit == pytest.approx(odds, abs=1e-6)
    run = weft.train(own(), model=Normed(), **settings)
    line = (
        "the model Normed has a batch_norm of norm .* over the edges of the graph, of which an edge alone "
        "has none"
    )
    for asked in (lambda: run.predict(**new), lambda: run.explain(edge=5)):
        with pytest.raises(weft.Refused, match=line):
            asked()


class OfVertices(Net):
    def forward(self, x, edge_index):
        return self.second(torch.relu(self.first(x, edge_index)), edge_index)


class Both(Net):
    def forward(self, x, edge_index, edge_attr):
        return super().forward(x, edge_index, edge_attr), x


def test_refused():
    one = 'model: with task="edge" forward returns one tensor of edges × classes, and nothing else'
    for net, line in [
        (OfVertices(), one),
        (Both(), one),
        (Net(outputs=3), "the model Net has 3 outputs, and the graph's labels need 2; change its last layer"),
    ]:
        with pytest.raises(weft.Refused, match=line):
            weft.train(own(), task="edge", model=net, progress=False)
    with pytest.raises(weft.Refused, match="decoder_layers 3: is of models that weft knows by name"):
        weft.train(own(), task="edge", model=Net(), decoder_layers=3, progress=False)
