"""What tests have done: a plugin of pytest, which lies in python/src of a copy of the repository, and writes
there.

The file tests of the folder REACHED has a line for each phase of each test: its name, how it ended, and the
seconds. Each other file there has the names of the tests that have come to the mutant of that number."""

import json
import os
from pathlib import Path

REACHED = Path(__file__).resolve().parents[2] / "reached"
SEEN = set()


def at(mutant):
    """A test has come to where a mutant may be, perhaps in a process that it started."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test and (mutant, test) not in SEEN:
        SEEN.add((mutant, test))
        write(str(mutant), test)


def pytest_runtest_logreport(report):
    write("tests", {"Name": report.nodeid, "Outcome": report.outcome, "Seconds": report.duration})


def write(name, line):
    with open(REACHED / name, "a") as file:
        file.write(json.dumps(line) + "\n")
