"""Trainings give the command's bits, end as they are told to, and say what is wrong in Python's words."""

from __future__ import annotations

import datetime
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from processes import python
from processes import weft as command

import weft
from weft import _arguments, _graph, _program, _progress

CARD = Path(__file__).parents[2] / "bin" / "libcuda-on-cpu.so"


@pytest.fixture
def graph(arrays):
    return weft.Graph(**arrays)


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
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert train(graph, epochs=1).summary["epochs_run"] == 1
    ours = [str(w.message) for w in said if "launcher" in str(w.message)]
    assert [text.partition(":")[0] for text in ours] == (
        ["each of the 4 processes that the launcher started trains a run of its own"] if rank == "0" else []
    )


def test_inspect(arrays):
    """A graph's counts, also of tables, from which a model is made."""
    assert weft.inspect(weft.Graph(**arrays))["features"] == 5
    rows = ["payer,payee", *(f"{a},{b}" for a, b in arrays["edge_index"].T)]
    Path("p.csv").write_text("\n".join(rows) + "\n")
    Path("c.csv").write_text("id,age,kind\n" + "".join(f"{v},{v / 7},{'good' if v % 3 else 'bad'}\n" for v in range(60)))
    of = weft.inspect("p.csv", source="payer", target="payee", vertices_from="c.csv", label="kind")
    assert (of["vertices"], of["edges"], of["features"], of["classes"]) == (60, 300, 1, 2)
    assert of["class_names"] == ["bad", "good"]
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


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_interrupted_and_resumed(graph, arrays, error, caplog):
    whole = train(graph, epochs=6, out="whole")

    def fail(epoch):
        if epoch["epoch"] == 2:
            raise error

    with pytest.raises(error):
        train(graph, epochs=6, out="run", callbacks=fail)
    assert caplog.messages[-1].endswith(
        'the results so far are in run; continue with weft.train(data, resume="run")'
    )
    assert weft.load("run").summary["epochs_run"] in (2, 3) and os.listdir("run/checkpoints")
    rest = []
    run = train(
        weft.Graph(**arrays), epochs=6, out="run", resume="auto", callbacks=rest.append
    )  # another copy of the graph
    assert run.summary["losses"] == whole.summary["losses"] and (run.logits == whole.logits).all()
    assert rest[-1]["epoch"] == 6 and rest[0]["epoch"] in (3, 4)
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    more = weft.train(None, resume=run, epochs=8, progress=False)
    assert more.summary["epochs_run"] == 8 and more.directory == run.directory


def test_run_goes_on_with_its_settings(graph, arrays, bars):
    settings = {"lr": 0.02, "class_weights": [1, 2, 0.5], "init": train(graph, epochs=1).state_dict()}
    whole = train(graph, epochs=6, out="whole", **settings)
    run = train(graph, epochs=2, out="run", **settings)
    assert (
        weft.train(graph, resume=run, epochs=3, class_weights=[1, 2, 0.5]).directory == run.directory
    )  # and not a new one
    run.directory.rename("moved")
    again = weft.train(weft.Graph(**arrays), resume="moved", epochs=4, class_weights=[1, 2, 0.5])
    assert again.summary["epochs_run"] == 4 and again.settings["model"] == "gcn"
    bars.clear()
    assert (
        weft.train(weft.Graph(**arrays), out="moved", resume="auto", epochs=5, **settings).summary[
            "epochs_run"
        ]
        == 5
    )
    assert bars[0] == (5, 4, "epoch", "gcn")
    again = weft.train(
        weft.Graph(**arrays), out="moved", resume=Path("moved"), epochs=6, class_weights=[1, 2, 0.5]
    )
    assert again.summary["losses"] == whole.summary["losses"] and (again.logits == whole.logits).all()
    with pytest.raises(
        weft.Refused, match="^the run in moved is of another graph; give that, or leave it out$"
    ):
        weft.train(weft.Graph(**arrays | {"y": 2 - arrays["y"]}), resume="moved")  # which has ended
    with pytest.raises(weft.Refused, match="^model sage: the run to continue has gcn; "):
        weft.train(graph, resume="moved", model="sage")
    with pytest.raises(weft.Refused, match="^out other: the run continues in moved; leave it out$"):
        weft.train(graph, resume="moved", out="other")
    assert train(graph, epochs=1, out="fresh", resume="auto").directory == Path("fresh").absolute()
    Path("c.yaml").write_text("model: gcn\nhidden: 8\n")
    for epochs in (1, 2):  # the same call begins the run and goes on, also with settings of a file
        run = weft.train(graph, out="c", resume="auto", config="c.yaml", epochs=epochs, progress=False)
        assert run.summary["epochs_run"] == epochs


