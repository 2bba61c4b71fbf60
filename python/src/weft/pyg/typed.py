"""Networks for graphs of several types: a convolution for each relation, or R-GCN's weights by type."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch
import torch_geometric.nn as g
from torch import Tensor, nn

from .._errors import Refused
from .kinds import Convolution, Weights
from .layers import Edges, Layers, Net, norm_of, numbered
from .names import key_of


class TypedLayers(Layers):
    """Layers for a graph of several types: a convolution for each relation, whose results are summed by
    target type.

    A layer has the relations that the run's result depends on. With one type of vertices the edges are in
    dictionaries or have numbers.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        Net.__init__(self, s)
        self.convs = nn.ModuleList(self.layer(s, weights, i) for i in range(s.layers))
        self.norms = nn.ModuleList(Norms(s, weights, i) for i in range(s.layers - 1))
        self.types, self.relations, self.jk = s.types, s.relations, None
        self.one = s.model == "gcn"  # its convolution takes the rows of one type

    def layer(self, s: SimpleNamespace, weights: Weights, i: int) -> nn.Module:
        convs, last = nn.ModuleDict(), i == s.layers - 1
        for r in map(key_of, s.relations):
            if any(name.startswith(f"convs.{i}.{r}.") for name in weights):
                out = s.outputs if last else s.hidden
                convs[r] = Convolution(s, weights, f"convs.{i}.{r}", out, last, typed=True).made
        return convs

    def forward(
        self,
        x: Any,
        edge_index: Any = None,
        edge_weight: Any = None,
        edge_attr: Any = None,
        edge_type: Tensor | None = None,
        **by_type: Any,
    ) -> Any:
        if not self.types[1:] and not isinstance(edge_index, dict):
            (kind,), numbers = self.types, numbered(edge_type, len(self.relations))
            x, end = {kind: x}, len(kind) + len("__")
            names = [(kind, name[end:-end], kind) for name in self.relations]

            def divided(values: Tensor | None, at: Any = ()) -> Edges | None:
                return (
                    values
                    if values is None
                    else {r: values[(*at, numbers == k)] for k, r in enumerate(names)}
                )

            edge_index = divided(edge_index, (slice(None),))
            edge_weight, edge_attr = divided(edge_weight), divided(edge_attr)
        return super().forward(x, edge_index, edge_weight, edge_attr, **by_type)

    def rows(self, x: Any, edge_index: Any, edge_inputs: Any) -> Any:
        """The rows of the types that the run predicts, a dictionary of several types."""
        z = super().rows(x, edge_index, edge_inputs)
        return z[self.predicted[0]] if len(self.predicted) == 1 else {t: z[t] for t in self.predicted}

    def convolved(
        self, conv: nn.ModuleDict, edge_index: Edges, edge_inputs: Edges | None, x: Weights
    ) -> Weights:
        sums: Weights = {}
        for r in _listed([r for r in self.relations if key_of(r) in conv], edge_index):
            ends = x[r[0]] if self.one else (x[r[0]], x[r[2]])
            z = super().convolved(conv[key_of("__".join(r))], edge_index[r], (edge_inputs or {}).get(r), ends)
            sums[r[2]] = sums[r[2]] + z if r[2] in sums else z
        return sums


class Norms(nn.ModuleDict):
    """The norms of a layer by type of vertices: those of which the run has the weights, if they have some."""

    def __init__(self, s: SimpleNamespace, weights: Weights, i: int):
        norms = {key_of(t): norm_of(s) for t in sorted(s.types, key=key_of)}
        read = {t for t in norms if any(name.startswith(f"norms.{i}.{t}.") for name in weights)}
        super().__init__({t: norm for t, norm in norms.items() if t in read or not norm.state_dict()})

    def forward(self, z: Weights) -> Weights:
        return {t: self[key_of(t)](h) for t, h in z.items() if key_of(t) in self}


def _listed(names: Iterable[str], edges: Edges) -> list[tuple[str, str, str]]:
    """The relations with these names. Raises Refused if one is missing."""
    by_name, names = {"__".join(r): r for r in edges}, list(names)
    if missing := [name for name in names if name not in by_name]:
        raise Refused(
            f"edge_index_dict: the run's model reads the relation {missing[0]}, and it is missing; give it, "
            "with no edges if it has none"
        )
    return [by_name[name] for name in names]


class TypedRGCN(TypedLayers):
    """R-GCN for several types of vertices: PyG's RGCNConv has one weight for the rows of all types.

    A relation's part is the mean of PyG's SimpleConv times the relation's weight. x_dict lacks the types
    without features, of which the first layer has rows of weights for each vertex.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s, weights)
        self.takes, self.mean = None, g.SimpleConv(aggr="mean")

    def layer(self, s: SimpleNamespace, weights: Weights, i: int) -> nn.Module:
        return RelationWeights(s, weights, f"convs.{i}")

    def convolved(self, conv: RelationWeights, edge_index: Edges, edge_inputs: None, x: Weights) -> Weights:
        z = {t: conv.own(t, x.get(t)) for t in self.types if conv.parameter("root", t) is not None}
        before = dict.fromkeys(self.types, 0)  # relations so far, by source type
        for k, r in enumerate(_listed(self.relations, edge_index)):
            weight = conv.relation(r[0], k, before[r[0]])
            before[r[0]] += 1
            if weight is None or r[2] not in z:  # the run's result does not depend on it
                continue
            mean = self.mean((x.get(r[0], weight), z[r[2]]), edge_index[r])
            z[r[2]] = z[r[2]] + (mean @ weight if r[0] in x else mean)
        return z


class RelationWeights(nn.Module):
    """The weights of a layer of :class:`TypedRGCN`: one for all types of vertices, or one for each."""

    def __init__(self, s: SimpleNamespace, weights: Weights, path: str):
        super().__init__()
        self.blocks = s.num_blocks
        for name in ("weight", "root", "bias", "comp"):
            if f"{path}.{name}" in weights:
                self.register_parameter(name, nn.Parameter(weights[f"{path}.{name}"]))
            else:
                by_type = {key_of(t): weights.get(f"{path}.{name}.{key_of(t)}") for t in s.types}
                by_type = {t: nn.Parameter(weight) for t, weight in by_type.items() if weight is not None}
                self.add_module(name, nn.ParameterDict(by_type))

    def parameter(self, name: str, kind: str) -> Tensor | None:
        """The weight of a type of vertices; None if it has none."""
        weight = getattr(self, name)
        return weight.get(key_of(kind)) if isinstance(weight, nn.ParameterDict) else weight

    def own(self, kind: str, x: Tensor | None) -> Tensor:
        """What a type's vertices have of their own rows; None: one-hot rows."""
        root = self.parameter("root", kind)
        return (root if x is None else x @ root) + self.parameter("bias", kind)

    def relation(self, source: str, k: int, of_source: int) -> Tensor | None:
        """The weight of relation k, rows × columns, which is the of_source-th relation from a type."""
        weight = self.parameter("weight", source)
        if weight is None:
            return None
        if isinstance(self.comp, nn.Parameter):
            return torch.einsum("b,bio->io", self.comp[k], weight)
        matrix = weight[of_source if isinstance(self.weight, nn.ParameterDict) else k]
        return torch.block_diag(*matrix) if self.blocks else matrix
