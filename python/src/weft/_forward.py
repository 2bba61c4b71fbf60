"""What a call of a net gives the module's forward: a graph, what is read of its vertices and edges, and
numbers and flags."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ._errors import Refused
from ._of_dgl import given_of
from ._structure import EDGE, Structure
from ._trace import EDGES_OF_DGL, GRAPHS, TYPES_OF_EDGES, Constant, forward_of

_READ = ("x", "edge_index", "edge_attr", "edge_weight", "batch")
_COUNTS = ("batch_size", "num_graphs")  # arguments that are the number of graphs in a batch
_CONSTANTS = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Call:
    """A call of forward. Features and weights have the program's names of types and relations."""

    structure: Structure
    x: Tensor | dict[str, Tensor]
    edge_attr: dict[Any, Tensor]
    edge_weight: dict[Any, Tensor]
    constants: tuple[Constant, ...]
    data: bool = False  # forward takes one object, and may leave fields of it unread


def called(module: nn.Module, arguments: tuple[Any, ...], named: Mapping[str, Any], samples: bool) -> Call:
    """What a call gives forward, by position or by name.

    samples: x has a matrix of features for each of several samples.

    Raises:
        TypeError: forward takes other arguments.
        Refused: an argument is none that weft can divide.
    """
    signature = inspect.signature(forward_of(module))
    found = dict(signature.bind(*arguments, **named).arguments)
    first = next(iter(found), "")
    given = _fields_of(found.get(first), len(signature.parameters))
    over_dgl = given is None and hasattr(found.get(first), "canonical_etypes")
    data, count = given is not None or over_dgl, None
    if given is not None and "batch" in given:  # of which the last graphs may be empty
        count = getattr(found[first], "num_graphs", None)
    constants: list[Constant] = []
    if given is None:
        given, count = given_of(found.pop(first)) if over_dgl else ({}, None)
        names = [_what(name, over_dgl) for name in found]
        order = [what for what in (("x",) if over_dgl else ("x", "edge_index")) if what not in names]
        for (name, value), what in zip(found.items(), names):
            if what is None and order and not isinstance(value, _CONSTANTS):
                what = order.pop(0)
            if isinstance(value, Tensor) and value.dim() == 0 and not value.is_floating_point():
                value = value.item()
            if what is not None and value is not None:
                given[what] = value
            elif name in _COUNTS and type(value) is int and given.get("batch") is not None:
                count = value
                constants.append(Constant.from_value(name, GRAPHS))
            elif isinstance(value, _CONSTANTS):
                constants.append(Constant.from_value(name, value))
            else:
                raise Refused(
                    f"{name}: is a {type(value).__name__} that is neither x, edge_index, edge_attr, "
                    "edge_weight nor batch: join rows of vertices to x, and rows of edges to edge_attr"
                )
    return replace(_call(given, tuple(constants), count, 2 + samples), data=data)


def constants_of(module: nn.Module, graphs: int | None) -> tuple[Constant, ...]:
    """The arguments of forward that are the number of graphs in a batch. graphs: how many; None: calls give
    no batch.

    Raises:
        Refused: forward needs a batch, or takes none, or takes dicts by type.
    """
    parameters = inspect.signature(forward_of(module)).parameters
    if typed := next((name for name in parameters if name.endswith("_dict")), ""):
        raise Refused(f"{typed}: counts are of one vertex type: plan a graph, as weft.plan(graph, model=net)")
    batch = next((p for name, p in parameters.items() if _what(name, False) == "batch"), None)
    if graphs is None:
        if batch is not None and batch.default is batch.empty:
            raise Refused("graphs: forward takes batch: give how many graphs it has")
        return ()
    if batch is None and len(parameters) > 1:
        raise Refused("graphs: forward takes no batch: leave it out")
    return tuple(Constant.from_value(name, GRAPHS) for name in parameters if name in _COUNTS)


def _what(name: str, over_dgl: bool) -> str | None:
    """Which of a graph's tensors an argument is by its name."""
    name = name.removesuffix("_dict")
    for what, names in EDGES_OF_DGL.items():
        if over_dgl and name in names:
            return what
    if name in _READ:
        return name
    if name in TYPES_OF_EDGES:
        return "edge_type"
    return "edge_index" if name.startswith("adj") else None


