"""ATen's operations in those of a program: tables, and functions of operands by the names of ATen's schema."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import Tensor, nn

from ._lowering import DRAWS, DRAWS_NO_ROWS, Lowering, bounds, free_sizes, lowers, named, times_of
from ._operations import (
    WITH_LOOPS,
    WITHOUT_LOOPS,
    Chosen,
    Edges,
    Ends,
    Fill,
    Loops,
    Number,
    Parts,
    Rows,
    Unlowerable,
    Value,
    Vertices,
    base_of,
    in_words,
    kind_of,
    of_pairs,
)

# -- element by element

# Operations that a program has, by ATen's names where they are others; operands of these names are attributes.
_POINTWISE = named(
    "neg abs sign exp log log1p expm1 sqrt rsqrt reciprocal square sin cos tanh sigmoid relu silu selu erf floor "
    "ceil atan atan2 fmod mul pow maximum minimum eq ne gt ge lt le where leaky_relu gelu softplus celu absolute:abs "
    "multiply:mul true_divide:div log_sigmoid:logsigmoid logical_not:not bitwise_not:not logical_and:and "
    "bitwise_and:and __and__:and logical_or:or bitwise_or:or __or__:or detach_copy:detach arctan:atan arctan2:atan2"
)
_ATTRIBUTES = named("negative_slope:slope approximate beta threshold alpha")

def _inside(do: Any, inside: Any, x: Any, other: Any) -> Any:
    """x where it is inside of bounds, and elsewhere another value, of which no gradient is."""
    return do("where", inside, x, do("detach", other))


def _softshrink(do: Any, x: Any, bound: float) -> Any:
    return do("where", do("le", do("abs", x), bound), 0.0, do("sub", x, do("mul", do("sign", x), bound)))


def _xlogy(do: Any, x: Any, y: Any) -> Any:
    """x·ln y, and 0 for 0·ln 0."""
    none = do("and", do("eq", x, 0), do("le", y, 0))
    return do("mul", x, do("log", do("where", none, 1.0, y)))


def _sinc(do: Any, x: Any) -> Any:
    small = do("lt", do("abs", x), 1e-20)
    safe = do("where", small, 1.0, x)
    return do("where", small, 1.0, do("div", do("sin", safe), safe))


def _hardtanh(do: Any, x: Any, low: float, high: float) -> Any:
    outside = do("or", do("le", x, low), do("ge", x, high))
    return do("where", outside, do("detach", do("clamp", x, min=float(low), max=float(high))), x)


def _sixth(do: Any, x: Any) -> Any:
    return do("mul", do("add", x, 3.0), 1 / 6)


def _hardsigmoid(do: Any, x: Any) -> Any:
    """relu6(x + 3)/6."""
    return do("mul", do("clamp", do("add", x, 3.0), min=0.0, max=6.0), 1 / 6)


def _hardswish(do: Any, x: Any) -> Any:
    """x·relu6(x + 3)/6. Its bounds are those of the installed PyTorch."""
    below, inside = ("lt", "le") if gradient_of(nn.functional.hardswish, -3.0) else ("le", "lt")
    middle = do("where", do(inside, do("abs", x), 3.0), x, 0.0)  # beyond, its square is too large
    rest = do("where", do(inside, x, 3.0), do("mul", middle, _sixth(do, middle)), x)
    return _inside(do, do("not", do(below, x, -3.0)), rest, do("mul", x, _hardsigmoid(do, x)))


def _remainder(do: Any, x: Any, y: Any) -> Any:
    rest = do("fmod", x, y)
    return do("where", _other_sign(do, rest, y), do("add", rest, y), rest)


def _other_sign(do: Any, x: Any, y: Any) -> Any:
    return do("and", do("ne", x, 0), do("ne", do("lt", x, 0), do("lt", y, 0)))


def _hypot(do: Any, x: Any, y: Any) -> Any:
    """Of the numbers divided by the larger one, so that no square is too large or too small."""
    most = do("detach", do("maximum", do("abs", x), do("abs", y)))
    most = do("where", do("and", do("gt", most, 0), do("lt", most, math.inf)), most, 1.0)
    squares = (do("square", do("div", v, most)) for v in (x, y))
    return do("mul", most, do("sqrt", do("add", *squares)))


def _known(do: Any, x: Any, y: Any, most: str, at_least: str) -> Any:
    """The largest or smallest of two, and of a number and NaN the number. A tie is the first one's before PyTorch 2.9."""
    if gradient_of(lambda x: torch.fmax(x, torch.zeros_like(x)), 0.0) == 1:
        return do("where", do("or", do(at_least, x, y), do("ne", y, y)), x, y)
    return do("where", do("ne", y, y), x, do("where", do("ne", x, x), y, do(most, x, y)))


# Those that are several of a program's.
_FORMULAS: dict[str, Callable[..., Any]] = {
    "mish": lambda do, x: do("mul", x, do("tanh", do("softplus", x))),
    "relu6": lambda do, x: _hardtanh(do, x, 0.0, 6.0),
    "hardtanh": _hardtanh,
    "hardsigmoid": lambda do, x: _inside(do, do("and", do("gt", x, -3.0), do("lt", x, 3.0)), _sixth(do, x), _hardsigmoid(do, x)),
    "hardswish": _hardswish,
    "exp2": lambda do, x: do("pow", 2.0, x),
    "ldexp": lambda do, x, exponent: do("mul", x, do("pow", 2.0, exponent)),
    "softshrink": _softshrink,
    "xlogy": _xlogy,
    "sinc": lambda do, x: _sinc(do, do("mul", x, math.pi)),
    "tan": lambda do, x: do("div", do("sin", x), do("cos", x)),
    "trunc": lambda do, x: do("mul", do("sign", x), do("floor", do("abs", x))),
    "frac": lambda do, x: do("sub", x, _FORMULAS["trunc"](do, x)),
    "remainder": _remainder,
    "hypot": _hypot,
    "fmax": lambda do, x, y: _known(do, x, y, "maximum", "ge"),
    "fmin": lambda do, x, y: _known(do, x, y, "minimum", "le"),
    **dict.fromkeys(("logical_xor", "bitwise_xor", "__xor__"), lambda do, *of: do("ne", *(do("ne", x, 0) for x in of))),
    "log2": lambda do, x: do("mul", do("log", x), 1 / math.log(2)),
    "log10": lambda do, x: do("mul", do("log", x), 1 / math.log(10)),
    "isinf": lambda do, x: do("eq", do("abs", x), math.inf),
    "isfinite": lambda do, x: do("lt", do("abs", x), math.inf),
    "isnan": lambda do, x: do("ne", x, x),
    "masked_fill": lambda do, x, mask, value: do("where", mask, value, x),
}


