"""Temporary folders go when they are not needed any more, however that comes about."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from processes import python

import weft
from weft import _scratch


@pytest.fixture(autouse=True)
def memory(monkeypatch, tmp_path_factory):
    """The folder in which other temporary folders are remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    return _scratch._memory()


RING = {"edge_index": [[0, 1, 2], [1, 2, 0]], "x": np.eye(3), "y": [0, 1, 0], "split": "train"}


def test_with_its_objects():
    graph = weft.Graph(**RING)
    store = graph.store
    run = weft.train(graph, epochs=1, progress=False)
    del graph
    gc.collect()
    assert store.is_dir() and run.embeddings().shape == (3, 64)
    del run
    gc.collect()
    assert not store.parent.exists()


def test_refused_graph(monkeypatch, tmp_path):
    monkeypatch.setattr(_scratch, "_root", lambda size: tmp_path)
    graph = weft.Graph(**RING | {"y": [0, 5, 0]})
    for _ in range(2):
        with pytest.raises(weft.Refused, match='^array "y": label 5 of vertex 1: '):
            print(graph.store)
    assert os.listdir(tmp_path) == []


LARGE = np.arange(1 << 16)
CALLS = {
    "the graph": [
        lambda: weft.Graph(edge_index=[LARGE, LARGE]).store,
        lambda: weft.Graph(edge_index=[[0], [1]], x=LARGE[:, None]).store,
    ],
    "init": [lambda: weft.train("graph", init={"w": LARGE})],
    "class_weights": [lambda: weft.train("graph", class_weights=LARGE)],
}


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("shared", [True, False])
def test_without_room(monkeypatch, tmp_path, without_room, what, shared):
    """What cannot be written is one line, with the folder, the reason and the way out."""
    if shared:
        monkeypatch.setattr(_scratch, "_SHARED", tmp_path)
    way = "make room" if shared else "make room, or name another folder by TMPDIR"
    for call in CALLS[what]:
        with pytest.raises(weft.Failed) as error:
            call()
        assert str(error.value) == f"{tmp_path}: {what} cannot be written there: File too large; {way}"
        assert os.listdir(tmp_path) == []


def test_without_a_folder(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device", "a folder")

    monkeypatch.setattr(_scratch, "_root", lambda size: tmp_path)
    monkeypatch.setattr(_scratch.fcntl, "flock", full)
    with pytest.raises(weft.Failed) as error:
        _scratch.Scratch()
    why = (
        "a temporary folder cannot be written there: No space left on device; make room, or name another "
        "folder by TMPDIR"
    )
    assert str(error.value) == f"{tmp_path}: {why}"
    assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    scratch = _scratch.Scratch()
    with pytest.raises(FileNotFoundError, match="'/none'"), scratch.writing("a copy"):  # of what is not there
        shutil.copy("/none", scratch.path)


def test_shared_memory_that_is_full(monkeypatch, tmp_path):
    """Where nobody knows how much is written, shared memory with little room is passed over."""
    monkeypatch.setattr(_scratch, "_free_memory", lambda: 1 << 40)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    real = os.statvfs("/dev/shm")

    def room(pages):
        values = list(real)
        values[1], values[4] = 4096, pages
        monkeypatch.setattr(_scratch.os, "statvfs", lambda path: os.statvfs_result(values))

    for pages, root in ((0, tmp_path), (1, tmp_path), ((1 << 19) - 1, tmp_path), (1 << 19, Path("/dev/shm"))):
        room(pages)
        assert _scratch.Scratch().path.parent == root
    for pages, root in ((0, tmp_path), (511, tmp_path), (1024, Path("/dev/shm"))):
        room(pages)
        assert weft.Graph(**RING).store.parents[1] == root


def test_where(monkeypatch):
    room = os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_frsize
    monkeypatch.setattr(_scratch, "_free_memory", lambda: 2 * room + 1000)
    assert _scratch._root(room // 2) == Path("/dev/shm")
    assert _scratch._root(room // 2 + 1) == Path(tempfile.gettempdir())
    monkeypatch.setattr(_scratch, "_free_memory", lambda: 4000)
    assert _scratch._root(1000) == Path("/dev/shm") and _scratch._root(1001) == Path(tempfile.gettempdir())


KILLED = """
import os, signal, sys
from pathlib import Path
from weft import _scratch
_scratch._root = lambda size: Path(sys.argv[1])
one = _scratch.Scratch()
print(one.path)
if os.fork() == 0:
    del one
    sys.exit()
os.wait()
print(one.path.is_dir(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_left_by_a_killed_python(monkeypatch, tmp_path):
    path, there = python(KILLED, tmp_path).stdout.split()
    assert there == "True" and os.path.isdir(path)  # the forked process has not removed it
    monkeypatch.setattr(_scratch, "_root", lambda size: tmp_path)
    kept = _scratch.Scratch()
    again = _scratch.Scratch()
    assert not os.path.exists(path) and kept.path.is_dir() and again.path.is_dir()
    kept.close()
    assert os.listdir(tmp_path) == [again.path.name]


def test_left_elsewhere(monkeypatch, tmp_path, memory):
    """What a killed Python has left is removed wherever the next one works, and nothing that is in use."""
    used, other, gone = (tmp_path / name for name in ("used", "other", "gone"))
    for root in (used, other, gone):
        root.mkdir()
    left = python(KILLED, used).stdout.split()[0]
    python(KILLED, gone)
    shutil.rmtree(gone)
    monkeypatch.setattr(_scratch, "_root", lambda size: used)
    own = _scratch.Scratch()
    monkeypatch.setattr(_scratch, "_root", lambda size: other)
    shutil.copytree(own.path, left)  # as the sweep of that Python would have it
    made = _scratch.Scratch()
    assert os.listdir(used) == [own.path.name] and os.listdir(other) == [made.path.name]
    assert {link.readlink() for link in memory.iterdir()} == {
        used,
        other,
    }  # the one that is gone is forgotten
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")  # without a memory folders are made, too
    assert _scratch.Scratch().path.parent == other


def test_lock_goes_at_last(monkeypatch, tmp_path):
    """A Python that is killed while it removes a folder leaves the lock, so that the next one finds the
    rest."""
    monkeypatch.setattr(_scratch, "_root", lambda size: tmp_path)
    made, removed = _scratch.Scratch(), []
    for name in ("a", "z"):
        (made.path / name).mkdir()
    remove = shutil.rmtree

    def see(path, ignore_errors):
        removed.append((path.name, os.listdir(made.path)))
        remove(path)

    monkeypatch.setattr(_scratch.shutil, "rmtree", see)
    made.close()
    assert {name for name, _ in removed[:-1]} == {"a", "z"} and removed[-1] == (made.path.name, ["lock"])


def test_without_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of a Python that was killed before it had the lock is removed, and one that is being made
    stays; an interrupt leaves none."""
    old, new = (tmp_path / f"weft-{os.getuid()}-{name}" for name in ("abcdefgh", "bcdefghi"))
    for folder in (old, new):
        folder.mkdir()
        (folder / ".lock").touch()
    os.utime(old, (1, 1))
    _scratch._sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [new]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_scratch, "_root", lambda size: tmp_path)
    monkeypatch.setattr(_scratch.fcntl, "flock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _scratch.Scratch()
    assert list(tmp_path.iterdir()) == [new]
