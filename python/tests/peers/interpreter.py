"""The reference of programs (the operations are those of package program): each operation in PyTorch, by
loops over a dictionary. Dropout is off."""

import json
import math

import torch
from torch.nn import functional as F


def clamp(x, min=None, max=None, strict=False):
    """The gradient passes at the bounds, too, unless strict."""
    low, high = (None if bound is None else torch.tensor(float(bound), dtype=x.dtype) for bound in (min, max))
    above = torch.ones_like(x, dtype=torch.bool) if low is None else x > low if strict else x >= low
    below = torch.ones_like(x, dtype=torch.bool) if high is None else x < high if strict else x <= high
    return torch.where(above & below, x, torch.clamp(x, low, high).detach())


UNARY = {
    name: getattr(torch, name)
    for name in (
        "neg abs sign exp log log1p expm1 sqrt rsqrt reciprocal square sin cos atan tanh sigmoid relu selu "
        "erf floor ceil round"
    ).split()
} | {
    "silu": F.silu,
    "softsign": F.softsign,
    "logsigmoid": F.logsigmoid,
    "detach": torch.detach,
    "not": lambda x: (x == 0).to(x),
    "gelu": lambda x, approximate="none": F.gelu(x, approximate=approximate),
    "elu": lambda x, alpha=1.0: F.elu(x, alpha),
    "celu": lambda x, alpha=1.0: F.celu(x, alpha),
    "leaky_relu": lambda x, slope=0.01: F.leaky_relu(x, slope),
    "softplus": lambda x, beta=1.0, threshold=20.0: F.softplus(x, beta, threshold),
    "clamp": clamp,
    "dropout": lambda x, p: x,
}
BINARY = {
    name: getattr(torch, name)
    for name in "add sub mul div pow fmod atan2 maximum minimum gt ge lt le eq ne".split()
} | {"and": torch.logical_and, "or": torch.logical_or}