def gradient_of(function: Callable[[Tensor], Tensor], at: float) -> float:
    """What the installed PyTorch gives for a derivative where there is none: versions differ."""
    with torch.enable_grad():
        x = torch.tensor([at], dtype=torch.float64, requires_grad=True)
        return float(torch.autograd.grad(function(x).sum(), x)[0])


@lowers(*_POINTWISE)
def _pointwise(to: Lowering, **named: Any) -> Any:
    given = [v for k, v in named.items() if k not in _ATTRIBUTES and v is not None]
    more = {_ATTRIBUTES[k]: v if isinstance(v, str) else float(v) for k, v in named.items() if k in _ATTRIBUTES}
    return to.elementwise(_POINTWISE[to.name], *given, **more)


@lowers(*_FORMULAS)
def _formula(to: Lowering, **named: Any) -> Any:
    return _FORMULAS[to.name](to.elementwise, *named.values())


@lowers("add", "sub", "rsub")
def _sum(to: Lowering, self: Any, other: Any, alpha: Any = 1) -> Any:
    if isinstance(self, Ends) and isinstance(other, (int, Number)) and (to.name, alpha) == ("add", 1):
        by = other if isinstance(other, int) else other.expression
        return replace(self, first=sympy.expand(self.first + by))
    given = [self, other if alpha == 1 else to.elementwise("mul", other, alpha)]
    if to.node.meta["val"].dtype == torch.bool:
        return to.elementwise("or", *given)
    return to.elementwise("sub", *given[::-1]) if to.name == "rsub" else to.elementwise(to.name, *given)


@lowers("div", "divide", "floor_divide")
def _div(to: Lowering, self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    do, mode = to.elementwise, "floor" if to.name == "floor_divide" else rounding_mode
    if mode is None:
        return do("div", self, other)
    x, y = (do("detach", v) if isinstance(v, Value) else v for v in (self, other))
    quotient = do("div", x, y)
    if mode == "trunc":
        return _FORMULAS["trunc"](do, quotient)
    rest = do("fmod", x, y)  # without which the quotient is whole, but for its rounding
    whole = do("floor", do("add", do("div", do("sub", x, rest), y), 0.5))
    return do("where", do("eq", y, 0), quotient, do("sub", whole, _other_sign(do, rest, y)))


@lowers("round")
def _round(to: Lowering, self: Any, decimals: int = 0) -> Any:
    if not decimals:
        return to.elementwise("round", self)
    more, less = ("mul", "div") if decimals > 0 else ("div", "mul")
    return to.elementwise(less, to.elementwise("round", to.elementwise(more, self, 10.0 ** abs(decimals))), 10.0 ** abs(decimals))


@lowers("clamp", "clip", "clamp_min", "clamp_max")
def _clamp(to: Lowering, self: Any, **limits: Any) -> Any:
    passes = gradient_of(lambda x: x.clamp(min=0.0), 0.0)
    numbers = {k[:3]: float(v) for k, v in limits.items() if isinstance(v, (int, float))}
    for name, limit in limits.items():
        if limit is not None and name[:3] not in numbers:
            most, inside = {"min": ("maximum", "ge"), "max": ("minimum", "le")}[name[:3]]
            clamped = to.elementwise(most, self, limit)
            if passes:  # a tie is its own
                unknown = to.elementwise("ne", self, self)
                beyond = to.elementwise("where", unknown, to.elementwise("detach", clamped), limit)
                clamped = to.elementwise("where", to.elementwise(inside, self, limit), self, beyond)
            self = clamped
    strict = {} if passes else {"strict": True}
    return to.elementwise("clamp", self, **numbers, **strict) if numbers else self


@lowers("smooth_l1_loss", "huber_loss")
def _smooth(to: Lowering, self: Any, target: Any, reduction: int = 1, beta: float = 1.0, delta: float = 0.0) -> Any:
    """½d² within a bound and linear beyond, of smooth_l1_loss divided by the bound."""
    do, bound = to.elementwise, delta or beta
    d = do("sub", self, target)
    if not bound:
        raise Unlowerable("a bound of 0: write l1_loss")
    inside = do("lt", do("abs", d), bound)
    near = do("where", inside, d, 0.0)  # beyond, its square is too large
    made = do("where", inside, do("mul", do("square", near), 0.5), do("mul", do("sub", do("abs", d), bound / 2), bound))
    made = made if delta else do("div", made, bound)
    return to.over(to.value(made), None, False, {1: "mean", 2: "sum"}[reduction]) if reduction else made


@lowers("elu")
def _elu(to: Lowering, self: Any, alpha: float, scale: float, input_scale: float) -> Any:
    if scale == input_scale == 1:
        return to.elementwise("elu", self, alpha=float(alpha))
    if abs(scale - 1.0507009873554805) > 1e-6 or input_scale != 1:
        return to.expanded(to.node)
    return to.elementwise("selu", self)


@lowers("prelu", "_prelu_kernel")
def _prelu(to: Lowering, self: Any, weight: Any) -> Any:
    x, weight = to.value(self), to.value(weight)
    if weight.shape != () and x.dim > 2 and weight.shape != (1,):
        weight = to.reshape(weight, (*weight.shape, *(1,) * (x.dim - 2)))
    return to.pointwise("where", to.pointwise("gt", x, to.constant(0)), x, to.pointwise("mul", weight, x))


@lowers("detach", "alias", "clone", "contiguous", "to", "_to_copy", "type_as", "lift_fresh_copy")
def _same(to: Lowering, self: Any, **_: Any) -> Any:
    if to.name == "detach" and isinstance(self, Value):
        return to.emit("detach", [self], self.rows, self.shape, self.axis)
    kind = to.node.meta["val"].dtype
    whole = kind.is_floating_point or not to.node.args[0].meta["val"].dtype.is_floating_point
    if whole or not isinstance(self, Value):
        return self
    if kind == torch.bool:
        return to.elementwise("ne", self, 0)
    towards_zero = to.elementwise("sign", self), to.elementwise("floor", to.elementwise("abs", self))
    return to.elementwise("mul", *towards_zero)


@lowers("copy")
def _copy(to: Lowering, self: Any, src: Any, **_: Any) -> Any:
    rows, shape, axis = to.layout()
    if isinstance(src, Ends):
        return src
    if isinstance(src, Fill):
        return Fill(src.number, rows, shape, axis)
    x = to.filled(to.value(src), [Value(0, rows, shape, axis)])
    return to.expand(to.reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape, axis), shape)


