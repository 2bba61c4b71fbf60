"""What a new graph costs in a net that is compiled without a graph, beside an unchanged graph and PyTorch.

A step is a forward and a backward pass, of molecules also a step of Adam. All cases of a table take turns.
The first step of each turn is left out. Figures are medians of steps, in milliseconds: by the clock, and of
the processors, of Python and of the program together. All compute with one thread for each worker.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
import weft
from models import Model
from own import MeshGraphNet
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import BatchNorm, GINEConv, global_add_pool
from weft import _calls

FEATURES = 8  # of vertices
ATTRIBUTES = 4  # of edges


def mesh(rows: int, columns: int, degree: int) -> Data:
    """Edges from the nearest of 24 vertices around each one, on a grid that is shaken anew each time."""
    count = rows * columns
    row, column = torch.arange(count) // columns, torch.arange(count) % columns
    pos = torch.stack([row, column], 1) + 0.8 * torch.rand(count, 2)
    around = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if i or j]
    near = torch.stack([(row + i) * columns + column + j for i, j in around], 1)
    out = torch.stack(
        [(row + i < 0) | (row + i >= rows) | (column + j < 0) | (column + j >= columns) for i, j in around], 1
    )
    near = near.clamp(0, count - 1)
    apart = (pos[near] - pos[:, None]).square().sum(2).masked_fill(out, torch.inf)
    source = near.gather(1, apart.topk(degree, largest=False).indices).reshape(-1)
    ends = torch.stack([source, torch.arange(count).repeat_interleave(degree)])
    return Data(
        x=torch.randn(count, FEATURES), edge_index=ends, edge_attr=torch.randn(ends.shape[1], ATTRIBUTES)
    )


class Molecules(nn.Module):
    """GINE as PyTorch Geometric's examples for ZINC have it, on features in place of embeddings."""

    def __init__(self, layers: int = 5, width: int = 64) -> None:
        super().__init__()
        self.atom, self.bond = nn.Linear(FEATURES, width), nn.Linear(ATTRIBUTES, width)
        self.convs = nn.ModuleList(
            GINEConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))
            for _ in range(layers)
        )
        self.norms = nn.ModuleList(BatchNorm(width) for _ in range(layers))
        self.out = nn.Sequential(nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, 1))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:
        x, edge_attr = self.atom(x), self.bond(edge_attr)
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x, edge_index, edge_attr)))
        return self.out(global_add_pool(x, batch))


