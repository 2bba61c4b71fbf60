#!/usr/bin/env python3
"""Learns the flow around a cylinder on meshes of many sizes, with weft and with PyTorch alone, and draws the
losses of both:

    python3 examples/flows/flows.py losses.svg

The flow is the potential flow of an inflow U at an angle α past a circle of radius R around c, by the circle
theorem of Milne-Thomson (1940). With z = x + iy its velocity (u, v) is exactly

    u − iv = U (exp(−iα) − exp(iα) R² / (z − c)²)

The meshes are Delaunay triangulations of random points, so it needs scipy beside PyTorch."""

import argparse
import copy
import math
import pathlib

import torch
import torch.nn.functional as F
from scipy.spatial import Delaunay
from torch import Tensor, nn

import weft

HELD_OUT = 12  # graphs
WIDTH, HEIGHT, LEFT, TOP = 640, 300, 56, 34  # of the picture
STYLES = {  # of lines: of the graphs to train on, and of those held out
    "PyTorch": ('stroke="#8fc1e8" stroke-width="7"', 'stroke="#f2c29b" stroke-width="7"'),
    "weft": ('stroke="#12507f" stroke-width="1.5"', 'stroke="#a0430a" stroke-width="1.5"'),
}
Graph = tuple[Tensor, Tensor, Tensor, Tensor]  # x, edge_index, edge_attr, and the velocity


def velocity(points: Tensor, centre: Tensor, radius: float, inflow: Tensor) -> Tensor:
    """The velocity of the flow at points, points × 2."""
    z = torch.view_as_complex((points - centre).contiguous())
    u = torch.complex(*inflow)
    made = u.conj() - u * radius**2 / z**2
    return torch.stack([made.real, -made.imag], 1)


def flow(random: torch.Generator) -> Graph:
    """A mesh of a unit square around a circle of random place and size, with random inflow."""

    def between(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=random, dtype=torch.float64)

    centre, radius = between(0.3, 0.7, 2), float(between(0.08, 0.2))
    angle, speed = between(-0.5, 0.5), between(0.5, 1.5)
    inflow = speed * torch.stack([angle.cos(), angle.sin()])
    turns = torch.arange(24) * (2 * math.pi / 24)
    around = centre + radius * torch.stack([turns.cos(), turns.sin()], 1)
    points = between(0, 1, int(between(80, 280)), 2)
    points = torch.cat([around, points[(points - centre).norm(dim=1) > 1.1 * radius]])
    corners = torch.from_numpy(Delaunay(points.numpy()).simplices).long()
    corners = corners[(corners >= len(around)).any(1)]  # without the triangles inside of the circle
    ends = torch.cat([corners[:, pair].T for pair in ([0, 1], [1, 2], [2, 0])], 1)
    ends = torch.cat([ends, ends.flip(0)], 1).unique(dim=1)
    place = points - centre
    distance = place.norm(dim=1, keepdim=True) - radius
    x = torch.cat([5 * place, 5 * distance, inflow.expand(len(points), 2)], 1)
    apart = points[ends[0]] - points[ends[1]]
    edge_attr = 10 * torch.cat([apart, apart.norm(dim=1, keepdim=True)], 1)
    return x.float(), ends, edge_attr.float(), velocity(points, centre, radius, inflow).float()


def layers(columns: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(columns, width), nn.SiLU(), nn.Linear(width, width), nn.LayerNorm(width))


