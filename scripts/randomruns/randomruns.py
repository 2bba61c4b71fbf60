#!/usr/bin/env python3
"""Random settings of weft train on small random graphs, and what must hold of each run.

Each set is a graph (classes, several labels or values of vertices or edges, or links; one type or two; with
or without weights and features of edges) and flags of weft train. A set that is refused is tried again
without the flag that the refusal names first.

- A refusal is one line, with status 2 and nothing else; no other status but 0 comes.
- What --show-plan says is what the run takes and sends, to the byte: with partitions that take turns, and
  chunks in any order, at least as much memory.
- weft evaluate has the metrics of the run's summary, to the last digit; they are those of predictions.npy,
  computed here by NumPy.
- Each epoch has the metrics, to the bit, of a run with --eval-every 1, whose evaluations have passes of their
  own.
- weft predict writes predictions.npy, on one worker with its bits.
- A run that is broken off and resumed has the bits of one that is not, and on another mesh its next loss, up
  to rounding.

    randomruns.py [--sets N] [--first N] [--seed N] [--weft PROGRAM]

--seed N tries the set N alone. The exit status is 1 if a rule was broken; the set's folder is then kept and
named.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import graphs
import rules
import settings

LONGEST = 120  # seconds of a command


class Trial:
    """A set: its graph, its flags, and the commands on them."""

    def __init__(self, program, seed, folder, count):
        self.program, self.folder, self.count = program, folder, count
        self.chance = random.Random(seed)
        self.line = ""  # of the training

    def weft(self, *arguments):
        return subprocess.run(
            [self.program, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=LONGEST,
            cwd=self.folder,
        )

    def run(self):
        """Runs the set and gives the rules that were broken."""
        task = self.chance.choice(["vertex", "vertex", "edge", "edge", "link"])
        process, graph = graphs.made(self.weft, self.folder, self.chance, task)
        if process.returncode:
            self.line = " ".join(map(str, process.args))
            yield from (
                rules.refusal(process)
                if process.returncode == 2
                else [f"status {process.returncode}: {process.stderr[-600:]}"]
            )
            self.count["graphs refused"] += 1
            return
        flags = graph.flags | settings.drawn(self.chance, task, self.folder)
        while True:
            out = self.folder / "run"
            arguments = ["train", graph.store, *settings.words(flags)]
            self.line = " ".join(map(str, arguments))
            plan = self.weft(*arguments, "--show-plan", "--json")
            process = self.weft(*arguments, "--out", out, "--json", "--quiet")
            if process.returncode == 1 and "not finite" in process.stderr:
                self.count["diverged"] += 1
                return
            if plan.returncode != process.returncode:
                yield (
                    f"--show-plan: status {plan.returncode}, {plan.stderr[-300:]}; the run: "
                    f"{process.returncode}, {process.stderr[-300:]}"
                )
                return
            if process.returncode != 2:
                break
            self.count["refused"] += 1
            if complaints := list(rules.refusal(process)):
                yield from complaints
                return
            named = [
                name
                for name in re.findall(r"--([a-z0-9-]+)", process.stderr)
                if name in flags and name not in ("model", "task", "edge-label")
            ]
            if not named:
                self.count["sets refused"] += 1
                return
            del flags[named[0]]
        if process.returncode:
            yield f"status {process.returncode}: {process.stderr[-900:]}"
            return
        run = json.loads(process.stdout)
        self.count["trained"] += 1
        self.count[f"task {task}"] += 1
        self.count[f"model {flags['model']}"] += 1
        self.count["meshes"] += run["workers"] > 1
        yield from self.checked(graph, flags, json.loads(plan.stdout), run)

    def checked(self, graph, flags, plan, run):
        yield from rules.planned(plan, run, flags)
        process = self.weft("evaluate", self.folder / "run", "--json")
        if process.returncode:
            yield f"evaluate: {process.stderr[-600:]}"
            return
        evaluation = json.loads(process.stdout)
        yield from rules.evaluated(evaluation, run, flags)
        process = self.weft("predict", self.folder / "run", "--out", self.folder / "predicted.npy", "--quiet")
        if process.returncode:
            yield f"predict: {process.stderr[-600:]}"
            return
        if graph.labels:
            yield from rules.computed(graph, self.folder, evaluation, flags)
            yield from rules.predicted(self.folder, run, flags)
        if "eval-every" not in flags:
            yield from rules.read(self, graph, flags)
        if rules.resumes(flags, run):
            yield from rules.continued(self, graph, flags, run)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weft", default="bin/weft", help="the program (default bin/weft)")
    parser.add_argument("--sets", type=int, default=500, help="how many (default 500)")
    parser.add_argument("--first", type=int, default=0, help="number of the first set")
    parser.add_argument("--seed", type=int, help="the only set")
    options = parser.parse_args()
    sets = range(options.first, options.first + options.sets) if options.seed is None else [options.seed]
    program, broken, count = str(pathlib.Path(options.weft).resolve()), [], collections.Counter()
    kept = pathlib.Path(tempfile.mkdtemp(prefix="weft-random-runs-"))
    for seed in sets:
        folder = kept / str(seed)
        folder.mkdir()
        trial = Trial(program, seed, folder, count)
        try:
            complaints = list(trial.run())
        except subprocess.TimeoutExpired as late:
            complaints = [str(late)]
        if complaints:
            broken.append(seed)
            print(
                f"{seed}: weft {trial.line}",
                *(f"  BROKEN: {line}" for line in complaints),
                f"  see {folder}",
                sep="\n",
                flush=True,
            )
        else:
            shutil.rmtree(folder)
        if options.seed is not None:
            print(f"{seed}: weft {trial.line}")
    print(f"{len(sets)} sets:", ", ".join(f"{n} {what}" for what, n in sorted(count.items())))
    if broken:
        print("rules were broken by the sets", *broken)
        return 1
    kept.rmdir()
    print("all rules held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
