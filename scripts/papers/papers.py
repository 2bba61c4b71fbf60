"""Graphs of the shapes of ogbn-papers100M and IGB-medium, from OGB's files to epochs from disk: what each
step takes, and what an epoch takes beside one in memory. Then the plan for the whole ogbn-papers100M on more
workers. Run by `make papers`.

    papers.py [--shapes papers100M,igb-medium] [--share X] [--folder stores/papers] [--partitions 16]
              [--epochs 3] [--hosts 4] [--rate 1gbit] [--workers 16,32,64,128] [--keep] [--json]
    papers.py --device cuda [--quick]
    papers.py --table

With --device nothing of this happens: graphs of these and other published shapes are trained on a card
(card.py), by ../device/check.py, which prints a table and writes runs/papers/device.json. With --quick they
have some vertices, for bin/libcuda-on-cpu.so in WEFT_CUDA. --table prints what graphs of these shapes take on
cards, by plans (table.py): minutes.

For each shape a fiftieth is trained in memory, and then a larger share from disk:

graph       writes a generated graph in OGB's layout (graph.go): a share of the vertices and edges, all
            features and classes
import      makes its store, and removes OGB's files. Edges of papers100M get both directions, as OGB's
            examples train it
partition   divides it, by the method stream
train       trains in bfloat16 on one worker: SAGE 3×256, or GCN and GAT 3×256 as GriNNder (MLSys 2026) has
            them on IGB-medium. Partitions take turns, and matrices rest in the folder. Then papers100M with
            as many partitions each on virtual hosts (../hosts/network.py)
partition   divides papers100M among as many workers as are planned, for the counts alone
plan        plans for the whole graph on so many workers (plan.go), with the halos that the generated graph
            has

The folder keeps what is done. The same command continues after an interrupt, at the step that was
interrupted. At the end the folder is removed, unless --keep is given. A share that needs more disk than is
free is refused before the first step; without --share it is as large as the disk has space for. The tables go
to standard output, or with --json one object; progress goes to standard error. Exit status: 0 done, 1 where a
step fails, 2 where it cannot be done here (hosts need root, iproute2 and Open MPI: `--hosts none` does
without). Standard library only.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hosts"))
import table  # noqa: E402
from network import GRACE, NotDone, Rate, command, hosts, last_line  # noqa: E402

SILENT = 5 if sys.stderr.isatty() else 60  # seconds
FIFTIETH = 0.02  # the largest share that is trained in memory


@dataclasses.dataclass
class Shape:
    """A published graph, and what a share of it takes here."""

    folder: str  # its name tells graph.go the shape, and weft's import the dataset
    vertices: int
    edges: int  # each in one direction
    flags: list  # of import
    models: dict
    largest: float  # the default share, where the disk has space for it
    limit: float  # bytes of memory for each vertex from disk, of all workers
    copies: float  # bytes of memory for each partition: weights, their state and scratch
    disk: float  # bytes of disk for each vertex from disk


SAGE = {"SAGE 3×256": {"model": "sage", "layers": "3", "hidden": "256", "norm": "batch"}}
GAT = {"GAT 3×128, 4 heads": {"model": "gat", "layers": "3", "hidden": "128", "heads": "4", "norm": "batch"}}
WIDE = {
    "GCN 3×256": {"model": "gcn", "layers": "3", "hidden": "256"},
    "GAT 3×256, 4 heads": {"model": "gat", "layers": "3", "hidden": "256", "heads": "4"},
}
SHAPES = {
    "papers100M": Shape(
        "ogbn_papers100M",
        111_059_956,
        1_615_685_872,
        ["--symmetrize"],
        SAGE,
        largest=0.1,
        limit=501,
        copies=9e6,
        disk=6000,
    ),
    "igb-medium": Shape(
        "igb_medium", 10_000_000, 120_077_694, [], WIDE, largest=1, limit=640, copies=8e6, disk=22000
    ),
}
PRECISIONS = {
    "f32": {},
    "bf16": {"precision": "bf16"},
    "bf16, recomputed": {"precision": "bf16", "recompute": "blocks"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--shapes",
        type=shapes,
        default="papers100M,igb-medium",
        metavar="NAME,…",
        help=f"of {', '.join(SHAPES)} (default both)",
    )
    parser.add_argument(
        "--share",
        type=share,
        metavar="X",
        help=(
            "of the published graph (default 0.1 of papers100M and 1 of igb-medium, or what the disk has "
            "space for)"
        ),
    )
    parser.add_argument(
        "--folder",
        type=pathlib.Path,
        default="stores/papers",
        help="where files are made (default stores/papers)",
    )
    parser.add_argument(
        "--partitions", type=int, default=16, metavar="N", help="of each worker, that take turns (default 16)"
    )
    parser.add_argument(
        "--epochs",
        type=epochs,
        default=3,
        metavar="N",
        help="at least 3, of which the second is in the table (default 3)",
    )
    parser.add_argument("--hosts", type=numbers, default="4", metavar="N,…", help="or none (default 4)")
    parser.add_argument("--rate", type=Rate, default="1gbit", help="at which a host sends (default 1gbit)")
    parser.add_argument(
        "--workers",
        type=numbers,
        default="16,32,64,128",
        metavar="N,…",
        help="to plan for, or none; N takes some 80 GB of memory divided by N (default 16,32,64,128)",
    )
    parser.add_argument(
        "--device",
        choices=["cuda"],
        help="published shapes on a card instead, without any other flag but --quick",
    )
    parser.add_argument(
        "--table", action="store_true", help="print what graphs take on cards instead, without any other flag"
    )
    parser.add_argument("--quick", action="store_true", help="with --device: tiny graphs")
    parser.add_argument("--keep", action="store_true", help="keep the folder at the end")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    if options.quick and not options.device:
        parser.error("--quick: needs --device")
    if options.device:
        on_card = [
            sys.executable,
            "-B",
            HERE.parent / "device" / "check.py",
            "--kit",
            HERE.parents[1],
            "--out",
            "runs/papers",
            "--only",
            "papers,larger",
        ]
        return subprocess.run([*on_card, "--limit", "7200", *["--quick"][: options.quick]]).returncode
    if options.table:
        for k, row in enumerate(table.rows("bin/weft")):
            print(f"| {' | '.join(row)} |" + f"\n|{'---|' * len(row)}" * (k == 0), flush=True)
        return 0
    if options.hosts and os.geteuid() != 0:
        raise NotDone("virtual hosts need root; --hosts none does without")
    kept = Kept(options.folder)
    chosen = {name: kept.share(name, options.share) for name in options.shapes}
    tool = options.folder / "papers"
    log("building scripts/papers")
    subprocess.run(
        ["go", "build", "-o", tool, "./scripts/papers"], check=True, capture_output=True, text=True
    )
    for name, part in chosen.items():
        if part > FIFTIETH:
            Run(options, kept, tool, name, FIFTIETH).steps(in_memory=True)
        Run(options, kept, tool, name, part).steps(in_memory=part <= FIFTIETH, from_disk=True)
    report = {
        "rate": options.rate.text,
        "runs": [
            {"shape": name, "share": part, "steps": kept.steps(name, part)}
            for name in chosen
            for part in sorted({min(FIFTIETH, chosen[name]), chosen[name]})
        ],
    }
    if not options.keep:
        shutil.rmtree(options.folder)
    print(json.dumps(report)) if options.json else show(report)
    return 0


def shapes(text):
    names = text.split(",")
    if not set(names) <= SHAPES.keys():
        raise argparse.ArgumentTypeError(f"{text!r} is no list of {', '.join(SHAPES)}")
    return names


def share(text):
    try:
        x = float(text)
    except ValueError:
        x = 0
    if not 0 < x <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0 and up to 1")
    return x


def epochs(text):
    if not text.isdecimal() or int(text) < 3:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of epochs from 3 on")
    return int(text)


def numbers(text):
    try:
        return [] if text == "none" else [int(n) for n in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers") from None


class Kept:
    """What is done, in a file of the folder: the share of each shape, and the steps of each share."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, folder / "steps.json"
        self.all = json.loads(self.file.read_text()) if self.file.exists() else {"shares": {}, "runs": {}}

    def share(self, name, asked):
        """The share of a shape: that of before, the one that was asked for, or the largest that the disk has
        space for."""
        before = self.all["shares"].get(name, asked)
        if asked not in (None, before):
            raise NotDone(
                f"{self.folder} has a run of {name} with the share {before}: leave --share out to continue "
                "it, or remove the folder"
            )
        free, shape = shutil.disk_usage(self.folder).free + taken(self.folder), SHAPES[name]
        fits = free / (shape.disk * shape.vertices)
        if before is None:
            before = shape.largest if fits >= shape.largest else float(f"{0.95 * fits:.1g}")
        if before > fits:
            raise NotDone(
                f"a share of {before} of {name} needs {gigabytes(shape.disk * shape.vertices * before)} of "
                f"disk, and {gigabytes(free)} are free in {self.folder}: name another --folder, or take a "
                f"--share of {fits:.1g}"
            )
        self.all["shares"][name] = before
        return before

    def steps(self, name, part):
        return self.all["runs"].setdefault(f"{name} {part}", {})

    def write(self):
        written = self.file.with_suffix(".new")
        written.write_text(json.dumps(self.all))
        written.replace(self.file)


