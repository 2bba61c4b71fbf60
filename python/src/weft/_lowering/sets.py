"""Operations on rows of several sets, one set after another: edges of several relations, edges with self
loops that are joined to them, or vertices of several types. Each set is lowered by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy
import torch

from .._values import Chosen, Ends, Fill, Parts, Unlowerable
from .nodes import every, free_sizes, operands
from .views import Views

_MAKES = set("zeros ones full empty new_zeros new_ones new_full new_empty".split())
AGGREGATES = set("scatter_add index_add scatter_reduce index_put".split())
PLACES = AGGREGATES | set("index_select index gather scatter".split())
_SPLITS = set("split split_with_sizes".split())
SHIFTED = (
    "edge_index is shifted by another number than that of the first vertex of a type: join the rows of types "
    "in the order in which the ends are numbered"
)


class Sets(Views):
    """What is done with rows of several sets, and with what aggregates them."""

    def parted(self, node: Any, args: Any, kwargs: Any) -> sympy.Expr | None:
        """The size of the rows of several sets that an operation is on; None: it is on rows of one set."""
        if self.name in _MAKES:
            return next((e for e in free_sizes(node) if e in self.joined and e not in self.rows), None)
        size = next((a.size for a in every(args, kwargs) if isinstance(a, Parts)), None)
        longer = size is not None and self.name in ("cat", "concat") and size not in free_sizes(node)
        return None if longer else size

    def by_part(self, size: sympy.Expr, node: Any, args: Any, kwargs: Any) -> Any:
        """Lowers an operation on rows of several sets, set by set. An aggregation of a set begins with the
        result of the set before it."""
        if self.name in _MAKES:  # of what has their type
            args = torch.utils._pytree.tree_map_only(Parts, lambda p: p.parts[0], args)
        every_part = [a for a in every(args, kwargs) if isinstance(a, Parts)]
        several = every_part[0].rows if every_part else self.joined[size]
        if self.name.endswith(("batch_norm", "instance_norm")):
            raise Unlowerable(
                "a batch norm over rows of several sets at once: give each set one of its own, or write "
                "nn.LayerNorm"
            )
        if self.name in PLACES and len({a.size for a in every_part}) > 1:
            return self.between_types(node, args, kwargs)
        if self.name in _SPLITS and self.of_rows(args):
            return self.split(node, args[0])
        if any(a.size != size or a.rows != several for a in every_part):
            raise Unlowerable("edges of several sets meet others: join both in the same order")
        if self.name == "index" and (
            masks := [a for a in every_part if all(isinstance(m, Fill) for m in a.parts)][-1:]
        ):
            if self.is_mask(masks[0], args[1]):
                return self.of_some_sets(masks[0], node, args)
        aggregates = self.name in AGGREGATES
        args, kwargs, finished = self.from_least(node, args, kwargs) if aggregates else (args, kwargs, None)
        known = dict(self.rows)
        made: list[Any] = []
        for k, rows in enumerate(several):
            self.rows[size] = rows
            call = torch.utils._pytree.tree_map_only(Parts, lambda p, k=k: p.parts[k], (args, kwargs))
            if aggregates and k:
                call = ((made[-1], *call[0][1:]), call[1])
            made.append(self.lowered(node, *call))
        self.rows = known
        if finished:
            return finished(made[-1])
        lists = made if isinstance(made[0], (list, tuple)) else [[m] for m in made]
        results = []
        for parts in zip(*lists):
            result = Parts(parts, next((e for e in free_sizes(node) if e not in known), size))
            if None in result.rows and not isinstance(parts[0], Chosen):
                combined = {
                    "sum": "add",
                    "max": "maximum",
                    "amax": "maximum",
                    "min": "minimum",
                    "amin": "minimum",
                }
                if self.name not in combined:
                    raise Unlowerable(f"{self.name} over edges of several sets: aggregate to vertices first")
                return functools.reduce(functools.partial(self.elementwise, combined[self.name]), made)
            self.joined.setdefault(result.size, result.rows)
            results.append(result)
        return results if isinstance(made[0], (list, tuple)) else results[0]

    def between_types(self, node: Any, args: Any, kwargs: Any) -> Parts:
        """Reads rows of vertices of several types, or aggregates to them, by the ends of edges of several
        sets."""
        rows, ends = args[0], next((a for a in every(args[1:], kwargs) if isinstance(a, Parts)), args[0])
        if not isinstance(rows, Parts) or not all(isinstance(e, Ends) for e in ends.parts):
            raise Unlowerable("rows of several sets meet those of others: join both in the same order")
        sizes = [self.size_of(rows) for rows in rows.rows]
        starts = [sympy.expand(sympy.Add(*sizes[:k])) for k in range(len(sizes))]
        if not {e.first for e in ends.parts} <= set(starts):
            raise Unlowerable(SHIFTED)
        known, made = dict(self.rows), []

        def call(part: Any, sets: list[int]) -> Any:
            """With one of the types, and some of the edge sets in the place of all."""

            def chosen(p: Parts) -> Any:
                if p is rows:
                    return part
                ends_of_sets = (p.parts[k] for k in sets)
                return Parts(
                    tuple(replace(e, first=sympy.S.Zero) if isinstance(e, Ends) else e for e in ends_of_sets),
                    p.size,
                )

            return self.by_part(
                ends.size, node, *torch.utils._pytree.tree_map_only(Parts, chosen, (args, kwargs))
            )

        if self.name in AGGREGATES:
            for start, part in zip(starts, rows.parts):
                self.rows[rows.size] = part.rows
                sets = [k for k, e in enumerate(ends.parts) if e.first == start]
                made.append(call(part, sets) if sets else part)
        else:
            for k, e in enumerate(ends.parts):
                made += call(rows.parts[starts.index(e.first)], [k]).parts
        self.rows = known
        return Parts(tuple(made), rows.size if self.name in AGGREGATES else ends.size)

    def of_rows(self, args: Any) -> bool:
        """Whether an operation on rows of several sets is along these."""
        dim = operands(self.node.target._schema, args, {})["dim"]
        shape = self.node.args[0].meta["val"].shape
        return isinstance(args[0], Parts) and not isinstance(shape[dim], int)

    def split(self, node: Any, x: Parts) -> list[Any]:
        """The rows of each of several sets, where an operation splits them as they were joined."""
        sizes = [
            sympy.expand(s.node.expr)
            for made in node.meta["val"]
            for s in made.shape
            if not isinstance(s, int)
        ]
        if sizes != [self.size_of(rows) for rows in x.rows]:
            raise Unlowerable(
                "rows of several sets are split otherwise than between these: split them as they were joined"
            )
        return list(x.parts)

    def of_some_sets(self, mask: Parts, node: Any, args: Any) -> Any:
        """Rows of those sets in which a mask is true everywhere. In the others it is true nowhere, as a mask
        of one type of edges is."""
        if not isinstance(args[0], Parts):
            raise Unlowerable("a mask of edges of several sets chooses among others")
        (size,) = free_sizes(node)
        kept = tuple(part for part, m in zip(args[0].parts, mask.parts) if m.number)
        if not kept:  # those of the first set, of which none counts
            return self.lowered(
                node, (args[0].parts[0], [i and self.value(mask.parts[0]) for i in args[1]]), {}
            )
        if len(kept) > 1:
            made = Parts(kept, size)
            self.joined.setdefault(size, made.rows)
            return made
        self.rows[size] = kept[0].rows
        return kept[0]

    def from_least(self, node: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
        """The operands of a maximum or minimum over several sets, which begins with a number that no value
        has. The function that is returned last puts what was there before in the place of that number."""
        named = operands(node.target._schema, args, kwargs)
        least = {"amax": -(2.0**127), "amin": 2.0**127}.get(
            named.get("reduce", "")
        )  # as rows of bfloat16 hold it
        if named.get("include_self", True) or named["reduce"] not in ("amax", "amin", "mean"):
            return args, kwargs, lambda out: out
        if least is None:
            raise Unlowerable("a mean over edges of several sets: divide their sum by their number")
        begin = Fill(least, *self.layout())

        def cleared(out: Any) -> Any:
            none = self.pointwise("eq", out, self.constant(least))
            return self.elementwise("where", none, named["self"], out)

        return (begin, *args[1:]), kwargs | {"include_self": True}, cleared
