# Writes the golden files: logits and gradients of modules of PyTorch, and their programs. How to run:
#   PYTHONPATH=python/src $(scripts/peers/environment pyg ~/.cache/weft-peers)/bin/python \
#       program/testdata/golden.py
"""Golden files of programs, from PyTorch and PyTorch Geometric.

Each .safetensors file beside this script is one module on one small directed graph (isolated vertices, self
loops, parallel edges), computed in float64 from inputs that are exact in float32. Tensors: x, edge_index,
edge_attr or edge_weight where forward reads it, of a graph of several types each followed by the type or
relation, as "x paper"; param.NAME of the state_dict before the step; cotangent, from which gradients are
taken; logits; grad.NAME, and grad.x; after.NAME the buffers after it. The metadata has the program.
"""

import copy
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch_geometric.nn import (
    ARMAConv,
    ChebConv,
    EdgeConv,
    FiLMConv,
    GATConv,
    GATv2Conv,
    GCN2Conv,
    GCNConv,
    GENConv,
    GINConv,
    GraphConv,
    HeteroConv,
    JumpingKnowledge,
    MessagePassing,
    PDNConv,
    PNAConv,
    ResGatedGraphConv,
    SAGEConv,
    TransformerConv,
    to_hetero,
)
from torch_geometric.nn.aggr import SoftmaxAggregation
from torch_geometric.utils import add_remaining_self_loops, scatter, softmax

from weft._trace import Called, Given, Relation, Schema, trace

HERE = pathlib.Path(__file__).parent
V, E, X, C, A = 30, 160, 7, 3, 4


class Two(nn.Module):
    def __init__(self, first, last, between=torch.relu):
        super().__init__()
        self.first, self.last, self.between = first, last, between

    def forward(self, x, edge_index):
        return self.last(self.between(self.first(x, edge_index)), edge_index)


class TwoWeighted(Two):
    def forward(self, x, edge_index, edge_weight):
        return self.last(self.between(self.first(x, edge_index, edge_weight)), edge_index, edge_weight)


class TwoFeatures(Two):
    def forward(self, x, edge_index, edge_attr):
        return self.last(self.between(self.first(x, edge_index, edge_attr)), edge_index, edge_attr)


class Own(MessagePassing):
    """Messages of both ends, the edge's features and a parameter, aggregated as aggr says."""

    def __init__(self, width, out, aggr, flow="source_to_target"):
        super().__init__(aggr=aggr, flow=flow)
        self.root, self.key, self.query, self.value = (nn.Linear(width, out) for _ in range(4))
        self.scale = nn.Parameter(torch.rand(out) + 0.5)

    def forward(self, x, edge_index):
        return self.root(x) + self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return torch.sigmoid(self.key(x_i) + self.query(x_j)) * torch.tanh(self.value(x_j - x_i)) * self.scale


def perceptron(inputs, outputs):
    return nn.Sequential(
        nn.Linear(inputs, outputs), nn.SiLU(), nn.Linear(outputs, outputs), nn.LayerNorm(outputs)
    )


class Mesh(nn.Module):
    """MeshGraphNet (Pfaff et al. 2021, section 3.2) with one step of its processor: states of edges, then
    those of vertices."""

    def __init__(self, width):
        super().__init__()
        self.x, self.edges, self.out = perceptron(X, width), perceptron(A, width), nn.Linear(width, C)
        self.edge, self.vertex = perceptron(3 * width, width), perceptron(2 * width, width)

    def forward(self, x, edge_index, edge_attr):
        (source, target), x, edges = edge_index, self.x(x), self.edges(edge_attr)
        edges = edges + self.edge(torch.cat([x[source], x[target], edges], 1))
        return self.out(x + self.vertex(torch.cat([x, scatter(edges, target, 0, x.size(0))], 1)))


class Attentive(MessagePassing):
    """Attention of a form that weft has no kernel for."""

    def __init__(self, width, out, edge, heads=3):
        super().__init__(aggr="add", node_dim=0)
        self.heads, self.out = heads, out
        self.lin, self.edge = nn.Linear(width, heads * out), nn.Linear(edge, heads * out)
        self.vector = nn.Parameter(torch.randn(1, heads, out) / 3)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(
            edge_index, x=self.lin(x).view(-1, self.heads, self.out), edge_attr=edge_attr
        ).mean(1)

    def message(self, x_i, x_j, edge_attr, index, ptr, size_i):
        e = self.edge(edge_attr).view(-1, self.heads, self.out)
        score = (self.vector * F.elu(x_i + x_j + e)).sum(-1)
        return (x_j + e) * softmax(score, index, ptr, size_i).unsqueeze(-1)


