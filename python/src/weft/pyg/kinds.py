"""How PyG computes each model: the convolution that has the weights of a layer. A new model has an entry in
KINDS, which `to_pyg` and the networks of this package read."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import torch_geometric.nn as g
from torch import Tensor, nn

Weights = dict[str, Tensor]
ACTIVATIONS = {
    "none": nn.Identity,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "leaky-relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
}
NORMS: dict[str, Callable[[int], nn.Module | None]] = {
    "none": lambda width: None,
    "batch": g.BatchNorm,
    "layer": lambda width: g.LayerNorm(width, mode="node"),
    "graph": g.GraphNorm,
    "pair": lambda width: g.PairNorm(),
}


class Convolution(NamedTuple):
    """What PyG's convolution is made of: the settings, the weights of a layer, and the columns that it
    computes."""

    s: SimpleNamespace
    weights: Weights
    path: str
    out: int
    last: bool = False  # it computes the logits
    typed: bool = False  # it is one of several relations

    @property
    def made(self) -> nn.Module:
        return KINDS[self.s.model].make(self)

    @property
    def reads(self) -> tuple[int, int]:
        """The columns of the rows that it reads, of an edge's source and target."""
        kind, columns = KINDS[self.s.model], []
        for names in kind.reads:
            weights = (self.weights.get(f"{self.path}.{name}") for name in names.split("|"))
            columns += [weight.shape[kind.axis] for weight in weights if weight is not None]
        return (columns[0], columns[-1]) if columns else (0, 0)

    @property
    def ends(self) -> int | tuple[int, int]:
        return self.reads if self.typed else self.reads[0]

    @property
    def perceptron(self) -> g.models.MLP:
        act, norm = ACTIVATIONS[self.s.activation](), NORMS[self.s.norm](self.out)
        return g.models.MLP([self.reads[0], self.out, self.out], act=act, norm=norm)


def _sage(c: Convolution) -> nn.Module:
    root = f"{c.path}.lin_r.weight" in c.weights
    return g.SAGEConv(c.ends, c.out, aggr=c.s.aggregation, root_weight=root)


def _gat(c: Convolution, conv: type[nn.Module], **more: Any) -> nn.Module:
    """A convolution of graph attention."""
    heads, concat = (c.s.output_heads, False) if c.last else (c.s.heads, True)
    if (edges := f"{c.path}.lin_edge.weight") in c.weights:
        more["edge_dim"] = c.weights[edges].shape[1]
    if conv is not g.TransformerConv:
        more["add_self_loops"] = not c.typed
    width = c.out // heads if concat else c.out
    return conv(c.ends, width, heads=heads, concat=concat, dropout=c.s.attention_dropout, **more)


def _rgcn(c: Convolution) -> nn.Module:
    relations = c.weights[f"{c.path}.comp" if c.s.bases else f"{c.path}.weight"].shape[0]
    bases, blocks = c.s.bases or None, c.s.num_blocks or None
    return g.RGCNConv(c.reads[0], c.out, relations, num_bases=bases, num_blocks=blocks)


PNA = {
    "aggregators": ["mean", "min", "max", "std"],
    "scalers": ["identity", "amplification", "attenuation"],
    "deg": torch.tensor([0, 1]),  # the means over degrees are among the weights
}


class _Kind(NamedTuple):
    """How PyG computes a model: the module that to_pyg makes of a run has its layers."""

    make: Callable[[Convolution], nn.Module] | None = None  # None: a module of its own computes the model
    # The weights that read the rows of an edge's source and of its target; | stands between two forms of one.
    reads: tuple[str, ...] = ()
    own: type[nn.Module] | None = None  # PyG's own model, if it has one of these convolutions
    takes: str | None = None  # what the convolutions take besides rows and edges
    axis: int = 1  # the axis of these weights that counts the columns of the rows


_BOTH = ("lin_l.weight", "lin_r.weight")
_ENDS = ("lin.weight|lin_src.weight", "lin.weight|lin_dst.weight")
KINDS = {
    "mlp": _Kind(),
    "gcn": _Kind(
        lambda c: g.GCNConv(c.reads[0], c.out, add_self_loops=not c.typed),
        ("lin.weight",),
        g.models.GCN,
        "edge_weight",
    ),
    "sage": _Kind(_sage, _BOTH, g.models.GraphSAGE),
    "gat": _Kind(lambda c: _gat(c, g.GATConv), _ENDS, g.models.GAT),
    "gatv2": _Kind(lambda c: _gat(c, g.GATv2Conv), _BOTH, g.models.GAT),
    "transformer": _Kind(lambda c: _gat(c, g.TransformerConv), ("lin_key.weight", "lin_query.weight")),
    "gin": _Kind(lambda c: g.GINConv(c.perceptron), ("nn.lins.0.weight",), g.models.GIN),
    "gine": _Kind(
        lambda c: g.GINEConv(c.perceptron, edge_dim=c.weights[f"{c.path}.lin.weight"].shape[1]),
        ("nn.lins.0.weight",),
        takes="edge_attr",
    ),
    "pna": _Kind(
        lambda c: g.PNAConv(c.reads[0], c.out, **PNA), ("pre_nns.0.0.weight",), g.models.PNA, axis=0
    ),
    "rgcn": _Kind(_rgcn, ("root",), axis=0, takes="edge_type"),
    "gcnii": _Kind(takes="edge_weight"),
    "resgcn": _Kind(),
    "appnp": _Kind(takes="edge_weight"),
    "sgc": _Kind(
        lambda c: g.SGConv(c.reads[0], c.out, K=c.s.rounds or 2), ("lin.weight",), takes="edge_weight"
    ),
}
