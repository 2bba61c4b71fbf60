"""Loops over processes that mpirun starts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import weft

SCRIPT = Path(__file__).with_name("processes.py")


def started(count, *arguments):
    """What so many processes of the script print, and their status."""
    launcher = shutil.which("mpirun.openmpi") or "mpirun"
    command = [launcher, "--allow-run-as-root", "--oversubscribe", "-n", count, sys.executable, "-W", "ignore", SCRIPT]
    environment = os.environ | {"PYTHONPATH": str(Path(weft.__file__).parents[1])}
    p = subprocess.run(
        list(map(str, [*command, *arguments])), capture_output=True, text=True, check=False, timeout=900, env=environment
    )
    return p.returncode, p.stdout, p.stderr


ALL = ["plain", "around", "rollout", "pairs", "whole"]


@pytest.mark.parametrize(("mesh", "names"), [("graph=2", ALL), ("tensor=2", ["around", "whole"])])
def test_loops(mesh, names):
    """Each process has its rows and its part of the loss, and all take the steps of one process."""
    status, out, err = started(2, mesh, *names)
    assert status == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert [line[:2] for line in lines] == [[name, mesh] for name in names]
    for name, _, *figures in lines:
        assert max(map(float, figures)) < 1e-5, (name, figures)


def test_calls_differ():
    """The parameters and buffers are those of rank 0; a process that makes another call is named."""
    status, out, err = started(2, "--unlike")
    assert status != 0
    # mpirun may put one line of a rank inside another's.
    assert out.split().count("True") == 2 and "False" not in out
    assert "rank 1 calls sum of 1 numbers" in err and "and rank 0 forward in training with gradients" in err


def test_exception():
    """An exception of one process ends the job, and is printed."""
    status, _, err = started(2, "--raises")
    assert status != 0 and "ValueError: of rank 1" in err


def test_torchrun(monkeypatch):
    """Processes of torchrun are refused, with the line that starts as many by MPI."""
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "orig_argv", ["/bin/python", "-u", "train.py", "--name", "two words"])
    with pytest.raises(weft.Refused, match="start them by mpirun -n 4 python -u train.py --name 'two words'$"):
        weft.compile(None, None)
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(weft.Refused, match="^module: NoneType is no module"):
        weft.compile(None, None)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")  # mpirun has started it, with what gloo needs
    with pytest.raises(weft.Refused, match="^module: NoneType is no module"):
        weft.compile(None, None)
