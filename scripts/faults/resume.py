"""Runs that faults break off, and that are resumed until they end."""

import contextlib
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import tempfile

from disk import PAGE, SmallDisk
from trial import Trial

EPOCHS = 16
TRAIN = [
    "--layers", "2", "--hidden", "256", "--dropout", "0.3", "--lr", "0.0003", "--threads", "1", "--epochs",
    str(EPOCHS), "--checkpoint-every", "1",
]  # fmt: skip
SAGE, GCN = ["--model", "sage"], ["--model", "gcn"]
MODEL = (
    "epochs_run",
    "best_epoch",
    "losses",
    "train",
    "val",
    "test",
    "val_loss",
    "links",
    "peak_tensor_bytes",
    "graph_bytes",
)  # in run.json
UNINTERRUPTED = "nothing"
MOMENTS = ("before the first", "inside the writing of a checkpoint", "beside it")  # of kills
LARGE = 1 << 28  # bytes, of a disk that does not fill up

REST = os.path.join(tempfile.gettempdir(), "weft-faults-rest")  # where matrices rest

# What a run's workers are, and what it trains: processes (0: one without mpirun) and arguments.
RUNS = {
    "one": (0, SAGE),
    "graph=2": (0, SAGE + ["--parallel", "graph=2"]),
    "graph=3": (0, SAGE + ["--parallel", "graph=3"]),
    "batch norm": (
        0,
        GCN
        + [
            "--norm",
            "batch",
            "--lr",
            "0.03",
            "--schedule",
            "cosine",
            "--eval-every",
            "2",
            "--patience",
            "4",
            "--parallel",
            "graph=2",
        ],
    ),  # ends before the last epoch
    "links": (0, SAGE + ["--task", "link", "--eval-every", "3", "--parallel", "graph=2"]),
    "turns": (0, SAGE + ["--parallel", "graph=2", "--partitions", "5"]),
    "offload": (0, SAGE + ["--norm", "batch", "--partitions", "4", "--offload", REST]),
    "offload cover": (0, SAGE + ["--partitions", "4", "--halo", "cover", "--offload", REST]),
    "mpirun graph=2": (2, SAGE + ["--parallel", "graph=2"]),
    "mpirun tensor=2": (2, SAGE + ["--parallel", "tensor=2"]),
    "mpirun pipeline=2": (2, SAGE + ["--parallel", "pipeline=2", "--chunks", "4"]),
}


class Attempt(Trial):
    """weft begins or resumes a run, and ends it if nothing befalls it."""

    def __init__(self, whole, number):
        processes, arguments = RUNS[whole.name]
        super().__init__(
            whole.setting,
            whole.folder / str(number),
            whole.chance,
            (),
            arguments,
            "mpirun" if processes else "one",
        )
        self.whole, self.number, self.chance = whole, number, random.Random(whole.chance.random())
        self.processes, self.out, self.store = processes or 1, whole.out, whole.store
        self.auto, moment = self.chance.random() < 0.5, self.chance.random()
        # Some come as weft starts, others beside or after an epoch.
        done = self.lines(self.out / "metrics.jsonl")
        self.after = 0 if moment < 0.25 else self.chance.randint(min(done + 1, EPOCHS), EPOCHS)
        self.wait = moment * 0.1

    def arguments(self):
        if (self.out / "state.json").exists() and not self.auto:
            return ["train", "--resume", str(self.out)]
        return ["train", str(self.store), *TRAIN, *self.template, "--out", str(self.out)] + [
            "--resume",
            "auto",
        ] * self.auto

    def prepare(self):
        super().prepare()
        if self.whole.disk:
            self.whole.disk.leave(LARGE)

    def begun(self):
        return super().begun() and self.lines(self.out / "metrics.jsonl") >= self.after

    def launch(self):
        # Open MPI leaves files behind where mpirun is killed.
        super().launch(
            "--mca",
            "orte_tmpdir_base",
            str(self.folder),
            "--mca",
            "btl_vader_backing_directory",
            str(self.folder),
        )

    def await_moment(self):
        return super().await_moment() or self.launcher.poll() is not None

    def strike(self):
        pass

    def send(self, signum, pids):
        for pid in pids:
            try:
                os.kill(pid, signum)
            except ProcessLookupError:
                pass  # it has ended already

    def killed(self):
        self.whole.killed = self.whole.killed or super().killed()
        return self.whole.killed

    def rules(self):
        if not self.launcher_says(*self.expected()) or not set(self.statuses.values()) <= self.expected():
            statuses = f"{self.launcher_status} and {self.statuses}, not of {self.expected()}"
            yield f"status {statuses}: {self.stderr()}"

    def expected(self):
        """The exit statuses that follow."""
        return {0}

    def felt(self):
        """Whether the fault came before the end."""
        return self.launcher_status != 0


