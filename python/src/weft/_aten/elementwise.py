"""Operations element by element: those that a program has under ATen's names, and formulas of several. A `do`
is Lowering.elementwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import Tensor, nn

from .._lowering import Lowering, lowers, named
from .._values import Ends, Fill, Number, Value

# Operations that a program has too: ATen's name, and behind a colon the program's where it is another.
_POINTWISE = named(
    "neg abs sign exp log log1p expm1 sqrt rsqrt reciprocal square sin cos tanh sigmoid relu silu selu erf "
    "floor ceil atan atan2 fmod mul pow maximum minimum eq ne gt ge lt le where leaky_relu gelu softplus "
    "celu absolute:abs multiply:mul true_divide:div log_sigmoid:logsigmoid logical_not:not bitwise_not:not "
    "logical_and:and bitwise_and:and __and__:and logical_or:or bitwise_or:or __or__:or detach_copy:detach "
    "arctan:atan arctan2:atan2"
)
# ATen's operands that are attributes of a program's operation.
_ATTRIBUTES = named("negative_slope:slope approximate beta threshold alpha")


def _inside(do: Any, inside: Any, x: Any, other: Any) -> Any:
    """x inside of bounds. Elsewhere it is another value, through which no gradient goes."""
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
    """√(x² + y²). The larger number divides both first, so that no square is too large or too small."""
    most = do("detach", do("maximum", do("abs", x), do("abs", y)))
    most = do("where", do("and", do("gt", most, 0), do("lt", most, math.inf)), most, 1.0)
    squares = (do("square", do("div", v, most)) for v in (x, y))
    return do("mul", most, do("sqrt", do("add", *squares)))


def _known(do: Any, x: Any, y: Any, most: str, at_least: str) -> Any:
    """The larger or smaller of two numbers. Where one is NaN, it is the other. Before PyTorch 2.9 the first
    has a tie's gradient."""
    if gradient_of(lambda x: torch.fmax(x, torch.zeros_like(x)), 0.0) == 1:
        return do("where", do("or", do(at_least, x, y), do("ne", y, y)), x, y)
    return do("where", do("ne", y, y), x, do("where", do("ne", x, x), y, do(most, x, y)))


# ATen's operations that a program writes as several of its own.
_FORMULAS: dict[str, Callable[..., Any]] = {
    "mish": lambda do, x: do("mul", x, do("tanh", do("softplus", x))),
    "relu6": lambda do, x: _hardtanh(do, x, 0.0, 6.0),
    "hardtanh": _hardtanh,
    "hardsigmoid": lambda do, x: _inside(
        do, do("and", do("gt", x, -3.0), do("lt", x, 3.0)), _sixth(do, x), _hardsigmoid(do, x)
    ),
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
    **dict.fromkeys(
        ("logical_xor", "bitwise_xor", "__xor__"),
        lambda do, *operands: do("ne", *(do("ne", x, 0) for x in operands)),
    ),
    "log2": lambda do, x: do("mul", do("log", x), 1 / math.log(2)),
    "log10": lambda do, x: do("mul", do("log", x), 1 / math.log(10)),
    "isinf": lambda do, x: do("eq", do("abs", x), math.inf),
    "isfinite": lambda do, x: do("lt", do("abs", x), math.inf),
    "isnan": lambda do, x: do("ne", x, x),
    "masked_fill": lambda do, x, mask, value: do("where", mask, value, x),
}


def gradient_of(function: Callable[[Tensor], Tensor], at: float) -> float:
    """The derivative that the installed PyTorch gives at a point that has none: versions differ."""
    with torch.enable_grad():
        x = torch.tensor([at], dtype=torch.float64, requires_grad=True)
        return float(torch.autograd.grad(function(x).sum(), x)[0])


@lowers(*_POINTWISE)
def _pointwise(to: Lowering, **named: Any) -> Any:
    values = [v for k, v in named.items() if k not in _ATTRIBUTES and v is not None]
    more = {
        _ATTRIBUTES[k]: v if isinstance(v, str) else float(v) for k, v in named.items() if k in _ATTRIBUTES
    }
    return to.elementwise(_POINTWISE[to.name], *values, **more)


@lowers(*_FORMULAS)
def _formula(to: Lowering, **named: Any) -> Any:
    return _FORMULAS[to.name](to.elementwise, *named.values())


@lowers("add", "sub", "rsub")
def _sum(to: Lowering, self: Any, other: Any, alpha: Any = 1) -> Any:
    if isinstance(self, Ends) and isinstance(other, (int, Number)) and (to.name, alpha) == ("add", 1):
        by = other if isinstance(other, int) else other.expression
        return replace(self, first=sympy.expand(self.first + by))
    operands = [self, other if alpha == 1 else to.elementwise("mul", other, alpha)]
    if to.node.meta["val"].dtype == torch.bool:
        return to.elementwise("or", *operands)
    return to.elementwise("sub", *operands[::-1]) if to.name == "rsub" else to.elementwise(to.name, *operands)


@lowers("div", "divide", "floor_divide")
def _div(to: Lowering, self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    do, mode = to.elementwise, "floor" if to.name == "floor_divide" else rounding_mode
    if mode is None:
        return do("div", self, other)
    x, y = (do("detach", v) if isinstance(v, Value) else v for v in (self, other))
    quotient = do("div", x, y)
    if mode == "trunc":
        return _FORMULAS["trunc"](do, quotient)
    rest = do("fmod", x, y)  # x less this rest is a multiple of y, but for rounding
    whole = do("floor", do("add", do("div", do("sub", x, rest), y), 0.5))
    return do("where", do("eq", y, 0), quotient, do("sub", whole, _other_sign(do, rest, y)))


@lowers("round")
def _round(to: Lowering, self: Any, decimals: int = 0) -> Any:
    if not decimals:
        return to.elementwise("round", self)
    more, less = ("mul", "div") if decimals > 0 else ("div", "mul")
    return to.elementwise(
        less,
        to.elementwise("round", to.elementwise(more, self, 10.0 ** abs(decimals))),
        10.0 ** abs(decimals),
    )


@lowers("clamp", "clip", "clamp_min", "clamp_max")
def _clamp(to: Lowering, self: Any, **limits: Any) -> Any:
    passes = gradient_of(lambda x: x.clamp(min=0.0), 0.0)
    numbers = {k[:3]: float(v) for k, v in limits.items() if isinstance(v, (int, float))}
    for name, limit in limits.items():
        if limit is not None and name[:3] not in numbers:
            most, inside = {"min": ("maximum", "ge"), "max": ("minimum", "le")}[name[:3]]
            clamped = to.elementwise(most, self, limit)
            if passes:  # in a tie x has the gradient
                unknown = to.elementwise("ne", self, self)
                beyond = to.elementwise("where", unknown, to.elementwise("detach", clamped), limit)
                clamped = to.elementwise("where", to.elementwise(inside, self, limit), self, beyond)
            self = clamped
    strict = {} if passes else {"strict": True}
    return to.elementwise("clamp", self, **numbers, **strict) if numbers else self


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
