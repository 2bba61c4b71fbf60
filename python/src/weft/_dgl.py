"""A graph of DGL for tracing: what a module does with it becomes operations along an edge_index.

DGL's last release needs PyTorch 2.2, whose torch.export knows no sizes that vary; there make_fx gives the same
kind of graph.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from ._errors import Refused
from ._operations import SEVERAL

_OWN = f"{os.sep}weft{os.sep}"

Key = tuple[str, str, str]

# Stands for the infinity that DGL has where a vertex has no message to take the largest or smallest of.
_INFINITE = 1e30


class Graph:
    """Stands for a DGLGraph in the forward of a module.

    Args:
        ends: of each relation, 2 × E, sources above targets.
        numbers: those of the vertices, from 0, by type.
        graphs: how many graphs it is of.
    """

    is_block, is_multigraph = False, True
    __class__ = property(lambda self: sys.modules["dgl"].DGLGraph)  # what modules ask by isinstance
    idtype = torch.int64

    def __init__(self, ends: Mapping[Key, Tensor], numbers: Mapping[str, Tensor], graphs: int = 1) -> None:
        self.graphs = graphs
        self.ends, self.numbers = dict(ends), dict(sorted(numbers.items()))
        self.of_vertices = {name: _Fields() for name in self.numbers}
        self.of_edges: dict[Any, _Fields] = {key: _OfEdges() for key in self.ends}
        self.device = next(iter(self.numbers.values())).device
        # What edge_softmax gives the functions that _stood_in replaces
        self._graph = SimpleNamespace(number_of_etypes=lambda: len(self.ends), of=self)
        self.ntypes, self.canonical_etypes = list(self.numbers), list(self.ends)
        self.etypes = [name for _, name, _ in self.ends]
        self.is_homogeneous = len(self.ntypes) == len(self.etypes) == 1
        targets = {target for _, _, target in self.ends}
        apart = targets.isdisjoint(source for source, _, _ in self.ends)
        self.srctypes = [name for name in self.ntypes if not apart or name not in targets]
        self.dsttypes = [name for name in self.ntypes if not apart or name in targets]

    ndata = property(lambda self: _fields(self.of_vertices, self.ntypes))
    srcdata = property(lambda self: _fields(self.of_vertices, self.srctypes))
    dstdata = property(lambda self: _fields(self.of_vertices, self.dsttypes))
    edata = property(lambda self: _fields(self.of_edges, self.canonical_etypes))
    nodes = property(lambda self: self.view(self.ntypes))
    srcnodes = property(lambda self: self.view(self.srctypes))
    dstnodes = property(lambda self: self.view(self.dsttypes))
    edges = property(lambda self: _View(lambda etype: self[etype].frame("e"), self.all_edges))

    def view(self, types: list[str]) -> _View:
        def one(name: str | None = None) -> str:
            if name is None and len(types) > 1:
                raise NotImplementedError(f"the graph has {len(types)} types, and this takes one: name it")
            return types[0] if name is None else name

        return _View(lambda name: self.of_vertices[one(name)], lambda name=None: self.numbers[one(name)])

    def over(self, ends: Mapping[Key, Tensor], copied: bool = True) -> Graph:
        """A graph of these edges between the same vertices, with a copy of the fields."""
        other = Graph(ends, self.numbers, self.graphs)
        if copied:
            other.of_vertices = _copies(self.of_vertices)
        kept = [key for key in ends if ends[key] is self.ends.get(key)]
        other.of_edges |= _copies({key: self.of_edges[key] for key in kept})
        return other

    @contextlib.contextmanager
    def local_scope(self) -> Iterator[None]:
        kept = self.of_vertices, self.of_edges
        self.of_vertices, self.of_edges = _copies(kept[0]), _copies(kept[1])
        try:
            yield
        finally:
            self.of_vertices, self.of_edges = kept

    def local_var(self) -> Graph:
        return self.over(self.ends)

    # -- types

    def to_canonical_etype(self, etype: Any = None) -> Key:
        every = slice(None)
        asked = etype if isinstance(etype, tuple) else (every, every if etype is None else etype, every)
        found = [key for key in self.ends if all(a in (of, every) for a, of in zip(asked, key))]
        if len(found) != 1:
            of = "" if etype is None else f" {etype!r}"
            raise NotImplementedError(
                f"the graph has {len(found)} relations{of}, and this takes one: name it, by etype=(source type, name, "
                "target type) or graph[etype]"
            )
        return found[0]

    def get_etype_id(self, etype: Any) -> int:
        return self.canonical_etypes.index(self.to_canonical_etype(etype))

    def edge_type_subgraph(self, etypes: Iterable[Any]) -> Graph:
        """Some relations with their types, which share the fields."""
        keys = [self.to_canonical_etype(etype) for etype in etypes]
        numbers = {name: self.numbers[name] for key in keys for name in key[::2]}
        of = Graph({key: self.ends[key] for key in keys}, numbers, self.graphs)
        of.of_vertices = {name: self.of_vertices[name] for name in of.ntypes}
        of.of_edges = {key: self.of_edges[key] for key in keys}
        return of

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
        of = self if etype is None else self[etype]
        return functools.reduce(operator.add, (ends.shape[1] for ends in of.ends.values()))

    number_of_edges = num_edges

    @property
    def batch_size(self) -> int:
        if self.graphs > 1:
            raise Refused(SEVERAL.format("forward reads the graphs of the batch"))
        return 1

    def batch_num_nodes(self, ntype: str | None = None) -> list[Any]:
        return [self.num_nodes(ntype)] * self.batch_size

    def all_edges(self, form: str = "uv", order: str = "eid", etype: Any = None) -> tuple[Tensor, Tensor]:
        if form != "uv":
            raise NotImplementedError(f"edges(form={form!r}) gives numbers of edges: take both ends, by form='uv', and fields by edata")
        if order not in ("eid", None):
            raise NotImplementedError(f"edges(order={order!r}) sorts edges: take them as they are, by order='eid'")
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
        return self.over(self.ends | {key: ends[:, ends[0] != ends[1]]})

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"DGLGraph.{name} is not known to weft: use update_all, apply_edges, ndata and edata")

    # -- messages of one relation

    edge_index = property(lambda self: self.ends[self.to_canonical_etype()])

    def rows(self, end: int) -> Any:
        """The number of sources (0) or targets (1)."""
        return self.numbers[self.to_canonical_etype()[2 * end]].shape[0]

    def counted(self, end: int) -> Tensor:
        ones = torch.ones(self.edge_index.shape[1])
        return torch.zeros(self.rows(end)).index_add(0, self.edge_index[end], ones)

    def frame(self, name: str) -> _Fields:
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
        return {function.out_field: _pairs(operator, self.at(left, function.lhs_field), self.at(right, function.rhs_field))}

    def along(self, values: Any, frame: str) -> Any:
        """Values of sources (u), targets (v) or edges (e), for each edge."""
        return values if values is None or frame == "e" else values[self.edge_index[int(frame == "v")]]

    def received(self, message: Any, reduce: Any, apply: Any = None) -> dict[str, Tensor]:
        """The fields that targets get."""
        sent, data = self.messages(message), self.frame("v")
        if hasattr(reduce, "out_field"):
            made = {reduce.out_field: self.reduced(sent[reduce.msg_field], reduce.name)}
        else:
            box = {name: _Mailbox(self, value) for name, value in sent.items()}
            made = reduce(SimpleNamespace(mailbox=box, data=data, batch_size=lambda: self.rows(1)))
            made = {field: self.where_any(value, 0) for field, value in made.items()}  # DGL calls it for no others
        return made if apply is None else made | apply(SimpleNamespace(data=_Fields({**data, **made})))

    def where_any(self, values: Tensor, none: float) -> Tensor:
        """Values of targets, and another one of those without edges."""
        return torch.where(_beside(self.counted(1) > 0, values), values, none)

    def reduced(self, values: Tensor, name: str) -> Tensor:
        index = self.edge_index[1]
        zeros = torch.zeros((self.rows(1), *values.shape[1:]), dtype=values.dtype)
        if name in ("sum", "mean"):
            out = zeros.index_add(0, index, values)
            return out if name == "sum" else out / _beside(self.counted(1).clamp(min=1), values)
        index = _beside(index, values).expand_as(values)
        kind = {"max": "amax", "min": "amin", "prod": "prod", "mul": "prod"}[name]
        start = torch.ones_like(zeros) if kind == "prod" else zeros
        return start.scatter_reduce(0, index, values, kind, include_self=kind == "prod")

    def softmax(self, values: Tensor, end: int) -> Tensor:
        """The reference of DGL's edge_softmax."""
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

    def update_all(self, message_func: Any, reduce_func: Any, apply_node_func: Any = None, etype: Any = None) -> None:
        functions = message_func, reduce_func, apply_node_func
        if etype is None and len(self.ends) > 1 and getattr(reduce_func, "name", "") in ("sum", "max", "min"):
            return self.multi_update_all(dict.fromkeys(self.ends, functions), reduce_func.name)
        of = self[etype]
        of.frame("v").update(of.received(*functions))

    def multi_update_all(self, etype_dict: Mapping[Any, Any], cross_reducer: Any, apply_node_func: Any = None) -> None:
        got: dict[str, dict[str, list[Tensor]]] = {}
        stacks, limited = cross_reducer == "stack", False
        into = [self.to_canonical_etype(etype)[2] for etype in etype_dict]
        for etype in sorted(etype_dict, key=self.get_etype_id) if stacks else etype_dict:
            of, (message, reduce, *apply) = self[etype], etype_dict[etype]
            made, target = of.received(message, reduce, *apply), of.canonical_etypes[0][2]
            none = {"max": -_INFINITE, "min": _INFINITE}.get(getattr(reduce, "name", ""))
            if none and into.count(target) > 1 and not stacks:
                limited, made = True, {field: of.where_any(value, none) for field, value in made.items()}
            for field, value in made.items():
                got.setdefault(target, {}).setdefault(field, []).append(value)
        for target, fields in got.items():
            for field, values in fields.items():
                value = values[0] if len(values) == 1 and not stacks else _crossed(cross_reducer, values)
                value = torch.where(value.abs() < _INFINITE / 1e9, value, 0) if limited else value
                self.of_vertices[target][field] = value
            if apply_node_func is not None:
                self.apply_nodes(apply_node_func, ntype=target)


