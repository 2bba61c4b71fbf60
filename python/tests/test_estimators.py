"""Estimators are what scikit-learn's users expect, and tell classes of any graph by their names."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import weft


def test_classifier(arrays):
    names = np.array(["red", "green", "blue"])[arrays["y"]]
    model = weft.NodeClassifier(model="mlp", hidden=8, epochs=60, out="run")
    assert model.get_params() == {
        "model": "mlp",
        "out": "run",
        "progress": False,
        "callbacks": (),
        "hidden": 8,
        "epochs": 60,
    }
    with pytest.raises(weft.Refused, match=r"^this NodeClassifier is not fitted yet: call fit\(data\)$"):
        model.predict()
    graph = weft.Graph(**arrays | {"y": names})
    assert (
        model.fit(graph) is model
        and model.classes_.tolist() == ["blue", "green", "red"]
        and model.n_features_in_ == 5
    )
    there = arrays["test_mask"]
    assert model.score() == pytest.approx((model.predict() == names)[there].mean())
    assert model.score(part="train") == pytest.approx((model.predict() == names)[arrays["train_mask"]].mean())
    assert (model.classes_[model.predict_proba().argmax(1)] == model.predict()).all()
    other = weft.Graph(edge_index=arrays["edge_index"], x=arrays["x"][::-1].copy())
    assert (model.predict(other) == model.predict()[::-1]).all()
    assert model.predict_proba(other) == pytest.approx(model.predict_proba()[::-1], abs=1e-6)
    copy = type(model)(**model.get_params(deep=False)).set_params(out=None, hidden=4)
    assert (
        repr(copy) == "NodeClassifier(model='mlp', hidden=4, epochs=60)" and model.get_params()["hidden"] == 8
    )
    assert not hasattr(copy, "classes_") and copy.fit(graph).run_.settings["hidden"] == "4"


def test_several_labels(arrays):
    """The score is micro-F1: of all pairs of a vertex and a class, 2 · hits / (2 · hits + misses)."""
    y = np.stack([arrays["y"] == 0, arrays["x"][:, 0] > 1], 1)
    model = weft.NodeClassifier("mlp", hidden=8, epochs=20).fit(weft.Graph(**arrays | {"y": y}))
    predicted, right = model.predict()[arrays["test_mask"]], y[arrays["test_mask"]]
    hits, misses = (predicted & right).sum(), (predicted != right).sum()
    assert hits > 0 and model.score() == pytest.approx(2 * hits / (2 * hits + misses))


def test_regressor(arrays):
    y = arrays["x"][:, 0] * 2
    model = weft.NodeRegressor("mlp", hidden=16, epochs=100, dropout=0).fit(weft.Graph(**arrays | {"y": y}))
    there = arrays["test_mask"]
    residual, spread = ((model.predict() - y)[there] ** 2).sum(), ((y[there] - y[there].mean()) ** 2).sum()
    assert model.score() == pytest.approx(1 - residual / spread, abs=1e-4) and model.score() > 0.5
    with pytest.raises(weft.Refused, match="^y: holds classes; give floats, or take NodeClassifier$"):
        weft.NodeRegressor("mlp", epochs=1, out="early").fit(weft.Graph(**arrays))
    assert not os.path.exists("early")  # refused before the training
    with pytest.raises(
        weft.Refused, match=r"^y: holds floats, .*as by \.fillna\(-1\)\.astype\(int\), or take NodeRegressor$"
    ):
        weft.NodeClassifier("mlp", epochs=1).fit(weft.Graph(**arrays | {"y": y}))


NAMES = np.array(["red", "green", "blue"], object)


def test_names_on_another_graph(arrays):
    """Expected by hand: the share of labelled test vertices whose text is the predicted one."""
    names = NAMES[arrays["y"]]
    model = weft.NodeClassifier("mlp", hidden=8, epochs=60, out="run").fit(
        weft.Graph(**arrays | {"y": names})
    )
    part = names != "blue"  # no label is the first of the model's
    fewer = {name: arrays[name] & part for name in ("train_mask", "val_mask", "test_mask")}
    second = weft.Graph(**arrays | fewer | {"y": np.where(part, names, None)})
    assert second.classes.tolist() == ["green", "red"]
    right = model.predict(second) == names
    own = model.run_.predict(second) == np.load(second.store / "labels.npy")  # by the graph's own numbers
    for one in ("train", "test"):
        expected = right[fewer[f"{one}_mask"]].mean()
        assert (
            model.score(second, part=one) == pytest.approx(expected)
            and expected != own[fewer[f"{one}_mask"]].mean()
        )
    measured = model.run_.evaluate(second)["test"]["classes"]
    assert [one["name"] for one in measured] == ["blue", "green", "red"] and measured[0]["support"] == 0
    run = weft.train(
        weft.Graph(**arrays | {"y": names}), model="mlp", hidden=8, epochs=60, validate=second, progress=False
    )
    there = np.array(["blue", "green", "red"])[run.predict(second)] == names
    assert run.summary["test"] == pytest.approx(there[fewer["test_mask"]].mean())
    only = weft.Graph(
        edge_index=arrays["edge_index"],
        x=arrays["x"],
        y=names,
        test_mask=arrays["test_mask"],
        train_mask=np.zeros(60, bool),
    )
    assert model.score(only) == pytest.approx(model.score())
    right, test = model.predict() == names, np.flatnonzero(arrays["test_mask"])
    names[test[0]] = "pink"
    with pytest.warns(
        UserWarning, match='^class "pink" is none of the 3 classes that were learned; such vertices'
    ):
        assert model.score(weft.Graph(**arrays | {"y": names})) == pytest.approx(right[test[1:]].mean())


def test_names_stay(arrays):
    weft.train(
        weft.Graph(**arrays | {"y": NAMES[arrays["y"]]}), model="mlp", epochs=2, out="run", progress=False
    )
    run = weft.load("run")  # its graph is gone
    assert run.classes.tolist() == ["blue", "green", "red"]
    other = weft.Graph(**arrays | {"y": NAMES[arrays["y"]]})
    assert [one["name"] for one in run.evaluate(other)["test"]["classes"]] == ["blue", "green", "red"]
    assert json.loads(Path("run/run.json").read_text())["class_names"] == ["blue", "green", "red"]


def test_weights_that_the_model_does_not_use(arrays):
    graph = weft.Graph(**arrays, edge_weight=np.linspace(1, 2, 300))
    with pytest.warns(
        UserWarning, match="^the graph has edge weights, which sage does not use; gcn, gcnii, appnp, sgc do$"
    ) as warned:
        weft.train(graph, epochs=1, progress=False)
    assert len(warned) == 1 and warned[0].filename == __file__


def test_saved(arrays):
    model = weft.NodeClassifier("mlp", hidden=8, epochs=3).fit(weft.Graph(**arrays))
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.get_params() == model.get_params() and (again.predict() == model.predict()).all()
        assert again.classes_.tolist() == [0, 1, 2] and again.score(weft.Graph(**arrays)) == model.score()


def test_keywords():
    for made in (
        lambda **settings: weft.NodeClassifier(**settings),
        lambda **settings: weft.NodeClassifier().set_params(**settings),
    ):
        with pytest.raises(TypeError, match=r"^unknown keyword hiden: did you mean hidden\?$"):
            made(hiden=3)
        with pytest.raises(TypeError, match=r"^unknown keyword random_state: did you mean seed\?$"):
            made(random_state=3)
        with pytest.raises(
            weft.Refused,
            match=r"^seeds: asks for several runs, and an estimator has one; "
            r"take weft.train\(graph, seeds=…\)$",
        ):
            made(seeds=2)
    with pytest.raises(TypeError, match="positional"):
        weft.NodeClassifier("gcn", 16)
    model = weft.NodeClassifier("gcn", hidden=16)
    assert model.hidden == 16
    model.hidden = 8
    assert model.get_params()["hidden"] == 8 and repr(model) == "NodeClassifier(model='gcn', hidden=8)"


def test_refused(arrays):
    model = weft.NodeClassifier("mlp", epochs=1)
    graph = weft.Graph(**arrays)
    for call in (model.fit, model.score):
        with pytest.raises(weft.Refused, match="^y: a graph has its labels: give a weft.Graph alone; "):
            call(graph, arrays["y"])
    with pytest.raises(weft.Refused, match='^task="link": learns edges'):
        weft.NodeClassifier(task="link").fit(graph)
    empty = weft.Graph(**arrays | {"test_mask": np.zeros(60, bool)})
    with pytest.raises(
        weft.Refused,
        match="^score: the graph has no labelled test vertices; give test_mask, "
        'or another part, as part="val"$',
    ):
        model.fit(empty).score()
