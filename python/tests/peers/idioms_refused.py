"""Modules as their authors write them that no program computes: REFUSED, with words of the reason and of the
line."""

from __future__ import annotations

import collections
import functools
import itertools
import random
import sys
import types

import numpy as np
import torch
from idioms import Net, Settings, Teacher, V, set_
from torch import nn
from torch.nn.utils import parametrizations


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

    def counted(s, h, e):
        return h @ s.w * (2 if change(s) > 10 else 1)

    return counted


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

    def counted(s, h, e):
        return h @ s.w * torch.where(change(s) > 30, 2.0, 1.0)

    return counted


def another(s):
    s.log = s.log + 1
    return s.log


def in_its_place(s):
    return s.log.add_(1)


def in_a_list(s):
    s.log[0] = s.log[0] + 1
    return s.log[0]


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
helpers = sys.modules["helpers"] = types.ModuleType("helpers")
exec(
    "CALLS = 0\ndef count():\n    global CALLS\n    CALLS += 1\n    return CALLS\nclass Of:\n    calls = 0\n",
    vars(helpers),
)  # noqa: S102


def of_module(s):
    helpers.CALLS += 1
    return helpers.CALLS


def of_class_in_module(s):
    helpers.Of.calls += 1
    return helpers.Of.calls


def of_module_in_it(s):
    import helpers as other

    return other.count()


class Counter:
    """An object whose method changes another global than the one that forward has by the same name."""

    def count(self):
        return OTHERS.count(self)


