# Writes the golden files of models on graphs with types. How to run:
#   python3 -m venv /tmp/pyg && /tmp/pyg/bin/pip install torch==2.5.1 torch_geometric==2.8.1
#   /tmp/pyg/bin/python gnn/testdata/typed/golden.py
"""Golden files of models on a graph of two vertex types, from PyTorch Geometric (PyG), as ../golden.py writes
those of one type.

Vertices are papers, which have labels, and authors; an author writes no paper, two papers have no author, one
is cited by a hub of edges, and some edges stand twice. Ids count within the types; in the whole graph papers
come first. Tensors:

  x.TYPE                  vertices x features, about 40 % zeros; none in files of R-GCN on vertices without
                          features
  edge_index.SRC__REL__DST  2 x E int64, the sources above the destinations, in no order
  train                   ids of the papers in the loss, int64
  labels                  a class for each paper, int64
  param.NAME              the state_dict: parameters under PyG's names
  logits, loss            the model's output for all papers; the mean cross entropy over train, shape [1]
  grad.NAME               gradient of every parameter, zeros where it has none, and grad.x.TYPE of the
                          features

and __metadata__ strings: model, layers, hidden, heads, output_heads, norm, act, types, counts and relations
(in the order of the model, separated by commas), built (how PyG was used), torch, pyg; of rgcn also bases or
blocks (0: neither).

R-GCN is RGCNConv on the union: edge type k is the k-th relation, the mean is over the edges of one relation,
and without features the row of vertex v of the whole graph is row v of each basis, of each weight and of the
root. The other models are to_hetero of PyG's models: one convolution for each relation
(convs.LAYER.SRC__REL__DST), whose results are added up.
"""

import pathlib
import sys
import zlib

import torch
import torch.nn.functional as F
import torch_geometric
from torch_geometric.nn import RGCNConv, to_hetero
from torch_geometric.nn.models import GAT, GraphSAGE

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import golden  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
COUNTS = {"paper": 24, "author": 16}
WIDTH = {"paper": 11, "author": 7}  # of features, where types may differ
HIDDEN, HEADS, CLASSES = 12, 3, 4
CITES, CITED = ("paper", "cites", "paper"), ("paper", "rev_cites", "paper")
WRITES, WRITTEN = ("author", "writes", "paper"), ("paper", "rev_writes", "author")


def dataset():
    """The edges of each relation, the labels and the training papers."""
    rng = torch.Generator().manual_seed(2)
    pick = lambda n, *values: torch.tensor(values)[torch.randint(len(values), (n,), generator=rng)]
    papers, authors = range(COUNTS["paper"]), range(1, COUNTS["author"])  # author 0 writes nothing
    hub = torch.stack(
        [torch.arange(3, 20), torch.full((17,), 5)]
    )  # paper 5 is cited by many, itself among them
    cites = torch.cat([torch.stack([pick(40, *papers), pick(40, *papers[2:])]), hub], 1)
    writes = torch.stack([pick(45, *authors), pick(45, *papers[:-2])])  # the last two papers have no author
    cites, writes = torch.cat([cites, cites[:, :4]], 1), torch.cat([writes, writes[:, :3]], 1)
    cites, writes = (e[:, torch.randperm(e.shape[1], generator=rng)] for e in (cites, writes))
    labels = torch.randint(CLASSES, (COUNTS["paper"],), generator=rng)
    train = torch.randperm(COUNTS["paper"], generator=rng)[:14].sort().values
    return {CITES: cites, WRITES: writes, WRITTEN: writes.flip(0), CITED: cites.flip(0)}, labels, train


EDGES, LABELS, TRAIN = dataset()


def features(rng, width):
    """Features of each type, of so many columns."""
    x = {}
    for name, count in COUNTS.items():
        x[name] = golden.uniform(rng, count, width[name])
        x[name][golden.uniform(rng, count, width[name]) < -0.2] = 0
    return x


class RGCN(torch.nn.Module):
    """RGCNConv, ReLU, RGCNConv on the union of the types."""

    def __init__(self, inputs, relations, **decomposition):
        super().__init__()
        widths = [inputs, HIDDEN, CLASSES]
        self.convs = torch.nn.ModuleList(
            RGCNConv(a, b, len(relations), **decomposition) for a, b in zip(widths, widths[1:])
        )
        first = {"paper": 0, "author": COUNTS["paper"]}
        union = [EDGES[r] + torch.tensor([[first[r[0]]], [first[r[2]]]]) for r in relations]
        self.edges = torch.cat(union, 1)
        self.kinds = torch.cat([torch.full((e.shape[1],), k) for k, e in enumerate(union)])

    def forward(self, x):
        x = torch.cat(list(x.values())) if x else None
        x = F.relu(self.convs[0](x, self.edges, self.kinds))
        return self.convs[1](x, self.edges, self.kinds)[: COUNTS["paper"]]


