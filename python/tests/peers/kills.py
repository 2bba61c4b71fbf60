"""Kills a program weft, a Python or mpirun of a loop over processes at random moments, and looks at what is
left.

After each trial the job ends within a minute, when its Pythons have started, with a status that is not 0, no
process of it is left, and with it no shared memory, and the next job starts. The temporary folders of a
Python that is killed go when the next one starts, and files of Open MPI are in a folder of the trial
(docs/distributed.md): make kills-of-processes ARGS="[--trials 50] [--seed 0] [--launcher mpirun.mpich]"
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

DEADLINE = 60.0  # seconds in which a job has ended, beside what its Pythons take to start
FOLDER = Path(tempfile.gettempdir())
MARK = "WEFT_TRIAL"  # in the environment of all processes of a job
VICTIMS = ("program", "python", "launcher")


def loop(steps: int) -> None:
    """So many steps of a rank; 0: until it is killed. It compiles anew now and then, and says when it is at
    work. Below 0 it takes so many steps, or -1 none, and then makes no call for ten minutes."""
    if steps == -1:
        import weft

        print("at work", flush=True)
        time.sleep(600)
    import torch
    from torch import nn

    import weft

    class Layers(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            h = torch.tanh(self.first(x))
            return self.last(torch.zeros_like(h).index_add(0, edge_index[1], h[edge_index[0]]))

    torch.manual_seed(1)
    x, ends, module, step = torch.randn(200, 8), torch.randint(0, 200, (2, 2000)), Layers(), 0
    graph = weft.Graph(edge_index=ends, x=x)
    while steps <= 0 or step < steps:
        net = weft.compile(module, graph, parallel="graph=2", comm_timeout="50s")
        for _ in range(50):
            net.sum(net(x[net.vertices]).square().sum()).backward()
            step += 1
        if step == 50 and net.rank == 0:
            print("at work", flush=True)
        if steps < 0:
            time.sleep(600)


def started(launcher: str, mark: str, *arguments: str) -> subprocess.Popen[str]:
    folder = FOLDER / mark  # of what Open MPI leaves when it is killed
    folder.mkdir()
    options = ["--allow-run-as-root", "--oversubscribe"]
    for name in ("orte_tmpdir_base", "btl_vader_backing_directory"):
        options += ["--mca", name, str(folder)]
    if "mpich" in launcher:
        options = []
    command = [
        shutil.which(launcher) or "mpirun",
        *options,
        "-n",
        "2",
        sys.executable,
        "-B",
        "-W",
        "ignore",
        __file__,
    ]
    return subprocess.Popen(
        [*command, *arguments],
        env=os.environ | {MARK: mark},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def processes(mark: str) -> dict[int, str]:
    """Those of a job: what each is, by its id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}\0".encode() not in (folder / "environ").read_bytes() + b"\0":
                continue
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is another user's
            continue
        if b"calls" in words:
            found[int(folder.name)] = "program"
        elif __file__.encode() in words:
            found[int(folder.name)] = "python" if words[0] == sys.executable.encode() else "launcher"
        elif words != [b""]:  # one that ends, or a helper of the launcher
            found[int(folder.name)] = "helper"
    return found


def folders(mark: str) -> set[str]:
    """The temporary folders of the Pythons of a job, of which each holds a file open."""
    found = set()
    for pid in processes(mark):
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                found.add(os.path.dirname(os.readlink(file)))
    return {path for path in found if os.path.basename(path).startswith("weft-")}


def trial(launcher: str, chance: random.Random, deadline: float) -> tuple[str, float]:
    """What was killed, and the seconds in which the job then ended."""
    victim, at_work = chance.choice(VICTIMS), chance.random() < 0.7
    return victim, killed(
        launcher, victim, 0, at_work, chance.uniform(0, 0.5 if at_work else 5), chance, deadline
    )


def killed(
    launcher: str,
    victim: str,
    steps: int,
    at_work: bool,
    after: float,
    chance: random.Random,
    deadline: float,
) -> float:
    """The seconds in which a job ends of which one is killed, so long after its start, or after it is at
    work."""
    mark = uuid.uuid4().hex
    try:
        return tried(launcher, victim, steps, at_work, after, chance, deadline, mark)
    finally:
        for pid in processes(mark):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(FOLDER / mark, ignore_errors=True)


def tried(
    launcher: str,
    victim: str,
    steps: int,
    at_work: bool,
    after: float,
    chance: random.Random,
    deadline: float,
    mark: str,
) -> float:
    job = started(launcher, mark, "--loop", str(steps))
    if at_work:
        assert job.stdout is not None and job.stdout.readline().startswith("at work"), "the job did not start"
    time.sleep(after)
    while not (victims := [pid for pid, what in processes(mark).items() if what == victim]):
        if job.poll() is not None:
            raise SystemExit(f"the job ended by itself, with {job.returncode}")
        time.sleep(0.05)
    # Pythons that are killed, as MPICH's launcher kills its own, leave theirs to the next one that starts.
    shared = folders(mark) if victim == "launcher" and steps < 0 and "mpich" not in launcher else set()
    os.kill(chance.choice(victims), signal.SIGKILL)
    begun = time.monotonic()
    while running := processes(mark):
        if time.monotonic() - begun > deadline:
            raise SystemExit(f"a {victim} was killed, and after {deadline:.0f} s there are {running}")
        job.poll()
        time.sleep(0.05)
    took = time.monotonic() - begun
    job.wait()
    if job.returncode == 0:
        raise SystemExit(f"a {victim} was killed, and the job's status is 0")
    if left := list(filter(os.path.exists, shared)):
        raise SystemExit(f"a {victim} was killed, and {left} are left")
    return took


def finished(launcher: str) -> float:
    """The seconds of a job that nobody kills, which ends as it should."""
    mark, begun = uuid.uuid4().hex, time.monotonic()
    job = started(launcher, mark, "--loop", "50")
    if job.wait() != 0 or processes(mark):
        raise SystemExit(f"the status of a job is {job.returncode}, and it leaves {processes(mark)}")
    shutil.rmtree(FOLDER / mark)
    return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--launcher", default="mpirun.openmpi")
    parser.add_argument("--loop", type=int)
    options = parser.parse_args()
    if options.loop is not None:
        return loop(options.loop)
    chance, took = random.Random(options.seed), collections.defaultdict(list)
    deadline = DEADLINE + 3 * finished(options.launcher)
    for number in range(options.trials):
        victim, seconds = trial(options.launcher, chance, deadline)
        took[victim].append(seconds)
        print(f"{number + 1}: {victim}, {seconds:.1f} s", flush=True)
    finished(options.launcher)
    for victim, times in took.items():
        print(f"{len(times)} kills of a {victim}: the job ended in {max(times):.1f} s at most")


if __name__ == "__main__":
    main()
