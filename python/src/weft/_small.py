"""Calls on small graphs beside the module itself. A module is traced on a large graph, and may take another
course on a small one: the first call with each small number of vertices, edges or graphs is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from ._compare import APART, GRAPHS, apart, flat
from ._copies import copied
from ._errors import Refused
from ._structure import Structure
from ._trace import SMALL


class Sizes:
    """The small sizes whose first calls have been compared."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int]] = set()

    def new(self, structure: Structure) -> set[tuple[str, int]]:
        """The small sizes of a graph with which there was no call yet."""
        vertices, edges = SMALL[0]
        counts = {("vertices " + name, n) for name, n in structure.vertices.items() if n < vertices}
        counts |= {(f"edges {key}", e.shape[1]) for key, e in structure.edges.items() if e.shape[1] < edges}
        counts |= {("graphs", structure.count)} if structure.batch and structure.count < GRAPHS else set()
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
        shapes = [[tensor.shape for tensor in one] for one in (made, theirs)]
        if shapes[0] != shapes[1] or not apart(flat(made).cpu().numpy(), flat(theirs).cpu().numpy()) <= APART:
            raise Refused(
                "module: on a graph of this size "
                f"({', '.join(f'{n} {what.split()[0]}' for what, n in sorted(sizes))}) forward takes another "
                "course than on larger ones: write it for all sizes, as by torch.where, or call the module "
                "itself on small graphs"
            )
        self.seen |= sizes
