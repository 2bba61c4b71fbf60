"""Full batches beside sampled ones: how long weft, PyG and DGL train until the same accuracy. Run by `make
bench-sampling`.

    sampling.py [--only physics,…] [--systems "weft f32",…] [--seeds 5] [--rates .003,.01] [--epochs
                FULL,SAMPLED] [--jobs 2] [--rounds 3] [--workers 0] [--threads 2] [--kept FOLDER] [--again]
                [--json]

On each graph all systems train the same GraphSAGE (mean; batch norm, ReLU, dropout, Adam):

weft f32, bf16      every epoch one step on the whole graph
pyg neighbor        NeighborLoader, of batches of 1024 training vertices, with so many in-neighbours at each
                    hop
pyg cluster         ClusterLoader, of ten METIS parts of 200 vertices, or of 1/1024 of the graph
dgl neighbor        NeighborSampler, as PyG's

The target is 99 % of the highest validation accuracy that any run reaches on the graph. How many epochs a
system takes to it does not depend on how busy the machine is, on threads or on processes that sample. So
epochs are counted first, by several trainings at once, and timed afterwards:

rates       with seed 0 the three learning rates in the middle of the list, and the next one while the best is
            the outermost tried
fan-outs    the others, at the best rate
seeds       the other seeds at the best of these settings
time        epochs of each system at that setting, alone and on all threads, in rounds that take turns over
            graphs and systems

The best setting reaches the target in the fewest epochs or, of several fan-outs, in the least processor time.
weft f32 takes the setting of weft bf16, and PyG's neighbours that of DGL's, which are sampled in the same
way. Seconds to the target are the mean epochs times the median seconds of an epoch, without the first of each
round. Seconds are those of training, without evaluation, which is on the whole graph after each epoch. The
peers' epochs are timed without processes that sample and with two; the faster counts. A sampled training ends
early where the validation accuracy has not risen by 0.1 points for four epochs (of clusters sixteen); those
of the other seeds not before they have reached the target that the search found.

The tables go to standard output, or with --json one object; progress goes to standard error. Each training is
kept in a file of its own: the same command continues after an interrupt, and with more seeds adds these
alone; --again forgets them. Exit status: 0 done, 1 where weft fails. Only Python's standard library is used
here. The peers' environments are those of ../peers.
"""

import argparse
import dataclasses
import json
import math
import multiprocessing.pool
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent / name) for name in ("hosts", "peers", "papers")]
from curves import best, epoch_seconds, fastest, reached, target, untried  # noqa: E402
from network import command, last_line  # noqa: E402
from papers import align, log, measured  # noqa: E402