@lowers("dropout", "native_dropout")
def _dropout(to: Lowering, p: float, train: bool, **given: Any) -> Any:
    (x,), path = map(to.value, given.values()), to.where["path"]
    if train and p:
        if x.rows is None or isinstance(x.rows, tuple):
            raise Unlowerable(
                "dropout of parameters, or of rows that a mask chose: apply it to rows of vertices or of edges"
            )
        x = to.emit("dropout", [x], x.rows, x.shape, x.axis, p=float(p), path=to.unique(path))
    return x


def _uniform(to: Lowering) -> Value:
    """A number of [0, 1) for each element of what a node makes."""
    rows, shape, axis = to.layout()
    if not to.draws or rows is None or isinstance(rows, tuple):
        raise Unlowerable(f"{to.name} {DRAWS_NO_ROWS}")
    ones = to.full(Fill(1.0, rows, shape, axis))
    return to.emit("uniform", [ones], rows, shape, axis, path=to.unique(to.where["path"]))


def _normal(to: Lowering) -> Any:
    """By Box and Muller (1958), of two uniform numbers."""
    do = to.elementwise
    length = do("sqrt", do("mul", do("log1p", do("neg", _uniform(to))), -2.0))
    return do("mul", length, do("cos", do("mul", _uniform(to), 2 * math.pi)))


@lowers(*DRAWS)
def _draw(to: Lowering, /, self: Any = None, generator: Any = None, **of: Any) -> Any:
    do = to.elementwise
    if generator is not None:
        raise Unlowerable(f"{to.name} draws random numbers of a generator of its own: weft has one, which follows torch.manual_seed")
    if to.name == "bernoulli":
        p = of.get("p")
        return do("lt", _uniform(to), self if p is None else p)
    if to.name.startswith("normal"):
        mean, std = (of.get("mean", self), of.get("std", 1.0))
        return do("add", do("mul", _normal(to), std), mean)
    if to.name.startswith("randn"):
        return _normal(to)
    if to.name == "exponential":
        return do("div", do("neg", do("log1p", do("neg", _uniform(to)))), of.get("lambd", 1.0))
    low, high = of.get("from", of.get("low", 0.0)), of.get("to", of.get("high", 1.0))
    made = _uniform(to) if (low, high) == (0.0, 1.0) else do("add", do("mul", _uniform(to), high - low), low)
    return do("floor", made) if to.name.startswith("randint") else made


# -- sizes and constants


@lowers(
    *"zeros ones full empty new_zeros new_ones new_full new_empty zeros_like ones_like full_like".split(),
    *"empty_like empty_permuted scalar_tensor fill zero".split(),
)
def _filled(to: Lowering, **named: Any) -> Any:
    given = (named.get(k) for k in ("fill_value", "value", "s"))
    number = next((v for v in given if v is not None), 1 if "ones" in to.name else 0)
    rows, shape, axis = to.layout()
    if isinstance(number, (Value, Number)):
        one = to.reshape(to.value(number), (1,) * (len(shape) + (rows is not None)))
        return to.expand(to.filled(one, [Value(0, rows, shape, axis)]), shape)
    if rows is None:
        return torch.full(shape, number, dtype=to.node.meta["val"].dtype)
    return Fill(float(number), rows, shape, axis)


@lowers("arange")
def _arange(to: Lowering, end: Any, start: Any = 0, step: Any = 1, **_: Any) -> Any:
    if (start, step) == (0, 1) and isinstance(end, Number) and not end.expression.args:
        if kind_of(rows := to.counted(end)) == "vertices":
            return Vertices(rows)
    raise Unlowerable("a range that is not of all vertices: give num_nodes=x.size(0)")


@lowers("sym_size", "sym_numel", "sym_stride")
def _sym_size(to: Lowering, **_: Any) -> Any:
    return to.node.meta["val"]


# -- parts of tensors


@lowers("select")
def _select(to: Lowering, self: Any, dim: int, index: int) -> Any:
    if isinstance(self, Edges):
        if dim % 2 or not isinstance(index, int):
            raise Unlowerable("one edge is taken from edge_index")
        target = (index % 2) != self.reverse
        return Ends(self.rows, ("source", "target")[target], self.first[target])
    if isinstance(self, Vertices):
        return Vertices(self.rows)
    x = to.value(self)
    at = to.column(x, dim, "one vertex or edge is taken by its position: weft's vertices have no order")
    return to.dropped(to.slice(x, at, index % x.shape[at], index % x.shape[at] + 1), at)


