"""A graph of DGL for tracing: what a module does with it becomes operations along an edge_index.

DGL's last release needs PyTorch 2.2, whose torch.export knows no sizes that vary; there make_fx gives the same
kind of graph.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

_OWN = f"{os.sep}weft{os.sep}"


class Graph:
    """Stands for a homogeneous DGLGraph in the forward of a module."""

    is_block, is_homogeneous, is_multigraph = False, True, True
    __class__ = property(lambda self: sys.modules["dgl"].DGLGraph)  # what modules ask by isinstance
    ntypes, etypes, canonical_etypes, srctypes, dsttypes = ["_N"], ["_E"], [("_N", "_E", "_N")], ["_N"], ["_N"]
    idtype, batch_size = torch.int64, 1

    def __init__(self, edge_index: Tensor, vertices: Any) -> None:
        self.edge_index, self.vertices, self.device = edge_index, vertices, edge_index.device
        self.ndata, self.edata = _Fields(), _Fields()
        self._graph = SimpleNamespace(number_of_etypes=lambda: 1, of=self)

    srcdata = dstdata = property(lambda self: self.ndata)

    @contextlib.contextmanager
    def local_scope(self) -> Iterator[None]:
        kept = _Fields(self.ndata), _Fields(self.edata)
        try:
            yield
        finally:
            self.ndata, self.edata = kept

    def local_var(self) -> Graph:
        own = Graph(self.edge_index, self.vertices)
        own.ndata, own.edata = _Fields(self.ndata), _Fields(self.edata)
        return own

    # -- sizes

    def num_nodes(self, *_: Any) -> Any:
        return self.vertices

    number_of_nodes = num_src_nodes = num_dst_nodes = number_of_src_nodes = number_of_dst_nodes = num_nodes

    def num_edges(self, *_: Any) -> Any:
        return self.edge_index.shape[1]

    number_of_edges = num_edges

    def batch_num_nodes(self, *_: Any) -> list[Any]:
        return [self.vertices]

    def edges(self, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return self.edge_index[0], self.edge_index[1]

    all_edges = edges

    def in_degrees(self, *_: Any, **__: Any) -> Degrees:
        return Degrees(self.counted(1))

    def out_degrees(self, *_: Any, **__: Any) -> Degrees:
        return Degrees(self.counted(0))

    def counted(self, end: int) -> Tensor:
        ones = torch.ones(self.edge_index.shape[1])
        return torch.zeros(self.vertices).index_add(0, self.edge_index[end], ones)

    # -- other graphs

    def reverse(self, *_: Any, copy_ndata: bool = True, **__: Any) -> Graph:
        other = Graph(self.edge_index.flip(0), self.vertices)
        other.ndata = _Fields(self.ndata) if copy_ndata else _Fields()
        return other

    def add_self_loop(self, *_: Any, **__: Any) -> Graph:
        loops = torch.arange(self.vertices).view(1, -1).repeat(2, 1)
        other = Graph(torch.cat([self.edge_index, loops], 1), self.vertices)
        other.ndata = _Fields(self.ndata)
        return other

    def remove_self_loop(self, *_: Any, **__: Any) -> Graph:
        other = Graph(self.edge_index[:, self.edge_index[0] != self.edge_index[1]], self.vertices)
        other.ndata = _Fields(self.ndata)
        return other

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"DGLGraph.{name} is not known to weft: use update_all, apply_edges, ndata and edata")

    # -- messages

    def at(self, frame: str, field: str) -> Tensor:
        """The field of sources (u), targets (v) or edges (e), for each edge."""
        return self.along((self.edata if frame == "e" else self.ndata)[field], frame)

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

    def apply_edges(self, function: Any, edges: Any = "__ALL__", **_: Any) -> None:
        if not isinstance(edges, str):
            raise NotImplementedError("apply_edges of some edges is not known to weft: choose by torch.where")
        self.edata.update(self.messages(function))

    def apply_nodes(self, function: Any, *_: Any, **__: Any) -> None:
        self.ndata.update(function(SimpleNamespace(data=self.ndata)))

    def update_all(self, message: Any, reduce: Any, apply: Any = None, **_: Any) -> None:
        sent = self.messages(message)
        if hasattr(reduce, "out_field"):
            self.ndata[reduce.out_field] = self.reduced(sent[reduce.msg_field], reduce.name)
        else:
            box = {name: _Mailbox(self, value) for name, value in sent.items()}
            self.ndata.update(reduce(SimpleNamespace(mailbox=box, data=self.ndata, batch_size=lambda: self.vertices)))
        if apply is not None:
            self.apply_nodes(apply)

    def reduced(self, values: Tensor, name: str) -> Tensor:
        index = self.edge_index[1]
        zeros = torch.zeros((self.vertices, *values.shape[1:]), dtype=values.dtype)
        if name in ("sum", "mean"):
            out = zeros.index_add(0, index, values)
            return out if name == "sum" else out / self.counted(1).clamp(min=1).view(-1, *(1,) * (values.dim() - 1))
        index = index.view(-1, *(1,) * (values.dim() - 1)).expand_as(values)
        kind = {"max": "amax", "min": "amin", "prod": "prod", "mul": "prod"}[name]
        start = torch.ones_like(zeros) if kind == "prod" else zeros
        return start.scatter_reduce(0, index, values, kind, include_self=kind == "prod")

    def softmax(self, values: Tensor, end: int) -> Tensor:
        """The reference of DGL's edge_softmax."""
        by = self if end else self.reverse()
        index = by.edge_index[1]
        apart = (values - by.reduced(values.detach(), "max")[index]).exp()
        return apart / by.reduced(apart, "sum")[index]