RATES = [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
DROPOUT = 0.5
BATCH = 1024  # training vertices
PART, PARTS = 200, 10  # vertices of a part, parts of a batch
MOST = 1024  # parts that weft partition makes
PATIENCE = 4  # epochs of sampled batches
TIMED = 3  # epochs of a round, of which the first does not count


@dataclasses.dataclass(frozen=True)
class Graph:
    """make is the command that makes the store, without its last argument and the flags after it; full and
    sampled are epochs."""

    make: tuple
    flags: tuple
    layers: int
    full: int
    sampled: int
    hidden: int = 128


SPLIT = ("--split", "random:60/20/20")
NPZ = ("--symmetrize", "--largest-component", *SPLIT)
SBM = ("--vertices", "300000", "--degree", "20", "--features", "16", "--classes", "32")
GRAPHS = {
    "physics": Graph(("import", "npz", "{data}/npz/coauthor_physics.npz"), NPZ, layers=2, full=60, sampled=6),
    "computers": Graph(
        ("import", "npz", "{data}/npz/amazon_computers.npz"), NPZ, layers=3, full=120, sampled=20
    ),
    "debian": Graph(
        ("import", "debian", "/var/lib/apt/lists"), ("--symmetrize", *SPLIT), layers=3, full=100, sampled=10
    ),
    "sbm": Graph(("generate", "sbm"), SBM, layers=2, full=100, sampled=6),
}


@dataclasses.dataclass(frozen=True)
class System:
    """weft with these flags, or a peer by its name in sampled.py. fan_outs: those to choose from, for three
    layers. like: the system whose setting it takes. longer: how many times a sampler's epochs it takes to
    count and to time, as its own are shorter; of full batches a graph says how many count. beta2: Adam's."""

    flags: tuple = ()
    peer: str = ""
    fan_outs: tuple = ((),)
    like: str = ""
    longer: int = 1
    beta2: float = 0.999


FAN_OUTS = ((10, 10, 10), (15, 10, 5))
SYSTEMS = {
    "weft bf16": System(flags=("--precision", "bf16"), longer=8, beta2=0.9),
    "dgl neighbor": System(peer="dgl-neighbor", fan_outs=FAN_OUTS),
    "pyg cluster": System(peer="pyg-cluster", longer=4),
    "weft f32": System(like="weft bf16", longer=8, beta2=0.9),
    "pyg neighbor": System(peer="pyg-neighbor", like="dgl neighbor"),
}


@dataclasses.dataclass(frozen=True)
class Training:
    graph: str
    system: str
    rate: float
    fan_outs: tuple
    seed: int = 0
    round: int = 0  # of those that are timed, from 1 on
    workers: int = 0  # processes that sample for a peer

    def __str__(self):
        fan_outs = f", fan-outs {'-'.join(map(str, self.fan_outs))}" if self.fan_outs else ""
        return f"{self.graph}, {self.system}, rate {self.rate:g}{fan_outs}, " + (
            f"round {self.round}, {self.workers} workers" if self.round else f"seed {self.seed}"
        )


def main():
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    parser = argparse.ArgumentParser(prog="bench-sampling", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--only",
        type=names(GRAPHS),
        default=list(GRAPHS),
        metavar="GRAPH,…",
        help=f"of {', '.join(GRAPHS)} (default all)",
    )
    parser.add_argument(
        "--systems",
        type=names(SYSTEMS),
        default=list(SYSTEMS),
        metavar="NAME,…",
        help=f"of {', '.join(SYSTEMS)} (default all)",
    )
    parser.add_argument(
        "--rates",
        type=rates,
        default=RATES,
        metavar="X,…",
        help="learning rates to choose from (default .0003 to .3)",
    )
    parser.add_argument(
        "--adam-beta2", type=float, metavar="X", help="of all systems (default .9 in weft, .999 in the peers)"
    )
    parser.add_argument("--seeds", type=positive, default=5, metavar="N", help="default 5")
    parser.add_argument(
        "--epochs",
        type=pair,
        metavar="FULL,SAMPLED",
        help="of full batches, and of sampled ones (default: as each graph needs)",
    )
    parser.add_argument(
        "--jobs", type=positive, default=2, metavar="N", help="trainings that count at once (default 2)"
    )
    parser.add_argument(
        "--rounds", type=from_zero, default=3, metavar="N", help="of timing; 0: none (default 3)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        choices=(0, 2),
        help="processes that sample for a peer (default: which of both is faster)",
    )
    parser.add_argument(
        "--threads", type=positive, default=os.cpu_count(), metavar="N", help="default: all cores"
    )
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        default="../shared/data",
        help="folder of the public graphs (default %(default)s)",
    )
    parser.add_argument(
        "--cache",
        type=pathlib.Path,
        default=f"{cache}/weft-peers",
        help="folder of environments and stores (default %(default)s)",
    )
    parser.add_argument(
        "--kept",
        type=pathlib.Path,
        default="runs/bench-sampling",
        help="where trainings are kept (default %(default)s)",
    )
    parser.add_argument("--again", action="store_true", help="forget the trainings of before")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    options.cache = options.cache.expanduser().resolve()
    if options.again:
        shutil.rmtree(options.kept, ignore_errors=True)
    for name in list(options.only):
        source = pathlib.Path(GRAPHS[name].make[-1].format(data=options.data))
        if GRAPHS[name].make[0] == "import" and not source.exists():
            if options.only != list(GRAPHS):
                parser.error(f"--only {name}: there is no {source}; --data names its folder")
            log(f"{name} is left out: there is no {source}")
            options.only = [other for other in options.only if other != name]
    with tempfile.TemporaryDirectory(prefix="weft-sampling-") as scratch:
        report = Bench(options, pathlib.Path(scratch)).compare()
    if options.json:
        print(json.dumps(report))
    else:
        for name in options.only:
            show(name, GRAPHS[name], report[name])
    return 0


