"""From a module of PyTorch to a program: a model as data, which the program of weft checks, compiles and trains.

    program = trace(MyNet(128, 40), features=128)
    program.text, program.state        # JSON, and arrays by the names of module.state_dict()

torch.export writes down which operations of ATen a module's forward does on graphs of any size, and `_lowering` turns
them into a program's. Nothing here knows a layer of PyTorch Geometric: what lies between two gathers and
scatters along edge_index is an operation on rows.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import json
import logging
import math
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import _aten  # noqa: F401  its functions are Lowering's
from ._copies import copied
from ._errors import Refused
from ._library import is_library, is_library_file
from ._lowering import ALIASES, KEEPS, Lowering, line_of, writes_first
from ._operations import SEVERAL, Edges, Set, Unlowerable, Value, Vertices, kind_of
from ._written import Written

_VERTICES, _EDGES = 10007, 20011  # the sizes that forward sees while it is traced, if it has no better


@dataclass(frozen=True)
class Program:
    """A model as data: text is JSON, and state has the arrays of the module by their names in its state_dict."""

    text: str
    state: dict[str, np.ndarray[Any, Any]]
    shape: tuple[int, ...]  # of a row of the output


@dataclass(frozen=True)
class Given:
    """What forward is given of a graph: x, edge_index, edge_attr, edge_weight, the numbers of vertices (n_id), or a
    table: a parameter of the module with a row for each vertex. A loss is given logits and labels."""

    what: str
    of: str = ""  # the vertex type, or the relation
    name: str = ""  # of the parameter

    @property
    def rows(self) -> Set:
        return Set("stored" if self.what.startswith("edge") else "vertices", self.of)

    @property
    def varies(self) -> int:
        """Its dimension that has the rows."""
        return int(self.what == "edge_index")


@dataclass(frozen=True)
class Schema:
    """The types of a graph: columns of features by type, and what is known of edges by relation."""

    features: dict[str, int]  # 0: none
    vertices: dict[str, int]  # 0: any number
    relations: dict[str, Relation]
    graphs: int = 1  # that are stored as one
    isolated: int = 0  # vertices without edges

    @classmethod
    def of(cls, counts: Mapping[str, Any]) -> Schema:
        """Of a graph as the program inspects it."""
        graphs, isolated = int(counts.get("graphs") or 1), int(counts.get("isolated_vertices") or 0)
        if "types" not in counts:
            edge_features, edges = (int(counts.get(key) or 0) for key in ("edge_features", "edges"))
            relation = Relation("", "", None, edge_features, bool(counts.get("weighted")), edges)
            first, second = ({"": int(counts.get(key) or 0)} for key in ("features", "vertices"))
            return cls(first, second, {"": relation}, graphs, isolated)
        relations = {}
        for r in counts["relations"]:
            key = r["source"], r["name"], r["target"]
            relation = Relation(key[0], key[2], key, r["edge_features"], r["weighted"], int(r.get("edges") or 0))
            relations["__".join(key)] = relation
        features, vertices = ({t["type"]: t[of] for t in counts["types"]} for of in ("features", "vertices"))
        return cls(features, vertices, relations, graphs, isolated)


@dataclass(frozen=True)
class Relation:
    """The edges from one type to another. key: as dicts of PyG name it."""

    source: str
    target: str
    key: Any
    features: int = 0
    weighted: bool = False
    edges: int = 0  # 0: any number


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
    """The program of a module that is called as module(x, edge_index) or, if it is over DGL, as module(graph, x).

    The graph has features numbers a vertex, edge_features a edge, if any, and perhaps edge weights, which
    forward gets where it names edge_attr and edge_weight. A schema says it of a graph of several types, of which
    forward gets dicts by type. Raises Refused with the line of the module's source, the reason, and what to
    write in its place.
    """
    if not isinstance(module, nn.Module):
        raise Refused(
            f"model: {type(module).__name__} is no torch.nn.Module: give a module, or the name of a model"
        )
    if scripted := [name for name, m in module.named_modules() if isinstance(m, torch.jit.ScriptModule)]:
        raise Refused(f"model: {scripted[0] or type(module).__name__} is of torch.jit.script: give the module that was scripted")
    counts = {"features": features, "vertices": vertices, "edge_features": edge_features, "weighted": edge_weight}
    schema = schema or Schema.of(counts)
    kind = next((p.dtype for p in module.parameters() if p.dtype.is_floating_point), torch.float32)
    tables = tables_of(module, schema)
    try:
        return _traced(module, schema, tables, kind, outputs)
    except Refused:
        if not tables:
            raise
    return _traced(module, schema, {}, kind, outputs)  # none is read as a table


def tables_of(module: nn.Module, schema: Schema) -> dict[str, str]:
    """The parameters that may have a row for each vertex, and of which type.

    Of as many rows as there are vertices are embeddings, parameters of modules of the user's own, as of positions,
    LINKX's weight for the graph, and all parameters where the type has no features.
    """
    tables = {}
    for path, part in module.named_modules():
        own = type(part).__name__ in ("Embedding", "SparseLinear") or not is_library(type(part).__module__)
        for name, p in part.named_parameters(path, recurse=False):
            types = [
                of
                for of, count in schema.vertices.items()
                if not isinstance(p, nn.parameter.UninitializedParameter)
                and p.dim() == 2
                and p.shape[0] == count
                and (own or not schema.features[of])
            ]
            if types:
                tables[name] = next((of for of in types if of in name.split(".")), types[0])
    return tables


def _traced(
    module: nn.Module, schema: Schema, tables: dict[str, str], kind: torch.dtype, outputs: Outputs | None
) -> Program:
    _check_loops(module, schema)
    _initialise(module, schema, tables, kind)
    called = Called(module, schema, _tensors(module, schema, tables, kind), outputs)
    to, trained = _lower(called, True)
    again, evaluated = _lower(called, False, to)
    both = (to, _each(trained)), (again, _each(evaluated))
    for _, made in both:
        for output in made:
            _check_output(output, outputs is not None)
    return _program(module, schema, to, _merged(*both))


def _check_loops(module: nn.Module, schema: Schema) -> None:
    """Refuses an EGConv that adds its own loops where these are not those of all vertices."""
    conv: Any = getattr(sys.modules.get("torch_geometric.nn.conv.eg_conv"), "EGConv", ())
    for name, layer in module.named_modules():
        if isinstance(layer, conv) and _counts_loops(layer) and (schema.isolated or "" not in schema.features):
            raise Refused(
                f"model: {name}: EGConv without symnorm adds loops to the vertices up to the largest in edge_index, and some "
                "have no edges: give it add_self_loops=False, and the graph its loops, by "
                "add_remaining_self_loops(edge_index, num_nodes=n)"
            )


def _counts_loops(layer: Any) -> bool:
    """Whether an EGConv finds the number of vertices from the largest in edge_index."""
    return bool(layer.add_self_loops) and "symnorm" not in layer.aggregators


def _initialise(module: nn.Module, schema: Schema, tables: dict[str, str], kind: torch.dtype) -> None:
    """Calls a module with lazy layers, which take their sizes from a first call: on a few rows."""
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
        few = replace(schema, vertices=dict.fromkeys(schema.vertices, 7))
        called = Called(module, few, _tensors(module, few, tables, kind, 11))
        modes = {layer: layer.training for layer in module.modules()}
        module.eval()  # else statistics of batch norm would begin with these rows
        try:
            with _quiet(), torch.no_grad():
                called(called.tensors)
        finally:
            for layer, training in modes.items():
                layer.training = training
        for layer in module.modules():
            if getattr(layer, "cached", False):  # what a layer of PyG keeps is of these rows
                vars(layer).update({name: None for name in vars(layer) if name.startswith("_cached")})


def _tensors(
    module: nn.Module, schema: Schema, tables: dict[str, str], dtype: torch.dtype, edges: int = _EDGES
) -> dict[Given, Tensor]:
    """Tensors of which all types and relations have another number of rows."""
    given: dict[Given, Tensor] = {}
    sizes: dict[str, int] = {}
    parameters = dict(module.named_parameters())
    for n, (name, count) in enumerate(schema.vertices.items()):
        least = max(2, min(count or _VERTICES, 1_000_000)) + 101 * n  # PyTorch takes a size of 1 for a fixed one
        sizes[name] = v = next(v for v in itertools.count(least) if v not in sizes.values())
        if schema.features[name]:
            given[Given("x", name)] = torch.zeros(v, schema.features[name], dtype=dtype)
        given[Given("n_id", name)] = torch.arange(v)
    for name, vertices in tables.items():
        table = parameters[name].detach()
        given[Given("table", vertices, name)] = table.new_zeros(sizes[vertices], table.shape[1])
    for n, (name, of) in enumerate(schema.relations.items()):
        e = next(e for e in itertools.count(edges + 10 * n) if e not in sizes.values())
        ends = torch.arange(2 * e).view(2, e)
        most = torch.tensor([[sizes[of.source]], [sizes[of.target]]])
        given[Given("edge_index", name)] = ends % most
        if of.features:
            given[Given("edge_attr", name)] = torch.zeros(e, of.features, dtype=dtype)
        if of.weighted:
            given[Given("edge_weight", name)] = torch.ones(e, dtype=dtype)
    return given


class Outputs:
    """What forward returns, a tensor or several in tuples and dicts, as one of each vertex type, and then of each
    relation: columns beside each other. Of edges alone there is a last tensor beside these, of the whole graph."""

    def __init__(self, frozen: Iterable[str] = ()) -> None:
        self.frozen = frozen  # the paths of layers that stay in evaluation
        self.tree: Any = None
        self.shapes: list[tuple[int, ...]] = []  # of a row of each tensor
        self.whole: list[bool] = []  # it has no rows of vertices: it is of the whole graph
        self.types: list[str] = []  # whose rows each has; of the whole graph: beside which it stands
        self.edges: list[bool] = []  # its type is a relation
        self.kinds: list[str] = []  # all vertex types
        self.relations: list[str] = []  # all relations

    def __deepcopy__(self, _: Any) -> Outputs:
        return self  # copies of a module tell the same one

    def returned(self, made: Sequence[Tensor]) -> Any:
        """The tensors as forward returns them."""
        return tree_unflatten(made[: self.tree.num_leaves], self.tree)

    def joined(self, made: Any, counts: Mapping[str, Any], edges: Mapping[str, Any]) -> list[Tensor]:
        """The tensors beside each other, by type. counts: of vertices, by type, and edges, by relation."""
        leaves, self.tree = tree_flatten(made)
        if not leaves or not all(isinstance(of, Tensor) and of.is_floating_point() for of in leaves):
            kinds = ", ".join(str(of.dtype) if isinstance(of, Tensor) else type(of).__name__ for of in leaves)
            raise Refused(f"model: forward returns {kinds or 'nothing'}: return tensors of floats, or tuples or dicts of them")
        if any(isinstance(count, torch.SymInt) for count in counts.values()):  # it is traced; a call with numbers returns the same
            self.whole = [of.dim() == 0 or not isinstance(of.shape[0], torch.SymInt) for of in leaves]
            found = [None if whole else _type_of(of.shape[0], counts, edges) for of, whole in zip(leaves, self.whole)]
            first = next((kind for kind, edge in filter(None, found) if not edge), next(iter(counts)))
            self.types, self.edges = map(list, zip(*((first, False) if of is None else of for of in found)))
            self.kinds, self.relations = list(counts), list(edges)
            if all(self.edges):
                self.whole, self.edges, self.types = [*self.whole, True], [*self.edges, False], [*self.types, first]
        if len(self.types) > len(leaves):
            leaves.append(leaves[0].new_ones(1))
        shapes = [of.shape if whole else of.shape[1:] for of, whole in zip(leaves, self.whole)]
        if any(not isinstance(n, int) for shape in shapes for n in shape):
            raise Refused(_SOME)
        self.shapes = [tuple(shape) for shape in shapes]
        if len(leaves) == 1 and not self.whole[0] and len(self.shapes[0]) == 1:
            return [leaves[0]]
        parts: dict[tuple[str, bool], list[Tensor]] = {of: [] for of in self.joints()}
        for of, kind, edge, whole, shape in zip(leaves, self.types, self.edges, self.whole, self.shapes):
            count = (edges if edge else counts)[kind]
            of = of.reshape(1 if whole else count, math.prod(shape))
            parts[kind, edge].append(of.expand(count, math.prod(shape)) if whole else of)
        return [torch.cat(of, 1) if len(of) > 1 else of[0] for of in parts.values()]

    def joints(self) -> list[tuple[str, bool]]:
        """What joined tensors have rows of, in their order: types, and whether they are relations."""
        every = [*((kind, False) for kind in self.kinds), *((name, True) for name in self.relations)]
        there = set(zip(self.types, self.edges))
        return [of for of in every if of in there]


_SOME = (
    "model: forward returns some of the vertices or of the edges, or edges with loops that it has added: return a row "
    "for each vertex or each edge, or one for the graph"
)


def _type_of(rows: Any, counts: Mapping[str, Any], edges: Mapping[str, Any]) -> tuple[str, bool]:
    """The vertex type, or the relation, that has so many rows while a module is traced, and whether it is a relation."""
    for every, are_edges in ((counts, False), (edges, True)):
        for kind, count in every.items():
            if isinstance(count, torch.SymInt) and rows.node.expr == count.node.expr:
                return kind, are_edges
    raise Refused(_SOME)


class Called(nn.Module):  # type: ignore[misc]
    """A module with what its forward is called with: tensors of a graph by their names, or a graph that holds them.

    outputs: joins what forward returns; None: it returns one tensor of vertices × classes.
    """

    def __init__(
        self, module: nn.Module, schema: Schema, given: dict[Given, Tensor], outputs: Outputs | None = None
    ) -> None:
        super().__init__()
        self.of, self.schema, self.outputs = module, schema, outputs
        self.typed = "" not in schema.features
        there = {of.what for of in given}
        inner: Any = module
        while type(inner).__name__ in _AROUND:
            inner = inner._orig_mod if hasattr(inner, "_orig_mod") else inner.module
        every = inspect.signature(inner.forward).parameters.values()
        free = [p for p in every if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if not free:
            dicts = "_dict" * self.typed
            raise Refused(
                f"model: forward names no argument: write forward(self, x{dicts}, edge_index{dicts}), and edge_attr{dicts} "
                f"or edge_weight{dicts} behind if it reads them"
            )
        first = free[0]
        takes_graph = first.name.lower() in _GRAPHS or "DGLGraph" in str(first.annotation)
        graphs = getattr(sys.modules.get("dgl"), "DGLGraph", ())
        held = [] if takes_graph else [(m, name) for m in module.modules() for name, of in vars(m).items() if isinstance(of, graphs)]
        self.held, self.dgl, self.compared = held, takes_graph or bool(held), False
        self.adjacency = [p.name for p in free if p.name.startswith("adj")]
        self.data = not self.dgl and len(free) == 1 and first.name not in ("x", "x_dict")
        graph = "blocks" if first.name == "blocks" or "List" in str(first.annotation) else "graph"
        order = [graph, "x"] if takes_graph else ["x"] if held else ["data"] if self.data else ["x", "edge_index"]
        self.joined = len(schema.features) == 1 and self.typed and any(p.name in _TYPES_OF_EDGES for p in free)
        self.by_types = self.typed and not self.joined
        dicts = "_dict" * self.by_types
        if self.joined:
            widths = {what: [r.features if what == "edge_attr" else r.weighted for r in schema.relations.values()]
                      for what in ("edge_attr", "edge_weight")}  # fmt: skip
            there -= {what for what, of in widths.items() if len(set(of)) > 1}
        named = {p.name: p.name.removesuffix(dicts).replace("node_id", "n_id") for p in free}
        self.names = {name: what for name, what in named.items() if what in there}
        kinds = given.get(Given("edge_attr"))
        if self.joined or (kinds is not None and kinds.shape[1] == 1):
            self.names |= {p.name: "edge_type" for p in free if p.name in _TYPES_OF_EDGES}
        others = (
            p
            for p in free
            if p.name not in (*self.names, *_TYPES_OF_EDGES) and (p.default is p.empty or p.default is None)
        )
        found = zip(others, [o for o in order if o not in self.names.values()])
        self.names |= {p.name: o for p, o in found if o != "x" or o in there or p.default is p.empty}
        if schema.graphs > 1 and any(p.name.removesuffix("_dict") in ("batch", "ptr", "batch_size") for p in free):
            raise Refused(SEVERAL.format("forward takes batch"))
        self.given = {
            " ".join(filter(None, (of.what, of.of, of.name))): of
            for of in given
            if of.what != "n_id" or self.data or self.dgl or "n_id" in self.names.values()
        }
        self.tensors = {name: given[of] for name, of in self.given.items()}
        if self.dgl:
            self.names |= {
                p.name: weft
                for p in free[2:]
                for weft, names in _EDGES_OF_DGL.items()
                if p.name in names and weft in there
            }
        for p in free:
            if p.default is not p.empty or p.name in self.names:
                continue
            if lacks := next((weft for weft, names in _EDGES_OF_DGL.items() if self.dgl and p.name in names), ""):
                raise Refused(
                    f"model: forward takes {p.name}, and the graph has none: give {lacks}, as "
                    f"weft.Graph.of(graph, {lacks}=graph.edata['w']) of its field w"
                )
            if p.name.removesuffix("_dict") in ("edge_attr", "edge_weight"):
                raise Refused(f"model: forward takes {p.name}, which the graph lacks: give {p.name}")
            if p.name in _TYPES_OF_EDGES:
                raise Refused(f"model: forward takes {p.name}: give the types of edges as edge_attr, one column of 0, 1, …")
            raise Refused(
                f"model: forward takes {p.name}: weft gives x{dicts}, edge_index{dicts}, edge_attr{dicts} and "
                f"edge_weight{dicts}, by these names"
            )

    def train(self, mode: bool = True) -> Called:
        super().train(mode)
        for path in self.outputs.frozen if self.outputs is not None else ():
            self.of.get_submodule(path).training = False
        return self

    def forward(self, tensors: Mapping[str, Tensor]) -> Any:
        given = {self.given[name]: tensor for name, tensor in tensors.items()}
        tables = {of.name: tensor for of, tensor in given.items() if of.what == "table"}
        whole = self.by_type({of: tensor for of, tensor in given.items() if of.what != "table"})
        whole = self.of_one_type(whole) if self.joined else whole
        if "edge_type" in self.names.values() and not self.joined:
            whole["edge_type"] = whole["edge_attr"][:, 0].long()
        lazy = any(map(nn.parameter.is_lazy, self.of.parameters()))  # which take their sizes from a first call
        buffers = {} if lazy else dict(self.of.named_buffers())
        with self.graph_of(whole) as graph, contextlib.ExitStack() as hooks:
            data = self.data_of(whole) if self.data else None
            whole |= {"graph": graph, "blocks": _Blocks(graph), "data": data}
            for module, name in self.held:
                setattr(module, name, graph)
            named = {name: whole.get(of, {} if self.by_types else None) for name, of in self.names.items()}
            weighted = self.weighted([data] if self.data else [named[name] for name in self.adjacency if name in named], whole)
            hooks.enter_context(weighted)
            made = torch.func.functional_call(self.of, tables, (), named) if tables else self.of(**named)
        if self.outputs is None:
            made = self.output(made)
        else:
            edges = {of.of: t.shape[1] for of, t in given.items() if of.what == "edge_index"}
            made = tuple(self.outputs.joined(made, self.counts(given), edges))
            made = made[0] if len(made) == 1 else made
        _put_back(self.of, buffers)
        if not isinstance(made, Tensor) and self.outputs is None:
            raise Refused(
                f"model: forward returns a {type(made).__name__}, instead of one tensor of vertices × classes: give a "
                "module around this one, whose forward returns the logits of all vertices alone"
            )
        return made

    def counts(self, given: Mapping[Given, Tensor]) -> dict[str, Any]:
        """The numbers of vertices, by type, of the types that something with a row for each vertex is given of."""
        rows = {of.of: t.shape[0] for what in ("n_id", "table", "x") for of, t in given.items() if of.what == what}
        return {name: rows[name] for name in self.schema.features if name in rows}

    def by_type(self, given: Mapping[Given, Any]) -> dict[str, Any]:
        """What is given by its name, in a graph of several types as a dict of these."""
        made: dict[str, Any] = {}
        for of, value in given.items():
            if self.typed:
                key = self.schema.relations[of.of].key if of.rows.kind == "stored" else of.of
                made.setdefault(of.what, {})[key] = value
            else:
                made[of.what] = value
        return made

    def of_one_type(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """The edges of all relations one after another, and their relations' numbers: the names, if these are numbers."""
        names = [of.key[1] for of in self.schema.relations.values()]
        numbers = map(int, names) if all(name.isdecimal() for name in names) else range(len(names))
        read = {*self.names.values(), *(("x", "edge_index", "n_id") if self.dgl else ())}
        whole = {what: list(of.values()) for what, of in whole.items() if what in read}
        whole["edge_type"] = [torch.full_like(ends[0], k) for k, ends in zip(numbers, whole["edge_index"])]
        return {what: torch.cat(of, int(what == "edge_index")) if len(of) > 1 else of[0] for what, of in whole.items()}

    def graph_of(self, whole: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
        """The graph that a module over DGL is called with."""
        if not self.dgl:
            return contextlib.nullcontext()
        from . import _dgl

        if not self.by_types:
            keys = {what: ("_N", "_E", "_N") if what.startswith("edge") else "_N" for what in whole}
            whole = {what: {keys[what]: value} for what, value in whole.items()}
        return _dgl.graph_of(whole, own=self.compared, graphs=self.schema.graphs)

    @contextlib.contextmanager
    def weighted(self, adjacencies: Iterable[Any], whole: Mapping[str, Any]) -> Iterator[None]:
        """What is in the place of a sparse matrix adj_t has its values: layers of PyG that are given it get edge_weight."""
        given = whole.get("edge_weight")
        weights: dict[Any, Tensor] = {} if given is None else given if self.by_types else {None: given}
        of: dict[int, Tensor] = {}
        for adj in adjacencies:
            for key, weight in weights.items():
                ends = adj[key] if self.by_types else adj
                ends = ends if isinstance(ends, Tensor) else ends.adj_t
                of[id(ends)] = weight

        def give(layer: nn.Module, args: Any, kwargs: Any) -> Any:
            call = inspect.signature(layer.forward).bind_partial(*args, **kwargs)
            weight = next((of[id(ends)] for ends in call.arguments.values() if id(ends) in of), None)
            if weight is None or call.arguments.get("edge_weight") is not None:
                return None
            call.arguments["edge_weight"] = weight
            return call.args, call.kwargs

        hooks = [
            layer.register_forward_pre_hook(give, with_kwargs=True)
            for layer in self.of.modules()
            if of and hasattr(layer, "propagate") and "edge_weight" in inspect.signature(layer.forward).parameters
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def data_of(self, whole: Mapping[str, Any]) -> Any:
        from torch_geometric.data import Data, HeteroData

        kind = _of_several(Data) if self.schema.graphs > 1 else Data
        if not self.typed:
            return kind(**whole, adj_t=whole["edge_index"].clone(), num_nodes=whole["n_id"].shape[0])
        data = HeteroData()
        for what, by_type in whole.items():
            for key, value in by_type.items():
                data[key][what] = value
                if what == "edge_index":
                    data[key].adj_t = value.clone()
                if what == "n_id":
                    data[key].node_id, data[key].num_nodes = value, value.shape[0]
        return data

    def output(self, returned: Any) -> Any:
        """The logits: what the module returns, or of a dict those of the first type, which has the labels."""
        first = next(iter(self.schema.features))
        if not self.typed or not isinstance(returned, Mapping):
            return returned
        if first not in returned:
            raise Unlowerable(f"forward returns nothing for {first}, whose vertices have the labels: return its logits")
        return returned[first]


def _put_back(module: nn.Module, buffers: Mapping[str, Tensor]) -> None:
    """Writes into a module's buffers the tensors that forward has put in their places."""
    now = dict(module.named_buffers())
    for name, old in buffers.items():
        new = now.get(name)
        if new is old:
            continue
        if new is None or (new.shape, new.dtype) != (old.shape, old.dtype):
            raise Unlowerable(f"forward changes {name}: {KEEPS}")
        old.copy_(new.detach())
        path, _, own = name.rpartition(".")
        module.get_submodule(path)._buffers[own] = old


def _of_several(kind: type) -> type:
    """A class of data that refuses to say which of several graphs a vertex is of."""

    def asked(name: str) -> property:
        def refuse(_: Any) -> Any:
            raise Refused(SEVERAL.format(f"forward reads {name}"))

        return property(refuse)

    return type(kind.__name__, (kind,), {name: asked(name) for name in ("batch", "ptr", "num_graphs", "batch_size")})


class _Blocks:
    """A list of as many graphs as are asked for: a block for each layer is the whole graph."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def __getitem__(self, _: int) -> Any:
        return self.graph

    def __len__(self) -> int:
        raise Unlowerable("how many blocks there are is not known: go through the layers")

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(self.graph)


# Modules of PyTorch around another one, which they call with what they are given.
_AROUND = ("OptimizedModule", "DataParallel", "DistributedDataParallel")
_TYPES_OF_EDGES = ("edge_type", "edge_types", "etype", "etypes")
_GRAPHS = ("graph", "g", "hg", "heterograph", "block", "blocks", "bg")
_EDGES_OF_DGL = {
    "edge_weight": ("edge_weight", "eweight", "weight"),
    "edge_attr": ("edge_feat", "edge_feats", "edge_attr", "efeat", "efeats", "pseudo"),
}


# What an operation that reads what is given is called.
_READS = {"x": "features", "edge_attr": "edge_features"}


def _each(output: Any) -> list[Any]:
    """The outputs: one, or one of each vertex type."""
    return list(output) if isinstance(output, list) else [output]


def _lower(called: Any, training: bool, trained: Lowering | None = None) -> tuple[Lowering, Any]:
    """The operations of a module in training, or in evaluation after that, and what it returns."""
    tensors = {id(t): t for t in (*called.parameters(), *called.buffers())}
    own = copied(called, tensors).train(training)
    for part in own.modules():
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.momentum is None:
            part.momentum = math.nan  # else forward would read its counter
    graph, inputs = _exported(own)
    to = Lowering({}, _said_of)
    for to.node in graph.nodes:
        to.possible()
    for node, kind in inputs.items():
        of = called.given.get(kind) if isinstance(kind, str) else None
        if of is not None:
            size = node.meta["val"].shape[of.varies]
            if isinstance(size, int) or size.node.expr.is_number:
                raise _fixed(graph, called) or Refused(
                    "model: forward works for one number of vertices or edges alone: take sizes from x.size(0), and give "
                    "a table with a row for each vertex, as an embedding is, as features"
                )
            to.rows[size.node.expr] = of.rows
    to.ends = {name: (r.source, r.target) for name, r in called.schema.relations.items()}
    for name, relation in called.schema.relations.items():
        if relation.source == relation.target:
            v, e = (
                [k for k, of in to.rows.items() if of == rows] or [sympy.Symbol(str(rows))]
                for rows in (Set("vertices", relation.source), Set("stored", name))
            )
            to.rows |= {sympy.expand(a + b): Set("added", name) for a in v for b in e}
    _check_sizes(graph, to.rows, called.schema)
    to.training, to.frozen = training, set(trained.frozen if trained else ())
    to.draws = isinstance(called, Called)
    to.precisions = {t.dtype for t in (*called.parameters(), *called.tensors.values())}
    names, buffers = _canonical(called.of), dict(own.named_buffers())
    saved = {k: names[k.removeprefix("of.")] for k in buffers if k.removeprefix("of.") in names}
    changed = {saved[k] for node, k in inputs.items() if isinstance(k, str) and k in saved and _is_written(node)}
    to.counters = changed if trained is None else set[str]()
    changed |= trained.updates.keys() if trained else set()
    for node, kind in inputs.items():
        if isinstance(kind, Tensor):
            to.env[node] = kind
        elif (of := called.given.get(kind)) is not None:
            rows, shape, _ = to.layout(node)
            if of.what == "edge_index":
                to.env[node] = Edges(of.rows)
            elif of.what == "n_id":
                to.env[node] = Vertices(of.rows)
            elif of.what == "table":
                to.env[node] = to.emit("table", (), rows, shape, name=names[of.name], **rows.named)
            else:
                shapes = {} if of.what == "edge_weight" else {"shape": list(shape)}
                to.env[node] = to.emit(_READS.get(of.what, of.what), (), rows, shape, **shapes, **rows.named)
        elif kind in buffers and _is_index(buffers[kind]) and saved.get(kind) not in changed and not kind.endswith("num_batches_tracked"):
            to.env[node] = buffers[kind].detach().clone()
        elif (name := kind.removeprefix("of.")) in names:
            to.env[node] = to.emit("parameter", (), None, node.meta["val"].shape, name=names[name])
        else:  # a buffer that is not saved
            to.env[node] = buffers[kind].detach().clone()
    to.state = {n: k.removeprefix("of.") for n, k in inputs.items() if isinstance(k, str) and k not in called.given}
    to.state = {n: names.get(name, name) for n, name in to.state.items()}
    to.given = {n: called.given[k].what for n, k in inputs.items() if isinstance(k, str) and k in called.given}
    try:
        output = to.run(graph)
    except Refused as why:
        raise _fixed(graph, called) or why from None
    _check_updates(to, {saved[k] for k in saved})
    output = list(output) if isinstance(output, (list, tuple)) else output
    output = output[0] if isinstance(output, list) and len(output) == 1 else output
    fixed = any(isinstance(of, Value) and of.rows is None for of in _each(output))
    if fixed and (why_fixed := _fixed(graph, called)):
        raise why_fixed
    return to, output


def _is_written(node: Any) -> bool:
    """Whether an operation writes into what a node is, or into a view of it, also in a block under torch.no_grad."""
    for user in node.users:
        target, blocks = user.target, [of for of in user.args if isinstance(of, torch.fx.Node) and of.op == "get_attr"]
        if isinstance(target, torch._ops.OpOverload):
            is_view = target._schema.name.split("::")[1] in ALIASES
            if user.args[0] is node and (writes_first(target) or (is_view and _is_written(user))):
                return True
        elif blocks:
            inner = getattr(node.graph.owning_module, blocks[0].target).graph.find_nodes(op="placeholder")
            if _is_written(inner[user.args.index(node) - user.args.index(blocks[0]) - 1]):
                return True
    return False


def _check_updates(to: Lowering, buffers: set[str]) -> None:
    """Refuses buffers that depend on more than buffers and numbers. Batch norms count their own steps."""
    for o in to.operations:
        to.updates.pop(o.get("batches", ""), None)
    for name, value in to.updates.items():
        value = to.updates[name] = to.value(value)
        left = [value.op]
        while left:
            o = to.operations[left.pop()]
            others = o["op"] in ("vertices", "row_sum", "row_mean", "row_max", "row_min", "uniform")
            if others or (o["op"] == "parameter" and o["name"] not in buffers) or to.shapes[value.op].rows is not None:
                raise Refused(f"model: {o.get('line', '')}: forward changes {name}: {KEEPS}")
            left += o.get("in", ())


# Numbers of vertices and of edges: of the small graphs on which a program is compared with its module, and of a large one.
SMALL, _LARGE = ((19, 47), (32, 38)), (4_000_007, 90_000_001)


def _check_sizes(graph: Any, rows: Mapping[Any, Any], schema: Schema) -> None:
    """Refuses a forward that takes another course on a graph of another size, by the conditions under which it was traced."""
    values = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
    conditions = next((of.fake_mode.shape_env for of in values if hasattr(of, "fake_mode")), None)
    counts = {Set("vertices", name): n for name, n in schema.vertices.items()}
    counts |= {Set("stored", name): of.edges for name, of in schema.relations.items()}
    symbols = {e: of for e, of in rows.items() if e.is_Symbol and of in counts}
    small = [{of: pair[of.kind == "stored"] + 4 * k for k, of in enumerate(counts)} for pair in (*SMALL, _LARGE)]
    for guard in getattr(conditions, "guards", ()):
        for sizes in ({of: n or small[0][of] for of, n in counts.items()}, *small):
            if guard.expr.subs({symbol: sizes[of] for symbol, of in symbols.items()}) == sympy.false:
                raise Refused(
                    f"model: {_place_of(guard)}forward takes another course at other numbers of vertices or edges: write it "
                    "for all of them, as by torch.where, or decide it before training, as an attribute of the module"
                )


def _place_of(guard: Any) -> str:
    """The line of source that a condition on sizes comes from, as file:line: ."""
    sloc = getattr(guard, "sloc", None)
    frame = getattr(sloc, "maybe_user_loc", None) or getattr(sloc, "framework_loc", None)
    if not isinstance(frame, traceback.FrameSummary) or is_library_file(frame.filename):
        return ""
    return f"{os.path.basename(frame.filename)}:{frame.lineno}: {(frame.line or '').strip()}: "


def _is_index(buffer: Tensor) -> bool:
    """Whether a buffer's numbers are whole, as those of columns are, and few enough for constants."""
    return not (buffer.is_floating_point() or buffer.is_complex()) and buffer.numel() <= 4096


def _fixed(graph: Any, called: Called) -> Refused | None:
    """What to write where a number of vertices became a number of the program, if there is such a place."""
    count = next((t.shape[0] for name, t in called.tensors.items() if name == "x"), 0)
    if count in {n for t in (*called.parameters(), *called.buffers()) for n in t.shape}:
        return None
    for node in graph.nodes:
        made = node.meta.get("val")
        sizes = made.shape[:1] if node.op == "call_function" and isinstance(made, Tensor) else ()
        if any(isinstance(n, int) and n == count for n in sizes):
            return Refused(f"model: {_said_of(node)}the number of vertices is a fixed number here, as len(x) is: write x.size(0)")
    return None


def _check_output(output: Any, several: bool) -> None:
    """Refuses what is no output. several: there may be several, and of edges."""
    if isinstance(output, Value) and kind_of(output.rows) == "stored" and not output.axis and several:
        return
    if isinstance(output, Value) and isinstance(output.rows, tuple):
        raise Refused(
            "model: forward returns some of the vertices: return the logits of all; train_mask says which count"
        )
    if not isinstance(output, Value) or kind_of(output.rows) != "vertices" or output.axis or len(output.shape) > 1:
        raise Refused(
            "model: forward returns something else than one tensor of vertices × classes: return the logits of all vertices, and nothing else"
        )


def _canonical(module: nn.Module) -> dict[str, str]:
    """The first name of each tensor in the state_dict, by all its names."""
    first: dict[Any, str] = {}
    names = {}
    for name, t in module.state_dict(keep_vars=True).items():
        if isinstance(t, Tensor):
            names[name] = first.setdefault((t.data_ptr(), t.shape, t.stride()) if t.numel() else id(t), name)
    return names


def _exported(called: Called) -> tuple[Any, dict[Any, Any]]:
    """The graph of ATen's operations, and what its inputs are: names of the state or of what is given, or a constant."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._traceback import CapturedTraceback

    apply, summary = torch.autograd.Function.__dict__["apply"], CapturedTraceback.summary
    with _quiet(), Written(called), _one_by_one(), _hooked(called), as_traced(), _no_grad_for_inference():
        try:
            torch.autograd.Function.apply = classmethod(_own_gradient)
            CapturedTraceback.summary = lambda stack: _from_forward(summary(stack))
            if called.dgl:
                from . import _dgl

                return _dgl.exported(called, called.tensors)
            if not hasattr(torch.export.Dim, "AUTO"):
                raise Refused(
                    "model: by PyTorch 2.5 or earlier weft reads modules over DGL alone: call forward's first parameter "
                    "graph, or install PyTorch 2.6 to 2.15"
                )
            varies = {name: {of.varies: torch.export.Dim.AUTO} for name, of in called.given.items()}
            # One dict as an argument: names of **keywords stand in dynamic_shapes otherwise from version to version.
            shapes = (varies,) if varies else None
            exported = torch.export.export(called, (called.tensors,), dynamic_shapes=shapes, strict=False)
        except Exception as error:  # whatever the module raises
            raise _without_features(error, called) or _why(error, called.names) from None
        finally:
            torch.autograd.Function.apply = apply
            CapturedTraceback.summary = summary
    signature = exported.graph_signature
    kinds = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **dict(zip(signature.user_inputs, called.given)),
    }
    lifted = {k: exported.constants[name] for k, name in signature.inputs_to_lifted_tensor_constants.items()}
    for node in exported.graph.nodes:
        if any(isinstance(lifted.get(of.name), FakeTensor) for of in node.all_input_nodes):
            raise Refused(f"model: {_said_of(node)}{_DATA}")
    kinds |= {k: constant.clone() for k, constant in lifted.items()}
    return exported.graph, {
        n: kinds[n.name] for n in exported.graph.nodes if n.op == "placeholder" and n.name in kinds
    }


@contextlib.contextmanager
def _no_grad_for_inference() -> Iterator[None]:
    """torch.inference_mode becomes torch.no_grad, which torch.export writes down."""
    of = torch.inference_mode
    kept = of.__enter__, of.__exit__

    def enter(self: Any) -> None:
        self.grad = torch.is_grad_enabled()
        torch.set_grad_enabled(not self.mode)

    def leave(self: Any, *_: Any) -> None:
        torch.set_grad_enabled(self.grad)

    of.__enter__, of.__exit__ = enter, leave
    try:
        yield
    finally:
        of.__enter__, of.__exit__ = kept


@contextlib.contextmanager
def _one_by_one() -> Iterator[None]:
    """PyG's layers of several relations multiply by each weight alone, and not by which makes the fewest products; self
    loops are plain tensors, and no EdgeIndex as PyG 2.5 makes them."""
    backend: Any = sys.modules.get("torch_geometric.backend")
    loops: Any = sys.modules.get("torch_geometric.utils.loop")
    edges = getattr(loops, "EdgeIndex", None)
    kept = getattr(backend, "use_segment_matmul", None)
    if backend:
        backend.use_segment_matmul = False
    if edges:
        loops.EdgeIndex = _Plain
    try:
        yield
    finally:
        if backend:
            backend.use_segment_matmul = kept
        if edges:
            loops.EdgeIndex = edges


@contextlib.contextmanager
def _hooked(module: nn.Module) -> Iterator[None]:
    """PyG's layers call the hooks on their messages, which they leave out while they are compiled."""
    functions = (getattr(type(layer), name, None) for layer in module.modules() for name in ("propagate", "edge_updater"))
    asked = [of for f in functions if "is_compiling" in (of := getattr(f, "__globals__", {}))]
    kept = [of["is_compiling"] for of in asked]
    for of in asked:
        of["is_compiling"] = lambda: False
    try:
        yield
    finally:
        for of, function in reversed(list(zip(asked, kept))):
            of["is_compiling"] = function


@contextlib.contextmanager
def as_traced() -> Iterator[None]:
    """Layers of PyG compute what weft does, in the same numbers: without what no output reads, and loops of all vertices."""
    with _unsampled(), _looped():
        yield


@contextlib.contextmanager
def _looped() -> Iterator[None]:
    """EGConv adds loops to all vertices, as of a graph whose last vertex has an edge."""
    of: Any = getattr(sys.modules.get("torch_geometric.nn.conv.eg_conv"), "EGConv", None)
    if of is None:
        yield
        return
    kept = of.forward

    def forward(self: Any, x: Tensor, edge_index: Tensor) -> Any:
        if not _counts_loops(self):
            return kept(self, x, edge_index)
        from torch_geometric.utils import add_remaining_self_loops

        edge_index, _ = add_remaining_self_loops(edge_index, num_nodes=x.size(self.node_dim))
        self.add_self_loops = False
        try:
            return kept(self, x, edge_index)
        finally:
            self.add_self_loops = True

    of.forward = forward
    try:
        yield
    finally:
        of.forward = kept


@contextlib.contextmanager
def _unsampled() -> Iterator[None]:
    """SuperGATConv samples no edges for its loss, which no output reads."""
    of: Any = getattr(sys.modules.get("torch_geometric.nn.conv.supergat_conv"), "SuperGATConv", None)
    if of is None:
        yield
        return
    names = "positive_sampling", "negative_sampling", "get_attention"
    kept = {name: vars(of)[name] for name in names}

    def attention(self: Any, *given: Any, return_logits: bool = False, **named: Any) -> Any:
        return _Unread() if return_logits else kept["get_attention"](self, *given, **named)

    of.positive_sampling = of.negative_sampling = lambda self, edge_index, *_: edge_index
    of.get_attention = attention
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(of, name, function)


class _Unread:
    """In the place of a tensor that only the loss of a layer reads."""

    def size(self, _: int) -> int:
        return 0

    def new_zeros(self, _: int) -> _Unread:
        return self

    def __setitem__(self, *_: Any) -> None:
        pass

    @classmethod
    def __torch_function__(cls, *_: Any) -> _Unread:
        return cls()


class _Plain:
    """In the place of a class of tensors: makes the tensor that it is given."""

    def __new__(cls, data: Tensor, **_: Any) -> Tensor:
        return data


def _from_forward(frames: traceback.StackSummary) -> traceback.StackSummary:
    """Frames of which those of functions that forward calls are called forward: torch.export notes no others."""
    first = next((k for k, frame in enumerate(frames) if frame.name == "forward"), len(frames))
    for frame in frames[first:]:
        frame.name = "forward"
    return frames


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torch.export's own words go nowhere: what fails is told in one line."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(level)


# Functions that compute again, in the backward pass, what the first of their arguments gives: its gradient is theirs.
_AGAIN = ("torch.utils.checkpoint", "torch_geometric.nn.models.rev_gnn", "dgl.nn.pytorch.conv.grouprevres")


def _own_gradient(function: Any, *given: Any) -> Any:
    if function.__name__ == "_NoopSaveInputs":  # of checkpoint(use_reentrant=False), in PyTorch before 2.10
        return function.forward(*given)
    if function.__module__ in _AGAIN:
        named = list(inspect.signature(function.forward).parameters)[1:-1]  # ctx comes before, and the inputs after
        inputs = given[len(named) :]
        return given[0](*inputs[: dict(zip(named, given)).get("num_inputs")])
    raise Unlowerable(
        f"{function.__name__} has a gradient of its own: write it by plain operations (checkpoint: use_reentrant=False)"
    )


# Whether PyTorch is 2.15 or later, which tells the most sizes from values.
_NEWEST = tuple(int(n) for n in re.findall("[0-9]+", torch.__version__)[:2]) >= (2, 15)

_DATA = (
    "forward reads or sets .data of a tensor, which no trace shows: write .detach(), and set values before "
    "training"
)


def _without_features(error: BaseException, called: Called) -> Refused | None:
    """Why a module's dict of features has no vertex type; None: it is none of the graph's that lack them."""
    name = error.args[0] if isinstance(error, KeyError) and error.args else None
    if not isinstance(name, str) or called.schema.features.get(name, 1):
        return None
    return Refused(
        f"model: forward reads the features of the vertex type {name!r}, and the graph has none: give them, or a "
        "parameter of the module with a row for each of its vertices; a compiled module also takes them in a call"
    )


def _why(error: BaseException, given: Iterable[str]) -> Refused:
    """What torch.export, or the module in it, raised, in the words of who wrote the module."""
    if isinstance(error, Refused):
        return error
    text, kind = str(error), type(error).__name__
    frames = [
        f
        for e in (error, error.__cause__, error.__context__)
        if e
        for f in traceback.extract_tb(e.__traceback__)
    ]
    own = [f for f in frames if not is_library_file(f.filename)] or [
        f for f in frames if "/torch_geometric/nn/" in f.filename
    ]
    at = (
        f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}: {(own[-1].line or '').strip()}: "
        if own
        else ""
    )
    if isinstance(error, Unlowerable):
        return Refused(f"model: {at}{error}")
    if any(".max()) + 1" in (f.line or "") for f in frames):
        return Refused(
            f"model: {at}the number of vertices is found from the largest in edge_index: give num_nodes=x.size(0), as in softmax(src, index, num_nodes=x.size(0)), and make other edges (to_undirected) before training"
        )
    if "must match the size" in text and re.search(r"\(s\d+\)", text):
        return Refused(
            f"model: {at}a table of a fixed number of rows meets all vertices: give the table's rows as features, x"
        )
    if ".numpy()" in text:
        return Refused(f"model: {at}forward leaves PyTorch by .numpy(): write what follows by torch's operations")
    if "fake tensor" in text and "constant" in text:
        return Refused(f"model: {at}{_DATA}")
    if "in-place operation" in text or "functions with out=" in text:
        return Refused(f"model: {at}forward writes into a parameter or a buffer: {KEEPS}")
    matrix = next((name for name in given if name.startswith("adj")), None)
    if matrix:
        return Refused(
            f"model: {at}{kind}: {matrix} is edge_index, 2 × E: make a matrix of it in forward, by "
            "torch.sparse_coo_tensor(edge_index, edge_weight, (n, n)) with n = x.size(0), or call propagate"
        )
    if "data-dependent" in text or "DataDependent" in kind or "Pending unbacked" in kind:
        if any(f.filename.endswith("/torch_geometric/nn/dense/linear.py") for f in frames):
            return Refused(
                f"model: {at}a layer joins the rows of all types and sorts them by type, as HGTConv and HeteroLinear "
                "do: take HANConv, or HeteroConv with a layer for each relation, as TransformerConv is"
            )
        older = "" if _NEWEST else f", or PyTorch {torch.__version__} takes it to, as a later one may not"
        return Refused(
            f"model: {at}forward's course, or a size, depends on values{older}: write a comparison and torch.where, "
            "and take sizes from x.size(0)"
        )
    if "Constraints violated" in text or "specialized" in text:
        return Refused(
            "model: forward works for one number of vertices or edges alone: take sizes from x.size(0), not from numbers that the module holds"
        )
    return Refused(
        f"model: {at}{kind}: {' '.join(text.split())[:300]}; weft calls module({', '.join(given)})"
    )


def _said_of(node: Any) -> str:
    line = line_of(node)
    return f"{line}: " if line else ""


def _used(to: Lowering, outputs: list[int]) -> tuple[list[dict[str, Any]], list[int]]:
    """The operations that outputs depend on, and the outputs' numbers among them."""
    used: set[int] = set()
    left = list(outputs)
    while left:
        if (k := left.pop()) not in used:
            used.add(k)
            left += to.operations[k].get("in", [])
    number = {k: n for n, k in enumerate(sorted(used))}
    operations = [
        to.operations[k]
        | ({"in": [number[i] for i in to.operations[k]["in"]]} if "in" in to.operations[k] else {})
        for k in sorted(used)
    ]
    return operations, [number[k] for k in outputs]


def _program(module: nn.Module, schema: Schema, to: Lowering, outputs: list[Value]) -> Program:
    operations, found = _used(to, [of.op for of in (*outputs, *to.updates.values())])
    of_edges = [k for k, of in zip(found, outputs) if kind_of(of.rows) == "stored"]
    last, *others = found[: len(outputs) - len(of_edges)]
    updates = [{"name": name, "value": k} for name, k in zip(to.updates, found[len(outputs) :])]
    names = {o["name"] for o in operations if o["op"] in ("parameter", "table")} | to.updates.keys()
    for o in operations:
        names |= {
            o[k]
            for k in ("weight", "bias", "mean", "variance", "batches")
            if o["op"] == "batch_norm" and k in o
        }
    state = module.state_dict(keep_vars=True)
    canonical = _canonical(module)
    parameters = [
        {"name": n, "shape": list(state[n].shape), "trained": bool(state[n].requires_grad)}
        for n in state
        if n in names
    ]
    relations = [
        {"name": name, "source": r.source, "target": r.target} for name, r in schema.relations.items() if name
    ]
    text = json.dumps(
        {
            "version": 1,
            "class": type(module).__name__,
            **({"relations": relations} if relations else {}),
            "parameters": parameters,
            "operations": operations,
            "output": last,
            **({"others": others} if others else {}),
            **({"edge_outputs": of_edges} if of_edges else {}),
            **({"updates": updates} if updates else {}),
        }
    )
    arrays = {
        n: t.detach().cpu().to(torch.float32).numpy() for n, t in state.items() if canonical.get(n) == n
    }
    return Program(text, arrays, outputs[0].shape)


_DIFFERS = "forward does other operations in evaluation than in training, with a norm or rows that the other has not"


class _Merged:
    """One program of what forward does in training and in evaluation.

    Where these differ it has both values, and takes one by the operation training. What dropout reads is the
    same in both.
    """

    def __init__(self, to: Lowering, evaluated: Lowering) -> None:
        self.to, self.evaluated = to, evaluated
        self.known: dict[tuple[int, int], Value | None] = {}
        self.added: dict[int, Value] = {}  # operations of evaluation in the program

    def of(self, a: int, b: int) -> Value | None:
        """The value of both; None: they have other rows or shapes."""
        if (a, b) not in self.known:
            self.known[a, b] = self.made(a, b)
        return self.known[a, b]

    def made(self, a: int, b: int) -> Value | None:
        one, two = self.to.operations[a], self.evaluated.operations[b]
        if two["op"] == "dropout":
            raise Refused(
                f"model: {two.get('line', '')}: dropout stays on in evaluation: write F.dropout(x, p, training=self.training)"
            )
        if one["op"] == "dropout":
            inner = self.of(one["in"][0], b)
            return inner and self.again(a, [inner])
        read, other = one.get("in", ()), two.get("in", ())
        if _attributes(one) == _attributes(two) and len(read) == len(other):
            inputs = [self.of(x, y) for x, y in zip(read, other)]
            if all(of is not None for of in inputs):
                return self.again(a, inputs)
        x, y = self.to.shapes[a], self.evaluated.shapes[b]
        if (x.rows, x.shape) != (y.rows, y.shape):
            return None
        if self.has_norm(self.to, a) != self.has_norm(self.evaluated, b):
            raise Refused(f"model: {one.get('line', '')}: {_DIFFERS}")
        self.to.where = {key: one[key] for key in ("path", "line") if key in one}
        training = self.to.emit("training", (), None, ())
        return self.to.emit("where", [training, x, self.add(b)], x.rows, x.shape)

    def again(self, a: int, inputs: Sequence[Any]) -> Value:
        """An operation of the program on these values."""
        one, shape = self.to.operations[a], self.to.shapes[a]
        if [of.op for of in inputs] == list(one.get("in", ())):
            return shape
        self.to.where = {key: one[key] for key in ("path", "line") if key in one}
        return self.to.emit(one["op"], inputs, shape.rows, shape.shape, **dict(_attributes(one, "op", "path")), **_drawn(one))

    def add(self, b: int) -> Value:
        """An operation of evaluation."""
        if b not in self.added:
            two, shape = self.evaluated.operations[b], self.evaluated.shapes[b]
            inputs = [self.add(of) for of in two.get("in", ())]
            self.to.where = {key: two[key] for key in ("path", "line") if key in two}
            self.added[b] = self.to.emit(two["op"], inputs, shape.rows, shape.shape, **dict(_attributes(two, "op", "path")), **_drawn(two))
        return self.added[b]

    @staticmethod
    def has_norm(of: Lowering, op: int) -> set[str]:
        """The batch norms that a value depends on."""
        left, seen, found = [op], set[int](), set[str]()
        while left:
            if (k := left.pop()) not in seen:
                seen.add(k)
                found |= {of.operations[k].get("mean", "")} if of.operations[k]["op"] == "batch_norm" else set()
                left += of.operations[k].get("in", ())
        return found


def _attributes(operation: Mapping[str, Any], *without: str) -> dict[str, Any]:
    return {k: v for k, v in operation.items() if k not in ("in", "path", "line", *without)}


def _drawn(operation: Mapping[str, Any]) -> dict[str, str]:
    """The path of what an operation draws."""
    return {"path": operation["path"]} if operation["op"] in ("dropout", "uniform") else {}


def _merged(trained: tuple[Lowering, list[Value]], evaluated: tuple[Lowering, list[Value]]) -> list[Value]:
    """The outputs of a program of both, which is the one that forward is traced to in training."""
    both, limit = _Merged(trained[0], evaluated[0]), sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 10 * max(len(to.operations) for to, _ in (trained, evaluated)))
    try:
        made = [both.of(x.op, y.op) for x, y in zip(trained[1], evaluated[1])]
    finally:
        sys.setrecursionlimit(limit)
    if None in made:
        raise Refused(f"model: {_DIFFERS}")
    return [replace(x, op=of.op) for x, of in zip(trained[1], made) if of is not None]
