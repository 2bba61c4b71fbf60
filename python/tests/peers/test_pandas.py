"""Columns and tables of pandas are arrays, with its ways of saying that a value is missing."""

import io
import json
import random
from pathlib import Path

import numpy as np
import pandas
import pytest
from processes import weft as program

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


def read_csv(text):
    """Texts of a table as pandas reads them, without the blanks around them, which weft leaves out."""
    table = pandas.read_csv(
        io.StringIO(text), dtype=str, keep_default_na=False, skipinitialspace=True, index_col=False
    )
    return table.rename(columns=str.strip).apply(lambda column: column.str.strip())


def test_quotes(tmp_path):
    """Fields in odd quotes are those of pandas in ids, ends, classes, categories and names of columns."""
    draw = random.Random(1)
    parts = [
        "a",
        "b c",
        '"',
        '""',
        '"x"',
        '"y,z"',
        '""v',
        ",",
        " ",
        "'",
        '"p\nq"',
        '"r"s',
        ' "t"',
        '"u" ',
        'w""',
    ]
    texts = [
        '""v5',
        '"a"b',
        '"c""d"e',
        '"f, g" h',
        '"i"j"k"',
        'l"m"',
        '"n" "o"',
        '"\n"p',
        '"q\n""r"s',
        '"""t"""',
    ]
    texts += ["".join(draw.choice(parts) for _ in range(draw.randint(1, 4))) for _ in range(150)]
    rows = {}
    for text in texts:
        try:
            found = read_csv(f"p,q\n{text},0\n").to_numpy().tolist()
        except pandas.errors.ParserError:  # a quote is not closed, or there are more fields
            continue
        if len(found) == 1 and found[0][0] and found[0][1] == "0":
            rows[found[0][0]] = text  # one of each value
    assert len(rows) > 50
    header = '"id"",""x",a"b,"c"s,"d\n"e\n'
    texts = list(rows.values())
    table = header + "".join(f"{text},{text},{k % 2},{texts[k % 40]}\n" for k, text in enumerate(texts))
    edges = "source,target\n" + "".join(f"{texts[-1]},{text}\n" for text in texts)
    Path("vertices.csv").write_text(table)
    Path("edges.csv").write_text(edges)
    known = read_csv(table)
    settings = ["--id", known.columns[0], "--label", known.columns[1], "--categories", 200]
    program("import", "edges", "edges.csv", "store", "--vertices-from", "vertices.csv", *settings)
    names = json.loads(Path("store/names.json").read_text())
    assert names == known.iloc[:, 0].tolist() == list(rows)
    assert sorted(json.loads(Path("store/class_names.json").read_text())) == sorted(known.iloc[:, 1])
    made = json.loads(Path("store/graph.json").read_text())["vertices"][0]["table"]
    assert [column["name"] for column in made["columns"]] == known.columns[2:].tolist()
    assert made["columns"][1]["categories"] == sorted(set(known.iloc[:, 3]))
    assert np.load("store/indices.npy").tolist() == [len(rows) - 1] * len(rows)


def test_without_room(without_room, tmp_path):
    """A table that cannot be written is one line."""
    numbers = np.arange(1 << 16)
    for text in (numbers, numbers.astype(str)):
        with pytest.raises(weft.Failed) as error:
            weft.train(pandas.DataFrame({"source": numbers, "target": text}))
        why = "cannot be written there: "
        assert str(error.value).startswith(f"{tmp_path}: edges {why}") and "File too large" in str(
            error.value
        )
        assert str(error.value).endswith("; make room, or name another folder by TMPDIR")
