"""Modules as their authors write them, which train as in PyTorch: TRAIN. `test_idioms` trains each."""

from __future__ import annotations

import functools
import math
import types

import numpy as np
import torch
import torch.nn.functional as F
import torch_geometric.nn as g
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch_geometric.utils import add_self_loops, degree, softmax

V, E, WIDTH, CLASSES = 17, 50, 6, 3


def mean(h, e):
    """The mean over the edges into each vertex."""
    out = torch.zeros_like(h).index_add(0, e[1], h[e[0]])
    return out / degree(e[1], h.size(0), dtype=h.dtype).clamp(min=1).unsqueeze(-1)


class Net(nn.Module):
    """x, two layers of own weights, and between them what an idiom does. make(self) adds its parts."""

    def __init__(self, idiom, make=None):
        super().__init__()
        self.idiom, self.into, self.out = idiom, nn.Linear(WIDTH, 5), nn.Linear(5, CLASSES)
        self.w = nn.Parameter(torch.randn(5, 5) / 2)
        if make:
            make(self)

    def forward(self, x, edge_index):
        h = torch.tanh(mean(self.into(x), edge_index))
        return self.out(self.idiom(self, h, edge_index))


class Of(Net):
    """Whose forward is the idiom."""

    def forward(self, x, edge_index):
        return self.idiom(self, x, edge_index)