def _crossed(reducer: Any, values: list[Tensor]) -> Tensor:
    """What vertices get along several relations, in one."""
    if callable(reducer):
        made: Any = reducer(values)
    else:
        made = torch.stack(values, 1) if reducer == "stack" else getattr(torch.stack(values), reducer)(0)
    return made[0] if isinstance(made, tuple) else made  # of the largest, values and indices


def _beside(of_rows: Tensor, values: Tensor) -> Tensor:
    """A number of each row, in as many dimensions as the values."""
    return of_rows.view(-1, *(1,) * (values.dim() - 1))


def _copies(frames: Mapping[Any, _Fields]) -> dict[Any, _Fields]:
    return {key: type(of)(of) for key, of in frames.items()}


def _fields(frames: Mapping[Any, _Fields], types: list[Any]) -> Any:
    return frames[types[0]] if len(types) == 1 else _ByType({name: frames[name] for name in types})


class _ByType(MutableMapping[str, Any]):
    """Fields of several types: each a dict by type."""

    def __init__(self, frames: Mapping[Any, _Fields]) -> None:
        self.frames = frames

    def __getitem__(self, field: str) -> Any:
        found = {name: of[field] for name, of in self.frames.items() if field in of}
        return found or next(iter(self.frames.values()))[field]

    def __setitem__(self, field: str, values: Mapping[Any, Any]) -> None:
        for name, value in values.items():
            self.frames[name][field] = value

    def __delitem__(self, field: str) -> None:
        for of in self.frames.values():
            of.pop(field, None)

    def __contains__(self, field: object) -> bool:
        return any(field in of for of in self.frames.values())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(field for of in self.frames.values() for field in of))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _View:
    """graph.nodes, graph.edges: [type].data has the fields of a type, and a call gives the numbers or the ends."""

    def __init__(self, fields: Callable[[Any], _Fields], called: Callable[..., Any]) -> None:
        self.fields, self.called = fields, called

    def __getitem__(self, name: Any) -> Any:
        return SimpleNamespace(data=self.fields(name))

    def __call__(self, *of: Any, **named: Any) -> Any:
        return self.called(*of, **named)


