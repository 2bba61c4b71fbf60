"""The wheel's version, from what git describes."""

import runpy
from pathlib import Path

import pytest

VERSION = runpy.run_path(str(Path(__file__).parents[1] / "version.py"))["version"]


@pytest.mark.parametrize(
    ("described", "want"),
    [
        ("0.1.0", "0.1.0"),
        ("0.1.0-dirty", "0.1.0+dirty"),
        ("0.1.0-3-gabc1234", "0.1.0+3.gabc1234"),
        ("0.1.0-3-gabc1234-dirty", "0.1.0+3.gabc1234.dirty"),
        ("1.2.3-rc.1", "1.2.3rc1"),
        ("1.2.3-rc1-10-g0123abc", "1.2.3rc1+10.g0123abc"),
        ("b9929029", "0.0.0+gb9929029"),
        ("b9929029-dirty", "0.0.0+gb9929029.dirty"),
        ("12345678", "0.0.0+g12345678"),
        ("unknown", "0.0.0"),
    ],
)
def test_version(monkeypatch, described, want):
    monkeypatch.setenv("WEFT_VERSION", described)
    assert VERSION() == want


def test_unknown_form(monkeypatch):
    monkeypatch.setenv("WEFT_VERSION", "1.2.3-nightly")
    with pytest.raises(ValueError, match=r"^WEFT_VERSION=1\.2\.3-nightly: name the tag"):
        VERSION()
