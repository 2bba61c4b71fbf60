"""What stands for a DGLGraph in a forward that is traced: what a module does with it becomes operations along
an edge_index."""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from .._errors import Refused
from .._values import SEVERAL
from .fields import Fields, OfEdges, View, copies, fields_of
from .mailbox import Mailbox

Key = tuple[str, str, str]

# Stands for the infinity that DGL has where a vertex has no message to take the largest or smallest of.
_INFINITE = 1e30


class Graph:
    """Stands for a DGLGraph in the forward of a module.

    Args:
        ends: of each relation, 2 × E, sources above targets.
        numbers: those of the vertices, from 0, by type.
        graphs: how many graphs are stored as one.
        batch: the graph of each vertex, by type; None: it is one graph.
        size: how many graphs the batch has.
    """

    is_block, is_multigraph = False, True
    __class__ = property(lambda self: sys.modules["dgl"].DGLGraph)  # what modules ask by isinstance
    idtype = torch.int64

    def __init__(
        self,
        ends: Mapping[Key, Tensor],
        numbers: Mapping[str, Tensor],
        graphs: int = 1,
        batch: Mapping[str, Tensor] | None = None,
        size: Any = 0,
    ) -> None:
        self.graphs, self.batch, self.size = graphs, batch, size
        self.ends, self.numbers = dict(ends), dict(sorted(numbers.items()))
        self.of_vertices = {name: Fields() for name in self.numbers}
        self.of_edges: dict[Any, Fields] = {key: OfEdges() for key in self.ends}
        self.device = next(iter(self.numbers.values())).device
        # What edge_softmax gives the functions that _stood_in replaces
        self._graph = SimpleNamespace(number_of_etypes=lambda: len(self.ends), graph=self)
        self.ntypes, self.canonical_etypes = list(self.numbers), list(self.ends)
        self.etypes = [name for _, name, _ in self.ends]
        self.is_homogeneous = len(self.ntypes) == len(self.etypes) == 1
        targets = {target for _, _, target in self.ends}
        apart = targets.isdisjoint(source for source, _, _ in self.ends)
        self.srctypes = [name for name in self.ntypes if not apart or name not in targets]
        self.dsttypes = [name for name in self.ntypes if not apart or name in targets]

    ndata = property(lambda self: fields_of(self.of_vertices, self.ntypes))
    srcdata = property(lambda self: fields_of(self.of_vertices, self.srctypes))
    dstdata = property(lambda self: fields_of(self.of_vertices, self.dsttypes))
    edata = property(lambda self: fields_of(self.of_edges, self.canonical_etypes))
    nodes = property(lambda self: self.view(self.ntypes))
    srcnodes = property(lambda self: self.view(self.srctypes))
    dstnodes = property(lambda self: self.view(self.dsttypes))
    edges = property(lambda self: View(lambda etype: self[etype].frame("e"), self.all_edges))

    def view(self, types: list[str]) -> View:
        def one(name: str | None = None) -> str:
            if name is None and len(types) > 1:
                raise NotImplementedError(f"the graph has {len(types)} types, and this takes one: name it")
            return types[0] if name is None else name

        return View(lambda name: self.of_vertices[one(name)], lambda name=None: self.numbers[one(name)])

    def over(self, ends: Mapping[Key, Tensor], copied: bool = True) -> Graph:
        """A graph of these edges between the same vertices, with a copy of the fields. As DGL's, it is no
        batch."""
        other = Graph(ends, self.numbers, self.graphs)
        if copied:
            other.of_vertices = copies(self.of_vertices)
        kept = [key for key in ends if ends[key] is self.ends.get(key)]
        other.of_edges |= copies({key: self.of_edges[key] for key in kept})
        return other

    @contextlib.contextmanager
    def local_scope(self) -> Iterator[None]:
        kept = self.of_vertices, self.of_edges
        self.of_vertices, self.of_edges = copies(kept[0]), copies(kept[1])
        try:
            yield
        finally:
            self.of_vertices, self.of_edges = kept

    def local_var(self) -> Graph:
        return self.over(self.ends).as_batch(self)

    def as_batch(self, other: Graph) -> Graph:
        """The graph with the vertices of another one's batch."""
        self.batch, self.size = other.batch, other.size
        return self

    # -- types

    def to_canonical_etype(self, etype: Any = None) -> Key:
        every = slice(None)
        asked = etype if isinstance(etype, tuple) else (every, every if etype is None else etype, every)
        found = [key for key in self.ends if all(a in (part, every) for a, part in zip(asked, key))]
        if len(found) != 1:
            suffix = "" if etype is None else f" {etype!r}"
            raise NotImplementedError(
                f"the graph has {len(found)} relations{suffix}, and this takes one: name it, by "
                "etype=(source type, name, target type) or graph[etype]"
            )
        return found[0]

    def get_etype_id(self, etype: Any) -> int:
        return self.canonical_etypes.index(self.to_canonical_etype(etype))

    def edge_type_subgraph(self, etypes: Iterable[Any]) -> Graph:
        """Some relations with their types, which share the fields."""
        keys = [self.to_canonical_etype(etype) for etype in etypes]
        numbers = {name: self.numbers[name] for key in keys for name in key[::2]}
        subgraph = Graph({key: self.ends[key] for key in keys}, numbers, self.graphs)
        subgraph.of_vertices = {name: self.of_vertices[name] for name in subgraph.ntypes}
        subgraph.of_edges = {key: self.of_edges[key] for key in keys}
        return subgraph

    def __getitem__(self, etype: Any) -> Graph:
        return self.edge_type_subgraph([etype])

    # -- sizes

    def num_nodes(self, ntype: str | None = None) -> Any:
        return self.count(ntype, self.ntypes)

    def num_src_nodes(self, ntype: str | None = None) -> Any:
        return self.count(ntype, self.srctypes)

    def num_dst_nodes(self, ntype: str | None = None) -> Any:
        return self.count(ntype, self.dsttypes)

    number_of_nodes, number_of_src_nodes, number_of_dst_nodes = num_nodes, num_src_nodes, num_dst_nodes

    def count(self, ntype: str | None, all_of: list[str]) -> Any:
        counts = [self.numbers[name].shape[0] for name in (all_of if ntype is None else [ntype])]
        return functools.reduce(operator.add, counts)

    def num_edges(self, etype: Any = None) -> Any:
        graph = self if etype is None else self[etype]
        return functools.reduce(operator.add, (ends.shape[1] for ends in graph.ends.values()))

    number_of_edges = num_edges

    @property
    def batch_size(self) -> Any:
        if self.graphs > 1:
            raise Refused(SEVERAL.format("forward reads the graphs of the batch"))
        return 1 if self.batch is None else self.size

    def batch_num_nodes(self, ntype: str | None = None) -> Segments:
        name = self.ntypes[0] if ntype is None else ntype
        number = torch.zeros_like(self.numbers[name]) if self.batch is None else self.batch[name]
        return Segments(number, self.batch_size)

    def all_edges(self, form: str = "uv", order: str = "eid", etype: Any = None) -> tuple[Tensor, Tensor]:
        if form != "uv":
            raise NotImplementedError(
                f"edges(form={form!r}) gives numbers of edges: take both ends, by form='uv', and fields by "
                "edata"
            )
        if order not in ("eid", None):
            raise NotImplementedError(
                f"edges(order={order!r}) sorts edges: take them as they are, by order='eid'"
            )
        ends = self.ends[self.to_canonical_etype(etype)]
        return ends[0], ends[1]

    def in_degrees(self, v: Any = None, etype: Any = None) -> Degrees:
        return Degrees(self[etype].counted(1))

    def out_degrees(self, u: Any = None, etype: Any = None) -> Degrees:
        return Degrees(self[etype].counted(0))

    # -- other graphs

    def reverse(self, copy_ndata: bool = True, **_: Any) -> Graph:
        return self.over({key[::-1]: ends.flip(0) for key, ends in self.ends.items()}, copy_ndata)

    def add_self_loop(self, *_: Any, etype: Any = None, **__: Any) -> Graph:
        key = self.to_canonical_etype(etype)
        loops = torch.arange(self[key].rows(1)).view(1, -1).repeat(2, 1)
        return self.over(self.ends | {key: torch.cat([self.ends[key], loops], 1)})

    def remove_self_loop(self, etype: Any = None) -> Graph:
        key = self.to_canonical_etype(etype)
        ends = self.ends[key]
        return self.over(self.ends | {key: ends[:, ends[0] != ends[1]]}).as_batch(self)

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(
            f"DGLGraph.{name} is not known to weft: use update_all, apply_edges, ndata and edata"
        )

    # -- messages of one relation

    edge_index = property(lambda self: self.ends[self.to_canonical_etype()])

    def rows(self, end: int) -> Any:
        """The number of sources (0) or targets (1)."""
        return self.numbers[self.to_canonical_etype()[2 * end]].shape[0]

    def counted(self, end: int) -> Tensor:
        return Segments(self.edge_index[end], self.rows(end)).counted()

    def frame(self, name: str) -> Fields:
        """The fields of sources (u), targets (v) or edges (e)."""
        key = self.to_canonical_etype()
        return self.of_edges[key] if name == "e" else self.of_vertices[key[2 * (name == "v")]]

    def at(self, frame: str, field: str) -> Tensor:
        """The field of sources (u), targets (v) or edges (e), for each edge."""
        return self.along(self.frame(frame)[field], frame)

    def messages(self, function: Any) -> dict[str, Tensor]:
        if not hasattr(function, "out_field"):  # one of Python
            frames = {frame: _Frame(self, frame) for frame in "uve"}
            return dict(function(SimpleNamespace(src=frames["u"], dst=frames["v"], data=frames["e"])))
        if not hasattr(function, "lhs_field"):
            return {function.out_field: self.at(function.name[-1], function.in_field)}
        left, operator, right = function.name.split("_")
        return {
            function.out_field: paired(
                operator, self.at(left, function.lhs_field), self.at(right, function.rhs_field)
            )
        }

    def along(self, values: Any, frame: str) -> Any:
        """Values of sources (u), targets (v) or edges (e), for each edge."""
        return values if values is None or frame == "e" else values[self.edge_index[int(frame == "v")]]

    def received(self, message: Any, reduce: Any, apply: Any = None) -> dict[str, Tensor]:
        """The fields that targets get."""
        sent, data = self.messages(message), self.frame("v")
        if hasattr(reduce, "out_field"):
            made = {reduce.out_field: self.reduced(sent[reduce.msg_field], reduce.name)}
        else:
            box = {name: Mailbox(self, value) for name, value in sent.items()}
            made = reduce(SimpleNamespace(mailbox=box, data=data, batch_size=lambda: self.rows(1)))
            made = {
                field: self.where_any(value, 0) for field, value in made.items()
            }  # DGL calls it for no others
        return made if apply is None else made | apply(SimpleNamespace(data=Fields({**data, **made})))

    def where_any(self, values: Tensor, none: float) -> Tensor:
        """Values of targets, and another value where a target has no edges."""
        return torch.where(expanded(self.counted(1) > 0, values), values, none)

    def reduced(self, values: Tensor, name: str) -> Tensor:
        return Segments(self.edge_index[1], self.rows(1)).reduced(values, name)

    def softmax(self, values: Tensor, end: int) -> Tensor:
        """DGL's edge_softmax, over the edges of each target (1) or source (0)."""
        by = self if end else self.reverse()
        index = by.edge_index[1]
        apart = (values - by.reduced(values.detach(), "max")[index]).exp()
        return apart / by.reduced(apart, "sum")[index]

    # -- and of several

    def apply_edges(self, func: Any, edges: Any = "__ALL__", etype: Any = None) -> None:
        if not isinstance(edges, str):
            raise NotImplementedError("apply_edges of some edges is not known to weft: choose by torch.where")
        for key in self.ends if etype is None else [self.to_canonical_etype(etype)]:
            self.of_edges[key].update(self[key].messages(func))

    def apply_nodes(self, func: Any, v: Any = "__ALL__", ntype: str | None = None) -> None:
        data = self.nodes[ntype].data
        data.update(func(SimpleNamespace(data=data)))

    def update_all(
        self, message_func: Any, reduce_func: Any, apply_node_func: Any = None, etype: Any = None
    ) -> None:
        functions = message_func, reduce_func, apply_node_func
        if etype is None and len(self.ends) > 1 and getattr(reduce_func, "name", "") in ("sum", "max", "min"):
            return self.multi_update_all(dict.fromkeys(self.ends, functions), reduce_func.name)
        subgraph = self[etype]
        subgraph.frame("v").update(subgraph.received(*functions))

    def multi_update_all(
        self, etype_dict: Mapping[Any, Any], cross_reducer: Any, apply_node_func: Any = None
    ) -> None:
        got: dict[str, dict[str, list[Tensor]]] = {}
        stacks, limited = cross_reducer == "stack", False
        into = [self.to_canonical_etype(etype)[2] for etype in etype_dict]
        for etype in sorted(etype_dict, key=self.get_etype_id) if stacks else etype_dict:
            subgraph, (message, reduce, *apply) = self[etype], etype_dict[etype]
            made, target = subgraph.received(message, reduce, *apply), subgraph.canonical_etypes[0][2]
            none = {"max": -_INFINITE, "min": _INFINITE}.get(getattr(reduce, "name", ""))
            if none and into.count(target) > 1 and not stacks:
                limited, made = (
                    True,
                    {field: subgraph.where_any(value, none) for field, value in made.items()},
                )
            for field, value in made.items():
                got.setdefault(target, {}).setdefault(field, []).append(value)
        for target, fields in got.items():
            for field, values in fields.items():
                value = values[0] if len(values) == 1 and not stacks else _crossed(cross_reducer, values)
                value = torch.where(value.abs() < _INFINITE / 1e9, value, 0) if limited else value
                self.of_vertices[target][field] = value
            if apply_node_func is not None:
                self.apply_nodes(apply_node_func, ntype=target)


