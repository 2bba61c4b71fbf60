"""Losses of one's own: they are PyTorch's in float64, on every mesh."""

import copy
import functools
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler
from torch_geometric.nn import GCNConv

import weft

V, FEATURES, CLASSES = 200, 8, 5
BRIEF = {"epochs": 20, "optimizer": "sgd", "lr": 0.1, "progress": False, "checkpoint_every": 0}
MESHES = [{}, {"parallel": "graph=3"}, {"parallel": "tensor=2"}, {"parallel": "pipeline=2", "chunks": 1}]
WEIGHTS = torch.linspace(0.5, 2, CLASSES)


class Net(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.first, self.last = GCNConv(FEATURES, 16), GCNConv(16, columns)

    def forward(self, x, edge_index):
        return self.last(self.first(x, edge_index).relu(), edge_index)


def focal(z, y, gamma=2.0):
    ce = F.cross_entropy(z, y, reduction="none")
    return ((1 - torch.exp(-ce)) ** gamma * ce).mean()


def smoothed(z, y):
    target = F.one_hot(y).double().to(z) * 0.9 + 0.1 / z.size(1)
    return -(target * z.log_softmax(-1)).sum(-1)


def ordinal(z, y):
    return F.binary_cross_entropy_with_logits(z[:, 1:], (y[:, None] > torch.arange(z.size(1) - 1)).to(z))


def hinge(z, y):
    return (z - z.gather(1, y[:, None]) + 1).clamp(min=0).sum(1).mean()


def asymmetric(z, y):
    rest = (z.sigmoid() - 0.05).clamp(min=0)
    return -(y * F.logsigmoid(z) + (1 - y) * rest**4 * torch.log1p(-rest)).sum(1).mean()


def dice(z, y):
    return 1 - (2 * (z.sigmoid() * y).sum() + 1) / (z.sigmoid().sum() + y.sum() + 1)


def shown(z, y):
    ce = F.cross_entropy(z, y, reduction="none")
    SHOWN["ce"] = ce.detach()
    return ce


class Scaled:
    """An object that is called, and keeps what it computed for who looks at it."""

    def __call__(self, z, y):
        self.last = F.cross_entropy(z, y)
        return 2 * self.last

    def half(self, z, y):
        return self(z, y) / 4


SHOWN = {}
CLASSIFY = {
    "cross-entropy with weights and smoothing": nn.CrossEntropyLoss(weight=WEIGHTS, label_smoothing=0.1),
    "cross-entropy without a class": nn.CrossEntropyLoss(ignore_index=2),
    "cross-entropy as a sum": lambda z, y: F.cross_entropy(z, y, reduction="sum") / y.size(0),
    "cross-entropy of probabilities": lambda z, y: F.cross_entropy(
        z, F.one_hot(y, CLASSES).to(z) * 0.9 + 0.02
    ),
    "cross-entropy of smoothed probabilities": lambda z, y: (
        F.cross_entropy(z, F.one_hot(y, CLASSES).to(z), WEIGHTS.to(z), reduction="sum", label_smoothing=0.1)
        / z.size(0)
        + F.cross_entropy(z, z.softmax(1), reduction="none").mean()
    ),
    "cross-entropy and confidence": lambda z, y: (
        F.cross_entropy(z, y) + 0.1 * (z.softmax(1) * z.log_softmax(1)).sum(1).mean()
    ),
    "likelihood": lambda z, y: F.nll_loss(F.log_softmax(z, 1), y, weight=WEIGHTS.to(z)),
    "focal": focal,
    "smoothed by hand": smoothed,
    "ordinal": ordinal,
    "earth mover": lambda z, y: (
        (z.softmax(1).cumsum(1) - F.one_hot(y, CLASSES).cumsum(1)).square().sum(1).mean()
    ),
    "hinge": hinge,
    "margin": nn.MultiMarginLoss(),
    "by weights of classes": lambda z, y: (
        (WEIGHTS.to(z)[y] * F.cross_entropy(z, y, reduction="none")).sum() / WEIGHTS.to(z)[y].sum()
    ),
    "of picked columns": lambda z, y: -z.log_softmax(1)[torch.arange(y.size(0)), y].mean(),
    "of some vertices": lambda z, y: F.cross_entropy(z[y != 0], y[y != 0]),
    "of statistics of all": lambda z, y: F.cross_entropy(z - z.mean(0), y) + z.std(0).mean(),
    "shown": shown,
    "object": Scaled(),
    "bound method": Scaled().half,
    "partial": functools.partial(focal, gamma=1.5),
    "the largest": lambda z, y: F.cross_entropy(z, y, reduction="none").max(),
}
SEVERAL = {
    "binary": nn.BCEWithLogitsLoss(),
    "binary with weights": nn.BCEWithLogitsLoss(pos_weight=WEIGHTS),
    "asymmetric": asymmetric,
    "margin": nn.MultiLabelSoftMarginLoss(),
    "dice": dice,
}
VALUES = {
    "squared": nn.MSELoss(),
    "squared of each": nn.MSELoss(reduction="none"),
    "absolute": nn.L1Loss(),
    "smooth": nn.SmoothL1Loss(beta=0.5),
    "huber": nn.HuberLoss(delta=2),
    "log cosh": lambda z, y: torch.log(torch.cosh(z - y)).mean(),
    "by size": lambda z, y: ((1 + y.abs()) * (z - y) ** 2).mean(),
    "quantile": lambda z, y: torch.maximum(0.9 * (y - z), -0.1 * (y - z)).mean(),
}


@pytest.fixture(scope="module")
def arrays():
    random = torch.Generator().manual_seed(3)
    y = torch.randint(CLASSES, (V,), generator=random)
    part = torch.rand(V, generator=random)
    return {
        "edge_index": torch.randint(V, (2, 900), generator=random),
        "x": torch.randn(V, FEATURES, generator=random),
        "train_mask": part < 0.6,
        "val_mask": part >= 0.6,
    }, {
        "classes": y,
        "several": torch.randint(2, (V, CLASSES), generator=random).float(),
        "values": torch.randn(V, 2, generator=random) * 3 + 1,
    }


def made(columns=CLASSES):
    torch.manual_seed(4)
    return Net(columns)


def pytorch(module, arrays, y, loss, make=lambda m: torch.optim.SGD(m.parameters(), lr=0.1), epochs=20):
    """The losses of PyTorch in float64."""
    module, mask = copy.deepcopy(module).double(), arrays["train_mask"]
    loss = copy.deepcopy(loss).double() if isinstance(loss, nn.Module) else loss
    optimizer, losses = make(module), []
    for _ in range(epochs):
        optimizer.zero_grad()
        value = loss(module(arrays["x"].double(), arrays["edge_index"])[mask], y[mask]).mean()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


LOSSES = [
    (kind, name)
    for kind, names in (("classes", CLASSIFY), ("several", SEVERAL), ("values", VALUES))
    for name in names
]


@pytest.mark.parametrize(("number", "kind", "name"), [(k, *case) for k, case in enumerate(LOSSES)])
def test_losses(arrays, tmp_path, number, kind, name):
    """A loss of one's own, or of torch.nn, trains as in PyTorch; one of values is of standard scores."""
    graph, y = arrays[0], arrays[1][kind]
    loss, module = (
        {"classes": CLASSIFY, "several": SEVERAL, "values": VALUES}[kind][name],
        made(2 if kind == "values" else CLASSES),
    )
    scores = y if y.dtype == torch.long else y.double()
    if kind == "values":
        labelled = scores[graph["train_mask"]]
        scores = (scores - labelled.mean(0)) / labelled.std(0, correction=0)
    wanted = pytorch(module, graph, scores, loss)
    meshes = [*MESHES, {"partitions": 3, "offload": tmp_path}]
    run = weft.train(
        weft.Graph(y=y, **graph), model=module, loss=loss, **BRIEF, **meshes[number % len(meshes)]
    )
    np.testing.assert_allclose(run.history["loss"], wanted, rtol=1e-5)


SCHEDULERS = {
    "step": lambda o: lr_scheduler.StepLR(o, 5, 0.3),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, [0.4, 0.2], total_steps=25, cycle_momentum=False),
    "from nothing": lambda o: lr_scheduler.LambdaLR(o, lambda k: min(1, k / 4)),
    "several": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, 1, 4), lr_scheduler.ExponentialLR(o, 0.9)], [4]
    ),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers(arrays, name):
    """A scheduler of torch.optim says the rate of each epoch, and a run that continues keeps them."""
    graph, y, module = arrays[0], arrays[1]["classes"], made()

    def sgd(m):
        return torch.optim.SGD(
            [{"params": m.first.parameters(), "lr": 0.2}, {"params": m.last.parameters()}], lr=0.1
        )

    def make(m):
        optimizer = sgd(m)
        scheduler = SCHEDULERS[name](optimizer)
        optimizer.register_step_post_hook(lambda *_: scheduler.step())
        return optimizer

    optimizer = sgd(module)
    run = weft.train(
        weft.Graph(y=y, **graph),
        model=module,
        scheduler=SCHEDULERS[name](optimizer),
        epochs=20,
        progress=False,
    )
    np.testing.assert_allclose(
        run.history["loss"], pytorch(module, graph, y, F.cross_entropy, make), rtol=1e-5
    )
    assert run.settings["schedule"].startswith("factors-")


