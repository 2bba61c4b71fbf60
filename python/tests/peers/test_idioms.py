"""Modules as their authors write them: each trains as in PyTorch, in float64, or is refused by its line. None in silence.

What a training is given, the program and its initial weights, is stepped by the interpreter of the tests beside the module.
"""

import collections
import contextlib
import copy
import functools
import importlib.util
import itertools
import json
import math
import random
import re
import sys
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as g
from interpreter import Interpreter
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch_geometric.data import Batch, Data
from torch_geometric.utils import add_self_loops, degree, softmax

import weft
from weft import _module, _weights
from weft._copies import copied
from weft._library import is_library
from weft._scratch import Scratch
from weft._trace import trace

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


# ---- those that train


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
    s.layer, s.down, s.up = nn.Linear(5, 5).requires_grad_(False), nn.Parameter(torch.randn(2, 5)), nn.Parameter(torch.randn(5, 2))
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
    s.layer.register_forward_hook(lambda module, given, out: out + given[0] @ s.w)


def forward_pre_hook(s):
    w = s.w
    s.layer = nn.Linear(5, 5)
    s.layer.register_forward_pre_hook(lambda module, given: (given[0] @ w,))


def hook_that_looks(s):
    s.layer, s.seen = nn.Linear(5, 5), {}
    s.layer.register_forward_hook(lambda module, given, out: s.seen.update(out=out))


def hooks_on_messages(s):
    w = s.w
    s.layer = g.SAGEConv(5, 5)
    s.layer.register_message_forward_hook(lambda module, given, out: out @ w)
    s.layer.register_propagate_forward_hook(lambda module, given, out: out + 1)


def helper_object(s):
    s.helper = types.SimpleNamespace(weight=s.w, scale=0.5)


def tied(s):
    s.again = nn.Linear(5, 5, bias=False)
    s.again.weight = s.w


def masked(s):
    s.register_buffer("mask", torch.ones(5, 5).tril())


def layers_of(count, make):
    def of(s):
        s.layers = nn.ModuleList(make() for _ in range(count))

    return of


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


class OnlyTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.norm, self.out = g.GCNConv(WIDTH, 5, cached=True), g.BatchNorm(5), g.GCNConv(5, CLASSES)

    def forward(self, data):
        return self.out(self.norm(self.into(data.x, data.edge_index)).relu(), data.edge_index)


