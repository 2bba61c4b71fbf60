"""The snippets of documents run in their order, and print what stands below them but for numbers of trainings."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

DOCUMENTS = Path(__file__).parents[2] / "docs"
MODULES = ("torch", "torch_geometric", "wandb", "mlflow")


def words(text):
    """The text without what differs between machines: metrics, and folders."""
    return re.sub(r"\d+\.\d{4}|best \d+|\[\d[\d, ]+\]|run-\d+|/\S+(?=/runs)", "…", text).split()


@pytest.mark.parametrize(("document", "prints", "of_modules"), [("python.md", 7, 1), ("own-model.md", 3, 3)])
def test_snippets(document, prints, of_modules):
    """Snippets whose modules are missing are left out, and with them what they print."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", (DOCUMENTS / document).read_text(), re.M | re.S)
    names, said, compared, missing = {}, "", 0, set()
    for language, text in blocks:
        if language == "python":
            out = io.StringIO()
            try:
                with contextlib.redirect_stdout(out):
                    exec(compile(text, document, "exec"), names)
                said = out.getvalue()
            except (ModuleNotFoundError, NameError) as error:  # of a module, or of what a snippet made with one
                missing.add(error.name)
                said = None
        elif language == "" and said is not None:
            assert words(said) == words(text)
            compared += 1
    here = {name for name in MODULES if importlib.util.find_spec(name)}
    assert not missing & here
    assert compared == prints - (0 if {"torch", "torch_geometric"} <= here else of_modules)
