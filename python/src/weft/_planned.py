"""What a loop around a compiled module takes, before any work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from . import _calls, _module, _program
from ._divided import Divided
from ._errors import Refused
from ._forward import constants_of
from ._graph import Data
from ._graphs import Graphs
from ._inputs import Input, Reads
from ._model import Traced, Type, arguments, shapes_of
from ._net import Net
from ._scratch import Scratch
from ._structure import Structure
from ._trace import Constant

_NAMES = ("x", "edges", "edge_weight", "edge_attr")
_MOST, _MOST_COLUMNS = 2**31 - 1, 1 << 20  # vertices or edges of a graph, and features


def planned(
    module: nn.Module,
    data: Data | None,
    counts: Mapping[str, Any] | None,
    passes: int,
    inputs: str | Iterable[str] | None,
    gradients: str | Iterable[str] | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """What :func:`weft.plan` says of a loop around a module, or of a net with its settings. counts: as
    Divided's."""
    if not isinstance(passes, int) or passes < 1:
        raise Refused(f"passes: {passes!r} is no number of passes that live together: give 1 or more")
    differentiable = _names("gradients", gradients, [name for name in _NAMES if name != "edges"])
    names = _names("inputs", inputs, _NAMES) | differentiable
    columns: dict[tuple[str, int], int] = {}  # of what calls of the net have given, as the graph has none
    module, net = _module.uncompiled(module), None
    if isinstance(module, Net):
        net, last = module, module._own or module._graphs.last
        read = [one for variant in (last.models if last else ()) for one in variant.reads.lacking]
        columns = {(one.kind, one.type): one.features for one in read}
        module, settings = net.module, net._graphs.settings | dict(settings)
    if net is not None and net._own is None and counts is not None:
        given = {("vertices", 0): counts.get("features"), ("edges", 0): counts.get("features_of_edges")}
        columns |= {place: count for place, count in given.items() if count is not None}
        names |= {"edge_attr"} if columns.get(("edges", 0)) else set()
        names |= {"edge_weight"} if any(one.weights for one in read) else set()
        divided = _drawn(module, counts, Graphs(settings), last.schema.constants if last else ())
    elif counts is not None and "graphs" in counts:
        raise Refused("graphs: calls of a net that was compiled without a graph have them: plan such a net")
    else:
        divided = Divided(module, data, settings, counts)
    program, scratch = _calls.program(), Scratch()
    needed = divided.lacking(module)
    features, edges = [*_features(divided, names, columns)], [*_edges(divided, names | needed, columns)]
    if "x" in needed and not any(divided.schema.features.values()) and not features:
        raise Refused(
            "x: the graph has no features: call the net with x, and plan the net; counts have features"
        )
    for one in (*features, *edges):
        one.values.requires_grad_(_argument(one) in differentiable)
    try:
        with _module.as_written():
            reads = Reads.from_inputs(divided.schema, [*features, *edges])
            made = divided.traced(module, frozenset(), reads)
            entries = [*features, *divided.edges.those_read(made.program, edges)]
            words = arguments(module, made.program, divided.words(), scratch)
            lacking = [one.request() for one in reads.lacking]
            fields: dict[str, Any] = {"loop": {"passes": passes, "inputs": [_said(one) for one in entries]}}
            memories: list[_calls.Memory] = []
            if isinstance(divided.graph, Structure):
                fields["graph"], memories = divided.graph.request(program)
            answer = program.ask(
                "plan",
                "planning",
                version=_program.PROTOCOL,
                arguments=words,
                lacking=lacking,
                keeps=memories,
                **fields,
            )
    finally:
        scratch.close()
    types = [Type(**one) for one in answer["types"]]
    each = {name: one.edges for name, one in divided.schema.relations.items()}
    found: dict[str, Any] = answer["planned"]
    rows, edges_of = found.pop("rows"), found.pop("edges")
    groups = answer["groups"]
    shared = [memory.numbers.size for memory in memories]
    shared += _shared(module, made, types, each, passes, entries, groups)
    found["shared_bytes"] = sum(map(_calls.bytes_of, shared))
    if len(rows) > 1 and all(rows):
        found["process_shared_bytes"] = [
            sum(map(_calls.bytes_of, _of_process(module, made, types, list(each), passes, entries, *here)))
            for here in zip(rows, edges_of)
        ]
    return found


