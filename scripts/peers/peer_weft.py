"""weft.compile in PyTorch's loop, on the store itself."""

from pathlib import Path

import torch
import weft
from torch import nn

import peer_pyg
from graphs import Columns
from models import Model


def build(
    model: Model,
    store: Path,
    columns: Columns,
    weights: dict[str, torch.Tensor],
    threads: int,
    precision: str,
) -> nn.Module:
    net = peer_pyg.network(model, columns)
    net.load_state_dict(weights)
    return weft.compile(net, str(store), threads=threads, precision=precision)


def memory(net: nn.Module) -> dict[str, int]:
    """The largest resident set of the program below, and the peak of its tensors."""
    below = [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]
    status = [line.split() for pid in below for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    resident = sum(1024 * int(words[1]) for words in status if words[0] == "VmHWM:")
    return {"program_peak_bytes": resident, "peak_tensor_bytes": sum(net.memory()["peak_tensor_bytes"])}


def versions() -> dict[str, str]:
    return peer_pyg.versions()
