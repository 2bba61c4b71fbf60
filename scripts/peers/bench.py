"""Compares weft with DGL and PyTorch Geometric on this machine: time of an epoch and peak memory. Run by
`make bench-peers`.

Each comparison is one graph, one model and one number of threads. weft and the peers take turns, a process
each, and train from the same weights (PyG's initial ones, a safetensors file that weft takes with --init)
without dropout, so that their losses must agree. An epoch is forward, backward and step; its figure is the
median over all processes without the first epoch of each, in which every system builds what it keeps. Memory
is the largest resident set of the whole process, as the kernel reports it.

The table goes to standard output, progress to standard error, and every figure to a JSON file. README.md says
more."""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import processes
from models import LEARNING_RATE, MODELS, OWN, Model
from processes import GIB

HERE = Path(__file__).parent
COMPARED_LOSSES = 3
OUT_OF_MEMORY = 3  # exit status of peer.py
# Each peer, and the environment that it runs in. compile is PyG under torch.compile; named is weft's own
# model with a module's layers.
PEERS = {"dgl": "dgl", "pyg": "pyg", "compile": "pyg", "torch": "pyg", "named": ""}
LOOP = "weft"  # weft.compile, which a rollout runs in as its peers do
FALLBACK = "torch"
# How weft runs: the name in the table, and what it adds to the command. The peers run in float32 beside each.
SETTINGS = {
    "f32": (),
    "bf16": ("--precision", "bf16"),
    "blocks": ("--precision", "bf16", "--recompute", "blocks"),
}
PRECISIONS = ("f32", "bf16")  # settings of a rollout, which runs in weft.compile


@dataclass(frozen=True)
class Graph:
    """weft is the command that makes the store, without its last argument; {data} and {archive} are replaced.
    source is the file that it needs from the data folder, archive what prepare.py makes {archive} of. alone
    says that weft has no peers there."""

    name: str
    weft: tuple[str, ...]
    source: str = ""
    archive: tuple[str, ...] = ()
    alone: bool = False


def uniform(vertices: int, degree: int) -> tuple[str, ...]:
    return ("generate", "uniform", "--vertices", str(vertices), "--degree", str(degree), *NOISE)


def rmat(scale: int) -> tuple[str, ...]:
    return ("generate", "rmat", "--scale", str(scale), "--edge-factor", "16", *NOISE)


def mesh(rows: int, columns: int, alone: bool = False, name: str = "mesh") -> Graph:
    made = ("mesh", str(rows), str(columns))
    return Graph(name, ("import", "npz", "{archive}"), archive=made, alone=alone)


NOISE = ("--features", "128", "--classes", "16")
PHYSICS = (
    "import",
    "npz",
    "{data}/npz/coauthor_physics.npz",
    "--symmetrize",
    "--largest-component",
    "--split",
    "per-class=20,30",
)
GITHUB = (
    "import",
    "npz",
    "{archive}",
    "--symmetrize",
    "--random-features",
    "128",
    "--split",
    "random:60/20/20",
)
GRAPHS = [
    Graph("uniform-15", uniform(200_000, 15)),
    Graph("uniform-100", uniform(200_000, 100)),
    Graph("rmat-18", rmat(18)),
    Graph(
        "github",
        GITHUB,
        source="map_of_github/edges.npz",
        archive=("github", "{data}/map_of_github/edges.npz"),
    ),
    Graph("physics", PHYSICS, source="npz/coauthor_physics.npz"),
    mesh(100, 200),
    mesh(250, 400, alone=True, name="mesh-large"),
]
SMALL = [
    Graph("small-uniform", uniform(4_000, 15)),
    Graph("small-rmat", rmat(12)),
    mesh(20, 30, name="small-mesh"),
]


class Failure(Exception):
    """One line for the person who started this."""


