"""What tests of explanations share: a graph, gradients by PyTorch, and modules."""

from __future__ import annotations

import copy

import torch
from torch_geometric.data import Data
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

V, F, C, VERTEX = 40, 6, 3, 7


def graph(**more):
    """A directed graph with isolated vertices, a hub and two equal edges, and no self loops."""
    rng = torch.Generator().manual_seed(5)
    edges = torch.randint(2, V - 2, (2, 120), generator=rng)
    edges = edges[:, edges[0] != edges[1]]
    hub = torch.stack([torch.arange(10, 30, 2), torch.full((10,), VERTEX)])
    edges = torch.cat([edges, hub, hub[:, :2]], 1)
    if "once" in more:  # of equal messages PyTorch's maximum divides the gradient
        edges = edges.unique(dim=1)[:, torch.randperm(len(edges.unique(dim=1).T), generator=rng)]
    x = torch.rand(V, F, generator=rng) * 3 - 1
    y = torch.randint(C, (V,), generator=rng)
    part = torch.randint(3, (V,), generator=rng)
    data = Data(x=x, edge_index=edges, y=y, train_mask=part == 0, val_mask=part == 1, test_mask=part == 2)
    if "edge_weight" in more:
        data.edge_weight = torch.rand(edges.shape[1], generator=rng) + 0.5
    if "edge_attr" in more:
        data.edge_attr = torch.rand(edges.shape[1], 4, generator=rng)
    return data


def log_odds(out, label):
    """log(p/(1 − p)) of a class."""
    others = [k for k in range(out.shape[-1]) if k != label]
    return out[..., label] - out[..., others].logsumexp(-1)


def gradients(module, data, label, steps=0, score=log_odds):
    """x · ∂score/∂x and ∂score/∂edge_mask in float64, or their integrals from zeros by midpoints."""
    module = copy.deepcopy(module).double().eval()
    extra = {k: data[k].double() for k in ("edge_weight", "edge_attr") if k in data}
    x = data.x.double()
    masks = [torch.zeros_like(x), torch.zeros(data.num_edges, dtype=torch.float64)]
    points = [1.0] if not steps else [(k + 0.5) / steps for k in range(steps)]
    for at in points:
        for which in range(2):
            features = (x * at if which == 0 else x).clone().requires_grad_()
            mask = torch.full(
                (data.num_edges,), at if which == 1 else 1.0, dtype=torch.float64, requires_grad=True
            )
            set_masks(module, mask, data.edge_index, apply_sigmoid=False)
            out = module(features, data.edge_index, **extra)[VERTEX]
            clear_masks(module)
            grads = torch.autograd.grad(score(out, label), [features, mask], allow_unused=True)
            if grads[which] is not None:
                masks[which] += grads[which] / len(points)
    return x * masks[0], masks[1]


def close(got, want):
    scale = max(1, want.abs().max().item())
    assert torch.allclose(got.double() / scale, want / scale, atol=1e-5), (got.double() - want).abs().max()