class Run:
    """The steps with one share of a shape."""

    def __init__(self, options, kept, tool, name, part):
        self.options, self.kept, self.tool, self.shape, self.share = options, kept, tool, SHAPES[name], part
        self.done, self.folder = kept.steps(name, part), options.folder / f"{name}-{part}"
        self.store, self.source = self.folder / "store", self.folder / self.shape.folder
        log(f"a share of {part} of {name} in {self.folder}")

    def steps(self, in_memory=False, from_disk=False):
        n, hosts = self.options.partitions, self.options.hosts if self.shape.models is SAGE else []
        self.step("graph", lambda: measured([self.tool, "graph", cleared(self.source), str(self.share)]))
        self.step(
            "import",
            lambda: measured(
                ["bin/weft", "import", "ogb", self.source, cleared(self.store), *self.shape.flags]
            ),
        )
        cleared(self.source)
        if in_memory:
            for model in self.shape.models:
                self.step(f"{model} in memory", lambda: self.train(model))
        for w in [1, *hosts] if from_disk else []:
            self.step(partition(w * n), lambda: self.divide(w * n))
            for model in self.shape.models:
                self.step(
                    f"{model} from disk" if w == 1 else f"{model} on {w} hosts", lambda: self.rested(model, w)
                )
            cleared(self.store / "partitions")
        if from_disk and self.shape.models is SAGE and self.options.workers:
            for k in self.options.workers:
                self.step(partition(k), lambda: self.divide(k))
                cleared(self.store / "partitions")
            self.step("plan", self.plan)
        if not self.options.keep:
            cleared(self.folder)

    def step(self, name, do):
        """Does a step, unless it is done."""
        if name in self.done:
            log(f"{name}: done before")
            return
        log(name)
        step = do()
        step["disk_bytes"] = taken(self.folder) + step.get("rests_bytes", 0)
        self.done[name] = step
        self.kept.write()

    def divide(self, k):
        step = measured(["bin/weft", "partition", self.store, "-k", str(k), "--method", "stream", "--json"])
        made = json.loads(step.pop("printed"))
        step |= {key: made[key] for key in ("cut_share", "vertex_balance", "edge_balance")}
        step |= {"edges": sum(made["edges"]), "halo_rows": made["replication_factor"] - 1}
        return step

    def train(self, model, *flags, launcher=()):
        out = cleared(self.folder / "run")
        settings = self.shape.models[model] | PRECISIONS["bf16"]
        command = [
            *launcher,
            "bin/weft",
            "train",
            self.store,
            *(f"--{name}={value}" for name, value in settings.items()),
            *flags,
            "--json",
        ]
        step = {}
        if "--offload" in flags:
            rests = step["rests_bytes"] = json.loads(measured([*command, "--show-plan"])["printed"]).get(
                "disk_bytes", 0
            )
            if rests > (
                free := shutil.disk_usage(self.folder).free
            ):  # weft does not know that virtual hosts have one disk
                raise NotDone(
                    f"{gigabytes(rests)} would rest in {self.folder}, and {gigabytes(free)} are free: name "
                    "another --folder, or a smaller --share"
                )
        step |= measured(
            [
                *command,
                "--epochs",
                str(self.options.epochs),
                "--eval-every",
                str(self.options.epochs),
                "--out",
                out,
            ],
            epochs=None if launcher else out / "metrics.jsonl",
        )
        run = json.loads(step.pop("printed"))
        for key in (
            "epoch_seconds",
            "peak_tensor_bytes",
            "graph_bytes",
            "losses",
            "test",
            "communication",
            "sent_bytes",
            "disk",
            "graph",
        ):
            step[key] = run.get(key)
        return step

    def rested(self, model, workers):
        """Trains with partitions that take turns, on so many hosts."""
        n = workers * self.options.partitions
        limit = int((self.shape.limit * self.share * self.shape.vertices + self.shape.copies * n) / workers)
        flags = [
            "--partitions",
            str(n),
            "--partition",
            "stream",
            "--offload",
            self.folder,
            "--memory-limit",
            str(limit),
        ]
        if workers == 1:
            return self.train(model, *flags)
        with hosts(workers, self.options.rate) as launcher:
            return self.train(
                model,
                *flags,
                "--parallel",
                f"graph={workers}",
                "--threads",
                "1",
                "--comm-timeout",
                "15m",
                launcher=launcher(workers),
            )

    def plan(self):
        """Plans for ogbn-papers100M from the counts of the generated graph: edges and halo rows for each
        vertex, and cut edges."""
        cases, vertices = [], self.done[f"{next(iter(SAGE))} from disk"]["graph"]["vertices"]
        for k in self.options.workers:
            counts = self.done[partition(k)]
            edges = round(self.shape.vertices * counts["edges"] / vertices)
            graph = {
                "workers": k,
                "vertices": self.shape.vertices,
                "edges": edges,
                "cut_share": counts["cut_share"],
                "halo_rows": counts["halo_rows"],
            }
            cases += [
                graph | {"settings": model | saved}
                for model in (SAGE | GAT).values()
                for saved in PRECISIONS.values()
            ]
        step = measured([self.tool, "plan"], json.dumps(cases))
        return step | {"plans": json.loads(step.pop("printed"))}


