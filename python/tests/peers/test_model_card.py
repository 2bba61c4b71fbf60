"""Every figure of a model card is that of scikit-learn, SciPy and NumPy, of the predictions that the runs
keep."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

CITIES = np.array(["Bern", "Oslo", "Paris", "Rome", ""])
DAY = np.datetime64("2024-01-01")


def weft(*arguments):
    p = subprocess.run(
        [os.environ["WEFT_PROGRAM"], *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert p.returncode == 0, p.stderr
    return p.stdout


class Card(dict):
    """The tables of a card by the headings above them: lists of rows."""

    def __init__(self, text):
        super().__init__()
        self.text, heading = text, ""
        for line in text.splitlines():
            if line.startswith("#"):
                heading = line.lstrip("# ")
            elif line.startswith("| "):
                cells = [cell.strip().replace("\\", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                self.setdefault(heading, []).append(cells)

    def row(self, heading, name):
        return next(row[1:] for row in self[heading] if row[0] == name)


def share(x):
    return "–" if np.isnan(x) else f"{100 * x:.2f} %"


def spread(values):
    """Mean, sample deviation and Student's interval within 0 and 1."""
    values = np.array(values)[~np.isnan(values)]
    if len(values) < 2:
        return [share(values.mean()) if len(values) else "–", "–", "–"]
    mean, deviation = values.mean(), values.std(ddof=1)
    half = stats.t.ppf(0.975, len(values) - 1) * deviation / np.sqrt(len(values))
    return [share(mean), share(deviation), f"{share(max(0, mean - half))} to {share(min(1, mean + half))}"]


def span(values):
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,} to {max(values):,}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("card"), np.random.default_rng(3)
    risk, city, member = (
        draw.random(300),
        CITIES[draw.choice(5, 300, p=[0.03, 0.17, 0.3, 0.45, 0.05])],
        draw.random(300) < 0.5,
    )
    with (folder / "people.csv").open("w") as f:
        to = csv.writer(f)
        to.writerow(["id", "city", "member", "score", "late"])
        for k in range(300):
            seen = f"{risk[k] + draw.normal() * 0.3:.4f}"
            to.writerow(
                [f"c{k}", city[k], ["no", "yes"][int(member[k])], seen, ["no", "yes"][int(risk[k] > 0.7)]]
            )
    with (folder / "pay.csv").open("w") as f:
        to = csv.writer(f)
        to.writerow(["payer", "payee", "online", "paid", "fraud"])
        for _ in range(1500):
            u, v = draw.integers(300, size=2)
            day, fraud = DAY + int(draw.integers(60)), risk[u] + risk[v] + draw.normal() * 0.2 > 1.4
            to.writerow(
                [f"c{u}", f"c{v}", ["no", "yes"][int(draw.integers(2))], day, ["no", "yes"][int(fraud)]]
            )
    ends = ["--source", "payer", "--target", "payee", "--vertices-from", folder / "people.csv", "--quiet"]
    weft(
        "import",
        "edges",
        folder / "pay.csv",
        folder / "people",
        *ends,
        "--label",
        "late",
        "--split",
        "random:40/20/40",
    )
    weft(
        "train",
        folder / "people",
        "--epochs",
        20,
        "--hidden",
        8,
        "--seeds",
        3,
        "--quiet",
        "--out",
        folder / "late",
    )
    ends += [
        "--edge-label",
        "fraud",
        "--edge-features",
        "online",
        "--split",
        "time:paid=2024-02-01,2024-02-10",
    ]
    weft("import", "edges", folder / "pay.csv", folder / "payments", *ends)
    learned = ["--edge-label", "fraud", "--calibrate", "temperature", "--epochs", 40, "--quiet"]
    weft("train", folder / "payments", *learned, "--out", folder / "fraud")
    return folder


def probabilities(logits):
    e = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_of_vertices_over_seeds(folder):
    card = Card(weft("report", folder / "late", "--card", "--groups", "city,member"))
    store, people = folder / "people", list(csv.DictReader((folder / "people.csv").open()))
    names = json.loads((store / "names.json").read_text())
    people = [{p["id"]: p for p in people}[name] for name in names]
    truth = np.array([p["late"] == "yes" for p in people]).astype(int)
    parts = [np.load(store / f"{part}.npy") for part in ("train", "val", "test")]
    logits = [np.load(folder / "late" / f"seed-{k}" / "predictions.npy") for k in range(3)]
    test = parts[2]

    assert [row[1] for row in card["Split"][1:]] == [f"{len(part):,}" for part in parts]
    expected = {
        "accuracy": lambda y, z: metrics.accuracy_score(y, z.argmax(1)),
        "roc-auc": lambda y, z: metrics.roc_auc_score(y, probabilities(z)[:, 1]),
        "average-precision": lambda y, z: metrics.average_precision_score(y, probabilities(z)[:, 1]),
        "macro-f1": lambda y, z: metrics.f1_score(y, z.argmax(1), average="macro"),
    }
    for name, measure in expected.items():
        got = card.row("Metrics", name)
        by_part = [[measure(truth[part], z[part]) for z in logits] for part in parts]
        assert got == [spread(by_part[0])[0], spread(by_part[1])[0], *spread(by_part[2])], name
    scores = [metrics.precision_recall_fscore_support(truth[test], z[test].argmax(1)) for z in logits]
    for k, name in enumerate(("no", "yes")):
        precision, recall, f1 = ([s[i][k] for s in scores] for i in range(3))
        assert card.row("Classes", name) == [
            span([s[3][k] for s in scores]),
            spread(precision)[0],
            spread(recall)[0],
            *spread(f1),
        ]
    for column in ("city", "member"):
        value = np.array([p[column] or "(missing)" for p in people])
        groups = {row[0]: row[1:] for row in card[f"Groups: {column}"][1:]}
        assert sorted(groups) == sorted(set(value[test]) | set(value[parts[0]]))
        for group, got in groups.items():
            rows = test[value[test] == group]
            right = [np.mean(z[rows].argmax(1) == truth[rows]) if len(rows) else np.nan for z in logits]
            late = f"{truth[rows].sum():,}"
            assert got == [f"{np.sum(value[parts[0]] == group):,}", f"{len(rows):,}", late, *spread(right)], (
                group
            )
    confusion = sum(metrics.confusion_matrix(truth[test], z[test].argmax(1)) for z in logits)
    assert [row[1:] for row in card["Confusion"][1:]] == [[f"{n:,}" for n in row] for row in confusion]
    tested = np.array([p["city"] or "(missing)" for p in people])[test]
    counts = {group: np.bincount(truth[test][tested == group], minlength=2) for group in sorted(set(tested))}
    few = [
        f"{group} ({n.min()} {('yes', 'no')[int(n[0] < n[1])]})"
        for group, n in counts.items()
        if n.min() < 30
    ]
    line = f"Groups of city with fewer than 30 test vertices of one of the classes: {', '.join(few)}."
    assert line in card.text.replace("\\", "") and max(sum(n) for n in counts.values()) > 30


