"""Programs of PyG's convolutions: outputs and gradients are theirs, in float64."""

import inspect
import runpy
from pathlib import Path

import pytest
import torch
import torch_geometric.nn as g
from trace_models import DEGREES, CallAttr, by, call
from traced import EDGE, OUT, WIDTH, compare, perceptron

import weft

pytestmark = pytest.mark.usefixtures("in_double")


def of_types(conv):
    return by(conv, lambda s, x, e, a: s.c(x, e, (a[:, 0] > 0).long()), CallAttr)


# Of torch_geometric.nn.conv, those that work on vertices and edge_index.
CONVOLUTIONS = {
    "SimpleConv": lambda: g.SimpleConv("mean", combine_root="cat"),
    "GCNConv": lambda: g.GCNConv(WIDTH, OUT),
    "ChebConv": lambda: g.ChebConv(WIDTH, OUT, 3),
    "SAGEConv": lambda: g.SAGEConv(WIDTH, OUT),
    "GraphConv": lambda: g.GraphConv(WIDTH, OUT),
    "GatedGraphConv": lambda: g.GatedGraphConv(WIDTH, 2),
    "ResGatedGraphConv": lambda: g.ResGatedGraphConv(WIDTH, OUT),
    "GATConv": lambda: g.GATConv(WIDTH, 3, heads=2),
    "GATv2Conv": lambda: g.GATv2Conv(WIDTH, 3, heads=2),
    "TransformerConv": lambda: g.TransformerConv(WIDTH, 3, heads=2, beta=True),
    "AGNNConv": lambda: g.AGNNConv(),
    "TAGConv": lambda: g.TAGConv(WIDTH, OUT),
    "GINConv": lambda: g.GINConv(perceptron(WIDTH, OUT), train_eps=True),
    "GINEConv": lambda: by(
        g.GINEConv(perceptron(WIDTH, OUT), edge_dim=EDGE), lambda s, x, e, a: s.c(x, e, a), CallAttr
    ),
    "ARMAConv": lambda: g.ARMAConv(WIDTH, OUT, num_stacks=2, num_layers=2),
    "SGConv": lambda: g.SGConv(WIDTH, OUT, K=2),
    "SSGConv": lambda: g.SSGConv(WIDTH, OUT, alpha=0.2, K=2),
    "APPNP": lambda: g.APPNP(3, 0.1),
    "MFConv": lambda: g.MFConv(WIDTH, OUT, max_degree=4),
    "RGCNConv": lambda: of_types(g.RGCNConv(WIDTH, OUT, 3)),
    "FastRGCNConv": lambda: of_types(g.FastRGCNConv(WIDTH, OUT, 3)),
    "RGATConv": lambda: of_types(g.RGATConv(WIDTH, OUT, 3)),
    "DNAConv": lambda: by(g.DNAConv(WIDTH, heads=2), lambda s, x, e: s.c(torch.stack([x, x.relu()], 1), e)),
    "PointNetConv": lambda: by(
        g.PointNetConv(perceptron(WIDTH + 3, OUT)), lambda s, x, e: s.c(x, x[:, :3], e)
    ),
    "GMMConv": lambda: g.GMMConv(WIDTH, OUT, EDGE, 2),
    "NNConv": lambda: g.NNConv(WIDTH, OUT, perceptron(EDGE, WIDTH * OUT)),
    "CGConv": lambda: g.CGConv(WIDTH, dim=EDGE, batch_norm=True),
    "EdgeConv": lambda: g.EdgeConv(perceptron(2 * WIDTH, OUT)),
    "PPFConv": lambda: by(
        g.PPFConv(perceptron(WIDTH + 4, OUT)), lambda s, x, e: s.c(x, x[:, :3], x[:, 3:6], e)
    ),
    "FeaStConv": lambda: g.FeaStConv(WIDTH, OUT, heads=2),
    "PointTransformerConv": lambda: by(
        g.PointTransformerConv(WIDTH, OUT), lambda s, x, e: s.c(x, x[:, :3], e)
    ),
    "LEConv": lambda: g.LEConv(WIDTH, OUT),
    "PNAConv": lambda: g.PNAConv(
        WIDTH,
        OUT,
        ["mean", "min", "max", "std"],
        ["identity", "amplification", "attenuation", "linear"],
        DEGREES,
        edge_dim=EDGE,
        towers=2,
    ),
    "ClusterGCNConv": lambda: g.ClusterGCNConv(WIDTH, OUT, diag_lambda=0.1),
    "GENConv": lambda: g.GENConv(
        WIDTH, OUT, learn_t=True, edge_dim=EDGE, msg_norm=True, learn_msg_scale=True
    ),
    "GCN2Conv": lambda: by(g.GCN2Conv(WIDTH, 0.2, 0.5, 1), lambda s, x, e: s.c(x, x.relu(), e)),
    "WLConvContinuous": lambda: g.WLConvContinuous(),
    "FiLMConv": lambda: g.FiLMConv(WIDTH, OUT),
    "SuperGATConv": lambda: g.SuperGATConv(WIDTH, 3, heads=2),
    "FAConv": lambda: by(g.FAConv(WIDTH), lambda s, x, e: s.c(x, x.relu(), e)),
    "EGConv of sums": lambda: g.EGConv(
        WIDTH, OUT, ["sum", "mean", "max"], num_heads=2, num_bases=3, add_self_loops=False
    ),
    "EGConv": lambda: g.EGConv(WIDTH, OUT, ["symnorm", "max", "std"], num_heads=2, num_bases=3),
    "PDNConv": lambda: g.PDNConv(WIDTH, OUT, EDGE, 8),
    "GeneralConv": lambda: g.GeneralConv(WIDTH, OUT, EDGE, attention=True, heads=2),
    "HEATConv": lambda: by(
        g.HEATConv(WIDTH, OUT, 2, 2, 3, EDGE, 3, heads=2),
        lambda s, x, e, a: s.c(x, e, (x[:, 0] > 0).long(), (a[:, 0] > 0).long(), a),
        CallAttr,
    ),
    "LGConv": lambda: g.LGConv(),
    "PointGNNConv": lambda: by(
        g.PointGNNConv(perceptron(WIDTH, 3), perceptron(WIDTH + 3, 5), perceptron(5, WIDTH)),
        lambda s, x, e: s.c(x, x[:, :3], e),
    ),
    "GPSConv": lambda: g.GPSConv(WIDTH, g.GCNConv(WIDTH, WIDTH), heads=2),
    "AntiSymmetricConv": lambda: g.AntiSymmetricConv(WIDTH),
    "DirGNNConv": lambda: g.DirGNNConv(g.SAGEConv(WIDTH, OUT)),
    "MixHopConv": lambda: g.MixHopConv(WIDTH, OUT),
}
ATTRIBUTED = {"GMMConv", "NNConv", "CGConv", "PNAConv", "GENConv", "PDNConv", "GeneralConv"}
NOT = {
    "HEATConv": "sorts them by type",
    "GPSConv": "all pairs",
}
if torch.__version__ < "2.8":  # of edges with added self loops and of hops
    NOT["DNAConv"] = "depends on values, or PyTorch .* takes it to, as a later one may not"


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name):
    module = CONVOLUTIONS[name]()
    attr = name in ATTRIBUTED or isinstance(module, CallAttr)
    if name in NOT:
        with pytest.raises(weft.Refused, match=NOT[name]):
            compare(module, call, attr)
        return
    compare(module, call, attr)
    if "edge_weight" in inspect.signature(module.forward).parameters:
        compare(CONVOLUTIONS[name](), call, weight=True)


def test_most_convolutions():
    assert len(CONVOLUTIONS) == 51 and len(NOT) <= 2 + ("DNAConv" in NOT)


@pytest.mark.parametrize("name", ["chains", "golden", "losses", "special_points"])
def test_scripts_of_golden_files(name, monkeypatch):
    """The scripts that write golden files of programs find the names that they take from weft."""
    folder = Path(__file__).parents[3] / "program" / "testdata"
    monkeypatch.syspath_prepend(str(folder))
    assert callable(runpy.run_path(str(folder / f"{name}.py"))["main"])
