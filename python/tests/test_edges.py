"""Labels of edges: given as arrays, learned, and predicted in the order in which the edges were given."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from processes import weft as command

import weft

random = np.random.default_rng(3)
EDGES = random.integers(0, 40, (2, 400))  # some are parallel
X = random.normal(size=(40, 4)).astype(np.float32)
ATTR = random.normal(size=(400, 2)).astype(np.float32)
Y = (X[EDGES[0], 0] + ATTR[:, 0] > 0).astype(int)
PART = random.choice(["train", "val", "test"], 400)


def graph(**changes):
    return weft.Graph(**{"edge_index": EDGES, "x": X, "edge_attr": ATTR, "edge_y": Y} | changes)


def train(data, **settings):
    return weft.train(data, **{"task": "edge", "hidden": 8, "epochs": 5, "progress": False} | settings)


def test_bits_of_the_command(folder):
    """Some edges have no label, and a rule divides the others: losses and predictions are those of a list of
    edges."""
    labels = np.where(np.arange(400) % 7, Y, -1)
    lines = [
        f"{u},{v},{p},{q},{'' if c < 0 else c}" for (u, v), (p, q), c in zip(EDGES.T, ATTR.tolist(), labels)
    ]
    (folder / "e.csv").write_text("\n".join(["source,target,p,q,y", *lines]), encoding="utf-8")
    np.save("x.npy", X)
    command(
        "import",
        "edges",
        "e.csv",
        "store",
        "--features",
        "x.npy",
        "--edge-label",
        "y",
        "--split",
        "random:60/20/20",
    )
    command("train", "store", "--edge-label", "y", "--hidden", 8, "--epochs", 5, "--out", "cli")
    run, cli = train(graph(edge_y=labels, split="random:60/20/20"), out="py"), weft.load("cli")
    assert run.summary["losses"] == cli.summary["losses"] and run.summary["test"] == cli.summary["test"]
    assert (np.load("py/predictions.npy") == cli.logits).all()
    assert (run.logits == cli.logits[np.argsort(np.argsort(EDGES[1] * 40 + EDGES[0], kind="stable"))]).all()


def test_several_columns(folder):
    """Several columns of labels, some without a value, are an array of several labels: the same bits."""
    other = random.random(400) < 0.3
    missing = [np.arange(400) % 7 == 0, np.arange(400) % 5 == 0]
    labels = np.stack(
        [np.where(gone, np.nan, column) for gone, column in zip(missing, (Y, other))], 1
    ).astype(np.float32)
    cells = [
        ["" if gone[k] else word for k, word in enumerate(words)]
        for gone, words in (
            (missing[0], [f"{c}" for c in Y]),
            (missing[1], np.where(other, "true", "no").tolist()),
        )
    ]
    lines = [f"{a},{u},{v},{p},{q},{b}" for (u, v), (p, q), a, b in zip(EDGES.T, ATTR.tolist(), *cells)]
    (folder / "e.csv").write_text("\n".join(["one,source,target,p,q,two", *lines]), encoding="utf-8")
    np.save("x.npy", X)
    command(
        "import",
        "edges",
        "e.csv",
        "store",
        "--features",
        "x.npy",
        "--edge-label",
        "one, two",
        "--split",
        "random:60/20/20",
    )
    command("train", "store", "--edge-label", "one, two", "--hidden", 8, "--epochs", 5, "--out", "cli")
    run, cli = train(graph(edge_y=labels, split="random:60/20/20"), out="py"), weft.load("cli")
    assert run.summary["losses"] == cli.summary["losses"] and run.summary["test"] == cli.summary["test"]
    assert (np.load("py/predictions.npy") == cli.logits).all() and cli.classes.tolist() == ["one", "two"]
    table = cli.predict(columns=["edge", "probabilities"])
    assert list(table) == ["edge", "one", "two"]
    np.testing.assert_allclose(table["two"], cli.probabilities[:, 1], atol=1e-6)


FORMS = {
    "rule": lambda: "random:60/20/20",
    "tuple": lambda: tuple(np.flatnonzero(PART == part) for part in ("train", "val", "test")),
    "masks": lambda: [PART == part for part in ("train", "val", "test")],
    "dict": lambda: {
        "train": np.flatnonzero(PART == "train"),
        "valid": (PART == "val").tolist(),
        "test": PART == "test",
    },
    "numbers": lambda: [["train", "val", "test"].index(part) for part in PART],
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_a_split(form):
    """Each form of edge_split divides the edges alike, and labels of edges alone are learned without a
    task."""
    named = (
        {"split": "random:60/20/20"}
        if form == "rule"
        else {f"edge_{part}_mask": PART == part for part in ("train", "val", "test")}
    )
    run = weft.train(graph(edge_split=FORMS[form]()), hidden=8, epochs=3, progress=False, out="r")
    assert run.summary["task"] == "edge"
    assert run.summary["losses"] == train(graph(**named), epochs=3, out="n").summary["losses"]
    key = ("user", "rates", "item")
    typed = {
        "edge_index": {key: EDGES, ("item", "rev", "user"): EDGES[::-1]},
        "x": {"user": X, "item": X},
        "edge_y": {key: Y},
        "edge_split": FORMS[form](),
    }
    again = weft.train(weft.Graph(**typed), hidden=8, epochs=3, progress=False, out="t")
    lists = typed | {"edge_split": {key: typed["edge_split"]}}
    assert (
        again.summary["losses"]
        == weft.train(weft.Graph(**lists), task="edge", hidden=8, epochs=3, progress=False, out="l").summary[
            "losses"
        ]
    )


@pytest.mark.parametrize(
    ("split", "error"),
    [
        (([0, 1], [1, 2], [3]), "an edge is in two parts, or twice in one"),
        (([0, 1], [2, 4, 2], [3]), "an edge is in two parts, or twice in one"),
        (([0, 1], [2], [400]), "400 is no number of 400 edges, from 0"),
        (([0, 1], [2], [-1]), "-1 is no number of 400 edges, from 0"),
        (([True, False], [2], [3]), "edge_split: has the shape .* give numbers of edges, or 400 booleans"),
        (([0.5], [2], [3]), "edge_split: has the shape .* give numbers of edges, or 400 booleans"),
        (
            (np.ones(400, np.uint8), [], []),
            "edge_split: holds uint8, a mask or numbers of edges: give booleans, or numbers as int64",
        ),
        ({"train": [0], "held": [1]}, "'held' is no part of a split"),
        (np.full(400, 7), "three arrays of edges, or a rule"),
    ],
)
def test_splits_refused(split, error):
    with pytest.raises(weft.Refused, match=error):
        graph(edge_split=split)


def test_rules_refused():
    with pytest.raises(weft.Refused, match="are both rules"):
        graph(edge_split="random:60/20/20", split="random:50/25/25")
    with pytest.raises(weft.Refused, match="train_mask divides some"):
        graph(edge_split="random:60/20/20", y=np.zeros(40, int), train_mask=np.ones(40, bool))


def test_labels_of_vertices_first():
    """Where vertices have labels, too, these are learned without a task; an estimator of vertices needs
    some."""
    both = graph(y=(X[:, 0] > 0).astype(int), split="random:60/20/20")
    assert weft.train(both, epochs=2, progress=False, out="r").summary["task"] == "vertex"
    with pytest.raises(
        weft.Refused, match="edge_y: labels edges, and NodeClassifier learns those of vertices"
    ):
        weft.NodeClassifier(epochs=2).fit(graph(edge_split=PART))
    with pytest.raises(
        weft.Refused,
        match=(
            "give y, or edge_y of edges, to weft.Graph, or labels to weft import; or learn edges with "
            'task="link"$'
        ),
    ):
        weft.train(weft.Graph(edge_index=EDGES, x=X), epochs=2, progress=False)


def by_hand(run, attr=ATTR):
    """Logits in double precision: an MLP of vertices, and one of both ends, their product and standard
    scores."""
    w = {name: array.astype(float) for name, array in run.state_dict().items()}
    mean, deviation = attr.mean(0, dtype=float), attr.std(0, dtype=float)
    assert w["edge_features.mean"] == pytest.approx(mean, abs=1e-6)
    h = np.maximum(X @ w["lins.0.weight"].T + w["lins.0.bias"], 0) @ w["lins.1.weight"].T + w["lins.1.bias"]
    u, v = h[EDGES]
    z = np.concatenate([u, v, u * v, (attr - mean) / deviation], 1)
    z = np.maximum(z @ w["decoder.lins.0.weight"].T + w["decoder.lins.0.bias"], 0)
    return z @ w["decoder.lins.1.weight"].T + w["decoder.lins.1.bias"]


def test_rows_are_those_of_the_edges():
    run = train(
        graph(edge_y=np.where(Y > 0, "yes", "no"), edge_split=PART), model="mlp", epochs=30, dropout=0
    )
    logits = by_hand(run)
    assert run.logits == pytest.approx(logits, abs=2e-5)
    assert run.classes.tolist() == ["no", "yes"] and (run.predictions == logits.argmax(1)).all()
    assert (run.predict() == run.predictions).all()
    right = run.predictions == Y
    for part in ("train", "val", "test"):
        assert run.summary[part] == pytest.approx(right[PART == part].mean(), abs=1e-12)
        assert run.evaluate()[part]["accuracy"] == run.summary[part]
    table = run.predict(columns=["class", "probabilities"])
    assert (table["edge"] == np.arange(400)).all() and (
        np.stack([table["source"], table["target"]]) == EDGES
    ).all()
    assert table["probability_yes"] == pytest.approx(run.probabilities[:, 1], abs=1e-6)
    top = run.predict(columns=["class"], sort="yes", top=9)
    assert (top["edge"] == np.argsort(-run.logits[:, 1] + run.logits[:, 0], kind="stable")[:9]).all()
    loaded = weft.load(run.directory)
    assert (loaded.predict(run._graph) == run.predictions).all()
    for source, data in ((run, None), (loaded, run._graph)):
        for sort, want in (("edge", np.arange(400)), ("-edge", np.arange(400)[::-1])):
            for top in (None, 7):
                table = source.predict(data, columns=["probabilities"], sort=sort, top=top)
                assert (table["edge"] == want[:top]).all()
                assert (np.stack([table["source"], table["target"]]) == EDGES[:, want[:top]]).all()
                assert table["probability_yes"] == pytest.approx(run.probabilities[want[:top], 1], abs=1e-6)
        table = source.predict(data, columns=["target", "probability_yes"])
        assert list(table) == ["target", "probability_yes"] and (table["target"] == EDGES[1]).all()
        assert table["probability_yes"] == pytest.approx(run.probabilities[:, 1], abs=1e-6)
    with pytest.raises(weft.Refused, match="^top -1: a number of rows from 1 was expected"):
        run.predict(columns=["class"], sort="edge", top=-1)


def test_other_graphs_without_labels(folder):
    """A prediction needs no labels: of another graph, in memory or stored, in classes or values, of several
    types."""
    run = train(graph(edge_y=np.where(Y > 0, "yes", "no"), edge_split=PART), model="mlp", dropout=0, out="r")
    values = train(graph(edge_y=ATTR[:, 0] * 2, edge_split=PART), model="mlp", dropout=0, out="v")
    new = random.permutation(400)[:250]
    other = weft.Graph(edge_index=EDGES[:, new], x=X, edge_attr=ATTR[new])
    want = by_hand(run)[new]
    made = run.predict(other, output="logits")
    assert made == pytest.approx(want, abs=2e-5)
    assert (weft.load("r").predict(other) == want.argmax(1)).all()
    assert values.predict(other) == pytest.approx(values.predictions[new], abs=1e-5)
    table = run.predict(other, columns=["class", "probability_yes"])
    assert (table["source"] == EDGES[0, new]).all() and (
        table["class"] == np.array(["no", "yes"])[want.argmax(1)]
    ).all()
    with pytest.raises(weft.Refused, match="its edges have no labels"):
        run.evaluate(other)
    key, back = ("user", "rates", "item"), ("item", "rev", "user")
    typed = {
        "edge_index": {back: EDGES[::-1], key: EDGES},
        "x": {"user": X, "item": X},
        "edge_attr": {key: ATTR},
    }
    several = train(weft.Graph(**typed, edge_y={key: Y}, edge_split=PART), out="t")
    assert several.predict(weft.Graph(**typed), output="logits") == pytest.approx(several.logits, abs=1e-6)


def test_columns_of_several_values():
    """Columns of values stand between those of both ends, which are numbers of vertices in whatever place."""
    y = np.stack([5 + 3 * ATTR[:, 1], ATTR[:, 0]], 1)
    run = train(graph(edge_y=y, edge_split=PART), model="mlp", dropout=0)
    table = run.predict(columns=["target", "value", "source"])
    assert list(table) == ["target", "value_0", "value_1", "source"]
    assert (np.stack([table["source"], table["target"]]) == EDGES).all() and table["source"].dtype == np.int64
    assert np.stack([table["value_0"], table["value_1"]], 1) == pytest.approx(run.predictions, rel=1e-5)


@pytest.mark.parametrize("form", ["values", "several"])
def test_forms(form):
    """Values are in their own units. Of several labels of an edge some are missing."""
    masks = {
        f"edge_{part}_mask": np.stack([PART == part, PART[::-1] == part], 1)
        for part in ("train", "val", "test")
    }
    y = 5 + 3 * ATTR[:, 1] if form == "values" else np.stack([Y, 1 - Y], 1)
    run = train(graph(edge_y=y, **masks), split=1, epochs=60, lr=0.01, dropout=0, model="mlp")
    test = PART[::-1] == "test"
    if form == "values":
        error = np.sqrt(((run.predictions - y)[test] ** 2).mean())
        assert run.summary["test"] == pytest.approx(error, rel=1e-5) and error < 1.5
    else:
        assert run.predictions.shape == (400, 2) and (run.predictions == y)[test].mean() > 0.8


def test_floats_of_two_values_are_classes():
    """Floats that are all 0 and 1 are classes, also with some missing; other whole ones are values, with a
    warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="edge_")
        run, other_run = (
            train(graph(edge_y=Y.astype("f4"), edge_split=PART)),
            train(graph(edge_y=Y, edge_split=PART)),
        )
        gaps = np.where(PART == "train", Y, np.nan)
        assert (
            train(graph(edge_y=gaps, edge_train_mask=PART == "train"), epochs=1, eval_every=1).summary[
                "graph"
            ]["classes"]
            == 2
        )
        graph(edge_y=5 * ATTR[:, 0])
    assert run.summary["losses"] == other_run.summary["losses"] and run.probabilities.shape == (400, 2)
    with pytest.warns(
        UserWarning,
        match="^edge_y: its floats are whole numbers, 3 to 4, and taken for values to predict; .astype",
    ):
        stars = graph(edge_y=3.0 + Y, edge_split=PART)
    assert train(stars).summary["metric"] == "rmse"