class Deep(nn.Module):
    """Shared layers, skips, norms, and the largest of all layers."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(X, 8), nn.Linear(8, C)
        self.layers = nn.ModuleList(GCN2Conv(8, alpha=0.2, theta=0.5, layer=k + 1) for k in range(2))
        self.norm, self.share, self.jump = (
            nn.LayerNorm(8),
            nn.Parameter(torch.rand(8)),
            JumpingKnowledge("max"),
        )

    def forward(self, x, edge_index):
        h = h0 = self.into(x).relu()
        hs = []
        for layer in (*self.layers, self.layers[0]):
            h = h + F.silu(self.norm(layer(h, h0, edge_index)))
            hs.append(h - self.share * h.mean(0))  # as GraphNorm
        return self.out(self.jump(hs))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.norm = (
            SAGEConv(X, 8),
            GCNConv(8, C, add_self_loops=False),
            nn.BatchNorm1d(8),
        )

    def forward(self, x, edge_index):
        return self.last(F.gelu(self.norm(self.first(x, edge_index))), edge_index).log_softmax(-1)


class Shared(nn.Module):
    """A norm that is called twice, norms that are not trained, a number, and a weight that is read in two
    ways."""

    def __init__(self):
        super().__init__()
        self.first, self.last = SAGEConv(X, 8), GCNConv(8, C)
        self.norm, self.still, self.layer = nn.BatchNorm1d(8), nn.BatchNorm1d(8), nn.LayerNorm(8)
        self.scale, self.both = nn.Parameter(torch.tensor(0.7)), nn.Parameter(torch.randn(8, 8) / 3)
        for norm in (self.norm, self.still, self.layer):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.uniform_(norm.bias)
        self.still.requires_grad_(False)
        self.layer.weight.requires_grad_(False)

    def forward(self, x, edge_index):
        h = self.norm(self.first(x, edge_index)).relu()
        h = self.norm(F.linear(h, self.both)) * self.scale + h * self.both.sum(0)
        return self.last(self.layer(self.still(h)), edge_index)


class Extremes(nn.Module):
    """The largest and smallest of all rows, products with a matrix for each head, and sums of what edges have
    alone."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.edges = (
            nn.Linear(X, 8),
            PDNConv(8, C, A, 5, add_self_loops=False),
            nn.Linear(A, 4),
        )
        self.heads, self.mixes = (
            nn.Parameter(torch.randn(2, 4, 3) / 2),
            nn.Parameter(torch.randn(2, 6, 4) / 2),
        )

    def forward(self, x, edge_index, edge_attr):
        h = self.first(x)
        h = (h - h.amin(0)) / (h.amax(0, keepdim=True) - h.min())
        e = self.edges(edge_attr)
        sums = torch.zeros_like(h[:, :4]).index_add_(0, edge_index[1], e / e.max())
        per_head = torch.einsum("nhc,hcd->nhd", h.view(-1, 2, 4), self.heads).flatten(1)
        each = (h.view(-1, 1, 2, 4) @ self.heads).view(-1, 2, 1, 6) @ self.mixes
        own = h.view(-1, 1, 2, 4) @ torch.stack([h.view(-1, 4, 2), -h.view(-1, 4, 2).abs()], 1)
        return self.last(
            torch.cat([sums + per_head[:, :4], each.flatten(1)[:, :4] + own.flatten(1)[:, :4]], 1),
            edge_index,
            edge_attr,
        )


class Corners(nn.Module):
    """What random modules have found to be computed wrongly."""

    def __init__(self):
        super().__init__()
        self.attend, self.skip, self.heads = GATConv(X, 8), nn.Linear(X, 8), nn.Linear(4, 4, bias=False)
        self.edges, self.out = nn.Linear(A, 2), nn.Linear(34, C)

    def forward(self, x, edge_index, edge_attr):
        source, target = edge_index
        h = self.attend(x, edge_index) + self.skip(x)  # along other edges than those of edge_index
        sums = scatter(edge_attr.sigmoid(), target, 0, x.size(0))  # of the edges alone; 0 for some vertices
        sums = F.normalize(sums, dim=-1) + sums / (sums.std(-1, keepdim=True) + 1)
        soft = scatter(h[target] * softmax(h[source], source, num_nodes=x.size(0)), source, 0, x.size(0))
        heads = self.heads(h.view(-1, 2, 4))
        squares = scatter(
            self.heads(h[:, :4])[target].square(), source, 0, x.size(0)
        )  # 0 for isolated vertices alone
        logs = scatter((squares * self.heads.weight[0].exp())[source].log(), target, 0, x.size(0)) / 10
        other, w = add_remaining_self_loops(edge_index, self.edges(edge_attr), 0.5, x.size(0))
        looped = scatter(
            w * x[other[0]][:, :2], other[1], 0, x.size(0)
        )  # of several loops of a vertex the last one counts
        return self.out(
            torch.cat([F.relu6(4 * h), sums, soft, (heads - heads.mean(0)).flatten(1), looped, logs], 1)
        )


