"""The time of a pass of weft.compile beside that of an epoch of weft.train, of the same module in one
process.

Both are called in turn, and the first of each round is left out: it computes what others keep. The epochs
are without their own loss and step, and evaluate nothing. What PyTorch's loss takes is told apart.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
import new_graphs
import weft
from torch import nn
from torch_geometric.nn import SAGEConv


class Net(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        widths = [features, hidden, hidden, classes]
        self.layers = nn.ModuleList(SAGEConv(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            x = F.relu(layer(x, edge_index))
        return self.layers[-1](x, edge_index)


def main() -> None:
    if "--new-graphs" in sys.argv:
        new_graphs.main()
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--new-graphs", action="store_true", help=new_graphs.__doc__)
    parser.add_argument("--vertices", type=int, default=60_000)
    parser.add_argument("--degree", type=int, default=15)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--classes", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    v = options.vertices
    edges, x = torch.randint(v, (2, v * options.degree)), torch.randn(v, 128)
    print(
        f"SAGE 3 × {options.hidden}, {v:,} vertices, {v * options.degree:,} edges, medians of "
        f"{options.rounds} rounds"
    )
    for classes in options.classes:
        y = torch.randint(classes, (v,))
        graph = weft.Graph(edge_index=edges, x=x, y=y, split="random:60/20/20")
        module = Net(128, options.hidden, classes)
        net = weft.compile(module, graph)
        passes, losses, epochs = [], [], []
        for _ in range(options.rounds):
            for first in (True, False, False, False):
                begin = time.perf_counter()
                out = net()
                ours = time.perf_counter() - begin
                begin = time.perf_counter()
                logits = out.detach().requires_grad_()
                F.cross_entropy(logits, y).backward()
                loss = time.perf_counter() - begin
                begin = time.perf_counter()
                out.backward(logits.grad)
                if not first:
                    passes.append(ours + time.perf_counter() - begin)
                    losses.append(loss)
            run = weft.train(graph, model=module, epochs=4, eval_every=4, checkpoint_every=0, progress=False)
            profile = json.loads((run.directory / "profile.json").read_text())
            loss_and_step = profile["workers"][0]["rest"]["compute"]
            epochs += [seconds - loss_and_step for seconds in run.summary["epoch_seconds"][1:]]
        one, epoch, outside = map(statistics.median, (passes, epochs, losses))
        print(
            f"{classes} outputs: a pass {1e3 * one:.0f} ms, an epoch of weft.train {1e3 * epoch:.0f} ms, "
            f"ratio {one / epoch:.2f}; PyTorch's loss {1e3 * outside:.0f} ms"
        )


if __name__ == "__main__":
    main()