TRAIN = {
    "LINKX": lambda: g.LINKX(V, WIDTH, 5, CLASSES, 1),
    # what functions hold
    "partial": lambda: Net(lambda s, h, e: s.f(h), partial_of),
    "closure of the module": lambda: Net(lambda s, h, e: s.f(h), closure_of),
    "closure of a parameter": lambda: Net(lambda s, h, e: s.f(h), closure_of_tensor),
    "closures in containers": lambda: Net(lambda s, h, e: s.fs["then"][0](s.fs["first"][0](h)), closures_in_containers),
    "default argument": lambda: Net(lambda s, h, e: s.f(h), default_argument),
    "low rank": lambda: Net(lambda s, h, e: s.layer(h), low_rank),
    "bound method": lambda: Net(lambda s, h, e: s.layer(h), bound_method),
    "forward hook": lambda: Net(lambda s, h, e: s.layer(h), forward_hook),
    "forward pre-hook": lambda: Net(lambda s, h, e: s.layer(h), forward_pre_hook),
    "hook that looks": lambda: Net(lambda s, h, e: s.layer(h), hook_that_looks),
    "hooks on messages": lambda: Net(lambda s, h, e: s.layer(h, e), hooks_on_messages),
    "helper object": lambda: Net(lambda s, h, e: h @ s.helper.weight * s.helper.scale, helper_object),
    "list of parameters": lambda: Net(lambda s, h, e: h @ s.ws[0], lambda s: setattr(s, "ws", [s.w])),
    "function of a class": lambda: Net(lambda s, h, e: s.acts[1](h @ s.w), set_("acts", lambda: [F.relu, torch.tanh])),
    # parameters
    "tied": lambda: Net(lambda s, h, e: s.again(h) + h @ s.w, tied),
    "parameter list": lambda: Net(lambda s, h, e: h @ s.ps[0] + s.ps[1], set_("ps", lambda: nn.ParameterList([torch.randn(5, 5), torch.randn(5)]))),
    "parameter dict": lambda: Net(lambda s, h, e: h @ s.ps["a"] + s.ps["b"], set_("ps", lambda: nn.ParameterDict({"a": torch.randn(5, 5), "b": torch.randn(5)}))),
    "masked weight": lambda: Net(lambda s, h, e: h @ (s.w * s.mask), masked),
    "frozen layer": lambda: Net(lambda s, h, e: s.layer(h), set_("layer", lambda: nn.Linear(5, 5).requires_grad_(False))),
    "weight norm": lambda: Net(lambda s, h, e: s.layer(h), set_("layer", lambda: parametrizations.weight_norm(nn.Linear(5, 5)))),
    "weight norm of old": lambda: Net(lambda s, h, e: s.layer(h), old_weight_norm),
    "own parametrization": lambda: Net(lambda s, h, e: h @ s.w, lambda s: parametrize.register_parametrization(s, "w", Zero())),
    "normalised weight": lambda: Net(stochastic_weight),
    "exponent of a scale": lambda: Net(lambda s, h, e: h * s.t.exp(), lambda s: setattr(s, "t", nn.Parameter(torch.zeros(1)))),
    "scalar parameter": lambda: Net(lambda s, h, e: (1 + s.eps) * h + mean(h, e), lambda s: setattr(s, "eps", nn.Parameter(torch.tensor(0.1)))),
    "softmax of weights": lambda: Net(lambda s, h, e: s.a.softmax(0)[0] * h + s.a.softmax(0)[1] * mean(h, e), lambda s: setattr(s, "a", nn.Parameter(torch.zeros(2)))),
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
    "cached layer": lambda: Net(lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.GCNConv(5, 5, cached=True))),
    "lazy and cached": lambda: Net(lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.GCNConv(-1, 5, cached=True))),
    "generator that is not drawn from": lambda: Net(lambda s, h, e: h @ s.w, set_("rng", lambda: np.random.default_rng(0))),
    "evaluation of a part": lambda: Net(lambda s, h, e: s.norm.eval()(h @ s.w), set_("norm", lambda: nn.BatchNorm1d(5))),
    # layers
    "residual": lambda: Net(chain, layers_of(2, lambda: nn.Linear(5, 5))),
    "layers without weights": lambda: Net(chain, layers_of(1, nn.Tanh)),
    "parts by name": lambda: Net(attention, named_parts),
    "batch norm": lambda: Net(lambda s, h, e: s.norm(h @ s.w), set_("norm", lambda: nn.BatchNorm1d(5))),
    "cumulative batch norm": lambda: Net(lambda s, h, e: s.norm(h @ s.w), set_("norm", lambda: nn.BatchNorm1d(5, momentum=None))),
    "layer norm": lambda: Net(lambda s, h, e: s.norm(h @ s.w), set_("norm", lambda: nn.LayerNorm(5))),
    "graph norm": lambda: Net(lambda s, h, e: s.norm(h @ s.w), set_("norm", lambda: g.GraphNorm(5))),
    "recurrent": lambda: Net(gru_of_layers, set_("cell", lambda: nn.GRUCell(5, 5))),
    "sequential": lambda: Net(lambda s, h, e: s.mlp(h), set_("mlp", lambda: nn.Sequential(nn.Linear(5, 4), nn.ELU(), nn.Linear(4, 5)))),
    "sequential of PyG": lambda: Net(lambda s, h, e: s.seq(h, e), set_("seq", lambda: g.Sequential("x, e", [(g.GCNConv(5, 5), "x, e -> x"), nn.Tanh()]))),
    "checkpoint": lambda: Net(checkpointed),
    "number of an attribute": lambda: Net(scheduled, set_("beta", 0.3)),
    "learned walk": lambda: Net(lambda s, h, e: s.walk(h, e), set_("walk", Walk)),
    "GAT": lambda: Net(lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.GATConv(5, 5, heads=2, concat=False))),
    "GATv2": lambda: Net(lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.GATv2Conv(5, 5, share_weights=True))),
    "SAGE": lambda: Net(lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.SAGEConv(5, 5, normalize=True, project=True))),
    "GIN": lambda: Net(lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.GINConv(nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.ReLU()), train_eps=True))),
    "APPNP": lambda: Net(lambda s, h, e: s.conv(h, e), set_("conv", lambda: g.APPNP(2, 0.1))),
    "one object": lambda: OnlyTraining(),
    # in place, and sizes
    "in place": lambda: Net(in_place),
    "masked in place": lambda: Net(masked_in_place),
    "sizes": lambda: Net(sizes),
    "self loops": lambda: Of(with_loops),
    "transposed edges": lambda: Net(lambda s, h, e: mean(h, e.flip(0)) @ s.w),
    "jumping": lambda: Net(lambda s, h, e: s.jump([h, h @ s.w]), set_("jump", lambda: g.JumpingKnowledge("max"))),
    "positional encoding": lambda: Net(lambda s, h, e: h + s.place, lambda s: setattr(s, "place", nn.Parameter(torch.randn(V, 5)))),
}