def test_several_types():
    x = {"user": X, "item": X[:30] * 2}
    edges = {("user", "rates", "item"): EDGES % 30, ("user", "knows", "user"): EDGES}
    stars = {("user", "rates", "item"): np.arange(400) % 5}
    part = {("user", "rates", "item"): PART == "train"}
    run = train(weft.Graph(x=x, edge_index=edges, edge_y=stars, edge_train_mask=part), seed=2)
    order = np.lexsort((np.arange(400), *(EDGES % 30)))  # by target, then source
    assert (np.load(run.directory / "predictions.npy") == run.logits[order]).all()
    table = run.predict(columns=["class"], sort="edge", top=50)
    assert (table["edge"] == np.arange(50)).all() and (table["source"] == EDGES[0, :50] % 30).all()
    assert (table["class"] == run.predictions[:50]).all()
    assert run.summary["train"] == pytest.approx(
        (run.predictions == stars["user", "rates", "item"])[PART == "train"].mean()
    )
    with pytest.raises(weft.Refused, match="are both labels of edges: leave out all but those to learn"):
        weft.inspect(weft.Graph(x=x, edge_index=edges, edge_y=stars | {("user", "knows", "user"): Y}))


@pytest.mark.parametrize("labels", ["two", "four", "several"])
@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_calibrated(method, labels):
    """Probabilities and classes of a calibrated run are those of its tables, and others than the logits'."""
    y = {
        "two": Y,
        "four": 2 * Y + (X[EDGES[1], 1] > 0),
        "several": np.stack([Y, X[EDGES[1], 1] > 0], 1).astype(np.float32),
    }
    data = graph(edge_y=y[labels], edge_split=PART)
    run, own = train(data, calibrate=method, out="c"), train(data, out="own")
    assert (run.logits == own.logits).all() and np.abs(run.probabilities - own.probabilities).max() > 1e-3
    table = run.predict(columns=["probabilities"] if labels == "several" else ["class", "probabilities"])
    names = [name for name in table if name.startswith(("probability_", "label_"))]
    assert len(names) == run.probabilities.shape[1]
    if labels == "two":
        assert [part["accuracy"] for part in run.evaluate().values()] == [
            part["accuracy"] for part in own.evaluate().values()
        ]
        at = run.summary["threshold"]["at"]
        decided = run.predict(columns=["class"], threshold="best")["class"].astype(int)
        clear = np.abs(run.probabilities[:, 1] - at) > 1e-6
        assert (decided == (run.probabilities[:, 1] > at))[clear].all()
        val, chosen = PART == "val", run.probabilities[:, 1] >= at - 1e-9
        f1 = 2 * (chosen & (Y > 0))[val].sum() / (chosen[val].sum() + Y[val].sum())
        assert run.summary["threshold"]["f1"] == pytest.approx(f1, abs=1e-9)
        with pytest.raises(weft.Refused, match="^threshold='best': is for tables; give columns=.\"class\"."):
            run.predict(threshold="best")
    assert ("thresholds" in run.summary) == (labels == "several")
    for k, name in enumerate(names):
        np.testing.assert_allclose(table[name], run.probabilities[:, k], atol=1e-6)
    if labels != "several":
        assert (np.asarray(table["class"], int) == run.predictions).all()


