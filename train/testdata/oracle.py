# Writes oracle.json beside it: whole trainings by PyTorch, and measures by scikit-learn. How to run, on
# Debian 12:
#   apt-get install --no-install-recommends python3-torch python3-sklearn
#   /usr/bin/python3 train/testdata/oracle.py
"""Golden values of the training loop and of the metrics.

Everything is computed in float64 from inputs and initial weights that are exact in float32. The file holds

  features   V rows, for all trainings
  trainings  by name: the options that differ from the defaults; labels (V classes, -1 unlabelled; or V rows
             of 0, 1 and null, which is a missing label); the split; init, the weights to start from; and what
             comes of it: losses of all epochs that were run, the evaluations {epoch, val_loss, and by metric
             its values on the training, validation and test vertices}; by metric the best epoch; and by epoch
             the weights and running statistics after it, and the logits in evaluation
  measures   by name: logits, labels, vertices, and the metrics by name, which measures.py computes anew

The model is a perceptron: linear layers, batch or layer norm before ReLU, no dropout. The linear layers
before batch norm have no bias. A training stops when `patience` epochs have not lowered the validation loss
nor, where the metric selects, raised the metric.
"""

import copy
import math

import measures
import numpy
import sklearn
import torch
import torch.nn.functional as F

V, FEATURES, HIDDEN = 48, 6, 8
MARGIN = 2e-4  # that two validation losses must differ by, where one is lower
SELECTING = ("accuracy", "micro-f1", "macro-f1", "roc-auc")  # the metrics of trainings


def single(x):
    """Values that are exact in float32, in float64."""
    return numpy.asarray(x, numpy.float32).astype(numpy.float64)


class Perceptron(torch.nn.Module):
    def __init__(self, layers, norm, outputs, rng):
        super().__init__()
        widths = [FEATURES] + [HIDDEN] * (layers - 1) + [outputs]
        self.lins = torch.nn.ModuleList(
            torch.nn.Linear(a, b, bias=norm != "batch" or i == layers - 1)
            for i, (a, b) in enumerate(zip(widths, widths[1:]))
        )
        self.norms = torch.nn.ModuleList()
        for _ in range(layers - 1):
            if norm == "batch":
                self.norms.append(torch.nn.Module())
                self.norms[-1].module = torch.nn.BatchNorm1d(HIDDEN)
            else:
                self.norms.append(torch.nn.LayerNorm(HIDDEN))
        self.double()
        with torch.no_grad():
            for name, p in self.named_parameters():
                middle = 1 if name.startswith("norms") and name.endswith("weight") else 0
                p.copy_(torch.tensor(single(middle + rng.uniform(-0.5, 0.5, p.shape))))

    def forward(self, x):
        for lin, norm in zip(self.lins, self.norms):
            x = F.relu(getattr(norm, "module", norm)(lin(x)))
        return self.lins[-1](x)


def loss_of(logits, labels, ids):
    if labels.dim() == 1:
        return F.cross_entropy(logits[ids], labels[ids].long())
    there = ~torch.isnan(labels[ids])
    return F.binary_cross_entropy_with_logits(logits[ids][there], labels[ids][there])


def optimizer_of(model, o):
    """Weight decay is that of the linear layers' weights, or those of the first one."""
    last = lambda name: int(name.split(".")[1]) > 0 and o.get("decay-first-layer-only", False)
    decays = lambda name, p: p.dim() > 1 and not last(name)
    groups = [
        {
            "params": [p for name, p in model.named_parameters() if decays(name, p)],
            "weight_decay": o.get("weight-decay", 0),
        },
        {"params": [p for name, p in model.named_parameters() if not decays(name, p)], "weight_decay": 0},
    ]
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[
        o.get("optimizer", "adam")
    ]
    optimizer = make(groups, lr=o["lr"])
    schedule, epochs = o.get("schedule", "constant"), o["epochs"]
    if schedule == "cosine":
        return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    if schedule == "step":
        assert epochs % 10 == 0
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=epochs // 10, gamma=0.5)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)


def state_of(model):
    return {
        name: {"shape": list(t.shape), "values": t.flatten().tolist()}
        for name, t in model.state_dict().items()
    }


def train(o, labels, split, x, rng):
    model = Perceptron(o["layers"], o["norm"], o.pop("outputs"), rng)
    init, y = state_of(model), torch.tensor(labels, dtype=torch.float64)
    optimizer, schedule = optimizer_of(model, o)
    losses, evaluations, after, clipped = [], [], {}, 0
    for epoch in range(1, o["epochs"] + 1):
        model.train()
        optimizer.zero_grad()
        loss = loss_of(model(x), y, split["train"])
        loss.backward()
        if "clip" in o:
            clipped += float(torch.nn.utils.clip_grad_norm_(model.parameters(), o["clip"])) > o["clip"]
        optimizer.step()
        schedule.step()
        losses.append(float(loss))
        if epoch % o.get("eval-every", 1) == 0 or epoch == o["epochs"]:
            model.eval()
            with torch.no_grad():
                z = model(x)
                e = {"epoch": epoch, "val_loss": float(loss_of(z, y, split["val"]))}
                parts = [
                    measures.without_argument(z[split[part]].numpy(), y[split[part]].numpy())
                    for part in ("train", "val", "test")
                ]
                e["metrics"] = {
                    name: [part[name] for part in parts] for name in SELECTING if name in parts[0]
                }
            evaluations.append(e)
            after[epoch] = {"state": copy.deepcopy(state_of(model)), "logits": z.tolist()}
    if "clip" in o:
        assert 0 < clipped < o["epochs"], clipped  # some are, some are not
    metrics = sorted(evaluations[0]["metrics"])
    ends = {
        metric: {
            by: end_of(evaluations, metric, by, o.get("patience", 0), o["epochs"])
            for by in ("metric", "loss")
        }
        for metric in metrics
    }
    best = {e["best"] for by in ends.values() for e in by.values()}
    return {
        "options": o,
        "labels": [[None if math.isnan(v) else v for v in row] for row in labels] if y.dim() > 1 else labels,
        "split": split,
        "init": init,
        "losses": losses,
        "evaluations": evaluations,
        "ends": ends,
        "after": {epoch: after[epoch] for epoch in sorted(best)},
    }


