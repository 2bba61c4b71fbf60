"""The graphs and modules of loops over processes, and what stands for a net there: one process of PyTorch, or
several calls."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv, GCNConv, HeteroConv, SAGEConv

V, E, WIDTH, CLASSES = 211, 1500, 12, 4
torch.manual_seed(5)
Y = torch.randint(0, CLASSES, (V,))
ENDS = torch.randint(0, V, (2, E))
X = torch.randn(V, WIDTH)
TRAIN = torch.rand(V) < 0.6

#: Vertex types, of which the first one's are those above.
UP, NEAR, BACK = ("grid", "up", "mesh"), ("mesh", "near", "mesh"), ("mesh", "back", "grid")
COUNTS = {"grid": V, "mesh": 47}
TYPED_ENDS = {
    key: torch.stack([torch.randint(0, COUNTS[vertex_type], (n,)) for vertex_type in (key[0], key[2])])
    for key, n in ((UP, 600), (NEAR, 240), (BACK, 630))
}
TYPED_ATTR = {key: torch.randn(ends.shape[1], 2) for key, ends in TYPED_ENDS.items()}
TYPED_X = {"grid": X, "mesh": torch.randn(COUNTS["mesh"], 3)}

#: What modules are given on a graph, by the names of their arguments.
PLAIN = {"x": X, "edge_index": ENDS, "edge_attr": torch.randn(E, 3)}
WEIGHTED = {"x": X, "edge_index": ENDS, "edge_weight": torch.rand(E) + 0.1}
TYPED = {"x_dict": TYPED_X, "edge_index_dict": TYPED_ENDS, "edge_attr_dict": TYPED_ATTR}


class Two(nn.Module):
    """Two convolutions with batch norm, and the mean of the hidden layer if asked."""

    def __init__(self, first: nn.Module, last: nn.Module, mean: bool = False):
        super().__init__()
        self.first, self.last, self.norm, self.mean = first, last, nn.BatchNorm1d(16), mean

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        h = F.relu(self.norm(self.first(x, edge_index)))
        z = self.last(h, edge_index)
        return (z, h.mean(0)) if self.mean else z


class Weighted(nn.Module):
    """Two convolutions with weights of edges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = GCNConv(WIDTH, 16), GCNConv(16, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x, edge_index, edge_weight)), edge_index, edge_weight)


class Attention(nn.Module):
    """GATv2 with features of edges, and dropout of rows and of attention if asked."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = GATv2Conv(WIDTH, 8, heads=2, edge_dim=3, dropout=dropout)
        self.last, self.norm, self.dropout = GATv2Conv(16, CLASSES, edge_dim=3), nn.LayerNorm(16), dropout

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        h = self.norm(self.first(F.dropout(x, self.dropout, self.training), edge_index, edge_attr)).tanh()
        return self.last(F.dropout(h, self.dropout, self.training), edge_index, edge_attr)


class Embedded(nn.Module):
    """A learned row of each vertex, beside its features."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(V, 6))
        self.first, self.last = SAGEConv(WIDTH + 6, 16), GCNConv(16, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.first(torch.cat([x, self.table], 1), edge_index).tanh(), edge_index)


class Convs(nn.Module):
    """A convolution for each relation, and a batch norm of each type."""

    def __init__(self) -> None:
        super().__init__()
        widths = {name: features.shape[1] for name, features in TYPED_X.items()}
        self.first = HeteroConv({key: SAGEConv((widths[key[0]], widths[key[2]]), 8) for key in TYPED_ENDS})
        self.norms = nn.ModuleDict({name: nn.BatchNorm1d(8) for name in widths})
        self.last = HeteroConv({key: SAGEConv((8, 8), CLASSES) for key in TYPED_ENDS}, aggr="mean")

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> Any:
        h = self.first(x_dict, edge_index_dict)
        return self.last({name: self.norms[name](rows).tanh() for name, rows in h.items()}, edge_index_dict)