def test_edge_to_explain_is_a_number():
    with pytest.raises(
        weft.Refused,
        match=r"give one number: that of edge_index, or of tables the column edge of run.predict\(columns=",
    ):
        train(graph(edge_split=PART), epochs=1).explain(edge=("u5", "i0"))


def test_new_edges(folder):
    """Rows of new edges have the order of their list, whatever that of the graph's edges is."""
    run = train(graph(edge_split=PART), out="r")
    new = random.permutation(400)
    lines = [f"{u},{v},{p},{q}" for (u, v), (p, q) in zip(EDGES.T[new], ATTR[new].tolist())]
    (folder / "new.csv").write_text("\n".join(["source,target,0,1", *lines]), encoding="utf-8")
    made = run.predict(output="logits", add_edges="new.csv", edge_features="0,1")
    np.testing.assert_allclose(made, run.logits[new], atol=1e-5)
    likely = 1 / (1 + np.exp(made[:, 0] - made[:, 1]))
    columns, settings = ["row", "probabilities"], {"add_edges": "new.csv", "edge_features": "0,1"}
    table = run.predict(columns=columns, **settings)
    assert (np.diff(table["probability_1"]) <= 0).all()
    np.testing.assert_allclose(table["probability_1"], likely[table["row"]], atol=1e-6)
    table = run.predict(columns=columns, sort="row", **settings)
    assert (table["row"] == np.arange(400)).all()
    np.testing.assert_allclose(table["probability_1"], likely, atol=1e-6)
    table = run.predict(columns=["probabilities", "target", "class"], sort="row", **settings)
    assert list(table) == ["probability_0", "probability_1", "target", "class"]
    assert table["target"].dtype == np.int64 and (table["target"] == EDGES[1, new]).all()


