"""The snippets of documents run in their order, and print what stands below them but for numbers of
trainings."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENTS = Path(__file__).parents[2] / "docs"
MODULES = ("torch_geometric", "wandb", "mlflow", "lightning", "pandas", "faiss", "sklearn", "optuna")
HERE = {name for name in MODULES if importlib.util.find_spec(name)}
OWN = "torch_geometric" in HERE and importlib.util.find_spec("torch.export") is not None


def words(text):
    """The text without what differs between machines: metrics, and folders."""
    return re.sub(
        r"\d+\.\d{4}|would need \d+ MB|best \d+|\[\d[\d, ]+\]|run-\d+|\d{8}-\d{6}|/\S+(?=/runs)", "…", text
    ).split()


# All recipes are of tables of pandas: `make test-python-torch` runs them.
RECIPES = [("recipes.md", 9), ("tutorials/fraud.md", 3)] if "pandas" in HERE else []

OF_MODULES = pytest.mark.skipif(not OWN, reason="there is no torch_geometric with torch.export")


@pytest.mark.parametrize(
    ("document", "prints"),
    [
        ("python.md", 9),
        *RECIPES,
        pytest.param("own-model.md", 7, marks=OF_MODULES),
        pytest.param("loop.md", 7, marks=OF_MODULES),
        pytest.param("graph-sets.md", 1, marks=OF_MODULES),
        pytest.param("tutorials/larger-than-memory.md", 3, marks=OF_MODULES),
    ],
)
def test_snippets(document, prints):
    """Snippets whose modules are missing are left out, and with them what they print."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", (DOCUMENTS / document).read_text(), re.M | re.S)
    names, printed, compared, missing = {}, "", 0, 0
    for language, text in blocks:
        if language == "python":
            out = io.StringIO()
            try:
                with contextlib.redirect_stdout(out):
                    exec(compile(text, document, "exec"), names)
                printed = out.getvalue()
            except ModuleNotFoundError as error:
                assert error.name in MODULES and error.name not in HERE
                printed = None
        elif language == "" and printed is not None:
            assert words(printed) == words(text)
            compared += 1
        elif language == "":
            missing += 1
    assert compared == prints - missing


def test_fraud_command():
    """The command that trains has the settings of the call."""
    text = (DOCUMENTS / "tutorials/fraud.md").read_text()
    call = re.search(r"weft\.train\((.*?)^\)", text, re.M | re.S)[1]
    command = re.search(r"weft train ((.*\\\n)*.*)", text)[1]
    flags = dict(re.findall(r"--(\S+) (\S+)", command))
    assert command.split()[0] == re.search(r'"(.*?)"', call)[1]
    assert flags == {
        name.replace("_", "-"): value.strip('"') for name, value in re.findall(r"(\w+)=(.+),", call)
    }


@OF_MODULES
def test_readme():
    """The two snippets of the README train a module in both ways, and print what stands below them."""
    readme = (DOCUMENTS.parent / "README.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```\n```\n(.*?)^```", readme, re.M | re.S)
    assert len(blocks) == 2
    names = {}
    for text, printed in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, "README.md", "exec"), names)
        assert words(out.getvalue()) == words(printed)
    y = names["y"].numpy()
    assert (names["run"].predictions == y).mean() > 0.8
    assert (names["net"]().argmax(1).numpy() == y).mean() > 0.8


def test_picture():
    """The picture of the README has the figures of performance.md: `make picture` draws it."""
    spec = importlib.util.spec_from_file_location(
        "picture", DOCUMENTS.parent / "scripts" / "peers" / "picture.py"
    )
    picture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(picture)
    groups = picture.figures((DOCUMENTS / "performance.md").read_text())
    assert [len(systems) for _, systems in groups] == [3] * 3 + [2] * 4
    assert groups[0][0] == "SAGE" and groups[3][0] == "ResGatedGraphConv"
    assert (DOCUMENTS / "speed.svg").read_text() == picture.picture(groups), "make picture"


