"""From a module of PyTorch to a program: a model as data, which the program of weft checks, compiles and trains.

    program = trace(MyNet(128, 40), features=128)
    program.text, program.state        # JSON, and arrays by the names of module.state_dict()

torch.export writes down which operations of ATen a module's forward pass does on graphs of any size. `_Lowering` goes
through them, knows of each value whether its rows are vertices, edges or neither, and emits the operations of
docs/program.md. Nothing here knows a layer of PyTorch Geometric: what lies between two gathers and scatters
along edge_index is an operation on rows.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import json
import logging
import math
import operator
import os
import re
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy
import torch
from torch import Tensor, nn

from ._errors import Refused

_VERTICES, _EDGES = 10007, 20011  # the sizes that forward sees while it is traced, if it has no better
_PRIVATE = re.compile(r"/(torch|torch_geometric|dgl|weft|sympy)/|/torch_geometric\.nn\.|^<|/python3[.\d]*/[a-z_]+\.py$")


@dataclass(frozen=True)
class Program:
    """A model as data: text is JSON, and state has the arrays of the module by their names in its state_dict."""

    text: str
    state: dict[str, np.ndarray[Any, Any]]


# ---- values -----------------------------------------------------------------------------------------------

Rows = Any  # None, "vertices", the loops of an edge set, or one of these with the operation that chooses among its rows


@dataclass(frozen=True)
class Value:
    """The value of an operation. shape is that of a row, and axis says where PyTorch has the rows' dimension."""

    op: int
    rows: Rows
    shape: tuple[int, ...]
    axis: int = 0

    @property
    def dim(self) -> int:
        return len(self.shape) + (self.rows is not None)


@dataclass(frozen=True)
class Fill:
    """One number in every element of rows: no operation, until it must be one."""

    number: float
    rows: Rows
    shape: tuple[int, ...]
    axis: int = 0

    dim = Value.dim


@dataclass(frozen=True)
class Edges:
    """An edge_index. Reversed edges swap the ends."""

    rows: Rows
    reverse: bool = False


@dataclass(frozen=True)
class Ends:
    """The numbers of the vertices at one end of edges, in any shape that broadcasts one number per edge."""

    rows: Rows
    end: str


@dataclass(frozen=True)
class Vertices:
    """The numbers of all vertices in order; pairs, if they stand twice, as the edge_index of self loops."""

    pairs: bool = False


@dataclass(frozen=True)
class Loops:
    """Which edges of a set are self loops (or, inverse, are not)."""

    rows: Rows
    inverse: bool


@dataclass(frozen=True)
class Chosen:
    """The places where a mask is true."""

    mask: Value | Loops


@dataclass(frozen=True)
class Number:
    """A number that depends on the graph, as the count of vertices."""

    expression: sympy.Expr


_REMOVED = {"stored": "removed", "removed": "removed", "one": "removed", "added": "removed"}
_WITH = {"removed": "one", "stored": "added"}


class _No(Exception):
    """What cannot be lowered, and what to write in its place."""


# ---- operations of a program ------------------------------------------------------------------------------


class _Builder:
    """The list of operations. Equal operations are one, and where an operation changes nothing there is none."""

    def __init__(self) -> None:
        self.operations: list[dict[str, Any]] = []
        self.shapes: list[Value] = []
        self.known: dict[Any, Value] = {}
        self.where: dict[str, str] = {}  # path and line of what is being lowered

    def emit(
        self,
        op: str,
        inputs: Sequence[Value],
        rows: Rows,
        shape: Iterable[int],
        axis: int = 0,
        /,
        **attributes: Any,
    ) -> Value:
        if op == "detach" and self.of(inputs[0])["op"] == "detach":
            return inputs[0]
        shape = tuple(int(n) for n in shape)
        base = rows[0] if isinstance(rows, tuple) else rows
        key = (op, tuple(v.op for v in inputs), repr(attributes), base)
        if key not in self.known or op == "dropout":
            entry = {"op": op} | ({"in": [v.op for v in inputs]} if inputs else {}) | attributes
            self.operations.append(entry | {k: v for k, v in self.where.items() if v and k not in entry})
            self.shapes.append(Value(len(self.operations) - 1, base, shape))
            self.known[key] = self.shapes[-1]
        return Value(self.known[key].op, rows, shape, axis if rows is not None else 0)

    def of(self, value: Value) -> dict[str, Any]:
        return self.operations[value.op]

    def inputs(self, value: Value) -> list[Value]:
        return [self.shapes[k] for k in self.of(value).get("in", ())]

    def constant(self, number: Tensor | float) -> Value:
        given = torch.as_tensor(number, dtype=torch.float64)
        flat = given.flatten().tolist()
        if len(flat) > 1_000_000:
            raise _No(f"a constant of {len(flat):,} numbers: make it a parameter or a buffer")
        values = [v if math.isfinite(v) else str(v) for v in (flat[:1] if len(set(flat)) == 1 else flat)]
        return self.emit("constant", (), None, given.shape, shape=list(given.shape), values=values)

    def number(self, value: Any) -> float | None:
        """The number that a constant of one value is."""
        if isinstance(value, Fill):
            return value.number
        if isinstance(value, Value):
            while self.of(value)["op"] in ("reshape", "expand"):
                value = self.inputs(value)[0]
            entry = self.of(value)
            return (
                float(entry["values"][0]) if entry["op"] == "constant" and len(entry["values"]) == 1 else None
            )
        return float(value) if isinstance(value, (int, float)) else None

    def ones(self, rows: Rows) -> Value:
        if rows == "vertices" or rows[0] == "vertices":
            return self.emit("ones", (), rows, (), rows="vertices")
        return self.emit("ones", (), rows, (), rows="edges", loops=_base(rows))

    def full(self, fill: Fill) -> Value:
        value = self.ones(fill.rows)
        if fill.number != 1:
            value = self.pointwise("mul", value, self.constant(fill.number))
        return replace(self.expand(self.reshape(value, (1,) * len(fill.shape)), fill.shape), axis=fill.axis)

    def reshape(self, x: Value, shape: Iterable[int], axis: int | None = None) -> Value:
        shape, axis = tuple(shape), x.axis if axis is None else axis
        if math.prod(shape) != math.prod(x.shape):
            raise _No("a view mixes vertices or edges with columns")
        while self.of(x)["op"] == "reshape":
            x = replace(x, op=self.inputs(x)[0].op, shape=self.inputs(x)[0].shape)
        if shape == x.shape:
            return replace(x, axis=axis if x.rows is not None else 0)
        return self.emit("reshape", [x], x.rows, shape, axis, shape=list(shape))

    def expand(self, x: Value, shape: tuple[int, ...]) -> Value:
        return x if x.shape == shape else self.emit("expand", [x], x.rows, shape, x.axis, shape=list(shape))

    def permute(self, x: Value, order: Sequence[int], axis: int | None = None) -> Value:
        axis = x.axis if axis is None else axis
        if list(order) == sorted(order):
            return replace(x, axis=axis)
        return self.emit("permute", [x], x.rows, [x.shape[d] for d in order], axis, dims=list(order))

    def slice(self, x: Value, dim: int, start: int, stop: int, step: int = 1) -> Value:
        if (start, stop, step) == (0, x.shape[dim], 1):
            return x
        shape = (*x.shape[:dim], len(range(start, stop, step)), *x.shape[dim + 1 :])
        return self.emit("slice", [x], x.rows, shape, x.axis, dim=dim, start=start, stop=stop, step=step)

    def cat(self, parts: Sequence[Value], dim: int) -> Value:
        parts = [self.filled(p, parts) for p in parts if p.shape[dim]]
        first = parts[0]
        if len(parts) == 1:
            return first
        shape = (*first.shape[:dim], sum(p.shape[dim] for p in parts), *first.shape[dim + 1 :])
        return self.emit("cat", parts, first.rows, shape, first.axis, dim=dim)

    def filled(self, x: Value, others: Sequence[Value]) -> Value:
        """The value on the rows of the others: what has no rows is the same in each."""
        rows = next(((o.rows, o.axis) for o in others if o.rows is not None), (None, 0))
        if x.rows is not None or rows[0] is None:
            return x
        if len(x.shape) > len(others[0].shape):
            x = self.reshape(x, x.shape[: rows[1]] + x.shape[rows[1] + 1 :])
        ones = self.reshape(self.ones(rows[0]), (1,) * len(x.shape))
        return self.emit("mul", [ones, x], rows[0], x.shape, rows[1])

    def pointwise(self, name: str, *given: Value, **attributes: Any) -> Value:
        """An operation element by element, with PyTorch's broadcasting of rows and columns."""
        rows = {v.rows for v in given if v.rows is not None}
        if len(rows) > 1:
            raise _No(
                "rows of "
                + " and of ".join(sorted(_said(r) for r in rows))
                + " meet in one operation: move rows along edges by propagate"
            )
        if not rows:
            shape = torch.broadcast_shapes(*(v.shape for v in given))
            return self.simple(name, given, None, shape, 0, attributes)
        right = {len(v.shape) - v.axis for v in given if v.rows is not None}
        if len(right) > 1:
            raise _No(
                "each pair of vertices meets: a function of all pairs takes memory and time of their square"
            )
        (right_of,), inputs = right, []
        single = [v for v in given if self.same_everywhere(v)]
        if single and len([v for v in given if v.rows is not None]) > len(single):
            given = tuple(self.same_everywhere(v) or v for v in given)
        for v in given:
            at = len(v.shape) - right_of - 1
            if v.rows is None and at >= 0:  # PyTorch's dimension of rows, of size 1 here
                v = self.reshape(v, v.shape[:at] + v.shape[at + 1 :])
            inputs.append(v)
        shape = torch.broadcast_shapes(*(v.shape for v in inputs))
        return self.simple(name, inputs, next(iter(rows)), shape, len(shape) - right_of, attributes)

    def same_everywhere(self, x: Value) -> Value | None:
        """What filled has put in each row."""
        if x.rows is None or self.of(x)["op"] != "mul" or self.of(self.bare(self.inputs(x)[0]))["op"] != "ones":
            return None
        one = self.inputs(x)[1]
        return self.reshape(one, (*x.shape[: x.axis], 1, *x.shape[x.axis :])) if one.rows is None and one.shape == x.shape else None

    def simple(
        self,
        name: str,
        given: Sequence[Value],
        rows: Rows,
        shape: Sequence[int],
        axis: int,
        attributes: dict[str, Any],
    ) -> Value:
        """The operation, unless it changes nothing, or is a known one by several."""
        x, shape = given[0], tuple(shape)
        numbers = [self.number(v) for v in given] if len(given) == 2 else [None, None]
        for k, other in ((1, given[0]), (0, given[-1])):
            if len(given) == 2 and numbers[k] is not None and other.rows == rows:
                if (name, numbers[k]) in (("mul", 1), ("add", 0)) or (
                    k == 1 and (name, numbers[k]) in (("div", 1), ("sub", 0), ("pow", 1))
                ):
                    return replace(
                        self.expand(
                            self.reshape(other, (1,) * (len(shape) - len(other.shape)) + other.shape), shape
                        ),
                        axis=axis,
                    )
        if name == "pow" and numbers[1] in _POWERS and x.shape == shape:
            return self.emit(_POWERS[numbers[1]], [x], rows, shape, axis)
        if name == "div" and len(given) == 2 and (known := self.quotient(x, given[1], rows, shape)) is not None:
            return replace(known, axis=axis)
        return self.emit(name, given, rows, shape, axis, **attributes)

    def quotient(self, x: Value, y: Value, rows: Rows, shape: tuple[int, ...]) -> Value | None:
        """softmax over the edges of each vertex, and the mean over them, which are written as quotients."""
        top, bottom = self.of(x), self.of(self.bare(y))
        if top["op"] == "scatter" and bottom["op"] in ("clamp", "maximum"):
            count = self.bare(self.inputs(self.bare(y))[0])
            least = (
                bottom.get("min") if bottom["op"] == "clamp" else self.number(self.inputs(self.bare(y))[1])
            )
            each = self.of(count)
            if (
                (top["reduce"], least, each["op"]) == ("sum", 1, "scatter")
                and each["reduce"] == "sum"
                and "max" not in bottom
            ):
                ones = self.of(self.bare(self.inputs(count)[0]))
                of = self.inputs(x)[0]
                if (
                    ones["op"] == "ones"
                    and ones["loops"] == of.rows
                    and each["end"] == top["end"]
                    and x.shape == shape
                ):
                    return self.emit("scatter", [of], rows, shape, end=top["end"], reduce="mean")
        if top["op"] == "exp" and bottom["op"] == "gather":
            total = self.inputs(self.bare(y))[0]
            if (
                self.of(total)["op"] == "add"
                and (small := self.number(self.inputs(total)[1])) is not None
                and small <= 1e-12
            ):
                total = self.inputs(total)[0]
            apart = self.inputs(x)[0]
            if (
                self.of(total)["op"] == "scatter"
                and self.of(total)["reduce"] == "sum"
                and self.inputs(total)[0].op == x.op
                and self.of(apart)["op"] == "sub"
            ):
                score, most = self.inputs(apart)
                high = self.inputs(most)[0] if self.of(most)["op"] == "gather" else most
                raw = (
                    self.inputs(high)[0]
                    if self.of(high)["op"] == "scatter" and self.of(high)["reduce"] == "max"
                    else high
                )
                raw = self.inputs(raw)[0] if self.of(raw)["op"] == "detach" else raw
                ends = {self.of(v).get("end") for v in (self.bare(y), total, most, high)}
                if raw.op == score.op and len(ends) == 1 and x.shape == shape:
                    return self.emit("edge_softmax", [score], rows, shape, end=ends.pop())
        return None

    def bare(self, x: Value) -> Value:
        """The value below reshapes and expansions of its columns."""
        while self.of(x)["op"] in ("reshape", "expand"):
            x = self.inputs(x)[0]
        return x

    def reduce(self, name: str, x: Value, dims: Sequence[int], keep: bool, **attributes: Any) -> Value:
        """Over dimensions of a row."""
        if not dims:
            return x
        kept = [1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims]
        axis = x.axis if keep else x.axis - sum(d < x.axis for d in dims)
        return self.emit(name, [x], x.rows, kept, axis, dims=sorted(dims), keep=keep, **attributes)

    def gather(self, x: Value, ends: Ends) -> Value:
        if x.rows != "vertices":
            what = "a table with a row for each vertex" if x.rows is None else f"rows of {_said(x.rows)}"
            raise _No(
                f"{what} is read by the ends of edges: only rows of vertices are; concatenate it to x beforehand"
            )
        return self.emit("gather", [x], ends.rows, x.shape, x.axis, end=ends.end, loops=_base(ends.rows))

    def scatter(self, x: Value, end: str, reduce: str) -> Value:
        """To vertices. Of rows that a mask chose, the others count as nothing."""
        chosen, axis = x.rows, x.axis
        x = replace(x, rows=_base(x.rows), axis=0)
        if isinstance(chosen, tuple):
            mask = replace(self.shapes[chosen[1]], axis=0)
            mask = self.reshape(mask, mask.shape + (1,) * (len(x.shape) - len(mask.shape)))
            none = {"max": -3e38, "min": 3e38, "mul": 1}.get(reduce, 0)
            x = self.pointwise("where", mask, x, self.constant(none))
            out = self.scatter(x, end, "sum" if reduce == "mean" else reduce)
            if reduce in ("max", "min", "mean"):
                count = self.scatter(mask, end, "sum")
                if reduce == "mean":
                    return replace(self.pointwise("div", out, self.clamp(count, 1, None)), axis=axis)
                out = self.pointwise(
                    "where", self.pointwise("gt", count, self.constant(0)), out, self.constant(0)
                )
            return replace(out, axis=axis)
        return self.emit("scatter", [x], "vertices", x.shape, axis, end=end, reduce=reduce)

    def clamp(self, x: Value, low: float | None, high: float | None) -> Value:
        limits = {k: float(v) for k, v in (("min", low), ("max", high)) if v is not None}
        return self.pointwise("clamp", x, **limits)


