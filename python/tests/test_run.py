"""What is read of runs is what NumPy computes of their files."""

from __future__ import annotations

import csv
import json
import os
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from processes import weft as command

import weft
from weft import _weights
from weft._module import _of_edges
from weft._predicted import table_of
from weft._reached import until


def train(data, **settings):
    return weft.train(data, **{"model": "mlp", "hidden": 8, "epochs": 5, "progress": False} | settings)


MASKS = ["train_mask", "val_mask", "test_mask"]


@pytest.fixture
def graph(arrays):
    return weft.Graph(**arrays)


def test_classes(graph, arrays):
    run = train(graph, out="run", dropout=0)
    logits = np.load("run/predictions.npy")
    assert (run.predictions == logits.argmax(1)).all() and run.predictions.dtype == np.int64
    powers = np.exp(logits.astype(np.float64))
    assert run.probabilities == pytest.approx(powers / powers.sum(1, keepdims=True), abs=1e-6)
    far = logits + 200 * (np.arange(60) % 2)[:, None].astype(np.float32)  # each row is scaled by itself
    assert run._as("probabilities", far) == pytest.approx(run.probabilities, abs=1e-4)
    w = run.state_dict()
    hidden = np.maximum(arrays["x"] @ w["lins.0.weight"].T + w["lins.0.bias"], 0)
    assert run.embeddings() == pytest.approx(hidden, abs=1e-5)
    assert hidden @ w["lins.1.weight"].T + w["lins.1.bias"] == pytest.approx(logits, abs=1e-5)
    assert run.classes.tolist() == [0, 1, 2] and run.settings["weight_decay"] == "0"
    right = run.predictions == arrays["y"]
    measured = run.evaluate()
    for part in ("train", "val", "test"):
        assert measured[part]["accuracy"] == pytest.approx(right[arrays[part + "_mask"]].mean())
        most = np.bincount(arrays["y"][arrays[part + "_mask"]]).max()
        assert measured[part]["accuracy-most-frequent"] == pytest.approx(most / arrays[part + "_mask"].sum())
        assert run.summary[part] == measured[part]["accuracy"]
    assert repr(run).startswith(
        f"Run(mlp on 60 vertices: 5 epochs, best {run.summary['best_epoch']}, accuracy train "
        f"{run.summary['train']:.4f} val "
    )


def test_other_graphs(graph, arrays):
    run = train(graph, model="sage", out="run")
    turned = np.random.default_rng(5).permutation(60)  # vertex v is turned[v] there
    back = np.argsort(turned)
    other = {name: value[back] for name, value in arrays.items() if name != "edge_index"} | {
        "edge_index": turned[arrays["edge_index"]]
    }
    there = weft.Graph(**other)
    assert run.predict(there, "logits")[turned] == pytest.approx(run.logits, abs=1e-5)
    assert (run.predict(there)[turned] == run.predictions).all()
    assert run.predict(there, "probabilities").sum(1) == pytest.approx(np.ones(60), abs=1e-5)
    assert (run.predict(output="logits", vertices=[7, 3]) == run.logits[[7, 3]]).all()
    assert (run.predict(output="logits", vertices=["3"]) == run.logits[[3]]).all()
    with pytest.raises(weft.Refused, match='line 2: "x" is no number, and the vertices have no names$'):
        run.predict(vertices=["x"])
    with pytest.raises(
        weft.Refused, match="^vertices: names no vertex; give ids, or a mask that marks some$"
    ):
        run.predict(vertices=[])
    assert run.embeddings(there).shape == (60, 8)
    assert run.evaluate(there, device="cpu")["test"]["accuracy"] == run.evaluate()["test"]["accuracy"]
    with pytest.raises(
        weft.Refused, match="^device cuda: the predictions of .* are there, and none is computed"
    ):
        run.evaluate(device="cuda")
    with pytest.raises(
        weft.Refused,
        match="^the graph has 4 features, .* are for 5; "
        "give a store with the 5 features of the graph, which ",
    ):
        run.predict(weft.Graph(**arrays | {"x": arrays["x"][:, :4]}))
    with pytest.raises(weft.Refused, match="^output='classes': it is predictions, logits or probabilities$"):
        run.predict(there, "classes")
    with pytest.raises(TypeError, match="^unknown keyword vertex: "):
        run.predict(there, vertex=3)


