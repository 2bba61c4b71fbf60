"""Runs that are there: `weft.load`, `weft.runs` and `weft.compare`."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

from . import _program
from ._errors import Refused
from ._run import Run
from ._runs import Runs


def load(directory: str | os.PathLike[str]) -> Run:
    """Opens a run that has ended. What needs its graph takes that, as ``run.embeddings(data)``, if it was in
    memory.

    Raises:
        Refused: the directory has no results of a run.
    """
    return Run(directory)


def runs(directory: str | os.PathLike[str] = "runs") -> Runs:
    """The runs in a folder and below it that have results, the best by validation first."""
    listed = json.loads(_program.run(["runs", _program.operand(directory), "--json"]))
    found = []
    for path in (Path(one["run_dir"]) for one in listed["runs"]):
        if (path / "run.json").exists():
            try:
                found.append(Run(path))
            except Refused as error:
                warnings.warn(f"left out: {error}", stacklevel=2)
    return Runs(found, listed)


def compare(*runs: Run | str | os.PathLike[str]) -> Runs:
    """A table of runs, or of their directories: the settings that differ, and the results."""
    return Runs(run if isinstance(run, Run) else Run(run) for run in runs)
