"""What keywords of a training become: flags, files and warnings, and which are refused."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
from pathlib import Path

import numpy as np
import pytest
from test_train import train

import weft
from weft import _arguments, _calls, _program


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


def test_warnings(graph, caplog):
    with pytest.warns(
        UserWarning, match="^all labels of the graph are one class, so there is nothing to learn$"
    ) as told:
        print(weft.Graph(edge_index=[[0, 1], [1, 0]], y=[0, 0]).store)
    assert len(told) == 1 and not str(told[0].message).startswith("weft")
    with pytest.warns(UserWarning, match="^all labels") as of_train:
        alike = weft.Graph(edge_index=[[0, 1], [1, 0]], y=[0, 0], split="train")
        weft.train(alike, model="gcn", hidden=8, epochs=1, node_embedding=2, progress=False)
    assert {one.filename for one in [*told, *of_train]} == {__file__}  # the lines that called
    with caplog.at_level(logging.DEBUG, "weft"):
        train(graph, epochs=1)
    assert any("needs" in line for line in caplog.messages)


def test_values(tmp_path):
    scratch = type("Scratch", (), {"path": tmp_path, "writing": lambda _: contextlib.nullcontext()})

    def value(name, setting):
        return _program.text_of(_arguments.value_of(name, setting, scratch))

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


def test_in_words_of_python():
    from weft._errors import in_words_of_python as say

    assert say("--split 0 has no training vertices; draw one with --split random:60/20/20") == (
        'split 0 has no training vertices; draw one with split="random:60/20/20"'
    )
    assert say("--quiet leaves out progress, and there is no more").startswith("progress=False leaves")
    assert say("vertex -1: leave empty lines out, and give ids below") == "vertex -1: give ids below"
    assert say("--weight-decay -1: must be 0 or more") == "weight_decay -1: must be 0 or more"
    assert (
        say("--init 'my runs/a' begins a new run with its weights")
        == 'init="my runs/a" begins a new run with its weights'
    )
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
    for other, why in (
        ("/bin/true", "is not the program weft, as it tells no version of it"),
        ("/bin/echo", "is not the program weft, as it tells no version of it"),
        ("/bin/false", "does not answer as the program weft does: the program weft ended with status 1"),
        ("/bin/cat", "does not answer as the program weft does: .*unrecognized option.*"),
        ("/etc/passwd", "Permission denied"),
    ):
        monkeypatch.setenv("WEFT_PROGRAM", other)
        for call in (
            lambda: weft.runs("."),
            lambda: weft.train("graph"),
            _calls.Program,
            lambda: weft.plan("graph"),
        ):
            with pytest.raises(weft.Failed, match=f"^{other}: {why}; WEFT_PROGRAM names the program weft$"):
                call()
    tells = "#!/bin/sh\nif [ $1 = version ]; then echo '{}'; exit; fi\n"
    tells += "[ $1 = help ] || {{ echo weft: last words >&2; kill -9 $$; }}\nexit 3\n"
    own.chmod(0o755)
    monkeypatch.setenv("WEFT_PROGRAM", str(own))
    for told in ('{"weft": "0.0.9"}', f'{{"weft": "0.0.9", "protocol": {_program.PROTOCOL - 1}}}'):
        own.write_text(tells.format(told))
        with pytest.raises(
            weft.Failed, match=f"^{own}: is weft 0.0.9, of another version than this package: install both"
        ):
            weft.runs(".")
    for told in ('{"version": 1}', "[1]", "1"):
        own.write_text(tells.format(told))
        with pytest.raises(weft.Failed, match=f"^{own}: is not the program weft, "):
            weft.runs(".")
    for status in (2, 130):  # without a line
        own.write_text(f"#!/bin/sh\nexit {status}\n")
        with pytest.raises(
            weft.Failed,
            match=f"^{own}: does not answer .*: the program weft ended with status {status}; WEFT",
        ):
            weft.runs(".")
    own.write_text(tells.format(f'{{"weft": "unknown", "protocol": {_program.PROTOCOL}}}'))
    with pytest.raises(
        weft.Failed, match="^the program weft was ended by SIGKILL, .*; it said last: last words$"
    ):
        weft.runs(".")
    with pytest.raises(weft.Failed, match="^the program weft ended with status 3$"):
        weft.show_plan("graph")
    own.unlink()
    monkeypatch.delenv("WEFT_PROGRAM")
    monkeypatch.setenv("PATH", str(folders[0]))
    with pytest.raises(weft.Failed, match="^the program weft is not here: "):
        weft.runs(".")