_POWERS = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


def _base(rows: Rows) -> Any:
    return rows[0] if isinstance(rows, tuple) else rows


def _said(rows: Rows) -> str:
    if isinstance(rows, tuple):
        return f"some {_said(rows[0])}"
    return "vertices" if rows == "vertices" else "edges" if rows == "stored" else f"edges (self loops {rows})"


# ---- ATen -------------------------------------------------------------------------------------------------

_LOWERED: dict[str, Callable[..., Any]] = {}


def _lowers(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        _LOWERED.update(dict.fromkeys(names, function))
        return function

    return put


_SAME = {"neg", "abs", "sign", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos", "tanh",
         "sigmoid", "relu", "silu", "erf", "floor", "ceil", "round", "maximum", "minimum", "gt", "ge", "lt", "le", "ne", "selu"}  # fmt: skip
_RENAMED = {"logical_not": "not", "bitwise_not": "not", "log_sigmoid": "logsigmoid", "logical_and": "and", "bitwise_and": "and",
            "logical_or": "or", "bitwise_or": "or", "__and__": "and", "__or__": "or", "absolute": "abs"}  # fmt: skip
_KEEPS = {
    "detach",
    "alias",
    "clone",
    "contiguous",
    "to",
    "_to_copy",
    "lift_fresh_copy",
    "lift_fresh",
    "view_of",
    "type_as",
}
_VIEWS = {
    "view",
    "_unsafe_view",
    "reshape",
    "unsqueeze",
    "squeeze",
    "flatten",
    "unflatten",
    "_reshape_alias",
    "view_as",
    "reshape_as",
}
_MOVES = {"permute", "transpose", "t", "swapaxes", "movedim"}
_ALIASES = _KEEPS | _VIEWS | _MOVES | {"slice", "select", "expand", "expand_as"}
_NOTHING = {
    "_assert_scalar",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
    "_set_grad_enabled",
}

# What no program has: what it is, and what to write in its place.
_REFUSED = {
    **dict.fromkeys(
        ("rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "randperm", "bernoulli", "multinomial", "normal",
         "normal_functional", "uniform", "exponential", "rrelu_with_noise", "alpha_dropout", "feature_dropout", "poisson"),
        "draws random numbers: nn.Dropout is the one random layer that weft has; draw the others before training, as features",
    ),
    **dict.fromkeys(
        ("sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "unique", "_unique2", "unique_consecutive", "unique_dim",
         "searchsorted", "bucketize", "cumsum", "cumprod", "cummax", "cummin", "repeat_interleave", "sort_out"),
        "orders, ranks or accumulates rows: aggregate a vertex's edges by sum, mean, max, min, mul or softmax, "
        "and make other edges (to_undirected, coalesce) before training",
    ),
    **dict.fromkeys(
        ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu", "_native_multi_head_attention", "cdist",
         "_cdist_forward", "pdist"),
        "compares all pairs of vertices, which takes memory and time of their square: attend over edges, by propagate",
    ),
    **dict.fromkeys(
        ("lstm", "gru", "rnn_tanh", "rnn_relu"),
        "runs over a sequence: weft has nn.GRUCell and nn.LSTMCell over rows, and no sequence of a vertex's edges",
    ),
    **dict.fromkeys(
        ("argmax", "argmin", "nonzero_static", "masked_select", "where_indices"),
        "gives positions, which depend on the values: write a comparison and torch.where",
    ),
    **dict.fromkeys(
        ("_sparse_mm", "sparse_coo_tensor", "_sparse_coo_tensor_unsafe", "to_sparse", "spmm", "_sparse_csr_tensor_unsafe", "sparse_csr_tensor"),
        "makes a sparse matrix: give edge_index to propagate",
    ),
    **dict.fromkeys(
        ("linalg_inv_ex", "linalg_solve", "_linalg_svd", "_linalg_eigh", "linalg_qr", "inverse"),
        "is linear algebra that no program has: compute it before training, as features",
    ),
}  # fmt: skip


