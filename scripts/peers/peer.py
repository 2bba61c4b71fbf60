"""One training process of a peer: peer.py dgl|pyg|compile|torch|weft MODEL STORE WEIGHTS EPOCHS THREADS
RESULT PRECISION.

Trains on a whole store as `weft train` does, from the given weights, and writes a JSON object to RESULT:
losses, the seconds of each epoch (forward, backward and step; no evaluation), the resident memory before the
first epoch, and versions. A peer that has not enough memory ends with status 3. weft is weft.compile in the
same loop; it alone takes another precision than f32."""

import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import graphs
from models import LEARNING_RATE, MODELS, OWN

OUT_OF_MEMORY = 3


def main() -> None:
    peer, name, store, weights, epochs, threads, result, precision = sys.argv[1:]
    warnings.filterwarnings("ignore")  # PyTorch announces that sparse CSR is a beta feature
    torch.set_num_threads(int(threads))
    module = importlib.import_module(f"peer_{peer}")

    graph = graphs.read(Path(store))
    model = (MODELS | OWN)[name]
    if peer == "weft":
        net = module.build(model, Path(store), graph.columns(), load_file(weights), int(threads), precision)
    else:
        net = module.build(model, graph, load_file(weights))
    features, labels, train = (torch.from_numpy(a) for a in (graph.features, graph.labels, graph.train))
    counts = {
        "vertices": graph.structure.vertices,
        "edges": len(graph.structure.sources),
        **asdict(graph.columns()),
    }
    del graph
    resident = _resident_bytes()

    losses, seconds = run(
        net,
        rollout(net, features, model.steps) if model.steps else of_labels(net, features, labels, train),
        int(epochs),
    )
    report = {
        "graph": counts,
        "losses": losses,
        "epoch_seconds": seconds,
        "resident_bytes_before_first_epoch": resident,
        **(module.memory(net) if peer == "weft" else {}),
        "versions": {"torch": torch.__version__, **module.versions()},
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "build": torch.__config__.show(),
    }
    Path(result).write_text(json.dumps(report))


def of_labels(net, features, labels, train) -> Callable[[], torch.Tensor]:
    labels = labels[train]
    return lambda: F.cross_entropy(net(features)[train], labels)


def rollout(net, features, steps: int) -> Callable[[], torch.Tensor]:
    """Each pass gives what the next begins with; the loss is of all steps, which should come to rest."""

    def loss() -> torch.Tensor:
        x, total = features, torch.zeros(())
        for _ in range(steps):
            x = x + net(x)
            total = total + x.square().mean()
        return total

    return loss


def run(net, loss_of: Callable[[], torch.Tensor], epochs: int) -> tuple[list[float], list[float]]:
    """Trains, and returns the loss and the seconds of each epoch."""
    optimizer = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE, eps=1e-8)
    losses, seconds = [], []
    net.train()
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
        print(f"epoch {epoch}: loss {losses[-1]:.5f}, {seconds[-1]:.2f} s", file=sys.stderr)
    return losses, seconds


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    try:
        main()
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "not enough memory" in str(error):
            print(f"peer.py: out of memory: {error}", file=sys.stderr)
            sys.exit(OUT_OF_MEMORY)
        raise