@dataclass
class Runs:
    """All processes of one system in a comparison."""

    seconds: list[float] = field(default_factory=list)  # of every epoch but the first of each process
    losses: list[float] = field(default_factory=list)
    peak_bytes: int = 0
    other_cores: float = 0.0
    failure: str = ""
    report: dict = field(default_factory=dict)  # of the last process

    def add(
        self, seconds: list[float], losses: list[float], outcome: processes.Outcome, report: dict
    ) -> None:
        self.seconds += seconds[1:]
        self.losses = losses
        self.peak_bytes = max(self.peak_bytes, outcome.peak_bytes + report.get("program_peak_bytes", 0))
        self.other_cores = max(self.other_cores, outcome.other_cores)
        self.report = report

    def median(self) -> float:
        return statistics.median(self.seconds)


class Bench:
    def __init__(self, options: argparse.Namespace, scratch: Path):
        self.options, self.scratch = options, scratch
        self.weft = str(Path(options.weft).resolve())
        self.cache = Path(options.cache).expanduser().resolve()
        self.environments: dict[str, Path] = {}

    def python(self, peer: str) -> str:
        """The interpreter of a peer's environment, which is made when it is first needed."""
        name = "pyg" if peer == LOOP else PEERS[peer]
        if name not in self.environments:
            made = subprocess.run([HERE / "environment", name, self.cache], stdout=subprocess.PIPE, text=True)
            if made.returncode:
                raise Failure(f"the environment of {peer} could not be made: see above")
            self.environments[name] = Path(made.stdout.strip())
        return str(self.environments[name] / "bin" / "python")

    def prepare(self, *arguments: str) -> None:
        command = [self.python("pyg"), str(HERE / "prepare.py"), *arguments]
        _check(command, processes.environment(os.cpu_count() or 1))

    def store(self, graph: Graph) -> Path:
        """The graph's store, made when it is first needed. Its name changes with the command that makes
        it."""
        key = "-".join(
            argument.strip("-").replace("/", "_")
            for argument in graph.weft[2:] + graph.archive[1:]
            if "{" not in argument
        )
        store = self.cache / "stores" / f"{graph.name}-{key}"
        if not store.exists():
            _log(f"making {store}")
            store.parent.mkdir(parents=True, exist_ok=True)
            archive = self.scratch / "archive.npz"
            if graph.archive:
                self.prepare(
                    *(argument.format(data=self.options.data) for argument in graph.archive), str(archive)
                )
            head, tail = (
                graph.weft[:2],
                [argument.format(data=self.options.data, archive=archive) for argument in graph.weft[2:]],
            )
            positional = [argument for argument in tail[:1] if not argument.startswith("--")]
            _check([self.weft, *head, *positional, str(store), *tail[len(positional) :]], dict(os.environ))
            archive.unlink(missing_ok=True)
        return store

    def compare(self, graph: Graph, store: Path, model: Model, threads: int) -> list[dict]:
        weights = self.scratch / f"{graph.name}-{model.name}.safetensors"
        if not weights.exists():
            self.prepare("weights", model.name, str(store), str(weights))
        ours = {name: Runs() for name in self.options.settings if not model.steps or name in PRECISIONS}
        peers = {peer: Runs() for peer in self.options.peers if peer in model.peers and not graph.alone}
        for _ in range(self.options.rounds):
            for settings, runs in ours.items():
                if model.steps:
                    self.run_peer(runs, LOOP, store, model, threads, weights, precision=settings)
                    if runs.failure:
                        raise Failure(f"weft {model.name} on {store.name}: {runs.failure}")
                else:
                    flags = (
                        ("--program", str(weights.with_suffix(".json"))) if model.own else model.weft_flags()
                    )
                    self.run_weft(runs, store, model, threads, weights, (*flags, *SETTINGS[settings]))
            for peer, runs in peers.items():
                if peer == "named":
                    self.run_weft(runs, store, model, threads, weights, model.weft_flags())
                elif not runs.failure:
                    self.run_peer(runs, peer, store, model, threads, weights)
        if peers and all(runs.failure for runs in peers.values()) and FALLBACK not in peers and not model.own:
            peers[FALLBACK] = Runs()
            self.run_peer(peers[FALLBACK], FALLBACK, store, model, threads, weights)
        return [
            row(graph, model, threads, name, ours_run, peer, runs, peers)
            for name, ours_run in ours.items()
            for peer, runs in (peers or {"": Runs(failure="not tried")}).items()
        ]

    def run_weft(
        self, runs: Runs, store: Path, model: Model, threads: int, weights: Path, flags: Sequence[str]
    ) -> None:
        epochs, folder = str(self.options.epochs), self.scratch / "run"
        command = [
            self.weft,
            "train",
            str(store),
            "--lr",
            str(LEARNING_RATE),
            "--epochs",
            epochs,
            "--eval-every",
            epochs,
        ]
        command += ["--init", str(weights), "--threads", str(threads), "--json", "--out", str(folder), *flags]
        output = self.scratch / "weft.json"
        planned = json.loads(_check([*command, "--show-plan"], dict(os.environ)))
        outcome = self.process(command, dict(os.environ), output, "weft")
        shutil.rmtree(folder, ignore_errors=True)
        if outcome.status or outcome.stopped:
            raise Failure(f"weft {model.name} on {store.name}: {outcome.stopped or self.last_error()}")
        report = json.loads(output.read_text())
        report["planned_tensor_bytes"] = sum(planned["peak_tensor_bytes"])
        report["peak_tensor_bytes"] = sum(report["peak_tensor_bytes"])
        runs.add(report["epoch_seconds"], report["losses"], outcome, report)

    def run_peer(
        self,
        runs: Runs,
        peer: str,
        store: Path,
        model: Model,
        threads: int,
        weights: Path,
        precision: str = "f32",
    ) -> None:
        result = self.scratch / "peer.json"
        result.unlink(missing_ok=True)
        command = [self.python(peer), str(HERE / "peer.py"), peer, model.name, str(store), str(weights)]
        command += [str(self.options.epochs), str(threads), str(result), precision]
        environment = processes.environment(threads) | {
            "TORCHINDUCTOR_CACHE_DIR": str(self.scratch / "inductor")
        }
        environment |= {"WEFT_PROGRAM": self.weft, "PYTHONPATH": str(HERE.parents[1] / "python" / "src")}
        outcome = self.process(command, environment, self.scratch / "peer.out", peer)
        if outcome.stopped:
            runs.failure = outcome.stopped
        elif outcome.status == OUT_OF_MEMORY:
            runs.failure = (
                f"out of memory: an allocation was refused after a peak of {outcome.peak_bytes / GIB:.1f} GiB"
            )
        elif outcome.status:
            runs.failure = f"failed, status {outcome.status}: {self.last_error()}"
        else:
            report = json.loads(result.read_text())
            runs.add(report["epoch_seconds"], report["losses"], outcome, report)

    def process(
        self, command: list[str], environment: dict[str, str], output: Path, name: str
    ) -> processes.Outcome:
        _log(f"{name}: {' '.join(command[1:])}")
        errors, reserve = self.scratch / "errors", int(self.options.reserve * GIB)
        outcome = processes.run(command, environment, output, errors, self.options.timeout, reserve)
        _log(
            f"{name}: status {outcome.status}, {outcome.peak_bytes / GIB:.2f} GiB, other load "
            f"{outcome.other_cores:.2f}"
        )
        return outcome

    def last_error(self) -> str:
        lines = (self.scratch / "errors").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing on standard error"


