"""Trains a model of each of the convolutions of PyG, or of DGL, in weft and in PyTorch in float64, and lists
what agrees.

    python python/tests/peers/convolutions.py --write docs/convolutions.md

Which of the two the environment has is the one that is compared.
"""

import argparse
import copy
import importlib.util
import pathlib
import re
import tempfile
import textwrap

import torch
import torch.nn.functional as F
from torch import nn
from traced import EDGE, WIDTH

import weft

LIBRARY = "pyg" if importlib.util.find_spec("torch_geometric") else "dgl"
if LIBRARY == "pyg":
    import torch_geometric
    from test_trace import ATTRIBUTED, CONVOLUTIONS, CallAttr

    torch_geometric.backend.use_segment_matmul = False  # RGCNConv chooses by the counts of edges
else:
    import dgl
    from test_trace_dgl import ATTRIBUTED, CONVOLUTIONS, CallAttr

VERTICES, CLASSES, EPOCHS, NEAR = 200, 4, 20, 1e-5
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
RATES = {"sgd": 0.05, "adam": 0.01}
SLOWER = {"DGNConv"}  # a tenth of these, at which its losses jump, and PyTorch's float32 is 2e-2 apart
MARKS = f"<!-- table of {LIBRARY} -->", f"<!-- end of table of {LIBRARY} -->"
MESHES = {
    "one worker": {},
    "graph=3": {"parallel": "graph=3"},
    "tensor=2": {"parallel": "tensor=2"},
    "pipeline=2": {"parallel": "pipeline=2", "chunks": 1},
    "--offload": {"partitions": 3, "offload": True},
}


class Net(nn.Module):
    """Two convolutions, and products before, between and after them."""

    def __init__(self, make):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.LazyLinear(CLASSES)
        self.between, self.convs = nn.LazyLinear(WIDTH), nn.ModuleList([make(), make()])

    def forward(self, x, edge_index):
        return self.through(x, lambda conv, h: conv(h, edge_index))

    def through(self, x, call):
        h = self.between(call(self.convs[0], self.first(x)))
        return self.last(call(self.convs[1], torch.tanh(h)))


class NetOfEdges(Net):
    def forward(self, x, edge_index, edge_attr):
        return self.through(x, lambda conv, h: conv(h, edge_index, edge_attr=edge_attr))


class NetOfDGL(Net):
    def forward(self, graph, x):
        return self.through(x, lambda conv, h: conv(graph, h))


class NetOfEdgesOfDGL(Net):
    def forward(self, graph, x, edge_feat):
        return self.through(x, lambda conv, h: conv(graph, h, edge_feat))


NETS = {"pyg": (Net, NetOfEdges), "dgl": (NetOfDGL, NetOfEdgesOfDGL)}[LIBRARY]


