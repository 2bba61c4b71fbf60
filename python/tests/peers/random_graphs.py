"""Calls nets without a graph on random graphs in one process, beside PyTorch in float64, and ends such loops
at random moments.

The graphs have 0 to 500 vertices, some without edges, random edges, self loops and edges that are there
twice, or no edges; several of them are a batch. Outputs, loss and gradients are PyTorch's, and after the
first 500 graphs memory and files grow no more. Python, the program and Ctrl-C end loops, as in endings.py:
make random-graphs ARGS="[--count 10000] [--trials 17] [--seed 0]"
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import endings
import torch
import torch.nn.functional as F
from graph_models import ATTRIBUTES, WIDTH
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, global_add_pool, global_max_pool, global_mean_pool
from torch_geometric.utils import softmax

import weft
from weft import _calls

MESHES = ("graph=1", "graph=3", "tensor=2")
FIRST = 500  # graphs, after which nothing grows
GROWTH = 40.0  # megabytes of pages, which allocators keep


class Graph(NamedTuple):
    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    batch: Tensor

    def double(self) -> Graph:
        return Graph(self.x.double(), self.edge_index, self.edge_attr.double(), self.batch)


def drawn(chance: random.Random, least: int = 0, most: int = 500) -> Graph:
    """A graph, or the graphs of a batch: of few vertices as often as of many."""
    g = torch.Generator().manual_seed(chance.getrandbits(32))
    vertices = max(least, int((most + 1) ** chance.random()) - 1)
    edges = chance.choice((0, vertices // 2, vertices, 4 * vertices)) if vertices else 0
    ends = torch.randint(0, max(1, vertices), (2, edges), generator=g)
    if edges and chance.random() < 0.5:
        twice = torch.randint(0, edges, (1 + edges // 4,), generator=g)
        ends = torch.cat([ends, ends[:, twice], ends[:, :1] * 0 + chance.randrange(vertices)], 1)
    graphs = chance.choice((1, 1, 2, 5, 20))
    batch = torch.randint(0, graphs, (vertices,), generator=g).sort().values
    edges = ends.shape[1]
    x, attr = torch.randn(vertices, WIDTH, generator=g), torch.randn(edges, ATTRIBUTES, generator=g)
    return Graph(x, ends, attr, batch)


class Layers(nn.Module):  # type: ignore[misc]
    """Messages, a convolution with degrees, attention over the vertices of a graph, and poolings."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.encode, self.message = nn.Linear(WIDTH, width), nn.Linear(2 * width + ATTRIBUTES, width)
        self.norm, self.conv = nn.LayerNorm(width), GCNConv(width, width)
        self.score, self.rows, self.out = nn.Linear(width, 1), nn.Linear(width, 2), nn.Linear(3 * width, 2)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor
    ) -> tuple[Tensor, Tensor]:
        h, (source, target) = self.encode(x), edge_index
        m = F.silu(self.message(torch.cat([h[source], h[target], edge_attr], 1)))
        h = self.norm(h + torch.zeros_like(h).index_add(0, target, m))
        h = h + torch.tanh(self.conv(h, edge_index))
        share = softmax(self.score(h), batch)
        pooled = [global_mean_pool(h, batch), global_max_pool(h, batch), global_add_pool(share * h, batch)]
        return self.rows(h), self.out(torch.cat(pooled, 1))


def results(net: Callable[..., tuple[Tensor, Tensor]], parameters: list[Tensor], g: Graph) -> list[Tensor]:
    """Outputs, loss and gradients."""
    x, attr = (one.requires_grad_() for one in (g.x, g.edge_attr))
    made = net(x, g.edge_index, attr, g.batch)
    loss = sum(one.square().sum() / max(1, len(one)) for one in made)
    found = torch.autograd.grad(loss, [*parameters, x, attr], materialize_grads=True)
    return [*(one.detach() for one in made), loss.detach(), *found]


