"""What befalls the surroundings of a run: its disk, its folder, the reader of its output, the child that runs
METIS."""

import os
import resource
import shutil
import signal
import subprocess
import time

from disk import PAGE, SmallDisk, pages
from trial import GRACE, LINES, PARTITION, TRAIN, TRAINS, WRITE, WRITES, Trial, proc, whole_line

STREAMS = {
    "output": ["stdout"],
    "progress": ["stderr"],
    "results": ["stdout"],
    "both": ["stdout", "stderr"],
}  # all but the first of --json


class Room(Trial):
    """Too little room: for the predictions, for weights as well, or in the middle of an epoch's line."""

    VARIANTS = [(what, place) for place in Trial.PLACES for what in ("predictions", "weights", "lines")]

    def __init__(self, setting, folder, chance, what, place):
        super().__init__(setting, folder, chance, (what, place), LINES if what == "lines" else WRITE, place)
        self.weights = (
            (setting.stores / ("lines" if what == "lines" else "wrote") / "model.safetensors").stat().st_size
        )
        rooms = {
            "predictions": (self.weights + 3 * PAGE, 8 << 20),
            "weights": (1, self.weights),
            "lines": (1, 3 * self.weights),
        }
        self.room = chance.randint(*rooms[what])

    def rules(self):
        yield from self.failed(self.out)
        weights = self.out / "model.safetensors"
        if weights.exists():
            store = self.arguments()[1]
            p = self.setting.run(
                "predict",
                "--init",
                weights,
                "--config",
                self.out / "run.yaml",
                store,
                "--out",
                self.folder / "again.npy",
            )
            if p.returncode != 0:
                yield f"the weights do not load: {p.stderr!r}"
        elif self.fits():
            yield f"the weights are lost, for which there was room: {self.weights} bytes"


class Disk(Room):
    """The run's folder on a disk that fills up."""

    kind = "disk"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.disk, self.free = None, 0
        self.out = self.folder / "disk" / "run"

    def prepare(self):
        super().prepare()
        self.disk = SmallDisk(self.out.parent, self.room)

    def strike(self):
        pass  # it fills up by itself

    def fits(self):
        return self.free >= pages(self.weights)

    def settle(self):
        if self.disk:
            self.free = self.disk.free()
            self.disk.replace()


class Limit(Room):
    """A file size limit, of rank 0. MPI, whose shared memory counts as files, has started by then."""

    kind = "limit"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.begins = "out/run.yaml" if self.place == "mpirun" else "pid.*"

    def strike(self):
        resource.prlimit(self.pids()[0], resource.RLIMIT_FSIZE, (self.room, self.room))

    def fits(self):
        return self.room >= self.weights


class Folder(Trial):
    """The run's folder is removed, or goes elsewhere, or another takes its place."""

    kind = "folder"
    VARIANTS = [
        ("removed", "train", "mpirun"),
        ("renamed", "train", "workers"),
        ("removed", "write", "mpirun"),
        ("replaced", "train", "one"),
        ("renamed", "train", "mpirun"),
        ("removed", "train", "one"),
        ("replaced", "train", "mpirun"),
        ("removed", "write", "workers"),
    ]

    def __init__(self, setting, folder, chance, how, phase, place):
        arguments, self.begins, self.spread = {"train": (TRAIN, TRAINS, 2), "write": (WRITE, WRITES, 0.2)}[
            phase
        ]
        super().__init__(setting, folder, chance, (how, phase, place), arguments, place)
        self.how, self.phase = how, phase
        self.elsewhere = folder / "elsewhere"
        self.done = 0

    def strike(self):
        if self.how == "removed":
            while self.out.exists():
                shutil.rmtree(self.out, ignore_errors=True)
            return
        self.out.rename(self.elsewhere)
        if self.how == "replaced":
            self.out.mkdir()
        self.done = self.lines(self.elsewhere / "metrics.jsonl")

    def rules(self):
        if self.phase == "write" and self.launcher_status == 0:
            return  # all was done
        yield from self.failed(self.out)
        if self.out.exists() and (self.how != "replaced" or any(self.out.iterdir())):
            yield f"something was made in its place: {sorted(p.name for p in self.out.iterdir())}"
        if (
            epochs := self.lines(self.elsewhere / "metrics.jsonl") - self.done
        ) > 2:  # one under way, and one between look and line
            yield f"it trained on for {epochs} epochs"


class Reader(Trial):
    """The reader of the output leaves, of rank 0's or of mpirun's."""

    kind = "reader"
    VARIANTS = [(what, place) for place in ("mpirun", "workers", "through mpirun", "one") for what in STREAMS]
    begins, spread = "out/metrics.jsonl holds 1", 1

    def __init__(self, setting, folder, chance, what, place):
        self.through = place == "through mpirun"
        arguments = ["train", "{stores}/parted", "--epochs", "60", "--out", "{out}"] + ["--json"] * (
            what != "output"
        )
        super().__init__(
            setting, folder, chance, (what, place), arguments, "mpirun" if self.through else place
        )
        self.what, self.readers = what, []

    def prepare(self):
        if not self.through:
            super().prepare()
        for stream in STREAMS[self.what]:
            pipe = self.folder / (stream if self.through else f"{stream}.0")
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
            with open(pipe.with_name(f"{pipe.name}.read"), "wb") as read:
                self.readers.append((pipe, subprocess.Popen(["cat", str(pipe)], stdout=read)))

    def launch(self):
        super().launch(*(("--mca", "odls_base_sigkill_timeout", "5") if self.through else ()))

    def strike(self):
        for _, reader in self.readers:
            reader.kill()

    def settle(self):
        for pipe, reader in self.readers:
            reader.kill()
            reader.wait()
            pipe.with_name(f"{pipe.name}.read").rename(pipe)

    def rules(self):
        if not self.recorded():
            yield f"the results are lost: status {self.launcher_status}, {self.statuses}"
        if self.through:  # Open MPI itself ends the ranks by SIGTERM, which keep the results so far
            expected = {0, 130}
        else:  # results that were to be printed may not have arrived
            expected = {0, 1} if self.what in ("results", "both") else {0}
        if self.statuses.get(0) not in expected or not self.through and not self.launcher_says(*expected):
            yield f"status {self.launcher_status}, {self.statuses}: not one of {expected}"
        if (
            self.what == "progress"
            and not self.through
            and not whole_line((self.folder / "stdout").read_text())
        ):
            yield "the object of --json is not whole"


class Metis(Trial):
    """The child that runs METIS is stopped, or dies."""

    kind = "metis"
    VARIANTS = [(name, place) for name in ("STOP", "KILL") for place in ("mpirun", "workers")]
    spread, deadline = 0.3, 10
    patience = deadline + GRACE

    def __init__(self, setting, folder, chance, name, place):
        super().__init__(setting, folder, chance, (name, place), PARTITION + ["--epochs", "2"], place)
        self.name, self.stopped = name, False

    def child(self):
        return next(
            (int(pid) for pid, command in self.marked().items() if command.startswith(b"weft-metis\0")), None
        )

    def begun(self):
        return self.child() is not None

    def strike(self):
        if (child := self.child()) is None:
            return  # METIS was done
        try:
            os.kill(child, getattr(signal, "SIG" + self.name))
        except ProcessLookupError:
            return
        # The signal comes to bear a little later, and may come too late.
        while (state := proc(child, "stat").rpartition(b")")[2].split()[:1]) and state[0] not in (b"T", b"Z"):
            time.sleep(0.001)
        self.stopped = state == [b"T"]

    def rules(self):
        if self.stopped or not self.recorded():
            yield from self.failed("METIS")
