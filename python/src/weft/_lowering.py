"""From a graph of ATen's operations to those of a program.

`Lowering` goes through the nodes that torch.export has written down, and knows of each value whether its rows are
vertices, edges or neither. `_aten` has a function for each operation that is not the same in both.
"""

from __future__ import annotations

import functools
import math
import operator
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import Tensor, nn

from ._errors import Refused
from ._library import is_library_file
from ._operations import (
    WITH_LOOPS,
    Builder,
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
    kind_of,
    of_pairs,
)

LOWERED: dict[str, Callable[..., Any]] = {}


def lowers(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        LOWERED.update(dict.fromkeys(names, function))
        return function

    return put


def named(words: str) -> dict[str, str]:
    """Words by other names of theirs: of name:word, or of a name that is the word."""
    pairs = (word.partition(":") for word in words.split())
    return {name: word or name for name, _, word in pairs}


_KEEPS = set("detach alias contiguous to lift_fresh type_as".split())
_VIEWS = set("view view_as _unsafe_view reshape reshape_as _reshape_alias unsqueeze squeeze flatten unflatten".split())
_MOVES = set("permute transpose t swapaxes movedim".split())
_SHAPED = _VIEWS | _MOVES | {"expand", "expand_as"}
ALIASES = _KEEPS | _SHAPED | {"slice", "select"}
_NOTHING = {"_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size"}

# What no program has: what it is, and what to write in its place.
_REFUSED = {
    name: why
    for names, why in (
        (
            "randperm multinomial rrelu_with_noise alpha_dropout feature_dropout poisson",
            "draws random numbers by a distribution that weft lacks: write it by torch.rand_like, torch.randn_like, "
            "torch.bernoulli or nn.Dropout",
        ),
        (
            "sort argsort topk kthvalue median nanmedian unique _unique2 unique_consecutive unique_dim "
            "searchsorted bucketize cumsum cumprod cummax cummin repeat_interleave",
            "orders, ranks or accumulates rows: aggregate a vertex's edges by sum, mean, max, min, mul or "
            "softmax, and make other edges (to_undirected, coalesce) before training",
        ),
        (
            "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu "
            "_native_multi_head_attention cdist _cdist_forward pdist",
            "compares all pairs of vertices, which takes memory and time of their square: attend over "
            "edges, by propagate",
        ),
        (
            "argmax argmin nonzero_static masked_select",
            "gives positions, which depend on the values: write a comparison and torch.where",
        ),
        (
            "_sparse_mm sparse_coo_tensor _sparse_coo_tensor_unsafe to_sparse spmm "
            "_sparse_csr_tensor_unsafe sparse_csr_tensor",
            "makes a sparse matrix: give edge_index to propagate",
        ),
        (
            "linalg_inv_ex linalg_solve _linalg_svd _linalg_eigh linalg_qr inverse",
            "is linear algebra that no program has: compute it before training, as features",
        ),
    )
    for name in names.split()
}


# Operations that draw a number for each element.
DRAWS = set("rand rand_like randn randn_like bernoulli uniform normal normal_functional exponential randint randint_like".split())
DRAWS_NO_ROWS = "draws random numbers of no rows: draw them for rows of vertices or edges, as torch.rand_like(x)"

# Why forward may not change what a module keeps.
KEEPS = "of what a module keeps from call to call weft has the statistics of batch norm alone, and in training buffers that count steps; change it outside of forward, between trainings"


class Lowering(Builder):
    """Goes through the nodes of a graph of ATen. env has what each node is."""

    def __init__(self, rows: dict[sympy.Expr, Rows], said: Callable[[Any], str]) -> None:
        super().__init__()
        self.rows = rows  # what the symbols of sizes count
        self.joined: dict[sympy.Expr, tuple[Rows, ...]] = {}  # and those of several edge sets
        self.numbers: dict[sympy.Expr, Value] = {}  # and those that are values of tensors
        self.sizes: dict[sympy.Expr, int] = {}  # and those that masks of the module say
        self.env: dict[Any, Any] = {}
        self.views: dict[Any, list[Any]] = {}
        self.node: Any = None
        self.said = said
        self.state: dict[Any, str] = {}  # names of what the module keeps, by the nodes that are it
        self.given: dict[Any, str] = {}  # and of what forward is called with
        self.outer: dict[Any, Any] = {}  # nodes by those that stand for them in a block
        self.drawn: dict[str, int] = {}  # how often each layer draws
        self.training, self.frozen = True, set[str]()
        self.draws = False  # it may draw random numbers
        self.updates: dict[str, Any] = {}  # what a step of training makes of buffers, by their names
        self.counters = set[str]()  # the buffers that it may change
        self.precisions: set[torch.dtype] = set()  # of what forward is given

    @property
    def name(self) -> str:
        """The operation's name, also of the one that writes in place."""
        name: str = self.node.target._schema.name.split("::")[1]
        return name if name.endswith("__") else name.removesuffix("_")

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
        inside = [n for n in inner.nodes if n.op == "placeholder"]
        self.env.update(zip(inside, given))
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
            if any(isinstance(a, _LOWERED) for a in every(args, kwargs)):
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
        """A name for a mask, or other random numbers, of a layer: another for each call."""
        self.drawn[path] = self.drawn.get(path, 0) + 1
        return path if self.drawn[path] == 1 else f"{path}#{self.drawn[path]}"

    def possible(self) -> None:
        """Refuses by name what no program has."""
        if isinstance(self.node.target, torch._ops.OpOverload) and (why := _REFUSED.get(self.name)):
            raise self.no(f"{self.name.lstrip('_')} {why}")

    def lowered(self, node: Any, args: Any, kwargs: Any) -> Any:
        size = self.parted(node, args, kwargs)
        if size is not None:
            return self.by_part(size, node, args, kwargs)
        self.exact(node)
        if self.name in _PLACES | _COMPARES and any(isinstance(a, Ends) and a.first for a in every(args, kwargs)):
            raise Unlowerable(_SHIFTED)
        name, named = self.name, operands(node.target._schema, args, kwargs)
        x = next(iter(named.values()), None)
        if isinstance(x, Fill) and name in ("slice", "select"):
            return Fill(x.number, *self.layout())
        if name in LOWERED:
            return self.checked(LOWERED[name](self, **named))
        return self.checked(self.shaped(name, x, named) if name in _SHAPED else self.expanded(node))

    def exact(self, node: Any) -> None:
        """Refuses numbers that float32 does not hold as PyTorch's type does: what rounds, wraps, or works on bits."""
        made = node.meta["val"]
        made = made[0] if isinstance(made, (list, tuple)) else made
        kind, name = getattr(made, "dtype", torch.float32), self.name
        if kind in _ROUNDED and kind not in self.precisions:
            raise Unlowerable(f"{name} gives {_said(kind)}, which rounds: leave it out, and give precision='bf16'")
        if kind.is_floating_point or kind == torch.bool or name in _SHAPED or name in ALIASES - _KEEPS:
            return
        if name in _BITS:
            raise Unlowerable(
                f"{name.strip('_')} works on the bits of whole numbers: compare, and write logical_and, logical_or or "
                "logical_not"
            )
        given = {n.meta["val"].dtype for n in node.all_input_nodes if isinstance(n.meta.get("val"), Tensor)}
        if kind in _WRAPS and (name in _WRAPPING or name in _CASTS and given - {torch.bool, kind}):
            raise Unlowerable(f"{name.strip('_')} gives {_said(kind)}, whose numbers wrap: write .long()")

    def parted(self, node: Any, args: Any, kwargs: Any) -> sympy.Expr | None:
        """The size of the edges of several sets that an operation is done on, if it is."""
        if self.name in _MAKES:
            return next((e for e in free_sizes(node) if e in self.joined and e not in self.rows), None)
        size = next((a.size for a in every(args, kwargs) if isinstance(a, Parts)), None)
        longer = size is not None and self.name in ("cat", "concat") and size not in free_sizes(node)
        return None if longer else size

    def by_part(self, size: sympy.Expr, node: Any, args: Any, kwargs: Any) -> Any:
        """An operation on rows of several sets: on each, and what aggregates goes on with what came before."""
        if self.name in _MAKES:  # of what has their type
            args = torch.utils._pytree.tree_map_only(Parts, lambda p: p.of[0], args)
        every_part = [a for a in every(args, kwargs) if isinstance(a, Parts)]
        several = every_part[0].rows if every_part else self.joined[size]
        if self.name.endswith(("batch_norm", "instance_norm")):
            raise Unlowerable(
                "a batch norm over rows of several sets at once: give each set one of its own, or write nn.LayerNorm"
            )
        if self.name in _PLACES and len({a.size for a in every_part}) > 1:
            return self.between_types(node, args, kwargs)
        if self.name in _SPLITS and self.of_rows(args):
            return self.split(node, args[0])
        if any(a.size != size or a.rows != several for a in every_part):
            raise Unlowerable("edges of several sets meet others: join both in the same order")
        if self.name == "index" and (masks := [a for a in every_part if all(isinstance(m, Fill) for m in a.of)][-1:]):
            if self.is_mask(masks[0], args[1]):
                return self.of_some_sets(masks[0], node, args)
        aggregates = self.name in _AGGREGATES
        args, kwargs, finished = self.from_least(node, args, kwargs) if aggregates else (args, kwargs, None)
        known = dict(self.rows)
        made: list[Any] = []
        for k, rows in enumerate(several):
            self.rows[size] = rows
            of = torch.utils._pytree.tree_map_only(Parts, lambda p, k=k: p.of[k], (args, kwargs))
            if aggregates and k:
                of = ((made[-1], *of[0][1:]), of[1])
            made.append(self.lowered(node, *of))
        self.rows = known
        if finished:
            return finished(made[-1])
        lists = made if isinstance(made[0], (list, tuple)) else [[m] for m in made]
        results = []
        for parts in zip(*lists):
            result = Parts(parts, next((e for e in free_sizes(node) if e not in known), size))
            if None in result.rows and not isinstance(parts[0], Chosen):
                combined = {"sum": "add", "max": "maximum", "amax": "maximum", "min": "minimum", "amin": "minimum"}
                if self.name not in combined:
                    raise Unlowerable(f"{self.name} over edges of several sets: aggregate to vertices first")
                return functools.reduce(functools.partial(self.elementwise, combined[self.name]), made)
            self.joined.setdefault(result.size, result.rows)
            results.append(result)
        return results if isinstance(made[0], (list, tuple)) else results[0]

    def between_types(self, node: Any, args: Any, kwargs: Any) -> Parts:
        """Rows of vertices of several types, read or aggregated by the ends of edges of several sets."""
        of, ends = args[0], next((a for a in every(args[1:], kwargs) if isinstance(a, Parts)), args[0])
        if not isinstance(of, Parts) or not all(isinstance(e, Ends) for e in ends.of):
            raise Unlowerable("rows of several sets meet those of others: join both in the same order")
        sizes = [self.size_of(rows) for rows in of.rows]
        starts = [sympy.expand(sympy.Add(*sizes[:k])) for k in range(len(sizes))]
        if not {e.first for e in ends.of} <= set(starts):
            raise Unlowerable(_SHIFTED)
        known, made = dict(self.rows), []

        def call(part: Any, sets: list[int]) -> Any:
            """With one of the types, and some of the edge sets in the place of all."""

            def chosen(p: Parts) -> Any:
                if p is of:
                    return part
                those = (p.of[k] for k in sets)
                return Parts(tuple(replace(e, first=sympy.S.Zero) if isinstance(e, Ends) else e for e in those), p.size)

            return self.by_part(ends.size, node, *torch.utils._pytree.tree_map_only(Parts, chosen, (args, kwargs)))

        if self.name in _AGGREGATES:
            for start, part in zip(starts, of.of):
                self.rows[of.size] = part.rows
                sets = [k for k, e in enumerate(ends.of) if e.first == start]
                made.append(call(part, sets) if sets else part)
        else:
            for k, e in enumerate(ends.of):
                made += call(of.of[starts.index(e.first)], [k]).of
        self.rows = known
        return Parts(tuple(made), of.size if self.name in _AGGREGATES else ends.size)

    def of_rows(self, args: Any) -> bool:
        """Whether an operation on rows of several sets is along these."""
        dim = operands(self.node.target._schema, args, {})["dim"]
        of = self.node.args[0].meta["val"].shape
        return isinstance(args[0], Parts) and not isinstance(of[dim], int)

    def split(self, node: Any, x: Parts) -> list[Any]:
        """The rows of several sets, each of them by itself."""
        sizes = [sympy.expand(s.node.expr) for made in node.meta["val"] for s in made.shape if not isinstance(s, int)]
        if sizes != [self.size_of(rows) for rows in x.rows]:
            raise Unlowerable("rows of several sets are split otherwise than between these: split them as they were joined")
        return list(x.of)

    def of_some_sets(self, mask: Parts, node: Any, args: Any) -> Any:
        """What those of several sets have of which a mask is true in each row, as of one type of edges."""
        if not isinstance(args[0], Parts):
            raise Unlowerable("a mask of edges of several sets chooses among others")
        (size,) = free_sizes(node)
        kept = tuple(of for of, m in zip(args[0].of, mask.of) if m.number)
        if not kept:  # those of the first set, of which none counts
            return self.lowered(node, (args[0].of[0], [i and self.value(mask.of[0]) for i in args[1]]), {})
        if len(kept) > 1:
            made = Parts(kept, size)
            self.joined.setdefault(size, made.rows)
            return made
        self.rows[size] = kept[0].rows
        return kept[0]

    def from_least(self, node: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
        """The largest and smallest of several sets begin at one that no value has, of which they are cleared."""
        named = operands(node.target._schema, args, kwargs)
        least = {"amax": -(2.0**127), "amin": 2.0**127}.get(named.get("reduce", ""))  # as rows of bfloat16 hold it
        if named.get("include_self", True) or named["reduce"] not in ("amax", "amin", "mean"):
            return args, kwargs, lambda out: out
        if least is None:
            raise Unlowerable("a mean over edges of several sets: divide their sum by their number")
        begin = Fill(least, *self.layout())

        def cleared(out: Any) -> Any:
            none = self.pointwise("eq", out, self.constant(least))
            return self.elementwise("where", none, named["self"], out)

        return (begin, *args[1:]), kwargs | {"include_self": True}, cleared

    def expanded(self, node: Any) -> Any:
        """An operation that is several others, by PyTorch's own definition."""
        from torch._decomp import core_aten_decompositions
        from torch.fx.experimental.proxy_tensor import make_fx

        table, target = core_aten_decompositions(), node.target
        nodes = [n for n in node.all_input_nodes if isinstance(n.meta["val"], Tensor)]

        def do(*tensors: Any) -> Any:
            values = dict(zip(nodes, tensors))
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: values.get(n, n.meta["val"]))
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
        for inner, of in zip(graph.nodes, nodes):
            self.env[inner] = self.env[of]
        for inner in graph.nodes:
            inner.meta |= {k: node.meta.get(k) for k in ("stack_trace", "nn_module_stack")}
        result = self.run(graph)
        self.node, self.where = node, where
        return result

    def no(self, why: str) -> Refused:
        return Refused(f"model: {self.said(self.node)}{why}")

    def scalar(self, node: Any, meta: Any) -> Any:
        """A size, or what Python makes of sizes and of tensors' numbers."""
        expression = meta.node.expr
        if not expression.free_symbols:
            return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(meta)](expression)
        if isinstance(node.target, torch._ops.OpOverload) and self.name in ("item", "_local_scalar_dense"):
            of = self.env[node.args[0]]
            if isinstance(of, Ends):  # max of all numbers of vertices, by PyG's maybe_num_nodes
                self.rows[expression + 1] = self.at(of.rows, of.end)
            elif isinstance(of, Value):
                self.numbers[expression] = self.emit("detach", [of], of.rows, of.shape)
        return Number(expression)

    # -- what a node is

    def layout(self, node: Any = None) -> tuple[Rows, tuple[int, ...], int]:
        """Rows, shape and axis by the sizes that PyTorch has found."""
        made = (node or self.node).meta["val"]
        sizes = [self.size(n) for n in (made[0] if isinstance(made, (list, tuple)) else made).shape]
        free = [d for d, n in enumerate(sizes) if not isinstance(n, int) and n.node.expr.free_symbols]
        shape = tuple(int(n) for d, n in enumerate(sizes) if d not in free)
        if not free:
            return None, shape, 0
        if len(free) > 1:
            raise Unlowerable(of_pairs(self.rows.get(sizes[d].node.expr) for d in free))
        return self.counted(sizes[free[0]]), shape, free[0]

    def size(self, n: Any) -> Any:
        """A size of PyTorch's, as a number if it is known."""
        known = None if isinstance(n, int) or not self.sizes else n.node.expr.subs(self.sizes)
        return int(known) if known is not None and known.is_number else n

    def counted(self, size: Any) -> Rows:
        expression = sympy.expand(size.expression if isinstance(size, Number) else size.node.expr)
        count, each = expression.as_content_primitive()
        if expression not in self.rows and each in self.rows and count.is_Integer:
            return Flat(self.rows[each], int(count))
        if expression not in self.rows:
            raise Unlowerable(
                "a size depends on values or joins several edge sets: weft has all vertices, and all edges with or without self loops"
            )
        return self.rows[expression]

    def count(self, size: Any, rows: Rows) -> Rows:
        """Notes what a size that PyTorch knows nothing of counts."""
        self.rows[size.node.expr] = rows
        if kind_of(rows) in WITH_LOOPS:
            vertices = self.size_of(self.at(rows, "target"))
            self.rows[sympy.expand(size.node.expr + vertices)] = replace(rows, kind=WITH_LOOPS[rows.kind])
        return rows

    def size_of(self, rows: Rows) -> sympy.Expr:
        """How many rows there are, as a size."""
        return next(e for e, r in self.rows.items() if r == rows and e.is_Symbol)

    def checked(self, result: Any) -> Any:
        """A value has the sizes that PyTorch has found: a slip of this file is refused here, and trains nothing."""
        meta = self.node.meta.get("val")
        if isinstance(result, (Value, Fill)) and isinstance(meta, Tensor):
            rows, shape, axis = self.layout()
            result = result if result.rows is not None else replace(result, axis=0)
            of, wanted = (r if isinstance(r, Flat) else base_of(r) for r in (result.rows, rows))
            if (of, result.shape, result.axis) != (wanted, shape, axis):
                raise Unlowerable(
                    f"{self.node.target} became {result.rows} × {result.shape} instead of {rows} × {shape}: this is a fault of weft"
                )
        elif isinstance(meta, (list, tuple)) and not isinstance(result, (list, tuple)):
            return [result] + [None] * (len(meta) - 1)
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
            if kind_of(x.rows) not in ("one", "removed"):
                raise Unlowerable(
                    "stored self loops are told from other edges: remove them first, by remove_self_loops"
                )
            own = self.ones(self.at(x.rows, "target"))
            is_loop = self.full(Fill(0, replace(x.rows, kind="removed"), ()))
            if x.rows.kind == "one":
                is_loop = self.emit("with_loops", [is_loop, own], x.rows, ())
            return self.pointwise("not", is_loop) if x.inverse else is_loop
        if isinstance(x, Edges):
            raise Unlowerable(
                "edge_index, 2 × E, is used as values: make a matrix of it in forward, by "
                "torch.sparse_coo_tensor(edge_index, edge_weight, (n, n)) with n = x.size(0), or call propagate"
            )
        if isinstance(x, (Ends, Vertices)):
            raise Unlowerable(
                "numbers of vertices are used as values: only rows of vertices are read by them"
            )
        raise Unlowerable(f"{type(x).__name__} is not a value")

    def computed(self, e: sympy.Expr) -> Value:
        """A number of Python that depends on sizes."""
        if e in self.numbers:
            return self.numbers[e]
        if e.is_Number:
            return self.constant(float(e))
        rows = self.rows.get(sympy.expand(e))
        if rows is not None:
            if rows.kind == "vertices":
                return self.emit("vertices", (), None, (), **rows.named)
            return self.emit("row_sum", [self.scatter(self.ones(rows), "target", "sum")], None, ())
        parts = [self.computed(a) for a in e.args]
        if type(e).__name__ == "ToFloat":
            return parts[0]
        name = _OF_NUMBERS.get(type(e).__name__)
        if name is None or not parts:
            raise Unlowerable(
                f"a number is computed from sizes by {type(e).__name__}: use sums, products and quotients"
            )
        result = parts[0]
        for p in parts[1:]:
            result = self.pointwise(name, result, p)
        return self.pointwise("floor", result) if type(e).__name__ == "FloorDiv" else result

    def elementwise(self, name: str, *given: Any, **attributes: Any) -> Any:
        if name in ("eq", "ne") and len(given) == 2 and all(isinstance(v, Vertices) for v in given):
            raise Unlowerable("self loops are told from edges of several sets: add them after what looks for them")
        if name in ("eq", "ne") and len(given) == 2 and all(isinstance(v, Ends) for v in given):
            if given[0].rows != given[1].rows or given[0].end == given[1].end:
                raise Unlowerable("the ends of different edges are compared")
            return Loops(given[0].rows, inverse=name == "ne")
        if name == "not" and isinstance(given[0], Loops):
            return replace(given[0], inverse=not given[0].inverse)
        filled = any(isinstance(v, Fill) for v in given)
        numbers = [v.number if isinstance(v, Fill) else v for v in given]
        if filled and all(isinstance(v, (int, float)) or isinstance(v, Tensor) and v.numel() == 1 for v in numbers):
            done = _NUMBER.get(name) or getattr(torch, name)
            arguments = {{"slope": "negative_slope"}.get(k, k): v for k, v in attributes.items() if k != "strict"}
            number = done(*(torch.tensor(float(v), dtype=torch.float64) for v in numbers), **arguments)
            return Fill(float(number), *self.layout())
        rows = next((v.rows for v in given if isinstance(v, Value) and v.rows is not None), None)
        values = []
        for v in given:  # a number in every row is a constant, where another operand has the rows
            alone = isinstance(v, Fill) and rows == v.rows
            values.append(self.constant(torch.full((1,) * len(v.shape), v.number)) if alone else self.value(v))
        result = self.pointwise(name, *values, **attributes)
        if filled and isinstance(self.node.meta.get("val"), Tensor):
            result = self.expand(result, self.layout()[1])
        return result

    # -- views, and writing in place

    def shaped(self, name: str, x: Any, named: dict[str, Any]) -> Any:
        """A view: rows stay, and the row's columns get another shape."""
        if isinstance(x, (Ends, Loops, Chosen)):
            return x
        if isinstance(x, (Edges, Vertices)):
            if len(self.node.meta["val"].shape) == 2 and name == "expand" and isinstance(x, Vertices):
                return replace(x, pairs=True)
            if name in _MOVES:
                raise Unlowerable("edge_index is transposed: take its rows, edge_index[0] and edge_index[1]")
            return x
        rows, shape, axis = self.layout()
        if isinstance(x, Fill):
            return Fill(x.number, rows, shape, axis)
        x = self.value(x)
        if name in _MOVES:
            return self.moved(x, _order(name, named, x.dim))
        if name.startswith("expand"):
            if x.rows is None and rows is not None:
                x = self.filled(
                    self.reshape(x, (1,) * (len(shape) + 1 - len(x.shape)) + x.shape),
                    [Value(0, rows, shape, axis)],
                )
            x = self.reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape, axis)
            return self.expand(x, shape)
        if x.rows is not None and math.prod(x.shape[: x.axis]) != math.prod(shape[:axis]):
            raise Unlowerable(
                "a view mixes vertices or edges with columns: keep the first dimension, as in x.view(x.size(0), -1)"
            )
        if x.rows != rows:
            return self.regrouped(x, rows, shape, axis)
        return self.reshape(x, shape, axis)

    def moved(self, x: Value, order: list[int]) -> Value:
        """With PyTorch's dimensions in another order."""
        if x.rows is None:
            return self.permute(x, order)
        return self.permute(x, [d - (d > x.axis) for d in order if d != x.axis], order.index(x.axis))

    def assign(self, node: Any, result: Any) -> None:
        """Writes in place: the tensor that node is, what it is a view of, and all views of that."""
        if node.op == "call_function" and node.args and node in self.views.get(node.args[0], ()):
            self.assign(node.args[0], self.written(node, node.args[0], result))
            return
        if name := self.state.get(node):
            if name not in self.counters:
                raise Unlowerable(f"forward changes {name}: {KEEPS}")
            self.updates[name] = result
        if name := self.given.get(node):
            raise Unlowerable(
                f"forward writes into {name}, with which it is called again: begin with {name} = {name}.clone()"
            )
        self.env[node] = result
        self.again(node)
        if node in self.outer:
            self.assign(self.outer[node], result)

    def again(self, base: Any) -> None:
        current = self.node
        for view in self.views.get(base, ()):
            if view in self.env:
                if writes_first(view.target):
                    self.env[view] = self.env[base]
                else:
                    self.node = view
                    args, kwargs = torch.fx.node.map_arg((view.args, view.kwargs), lambda n: self.env[n])
                    self.env[view] = self.lowered(view, args, kwargs)
                self.again(view)
        self.node = current

    def written(self, view: Any, base: Any, new: Any) -> Any:
        """The base with new values in a view of it."""
        name = view.target._schema.name.split("::")[1]
        old = self.env[base]
        if isinstance(new, Ends) and isinstance(old, Edges) and name == "select":
            return self.with_end(old, view.args[2], new)
        if isinstance(new, Ends) and self.whole(view):
            return new
        if name in _KEEPS or writes_first(view.target):
            return new
        old, new = self.value(old), self.value(new)
        new = self.filled(new, [old])
        if name in _VIEWS:
            return self.reshape(new, old.shape, old.axis)
        if name in _MOVES:
            order = _order(name, operands(view.target._schema, view.args, view.kwargs), old.dim)
            return self.moved(new, [order.index(d) for d in range(old.dim)])
        if name in ("slice", "select"):
            _, dim, *rest = view.args
            dim = int(dim if name == "select" or len(view.args) > 1 else 0) % old.dim
            if name == "slice" and self.whole(view):
                return new
            at = self.column(old, dim, "some of the vertices or edges are written by their position")
            size = old.shape[at]
            start, stop = (rest[0] % size, rest[0] % size + 1) if name == "select" else bounds(rest, size)
            new = self.reshape(new, (*old.shape[:at], stop - start, *old.shape[at + 1 :]), old.axis)
            return self.cat([self.slice(old, at, 0, start), new, self.slice(old, at, stop, size)], at)
        raise Unlowerable(
            f"values are written through a view by {name}: make a new tensor by torch.cat or torch.where"
        )

    def with_end(self, edges: Edges, row: int, ends: Ends) -> Edges:
        """An edge_index with other numbers in one of its rows: those that it had, from another one on."""
        end = ("source", "target")[(row % 2) != edges.reverse]
        if (ends.rows, ends.end) != (edges.rows, end):
            raise Unlowerable("other ends are written into edge_index: make it anew by torch.stack")
        source, target = edges.first
        return replace(edges, first=(ends.first, target) if end == "source" else (source, ends.first))

    def is_mask(self, index: Value | Parts, indices: list[Any]) -> bool:
        node = self.node.args[1]
        return isinstance(node, (list, tuple)) and bool(
            node[indices.index(index)].meta["val"].dtype == torch.bool
        )

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

    def columns(self, x: Value, dims: Any, why: str) -> list[int]:
        """Which dimensions of a row PyTorch's are. Refuses, saying why, that of the rows."""
        rows, columns = self.dims(x, dims)
        if rows:
            raise Unlowerable(why)
        return columns

    def column(self, x: Value, dim: int, why: str) -> int:
        return self.columns(x, [dim], why)[0]


