"""Modules that a user of PyG would write: message passing of her own, with PyG's names of weights, and layers
of PyG that weft has no model of. weft trains them as programs."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import BatchNorm, EdgeConv, FiLMConv, GENConv, MessagePassing, ResGatedGraphConv
from torch_geometric.utils import add_self_loops, degree, remove_self_loops, scatter, softmax

from models import LAYERS, Model


class GCN(MessagePassing):
    def __init__(self, inputs, outputs):
        super().__init__(aggr="add")
        self.lin, self.bias = nn.Linear(inputs, outputs, bias=False), nn.Parameter(torch.zeros(outputs))

    def forward(self, x, edge_index):
        edge_index, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=x.size(0))
        row, col = edge_index
        scale = degree(col, x.size(0), x.dtype).pow(-0.5)
        return self.propagate(edge_index, x=self.lin(x), norm=scale[row] * scale[col]) + self.bias

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j


class SAGE(MessagePassing):
    def __init__(self, inputs, outputs):
        super().__init__(aggr="mean")
        self.lin_l, self.lin_r = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, edge_index):
        return self.lin_l(self.propagate(edge_index, x=x)) + self.lin_r(x)


class GAT(MessagePassing):
    def __init__(self, inputs, outputs, heads, concat):
        super().__init__(aggr="add", node_dim=0)
        self.heads, self.width, self.concat = heads, outputs // heads if concat else outputs, concat
        self.lin, self.bias = (
            nn.Linear(inputs, heads * self.width, bias=False),
            nn.Parameter(torch.zeros(outputs)),
        )
        self.att_src, self.att_dst = (nn.Parameter(torch.randn(1, heads, self.width) / 8) for _ in range(2))

    def forward(self, x, edge_index):
        edge_index, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=x.size(0))
        x = self.lin(x).view(-1, self.heads, self.width)
        score = (x * self.att_src).sum(-1), (x * self.att_dst).sum(-1)
        z = self.propagate(edge_index, x=x, score=score)
        return (z.flatten(1) if self.concat else z.mean(1)) + self.bias

    def message(self, x_j, score_j, score_i, index, ptr, size_i):
        alpha = softmax(F.leaky_relu(score_j + score_i, 0.2), index, ptr, size_i)
        return alpha.unsqueeze(-1) * x_j


def edge_conv(inputs, outputs):
    return EdgeConv(nn.Sequential(nn.Linear(2 * inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs)))


def mlp(inputs, outputs):
    return nn.Sequential(
        nn.Linear(inputs, outputs), nn.SiLU(), nn.Linear(outputs, outputs), nn.LayerNorm(outputs)
    )


class Block(nn.Module):
    """A step of MeshGraphNet's processor (Pfaff et al., 2021, section 3.2): the states of edges, then those
    of vertices."""

    def __init__(self, width):
        super().__init__()
        self.edge, self.vertex = mlp(3 * width, width), mlp(2 * width, width)

    def forward(self, x, edges, edge_index):
        source, destination = edge_index
        edges = edges + self.edge(torch.cat([x[source], x[destination], edges], 1))
        return x + self.vertex(torch.cat([x, scatter(edges, destination, 0, x.size(0))], 1)), edges


class MeshGraphNet(nn.Module):
    """Encodes, processes in as many blocks as the model has layers, and decodes."""

    def __init__(self, model: Model, features: int, edge_features: int, outputs: int):
        super().__init__()
        self.x, self.edges, self.out = (
            mlp(features, model.hidden),
            mlp(edge_features, model.hidden),
            nn.Linear(model.hidden, outputs),
        )
        self.blocks = nn.ModuleList(Block(model.hidden) for _ in range(model.layers))

    def forward(self, x, edge_index, edge_attr):
        x, edges = self.x(x), self.edges(edge_attr)
        for block in self.blocks:
            x, edges = block(x, edges, edge_index)
        return self.out(x)


class Net(nn.Module):
    """Layers with batch norm (where the model has it) and ReLU between them."""

    def __init__(self, model: Model, features: int, classes: int):
        super().__init__()
        widths = [features] + [model.hidden] * (LAYERS - 1) + [classes]
        layer = {
            "own-gcn": GCN,
            "own-sage": SAGE,
            "own-gat": lambda inputs, outputs: GAT(inputs, outputs, model.heads, concat=outputs != classes),
            "resgated": ResGatedGraphConv,
            "edgeconv": edge_conv,
            "film": FiLMConv,
            "gen": GENConv,
        }[model.name]
        self.convs = nn.ModuleList(layer(*pair) for pair in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(BatchNorm(model.hidden) for _ in range(LAYERS - 1) if model.batch_norm)

    def forward(self, x, edge_index):
        for i, conv in enumerate(self.convs):
            if i > 0:
                x = F.relu(self.norms[i - 1](x) if self.norms else x)
            x = conv(x, edge_index)
        return x