class _Lowering(_Builder):
    """Goes through the nodes of a graph of ATen. env has what each node is."""

    def __init__(self, rows: dict[sympy.Expr, Rows], said: Callable[[Any], str]) -> None:
        super().__init__()
        self.rows = rows  # what the symbols of sizes count
        self.numbers: dict[sympy.Expr, Value] = {}  # and those that are values of tensors
        self.env: dict[Any, Any] = {}
        self.views: dict[Any, list[Any]] = {}
        self.node: Any = None
        self.said = said
        self.dropouts: dict[str, int] = {}
        self.training, self.frozen = True, set[str]()

    # -- nodes

    def run(self, graph: torch.fx.Graph) -> Any:
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
        inner, given = args[at].graph, args[at + 1 :]
        self.env.update(zip((n for n in inner.nodes if n.op == "placeholder"), given))
        result = self.run(inner)
        if "grad" in target.__name__ and args[0] is False:
            return torch.utils._pytree.tree_map_only(Value, lambda v: replace(self.emit("detach", [v], v.rows, v.shape), axis=v.axis), result)
        return result

    def call(self, node: Any) -> Any:
        self.node, target = node, node.target
        self.where = {"path": _path(node), "line": _line(node)}
        meta = node.meta.get("val")
        if isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.scalar(node, meta)
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self.env[n])
        if target is operator.getitem:
            return args[0][args[1]]
        if isinstance(target, torch._ops.HigherOrderOperator) and any(isinstance(a, torch.fx.GraphModule) for a in args):
            return self.block(target, *args)
        if not isinstance(target, torch._ops.OpOverload):
            if isinstance(meta, (int, float, bool)) or meta is None:
                return meta
            raise self.no(f"{getattr(target, '__name__', target)} is not an operation of tensors")
        name = target._schema.name.split("::")[1]
        base = name.removesuffix("_") if target._schema.is_mutable and not name.endswith("__") else name
        self.possible()
        if base in _NOTHING:
            return None
        try:
            if not target._schema.is_mutable and base in _ALIASES and isinstance(node.args[0], torch.fx.Node):
                self.views.setdefault(node.args[0], []).append(node)
            known = _every(args, kwargs)
            if not any(
                isinstance(a, (Value, Fill, Edges, Ends, Vertices, Loops, Chosen, Number)) for a in known
            ):
                result = (
                    target(*args, **kwargs)
                    if not any(a is None for a in map(self.env.get, node.all_input_nodes))
                    else None
                )
            else:
                named = _named(target._schema, args, kwargs)
                result = self.lowered(base, node, named)
            if target._schema.is_mutable and isinstance(node.args[0], torch.fx.Node):
                self.views.setdefault(node.args[0], []).append(node)
                self.assign(node.args[0], result)
            return result
        except _No as why:
            raise self.no(str(why)) from None
        except Refused:
            raise
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            RuntimeError,
            StopIteration,
            TypeError,
            ValueError,
        ) as why:
            raise self.no(
                f"{base} is called in a way that weft does not know ({' '.join(str(why).split())[:120]}): write it by other operations"
            ) from why

    def possible(self) -> None:
        """Refuses by name what no program has."""
        if isinstance(self.node.target, torch._ops.OpOverload):
            name = self.node.target._schema.name.split("::")[1].rstrip("_")
            if why := _REFUSED.get(name):
                raise self.no(f"{name.lstrip('_')} {why}")

    def lowered(self, name: str, node: Any, named: dict[str, Any]) -> Any:
        x = next(iter(named.values()), None)
        if name in _LOWERED:
            result = _LOWERED[name](self, **named)
        elif name in _SAME or name in _RENAMED:
            tensors = [v for v in named.values() if not isinstance(v, (str, type(None)))]
            result = self.elementwise(_RENAMED.get(name, name), *tensors)
        elif name in _VIEWS | _MOVES | {"expand", "expand_as"}:
            result = self.shaped(name, x, named)
        else:
            result = self.expanded(node)
        return self.checked(result)

    def expanded(self, node: Any) -> Any:
        """An operation that is several others, by PyTorch's own definition."""
        from torch._decomp import core_aten_decompositions
        from torch.fx.experimental.proxy_tensor import make_fx

        table = core_aten_decompositions()
        target = node.target

        def do(*tensors: Any) -> Any:
            values = iter(tensors)
            args, kwargs = torch.fx.node.map_arg(
                (node.args, node.kwargs),
                lambda n: next(values) if isinstance(n.meta["val"], Tensor) else n.meta["val"],
            )
            with torch.enable_grad():
                result = NotImplemented if target in table else target.decompose(*args, **kwargs)
            return table[target](*args, **kwargs) if result is NotImplemented else result

        nodes: list[Any] = []
        torch.fx.node.map_arg(
            (node.args, node.kwargs), lambda n: nodes.append(n) if isinstance(n.meta["val"], Tensor) else None
        )
        name = target._schema.name.split("::")[1].strip("_")
        try:
            if target not in table and not target._can_decompose():
                raise NotImplementedError
            fake = nodes[0].meta["val"].fake_mode
            with fake:
                graph = make_fx(do, tracing_mode="real")(*(n.meta["val"] for n in nodes)).graph
        except (NotImplementedError, RuntimeError, TypeError, StopIteration, AttributeError):
            raise _No(
                f"{name} is not among a program's operations (docs/program.md): write it by those"
            ) from None
        where, outer = self.where, self.node
        for inner in graph.nodes:
            if inner.op == "placeholder":
                self.env[inner] = self.env[nodes.pop(0)]
            elif inner.op == "call_function":
                inner.meta["stack_trace"], inner.meta["nn_module_stack"] = (
                    outer.meta.get("stack_trace"),
                    outer.meta.get("nn_module_stack"),
                )
                self.env[inner] = self.call(inner)
            elif inner.op == "output":
                self.node, self.where = outer, where
                return torch.fx.node.map_arg(inner.args[0], lambda n: self.env[n])
        raise _No(f"{name} is not among a program's operations")

    def no(self, why: str) -> Refused:
        return Refused(f"model: {self.said(self.node)}{why}")

    def scalar(self, node: Any, meta: Any) -> Any:
        """A size, or what Python makes of sizes and of tensors' numbers."""
        expression = meta.node.expr
        if not expression.free_symbols:
            return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(meta)](expression)
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name in (
            "aten::item",
            "aten::_local_scalar_dense",
        ):
            of = self.env[node.args[0]]
            if isinstance(of, Ends):  # max of all numbers of vertices, by PyG's maybe_num_nodes
                self.rows[expression + 1] = "vertices"
            elif isinstance(of, Value):
                self.numbers[expression] = self.emit("detach", [of], of.rows, of.shape)
        return Number(expression)

    # -- what a node is

    def layout(self, node: Any = None) -> tuple[Rows, tuple[int, ...], int]:
        """Rows, shape and axis by the sizes that PyTorch has found."""
        sizes = (node or self.node).meta["val"].shape
        free = [d for d, n in enumerate(sizes) if not isinstance(n, int) and n.node.expr.free_symbols]
        shape = tuple(int(n) for d, n in enumerate(sizes) if d not in free)
        if not free:
            return None, shape, 0
        if len(free) > 1:
            raise _No(
                "each pair of vertices meets: a function of all pairs takes memory and time of their square"
            )
        return self.counted(sizes[free[0]]), shape, free[0]

    def counted(self, size: Any) -> Rows:
        expression = sympy.expand(size.expression if isinstance(size, Number) else size.node.expr)
        if expression not in self.rows:
            raise _No(
                "a size depends on values or joins several edge sets: weft has all vertices, and all edges with or without self loops"
            )
        return self.rows[expression]

    def count(self, size: Any, rows: Rows) -> Rows:
        """Notes what a size that PyTorch knows nothing of counts."""
        self.rows[size.node.expr] = rows
        vertices = next(e for e, r in self.rows.items() if r == "vertices" and e.is_Symbol)
        if rows in _WITH:
            self.rows[sympy.expand(size.node.expr + vertices)] = _WITH[rows]
        return rows

    def checked(self, result: Any) -> Any:
        """A value has the sizes that PyTorch has found: a slip of this file is refused here, and trains nothing."""
        meta = self.node.meta.get("val")
        if isinstance(result, (Value, Fill)) and isinstance(meta, Tensor):
            rows, shape, axis = self.layout()
            result = result if result.rows is not None else replace(result, axis=0)
            if (_base(result.rows), result.shape, result.axis) != (_base(rows), shape, axis):
                raise _No(
                    f"{self.node.target} became {result.rows} × {result.shape} instead of {rows} × {shape}: this is a fault of weft"
                )
        return result

    def value(self, x: Any) -> Value:
        """An operand as a value."""
        if isinstance(x, Value):
            return x
        if isinstance(x, Fill):
            return self.full(x)
        if isinstance(x, (Tensor, int, float, bool)):
            return self.constant(x)
        if isinstance(x, Number):
            return self.computed(x.expression)
        if isinstance(x, Loops):
            if x.rows not in ("one", "removed"):
                raise _No(
                    "stored self loops are told from other edges: remove them first, by remove_self_loops"
                )
            flags = self.constant(0), self.ones("vertices")
            is_loop = (
                self.emit("with_loops", [self.full(Fill(0, "removed", ())), flags[1]], "one", ())
                if x.rows == "one"
                else self.full(Fill(0, "removed", ()))
            )
            return self.pointwise("not", is_loop) if x.inverse else is_loop
        if isinstance(x, (Ends, Vertices, Edges)):
            raise _No("numbers of vertices are used as values: only rows of vertices are read by them")
        raise _No(f"{type(x).__name__} is not a value")

    def computed(self, e: sympy.Expr) -> Value:
        """A number of Python that depends on sizes."""
        if e in self.numbers:
            return self.numbers[e]
        if e.is_Number:
            return self.constant(float(e))
        rows = self.rows.get(sympy.expand(e))
        if rows is not None:
            count = self.emit("vertices", (), None, ())
            return (
                count
                if rows == "vertices"
                else self.emit("row_sum", [self.scatter(self.ones(rows), "target", "sum")], None, ())
            )
        parts = [self.computed(a) for a in e.args]
        name = {
            "Add": "add",
            "Mul": "mul",
            "Pow": "pow",
            "PowByNatural": "pow",
            "FloatTrueDiv": "div",
            "IntTrueDiv": "div",
        }.get(type(e).__name__)
        if type(e).__name__ == "ToFloat":
            return parts[0]
        if name is None or not parts:
            raise _No(
                f"a number is computed from sizes by {type(e).__name__}: use sums, products and quotients"
            )
        result = parts[0]
        for p in parts[1:]:
            result = self.pointwise(name, result, p)
        return result

    def elementwise(self, name: str, *given: Any, **attributes: Any) -> Any:
        if name in ("eq", "ne") and len(given) == 2 and all(isinstance(v, Ends) for v in given):
            if given[0].rows != given[1].rows or given[0].end == given[1].end:
                raise _No("the ends of different edges are compared")
            return Loops(given[0].rows, inverse=name == "ne")
        if name == "not" and isinstance(given[0], Loops):
            return replace(given[0], inverse=not given[0].inverse)
        if all(
            isinstance(v, (Fill, int, float, bool)) or (isinstance(v, Tensor) and v.numel() == 1)
            for v in given
        ) and any(isinstance(v, Fill) for v in given):
            numbers = [
                torch.tensor(v.number if isinstance(v, Fill) else float(v), dtype=torch.float64)
                for v in given
            ]
            done = _NUMBER.get(name) or getattr(torch, name)
            return Fill(float(done(*numbers, **_arguments(attributes))), *self.layout())
        rows = next((v.rows for v in given if isinstance(v, Value) and v.rows is not None), None)
        values = []
        for v in given:  # a number in every row is a constant, where another operand has the rows
            alone = isinstance(v, Fill) and rows == v.rows
            values.append(
                self.constant(torch.full((1,) * len(v.shape), v.number)) if alone else self.value(v)
            )
        result = self.pointwise(name, *values, **attributes)
        if any(isinstance(v, Fill) for v in given) and isinstance(self.node.meta.get("val"), Tensor):
            result = self.expand(result, self.layout()[1])
        return result

    # -- views, and writing in place

    def shaped(self, name: str, x: Any, named: dict[str, Any]) -> Any:
        """A view: rows stay, and the row's columns get another shape."""
        if isinstance(x, (Ends, Loops, Chosen)):
            return x
        if isinstance(x, (Edges, Vertices)):
            if len(self.node.meta["val"].shape) == 2 and name == "expand" and isinstance(x, Vertices):
                return Vertices(pairs=True)
            if name in _MOVES:
                raise _No("edge_index is transposed: take its rows, edge_index[0] and edge_index[1]")
            return x
        rows, shape, axis = self.layout()
        if isinstance(x, Fill):
            return Fill(x.number, x.rows, shape, axis)
        x = self.value(x)
        if name in _MOVES:
            order = _order(name, named, x.dim)
            if x.rows is None:
                return self.permute(x, order)
            return self.permute(x, [d - (d > x.axis) for d in order if d != x.axis], order.index(x.axis))
        if name.startswith("expand"):
            if x.rows is None and rows is not None:
                x = self.filled(
                    self.reshape(x, (1,) * (len(shape) + 1 - len(x.shape)) + x.shape),
                    [Value(0, rows, shape, axis)],
                )
            x = self.reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape, axis)
            return self.expand(x, shape)
        if x.rows is not None and math.prod(x.shape[: x.axis]) != math.prod(shape[:axis]):
            raise _No(
                "a view mixes vertices or edges with columns: keep the first dimension, as in x.view(x.size(0), -1)"
            )
        return self.reshape(x, shape, axis)

    def assign(self, node: Any, result: Any) -> None:
        """Writes in place: the tensor that node is, what it is a view of, and all views of that."""
        base = (
            node.args[0]
            if node.op == "call_function" and node in self.views.get(node.args[0] if node.args else None, ())
            else None
        )
        if base is None:
            self.env[node] = result
            self.again(node)
        else:
            self.assign(base, self.written(node, base, result))

    def again(self, base: Any) -> None:
        current = self.node
        for view in self.views.get(base, ()):
            if view in self.env:
                if view.target._schema.is_mutable:
                    self.env[view] = self.env[base]
                else:
                    self.node = view
                    args, kwargs = torch.fx.node.map_arg((view.args, view.kwargs), lambda n: self.env[n])
                    self.env[view] = self.lowered(
                        view.target._schema.name.split("::")[1],
                        view,
                        _named(view.target._schema, args, kwargs),
                    )
                self.again(view)
        self.node = current

    def written(self, view: Any, base: Any, new: Any) -> Any:
        """The base with new values in a view of it."""
        name = view.target._schema.name.split("::")[1]
        old = self.env[base]
        if name in _KEEPS or view.target._schema.is_mutable:
            return new
        old, new = self.value(old), self.value(new)
        new = self.filled(new, [old])
        if name in _VIEWS:
            return self.reshape(new, old.shape, old.axis)
        if name in ("slice", "select"):
            _, dim, *rest = view.args
            dim = int(dim if name == "select" or len(view.args) > 1 else 0) % old.dim
            if old.rows is not None and dim == old.axis:
                if name == "slice" and self.whole(view):
                    return new
                raise _No("some of the vertices or edges are written by their position")
            at = dim - (old.rows is not None and dim > old.axis)
            size = old.shape[at]
            start, stop = (rest[0] % size, rest[0] % size + 1) if name == "select" else _range(rest, size)
            new = self.reshape(new, (*old.shape[:at], stop - start, *old.shape[at + 1 :]), old.axis)
            return self.cat([self.slice(old, at, 0, start), new, self.slice(old, at, stop, size)], at)
        raise _No(
            f"values are written through a view by {name}: make a new tensor by torch.cat or torch.where"
        )

    def is_mask(self, index: Value, indices: list[Any]) -> bool:
        node = self.node.args[1]
        return isinstance(node, (list, tuple)) and bool(node[indices.index(index)].meta["val"].dtype == torch.bool)

    def whole(self, view: Any) -> bool:
        return bool(view.meta["val"].shape == view.args[0].meta["val"].shape)

    # -- helpers of handlers

    def dims(self, x: Value, dims: Any) -> tuple[bool, list[int]]:
        """Whether the rows' dimension is among PyTorch's dims, and which of a row are."""
        dims = range(x.dim) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        dims = [d % max(x.dim, 1) for d in dims] if x.dim else []
        if x.rows is None:
            return False, dims
        return x.axis in dims, [d - (d > x.axis) for d in dims if d != x.axis]

    def over(self, x: Value, dims: Any, keep: bool, name: str) -> Value:
        """A reduction by sum or mean, over rows too."""
        rows, columns = self.dims(x, dims)
        if rows and x.rows != "vertices":
            if isinstance(x.rows, tuple):
                raise _No(f"a {name} over {_said(x.rows)}: multiply by the mask, and sum")
            count = self.computed(next(e for e, r in self.rows.items() if r == x.rows))
            x = self.scatter(self.reduce(name, x, columns, True), "target", "sum")
            x = self.emit("row_sum", [x], None, x.shape)
            x = self.pointwise("div", x, count) if name == "mean" else x
        elif rows:
            x = self.reduce(name, x, columns, True)
            x = self.emit("row_" + name, [x], None, x.shape)
        else:
            return self.reduce(name, x, columns, keep)
        return self.reshape(x, self.layout()[1])

    def variance(self, x: Value, dims: Any, keep: bool, correction: float) -> Value:
        rows, columns = self.dims(x, dims)
        own = self.node
        centre = self.kept(x, rows, columns, x)
        squares = self.pointwise("square", self.pointwise("sub", x, centre))
        out = self.kept(squares, rows, columns, x)
        if correction:
            count: Value = self.constant(math.prod(x.shape[d] for d in columns))
            if rows:
                count = self.pointwise(
                    "mul", count, self.computed(next(e for e, r in self.rows.items() if r == x.rows))
                )
            rest = self.pointwise("sub", count, self.constant(correction))
            out = self.pointwise("mul", out, self.pointwise("div", count, rest))
        self.node = own
        _, shape, axis = self.layout()
        return self.reshape(out, shape, axis)

    def kept(self, x: Value, rows: bool, columns: list[int], like: Value) -> Value:
        """The mean with the dimensions kept, so that it meets x again."""
        x = self.reduce("mean", x, columns, True)
        if not rows:
            return x
        if x.rows != "vertices":
            raise _No("a variance over edges: aggregate to vertices first")
        out = self.emit("row_mean", [x], None, x.shape)
        return self.reshape(out, (*x.shape[: like.axis], 1, *x.shape[like.axis :]))