def _fields_of(data: Any, parameters: int) -> dict[str, Any] | None:
    """The tensors of a Data, HeteroData or Batch of PyTorch Geometric; None: it is something else."""
    if parameters != 1 or not hasattr(data, "stores"):
        return None
    dicts = "_dict" * hasattr(data, "x_dict")
    fields = {what: getattr(data, what + dicts, None) for what in _READ if what + dicts in _keys(data)}
    return {what: value for what, value in fields.items() if value is not None}


def _keys(data: Any) -> list[str]:
    return [*data.keys(), *(f"{key}_dict" for key in data.keys())]


def _call(given: dict[str, Any], constants: tuple[Constant, ...], count: int | None, dims: int) -> Call:
    for what in ("x", "edge_index"):
        if what not in given:
            raise Refused(
                f"{what}: the call gives none, and the net has no graph: call it as the module, as "
                "net(x, edge_index), or compile it with a graph"
            )
    typed = isinstance(given["edge_index"], Mapping)
    ends = {key: _ends(value) for key, value in _by(given["edge_index"], ("", EDGE, "")).items()}
    weights = {key: weight for key, (_, weight) in ends.items() if weight is not None}
    x = _by(given["x"], "")
    if typed != isinstance(given["x"], Mapping):
        raise Refused("x: give x and edge_index both as tensors, or both as dicts by type")
    for value in x.values():
        if not isinstance(value, Tensor) or value.dim() != dims:
            raise Refused(f"x: is {_kind(value)}: give a tensor of vertices × features")
    vertices = given.get("vertices") or {name: value.shape[-2] for name, value in x.items()}
    for name in (end for key in ends for end in (key[0], key[2])):
        if name not in vertices:
            raise Refused(f"x: there is none of vertex type {name!r}, which edges have: give x[{name!r}]")
    batch = {
        name: _batch(value, vertices[name])
        for name, value in _by(given.get("batch"), "").items()
        if name in vertices
    }
    structure = Structure(
        vertices,
        {key: value for key, (value, _) in ends.items()},
        batch,
        count,
    )
    structure.check()
    edge_attr = _by(given.get("edge_attr"), ("", EDGE, ""))
    if "edge_type" in given:
        if edge_attr:
            raise Refused("edge_type: and edge_attr are both there: join the types to edge_attr, as columns")
        edge_attr = {
            key: value.float()[:, None] for key, value in _by(given["edge_type"], ("", EDGE, "")).items()
        }
    edge_weight = _by(given.get("edge_weight"), ("", EDGE, "")) or weights

    def keys(values: Mapping[Any, Any]) -> dict[Any, Any]:
        return {structure.key(key) if key in ends else key: rows for key, rows in values.items()}

    features: Any = {structure.named(name): value for name, value in x.items()}
    return Call(
        structure, features.get("", features),
        keys(edge_attr), keys(edge_weight), constants,
    )  # fmt: skip


def _by(value: Any, only: Any) -> dict[Any, Any]:
    """Values by type or relation."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {only: value}


def _ends(value: Any) -> tuple[Tensor, Tensor | None]:
    """Sources and targets of edges, and weights that a sparse matrix has: adj_t has a row for each target."""
    weights = None
    if type(value).__name__ == "SparseTensor":  # of torch_sparse
        rows, columns, weights = value.coo()
        value = torch.stack([columns, rows])
    elif isinstance(value, Tensor) and value.layout != torch.strided:
        matrix = value.to_sparse_coo().coalesce()
        value, weights = matrix.indices().flip(0), matrix.values()
    if not isinstance(value, Tensor) or value.dim() != 2 or len(value) != 2 or value.is_floating_point():
        raise Refused(f"edge_index: is {_kind(value)}: give whole numbers, 2 × E, or a sparse adj_t")
    return value.detach().to("cpu", torch.int64), weights


def _batch(value: Any, vertices: int) -> Tensor:
    fits = isinstance(value, Tensor) and value.dim() == 1 and not value.is_floating_point()
    if not fits or len(value) != vertices:
        raise Refused(f"batch: is {_kind(value)}: give the number of each vertex's graph, {vertices:,}")
    numbers = value.detach().to("cpu", torch.int64)
    if len(numbers) and int(numbers.min()) < 0:
        raise Refused(f"batch: has the number {int(numbers.min())}: graphs are numbered from 0")
    return numbers


def _kind(value: Any) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
