"""The bar of a training's epochs."""

from __future__ import annotations

import sys

import pytest
from test_train import train

import weft
from weft import _progress


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
