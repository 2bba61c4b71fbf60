"""Labels of edges as PyTorch Geometric has them are those of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch_geometric.data")

random = np.random.default_rng(5)
EDGES = np.unique(random.integers(0, 40, (2, 300)), axis=1)[:, random.permutation(250)]
COUNT = EDGES.shape[1]
X = random.normal(size=(40, 4)).astype(np.float32)
Y = (X[EDGES[0], 0] * X[EDGES[1], 0] > 0).astype(int)
PART = np.arange(COUNT) % 5
MASKS = {"train_mask": PART < 3, "val_mask": PART == 3, "test_mask": PART == 4}
RATES, BACK = ("user", "rates", "item"), ("item", "rev_rates", "user")


def logits(of, **settings):
    return weft.train(of, task="edge", hidden=8, epochs=4, progress=False, **settings).logits


@pytest.fixture
def arrays():
    """The logits of the same as arrays."""
    return logits(weft.Graph(edge_index=EDGES, x=X, edge_y=Y, **{"edge_" + name: of for name, of in MASKS.items()}))


def tensors(of):
    return {name: torch.tensor(value) for name, value in of.items()}


def homogeneous(**fields):
    return data.Data(x=torch.tensor(X), edge_index=torch.tensor(EDGES), **tensors(fields))


@pytest.mark.parametrize("label", ["edge_label", "edge_y"])
@pytest.mark.parametrize("mask", ["edge_", ""])
def test_data(arrays, label, mask):
    masks = {mask + name: of for name, of in MASKS.items()}
    assert (logits(homogeneous(**{label: Y}, **masks)) == arrays).all()


def test_edge_label_index(arrays):
    """Labels are of the edges that it names, in their order, and the other edges have none."""
    order = random.permutation(COUNT)
    masks = {name: of[order] for name, of in MASKS.items()}
    named = homogeneous(edge_label=Y[order].astype(float), edge_label_index=EDGES[:, order], **masks)
    assert (logits(named) == arrays).all()
    some = order[:200]
    partly = homogeneous(edge_label=Y[some], edge_label_index=EDGES[:, some])
    y = np.full(COUNT, -1)
    y[some] = Y[some]
    rule = "random:60/20/20"
    assert (logits(partly, split=rule) == logits(weft.Graph(edge_index=EDGES, x=X, edge_y=y), split=rule)).all()
    for index in (np.array([[39, 0], [39, 0]]), EDGES[:, :2] * 0):
        other = homogeneous(edge_label=np.array([0, 1]), edge_label_index=index)
        with pytest.raises(weft.Refused, match="^edge_label_index: has edges that edge_index lacks, or has twice"):
            logits(other)


def test_parts_of_a_split_of_links():
    """RandomLinkSplit holds edges out, which pass messages in weft: its parts are refused by name."""
    from torch_geometric.transforms import RandomLinkSplit

    parts = RandomLinkSplit(num_val=0.2, num_test=0.2)(homogeneous())
    with pytest.raises(weft.Refused, match="^edge_label_index: "):
        logits(parts[0])


@pytest.mark.parametrize("label", ["edge_label", "edge_y"])
def test_hetero(label):
    x = {"user": X, "item": X[:, :3] + 1}
    edges = {RATES: EDGES, BACK: EDGES[::-1].copy()}
    want = logits(
        weft.Graph(
            x=x, edge_index=edges, edge_y={RATES: Y},
            **{"edge_" + name: {RATES: of} for name, of in MASKS.items()},
        )
    )
    of = data.HeteroData()
    for name, rows in x.items():
        of[name].x = torch.tensor(rows)
    for name, ends in edges.items():
        of[name].edge_index = torch.tensor(ends)
    of[RATES][label] = torch.tensor(Y)
    for name, mask in MASKS.items():
        of[RATES][name] = torch.tensor(mask)
    assert (logits(of) == want).all()
    of[BACK][label] = torch.tensor(Y)
    with pytest.raises(weft.Refused, match="have labels of edges: choose one by weft.Graph.of"):
        logits(of)
    assert (logits(weft.Graph.of(of, target=RATES)) == want).all()
    with pytest.raises(weft.Refused, match="its relations "):
        weft.Graph.of(of, target=("user", "rates", "user"))
