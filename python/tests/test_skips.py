"""Where accepted changes are tested, no test is skipped that nobody has named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("may", "status"), [(None, 0), ("there is no torch\nthere is no card", 0), ("there is no torch\n", 1)]
)
def test_skipped_tests_are_named(may, status):
    Path("test_of_card.py").write_text(
        "import pytest\ndef test(): pytest.skip('there is no card')\ndef test_other(): pass\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "WEFT_MAY_SKIP"}
    environment |= {"PYTHONPATH": str(HERE)} | ({} if may is None else {"WEFT_MAY_SKIP": may})
    options = ["-q", "-p", "no:cacheprovider", "-p", "conftest", "test_of_card.py"]
    p = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", *options],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert p.returncode == status, p.stdout
    assert ("skipped: test_of_card.py::test: there is no card" in p.stdout) == (status == 1)
