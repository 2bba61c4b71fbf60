"""Signals to single ranks, or to mpirun."""

import os
import re
import signal

from trial import GRACE, PARTITION, RANKS, SHORT, TRAIN, TRAINS, WRITE, WRITES, Trial

TIMEOUT = re.compile(
    r"^weft: rank (\d): (.+), peer rank (\d)(, epoch \d+)?(, layer [\w.]+)?: no answer in time \(", re.M
)
START = re.compile(r"^weft: rank (\d): start of MPI: no answer in time \(", re.M)
SAID = re.compile(
    r'^weft: rank \d: (signal "terminated" during (the start of MPI|.+, peer rank \d)'
    r"|interrupted|.+: no answer in time)",
    re.M,
)

# What runs in each phase (a third of an epoch's time is evaluation), its moment, and up to how many seconds
# later the signal comes.
PHASES = {
    "start": (TRAIN + ["--json"], "pid.*", 0.3),
    "set-up": (TRAIN + ["--json"], "pid.*", 1.5),
    "partition": (PARTITION + ["--epochs", "100000"], "stdout says dividing", 0.4),
    "train": (TRAIN + ["--json"], TRAINS, 3),
    "write": (WRITE, WRITES, 0.3),
    "predict": (
        [
            "predict",
            "{stores}/trained",
            "{stores}/parted",
            "--out",
            "{folder}/logits.npy",
            "--embeddings",
            "{folder}/hidden.npy",
        ],
        "pid.*",
        1,
    ),
}


class Signal(Trial):
    kind = "signal"
    deadline, patience = SHORT, SHORT + GRACE
    VARIANTS = [
        *((phase, name, "rank") for name in ("STOP", "KILL", "TERM", "INT") for phase in PHASES),
        *(("train", name, "rank") for name in ("STOP", "KILL", "STOP", "KILL")),
        *(("train", name, "mpirun") for name in ("INT", "TERM", "USR1")),
        ("start", "INT", "mpirun"),
    ]

    def __init__(self, setting, folder, chance, phase, name, to):
        arguments, self.begins, self.spread = PHASES[phase]
        super().__init__(setting, folder, chance, (phase, name, to), arguments)
        self.phase, self.name, self.to_launcher = phase, name, to == "mpirun"
        self.victim, self.late = chance.randrange(RANKS), False
        if not self.to_launcher:
            self.words = (phase, name, f"rank {self.victim}")

    def launch(self):
        # By default mpirun kills the ranks a second after it has passed a signal on, in the middle of an
        # epoch.
        super().launch(*(("--mca", "odls_base_sigkill_timeout", "5") if self.to_launcher else ()))

    def strike(self):
        victim = self.launcher.pid if self.to_launcher else self.pids()[self.victim]
        try:
            os.kill(victim, getattr(signal, "SIG" + self.name))
        except ProcessLookupError:
            pass  # it has ended already: the rules hold all the same

    def await_end(self):
        complaint = super().await_end()
        others = [self.folder / f"status.{r}" for r in range(RANKS) if r != self.victim]
        if (
            complaint
            and self.name == "STOP"
            and self.completed()
            and all(f.exists() and f.read_text() == "0" for f in others)
        ):
            # It stopped after its last message: the others have ended, and the launcher alone waits for it.
            self.late = True
            os.kill(self.pids()[self.victim], signal.SIGCONT)
            complaint = super().await_end()
        return complaint

    def completed(self):
        return (self.folder / "logits.npy").exists() if self.phase == "predict" else self.recorded()

    def rules(self):
        # Where all was done before the signal came to bear, the results are complete and the status is 0.
        done = self.late or self.launcher_status == 0 and all(s == 0 for s in self.statuses.values())
        if self.phase == "write" and not (self.out / "model.safetensors").exists():
            yield "the predictions were begun before the weights were written"
        # A signal that comes once the results are written may still end the ranks by 130: then nothing was
        # interrupted.
        if self.recorded() and self.record()["interrupted"] == (self.phase == "write"):
            yield f"run.json says interrupted: {self.record()['interrupted']}"
        if done:
            if not self.completed():
                yield "status 0 without complete results"
            return
        if self.launcher_status == 0 or 0 in self.statuses.values() and not self.completed():
            yield (
                f"status 0 of mpirun, or of a rank without complete results: {self.launcher_status}, "
                f"{self.statuses}"
            )
        yield from getattr(self, "rules_of_" + self.name, self.rules_of_interrupts)(self.stderr())

    def rules_of_STOP(self, stderr):
        others = {r: text for r, text in stderr.items() if r != self.victim}
        errors = [m for text in others.values() for m in TIMEOUT.finditer(text)]
        if not any(int(m[3]) == self.victim for m in errors) and not any(
            START.search(t) for t in others.values()
        ):
            yield f"no rank names rank {self.victim} as the one it waited for"
        # The stages of a pipeline come to the end of an epoch one after another, where no layer is at work.
        if self.phase == "train" and not all(
            m[4] and (m[5] or m[2].endswith("of statistics")) for m in errors
        ):
            yield "an error without epoch and layer"
        yield from self.waits(others)

    def rules_of_KILL(self, stderr):
        if self.phase == "train":
            yield from self.waits({r: text for r, text in stderr.items() if r != self.victim})

    def rules_of_interrupts(self, stderr):
        if self.phase != "train":
            return
        if any(s != 130 for s in self.statuses.values()) or len(self.statuses) < RANKS:
            yield f"ranks end with {self.statuses}, not all with 130"
        if not self.completed():
            yield "the results so far were not kept"
        if "interrupted after epoch" not in stderr[0]:
            yield f"rank 0 does not say that the results are kept: {stderr[0]!r}"

    @staticmethod
    def waits(stderr):
        for r, text in stderr.items():
            if not SAID.search(text):
                yield f"rank {r} says nothing of what it waited for: {text!r}"
