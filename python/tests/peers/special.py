"""Operations element by element and reductions, and the points at which they are special: bounds, 0, ties,
infinities, numbers that are large or below the normal ones, and NaN."""

import math
from itertools import product

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.utils import scatter, softmax

INF, NAN = math.inf, math.nan

# Numbers at which functions of one have a bound, a kink, a tie or an end.
ONE = [
    0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 6, -6, 1.5, -1.5, 2.5, 20, -20, 21, 88, -104, 1e-40, -1e-40,
    1e-20, -1e-20, 1e4, -1e4, 1e15, -1e15, 1e30, -1e30, 0.3, -0.7, INF, -INF, NAN,
]  # fmt: skip
TWO = [
    *product([0.0, 1, -1.5, INF, -INF], repeat=2),
    (NAN, 1),
    (1, NAN),
    (NAN, NAN),
    (NAN, 0),
    (2, 3),
    (-2, 3),
    (-2, 2.5),
    (1e15, 1e-15),
    (1e-40, 1),
    (1e18, 1e18),
]
THREE = [
    *product([0.0, 1], [-1.5, 2, INF, NAN], [0.0, 3, -INF, NAN]),
    (-2, 1, 3),
    (NAN, 1, 2),
    (0.5, 0.25, 0.75),
]
FOUR = [
    (1, 2, 2, 1), (0, 0, 0, 0), (3, -1, 2, 0.5), (-3, -1, -2, -3), (INF, 1, INF, 0), (-INF, -INF, 2, 3),
    (-INF,) * 4, (INF, -INF, 0, 1), (NAN, 1, 2, 2), (1, NAN, NAN, 0), (NAN, INF, 1, 1),
    (1e15, 1e15, -1e15, 1), (1e-40, 0, 1e-40, -1e-40), (88, 100, 100, 3), (-200, -100, -300, -200),
    (0, 2, 3, 4), (0, 0, 3, 4), (-0.0, 0.0, 1, 1), (5, 5, 5, 5), (-1, 1, -1, 1),
]  # fmt: skip
ROWS = [1, 2, 2, 1, -3, 2, -3, 0.5, 0, 0]  # of vertices: no infinities, which all rows would meet
# Of vertices, of which each meets the two before it.
BY_EDGES = [
    4, 0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 6, 1.5, -1.5, 20, -20, 88, -104, 1e-40, -1e-20, 1e4, 5, -1e4, 1e15,
    7, 8, 1e30, 0.25, 0.75, INF, 0.2, 0.3, -INF, 0.7, -0.7, NAN,
]  # fmt: skip
V = max(map(len, (ONE, TWO, THREE, FOUR, BY_EDGES)))
INPUTS = {
    "one": [(x,) for x in ONE],
    "two": TWO,
    "three": THREE,
    "four": FOUR,
    "rows": [(x,) for x in ROWS + [0.25] * 25],
    "edges": [(x,) for x in BY_EDGES],
}


def edges():
    """From each vertex to itself and the next two, and none into the last one."""
    v = torch.arange(V - 1)
    return torch.stack([torch.cat([v, (v + 1) % V, (v + 2) % V]), v.repeat(3)])