def test_reverse_relations():
    """The reverse relation that is added to a graph of one type changes no order."""
    run = train(graph(edge_split=PART, reverse_relations=True), out="r")
    again = weft.load("r").logits
    order = np.argsort(np.argsort(EDGES[1] * 40 + EDGES[0], kind="stable"))
    assert (run.logits == again[order]).all()


DATES = np.datetime64("2024-01-01T00:00:00.5") + np.arange(400) * np.timedelta64(3, "h")
RULE = "time:edge_time=2024-01-30,2024-02-10T12:00"


@pytest.mark.parametrize("form", ["datetime64", "texts", "objects", "numbers"])
def test_divided_by_time(form):
    """Edges before the first date train, those from then on validate, and those from the second one on
    test."""
    dates = random.permutation(DATES)
    seconds = dates.astype("datetime64[us]").astype(np.int64)
    times = {
        "texts": dates.astype(str),
        "objects": dates.astype(object),
        "numbers": seconds,
        "datetime64": dates,
    }
    first, second = np.datetime64("2024-01-30"), np.datetime64("2024-02-10T12:00")
    part = np.where(dates < first, 0, np.where(dates < second, 1, 2))
    assert set(part) == {0, 1, 2}
    rule = RULE
    if form == "numbers":
        rule = "time:edge_time=" + ",".join(
            str(date.astype("datetime64[us]").astype(int)) for date in (first, second)
        )
    want = train(graph(edge_split=part))
    run = train(graph(edge_time=times[form], split=rule), pass_messages="all")
    assert run.summary["losses"] == want.summary["losses"] and run.summary["test"] == want.summary["test"]
    assert (run.logits == want.logits).all()
    later = train(graph(edge_time=times[form], split="random:60/20/20"), split=rule, pass_messages="all")
    assert later.summary["losses"] == want.summary["losses"]