_OF_NUMBERS = named(
    "Add:add Mul:mul Pow:pow PowByNatural:pow FloatPow:pow FloatTrueDiv:div IntTrueDiv:div FloorDiv:div "
    "Max:maximum Min:minimum"
)
_NUMBER = {name: getattr(nn.functional, name) for name in "leaky_relu elu gelu softplus silu logsigmoid".split()}
_NUMBER |= {name: getattr(torch, "logical_" + name) for name in ("and", "or", "not")}
_NUMBER["where"] = lambda c, x, y: x if c else y
_LOWERED = Value, Fill, Edges, Ends, Vertices, Loops, Chosen, Number, Parts  # what is known while the module is traced alone


def writes_first(target: Any) -> bool:
    """Whether an operation writes in its first operand: batch norms write in others, their statistics."""
    of = target._schema.arguments[0].alias_info if target._schema.arguments else None
    return bool(of and of.is_write)


_MAKES = set("zeros ones full empty new_zeros new_ones new_full new_empty".split())
_AGGREGATES = set("scatter_add index_add scatter_reduce index_put".split())
_PLACES = _AGGREGATES | set("index_select index gather scatter".split())
_COMPARES = set("eq ne max".split())
_SPLITS = set("split split_with_sizes".split())
_SHIFTED = (
    "edge_index is shifted by another number than that of the first vertex of a type: join the rows of types in the "
    "order in which the ends are numbered"
)


