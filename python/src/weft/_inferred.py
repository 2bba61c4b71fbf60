"""What weft computes of a small graph by the program of a module, with which `_compare` compares the
module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ._graph import Graph
from ._inputs import Edges
from ._model import Model, Traced
from ._pass import passed
from ._trace import Outputs, Schema


def inferred(
    module: nn.Module, program: Mapping[str, Any], outputs: Outputs, graph: Graph, schema: Schema
) -> Any:
    """What the program of a module returns in evaluation for a graph, without a gradient."""
    model = Model(module, Traced(dict(program), outputs), ["--threads=1", str(graph.store)])
    with torch.no_grad():
        made = passed(model, model.tensors_of(module), False, [[]])[0]
    return outputs.returned(Edges(graph, schema).in_order(made, model.blocks, []))
