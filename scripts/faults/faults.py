#!/usr/bin/env python3
"""Faults of single ranks and of what surrounds a run, and what becomes of it.

Each trial starts weft, on four ranks under mpirun or in one process with four workers or one; something
befalls it at a random moment; and what follows is held against rules. For all of them:

- every process ends, in time, and none is left over;
- a run directory with run.json is complete, and one without it is refused by weft predict; weights,
  predictions, each line of metrics.jsonl, and what predict and partition write, are there whole or not at
  all;
- a temporary file stays only where a rank was killed;
- no trace of Go, no fault of memory.

signal: one rank, or mpirun, gets a signal in some phase.

- a rank that stops (SIGSTOP) gives the others an error at their deadline that names rank, peer and operation,
  and in an epoch the epoch and the layer;
- a rank that dies (SIGKILL) ends the run: the launcher ends the others, which say what they waited for;
- SIGTERM and SIGINT end a run in order: status 130, with the results so far where there are any;
- the weights are there before the predictions are begun.

disk, limit: the run's disk is full, or its files may not grow (of rank 0), when predictions, weights or an
epoch's line are written.

- status 1, one line that names the folder, and no run.json;
- the weights are there and load, if there was room for them.

folder: the run's folder is removed or renamed, or another takes its place.

- status 1 after the next epoch, with one line that names the folder; nothing is made in its place.

reader: the reader of standard output, standard error or both leaves.

- the results are there; status 0, or 1 where an object of --json may not have arrived;
- where mpirun's own reader leaves, Open MPI ends the ranks by SIGTERM, which keep the results so far.

metis: the child that runs METIS is stopped or dies.

- it ends within the deadline of the ranks: status 1, and one line that names METIS.

resume (instead of all of these with --resume): one process or mpirun's ranks write a checkpoint after each
epoch, and are killed, are killed and leave a damaged checkpoint, get SIGTERM, lack room, or find other bytes
in the file where matrices rest, up to three times, and the run is resumed each time.

- the run is never refused; one without state.json is begun again by the same command;
- in the end losses, metrics.jsonl, weights, predictions and the last checkpoint are those of a run that
  nothing befell, bit by bit;
- no files but those of a run directory, with two checkpoints, are left;
- a checkpoint that was damaged is told of, and so is a file where matrices rest; SIGTERM leaves a checkpoint
  of the last epoch.

append (instead of all of these with --append): weft append gets SIGKILL or SIGTERM, or its files may not
grow, and is run again.

- the store is the old version or the new one, byte by byte, and weft inspect accepts it;
- SIGTERM (status 130) and a full disk (status 1, one line) leave the old version, and nothing beside it;
- the same command completes what was not done, removes what was left, and is refused where it was done.

damage (instead of all of these with --damage): each file of a run's folder is removed, emptied, cut, filled
with rubbish, made a folder or unreadable, while a new run goes on, while it is resumed, and between the two.

- the run ends with the results of one that nothing befell, or says in a line what is damaged; it continues
  when that is mended;
- no epoch before the last whole checkpoint is made again, and no folder is removed.

    faults.py [--resume|--append|--damage] [--trials N] [--first N] [--seed S] [--only WORD] [--axis
    tensor|pipeline] [--transport tcp] [--weft PROGRAM]

The exit status is 1 if a rule was broken; the trial's folder is then kept and named. Each trial draws its
moments from --seed and its number, so that --first N --trials 1 repeats it, as far as the machine is as fast.
What this machine does not allow (a disk of a small size is a mount) is left out, and counted so. Standard
library only. Open MPI's mpirun.
"""

import argparse
import itertools
import pathlib
import random
import shutil
import sys
import tempfile

import appends
import damage
from resume import Resumed, make_uninterrupted, tally
from signals import Signal
from surroundings import Disk, Folder, Limit, Metis, Reader
from trial import AXES, GAT, LINES, RANKS, WRITE, LeftOut, Setting

