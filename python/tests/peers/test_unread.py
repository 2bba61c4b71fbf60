"""Modules that compute with infinite rows of vertices that no edge reads train as in PyTorch in float64, on
every mesh."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.utils import degree, scatter

import weft

V, E, FEATURES, CLASSES, WIDTH, EPOCHS = 60, 150, 5, 3, 6, 4
SINKS, ALONE = 8, 4  # vertices without out-edges, and the last ones, without edges


class Net(nn.Module):
    """Rows of sources and a function of their out-degrees, by which those of sinks would be infinite or
    NaN."""

    def __init__(self, message, back=False):
        super().__init__()
        self.message, self.back = message, back
        self.into, self.between, self.out = (
            nn.Linear(FEATURES, WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, CLASSES),
        )

    def forward(self, x, edge_index):
        source, target = edge_index.flip(0) if self.back else edge_index
        h, d = self.into(x), degree(source, x.size(0), x.dtype).unsqueeze(1)
        return self.out(scatter(self.message(self, h, d, source), target, 0, x.size(0), "sum").tanh())


class Largest(Net):
    """The largest of the rows that edges read from their own end."""

    def forward(self, x, edge_index):
        source, d = edge_index[0], degree(edge_index[0], x.size(0), x.dtype).unsqueeze(1)
        return self.out(scatter(self.message(self, self.into(x), d, source), source, 0, x.size(0), "max"))


MESSAGES = {
    "product": lambda net, h, d, s: h[s] * (1 / d)[s],
    "product of vectors": lambda net, h, d, s: (1 / d).squeeze(1)[s].unsqueeze(1) * h[s],
    "product of three": lambda net, h, d, s: h[s] * (1 / d)[s] * (h + d.log())[s].tanh(),
    "quotient": lambda net, h, d, s: h[s] / d[s],
    "root": lambda net, h, d, s: h[s] * d.pow(-0.5)[s],
    "product after a sum": lambda net, h, d, s: net.between(h[s] + (1 / d)[s]),
    "product after a difference": lambda net, h, d, s: (h[s] - d.rsqrt()[s]) * h[s].sigmoid(),
    "product of rows": lambda net, h, d, s: net.between((1 / d).expand(-1, WIDTH)[s]),
    "NaN": lambda net, h, d, s: h[s] * (d - 0.5).log()[s],
    "NaN of a root": lambda net, h, d, s: h[s] * (d - 0.5).sqrt()[s],
    "square": lambda net, h, d, s: (h[s].tanh() - d.reciprocal()[s]).square(),
    "product with what is read elsewhere": lambda net, h, d, s: h[s] * (1 / d)[s] + h[s],
}  # fmt: skip

CASES = [
    *((name, False, None) for name in MESSAGES),
    *(("product", False, mesh) for mesh in ("graph=3", "tensor=2", "tensor=2,graph=2")),
    ("product", True, None),
]


@pytest.fixture(scope="module")
def arrays():
    random = torch.Generator().manual_seed(3)
    parts = torch.randperm(V, generator=random) % 3
    first = V - SINKS - ALONE
    ends = torch.stack(
        [
            torch.randint(first, (E,), generator=random),
            torch.randint(SINKS, V - ALONE, (E,), generator=random),
        ]
    )
    return {
        "edge_index": ends,
        "x": torch.rand(V, FEATURES, generator=random) * 2 - 1,
        "y": torch.randint(CLASSES, (V,), generator=random),
        "train_mask": parts < 2,
    }


@pytest.fixture(scope="module")
def graph(arrays):
    return weft.Graph(**arrays)


def stepped(module, arrays, lr):
    """PyTorch's losses in float64, and the module after them."""
    module = copy.deepcopy(module).double().train()
    x, optimizer, losses = arrays["x"].double(), torch.optim.SGD(module.parameters(), lr), []
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss = F.cross_entropy(
            module(x, arrays["edge_index"])[arrays["train_mask"]], arrays["y"][arrays["train_mask"]]
        )
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, module, module(x, arrays["edge_index"]).detach()


def compare(module, parallel, arrays, graph, tmp_path):
    losses, trained, logits = stepped(module, arrays, 0.3)
    assert np.isfinite(losses).all()
    run = weft.train(
        graph,
        model=module,
        parallel=parallel,
        out=tmp_path / "run",
        epochs=EPOCHS,
        optimizer="sgd",
        lr=0.3,
        checkpoint_every=0,
        progress=False,
    )
    np.testing.assert_allclose(run.history["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(run.logits, logits, atol=1e-4)
    for (name, got), want in zip(run.module().named_parameters(), trained.parameters(), strict=True):
        np.testing.assert_allclose(got.detach(), want.detach(), rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(("name", "back", "parallel"), CASES)
def test_trains_as_pytorch(name, back, parallel, arrays, graph, tmp_path):
    torch.manual_seed(5)
    compare(Net(MESSAGES[name], back), parallel, arrays, graph, tmp_path)


def test_largest_of_own_rows(arrays, graph, tmp_path):
    torch.manual_seed(5)
    compare(Largest(MESSAGES["product"]), None, arrays, graph, tmp_path)
