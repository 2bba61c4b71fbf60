"""`Lowering`: goes through the nodes of an exported graph, one after another."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import Tensor

from .._errors import Refused
from .._values import (
    Chosen,
    Edges,
    Ends,
    Fill,
    Flat,
    Loops,
    Number,
    Parts,
    Rows,
    Unlowerable,
    Value,
    Vertices,
    base_of,
)
from .nodes import every, line_of, operands, path_of, writes_first
from .precision import refuse_inexact
from .refused import DRAWS, DRAWS_NO_ROWS, REFUSED
from .sets import PLACES, SHIFTED, Sets
from .table import LOWERED
from .views import ALIASES, SHAPED

_NOTHING = {
    "_assert_scalar",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
}
_COMPARES = set("eq ne max".split())
TRACED = (
    Value,
    Fill,
    Edges,
    Ends,
    Vertices,
    Loops,
    Chosen,
    Number,
    Parts,
)  # operands whose numbers are not known


class Lowering(Sets):
    """Goes through the nodes of a graph of ATen's operations, each of which becomes operations of the
    program."""

    def __init__(self, rows: dict[sympy.Expr, Rows], source_line: Callable[[Any], str]) -> None:
        super().__init__(rows, source_line)
        self.drawn: dict[str, int] = {}  # how often each layer draws
        self.training, self.frozen = True, set[str]()
        self.draws = False  # it may draw random numbers
        self.precisions: set[torch.dtype] = set()  # of what forward is given

    def run(self, graph: torch.fx.Graph) -> Any:
        """Lowers the nodes of a graph, and returns what its output is."""
        for node in graph.nodes:
            if node.op == "output":
                return torch.fx.node.map_arg(node.args[0], lambda n: self.env[n])
            if node.op == "get_attr":
                self.env[node] = operator.attrgetter(node.target)(graph.owning_module)
            elif node.op == "call_function":
                self.env[node] = self.call(node)
        return None

    def block(self, target: Any, *args: Any) -> Any:
        """A part of forward under torch.no_grad, torch.autocast or a checkpoint."""
        at = next(k for k, a in enumerate(args) if isinstance(a, torch.fx.GraphModule))
        inner, inputs = args[at].graph, args[at + 1 :]
        inside = [n for n in inner.nodes if n.op == "placeholder"]
        self.env.update(zip(inside, inputs))
        self.outer.update(zip(inside, self.node.args[at + 1 :]))
        result = self.run(inner)
        if "grad" in target.__name__ and args[0] is False:
            return torch.utils._pytree.tree_map_only(
                Value, lambda v: replace(self.emit("detach", [v], v.rows, v.shape), axis=v.axis), result
            )
        return result

    def call(self, node: Any) -> Any:
        self.node, target = node, node.target
        self.where = {"path": path_of(node), "line": line_of(node)}
        meta = node.meta.get("val")
        if isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.scalar(node, meta)
        if getattr(target, "__name__", "") == "wrap_with_autocast" and node.args[2]:
            raise self.no("forward computes under autocast: leave it out, and give precision='bf16'")
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self.env[n])
        if target is operator.getitem:
            return args[0][args[1]]
        if any(isinstance(a, torch.fx.GraphModule) for a in args):
            return self.block(target, *args)
        if isinstance(target, type) and issubclass(target, tuple):
            return list(args)
        if not isinstance(target, torch._ops.OpOverload):
            if isinstance(meta, (int, float, bool)) or meta is None:
                return meta
            raise self.no(f"{getattr(target, '__name__', target)} is not an operation of tensors")
        self.possible()
        name, writes = self.name, writes_first(target)
        if name in _NOTHING:
            return None
        try:
            if (writes or name in ALIASES) and isinstance(node.args[0], torch.fx.Node):
                self.views.setdefault(node.args[0], []).append(node)
            if any(isinstance(a, TRACED) for a in every(args, kwargs)):
                result = self.lowered(node, args, kwargs)
            else:
                if name in DRAWS:
                    raise Unlowerable(f"{name} {DRAWS_NO_ROWS}")
                known = all(self.env.get(n) is not None for n in node.all_input_nodes)
                result = target(*args, **kwargs) if known else None
            if writes and isinstance(node.args[0], torch.fx.Node):
                self.assign(node.args[0], result)
            if isinstance(out := node.kwargs.get("out"), torch.fx.Node):
                self.assign(out, result)
            return result
        except Unlowerable as why:
            raise self.no(str(why)) from None
        except Refused:
            raise
        except Exception as why:  # whatever a call raises that nobody thought of
            text = " ".join(str(why).split())[:120]
            raise self.no(
                f"{name} is called in a way that weft does not know ({text}): write it by other operations"
            ) from why

    def unique(self, path: str) -> str:
        """A name for what a layer draws, as a mask of dropout: another one for each call."""
        self.drawn[path] = self.drawn.get(path, 0) + 1
        return path if self.drawn[path] == 1 else f"{path}#{self.drawn[path]}"

    def possible(self) -> None:
        """Refuses by name what no program has."""
        if isinstance(self.node.target, torch._ops.OpOverload) and (why := REFUSED.get(self.name)):
            raise self.no(f"{self.name.lstrip('_')} {why}")

    def lowered(self, node: Any, args: Any, kwargs: Any) -> Any:
        """What a node is, by its operands."""
        size = self.parted(node, args, kwargs)
        if size is not None:
            return self.by_part(size, node, args, kwargs)
        refuse_inexact(node, self.name, self.precisions)
        if self.name in PLACES | _COMPARES and any(
            isinstance(a, Ends) and a.first for a in every(args, kwargs)
        ):
            raise Unlowerable(SHIFTED)
        name, named = self.name, operands(node.target._schema, args, kwargs)
        x = next(iter(named.values()), None)
        if isinstance(x, Fill) and name in ("slice", "select"):
            return Fill(x.number, *self.layout())
        if name in LOWERED:
            return self.checked(LOWERED[name](self, **named))
        return self.checked(self.shaped(name, x, named) if name in SHAPED else self.expanded(node))

    def expanded(self, node: Any) -> Any:
        """An operation that PyTorch defines by others, which are lowered in its place."""
        from torch._decomp import core_aten_decompositions
        from torch.fx.experimental.proxy_tensor import make_fx

        table, target = core_aten_decompositions(), node.target
        nodes = [n for n in node.all_input_nodes if isinstance(n.meta["val"], Tensor)]

        def do(*tensors: Any) -> Any:
            values = dict(zip(nodes, tensors))
            args, kwargs = torch.fx.node.map_arg(
                (node.args, node.kwargs), lambda n: values.get(n, n.meta["val"])
            )
            with torch.enable_grad():
                result = NotImplemented if target in table else target.decompose(*args, **kwargs)
            return table[target](*args, **kwargs) if result is NotImplemented else result

        name = target._schema.name.split("::")[1].strip("_")
        try:
            if target not in table and not target._can_decompose():
                raise NotImplementedError
            with nodes[0].meta["val"].fake_mode:
                graph = make_fx(do, tracing_mode="real")(*(n.meta["val"] for n in nodes)).graph
        except (NotImplementedError, RuntimeError, TypeError, IndexError, AttributeError):
            raise Unlowerable(f"{name} is not among a program's operations: write it by those") from None
        where = self.where
        for inner, outer in zip(graph.nodes, nodes):
            self.env[inner] = self.env[outer]
        for inner in graph.nodes:
            inner.meta |= {k: node.meta.get(k) for k in ("stack_trace", "nn_module_stack")}
        result = self.run(graph)
        self.node, self.where = node, where
        return result

    def scalar(self, node: Any, meta: Any) -> Any:
        """A size, or what Python makes of sizes and of tensors' numbers."""
        expression = meta.node.expr
        if not expression.free_symbols:
            return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(meta)](expression)
        if isinstance(node.target, torch._ops.OpOverload) and self.name in ("item", "_local_scalar_dense"):
            ends = self.env[node.args[0]]
            if isinstance(ends, Ends):  # max of all numbers of vertices, by PyG's maybe_num_nodes
                self.rows[expression + 1] = self.at(ends.rows, ends.end)
            elif isinstance(ends, Value):
                self.numbers[expression] = self.emit("detach", [ends], ends.rows, ends.shape)
        return Number(expression)

    def checked(self, result: Any) -> Any:
        """Refuses a value without the sizes that PyTorch has found: a mistake of a lowering trains
        nothing."""
        meta = self.node.meta.get("val")
        if isinstance(result, (Value, Fill)) and isinstance(meta, Tensor):
            rows, shape, axis = self.layout()
            result = result if result.rows is not None else replace(result, axis=0)
            actual, wanted = (r if isinstance(r, Flat) else base_of(r) for r in (result.rows, rows))
            if (actual, result.shape, result.axis) != (wanted, shape, axis):
                raise Unlowerable(
                    f"{self.node.target} became {result.rows} × {result.shape} instead of {rows} × {shape}: "
                    "this is a fault of weft"
                )
        elif isinstance(meta, (list, tuple)) and not isinstance(result, (list, tuple)):
            return [result] + [None] * (len(meta) - 1)
        return result