def apart(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest difference of results, of the largest number of a tensor, or of 1 if that is less."""
    shapes = [[one.shape for one in each] for each in (ours, theirs)]
    if shapes[0] != shapes[1]:
        raise SystemExit(f"the results are of {shapes[0]}, and PyTorch's of {shapes[1]}")
    differences = [
        float((a.double() - b).abs().max()) / max(1.0, float(b.abs().max()))
        for a, b in zip(ours, theirs)
        if b.numel()
    ]
    return max(differences)


def taken() -> dict[str, float]:
    """What the process and its program have now: megabytes of pages and of shared memory, and files."""
    gc.collect()
    program = _calls.program()
    program.give_back()
    pids = {"Python": os.getpid(), "program": program.process.pid}
    page = os.sysconf("SC_PAGESIZE") / 1e6
    found = {
        f"MB of {name}": int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
        for name, pid in pids.items()
    }
    found |= {f"files of {name}": len(os.listdir(f"/proc/{pid}/fd")) for name, pid in pids.items()}
    return found | {"MB shared": sum(endings.shared(os.getpid()).values()) / 1e6}


def compare(count: int, seed: int, first: int = FIRST, says: Callable[[str], None] = print) -> None:
    """Calls nets on so many graphs, and compares."""
    torch.manual_seed(seed)
    chance, module = random.Random(seed), Layers()
    exact, parameters = copy.deepcopy(module).double(), list(module.parameters())
    nets = [weft.compile(module, parallel=mesh, threads=1) for mesh in MESHES]
    optimizer, most, before, begun = torch.optim.SGD(parameters, lr=0.001), 0.0, {}, time.monotonic()
    for number in range(count):
        g, mesh = drawn(chance), number % len(MESHES)
        exact.load_state_dict(module.state_dict())
        theirs = results(exact, list(exact.parameters()), g.double())
        ours = results(nets[mesh], parameters, g)
        difference = apart(ours, theirs)
        if not difference < 2e-5:
            sizes = f"{len(g.x)} vertices, {g.edge_index.shape[1]} edges, {len(ours[1])} graphs"
            raise SystemExit(
                f"seed {seed}, graph {number}: {sizes}, {MESHES[mesh]}: apart by {difference:.1e}"
            )
        most = max(most, difference)
        for parameter, gradient in zip(parameters, ours[3:]):
            parameter.grad = gradient
        optimizer.step()
        if number + 1 == first:
            before = taken()
        if (number + 1) % FIRST == 0:
            figures = ", ".join(f"{what} {value:.0f}" for what, value in taken().items())
            says(f"{number + 1} graphs, {time.monotonic() - begun:.0f} s: apart by {most:.1e}; {figures}")
    for what, value in taken().items():
        if value - before[what] > (GROWTH if "MB" in what else 1):
            raise SystemExit(f"{what}: {before[what]:.0f} after {first} graphs, {value:.0f} after {count}")


class Loop(endings.Loop):
    """A loop over random graphs by a net without one, on one mesh after the other."""

    meshes = ("graph=2", "tensor=2")

    def __init__(self) -> None:
        super().__init__()
        chance = random.Random(1)
        self.graphs = [drawn(chance, least=2) for _ in range(30)]  # a batch norm refuses one row

    def results(self, mesh: str) -> list[Tensor]:
        self.module.train().load_state_dict(self.state)
        net, found = weft.compile(self.module, parallel=mesh), []
        for x, ends, *_ in self.graphs:
            x = F.pad(x, (0, endings.WIDTH - WIDTH))
            first, second = net(x, ends), net(2 * x, ends)
            net(x - 1, ends)
            found += [
                first.detach().clone(),
                *torch.autograd.grad((first * second).sum(), [*net.parameters()]),
            ]
        return [*found, self.module.norm.running_var.clone()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=17)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for kind in endings.KINDS:
        endings.run(kind, options.trials, options.seed, Loop)
    compare(options.count, options.seed, says=lambda line: print(line, flush=True))
