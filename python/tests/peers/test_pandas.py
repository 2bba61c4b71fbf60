"""Columns and tables of pandas are arrays, with its ways of saying that a value is missing."""

import numpy as np
import pandas
import pytest

import weft


def test_tables(arrays):
    names = np.array(["red", "green", "blue"], object)
    labelled = arrays["y"] >= 0
    labelled[np.flatnonzero(arrays["train_mask"])[0]] = False
    arrays["train_mask"] &= labelled
    ids = pandas.Series(arrays["y"]).where(labelled)
    texts = pandas.Series(names[arrays["y"]]).where(labelled)
    for kind in ("string", "category", object):
        assert weft.NodeClassifier("mlp", epochs=1).fit(
            weft.Graph(**arrays | {"y": texts.astype(kind)})
        ).classes_.tolist() == ["blue", "green", "red"]
    for y in (ids.astype("Int64"), ids.astype("Int64").astype(object), ids.fillna(-1).astype(int)):
        assert weft.NodeClassifier("mlp", epochs=1).fit(
            weft.Graph(**arrays | {"y": y})
        ).classes_.tolist() == [0, 1, 2]
    for y in (ids, ids.astype("Float64")):
        with pytest.raises(weft.Refused, match="^y: holds floats"):
            weft.NodeClassifier("mlp", epochs=1).fit(weft.Graph(**arrays | {"y": y}))
    mixed = pandas.DataFrame(arrays["x"], dtype="Float64").assign(b=arrays["y"] > 1)
    graph = weft.Graph(**arrays | {"x": mixed})
    assert np.load(graph.store / "features.npy")[:, 5].tolist() == (arrays["y"] > 1).tolist()
    table = pandas.DataFrame(arrays["edge_index"].T, columns=["from", "to"])
    with pytest.raises(weft.Refused, match=r"; give edge_index\.T$"):
        weft.Graph(edge_index=table)
    graph = weft.Graph(edge_index=table.T, y=arrays["y"])
    assert len(np.load(graph.store / "indices.npy")) == 300
    with pytest.raises(weft.Refused, match="^edge_index: holds texts"):
        weft.Graph(edge_index=table.astype("string").T)