class Segments:
    """Rows that belong to others: edges to vertices, or vertices to the graphs of a batch.

    Args:
        index: to which each row belongs.
        count: how many there are to which rows belong.
    """

    def __init__(self, index: Tensor, count: Any) -> None:
        self.index, self.count = index, count

    def __iter__(self) -> Iterator[Any]:
        """The number of vertices of each graph, of which there is one."""
        if not isinstance(self.count, int):
            raise NotImplementedError(
                "the graphs of a batch are gone through one by one: pool by dgl.readout_nodes, and give "
                "vertices what their graph has by dgl.broadcast_nodes"
            )
        yield self.index.shape[0]

    def counted(self) -> Tensor:
        return torch.zeros(self.count).index_add(0, self.index, torch.ones(self.index.shape[0]))

    def spread(self, values: Tensor) -> Tensor:
        return values[self.index]

    def reduced(self, values: Tensor, name: str) -> Tensor:
        zeros = torch.zeros((self.count, *values.shape[1:]), dtype=values.dtype)
        if name in ("sum", "mean"):
            out = zeros.index_add(0, self.index, values)
            return out if name == "sum" else out / expanded(self.counted().clamp(min=1), values)
        index = expanded(self.index, values).expand_as(values)
        kind = {"max": "amax", "min": "amin", "prod": "prod", "mul": "prod"}[name]
        start = torch.ones_like(zeros) if kind == "prod" else zeros
        return start.scatter_reduce(0, index, values, kind, include_self=kind == "prod")


