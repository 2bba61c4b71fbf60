"""What the DGL and the plain PyTorch models share: a stack of layers, and reading weights that have PyG's
names."""

import torch
import torch.nn.functional as F
from torch import nn

from models import LAYERS, Model


class Stack(nn.Module):
    """Layers with batch norm (where the model has it) and ReLU between them. layer(i, inputs, outputs) makes
    layer i."""

    def __init__(self, model: Model, features: int, classes: int, layer):
        super().__init__()
        widths = [features] + [model.hidden] * (LAYERS - 1) + [classes]
        self.convs = nn.ModuleList(layer(i, widths[i], widths[i + 1]) for i in range(LAYERS))
        norm = nn.BatchNorm1d if model.batch_norm else nn.Identity
        self.norms = nn.ModuleList(norm(model.hidden) for _ in range(LAYERS - 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x)), inplace=True)
        return self.convs[-1](x)

    def load(self, weights: dict[str, torch.Tensor]) -> None:
        """Takes the weights of PyG's model. Each layer's load is given its own, without the prefix."""
        for i, conv in enumerate(self.convs):
            conv.load(_below(weights, f"convs.{i}."))
        for i, norm in enumerate(self.norms):
            norm.load_state_dict(_below(weights, f"norms.{i}.module."))


def _below(weights: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}


def copy(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copies the second of each pair into the first, which must have as many elements."""
    with torch.no_grad():
        for parameter, tensor in pairs:
            parameter.copy_(tensor.view_as(parameter))
