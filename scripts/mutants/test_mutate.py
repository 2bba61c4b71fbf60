"""What is drawn in Python, and which of it tests notice."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from mutate import Drawing, mutants

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("x = a < b", ["pass", "x = ((a) <= (b))"]),
        ("x = a is b", ["pass", "x = ((a) is not (b))"]),
        ("x = a < b < c", ["pass"]),
        ("x = a // b", ["pass", "x = ((a) * (b))"]),
        ("x = a and b or c", ["pass", "x = ((c))", "x = ((a and b))", "x = ((b)) or c", "x = ((a)) or c"]),
        ("while a:\n        b()", ["while (not (a)):", "pass"]),
        ("if a:\n        raise b", ["pass", "if (not (a)):", "pass"]),
        ("if a:\n        return\n    elif b:\n        c()", ["if (not (a)):", "elif (not (b)):", "pass"]),
        ("x = [a for a in b if c(a)]", ["pass", "x = [a for a in b if True]"]),
        ("x = a[b:c]", ["pass", "x = a[(b) + 1:c]", "x = a[b:(c) - 1]"]),
        ("x = 1", ["pass", "x = 0", "x = 2"]),
        ("x = True", ["pass", "x = False"]),
        ("x = f'{1}'", ["pass"]),
        ("x: list[1] = a", []),
        ("f(a, b, *c)", ["pass", "f(b, a, *c)"]),
        ("f(é, b)", ["pass", "f(b, é)"]),
        ("return a", ["return None", "return (not (a))"]),
        ("return None", []),
        ("def g(a=1):\n        return None", []),
        ("class G:\n        x = 1", []),
        ("raise a", ["pass"]),
        ("'''Text.'''", []),
    ],
)
def test_draws(tmp_path, monkeypatch, text, wrong):
    """Each kind of mistake is drawn in functions, where people make it, and nothing else is."""
    source = f"X = 1 < 2\n\n\ndef f(a=1):\n    {text}\n"
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(source)
    drawn = mutants("a.py", range(9))
    assert mutants("a.py", {1, 4}) == []
    found = []
    for mutant in drawn:
        after = source.encode()[: mutant["Start"]] + mutant["New"].encode() + source.encode()[mutant["End"] :]
        found.append(after.decode().splitlines()[mutant["Line"] - 1].strip())
        assert mutant["File"] == "a.py"
    assert sorted(found) == sorted(wrong)


def test_places():
    """A mark stands before a statement, on its line if that is simple, and before the whole of which it is an
    elif."""
    source = b"def f():\n    if a: return b\n    elif c:\n        while d == e:\n            g = 1\n"
    drawing = Drawing("a.py", source)
    marked = {}
    for m in drawing.mutants:
        call = b"at()" + m["Separator"].encode()
        text = source[: m["Statement"]] + call + source[m["Statement"] :]
        compile(text, "a.py", "exec")
        marked[source[m["Start"] : m["End"]]] = text
    assert marked[b"a"] == marked[b"c"] == source.replace(b"if a", b"at()\n    if a", 1)
    assert marked[b"b"] == source.replace(b"return", b"at(); return")
    assert marked[b"d == e"] == source.replace(b"while", b"at()\n        while")
    assert marked[b"1"] == source.replace(b"g =", b"at(); g =")


TESTS = """
import subprocess
import sys
from pathlib import Path

import weft


def test_seen():
    assert weft.seen(1) == 4
    assert weft.called(1) > -9


def test_fails():
    weft.called(1)
    raise ValueError


def test_process():
    apart = [sys.executable, "-c", "import weft; print(weft.apart(1), end='')"]
    assert "4" == subprocess.check_output(apart, text=True)
"""
MODULE = """
def seen(x):
    return 3 + x


def called(x):
    return 3 + x


def apart(x):
    return 3 + x


def never(x):
    return 3 + x
"""


def test_run(tmp_path):
    """A mutant dies by a test that sees it, also in a process that this has started. One lives that a test
    only calls, and one that none comes to. A test that always fails is named, and notices none."""
    program = tmp_path / "mutants"
    subprocess.run(["go", "build", "-o", program, "."], cwd=HERE, check=True)
    folder = tmp_path / "repository"
    files = {
        "go.mod": "module weft\n",
        "cmd/weft/main.go": "package main\n\nfunc main() {}\n",
        "python/pyproject.toml": "[project]\n",
        "python/src/weft/__init__.py": "\n",
        "python/tests/test_weft.py": TESTS,
        "other.py": MODULE,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    def git(*arguments):
        return subprocess.check_output(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, text=True
        )

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "a")
    (folder / "python/src/weft/__init__.py").write_text(MODULE)
    git("commit", "-a", "-q", "-m", "b")
    suite = f"{sys.executable} python/tests/test_weft.py"
    command = [program, "--range", "HEAD~1..HEAD", "--python", suite]
    out = subprocess.check_output(command, cwd=folder, text=True)
    assert "left out, as it fails without a mutant: python/tests/test_weft.py::test_fails\n" in out
    ends = dict(re.findall(r"(?m)^(\w+  python/src/weft/__init__.py:\d+)  [a-z ]+  (\S+)  \d+ s$", out))
    assert ends == {
        "dies  python/src/weft/__init__.py:3": "python/tests/test_weft.py::test_seen",
        "LIVES  python/src/weft/__init__.py:7": "-",
        "dies  python/src/weft/__init__.py:11": "python/tests/test_weft.py::test_process",
        "LIVES  python/src/weft/__init__.py:15": "-",
    }
    assert git("status", "--porcelain", "--ignored") == ""
