"""The tensors that stand for a graph while `trace` goes through forward, and the parameters that are tables
of vertices."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch
from torch import Tensor, nn

from .._library import is_library
from .._written import LARGEST
from .called import Called
from .export import quiet
from .schema import Given, Schema

_VERTICES, _EDGES = 10007, 20011  # the sizes that forward sees while it is traced, if it has no better


def tables_of(module: nn.Module, schema: Schema) -> dict[str, str]:
    """The parameters that may have a row for each vertex, and of which type.

    Such a parameter has as many rows as the type has vertices. It is an embedding, LINKX's weight for the
    graph, or a parameter of a module of the user's own, as one of positions. Where the type has no features,
    it may be any.
    """
    tables = {}
    for path, part in module.named_modules():
        own = type(part).__name__ in ("Embedding", "SparseLinear") or not is_library(type(part).__module__)
        for name, p in part.named_parameters(path, recurse=False):
            types = [
                vertex_type
                for vertex_type, count in schema.vertices.items()
                if not isinstance(p, nn.parameter.UninitializedParameter)
                and p.dim() == 2
                and p.shape[0] == count
                and (own or not schema.features[vertex_type])
            ]
            if types:
                tables[name] = next(
                    (vertex_type for vertex_type in types if vertex_type in name.split(".")), types[0]
                )
    return tables


def initialise(module: nn.Module, schema: Schema, tables: dict[str, str], kind: torch.dtype) -> None:
    """Calls a module with lazy layers, which take their sizes from a first call: on a few rows."""
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
        few = replace(schema, vertices=dict.fromkeys(schema.vertices, 7))
        called = Called(module, few, tensors_of(module, few, tables, kind, 11))
        modes = {layer: layer.training for layer in module.modules()}
        module.eval()  # else statistics of batch norm would begin with these rows
        try:
            with quiet(), torch.no_grad():
                called(called.tensors)
        finally:
            for layer, training in modes.items():
                layer.training = training
        for layer in module.modules():
            if getattr(layer, "cached", False):  # what a layer of PyG keeps is of these rows
                vars(layer).update({name: None for name in vars(layer) if name.startswith("_cached")})


def tensors_of(
    module: nn.Module, schema: Schema, tables: dict[str, str], dtype: torch.dtype, edges: int = _EDGES
) -> dict[Given, Tensor]:
    """A tensor for each thing that forward may be given. No two types or relations have the same number of
    rows."""
    inputs: dict[Given, Tensor] = {}
    sizes: dict[str, int] = {}
    parameters = dict(module.named_parameters())
    for n, (name, count) in enumerate(schema.vertices.items()):
        least = (
            max(2, min(count or _VERTICES, 1_000_000)) + 101 * n
        )  # PyTorch takes a size of 1 for a fixed one
        if schema.is_of_graphs(name):
            least = LARGEST
        sizes[name] = v = next(v for v in itertools.count(least) if v not in sizes.values())
        if schema.features[name]:
            inputs[Given("x", name)] = torch.zeros(v, schema.features[name], dtype=dtype)
        inputs[Given("n_id", name)] = torch.arange(v)
    for name, vertices in tables.items():
        table = parameters[name].detach()
        inputs[Given("table", vertices, name)] = table.new_zeros(sizes[vertices], table.shape[1])
    for n, (name, relation) in enumerate(schema.relations.items()):
        if relation.batch:
            inputs[Given("batch", relation.source)] = (
                torch.arange(sizes[relation.source]) % sizes[relation.target]
            )
            continue
        e = next(e for e in itertools.count(edges + 10 * n) if e not in sizes.values())
        ends = torch.arange(2 * e).view(2, e)
        most = torch.tensor([[sizes[relation.source]], [sizes[relation.target]]])
        inputs[Given("edge_index", name)] = ends % most
        if relation.features:
            inputs[Given("edge_attr", name)] = torch.zeros(e, relation.features, dtype=dtype)
        if relation.weighted:
            inputs[Given("edge_weight", name)] = torch.ones(e, dtype=dtype)
    return inputs
