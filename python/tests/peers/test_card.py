"""Modules on a card, which is the processor: nothing of them runs beside it, and their curves are the
CPU's."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_edge_states import Net as MeshNet
from test_edge_states import Processor
from torch import nn
from torch_geometric import nn as pyg

import weft

CARD = Path(__file__).parents[3] / "bin" / "libcuda-on-cpu.so"
V, E, FEATURES, OF_EDGES, CLASSES, WIDTH = 40, 260, 6, 3, 4, 8


def mlp(inputs):
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


DEGREES = torch.tensor([1, 3, 5, 7, 9, 6, 4, 3, 2])
CONVOLUTIONS = {
    "EdgeConv": lambda: pyg.EdgeConv(mlp(2 * WIDTH)),
    "GENConv": lambda: pyg.GENConv(WIDTH, WIDTH, edge_dim=OF_EDGES, learn_t=True, norm="layer"),
    "GENConv of vertices": lambda: pyg.GENConv(WIDTH, WIDTH, t=3.0, learn_t=True, norm="layer"),
    "ResGatedGraphConv": lambda: pyg.ResGatedGraphConv(WIDTH, WIDTH, edge_dim=OF_EDGES),
    "FiLMConv": lambda: pyg.FiLMConv(WIDTH, WIDTH),
    "GINEConv": lambda: pyg.GINEConv(mlp(WIDTH), edge_dim=OF_EDGES),
    "NNConv": lambda: pyg.NNConv(WIDTH, WIDTH, nn.Linear(OF_EDGES, WIDTH * WIDTH)),
    "PNAConv": lambda: pyg.PNAConv(
        WIDTH,
        WIDTH,
        ["mean", "min", "max", "std"],
        ["identity", "amplification", "attenuation"],
        DEGREES,
        edge_dim=OF_EDGES,
    ),
    "TransformerConv": lambda: pyg.TransformerConv(WIDTH, 4, 2, beta=True, dropout=0.2, edge_dim=OF_EDGES),
    "GATv2Conv": lambda: pyg.GATv2Conv(WIDTH, 4, 2, dropout=0.2, edge_dim=OF_EDGES),
}


class Net(nn.Module):
    """A convolution with what users write around it."""

    def __init__(self, conv):
        super().__init__()
        self.inner, self.conv = nn.Linear(FEATURES, WIDTH), conv()
        self.norm, self.out = nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, CLASSES)

    def layers(self, x, edge_index, *edge_attr):
        h = self.inner(x)
        h = h + F.dropout(F.gelu(self.norm(self.conv(h, edge_index, *edge_attr))), 0.2, self.training)
        return self.out(h)

    def forward(self, x, edge_index):
        return self.layers(x, edge_index)


class WithFeatures(Net):
    def forward(self, x, edge_index, edge_attr):
        return self.layers(x, edge_index, edge_attr)


def network(name):
    torch.manual_seed(1)
    if name == "MeshGraphNet":
        return MeshNet(Processor)
    featured = name not in ("EdgeConv", "FiLMConv", "GENConv of vertices")
    return (WithFeatures if featured else Net)(CONVOLUTIONS[name])


@pytest.fixture(scope="module")
def graph():
    torch.manual_seed(7)
    parts = torch.arange(V) % 3
    return weft.Graph(
        edge_index=torch.randint(V - 2, (2, E)),
        x=torch.randn(V, FEATURES),
        y=torch.randint(CLASSES, (V,)),
        edge_attr=torch.randn(E, OF_EDGES),
        train_mask=parts < 2,
        val_mask=parts == 2,
    )


@pytest.mark.skipif(not CARD.exists(), reason="there is no bin/libcuda-on-cpu.so, which make compiles")
@pytest.mark.parametrize("name", [*CONVOLUTIONS, "MeshGraphNet"])
def test_nothing_on_cpu(name, graph, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CUDA", str(CARD))
    module = network(name)
    settings = {"epochs": 2, "optimizer": "sgd", "lr": 0.05, "progress": False, "threads": 1}
    here = weft.train(graph, model=module, out=tmp_path / "here", **settings)
    # of the module's program, without tracing it once more
    program, weights = tmp_path / "here" / "program.json", module.state_dict()
    there = weft.train(
        graph, program=program, init=weights, device="cuda", out=tmp_path / "there", **settings
    )
    assert "device" not in here.summary
    assert there.summary["device"]["on_cpu"] == []
    for measure in ("loss", "val_loss"):
        assert there.history[measure] == pytest.approx(here.history[measure], rel=1e-6), measure
    np.testing.assert_allclose(there.logits, here.logits, rtol=0, atol=1e-5)