def test_messages_to_later_edges():
    """Features of later edges change no earlier score, and edges of one period are scored over those
    before."""
    first, second = np.datetime64("2024-01-30"), np.datetime64("2024-02-10T12:00")
    dates = random.permutation(DATES)
    settings = {"model": "gine", "eval_every": 5, "seed": 3}
    run = train(graph(edge_time=dates, split=RULE), **settings)
    assert (run.predict(output="logits") == run.logits).all()
    for date in (first, second):
        attr = np.where((dates >= date)[:, None], -9 * ATTR, ATTR)
        other = train(graph(edge_time=dates, split=RULE, edge_attr=attr), **settings)
        assert (other.logits[dates < date] == run.logits[dates < date]).all()
        assert (other.logits[dates >= date] != run.logits[dates >= date]).any()


def test_sweep_and_resume():
    g = graph(edge_split=np.where(PART == "train", 0, 2))
    found = weft.sweep(g, grid={"lr": [0.01, 0.1]}, task="edge", model="sage", epochs=2, progress=False)
    assert len(found) == 2 and all(run.logits.shape == (400, 2) for run in found)
    with pytest.warns(
        UserWarning, match="there are no validation edges, so the results are those of the last epoch"
    ):
        whole, half = train(g, epochs=4, out="whole"), train(g, epochs=2, out="half")
    assert half.logits.shape == (400, 2)
    assert (train(g, resume="half", epochs=4).logits == whole.logits).all()
    assert weft.plan(g, workers=2, task="edge")["meshes"] and "tensors" in weft.show_plan(g, task="edge")


