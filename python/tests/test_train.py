"""Trainings give the command's bits, end as they are told to, and say what is wrong in Python's words."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from processes import weft as command

import weft
from weft import _graph


def train(data, **settings):
    return weft.train(data, **{"model": "gcn", "hidden": 8, "progress": False} | settings)


def test_bits_of_the_command(arrays, graph, capfd):
    np.savez("graph.npz", **arrays)
    command("import", "npz", "graph.npz", "store")
    command("train", "store", "--model", "gcn", "--hidden", 8, "--epochs", 5, "--out", "cli", "--decoupled")
    capfd.readouterr()
    run = train(graph, epochs=5, out="py", decoupled=True)
    summary = json.loads(Path("cli/run.json").read_text())["summary"]
    assert run.summary["losses"] == summary["losses"] and run.summary["test"] == summary["test"]
    assert (run.logits == np.load("cli/predictions.npy")).all() and run.logits.shape == (60, 3)
    assert run.directory == Path("py").absolute() and capfd.readouterr().out == ""
    assert train("store", epochs=5, decoupled=True).summary["losses"] == summary["losses"]
    assert train(Path("graph.npz"), epochs=5, decoupled=True).summary["losses"] == summary["losses"]
    assert len(os.listdir("runs")) == 2


CARD = Path(__file__).parents[2] / "bin" / "libcuda-on-cpu.so"


@pytest.mark.skipif(not CARD.exists(), reason="there is no bin/libcuda-on-cpu.so, which make compiles")
def test_card(graph, monkeypatch):
    monkeypatch.setenv("WEFT_CUDA", str(CARD))
    run, there = train(graph, epochs=5), train(graph, epochs=5, device="cuda")
    assert there.summary["device"]["name"] == "CPU in place of a GPU"
    assert there.summary["losses"] == pytest.approx(run.summary["losses"], rel=1e-5)
    assert there.logits == pytest.approx(run.logits, abs=1e-5)
    assert there.predict(output="logits", device="cuda") == pytest.approx(run.logits, abs=1e-5)
    monkeypatch.setenv("WEFT_CUDA", "/missing.so")
    with pytest.raises(weft.Refused, match="^device cuda: WEFT_CUDA: /missing.so: .*, or take device cpu$"):
        train(graph, device="cuda")


@pytest.mark.parametrize("rank", ["0", "1"])
def test_launcher(graph, monkeypatch, rank):
    """The first of several processes says that each trains by itself."""
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", rank)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert train(graph, epochs=1).summary["epochs_run"] == 1
    ours = [str(w.message) for w in warned if "launcher" in str(w.message)]
    assert [text.partition(":")[0] for text in ours] == (
        ["each of the 4 processes that the launcher started trains a run of its own"] if rank == "0" else []
    )


def test_inspect(arrays):
    """A graph's counts, also of tables, from which a model is made."""
    assert weft.inspect(weft.Graph(**arrays))["features"] == 5
    rows = ["payer,payee", *(f"{a},{b}" for a, b in arrays["edge_index"].T)]
    Path("p.csv").write_text("\n".join(rows) + "\n")
    Path("c.csv").write_text(
        "id,age,kind\n" + "".join(f"{v},{v / 7},{'good' if v % 3 else 'bad'}\n" for v in range(60))
    )
    summary = weft.inspect("p.csv", source="payer", target="payee", vertices_from="c.csv", label="kind")
    assert (summary["vertices"], summary["edges"], summary["features"], summary["classes"]) == (60, 300, 1, 2)
    assert summary["class_names"] == ["bad", "good"]
    for name, value in {"hidden": 64, "model": "gcn", "loss": "mse"}.items():
        with pytest.raises(TypeError, match=f"unknown keyword {name}: inspect counts a graph"):
            weft.inspect(weft.Graph(**arrays), **{name: value})