OTHERS = types.ModuleType("others")
COUNT = "CALLS = {'n': 0}\ndef count(_):\n    CALLS['n'] += 1\n    return CALLS['n']\n"
exec(COUNT, vars(OTHERS))  # noqa: S102


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
    def branched(s, h, e):
        if condition(h, e):
            h = 2 * h
        return h @ s.w

    return branched


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
    "layer drop": (
        lambda: Net(drops_layer),
        r"if s.training and random.random\(\) < 0.5:.*forward draws random numbers of Python",
    ),
    "layer drop by NumPy": (
        lambda: Net(drops_by_numpy),
        r"np.random.rand\(\) < 0.9 else h: forward draws random numbers",
    ),
    "own generator": (
        lambda: Net(draws_of_its_own, set_("rng", lambda: random.Random(3))),
        rf"s.rng.random\(\) < 2 else h: forward changes rng: .*{KEPT}",
    ),
    "own generator of NumPy": (
        lambda: Net(draws_of_its_own, set_("rng", lambda: np.random.default_rng(3))),
        f"forward changes rng: .*{KEPT}",
    ),
    "coin of PyTorch": (
        lambda: Net(lambda s, h, e: h @ s.w if torch.rand(1) < 0.5 else h),
        "forward's course, or a size, depends on values",
    ),
    # state
    "previous rows": (
        lambda: Net(adds_previous, set_("prev", None)),
        r"s.prev = h.detach\(\): forward changes prev",
    ),
    "number": (lambda: Net(counts_by(number), set_("calls", 0)), "s.calls \\+= 1: forward changes calls"),
    "of a class": (
        lambda: Counting(counts_by(of_class)),
        r"type\(s\).number_of_calls \+= 1: forward changes Counting.number_of_calls",
    ),
    "of another object": (
        lambda: Net(counts_by(of_other), set_("settings", Settings)),
        r"s.settings.step \+= 1: forward changes settings",
    ),
    "list": (lambda: Net(counts_by(of_list), LOG(list)), r"s.log.append\(1\): forward changes log"),
    "list in a list": (lambda: Net(counts_by(of_nested_list), LOG(lambda: [[]])), "forward changes log"),
    "dict": (lambda: Net(counts_by(of_dict), LOG(lambda: {"calls": 0})), "forward changes log"),
    "deque": (
        lambda: Net(counts_by(of_deque), LOG(lambda: collections.deque(range(30)))),
        "forward changes log",
    ),
    "array": (lambda: Net(counts_by(of_array), LOG(lambda: np.zeros(2))), "forward changes log"),
    "set": (lambda: Net(counts_by(of_set), LOG(set)), "forward changes log"),
    "tuple": (lambda: Net(counts_by(of_tuple), LOG((0, "first"))), "forward changes log"),
    "text": (lambda: Net(counts_by(of_text), LOG("")), r"s.log = s.log \+ '?\"?.*: forward changes log"),
    "iterator": (lambda: Net(counts_by(of_iterator), LOG(itertools.count)), "forward changes log"),
    "tensor for later": (
        lambda: Net(ticks_for_later(another), LOG(lambda: torch.zeros(1))),
        r"s.log = s.log \+ 1: forward changes log",
    ),
    "tensor in place for later": (
        lambda: Net(ticks_for_later(in_its_place), LOG(lambda: torch.zeros(1))),
        r"s.log.add_\(1\): forward changes log",
    ),
    "tensor in a list for later": (
        lambda: Net(ticks_for_later(in_a_list), LOG(lambda: [torch.zeros(1)])),
        r"s.log\[0\] = s.log\[0\] \+ 1: forward changes log",
    ),
    "tensor": (lambda: Net(ticks, LOG(lambda: torch.zeros(1))), r"s.log = s.log \+ 1: forward changes log"),
    "moving average": (
        lambda: Net(centred, set_("centre", lambda: torch.zeros(5))),
        "forward changes centre",
    ),
    "global": (lambda: Net(counts_by(of_global)), r"CALLS\[\"n\"\] \+= 1: forward changes CALLS"),
    "of a module": (lambda: Net(counts_by(of_module)), r"helpers.CALLS \+= 1: forward changes helpers.CALLS"),
    "of a function of a module": (lambda: Net(counts_by(lambda s: helpers.count())), "forward changes CALLS"),
    "of a class of a module": (
        lambda: Net(counts_by(of_class_in_module)),
        "forward changes helpers.Of.calls",
    ),
    "of a module that forward imports": (lambda: Net(counts_by(of_module_in_it)), "forward changes CALLS"),
    "of two files by one name": (
        lambda: Net(counts_by(of_same_name), set_("counter", Counter)),
        "forward changes CALLS",
    ),
    "closure": (
        lambda: Net(counts_by(lambda s: s.count()), of_closure),
        "calls \\+= 1: forward changes (calls|count)",
    ),
    "flag": (lambda: Net(flag, set_("first", True)), "s.first = False: forward changes first"),
    "weight that is kept": (lambda: Net(cached_weight, set_("folded", None)), "forward changes folded"),
    "buffer that is replaced": (
        lambda: Net(
            lambda s, h, e: setattr(s, "m", s.m * 2) or h + s.m,
            lambda s: s.register_buffer("m", torch.ones(5)),
        ),
        "forward changes m: ",
    ),
    "buffer in place": (
        lambda: Net(lambda s, h, e: h @ s.w + s.m.add_(1), lambda s: s.register_buffer("m", torch.ones(5))),
        "forward changes m: ",
    ),
    "weight in place": (
        lambda: Net(lambda s, h, e: h @ s.w.data.clamp_(-1, 1)),
        "forward reads or sets .data of a tensor",
    ),
    "spectral norm": (
        lambda: Net(
            lambda s, h, e: s.layer(h), set_("layer", lambda: parametrizations.spectral_norm(nn.Linear(5, 5)))
        ),
        "forward (changes layer.parametrizations.weight.0._u|writes into a parameter or a buffer): ",
    ),
    # parameters of others
    "global parameter": (
        lambda: Net(lambda s, h, e: h @ GLOBAL),
        "a parameter of .5, 5. is read that is none of the module's",
    ),
    "tensor with a gradient": (
        lambda: Net(lambda s, h, e: h @ s.t, set_("t", lambda: torch.randn(5, 5, requires_grad=True))),
        "none of the module's: register it",
    ),
    "tensor of parameters": (
        lambda: Net(lambda s, h, e: h @ s.t, lambda s: setattr(s, "t", s.w.t())),
        "none of the module's",
    ),
    # gradients
    "own gradient": (
        lambda: Net(lambda s, h, e: Doubled.apply(h @ s.w)),
        "Doubled has a gradient of its own",
    ),
    "hook on a gradient": (lambda: Net(gradient_reversed), "a hook changes a gradient"),
    "hook of backward": (
        lambda: Net(lambda s, h, e: s.layer(h), backward_hook),
        "layer has a hook of its backward pass, which is not called: remove it",
    ),
    "teacher that PyTorch refuses": (
        lambda: Net(lambda s, h, e: h @ s.teacher(h).T @ h, set_("teacher", Teacher)),
        "each pair of vertices",
    ),
    "rows of inference in a product": (
        lambda: Net(lambda s, h, e: s.teacher(h) @ s.w, set_("teacher", Teacher)),
        "Inference tensors cannot be saved for backward",
    ),
    "orthogonal weight": (
        lambda: Net(
            lambda s, h, e: s.layer(h),
            set_("layer", lambda: parametrizations.orthogonal(nn.Linear(5, 5), orthogonal_map="householder")),
        ),
        "householder_product is not among a program's operations",
    ),
    # sizes
    "many edges": (
        lambda: Net(branch_on(lambda h, e: e.size(1) > 30000)),
        rf"idioms_refused.py:\d+: if condition\(h, e\):|.*{SIZE}",
    ),
    "many vertices": (lambda: Net(branch_on(lambda h, e: h.shape[0] > 1000)), SIZE),
    "few vertices": (lambda: Net(branch_on(lambda h, e: h.size(0) < 18)), SIZE),
    "edges beside vertices": (lambda: Net(branch_on(lambda h, e: e.size(1) > 4 * h.size(0))), SIZE),
    "odd": (lambda: Net(branch_on(lambda h, e: h.size(0) % 2 == 1)), SIZE),
    "positional buffer": (
        lambda: Net(
            lambda s, h, e: h @ s.w + s.place, lambda s: s.register_buffer("place", torch.randn(V, 5))
        ),
        "a table with a row for each vertex, .* as features",
    ),
    "positional encoding that is frozen": (
        lambda: Net(
            lambda s, h, e: h + s.place,
            lambda s: setattr(s, "place", nn.Parameter(torch.randn(V, 5), requires_grad=False)),
        ),
        "place has a row for each vertex, and is not trained: give its rows as features",
    ),
    "length": (
        lambda: Net(branch_on(lambda h, e: len(h) > 3)),
        r"the number of vertices is a fixed number here, as len\(x\) is: write x.size\(0\)",
    ),
}
