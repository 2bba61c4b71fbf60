"""The messages that a reduce function of Python gets: sums and the like over a vertex's messages become
aggregations along edges."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class Relation(Protocol):
    """The edges along which the messages came, as a Graph has them."""

    def counted(self, end: int) -> Tensor: ...
    def rows(self, end: int) -> Any: ...
    def reduced(self, values: Tensor, name: str) -> Tensor: ...
    def softmax(self, values: Tensor, end: int) -> Tensor: ...
    def along(self, values: Any, frame: str) -> Any: ...


class Mailbox:
    """The messages of each vertex in a reduce function of Python, which takes them for an array of
    vertices × messages.

    Here they are a row for each edge. Known are operations element by element, and sums, means and the like
    over dimension 1.
    """

    def __init__(self, graph: Relation, values: Tensor) -> None:
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

    def softmax(self, dim: int | None = None, **_: Any) -> Mailbox:
        if dim != 1:
            raise NotImplementedError(f"softmax over dimension {dim} of a mailbox: give dim=1")
        return Mailbox(self.graph, self.graph.softmax(self.values, 1))

    def unsqueeze(self, dim: int) -> Mailbox:
        if 0 <= dim < 2 or dim < -self.values.dim():
            raise NotImplementedError(f"unsqueeze({dim}) of a mailbox: add dimensions behind the first two")
        return Mailbox(self.graph, self.values.unsqueeze(dim - (dim > 0)))

    def __getitem__(self, at: Any) -> Mailbox:
        at = at if isinstance(at, tuple) else (at,)
        if any(part not in (slice(None), Ellipsis) for part in at[:2]):
            raise NotImplementedError("some of a mailbox's messages: they have no order")
        return Mailbox(self.graph, self.values[at[:1] if at[0] is Ellipsis else (slice(None), *at[2:])])

    def along(self, value: Any) -> Any:
        """An operand for each edge. What a reduction with keepdim gave a vertex meets each of its
        messages."""
        if isinstance(value, Mailbox):
            return value.values
        if not isinstance(value, Tensor) or value.dim() <= self.values.dim():
            return value
        if value.shape[1] != 1:
            raise NotImplementedError(
                "rows of vertices meet their messages: reduce these with keepdim=True, or unsqueeze(1)"
            )
        return self.graph.along(value.squeeze(1), "v")

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "").strip("_")
        box = next(leaf for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(leaf, cls))
        if name in _ELEMENTWISE:
            args, kwargs = torch.utils._pytree.tree_map(box.along, (args, kwargs or {}))
            return cls(box.graph, function(*args, **kwargs))
        if not hasattr(cls, name) or not args or args[0] is not box:
            raise NotImplementedError(
                f"{name} of a mailbox is not known to weft: use sum, mean, max or min over dimension 1"
            )
        return getattr(box, name)(*args[1:], **(kwargs or {}))


_ELEMENTWISE = frozenset(
    "abs neg exp log sqrt rsqrt square sigmoid tanh relu leaky_relu elu gelu silu softplus clamp where add "
    "sub mul div truediv pow radd rsub rmul rdiv rtruediv rpow true_divide multiply subtract divide maximum "
    "minimum gt ge lt le eq ne".split()
)


class _Count:
    """A number for each vertex, as its count of messages, which a reduce function takes for one number. In
    operations it broadcasts to rows."""

    def __init__(self, count: Tensor) -> None:
        self.count = count

    def __array_ufunc__(self, function: Any, method: str, *args: Any) -> Any:  # of NumPy
        return self.__torch_function__(getattr(torch, function.__name__), (), args)

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        rows = [leaf.dim() for leaf in torch.utils._pytree.tree_leaves(args) if isinstance(leaf, Tensor)]

        def reshaped(value: Any) -> Any:
            return (
                value.count.view(-1, *(1,) * (max(rows, default=1) - 1)) if isinstance(value, cls) else value
            )

        made = function(*torch.utils._pytree.tree_map(reshaped, args), **(kwargs or {}))
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


_operators(Mailbox)
_operators(_Count)
