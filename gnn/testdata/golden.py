# Writes the golden files: logits, loss and gradients of PyTorch Geometric's own models. How to run, on Debian 12:
#   apt-get install --no-install-recommends python3-torch python3-scipy python3-venv && /usr/bin/python3 -m venv --system-site-packages /tmp/pyg
#   /tmp/pyg/bin/pip install --no-deps torch_geometric==2.6.1 tqdm==4.66.5 jinja2==3.1.4 markupsafe==3.0.2 fsspec==2024.6.1
#   /tmp/pyg/bin/python gnn/testdata/golden.py
"""Golden files of the models and of the optimizers, from PyTorch and PyTorch Geometric (PyG).

Each .safetensors file beside this script is one model on one small directed graph (isolated vertices, a hub, self loops,
duplicate edges). Everything is computed in float64 from inputs and parameters that are exact in float32, and stored in
float32: a stored value is right to half a unit in the last place. There is no dropout. Tensors:

  x                 V x F features, about 40 % zeros (none in the file of max)
  edge_index        2 x E int64, the sources above the destinations, in no order; edge_weight: E, in weighted files only
  edge_attr         E x 4 features of the edges, in files of models that use them
  train             ids of the vertices in the loss, int64
  labels            V int64, -1 unlabelled; or V x C float32 0/1 rows, NaN rows unlabelled (loss "bce")
  param.NAME        the state_dict before the step: parameters and buffers (running statistics)
  logits, loss      the model's output for all vertices; the mean loss over train, shape [1]
  grad.NAME         gradient of every parameter, and grad.x of the features
  after.NAME        buffers after the forward pass (batch norm in training mode)

and __metadata__ strings: model, layers, hidden, heads, output_heads, norm, mode (train or eval), act, direction (in, out,
both), aggr, loss, bias_before_norm, built (how PyG was used), torch, pyg; in files of decoupled models also decoupled (yes),
teleport; edge_features (yes) where attention uses them; residual, blocks (residual) and jk (cat or max) where they are; of GCNII alpha, theta and
shared_weights; of APPNP and SGC rounds, and of APPNP alpha.

../../optim/testdata/golden.safetensors holds five steps of torch.optim's optimizers and learning rates of its schedules.
"""
import json
import pathlib
import re
import struct
import types
import zlib

import torch
import torch.nn.functional as F
import torch_geometric
from torch_geometric.nn import (APPNP, BatchNorm, DeepGCNLayer, DirGNNConv, GATConv, GATv2Conv, GCN2Conv, GCNConv, GINEConv, GraphNorm, LayerNorm,
                                PairNorm, SAGEConv, SGConv, TransformerConv)
from torch_geometric.nn.models import GAT, GCN, GIN, MLP, PNA, GraphSAGE
from torch_geometric.utils import add_self_loops, degree, remove_self_loops, softmax

