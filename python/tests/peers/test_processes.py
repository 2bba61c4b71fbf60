"""Loops over processes that mpirun starts."""

import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import kills
import pytest

import weft

FOLDER = Path(__file__).parent


def started(count, *arguments, launcher="mpirun.openmpi", script="processes.py", **variables):
    """What so many processes of the script print, and their status."""
    options = [] if launcher == "mpirun.mpich" else ["--allow-run-as-root", "--oversubscribe"]
    command = [
        shutil.which(launcher) or "mpirun",
        *options,
        "-n",
        count,
        sys.executable,
        "-W",
        "ignore",
        FOLDER / script,
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(weft.__file__).parents[1])} | variables
    p = subprocess.run(
        list(map(str, [*command, *arguments])),
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
        env=environment | {"PYTHONUNBUFFERED": ""},  # a line is one write, into which mpirun puts no other
    )
    return p.returncode, p.stdout, p.stderr


# `make loops-of-processes` runs all of them.
BRIEF = ["rollout", "pairs", "whole", "distilled", "dropped", "typed", "encoded", "flows", "relations"]
RUNS = [
    ("mpirun.openmpi", "graph=2", BRIEF),
    ("mpirun.openmpi", "tensor=2", ["around", "averaged", "reweighted", "upwards"]),
    ("mpirun.openmpi", "samples=2", ["around", "whole", "dropped", "typed"]),
]
if os.environ.get("WEFT_LOOPS") == "all":
    meshes = ("graph=2", "graph=3", "graph=2,tensor=2", "graph=2,samples=2")
    RUNS = [(launcher, mesh, []) for launcher in ("mpirun.openmpi", "mpirun.mpich") for mesh in meshes]


@pytest.mark.parametrize(("launcher", "mesh", "names"), RUNS)
def test_loops(launcher, mesh, names):
    """Each process has its rows and its part of the loss, and all take the steps of one process, to the bit
    again."""
    count = math.prod(int(axis.partition("=")[2]) for axis in mesh.split(","))
    status, out, err = started(count, mesh, *names, launcher=launcher)
    print(out)
    assert status == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines] == names or len(lines) > 20 and not names
    for name, on, *figures, again in lines:
        assert (on, again) == (mesh, "bits"), name
        assert max(map(float, figures)) < 1e-5, (name, figures)


@pytest.mark.parametrize("mesh", ["graph=2", "samples=2"])
def test_calls_differ(mesh):
    """The parameters and buffers are those of rank 0, and memory is as planned. What one process does
    otherwise both refuse, by one line, and go on; one that ends before the other is named."""
    status, out, err = started(2, "--unlike", mesh)
    assert (status, out) == (0, "as it should be\n"), err


def test_edges_planned():
    """The memory of a loop that is given features of edges, and returns rows of them, is as planned."""
    status, out, err = started(2, "--planned")
    assert (status, sorted(out.split())) == (0, ["0", "1"]), out + err


def test_checkpoint(tmp_path):
    """A checkpoint of a loop, with dropout, goes on to the bit on the same mesh, and within 1e-5 on
    others."""
    runs = (2, "graph=2"), (2, "graph=2"), (3, "graph=3"), (2, "tensor=2")
    made = [started(n, "--checkpoint", tmp_path / "state.pt", mesh) for n, mesh in runs]
    assert [status for status, _, _ in made] == [0] * len(made), made[-1]
    first, again, *others = (out.splitlines() for _, out, _ in made)
    assert len(first) == 2 and first == again
    right = [float.fromhex(word) for word in " ".join(first).split()]
    for other in others:
        assert [float.fromhex(word) for word in " ".join(other).split()] == pytest.approx(right, rel=1e-5)


def test_exception():
    """An exception of one process ends the job, and is printed."""
    status, _, err = started(2, "--raises")
    assert status != 0 and "ValueError: of rank 1" in err


def test_bytes(tmp_path):
    """Steps hand over to MPI the rows, and their gradients, and the gradients of weights, that are planned,
    and what net.sum and net.rows send."""
    library, sent, steps = tmp_path / "libsent.so", [], (1, 4)
    command = [
        shutil.which("mpicc.openmpi") or "mpicc",
        "-shared",
        "-fPIC",
        "-o",
        library,
        FOLDER / "sent.c",
    ]
    subprocess.run(command, check=True)
    for count in steps:
        file = tmp_path / f"sent-{count}"
        status, out, err = started(2, "--sends", count, WEFT_MPI=str(library), WEFT_SENT=str(file))
        assert status == 0, err
        each = [list(map(int, Path(f"{file}.{rank}").read_text().split())) for rank in range(2)]
        sent.append([sum(counts) for counts in zip(*each)])
    halo, gradient, fetched = map(int, out.split())
    _, *kinds = [(after - before) // (steps[1] - steps[0]) for before, after in zip(*sent)]
    print(sent, kinds, halo, gradient, fetched)
    rows, back, to_slices, to_rows, stage, weights, links, statistics = kinds
    columns = 4
    assert (rows + back, weights, to_slices + to_rows + stage) == (halo, gradient, 0)
    assert links == 2 * fetched * columns * 4  # floats, and their gradients
    assert (
        statistics == 2 * 2 * columns * 8
    )  # doubles: a half from, and the other's sum to, each; and backward


@pytest.mark.parametrize(
    ("victim", "steps"), [("program", -50), ("python", -50), ("launcher", -50), ("launcher", -1)]
)
def test_kills(victim, steps, monkeypatch):
    """A killed program, Python or mpirun ends the job, also where Python makes no call, or has made none
    yet."""
    monkeypatch.setenv("PYTHONPATH", str(Path(weft.__file__).parents[1]))
    launcher = "mpirun.openmpi" if shutil.which("mpirun.openmpi") else "mpirun"
    kills.killed(launcher, victim, steps, True, 0.0, random.Random(0), 300)


def test_torchrun(monkeypatch):
    """Processes of torchrun are refused, with the line that starts as many by MPI."""
    for name, value in {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "MASTER_ADDR": "localhost",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "orig_argv", ["/bin/python", "-u", "train.py", "--name", "two words"])
    with pytest.raises(
        weft.Refused, match="start them by mpirun -n 4 python -u train.py --name 'two words'$"
    ):
        weft.compile(None, None)
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(weft.Refused, match="^module: NoneType is no module"):
        weft.compile(None, None)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")  # mpirun has started it, with what gloo needs
    with pytest.raises(weft.Refused, match="^module: NoneType is no module"):
        weft.compile(None, None)
