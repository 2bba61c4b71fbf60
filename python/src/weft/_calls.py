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
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _program
from ._arrays import Array
from ._errors import Failed, Refused, in_words_of_python

log = logging.getLogger("weft")

VERSION = 2  # of the protocol

_IDLE = 8  # pieces of shared memory that nobody uses, and that are kept for others of their size

_LEAVE = 5.0  # seconds in which the program ends when Python does


class Program:
    """The program, for the life of this process. Threads take turns."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.turn = threading.Lock()
        self.ended = ""  # why it has ended
        self.late = False  # a request was interrupted, and may be under way
        self.numbers = itertools.count(1)  # of requests, models and memory
        self.idle: deque[tuple[int, mmap.mmap]] = deque()  # shared memory that nobody uses
        self.mapped = self.most = 0  # bytes of shared memory, now and at most
        self.memories, self.passes, self.models = Watched(), Watched(), Watched()
        self.said: deque[str] = deque(maxlen=50)  # on standard error
        self.answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket = ours
        path = _program.find()
        try:
            self.process = subprocess.Popen(
                [path, "calls", f"--socket={theirs.fileno()}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt is for Python alone
                env=_program.environment(),
            )
        except OSError as err:
            raise Failed(f"{path}: {err.strerror}; WEFT_PROGRAM names the program weft") from None
        finally:
            theirs.close()
        for of in (self._read, self._hear):
            threading.Thread(target=of, name="weft", daemon=True).start()

    # -- what comes from it

    def _read(self) -> None:
        """Reads answers, in a thread of its own: an interrupt takes none of them apart."""
        try:
            with contextlib.suppress(OSError), self.socket.makefile("rb") as stream:
                while len(head := stream.read(4)) == 4:
                    self.answers.put(json.loads(stream.read(int.from_bytes(head, "little"))))
        finally:
            self.answers.put(None)

    def _hear(self) -> None:
        assert self.process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self.process.stderr:
                text = line.decode(errors="replace").rstrip()
                log.debug("%s", text)
                self.said.append(text)

    # -- what is asked of it

    def ask(self, ask: str, file: int | None = None, **fields: Any) -> dict[str, Any]:
        """The answer to a request, after the passes and models are dropped that nobody has any more.

        Raises:
            Refused, Failed: as the program says, or as it has ended.
            KeyboardInterrupt: the answer comes later, and nobody reads it.
        """
        self._check_owner()
        with self.turn:
            self._close_models()
            self.late = True
            answer = self._answer(self._send(ask, file, fields))
            self.late = False
            return answer

    def _check_owner(self) -> None:
        if self.owner != os.getpid():
            raise Refused(
                "a process that was forked calls a module that weft.compile made: call it where it was made, "
                "or compile in this process"
            )

    def _send(self, ask: str, file: int | None, fields: dict[str, Any]) -> int:
        if self.ended:
            raise Failed(self.ended)
        number, drop = next(self.numbers), list(self.passes.gone())
        text = json.dumps({"id": number, "ask": ask, "drop": drop} | fields).encode()
        message = len(text).to_bytes(4, "little") + text
        try:
            sent = socket.send_fds(self.socket, [message], [] if file is None else [file])
            self.socket.sendall(message[sent:])
        except OSError:
            self._end()
        return number

    def _answer(self, number: int) -> dict[str, Any]:
        while True:
            answer = self.answers.get()
            if answer is None:
                self._end()
                raise Failed(self.ended)
            if answer["id"] == number:
                break
        for line in answer.get("warnings", ()):
            _program._warn(line.removeprefix("weft: warning: "))
        for kind, error in (("refused", Refused), ("failed", Failed)):
            if kind in answer:
                raise error(in_words_of_python(answer[kind].removeprefix("weft: ")))
        return answer

    def _end(self) -> None:
        """Notes why the program has ended."""
        if self.ended:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_LEAVE)
        status, last = self.process.poll(), list(self.said)[-1:]
        if status is not None and status < 0:
            self.ended = f"{_program.ended_by(status)}; compile the module again"
        else:
            self.ended = f"the program weft has ended with status {status}; compile the module again"
        self.ended += "".join(f"; it said last: {line}" for line in last)
        self.socket.close()

    def _close_models(self) -> None:
        for net in self.models.gone():
            with contextlib.suppress(Refused, Failed):
                self._answer(self._send("close", None, {"net": net}))

    def close_models(self) -> None:
        """Closes the models that are garbage: now, or if a request is under way with the next one."""
        if self.owner == os.getpid() and not self.ended and not self.turn.locked():
            with self.turn:
                self._close_models()

    # -- shared memory

    def memory(self, count: int) -> Memory:
        """So many float32 numbers in shared memory, with any values."""
        size = max(mmap.PAGESIZE, -(-4 * count // mmap.PAGESIZE) * mmap.PAGESIZE)
        self._check_owner()  # a child that was forked has the same memory
        with self.turn:
            if self.late:  # that request may use memory still, and is done before the next one
                self._answer(self._send("drop", None, {}))
                self.late = False
            self.idle.extend(self.memories.gone())
            found = next((at for at in self.idle if len(at[1]) == size), None)
            if found is not None:
                self.idle.remove(found)
            spare = [self.idle.popleft() for _ in range(len(self.idle) - _IDLE)]
        for number, of in spare:
            self.ask("unmap", memory=number)
            self.mapped -= len(of)
            of.close()
        if found is not None:
            return self._lent(*found, count)
        file = os.memfd_create("weft", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(file, 0, size)
            of = mmap.mmap(file, size)
            number = next(self.numbers)
            self.ask("map", file, memory=number, bytes=size)
            self.mapped += size
            self.most = max(self.most, self.mapped)
        except OSError as err:
            raise Failed(f"{size} bytes of shared memory: {err.strerror}") from None
        finally:
            os.close(file)
        return self._lent(number, of, count)

    def _lent(self, number: int, of: mmap.mmap, count: int) -> Memory:
        numbers = np.frombuffer(of, np.float32, count)
        self.memories.watch(numbers, (number, of))
        return Memory(number, numbers)

    def leave(self) -> None:
        """Ends the program."""
        if self.owner != os.getpid() or self.ended:
            return
        self.ended = "Python ends"
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_LEAVE)
            return
        self.process.kill()


class Watched:
    """Notes of objects that are told when the object is garbage.

    Garbage is collected at any time, in any thread: what runs then is C, which no interrupt ends half-way.
    """

    def __init__(self) -> None:
        self.notes: dict[int, tuple[Any, Any]] = {}  # by a reference's id, as that of an array has no hash
        self.refs: deque[Any] = deque()

    def watch(self, of: Any, note: Any) -> Any:
        """Watches an object. What is returned ends it, by forget."""
        ref = weakref.ref(of, self.refs.append)
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
    """Shared memory by its number, as an array. It may be used again when the array is garbage."""

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


def _forked() -> None:
    """In a process that was forked: its end of the socket is the parent's."""
    if _one is not None:
        with contextlib.suppress(OSError):
            os.close(_one.socket.detach())


os.register_at_fork(after_in_child=_forked)