# ---- those that are refused, with words of the reason and of the line


def drops_layer(s, h, e):
    if s.training and random.random() < 0.5:
        return h
    return h @ s.w


def drops_by_numpy(s, h, e):
    return h @ s.w if s.training and np.random.rand() < 0.9 else h


def draws_of_its_own(s, h, e):
    return h @ s.w if s.rng.random() < 2 else h


def adds_previous(s, h, e):
    h = h @ s.w
    h = h if s.prev is None else h + s.prev
    s.prev = h.detach()
    return h


def counts_by(change):
    """A state that forward changes, and reads after ten calls."""

    def of(s, h, e):
        return h @ s.w * (2 if change(s) > 10 else 1)

    return of


def number(s):
    s.calls += 1
    return s.calls


def of_class(s):
    type(s).number_of_calls += 1
    return s.number_of_calls


class Counting(Net):
    number_of_calls = 0


def of_other(s):
    s.settings.step += 1
    return s.settings.step


def of_list(s):
    s.log.append(1)
    return len(s.log)


def of_nested_list(s):
    s.log[0].append(1)
    return len(s.log[0])


def of_dict(s):
    s.log["calls"] = s.log["calls"] + 1
    return s.log["calls"]


def of_deque(s):
    s.log.rotate(1)
    return s.log[0]


def of_array(s):
    s.log[0] += 1
    return s.log[0]


def of_set(s):
    s.log.add(len(s.log))
    return len(s.log)


def of_tuple(s):
    s.log = (s.log[0] + 1, "later")
    return s.log[0]


def of_text(s):
    s.log = s.log + "."
    return len(s.log)


def of_iterator(s):
    return next(s.log)


def ticks(s, h, e):
    s.log = s.log + 1
    return h @ s.w * s.log


def ticks_for_later(change):
    """By a tensor, which the output is of after thirty calls."""

    def of(s, h, e):
        return h @ s.w * torch.where(change(s) > 30, 2.0, 1.0)

    return of


def another(s):
    s.log = s.log + 1
    return s.log


def in_its_place(s):
    return s.log.add_(1)


def in_a_list(s):
    s.log[0] = s.log[0] + 1
    return s.log[0]


def shows_in_a_global(s, h, e):
    SHOWN["rows"] = h.detach()
    return h @ s.w


