"""Temporary folders, in shared memory where there is room."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from ._errors import Failed
from ._folders import PREFIX

_LOCK = "lock"
_SHARED = Path("/dev/shm")
_MAKING = 3600.0  # seconds in which a folder is made or removed
_UNKNOWN = 1 << 30  # bytes for which a folder has room whose size nobody knows

_made: weakref.WeakSet[Scratch] = weakref.WeakSet()


def remove_all() -> None:
    """Removes the folders of this process, which then ends without what Python does at its end."""
    for scratch in list(_made):
        scratch.close()


class Scratch:
    """A folder that is removed when this object is garbage, or when Python ends.

    It is in ``/dev/shm`` where there is room for twice so many bytes, and they take at most half of the free
    memory, else in the temporary folder (``TMPDIR``). A Python that is killed leaves it behind. The next one
    to make such a folder removes it, wherever it is. A file in it is locked while its maker lives.

    Args:
        size: about how many bytes it will hold.

    Raises:
        Failed: there is no room for it.
    """

    def __init__(self, size: int = _UNKNOWN):
        root = _root(size)
        _remember(root)
        for other in _roots():
            _sweep(other)
        #: Objects that live as long as this.
        self.kept: list[object] = []
        with _writing(root, "a temporary folder"):
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getuid()}-", dir=root))
            try:
                begun = self.path / ".lock"
                lock = os.open(begun, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                begun.rename(self.path / _LOCK)  # so that nobody finds it free
                self.close = weakref.finalize(self, _remove, self.path, lock, os.getpid())
                _made.add(self)
            except BaseException:  # as an interrupt: nobody else would remove it soon
                _clear(self.path)
                raise

    def writing(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Names the folder in which a file of this one cannot be written, and the way out.

        Args:
            what: is written, as "the graph".
        """
        return _writing(self.path.parent, what)


@contextlib.contextmanager
def _writing(root: Path, what: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, PermissionError):  # of what is read meanwhile, which they name
        raise
    except OSError as error:
        way = "make room" if root == _SHARED else "make room, or name another folder by TMPDIR"
        raise Failed(f"{root}: {what} cannot be written there: {error.strerror}; {way}") from None


def _remove(path: Path, lock: int, owner: int) -> None:
    if os.getpid() != owner:  # a forked process has the object, too
        return
    try:
        _clear(path)
    finally:  # if an interrupt ends it, the next one to make a folder finds it free
        os.close(lock)


def _clear(path: Path) -> None:
    """Removes a folder, and its lock at last: if Python is killed meanwhile, the next one finds the rest."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            if name != _LOCK:
                shutil.rmtree(path / name, ignore_errors=True)
                (path / name).unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def _root(size: int) -> Path:
    try:
        room = os.statvfs(_SHARED)
        if os.access(_SHARED, os.W_OK | os.X_OK) and 2 * size <= min(
            room.f_bavail * room.f_frsize, _free_memory() // 2
        ):
            return _SHARED
    except OSError:
        pass
    return Path(tempfile.gettempdir())


def _memory() -> Path:
    """The folder with a link to each temporary folder but ``/dev/shm`` that this user has used here.

    Folders of users may be shared by machines, whose temporary folders are not.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"  # RuntimeError: there is no home
    return Path(cache) / "weft" / "temporary" / platform.node()


def _remember(root: Path) -> None:
    if root == _SHARED:
        return
    with contextlib.suppress(OSError, RuntimeError):  # then those look there who use it, too
        link = _memory() / hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(root)


def _roots() -> set[Path]:
    """Where folders may be that a Python has left."""
    found = {_SHARED, Path(tempfile.gettempdir())}
    with contextlib.suppress(OSError, RuntimeError):
        for link in _memory().iterdir():
            if link.exists():
                found.add(link.readlink())
            else:
                link.unlink()
    return found


def _free_memory() -> int:
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0


def _sweep(root: Path) -> None:
    """Removes what a Python that was killed has left."""
    for path in root.glob(f"{PREFIX}{os.getuid()}-*"):
        try:
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # it is being made or removed, unless that took so long that its Python was killed
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - _MAKING:
                    _clear(path)
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _clear(path)
        except OSError:
            pass  # somebody has it
        finally:
            os.close(lock)