def hetero(make, relations):
    """A model of PyG as to_hetero makes it for the relations."""
    model = to_hetero(make(), (list(COUNTS), relations), aggr="sum")
    edges = {r: EDGES[r] for r in relations}
    with torch.no_grad():  # widths of features are found in a first pass
        model({name: torch.zeros(count, WIDTH[name]) for name, count in COUNTS.items()}, edges)
    return model, lambda x: model(x, edges)["paper"]


def write(name, net, run, x, built, relations, **metadata):
    """Runs a model forward and backward and writes NAME.safetensors."""
    rng = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    net = net.double()
    with torch.no_grad():
        golden.randomise(net, rng)
    x = {k: v.clone().requires_grad_() for k, v in x.items()}
    logits = run(x)
    loss = F.cross_entropy(logits[TRAIN], LABELS[TRAIN])
    loss.backward()
    tensors = {"labels": LABELS, "train": TRAIN, "logits": logits.detach(), "loss": loss.detach().reshape(1)}
    tensors |= {"edge_index." + "__".join(r): EDGES[r] for r in relations}
    tensors |= {"x." + k: v.detach() for k, v in x.items()} | {"grad.x." + k: v.grad for k, v in x.items()}
    tensors |= {"param." + k: v for k, v in net.state_dict().items()}
    tensors |= {
        "grad." + k: torch.zeros_like(p) if p.grad is None else p.grad for k, p in net.named_parameters()
    }
    tensors = {k: v.float() if v.is_floating_point() else v for k, v in tensors.items()}
    golden.save(
        HERE / f"{name}.safetensors",
        tensors,
        {
            "layers": "2",
            "hidden": str(HIDDEN),
            "heads": "0",
            "output_heads": "0",
            "norm": "none",
            "act": "relu",
            "types": ",".join(COUNTS),
            "counts": ",".join(map(str, COUNTS.values())),
            "relations": ",".join("__".join(r) for r in relations),
            "built": built,
            "torch": torch.__version__,
            "pyg": torch_geometric.__version__,
        }
        | {k: str(v) for k, v in metadata.items()},
    )


def main():
    relations = [CITES, WRITES, WRITTEN, CITED]
    vertices = sum(COUNTS.values())
    dense = features(torch.Generator().manual_seed(3), {"paper": 10, "author": 10})
    for name, x, bases, blocks in (
        ("rgcn", dense, 0, 0),
        ("rgcn-bases", dense, 3, 0),
        ("rgcn-blocks", dense, 0, 2),
        ("rgcn-identity", {}, 0, 0),
        ("rgcn-bases-identity", {}, 3, 0),
    ):
        net = RGCN(10 if x else vertices, relations, num_bases=bases or None, num_blocks=blocks or None)
        write(
            name,
            net,
            net,
            x,
            "torch_geometric.nn.RGCNConv",
            relations,
            model="rgcn",
            bases=bases,
            blocks=blocks,
        )

    relations = [CITES, WRITES, WRITTEN]
    x = features(torch.Generator().manual_seed(4), WIDTH)
    both = (-1, -1)
    sage = lambda **more: lambda: GraphSAGE(both, HIDDEN, 2, CLASSES, **more)
    gat = lambda **more: lambda: GAT(both, HIDDEN, 2, CLASSES, heads=HEADS, add_self_loops=False, **more)
    layer = {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}}
    heads = {"heads": HEADS, "output_heads": HEADS}
    for name, make, metadata in (
        ("sage", sage(), {}),
        ("sage-layer", sage(**layer), {"norm": "layer"}),
        ("gat", gat(), heads),
        ("gatv2", gat(v2=True), heads),
    ):
        net, run = hetero(make, relations)
        kind = name.split("-")[0]
        built = (
            "torch_geometric.nn.to_hetero of "
            f'torch_geometric.nn.models.{"GraphSAGE" if kind == "sage" else "GAT"}, aggr="sum"'
        )
        write(name, net, run, x, built, relations, model=kind, **metadata)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