class Kill(Attempt):
    """A rank, all ranks or mpirun are killed."""

    def prepare(self):
        super().prepare()
        self.found = self.unfinished()

    def unfinished(self):
        """The checkpoints that are being written, or removed."""
        folder = self.out / "checkpoints"
        return {
            (p.name, p.stat().st_mtime_ns) for p in [*folder.glob(".epoch-*"), *checkpoints(self.out)[:-2]]
        }

    def strike(self):
        ranks = list(self.pids().values())
        victims = [[self.chance.choice(ranks)], ranks]
        if self.place == "mpirun":
            victims.append([self.launcher.pid])
        self.send(signal.SIGKILL, self.chance.choice(victims))

    def settle(self):
        if self.launcher_status == 0:
            return  # it had ended before
        if self.unfinished() - self.found:
            self.whole.kills["inside the writing of a checkpoint"] += 1
        else:
            self.whole.kills["beside it" if checkpoints(self.out) else "before the first"] += 1

    def rules(self):
        if 2 in self.statuses.values():
            yield f"a refusal: {self.stderr()}"


class Torn(Kill):
    """A file of the last checkpoint is damaged after a kill, or another checkpoint is begun."""

    def settle(self):
        super().settle()
        self.whole.torn = None
        if not (whole := checkpoints(self.out)) or self.recorded():
            return
        if self.chance.random() < 0.3:
            into = whole[-1].with_name(f".epoch-{epoch_of(whole[-1]) + 1:09d}.tmp")
            shutil.rmtree(into, ignore_errors=True)
            shutil.copytree(whole[-1], into)
            truncate(self.chance.choice(sorted(into.iterdir())), self.chance)
            return
        path = self.chance.choice(sorted(whole[-1].iterdir()))
        self.chance.choice((truncate, flip, remove))(path, self.chance)
        self.whole.torn = path


class Term(Attempt):
    """A rank or mpirun gets SIGTERM."""

    def strike(self):
        victims = list(self.pids().values())
        if self.place == "mpirun":
            victims.append(self.launcher.pid)
        self.send(signal.SIGTERM, [self.chance.choice(victims)])

    def rules(self):
        statuses = set(self.statuses.values())
        # While the loader looks for libraries, a signal is the system's.
        if 2 in statuses or self.place == "one" and not statuses <= {0, 130, -signal.SIGTERM}:
            yield f"status {self.launcher_status} and {self.statuses}: {self.stderr()}"
        done = self.lines(self.out / "metrics.jsonl")
        if (
            statuses == {130}
            and self.recorded()
            and self.record()["interrupted"]
            and epoch_of(checkpoints(self.out)[-1]) != done
        ):
            yield f"no checkpoint of epoch {done}: {checkpoints(self.out)}"


class Room(Attempt):
    """Too little room. A run may end without a checkpoint."""

    def expected(self):
        return {0, 1}

    def felt(self):
        return super().felt() or "no checkpoint of epoch" in (self.folder / "stderr").read_text()


class Full(Room):
    """The disk fills up."""

    def prepare(self):
        super().prepare()
        self.wait = 0
        self.whole.disk.leave(self.chance.randint(PAGE, sum(sizes(self.whole.like.out))))

    def expected(self):
        """A run whose results have no room is refused before it starts."""
        refused = any("free some room there" in text for text in self.stderr().values())
        return {2} if refused else super().expected()


class Limited(Room):
    """The files of a rank may not grow beyond a size, from a moment after MPI has started."""

    begins = "stdout says needs"

    def strike(self):
        size = self.chance.randint(PAGE, max(sizes(self.whole.like.out)))
        try:
            resource.prlimit(
                self.chance.choice(list(self.pids().values())), resource.RLIMIT_FSIZE, (size, size)
            )
        except ProcessLookupError:
            pass


