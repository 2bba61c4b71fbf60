"""A network of PyG's convolutions, and what all networks of this package have in common: how they are called,
and what stands between two layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import torch_geometric.nn as g
from torch import Tensor, nn

from .._errors import Refused
from .kinds import ACTIVATIONS, NORMS, Convolution, Weights

Edges = dict[tuple[str, str, str], Tensor]


def convolutions_of(s: SimpleNamespace, weights: Weights) -> nn.ModuleList:
    """All convolutions of a model without encoder and decoder."""
    layers = 1 if s.model == "sgc" else s.layers
    hidden = layers if s.jk else layers - 1
    outs = [s.hidden] * hidden + [s.outputs] * (layers - hidden)
    all = (Convolution(s, weights, f"convs.{i}", out, last=i >= hidden) for i, out in enumerate(outs))
    return nn.ModuleList(map(directed, all))


def directed(c: Convolution) -> nn.Module:
    """The convolution along the edges, or in both directions."""
    return Both(c) if c.s.direction == "both" and c.s.model != "rgcn" else c.made


def norm_of(s: SimpleNamespace) -> nn.Module:
    return NORMS[s.norm](s.hidden) or nn.Identity()


_MISSING = {
    "edge_attr": "the features of the edges, edges × columns",
    "edge_type": "the number of each edge's relation, from 0",
}


def _given(takes: str | None, value: Tensor | None) -> dict[str, Tensor]:
    """The argument that the convolutions take. Only weights may be left out."""
    if value is None and takes in _MISSING:
        raise Refused(f"{takes}: the run's model reads it; give {_MISSING[takes]}")
    if value is not None and takes == "edge_attr" and value.dim() == 1:  # one column, as in the run
        value = value[:, None]
    return {} if takes is None or value is None else {takes: value}


def numbered(edge_type: Tensor | None, count: int) -> Tensor:
    """The numbers of edges' relations. Refuses those that the run does not have."""
    numbers = _given("edge_type", edge_type)["edge_type"]
    if len(numbers) > 0 and (top := int(numbers.max())) >= count:
        raise Refused(
            f"edge_type: the run has {count} relations, and a number is {top}; number them from 0, as the "
            "run's graph lists them"
        )
    return numbers


class Both(g.DirGNNConv):
    """PyG's DirGNNConv, whose convolutions also get the weights of the edges."""

    def __init__(self, c: Convolution):
        conv = c._replace(path=c.path + ".conv_in").made
        columns = c.weights[c.path + ".lin.weight"].shape[1]
        if not hasattr(conv, "in_channels"):  # DirGNNConv reads them, and GINConv has none
            conv.in_channels, conv.out_channels = columns, c.out
        super().__init__(conv)
        self.lin = nn.Linear(columns, c.out)  # DirGNNConv's has the width of one head
        if c.s.model == "transformer":  # DirGNNConv switches the map off, and keeps it
            self.conv_in.lin_skip = self.conv_out.lin_skip = None

    def forward(self, x: Tensor, edge_index: Tensor, **edge_inputs: Tensor) -> Tensor:
        x_in, x_out = (
            self.conv_in(x, edge_index, **edge_inputs),
            self.conv_out(x, edge_index.flip([0]), **edge_inputs),
        )
        return 0.5 * x_in + 0.5 * x_out + self.lin(x)


class Called(nn.Module):
    """A module that is called with x and edge_index, which may be named as the dictionaries that they are."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return super().__call__(
            *arguments, **{_PLAIN.get(name, name): value for name, value in named.items()}
        )


_PLAIN = {"x_dict": "x", "edge_index_dict": "edge_index"}


class Net(Called):
    """What the networks of this package have in common: their call, and what stands between two layers."""

    def __init__(self, s: SimpleNamespace):
        super().__init__()
        self.act, self.dropout = ACTIVATIONS[s.activation](), nn.Dropout(s.dropout)
        self.residual, self.takes, self.predicted = s.residual, s.takes, s.predicted

    def forward(
        self,
        x: Any,
        edge_index: Any = None,
        edge_weight: Any = None,
        edge_attr: Any = None,
        edge_type: Tensor | None = None,
        edge_weight_dict: Edges | None = None,
        edge_attr_dict: Edges | None = None,
    ) -> Any:
        values = {"edge_weight": edge_weight_dict or edge_weight, "edge_attr": edge_attr_dict or edge_attr}
        values["edge_type"] = edge_type
        return self.rows(x, edge_index, values.get(self.takes))

    def convolved(self, conv: nn.Module, edge_index: Any, edge_inputs: Any, *x: Any) -> Any:
        return conv(*x, edge_index, **_given(self.takes, edge_inputs))

    def between(self, x: Any, layers: Iterable[Callable[[Any], Any]]) -> list[Any]:
        """The outputs of all layers but the last, with norm, activation and dropout. With residual
        connections the input of a layer is added to its output."""
        outputs: list[Any] = []
        for norm, layer in zip(self.norms, layers):
            z = _each(lambda h: self.dropout(self.act(h)), norm(layer(x)))
            x = _each(torch.add, z, x) if self.residual and outputs else z
            outputs.append(x)
        return outputs


def _each(f: Callable[..., Tensor], z: Any, *more: Any) -> Any:
    """f of rows, or of those of each type."""
    return {t: f(z[t], *(m[t] for m in more)) for t in z} if isinstance(z, dict) else f(z, *more)


class Layers(Net):
    """PyG's convolutions, with norm, activation and dropout after each but the last.

    With residual connections the input of each of these but the first is added to its output. With jumping
    knowledge the last layer has norm, activation and dropout, too, and a linear layer reads the outputs of
    all.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s)
        self.convs = convolutions_of(s, weights)
        layers = len(self.convs)
        self.norms = nn.ModuleList(norm_of(s) for _ in range(layers if s.jk else layers - 1))
        self.jk = g.JumpingKnowledge(s.jk) if s.jk else None
        self.lin = nn.Linear(s.hidden * layers if s.jk == "cat" else s.hidden, s.outputs) if s.jk else None

    def rows(self, x: Any, edge_index: Any, edge_inputs: Any) -> Any:
        if self.takes == "edge_type":
            edge_inputs = numbered(edge_inputs, self.convs[0].num_relations)
        layers = [partial(self.convolved, conv, edge_index, edge_inputs) for conv in self.convs]
        outputs = self.between(x, layers)
        return self.lin(self.jk(outputs)) if self.jk else layers[-1](outputs[-1] if outputs else x)
