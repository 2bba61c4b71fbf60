"""PyG's models under torch.compile: inductor makes C++ of what is not a sparse product, in the first
epoch."""

import sys

import torch
from torch import nn
from torch._dynamo.exc import TorchDynamoException

import peer_pyg
from graphs import Graph
from models import Model


def build(model: Model, graph: Graph, weights: dict[str, torch.Tensor]) -> nn.Module:
    return Compiled(peer_pyg.build(model, graph, weights))


def versions() -> dict[str, str]:
    return peer_pyg.versions()


class Compiled(nn.Module):
    """A model that cannot be compiled ends the process with one line: nothing runs uncompiled in its
    place."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = torch.compile(net)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return self.net(x)
        except TorchDynamoException as error:
            sys.exit(f"torch.compile: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