@pytest.mark.parametrize(("seconds", "ends"), [(0.9, "in order"), (1.0, "at once")])
def test_second_interrupt(graph, monkeypatch, seconds, ends):
    """An interrupt within a second of one is the same request; a later one ends the program at once."""
    whole = train(graph, epochs=4, out="run")
    times, listen, calls = iter([10, 10 + seconds]), _program._Child.listen, []

    def listens(child):
        calls.append(child)
        if len(calls) == 2:  # what end() calls
            raise KeyboardInterrupt
        listen(child)

    def fail(epoch):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_program._Child, "listen", listens)
        patch.setattr(_program.time, "monotonic", lambda: next(times))
        weft.train(graph, resume=whole, epochs=100_000, callbacks=fail, progress=False)
    assert calls[0].process.returncode == (130 if ends == "in order" else -signal.SIGKILL)
    if ends == "in order":
        again = weft.load("run").summary
        assert again["epochs_run"] >= 5 and again["losses"][:4] == whole.summary["losses"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_interrupt_of_the_start(graph, monkeypatch, moment):
    """An interrupt while the program starts leaves no program, and no run under way."""
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, command, **more):
            if trains := command[1] == "train":
                started.append(self)
            if trains and moment == "before":
                signal.raise_signal(signal.SIGINT)
            super().__init__(command, **more)
            if trains and moment == "after":
                signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(subprocess, "Popen", Popen)
        train(graph, epochs=100_000, out="run")
    assert started[0].returncode is not None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


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


def test_resumed_without_what_was_in_memory(graph, arrays):
    def run(**settings):
        train(weft.Graph(**arrays), epochs=1, **settings)

    run(out="alone")
    run(out="validated", validate=weft.Graph(**arrays))
    run(out="weighted", class_weights=[1, 2, 3])
    with pytest.raises(
        weft.Refused,
        match=r'^alone: the graph of the run was in memory; give it: weft.train\(data, resume="alone"\)$',
    ):
        weft.train(None, resume="alone", epochs=2)
    for name, line in (
        ("validated", "validate: the graph of the run was in memory; give it again"),
        ("weighted", "class_weights: those of the run were in memory; give them again"),
    ):
        with pytest.raises(weft.Refused, match=f"^{line}$"):
            weft.train(graph, resume=name, epochs=2)
    assert (
        weft.train(graph, resume="validated", epochs=2, validate=weft.Graph(**arrays)).summary["epochs_run"]
        == 2
    )


def test_paths_that_begin_with_a_dash(graph):
    """A path is no flag of the program."""
    shutil.copytree(graph.store, "-x")
    run = train("-x", epochs=1, out="-runs/-run")
    assert run.summary["dataset"] == "./-x" and [one.directory for one in weft.runs("-runs")] == [run.directory]
    run = weft.load("-runs/-run")
    assert (run.predict() == run.predictions).all() and run.evaluate("-x") == run.evaluate()
    for call in (train, weft.plan, weft.show_plan):
        with pytest.raises(weft.Refused, match="^./--help: there is no such store"):
            call("--help")
    with pytest.raises(weft.Refused, match="^./--help: there is no such folder"):
        weft.runs("--help")