@OF_MODULES
def test_flows(capsys, tmp_path, monkeypatch):
    """The flow of the example enters no cylinder, and neither ends nor turns; weft's losses are PyTorch's. In
    the picture of the page they fall together."""
    torch = importlib.import_module("torch")
    monkeypatch.syspath_prepend(DOCUMENTS.parent / "examples" / "flows")
    flows = importlib.import_module("flows")
    centre, inflow = torch.tensor([0.4, 0.6]).double(), torch.tensor([1.2, -0.3]).double()

    def at(point):
        return flows.velocity(point[None], centre, 0.2, inflow)[0]

    for turn in torch.arange(0, 6, 0.7).double():
        outward = torch.stack([turn.cos(), turn.sin()])
        assert abs(float(at(centre + 0.2 * outward) @ outward)) < 1e-12, "along the circle"
        assert torch.allclose(at(centre + 1e6 * outward), inflow)
        (a, b), (c, d) = torch.autograd.functional.jacobian(at, centre + 0.3 * outward)
        assert abs(float(a + d)) < 1e-12 and abs(float(b - c)) < 1e-12
    before = torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", ["flows", str(tmp_path / "losses.svg"), "--epochs=2", "--graphs=3"])
    flows.main()
    torch.set_num_threads(before)
    losses = [float(found) for found in re.findall(r"\d\.\d+", capsys.readouterr().out)]
    assert len(losses) == 8 and losses[4:] == pytest.approx(losses[:4], abs=2e-5)
    for picture, epochs in ((tmp_path / "losses.svg", 2), (DOCUMENTS / "graph-sets.svg", 25)):
        lines = re.findall(r'points="([^"]*)"', picture.read_text())
        lines = [[tuple(map(float, point.split(","))) for point in line.split()] for line in lines]
        assert [len(line) for line in lines] == [epochs] * 4, "make flows"
        for theirs, ours in zip(lines[::2], lines[1::2]):
            apart = [abs(a - b) for (_, a), (_, b) in zip(theirs, ours)]
            assert max(apart) < 8 and apart[-1] < 4, "of 226 points, make flows"
            assert ours[-1][1] > ours[0][1], "down the page"


def calls(column):
    """The code spans of a column of the tables of coming-from.md, as (row, span), after its block of
    Python."""
    text = (DOCUMENTS / "coming-from.md").read_text()
    made, tables = re.search(r"^```python\n(.*?)^```(.*)", text, re.M | re.S).groups()
    rows = [line.split(" | ") for line in tables.splitlines() if line.startswith("| ")]
    assert all(len(row) == 2 for row in rows)
    return made, [(row[0], span) for row in rows for span in re.findall(r"`([^`]+)`", row[column])]


# What a code span of weft's column is, that is no call by itself: a word of the text, a setting, a line of a
# launcher.
WORDS = re.compile(r"[A-Z]\w+|[\w.]+|\w+=\S+|backward\(\)|mpirun .*|.*…\)?|weft import dgl parts/.*")


@OF_MODULES
def test_coming_from():
    """Each call in weft's column runs, in the order of the page."""
    made, spans = calls(1)
    names, ran = {}, 0
    exec(compile(made, "coming-from.md", "exec"), names)
    for row, span in spans:
        if span.startswith("net."):
            eval(span, names)
        elif not WORDS.fullmatch(span):
            if span.startswith("weft "):
                subprocess.run([sys.executable, "-m", *shlex.split(span)], check=True, capture_output=True)
            else:
                exec(compile(span, row, "exec"), names)
            ran += 1
    assert ran == 39
    assert (names["run"].predictions == names["y"].numpy()).mean() > 0.4


def test_coming_from_names():
    """The libraries that are there have what their columns say."""
    for library in ("torch_geometric", "dgl"):
        named = {name for _, span in calls(0)[1] for name in re.findall(rf"\b{library}(?:\.\w+)+", span)}
        assert len(named) > 9
        for name in sorted(named) if importlib.util.find_spec(library) else []:
            parts, found = name.split("."), importlib.import_module(library)
            for k, part in enumerate(parts[1:], 2):
                if not hasattr(found, part):
                    importlib.import_module(".".join(parts[:k]))
                found = getattr(found, part)


def test_llms():
    """llms.txt has a line for each page, under the page's section of mkdocs.yml and in its order."""
    listed = re.findall(r"^## (.*)|^- \[[^]]+\]\(([^)]+)\): \S", (DOCUMENTS / "llms.txt").read_text(), re.M)
    nav = (DOCUMENTS.parent / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    order = []
    for section, pages in re.findall(r"- ([^:\[]+): \[([^]]+)\]", nav):
        order += [(section, ""), *(("", page) for page in pages.split(", "))]
    assert listed == order
    pages = {str(path.relative_to(DOCUMENTS)) for path in DOCUMENTS.rglob("*.md")}
    assert {page for _, page in listed if page} == pages | {"index.md"}


def test_readers():
    """Each page begins with whom it is for, on its first line. The page of terms has ten."""
    for path in DOCUMENTS.rglob("*.md"):
        title, empty, first = path.read_text().split("\n")[:3]
        assert title.startswith("# ") and empty == "" and first.startswith("For "), path
    assert len(re.findall(r"^\| (?!term|---)", (DOCUMENTS / "terms.md").read_text(), re.M)) == 10