def end_of(evaluations, metric, by, patience, epochs):
    """The best epoch, and the one that a training ends with."""
    best = lowest = None
    since = 0
    for e in evaluations:
        value, loss = e["metrics"][metric][1], e["val_loss"]
        higher, lower = best is None or value > best[1], lowest is None or loss < lowest
        assert lowest is None or abs(loss - lowest) > MARGIN, (metric, e, lowest)
        if lower:
            lowest = loss
        if lower if by == "loss" else higher:
            best = e["epoch"], value
        if lower or by == "metric" and higher:
            since = e["epoch"]
        if patience and e["epoch"] - since >= patience:
            return {"best": best[0], "last": e["epoch"]}
    return {"best": best[0], "last": epochs}


def trainings(rng):
    x = single(rng.normal(size=(V, FEATURES)))
    ids = rng.permutation(V)
    split = {
        part: sorted(int(v) for v in some)
        for part, some in (("train", ids[:20]), ("val", ids[20:33]), ("test", ids[33:44]))
    }
    settings = {
        "classes": dict(
            seed=37,
            outputs=3,
            layers=3,
            norm="batch",
            lr=0.03,
            epochs=20,
            clip=0.4,
            schedule="cosine",
            patience=4,
            **{"weight-decay": 0.02},
        ),
        "labels": dict(
            seed=2,
            outputs=4,
            layers=2,
            norm="batch",
            lr=0.05,
            epochs=10,
            optimizer="adamw",
            schedule="step",
            **{"weight-decay": 0.3, "eval-every": 3},
        ),
        "two": dict(
            seed=35,
            outputs=2,
            layers=2,
            norm="layer",
            lr=0.5,
            epochs=12,
            optimizer="sgd",
            patience=3,
            **{"weight-decay": 0.05, "decay-first-layer-only": True},
        ),
    }
    out = {}
    for name, o in settings.items():
        rng = numpy.random.default_rng(o.pop("seed"))
        true = x @ rng.normal(size=(FEATURES, o["outputs"])) + rng.normal(size=(V, o["outputs"]))
        if name == "labels":
            labels = (true > 0.3).astype(float)
            labels[rng.uniform(size=labels.shape) < 0.3] = math.nan
            labels[split["val"], 3] = 0  # of which there is no area
            labels[ids[44:]] = math.nan
            labels = labels.tolist()
        else:
            labels = [int(c) for c in true.argmax(1)]
            for v in ids[44:]:
                labels[v] = -1
        out[name] = train(o, labels, split, torch.tensor(x), rng)
    return x, out


def tables(rng):
    """Logits of few values, so that many are equal, and some of many."""
    out = {}
    for n, steps in (("ties", 3), ("few ties", 40)):
        for classes in (2, 3, 5):
            logits = single(rng.integers(-steps, steps + 1, size=(30, classes)) / 4)
            labels = [int(c) for c in rng.integers(0, classes, size=30)]
            vertices = sorted(int(v) for v in rng.permutation(30)[:23])
            out[f"{classes} classes, {n}"] = dict(
                classes=classes, logits=logits, labels=labels, vertices=vertices
            )
            several = (rng.uniform(size=(30, classes)) < 0.4).astype(float)
            for missing in (False, True):
                if missing:
                    several[rng.uniform(size=several.shape) < 0.35] = math.nan
                    several[:, 0] = math.nan  # of which no label is there
                name = f"{classes} labels, {n}" + (", some missing" if missing else "")
                out[name] = dict(classes=classes, logits=logits, labels=several.tolist(), vertices=vertices)
    for c in out.values():
        c["metrics"] = measures.metrics(c)
        c["logits"] = c["logits"].tolist()
        if isinstance(c["labels"][0], list):
            c["labels"] = [[None if math.isnan(v) else v for v in row] for row in c["labels"]]
    return out


if __name__ == "__main__":
    rng = numpy.random.default_rng(29)
    x, trained = trainings(rng)
    measures.write(
        {
            "torch": torch.__version__,
            "sklearn": sklearn.__version__,
            "features": x.tolist(),
            "trainings": trained,
            "measures": tables(rng),
        }
    )
    for name, t in trained.items():
        print(name, t["ends"], [round(e["val_loss"], 4) for e in t["evaluations"]])
