"""What all trials have in common: starting weft, waiting for the moment, and the rules that hold whatever
happens."""

import ast
import dataclasses
import json
import math
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

RANKS = 4
# Seconds: --comm-timeout where nothing is to pass it, and in which a run that ends by itself has ended.
LONG = 60
SHORT = 4  # seconds, --comm-timeout where something is to pass it
# Seconds in which what has ended is gone, and beyond the deadline in which a launcher has ended everything,
# on a busy machine.
GRACE = 8
MARK = "WEFT_FAULTS_TRIAL"  # in the environment of every process of a trial: its folder
GO = r"goroutine \d|panic:|fatal error:|internal error|SIGXFSZ"
MEMORY = r"SIGSEGV|SIGBUS|SIGABRT|Process received signal|Segmentation"
TEMPORARY = ".*.tmp"

# The commands of trials. {stores} has the graphs that all share, {store} is the trial's own, {out} its run.
GAT = ["--model", "gat", "--layers", "3", "--hidden", "64", "--heads", "4", "--norm", "batch"]
TRAIN = ["train", "{stores}/parted", *GAT, "--epochs", "100000", "--out", "{out}"]
PARTITION = ["train", "{store}", *GAT, "--out", "{out}"]
WRITE = ["train", "{stores}/wide", "--model", "sage", "--layers", "1", "--epochs", "1", "--out", "{out}"]
LINES = [
    "train", "{stores}/parted", "--model", "gcn", "--layers", "1", "--hidden", "16", "--epochs", "100000",
    "--out", "{out}",
]  # fmt: skip
TRAINS, WRITES = "out/metrics.jsonl holds 2", "out/.predictions*"

# What the models of trials have besides, by axis: a pipeline's stages have a layer each.
AXES = {"graph": [], "tensor": [], "pipeline": ["--layers", str(RANKS), "--norm", "layer"]}


class LeftOut(Exception):
    """A trial that this machine does not allow."""


