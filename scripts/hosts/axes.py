"""One worker and meshes of workers side by side: epochs, bytes, memory and accuracy. Run by `make
bench-axes`.

Models of given depths on graphs of skewed and of uniform degrees and on others: on this machine, and over
virtual hosts that send at given rates (network.py says what a host is), with a thread for each worker. Beside
what the workers sent stands what the formulas say, and for each number of workers the rows that the halos of
partitions by METIS take in a layer, beside those of the tensor axis's switches: where the first exceed the
second the tensor axis sends less. That table is arithmetic and trains nothing.

    axes.py [--graphs rmat,uniform,debian,PATH] [--scale 14] [--models gcn,sage,decoupled,gcnii,resgcn]
            [--layers 2,3,4,5] [--hidden 64] [--meshes graph=4 tensor=4 pipeline=4 graph=2,pipeline=2]
            [--rates 1gbit,100mbit] [--with '; --wire int8'] [--crossover 2,4,8,16] [--epochs 5] [--longest
            600] [--accuracy EPOCHS] [--json]

PATH is a store, or the archive of Map of GitHub, edges.npz, which gets features and labels drawn at random.
What weft refuses, what this machine has no memory for (all workers are processes on it) and what would be on
the wire too long is left out, and said. The tables go to standard output, or with --json one object; progress
goes to standard error. Exit status: 0 done, 1 where a run fails, 2 where hosts cannot be made here (`--rates
none` does without). Standard library only; hosts need root, iproute2 and Open MPI.
"""

import argparse
import contextlib
import itertools
import json
import math
import pathlib
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import zipfile

from network import Rate, between, command, hosts, result

CLASSES, DEGREE = 16, 16  # of the graphs that are made here
MODELS = {
    "gcn": ["gcn"],
    "sage": ["sage"],
    "decoupled": ["gcn", "--decoupled"],
    "gcnii": ["gcnii"],
    "resgcn": ["resgcn"],
}
HERE = "one machine"
FLOAT = 4  # bytes
SPARE = 0.8  # of the memory that is available, what tensors and graph may take


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--graphs",
        type=listed(str),
        default="rmat,uniform",
        metavar="GRAPH,…",
        help="rmat, uniform, a graph that weft knows, or the path of a store or of edges.npz",
    )
    parser.add_argument(
        "--scale",
        type=between(6, 24),
        default=14,
        metavar="N",
        help="rmat and uniform have 2^N vertices (default 14)",
    )
    parser.add_argument(
        "--models",
        type=listed(model),
        default="gcn,decoupled",
        metavar="MODEL,…",
        help=f"of {', '.join(MODELS)} (default gcn,decoupled)",
    )
    parser.add_argument(
        "--layers", type=listed(between(1, 64)), default="2,3,4,5", metavar="N,…", help="(default 2,3,4,5)"
    )
    parser.add_argument(
        "--hidden",
        type=between(4, 1024),
        default=64,
        metavar="N",
        help="width of hidden layers, and of features that are made here (default 64)",
    )
    parser.add_argument(
        "--meshes",
        type=Mesh,
        nargs="+",
        default=[Mesh(m) for m in ("graph=2", "graph=4", "tensor=2", "tensor=4")],
        metavar="MESH",
        help="as --parallel takes them (default graph=2 graph=4 tensor=2 tensor=4)",
    )
    parser.add_argument(
        "--with",
        dest="lists",
        type=lambda text: [part.split() for part in text.split(";")],
        default=[[]],
        metavar="FLAGS;…",
        help="flags of weft train for the meshes, and after a semicolon those for another row (default none)",
    )
    parser.add_argument(
        "--rates",
        type=listed(Rate),
        default="1gbit,100mbit",
        help="at which a host sends, or none (default 1gbit,100mbit)",
    )
    parser.add_argument(
        "--crossover",
        type=listed(between(2, 1024)),
        default="2,4,8,16",
        metavar="N,…",
        help="or none (default 2,4,8,16)",
    )
    parser.add_argument(
        "--epochs",
        type=between(2, 1000),
        default=5,
        metavar="N",
        help="of which the first does not count (default 5)",
    )
    parser.add_argument(
        "--longest",
        type=between(1, 86400),
        default=600,
        metavar="SECONDS",
        help="on the wire, of a run over hosts; longer ones are left out (default 600)",
    )
    parser.add_argument(
        "--accuracy",
        type=between(1, 10000),
        metavar="EPOCHS",
        help=(
            "train as many epochs for the accuracy, too: on one worker and on meshes that divide the layers; "
            "others train as one worker does"
        ),
    )
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    report = []
    with tempfile.TemporaryDirectory(prefix="weft-axes-") as folder:
        for name in options.graphs:
            report.append(Graph(name, options, pathlib.Path(folder)).report())
            if not options.json:
                show(report[-1])
    if options.json:
        print(json.dumps(report))
    return 0