def row(
    graph: Graph,
    model: Model,
    threads: int,
    settings: str,
    ours: Runs,
    peer: str,
    runs: Runs,
    peers: dict[str, Runs],
) -> dict:
    """One line of the table. Ratios are peer ÷ weft; loss_difference is the largest of |weft - peer| ÷ |peer|
    over the first epochs."""
    line = {
        "graph": graph.name,
        **{key: ours.report["graph"][key] for key in ("vertices", "edges", "features", "classes")},
        "model": model.name,
        "threads": threads,
        "settings": settings,
        "weft_epoch_seconds": ours.median(),
        "weft_peak_rss_bytes": ours.peak_bytes,
        "weft_peak_tensor_bytes": ours.report["peak_tensor_bytes"],
        "weft_planned_tensor_bytes": ours.report.get("planned_tensor_bytes"),
        "weft_losses": ours.losses[:COMPARED_LOSSES],
        "weft_all_epoch_seconds": ours.seconds,
        "peer": peer,
        "failure": runs.failure,
        "other_cores": max(ours.other_cores, runs.other_cores),
    }
    if runs.failure:
        return line
    pairs = list(zip(ours.losses, runs.losses))[:COMPARED_LOSSES]
    return line | {
        "fastest_peer": runs.median() == min(other.median() for other in peers.values() if not other.failure),
        "peer_epoch_seconds": runs.median(),
        "peer_peak_rss_bytes": runs.peak_bytes,
        "peer_rss_bytes_before_first_epoch": runs.report.get("resident_bytes_before_first_epoch"),
        "peer_losses": runs.losses[:COMPARED_LOSSES],
        "peer_all_epoch_seconds": runs.seconds,
        "peer_versions": runs.report.get("versions"),
        "peer_build": runs.report.get("build"),
        "time_ratio": runs.median() / ours.median(),
        "memory_ratio": runs.peak_bytes / ours.peak_bytes,
        "loss_difference": max(abs(loss - theirs) / abs(theirs) for loss, theirs in pairs),
    }


