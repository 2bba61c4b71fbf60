"""PyTorch Geometric: its own models, on the adjacency in the form in which each of them is fastest on a
CPU."""

import torch
import torch_geometric
from torch import nn
from torch_geometric.nn import models as pyg

import own
from graphs import Columns, Graph
from models import LAYERS, Model


def network(model: Model, columns: Columns) -> nn.Module:
    """The model without its graph. Self loops and GCN's factors are left to the graph: by default PyG makes
    them anew in each layer and epoch. A module of own.py does so."""
    features, classes = columns.features, columns.classes
    if model.steps:  # a step adds to the features
        return own.MeshGraphNet(model, features, columns.edge_features, features)
    if model.name.startswith("mesh-"):
        return own.MeshGraphNet(model, features, columns.edge_features, classes)
    if model.own:
        return own.Net(model, features, classes)
    kind, arguments = {
        "sage": (pyg.GraphSAGE, {}),
        "gcn": (pyg.GCN, {"normalize": False, "add_self_loops": False}),
        "gat": (pyg.GAT, {"heads": model.heads, "add_self_loops": False}),
    }[model.name]
    norm = "batch_norm" if model.batch_norm else None
    return kind(features, model.hidden, LAYERS, classes, norm=norm, act_kwargs={"inplace": True}, **arguments)


def build(model: Model, graph: Graph, weights: dict[str, torch.Tensor], listed: bool = False) -> nn.Module:
    """SAGE and GCN multiply by a sparse matrix, which PyG does on a PyTorch CSR tensor (transposed: a row for
    each destination), unless they get the list of edges. Attention has values for each edge and needs that
    list."""
    net = network(model, graph.columns())
    net.load_state_dict(weights)
    structure = graph.structure if model.own or model.name == "sage" else graph.structure.with_self_loops()
    sources, destinations = torch.from_numpy(structure.sources), torch.from_numpy(structure.destinations())
    values = {}
    if graph.edge_features is not None:
        values["edge_attr"] = torch.from_numpy(graph.edge_features)
    if model.name == "gcn":
        scale = torch.from_numpy(structure.degrees()).float().rsqrt()
        values["edge_weight"] = scale[sources.long()] * scale[destinations.long()]
    if listed or model.own or model.name == "gat":
        return OnGraph(net, torch.stack([sources.long(), destinations.long()]), values)
    indptr, size = torch.from_numpy(structure.indptr), (structure.vertices, structure.vertices)
    if model.name == "gcn":
        return OnGraph(net, torch.sparse_csr_tensor(indptr.int(), sources, values["edge_weight"], size), {})
    # PyTorch 2.15's gradient of a mean is wrong for int32 ids and some 50,000 vertices or more.
    return OnGraph(
        net, torch.sparse_csr_tensor(indptr, sources.long(), torch.ones(len(sources)), size), values
    )


class OnGraph(nn.Module):
    """values are what else the model takes of the edges, by the name of its argument."""

    def __init__(self, net: nn.Module, adjacency: torch.Tensor, values: dict[str, torch.Tensor]):
        super().__init__()
        self.net, self.names = net, list(values)
        self.register_buffer(
            "adjacency", adjacency, persistent=False
        )  # which moves to a device with the model
        for name, tensor in values.items():
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x, self.adjacency, **{name: getattr(self, name) for name in self.names})


def versions() -> dict[str, str]:
    return {"torch_geometric": torch_geometric.__version__}
