"""PyTorch Geometric's layers as they are traced and compared: without what no output reads, and with the
loops of all vertices. `export` and `_compare` call forward below these changes, and `trace` refuses what they
do not reach."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from .._errors import Refused
from .schema import Schema


def check_loops(module: nn.Module, schema: Schema) -> None:
    """Refuses an EGConv that adds its own loops where these are not those of all vertices."""
    conv: Any = getattr(sys.modules.get("torch_geometric.nn.conv.eg_conv"), "EGConv", ())
    for name, layer in module.named_modules():
        if isinstance(layer, conv) and counts_loops(layer) and (schema.isolated or "" not in schema.features):
            raise Refused(
                f"model: {name}: EGConv without symnorm adds loops to the vertices up to the largest in "
                "edge_index, and some have no edges: give it add_self_loops=False, and the graph its loops, "
                "by add_remaining_self_loops(edge_index, num_nodes=n)"
            )


def counts_loops(layer: Any) -> bool:
    """Whether an EGConv finds the number of vertices from the largest in edge_index."""
    return bool(layer.add_self_loops) and "symnorm" not in layer.aggregators


@contextlib.contextmanager
def one_by_one() -> Iterator[None]:
    """PyG's layers of several relations multiply by each weight alone, and choose no other order of products.
    Self loops are plain tensors: PyG 2.5 makes an EdgeIndex of them."""
    backend: Any = sys.modules.get("torch_geometric.backend")
    loops: Any = sys.modules.get("torch_geometric.utils.loop")
    edges = getattr(loops, "EdgeIndex", None)
    kept = getattr(backend, "use_segment_matmul", None)
    if backend:
        backend.use_segment_matmul = False
    if edges:
        loops.EdgeIndex = _Plain
    try:
        yield
    finally:
        if backend:
            backend.use_segment_matmul = kept
        if edges:
            loops.EdgeIndex = edges


@contextlib.contextmanager
def hooked(module: nn.Module) -> Iterator[None]:
    """PyG's layers call the hooks on their messages, which they leave out while they are compiled."""
    functions = (
        getattr(type(layer), name, None)
        for layer in module.modules()
        for name in ("propagate", "edge_updater")
    )
    asked = [namespace for f in functions if "is_compiling" in (namespace := getattr(f, "__globals__", {}))]
    kept = [namespace["is_compiling"] for namespace in asked]
    for namespace in asked:
        namespace["is_compiling"] = lambda: False
    try:
        yield
    finally:
        for namespace, function in reversed(list(zip(asked, kept))):
            namespace["is_compiling"] = function


@contextlib.contextmanager
def as_traced() -> Iterator[None]:
    """Layers of PyG compute the numbers that weft computes: nothing that no output reads, and loops of all
    vertices."""
    with _unsampled(), _looped():
        yield


@contextlib.contextmanager
def _looped() -> Iterator[None]:
    """EGConv adds loops to all vertices, as of a graph whose last vertex has an edge."""
    conv_class: Any = getattr(sys.modules.get("torch_geometric.nn.conv.eg_conv"), "EGConv", None)
    if conv_class is None:
        yield
        return
    kept = conv_class.forward

    def forward(self: Any, x: Tensor, edge_index: Tensor) -> Any:
        if not counts_loops(self):
            return kept(self, x, edge_index)
        from torch_geometric.utils import add_remaining_self_loops

        edge_index, _ = add_remaining_self_loops(edge_index, num_nodes=x.size(self.node_dim))
        self.add_self_loops = False
        try:
            return kept(self, x, edge_index)
        finally:
            self.add_self_loops = True

    conv_class.forward = forward
    try:
        yield
    finally:
        conv_class.forward = kept


@contextlib.contextmanager
def _unsampled() -> Iterator[None]:
    """SuperGATConv samples no edges for its loss, which no output reads."""
    conv_class: Any = getattr(sys.modules.get("torch_geometric.nn.conv.supergat_conv"), "SuperGATConv", None)
    if conv_class is None:
        yield
        return
    names = "positive_sampling", "negative_sampling", "get_attention"
    kept = {name: vars(conv_class)[name] for name in names}

    def attention(self: Any, *arguments: Any, return_logits: bool = False, **named: Any) -> Any:
        return _Unread() if return_logits else kept["get_attention"](self, *arguments, **named)

    conv_class.positive_sampling = conv_class.negative_sampling = lambda self, edge_index, *_: edge_index
    conv_class.get_attention = attention
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(conv_class, name, function)


class _Unread:
    """Stands for a tensor that only the loss of a layer reads."""

    def size(self, _: int) -> int:
        return 0

    def new_zeros(self, _: int) -> _Unread:
        return self

    def __setitem__(self, *_: Any) -> None:
        pass

    @classmethod
    def __torch_function__(cls, *_: Any) -> _Unread:
        return cls()


class _Plain:
    """Stands for a class of tensors, and makes the tensor that it is given."""

    def __new__(cls, data: Tensor, **_: Any) -> Tensor:
        return data
