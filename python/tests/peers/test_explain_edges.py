"""Explanations of the predictions of edges, beside gradients by PyTorch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from explained import C, F, V, close, graph, log_odds
from torch import nn
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import degree

import weft
from weft._weights import read as weights_of


def test_vertex_of_edges():
    """Of a run of edges a vertex stands for its likeliest edge, whose number is that in edge_index."""
    draw = np.random.default_rng(4)
    ends = draw.integers(0, 30, (2, 200))
    made = weft.Graph(ends, draw.normal(size=(30, 4)), edge_y=(ends[0] + ends[1]) % 2)
    run = weft.train(made, task="edge", epochs=5, split="random:60/20/20")
    incident = np.flatnonzero((ends == 7).any(0))
    best = incident[run.probabilities[incident, 1].argmax()]
    why, same = run.explain(7), run.explain(edge=best, **{"class": "1"})
    assert int(why.index) == best == int(same.index) and why.of == "1"
    assert torch.equal(why.edge_mask, same.edge_mask) and torch.equal(why.node_mask, same.node_mask)


@pytest.mark.parametrize(("e", "period"), [(17, None), (20, 0), (18, 1), (17, 2)])
def test_an_edge(e, period, tmp_path):
    """Gradients of an edge's score, by a decoder in float64, and removal; the numbers of edges are the
    data's."""
    data = graph(edge_attr=True)
    time = np.arange(data.num_edges) * 7 % 10
    assert period is None or np.searchsorted([5, 7], time[e], side="right") == period
    rng = np.random.default_rng(2)
    label = rng.integers(0, C, data.num_edges)
    split = rng.integers(0, 3, data.num_edges)
    made = weft.Graph(
        np.asarray(data.edge_index),
        data.x.numpy(),
        edge_attr=data.edge_attr.numpy(),
        edge_y=label,
        **({"edge_split": split} if period is None else {"edge_time": time}),
    )
    settings = {} if period is None else {"split": "time:edge_time=5,7"}
    run = weft.train(
        made,
        model="gcn",
        task="edge",
        hidden=8,
        epochs=5,
        dropout=0,
        out=tmp_path / "run",
        normalize_features="none",
        progress=False,
        **settings,
    )
    why = run.explain(edge=e, **{"class": "1"})
    assert why.index.tolist() == [e] and torch.equal(why.edge_index, data.edge_index)
    found = weights_of(tmp_path / "run" / "model.safetensors")
    weights = {name: torch.from_numpy(np.array(w)).double() for name, w in found.items()}
    x = data.x.double().requires_grad_()
    mask = torch.ones(data.num_edges, dtype=torch.float64, requires_grad=True)
    own = ((data.edge_attr.double() - weights["edge_features.mean"]) / weights["edge_features.deviation"])[e]
    own = own.detach().requires_grad_()

    def score(x, mask, keep):
        h = x
        ends = data.edge_index[:, keep]
        degrees = 1 + degree(ends[1], V, dtype=torch.float64)
        scale = degrees.rsqrt()
        for layer in range(2):
            h = h @ weights[f"convs.{layer}.lin.weight"].T
            rows = h[ends[0]] * (scale[ends[0]] * scale[ends[1]] * mask[keep])[:, None]
            h = (
                torch.zeros_like(h).index_add(0, ends[1], rows)
                + h / degrees[:, None]
                + weights[f"convs.{layer}.bias"]
            )
            if layer == 0:
                h = h.relu()
        source, target = data.edge_index[:, e]
        z = torch.cat([h[source], h[target], h[source] * h[target], own])
        for layer in range(2):
            z = z @ weights[f"decoder.lins.{layer}.weight"].T + weights[f"decoder.lins.{layer}.bias"]
            if layer == 0:
                z = z.relu()
        return z

    everything = torch.from_numpy(time < {None: 10, 0: 5, 1: 5, 2: 7}[period])  # those that pass messages
    out = score(x, mask, everything)
    grads = torch.autograd.grad(log_odds(out, 1), [x, mask, own])
    close(why.node_mask, (x * grads[0]).detach())
    close(why.edge_mask, grads[1])
    close(why.own_mask, (own * grads[2]).detach())
    assert abs(why.logit - log_odds(out, 1).item()) < 1e-4
    keep = everything.clone()
    keep[why.edge_mask.topk(why.without["edges"]).indices] = False
    assert abs(why.without["logit"] - log_odds(score(x, mask, keep), 1).item()) < 1e-4
    with pytest.raises(weft.Refused, match="edge 900: the edges have the numbers"):
        run.explain(edge=900)


def linear(n, out):
    return nn.Linear(n, out)


class OwnEdges(nn.Module):
    """Rows of edges by two convolutions; embed passes messages, and score reads the rows of both ends."""

    def __init__(self, features=F, outputs=C):
        super().__init__()
        self.first, self.second, self.skip = SAGEConv(features, 8), SAGEConv(8, 8), linear(features, 5)
        self.last = nn.Sequential(linear(2 * 8 + 5 + 4, 8), nn.ReLU(), linear(8, outputs))

    def embed(self, x, edge_index, _attr):
        h = self.first(x, edge_index).relu()
        return self.second(h, edge_index), self.skip(x)

    def score(self, rows, edge_index, attr):
        h, x = rows
        return self.last(torch.cat([h[edge_index[0]], h[edge_index[1]], x[edge_index[0]], attr], 1))

    def forward(self, x, edge_index, edge_attr):
        return self.score(self.embed(x, edge_index, edge_attr), edge_index, edge_attr)