V, FEATURES, HIDDEN, HEADS, CLASSES = 40, 11, 12, 3, 5
HUB, ISOLATED = 7, (0, 17, 39)
HERE = pathlib.Path(__file__).resolve().parent
TYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def save(path, tensors, metadata):
    """Writes a safetensors file: the header's length, a JSON header, the tensors' bytes; eight-byte types first, so aligned."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, at = {"__metadata__": metadata}, 0
    for name in order:
        t = tensors[name]
        size = t.numel() * t.element_size()
        header[name] = {"dtype": TYPES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(tensors[name].contiguous().numpy().tobytes() for name in order)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def uniform(rng, *shape, middle=0.0, width=1.0):
    """Numbers of [middle - width, middle + width) that are exact in float32, as float64."""
    return (middle + (torch.rand(*shape, generator=rng, dtype=torch.float32) * 2 - 1) * width).double()


def dataset():
    """The graph, its features, both kinds of labels, and the training vertices."""
    rng = torch.Generator().manual_seed(1)
    live = torch.tensor([v for v in range(V) if v not in ISOLATED])
    pick = lambda n: live[torch.randint(len(live), (n,), generator=rng)]
    edges = [torch.stack([pick(90), pick(90)])]
    edges.append(torch.stack([live[::2], torch.full_like(live[::2], HUB)]))  # into the hub
    edges.append(torch.stack([torch.full_like(live[::3], HUB), live[::3]]))  # out of the hub
    edges.append(edges[0][:, :8])  # duplicates, with weights of their own
    edges.append(torch.tensor([[3, 5, 5, 20, HUB], [3, 5, 5, 20, HUB]]))  # self loops, one of them twice
    edges = torch.cat(edges, 1)
    sources_only = torch.tensor([11, 30])  # vertices with out-edges and no in-edge
    edges = edges[:, ~torch.isin(edges[1], sources_only)]
    edges = edges[:, torch.randperm(edges.shape[1], generator=rng)]
    weight = uniform(rng, edges.shape[1], middle=1, width=0.5)
    weight[edges[0] == edges[1]] = 0.75  # equal on all self loops: PyG keeps any one of duplicate loops
    x = uniform(rng, V, FEATURES)
    x[uniform(rng, V, FEATURES) < -0.2] = 0
    labels = torch.randint(CLASSES, (V,), generator=rng)
    several = (uniform(rng, V, CLASSES) > 0.2).double()
    train = torch.randperm(V, generator=rng)[:22].sort().values
    rest = [v for v in range(V) if v not in train.tolist()]
    labels[rest[::4]] = -1
    several[rest[::4]] = float("nan")
    return edges, weight, x, labels, several, train


EDGES, WEIGHT, X, LABELS, SEVERAL, TRAIN = dataset()
EDGE_FEATURES = 4
EDGE_ATTR = uniform(torch.Generator().manual_seed(3), EDGES.shape[1], EDGE_FEATURES)


def randomise(model, rng):
    """Fills every parameter and running statistic, so that no bias is zero and no scale is one."""
    for name, t in model.state_dict().items():
        if name.endswith("running_var"):
            t.copy_(uniform(rng, *t.shape, middle=1, width=0.5))
        elif name.endswith("mean_scale"):
            t.copy_(uniform(rng, *t.shape, middle=0.75, width=0.5))
        elif re.search(r"(norms\.\d+|norm)\.(module\.)?weight$", name):
            t.copy_(uniform(rng, *t.shape, middle=1, width=0.25))
        elif ".att" in name:  # large, so that attention is far from uniform
            t.copy_(uniform(rng, *t.shape, width=2))
        elif t.is_floating_point() and not name.endswith("eps") and ".avg_deg_" not in name:
            t.copy_(uniform(rng, *t.shape, width=0.5 if t.dim() > 1 else 0.25))


def drop_bias_before_batch_norm(model):
    """Removes the biases that batch norm cancels: those of a linear map whose output goes straight into it."""
    last = lambda modules: list(modules)[:-1]
    for part in last(getattr(model, "convs", [])):
        if isinstance(part, SAGEConv):
            part.lin_l.bias = None
        elif hasattr(part, "nn"):
            part.nn.lins[-1].bias = None
        elif hasattr(part, "lin") and hasattr(part, "post_nns"):
            part.lin.bias = None
        else:
            part.bias = None
    for mlp in [model] + [c.nn for c in getattr(model, "convs", []) if hasattr(c, "nn")]:
        for part in last(getattr(mlp, "lins", [])):
            part.bias = None


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
        self.convs = torch.nn.ModuleList(GCN2Conv(HIDDEN, alpha, theta, l + 1, shared_weights) for l in range(layers))
        self.act = act

    def forward(self, x, edges, edge_weight=None):
        x = x_0 = self.act(self.lins[0](x))
        for conv in self.convs:
            x = self.act(conv(x, x_0, edges, edge_weight))
        return self.lins[1](x)


def normed(norm):
    return {"layer": lambda: LayerNorm(HIDDEN, mode="node"), "batch": lambda: BatchNorm(HIDDEN), "none": lambda: None,
            "graph": lambda: GraphNorm(HIDDEN), "pair": PairNorm}[norm]()


class ResGCN(torch.nn.Module):
    """PyG's example ogbn_proteins_deepgcn.py without dropout, with SAGEConv."""

    def __init__(self, convs, norm, act):
        super().__init__()
        self.node_encoder, self.lin = torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Linear(HIDDEN, CLASSES)
        self.layers = torch.nn.ModuleList(DeepGCNLayer(conv, normed(norm), act, block="res+") for conv in convs)

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
        self.convs, self.norms = torch.nn.ModuleList(convs), torch.nn.ModuleList(normed(norm) for _ in range(len(convs) + 1))
        lins = lambda: torch.nn.ModuleDict({str(i): torch.nn.Linear(HIDDEN, HIDDEN) for i in range(2 - maps, 2)})
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
    """The forward pass of a BasicGNN with the input of each hidden layer but the first added to its output."""
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


