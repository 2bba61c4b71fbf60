"""The program weft: where it is, and how it is run."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import _scratch
from ._errors import Failed, Interrupted, Refused, in_words_of_python

log = logging.getLogger("weft")

#: The version of the protocol between this package and the program (package calls in Go).
PROTOCOL = 13

# The exit statuses of the program.
_REFUSED, _INTERRUPTED = 2, 130

# Interrupts that come within so many seconds of one are the same request, as they are to the program.
_SAME_REQUEST = 1.0

# What a launcher tells the processes that it starts. Where it has started Python, as in a job of Slurm, the
# program is none of them.
_LAUNCHED = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_STEP_NUM_TASKS")


# The programs that start them, by Open MPI, MPICH and Slurm.
_LAUNCHERS = "mpirun mpiexec orterun orted prterun prted prte hydra_pmi_proxy slurmstepd".split()

# The number of a process among these.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")

# Seconds between two looks whether the launcher is there.
_LOOK = 0.5

# How many processes a launcher has started.
_STARTED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


def launched() -> bool:
    """Whether a launcher has started this process."""
    return any(name in os.environ for name in _LAUNCHED)


def end_with_launcher() -> None:
    """Ends this process when its parent does, if that is a launcher: one that is killed ends nobody."""
    parent = os.getppid()
    if not launched() or _name_of(parent).partition(".")[0] not in _LAUNCHERS:
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        end_job("the launcher has ended")

    threading.Thread(target=watch, name="weft-launcher", daemon=True).start()


def _name_of(process: int) -> str:
    """The name of a process's program, of which the system keeps 15 letters."""
    try:
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def end_job(why: str) -> None:
    """Ends this process, which is one of a launcher's, from a thread that is not the main one."""
    with contextlib.suppress(OSError, ValueError):
        print(f"weft: {why}, and with it this process, rank {_rank()}", file=sys.stderr, flush=True)
    try:
        _scratch.remove_all()
    finally:
        os._exit(1)


def _rank() -> str:
    return next((os.environ[name] for name in _RANKS if name in os.environ), "?")


def launcher_descriptors() -> list[int]:
    """The descriptor by which MPICH's launcher, and Slurm's for it, speaks with this process, if it is
    there."""
    text = os.environ.get("PMI_FD", "")
    if not text.isdecimal():
        return []
    try:
        os.fstat(int(text))
    except OSError:
        return []
    return [int(text)]


def warn_if_launched(message: str) -> None:
    """Warns, in the first of the processes that a launcher has started, of what each does by itself.

    Args:
        message: what, and the way out.
    """
    started = max(
        (int(text) for name in _STARTED if (text := os.environ.get(name, "")).isdecimal()), default=1
    )
    ranks = (os.environ.get(name) for name in _RANKS)
    if started > 1 and all(rank in (None, "0") for rank in ranks):
        warnings.warn(
            f"each of the {started} processes that the launcher started {message}", stacklevel=depth()
        )


# What torchrun tells the processes that it starts.
_BY_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")


def refuse_torchrun() -> None:
    """Refuses processes that torchrun has started, as none of them is one of MPI.

    Raises:
        Refused: it has the line that starts as many by MPI.
    """
    started = os.environ.get("WORLD_SIZE", "")
    of_torchrun = "TORCHELASTIC_RUN_ID" in os.environ or all(name in os.environ for name in _BY_TORCHRUN)
    if not of_torchrun or launched() or not started.isdecimal() or int(started) < 2:
        return
    line = shlex.join(["mpirun", "-n", started, "python", *sys.orig_argv[1:]])
    raise Refused(
        f"torchrun started these {started} processes, and weft's work together by MPI: start them by {line}"
    )


def find() -> str:
    """The path of the program.

    It is what the environment variable ``WEFT_PROGRAM`` names, else the one in this package, else ``weft`` on
    ``PATH``. There a script of Python is passed over: it is the command of this package, which starts what is
    found here.

    Raises:
        Failed: there is none.
    """
    named = os.environ.get("WEFT_PROGRAM")
    if named:
        return named
    own = Path(__file__).parent / "bin" / "weft"
    if own.is_file():
        return str(own)
    for folder in os.get_exec_path():
        path = os.path.join(folder, "weft")
        if os.path.isfile(path) and os.access(path, os.X_OK) and not _is_python(path):
            return path
    raise Failed(
        "the program weft is not here: install a wheel of weft, which has it, or name it by WEFT_PROGRAM"
    )


