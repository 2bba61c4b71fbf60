"""One worker, the graph axis and the tensor axis side by side: epochs, bytes and memory. Run by `make bench-axes`.

GCN, coupled and decoupled, on graphs of skewed and of uniform degrees and on those given by path, with 2 to 5 layers: on
this machine, and over virtual hosts that send at given rates (network.py says what a host is), with a thread for each
worker. Beside what the workers sent stands what the formulas say, and for each number of workers the rows that the halos
of partitions by METIS take in a layer, beside those of the tensor axis's switches: where the first exceed the second
the tensor axis sends less. That table is arithmetic and trains nothing.

    axes.py [--graphs rmat,uniform,PATH] [--scale 14] [--layers 2,3,4,5] [--workers 2,4] [--rates 1gbit,100mbit]
            [--crossover 2,4,8,16] [--epochs 5] [--json]

PATH is a store, or the archive of Map of GitHub, edges.npz, which gets features and labels drawn at random. The tables go
to standard output, or with --json one object; progress goes to standard error. Exit status: 0 done, 1 where a run fails, 2
where hosts cannot be made here (`--rates none` does without). Standard library only; hosts need root, iproute2 and Open MPI.
"""
import argparse
import contextlib
import itertools
import json
import pathlib
import random
import statistics
import struct
import sys
import tempfile
import zipfile

from network import Rate, between, command, hosts, result

WIDTH, CLASSES, DEGREE = 64, 16, 16  # of features and hidden layers; of the graphs that are made here
HERE = "one machine"
FLOAT = 4  # bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--graphs", type=listed(str), default="rmat,uniform", help="rmat, uniform, or the path of a store or of edges.npz")
    parser.add_argument("--scale", type=between(6, 24), default=14, metavar="N", help="rmat and uniform have 2^N vertices (default 14)")
    parser.add_argument("--layers", type=listed(between(1, 64)), default="2,3,4,5", metavar="N,…", help="(default 2,3,4,5)")
    parser.add_argument("--workers", type=listed(between(2, 64)), default="2,4", metavar="N,…", help="(default 2,4)")
    parser.add_argument("--rates", type=rates, default="1gbit,100mbit", help="at which a host sends, or none (default 1gbit,100mbit)")
    parser.add_argument("--crossover", type=listed(between(2, 1024)), default="2,4,8,16", metavar="N,…", help="(default 2,4,8,16)")
    parser.add_argument("--epochs", type=between(2, 1000), default=5, metavar="N", help="of which the first does not count (default 5)")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    report = []
    with tempfile.TemporaryDirectory(prefix="weft-axes-") as folder:
        for name in options.graphs:
            report.append(Graph(name, options.scale, pathlib.Path(folder)).report(options))
            if not options.json:
                show(report[-1])
    if options.json:
        print(json.dumps(report))
    return 0


def listed(of):
    return lambda text: [of(part) for part in text.split(",")]


def rates(text):
    return [] if text == "none" else listed(Rate)(text)