SHOWN = {}


def centred(s, h, e):
    """By a moving average, which training writes and evaluation reads."""
    if s.training:
        s.centre = 0.9 * s.centre + 0.1 * h.detach().mean(0)
    return h @ s.w + (s.centre * 0 if s.training else s.centre)


CALLS = {"n": 0}


def of_global(s):
    CALLS["n"] += 1
    return CALLS["n"]


# A file of the user's own beside that of the module.
beside = sys.modules["beside"] = types.ModuleType("beside")
exec("CALLS = 0\ndef count():\n    global CALLS\n    CALLS += 1\n    return CALLS\nclass Of:\n    calls = 0\n", vars(beside))  # noqa: S102


def of_module(s):
    beside.CALLS += 1
    return beside.CALLS


def of_class_in_module(s):
    beside.Of.calls += 1
    return beside.Of.calls


def of_module_in_it(s):
    import beside as other

    return other.count()


class Counter:
    """An object whose method changes another global than the one that forward has by the same name."""

    def count(self):
        return OTHERS.count(self)


OTHERS = types.ModuleType("others")
exec("CALLS = {'n': 0}\ndef count(_):\n    CALLS['n'] += 1\n    return CALLS['n']\n", vars(OTHERS))  # noqa: S102


def of_same_name(s):
    return len(CALLS) * s.counter.count()


def of_closure(s):
    calls = 0

    def count():
        nonlocal calls
        calls += 1
        return calls

    s.count = count


def flag(s, h, e):
    if s.first:
        s.first = False
        return h
    return h @ s.w


def cached_weight(s, h, e):
    if s.folded is None:
        s.folded = (s.w @ s.w).detach()
    return h @ s.folded + h @ s.w


def branch_on(condition):
    def of(s, h, e):
        if condition(h, e):
            h = 2 * h
        return h @ s.w

    return of


GLOBAL = nn.Parameter(torch.randn(5, 5))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def backward_hook(s):
    s.layer = nn.Linear(5, 5)
    s.layer.register_full_backward_hook(lambda module, into, out: (2 * into[0],))


def gradient_reversed(s, h, e):
    h.register_hook(lambda gradient: -gradient)
    return h @ s.w


