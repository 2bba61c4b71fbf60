"""Graphs and runs of the tests of to_pyg, and the comparison of a module with a run.

A setting that is honoured has a rival: the same weights with another value of it either do not fit the module
that is made, or compute something else.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

import weft
from weft import pyg
from weft.pyg import to_pyg

V, FEATURES, CLASSES, HUB = 40, 6, 3, 7
BEST = ("--epochs", "3", "--lr", "0.05", "--checkpoint-every", "0")


def masks(count, rng):
    split = torch.randint(3, (count,), generator=rng)
    return {name: split == i for i, name in enumerate(("train_mask", "val_mask", "test_mask"))}


def graph(**more):
    """A directed graph with isolated vertices, a hub, two equal edges and a self loop."""
    rng = torch.Generator().manual_seed(1)
    edges = torch.randint(2, V - 2, (2, 90), generator=rng)
    edges = edges[:, edges[0] != edges[1]]
    hub = torch.stack([torch.arange(3, 30, 2), torch.full((14,), HUB)])
    hub = hub[:, hub[0] != HUB]
    edges = torch.cat([edges, hub, edges[:, :3], torch.tensor([[4], [4]])], 1)
    count = edges.shape[1]
    x = torch.rand(V, FEATURES, generator=rng) * 3 + 0.1
    y = torch.randint(CLASSES, (V,), generator=rng)
    has = {
        "edge_weight": torch.rand(count, generator=rng) + 0.5,
        "edge_attr": torch.rand(count, 4, generator=rng),
    }
    data = Data(x=x, edge_index=edges, y=y, **masks(V, rng))
    for name, value in more.items():
        data[name] = has[name] if value is True else value
    return data


def relations(types, bare=(), widths=0, cites="cites"):
    """A graph of several types of edges between the given types of vertices."""
    rng = torch.Generator().manual_seed(2)
    data = HeteroData()
    for i, (name, count) in enumerate(types.items()):  # widths differ
        if name not in bare:
            data[name].x = torch.rand(count, widths or FEATURES + i, generator=rng)
        data[name].num_nodes = count
    first = next(iter(types))
    data[first].y = torch.randint(CLASSES, (types[first],), generator=rng)
    for name, mask in masks(types[first], rng).items():
        data[first][name] = mask
    ends = [(first, cites, first), (first, "extends", first)]
    for other in list(types)[1:]:
        ends += [(other, "writes", first), (first, "by", other)]
    for a, name, b in ends:
        data[a, name, b].edge_index = torch.stack(
            [torch.randint(types[t], (60,), generator=rng) for t in (a, b)]
        )
    return data


class Trained:
    """Runs on graphs, one store for each graph."""

    def __init__(self, folder, program):
        self.folder, self.program, self.stores, self.runs = folder, program, {}, 0

    def store(self, data):
        if id(data) not in self.stores:
            path = self.folder / f"{len(self.stores)}.pt"
            torch.save(data, path)
            self.program("import", "pyg", path, path.with_suffix(""))
            self.stores[id(data)] = (path.with_suffix(""), data)  # the data are kept, and so is their id
        return self.stores[id(data)][0]

    def __call__(self, data, flags):
        self.runs += 1
        directory = self.folder / f"run{self.runs}"
        self.program("train", self.store(data), *BEST, *flags.split(), "--out", directory)
        return weft.load(directory)


PLAIN, WEIGHTED, FEATURED = graph(), graph(edge_weight=True), graph(edge_attr=True)


def logits(run):
    return np.load(Path(run.directory) / "predictions.npy")


@torch.no_grad()
def computed(model, data, **arguments):
    for name in ("edge_weight", "edge_attr"):
        if name in data and name not in arguments:
            arguments[name] = data[name]
    if any(type(part).__name__ == "PNAConv" for part in model.modules()):
        # its variance of nearly equal messages is a difference of large numbers, which float32 lacks
        model, data = (
            copy.deepcopy(model).double(),
            data.clone().apply(lambda t: t.double() if t.is_floating_point() else t),
        )
        arguments = {
            name: value.double() if value.is_floating_point() else value for name, value in arguments.items()
        }
    return model(data.x, data.edge_index, **arguments).numpy()


def far(a, b):
    """The largest difference, as a share of the largest logit if that is above 1."""
    return np.abs(a - b).max() / max(1, np.abs(b).max())


def rival(run, setting, value):
    """The run with another value of a setting beside the same weights."""
    record = json.loads((run.directory / "run.json").read_text())
    assert record["settings"][setting] != value, f"the run has {setting} {value} itself"
    record["settings"][setting] = value
    other = run.directory.parent / f"{run.directory.name}-{setting}-{value}"
    other.mkdir()
    (other / "run.json").write_text(json.dumps(record))
    (other / "model.safetensors").symlink_to(run.directory / "model.safetensors")
    return weft.load(other)


def check_rivals(run, rivals, compute):
    """With another setting beside the same weights the module does not compute the run's logits."""
    want = logits(run)
    for setting, value in rivals:
        try:
            other = compute(to_pyg(rival(run, setting, value)))
        except (RuntimeError, KeyError, AssertionError):
            continue  # the weights do not fit
        assert other.shape != want.shape or far(other, want) > 1e-4, f"{setting} {value} computes the same"


def check(run, data, *rivals, **arguments):
    """The module computes the run's logits, and with another setting it does not."""
    model = to_pyg(run)
    assert far(computed(model, data, **arguments), logits(run)) < 1e-5
    check_rivals(run, rivals, lambda other: computed(other, data, **arguments))
    return model


# What each model is trained with, but rgcn, which needs types of edges, and sgc, which is one convolution.
HEADS = {"gat": 3, "gatv2": 3, "transformer": 2}
LAYERED = {
    m: f"--hidden 12 --heads 3 --output-heads {HEADS[m]}" if m in HEADS else "--hidden 12"
    for m in pyg.KINDS
    if m not in ("rgcn", "sgc")
}


def data_of(model):
    return FEATURED if pyg.KINDS[model].takes == "edge_attr" else PLAIN


def kinds(**without):
    """PLAIN with three types of edges."""
    rng = torch.Generator().manual_seed(3)
    data = PLAIN.clone()
    data.edge_type = torch.randint(3, (data.num_edges,), generator=rng)
    for name in without:
        del data[name]
    data.num_nodes = V
    return data


KINDS, BARE = kinds(), kinds(x=None)
TYPED = relations({"paper": 30, "author": 20})
UNFEATURED = relations({"paper": 30, "author": 20}, bare=("author",))

# Names of which one is the end of another's, or the other's with another sign, or an attribute of a module.
ODD = relations(
    {"http://a.org/b#type": 30, "x__type": 20, "type": 25, "a.b": 20, "a%2Eb": 15, "a.b.c": 20, "weight": 10},
    cites="in/of",
)
DOTTED = relations({"a.b": 30, "c.d": 20}, cites="part.of")