class OwnStates(OwnEdges):
    """States of edges pass through two layers, as in MeshGraphNet, and are the output with attention over
    them."""

    def __init__(self, features=F, outputs=C):
        super().__init__()
        self.first, self.second = linear(2 * features + 4, 8), linear(8 + 8 + 8, 8)
        self.node, self.weight = linear(8, 8), linear(8, 1)
        self.last = linear(8, outputs)

    def state(self, x, edge_index, attr):
        return torch.cat([x[edge_index[0]], x[edge_index[1]], attr], 1)

    def embed(self, x, edge_index, attr):
        e = self.first(self.state(x, edge_index, attr)).tanh()
        h = self.node(torch.zeros(x.size(0), 8, dtype=x.dtype).index_add(0, edge_index[1], e)).tanh()
        return x, h

    def score(self, rows, edge_index, attr):
        x, h = rows
        e = self.first(self.state(x, edge_index, attr)).tanh()
        e = self.second(torch.cat([h[edge_index[0]], h[edge_index[1]], e], 1)).relu()
        return self.last(e * self.weight(h[edge_index[1]]).sigmoid())


def labelled_edges(data, seed=2):
    rng = np.random.default_rng(seed)
    label, split = rng.integers(0, C, data.num_edges), rng.integers(0, 3, data.num_edges)
    return weft.Graph(
        np.asarray(data.edge_index),
        data.x.numpy(),
        edge_attr=data.edge_attr.numpy(),
        edge_y=label,
        edge_split=split,
    )


@pytest.mark.parametrize("net", [OwnEdges, OwnStates])
def test_an_edge_of_an_own_module(net, tmp_path):
    """The score of an edge of a module whose forward returns rows of edges; and those of new edges."""
    torch.manual_seed(3)
    data = graph(edge_attr=True)
    settings = {"task": "edge", "epochs": 4, "lr": 0.05, "progress": False}
    run = weft.train(labelled_edges(data), model=net(), **settings)
    module, e = copy.deepcopy(run.module()).double().eval(), 17
    attr, ends = data.edge_attr.double(), data.edge_index
    for steps in (0, 3):
        why = run.explain(edge=e, **{"class": "1"} | ({"steps": steps} if steps else {}))
        x, own = data.x.double(), attr[[e]]
        want = [torch.zeros_like(x), torch.zeros_like(own)]
        points = [1.0] if not steps else [(k + 0.5) / steps for k in range(steps)]
        for at in points:
            leaves = [(at * tensor).clone().requires_grad_() for tensor in (x, own)]
            z = module.score(module.embed(leaves[0], ends, attr), ends[:, [e]], leaves[1])[0]
            for into, tensor, grad in zip(want, (x, own), torch.autograd.grad(log_odds(z, 1), leaves)):
                into += tensor * grad / len(points)
        close(why.node_mask, want[0])
        close(why.own_mask, want[1][0])
        if net is OwnEdges:  # PyG masks the messages of its convolutions
            masked = torch.zeros(data.num_edges, dtype=torch.float64)
            for at in points:
                mask = torch.full_like(masked, at).requires_grad_()
                set_masks(module, mask, ends, apply_sigmoid=False)
                z = module.score(module.embed(data.x.double(), ends, attr), ends[:, [e]], attr[[e]])[0]
                masked += torch.autograd.grad(log_odds(z, 1), mask)[0] / len(points)
                clear_masks(module)
            close(why.edge_mask, masked)
    out = module.score(module.embed(data.x.double(), ends, attr), ends, attr).detach()
    assert abs(why.logit - log_odds(out[e], 1).item()) < 1e-5
    keep = torch.ones(data.num_edges, dtype=torch.bool)
    keep[why.edge_mask.topk(why.without["edges"]).indices] = False
    rows = module.embed(data.x.double(), ends[:, keep], attr[keep])
    assert (
        abs(why.without["logit"] - log_odds(module.score(rows, ends[:, [e]], attr[[e]])[0], 1).item()) < 1e-5
    )
    new = torch.stack([torch.arange(5, 35), torch.arange(V - 1, V - 31, -1)])
    features = torch.linspace(-1, 1, 120).reshape(30, 4)
    lines = [",".join(map(str, [*pair.tolist(), *row.tolist()])) for pair, row in zip(new.T, features)]
    (tmp_path / "new.csv").write_text("\n".join(["source,target,a,b,c,d", *lines]) + "\n")
    rows = module.embed(data.x.double(), ends, attr)
    exact = module.score(rows, new, features.double()).detach().numpy()
    stages = [{"parallel": "pipeline=2", "chunks": 1}] if net is OwnEdges else []  # which has two layers
    for mesh in ({}, {"parallel": "graph=2"}, *stages):
        got = run.predict(output="logits", add_edges=tmp_path / "new.csv", edge_features="a,b,c,d", **mesh)
        assert got == pytest.approx(exact, abs=1e-5)
