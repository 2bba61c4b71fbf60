"""A graph of the shape of ogbn-papers100M, from OGB's files to epochs on one worker and on virtual hosts: what each step
takes. Then the plan for the whole ogbn-papers100M on more workers. Run by `make papers`.

    papers.py [--share 0.1] [--folder stores/papers] [--partitions 16] [--memory-limit BYTES] [--epochs 2] [--hosts 2,4]
              [--rate 1gbit] [--workers 16,32,64,128] [--keep] [--json]

graph       writes a generated graph in OGB's layout (graph.go): a share of the vertices and edges, all features and classes
import      makes its store, with each edge in both directions, and removes OGB's files
partition   divides it, by the method stream
train       trains SAGE 3×256 in bfloat16 on one worker. Its partitions take turns, and matrices rest in the folder.
            Then the same, with as many partitions each, on virtual hosts (../hosts/network.py)
partition   divides it among as many workers as are planned, for the counts alone
plan        plans for the whole graph on so many workers (plan.go), with the halos that the generated graph has

The folder keeps what is done. The same command continues after an interrupt, at the step that was interrupted. At the end
the folder is removed, unless --keep is given. A tenth of the graph takes up to 60 GB of disk: with less the share is smaller.
The tables go to standard output, or with --json one object; progress goes to standard error. Exit status: 0 done, 1 where a
step fails, 2 where hosts cannot be made here (`--hosts none` does without). Standard library only; hosts need root,
iproute2 and Open MPI.
"""
import argparse
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
from network import GRACE, NotDone, Rate, command, hosts  # noqa: E402

