"""examples/notebook.ipynb runs from its first cell to its last, and shows what it has stored, but for
metrics."""

from __future__ import annotations

import copy
import os
import re
import sys
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).parents[3]


def shown(notebook):
    """What each cell shows, without decimals of metrics, which differ between processors."""
    texts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output["data"]["text/plain"]
            texts.append(re.sub(r"\d\.\d+", "…", text).split())
    return texts


def test_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python" / "src"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    stored = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    again = copy.deepcopy(stored)
    nbclient.NotebookClient(
        again, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert len(shown(stored)) == 7 and shown(again) == shown(stored)
