"""A network of PyG's layers with what a run does before and after it: scaled features, reversed edges, values
of scores."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from .._errors import Refused
from .kinds import Weights
from .layers import Called
from .names import key_of

# Weights of a run that are not of the net, and the attributes of Model that have them.
_AROUND = {
    "features.mean": "mean",
    "features.deviation": "deviation",
    "target.mean": "target_mean",
    "target.deviation": "target_deviation",
    "decoder.weight": "decoder",
}


class Model(Called):
    """A model of PyG's layers, ``net``, with what the run does before and after it.

    It takes what ``net`` takes (:func:`to_pyg`), with the features and the edges as the run's graph has them.

    Attributes:
        net: the model.
        weighted: ``net`` reads weights of the edges, and refuses to go without.
        reverse: edges are used from target to source.
        normalize: "row" divides each vertex's features by their sum, "standard" subtracts ``mean`` and
            divides by ``deviation``, column by column; "none". Columns behind the features are left as they
            are.
        embed: the rows of the types of vertices without features, float32, vertices × columns, by type.
        target_mean, target_deviation: the result is mean + deviation · ``net``'s, column by column; or None.
        decoder: the weights of a link prediction's scores, relations × columns, which the model keeps and
            does not use; or None.
    """

    def __init__(
        self,
        net: nn.Module,
        weighted: bool = False,
        reverse: bool = False,
        normalize: str = "none",
        labels: int = 0,
        embed: Weights | None = None,
        **buffers: Tensor,
    ):
        super().__init__()
        self.net, self.weighted, self.reverse, self.normalize, self.labels = (
            net,
            weighted,
            reverse,
            normalize,
            labels,
        )
        self.bare = list(embed or {})
        self.embed = nn.ParameterDict({key_of(t): nn.Parameter(rows) for t, rows in (embed or {}).items()})
        for name in _AROUND.values():
            self.register_buffer(name, buffers.get(name))

    @staticmethod
    def taken(s: SimpleNamespace, weights: Weights) -> dict[str, Any]:
        """Takes from the weights what is not the net's, and returns it as arguments; none if the net is
        all."""
        arguments: dict[str, Any] = {}
        if s.weighted:
            arguments["weighted"] = True
        if s.direction == "out":
            arguments["reverse"] = True
        normalize = s.normalize_features
        if normalize == "auto":
            normalize = "standard" if "features.mean" in weights else "none"
        if normalize != "none":
            arguments["normalize"] = normalize
            arguments["labels"] = s.outputs if s.label_input else 0
        for key, name in _AROUND.items():
            if key in weights and (name != "decoder" or s.task == "link" and s.decoder == "distmult"):
                arguments[name] = weights.pop(key)
        embed = {t: weights.pop(f"embed.{key_of(t)}.weight") for t in s.embedded}
        if embed:
            arguments["embed"] = embed
        return arguments

    @staticmethod
    def inside(weight: str, arguments: dict[str, Any]) -> str:
        """What a weight of a run is called in the model of these arguments."""
        if weight.startswith("embed."):
            return weight.removesuffix(".weight")
        return _AROUND[weight] if _AROUND.get(weight) in arguments else "net." + weight

    def forward(
        self, x: Any, edge_index: Any = None, edge_weight: Any = None, *more: Any, **named: Any
    ) -> Any:
        edge_weight = named.pop("edge_weight_dict", edge_weight)
        if self.weighted and edge_weight is None:
            raise Refused("edge_weight: the run's graph has weights; give those of the edges")
        if isinstance(x, dict):
            x = {name: self._scaled(rows) for name, rows in x.items()} | {
                name: self.embed[key_of(name)] for name in self.bare
            }
        else:
            x = self._scaled(x) if not self.embed else next(iter(self.embed.values()))
            edge_index = edge_index.flip([0]) if self.reverse and edge_index is not None else edge_index
        z = self.net(x, edge_index, edge_weight, *more, **named)
        return z if self.target_mean is None else self.target_mean + self.target_deviation * z

    def _scaled(self, x: Tensor | None) -> Tensor | None:
        if x is None or self.normalize == "none":
            return x
        x, labels = x[:, : x.shape[1] - self.labels], x[:, x.shape[1] - self.labels :]
        if self.normalize == "row":
            total = x.sum(1, keepdim=True, dtype=torch.float64)
            x = x / torch.where(total == 0, 1, total).to(x.dtype)
        else:
            x = (x - self.mean) / self.deviation
        return torch.cat([x, labels], 1)

    def extra_repr(self) -> str:
        notes = {
            "weighted=True": self.weighted,
            f"normalize={self.normalize!r}": self.normalize != "none",
            "reverse=True": self.reverse,
            f"embed={self.bare}": self.bare,
            "target_mean + target_deviation * net": self.target_mean is not None,
        }
        return ", ".join(note for note, holds in notes.items() if holds)