class Teacher(nn.Module):
    """Which decides by itself that it is not trained."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(5, 5)

    @torch.inference_mode()
    def forward(self, h):
        return self.lin(h)


class Settings:
    """An object beside a module."""

    step = 0

    def __init__(self):
        self.seen, self.scale = [], 2.0


def partial_of(s):
    s.f = functools.partial(F.linear, weight=s.w)


def closure_of(s):
    s.f = lambda z: z @ s.w


def closure_of_tensor(s):
    w = s.w
    s.f = lambda z: z @ w


def closures_in_containers(s):
    w = s.w
    s.fs = {"first": [lambda z: z @ w, torch.tanh], "then": (lambda z: z * w.sum(),)}


def default_argument(s):
    def f(z, w=s.w):
        return z @ w

    s.f = f


def low_rank(s):
    """LoRA: a frozen layer with a forward that adds the product of two small matrices."""
    s.layer, s.down, s.up = (
        nn.Linear(5, 5).requires_grad_(False),
        nn.Parameter(torch.randn(2, 5)),
        nn.Parameter(torch.randn(5, 2)),
    )
    before = s.layer.forward

    def forward(z):
        return before(z) + z @ s.down.T @ s.up.T / 2

    s.layer.forward = forward


def bound_method(s):
    s.layer = nn.Linear(5, 5)
    w = s.w
    s.layer.forward = types.MethodType(lambda self, z: F.linear(z @ w, self.weight, self.bias), s.layer)


def forward_hook(s):
    s.layer = nn.Linear(5, 5)
    s.layer.register_forward_hook(lambda module, inputs, out: out + inputs[0] @ s.w)


def forward_pre_hook(s):
    w = s.w
    s.layer = nn.Linear(5, 5)
    s.layer.register_forward_pre_hook(lambda module, inputs: (inputs[0] @ w,))


def hook_that_looks(s):
    s.layer, s.seen = nn.Linear(5, 5), {}
    s.layer.register_forward_hook(lambda module, inputs, out: s.seen.update(out=out))


def hooks_on_messages(s):
    w = s.w
    s.layer = g.SAGEConv(5, 5)
    s.layer.register_message_forward_hook(lambda module, inputs, out: out @ w)
    s.layer.register_propagate_forward_hook(lambda module, inputs, out: out + 1)


def helper_object(s):
    s.helper = types.SimpleNamespace(weight=s.w, scale=0.5)


def tied(s):
    s.again = nn.Linear(5, 5, bias=False)
    s.again.weight = s.w


def masked(s):
    s.register_buffer("mask", torch.ones(5, 5).tril())


def layers_of(count, make):
    def applied(s):
        s.layers = nn.ModuleList(make() for _ in range(count))

    return applied


def chain(s, h, e):
    for layer in s.layers:
        h = h + F.relu(layer(h))
    return h


def named_parts(s):
    s.parts = nn.ModuleDict({"query": nn.Linear(5, 5), "key": nn.Linear(5, 5), "value": nn.Linear(5, 5)})
    s.scale = 5**-0.5


def attention(s, h, e):
    q, k, v = (s.parts[name](h) for name in ("query", "key", "value"))
    score = (q[e[1]] * k[e[0]]).sum(-1, keepdim=True) * s.scale
    return torch.zeros_like(v).index_add(0, e[1], softmax(score, e[1], num_nodes=h.size(0)) * v[e[0]])


def keeps_attention(s, h, e):
    s.alpha = torch.sigmoid(h @ s.w)  # for who looks at it later
    s.shown = {"alpha": s.alpha.detach(), "most": s.alpha.max()}
    return h * s.alpha


def fills_a_list(s, h, e):
    s.hidden = []
    for _ in range(2):
        h = torch.tanh(h @ s.w)
        s.hidden.append(h)
    return torch.stack(s.hidden).sum(0)


def clears_what_it_kept(s, h, e):
    s.tmp = h @ s.w
    out = s.tmp * 2
    s.tmp = None
    return out


def cached_norm(s, h, e):
    if s.norm is None:
        s.norm = degree(e[1], h.size(0), dtype=h.dtype).clamp(min=1).rsqrt()
    return h @ s.w * s.norm.view(-1, 1)


def in_inference_mode(s, h, e):
    with torch.inference_mode():
        shown = h @ s.w
    return h + shown


def enabled_again(s, h, e):
    with torch.no_grad():
        a = h @ s.w
        with torch.enable_grad():
            b = h @ s.w.sin()
    return h + a + b


def switched_off(s, h, e):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    a = h @ s.w
    torch.set_grad_enabled(before)
    return h + a


@torch.no_grad()
def _without(h, w):
    return h @ w


def straight_through(s, h, e):
    soft = torch.sigmoid(h @ s.w)
    return (soft > 0.5).to(h) + soft - soft.detach()


def in_place(s, h, e):
    z = (h @ s.w).clone()
    z[:, 1:3] *= 2
    z.add_(h)
    z[:, 0] = h[:, 1]
    return z.tanh_()


def masked_in_place(s, h, e):
    z = h @ s.w
    z = z.masked_fill(z < 0, -0.5)
    z[z > 1] = 1.0
    return z


def sizes(s, h, e):
    return h @ s.w * math.sqrt(2) / h.size(0) * e.size(1) + h.new_zeros(h.size(0), 5)


def stochastic_weight(s, h, e):
    return h @ (s.w / s.w.norm(dim=0, keepdim=True).clamp(min=1e-6))


def gru_of_layers(s, h, e):
    for _ in range(2):
        h = s.cell(mean(h, e), h)
    return h


def scheduled(s, h, e):
    return h * (1 - s.beta) + s.beta * (h @ s.w)


def checkpointed(s, h, e):
    return torch.utils.checkpoint.checkpoint(lambda z: torch.tanh(z @ s.w), h, use_reentrant=False)


class Zero(nn.Module):
    def forward(self, w):
        return w - w.mean()


def set_(name, value):
    return lambda s: setattr(s, name, value() if callable(value) else value)


def old_weight_norm(s):
    s.layer = nn.utils.weight_norm(nn.Linear(5, 5))


def with_loops(s, x, e):
    e, _ = add_self_loops(e, num_nodes=x.size(0))
    return s.out(mean(s.into(x), e))


class Walk(g.MessagePassing):
    """Personalised PageRank of a hidden row, with a learned weight of each step (GPR-GNN)."""

    def __init__(self):
        super().__init__(aggr="add")
        self.gamma = nn.Parameter(torch.tensor([0.5, 0.3, 0.2]))

    def forward(self, h, e):
        out = h * self.gamma[0]
        for k in range(2):
            h = self.propagate(e, x=h)
            out = out + self.gamma[k + 1] * h
        return out


def shows_in_a_global(s, h, e):
    SHOWN["rows"] = h.detach()
    return h @ s.w


SHOWN = {}


class OnlyTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.norm, self.out = (
            g.GCNConv(WIDTH, 5, cached=True),
            g.BatchNorm(5),
            g.GCNConv(5, CLASSES),
        )

    def forward(self, data):
        return self.out(self.norm(self.into(data.x, data.edge_index)).relu(), data.edge_index)


TRAIN = {
    "LINKX": lambda: g.LINKX(V, WIDTH, 5, CLASSES, 1),
    # what functions hold
    "partial": lambda: Net(lambda s, h, e: s.f(h), partial_of),
    "closure of the module": lambda: Net(lambda s, h, e: s.f(h), closure_of),
    "closure of a parameter": lambda: Net(lambda s, h, e: s.f(h), closure_of_tensor),
    "closures in containers": lambda: Net(
        lambda s, h, e: s.fs["then"][0](s.fs["first"][0](h)), closures_in_containers
    ),
    "default argument": lambda: Net(lambda s, h, e: s.f(h), default_argument),
    "low rank": lambda: Net(lambda s, h, e: s.layer(h), low_rank),
    "bound method": lambda: Net(lambda s, h, e: s.layer(h), bound_method),
    "forward hook": lambda: Net(lambda s, h, e: s.layer(h), forward_hook),
    "forward pre-hook": lambda: Net(lambda s, h, e: s.layer(h), forward_pre_hook),
    "hook that looks": lambda: Net(lambda s, h, e: s.layer(h), hook_that_looks),
    "hooks on messages": lambda: Net(lambda s, h, e: s.layer(h, e), hooks_on_messages),
    "helper object": lambda: Net(lambda s, h, e: h @ s.helper.weight * s.helper.scale, helper_object),
    "list of parameters": lambda: Net(lambda s, h, e: h @ s.ws[0], lambda s: setattr(s, "ws", [s.w])),
    "function of a class": lambda: Net(
        lambda s, h, e: s.acts[1](h @ s.w), set_("acts", lambda: [F.relu, torch.tanh])
    ),
    # parameters
    "tied": lambda: Net(lambda s, h, e: s.again(h) + h @ s.w, tied),
    "parameter list": lambda: Net(
        lambda s, h, e: h @ s.ps[0] + s.ps[1],
        set_("ps", lambda: nn.ParameterList([torch.randn(5, 5), torch.randn(5)])),
    ),
    "parameter dict": lambda: Net(
        lambda s, h, e: h @ s.ps["a"] + s.ps["b"],
        set_("ps", lambda: nn.ParameterDict({"a": torch.randn(5, 5), "b": torch.randn(5)})),
    ),
    "masked weight": lambda: Net(lambda s, h, e: h @ (s.w * s.mask), masked),
    "frozen layer": lambda: Net(
        lambda s, h, e: s.layer(h), set_("layer", lambda: nn.Linear(5, 5).requires_grad_(False))
    ),
    "weight norm": lambda: Net(
        lambda s, h, e: s.layer(h), set_("layer", lambda: parametrizations.weight_norm(nn.Linear(5, 5)))
    ),
    "weight norm of old": lambda: Net(lambda s, h, e: s.layer(h), old_weight_norm),
    "own parametrization": lambda: Net(
        lambda s, h, e: h @ s.w, lambda s: parametrize.register_parametrization(s, "w", Zero())
    ),
    "normalised weight": lambda: Net(stochastic_weight),
    "exponent of a scale": lambda: Net(
        lambda s, h, e: h * s.t.exp(), lambda s: setattr(s, "t", nn.Parameter(torch.zeros(1)))
    ),
    "scalar parameter": lambda: Net(
        lambda s, h, e: (1 + s.eps) * h + mean(h, e),
        lambda s: setattr(s, "eps", nn.Parameter(torch.tensor(0.1))),
    ),
    "softmax of weights": lambda: Net(
        lambda s, h, e: s.a.softmax(0)[0] * h + s.a.softmax(0)[1] * mean(h, e),
        lambda s: setattr(s, "a", nn.Parameter(torch.zeros(2))),
    ),
    # parameters without a gradient
    "detached": lambda: Net(lambda s, h, e: h + (h @ s.w).detach()),
    "no_grad": lambda: Net(lambda s, h, e: h + _without(h, s.w)),
    "in a comparison": lambda: Net(lambda s, h, e: torch.where(h > s.w[0], h, 0.1 * h)),
    "in a condition of zeros": lambda: Net(lambda s, h, e: h * (s.w.sum(0) > 0)),
    "set_grad_enabled": lambda: Net(switched_off),
    "enable_grad": lambda: Net(enabled_again),
    "inference_mode": lambda: Net(in_inference_mode),
    "inference_mode of a teacher": lambda: Net(lambda s, h, e: h + s.teacher(h), set_("teacher", Teacher)),
    "sign": lambda: Net(lambda s, h, e: h * torch.sign(s.w[0])),
    "straight through": lambda: Net(straight_through),
    # what is kept and never read, or settles
    "keeps attention": lambda: Net(keeps_attention),
    "shows in a global": lambda: Net(shows_in_a_global),
    "fills a list": lambda: Net(fills_a_list),
    "clears what it kept": lambda: Net(clears_what_it_kept),
    "cached norm": lambda: Net(cached_norm, set_("norm", None)),
    "cached layer": lambda: Net(
        lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.GCNConv(5, 5, cached=True))
    ),
    "lazy and cached": lambda: Net(
        lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.GCNConv(-1, 5, cached=True))
    ),
    "generator that is not drawn from": lambda: Net(
        lambda s, h, e: h @ s.w, set_("rng", lambda: np.random.default_rng(0))
    ),
    "evaluation of a part": lambda: Net(
        lambda s, h, e: s.norm.eval()(h @ s.w), set_("norm", lambda: nn.BatchNorm1d(5))
    ),
    # layers
    "residual": lambda: Net(chain, layers_of(2, lambda: nn.Linear(5, 5))),
    "layers without weights": lambda: Net(chain, layers_of(1, nn.Tanh)),
    "parts by name": lambda: Net(attention, named_parts),
    "batch norm": lambda: Net(lambda s, h, e: s.norm(h @ s.w), set_("norm", lambda: nn.BatchNorm1d(5))),
    "cumulative batch norm": lambda: Net(
        lambda s, h, e: s.norm(h @ s.w), set_("norm", lambda: nn.BatchNorm1d(5, momentum=None))
    ),
    "layer norm": lambda: Net(lambda s, h, e: s.norm(h @ s.w), set_("norm", lambda: nn.LayerNorm(5))),
    "graph norm": lambda: Net(lambda s, h, e: s.norm(h @ s.w), set_("norm", lambda: g.GraphNorm(5))),
    "recurrent": lambda: Net(gru_of_layers, set_("cell", lambda: nn.GRUCell(5, 5))),
    "sequential": lambda: Net(
        lambda s, h, e: s.mlp(h),
        set_("mlp", lambda: nn.Sequential(nn.Linear(5, 4), nn.ELU(), nn.Linear(4, 5))),
    ),
    "sequential of PyG": lambda: Net(
        lambda s, h, e: s.seq(h, e),
        set_("seq", lambda: g.Sequential("x, e", [(g.GCNConv(5, 5), "x, e -> x"), nn.Tanh()])),
    ),
    "checkpoint": lambda: Net(checkpointed),
    "number of an attribute": lambda: Net(scheduled, set_("beta", 0.3)),
    "learned walk": lambda: Net(lambda s, h, e: s.walk(h, e), set_("walk", Walk)),
    "GAT": lambda: Net(
        lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.GATConv(5, 5, heads=2, concat=False))
    ),
    "GATv2": lambda: Net(
        lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.GATv2Conv(5, 5, share_weights=True))
    ),
    "SAGE": lambda: Net(
        lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.SAGEConv(5, 5, normalize=True, project=True))
    ),
    "GIN": lambda: Net(
        lambda s, h, e: s.conv(h, e),
        set_(
            "conv",
            lambda: g.GINConv(nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.ReLU()), train_eps=True),
        ),
    ),
    "APPNP": lambda: Net(lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.APPNP(2, 0.1))),
    "one object": lambda: OnlyTraining(),
    # in place, and sizes
    "in place": lambda: Net(in_place),
    "masked in place": lambda: Net(masked_in_place),
    "sizes": lambda: Net(sizes),
    "self loops": lambda: Of(with_loops),
    "transposed edges": lambda: Net(lambda s, h, e: mean(h, e.flip(0)) @ s.w),
    "jumping": lambda: Net(
        lambda s, h, e: s.jump([h, h @ s.w]), set_("jump", lambda: g.JumpingKnowledge("max"))
    ),
    "positional encoding": lambda: Net(
        lambda s, h, e: h + s.place, lambda s: setattr(s, "place", nn.Parameter(torch.randn(V, 5)))
    ),
}
