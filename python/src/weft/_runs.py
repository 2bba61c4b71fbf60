"""Runs beside each other: several of one call, of a folder, or of a list."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

from ._comparison import columns_of, differing, rows_of
from ._errors import Refused
from ._report import Report, report_of
from ._run import Run

if TYPE_CHECKING:
    import pandas


class Runs(Sequence[Run]):
    """Several runs beside each other, as a table: what differs of graphs and settings, and the results.

    Example:
        >>> weft.compare(a, b)                                     # doctest: +SKIP
    """

    def __init__(self, runs: Iterable[Run], summary: dict[str, Any] | None = None):
        self._runs = list(runs)
        #: The object that the program printed: of ``weft train --seeds`` with ``test_mean`` and
        #: ``test_deviation``, of ``weft runs --json`` or ``weft sweep --json``; else empty.
        self.summary = summary or {}

    @overload
    def __getitem__(self, at: int) -> Run: ...
    @overload
    def __getitem__(self, at: slice) -> Runs: ...
    def __getitem__(self, at: int | slice) -> Run | Runs:
        return Runs(self._runs[at]) if isinstance(at, slice) else self._runs[at]

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def differ(self) -> list[str]:
        """The settings, by their keywords, that the runs do not share."""
        return differing(self._runs)

    @property
    def best(self) -> Run:
        """The best run by validation.

        Raises:
            Refused: there is no run, or none has a validation metric, or they have several, which do not
            compare.
        """
        if not self._runs:
            raise Refused("best: there is no run")
        metrics = {s["metric"] for s in self._summaries() if s["val"] is not None}
        if len(metrics) != 1:
            raise Refused(
                f"best: the runs have {' and '.join(sorted(metrics)) or 'no metric'} of validation vertices; "
                "give runs that have the same"
            )
        sign = -1 if metrics <= {"rmse", "mae"} else 1  # errors: the smaller, the better
        measured = [run for run in self._runs if run.summary["val"] is not None]
        return max(measured, key=lambda run: sign * run.summary["val"])

    def _summaries(self) -> list[dict[str, Any]]:
        return [run.summary for run in self._runs]

    def frame(self) -> pandas.DataFrame:
        """The table of pandas, which must be installed: a row for each run."""
        import pandas

        return pandas.DataFrame(columns_of(self._runs))

    def __repr__(self) -> str:
        rows = rows_of(self._runs)
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
        )

    def _repr_html_(self) -> str:
        rows = []
        for k, row in enumerate(rows_of(self._runs)):
            cell = "td" if k else "th"
            rows.append("<tr>" + "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in row) + "</tr>")
        return f"<table>{''.join(rows)}</table>"

    def report(self) -> Report:
        """A page about the runs, with their curves in one chart. A notebook shows it."""
        return report_of(run.directory for run in self._runs)
