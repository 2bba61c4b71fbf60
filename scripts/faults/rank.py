#!/usr/bin/env python3
"""One rank of a trial, or its only process: runs weft, and notes its process id and its exit status. Signals
are weft's.

    rank.py FOLDER PROGRAM ARGUMENT…

A standard stream goes to the file (or the pipe) of that name and the rank's number in FOLDER, such as
stderr.0, where there is one.
"""

import os
import pathlib
import signal
import subprocess
import sys


def main():
    folder, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
    number = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCONT):
        signal.signal(s, lambda *_: None)  # not SIG_IGN, which weft would inherit
    streams = {
        name: open(path, "wb")
        for name in ("stdout", "stderr")
        if (path := folder / f"{name}.{number}").exists()
    }
    child = subprocess.Popen(command, **streams)
    note(folder / f"pid.{number}", child.pid)
    status = child.wait()
    note(folder / f"status.{number}", status)
    return status if status >= 0 else 128 - status


def note(path, number):
    path.with_name("." + path.name).write_text(str(number))
    path.with_name("." + path.name).rename(path)


if __name__ == "__main__":
    sys.exit(main())
