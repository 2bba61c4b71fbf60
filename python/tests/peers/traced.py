"""What tests of traced modules share: a graph in float64, and the comparison of a program with its module."""

import torch
from interpreter import Interpreter
from torch import nn

from weft._trace import trace

WIDTH, EDGE, OUT = 8, 4, 6


def graph(loops=0):
    """x, edge_index, edge_attr and edge_weight of a graph with equal edges, self loops and isolated
    vertices."""
    rng = torch.Generator().manual_seed(3)
    v, edges = 12, torch.randint(0, 10, (2, 40), generator=rng)
    edges = torch.cat(
        [edges, edges[:, :3], torch.tensor([[1, 5], [1, 5]]), torch.arange(loops).repeat(2, 1)], 1
    )
    numbers = {"generator": rng, "dtype": torch.float64}
    e = edges.shape[1]
    return (
        torch.randn(v, WIDTH, **numbers),
        edges,
        torch.randn(e, EDGE, **numbers),
        torch.rand(e, **numbers) + 0.5,
    )


def typed(loops=0):
    """The graph with a type of each edge, 0 or 1, as its features."""
    x, edges, attr, weight = graph(loops)
    return x, edges, (attr[:, :1] > 0).to(attr), weight


def perceptron(width, out):
    return nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, out))


def compare(module, call, attr=False, weight=False, loops=0, tolerance=1e-9, data=None):
    """Outputs and gradients of the module's program are the module's, on the graph `of`. Returns the
    program."""
    module = module.double().train()
    x, edge_index, edge_attr, edge_weight = data or graph(loops)
    program = trace(
        module, features=x.shape[1], edge_features=edge_attr.shape[1] if attr else None, edge_weight=weight
    )
    state = {
        name: t.detach().clone().requires_grad_(t.requires_grad)
        for name, t in module.state_dict(keep_vars=True).items()
    }
    ours = Interpreter(program.text)(state, x, edge_index, edge_attr, edge_weight)
    theirs = call(module, x, edge_index, *([edge_attr] if attr else []), *([edge_weight] if weight else []))
    assert ours.shape == theirs.shape
    assert float((ours - theirs).abs().max()) <= tolerance * float(theirs.abs().max())
    if not theirs.requires_grad:
        return program
    direction = torch.randn(theirs.shape, dtype=theirs.dtype, generator=torch.Generator().manual_seed(1))
    ours.backward(direction)
    theirs.backward(direction)
    wanted = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    most = max(float(g.abs().max()) for g in wanted.values())
    for name, gradient in wanted.items():
        ours_of = state[name].grad if state[name].grad is not None else torch.zeros_like(gradient)
        assert float((gradient - ours_of).abs().max()) <= tolerance * most, name
    return program