def test_ways_out(arrays, graph):
    """What is refused says what to write in Python."""
    bare = weft.Graph(edge_index=arrays["edge_index"], x=arrays["x"], y=arrays["y"])
    with pytest.raises(
        weft.Refused,
        match='^the graph has no split into training, validation and test vertices; draw one with split="random:60/20/20"$',
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
        match="^the graph has no labels to learn; give y, or edge_y of edges, to weft.Graph, or labels to weft import; or learn edges with task=\"link\"$",
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
        match=r'^begun: has no results of a run \(run.json\); continue it with weft.train\(data, resume="begun"\)$',
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
        weft.Refused, match="^the run in run is of another graph; give that, or leave it out$"
    ):
        train(weft.Graph(**arrays | {"y": 2 - arrays["y"]}), resume="run")


def test_held_out_edges_that_pass_messages(arrays):
    """The program warns of them, as its messages are along all edges of the graph."""
    e = arrays["edge_index"].T
    split = {"train_edges": e[:200], "val_edges": e[200:250], "test_edges": e[250:]}
    of = {"x": arrays["x"], "num_nodes": 60}
    with pytest.warns(UserWarning) as told:
        print(weft.Graph(edge_index=e.T, **split, **of).store)
    assert [str(one.message) for one in told] == [
        "100 validation and test edges of the split pass messages, as they are edges of the graph, too, so that a model sees what it is to "
        "predict: leave them out of the graph's edges"
    ]
    there = set(map(tuple, e[:200].tolist()))
    others = [[u, v] for u in range(60) for v in range(60) if (u, v) not in there]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        print(
            weft.Graph(
                edge_index=e[:200].T, **split | {"val_edges": others[:9], "test_edges": others[9:]}, **of
            ).store
        )


@pytest.mark.parametrize(
    ("keyword", "line"),
    [
        ("hiden", r"^unknown keyword hiden: did you mean hidden\?$"),
        ("hidden_channels", "^unknown keyword hidden_channels: hidden is the width of hidden layers$"),
        ("show_plan", "^unknown keyword show_plan: it is not for Python$"),
        (
            "frobnicate",
            "^unknown keyword frobnicate: to see all of them, type weft train --help-all in a shell$",
        ),
    ],
)
def test_unknown_keyword(graph, keyword, line):
    with pytest.raises(TypeError, match=line):
        train(graph, **{keyword: 3})
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given$"):
        weft.train(graph, "gcn")  # would be a folder
    with pytest.raises(TypeError, match="^unknown keyword resume: with the out of an earlier sweep "):
        weft.sweep(graph, grid={"hidden": [4, 8]}, resume="auto")


def test_failed(graph):
    with pytest.raises(
        weft.Failed,
        match="^epoch 1: the logits are not finite; try a smaller lr, clip 1, or norm layer; run is incomplete",
    ):
        train(graph, lr=1e30, epochs=5, optimizer="sgd", out="run")

    def kill(number):
        def send(epoch):
            os.kill(child := children()[0], number)
            if number == signal.SIGKILL:  # it cannot be answered any more
                os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

        return send

    with pytest.raises(
        weft.Failed, match="^the program weft was ended by SIGKILL, as the system does where memory is short"
    ):
        train(graph, epochs=100_000, callbacks=kill(signal.SIGKILL))

    with pytest.raises(
        weft.Interrupted,
        match=r'^interrupted after epoch [0-9]+; the results so far are in stopped; continue with weft.train\(data, resume="stopped"\)$',
    ):
        train(graph, epochs=100_000, callbacks=kill(signal.SIGTERM), out="stopped")
    assert weft.load("stopped").summary["epochs_run"] >= 1

    def once(epoch):
        if epoch["epoch"] == 1:
            kill(signal.SIGTERM)(epoch)

    with pytest.raises(weft.Interrupted):
        weft.sweep(
            graph, grid={"lr": [0.1]}, epochs=100_000, progress=False, callbacks=once, out="swept"
        )


