"""The program weft as one that answers calls, and the memory that it shares with Python.

The comment of package calls in Go has the protocol.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import logging
import mmap
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from . import _program, _progress
from ._arrays import Array
from ._errors import Failed, Refused, in_words_of_python

log = logging.getLogger("weft")

_IDLE = 64  # lendings of shared memory after which a piece that nobody has used is given back

_LEAVE = 5.0  # seconds in which the program ends when Python does

if TYPE_CHECKING:
    _Reply = queue.SimpleQueue[tuple[Any, Exception | None]]
    _Work = queue.SimpleQueue[tuple[Callable[[], Any], _Reply] | None]


def bytes_of(count: int) -> int:
    """The bytes of memory with so many float32 numbers: whole pages."""
    return max(1, -(-4 * count // mmap.PAGESIZE)) * mmap.PAGESIZE


class Program:
    """The program, for the life of this process.

    What is asked of it is done in a thread of its own, one after the other: an interrupt ends the wait of who
    asks, and takes nothing apart.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.ended = ""  # why it has ended
        self.numbers = itertools.count(1)  # of requests, models and memory
        # Shared memory that nobody uses: number, memory, and when it became so.
        self.idle: deque[tuple[int, mmap.mmap, int]] = deque()
        self.lendings = 0  # of shared memory
        self.mapped = self.most = 0  # bytes of shared memory, now and at most
        self.memories, self.passes, self.models = Watched(), Watched(), Watched()
        self.stderr = _program.Stderr()
        self.unshown: deque[str] = deque(maxlen=50)  # what it has said and nobody was shown
        self.together = threading.Event()  # it works together with those of other processes
        self.work: _Work = queue.SimpleQueue()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket, self.stream = ours, ours.makefile("rb")
        path, _ = _program.checked()
        try:
            self.process = subprocess.Popen(
                [path, "calls", f"--socket={theirs.fileno()}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno(), *_program.launcher_descriptors()],
                start_new_session=True,  # an interrupt is for Python alone
                # Where a launcher has started Python, the program may be one of its processes.
                env=os.environ,
            )
        except OSError as err:
            raise Failed(f"{path}: {err.strerror}; WEFT_PROGRAM names the program weft") from None
        finally:
            theirs.close()
        heard = self.process.stderr, self.stderr, self.unshown, self.together
        threading.Thread(target=_serve, args=(self.work,), name="weft", daemon=True).start()
        self.hearing = threading.Thread(target=_read_stderr, args=(heard,), name="weft", daemon=True)
        self.hearing.start()
        weakref.finalize(self, self.work.put, None).atexit = False  # which ends its thread

    def do(self, work: Callable[[], Any], message: str = "") -> Any:
        """What work returns in the program's thread.

        Args:
            work: is called there.
            message: what it does, where it may take long: it is shown.

        Raises:
            Refused: the process was forked.
            KeyboardInterrupt: it is done later, and nobody has what it returns.
        """
        if self.owner != os.getpid():
            raise Refused(
                "a process that was forked calls a module that weft.compile made: call it where it was made, "
                "or compile in this process"
            )
        reply: _Reply = queue.SimpleQueue()
        self.work.put((work, reply))
        made, error = self._shown(reply, message) if message else reply.get()
        try:
            if error is not None:
                raise error
            return made
        finally:
            del error  # whose traceback has this frame

    def _shown(self, reply: _Reply, message: str) -> tuple[Any, Exception | None]:
        """The reply. Until it comes, standard error has what the program says, or how long it takes."""
        begun = time.monotonic()
        self.unshown.clear()
        while True:
            try:
                return reply.get(timeout=_progress.SILENT)
            except queue.Empty:
                lines = []
                while self.unshown:
                    lines.append(self.unshown.popleft())
                for line in lines or [_progress.since(message, begun)]:
                    _progress.show(line)

    # -- what is asked of it, and what comes from it

    def ask(self, ask: str, message: str = "", keeps: Any = None, **fields: Any) -> dict[str, Any]:
        """The answer to a request, after the passes and models are dropped that nobody has any more.

        Args:
            ask, fields: the request.
            message: what it does, where that may take long: it is shown.
            keeps: what stays until it is done, after an interrupt, too.

        Raises:
            Refused, Failed: as the program says, or as it has ended.
            KeyboardInterrupt: the answer comes later, and nobody reads it.
        """

        def asked(_: Any = keeps) -> dict[str, Any]:
            self._close_models()
            return self._ask(ask, **fields)

        answer: dict[str, Any] = self.do(asked, message)
        for line in answer.get("warnings", ()):
            _program._warn(line.removeprefix("weft: warning: "))
        return answer

    def _ask(self, ask: str, file: int | None = None, **fields: Any) -> dict[str, Any]:
        if self.ended:
            raise Failed(self.ended)
        number, drop = next(self.numbers), list(self.passes.gone())
        text = json.dumps({"id": number, "ask": ask, "drop": drop} | fields).encode()
        message = len(text).to_bytes(4, "little") + text
        answer: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):  # an answer may be cut
            sent = socket.send_fds(self.socket, [message], [] if file is None else [file])
            self.socket.sendall(message[sent:])
            if len(head := self.stream.read(4)) == 4:
                answer = json.loads(self.stream.read(int.from_bytes(head, "little")))
        if not answer:
            self._end()
            raise Failed(self.ended)
        assert answer["id"] == number
        for kind, error in (("refused", Refused), ("failed", Failed)):
            if kind in answer:
                raise error(in_words_of_python(answer[kind].removeprefix("weft: ")))
        return answer

    def _end(self) -> None:
        """Notes why the program has ended."""
        if self.ended:
            return
        self.together.clear()  # whoever asks is told
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_LEAVE)
            self.hearing.join(_LEAVE)  # it has said all
        self.ended = _program.ended(self.process.poll(), self.stderr, self.stderr.last())
        self.ended += "; compile the module again"
        self.stream.close()
        self.socket.close()
        atexit.unregister(self.leave)  # which would keep its memory

    def _close_models(self) -> None:
        for model in self.models.gone():
            with contextlib.suppress(Refused, Failed):
                self._ask("close", model=model)
        if not self.models.notes:
            self._give_back(0)

    def close_models(self) -> None:
        """Closes the models that are garbage, when what is asked for is done. It does not wait."""
        if self.owner == os.getpid() and not self.ended:
            self.work.put((self._close_models, queue.SimpleQueue()))

    # -- shared memory

    def memory(self, count: int) -> Memory:
        """So many float32 numbers in shared memory, with any values."""
        return self.pieces([count])[0]

    def pieces(self, counts: Iterable[int]) -> list[Memory]:
        """Memory for each of several counts, as in memory."""
        found: list[Memory] = self.do(lambda: [self._memory(count) for count in counts])
        return found

    def _memory(self, count: int) -> Memory:
        size = bytes_of(count)
        self.lendings += 1
        self._take_back()
        found = next((at for at in reversed(self.idle) if len(at[1]) == size), None)
        if found is not None:
            self.idle.remove(found)
        self._give_back(_IDLE)
        number, mapping = found[:2] if found is not None else self._map(size)
        numbers = np.frombuffer(mapping, np.float32, count)
        self.memories.watch(numbers, (number, mapping))
        return Memory(number, numbers)

    def _map(self, size: int) -> tuple[int, mmap.mmap]:
        file = os.memfd_create("weft", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(file, 0, size)
            mapping = mmap.mmap(file, size)
            number = next(self.numbers)
            self._ask("map", file, memory=number, bytes=size)
        except OSError as err:
            raise Failed(f"{size} bytes of shared memory: {err.strerror}") from None
        finally:
            os.close(file)
        self.mapped += size
        self.most = max(self.most, self.mapped)
        return number, mapping

    def give_back(self) -> None:
        """Gives the system the memory that nobody uses."""
        self.do(lambda: self._give_back(0))

    def _take_back(self) -> None:
        """Takes back the memory whose arrays are garbage."""
        self.idle.extend((number, mapping, self.lendings) for number, mapping in self.memories.gone())

    def _give_back(self, lendings: int) -> None:
        """Gives the system the memory that nobody has used for so many lendings."""
        self._take_back()
        while self.idle and self.idle[0][2] <= self.lendings - lendings:
            number, mapping, _ = self.idle.popleft()
            self._ask("unmap", memory=number)
            self.mapped -= len(mapping)
            mapping.close()

    def leave(self) -> None:
        """Ends the program. One that works together with others leaves when all do, but after an error: then
        the launcher ends all."""
        if self.owner != os.getpid() or self.ended:
            return
        if _program.launched() and getattr(sys, "last_value", None) is None:
            with contextlib.suppress(Failed, Refused):
                self.ask("leave")
        self.together.clear()
        self.ended = "Python ends"
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_LEAVE)
            return
        self.process.kill()