def listed(parse):
    return lambda text: [] if text == "none" else [parse(part) for part in text.split(",")]


def model(text):
    if text not in MODELS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(MODELS)}")
    return text


class Mesh:
    """A mesh as --parallel takes it, with the workers along each axis, and in all."""

    def __init__(self, text):
        if text and not re.fullmatch(
            r"(graph|tensor|pipeline)=[1-9]\d{0,2}(,(graph|tensor|pipeline)=[1-9]\d{0,2})*", text
        ):
            raise argparse.ArgumentTypeError(
                f"{text!r} is no mesh; write it as in graph=4 or graph=2,pipeline=2"
            )
        along = {axis: int(n) for axis, n in (part.split("=") for part in text.split(",") if part)}
        self.text = text
        self.ways, self.slices, self.stages = (along.get(axis, 1) for axis in ("graph", "tensor", "pipeline"))
        self.workers = self.ways * self.slices * self.stages


class Graph:
    """A store, or a graph that weft knows, with the rows of the halos of its partitions."""

    def __init__(self, name, options, folder):
        self.name, self.options, self.folder = name, options, folder
        store, path = folder / pathlib.Path(name).stem, pathlib.Path(name)
        common = [str(store), "--features", str(options.hidden), "--classes", str(CLASSES)]
        if name == "rmat":
            weft("generate", "rmat", *common, "--scale", str(options.scale), "--edge-factor", str(DEGREE))
        elif name == "uniform":
            weft(
                "generate",
                "uniform",
                *common,
                "--vertices",
                str(1 << options.scale),
                "--degree",
                str(DEGREE),
                "--directed",
            )
        elif path.suffix == ".npz":
            archive = folder / "labelled.npz"
            label(path, archive)
            weft(
                "import",
                "npz",
                str(archive),
                str(store),
                "--symmetrize",
                "--random-features",
                str(options.hidden),
                "--split",
                "random:60/20/20",
            )
        else:
            store = name
        self.store, self.halos = str(store), {}

    def halo(self, ways):
        """How many rows all partitions together need of others, in so many partitions by METIS."""
        if ways not in self.halos:
            log(f"{self.name}: dividing it into {ways} partitions")
            stored = weft("partition", self.store, "-k", str(ways), "--json")
            self.halos[ways] = sum(map(sum, stored["halo_rows"]))
        return self.halos[ways]

    def report(self):
        tables = []
        for layers in self.options.layers:
            rows = []
            for name in self.options.models:
                rows.append((Mesh(""), self.row(name, layers, Mesh(""), [])))
                for mesh, flags in itertools.product(self.options.meshes, self.options.lists):
                    rows.append((mesh, self.row(name, layers, mesh, flags)))
            for rate in self.options.rates:
                for mesh, row in rows:
                    if mesh.text and "left_out" not in row:
                        self.over_hosts(row, layers, mesh, rate)
            tables.append({"layers": layers, "rows": [row for _, row in rows]})
        counts = weft("inspect", self.store, "--json")
        crossover = [
            {"workers": n, "halo_rows": self.halo(n), "switched_rows": 2 * counts["vertices"] * (n - 1) / n}
            for n in self.options.crossover
        ]
        return {
            "graph": self.name,
            **{key: counts[key] for key in ("vertices", "edges", "features", "classes")},
            "width": self.options.hidden,
            "tables": tables,
            "crossover": crossover,
        }

    def row(self, name, layers, mesh, flags):
        """A model on a mesh, with flags of weft train, on this machine."""
        row = {"model": name, "parallel": mesh.text, "flags": flags, "seconds": {}, "wire_seconds": {}}
        log(f"{self.name}, {layers} layers: {name}, {mesh.text or 'one worker'}, {' '.join([HERE, *flags])}")
        if mesh.ways > 1:
            self.halo(mesh.ways)  # before its partitions are needed
        arguments = self.arguments(row, layers, mesh)
        try:
            weft(*arguments, "--show-plan", "--memory-limit", str(int(SPARE * available() / mesh.workers)))
        except subprocess.CalledProcessError as refused:
            if refused.returncode != 2:
                raise
            row["left_out"] = refused.stderr.splitlines()[-1].removeprefix("weft: ")
            log(row["left_out"])
            return row
        run = self.train(arguments, self.options.epochs, self.options.epochs)
        moved = run["communication"]
        row["seconds"][HERE] = statistics.median(run["epoch_seconds"][1:])
        row |= {
            "sent_bytes": sum(moved[kind]["bytes"] for kind in ("halo", "layout", "stage")),
            "formula_bytes": self.formula(name, layers, mesh, run["graph"]),
            "gradient_bytes": moved["gradient"]["bytes"],
            "gradient_formula_bytes": 2 * (mesh.ways * mesh.slices - 1) * run["parameters"] * FLOAT,
            "most_sent_bytes": max(run["sent_bytes"]),
            "peak_tensor_bytes": max(run["peak_tensor_bytes"]),
            "graph_bytes": max(run["graph_bytes"]),
            "edge_balance": over_mean(run["edge_columns"]),
            "sent_balance": over_mean(run["sent_bytes"]),
        }
        if self.options.accuracy and (not mesh.text or mesh.stages > 1):
            log(
                f"{self.name}, {layers} layers: {name}, {mesh.text or 'one worker'}, {self.options.accuracy} "
                "epochs"
            )
            row["accuracy"] = self.train(arguments, self.options.accuracy, min(10, self.options.accuracy))[
                "test"
            ]
        return row

    def over_hosts(self, row, layers, mesh, rate):
        """Adds the epochs over hosts that send at a rate."""
        wire = row["wire_seconds"][rate.text] = rate.seconds(row["most_sent_bytes"])
        if wire * self.options.epochs > self.options.longest:
            log(
                f"{self.name}, {layers} layers: {row['model']}, {mesh.text}, {rate.text}: left out, "
                f"{wire:.0f} s an epoch on the wire"
            )
            return
        log(
            f"{self.name}, {layers} layers: {row['model']}, {mesh.text}, "
            f"{' '.join([rate.text, *row['flags']])}"
        )
        with hosts(mesh.workers, rate) as launcher:
            run = self.train(
                self.arguments(row, layers, mesh),
                self.options.epochs,
                self.options.epochs,
                launcher(mesh.workers),
            )
        row["seconds"][rate.text] = statistics.median(run["epoch_seconds"][1:])

    def arguments(self, row, layers, mesh):
        return [
            "train",
            self.store,
            "--model",
            *MODELS[row["model"]],
            *row["flags"],
            "--layers",
            str(layers),
            "--hidden",
            str(self.options.hidden),
            "--threads",
            "1",
            "--json",
            *(["--parallel", mesh.text, "--comm-timeout", "15m"] if mesh.text else []),
        ]

    def train(self, arguments, epochs, evaluate_every, launcher=()):
        """The results of a run, with the number of its parameters."""
        with tempfile.TemporaryDirectory(dir=self.folder) as out:
            run = result(
                [
                    *launcher,
                    "bin/weft",
                    *arguments,
                    "--epochs",
                    str(epochs),
                    "--eval-every",
                    str(evaluate_every),
                    "--out",
                    out,
                ]
            )
            with open(pathlib.Path(out) / "model.safetensors", "rb") as weights:
                header = json.loads(weights.read(int.from_bytes(weights.read(8), "little")))
            tensors = (tensor for name, tensor in header.items() if name != "__metadata__")
            return run | {"parameters": sum(math.prod(tensor["shape"]) for tensor in tensors)}

    def formula(self, name, layers, mesh, counts):
        """Bytes that all workers send in an epoch to move rows. Along the graph axis, in each layer, the
        narrower rows go to the workers that need them, and gradients back; along the tensor axis rows become
        slices and rows again, and so do gradients; along the pipeline axis the hidden rows pass each
        boundary, and gradients back."""
        halo = switched = self.columns(name, layers, mesh, counts)
        if name == "decoupled":  # aggregates logits, on slices all rounds between two switches
            halo, switched = counts["classes"] * layers, counts["classes"]
        passed = self.options.hidden * (2 if name == "gcnii" else 1)  # the first embeddings travel along
        numbers = 4 * counts["vertices"] * switched * (mesh.slices - 1) // mesh.slices
        numbers += 2 * (mesh.stages - 1) * counts["vertices"] * passed
        if mesh.ways > 1:
            numbers += int(2 * self.halo(mesh.ways) * halo)
        return numbers * FLOAT

    def columns(self, name, layers, mesh, counts):
        """Of what all layers of a coupled model aggregate in an epoch, forward and back."""
        features, hidden = counts["features"], self.options.hidden
        if name not in ("gcn", "sage"):  # between an encoder and a decoder
            return layers * hidden
        first = 0  # what is aggregated of the features is kept for all epochs
        if features > 2 * hidden or hidden <= features and mesh.stages > 1:
            first = hidden  # too wide to be kept, or not kept as no stage does: transformed first
        elif mesh.stages > 1:
            first = features / 2  # these want no gradient
        dims = [*[hidden] * (layers - 1), counts["classes"]]
        return first + sum(min(pair) for pair in itertools.pairwise(dims))