def build_deep(model, layers, heads, norm, act, direction, blocks="", alpha=0, theta=0, shared_weights=True, rounds=0):
    """A model with an encoder and a decoder or with rounds of its own number, and one line that says how it was made."""
    if model == "sgc":
        return SGC(rounds), "torch_geometric.nn.SGConv"
    if model == "appnp":
        widths = [FEATURES] + [HIDDEN] * (layers - 1) + [CLASSES]
        return Decoupled(widths, APPNP(K=rounds, alpha=alpha), act=act, norm=None), "torch_geometric.nn.models.MLP, then torch_geometric.nn.APPNP"
    act = {"relu": torch.nn.ReLU(), "elu": torch.nn.ELU(), "gelu": torch.nn.GELU()}[act]
    if model == "gcnii":
        return GCNII(layers, alpha, theta, shared_weights, act), "torch_geometric.nn.GCN2Conv, as in examples/gcn2_cora.py"
    convs = [hidden_conv(model, heads, direction) for _ in range(layers)]
    if model == "resgcn":
        return ResGCN(convs, norm, act), "torch_geometric.nn.DeepGCNLayer of SAGEConv, as in examples/ogbn_proteins_deepgcn.py"
    return Blocks(convs, 2 if model == "gat" else 1, norm, act), "residual blocks around PyG's convolutions"


class GINE(GIN):
    """PyG's GIN with its GINEConv."""

    supports_edge_attr = True

    def init_conv(self, in_channels, out_channels, **kwargs):
        return GINEConv(super().init_conv(in_channels, out_channels).nn, edge_dim=EDGE_FEATURES, **kwargs)


class Transformer(GIN):
    """The layers of PyG's TransformerConv."""

    supports_edge_attr = True

    def init_conv(self, in_channels, out_channels, heads=1, concat=True, edge_dim=None, **kwargs):
        return TransformerConv(in_channels, out_channels // heads if concat else out_channels, heads=heads, concat=concat, edge_dim=edge_dim)


# Where PyG has convolutions but no model of them, a subclass of torch_geometric.nn.models.basic_gnn.BasicGNN makes one.
PYG = {"mlp": MLP, "gcn": GCN, "sage": GraphSAGE, "gin": GIN, "gine": GINE, "gat": GAT, "gatv2": GAT, "transformer": Transformer, "pna": PNA}


def build(model, layers, heads, output_heads, norm, act, aggr, direction, decoupled, jk, edges):
    """The model, and one line that says how it was made."""
    if direction == "both":
        line = "torch_geometric.nn.DirGNNConv(conv, alpha=0.5), convs.i, activation between"
        if model in ("gat", "gatv2", "transformer") and heads > 1:
            line += "; its lin replaced by Linear(in, heads*out), as PyG's has the width of one head"
        return both(model, layers, heads, aggr), line
    kwargs = {"act": act, "norm": {"none": None, "batch": "batch_norm", "layer": "layer_norm", "graph": "graph_norm", "pair": PairNorm()}[norm]}
    if norm == "layer":
        kwargs["norm_kwargs"] = {"mode": "node"}
    if decoupled:
        return decouple(model, layers, **decoupled, **kwargs)
    if model == "mlp":
        return MLP([FEATURES] + [HIDDEN] * (layers - 1) + [CLASSES], **kwargs), "torch_geometric.nn.models.MLP"
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
        kwargs |= {"aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification", "attenuation"], "deg": degrees}
    m = PYG[model](FEATURES, HIDDEN, layers, CLASSES, jk=jk, **kwargs)
    line = "torch_geometric.nn.models." + PYG[model].__name__ if model != "gine" else "torch_geometric.nn.models.GIN with GINEConv"
    if model == "gin" and norm == "pair":
        for conv in m.convs:
            conv.nn.norms[0] = PairNorm()
        line += ", with PairNorm in its convolutions, to which PyG gives norms by name alone"
    if model == "transformer":
        m.convs[-1] = m.init_conv(HIDDEN, CLASSES, heads=output_heads, concat=False, edge_dim=kwargs.get("edge_dim"))
        line = f"torch_geometric.nn.TransformerConv in a BasicGNN, the last one with {output_heads} averaged head(s)"
    elif heads and output_heads != heads:
        conv = GATv2Conv if model == "gatv2" else GATConv
        m.convs[-1] = conv(HIDDEN, CLASSES, heads=output_heads, concat=False)
        line += f", its last convolution replaced by one with {output_heads} head(s)"
    return m, line


