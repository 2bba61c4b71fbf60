"""Tables of pandas, Polars, Arrow and DuckDB train and predict as files of them do."""

import json
import logging
import warnings

import numpy as np
import pandas
import pytest

import weft
from weft import _tables

SETTINGS = {
    "label": "segment",
    "source": "payer",
    "target": "payee",
    "epochs": 5,
    "hidden": 8,
    "progress": False,
}


@pytest.fixture(scope="module")
def tables():
    draw = np.random.default_rng(1)
    n = 120
    ids = np.array([f"c{k}" for k in range(n)])
    customers = pandas.DataFrame({
        "id": ids, "age": draw.integers(20, 70, n).astype(float),
        "since": pandas.Timestamp("2020-01-31") + pandas.to_timedelta(draw.integers(0, 900, n), "D"),
        "city": pandas.Categorical(draw.choice(["Rome", "Paris", "Oslo"], n)), "member": draw.random(n) < 0.5,
        "segment": np.where(draw.random(n) < 0.4, "a", "b"),
    })  # fmt: skip
    customers.loc[::7, "age"] = np.nan
    payments = pandas.DataFrame(
        {"payer": draw.choice(ids, 600), "payee": draw.choice(ids, 600), "amount": draw.random(600)}
    )
    return payments, customers


@pytest.fixture(scope="module")
def of_files(tables, tmp_path_factory):
    """The run of the same tables as CSV, and their folder."""
    folder = tmp_path_factory.mktemp("tables")
    for table, name in zip(tables, ("payments", "customers")):
        table.to_csv(folder / f"{name}.csv", index=False)
    run = weft.train(
        folder / "payments.csv", vertices_from=folder / "customers.csv", out=folder / "run", **SETTINGS
    )
    return run, folder


def as_they_are(table):
    return table


def polars(table):
    pytest.importorskip("pyarrow")  # which reads tables of pandas for it
    return pytest.importorskip("polars").from_pandas(table)


def arrow(table):
    return pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)


def reader(table):
    """Batches of 50 rows, which can be read once."""
    batches = arrow(table).to_batches(max_chunksize=50)
    return pytest.importorskip("pyarrow").RecordBatchReader.from_batches(batches[0].schema, batches)


def duckdb(table):
    return pytest.importorskip("duckdb").from_df(table)


@pytest.mark.parametrize("frame_of", [as_they_are, polars, arrow, reader, duckdb])
def test_trains_as_files(frame_of, tables, of_files, tmp_path):
    payments, customers = map(frame_of, tables)
    run = weft.train(payments, vertices_from=customers, out=tmp_path / "run", **SETTINGS)
    assert run.history["loss"].tolist() == of_files[0].history["loss"].tolist()
    assert run.logits.tolist() == of_files[0].logits.tolist()
    assert run.predict(output="logits").tolist() == run.logits.tolist()


def test_reader_is_read_by_parts(tables, tmp_path, monkeypatch):
    """Of a reader of Arrow few rows are in memory at once: a row group is written before all have been
    read."""
    pyarrow = pytest.importorskip("pyarrow")
    payments, customers = tables
    drawn = payments[["payer", "payee"]].sample(200_000, replace=True, random_state=0)
    batch = pyarrow.RecordBatch.from_pandas(drawn, preserve_index=False)
    read, written = [], []

    def batches():
        for _ in range(40):
            read.append(batch.nbytes)
            yield batch

    write = pyarrow.parquet.ParquetWriter.write_table
    monkeypatch.setattr(
        pyarrow.parquet.ParquetWriter,
        "write_table",
        lambda self, table: (written.append((len(read), table.nbytes)), write(self, table)),
    )
    settings = {name: SETTINGS[name] for name in ("source", "target", "label")}
    batches_reader = pyarrow.RecordBatchReader.from_batches(batch.schema, batches())
    assert weft.inspect(batches_reader, vertices_from=customers, **settings)["edges"] == 40 * 200_000
    assert 1 < len(written) and written[0][0] < 40
    assert max(size for _, size in written) < (64 << 20) + 2 * batch.nbytes


