"""Programs of random modules: chains of operations over rows of vertices and of edges."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.utils import scatter, softmax
from traced import WIDTH, compare

POINTWISE = [
    *(torch.relu, torch.tanh, torch.sigmoid, F.elu, F.silu, F.gelu, F.softplus, torch.sin, torch.neg, torch.square),
    *(lambda x: F.leaky_relu(x, 0.3), lambda x: x.abs() + 1, lambda x: x.clamp(-1, 0.7), lambda x: x.softmax(-1)),
    *(lambda x: x - x.mean(-1, keepdim=True), lambda x: F.normalize(x, dim=-1), lambda x: torch.exp(-x * x)),
    *(lambda x: torch.where(x > 0.1, x, -0.2 * x), lambda x: x.flip(-1), lambda x: x.roll(1, -1)),
    *(lambda x: x.view(-1, 2, WIDTH // 2).transpose(1, 2).reshape(-1, WIDTH), lambda x: torch.log1p(x.abs())),
    *(lambda x: torch.cat([x[:, 3:], x[:, :3]], 1), lambda x: x.view(-1, 4, 2).amax(-1).repeat(1, 2), lambda x: x / (1 + x.abs().sum(-1, True))),
]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, lambda x, y: x / (1 + y.abs()), lambda x, y: torch.where(x > y, x, y * 0.5)]


class Random(nn.Module):
    """Layers that a seed draws; each keeps the width."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.linear = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.BatchNorm1d(WIDTH), nn.Identity()])

    def draw(self, choices):
        return self.random.choice(choices)

    def chain(self, x, count):
        known = [x]
        for _ in range(count):
            kind = self.draw("pplb")
            a, b = self.draw(known), self.draw(known)
            done = self.draw(POINTWISE)(a) if kind == "p" else self.draw(self.linear)(a) if kind == "l" else self.draw(BINARY)(a, b)
            known.append(done)
        return known[-1] + known[-2]

    def forward(self, x, edge_index):
        self.random = random.Random(self.seed)
        n = x.size(0)
        for _ in range(1 + self.draw(range(2))):
            h = self.chain(x, 3)
            i, j = h[edge_index[1]], self.draw([h, x])[edge_index[0]]
            message = self.chain(self.draw(BINARY)(i, j), 3)
            if self.draw([True, False]):
                message = message * softmax(self.chain(i - j, 2), edge_index[1], num_nodes=n)
            index = edge_index[self.draw([0, 1, 1])]
            x = self.draw(self.norms)(scatter(message, index, 0, n, self.draw(["sum", "mean", "max", "min"])))
            x = self.draw(BINARY)(self.chain(x, 2), h) + x.mean(0)
        return x


@pytest.mark.parametrize("seed", range(20))
def test_random(seed):
    torch.manual_seed(seed)
    compare(Random(seed), lambda module, x, edge_index: module(x, edge_index), tolerance=1e-7)
