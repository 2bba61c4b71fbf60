"""run.explain: gradients beside PyTorch's in float64, removal beside a second graph, and planted reasons."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from explained import VERTEX, C, F, V, close, gradients, graph, log_odds
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import DummyExplainer, Explainer, Explanation
from torch_geometric.explain.metric import fidelity, unfaithfulness
from torch_geometric.nn import GATv2Conv, GCNConv, MessagePassing, SAGEConv, TransformerConv
from torch_geometric.utils import degree, softmax

import weft

NAMED = {
    "gcn": {},
    "sage": {},
    "sage-max": {"aggregation": "max"},
    "gat": {"heads": 2, "hidden": 8},
    "gatv2": {"heads": 2, "hidden": 8},
    "gin": {"norm": "layer"},
    "transformer": {"heads": 2, "hidden": 8},
    "gat-edges": {"heads": 2, "hidden": 8, "use_edge_features": True},
    "gatv2-edges": {"heads": 2, "hidden": 8, "use_edge_features": True},
    "transformer-edges": {"heads": 2, "hidden": 8, "use_edge_features": True},
    "gcn-weighted": {},
    "gcnii": {},
}


@pytest.mark.parametrize("name", NAMED)
def test_gradients_of_named_models(name):
    """Those of PyG's own layers with the run's weights, whose messages PyG's masks multiply."""
    model, _, how = name.partition("-")
    data = graph(**{{"edges": "edge_attr", "weighted": "edge_weight", "max": "once"}.get(how, "plain"): True})
    run = weft.train(data, model=model, epochs=5, lr=0.05, normalize_features="none", **NAMED[name])
    why = run.explain(VERTEX)
    assert why.validate()
    assert torch.equal(why.edge_index, data.edge_index)
    label = int(why.of)
    assert label == run.logits[VERTEX].argmax()
    nodes, edges = gradients(run.to_pyg(), data, label)
    close(why.node_mask, nodes)
    close(why.edge_mask, edges)
    assert edges.abs().max() > 0 and nodes.abs().max() > 0
    integrated = run.explain(VERTEX, steps=8)
    nodes, edges = gradients(run.to_pyg(), data, label, steps=8)
    close(integrated.node_mask, nodes)
    close(integrated.edge_mask, edges)


class Gated(MessagePassing):
    """A message function that a Linear, a product and a maximum make."""

    def __init__(self, into, out):
        super().__init__(aggr="max")
        self.lin, self.gate = nn.Linear(into, out), nn.Linear(2 * into, out)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.lin(x_j) * torch.sigmoid(self.gate(torch.cat([x_i, x_j], -1)))


class Own(nn.Module):
    def __init__(self, first, last):
        super().__init__()
        self.first, self.last = first, last

    def forward(self, x, edge_index):
        return self.last(self.first(x, edge_index).tanh(), edge_index)


class Softmax(MessagePassing):
    """Attention of one's own: a softmax for each column, of what both ends give."""

    def __init__(self, into, out):
        super().__init__(aggr="add")
        self.lin = nn.Linear(2 * into, out)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j, index, size_i):
        z = self.lin(torch.cat([x_i, x_j], -1))
        return softmax(3 * z.sigmoid(), index, num_nodes=size_i) * z


class OfColumns(MessagePassing):
    """Softmax aggregation, whose coefficients an edge's factor leaves as they are."""

    def __init__(self, into, out, shape):
        super().__init__(aggr="add")
        self.lin, self.t = nn.Linear(into, out), nn.Parameter(torch.full(shape, 2.0))

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x))

    def message(self, x_j, index, size_i):
        m = x_j.relu() + 1e-7
        return softmax(m * self.t, index, num_nodes=size_i) * m


class Normalized(nn.Module):
    """A degree of one's own, by which an edge's factor does not change."""

    def __init__(self, into, out):
        super().__init__()
        self.conv, self.lin = SAGEConv(into, out, aggr="sum"), nn.Linear(into, out)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index) * (1 + degree(edge_index[1], x.shape[0])[:, None]).rsqrt() + self.lin(
            x
        )


