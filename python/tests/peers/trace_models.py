"""What tests of traced modules of PyG share: a module of one function, and how it is called."""

import inspect

import torch
import torch.nn.functional as F
import torch_geometric.nn as g
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv
from traced import OUT, WIDTH

DEGREES = torch.tensor([1, 3, 5, 2])


class Call(nn.Module):
    """A module over parts, by one function: of self, x and edge_index, and of what else its parameters
    name."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        self.lin, self.conv = nn.Linear(WIDTH, OUT), GCNConv(OUT, OUT)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x, edge_index):
        return self.function(self, x, edge_index)


class CallAttr(Call):
    def forward(self, x, edge_index, edge_attr):
        return self.function(self, x, edge_index, edge_attr)


class CallWeight(Call):
    def forward(self, x, edge_index, edge_weight):
        return self.function(self, x, edge_index, edge_weight)


class OfData(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(WIDTH, 4)

    def forward(self, data):
        return F.log_softmax(self.conv(data.x, data.edge_index), dim=1)


class Stack(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.first, self.layers, self.last = GCNConv(WIDTH, OUT), nn.ModuleList(layers), SAGEConv(OUT, 3)

    def forward(self, x, edge_index):
        x = self.first(x, edge_index)
        for layer in self.layers:
            x = layer(x)
        return self.last(F.elu(x), edge_index)


class Typed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = g.RGCNConv(WIDTH, OUT, 2, num_bases=2)

    def forward(self, edge_index, edge_type, x):
        return self.conv(x, edge_index, edge_type)


def call(module, x, edge_index, *more):
    if isinstance(module, OfData):
        return module(Data(x=x, edge_index=edge_index))
    names = [n for n in ("edge_attr", "edge_weight") if n in inspect.signature(module.forward).parameters]
    return module(x, edge_index, **dict(zip(names[-len(more) :] if len(names) != len(more) else names, more)))


def by(conv, function, kind=Call):
    return kind(function, c=conv)
