"""Networks with other layers beside their convolutions: the perceptron with APPNP, GCNII, ResGCN and residual
blocks."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch_geometric.nn as g
from torch import Tensor, nn

from .._errors import Refused
from .kinds import NORMS, Convolution, Weights
from .layers import Net, directed, norm_of


class Perceptron(Net):
    """Linear layers under the names of PyG's MLP, with residual connections if the run has them, then rounds
    of APPNP.

    On a graph of several types it reads the rows of the type that the run predicts, by type or alone.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        if s.decoupled and s.model != "gcn":
            raise Refused(
                f"decoupled: PyG has no rounds of {s.model}'s aggregation; take a decoupled gcn, or appnp, "
                "for to_pyg"
            )
        super().__init__(s)
        widths = [weights["lins.0.weight"].shape[1], *[s.hidden] * (s.layers - 1), s.outputs]
        self.lins = nn.ModuleList(nn.Linear(read, out) for read, out in pairwise(widths))
        self.norms = nn.ModuleList(norm_of(s) for _ in range(s.layers - 1))
        self.propagation = None
        if s.decoupled or s.model == "appnp":
            rounds = s.rounds or (s.layers if s.decoupled else 10)
            self.propagation = g.APPNP(rounds, s.teleport if s.decoupled else s.alpha)

    def rows(self, x: Any, edge_index: Any, edge_inputs: Any) -> Tensor:
        x = x[self.predicted[0]] if isinstance(x, dict) else x
        z = self.lins[-1]([x, *self.between(x, self.lins)][-1])
        return z if self.propagation is None else self.convolved(self.propagation, edge_index, edge_inputs, z)


class GCNII(Net):
    """PyG's GCN2Conv between two linear layers, as in its example gcn2_cora.py."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s)
        self.lins = nn.ModuleList(_ends(s, weights, "lins.0"))
        self.convs = nn.ModuleList(
            g.GCN2Conv(s.hidden, s.alpha, s.theta, i + 1, s.shared_weights) for i in range(s.layers)
        )

    def rows(self, x: Tensor, edge_index: Tensor, edge_inputs: Tensor | None) -> Tensor:
        x_0 = self.act(self.lins[0](x))
        x = self.dropout(x_0)
        for conv in self.convs:
            x = self.dropout(self.act(self.convolved(conv, edge_index, edge_inputs, x, x_0)))
        return self.lins[1](x)


def _ends(s: SimpleNamespace, weights: Weights, encoder: str) -> tuple[nn.Linear, nn.Linear]:
    """The linear layers before and after hidden ones."""
    return nn.Linear(weights[encoder + ".weight"].shape[1], s.hidden), nn.Linear(s.hidden, s.outputs)


class ResGCN(Net):
    """PyG's DeepGCNLayer of SAGEConv between two linear layers, as in its example
    ogbn_proteins_deepgcn.py."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s)
        self.node_encoder, self.lin = _ends(s, weights, "node_encoder")
        sage = SimpleNamespace(**vars(s) | {"model": "sage", "aggregation": "mean"})
        convs = (directed(Convolution(sage, weights, f"layers.{i}.conv", s.hidden)) for i in range(s.layers))
        more = {"block": "res+", "dropout": s.dropout}
        self.layers = nn.ModuleList(
            g.DeepGCNLayer(c, NORMS[s.norm](s.hidden), self.act, **more) for c in convs
        )

    def rows(self, x: Tensor, edge_index: Tensor, edge_inputs: None) -> Tensor:
        first = self.layers[0]
        x = first.conv(self.node_encoder(x), edge_index)
        for layer in self.layers[1:]:
            x = layer(x, edge_index)
        return self.lin(self.dropout(self.act(x if first.norm is None else first.norm(x))))


class Blocks(Net):
    """The residual blocks of Platonov et al. (2023) around PyG's convolutions."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s)
        self.encoder, self.decoder = _ends(s, weights, "encoder")
        hidden = (Convolution(s, weights, f"convs.{i}", s.hidden) for i in range(s.layers))
        self.convs = nn.ModuleList(map(directed, hidden))
        self.norms = nn.ModuleList(norm_of(s) for _ in range(s.layers + 1))
        maps = ["0", "1"] if s.model == "gat" else ["1"]
        self.feed_forwards = nn.ModuleList(
            nn.ModuleDict({"lins": nn.ModuleDict({k: nn.Linear(s.hidden, s.hidden) for k in maps})})
            for _ in range(s.layers)
        )

    def rows(self, x: Tensor, edge_index: Tensor, edge_inputs: Tensor | None) -> Tensor:
        x = self.dropout(self.act(self.encoder(x)))
        for norm, conv, feed_forward in zip(self.norms, self.convs, self.feed_forwards):
            z, lins = self.convolved(conv, edge_index, edge_inputs, norm(x)), feed_forward["lins"]
            if "0" in lins:
                z = lins["0"](z)
            x = x + self.dropout(lins["1"](self.dropout(self.act(z))))
        return self.decoder(self.norms[-1](x))
