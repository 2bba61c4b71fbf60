"""Interrupts, kills and ends of Python around a compiled module: no pass goes wrong, and no process is
left."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import endings
import pytest
import torch
from loop_models import GRAPHS, X, made, refused
from torch import Tensor

import weft
from weft import _calls


@pytest.mark.parametrize("mesh", ["graph=2", "pipeline=2"])
def test_interrupts(mesh: str) -> None:
    """An interrupt in a pass or its backward pass leaves the net as it was: no later pass reads or writes
    what that one has."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    module = made("batch")
    net, main = weft.compile(module, GRAPHS["plain"], parallel=mesh), threading.get_ident()
    parameters = [*net.parameters()]

    def results() -> list[Tensor]:
        module.load_state_dict(module.first_state)
        out = net(X)
        return [out.detach(), *torch.autograd.grad(out.sum(), parameters), module.norm.running_mean.clone()]

    expected, came = results(), 0
    for _ in range(8):
        timer = threading.Timer(0.02, lambda: signal.pthread_kill(main, signal.SIGINT))
        with contextlib.suppress(KeyboardInterrupt):
            timer.start()
            until = time.monotonic() + 10
            while time.monotonic() < until:  # Python ignores an interrupt in a finalizer
                results()
        came += time.monotonic() < until
        timer.join()
        gc.collect()
        for ours, theirs in zip(results(), expected):
            assert torch.equal(ours, theirs)
    assert came


def test_interrupt_of_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that is interrupted before the program is asked for it does not live on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    graph, module, main, unwound = GRAPHS["plain"], made("gcn"), threading.get_ident(), threading.Event()
    one = weft.plan(graph, model=module, gradients="x")
    limit = one["peak_tensor_bytes"][0] + one["graph_bytes"][0]
    net, quick = weft.compile(module, graph, memory_limit=f"{limit}B", recompute="none"), _calls.Program._ask
    interrupts = [signal.SIGINT]

    def later(self: _calls.Program, ask: str, *args: Any, **keywords: Any) -> Any:
        if ask == "forward" and interrupts:
            signal.pthread_kill(main, interrupts.pop())
            assert unwound.wait(60)
        return quick(self, ask, *args, **keywords)

    monkeypatch.setattr(_calls.Program, "_ask", later)
    with contextlib.suppress(KeyboardInterrupt):
        net(X)
    gc.collect()
    unwound.set()
    assert not interrupts
    net(X).sum().backward()  # which has no room beside another


def test_kills() -> None:
    """A program that is killed is said, of a crash by its first line, and the next compile works."""
    module = made("gcn")
    net = weft.compile(module, GRAPHS["plain"])
    expected = net().detach()
    program = _calls.program()
    os.kill(program.process.pid, signal.SIGKILL)
    refused(weft.Failed, "ended by SIGKILL, as the system does where memory is short", net)
    refused(weft.Failed, "ended by SIGKILL", net)
    assert torch.equal(weft.compile(module, GRAPHS["plain"])().detach(), expected)
    assert _calls.program() is not program
    program = _calls.program()
    net = weft.compile(module, GRAPHS["plain"])
    os.kill(program.process.pid, signal.SIGSEGV)
    refused(
        weft.Failed,
        "^the program weft crashed: SIGSEGV: segmentation violation; compile the module again$",
        net,
    )


@pytest.mark.parametrize("kind", ["interrupts", "program"])
def test_endings(kind: str) -> None:
    """At random moments: no process and no shared memory is left. `make endings` has many."""
    endings.run(kind, trials=3, seed=1)


ENDS_WITH = """
import os, signal, sys
import torch, weft
from torch_geometric.nn import GCNConv
net = weft.compile(GCNConv(2, 2), weft.Graph(edge_index=[[0, 1], [1, 2]], x=torch.ones(3, 2)))
out = net()
print(weft._calls.program().process.pid, flush=True)
"""


@pytest.mark.parametrize(
    "end", ["pass", "raise ValueError", "os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"]
)
def test_nothing_is_left(end: str) -> None:
    """However Python ends, the program ends with it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ENDS_WITH + end],
        env=os.environ | {"PYTHONPATH": str(Path(weft.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    number = int(done.stdout)
    until = time.monotonic() + 30
    while is_running(number) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(number)


def is_running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