def test_other_tables(tables, of_files):
    payments, customers = tables
    later, new = payments.iloc[::2], customers.iloc[20:].sample(frac=1, random_state=1)
    run, folder = of_files
    later.to_csv(folder / "later.csv", index=False)
    new.to_csv(folder / "new.csv", index=False)
    wanted = run.predict(
        folder / "later.csv", columns=["class", "probability"], vertices_from=folder / "new.csv"
    )
    got = run.predict(later, columns=["class", "probability"], vertices_from=new)
    assert list(got) == ["vertex", "name", "class", "probability"]
    for name in got:
        assert got[name].tolist() == wanted[name].tolist()
    added = pandas.DataFrame({"payer": ["c1"], "payee": ["c2"], "amount": [1.0]})
    added.to_csv(folder / "added.csv", index=False)
    changed = [
        run.predict(columns=["class"], add_edges=edges, changed=True)
        for edges in (added, folder / "added.csv")
    ]
    assert changed[0]["name"].tolist() == changed[1]["name"].tolist() != []


def test_index_and_objects(tables, of_files, tmp_path):
    payments, customers = tables
    mixed = payments.assign(note=[1, "x", None] * 200)  # which Parquet does not have
    for k, indexed in enumerate((customers.set_index("id"), customers.set_index("id", drop=False))):
        run = weft.train(mixed, vertices_from=indexed, out=tmp_path / f"run{k}", **SETTINGS)
        assert run.history["loss"].tolist() == of_files[0].history["loss"].tolist()


def test_types(tables, tmp_path):
    payments, customers = tables
    halves = {"person": customers.iloc[:60], "shop": customers.iloc[60:].drop(columns="segment")}
    draw = np.random.default_rng(2)
    sales = pandas.DataFrame(
        {"who": draw.choice(customers["id"][:60], 300), "where": draw.choice(customers["id"][60:], 300)}
    )
    settings = SETTINGS | {
        "source": "shop:where",
        "target": "person:who",
        "label": "person:segment",
        "layers": 1,
    }
    run = weft.train(sales, vertices_from=halves, out=tmp_path / "run", **settings)
    for name, table in {"edges": sales, **halves}.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [f"{name}={tmp_path / name}.csv" for name in halves]
    same = weft.train(tmp_path / "edges.csv", vertices_from=files, out=tmp_path / "same", **settings)
    assert run.history["loss"].tolist() == same.history["loss"].tolist()
    assert (
        weft.inspect(sales, vertices_from=halves, **{k: settings[k] for k in ("source", "target", "label")})[
            "edges"
        ]
        == 300
    )
    new = customers.iloc[:1].assign(id="edges1")
    added = pandas.DataFrame({"where": [customers["id"][70]], "who": ["edges1"]})
    table = run.predict(
        columns=["class"], add_vertices={"person": new}, add_edges={"edges": added}, changed=True
    )
    assert table["name"].tolist() == ["edges1"]
    with pytest.raises(weft.Refused, match="add_edges: 'a,b' is no name of a relation"):
        run.predict(add_edges={"a,b": added})
    with pytest.raises(weft.Refused, match="vertices_from: 'a/b' is no name of a vertex type"):
        weft.train(sales, vertices_from={"a/b": customers}, **settings)
    refused = "no table of vertices is of the type shop, but of person: give "
    refused += 'vertices_from={"shop": …}, too, where the column of ids is enough$'
    with pytest.raises(weft.Refused, match=refused):
        weft.train(sales, vertices_from={"person": halves["person"]}, **settings)
    with pytest.raises(
        weft.Refused,
        match="^vertices_from: a list of tables does not say of what vertex type each is: "
        "give a dict of them$",
    ):
        weft.train(sales, vertices_from=list(halves.values()), **settings)
    one = "is one table, and its columns are to be like those of person, shop: give a table of each, "
    one += 'vertices_from={"person": …, "shop": …}$'
    with pytest.raises(weft.Refused, match="^vertices_from: " + one):
        run.predict(sales, vertices_from=halves["person"], source="where", target="who")
    with pytest.raises(
        weft.Refused,
        match=r'^add_vertices: of which vertex type .* name one, as in add_vertices={"person": …}$',
    ):
        run.predict(add_vertices=new)


def test_refused(tables):
    payments, customers = tables
    with pytest.raises(weft.Refused, match=r"^edges(:1)?: there is no column buyer, which source asks for"):
        weft.train(payments, vertices_from=customers, **SETTINGS | {"source": "buyer"})
    twice = payments.assign(amounts=2.0).set_axis(["payer", "payee", "amount", "amount"], axis=1)
    with pytest.raises(weft.Refused, match='^edges(:1)?: two columns are called "amount": rename one$'):
        weft.train(twice, vertices_from=customers, edge_features=["amount"], **SETTINGS)