def children():
    """The processes that this one has started."""
    own = os.getpid()
    return [
        int(child)
        for task in os.listdir(f"/proc/{own}/task")
        for child in Path(f"/proc/{own}/task/{task}/children").read_text().split()
    ]


def test_warnings(graph, caplog):
    with pytest.warns(
        UserWarning, match="^all labels of the graph are one class, so there is nothing to learn$"
    ) as told:
        print(weft.Graph(edge_index=[[0, 1], [1, 0]], y=[0, 0]).store)
    assert len(told) == 1 and not str(told[0].message).startswith("weft")
    with pytest.warns(UserWarning, match="^all labels") as of_train:
        train(weft.Graph(edge_index=[[0, 1], [1, 0]], y=[0, 0], split="train"), epochs=1, node_embedding=2)
    assert {one.filename for one in [*told, *of_train]} == {__file__}  # the lines that called
    with caplog.at_level(logging.DEBUG, "weft"):
        train(graph, epochs=1)
    assert any("needs" in line for line in caplog.messages)


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


def test_values(tmp_path):
    scratch = type("Scratch", (), {"path": tmp_path})

    def value(name, of):
        return _program.text_of(_arguments.value_of(name, of, scratch))

    assert (
        value("parallel", {"graph": 2, "tensor": 3}) == "graph=2,tensor=3"
        and value("parallel", "graph=4") == "graph=4"
    )
    assert value("link_split", (80, 10, 10)) == "80/10/10"
    assert value("link_relation", ("author", "writes", "paper")) == "author,writes,paper"
    assert value("link_relation", ["author", "writes", "paper"]) == "author,writes,paper"
    assert value("link_relation", [("a", "b", "c"), ("d", "e", "f")]) == "a,b,c;d,e,f"
    assert (
        Path(value("class_weights", [1, 0.5])).read_text() == "1.0\n0.5\n"
        and value("class_weights", "balanced") == "balanced"
    )
    assert value("max_time", datetime.timedelta(minutes=1.5)) == "90.0s"
    assert (
        value("lr", np.float32(0.5)),
        value("hidden", np.int64(3)),
        value("residual", np.bool_(True)),
        value("lr", 1e-5),
    ) == ("0.5", "3", "true", "1e-05")
    assert (
        _program.flag("weight_decay", 0.1) == "--weight-decay=0.1"
        and _program.flag("residual", False) == "--residual=false"
    )
    assert value("trace", Path("a b.json")) == "a b.json"


def test_settings_that_are_data(arrays, graph):
    first = train(graph, epochs=2)
    for init in (first, first.state_dict()):
        assert train(graph, epochs=1, init=init, dropout=0, lr=1e-9).logits == pytest.approx(
            first.logits, abs=1e-5
        )
    rival = train(graph, epochs=1, dropout=0, lr=1e-9)
    assert abs(rival.logits - first.logits).max() > 1e-2
    other = weft.Graph(**arrays | {"x": arrays["x"][::-1].copy()})
    run = train(graph, epochs=1, validate=other, class_weights=[1, 2, 3])
    assert run.summary["validation_graph"]["vertices"] == 60


class Data:
    """Stands in for that of PyTorch Geometric, of which the name and module are looked at."""

    __module__ = "torch_geometric.data.data"

    def __init__(self, **fields):
        self.fields = fields

    def to_dict(self):
        return dict(self.fields)


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


def test_graph_is_freed(arrays, monkeypatch):
    """What is written of a graph lives as long as the runs on it, and no longer than a training that fails."""
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


def test_in_a_thread_that_ends(graph):
    made = []
    thread = threading.Thread(target=lambda: made.append(train(graph, epochs=20)))
    thread.start()
    thread.join()
    assert made[0].summary["epochs_run"] == 20


