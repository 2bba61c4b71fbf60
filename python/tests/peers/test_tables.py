"""Tables of pandas, Polars, Arrow and DuckDB train and predict as files of them do."""

import numpy as np
import pandas
import pytest

import weft

SETTINGS = {"label": "segment", "source": "payer", "target": "payee", "epochs": 5, "hidden": 8, "progress": False}


@pytest.fixture(scope="module")
def tables():
    draw = np.random.default_rng(1)
    n = 120
    ids = np.array([f"c{k}" for k in range(n)])
    customers = pandas.DataFrame({
        "id": ids, "age": draw.integers(20, 70, n).astype(float), "since": pandas.Timestamp("2020-01-31") + pandas.to_timedelta(draw.integers(0, 900, n), "D"),
        "city": pandas.Categorical(draw.choice(["Rome", "Paris", "Oslo"], n)), "member": draw.random(n) < 0.5,
        "segment": np.where(draw.random(n) < 0.4, "a", "b"),
    })  # fmt: skip
    customers.loc[::7, "age"] = np.nan
    payments = pandas.DataFrame({"payer": draw.choice(ids, 600), "payee": draw.choice(ids, 600), "amount": draw.random(600)})
    return payments, customers


@pytest.fixture(scope="module")
def of_files(tables, tmp_path_factory):
    """The run of the same tables as CSV, and their folder."""
    folder = tmp_path_factory.mktemp("tables")
    for table, name in zip(tables, ("payments", "customers")):
        table.to_csv(folder / f"{name}.csv", index=False)
    run = weft.train(folder / "payments.csv", vertices_from=folder / "customers.csv", out=folder / "run", **SETTINGS)
    return run, folder


def as_they_are(table):
    return table


def polars(table):
    pytest.importorskip("pyarrow")  # which reads tables of pandas for it
    return pytest.importorskip("polars").from_pandas(table)


def arrow(table):
    return pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)


def duckdb(table):
    return pytest.importorskip("duckdb").from_df(table)


@pytest.mark.parametrize("of", [as_they_are, polars, arrow, duckdb])
def test_trains_as_files(of, tables, of_files, tmp_path):
    payments, customers = map(of, tables)
    run = weft.train(payments, vertices_from=customers, out=tmp_path / "run", **SETTINGS)
    assert run.history["loss"].tolist() == of_files[0].history["loss"].tolist()
    assert run.logits.tolist() == of_files[0].logits.tolist()
    assert run.predict(output="logits").tolist() == run.logits.tolist()


def test_other_tables(tables, of_files):
    payments, customers = tables
    later, new = payments.iloc[::2], customers.iloc[20:].sample(frac=1, random_state=1)
    run, folder = of_files
    later.to_csv(folder / "later.csv", index=False)
    new.to_csv(folder / "new.csv", index=False)
    wanted = run.predict(folder / "later.csv", columns=["class", "probability"], vertices_from=folder / "new.csv")
    got = run.predict(later, columns=["class", "probability"], vertices_from=new)
    assert list(got) == ["vertex", "name", "class", "probability"]
    for name in got:
        assert got[name].tolist() == wanted[name].tolist()
    added = pandas.DataFrame({"payer": ["c1"], "payee": ["c2"], "amount": [1.0]})
    added.to_csv(folder / "added.csv", index=False)
    changed = [run.predict(columns=["class"], add_edges=of, changed=True) for of in (added, folder / "added.csv")]
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
    sales = pandas.DataFrame({"who": draw.choice(customers["id"][:60], 300), "where": draw.choice(customers["id"][60:], 300)})
    settings = SETTINGS | {"source": "shop:where", "target": "person:who", "label": "person:segment", "layers": 1}
    run = weft.train(sales, vertices_from=halves, out=tmp_path / "run", **settings)
    for name, table in {"edges": sales, **halves}.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [f"{name}={tmp_path / name}.csv" for name in halves]
    same = weft.train(tmp_path / "edges.csv", vertices_from=files, out=tmp_path / "same", **settings)
    assert run.history["loss"].tolist() == same.history["loss"].tolist()
    assert weft.inspect(sales, vertices_from=halves, **{k: settings[k] for k in ("source", "target", "label")})["edges"] == 300
    new = customers.iloc[:1].assign(id="edges1")
    added = pandas.DataFrame({"where": [customers["id"][70]], "who": ["edges1"]})
    table = run.predict(columns=["class"], add_vertices={"person": new}, add_edges={"edges": added}, changed=True)
    assert table["name"].tolist() == ["edges1"]
    with pytest.raises(weft.Refused, match="add_edges: 'a,b' is no name of a relation"):
        run.predict(add_edges={"a,b": added})
    with pytest.raises(weft.Refused, match="vertices_from: 'a/b' is no name of a vertex type"):
        weft.train(sales, vertices_from={"a/b": customers}, **settings)


def test_refused(tables):
    payments, customers = tables
    with pytest.raises(weft.Refused, match=r"^edges(:1)?: there is no column buyer, which source asks for"):
        weft.train(payments, vertices_from=customers, **SETTINGS | {"source": "buyer"})


def test_files_go_with_the_run(tables, tmp_path):
    payments, customers = tables
    run = weft.train(payments, vertices_from=customers, out=tmp_path / "run", **SETTINGS)
    folder = run._files.path
    assert (folder / "vertices_from.parquet").exists() or (folder / "vertices_from.csv").exists()
    del run
    assert not folder.exists()