VERTICES, EDGES = 111_059_956, 1_615_685_872  # of ogbn-papers100M, with each edge in one direction
DISK = 600e9  # bytes that the whole graph would take: mostly matrices at rest
MEMORY, COPIES = 160e9, 24e6  # bytes of all workers: 16 GB for a tenth, on a machine with 24 GB; a partition's weights and their state
LARGEST = 0.1
MODELS = {
    "SAGE 3×256": {"model": "sage", "layers": "3", "hidden": "256", "norm": "batch"},
    "GAT 3×128, 4 heads": {"model": "gat", "layers": "3", "hidden": "128", "heads": "4", "norm": "batch"},
}
PRECISIONS = {"f32": {}, "bf16": {"precision": "bf16"}, "bf16, recomputed": {"precision": "bf16", "recompute": "blocks"}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--share", type=share, metavar="X", help="of ogbn-papers100M (default 0.1, or what the disk has space for)")
    parser.add_argument("--folder", type=pathlib.Path, default="stores/papers", help="where files are made (default stores/papers)")
    parser.add_argument("--partitions", type=int, default=16, metavar="N", help="of each worker, that take turns (default 16)")
    parser.add_argument("--memory-limit", type=int, metavar="BYTES", help="of all workers together (default 160 GB times the share, and 24 MB for each partition)")
    parser.add_argument("--epochs", type=int, default=2, metavar="N", help="(default 2)")
    parser.add_argument("--hosts", type=numbers, default="2,4", metavar="N,…", help="or none (default 2,4)")
    parser.add_argument("--rate", type=Rate, default="1gbit", help="at which a host sends (default 1gbit)")
    parser.add_argument("--workers", type=numbers, default="16,32,64,128", metavar="N,…", help="to plan for, or none (default 16,32,64,128)")
    parser.add_argument("--keep", action="store_true", help="keep the folder at the end")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    if options.hosts and os.geteuid() != 0:
        raise NotDone("virtual hosts need root; --hosts none does without")
    run = Run(options)
    run.steps()
    report = run.report()
    if not options.keep:
        shutil.rmtree(options.folder)
    print(json.dumps(report)) if options.json else show(report)
    return 0


def share(text):
    try:
        x = float(text)
    except ValueError:
        x = 0
    if not 0 < x <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0 and up to 1")
    return x


def numbers(text):
    try:
        return [] if text == "none" else [int(n) for n in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers") from None


class Run:
    """The steps, of which those that are done stand in a file of the folder."""

    def __init__(self, options):
        self.options, self.folder = options, options.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.folder / "steps.json"
        self.kept = json.loads(self.file.read_text()) if self.file.exists() else {"share": self.choose()}
        if options.share not in (None, self.kept["share"]):
            raise NotDone(f"{self.folder} has a run of the share {self.kept['share']}: leave --share out to continue it, or remove the folder")
        self.share = self.kept["share"]
        self.store, self.tool = self.folder / "store", self.folder / "papers"
        # Under the name that tells weft's import which dataset it is
        self.source = self.folder / "ogbn_papers100M"

    def choose(self):
        """The share that was asked for, or the largest that the disk has space for."""
        free = shutil.disk_usage(self.folder).free
        fits = free / DISK
        if self.options.share is None:
            return LARGEST if fits >= LARGEST else float(f"{fits:.1g}")
        if self.options.share > fits:
            log(f"{free / 1e9:.0f} GB are free, and a share of {self.options.share} may need {DISK * self.options.share / 1e9:.0f} GB")
        return self.options.share

    def steps(self):
        log(f"a share of {self.share} of ogbn-papers100M in {self.folder}")
        subprocess.run(["go", "build", "-o", self.tool, "./scripts/papers"], check=True, capture_output=True, text=True)
        self.step("graph", lambda: measured([self.tool, "graph", cleared(self.source), str(self.share)]))
        self.step("import", lambda: measured(["bin/weft", "import", "ogb", self.source, cleared(self.store), "--symmetrize"]))
        shutil.rmtree(self.source, ignore_errors=True)
        for w in [1, *self.options.hosts]:
            self.step(partition(w * self.options.partitions), lambda: self.divide(w * self.options.partitions))
            self.step("train" if w == 1 else f"train on {w} hosts", lambda: self.over_hosts(w) if w > 1 else self.train(w, []))
            cleared(self.store / "partitions")
        for k in self.options.workers:
            self.step(partition(k), lambda: self.divide(k))
            cleared(self.store / "partitions")
        if self.options.workers:
            self.step("plan", self.plan)

    def step(self, name, do):
        """Does a step, unless it is done."""
        if name in self.kept.setdefault("steps", {}):
            log(f"{name}: done before")
            return
        log(name)
        self.kept["steps"][name] = do()
        written = self.file.with_suffix(".new")
        written.write_text(json.dumps(self.kept))
        written.replace(self.file)

    def divide(self, k):
        step = measured(["bin/weft", "partition", self.store, "-k", str(k), "--method", "stream", "--json"])
        made = json.loads(step.pop("printed"))
        step |= {key: made[key] for key in ("cut_share", "vertex_balance", "edge_balance")}
        step |= {"vertices": sum(made["vertices"]), "edges": sum(made["edges"]), "halo_rows": made["replication_factor"] - 1}
        return step

    def train(self, workers, launcher, *more):
        n, out = workers * self.options.partitions, cleared(self.folder / "run")
        limit = int((self.options.memory_limit or MEMORY * self.share + COPIES * n) / workers)
        flags = [f"--{name}={value}" for name, value in (MODELS["SAGE 3×256"] | PRECISIONS["bf16"]).items()]
        step = measured([*launcher, "bin/weft", "train", self.store, *flags, "--epochs", str(self.options.epochs), "--eval-every", str(self.options.epochs),
                         "--partitions", str(n), "--partition", "stream", "--offload", self.folder,
                         "--memory-limit", str(limit), "--out", out, "--json", *more])
        run = json.loads(step.pop("printed"))
        step |= {"memory_limit": limit, "partitions": n}
        for key in ("epoch_seconds", "peak_tensor_bytes", "graph_bytes", "losses", "test", "communication", "sent_bytes", "disk"):
            step[key] = run.get(key)
        return step

    def over_hosts(self, workers):
        with hosts(workers, self.options.rate) as launcher:
            return self.train(workers, launcher(workers), "--parallel", f"graph={workers}", "--threads", "1", "--comm-timeout", "15m")

    def plan(self):
        """Plans for ogbn-papers100M from the counts of the generated graph: edges and halo rows for each vertex, and cut edges."""
        cases = []
        for k in self.options.workers:
            counts = self.kept["steps"][partition(k)]
            edges = round(VERTICES * counts["edges"] / counts["vertices"])
            graph = {"workers": k, "vertices": VERTICES, "edges": edges, "cut_share": counts["cut_share"], "halo_rows": counts["halo_rows"]}
            cases += [graph | {"settings": model | saved} for model in MODELS.values() for saved in PRECISIONS.values()]
        step = measured([self.tool, "plan"], json.dumps(cases))
        return step | {"plans": json.loads(step.pop("printed"))}

    def report(self):
        return self.kept | {"rate": self.options.rate.text}


def partition(k):
    """The name of a step."""
    return f"partition into {k}"


def cleared(path):
    """A path, where a step that was interrupted leaves nothing."""
    shutil.rmtree(path, ignore_errors=True)
    return path


def measured(command, given=""):
    """Runs a command to its end: what it printed, the seconds, the resident memory of its largest process, and the bytes
    that all its processes moved between memory and disk. Pages that the system still had are not read from disk."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as asked:
        asked.write(given)
        asked.seek(0)
        process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], stdin=asked, stdout=printed, stderr=said,
                                   text=True, start_new_session=True)
        try:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        except BaseException:
            process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        # Of a process that has ended and is not yet collected, with those that it collected itself
        moved = dict(line.split(": ") for line in pathlib.Path(f"/proc/{process.pid}/io").read_text().splitlines())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            said.seek(0)
            raise subprocess.CalledProcessError(process.returncode, command, stderr=said.read())
        printed.seek(0)
        return {"seconds": time.monotonic() - begun, "processor_seconds": usage.ru_utime + usage.ru_stime, "peak_rss_bytes": 1024 * usage.ru_maxrss,
                "read_bytes": int(moved["read_bytes"]), "written_bytes": int(moved["write_bytes"]), "printed": printed.read()}


def show(report):
    steps = report["steps"]
    counts = next(step for name, step in steps.items() if name.startswith("partition"))
    print(f"a share of {report['share']} of ogbn-papers100M: {counts['vertices']:,} vertices, {counts['edges']:,} edges in both directions\n")
    align([["step", "", "seconds", "processor", "resident", "read", "written"]] +
          [[name, "", f"{s['seconds']:.1f}", f"{s['processor_seconds']:.1f}", gigabytes(s["peak_rss_bytes"]), gigabytes(s["read_bytes"]),
            gigabytes(s["written_bytes"])] for name, s in steps.items()])
    trained = {name: s for name, s in steps.items() if name.startswith("train")}
    print(f"SAGE 3×256 in bfloat16, partitions that take turns, hosts at {report['rate']}: a worker, and the last epoch")
    align([["", "", "partitions", "memory limit", "tensors", "graph", "seconds", "written", "read", "sent", "loss"]] +
          [[name, "", str(s["partitions"]), gigabytes(s["memory_limit"]), gigabytes(max(s["peak_tensor_bytes"])), gigabytes(max(s["graph_bytes"])),
            f"{s['epoch_seconds'][-1]:.1f}", *(gigabytes((s["disk"] or {}).get(way, 0)) for way in ("written", "read")),
            gigabytes(s["communication"]["halo"]["bytes"]), f"{s['losses'][-1]:.4f}"] for name, s in trained.items()])
    if "plan" not in steps:
        return
    print(f"the plan for ogbn-papers100M: {VERTICES:,} vertices and {steps['plan']['plans'][0]['edges']:,} edges, GB of a worker")
    rows = {}
    for p in steps["plan"]["plans"]:
        saved = {key: p["settings"].get(key) for key in ("precision", "recompute")}
        model = next(name for name, m in MODELS.items() if m["model"] == p["settings"]["model"])
        row = rows.setdefault((model, p["workers"]), {"halo": p["halo_rows"] * VERTICES})
        name = next(name for name, s in PRECISIONS.items() if all(s.get(key) == value for key, value in saved.items()))
        row[name] = p["tensor_bytes"] + p["graph_bytes"]
        row[f"sent, {name}"] = p["sent_bytes"]
    align([["model", "workers", *PRECISIONS, "sent, f32", "bf16", "halo rows, millions"]] +
          [[model, str(k), *(f"{row[name] / 1e9:.1f}" for name in PRECISIONS), *(f"{row[f'sent, {name}'] / 1e9:.0f}" for name in ("f32", "bf16")),
            f"{row['halo'] / 1e6:.0f}"] for (model, k), row in rows.items()])


def gigabytes(n):
    return f"{n / 1e9:.2f} GB"


def align(rows):
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(w) if k < 2 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths))).rstrip())
    print(flush=True)


def log(line):
    print(f"{time.strftime('%T')}  {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    command(main)
