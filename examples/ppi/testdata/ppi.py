# Writes the files of a small PPI and expected.json, the graphs that PyTorch Geometric (PyG) makes of them.
# How to run, with torch, torch_geometric, networkx and numpy:
#   python3 examples/ppi/testdata/ppi.py
"""Five graphs of 3 to 5 vertices: two to train on, one to validate, two to test. Edges of one file are
directed. There are self loops, an edge between two graphs, and one that stands in both directions of an
undirected graph."""

import json
import pathlib
import shutil
import tempfile

import networkx as nx
import numpy as np
from torch_geometric.data import Batch
from torch_geometric.datasets import PPI

HERE = pathlib.Path(__file__).resolve().parent
random = np.random.default_rng(3)


def part(name, sizes, first, directed, extra=()):
    n, at = sum(sizes), 0
    g = nx.DiGraph() if directed else nx.Graph()
    g.add_nodes_from(range(n))
    for size in sizes:
        for u, v in random.integers(size, size=(3 * size, 2)).tolist():
            g.add_edge(at + u, at + v)
        at += size
    written = nx.node_link_data(g)
    written["links"] += [{"source": u, "target": v} for u, v in extra]
    (HERE / f"{name}_graph.json").write_text(json.dumps(written))
    np.save(HERE / f"{name}_feats.npy", random.random((n, 4)))
    np.save(HERE / f"{name}_labels.npy", random.integers(2, size=(n, 3)))
    np.save(HERE / f"{name}_graph_id.npy", np.repeat(np.arange(first, first + len(sizes)), sizes))
    u, v = next((u, v) for u, v in g.edges if u != v)
    return v, u


back = part("train", [5, 4], 1, False)
part("valid", [4], 3, True)
part("test", [3, 4], 4, False, [(0, 6)])
text = json.loads((HERE / "train_graph.json").read_text())
text["links"].append(dict(zip(("source", "target"), back)))
(HERE / "train_graph.json").write_text(json.dumps(text))

with tempfile.TemporaryDirectory() as root:
    raw = pathlib.Path(root) / "raw"
    raw.mkdir()
    for file in [*HERE.glob("*.npy"), *HERE.glob("*_graph.json")]:
        shutil.copy(file, raw)
    parts = [list(PPI(root, split=name)) for name in ("train", "val", "test")]
b = Batch.from_data_list(sum(parts, []))
bounds = np.cumsum([0] + [sum(g.num_nodes for g in p) for p in parts]).tolist()
expected = {
    "x": b.x.tolist(),
    "y": b.y.tolist(),
    "batch": b.batch.tolist(),
    "edges": sorted(b.edge_index.t().tolist(), key=lambda e: (e[1], e[0])),
    "splits": [list(range(*bounds[k : k + 2])) for k in range(3)],
}
(HERE / "expected.json").write_text(json.dumps(expected) + "\n")