def test_schedulers_refuse(arrays):
    graph, module = weft.Graph(y=arrays[1]["classes"], **arrays[0]), made()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    step = lr_scheduler.StepLR(optimizer, 5)
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3)
    run = weft.train(graph, model=module, scheduler=plateau, epochs=2, progress=False)
    assert [run.settings[k] for k in ("schedule", "plateau_factor", "plateau_patience", "select")] == [
        "plateau",
        "0.5",
        "3",
        "loss",
    ]
    for message, settings in {
        "scheduler: is of no optimizer, or of another one": {"scheduler": step, "optimizer": "adam"},
        "warmup: the scheduler says how the rate changes": {"scheduler": step, "warmup": 3},
        "OneCycleLR changes the momentum, too: give cycle_momentum=False": {
            "scheduler": lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=25)
        },
        "cooldown=2 is not what weft has: give cooldown=0": {
            "scheduler": lr_scheduler.ReduceLROnPlateau(optimizer, cooldown=2)
        },
        "weft has no least rate: give min_lr=0": {
            "scheduler": lr_scheduler.ReduceLROnPlateau(optimizer, min_lr=1e-3)
        },
    }.items():
        with pytest.raises(weft.Refused, match=message):
            weft.train(graph, model=module, epochs=4, progress=False, **settings)


