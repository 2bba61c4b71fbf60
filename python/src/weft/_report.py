"""A page about runs, as weft report writes it."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from pathlib import Path

from . import _program
from ._folders import graphs_named
from ._scratch import Scratch


class Report:
    """A page in HTML, which a notebook shows."""

    def __init__(self, text: str):
        #: The page, which needs no network.
        self.html = text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page into a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width:100%;height:720px;border:0"></iframe>'


def report_of(directories: Iterable[Path]) -> Report:
    """A page about the runs in these directories."""
    scratch = Scratch()
    try:
        page = scratch.path / "report.html"
        _program.run(["report", *map(str, directories), f"--out={page}"])
        return Report(graphs_named(page.read_text(encoding="utf-8")))
    finally:
        scratch.close()