class _Fields(dict[str, Any]):
    """Of vertices or edges, by their names."""

    def __missing__(self, field: str) -> Any:
        raise NotImplementedError(
            f"the field {field!r} of the graph is set outside of forward: compute it in forward, or {self.given(field)}"
        )

    def given(self, field: str) -> str:
        """How a field is given."""
        return "make it columns of the features x"


class _OfEdges(_Fields):
    def given(self, field: str) -> str:
        return (
            f"compile weft.Graph.of(graph, edge_attr=graph.edata[{field!r}]), and read graph.edata['feat'], or an "
            "argument efeat"
        )


def _pairs(operator: str, a: Any, b: Any) -> Any:
    """DGL's binary operators: dimensions are aligned at the first."""
    if operator.startswith("copy"):
        return a if operator == "copy_lhs" else b
    wide = max(a.dim(), b.dim())
    a, b = (t.reshape(t.shape[:1] + (1,) * (wide - t.dim()) + t.shape[1:]) for t in (a, b))
    return (a * b).sum(-1, keepdim=True) if operator == "dot" else getattr(torch, operator)(a, b)


class _Frame:
    """The fields of edges in a message function of Python: those of a frame, by their names."""

    def __init__(self, graph: Graph, frame: str) -> None:
        self.graph, self.frame = graph, frame

    def __getitem__(self, field: str) -> Tensor:
        return self.graph.at(self.frame, field)

    def __contains__(self, field: str) -> bool:
        return field in self.graph.frame(self.frame)