@lowers("slice")
def _slice(to: Lowering, self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if to.whole(to.node) and step == 1:
        return self
    if isinstance(self, (Edges, Ends, Vertices)):
        raise Unlowerable("some of the edges are taken by their position: weft's edges have no order")
    x = to.value(self)
    at = to.column(x, dim, _BY_POSITION)
    return to.slice(x, at, *bounds([start, end], x.shape[at]), step)


_BY_POSITION = "some of the vertices or edges are taken by their position: weft's rows have no order"


@lowers("split", "split_with_sizes", "chunk", "unbind", "unsafe_split", "unsafe_chunk", "tensor_split")
def _split(to: Lowering, self: Any, dim: int = 0, **_: Any) -> Any:
    single = to.name == "unbind"
    if isinstance(self, (Edges, Vertices)) and single:
        return [_select(to, self, 0, k) for k in (0, 1)]
    x = to.value(self)
    at = to.column(x, dim, "vertices or edges are split by their position: weft's rows have no order")
    parts, stop = [], 0
    for tensor in to.node.meta["val"]:
        start, stop = stop, stop + (1 if single else int(tensor.shape[dim]))
        part = to.slice(x, at, start, stop)
        parts.append(to.dropped(part, at) if single else part)
    return parts


@lowers("cat", "concat", "stack")
def _cat(to: Lowering, tensors: list[Any], dim: int = 0) -> Any:
    stack = to.name.endswith("stack")
    dim %= len(to.node.meta["val"].shape)
    if len(tensors) == 1 and not stack:
        return tensors[0]
    along = not stack and not isinstance(to.node.meta["val"].shape[dim], int)
    if any(isinstance(t, (Edges, Ends, Vertices)) for t in tensors):
        made = _with_vertices(to, tensors) if along else _pair(tensors)
        return made or _joined(to, tensors)
    if along:
        return _with_loops(to, tensors) or _joined(to, tensors)
    rows, shape, axis = to.layout()
    if all(isinstance(t, Fill) and t.number == tensors[0].number for t in tensors):
        return Fill(tensors[0].number, rows, shape, axis)
    parts = [to.value(t) for t in tensors if not (isinstance(t, Tensor) and t.shape == (0,))]
    at = dim - (rows is not None and dim > axis)
    like = next((p for p in parts if p.rows is not None), parts[0])
    parts = [to.filled(p, [like]) for p in parts]
    if stack:
        parts = [to.reshape(p, (*p.shape[:at], 1, *p.shape[at:]), axis) for p in parts]
    return to.cat(parts, at)


def _pair(ends: list[Any]) -> Any:
    """edge_index from its two rows."""
    if all(isinstance(e, Vertices) for e in ends):
        return replace(ends[0], pairs=True)
    if [type(e) for e in ends] == [Ends, Ends] and ends[0].rows == ends[1].rows and ends[0].end != ends[1].end:
        reverse = ends[0].end == "target"
        source, target = ends[::-1] if reverse else ends
        return Edges(ends[0].rows, reverse, (source.first, target.first))
    return None


def _with_vertices(to: Lowering, parts: list[Any]) -> Any:
    """Edges, and a self loop for each vertex after them."""
    known = len(parts) == 2 and isinstance(parts[0], (Edges, Ends)) and isinstance(parts[1], Vertices)
    if not known or kind_of(parts[0].rows) not in WITH_LOOPS or _shifted(parts[0]):
        return None
    return replace(parts[0], rows=to.counted(to.node.meta["val"].shape[-1]))


def _shifted(of: Edges | Ends) -> bool:
    return any(of.first) if isinstance(of, Edges) else bool(of.first)


def _with_loops(to: Lowering, tensors: list[Any]) -> Any:
    """Values of edges, and of the self loops that follow them."""
    (size,) = free_sizes(to.node)
    if kind_of(to.rows.get(size)) not in ("one", "added") or len(tensors) != 2 or isinstance(tensors[0], Parts):
        return None
    edges, loops = tensors
    if isinstance(edges, Fill) and isinstance(loops, Fill) and edges.number == loops.number:
        return Fill(edges.number, *to.layout())
    edges, loops = to.value(edges), to.value(loops)
    if edges.axis:
        raise Unlowerable("values of self loops are joined to those of edges in another dimension than the first")
    return to.emit("with_loops", [edges, loops], to.rows[size], edges.shape)


def _joined(to: Lowering, parts: list[Any]) -> Parts:
    """Edges of several sets, as of both directions, or what they have."""
    sizes = free_sizes(to.node)
    flat: list[Any] = []
    for p in parts:
        flat += p.of if isinstance(p, Parts) else [p]
    ends = [isinstance(p, (Edges, Ends, Vertices)) for p in flat]
    if len(sizes) != 1 or not (all(ends) or all(isinstance(p, (Value, Fill)) and p.rows is not None for p in flat)):
        raise Unlowerable("edge_index is joined with other numbers than those of edges and self loops")
    made = Parts(tuple(flat), sizes[0])
    if any(ends):
        to.joined[made.size] = made.rows
    elif all(kind_of(rows) == "vertices" for rows in made.rows) and len(set(made.rows)) == len(made.rows):
        to.joined.setdefault(made.size, made.rows)
    return made


@lowers("flip")
def _flip(to: Lowering, self: Any, dims: list[int]) -> Any:
    if isinstance(self, Edges) and [d % 2 for d in dims] == [0]:
        return replace(self, reverse=not self.reverse)
    x = to.value(self)
    columns = to.columns(x, dims, "the order of vertices or edges is reversed: weft's rows have no order")
    return to.emit("flip", [x], x.rows, x.shape, x.axis, dims=sorted(columns))


@lowers("pad")
def _pad_by(to: Lowering, self: Any, pad: list[int], mode: str = "constant", value: float | None = None) -> Any:
    if mode != "constant":
        raise Unlowerable(f"columns are added by {mode}: write torch.cat")
    return _pad(to, self, pad, value or 0.0)


@lowers("constant_pad_nd")
def _pad(to: Lowering, self: Any, pad: list[int], value: float = 0.0) -> Any:
    x = to.value(self)
    for k in range(len(pad) // 2):
        before, after = pad[2 * k : 2 * k + 2]
        if before or after:
            d = to.column(x, x.dim - 1 - k, "rows are added to those of vertices or edges: add columns")
            sizes = [(*x.shape[:d], max(0, n), *x.shape[d + 1 :]) for n in (before, after)]
            first, last = (to.constant(torch.full(size, value)) for size in sizes)
            x = to.cat([first, to.slice(x, d, max(0, -before), x.shape[d] - max(0, -after)), last], d)
    return x


@lowers("repeat")
def _repeat(to: Lowering, self: Any, repeats: list[Any]) -> Any:
    if isinstance(self, Vertices):
        return replace(self, pairs=True)
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


@lowers("index_select")
def _index_select(to: Lowering, self: Any, dim: int, index: Any) -> Any:
    return _index(to, self, [None] * (dim % len(to.node.args[0].meta["val"].shape)) + [index])


@lowers("index")
def _index(to: Lowering, self: Any, indices: list[Any]) -> Any:
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(given) == 2 and isinstance(given[0][1], Vertices) and given[0][0] == 0 and isinstance(given[1][1], Value):
        ids = to.reshape(given[1][1], (*given[1][1].shape, 1))  # x[torch.arange(V), ids]
        picked = _gather(to, self, 1, ids)
        return to.reshape(picked, picked.shape[:-1])
    if len(given) != 1:
        raise Unlowerable("several indices at once: take the columns one after another")
    ((dim, index),) = given
    if isinstance(self, (Edges, Ends)):
        return _edges_of(to, self, dim, index)
    if isinstance(index, (Chosen, Loops)) or (isinstance(index, Value) and to.is_mask(index, indices)):
        return _chosen(to, self, index.mask if isinstance(index, Chosen) else index)
    if isinstance(self, Fill):
        return Fill(self.number, *to.layout())
    x = to.value(self)
    if isinstance(index, Fill) and x.rows is None and dim == 0:  # one group of all vertices
        row = to.slice(x, 0, int(index.number), int(index.number) + 1)
        return to.filled(to.dropped(row, 0), [Value(0, *to.layout())])
    if isinstance(index, (Ends, Vertices)):
        if x.rows is None or dim != x.axis:
            raise Unlowerable(
                "a table with a row for each vertex is read by their numbers: concatenate it to x beforehand"
            )
        if isinstance(index, Ends):
            return to.gather(x, index)
        if x.rows != index.rows:
            raise Unlowerable(f"rows of {in_words(x.rows)} are read by the numbers of {in_words(index.rows)}")
        return x
    if isinstance(index, Tensor):
        places, at = _places(index), to.column(x, dim, _BY_POSITION)
        if index.dtype == torch.bool:
            size = to.node.meta["val"].shape[dim]
            to.sizes |= {} if isinstance(size, int) else {size.node.expr: len(places)}
        return to.cat([to.slice(x, at, int(k) % x.shape[at], int(k) % x.shape[at] + 1) for k in places], at)
    return _lookup(to, x, dim, to.value(index))


def _places(index: Tensor) -> Tensor:
    """The places that a tensor of the module names, by numbers or by a mask."""
    places = index.nonzero().flatten() if index.dtype == torch.bool else index
    if index.dim() != 1:
        raise Unlowerable(_BY_POSITION)
    return places


def _edges_of(to: Lowering, self: Any, dim: int, index: Any) -> Any:
    if isinstance(self, Edges) and dim == 0 and isinstance(index, Tensor) and sorted(index.tolist()) == [0, 1]:
        return replace(self, reverse=self.reverse != (index.tolist() == [1, 0]))
    mask = index.mask if isinstance(index, Chosen) else index
    rows: Rows
    if isinstance(mask, Loops):
        if mask.rows != self.rows:
            raise Unlowerable("a mask of other edges")
        rows = replace(mask.rows, kind=WITHOUT_LOOPS[mask.rows.kind]) if mask.inverse else (self.rows, "loops")
    elif isinstance(mask, Value) and mask.rows == self.rows:
        rows = (self.rows, mask.op)
    else:
        raise Unlowerable("some of the edges are taken by their position: choose edges by a mask of their values")
    return replace(self, rows=to.count(to.node.meta["val"].shape[-1], rows))


def _chosen(to: Lowering, x: Any, mask: Any) -> Any:
    """Rows that a mask chooses."""
    if isinstance(mask, Value):
        rows: Rows = (mask.rows, mask.op)
    elif mask.inverse:
        rows = replace(mask.rows, kind=WITHOUT_LOOPS[mask.rows.kind])
    else:
        rows = to.at(mask.rows, "target") if mask.rows.kind == "one" else (mask.rows, "loops")
    to.count(next(n for n in to.node.meta["val"].shape if not isinstance(n, int)), rows)
    if isinstance(x, Fill):
        return Fill(x.number, rows, x.shape, x.axis)
    x = to.value(x)
    if x.rows != mask.rows or x.axis:
        raise Unlowerable(f"a mask of {in_words(mask.rows)} chooses among {in_words(x.rows)}")
    of = to.of(x)
    if kind_of(rows) == "vertices":  # each vertex has one loop
        if of["op"] == "gather":
            return to.inputs(x)[0]
        loops = to.reshape(to.value(mask), (1,) * len(x.shape))
        return to.scatter(to.pointwise("mul", loops, x), "target", "sum")
    if isinstance(mask, Value) or not mask.inverse or mask.rows.kind == "removed":
        return replace(x, rows=rows)  # only loop_values reads stored loops
    if mask.rows.kind == "stored":
        return to.emit("without_loops", [x], rows, x.shape)
    if of["op"] != "with_loops":
        raise Unlowerable("self loops are removed from values of edges that had them added: remove them first")
    x = to.inputs(x)[0]
    return x if mask.rows.kind == "one" else to.emit("without_loops", [x], rows, x.shape)


def _lookup(to: Lowering, table: Value, dim: int, index: Value) -> Value:
    """Rows of a small table by numbers that features hold: a product with 0 and 1."""
    if table.rows is not None or dim != 0:
        raise Unlowerable("rows are read by numbers that are computed: only edge_index says which rows meet")
    count, rest = table.shape[0], table.shape[1:]
    if count > 4096:
        raise Unlowerable(
            f"an embedding of {count:,} rows: weft has those of at most 4096; give the embedding's rows as features"
        )
    which = _one_hot(to, index, count)
    flat = to.reshape(table, (count, math.prod(rest)))
    out = to.emit("matmul", [which, flat], index.rows, (*index.shape, math.prod(rest)), index.axis)
    return to.reshape(out, (*index.shape, *rest))


@lowers("embedding")
def _embedding(to: Lowering, weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, **_: Any) -> Any:
    if scale_grad_by_freq:
        raise Unlowerable("scale_grad_by_freq divides a row's gradient by how often it is read: leave it out")
    if isinstance(weight, Value) and kind_of(weight.rows) == "vertices":
        if padding_idx >= 0:
            raise Unlowerable("an embedding of all vertices has a padding_idx, of which no gradient is: leave it out")
        if isinstance(indices, Tensor):
            raise Unlowerable("an embedding of all vertices is read by numbers that the module holds: take its weight")
        return _index(to, weight, [indices])
    if isinstance(indices, (Ends, Vertices)):
        raise Unlowerable("an embedding has a row for each vertex: give these as features, x")
    table, at = to.value(weight), padding_idx
    if at >= 0:  # a row without a gradient
        row = to.slice(table, 0, at, at + 1)
        row = to.emit("detach", [row], None, row.shape)
        table = to.cat([to.slice(table, 0, 0, at), row, to.slice(table, 0, at + 1, table.shape[0])], 0)
    return _lookup(to, table, 0, to.value(indices))


@lowers("one_hot")
def _one_hot(to: Lowering, self: Any, num_classes: int) -> Any:
    if num_classes < 0:
        raise Unlowerable("one_hot without num_classes depends on the values: give num_classes")
    ids = to.value(self)
    return _which(to, to.reshape(ids, (*ids.shape, 1)), num_classes)


def _which(to: Lowering, ids: Value, count: int) -> Value:
    """1 in the column that each row names."""
    return to.pointwise("eq", ids, to.constant(torch.arange(count)))


@lowers("gather")
def _gather(to: Lowering, self: Any, dim: int, index: Any, **_: Any) -> Any:
    if isinstance(index, Ends):
        return _index_select(to, self, dim, index)
    x, ids = to.value(self), to.value(index)
    if x.rows is None and x.dim == 1:
        return _lookup(to, x, 0, ids)
    computed = "values are picked by numbers that are computed: write a comparison and torch.where"
    at = to.column(x, dim, computed)
    if at != len(x.shape) - 1 or ids.shape[at] != 1:
        raise Unlowerable(computed)
    return to.reduce("sum", to.pointwise("where", _which(to, ids, x.shape[at]), x, to.constant(0)), [at], True)


@lowers("nonzero", "nonzero_numpy")
def _nonzero(to: Lowering, self: Any) -> Any:
    if isinstance(self, Value) and self.rows is not None and self.shape == ():
        found = to.node.meta["val"]
        sizes = (found[0] if isinstance(found, (list, tuple)) else found).shape
        to.count(next(n for n in sizes if not isinstance(n, int)), (self.rows, self.op))
    elif not isinstance(self, Loops):
        raise Unlowerable("positions depend on the values: write a comparison and torch.where")
    return Chosen(self)


_REDUCTIONS = named("amax:max amin:min any:max all:min prod:mul add:sum multiply:mul")


@lowers("scatter_add", "index_add", "scatter_reduce", "index_reduce", "scatter")
def _scatter(to: Lowering, self: Any, dim: int, index: Any, *, reduce: str = "sum", include_self: bool = True,
             alpha: Any = 1, **given: Any) -> Any:
    (src,) = given.values()
    if isinstance(index, Vertices) and to.name != "scatter":
        made = {"sum": "add", "mul": "mul", "max": "maximum", "min": "minimum"}.get(_REDUCTIONS.get(reduce, reduce))
        return to.elementwise(made, self, src) if include_self and made else src
    if not isinstance(index, Ends):
        if to.name == "scatter" and reduce == "sum":
            return _put_columns(to, self, dim, index, src)
        return _grouped(to, self, dim, index, src, reduce)
    src = to.value(src if alpha == 1 else to.elementwise("mul", src, alpha))
    reduce = _REDUCTIONS.get(reduce, reduce)
    if src.rows != index.rows or to.layout()[0] != to.at(index.rows, index.end):
        raise Unlowerable(
            f"rows of {in_words(src.rows)} are aggregated to {in_words(to.layout()[0])}: edges aggregate to vertices"
        )
    if to.name == "scatter":
        raise Unlowerable("rows are written over each other: aggregate them by scatter_add or scatter_reduce")
    out, start, empty = to.scatter(src, index.end, reduce), to.number(self), 1.0 if reduce == "mul" else 0.0
    if reduce in ("sum", "mul"):
        if start == empty and not include_self:
            return out
        if not include_self:
            raise Unlowerable(f"{to.name} with include_self=False: start from {empty:g}")
    elif start != empty:  # vertices without edges keep what they had
        count = to.scatter(to.reshape(to.ones(index.rows), (1,) * len(src.shape)), index.end, "sum")
        some = to.pointwise("gt", replace(count, axis=out.axis), to.constant(0))
        out = to.elementwise("where", some, out, self)
    if not include_self:
        return out
    if reduce == "mean":
        raise Unlowerable("scatter_reduce by mean with include_self=True: give include_self=False")
    return to.elementwise({"sum": "add", "mul": "mul", "max": "maximum", "min": "minimum"}[reduce], out, self)


def _grouped(to: Lowering, self: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    """An aggregation of all vertices, as one group."""
    sizes, reduce = to.layout()[1], _REDUCTIONS.get(reduce, reduce)
    one = isinstance(index, Fill) and (kind_of(index.rows), dim, sizes[:1]) == ("vertices", 0, (1,))
    if one and reduce in ("sum", "mean", "max", "min"):
        x = to.value(src)
        out = to.reshape(to.emit("row_" + reduce, [x], None, x.shape), sizes)
        return to.elementwise("add", out, self) if reduce == "sum" else out
    raise Unlowerable(
        "rows are added up by numbers that are computed, as in a pooling of vertices: only the ends of edges say which vertices meet"
    )


def _put_columns(to: Lowering, self: Any, dim: int, index: Any, number: Any) -> Any:
    """A number at a column that each row names, as one_hot writes it."""
    ids = to.value(index)
    if dim % self.dim == self.axis or ids.shape != (1,) or isinstance(number, (Value, Fill)):
        raise Unlowerable("values are written at positions that are computed: write a comparison and torch.where")
    return to.elementwise("where", _which(to, ids, self.shape[-1]), number, self)


def _put_places(to: Lowering, x: Value, dim: int, places: Tensor, values: Any, accumulate: bool) -> Value:
    """Columns at known places, each of which is written once."""
    at, places = to.column(x, dim, _BY_POSITION), _places(places)
    known = [int(k) % x.shape[at] for k in places]
    if len(set(known)) < len(known):
        raise Unlowerable("a column is written twice: write each once")
    made = to.expand(to.beside(to.value(values), x), (*x.shape[:at], len(known), *x.shape[at + 1 :]))
    columns = [to.slice(x, at, k, k + 1) for k in range(x.shape[at])]
    for n, k in enumerate(known):
        new = to.slice(made, at, n, n + 1)
        columns[k] = to.pointwise("add", columns[k], new) if accumulate else new
    return to.cat(columns, at)


@lowers("index_put", "_unsafe_index_put", "index_copy", "_index_put_impl")
def _index_put(to: Lowering, self: Any, indices: Any = None, values: Any = None, accumulate: bool = False,
               dim: int = 0, index: Any = None, source: Any = None, **_: Any) -> Any:
    indices = [None] * dim + [index] if indices is None else indices
    dim, indices = next(d for d, i in enumerate(indices) if i is not None), [i for i in indices if i is not None]
    values, at = source if values is None else values, indices[0]
    if len(indices) > 1:
        raise Unlowerable("several indices at once are written: write torch.where")
    if isinstance(at, Tensor):
        return _put_places(to, to.value(self), dim, at, values, accumulate)
    if isinstance(at, Ends) and accumulate:
        return to.elementwise("add", to.scatter(to.value(values), at.end, "sum"), self)
    if isinstance(at, Ends) and isinstance(at.rows, tuple) and at.rows[1] == "loops":  # PyG's add_remaining_self_loops
        if isinstance(values, Fill) and isinstance(self, Fill) and values.number == self.number:
            return self
        old, new = to.value(self), to.value(values)
        return to.emit("loop_values", [replace(new, rows=at.rows[0]), old], to.at(at.rows, "target"), old.shape)
    mask = at.mask if isinstance(at, Chosen) else at
    loops = isinstance(mask, Loops) and kind_of(mask.rows) == "one" and not mask.inverse
    if not loops and not (isinstance(mask, Value) and mask.rows is not None):
        raise Unlowerable(
            "rows are written by numbers that are computed: aggregate by scatter_add, or choose by torch.where"
        )
    x, new = to.value(self), to.value(values)
    if loops and kind_of(new.rows) == "vertices":
        new = to.gather(new, Ends(mask.rows, "target"))
    elif new.rows is not None:
        new = replace(new, rows=base_of(new.rows))
    mask = to.value(mask)
    mask = to.reshape(mask, mask.shape + (1,) * (len(x.shape) - len(mask.shape)))
    return to.pointwise("where", mask, to.pointwise("add", x, new) if accumulate else new, x)


# -- sums over columns and rows


@lowers("sum", "mean")
def _over(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    return to.over(to.value(self), dim, keepdim, to.name)


@lowers("amax", "amin", "max", "min", "logsumexp", "any", "all")
def _most(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
    if other is not None:
        return to.elementwise(to.name + "imum", self, other)
    if isinstance(self, Ends) and to.name == "max":
        return self
    x, name = to.value(self), _REDUCTIONS.get(to.name, to.name)
    if to.name in ("any", "all"):
        x = to.pointwise("ne", x, to.constant(0))
    rows, columns = to.dims(x, dim)
    if not rows:
        first = {"first": True} if to.name in ("max", "min") and dim is not None else {}
        return to.reduce(name, x, columns, keepdim, **first)
    if name == "logsumexp":
        raise Unlowerable("logsumexp over all vertices or edges: take sums or means over them")
    part = to.reduce(name, x, columns, True)
    return to.reshape(to.emit("row_" + name, [part], None, part.shape), to.layout()[1])


@lowers("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax")
def _softmax(to: Lowering, self: Any, dim: int, **_: Any) -> Any:
    x = to.value(self)
    at = to.column(x, dim, "softmax over all vertices or edges at once: softmax over the edges of a vertex is "
                   "torch_geometric.utils.softmax(src, index)")
    return to.emit("log_softmax" if "log" in to.name else "softmax", [x], x.rows, x.shape, x.axis, dim=at)


@lowers("var", "std", "var_mean", "std_mean")
def _variance(
    to: Lowering, self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False, unbiased: bool = True
) -> Any:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    out = to.variance(to.value(self), dim, keepdim, float(unbiased if correction is None else correction))
    out = to.root(out) if to.name.startswith("std") else out
    return [out, to.over(to.value(self), dim, keepdim, "mean")] if to.name.endswith("mean") else out


@lowers("norm", "linalg_vector_norm")
def _norm(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, **order: Any) -> Any:
    x, p = to.value(self), float(next((v for v in order.values() if v is not None), 2))
    if p == 2:
        return to.root(to.over(to.pointwise("square", x), dim, keepdim, "sum"))
    if p == 0:
        return to.over(to.pointwise("ne", x, to.constant(0)), dim, keepdim, "sum")
    size = to.pointwise("abs", x)
    if math.isinf(p):
        most = to.reduce("max" if p > 0 else "min", size, to.dims(x, dim)[1], keepdim)
        known = to.pointwise("eq", most, most)  # and not NaN, of which no gradient is
        return to.pointwise("where", known, most, to.emit("detach", [most], most.rows, most.shape, most.axis))

    def power(size: Any) -> Any:
        return to.pointwise("pow", size, to.constant(p))

    total = to.over(power(size) if p > 1 else to.unless_0(size, power), dim, keepdim, "sum")
    return to.unless_0(total, lambda total: to.pointwise("pow", total, to.constant(1 / p)))


@lowers("prod")
def _prod(to: Lowering, self: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    x = to.value(self)
    rows, columns = to.dims(x, dim)
    if rows or len(columns) != 1:
        raise Unlowerable("a product over all vertices or edges")
    (at,) = columns
    out, *rest = (to.slice(x, at, k, k + 1) for k in range(x.shape[at]))
    for part in rest:
        out = to.pointwise("mul", out, part)
    return out if keepdim else to.reshape(out, to.layout()[1], to.layout()[2])


# -- products


@lowers("linear")
def _linear(to: Lowering, input: Any, weight: Any, bias: Any = None) -> Any:
    x, w = to.value(input), to.value(weight)
    if w.rows is not None or (x.rows is not None and x.axis == x.dim - 1):
        return to.expanded(to.node)
    b = [] if bias is None else [to.value(bias)]
    return to.emit("linear", [x, w, *b], x.rows, (*x.shape[:-1], w.shape[0]), x.axis)


@lowers("mm", "bmm", "matmul", "mv", "dot")
def _matmul(to: Lowering, **named: Any) -> Any:
    return _product(to, *map(to.value, named.values()))


@lowers("addmm", "baddbmm", "addmv")
def _addmm(to: Lowering, self: Any, beta: Any = 1, alpha: Any = 1, **factors: Any) -> Any:
    out, b = _product(to, *map(to.value, factors.values())), to.value(self)
    if to.of(out)["op"] == "linear" and (alpha, beta, b.rows, b.shape) == (1, 1, None, out.shape[-1:]):
        return to.emit("linear", [*to.inputs(out), b], out.rows, out.shape, out.axis)
    out = out if alpha == 1 else to.pointwise("mul", out, to.constant(alpha))
    return out if beta == 0 else to.pointwise("add", out, to.pointwise("mul", b, to.constant(beta)))


def _product(to: Lowering, x: Value, y: Value) -> Value:
    """x @ y, wherever the rows' dimension stands: among the leading ones, or one of the product's own."""
    one, two = x.dim == 1, y.dim == 1
    out = _matrices(to, _matrix(to, x, 0) if one else x, _matrix(to, y, 1) if two else y)
    for at in [out.dim - 1] * two + [out.dim - 2] * one:
        out = to.dropped(out, at - (out.rows is not None and at > out.axis))
    return out


def _matrix(to: Lowering, x: Value, at: int) -> Value:
    """A vector with one more dimension."""
    return to.reshape(x, (1,) if x.rows is not None else (*x.shape[:at], 1, *x.shape[at:]), axis=1 - at)


def _matrices(to: Lowering, x: Value, y: Value) -> Value:
    # where the rows' dimension is, from the right: 1 is the last dimension, 0 is none
    at_x, at_y = (v.dim - v.axis if v.rows is not None else 0 for v in (x, y))
    if at_x == 2 and not at_y:  # (…, V, k) @ (…, k, m)
        if len(y.shape) == 2:
            return _by_weight(to, x, y)
        row = to.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
        out = _rowwise(to, row, y, x.rows, 0)
        return to.reshape(out, (*out.shape[:-2], out.shape[-1]), len(out.shape) - 2)
    if at_y == 1 and not at_x:  # (…, a, k) @ (…, k, V): the transposed product
        out = _matrices(to, replace(y, axis=y.axis - 1), _swapped(to, x))
        return replace(out, axis=out.axis + 1)
    if at_x == 1 and at_y == 2:  # a sum over rows
        if x.rows != y.rows or kind_of(x.rows) != "vertices":
            raise Unlowerable("a product sums over edges")
        a = to.reshape(x, (*x.shape, 1))
        b = to.reshape(y, (*y.shape[:-1], 1, y.shape[-1]))
        pairs = to.pointwise("mul", replace(a, axis=0), replace(b, axis=0))
        return to.emit("row_sum", [pairs], None, pairs.shape)
    if at_x in (1, 2) or at_y in (1, 2):
        raise Unlowerable(
            "a product meets each pair of vertices, which takes memory and time of their square: attend over edges, by propagate"
        )
    if not at_x and at_y:  # parameters @ rows
        return _swapped(to, _matrices(to, _swapped(to, y), _swapped(to, x)))
    if at_x and not at_y and len(y.shape) >= at_x:
        y = to.dropped(y, len(y.shape) - at_x)
    elif at_x != at_y and at_y:
        raise Unlowerable(of_pairs((x.rows, y.rows)))
    return _rowwise(to, x, y, x.rows, at_x - 1 if at_x else 0)


def _rowwise(to: Lowering, x: Value, y: Value, rows: Rows, right: int) -> Value:
    if y.rows is None and len(y.shape) == 2:
        return replace(_by_weight(to, x, y), axis=len(x.shape) - right)
    shape = (*torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
    return to.emit("matmul", [x, y], rows, shape, len(shape) - right)


def _by_weight(to: Lowering, x: Value, w: Value) -> Value:
    """A product with one matrix: linear, if it is a transposed one."""
    transposed = to.of(w)["op"] == "permute" and to.of(w)["dims"] == [1, 0]
    op, w_of = ("linear", to.inputs(w)[0]) if transposed else ("matmul", w)
    return to.emit(op, [x, w_of], x.rows, (*x.shape[:-1], w.shape[1]), x.axis)


def _swapped(to: Lowering, x: Value) -> Value:
    """The last two dimensions, neither of which is the rows', change places."""
    n = len(x.shape)
    return to.permute(x, [*range(n - 2), n - 1, n - 2])


# -- norms


@lowers("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training", "cudnn_batch_norm")
def _batch_norm(to: Lowering, input: Any, weight: Any, bias: Any, running_mean: Any = None, running_var: Any = None,
                training: bool = True, momentum: Any = 0.1, eps: float = 1e-5, **_: Any) -> Any:
    x = to.value(input)
    names = [to.of(v)["name"] if isinstance(v, Value) and to.is_a(v, "parameter") else None
             for v in (weight, bias, running_mean, running_var)]
    stored = running_mean is not None
    training = training and not to.name.endswith("no_training")
    if stored and training and None in names[2:]:
        raise Unlowerable("batch norm changes statistics that are no buffers of the module: give track_running_stats=False")
    if not stored or not (training or (not to.training and names[2] not in to.frozen)):
        to.frozen |= {str(names[2])} if stored else set()
        return _normalised(to, x, weight, bias, eps, running_mean, running_var)
    if kind_of(x.rows) is None or x.axis or len(x.shape) != 1:
        raise Unlowerable("batch norm of other rows than those of vertices or edges: normalise each by nn.LayerNorm")
    counter = str(names[2]).removesuffix("running_mean") + "num_batches_tracked"
    given = {k: v for k, v in zip(("weight", "bias", "mean", "variance", "batches"), (*names, counter)) if v}
    if not math.isnan(momentum):  # else by the number of batches
        given["momentum"] = momentum
    if (times := times_of(to.node)) > 1:
        given["times"] = times
    out = to.emit("batch_norm", [x], x.rows, x.shape, eps=eps, **given)
    for name, op, v in zip(names, ("mul", "add"), (weight, bias)):  # those that are computed
        out = out if v is None or name else to.pointwise(op, out, to.value(v))
    return out


@lowers("instance_norm")
def _instance_norm(to: Lowering, input: Any, weight: Any, bias: Any, eps: float, **more: Any) -> Any:
    if more["running_mean"] is not None:
        raise Unlowerable("instance norm with running statistics: give track_running_stats=False")
    return _normalised(to, to.value(input), weight, bias, eps, None, None)


def _normalised(to: Lowering, x: Value, weight: Any, bias: Any, eps: float, mean: Any, variance: Any) -> Value:
    """By the mean and variance of each channel, or given ones."""

    def spread(v: Any) -> Value:
        return to.reshape(v, [v.shape[0] if d == 1 else 1 for d in range(x.dim)])

    if mean is None:
        over = [d for d in range(x.dim) if d != 1 and (d != 0 or x.dim == 2 or x.axis == 0)]
        rows, columns = to.dims(x, over)
        mean = to.kept(x, rows, columns, x)
        variance = to.kept(to.pointwise("square", to.pointwise("sub", x, mean)), rows, columns, x)
    else:
        mean, variance = spread(mean), spread(variance)
    out = to.pointwise("sub", x, mean)
    out = to.pointwise("mul", out, to.pointwise("rsqrt", to.pointwise("add", variance, to.constant(eps))))
    out = out if weight is None else to.pointwise("mul", out, spread(weight))
    return out if bias is None else to.pointwise("add", out, spread(bias))


@lowers("group_norm")
def _group_norm(to: Lowering, input: Any, num_groups: int, weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    x = to.value(input)
    if x.rows is None or x.axis:
        raise Unlowerable("group norm over the vertices: use GraphNorm, or normalise the last dimensions")
    parts = to.reshape(x, (num_groups, math.prod(x.shape) // num_groups))
    out = to.reshape(to.emit("layer_norm", [parts], x.rows, parts.shape, dims=[1], eps=eps), x.shape)
    for name, v in (("mul", weight), ("add", bias)):
        if v is not None:
            out = to.pointwise(name, out, to.reshape(v, (*v.shape, *(1,) * (len(x.shape) - 1))))
    return out


@lowers("layer_norm", "native_layer_norm")
def _layer_norm(to: Lowering, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    x, last = to.value(input), len(normalized_shape)
    if x.rows is not None and x.axis >= x.dim - last:
        raise Unlowerable("layer norm over the vertices: use GraphNorm, or normalise the last dimensions")
    if bias is not None and weight is None:
        raise Unlowerable("layer norm with a bias and no weight")
    more = [to.value(v) for v in (weight, bias) if v is not None]
    dims = list(range(len(x.shape) - last, len(x.shape)))
    return to.emit("layer_norm", [x, *more], x.rows, x.shape, x.axis, dims=dims, eps=eps)