OWN = {
    "softmax": lambda: Own(Softmax(F, 8), Softmax(8, C)),
    "softmax aggregation": lambda: Own(OfColumns(F, 8, (8,)), OfColumns(8, C, (1,))),
    "degree": lambda: Own(Normalized(F, 8), Normalized(8, C)),
    "sage": lambda: Own(SAGEConv(F, 8), SAGEConv(8, C, aggr="max")),
    "gcn": lambda: Own(GCNConv(F, 8), GCNConv(8, C)),
    "gated": lambda: Own(Gated(F, 8), SAGEConv(8, C)),
    "gatv2": lambda: Own(GATv2Conv(F, 4, heads=2), GATv2Conv(8, C)),
    "transformer": lambda: Own(TransformerConv(F, 4, heads=2), Gated(8, C)),
}


@pytest.mark.parametrize("name", OWN)
def test_gradients_of_own_modules(name):
    torch.manual_seed(2)
    data = graph(once=True)
    run = weft.train(data, model=OWN[name](), epochs=3, lr=0.05, normalize_features="none")
    why = run.explain(VERTEX)
    nodes, edges = gradients(run.module(), data, int(why.of))
    close(why.node_mask, nodes)
    close(why.edge_mask, edges)


class RawFeatures(MessagePassing):
    """Messages are the features of edges."""

    def __init__(self, out, aggr):
        super().__init__(aggr=aggr)
        self.lin = nn.Linear(4, out)

    def forward(self, x, edge_index, edge_attr):
        return self.lin(self.propagate(edge_index, edge_attr=edge_attr, size=(x.size(0), x.size(0)))) + x.sum(
            1, keepdim=True
        )

    def message(self, edge_attr):
        return edge_attr


class LinearFeatures(MessagePassing):
    """Messages are linear in the features of edges; weft sums these before it multiplies, and counts the
    edges."""

    def __init__(self, out, aggr):
        super().__init__(aggr=aggr)
        self.lin = nn.Linear(4, out)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, edge_attr=edge_attr, size=(x.size(0), x.size(0))) + x.sum(
            1, keepdim=True
        )

    def message(self, edge_attr):
        return self.lin(edge_attr)


class OfTargets(MessagePassing):
    """Messages are rows of targets; weft multiplies these by the number of edges."""

    def __init__(self, out, aggr):
        super().__init__(aggr=aggr)
        self.lin = nn.LazyLinear(out)

    def forward(self, x, edge_index, edge_attr):
        return self.lin(self.propagate(edge_index, x=x) / (1 + degree(edge_index[1], x.size(0)))[:, None])

    def message(self, x_i):
        return x_i


class OfEdges(nn.Module):
    def __init__(self, conv, aggr):
        super().__init__()
        self.first, self.second = conv(8, aggr), conv(C, aggr)

    def forward(self, x, edge_index, edge_attr):
        return self.second(self.first(x, edge_index, edge_attr).relu(), edge_index, edge_attr)


ALONE = [(conv, aggr) for conv in (RawFeatures, LinearFeatures) for aggr in ("add", "mean", "max")]


@pytest.mark.parametrize(("conv", "aggr"), [*ALONE, (OfTargets, "add"), (OfTargets, "mean")])
def test_messages_of_edges_alone(conv, aggr):
    """A message has a factor, too, where weft takes all that is trained out of the sum."""
    torch.manual_seed(2)
    data = graph(once=True, edge_attr=True)
    run = weft.train(data, model=OfEdges(conv, aggr), epochs=3, lr=0.05, normalize_features="none")
    why = run.explain(VERTEX)
    nodes, edges = gradients(run.module(), data, int(why.of))
    close(why.node_mask, nodes)
    close(why.edge_mask, edges)
    assert edges.abs().max() > 0


@pytest.mark.parametrize("model", ["gcn", "gat", "own"])
def test_removal_is_a_second_graph(model, tmp_path):
    """The score without the strongest edges is that of the logits which are predicted on a graph without
    them."""
    data = graph(once=True)
    torch.manual_seed(3)
    run = weft.train(data, model=OWN["softmax"]() if model == "own" else model, epochs=5, lr=0.05)
    why = run.explain(VERTEX, remove=4)
    gone = why.edge_mask.topk(4).indices
    assert (why.edge_mask[gone] > 0).all() and why.without["edges"] == 4
    less = Data(x=data.x, edge_index=data.edge_index[:, ~torch.isin(torch.arange(data.num_edges), gone)])
    z = run.predict(less, output="logits", vertices=[VERTEX])[0]
    label = int(why.of)
    others = np.exp(z[[k for k in range(C) if k != label]].astype(float) - float(z[label]))
    assert why.without["logit"] == pytest.approx(-np.log(others[0] + others[1]), abs=1e-12)  # of float64 sums
    whole = run.predict(output="logits", vertices=[VERTEX])[0]
    assert (
        abs(log_odds(torch.tensor(whole), label).item() - why.logit) < 1e-5
        and why.logit != why.without["logit"]
    )


