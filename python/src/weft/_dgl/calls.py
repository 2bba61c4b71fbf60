"""What a module over DGL is called with: DGL's own graph, or a Graph, which DGL's functions then take."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from .._of_dgl import FIELDS
from .graph import Graph, Key, Segments, paired


@contextlib.contextmanager
def graph_of(whole: Mapping[str, Any], own: bool, graphs: int, size: Any) -> Iterator[Any]:
    """The graph of what is given by type: DGL's own, or one that stands for it in a trace.

    It has features where modules that take a graph alone look for them.

    Args:
        graphs: how many graphs are stored as one.
        size: how many a batch has, where whole says to which each vertex belongs.
    """
    import dgl

    ends: Mapping[Key, Tensor] = whole["edge_index"]
    if own:
        counts = {name: len(ids) for name, ids in whole["n_id"].items()}
        graph = dgl.heterograph({key: tuple(pair) for key, pair in ends.items()}, counts)
        graph = graph if graph.canonical_etypes == list(ends) else dgl.edge_type_subgraph(graph, list(ends))
        if "batch" in whole:  # whose numbers ascend
            counts = {name: torch.bincount(b, minlength=size) for name, b in whole["batch"].items()}
            graph.set_batch_num_nodes(counts)
    else:
        graph = Graph(ends, whole["n_id"], graphs, whole.get("batch"), size)
    for what, field in FIELDS.items():
        for key, value in whole.get(what, {}).items():
            (graph.nodes if what == "x" else graph.edges)[key].data[field] = value
    with contextlib.nullcontext() if own else _stood_in():
        yield graph


@contextlib.contextmanager
def _stood_in() -> Iterator[None]:
    """DGL's functions of graphs take a Graph, too."""
    import dgl

    softmax: Any = sys.modules["dgl.ops.edge_softmax"]

    def normalised(graph: Any, values: Tensor, eids: Any = None, norm_by: str = "dst") -> Tensor:
        weft_graph: Graph = graph.graph
        return weft_graph.softmax(values, int(norm_by == "dst"))

    def reduced(graph: Graph, operator: str, reduce: str, ends: Any, edges: Any) -> Tensor:
        return graph.reduced(paired(operator, graph.along(ends, "u"), edges), reduce)

    def pairs(
        graph: Graph, operator: str, left: Any, right: Any, lhs_target: str = "u", rhs_target: str = "v"
    ) -> Any:
        return paired(operator, graph.along(left, lhs_target), graph.along(right, rhs_target))

    def typed(values: Tensor, weights: Tensor, idx_a: Any = None, idx_b: Any = None) -> Tensor:
        if idx_a is not None:
            raise NotImplementedError("gather_mm with idx_a is not known to weft: choose the rows first")
        by_type = [(idx_b == k).view(-1, 1) * (values @ weights[k]) for k in range(weights.shape[0])]
        return torch.stack(by_type).sum(0)

    def spread(graph: Graph, values: Any, *, ntype: str | None = None) -> Tensor:
        return graph.batch_num_nodes(ntype).spread(values)

    def pooled(segments: Segments, values: Tensor, reducer: str = "sum") -> Tensor:
        return segments.reduced(values, reducer)

    def shares(segments: Segments, values: Tensor) -> Tensor:
        apart = (values - segments.spread(segments.reduced(values.detach(), "max"))).exp()
        return apart / segments.spread(segments.reduced(apart, "sum"))

    replaced: list[tuple[Any, str, Any]] = [(softmax, "edge_softmax_internal", normalised)]
    replaced += [
        (softmax, "edge_softmax_hetero_internal", lambda graph, *_: graph.graph.edge_index)
    ]  # refuses several
    of_graphs = ("add_self_loop", "remove_self_loop", "reverse", "edge_type_subgraph")
    replaced += [(dgl, name, getattr(Graph, name)) for name in of_graphs]
    for module, name, function in (("spmm", "gspmm", reduced), ("sddmm", "gsddmm", pairs)):
        replaced += [(namespace, name, function) for namespace in (sys.modules[f"dgl.ops.{module}"], dgl.ops)]
    replaced += [
        (namespace, "gather_mm", typed) for namespace in (sys.modules["dgl.nn.pytorch.linear"], dgl.ops)
    ]
    replaced += [
        (namespace, "broadcast_nodes", spread)
        for namespace in (
            sys.modules["dgl.nn.pytorch.conv.chebconv"],
            sys.modules["dgl.nn.pytorch.glob"],
            dgl,
        )
    ]
    segment = sys.modules["dgl.ops.segment"]
    replaced += [(segment, "segment_reduce", pooled), (segment, "segment_softmax", shares)]
    kept = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, function in replaced:
        setattr(module, name, function)
    try:
        yield
    finally:
        for module, name, function in kept:
            setattr(module, name, function)