def _crossed(reducer: Any, values: list[Tensor]) -> Tensor:
    """Combines what vertices get along several relations."""
    if callable(reducer):
        made: Any = reducer(values)
    else:
        made = torch.stack(values, 1) if reducer == "stack" else getattr(torch.stack(values), reducer)(0)
    return made[0] if isinstance(made, tuple) else made  # of the largest, values and indices


def expanded(of_rows: Tensor, values: Tensor) -> Tensor:
    """A number of each row, in as many dimensions as the values."""
    return of_rows.view(-1, *(1,) * (values.dim() - 1))


def paired(operator: str, a: Any, b: Any) -> Any:
    """DGL's binary operators: dimensions are aligned at the first."""
    if operator.startswith("copy"):
        return a if operator == "copy_lhs" else b
    wide = max(a.dim(), b.dim())
    a, b = (t.reshape(t.shape[:1] + (1,) * (wide - t.dim()) + t.shape[1:]) for t in (a, b))
    return (a * b).sum(-1, keepdim=True) if operator == "dot" else getattr(torch, operator)(a, b)


class _Frame:
    """The fields of sources, targets or edges in a message function of Python, for each edge."""

    def __init__(self, graph: Graph, frame: str) -> None:
        self.graph, self.frame = graph, frame

    def __getitem__(self, field: str) -> Tensor:
        return self.graph.at(self.frame, field)

    def __contains__(self, field: str) -> bool:
        return field in self.graph.frame(self.frame)


class Degrees:
    """Numbers of edges, by which DGL's layers ask whether a vertex has none: weft gives such a vertex 0."""

    def __init__(self, count: Tensor) -> None:
        self.count = count

    def __eq__(self, other: object) -> Any:
        return (
            SimpleNamespace(any=lambda: False, sum=lambda: 0)
            if isinstance(other, int) and other == 0
            else self.count == other
        )

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.count, name)

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = torch.utils._pytree.tree_map(
            lambda v: v.count if isinstance(v, cls) else v, (args, kwargs or {})
        )
        return function(*args, **kwargs)
