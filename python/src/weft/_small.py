"""Calls on small graphs beside the module itself. A module is traced on a large graph, and may take another
course on a small one: the first call with each small number of vertices, edges or graphs is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from ._copies import copied
from ._errors import Refused
from ._structure import Structure
from ._trace import SMALL

# By how much the outputs may differ in float32, of the largest number.
_APART = 1e-3
_GRAPHS = 5  # numbers of graphs from here on are not compared: `_compare` has as many


class Sizes:
    """The small sizes whose first calls have been compared."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int]] = set()

    def new(self, structure: Structure) -> set[tuple[str, int]]:
        """The small sizes of a graph with which there was no call yet."""
        vertices, edges = SMALL[0]
        counts = {("vertices " + name, n) for name, n in structure.vertices.items() if n < vertices}
        counts |= {(f"edges {key}", e.shape[1]) for key, e in structure.edges.items() if e.shape[1] < edges}
        counts |= {("graphs", structure.count)} if structure.batch and structure.count < _GRAPHS else set()
        return counts - self.seen

    def compare(
        self, sizes: set[tuple[str, int]], module: nn.Module, call: Any, ours: Callable[[], Any]
    ) -> None:
        """Refuses a module that returns something else than a net does in evaluation.

        Args:
            sizes: the small sizes of the call's graph.
            call: calls a module as the net was called.
            ours: what the net returns in evaluation.
        """
        with torch.no_grad():
            theirs, _ = tree_flatten(call(copied(module).eval()))
            made, _ = tree_flatten(ours())
        if len(theirs) != len(made) or not all(map(_alike, made, theirs)):
            raise Refused(
                "module: on a graph of this size "
                f"({', '.join(f'{n} {what.split()[0]}' for what, n in sorted(sizes))}) forward takes another "
                "course than on larger ones: write it for all sizes, as by torch.where, or call the module "
                "itself on small graphs"
            )
        self.seen |= sizes


def _alike(ours: Tensor, theirs: Tensor) -> bool:
    if ours.shape != theirs.shape:
        return False
    ours, theirs = ours.double().cpu(), theirs.detach().double().cpu()
    both = torch.isnan(ours) & torch.isnan(theirs)
    apart = torch.where(both, 0.0, (ours - theirs).abs())
    most = max(1.0, float(torch.where(both, 0.0, theirs.abs()).amax())) if theirs.numel() else 1.0
    return not apart.numel() or bool(apart.amax() <= _APART * most)