def golden(name, model, layers=2, heads=0, output_heads=0, norm="none", mode="train", act="relu", direction="in", aggr="",
           weighted=False, loss="ce", bias_before_norm=True, eps=None, decoupled=None, add_input=False, deep=None, jk=None, edge_features=False):
    """Runs one model forward and backward and writes NAME.safetensors."""
    rng = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    if deep is None:
        net, built = build(model, layers, heads, output_heads, norm, act, aggr, direction, decoupled, jk, edge_features)
    else:
        net, built = build_deep(model, layers, heads, norm, act, direction, **deep)
    if add_input:
        net.forward = types.MethodType(residual, net)
        built += ", with residual connections"
    if not bias_before_norm:
        drop_bias_before_batch_norm(net)
        built += ", biases just before batch norm removed"
    net = net.double()
    randomise(net, rng)
    if eps is not None:
        for i, conv in enumerate([net.propagation] if decoupled else net.convs):
            conv.eps.fill_(eps * (i + 1))
    net.train(mode == "train")
    before = {k: v.clone() for k, v in net.state_dict().items()}
    features = X
    if aggr == "max":  # no two sources tie: PyTorch would share a gradient among equals
        features = uniform(rng, V, FEATURES)
    x = features.clone().requires_grad_()
    edges = EDGES.flip(0) if direction == "out" else EDGES
    if model == "mlp":
        logits = net(x)
    elif weighted:
        logits = net(x, edges, edge_weight=WEIGHT)
    elif model == "gine" or edge_features:
        logits = net(x, edges, edge_attr=EDGE_ATTR)
    else:
        logits = net(x, edges)
    if loss == "ce":
        value = F.cross_entropy(logits[TRAIN], LABELS[TRAIN])
    else:
        value = F.binary_cross_entropy_with_logits(logits[TRAIN], SEVERAL[TRAIN])
    value.backward()

    tensors = {"x": features, "edge_index": EDGES, "labels": LABELS if loss == "ce" else SEVERAL, "train": TRAIN,
               "logits": logits.detach(), "loss": value.detach().reshape(1), "grad.x": x.grad}
    if weighted:
        tensors["edge_weight"] = WEIGHT
    if model == "gine" or edge_features:
        tensors["edge_attr"] = EDGE_ATTR
    tensors |= {"param." + k: v for k, v in before.items()}
    tensors |= {"grad." + k: torch.zeros_like(p) if p.grad is None else p.grad for k, p in net.named_parameters()}
    tensors |= {"after." + k: b for k, b in net.named_buffers()}
    tensors = {k: v.float() if v.is_floating_point() else v for k, v in tensors.items()}
    save(HERE / f"{name}.safetensors", tensors, {
        "model": model, "layers": str(layers), "hidden": str(HIDDEN), "heads": str(heads), "output_heads": str(output_heads),
        "norm": norm, "mode": mode, "act": act, "direction": direction, "aggr": aggr, "loss": loss,
        "bias_before_norm": "yes" if bias_before_norm else "no", "built": built,
        "torch": torch.__version__, "pyg": torch_geometric.__version__}
         | ({"decoupled": "yes", "teleport": str(decoupled["teleport"])} if decoupled else {})
         | ({"residual": "yes"} if add_input else {}) | ({"jk": jk} if jk else {}) | ({"edge_features": "yes"} if edge_features else {}) | {k: str(v) for k, v in (deep or {}).items()})
    return before


