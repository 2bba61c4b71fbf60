"""The modules of the package import each other in one direction."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import weft


def imports(root: Path) -> dict[str, set[str]]:
    """The modules of a package that each of its modules imports: also in functions, and for types alone.

    A module outside of a subpackage that imports a part of it imports the subpackage, too.
    """
    files = {path: path.relative_to(root.parent).with_suffix("").parts for path in root.rglob("*.py")}
    names = {
        path: ".".join(parts[:-1] if parts[-1] == "__init__" else parts) for path, parts in files.items()
    }
    known, found = set(names.values()) - {root.name}, {}
    for path, name in names.items():
        inside = files[path][:-1]
        read: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [*inside[: len(inside) - node.level + 1], *filter(None, [node.module])]
                read |= {".".join([*base, one.name]) for one in node.names} | {".".join(base)}
        above = {".".join(inside[:k]) for k in range(len(inside) + 1)}
        of_packages = {".".join(one.split(".")[:k]) for one in read for k in range(1, one.count(".") + 1)}
        found[name] = (read | of_packages - above) & known - {name}
    return found


def test_no_cycles():
    graph = imports(Path(weft.__file__).parent)
    assert graph["weft._train"] >= {"weft._run", "weft._program"}
    assert graph["weft._run"] >= {"weft.pyg"}  # in a function
    list(TopologicalSorter(graph).static_order())


def test_order_of_the_document():
    """A module imports modules of its own line of the table in docs/architecture.md, and of lines above."""
    text = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = [
        re.findall("`(.*?)`", line) for line in re.findall(r"^\| (`(?:_|pyg).*?) \|", text, re.MULTILINE)
    ]
    line_of = {f"weft.{name}": number for number, line in enumerate(lines) for name in line}
    graph = imports(Path(weft.__file__).parent)
    top = {name for name in graph if name.count(".") == 1} - {"weft.__main__"}
    assert top == line_of.keys()
    for name, names in graph.items():
        line = line_of.get(".".join(name.split(".")[:2]))
        for one in names if line is not None else ():
            assert line_of[".".join(one.split(".")[:2])] <= line, f"{name} imports {one}"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("from .b import B", "if TYPE_CHECKING:\n    from .a import A"),
        ("def run():\n    from . import b", "from .a import run"),
        ("from .inner.one import One", "x = 1"),
    ],
)
def test_cycles_are_seen(tmp_path, a, b):
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    files = {
        "__init__": "",
        "a": a,
        "b": b,
        "inner/__init__": "from .one import One",
        "inner/one": "from ..a import One",
    }
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    with pytest.raises(CycleError):
        list(TopologicalSorter(imports(package)).static_order())