def molecule(atoms: int) -> Data:
    """A tree with a ring for each nine atoms, and each bond in both directions."""
    to = torch.arange(1, atoms)
    tree = torch.stack([(to - 1 - torch.randint(0, 3, (atoms - 1,))).clamp(0), to])
    start = torch.randint(0, atoms - 5, (atoms // 9,))
    bonds = torch.cat([tree, torch.stack([start, start + 5])], 1)
    ends = torch.cat([bonds, bonds.flip(0)], 1)
    return Data(
        x=torch.randn(atoms, FEATURES),
        edge_index=ends,
        edge_attr=torch.randn(len(bonds[0]), ATTRIBUTES).repeat(2, 1),
        y=torch.randn(1, 1),
    )


@dataclass
class Case:
    """What is measured: a step for each graph of a turn, the first of which is left out."""

    name: str
    step: Callable[[Data], object]
    graphs: Callable[[], Iterator[Data]]
    beside: str = ""  # the case that its ratio is of
    least: str = ""  # what is aimed at
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def processor_time() -> float:
    """The time of processors that Python and the program have taken."""
    pid = _calls.program().process.pid
    return time.process_time() + time.clock_gettime((~pid << 3) | 2)  # the clock of clock_getcpuclockid


def measure(title: str, cases: list[Case], rounds: int) -> None:
    """Prints a table of the cases, which take turns."""
    for _ in range(rounds):
        for case in cases:
            for k, data in enumerate(case.graphs()):
                wall, processor = time.perf_counter(), processor_time()
                case.step(data)
                if k > 0:
                    case.wall.append(1e3 * (time.perf_counter() - wall))
                    case.processor.append(1e3 * (processor_time() - processor))
    found = {case.name: [statistics.median(one) for one in (case.wall, case.processor)] for case in cases}
    print(f"\n{title}")
    print(f"{'':<36}{'ms':>9}{'processor':>11}{'ratio':>8}{'processor':>11}  beside: aim")
    for case in cases:
        wall, processor = found[case.name]
        line = f"{case.name:<36}{wall:>9.1f}{processor:>11.1f}"
        if case.beside:
            ratios = [a / b for a, b in zip(found[case.name], found[case.beside])]
            line += f"{ratios[0]:>8.2f}{ratios[1]:>11.2f}  {case.beside}: {case.least}"
        print(line, flush=True)


def passes(module: nn.Module) -> Callable[[Data], object]:
    """A step of both passes."""

    def step(data: Data) -> None:
        module(data.x, data.edge_index, data.edge_attr).square().mean().backward()
        module.zero_grad()

    return step


def meshes(title: str, model: Model, shape: tuple[int, int, int], steps: int, rounds: int) -> None:
    """The table of a MeshGraphNet on meshes.

    Args:
        shape: rows and columns of the grid, and how many edges lead to each vertex.
        steps: how many are measured in a turn.
    """
    rows, columns, degree = shape
    module = MeshGraphNet(model, FEATURES, ATTRIBUTES, 2)
    one = mesh(*shape)

    def same() -> Iterator[Data]:
        yield from [one] * (1 + steps)

    def edges() -> Iterator[Data]:
        for _ in range(1 + steps):
            made = mesh(*shape)
            yield Data(x=one.x, edge_index=made.edge_index, edge_attr=one.edge_attr)

    def new() -> Iterator[Data]:
        for k in range(1 + steps):
            yield mesh(rows + k % 2, columns - k % 2, degree)

    small = rows * columns < 1000
    cases = [Case("PyTorch", passes(module), new)]
    for parallel, aims in (("graph=1", "1.15 1.15"), ("graph=2", "1.2 1.3")):
        own = [f"{parallel}, {what}" for what in ("same graph", "new edges", "new graph")]
        for name, graphs, aim in zip(own, (same, edges, new), ("", *aims.split())):
            net = weft.compile(module, parallel=parallel, threads=1)
            beside = "PyTorch" if small else own[0] * (name != own[0])
            cases.append(Case(name, passes(net), graphs, beside, "3 ms more" if small else aim))
    measure(title, cases, rounds)


def molecules(title: str, graphs: int, atoms: int, rounds: int) -> None:
    """The table of batches of molecules, which are drawn anew for each turn."""
    module, all_graphs = Molecules(), [molecule(atoms) for _ in range(graphs)]

    def batches() -> Iterator[Data]:
        order = torch.randperm(graphs).tolist()
        for at in range(0, graphs, 32):
            yield Batch.from_data_list([all_graphs[k] for k in order[at : at + 32]])

    def training(net: nn.Module) -> Callable[[Data], object]:
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

        def step(data: Data) -> None:
            F.mse_loss(net(data.x, data.edge_index, data.edge_attr, data.batch), data.y).backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    cases = [Case("PyTorch Geometric", training(module), batches)]
    for parallel in ("graph=1", "graph=2"):
        net = weft.compile(module, parallel=parallel, threads=1)
        cases.append(Case(parallel, training(net), batches, "PyTorch Geometric", "1"))
    measure(title, cases, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--new-graphs", action="store_true", required=True, help="this comparison")
    parser.add_argument("--only", choices=("mesh", "small", "molecules"), nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    chosen = options.only or ("mesh", "small", "molecules")
    if "small" in chosen:
        model = Model("meshgraphnet", hidden=32, layers=3)
        title = "MeshGraphNet 3 × 32, 100 vertices, 600 edges"
        meshes(title, model, (10, 10, 6), 40, options.rounds)
    if "molecules" in chosen:
        title = "GINE 5 × 64, a batch of 32 graphs of 300 vertices"
        molecules(title, 1000, 300, options.rounds)
    if "mesh" in chosen:
        model = Model("meshgraphnet", hidden=128, layers=8)
        title = "MeshGraphNet 8 × 128, 20,000 vertices, 200,000 edges"
        meshes(title, model, (200, 100, 10), 1, options.rounds)


if __name__ == "__main__":
    main()