class Interpreter:
    """program(parameters, x, edge_index, edge_attr, edge_weight): what the program gives for each vertex."""

    def __init__(self, text):
        self.program = json.loads(text)

    def __call__(self, parameters, x, edge_index, edge_attr=None, edge_weight=None):
        self.parameters, self.x, self.edge_attr, self.edge_weight = parameters, x, edge_attr, edge_weight
        kept, loops = edge_index[:, edge_index[0] != edge_index[1]], torch.arange(len(x)).repeat(2, 1)
        self.loop = edge_index[0] == edge_index[1]
        self.edges = {
            "stored": edge_index,
            "removed": kept,
            "one": torch.cat([kept, loops], 1),
            "added": torch.cat([edge_index, loops], 1),
        }
        self.values = []
        for o in self.program["operations"]:
            o = {k: v for k, v in o.items() if k not in ("path", "line")}
            rows, value = self.run(o.pop("op"), [self.values[k] for k in o.pop("in", [])], **o)
            count = {None: None, "vertices": len(x)}.get(
                rows, self.edges[rows].shape[1] if rows in self.edges else None
            )
            assert count is None or value.shape[0] == count, (o, value.shape)
            self.values.append((rows, value.to(x.dtype)))
        return self.values[self.program["output"]][1]

    def run(self, op, operands, **o):
        rows = next((r for r, _ in operands if r), None)
        assert len({r for r, _ in operands if r}) < 2 or op in ("with_loops", "loop_values"), (op, operands)
        lead = 0 if rows is None else 1
        tensors = [v for _, v in operands]
        if op in UNARY:
            return rows, UNARY[op](*tensors, **o)
        if op in BINARY or op == "where":
            columns = max(v.dim() - (r is not None) for r, v in operands)
            wide = [
                v if r is None else v.reshape(v.shape[:1] + (1,) * (columns + 1 - v.dim()) + v.shape[1:])
                for r, v in operands
            ]
            return rows, torch.where(wide[0] != 0, *wide[1:]) if op == "where" else BINARY[op](*wide)
        op += "_" * (op == "edge_weight")
        if hasattr(self, op) and op != "edge_weight":
            return getattr(self, op)(*operands, **o)
        x = tensors[0]
        head, shape = list(x.shape[:lead]), list(x.shape[lead:])
        dims = [d + lead for d in o.get("dims") or range(len(shape))]
        keep = o.get("keep", False)
        simple = {
            "reshape": lambda: x.reshape(head + o["shape"]),
            "expand": lambda: x.expand(head + o["shape"]),
            "permute": lambda: x.permute([*range(lead), *dims]),
            "flip": lambda: x.flip(dims),
            "cat": lambda: torch.cat(tensors, o["dim"] + lead),
            "slice": lambda: x[
                (slice(None),) * (o["dim"] + lead) + (slice(o["start"], o["stop"], o.get("step", 1)),)
            ],
            "sum": lambda: x.sum(dims, keep),
            "mean": lambda: x.mean(dims, keep),
            "max": lambda: x.max(*dims, keep).values if o.get("first") else x.amax(dims, keep),
            "min": lambda: x.min(*dims, keep).values if o.get("first") else x.amin(dims, keep),
            "logsumexp": lambda: x.logsumexp(dims, keep),
            "softmax": lambda: x.softmax(o["dim"] + lead),
            "log_softmax": lambda: x.log_softmax(o["dim"] + lead),
            "linear": lambda: F.linear(*tensors),
            "layer_norm": lambda: F.layer_norm(x, [x.shape[d] for d in dims], *tensors[1:], eps=o["eps"]),
        }
        return rows, simple[op]()

    def features(self, shape):
        return "vertices", self.x

    def edge_features(self, shape):
        return "stored", self.edge_attr

    def edge_weight_(self):
        return "stored", self.edge_weight

    def parameter(self, name):
        return None, self.parameters[name]

    def constant(self, shape, values):
        values = [float(v) for v in values] * (math.prod(shape) if len(values) == 1 else 1)
        return None, torch.tensor(values, dtype=self.x.dtype).reshape(shape)

    def vertices(self):
        return None, torch.tensor(float(len(self.x)), dtype=self.x.dtype)

    def ones(self, rows, loops="stored"):
        count = len(self.x) if rows == "vertices" else self.edges[loops].shape[1]
        return rows if rows == "vertices" else loops, self.x.new_ones(count)

    def gather(self, x, end, loops):
        assert x[0] == "vertices"
        return loops, x[1][self.edges[loops][int(end == "target")]]

    def scatter(self, e, reduce, end="target"):
        rows, value = e
        kind = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "mul": "prod"}[reduce]
        index = self.edges[rows][int(end == "target")].reshape(-1, *(1,) * (value.dim() - 1)).expand_as(value)
        start = value.new_full((len(self.x), *value.shape[1:]), float(reduce == "mul"))
        return "vertices", start.scatter_reduce(0, index, value, kind, include_self=reduce == "mul")

    def edge_softmax(self, e, end="target"):
        rows, value = e
        index = self.edges[rows][int(end == "target")]
        most = self.scatter((rows, value.detach()), "max", end)[1][index]
        value = (value - most).exp()
        return rows, value / (self.scatter((rows, value), "sum", end)[1][index] + 1e-16)

    def without_loops(self, e):
        assert e[0] == "stored"
        return "removed", e[1][~self.loop]

    def with_loops(self, e, v):
        loops = v[1] if v[0] else v[1].expand((len(self.x), *v[1].shape))
        return {"removed": "one", "stored": "added"}[e[0]], torch.cat([e[1], loops])

    def loop_values(self, e, v):
        return "vertices", v[1].index_put((self.edges["stored"][0][self.loop],), e[1][self.loop])

    def row_sum(self, v):
        assert v[0] == "vertices"
        return None, v[1].sum(0)

    def row_mean(self, v):
        assert v[0] == "vertices"
        return None, v[1].mean(0)

    def row_max(self, v):
        return None, v[1].amax(0)

    def row_min(self, v):
        return None, v[1].amin(0)

    def matmul(self, x, y):
        return x[0] or y[0], self._matmul(x, y)

    @staticmethod
    def _matmul(x, y):
        if y[0] is None:
            return (
                x[1] @ y[1]
                if x[0] is None or x[1].dim() != 2 or y[1].dim() == 2
                else (x[1].unsqueeze(-2) @ y[1]).squeeze(-2)
            )
        left = x[1].unsqueeze(-2) if x[1].dim() == 2 else x[1]
        columns = max(left.dim(), y[1].dim())
        left, right = (
            v.reshape(v.shape[:1] + (1,) * (columns - v.dim()) + v.shape[1:]) for v in (left, y[1])
        )
        out = left @ right
        return out.squeeze(-2) if x[1].dim() == 2 else out

    def batch_norm(
        self, x, eps, momentum=None, weight=None, bias=None, mean=None, variance=None, batches=None
    ):
        assert x[0] == "vertices"
        get = self.parameters.get
        return x[0], F.batch_norm(x[1], None, None, get(weight), get(bias), True, momentum or 0.1, eps)
