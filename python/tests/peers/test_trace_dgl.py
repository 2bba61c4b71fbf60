"""Programs of DGL's convolutions and of modules over its messages: outputs and gradients are the modules', in
float64."""

import copy
import inspect
import json

import dgl
import dgl.function as fn
import dgl.nn.pytorch as d
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from traced import EDGE, OUT, WIDTH, compare, perceptron, typed

import weft
from weft import _pass

ZERO = {"allow_zero_in_degree": True}


class Call(nn.Module):
    """A module over parts, by one function."""

    def __init__(self, function, *parts):
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, graph, x):
        return self.function(*self.parts, graph, x)


class CallAttr(Call):
    def forward(self, graph, x, edge_feat):
        return self.function(*self.parts, graph, x, edge_feat)


def heads(conv):
    return Call(lambda c, g, x: c(g, x).flatten(1), conv)


CONVOLUTIONS = {
    "AGNNConv": lambda: d.AGNNConv(**ZERO),
    "APPNPConv": lambda: d.APPNPConv(3, 0.1),
    "ChebConv": lambda: d.ChebConv(WIDTH, OUT, 3),
    "CFConv": lambda: d.CFConv(WIDTH, EDGE, 8, OUT),
    "DotGatConv": lambda: heads(d.DotGatConv(WIDTH, 3, 2, **ZERO)),
    "DGNConv": lambda: CallAttr(
        lambda c, g, x, a: c(g, x, a, x[:, :3]),
        d.DGNConv(
            WIDTH, OUT, ["dir1-av", "dir2-dx", "max"], ["identity", "amplification"], 1.5, edge_feat_size=EDGE
        ),
    ),
    "EdgeConv": lambda: d.EdgeConv(WIDTH, OUT, **ZERO),
    "EdgeGATConv": lambda: CallAttr(
        lambda c, g, x, a: c(g, x, a).flatten(1), d.EdgeGATConv(WIDTH, EDGE, 3, 2, **ZERO)
    ),
    "EGATConv": lambda: CallAttr(
        lambda c, g, x, a: c(g, x, a)[0].flatten(1), d.EGATConv(WIDTH, EDGE, 3, 3, 2)
    ),
    "EGNNConv": lambda: CallAttr(
        lambda c, g, x, a: torch.cat(c(g, x, x[:, :3], a), 1), d.EGNNConv(WIDTH, 8, OUT, EDGE)
    ),
    "GATConv": lambda: heads(d.GATConv(WIDTH, 3, 2, residual=True, **ZERO)),
    "GatedGCNConv": lambda: CallAttr(
        lambda c, g, x, a: c(g, x, a)[0], d.GatedGCNConv(WIDTH, EDGE, OUT, batch_norm=False)
    ),
    "GatedGraphConv": lambda: d.GatedGraphConv(WIDTH, WIDTH, 2, 1),
    "GATv2Conv": lambda: heads(d.GATv2Conv(WIDTH, 3, 2, **ZERO)),
    "GCN2Conv": lambda: Call(lambda c, g, x: c(g, x, x.relu()), d.GCN2Conv(WIDTH, 1, **ZERO)),
    "GINConv": lambda: d.GINConv(perceptron(WIDTH, OUT), "max", learn_eps=True),
    "GINEConv": lambda: CallAttr(
        lambda c, e, g, x, a: c(g, x, e(a)), d.GINEConv(perceptron(WIDTH, OUT)), nn.Linear(EDGE, WIDTH)
    ),
    "GMMConv": lambda: d.GMMConv(WIDTH, OUT, EDGE, 2, "mean", **ZERO),
    "GraphConv": lambda: d.GraphConv(WIDTH, OUT),
    "HGTConv": lambda: CallAttr(
        lambda c, g, x, a: c(g, x, (x[:, 0] > 0).long(), (a[:, 0] > 0).long()),
        d.HGTConv(WIDTH, 4, 2, 2, 2, dropout=0.0),
    ),
    "NNConv": lambda: d.NNConv(WIDTH, OUT, perceptron(EDGE, WIDTH * OUT)),
    "PNAConv": lambda: d.PNAConv(
        WIDTH,
        OUT,
        ["mean", "max", "min", "sum", "std", "moment3"],
        ["identity", "amplification", "attenuation"],
        1.5,
        num_towers=2,
    ),
    "RelGraphConv": lambda: CallAttr(
        lambda c, g, x, a: c(g, x, (a[:, 0] > 0).long()), d.RelGraphConv(WIDTH, OUT, 2, "basis", 2)
    ),
    **{
        f"SAGEConv {kind}": lambda kind=kind: d.SAGEConv(WIDTH, OUT, kind) for kind in ("mean", "pool", "gcn")
    },
    "SGConv": lambda: d.SGConv(WIDTH, OUT, 2),
    "TAGConv": lambda: d.TAGConv(WIDTH, OUT),
    "TWIRLSConv": lambda: d.TWIRLSConv(WIDTH, OUT, 8, 2),
}
ATTRIBUTED = {"CFConv", "GMMConv", "NNConv"}


