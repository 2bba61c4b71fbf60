"""How trainings end: interrupted, resumed, failed, in threads, and with Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from processes import python
from test_train import train

import weft
from weft import _calls, _program


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_interrupted_and_resumed(graph, arrays, error, caplog):
    whole = train(graph, epochs=6, out="whole")

    def fail(epoch):
        if epoch["epoch"] == 2:
            raise error

    with pytest.raises(error):
        train(graph, epochs=6, out="run", callbacks=fail)
    assert caplog.messages[-1].endswith(
        'the results so far are in run; continue with weft.train(data, resume="run")'
    )
    assert weft.load("run").summary["epochs_run"] in (2, 3) and os.listdir("run/checkpoints")
    rest = []
    run = train(
        weft.Graph(**arrays), epochs=6, out="run", resume="auto", callbacks=rest.append
    )  # another copy of the graph
    assert run.summary["losses"] == whole.summary["losses"] and (run.logits == whole.logits).all()
    assert rest[-1]["epoch"] == 6 and rest[0]["epoch"] in (3, 4)
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    more = weft.train(None, resume=run, epochs=8, progress=False)
    assert more.summary["epochs_run"] == 8 and more.directory == run.directory


def test_run_goes_on_with_its_settings(graph, arrays, bars):
    settings = {"lr": 0.02, "class_weights": [1, 2, 0.5], "init": train(graph, epochs=1).state_dict()}
    whole = train(graph, epochs=6, out="whole", **settings)
    run = train(graph, epochs=2, out="run", **settings)
    assert (
        weft.train(graph, resume=run, epochs=3, class_weights=[1, 2, 0.5]).directory == run.directory
    )  # and not a new one
    run.directory.rename("moved")
    again = weft.train(weft.Graph(**arrays), resume="moved", epochs=4, class_weights=[1, 2, 0.5])
    assert again.summary["epochs_run"] == 4 and again.settings["model"] == "gcn"
    bars.clear()
    assert (
        weft.train(weft.Graph(**arrays), out="moved", resume="auto", epochs=5, **settings).summary[
            "epochs_run"
        ]
        == 5
    )
    assert bars[0] == (5, 4, "epoch", "gcn")
    again = weft.train(
        weft.Graph(**arrays), out="moved", resume=Path("moved"), epochs=6, class_weights=[1, 2, 0.5]
    )
    assert again.summary["losses"] == whole.summary["losses"] and (again.logits == whole.logits).all()
    with pytest.raises(
        weft.Refused,
        match=(
            '^the run in moved is of another graph; give that, or leave it out; init="moved" begins a new '
            "run with its weights$"
        ),
    ):
        weft.train(weft.Graph(**arrays | {"y": 2 - arrays["y"]}), resume="moved")  # which has ended
    with pytest.raises(weft.Refused, match="^model sage: the run to continue has gcn; "):
        weft.train(graph, resume="moved", model="sage")
    with pytest.raises(weft.Refused, match="^out other: the run continues in moved; leave it out$"):
        weft.train(graph, resume="moved", out="other")
    assert train(graph, epochs=1, out="fresh", resume="auto").directory == Path("fresh").absolute()
    Path("c.yaml").write_text("model: gcn\nhidden: 8\n")
    for epochs in (1, 2):  # the same call begins the run and goes on, also with settings of a file
        run = weft.train(graph, out="c", resume="auto", config="c.yaml", epochs=epochs, progress=False)
        assert run.summary["epochs_run"] == epochs


@pytest.mark.parametrize(("seconds", "ends"), [(0.9, "in order"), (1.0, "at once")])
def test_second_interrupt(graph, monkeypatch, seconds, ends):
    """An interrupt within a second of one is the same request; a later one ends the program at once."""
    whole = train(graph, epochs=4, out="run")
    times, listen, calls = iter([10, 10 + seconds]), _program._Child.listen, []

    def listens(child):
        calls.append(child)
        if len(calls) == 2:  # what end() calls
            raise KeyboardInterrupt
        listen(child)

    def fail(epoch):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_program._Child, "listen", listens)
        patch.setattr(_program.time, "monotonic", lambda: next(times))
        weft.train(graph, resume=whole, epochs=100_000, callbacks=fail, progress=False)
    assert calls[0].process.returncode == (130 if ends == "in order" else -signal.SIGKILL)
    if ends == "in order":
        again = weft.load("run").summary
        assert again["epochs_run"] >= 5 and again["losses"][:4] == whole.summary["losses"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_interrupt_of_the_start(graph, monkeypatch, moment):
    """An interrupt while the program starts leaves no program, and no run under way."""
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, command, **more):
            if trains := command[1] == "train":
                started.append(self)
            if trains and moment == "before":
                signal.raise_signal(signal.SIGINT)
            super().__init__(command, **more)
            if trains and moment == "after":
                signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(subprocess, "Popen", Popen)
        train(graph, epochs=100_000, out="run")
    assert started[0].returncode is not None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_resumed_without_what_was_in_memory(graph, arrays):
    def run(**settings):
        train(weft.Graph(**arrays), epochs=1, **settings)

    run(out="alone")
    run(out="validated", validate=weft.Graph(**arrays))
    run(out="weighted", class_weights=[1, 2, 3])
    with pytest.raises(
        weft.Refused,
        match=r'^alone: the graph of the run was in memory; give it: weft.train\(data, resume="alone"\)$',
    ):
        weft.train(None, resume="alone", epochs=2)
    for name, line in (
        ("validated", "validate: the graph of the run was in memory; give it again"),
        ("weighted", "class_weights: those of the run were in memory; give them again"),
    ):
        with pytest.raises(weft.Refused, match=f"^{line}$"):
            weft.train(graph, resume=name, epochs=2)
    assert (
        weft.train(graph, resume="validated", epochs=2, validate=weft.Graph(**arrays)).summary["epochs_run"]
        == 2
    )


def test_failed(graph):
    with pytest.raises(
        weft.Failed,
        match="^epoch 1: the logits are not finite; try a smaller lr, clip 1, or norm layer; "
        "run is incomplete",
    ):
        train(graph, lr=1e30, epochs=5, optimizer="sgd", out="run")

    def kill(number):
        def send(epoch):
            os.kill(child := children()[0], number)
            if number == signal.SIGKILL:  # it cannot be answered any more
                os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

        return send

    with pytest.raises(
        weft.Failed, match="^the program weft was ended by SIGKILL, as the system does where memory is short"
    ):
        train(graph, epochs=100_000, callbacks=kill(signal.SIGKILL))

    for number, message in (
        (signal.SIGSEGV, "SIGSEGV: segmentation violation"),
        (signal.SIGABRT, "SIGABRT: abort"),
    ):
        with pytest.raises(weft.Failed, match=f"^the program weft crashed: {message}$"):  # not the registers
            train(graph, epochs=100_000, callbacks=kill(number))

    with pytest.raises(
        weft.Interrupted,
        match=r"^interrupted after epoch [0-9]+; the results so far are in stopped; "
        r'continue with weft.train\(data, resume="stopped"\)$',
    ):
        train(graph, epochs=100_000, callbacks=kill(signal.SIGTERM), out="stopped")
    assert weft.load("stopped").summary["epochs_run"] >= 1

    def once(epoch):
        if epoch["epoch"] == 1:
            kill(signal.SIGTERM)(epoch)

    with pytest.raises(weft.Interrupted):
        weft.sweep(graph, grid={"lr": [0.1]}, epochs=100_000, progress=False, callbacks=once, out="swept")


def children():
    """The processes that this one has started."""
    own = os.getpid()
    return [
        int(child)
        for task in os.listdir(f"/proc/{own}/task")
        for child in Path(f"/proc/{own}/task/{task}/children").read_text().split()
    ]


def test_in_a_thread_that_ends(graph):
    made = []
    thread = threading.Thread(target=lambda: made.append(train(graph, epochs=20)))
    thread.start()
    thread.join()
    assert made[0].summary["epochs_run"] == 20


ENDS = """
import os, sys, signal, numpy as np, weft
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
def end(epoch):
    tasks = [f"/proc/self/task/{t}/children" for t in os.listdir("/proc/self/task")]
    child = [c for task in tasks for c in open(task).read().split()]
    print(child[0], os.listdir("/dev/shm"), flush=True)
    HOW