def checked() -> tuple[str, int]:
    """The path of the program, which speaks the protocol of this package, and when its file was changed.

    Raises:
        Failed: there is none, it is another program, or one of another version.
    """
    program = find()
    try:
        changed = os.stat(program).st_mtime_ns
    except OSError as err:
        raise Failed(f"{program}: {err.strerror}; {_NAMED}") from None
    _check(program, changed)
    return program, changed


#: The way out where a program is another one.
_NAMED = "WEFT_PROGRAM names the program weft"


@lru_cache(maxsize=64)
def _check(program: str, changed: int) -> None:
    child = _finished(program, ["version", "--json"])
    try:
        told = json.loads(child.result())
        version, protocol = told["weft"], told.get("protocol")
    except (Failed, Refused, Interrupted) as error:
        raise Failed(f"{program}: does not answer as the program weft does: {error}; {_NAMED}") from None
    except (ValueError, LookupError, TypeError):
        raise Failed(f"{program}: is not the program weft, as it tells no version of it; {_NAMED}") from None
    if protocol != PROTOCOL:
        raise Failed(
            f"{program}: is weft {version}, of another version than this package: install both anew; {_NAMED}"
        )


def _is_python(path: str) -> bool:
    with open(path, "rb") as file:
        first = file.readline(256)
    return first.startswith(b"#!") and b"python" in first


def text_of(value: Any) -> str:
    """What a flag is given for a value: numbers and paths as they are written, booleans as true and
    false."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", None) == 0:  # of NumPy or torch
        value = item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def listed(value: Any) -> Any:
    """What a flag of several values is given: a list, with commas between its entries. One with a comma or a
    quote stands in quotes."""
    return ",".join(map(_entry, value)) if isinstance(value, (list, tuple)) else value


def _entry(value: Any) -> str:
    text = text_of(value)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def axes(value: Any) -> Any:
    """What ``parallel`` is given for a mesh: of a dict, its axes with their numbers of workers."""
    return (
        ",".join(f"{axis}={number}" for axis, number in value.items())
        if isinstance(value, Mapping)
        else value
    )


def offload(value: Any, device: Any) -> Any:
    """What ``offload`` is given: of True the folder of temporary files, below a card the host's memory."""
    if value is True:
        return "ram" if str(device or "cpu").startswith("cuda") else tempfile.gettempdir()
    return None if value is False else value


def environment() -> dict[str, str]:
    """What the program has of the environment: nothing by which a launcher would take it for one of its
    processes."""
    return {name: value for name, value in os.environ.items() if name not in _LAUNCHED}


