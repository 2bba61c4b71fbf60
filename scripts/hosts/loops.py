#!/usr/bin/env python3
"""Epochs of a loop of weft.compile over virtual hosts, beside those of weft.train there, and beside PyTorch's
own way.

    loops.py [--hosts 4] [--rates 100mbit,1gbit] [--vertices 40000] [--degree 15] [--hidden 64] [--rounds 3]
    [--epochs 5]

SAGE of 3 layers on a uniform graph, in partitions by METIS. In each round the three run one after the other,
one process of one thread on each host; figures are medians of the epochs of all rounds but each run's first.
PyTorch has the same partitions: gloo exchanges the rows of a halo by an all-to-all, whose backward pass is
one of their gradients, and sums the gradients of the weights. Bytes are what all hosts put on their links in
an epoch, headers included, of weft.train the payload alone. Memory is what the largest process takes beyond a
Python that has its libraries, of weft with its program.

Needs root, iproute2 and Open MPI, and a Python with PyTorch and PyG: make bench-loops-of-processes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from network import Rate, between, command, hosts, result  # noqa: E402

FEATURES, CLASSES, LAYERS = 64, 16, 3


def rank(way: str, store: str, hidden: int, epochs: int) -> None:
    """One process of a loop, of which the first prints what came of it."""
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch_geometric.nn import SAGEConv

    torch.set_num_threads(1)
    torch.manual_seed(1)
    widths = [FEATURES, *[hidden] * (LAYERS - 1), CLASSES]
    layers = [SAGEConv(a, b) for a, b in zip(widths, widths[1:])]
    number, count = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
    before = status("VmRSS")

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            for layer in self.layers[:-1]:
                x = F.relu(layer(x, edge_index))
            return self.layers[-1](x, edge_index)

    if way == "weft":
        import weft

        net = weft.compile(Net(), store, parallel=f"graph={count}", threads=1)
        rows, parameters = net.vertices, list(net.parameters())
        forward, total = net, net.sum
        memory = net.memory
    else:
        parameters, rows, forward, total = by_hand(Net(), store, number, count)
    import numpy as np

    y = torch.from_numpy(np.load(f"{store}/labels.npy", mmap_mode="r")[rows.numpy()].astype(np.int64))
    vertices = total(torch.tensor(len(rows)))
    optimizer, seconds, losses, sent = torch.optim.Adam(parameters, lr=0.01), [], [], []
    for _ in range(epochs + 1):
        total(torch.zeros(1))  # all begin together
        begun, link = time.perf_counter(), on_link()
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(), y, reduction="sum") / vertices
        loss.backward()
        if way == "torch":
            summed(parameters)
        optimizer.step()
        seconds.append(time.perf_counter() - begun)
        losses.append(float(total(loss.detach())))
        sent.append(on_link() - link)
    peak = status("VmHWM") - before
    if way == "weft":
        children = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        peak += sum(status("VmHWM", int(child)) for child in children)
    each = torch.zeros(count, 2, dtype=torch.float64)
    each[number] = torch.tensor([peak, statistics.median(sent[1:])], dtype=torch.float64)
    each = total(each)
    if number == 0:
        figures = {
            "seconds": seconds[1:],
            "losses": losses,
            "memory": float(each[:, 0].max()),
            "sent": float(each[:, 1].sum()),
        }
        if way == "weft":
            figures["payload"] = sum(net.messages()["sent_bytes"])
            figures["tensors"] = max(memory()["peak_tensor_bytes"])
        print(json.dumps(figures), flush=True)
    elif way == "weft":
        net.messages()
        memory()
    if way == "torch":
        import torch.distributed as dist

        dist.barrier()
        dist.destroy_process_group()  # whose threads abort a process that ends with them


def by_hand(net, store, number, count):
    """PyTorch's own way: a process has the rows of its partition and the edges into them, and fetches a
    halo."""
    import numpy as np
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", f"tcp://{os.environ['WEFT_FIRST']}:29511", rank=number, world_size=count)
    part = torch.from_numpy(np.loadtxt(f"{store}.part", dtype=np.int64))
    indptr, sources = (np.load(f"{store}/{array}.npy", mmap_mode="r") for array in ("indptr", "indices"))
    rows = (part == number).nonzero()[:, 0]
    degrees = torch.from_numpy(np.diff(indptr))[rows]
    local = np.concatenate([sources[indptr[v] : indptr[v + 1]] for v in rows.tolist()]).astype(np.int64)
    source, target = torch.from_numpy(local), torch.repeat_interleave(torch.arange(len(rows)), degrees)
    needed = torch.unique(source)
    halo = [needed[part[needed] == worker] if worker != number else needed[:0] for worker in range(count)]
    place = torch.full((len(part),), -1)
    place[torch.cat([rows, *halo])] = torch.arange(len(rows) + sum(map(len, halo)))
    asked, lists = torch.zeros(count, dtype=torch.int64), [len(ids) for ids in halo]
    dist.all_to_all_single(asked, torch.tensor(lists))
    requested = torch.empty(int(asked.sum()), dtype=torch.int64)
    dist.all_to_all_single(requested, torch.cat(halo), asked.tolist(), lists)
    gives, takes, own = asked.tolist(), lists, place[requested]
    edge_index = torch.stack([place[source], target])

    class Halo(torch.autograd.Function):
        @staticmethod
        def forward(ctx, h):
            fetched = h.new_empty(sum(takes), h.shape[1])
            dist.all_to_all_single(fetched, h[own], takes, gives)
            return torch.cat([h, fetched])

        @staticmethod
        def backward(ctx, grad):
            back = grad.new_empty(sum(gives), grad.shape[1])
            dist.all_to_all_single(back, grad[len(rows) :].contiguous(), gives, takes)
            return grad[: len(rows)].index_add(0, own, back)

    x = torch.from_numpy(np.load(f"{store}/features.npy", mmap_mode="r")[rows.numpy()])
    with torch.no_grad():
        everything = Halo.apply(x)  # constant: fetched once

    def forward():
        h = everything
        for layer in net.layers[:-1]:
            h = Halo.apply(torch.relu(layer((h, h[: len(rows)]), edge_index)))
        return net.layers[-1]((h, h[: len(rows)]), edge_index)

    def total(tensor):
        tensor = tensor.clone()
        dist.all_reduce(tensor)
        return tensor

    return list(net.parameters()), rows, forward, total


def summed(parameters):
    """Sums gradients over the processes, all in one message."""
    import torch
    import torch.distributed as dist

    flat = torch.cat([parameter.grad.reshape(-1) for parameter in parameters])
    dist.all_reduce(flat)
    for parameter, grad in zip(parameters, flat.split([parameter.numel() for parameter in parameters])):
        parameter.grad.copy_(grad.view_as(parameter))


def status(name: str, pid: int | str = "self") -> int:
    """A size of a process, in bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    return 0