def models():
    """Every golden file of a model; returns the state_dicts by file name."""
    out = {}

    def write(name, *args, **kwargs):
        out[name] = golden(name, *args, **kwargs)

    for m in ("mlp", "gcn", "sage", "gat", "gatv2", "gin"):
        h = {"heads": HEADS, "output_heads": HEADS} if m in ("gat", "gatv2") else {}
        h |= {"aggr": "mean"} if m == "sage" else {}
        write(f"{m}-2", m, **h)
        write(f"{m}-3-elu", m, layers=3, act="elu", **h)
        write(f"{m}-3-layer", m, layers=3, norm="layer", **h)
        write(f"{m}-3-batch", m, layers=3, norm="batch", bias_before_norm=False, **h)
        write(f"{m}-2-batch-bias", m, norm="batch", **h)
        write(f"{m}-2-batch-eval", m, norm="batch", mode="eval", bias_before_norm=False, **h)
        write(f"{m}-2-batch-eval-bias", m, norm="batch", mode="eval", **h)
    for m in ("gcn", "sage", "gat", "gatv2", "gin"):
        h = {"heads": HEADS, "output_heads": HEADS} if m in ("gat", "gatv2") else {}
        h |= {"aggr": "mean"} if m == "sage" else {}
        write(f"{m}-3-cat", m, layers=3, norm="layer", jk="cat", **h)
        write(f"{m}-2-jump-max", m, act="elu", jk="max", **h)
    for m in ("gat", "gatv2"):
        write(f"{m}-2-onehead", m, heads=1, output_heads=1)
        write(f"{m}-2-output1-elu", m, heads=HEADS, output_heads=1, act="elu")
    write("gcn-2-weighted", "gcn", weighted=True)
    write("gcn-2-bce", "gcn", loss="bce")
    write("sage-2-max", "sage", aggr="max")
    write("sage-2-max-out", "sage", aggr="max", direction="out")
    write("sage-2-max-both", "sage", aggr="max", direction="both")
    write("sage-2-sum", "sage", aggr="sum")
    write("sage-3-sum-layer", "sage", aggr="sum", layers=3, norm="layer")
    write("sage-2-sum-both", "sage", aggr="sum", direction="both")
    write("gcn-3-gelu", "gcn", layers=3, act="gelu")
    write("gin-2-gelu-batch", "gin", act="gelu", norm="batch", bias_before_norm=False)
    write("resgcn-3-gelu", "resgcn", layers=3, act="gelu", norm="layer", deep={})
    for m in ("mlp", "gcn", "gat", "gin"):
        h = {"heads": HEADS, "output_heads": HEADS} if m == "gat" else {}
        write(f"{m}-3-graph", m, layers=3, norm="graph", **h)
        write(f"{m}-3-pair", m, layers=3, norm="pair", **h)
    write("gcn-2-graph-eval", "gcn", norm="graph", mode="eval")
    write("gcn-2-pair-eval", "gcn", norm="pair", mode="eval")
    write("resgcn-3-graph", "resgcn", layers=3, norm="graph", deep={})
    write("gcn-blocks-3-pair", "gcn", layers=3, norm="pair", deep={"blocks": "residual"})
    write("pna-2", "pna")
    write("pna-3-layer", "pna", layers=3, norm="layer")
    write("pna-2-batch", "pna", norm="batch", bias_before_norm=False)
    write("pna-2-out", "pna", direction="out")
    write("pna-2-cat", "pna", act="elu", jk="cat")
    write("gin-2-eps", "gin", eps=0.25)
    write("gine-2-eps", "gine", eps=0.25)
    write("gine-3-elu", "gine", layers=3, act="elu")
    write("gine-2-layer", "gine", norm="layer")
    write("gine-3-cat", "gine", layers=3, norm="layer", jk="cat")
    write("gine-2-jump-max", "gine", act="elu", jk="max")
    for m in ("gat", "gatv2", "transformer"):
        write(f"{m}-2-edges", m, heads=HEADS, output_heads=HEADS, edge_features=True)
        write(f"{m}-3-edges-layer", m, layers=3, norm="layer", act="elu", heads=HEADS, output_heads=HEADS, edge_features=True)
        write(f"{m}-2-edges-onehead", m, heads=1, output_heads=1, edge_features=True)
    write("transformer-2", "transformer", heads=HEADS, output_heads=HEADS)
    write("transformer-3-batch", "transformer", layers=3, norm="batch", heads=HEADS, output_heads=HEADS)
    write("transformer-2-out", "transformer", direction="out", heads=HEADS, output_heads=HEADS)
    write("transformer-2-both", "transformer", direction="both", heads=HEADS, output_heads=HEADS)
    for m in ("gcn", "sage", "gat", "gatv2", "gin"):
        h = {"heads": HEADS, "output_heads": HEADS} if m in ("gat", "gatv2") else {}
        h |= {"aggr": "mean"} if m == "sage" else {}
        write(f"{m}-2-out", m, direction="out", **h)
        if m == "gin":  # PyG's DirGNNConv reads conv.in_channels, which GINConv has not
            continue
        write(f"{m}-2-both", m, direction="both", **h)
        if h.get("heads"):
            write(f"{m}-2-both-onehead", m, direction="both", heads=1, output_heads=1)

    def rounds(teleport=0.0):
        return {"teleport": teleport}

    for m in ("gcn", "sage", "gat", "gin"):
        write(f"{m}-3-decoupled", m, layers=3, decoupled=rounds())
        write(f"{m}-2-decoupled-teleport", m, act="elu", norm="layer", decoupled=rounds(0.1))
        write(f"{m}-2-decoupled-out", m, norm="batch", bias_before_norm=False, direction="out", decoupled=rounds(0.2))
    write("gcn-2-decoupled-weighted", "gcn", weighted=True, decoupled=rounds(0.1))
    write("gin-2-decoupled-eps", "gin", eps=0.25, decoupled=rounds())

    def initial(alpha=0.1, theta=0.5, shared_weights=True):
        return {"alpha": alpha, "theta": theta, "shared_weights": shared_weights}

    write("gcnii-2", "gcnii", deep=initial())
    write("gcnii-8-elu", "gcnii", layers=8, act="elu", deep=initial(0.2, 1.5))
    write("gcnii-3-separate", "gcnii", layers=3, deep=initial(0.3, 0.7, False))
    write("gcnii-2-weighted", "gcnii", weighted=True, deep=initial())
    write("gcnii-2-out", "gcnii", direction="out", deep=initial(0.5, 0.4))
    write("appnp-2", "appnp", deep={"alpha": 0.1, "rounds": 10})
    write("appnp-3-weighted", "appnp", layers=3, act="elu", weighted=True, deep={"alpha": 0.3, "rounds": 4})
    write("appnp-2-out", "appnp", direction="out", deep={"alpha": 0.2, "rounds": 5})
    write("sgc-1", "sgc", layers=1, deep={"rounds": 2})
    write("sgc-1-weighted", "sgc", layers=1, weighted=True, deep={"rounds": 3})
    write("sgc-1-out", "sgc", layers=1, direction="out", deep={"rounds": 4})
    for m in ("resgcn", "gcn", "sage", "gat"):
        h = {"heads": HEADS} if m == "gat" else {}
        h["deep"] = {} if m == "resgcn" else {"blocks": "residual"}
        kind = m if m == "resgcn" else m + "-blocks"
        write(f"{kind}-2", m, norm="layer", **h)
        write(f"{kind}-5-elu", m, layers=5, norm="layer", act="elu", **h)
        write(f"{kind}-3-batch", m, layers=3, norm="batch", **h)
        write(f"{kind}-2-batch-eval", m, norm="batch", mode="eval", **h)
        write(f"{kind}-2-out", m, norm="layer", direction="out", **h)
        if m != "gat":  # PyG's DirGNNConv has a lin of the width of one head
            write(f"{kind}-2-both", m, norm="layer", direction="both", **h)
    for m in ("gcn", "sage", "gat"):
        h = {"heads": HEADS, "output_heads": HEADS} if m == "gat" else {}
        h |= {"aggr": "mean"} if m == "sage" else {}
        write(f"{m}-32-residual", m, layers=32, norm="layer", add_input=True, **h)
    return out


