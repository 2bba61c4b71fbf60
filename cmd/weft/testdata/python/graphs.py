"""A small graph as PyTorch Geometric would hand it to the snippets that write one: data. Its masks have so
many columns as the test says, or are vectors for 0. And the same as files of other programs."""

import gzip
import os

import numpy as np


class Tensor:
    def __init__(self, values):
        self.values = values

    def t(self):
        return Tensor(self.values.T)

    def numpy(self):
        return self.values


class Sparse:
    """A matrix of zeros and ones in compressed rows, as scipy.sparse has it."""

    def __init__(self, rows, columns, shape):
        order = np.lexsort((columns, rows))
        self.shape, self.indices, self.data = shape, columns[order], np.ones(len(rows), np.float32)
        self.indptr = np.searchsorted(rows[order], np.arange(shape[0] + 1))

    def tocsr(self):
        return self


class Data(dict):
    __getattr__ = dict.__getitem__


def make(splits):
    vertices, edges, features, classes = 300, 1500, 8, 3
    random = np.random.RandomState(0)
    y = random.randint(classes, size=vertices)
    x = random.randn(vertices, features).astype(np.float32)
    x[np.arange(vertices), y] += 1
    parts = np.stack([random.permutation(vertices) for _ in range(splits or 1)], 1) * 5 // vertices
    masks = {"train_mask": parts < 3, "val_mask": parts == 3, "test_mask": parts == 4}
    data = Data({key: Tensor(mask if splits else mask[:, 0]) for key, mask in masks.items()})
    data.update(edge_index=Tensor(random.randint(vertices, size=(2, edges))), x=Tensor(x), y=Tensor(y))
    return data


def files(data):
    """The graph as graph2gauss publishes Cora-ML, and GraphData its graphs, pickles in an archive, and as
    OGB's downloader leaves a folder."""
    x, y, edges = data.x.numpy(), data.y.numpy(), data.edge_index.numpy()
    np.savez("cora_ml.npz", np.array({"x": x, "y": y, "edge_index": edges, "idx_to_class": {0: "first"}}))
    adjacency = Sparse(*np.unique(edges, axis=1), (len(y), len(y)))
    np.savez(
        "cora.npz",
        adj_matrix=np.array(adjacency),
        node_attr=np.array(Sparse(*np.nonzero(x > 0), x.shape)),
        node_label=y,
    )
    np.savez("actor.npz", adj_matrix=np.array(adjacency), node_attr=x, node_label=y)
    train, val, test = (np.flatnonzero(data[part + "_mask"].numpy()) for part in ("train", "val", "test"))
    for name, array, form in (
        ("raw/edge", edges.T, "%d"),
        ("raw/node-feat", x, "%.6f"),
        ("raw/node-label", y, "%d"),
        ("raw/num-node-list", [len(y)], "%d"),
        ("raw/num-edge-list", [edges.shape[1]], "%d"),
        ("split/time/train", train, "%d"),
        ("split/time/valid", val, "%d"),
        ("split/time/test", test, "%d"),
    ):
        path = "ogbn_arxiv/" + name + ".csv.gz"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with gzip.open(path, "wt") as f:
            np.savetxt(f, array, fmt=form, delimiter=",")