class Stderr:
    """What the program says on standard error."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=50)  # the last ones
        self.crash = ""  # the first line of a crash, which stacks and registers follow

    def add(self, line: str) -> None:
        if not self.crash and line.startswith(_CRASHES):
            self.crash = line
        self.lines.append(line)

    def last(self) -> str:
        """What tells most: of a crash the first line."""
        return self.crash or (self.lines[-1] if self.lines else "")


# How Go's runtime begins to tell of a crash. It then ends the program with the status of what is refused.
_CRASHES = ("SIG", "panic: ", "fatal error: ")


def ended(status: int | None, stderr: Stderr, last: str) -> str:
    """How the program has ended that does not say so itself.

    Args:
        status: None: it has not.
        stderr: what it said.
        last: what of that tells most.
    """
    if stderr.crash:
        return f"the program weft crashed: {stderr.crash}"
    how = f"ended with status {status}"
    if status is not None and status < 0:
        how = f"was ended by {_SIGNALS.get(-status, f'signal {-status}')}"
        how += ", as the system does where memory is short" if -status == signal.SIGKILL else ""
    return f"the program weft {how}" + (f"; it said last: {last}" if last else "")


_SIGNALS = {number.value: number.name for number in signal.Signals}


def flag(name: str, value: Any) -> str:
    """One flag, of a keyword and a value."""
    return f"--{name.replace('_', '-')}={text_of(value)}"


#: Flags that are given once for each of several tables.
REPEATED = ("vertices_from", "source", "target", "id", "add_vertices", "add_edges")


def flags(name: str, value: Any) -> list[str]:
    """The flags of a keyword and a value, of which a list may make several."""
    if name in REPEATED and isinstance(value, (list, tuple)):
        return [flag(name, one) for one in value]
    return [flag(name, listed(value))]


def operand(path: str | os.PathLike[str]) -> str:
    """A path or a name where the program expects one: none is taken for a flag."""
    text = os.fsdecode(path)
    return f"./{text}" if text.startswith("-") else text


@lru_cache(maxsize=64)
def _described(program: str, changed: int, command: str) -> dict[str, dict[str, Any]]:
    told = json.loads(run(["help", *command.split(), "--json"]))
    return {one["name"].replace("-", "_"): one for one in told["flags"]}


def flags_of(command: str) -> dict[str, dict[str, Any]]:
    """The flags of a command by their keywords, as the program tells them: name, kind, default, meaning,
    choices."""
    return _described(*checked(), command)


# Keywords of a training that are no flags: they are objects of PyTorch.
OURS = ("scheduler",)


def check_keywords(command: str, keywords: Iterable[str], taken: Iterable[str] = ()) -> None:
    """Refuses keywords that are no flags of a command, or that the caller has other means for.

    Raises:
        TypeError: it names the nearest flag.
    """
    known = flags_of(command)
    for name in keywords:
        if name in known and name not in taken or name in OURS and command in ("train", "plan"):
            continue
        why = "it is not for Python"
        if name == "target" or command in ("train", "plan") and name in flags_of("import npz"):
            why = f"it is of graphs: weft.Graph.of(data, {name}=…)"
        elif name not in known:
            try:
                run([*command.split(), "--" + name.replace("_", "-")])
            except Refused as error:
                why = str(error).removeprefix("unknown flag: ").split("; ", 1)[-1]
                if why.endswith(" --help lists them"):
                    why = f"to see all of them, type weft {command} --help-all in a shell"
                    if command == "import npz":
                        why = "help(weft.Graph) lists them"
        raise TypeError(f"unknown keyword {name}: {why}")


Told = Callable[[dict[str, Any]], bool]


def run(arguments: Sequence[str], told: Told | None = None, answers: bool = False) -> str:
    """Runs the program to its end, and returns the last line of its standard output, or all of it.

    It is a process in a session of its own, which ends with the thread that called: it never outlives Python.

    Args:
        arguments: of the program.
        told: is called with each epoch that ``--follow`` prints, as it comes; True ends its run after the
            next one.
        answers: the program waits until told has returned.

    Raises:
        Refused, Failed, Interrupted: as the exit status says, with the program's line.
        KeyboardInterrupt, or what told raises: after the program has ended in order.
    """
    return _finished(checked()[0], arguments, told, answers).result()


def _finished(
    program: str, arguments: Sequence[str], told: Told | None = None, answers: bool = False
) -> _Child:
    """A program that was run to its end, as run does."""
    child = _Child(program, arguments, told, answers)
    try:
        try:
            child.start()
            child.listen()
        except BaseException:
            child.end()
            raise
    finally:
        child.close()
    return child


def depth() -> int:
    """How many calls of this package stand between its caller and whoever calls this."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame, depth = frame.f_back, depth + 1
    return depth