a = 0.25
ELEMENTS = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "sgn": torch.sgn, "exp": torch.exp,
    "exp2": torch.exp2, "log": torch.log, "log1p": torch.log1p, "log2": torch.log2, "log10": torch.log10,
    "expm1": torch.expm1, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal,
    "square": torch.square, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "sinh": torch.sinh,
    "cosh": torch.cosh, "tanh": torch.tanh, "atan": torch.atan, "sinc": torch.sinc, "sigmoid": torch.sigmoid,
    "logit eps": lambda x: torch.logit(x, 0.5), "erf": torch.erf, "floor": torch.floor, "ceil": torch.ceil,
    "round": torch.round, "round 1": lambda x: torch.round(x, decimals=1),
    "round -1": lambda x: torch.round(x, decimals=-1), "trunc": torch.trunc, "fix": torch.fix,
    "frac": torch.frac, "positive": torch.positive, "deg2rad": torch.deg2rad, "rad2deg": torch.rad2deg,
    "relu": F.relu, "relu6": F.relu6, "hardtanh": F.hardtanh,
    "hardtanh -2 0.5": lambda x: F.hardtanh(x, -2, 0.5), "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "hardshrink": F.hardshrink, "softshrink": F.softshrink,
    "tanhshrink": F.tanhshrink, "threshold": lambda x: F.threshold(x, 1, -7),
    "threshold 0": lambda x: F.threshold(x, 0, 0), "elu": F.elu, "elu 0.5": lambda x: F.elu(x, 0.5),
    "celu": F.celu, "celu 1.3": lambda x: F.celu(x, 1.3), "selu": F.selu, "silu": F.silu, "mish": F.mish,
    "gelu": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "softplus": F.softplus,
    "softplus 2 5": lambda x: F.softplus(x, 2, 5), "softsign": F.softsign, "logsigmoid": F.logsigmoid,
    "leaky_relu": F.leaky_relu, "leaky_relu 0.2": lambda x: F.leaky_relu(x, 0.2),
    "prelu": lambda x: F.prelu(x, torch.tensor([a], dtype=x.dtype)), "clamp": lambda x: x.clamp(-1, 1),
    "clamp min": lambda x: x.clamp(min=0), "clamp max": lambda x: x.clamp(max=2),
    "clamp_min": lambda x: x.clamp_min(-1), "clamp_max": lambda x: x.clamp_max(1),
    "clamp equal": lambda x: x.clamp(1, 1), "clamp crossed": lambda x: x.clamp(2, -2),
    "clip": lambda x: torch.clip(x, 0, 6), "clamp_": lambda x: (x * 2).clamp_(-1, 1),
    "clamp inf": lambda x: x.clamp(-INF, INF), "pow 0": lambda x: x**0, "pow 1": lambda x: x**1,
    "pow 2": lambda x: x**2, "pow 3": lambda x: x**3, "pow 0.5": lambda x: x**0.5, "pow -1": lambda x: x**-1,
    "pow -2": lambda x: x**-2, "pow 1.5": lambda x: x**1.5, "2 pow": lambda x: 2**x,
    "0 pow": lambda x: torch.pow(0.0, x), "nan_to_num": torch.nan_to_num,
    "nan_to_num 1": lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0), "isnan": lambda x: x * torch.isnan(x),
    "isinf": lambda x: x * torch.isinf(x), "isfinite": lambda x: torch.where(torch.isfinite(x), x, 0),
    "isposinf": lambda x: torch.isposinf(x).to(x) + x, "isneginf": lambda x: torch.isneginf(x).to(x) + x,
    "remainder": lambda x: x % 2, "remainder -1.5": lambda x: torch.remainder(x, -1.5),
    "fmod": lambda x: torch.fmod(x, 2), "rsub": lambda x: 1 - x, "rdiv": lambda x: 1 / x,
    "floor div": lambda x: torch.div(x, 2, rounding_mode="floor") + x,
    "div trunc": lambda x: torch.div(x, 2, rounding_mode="trunc"),
    "div floor": lambda x: torch.div(x, 0.5, rounding_mode="floor"),
    "masked_fill": lambda x: x.masked_fill(x > 0, 3.0), "where": lambda x: torch.where(x >= 0, x, 2 * x),
    "detach": lambda x: x * x.detach(), "xlogx": lambda x: torch.xlogy(x, x), "ndtr": torch.special.ndtr,
    "relu_": lambda x: (x + 0).relu_(), "mul by itself": lambda x: x * x,
    "long": lambda x: x.clamp(-9, 9).nan_to_num(0).long().to(x.dtype) * x,
    "logical_not": lambda x: torch.logical_not(x).to(x) + x, "bool": lambda x: x.bool().to(x.dtype) + x,
    "not of bool": lambda x: (~(x > 1)).to(x.dtype) * x, "square of abs": lambda x: x.abs().sqrt(),
    "log of clamp": lambda x: x.clamp(min=1e-6).log(),
    "softmax alone": lambda x: x.unsqueeze(-1).softmax(-1).squeeze(-1),
}  # fmt: skip

