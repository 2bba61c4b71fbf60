"""Tables of pandas, Polars, Arrow and DuckDB in the place of files of them."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _program
from ._arrays import is_of, range_of_whole
from ._errors import Refused
from ._scratch import Scratch


def is_table(value: Any) -> bool:
    """Whether a value is a table of pandas, Polars or Arrow, or of a library that gives Arrow one, as
    DuckDB."""
    if is_of(value, "pandas", "DataFrame") or is_of(value, "polars", "DataFrame", "LazyFrame"):
        return True
    return hasattr(value, "__arrow_c_stream__") and (hasattr(value, "columns") or _is_reader(value))


def _is_reader(value: Any) -> bool:
    """Whether a value gives the rows of a table of Arrow once, some at a time."""
    return is_of(value, "pyarrow", "RecordBatchReader")


class Lists(tuple[str, ...]):
    """Lists of edges of one graph, as ``RELATION=FILE``."""


def placed(data: Any, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any], Scratch | None]:
    """What a function was given, with paths of files in the place of tables.

    ``vertices_from`` and ``add_vertices`` may be a dict of tables and paths by vertex type, and ``add_edges``
    and the graph itself one by relation.

    Returns:
        the graph, the settings, and the folder of the files, which are there as long as it; None: there are
        none.
    """
    folder: list[Scratch] = []

    def path(value: Any, name: str) -> Any:
        if not is_table(value):
            return value
        if not folder:
            folder.append(Scratch())
        file = folder[0].path / name
        with folder[0].writing(name):
            file.parent.mkdir(exist_ok=True)
            return _write(value, file, name)

    def paths(name: str, tables: Mapping[Any, Any]) -> list[str]:
        return [
            f"{type_name}={path(table, _file_name(name, type_name))}" for type_name, table in tables.items()
        ]

    made = dict(settings)
    for name, value in settings.items():
        if name in ("vertices_from", "add_vertices", "add_edges") and isinstance(value, Mapping):
            made[name] = paths(name, value)
        elif isinstance(value, (list, tuple)) and any(is_table(table) for table in value):
            raise Refused(
                f"{name}: a list of tables does not say "
                f"{'of what relation' if name == 'add_edges' else 'of what vertex type'} each is: give a "
                "dict of them"
            )
        else:
            made[name] = path(value, name)
    for name, table in data.items() if _are_lists(data) else [("", data)]:
        if is_table(table):
            _warn_of_floats(name, table, settings)
    of_edges: Any = Lists(paths("edges", data)) if _are_lists(data) else path(data, "edges")
    return of_edges, made, folder[0] if folder else None


def _warn_of_floats(relation: Any, table: Any, settings: Mapping[str, Any]) -> None:
    """Warns of labels of edges in a table that are floats and whole numbers, which the program takes for
    classes."""
    names, column = str(settings.get("edge_label", "")), None
    edge_type, _, label = names.rpartition(":")
    lazy = is_of(table, "polars", "LazyFrame")
    columns = table.collect_schema().names() if lazy else list(getattr(table, "columns", ()))
    if settings.get("values") is None and edge_type in ("", relation) and label in columns:
        table = table.select(label).collect() if lazy else table
        column = table[label] if hasattr(table, "__getitem__") else None
    if column is None or not hasattr(column, "to_numpy"):
        return
    values = column.to_numpy()
    if values.dtype.kind == "f" and (found := range_of_whole(values)):
        warnings.warn(
            f"edge_label: the floats of the column {label} are whole numbers, {found}, and taken for "
            "classes; values=True predicts values, and values=False is silent",
            stacklevel=_program.depth(),
        )


def _are_lists(data: Any) -> bool:
    """Whether a graph is given as a dict of tables and paths by relation."""
    if not isinstance(data, Mapping) or not data:
        return False
    return all(isinstance(table, (str, os.PathLike)) or is_table(table) for table in data.values())


def _file_name(setting: str, type_name: Any) -> str:
    """The name of the file of a vertex type or a relation, in a folder of the setting's."""
    what = "a relation" if setting in ("edges", "add_edges") else "a vertex type"
    if not isinstance(type_name, str) or re.search(r"[/.=,]", type_name) or not type_name:
        raise Refused(f"{setting}: {type_name!r} is no name of {what}: give a text without / . = and commas")
    return f"{setting}/{type_name}"


def _write(table: Any, path: Path, name: str) -> Path:
    """Writes a table, as Parquet where a library of that is there, else as CSV."""
    if is_of(table, "polars", "LazyFrame"):
        table = table.collect()
    if is_of(table, "pandas", "DataFrame"):
        named = [
            index_name
            for index_name in table.index.names
            if index_name is not None and index_name not in table.columns
        ]
        if named:  # else it counts the rows, or says what a column says
            table = table.reset_index(level=named)
        if _as_parquet(table, path.with_suffix(".parquet")):
            return path.with_suffix(".parquet")
        table.to_csv(path.with_suffix(".csv"), index=False)
        return path.with_suffix(".csv")
    path = path.with_suffix(".parquet")
    if is_of(table, "polars", "DataFrame"):
        table.write_parquet(path)
        return path
    if _is_reader(table):
        _write_batches(table, path)
        return path
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        library = type(table).__module__.partition(".")[0]
        raise Refused(f"{name}: a table of {library} needs pyarrow: {error}") from None
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    return path


def _write_batches(reader: Any, path: Path) -> None:
    """Writes what a reader of Arrow gives, as row groups of about 64 MiB, of which one is in memory."""
    import pyarrow
    import pyarrow.parquet

    batches: list[Any] = []
    size = 0
    with pyarrow.parquet.ParquetWriter(path, reader.schema) as writer:

        def write() -> None:
            writer.write_table(pyarrow.Table.from_batches(batches, reader.schema))
            batches.clear()

        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if size >= 64 << 20:
                write()
                size = 0
        write()


def _as_parquet(table: Any, path: Path) -> bool:
    """Whether a table of pandas could be written so: columns of Python's objects may be of several kinds."""
    try:
        import pyarrow

        table.to_parquet(path, index=False)
    except ImportError:  # it is not there, or needs another NumPy
        return False
    except (pyarrow.ArrowException, TypeError, ValueError):
        return False
    return True
