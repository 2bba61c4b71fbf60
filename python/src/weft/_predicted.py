"""What weft predict and weft train write, as arrays and tables: rows of vertices or edges, in the order of
the data. `_run` reads its files by these."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import Array, array, save

if TYPE_CHECKING:
    import pandas


class Table(dict[str, Array]):
    """Columns of equal length, by their names."""

    def frame(self) -> pandas.DataFrame:
        """The columns as a table of pandas, which must be installed."""
        import pandas

        return pandas.DataFrame(dict(self))


class History(Table):
    """The epochs of a run: a column with a number for each epoch, by its name, as ``epoch``, ``loss``,
    ``val``.

    Metrics are NaN in epochs that were not evaluated.

    Example:
        >>> run.history["loss"][-1]                                # doctest: +SKIP
        0.3679
    """


def matrix_of(file: Path) -> Array:
    return np.asarray(np.load(file))


#: What a table may say besides the numbers and ends of edges, in one column or several.
_ANSWERS = ("class", "probability", "margin", "entropy", "probabilities", "value", "embedding", "change")


def _of_ends(words: list[str]) -> list[str]:
    """The words for columns of a table of edges that name the edge or an end."""
    return [
        word
        for word in words
        if word not in _ANSWERS and not word.startswith(("probability_", "label_", "value_"))
    ]


class InOrder:
    """Makes a table of edges in the order of edge_index from one in the order of the store.

    Args:
        order: where the edges of the store stand in edge_index.
        columns: those to return.
        settings: of :meth:`Run.predict`.
    """

    def __init__(self, order: Array, columns: list[str], settings: dict[str, Any]):
        self._order, self._sort, self._top = order, settings.get("sort"), None
        self._hidden = bool(_of_ends(columns)) and "edge" not in columns
        #: The columns and the settings to ask the program for. It orders edges by their numbers in the store.
        self.columns = [*columns, "edge"] if self._hidden else columns
        self.settings = settings
        if self._sort in ("edge", "-edge"):
            top = settings.get("top")
            if isinstance(top, (int, np.integer)) and top > 0:
                self._top, self.settings = int(top), settings | {"top": None}

    def table(self, made: Table) -> Table:
        """The columns that were asked for, of what the program wrote."""
        edges = self._order[made["edge"]]
        made["edge"] = edges
        if self._sort in (None, "edge", "-edge"):
            rows = np.argsort(-edges if self._sort == "-edge" else edges)[: self._top]
            made = Table({name: values[rows] for name, values in made.items()})
        if self._hidden:
            del made["edge"]
        return made


def _ends(header: list[str], words: list[str]) -> list[str]:
    """The columns that name the ends of edges, in a table for which these columns were asked."""
    own = _of_ends(words)
    if not own:
        return header[1:3]
    ends, at = [], 0
    for word in words:
        if word in own and word not in ("edge", "row"):
            ends.append(header[at])
        at += 1 + (len(header) - len(words)) * (word in ("probabilities", "value"))
    return ends


def table_of(file: Path, edges_of: list[str] | None = None, several: bool = False) -> Table:
    """Reads a table of the program: vertices and classes without names are integers, other numbers float32.

    A number that is not there is NaN. edges_of: the columns that were asked for of edges; None: of vertices.
    several: classes are lists of labels, which are text.
    """
    with open(file, encoding="utf-8", newline="") as text:
        header, *rows = csv.reader(text)
    table = Table()
    ends = [] if edges_of is None else _ends(header, edges_of)
    numbers = ("vertex", "edge", "row", *ends, *(() if several else ("class", "old_class")))
    for k, name in enumerate(header):
        column = np.array([row[k] for row in rows], str)
        if name in numbers and all(value.isdecimal() for value in column.tolist()):
            table[name] = column.astype(np.int64)
        elif name in ("type", "name", "class", "old_class", *ends):
            table[name] = column
        else:
            table[name] = np.where(column == "", "nan", column).astype(np.float32)
    return table


def file_of(vertices: Any, folder: Path) -> Path:
    """A file of ids or names of vertices, in a folder."""
    ids = array(vertices, "vertices")
    if ids.dtype.kind in "UO":
        file = folder / "vertices.csv"
        with open(file, "w", encoding="utf-8", newline="") as text:  # the header is the name of no vertex
            csv.writer(text, quoting=csv.QUOTE_ALL).writerows([[""], *([name] for name in ids.tolist())])
        return file
    file = folder / "vertices.npy"
    save(file, ids if ids.size else ids.astype(np.int64))
    return file


def probabilities_of(logits: Array, several: bool, fitted: dict[str, Any] | None) -> Array:
    """The probabilities of logits, of labels or of classes, as the run's calibration makes them."""
    if fitted is not None:
        logits = logits.astype(np.float64) / fitted.get("temperature", 1)
    if several:
        made = np.asarray(1 / (1 + np.exp(-logits)))
    else:
        powers = np.exp(logits - logits.max(1, keepdims=True))
        made = np.asarray(powers / powers.sum(1, keepdims=True))
    if fitted is None or "isotonic" not in fitted:
        return made
    curves = fitted["isotonic"]
    if made.shape[1] == 2 and len(curves) == 1:
        one = np.interp(made[:, 1], curves[0]["from"], curves[0]["to"])
        return np.stack([1 - one, one], 1)
    made = np.stack([np.interp(made[:, k], at["from"], at["to"]) for k, at in enumerate(curves)], 1)
    if several:
        return made
    sums = made.sum(1, keepdims=True)
    return np.asarray(np.where(sums > 0, made / np.where(sums > 0, sums, 1), 1 / made.shape[1]))
