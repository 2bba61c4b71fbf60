"""Functions of PyTorch that are written out while a module is traced, as operations that a program has.

torch.export would leave them whole, or fail at them: recurrent layers over sequences of a fixed length, sums
and repetitions along columns, and products with sparse matrices whose indices are edges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ._values import Unlowerable

#: Stands for the number of graphs in a batch where forward asks for a number of Python, as by
#: int(batch.max()) + 1: a prime that is no size of a layer.
LARGEST = 1_299_709

_CALLS = 20_000  # of PyTorch, in a forward that counts the graphs of a batch
_CHOICES = 20  # of one graph of the batch, as by batch == 3


class Written(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Calls the function of this file that has the name of one of PyTorch's, if it has one.

    A parameter that a closure, a partial or a hook holds becomes the one that stands for it in the module
    while that is traced.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.largest: list[Tensor] = []  # the largest numbers in batches
        self.calls = self.choices = 0  # since forward has asked for the largest
        self.tensors: dict[int, tuple[dict[str, Any], str, Tensor]] = {}
        for layer in module.modules():
            for group in (layer._parameters, layer._buffers):
                self.tensors |= {id(t): (group, name, t) for name, t in group.items() if t is not None}

    def current(self, value: Any) -> Any:
        """A tensor in the place of one of the module's, also in a list."""
        if type(value) in (list, tuple):
            return type(value)(map(self.current, value))
        if type(value) not in (Tensor, nn.Parameter):
            return value
        if id(value) in self.tensors:
            group, name, _ = self.tensors[id(value)]
            return group.get(name, value)
        if value.requires_grad:
            raise Unlowerable(
                f"a parameter of {tuple(value.shape)} is read that is none of the module's: register it, as "
                "by self.w = w, or read it by self and not by a global name"
            )
        return value

    def counted(self, value: Any) -> Any:
        """The number of graphs in the place of the one that stands for it."""
        return self.module.graphs if type(value) is int and value == LARGEST else value

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = tuple(map(self.current, args))
        kwargs = {name: self.current(value) for name, value in (kwargs or {}).items()}
        if batches := getattr(self.module, "batches", ()):
            args, kwargs = torch.utils._pytree.tree_map(self.counted, (args, kwargs))
            name = getattr(function, "__name__", "")
            if name in ("max", "amax") and len(args) == 1 and any(args[0] is batch for batch in batches):
                self.largest.append(function(*args))
                return self.largest[-1]
            if name in ("__int__", "item") and any(args[0] is largest for largest in self.largest):
                return LARGEST - 1 if name == "__int__" else self.module.graphs - 1
            self.calls += bool(self.largest)
            if name in ("eq", "__eq__") and self.largest and type(args[1]) is int:
                self.choices += any(args[0] is batch for batch in batches)
            if self.calls > _CALLS or self.choices > _CHOICES:
                raise Unlowerable(
                    "forward goes through the graphs of the batch one by one: pool them by batch, as "
                    "global_add_pool(h, batch)"
                )
        replacement = _WRITTEN.get(getattr(function, "__name__", ""))
        done = NotImplemented if replacement is None else replacement(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {})) if done is NotImplemented else done