def test_everywhere(arrays):
    """Whatever takes a loss takes a function: named models, sweeps, plans and estimators; the run keeps
    it."""
    graph, settings = weft.Graph(y=arrays[1]["classes"], **arrays[0]), {"epochs": 4, "progress": False}
    run = weft.train(graph, model="gcn", loss=focal, out="run", **settings)
    assert run.settings["loss"].startswith("focal-")
    short = weft.train(
        graph, model="gcn", loss=focal, out="short", **settings | {"epochs": 2}, checkpoint_every=1
    )
    resumed = weft.train(graph, resume=short, epochs=4, progress=False)
    assert resumed.history["loss"].tolist() == run.history["loss"].tolist()
    with pytest.raises(weft.Refused, match="the run to continue has focal-"):
        weft.train(graph, resume=short, loss=hinge, epochs=4, progress=False)
    file = weft.train(graph, model="gcn", loss=run.directory / "loss.json", **settings)
    assert file.history["loss"].tolist() == run.history["loss"].tolist()
    assert weft.plan(graph, workers=2, loss=focal)["meshes"]
    assert weft.plan(workers=2, vertices=1000, edges=9000, features=8, classes=5, loss=focal)["meshes"]
    runs = weft.sweep(
        graph, grid={"lr": [0.1, 0.2]}, loss=nn.CrossEntropyLoss(label_smoothing=0.1), out="sweep", **settings
    )
    assert {entry.settings["label_smoothing"] for entry in runs} == {"0.1"}
    models = [made(), lambda features, classes: made()]
    wanted = pytorch(made(), arrays[0], arrays[1]["classes"], focal, epochs=4)
    for one in weft.sweep(
        graph, grid={"model": models}, loss=focal, out="own", lr=0.1, optimizer="sgd", **settings
    ):
        np.testing.assert_allclose(one.history["loss"], wanted, rtol=1e-5)
    with pytest.raises(
        TypeError,
        match=(
            "unknown keyword regularization: add it to the loss in a loop of your own, by weft.compile; "
            "docs/loop.md"
        ),
    ):
        weft.train(graph, model="gcn", regularization=lambda m: 0.0, **settings)
    assert (
        weft.NodeClassifier(loss=hinge, epochs=2, out="fitted")
        .fit(graph)
        .run_.settings["loss"]
        .startswith("hinge-")
    )