class _Mailbox:
    """The messages of each vertex in a reduce function of Python: vertices × messages × … there, and one row for each edge
    here. Sums, means and the like over dimension 1 are known, and what is computed element by element."""

    def __init__(self, graph: Graph, values: Tensor) -> None:
        self.graph, self.values = graph, values

    def size(self, dim: int) -> Any:
        if dim == 1:
            return _Count(self.graph.counted(1))
        return self.values.shape[dim - 1] if dim > 1 else self.graph.rows(1)

    def reduced(self, name: str, dim: int | None, keepdim: bool = False) -> Tensor:
        if dim != 1:
            raise NotImplementedError(f"{name} over dimension {dim} of a mailbox: reduce dimension 1")
        made = self.graph.reduced(self.values, name)
        return made.unsqueeze(1) if keepdim else made

    def sum(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return self.reduced("sum", dim, keepdim)

    def mean(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return self.reduced("mean", dim, keepdim)

    def max(self, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, None]:
        return self.reduced("max", dim, keepdim), None

    def min(self, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, None]:
        return self.reduced("min", dim, keepdim), None

    def softmax(self, dim: int | None = None, **_: Any) -> _Mailbox:
        if dim != 1:
            raise NotImplementedError(f"softmax over dimension {dim} of a mailbox: give dim=1")
        return _Mailbox(self.graph, self.graph.softmax(self.values, 1))

    def unsqueeze(self, dim: int) -> _Mailbox:
        if 0 <= dim < 2 or dim < -self.values.dim():
            raise NotImplementedError(f"unsqueeze({dim}) of a mailbox: add dimensions behind the first two")
        return _Mailbox(self.graph, self.values.unsqueeze(dim - (dim > 0)))

    def __getitem__(self, at: Any) -> _Mailbox:
        at = at if isinstance(at, tuple) else (at,)
        if any(part not in (slice(None), Ellipsis) for part in at[:2]):
            raise NotImplementedError("some of a mailbox's messages: they have no order")
        return _Mailbox(self.graph, self.values[at[:1] if at[0] is Ellipsis else (slice(None), *at[2:])])

    def along(self, of: Any) -> Any:
        """An operand, for each edge: what reductions with keepdim gave vertices meets all of a vertex's messages."""
        if isinstance(of, _Mailbox):
            return of.values
        if not isinstance(of, Tensor) or of.dim() <= self.values.dim():
            return of
        if of.shape[1] != 1:
            raise NotImplementedError("rows of vertices meet their messages: reduce these with keepdim=True, or unsqueeze(1)")
        return self.graph.along(of.squeeze(1), "v")

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "").strip("_")
        box = next(of for of in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(of, cls))
        if name in _ELEMENTWISE:
            args, kwargs = torch.utils._pytree.tree_map(box.along, (args, kwargs or {}))
            return cls(box.graph, function(*args, **kwargs))
        if not hasattr(cls, name) or not args or args[0] is not box:
            raise NotImplementedError(f"{name} of a mailbox is not known to weft: use sum, mean, max or min over dimension 1")
        return getattr(box, name)(*args[1:], **(kwargs or {}))


_ELEMENTWISE = frozenset(
    "abs neg exp log sqrt rsqrt square sigmoid tanh relu leaky_relu elu gelu silu softplus clamp where add sub mul div truediv "
    "pow radd rsub rmul rdiv rtruediv rpow true_divide multiply subtract divide maximum minimum gt ge lt le eq ne".split()
)


class _Count:
    """A number of each vertex that a reduce function takes for a number, as how many messages there are: it meets rows."""

    def __init__(self, count: Tensor) -> None:
        self.count = count

    def __array_ufunc__(self, function: Any, method: str, *args: Any) -> Any:  # of NumPy
        return self.__torch_function__(getattr(torch, function.__name__), (), args)

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        rows = [of.dim() for of in torch.utils._pytree.tree_leaves(args) if isinstance(of, Tensor)]

        def beside(of: Any) -> Any:
            return of.count.view(-1, *(1,) * (max(rows, default=1) - 1)) if isinstance(of, cls) else of

        made = function(*torch.utils._pytree.tree_map(beside, args), **(kwargs or {}))
        return made if rows else cls(made)


def _operators(kind: Any) -> None:
    """Gives a class the operators of tensors, and their methods of elements."""

    def as_tensor(name: str) -> Any:
        function = getattr(Tensor, name)
        return lambda *args, **named: kind.__torch_function__(function, (), args, named)

    for name in "add sub mul truediv pow gt ge lt le radd rsub rmul rtruediv rpow neg abs".split():
        setattr(kind, f"__{name}__", as_tensor(f"__{name}__"))
    for name in "abs exp log sqrt square sigmoid tanh relu clamp pow float".split():
        setattr(kind, name, as_tensor(name))


_operators(_Mailbox)
_operators(_Count)


class Degrees:
    """Numbers of edges, by which DGL's layers ask whether a vertex has none: weft gives such a vertex 0."""

    def __init__(self, count: Tensor) -> None:
        self.count = count

    def __eq__(self, other: object) -> Any:
        return SimpleNamespace(any=lambda: False, sum=lambda: 0) if isinstance(other, int) and other == 0 else self.count == other

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.count, name)

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = torch.utils._pytree.tree_map(lambda v: v.count if isinstance(v, cls) else v, (args, kwargs or {}))
        return function(*args, **kwargs)