def _bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x·W_k·y for each matrix W_k."""
    out, left, right = weight.shape
    made = F.linear(x, weight.permute(0, 2, 1).reshape(out * right, left)).unflatten(-1, (out, right))
    made = (made * y.unsqueeze(-2)).sum(-1)
    return made if bias is None else made + bias


# -- attention over the dimensions of a row, as over hops


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if not _is_row(query) or not _is_row(key) or is_causal or enable_gqa:
        return NotImplemented
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        scores = (
            scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        )
    return F.dropout(scores.softmax(-1), dropout_p, dropout_p > 0) @ value


def _is_row(x: Tensor) -> bool:
    """Whether a sequence, the last dimension but one, is of one length in each row."""
    return x.dim() > 2 and isinstance(x.shape[-2], int)


def _heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    weight: Any,
    bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_weight: Tensor,
    out_bias: Any,
    training: bool = True,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    **more: Any,
) -> Any:
    """Of sequences of one length, which are the first dimension."""
    others = more.get("key_padding_mask"), more.get("attn_mask"), bias_k, bias_v
    if query.dim() != 3 or not all(isinstance(x.shape[0], int) for x in (query, key)):
        return NotImplemented
    if any(x is not None for x in others) or add_zero_attn or more.get("is_causal"):
        raise Unlowerable(
            "attention with a mask or a bias of its own: leave it out, or write softmax and products"
        )
    parts = weight.chunk(3) if weight is not None else [more[f"{k}_proj_weight"] for k in "qkv"]
    biases = [None] * 3 if bias is None else bias.chunk(3)
    q, k, v = (F.linear(x.transpose(0, 1), w, b).unflatten(-1, (heads, -1)).transpose(1, 2)
               for x, w, b in zip((query, key, value), parts, biases))  # fmt: skip
    weights = (q @ k.transpose(-2, -1) * (width // heads) ** -0.5).softmax(-1)
    made = F.dropout(weights, dropout_p, training) @ v
    made = F.linear(made.transpose(1, 2).flatten(2), out_weight, out_bias).transpose(0, 1)
    return made, (weights.mean(1) if average_attn_weights else weights) if need_weights else None


# -- recurrent layers: the equations of torch.nn


def _gates(x: Tensor, h: Tensor, weights: Sequence[Any], count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """What x and h add to each gate."""
    w, v, *biases = weights
    b, c = biases or (None, None)
    return zip(F.linear(x, w, b).chunk(count, -1), F.linear(h, v, c).chunk(count, -1))


def _gru_cell(x: Tensor, h: Tensor, *weights: Any) -> Tensor:
    (a, b), (c, d), (e, f) = _gates(x, h, weights, 3)
    new = torch.tanh(e + torch.sigmoid(a + b) * f)
    return new + torch.sigmoid(c + d) * (h - new)


def _lstm_cell(x: Tensor, state: tuple[Tensor, Tensor], *weights: Any) -> tuple[Tensor, Tensor]:
    into, keep, new, out = (a + b for a, b in _gates(x, state[0], weights, 4))
    cell = torch.sigmoid(keep) * state[1] + torch.sigmoid(into) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def _rnn_cell(activation: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def cell(x: Tensor, h: Tensor, *weights: Any) -> Tensor:
        ((a, b),) = _gates(x, h, weights, 1)
        return activation(a + b)

    return cell


def _sequence(cell: Callable[..., Any], states: int) -> Callable[..., Any]:
    """A recurrent layer: each state is layers · directions × rows × width."""

    def run(
        x: Any,
        hx: Any,
        weights: Any,
        biases: Any,
        layers: int,
        dropout: float,
        train: bool,
        both: bool,
        first: bool,
    ) -> Any:
        if not isinstance(biases, bool) or isinstance(x.shape[int(first)], torch.SymInt):
            raise Unlowerable(
                "a recurrent layer runs over all vertices or edges, or over some of each row's: give it rows "
                "× length × width with batch_first=True, of one length"
            )
        per_layer, steps = 2 + 2 * biases, list(x.unbind(int(first)))
        if len(weights) != per_layer * layers * (1 + both):
            raise Unlowerable("a recurrent layer has proj_size: project by nn.Linear")
        initial, last = (hx,) if states == 1 else tuple(hx), []
        for layer in range(layers):
            if layer and dropout and train:
                steps = [F.dropout(s, dropout, True) for s in steps]
            ways = []
            for way in range(1 + both):
                k = layer * (1 + both) + way
                state = initial[0][k] if states == 1 else tuple(s[k] for s in initial)
                made = []
                for step in steps[::-1] if way else steps:
                    state = cell(step, state, *weights[per_layer * k : per_layer * k + per_layer])
                    made.append(state if states == 1 else state[0])
                ways.append(made[::-1] if way else made)
                last.append((state,) if states == 1 else state)
            steps = [torch.cat(s, -1) for s in zip(*ways)] if both else ways[0]
        return torch.stack(steps, int(first)), *(torch.stack(s) for s in zip(*last))

    return run


# -- along columns


def _along(x: Tensor, dim: int) -> bool:
    return not isinstance(x.shape[dim], torch.SymInt)


def _cumsum(x: Tensor, dim: int, **_: Any) -> Any:
    if not _along(x, dim):
        return NotImplemented
    until = torch.ones(x.shape[dim], x.shape[dim], dtype=x.dtype).triu()
    return (x.transpose(dim, -1) @ until).transpose(dim, -1)


def _repeat_interleave(x: Tensor, repeats: Any, dim: int | None = None, **_: Any) -> Any:
    if not isinstance(repeats, int) or dim is None or not _along(x, dim):
        return NotImplemented
    dim %= x.dim()
    return torch.stack([x] * repeats, dim + 1).flatten(dim, dim + 1)


def _item(x: Tensor, at: Any) -> Any:
    """x[:, …] without the colon, at which PyTorch 2.6 compares a number of rows that it does not know; and
    x[mask], of which PyTorch before 2.15 asks later on whether it has rows."""
    if isinstance(at, Tensor) and at.dtype == torch.bool:
        made = x[at]
        if isinstance(made.shape[0], torch.SymInt):
            torch._check(made.shape[0] > 0)
        return made
    if type(at) is not tuple or at[:1] != (slice(None),) or not all(map(_is_number, at)):
        return NotImplemented
    dim = 0
    for part in at:
        if part is None:
            x = x.unsqueeze(dim)
        elif isinstance(part, slice):
            x = (
                x
                if part == slice(None)
                else torch.ops.aten.slice.Tensor(x, dim, part.start, part.stop, part.step or 1)
            )
        else:
            x = x.select(dim, part)
        dim += not isinstance(part, int)
    return x


def _is_number(at: Any) -> bool:
    """Whether an index is a number, or a slice of such, or makes a dimension."""
    parts = (at.start, at.stop, at.step) if isinstance(at, slice) else (at,)
    return all(type(part) in (int, type(None)) for part in parts)


def _cross_entropy(x: Tensor, target: Tensor, *more: Any, **named: Any) -> Any:
    """Of some rows, and of probabilities, as PyTorch 2.15 reads it: earlier ones take the numbers of rows of
    two masks for different, and those of two matrices for fixed."""
    if target.is_floating_point():
        return _of_probabilities(x, target, *more, **named)
    if isinstance(x.shape[0], torch.SymInt) and not x.shape[0].node.has_hint():
        torch._check(x.shape[0] == target.shape[0])
    return NotImplemented


def _of_probabilities(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *_: Any,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    **__: Any,
) -> Any:
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / x.shape[1]
    made = x.log_softmax(1) * target
    made = made if weight is None else made * weight
    if reduction == "none":
        return -made.sum(1)
    return -made.sum() / (x.shape[0] if reduction == "mean" else 1)


# -- sparse matrices


class _Sparse:
    """A matrix whose indices are edges: row · column, of all vertices."""

    layout = torch.sparse_coo

    def __init__(self, indices: Tensor, entries: Tensor, size: Any) -> None:
        self.edges, self.entries, self.shape = indices, entries, tuple(size)

    def coalesce(self) -> _Sparse:
        return self

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def t(self) -> _Sparse:
        return _Sparse(self.edges.flip(0), self.entries, self.shape[::-1])

    def transpose(self, *_: int) -> _Sparse:
        return self.t()

    T = property(t)

    def __matmul__(self, x: Tensor) -> Tensor:
        messages = self.entries.view(-1, *(1,) * (x.dim() - 1)) * x[self.edges[1]]
        return x.new_zeros((self.shape[0], *x.shape[1:])).index_add(0, self.edges[0], messages)

    def __getattr__(self, name: str) -> Any:
        raise Unlowerable(
            f"{name} of a sparse matrix: a program multiplies rows by such, adj @ x; give edge_index to "
            "propagate"
        )

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name not in _PRODUCTS:
            raise Unlowerable(
                f"{name.strip('_')} of a sparse matrix: a program multiplies rows by such, adj @ x; give "
                "edge_index to propagate"
            )
        return args[0] @ args[1]


_PRODUCTS = ("mm", "spmm", "matmul", "_sparse_mm", "__matmul__", "mv")


def _sparse(indices: Tensor, entries: Tensor, size: Any = None, **_: Any) -> Any:
    return NotImplemented if size is None else _Sparse(indices, entries, size)


def _hook(*_: Any) -> Any:
    raise Unlowerable(
        "a hook changes a gradient: write it by plain operations, as h.detach() + s * (h - h.detach())"
    )


_CELLS = {
    "gru": _gru_cell,
    "lstm": _lstm_cell,
    "rnn_tanh": _rnn_cell(torch.tanh),
    "rnn_relu": _rnn_cell(torch.relu),
}
_WRITTEN: dict[str, Callable[..., Any]] = {
    **{f"{name}_cell": cell for name, cell in _CELLS.items()},
    **{name: _sequence(cell, 1 + (name == "lstm")) for name, cell in _CELLS.items()},
    "__getitem__": _item,
    "cross_entropy": _cross_entropy,
    "cumsum": _cumsum,
    "cosh": lambda x: (x.exp() + (-x).exp()) / 2,
    "sinh": lambda x: (x.expm1() - (-x).expm1()) / 2,
    "bilinear": _bilinear,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _heads,
    "repeat_interleave": _repeat_interleave,
    "sparse_coo_tensor": _sparse,
    "register_hook": _hook,
}