class Garbled(Attempt):
    """The file in which matrices rest gets other bytes."""

    def strike(self):
        for pid in self.pids().values():
            folder = f"/proc/{pid}/fd"
            with contextlib.suppress(
                FileNotFoundError, ProcessLookupError
            ):  # it has ended, or closed the file
                for file in (os.path.join(folder, name) for name in os.listdir(folder)):
                    if os.readlink(file).startswith(REST + "/"):
                        with open(file, "r+b") as f:
                            f.write(self.chance.randbytes(os.fstat(f.fileno()).st_size))

    def expected(self):
        return {0, 1}

    def rules(self):
        yield from super().rules()
        told = any(
            f"--offload {REST}" in text and "not those that were written" in text
            for text in self.stderr().values()
        )
        if self.launcher_status == 1 and not told:
            yield f"nothing was said of the damage: {self.stderr()}"


FAULTS = {"kill": Kill, "torn": Torn, "term": Term, "disk": Full, "limit": Limited, "garbled": Garbled}


class Resumed:
    """A run that up to three faults befall, one after another, and that is resumed after each."""

    kind = "resume"
    VARIANTS = [
        (fault, name)
        for fault, name in itertools.product(FAULTS, RUNS)
        if fault != "garbled" or name == "offload"
    ]

    def __init__(self, setting, folder, chance, fault, name):
        self.setting, self.folder, self.words, self.name, self.chance = (
            setting,
            folder,
            (fault, name),
            name,
            chance,
        )
        self.out, self.store = folder / "disk" / "run", setting.stores / "resumed"
        others = [f for f in FAULTS if f not in ("disk", "garbled") or f == fault]
        self.faults = (
            [fault, *chance.choices(others, k=chance.randint(0, 2))] if fault != UNINTERRUPTED else []
        )
        self.like = setting.uninterrupted.get(name)
        self.disk, self.torn, self.killed = None, None, False
        self.felt = []  # the faults that came before the end
        self.unprofiled = False  # the process that ended the run trained no epoch
        self.kills = dict.fromkeys(MOMENTS, 0)
        self.took = 0.0

    def __str__(self):
        return f"{self.kind:<8}{self.name:<26}{'':>7}{self.took:7.1f}s  {', '.join(self.faults)}"

    def run(self):
        self.folder.mkdir()
        if "disk" in self.faults:
            self.disk = SmallDisk(self.out.parent, LARGE)
        else:
            self.out.parent.mkdir()
        try:
            return self.attempts()
        finally:
            if self.disk:
                self.disk.replace()

    def attempts(self):
        for number, name in enumerate([*self.faults, UNINTERRUPTED]):
            attempt = FAULTS.get(name, Attempt)(self, number)
            complaints = attempt.run()
            self.took += attempt.hit + attempt.took
            self.felt += [name] if attempt.felt() else []
            self.unprofiled |= f"continues after epoch {EPOCHS} of {EPOCHS}" in (
                attempt.folder / "stdout"
            ).read_text(errors="replace")
            if complaints:
                return [f"attempt {number}: {line}" for line in complaints]
        return [*self.unsaid(attempt), *self.differences()]

    def unsaid(self, last):
        """A damaged checkpoint is told of."""
        if (
            self.faults[-1:] == ["torn"]
            and self.torn
            and "trying the checkpoint before" not in last.stderr()[0]
        ):
            yield f"nothing was said of {self.torn}: {last.stderr()}"

    def differences(self):
        if os.path.exists(REST) and os.listdir(REST):
            yield f"{REST} is not empty"
        if not self.like:
            return
        if (
            status := json.loads(self.setting.run("inspect", self.out, "--json").stdout)["status"]
        ) != "finished":
            yield f"weft inspect says {status}"
        yield from differences(self.out, self.like.out, self.unprofiled)
        # There is none for which there was no room, nor always one of the epoch in which patience runs out.
        last, same = checkpoints(self.out)[-1:], checkpoints(self.like.out)[-1]
        if [p.name for p in last] == [same.name]:
            if tensors(last[0]) != tensors(same):
                yield f"{last[0].name} differs from that of {self.like.out}"
        elif len(epochs(self.out)) == EPOCHS and not {"disk", "limit"} & set(self.faults):
            yield f"the last checkpoint is {last}"


def make_uninterrupted(setting, names):
    """Makes a graph, and runs that nothing befalls."""
    store = setting.stores / "resumed"
    setting.quiet(
        "generate", "sbm", store, "--vertices", 400, "--degree", 8, "--features", 256, "--classes", 8
    )
    for partitions in (2, 3):
        setting.quiet("partition", store, "-k", partitions)
    for name in names:
        run = Resumed(setting, setting.stores / name, random.Random(0), UNINTERRUPTED, name)
        if complaints := run.run():
            raise SystemExit(f"{name}: " + "\n".join(complaints))
        setting.uninterrupted[name] = run