def on_link() -> int:
    """The bytes that this host has sent."""
    for line in pathlib.Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "eth0":
            return int(numbers.split()[8])
    return 0


def compare(options, folder) -> None:
    weft, store = os.environ["WEFT_PROGRAM"], str(folder / "store")

    def run(*arguments):
        subprocess.run([weft, *map(str, arguments)], check=True, capture_output=True, text=True)

    run(
        "generate",
        "uniform",
        store,
        "--vertices",
        options.vertices,
        "--degree",
        options.degree,
        "--features",
        FEATURES,
        "--classes",
        CLASSES,
    )
    run("partition", store, "-k", options.hosts, "--write-part", f"{store}.part")
    print(
        f"SAGE of {LAYERS} layers of {options.hidden}, {options.vertices:,} vertices of degree "
        f"{options.degree}, on {options.hosts} hosts; medians of {options.rounds * options.epochs} epochs"
    )
    for rate in options.rates:
        took = {"weft.train": [], "weft.compile": [], "PyTorch": []}
        seconds = {name: [] for name in took}
        with hosts(options.hosts, rate) as launcher:
            start, first = launcher(options.hosts), "10.83.0.1"
            os.environ |= {"WEFT_FIRST": first, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
            variables = [
                word
                for name in (
                    "WEFT_FIRST",
                    "GLOO_SOCKET_IFNAME",
                    "OMP_NUM_THREADS",
                    "WEFT_PROGRAM",
                    "PYTHONPATH",
                )
                for word in ("-x", name)
            ]
            for number in range(options.rounds):
                out = str(folder / f"run-{rate.text}-{number}")
                reported = result(
                    [
                        *start,
                        weft,
                        "train",
                        store,
                        "--model",
                        "sage",
                        "--layers",
                        str(LAYERS),
                        "--hidden",
                        str(options.hidden),
                        "--dropout",
                        "0",
                        "--parallel",
                        f"graph={options.hosts}",
                        "--threads",
                        "1",
                        "--epochs",
                        str(options.epochs + 1),
                        "--eval-every",
                        str(options.epochs + 1),
                        "--checkpoint-every",
                        "0",
                        "--json",
                        "--out",
                        out,
                    ]
                )
                took["weft.train"].append(
                    {
                        "sent": sum(reported["sent_bytes"]),
                        "memory": reported["peak_rss_bytes"],
                        "tensors": max(reported["peak_tensor_bytes"]),
                    }
                )
                seconds["weft.train"] += reported["epoch_seconds"][1:]
                for name, way in (("weft.compile", "weft"), ("PyTorch", "torch")):
                    reported = result(
                        [
                            *start,
                            *variables,
                            sys.executable,
                            "-B",
                            "-W",
                            "ignore",
                            __file__,
                            "--rank",
                            way,
                            store,
                            str(options.hidden),
                            str(options.epochs),
                        ]
                    )
                    took[name].append(reported)
                    seconds[name] += reported["seconds"]
        median = {name: statistics.median(times) for name, times in seconds.items()}
        print(rate.text)
        for name, reported in took.items():
            print(
                f"  {name:<13}{median[name]:8.3f} s an epoch, {median[name] / median['weft.train']:.2f} of "
                f"weft.train's; {statistics.median(one['sent'] for one in reported) / 1e6:.2f} MB sent; "
                f"{max(one['memory'] for one in reported) / 1e6:.0f} MB of memory",
                flush=True,
            )
        apart = max(
            abs(a / b - 1) for a, b in zip(took["weft.compile"][0]["losses"], took["PyTorch"][0]["losses"])
        )
        print(
            f"  losses of weft.compile and PyTorch are {apart:.1e} apart at most; payload of weft.compile "
            f"{took['weft.compile'][0]['payload'] / 1e6:.2f} MB"
        )


def main():
    if sys.argv[1:2] == ["--rank"]:
        return rank(*sys.argv[2:4], *map(int, sys.argv[4:6]))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--hosts", type=between(2, 16), default=4, metavar="N", help="2 to 16 (default 4)")
    parser.add_argument(
        "--rates",
        type=lambda text: [Rate(rate) for rate in text.split(",")],
        default="100mbit,1gbit",
        help="at which a host sends (default 100mbit,1gbit)",
    )
    for name, default in (("vertices", 40_000), ("degree", 15), ("hidden", 64), ("rounds", 3), ("epochs", 5)):
        parser.add_argument(
            f"--{name}", type=between(1, 10**9), default=default, metavar="N", help=f"(default {default})"
        )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-loops-") as folder, contextlib.suppress(BrokenPipeError):
        compare(options, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    command(main)
