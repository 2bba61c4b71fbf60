"""Ends the program weft, Python, or what Python does, at random moments of a training loop, and looks at what
is left.

After each trial no process and no shared memory is left, the next compile works, and its results are those
of before: make endings ARGS="[--trials 100] [--seed 0] [--only interrupts|program|python]"
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import ctypes
import fcntl
import gc
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv

import weft
from weft import _calls

V, WIDTH = 200, 8
DEADLINE = 60.0  # seconds in which what should end has ended


class Layers(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = GCNConv(WIDTH, 8), nn.BatchNorm1d(8), SAGEConv(8, WIDTH)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(torch.tanh(self.norm(self.first(x, edge_index))), edge_index)


class Loop:
    """A loop, which compiles one module again and again, on one mesh after the other."""

    meshes: tuple[str, ...] = ("graph=2", "pipeline=2", "tensor=2")

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.x, self.graph = torch.randn(V, WIDTH), torch.randint(0, V, (2, 1000))
        self.module = Layers()
        self.state = copy.deepcopy(self.module.state_dict())
        self.others = shared(os.getpid()).keys()  # memory that is there before

    def results(self, mesh: str) -> list[Tensor]:
        """What a few passes give: one, two that live together, samples, and one that nobody runs backward."""
        self.module.train().load_state_dict(self.state)
        net = weft.compile(self.module, weft.Graph(edge_index=self.graph, x=self.x), parallel=mesh)
        first, second = net(), net(2 * self.x)
        net(self.x - 1)
        found = [first.detach().clone(), *torch.autograd.grad((first * second).sum(), [*net.parameters()])]
        samples = net(torch.stack([self.x, 3 * self.x]), samples=True)
        with torch.no_grad():
            samples = samples + net.eval()(self.x)
        net.train()
        return [*found, samples.detach(), self.module.norm.running_var.clone()]

    def all(self) -> list[Tensor]:
        return [result for mesh in self.meshes for result in self.results(mesh)]

    def check(self, expected: list[Tensor]) -> None:
        """The results are as before, and what is left is what the program has."""
        if not all(map(torch.equal, self.all(), expected)):
            raise SystemExit("the results are others")
        net = weft.compile(self.module, weft.Graph(edge_index=self.graph, x=self.x))
        gc.collect()
        with torch.no_grad():
            net()  # which drops what is garbage
        del net
        gc.collect()
        program = _calls.program()
        program.memory(1)  # which gives idle memory back
        running = children(os.getpid())
        if running != [program.process.pid]:
            raise SystemExit(f"the processes {running} are left, of which {program.process.pid} is in use")
        ours, theirs = (
            {number: bytes_ for number, bytes_ in shared(pid).items() if number not in self.others}
            for pid in (os.getpid(), program.process.pid)
        )
        if ours != theirs:
            raise SystemExit(f"shared memory: Python has {ours}, and the program {theirs}")
        if sum(ours.values()) > 4 << 20:
            raise SystemExit(f"{sum(ours.values())} bytes of shared memory are left")


def children(pid: int) -> list[int]:
    """The processes that a process has started, and that are not reaped."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(number) for number in (task / "children").read_text().split()]
    return found


def shared(pid: int) -> dict[str, int]:
    """The bytes of weft's shared memory that a process has mapped or open, by their inodes."""
    found: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if "memfd:weft " in line:
            span, _, _, _, inode, *_ = line.split()
            low, high = (int(end, 16) for end in span.split("-"))
            found[inode] = found.get(inode, 0) + high - low
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if "memfd:weft " in os.readlink(file):
                found[str(file.stat().st_ino)] = file.stat().st_size
    return found


def folders() -> set[Path]:
    return {path for root in ("/dev/shm", tempfile.gettempdir()) for path in Path(root).iterdir()}


def is_left(folder: Path) -> bool:
    """Whether a folder is one of weft's that no process holds."""
    if not folder.name.startswith(f"weft-{os.getuid()}-"):
        return False
    with contextlib.suppress(OSError), open(folder / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@contextlib.contextmanager
def later(seconds: float, number: signal.Signals, to: int | None = None) -> Iterator[None]:
    """Sends a signal after so many seconds, to this thread or to a process."""
    main = threading.get_ident()

    def send() -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pthread_kill(main, number) if to is None else os.kill(to, number)

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def until(loop: Loop, kind: type[BaseException], done: Callable[[], bool]) -> None:
    """Repeats the loop until an error of a kind comes, or it is done."""
    end = time.monotonic() + DEADLINE
    try:
        while time.monotonic() < end and not done():
            loop.all()
    except kind:
        return
    if not done():
        raise SystemExit(f"no {kind.__name__} has come")


def interrupts(loop: Loop, expected: list[Tensor], takes: float, draw: random.Random) -> None:
    """Ctrl-C at a random moment. Python ignores one in a finalizer, and says so."""
    ignored: list[object] = []
    sys.unraisablehook = lambda event: ignored.append(event.exc_type)
    try:
        with later(draw.uniform(0, takes), signal.SIGINT):
            until(loop, KeyboardInterrupt, lambda: KeyboardInterrupt in ignored)
    except KeyboardInterrupt:  # behind the loop
        pass
    finally:
        sys.unraisablehook = sys.__unraisablehook__
    loop.check(expected)


def program(loop: Loop, expected: list[Tensor], takes: float, draw: random.Random) -> None:
    """The program is killed at a random moment."""
    number = _calls.program().process.pid
    with later(draw.uniform(0, takes), signal.SIGKILL, number):  # perhaps where nobody waits for an answer
        until(loop, weft.Failed, lambda: _calls.program().process.pid != number)
    loop.check(expected)


def python(loop: Loop, _: list[Tensor], takes: float, draw: random.Random) -> None:
    """Python is killed, or ended by SIGTERM, at a random moment. Its children become those of this process,
    which waits for them."""
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # makes PyTorch's pool anew, which its threads would do at the same time
        while True:
            loop.all()
    time.sleep(draw.uniform(0, takes))
    os.kill(child, draw.choice((signal.SIGKILL, signal.SIGTERM)))
    end = time.monotonic() + DEADLINE
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
        raise SystemExit(f"the processes {children(os.getpid())} are left")


def adopt_orphans(on: bool) -> None:
    """Has the processes whose parents end become children of this one, or of the system's first."""
    ctypes.CDLL(None, use_errno=True).prctl(36, int(on), 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


KINDS = {"python": python, "interrupts": interrupts, "program": program}


def run(kind: str, trials: int, seed: int, make: Callable[[], Loop] = Loop) -> None:
    """Runs trials of a kind, in this process. Those of python come before any other call of the program."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    torch.set_num_threads(1)
    loop, draw, before = make(), random.Random(seed), folders()
    expected = list[Tensor]()
    if kind == "python":
        adopt_orphans(True)
        takes = 4.0
    else:
        expected = loop.all()
        began = time.monotonic()
        loop.all()
        takes = 1.2 * (time.monotonic() - began)
    for trial in range(trials):
        try:
            KINDS[kind](loop, expected, takes, draw)
        except SystemExit as error:
            raise SystemExit(f"{kind}, seed {seed}, trial {trial}: {error}") from None
    if kind == "python":
        adopt_orphans(False)
        loop.check(loop.all())
        if left := {str(folder) for folder in folders() - before if is_left(folder)}:
            raise SystemExit(f"the folders {left} are left")
    print(f"{kind}: {trials} trials, nothing is left", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=KINDS)
    options = parser.parse_args()
    for each in KINDS if options.only is None else (options.only,):
        run(each, options.trials, options.seed)