def test_refused():
    plain = weft.Graph(edge_index=EDGES, x=X)
    with pytest.raises(
        weft.Refused, match='^task="edge": the edges of the graph have no labels: give them as edge_y$'
    ):
        train(plain)
    with pytest.raises(weft.Refused, match="or edge_y of edges, to weft.Graph"):
        train(graph(), task="vertex")
    divided = {"edge_split": PART}
    for changes, line in [
        ({"edge_y": Y[:5]}, 'array "edge_y": has 5 rows, not 400'),
        ({"edge_split": ["x"] * 400}, "edge_split: 'x' is no part of a split: give train, val or test"),
        ({"edge_split": np.full(400, 3)}, "edge_split: give one of train, val and test for each edge"),
        ({"edge_y": np.full(400, -1)}, 'array "edge_y": no edge has a label: leave it out'),
        (
            {"edge_split": PART[:5]},
            "edge_split: says of 5 edges what they are for, and there are 400: give one",
        ),
        ({"edge_y": None, **divided}, '^edge_split: there are no labels of edges "edge_y"'),
        (
            {"split": "random:60/20/20", **divided},
            "split: edge_split divides the edges; give masks, or split",
        ),
        ({"edge_val_mask": PART == "val", **divided}, "edge_split: edge_val_mask divides the edges, too"),
        ({"edge_y": np.where(PART == "val", -1, Y), **divided}, "^edge_split: edge [0-9]+ has no label"),
        (
            {"edge_y": np.where(PART == "val", -1, Y), "edge_val_mask": PART == "val"},
            'array "edge_val_mask": edge [0-9]+ has no label',
        ),
        ({"edge_train_mask": PART == "val", "edge_val_mask": PART == "val"}, "is also in edge_train_mask"),
        (
            {"edge_time": DATES[:5]},
            r'array "edge_time": has shape \[5\]: it must have a date or a number for each of 400',
        ),
        (
            {"edge_time": np.where(Y > 0, DATES, np.datetime64("nat"))},
            'edge [0-9]+ has "NaT", which is no date',
        ),
        (
            {"edge_time": np.where(Y > 0, 1, np.nan)},
            'array "edge_time": edge [0-9]+ has NaN: give each edge a number',
        ),
        ({"split": RULE}, "keeps no such column of its edges"),
        (
            {"edge_time": DATES, "split": RULE.replace("10T", "50T")},
            "is no date and no number: write dates as 2024-01-31",
        ),
        ({"symmetrize": True}, r"symmetrize: edges have labels \(edge_y\)"),
    ]:
        with pytest.raises(weft.Refused, match=line):
            weft.inspect(graph(**changes))