@contextlib.contextmanager
def graph_of(whole: Mapping[str, Any], own: bool, graphs: int = 1) -> Iterator[Any]:
    """The graph of what is given by type: DGL's own, or one that stands for it in a trace.

    It has features where modules that take a graph alone look for them.
    """
    import dgl

    ends: Mapping[Key, Tensor] = whole["edge_index"]
    if own:
        counts = {name: len(of) for name, of in whole["n_id"].items()}
        graph = dgl.heterograph({key: tuple(of) for key, of in ends.items()}, counts)
        graph = graph if graph.canonical_etypes == list(ends) else dgl.edge_type_subgraph(graph, list(ends))
    else:
        graph = Graph(ends, whole["n_id"], graphs)
    for what, field in (("x", "feat"), ("edge_attr", "feat"), ("edge_weight", "weight")):
        for key, value in whole.get(what, {}).items():
            (graph.nodes if what == "x" else graph.edges)[key].data[field] = value
    with contextlib.nullcontext() if own else _stood_in():
        yield graph


@contextlib.contextmanager
def _stood_in() -> Iterator[None]:
    """DGL's functions of graphs take a Graph, too."""
    import dgl

    softmax: Any = sys.modules["dgl.ops.edge_softmax"]

    def normalised(graph: Any, values: Tensor, eids: Any = None, norm_by: str = "dst") -> Tensor:
        of: Graph = graph.of
        return of.softmax(values, int(norm_by == "dst"))

    def reduced(graph: Graph, operator: str, reduce: str, ends: Any, edges: Any) -> Tensor:
        return graph.reduced(_pairs(operator, graph.along(ends, "u"), edges), reduce)

    def pairs(graph: Graph, operator: str, left: Any, right: Any, lhs_target: str = "u", rhs_target: str = "v") -> Any:
        return _pairs(operator, graph.along(left, lhs_target), graph.along(right, rhs_target))

    def typed(values: Tensor, weights: Tensor, idx_a: Any = None, idx_b: Any = None) -> Tensor:
        if idx_a is not None:
            raise NotImplementedError("gather_mm with idx_a is not known to weft: choose the rows first")
        by_type = [(idx_b == k).view(-1, 1) * (values @ weights[k]) for k in range(weights.shape[0])]
        return torch.stack(by_type).sum(0)

    def spread(graph: Graph, values: Any, **_: Any) -> Tensor:
        return values.expand(graph.num_nodes(), *values.shape[1:])

    replaced: list[tuple[Any, str, Any]] = [(softmax, "edge_softmax_internal", normalised)]
    replaced += [(softmax, "edge_softmax_hetero_internal", lambda graph, *_: graph.of.edge_index)]  # refuses several
    of_graphs = ("add_self_loop", "remove_self_loop", "reverse", "edge_type_subgraph")
    replaced += [(dgl, name, getattr(Graph, name)) for name in of_graphs]
    for module, name, function in (("spmm", "gspmm", reduced), ("sddmm", "gsddmm", pairs)):
        replaced += [(of, name, function) for of in (sys.modules[f"dgl.ops.{module}"], dgl.ops)]
    replaced += [(of, "gather_mm", typed) for of in (sys.modules["dgl.nn.pytorch.linear"], dgl.ops)]
    replaced += [(sys.modules["dgl.nn.pytorch.conv.chebconv"], "broadcast_nodes", spread), (dgl, "broadcast_nodes", spread)]
    kept = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, function in replaced:
        setattr(module, name, function)
    try:
        yield
    finally:
        for module, name, function in kept:
            setattr(module, name, function)