def planted(seed):
    """A class that is the sign of one column of one neighbour; that of all other neighbours is 0."""
    rng = torch.Generator().manual_seed(seed)
    n, k = 300, 5
    source = torch.stack([torch.randperm(n, generator=rng)[:k] for _ in range(n)])
    loud = torch.rand(n, generator=rng) < 0.2
    source[loud[source]] = 0  # so that each vertex has one loud neighbour
    loud[0] = False
    loud_ids = loud.nonzero()[:, 0]
    source[:, 0] = loud_ids[torch.randint(len(loud_ids), (n,), generator=rng)]
    x = torch.randn(n, 6, generator=rng)
    x[:, 2] = torch.where(loud, x[:, 2].sign() * (2 + x[:, 2].abs()), 0)
    y = (x[source[:, 0], 2] > 0).long()
    edges = torch.stack([source.T.flatten(), torch.arange(n).repeat(k)])
    return Data(x=x, edge_index=edges, y=y), source[:, 0]


def test_planted_reasons():
    """In nine of ten cases the edge, the neighbour and the column that make the class come first."""
    found = 0
    for seed in range(10):
        data, reasons = planted(seed)
        run = weft.train(data, model="sage", layers=1, epochs=100, lr=0.05, split="random:60/20/20")
        assert run.summary["test"] > 0.9
        v = int((torch.tensor(run.predictions) == data.y).nonzero()[seed])
        why = run.explain(v)
        edge = why.edge_index[:, why.edge_mask.abs().argmax()]
        vertex, column = divmod(int(why.node_mask.abs().argmax()), 6)
        found += edge.tolist() == [reasons[v], v] and vertex == reasons[v] and column == 2
    assert found >= 9


def test_planted_reasons_of_edges():
    """The class of an edge is that of the loud neighbour of its target, which comes first in nine of ten
    cases."""
    found = 0
    for seed in range(10):
        data, reasons = planted(seed)
        n = data.num_nodes
        label = data.y[data.edge_index[1]].numpy()
        made = weft.Graph(np.asarray(data.edge_index), data.x.numpy(), edge_y=label)
        run = weft.train(
            made, task="edge", model="sage", layers=1, epochs=100, lr=0.05, split="random:60/20/20"
        )
        assert run.summary["test"] > 0.9
        right = torch.tensor(run.predictions == label) & (
            torch.arange(5 * n) >= n
        )  # not the loud neighbour's own edge
        e = int(right.nonzero()[37 * seed])
        v = int(data.edge_index[1, e])
        why = run.explain(edge=e)
        edge = why.edge_index[:, why.edge_mask.abs().argmax()]
        vertex, column = divmod(int(why.node_mask.abs().argmax()), 6)
        found += edge.tolist() == [reasons[v], v] and vertex == reasons[v] and column == 2
    assert found >= 9


def test_metrics():
    """PyG's metrics take the explanation, beside its own Explainer of the same module."""
    data = graph()
    run = weft.train(data, model="gcn", epochs=5)
    why = run.explain(VERTEX)
    assert isinstance(why, Explanation) and set(why.available_explanations) == {"node_mask", "edge_mask"}
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(
        run.to_pyg(),
        algorithm=DummyExplainer(),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=config,
    )
    why.target = torch.tensor(run.predictions)
    why.prediction = torch.tensor(run.logits)
    assert all(0 <= part <= 1 for part in fidelity(explainer, why))
    assert 0 <= unfaithfulness(explainer, why) <= 1
    kept = why.threshold("topk", 5)
    assert (kept.edge_mask != 0).sum() == 5 and (kept.node_mask != 0).sum() == 5


class ReadsEdges(nn.Module):
    """Rows of vertices, or of edges, by the features of edges."""

    def __init__(self, rows):
        super().__init__()
        self.rows, self.conv, self.lin = rows, GATv2Conv(F, C, edge_dim=4), nn.Linear(2 * C, 2)

    def forward(self, x, edge_index, edge_attr):
        h = self.conv(x, edge_index, edge_attr)
        return h if self.rows == "node" else self.lin(torch.cat([h[edge_index[0]], h[edge_index[1]]], -1))


