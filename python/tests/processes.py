"""The programs that tests run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"


def weft(*arguments) -> str:
    """Runs the program as a user of the command does."""
    done = subprocess.run([os.environ["WEFT_PROGRAM"], *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python(text: str, *arguments, **more) -> subprocess.CompletedProcess[str]:
    """Runs a program of Python, which has the package."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        **more,
    )
