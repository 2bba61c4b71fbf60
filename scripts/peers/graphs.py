"""The graph of a store as NumPy arrays, in the forms that the peers want."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class Structure:
    """In-neighbours of v: sources[indptr[v]:indptr[v + 1]]. indptr is int64, sources int32, as in the store."""

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
    """features: V × F float32; labels: V int64, -1 for none; train: ids of the training vertices."""

    structure: Structure
    features: np.ndarray
    labels: np.ndarray
    train: np.ndarray
    classes: int


def shape(store: Path) -> tuple[int, int]:
    """The numbers of feature columns and of classes."""
    vertex = json.loads((store / "graph.json").read_text())["vertices"][0]
    return vertex["features"]["columns"], vertex["labels"]["classes"]


def read(store: Path) -> Graph:
    """Reads a store whose labels are classes. Sparse features become dense, as no layer of DGL and PyG takes sparse ones."""

    def array(name: str) -> np.ndarray:
        return np.load(store / f"{name}.npy")

    structure = Structure(array("indptr"), array("indices"))
    columns, classes = shape(store)
    if (store / "features.npy").exists():
        features = array("features")
    else:
        rows = np.repeat(np.arange(structure.vertices), np.diff(array("features_indptr")))
        features = np.zeros((structure.vertices, columns), np.float32)
        features[rows, array("features_indices")] = array("features_data")
    train = array("train")
    if train.ndim == 2:  # several splits, padded with -1: the first is used, as by weft
        train = train[0][train[0] >= 0]
    return Graph(structure, features, array("labels"), train, classes)
