"""The snippets of docs/python.md run in their order, and print what stands below them but for numbers of trainings."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "python.md"


def words(text):
    """The text without what differs between machines: metrics, and folders."""
    return re.sub(r"\d+\.\d{4}|best \d+|\[\d[\d, ]+\]|run-\d+|/\S+(?=/runs)", "…", text).split()


def test_snippets():
    """Snippets whose modules are missing are left out, and with them what they print."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", DOCUMENT.read_text(), re.M | re.S)
    names, said, compared, missing = {}, "", 0, []
    for language, text in blocks:
        if language == "python":
            out = io.StringIO()
            try:
                with contextlib.redirect_stdout(out):
                    exec(compile(text, "docs/python.md", "exec"), names)
                said = out.getvalue()
            except ModuleNotFoundError as error:
                missing.append(error.name)
                said = None
        elif language == "" and said is not None:
            assert words(said) == words(text)
            compared += 1
    assert missing == [
        name for name in ("torch_geometric", "wandb", "mlflow") if importlib.util.find_spec(name) is None
    ]
    assert compared == (6 if "torch_geometric" in missing else 7)
