#!/usr/bin/env python3
"""Writes the protein interaction graphs of PPI (Hamilton et al. 2017) as one archive for weft:

    python3 examples/ppi/ppi.py PPI/raw ppi.npz
    weft import npz ppi.npz stores/ppi
    weft train stores/ppi --model gat --norm layer

PPI/raw is the folder that PyTorch Geometric and DGL download. For each of train, valid and test it has
PART_graph.json, PART_feats.npy, PART_labels.npy and PART_graph_id.npy. The graphs become one, block-diagonal,
with the training graphs first, and the split is that of the files. As in PyTorch Geometric each edge is there
once, in both directions unless the file says that it is directed, and self loops and edges between two graphs
are left out."""

import json
import pathlib
import sys

import numpy as np

PARTS = ("train", "valid", "test")


def edges_of(folder: pathlib.Path, part: str, graph: np.ndarray) -> np.ndarray:
    """Returns the edges of a part, 2 x their number, of vertices that are counted from 0."""
    described = json.loads((folder / f"{part}_graph.json").read_text())
    links = described.get("links", described.get("edges"))  # the second since networkx 3.4
    ends = np.array([(link["source"], link["target"]) for link in links], np.int64).reshape(-1, 2)
    if not described.get("directed"):
        ends = np.concatenate([ends, ends[:, ::-1]])
    source, target = np.unique(ends, axis=0).T
    kept = (source != target) & (graph[source] == graph[target])
    return np.stack([source[kept], target[kept]])


def archive(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the arrays of all parts, under the names of the fields of PyTorch Geometric's Data."""
    arrays = {
        name: [np.load(folder / f"{part}_{name}.npy") for part in PARTS]
        for name in ("feats", "labels", "graph_id")
    }
    sizes = [len(graph) for graph in arrays["graph_id"]]
    first = np.cumsum([0, *sizes])  # vertex of each part
    part = np.repeat(np.arange(len(PARTS)), sizes)
    graph = np.unique([part, np.concatenate(arrays["graph_id"])], axis=1, return_inverse=True)[1]  # from 0
    edges = [
        edges_of(folder, name, graph) + start for name, graph, start in zip(PARTS, arrays["graph_id"], first)
    ]
    return {
        "x": np.concatenate(arrays["feats"]).astype(np.float32),
        "y": np.concatenate(arrays["labels"]).astype(np.float32),  # a column for each label
        "edge_index": np.concatenate(edges, axis=1),
        "batch": graph.reshape(-1),
        "train_mask": part == 0,
        "val_mask": part == 1,
        "test_mask": part == 2,
    }


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} FOLDER FILE.npz")
    np.savez(sys.argv[2], **archive(pathlib.Path(sys.argv[1])))