def test_columns(graph):
    run = train(graph, model="sage", out="run")
    powers = np.exp(run.logits.astype(np.float64))
    p = powers / powers.sum(1, keepdims=True)
    first, second = np.sort(p, 1)[:, -1], np.sort(p, 1)[:, -2]
    table = run.predict(columns=["class", "margin", "entropy", "probabilities", "embedding"])
    assert table["vertex"].tolist() == list(range(60)) and (table["class"] == run.predictions).all()
    assert table["margin"] == pytest.approx(first - second, abs=1e-6)
    assert table["entropy"] == pytest.approx(-(p * np.log(p)).sum(1), abs=1e-6)
    for k in range(p.shape[1]):
        assert table[f"probability_{k}"] == pytest.approx(p[:, k], abs=1e-6)
    hidden = np.stack([table[f"embedding_{k}"] for k in range(8)], 1)
    assert (hidden == run.embeddings()).all()
    some = run.predict(columns="class,probability", sort="probability", top=5)
    assert list(some) == ["vertex", "class", "probability"]
    assert (some["vertex"] == np.lexsort((np.arange(60), np.float32(first)))[:5]).all()
    with pytest.raises(weft.Refused, match="^columns.*: the model predicts classes"):
        run.predict(columns=["value"])
    with pytest.raises(weft.Refused, match="^output='logits': columns say what the table has"):
        run.predict(output="logits", columns=["class"])


def test_changed(graph, folder):
    (folder / "new.csv").write_text("source,target\n1,2\n")
    run = train(graph, model="sage", layers=1, out="run")
    table = run.predict(columns=["class", "probability", "change"], add_edges="new.csv", changed=True)
    assert list(table) == ["vertex", "class", "probability", "change", "old_class", "old_probability"]
    assert table["vertex"].tolist() == [2] and table["old_class"].tolist() == [run.predictions[2]]
    (folder / "table.csv").write_text("vertex,change,old_class,old_value\n5,,,\n2,0.5,a,3\n")
    new = table_of(folder / "table.csv")
    assert new["old_class"].tolist() == ["", "a"] and np.isnan(new["change"][0]) and new["old_value"][1] == 3


def test_evaluated_on_another_split(arrays):
    """The split of the run is measured, unless another is asked for: also the first, whose number is 0."""
    parts = {
        name: np.stack([arrays[name], arrays[other]], 1) for name, other in zip(MASKS, MASKS[1:] + MASKS[:1])
    }
    run = train(weft.Graph(**arrays | parts), split=1)
    right = run.predictions == arrays["y"]
    for split, own in ((None, 1), (0, 0), (1, 1)):
        measured = run.evaluate(split=split)
        for name, mask in parts.items():
            measures = measured[name.removesuffix("_mask")]
            assert measures["accuracy"] == pytest.approx(right[mask[:, own]].mean())
            assert sum(map(sum, measures["confusion"])) == mask[:, own].sum()


def test_loaded(graph, arrays):
    run = train(graph, out="run")
    losses, logits = run.summary["losses"], run.logits
    del run
    graph = None  # noqa: F841
    again = weft.load("run")
    assert again.summary["losses"] == losses and (again.logits == logits).all()


def test_loaded_without_its_graph(arrays):
    def alone():
        return train(weft.Graph(**arrays), out="run").embeddings()

    embeddings = alone()
    again = weft.load("run")
    with pytest.raises(
        weft.Refused,
        match=r"/run: the graph of the run is not there any more; give it, as data=…$",
    ):
        again.embeddings()
    with pytest.raises(weft.Refused, match="give it"):
        again.evaluate()
    assert (again.embeddings(weft.Graph(**arrays)) == embeddings).all()
    with pytest.raises(weft.Refused, match="^nowhere: has no results of a run"):
        weft.load("nowhere")


