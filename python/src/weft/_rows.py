"""The rows of outputs that a call of a net asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ._errors import Refused
from ._model import Type


@dataclass(frozen=True)
class Rows:
    """The rows of a vertex type that outputs have."""

    vertices: Tensor  # those whose rows are computed: int32, ascending, one at least
    places: Tensor | None  # where the rows of the index are among these; None: they are these

    @classmethod
    def from_index(cls, index: Any, count: int, name: str) -> Rows:
        """The rows that an index chooses among so many; name is that of the argument."""
        kind = f"{index.dtype} {tuple(index.shape)}" if isinstance(index, Tensor) else type(index).__name__
        fits = isinstance(index, Tensor) and index.dim() == 1
        if not fits or index.is_floating_point() or index.is_complex():
            raise Refused(f"{name}: is {kind}: give a tensor of vertex ids, or of {count} booleans")
        # PyTorch takes uint8 for a mask, and says that it will not any more. It refuses int8 and int16.
        if index.dtype not in (torch.bool, torch.int32, torch.int64):
            raise Refused(f"{name}: is {kind}, a mask or ids: give a mask as .bool(), and ids as .long()")
        if index.dtype == torch.bool and len(index) != count:
            raise Refused(f"{name}: is {kind}: give a tensor of {count} booleans, or of vertex ids")
        chosen = index.detach().cpu()
        chosen = chosen.nonzero()[:, 0] if index.dtype == torch.bool else chosen.long()
        if len(chosen) and not (-count <= int(chosen.min()) and int(chosen.max()) < count):
            raise Refused(
                f"{name}: are from {int(chosen.min())} to {int(chosen.max())}, and vertex ids from 0 to "
                f"{count - 1}"
            )
        vertices, places = torch.unique(chosen % count, return_inverse=True)
        if len(vertices) == 0:
            return cls(torch.zeros(1, dtype=torch.int32), places)
        return cls(vertices.int(), None if torch.equal(places, torch.arange(len(chosen))) else places)


def rows_of(rows: Any, types: Sequence[Type], outputs: Iterable[int]) -> dict[int, Rows]:
    """The rows that outputs have, by the numbers of their vertex types.

    Args:
        rows: an index, or a dict of these by vertex type: the outputs of others have all rows.
        types: those of the graph.
        outputs: the numbers of the types that outputs have rows of.
    """
    names = {types[number].name: number for number in sorted(set(outputs))}
    if len(types) == 1:
        return {0: Rows.from_index(rows, types[0].vertices, "rows")}
    if not isinstance(rows, Mapping):
        if len(names) != 1:
            raise Refused(
                f"rows: is one {type(rows).__name__}, and outputs are of several vertex types: give a dict "
                f"by {', '.join(names)}"
            )
        rows = dict.fromkeys(names, rows)
    for name in rows:
        if name not in names:
            raise Refused(f"rows: {name!r} is no vertex type of an output: these are {', '.join(names)}")
    return {
        names[name]: Rows.from_index(index, types[names[name]].vertices, f"rows: {name}")
        for name, index in rows.items()
    }