STEPS = 5
OPTIMIZERS = {  # name: (class, arguments, weight decay of the matrix; the bias has none, largest gradient norm or None)
    "sgd": (torch.optim.SGD, {"lr": 0.1}, 0, None),
    "sgd-decay": (torch.optim.SGD, {"lr": 0.1}, 0.05, None),
    "sgd-momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 0, None),
    "sgd-momentum-decay-clip": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 0.05, 2.5),
    "adam": (torch.optim.Adam, {"lr": 0.01}, 0, None),
    "adam-decay": (torch.optim.Adam, {"lr": 0.01}, 0.05, None),
    "adam-decay-clip": (torch.optim.Adam, {"lr": 0.01}, 0.05, 2.5),
    "adam-beta2": (torch.optim.Adam, {"lr": 0.01, "betas": (0.9, 0.8)}, 0, None),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}, 0.05, None),
}


def optimizers():
    """Five steps of each optimizer on one 4 x 3 matrix and one bias of 4, with the same given gradients."""
    rng = torch.Generator().manual_seed(2)
    start = {"weight": uniform(rng, 4, 3), "bias": uniform(rng, 4)}
    grads = [{k: uniform(rng, *v.shape, width=1 + 0.5 * s) for k, v in start.items()} for s in range(STEPS)]
    grads[2]["weight"][0, 0] = 0
    tensors = {f"start.{k}": v for k, v in start.items()}
    tensors |= {f"grad.{s + 1}.{k}": v for s in range(STEPS) for k, v in grads[s].items()}
    settings = {}
    for name, (make, kwargs, decay, clip) in OPTIMIZERS.items():
        params = {k: torch.nn.Parameter(v.clone()) for k, v in start.items()}
        opt = make([{"params": [params["weight"]], "weight_decay": decay},
                    {"params": [params["bias"]], "weight_decay": 0}], **kwargs)
        norms = []
        for s in range(STEPS):
            for k, p in params.items():
                p.grad = grads[s][k].clone()
            if clip:
                norms.append(torch.nn.utils.clip_grad_norm_(list(params.values()), clip))
            opt.step()
            tensors |= {f"{name}.{s + 1}.{k}": p.detach().clone() for k, p in params.items()}
        if clip:
            tensors[f"{name}.norms"] = torch.stack(norms)
        settings[name] = json.dumps(kwargs | {"weight_decay": decay, "clip": clip}, separators=(",", ":"))
    tensors = {k: v.float() for k, v in tensors.items()}

    def rates(schedule):
        opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        s, out = schedule(opt), []
        for _ in range(12):
            out.append(opt.param_groups[0]["lr"])
            opt.step()
            s.step()
        return torch.tensor(out, dtype=torch.float64)

    # The rate of epochs 1 to 12, from .1: half a cosine over 10 epochs and what follows it; times .5 every 4 epochs.
    tensors["schedule.cosine"] = rates(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=10))
    tensors["schedule.step"] = rates(lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=4, gamma=0.5))
    tensors["schedule.warmup"] = rates(lambda o: torch.optim.lr_scheduler.SequentialLR(o, [
        torch.optim.lr_scheduler.LinearLR(o, start_factor=1 / 4, total_iters=3),
        torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=9)], milestones=[3]))
    # Rates by a measure, with progress too small to count, and progress after a fall.
    measures = [.5, .5, .50004, .4, .4, .6, .6, .59, .58, .57, .6, .6]
    tensors["measures"] = torch.tensor(measures, dtype=torch.float64)
    for mode in "max", "min":
        opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        s, out = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode=mode, factor=0.5, patience=1), []
        for m in measures:
            out.append(opt.param_groups[0]["lr"])
            s.step(m)
        tensors[f"schedule.plateau.{mode}"] = torch.tensor(out, dtype=torch.float64)
    save(HERE.parent.parent / "optim" / "testdata" / "golden.safetensors", tensors,
         settings | {"steps": str(STEPS), "torch": torch.__version__})


if __name__ == "__main__":
    torch.set_num_threads(1)
    models()
    optimizers()
