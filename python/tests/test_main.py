"""`python -m weft` becomes the program."""

import os
import signal
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
PROGRAM = """#!/bin/sh
printf '%s\\n' "$@" $$
sed -n 's/^SigIgn:.//p' /proc/$$/status
echo "${WEFT_PROGRAM-unset}"
exit 7
"""


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "weft", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES), "WEFT_PROGRAM": str(program)},
    )


def test_becomes_the_program(tmp_path):
    """Its arguments, status and process are those of the program, which gets the signals that Python
    ignores."""
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    child = start(program, "train", "a b", "--epochs=2")
    *arguments, process, ignored, named = child.communicate()[0].splitlines()
    assert (arguments, int(process), named) == (["train", "a b", "--epochs=2"], child.pid, "unset")
    assert int(ignored, 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1) == 0
    assert child.returncode == 7


def test_no_such_program():
    child = start("/none/weft")
    assert child.communicate() == ("", "weft: /none/weft: No such file or directory\n")
    assert child.returncode == 1