@pytest.mark.parametrize("rows", ["node", "edge", "gcn"])
def test_metrics_of_models_that_read_edges(rows):
    """PyG's metrics give the model what it reads of edges: as of the model itself, called with it."""
    data = graph(edge_attr=True, edge_weight=True)
    if rows == "gcn":
        data.edge_attr = None
    if rows == "edge":
        data.y, data.edge_y = None, torch.arange(data.num_edges) % 2
        masks = {
            f"edge_{part}_mask": np.arange(data.num_edges) % 3 == k
            for k, part in enumerate(("train", "val", "test"))
        }
        data = weft.Graph(
            edge_index=data.edge_index,
            x=data.x,
            edge_attr=data.edge_attr,
            edge_weight=data.edge_weight,
            edge_y=data.edge_y,
            **masks,
        )
    run = weft.train(data, model="gcn" if rows == "gcn" else ReadsEdges(rows), epochs=3, progress=False)
    why = run.explain(edge=VERTEX) if rows == "edge" else run.explain(VERTEX)
    assert why._model_args == (["edge_weight"] if rows == "gcn" else ["edge_attr"])
    module = run.to_pyg() if rows == "gcn" else run.module().eval()
    config = {
        "mode": "multiclass_classification",
        "task_level": "edge" if rows == "edge" else "node",
        "return_type": "raw",
    }
    explainer = Explainer(
        module,
        algorithm=DummyExplainer(),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=config,
    )
    if rows == "edge":
        with pytest.raises(
            weft.Refused,
            match=r"a forward hook of the layer, run.module\(\).get_submodule\('conv'\), has its rows",
        ):
            run.embeddings(of="conv")
        kept = []
        handle = module.get_submodule("conv").register_forward_hook(lambda _, inputs, rows: kept.append(rows))
        out = module(why.x, why.edge_index, why.edge_attr)
        handle.remove()
        assert kept[0].shape == (V, C) and np.allclose(out.detach(), run.logits, atol=1e-5)
    more = {key: why[key] for key in why._model_args}
    masked = explainer.get_masked_prediction(why.x, why.edge_index, why.node_mask, why.edge_mask, **more)[
        why.index
    ].softmax(-1)
    own = module(why.x, why.edge_index, **more)[why.index].softmax(-1)
    want = 1 - np.exp(-float((masked * (masked.log() - own.log())).sum()))
    assert unfaithfulness(explainer, why) == pytest.approx(want, abs=1e-5)


def test_graphs_of_several_types():
    rng = torch.Generator().manual_seed(1)
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(20, 4, generator=rng), torch.randn(8, 3, generator=rng)
    data["paper"].y = torch.randint(2, (20,), generator=rng)
    data["author", "writes", "paper"].edge_index = torch.stack(
        [torch.randint(8, (60,), generator=rng), torch.randint(20, (60,), generator=rng)]
    )
    data["paper", "cites", "paper"].edge_index = torch.randint(20, (2, 40), generator=rng)
    run = weft.train(data, model="rgcn", epochs=5, split="random:60/20/20")
    why = run.explain(3)
    why.validate_masks()
    assert why["author"].node_mask.shape == (8, 3) and why["author"].node_mask.abs().max() > 0
    for kind in why.edge_types:
        assert torch.equal(why[kind].edge_index, data[kind].edge_index)
        assert why[kind].edge_mask.abs().max() > 0


@pytest.mark.parametrize(("model", "vertex"), [("mlp", VERTEX), ("gcn", 0)])
def test_no_edge_counts(model, vertex):
    """A model that reads no edges, and a vertex without any: edge_mask is zeros."""
    data = graph()
    why = weft.train(data, model=model, hidden=8, epochs=2, progress=False).explain(vertex)
    assert why.edge_mask.tolist() == [0.0] * data.num_edges
    assert why.node_mask.count_nonzero() > 0


def test_refusals(tmp_path):
    data = graph()
    run = weft.train(data, model="gcn", epochs=1)
    with pytest.raises(weft.Refused, match="vertex 99: the vertices have the numbers 0 to 39"):
        run.explain(99)
    with pytest.raises(weft.Refused, match="class 5: the classes have the numbers 0 to 2"):
        run.explain(1, **{"class": 5})
    with pytest.raises(TypeError, match="unknown keyword vertices"):
        run.explain(1, vertices=3)
    weft.train(data, model="gcn", epochs=1, out=tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    record["store"] = str(tmp_path / "gone")
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    with pytest.raises(weft.Refused, match="the graph of the run is not there any more"):
        weft.load(tmp_path / "run").explain(1)