KEPT = "weft has the statistics of batch norm alone"
SIZE = "forward takes another course at other numbers of vertices or edges"
LOG = functools.partial(set_, "log")
REFUSED = {
    # chance
    "layer drop": (lambda: Net(drops_layer), r"if s.training and random.random\(\) < 0.5:.*forward draws random numbers of Python"),
    "layer drop by NumPy": (lambda: Net(drops_by_numpy), r"np.random.rand\(\) < 0.9 else h: forward draws random numbers"),
    "own generator": (lambda: Net(draws_of_its_own, set_("rng", lambda: random.Random(3))), rf"s.rng.random\(\) < 2 else h: forward changes rng: .*{KEPT}"),
    "own generator of NumPy": (lambda: Net(draws_of_its_own, set_("rng", lambda: np.random.default_rng(3))), f"forward changes rng: .*{KEPT}"),
    "coin of PyTorch": (lambda: Net(lambda s, h, e: h @ s.w if torch.rand(1) < 0.5 else h), "forward's course, or a size, depends on values"),
    # state
    "previous rows": (lambda: Net(adds_previous, set_("prev", None)), r"s.prev = h.detach\(\): forward changes prev"),
    "number": (lambda: Net(counts_by(number), set_("calls", 0)), "s.calls \\+= 1: forward changes calls"),
    "of a class": (lambda: Counting(counts_by(of_class)), r"type\(s\).number_of_calls \+= 1: forward changes Counting.number_of_calls"),
    "of another object": (lambda: Net(counts_by(of_other), set_("settings", Settings)), r"s.settings.step \+= 1: forward changes settings"),
    "list": (lambda: Net(counts_by(of_list), LOG(list)), r"s.log.append\(1\): forward changes log"),
    "list in a list": (lambda: Net(counts_by(of_nested_list), LOG(lambda: [[]])), "forward changes log"),
    "dict": (lambda: Net(counts_by(of_dict), LOG(lambda: {"calls": 0})), "forward changes log"),
    "deque": (lambda: Net(counts_by(of_deque), LOG(lambda: collections.deque(range(30)))), "forward changes log"),
    "array": (lambda: Net(counts_by(of_array), LOG(lambda: np.zeros(2))), "forward changes log"),
    "set": (lambda: Net(counts_by(of_set), LOG(set)), "forward changes log"),
    "tuple": (lambda: Net(counts_by(of_tuple), LOG((0, "first"))), "forward changes log"),
    "text": (lambda: Net(counts_by(of_text), LOG("")), r"s.log = s.log \+ '?\"?.*: forward changes log"),
    "iterator": (lambda: Net(counts_by(of_iterator), LOG(itertools.count)), "forward changes log"),
    "tensor for later": (lambda: Net(ticks_for_later(another), LOG(lambda: torch.zeros(1))), r"s.log = s.log \+ 1: forward changes log"),
    "tensor in place for later": (lambda: Net(ticks_for_later(in_its_place), LOG(lambda: torch.zeros(1))), r"s.log.add_\(1\): forward changes log"),
    "tensor in a list for later": (lambda: Net(ticks_for_later(in_a_list), LOG(lambda: [torch.zeros(1)])), r"s.log\[0\] = s.log\[0\] \+ 1: forward changes log"),
    "tensor": (lambda: Net(ticks, LOG(lambda: torch.zeros(1))), r"s.log = s.log \+ 1: forward changes log"),
    "moving average": (lambda: Net(centred, set_("centre", lambda: torch.zeros(5))), "forward changes centre"),
    "global": (lambda: Net(counts_by(of_global)), r"CALLS\[\"n\"\] \+= 1: forward changes CALLS"),
    "of a module": (lambda: Net(counts_by(of_module)), r"beside.CALLS \+= 1: forward changes beside.CALLS"),
    "of a function of a module": (lambda: Net(counts_by(lambda s: beside.count())), "forward changes CALLS"),
    "of a class of a module": (lambda: Net(counts_by(of_class_in_module)), "forward changes beside.Of.calls"),
    "of a module that forward imports": (lambda: Net(counts_by(of_module_in_it)), "forward changes CALLS"),
    "of two files by one name": (lambda: Net(counts_by(of_same_name), set_("counter", Counter)), "forward changes CALLS"),
    "closure": (lambda: Net(counts_by(lambda s: s.count()), of_closure), "calls \\+= 1: forward changes (calls|count)"),
    "flag": (lambda: Net(flag, set_("first", True)), "s.first = False: forward changes first"),
    "weight that is kept": (lambda: Net(cached_weight, set_("folded", None)), "forward changes folded"),
    "buffer that is replaced": (lambda: Net(lambda s, h, e: setattr(s, "m", s.m * 2) or h + s.m, lambda s: s.register_buffer("m", torch.ones(5))), "forward changes m: "),
    "buffer in place": (lambda: Net(lambda s, h, e: h @ s.w + s.m.add_(1), lambda s: s.register_buffer("m", torch.ones(5))), "forward changes m: "),
    "weight in place": (lambda: Net(lambda s, h, e: h @ s.w.data.clamp_(-1, 1)), "forward reads or sets .data of a tensor"),
    "spectral norm": (lambda: Net(lambda s, h, e: s.layer(h), set_("layer", lambda: parametrizations.spectral_norm(nn.Linear(5, 5)))), "forward (changes layer.parametrizations.weight.0._u|writes into a parameter or a buffer): "),
    # parameters of others
    "global parameter": (lambda: Net(lambda s, h, e: h @ GLOBAL), "a parameter of .5, 5. is read that is none of the module's"),
    "tensor with a gradient": (lambda: Net(lambda s, h, e: h @ s.t, set_("t", lambda: torch.randn(5, 5, requires_grad=True))), "none of the module's: register it"),
    "tensor of parameters": (lambda: Net(lambda s, h, e: h @ s.t, lambda s: setattr(s, "t", s.w.t())), "none of the module's"),
    # gradients
    "own gradient": (lambda: Net(lambda s, h, e: Doubled.apply(h @ s.w)), "Doubled has a gradient of its own"),
    "hook on a gradient": (lambda: Net(gradient_reversed), "a hook changes a gradient"),
    "hook of backward": (lambda: Net(lambda s, h, e: s.layer(h), backward_hook), "layer has a hook of its backward pass, which is not called: remove it"),
    "teacher that PyTorch refuses": (lambda: Net(lambda s, h, e: h @ s.teacher(h).T @ h, set_("teacher", Teacher)), "each pair of vertices"),
    "rows of inference in a product": (lambda: Net(lambda s, h, e: s.teacher(h) @ s.w, set_("teacher", Teacher)), "Inference tensors cannot be saved for backward"),
    "orthogonal weight": (lambda: Net(lambda s, h, e: s.layer(h), set_("layer", lambda: parametrizations.orthogonal(nn.Linear(5, 5), orthogonal_map="householder"))), "householder_product is not among a program's operations"),
    # sizes
    "many edges": (lambda: Net(branch_on(lambda h, e: e.size(1) > 30000)), rf"test_idioms.py:\d+: if condition\(h, e\):|.*{SIZE}"),
    "many vertices": (lambda: Net(branch_on(lambda h, e: h.shape[0] > 1000)), SIZE),
    "few vertices": (lambda: Net(branch_on(lambda h, e: h.size(0) < 18)), SIZE),
    "edges beside vertices": (lambda: Net(branch_on(lambda h, e: e.size(1) > 4 * h.size(0))), SIZE),
    "odd": (lambda: Net(branch_on(lambda h, e: h.size(0) % 2 == 1)), SIZE),
    "positional buffer": (lambda: Net(lambda s, h, e: h @ s.w + s.place, lambda s: s.register_buffer("place", torch.randn(V, 5))), "a table with a row for each vertex, .* as features"),
    "positional encoding that is frozen": (lambda: Net(lambda s, h, e: h + s.place, lambda s: setattr(s, "place", nn.Parameter(torch.randn(V, 5), requires_grad=False))), "place has a row for each vertex, and is not trained: give its rows as features"),
    "length": (lambda: Net(branch_on(lambda h, e: len(h) > 3)), r"the number of vertices is a fixed number here, as len\(x\) is: write x.size\(0\)"),
}


