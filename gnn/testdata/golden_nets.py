"""Models of the golden files: PyG's own, and modules of its layers that compute what weft's models do."""

import torch
import torch.nn.functional as F
from torch_geometric.nn import (
    APPNP,
    BatchNorm,
    DeepGCNLayer,
    DirGNNConv,
    GATConv,
    GATv2Conv,
    GCN2Conv,
    GCNConv,
    GINEConv,
    GraphNorm,
    LayerNorm,
    PairNorm,
    SAGEConv,
    SGConv,
    TransformerConv,
)
from torch_geometric.nn.models import GAT, GCN, GIN, MLP, PNA, GraphSAGE
from torch_geometric.utils import add_self_loops, degree, remove_self_loops, softmax

from golden_data import CLASSES, EDGE_FEATURES, EDGES, FEATURES, HIDDEN, V


class Both(torch.nn.Module):
    """convs.i is PyG's DirGNNConv; the activation stands between layers, as in PyG's BasicGNN."""

    def __init__(self, convs, act):
        super().__init__()
        self.convs, self.act = torch.nn.ModuleList(convs), act

    def forward(self, x, edges):
        for i, conv in enumerate(self.convs):
            x = self.act(x) if i else x
            x = conv(x, edges)
        return x


def both(model, layers, heads, aggr):
    widths = [FEATURES] + [HIDDEN] * (layers - 1) + [CLASSES]
    convs = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        if model == "sage":
            convs.append(DirGNNConv(SAGEConv(a, b, aggr, root_weight=False), alpha=0.5))
        elif model == "gcn":
            convs.append(DirGNNConv(GCNConv(a, b), alpha=0.5))
        else:
            last = i == layers - 1
            make = {"gat": GATConv, "gatv2": GATv2Conv, "transformer": TransformerConv}[model]
            conv = make(a, b if last else b // heads, heads=heads, concat=not last)
            directed = DirGNNConv(conv, alpha=0.5)
            if model == "transformer":  # DirGNNConv switches root_weight off
                directed.conv_in.lin_skip = directed.conv_out.lin_skip = None
            directed.lin = torch.nn.Linear(a, b)  # PyG's has the width of one head
            convs.append(directed)
    return Both(convs, F.relu)


class Rounds(torch.nn.Module):
    """H <- (1 - a) P H + a Z, so many times from H = Z, for the aggregation P of step."""

    def __init__(self, count, teleport):
        super().__init__()
        self.count, self.teleport = count, teleport

    def forward(self, z, edges):
        step, h = self.step(z, edges), z
        for _ in range(self.count):
            h = (1 - self.teleport) * step(h) + self.teleport * z
        return h


def total(h, edges):
    """The sum over the in-neighbours of each vertex."""
    return torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])


class MeanRounds(Rounds):
    """The mean over the in-neighbours and the vertex itself."""

    def step(self, z, edges):
        count = 1 + total(torch.ones(len(z), 1, dtype=z.dtype), edges)
        return lambda h: (total(h, edges) + h) / count


class GINRounds(Rounds):
    """(1 + eps) h_i and the sum over the in-neighbours."""

    def __init__(self, count, teleport):
        super().__init__(count, teleport)
        self.register_buffer("eps", torch.zeros(1))

    def step(self, z, edges):
        return lambda h: total(h, edges) + (1 + self.eps) * h


class AttentionRounds(Rounds):
    """GATConv's coefficients, of one head over the columns of z, in every round."""

    def __init__(self, count, teleport):
        super().__init__(count, teleport)
        self.att_src, self.att_dst = (torch.nn.Parameter(torch.zeros(1, 1, CLASSES)) for _ in range(2))

    def step(self, z, edges):
        (source, target), _ = add_self_loops(remove_self_loops(edges)[0], num_nodes=len(z))
        scores = [(z * a.view(-1)).sum(-1) for a in (self.att_src, self.att_dst)]
        alpha = softmax(F.leaky_relu(scores[0][source] + scores[1][target], 0.2), target, num_nodes=len(z))
        return lambda h: torch.zeros_like(h).index_add(0, target, alpha[:, None] * h[source])


class Decoupled(MLP):
    """PyG's MLP, and then rounds."""

    def __init__(self, widths, propagation, **kwargs):
        super().__init__(widths, **kwargs)
        self.propagation = propagation

    def forward(self, x, edges, **weights):
        return self.propagation(super().forward(x), edges, **weights)


def decouple(model, layers, teleport, **kwargs):
    """The decoupled model, and one line that says how it was made."""
    line = "torch_geometric.nn.models.MLP, then "
    if model == "gcn":
        rounds = APPNP(K=layers, alpha=teleport)
        line += "torch_geometric.nn.APPNP"
    elif model == "gat":
        rounds = AttentionRounds(layers, teleport)
        line += "rounds with coefficients by torch_geometric.utils.softmax"
    else:
        rounds = {"sage": MeanRounds, "gin": GINRounds}[model](layers, teleport)
        line += "rounds in PyTorch"
    return Decoupled([FEATURES] + [HIDDEN] * (layers - 1) + [CLASSES], rounds, **kwargs), line


