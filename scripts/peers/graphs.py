"""The graph of a store as NumPy arrays, in the forms that the peers want."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class Structure:
    """In-neighbours of v: sources[indptr[v]:indptr[v + 1]]. indptr is int64, sources int32, as in the
    store."""

    indptr: np.ndarray
    sources: np.ndarray

    @property
    def vertices(self) -> int:
        return len(self.indptr) - 1

    def degrees(self) -> np.ndarray:
        return np.diff(self.indptr)

    def destinations(self) -> np.ndarray:
        """The destination of each edge, in the order of sources."""
        return np.repeat(np.arange(self.vertices, dtype=np.int32), self.degrees())

    def with_self_loops(self) -> "Structure":
        """Exactly one self loop for each vertex, which is what GCN and GAT of weft and PyG work on."""
        destinations = self.destinations()
        kept = self.sources != destinations
        degrees = np.bincount(destinations[kept], minlength=self.vertices) + 1
        indptr = np.concatenate([[0], np.cumsum(degrees)])
        sources = np.empty(indptr[-1], np.int32)
        others = np.ones(len(sources), bool)
        others[indptr[:-1]] = False
        sources[others] = self.sources[kept]
        sources[indptr[:-1]] = np.arange(self.vertices)
        return Structure(indptr, sources)


@dataclass
class Graph:
    """features: V × F float32; labels: V int64, -1 for none; train: ids of the training vertices;
    edge_features: E × columns float32 in the order of the structure's sources, None where the store has
    none."""

    structure: Structure
    features: np.ndarray
    labels: np.ndarray
    train: np.ndarray
    classes: int
    edge_features: np.ndarray | None

    def columns(self) -> "Columns":
        edges = 0 if self.edge_features is None else self.edge_features.shape[1]
        return Columns(self.features.shape[1], edges, self.classes)


@dataclass(frozen=True)
class Columns:
    """The numbers of features of a vertex and of an edge, and of classes."""

    features: int
    edge_features: int
    classes: int


def columns(store: Path) -> Columns:
    graph = json.loads((store / "graph.json").read_text())
    vertex, edges = graph["vertices"][0], store / "edge_features.npy"
    edge_features = np.load(edges, mmap_mode="r").shape[1] if edges.exists() else 0
    return Columns(vertex["features"]["columns"], edge_features, vertex["labels"]["classes"])


def read(store: Path) -> Graph:
    """Reads a store whose labels are classes. Sparse features become dense, as no layer of DGL and PyG takes
    sparse ones."""

    def array(name: str) -> np.ndarray:
        return np.load(store / f"{name}.npy")

    structure = Structure(array("indptr"), array("indices"))
    width = columns(store)
    if (store / "features.npy").exists():
        features = array("features")
    else:
        rows = np.repeat(np.arange(structure.vertices), np.diff(array("features_indptr")))
        features = np.zeros((structure.vertices, width.features), np.float32)
        features[rows, array("features_indices")] = array("features_data")
    train = array("train")
    if train.ndim == 2:  # several splits, padded with -1: the first is used, as by weft
        train = train[0][train[0] >= 0]
    edge_features = array("edge_features") if width.edge_features else None
    return Graph(structure, features, array("labels"), train, width.classes, edge_features)