def test_damaged(graph, arrays):
    """Each file of a run that cannot be read is named, whatever is wrong with it."""
    train(graph, out="whole")
    reads = {
        "run.json": lambda run: run.summary,
        "metrics.jsonl": lambda run: run.history,
        "predictions.npy": lambda run: run.logits,
        "model.safetensors": lambda run: run.state_dict(),
        "state.json": lambda run: weft.train(graph, out="run", resume="auto", progress=False),
    }
    huge = np.lib.format.header_data_from_array_1_0(np.zeros((1, 3), np.float32)) | {"shape": (10**13, 3)}
    with open("huge.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, huge)
    np.save("flat.npy", np.zeros(60, np.float32))
    record = json.loads(Path("whole/run.json").read_text())
    del record["summary"]["task"]
    settings_by_name = {
        "run.json": [(json.dumps(record).encode(), "lacks 'task'")],
        "predictions.npy": [
            (Path("huge.npy").read_bytes(), "Unable to allocate .*"),
            (Path("flat.npy").read_bytes(), r"an array of float32 with the shape \(60,\)"),
        ],
        "model.safetensors": [
            (
                (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32"}}'.ljust(60) + bytes(8),
                "lacks 'data_offsets'",
            )
        ],
    }
    for name, read in reads.items():
        whole = Path("whole", name).read_bytes()
        for content, why in [
            (b"[" * 10**5, ".*"),
            (b"[7", ".*"),
            (whole[: len(whole) // 2], ".*"),
            *settings_by_name.get(name, []),
        ]:
            shutil.rmtree("run", ignore_errors=True)
            shutil.copytree("whole", "run")
            Path("run", name).write_bytes(content)
            with pytest.raises(
                weft.Refused, match=f"^(/.*/)?run/{name}: damaged: {why}; restore it, or train again$"
            ):
                read(weft.load("run"))
    with pytest.warns(
        UserWarning, match=r"^run/state\.json: damaged: .*; restore it, or begin a new run"
    ) as warned:
        assert [run.directory.name for run in weft.runs(".")] == ["whole"]
    assert warned[-1].filename == __file__
    shutil.copy("whole/state.json", "run")
    Path("run/metrics.jsonl").unlink()
    with pytest.raises(
        weft.Refused, match=r"/run/metrics\.jsonl: No such file or directory; restore it, or train again$"
    ):
        print(weft.load("run").history)
    Path("run/run.json").write_text("[")
    with pytest.warns(UserWarning, match=r"^left out: .*/run/run\.json: damaged: ") as warned:
        assert [run.directory.name for run in weft.runs(".")] == ["whole"]
    assert warned[-1].filename == __file__


def test_facts_of_users(graph, arrays):
    """A summary has no temporary folder, and a pickle of a run is its directory."""
    run = train(graph, out="run")
    assert (
        run.summary["dataset"] == "a graph in memory"
        and run.summary["run_dir"] == str(run.directory)
        and run.summary["ended"] == "epochs"
    )
    page = run.report().html
    assert "<strong>a graph in memory<wbr></strong>" in page and str(graph.store.parent) not in page
    assert train(graph, class_weights=[1, 2, 3]).settings["class_weights"] == "in memory"
    again = pickle.loads(pickle.dumps(run))
    assert again.directory == run.directory and (again.logits == run.logits).all()
    shutil.copytree(graph.store, "store")
    assert train("store", out="other").summary["dataset"] == "store"
    assert re.fullmatch(r"\d+(\.\d+)*\S*", weft.__version__)


def test_several_labels(arrays):
    y = np.stack([arrays["y"] == 0, arrays["x"][:, 0] > 1], 1)
    run = train(weft.Graph(**arrays | {"y": y}))
    assert (run.predictions == (run.logits > 0)).all() and run.predictions.shape == (60, 2)
    assert run.probabilities == pytest.approx(1 / (1 + np.exp(-run.logits.astype(np.float64))), abs=1e-6)
    one = np.flatnonzero(
        run.predictions.sum(1) == 1
    )  # whose classes are one label each, and text all the same
    assert 0 < len(one) < 60
    for vertices in (one, range(60)):
        found = run.predict(vertices=list(vertices), columns=["class"])["class"]
        assert found.dtype.kind == "U"
        assert found.tolist() == [";".join(map(str, np.flatnonzero(run.predictions[v]))) for v in vertices]


def test_values(arrays):
    y = arrays["x"][:, 0] * 2 + 1
    run = train(weft.Graph(**arrays | {"y": y}), epochs=200, dropout=0)
    assert run.predictions.shape == (60,) and (run.predictions == run.logits[:, 0]).all()
    there = arrays["test_mask"]
    assert run.evaluate()["test"]["rmse"] == pytest.approx(
        np.sqrt(((run.predictions - y)[there] ** 2).mean()), rel=1e-4
    )
    with pytest.raises(weft.Refused, match="^probabilities: the run predicts values; predictions has them$"):
        print(run.probabilities)


def test_links(graph):
    run = train(graph, model="gcn", task="link", decoder="distmult", out_features=4)
    h, w = run.logits, run.state_dict()["decoder.weight"][0]
    assert h.shape == (60, 4) and run.scores([[0, 1], [2, 3]]) == pytest.approx(
        [(h[0] * w * h[2]).sum(), (h[1] * w * h[3]).sum()]
    )
    run.state_dict = lambda: {"decoder.weight": np.stack([w, 2 * w])}
    assert run.scores([[0], [2]], relation=1) == pytest.approx(2 * run.scores([[0], [2]]))
    assert run.evaluate()["test"]["mrr"] == run.summary["test"]
    with pytest.raises(weft.Refused, match="^predictions: a run of link prediction has embeddings"):
        print(run.predictions)
    with pytest.raises(weft.Refused, match='^scores: are of runs with task="link"$'):
        train(graph).scores([[0], [1]])


def test_types(arrays):
    own = ("paper", "cites", "paper")
    writes = np.stack([np.arange(120) % 9, np.arange(120) % 60])
    of_papers = {name: {"paper": arrays[name]} for name in ("x", "y", "train_mask", "val_mask", "test_mask")}
    of_papers["x"] = {"author": np.eye(9, dtype=np.float32)} | of_papers["x"]
    graph = weft.Graph(
        edge_index={("author", "writes", "paper"): writes, own: arrays["edge_index"]}, **of_papers
    )
    run = train(graph, model="rgcn")
    assert run.logits.shape == (60, 3) and run.evaluate()["train"]["accuracy"] == pytest.approx(
        (run.predictions == arrays["y"])[arrays["train_mask"]].mean()
    )


def test_tables(graph, arrays):
    a, b = train(graph, out="runs/a"), train(graph, lr=0.1, hidden=4, out="runs/b")
    both = weft.compare(a, "runs/b")
    assert both.differ == ["hidden", "lr"] and both[1].directory == b.directory
    rows = [line.split() for line in repr(both).splitlines()]
    assert rows[0][:3] == ["hidden", "lr", "train"] and [row[:2] for row in rows[1:]] == [
        ["8", "0.01"],
        ["4", "0.1"],
    ]
    os.mkdir("runs/c")
    listed = weft.runs()
    best = sorted([a, b], key=lambda run: -run.summary["val"])
    assert [run.directory for run in listed] == [run.directory for run in best] and len(listed[:1]) == 1
    assert both.best is best[0]
    values = [
        train(weft.Graph(**arrays | {"y": arrays["x"][:, k] * 2, "x": arrays["x"][:, :k]}), epochs=9)
        for k in (4, 2)
    ]
    smallest = min(values, key=lambda run: run.summary["val"])
    assert values[0].summary["metric"] == "rmse" and weft.compare(*values).best is smallest
    with pytest.raises(weft.Refused, match="^best: the runs have accuracy and rmse of validation vertices; "):
        print(weft.compare(a, *values).best)
    head, *rows = [line.split() for line in repr(weft.compare(a, *values)).splitlines()]
    assert head[:4] == ["features", "classes", "metric", "epochs"]  # what differs of the graphs is seen, too
    assert [row[:4] for row in rows] == [["5", "3", "accuracy", "5"], *[[k, "0", "rmse", "9"] for k in "42"]]
    without = train(weft.Graph(**arrays | {"val_mask": np.zeros(60, bool)}))
    with pytest.raises(weft.Refused, match="^best: the runs have no metric of validation vertices; "):
        print(weft.compare(without).best)
    with pytest.raises(weft.Refused, match="^best: there is no run$"):
        print(weft.compare().best)
    assert weft.compare(without, a).best is a
    page = both.report()
    assert "<html" in page.html and "hidden" in page.html and page._repr_html_().startswith("<iframe srcdoc=")
    a.report().save("page.html")
    assert "<html" in Path("page.html").read_text()


def test_sweep(graph, arrays):
    found = weft.sweep(graph, grid={"lr": [0.1, 0.01], "hidden": [4, 8]}, model="mlp", epochs=3, out="sweep")
    assert len(found) == 4 and sorted((run.settings["lr"], run.settings["hidden"]) for run in found) == [
        *[("0.01", "4"), ("0.01", "8"), ("0.1", "4"), ("0.1", "8")]
    ]
    scores = [run.summary["val"] for run in found]
    assert scores == sorted(scores, reverse=True) and found[0].embeddings().shape[0] == 60
    before = {path: path.read_bytes() for path in Path("sweep").rglob("run.json")}
    again = weft.sweep(
        weft.Graph(**arrays), grid={"lr": [0.1, 0.01], "hidden": [4, 8]}, model="mlp", epochs=3, out="sweep"
    )
    assert {path: path.read_bytes() for path in Path("sweep").rglob("run.json")} == before and len(
        before
    ) == len(again) == 4
    assert found.best is found[0] and found[::-1].best is found[0]
    with pytest.raises(weft.Refused, match="^out sweep: the folder holds runs of another sweep"):
        weft.sweep(
            weft.Graph(**arrays | {"y": 2 - arrays["y"]}),
            grid={"lr": [0.1, 0.01], "hidden": [4, 8]},
            model="mlp",
            epochs=3,
            out="sweep",
        )
    with pytest.raises(
        weft.Failed,
        match=r"^1 combination of 2 failed; run-0001: lr 1e\+30: failed: "
        "epoch 1: the logits are not finite; ",
    ):
        weft.sweep(graph, grid={"lr": [0.1, 1e30]}, model="gcn", optimizer="sgd", epochs=3, out="failing")
    with pytest.raises(TypeError, match="^grid: lr: 0.1 is no list: give the values to try$"):
        weft.sweep(graph, grid={"lr": 0.1})
    with pytest.raises(TypeError, match="^random: has no settings: "):
        weft.sweep(graph, random={"runs": 2})
    with pytest.raises(TypeError, match="^unknown keyword hiden"):
        weft.sweep(graph, grid={"hiden": [3]})


def test_names_of_tables(folder):
    """A table has the names that the graph has, whatever a spreadsheet or a terminal would make of them."""
    kinds, names = (
        ["=SUM(A1)", "new\nline", r"new\nline"],
        [f"'{sign}{v}" for v in range(10) for sign in "=+a"],
    )
    rows = [[name, str(k), kinds[k % 3]] for k, name in enumerate(names)]
    for file, lines in {
        "c.csv": [["id", "age", "kind"], *rows],
        "p.csv": [["source", "target"], *zip(names, names[1:])],
    }.items():
        with open(file, "w", newline="", encoding="utf-8") as to:
            csv.writer(to).writerows(lines)
    run = weft.train("p.csv", vertices_from="c.csv", label="kind", epochs=40, lr=0.1, progress=False)
    table = run.predict(columns=["class", "probabilities"])
    assert table["name"].tolist() == names and {f"probability_{kind}" for kind in kinds} <= set(table)
    of_classes = np.array([table[f"probability_{kind}"] for kind in kinds])
    assert table["class"].tolist() == [kinds[k] for k in of_classes.argmax(0)]


def test_sweep_of_tables(arrays):
    """Tables are imported once, for all runs, and the same call goes on in its folder."""
    rows = ["payer,payee", *(f"{a},{b}" for a, b in arrays["edge_index"].T)]
    Path("p.csv").write_text("\n".join(rows) + "\n")
    Path("c.csv").write_text("id,age,kind\n" + "".join(f"{v},{v / 7},{'xyz'[v % 3]}\n" for v in range(60)))
    tables = {"source": "payer", "target": "payee", "vertices_from": "c.csv", "label": "kind"}
    settings = {"model": "gcn", "epochs": 2, "progress": False} | tables
    found = weft.sweep("p.csv", grid={"lr": [0.1, 0.01]}, out="sweep", **settings)
    again = weft.sweep("p.csv", grid={"lr": [0.1, 0.01]}, out="sweep", **settings)
    assert [run.summary for run in again] == [run.summary for run in found] and len(
        list(Path().glob("*.weft"))
    ) == 1
    alone = weft.train("p.csv", lr=0.1, **settings)
    assert [run.summary["losses"] for run in found if run.settings["lr"] == "0.1"] == [
        alone.summary["losses"]
    ]
    typed = weft.inspect(
        "p.csv",
        **tables
        | {
            "vertices_from": ["person:c.csv", "shop:c.csv"],
            "source": "person:payer",
            "target": "shop:payee",
            "label": "person:kind",
        },
    )
    assert [vertex_type["type"] for vertex_type in typed["types"]] == ["person", "shop"]


def test_sweep_of_edges_of_tables(arrays):
    """The runs learn the labels of the edges of tables, as a training alone, and inspect counts these."""
    rows = [f"{a},{b},{'no' if (a + b) % 3 else 'yes'}" for a, b in arrays["edge_index"].T]
    Path("p.csv").write_text("\n".join(["payer,payee,fraud", *rows]) + "\n")
    Path("c.csv").write_text("id,age\n" + "".join(f"{v},{v / 7}\n" for v in range(60)))
    tables = {"source": "payer", "target": "payee", "vertices_from": "c.csv", "edge_label": "fraud"}
    settings = {"model": "sage", "epochs": 2, "progress": False} | tables
    found = weft.sweep("p.csv", grid={"hidden": [8, 16]}, **settings)
    assert {run.settings["edge_label"] for run in found} == {"fraud"}
    alone = weft.train("p.csv", hidden=8, **settings)
    assert [run.summary["losses"] for run in found if run.settings["hidden"] == "8"] == [
        alone.summary["losses"]
    ]
    assert weft.inspect("p.csv", **tables)["edge_labels"][0]["class_names"] == ["no", "yes"]


def test_edges_of_several_tables(arrays):
    """Labels of one of several lists are learned by the relation's name and the column's, as by the column's
    alone."""
    rows = [f"{a},{b},{'no' if (a + b) % 3 else 'yes'},{int(a > 30)}" for a, b in arrays["edge_index"].T]
    Path("p.csv").write_text("\n".join(["payer,payee,fraud,late", *rows]) + "\n")
    Path("l.csv").write_text("payer,payee\n" + "".join(f"{v},{(v * 7 + 1) % 60}\n" for v in range(60)))
    Path("c.csv").write_text("id,age\n" + "".join(f"{v},{v / 7}\n" for v in range(60)))
    tables = {"source": "payer", "target": "payee", "vertices_from": "c.csv"}
    settings = {"model": "sage", "hidden": 8, "epochs": 2, "progress": False}
    lists = {"pays": "p.csv", "likes": "l.csv"}
    run = weft.train(lists, edge_label="pays:fraud", split="random:60/20/20", **tables, **settings)
    assert run.summary["graph"]["edges"] == len(rows) + 60
    command(
        "import",
        "edges",
        "pays=p.csv",
        "likes=l.csv",
        "s",
        "--edge-label=pays:fraud",
        "--split=random:60/20/20",
        "--source=payer",
        "--target=payee",
        "--vertices-from=c.csv",
    )
    for label in ("fraud", "pays:fraud"):
        assert weft.train("s", edge_label=label, **settings).summary["losses"] == run.summary["losses"]
        assert _of_edges(weft.inspect("s"), label)["class_names"] == ["no", "yes"]
    assert _of_edges(weft.inspect("s"), "likes:fraud")["class_names"] is None
    several = weft.train(lists, edge_label="pays:fraud,late", **tables, **settings)
    assert several.summary["metric"] == "micro-f1"


def test_values_of_tables(arrays):
    """Whole numbers of tables are values to predict where that is asked for, else classes."""
    rows = [f"{a},{b},{(a + b) % 5}" for a, b in arrays["edge_index"].T]
    Path("p.csv").write_text("\n".join(["source,target,stars", *rows]) + "\n")
    Path("c.csv").write_text("id,age,level\n" + "".join(f"{v},{v / 7},{v % 4}\n" for v in range(60)))
    for labels in ({"label": "level"}, {"edge_label": "stars"}):
        tables = {"vertices_from": "c.csv", "epochs": 2, "progress": False} | labels
        metrics = [weft.train("p.csv", values=values, **tables).summary["metric"] for values in (True, None)]
        assert metrics == ["rmse", "accuracy"]
    assert weft.inspect("p.csv", vertices_from="c.csv", label="level", values=True)["value_columns"] == 1


def test_callbacks_of_a_sweep(graph):
    """Each epoch of each run is told, and True ends the run that it is of, and no other."""
    told = []

    def end(epoch):
        told.append((Path(epoch["run_dir"]).name, epoch["epoch"]))
        return told[-1] == ("run-0000", 2)

    found = weft.sweep(graph, grid={"lr": [0.1, 0.01]}, model="mlp", epochs=4, out="a sweep", callbacks=end)
    runs = {run.directory.name: run.summary for run in found}
    assert told == [
        (name, k) for name, last in (("run-0000", 3), ("run-0001", 4)) for k in range(1, last + 1)
    ]
    assert {name: one["ended"] for name, one in runs.items()} == {
        "run-0000": "interrupted",
        "run-0001": "epochs",
    }

    def fail(epoch):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        weft.sweep(graph, grid={"lr": [0.1, 0.01]}, model="mlp", epochs=10**6, out="failing", callbacks=fail)
    assert [path.parent.name for path in Path("failing").rglob("run.json")] == ["run-0000"]
    with pytest.raises(TypeError, match="^callbacks: 5 is no function"):
        weft.sweep(graph, grid={"lr": [1]}, callbacks=5)


def test_plan(graph):
    told = weft.plan(graph, workers=2, model="gcn", hidden=8)
    assert told["meshes"][0].keys() >= {"parallel", "epoch_seconds", "peak_tensor_bytes", "sent_bytes"}
    counts = {"vertices": 2e3, "edges": 8000, "features": np.int64(8), "classes": 3}
    told = weft.plan(workers=2, model="gcn", hidden=8, **counts)
    assert all(mesh["by_counts"] and mesh["peak_tensor_bytes"] > 1000 * 4 * 8 for mesh in told["meshes"])
    with pytest.raises(weft.Refused, match="^vertices: describes a graph that is not there yet"):
        weft.plan(graph, vertices=10)
    with pytest.raises(weft.Refused, match="^name a graph, or give the counts"):
        weft.plan()
    text = weft.show_plan(graph, model="gcn")
    assert repr(text) == text and "\n" in text  # a notebook shows lines
    assert text.startswith("gcn, 2 layers, 579 parameters, one worker with ")


def test_weights(tmp_path):
    arrays = {
        "a.b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "c": np.array(7, np.int64),
        "d": np.zeros((0, 2), np.float16),
    }
    _weights.write(tmp_path / "w", arrays)
    again = _weights.read(tmp_path / "w")
    assert again.keys() == arrays.keys()
    for name, value in arrays.items():
        assert (
            again[name].dtype == value.dtype
            and again[name].shape == value.shape
            and (again[name] == value).all()
        )
    header = json.dumps(
        {"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}, "__metadata__": {}}
    ).encode()
    (tmp_path / "b").write_bytes(
        len(header).to_bytes(8, "little") + header + np.array([0x3FC0, 0xC000], "<u2").tobytes()
    )
    assert _weights.read(tmp_path / "b")["x"].tolist() == [1.5, -2]


def test_metrics_of_the_command(graph):
    run = train(graph, out="run", eval_every=2)
    assert np.isnan(run.history["val"]).tolist() == [True, False, True, False, False]
    assert run.evaluate() == json.loads(command("evaluate", "run", "--json"))


def test_until_a_layer():
    """A program ends at the last rows of vertices of a layer of that name, and not of one whose name begins
    so."""
    operations = [
        {"op": "features", "shape": [2]},
        {"op": "linear", "in": [0], "path": "conv1"},
        {"op": "relu", "in": [1], "path": "conv1.act"},
        {"op": "row_mean", "in": [2], "path": "conv1.pool"},
        {"op": "linear", "in": [2], "path": "conv10"},
        {"op": "gather", "in": [4], "path": "conv10.message"},
        {"op": "scatter", "in": [5], "path": "conv2"},
    ]
    program = {"version": 1, "operations": operations, "output": 6}
    for layer, last in (("conv1", 2), ("conv1.act", 2), ("conv10", 4), ("conv2", 6)):
        assert until(program, layer) == {"version": 1, "operations": operations[: last + 1], "output": last}
    names = "conv1, conv1.act, conv1.pool, conv10, conv10.message, conv2"
    for layer in ("conv", "conv1.pool", "conv10.message", "conv3"):
        with pytest.raises(weft.Refused) as error:
            until(program, layer)
        assert (
            str(error.value)
            == f"of={layer!r}: the module has no such layer with rows of vertices: it has {names}"
        )
