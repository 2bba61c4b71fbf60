"""Nets without a graph, of modules over DGL, which are called with each DGLGraph, beside PyTorch in
float64."""

import copy

import dgl
import dgl.function as fn
import dgl.nn.pytorch as d
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import weft

WIDTH, EDGE, OUT = 5, 3, 4


def drawn(vertices, seed):
    """A graph of random edges, some of them twice, with a self loop at each vertex; and what vertices and
    edges have."""
    g = torch.Generator().manual_seed(seed)
    ends, loops = torch.randint(0, vertices, (2, 3 * vertices), generator=g), torch.arange(vertices)
    ends = torch.cat([ends, ends[:, :3], loops.repeat(2, 1)], 1)
    graph = dgl.graph(tuple(ends), num_nodes=vertices)
    graph.ndata["feat"] = torch.randn(vertices, WIDTH, generator=g)
    graph.edata["feat"] = torch.randn(graph.num_edges(), EDGE, generator=g)
    graph.edata["weight"] = torch.rand(graph.num_edges(), generator=g) + 0.5
    return graph


def typed(vertices, seed):
    g = torch.Generator().manual_seed(seed)
    counts = {"user": vertices, "item": vertices // 2 + 1}
    keys = [("user", "likes", "item"), ("item", "rev", "user"), ("user", "knows", "user")]
    ends = {
        key: tuple(torch.randint(0, counts[end], (3 * vertices,), generator=g) for end in key[::2])
        for key in keys
    }
    graph = dgl.heterograph(ends, counts)
    for name, count in counts.items():
        graph.nodes[name].data["feat"] = torch.randn(count, WIDTH, generator=g)
    return graph


GRAPHS, TYPED = ([make(4 + 13 * k % 40, k) for k in range(5)] for make in (drawn, typed))


class Messages(nn.Module):
    """Messages of its own with features of edges, and a convolution with weights."""

    def __init__(self):
        super().__init__()
        self.edge, self.conv = nn.Linear(2 * WIDTH + EDGE, WIDTH), d.GraphConv(WIDTH, OUT)

    def forward(self, g, h, efeat, edge_weight, rounds=1):
        with g.local_scope():
            for _ in range(rounds):
                g.ndata["h"], g.edata["e"] = h, efeat
                g.update_all(
                    lambda edges: {
                        "m": self.edge(torch.cat([edges.src["h"], edges.dst["h"], edges.data["e"]], 1)).tanh()
                    },
                    fn.mean("m", "h"),
                )
                h = h + g.ndata["h"]
        return self.conv(g, h, edge_weight=edge_weight)


class OfFields(nn.Module):
    """Reads features and weights from the graph."""

    def __init__(self):
        super().__init__()
        self.conv = d.GraphConv(WIDTH, OUT)

    def forward(self, graph):
        return self.conv(graph, graph.ndata["feat"], edge_weight=graph.edata["weight"])


class Pooled(nn.Module):
    """Poolings over each graph of a batch, and what goes back to its vertices."""

    def __init__(self):
        super().__init__()
        self.conv, self.attention = (
            d.SAGEConv(WIDTH, OUT, "mean"),
            d.GlobalAttentionPooling(nn.Linear(OUT, 1)),
        )
        self.set, self.out = d.Set2Set(OUT, 2, 1), nn.Linear(6 * OUT, 1)

    def forward(self, g, feat):
        h = self.conv(g, feat).tanh()
        with g.local_scope():
            g.ndata["h"] = h
            h = h - dgl.broadcast_nodes(g, dgl.mean_nodes(g, "h"))
            g.ndata["h"] = h
            made = [dgl.max_nodes(g, "h"), dgl.sum_nodes(g, "h"), h.new_ones(g.batch_size, OUT)]
        return self.out(torch.cat([*made, self.attention(g, h), self.set(g, h)], 1))


class Relations(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = d.HeteroGraphConv(
            {
                "likes": d.SAGEConv(WIDTH, OUT, "mean"),
                "rev": d.GraphConv(WIDTH, OUT, allow_zero_in_degree=True),
                "knows": d.GraphConv(WIDTH, OUT, norm="right", allow_zero_in_degree=True),
            },
            "sum",
        )

    def forward(self, g, inputs):
        return {name: h.tanh() for name, h in self.conv(g, inputs).items()}


class Matches(Relations):
    """The graphs of a batch, of the vertices of both types."""

    def forward(self, g, inputs):
        made = super().forward(g, inputs)
        with g.local_scope():
            g.ndata["h"] = made
            return dgl.mean_nodes(g, "h", ntype="item") + dgl.max_nodes(g, "h", ntype="user")


def batches(graphs):
    """Batches of graphs, one of which is empty, and a graph alone."""
    empty = graphs[0].subgraph({name: [] for name in graphs[0].ntypes})
    return [dgl.batch(graphs[:3]), dgl.batch([graphs[3], empty, graphs[4]]), graphs[1]]


def messages(net, to):
    for k, g in enumerate(GRAPHS * 2):
        made = net(g, to(g.ndata["feat"]), to(g.edata["feat"]), to(g.edata["weight"]), rounds=1 + k % 2)
        yield F.mse_loss(made, to(g.ndata["feat"][:, :OUT]))


def fields(net, to):
    for g in GRAPHS * 2:
        g = g.local_var()
        g.ndata["feat"], g.edata["weight"] = to(g.ndata["feat"]), to(g.edata["weight"])
        yield net(g).square().mean()


def pooled(net, to):
    for g in batches(GRAPHS) * 3:
        yield 0.1 * net(g, to(g.ndata["feat"])).square().mean()


def relations(net, to):
    for g in TYPED * 2:
        made = net(g, {name: to(x) for name, x in g.ndata["feat"].items()})
        yield sum(F.mse_loss(h, to(g.nodes[name].data["feat"][:, :OUT])) for name, h in made.items())


def matches(net, to):
    for g in batches(TYPED) * 3:
        made = net(g, {name: to(x) for name, x in g.ndata["feat"].items()})
        yield (made - 1).square().mean()


LOOPS = [
    (messages, Messages),
    (fields, OfFields),
    (pooled, Pooled),
    (relations, Relations),
    (matches, Matches),
]


def steps(loop, net, to):
    optimizer, found = torch.optim.SGD(net.parameters(), lr=0.05), []
    for loss in loop(net, to):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


@pytest.mark.parametrize("loop,make", LOOPS, ids=lambda one: getattr(one, "__name__", None))
def test_loops(loop, make):
    torch.manual_seed(2)
    exact = make().double()
    module, begun = make(), copy.deepcopy(exact.state_dict())
    theirs = steps(loop, exact, lambda t: t.double())
    for mesh in ("graph=1", "graph=3", "tensor=2"):
        module.load_state_dict(begun)
        ours = steps(loop, weft.compile(module, parallel=mesh), lambda t: t)
        assert ours == pytest.approx(theirs, rel=2e-5), mesh
        for p, q in zip(module.parameters(), exact.parameters()):
            torch.testing.assert_close(p.double(), q, rtol=1e-4, atol=1e-5)


def test_one_graph():
    """Poolings over a graph that a net has are over all of it."""
    g, module = GRAPHS[1], Pooled()
    net = weft.compile(module, g)
    torch.testing.assert_close(net(), module(g, g.ndata["feat"]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        net(GRAPHS[2], GRAPHS[2].ndata["feat"]),
        module(GRAPHS[2], GRAPHS[2].ndata["feat"]),
        rtol=1e-4,
        atol=1e-5,
    )


def test_masks():
    """edges= and rows= are of the graph of the call, in the order of its edges."""
    g, module = GRAPHS[3], OfFields()
    net, mask = weft.compile(module), torch.rand(g.num_edges()) < 0.7
    mask[-g.num_nodes() :] = True  # self loops
    rows = torch.tensor([3, 1])
    expected = module(dgl.edge_subgraph(g, mask, relabel_nodes=False))
    torch.testing.assert_close(net(g, edges=mask), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(net(g, rows=rows), module(g)[rows], rtol=1e-4, atol=1e-5)


class Both(OfFields):
    """Is given features, and reads others from the graph."""

    def forward(self, g, h):
        return super().forward(g) + h.mean()


class Each(OfFields):
    """Goes through the graphs of a batch."""

    def forward(self, graph):
        h = super().forward(graph)
        return torch.stack([rows.mean(0) for rows in h.split(list(graph.batch_num_nodes()))])


@pytest.mark.parametrize(
    "module,arguments,reason",
    [
        (Each(), (dgl.batch(GRAPHS[:2]),), "the graphs of a batch are gone through one by one"),
        (
            Both(),
            (GRAPHS[0], torch.ones(4, WIDTH)),
            "the field 'feat' of the graph is set outside of forward",
        ),
        (OfFields(), (dgl.to_block(GRAPHS[0]),), "graph: is a block, whose targets are others"),
        (OfFields(), (dgl.rand_graph(4, 9),), "x: the call gives none"),
        (Relations(), (TYPED[0], torch.ones(4, WIDTH)), "x: give x and edge_index both"),
    ],
)
def test_refusals(module, arguments, reason):
    with pytest.raises(weft.Refused, match=reason):
        weft.compile(module)(*arguments)
