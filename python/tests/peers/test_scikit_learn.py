"""Estimators are those of scikit-learn."""

import pytest
from sklearn import base, model_selection

import weft


def test_estimators(arrays):
    model = weft.NodeClassifier("mlp", hidden=8, epochs=3)
    assert base.is_classifier(model) and base.is_regressor(weft.NodeRegressor())
    assert base.clone(model).get_params() == model.get_params()
    graph = weft.Graph(**arrays)
    with pytest.raises(TypeError, match="^a Graph is no array of rows, ") as error:
        model_selection.GridSearchCV(model, {"hidden": [4]}).fit(graph)
    names = {"weft": weft, "graph": graph}
    exec(str(error.value).partition("validation vertices: ")[2], names)  # the lines that work
    assert [run.settings["hidden"] for run in sorted(names["found"], key=lambda run: run.directory)] == [
        "16",
        "64",
    ]
    assert names["run"].summary["val"] == max(run.summary["val"] for run in names["found"])