PAIRS = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "float_power": lambda x, y: torch.float_power(x, y).to(x.dtype), "maximum": torch.maximum,
    "minimum": torch.minimum, "fmax": torch.fmax, "fmin": torch.fmin, "max": torch.max, "min": torch.min,
    "add alpha": lambda x, y: torch.add(x, y, alpha=2), "sub alpha": lambda x, y: torch.sub(x, y, alpha=0.5),
    "rsub": lambda x, y: torch.rsub(x, y), "gt": lambda x, y: (x > y) * x + y,
    "ge": lambda x, y: (x >= y) * x + y, "lt": lambda x, y: (x < y) * x + y,
    "le": lambda x, y: (x <= y) * x + y, "eq": lambda x, y: (x == y) * x + y,
    "ne": lambda x, y: (x != y) * x + y, "and": lambda x, y: torch.logical_and(x, y).to(x) + x,
    "or": lambda x, y: torch.logical_or(x, y).to(x) + x,
    "xor": lambda x, y: torch.logical_xor(x, y).to(x) + x,
    "and of bools": lambda x, y: ((x > 0) & (y > 0)).to(x) + x,
    "or of bools": lambda x, y: ((x > 0) | (y > 0)).to(x) + x,
    "xor of bools": lambda x, y: ((x > 0) ^ (y > 0)).to(x) + x, "hypot": torch.hypot, "atan2": torch.atan2,
    "fmod": torch.fmod, "floor_divide": lambda x, y: torch.div(x, y, rounding_mode="floor") + x,
    "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc") + x, "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2, "clamp by rows": lambda x, y: torch.clamp(x, min=y),
    "clamp below rows": lambda x, y: torch.clamp(x, max=y), "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "lerp 0.75": lambda x, y: torch.lerp(x, y, 0.75),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=0.5), "where": lambda x, y: torch.where(x > y, x, y),
    "ldexp": lambda x, y: torch.ldexp(x, y), "squared_difference": lambda x, y: (x - y).square(),
    "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y, reduction="none"),
    "huber": lambda x, y: F.huber_loss(x, y, reduction="none", delta=1.5),
    "l1": lambda x, y: F.l1_loss(x, y, reduction="none"),
    "bce": lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
    "softmax of two": lambda x, y: torch.stack([x, y], 1).softmax(1)[:, 0],
    "max of stack": lambda x, y: torch.stack([x, y]).max(0).values,
    "amax of stack": lambda x, y: torch.stack([x, y]).amax(0),
    "min of stack": lambda x, y: torch.stack([x, y], -1).min(-1)[0],
    "glu": lambda x, y: F.glu(torch.stack([x, y], 1), 1).squeeze(1),
    "mul in place": lambda x, y: (x + 0).mul_(y), "clamp of sum": lambda x, y: (x + y).clamp(-1.5, 1.5),
}  # fmt: skip

TRIPLES = {
    "where": lambda x, y, z: torch.where(x > 0, y, z), "lerp": torch.lerp, "addcmul": torch.addcmul,
    "addcdiv": torch.addcdiv, "masked_fill": lambda x, y, z: y.masked_fill(x > 0, 2.0) + z,
    "max of three": lambda x, y, z: torch.stack([x, y, z]).max(0).values,
    "max of maxima": lambda x, y, z: torch.maximum(torch.maximum(x, y), z),
}  # fmt: skip

