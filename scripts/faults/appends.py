"""Appends to a store that a signal ends at a random moment, or that lack room, and that are run again."""

import hashlib
import random
import re
import resource
import shutil
import signal
import subprocess
import time

from trial import GO, MEMORY

VERTICES, EDGES, SHARE = 40000, 400000, 100  # one of so many vertices is new
FAULTS = [signal.SIGKILL] * 8 + [signal.SIGTERM, "limit"]
LONG = 60  # seconds


def tables(folder, chance):
    """A table and a list of edges, and those that are appended to them."""
    old = VERTICES - VERTICES // SHARE
    for name, first, last in (("old", 0, old), ("new", old, VERTICES)):
        rows = (
            f"C{v},{chance.random():.4f},{chance.choice('xyz')},{chance.choice('ab')}\n"
            for v in range(first, last)
        )
        (folder / f"{name}.csv").write_text("id,size,city,kind\n" + "".join(rows))
    for name, count, most in (("old-edges", EDGES, old), ("new-edges", EDGES // SHARE, VERTICES)):
        edges = (f"C{chance.randrange(most)},C{chance.randrange(most)}\n" for _ in range(count))
        (folder / f"{name}.csv").write_text("source,target\n" + "".join(edges))


def contents(store):
    """The bytes of a store's files but for checked.json, which has their times."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).digest()
        for path in store.iterdir()
        if path.name != "checked.json"
    }


class Append:
    """One append, and the rules for what becomes of it."""

    def __init__(self, setting, folder, chance, old, new, takes):
        self.setting, self.folder, self.store, self.old, self.new = (
            setting,
            folder,
            folder / "store",
            old,
            new,
        )
        self.fault, self.complete = chance.choice(FAULTS), chance.random() < 0.5
        # Some come while the new version is written, others when it is complete and about to be exchanged.
        self.moment = chance.uniform(0, 0.01 if self.complete else 1.1 * takes)
        self.room = chance.randint(0, 4 * EDGES)  # bytes that a file may have, of the largest's 4 * EDGES
        self.complaints = []

    def start(self, before=None):
        tables = [self.folder.parent / f"{name}.csv" for name in ("new", "new-edges")]
        return subprocess.Popen(
            [
                self.setting.weft,
                "append",
                str(self.store),
                "--add-vertices",
                tables[0],
                "--add-edges",
                tables[1],
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=before,
        )

    def hold(self, rule, holds):
        if not holds:
            self.complaints.append(rule)

    def limit(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.room, self.room))

    def run(self):
        process = self.start(self.limit if self.fault == "limit" else None)
        if self.fault != "limit":
            while self.complete and process.poll() is None and not list(self.folder.glob(".store.*.tmp/new")):
                pass
            time.sleep(self.moment)
            process.send_signal(self.fault)
        _, stderr = process.communicate(timeout=LONG)
        now, left = contents(self.store), sorted(p.name for p in self.folder.iterdir())
        self.became = "new" if now == self.new else "old" if now == self.old else "neither"
        self.hold("the store is the old version or the new one", self.became != "neither")
        self.hold("no trace of Go, no fault of memory", not re.search(f"{GO}|{MEMORY}", stderr))
        checked = self.setting.run("inspect", self.store)
        self.hold("weft inspect accepts the store", checked.returncode == 0 and "passed" in checked.stdout)
        if self.fault == "limit":
            self.hold(
                f"status 1 and one line that says the store stays: {stderr!r}",
                process.returncode == 1
                and stderr.count("\n") == 1
                and "stays as it was" in stderr
                and self.became == "old",
            )
        elif process.returncode > 0:
            self.hold(
                f"status 130 of a signal, and the old version: {stderr!r}",
                process.returncode == 130 and self.became == "old",
            )
        if process.returncode >= 0:
            self.hold(f"nothing is left beside the store: {left}", left == ["store"])
        again = self.start()
        _, stderr = again.communicate(timeout=LONG)
        self.hold(
            f"the same command completes it, or says that it is done: {stderr!r}",
            again.returncode == 0
            if self.became == "old"
            else again.returncode == 2 and "the graph has a vertex" in stderr,
        )
        left = [p.name for p in self.folder.iterdir()]
        self.hold(
            f"the store is the new version then, and alone: {left}",
            contents(self.store) == self.new and left == ["store"],
        )
        return self.complaints


def main(setting, options, folder):
    """Runs the trials, and returns the exit status."""
    tables(folder, random.Random(options.seed))
    old, new, columns = (
        folder / "old",
        folder / "new",
        ["--vertices-from", folder / "old.csv", "--label", "kind"],
    )
    setting.quiet("import", "edges", folder / "old-edges.csv", old, *columns)
    begun = time.monotonic()
    setting.quiet(
        "append",
        old,
        "--add-vertices",
        folder / "new.csv",
        "--add-edges",
        folder / "new-edges.csv",
        "--out",
        new,
    )
    takes, became, broken = time.monotonic() - begun, {"old": 0, "new": 0, "neither": 0}, 0
    for number in range(options.first, options.first + options.trials):
        at = folder / str(number)
        shutil.copytree(old, at / "store")
        trial = Append(
            setting, at, random.Random(f"{options.seed} {number}"), contents(old), contents(new), takes
        )
        complaints = trial.run()
        became[trial.became] += 1
        when = "complete" if trial.complete else "writing"
        print(
            f"{number:<6}append  {trial.fault!s:<8}{when:<10}{trial.moment:6.3f}s  {trial.became}", flush=True
        )
        for rule in complaints:
            print(f"      BROKEN: {rule}; see {at}", flush=True)
        broken += bool(complaints)
        if not complaints:
            shutil.rmtree(at)
    print(", ".join(f"{count} {version}" for version, count in became.items()))
    if broken:
        print(f"{broken} trials broke a rule")
        return 1
    shutil.rmtree(folder)
    print("all rules held")
    return 0
