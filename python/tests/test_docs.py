"""The snippets of documents run in their order, and print what stands below them but for numbers of trainings."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

DOCUMENTS = Path(__file__).parents[2] / "docs"
MODULES = ("torch_geometric", "wandb", "mlflow", "lightning", "pandas", "faiss", "sklearn", "optuna")
HERE = {name for name in MODULES if importlib.util.find_spec(name)}
OWN = "torch_geometric" in HERE and importlib.util.find_spec("torch.export") is not None


def words(text):
    """The text without what differs between machines: metrics, and folders."""
    return re.sub(r"\d+\.\d{4}|best \d+|\[\d[\d, ]+\]|run-\d+|\d{8}-\d{6}|/\S+(?=/runs)", "…", text).split()


# All recipes are of tables of pandas: `make test-python-torch` runs them.
RECIPES = [("recipes.md", 9)] if "pandas" in HERE else []

OF_MODULES = pytest.mark.skipif(not OWN, reason="there is no torch_geometric with torch.export")


@pytest.mark.parametrize(("document", "prints"), [("python.md", 9), *RECIPES, pytest.param("own-model.md", 8, marks=OF_MODULES), pytest.param("loop.md", 7, marks=OF_MODULES)])
def test_snippets(document, prints):
    """Snippets whose modules are missing are left out, and with them what they print."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", (DOCUMENTS / document).read_text(), re.M | re.S)
    names, said, compared, missing = {}, "", 0, 0
    for language, text in blocks:
        if language == "python":
            out = io.StringIO()
            try:
                with contextlib.redirect_stdout(out):
                    exec(compile(text, document, "exec"), names)
                said = out.getvalue()
            except ModuleNotFoundError as error:
                assert error.name in MODULES and error.name not in HERE
                said = None
        elif language == "" and said is not None:
            assert words(said) == words(text)
            compared += 1
        elif language == "":
            missing += 1
    assert compared == prints - missing


@OF_MODULES
def test_readme():
    """The first snippet of the README trains a module in both ways, and prints what stands below it."""
    readme = (DOCUMENTS.parent / "README.md").read_text()
    text, printed = re.search(r"^```python\n(.*?)^```\n```\n(.*?)^```", readme, re.M | re.S).groups()
    names, out = {}, io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "README.md", "exec"), names)
    assert words(out.getvalue()) == words(printed)
    y = names["y"].numpy()
    assert (names["run"].predictions == y).mean() > 0.8
    assert (names["net"]().argmax(1).numpy() == y).mean() > 0.8