CALLS = {"n": 0}


def annealed(z, y):
    CALLS["n"] += 1
    return F.cross_entropy(z, y) * (2 if CALLS["n"] > 9 else 1)


class Annealed:
    """A loss that is another after nine calls, by what it keeps."""

    def __init__(self):
        self.calls = 0

    def __call__(self, z, y):
        self.calls += 1
        return F.cross_entropy(z, y) * (2 if self.calls > 9 else 1)

    def annealed(self, z, y):
        return self(z, y)


def of_list(z, y, calls):
    calls.append(1)
    return F.cross_entropy(z, y) * (2 if len(calls) > 9 else 1)


def moving(z, y):
    MEAN["ce"] = 0.9 * MEAN["ce"] + 0.1 * F.cross_entropy(z, y).detach()
    return F.cross_entropy(z, y) * torch.where(MEAN["ce"] > 100, 2.0, 1.0)


MEAN = {"ce": torch.zeros(())}


def by_coin(z, y):
    return F.cross_entropy(z, y) * (1 if random.random() < 2 else 2)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (nn.CrossEntropyLoss, r"loss: CrossEntropyLoss is a class: give a loss, as CrossEntropyLoss\(\)"),
        (nn.Linear(2, 2), "loss: Linear has parameters of its own, which nothing would train"),
        (lambda z, y: z.sum(0), "returns neither a number nor one for each vertex: return the mean"),
        (lambda z, y: y.float().mean(), "does not depend on the logits"),
        (lambda z, y: z.detach().mean(), "of random logits and labels it is no finite number"),
        (
            lambda z, y: (-z.square()).log().mean(),
            r"is no finite number \(it is nan\): write it for any logits",
        ),
        (
            lambda z, y: (z * torch.rand_like(z)).mean(),
            r"test_loss.py:\d+: .*: rand_like draws random numbers",
        ),
        (
            lambda z, y: F.cross_entropy(F.dropout(z), y),
            "draws random numbers: a loss is the same in each epoch",
        ),
        (annealed, "loss: changes CALLS in each call: a loss is the same in each epoch"),
        (Annealed(), "loss: changes Annealed in each call"),
        (Annealed().annealed, r"loss: changes Annealed.annealed in each call"),
        (functools.partial(of_list, calls=[]), "loss: changes partial in each call"),
        (moving, "loss: changes MEAN in each call"),
        (by_coin, "loss: draws random numbers of Python or NumPy"),
        (
            lambda z, y: (z @ z.t()).mean(),
            "each pair of vertices, .*: a loss is of each vertex's logits and labels",
        ),
        (
            lambda z, y: F.cross_entropy(z, y, reduction="none").topk(9)[0].mean(),
            "topk orders, .*: a loss is of each",
        ),
        (lambda z, y: z[torch.tensor([0, 1])].mean(), "taken by their position: a loss is of each vertex's"),
        (
            lambda z, y: F.cross_entropy(z, y) + NET.last.lin.weight.norm(),
            "^loss: reads a parameter of a module: it is of logits and labels; in a loop of your own, by",
        ),
        (
            lambda z, y: F.cross_entropy(z, y, reduction="sum") / len(y),
            r"len\(\) is one number for all graphs: write labels.size\(0\)",
        ),
        (lambda z, y: F.mse_loss(z, y), r"weft calls the loss as f\(logits, labels\)"),
        (
            lambda z: z.mean(),
            r"takes 1 positional argument but 2 were given; weft calls the loss as f\(logits, labels\)",
        ),
        (
            lambda z, y: z.sum() if z.sum() > 0 else z.mean(),
            "depends on values.*: write a comparison and torch.where",
        ),
    ],
)
def test_refuses(arrays, loss, message):
    with pytest.raises((weft.Refused, TypeError), match=message):
        weft.train(weft.Graph(y=arrays[1]["classes"], **arrays[0]), model="gcn", loss=loss, **BRIEF)


NET = made()