ENDS = """
import os, sys, signal, numpy as np, weft
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
def end(epoch):
    child = [c for t in os.listdir("/proc/self/task") for c in open(f"/proc/self/task/{t}/children").read().split()]
    print(child[0], os.listdir("/dev/shm"), flush=True)
    HOW
weft.train(weft.Graph(edge_index=[[0, 1, 2], [1, 2, 0]], x=np.eye(3), y=[0, 1, 0], split="train"), epochs=10**9, callbacks=end, progress=False, CALL)
"""


@pytest.mark.parametrize(
    "how", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGINT)"]
)
def test_nothing_outlives_python(how):
    done = python(ENDS.replace("HOW", how).replace("CALL", 'out="run"'))
    child = int(done.stdout.split()[0])
    for _ in range(60_000):  # ten minutes at least
        if not alive(child):
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("the program outlives Python")
    if "SIGINT" in how:
        assert done.stderr.rstrip().endswith("KeyboardInterrupt")
        assert weft.load("run").summary["epochs_run"] >= 1 and os.listdir("run/checkpoints")


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return False


@pytest.fixture
def bars(monkeypatch):
    """What bars of tqdm have shown, by a stand-in for it, on a terminal."""
    shown = []
    monkeypatch.setattr(_progress, "is_watched", lambda: True)

    class Bar:
        def __init__(self, total, initial, unit, desc):
            self.n, self.total = initial, total
            shown.append((total, initial, unit, desc))

        def set_postfix_str(self, text, refresh):
            shown.append(text)

        def update(self, by):
            self.n += by

        def close(self):
            shown.append((self.n, self.total))

    module = type("module", (), {"tqdm": Bar})
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", module)
    monkeypatch.setitem(__import__("sys").modules, "tqdm", module)
    return shown


def test_no_progress_in_a_file(monkeypatch):
    silent = type("File", (), {"isatty": lambda self: False})
    notebook = type("OutStream", (), {"isatty": lambda self: False, "__module__": "ipykernel.iostream"})
    for stream, shows in ((silent, False), (notebook, True)):
        monkeypatch.setattr(sys, "stderr", stream())
        assert _progress.is_watched() == shows


def test_no_bar_where_nobody_watches(graph, bars, monkeypatch):
    monkeypatch.setattr(_progress, "is_watched", lambda: False)
    train(graph, epochs=1, progress=True)
    assert bars == []


def test_progress(graph, capfd, bars):
    run = train(graph, epochs=2, progress=True)
    s = run.history
    assert bars == [
        (2, 0, "epoch", "gcn"),
        *(f"loss {s['loss'][k]:.4f}  val {s['val'][k]:.4f}  test {s['test'][k]:.4f}" for k in (0, 1)),
        (2, 2),
    ]
    assert capfd.readouterr().out == ""
    bars.clear()
    train(graph, epochs=9, progress=True, callbacks=lambda epoch: True)
    assert bars[0][0] == 9 and bars[-1] == (
        2,
        2,
    )  # an end that was asked for is none that a notebook shows in red
    with pytest.raises(ZeroDivisionError):
        train(graph, epochs=9, progress=True, callbacks=lambda epoch: 1 / 0)
    assert bars[-1] == (1, 9)
    for settings, total in (
        ({"grid": {"lr": [0.1, 0.01], "hidden": (4,)}, "seeds": 2}, 8),
        ({"random": {"runs": 1, "settings": {"lr": [0.1]}}}, 2),
        ({"grid": {"epochs": [1, 2]}, "epochs": None}, None),
    ):
        bars.clear()
        weft.sweep(graph, **{"model": "mlp", "epochs": 2, "out": f"sweep-{total}"} | settings)
        assert bars[0] == (total, 0, "epoch", "sweep") and bars[-1] == (total or 3,) * 2


def test_stopped_seeds(graph):
    runs = weft.sweep(graph, {"lr": [0.1]}, seeds=2, epochs=5, callbacks=lambda epoch: epoch["epoch"] == 2)
    assert sorted((run.summary["seed"], run.summary["epochs_run"]) for run in runs) == [(0, 3), (1, 3)]