def tally(runs):
    """Lines that count the faults that came before a run's end, by what was run, and the moments of the
    kills."""
    names = [n for n in RUNS if any(r.name == n for r in runs)]
    yield f"{'':<20}" + "".join(f"{f:>8}" for f in FAULTS) + "   trials"
    for name in [*names, "all"]:
        these = [r for r in runs if name in (r.name, "all")]
        yield (
            f"{name:<20}"
            + "".join(f"{sum(r.felt.count(f) for r in these):8}" for f in FAULTS)
            + f"{len(these):9}"
        )
    late = sum(len(r.faults) - len(r.felt) for r in runs)
    kills = {moment: sum(r.kills[moment] for r in runs) for moment in MOMENTS}
    yield f"{late} faults came after the end; {sum(kills.values())} kills: " + ", ".join(
        f"{n} {moment}" for moment, n in kills.items()
    )


def differences(out, like, unprofiled=False):
    """What a run has other than one that nothing befell. Where the process that ended it trained no epoch
    there is no profile."""
    for name in ("predictions.npy", "model.safetensors"):
        if (out / name).read_bytes() != (like / name).read_bytes():
            yield f"{name} differs from that of {like}"
    if (now := epochs(out)) != (then := epochs(like)):
        first = next((i for i, (a, b) in enumerate(zip(now, then)) if a != b), min(len(now), len(then)))
        yield (
            f"metrics.jsonl has {len(now)} lines, not {len(then)}, or line {first + 1} is "
            f"{now[first : first + 1]}, not {then[first : first + 1]}"
        )
    if (now := summary(out)) != (then := summary(like)):
        yield (
            "run.json: "
            f"{[(key, now.get(key), value) for key, value in then.items() if now.get(key) != value]}"
        )
    optional = {"profile.json"} if unprofiled else set()
    if (files := {p.name for p in out.iterdir()} - optional) != (
        others := {p.name for p in like.iterdir()} - optional
    ):
        yield f"files are left, or missing: {sorted(files ^ others)}"
    if len(whole := checkpoints(out)) > 2 or len(list((out / "checkpoints").iterdir())) != len(whole):
        names = sorted(p.name for p in (out / "checkpoints").iterdir())
        yield f"more than two checkpoints, or others: {names}"
    for checkpoint in whole:
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        if {p.name: p.stat().st_size for p in checkpoint.iterdir() if p.name != "manifest.json"} != {
            f["name"]: f["bytes"] for f in manifest["files"]
        }:
            yield f"{checkpoint.name} is not whole"


def epochs(out):
    """The lines of metrics.jsonl, without times."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in line.items() if key not in ("seconds", *timed(out))} for line in lines
    ]


def timed(out):
    """What depends on how fast the disk was, and on when other workers' messages came: memory is given back
    once matrices that leave it are written, and a worker of several partitions keeps messages until their
    turn."""
    varies = re.search("^(offload|partitions):", (out / "run.yaml").read_text(), re.MULTILINE)
    return ("live_bytes", "peak_bytes", "peak_tensor_bytes", "graph_bytes") if varies else ()


def summary(out):
    """What the summary of run.json says of the model. The rest is of the last epoch's work, in which the
    first of a process has more."""
    whole = json.loads((out / "run.json").read_text())["summary"]
    return {key: whole.get(key) for key in MODEL if key not in timed(out)}


def tensors(checkpoint):
    """The bytes of each worker's tensors in a checkpoint. What stands before them holds times."""
    files = {p.name: p.read_bytes() for p in checkpoint.glob("*.safetensors")}
    return {name: text[8 + struct.unpack("<Q", text[:8])[0] :] for name, text in files.items()}


def checkpoints(out):
    """The folders of a run's whole checkpoints, the last one last."""
    return sorted((out / "checkpoints").glob("epoch-*"))


def epoch_of(checkpoint):
    return int(checkpoint.name.removeprefix("epoch-"))


def sizes(out):
    return [p.stat().st_size for p in out.rglob("*") if p.is_file()]


def truncate(path, chance):
    os.truncate(path, chance.randrange(path.stat().st_size))


def flip(path, chance):
    """Flips a bit."""
    text = bytearray(path.read_bytes())
    text[chance.randrange(len(text))] ^= 1 << chance.randrange(8)
    path.write_bytes(text)


def remove(path, _):
    path.unlink()
