"""Examples that write files for the program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from processes import weft

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_ppi():
    """The archive has the graphs that PyTorch Geometric makes of the same files (expected.json), and
    trains."""
    folder = EXAMPLES / "ppi" / "testdata"
    subprocess.run([sys.executable, EXAMPLES / "ppi" / "ppi.py", folder, "ppi.npz"], check=True)
    want, got = json.loads((folder / "expected.json").read_text()), np.load("ppi.npz")
    for name in ("x", "y", "batch"):
        np.testing.assert_array_equal(got[name], np.array(want[name], got[name].dtype))
    edges = sorted(got["edge_index"].T.tolist(), key=lambda edge: (edge[1], edge[0]))
    assert edges == want["edges"]
    assert [np.flatnonzero(got[f"{part}_mask"]).tolist() for part in ("train", "val", "test")] == want[
        "splits"
    ]

    stderr = weft("import", "npz", "ppi.npz", "ppi")
    assert "ppi: 20 vertices of 5 graphs, 42 edges, 4 features, 3 classes, split 9/4/7, in " in stderr
    assert "micro-f1" in weft(
        "train", "ppi", "--model", "gat", "--epochs", "2", "--hidden", "8", "--out", "run"
    )
    assert '"several_labels":true' in Path("run/run.json").read_text()