def test_a_hundred():
    assert len(TRAIN) + len(REFUSED) >= 100


@pytest.fixture(scope="module")
def data():
    random = torch.Generator().manual_seed(3)
    edges = torch.randint(V - 2, (2, E), generator=random)
    return {"edge_index": edges, "x": torch.randn(V, WIDTH, generator=random), "y": torch.arange(V) % CLASSES}


@pytest.fixture(scope="module")
def graph(data):
    return weft.Graph(**data)


@contextlib.contextmanager
def given(module, graph, **settings):
    """The program that a training of a module is given, and the weights that it begins with."""
    scratch = Scratch()
    try:
        made, _ = _module.in_place({"model": module, **settings}, [str(graph.store)], scratch)
        yield made["program"].read_text(), {k: torch.from_numpy(v) for k, v in _weights.read(made["init"]).items()}
    finally:
        scratch.close()


class Steps(Interpreter):
    """The interpreter, with tables."""

    def table(self, name):
        return "vertices", self.parameters[name]


def curve(parameters, logits_of, y):
    """The losses of six steps of SGD with momentum and weight decay, as PyTorch's optimizer makes them, and the logits then."""
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.5, weight_decay=0.1)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = F.cross_entropy(logits_of(), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def called(module, data):
    x, e = data["x"].double(), data["edge_index"]
    return lambda: module(Data(x=x, edge_index=e)) if isinstance(module, OnlyTraining) else module(x, e)


@pytest.mark.parametrize("name", TRAIN)
def test_trains(name, data, graph):
    torch.manual_seed(4)
    module = TRAIN[name]()
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    with given(module, graph) as (text, state):
        assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
        lazy = any(map(nn.parameter.is_lazy, module.parameters()))
        if lazy:
            called(module.double(), data)()
        own = copied(module).double().train()
        trained = {p["name"] for p in json.loads(text)["parameters"] if p["trained"]}
        state = dict(own.state_dict()) if lazy else state
        weights = {k: v.detach().clone().double().requires_grad_(k in trained) for k, v in state.items()}
        program, x = Steps(text), data["x"].double()
        ours = curve([weights[k] for k in trained], lambda: program(weights, x, data["edge_index"]), data["y"])
        theirs = curve(own.parameters(), called(own, data), data["y"])
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name, graph):
    make, words = REFUSED[name]
    torch.manual_seed(4)
    with pytest.raises(weft.Refused) as refused, given(make(), graph):
        pass
    said = re.sub(r'"[^"]*": \(lambda: .*\),: ', "", str(refused.value))  # without the line above that has the words
    assert re.search(words, said) and said.startswith("model: ") and "\n" not in said