graph = weft.Graph(edge_index=[[0, 1, 2], [1, 2, 0]], x=np.eye(3), y=[0, 1, 0], split="train")
weft.train(graph, epochs=10**9, callbacks=end, progress=False, CALL)
"""


@pytest.mark.parametrize(
    "how", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGINT)"]
)
def test_nothing_outlives_python(how):
    done = python(ENDS.replace("HOW", how).replace("CALL", 'out="run"'))
    child = int(done.stdout.split()[0])
    for _ in range(60_000):  # ten minutes at least
        if not alive(child):
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("the program outlives Python")
    if "SIGINT" in how:
        assert done.stderr.rstrip().endswith("KeyboardInterrupt")
        assert weft.load("run").summary["epochs_run"] >= 1 and os.listdir("run/checkpoints")


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return False


@pytest.mark.parametrize(
    ("launched", "failed", "asked"),
    [(True, False, ["leave"]), (True, True, []), (False, False, []), (False, True, [])],
)
def test_leave(monkeypatch, launched, failed, asked):
    """One of several processes takes leave of the others where Python ends without an error, and nobody else
    does."""
    monkeypatch.setattr(_program, "launched", lambda: launched)
    if failed:
        monkeypatch.setattr(sys, "last_value", ValueError(), raising=False)
    else:
        monkeypatch.delattr(sys, "last_value", raising=False)
    program, found = _calls.Program(), []
    monkeypatch.setattr(program, "_ask", lambda ask: found.append(ask) or {})
    program.leave()
    assert found == asked and program.process.returncode == 0 and program.ended == "Python ends"
    program.leave()
    assert found == asked
