"""Graphs of PyTorch Geometric and DGL as the arguments of Graph. Neither library is imported."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ._arrays import is_of
from ._fields import Target
from ._of_dgl import of_dgl
from ._of_pyg import divided, is_part_of_split, of_one, together


def fields(data: Any, target: Target = None, overrides: Collection[str] = ()) -> dict[str, Any]:
    """The arguments of Graph for a graph of another library.

    Args:
        data: the graph.
        target: the vertex type, or the relation, whose labels are learned, if several have some.
        overrides: arguments of Graph that have a value, in place of which nothing is missing.

    Raises:
        TypeError: it is no graph that is known.
    """
    if is_of(data, "torch_geometric", "Dataset"):
        data = [data[k] for k in range(len(data))]
    elif is_of(data, "dgl", "DGLDataset") and len(data) == 1:
        data = data[0]
    if isinstance(data, Sequence) and len(data) == 3 and all(map(is_part_of_split, data)):
        return divided(data, target, overrides)
    if isinstance(data, Sequence) and not isinstance(data, str):
        data = together(data)
    if is_of(data, "torch_geometric", "Data", "HeteroData"):
        return of_one(data, target, overrides)
    if is_of(data, "dgl", "DGLGraph"):
        return of_dgl(data, target, overrides)
    what = "None" if data is None else f"{type(data).__module__}.{type(data).__name__}"
    raise TypeError(
        f"{what} is no graph: give a weft.Graph, a path, Data or HeteroData of PyTorch Geometric, or a "
        "DGLGraph"
    )
