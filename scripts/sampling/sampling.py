"""Full batches beside sampled ones: how long weft, PyG and DGL train until the same accuracy. Run by `make bench-sampling`.

    sampling.py [--only physics,…] [--systems "weft f32",…] [--seeds 5] [--rates .003,.01] [--workers 0] [--epochs FULL,SAMPLED] [--threads 2] [--again] [--json]

On each graph all systems train the same GraphSAGE (mean; batch norm, ReLU, dropout, Adam):

weft f32, bf16      every epoch one step on the whole graph
pyg neighbor        NeighborLoader, of batches of 1024 training vertices, with so many in-neighbours at each hop
pyg cluster         ClusterLoader, of ten METIS parts of 200 vertices, or of 1/1024 of the graph
dgl neighbor        NeighborSampler, as PyG's

For each system, in this order:

workers     the peers' loaders, without processes and with two: which has the shorter second epoch, at the same rate
rates       learning rates, .001, .003, .01 and .03, with seed 0: which reaches the target in the fewest epochs
seeds       the other seeds at that rate

The target is 99 % of the highest validation accuracy that any run reaches on the graph. Seconds are those of training, without
evaluation, which is on the whole graph after each epoch. What else a process takes stands apart: starting, loading, evaluation and
results. The tables go to standard output, or with --json one object; progress goes to standard error. Each training is kept in
runs/bench-sampling.json: the same command continues after an interrupt, and with more seeds adds these alone; --again forgets them.
Exit status: 0 done, 1 where weft fails. Only Python's standard library is used here. The peers' environments are those of ../peers.
"""
import argparse
import dataclasses
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent / name) for name in ("hosts", "peers", "papers")]
from curves import best, fastest, reached, target  # noqa: E402
from network import command, last_line  # noqa: E402
from papers import align, log, measured  # noqa: E402

RATES = [0.001, 0.003, 0.01, 0.03]
DROPOUT = 0.5
BATCH = 1024  # training vertices
PART, PARTS = 200, 10  # vertices of a part, parts of a batch
MOST = 1024  # parts that weft partition makes


@dataclasses.dataclass(frozen=True)
class Graph:
    """make is the command that makes the store, without its last argument and the flags after it; full and sampled are epochs."""
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
    "computers": Graph(("import", "npz", "{data}/npz/amazon_computers.npz"), NPZ, layers=3, full=150, sampled=15),
    "physics": Graph(("import", "npz", "{data}/npz/coauthor_physics.npz"), NPZ, layers=2, full=60, sampled=10),
    "debian": Graph(("import", "debian", "/var/lib/apt/lists"), ("--symmetrize", *SPLIT), layers=3, full=100, sampled=10),
    "sbm": Graph(("generate", "sbm"), SBM, layers=2, full=150, sampled=8),
}


@dataclasses.dataclass(frozen=True)
class System:
    """weft with these flags, or a peer by its name in sampled.py with fan-outs for three layers. longer: how many times the epochs
    of a graph it takes, as those of clusters are short and reach less."""
    flags: tuple = ()
    peer: str = ""
    fan_outs: tuple = ()
    longer: int = 1


SYSTEMS = {
    "weft f32": System(),
    "weft bf16": System(flags=("--precision", "bf16")),
    "pyg neighbor 15/10/5": System(peer="pyg-neighbor", fan_outs=(15, 10, 5)),
    "pyg neighbor 10/10/10": System(peer="pyg-neighbor", fan_outs=(10, 10, 10)),
    "pyg cluster": System(peer="pyg-cluster", longer=4),
    "dgl neighbor 15/10/5": System(peer="dgl-neighbor", fan_outs=(15, 10, 5)),
    "dgl neighbor 10/10/10": System(peer="dgl-neighbor", fan_outs=(10, 10, 10)),
}