class Regrouped(nn.Module):
    """Edges of both directions, rows of which each is several, and products of more matrices than one side
    has."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.each = GATConv(X, 4, heads=2), SAGEConv(8, C, aggr="max"), nn.Linear(4, 4)
        self.mixes = nn.Parameter(torch.randn(2, 2, 3) / 2)

    def forward(self, x, edge_index):
        both = torch.cat([edge_index, edge_index.flip(0)], 1)
        h = self.first(x, both)
        h = h + self.each(h.view(-1, 4)).tanh().view(-1, 8)
        several = h.view(-1, 2, 2, 1, 2) @ self.mixes
        return self.last(h + several.reshape(-1, 12)[:, 2:10], both)


class Whole(nn.Module):
    """Linear attention of all pairs by heads, and a Gram matrix: products of columns, summed over all
    vertices."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.qkv = SAGEConv(X, 8), nn.Linear(8, C), nn.Linear(8, 20)

    def forward(self, x, edge_index):
        h = self.first(x, edge_index).tanh()
        q, k, v = (t.view(-1, 2, t.shape[1] // 2) for t in self.qkv(h).split([6, 6, 8], 1))
        pairs = torch.einsum("nhd,nhm->hdm", k.softmax(-1), v) / x.size(0)
        h = h + torch.einsum("nhd,hdm->nhm", q.sigmoid(), pairs).flatten(1)
        return self.last(h @ (h.t() @ h / x.size(0)))


class Picked(nn.Module):
    """Products of negative numbers, softmax over the edges out of a vertex, ELU's other form, and columns by
    steps."""

    def __init__(self):
        super().__init__()
        self.lin, self.out, self.act = nn.Linear(X, 8), nn.Linear(24, C), nn.ELU(0.5)
        self.sources, self.targets = nn.Linear(8, 2), nn.Linear(8, 2)

    def forward(self, x, edge_index):
        source, target = edge_index
        h = self.act(self.lin(x))
        product = scatter(h[source] * 2, target, 0, x.size(0), "mul").tanh()
        scores = F.leaky_relu(self.sources(h)[source] + self.targets(h)[target], 0.2)
        soft = softmax(scores, source, num_nodes=x.size(0)).unsqueeze(-1)
        heads = scatter(h.view(-1, 2, 4)[source] * soft, target, 0, x.size(0)).flatten(1)
        return self.out(torch.cat([product, heads, h[:, ::2], h[:, 1::2]], 1))


class Softmaxes(nn.Module):
    """Softmax aggregation: with one inverse temperature, one for each column, a number, and one for several
    columns, along loops, too."""

    def __init__(self):
        super().__init__()
        self.first, self.columns = (
            GENConv(X, 8, t=3.0, learn_t=True, norm="layer"),
            SoftmaxAggregation(t=-2.0, learn=True, channels=8),
        )
        self.t, self.out = nn.Parameter(torch.tensor([[0.5], [4.0]])), nn.Linear(33, C)

    def forward(self, x, edge_index):
        h, n = self.first(x, edge_index), x.size(0)
        (source, target), heads, one = edge_index, h.view(-1, 2, 4), h[:, 0]
        columns = self.columns(h[source], target, dim_size=n)
        scores = heads / self.t
        several = scatter(
            heads[source] * softmax(scores[source], target, num_nodes=n) * heads[target], target, 0, n
        )
        numbers = scatter(one[source] * softmax(-one[source] / 0.3, target, num_nodes=n), target, 0, n)
        (source, target), _ = add_remaining_self_loops(edge_index, num_nodes=n)
        looped = scatter(h[source] * softmax(h[source], target, num_nodes=n), target, 0, n)
        return self.out(torch.cat([h, columns, several.flatten(1), looped, numbers.unsqueeze(1)], 1))


RELATIONS = {
    ("author", "writes", "paper"): 70,
    ("paper", "rev_writes", "author"): 60,
    ("paper", "cites", "paper"): 90,
    ("venue", "prints", "paper"): 40,
    ("paper", "appears", "venue"): 30,
    ("author", "knows", "author"): 25,
}
NAMES = {"__".join(key): key for key in RELATIONS}
COUNTS, COLUMNS = {"paper": V, "author": 13, "venue": 6}, {"paper": X, "author": 5, "venue": 0}
TYPES = Schema(
    COLUMNS,
    COUNTS,
    {
        name: Relation(key[0], key[2], key, A if "appears" in key else 0, "prints" in key)
        for name, key in NAMES.items()
    },
)


class Several(nn.Module):
    """A convolution of its own for each relation, edge weights and features, and a table for a type without
    features."""

    def __init__(self):
        super().__init__()
        writes, back, cites, prints, appears, knows = RELATIONS
        self.table = nn.Embedding(COUNTS["venue"], 4)
        self.first = HeteroConv(
            {
                writes: SAGEConv((5, X), 8),
                back: GATConv((X, 5), 4, heads=2, add_self_loops=False),
                cites: GCNConv(X, 8),
                knows: EdgeConv(nn.Linear(10, 8)),
                appears: TransformerConv((X, 4), 8, edge_dim=A),
            }
        )
        self.last = HeteroConv(
            {
                writes: GATv2Conv((8, 8), 8, add_self_loops=False),
                cites: GATConv(8, 8),
                prints: GraphConv((8, 8), 8),
            },
            "max",
        )
        self.norm, self.out = nn.BatchNorm1d(8), nn.Linear(16, C)

    def forward(self, x_dict, edge_index_dict, edge_attr_dict, edge_weight_dict):
        x = {**x_dict, "venue": self.table.weight}
        x = {
            key: h.tanh() for key, h in self.first(x, edge_index_dict, edge_attr_dict=edge_attr_dict).items()
        }
        x["venue"] = x["venue"] * x["author"].mean(0) + x["paper"].size(0) / COUNTS["paper"]
        h = self.last(x, edge_index_dict, edge_weight_dict=edge_weight_dict)["paper"]
        return self.out(torch.cat([self.norm(h), x["paper"]], 1))


def several():
    torch.manual_seed(4)
    yield "several", Several()
    metadata = ["paper", "author"], [key for key in RELATIONS if "venue" not in key]
    yield "to-hetero", to_hetero(Two(SAGEConv((-1, -1), 8), SAGEConv((-1, -1), C)), metadata, "mean")


def typed_graph():
    """The tensors of a graph of several types, whose first and last vertices are isolated."""
    torch.manual_seed(2)
    tensors = {Given("x", name): torch.randn(COUNTS[name], n) for name, n in COLUMNS.items() if n}
    tensors |= {Given("n_id", name): torch.arange(n) for name, n in COUNTS.items()}
    for name, key in NAMES.items():
        source, target = (torch.randint(1, COUNTS[key[end]] - 1, (RELATIONS[key],)) for end in (0, 2))
        if key[0] == key[2]:
            target[:3] = source[:3]
        tensors[Given("edge_index", name)] = e = torch.stack([source, target])
        e[:, 3:6] = e[:, 6:9]
        if TYPES.relations[name].features:
            tensors[Given("edge_attr", name)] = torch.randn(e.shape[1], A)
        if TYPES.relations[name].weighted:
            tensors[Given("edge_weight", name)] = torch.rand(e.shape[1]) + 0.25
    return tensors


def write_typed(path, module, graph_tensors):
    with torch.no_grad():
        Called(module, TYPES, graph_tensors)(
            Called(module, TYPES, graph_tensors).tensors
        )  # lazy layers take their sizes
    program, exact = trace(module, schema=TYPES), copy.deepcopy(module).double().train()
    inputs = {
        spec: t.double().requires_grad_(spec.what == "x") if t.is_floating_point() else t
        for spec, t in graph_tensors.items()
    }
    own = Called(exact, TYPES, inputs)
    logits = own(own.tensors)
    cotangent = torch.randn(logits.shape)
    logits.backward(cotangent.double())
    tensors = {
        "cotangent": cotangent,
        "logits": logits,
        **{f"{spec.what} {spec.type_name}": t for spec, t in graph_tensors.items()},
    }
    tensors |= {f"grad.x {spec.type_name}": t.grad for spec, t in inputs.items() if t.grad is not None}
    tensors |= {"grad." + k: v.grad for k, v in exact.named_parameters() if v.grad is not None}
    save(path, program, tensors | {"after." + k: v for k, v in exact.named_buffers()}, module)


def modules():
    torch.manual_seed(3)
    yield "gcn", Two(GCNConv(X, 8), GCNConv(8, C))
    yield "gcn-weighted", TwoWeighted(GCNConv(X, 8), GraphConv(8, C))
    yield "sage", Two(SAGEConv(X, 8), SAGEConv(8, C, aggr="max"))
    yield "gat", Two(GATConv(X, 4, heads=2), GATConv(8, C, heads=2, concat=False), F.elu)
    yield "gatv2", Two(GATv2Conv(X, 4, heads=2), GATv2Conv(8, C))
    yield "transformer", Two(TransformerConv(X, 4, heads=2), TransformerConv(8, C, heads=2, concat=False))
    yield (
        "edge",
        Two(
            EdgeConv(nn.Sequential(nn.Linear(2 * X, 8), nn.ReLU(), nn.Linear(8, 8))),
            EdgeConv(nn.Linear(16, C), aggr="mean"),
        ),
    )
    yield "gated", Two(ResGatedGraphConv(X, 8), FiLMConv(8, C))
    yield "gen", Two(GENConv(X, 8), GINConv(nn.Linear(8, C)))
    yield (
        "pna",
        Two(
            PNAConv(
                X, 8, ["mean", "min", "max", "std"], ["identity", "amplification"], torch.tensor([1, 2, 5, 3])
            ),
            Own(8, C, "min"),
        ),
    )
    yield "own", Two(Own(X, 8, "max"), Own(8, C, "add", "target_to_source"))
    yield "attentive", TwoFeatures(Attentive(X, 5, A), Attentive(5, C, A))
    yield "deep", Deep()
    yield "normed", Normed()
    yield "shared", Shared()
    yield "arma", Two(ARMAConv(X, 8, num_stacks=2, num_layers=2), ChebConv(8, C, 3))
    yield "extremes", Extremes()
    yield "corners", Corners()
    yield "regrouped", Regrouped()
    yield "whole", Whole()
    yield "picked", Picked()
    yield "mesh", Mesh(8)
    yield "gen-edges", TwoFeatures(GENConv(X, 8, edge_dim=A), GENConv(8, C, edge_dim=A, learn_t=True))
    yield "softmaxes", Softmaxes()


def graph():
    """The features and edges of the graph, and what else its edges have."""
    torch.manual_seed(1)
    e = torch.randint(1, V - 1, (2, E))  # the first and the last vertex are isolated
    e[1, :5] = e[0, :5]
    e[:, 5:8] = e[:, 8:11]
    x = torch.randn(V, X)
    edge_inputs = {"edge_attr": torch.randn(E, A), "edge_weight": torch.rand(E) + 0.25}
    edge_inputs["edge_weight"][:5] = 1
    return x, e, edge_inputs


def computed(module, x, e, more, cotangent=None, dtype=torch.float64):
    """A step of a copy of the module in that precision."""
    exact = copy.deepcopy(module).to(dtype).train()
    inputs = x.to(dtype).requires_grad_()
    logits = exact(inputs, e, *(m.to(dtype) for m in more.values()))
    cotangent = torch.randn(logits.shape) if cotangent is None else cotangent
    logits.backward(cotangent.to(dtype))
    tensors = {"cotangent": cotangent, "logits": logits, "grad.x": inputs.grad}
    tensors |= {"grad." + k: v.grad for k, v in exact.named_parameters() if v.grad is not None}
    return tensors | {"after." + k: v for k, v in exact.named_buffers()}


def write(path, module, x, e, more, tensors):
    program = trace(
        module,
        features=X,
        edge_features=A if "edge_attr" in more else None,
        edge_weight="edge_weight" in more,
        vertices=V,
    )
    save(path, program, {"x": x, "edge_index": e, **more, **tensors}, module)


def save(path, program, tensors, module):
    tensors = tensors | {"param." + k: v for k, v in module.state_dict().items()}
    tensors = {k: v.detach().float() if v.is_floating_point() else v for k, v in tensors.items()}
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, path, {"program": program.text})


def main():
    x, e, edge_inputs = graph()
    for name, module in modules():
        more = {k: v for k, v in edge_inputs.items() if k in module.forward.__code__.co_varnames}
        write(HERE / f"{name}.safetensors", module, x, e, more, computed(module, x, e, more))
        print(name)
    edge_inputs = typed_graph()
    for name, module in several():
        write_typed(HERE / f"{name}.safetensors", module, edge_inputs)
        print(name)


if __name__ == "__main__":
    main()