class _Fields(dict[str, Any]):
    """Of vertices or edges, by their names."""

    def __missing__(self, field: str) -> Any:
        raise NotImplementedError(f"the field {field!r} of the graph is set outside of forward: compute it in forward, or give it as features")


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
        return field in (self.graph.edata if self.frame == "e" else self.graph.ndata)


class _Mailbox:
    """The messages of each vertex in a reduce function of Python, of which sums, means and the like are known."""

    def __init__(self, graph: Graph, values: Tensor) -> None:
        self.graph, self.values = graph, values

    def size(self, dim: int) -> Any:
        return self.values.shape[dim - 1] if dim > 1 else self.graph.vertices

    def reduced(self, name: str, dim: int = 1) -> Tensor:
        if dim != 1:
            raise NotImplementedError(f"{name} over dimension {dim} of a mailbox: reduce dimension 1")
        return self.graph.reduced(self.values, name)

    def sum(self, dim: int = 1) -> Tensor:
        return self.reduced("sum", dim)

    def mean(self, dim: int = 1) -> Tensor:
        return self.reduced("mean", dim)

    def max(self, dim: int = 1) -> tuple[Tensor, None]:
        return self.reduced("max", dim), None

    def min(self, dim: int = 1) -> tuple[Tensor, None]:
        return self.reduced("min", dim), None

    def __mul__(self, other: Any) -> _Mailbox:
        return _Mailbox(self.graph, self.values * (other.values if isinstance(other, _Mailbox) else other))

    def __pow__(self, number: float) -> _Mailbox:
        return _Mailbox(self.graph, self.values**number)

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if not hasattr(cls, name) or not isinstance(args[0], cls):
            raise NotImplementedError(f"{name} of a mailbox is not known to weft: use sum, mean, max or min over dimension 1")
        return getattr(args[0], name)(*args[1:], **(kwargs or {}))


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
def stood_in() -> Iterator[None]:
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
        return values.expand(graph.vertices, *values.shape[1:])

    replaced: list[tuple[Any, str, Any]] = [(softmax, "edge_softmax_internal", normalised)]
    replaced += [(dgl, name, getattr(Graph, name)) for name in ("add_self_loop", "remove_self_loop", "reverse")]
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


def filled(graph: Any, given: dict[str, Tensor]) -> Any:
    """The graph with features where modules that take a graph alone look for them."""
    graph.ndata["feat"] = given["x"]
    graph.edata.update({of: given[name] for name, of in (("edge_attr", "feat"), ("edge_weight", "weight")) if name in given})
    return graph


def exported(called: nn.Module, given: dict[str, Tensor]) -> tuple[Any, dict[Any, str]]:
    """The graph of ATen's operations, and what its inputs are: names of the state, or of what is given."""
    from torch._dynamo.source import ConstantSource
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    sizes = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
    fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=sizes)
    state = {**dict(called.named_parameters()), **dict(called.named_buffers())}

    def faked(name: str, tensor: Tensor) -> Tensor:
        varies = int(name == "edge_index") if name in given else None
        dims = [DimDynamic.DUCK if d == varies else DimDynamic.STATIC for d in range(tensor.dim())]
        context = StatelessSymbolicContext(dynamic_sizes=dims)
        return fake.from_tensor(tensor, source=ConstantSource(name), symbolic_context=context)

    def run(*tensors: Tensor) -> Any:
        values = dict(zip([*state, *given], tensors))
        graph = filled(Graph(values["edge_index"], values["x"].shape[0]), {name: values[name] for name in given})
        tensors_of = {name: values[name] for name in given}
        return torch.func.functional_call(called, {k: values[k] for k in state}, (graph,), tensors_of)

    inputs = [faked(name, t) for name, t in (*state.items(), *given.items())]
    with stood_in(), fake, _Lines(called):
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
