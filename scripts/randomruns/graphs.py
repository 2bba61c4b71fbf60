"""Small random graphs: tables and arrays, imported as stores."""

import csv
import dataclasses
import pathlib

import numpy as np

PARTS = ["train", "train", "train", "val", "test"]


@dataclasses.dataclass
class Graph:
    """A store, the flags of the task that its labels are of, and the kind of its labels."""

    store: pathlib.Path
    flags: dict
    labels: str = ""  # class, several or values; empty: link prediction
    edges: bool = False  # the labels are of edges

    def arrays(self):
        """The labels in the order of predictions.npy, and the ids of training, validation and test rows."""
        prefix = "edge_" if self.edges else ""
        files = [
            f
            for where in (".", "vertices/*", "edges/*")
            for f in self.store.glob(f"{where}/{prefix}labels.npy")
        ]
        (file,) = (f for f in files if "__rev_" not in str(f))
        return np.load(file), {
            part: np.load(file.parent / f"{prefix}{part}.npy") for part in ("train", "val", "test")
        }


def made(weft, folder, chance, task):
    """A graph for a task: vertex, edge or link. Some graphs have types, weights, features of edges, or few
    features."""
    labels = chance.choice(["class", "class", "several", "values"]) if task != "link" else ""
    arrays = task == "vertex" and labels == "several"  # a table has one label of a vertex
    typed = not arrays and chance.random() < 0.25
    vertices = chance.randint(30, 90)
    types = {"item": vertices, "user": chance.randint(10, 40)} if typed else {"": vertices}
    words = ["import", "edges"]
    weighted, featured = chance.random() < 0.3, chance.random() < 0.5
    relations = (
        [("rates", "user", "item"), ("likes", "item", "user" if chance.random() < 0.5 else "item")]
        if typed
        else [("", "", "")]
    )
    learned = (relations[0][0] + ":") if typed else ""
    for number, (name, source, target) in enumerate(relations):
        of_edges = labels if task == "edge" and number == 0 else ""
        file = folder / f"{name or 'edges'}.csv"
        _write_edges(file, chance, types[source], types[target], source, target, of_edges)
        words.append(f"{name}={file}" if typed else str(file))
    store = folder / "store"
    words += [str(store), "--source", "source", "--target", "target"]
    if arrays:
        x, y = _write_arrays(folder, chance, vertices)
        words += ["--vertices", str(vertices), "--features", str(x), "--labels", str(y)]
    for kind, count in types.items() if not arrays else ():
        file = folder / f"{kind or 'vertices'}.csv"
        _write_vertices(
            file,
            chance,
            kind,
            count,
            labels if task == "vertex" and kind in ("", "item") else "",
            chance.randint(1, 12),
        )
        words += ["--vertices-from", f"{kind}={file}" if kind else str(file)]
    if weighted and not typed:
        words += ["--edge-weights", "weight"]
    if featured and not typed:
        words += ["--edge-features", "amount"]
    flags = {}
    if task == "edge":
        column = "y,z" if labels == "several" else "value" if labels == "values" else "y"
        words += ["--edge-label", learned + column]
        flags = {"edge-label": learned + column}
        words += (
            ["--split", "column:" + learned + "part" if not typed else "column:part"]
            if chance.random() < 0.6
            else ["--split", "random:60/20/20"]
        )
        words += ["--reverse-relations"] if chance.random() < 0.4 else []
    elif task == "vertex":
        words += [] if arrays else ["--label", "label"]
        words += ["--split", chance.choice(["random:50/25/25", "random:60/30/10"]), "--splits", "2"]
        words += [f for f in ("--symmetrize", "--self-loops") if not typed and chance.random() < 0.3]
        words += ["--reverse-relations"] if typed and chance.random() < 0.6 else []
    else:
        flags = {"task": "link"}
        words += ["--reverse-relations"] if typed and chance.random() < 0.6 else []
    return weft(*words, "--quiet"), Graph(store, flags, labels, task == "edge")


def _write_edges(path, chance, sources, targets, source, target, labels):
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["source", "target", "weight", "amount", "part", "y", "z", "value"])
        for _ in range(chance.randint(2, 6) * max(sources, targets)):
            u, v = chance.randrange(sources), int(targets * chance.random() ** 2)
            bits = [(u + v) % (2 if labels == "several" else 3), chance.randrange(2)]
            if labels and chance.random() < 0.1 and labels != "values":
                bits[0] = ""
            rows.writerow(
                [
                    f"{source}{u}",
                    f"{target}{v}",
                    f"{chance.random() + 0.1:.3f}",
                    f"{chance.gauss(u % 3, 1):.3f}",
                    chance.choice(PARTS),
                    *bits,
                    f"{chance.gauss(u % 5, 1):.4f}",
                ]
            )


def _write_vertices(path, chance, kind, count, labels, columns):
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["id", *(f"x{k}" for k in range(columns)), *(["label"] if labels in ("class", "values") else [])]
        )
        for v in range(count):
            y = f"{chance.gauss(v % 5, 1):.4f}" if labels == "values" else f"c{v % 3}"
            rows.writerow(
                [
                    f"{kind}{v}",
                    *(f"{chance.gauss(v % 3, 1):.3f}" for _ in range(columns)),
                    *([y] if labels in ("class", "values") else []),
                ]
            )


def _write_arrays(folder, chance, count):
    x, y = folder / "features.npy", folder / "labels.npy"
    columns = chance.randint(1, 12)
    np.save(x, np.array([[chance.gauss(v % 3, 1) for _ in range(columns)] for v in range(count)], np.float32))
    np.save(y, np.array([[v % 2, chance.randrange(2), v % 3 == 0] for v in range(count)], np.float32))
    return x, y