def exported(called: Any, given: dict[str, Tensor]) -> tuple[Any, dict[Any, str]]:
    """The graph of ATen's operations, and what its inputs are: names of the state, or of what is given."""
    from torch._dynamo.source import ConstantSource
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    sizes = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
    fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=sizes)
    state = {**dict(called.named_parameters()), **dict(called.named_buffers())}

    def faked(name: str, tensor: Tensor) -> Tensor:
        varies = called.given[name].varies if name in given else None
        dims = [DimDynamic.DUCK if d == varies else DimDynamic.STATIC for d in range(tensor.dim())]
        context = StatelessSymbolicContext(dynamic_sizes=dims)
        return fake.from_tensor(tensor, source=ConstantSource(name), symbolic_context=context)

    def run(*tensors: Tensor) -> Any:
        values = dict(zip([*state, *given], tensors))
        own, tensors_of = ({name: values[name] for name in of} for of in (state, given))
        return torch.func.functional_call(called, own, (tensors_of,))

    inputs = [faked(name, t) for name, t in (*state.items(), *given.items())]
    with fake, _Lines(called):
        graph = make_fx(run, tracing_mode="real")(*inputs).graph
    return graph, dict(zip((n for n in graph.nodes if n.op == "placeholder"), [*state, *given]))


class _Lines(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Notes at each operation the module and the lines of source that it comes from."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.paths: list[str] = []
        for path, part in module.named_modules():
            part.register_forward_pre_hook(lambda *_, path=path: self.paths.append(path))
            part.register_forward_hook(lambda *_: self.left())

    def left(self) -> None:
        self.paths.pop()

    def __enter__(self) -> Any:
        self.meta = torch.fx.traceback.preserve_node_meta()
        self.meta.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.meta.__exit__(*error)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        meta = torch.fx.traceback.current_meta
        path = self.paths[-1] if self.paths else ""
        meta["nn_module_stack"] = {path: (path, "")}
        frames = traceback.extract_stack()
        last = max((k for k, f in enumerate(frames) if f.filename.endswith(_OWN + "_trace.py")), default=-1)
        meta["stack_trace"] = "".join(traceback.format_list(f for f in frames[last + 1 :] if _OWN not in f.filename))
        if getattr(function, "__name__", "") == "dropout":  # one operation, which PyTorch would write as several
            x, p, on = (*args, *(kwargs or {}).values())[:3]
            return torch.native_dropout(x, p, True)[0] if on and p else x
        return function(*args, **(kwargs or {}))