class SGC(torch.nn.Module):
    """PyG's example sgc.py."""

    def __init__(self, rounds):
        super().__init__()
        self.convs = torch.nn.ModuleList([SGConv(FEATURES, CLASSES, K=rounds)])

    def forward(self, x, edges, edge_weight=None):
        return self.convs[0](x, edges, edge_weight)


class GCNII(torch.nn.Module):
    """PyG's example gcn2_cora.py without dropout."""

    def __init__(self, layers, alpha, theta, shared_weights, act):
        super().__init__()
        self.lins = torch.nn.ModuleList([torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Linear(HIDDEN, CLASSES)])
        self.convs = torch.nn.ModuleList(
            GCN2Conv(HIDDEN, alpha, theta, l + 1, shared_weights) for l in range(layers)
        )
        self.act = act

    def forward(self, x, edges, edge_weight=None):
        x = x_0 = self.act(self.lins[0](x))
        for conv in self.convs:
            x = self.act(conv(x, x_0, edges, edge_weight))
        return self.lins[1](x)


def normed(norm):
    return {
        "layer": lambda: LayerNorm(HIDDEN, mode="node"),
        "batch": lambda: BatchNorm(HIDDEN),
        "none": lambda: None,
        "graph": lambda: GraphNorm(HIDDEN),
        "pair": PairNorm,
    }[norm]()


class ResGCN(torch.nn.Module):
    """PyG's example ogbn_proteins_deepgcn.py without dropout, with SAGEConv."""

    def __init__(self, convs, norm, act):
        super().__init__()
        self.node_encoder, self.lin = torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Linear(HIDDEN, CLASSES)
        self.layers = torch.nn.ModuleList(
            DeepGCNLayer(conv, normed(norm), act, block="res+") for conv in convs
        )

    def forward(self, x, edges):
        x = self.layers[0].conv(self.node_encoder(x), edges)
        for layer in self.layers[1:]:
            x = layer(x, edges)
        return self.lin(self.layers[0].act(self.layers[0].norm(x)))


class Blocks(torch.nn.Module):
    """The residual blocks of Platonov et al. (2023) around PyG's convolutions."""

    def __init__(self, convs, maps, norm, act):
        super().__init__()
        self.encoder, self.decoder = torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Linear(HIDDEN, CLASSES)
        self.convs, self.norms = (
            torch.nn.ModuleList(convs),
            torch.nn.ModuleList(normed(norm) for _ in range(len(convs) + 1)),
        )
        lins = lambda: torch.nn.ModuleDict(
            {str(i): torch.nn.Linear(HIDDEN, HIDDEN) for i in range(2 - maps, 2)}
        )
        self.feed_forwards = torch.nn.ModuleList(torch.nn.ModuleDict({"lins": lins()}) for _ in convs)
        self.act = act

    def forward(self, x, edges):
        x = self.act(self.encoder(x))
        for norm, conv, feed_forward in zip(self.norms, self.convs, self.feed_forwards):
            z, lins = conv(norm(x), edges), feed_forward["lins"]
            if "0" in lins:
                z = lins["0"](z)
            x = x + lins["1"](self.act(z))
        return self.decoder(self.norms[-1](x))


def residual(self, x, edges):
    """The forward pass of a BasicGNN with the input of each hidden layer but the first added to its
    output."""
    for i, conv in enumerate(self.convs[:-1]):
        z = conv(x, edges)
        z = self.act(z if self.norms is None else self.norms[i](z))
        x = x + z if i else z
    return self.convs[-1](x, edges)


