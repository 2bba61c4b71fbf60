"""DGL. Ids are int32 and every order of the edges that a model uses is made beforehand: the fastest form that
DGL has on a CPU."""

import dgl
import torch
from dgl.nn import GATConv, GraphConv, SAGEConv
from torch import nn

from graphs import Graph, Structure
from models import LAYERS, Model
from stack import Stack, copy


def build(model: Model, graph: Graph, weights: dict[str, torch.Tensor]) -> nn.Module:
    structure = graph.structure if model.name == "sage" else graph.structure.with_self_loops()
    g = _graph(structure, ["csc", "csr", "coo"] if model.name == "gat" else ["csc", "csr"])
    if model.name == "sage":
        layer = lambda i, inputs, outputs: SAGE(g, inputs, outputs)
    elif model.name == "gcn":
        scale = torch.from_numpy(structure.degrees()).float().rsqrt().unsqueeze(1)
        layer = lambda i, inputs, outputs: GCN(g, scale, inputs, outputs)
    else:
        layer = lambda i, inputs, outputs: GAT(g, model.heads, inputs, outputs, last=i == LAYERS - 1)
    net = Stack(model, graph.features.shape[1], graph.classes, layer)
    net.load(weights)
    return net


def versions() -> dict[str, str]:
    return {"dgl": dgl.__version__, "libxsmm": str(dgl.is_libxsmm_enabled())}


def _graph(structure: Structure, formats: list[str]) -> dgl.DGLGraph:
    """Sums use the edges by destination (csc), their gradients by source (csr), and attention scores the list
    of edges (coo)."""
    indptr, sources = torch.from_numpy(structure.indptr).int(), torch.from_numpy(structure.sources)
    ids = torch.arange(len(sources), dtype=torch.int32)  # left empty, weighted sums by libxsmm fail
    g = dgl.graph(("csc", (indptr, sources, ids)), num_nodes=structure.vertices)
    g = g.formats(formats)
    g.create_formats_()
    return g


class SAGE(nn.Module):
    def __init__(self, g: dgl.DGLGraph, inputs: int, outputs: int):
        super().__init__()
        self.g, self.conv = g, SAGEConv(inputs, outputs, "mean")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(self.g, x)

    def load(self, w: dict[str, torch.Tensor]) -> None:
        own, neighbours = self.conv.fc_self, self.conv.fc_neigh
        copy(
            [
                (neighbours.weight, w["lin_l.weight"]),
                (own.weight, w["lin_r.weight"]),
                (own.bias, w["lin_l.bias"]),
            ]
        )


class GCN(nn.Module):
    """GraphConv between the two scalings. Its own (norm="both") divides by the source's out-degree, which
    differs from PyG and weft on directed graphs; the work is the same, and here the factors are computed
    once."""

    def __init__(self, g: dgl.DGLGraph, scale: torch.Tensor, inputs: int, outputs: int):
        super().__init__()
        self.g, self.scale = g, scale
        self.conv = GraphConv(inputs, outputs, norm="none", bias=False, allow_zero_in_degree=True)
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(self.g, x * self.scale) * self.scale + self.bias

    def load(self, w: dict[str, torch.Tensor]) -> None:
        copy([(self.conv.weight, w["lin.weight"].t().contiguous()), (self.bias, w["bias"])])


class GAT(nn.Module):
    """Hidden layers put their heads side by side, the last averages them and adds its bias afterwards, as in
    PyG."""

    def __init__(self, g: dgl.DGLGraph, heads: int, inputs: int, outputs: int, last: bool):
        super().__init__()
        self.g, self.last = g, last
        self.conv = GATConv(
            inputs, outputs if last else outputs // heads, heads, bias=False, allow_zero_in_degree=True
        )
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(self.g, x)
        return (x.mean(1) if self.last else x.flatten(1)) + self.bias

    def load(self, w: dict[str, torch.Tensor]) -> None:
        conv = self.conv
        copy(
            [
                (conv.fc.weight, w["lin.weight"]),
                (conv.attn_l, w["att_src"]),
                (conv.attn_r, w["att_dst"]),
                (self.bias, w["bias"]),
            ]
        )
