"""Loops of several processes, beside those of one process of PyTorch in float64.

mpirun -n 2 python processes.py graph=2 NAME…  a line for each loop, or those named: its name, and how far
                                               figures, weights and running statistics are apart; "bits" if a
                                               second run has the bits of the first
mpirun -n 2 python processes.py --unlike MESH  rank 1 makes other calls than rank 0, and ends before it
mpirun -n 2 python processes.py --planned      the ranks whose memory is as planned, of a loop that is given
                                               features of edges
mpirun -n 2 python processes.py --checkpoint FILE graph=2
                                               losses and norms of weights of steps after a checkpoint, which
                                               is written if it is not there, else read
mpirun -n 2 python processes.py --sends STEPS  what passes send as planned, and other rows that net.rows
                                               fetches, after so many steps
mpirun -n 2 python processes.py --raises       rank 1 raises an exception, while rank 0 waits for it
"""

from __future__ import annotations

import copy
import inspect
import mmap
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import process_calls
import torch
from process_loops import LOOPS, Loop, of_labels, sample_of, two
from process_models import PLAIN, WEIGHTED, Alone, Attention, Copies, Flows, Two, V, Weighted, X, in_double
from together import OfGroup, Together
from torch import nn
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch_geometric.nn import GCNConv

import weft


def apart(ours: list[float], theirs: list[float]) -> float:
    return max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(ours, theirs, strict=True))


def graph_of(arrays: Mapping[str, Any], module: nn.Module) -> weft.Graph:
    """The graph with what the module takes."""
    taken = inspect.signature(module.forward).parameters
    return weft.Graph(
        **{name.removesuffix("_dict"): tensor for name, tensor in arrays.items() if name in taken}
    )


def in_groups(one: Loop, module: nn.Module, groups: int) -> list[float]:
    """What a loop yields in PyTorch, in float64, with a module that it changes."""
    together = Together(groups)
    modules = [module, *(copy.deepcopy(module) for _ in range(groups - 1))]

    def group(number: int) -> list[float]:
        def net(module: nn.Module) -> Any:
            alone = Alone(module.double(), one.arrays)
            return alone if groups == 1 else OfGroup(alone, together, number)

        x = in_double(next(iter(one.arrays.values())))
        return [float(one) for one in one.run(net(modules[number]), sample_of(number, x), net)]

    with set_checkpoint_early_stop(False):  # each group computes a pass again as far as the others
        made: list[list[float]] = together.run(group)
    return made[0]


def run(name: str, mesh: str) -> None:
    loop = LOOPS[name]
    torch.manual_seed(3)
    module = loop.make()
    exact, begun = copy.deepcopy(module), copy.deepcopy(module.state_dict())
    groups = int(dict(axis.split("=") for axis in mesh.split(",")).get("samples", 1))
    if loop.by_net:
        alone = Copies(weft.compile(exact, graph_of(loop.arrays, exact)), groups)
        theirs = [float(one) for one in loop.run(alone, next(iter(loop.arrays.values())), None)]
    else:
        theirs = in_groups(loop, exact.double(), groups)
    graph, runs = graph_of(loop.arrays, module), []
    for _ in range(2):
        module.load_state_dict(begun)
        net = weft.compile(module, graph, parallel=mesh)
        x, rows = next(iter(loop.arrays.values())), net.vertices
        local = {kind: x[kind][ids] for kind, ids in rows.items()} if isinstance(rows, dict) else x[rows]
        local = sample_of(net.group, local)
        made = loop.run(
            net, local, lambda other: weft.compile(other, graph_of(loop.arrays, other), parallel=mesh)
        )
        ours = [float(one) for one in made]
        runs.append((ours, [one.detach().clone() for one in module.state_dict().values()]))
    (ours, state), (_, other) = runs
    same = runs[0][0] == runs[1][0] and all(torch.equal(a, b) for a, b in zip(state, other))
    figures = [apart(ours, theirs)]
    for now, right in ((module.parameters(), exact.parameters()), (module.buffers(), exact.buffers())):
        both = [(p.double(), q) for p, q in zip(now, right) if q.is_floating_point()]
        # a bias before a norm has no gradient but rounding
        both = [(p, q) for p, q in both if q.grad is None or q.grad.norm() > 1e-10]
        figures.append(max((float((p - q).norm() / q.norm().clamp(min=1e-3)) for p, q in both), default=0.0))
    if net.rank == 0:
        print(name, mesh, *(f"{one:.1e}" for one in figures), "bits" if same else "no", flush=True)