class OfBatch(Net):
    def forward(self, x, edge_index, batch=None):
        return self.out(self.norm(self.into(x), batch))


class OfData(Net):
    def forward(self, data):
        return self.out(self.norm(self.into(data.x), data.batch))


def normed(kind):
    return kind(None, set_("norm", lambda: g.GraphNorm(5)))


@pytest.mark.parametrize("kind", [OfBatch, OfData])
@pytest.mark.parametrize("as_batch", [False, True])
def test_several_graphs(kind, as_batch, data):
    """Of several graphs a forward that asks which a vertex is of is refused, and one that does not is not."""
    one = Data(**data)
    graphs = weft.Graph.of(Batch.from_data_list([one, one]) if as_batch else [one, one])
    with pytest.raises(weft.Refused, match="forward (takes|reads) batch, and the data are several graphs"), given(normed(kind), graphs):
        pass
    with given(normed(kind), weft.Graph.of(one)):
        pass
    with given(Net(lambda s, h, e: h @ s.w), graphs):
        pass


class OfEdges(Net):
    def forward(self, x, edge_index, edge_attr):
        messages = self.into(x)[edge_index[0]] * self.idiom(edge_attr)
        return self.out(x.new_zeros(x.size(0), 5).index_add(0, edge_index[1], messages))


def test_edge_attr_of_one_dimension(data):
    """edge_attr of one dimension comes as E × 1: what would make E × E of it says so."""
    graph = weft.Graph(**data, edge_attr=torch.rand(E))
    with pytest.raises(weft.Refused, match=r"each pair of edges meets, E × E: .*view\(-1, 1\)"), given(OfEdges(lambda w: w.unsqueeze(-1)), graph):
        pass
    with given(OfEdges(lambda w: w.view(-1, 1)), graph):
        pass


def test_rate_of_0(graph):
    module = Net(lambda s, h, e: h @ s.w)
    with pytest.raises(weft.Refused, match="optimizer: its lr is 0"), given(module, graph, optimizer=torch.optim.SGD(module.parameters(), lr=0)):
        pass