class Graph:
    """A store, with the rows of the halos of its partitions."""

    def __init__(self, name, scale, folder):
        self.name, self.folder = name, folder
        store, path = folder / pathlib.Path(name).stem, pathlib.Path(name)
        common = [str(store), "--features", str(WIDTH), "--classes", str(CLASSES)]
        if name == "rmat":
            weft("generate", "rmat", *common, "--scale", str(scale), "--edge-factor", str(DEGREE))
        elif name == "uniform":
            weft("generate", "uniform", *common, "--vertices", str(1 << scale), "--degree", str(DEGREE), "--directed")
        elif path.suffix == ".npz":
            archive = folder / "labelled.npz"
            label(path, archive)
            weft("import", "npz", str(archive), str(store), "--symmetrize", "--random-features", str(WIDTH), "--split", "random:60/20/20")
        else:
            store = path
        self.store, self.halos = str(store), {}

    def halo(self, workers):
        """How many rows all partitions together need of others, in so many partitions by METIS."""
        if workers not in self.halos:
            log(f"{self.name}: dividing it into {workers} partitions")
            stored = weft("partition", self.store, "-k", str(workers), "--json")
            self.halos[workers] = sum(map(sum, stored["halo_rows"]))
        return self.halos[workers]

    def report(self, options):
        tables = []
        for layers in options.layers:
            rows = {}
            for place, model, mesh in runs(options):
                axis, workers = mesh or ("", 1)
                if axis == "graph":
                    self.halo(workers)  # before its partitions are needed
                row = rows.setdefault((model, axis, workers), {"model": model, "parallel": f"{axis}={workers}" if axis else "", "seconds": {}, "wire_seconds": {}})
                log(f"{self.name}, {layers} layers: {model}, {row['parallel'] or 'one worker'}, {place.text if place else HERE}")
                run = self.train(model, layers, mesh, place, options.epochs)
                counts = run["graph"]
                row["seconds"][place.text if place else HERE] = statistics.median(run["epoch_seconds"][1:])
                if place:
                    row["wire_seconds"][place.text] = place.seconds(max(run["sent_bytes"]))
                    continue
                moved = run["communication"]
                row |= {
                    "sent_bytes": moved["halo"]["bytes"] + moved["layout"]["bytes"],
                    "formula_bytes": self.formula(model, layers, mesh, counts),
                    "peak_tensor_bytes": max(run["peak_tensor_bytes"]), "graph_bytes": max(run["graph_bytes"]),
                    "edge_balance": over_mean(run["edge_columns"]), "sent_balance": over_mean(run["sent_bytes"]),
                }
            tables.append({"layers": layers, "rows": list(rows.values())})
        crossover = [{"workers": n, "halo_rows": self.halo(n), "switched_rows": 2 * counts["vertices"] * (n - 1) / n} for n in options.crossover]
        return {"graph": self.name, **counts, "width": WIDTH, "tables": tables, "crossover": crossover}

    def train(self, model, layers, mesh, rate, epochs):
        axis, workers = mesh or ("", 1)
        arguments = ["train", self.store, "--model", "gcn", "--layers", str(layers), "--hidden", str(WIDTH), "--threads", "1",
                     "--epochs", str(epochs), "--eval-every", str(epochs), "--json"]
        arguments += ["--decoupled"] * (model == "decoupled") + ["--parallel", f"{axis}={workers}"] * bool(mesh)
        with contextlib.ExitStack() as stack:
            launcher = stack.enter_context(hosts(workers, rate))(workers) if rate else []
            out = stack.enter_context(tempfile.TemporaryDirectory(dir=self.folder))
            return result([*launcher, "bin/weft", *arguments, "--out", out])

    def formula(self, model, layers, mesh, counts):
        """Bytes that all workers send in an epoch to move rows: in each layer the narrower rows go to the workers that
        need them, and gradients back; or rows become slices and rows again, and so do gradients. The first layer of the
        coupled model aggregates features, once for all epochs. The decoupled model aggregates logits, on slices all
        rounds between two switches."""
        if not mesh:
            return 0
        axis, workers = mesh
        dims = [counts["features"], *[WIDTH] * (layers - 1), counts["classes"]]
        columns = sum(min(pair) for pair in itertools.pairwise(dims[1:]))
        if dims[0] > 2 * dims[1]:  # too wide to be kept: transformed first
            columns += dims[1]
        if model == "decoupled":
            columns = counts["classes"] * (layers if axis == "graph" else 1)
        if axis == "graph":
            return 2 * self.halo(workers) * columns * FLOAT
        return 4 * counts["vertices"] * columns * FLOAT * (workers - 1) // workers


def runs(options):
    """Where, which model and on which mesh; first all on this machine."""
    meshes = [None, *itertools.product(("graph", "tensor"), options.workers)]
    for place in [None, *options.rates]:
        for model in ("coupled", "decoupled"):
            for mesh in meshes:
                if mesh or not place:
                    yield place, model, mesh


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
    print(f"{graph['graph']}: {graph['vertices']:,} vertices, {graph['edges']:,} edges, {graph['features']} features, "
          f"{graph['classes']} classes; GCN, hidden layers of {graph['width']}, a thread for each worker")
    for table in graph["tables"]:
        places = list(table["rows"][-1]["seconds"])
        head = [f"{table['layers']} layers", "parallel", *(f"epoch, {p}" for p in places), *(f"wire, {p}" for p in places[1:]),
                "moved", "÷ formula", "tensors", "graph", "edges ÷ mean", "sent ÷ mean"]
        rows = []
        for r in table["rows"]:
            rows.append([r["model"], r["parallel"] or "one worker", *(seconds(r["seconds"].get(p)) for p in places),
                         *(seconds(r["wire_seconds"].get(p)) for p in places[1:]), megabytes(r["sent_bytes"]),
                         ratio(r["sent_bytes"], r["formula_bytes"]), megabytes(r["peak_tensor_bytes"]), megabytes(r["graph_bytes"]),
                         number(r["edge_balance"]), number(r["sent_balance"])])
        align([head, *rows])
    rows = [[str(c["workers"]), f"{c['halo_rows']:,}", f"{c['switched_rows']:,.0f}", number(c["halo_rows"] / c["switched_rows"])]
            for c in graph["crossover"]]
    print("rows that a layer moves forward; where the halos have more than the switches the tensor axis sends less")
    align([["workers", "halos", "switches", "halos ÷ switches"], *rows])


def seconds(x):
    return "" if x is None else f"{x:.3f} s"


def megabytes(n):
    return f"{n / 1e6:.1f} MB"


def ratio(a, b):
    return f"{a / b:.4f}" if b else ""


def number(x):
    return "" if x is None else f"{x:.2f}"


def align(rows):
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(w) if k < 2 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths))).rstrip())
    print(flush=True)


def log(line):
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    command(main)