def net_of_rank(mesh: str, make: Callable[[], nn.Module]) -> Any:
    """A net whose processes begin with other parameters and generators, each by its rank."""
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")))
    torch.manual_seed(rank)
    module = make()
    if isinstance(module, Two):
        module.norm.num_batches_tracked.fill_(2**40 + 1 + rank)
        module.norm.running_mean.fill_(rank)
    return weft.compile(
        module, graph_of(WEIGHTED if isinstance(module, Weighted) else PLAIN, module), parallel=mesh
    )


def check_planned(net: Any, name: str = "x") -> None:
    """Raises if the memory of a loop of two passes that are given features differs from its plan."""
    planned = weft.plan(graph_of(PLAIN, net.module), model=net, passes=2, gradients=name)
    rows = net.vertices if name == "x" else net.edges
    for _ in range(3):
        inputs = {name: PLAIN[name][rows].requires_grad_()}
        a = net(**inputs)
        b = net(**inputs)  # one of the outputs of the step before is garbage now
        sum(
            one.mean() for made in (a, b) for one in (made if isinstance(made, tuple) else (made,))
        ).backward()
    took, keys = net.memory(), ("peak_tensor_bytes", "graph_bytes", "kinds", "peaks")
    unlike = {key: (took[key], planned[key]) for key in keys if took[key] != planned[key]}
    assert not unlike, unlike
    shared, most = took["shared_bytes"], planned["process_shared_bytes"][net.rank]
    assert 0 <= most - shared <= 4 * mmap.PAGESIZE, (shared, most)  # small memory may be used twice


def go_on(file: Path, mesh: str) -> None:
    """Two steps that write a checkpoint, if it is not there, and two more."""
    net = net_of_rank(mesh, lambda: Attention(0.4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    falling = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    rows, first = net.vertices, 0
    if file.exists():
        first, state, moments, schedule, drawn = torch.load(file)
        net.load_state_dict(state)
        optimizer.load_state_dict(moments)
        falling.load_state_dict(schedule)
        torch.set_rng_state(drawn)
    for step in range(first, 4):
        if step == 2 and first == 0 and net.rank == 0:
            state = net.state_dict(), optimizer.state_dict(), falling.state_dict(), torch.get_rng_state()
            torch.save((step, *state), file)
        optimizer.zero_grad()
        loss = of_labels(net, net(X[rows]))
        loss.backward()
        optimizer.step()
        falling.step()
        figures = [float(net.sum(loss.detach())), *(float(p.detach().norm()) for p in net.parameters())]
        if step >= 2 and net.rank == 0:
            print(*map(float.hex, figures), flush=True)


def sends(steps: int) -> None:
    """Steps with a sum of CLASSES numbers, and with rows of CLASSES columns of other processes."""
    net = net_of_rank("graph=2", lambda: Weighted())
    planned = weft.plan(graph_of(WEIGHTED, net.module), model=net, passes=1)["communication"]
    ids = torch.arange(net.rank, V, 3)
    for _ in range(steps):
        z = net()
        mean = net.sum(z.sum(0)) / V
        ((z - mean).square().sum() + net.rows(z, ids).square().sum()).backward()
    fetched = int(net.sum(torch.tensor(len(set(ids.tolist()) - set(net.vertices.tolist())))))
    if net.rank == 0:
        print(planned["halo"]["bytes"], planned["gradient"]["bytes"], fetched, flush=True)


def main() -> None:
    what, mesh = sys.argv[1], "graph=2"
    if what == "--unlike":
        net = net_of_rank(sys.argv[2], two(GCNConv))
        state = {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}
        check_planned(net)
        assert int(state["norm.num_batches_tracked"]) == 2**40 + 1
        assert not state["norm.running_mean"].any()
        sums = [net.sum(tensor) for tensor in state.values()]
        assert all(torch.equal(both, tensor * 2) for both, tensor in zip(sums, state.values()))
        process_calls.check(net, sys.argv[2])
        if net.rank == 0:
            for _ in range(2):
                process_calls.refused(
                    net, "rank 1 calls nothing more, as its Python ends, and rank 0 forward …"
                )
            print("as it should be", flush=True)
    elif what == "--planned":
        net = weft.compile(Flows(), graph_of(PLAIN, Flows()), parallel=mesh)
        check_planned(net, "edge_attr")
        print(net.rank, flush=True)
    elif what == "--checkpoint":
        go_on(Path(sys.argv[2]), sys.argv[3])
    elif what == "--sends":
        sends(int(sys.argv[2]))
    elif what == "--raises":
        net = net_of_rank(mesh, two(GCNConv))
        if net.rank == 1:
            raise ValueError("of rank 1")
        net()
    else:
        for name in sys.argv[2:] or LOOPS:
            run(name, what)


if __name__ == "__main__":
    main()
