"""The table of runs beside each other: what differs of graphs and settings, and the results. `Runs` shows it,
and a Run that is opened asks for its row, which is there if its files are whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol


class Finished(Protocol):
    """What is asked of a run."""

    directory: Path

    @property
    def settings(self) -> dict[str, str]: ...

    @property
    def summary(self) -> dict[str, Any]: ...


def differing(runs: Sequence[Finished]) -> list[str]:
    """The settings, by their keywords, that the runs do not share."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    return [name for name in names if len({run.settings.get(name) for run in runs}) > 1]


def columns_of(runs: Sequence[Finished]) -> dict[str, list[Any]]:
    """The columns of the table, by their names: a value for each run."""
    summaries = [run.summary for run in runs]
    facts = [{"dataset": s["dataset"], "metric": s["metric"], **s["graph"]} for s in summaries]
    columns: dict[str, list[Any]] = {
        name: cells
        for name in ("dataset", "vertices", "edges", "features", "classes", "metric")
        if len(set(cells := [fact.get(name) for fact in facts])) > 1
    }
    columns |= {name: [run.settings.get(name) for run in runs] for name in differing(runs)}
    for name in ("train", "val", "test", "best_epoch", "epochs_run", "epoch_seconds_median"):
        values = [s[name] for s in summaries]
        whole = name in ("best_epoch", "epochs_run")
        columns[name] = values if whole else [None if value is None else float(value) for value in values]
    columns["directory"] = [str(run.directory) for run in runs]
    return columns


def rows_of(runs: Sequence[Finished]) -> list[list[str]]:
    """The rows of the table as texts, below a row of names."""
    columns = columns_of(runs)
    return [list(columns), *([_shown(x) for x in row] for row in zip(*columns.values()))]


def _shown(value: Any) -> str:
    """A value of a table."""
    return f"{value:.4f}" if isinstance(value, float) else "–" if value is None else str(value)
