"""What tests share: small graphs as arrays, and the program that `make test` has built."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import SOURCES

sys.path.insert(0, str(SOURCES))
os.environ.setdefault("WEFT_PROGRAM", str(Path(__file__).parents[2] / "bin" / "weft"))


def pytest_sessionfinish(session):
    """Where the environment has WEFT_MAY_SKIP, a test or a file that is skipped fails unless a line of that
    is a part of what is said about it, as in scripts/gotest."""
    may, reporter = (
        os.environ.get("WEFT_MAY_SKIP"),
        session.config.pluginmanager.get_plugin("terminalreporter"),
    )
    if may is None or reporter is None:
        return
    skipped = [
        f"skipped: {r.nodeid}: {r.longrepr[2].removeprefix('Skipped: ')}"
        for r in reporter.stats.get("skipped", [])
    ]
    refused = [line for line in skipped if not any(part in line for part in may.splitlines() if part)]
    if refused:
        reporter.write_line("\nno line of WEFT_MAY_SKIP is a part of\n" + "\n".join(refused))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder in which a test works."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def arrays():
    """A directed graph of 60 vertices in three classes."""
    random = np.random.default_rng(1)
    y = np.arange(60) % 3
    part = random.permutation(np.arange(60) % 4)
    return {
        "edge_index": random.integers(0, 60, (2, 300)),
        "x": (random.normal(size=(60, 5)) + y[:, None]).astype(np.float32),
        "y": y,
        "train_mask": part < 2,
        "val_mask": part == 2,
        "test_mask": part == 3,
    }


@pytest.fixture
def graph(arrays):
    """That graph in memory."""
    import weft

    return weft.Graph(**arrays)


@pytest.fixture
def without_room(tmp_path, monkeypatch):
    """Temporary files are written where a test works, and no file can become longer than some pages."""
    from weft import _scratch

    monkeypatch.setattr(_scratch, "_root", lambda size: tmp_path)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limit[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)


@pytest.fixture
def bars(monkeypatch):
    """What bars of tqdm have shown, by a stand-in for it, on a terminal."""
    from weft import _progress

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
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    monkeypatch.setitem(sys.modules, "tqdm", module)
    return shown
