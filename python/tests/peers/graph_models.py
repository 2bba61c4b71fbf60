"""Graphs of other sizes, and the modules that tests of nets without a graph call with each."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import (
    GCNConv,
    GINEConv,
    GraphNorm,
    HeteroConv,
    InstanceNorm,
    LayerNorm,
    SAGEConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import scatter, softmax

WIDTH, ATTRIBUTES = 5, 3


def drawn(vertices: int, seed: int, edges: int = 3) -> Data:
    """A graph of random edges, with self loops and edges that are there twice; the last vertex has none."""
    g = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, max(1, vertices - 1), (2, edges * vertices if vertices > 1 else 0), generator=g)
    ends = torch.cat([ends, ends[:, :2]], 1)
    x = torch.randn(vertices, WIDTH, generator=g)
    return Data(
        x=x,
        edge_index=ends,
        edge_attr=torch.randn(ends.shape[1], ATTRIBUTES, generator=g),
        pos=torch.rand(vertices, 2, generator=g),
        y=torch.tanh(x[:, :2] + x[:, 2:4].roll(1, 0)),
        target=x.mean().reshape(1, 1),
    )


GRAPHS = [drawn(9 + 17 * k % 40, k) for k in range(6)]


class Mesh(nn.Module):  # type: ignore[misc]
    """Messages of both ends and of the edge's features, with a residual."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(WIDTH, width), nn.Linear(width, 2)
        self.message, self.norm = nn.Linear(2 * width + ATTRIBUTES, width), nn.LayerNorm(width)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        h, (source, target) = self.encode(x), edge_index
        for _ in range(2):
            m = F.silu(self.message(torch.cat([h[source], h[target], edge_attr], 1)))
            h = h + self.norm(torch.zeros_like(h).index_add(0, target, m))
        return self.decode(h)


class Plain(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = GCNConv(WIDTH, 8), SAGEConv(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x, edge_index)), edge_index)


class OfData(Plain):
    def forward(self, data: Data) -> Tensor:  # type: ignore[override]
        return super().forward(data.x, data.edge_index)


class Weighted(Plain):
    def forward(self, x: Tensor, adj_t: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.last(torch.tanh(self.first(x, adj_t, edge_weight)), adj_t)


class Branches(Plain):
    """Numbers and flags choose what is computed."""

    def forward(
        self, x: Tensor, edge_index: Tensor, depth: int = 1, scale: float = 1.0, last: bool = True
    ) -> Tensor:
        h = x
        for _ in range(depth):
            h = torch.tanh(self.first(h, edge_index))[:, :WIDTH]
        h = torch.cat([h, h[:, : 8 - WIDTH]], 1) * scale
        return self.last(h, edge_index) if last else h


class Molecules(nn.Module):  # type: ignore[misc]
    """Layers, norms of each graph, attention over its vertices, and poolings."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first = GINEConv(nn.Linear(WIDTH, width), edge_dim=ATTRIBUTES)
        self.norms = nn.ModuleList([GraphNorm(width), InstanceNorm(width), LayerNorm(width, mode="graph")])
        self.score, self.out = nn.Linear(width, 1), nn.Linear(4 * width, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Any:
        h = self.first(x, edge_index, edge_attr)
        for norm in self.norms:
            h = h + torch.tanh(norm(h, batch))
        share = softmax(self.score(h), batch)
        pooled = [
            global_mean_pool(h, batch),
            global_max_pool(h, batch),
            scatter(share * h, batch, dim=0, reduce="sum"),
            global_add_pool(h.sigmoid(), batch) / 10,
        ]
        return self.out(torch.cat(pooled, 1))


class Sized(nn.Module):  # type: ignore[misc]
    """Pools of as many graphs as the call says."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int) -> tuple[Tensor, Tensor]:
        pooled = self.out(global_mean_pool(x, batch, batch_size))
        return pooled, x[:, :2] - pooled[batch]


class Typed(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        kinds = {
            ("a", "to", "b"): SAGEConv((WIDTH, WIDTH), 6),
            ("b", "back", "a"): SAGEConv((WIDTH, WIDTH), 6),
        }
        self.conv, self.out = HeteroConv(kinds), nn.Linear(6, 2)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> dict[str, Tensor]:
        return {name: self.out(F.relu(h)) for name, h in self.conv(x_dict, edge_index_dict).items()}


class OfHeteroData(Typed):
    def forward(self, data: HeteroData) -> dict[str, Tensor]:  # type: ignore[override]
        return super().forward(data.x_dict, data.edge_index_dict)


class TypedGraphs(Typed):
    """The graphs of a batch, of the vertices of both types."""

    def forward(  # type: ignore[override]
        self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor], batch_dict: dict[str, Tensor]
    ) -> Tensor:
        h = super().forward(x_dict, edge_index_dict)
        return global_mean_pool(h["a"], batch_dict["a"]) + global_add_pool(h["b"], batch_dict["b"])


def typed(k: int) -> HeteroData:
    d, made = GRAPHS[k], HeteroData()
    made["a"].x, made["b"].x = d.x, d.x[: d.num_nodes // 2]
    into = d.edge_index[:, d.edge_index[1] < d.num_nodes // 2]
    made["a", "to", "b"].edge_index, made["b", "back", "a"].edge_index = into, into.flip(0)
    return made