class Weather(nn.Module):
    """Encode, process, decode: from the grid to a mesh, on the mesh, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.grid, self.mesh, self.out = nn.Linear(WIDTH, 8), nn.Linear(3, 8), nn.Linear(8, WIDTH)
        self.edges = nn.ModuleList([nn.Linear(8 + 8 + 2, 8) for _ in range(3)])
        self.rows = nn.ModuleList([nn.Linear(16, 8) for _ in range(3)])
        self.norm = nn.LayerNorm(8)

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_attr_dict: Any) -> dict[str, Tensor]:
        h = {"grid": torch.tanh(self.grid(x_dict["grid"])), "mesh": torch.tanh(self.mesh(x_dict["mesh"]))}
        for key, edge, row in zip((UP, NEAR, BACK), self.edges, self.rows):
            source, target, ends = h[key[0]], h[key[2]], edge_index_dict[key]
            m = torch.tanh(edge(torch.cat([source[ends[0]], target[ends[1]], edge_attr_dict[key]], 1)))
            into = torch.zeros_like(target).index_add(0, ends[1], m)
            h[key[2]] = target + self.norm(row(torch.cat([target, into], 1)))
        return {"grid": x_dict["grid"] + 0.1 * self.out(h["grid"])}


class Flows(nn.Module):
    """States of edges, which are added up at one of their ends, and returned (MeshGraphNet)."""

    def __init__(self) -> None:
        super().__init__()
        width = 8
        self.encode, self.encode_edges = nn.Linear(WIDTH, width), nn.Linear(3, width)
        self.edge, self.vertex = nn.Linear(3 * width, width), nn.Linear(2 * width, width)
        self.decode, self.decode_edges = nn.Linear(width, CLASSES), nn.Linear(width, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Any:
        h, e = torch.tanh(self.encode(x)), self.encode_edges(edge_attr)
        for _ in range(2):
            e = e + torch.tanh(self.edge(torch.cat([e, h[edge_index[0]], h[edge_index[1]]], 1)))
            into = torch.zeros_like(h).index_add(0, edge_index[1], e)
            h = h + torch.tanh(self.vertex(torch.cat([h, into], 1)))
        return self.decode(h), self.decode_edges(e)


class Upwards(nn.Module):
    """Weighted values of edges that are added up at the edges' sources, and returned."""

    def __init__(self) -> None:
        super().__init__()
        self.edge, self.decode = nn.Linear(2 * WIDTH, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Any:
        e = torch.tanh(self.edge(torch.cat([x[edge_index[0]], x[edge_index[1]]], 1))) * edge_weight[:, None]
        h = x.new_zeros(x.size(0), 8).index_add(0, edge_index[0], e)
        return self.decode(h), e


def in_double(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: in_double(tensor) for name, tensor in value.items()}
    return value.double() if value.is_floating_point() else value


class Alone(nn.Module):
    """What a net is, of one process of PyTorch."""

    rank, workers, group, groups = 0, 1, 0, 1

    def __init__(self, module: nn.Module, arrays: Mapping[str, Any]):
        super().__init__()
        taken = inspect.signature(module.forward).parameters
        arrays = {name: in_double(tensor) for name, tensor in arrays.items() if name in taken}
        self.module, self.x, self.edge_inputs = (
            module,
            next(iter(arrays.values())),
            dict([*arrays.items()][1:]),
        )

    @property
    def vertices(self) -> Any:
        count = (
            {name: torch.arange(len(features)) for name, features in self.x.items()}
            if isinstance(self.x, dict)
            else None
        )
        return count or torch.arange(V)

    @property
    def edges(self) -> Any:
        ends = next(iter(self.edge_inputs.values()))
        if isinstance(ends, dict):
            return {key: torch.arange(index.shape[1]) for key, index in ends.items()}
        return torch.arange(ends.shape[1])

    def forward(self, x: Any = None, samples: bool = False, edges: Any = None, **passed: Any) -> Any:
        if samples:
            return torch.stack([self(one) for one in x])
        if isinstance(x, dict):
            x = self.x | x
        inputs = dict(self.edge_inputs)
        for name, tensor in passed.items():
            inputs |= (
                {f"{name}_dict": inputs[f"{name}_dict"] | tensor}
                if isinstance(tensor, dict)
                else {name: tensor}
            )
        if isinstance(edges, dict):
            for name, tensor in inputs.items():
                along = int(name == "edge_index_dict")
                inputs[name] = tensor | {
                    key: tensor[key].index_select(along, mask.nonzero()[:, 0]) for key, mask in edges.items()
                }
        elif edges is not None:
            inputs = {
                name: tensor[..., edges] if name == "edge_index" else tensor[edges]
                for name, tensor in inputs.items()
            }
        return self.module(self.x if x is None else x, **inputs)

    def sum(self, values: Tensor, group: bool = False) -> Tensor:
        return values

    def rows(self, values: Tensor, vertices: Tensor) -> Tensor:
        return values[vertices]

    def gather(self, values: Tensor, type: str | None = None) -> Tensor:
        return values

    def sum_gradients(self, parameters: list[Tensor]) -> None:
        pass


class Copies:
    """A net whose every call is a pass of each of several groups: their rows stand one below the other."""

    rank = 0

    def __init__(self, net: Any, groups: int):
        self.net, self.groups = net, groups
        self.parameters, self.sum = net.parameters, net.sum

    @property
    def vertices(self) -> Tensor:
        return torch.cat([self.net.vertices] * self.groups)

    def __call__(self) -> Tensor:
        return torch.cat([self.net() for _ in range(self.groups)])