def test_lazy_statistics():
    """The call that gives lazy layers their sizes leaves statistics, and what is in training or evaluation, as they were."""
    torch.manual_seed(4)
    module = Net(lambda s, h, e: s.norm(s.layer(h)), set_("layer", lambda: nn.LazyLinear(5, bias=True)))
    module.norm = nn.Sequential(nn.LazyBatchNorm1d(), nn.BatchNorm1d(5).eval())
    state = trace(module, features=WIDTH).state
    for k in range(2):
        np.testing.assert_array_equal(state[f"norm.{k}.running_mean"], np.zeros(5))
        np.testing.assert_array_equal(state[f"norm.{k}.running_var"], np.ones(5))
    assert module.norm.training and not module.norm[1].training


def stray(path):
    """A module of a file of the user's own below a folder that is called as a library."""
    (path / "weft" / "torch").mkdir(parents=True)
    (path / "weft" / "torch" / "own.py").write_text(
        "from torch import nn\n"
        "class Own(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer, self.calls = nn.Linear(6, 3), 0\n"
        "    def forward(self, x, edge_index):\n"
        "        self.calls += 1\n"
        "        return self.layer(x) * (2 if self.calls > 10 else 1)\n"
    )
    spec = importlib.util.spec_from_file_location("own", path / "weft" / "torch" / "own.py")
    sys.modules["own"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_folders_of_the_user(tmp_path, graph):
    """What is a library is decided by its package, and not by the names of folders above a file."""
    own = stray(tmp_path)
    with pytest.raises(weft.Refused, match=r"own.py:7: self.calls \+= 1: forward changes calls"), given(own.Own(), graph):
        pass
    assert not is_library("own") and not is_library("test_idioms") and not is_library("pytest")
    assert all(map(is_library, ("builtins", "weft._trace", "torch._C", "torch_geometric.nn", "numpy.random.mtrand", "inspect", "collections.abc")))


@pytest.mark.parametrize("switch", [torch.no_grad, torch.inference_mode])
def test_under(switch, data, graph):
    """A session that has switched gradients off trains the same."""
    settings = {"loss": lambda z, y: F.cross_entropy(z, y), "regularization": lambda m: m.w.square().sum()}

    def program():
        torch.manual_seed(4)
        with given(Net(lambda s, h, e: h @ s.w), graph, **settings) as (text, state):
            return text, {name: value.tolist() for name, value in state.items()}

    wanted = program()
    with switch():
        assert program() == wanted


class Drawing(nn.Linear):
    """Which draws when it is copied, as layers of older versions of PyG do."""

    def __deepcopy__(self, memo):
        made = Drawing(self.in_features, self.out_features)
        made.load_state_dict(self.state_dict())
        return made


def test_generators_stay(graph):
    """No copy that is made for a training, or of its module, draws from the user's generator."""
    module = Net(lambda s, h, e: s.layer(h) @ s.w, set_("layer", lambda: Drawing(5, 5)))
    torch.manual_seed(4)
    wanted = torch.rand(3).tolist()
    torch.manual_seed(4)
    settings = {"epochs": 1, "split": "random:60/20/20", "progress": False}
    run = weft.train(graph, model=module, regularization=lambda m: m.w.square().sum() + m.layer.weight.sum(), **settings)
    run.module()
    assert torch.rand(3).tolist() == wanted


def test_seeds_no_card(graph, monkeypatch):
    """PyTorch's generators on cards are left alone."""
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("seeds cards"))
    with given(Net(lambda s, h, e: h @ s.w), graph):
        pass


def test_comes_back(data, graph):
    """The module of a run has the trained weights in its closures, too, and shares nothing with the one that was given."""
    module = Net(lambda s, h, e: s.f(h), closure_of)
    kept = copy.deepcopy(module.state_dict())
    run = weft.train(graph, model=module, epochs=3, lr=0.1, split="random:60/20/20", out="run", progress=False)
    trained = run.module().eval()
    with torch.no_grad():
        np.testing.assert_allclose(trained(data["x"], data["edge_index"]).numpy(), run.logits, atol=1e-5)
    assert not torch.equal(trained.w, kept["w"]) and all(torch.equal(v, kept[k]) for k, v in module.state_dict().items())