HEADER = (
    f"{'graph':<14}{'model':<10}{'threads':>7}  {'weft':<7}{'weft s':>9}{'weft GiB':>10}"
    f"  {'peer':<9}{'peer s':>8}{'peer GiB':>10}"
    f"{'time ×':>8}{'memory ×':>10}{'loss diff':>11}{'other load':>12}"
)


def text(line: dict) -> str:
    head = (
        f"{line['graph']:<14}{line['model']:<10}{line['threads']:>7}  "
        f"{line['settings']:<7}{line['weft_epoch_seconds']:>9.3f}{line['weft_peak_rss_bytes'] / GIB:>10.2f}  "
    )
    if not line["peer"]:
        return head.rstrip()
    if line["failure"]:
        return head + f"{line['peer']:<9}  {line['failure']}"
    return head + (
        f"{line['peer'] + ('*' if line['fastest_peer'] else ''):<9}{line['peer_epoch_seconds']:>8.3f}"
        f"{line['peer_peak_rss_bytes'] / GIB:>10.2f}{line['time_ratio']:>8.2f}{line['memory_ratio']:>10.2f}"
        f"{line['loss_difference']:>11.1e}{line['other_cores']:>12.2f}"
    )


def main() -> None:
    options = parse()
    graphs = SMALL if options.small else GRAPHS
    graphs = [graph for graph in graphs if not options.graphs or graph.name in options.graphs]
    models = [
        model
        for name, model in (MODELS | OWN).items()
        if name in options.models and set(options.peers) & set(model.peers)
    ]
    file, lines = Path(options.json), []
    with tempfile.TemporaryDirectory(prefix="weft-peers-") as scratch:
        bench = Bench(options, Path(scratch))
        print(HEADER, flush=True)
        for graph in graphs:
            if graph.source and not (Path(options.data) / graph.source).exists():
                print(
                    f"{graph.name:<14}left out: there is no {Path(options.data) / graph.source}", flush=True
                )
                continue
            for model in models:
                if model.graphs and graph.name not in model.graphs:
                    continue
                for threads in options.threads:
                    found = bench.compare(graph, bench.store(graph), model, threads)
                    lines += found
                    print("\n".join(text(line) for line in found), flush=True)
                    write(file, lines)
    print(
        "weft: f32, bf16 (--precision bf16), blocks (this with --recompute blocks); the peers run in "
        "float32; compile is PyG\n"
        "under torch.compile, named weft's own model with the layers of a module.\n"
        "* the fastest peer. time × and memory × are peer ÷ weft; loss diff is relative, the largest of the "
        f"first {COMPARED_LOSSES} epochs;\n"
        "  other load is the number of cores that were busy with something else."
    )
    _log(f"every figure: {file}")