@dataclasses.dataclass
class Setting:
    """What all trials share."""

    weft: str
    stores: pathlib.Path
    transport: str
    axis: str
    uninterrupted: dict = dataclasses.field(
        default_factory=dict
    )  # the runs that those of --resume have to equal, by name

    def quiet(self, *arguments):
        subprocess.run([self.weft, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    def run(self, *arguments):
        return subprocess.run([self.weft, *map(str, arguments)], capture_output=True, text=True)


class Trial:
    """weft in one of PLACES, something that befalls it at a random moment, and the rules for that.

    A kind of trial says when it begins (a file that matches a pattern, or holds so many lines, or standard
    output that says a word), up to how many seconds later it strikes, how (strike), and what must follow
    (rules).
    """

    PLACES = ("mpirun", "workers", "one")  # ranks, goroutines of one process, one worker
    kind = ""  # the table's name for it
    begins, spread = "pid.*", 0.0
    deadline, patience = LONG, LONG  # seconds: --comm-timeout, and in which all has ended

    def __init__(self, setting, folder, chance, words, arguments, place="mpirun"):
        self.setting, self.folder, self.words, self.place = setting, folder, words, place
        self.processes = RANKS if place == "mpirun" else 1
        self.wait = chance.random() * self.spread
        self.out, self.store = folder / "out", setting.stores / "whole"
        if "{store}" in arguments:
            self.store = folder / "store"
        self.template = arguments
        self.launcher, self.launcher_status = None, None
        self.statuses = {}
        self.hit = self.took = 0.0

    def __str__(self):
        ranks = " ".join(str(self.statuses.get(r, "-")) for r in range(self.processes))
        return (
            f"{self.kind:<8}{' '.join(self.words):<26}{self.hit:6.1f}s{self.took:7.1f}s  "
            f"{self.launcher_status!s:<6}  {ranks}"
        )

    def run(self):
        """Runs the trial and gives the rules that were broken."""
        self.folder.mkdir()
        try:
            self.prepare()
            started = time.monotonic()
            self.launch()
            if not self.await_moment():
                return [f"the phase was not reached: {self.stderr()}"]
            time.sleep(self.wait)
            self.strike()
            struck = time.monotonic()
            self.hit = struck - started
            if late := self.await_end():
                return [late]
            self.took = time.monotonic() - struck
            left = self.left_over()
        finally:
            self.end()
            self.settle()
        return left + list(self.complaints())

    def prepare(self):
        """Makes what the trial needs before weft starts."""
        if self.store.parent == self.folder:
            shutil.copytree(self.setting.stores / "whole", self.store)
        for r in range(self.processes):
            (self.folder / f"stderr.{r}").touch()

    def strike(self):
        """Does what the trial is about."""
        raise NotImplementedError

    def settle(self):
        """Gives back what the trial has taken, and leaves plain files for the rules."""

    def rules(self):
        """The complaints that are this kind's own."""
        raise NotImplementedError

    def arguments(self):
        arguments = [
            a.format(stores=self.setting.stores, store=self.store, out=self.out, folder=self.folder)
            for a in self.template
        ]
        if arguments[0] == "train":
            arguments += AXES[self.setting.axis]
        if self.place != "one":
            arguments += ["--parallel", f"{self.setting.axis}={RANKS}", "--comm-timeout", f"{self.deadline}s"]
        return arguments

    def launch(self, *options):
        """Starts weft; options are those of mpirun."""
        rank = str(pathlib.Path(__file__).with_name("rank.py"))
        command = [sys.executable, "-B", rank, str(self.folder), self.setting.weft, *self.arguments()]
        if self.place == "mpirun":
            mpirun = ["mpirun", "--oversubscribe", "-n", str(self.processes), *options]
            if os.geteuid() == 0:
                mpirun.append("--allow-run-as-root")
            if self.setting.transport == "tcp":
                mpirun += ["--mca", "btl", "self,tcp"]
            command = mpirun + command
        with open(self.folder / "stdout", "wb") as out, open(self.folder / "stderr", "wb") as err:
            self.launcher = subprocess.Popen(
                command,
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=os.environ | {MARK: str(self.folder)},
            )

    def await_moment(self):
        """Waits until the phase has begun and all processes run. False: it never did."""
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            if self.begun() and len(self.pids()) == self.processes:
                return True
            if self.launcher.poll() is not None:
                return False
            time.sleep(0.005)
        return False

    def begun(self):
        if " says " in self.begins:
            name, word = self.begins.split(" says ")
            return word in (self.folder / name).read_text(errors="replace")
        if " holds " in self.begins:
            name, lines = self.begins.split(" holds ")
            return self.lines(self.folder / name) >= int(lines)
        return any(self.folder.glob(self.begins))

    @staticmethod
    def lines(path):
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def pids(self):
        """The process id of weft in each rank."""
        return {int(f.name[4:]): int(f.read_text()) for f in self.folder.glob("pid.*")}

    def marked(self):
        """All processes of the trial, with their commands."""
        return {
            pid: command
            for pid in filter(str.isdigit, os.listdir("/proc"))
            if f"{MARK}={self.folder}".encode() in proc(pid, "environ").split(b"\0")
            and (command := proc(pid, "cmdline"))
        }

    def await_end(self):
        """Waits for the end of everything. Gives a complaint if it does not come."""
        try:
            self.launcher_status = self.launcher.wait(self.patience)
        except subprocess.TimeoutExpired:
            if running := [pid for pid in self.pids().values() if str(pid) in self.marked()]:
                return f"processes {running} still ran {self.patience} s later"
            self.launcher_status = (
                "hangs"  # alone: Open MPI's does now and then where a rank ends while MPI starts
            )
            self.end()
        if self.launcher_status == -signal.SIGSEGV:
            self.launcher_status = "crashes"  # at its own end, for the same reasons
        self.statuses = {int(f.name[7:]): int(f.read_text()) for f in self.folder.glob("status.*")}
        return None

    def left_over(self):
        limit = time.monotonic() + GRACE
        while (left := self.marked()) and time.monotonic() < limit:
            time.sleep(0.05)
        return [
            f"process {pid} is left over: {command.decode(errors='replace')!r}"
            for pid, command in left.items()
        ]

    def end(self):
        """Ends what a failed trial has left running."""
        for pid in self.marked():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.launcher:
            self.launcher.wait()

    def stderr(self):
        """What each rank has printed on standard error."""
        files = {r: self.folder / f"stderr.{r}" for r in range(self.processes)}
        return {r: f.read_text(errors="replace") if f.exists() else "" for r, f in files.items()}

    def complaints(self):
        text = "".join(self.stderr().values())
        if found := re.search(f"{GO}|{MEMORY}", text) or re.search(
            GO, (self.folder / "stderr").read_text(errors="replace")
        ):
            yield f"a fault: {found.group()}"
        yield from self.left_behind()
        yield from self.rules()

    def killed(self):
        """Whether a rank was killed, by the trial or by a launcher that ends what is left."""
        return len(self.statuses) < self.processes or -signal.SIGKILL in self.statuses.values()

    def launcher_says(self, *statuses):
        """Whether the launcher ends with one of these, or in a way of its own that says nothing of weft."""
        return self.launcher_status in (*statuses, "hangs", "crashes")

    def recorded(self):
        """Whether the run says that it is complete."""
        return (self.out / "run.json").exists()

    def record(self):
        """What run.json holds."""
        return json.loads((self.out / "run.json").read_text())

    def failed(self, *named):
        """The rules of a run that ends by a fault of its own: status 1 of all, no run.json, and one line with
        these words."""
        if not self.launcher_says(1) or any(s != 1 for s in self.statuses.values()):
            yield f"status {self.launcher_status} and {self.statuses}, not 1"
        lines = "".join(self.stderr().values()).splitlines()
        if (
            len(lines) != 1
            or not lines[0].startswith("weft: ")
            or any(str(word) not in lines[0] for word in named)
        ):
            yield f"not one line that names {', '.join(map(str, named))}: {lines}"
        if self.recorded():
            yield "a failed run has its run.json"

    def left_behind(self):
        """Files are there whole or not at all."""
        for path in (
            self.folder / "logits.npy",
            self.folder / "hidden.npy",
            self.out / "predictions.npy",
            self.out / "model.safetensors",
        ):
            if path.exists() and (expected := said_bytes(path)) != path.stat().st_size:
                yield f"{path.name} has {path.stat().st_size} bytes, and its header says {expected}"
        metrics = self.out / "metrics.jsonl"
        if metrics.exists() and (
            cut := [line for line in metrics.read_text().splitlines(keepends=True) if not whole_line(line)]
        ):
            yield f"metrics.jsonl has lines that are not whole: {cut}"
        if not self.killed() and (
            left := [str(p) for folder in (self.folder, self.out) for p in folder.rglob(TEMPORARY)]
        ):
            yield f"temporary files are left: {left}"
        if self.recorded():
            missing = [
                n
                for n in ("run.yaml", "metrics.jsonl", "model.safetensors", "predictions.npy")
                if not (self.out / n).exists()
            ]
            if missing:
                yield f"a run with run.json lacks {missing}"
            elif (epochs := self.lines(metrics)) != (ran := self.record()["summary"]["epochs_run"]):
                yield f"metrics.jsonl has {epochs} epochs, run.json {ran}"
        elif self.out.exists():
            p = self.setting.run("predict", self.out, "--out", self.folder / "none.npy")
            if p.returncode != 2 or "not the directory of a complete run" not in p.stderr:
                yield f"an incomplete run is taken for a finished one: {p.stderr!r}"
        p = self.setting.run("inspect", self.store)
        if p.returncode != 0:
            yield f"the store is damaged: {p.stderr!r}"


def proc(pid, name):
    """A file of a process; nothing where it has ended, or is another user's."""
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def whole_line(line):
    """Whether text is a line of JSON."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return line.endswith("\n")


def said_bytes(path):
    """How many bytes the header of an array, or of a file of weights, says that the file has."""
    with open(path, "rb") as f:
        try:
            if path.suffix == ".npy":
                _, length = struct.unpack("<8sH", f.read(10))
                header = ast.literal_eval(f.read(length).decode())
                return f.tell() + math.prod(header["shape"]) * int(header["descr"][2:])
            header = json.loads(f.read(*struct.unpack("<Q", f.read(8))))
            return f.tell() + max(
                t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"
            )
        except (ValueError, SyntaxError, KeyError, struct.error) as err:
            return f"nothing: {err}"
