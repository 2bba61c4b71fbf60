# Writes the golden files of graphs with several relations. How to run:
#   python3 -m venv /tmp/pyg && /tmp/pyg/bin/pip install torch==2.5.1 torch_geometric==2.8.1
#   /tmp/pyg/bin/python gnn/testdata/relations/golden.py
"""Golden files of R-GCN and of torch_geometric.nn.to_hetero's models, where ../typed has none: three
relations among vertices of one type, types of other widths or without features, norms of each type, and types
that no relation leads to.

Tensors and metadata are those of ../typed/golden.py. A parameter that the loss does not depend on has no
gradient.
"""

import pathlib
import re
import sys
import zlib

import torch
import torch.nn.functional as F
import torch_geometric
from torch_geometric.nn import GINConv, RGCNConv, SAGEConv, to_hetero
from torch_geometric.nn.models import GAT, GCN, MLP, GraphSAGE

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import golden as one  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
HIDDEN, HEADS = 12, 3
uniform = one.uniform


class Graph:
    """Types (name, vertices, features), relations (source, name, target) with edges, labels of the first
    type."""

    def __init__(self, seed, types, relations, classes):
        rng = torch.Generator().manual_seed(seed)
        self.types, self.relations, self.classes = types, relations, classes
        count = {name: n for name, n, _ in types}
        self.x = {name: uniform(rng, n, f) for name, n, f in types if f}
        self.edges = {}
        for r in relations:
            n = 2 * max(count[r[0]], count[r[2]])
            pick = lambda v, holes: torch.randint(
                v - holes, (n,), generator=rng
            )  # the last vertices have no edges
            e = torch.stack([pick(count[r[0]], 1), pick(count[r[2]], 2)])
            e = torch.cat([e, e[:, :3]], 1)  # duplicates
            if r[0] == r[2]:
                e = torch.cat([e, torch.tensor([[3, 5, 5], [3, 5, 5]])], 1)  # self loops
            self.edges[r] = e
        v = types[0][1]
        self.labels = torch.randint(classes, (v,), generator=rng)
        self.train = torch.randperm(v, generator=rng)[: v // 2].sort().values

    def key(self, r):
        return "__".join(r)


ONE = Graph(1, [("entity", 30, 12)], [("entity", r, "entity") for r in ("knows", "likes", "near")], 6)
BARE = Graph(2, [("entity", 30, 0)], ONE.relations, 6)
TWO = Graph(
    3,
    [("paper", 24, 7), ("author", 15, 5)],
    [("paper", "cites", "paper"), ("author", "writes", "paper"), ("paper", "by", "author")],
    5,
)
HALF = Graph(4, [("paper", 24, 7), ("author", 15, 0)], TWO.relations, 5)
# No relation leads to editors: they are there in the first layer only.
IDLE = Graph(
    5, [("paper", 24, 7), ("editor", 9, 4)], [("paper", "cites", "paper"), ("editor", "edits", "paper")], 5
)


def randomise(model, rng):
    for name, t in model.state_dict().items():
        if name.endswith("running_var") or re.search(r"norms\..*weight$", name):
            t.copy_(uniform(rng, *t.shape, middle=1, width=0.25))
        elif ".att" in name:
            t.copy_(uniform(rng, *t.shape, width=2))
        elif t.is_floating_point() and not name.endswith("eps"):
            t.copy_(uniform(rng, *t.shape, width=0.5 if t.dim() > 1 else 0.25))


class RGCN(torch.nn.Module):
    """RGCNConv, activation between."""

    def __init__(self, g, bases, blocks, act):
        super().__init__()
        (_, n, f), r = g.types[0], len(g.relations)
        widths = [f or n, HIDDEN, g.classes]
        self.convs = torch.nn.ModuleList(
            RGCNConv(i, o, r, num_bases=bases or None, num_blocks=blocks or None)
            for i, o in zip(widths, widths[1:])
        )
        self.act = act

    def forward(self, g, x):
        edges = torch.cat([g.edges[r] for r in g.relations], 1)
        kinds = torch.cat([torch.full((g.edges[r].shape[1],), i) for i, r in enumerate(g.relations)])
        h = x.get("entity")
        for i, conv in enumerate(self.convs):
            h = conv(self.act(h) if i else h, edges, kinds)
        return h


def mean(x, edges, n):
    out = torch.zeros(n, x.shape[1], dtype=x.dtype).index_add(0, edges[1], x[edges[0]])
    return out / torch.bincount(edges[1], minlength=n).clamp(min=1).unsqueeze(1)


class TypedRGCN(torch.nn.Module):
    """R-GCN of several vertex types: bases and roots of the first layer are a type's own, mixtures are
    shared."""

    def __init__(self, g, bases, act):
        super().__init__()
        self.act, r = act, len(g.relations)
        put = lambda *shape: torch.nn.Parameter(torch.zeros(*shape))
        first, last = torch.nn.Module(), torch.nn.Module()
        first.comp, last.comp = put(r, bases), put(r, bases)
        first.weight, first.root, first.bias = (
            torch.nn.ParameterDict(),
            torch.nn.ParameterDict(),
            torch.nn.ParameterDict(),
        )
        for name, n, f in g.types:
            first.weight[name], first.root[name], first.bias[name] = (
                put(bases, f or n, HIDDEN),
                put(f or n, HIDDEN),
                put(HIDDEN),
            )
        last.weight, last.root, last.bias = (
            put(bases, HIDDEN, g.classes),
            put(HIDDEN, g.classes),
            put(g.classes),
        )
        self.convs = torch.nn.ModuleList([first, last])

    def forward(self, g, x):
        count = {name: n for name, n, _ in g.types}
        x = {name: x.get(name, torch.eye(n, dtype=torch.float64)) for name, n, _ in g.types}
        part = lambda p, name: p[name] if isinstance(p, torch.nn.ParameterDict) else p
        for i, conv in enumerate(self.convs):
            h = {name: x[name] @ part(conv.root, name) + part(conv.bias, name) for name in x}
            for k, r in enumerate(g.relations):
                w = torch.einsum("b,bio->io", conv.comp[k], part(conv.weight, r[0]))
                h[r[2]] = h[r[2]] + mean(x[r[0]] @ w, g.edges[r], count[r[2]])
            x = {name: self.act(v) for name, v in h.items()} if i == 0 else h
        return x[g.types[0][0]]


class Hetero(torch.nn.Module):
    """A model of PyG's on one relation, which to_hetero makes one of g's."""

    def __init__(self, g, model, norm, act):
        super().__init__()
        kwargs = {"act": act, "norm": {"none": None, "batch": "batch_norm", "layer": "layer_norm"}[norm]}
        if norm == "layer":
            kwargs["norm_kwargs"] = {"mode": "node"}
        if model in ("gat", "gatv2"):
            kwargs |= {"heads": HEADS, "v2": model == "gatv2", "add_self_loops": False}
        if model == "gcn":
            net = GCN(g.types[0][2], HIDDEN, 2, g.classes, add_self_loops=False, **kwargs)
        elif model == "gin":
            net = GIN(g, **kwargs)
        else:
            net = {"sage": GraphSAGE, "gat": GAT, "gatv2": GAT}[model](
                (-1, -1), HIDDEN, 2, g.classes, **kwargs
            )
        self.net = to_hetero(net, ([t[0] for t in g.types], g.relations), aggr="sum")
        self.net({k: v.float() for k, v in g.x.items()}, g.edges)  # finds the widths of the features

    def forward(self, g, x):
        return self.net(x, g.edges)[g.types[0][0]]


class GIN(torch.nn.Module):
    def __init__(self, g, act, norm):
        super().__init__()
        widths = [g.types[0][2], HIDDEN, g.classes]
        self.convs = torch.nn.ModuleList(
            GINConv(MLP([i, o, o], act=act, norm=norm), train_eps=False) for i, o in zip(widths, widths[1:])
        )
        self.act = torch.nn.ReLU()

    def forward(self, x, edge_index):
        x = self.act(self.convs[0](x, edge_index))
        return self.convs[1](x, edge_index)


class Idle(torch.nn.Module):
    """SAGEConv on each relation whose source is there, summed: HeteroConv's way with types that nothing leads
    to."""

    def __init__(self, g, act):
        super().__init__()
        self.act, self.convs = act, torch.nn.ModuleList()
        width = {name: f for name, _, f in g.types}
        self.convs.append(
            torch.nn.ModuleDict(
                {"__".join(r): SAGEConv((width[r[0]], width[r[2]]), HIDDEN) for r in g.relations}
            )
        )
        self.convs.append(torch.nn.ModuleDict({"paper__cites__paper": SAGEConv((HIDDEN, HIDDEN), g.classes)}))

    def forward(self, g, x):
        for i, layer in enumerate(self.convs):
            h = 0
            for r in g.relations:
                if r[0] in x and "__".join(r) in layer:
                    h = h + layer["__".join(r)]((x[r[0]], x[r[2]]), g.edges[r])
            x = {"paper": self.act(h) if i == 0 else h}
        return x["paper"]


def golden(name, g, model, bases=0, blocks=0, norm="none", act="relu"):
    rng = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    f = {"relu": torch.nn.ReLU(), "elu": torch.nn.ELU()}[act]
    if model == "rgcn":
        net = RGCN(g, bases, blocks, f) if len(g.types) == 1 else TypedRGCN(g, bases, f)
    elif g is IDLE:
        net = Idle(g, f)
    else:
        net = Hetero(g, model, norm, f)
    net = net.double()
    randomise(net, rng)
    net.train()
    state = {k.removeprefix("net."): v.clone() for k, v in net.state_dict().items()}
    x = {k: v.clone().requires_grad_() for k, v in g.x.items()}
    logits = net(g, x)
    value = F.cross_entropy(logits[g.train], g.labels[g.train])
    value.backward()
    tensors = {
        "labels": g.labels,
        "train": g.train,
        "logits": logits.detach(),
        "loss": value.detach().reshape(1),
    }
    tensors |= {"x." + k: v for k, v in g.x.items()} | {
        "grad.x." + k: v.grad for k, v in x.items() if v.grad is not None
    }
    tensors |= {"edge_index." + g.key(r): e for r, e in g.edges.items()}
    tensors |= {"param." + k: v for k, v in state.items()}
    tensors |= {
        "grad." + k.removeprefix("net."): p.grad for k, p in net.named_parameters() if p.grad is not None
    }
    tensors = {k: v.float() if v.is_floating_point() else v for k, v in tensors.items()}
    one.save(
        HERE / f"{name}.safetensors",
        tensors,
        {
            "model": model,
            "layers": "2",
            "hidden": str(HIDDEN),
            "heads": str(HEADS),
            "output_heads": str(HEADS),
            "bases": str(bases),
            "blocks": str(blocks),
            "norm": norm,
            "act": act,
            "types": ",".join(n for n, _, _ in g.types),
            "counts": ",".join(str(v) for _, v, _ in g.types),
            "relations": ",".join(map(g.key, g.relations)),
            "torch": torch.__version__,
            "pyg": torch_geometric.__version__,
        },
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    golden("rgcn-bases", ONE, "rgcn", bases=2)
    golden("rgcn-blocks-elu", ONE, "rgcn", blocks=3, act="elu")
    golden("rgcn-weights", ONE, "rgcn")
    golden("rgcn-bare-bases", BARE, "rgcn", bases=2)
    golden("rgcn-bare-weights", BARE, "rgcn", act="elu")
    golden("rgcn-types", TWO, "rgcn", bases=2)
    golden("rgcn-types-bare", HALF, "rgcn", bases=2, act="elu")
    for m in ("sage", "gat", "gatv2", "gcn", "gin"):
        golden(f"{m}-relations", ONE, m)
    golden("gat-types-batch", TWO, "gat", norm="batch")
    golden("sage-idle", IDLE, "sage")