def test_in_words_of_python():
    from weft._errors import in_words_of_python as say

    assert say("--split 0 has no training vertices; draw one with --split random:60/20/20") == (
        'split 0 has no training vertices; draw one with split="random:60/20/20"'
    )
    assert say("--quiet leaves out progress, and there is no more").startswith("progress=False leaves")
    assert say("vertex -1: leave empty lines out, and give ids below") == "vertex -1: give ids below"
    assert say("--weight-decay -1: must be 0 or more") == "weight_decay -1: must be 0 or more"
    assert (
        say("interrupted; continue with weft train --resume runs/x")
        == 'interrupted; continue with weft.train(data, resume="runs/x")'
    )
    assert say("run is incomplete: begin the run again with weft train --resume a b, or remove it") == (
        'run is incomplete: begin the run again with weft.train(data, resume="a b"), or remove it'
    )
    assert (
        say("x; continue with the same command, --out o p and --resume auto")
        == 'x; continue with the same call, out="o p" and resume="auto"'
    )
    assert say('array "x": save it with .astype("int64")') == 'array "x": give it as .astype("int64")'
    shm = "/dev/shm/weft-0-a1_bcd2e"
    assert say(f"{shm}/arrays/vertices/paper/x.npy: is empty") == "vertices/paper/x: is empty"
    assert (
        say(f"{shm}/graph: is damaged") == "is damaged"
        and say(f"{shm}/sweep.yaml: grid: is empty") == "grid: is empty"
    )
    assert say(f"--init {shm}/init.safetensors: lacks w") == "init: lacks w"
    assert say(f"{shm}/graph: the run in q is of another graph, {shm}/graph; give that, or leave it out") == (
        "the run in q is of another graph; give that, or leave it out"
    )
    assert (
        say("/tmp/weft-0-short/graph and /tmp/weft-0-longlonglong")
        == "/tmp/weft-0-short/graph and /tmp/weft-0-longlonglong"
    )
    assert (
        say("graph: give --split-rule, or weft import npz FILE STORE --split x")
        == "graph: give split_rule, or weft import npz FILE STORE --split x"
    )
    assert say("a--b and x --no") == "a--b and x no"


def test_program(monkeypatch, tmp_path):
    monkeypatch.delenv("WEFT_PROGRAM")
    folders = [tmp_path / "scripts", tmp_path / "programs"]
    for folder, text in zip(folders, ("#!/usr/bin/python3\n", "#!/bin/sh\n")):
        folder.mkdir()
        (folder / "weft").write_text(text)
        (folder / "weft").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    monkeypatch.setattr(_program, "__file__", str(tmp_path / "package" / "_program.py"))
    assert _program.find() == str(folders[1] / "weft")  # the script of the wheel is passed over
    own = tmp_path / "package" / "bin" / "weft"
    own.parent.mkdir(parents=True)
    own.write_text("")
    assert _program.find() == str(own)
    monkeypatch.setenv("WEFT_PROGRAM", "/nowhere/weft")
    assert _program.find() == "/nowhere/weft"
    with pytest.raises(
        weft.Failed, match="^/nowhere/weft: No such file or directory; WEFT_PROGRAM names the program weft$"
    ):
        weft.runs(".")
    own.write_text("#!/bin/sh\n[ $1 = help ] || { echo weft: last words >&2; kill -9 $$; }\nexit 3\n")
    own.chmod(0o755)
    monkeypatch.setenv("WEFT_PROGRAM", str(own))
    with pytest.raises(weft.Failed, match="^the program weft was ended by SIGKILL, .*; it said last: last words$"):
        weft.runs(".")
    with pytest.raises(weft.Failed, match="^the program weft ended with status 3$"):
        weft.show_plan("graph")
    own.unlink()
    monkeypatch.delenv("WEFT_PROGRAM")
    monkeypatch.setenv("PATH", str(folders[0]))
    with pytest.raises(weft.Failed, match="^the program weft is not here: "):
        weft.runs(".")