def write(file: Path, lines: list[dict]) -> None:
    """Replaces the file, so that what was measured is kept when a later comparison fails."""
    processor = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    memory = next(line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal"))
    machine = {
        "processor": processor,
        "cores": os.cpu_count(),
        "memory_bytes": int(memory) * 1024,
        "kernel": platform.release(),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    report = {"finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "machine": machine, "rows": lines}
    file.write_text(json.dumps(report, indent=1) + "\n")


def parse() -> argparse.Namespace:
    def names(allowed):
        def split(listed: str) -> list[str]:
            chosen = listed.split(",")
            if unknown := [name for name in chosen if name not in allowed]:
                raise argparse.ArgumentTypeError(
                    f"unknown: {', '.join(unknown)}; there are {', '.join(allowed)}"
                )
            return chosen

        return split

    def counts(listed: str) -> list[int]:
        return [int(count) for count in listed.split(",")]

    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    parser = argparse.ArgumentParser(
        prog="bench-peers", description="Compares weft with DGL and PyTorch Geometric on this machine."
    )
    parser.add_argument("--weft", default="bin/weft", help="the command to measure (default %(default)s)")
    parser.add_argument(
        "--data", default="../shared/data", help="folder of the public graphs (default %(default)s)"
    )
    parser.add_argument(
        "--graphs", type=names([graph.name for graph in GRAPHS + SMALL]), help="some of the graphs"
    )
    models, peers = list(MODELS | OWN), [peer for peer in PEERS if peer != FALLBACK]
    parser.add_argument("--models", type=names(models), default=models, help="some of " + ",".join(models))
    parser.add_argument(
        "--peers",
        type=names(PEERS),
        default=peers,
        help=f"default {','.join(peers)}, and {FALLBACK} where all fail",
    )
    parser.add_argument(
        "--settings", type=names(SETTINGS), default=["f32", "bf16"], help="of weft, of " + ",".join(SETTINGS)
    )
    parser.add_argument(
        "--threads", type=counts, default=[os.cpu_count()], help="such as 1,2 (default: all cores)"
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help="processes of each system (default %(default)s)"
    )
    parser.add_argument("--epochs", type=int, default=5, help="epochs of each process (default %(default)s)")
    parser.add_argument(
        "--timeout", type=float, default=1800, help="seconds for one process (default %(default)s)"
    )
    parser.add_argument(
        "--reserve",
        type=float,
        default=1,
        help="GiB: a process that leaves less is stopped (default %(default)s)",
    )
    parser.add_argument("--small", action="store_true", help="two tiny graphs, to try the script")
    parser.add_argument(
        "--cache",
        default=f"{cache}/weft-peers",
        help="folder of environments and stores (default %(default)s)",
    )
    parser.add_argument(
        "--json", default="runs/bench-peers.json", help="where every figure is written (default %(default)s)"
    )
    options = parser.parse_args()
    if options.epochs < COMPARED_LOSSES:
        parser.error(f"--epochs {options.epochs}: at least {COMPARED_LOSSES}, as so many losses are compared")
    if options.rounds < 1 or min(options.threads) < 1:
        parser.error("--rounds and --threads: at least 1")
    if not os.access(options.weft, os.X_OK):
        parser.error(f"--weft {options.weft}: no such command: run `make build`")
    return options


def _check(command: list[str], environment: dict[str, str]) -> str:
    """What a command prints."""
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failure(f"{' '.join(command)}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return done.stdout


def _lines(file: str) -> list[str]:
    return Path(file).read_text().splitlines()


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        print(f"bench-peers: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
