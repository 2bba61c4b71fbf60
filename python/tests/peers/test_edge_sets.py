"""Five sets of labelled edges, each made otherwise: losses and metrics beside PyTorch's same model in double
precision."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")
nn = pytest.importorskip("torch_geometric.nn")
metrics = pytest.importorskip("sklearn.metrics")

MESHES: list[dict] = [
    {},
    {"parallel": "graph=3"},
    {"parallel": "tensor=2"},
    {"partitions": 3, "offload": True},
]
SETTINGS = {"task": "edge", "lr": 0.01, "weight_decay": 0, "progress": False}
BUYS, BACK, KNOWS = ("user", "buys", "item"), ("item", "rev_buys", "user"), ("user", "knows", "user")


class Decoded(torch.nn.Module):
    """An MLP of both ends, their product and the features of the edge."""

    def __init__(self, width, features, outputs):
        super().__init__()
        self.lins = torch.nn.ModuleList(
            [torch.nn.Linear(3 * width + features, width), torch.nn.Linear(width, outputs)]
        )

    def forward(self, u, v, attr):
        z = torch.cat([u, v, u * v] + [attr] * (attr is not None), 1)
        return self.lins[1](self.lins[0](z).relu())


class Named(torch.nn.Module):
    """What weft makes of --model sage with labels of edges, under the names of its weights."""

    def __init__(self, columns, features, hidden=8, outputs=2):
        super().__init__()
        self.convs = torch.nn.ModuleList([nn.SAGEConv(columns, hidden), nn.SAGEConv(hidden, hidden)])
        self.decoder = Decoded(hidden, features, outputs)

    def embed(self, x, edge_index, _attr):
        return self.convs[1](self.convs[0](x, edge_index).relu(), edge_index)

    def score(self, h, edge_index, attr):
        return self.decoder(h[edge_index[0]], h[edge_index[1]], attr)

    def forward(self, x, edge_index, edge_attr):
        return self.score(self.embed(x, edge_index, edge_attr), edge_index, edge_attr)


class States(torch.nn.Module):
    """States of edges pass through two layers; embed passes messages, and score reads the rows of both
    ends."""

    def __init__(self, columns, features, outputs=2):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2 * columns + features, 8), torch.nn.Linear(24, 8)
        self.node, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, outputs)

    def state(self, x, edge_index, attr):
        return self.first(torch.cat([x[edge_index[0]], x[edge_index[1]], attr], 1)).tanh()

    def embed(self, x, edge_index, attr):
        e = self.state(x, edge_index, attr)
        return x, self.node(torch.zeros(x.size(0), 8, dtype=x.dtype).index_add(0, edge_index[1], e)).tanh()

    def score(self, rows, edge_index, attr):
        x, h = rows
        e = self.state(x, edge_index, attr)
        return self.last(self.second(torch.cat([h[edge_index[0]], h[edge_index[1]], e], 1)).relu())

    def forward(self, x, edge_index, edge_attr):
        return self.score(self.embed(x, edge_index, edge_attr), edge_index, edge_attr)


class Typed(torch.nn.Module):
    """Rows of the edges of one relation, of several types."""

    def __init__(self, columns, relations, outputs):
        super().__init__()
        self.convs = torch.nn.ModuleDict(
            {"__".join(r): nn.SAGEConv((columns[r[0]], columns[r[2]]), 8) for r in relations}
        )
        self.decoder = Decoded(8, 0, outputs)

    def embed(self, x_dict, edge_index_dict):
        rows = {}
        for relation, edges in edge_index_dict.items():
            source, _, target = relation
            made = self.convs["__".join(relation)]((x_dict[source], x_dict[target]), edges)
            rows[target] = rows[target] + made if target in rows else made
        return {kind: features.relu() for kind, features in rows.items()}

    def score(self, rows, ends):
        return self.decoder(rows["user"][ends[0]], rows["item"][ends[1]], None)

    def forward(self, x_dict, edge_index_dict):
        return self.score(self.embed(x_dict, edge_index_dict), edge_index_dict[BUYS])


def sets(kind):
    """Arrays of a graph; the labels of its edges, and which of these train."""
    random = np.random.default_rng(7)
    x = random.normal(size=(150, 5)).astype(np.float32)
    edges = random.integers(0, 150, (2, 1500))
    attr = random.normal(size=(1500, 2)).astype(np.float32)
    train = random.random(1500) < 0.7
    noise = random.normal(size=1500)
    if kind == "ratings":
        items = random.normal(size=(60, 3)).astype(np.float32)
        edges[1] %= 60
        stars = 3 + x[edges[0], 0] * items[edges[1], 0] + 0.1 * noise
        return (
            {"x": {"user": x, "item": items}, "edge_index": {BUYS: edges, BACK: edges[::-1].copy()}},
            stars.astype(np.float32),
            train,
        )
    if kind == "relations":
        items = random.normal(size=(60, 3)).astype(np.float32)
        edges[1] %= 60
        known = random.integers(0, 150, (2, 600))
        label = x[edges[0], 1] + items[edges[1], 1] + 0.5 * noise > 0
        edge_index = {BUYS: edges, BACK: edges[::-1].copy(), KNOWS: known}
        return {"x": {"user": x, "item": items}, "edge_index": edge_index}, label.astype(int), train
    score = x[edges[0], 0] - x[edges[1], 1] + attr[:, 0] + 0.5 * noise
    if kind == "multi-edges":  # each pair five times, with labels of their own
        edges = np.repeat(edges[:, :300], 5, 1)
        score = x[edges[0], 0] + 2 * attr[:, 0] + 0.5 * noise
    if kind == "rare":
        label = score > np.quantile(score, 0.99)
    elif kind == "drift":  # the later half is scored, in which another feature counts, too
        time = np.arange(1500) / 1500
        train, label = time < 0.5, score + 3 * time * attr[:, 1] > 0
    else:
        label = score > 0
    return {"x": x, "edge_index": edges, "edge_attr": attr}, label.astype(int), train


@pytest.mark.parametrize("kind", ["ratings", "relations", "multi-edges", "rare", "drift"])
def test_beside_pytorch(kind):
    arrays, y, train = sets(kind)
    split = np.where(train, "train", "test")
    torch.manual_seed(3)
    typed, values = isinstance(arrays["x"], dict), y.dtype.kind == "f"
    if typed:
        net = model = Typed({"user": 5, "item": 3}, list(arrays["edge_index"]), 1 if values else 2)
        graph = weft.Graph(**arrays, edge_y={BUYS: y}, edge_split={BUYS: split})
        inputs = {name: torch.tensor(features).double() for name, features in arrays["x"].items()}
        inputs = inputs, {name: torch.tensor(ends) for name, ends in arrays["edge_index"].items()}
        more = {}
    else:
        model, net = "sage", Named(5, 2)
        graph = weft.Graph(**arrays, edge_y=y, edge_split=split)
        more = {"hidden": 8, "dropout": 0, "normalize_features": "none"}
        first = weft.train(graph, model=model, epochs=1, **SETTINGS | more | {"lr": 1e-30}).state_dict()
        net.load_state_dict({name: torch.tensor(first[name]) for name in net.state_dict()})
        attr = arrays["edge_attr"].astype(float)
        inputs = torch.tensor(arrays["x"]).double(), torch.tensor(arrays["edge_index"])
        inputs = *inputs, torch.tensor((attr - attr.mean(0)) / attr.std(0))
    exact, losses = copy.deepcopy(net).double(), []
    optimizer, some = torch.optim.Adam(exact.parameters(), lr=0.01), torch.tensor(train)
    mean, deviation = (y[train].astype(float).mean(), y[train].astype(float).std()) if values else (0, 1)
    target = torch.tensor((y - mean) / deviation)[:, None] if values else torch.tensor(y)
    loss_of = torch.nn.functional.mse_loss if values else torch.nn.functional.cross_entropy
    for _ in range(60):
        optimizer.zero_grad()
        loss = loss_of(exact(*inputs)[some], target[some])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        logits = exact(*inputs).numpy()

    def measured(output):
        if values:
            return float(np.sqrt(((output[:, 0] - y)[~train] ** 2).mean()))
        return float(metrics.roc_auc_score(y[~train], (output[:, 1] - output[:, 0])[~train]))

    want = measured(logits * deviation + mean if values else logits)
    assert 0.15 < want < 0.9 if values else 0.75 < want < 1, want  # something is learned, and not all
    for mesh in MESHES:
        run = weft.train(graph, model=model, epochs=5, **SETTINGS | more | mesh)
        assert run.summary["losses"] == pytest.approx(losses[:5], abs=1e-5), mesh
    run = weft.train(graph, model=model, epochs=60, **SETTINGS | more)
    got = measured(run.logits)
    print(f"{kind}: {'RMSE' if values else 'ROC-AUC'} {got:.4f}, PyTorch {want:.4f}")
    assert abs(got - want) < 0.01
    assert run.evaluate()["test"]["rmse" if values else "roc-auc"] == pytest.approx(got, abs=1e-5)


def over_periods(net, x, edges, attr, time):
    """Scores over the graph of the edges before 5, and of those from 7 on over that of the edges before 7."""
    made = [
        net.score(net.embed(x, edges[:, time < until], attr[time < until]), edges, attr) for until in (5, 7)
    ]
    return torch.where((time >= 7)[:, None], made[1], made[0])


@pytest.mark.parametrize("kind", ["sage", "own", "states"])
def test_divided_by_time(kind):
    """Messages pass to later edges alone, of a model by name and of modules: losses, scores and ROC-AUC."""
    arrays, y, _ = sets("drift")
    time = np.arange(1500) * 7 % 1500 / 150
    y = np.where(np.arange(1500) % 9 == 4, -1, y)  # no label, and yet messages
    x, edges, attr = (
        torch.tensor(arrays["x"]).double(),
        torch.tensor(arrays["edge_index"]),
        arrays["edge_attr"].astype(float),
    )
    torch.manual_seed(4)
    net = States(5, 2) if kind == "states" else Named(5, 2)
    settings = SETTINGS | {"split": "time:edge_time=5,7", "metric": "roc-auc", "normalize_features": "none"}
    graph = weft.Graph(**arrays, edge_y=y, edge_time=time)
    if kind == "sage":
        settings |= {"model": "sage", "hidden": 8, "dropout": 0}
        first = weft.train(graph, epochs=1, **settings | {"lr": 1e-30}).state_dict()
        net.load_state_dict({name: torch.tensor(first[name]) for name in net.state_dict()})
        attr = (attr - attr[time < 5].mean(0)) / attr[time < 5].std(0)
    else:
        settings |= {"model": net}
    inputs = x, edges, torch.tensor(attr), torch.tensor(time)
    exact, losses, best, kept = copy.deepcopy(net).double(), [], -1.0, None
    optimizer, target = torch.optim.Adam(exact.parameters(), lr=0.01), torch.tensor(y)
    parts = [torch.tensor((y >= 0) & mask) for mask in (time < 5, (time >= 5) & (time < 7), time >= 7)]

    def measured(logits, part):
        return metrics.roc_auc_score(y[parts[part]], (logits[:, 1] - logits[:, 0])[parts[part]])

    for _ in range(40):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(over_periods(exact, *inputs)[parts[0]], target[parts[0]])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        with torch.no_grad():
            logits = over_periods(exact, *inputs).numpy()
        if measured(logits, 1) > best:
            best, kept = measured(logits, 1), logits
    for mesh in [*MESHES, {"parallel": "pipeline=2", "chunks": 1}] if kind != "states" else MESHES:
        run = weft.train(graph, epochs=5, **settings | mesh)
        assert run.summary["losses"] == pytest.approx(losses[:5], abs=1e-5), mesh
        found = run.state_dict()
        double = copy.deepcopy(net).double()
        double.load_state_dict({name: torch.tensor(found[name]) for name in net.state_dict()})
        with torch.no_grad():
            assert run.logits == pytest.approx(over_periods(double, *inputs).numpy(), abs=1e-5), mesh
        assert (run.predict(output="logits") == run.logits).all(), mesh
    run = weft.train(graph, epochs=40, **settings)
    for part, name in ((1, "val"), (2, "test")):
        want = measured(kept, part)
        assert 0.6 < want < 1, want
        assert abs(measured(run.logits, part) - want) < 0.01, name
        assert run.summary[name] == pytest.approx(measured(run.logits, part), abs=1e-6)
    if kind != "sage":
        for e in (int(np.flatnonzero(part.numpy())[3]) for part in parts):
            odds = run.logits[e, 1] - run.logits[e, 0]
            assert run.explain(edge=e, **{"class": "1"}).logit == pytest.approx(odds, abs=1e-5)


def test_measured_on_later_edges():
    """evaluate on a graph with further labelled edges: the dates of the run divide them, beside PyTorch's
    scores."""
    arrays, y, _ = sets("drift")
    time = np.arange(1500) * 7 % 1500 / 150
    first = time < 8.5
    before = {
        "x": arrays["x"],
        "edge_index": arrays["edge_index"][:, first],
        "edge_attr": arrays["edge_attr"][first],
    }
    settings = {
        "model": "sage",
        "hidden": 8,
        "dropout": 0,
        "normalize_features": "none",
        "split": "time:edge_time=5,7",
    }
    run = weft.train(
        weft.Graph(**before, edge_y=y[first], edge_time=time[first]), epochs=20, **SETTINGS | settings
    )
    net, found = Named(5, 2).double(), run.state_dict()
    net.load_state_dict({name: torch.tensor(found[name]) for name in net.state_dict()})
    attr = (arrays["edge_attr"] - found["edge_features.mean"]) / found["edge_features.deviation"]
    inputs = (
        torch.tensor(arrays["x"]).double(),
        torch.tensor(arrays["edge_index"]),
        torch.tensor(attr).double(),
    )
    with torch.no_grad():
        logits = over_periods(net, *inputs, torch.tensor(time)).numpy()
    told = run.evaluate(weft.Graph(**arrays, edge_y=y, edge_time=time))
    parts = {"train": time < 5, "val": (time >= 5) & (time < 7), "test": time >= 7}
    for name, part in parts.items():
        want = metrics.roc_auc_score(y[part], (logits[:, 1] - logits[:, 0])[part])
        assert told[name]["roc-auc"] == pytest.approx(want, abs=1e-5), name
        assert np.sum(told[name]["confusion"]) == part.sum()
    own = run.evaluate()["test"]["roc-auc"]
    assert abs(own - told["test"]["roc-auc"]) > 1e-4
    with pytest.raises(weft.Refused, match="not divided by time"):
        run.evaluate(weft.Graph(**arrays, edge_y=y))


class Normed(Named):
    """Scores of an edge that depend on all edges."""

    def __init__(self, columns, features):
        super().__init__(columns, features)
        self.norm = torch.nn.BatchNorm1d(features)

    def score(self, h, edge_index, attr):
        return super().score(h, edge_index, self.norm(attr))


def test_norm_divided_by_time():
    arrays, y, _ = sets("drift")
    graph = weft.Graph(**arrays, edge_y=y, edge_time=np.arange(1500) % 10)
    with pytest.raises(
        weft.Refused, match="the model Normed has a batch_norm of norm .* over the edges of the graph"
    ):
        weft.train(graph, model=Normed(5, 2), split="time:edge_time=5,7", **SETTINGS)


def test_types_divided_by_time():
    """Of a module of several types; edges of the reverse relation go with theirs, and those of others
    stay."""
    arrays, y, _ = sets("relations")
    time = np.arange(1500) * 7 % 1500 / 150
    edges = arrays["edge_index"]
    torch.manual_seed(5)
    net = Typed({"user": 5, "item": 3}, list(edges), 2)
    graph = weft.Graph(**arrays, edge_y={BUYS: y}, edge_time={BUYS: time})
    x = {name: torch.tensor(features).double() for name, features in arrays["x"].items()}

    def over(net):
        made = []
        for until in (5, 7):
            passing = {
                relation: torch.tensor(ends if relation == KNOWS else ends[:, time < until].copy())
                for relation, ends in edges.items()
            }
            made.append(net.score(net.embed(x, passing), torch.tensor(edges[BUYS])))
        return torch.where(torch.tensor(time >= 7)[:, None], made[1], made[0])

    exact, losses = copy.deepcopy(net).double(), []
    optimizer, some = torch.optim.Adam(exact.parameters(), lr=0.01), torch.tensor(time < 5)
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(over(exact)[some], torch.tensor(y)[some])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for mesh in MESHES:
        run = weft.train(graph, model=net, epochs=5, split="time:edge_time=5,7", **SETTINGS | mesh)
        assert run.summary["losses"] == pytest.approx(losses, abs=1e-5), mesh
        double, found = copy.deepcopy(net).double(), run.state_dict()
        double.load_state_dict({name: torch.tensor(found[name]) for name in net.state_dict()})
        with torch.no_grad():
            assert run.logits == pytest.approx(over(double).numpy(), abs=1e-5), mesh


@pytest.mark.parametrize("labelled", ["edges", "vertices"])
def test_metrics_with_an_argument(labelled):
    """precision@K, recall@fpr=RATE and f1:CLASS of training and of evaluate are scikit-learn's."""
    rng = np.random.default_rng(4)
    ends, x = rng.integers(0, 60, (2, 400)), rng.normal(size=(60, 5)).astype(np.float32)
    score = x[ends[0], 0] + x[ends[1], 1] if labelled == "edges" else x[:, 0]
    is_yes = score + rng.normal(size=len(score)) > 0.5
    split = rng.permutation(len(score)) % 3
    y = np.where(is_yes, "yes", "no")
    labels = (
        {"edge_y": y, "edge_split": split}
        if labelled == "edges"
        else {"y": y, "train_mask": split == 0, "val_mask": split == 1, "test_mask": split == 2}
    )
    task = {"task": "edge"} if labelled == "edges" else {}
    for name in ("precision@5", "recall@fpr=0.1", "f1:yes"):
        run = weft.train(
            weft.Graph(edge_index=ends, x=x, **labels),
            model="sage",
            epochs=8,
            metric=name,
            progress=False,
            **task,
        )
        assert run.summary["metric"] == name
        z = run.logits[:, 1].astype(float) - run.logits[:, 0]
        for part, mask in (("train", split == 0), ("val", split == 1), ("test", split == 2)):
            false, true, _ = metrics.roc_curve(is_yes[mask], z[mask], drop_intermediate=False)
            want = {
                "precision@5": is_yes[mask][np.argsort(-z[mask])[:5]].mean(),
                "recall@fpr=0.1": true[false <= 0.1].max(),
                "f1:yes": metrics.f1_score(is_yes[mask], z[mask] > 0),
            }[name]
            assert run.summary[part] == pytest.approx(want, abs=1e-9), part
            assert run.evaluate()[part][name] == pytest.approx(want, abs=1e-9), part