def call(module, x, edge_index, *more):
    graph = dgl.graph((edge_index[0], edge_index[1]), num_nodes=len(x))
    if isinstance(module, Held):
        module.g = graph
        return module(x)
    return module([graph] * 2 if isinstance(module, Blocks) else graph, x, *more)


@pytest.fixture(autouse=True)
def settings():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name):
    module = CONVOLUTIONS[name]()
    compare(
        module, call, name in ATTRIBUTED or isinstance(module, CallAttr), loops=12
    )  # each vertex has an edge


class Own(nn.Module):
    """z_i = W·(x_i ‖ Σ_j→i σ(a·x_j − b·x_i) x_j), by apply_edges and update_all."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 1), nn.Linear(2 * WIDTH, OUT)

    def forward(self, graph, x):
        with graph.local_scope():
            graph.ndata["x"], graph.ndata["a"], graph.ndata["b"] = x, self.a(x), self.b(x)
            graph.apply_edges(fn.u_sub_v("a", "b", "s"))
            graph.edata["s"] = torch.sigmoid(graph.edata["s"])
            graph.update_all(fn.u_mul_e("x", "s", "m"), fn.sum("m", "z"))
            return self.out(torch.cat([x, graph.ndata["z"]], -1))


def of_python(part, graph, x):
    """Functions of messages in Python, on edges with self loops that are not the stored ones."""
    graph = dgl.add_self_loop(dgl.remove_self_loop(graph))
    with graph.local_scope():
        graph.srcdata["h"] = part(x)
        graph.update_all(
            lambda edges: {"m": edges.src["h"] * edges.dst["h"].tanh()},
            lambda nodes: {"z": nodes.mailbox["m"].sum(1)},
        )
        graph.update_all(fn.copy_u("z", "m"), fn.max("m", "most"))
        degrees = graph.in_degrees().clamp(min=1).view(-1, 1)
        return (
            F.dropout(graph.dstdata["most"], 0.0)
            + graph.dstdata["z"] / degrees
            + x.shape[0] / graph.num_edges()
        )


def without_messages(part, graph, x):
    """A function of messages in Python, which DGL does not call for vertices that get none: theirs is 0."""
    with graph.local_scope():
        graph.srcdata["h"] = part(x)
        graph.update_all(fn.copy_u("h", "m"), lambda nodes: {"z": nodes.mailbox["m"].sum(1).exp()})
        return graph.dstdata["z"]


def ops(part, graph, x):
    h, degrees = part(x), graph.out_degrees().to(x)
    scores = dgl.nn.functional.edge_softmax(
        graph, dgl.ops.u_dot_v(graph, h, h) / dgl.ops.u_mul_v(graph, degrees, degrees).sqrt().view(-1, 1)
    )
    return (
        dgl.ops.u_mul_e_sum(graph, h, scores)
        + dgl.ops.copy_u_mean(graph, h)
        + F.batch_norm(h, None, None, training=True)
    )


class Blocks(nn.Module):
    """As of a model that is trained on sampled blocks, too: a graph for each layer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([d.GraphConv(WIDTH, 8), d.SAGEConv(8, OUT, "mean")])

    def forward(self, blocks, x):
        for k, (layer, block) in enumerate(zip(self.layers, blocks)):
            x = layer(block, x) + layer(blocks[k], x)
        return x


class Held(nn.Module):
    """A module that holds its graph, of which weft takes another in its place."""

    def __init__(self):
        super().__init__()
        self.g, self.layers = (
            dgl.graph(([0, 1], [1, 0])),
            nn.ModuleList(
                [d.Sequential(d.GraphConv(WIDTH, OUT), d.GATConv(OUT, OUT, 1)), nn.Linear(OUT, OUT)]
            ),
        )

    def forward(self, features):
        return self.layers[1](self.layers[0](self.g, features).squeeze(1))