def _serve(work: _Work) -> None:
    """Does what is asked, until None comes."""
    while (request := work.get()) is not None:
        try:
            request[1].put((request[0](), None))
        except Exception as error:
            request[1].put((None, error))
        del request  # and with it what has been made


def _read_stderr(channels: tuple[IO[bytes], _program.Stderr, deque[str], threading.Event]) -> None:
    """Keeps what the program says. When one ends that works together with others, and nobody asks it for
    anything, so does this process: the job has ended, and a launcher that was killed ends nobody."""
    stream, stderr, unshown, together = channels
    with contextlib.suppress(OSError, ValueError):
        for line in stream:
            text = line.decode(errors="replace").rstrip()
            log.debug("%s", text)
            stderr.add(text)
            unshown.append(text)
    if together.is_set():
        time.sleep(_LEAVE)  # in which whoever asks is told
        if together.is_set():
            last = stderr.last()
            _program.end_job("the program weft has ended" + (f"; it said last: {last}" if last else ""))


class Watched:
    """Notes of objects that are told when the object is garbage.

    Garbage is collected at any time, in any thread: what runs then is C, which no interrupt ends half-way.
    """

    def __init__(self) -> None:
        self.notes: dict[int, tuple[Any, Any]] = {}  # by a reference's id, as that of an array has no hash
        self.refs: deque[Any] = deque()

    def watch(self, referent: Any, note: Any) -> Any:
        """Watches an object. What is returned ends it, by forget."""
        ref = weakref.ref(referent, self.refs.append)
        self.notes[id(ref)] = ref, note
        return ref

    def forget(self, ref: Any) -> None:
        self.notes.pop(id(ref), None)

    def gone(self) -> Iterator[Any]:
        """The notes of the objects that have become garbage since."""
        while self.refs:
            with contextlib.suppress(IndexError, KeyError):  # of another thread, or forgotten
                yield self.notes.pop(id(self.refs.popleft()))[1]


class Memory:
    """Shared memory by its number, as an array of float32. It is used again when the array is garbage."""

    def __init__(self, number: int, numbers: Array):
        self.number, self.numbers = number, numbers


_one: Program | None = None
_starting = threading.Lock()


def program() -> Program:
    """The program of this process, which is started if it is not there."""
    global _one
    with _starting:
        if _one is None or _one.ended or _one.owner != os.getpid():
            _one = Program()
            atexit.register(_one.leave)
        return _one


@contextlib.contextmanager
def told_of_refusals(call: str, parallel: Any) -> Iterator[None]:
    """Other processes that make a call together with this one, on a mesh, refuse it by the error of the
    block."""
    try:
        yield
    except Exception as error:
        if parallel and _one is not None and not _one.ended and _one.together.is_set():
            words = [_program.flag("parallel", _program.axes(parallel))]
            with contextlib.suppress(Refused, Failed):  # by the line of the lowest rank that refuses
                _one.ask("refuse", call=call, arguments=words, reason=str(error))
        raise


def _forked() -> None:
    """In a process that was forked: its end of the socket is the parent's."""
    if _one is not None:
        with contextlib.suppress(OSError):
            os.close(_one.socket.detach())


os.register_at_fork(after_in_child=_forked)
