"""Programs of modules that users write: outputs and gradients are the modules', in float64."""

import inspect
import json

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as g
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCNConv, MessagePassing, SAGEConv
from torch_geometric.utils import add_remaining_self_loops, add_self_loops, degree, scatter, softmax
from trace_models import DEGREES, Call, CallAttr, CallWeight, OfData, Stack, Typed, by, call
from traced import EDGE, OUT, WIDTH, compare, typed

import weft
from weft._trace import trace

pytestmark = pytest.mark.usefixtures("in_double")


class Aggregate(MessagePassing):
    def __init__(self, aggr, **settings):
        super().__init__(aggr=aggr, **settings)
        self.lin = nn.Linear(WIDTH, OUT)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x))


class Gated(MessagePassing):
    def __init__(self):
        super().__init__(aggr="max")
        self.root, self.key, self.query, self.value = (nn.Linear(WIDTH, OUT) for _ in range(4))

    def forward(self, x, edge_index):
        return self.root(x) + self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return torch.sigmoid(self.key(x_i) + self.query(x_j)) * torch.tanh(self.value(x_j - x_i))


class Attentive(MessagePassing):
    def __init__(self, heads=3):
        super().__init__(aggr="add", node_dim=0)
        self.heads, self.lin, self.edge = heads, nn.Linear(WIDTH, heads * OUT), nn.Linear(EDGE, heads * OUT)
        self.vector, self.temperature = (
            nn.Parameter(torch.randn(1, heads, OUT)),
            nn.Parameter(torch.ones(heads)),
        )

    def forward(self, x, edge_index, edge_attr):
        x = self.lin(x).view(-1, self.heads, OUT)
        return self.propagate(edge_index, x=x, edge_attr=edge_attr).mean(1)

    def message(self, x_i, x_j, edge_attr, index, ptr, size_i):
        e = self.edge(edge_attr).view(-1, self.heads, OUT)
        score = (self.vector * F.elu(x_i + x_j + e)).sum(-1) * self.temperature
        return (x_j + e) * softmax(score, index, ptr, size_i).unsqueeze(-1)


