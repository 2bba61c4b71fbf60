"""Views of tensors, and what an operation in place writes through them."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy
import torch

from .._values import Chosen, Edges, Ends, Fill, Loops, Parts, Rows, Unlowerable, Value, Vertices
from .nodes import bounds, operands, writes_first
from .refused import KEEPS
from .values import Values

SAME = set("detach alias contiguous to lift_fresh type_as".split())
VIEWS = set(
    "view view_as _unsafe_view reshape reshape_as _reshape_alias unsqueeze squeeze flatten unflatten".split()
)
MOVES = set("permute transpose t swapaxes movedim".split())
SHAPED = VIEWS | MOVES | {"expand", "expand_as"}
ALIASES = SAME | SHAPED | {"slice", "select"}


class Views(Values, abc.ABC):
    """The values of nodes, of which some are views of others."""

    def __init__(self, rows: dict[sympy.Expr, Rows], source_line: Callable[[Any], str]) -> None:
        super().__init__(rows, source_line)
        self.env: dict[Any, Any] = {}  # what each node is
        self.views: dict[Any, list[Any]] = {}  # the nodes that are views of a node
        self.state: dict[Any, str] = {}  # the names of the module's parameters and buffers, by their nodes
        self.input_names: dict[Any, str] = {}  # the names of what forward is called with, by their nodes
        self.outer: dict[Any, Any] = {}  # the node that is passed to an input of a block
        self.counters = set[str]()  # the buffers that it may change
        self.updates: dict[str, Any] = {}  # what a step of training makes of buffers, by their names

    @abc.abstractmethod
    def lowered(self, node: Any, args: Any, kwargs: Any) -> Any:
        """What a node is, by its operands. A view is lowered again when its base has changed."""

    def shaped(self, name: str, x: Any, named: dict[str, Any]) -> Any:
        """What a view is: its rows stay, and the columns of a row get another shape."""
        if isinstance(x, (Ends, Loops, Chosen)):
            return x
        if isinstance(x, (Edges, Vertices)):
            if len(self.node.meta["val"].shape) == 2 and name == "expand" and isinstance(x, Vertices):
                return replace(x, pairs=True)
            if name in MOVES:
                raise Unlowerable("edge_index is transposed: take its rows, edge_index[0] and edge_index[1]")
            return x
        rows, shape, axis = self.layout()
        if isinstance(x, Fill):
            return Fill(x.number, rows, shape, axis)
        x = self.value(x)
        if name in MOVES:
            return self.moved(x, order_of(name, named, x.dim))
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
                "a view mixes vertices or edges with columns: keep the first dimension, as in "
                "x.view(x.size(0), -1)"
            )
        if x.rows != rows:
            return self.regrouped(x, rows, shape, axis)
        return self.reshape(x, shape, axis)

    def moved(self, x: Value, order: list[int]) -> Value:
        """x with PyTorch's dimensions in another order."""
        if x.rows is None:
            return self.permute(x, order)
        return self.permute(x, [d - (d > x.axis) for d in order if d != x.axis], order.index(x.axis))

    def assign(self, node: Any, result: Any) -> None:
        """Gives a node what an operation has written into it. A view passes that on to its base, and the base
        to all its views."""
        if node.op == "call_function" and node.args and node in self.views.get(node.args[0], ()):
            self.assign(node.args[0], self.written(node, node.args[0], result))
            return
        if name := self.state.get(node):
            if name not in self.counters:
                raise Unlowerable(f"forward changes {name}: {KEEPS}")
            self.updates[name] = result
        if name := self.input_names.get(node):
            raise Unlowerable(
                f"forward writes into {name}, with which it is called again: begin with {name} = "
                f"{name}.clone()"
            )
        self.env[node] = result
        self.again(node)
        if node in self.outer:
            self.assign(self.outer[node], result)

    def again(self, base: Any) -> None:
        """Lowers the views of a node anew, after its value has changed."""
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
        if name in SAME or writes_first(view.target):
            return new
        old, new = self.value(old), self.value(new)
        new = self.filled(new, [old])
        if name in VIEWS:
            return self.reshape(new, old.shape, old.axis)
        if name in MOVES:
            order = order_of(name, operands(view.target._schema, view.args, view.kwargs), old.dim)
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
        """An edge_index of which one row was shifted: its vertices are numbered from another first number."""
        end = ("source", "target")[(row % 2) != edges.reverse]
        if (ends.rows, ends.end) != (edges.rows, end):
            raise Unlowerable("other ends are written into edge_index: make it anew by torch.stack")
        source, target = edges.first
        return replace(edges, first=(ends.first, target) if end == "source" else (source, ends.first))

    def is_mask(self, index: Value | Parts, indices: list[Any]) -> bool:
        """Whether one of the indices of the node is a mask."""
        node = self.node.args[1]
        return isinstance(node, (list, tuple)) and bool(
            node[indices.index(index)].meta["val"].dtype == torch.bool
        )

    def whole(self, view: Any) -> bool:
        """Whether a view is of all that its base has."""
        return bool(view.meta["val"].shape == view.args[0].meta["val"].shape)


def order_of(name: str, named: dict[str, Any], dim: int) -> list[int]:
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
