"""What takes long says so on standard error."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

SILENT = 4.5  # seconds after which what takes long says what it does and since when, and says it again


def is_watched() -> bool:
    """Whether standard error is a terminal or a notebook, and no file."""
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")


def show(line: str) -> None:
    print(f"weft: {line.removeprefix('weft: ')}", file=sys.stderr, flush=True)


def since(message: str, begun: float) -> str:
    """What is done, and how long it has taken since a time of the clock."""
    return f"{message}, {time.monotonic() - begun:.0f} s"


@contextlib.contextmanager
def shown(message: str, wanted: bool = True) -> Iterator[None]:
    """Standard error has what the block does, if it takes long and that is wanted."""
    if not wanted:
        yield
        return
    begun, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        while not ended.wait(SILENT):
            show(since(message, begun))

    teller = threading.Thread(target=tell, name="weft", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