class Deep(nn.Module):
    """GCNII's layers, one of them twice, with skips, and the largest of all layers at the end."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(WIDTH, 16), nn.Linear(16, OUT)
        self.layers = nn.ModuleList(g.GCN2Conv(16, alpha=0.2, theta=0.5, layer=k + 1) for k in range(3))
        self.jump = g.JumpingKnowledge("max")

    def forward(self, x, edge_index):
        h = h0 = self.into(x).relu()
        hs = []
        for layer in (*self.layers, self.layers[1]):
            h = h + F.relu(layer(h, h0, edge_index))
            hs.append(h)
        return self.out(self.jump(hs))


def normalised(self, x, edges):
    edges, _ = add_self_loops(edges, num_nodes=x.size(0))
    row, col = edges
    scale = degree(col, x.size(0), dtype=x.dtype).pow(-0.5)
    scale[scale == float("inf")] = 0
    weight, h = scale[row] * scale[col], self.lin(x)
    return torch.zeros_like(h).index_add(0, col, weight.view(-1, 1) * h[row])


def in_place(self, x, edges):
    kept = self.lin(x)
    h = kept.clone()
    h[:, 0] = kept[:, 1] * 2
    h[:, 0] = kept[:, 0] - h[:, 0]
    h[:, 1:3] += 1
    h[:, 2:].mul_(2)
    return h


def both_directions(self, x, edges):
    h, (row, col) = self.lin(x), edges
    both, w = torch.cat([edges, edges.flip(0)], 1), torch.cat([h[row, :1] - h[col, 1:2], h[col, 2:3].tanh()])
    largest = scatter(w * h[both[0]], both[1], 0, x.size(0), "max")
    loops, w = add_self_loops(both, w[:, 0], fill_value=2.0, num_nodes=x.size(0))
    sums = scatter(w.view(-1, 1) * h[loops[0]], loops[1], 0, x.size(0))
    again, w = add_self_loops(*add_self_loops(edges, h[row, 0], -1.0, x.size(0)), 0.5, x.size(0))
    sums = sums + scatter(w.view(-1, 1) * h[again[1]], again[0], 0, x.size(0))
    return (
        largest
        + sums
        + self.c(self.conv(h, both), torch.stack([torch.cat([col, row]), torch.cat([row, col])]))
        + w.max()
    )


def over_vertices(self, x, edges):
    h = self.lin(x) - self.lin(x).mean(0)
    return (
        h / (1e-5 + h.pow(2).mean(0, keepdim=True).sqrt())
        + h.std(0)
        + h.mean()
        + h.var()
        + h.sum() / x.size(0)
    )


def chosen(self, x, edges):
    h, some = self.lin(x), edges[:, x[edges[0]][:, 0] > 0]
    parts = (
        scatter(h[some[0]], some[1], dim=0, dim_size=x.size(0), reduce=r)
        for r in ("max", "mean", "min", "mul", "sum")
    )
    return sum(parts)


def linear_attention(self, x, edges):
    q, k, v = self.lin(x).softmax(-1), self.lin(x).sigmoid(), self.lin(x)
    return q @ (k.t() @ v) / x.size(0) + (self.conv.lin.weight @ v.t()).t()


def checkpointed(self, x, edges):
    with torch.no_grad():
        shift = self.lin(x).mean(0)
    return torch.utils.checkpoint.checkpoint(self.conv, self.lin(x) - shift, edges, use_reentrant=False)


def reversed_edges(self, x, edges):
    h = self.lin(x)
    return (
        self.conv(h, edges.flip(0))
        + self.conv(h, edges[[1, 0]])
        + self.conv(h, torch.stack([edges[1], edges[0]]))
    )


def recurrent(self, x, edges):
    h, c = self.cell(self.lin(x))
    return self.gru(self.cell(h, (h, c))[0], h)


def sequences(self, x, edges):
    steps, state = (
        torch.stack([self.lin(x), self.lin(-x), self.lin(x * x)], 1),
        self.lin(x)[None].repeat(4, 1, 1),
    )
    out, last = self.gru(steps, state)
    more, (_, cell) = self.lstm(steps.transpose(0, 1))
    return torch.cat([out[:, -1], last[1], more[0], cell[0], self.plain(steps)[1][0]], 1)


def along_columns(self, x, edges):
    return (
        self.lin(x).cumsum(-1)
        + x[:, :3].repeat_interleave(2, dim=1)
        + self.lin(x).view(-1, 3, 2).cumsum(1).flatten(1)
    )


def regrouped(self, x, edges):
    """Views in which each row of the graph is several rows of a matrix."""
    v, h = x.size(0), self.lin(x).view(-1, 2, 3)
    a = self.three(h.reshape(-1, 3)).relu().view(v, 6)
    b = self.norm(h.reshape(2 * v, 3)[:, [2, 0, 1]]).softmax(-1).view(-1, 6)
    m = h[edges[0]].view(-1, 3)
    m = torch.cat([m, m.sum(-1, keepdim=True)], 1) * torch.ones(m.size(0), 1)
    c = h.permute(1, 0, 2).contiguous().view(2, -1)
    c = (c * 2 + c.mean(1, keepdim=True)).view(2, v, 3).sum(0)
    parts = [a, b, scatter(m.view(-1, 2, 4).sum(-1), edges[1], 0, v, "sum"), c]
    return torch.cat(parts, 1) + h.reshape(-1, 3).mean() + h.view(-1, 3).std(0).sum()


def sparse(self, x, edges):
    v = x.size(0)
    adjacency = torch.sparse_coo_tensor(edges, self.lin(x)[edges[0], 0], (v, v)).coalesce()
    return (
        adjacency @ self.lin(x) + torch.sparse.mm(adjacency.t(), x[:, :OUT]) + torch.spmm(adjacency, x[:, 2:])
    )


def reversible(self, x, edges):
    h = self.lin(x).repeat(1, 2)
    return self.rev(1 * h, edges) + torch.utils.checkpoint.checkpoint(
        self.again, h, edges, use_reentrant=True
    )


def columns(self, x, edges):
    h = torch.einsum("nhc,hc->nh", self.lin(x).view(-1, 2, 3), self.lin.bias.view(2, 3)).repeat(1, 3)
    a, b = torch.stack([h, -h], 1).unbind(1)
    c = torch.cat(h.split([2, 4], 1)[::-1], -1).flip(-1).norm(dim=-1, keepdim=True)
    a = a.view(-1, 2, 3).movedim(1, -1).flatten(1)
    return torch.where(a > 0, a, b * 0.5) + c + F.normalize(h[:, ::6], dim=-1).amax(-1, True)


def measured(self, x, edges):
    """Quotients that are rounded down, and norms and deviations of every kind."""
    h = self.lin(x)
    rest = h - torch.div(h, 0.3, rounding_mode="floor") * 0.3 + h.detach() // 0.7
    sizes = [h.norm(p, dim=-1, keepdim=True) for p in (1, 3, float("inf"), float("-inf"))]
    spread = [
        h.std(0, correction=0),
        h.var(1, correction=2, keepdim=True),
        h.var(unbiased=False),
        h.std((0, 1), correction=3),
    ]
    return rest + sum(sizes) + sum(spread)


def padded(self, x, edges):
    h = self.lin(x).view(-1, 2, 3)
    wide = F.pad(F.pad(h, (1, -1, 0, 2), value=0.5), (-1, 2)) + F.pad(h, (0, 1, 2, 0))
    return wide.flatten(1)[:, :OUT] + F.pad(self.lin.bias, (2, -2))


def means_of_loops(self, x, edges, attr):
    edges, attr = add_self_loops(edges, attr, fill_value="mean", num_nodes=x.size(0))
    return scatter(F.gelu(self.lin(x)[edges[0]] + self.edge(attr)), edges[1], 0, x.size(0), "max")


def remaining(self, x, edges, weight):
    other, w = add_remaining_self_loops(edges, weight, 2.0, x.size(0))
    own = scatter(w.view(-1, 1) * self.lin(x)[other[0]], other[1], 0, x.size(0), "sum")
    return own + self.conv(self.lin(x), edges, weight)


def corners(self, x, edges):
    """What has been traced wrongly, or refused."""
    h = self.lin(x) + self.first((x[:, 0] > 0).long()) - self.lin(x)[x[:, 1] > 0].mean(0)
    h = h * (1 + ((x[:, :OUT] * 3).long() == -1)) + x.view(-1, 2, 2, 2).movedim(1, 3).flatten(1)[:, :OUT]
    h = F.batch_norm(
        h,
        self.norm.running_mean,
        self.norm.running_var,
        self.norm.weight.exp(),
        2 * self.norm.bias,
        self.training,
    )
    h = h + self.two(x, x) + torch.hypot(h, x[:, :OUT]) + h % 2 + torch.round(h, decimals=1)
    h = h[:, self.order] * x.size(0) ** -0.5
    h[:, [0, 2]] = torch.atan(h[:, self.some])
    return h.t().mul_(2).t() + h.any(1, keepdim=True) + h.view(-1, 2, 3).norm(3, dim=2).sum(1, keepdim=True)


def hops(self, x, edges):
    """Attention over three rows of each vertex."""
    h = torch.stack([x, self.more(x), x.tanh()], 1)
    h = self.layer(h) + F.scaled_dot_product_attention(h, h, h)
    return self.lin(h.mean(1))


ACTIVATIONS = (
    "PReLU GELU SiLU SELU CELU Softplus Mish Hardswish Hardtanh Tanhshrink LogSigmoid Softsign ReLU6".split()
)
MODULES = {
    "gated": Gated,
    "attentive": Attentive,
    "deep": Deep,
    **{
        f"aggr {a}": lambda a=a: Aggregate(a)
        for a in "sum mean max min mul std var softmax powermean".split()
    },
    "aggr of several": lambda: Aggregate(["mean", "max", "std"]),
    "aggr by degree": lambda: Aggregate(
        g.aggr.DegreeScalerAggregation(["mean", "max"], ["identity", "amplification"], DEGREES)
    ),
    "flow": lambda: Aggregate("mean", flow="target_to_source"),
    "norms of PyG": lambda: Stack(
        g.BatchNorm(OUT),
        g.LayerNorm(OUT),
        g.LayerNorm(OUT, mode="node"),
        g.GraphNorm(OUT),
        g.InstanceNorm(OUT, affine=True),
        g.DiffGroupNorm(OUT, 2),
    ),
    "other norms": lambda: Stack(
        g.MeanSubtractionNorm(),
        g.PairNorm(),
        g.PairNorm(scale_individually=True),
        nn.LayerNorm(OUT),
        nn.GroupNorm(2, OUT),
    ),
    "norms without": lambda: Stack(
        nn.BatchNorm1d(OUT, affine=False),
        nn.BatchNorm1d(OUT, track_running_stats=False),
        nn.BatchNorm1d(OUT, momentum=None),
    ),
    "activations": lambda: Stack(
        *(getattr(nn, a)() for a in ACTIVATIONS), nn.PReLU(OUT), nn.GLU(), nn.Linear(3, OUT)
    ),
    "GCN, jumping": lambda: g.GCN(WIDTH, 8, 2, 3, norm="batch", jk="cat"),
    "PNA": lambda: g.PNA(WIDTH, 8, 2, 3, aggregators=["mean", "std"], scalers=["identity"], deg=DEGREES),
    "EdgeCNN": lambda: g.EdgeCNN(WIDTH, 8, 2, 3),
    "DeepGCN": lambda: Call(
        lambda s, x, e: s.d(s.lin(x), e), d=g.DeepGCNLayer(g.GENConv(OUT, OUT), nn.LayerNorm(OUT), nn.ReLU())
    ),
    "lazy": lambda: GCNConv(-1, 4),
    "cached": lambda: GCNConv(WIDTH, 4, cached=True),
    "GAT of edges": lambda: by(
        g.GATConv(WIDTH, 4, 2, edge_dim=EDGE), lambda s, x, e, a: s.c(x, e, a), CallAttr
    ),
    "Transformer of edges": lambda: by(
        g.TransformerConv(WIDTH, 4, 2, edge_dim=EDGE), lambda s, x, e, a: s.c(x, e, a), CallAttr
    ),
    "embedding": lambda: Call(lambda s, x, e: s.lin(x) + s.t((x[:, 0] > 0).long()), t=nn.Embedding(3, OUT)),
    "table with padding": lambda: Call(
        lambda s, x, e: s.lin(x) + s.t((x[:, 0] > 0).long()), t=nn.Embedding(3, OUT, padding_idx=1)
    ),
    "corners": lambda: Call(
        corners,
        first=nn.Embedding(3, OUT, padding_idx=0),
        norm=nn.BatchNorm1d(OUT),
        two=nn.Bilinear(WIDTH, WIDTH, OUT),
        order=nn.Buffer(torch.tensor([5, 1, 0, 3, 2, 4])),
        some=nn.Buffer(torch.arange(OUT) % 3 == 1),
    ),
    "hops": lambda: Call(
        hops,
        more=nn.Linear(WIDTH, WIDTH),
        layer=nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.0, batch_first=True),
    ),
    "largest of all": lambda: Call(
        lambda s, x, e: s.lin(x) - s.lin(x).max(0)[0] * s.lin(x).max(1, keepdim=True)[0]
    ),
    "in another": lambda: nn.DataParallel(Call(lambda s, x, e: s.conv(s.lin(x), e))),
    "recurrent": lambda: Call(recurrent, cell=nn.LSTMCell(OUT, OUT), gru=nn.GRUCell(OUT, OUT)),
    "sequences": lambda: Call(
        sequences,
        gru=nn.GRU(OUT, OUT, 2, batch_first=True, bidirectional=True),
        lstm=nn.LSTM(OUT, 4, bias=False),
        plain=nn.RNN(OUT, 3, batch_first=True),
    ),
    "both directions": lambda: Call(both_directions, c=g.GATConv(OUT, 3, heads=2)),
    "regrouped": lambda: Call(regrouped, three=nn.Linear(3, 3), norm=nn.LayerNorm(3)),
    "reversible": lambda: Call(
        reversible, rev=g.GroupAddRev(GCNConv(OUT, OUT), num_groups=2), again=GCNConv(2 * OUT, 2 * OUT)
    ),
    "loops of edges": lambda: CallAttr(means_of_loops, edge=nn.Linear(EDGE, OUT)),
    "remaining loops": lambda: CallWeight(remaining),
    "one object": OfData,
    **{
        f.__name__: lambda f=f: Call(f)
        for f in (
            normalised,
            in_place,
            over_vertices,
            chosen,
            linear_attention,
            checkpointed,
            measured,
            padded,
            reversed_edges,
            columns,
            along_columns,
            sparse,
        )
    },
}


@pytest.mark.parametrize("name", MODULES)
def test_module(name):
    module = MODULES[name]()
    names = inspect.signature(module.forward).parameters
    compare(
        module,
        call,
        "edge_attr" in names and not isinstance(module, g.models.basic_gnn.BasicGNN),
        isinstance(module, CallWeight),
    )


def test_types_of_edges():
    compare(Typed(), lambda module, x, e, attr: module(e, attr[:, 0].long(), x), True, data=typed())


def operations(module, **graph):
    return [o["op"] for o in json.loads(trace(module, features=WIDTH, **graph).text)["operations"]]


def test_folds():
    """What PyG writes by several operations is one of the program's, and GCNConv scales by degrees that no
    parameter enters."""
    assert operations(g.GATConv(WIDTH, 3)).count("edge_softmax") == 1 and "exp" not in operations(
        g.GATConv(WIDTH, 3)
    )
    assert "div" not in operations(SAGEConv(WIDTH, OUT))
    assert operations(Stack(g.BatchNorm(OUT))).count("batch_norm") == 1
    assert operations(Stack(nn.LayerNorm(OUT), nn.Dropout())).count("dropout") == 1
    text = trace(GCNConv(WIDTH, OUT), features=WIDTH).text
    assert [o["loops"] for o in json.loads(text)["operations"] if o["op"] == "gather"] == ["one"] * 3


def test_batches():
    """Batch norm counts as often as PyTorch computes it: below a checkpoint, or a layer that is inverted,
    again."""

    def times(call, **parts):
        text = trace(Call(call, **parts), features=WIDTH).text
        return [o.get("times") for o in json.loads(text)["operations"] if o["op"] == "batch_norm"]

    block = nn.Sequential(nn.Linear(WIDTH, OUT), nn.BatchNorm1d(OUT), nn.ReLU())
    for reentrant in (True, False):
        assert times(
            lambda s, x, e, r=reentrant: checkpoint(s.b, x, use_reentrant=r) + s.norm(x[:, :OUT]),
            b=block,
            norm=nn.BatchNorm1d(OUT),
        ) == [2, None]


@pytest.mark.parametrize("name", ["index_add", "sum", "amax", "amin", "mean"])
@pytest.mark.parametrize("to", ["one group", "targets", "vertices"])
@pytest.mark.parametrize("with_start", [True, False])
def test_what_rows_are_written_into(name, to, with_start):
    """Rows are aggregated with what is there before, below and above all of them, or without it."""

    def forward(s, x, e):
        h, start = s.lin(x), torch.linspace(-3, 3, OUT)
        rows, index, count = {
            "one group": (h, torch.zeros(x.size(0), dtype=torch.long), 1),
            "targets": (h[e[0]], e[1], x.size(0)),
            "vertices": (h, torch.arange(x.size(0)), x.size(0)),
        }[to]
        into = start.expand(count, OUT) if with_start or to != "targets" else torch.zeros(count, OUT)
        if name == "index_add":
            return h + into.index_add(0, index, rows, alpha=1 + with_start)
        return h + into.scatter_reduce(0, index[:, None].expand_as(rows), rows, name, include_self=with_start)

    if name == "mean" and with_start:
        with pytest.raises(
            weft.Refused, match="scatter_reduce by mean with include_self=True: give include_self=False"
        ):
            trace(Call(forward), features=WIDTH)
        return
    compare(Call(forward), call)


def test_state():
    """Of a tensor with two names one is kept, and dropout of one module has a name for each call."""
    module = Call(lambda s, x, e: s.drop(s.drop(s.b(s.lin(x), e))), drop=nn.Dropout(0.5))
    module.b = module.conv
    program = trace(module, features=WIDTH)
    assert "b.lin.weight" not in program.state and program.state["conv.lin.weight"].dtype == "float32"
    document = json.loads(program.text)
    assert [o["path"] for o in document["operations"] if o["op"] == "dropout"] == ["drop", "drop#2"]
    assert [p["name"] for p in document["parameters"]] == [
        "lin.weight",
        "lin.bias",
        "conv.bias",
        "conv.lin.weight",
    ]
    assert all(p["trained"] for p in document["parameters"])


def test_momentum():
    """Batch norm without momentum counts its batches, and others have their own."""
    module = Stack(nn.BatchNorm1d(OUT, momentum=None), nn.BatchNorm1d(OUT, momentum=0.3))
    norms = [
        o for o in json.loads(trace(module, features=WIDTH).text)["operations"] if o["op"] == "batch_norm"
    ]
    assert [o.get("momentum") for o in norms] == [None, 0.3]


def test_lazy():
    """A lazy module takes its sizes from a call on a few rows, and not on all of the graph."""
    seen = []
    module = Call(lambda s, x, e: seen.append(x.shape[0]) or s.c(x, e), c=GCNConv(-1, OUT))
    trace(module, features=WIDTH, vertices=500_000)
    assert seen[0] < 50


def test_quiet():
    """A refusal leaves the logging of the process as it was."""
    import logging

    with pytest.raises(weft.Refused):
        trace(Call(lambda s, x, e: s.lin(x).sort(0)[0] if s.lin(x).sum() > 0 else x), features=WIDTH)
    assert logging.root.manager.disable == logging.NOTSET