# -- handlers: operands by the names of ATen's schema


@_lowers("add", "sub", "rsub")
def _sum(to: _Lowering, self: Any, other: Any, alpha: Any = 1) -> Any:
    name = to.node.target._schema.name.split("::")[1].rstrip("_")
    other = other if alpha == 1 else to.elementwise("mul", other, alpha)
    return to.elementwise("sub", other, self) if name == "rsub" else to.elementwise(name, self, other)


@_lowers("mul", "multiply", "eq", "pow", "true_divide")
def _binary(to: _Lowering, self: Any, other: Any = None, exponent: Any = None) -> Any:
    name = to.node.target._schema.name.split("::")[1].rstrip("_")
    return to.elementwise(
        {"multiply": "mul", "true_divide": "div"}.get(name, name), self, exponent if other is None else other
    )


@_lowers("div", "divide", "floor_divide")
def _div(to: _Lowering, self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "trunc":
        raise _No("a quotient is truncated: write torch.floor")
    result = to.elementwise("div", self, other)
    floor = rounding_mode == "floor" or "floor" in to.node.target._schema.name
    return to.elementwise("floor", result) if floor else result


@_lowers("square")
def _square(to: _Lowering, self: Any) -> Any:
    return to.elementwise("square", self)


@_lowers("where")
def _where(to: _Lowering, condition: Any, self: Any, other: Any) -> Any:
    return to.elementwise("where", condition, self, other)


@_lowers("masked_fill")
def _masked_fill(to: _Lowering, self: Any, mask: Any, value: Any) -> Any:
    return to.elementwise("where", mask, value, self)


@_lowers("clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "relu6")
def _clamp(
    to: _Lowering, self: Any, min: Any = None, max: Any = None, min_val: Any = None, max_val: Any = None
) -> Any:
    low, high = (min_val if min is None else min), (max_val if max is None else max)
    for name, limit in (("maximum", low), ("minimum", high)):
        if isinstance(limit, (Value, Fill, Number, Tensor)):
            self = to.elementwise(name, self, limit)
    limits = {k: float(v) for k, v in (("min", low), ("max", high)) if isinstance(v, (int, float))}
    return to.elementwise("clamp", self, **limits) if limits else self


@_lowers("leaky_relu")
def _leaky_relu(to: _Lowering, self: Any, negative_slope: float) -> Any:
    return to.elementwise("leaky_relu", self, slope=negative_slope)


@_lowers("elu", "celu")
def _elu(to: _Lowering, self: Any, alpha: float, scale: float = 1, input_scale: float = 1) -> Any:
    if (scale, input_scale) != (1, 1):
        if abs(scale - 1.0507009873554805) > 1e-6 or input_scale != 1:
            return to.expanded(to.node)
        return to.elementwise("selu", self)
    return to.elementwise(
        "elu" if "celu" not in to.node.target._schema.name else "celu", self, alpha=float(alpha)
    )


@_lowers("gelu")
def _gelu(to: _Lowering, self: Any, approximate: str) -> Any:
    return to.elementwise("gelu", self, approximate=approximate)


@_lowers("softplus")
def _softplus(to: _Lowering, self: Any, beta: float, threshold: float) -> Any:
    return to.elementwise("softplus", self, beta=float(beta), threshold=float(threshold))


@_lowers("prelu", "_prelu_kernel")
def _prelu(to: _Lowering, self: Any, weight: Any) -> Any:
    x, weight = to.value(self), to.value(weight)
    if weight.shape != () and x.dim > 2 and weight.shape != (1,):
        weight = to.reshape(weight, (*weight.shape, *(1,) * (x.dim - 2)))
    return to.pointwise("where", to.pointwise("gt", x, to.constant(0)), x, to.pointwise("mul", weight, x))


@_lowers("mish")
def _mish(to: _Lowering, self: Any) -> Any:
    return to.elementwise("mul", self, to.elementwise("tanh", to.elementwise("softplus", self)))


@_lowers("isinf", "isnan", "isfinite")
def _is(to: _Lowering, self: Any) -> Any:
    name, size = to.node.target._schema.name.split("::")[1], to.elementwise("abs", self)
    if name == "isinf":
        return to.elementwise("eq", size, math.inf)
    return to.elementwise("ne", self, self) if name == "isnan" else to.elementwise("lt", size, math.inf)


@_lowers("log2", "log10")
def _log(to: _Lowering, self: Any) -> Any:
    return to.elementwise(
        "mul", to.elementwise("log", self), 1 / math.log(2 if "log2" in to.node.target._schema.name else 10)
    )


@_lowers("detach", "alias", "clone", "contiguous", "to", "_to_copy", "type_as", "lift_fresh_copy")
def _same(to: _Lowering, self: Any, **more: Any) -> Any:
    name, of = to.node.target._schema.name.split("::")[1], to.node.args[0].meta["val"].dtype
    if name == "detach" and isinstance(self, Value):
        return to.emit("detach", [self], self.rows, self.shape, self.axis)
    if isinstance(self, Value) and of.is_floating_point:
        kind = to.node.meta["val"].dtype
        if kind == torch.bool:
            return to.elementwise("ne", self, 0)
        if not kind.is_floating_point:  # towards zero
            return to.elementwise(
                "mul", to.elementwise("sign", self), to.elementwise("floor", to.elementwise("abs", self))
            )
    return self


@_lowers("copy")
def _copy(to: _Lowering, self: Any, src: Any, **_: Any) -> Any:
    rows, shape, axis = to.layout()
    if isinstance(src, Fill):
        return Fill(src.number, rows, shape, axis)
    x = to.filled(to.value(src), [Value(0, rows, shape, axis)])
    return to.expand(to.reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape, axis), shape)


@_lowers("dropout", "native_dropout")
def _dropout(to: _Lowering, input: Any, p: float, train: bool) -> Any:
    x, path = to.value(input), to.where["path"]
    if train and p:
        if x.rows is None or isinstance(x.rows, tuple):
            raise _No("dropout of parameters, or of rows that a mask chose: apply it to rows of vertices or of edges")
        to.dropouts[path] = to.dropouts.get(path, 0) + 1
        name = path if to.dropouts[path] == 1 else f"{path}#{to.dropouts[path]}"
        x = to.emit("dropout", [x], x.rows, x.shape, x.axis, p=float(p), path=name)
    return [x, None] if isinstance(to.node.meta["val"], (list, tuple)) else x


# -- sizes and constants


@_lowers("zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like",
         "full_like", "empty_like", "empty_permuted", "scalar_tensor", "fill", "zero")  # fmt: skip
def _filled(
    to: _Lowering, self: Any = None, fill_value: Any = None, value: Any = None, s: Any = None, **_: Any
) -> Any:
    name = to.node.target._schema.name.split("::")[1]
    number = next((v for v in (fill_value, value, s) if v is not None), 1 if "ones" in name else 0)
    rows, shape, axis = to.layout()
    if isinstance(number, (Value, Number)):
        like = Value(0, rows, shape, axis)
        return to.expand(
            to.filled(to.reshape(to.value(number), (1,) * (len(shape) + (rows is not None))), [like]), shape
        )
    if rows is None:
        return torch.full(shape, number, dtype=to.node.meta["val"].dtype)
    return Fill(float(number), rows, shape, axis)


@_lowers("arange")
def _arange(to: _Lowering, end: Any, start: Any = 0, step: Any = 1, **_: Any) -> Any:
    if (
        start == 0
        and step == 1
        and isinstance(end, Number)
        and to.counted(end) == "vertices"
        and len(end.expression.args) == 0
    ):
        return Vertices()
    raise _No("a range that is not of all vertices: give num_nodes=x.size(0)")


@_lowers("sym_size", "sym_numel", "sym_stride")
def _sym_size(to: _Lowering, **_: Any) -> Any:
    return to.node.meta["val"]


# -- parts of tensors


@_lowers("select")
def _select(to: _Lowering, self: Any, dim: int, index: int) -> Any:
    if isinstance(self, Edges):
        if dim % 2 or not isinstance(index, int):
            raise _No("one edge is taken from edge_index")
        return Ends(self.rows, ("source", "target")[(index % 2) != self.reverse])
    if isinstance(self, Vertices):
        return Vertices()
    if isinstance(self, Fill):
        return Fill(self.number, *to.layout())
    x = to.value(self)
    dim %= x.dim
    if x.rows is not None and dim == x.axis:
        raise _No("one vertex or edge is taken by its position: weft's vertices have no order")
    at = dim - (x.rows is not None and dim > x.axis)
    index %= x.shape[at]
    part = to.slice(x, at, index, index + 1)
    return to.reshape(
        part, part.shape[:at] + part.shape[at + 1 :], x.axis - (x.rows is not None and dim < x.axis)
    )


@_lowers("slice")
def _slice(to: _Lowering, self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if to.whole(to.node) and step == 1:
        return self
    if isinstance(self, Fill):
        return Fill(self.number, *to.layout())
    if isinstance(self, (Edges, Ends, Vertices)):
        raise _No("some of the edges are taken by their position: weft's edges have no order")
    x = to.value(self)
    dim %= x.dim
    if x.rows is not None and dim == x.axis:
        raise _No("some of the vertices or edges are taken by their position: weft's rows have no order")
    at = dim - (x.rows is not None and dim > x.axis)
    return to.slice(x, at, *_range([start, end], x.shape[at]), step)


@_lowers("split", "split_with_sizes", "chunk", "unbind", "unsafe_split", "unsafe_chunk", "tensor_split")
def _split(to: _Lowering, self: Any, dim: int = 0, **_: Any) -> Any:
    name = to.node.target._schema.name.split("::")[1]
    if isinstance(self, (Edges, Vertices)) and name == "unbind":
        return (
            [_select(to, self, 0, k) for k in (0, 1)] if isinstance(self, Edges) else [Vertices(), Vertices()]
        )
    x, at = to.value(self), 0
    dim %= x.dim
    if x.rows is not None and dim == x.axis:
        raise _No("vertices or edges are split by their position: weft's rows have no order")
    at = dim - (x.rows is not None and dim > x.axis)
    parts, start = [], 0
    for tensor in to.node.meta["val"]:
        size = 1 if name == "unbind" else int(tensor.shape[dim])
        part = to.slice(x, at, start, start + size)
        if name == "unbind":
            part = to.reshape(
                part, part.shape[:at] + part.shape[at + 1 :], x.axis - (x.rows is not None and dim < x.axis)
            )
        parts.append(part)
        start += size
    return parts


@_lowers("cat", "concat", "stack")
def _cat(to: _Lowering, tensors: list[Any], dim: int = 0) -> Any:
    stack = to.node.target._schema.name.endswith("stack")
    if any(isinstance(t, (Edges, Ends, Vertices)) for t in tensors):
        return _joined(to, tensors, dim % 2, stack)
    rows, shape, axis = to.layout()
    dim %= len(shape) + (rows is not None)
    if rows is not None and dim == axis and not stack:
        return _with_loops(to, tensors, rows)
    if all(isinstance(t, Fill) and t.number == tensors[0].number for t in tensors):
        return Fill(tensors[0].number, rows, shape, axis)
    parts = [to.value(t) for t in tensors if not (isinstance(t, Tensor) and t.shape == (0,))]
    at = dim - (rows is not None and dim > axis)
    like = next((p for p in parts if p.rows is not None), parts[0])
    parts = [to.filled(p, [like]) for p in parts]
    if stack:
        parts = [to.reshape(p, (*p.shape[:at], 1, *p.shape[at:]), axis) for p in parts]
    return to.cat(parts, at)


def _joined(to: _Lowering, parts: list[Any], dim: int, stack: bool) -> Any:
    """edge_index of other edges: with loops, or from its two rows."""
    if all(isinstance(p, Ends) for p in parts) and len(parts) == 2 and dim == 0:
        a, b = parts
        if a.rows == b.rows and a.end != b.end:
            return Edges(a.rows, reverse=a.end == "target")
    if all(isinstance(p, Vertices) for p in parts) and dim == 0:
        return Vertices(pairs=True)
    if (
        len(parts) == 2
        and isinstance(parts[0], (Edges, Ends))
        and isinstance(parts[1], Vertices)
        and not stack
    ):
        if parts[0].rows not in _WITH:
            raise _No("self loops are added to edges that have them: add them once")
        return replace(parts[0], rows=to.counted(to.node.meta["val"].shape[-1]))
    if any(isinstance(p, (Edges, Ends)) for p in parts[1:]):
        raise _No(
            "edges are joined with others, as of both directions: make the graph undirected before, by to_undirected, or call the layer twice"
        )
    raise _No(
        "edge_index is joined with other numbers: weft adds self loops only, add_self_loops(edge_index, num_nodes=x.size(0))"
    )


def _with_loops(to: _Lowering, tensors: list[Any], rows: Rows) -> Any:
    """Values of edges, and of the self loops that follow them."""
    if len(tensors) != 2 or rows not in ("one", "added"):
        raise _No("rows of vertices or edges are joined one after another: concatenate columns (dim=-1)")
    edges, loops = tensors
    if isinstance(edges, Fill) and isinstance(loops, Fill) and edges.number == loops.number:
        return Fill(edges.number, *to.layout())
    edges, loops = to.value(edges), to.value(loops)
    if edges.axis:
        raise _No("values of self loops are joined to those of edges in another dimension than the first")
    return to.emit("with_loops", [edges, loops], rows, edges.shape)


@_lowers("flip")
def _flip(to: _Lowering, self: Any, dims: list[int]) -> Any:
    if isinstance(self, Edges) and [d % 2 for d in dims] == [0]:
        return replace(self, reverse=not self.reverse)
    x = to.value(self)
    rows, columns = to.dims(x, dims)
    if rows:
        raise _No("the order of vertices or edges is reversed: weft's rows have no order")
    return to.emit("flip", [x], x.rows, x.shape, x.axis, dims=sorted(columns))


@_lowers("repeat")
def _repeat(to: _Lowering, self: Any, repeats: list[Any]) -> Any:
    if isinstance(self, Vertices):
        return Vertices(pairs=True)
    x = to.value(self)
    rows, shape, axis = to.layout()
    if x.rows is None and rows is not None:
        x = to.filled(to.reshape(x, (1,) * (len(repeats) - x.dim) + x.shape), [Value(0, rows, shape, axis)])
        return to.expand(x, shape)
    times = [r for d, r in enumerate(repeats) if rows is None or d != axis]
    x = to.reshape(x, (1,) * (len(times) - len(x.shape)) + x.shape, axis)
    for d, n in enumerate(times):
        x = to.cat([x] * n, d)
    return x


# -- along edges


@_lowers("index_select")
def _index_select(to: _Lowering, self: Any, dim: int, index: Any) -> Any:
    return _index(to, self, [None] * (dim % len(to.node.args[0].meta["val"].shape)) + [index])


@_lowers("index")
def _index(to: _Lowering, self: Any, indices: list[Any]) -> Any:
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(given) != 1:
        raise _No("several indices at once: take the columns one after another")
    (dim, index), = given  # fmt: skip
    if isinstance(self, (Edges, Ends)):
        return _edges_of(to, self, dim, index)
    if isinstance(index, (Chosen, Loops)) or (isinstance(index, Value) and to.is_mask(index, indices)):
        return _chosen(to, self, index.mask if isinstance(index, Chosen) else index)
    if isinstance(self, Fill):
        return Fill(self.number, *to.layout())
    x = to.value(self)
    if isinstance(index, Fill) and x.rows is None and dim == 0:  # one group of all vertices
        row = to.slice(x, 0, int(index.number), int(index.number) + 1)
        return to.filled(to.reshape(row, row.shape[1:]), [Value(0, *to.layout())])
    if isinstance(index, (Ends, Vertices)):
        if x.rows is None or dim != x.axis:
            raise _No(
                "a table with a row for each vertex is read by their numbers: concatenate it to x beforehand"
            )
        return x if isinstance(index, Vertices) else to.gather(x, index)
    if isinstance(index, Tensor):
        at = dim - (x.rows is not None and dim > x.axis)
        if index.dtype == torch.bool:
            index = index.nonzero().flatten()
        if (x.rows is not None and dim == x.axis) or index.dim() != 1:
            raise _No("some of the vertices or edges are taken by their position: weft's rows have no order")
        return to.cat([to.slice(x, at, int(k) % x.shape[at], int(k) % x.shape[at] + 1) for k in index], at)
    return _lookup(to, x, dim, to.value(index))


def _edges_of(to: _Lowering, self: Any, dim: int, index: Any) -> Any:
    if (
        isinstance(self, Edges)
        and dim == 0
        and isinstance(index, Tensor)
        and index.tolist() in ([1, 0], [0, 1])
    ):
        return replace(self, reverse=self.reverse != (index.tolist() == [1, 0]))
    if isinstance(index, Chosen):
        index = index.mask
    if isinstance(index, Loops):
        if index.rows != self.rows:
            raise _No("a mask of other edges")
        rows = _REMOVED[self.rows] if index.inverse else ("loops", self.rows)
    elif isinstance(index, Value) and index.rows == self.rows:
        rows = (self.rows, index.op)
    else:
        raise _No("some of the edges are taken by their position: choose edges by a mask of their values")
    return replace(self, rows=to.count(to.node.meta["val"].shape[-1], rows))


def _chosen(to: _Lowering, self: Any, mask: Any) -> Any:
    """Rows that a mask chooses."""
    x, size = self, next(n for n in to.node.meta["val"].shape if not isinstance(n, int))
    if isinstance(mask, Loops):
        whole = mask.rows in ("one", "added") and not mask.inverse
        rows = to.count(
            size,
            "vertices"
            if mask.rows == "one" and whole
            else _REMOVED[mask.rows]
            if mask.inverse
            else ("loops", mask.rows),
        )
    else:
        rows = to.count(size, (mask.rows, mask.op))
    if isinstance(x, Fill):
        return Fill(x.number, rows, x.shape, x.axis)
    x = to.value(x)
    if x.rows != mask.rows or x.axis:
        raise _No(f"a mask of {_said(mask.rows)} chooses among {_said(x.rows)}")
    of = to.of(x)
    if isinstance(mask, Value):
        return replace(x, rows=rows)
    if not mask.inverse and mask.rows == "one":  # each vertex has one loop
        if of["op"] == "gather":
            return to.inputs(x)[0]
        return to.scatter(
            to.pointwise("mul", to.reshape(to.value(mask), (1,) * len(x.shape)), x), "target", "sum"
        )
    if not mask.inverse or mask.rows == "removed":
        return replace(x, rows=rows)  # only loop_values reads stored loops
    if mask.rows != "stored" and of["op"] == "with_loops":
        x = to.inputs(x)[0]
    elif mask.rows != "stored":
        raise _No("self loops are removed from values of edges that had them added: remove them first")
    return x if mask.rows == "one" else to.emit("without_loops", [x], "removed", x.shape)


def _lookup(to: _Lowering, table: Value, dim: int, index: Value) -> Value:
    """Rows of a small table by numbers that features hold: a product with 0 and 1."""
    if table.rows is not None or dim != 0:
        raise _No("rows are read by numbers that are computed: only edge_index says which rows meet")
    count, rest = table.shape[0], table.shape[1:]
    if count > 4096:
        raise _No(
            f"an embedding of {count:,} rows: weft has those of at most 4096; give the embedding's rows as features"
        )
    ids = to.reshape(index, (*index.shape, 1))
    which = to.pointwise("eq", ids, to.constant(torch.arange(count)))
    flat = to.reshape(table, (count, math.prod(rest)))
    out = to.emit("matmul", [which, flat], index.rows, (*index.shape, math.prod(rest)), index.axis)
    return to.reshape(out, (*index.shape, *rest))


@_lowers("embedding")
def _embedding(to: _Lowering, weight: Any, indices: Any, **_: Any) -> Any:
    if isinstance(indices, (Ends, Vertices)):
        raise _No("an embedding has a row for each vertex: give these as features, x")
    return _lookup(to, to.value(weight), 0, to.value(indices))


@_lowers("gather")
def _gather(to: _Lowering, self: Any, dim: int, index: Any, **_: Any) -> Any:
    if isinstance(index, Ends):
        return _index_select(to, self, dim, index)
    x, ids = to.value(self), to.value(index)
    at = dim % x.dim - (x.rows is not None and dim % x.dim > x.axis)
    if (x.rows is not None and dim % x.dim == x.axis) or at != len(x.shape) - 1 or ids.shape[at] != 1:
        raise _No("values are picked by numbers that are computed: write a comparison and torch.where")
    which = to.pointwise("eq", ids, to.constant(torch.arange(x.shape[at])))
    return to.reduce("sum", to.pointwise("mul", which, x), [at], True)


@_lowers("one_hot")
def _one_hot(to: _Lowering, self: Any, num_classes: int) -> Any:
    if num_classes < 0:
        raise _No("one_hot without num_classes depends on the values: give num_classes")
    ids = to.value(self)
    return to.pointwise("eq", to.reshape(ids, (*ids.shape, 1)), to.constant(torch.arange(num_classes)))


@_lowers("nonzero", "nonzero_numpy")
def _nonzero(to: _Lowering, self: Any) -> Any:
    if isinstance(self, Value) and self.rows is not None and self.shape == ():
        to.count(next(n for n in _sizes(to.node.meta["val"]) if not isinstance(n, int)), (self.rows, self.op))
        chosen = Chosen(self)
    elif isinstance(self, Loops):
        chosen = Chosen(self)
    else:
        raise _No("positions depend on the values: write a comparison and torch.where")
    return [chosen] if isinstance(to.node.meta["val"], (list, tuple)) else chosen


@_lowers("scatter_add", "index_add", "scatter_reduce", "index_reduce", "scatter")
def _scatter(to: _Lowering, self: Any, dim: int, index: Any, src: Any = None, source: Any = None, reduce: str = "sum",
             include_self: bool = True, alpha: Any = 1, value: Any = None) -> Any:  # fmt: skip
    src = next((v for v in (src, source, value) if v is not None), None)
    name = to.node.target._schema.name.split("::")[1].rstrip("_")
    if name == "scatter" and not isinstance(index, Ends) and reduce == "sum":
        return _put_columns(to, self, dim, index, src)
    if not isinstance(index, Ends):
        sizes = to.layout()[1]
        if isinstance(index, Fill) and index.rows == "vertices" and dim == 0 and sizes[0] == 1 and reduce in ("sum", "mean", "amax", "amin"):
            x = to.value(src)  # one group of all vertices
            name = {"amax": "max", "amin": "min"}.get(reduce, reduce)
            out = to.reshape(to.emit("row_" + name, [x], None, x.shape), sizes)
            return to.elementwise("add", out, self) if reduce == "sum" else out
        if isinstance(index, Vertices):
            raise _No("vertices are added to by their numbers: add the rows")
        raise _No(
            "rows are added up by numbers that are computed, as in a pooling of vertices: only the ends of edges say which vertices meet"
        )
    if alpha != 1:
        src = to.elementwise("mul", src, alpha)
    src = to.value(src)
    reduce = {"amax": "max", "amin": "min", "prod": "mul", "add": "sum", "multiply": "mul"}.get(
        reduce, reduce
    )
    if src.rows != index.rows or to.layout()[0] != "vertices":
        raise _No(
            f"rows of {_said(src.rows)} are aggregated to {_said(to.layout()[0])}: edges aggregate to vertices"
        )
    if name == "scatter":
        raise _No("rows are written over each other: aggregate them by scatter_add or scatter_reduce")
    out = to.scatter(src, index.end, reduce)
    start = to.number(self)
    empty = 1.0 if reduce == "mul" else 0.0
    if reduce in ("sum", "mul") and (include_self or start != empty):
        if not include_self:
            raise _No(f"{name} with include_self=False: start from {empty:g}")
        return to.elementwise({"sum": "add", "mul": "mul"}[reduce], out, self)
    if start != empty:  # vertices without edges keep what they had
        count = to.scatter(to.reshape(to.ones(index.rows), (1,) * len(src.shape)), index.end, "sum")
        some = to.pointwise("gt", replace(count, axis=out.axis), to.constant(0))
        out = to.elementwise("where", some, out, self)
    if include_self and reduce == "mean":
        raise _No("scatter_reduce by mean with include_self=True: give include_self=False")
    return to.elementwise({"max": "maximum", "min": "minimum"}[reduce], out, self) if include_self else out


def _put_columns(to: _Lowering, self: Any, dim: int, index: Any, number: Any) -> Any:
    """A number at a column that each row names, as one_hot writes it."""
    ids, x = to.value(index), self
    if dim % x.dim == x.axis or ids.shape != (1,) or isinstance(number, (Value, Fill)):
        raise _No("values are written at positions that are computed: write a comparison and torch.where")
    which = to.pointwise("eq", ids, to.constant(torch.arange(x.shape[-1])))
    return to.elementwise("where", which, number, x)


@_lowers("index_put", "_unsafe_index_put", "index_copy", "_index_put_impl")
def _index_put(to: _Lowering, self: Any, indices: Any = None, values: Any = None, accumulate: bool = False,
               dim: int = 0, index: Any = None, source: Any = None, **_: Any) -> Any:  # fmt: skip
    indices = [index] if indices is None else [i for i in indices if i is not None]
    values, at = source if values is None else values, indices[0]
    if len(indices) > 1:
        raise _No("several indices at once are written: write torch.where")
    if isinstance(at, Ends) and accumulate:
        return to.elementwise("add", to.scatter(to.value(values), at.end, "sum"), self)
    if isinstance(at, Ends) and at.rows == ("loops", "stored"):  # PyG's add_remaining_self_loops
        if isinstance(values, Fill) and isinstance(self, Fill) and values.number == self.number:
            return self
        old, new = to.value(self), to.value(values)
        return to.emit("loop_values", [replace(new, rows="stored"), old], "vertices", old.shape)
    mask = at.mask if isinstance(at, Chosen) else at
    if isinstance(mask, Loops) and mask.rows == "one" and not mask.inverse:
        x, new = to.value(self), to.value(values)
        new = to.gather(new, Ends("one", "target")) if new.rows == "vertices" else new
        return to.pointwise(
            "where",
            to.reshape(to.value(mask), (1,) * len(x.shape)),
            to.pointwise("add", x, new) if accumulate else new,
            x,
        )
    if isinstance(mask, Value) and mask.rows is not None:
        x, new = to.value(self), to.value(values)
        mask = to.reshape(mask, mask.shape + (1,) * (len(x.shape) - len(mask.shape)))
        if new.rows is not None:
            new = replace(new, rows=_base(new.rows))
        return to.pointwise("where", mask, to.pointwise("add", x, new) if accumulate else new, x)
    raise _No(
        "rows are written by numbers that are computed: aggregate by scatter_add, or choose by torch.where"
    )


# -- sums over columns and rows


@_lowers("sum", "mean")
def _over(to: _Lowering, self: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    return to.over(to.value(self), dim, keepdim, to.node.target._schema.name.split("::")[1])


@_lowers("amax", "amin", "max", "min", "logsumexp", "any", "all")
def _most(to: _Lowering, self: Any, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
    name = {"amax": "max", "amin": "min", "any": "max", "all": "min"}.get(
        given := to.node.target._schema.name.split("::")[1], given
    )
    if other is not None:
        return to.elementwise({"max": "maximum", "min": "minimum"}[given], self, other)
    if isinstance(self, Ends) and given == "max":
        return self
    x = to.value(self)
    rows, columns = to.dims(x, dim)
    if rows and name == "logsumexp":
        raise _No("logsumexp over all vertices or edges: take sums or means over them")
    if rows:
        out = to.emit(
            "row_" + name,
            [to.reduce(name, x, columns, True)],
            None,
            [1 if d in columns else n for d, n in enumerate(x.shape)],
        )
        return to.reshape(out, to.layout()[1])
    out = to.reduce(name, x, columns, keepdim)
    return [out, None] if isinstance(to.node.meta["val"], (list, tuple)) else out


@_lowers("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax")
def _softmax(to: _Lowering, self: Any, dim: int, **_: Any) -> Any:
    x = to.value(self)
    rows, columns = to.dims(x, dim)
    if rows:
        raise _No(
            "softmax over all vertices or edges at once: softmax over the edges of a vertex is torch_geometric.utils.softmax(src, index)"
        )
    name = "log_softmax" if "log" in to.node.target._schema.name else "softmax"
    return to.emit(name, [x], x.rows, x.shape, x.axis, dim=columns[0])


@_lowers("var", "std", "var_mean")
def _variance(
    to: _Lowering,
    self: Any,
    dim: Any = None,
    correction: Any = None,
    keepdim: bool = False,
    unbiased: bool = True,
) -> Any:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    x, name = to.value(self), to.node.target._schema.name.split("::")[1]
    node = to.node
    if name == "var_mean":
        return to.expanded(node)
    out = to.variance(x, dim, keepdim, float(unbiased) if correction is None else float(correction))
    return to.pointwise("sqrt", out) if name == "std" else out


@_lowers("norm", "linalg_vector_norm")
def _norm(
    to: _Lowering, self: Any, p: Any = 2, ord: Any = None, dim: Any = None, keepdim: bool = False, **_: Any
) -> Any:
    x, p = to.value(self), 2 if p is None and ord is None else float(p if ord is None else ord)
    if p == 2:
        return to.pointwise("sqrt", to.over(to.pointwise("square", x), dim, keepdim, "sum"))
    size = to.pointwise("abs", x)
    if p == 1:
        return to.over(size, dim, keepdim, "sum")
    if math.isinf(p):
        return to.reduce("max" if p > 0 else "min", size, to.dims(x, dim)[1], keepdim)
    return to.pointwise(
        "pow", to.over(to.pointwise("pow", size, to.constant(p)), dim, keepdim, "sum"), to.constant(1 / p)
    )


@_lowers("prod")
def _prod(to: _Lowering, self: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    x = to.value(self)
    rows, columns = to.dims(x, dim)
    if rows or len(columns) != 1:
        raise _No("a product over all vertices or edges")
    at = columns[0]
    parts = [to.slice(x, at, k, k + 1) for k in range(x.shape[at])]
    out = parts[0]
    for p in parts[1:]:
        out = to.pointwise("mul", out, p)
    return out if keepdim else to.reshape(out, to.layout()[1], to.layout()[2])


# -- products


@_lowers("linear")
def _linear(to: _Lowering, input: Any, weight: Any, bias: Any = None) -> Any:
    x, w = to.value(input), to.value(weight)
    if w.rows is not None or (x.rows is not None and x.axis == x.dim - 1):
        return to.expanded(to.node)
    b = [] if bias is None else [to.value(bias)]
    return to.emit("linear", [x, w, *b], x.rows, (*x.shape[:-1], w.shape[0]), x.axis)


@_lowers("mm", "bmm", "matmul", "mv", "dot")
def _matmul(
    to: _Lowering, self: Any, mat2: Any = None, other: Any = None, vec: Any = None, tensor: Any = None
) -> Any:
    return _product(
        to, to.value(self), to.value(next(v for v in (mat2, other, vec, tensor) if v is not None))
    )


@_lowers("addmm", "baddbmm", "addmv")
def _addmm(to: _Lowering, self: Any, mat1: Any = None, mat2: Any = None, batch1: Any = None, batch2: Any = None, mat: Any = None,
           vec: Any = None, beta: Any = 1, alpha: Any = 1) -> Any:  # fmt: skip
    x = next(v for v in (mat1, batch1, mat) if v is not None)
    y = next(v for v in (mat2, batch2, vec) if v is not None)
    out, b = _product(to, to.value(x), to.value(y)), to.value(self)
    if to.of(out)["op"] == "linear" and (alpha, beta, b.rows, b.shape) == (1, 1, None, out.shape[-1:]):
        return to.emit("linear", [*to.inputs(out), b], out.rows, out.shape, out.axis)
    out = out if alpha == 1 else to.pointwise("mul", out, to.constant(alpha))
    return out if beta == 0 else to.pointwise("add", out, to.pointwise("mul", b, to.constant(beta)))


def _product(to: _Lowering, x: Value, y: Value) -> Value:
    """x @ y, wherever the rows' dimension stands: among the leading ones, or one of the product's own."""
    one, two = x.dim == 1, y.dim == 1
    x = _unsqueezed(to, x, 0) if one else x
    y = _unsqueezed(to, y, 1) if two else y
    out = _matrices(to, x, y)
    out = _squeezed(to, out, out.dim - 1) if two else out
    return _squeezed(to, out, out.dim - (1 if two else 2)) if one else out


def _matrices(to: _Lowering, x: Value, y: Value) -> Value:
    at_x, at_y = (
        v.dim - v.axis if v.rows is not None else 0 for v in (x, y)
    )  # from the right: 1 is the last dimension
    if at_x == 2 and not at_y:  # (…, V, k) @ (…, k, m)
        if len(y.shape) == 2:
            return _by_weight(to, x, y)
        row = to.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
        out = _rowwise(to, row, y, x.rows, 0)
        return to.reshape(out, (*out.shape[:-2], out.shape[-1]), len(out.shape) - 2)
    if at_y == 1 and not at_x:  # (…, a, k) @ (…, k, V): the transposed product
        other = _swapped(to, x)
        out = _matrices(to, _moved(to, y), other)
        return replace(out, axis=out.axis + 1)
    if at_x == 1 and at_y == 2:  # a sum over rows
        if x.rows != y.rows or x.rows != "vertices":
            raise _No("a product sums over edges")
        a = to.reshape(x, (*x.shape, 1))
        b = to.reshape(y, (*y.shape[:-1], 1, y.shape[-1]))
        pairs = to.pointwise("mul", replace(a, axis=0), replace(b, axis=0))
        return to.emit("row_sum", [pairs], None, pairs.shape)
    if at_x in (1, 2) or at_y in (1, 2):
        raise _No(
            "a product meets each pair of vertices, which takes memory and time of their square: attend over edges, by propagate"
        )
    if not at_x and at_y:  # parameters @ rows
        return _swapped(to, _matrices(to, _swapped(to, y), _swapped(to, x)))
    if at_x and not at_y and len(y.shape) >= at_x:
        d = len(y.shape) - at_x
        y = to.reshape(y, y.shape[:d] + y.shape[d + 1 :])
    elif at_x != at_y and at_y:
        raise _No(
            "each pair of vertices meets: a function of all pairs takes memory and time of their square"
        )
    return _rowwise(to, x, y, x.rows, at_x - 1 if at_x else 0)


def _rowwise(to: _Lowering, x: Value, y: Value, rows: Rows, right: int) -> Value:
    if y.rows is None and len(y.shape) == 2:
        return replace(_by_weight(to, x, y), axis=len(x.shape) - right)
    shape = (*torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
    return to.emit("matmul", [x, y], rows, shape, len(shape) - right)


def _by_weight(to: _Lowering, x: Value, w: Value) -> Value:
    """A product with one matrix: linear, if it is a transposed one."""
    of = to.of(w)
    if of["op"] == "permute" and of["dims"] == [1, 0]:
        return to.emit("linear", [x, to.inputs(w)[0]], x.rows, (*x.shape[:-1], w.shape[1]), x.axis)
    return to.emit("matmul", [x, w], x.rows, (*x.shape[:-1], w.shape[1]), x.axis)


def _swapped(to: _Lowering, x: Value) -> Value:
    """The last two dimensions, neither of which is the rows', change places."""
    n = len(x.shape)
    return to.permute(x, [*range(n - 2), n - 1, n - 2])


def _moved(to: _Lowering, x: Value) -> Value:
    """(…, k, V) as (…, V, k)."""
    return replace(x, axis=x.axis - 1)


def _unsqueezed(to: _Lowering, x: Value, at: int) -> Value:
    if x.rows is None:
        return to.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))
    return to.reshape(x, (1,), axis=1 if at == 0 else 0)


def _squeezed(to: _Lowering, x: Value, dim: int) -> Value:
    at = dim - (x.rows is not None and dim > x.axis)
    return to.reshape(x, x.shape[:at] + x.shape[at + 1 :], x.axis - (x.rows is not None and dim < x.axis))


@_lowers("gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(
    to: _Lowering, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """The equations of torch.nn.GRUCell, LSTMCell and RNNCell."""
    name, (h, *more) = (
        to.node.target._schema.name.split("::")[1],
        hx if isinstance(hx, (list, tuple)) else [hx],
    )

    def parts(x: Any, w: Any, b: Any) -> list[Value]:
        y, count = _linear(to, x, w, b), {"gru": 3, "lst": 4, "rnn": 1}[name[:3]]
        wide = y.shape[-1] // count
        return [to.slice(y, len(y.shape) - 1, k * wide, (k + 1) * wide) for k in range(count)]

    def do(op: str, *values: Value) -> Value:
        return to.pointwise(op, *values)

    state = to.filled(to.value(h), [to.value(input)])
    a, b = parts(input, w_ih, b_ih), parts(state, w_hh, b_hh)
    if name == "gru_cell":
        reset, update = (do("sigmoid", do("add", a[k], b[k])) for k in (0, 1))
        new = do("tanh", do("add", a[2], do("mul", reset, b[2])))
        return do("add", new, do("mul", update, do("sub", state, new)))
    gates = [do("add", *g) for g in zip(a, b)]
    if name != "lstm_cell":
        return do(name.split("_")[1], gates[0])
    i, f, o = (do("sigmoid", gates[k]) for k in (0, 1, 3))
    cell = do("add", do("mul", f, to.filled(to.value(more[0]), [state])), do("mul", i, do("tanh", gates[2])))
    return [do("mul", o, do("tanh", cell)), cell]


# -- norms


@_lowers(
    "batch_norm",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit",
    "native_batch_norm",
    "cudnn_batch_norm",
)
def _batch_norm(to: _Lowering, input: Any, weight: Any, bias: Any, running_mean: Any = None, running_var: Any = None,
                training: bool = True, momentum: float | None = 0.1, eps: float = 1e-5, **_: Any) -> Any:  # fmt: skip
    x = to.value(input)
    names = [
        None if v is None else to.of(v).get("name", "") for v in (weight, bias, running_mean, running_var)
    ]
    stored = names[2] is not None
    live = training or (not to.training and names[2] not in to.frozen)
    if stored and live:
        if x.rows != "vertices" or x.axis or len(x.shape) != 1:
            raise _No(
                "batch norm of other rows than those of vertices: normalise after the aggregation, or by nn.LayerNorm"
            )
        counter = str(names[2]).removesuffix("running_mean") + "num_batches_tracked"
        given = dict(zip(("weight", "bias", "mean", "variance", "batches"), (*names, counter)))
        result = to.emit(
            "batch_norm",
            [x],
            "vertices",
            x.shape,
            eps=eps,
            momentum=momentum,
            **{k: v for k, v in given.items() if v},
        )
    else:
        to.frozen |= {str(names[2])} if stored else set()
        result = _normalised(to, x, 1, weight, bias, eps, running_mean if stored else None, running_var)
    return [result, None, None, None, None] if isinstance(to.node.meta["val"], (list, tuple)) else result


@_lowers("instance_norm")
def _instance_norm(to: _Lowering, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool,
                   momentum: float, eps: float, **_: Any) -> Any:  # fmt: skip
    if running_mean is not None:
        raise _No("instance norm with running statistics: give track_running_stats=False")
    return _normalised(to, to.value(input), 1, weight, bias, eps, None, None)


def _normalised(
    to: _Lowering, x: Value, channel: int, weight: Any, bias: Any, eps: float, mean: Any, variance: Any
) -> Value:
    """By the mean and variance of each channel, or given ones."""
    shape = [1] * x.dim

    def spread(v: Any) -> Value:
        shape[channel] = v.shape[0]
        return to.reshape(v, shape)

    if mean is None:
        over = [d for d in range(x.dim) if d != channel and (d != 0 or x.dim == 2 or x.axis == 0)]
        rows, columns = to.dims(x, over)
        mean = to.kept(x, rows, columns, x)
        variance = to.kept(to.pointwise("square", to.pointwise("sub", x, mean)), rows, columns, x)
    else:
        mean, variance = spread(mean), spread(variance)
    out = to.pointwise("sub", x, mean)
    out = to.pointwise("mul", out, to.pointwise("rsqrt", to.pointwise("add", variance, to.constant(eps))))
    out = out if weight is None else to.pointwise("mul", out, spread(weight))
    return out if bias is None else to.pointwise("add", out, spread(bias))


@_lowers("group_norm")
def _group_norm(to: _Lowering, input: Any, num_groups: int, weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    x = to.value(input)
    if x.rows is None or x.axis:
        raise _No("group norm over the vertices: use GraphNorm, or normalise the last dimensions")
    parts = to.reshape(x, (num_groups, x.shape[0] // num_groups * math.prod(x.shape[1:])))
    out = to.reshape(to.emit("layer_norm", [parts], x.rows, parts.shape, dims=[1], eps=eps), x.shape)
    for name, v in (("mul", weight), ("add", bias)):
        out = out if v is None else to.pointwise(name, out, to.reshape(v, (*v.shape, *(1,) * (len(x.shape) - 1))))
    return out


@_lowers("layer_norm", "native_layer_norm")
def _layer_norm(
    to: _Lowering,
    input: Any,
    normalized_shape: list[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    **_: Any,
) -> Any:
    x = to.value(input)
    last = len(normalized_shape)
    if x.rows is not None and x.axis >= x.dim - last:
        raise _No("layer norm over the vertices: use GraphNorm, or normalise the last dimensions")
    more = [to.value(v) for v in (weight, bias) if v is not None]
    if bias is not None and weight is None:
        raise _No("layer norm with a bias and no weight")
    dims = list(range(len(x.shape) - last, len(x.shape)))
    out = to.emit("layer_norm", [x, *more], x.rows, x.shape, x.axis, dims=dims, eps=eps)
    return [out, None, None] if isinstance(to.node.meta["val"], (list, tuple)) else out


# ---- small things -----------------------------------------------------------------------------------------

_NUMBER = {"div": torch.div, "where": lambda c, x, y: x if c else y, "and": torch.logical_and, "or": torch.logical_or, "not": torch.logical_not, "leaky_relu": nn.functional.leaky_relu,
           "elu": nn.functional.elu, "gelu": nn.functional.gelu, "softplus": nn.functional.softplus, "silu": nn.functional.silu,
           "logsigmoid": nn.functional.logsigmoid}  # fmt: skip


def _arguments(attributes: dict[str, Any]) -> dict[str, Any]:
    return {{"slope": "negative_slope"}.get(k, k): v for k, v in attributes.items()}


def _every(*nested: Any) -> list[Any]:
    found: list[Any] = []
    for v in nested:
        found += (
            _every(*(v.values() if isinstance(v, dict) else v)) if isinstance(v, (list, tuple, dict)) else [v]
        )
    return found


def _named(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Operands by their names in the schema, with those that change a value."""
    named = dict(zip((a.name for a in schema.arguments), args)) | kwargs
    for a in schema.arguments:
        if a.name not in named and a.has_default_value():
            named[a.name] = a.default_value
    for name in (
        "dtype",
        "layout",
        "device",
        "pin_memory",
        "memory_format",
        "non_blocking",
        "copy",
        "half_to_float",
        "out_int32",
    ):
        named.pop(name, None)
    return named


def _range(bounds: Sequence[Any], size: int) -> tuple[int, int]:
    start, stop, _ = slice(*(None if b is None else int(b) for b in (*bounds, None, None)[:2])).indices(size)
    return start, max(start, stop)


def _order(name: str, named: dict[str, Any], dim: int) -> list[int]:
    order = list(range(dim))
    if name == "permute":
        return [d % dim for d in named["dims"]]
    if name == "movedim":
        raise _No("movedim is not among a program's operations: use permute or transpose")
    a, b = (0, 1) if name == "t" else [named[k] % dim for k in named if k.startswith(("dim", "axis"))]
    if dim > 1:
        order[a], order[b] = order[b], order[a]
    return order


def _sizes(meta: Any) -> Sequence[Any]:
    return (meta[0] if isinstance(meta, (list, tuple)) else meta).shape  # type: ignore[no-any-return]


def _path(node: Any) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return next((str(path) for path, _ in reversed(stack.values())), "").removeprefix("of").removeprefix(".")


def _line(node: Any) -> str:
    """The last line that is the user's own, or else the last line."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in .*\n\s*(.*)', node.meta.get("stack_trace") or "")
    own = [f for f in frames if not _PRIVATE.search(f[0])] or frames
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}: {own[-1][2].strip()}" if own else ""


# ---- from a module ----------------------------------------------------------------------------------------


def trace(
    module: nn.Module, *, features: int, edge_features: int | None = None, edge_weight: bool = False, vertices: int | None = None
) -> Program:
    """The program of a module that is called as module(x, edge_index) or, if it is over DGL, as module(graph, x).

    The graph has features numbers a vertex, edge_features a edge, if any, and perhaps edge weights, which
    forward gets where it names edge_attr and edge_weight. Raises Refused with the line of the module's
    source, the reason, and what to write in its place.
    """
    if not isinstance(module, nn.Module):
        raise Refused(f"model: {type(module).__name__} is no torch.nn.Module: give a module, or the name of a model")
    kind = next((p.dtype for p in module.parameters() if p.dtype.is_floating_point), torch.float32)
    v, e = min(vertices or _VERTICES, 1_000_000), _EDGES
    given = {"x": torch.zeros(v, features, dtype=kind), "edge_index": torch.arange(2 * e).view(2, e) % v}
    given |= {"edge_attr": torch.zeros(e, edge_features, dtype=kind)} if edge_features else {}
    given |= {"edge_weight": torch.ones(e, dtype=kind)} if edge_weight else {}
    called = _Called(module, given)
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
        with _quiet(), torch.no_grad():  # lazy layers take their sizes from a first call
            called(**given)
    trained = _lower(called, True, set())
    evaluated = _lower(called, False, trained[0].frozen)
    program = _program(module, *trained)
    _same_in_evaluation(trained, evaluated)
    return program


class _Called(nn.Module):  # type: ignore[misc]
    """A module with what its forward is called with: tensors of a graph by their names, or a graph that holds them."""

    def __init__(self, module: nn.Module, given: dict[str, Tensor]) -> None:
        super().__init__()
        self.of, self.given = module, given
        every = inspect.signature(module.forward).parameters.values()
        free = [p for p in every if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.dgl = bool(free) and (free[0].name in _GRAPHS or "DGLGraph" in str(free[0].annotation))
        self.data = not self.dgl and len(free) == 1 and free[0].name != "x"
        order = ["graph", "x"] if self.dgl else ["data"] if self.data else ["x", "edge_index"]
        self.names = {p.name: p.name for p in free if p.name in given} | dict(zip((p.name for p in free), order))
        if self.dgl:
            self.names |= {p.name: weft for p in free[2:] for weft, names in _EDGES_OF_DGL.items() if p.name in names and weft in given}
        for p in free:
            if p.default is not p.empty or p.name in self.names:
                continue
            if p.name in ("edge_attr", "edge_weight"):
                raise Refused(f"model: forward takes {p.name}, which the graph lacks: give {p.name}")
            raise Refused(f"model: forward takes {p.name}: weft gives x, edge_index, edge_attr and edge_weight, by these names")

    def forward(self, graph: Any = None, **tensors: Tensor) -> Any:
        whole = tensors | {"graph": graph, "data": _data(tensors) if self.data else None}
        return self.of(**{name: whole[of] for name, of in self.names.items()})


_GRAPHS = ("graph", "g", "block", "blocks", "bg")
_EDGES_OF_DGL = {
    "edge_weight": ("edge_weight", "eweight", "weight"),
    "edge_attr": ("edge_feat", "edge_feats", "edge_attr", "efeat", "efeats", "pseudo"),
}


def _data(tensors: dict[str, Tensor]) -> Any:
    from torch_geometric.data import Data

    return Data(**tensors)


def _lower(called: _Called, training: bool, frozen: set[str]) -> tuple[_Lowering, Value]:
    """The operations of a module in training, or in evaluation."""
    tensors = {id(t): t for t in (*called.parameters(), *called.buffers())}
    own = copy.deepcopy(called, tensors).train(training)
    graph, inputs = _exported(own)
    to = _Lowering({}, _said_of)
    for to.node in graph.nodes:
        to.possible()
    rows = {"x": "vertices", "edge_index": "stored", "edge_attr": "stored", "edge_weight": "stored"}
    sizes = {}
    for node, kind in inputs.items():
        if kind in called.given:
            size = node.meta["val"].shape[int(kind == "edge_index")]
            if isinstance(size, int):
                raise Refused(
                    "model: forward works for one number of vertices or edges alone: take sizes from x.size(0), and give "
                    "a table with a row for each vertex, as an embedding is, as features"
                )
            sizes[size.node.expr] = rows[kind]
    v, e = (next((k for k, r in sizes.items() if r == of), sympy.Symbol(of)) for of in ("vertices", "stored"))
    to.rows = {v: "vertices", **sizes, sympy.expand(v + e): "added"}
    to.training, to.frozen = training, set(frozen)
    names, buffers = _canonical(called.of), dict(own.named_buffers())
    for node, kind in inputs.items():
        if isinstance(kind, Tensor):
            to.env[node] = kind
        elif kind == "edge_index":
            to.env[node] = Edges("stored")
        elif kind in called.given:
            rows_, shape, _ = to.layout(node)
            op, shapes = {"x": ("features", {"shape": list(shape)}), "edge_attr": ("edge_features", {"shape": list(shape)})}.get(kind, (kind, {}))
            to.env[node] = to.emit(op, (), rows_, shape, **shapes)
        elif (name := kind.removeprefix("of.")) in names:
            to.env[node] = to.emit("parameter", (), None, node.meta["val"].shape, name=names[name])
        else:  # a buffer that is not saved
            to.env[node] = buffers[kind].detach().clone()
    output = to.run(graph)
    output = output[0] if isinstance(output, (list, tuple)) and len(output) == 1 else output
    if isinstance(output, Value) and isinstance(output.rows, tuple):
        raise Refused("model: forward returns some of the vertices: return the logits of all; train_mask says which count")
    if not isinstance(output, Value) or output.rows != "vertices" or output.axis or len(output.shape) > 1:
        raise Refused("model: forward returns something else than one tensor of vertices × classes: return the logits of all vertices, and nothing else")
    return to, output


def _canonical(module: nn.Module) -> dict[str, str]:
    """The first name of each tensor in the state_dict, by all its names."""
    first: dict[Any, str] = {}
    names = {}
    for name, t in module.state_dict(keep_vars=True).items():
        if isinstance(t, Tensor):
            names[name] = first.setdefault((t.data_ptr(), t.shape, t.stride()) if t.numel() else id(t), name)
    return names


def _exported(called: _Called) -> tuple[Any, dict[Any, Any]]:
    """The graph of ATen's operations, and what its inputs are: names of the state or of what is given, or a constant."""
    apply = torch.autograd.Function.__dict__["apply"]
    with _quiet():
        try:
            torch.autograd.Function.apply = classmethod(_own_gradient)
            if called.dgl:
                from . import _dgl

                return _dgl.exported(called, called.given)
            varies = {name: {int(name == "edge_index"): torch.export.Dim.AUTO} for name in called.given}
            shapes = {"tensors": varies}
            exported = torch.export.export(called, (), called.given, dynamic_shapes=shapes, strict=False)
        except Exception as error:  # whatever the module raises
            raise _why(error, called.names) from None
        finally:
            torch.autograd.Function.apply = apply
    signature = exported.graph_signature
    kinds = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **dict(zip(signature.user_inputs, called.given))}
    kinds |= {k: exported.constants[name].clone() for k, name in signature.inputs_to_lifted_tensor_constants.items()}
    return exported.graph, {n: kinds[n.name] for n in exported.graph.nodes if n.op == "placeholder" and n.name in kinds}


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
        yield
    logging.disable(level)


def _own_gradient(function: Any, *_: Any) -> None:
    raise _No(
        f"{function.__name__} has a gradient of its own: write it by plain operations (checkpoint: use_reentrant=False)"
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
    own = [f for f in frames if not _PRIVATE.search(f.filename)] or [
        f for f in frames if "/torch_geometric/nn/" in f.filename
    ]
    at = (
        f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}: {(own[-1].line or '').strip()}: "
        if own
        else ""
    )
    if isinstance(error, _No):
        return Refused(f"model: {at}{error}")
    if any(".max()) + 1" in (f.line or "") for f in frames):
        return Refused(f"model: {at}the number of vertices is found from the largest in edge_index: give num_nodes=x.size(0), as in softmax(src, index, num_nodes=x.size(0)), and make other edges (to_undirected) before training")
    if "must match the size" in text and re.search(r"\(s\d+\)", text):
        return Refused(f"model: {at}a table of a fixed number of rows meets all vertices: give the table's rows as features, x")
    if "data-dependent" in text or "DataDependent" in kind or "Pending unbacked" in kind:
        return Refused(
            f"model: {at}forward's course, or a size, depends on values: write a comparison and torch.where, and take sizes from x.size(0)"
        )
    if "Constraints violated" in text or "specialized" in text:
        return Refused(
            "model: forward works for one number of vertices or edges alone: take sizes from x.size(0), not from numbers that the module holds"
        )
    return Refused(
        f"model: {at}{kind}: {' '.join(text.split())[:300]}; weft calls module({', '.join(given)})"
    )


def _said_of(node: Any) -> str:
    line = _line(node)
    return f"{line}: " if line else ""


def _program(module: nn.Module, to: _Lowering, output: Value) -> Program:
    """Without operations that nothing uses."""
    used: set[int] = set()
    left = [output.op]
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
    names = {o["name"] for o in operations if o["op"] == "parameter"}
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
    text = json.dumps(
        {
            "version": 1,
            "class": type(module).__name__,
            "parameters": parameters,
            "operations": operations,
            "output": number[output.op],
        }
    )
    arrays = {
        n: t.detach().cpu().to(torch.float32).numpy() for n, t in state.items() if canonical.get(n) == n
    }
    return Program(text, arrays)


def _same_in_evaluation(trained: tuple[_Lowering, Value], evaluated: tuple[_Lowering, Value]) -> None:
    """In evaluation a program does the same, without dropout."""
    differs = "forward does other operations in evaluation than in training: dropout and batch norm alone may differ"
    (a, x), (b, y) = trained, evaluated
    left, done = [(x.op, y.op)], set()
    while left:
        if (pair := left.pop()) in done:
            continue
        done.add(pair)
        one, two = a.operations[pair[0]], b.operations[pair[1]]
        if two["op"] == "dropout":
            raise Refused(
                f"model: {two.get('line', '')}: dropout stays on in evaluation: write F.dropout(x, p, training=self.training)"
            )
        if one["op"] == "dropout":
            left.append((one["in"][0], pair[1]))
            continue
        if any(one.get(k) != two.get(k) for k in (one | two) if k not in ("in", "path", "line")) or len(
            one.get("in", ())
        ) != len(two.get("in", ())):
            raise Refused(f"model: {one.get('line', '')}: {differs}")
        left += zip(one.get("in", ()), two.get("in", ()))