def test_callbacks(graph):
    told = []
    run = train(graph, epochs=100_000, out="run", callbacks=[told.append, lambda epoch: epoch["epoch"] >= 3])
    assert run.summary["epochs_run"] == 4 and run.summary["ended"] == "interrupted"
    assert run.reason == "stopped by a callback"
    assert told == [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert (
        run.history["epoch"].tolist() == [1, 2, 3, 4]
        and run.history["loss"].tolist() == run.summary["losses"]
    )
    assert (
        train(graph, epochs=3, callbacks=lambda epoch: epoch["epoch"]).summary["epochs_run"] == 3
    )  # 1 is not True
    later = []
    train(graph, epochs=9, callbacks=[lambda epoch: True, lambda epoch: later.append(epoch["epoch"])])
    assert later == [1, 2]  # also what one has ended is told to the others
    for true in (np.bool_(True), np.array(True)):
        assert train(graph, epochs=9, callbacks=lambda epoch, true=true: true).summary["epochs_run"] == 2
    assert train(graph, epochs=3, callbacks=lambda epoch: np.array(False)).summary["epochs_run"] == 3
    for wrong, shown in ((5, "5"), ([print, "x"], "'x'")):
        with pytest.raises(
            TypeError,
            match=f"^callbacks: {shown} is no function: give a function of an epoch, or a list of them$",
        ):
            train(graph, callbacks=wrong)


def test_refused(graph):
    with pytest.raises(weft.Refused, match="^layers 0: must be at least 1 and at most 1000$"):
        train(graph, layers=0)
    with pytest.raises(weft.Refused, match=r"^there is no such file or folder: nowhere|nowhere"):
        train("nowhere")
    with pytest.raises(weft.Refused, match="^weight_decay -1: "):
        train(graph, weight_decay=-1)
    assert issubclass(weft.Refused, ValueError) and not os.path.exists("runs")
    train(graph, epochs=1, out="run")
    with pytest.raises(weft.Refused, match="^out run: "):
        train(graph, epochs=1, out="run")
    with pytest.raises(weft.Refused, match=r"^vertices .*no labels|labels"):
        train(weft.Graph(edge_index=[[0, 1], [1, 0]], x=np.eye(2)))


def test_ways_out(arrays, graph):
    """What is refused says what to write in Python."""
    bare = weft.Graph(edge_index=arrays["edge_index"], x=arrays["x"], y=arrays["y"])
    with pytest.raises(
        weft.Refused,
        match=(
            "^the graph has no split into training, validation and test vertices; draw one with "
            'split="random:60/20/20"$'
        ),
    ):
        train(bare)
    assert train(bare, split="random:60/20/20").summary
    with pytest.raises(
        TypeError,
        match=r"^unknown keyword random_features: it is of graphs: weft.Graph.of\(data, random_features=…\)$",
    ):
        train(graph, random_features="8")
    with pytest.raises(
        weft.Refused, match="^target: tells how to read tables, and the graph is made already: leave it out"
    ):
        train(graph, target="8")
    with pytest.raises(
        weft.Refused,
        match=(
            "^the graph has no labels to learn; give y, or edge_y of edges, to weft.Graph, or labels to weft "
            'import; or learn edges with task="link"$'
        ),
    ):
        train(weft.Graph(edge_index=arrays["edge_index"], x=arrays["x"]))
    with pytest.raises(
        weft.Refused, match="^class_weights: give a number for each class in their order, or balanced$"
    ):
        train(graph, class_weights=["a", "b", "c"])
    for wrong in (3, [], [("a", 3, "b")]):
        with pytest.raises(
            weft.Refused, match=f"^link_relation: {re.escape(repr(wrong))} is no relation: give "
        ):
            train(graph, task="link", link_relation=wrong)
    with pytest.raises(TypeError, match='^resume: 5 is no run: give a weft.Run, its directory, or "auto"$'):
        train(graph, resume=5)
    with pytest.raises(
        weft.Refused,
        match='^resume="auto": continues the run in out, or begins it there; give out, or a run as resume$',
    ):
        train(graph, resume="auto")
    os.mkdir("begun")
    Path("begun/state.json").touch()
    with pytest.raises(
        weft.Refused,
        match=r"^begun: has no results of a run \(run.json\); "
        r'continue it with weft.train\(data, resume="begun"\)$',
    ):
        weft.load("begun")
    for call in (train, weft.Graph.of):
        with pytest.raises(TypeError, match="^None is no graph: give a weft.Graph, a path, "):
            call(None)
    with pytest.raises(
        weft.Refused,
        match=r'^array "edge_index": dtype "<f8" is not an integer: give it as .astype\("int64"\)$',
    ):
        print(weft.Graph(edge_index=arrays["edge_index"] / 3, num_nodes=60).store)
    with pytest.raises(weft.Refused, match="^class_weights: 2 weights, where the graph has 3 classes: "):
        train(graph, class_weights=[1, 2])
    run = train(graph, epochs=1, out="run")
    with pytest.raises(
        weft.Refused, match="^vertices: entry 2: vertex 333 is out of the range of 60 vertices: "
    ):
        run.predict(vertices=[0, 333])
    with pytest.raises(
        weft.Refused,
        match=(
            '^the run in run is of another graph; give that, or leave it out; init="run" begins a new run '
            "with its weights$"
        ),
    ):
        train(weft.Graph(**arrays | {"y": 2 - arrays["y"]}), resume="run")


def test_held_out_edges_that_pass_messages(arrays):
    """The program warns of them, as its messages are along all edges of the graph."""
    e = arrays["edge_index"].T
    split = {"train_edges": e[:200], "val_edges": e[200:250], "test_edges": e[250:]}
    arguments = {"x": arrays["x"], "num_nodes": 60}
    with pytest.warns(UserWarning) as told:
        print(weft.Graph(edge_index=e.T, **split, **arguments).store)
    assert [str(one.message) for one in told] == [
        "100 validation and test edges of the split pass messages, as they are edges of the graph, too, so "
        "that a model sees what it is to predict: leave them out of the graph's edges"
    ]
    there = set(map(tuple, e[:200].tolist()))
    others = [[u, v] for u in range(60) for v in range(60) if (u, v) not in there]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        print(
            weft.Graph(
                edge_index=e[:200].T,
                **split | {"val_edges": others[:9], "test_edges": others[9:]},
                **arguments,
            ).store
        )


def test_several(graph):
    runs = train(graph, epochs=2, seeds=3, out="seeds")
    assert [run.summary["seed"] for run in runs] == [0, 1, 2] and len(runs) == 3
    tests = [run.summary["test"] for run in runs]
    assert runs.summary["test_mean"] == pytest.approx(np.mean(tests)) and runs.summary[
        "test_deviation"
    ] == pytest.approx(np.std(tests, ddof=1))
    assert (
        runs.differ == ["seed"]
        and "seed" in repr(runs).splitlines()[0]
        and "<th>seed</th>" in runs._repr_html_()
    )


def test_validated_on_data(arrays, graph):
    """The graph in memory lives until the program has read it, and may have vertices of one part alone."""
    fields = {
        "edge_index": arrays["edge_index"],
        "x": arrays["x"][::-1].copy(),
        "y": arrays["y"],
        "val_mask": arrays["val_mask"],
    }
    run = train(graph, epochs=2, validate=Data(**fields))
    assert run.settings["validate"] == "a graph in memory"
    there, right = arrays["val_mask"], run.predict(Data(**fields)) == arrays["y"]
    assert (
        run.summary["val"] == pytest.approx(right[there].mean())
        and run.summary["validation_graph"]["edges"] == 300
    )


class Data:
    """Stands in for that of PyTorch Geometric, of which the name and module are looked at."""

    __module__ = "torch_geometric.data.data"

    def __init__(self, **fields):
        self.fields = fields

    def to_dict(self):
        return dict(self.fields)


def test_graph_is_freed(arrays, monkeypatch):
    """What is written of a graph lives as long as the runs on it, and no longer than a training that
    fails."""
    made = []

    class Scratch(_graph.Scratch):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            made.append(self.path)

    monkeypatch.setattr(_graph, "Scratch", Scratch)
    run = train(Data(**arrays), epochs=1)
    assert [path.exists() for path in made] == [True]
    del run
    with pytest.raises(weft.Refused) as kept:
        train(Data(**arrays), layers=0, validate=Data(**arrays))
    assert [path.exists() for path in made] == [False] * 3 and kept.tb is not None


def test_max_time(graph):
    run = train(graph, epochs=100_000_000, max_time="1ms", out="run")
    assert run.directory == Path("run").absolute() and run.summary["epochs_run"] >= 1
    assert run.summary["ended"] == "max-time" and run.reason == "the time limit of 1ms"
    found = weft.sweep(graph, grid={"lr": [0.1]}, out="sweep", max_time="1ns")
    assert len(found) == 0 and found.summary["runs"] == []


def test_python_that_a_launcher_started(graph, monkeypatch):
    for name, value in {
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_SIZE": "2",
        "PMI_RANK": "0",
        "PMI_SIZE": "2",
    }.items():
        monkeypatch.setenv(name, value)
    assert train(graph, epochs=1).summary["workers"] == 1


def test_stopped_seeds(graph):
    runs = weft.sweep(graph, {"lr": [0.1]}, seeds=2, epochs=5, callbacks=lambda epoch: epoch["epoch"] == 2)
    assert sorted((run.summary["seed"], run.summary["epochs_run"]) for run in runs) == [(0, 3), (1, 3)]


def test_paths_that_begin_with_a_dash(graph):
    """A path is no flag of the program."""
    shutil.copytree(graph.store, "-x")
    run = train("-x", epochs=1, out="-runs/-run")
    assert run.summary["dataset"] == "./-x" and [one.directory for one in weft.runs("-runs")] == [
        run.directory
    ]
    run = weft.load("-runs/-run")
    assert (run.predict() == run.predictions).all() and run.evaluate("-x") == run.evaluate()
    for call in (train, weft.plan, weft.show_plan):
        with pytest.raises(weft.Refused, match="^./--help: there is no such store"):
            call("--help")
    with pytest.raises(weft.Refused, match="^./--help: there is no such folder"):
        weft.runs("--help")


def test_reads_nobody():
    edges = np.array([[0, 1, 2, 3], [4, 4, 5, 5]])
    x, y = np.eye(6, dtype=np.float32), np.array([0, 1, 0, 1, 0, 1])
    masks = {"train_mask": np.arange(6) < 2, "val_mask": np.arange(6) == 2, "test_mask": np.arange(6) == 3}
    with pytest.warns(UserWarning, match="^of 2 training vertices none has an in-edge"):
        weft.train(weft.Graph(edge_index=edges, x=x, y=y, **masks), epochs=2, out="alone")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.train(weft.Graph(edge_index=edges[::-1].copy(), x=x, y=y, **masks), epochs=2, out="read")