def test_of_edges_calibrated(folder):
    card = Card(weft("report", folder / "fraud", "--card", "--groups", "online,payer.city"))
    run = json.loads((folder / "fraud" / "run.json").read_text())
    predicted = folder / "fraud.csv"
    weft("predict", folder / "fraud", "--out", predicted)
    rows = list(csv.DictReader(predicted.open()))
    city = {p["id"]: p["city"] or "(missing)" for p in csv.DictReader((folder / "people.csv").open())}
    by_ends = {}
    for p in csv.DictReader((folder / "pay.csv").open()):
        by_ends.setdefault((p["payer"], p["payee"]), []).append(p)
    kept = [r for r in range(len(rows)) if len(by_ends[rows[r]["payer"], rows[r]["payee"]]) == 1]
    assert (
        len(rows) == 1500 and len(kept) > 1400
    )  # but for those between the same two, whose order is the store's
    store = folder / "payments"
    truth, test = np.load(store / "edge_labels.npy"), np.load(store / "edge_test.npy")
    for r in kept:
        p = by_ends[rows[r]["payer"], rows[r]["payee"]][0]
        assert (truth[r] == 1) == (p["fraud"] == "yes")
    logits = np.load(folder / "fraud" / "predictions.npy")
    p = probabilities(logits / np.float64(run["calibration"]["temperature"]))
    assert card.row("Metrics", "roc-auc")[2] == share(metrics.roc_auc_score(truth[test], p[test, 1]))

    by_city = {"(missing)": [], **{name: [] for name in CITIES[:4]}}
    for r in test:
        by_city[city[rows[r]["payer"]]].append(r)
    for name, edges in by_city.items():
        right = np.mean(logits[edges].argmax(1) == truth[edges])
        assert card.row("Groups: payer.city", name)[1:] == [
            f"{len(edges):,}",
            f"{truth[edges].sum():,}",
            share(right),
        ], name
    online = np.load(store / "edge_features.npy")[:, 0]
    for name, value in (("no", 0), ("yes", 1)):
        edges = test[online[test] == value]
        right = np.mean(logits[edges].argmax(1) == truth[edges])
        assert card.row("Groups: online", name)[1:] == [
            f"{len(edges):,}",
            f"{truth[edges].sum():,}",
            share(right),
        ]

    assert (
        "from a calibrated probability on, of test edges, where the confusion above counts the largest output"
        in card.text
    )
    for row in card["Thresholds"][1:]:
        at = run["threshold"]["at"] if "best" in row[0] else float(row[0])
        flagged = p[test, 1] >= at
        precision = metrics.precision_score(truth[test], flagged, zero_division=np.nan)
        assert row[1:] == [
            f"{flagged.sum():,}",
            share(precision),
            share(metrics.recall_score(truth[test], flagged)),
        ], row
    sure, right = p[test].max(1), p[test].argmax(1) == truth[test]
    bins = np.minimum((sure * 15).astype(int), 14)
    assert [row[1:] for row in card["Calibration"][1:]] == [
        [f"{np.sum(bins == k):,}", share(sure[bins == k].mean()), share(right[bins == k].mean())]
        for k in sorted(set(bins))
    ]
    days = np.load(store / "edge_split_by.npy") / 86400
    for name, part in (("training", "train"), ("validation", "val"), ("test", "test")):
        edges = np.load(store / f"edge_{part}.npy")
        first, last = (np.datetime64(int(day), "D") for day in (days[edges].min(), days[edges].max()))
        assert card.row("Split", name) == [f"{len(edges):,}", f"paid {first} to {last}"]
    paid = [p["paid"] for p in csv.DictReader((folder / "pay.csv").open())]
    late = [day for day in paid if day >= "2024-02-10"]
    assert card.row("Split", "test") == [f"{len(late):,}", f"paid {min(late)} to {max(late)}"]
    assert f"paid {min(late)} to {max(late)}" in card.text.rpartition("## ")[2]
    assert card.row("Data", "digest of the store") == [run["graph_id"]]
