"""Trainings give the command's bits, end as they are told to, and say what is wrong in Python's words."""

from __future__ import annotations

import datetime
import json
import logging
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import python
from conftest import weft as command

import weft
from weft import _program, _train


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


def test_callbacks(graph):
    told = []
    run = train(graph, epochs=100_000, out="run", callbacks=[told.append, lambda epoch: epoch["epoch"] >= 3])
    assert run.summary["epochs_run"] == 4 and "signal" in run.reason
    assert told == [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert run.history["epoch"].tolist() == [1, 2, 3, 4] and run.history["loss"].tolist() == run.summary["losses"]
    assert train(graph, epochs=3, callbacks=lambda epoch: epoch["epoch"]).summary["epochs_run"] == 3  # 1 is not True
    assert train(graph, epochs=9, callbacks=lambda epoch: np.bool_(True)).summary["epochs_run"] == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_interrupted_and_resumed(graph, arrays, error, caplog):
    whole = train(graph, epochs=6, out="whole")

    def fail(epoch):
        if epoch["epoch"] == 2:
            raise error

    with pytest.raises(error):
        train(graph, epochs=6, out="run", callbacks=fail)
    assert caplog.messages[-1].endswith("the results so far are in run; continue with weft train --resume run")
    assert weft.load("run").summary["epochs_run"] in (2, 3) and os.listdir("run/checkpoints")
    rest = []
    run = train(weft.Graph(**arrays), epochs=6, out="run", resume="auto", callbacks=rest.append)  # another copy of the graph
    assert run.summary["losses"] == whole.summary["losses"] and (run.logits == whole.logits).all()
    assert rest[-1]["epoch"] == 6 and rest[0]["epoch"] in (3, 4)
    more = weft.train(None, resume=run, epochs=8, progress=False)
    assert more.summary["epochs_run"] == 8 and more.directory == run.directory


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


@pytest.mark.parametrize(
    ("keyword", "line"),
    [
        ("hiden", r"^unknown keyword hiden: did you mean hidden\?$"),
        ("hidden_channels", "^unknown keyword hidden_channels: hidden is the width of hidden layers$"),
        ("explain", "^unknown keyword explain: it is not for Python$"),
        ("frobnicate", "^unknown keyword frobnicate: help(weft.train) says where they are listed$".replace("(", r"\(").replace(")", r"\)")),
    ],
)
def test_unknown_keyword(graph, keyword, line):
    with pytest.raises(TypeError, match=line):
        train(graph, **{keyword: 3})


def test_failed(graph):
    with pytest.raises(weft.Failed, match="^epoch 1: the logits are not finite; try a smaller lr, clip 1, or norm layer; run is incomplete"):
        train(graph, lr=1e30, epochs=5, optimizer="sgd", out="run")

    def kill(number):
        def send(epoch):
            os.kill(children()[0], number)

        return send

    with pytest.raises(weft.Failed, match="^the program weft was ended by SIGKILL, as the system does where memory is short"):
        train(graph, epochs=100_000, callbacks=kill(signal.SIGKILL))

    with pytest.raises(weft.Interrupted, match="^interrupted after epoch [0-9]+; the results so far are in stopped; continue with weft train --resume stopped$"):
        train(graph, epochs=100_000, callbacks=kill(signal.SIGTERM), out="stopped")
    assert weft.load("stopped").summary["epochs_run"] >= 1


def children():
    """The processes that this one has started."""
    own = os.getpid()
    return [int(child) for task in os.listdir(f"/proc/{own}/task") for child in Path(f"/proc/{own}/task/{task}/children").read_text().split()]


def test_warnings(graph, caplog):
    with pytest.warns(UserWarning, match="^all labels of the graph are one class, so there is nothing to learn$") as told:
        print(weft.Graph(edge_index=[[0, 1], [1, 0]], y=[0, 0]).store)
    assert len(told) == 1 and not str(told[0].message).startswith("weft")
    with caplog.at_level(logging.DEBUG, "weft"):
        train(graph, epochs=1)
    assert any("needs" in line for line in caplog.messages)


def test_several(graph):
    runs = train(graph, epochs=2, seeds=3, out="seeds")
    assert [run.summary["seed"] for run in runs] == [0, 1, 2] and len(runs) == 3
    tests = [run.summary["test"] for run in runs]
    assert runs.summary["test_mean"] == pytest.approx(np.mean(tests)) and runs.summary["test_deviation"] == pytest.approx(np.std(tests, ddof=1))
    assert runs.differ == ["seed"] and "seed" in repr(runs).splitlines()[0] and "<th>seed</th>" in runs._repr_html_()


def test_values(tmp_path):
    scratch = type("Scratch", (), {"path": tmp_path})

    def value(name, of):
        return _program.text_of(_train._value(name, of, scratch))

    assert value("parallel", {"graph": 2, "tensor": 3}) == "graph=2,tensor=3" and value("parallel", "graph=4") == "graph=4"
    assert value("link_split", (80, 10, 10)) == "80/10/10"
    assert value("link_relation", ("author", "writes", "paper")) == "author,writes,paper"
    assert value("link_relation", [("a", "b", "c"), ("d", "e", "f")]) == "a,b,c;d,e,f"
    assert Path(value("class_weights", [1, 0.5])).read_text() == "1.0\n0.5\n" and value("class_weights", "balanced") == "balanced"
    assert value("max_time", datetime.timedelta(minutes=1.5)) == "90.0s"
    assert (value("lr", np.float32(0.5)), value("hidden", np.int64(3)), value("residual", np.bool_(True)), value("lr", 1e-5)) == ("0.5", "3", "true", "1e-05")
    assert _program.flag("weight_decay", 0.1) == "--weight-decay=0.1" and _program.flag("residual", False) == "--residual=false"
    assert value("trace", Path("a b.json")) == "a b.json"


def test_settings_that_are_data(arrays, graph):
    first = train(graph, epochs=2)
    for init in (first, first.state_dict()):
        assert train(graph, epochs=1, init=init, dropout=0, lr=1e-9).logits == pytest.approx(first.logits, abs=1e-5)
    rival = train(graph, epochs=1, dropout=0, lr=1e-9)
    assert abs(rival.logits - first.logits).max() > 1e-2
    other = weft.Graph(**arrays | {"x": arrays["x"][::-1].copy()})
    run = train(graph, epochs=1, validate=other, class_weights=[1, 2, 3])
    assert run.summary["validation_graph"]["vertices"] == 60


def test_max_time(graph):
    with pytest.raises(weft.Interrupted, match="^max_time "):
        train(graph, epochs=100_000_000, max_time="1ms", out="run")
    assert weft.load("run").summary["epochs_run"] >= 1


def test_python_that_a_launcher_started(graph, monkeypatch):
    for name, value in {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PMI_RANK": "0", "PMI_SIZE": "2"}.items():
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
def end(epoch):
    child = [c for t in os.listdir("/proc/self/task") for c in open(f"/proc/self/task/{t}/children").read().split()]
    print(child[0], os.listdir("/dev/shm"), flush=True)
    HOW
weft.train(weft.Graph(edge_index=[[0, 1, 2], [1, 2, 0]], x=np.eye(3), y=[0, 1, 0], split="train"), epochs=10**9, callbacks=end, progress=False, CALL)
"""


@pytest.mark.parametrize("how", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGINT)"])
def test_nothing_outlives_python(how):
    done = python(ENDS.replace("HOW", how).replace("CALL", 'out="run"'))
    child = int(done.stdout.split()[0])
    while alive(child):
        time.sleep(0.01)
    if "SIGINT" in how:
        assert done.stderr.rstrip().endswith("KeyboardInterrupt")
        assert weft.load("run").summary["epochs_run"] >= 1 and os.listdir("run/checkpoints")


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def test_progress(graph, capfd, monkeypatch):
    shown = []

    class Bar:
        def __init__(self, total, initial, unit, desc):
            self.n = initial
            shown.append((total, initial, unit, desc))

        def set_postfix_str(self, text, refresh):
            shown.append(text)

        def update(self, by):
            self.n += by

        def close(self):
            shown.append(self.n)

    module = type("module", (), {"tqdm": Bar})
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", module)
    monkeypatch.setitem(__import__("sys").modules, "tqdm", module)
    run = train(graph, epochs=2, progress=True)
    s = run.history
    assert shown == [(2, 0, "epoch", "gcn"), *(f"loss {s['loss'][k]:.4f}  val {s['val'][k]:.4f}  test {s['test'][k]:.4f}" for k in (0, 1)), 2]
    assert capfd.readouterr().out == ""


def test_in_words_of_python():
    from weft._errors import in_words_of_python as say

    assert say("--weight-decay -1: must be 0 or more") == "weight_decay -1: must be 0 or more"
    assert say("interrupted; continue with weft train --resume runs/x") == "interrupted; continue with weft train --resume runs/x"
    assert say("graph: give --split-rule, or weft import npz FILE STORE --split x") == "graph: give split_rule, or weft import npz FILE STORE --split x"
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
    with pytest.raises(weft.Failed, match="^/nowhere/weft: No such file or directory; WEFT_PROGRAM names the program weft$"):
        weft.runs(".")
    own.unlink()
    monkeypatch.delenv("WEFT_PROGRAM")
    monkeypatch.setenv("PATH", str(folders[0]))
    with pytest.raises(weft.Failed, match="^the program weft is not here: "):
        weft.runs(".")
