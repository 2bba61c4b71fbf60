#!/usr/bin/env python3
"""Faults of single ranks, and what becomes of the others.

Each trial starts weft on four ranks under mpirun, sends a signal to one rank (or to mpirun) at a random moment of a phase, and
holds what follows against the rules:

- every rank ends, in time, and none is left over;
- a rank that stops (SIGSTOP) gives the others an error at their deadline that names rank, peer and operation, and in an epoch the
  epoch and the layer;
- a rank that dies (SIGKILL) ends the run: the launcher ends the others, which say what they waited for;
- SIGTERM and SIGINT end a run in order: status 130, with the results so far where there are any;
- a run directory with run.json is complete, and one without it is refused by weft predict; what predict and partition write is there
  whole or not at all;
- no trace of Go, no fault of memory.

    faults.py [--trials N] [--seed S] [--only WORD] [--transport tcp] [--weft PROGRAM]

The exit status is 1 if a rule was broken; the trial's folder is then kept and named. Standard library only. Open MPI's mpirun.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RANKS = 4
WIDE = 512  # classes, where the predictions are to be large
DEADLINE = 4  # seconds, --comm-timeout
GRACE = 8  # seconds beyond the deadline in which a launcher has ended everything, on a busy machine
BROKEN = re.compile(rb"goroutine \d|SIGSEGV|SIGBUS|SIGABRT|panic:|fatal error:|internal error|Process received signal|Segmentation")
TIMEOUT = re.compile(r"^weft: rank (\d): (.+), peer rank (\d)(, epoch \d+)?(, layer [\w.]+)?: no answer in time \(", re.M)
START = re.compile(r"^weft: rank (\d): start of MPI: no answer in time \(", re.M)
SAID = re.compile(r'^weft: rank \d: (signal "terminated" during (the start of MPI|.+, peer rank \d)|interrupted|.+: no answer in time)', re.M)


def main():
    if sys.argv[1:2] == ["--rank"]:
        return rank(pathlib.Path(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weft", default="bin/weft", help="the program (default bin/weft)")
    parser.add_argument("--trials", type=int, default=28)
    parser.add_argument("--seed", type=int, default=1, help="of the random moments and ranks")
    parser.add_argument("--only", default="", help="only trials whose phase or signal is this word")
    parser.add_argument("--transport", choices=["default", "tcp"], default="default", help="tcp: as between machines")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-faults-"))
    weft = str(pathlib.Path(options.weft).resolve())
    stores = make_stores(weft, folder)
    print(f"{'trial':<6}{'phase':<11}{'signal':<8}{'to':<9}{'at':>7}{'end':>8}  status  ranks", flush=True)
    broken = 0
    chance = random.Random(options.seed)
    for number, (phase, name, to_launcher) in enumerate(plan(options)):
        trial = Trial(weft, folder / str(number), stores, phase, name, to_launcher, chance, options.transport)
        complaints = trial.run()
        print(f"{number:<6}{trial}", flush=True)
        for line in complaints:
            print(f"      BROKEN: {line}; see {trial.folder}", flush=True)
        broken += bool(complaints)
        if not complaints:
            shutil.rmtree(trial.folder)
    if broken:
        print(f"{broken} trials broke a rule")
        return 1
    shutil.rmtree(folder)
    print("all rules held")
    return 0


def plan(options):
    """The trials: each phase with each signal, training more often, until there are enough."""
    rounds = [(phase, name, False) for name in ("STOP", "KILL", "TERM", "INT") for phase in PHASES]
    rounds += [("train", name, False) for name in ("STOP", "KILL", "STOP", "KILL")]
    rounds += [("train", name, True) for name in ("INT", "TERM", "USR1")] + [("start", "INT", True)]
    chosen = [t for t in rounds if options.only in ("", t[0], t[1])]
    return [chosen[i % len(chosen)] for i in range(options.trials if chosen else 0)]


def make_stores(weft, folder):
    """A graph whose partitions are stored, the same without, and one with large predictions; and a run to predict with."""
    for name in ("whole", "parted"):
        quiet(weft, "generate", "sbm", str(folder / name), "--vertices", "40000", "--degree", "20", "--features", "32",
              "--classes", "64")
    quiet(weft, "partition", str(folder / "parted"), "-k", str(RANKS))
    quiet(weft, "generate", "sbm", str(folder / "wide"), "--vertices", "100000", "--degree", "2", "--features", "4", "--classes", str(WIDE))
    quiet(weft, "partition", str(folder / "wide"), "-k", str(RANKS), "--method", "random")
    quiet(weft, "train", str(folder / "parted"), "--model", "gat", "--layers", "3", "--hidden", "64", "--heads", "4", "--norm", "batch",
          "--epochs", "1", "--out", str(folder / "trained"))
    return folder


def quiet(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


MODEL = ["--model", "gat", "--layers", "3", "--hidden", "64", "--heads", "4", "--norm", "batch"]
TRAIN = ["train", "{stores}/parted", *MODEL, "--out", "{out}", "--json"]

# What runs in each phase (a third of an epoch's time is evaluation), and the moment: when a file matches the pattern (or at once, for an empty one), and up to so many
# seconds later.
PHASES = {
    "start": (TRAIN + ["--epochs", "100000"], "pid.*", 0.3),
    "set-up": (TRAIN + ["--epochs", "100000"], "pid.*", 1.5),
    "partition": (["train", "{store}", *MODEL, "--epochs", "100000", "--out", "{out}"], "stdout said dividing", 0.4),
    "train": (TRAIN + ["--epochs", "100000"], "out/metrics.jsonl holds 2", 3),
    "write": (["train", "{stores}/wide", "--model", "sage", "--layers", "1", "--epochs", "1", "--out", "{out}"], "out/.predictions*", 0.3),
    "predict": (["predict", "{stores}/trained", "{stores}/parted", "--out", "{folder}/logits.npy", "--embeddings", "{folder}/hidden.npy"],
                "pid.*", 1),
}


class Trial:
    def __init__(self, weft, folder, stores, phase, name, to_launcher, chance, transport):
        self.weft, self.folder, self.stores, self.phase, self.name = weft, folder, stores, phase, name
        self.to_launcher, self.transport = to_launcher, transport
        arguments, self.begins, spread = PHASES[phase]
        self.victim, self.wait = chance.randrange(RANKS), chance.random() * spread
        self.out = folder / "out"
        folder.mkdir()
        store = stores / "whole"
        if phase == "partition":
            store = folder / "store"
            shutil.copytree(stores / "whole", store)
        self.arguments = [a.format(stores=stores, store=store, out=self.out, folder=folder) for a in arguments]
        self.arguments += ["--parallel", f"graph={RANKS}", "--comm-timeout", f"{DEADLINE}s"]
        self.store = store
        self.hit = self.took = 0.0
        self.launcher_status = None
        self.statuses = {}

    def __str__(self):
        to = "mpirun" if self.to_launcher else f"rank {self.victim}"
        ranks = " ".join(str(self.statuses.get(r, "-")) for r in range(RANKS))
        return f"{self.phase:<11}{self.name:<8}{to:<9}{self.hit:6.1f}s{self.took:7.1f}s  {self.launcher_status!s:<6}  {ranks}"

    def run(self):
        """Runs the trial and gives the rules that were broken."""
        command = ["mpirun", "--oversubscribe", "-n", str(RANKS)]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        if self.to_launcher:  # by default it kills the ranks a second after it has passed the signal on, in the middle of an epoch
            command += ["--mca", "odls_base_sigkill_timeout", "5"]
        if self.transport == "tcp":
            command += ["--mca", "btl", "self,tcp"]
        command += [sys.executable, os.path.abspath(__file__), "--rank", str(self.folder), self.weft, *self.arguments]
        with open(self.folder / "stdout", "wb") as out, open(self.folder / "stderr", "wb") as err:
            launcher = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
        start = time.monotonic()
        if not self.await_moment(launcher):
            self.end(launcher)
            return ["the phase was not reached"]
        time.sleep(self.wait)
        pids = self.pids()
        victim = launcher.pid if self.to_launcher else pids[self.victim]
        self.hit = time.monotonic() - start
        try:
            os.kill(victim, getattr(signal, "SIG" + self.name))
        except ProcessLookupError:
            pass  # it has ended already: the rules hold all the same
        hit = time.monotonic()
        try:
            self.launcher_status = launcher.wait(DEADLINE + GRACE)
        except subprocess.TimeoutExpired:
            running = [pid for pid in pids.values() if alive(pid)]
            self.end(launcher)
            if running:
                return [f"processes {running} still ran {DEADLINE + GRACE} s later"]
            self.launcher_status = "hangs"  # alone: Open MPI's does now and then where a rank ends while MPI starts
        self.took = time.monotonic() - hit
        self.statuses = {int(f.name[7:]): int(f.read_text()) for f in self.folder.glob("status.*") if f.read_text()}
        return list(self.complaints(pids))

    def await_moment(self, launcher):
        """Waits until the phase has begun and the victim runs. False: it never did."""
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            if self.begun() and len(self.pids()) == RANKS:
                return True
            if launcher.poll() is not None:
                return False
            time.sleep(0.005)
        return False

    def begun(self):
        if " said " in self.begins:
            _, word = self.begins.split(" said ")
            return any(word in f.read_text(errors="replace") for f in self.folder.glob("std*"))
        if " holds " in self.begins:
            name, lines = self.begins.split(" holds ")
            path = self.folder / name
            return path.exists() and path.read_bytes().count(b"\n") >= int(lines)
        return any(self.folder.glob(self.begins))

    def pids(self):
        return {int(f.name[4:]): int(f.read_text()) for f in self.folder.glob("pid.*")}

    def end(self, launcher):
        """Ends what a failed trial has left running."""
        for pid in [*self.pids().values(), launcher.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        launcher.wait()

    def complaints(self, pids):
        said = {r: (self.folder / f"stderr.{r}").read_bytes() for r in range(RANKS)}
        everything = b"".join(said.values()) + (self.folder / "stderr").read_bytes()
        if found := BROKEN.search(everything):
            yield f"a fault: {found.group().decode()}"
        time.sleep(0.1)
        if left := [pid for pid in pids.values() if alive(pid)]:
            yield f"processes {left} are left over"
        # Where all was done before the signal came to bear, the results are complete and the status is 0.
        done = self.launcher_status == 0 and all(s == 0 for s in self.statuses.values())
        if done and not self.completed():
            yield "status 0 without complete results"
        if not done and (self.launcher_status == 0 or 0 in self.statuses.values() and not self.completed()):
            yield f"status 0 of mpirun, or of a rank without complete results: {self.launcher_status}, {self.statuses}"
        yield from self.left_behind()
        if not done:
            yield from self.named({r: text.decode(errors="replace") for r, text in said.items()})

    def named(self, said):
        """What the ranks must have said."""
        others = {r: text for r, text in said.items() if r != self.victim}
        if self.name == "STOP":
            errors = [m for text in others.values() for m in TIMEOUT.finditer(text)]
            if not any(int(m[3]) == self.victim for m in errors) and not any(START.search(t) for t in others.values()):
                yield f"no rank names rank {self.victim} as the one it waited for"
            if self.phase == "train" and not all(m[4] and m[5] for m in errors):
                yield "an error without epoch and layer"
            for r, text in others.items():
                if not SAID.search(text):
                    yield f"rank {r} says nothing of what it waited for: {text!r}"
        if self.name == "KILL" and self.phase == "train":
            for r, text in others.items():
                if not SAID.search(text):
                    yield f"rank {r} says nothing of what it waited for: {text!r}"
        if self.name in ("TERM", "INT", "USR1") and self.phase == "train":
            if any(s != 130 for s in self.statuses.values()) or len(self.statuses) < RANKS:
                yield f"ranks end with {self.statuses}, not all with 130"
            if not self.completed():
                yield "the results so far were not kept"
            if "interrupted after epoch" not in said[0]:
                yield f"rank 0 does not say that the results are kept: {said[0]!r}"

    def completed(self):
        if self.phase == "predict":
            return (self.folder / "logits.npy").exists()
        return (self.out / "run.json").exists()

    def left_behind(self):
        """Files are there whole or not at all."""
        values = 100000 * WIDE if self.phase == "write" else 40000 * 64  # also the hidden layer has 64 columns
        for path in (self.folder / "logits.npy", self.folder / "hidden.npy", self.out / "predictions.npy"):
            if path.exists() and path.stat().st_size != 128 + 4 * values:
                yield f"{path.name} has {path.stat().st_size} bytes"
        if (self.out / "run.json").exists():
            run = json.loads((self.out / "run.json").read_text())
            missing = [n for n in ("run.yaml", "metrics.jsonl", "model.safetensors", "predictions.npy") if not (self.out / n).exists()]
            if missing:
                yield f"a run with run.json lacks {missing}"
            epochs = (self.out / "metrics.jsonl").read_bytes().count(b"\n")
            if epochs != run["summary"]["epochs_run"]:
                yield f"metrics.jsonl has {epochs} epochs, run.json {run['summary']['epochs_run']}"
            # A rank that is killed once run.json is there leaves a complete run, whatever the launcher says of it.
            if self.name not in ("KILL", "STOP") and run["interrupted"] != (self.launcher_status != 0):
                yield f"run.json says interrupted: {run['interrupted']}, mpirun's status is {self.launcher_status}"
        elif self.out.exists():
            p = subprocess.run([self.weft, "predict", str(self.out), "--out", str(self.folder / "none.npy")], capture_output=True, text=True)
            if p.returncode != 2 or "not the directory of a complete run" not in p.stderr:
                yield f"an incomplete run is taken for a finished one: {p.stderr!r}"
        p = subprocess.run([self.weft, "inspect", str(self.store)], capture_output=True, text=True)
        if p.returncode != 0:
            yield f"the store is damaged: {p.stderr!r}"


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def rank(folder, command):
    """One rank: runs weft, and notes its process id, what it prints as an error, and its exit status. Signals are weft's."""
    number = os.environ["OMPI_COMM_WORLD_RANK"]
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCONT):
        signal.signal(s, lambda *_: None)  # not SIG_IGN, which weft would inherit
    with open(folder / f"stderr.{number}", "wb") as err:
        child = subprocess.Popen(command, stderr=err)
    note(folder / f"pid.{number}", child.pid)
    status = child.wait()
    note(folder / f"status.{number}", status)
    return status if status >= 0 else 128 - status


def note(path, number):
    path.with_name("." + path.name).write_text(str(number))
    path.with_name("." + path.name).rename(path)


if __name__ == "__main__":
    sys.exit(main())
