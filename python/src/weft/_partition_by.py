"""The tensor of a call by which vertices are divided: their positions, or their partitions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ._errors import Refused
from ._structure import Structure
from ._trace import forward_of


def taken(name: str, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What a call has by a name: an argument, a field of a Data, or a keyword that forward does not take,
    which leaves the call.

    Raises:
        Refused: it has none.
    """
    signature = inspect.signature(forward_of(module))
    if name in named and name not in signature.parameters:
        return named.pop(name)
    found = signature.bind(*arguments, **named).arguments
    first = next(iter(found.values()), None)
    if name in found:
        return found[name]
    if hasattr(first, "stores"):
        for field in (f"{name}_dict", name):
            if getattr(first, field, None) is not None:
                return getattr(first, field)
    raise Refused(
        f"partition_by: the call gives no {name!r}: give it, as net(x, edge_index, {name}={name}), or as a "
        "field of a Data"
    )


def divided_by(structure: Structure, name: str, value: Any) -> Structure:
    """The same graph with what divides its vertices.

    Raises:
        Refused: the tensor does not go with the vertices.
    """
    by = dict(value) if isinstance(value, Mapping) else {"": value}
    kinds = {tensor.is_floating_point() for tensor in by.values() if isinstance(tensor, Tensor)}
    found, widths = {}, set()
    for kind, count in structure.vertices.items():
        rows = by.get(kind)
        dims = 1 + (kinds == {True})
        if not isinstance(rows, Tensor) or rows.dim() != dims or len(rows) != count or len(kinds) > 1:
            is_ = f"{rows.dtype} {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            where = f" of type {kind!r}" if kind else ""
            raise Refused(
                f"partition_by: {name} is {is_}{where}: give floats of {count} vertices × dimensions, their "
                f"positions, or {count} whole numbers, their partitions"
            )
        rows = rows.detach().cpu()
        if not torch.isfinite(rows).all():
            raise Refused(f"partition_by: {name} has numbers that are not finite")
        found[kind] = rows.float() if dims == 2 else rows.long().clamp(-1, 2**31 - 1).int()
        widths.add(rows.shape[1:])
    if len(widths) > 1 or 0 in (width[0] for width in widths if width):
        raise Refused(f"partition_by: {name} has positions of different dimensions, or of none")
    return replace(structure, by=found)