def main():
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    parser = argparse.ArgumentParser(prog="bench-sampling", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", type=names(GRAPHS), default=list(GRAPHS), metavar="GRAPH,…", help=f"of {', '.join(GRAPHS)} (default all)")
    parser.add_argument("--systems", type=names(SYSTEMS), default=list(SYSTEMS), metavar="NAME,…", help=f"of {', '.join(SYSTEMS)} (default all)")
    parser.add_argument("--rates", type=rates, default=RATES, metavar="X,…", help="learning rates to choose from (default .001,.003,.01,.03)")
    parser.add_argument("--workers", type=int, choices=(0, 2), help="processes that sample for a peer (default: which of both is faster)")
    parser.add_argument("--seeds", type=positive, default=5, metavar="N", help="default 5")
    parser.add_argument("--epochs", type=pair, metavar="FULL,SAMPLED", help="of full batches, and of sampled ones (default: as each graph needs)")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), metavar="N", help="default: all cores")
    parser.add_argument("--data", type=pathlib.Path, default="../shared/data", help="folder of the public graphs (default %(default)s)")
    parser.add_argument("--cache", type=pathlib.Path, default=f"{cache}/weft-peers", help="folder of environments and stores (default %(default)s)")
    parser.add_argument("--kept", type=pathlib.Path, default="runs/bench-sampling.json", help="where trainings are kept (default %(default)s)")
    parser.add_argument("--again", action="store_true", help="forget the trainings of before")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    options.cache = options.cache.expanduser().resolve()
    if options.again:
        options.kept.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="weft-sampling-") as scratch:
        bench, report = Bench(options, pathlib.Path(scratch)), {}
        for name in options.only:
            graph = GRAPHS[name]
            source = pathlib.Path(graph.make[-1].format(data=options.data))
            if graph.make[0] == "import" and not source.exists():
                if options.only != list(GRAPHS):
                    parser.error(f"--only {name}: there is no {source}; --data names its folder")
                log(f"{name} is left out: there is no {source}")
                continue
            report[name] = bench.compare(name, graph)
            if not options.json:
                show(name, graph, report[name])
    if options.json:
        print(json.dumps(report))
    return 0


def names(allowed):
    def split(text):
        if unknown := [name for name in text.split(",") if name not in allowed]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is none of {', '.join(allowed)}")
        return text.split(",")
    return split


def rates(text):
    try:
        found = [float(rate) for rate in text.split(",")]
    except ValueError:
        found = [0]
    if not all(0 < rate < math.inf for rate in found):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers above 0")
    return found


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def pair(text):
    numbers = [positive(n) for n in text.split(",")]
    if len(numbers) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair such as 100,10")
    return numbers


