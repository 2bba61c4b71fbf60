"""The call of a module's forward: which of its parameters takes which tensor of the graph, by names, or as
data, an adjacency or a graph of DGL. `export` writes Called down; `_compare` calls it on small graphs."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .._errors import Refused
from .._lowering import KEEPS
from .._values import SEVERAL, Unlowerable
from .outputs import Outputs
from .schema import GRAPHS, Given, Schema


class Called(nn.Module):  # type: ignore[misc]
    """A module with what its forward is called with: tensors of a graph by their names, or a graph that holds
    them.

    outputs: joins what forward returns; None: it returns one tensor of vertices × classes.
    """

    def __init__(
        self, module: nn.Module, schema: Schema, inputs: dict[Given, Tensor], outputs: Outputs | None = None
    ) -> None:
        super().__init__()
        self.module, self.schema, self.outputs = module, schema, outputs
        self.typed = schema.typed
        there = {spec.what for spec in inputs}
        every = inspect.signature(forward_of(module)).parameters.values()
        free = [p for p in every if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if not free:
            dicts = "_dict" * self.typed
            raise Refused(
                f"model: forward names no argument: write forward(self, x{dicts}, edge_index{dicts}), and "
                f"edge_attr{dicts} or edge_weight{dicts} behind if it reads them"
            )
        first = free[0]
        takes_graph = first.name.lower() in _GRAPHS or "DGLGraph" in str(first.annotation)
        graphs = getattr(sys.modules.get("dgl"), "DGLGraph", ())
        graph_attributes = (
            []
            if takes_graph
            else [
                (m, name)
                for m in module.modules()
                for name, value in vars(m).items()
                if isinstance(value, graphs)
            ]
        )
        self.graph_attributes, self.dgl, self.compared = (
            graph_attributes,
            takes_graph or bool(graph_attributes),
            False,
        )
        self.adjacency = [p.name for p in free if p.name.startswith("adj")]
        self.data = not self.dgl and len(free) == 1 and first.name not in ("x", "x_dict")
        graph = "blocks" if first.name == "blocks" or "List" in str(first.annotation) else "graph"
        order = (
            [graph, "x"]
            if takes_graph
            else ["x"]
            if graph_attributes
            else ["data"]
            if self.data
            else ["x", "edge_index"]
        )
        self.joined = len(schema.features) == 1 and self.typed and any(p.name in TYPES_OF_EDGES for p in free)
        self.by_types = self.typed and not self.joined
        dicts = "_dict" * self.by_types
        if self.joined:
            widths = {
                what: [r.features if what == "edge_attr" else r.weighted for r in schema.relations.values()]
                for what in ("edge_attr", "edge_weight")
            }
            there -= {what for what, columns in widths.items() if len(set(columns)) > 1}
        named = {p.name: p.name.removesuffix(dicts).replace("node_id", "n_id") for p in free}
        self.names = {name: what for name, what in named.items() if what in there}
        kinds = inputs.get(Given("edge_attr"))
        if self.joined or (kinds is not None and kinds.shape[1] == 1):
            self.names |= {p.name: "edge_type" for p in free if p.name in TYPES_OF_EDGES}
        self.constants = {constant.name: constant.value for constant in schema.constants}
        self.batches: list[Tensor] = []  # the number of each vertex's graph, in the call that runs
        self.graphs: Any = 0  # how many there are
        others = (
            p
            for p in free
            if p.name not in (*self.names, *TYPES_OF_EDGES, *self.constants)
            and (p.default is p.empty or p.default is None)
        )
        found = zip(others, [o for o in order if o not in self.names.values()])
        self.names |= {p.name: o for p, o in found if o != "x" or o in there or p.default is p.empty}
        if schema.graphs > 1 and any(
            p.name.removesuffix("_dict") in ("batch", "ptr", "batch_size") for p in free
        ):
            raise Refused(SEVERAL.format("forward takes batch"))
        self.specs = {
            " ".join(filter(None, (spec.what, spec.type_name, spec.name))): spec
            for spec in inputs
            if spec.what != "n_id"
            or self.data
            or self.dgl
            or "n_id" in self.names.values()
            or schema.is_of_graphs(spec.type_name)
        }
        self.tensors = {name: inputs[spec] for name, spec in self.specs.items()}
        if self.dgl:
            self.names |= {
                p.name: weft
                for p in free[2:]
                for weft, names in EDGES_OF_DGL.items()
                if p.name in names and weft in there
            }
        for p in free:
            if p.default is not p.empty or p.name in self.names or p.name in self.constants:
                continue
            if lacks := next(
                (weft for weft, names in EDGES_OF_DGL.items() if self.dgl and p.name in names), ""
            ):
                raise Refused(
                    f"model: forward takes {p.name}, and the graph has none: give {lacks}, as "
                    f"weft.Graph.of(graph, {lacks}=graph.edata['w']) of its field w"
                )
            if p.name.removesuffix("_dict") in ("edge_attr", "edge_weight"):
                raise Refused(f"model: forward takes {p.name}, which the graph lacks: give {p.name}")
            if p.name in TYPES_OF_EDGES:
                raise Refused(
                    f"model: forward takes {p.name}: give the types of edges as edge_attr, one column of 0, "
                    "1, …"
                )
            raise Refused(
                f"model: forward takes {p.name}: weft gives x{dicts}, edge_index{dicts}, edge_attr{dicts} "
                f"and edge_weight{dicts}, by these names"
            )

    def train(self, mode: bool = True) -> Called:
        super().train(mode)
        for path in self.outputs.frozen if self.outputs is not None else ():
            self.module.get_submodule(path).training = False
        return self

    def forward(self, tensors: Mapping[str, Tensor]) -> Any:
        inputs = {self.specs[name]: tensor for name, tensor in tensors.items()}
        tables = {spec.name: tensor for spec, tensor in inputs.items() if spec.what == "table"}
        whole = self.by_type({spec: tensor for spec, tensor in inputs.items() if spec.what != "table"})
        whole = self.of_one_type(whole) if self.joined else whole
        if "edge_type" in self.names.values() and not self.joined:
            whole["edge_type"] = whole["edge_attr"][:, 0].long()
        lazy = any(
            map(nn.parameter.is_lazy, self.module.parameters())
        )  # which take their sizes from a first call
        buffers = {} if lazy else dict(self.module.named_buffers())
        self.batches = [tensor for spec, tensor in inputs.items() if spec.what == "batch"]
        self.graphs = next(
            (t.shape[0] for spec, t in inputs.items() if self.schema.is_of_graphs(spec.type_name)), 0
        )
        with self.graph_of(whole) as graph, contextlib.ExitStack() as hooks:
            data = self.data_of(whole) if self.data else None
            whole |= {"graph": graph, "blocks": _Blocks(graph), "data": data}
            for module, name in self.graph_attributes:
                setattr(module, name, graph)
            named = {name: self.graphs if c is GRAPHS else c for name, c in self.constants.items()} | {
                name: whole.get(field, {} if self.by_types else None) for name, field in self.names.items()
            }
            weighted = self.weighted(
                [data] if self.data else [named[name] for name in self.adjacency if name in named], whole
            )
            hooks.enter_context(weighted)
            made = (
                torch.func.functional_call(self.module, tables, (), named) if tables else self.module(**named)
            )
        if self.outputs is None:
            made = self.output(made)
        else:
            edges = {spec.type_name: t.shape[1] for spec, t in inputs.items() if spec.what == "edge_index"}
            made = tuple(self.outputs.joined(made, self.counts(inputs), edges))
            made = made[0] if len(made) == 1 else made
        _put_back(self.module, buffers)
        if not isinstance(made, Tensor) and self.outputs is None:
            raise Refused(
                f"model: forward returns a {type(made).__name__}, instead of one tensor of vertices × "
                "classes: give a module around this one, whose forward returns the logits of all vertices "
                "alone"
            )
        return made

    def counts(self, inputs: Mapping[Given, Tensor]) -> dict[str, Any]:
        """The numbers of vertices, by type, of the types that something with a row for each vertex is given
        of."""
        rows = {
            spec.type_name: t.shape[0]
            for what in ("n_id", "table", "x")
            for spec, t in inputs.items()
            if spec.what == what
        }
        return {name: rows[name] for name in self.schema.features if name in rows}

    def by_type(self, inputs: Mapping[Given, Any]) -> dict[str, Any]:
        """What is given by its name, in a graph of several types as a dict of these."""
        made: dict[str, Any] = {}
        for spec, value in inputs.items():
            if self.schema.is_of_graphs(spec.type_name):
                continue
            if self.typed:
                key = (
                    self.schema.relations[spec.type_name].key
                    if spec.rows.kind == "stored"
                    else spec.type_name
                )
                made.setdefault(spec.what, {})[key] = value
            else:
                made[spec.what] = value
        return made

    def of_one_type(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """The edges of all relations one after another, and their relations' numbers: the names, if these are
        numbers."""
        names = [relation.key[1] for relation in self.schema.relations.values()]
        numbers = map(int, names) if all(name.isdecimal() for name in names) else range(len(names))
        read = {*self.names.values(), *(("x", "edge_index", "n_id") if self.dgl else ())}
        whole = {what: list(by_relation.values()) for what, by_relation in whole.items() if what in read}
        whole["edge_type"] = [torch.full_like(ends[0], k) for k, ends in zip(numbers, whole["edge_index"])]
        return {
            what: torch.cat(tensors, int(what == "edge_index")) if len(tensors) > 1 else tensors[0]
            for what, tensors in whole.items()
        }

    def graph_of(self, whole: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
        """The graph that a module over DGL is called with."""
        if not self.dgl:
            return contextlib.nullcontext()
        from .. import _dgl

        if not self.by_types:
            keys = {what: ("_N", "_E", "_N") if what.startswith("edge") else "_N" for what in whole}
            whole = {what: {keys[what]: value} for what, value in whole.items()}
        if not any(self.schema.vertices.values()):  # each call has a graph, whose fields may be others
            whole = {what: rows for what, rows in whole.items() if what not in self.names.values()}
        return _dgl.graph_of(whole, self.compared, self.schema.graphs, self.graphs)

    @contextlib.contextmanager
    def weighted(self, adjacencies: Iterable[Any], whole: Mapping[str, Any]) -> Iterator[None]:
        """Layers of PyG that are called with adj_t get edge_weight, as a sparse matrix has its values."""
        edge_weight = whole.get("edge_weight")
        weights: dict[Any, Tensor] = (
            {} if edge_weight is None else edge_weight if self.by_types else {None: edge_weight}
        )
        weight_of: dict[int, Tensor] = {}
        for adj in adjacencies:
            for key, weight in weights.items():
                ends = adj[key] if self.by_types else adj
                ends = ends if isinstance(ends, Tensor) else ends.adj_t
                weight_of[id(ends)] = weight

        def give(layer: nn.Module, args: Any, kwargs: Any) -> Any:
            call = inspect.signature(layer.forward).bind_partial(*args, **kwargs)
            weight = next(
                (weight_of[id(ends)] for ends in call.arguments.values() if id(ends) in weight_of), None
            )
            if weight is None or call.arguments.get("edge_weight") is not None:
                return None
            call.arguments["edge_weight"] = weight
            return call.args, call.kwargs

        hooks = [
            layer.register_forward_pre_hook(give, with_kwargs=True)
            for layer in self.module.modules()
            if weight_of
            and hasattr(layer, "propagate")
            and "edge_weight" in inspect.signature(layer.forward).parameters
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
            counted = {"num_graphs": self.graphs} if self.batches else {}
            ends = whole["edge_index"].clone()
            return kind(**whole, **counted, adj_t=ends, num_nodes=whole["n_id"].shape[0])
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
            raise Unlowerable(
                f"forward returns nothing for {first}, whose vertices have the labels: return its logits"
            )
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

    return type(
        kind.__name__, (kind,), {name: asked(name) for name in ("batch", "ptr", "num_graphs", "batch_size")}
    )


class _Blocks:
    """A list of blocks, of any length: the block of each layer is the whole graph."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def __getitem__(self, _: int) -> Any:
        return self.graph

    def __len__(self) -> int:
        raise Unlowerable("how many blocks there are is not known: go through the layers")

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(self.graph)


def forward_of(module: nn.Module) -> Any:
    """The forward of a module, or of the one that modules of PyTorch around it call."""
    inner: Any = module
    while type(inner).__name__ in _AROUND:
        inner = inner._orig_mod if hasattr(inner, "_orig_mod") else inner.module
    return inner.forward


# Modules of PyTorch around another one, which they call with what they are given.
_AROUND = ("OptimizedModule", "DataParallel", "DistributedDataParallel")
TYPES_OF_EDGES = ("edge_type", "edge_types", "etype", "etypes")
_GRAPHS = ("graph", "g", "hg", "heterograph", "block", "blocks", "bg")
EDGES_OF_DGL = {
    "edge_weight": ("edge_weight", "eweight", "weight"),
    "edge_attr": ("edge_feat", "edge_feats", "edge_attr", "efeat", "efeats", "pseudo"),
}
