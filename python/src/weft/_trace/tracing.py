"""`trace`: a module is exported in training and in evaluation, lowered, merged and written down. `_module`
calls it for `weft.train` and `weft.compile`."""

from __future__ import annotations

import torch
from torch import nn

from .._errors import Refused
from .called import Called
from .checks import check_output
from .layers import check_loops
from .lowered import each, lower
from .merge import merged
from .outputs import Outputs
from .program import Program, program_of
from .schema import Schema
from .tensors import initialise, tables_of, tensors_of


def trace(
    module: nn.Module,
    *,
    features: int = 0,
    edge_features: int | None = None,
    edge_weight: bool = False,
    vertices: int | None = None,
    schema: Schema | None = None,
    outputs: Outputs | None = None,
) -> Program:
    """The program of a module that is called as module(x, edge_index) or, if it is over DGL, as module(graph,
    x).

    The graph has features numbers a vertex, edge_features a edge, if any, and perhaps edge weights, which
    forward gets where it names edge_attr and edge_weight. A schema says it of a graph of several types, of
    which forward gets dicts by type. Raises Refused with the line of the module's source, the reason, and
    what to write in its place.
    """
    if not isinstance(module, nn.Module):
        raise Refused(
            f"model: {type(module).__name__} is no torch.nn.Module: give a module, or the name of a model"
        )
    if scripted := [name for name, m in module.named_modules() if isinstance(m, torch.jit.ScriptModule)]:
        raise Refused(
            f"model: {scripted[0] or type(module).__name__} is of torch.jit.script: give the module that was "
            "scripted"
        )
    counts = {
        "features": features,
        "vertices": vertices,
        "edge_features": edge_features,
        "weighted": edge_weight,
    }
    schema = schema or Schema.from_counts(counts)
    kind = next((p.dtype for p in module.parameters() if p.dtype.is_floating_point), torch.float32)
    tables = tables_of(module, schema)
    try:
        return _traced(module, schema, tables, kind, outputs)
    except Refused:
        if not tables:
            raise
    return _traced(module, schema, {}, kind, outputs)  # none is read as a table


def _traced(
    module: nn.Module, schema: Schema, tables: dict[str, str], kind: torch.dtype, outputs: Outputs | None
) -> Program:
    check_loops(module, schema)
    initialise(module, schema, tables, kind)
    called = Called(module, schema, tensors_of(module, schema, tables, kind), outputs)
    to, trained = lower(called, True)
    again, evaluated = lower(called, False, to)
    both = (to, each(trained)), (again, each(evaluated))
    for _, made in both:
        for output in made:
            check_output(output, outputs is not None)
    return program_of(module, schema, to, merged(*both))