def test_names_with_commas_and_quotes(tables, tmp_path):
    """A list of names has any names of columns."""
    payments, customers = tables
    odd = payments.rename(columns={"amount": 'a"b, "c"'}).assign(**{"d,e": 1.0})
    run = weft.train(
        odd, vertices_from=customers, edge_features=["d,e", 'a"b, "c"'], out=tmp_path / "run", **SETTINGS
    )
    store = json.loads((tmp_path / "run" / "run.json").read_text())["store"]
    assert np.load(store + "/edge_features.npy")[:, 0].tolist() == [1.0] * len(payments)
    assert sorted(np.load(store + "/edge_features.npy")[:, 1]) == pytest.approx(
        sorted(payments["amount"]), abs=1e-6
    )
    with pytest.raises(weft.Refused, match='^columns a"b,c: unknown'):
        run.predict(columns=['a"b,c'])


def test_files_go_with_the_run(tables, tmp_path):
    payments, customers = tables
    run = weft.train(payments, vertices_from=customers, out=tmp_path / "run", **SETTINGS)
    folder = run._files.path
    assert (folder / "vertices_from.parquet").exists() or (folder / "vertices_from.csv").exists()
    del run
    assert not folder.exists()


@pytest.mark.parametrize("frame_of", [as_they_are, polars, arrow, duckdb])
def test_relations(frame_of, tmp_path):
    """A dict of lists is a graph of their relations, and has the losses of one of arrays with the same
    edges."""
    draw = np.random.default_rng(3)
    people, shops = [f"p{k}" for k in range(80)], [f"s{k}" for k in range(20)]
    x = {"person": draw.random((80, 2)), "shop": draw.random((20, 1))}
    y = draw.integers(0, 2, 80)
    buys, follows = (
        np.stack([draw.integers(0, 80, 200), draw.integers(0, 20, 200)]),
        draw.integers(0, 80, (2, 150)),
    )
    tables = {
        "buys": pandas.DataFrame({"who": np.take(people, buys[0]), "where": np.take(shops, buys[1])}),
        "follows": pandas.DataFrame(
            {"who": np.take(people, follows[0]), "whom": np.take(people, follows[1])}
        ),
    }
    vertices = {
        "person": pandas.DataFrame(
            {"id": people, "a": x["person"][:, 0], "b": x["person"][:, 1], "kind": np.take(["m", "n"], y)}
        ),
        "shop": pandas.DataFrame({"id": shops, "size": x["shop"][:, 0]}),
    }
    settings = {"model": "rgcn", "hidden": 8, "epochs": 5, "progress": False, "split": "random:60/20/20"}
    edges = {("person", "buys", "shop"): buys, ("person", "follows", "person"): follows}
    edges |= {(target, f"rev_{name}", source): e[::-1] for (source, name, target), e in edges.items()}
    graph = weft.Graph(x=x, y={"person": y}, edge_index=edges)
    wanted = weft.train(graph, out=tmp_path / "wanted", normalize_features="standard", **settings)
    columns = {
        "label": "kind",
        "source": ["buys:who", "follows:who"],
        "target": ["buys:where", "follows:whom"],
    }
    made = {name: frame_of(table) for name, table in tables.items()}
    nodes = {name: frame_of(table) for name, table in vertices.items()}
    run = weft.train(
        made, vertices_from=nodes, reverse_relations=True, out=tmp_path / "run", **columns, **settings
    )
    assert run.history["loss"].tolist() == pytest.approx(wanted.history["loss"].tolist(), rel=1e-5)
    tables["follows"].to_csv(tmp_path / "follows.csv.gz", index=False)
    mixed = {"buys": made["buys"], "follows": tmp_path / "follows.csv.gz"}
    again = run.predict(
        mixed,
        output="logits",
        vertices_from=nodes,
        reverse_relations=True,
        **{k: columns[k] for k in ("source", "target")},
    )
    assert again.tolist() == run.logits.tolist()
    assert weft.inspect(made, vertices_from=nodes, **columns)["edges"] == 350
    with pytest.raises(weft.Refused, match="edges: 'a/b' is no name of a relation"):
        weft.train({"a/b": made["buys"]}, vertices_from=nodes, **columns)


def test_warns(tables, tmp_path):
    payments, customers = tables
    open_dates = customers.assign(since="01/02/2024")
    with pytest.warns(
        UserWarning, match="column since: dates as “01/02/2024” do not say which number is the day"
    ):
        weft.train(payments, vertices_from=open_dates, out=tmp_path / "run", **SETTINGS)