class Bench:
    def __init__(self, options, scratch):
        self.options, self.scratch, self.environments = options, scratch, {}
        self.kept = json.loads(options.kept.read_text()) if options.kept.exists() else {}

    def compare(self, name, graph):
        """For each system its setting, its curves by seed and the target, or why it failed."""
        store, tried, failed = self.store(name, graph), {}, {}
        for system in self.options.systems:
            try:
                workers = self.workers(name, store, graph, system)
                tried[system] = workers, {rate: self.train(name, store, graph, system, workers, rate, 0) for rate in self.options.rates}
            except subprocess.CalledProcessError as error:
                if not SYSTEMS[system].peer:
                    raise
                failed[system] = last_line(error.stderr or "")
                log(f"{name}, {system}: {failed[system]}")
        if not tried:
            return failed
        accuracy = target([run["curve"] for _, runs in tried.values() for run in runs.values()])
        chosen = {system: fastest({rate: run["curve"] for rate, run in runs.items()}, accuracy) for system, (_, runs) in tried.items()}
        seeds = {}
        for seed in range(1, self.options.seeds):
            for system, (workers, _) in tried.items():
                seeds.setdefault(system, []).append(self.train(name, store, graph, system, workers, chosen[system], seed))
        runs = {system: [tried[system][1][rate], *seeds.get(system, [])] for system, rate in chosen.items()}
        accuracy = target([run["curve"] for _, every in tried.values() for run in every.values()] + [run["curve"] for every in runs.values() for run in every])
        return failed | {system: {"rate": rate, "workers": tried[system][0], "target": accuracy, "runs": runs[system]} for system, rate in chosen.items()}

    def store(self, name, graph):
        store = self.options.cache / "stores" / "-".join([f"sampling-{name}", *(flag.strip("-").replace("/", "_") for flag in graph.flags)])
        if not store.exists():
            log(f"{name}: making {store}")
            store.parent.mkdir(parents=True, exist_ok=True)
            measured(["bin/weft", *(part.format(data=self.options.data) for part in graph.make), store, *graph.flags])
        return store

    def workers(self, name, store, graph, system):
        """How many processes sample for a peer."""
        if not SYSTEMS[system].peer or self.options.workers is not None:
            return self.options.workers or 0
        seconds = {n: self.train(name, store, graph, system, n, self.options.rates[0], 0, epochs=2)["curve"][1]["seconds"] for n in (0, 2)}
        return min(seconds, key=seconds.get)

    def train(self, name, store, graph, system, workers, rate, seed, epochs=0):
        """A training, unless it is kept."""
        full, sampled = self.options.epochs or (graph.full, graph.sampled)
        epochs = epochs or SYSTEMS[system].longer * (sampled if SYSTEMS[system].peer else full)
        title = f"{name}, {system}, rate {rate}, seed {seed}, {epochs} epochs" + (f", {workers} workers" if SYSTEMS[system].peer else "")
        key = f"{title}, {self.options.threads} threads"
        if key in self.kept:
            log(f"{title}: done before")
            return self.kept[key]
        log(title)
        train = self.sampled if SYSTEMS[system].peer else self.weft
        step = train(store, graph, SYSTEMS[system], workers, rate, seed, epochs)
        step["other_seconds"] = step.pop("seconds") - sum(epoch["seconds"] for epoch in step["curve"])
        del step["printed"]
        self.kept[key] = step
        self.options.kept.parent.mkdir(parents=True, exist_ok=True)
        written = self.options.kept.with_suffix(".new")
        written.write_text(json.dumps(self.kept))
        written.replace(self.options.kept)
        return step

    def weft(self, store, graph, system, _, rate, seed, epochs):
        out = self.scratch / "run"
        shutil.rmtree(out, ignore_errors=True)
        settings = {"model": "sage", "layers": graph.layers, "hidden": graph.hidden, "norm": "batch", "dropout": DROPOUT, "lr": rate, "seed": seed,
                    "epochs": epochs, "eval-every": 1, "threads": self.options.threads, "out": out}
        step = measured(["bin/weft", "train", store, *(f"--{key}={value}" for key, value in settings.items()), *system.flags, "--json"])
        lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        return step | {"curve": [{key: line[key] for key in ("seconds", "loss", "val", "test")} for line in lines]}

    def sampled(self, store, graph, system, workers, rate, seed, epochs):
        settings = {"layers": graph.layers, "hidden": graph.hidden, "dropout": DROPOUT, "lr": rate, "seed": seed, "epochs": epochs,
                    "threads": self.options.threads, "workers": workers, "fan_outs": system.fan_outs[:graph.layers], "batch": BATCH}
        if system.peer == "pyg-cluster":
            settings |= {"clusters": str(self.parts(store)), "batch": PARTS}
        if system.peer == "pyg-neighbor":
            settings |= {"sampler": self.sampler()}
        library, result = system.peer.partition("-")[0], self.scratch / "result.json"
        threads = [f"{name}={self.options.threads}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")]
        environment = ["env", *threads, "THP_MEM_ALLOC_ENABLE=1", "DGLBACKEND=pytorch"]
        step = measured([*environment, self.python(library), "-B", HERE / "sampled.py", system.peer, store, json.dumps(settings), result])
        return step | json.loads(result.read_text())

    def parts(self, store):
        """The file with the part of each vertex."""
        file = store.with_name(f"{store.name}.parts")
        if not file.exists():
            vertices = json.loads((store / "graph.json").read_text())["vertices"][0]["count"]
            log(f"dividing {store}")
            measured(["bin/weft", "partition", store, "-k", str(min(vertices // PART, MOST)), "--write-part", file])
            shutil.rmtree(store / "partitions")
        return file

    def python(self, library):
        if library not in self.environments:
            log(f"the environment of {library}, which is made once")
            self.environments[library] = measured([HERE.parent / "peers" / "environment", library, self.options.cache])["printed"].strip()
        return f"{self.environments[library]}/bin/python"

    def sampler(self):
        """The library with torch-sparse's sampler, without which NeighborLoader cannot work."""
        if "sampler" not in self.environments:
            log("the sampler of torch-sparse, which is compiled once")
            self.environments["sampler"] = measured([HERE / "sampler", self.python("pyg"), self.options.cache])["printed"].strip()
        return self.environments["sampler"]


def show(name, graph, report):
    print(f"{name}: GraphSAGE of {graph.layers} layers, {graph.hidden} wide; a star marks the fastest to 99 % of the best validation accuracy\n")
    rows = [["system", "rate", "workers", "seconds to 99 %", "epochs", "seconds an epoch", "validation", "test", "beside training"]]
    to = {system: [reached(run["curve"], found["target"]) for run in found["runs"]] for system, found in report.items() if isinstance(found, dict)}
    seconds = {system: statistics.mean(s for _, s in there) for system, there in to.items() if all(there)}
    for system, found in report.items():
        if isinstance(found, str):
            rows.append([system, "", "", "failed", *[""] * 5])
            continue
        runs, there = found["runs"], [t for t in to[system] if t]
        star = "*" if seconds and system == min(seconds, key=seconds.get) else ""
        some = "" if len(there) in (0, len(runs)) else f"{len(there)} of {len(runs)}: "
        rows.append([system + star, f"{found['rate']:g}", str(found["workers"]) if SYSTEMS[system].peer else "",
                     some + spread([s for _, s in there], 1), spread([n for n, _ in there], 0),
                     f"{statistics.median(e['seconds'] for run in runs for e in run['curve']):.2f}",
                     spread([100 * best(run["curve"])["val"] for run in runs], 2), spread([100 * best(run["curve"])["test"] for run in runs], 2),
                     f"{statistics.median(run['other_seconds'] for run in runs):.1f} s"])
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
