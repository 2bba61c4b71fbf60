"""What tests share: small graphs as arrays, and the program that `make test` has built."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import SOURCES

sys.path.insert(0, str(SOURCES))
os.environ.setdefault("WEFT_PROGRAM", str(Path(__file__).parents[2] / "bin" / "weft"))


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