def names(allowed):
    def split(text):
        if unknown := [name for name in text.split(",") if name not in allowed]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is none of {', '.join(allowed)}")
        return text.split(",")

    return split


def rates(text):
    try:
        found = sorted({float(rate) for rate in text.split(",")})
    except ValueError:
        found = [0]
    if not all(0 < rate < math.inf for rate in found):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers above 0")
    return found


def from_zero(text, least=0):
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
    return int(text)


def positive(text):
    return from_zero(text, 1)


def pair(text):
    numbers = [positive(n) for n in text.split(",")]
    if len(numbers) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair such as 100,10")
    return numbers


class Bench:
    def __init__(self, options, scratch):
        self.options, self.scratch, self.made, self.curves, self.failed, self.aims = (
            options,
            scratch,
            {},
            {},
            {},
            {},
        )

    def compare(self):
        """Of each graph by system: its setting, the target, the curves of its seeds, and the seconds of an
        epoch; or why it failed."""
        systems = self.options.systems
        searched = [
            (graph, system)
            for system in dict.fromkeys(SYSTEMS[name].like or name for name in systems)
            for graph in self.options.only
        ]
        self.search(searched)
        chosen = {pair: self.best(*pair) for pair in searched if pair not in self.failed}
        self.aims = {graph: self.target(graph) for graph, _ in chosen}
        settings = {}
        for system in sorted(systems, key=lambda system: bool(SYSTEMS[system].like)):
            for graph in self.options.only:
                if setting := chosen.get((graph, SYSTEMS[system].like or system)):
                    settings[graph, system] = dataclasses.replace(setting, system=system)
                else:
                    self.failed.setdefault(
                        (graph, system), f"it would take the setting of {SYSTEMS[system].like}, which failed"
                    )
        for like in (False, True):
            for seed in range(self.options.seeds):
                self.count(
                    dataclasses.replace(setting, seed=seed)
                    for (_, system), setting in settings.items()
                    if bool(SYSTEMS[system].like) == like
                )
        timed = self.time(settings)
        report = {graph: {} for graph in self.options.only}
        for (graph, system), why in self.failed.items():
            report[graph][system] = why
        for (graph, system), setting in settings.items():
            if (graph, system) not in self.failed:
                runs = [
                    self.curves[dataclasses.replace(setting, seed=seed)] for seed in range(self.options.seeds)
                ]
                report[graph][system] = {
                    "rate": setting.rate,
                    "fan_outs": setting.fan_outs,
                    "target": self.target(graph),
                    "runs": runs,
                } | timed.get((graph, system), {})
        return report

    def search(self, pairs):
        """Tries settings with seed 0 until none is left to try."""

        def rates(graph, system):
            tried = self.tried(graph, system)
            first = [run for run in tried if run.fan_outs == self.fan_outs(graph, system)[0]]
            chosen = self.best(graph, system, first).rate if first else None
            return [
                Training(graph, system, rate, self.fan_outs(graph, system)[0])
                for rate in untried(self.options.rates, [run.rate for run in first], chosen)
            ]

        while more := [run for pair in pairs if pair not in self.failed for run in rates(*pair)]:
            self.count(more)
        self.count(
            Training(graph, system, self.best(graph, system).rate, fan_outs)
            for graph, system in pairs
            if (graph, system) not in self.failed
            for fan_outs in self.fan_outs(graph, system)[1:]
        )

    def fan_outs(self, graph, system):
        return [fan_outs[: GRAPHS[graph].layers] for fan_outs in SYSTEMS[system].fan_outs]

    def tried(self, graph, system):
        return [run for run in self.curves if (run.graph, run.system, run.seed) == (graph, system, 0)]

    def target(self, graph):
        return target([curve for run, curve in self.curves.items() if run.graph == graph])

    def best(self, graph, system, runs=None):
        """The setting, of those tried, with the lowest cost to the target."""
        curves = {run: self.curves[run] for run in runs or self.tried(graph, system)}

        def cost(fan_outs):  # the processor seconds of an epoch, at all rates
            return statistics.median(
                epoch.get("processor", 1)
                for run, curve in curves.items()
                if run.fan_outs == fan_outs
                for epoch in curve
            )

        return fastest(curves, self.target(graph), {run: cost(run.fan_outs) for run in curves})

    def count(self, runs):
        """Several trainings at once. Where a peer fails, it is left out on that graph."""
        runs = [run for run in runs if run not in self.curves and (run.graph, run.system) not in self.failed]
        for run in runs:
            self.prepare(run)
        with multiprocessing.pool.ThreadPool(self.options.jobs) as pool:
            for run, curve in pool.imap_unordered(
                lambda run: (run, self.train(run, max(1, self.options.threads // self.options.jobs))), runs
            ):
                if curve:
                    self.curves[run] = curve

    def time(self, settings):
        """By graph and system the seconds of an epoch, and how many processes sampled."""
        rounds = {}
        for number in range(1, self.options.rounds + 1):
            for (graph, system), setting in settings.items():
                if not SYSTEMS[system].peer or self.options.workers is not None:
                    workers = [self.options.workers or 0]
                elif number == 1:
                    workers = [0, 2]
                else:
                    workers = [fewest(rounds[graph, system])]
                for n in workers:
                    run = dataclasses.replace(setting, round=number, workers=n)
                    self.prepare(run)
                    if (graph, system) not in self.failed and (
                        curve := self.train(run, self.options.threads)
                    ):
                        rounds.setdefault((graph, system), {}).setdefault(n, []).append(curve)
        return {
            pair: {"workers": fewest(by), "epoch_seconds": epoch_seconds(by[fewest(by)])}
            for pair, by in rounds.items()
        }

    def prepare(self, run):
        """Makes what is made once."""
        store = self.store(run.graph)
        peer = SYSTEMS[run.system].peer
        if peer:
            self.once(
                peer.partition("-")[0],
                lambda: [HERE.parent / "peers" / "environment", peer.partition("-")[0], self.options.cache],
            )
        else:
            self.once("weft", lambda: ["bin/weft", "version"])
        if peer == "pyg-neighbor":
            self.once(
                "sampler", lambda: [HERE / "sampler", f"{self.made['pyg']}/bin/python", self.options.cache]
            )
        if peer == "pyg-cluster" and not (file := self.parts(run.graph)).exists():
            vertices = json.loads((store / "graph.json").read_text())["vertices"][0]["count"]
            log(f"dividing {store}")
            measured(
                ["bin/weft", "partition", store, "-k", str(min(vertices // PART, MOST)), "--write-part", file]
            )
            shutil.rmtree(store / "partitions")

    def once(self, what, make):
        """The first line that a command prints, which is run once."""
        if what not in self.made:
            self.made[what] = measured(make())["printed"].splitlines()[0]

    def store(self, name):
        graph = GRAPHS[name]
        store = (
            self.options.cache
            / "stores"
            / "-".join([f"sampling-{name}", *(flag.strip("-").replace("/", "_") for flag in graph.flags)])
        )
        if not store.exists():
            log(f"{name}: making {store}")
            store.parent.mkdir(parents=True, exist_ok=True)
            measured(
                [
                    "bin/weft",
                    *(part.format(data=self.options.data) for part in graph.make),
                    store,
                    *graph.flags,
                ]
            )
        return store

    def parts(self, graph):
        """The file with the part of each vertex."""
        store = self.store(graph)
        return store.with_name(f"{store.name}.parts")

    def train(self, run, threads):
        """The curve of a training, unless it is kept; None where a peer fails."""
        graph, system = GRAPHS[run.graph], SYSTEMS[run.system]
        full, sampled = self.options.epochs or (graph.full, graph.sampled)
        epochs = TIMED * system.longer if run.round else sampled * system.longer if system.peer else full
        version = (
            pathlib.Path(self.made[system.peer.partition("-")[0]]).name if system.peer else self.made["weft"]
        )
        beta2 = self.options.adam_beta2 or system.beta2
        other = f", beta2 {beta2:g}" if beta2 != System.beta2 else ""
        kept = (
            self.options.kept
            / f"{run}{other}, {epochs} epochs, {version}{f', {threads} threads' if run.round else ''}.json"
        )
        if kept.exists():
            log(f"{run}: done before")
            return json.loads(kept.read_text())
        log(f"{run}")
        with tempfile.TemporaryDirectory(dir=self.scratch) as scratch:
            settings = {
                "layers": graph.layers,
                "hidden": graph.hidden,
                "dropout": DROPOUT,
                "lr": run.rate,
                "adam-beta2": beta2,
                "seed": run.seed,
                "epochs": epochs,
                "threads": threads,
            }
            try:
                curve = (self.sampled if system.peer else self.weft)(
                    run, system, settings, pathlib.Path(scratch)
                )
            except subprocess.CalledProcessError as error:
                if not system.peer:
                    raise
                self.failed[run.graph, run.system] = last_line(error.stderr or "")
                log(f"{run}: {self.failed[run.graph, run.system]}")
                return None
        self.options.kept.mkdir(parents=True, exist_ok=True)
        written = kept.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps(curve))
        written.replace(kept)
        return curve

    def weft(self, run, system, settings, scratch):
        settings |= {"model": "sage", "norm": "batch", "eval-every": 1, "out": scratch / "run"}
        measured(
            [
                "bin/weft",
                "train",
                self.store(run.graph),
                *(f"--{key}={value}" for key, value in settings.items()),
                *system.flags,
                "--json",
            ]
        )
        lines = map(json.loads, (scratch / "run" / "metrics.jsonl").read_text().splitlines())
        return [{key: line[key] for key in ("seconds", "loss", "val", "test")} for line in lines]

    def sampled(self, run, system, settings, scratch):
        settings |= {
            "workers": run.workers,
            "fan_outs": run.fan_outs,
            "batch": BATCH,
            "patience": PATIENCE * system.longer,
            "target": self.aims.get(run.graph, 0),
        }
        if system.peer == "pyg-cluster":
            settings |= {"clusters": str(self.parts(run.graph)), "batch": PARTS}
        if system.peer == "pyg-neighbor":
            settings |= {"sampler": self.made["sampler"]}
        threads = [f"{name}={settings['threads']}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")]
        environment = ["env", *threads, "THP_MEM_ALLOC_ENABLE=1", "DGLBACKEND=pytorch"]
        python = f"{self.made[system.peer.partition('-')[0]]}/bin/python"
        measured(
            [
                *environment,
                python,
                "-B",
                HERE / "sampled.py",
                system.peer,
                self.store(run.graph),
                json.dumps(settings),
                scratch / "result.json",
            ]
        )
        return json.loads((scratch / "result.json").read_text())["curve"]


def fewest(rounds):
    """With how many processes the first round's epochs were faster."""
    return min(rounds, key=lambda n: epoch_seconds(rounds[n][:1]))


def show(name, graph, report):
    print(
        f"{name}: GraphSAGE of {graph.layers} layers, {graph.hidden} wide; a star marks the fastest to 99 % "
        "of the best validation accuracy\n"
    )
    rows = [
        [
            "system",
            "rate",
            "fan-outs",
            "workers",
            "epochs to 99 %",
            "seconds an epoch",
            "seconds to 99 %",
            "validation",
            "test",
            "seeds",
        ]
    ]
    to = {
        system: [reached(curve, found["target"]) for curve in found["runs"]]
        for system, found in report.items()
        if isinstance(found, dict)
    }
    seconds = {
        system: statistics.mean(to[system]) * report[system]["epoch_seconds"]
        for system in to
        if all(to[system]) and "epoch_seconds" in report[system]
    }
    for system, found in report.items():
        if isinstance(found, str):
            rows.append([system, "", "", "", "failed", *[""] * 5])
            continue
        runs, there = found["runs"], [t for t in to[system] if t]
        star = "*" if seconds and system == min(seconds, key=seconds.get) else ""
        some = "" if len(there) in (0, len(runs)) else f"{len(there)} of {len(runs)}: "
        rows.append(
            [
                system + star,
                f"{found['rate']:g}",
                "/".join(map(str, found["fan_outs"])),
                str(found.get("workers", "")) if SYSTEMS[system].peer else "",
                some + spread(there, 1),
                f"{found['epoch_seconds']:.3f}" if "epoch_seconds" in found else "",
                f"{seconds[system]:.1f}" if system in seconds else "",
                spread([100 * best(curve)["val"] for curve in runs], 2),
                spread([100 * best(curve)["test"] for curve in runs], 2),
                str(len(runs)),
            ]
        )
    align(rows)
    for system, found in report.items():
        if isinstance(found, str):
            print(f"{system} failed: {found}\n")


def spread(values, digits):
    """Mean and sample standard deviation; of one value itself."""
    if not values:
        return "never"
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


if __name__ == "__main__":
    command(main)