WIDE = 512  # classes, where the predictions are to be large


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weft", default="bin/weft", help="the program (default bin/weft)")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--resume", action="store_true", help="runs that are broken off and resumed")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments and ranks")
    parser.add_argument(
        "--only", default="", help="only trials of this kind, such as disk, or with this word, such as KILL"
    )
    parser.add_argument(
        "--axis", choices=list(AXES), default="graph", help="along which four workers divide the work"
    )
    parser.add_argument(
        "--transport", choices=["default", "tcp"], default="default", help="tcp: as between machines"
    )
    parser.add_argument("--append", action="store_true", help="appends that are broken off and run again")
    parser.add_argument("--damage", action="store_true", help="runs whose folder is damaged")
    options = parser.parse_args()
    if options.resume and options.axis != "graph":
        parser.error("--resume takes runs along all axes: leave out --axis")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-faults-"))
    setting = Setting(
        str(pathlib.Path(options.weft).resolve()), folder / "stores", options.transport, options.axis
    )
    if options.append:
        return appends.main(setting, options, folder)
    if options.damage:
        return damage.main(setting, options, folder)
    setting.stores.mkdir()
    trials = plan(options)
    if options.resume:
        make_uninterrupted(setting, dict.fromkeys(name for _, (_, name) in trials))
    else:
        make_stores(setting)
    print(f"{'trial':<6}{'kind':<8}{'what, where':<26}{'at':>7}{'end':>8}  status  ranks", flush=True)
    broken = left_out = 0
    tried = []
    for number, (kind, variant) in enumerate(trials, options.first):
        trial = kind(setting, folder / str(number), random.Random(f"{options.seed} {number}"), *variant)
        try:
            complaints = trial.run()
        except LeftOut as reason:
            print(f"{number:<6}{trial.kind:<8}{' '.join(trial.words):<26}left out: {reason}", flush=True)
            left_out += 1
            continue
        tried.append(trial)
        print(f"{number:<6}{trial}", flush=True)
        for line in complaints:
            print(f"      BROKEN: {line}; see {trial.folder}", flush=True)
        broken += bool(complaints)
        if complaints:
            print(f"      repeat it: the same command with --first {number} --trials 1", flush=True)
        else:
            shutil.rmtree(trial.folder)
    if options.resume:
        print(*tally(tried), sep="\n")
    if left_out:
        print(f"{left_out} trials were left out")
    if broken:
        print(f"{broken} trials broke a rule")
        return 1
    shutil.rmtree(folder)
    print("all rules held" if left_out < options.trials else "nothing was tried")
    return 0


def plan(options):
    """The trials: every second one a signal, the other kinds in turn, each kind's variants in turn, until
    there are enough."""
    kinds = (
        [Resumed]
        if options.resume
        else [kind for other in (Disk, Folder, Reader, Metis, Limit) for kind in (Signal, other)]
    )
    left_out = {"graph": (), "tensor": (Metis.kind, "partition"), "pipeline": ("partition",)}[
        options.axis
    ]  # where METIS does not run
    variants = {
        kind: [
            v
            for v in kind.VARIANTS
            if options.only in ("", kind.kind, *" ".join(v).split()) and not {kind.kind, *v} & set(left_out)
        ]
        for kind in kinds
    }
    endless = {kind: itertools.cycle(chosen) for kind, chosen in variants.items() if chosen}
    turns = itertools.cycle([kind for kind in kinds if kind in endless])
    return [(kind, next(endless[kind])) for kind in itertools.islice(turns, options.first + options.trials)][
        options.first :
    ]


def make_stores(setting):
    """A graph whose partitions are stored, the same without, and one with large predictions; a run to predict
    with; and runs of the commands that lack room, which say how large their weights are."""
    stores, quiet = setting.stores, setting.quiet
    for name in ("whole", "parted"):
        quiet(
            "generate",
            "sbm",
            stores / name,
            "--vertices",
            40000,
            "--degree",
            20,
            "--features",
            32,
            "--classes",
            64,
        )
    quiet("partition", stores / "parted", "-k", RANKS)
    quiet(
        "generate",
        "sbm",
        stores / "wide",
        "--vertices",
        100000,
        "--degree",
        2,
        "--features",
        4,
        "--classes",
        WIDE,
    )
    quiet("partition", stores / "wide", "-k", RANKS, "--method", "random")
    quiet("train", stores / "parted", *GAT, *AXES[setting.axis], "--epochs", 1, "--out", stores / "trained")
    for name, command in (("wrote", WRITE), ("lines", LINES)):
        quiet(
            *(a.format(stores=stores, out=stores / name) for a in command), *AXES[setting.axis], "--epochs", 1
        )
        (stores / name / "predictions.npy").unlink()


if __name__ == "__main__":
    sys.exit(main())