def partition(k):
    """The name of a step."""
    return f"partition into {k}"


def cleared(path):
    """A path, where a step that was interrupted leaves nothing."""
    shutil.rmtree(path, ignore_errors=True)
    return path


def taken(folder):
    """Bytes of disk of the files in a folder."""
    return sum(
        512 * os.lstat(os.path.join(at, name)).st_blocks for at, _, names in os.walk(folder) for name in names
    )


def measured(command, stdin="", epochs=None):
    """Runs a command to its end: what it printed, the seconds, the resident memory of its largest process,
    and the bytes that all its processes moved between memory and disk. Pages that the system still had are
    not read from disk. Of a training in one process, whose epochs are written to that file, also the
    processor seconds of the second, which has no evaluation."""
    begun, processor, shown = time.monotonic(), [], time.monotonic()
    with (
        tempfile.TemporaryFile("w+") as stderr,
        tempfile.TemporaryFile("w+") as printed,
        tempfile.TemporaryFile("w+") as asked,
    ):
        asked.write(stdin)
        asked.seek(0)
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *command],
            stdin=asked,
            stdout=printed,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        try:
            while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                time.sleep(0.1)
                if epochs and epochs.exists() and len(epochs.read_bytes().splitlines()) > len(processor):
                    processor.append(processor_seconds(process.pid))
                if time.monotonic() - shown >= SILENT:
                    shown = time.monotonic()
                    end = os.fstat(stderr.fileno()).st_size
                    tail = os.pread(stderr.fileno(), 1000, max(0, end - 1000)).decode(errors="replace")
                    log(f"  {shown - begun:.0f} s: {last_line(tail) if end else 'at work'}")
        except BaseException:
            process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        # Of a process that has ended and is not yet collected, with those that it collected itself
        moved = dict(
            line.split(": ") for line in pathlib.Path(f"/proc/{process.pid}/io").read_text().splitlines()
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            stderr.seek(0)
            raise subprocess.CalledProcessError(process.returncode, command, stderr=stderr.read())
        printed.seek(0)
        return {
            "seconds": time.monotonic() - begun,
            "processor_seconds": usage.ru_utime + usage.ru_stime,
            "peak_rss_bytes": 1024 * usage.ru_maxrss,
            "read_bytes": int(moved["read_bytes"]),
            "written_bytes": int(moved["write_bytes"]),
            "printed": printed.read(),
            "epoch_processor_seconds": processor[1] - processor[0] if len(processor) > 1 else None,
        }


def processor_seconds(process):
    """What a process has taken so far."""
    user, system = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def show(report):
    for run in report["runs"]:
        print(f"a share of {run['share']} of {run['shape']}\n")
        align(
            [["step", "", "seconds", "processor", "resident", "read", "written", "disk"]]
            + [
                [
                    name,
                    "",
                    f"{s['seconds']:.1f}",
                    f"{s['processor_seconds']:.1f}",
                    *(
                        gigabytes(s[key])
                        for key in ("peak_rss_bytes", "read_bytes", "written_bytes", "disk_bytes")
                    ),
                ]
                for name, s in run["steps"].items()
            ]
        )
    print(
        "the second epoch in bfloat16, and what it takes for each vertex; from disk partitions take turns; "
        f"hosts send at {report['rate']}"
    )
    align(
        [
            [
                "share of",
                "",
                "",
                "seconds",
                "processor",
                "written",
                "read",
                "sent",
                "tensors and graph",
                "resident",
            ]
        ]
        + [
            row
            for run in report["runs"]
            for name, s in run["steps"].items()
            if "epoch_seconds" in s
            for row in epoch(run, name, s)
        ]
    )
    for run in report["runs"]:
        if "plan" in run["steps"]:
            show_plan(run["steps"]["plan"]["plans"])


def epoch(run, name, s):
    """Two rows: of all vertices, and of each."""
    vertices, seconds, processor, disk = (
        s["graph"]["vertices"],
        s["epoch_seconds"][1],
        s["epoch_processor_seconds"],
        s["disk"] or {},
    )
    memory = max(map(sum, zip(s["peak_tensor_bytes"], s["graph_bytes"]))) * len(s["graph_bytes"])
    amounts = [
        disk.get("written", 0),
        disk.get("read", 0),
        s["communication"]["halo"]["bytes"],
        memory,
        s["peak_rss_bytes"] * len(s["graph_bytes"]),
    ]
    times = [seconds] if processor is None else [seconds, processor]
    yield [
        f"{run['share']} {run['shape']}",
        name,
        "",
        *(f"{t:.1f}" for t in times),
        *[""] * (2 - len(times)),
        *map(gigabytes, amounts),
    ]
    yield [
        "",
        f"{vertices:,}",
        "each",
        *(f"{1e6 * t / vertices:.1f} µs" for t in times),
        *[""] * (2 - len(times)),
        *(f"{n / vertices:,.0f} B" for n in amounts),
    ]


def show_plan(plans):
    print(
        f"the plan for ogbn-papers100M: {plans[0]['vertices']:,} vertices and {plans[0]['edges']:,} edges, "
        "GB of a worker"
    )
    rows = {}
    for p in plans:
        saved = {key: p["settings"].get(key) for key in ("precision", "recompute")}
        model = next(name for name, m in (SAGE | GAT).items() if m["model"] == p["settings"]["model"])
        row = rows.setdefault((model, p["workers"]), {"halo": p["halo_rows"] * p["vertices"]})
        name = next(
            name for name, s in PRECISIONS.items() if all(s.get(key) == value for key, value in saved.items())
        )
        row[name] = p["tensor_bytes"] + p["graph_bytes"]
        row[f"sent, {name}"] = p["sent_bytes"]
    align(
        [["model", "workers", *PRECISIONS, "sent, f32", "bf16", "halo rows, millions"]]
        + [
            [
                model,
                str(k),
                *(f"{row[name] / 1e9:.1f}" for name in PRECISIONS),
                *(f"{row[f'sent, {name}'] / 1e9:.0f}" for name in ("f32", "bf16")),
                f"{row['halo'] / 1e6:.0f}",
            ]
            for (model, k), row in rows.items()
        ]
    )


def gigabytes(n):
    return f"{n / 1e9:.2f} GB"


def align(rows):
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print(
            "  ".join(
                cell.ljust(w) if k < 2 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths))
            ).rstrip()
        )
    print(flush=True)


def log(line):
    print(f"{time.strftime('%T')}  {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    command(main)