def available():
    """Bytes of memory that this machine has to spare."""
    return 1024 * int(re.search(r"MemAvailable: *(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])


def weft(*arguments):
    """What a command of weft prints with --json, or nothing."""
    if "--json" in arguments:
        return result(["bin/weft", *arguments])
    return result(["sh", "-c", '"$@" >&2 && echo null', "sh", "bin/weft", *arguments])


def label(source, archive):
    """An archive with the edges of another, and labels; the import replaces the column of features."""

    def npy(descr, shape, data):
        head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
        head += " " * (-(len(head) + 11) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data

    with zipfile.ZipFile(source) as edges, zipfile.ZipFile(archive, "w") as made:
        vertices = int.from_bytes(edges.read("num_nodes.npy")[-8:], "little")
        labels = random.Random(0).choices(range(CLASSES), k=vertices)
        made.writestr("edges.npy", edges.read("edges.npy"))
        made.writestr("node_features.npy", npy("<f4", (vertices, 1), bytes(FLOAT * vertices)))
        made.writestr("node_labels.npy", npy("<i8", (vertices,), struct.pack(f"<{vertices}q", *labels)))


def over_mean(amounts):
    return max(amounts) * len(amounts) / sum(amounts) if sum(amounts) else None


def show(graph):
    """Prints the tables of a graph."""
    print(
        f"{graph['graph']}: {graph['vertices']:,} vertices, {graph['edges']:,} edges, {graph['features']} "
        f"features, {graph['classes']} classes; hidden layers of {graph['width']}, a thread for each worker"
    )
    for table in graph["tables"]:
        done = [r for r in table["rows"] if "left_out" not in r]
        rates = list(dict.fromkeys(rate for r in done for rate in r["wire_seconds"]))
        accuracy = ["test"] if any("accuracy" in r for r in done) else []
        head = [
            f"{table['layers']} layers",
            "parallel",
            *(f"epoch, {p}" for p in [HERE, *rates]),
            *(f"wire, {p}" for p in rates),
            "moved",
            "÷ formula",
            "gradients",
            "÷ formula",
            "tensors",
            "graph",
            "edges ÷ mean",
            "sent ÷ mean",
            *accuracy,
            "flags",
        ]
        rows = []
        for r in done:
            rows.append(
                [
                    r["model"],
                    r["parallel"] or "one worker",
                    *(seconds(r["seconds"].get(p)) for p in [HERE, *rates]),
                    *(seconds(r["wire_seconds"].get(p)) for p in rates),
                    megabytes(r["sent_bytes"]),
                    ratio(r["sent_bytes"], r["formula_bytes"]),
                    megabytes(r["gradient_bytes"]),
                    ratio(r["gradient_bytes"], r["gradient_formula_bytes"]),
                    megabytes(r["peak_tensor_bytes"]),
                    megabytes(r["graph_bytes"]),
                    number(r["edge_balance"]),
                    number(r["sent_balance"]),
                    *([percent(r.get("accuracy"))] if accuracy else []),
                    " ".join(r["flags"]),
                ]
            )
        align([head, *rows])
        for r in table["rows"]:
            if "left_out" in r:
                print(f"left out: {r['model']}, {r['parallel'] or 'one worker'}: {r['left_out']}\n")
    if graph["crossover"]:
        rows = [
            [
                str(c["workers"]),
                f"{c['halo_rows']:,}",
                f"{c['switched_rows']:,.0f}",
                number(c["halo_rows"] / c["switched_rows"]),
            ]
            for c in graph["crossover"]
        ]
        print(
            "rows that a layer moves forward; where the halos have more than the switches the tensor axis "
            "sends less"
        )
        align([["workers", "halos", "switches", "halos ÷ switches"], *rows])


def seconds(x):
    return "" if x is None else f"{x:.3f} s"


def megabytes(n):
    return f"{n / 1e6:.1f} MB"


def ratio(a, b):
    return f"{a / b:.4f}" if b else ""


def percent(x):
    return "" if x is None else f"{100 * x:.2f} %"


def number(x):
    return "" if x is None else f"{x:.2f}"


def align(rows):
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print(
            "  ".join(
                cell.rjust(w) if 2 <= k < len(row) - 1 else cell.ljust(w)
                for k, (cell, w) in enumerate(zip(row, widths))
            ).rstrip()
        )
    print(flush=True)


def log(line):
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    command(main)