def _warn(line: str) -> None:
    """Warns of what the program said, at the line that called the package."""
    warnings.warn(in_words_of_python(line), stacklevel=depth())


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Python's handlers of signals, which may raise, run after the block. They run in the main thread
    alone."""
    came: list[int] = []
    kept: dict[int, Any] = {}
    main = threading.current_thread() is threading.main_thread()
    try:
        # SIGINT is the first to wait and the last that is given back.
        for number in sorted(signal.valid_signals(), key=lambda n: n != signal.SIGINT) if main else ():
            if callable(handler := signal.getsignal(number)):
                kept[number] = handler
                signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number in reversed(kept):
            signal.signal(number, kept[number])
        for late in came:
            signal.raise_signal(late)


class _Child:
    process: subprocess.Popen[bytes] | None = None

    def __init__(self, program: str, arguments: Sequence[str], told: Told | None, answers: bool):
        self.program, self.told = program, told
        self.stopped = False  # told has asked for the end
        self.lines: list[str] = []  # of standard output, without epochs
        self.stderr = Stderr()
        self.rest: dict[int, bytes] = {}  # what has come of a line, by the stream's number
        self.arguments, self.answers = arguments, answers

    def start(self) -> None:
        """Starts the program. An exception of a signal's handler comes before that, or when it can be
        ended."""
        try:
            with _signals_later():
                self.process = subprocess.Popen(
                    [self.program, *self.arguments],
                    stdin=subprocess.PIPE if self.answers else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    start_new_session=True,
                    env=environment() | {"WEFT_PARENT": str(os.getpid())},
                )
        except OSError as err:
            raise Failed(f"{self.program}: {err.strerror}; {_NAMED}") from None

    def listen(self) -> None:
        """Reads what the program prints until it has ended. After an exception it can be called again."""
        assert self.process is not None
        with selectors.DefaultSelector() as streams:
            for stream, take in ((self.process.stdout, self._out), (self.process.stderr, self._err)):
                streams.register(stream, selectors.EVENT_READ, take)  # type: ignore[arg-type]
            while streams.get_map():
                for key, _ in streams.select():
                    read = os.read(key.fd, 1 << 16)
                    if not read:
                        streams.unregister(key.fileobj)
                    *lines, self.rest[key.fd] = (self.rest.get(key.fd, b"") + read).split(b"\n")
                    for line in lines:
                        key.data(line.decode(errors="replace"))
        self.process.wait()

    def _out(self, line: str) -> None:
        if self.told is None or not line.startswith('{"epoch":'):
            self.lines.append(line)
            log.debug("%s", line)
            return
        stops = self.told(json.loads(line))
        self.stopped |= stops
        self._answer(b"stop\n" if stops else b"\n")

    def _answer(self, line: bytes) -> None:
        if self.process is not None and self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended, and its status says why
                os.write(self.process.stdin.fileno(), line)

    def _err(self, line: str) -> None:
        warning = line.removeprefix("weft: warning: ")
        if warning != line:
            _warn(warning)
            return
        log.log(logging.DEBUG if line.startswith(("epoch ", "weft: ")) else logging.INFO, "%s", line)
        self.stderr.add(line)

    def end(self) -> None:
        """Ends the program after an exception here: in order, or at once if an interrupt comes a second
        later.

        Raises:
            KeyboardInterrupt: that interrupt.
        """
        if self.process is None:
            return
        begun = time.monotonic()
        self.told = lambda epoch: True
        asked = False
        while True:
            try:
                if not asked:
                    asked = True
                    self.process.send_signal(signal.SIGINT)
                    self._answer(b"stop\n")  # to the epoch that told had, or the next one
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.listen()
                break
            except KeyboardInterrupt:
                if time.monotonic() - begun >= _SAME_REQUEST:
                    raise
        if self.process.returncode == _INTERRUPTED:
            log.warning("%s", self._last())  # which says where the results are

    def close(self) -> None:
        """Closes the streams of the program, and kills it if it has not ended."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def result(self) -> str:
        """The standard output of the program that has ended, or its error."""
        assert self.process is not None
        status, out = self.process.returncode, "\n".join(self.lines)
        text = self._last()
        asked = self.stopped or text.startswith("max_time ")
        if status == 0:
            for line in self.stderr.lines:
                if line.startswith("weft: "):  # of runs, what is damaged
                    _warn(line.removeprefix("weft: "))
            return out
        if status == _INTERRUPTED and asked and self.lines:  # it has results
            return out
        if status < 0 or self.stderr.crash:
            raise Failed(ended(status, self.stderr, text))
        text = text or ended(status, self.stderr, text)
        if status == _REFUSED:
            raise Refused(text)
        if status == _INTERRUPTED:
            raise Interrupted(text)
        raise Failed(text)

    def _last(self) -> str:
        """What the program said last: its error."""
        errors = [line for line in self.stderr.lines if line.startswith("weft: ")]
        text = errors[-1].removeprefix("weft: ") if errors else "; ".join(list(self.stderr.lines)[-3:])
        if text.endswith(", as said above"):
            failures = [line.partition(": ")[2] for line in self.stderr.lines if ": failed: " in line]
            text = "; ".join([text.removesuffix(", as said above"), *failures])
        return in_words_of_python(text)