def test_labels_of_edges_that_are_whole_floats(tables, tmp_path):
    """They are classes, as in a file, and a warning says so; 0 and 1, and a decision of values, need none."""
    payments, customers = tables
    draw = np.random.default_rng(2)
    payments = payments.assign(
        stars=draw.integers(1, 6, len(payments)).astype(float), fraud=(payments["amount"] > 0.5).astype(float)
    )
    settings = {
        "vertices_from": customers,
        "split": "random:60/20/20",
        "epochs": 2,
        "hidden": 8,
        "progress": False,
    }

    def counts(**changes):
        return weft.train(payments, **settings | changes, out=tmp_path / str(changes)).summary["graph"]

    for frame in (payments, payments.replace({"stars": {5.0: np.nan}})):
        with pytest.warns(
            UserWarning,
            match=(
                "^edge_label: the floats of the column stars are whole numbers, 1 to [45], and taken for "
                "classes; values=True"
            ),
        ):
            weft.train(frame, edge_label="stars", out=tmp_path / f"{len(frame.dropna())}", **settings)
    assert counts(edge_label="stars", values=False)["classes"] == 5
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="edge_")
        assert counts(edge_label="stars", values=True)["values"] == 1
        assert counts(edge_label="fraud")["classes"] == 2
        lists = {"pays": payments, "lends": payments.assign(stars=payments["stars"] / 2)}
        _tables.placed(lists, {"edge_label": "lends:stars"})
    for label in ("stars", "pays:stars"):
        with pytest.warns(
            UserWarning, match="^edge_label: the floats of the column stars are whole numbers, 1 to 5"
        ):
            _tables.placed(lists, {"edge_label": label})


def test_rows_of_parallel_edges(tables, tmp_path):
    """The k-th of the store's edges between two vertices is the k-th row of the table with these ends."""
    payments = tables[0].assign(payer=tables[0]["payer"].str[:2], fraud=tables[0]["amount"] > 0.5)
    customers = pandas.DataFrame({"id": sorted({*payments["payer"], *payments["payee"]}, reverse=True)})
    customers["age"] = np.arange(len(customers)) % 50
    settings = {
        "vertices_from": customers,
        "edge_label": "fraud",
        "split": "random:60/20/20",
        "epochs": 2,
        "progress": False,
    }
    run, ends = weft.train(payments, out=tmp_path / "run", **settings), ["payer", "payee"]
    scores = run.predict(columns=["class"], sort="edge").frame()
    assert (scores["edge"] == np.arange(len(payments))).all() and scores.duplicated(ends).any()
    numbered = [table.assign(k=table.groupby(ends).cumcount()) for table in (payments, scores)]
    joined = numbered[0].merge(numbered[1], on=[*ends, "k"], how="left", validate="1:1")
    amounts = np.load(
        json.loads((tmp_path / "run" / "run.json").read_text())["store"] + "/edge_features.npy"
    )[:, 0]
    assert amounts[joined["edge"]] == pytest.approx(payments["amount"].to_numpy(), abs=1e-6)
    place = customers["id"].reset_index().set_index("id")["index"]
    order = np.lexsort((np.arange(len(payments)), payments["payer"].map(place), payments["payee"].map(place)))
    assert (joined["edge"].to_numpy()[order] == np.arange(len(payments))).all()


def test_logged(tables, tmp_path, caplog):
    """What an import of tables leaves out is logged at INFO, and epochs are not."""
    payments, customers = tables
    with caplog.at_level(logging.INFO, "weft"):
        weft.train(payments.assign(channel="web"), vertices_from=customers, out=tmp_path / "run", **SETTINGS)
    assert any("columns left out: amount, channel" in line for line in caplog.messages)
    assert not any(line.startswith(("epoch", "{")) for line in caplog.messages)


def test_lazy_labels_of_edges():
    """Labels of edges in a LazyFrame of Polars are looked at as those of a DataFrame, without a warning of
    its own."""
    lazy = pytest.importorskip("polars").LazyFrame({"source": [1, 2], "stars": [1.0, 2.0]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _tables._warn_of_floats("", lazy, {"edge_label": "stars"})
    assert [str(w.message).split(",")[0] for w in caught] == [
        "edge_label: the floats of the column stars are whole numbers"
    ]