class Typed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = d.RelGraphConv(WIDTH, OUT, 2)

    def forward(self, graph, x, etypes):
        return self.conv(graph, x, etypes)


@pytest.mark.parametrize(
    "make",
    [
        Own,
        Held,
        Blocks,
        lambda: d.GroupRevRes(d.GraphConv(WIDTH // 2, WIDTH // 2), 2),
        lambda: Call(of_python, nn.Linear(WIDTH, OUT)),
        lambda: Call(ops, nn.Linear(WIDTH, OUT)),
    ],
)
def test_module(make):
    compare(make(), call, loops=12)


def test_without_messages():
    compare(Call(without_messages, nn.Linear(WIDTH, OUT)), call)


def test_types_of_edges():
    compare(Typed(), lambda module, x, e, attr: call(module, x, e, attr[:, 0].long()), True, data=typed(12))


def pulled(part, graph, x):
    graph.pull([0, 1], fn.copy_u("h", "m"), fn.sum("m", "h"))
    return part(x)


def outside(part, graph, x):
    return part(x) * graph.ndata["norm"]


REFUSALS = {
    "fields": (
        outside,
        (
            "test_trace_dgl.py.*the field 'norm' of the graph is set outside of forward.* columns of the "
            "features x"
        ),
    ),
    "fields of edges": (
        lambda part, g, x: part(x) + g.edata["w"].sum(),
        (
            r"the field 'w' .*weft.Graph.of\(graph, edge_attr=graph.edata\['w'\]\), "
            r"and read graph.edata\['feat'\]"
        ),
    ),
    "numbers of edges": (
        lambda part, g, x: part(x) + g.edges(form="all")[2].sum(),
        "form='all'. gives numbers of edges",
    ),
    "sorted edges": (
        lambda part, g, x: part(x) + g.edges("uv", "srcdst")[0].sum(),
        "order='srcdst'. sorts edges",
    ),
    "vertices pulled": (pulled, "DGLGraph.pull is not known"),
    "lstm": (lambda part, g, x: d.SAGEConv(WIDTH, OUT, "lstm").to(x)(g, x), "mailbox|Mailbox"),
    "dropout": (lambda part, g, x: F.dropout(part(x)), "training=self.training"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses(name):
    function, words = REFUSALS[name]
    with pytest.raises(weft.Refused, match=words):
        weft._trace.trace(Call(function, nn.Linear(WIDTH, OUT)), features=WIDTH)


def test_lines_of_layers():
    """Operations of a layer of DGL are said to come from its file, and not from where it is traced."""
    program = json.loads(weft._trace.trace(d.GraphConv(WIDTH, OUT), features=WIDTH).text)
    lines = [operation["line"] for operation in program["operations"] if "line" in operation]
    assert lines and all(line.startswith("graphconv.py:") for line in lines), lines


def test_edges_that_lack():
    assert "edge_feat" in inspect.signature(CallAttr.forward).parameters
    with pytest.raises(
        weft.Refused, match=r"forward takes edge_feat, .* weft.Graph.of\(graph, edge_attr=graph.edata"
    ):
        weft._trace.trace(CallAttr(lambda part, g, x, a: part(x), nn.Linear(WIDTH, OUT)), features=WIDTH)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = d.SAGEConv(WIDTH, 8, "mean"), d.GATConv(8, OUT, 1, **ZERO)

    def forward(self, graph, x):
        return self.last(graph, F.relu(self.first(graph, x))).squeeze(1)


def test_loop():
    x, graph, y = torch.randn(60, WIDTH), dgl.rand_graph(60, 300), torch.randint(OUT, (60,))
    graph.ndata["feat"] = x.float()
    exact = Network().double()
    net = weft.compile(copy.deepcopy(exact).float(), graph, parallel="graph=2")
    for module, inputs in ((exact, (graph, x)), (net, ())):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.3)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(module(*inputs), y).backward()
            optimizer.step()
    for expected, found in zip(exact.parameters(), net.parameters()):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    out, x = net(), x.float().requires_grad_()
    with pytest.raises(weft.Refused, match="is_grads_batched=True"):
        torch.autograd.grad(out, [*net.parameters()], torch.stack([out, out]), is_grads_batched=True)
    loss = net(x).square().sum()
    first = torch.autograd.grad(loss, x, retain_graph=True)
    if _pass._retains is None:
        with pytest.raises(weft.Refused, match="retain_graph=True: .* 2.6 or later"):
            loss.backward()
    else:
        assert torch.equal(torch.autograd.grad(loss, x)[0], first[0])
