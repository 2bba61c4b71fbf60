"""Calls on small graphs beside the module itself. A module is traced on a large graph, and may take another
course on a small one: the first call with each small number of vertices, edges or graphs is compared."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from . import _processes
from ._compare import APART, GRAPHS, apart, flat
from ._copies import copied
from ._errors import Refused
from ._model import Model
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
        self,
        sizes: set[tuple[str, int]],
        module: nn.Module,
        call: Callable[[nn.Module], list[Tensor]],
        ours: Callable[[], list[Tensor]],
        model: Model,
    ) -> None:
        """Refuses a module that returns something else than a net does in evaluation.

        Args:
            sizes: the small sizes of the call's graph.
            call: calls a module as the net was called, and returns the rows of this process.
            ours: what the net returns in evaluation.
            model: the net's.
        """
        with torch.no_grad():
            theirs = call(copied(module).eval())
            made = ours()[: model.outputs.tree.num_leaves]
        shapes = [[tensor.shape for tensor in one] for one in (made, theirs)]
        other = shapes[0] != shapes[1]
        other = other or not apart(flat(made).cpu().numpy(), flat(theirs).cpu().numpy()) <= APART
        if _processes.total(model, torch.tensor(other)):
            raise Refused(
                "module: on a graph of this size "
                f"({', '.join(f'{n} {what.split()[0]}' for what, n in sorted(sizes))}) forward takes another "
                "course than on larger ones: write it for all sizes, as by torch.where, or call the module "
                "itself on small graphs"
            )
        self.seen |= sizes