def _drawn(
    module: nn.Module, counts: Mapping[str, Any], graphs: Graphs, constants: tuple[Constant, ...]
) -> Divided:
    """A module on a random graph of these counts, as calls of a net may give it.

    constants: the numbers and flags of the last call.
    """
    limits = {"vertices": (1, _MOST), "edges": (0, _MOST), "graphs": (1, counts["vertices"])}
    limits |= {"features": (0, _MOST_COLUMNS), "features_of_edges": (0, _MOST_COLUMNS)}
    for name, (least, most) in limits.items():
        count = counts.get(name, least)
        if not isinstance(count, int) or not least <= count <= most:
            raise Refused(f"{name}: is {count}: give {least} to {most:,}")
    if "halo_rows" in counts:
        raise Refused(
            "halo_rows: the graph of a net that has none is planned as a random one: leave it out, or plan a "
            "graph, as weft.plan(graph, model=net)"
        )
    graphs.check_axes()
    vertices, size = counts["vertices"], counts.get("graphs")
    needed = constants_of(module, size)
    structure = Structure.from_counts(vertices, counts["edges"], size)
    return Divided(module, structure, graphs.settings, None, constants or needed)


def _names(what: str, chosen: str | Iterable[str] | None, known: Iterable[str]) -> set[str]:
    """The names of a call's arguments that are given."""
    names = [chosen] if isinstance(chosen, str) else list(chosen or ())
    for name in names:
        if name not in known:
            raise Refused(f"{what}: {name!r} is none: there are {', '.join(known)}")
    return set(names)


def _argument(entry: Input) -> str:
    """The argument of a call by which it is given."""
    return {"features": "x", "edge_features": "edge_attr"}.get(entry.field, entry.field)


def _features(divided: Divided, names: set[str], columns: Mapping[tuple[str, int], int]) -> Iterator[Input]:
    """The features that each pass is given, without their numbers."""
    for number, (name, known) in enumerate(divided.schema.features.items()):
        lacking = columns.get(("vertices", number), 0)
        if lacking or known and "x" in names:
            count = divided.schema.vertices[name], known or lacking
            yield Input("features", number, torch.empty(count, device="meta"))


def _edges(divided: Divided, names: set[str], columns: Mapping[tuple[str, int], int]) -> Iterator[Input]:
    """What each pass is given of edges, without its numbers."""
    for number, relation in enumerate(divided.schema.relations.values()):
        if relation.batch:
            continue
        if "edges" in names:
            yield Input("edges", number, torch.empty(relation.edges, device="meta"))
        if "edge_weight" in names:
            yield Input("edge_weight", number, torch.empty(relation.edges, device="meta"))
        if "edge_attr" in names:
            count = relation.features or columns.get(("edges", number), 0)
            if not count:
                raise Refused(
                    "edge_attr: the graph has none: call the net with them, and plan the net; counts have "
                    "features_of_edges"
                )
            yield Input("edge_features", number, torch.empty(relation.edges, count, device="meta"))


def _said(entry: Input) -> dict[str, Any]:
    """What is said of an input that has no memory."""
    return {"of": entry.field, "type": entry.type, "differentiable": entry.values.requires_grad}


def _shared(
    module: nn.Module,
    made: Traced,
    types: Iterable[Type],
    edges: Mapping[str, int],
    passes: int,
    entries: Iterable[Input],
    samples: int,
) -> Iterator[int]:
    """The numbers in each piece of memory that a loop shares with the program. edges: how many, by relation.
    samples: how many a pass takes."""
    read = {parameter["name"] for parameter in made.program["parameters"]}
    values, buffers = (
        sum(tensor.numel() for name, tensor in tensors if name in read and tensor.is_floating_point())
        for tensors in (
            module.named_parameters(remove_duplicate=False),
            module.named_buffers(remove_duplicate=False),
        )
    )
    parameters = values + buffers
    yield parameters
    if _calls.bytes_of(parameters) != _calls.bytes_of(values):
        yield values  # the gradients; of one size they have the same memory
    outputs = sum(map(math.prod, shapes_of(made.outputs, list(types), edges)))
    yield from [samples * outputs] * (passes + 1)  # with the gradient of one
    for entry in entries:
        copies = (
            1 if entry.field == "features" else passes
        )  # what is given of edges is read until the pass ends
        yield from [entry.values.numel()] * (copies + entry.values.requires_grad) * samples


def _of_process(
    module: nn.Module,
    made: Traced,
    types: Iterable[Type],
    relations: Sequence[str],
    passes: int,
    entries: Iterable[Input],
    counts: list[int],
    edges: list[int],
) -> Iterator[int]:
    """These numbers where the process of a launcher has so many rows of each type, and edges of each
    relation."""
    here = [replace(vertex_type, vertices=count) for vertex_type, count in zip(types, counts)]
    inputs = []
    for one in entries:
        count = (counts if one.field == "features" else edges)[one.type]
        inputs.append(replace(one, values=one.values[:count]))
    yield from _shared(module, made, here, dict(zip(relations, edges)), passes, inputs, 1)
    yield max(1, *counts)  # the ids of its vertices
    if any(made.outputs.edges) or any(one.field != "features" for one in inputs):
        yield 2 * max(1, *edges)  # those of its edges
    yield 1  # the counters of the first process