ROW = {  # of the four columns of a row
    "sum": lambda x: x.sum(1), "mean": lambda x: x.mean(1), "prod": lambda x: x.prod(1),
    "amax": lambda x: x.amax(1), "amin": lambda x: x.amin(1), "max": lambda x: x.max(1).values,
    "max -1": lambda x: x.max(-1, keepdim=True)[0].squeeze(-1), "min": lambda x: x.min(1).values,
    "aminmax": lambda x: torch.stack(torch.aminmax(x, dim=1), 1).sum(1),
    "logsumexp": lambda x: x.logsumexp(1), "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1), "softmin": lambda x: F.softmin(x, 1),
    "var": lambda x: x.var(1), "var 0": lambda x: x.var(1, unbiased=False), "std": lambda x: x.std(1),
    "std 0": lambda x: x.std(1, correction=0), "var_mean": lambda x: torch.stack(torch.var_mean(x, 1), 1),
    "std_mean": lambda x: torch.stack(torch.std_mean(x, 1), 1), "norm": lambda x: x.norm(dim=1),
    "norm 1": lambda x: x.norm(1, dim=1), "norm inf": lambda x: x.norm(INF, dim=1),
    "norm -inf": lambda x: x.norm(-INF, dim=1), "norm 3": lambda x: x.norm(3, dim=1),
    "norm 0.5": lambda x: torch.linalg.vector_norm(x, 0.5, dim=1),
    "norm 0": lambda x: torch.linalg.vector_norm(x, 0, dim=1) + x[:, 0],
    "any": lambda x: (x > 1).any(1) * x[:, 1], "all": lambda x: (x > -1).all(1) * x[:, 1],
    "any of numbers": lambda x: x.any(1).to(x) + x[:, 0],
    "count_nonzero": lambda x: torch.count_nonzero(x, 1) + x[:, 0], "nansum": lambda x: x.nansum(1),
    "nanmean": lambda x: x.nanmean(1), "normalize": lambda x: F.normalize(x, dim=1),
    "normalize 1": lambda x: F.normalize(x, 1.0, dim=1), "layer_norm": lambda x: F.layer_norm(x, [4]),
    "group_norm": lambda x: F.group_norm(x, 2), "glu": lambda x: F.glu(x, 1),
    "max of pairs": lambda x: x.view(-1, 2, 2).max(-1).values,
    "max of second": lambda x: x.view(-1, 2, 2).max(1).values,
    "min of pairs": lambda x: x.view(-1, 2, 2).min(2)[0],
    "amax of all": lambda x: x.view(-1, 2, 2).amax((1, 2)), "max of relu": lambda x: x.relu().max(-1).values,
    "argmax weighted": lambda x: (x == x.amax(1, keepdim=True)).to(x) * x,
    "logsumexp of pairs": lambda x: x.view(-1, 2, 2).logsumexp((1, 2)),
    "sum of abs": lambda x: x.abs().sum(1).clamp(min=1),
    "rms": lambda x: x * (x.square().mean(1, keepdim=True) + 1e-6).rsqrt(),
    "diff": lambda x: torch.diff(x, dim=1), "flip": lambda x: x.flip(1), "roll": lambda x: x.roll(1, 1),
    "mse": lambda x: F.mse_loss(x[:, :2], x[:, 2:], reduction="none"),
    "cross_entropy": lambda x: F.cross_entropy(x, (x[:, 0] > 1).long(), reduction="none"),
    "nll": lambda x: F.nll_loss(x, (x[:, 0] > 1).long(), reduction="none"),
    "dot": lambda x: (x[:, :2] * x[:, 2:]).sum(-1),
    "einsum": lambda x: torch.einsum("nk,nk->n", x[:, :2], x[:, 2:]),
}  # fmt: skip

try:
    torch.aminmax(torch.zeros(1, 2, requires_grad=True), dim=1).min.sum().backward()
except RuntimeError:  # versions before 2.7 have no derivative
    del ROW["aminmax"]

ROWS_OF = {  # over all vertices
    "amax": lambda x: x - x.amax(0), "amin": lambda x: x - x.amin(0), "max": lambda x: x - x.max(),
    "min": lambda x: x - x.min(), "max of values": lambda x: x - x.max(0).values,
    "sum": lambda x: x / x.sum(0), "mean": lambda x: x - x.mean(), "var": lambda x: x.var(0) * x,
    "std": lambda x: x.std() * x, "norm": lambda x: x / x.norm(),
    "softmax": lambda x: (x - x.max()).exp() / (x - x.max()).exp().sum(), "all": lambda x: x * (x < 9).all(),
    "any": lambda x: x * (x > 1).any(),
}  # fmt: skip