def free_sizes(node: Any) -> list[sympy.Expr]:
    """The sizes of what a node makes that are no numbers."""
    made = node.meta["val"]
    sizes = (made[0] if isinstance(made, (list, tuple)) else made).shape
    return [sympy.expand(n.node.expr) for n in sizes if not isinstance(n, int) and n.node.expr.free_symbols]


def every(*nested: Any) -> list[Any]:
    found: list[Any] = []
    for v in nested:
        found += (
            every(*(v.values() if isinstance(v, dict) else v)) if isinstance(v, (list, tuple, dict)) else [v]
        )
    return found


_ROUNDED = {torch.float16, torch.bfloat16}
_WRAPS = {torch.uint8, torch.int8, torch.int16}
_WRAPPING = set("add sub rsub mul multiply neg pow square abs div divide floor_divide addcmul".split())
_CASTS = set("to _to_copy type_as copy".split())
_BITS = {f"bitwise_{of}" for of in ("not", "and", "or", "xor")} | set("__and__ __or__ __xor__ __lshift__ __rshift__".split())
_BITS |= {"lshift", "rshift", "bitwise_left_shift", "bitwise_right_shift"}


def _said(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


_OF_MEMORY = set("out dtype layout device pin_memory memory_format non_blocking copy half_to_float out_int32".split())


def operands(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Operands by their names in the schema, with those that change a value."""
    given = dict(zip((a.name for a in schema.arguments), args)) | kwargs
    known = [a for a in schema.arguments if a.name in given or a.has_default_value()]
    return {a.name: given.get(a.name, a.default_value) for a in known if a.name not in _OF_MEMORY}


def bounds(bounds: Sequence[Any], size: int) -> tuple[int, int]:
    start, stop, _ = slice(*(None if b is None else int(b) for b in (*bounds, None, None)[:2])).indices(size)
    return start, max(start, stop)


def _order(name: str, named: dict[str, Any], dim: int) -> list[int]:
    order = list(range(dim))
    if name == "permute":
        return [d % dim for d in named["dims"]]
    if name == "movedim":
        source, target = ([d] if isinstance(d, int) else d for d in (named["source"], named["destination"]))
        moved = {t % dim: s % dim for s, t in zip(source, target)}
        rest = iter(d for d in order if d not in moved.values())
        return [moved[d] if d in moved else next(rest) for d in order]
    a, b = (0, 1) if name == "t" else [named[k] % dim for k in named if k.startswith(("dim", "axis"))]
    if dim > 1:
        order[a], order[b] = order[b], order[a]
    return order


def path_of(node: Any) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return next((str(path) for path, _ in reversed(stack.values())), "").removeprefix("of").removeprefix(".")


# How often PyTorch computes in a step what is called from these files: backward again, or from its result and again.
_RECOMPUTES = {"torch/utils/checkpoint.py": 2, "torch_geometric/nn/models/rev_gnn.py": 3, "dgl/nn/pytorch/conv/grouprevres.py": 3}


def times_of(node: Any) -> int:
    """How often a step of training computes a node: batch norm counts each time."""
    trace = node.meta.get("stack_trace") or ""
    return max((times for file, times in _RECOMPUTES.items() if f'/{file}"' in trace), default=1)


def line_of(node: Any) -> str:
    """The last line that is the user's own, or else the last line."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in .*\n\s*(.*)', node.meta.get("stack_trace") or "")
    own = [f for f in frames if not is_library_file(f[0])] or frames
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}: {own[-1][2].strip()}" if own else ""