def arrays():
    """A directed graph with equal edges and, for PyG, self loops and isolated vertices, at which some of
    DGL's layers fail."""
    random = torch.Generator().manual_seed(7)
    y = torch.randint(CLASSES, (VERTICES,), generator=random)
    edges = torch.randint(VERTICES - 3, (2, 1000), generator=random)
    edges = edges[:, (y[edges[0]] == y[edges[1]]) | (torch.rand(1000, generator=random) < 0.4)]
    if LIBRARY == "pyg":
        more = torch.arange(0, 40, 4).repeat(2, 1)
    else:
        edges, ring = edges[:, edges[0] != edges[1]], torch.arange(VERTICES)
        more = torch.stack([ring, ring.roll(1)])
    edges = torch.cat([edges, edges[:, :9], more], 1)
    part = torch.rand(VERTICES, generator=random)
    return {
        "edge_index": edges,
        "x": torch.randn(VERTICES, WIDTH, generator=random)
        + F.one_hot(y, CLASSES).repeat(1, WIDTH // CLASSES),
        "y": y,
        "train_mask": part < 0.6,
        "val_mask": part >= 0.6,
    }, torch.randn(edges.shape[1], EDGE, generator=random)


def make(name):
    """The model, and the arrays of its graph."""
    graph, attr = arrays()
    of_edges = name in ATTRIBUTED or isinstance(CONVOLUTIONS[name](), CallAttr)
    torch.manual_seed(1)
    if of_edges:
        graph["edge_attr"] = attr
    net = NETS[of_edges](CONVOLUTIONS[name])
    with torch.no_grad():
        net.eval()(*inputs(graph, torch.float32))  # lazy layers take their sizes
    return net, graph


def inputs(graph, kind):
    """What the model is called with."""
    values = [graph["x"].to(kind), graph["edge_index"]]
    if LIBRARY == "dgl":
        values = [dgl.graph(tuple(graph["edge_index"]), num_nodes=VERTICES), values[0]]
    return values + [graph[k].to(kind) for k in graph if k == "edge_attr"]


def rate(name, optimizer):
    return RATES[optimizer] / (10 if name in SLOWER else 1)


def pytorch(name, net, graph, optimizer, kind=torch.float64):
    """The losses of PyTorch, in float64 if nothing else is said."""
    net = copy.deepcopy(net).to(kind).train()
    steps, losses = OPTIMIZERS[optimizer](net.parameters(), lr=rate(name, optimizer)), []
    arguments = inputs(graph, kind)
    torch.set_default_dtype(kind)  # of numbers that layers make
    for _ in range(EPOCHS):
        steps.zero_grad()
        loss = F.cross_entropy(net(*arguments)[graph["train_mask"]], graph["y"][graph["train_mask"]])
        loss.backward()
        steps.step()
        losses.append(float(loss.detach()))
    torch.set_default_dtype(torch.float32)
    return losses


def apart(name, net, graph, optimizer, mesh, wanted):
    """The largest relative difference of the losses, or why weft refuses."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = weft.train(
                weft.Graph(**graph),
                model=net,
                optimizer=optimizer,
                lr=rate(name, optimizer),
                epochs=EPOCHS,
                out=folder + "/run",
                progress=False,
                checkpoint_every=0,
                **MESHES[mesh],
            )
        except (weft.Refused, weft.Failed) as why:
            return " ".join(str(why).split())
        return farthest(wanted, [float(v) for v in run.history["loss"]])


def farthest(wanted, losses):
    """The largest relative difference of losses."""
    return max(abs(a - b) / abs(a) for a, b in zip(wanted, losses, strict=True))


def unstable(name, optimizers):
    """How far PyTorch's losses in float32 are from those in float64, with the optimizer that differs most."""
    net, graph = make(name)
    return max(
        farthest(*(pytorch(name, net, graph, o, kind) for kind in (torch.float64, torch.float32)))
        for o in optimizers
    )


def results(names, optimizers, meshes):
    """For each convolution, mesh and optimizer the largest relative difference of the losses, or why weft
    refuses."""
    for name in names:
        net, graph = make(name)
        for optimizer in optimizers:
            wanted = pytorch(name, net, graph, optimizer)
            for mesh in meshes:
                yield name, optimizer, mesh, apart(name, net, graph, optimizer, mesh, wanted)


def table(found):
    """The table of the documents: yes, or the number of the reason below."""
    cells, reasons = {}, []
    for name, _, mesh, result in found:
        if isinstance(result, str):
            cells[name, mesh] = "no", re.sub(r"^.*?\.py:\d+: .*?\),?: |\n.*", "", result)
        elif result > NEAR:
            float32 = unstable(name, OPTIMIZERS)
            why = f"PyTorch's losses in float32 are {float32:.0e} of their value away from those in float64"
            cells[name, mesh] = (
                ("as float32", why) if result <= float32 else ("no", f"{result:.0e} of their value away")
            )
        else:
            cells.setdefault((name, mesh), ("yes", ""))
    for key, (word, why) in cells.items():
        reasons += [why] if why and why not in reasons else []
        cells[key] = f"{word} ({1 + reasons.index(why)})" if why else word
    rows = [
        f"| {name} | " + " | ".join(cells.get((name, mesh), "") for mesh in MESHES) + " |"
        for name in dict.fromkeys(n for n, _ in cells)
    ]
    head = ["| convolution | " + " | ".join(MESHES) + " |", "|---" * (1 + len(MESHES)) + "|"]
    notes = [
        textwrap.fill(f"{i}. {why}", 110, subsequent_indent="   ", break_on_hyphens=False)
        for i, why in enumerate(reasons, 1)
    ]
    return "\n".join(head + rows + [""] + notes)


def write(path, text):
    """Replaces what is between the markers of a document."""
    before, _, rest = path.read_text().partition(MARKS[0])
    path.write_text(before + MARKS[0] + "\n" + text + "\n" + MARKS[1] + rest.partition(MARKS[1])[2])


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--only", default=",".join(CONVOLUTIONS), help="convolutions")
    p.add_argument("--optimizers", default=",".join(OPTIMIZERS))
    p.add_argument("--meshes", default=",".join(MESHES))
    p.add_argument("--write", type=pathlib.Path, help="the document whose table is written anew")
    a = p.parse_args()
    found = []
    for name, optimizer, mesh, result in results(
        a.only.split(","), a.optimizers.split(","), a.meshes.split(",")
    ):
        print(
            f"{name:22}{optimizer:6}{mesh:12}",
            result if isinstance(result, str) else f"{result:.1e}",
            flush=True,
        )
        found.append((name, optimizer, mesh, result))
    if a.write:
        write(a.write, table(found))