EDGES = {  # of the three edges into a vertex
    **{how: lambda x, s, t, n, how=how: scatter(x[s], t, 0, n, how)
       for how in ("sum", "mean", "mul", "max", "min")},
    "softmax": lambda x, s, t, n: scatter(softmax(x[s], t, num_nodes=n) * x[s].sign(), t, 0, n),
    "sum of exp": lambda x, s, t, n: scatter(x[s].clamp(-9, 9).exp(), t, 0, n),
    "mean of relu": lambda x, s, t, n: scatter((x[s] - x[t]).relu(), t, 0, n, "mean"),
    "sum of logs": lambda x, s, t, n: scatter((x[s] * x[t]).abs().log(), t, 0, n),
    "quotients": lambda x, s, t, n: scatter(x[s] / x[t], t, 0, n),
    "times exp": lambda x, s, t, n: scatter(x[s] * x[t].exp(), t, 0, n),
    "expm1": lambda x, s, t, n: scatter(x[t].expm1(), t, 0, n, "mean"),
    "max of relu": lambda x, s, t, n: scatter((x[s] + 0.001 * x[t]).clamp(-1, 2), t, 0, n, "max"),
    "sqrt": lambda x, s, t, n: scatter(x[s].sqrt(), t, 0, n),
    "clamp": lambda x, s, t, n: scatter(x[s].clamp(-1, 1) * x[t].clamp(0, 6), t, 0, n),
}  # fmt: skip

KINDS = {"one": ELEMENTS, "two": PAIRS, "three": TRIPLES, "four": ROW, "rows": ROWS_OF, "edges": EDGES}


class Special(nn.Module):
    """Each operation of its own columns of x, beside each other. only: those of these names."""

    def __init__(self, only=None):
        super().__init__()
        self.zero = nn.Parameter(torch.zeros(1))
        self.steps, self.names, at = [], [], 0
        for kind, operations in KINDS.items():
            width = len(INPUTS[kind][0])
            for name, f in operations.items():
                if only is None or f"{kind}: {name}" in only:
                    self.steps.append((kind, f, at, at + width))
                    self.names.append(f"{kind}: {name}")
                    at += width
        self.features = at

    def inputs(self):
        """x, V × columns, in numbers that float32 has. Kinds of fewer points have the last ones again."""
        columns = []
        for kind, *_ in self.steps:
            points = INPUTS[kind] + [(0.5,) * len(INPUTS[kind][0])] * (V - len(INPUTS[kind]))
            columns.append(torch.tensor(points, dtype=torch.float32))
        return torch.cat(columns, 1)

    def one(self, step, x, edge_index):
        kind, f, first, last = step
        columns = x[:, first:last]
        if kind == "edges":
            return f(columns[:, 0], *edge_index, x.size(0))
        return f(columns) if kind == "four" else f(*columns.unbind(1))

    def forward(self, x, edge_index):
        made = [self.one(step, x, edge_index) for step in self.steps]
        return torch.cat([m.reshape(x.size(0), -1) for m in made], 1) + self.zero

    def columns(self, of_inputs=False):
        """The name of the operation of each column that it gives, or reads."""
        names, x = [], self.inputs().double()
        for step, name in zip(self.steps, self.names):
            _, _, first, last = step
            made = last - first if of_inputs else self.one(step, x, edges()).reshape(V, -1).shape[1]
            names += [name] * made
        return names


def computed(module, dtype):
    """What a module gives, and the gradient for x of the sum of its columns times 1, 2, 3, …"""
    x = module.inputs().to(dtype).requires_grad_()
    made = module.to(dtype)(x, edges())
    made.backward(torch.arange(1, made.shape[1] + 1, dtype=dtype).expand_as(made))
    return made.detach(), x.grad
