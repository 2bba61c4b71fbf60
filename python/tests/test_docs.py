"""The snippets of docs/python.md run in their order, and print what stands below them but for numbers of trainings."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "python.md"


def words(text):
    """The text without what differs between machines: metrics, and folders."""
    return re.sub(r"\d+\.\d{4}|best \d+|\[\d[\d, ]+\]|run-\d+|/\S+(?=/runs)", "…", text).split()


def test_snippets():
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", DOCUMENT.read_text(), re.M | re.S)
    names, said, compared, missing = {}, "", 0, []
    for language, text in blocks:
        if language == "python":
            out = io.StringIO()
            try:
                with contextlib.redirect_stdout(out):
                    exec(compile(text, "docs/python.md", "exec"), names)
            except ModuleNotFoundError as error:
                missing.append(error.name)
            said = out.getvalue()
        elif language == "":
            assert words(said) == words(text)
            compared += 1
    assert compared == 6 and missing == ["wandb", "mlflow"]