def hidden_conv(model, heads, direction):
    """A convolution from HIDDEN to HIDDEN columns."""
    if model == "gcn":
        conv = GCNConv(HIDDEN, HIDDEN)
    elif model == "gat":
        conv = GATConv(HIDDEN, HIDDEN // heads, heads=heads)
    else:
        conv = SAGEConv(HIDDEN, HIDDEN, root_weight=direction != "both")
    return DirGNNConv(conv, alpha=0.5) if direction == "both" else conv


def build_deep(
    model, layers, heads, norm, act, direction, blocks="", alpha=0, theta=0, shared_weights=True, rounds=0
):
    """A model with an encoder and a decoder or with rounds of its own number, and one line that says how it
    was made."""
    if model == "sgc":
        return SGC(rounds), "torch_geometric.nn.SGConv"
    if model == "appnp":
        widths = [FEATURES] + [HIDDEN] * (layers - 1) + [CLASSES]
        return Decoupled(
            widths, APPNP(K=rounds, alpha=alpha), act=act, norm=None
        ), "torch_geometric.nn.models.MLP, then torch_geometric.nn.APPNP"
    act = {"relu": torch.nn.ReLU(), "elu": torch.nn.ELU(), "gelu": torch.nn.GELU()}[act]
    if model == "gcnii":
        return GCNII(
            layers, alpha, theta, shared_weights, act
        ), "torch_geometric.nn.GCN2Conv, as in examples/gcn2_cora.py"
    convs = [hidden_conv(model, heads, direction) for _ in range(layers)]
    if model == "resgcn":
        return ResGCN(
            convs, norm, act
        ), "torch_geometric.nn.DeepGCNLayer of SAGEConv, as in examples/ogbn_proteins_deepgcn.py"
    return Blocks(convs, 2 if model == "gat" else 1, norm, act), "residual blocks around PyG's convolutions"


class GINE(GIN):
    """PyG's GIN with its GINEConv."""

    made_of = "GIN with GINEConv"
    supports_edge_attr = True

    def init_conv(self, in_channels, out_channels, **kwargs):
        return GINEConv(super().init_conv(in_channels, out_channels).nn, edge_dim=EDGE_FEATURES, **kwargs)


class Transformer(GIN):
    """The layers of PyG's TransformerConv."""

    supports_edge_attr = True

    def init_conv(self, in_channels, out_channels, heads=1, concat=True, edge_dim=None, **kwargs):
        return TransformerConv(
            in_channels,
            out_channels // heads if concat else out_channels,
            heads=heads,
            concat=concat,
            edge_dim=edge_dim,
        )


# Where PyG has convolutions but no model of them, a subclass of torch_geometric.nn.models.basic_gnn.BasicGNN
# makes one.
PYG = {
    "mlp": MLP,
    "gcn": GCN,
    "sage": GraphSAGE,
    "gin": GIN,
    "gine": GINE,
    "gat": GAT,
    "gatv2": GAT,
    "transformer": Transformer,
    "pna": PNA,
}
EDGE_MODELS = {"gine"}  # those of them that use the features of edges in all files


def build(model, layers, heads, output_heads, norm, act, aggr, direction, decoupled, jk, edges):
    """The model, and one line that says how it was made."""
    if direction == "both":
        line = "torch_geometric.nn.DirGNNConv(conv, alpha=0.5), convs.i, activation between"
        if model in ("gat", "gatv2", "transformer") and heads > 1:
            line += "; its lin replaced by Linear(in, heads*out), as PyG's has the width of one head"
        return both(model, layers, heads, aggr), line
    kwargs = {
        "act": act,
        "norm": {
            "none": None,
            "batch": "batch_norm",
            "layer": "layer_norm",
            "graph": "graph_norm",
            "pair": PairNorm(),
        }[norm],
    }
    if norm == "layer":
        kwargs["norm_kwargs"] = {"mode": "node"}
    if decoupled:
        return decouple(model, layers, **decoupled, **kwargs)
    if model == "mlp":
        return MLP(
            [FEATURES] + [HIDDEN] * (layers - 1) + [CLASSES], **kwargs
        ), "torch_geometric.nn.models.MLP"
    if model in ("gat", "gatv2"):
        kwargs |= {"heads": heads, "v2": model == "gatv2"}
    if model == "transformer":
        kwargs["heads"] = heads
    if edges:
        kwargs["edge_dim"] = EDGE_FEATURES
    if model == "sage":
        kwargs["aggr"] = aggr
    if model == "pna":
        degrees = torch.bincount(degree(EDGES[0 if direction == "out" else 1], V, dtype=torch.long))
        kwargs |= {
            "aggregators": ["mean", "min", "max", "std"],
            "scalers": ["identity", "amplification", "attenuation"],
            "deg": degrees,
        }
    m = PYG[model](FEATURES, HIDDEN, layers, CLASSES, jk=jk, **kwargs)
    line = "torch_geometric.nn.models." + getattr(PYG[model], "made_of", PYG[model].__name__)
    if model == "gin" and norm == "pair":
        for conv in m.convs:
            conv.nn.norms[0] = PairNorm()
        line += ", with PairNorm in its convolutions, to which PyG gives norms by name alone"
    if model == "transformer":
        m.convs[-1] = m.init_conv(
            HIDDEN, CLASSES, heads=output_heads, concat=False, edge_dim=kwargs.get("edge_dim")
        )
        line = (
            f"torch_geometric.nn.TransformerConv in a BasicGNN, the last one with {output_heads} averaged "
            "head(s)"
        )
    elif heads and output_heads != heads:
        conv = GATv2Conv if model == "gatv2" else GATConv
        m.convs[-1] = conv(HIDDEN, CLASSES, heads=output_heads, concat=False)
        line += f", its last convolution replaced by one with {output_heads} head(s)"
    return m, line