class Block(nn.Module):
    """An edge's state is updated by those of its ends, and a vertex's by the sum of those of its edges."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.edge, self.vertex = layers(3 * width, width), layers(2 * width, width)

    def forward(self, h: Tensor, e: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        e = e + self.edge(torch.cat([e, h[source], h[target]], 1))
        into = torch.zeros_like(h).index_add(0, target, e)
        return h + self.vertex(torch.cat([h, into], 1)), e


class MeshNet(nn.Module):
    """An encoder, blocks and a decoder, as MeshGraphNets have them (Pfaff et al. 2021)."""

    def __init__(self, width: int = 32, blocks: int = 4) -> None:
        super().__init__()
        self.vertices, self.edges = layers(5, width), layers(3, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.out = nn.Linear(width, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        h, e, (source, target) = self.vertices(x), self.edges(edge_attr), edge_index
        for block in self.blocks:
            h, e = block(h, e, source, target)
        return self.out(h)


def losses(net: nn.Module, graphs: list[Graph], epochs: int) -> list[tuple[float, float]]:
    """The mean loss of the graphs to train on in each epoch, and of those that are held out after it."""
    trained, held_out = graphs[:-HELD_OUT], graphs[-HELD_OUT:]
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    order, found = torch.Generator().manual_seed(1), []
    for epoch in range(1, epochs + 1):
        total = held = 0.0
        for k in torch.randperm(len(trained), generator=order).tolist():
            x, edge_index, edge_attr, y = trained[k]
            loss = F.mse_loss(net(x, edge_index, edge_attr), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += float(loss.detach()) / len(trained)
        schedule.step()
        with torch.no_grad():
            for x, edge_index, edge_attr, y in held_out:
                held += float(F.mse_loss(net(x, edge_index, edge_attr), y)) / HELD_OUT
        found.append((total, held))
        print(f"epoch {epoch}: {total:.5f}, held out {held:.5f}", flush=True)
    return found


def picture(curves: dict[str, list[tuple[float, float]]]) -> str:
    """The losses over epochs on a logarithmic scale. PyTorch's lines are broad, and weft's thin upon them."""
    values = [value for curve in curves.values() for pair in curve for value in pair]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    epochs = len(next(iter(curves.values())))

    def place(epoch: float, value: float) -> str:
        across, up = epoch / epochs, (math.log10(value) - low) / (high - low)
        return f"{LEFT + across * (WIDTH - LEFT - 16):.1f},{TOP + (1 - up) * (HEIGHT - TOP - 40):.1f}"

    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        "<title>Loss over epochs of weft beside PyTorch</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for power in range(low, high + 1):
        x, y = place(0, 10.0**power).split(",")
        made.append(f'<path d="M{x} {y}H{WIDTH - 16}" stroke="#ddd"/>')
        made.append(f'<text x="{LEFT - 8}" y="{float(y) + 4:g}" text-anchor="end">{10.0**power:g}</text>')
    for epoch in range(0, epochs + 1, max(1, epochs // 5)):
        x = place(epoch, 10.0**low).split(",")[0]
        made.append(f'<text x="{x}" y="{HEIGHT - 22}" text-anchor="middle">{epoch}</text>')
    made.append(f'<text x="{WIDTH / 2:g}" y="{HEIGHT - 5}" text-anchor="middle">epochs</text>')
    legend = float(LEFT)
    for part, graphs in enumerate(("trained", "held out")):
        for system, curve in curves.items():
            line = f'fill="none" {STYLES[system][part]}'
            points = " ".join(place(epoch, pair[part]) for epoch, pair in enumerate(curve, 1))
            made.append(f'<polyline points="{points}" {line}/>')
            made.append(f'<path d="M{legend:g} 14h24" {line}/>')
            made.append(f'<text x="{legend + 30:g}" y="18">{graphs}, {system}</text>')
            legend += 145
    return "\n".join([*made, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Learns flows with weft and with PyTorch, and draws the losses."
    )
    parser.add_argument("picture", type=pathlib.Path, help="the SVG file to write")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--graphs", type=int, default=60, help="to train on")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    graphs = [flow(random) for _ in range(asked.graphs + HELD_OUT)]
    torch.manual_seed(0)
    module = MeshNet()
    nets = {"PyTorch": copy.deepcopy(module), "weft": weft.compile(module, parallel="graph=2")}
    curves = {}
    for system, net in nets.items():
        print(system)
        curves[system] = losses(net, graphs, asked.epochs)
    asked.picture.write_text(picture(curves))


if __name__ == "__main__":
    main()
